/* How long a lease lives, and how its holder is told of the end: by state, by
 * call, by descriptor; in time, once, and for good. */
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Promised are 50 ms; a busy machine may not let the keeper run for longer. */
#define TOLD_WITHIN_MS 2000

static srv *server;
static hf_client *other; /* who has the lock next */
static _Thread_local hf_error err = HF_ERROR_INIT;

static int setup(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    server = srv_start(NULL);
    other = test_client(srv_url(server), &options);
    test_warm_up(other);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hf_client_free(other);
    srv_stop(server);
    return 0;
}

static int nothing_is_left(void **state)
{
    (void)state;
    bool empty = srv_cmd_becomes(server, "0", "DBSIZE");
    free(srv_cmd(server, "FLUSHALL")); /* of a test that failed */
    return empty ? 0 : -1;
}

/* ---- what is told */

typedef struct told {
    _Atomic int times;
    _Atomic int why;
    _Atomic int held; /* what hf_lease_is_held said within */
    _Atomic int64_t at;
    hf_lease *_Atomic lease;
} told;

static void note(void *arg, hf_lease *lease, hf_loss why)
{
    told *t = arg;
    t->at = test_now_ms();
    t->why = (int)why;
    t->lease = lease;
    t->held = hf_lease_is_held(lease);
    (void)atomic_fetch_add(&t->times, 1);
}

static hf_client *open_watchdog(int64_t lease_ms, int64_t command_timeout_ms)
{
    hf_client_options options = test_watchdog(lease_ms);
    options.command_timeout_ms = command_timeout_ms;
    hf_client *client = test_client(srv_url(server), &options);
    test_warm_up(client);
    return client;
}

static hf_lease *take_and_note(hf_lock *lock, told *t, int64_t lease_ms,
                               int64_t max_hold_ms)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = NULL;
    *t = (told){.times = 0};
    options.lease_ms = lease_ms;
    options.max_hold_ms = max_hold_ms;
    options.on_lost = note;
    options.on_lost_arg = t;
    expect(HF_OK, hf_lock_acquire_with(lock, &options, &lease, &err));
    return lease;
}

static void wait_until_told(told *t)
{
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    while (atomic_load(&t->times) == 0) {
        assert_true(test_pause(deadline));
    }
}

static void wait_for_state(const hf_lease *lease, hf_lease_state state)
{
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    while (hf_lease_get_state(lease) != state) {
        assert_int_not_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
        assert_true(test_pause(deadline));
    }
}

/* Lost, told of it once, and for good; nothing of the next holder's is
 * touched by the release. Frees the lease. */
static void assert_lost(hf_lock *lock, hf_lease *lease, told *t, hf_loss why,
                        const char *name)
{
    hf_lock *theirs = test_lock(other, name);
    hf_lease *next = NULL;
    int fd = hf_lease_fd(lease, &err);
    expect(HF_OK, hf_lock_acquire(theirs, TEST_LIMIT_MS, &next, &err));
    assert_true(test_wait_readable(fd));
    assert_true(test_readable(fd)); /* and stays so */
    wait_until_told(t);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    assert_int_equal(hf_lease_loss(lease), why);
    assert_int_equal(hf_lease_remaining_ms(lease), 0);
    assert_int_equal(t->why, why);
    assert_ptr_equal(t->lease, lease);
    assert_false(t->held);
    expect(HF_ELOST, hf_lease_release(lease, &err));
    expect(HF_ELOST, hf_lease_release(lease, &err));
    expect(HF_ENOTHELD, hf_lock_release(lock, NULL, &err));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    hf_lease_free(lease);
    assert_true(test_is_held(server, name, hf_lease_owner_id(next), 1));
    test_give(next);
    assert_int_equal(t->times, 1);
    hf_lock_free(theirs);
}

/* ---- the watchdog */

static void test_watchdog_keeps(void **state)
{
    (void)state;
    told t;
    const char *name = test_fresh_name();
    hf_client *client = open_watchdog(900, TEST_LIMIT_MS);
    hf_lock *lock = test_lock(client, name);
    hf_lease *lease = take_and_note(lock, &t, 0, 0);
    int64_t since = test_now_ms();
    test_reset_calls(server);
    /* Every renewal that the server has seen is one third at most; and time
     * alone proves nothing, should the machine have slept. */
    assert_true(test_wait_calls(server, "evalsha", 10));
    while (test_now_ms() - since < 3 * 900) {
        assert_true(hf_lease_is_held(lease));
        (void)test_pause(INT64_MAX);
    }
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    assert_true(test_is_held(server, name, hf_lease_owner_id(lease), 1));
    assert_in_range(srv_cmd_int(server, "PTTL %s", name), 1, 900);
    assert_in_range(hf_lease_remaining_ms(lease), 1, 900);
    test_give(lease);
    assert_int_equal(t.times, 0);
    hf_lock_free(lock);
    hf_client_free(client);
    assert_int_equal(t.times, 0);
}

