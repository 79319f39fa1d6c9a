/* Requests and replies are lost, cut, late or slow; messages do not come. */
#include "fault/fault.h"

#define ENDLESS_MS 60000

/* A lease that does not end within the test, so that whatever goes away was
 * given back. */
static hf_acquire_options long_lease(int64_t wait_ms)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.lease_ms = ENDLESS_MS;
    options.wait_ms = wait_ms;
    return options;
}

/* A client through the proxy, over a TCP connection that has been used, so
 * that the next bytes are those of the test; command time-out 300. */
static hf_client *open_behind(fault *f)
{
    hf_client_options options = fault_options();
    options.command_timeout_ms = 300;
    hf_client *client = fault_open(f, proxy_tcp_url(f->net), &options);
    fault_cycle(f, client, "warm");
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG RESETSTAT"));
    return client;
}

/* F8: the request is lost. A wait tries again, by itself. */
static void test_request_lost(void **state)
{
    fault *f = *state;
    hf_client *client = open_behind(f);
    hf_lock *lock = fault_lock(f, client, "lost");
    proxy_set(f->net, PROXY_TO_SERVER, PROXY_DROP_NEXT);
    hf_lease *lease = fault_take(f, lock);
    assert_true(proxy_counts(f->net).dropped[PROXY_TO_SERVER] > 0);
    fault_expect_count(f, "lost", lease, "1");
    fault_give(f, lease);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS lost"));
}

/* F9: the reply is lost: exactly one hold afterwards, and one release ends
 * it. `again` makes it a second acquisition by the same owner. */
static void lose_reply_of_acquire(fault *f, bool again)
{
    hf_client *client = open_behind(f);
    hf_lock *lock = fault_lock(f, client, "applied");
    hf_acquire_options options = long_lease(TEST_LIMIT_MS);
    hf_lease *first = again ? fault_take_with(f, lock, &options) : NULL;
    long long before = fault_calls(f, "hset") + fault_calls(f, "hincrby");
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_DROP_NEXT);
    hf_lease *lease = fault_take_with(f, lock, &options);
    assert_true(proxy_counts(f->net).dropped[PROXY_TO_CLIENT] > 0);
    /* It was applied twice, and once taken back. */
    assert_true(fault_calls(f, "hset") + fault_calls(f, "hincrby") >=
                before + 2);
    fault_expect_count(f, "applied", lease, again ? "2" : "1");
    fault_give(f, lease);
    if (again) {
        fault_expect_count(f, "applied", first, "1");
        fault_give(f, first);
    }
    assert_true(srv_cmd_is(f->server, "0", "EXISTS applied"));
}

static void test_reply_of_acquire_lost(void **state)
{
    lose_reply_of_acquire(*state, false);
}

static void test_reply_of_reentry_lost(void **state)
{
    lose_reply_of_acquire(*state, true);
}

/* F9: the lock was taken away, and the reply to the owner's next acquire is
 * lost: what was lost is told, and not taken for what the server has given
 * since. */
static void test_reply_lost_after_a_loss(void **state)
{
    fault *f = *state;
    hf_client *client = open_behind(f);
    hf_lock *lock = fault_lock(f, client, "applied");
    hf_acquire_options options = long_lease(TEST_LIMIT_MS);
    hf_lease *first = fault_take_with(f, lock, &options);
    assert_true(srv_cmd_is(f->server, "1", "DEL applied"));
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_DROP_NEXT);
    hf_lease *second = fault_take_with(f, lock, &options);
    assert_true(proxy_counts(f->net).dropped[PROXY_TO_CLIENT] > 0);
    assert_int_equal(hf_lease_get_state(first), HF_LEASE_LOST);
    assert_int_equal(hf_lease_loss(first), HF_LOSS_REVOKED);
    fault_expect_count(f, "applied", second, "1");
    fault_give(f, second);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS applied"));
}

/* F9: a single try does not wait for a second saying; what the lost reply has
 * granted is given back. */
static void test_reply_of_try_lost(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    hf_client *client = open_behind(f);
    hf_acquire_options options = long_lease(0);
    hf_lock *lock = fault_lock(f, client, "tried");
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_DROP_NEXT);
    assert_int_equal(hf_lock_acquire_with(lock, &options, NULL, &err),
                     HF_EUNREACHABLE);
    assert_true(hf_error_is_retriable(&err));
    assert_int_equal(fault_calls(f, "hset"), 1);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS tried"));
}

/* F14: a whole, well-formed reply that nobody asked for, on a connection on
 * which nothing is due, is not taken for the reply to what is said next. */
