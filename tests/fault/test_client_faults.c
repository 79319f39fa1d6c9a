/* The client's own process gives trouble: threads that end, signals, no
 * descriptors, no threads. */
#include "fault/fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define SLACK_MS 5000

/* ---- threads that cannot be had: stands before the C library's. The
 * sanitizers have one of their own, and start threads by themselves; the plain
 * build covers it. */

#if !TEST_SANITIZED

static atomic_int threads_allowed = -1; /* below 0: as many as there can be */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*body)(void *), void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                void *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (atomic_load(&threads_allowed) == 0) {
        return EAGAIN;
    }
    return real(thread, attributes, body, arg);
}

static atomic_int sends_to_fail;

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    ssize_t (*real)(int, const void *, size_t, int) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "send");
    if (atomic_load(&sends_to_fail) > 0) {
        (void)atomic_fetch_sub(&sends_to_fail, 1);
        errno = EPIPE;
        return -1;
    }
    return real(fd, bytes, length, flags);
}

#endif

/* ---- F41: threads that end */

static void *take_and_end(void *arg)
{
    hf_lease *lease = NULL;
    return hf_lock_try(arg, &lease, NULL) == HF_OK ? lease : NULL;
}

/* F41: what an ended thread holds stays held and renewed; no later thread is
 * taken for it, even one with its pthread_t. */
static void test_thread_ends_while_holding(void **state)
{
    fault *f = *state;
    pthread_t thread;
    void *got = NULL;
    int held = 1;
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_lock *lock = fault_lock(f, client, "left");
    assert_int_equal(pthread_create(&thread, NULL, take_and_end, lock), 0);
    (void)pthread_join(thread, &got);
    hf_lease *lease = got;
    assert_non_null(lease);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(pthread_create(&thread, NULL, take_and_end, lock), 0);
        (void)pthread_join(thread, &got);
        assert_null(got);
    }
    assert_int_equal(hf_lock_is_held_by(lock, NULL, &held, NULL), HF_OK);
    assert_int_equal(held, 0);
    assert_true(fault_renewed(lease, 4)); /* past the first lease's end */
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    fault_expect_count(f, "left", lease, "1");
    assert_int_equal(hf_lease_release(lease, NULL), HF_OK);
    hf_lease_free(lease);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS left"));
}

/* ---- F42: signals */

static atomic_int alarms;

static void on_alarm(int number)
{
    (void)number;
    (void)atomic_fetch_add(&alarms, 1);
}

static void start_alarms(int flags)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = flags};
    struct itimerval each_ms = {{0, 1000}, {0, 1000}};
    atomic_store(&alarms, 0);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &each_ms, NULL), 0);
}

static void stop_alarms(void)
{
    struct itimerval never = {{0, 0}, {0, 0}};
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    (void)signal(SIGALRM, SIG_DFL);
}

/* A load of cycles, a wait that runs out and one that is granted. */
static void work_under_signals(fault *f, int flags)
{
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    hf_lock *mine = fault_lock(f, client, "signals");
    hf_lock *theirs = fault_lock(f, other, "signals");
    start_alarms(flags);
    for (int i = 0; i < 300; i++) {
        fault_cycle(f, client, "signals");
    }
    hf_lease *lease = fault_take(f, theirs);
    int64_t before = test_now_ms();
    assert_int_equal(hf_lock_acquire(mine, 400, NULL, NULL), HF_NOT_ACQUIRED);
    int64_t took = test_now_ms() - before;
    assert_in_range(took, 400, 400 + SLACK_MS);
    taker t;
    taker_start(&t, mine, TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "signals", 1));
    fault_give(f, lease);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
    stop_alarms();
    assert_true(atomic_load(&alarms) > 100);
}

static void test_signals(void **state)
{
    work_under_signals(*state, 0);
}

static void test_signals_with_restart(void **state)
{
    work_under_signals(*state, SA_RESTART);
}

/* F42: a server that goes away while it is written to is an error, no signal;
 * the program's disposition is as it was. */
static void test_no_sigpipe(void **state)
{
    fault *f = *state;
    struct sigaction found;
    hf_error err = HF_ERROR_INIT;
    hf_client *client = fault_open(f, srv_tcp_url(f->server), NULL);
    hf_lock *lock = fault_lock(f, client, "pipe");
    hf_lease *lease = fault_take(f, lock);
    for (int i = 0; i < 20; i++) {
        free(srv_cmd(f->server, "CLIENT KILL TYPE normal SKIPME yes"));
        assert_int_equal(hf_client_ping(client, &err), HF_OK);
    }
    srv_kill9(f->server);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(hf_client_ping(client, &err), HF_EUNREACHABLE);
    }
    assert_becomes(hf_lease_get_state(lease) == HF_LEASE_LOST);
    assert_int_equal(sigaction(SIGPIPE, NULL, &found), 0);
    assert_true(found.sa_handler == SIG_DFL);
    sigset_t blocked;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &blocked), 0);
    assert_false(sigismember(&blocked, SIGPIPE));
}

