/* F12, F13: replies and messages are split, slow or late. */
#include "fault/fault.h"

#include <stdio.h>

#define ENDLESS_MS 60000
/* Beyond what a time-out dictates; a busy machine is slow. */
#define SLACK_MS 5000
/* At least so long are a hash with one owner, and a message. */
#define REPLY_LENGTH 55
#define MESSAGE_LENGTH 60

static hf_acquire_options long_lease(int64_t wait_ms)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.lease_ms = ENDLESS_MS;
    options.wait_ms = wait_ms;
    return options;
}

/* Over TCP through the proxy, with a connection that has been used. */
static hf_client *open_behind(fault *f, int64_t watchdog_ms,
                              int64_t command_timeout_ms)
{
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = watchdog_ms;
    options.command_timeout_ms = command_timeout_ms;
    hf_client *client = fault_open(f, proxy_tcp_url(f->net), &options);
    fault_cycle(f, client, "warm");
    return client;
}

/* ---- F12: split anywhere */

typedef struct question {
    hf_lock *lock;
    hf_status status;
    int64_t count;
    int64_t remaining;
} question;

static int note_lock(void *arg, const hf_lock_info *info)
{
    question *q = arg;
    q->count = info->hold_count;
    q->remaining = info->remaining_ms;
    return 0;
}

static void *ask(void *arg)
{
    question *q = arg;
    q->status = hf_lock_inspect(q->lock, note_lock, q, NULL);
    return NULL;
}

/* Of what comes next for a client, so many bytes are handed on by
 * themselves, and then the rest. */
static void split_next(fault *f, size_t first, proxy_count before)
{
    assert_true(proxy_wait_seen(f->net, PROXY_TO_CLIENT,
                                before.seen[PROXY_TO_CLIENT] + first + 1));
    proxy_leak(f->net, PROXY_TO_CLIENT, first);
    assert_true(proxy_wait_passed(f->net, PROXY_TO_CLIENT,
                                  before.passed[PROXY_TO_CLIENT] + first));
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_PASS);
}

/* A lock as the server lists it, an array of strings, split at every byte. */
static void test_reply_split_anywhere(void **state)
{
    fault *f = *state;
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_client *client = open_behind(f, ENDLESS_MS, TEST_LIMIT_MS);
    hf_acquire_options terms = long_lease(0);
    (void)fault_take_with(f, fault_lock(f, holder, "split"), &terms);
    question q = {.lock = fault_lock(f, client, "split")};
    for (size_t first = 1; first < REPLY_LENGTH; first++) {
        pthread_t thread;
        proxy_set(f->net, PROXY_TO_CLIENT, PROXY_HOLD);
        proxy_count before = proxy_counts(f->net);
        q.count = q.remaining = 0;
        assert_int_equal(pthread_create(&thread, NULL, ask, &q), 0);
        split_next(f, first, before);
        (void)pthread_join(thread, NULL);
        assert_int_equal(q.status, HF_OK);
        assert_int_equal(q.count, 1);
        assert_in_range(q.remaining, 1, ENDLESS_MS);
    }
    assert_int_equal(proxy_counts(f->net).connections, 1);
}

/* The waiter has tried in vain before and after its subscribing, and waits for
 * nothing but the message. */
static void hand_over_split(fault *f, hf_lease *lease, hf_lock *to,
                            size_t first)
{
    taker t;
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG RESETSTAT"));
    taker_start(&t, to, TEST_LIMIT_MS);
    assert_becomes(fault_calls(f, "evalsha") == 2);
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_HOLD);
    proxy_count before = proxy_counts(f->net);
    fault_give(f, lease);
    split_next(f, first, before);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
}

