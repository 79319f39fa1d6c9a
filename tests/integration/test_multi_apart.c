/* Several locks as one when something happens to one of them: it is lost, its
 * server stops, its client is closed, its process forks. */
#include "holdfast/holdfast.h"
#include "support/locks.h"
#include "support/net.h"
#include "support/proxy.h"
#include "support/server.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Of two servers. */
static srv *servers[2];
static hf_client *clients[2];
static hf_lock *all; /* "here" on the first, "there" on the second */
static _Thread_local hf_error err = HF_ERROR_INIT;

static int setup(void **state)
{
    (void)state;
    servers[0] = srv_start(NULL);
    servers[1] = srv_start(NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    srv_stop(servers[0]);
    srv_stop(servers[1]);
    return 0;
}

static void open_with(const hf_client_options *options, const char *second_url)
{
    clients[0] = test_client(srv_url(servers[0]), options);
    clients[1] = test_client(second_url, options);
    test_warm_up(clients[0]);
    test_warm_up(clients[1]);
    hf_lock *locks[] = {test_lock(clients[0], "here"),
                        test_lock(clients[1], "there")};
    all = hf_multi_open(locks, 2, &err);
    must(all != NULL);
    hf_lock_free(locks[0]);
    hf_lock_free(locks[1]);
}

static void close_all(void)
{
    hf_lock_free(all);
    hf_client_free(clients[0]);
    hf_client_free(clients[1]);
    clients[0] = NULL;
    clients[1] = NULL;
}

static int begin(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    open_with(&options, srv_url(servers[1]));
    return 0;
}

/* Leases are renewed often, and a server that is silent for a second is. */
static int begin_in_haste(void **state)
{
    (void)state;
    hf_client_options options = test_watchdog(3000);
    options.command_timeout_ms = 1000;
    options.connect_timeout_ms = 1000;
    open_with(&options, srv_url(servers[1]));
    return 0;
}

static int end(void **state)
{
    (void)state;
    close_all();
    bool empty = true;
    for (int i = 0; i < 2; i++) {
        empty = srv_cmd_becomes(servers[i], "0", "DBSIZE") && empty;
        free(srv_cmd(servers[i], "FLUSHALL")); /* of a test that failed */
    }
    return empty ? 0 : -1;
}

/* ---- what is told */

typedef struct told {
    _Atomic int times;
    _Atomic int why;
    _Atomic int held;
    hf_lease *_Atomic lease;
} told;

static void note(void *arg, hf_lease *lease, hf_loss why)
{
    told *t = arg;
    t->why = (int)why;
    t->lease = lease;
    t->held = hf_lease_is_held(lease);
    (void)atomic_fetch_add(&t->times, 1);
}

static void note_and_free(void *arg, hf_lease *lease, hf_loss why)
{
    told *t = arg;
    hf_lease_free(lease);
    t->why = (int)why;
    (void)atomic_fetch_add(&t->times, 1);
}

static hf_lease *take(hf_lost_fn on_lost, told *t, int64_t lease_ms)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = NULL;
    *t = (told){.times = 0};
    options.wait_ms = HF_WAIT_FOREVER; /* a busy machine needs some tries */
    options.lease_ms = lease_ms;
    options.on_lost = on_lost;
    options.on_lost_arg = t;
    expect(HF_OK, hf_lock_acquire_with(all, &options, &lease, &err));
    return lease;
}

static void wait_until_told(told *t)
{
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    while (atomic_load(&t->times) == 0) {
        assert_true(test_pause(deadline));
    }
}

/* ---- losses */

static void test_one_is_lost(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        told t;
        hf_lease *lease = take(note, &t, 0);
        int fd = hf_lease_fd(lease, &err);
        assert_true(fd >= 0);
        assert_false(test_readable(fd));
        free(srv_cmd(servers[i], "DEL here there"));
        wait_until_told(&t);
        assert_int_equal(t.why, HF_LOSS_REVOKED);
        assert_ptr_equal(t.lease, lease);
        assert_false(t.held);
        assert_true(test_wait_readable(fd));
        /* The other one has been given back. */
        assert_true(srv_cmd_becomes(servers[1 - i], "0", "DBSIZE"));
        assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
        assert_int_equal(hf_lease_loss(lease), HF_LOSS_REVOKED);
        assert_int_equal(hf_lease_remaining_ms(lease), 0);
        expect(HF_ELOST, hf_lease_release(lease, &err));
        expect(HF_ELOST, hf_lease_release(lease, &err));
        assert_int_equal(t.times, 1);
        hf_lease_free(lease);
    }
}

