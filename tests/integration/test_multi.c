/* Several locks of one server as one: all or nothing, what is said of the one
 * lease, what goes over the wire, and how it waits. */
#include "holdfast/holdfast.h"
#include "support/fixture.h"
#include "support/locks.h"
#include "support/net.h"
#include "support/proxy.h"
#include "support/server.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX 8

/* What a freed lease held is given back in the background. */
static int nothing_is_left_soon(void **state)
{
    (void)state;
    bool empty = srv_cmd_becomes(server, "0", "DBSIZE");
    free(srv_cmd(server, "FLUSHALL")); /* of a test that failed */
    return empty ? 0 : -1;
}

#define MULTI_TEST(test) cmocka_unit_test_teardown(test, nothing_is_left_soon)

/* Of reentrant locks with these names, a NULL behind the last. */
static hf_lock *open_all(hf_client *of, const char *const names[])
{
    hf_lock *locks[MAX] = {NULL};
    size_t count = 0;
    for (; names[count]; count++) {
        locks[count] = test_lock(of, names[count]);
    }
    hf_lock *all = hf_multi_open(locks, count, &err);
    assert_non_null(all);
    for (size_t i = 0; i < count; i++) {
        hf_lock_free(locks[i]); /* it has its own */
    }
    return all;
}

#define ALL(of, ...) open_all((of), (const char *const[]){__VA_ARGS__, NULL})

static hf_lock *open_kind(const char *name, hf_kind kind)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = kind;
    hf_lock *lock =
        hf_lock_open_with(client, name, strlen(name), &options, &err);
    assert_non_null(lock);
    return lock;
}

/* As a program on Redisson would leave it there. */
static void hold_raw(const char *name)
{
    free(srv_cmd(server, "HSET %s 11111111-2222-3333-4444-555555555555:7 1",
                 name));
    free(srv_cmd(server, "PEXPIRE %s 3600000", name));
}

static void release_raw(const char *name)
{
    free(srv_cmd(server, "DEL %s", name));
    free(srv_cmd(server, "PUBLISH redisson_lock__channel:{%s} 0", name));
}

/* ---- all or nothing */

static void test_all_of_them(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "c", "a", "b");
    hf_lease *lease = test_take(all);
    const char *owner = hf_lease_owner_id(lease);
    assert_true(test_is_held(server, "a", owner, 1));
    assert_true(test_is_held(server, "b", owner, 1));
    assert_true(test_is_held(server, "c", owner, 1));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    assert_true(hf_lease_is_held(lease));
    assert_int_equal(hf_lease_loss(lease), HF_LOSS_NONE);
    assert_int_equal(hf_lease_token(lease), 0);
    assert_true(hf_lease_remaining_ms(lease) > 0);
    expect(HF_OK, hf_lease_release(lease, &err));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_RELEASED);
    assert_false(hf_lease_is_held(lease));
    assert_int_equal(hf_lease_remaining_ms(lease), 0);
    expect(HF_OK, hf_lease_release(lease, &err)); /* a repeat */
    hf_lease_free(lease);
    hf_lock_free(all);
}

static void test_none_if_one_is_busy(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "a", "b", "c");
    hf_lock *middle = test_lock(other, "b");
    hf_lease *theirs = test_take(middle);
    hf_lease *lease = NULL;
    expect(HF_NOT_ACQUIRED, hf_lock_try(all, &lease, &err));
    assert_non_null(strstr(hf_error_text(&err), "\"b\""));
    assert_null(lease);
    assert_true(srv_cmd_is(server, "b", "KEYS *"));
    test_give(theirs);
    test_give(test_take(all));
    hf_lock_free(middle);
    hf_lock_free(all);
}

/* What is freed is released as well. */
static void test_freed_lease_is_given_back(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "a", "b");
    hf_lease *lease = test_take(all);
    hf_lock_free(all); /* its lease lives on */
    assert_true(hf_lease_is_held(lease));
    hf_lease_free(lease);
    assert_true(srv_cmd_becomes(server, "0", "DBSIZE"));
}