/* After the release no renewal goes out any more. */
static void test_no_renewal_after_release(void **state)
{
    (void)state;
    hf_client *client = open_watchdog(150, TEST_LIMIT_MS);
    hf_lock *lock = test_lock(client, test_fresh_name());
    hf_lock *kept = test_lock(client, test_fresh_name());
    test_reset_calls(server);
    hf_lease *lease = test_take(lock);
    assert_true(test_wait_calls(server, "evalsha", 4)); /* it was renewed */
    test_give(lease);
    test_reset_calls(server);
    hf_lease *fresh = test_take(kept);
    assert_true(test_wait_calls(server, "evalsha", 6));
    test_give(fresh);
    /* The other lock's renewals went on, all of them found it held. */
    assert_int_equal(test_calls(server, "hexists"),
                     test_calls(server, "pexpire") - 1);
    hf_lock_free(lock);
    hf_lock_free(kept);
    hf_client_free(client);
}

static void test_max_hold(void **state)
{
    (void)state;
    told t;
    const char *name = test_fresh_name();
    hf_client *client = open_watchdog(300, TEST_LIMIT_MS);
    hf_lock *lock = test_lock(client, name);
    int64_t before = test_now_ms();
    hf_lease *lease = take_and_note(lock, &t, 0, 1000);
    assert_in_range(srv_cmd_int(server, "PTTL %s", name), 1, 300);
    wait_until_told(&t);
    /* Renewed, for it is more than three leases old; and no longer. */
    assert_in_range(t.at - before, 1000 - 10 - 2 - 1, 1000 + TOLD_WITHIN_MS);
    assert_lost(lock, lease, &t, HF_LOSS_MAX_HOLD, name);
    hf_lock_free(lock);
    hf_client_free(client);
}

/* The reply was long under way: the lease counts from the sending (R1). */
static void test_counted_from_the_sending(void **state)
{
    (void)state;
    taker t;
    hf_client_options options = test_patient();
    proxy *net = proxy_start(srv_socket(server));
    hf_client *far = test_client(proxy_url(net), &options);
    hf_lock *lock = test_lock(far, test_fresh_name());
    test_warm_up(far);
    size_t before = proxy_counts(net).seen[PROXY_TO_CLIENT];
    proxy_set(net, PROXY_TO_CLIENT, PROXY_HOLD);
    taker_start(&t, lock, HF_WAIT_FOREVER, NULL);
    assert_true(proxy_wait_seen(net, PROXY_TO_CLIENT, before + 1));
    int64_t replied = test_now_ms(); /* at the latest */
    while (test_now_ms() - replied < 500) {
        (void)test_pause(INT64_MAX);
    }
    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
    taker_join(&t);
    assert_int_equal(t.status, HF_OK);
    assert_in_range(hf_lease_remaining_ms(t.lease), 1,
                    3600000 - 36000 - 2 - 500);
    test_give(t.lease);
    hf_lock_free(lock);
    hf_client_free(far);
    proxy_stop(net);
}

/* ---- the key */

static void check_revoked(const char *how)
{
    told t;
    const char *name = test_fresh_name();
    hf_client *client = open_watchdog(600, TEST_LIMIT_MS);
    hf_lock *lock = test_lock(client, name);
    hf_lease *lease = take_and_note(lock, &t, 0, 0);
    assert_false(test_readable(hf_lease_fd(lease, &err)));
    free(srv_cmd(server, how, name, hf_lease_owner_id(lease)));
    assert_lost(lock, lease, &t, HF_LOSS_REVOKED, name);
    hf_lock_free(lock);
    hf_client_free(client);
}

static void test_key_deleted(void **state)
{
    (void)state;
    check_revoked("DEL %s");
    check_revoked("UNLINK %s");
    check_revoked("HDEL %s %s");
    check_revoked("FLUSHALL");
}

/* All holds of a deleted key are lost, each is told of once. */
static void test_key_deleted_under_several(void **state)
{
    (void)state;
    told t[3];
    hf_lease *leases[3];
    hf_client *client = open_watchdog(600, TEST_LIMIT_MS);
    hf_lock *lock = test_lock(client, "several");
    for (int i = 0; i < 3; i++) {
        leases[i] = take_and_note(lock, &t[i], 0, 0);
    }
    assert_true(srv_cmd_is(server, "1", "DEL several"));
    for (int i = 0; i < 3; i++) {
        wait_until_told(&t[i]);
        assert_int_equal(hf_lease_loss(leases[i]), HF_LOSS_REVOKED);
        expect(HF_ELOST, hf_lease_release(leases[i], &err));
    }
    /* A new acquisition begins at one. */
    hf_lease *fresh = test_take(lock);
    assert_true(test_is_held(server, "several", hf_lease_owner_id(fresh), 1));
    test_give(fresh);
    for (int i = 0; i < 3; i++) {
        hf_lease_free(leases[i]);
        assert_int_equal(t[i].times, 1);
    }
    hf_lock_free(lock);
    hf_client_free(client);
}

