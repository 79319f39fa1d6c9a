/* Mutual exclusion under load: many threads of many processes on one lock
 * count in memory that nothing else guards. No wake-up is lost, or the test
 * would not end: the clients poll once an hour. Nothing is left at the end. */
#include "holdfast/holdfast.h"
#include "support/locks.h"
#include "support/net.h"
#include "support/server.h"

#include <sched.h>
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

#define PROCESSES 4
#define THREADS 8
#define LOCKS 4

/* What a lock guards, shared by all processes. */
typedef struct guarded {
    _Atomic int inside; /* who is, and nobody else may be */
    _Atomic int overlaps;
    long counter; /* not atomic */
} guarded;

/* How one thread goes about it. */
typedef struct worker {
    hf_client *client;
    hf_lock *locks[LOCKS];
    hf_owner *owner;
    guarded *guarded;
    int locks_used;
    int number; /* from 1 */
    int rounds;
    long done; /* guarded sections passed */
} worker;

static srv *server;
static guarded *shared;
static _Thread_local hf_error err = HF_ERROR_INIT;

static int setup(void **state)
{
    (void)state;
    server = srv_start(NULL);
    shared = mmap(NULL, LOCKS * sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)munmap(shared, LOCKS * sizeof(*shared));
    srv_stop(server);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    memset(shared, 0, LOCKS * sizeof(*shared));
    free(srv_cmd(server, "FLUSHALL"));
    return 0;
}

/* ---- one thread */

static void work(guarded *g, int number)
{
    int nobody = 0;
    if (!atomic_compare_exchange_strong(&g->inside, &nobody, number)) {
        (void)atomic_fetch_add(&g->overlaps, 1);
    }
    long seen = g->counter;
    if (seen % 16 == 0) {
        (void)sched_yield();
    }
    g->counter = seen + 1;
    int me = number;
    if (!atomic_compare_exchange_strong(&g->inside, &me, 0)) {
        (void)atomic_fetch_add(&g->overlaps, 1);
    }
}

static void with_handle(worker *w, hf_lock *lock, guarded *g)
{
    hf_lease *lease = NULL;
    must_be(HF_OK, hf_lock_acquire(lock, HF_WAIT_FOREVER, &lease, &err));
    work(g, w->number);
    must(hf_lease_is_held(lease));
    must_be(HF_OK, hf_lease_release(lease, &err));
    hf_lease_free(lease);
    w->done++;
}

static void without_handle(worker *w, hf_lock *lock, guarded *g)
{
    must_be(HF_OK, hf_lock_acquire(lock, HF_WAIT_FOREVER, NULL, &err));
    work(g, w->number);
    must_be(HF_OK, hf_lock_release(lock, NULL, &err));
    w->done++;
}

/* Re-enters, works twice, with an owner of its own. */
static void twice(worker *w, hf_lock *lock, guarded *g)
{
    hf_lease *outer = NULL;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.owner = w->owner;
    options.wait_ms = HF_WAIT_FOREVER;
    must_be(HF_OK, hf_lock_acquire_with(lock, &options, &outer, &err));
    work(g, w->number);
    must_be(HF_OK, hf_lock_acquire_with(lock, &options, NULL, &err));
    work(g, w->number);
    must_be(HF_OK, hf_lock_release(lock, w->owner, &err));
    work(g, w->number);
    hf_lease_free(outer); /* released in the background */
    w->done += 3;
}

/* Leaves the queue now and then. */
static void in_haste(worker *w, hf_lock *lock, guarded *g)
{
    hf_lease *lease = NULL;
    hf_status status = hf_lock_acquire(lock, w->done % 3, &lease, &err);
    if (status == HF_OK) {
        work(g, w->number);
        w->done++;
        test_give(lease);
    } else {
        /* So short a time may be over before the server has answered. */
        must(status == HF_NOT_ACQUIRED || status == HF_EUNREACHABLE);
    }
}

static void *run(void *arg)
{
    static void (*const ways[])(worker *, hf_lock *, guarded *) = {
        with_handle, without_handle, twice, in_haste};
    worker *w = arg;
    for (int i = 0; i < w->rounds; i++) {
        int at = (i + w->number) % w->locks_used;
        ways[(i + w->number) % 4](w, w->locks[at], &w->guarded[at]);
    }
    return NULL;
}

/* ---- one process */

