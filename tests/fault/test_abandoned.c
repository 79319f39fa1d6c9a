/* F7: whoever asked has left before the server has read the request, which is
 * executed all the same: what it grants is given back at once. */
#include "fault/fault.h"

#include <pthread.h>

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

typedef enum way_out { BY_TIME, BY_CANCEL, BY_CLOSING } way_out;

/* The server is stopped with the acquire in its socket, and goes on when
 * nobody waits for it any more. */
static void abandon(fault *f, way_out how, int64_t command_timeout)
{
    hf_error err = HF_ERROR_INIT;
    hf_client_options options = fault_options();
    options.command_timeout_ms = command_timeout;
    hf_client *client = fault_open(f, srv_url(f->server), &options);
    fault_cycle(f, client, "warm");
    hf_lock *lock = fault_lock(f, client, "orphan");
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG RESETSTAT"));
    srv_pause(f->server);
    hf_acquire_options terms = long_lease(how == BY_CANCEL ? -1 : 100);
    hf_cancel *cancel = hf_cancel_new();
    terms.cancel = cancel;
    if (how == BY_CANCEL) {
        taker t;
        taker_start_with(&t, lock, &terms);
        hf_cancel_fire(cancel);
        assert_int_equal(taker_end(f, &t), HF_CANCELLED);
    } else {
        hf_lease *lease = NULL;
        assert_int_equal(hf_lock_acquire_with(lock, &terms, &lease, &err),
                         HF_EUNREACHABLE);
        assert_null(lease);
    }
    hf_cancel_free(cancel);
    if (how == BY_CLOSING) {
        fault_close(f, client);
    }
    srv_resume(f->server);
    if (how != BY_CANCEL) { /* which may come before anything is sent */
        assert_becomes(fault_calls(f, "hset") >= 1);
    }
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS orphan"));
    if (how != BY_CLOSING) {
        hf_lease *lease = fault_take(f, lock);
        fault_expect_count(f, "orphan", lease, "1");
        fault_give(f, lease);
    }
}

static void test_abandoned_by_time(void **state)
{
    abandon(*state, BY_TIME, 10000);
}

/* The connection is given up as well; its bytes are still executed. */
static void test_abandoned_with_connection(void **state)
{
    abandon(*state, BY_TIME, 60);
}

static void test_abandoned_by_cancel(void **state)
{
    abandon(*state, BY_CANCEL, 10000);
}

static void test_abandoned_then_closed(void **state)
{
    abandon(*state, BY_CLOSING, 300);
}

/* The settling goes out right behind the orphan, on the same connection: as
 * soon as the server has read on, the lock is free, whatever becomes of the
 * client. The connection is cut before any reply could be heard. */
static void test_settling_follows_orphan(void **state)
{
    fault *f = *state;
    hf_client_options options = fault_options();
    options.command_timeout_ms = 10000;
    hf_client *client = fault_open(f, proxy_tcp_url(f->net), &options);
    fault_cycle(f, client, "warm");
    hf_lock *lock = fault_lock(f, client, "orphan");
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG RESETSTAT"));
    proxy_set(f->net, PROXY_TO_SERVER, PROXY_HOLD);
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_HOLD);
    size_t seen = proxy_counts(f->net).seen[PROXY_TO_SERVER];
    hf_acquire_options terms = long_lease(100);
    assert_int_equal(hf_lock_acquire_with(lock, &terms, NULL, NULL),
                     HF_EUNREACHABLE);
    assert_true(proxy_wait_seen(f->net, PROXY_TO_SERVER, seen + 200));
    proxy_refuse(f->net, true); /* no second connection can help */
    proxy_set(f->net, PROXY_TO_SERVER, PROXY_PASS);
    assert_becomes(fault_calls(f, "hset") >= 1);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS orphan"));
    proxy_refuse(f->net, false);
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_PASS);
    fault_give(f, fault_take(f, lock));
}

/* A release that cannot be confirmed goes on without its caller. */
static void test_release_abandoned(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    hf_client_options options = fault_options();
    options.command_timeout_ms = 200;
    hf_client *client = fault_open(f, srv_url(f->server), &options);
    hf_lock *lock = fault_lock(f, client, "given");
    hf_acquire_options terms = long_lease(0);
    hf_lease *lease = fault_take_with(f, lock, &terms);
    srv_pause(f->server);
    assert_int_equal(hf_lease_release(lease, &err), HF_EUNKNOWN);
    assert_false(hf_lease_is_held(lease));
    srv_resume(f->server);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS given"));
    assert_int_equal(hf_lease_release(lease, NULL), HF_OK);
}

static void *release(void *arg)
{
    hf_error err = HF_ERROR_INIT;
    return (void *)(intptr_t)hf_lease_release(arg, &err);
}

/* The settling of an abandoned re-entrant acquire is still due when the owner
 * releases what it holds: it then counts that lease no more, and does the
 * release's work. That is no loss. */
static void test_release_behind_a_settling(void **state)
{
    fault *f = *state;
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_lock *lock = fault_lock(f, client, "nested");
    hf_owner *owner = hf_owner_new(client, NULL);
    hf_acquire_options terms = long_lease(100);
    hf_lease *outer = NULL;
    hf_lease *inner = NULL;
    pthread_t thread;
    void *status = NULL;
    terms.owner = owner;
    assert_int_equal(hf_lock_acquire_with(lock, &terms, &outer, NULL), HF_OK);
    srv_pause(f->server);
    assert_int_equal(hf_lock_acquire_with(lock, &terms, &inner, NULL),
                     HF_EUNREACHABLE);
    assert_int_equal(pthread_create(&thread, NULL, release, outer), 0);
    assert_becomes(hf_lease_get_state(outer) == HF_LEASE_RELEASED);
    srv_resume(f->server);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal((intptr_t)status, HF_OK);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS nested"));
    hf_lease_free(outer);
    hf_owner_free(owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_abandoned_by_time),
        FAULT_TEST(test_abandoned_with_connection),
        FAULT_TEST(test_abandoned_by_cancel),
        FAULT_TEST(test_abandoned_then_closed),
        FAULT_TEST_NET(test_settling_follows_orphan),
        FAULT_TEST(test_release_abandoned),
        FAULT_TEST(test_release_behind_a_settling),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
