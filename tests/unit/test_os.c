/* Clock, random bytes, parking, wake-ups, forks and daemons. */
#include "base/heap.h"
#include "os/os.h"
#include "support/net.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT (TEST_LIMIT_MS * HF__MS)

/* ---- clock */

static int64_t boottime(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &now), 0);
    return (int64_t)now.tv_sec * HF__SECOND + now.tv_nsec;
}

static void test_clock_is_boottime(void **state)
{
    (void)state;
    int64_t before = boottime();
    int64_t now = hf__now();
    int64_t after = boottime();
    assert_true(before <= now && now <= after);
}

/* A time namespace tells the two clocks apart, as a suspend would. */
#define SHIFT_S 100000

static int enter_shifted_time(void)
{
    /* The second way is for who is not root, and forbids threads. */
    if (unshare(CLONE_NEWTIME) != 0 &&
        unshare(CLONE_NEWUSER | CLONE_NEWTIME) != 0) {
        return -1;
    }
    char text[64];
    int n = snprintf(text, sizeof(text), "boottime %d 0\n", SHIFT_S);
    int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    int result = fd >= 0 && write(fd, text, (size_t)n) == n ? 0 : -1;
    hf__close(fd);
    return result;
}

/* Runs in the namespace: all clocks must agree on the shift. */
static int check_shifted_time(int64_t before)
{
    hf__waker waker;
    int64_t now = hf__now();
    if (now < before + SHIFT_S * HF__SECOND ||
        hf__waker_open(&waker, NULL) != HF_OK) {
        return 1;
    }
    hf__waker_arm(&waker, now - HF__SECOND); /* far ahead on another clock */
    struct pollfd fd = {.fd = waker.timer_fd, .events = POLLIN};
    int ready = hf__poll(&fd, 1, now + SHIFT_S * HF__SECOND / 1000);
    hf__waker_close(&waker);
    return ready == 1 ? 0 : 2;
}