static void test_any_kinds(void **state)
{
    (void)state;
    const hf_kind kinds[] = {HF_KIND_REENTRANT, HF_KIND_FAIR,  HF_KIND_READ,
                             HF_KIND_WRITE,     HF_KIND_SPIN,  HF_KIND_FENCED,
                             HF_KIND_SIMPLE,    HF_KIND_PERMIT};
    const char *names[] = {"h", "g", "f", "e", "d", "c", "b", "a"};
    hf_lock *locks[MAX] = {NULL};
    for (size_t i = 0; i < MAX; i++) {
        locks[i] = open_kind(names[i], kinds[i]);
    }
    expect(HF_OK, hf_permits_try_set(locks[7], 1, NULL, &err));
    hf_lock *all = hf_multi_open(locks, MAX, &err);
    assert_non_null(all);
    for (int round = 0; round < 2; round++) {
        int64_t permits = -1;
        hf_lease *lease = test_take(all);
        uint64_t token = hf_multi_token(lease, 5);
        assert_true(token > 0);
        assert_int_equal(srv_cmd_int(server, "GET redisson_lock_token:{c}"),
                         token);
        assert_int_equal(hf_multi_token(lease, 0), 0);
        assert_int_equal(hf_multi_token(lease, MAX), 0);
        for (size_t i = 0; i + 1 < MAX; i++) {
            assert_true(srv_cmd_is(server, "1", "EXISTS %s", names[i]));
        }
        expect(HF_OK, hf_permits_available(locks[7], &permits, &err));
        assert_int_equal(permits, 0);
        test_give(lease);
        expect(HF_OK, hf_permits_available(locks[7], &permits, &err));
        assert_int_equal(permits, 1);
        for (size_t i = 0; i + 1 < MAX; i++) {
            assert_true(srv_cmd_is(server, "0", "EXISTS %s", names[i]));
        }
    }
    hf_lock_free(all);
    for (size_t i = 0; i < MAX; i++) {
        hf_lock_free(locks[i]);
    }
    free(srv_cmd(server, "FLUSHALL")); /* the permits and the token */
}

/* ---- over the wire */

static void test_one_command_each(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "a", "b", "c", "d", "e");
    test_reset_calls(server);
    hf_lease *lease = test_take(all);
    assert_int_equal(test_calls(server, "evalsha"), 5);
    test_give(lease);
    assert_int_equal(test_calls(server, "evalsha"), 10);
    assert_int_equal(test_calls(server, "eval"), 0);
    hf_lock_free(all);
}

static void *release(void *arg)
{
    must_be(HF_OK, hf_lease_release(arg, &err));
    return NULL;
}

/* Not one after the other's reply: all have been executed before the first
 * reply has come. */
static void test_commands_travel_together(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    proxy *net = proxy_start(srv_socket(server));
    hf_client *far = test_client(proxy_url(net), &options);
    test_warm_up(far);
    hf_lock *all = ALL(far, "a", "b", "c");
    taker t;
    test_reset_calls(server);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_HOLD);
    taker_start(&t, all, 0, NULL);
    assert_true(test_wait_calls(server, "evalsha", 3));
    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
    taker_join(&t);
    expect(HF_OK, t.status);
    test_reset_calls(server);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_HOLD);
    pthread_t thread = test_thread(release, t.lease);
    assert_true(test_wait_calls(server, "evalsha", 3));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
    test_join(thread);
    hf_lease_free(t.lease);
    hf_lock_free(all);
    hf_client_free(far);
    proxy_stop(net);
}

/* ---- waiting */

static void test_waits_and_holds_nothing(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "a", "b", "c");
    taker t;
    hold_raw("b");
    taker_start(&t, all, HF_WAIT_FOREVER, NULL);
    assert_true(test_wait_subscribed(server, "b", 1));
    /* Those before it and behind it are free for anybody. */
    assert_true(srv_cmd_becomes(server, "b", "KEYS *"));
    hf_lock *first = test_lock(other, "a");
    hf_lock *last = test_lock(other, "c");
    test_give(test_take(first));
    test_give(test_take(last));
    release_raw("b");
    taker_end(&t, HF_OK);
    hf_lock_free(first);
    hf_lock_free(last);
    hf_lock_free(all);
}