#if !TEST_SANITIZED

/* F10: the background thread finds the connection broken by its own sending:
 * what comes of that is its to handle before it sleeps. */
static void test_connection_breaks_under_the_renewal(void **state)
{
    fault *f = *state;
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_lease *lease = fault_take(f, fault_lock(f, client, "renewed"));
    atomic_store(&sends_to_fail, 1);
    assert_becomes(atomic_load(&sends_to_fail) == 0);
    assert_true(fault_renewed(lease, 4)); /* past the first lease's end */
    fault_give(f, lease);
}

#endif

/* ---- F46: no descriptors, no threads */

static int lowest_free_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    (void)close(fd);
    return fd;
}

static rlim_t allow_descriptors(rlim_t count)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

/* F46: whatever number of descriptors is left, opening fails with a reason or
 * all works. */
static void test_descriptors_run_out(void **state)
{
    fault *f = *state;
    hf_client_options options = fault_options();
    bool worked = false;
    int failures = 0;
    assert_true(srv_cmd_is(f->server, "PONG", "PING"));
    for (rlim_t left = 0; !worked && left < 20; left++) {
        hf_error err = HF_ERROR_INIT;
        rlim_t before =
            allow_descriptors((rlim_t)lowest_free_descriptor() + left);
        hf_client *client = hf_client_open(srv_url(f->server), &options, &err);
        hf_lock *lock = client ? hf_lock_open(client, "few", &err) : NULL;
        hf_lease *lease = NULL;
        if (!client) {
            failures++;
            hf_status status = hf_error_status(&err);
            assert_true(status == HF_ESYSTEM || status == HF_EUNREACHABLE);
            assert_true(strlen(hf_error_text(&err)) > 0);
        } else {
            assert_int_equal(hf_lock_try(lock, &lease, &err), HF_OK);
            worked = hf_lease_fd(lease, &err) >= 0;
            assert_true(worked || hf_error_status(&err) == HF_ESYSTEM);
        }
        (void)allow_descriptors(before);
        hf_lease_free(lease);
        hf_lock_free(lock);
        hf_client_free(client);
        assert_true(srv_cmd_becomes(f->server, "0", "EXISTS few"));
    }
    assert_true(worked);
    assert_true(failures >= 2);
}

/* F46: none is left to reconnect: suspect, and held again once there is. */
static void test_no_descriptor_to_reconnect(void **state)
{
    fault *f = *state;
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = 4000;
    hf_client *client = fault_open(f, srv_url(f->server), &options);
    hf_lease *lease = fault_take(f, fault_lock(f, client, "few"));
    assert_true(srv_cmd_is(f->server, "PONG", "PING"));
    rlim_t before = allow_descriptors(3);
    free(srv_cmd(f->server, "CLIENT KILL TYPE normal SKIPME yes"));
    assert_becomes(hf_lease_get_state(lease) == HF_LEASE_SUSPECT);
    (void)allow_descriptors(before);
    assert_becomes(hf_lease_get_state(lease) == HF_LEASE_HELD);
    fault_give(f, lease);
}

#if !TEST_SANITIZED

/* F46: without its background thread nothing could be renewed: no client. */
static void test_no_thread(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    hf_client_options options = fault_options();
    atomic_store(&threads_allowed, 0);
    hf_client *client = hf_client_open(srv_url(f->server), &options, &err);
    atomic_store(&threads_allowed, -1);
    assert_null(client);
    assert_int_equal(hf_error_status(&err), HF_ESYSTEM);
    assert_non_null(strstr(hf_error_text(&err), "thread"));
    assert_becomes(fault_info(f, "connected_clients") == 1);
    fault_cycle(f, fault_open(f, srv_url(f->server), NULL), "again");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_thread_ends_while_holding),
        FAULT_TEST(test_signals),
        FAULT_TEST(test_signals_with_restart),
        FAULT_TEST(test_no_sigpipe),
#if !TEST_SANITIZED
        FAULT_TEST(test_connection_breaks_under_the_renewal),
#endif
        FAULT_TEST(test_descriptors_run_out),
        FAULT_TEST(test_no_descriptor_to_reconnect),
#if !TEST_SANITIZED
        FAULT_TEST(test_no_thread),
#endif
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
