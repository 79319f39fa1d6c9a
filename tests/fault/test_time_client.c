/* F38, F39: the client's wall clock is set, which has no effect; and the clock
 * that counts a machine's sleep jumps as it does when the machine wakes up. The
 * test's own clock functions stand before the C library's, and a filter of the
 * kernel's watches over what is slept by. */
#include "fault/fault.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define SLACK_MS 5000
#define ENDLESS_MS 60000

/* ---- the clocks */

static _Atomic int64_t wall_offset;
static _Atomic int64_t slept;    /* what only CLOCK_BOOTTIME counts */
static atomic_long wall_lookups; /* how often somebody has asked for it */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    int64_t offset = 0;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        (void)atomic_fetch_add(&wall_lookups, 1);
        offset = atomic_load(&wall_offset);
    } else if (clock == CLOCK_BOOTTIME) {
        offset = atomic_load(&slept);
    }
    int64_t shifted = now->tv_sec * SECOND + now->tv_nsec + offset;
    now->tv_sec = shifted / SECOND;
    now->tv_nsec = shifted % SECOND;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}

static int setup(void **state)
{
    atomic_store(&wall_offset, 0);
    atomic_store(&slept, 0);
    return fault_setup(state);
}

/* The wall clock jumps to and fro by ten minutes until it is told to stop. */
static atomic_bool jumping;

static void *jump(void *arg)
{
    (void)arg;
    for (int i = 1; atomic_load(&jumping); i = (i + 1) % 3) {
        atomic_store(&wall_offset, (i - 1) * 600 * SECOND);
        (void)test_pause(0);
    }
    return NULL;
}

static pthread_t start_jumping(void)
{
    pthread_t thread;
    atomic_store(&jumping, true);
    assert_int_equal(pthread_create(&thread, NULL, jump, NULL), 0);
    atomic_store(&wall_lookups, 0);
    return thread;
}

/* In all that time the library has not even looked at it. */
static void stop_jumping(pthread_t thread)
{
    long lookups = atomic_load(&wall_lookups);
    atomic_store(&jumping, false);
    (void)pthread_join(thread, NULL);
    assert_int_equal(lookups, 0);
}

/* ---- F38: the wall clock */

static void test_wall_clock_jumps_under_a_watchdog(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_client_options patient = fault_options();
    patient.watchdog_lease_ms = 2000;
    hf_client *client = fault_open(f, srv_url(f->server), &patient);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = &note;
    pthread_t jumper = start_jumping();
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, client, "wall"), &options);
    for (int i = 0; i < 4; i++) { /* past the first lease's end */
        assert_true(fault_renewed(lease, 1));
        assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
        assert_in_range(hf_lease_remaining_ms(lease), 1, 2000);
    }
    assert_int_equal(atomic_load(&note.count), 0);
    fault_expect_count(f, "wall", lease, "1");
    fault_give(f, lease);
    stop_jumping(jumper);
}

/* A fixed lease and a wait last as long as they say. */
static void test_wall_clock_jumps_under_a_wait(void **state)
{
    fault *f = *state;
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.lease_ms = 1500;
    pthread_t jumper = start_jumping();
    int64_t before = test_now_ms();
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, holder, "wall"), &options);
    hf_lock *lock = fault_lock(f, other, "wall");
    assert_int_equal(hf_lock_acquire(lock, 400, NULL, NULL), HF_NOT_ACQUIRED);
    assert_in_range(test_now_ms() - before, 400, 400 + SLACK_MS);
    /* Its holder gives it back at its deadline, a hundredth early. */
    hf_lease *next = fault_take(f, lock);
    assert_in_range(test_now_ms() - before, 1480, 1500 + SLACK_MS);
    assert_false(hf_lease_is_held(lease));
    fault_give(f, next);
    stop_jumping(jumper);
}

/* ---- F38: what the kernel is asked to wait for */

#define ARGUMENT(n)                                                            \
    (offsetof(struct seccomp_data, args) + sizeof(uint64_t) * (n))
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offset))
#define UNLESS(value, skip)                                                    \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, skip)
#define IF(value, skip)                                                        \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), skip, 0)
#define UNLESS_BIT(bit, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bit, 0, skip)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

/* Whoever sleeps until a time of the wall clock is killed. A futex without an
 * end may have that clock's bit, which then means nothing. */