static int exit_code(pid_t child)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void test_clock_counts_suspend(void **state)
{
    (void)state;
    int64_t before = hf__now();
    pid_t child = fork();
    if (child == 0) {
        int status = 0;
        if (enter_shifted_time() != 0) {
            _exit(77);
        }
        pid_t inner = fork(); /* only children are inside */
        if (inner == 0) {
            _exit(check_shifted_time(before));
        }
        (void)waitpid(inner, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    int code = exit_code(child);
    if (code == 77) {
        print_message("no time namespace to be had\n");
        skip();
    }
    assert_int_equal(code, 0);
}

static void test_random(void **state)
{
    (void)state;
    unsigned char first[1000] = {0};
    unsigned char second[1000] = {0};
    assert_int_equal(hf__random(first, sizeof(first), NULL), HF_OK);
    assert_int_equal(hf__random(second, sizeof(second), NULL), HF_OK);
    assert_memory_not_equal(first, second, sizeof(first));
    assert_memory_not_equal(first + 900, first + 800, 100);
    assert_int_equal(hf__random(first, 0, NULL), HF_OK);
}

/* ---- parking */

#define ROUNDS 20000

typedef struct table {
    hf__parker parkers[2];
    _Atomic unsigned turn; /* whose it is */
    unsigned hits;         /* guarded by the turn alone */
} table;

typedef struct player {
    table *at;
    unsigned me;
    bool late;
} player;

static void *play(void *arg)
{
    player *is = arg;
    table *at = is->at;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t deadline = hf__now() + LIMIT;
        while (atomic_load_explicit(&at->turn, memory_order_acquire) !=
               is->me) {
            hf__park(&at->parkers[is->me], deadline);
            if (hf__now() >= deadline) {
                is->late = true;
                return NULL;
            }
        }
        at->hits++;
        atomic_store_explicit(&at->turn, !is->me, memory_order_release);
        hf__unpark(&at->parkers[!is->me]);
    }
    return NULL;
}

static void test_park_passes_the_turn(void **state)
{
    (void)state;
    table at = {.hits = 0};
    player players[2] = {{.at = &at, .me = 0}, {.at = &at, .me = 1}};
    pthread_t threads[2];
    hf__parker_init(&at.parkers[0]);
    hf__parker_init(&at.parkers[1]);
    atomic_init(&at.turn, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, play, &players[i]),
                         0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_false(players[0].late);
    assert_false(players[1].late);
    assert_int_equal(at.hits, 2 * ROUNDS);
}

/* What is published by plain stores before the unpark is seen after the park
 * without any other synchronisation: the word's own acquire and release. */
typedef struct letter {
    hf__parker parker;
    int text;
} letter;

static void *write_letter(void *arg)
{
    letter *to = arg;
    to->text = 42;
    hf__unpark(&to->parker);
    return NULL;
}

static void test_unpark_publishes(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++) {
        letter to = {.text = 0};
        pthread_t thread;
        int64_t begun = hf__now();
        hf__parker_init(&to.parker);
        assert_int_equal(pthread_create(&thread, NULL, write_letter, &to), 0);
        hf__park(&to.parker, HF__NEVER);
        assert_int_equal(to.text, 42);
        assert_true(hf__now() - begun < LIMIT);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static void test_park_ends_at_the_deadline(void **state)
{
    (void)state;
    hf__parker parker;
    hf__parker_init(&parker);
    int64_t deadline = hf__now() + 30 * HF__MS;
    int parks = 0;
    while (hf__now() < deadline) {
        hf__park(&parker, deadline);
        parks++;
    }
    assert_true(parks < 10); /* it slept, and did not spin */
    assert_true(hf__now() < deadline + LIMIT);
    hf__park(&parker, 0);
    hf__park(&parker, INT64_MIN);
}

static void test_unpark_is_not_lost(void **state)
{
    (void)state;
    hf__parker parker;
    hf__parker_init(&parker);
    hf__unpark(&parker);
    hf__unpark(&parker); /* they do not add up */
    hf__park(&parker, HF__NEVER);
    int64_t begun = hf__now();
    hf__park(&parker, begun + 5 * HF__MS);
    assert_true(hf__now() >= begun + 5 * HF__MS);
}

/* ---- wake-ups */

static bool is_readable(int fd, int64_t wait)
{
    struct pollfd poll = {.fd = fd, .events = POLLIN};
    return hf__poll(&poll, 1, hf__now() + wait) == 1 &&
           (poll.revents & POLLIN) != 0;
}

static void test_waker(void **state)
{
    (void)state;
    hf__waker waker;
    assert_int_equal(hf__waker_open(&waker, NULL), HF_OK);
    assert_true(fcntl(waker.event_fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(waker.timer_fd, F_GETFD) & FD_CLOEXEC);
    assert_false(is_readable(waker.event_fd, 0));
    hf__waker_wake(&waker);
    hf__waker_wake(&waker);
    assert_true(is_readable(waker.event_fd, 0));
    hf__waker_drain(&waker);
    assert_false(is_readable(waker.event_fd, 0));

    int64_t due = hf__now() + 20 * HF__MS;
    hf__waker_arm(&waker, due);
    assert_true(is_readable(waker.timer_fd, LIMIT));
    assert_true(hf__now() >= due);
    hf__waker_drain(&waker);
    assert_false(is_readable(waker.timer_fd, 0));
    hf__waker_arm(&waker, 0); /* long past */
    assert_true(is_readable(waker.timer_fd, LIMIT));
    hf__waker_arm(&waker, HF__NEVER);
    assert_false(is_readable(waker.timer_fd, 0));

    hf__waker_close(&waker);
    assert_int_equal(waker.event_fd, -1);
    hf__waker_close(&waker);
}

static void test_flag_stays_raised(void **state)
{
    (void)state;
    int fd = hf__flag_fd_open();
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_false(is_readable(fd, 0));
    hf__flag_fd_raise(fd);
    hf__flag_fd_raise(fd);
    assert_true(is_readable(fd, 0));
    assert_true(is_readable(fd, 0));
    hf__close(fd);
    hf__close(-1);
}

/* ---- forks */

static void test_fork_generation(void **state)
{
    (void)state;
    assert_int_equal(hf__fork_watch(NULL), HF_OK);
    assert_int_equal(hf__fork_watch(NULL), HF_OK); /* registers once */
    unsigned before = hf__fork_generation();
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        int status = 0;
        if (grandchild == 0) {
            _exit(hf__fork_generation() == before + 2 ? 0 : 1);
        }
        (void)waitpid(grandchild, &status, 0);
        _exit(status == 0 && hf__fork_generation() == before + 1 ? 0 : 1);
    }
    assert_int_equal(exit_code(child), 0);
    assert_int_equal(hf__fork_generation(), before);
}

/* ---- daemons */

static void test_spawn_of_nothing(void **state)
{
    (void)state;
    static const char *const missing[] = {"hf-there-is-no-such-program",
                                          "/nonexistent/program", "/tmp",
                                          "/proc/self/status"};
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
        const char *const argv[] = {missing[i], NULL};
        hf_error err = HF_ERROR_INIT;
        pid_t pid = -7;
        assert_int_equal(hf__spawn_daemon(argv, -1, &pid, &err), HF_ESYSTEM);
        assert_non_null(strstr(hf_error_text(&err), missing[i]));
        assert_non_null(strstr(hf_error_text(&err), "not found"));
        assert_int_equal(pid, -7);
    }
    assert_null(hf__find_program("hf-there-is-no-such-program"));
}

static char *new_file(const char *folder, const char *name, const char *text)
{
    char *path = test_text("%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* The kernel refuses it only at exec, in the grandchild. */
static void test_spawn_reports_a_failed_exec(void **state)
{
    (void)state;
    char *folder = test_folder_new();
    char *path = new_file(folder, "broken", "#!/nonexistent/interpreter\n");
    assert_int_equal(chmod(path, 0755), 0);
    const char *const argv[] = {path, NULL};
    hf_error err = HF_ERROR_INIT;
    pid_t pid = -7;
    assert_int_equal(hf__spawn_daemon(argv, -1, &pid, &err), HF_ESYSTEM);
    assert_non_null(strstr(hf_error_text(&err), "No such file"));
    assert_int_equal(pid, -7);
    free(path);
    test_folder_remove(folder);
}

static char *read_when_there(const char *path)
{
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    while (access(path, F_OK) != 0) {
        assert_true(test_pause(deadline));
    }
    char *text = calloc(1, 4096);
    FILE *file = fopen(path, "re");
    assert_non_null(text);
    assert_non_null(file);
    (void)fread(text, 1, 4095, file);
    assert_int_equal(fclose(file), 0);
    return text;
}

#define STRAY_FD 57

/* The daemon tells what it has inherited. */
static void test_spawn_inherits_nothing(void **state)
{
    (void)state;
    char *folder = test_folder_new();
    char *out = test_text("%s/out", folder);
    /* The signals are read without another process: to start one, the shell
     * blocks them for a while. */
    char *script =
        test_text("{ while read -r line; do case $line in Sig[BI]*)"
                  " echo \"$line\";; esac; done < /proc/self/status;"
                  " ls /proc/$$/fd; readlink /proc/$$/fd/0; echo pid:$$;"
                  " cut -d' ' -f 6 /proc/$$/stat | sed s/^/sid:/; umask; }"
                  " > %s.new; mv %s.new %s",
                  out, out, out);
    const char *const argv[] = {"sh", "-c", script, NULL};
    sigset_t set;
    sigset_t before;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &before), 0);
    void (*handler)(int) = signal(SIGUSR2, SIG_IGN);
    assert_int_equal(dup2(2, STRAY_FD), STRAY_FD);

    pid_t pid = 0;
    hf_error err = HF_ERROR_INIT;
    assert_int_equal(hf__spawn_daemon(argv, -1, &pid, &err), HF_OK);
    char *text = read_when_there(out);
    assert_null(strstr(text, "\n57\n"));
    assert_non_null(strstr(text, "SigBlk:\t0000000000000000\n"));
    assert_non_null(strstr(text, "SigIgn:\t0000000000000000\n"));
    assert_non_null(strstr(text, "/dev/null\n"));
    assert_non_null(strstr(text, "0077\n"));
    char line[64];
    (void)snprintf(line, sizeof(line), "pid:%ld\n", (long)pid);
    assert_non_null(strstr(text, line));
    (void)snprintf(line, sizeof(line), "sid:%ld\n", (long)getsid(0));
    assert_null(strstr(text, line));

    sigset_t now; /* and ours is as it was */
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, &now), 0);
    assert_true(sigismember(&now, SIGUSR1));
    assert_false(sigismember(&now, SIGTERM));
    (void)signal(SIGUSR2, handler);
    (void)close(STRAY_FD);
    errno = 0;
    assert_int_equal(waitpid(pid, NULL, WNOHANG), -1); /* not our child */
    free(text);
    free(script);
    free(out);
    test_folder_remove(folder);
}

