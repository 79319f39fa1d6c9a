/* Starts a daemon, a grandchild of this process: the child in between ends at
 * once, so that the daemon is nobody's zombie here. The host may have threads,
 * hence between fork and exec only what is async-signal-safe.
 *
 * Reports come back through a pipe that exec closes: first the daemon's pid
 * with error 0, then, only if exec fails, the reason. */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONGEST_WAIT (5 * HF__SECOND)

typedef struct report {
    pid_t pid;
    int error;
} report;

typedef struct launch {
    const char *program;
    const char *const *argv;
    int report_fd;
    int keep_fd;
} launch;

static bool is_executable(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           access(path, X_OK) == 0;
}

static char *join(const char *folder, size_t length, const char *name)
{
    size_t size = length + strlen(name) + 3;
    char *path = malloc(size);
    if (path) {
        /* An empty entry of PATH is the current folder. */
        (void)snprintf(path, size, "%.*s/%s", length ? (int)length : 1,
                       length ? folder : ".", name);
    }
    return path;
}

char *hf__find_program(const char *name)
{
    if (strchr(name, '/')) {
        return is_executable(name) ? strdup(name) : NULL;
    }
    const char *at = getenv("PATH");
    if (!at) {
        at = "/usr/bin:/bin";
    }
    for (;;) {
        size_t length = strcspn(at, ":");
        char *path = join(at, length, name);
        if (!path || is_executable(path)) {
            return path;
        }
        free(path);
        if (at[length] == '\0') {
            return NULL;
        }
        at += length + 1;
    }
}

/* ---- in the children: async-signal-safe only */

static void send_report(int fd, pid_t pid, int error)
{
    report message = {.pid = pid, .error = error};
    (void)!write(fd, &message, sizeof(message));
}

static void reset_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &standard, NULL);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Marks all but the standard ones to be closed by exec. The slow way is for
 * kernels before 5.11. */
static void close_others(void)
{
    if (syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0) {
        return;
    }
    struct rlimit limit = {0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    int end = limit.rlim_cur < (1 << 20) ? (int)limit.rlim_cur : 1 << 20;
    for (int fd = 3; fd < end; fd++) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

static void redirect_standard(void)
{
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2; fd++) {
        (void)dup2(null, fd);
    }
}

_Noreturn static void run_daemon(const launch *task)
{
    send_report(task->report_fd, getpid(), 0);
    (void)umask(S_IRWXG | S_IRWXO);
    redirect_standard();
    close_others();
    if (task->keep_fd >= 0) {
        (void)fcntl(task->keep_fd, F_SETFD, 0);
    }
    reset_signals();
    (void)execv(task->program, (char *const *)task->argv);
    send_report(task->report_fd, getpid(), errno);
    _exit(127);
}

_Noreturn static void run_between(launch task)
{
    (void)setsid();
    /* The host may run with its standard descriptors closed, and then ours
     * are among the numbers that will be redirected. */
    task.report_fd = fcntl(task.report_fd, F_DUPFD_CLOEXEC, 3);
    if (task.keep_fd >= 0) {
        task.keep_fd = fcntl(task.keep_fd, F_DUPFD_CLOEXEC, 3);
    }
    pid_t pid = fork();
    if (pid == 0) {
        run_daemon(&task);
    }
    if (pid < 0) {
        send_report(task.report_fd, 0, errno);
    }
    _exit(0);
}

/* ---- in the parent */

static void reap(pid_t child)
{
    /* ECHILD is fine: the host may ignore SIGCHLD or reap all by itself. */
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

/* Forks with all signals blocked, lest a handler of the host runs in the
 * child. Returns 0 or an errno. */
static int fork_between(const launch *task)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child == 0) {
        run_between(*task);
    }
    int error = child < 0 ? errno : 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (child > 0) {
        reap(child);
    }
    return error;
}

static bool read_report(int fd, int64_t deadline, report *out)
{
    struct pollfd poll = {.fd = fd, .events = POLLIN};
    while (hf__poll(&poll, 1, deadline) == 0) {
        if (hf__now() >= deadline) {
            return false;
        }
    }
    ssize_t n;
    do {
        n = read(fd, out, sizeof(*out));
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(*out);
}

/* Reads until exec or the end has closed the pipe; 0 or an errno. Bounded, for
 * a process that another thread of the host forks just now has the pipe's end
 * too, maybe for long. */
static int read_reports(int fd, pid_t *pid)
{
    report message;
    pid_t started = 0;
    int64_t deadline = hf__now() + LONGEST_WAIT;
    while (read_report(fd, deadline, &message)) {
        if (message.error != 0) {
            return message.error;
        }
        started = message.pid;
    }
    *pid = started;
    return started > 0 ? 0 : ECHILD;
}

hf_status hf__spawn_daemon(const char *const argv[], int keep_fd, pid_t *pid,
                           hf_error *err)
{
    int ends[2];
    char *program = hf__find_program(argv[0]);
    if (!program) {
        return hf__error_set(
            err, HF_ESYSTEM, "cannot start %.200s: not found%s", argv[0],
            strchr(argv[0], '/') ? " or not executable" : " on PATH");
    }
    int error = pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
    if (error == 0) {
        launch task = {program, argv, ends[1], keep_fd};
        error = fork_between(&task);
        hf__close(ends[1]);
        if (error == 0) {
            error = read_reports(ends[0], pid);
        }
        hf__close(ends[0]);
    }
    free(program);
    if (error != 0) {
        return hf__error_set(err, HF_ESYSTEM, "cannot start %.200s: %s",
                             argv[0], hf__errno_text(error));
    }
    return HF_OK;
}

int hf__process_fd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}