/* All at once: it is told once. */
static void test_all_are_lost(void **state)
{
    (void)state;
    told t;
    hf_lease *lease = take(note, &t, 300);
    wait_until_told(&t);
    assert_int_equal(t.why, HF_LOSS_EXPIRED);
    expect(HF_ELOST, hf_lease_release(lease, &err));
    assert_true(srv_cmd_becomes(servers[0], "0", "DBSIZE"));
    assert_true(srv_cmd_becomes(servers[1], "0", "DBSIZE"));
    hf_lease_free(lease); /* whoever would tell again has been waited for */
    assert_int_equal(t.times, 1);
}

static void test_freed_by_its_callback(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        told t;
        (void)take(note_and_free, &t, i == 0 ? 300 : 0);
        if (i > 0) {
            free(srv_cmd(servers[1], "DEL there"));
        }
        wait_until_told(&t);
        assert_true(srv_cmd_becomes(servers[0], "0", "DBSIZE"));
    }
}

/* It is freed just when it is lost, and perhaps while that is told, or when one
 * member's loss is known and the other's is not. */
static void test_freed_when_it_is_lost(void **state)
{
    (void)state;
    for (int i = 0; i < test_scaled(40); i++) {
        told t;
        hf_lease *lease = take(note, &t, 30);
        while (hf_lease_is_held(lease)) {
            (void)usleep(200);
        }
        if (i % 2 == 0) {
            (void)hf_lease_release(lease, &err);
        }
        hf_lease_free(lease);
        assert_true(t.times <= 1);
    }
}

/* Nobody has a handle of it. */
static void test_lost_without_a_handle(void **state)
{
    (void)state;
    told t = {.times = 0};
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = note;
    options.on_lost_arg = &t;
    expect(HF_OK, hf_lock_acquire_with(all, &options, NULL, &err));
    free(srv_cmd(servers[0], "DEL here"));
    wait_until_told(&t);
    assert_true(srv_cmd_becomes(servers[1], "0", "DBSIZE"));
    expect(HF_ENOTHELD, hf_lock_release(all, NULL, &err));
    assert_int_equal(t.times, 1);
}

static void test_released_is_not_lost(void **state)
{
    (void)state;
    told t;
    hf_lease *lease = take(note, &t, 0);
    expect(HF_OK, hf_lease_release(lease, &err));
    free(srv_cmd(servers[0], "DEL here"));
    expect(HF_OK, hf_lease_release(lease, &err));
    hf_lease_free(lease);
    assert_int_equal(t.times, 0);
}

/* Whoever releases is told by that; the others are released all the same. */
static void test_found_lost_by_its_release(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        told t;
        hf_lease *lease = take(note, &t, 0);
        free(srv_cmd(servers[i], "DEL here there"));
        expect(HF_ELOST, hf_lease_release(lease, &err));
        assert_true(srv_cmd_is(servers[1 - i], "0", "DBSIZE"));
        assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
        assert_int_equal(hf_lease_loss(lease), HF_LOSS_REVOKED);
        hf_lease_free(lease);
        assert_int_equal(t.times, 0);
    }
}

/* Renewed on both, each by its own keeper. */
static void test_renewed_on_both(void **state)
{
    (void)state;
    told t;
    hf_lease *lease = take(note, &t, 0);
    test_reset_calls(servers[0]);
    test_reset_calls(servers[1]);
    assert_true(test_wait_calls(servers[0], "evalsha", 3));
    assert_true(test_wait_calls(servers[1], "evalsha", 3));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    assert_int_equal(t.times, 0);
    test_give(lease);
}

/* The smallest remaining time is what is left. */
static void test_the_smallest_time(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        hf_client_options options = test_watchdog(60000);
        hf_client *brief = test_client(srv_url(servers[i]), &options);
        test_warm_up(brief);
        hf_lock *locks[] = {test_lock(clients[1 - i], "long"),
                            test_lock(brief, "brief")};
        hf_lock *both = hf_multi_open(locks, 2, &err);
        hf_lease *lease = test_take(both);
        assert_in_range(hf_lease_remaining_ms(lease), 1, 60000);
        test_give(lease);
        hf_lock_free(both);
        hf_lock_free(locks[0]);
        hf_lock_free(locks[1]);
        hf_client_free(brief);
    }
}

