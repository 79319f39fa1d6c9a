/* The server lives, and for a while refuses to write: it is a replica, loads
 * its data, misses its own replicas, cannot write to its disk. Whatever the
 * reason is, the same is expected of it. */
#include "fault/fault.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Far more than what is refused in a wait of a second with pauses between its
 * tries, far less than without. */
#define STORM 100

typedef struct refusal {
    const char *word; /* what the server's error begins with */
    void (*begin)(fault *f);
    void (*end)(fault *f);
} refusal;

static void order(fault *f, const char *command)
{
    assert_true(srv_cmd_is(f->server, "OK", command));
}

static bool info_says(fault *f, const char *line)
{
    char *info = srv_cmd(f->server, "INFO persistence");
    bool says = strstr(info, line) != NULL;
    free(info);
    return says;
}

/* ---- F17: a replica. Nobody listens on port 1: it keeps what it has. */

static void become_replica(fault *f)
{
    order(f, "REPLICAOF 127.0.0.1 1");
}

static void become_primary(fault *f)
{
    order(f, "REPLICAOF NO ONE");
}

/* ---- F18 */

static void become_stale_replica(fault *f)
{
    order(f, "CONFIG SET replica-serve-stale-data no");
    become_replica(f);
}

static void want_replicas(fault *f)
{
    order(f, "CONFIG SET min-replicas-to-write 1");
}

static void want_none(fault *f)
{
    order(f, "CONFIG SET min-replicas-to-write 0");
}

/* ---- F16: it loads as slowly as it is told to, some 30 s in all */

static void load_slowly(fault *f)
{
    static const char command[] = "DEBUG RELOAD\r\n";
    order(f, "DEBUG POPULATE 30000 padding");
    order(f, "CONFIG SET loading-process-events-interval-bytes 1024");
    order(f, "CONFIG SET key-load-delay 1000");
    int fd = test_connect_unix(srv_socket(f->server));
    assert_int_equal(write(fd, command, sizeof(command) - 1),
                     (ssize_t)sizeof(command) - 1);
    assert_becomes(info_says(f, "\nloading:1"));
    (void)close(fd); /* it goes on */
}

static void load_on(fault *f)
{
    order(f, "CONFIG SET key-load-delay 0");
    assert_true(srv_cmd_becomes(f->server, "PONG", "PING"));
}

/* ---- F22: a dump cannot be renamed to a folder's name, by root either */

static char *dump_path(const fault *f)
{
    return test_text("%s/dump.rdb", srv_folder(f->server));
}

static void fail_to_dump(fault *f)
{
    char *path = dump_path(f);
    assert_int_equal(mkdir(path, 0700), 0);
    free(path);
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG SET save %s", "3600 1"));
    free(srv_cmd(f->server, "BGSAVE"));
    assert_becomes(info_says(f, "rdb_last_bgsave_status:err"));
}

static void dump_again(fault *f)
{
    char *path = dump_path(f);
    assert_int_equal(rmdir(path), 0);
    free(path);
    free(srv_cmd(f->server, "BGSAVE"));
    assert_becomes(info_says(f, "rdb_last_bgsave_status:ok"));
}

/* ---- F66: no byte more goes to the append-only file, as on a full disk */

static void limit_files(const fault *f, rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(prlimit(srv_pid(f->server), RLIMIT_FSIZE, NULL, &limit),
                     0);
    limit.rlim_cur = bytes;
    assert_int_equal(prlimit(srv_pid(f->server), RLIMIT_FSIZE, &limit, NULL),
                     0);
}

static void fill_the_disk(fault *f)
{
    order(f, "CONFIG SET appendonly yes");
    assert_becomes(info_says(f, "aof_rewrite_in_progress:0") &&
                   info_says(f, "aof_rewrite_scheduled:0"));
    limit_files(f, 0);
    free(srv_cmd(f->server, "SET more data"));
    assert_becomes(info_says(f, "aof_last_write_status:err"));
}

static void clear_the_disk(fault *f)
{
    limit_files(f, RLIM_INFINITY);
    assert_becomes(info_says(f, "aof_last_write_status:ok"));
}

/* ---- what is expected */

static const refusal readonly = {"READONLY", become_replica, become_primary};
static const refusal masterdown = {"MASTERDOWN", become_stale_replica,
                                   become_primary};
static const refusal noreplicas = {"NOREPLICAS", want_replicas, want_none};
static const refusal loading = {"LOADING", load_slowly, load_on};
static const refusal no_dump = {"MISCONF", fail_to_dump, dump_again};
static const refusal disk_full = {"MISCONF", fill_the_disk, clear_the_disk};

/* Its leases outlast the test, and its connections every silence. */
static hf_client *open_patient(fault *f)
{
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = 120000;
    options.command_timeout_ms = TEST_LIMIT_MS;
    return fault_open(f, srv_url(f->server), &options);
}

static void expect_reason(const hf_error *err, const char *word)
{
    if (!strstr(hf_error_text(err), word)) {
        fail_msg("\"%s\" does not say %s", hf_error_text(err), word);
    }
    assert_true(hf_error_is_retriable(err));
}

