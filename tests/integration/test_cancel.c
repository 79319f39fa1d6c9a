/* The end of a wait that is not the lock: a cancellation, at whatever moment,
 * and a time-out. Nothing is left behind, not even by a server that answers
 * later. */
#include "support/fixture.h"
#include "support/net.h"
#include "support/proxy.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- cancelling */

static void test_cancelled_before(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, test_fresh_name());
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = NULL;
    options.wait_ms = HF_WAIT_FOREVER;
    options.cancel = hf_cancel_new();
    hf_cancel_fire(options.cancel);
    hf_cancel_fire(options.cancel);
    for (int i = 0; i < 3; i++) { /* it stays fired */
        expect(HF_CANCELLED,
               hf_lock_acquire_with(lock, &options, &lease, &err));
        assert_int_equal(hf_error_status(&err), HF_CANCELLED);
        assert_null(lease);
    }
    assert_true(srv_cmd_becomes(server, "0", "DBSIZE"));
    test_give(test_take(lock)); /* without it the lock can be had */
    hf_cancel_free(options.cancel);
    hf_lock_free(lock);
}

/* The first acquisition of a client asks first what its user may do. */
static void test_cancelled_while_asking(void **state)
{
    (void)state;
    taker t;
    hf_client_options options = test_patient();
    options.command_timeout_ms = 3600000; /* nothing else ends it */
    proxy *net = proxy_start(srv_socket(server));
    hf_client *fresh = test_client(proxy_url(net), &options);
    hf_lock *lock = test_lock(fresh, test_fresh_name());
    hf_cancel *cancel = hf_cancel_new();
    size_t said = proxy_counts(net).seen[PROXY_TO_SERVER];
    proxy_set(net, PROXY_TO_CLIENT, PROXY_HOLD);
    taker_start(&t, lock, HF_WAIT_FOREVER, cancel);
    assert_true(proxy_wait_seen(net, PROXY_TO_SERVER, said + 1));
    hf_cancel_fire(cancel);
    taker_end(&t, HF_CANCELLED);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    test_give(test_take(lock)); /* asks again */
    hf_cancel_free(cancel);
    hf_lock_free(lock);
    hf_client_free(fresh);
    proxy_stop(net);
}

static void test_cancelled_while_parked(void **state)
{
    (void)state;
    taker waiters[4];
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(other, name);
    hf_lock *wanted = test_lock(client, name);
    hf_cancel *cancel = hf_cancel_new();
    hf_lease *lease = test_take(held);
    taker_park(server, &waiters[0], wanted, HF_WAIT_FOREVER, NULL);
    for (int i = 1; i < 4; i++) {
        taker_start(&waiters[i], wanted, HF_WAIT_FOREVER, cancel);
    }
    assert_true(test_wait_calls(server, "evalsha", 2 + 3));
    hf_cancel_fire(cancel);
    for (int i = 1; i < 4; i++) {
        taker_end(&waiters[i], HF_CANCELLED);
    }
    assert_true(test_is_held(server, name, hf_lease_owner_id(lease), 1));
    /* Whom the cancelled ones left behind is still woken. */
    test_give(lease);
    taker_end(&waiters[0], HF_OK);
    hf_cancel_free(cancel);
    hf_lock_free(held);
    hf_lock_free(wanted);
}

/* A message and a cancellation at once: if the message's waiter leaves, the
 * next one has to be woken in its place. */
static void test_cancelled_when_woken(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(other, name);
    hf_lock *wanted = test_lock(client, name);
    for (int round = 0; round < test_scaled(100); round++) {
        taker leaves;
        taker stays;
        hf_cancel *cancel = hf_cancel_new();
        hf_lease *lease = test_take(held);
        test_reset_calls(server);
        taker_start(&leaves, wanted, HF_WAIT_FOREVER, cancel);
        assert_true(test_wait_calls(server, "evalsha", round ? 1 : 2));
        taker_start(&stays, wanted, HF_WAIT_FOREVER, NULL);
        assert_true(test_wait_calls(server, "evalsha", round ? 2 : 3));
        test_give(lease);
        for (volatile int spin = 0; spin < 500 * (round % 100); spin++) {
        }
        hf_cancel_fire(cancel);
        taker_join(&leaves);
        if (leaves.status == HF_OK) {
            test_give(leaves.lease);
        } else {
            assert_int_equal(leaves.status, HF_CANCELLED);
        }
        taker_end(&stays, HF_OK);
        hf_cancel_free(cancel);
    }
    hf_lock_free(held);
    hf_lock_free(wanted);
}

/* Who was woken has asked for the lock, and leaves before the answer: the
 * lock must not stay with it. */