static void test_fixed_leases(void **state)
{
    (void)state;
    told t;
    hf_lease *lease = take(note, &t, 1800000);
    int64_t left = hf_lease_remaining_ms(lease);
    assert_in_range(left, 1800000 / 2, 1800000);
    assert_true(srv_cmd_int(servers[0], "PTTL here") >= left);
    assert_true(srv_cmd_int(servers[1], "PTTL there") >= left);
    test_give(lease);
}

/* ---- a server that stops */

static void test_one_server_stopped(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        hf_lease *lease = NULL;
        srv_pause(servers[i]);
        expect(HF_EUNREACHABLE, hf_lock_acquire(all, 1500, &lease, &err));
        assert_null(lease);
        expect(HF_EUNREACHABLE, hf_lock_try(all, &lease, &err));
        assert_null(lease);
        /* Nothing is kept where something was granted. */
        assert_true(srv_cmd_becomes(servers[1 - i], "0", "DBSIZE"));
        srv_resume(servers[i]);
        expect(HF_OK, hf_lock_acquire(all, TEST_LIMIT_MS, &lease, &err));
        test_give(lease);
    }
}

/* It goes on when the server does. */
static void test_waits_for_a_server(void **state)
{
    (void)state;
    taker t;
    srv_pause(servers[1]);
    test_reset_calls(servers[0]);
    taker_start(&t, all, HF_WAIT_FOREVER, NULL);
    /* Acquired, and given back. */
    assert_true(test_wait_calls(servers[0], "evalsha", 2));
    assert_true(srv_cmd_becomes(servers[0], "0", "DBSIZE"));
    srv_resume(servers[1]);
    taker_end(&t, HF_OK);
}

/* A release goes to all of them, whichever fails. */
static void test_release_with_one_server_stopped(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        hf_lease *lease = test_take(all);
        srv_pause(servers[i]);
        expect(HF_EUNKNOWN, hf_lease_release(lease, &err));
        assert_true(srv_cmd_is(servers[1 - i], "0", "DBSIZE"));
        srv_resume(servers[i]);
        hf_lease_free(lease);
        assert_true(srv_cmd_becomes(servers[i], "0", "DBSIZE"));
    }
}

/* What was granted early is not old when the last is granted: the second
 * server's replies come so late that less than half is left. */
static void test_one_server_is_slow(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    proxy *net = proxy_start(srv_socket(servers[1]));
    close_all();
    open_with(&options, proxy_url(net));
    hf_acquire_options with = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = NULL;
    with.lease_ms = 1200;
    proxy_delay(net, PROXY_TO_CLIENT, 700);
    expect(HF_EUNREACHABLE, hf_lock_acquire_with(all, &with, &lease, &err));
    assert_null(lease);
    assert_true(srv_cmd_becomes(servers[0], "0", "DBSIZE"));
    assert_true(srv_cmd_becomes(servers[1], "0", "DBSIZE"));
    proxy_delay(net, PROXY_TO_CLIENT, 0);
    with.wait_ms = HF_WAIT_FOREVER;
    expect(HF_OK, hf_lock_acquire_with(all, &with, &lease, &err));
    hf_lease_free(lease);
    close_all();
    proxy_stop(net);
    open_with(&options, srv_url(servers[1]));
}

/* ---- clients and processes */

static void test_one_client_is_closed(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        told t;
        hf_client_options options = test_patient();
        hf_lease *lease = take(note, &t, 0);
        hf_client_free(clients[i]);
        assert_true(srv_cmd_is(servers[i], "0", "DBSIZE"));
        assert_false(hf_lease_is_held(lease));
        expect(HF_ECLOSED, hf_lease_release(lease, &err));
        assert_true(srv_cmd_is(servers[1 - i], "0", "DBSIZE"));
        expect(HF_ECLOSED, hf_lock_try(all, NULL, &err));
        hf_lease_free(lease);
        assert_int_equal(t.times, 0);
        hf_client_free(clients[1 - i]);
        hf_lock_free(all);
        open_with(&options, srv_url(servers[1]));
    }
}

