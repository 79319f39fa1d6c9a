/* Several locks as one under load: overlapping sets, given in any order, by
 * many threads of many processes, beside single locks that are taken the other
 * way round and kept while the next is waited for. Nobody waits for ever, for
 * the clients poll once an hour; and nobody is where another one is. */
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

#define PROCESSES 3
#define THREADS 5
#define LOCKS 5
#define SOME 3 /* locks of one set */

/* What a lock guards, shared by all processes. */
typedef struct guarded {
    _Atomic int inside;
    _Atomic int overlaps;
    long counter; /* not atomic */
} guarded;

typedef struct worker {
    hf_client *clients[2]; /* of two servers */
    int number;            /* from 1 */
    int rounds;
    long done; /* guarded sections passed */
} worker;

static srv *servers[2];
static guarded *shared;
static _Thread_local hf_error err = HF_ERROR_INIT;

static int setup(void **state)
{
    (void)state;
    servers[0] = srv_start(NULL);
    servers[1] = srv_start(NULL);
    shared = mmap(NULL, LOCKS * sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)munmap(shared, LOCKS * sizeof(*shared));
    srv_stop(servers[0]);
    srv_stop(servers[1]);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    memset(shared, 0, LOCKS * sizeof(*shared));
    free(srv_cmd(servers[0], "FLUSHALL"));
    free(srv_cmd(servers[1], "FLUSHALL"));
    return 0;
}

/* ---- what is guarded */

static void enter(guarded *g, int number)
{
    int nobody = 0;
    if (!atomic_compare_exchange_strong(&g->inside, &nobody, number)) {
        (void)atomic_fetch_add(&g->overlaps, 1);
    }
    g->counter++;
}

static void leave(guarded *g, int number)
{
    int me = number;
    if (!atomic_compare_exchange_strong(&g->inside, &me, 0)) {
        (void)atomic_fetch_add(&g->overlaps, 1);
    }
}

/* ---- one thread */

/* Numbers 0 to 2 are on the first server, the others on the second; one of
 * each is fair. */
static hf_lock *open_one(worker *w, int i)
{
    char name[32];
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = i % 3 == 1 ? HF_KIND_FAIR : HF_KIND_REENTRANT;
    int length = snprintf(name, sizeof(name), "one:%d", i);
    hf_lock *lock = hf_lock_open_with(w->clients[i / 3], name, (size_t)length,
                                      &options, &err);
    must(lock != NULL);
    return lock;
}

/* The same for everybody, yet in another order for each. */
static void choose(const worker *w, int round, int chosen[SOME])
{
    int first = (w->number + round) % LOCKS;
    int step = (w->number * 3 + round) % (LOCKS - 1) + 1;
    for (int i = 0; i < SOME; i++) {
        chosen[i] = (first + i * step) % LOCKS;
    }
}

static void take_together(worker *w, int round)
{
    int chosen[SOME];
    hf_lock *locks[SOME];
    hf_lease *lease = NULL;
    choose(w, round, chosen);
    for (int i = 0; i < SOME; i++) {
        locks[i] = open_one(w, chosen[i]);
    }
    hf_lock *all = hf_multi_open(locks, SOME, &err);
    must(all != NULL);
    must_be(HF_OK, hf_lock_acquire(all, HF_WAIT_FOREVER, &lease, &err));
    must(hf_lease_is_held(lease));
    for (int i = 0; i < SOME; i++) {
        hf_lock_free(locks[i]);
        enter(&shared[chosen[i]], w->number);
    }
    (void)sched_yield();
    must(hf_lease_is_held(lease));
    for (int i = 0; i < SOME; i++) {
        leave(&shared[chosen[i]], w->number);
    }
    if (round % 3 == 0) {
        must_be(HF_OK, hf_lock_release(all, NULL, &err));
    } else if (round % 3 == 1) {
        must_be(HF_OK, hf_lease_release(lease, &err));
    }
    hf_lease_free(lease);
    hf_lock_free(all);
    w->done += SOME;
}

/* From the last in the order to the first, each kept while the next is waited
 * for: who kept an earlier one while it waits would wait for ever. */
static void take_one_by_one(worker *w)
{
    hf_lock *locks[LOCKS];
    for (int i = LOCKS; i-- > 0;) {
        locks[i] = open_one(w, i);
        must_be(HF_OK, hf_lock_acquire(locks[i], HF_WAIT_FOREVER, NULL, &err));
        enter(&shared[i], w->number);
    }
    for (int i = 0; i < LOCKS; i++) {
        leave(&shared[i], w->number);
        must_be(HF_OK, hf_lock_release(locks[i], NULL, &err));
        hf_lock_free(locks[i]);
    }
    w->done += LOCKS;
}

static void *run(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < w->rounds; i++) {
        if (w->number % THREADS == 0) {
            take_one_by_one(w);
        } else {
            take_together(w, i);
        }
    }
    return NULL;
}

/* ---- one process */

static long contend(int process, int rounds)
{
    worker workers[THREADS];
    pthread_t threads[THREADS];
    hf_client_options options = test_patient();
    hf_client *clients[2];
    long done = 0;
    for (int i = 0; i < 2; i++) {
        clients[i] = test_client(srv_url(servers[i]), &options);
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.clients = {clients[0], clients[1]},
                              .number = process * THREADS + i + 1,
                              .rounds = rounds};
        threads[i] = test_thread(run, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        test_join(threads[i]);
        done += workers[i].done;
    }
    hf_client_free(clients[0]);
    hf_client_free(clients[1]);
    return done;
}

/* ---- all */

static void assert_counted(long done)
{
    long counted = 0;
    for (int i = 0; i < LOCKS; i++) {
        assert_int_equal(atomic_load(&shared[i].overlaps), 0);
        assert_int_equal(atomic_load(&shared[i].inside), 0);
        counted += shared[i].counter;
    }
    assert_int_equal(counted, done);
    for (int i = 0; i < 2; i++) {
        assert_true(srv_cmd_becomes(servers[i], "0", "DBSIZE"));
        assert_true(srv_cmd_becomes(servers[i], "", "PUBSUB CHANNELS"));
    }
}

static void test_threads(void **state)
{
    (void)state;
    long done = contend(0, test_scaled(60));
    assert_counted(done);
    print_message("%ld sections in turn\n", done);
}

static void test_processes(void **state)
{
    (void)state;
    pid_t children[PROCESSES];
    int ends[2];
    int failed = 0;
    long done = 0;
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            long mine = contend(i, test_scaled(40));
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
    assert_counted(done);
    print_message("%ld sections in turn\n", done);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_threads, begin),
        cmocka_unit_test_setup(test_processes, begin),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, setup, teardown);
}