static bool forbid_wall_clock(void)
{
    struct sock_filter rules[] = {
        LOAD(offsetof(struct seccomp_data, nr)),
        UNLESS(SYS_timerfd_create, 3),
        LOAD(ARGUMENT(0)),
        UNLESS(CLOCK_REALTIME, 13),
        KILL,
        UNLESS(SYS_clock_nanosleep, 5),
        LOAD(ARGUMENT(0)),
        UNLESS(CLOCK_REALTIME, 9),
        LOAD(ARGUMENT(1)),
        UNLESS_BIT(TIMER_ABSTIME, 7),
        KILL,
        UNLESS(SYS_futex, 5),
        LOAD(ARGUMENT(1)),
        UNLESS_BIT(FUTEX_CLOCK_REALTIME, 3),
        LOAD(ARGUMENT(3)),
        IF(0, 1),
        KILL,
        ALLOW,
    };
    struct sock_fprog program = {.len = sizeof(rules) / sizeof(rules[0]),
                                 .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* All the waiting there is: for a reply, for a renewal, for the other's lease,
 * for the end of a wait, with a cancel handle, and for closing. */
static int wait_for_all(const fault *f, int in, int out)
{
    hf_error err = HF_ERROR_INIT;
    hf_client_options options = fault_options();
    hf_lease *lease = NULL;
    hf_acquire_options terms = HF_ACQUIRE_OPTIONS_INIT;
    (void)in;
    (void)out;
    options.watchdog_lease_ms = 3000;
    if (!forbid_wall_clock()) {
        return 98;
    }
    hf_client *client = hf_client_open(srv_tcp_url(f->server), &options, &err);
    hf_lock *lock = hf_lock_open(client, "wall", &err);
    hf_lock *theirs = hf_lock_open(client, "theirs", &err);
    terms.cancel = hf_cancel_new();
    terms.wait_ms = 150;
    if (hf_lock_acquire(lock, HF_WAIT_FOREVER, &lease, &err) != HF_OK ||
        hf_lock_acquire_with(theirs, &terms, NULL, &err) != HF_NOT_ACQUIRED ||
        hf_lock_acquire(theirs, TEST_LIMIT_MS, NULL, &err) != HF_OK ||
        !fault_renewed(lease, 1)) {
        return 1;
    }
    hf_lease_free(lease);
    hf_cancel_free(terms.cancel);
    hf_lock_free(theirs);
    hf_lock_free(lock);
    hf_client_free(client);
    return 0;
}

static void test_nothing_sleeps_by_the_wall_clock(void **state)
{
    fault *f = *state;
    assert_true(srv_cmd_is(f->server, "1", "HSET theirs %s 1",
                           "4b1d9c1e-0000-4000-8000-000000000000:7"));
    assert_true(srv_cmd_is(f->server, "1", "PEXPIRE theirs 2500"));
    child c = child_start(f, wait_for_all);
    assert_int_equal(child_end(&c), 0);
    assert_true(srv_cmd_becomes(f->server, "0", "DBSIZE"));
}

/* The filter does what it says: this one sleeps so. */
static int sleep_by_the_wall_clock(const fault *f, int in, int out)
{
    struct timespec past = {0};
    (void)f;
    (void)in;
    (void)out;
    (void)clock_nanosleep(CLOCK_REALTIME, 0, &past, NULL);
    if (!forbid_wall_clock()) {
        return 98;
    }
    (void)clock_nanosleep(CLOCK_REALTIME, 0, &past, NULL);
    (void)clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &past, NULL);
    return 0;
}

static void test_the_filter_bites(void **state)
{
    child c = child_start(*state, sleep_by_the_wall_clock);
    assert_int_equal(child_end(&c), -1);
}

/* ---- F39: the machine has slept */

static void sleep_for(int64_t milliseconds)
{
    (void)atomic_fetch_add(&slept, milliseconds * 1000000);
}

/* Past the deadline the first question says so, and so does all that
 * follows. */
static void test_slept_past_the_deadline(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_client_options patient = fault_options();
    patient.watchdog_lease_ms = ENDLESS_MS;
    hf_client *client = fault_open(f, srv_url(f->server), &patient);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = &note;
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, client, "slept"), &options);
    sleep_for(ENDLESS_MS / 2);
    assert_true(hf_lease_is_held(lease));
    assert_in_range(hf_lease_remaining_ms(lease), 1, ENDLESS_MS / 2);
    sleep_for(ENDLESS_MS / 2);
    assert_false(hf_lease_is_held(lease));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    assert_int_equal(hf_lease_remaining_ms(lease), 0);
    assert_int_equal(hf_lease_loss(lease), HF_LOSS_EXPIRED);
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
    assert_becomes(atomic_load(&note.count) == 1);
    /* What the server still has is taken back. */
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS slept"));
}

/* A wait that was to end while the machine slept ends soon after. */
static void test_slept_past_a_wait(void **state)
{
    fault *f = *state;
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    hf_acquire_options terms = HF_ACQUIRE_OPTIONS_INIT;
    terms.lease_ms = 2 * ENDLESS_MS;
    (void)fault_take_with(f, fault_lock(f, client, "slept"), &terms);
    taker t;
    taker_start(&t, fault_lock(f, other, "slept"), ENDLESS_MS);
    assert_true(fault_subscribed(f, "slept", 1));
    sleep_for(ENDLESS_MS);
    int64_t woken_at = test_now_ms();
    assert_int_equal(taker_end(f, &t), HF_NOT_ACQUIRED);
    assert_in_range(t.took_at - woken_at, 0, 5000 + SLACK_MS);
}

int main(void)
{
#define TIMED(test) cmocka_unit_test_setup_teardown(test, setup, fault_teardown)
    const struct CMUnitTest tests[] = {
        TIMED(test_the_filter_bites),
        TIMED(test_nothing_sleeps_by_the_wall_clock),
        TIMED(test_wall_clock_jumps_under_a_watchdog),
        TIMED(test_wall_clock_jumps_under_a_wait),
        TIMED(test_slept_past_the_deadline),
        TIMED(test_slept_past_a_wait),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