/* One is busy, and when it is had, another one is. */
static void test_one_after_the_other_is_busy(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "a", "b", "c");
    taker t;
    hold_raw("c");
    taker_start(&t, all, HF_WAIT_FOREVER, NULL);
    assert_true(test_wait_subscribed(server, "c", 1));
    hold_raw("a");
    release_raw("c");
    assert_true(test_wait_subscribed(server, "a", 1));
    assert_true(srv_cmd_becomes(server, "a", "KEYS *"));
    hold_raw("b");
    release_raw("a");
    assert_true(test_wait_subscribed(server, "b", 1));
    assert_true(srv_cmd_becomes(server, "b", "KEYS *"));
    release_raw("b");
    taker_end(&t, HF_OK);
    hf_lock_free(all);
}

/* Whoever has the last and waits for the first is not waited for by one that
 * has the first. */
static void test_no_circle_with_single_locks(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "a", "b");
    hf_lock *a = test_lock(other, "a");
    hf_lock *b = test_lock(other, "b");
    hf_lease *last = test_take(b);
    taker t;
    taker_start(&t, all, HF_WAIT_FOREVER, NULL);
    assert_true(test_wait_subscribed(server, "b", 1));
    hf_lease *first = NULL;
    expect(HF_OK, hf_lock_acquire(a, TEST_LIMIT_MS, &first, &err));
    test_give(first);
    test_give(last);
    taker_end(&t, HF_OK);
    hf_lock_free(a);
    hf_lock_free(b);
    hf_lock_free(all);
}

static void test_time_out(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "a", "b");
    hf_lease *lease = NULL;
    hold_raw("b");
    int64_t from = test_now_ms();
    expect(HF_NOT_ACQUIRED, hf_lock_acquire(all, 200, &lease, &err));
    assert_true(test_now_ms() >= from + 200);
    assert_null(lease);
    assert_true(srv_cmd_is(server, "b", "KEYS *"));
    release_raw("b");
    hf_lock_free(all);
}

static void test_cancel(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "a", "b");
    hf_cancel *cancel = hf_cancel_new();
    taker t;
    hold_raw("b");
    taker_start(&t, all, HF_WAIT_FOREVER, cancel);
    assert_true(test_wait_subscribed(server, "b", 1));
    hf_cancel_fire(cancel);
    taker_end(&t, HF_CANCELLED);
    assert_true(srv_cmd_is(server, "b", "KEYS *"));
    release_raw("b");
    taker_start(&t, all, HF_WAIT_FOREVER, cancel); /* it stays fired */
    taker_end(&t, HF_CANCELLED);
    assert_true(srv_cmd_becomes(server, "0", "DBSIZE"));
    hf_cancel_free(cancel);
    hf_lock_free(all);
}

/* An error of one is an error of all, at once, even if another one is busy. */
static void test_refused(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "a", "b", "c");
    hf_lease *lease = NULL;
    hold_raw("a");
    free(srv_cmd(server, "SET b text"));
    expect(HF_EWRONGTYPE, hf_lock_acquire(all, HF_WAIT_FOREVER, &lease, &err));
    assert_null(lease);
    assert_true(srv_cmd_becomes(server, "0", "EXISTS c"));
    free(srv_cmd(server, "DEL a b"));
    hf_lock_free(all);
}

/* ---- owners */

static void test_entered_again(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "a", "b");
    hf_lock *one = test_lock(client, "a");
    hf_lock *last = test_lock(client, "b");
    int64_t count = 0;
    hf_lease *first = test_take(all);
    hf_lease *second = test_take(all);
    hf_lease *single = test_take(one);
    const char *owner = hf_lease_owner_id(second);
    assert_string_equal(hf_lease_owner_id(first), owner);
    assert_true(test_is_held(server, "a", owner, 3));
    assert_true(test_is_held(server, "b", owner, 2));
    expect(HF_OK, hf_lock_hold_count(all, NULL, &count, &err));
    assert_int_equal(count, 2);
    for (int i = 0; i < 2; i++) {
        expect(HF_OK, hf_lock_acquire(last, 0, NULL, &err));
    }
    expect(HF_OK, hf_lock_hold_count(all, NULL, &count, &err));
    assert_int_equal(count, 3); /* of 3 and 4 */
    for (int i = 0; i < 2; i++) {
        expect(HF_OK, hf_lock_release(last, NULL, &err));
    }
    test_give(first);
    assert_true(hf_lease_is_held(second));
    assert_true(test_is_held(server, "a", owner, 2));
    assert_true(test_is_held(server, "b", owner, 1));
    test_give(second);
    assert_true(test_is_held(server, "a", hf_lease_owner_id(single), 1));
    test_give(single);
    hf_lock_free(last);
    hf_lock_free(one);
    hf_lock_free(all);
}