static void test_reply_out_of_thin_air(void **state)
{
    static const char *const replies[] = {"$-1\r\n", ":-2\r\n", "*1\r\n:1\r\n"};
    fault *f = *state;
    assert_true(srv_cmd_is(f->server, "1", "HSET other uuid:7 1"));
    assert_true(srv_cmd_is(f->server, "1", "PEXPIRE other 60000"));
    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        hf_error err = HF_ERROR_INIT;
        hf_client *client = open_behind(f);
        hf_lock *lock = fault_lock(f, client, "other");
        proxy_count before = proxy_counts(f->net);
        proxy_inject(f->net, PROXY_TO_CLIENT, replies[i], strlen(replies[i]));
        assert_true(proxy_wait_passed(f->net, PROXY_TO_CLIENT,
                                      before.passed[PROXY_TO_CLIENT] +
                                          strlen(replies[i]) * before.open));
        int64_t idle_from = test_now_ms() + 2;
        while (test_now_ms() < idle_from && test_pause(idle_from)) {
        }
        assert_int_equal(hf_lock_try(lock, NULL, &err), HF_NOT_ACQUIRED);
        assert_true(proxy_wait_connections(f->net, before.connections + 1));
        fault_cycle(f, client, "well again");
    }
}

/* Cuts the connections when the reply to what was just said is on its way. */
static void cut_reply(fault *f, size_t seen_before)
{
    assert_true(proxy_wait_seen(f->net, PROXY_TO_CLIENT, seen_before + 1));
    proxy_reset(f->net);
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_PASS);
}

/* F9, F10: it does get over a connection that is cut. */
static void test_try_over_a_cut(void **state)
{
    fault *f = *state;
    hf_client *client = open_behind(f);
    hf_acquire_options options = long_lease(0);
    taker t;
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_HOLD);
    size_t seen = proxy_counts(f->net).seen[PROXY_TO_CLIENT];
    taker_start_with(&t, fault_lock(f, client, "tried"), &options);
    cut_reply(f, seen);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_expect_count(f, "tried", t.lease, "1");
    fault_give(f, t.lease);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS tried"));
}

static void *force(void *arg)
{
    hf_status status = hf_lock_force_release(arg, NULL, NULL);
    return status == HF_EUNKNOWN ? arg : NULL;
}

/* F9: a forced release is not said again, for what it would delete then may be
 * the next holder's. */
static void test_reply_of_force_lost(void **state)
{
    fault *f = *state;
    pthread_t thread;
    void *unknown = NULL;
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_client *client = open_behind(f);
    hf_lock *lock = fault_lock(f, client, "forced");
    /* The server has the script from here on. */
    assert_int_equal(hf_lock_force_release(lock, NULL, NULL), HF_OK);
    hf_lease *lost = fault_take(f, fault_lock(f, holder, "forced"));
    long long before = fault_calls(f, "del");
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_HOLD);
    size_t seen = proxy_counts(f->net).seen[PROXY_TO_CLIENT];
    assert_int_equal(pthread_create(&thread, NULL, force, lock), 0);
    cut_reply(f, seen);
    (void)pthread_join(thread, &unknown);
    assert_non_null(unknown);
    assert_int_equal(hf_client_ping(client, NULL), HF_OK);
    assert_int_equal(fault_calls(f, "del"), before + 1);
    assert_becomes(hf_lease_get_state(lost) == HF_LEASE_LOST);
}

static void *give(void *arg)
{
    hf_lease *lease = arg;
    return hf_lease_release(lease, NULL) == HF_OK ? lease : NULL;
}

/* F9: the reply to a release is lost: said again, it counts once. */
static void test_reply_of_release_lost(void **state)
{
    fault *f = *state;
    hf_acquire_options options = long_lease(0);
    hf_client *client = fault_open(f, proxy_tcp_url(f->net), NULL);
    hf_lock *lock = fault_lock(f, client, "given");
    hf_lease *leases[3];
    for (int i = 0; i < 3; i++) {
        leases[i] = fault_take_with(f, lock, &options);
    }
    for (int i = 2; i >= 0; i--) {
        pthread_t thread;
        void *given = NULL;
        proxy_set(f->net, PROXY_TO_CLIENT, PROXY_HOLD);
        size_t seen = proxy_counts(f->net).seen[PROXY_TO_CLIENT];
        assert_int_equal(pthread_create(&thread, NULL, give, leases[i]), 0);
        cut_reply(f, seen);
        (void)pthread_join(thread, &given);
        assert_ptr_equal(given, leases[i]);
        if (i > 0) {
            fault_expect_count(f, "given", leases[0], i == 2 ? "2" : "1");
        }
    }
    assert_true(srv_cmd_is(f->server, "0", "EXISTS given"));
}