static void begin_worker(worker *w, hf_client *client, int number,
                         int locks_used, int rounds)
{
    *w = (worker){.client = client,
                  .guarded = shared,
                  .locks_used = locks_used,
                  .number = number,
                  .rounds = rounds};
    w->owner = hf_owner_new(client, &err);
    must(w->owner != NULL);
    for (int i = 0; i < locks_used; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "contended:%d", i);
        w->locks[i] = test_lock(client, name);
    }
}

static long end_worker(worker *w)
{
    for (int i = 0; i < w->locks_used; i++) {
        hf_lock_free(w->locks[i]);
    }
    hf_owner_free(w->owner);
    return w->done;
}

/* Returns how many guarded sections its threads have passed. */
static long contend(int process, int locks_used, int rounds)
{
    worker workers[THREADS];
    pthread_t threads[THREADS];
    hf_client_options options = test_patient();
    size_t fds = test_open_fds();
    hf_client *client = test_client(srv_url(server), &options);
    long done = 0;
    for (int i = 0; i < THREADS; i++) {
        begin_worker(&workers[i], client, process * THREADS + i + 1, locks_used,
                     rounds);
        threads[i] = test_thread(run, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        test_join(threads[i]);
        done += end_worker(&workers[i]);
    }
    hf_client_free(client);
    must(test_open_fds() == fds);
    return done;
}

/* ---- all */

/* The server is as if nobody had been there. */
static void assert_nothing_left(void)
{
    assert_true(srv_cmd_becomes(server, "0", "DBSIZE"));
    assert_true(srv_cmd_becomes(server, "", "PUBSUB CHANNELS"));
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    for (;;) {
        char *list = srv_cmd(server, "CLIENT LIST");
        const char *second = strchr(list, '\n');
        bool alone = !second || second[1] == '\0'; /* the test's own */
        if (!alone && !test_pause(deadline)) {
            fail_msg("clients are left:\n%s", list);
        }
        free(list);
        if (alone) {
            return;
        }
    }
}

static void assert_counted(long done, int locks_used)
{
    long counted = 0;
    for (int i = 0; i < locks_used; i++) {
        assert_int_equal(atomic_load(&shared[i].overlaps), 0);
        assert_int_equal(atomic_load(&shared[i].inside), 0);
        counted += shared[i].counter;
    }
    assert_int_equal(counted, done);
}

static void test_threads_of_one_process(void **state)
{
    (void)state;
    size_t fds = test_open_fds();
    long done = contend(0, 1, test_scaled(200));
    assert_counted(done, 1);
    assert_nothing_left();
    assert_int_equal(test_open_fds(), fds);
}

static void check_processes(int locks_used, int rounds)
{
    pid_t children[PROCESSES];
    int ends[2];
    int failed = 0;
    long done = 0;
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            long mine = contend(i, locks_used, rounds);
            must(write(ends[1], &mine, sizeof(mine)) == sizeof(mine));
            test_end_child(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        failed += test_reap(children[i]) != 0;
    }
    assert_int_equal(failed, 0);
    for (int i = 0; i < PROCESSES; i++) {
        long theirs = 0;
        assert_int_equal(read(ends[0], &theirs, sizeof(theirs)),
                         sizeof(theirs));
        done += theirs;
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_counted(done, locks_used);
    assert_nothing_left();
    print_message("%ld sections in turn\n", done);
}

static void test_processes_on_one_lock(void **state)
{
    (void)state;
    check_processes(1, test_scaled(150));
}

static void test_processes_on_some_locks(void **state)
{
    (void)state;
    check_processes(LOCKS, test_scaled(150));
}

/* A process that is killed, waiting or holding, costs the others its lease and
 * no more. */
static void test_a_process_is_killed(void **state)
{
    (void)state;
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t victim = fork();
    if (victim == 0) {
        hf_client_options options = test_watchdog(1000);
        hf_client *client = test_client(srv_url(server), &options);
        hf_lock *lock = test_lock(client, "contended:0");
        (void)test_take(lock);
        must(write(ends[1], "x", 1) == 1);
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(srv_cmd_int(server, "HLEN contended:0"), 1);
    (void)kill(victim, SIGKILL);
    assert_int_equal(test_reap(victim), 128 + SIGKILL);
    check_processes(1, test_scaled(10));
    (void)close(ends[0]);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_threads_of_one_process, begin),
        cmocka_unit_test_setup(test_processes_on_one_lock, begin),
        cmocka_unit_test_setup(test_processes_on_some_locks, begin),
        cmocka_unit_test_setup(test_a_process_is_killed, begin),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
