/* The server is killed, stopped, busy, full, or forgets the scripts. */
#include "fault/fault.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

/* How long a waiter may need beyond what a lease or a quarantine dictates.
 * Generous: a busy machine is slow. */
#define SLACK_MS 5000

static hf_acquire_options noting(loss_note *note)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = TEST_LIMIT_MS;
    options.on_lost = loss_note_take;
    options.on_lost_arg = note;
    return options;
}

/* F1: the server comes back empty. The holder is told; whoever knew the old
 * server grants nothing for the quarantine's length, and then goes on. */
static void test_killed_and_empty(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_acquire_options noted = noting(&note);
    hf_client_options options = fault_options();
    options.restart_quarantine_ms = 900;
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_client *other = fault_open(f, srv_url(f->server), &options);
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, holder, "killed"), &noted);
    hf_lock *wanted = fault_lock(f, other, "killed");

    srv_kill9(f->server);
    int64_t killed_at = test_now_ms();
    srv_restart(f->server);

    taker t;
    taker_start(&t, wanted, TEST_LIMIT_MS);
    assert_becomes(atomic_load(&note.count) == 1);
    assert_int_equal(taker_end(f, &t), HF_OK);
    assert_true(t.took_at >= killed_at + 900);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
    fault_expect_count(f, "killed", t.lease, "1");
    fault_give(f, t.lease);
}

/* F1: a single try says why it is not granted; by default the quarantine lasts
 * as long as the longest lease; -1 switches it off. */
static void test_quarantine_of_a_try(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    hf_client_options off = fault_options();
    off.restart_quarantine_ms = -1;
    hf_client *careful = fault_open(f, srv_url(f->server), NULL);
    hf_client *bold = fault_open(f, srv_url(f->server), &off);
    hf_lock *lock = fault_lock(f, careful, "quarantine");
    fault_give(f, fault_take(f, lock));
    fault_cycle(f, bold, "bold");

    int64_t killed_at = test_now_ms();
    srv_restart(f->server);
    fault_cycle(f, bold, "bold");
    if (hf_lock_try(lock, NULL, &err) == HF_OK) {
        assert_true(test_now_ms() >= killed_at + 600);
    } else {
        assert_int_equal(hf_error_status(&err), HF_NOT_ACQUIRED);
        assert_non_null(strstr(hf_error_text(&err), "restarted"));
        assert_true(hf_error_is_retriable(&err));
    }
    hf_lease *lease = fault_take(f, lock);
    assert_true(test_now_ms() >= killed_at + 600);
    fault_give(f, lease);
}

/* The append-only file's length, and cutting it there: what a crash of the
 * machine between two fsyncs forgets. */
static char *aof_path(const fault *f)
{
    return test_text("%s/appendonlydir/appendonly.aof.1.incr.aof",
                     srv_folder(f->server));
}

static off_t aof_length(const fault *f)
{
    char *path = aof_path(f);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t length = lseek(fd, 0, SEEK_END);
    assert_true(length > 0);
    (void)close(fd);
    free(path);
    return length;
}

static int setup_aof(void **state)
{
    static const char *const extra[] = {"--appendonly", "yes", "--appendfsync",
                                        "everysec", NULL};
    if (fault_setup(state) != 0) {
        return -1;
    }
    fault *f = *state;
    srv_stop(f->server);
    f->server = srv_start(extra);
    return 0;
}

/* F2: a lock that had been released and granted anew comes back with its
 * former owner. The new owner is told, nobody else gets in before the ghost's
 * lease is over, and the released lease stays released. */
static void test_killed_with_old_memory(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_acquire_options noted = noting(&note);
    hf_acquire_options fixed = HF_ACQUIRE_OPTIONS_INIT;
    fixed.lease_ms = 2500;
    hf_client *a = fault_open(f, srv_url(f->server), NULL);
    hf_client *b = fault_open(f, srv_url(f->server), NULL);
    hf_lock *lock_a = fault_lock(f, a, "ghost");
    hf_lock *lock_b = fault_lock(f, b, "ghost");

    int64_t before = test_now_ms();
    hf_lease *ghost = fault_take_with(f, lock_a, &fixed);
    char *owner = test_text("%s", hf_lease_owner_id(ghost));
    off_t length = aof_length(f);
    assert_int_equal(hf_lease_release(ghost, NULL), HF_OK);
    hf_lease *second = fault_take_with(f, lock_b, &noted);
    srv_kill9(f->server);
    char *path = aof_path(f);
    assert_int_equal(truncate(path, length), 0);
    free(path);
    srv_restart(f->server);
    assert_true(srv_cmd_is(f->server, "1", "HGET ghost %s", owner));
    free(owner);

    assert_becomes(atomic_load(&note.count) == 1);
    assert_int_equal(hf_lease_get_state(second), HF_LEASE_LOST);
    assert_int_equal(hf_lease_get_state(ghost), HF_LEASE_RELEASED);
    hf_lease *third = fault_take(f, lock_b);
    int64_t took = test_now_ms() - before;
    assert_in_range(took, 2500, 2500 + SLACK_MS);
    fault_give(f, third);
}