/* F10: the connection is reset in the middle of a reply. */
static void test_reset_in_mid_reply(void **state)
{
    fault *f = *state;
    hf_client *client = open_behind(f);
    hf_lock *lock = fault_lock(f, client, "reset");
    for (size_t piece = 0; piece < 5; piece++) {
        hf_acquire_options options = long_lease(TEST_LIMIT_MS);
        taker t;
        proxy_set(f->net, PROXY_TO_CLIENT, PROXY_HOLD);
        proxy_count before = proxy_counts(f->net);
        taker_start_with(&t, lock, &options);
        assert_true(proxy_wait_seen(f->net, PROXY_TO_CLIENT,
                                    before.seen[PROXY_TO_CLIENT] + 5));
        proxy_leak(f->net, PROXY_TO_CLIENT, piece);
        assert_true(proxy_wait_passed(f->net, PROXY_TO_CLIENT,
                                      before.passed[PROXY_TO_CLIENT] + piece));
        proxy_reset(f->net);
        proxy_set(f->net, PROXY_TO_CLIENT, PROXY_PASS);
        assert_int_equal(taker_end(f, &t), HF_OK);
        fault_expect_count(f, "reset", t.lease, "1");
        fault_give(f, t.lease);
        assert_true(srv_cmd_is(f->server, "0", "EXISTS reset"));
    }
}

/* F11: nothing comes through any more, in either direction, and no connection
 * is closed: noticed within the command time-out; the lease is lost in time,
 * and all is well when the network is. */
static void test_half_open(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_error err = HF_ERROR_INIT;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = &note;
    hf_client *client = open_behind(f);
    hf_lock *lock = fault_lock(f, client, "half");
    hf_lease *lease = fault_take_with(f, lock, &options);
    proxy_set(f->net, PROXY_TO_SERVER, PROXY_DROP);
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_DROP);
    assert_int_equal(hf_client_ping(client, &err), HF_EUNREACHABLE);
    assert_becomes(atomic_load(&note.count) == 1);
    assert_int_equal(hf_lock_acquire(lock, 100, NULL, &err), HF_EUNREACHABLE);
    assert_true(hf_error_is_retriable(&err));
    proxy_set(f->net, PROXY_TO_SERVER, PROXY_PASS);
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_PASS);
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
    fault_give(f, fault_take(f, lock));
}

/* F12: every byte by itself, both ways. */
static void test_byte_by_byte(void **state)
{
    fault *f = *state;
    proxy_set(f->net, PROXY_TO_SERVER, PROXY_TRICKLE);
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_TRICKLE);
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = 3000;
    hf_client *client = fault_open(f, proxy_tcp_url(f->net), &options);
    hf_lock *lock = fault_lock(f, client, "slow");
    hf_lease *lease = fault_take(f, lock);
    taker t;
    hf_owner *owner = hf_owner_new(client, NULL);
    hf_acquire_options as_other = long_lease(TEST_LIMIT_MS);
    as_other.owner = owner;
    taker_start_with(&t, lock, &as_other);
    assert_true(fault_subscribed(f, "slow", 1));
    fault_give(f, lease);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
    hf_owner_free(owner);
}

/* F13: replies later than a third of the lease, but not than the lease. */
static void test_latency_spike(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_client_options patient = fault_options();
    patient.watchdog_lease_ms = 3000;
    patient.command_timeout_ms = 10000;
    hf_client *client = fault_open(f, proxy_tcp_url(f->net), &patient);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = &note;
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, client, "spike"), &options);
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_HOLD);
    assert_becomes(hf_lease_remaining_ms(lease) < 1600);
    assert_true(hf_lease_is_held(lease));
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_PASS);
    assert_becomes(hf_lease_remaining_ms(lease) > 1700);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    assert_int_equal(atomic_load(&note.count), 0);
    fault_give(f, lease);
}