/* The descriptor may be asked for when it is too late. */
static void test_descriptor_after_the_loss(void **state)
{
    (void)state;
    told t;
    hf_client *client = open_watchdog(600, TEST_LIMIT_MS);
    hf_lock *lock = test_lock(client, "late");
    hf_lease *lease = take_and_note(lock, &t, 100, 0);
    wait_until_told(&t);
    int fd = hf_lease_fd(lease, &err);
    assert_true(test_readable(fd));
    assert_int_equal(hf_lease_fd(lease, &err), fd);
    hf_lease_free(lease);
    hf_lock_free(lock);
    hf_client_free(client);
}

/* ---- a server that does not answer */

static void test_server_stopped_briefly(void **state)
{
    (void)state;
    told t;
    const char *name = test_fresh_name();
    hf_client *client = open_watchdog(9000, 300);
    hf_lock *lock = test_lock(client, name);
    hf_lease *lease = take_and_note(lock, &t, 0, 0);
    srv_pause(server);
    wait_for_state(lease, HF_LEASE_SUSPECT);
    assert_true(hf_lease_is_held(lease)); /* the deadline is ahead */
    assert_in_range(hf_lease_remaining_ms(lease), 1, 9000);
    assert_int_equal(hf_lease_loss(lease), HF_LOSS_NONE);
    srv_resume(server);
    wait_for_state(lease, HF_LEASE_HELD);
    assert_true(test_is_held(server, name, hf_lease_owner_id(lease), 1));
    assert_false(test_readable(hf_lease_fd(lease, &err)));
    test_give(lease);
    assert_int_equal(t.times, 0);
    hf_lock_free(lock);
    hf_client_free(client);
}

static void check_silent_server(int64_t command_timeout_ms)
{
    told t;
    const char *name = test_fresh_name();
    hf_client *client = open_watchdog(900, command_timeout_ms);
    hf_lock *lock = test_lock(client, name);
    hf_lease *lease = take_and_note(lock, &t, 0, 0);
    int fd = hf_lease_fd(lease, &err);
    srv_pause(server);
    int64_t deadline = test_now_ms() + hf_lease_remaining_ms(lease);
    assert_true(test_wait_readable(fd)); /* while the server is silent */
    wait_until_told(&t);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    /* Not before the time promised, by the clock's and the quotient's
     * roundings; and soon after. */
    assert_in_range(t.at, deadline - 2, deadline + TOLD_WITHIN_MS);
    print_message("told %d ms after the deadline\n", (int)(t.at - deadline));
    srv_resume(server);
    assert_true(srv_cmd_becomes(server, "0", "EXISTS %s", name));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST); /* for good */
    assert_lost(lock, lease, &t, HF_LOSS_EXPIRED, name);
    hf_lock_free(lock);
    hf_client_free(client);
}

static void test_server_stopped_for_long(void **state)
{
    (void)state;
    check_silent_server(TEST_LIMIT_MS); /* still waits for its renewal */
    check_silent_server(100);           /* has given up several times */
}

/* ---- a holder that is stopped */

typedef struct report {
    int held; /* asked first of all after the resumption */
    hf_lease_state state;
    int64_t remaining;
    hf_status release;
    hf_status release_by_lock;
} report;

_Noreturn static void hold_in_child(const char *name, int in, int out)
{
    report r;
    char byte = 'h';
    hf_client_options options = test_watchdog(900);
    hf_client *client = test_client(srv_url(server), &options);
    hf_lock *lock = test_lock(client, name);
    hf_lease *lease = test_take(lock);
    must(write(out, &byte, 1) == 1);
    must(read(in, &byte, 1) == 1);
    r.held = hf_lease_is_held(lease);
    r.state = hf_lease_get_state(lease);
    r.remaining = hf_lease_remaining_ms(lease);
    r.release = hf_lease_release(lease, &err);
    r.release_by_lock = hf_lock_release(lock, NULL, &err);
    must(write(out, &r, sizeof(r)) == sizeof(r));
    hf_lease_free(lease);
    hf_lock_free(lock);
    hf_client_free(client);
    test_end_child(0);
}

