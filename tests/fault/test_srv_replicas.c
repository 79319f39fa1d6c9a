/* F17, F18: the server changes its role under load, becomes another's replica
 * and loses what it had, loses its own replica. */
#include "fault/fault.h"

#include <sched.h>
#include <stdio.h>

#define THREADS 4
#define ROUNDS 25

/* Nothing ends by itself within the test. */
static hf_client *open_patient(fault *f)
{
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = 120000;
    options.command_timeout_ms = TEST_LIMIT_MS;
    return fault_open(f, srv_url(f->server), &options);
}

/* ---- READONLY under load */

typedef struct load {
    hf_lock *lock;
    int *shared; /* changed under the lock only */
    atomic_int *left;
    hf_status failed; /* what went wrong, if anything */
    hf_error err;
} load;

static void *work_under_lock(void *arg)
{
    load *l = arg;
    for (int i = 0; i < ROUNDS && l->failed == HF_OK; i++) {
        hf_lease *lease = NULL;
        l->failed = hf_lock_acquire(l->lock, TEST_LIMIT_MS, &lease, &l->err);
        if (l->failed == HF_OK) {
            int seen = *l->shared;
            (void)sched_yield();
            *l->shared = seen + 1;
            l->failed = hf_lease_release(lease, &l->err);
        }
        hf_lease_free(lease);
    }
    (void)atomic_fetch_sub(l->left, 1);
    return NULL;
}

static void pause_a_little(int times)
{
    for (int i = 0; i < times; i++) {
        (void)test_pause(INT64_MAX);
    }
}

/* A replica for some milliseconds, a primary for some more, until all work is
 * done. */
static void change_roles(fault *f, atomic_int *left)
{
    while (atomic_load(left) > 0) {
        assert_true(srv_cmd_is(f->server, "OK", "REPLICAOF 127.0.0.1 1"));
        pause_a_little(1);
        assert_true(srv_cmd_is(f->server, "OK", "REPLICAOF NO ONE"));
        pause_a_little(4);
    }
}

/* Nobody sees more of it than that it takes longer: no acquire counts twice,
 * no release is lost. */
static void test_roles_change_under_load(void **state)
{
    fault *f = *state;
    int shared = 0;
    atomic_int left = THREADS;
    pthread_t threads[THREADS];
    load loads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        hf_client *client = i < 2 ? open_patient(f) : f->clients[i % 2];
        loads[i] = (load){.lock = fault_lock(f, client, "contended"),
                          .shared = &shared,
                          .left = &left};
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, work_under_lock, &loads[i]), 0);
    }
    change_roles(f, &left);
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        if (loads[i].failed != HF_OK) {
            fail_msg("%s", hf_error_text(&loads[i].err));
        }
    }
    assert_int_equal(shared, THREADS * ROUNDS);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS contended"));
    char *errors = srv_cmd(f->server, "INFO errorstats");
    assert_non_null(strstr(errors, "errorstat_READONLY"));
    free(errors);
}

/* ---- a replica of a server that has none of its locks */

/* The holder is told as soon as the data is the other's; the lock can be had
 * again when the server is a primary. */
static void test_replica_of_an_empty_server(void **state)
{
    static const char *const at_once[] = {"--repl-diskless-sync-delay", "0",
                                          NULL};
    fault *f = *state;
    loss_note note = {0};
    hf_acquire_options noting = HF_ACQUIRE_OPTIONS_INIT;
    noting.on_lost = loss_note_take;
    noting.on_lost_arg = &note;
    srv *empty = srv_start(at_once);
    hf_client *client = open_patient(f);
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, client, "gone"), &noting);

    char *order = test_text("REPLICAOF 127.0.0.1 %d", srv_port(empty));
    assert_true(srv_cmd_is(f->server, "OK", order));
    free(order);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS gone"));
    free(srv_cmd(f->server, "CLIENT KILL TYPE normal SKIPME yes"));
    assert_becomes(atomic_load(&note.count) == 1);
    assert_int_equal(atomic_load(&note.why), HF_LOSS_REVOKED);
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
    assert_true(srv_cmd_is(f->server, "OK", "REPLICAOF NO ONE"));
    fault_cycle(f, client, "gone");
    srv_stop(empty);
}

/* ---- the only replica stops */

static srv *start_replica(const fault *f)
{
    char *port = test_text("%d", srv_port(f->server));
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, NULL};
    srv *replica = srv_start(extra);
    free(port);
    return replica;
}

/* No lock is granted that no replica would get; a wait outlasts it, and the
 * replica has the lock then. */
static void test_only_replica_stops(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    assert_true(
        srv_cmd_is(f->server, "OK", "CONFIG SET repl-diskless-sync-delay 0"));
    assert_true(
        srv_cmd_is(f->server, "OK", "CONFIG SET min-replicas-max-lag 2"));
    assert_true(
        srv_cmd_is(f->server, "OK", "CONFIG SET min-replicas-to-write 1"));
    srv *replica = start_replica(f);
    hf_client *client = open_patient(f);
    hf_lock *lock = fault_lock(f, client, "copied");
    fault_give(f, fault_take(f, lock)); /* waits until there is one */

    srv_pause(replica);
    assert_becomes(fault_info(f, "min_slaves_good_slaves") == 0);
    assert_int_equal(hf_lock_try(lock, NULL, &err), HF_ESERVER);
    assert_non_null(strstr(hf_error_text(&err), "NOREPLICAS"));
    assert_true(hf_error_is_retriable(&err));
    assert_true(srv_cmd_is(f->server, "0", "EXISTS copied"));
    taker t;
    taker_start(&t, lock, TEST_LIMIT_MS);
    srv_resume(replica);
    assert_int_equal(taker_end(f, &t), HF_OK);
    assert_true(srv_cmd_becomes(replica, "1", "EXISTS copied"));
    fault_give(f, t.lease);
    srv_stop(replica);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_roles_change_under_load),
        FAULT_TEST(test_replica_of_an_empty_server),
        FAULT_TEST(test_only_replica_stops),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