/* F3: silence shorter than the lease: suspect, then held again. */
static void test_stopped_for_less_than_the_lease(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_acquire_options noted = noting(&note);
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = 3000;
    options.command_timeout_ms = 200;
    hf_client *client = fault_open(f, srv_url(f->server), &options);
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, client, "short"), &noted);
    srv_pause(f->server);
    assert_becomes(hf_lease_get_state(lease) == HF_LEASE_SUSPECT);
    assert_true(hf_lease_is_held(lease));
    srv_resume(f->server);
    assert_becomes(hf_lease_get_state(lease) == HF_LEASE_HELD);
    assert_int_equal(atomic_load(&note.count), 0);
    assert_int_equal(hf_lease_loss(lease), HF_LOSS_NONE);
    fault_expect_count(f, "short", lease, "1");
    fault_give(f, lease);
}

/* F4: silence longer than the lease: lost at the deadline, although the server
 * says nothing; nothing of the lease is left when it goes on. */
static void test_stopped_for_more_than_the_lease(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_acquire_options noted = noting(&note);
    hf_client_options options = fault_options();
    options.command_timeout_ms = 150;
    hf_client *client = fault_open(f, srv_url(f->server), &options);
    hf_lease *lease = fault_take_with(f, fault_lock(f, client, "long"), &noted);
    struct pollfd told = {.fd = hf_lease_fd(lease, NULL), .events = POLLIN};

    srv_pause(f->server);
    int64_t latest = test_now_ms() + 600;
    assert_int_equal(poll(&told, 1, TEST_LIMIT_MS), 1);
    assert_becomes(atomic_load(&note.count) == 1);
    assert_becomes(test_now_ms() >= latest);
    assert_false(hf_lease_is_held(lease));
    assert_int_equal(hf_lease_remaining_ms(lease), 0);
    assert_int_equal(atomic_load(&note.why), HF_LOSS_EXPIRED);
    srv_resume(f->server);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS long"));
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
    fault_cycle(f, client, "long");
    assert_int_equal(atomic_load(&note.count), 1);
}

typedef struct load {
    hf_lock *lock;
    int rounds;
    int *shared; /* changed under the lock only */
    atomic_int failures;
    atomic_int left;
    hf_error err;
} load;

static void *work_under_lock(void *arg)
{
    load *l = arg;
    for (int i = 0; i < l->rounds; i++) {
        hf_lease *lease = NULL;
        if (hf_lock_acquire(l->lock, TEST_LIMIT_MS, &lease, &l->err) != HF_OK) {
            (void)atomic_fetch_add(&l->failures, 1);
            break;
        }
        int seen = *l->shared;
        (void)sched_yield();
        *l->shared = seen + 1;
        if (hf_lease_release(lease, &l->err) != HF_OK) {
            (void)atomic_fetch_add(&l->failures, 1);
        }
        hf_lease_free(lease);
    }
    (void)atomic_fetch_sub(&l->left, 1);
    return NULL;
}

/* F15: forgotten scripts are said again in full, and nobody notices. */
static void test_scripts_flushed(void **state)
{
    fault *f = *state;
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    for (int i = 0; i < 40; i++) {
        assert_true(i % 3 != 0 || srv_cmd_is(f->server, "OK", "SCRIPT FLUSH"));
        fault_cycle(f, client, "flushed");
    }
    hf_lock *lock = fault_lock(f, client, "flushed");
    hf_lease *lease = fault_take(f, lock);
    for (int i = 0; i < 3; i++) {
        assert_true(srv_cmd_is(f->server, "OK", "SCRIPT FLUSH"));
        assert_true(fault_renewed(lease, 1));
        assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    }
    fault_give(f, lease);
}

static void test_scripts_flushed_while_contended(void **state)
{
    fault *f = *state;
    int shared = 0;
    pthread_t threads[4];
    load loads[4];
    for (int i = 0; i < 4; i++) {
        hf_client *client =
            i < 2 ? fault_open(f, srv_url(f->server), NULL) : f->clients[i % 2];
        loads[i] = (load){.lock = fault_lock(f, client, "contended"),
                          .rounds = 50,
                          .shared = &shared,
                          .left = 1};
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, work_under_lock, &loads[i]), 0);
    }
    int flushes = 0;
    bool busy = true;
    while (busy) {
        busy = false;
        flushes += srv_cmd_is(f->server, "OK", "SCRIPT FLUSH") ? 1 : 0;
        for (int i = 0; i < 4; i++) {
            busy = busy || atomic_load(&loads[i].left) > 0;
        }
        (void)test_pause(0);
    }
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        if (atomic_load(&loads[i].failures) > 0) {
            fail_msg("%s", hf_error_text(&loads[i].err));
        }
    }
    assert_int_equal(shared, 200);
    assert_true(flushes > 3);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS contended"));
}