static void test_daemon_keeps_one_descriptor(void **state)
{
    (void)state;
    char *folder = test_folder_new();
    char *path = new_file(folder, "lock", "");
    char *fifo = test_text("%s/fifo", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    char *script = test_text("read line < %s", fifo);
    const char *const argv[] = {"timeout", "60", "sh", "-c", script, NULL};
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    pid_t pid = 0;
    assert_int_equal(hf__spawn_daemon(argv, fd, &pid, NULL), HF_OK);
    hf__close(fd);

    int again = open(path, O_RDWR | O_CLOEXEC);
    int process = hf__process_fd(pid);
    assert_true(process >= 0 || errno == ENOSYS); /* as under valgrind */
    assert_int_equal(flock(again, LOCK_EX | LOCK_NB), -1);
    assert_false(is_readable(process, 0));
    int writer = open(fifo, O_WRONLY | O_CLOEXEC); /* waits for the reader */
    assert_int_equal(write(writer, "end\n", 4), 4);
    if (process >= 0) {
        assert_true(is_readable(process, LIMIT));
    }
    assert_true(test_wait_gone(pid));
    assert_int_equal(flock(again, LOCK_EX | LOCK_NB), 0);
    hf__close(writer);
    hf__close(process);
    hf__close(again);
    free(script);
    free(fifo);
    free(path);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_is_boottime),
        cmocka_unit_test(test_clock_counts_suspend),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_park_passes_the_turn),
        cmocka_unit_test(test_unpark_publishes),
        cmocka_unit_test(test_park_ends_at_the_deadline),
        cmocka_unit_test(test_unpark_is_not_lost),
        cmocka_unit_test(test_waker),
        cmocka_unit_test(test_flag_stays_raised),
        cmocka_unit_test(test_fork_generation),
        cmocka_unit_test(test_spawn_of_nothing),
        cmocka_unit_test(test_spawn_reports_a_failed_exec),
        cmocka_unit_test(test_spawn_inherits_nothing),
        cmocka_unit_test(test_daemon_keeps_one_descriptor),
    };
    const char *checker = getenv("HOLDFAST_SANITIZE");
    if (checker && strcmp(checker, "valgrind") == 0) {
        /* It cannot go on after an exec that fails; the others cover it. */
        cmocka_set_skip_filter("test_spawn_reports_a_failed_exec");
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
