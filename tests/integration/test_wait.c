/* Waiting for a lock: it is handed on by a message. The clients here poll once
 * an hour and their leases last as long: what happens within a test's life is
 * a message's doing. */
#include "support/fixture.h"
#include "support/net.h"
#include "support/proxy.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define WAITERS 16
#define PROCESSES 6

/* ---- messages */

static void test_handed_on_by_message(void **state)
{
    (void)state;
    taker t;
    hf_lock *theirs = test_lock(other, test_fresh_name());
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(other, name);
    hf_lock *wanted = test_lock(client, name);
    hf_lease *lease = test_take(held);
    taker_park(server, &t, wanted, HF_WAIT_FOREVER, NULL);
    test_give(test_take(theirs)); /* another lock's message is none of ours */
    assert_true(test_is_held(server, name, hf_lease_owner_id(lease), 1));
    test_give(lease);
    taker_end(&t, HF_OK);
    hf_lock_free(theirs);
    hf_lock_free(held);
    hf_lock_free(wanted);
}

static void test_handed_on_by_force(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(other, name);
    hf_lock *wanted = test_lock(client, name);
    hf_lease *lease = test_take(held);
    taker_park(server, &t, wanted, 3600000, NULL);
    expect(HF_OK, hf_lock_force_release(held, NULL, &err));
    taker_end(&t, HF_OK);
    hf_lease_free(lease);
    hf_lock_free(held);
    hf_lock_free(wanted);
}

/* Messages that are no release wake nobody for good. */
static void test_other_messages(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(other, name);
    hf_lock *wanted = test_lock(client, name);
    hf_lease *lease = test_take(held);
    taker_park(server, &t, wanted, HF_WAIT_FOREVER, NULL);
    static const char *const payloads[] = {"-1", "", "x", "00", "7", "0"};
    for (int i = 0; i < 6; i++) {
        assert_true(srv_cmd_is(server, "1",
                               "PUBLISH redisson_lock__channel:{%s} %b", name,
                               payloads[i], strlen(payloads[i])));
    }
    /* The last of them, a release that was none, costs one try. */
    assert_true(test_wait_calls(server, "evalsha", 3));
    assert_int_equal(test_calls(server, "evalsha"), 3);
    test_give(lease);
    taker_end(&t, HF_OK);
    hf_lock_free(held);
    hf_lock_free(wanted);
}

/* `1` is meant for all who can have it together, and one of the others: here
 * nobody can, and one of them tries. */
static void test_message_for_all(void **state)
{
    (void)state;
    taker waiters[3];
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(other, name);
    hf_lock *wanted = test_lock(client, name);
    hf_cancel *cancel = hf_cancel_new();
    hf_lease *lease = test_take(held);
    taker_park(server, &waiters[0], wanted, HF_WAIT_FOREVER, cancel);
    for (int i = 1; i < 3; i++) {
        taker_start(&waiters[i], wanted, HF_WAIT_FOREVER, cancel);
    }
    assert_true(test_wait_calls(server, "evalsha", 2 + 2)); /* all have tried */
    assert_true(
        srv_cmd_is(server, "1", "PUBLISH redisson_lock__channel:{%s} 1", name));
    assert_true(test_wait_calls(server, "evalsha", 2 + 2 + 1));
    hf_cancel_fire(cancel);
    for (int i = 0; i < 3; i++) {
        taker_end(&waiters[i], HF_CANCELLED);
    }
    test_give(lease);
    hf_cancel_free(cancel);
    hf_lock_free(held);
    hf_lock_free(wanted);
}

/* The release comes after the first try and before the subscription: nobody
 * hears its message, and the try after the subscription finds the lock free
 * (R12). */
static void test_released_before_subscription(void **state)
{
    (void)state;
    taker t;
    hf_client_options options = test_patient();
    proxy *net = proxy_start(srv_socket(server));
    hf_client *far = test_client(proxy_url(net), &options);
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(other, name);
    hf_lock *wanted = test_lock(far, name);
    test_warm_up(far);
    hf_lease *lease = test_take(held);
    test_reset_calls(server);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_HOLD);
    taker_start(&t, wanted, HF_WAIT_FOREVER, NULL);
    assert_true(test_wait_calls(server, "evalsha", 1)); /* refused */
    test_give(lease);
    assert_true(srv_cmd_is(server, "", "PUBSUB CHANNELS %s", name));
    assert_int_equal(test_calls(server, "subscribe"), 0);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
    taker_end(&t, HF_OK);
    assert_int_equal(test_calls(server, "subscribe"), 1);
    hf_lock_free(held);
    hf_lock_free(wanted);
    hf_client_free(far);
    proxy_stop(net);
}

/* ---- many */

/* Takes, counts and gives back. */
typedef struct passing {
    hf_lock *lock;
    _Atomic int *passed;
} passing;

static void *pass(void *arg)
{
    const passing *p = arg;
    must_be(HF_OK, hf_lock_acquire(p->lock, HF_WAIT_FOREVER, NULL, &err));
    (void)atomic_fetch_add(p->passed, 1);
    must_be(HF_OK, hf_lock_release(p->lock, NULL, &err));
    return NULL;
}