/* A failure does not take away what its owner had before. */
static void test_failure_keeps_what_was_held(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "a", "b");
    hf_lock *one = test_lock(client, "a");
    hf_lease *single = test_take(one);
    hold_raw("b");
    expect(HF_NOT_ACQUIRED, hf_lock_try(all, NULL, &err));
    assert_true(test_is_held(server, "a", hf_lease_owner_id(single), 1));
    assert_int_equal(hf_lease_get_state(single), HF_LEASE_HELD);
    release_raw("b");
    test_give(single);
    hf_lock_free(one);
    hf_lock_free(all);
}

static void test_held_already(void **state)
{
    (void)state;
    hf_lock *locks[] = {test_lock(client, "a"),
                        open_kind("b", HF_KIND_NON_REENTRANT)};
    hf_lock *all = hf_multi_open(locks, 2, &err);
    hf_lease *lease = test_take(all);
    expect(HF_EHELD, hf_lock_acquire(all, HF_WAIT_FOREVER, NULL, &err));
    assert_true(test_is_held(server, "a", hf_lease_owner_id(lease), 1));
    test_give(lease);
    hf_lock_free(all);
    hf_lock_free(locks[0]);
    hf_lock_free(locks[1]);
}

/* By its locks, in whatever order and by whatever handle; the latest first. */
static void test_released_by_its_locks(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "a", "b");
    hf_lock *same = ALL(client, "b", "a");
    hf_lock *more = ALL(client, "a", "b", "c");
    hf_lock *different = ALL(client, "a", "c");
    hf_owner *owner = hf_owner_new(client, &err);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.owner = owner;
    expect(HF_OK, hf_lock_acquire_with(all, &options, NULL, &err));
    hf_lease *lease = NULL;
    expect(HF_OK, hf_lock_acquire_with(all, &options, &lease, &err));
    assert_true(test_is_held(server, "a", hf_owner_id(owner), 2));
    expect(HF_ENOTHELD, hf_lock_release(same, NULL, &err));
    expect(HF_ENOTHELD, hf_lock_release(more, owner, &err));
    expect(HF_ENOTHELD, hf_lock_release(different, owner, &err));
    expect(HF_OK, hf_lock_release(same, owner, &err));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_RELEASED);
    assert_true(test_is_held(server, "b", hf_owner_id(owner), 1));
    expect(HF_OK, hf_lock_release(same, owner, &err));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    expect(HF_ENOTHELD, hf_lock_release(all, owner, &err));
    hf_lease_free(lease);
    hf_owner_free(owner);
    hf_lock_free(all);
    hf_lock_free(same);
    hf_lock_free(more);
    hf_lock_free(different);
}

/* ---- questions and force */

static void test_questions(void **state)
{
    (void)state;
    hf_lock *all = ALL(client, "a", "b");
    int64_t number = 7;
    int yes = 7;
    expect(HF_OK, hf_lock_is_locked(all, &yes, &err));
    assert_int_equal(yes, 0);
    expect(HF_OK, hf_lock_remaining_ms(all, &number, &err));
    assert_int_equal(number, -2);
    hf_lease *lease = test_take(all);
    expect(HF_OK, hf_lock_is_held_by(all, NULL, &yes, &err));
    assert_int_equal(yes, 1);
    free(srv_cmd(server, "PEXPIRE a 1800000"));
    expect(HF_OK, hf_lock_remaining_ms(all, &number, &err));
    assert_in_range(number, 1, 1800000);
    test_give(lease);
    hold_raw("b");
    expect(HF_OK, hf_lock_is_locked(all, &yes, &err));
    assert_int_equal(yes, 1);
    expect(HF_OK, hf_lock_is_held_by(all, NULL, &yes, &err));
    assert_int_equal(yes, 0);
    expect(HF_OK, hf_lock_hold_count(all, NULL, &number, &err));
    assert_int_equal(number, 0);
    expect(HF_OK, hf_lock_force_release(all, &yes, &err));
    assert_int_equal(yes, 1);
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    hold_raw("a");
    expect(HF_OK, hf_lock_is_locked(all, &yes, &err));
    assert_int_equal(yes, 1);
    expect(HF_OK, hf_lock_force_release(all, &yes, &err));
    assert_int_equal(yes, 1);
    expect(HF_OK, hf_lock_force_release(all, &yes, &err));
    assert_int_equal(yes, 0);
    hf_lock_free(all);
}

