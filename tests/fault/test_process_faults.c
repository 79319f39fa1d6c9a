/* A process that holds is stopped, killed, ended, replaced or forked. The tests
 * start children, which a program with threads should not: their order is
 * that of the threads they need. */
#include "fault/fault.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLACK_MS 5000

/* Children do not free what they leave to the end of the process. */
static bool in_child;

int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return in_child;
}

/* ThreadSanitizer knows no thread of a child whose parent had several. */
#if TEST_THREAD_SANITIZER
#define CAN_START_THREADS_AFTER_FORK 0
#else
#define CAN_START_THREADS_AFTER_FORK 1
#endif

/* ---- children that hold */

static hf_client *open_in_child(const fault *f)
{
    hf_error err = HF_ERROR_INIT;
    hf_client_options options = fault_options();
    in_child = true;
    hf_client *client = hf_client_open(srv_url(f->server), &options, &err);
    if (!client) {
        (void)fprintf(stderr, "child: %s\n", hf_error_text(&err));
        _exit(99);
    }
    return client;
}

/* Holds "shared" with the watchdog's lease and says so. */
static int hold_until_told(const fault *f, int in, int out)
{
    hf_error err = HF_ERROR_INIT;
    hf_client *client = open_in_child(f);
    hf_lock *lock = hf_lock_open(client, "shared", &err);
    hf_lease *lease = NULL;
    loss_note note = {0};
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = &note;
    if (!lock || hf_lock_acquire_with(lock, &options, &lease, &err) != HF_OK) {
        return 98;
    }
    child_say(out, 'h');
    (void)child_hear(in);
    /* Before anything else can be said to this lock or lease. */
    int held = hf_lease_is_held(lease);
    hf_status again = hf_lock_try(lock, NULL, &err);
    hf_status given = hf_lease_release(lease, &err);
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    while (atomic_load(&note.count) == 0 && test_pause(by)) {
    }
    hf_lease_free(lease);
    hf_lock_free(lock);
    hf_client_free(client);
    return held != 0                       ? 1
           : again != HF_NOT_ACQUIRED      ? 2
           : given != HF_ELOST             ? 3
           : atomic_load(&note.count) != 1 ? 4
                                           : 0;
}

/* F5: the holder is stopped for longer than its lease. When it goes on it has
 * lost, and nothing that it says touches the next holder. */
static void test_holder_stopped(void **state)
{
    fault *f = *state;
    child c = child_start(f, hold_until_told);
    assert_int_equal(child_hear(c.from), 'h');
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_lock *lock = fault_lock(f, client, "shared");
    assert_int_equal(kill(c.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(c.pid, NULL, WUNTRACED), c.pid);
    hf_lease *lease = fault_take(f, lock);
    child_say(c.to, 'g');
    assert_int_equal(kill(c.pid, SIGCONT), 0);
    assert_int_equal(child_end(&c), 0);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    fault_expect_count(f, "shared", lease, "1");
    fault_give(f, lease);
}

/* F6: the holder is killed: a waiter has the lock when the lease is over,
 * without asking more often than the poll cap of a minute. */
static void test_holder_killed(void **state)
{
    fault *f = *state;
    child c = child_start(f, hold_until_told);
    assert_int_equal(child_hear(c.from), 'h');
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    taker t;
    taker_start(&t, fault_lock(f, client, "shared"), TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "shared", 1));
    child_kill(&c);
    int64_t killed_at = test_now_ms();
    assert_int_equal(taker_end(f, &t), HF_OK);
    assert_true(t.took_at - killed_at < 600 + SLACK_MS);
    fault_give(f, t.lease);
}

/* ---- F7, F43: the end of a process */

/* Abandons an acquire on the stopped server, and ends. */
static int abandon_and_exit(const fault *f, int in, int out)
{
    hf_error err = HF_ERROR_INIT;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_client *client = open_in_child(f);
    hf_lock *lock = hf_lock_open(client, "shared", &err);
    if (!lock || hf_lock_acquire(lock, 0, NULL, &err) != HF_OK ||
        hf_lock_release(lock, NULL, &err) != HF_OK) {
        return 98;
    }
    child_say(out, 'r');
    (void)child_hear(in);
    options.lease_ms = 60000;
    options.wait_ms = 50;
    return hf_lock_acquire_with(lock, &options, NULL, &err) == HF_EUNREACHABLE
               ? 0
               : 1;
}

/* F7: the process ends before the server has even read its acquire. */
static void test_abandoned_at_exit(void **state)
{
    fault *f = *state;
    child c = child_start(f, abandon_and_exit);
    assert_int_equal(child_hear(c.from), 'r');
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG RESETSTAT"));
    srv_pause(f->server);
    child_say(c.to, 'g');
    assert_int_equal(child_end(&c), 0);
    srv_resume(f->server);
    assert_becomes(fault_calls(f, "hset") >= 1);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS shared"));
}

static int hold_and_exit(const fault *f, int in, int out)
{
    hf_error err = HF_ERROR_INIT;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.lease_ms = 60000;
    hf_lock *lock = hf_lock_open(open_in_child(f), "shared", &err);
    if (!lock || hf_lock_acquire_with(lock, &options, NULL, &err) != HF_OK) {
        return 98;
    }
    child_say(out, 'h');
    (void)child_hear(in);
    return 0;
}

