/* See locks.h. */
#include "support/locks.h"

#include "support/net.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define HOUR_MS (INT64_C(3600) * 1000)

/* Children that start threads after a fork of many are the very thing to be
 * tested. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

/* ---- checking */

void test_must(bool holds, const char *what, const char *file, int line)
{
    if (!holds) {
        test_die("%s:%d: not so: %s", file, line, what);
    }
}

static bool is_status(hf_status expected, hf_status status, const hf_error *err,
                      const char *call)
{
    if (status == expected) {
        return true;
    }
    (void)fprintf(stderr, "%s: gave %d (%s: %s), expected %d (%s)\n", call,
                  status, hf_status_text(status), hf_error_text(err), expected,
                  hf_status_text(expected));
    return false;
}

void test_expect(hf_status expected, hf_status status, const hf_error *err,
                 const char *call, const char *file, int line)
{
    if (!is_status(expected, status, err, call)) {
        _fail(file, line);
    }
}

void test_must_be(hf_status expected, hf_status status, const hf_error *err,
                  const char *call, const char *file, int line)
{
    if (!is_status(expected, status, err, call)) {
        test_die("%s:%d: wrong status", file, line);
    }
}

int test_scaled(int n)
{
    const char *scale = getenv("HOLDFAST_TEST_SCALE");
    double scaled = scale && *scale ? n * strtod(scale, NULL) : n;
    return scaled < 1 ? 1 : (int)scaled;
}

bool test_instrumented(void)
{
    const char *how = getenv("HOLDFAST_SANITIZE");
    return how && *how;
}

/* ---- clients and locks */

hf_client_options test_patient(void)
{
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    options.watchdog_lease_ms = HOUR_MS;
    options.poll_cap_ms = HOUR_MS;
    options.command_timeout_ms = TEST_LIMIT_MS;
    options.connect_timeout_ms = TEST_LIMIT_MS;
    return options;
}

hf_client_options test_watchdog(int64_t lease_ms)
{
    hf_client_options options = test_patient();
    options.watchdog_lease_ms = lease_ms;
    return options;
}

hf_client *test_client(const char *url, const hf_client_options *options)
{
    hf_error err = HF_ERROR_INIT;
    hf_client *client = hf_client_open(url, options, &err);
    if (!client) {
        test_die("no client: %s", hf_error_text(&err));
    }
    return client;
}

hf_lock *test_lock(hf_client *client, const char *name)
{
    hf_error err = HF_ERROR_INIT;
    hf_lock *lock = hf_lock_open(client, name, &err);
    if (!lock) {
        test_die("no lock: %s", hf_error_text(&err));
    }
    return lock;
}

hf_lease *test_take(hf_lock *lock)
{
    hf_error err = HF_ERROR_INIT;
    hf_lease *lease = NULL;
    must_be(HF_OK, hf_lock_try(lock, &lease, &err));
    must(lease != NULL);
    return lease;
}

void test_give(hf_lease *lease)
{
    hf_error err = HF_ERROR_INIT;
    must_be(HF_OK, hf_lease_release(lease, &err));
    hf_lease_free(lease);
}

const char *test_fresh_name(void)
{
    static char name[32];
    static int number;
    (void)snprintf(name, sizeof(name), "lock:%d", number++);
    return name;
}

void test_warm_up(hf_client *client)
{
    hf_lock *lock = test_lock(client, "warm-up");
    test_give(test_take(lock));
    hf_lock_free(lock);
}

/* ---- what the server has */

bool test_is_held(srv *server, const char *name, const char *owner,
                  int64_t count)
{
    char *expected = test_text("%s %" PRId64, owner, count);
    bool held = srv_cmd_is(server, expected, "HGETALL %s", name);
    free(expected);
    return held;
}

long long test_calls(srv *server, const char *command)
{
    char *stats = srv_cmd(server, "INFO commandstats");
    char *wanted = test_text("cmdstat_%s:calls=", command);
    const char *at = strstr(stats, wanted);
    long long calls = at ? strtoll(at + strlen(wanted), NULL, 10) : 0;
    free(wanted);
    free(stats);
    return calls;
}

