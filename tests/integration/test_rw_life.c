/* How long shares and leases of a read/write lock live: renewal, and what an
 * accident leaves. */
#include "integration/rw_side.h"
#include "support/net.h"
#include "support/proxy.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- renewal */

#define RENEWED_LEASE 6000 /* renewed each 2 s */
#define CUT_TO 4000

static void cut(const char *key)
{
    assert_true(srv_cmd_is(server, "1", "PEXPIRE %s %d", key, CUT_TO));
}

/* Waits until it has been renewed. */
static void assert_renewed(const char *key)
{
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    while (srv_cmd_int(server, "PTTL %s", key) <= CUT_TO) {
        assert_true(test_pause(deadline));
    }
    assert_ends(key, RENEWED_LEASE);
}

static char *hold_key(const char *name, const hf_lease *lease, int number)
{
    return test_text("{%s}:%s:rwlock_timeout:%d", name,
                     hf_lease_owner_id(lease), number);
}

static void test_all_readers_are_renewed(void **state)
{
    (void)state;
    hf_client_options options = test_watchdog(RENEWED_LEASE);
    hf_client *own = test_client(srv_url(server), &options);
    const char *name = test_fresh_name();
    rw lock = rw_open(own, name);
    hf_owner *owner = hf_owner_new(own, &err);
    hf_lease *leases[] = {test_take(lock.read), test_take(lock.read),
                          take_as(lock.read, owner, 0)};
    char *keys[] = {hold_key(name, leases[0], 1), hold_key(name, leases[1], 2),
                    hold_key(name, leases[2], 1), test_text("%s", name)};
    for (int i = 0; i < 4; i++) {
        cut(keys[i]);
    }
    for (int i = 0; i < 4; i++) {
        assert_renewed(keys[i]);
        free(keys[i]);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hf_lease_get_state(leases[i]), HF_LEASE_HELD);
        test_give(leases[i]);
    }
    hf_owner_free(owner);
    rw_free(lock);
    hf_client_free(own);
}

/* Giving back one side does not end the other's renewal. Defect 4 of
 * wire-protocol 23. */
static void test_sides_are_renewed_apart(void **state)
{
    (void)state;
    hf_client_options options = test_watchdog(RENEWED_LEASE);
    hf_client *own = test_client(srv_url(server), &options);
    const char *name = test_fresh_name();
    rw lock = rw_open(own, name);
    hf_lease *writes = test_take(lock.write);
    hf_lease *reads = test_take(lock.read);
    char *key = hold_key(name, reads, 1);
    test_give(reads);
    cut(name);
    assert_renewed(name);
    reads = test_take(lock.read);
    test_give(writes);
    cut(key);
    cut(name);
    assert_renewed(key);
    assert_renewed(name);
    assert_int_equal(hf_lease_get_state(reads), HF_LEASE_HELD);
    test_give(reads);
    free(key);
    rw_free(lock);
    hf_client_free(own);
}

/* A reader whose share has ended on the server learns of it by its renewal,
 * although others keep the lock and its field is still there. */
static void test_share_that_is_gone_is_lost(void **state)
{
    (void)state;
    hf_client_options options = test_watchdog(RENEWED_LEASE);
    hf_client *own = test_client(srv_url(server), &options);
    const char *name = test_fresh_name();
    rw mine = rw_open(own, name);
    rw theirs = rw_open(client, name);
    hf_lease *others = test_take(theirs.read);
    hf_lease *reads = test_take(mine.read);
    int fd = hf_lease_fd(reads, &err);
    char *key = hold_key(name, reads, 1);
    end_hold(key);
    assert_true(test_wait_readable(fd));
    assert_int_equal(hf_lease_loss(reads), HF_LOSS_REVOKED);
    hf_lease_free(reads);
    assert_true(srv_cmd_becomes(server, "2", "HLEN %s", name));
    reads = test_take(mine.read);
    assert_count(mine.read, 1);
    assert_true(is_there(key));
    test_give(reads);
    test_give(others);
    free(key);
    rw_free(mine);
    rw_free(theirs);
    hf_client_free(own);
}

/* ---- accidents */

_Noreturn static void die_reading(const char *name, int64_t lease_ms)
{
    hf_client_options options = test_watchdog(lease_ms);
    hf_client *own = test_client(srv_url(server), &options);
    rw lock = rw_open(own, name);
    (void)test_take(lock.read);
    (void)test_take(lock.read);
    test_end_child(0);
}

/* The share of a program that has died ends with its lease, while others read
 * on: F61. */
static void test_dead_program(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    rw mine = rw_open(client, name);
    rw theirs = rw_open(other, name);
    hf_lease *reads = test_take(mine.read);
    pid_t child = fork();
    if (child == 0) {
        die_reading(name, 1500);
    }
    assert_int_equal(test_reap(child), 0);
    assert_true(has_fields(name, "3"));
    taker_park(server, &t, theirs.write, HF_WAIT_FOREVER, NULL);
    /* The lock, with its dead reader's field, and our own hold are left. */
    assert_true(srv_cmd_becomes(server, "3", "DBSIZE"));
    assert_true(has_fields(name, "3"));
    assert_true(is_marked(name, true));
    test_give(reads);
    taker_end(&t, HF_OK);
    rw_free(mine);
    rw_free(theirs);
}

/* An acquire whose reply is lost is counted once, on either side. */
static void test_lost_reply(void **state)
{
    (void)state;
    proxy *net = proxy_start(srv_socket(server));
    hf_client_options options = test_patient();
    hf_client *far = test_client(proxy_url(net), &options);
    rw_warm_up(far);
    for (int i = 0; i < 2; i++) {
        taker t;
        const char *name = test_fresh_name();
        rw lock = rw_open(far, name);
        hf_lock *wanted = i ? lock.write : lock.read;
        size_t dropped = proxy_counts(net).dropped[PROXY_TO_CLIENT];
        proxy_set(net, PROXY_TO_CLIENT, PROXY_DROP_NEXT);
        taker_start(&t, wanted, HF_WAIT_FOREVER, NULL);
        assert_true(proxy_wait_dropped(net, PROXY_TO_CLIENT, dropped + 1));
        proxy_reset(net);
        taker_join(&t);
        assert_int_equal(t.status, HF_OK);
        assert_true(has_field(name, hf_lease_owner_id(t.lease), "1"));
        assert_true(srv_cmd_is(server, i ? "1" : "2", "DBSIZE"));
        test_give(t.lease);
        rw_free(lock);
    }
    hf_client_free(far);
    proxy_stop(net);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_all_readers_are_renewed),
        FIXTURE_TEST(test_sides_are_renewed_apart),
        FIXTURE_TEST(test_share_that_is_gone_is_lost),
        FIXTURE_TEST(test_dead_program),
        FIXTURE_TEST(test_lost_reply),
    };
    return cmocka_run_group_tests(tests, rw_setup, fixture_end);
}