static void test_many_threads(void **state)
{
    (void)state;
    _Atomic int passed = 0;
    pthread_t threads[WAITERS];
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(other, name);
    hf_lock *wanted = test_lock(client, name);
    hf_lease *lease = test_take(held);
    passing p = {.lock = wanted, .passed = &passed};
    test_reset_calls(server);
    for (int i = 0; i < WAITERS; i++) {
        threads[i] = test_thread(pass, &p);
    }
    assert_true(test_wait_subscribed(server, name, 1));
    assert_true(test_wait_calls(server, "evalsha", WAITERS));
    assert_int_equal(atomic_load(&passed), 0);
    test_give(lease);
    for (int i = 0; i < WAITERS; i++) {
        test_join(threads[i]);
    }
    assert_int_equal(atomic_load(&passed), WAITERS);
    /* One subscription serves them all. */
    assert_int_equal(test_calls(server, "subscribe"), 1);
    hf_lock_free(held);
    hf_lock_free(wanted);
}

_Noreturn static void wait_in_child(const char *name, _Atomic int *passed)
{
    hf_client_options options = test_patient();
    hf_client *own = test_client(srv_url(server), &options);
    hf_lock *lock = test_lock(own, name);
    passing p = {.lock = lock, .passed = passed};
    pthread_t second = test_thread(pass, &p);
    (void)pass(&p);
    test_join(second);
    hf_lock_free(lock);
    hf_client_free(own);
    test_end_child(0);
}

static void test_many_processes(void **state)
{
    (void)state;
    pid_t children[PROCESSES];
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(other, name);
    _Atomic int *passed = mmap(NULL, sizeof(*passed), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(passed, MAP_FAILED);
    hf_lease *lease = test_take(held);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            wait_in_child(name, passed);
        }
    }
    assert_true(test_wait_subscribed(server, name, PROCESSES));
    assert_int_equal(atomic_load(passed), 0);
    test_give(lease);
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(test_reap(children[i]), 0);
    }
    assert_int_equal(atomic_load(passed), 2 * PROCESSES);
    assert_true(srv_cmd_becomes(server, "", "PUBSUB CHANNELS *{%s}", name));
    (void)munmap(passed, sizeof(*passed));
    hf_lock_free(held);
}

/* The holder's lease ends and nobody says so: F6. */
static void test_lease_of_another_ends(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *wanted = test_lock(client, name);
    hf_lease *lease = NULL;
    assert_true(srv_cmd_is(server, "1", "HSET %s dead:1 1", name));
    assert_true(srv_cmd_is(server, "1", "PEXPIRE %s 500", name));
    int64_t before = test_now_ms();
    expect(HF_OK, hf_lock_acquire(wanted, HF_WAIT_FOREVER, &lease, &err));
    assert_true(test_now_ms() - before <= TEST_LIMIT_MS);
    assert_true(test_is_held(server, name, hf_lease_owner_id(lease), 1));
    test_give(lease);
    hf_lock_free(wanted);
}

/* ---- the subscription */

static void test_subscription_lingers(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(other, name);
    options.subscription_linger_ms = 3600000;
    hf_client *lingering = test_client(srv_url(server), &options);
    hf_lock *wanted = test_lock(lingering, name);
    /* Those of earlier tests are to end first. */
    assert_true(srv_cmd_becomes(server, "", "PUBSUB CHANNELS"));
    test_reset_calls(server);
    for (int i = 0; i < test_scaled(50); i++) {
        taker t;
        hf_lease *lease = test_take(held);
        long long calls = test_calls(server, "evalsha");
        taker_start(&t, wanted, HF_WAIT_FOREVER, NULL);
        assert_true(test_wait_calls(server, "evalsha", calls + 1));
        test_give(lease);
        taker_end(&t, HF_OK);
    }
    assert_int_equal(test_calls(server, "subscribe"), 1);
    assert_int_equal(test_calls(server, "unsubscribe"), 0);
    assert_true(test_wait_subscribed(server, name, 1));
    hf_lock_free(wanted);
    hf_client_free(lingering);
    assert_true(test_wait_subscribed(server, name, 0));
    hf_lock_free(held);
}

static void test_subscription_ends(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    options.subscription_linger_ms = 100;
    hf_client *brief = test_client(srv_url(server), &options);
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(other, name);
    hf_lock *wanted = test_lock(brief, name);
    for (int i = 1; i <= 3; i++) { /* and begins anew */
        taker t;
        hf_lease *lease = test_take(held);
        taker_park(server, &t, wanted, HF_WAIT_FOREVER, NULL);
        assert_true(test_wait_subscribed(server, name, 1));
        test_give(lease);
        taker_end(&t, HF_OK);
        assert_true(test_wait_subscribed(server, name, 0));
    }
    hf_lock_free(held);
    hf_lock_free(wanted);
    hf_client_free(brief);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_handed_on_by_message),
        FIXTURE_TEST(test_handed_on_by_force),
        FIXTURE_TEST(test_other_messages),
        FIXTURE_TEST(test_message_for_all),
        FIXTURE_TEST(test_released_before_subscription),
        FIXTURE_TEST(test_many_threads),
        FIXTURE_TEST(test_many_processes),
        FIXTURE_TEST(test_lease_of_another_ends),
        FIXTURE_TEST(test_subscription_lingers),
        FIXTURE_TEST(test_subscription_ends),
    };
    return cmocka_run_group_tests(tests, fixture_patient, fixture_end);
}