void test_reset_calls(srv *server)
{
    must(srv_cmd_is(server, "OK", "CONFIG RESETSTAT"));
}

bool test_wait_calls(srv *server, const char *command, long long calls)
{
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    while (test_calls(server, command) < calls) {
        if (!test_pause(deadline)) {
            (void)fprintf(stderr, "%s: %lld calls, expected %lld\n", command,
                          test_calls(server, command), calls);
            return false;
        }
    }
    return true;
}

bool test_wait_subscribed(srv *server, const char *name, int connections)
{
    char *channel = test_text("redisson_lock__channel:{%s}", name);
    char *expected = test_text("%s %d", channel, connections);
    bool reached =
        srv_cmd_becomes(server, expected, "PUBSUB NUMSUB %s", channel);
    free(expected);
    free(channel);
    return reached;
}

/* ---- threads */

pthread_t test_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, fn, arg);
    if (error) {
        test_die("no thread: %s", strerror(error));
    }
    return thread;
}

void test_join(pthread_t thread)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 3 * TEST_LIMIT_MS / 1000;
    int error = pthread_timedjoin_np(thread, NULL, &until);
    if (error) {
        test_die("a thread does not end: %s", strerror(error));
    }
}

static void *take(void *arg)
{
    taker *t = arg;
    t->status = hf_lock_acquire_with(t->lock, &t->options, &t->lease, &t->err);
    return NULL;
}

void taker_start(taker *t, hf_lock *lock, int64_t wait_ms, hf_cancel *cancel)
{
    *t = (taker){.lock = lock, .options = HF_ACQUIRE_OPTIONS_INIT};
    t->options.wait_ms = wait_ms;
    t->options.cancel = cancel;
    t->thread = test_thread(take, t);
}

void taker_join(taker *t)
{
    test_join(t->thread);
}

void taker_park(srv *server, taker *t, hf_lock *lock, int64_t wait_ms,
                hf_cancel *cancel)
{
    test_reset_calls(server);
    taker_start(t, lock, wait_ms, cancel);
    must(test_wait_calls(server, "subscribe", 1));
    must(test_wait_calls(server, "evalsha", 2));
}

void taker_end(taker *t, hf_status status)
{
    taker_join(t);
    test_expect(status, t->status, &t->err, "acquire", __FILE__, __LINE__);
    if (status == HF_OK) {
        test_give(t->lease);
    } else {
        assert_null(t->lease);
    }
}

/* ---- children and descriptors */

static int last_code = -1; /* below 0: not a child that exits */

static void end_as_another_program(int code)
{
    const char *how = getenv("HOLDFAST_SANITIZE");
    if (how && strcmp(how, "valgrind") == 0) {
        char *command = test_text("exit %d", code);
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    }
}

/* The last of all, after those of the library. */
__attribute__((destructor(101))) static void end_of_exit(void)
{
    if (last_code >= 0) {
        end_as_another_program(last_code);
    }
}

void test_end_child(int code)
{
    end_as_another_program(code);
    _exit(code);
}

void test_exit_child(int code)
{
    last_code = code;
    exit(code);
}

int test_reap(pid_t child)
{
    int status = 0;
    int64_t deadline = test_now_ms() + 3 * TEST_LIMIT_MS;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (!test_pause(deadline)) {
            (void)kill(child, SIGKILL);
            test_die("a child does not end");
        }
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

size_t test_open_fds(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) {
        test_die("no /proc: %s", strerror(errno));
    }
    while (readdir(folder)) {
        count++;
    }
    (void)closedir(folder);
    return count - 3; /* ".", ".." and the folder's own */
}

static bool readable_within(int fd, int ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, ms) == 1 && (one.revents & POLLIN);
}

bool test_readable(int fd)
{
    return readable_within(fd, 0);
}

bool test_wait_readable(int fd)
{
    return readable_within(fd, TEST_LIMIT_MS);
}