static void test_cancelled_when_woken_and_stalled(void **state)
{
    (void)state;
    taker leaves;
    taker stays;
    hf_client_options options = test_patient();
    proxy *net = proxy_start(srv_socket(server));
    hf_client *far = test_client(proxy_url(net), &options);
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(other, name);
    hf_lock *wanted = test_lock(far, name);
    hf_cancel *cancel = hf_cancel_new();
    test_warm_up(far);
    hf_lease *lease = test_take(held);
    taker_park(server, &leaves, wanted, HF_WAIT_FOREVER, cancel);
    taker_start(&stays, wanted, HF_WAIT_FOREVER, NULL);
    assert_true(test_wait_calls(server, "evalsha", 3));
    proxy_set(net, PROXY_TO_SERVER, PROXY_HOLD);
    size_t before = proxy_counts(net).seen[PROXY_TO_SERVER];
    test_give(lease);
    assert_true(proxy_wait_seen(net, PROXY_TO_SERVER, before + 1));
    hf_cancel_fire(cancel);
    taker_end(&leaves, HF_CANCELLED);
    proxy_set(net, PROXY_TO_SERVER, PROXY_PASS);
    taker_end(&stays, HF_OK);
    hf_cancel_free(cancel);
    hf_lock_free(held);
    hf_lock_free(wanted);
    hf_client_free(far);
    proxy_stop(net);
}

/* The request has left and its reply does not come: the cancellation comes
 * through all the same, and what the server grants later is given back. */
static void test_cancelled_while_stalled(void **state)
{
    (void)state;
    taker t;
    hf_client_options options = test_patient();
    proxy *net = proxy_start(srv_socket(server));
    hf_client *far = test_client(proxy_tcp_url(net), &options);
    hf_lock *lock = test_lock(far, test_fresh_name());
    hf_cancel *cancel = hf_cancel_new();
    test_warm_up(far);
    test_reset_calls(server);
    size_t before = proxy_counts(net).seen[PROXY_TO_SERVER];
    srv_pause(server);
    taker_start(&t, lock, HF_WAIT_FOREVER, cancel);
    assert_true(proxy_wait_seen(net, PROXY_TO_SERVER, before + 1));
    hf_cancel_fire(cancel);
    taker_end(&t, HF_CANCELLED); /* while the server still sleeps */
    srv_resume(server);
    assert_true(test_wait_calls(server, "evalsha", 2)); /* and settling */
    assert_true(srv_cmd_becomes(server, "0", "DBSIZE"));
    test_give(test_take(lock));
    hf_cancel_free(cancel);
    hf_lock_free(lock);
    hf_client_free(far);
    proxy_stop(net);
}

/* ---- time-outs */

static void test_time_out(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(other, name);
    hf_lock *wanted = test_lock(client, name);
    hf_lease *lease = test_take(held);
    hf_lease *none = NULL;
    int64_t before = test_now_ms();
    expect(HF_NOT_ACQUIRED, hf_lock_acquire(wanted, 250, &none, &err));
    assert_in_range(test_now_ms() - before, 249, TEST_LIMIT_MS);
    assert_null(none);
    assert_true(test_is_held(server, name, hf_lease_owner_id(lease), 1));
    /* So short that a busy server may not even have answered. */
    hf_status soon = hf_lock_acquire(wanted, 1, &none, &err);
    assert_true(soon == HF_NOT_ACQUIRED || soon == HF_EUNREACHABLE);
    assert_null(none);
    test_give(lease);
    hf_lock_free(held);
    hf_lock_free(wanted);
}

static void test_time_out_while_stalled(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *wanted = test_lock(client, name);
    hf_lease *none = NULL;
    test_reset_calls(server);
    srv_pause(server);
    int64_t before = test_now_ms();
    expect(HF_EUNREACHABLE, hf_lock_acquire(wanted, 250, &none, &err));
    assert_in_range(test_now_ms() - before, 249, TEST_LIMIT_MS);
    assert_true(hf_error_is_retriable(&err));
    assert_null(none);
    srv_resume(server);
    assert_true(test_wait_calls(server, "evalsha", 2)); /* and settling */
    assert_true(srv_cmd_becomes(server, "0", "DBSIZE"));
    test_give(test_take(wanted));
    hf_lock_free(wanted);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_cancelled_before),
        FIXTURE_TEST(test_cancelled_while_asking),
        FIXTURE_TEST(test_cancelled_while_parked),
        FIXTURE_TEST(test_cancelled_when_woken),
        FIXTURE_TEST(test_cancelled_when_woken_and_stalled),
        FIXTURE_TEST(test_cancelled_while_stalled),
        FIXTURE_TEST(test_time_out),
        FIXTURE_TEST(test_time_out_while_stalled),
    };
    return cmocka_run_group_tests(tests, fixture_patient, fixture_end);
}
