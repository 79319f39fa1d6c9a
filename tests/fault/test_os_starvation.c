/* F65: the holder gets next to no time of the processor: its watchdog comes too
 * late. It has lost by then, whenever it gets to look, and another who was
 * granted the lock meanwhile is never together with it. */
#include "fault/fault.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEASE_MS 120
#define SPINNERS 16

#define ROUNDS 3
#define NS_PER_MS INT64_C(1000000)

/* What the holder says of itself, by CLOCK_BOOTTIME in nanoseconds. */
typedef struct diary {
    _Atomic int64_t held_at;  /* the latest time at which it held */
    _Atomic int64_t asked_at; /* at which it asked itself whether it did */
    _Atomic int64_t ends_at;  /* of its lease, as far as it knew then */
    atomic_bool asking;
    _Atomic int64_t told_at; /* when its callback was told of a loss */
    atomic_int told;         /* how often */
} diary;

static diary *shared;
static cpu_set_t first; /* one processor */
static const struct sched_param usual;

static int64_t now(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_BOOTTIME, &at);
    return at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
}

/* ---- the holder */

static void note_loss(void *arg, hf_lease *lease, hf_loss why)
{
    (void)arg;
    (void)lease;
    (void)why;
    atomic_store(&shared->told_at, now());
    (void)atomic_fetch_add(&shared->told, 1);
}

/* Asks itself whether it holds; the time is that before the question. */
static void ask(const hf_lease *lease)
{
    int64_t before = now();
    bool held = hf_lease_is_held(lease);
    int64_t left = hf_lease_remaining_ms(lease);
    if (held) {
        atomic_store(&shared->held_at, before);
        atomic_store(&shared->ends_at, before + left * NS_PER_MS);
    }
    atomic_store(&shared->asked_at, before);
    atomic_store(&shared->asking, held);
}

/* Holds, says so, and loses: true if that was told, once. */
static bool hold_and_lose(hf_lock *lock, int out)
{
    hf_error err = HF_ERROR_INIT;
    hf_lease *lease = NULL;
    hf_acquire_options terms = HF_ACQUIRE_OPTIONS_INIT;
    terms.on_lost = note_loss;
    terms.wait_ms = HF_WAIT_FOREVER;
    int told = atomic_load(&shared->told);
    atomic_store(&shared->asking, true);
    if (hf_lock_acquire_with(lock, &terms, &lease, &err) != HF_OK) {
        return false;
    }
    ask(lease);
    child_say(out, 'h');
    while (atomic_load(&shared->asking)) {
        ask(lease);
        (void)test_pause(0);
    }
    bool lost = hf_lease_release(lease, &err) == HF_ELOST;
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    while (atomic_load(&shared->told) == told && test_pause(by)) {
    }
    hf_lease_free(lease);
    return lost && atomic_load(&shared->told) == told + 1;
}

static int hold_on(const fault *f, int in, int out)
{
    hf_error err = HF_ERROR_INIT;
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = LEASE_MS;
    if (sched_setaffinity(0, sizeof(first), &first) != 0) {
        return 97;
    }
    hf_client *client = hf_client_open(srv_url(f->server), &options, &err);
    hf_lock *lock = client ? hf_lock_open(client, "starved", &err) : NULL;
    bool right = lock;
    for (int i = 0; right && i < ROUNDS; i++) {
        right = hold_and_lose(lock, out);
        child_say(out, right ? 'l' : '?');
        (void)child_hear(in);
    }
    hf_lock_free(lock);
    hf_client_free(client);
    return right ? 0 : 1;
}

/* ---- those who take its time */

static pid_t spinners[SPINNERS];

/* For all of a process's threads. */
static void set_policy(pid_t pid, int policy)
{
    char *path = test_text("/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    const struct dirent *entry = NULL;
    assert_non_null(tasks);
    while ((entry = readdir(tasks)) != NULL) {
        pid_t task = atoi(entry->d_name);
        assert_true(task <= 0 || sched_setscheduler(task, policy, &usual) == 0);
    }
    (void)closedir(tasks);
    free(path);
}

static void starve(pid_t pid)
{
    set_policy(pid, SCHED_IDLE);
    for (int i = 0; i < SPINNERS; i++) {
        spinners[i] = fork();
        assert_true(spinners[i] >= 0);
        if (spinners[i] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            (void)sched_setaffinity(0, sizeof(first), &first);
            (void)setpriority(PRIO_PROCESS, 0, 5);
            for (volatile unsigned spin = 0;; spin++) {
            }
        }
    }
}

static void feed(pid_t pid)
{
    set_policy(pid, SCHED_OTHER);
    for (int i = 0; i < SPINNERS; i++) {
        (void)kill(spinners[i], SIGKILL);
        (void)waitpid(spinners[i], NULL, 0);
    }
}

/* ---- the test */

static void test_starved(void **state)
{
    fault *f = *state;
    child c = child_start(f, hold_on);
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_lock *lock = fault_lock(f, client, "starved");
    int64_t late = 0;
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(child_hear(c.from), 'h');
        starve(c.pid);
        hf_lease *lease = fault_take(f, lock);
        int64_t granted_by = now();
        /* The thread that asks gets to run again, the watchdog not yet. */
        assert_int_equal(sched_setscheduler(c.pid, SCHED_OTHER, &usual), 0);
        assert_becomes(!atomic_load(&shared->asking) ||
                       atomic_load(&shared->asked_at) > granted_by);
        assert_true(atomic_load(&shared->held_at) <= granted_by);
        feed(c.pid);
        assert_int_equal(child_hear(c.from), 'l');
        late = atomic_load(&shared->told_at) - atomic_load(&shared->ends_at);
        print_message("told %lld ms after the deadline\n",
                      (long long)(late / NS_PER_MS));
        fault_expect_count(f, "starved", lease, "1");
        fault_give(f, lease);
        child_say(c.to, 'g');
    }
    assert_int_equal(child_end(&c), 0);
}

int main(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    /* Wherever it runs just now it may run. */
    CPU_SET((size_t)sched_getcpu(), &first);
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_starved),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
