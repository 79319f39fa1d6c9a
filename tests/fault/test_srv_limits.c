/* F21, F35: the server enforces its limits: it evicts locks, and closes
 * subscribers that do not keep up. */
#include "fault/fault.h"

#include <signal.h>
#include <stdio.h>

/* ---- F21: memory */

/* The lock is evicted: its holder is told at the next renewal, and its release
 * touches nothing; a second holder in between is left alone. */
static void lose_by_eviction(fault *f, const char *policy)
{
    loss_note note = {0};
    hf_acquire_options noting = HF_ACQUIRE_OPTIONS_INIT;
    noting.on_lost = loss_note_take;
    noting.on_lost_arg = &note;
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = 3000;
    hf_client *client = fault_open(f, srv_url(f->server), &options);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, client, "evicted"), &noting);
    assert_true(
        srv_cmd_is(f->server, "OK", "CONFIG SET maxmemory-policy %s", policy));
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG SET maxmemory 1"));
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS evicted"));
    assert_true(fault_info(f, "evicted_keys") >= 1);
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG SET maxmemory 0"));

    hf_lease *next = fault_take(f, fault_lock(f, other, "evicted"));
    assert_becomes(atomic_load(&note.count) == 1);
    assert_int_equal(atomic_load(&note.why), HF_LOSS_REVOKED);
    assert_false(hf_lease_is_held(lease));
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
    fault_expect_count(f, "evicted", next, "1");
    fault_give(f, next);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS evicted"));
}

static void test_evicted_as_any_key(void **state)
{
    lose_by_eviction(*state, "allkeys-lru");
}

/* A lock has a time to live, and so is one of those that may go. */
static void test_evicted_for_its_time_to_live(void **state)
{
    lose_by_eviction(*state, "volatile-ttl");
}

/* ---- F35: output buffers */

#define CHANNEL "redisson_lock__channel:{slow}"

static void limit_output(fault *f)
{
    assert_true(srv_cmd_is(f->server, "OK",
                           "CONFIG SET client-output-buffer-limit %s",
                           "pubsub 32768 0 0"));
}

static hf_acquire_options long_lease(void)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.lease_ms = 120000;
    options.wait_ms = TEST_LIMIT_MS;
    return options;
}

static long long publish(fault *f, const char *bytes, size_t length)
{
    return srv_cmd_int(f->server, "PUBLISH %s %b", CHANNEL, bytes, length);
}

/* The waiter has subscribed, and tried once more: all that is left to it is to
 * sleep. The probe asks for the time to live, too. */
static void expect_parked(fault *f)
{
    assert_true(fault_subscribed(f, "slow", 1));
    assert_becomes(fault_calls(f, "pttl") >= 3);
}

/* One message beyond the limit closes the subscriber's connection; the lock is
 * deleted in the same instant, and no message tells of it. The waiter looks
 * for itself; the next one hears messages again. */
static void test_message_beyond_the_limit(void **state)
{
    static char big[64 * 1024];
    fault *f = *state;
    hf_acquire_options terms = long_lease();
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    hf_lock *lock = fault_lock(f, other, "slow");
    hf_lock *held = fault_lock(f, holder, "slow");
    (void)fault_take_with(f, held, &terms);
    limit_output(f);
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG RESETSTAT"));
    taker t;
    taker_start_with(&t, lock, &terms);
    expect_parked(f);
    memset(big, 'x', sizeof(big));
    free(srv_cmd(f->server, "MULTI"));
    free(srv_cmd(f->server, "PUBLISH %s %b", CHANNEL, big, sizeof(big)));
    free(srv_cmd(f->server, "DEL slow"));
    free(srv_cmd(f->server, "EXEC"));
    assert_int_equal(taker_end(f, &t), HF_OK);

    taker again;
    taker_start_with(&again, held, &terms);
    assert_true(fault_subscribed(f, "slow", 1));
    fault_give(f, t.lease);
    assert_int_equal(taker_end(f, &again), HF_OK);
    fault_give(f, again.lease);
}

static int wait_for_lock(const fault *f, int in, int out)
{
    hf_client_options options = fault_options();
    hf_client *client = hf_client_open(srv_url(f->server), &options, NULL);
    hf_lock *lock = client ? hf_lock_open(client, "slow", NULL) : NULL;
    hf_acquire_options terms = long_lease();
    hf_lease *lease = NULL;
    bool taken =
        lock && hf_lock_acquire_with(lock, &terms, &lease, NULL) == HF_OK;
    child_say(out, taken ? 'y' : 'n');
    (void)child_hear(in);
    hf_lease_free(lease);
    hf_lock_free(lock);
    hf_client_free(client);
    return 0;
}

/* A waiter that is stopped does not read its messages: the server closes its
 * subscription, and the release is told to nobody. When it goes on it finds
 * out by itself. */
static void test_slow_subscriber(void **state)
{
    static char some[16 * 1024];
    fault *f = *state;
    assert_true(srv_cmd_is(f->server, "1", "HSET slow somebody:1 1"));
    child waiter = child_start(f, wait_for_lock);
    expect_parked(f);
    limit_output(f);
    assert_int_equal(kill(waiter.pid, SIGSTOP), 0);
    memset(some, 'x', sizeof(some));
    assert_becomes(publish(f, some, sizeof(some)) == 0);
    assert_true(srv_cmd_is(f->server, "1", "DEL slow"));
    assert_int_equal(publish(f, "0", 1), 0);
    assert_int_equal(kill(waiter.pid, SIGCONT), 0);
    assert_int_equal(child_hear(waiter.from), 'y');
    child_say(waiter.to, '.');
    assert_int_equal(child_end(&waiter), 0);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS slow"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_evicted_as_any_key),
        FAULT_TEST(test_evicted_for_its_time_to_live),
        FAULT_TEST(test_message_beyond_the_limit),
        FAULT_TEST(test_slow_subscriber),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