/* A try and a wait that is too short end with the server's reason; the wait
 * has asked again and again, with pauses. */
static void expect_refused(fault *f, hf_lock *lock, const char *word)
{
    hf_error err = HF_ERROR_INIT;
    assert_int_equal(hf_lock_try(lock, NULL, &err), HF_ESERVER);
    expect_reason(&err, word);
    long long errors = fault_info(f, "total_error_replies");
    assert_int_equal(hf_lock_acquire(lock, 1000, NULL, &err), HF_ESERVER);
    expect_reason(&err, word);
    errors = fault_info(f, "total_error_replies") - errors;
    assert_in_range(errors, 2, STORM);
}

/* A release is said again and again, and goes on without its caller. */
static void expect_unconfirmed(hf_lease *lease)
{
    hf_error err = HF_ERROR_INIT;
    assert_int_equal(hf_lease_release(lease, &err), HF_EUNKNOWN);
    assert_true(hf_error_is_retriable(&err));
    assert_false(hf_lease_is_held(lease));
}

/* A lease that lasts long is doubted, and confirmed when the server is well
 * again; a short one is lost at its end; a release and a wait outlast it. */
static void live_through(fault *f, const refusal *what)
{
    loss_note note = {0};
    hf_acquire_options brief = HF_ACQUIRE_OPTIONS_INIT;
    hf_acquire_options fixed = HF_ACQUIRE_OPTIONS_INIT;
    fixed.lease_ms = 120000;
    brief.on_lost = loss_note_take;
    brief.on_lost_arg = &note;
    hf_client *client = open_patient(f);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    hf_lease *kept = fault_take(f, fault_lock(f, client, "kept"));
    hf_lease *given = fault_take_with(f, fault_lock(f, other, "given"), &fixed);
    hf_lease *ends = fault_take_with(f, fault_lock(f, other, "ends"), &brief);
    hf_lock *wanted = fault_lock(f, client, "wanted");

    what->begin(f);
    expect_refused(f, wanted, what->word);
    expect_unconfirmed(given);
    free(srv_cmd(f->server, "CLIENT KILL TYPE normal SKIPME yes"));
    assert_becomes(hf_lease_get_state(kept) == HF_LEASE_SUSPECT);
    assert_true(hf_lease_is_held(kept));
    taker t;
    taker_start(&t, wanted, TEST_LIMIT_MS);
    assert_becomes(atomic_load(&note.count) == 1);
    assert_int_equal(atomic_load(&note.why), HF_LOSS_EXPIRED);
    assert_int_equal(hf_lease_release(ends, NULL), HF_ELOST);
    assert_false(atomic_load(&t.done));

    what->end(f);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_expect_count(f, "wanted", t.lease, "1");
    assert_becomes(hf_lease_get_state(kept) == HF_LEASE_HELD);
    fault_expect_count(f, "kept", kept, "1");
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS given ends"));
    fault_give(f, t.lease);
    fault_give(f, kept);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS wanted kept"));
}

/* A client that is opened meanwhile finds a server that lives: its wait goes
 * on until the server is well, as everybody's does. */
static void open_meanwhile(fault *f, const refusal *what)
{
    what->begin(f);
    long long errors = fault_info(f, "total_error_replies");
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    taker t;
    taker_start(&t, fault_lock(f, client, "wanted"), TEST_LIMIT_MS);
    assert_becomes(fault_info(f, "total_error_replies") >= errors + 4);
    assert_false(atomic_load(&t.done));
    what->end(f);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
}

static void test_replica(void **state)
{
    live_through(*state, &readonly);
}

static void test_stale_replica(void **state)
{
    live_through(*state, &masterdown);
}

static void test_too_few_replicas(void **state)
{
    live_through(*state, &noreplicas);
}

static void test_loading(void **state)
{
    live_through(*state, &loading);
}

static void test_dump_fails(void **state)
{
    live_through(*state, &no_dump);
}

static void test_disk_full(void **state)
{
    live_through(*state, &disk_full);
}

static void test_opened_on_a_stale_replica(void **state)
{
    open_meanwhile(*state, &masterdown);
}

static void test_opened_while_loading(void **state)
{
    open_meanwhile(*state, &loading);
}

static void test_opened_while_dumps_fail(void **state)
{
    open_meanwhile(*state, &no_dump);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_replica),
        FAULT_TEST(test_stale_replica),
        FAULT_TEST(test_too_few_replicas),
        FAULT_TEST(test_loading),
        FAULT_TEST(test_dump_fails),
        FAULT_TEST(test_disk_full),
        FAULT_TEST(test_opened_on_a_stale_replica),
        FAULT_TEST(test_opened_while_loading),
        FAULT_TEST(test_opened_while_dumps_fail),
    };
    /* The server inherits it: a write beyond the limit is an error, no
     * signal. */
    (void)signal(SIGXFSZ, SIG_IGN);
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