/* A release's message, split at every byte, wakes the waiter all the same. */
static void test_message_split_anywhere(void **state)
{
    fault *f = *state;
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_client *client = open_behind(f, ENDLESS_MS, TEST_LIMIT_MS);
    hf_acquire_options terms = long_lease(0);
    for (size_t first = 1; first < MESSAGE_LENGTH; first++) {
        char *name = test_text("split:%zu", first);
        hf_lock *theirs = hf_lock_open(holder, name, NULL);
        hf_lock *ours = hf_lock_open(client, name, NULL);
        hand_over_split(f, fault_take_with(f, theirs, &terms), ours, first);
        hf_lock_free(theirs);
        hf_lock_free(ours);
        free(name);
    }
}

/* ---- F12: one byte, and the next one much later */

/* The server is never silent for long, and yet the reply does not come in
 * time: the acquire ends when its time is up, and leaves nothing behind. */
static void test_trickle_outlasts_the_wait(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    hf_client *client = open_behind(f, ENDLESS_MS, 1000);
    hf_lock *lock = fault_lock(f, client, "trickle");
    hf_acquire_options options = long_lease(600);
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_TRICKLE);
    proxy_pace(f->net, PROXY_TO_CLIENT, 300);
    int64_t before = test_now_ms();
    assert_int_equal(hf_lock_acquire_with(lock, &options, NULL, &err),
                     HF_EUNREACHABLE);
    assert_in_range(test_now_ms() - before, 600, 600 + SLACK_MS);
    proxy_pace(f->net, PROXY_TO_CLIENT, 0);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS trickle"));
    fault_give(f, fault_take(f, lock));
}

/* The renewals' replies never get ready: lost at the deadline. */
static void test_trickle_outlasts_the_lease(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_client *client = open_behind(f, 1000, 1000);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = &note;
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, client, "trickle"), &options);
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_TRICKLE);
    proxy_pace(f->net, PROXY_TO_CLIENT, 400);
    assert_becomes(atomic_load(&note.count) == 1);
    assert_int_equal(atomic_load(&note.why), HF_LOSS_EXPIRED);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    proxy_pace(f->net, PROXY_TO_CLIENT, 0);
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
}

/* ---- F13: late */

/* Each reply comes later than a third of the lease: renewed all the same, and
 * what is promised counts from the sending. */
static void test_always_late(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_client *client = open_behind(f, 3000, 10000);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = &note;
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, client, "late"), &options);
    assert_true(fault_renewed(lease, 1)); /* the server has the script */
    proxy_delay(f->net, PROXY_TO_CLIENT, 1100);
    long long before = fault_calls(f, "pexpire");
    long long sent = 0;
    while ((sent = fault_calls(f, "pexpire") - before) < 4) {
        int64_t left = hf_lease_remaining_ms(lease);
        assert_true(left <= (sent < 2 ? 3000 : 3000 - 1100));
        assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
        (void)test_pause(INT64_MAX);
    }
    assert_int_equal(atomic_load(&note.count), 0);
    fault_expect_count(f, "late", lease, "1");
    proxy_delay(f->net, PROXY_TO_CLIENT, 0);
    fault_give(f, lease);
}

/* Later than the command time-out: suspect, no loss before the deadline, and
 * held again when the network is quick again. */
static void test_too_late(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_client *client = open_behind(f, 6000, 300);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = &note;
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, client, "late"), &options);
    proxy_delay(f->net, PROXY_TO_CLIENT, 600);
    assert_becomes(hf_lease_get_state(lease) == HF_LEASE_SUSPECT);
    assert_true(hf_lease_is_held(lease));
    proxy_delay(f->net, PROXY_TO_CLIENT, 0);
    assert_becomes(hf_lease_get_state(lease) == HF_LEASE_HELD);
    assert_int_equal(atomic_load(&note.count), 0);
    fault_expect_count(f, "late", lease, "1");
    fault_give(f, lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST_NET(test_reply_split_anywhere),
        FAULT_TEST_NET(test_message_split_anywhere),
        FAULT_TEST_NET(test_trickle_outlasts_the_wait),
        FAULT_TEST_NET(test_trickle_outlasts_the_lease),
        FAULT_TEST_NET(test_always_late),
        FAULT_TEST_NET(test_too_late),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
