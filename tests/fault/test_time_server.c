/* F36, F37: the server's wall clock, by which it measures leases, is set while
 * locks are held and waited for. */
#include "fault/fault.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define MINUTE_MS INT64_C(60000)
#define HOUR_MS (60 * MINUTE_MS)
#define SLACK_MS 5000

static volatile int64_t *server_clock; /* the offset, shared with the server */

static int setup(void **state)
{
    char *folder = test_folder_new();
    char *path = test_text("%s/clock", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(*server_clock)) != 0) {
        return -1;
    }
    void *at = mmap(NULL, sizeof(*server_clock), PROT_READ | PROT_WRITE,
                    MAP_SHARED, fd, 0);
    (void)close(fd);
    if (at == MAP_FAILED || setenv("HOLDFAST_TEST_CLOCK", path, 1) != 0 ||
        setenv("LD_PRELOAD", SHIM_CLOCK, 1) != 0) {
        return -1;
    }
    server_clock = at;
    int result = fault_setup(state);
    (void)unsetenv("LD_PRELOAD");
    free(path);
    test_folder_remove(folder); /* the server has it mapped */
    return result;
}

static int teardown(void **state)
{
    int result = fault_teardown(state);
    (void)munmap((void *)server_clock, sizeof(*server_clock));
    return result;
}

static long long server_seconds(fault *f)
{
    char *now = srv_cmd(f->server, "TIME");
    long long seconds = strtoll(now, NULL, 10);
    free(now);
    return seconds;
}

/* By so much from what it was at the start; the server has noticed. */
static void set_server_clock(fault *f, int64_t milliseconds)
{
    long long moved = (milliseconds * 1000000 - *server_clock) / 1000000000;
    long long before = server_seconds(f);
    *server_clock = milliseconds * 1000000;
    long long now = server_seconds(f);
    assert_in_range(now - before - moved + 1, 0, 60);
}

static hf_client *open_polling(fault *f, int64_t watchdog_ms)
{
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = watchdog_ms;
    options.poll_cap_ms = 100;
    return fault_open(f, srv_url(f->server), &options);
}

static hf_lease *take_noting(fault *f, hf_client *client, const char *name,
                             int64_t lease_ms, loss_note *note)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.lease_ms = lease_ms;
    options.on_lost = loss_note_take;
    options.on_lost_arg = note;
    return fault_take_with(f, fault_lock(f, client, name), &options);
}

/* ---- F36: forward */

/* The lease ends early there: its holder is told by the next renewal, and does
 * not touch who has got the lock meanwhile. */
static void test_forward_under_a_watchdog(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_client *holder = open_polling(f, 3000);
    hf_client *other = open_polling(f, 3000);
    hf_lease *lease = take_noting(f, holder, "early", 0, &note);
    set_server_clock(f, MINUTE_MS);
    hf_lease *next = fault_take(f, fault_lock(f, other, "early"));
    assert_becomes(atomic_load(&note.count) == 1);
    assert_int_equal(atomic_load(&note.why), HF_LOSS_REVOKED);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
    assert_true(fault_renewed(next, 4)); /* by the new time */
    fault_expect_count(f, "early", next, "1");
    fault_give(f, next);
    assert_int_equal(atomic_load(&note.count), 1);
}

/* Nothing renews a fixed lease: its holder is told by the release. */
static void test_forward_under_a_fixed_lease(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_client *holder = open_polling(f, 3000);
    hf_client *other = open_polling(f, 3000);
    hf_lease *lease = take_noting(f, holder, "early", MINUTE_MS / 2, &note);
    set_server_clock(f, MINUTE_MS);
    hf_lease *next = fault_take(f, fault_lock(f, other, "early"));
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    fault_expect_count(f, "early", next, "1");
    fault_give(f, next);
}

/* A waiter was told of half a minute, and sees by polling that it is over. */
static void test_forward_under_a_waiter(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_client *holder = open_polling(f, 3000);
    hf_client *other = open_polling(f, 3000);
    taker t;
    (void)take_noting(f, holder, "early", MINUTE_MS / 2, &note);
    taker_start(&t, fault_lock(f, other, "early"), TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "early", 1));
    set_server_clock(f, MINUTE_MS);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
}

/* ---- F37: back */

/* The lock would live for an hour more, until the next renewal says how long
 * it shall. */
static void test_back_under_a_watchdog(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_client *client = open_polling(f, 3000);
    hf_lease *lease = take_noting(f, client, "late", 0, &note);
    set_server_clock(f, -HOUR_MS);
    assert_true(srv_cmd_int(f->server, "PTTL late") > HOUR_MS - MINUTE_MS);
    assert_becomes(srv_cmd_int(f->server, "PTTL late") <= 3000);
    assert_true(fault_renewed(lease, 2));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    assert_int_equal(atomic_load(&note.count), 0);
    fault_expect_count(f, "late", lease, "1");
    fault_give(f, lease);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS late"));
}

/* The owner's release works whatever the server thinks of the lease's end. */
static void test_back_before_a_release(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_client *client = open_polling(f, 3000);
    hf_lease *lease = take_noting(f, client, "late", MINUTE_MS, &note);
    set_server_clock(f, -HOUR_MS);
    assert_true(srv_cmd_int(f->server, "PTTL late") > HOUR_MS - MINUTE_MS);
    fault_give(f, lease);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS late"));
}

/* A fixed lease ends for its holder when it said it would, and the hour that
 * the server would keep it is given back. */
static void test_back_under_a_fixed_lease(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_client *client = open_polling(f, 3000);
    hf_lease *lease = take_noting(f, client, "late", 1000, &note);
    set_server_clock(f, -HOUR_MS);
    assert_becomes(atomic_load(&note.count) == 1);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    assert_int_equal(atomic_load(&note.why), HF_LOSS_EXPIRED);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS late"));
}

/* The holder is dead, and the server keeps its lock for an hour: a wait ends
 * when its own time is up, and goes on asking: it is granted when the clock is
 * right again. */
static void test_back_under_a_waiter(void **state)
{
    fault *f = *state;
    hf_client *client = open_polling(f, 3000);
    hf_lock *lock = fault_lock(f, client, "late");
    assert_true(srv_cmd_is(f->server, "1", "HSET late %s 1",
                           "4b1d9c1e-0000-4000-8000-000000000000:7"));
    assert_true(srv_cmd_is(f->server, "1", "PEXPIRE late 1000"));
    set_server_clock(f, -HOUR_MS);
    int64_t before = test_now_ms();
    assert_int_equal(hf_lock_acquire(lock, 1500, NULL, NULL), HF_NOT_ACQUIRED);
    assert_in_range(test_now_ms() - before, 1500, 1500 + SLACK_MS);
    taker t;
    taker_start(&t, lock, TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "late", 1));
    set_server_clock(f, 0);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
}

int main(void)
{
#define TIMED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        TIMED(test_forward_under_a_watchdog),
        TIMED(test_forward_under_a_fixed_lease),
        TIMED(test_forward_under_a_waiter),
        TIMED(test_back_under_a_watchdog),
        TIMED(test_back_before_a_release),
        TIMED(test_back_under_a_fixed_lease),
        TIMED(test_back_under_a_waiter),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