/* A lease without a handle ends with its first lock's client; with another
 * one's, it can still be given back. */
static void test_closed_without_a_handle(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        hf_client_options options = test_patient();
        expect(HF_OK, hf_lock_acquire(all, 0, NULL, &err));
        hf_client_free(clients[i]);
        if (i > 0) {
            expect(HF_ECLOSED, hf_lock_release(all, NULL, &err));
        }
        assert_true(srv_cmd_becomes(servers[0], "0", "DBSIZE"));
        assert_true(srv_cmd_becomes(servers[1], "0", "DBSIZE"));
        hf_lock_free(all);
        hf_client_free(clients[1 - i]);
        open_with(&options, srv_url(servers[1]));
    }
}

static void test_child_of_a_holder(void **state)
{
    (void)state;
    hf_lease *lease = test_take(all);
    const char *owner = hf_lease_owner_id(lease);
    pid_t child = fork();
    if (child == 0) {
        int yes = 7;
        hf_lock *again[] = {all};
        must(!hf_lease_is_held(lease));
        must(hf_lease_remaining_ms(lease) == 0);
        must_be(HF_EFORKED, hf_lease_release(lease, &err));
        must_be(HF_EFORKED, hf_lock_release(all, NULL, &err));
        must_be(HF_EFORKED, hf_lock_try(all, NULL, &err));
        must_be(HF_EFORKED, hf_lock_is_locked(all, &yes, &err));
        must_be(HF_EFORKED, hf_lock_force_release(all, &yes, &err));
        must(!hf_multi_open(again, 1, &err));
        must(hf_error_status(&err) == HF_EFORKED);
        must(hf_lease_fd(lease, &err) == -1);
        hf_lease_free(lease);
        hf_lock_free(all);
        hf_client_free(clients[0]);
        hf_client_free(clients[1]);
        test_exit_child(0);
    }
    assert_int_equal(test_reap(child), 0);
    assert_true(test_is_held(servers[0], "here", owner, 1));
    assert_true(srv_cmd_is(servers[1], "1", "EXISTS there"));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    test_give(lease);
}

/* An owner is one at all of them. */
static void test_owner_of_one_client(void **state)
{
    (void)state;
    hf_owner *owner = hf_owner_new(clients[1], &err);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lock *there = test_lock(clients[1], "there");
    int yes = 0;
    options.owner = owner;
    expect(HF_OK, hf_lock_acquire_with(all, &options, NULL, &err));
    assert_true(test_is_held(servers[1], "there", hf_owner_id(owner), 1));
    expect(HF_OK, hf_lock_is_held_by(all, owner, &yes, &err));
    assert_true(yes);
    expect(HF_OK, hf_lock_is_held_by(all, NULL, &yes, &err));
    assert_false(yes);
    expect(HF_OK, hf_lock_acquire_with(there, &options, NULL, &err));
    assert_true(test_is_held(servers[1], "there", hf_owner_id(owner), 2));
    expect(HF_OK, hf_lock_release(there, owner, &err));
    expect(HF_OK, hf_lock_release(all, owner, &err));
    hf_lock_free(there);
    hf_owner_free(owner);
}

#define APART(test, how) cmocka_unit_test_setup_teardown(test, how, end)

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        APART(test_one_is_lost, begin_in_haste),
        APART(test_all_are_lost, begin),
        APART(test_freed_by_its_callback, begin_in_haste),
        APART(test_freed_when_it_is_lost, begin),
        APART(test_lost_without_a_handle, begin_in_haste),
        APART(test_released_is_not_lost, begin_in_haste),
        APART(test_found_lost_by_its_release, begin),
        APART(test_renewed_on_both, begin_in_haste),
        APART(test_the_smallest_time, begin),
        APART(test_fixed_leases, begin),
        APART(test_one_server_stopped, begin_in_haste),
        APART(test_waits_for_a_server, begin_in_haste),
        APART(test_release_with_one_server_stopped, begin_in_haste),
        APART(test_one_server_is_slow, begin),
        APART(test_one_client_is_closed, begin),
        APART(test_closed_without_a_handle, begin),
        APART(test_child_of_a_holder, begin),
        APART(test_owner_of_one_client, begin),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, setup, teardown);
}