/* R1: what counts is when a renewal was sent, not when its reply comes. */
static void test_late_reply_promises_less(void **state)
{
    fault *f = *state;
    hf_client_options patient = fault_options();
    patient.command_timeout_ms = 10000;
    hf_client *client = fault_open(f, proxy_tcp_url(f->net), &patient);
    hf_lock *lock = fault_lock(f, client, "late");
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.lease_ms = 2000;
    options.wait_ms = TEST_LIMIT_MS;
    fault_cycle(f, client, "late");
    taker t;
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_HOLD);
    size_t seen = proxy_counts(f->net).seen[PROXY_TO_SERVER];
    taker_start_with(&t, lock, &options);
    assert_true(proxy_wait_seen(f->net, PROXY_TO_SERVER, seen + 1));
    int64_t sent_by = test_now_ms();
    assert_becomes(test_now_ms() >= sent_by + 500);
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_PASS);
    assert_int_equal(taker_end(f, &t), HF_OK);
    int64_t left = hf_lease_remaining_ms(t.lease);
    assert_true(left <= sent_by + 2000 - test_now_ms() + 1);
    fault_give(f, t.lease);
}

/* ---- messages */

/* F33: the subscriber's connection is cut, and the release's message with it:
 * every waiter looks for itself. */
static void test_subscriber_cut(void **state)
{
    fault *f = *state;
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    hf_acquire_options terms = long_lease(0);
    hf_lock *lock = fault_lock(f, other, "cut");
    (void)fault_take_with(f, fault_lock(f, holder, "cut"), &terms);
    taker t;
    taker_start(&t, lock, TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "cut", 1));
    free(srv_cmd(f->server, "MULTI"));
    free(srv_cmd(f->server, "CLIENT KILL TYPE pubsub"));
    free(srv_cmd(f->server, "DEL cut"));
    free(srv_cmd(f->server, "PUBLISH redisson_lock__channel:{cut} 0"));
    assert_true(srv_cmd_is(f->server, "1 1 0", "EXEC"));
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
}

/* F33: cut again and again; the message that counts comes through. */
static void test_subscriber_cut_often(void **state)
{
    fault *f = *state;
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    hf_acquire_options terms = long_lease(0);
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, holder, "often"), &terms);
    taker t[3];
    for (int i = 0; i < 3; i++) {
        taker_start(&t[i], fault_lock(f, other, "often"), TEST_LIMIT_MS);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(fault_subscribed(f, "often", 1));
        free(srv_cmd(f->server, "CLIENT KILL TYPE pubsub"));
    }
    assert_true(fault_subscribed(f, "often", 1));
    fault_give(f, lease);
    int granted = 0;
    while (granted < 3) {
        int before = granted;
        for (int i = 0; i < 3; i++) {
            if (t[i].lock && atomic_load(&t[i].done)) {
                assert_int_equal(taker_end(f, &t[i]), HF_OK);
                fault_give(f, t[i].lease);
                t[i].lock = NULL;
                granted++;
            }
        }
        assert_true(granted > before || test_pause(INT64_MAX));
    }
}

/* F34: released after a waiter's try and before its SUBSCRIBE: no message
 * comes, so the subscribed waiter must try once more. */
static void test_released_before_subscribing(void **state)
{
    fault *f = *state;
    hf_acquire_options terms = long_lease(0);
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_client *other = fault_open(f, proxy_tcp_url(f->net), NULL);
    fault_cycle(f, other, "gap");
    hf_lease *lease = fault_take_with(f, fault_lock(f, holder, "gap"), &terms);
    hf_lock *lock = fault_lock(f, other, "gap");
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_HOLD);
    size_t seen = proxy_counts(f->net).seen[PROXY_TO_CLIENT];
    taker t;
    taker_start(&t, lock, TEST_LIMIT_MS);
    assert_true(proxy_wait_seen(f->net, PROXY_TO_CLIENT, seen + 1));
    fault_give(f, lease);
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_PASS);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST_NET(test_request_lost),
        FAULT_TEST_NET(test_reply_of_acquire_lost),
        FAULT_TEST_NET(test_reply_of_reentry_lost),
        FAULT_TEST_NET(test_reply_out_of_thin_air),
        FAULT_TEST_NET(test_reply_lost_after_a_loss),
        FAULT_TEST_NET(test_reply_of_try_lost),
        FAULT_TEST_NET(test_try_over_a_cut),
        FAULT_TEST_NET(test_reply_of_force_lost),
        FAULT_TEST_NET(test_reply_of_release_lost),
        FAULT_TEST_NET(test_reset_in_mid_reply),
        FAULT_TEST_NET(test_half_open),
        FAULT_TEST_NET(test_byte_by_byte),
        FAULT_TEST_NET(test_latency_spike),
        FAULT_TEST_NET(test_late_reply_promises_less),
        FAULT_TEST(test_subscriber_cut),
        FAULT_TEST(test_subscriber_cut_often),
        FAULT_TEST_NET(test_released_before_subscribing),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