/* A script that runs until SCRIPT KILL; returns when the server says BUSY. */
static int make_busy(fault *f)
{
    static const char command[] = "EVAL \"while true do end\" 0\r\n";
    assert_true(
        srv_cmd_is(f->server, "OK", "CONFIG SET busy-reply-threshold 200"));
    int fd = test_connect_unix(srv_socket(f->server));
    assert_int_equal(write(fd, command, sizeof(command) - 1),
                     (ssize_t)sizeof(command) - 1);
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    bool busy = false;
    while (!busy && test_pause(by)) {
        char *reply = srv_cmd(f->server, "PING");
        busy = strncmp(reply, "(error) BUSY", 12) == 0;
        free(reply);
    }
    assert_true(busy);
    return fd;
}

/* F23: a try says that the server is busy, a wait outlasts it, a holder is
 * told at its deadline. */
static void test_busy_script(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_error err = HF_ERROR_INIT;
    hf_acquire_options noted = noting(&note);
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    fault_cycle(f, client, "busy");
    hf_lease *lease = fault_take_with(f, fault_lock(f, client, "held"), &noted);
    hf_lock *lock = fault_lock(f, client, "busy");

    int fd = make_busy(f);
    assert_int_equal(hf_lock_try(lock, NULL, &err), HF_ESERVER);
    assert_non_null(strstr(hf_error_text(&err), "BUSY"));
    assert_true(hf_error_is_retriable(&err));
    taker t;
    taker_start(&t, lock, TEST_LIMIT_MS);
    assert_becomes(atomic_load(&note.count) == 1);
    assert_int_equal(atomic_load(&note.why), HF_LOSS_EXPIRED);
    assert_false(atomic_load(&t.done));
    assert_true(srv_cmd_is(f->server, "OK", "SCRIPT KILL"));
    (void)close(fd);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_expect_count(f, "busy", t.lease, "1");
    fault_give(f, t.lease);
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
}

/* F23: a release waits for the busy server at most the command time-out, and
 * goes on behind the caller's back. */
static void test_release_while_busy(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    hf_acquire_options fixed = HF_ACQUIRE_OPTIONS_INIT;
    fixed.lease_ms = 60000;
    hf_client_options options = fault_options();
    options.command_timeout_ms = 300;
    hf_client *client = fault_open(f, srv_url(f->server), &options);
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, client, "given"), &fixed);
    int fd = make_busy(f);
    assert_int_equal(hf_lease_release(lease, &err), HF_EUNKNOWN);
    assert_true(srv_cmd_is(f->server, "OK", "SCRIPT KILL"));
    (void)close(fd);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS given"));
}

/* F30: the server has as many clients as it allows. */
static void test_too_many_clients(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = 3000;
    hf_client *client = fault_open(f, srv_url(f->server), &options);
    hf_lease *lease = fault_take(f, fault_lock(f, client, "crowd"));

    assert_true(srv_cmd_is(f->server, "OK", "CONFIG SET maxclients 1"));
    bool named = false; /* the reason may come when all is closed already */
    for (int i = 0; i < 50; i++) {
        assert_null(hf_client_open(srv_url(f->server), &options, &err));
        assert_int_equal(hf_error_status(&err), HF_EUNREACHABLE);
        assert_true(hf_error_is_retriable(&err));
        named = named || strstr(hf_error_text(&err), "as many clients");
    }
    assert_true(named);

    long long refused = fault_info(f, "rejected_connections");
    char *killed = srv_cmd(f->server, "CLIENT KILL TYPE normal SKIPME yes");
    free(killed);
    assert_becomes(hf_lease_get_state(lease) == HF_LEASE_SUSPECT);
    assert_becomes(fault_info(f, "rejected_connections") > refused);
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG SET maxclients 1000"));
    assert_becomes(hf_lease_get_state(lease) == HF_LEASE_HELD);
    fault_give(f, lease);
}

/* F30: who is refused comes back in growing intervals. */
static void test_refused_without_a_storm(void **state)
{
    fault *f = *state;
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_lock *lock = fault_lock(f, client, "storm");
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG SET maxclients 1"));
    free(srv_cmd(f->server, "CLIENT KILL TYPE normal SKIPME yes"));
    long long refused = fault_info(f, "rejected_connections");
    hf_error err = HF_ERROR_INIT;
    assert_int_equal(hf_lock_acquire(lock, 1000, NULL, &err), HF_EUNREACHABLE);
    refused = fault_info(f, "rejected_connections") - refused;
    assert_in_range(refused, 2, 60);
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG SET maxclients 1000"));
    fault_cycle(f, client, "storm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_killed_and_empty),
        FAULT_TEST(test_quarantine_of_a_try),
        cmocka_unit_test_setup_teardown(test_killed_with_old_memory, setup_aof,
                                        fault_teardown),
        FAULT_TEST(test_stopped_for_less_than_the_lease),
        FAULT_TEST(test_stopped_for_more_than_the_lease),
        FAULT_TEST(test_scripts_flushed),
        FAULT_TEST(test_scripts_flushed_while_contended),
        FAULT_TEST(test_busy_script),
        FAULT_TEST(test_release_while_busy),
        FAULT_TEST(test_too_many_clients),
        FAULT_TEST(test_refused_without_a_storm),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