static void test_holder_stopped(void **state)
{
    (void)state;
    report r;
    int status = 0;
    int to_child[2];
    int from_child[2];
    char byte;
    const char *name = test_fresh_name();
    assert_int_equal(pipe(to_child), 0);
    assert_int_equal(pipe(from_child), 0);
    pid_t child = fork();
    if (child == 0) {
        hold_in_child(name, to_child[0], from_child[1]);
    }
    (void)close(to_child[0]);
    (void)close(from_child[1]);
    assert_int_equal(read(from_child[0], &byte, 1), 1);
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    hf_lock *lock = test_lock(other, name);
    hf_lease *lease = NULL;
    expect(HF_OK, hf_lock_acquire(lock, TEST_LIMIT_MS, &lease, &err));
    assert_int_equal(write(to_child[1], "?", 1), 1);
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(read(from_child[0], &r, sizeof(r)), sizeof(r));
    assert_false(r.held);
    assert_int_equal(r.state, HF_LEASE_LOST);
    assert_int_equal(r.remaining, 0);
    assert_int_equal(r.release, HF_ELOST);
    assert_int_equal(r.release_by_lock, HF_ENOTHELD);
    assert_int_equal(test_reap(child), 0);
    assert_true(test_is_held(server, name, hf_lease_owner_id(lease), 1));
    test_give(lease);
    hf_lock_free(lock);
    (void)close(to_child[1]);
    (void)close(from_child[0]);
}

/* ---- what a callback may do */

typedef struct busy {
    hf_lease *own;   /* freed within */
    hf_lease *freed; /* of another lock, freed within */
    hf_lease *released;
    _Atomic int release_status;
    _Atomic int own_status;
    _Atomic bool over;
} busy;

static void do_much(void *arg, hf_lease *lease, hf_loss why)
{
    busy *b = arg;
    must(lease == b->own);
    must(why == HF_LOSS_REVOKED);
    must(!hf_lease_is_held(lease));
    must(hf_lease_is_held(b->released));
    must(strcmp(hf_lease_owner_id(lease), hf_lease_owner_id(b->freed)) == 0);
    must(test_readable(hf_lease_fd(lease, &err)));
    b->release_status = hf_lease_release(b->released, &err);
    b->own_status = hf_lease_release(lease, &err);
    hf_lease_free(b->freed);
    hf_lease_free(lease);
    b->over = true;
}

static void test_callback_releases_and_frees(void **state)
{
    (void)state;
    busy b = {.over = false};
    hf_client *client = open_watchdog(600, TEST_LIMIT_MS);
    hf_lock *first = test_lock(client, "callback:1");
    hf_lock *second = test_lock(client, "callback:2");
    hf_lock *third = test_lock(client, "callback:3");
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = do_much;
    options.on_lost_arg = &b;
    b.freed = test_take(second);
    b.released = test_take(third);
    expect(HF_OK, hf_lock_acquire_with(first, &options, &b.own, &err));
    assert_true(srv_cmd_is(server, "1", "DEL callback:1"));
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    while (!atomic_load(&b.over)) {
        assert_true(test_pause(deadline));
    }
    assert_int_equal(b.release_status, HF_OK);
    assert_int_equal(b.own_status, HF_ELOST);
    assert_true(srv_cmd_becomes(server, "0", "DBSIZE"));
    assert_int_equal(hf_lease_get_state(b.released), HF_LEASE_RELEASED);
    hf_lease_free(b.released);
    hf_lock_free(first);
    hf_lock_free(second);
    hf_lock_free(third);
    hf_client_free(client);
}

/* A lease without a handle is told of as well. */
static void test_callback_without_handle(void **state)
{
    (void)state;
    told t = {.times = 0};
    hf_client *client = open_watchdog(600, TEST_LIMIT_MS);
    hf_lock *lock = test_lock(client, "no-handle");
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = note;
    options.on_lost_arg = &t;
    expect(HF_OK, hf_lock_acquire_with(lock, &options, NULL, &err));
    assert_true(srv_cmd_is(server, "1", "DEL no-handle"));
    wait_until_told(&t);
    assert_int_equal(t.why, HF_LOSS_REVOKED);
    expect(HF_ENOTHELD, hf_lock_release(lock, NULL, &err));
    hf_lock_free(lock);
    hf_client_free(client);
    assert_int_equal(t.times, 1);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
#define CHECKED(test) cmocka_unit_test_teardown(test, nothing_is_left)
    const struct CMUnitTest tests[] = {
        CHECKED(test_watchdog_keeps),
        CHECKED(test_no_renewal_after_release),
        CHECKED(test_max_hold),
        CHECKED(test_counted_from_the_sending),
        CHECKED(test_key_deleted),
        CHECKED(test_key_deleted_under_several),
        CHECKED(test_descriptor_after_the_loss),
        CHECKED(test_server_stopped_briefly),
        CHECKED(test_server_stopped_for_long),
        CHECKED(test_holder_stopped),
        CHECKED(test_callback_releases_and_frees),
        CHECKED(test_callback_without_handle),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