/* One that is several stands for its members. */
static void test_several_in_one(void **state)
{
    (void)state;
    hf_lock *inner = ALL(client, "c", "b");
    hf_lock *fenced = open_kind("a", HF_KIND_FENCED);
    hf_lock *locks[] = {inner, fenced};
    hf_lock *all = hf_multi_open(locks, 2, &err);
    assert_non_null(all);
    hf_lock_free(inner);
    hf_lock_free(fenced);
    hf_lease *lease = test_take(all);
    assert_int_equal(srv_cmd_int(server, "EXISTS a b c"), 3);
    assert_true(hf_multi_token(lease, 2) > 0);
    test_give(lease);
    hf_lock_free(all);
    free(srv_cmd(server, "FLUSHALL")); /* the token */
}

static void refused(hf_lock *const *locks, size_t count, hf_status status)
{
    assert_null(hf_multi_open(locks, count, &err));
    assert_int_equal(hf_error_status(&err), status);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    hf_client *third = test_client(srv_url(server), NULL);
    hf_lock *a = test_lock(client, "a");
    hf_lock *twin = test_lock(client, "a");
    hf_lock *by_other = test_lock(other, "a"); /* by TCP */
    hf_lock *gone = test_lock(third, "gone");
    hf_lock *one = hf_multi_open(&a, 1, &err);
    hf_owner *stranger = hf_owner_new(other, &err);
    assert_non_null(one);
    refused(NULL, 1, HF_EINVAL);
    refused(&a, 0, HF_EINVAL);
    refused((hf_lock *[]){a, NULL}, 2, HF_EINVAL);
    refused((hf_lock *[]){a, a}, 2, HF_EINVAL);
    refused((hf_lock *[]){a, twin}, 2, HF_EINVAL);
    refused((hf_lock *[]){a, by_other}, 2, HF_EINVAL);
    refused((hf_lock *[]){a, one}, 2, HF_EINVAL);
    hf_client_free(third);
    refused((hf_lock *[]){a, gone}, 2, HF_ECLOSED);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.owner = stranger;
    expect(HF_EINVAL, hf_lock_acquire_with(one, &options, NULL, &err));
    options = (hf_acquire_options)HF_ACQUIRE_OPTIONS_INIT;
    options.lease_ms = 1;
    expect(HF_EINVAL, hf_lock_acquire_with(one, &options, NULL, &err));
    test_give(test_take(one));
    hf_owner_free(stranger);
    hf_lock_free(one);
    hf_lock_free(gone);
    hf_lock_free(by_other);
    hf_lock_free(twin);
    hf_lock_free(a);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        MULTI_TEST(test_all_of_them),
        MULTI_TEST(test_none_if_one_is_busy),
        MULTI_TEST(test_freed_lease_is_given_back),
        MULTI_TEST(test_any_kinds),
        MULTI_TEST(test_one_command_each),
        MULTI_TEST(test_commands_travel_together),
        MULTI_TEST(test_waits_and_holds_nothing),
        MULTI_TEST(test_one_after_the_other_is_busy),
        MULTI_TEST(test_no_circle_with_single_locks),
        MULTI_TEST(test_time_out),
        MULTI_TEST(test_cancel),
        MULTI_TEST(test_refused),
        MULTI_TEST(test_entered_again),
        MULTI_TEST(test_failure_keeps_what_was_held),
        MULTI_TEST(test_held_already),
        MULTI_TEST(test_released_by_its_locks),
        MULTI_TEST(test_questions),
        MULTI_TEST(test_several_in_one),
        MULTI_TEST(test_what_is_refused),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, fixture_patient, fixture_end);
}