/* F43: exit gives back what the thread that ends the process holds, also when
 * the server has not got the release's script. */
static void test_exit_while_holding(void **state)
{
    fault *f = *state;
    for (int flushed = 0; flushed < 2; flushed++) {
        child c = child_start(f, hold_and_exit);
        assert_int_equal(child_hear(c.from), 'h');
        assert_true(!flushed || srv_cmd_is(f->server, "OK", "SCRIPT FLUSH"));
        child_say(c.to, 'g');
        assert_int_equal(child_end(&c), 0);
        assert_true(srv_cmd_becomes(f->server, "0", "EXISTS shared"));
    }
}

static int hold_and_exec(const fault *f, int in, int out)
{
    hf_error err = HF_ERROR_INIT;
    hf_lock *lock = hf_lock_open(open_in_child(f), "shared", &err);
    if (!lock || hf_lock_acquire(lock, 0, NULL, &err) != HF_OK) {
        return 98;
    }
    child_say(out, 'h');
    (void)in;
    (void)execl("/bin/sleep", "sleep", "600", (char *)NULL);
    return 97;
}

/* F43: another program takes the process over: it inherits no connection, and
 * the lock ends with its lease. */
static void test_exec_while_holding(void **state)
{
    fault *f = *state;
    child c = child_start(f, hold_and_exec);
    assert_int_equal(child_hear(c.from), 'h');
    assert_becomes(fault_info(f, "connected_clients") == 1);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS shared"));
    assert_int_equal(kill(c.pid, 0), 0);
    child_kill(&c);
}

/* ---- F40: fork */

static atomic_bool stop_pinging;

static void *ping_on(void *client)
{
    while (!atomic_load(&stop_pinging)) {
        (void)hf_client_ping(client, NULL);
    }
    return NULL;
}

typedef struct heritage {
    const fault *f;
    hf_client *client;
    hf_lock *lock;
    hf_lease *lease;
} heritage;

/* In the child: every inherited handle says so, and can be freed. */
static int use_heritage(const heritage *h)
{
    hf_error err = HF_ERROR_INIT;
    hf_lease *lease = NULL;
    (void)alarm(TEST_LIMIT_MS / 1000); /* should it hang */
    if (hf_lease_is_held(h->lease) || hf_lease_remaining_ms(h->lease) != 0) {
        return 1;
    }
    if (hf_lease_release(h->lease, &err) != HF_EFORKED ||
        hf_lock_try(h->lock, &lease, &err) != HF_EFORKED ||
        hf_lock_release(h->lock, NULL, &err) != HF_EFORKED ||
        hf_lock_force_release(h->lock, NULL, &err) != HF_EFORKED ||
        hf_client_ping(h->client, &err) != HF_EFORKED ||
        hf_lock_open(h->client, "x", &err) ||
        hf_lease_fd(h->lease, &err) >= 0) {
        return 2;
    }
    hf_lease_free(h->lease);
    hf_lock_free(h->lock);
    hf_client_free(h->client);
    if (!CAN_START_THREADS_AFTER_FORK) {
        return 0;
    }
    hf_client *own = open_in_child(h->f);
    hf_lock *lock = hf_lock_open(own, "forked", &err);
    if (!lock || hf_lock_try(lock, &lease, &err) != HF_NOT_ACQUIRED) {
        return 3;
    }
    hf_lock_free(lock);
    hf_client_free(own);
    return 0;
}

static int fork_with(const heritage *h, bool free_all)
{
    int status = 0;
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        in_child = true;
        if (!free_all) {
            (void)alarm(TEST_LIMIT_MS / 1000);
            exit(0); /* runs what is registered for the process's end */
        }
        _exit(use_heritage(h));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* F40: also while other threads are in the middle of calls. */
static void test_fork_while_holding(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = &note;
    heritage h = {.f = f, .client = fault_open(f, srv_url(f->server), NULL)};
    h.lock = fault_lock(f, h.client, "forked");
    h.lease = fault_take_with(f, h.lock, &options);
    pthread_t threads[2];
    /* A sanitizer does not see to it that its own locks, those of the memory
     * among them, are free in a child whose parent had several threads. */
    int others = TEST_SANITIZED ? 0 : 2;
    atomic_store(&stop_pinging, false);
    for (int i = 0; i < others; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ping_on, h.client),
                         0);
    }
    int failed = 0;
    for (int i = 0; i < 10 && !failed; i++) {
        failed = fork_with(&h, i % 2 == 0 || TEST_SANITIZED);
    }
    atomic_store(&stop_pinging, true);
    for (int i = 0; i < others; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    assert_int_equal(failed, 0);
    assert_true(fault_renewed(h.lease, 2));
    assert_int_equal(atomic_load(&note.count), 0);
    fault_expect_count(f, "forked", h.lease, "1");
    fault_give(f, h.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_holder_stopped),
        FAULT_TEST(test_holder_killed),
        FAULT_TEST(test_abandoned_at_exit),
        FAULT_TEST(test_exit_while_holding),
        FAULT_TEST(test_exec_while_holding),
        FAULT_TEST(test_fork_while_holding),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
