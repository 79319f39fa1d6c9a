/* A tiny process that ends the command when the runner no longer can. The
 * parent-death signal reaches the command alone, not its children, and is
 * forgotten when a set-uid program is executed; and nothing in the runner acts
 * while it is stopped. The guard is in a session of its own, so that nothing
 * that is meant for the job reaches it, has every signal blocked, and holds
 * no descriptor but the pipe: in a pipeline it must not keep the end of
 * anything open. */
#include "cli/guard.h"

#include "cli/duration.h"
#include "cli/report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum message_kind { MESSAGE_GROUP, MESSAGE_DEADLINE, MESSAGE_END };

/* Shorter than PIPE_BUF, so that it is never read in pieces. */
typedef struct message {
    enum message_kind kind;
    int64_t value;
} message;

#define PIPE_FD 3
/* Exit code that says so. */
#define GUARD_KILLED 1

/* ---- in the guard */

static void close_from(int first)
{
    if (close_range((unsigned)first, ~0U, 0) == 0) {
        return;
    }
    struct rlimit limit = {.rlim_cur = 1024};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    for (int fd = first; fd < (1 << 20) && (rlim_t)fd < limit.rlim_cur; fd++) {
        (void)close(fd);
    }
}

static void become_invisible(int fd)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)setsid();
    (void)prctl(PR_SET_NAME, "holdfast-guard");
    (void)!chdir("/");
    (void)dup2(fd, PIPE_FD);
    close_from(PIPE_FD + 1);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < PIPE_FD; i++) {
        (void)dup2(null, i);
    }
    (void)close(null);
}

static void kill_group(pid_t group)
{
    if (group > 1) {
        (void)kill(-group, SIGKILL);
    }
}

static void arm(int timer, int64_t deadline)
{
    struct itimerspec when = {{0, 0}, {0, 0}};
    when.it_value.tv_sec = (time_t)(deadline / 1000);
    when.it_value.tv_nsec = (long)(deadline % 1000) * 1000000;
    (void)timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Whether the deadline has passed. Nothing to be read means that the timer was
 * set anew since it was seen. */
static bool on_time(int timer, pid_t group)
{
    uint64_t count;
    if (read(timer, &count, sizeof(count)) != (ssize_t)sizeof(count)) {
        return false;
    }
    kill_group(group);
    return true;
}

/* False when there is nothing left to guard. */
static bool on_message(int timer, pid_t *group)
{
    message m;
    ssize_t n = read(PIPE_FD, &m, sizeof(m));
    if (n < 0 && errno == EINTR) {
        return true;
    }
    if (n != (ssize_t)sizeof(m)) {
        kill_group(*group);
        return false;
    }
    if (m.kind == MESSAGE_GROUP) {
        *group = (pid_t)m.value;
    } else if (m.kind == MESSAGE_DEADLINE) {
        arm(timer, m.value);
    }
    return m.kind != MESSAGE_END;
}

_Noreturn static void guard_main(int fd)
{
    pid_t group = 0;
    bool killed = false;
    become_invisible(fd);
    int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    struct pollfd fds[] = {{PIPE_FD, POLLIN, 0}, {timer, POLLIN, 0}};
    for (;;) {
        if (poll(fds, 2, -1) < 0) {
            continue;
        }
        /* Messages first: one may say that there is more time. */
        if (fds[0].revents) {
            if (!on_message(timer, &group)) {
                _exit(killed ? GUARD_KILLED : 0);
            }
        } else if (fds[1].revents) {
            killed = on_time(timer, group) || killed;
        }
    }
}

/* ---- in the runner */

bool guard_start(guard *g)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        say("cannot start the guard: %s", strerror(errno));
        return false;
    }
    g->pid = fork();
    if (g->pid == 0) {
        (void)close(ends[1]);
        guard_main(ends[0]);
    }
    (void)close(ends[0]);
    g->fd = ends[1];
    if (g->pid < 0) {
        say("cannot start the guard: %s", strerror(errno));
        (void)close(g->fd);
        return false;
    }
    return true;
}

static bool tell(const guard *g, enum message_kind kind, int64_t value)
{
    message m;
    memset(&m, 0, sizeof(m)); /* padding included */
    m.kind = kind;
    m.value = value;
    return write(g->fd, &m, sizeof(m)) == (ssize_t)sizeof(m);
}

bool guard_set_group(const guard *g, pid_t group)
{
    return tell(g, MESSAGE_GROUP, group);
}

void guard_set_deadline(const guard *g, int64_t deadline)
{
    (void)tell(g, MESSAGE_DEADLINE, deadline);
}

bool guard_end(guard *g)
{
    int status = 0;
    (void)tell(g, MESSAGE_END, 0);
    (void)close(g->fd);
    g->fd = -1;
    while (waitpid(g->pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == GUARD_KILLED;
}
