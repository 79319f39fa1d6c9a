/* The signals of the runner: blocked, and read from a descriptor, so that one
 * loop sees signals, the loss of the lease and the time alike. */
#include "cli/signals.h"

#include "cli/exit_codes.h"
#include "cli/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Forwarded to the command, but for SIGCHLD. Faults (SEGV and the like) and
 * what the kernel uses to stop background readers (TTIN, TTOU) keep their
 * default action. */
static const int handled[] = {
    SIGHUP,  SIGINT,   SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM,
    SIGPROF, SIGWINCH, SIGURG,  SIGIO,   SIGPWR,  SIGTSTP, SIGCONT, SIGCHLD,
};

int signal_number(const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end != text && *end == '\0') {
        return number > 0 && number <= SIGRTMAX ? (int)number : 0;
    }
    if (strncasecmp(text, "SIG", 3) == 0) {
        text += 3;
    }
    for (int i = 1; i < SIGRTMIN; i++) {
        const char *name = sigabbrev_np(i);
        if (name && strcasecmp(name, text) == 0) {
            return i;
        }
    }
    return 0;
}

const char *signal_text(int number)
{
    static char text[32];
    const char *name = sigabbrev_np(number);
    if (name) {
        (void)snprintf(text, sizeof(text), "SIG%s", name);
    } else {
        (void)snprintf(text, sizeof(text), "signal %d", number);
    }
    return text;
}

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 &&
           action.sa_handler == SIG_IGN;
}

static void add_handled(sigset_t *set)
{
    (void)sigemptyset(set);
    for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++) {
        /* What nohup or a shell's `&` had ignored stays ignored: once blocked
         * it would be seen again. */
        if (handled[i] == SIGCHLD || !is_ignored(handled[i])) {
            (void)sigaddset(set, handled[i]);
        }
    }
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++) {
        if (!is_ignored(i)) {
            (void)sigaddset(set, i);
        }
    }
}

bool signals_open(signals *s)
{
    sigset_t set;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction standard = {.sa_handler = SIG_DFL};
    add_handled(&set);
    (void)sigprocmask(SIG_BLOCK, &set, &s->before);
    /* A reader of stderr that goes away must not end the runner. */
    (void)sigaction(SIGPIPE, &ignore, &s->before_pipe);
    /* Inherited as ignored, it would take the command's status away. */
    (void)sigaction(SIGCHLD, &standard, &s->before_child);
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0) {
        say("cannot watch for signals: %s", strerror(errno));
    }
    return s->fd >= 0;
}

int signals_next(const signals *s)
{
    struct signalfd_siginfo info;
    ssize_t n = read(s->fd, &info, sizeof(info));
    return n == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}

void signals_restore(const signals *s)
{
    (void)sigaction(SIGPIPE, &s->before_pipe, NULL);
    (void)sigaction(SIGCHLD, &s->before_child, NULL);
    (void)sigprocmask(SIG_SETMASK, &s->before, NULL);
}

bool signals_pending(int number)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, number) == 1;
}

bool signals_stop(int number, bool whole_group)
{
    sigset_t one;
    sigset_t before;
    sigset_t cont;
    struct timespec at_once = {0, 0};
    (void)sigemptyset(&cont);
    (void)sigaddset(&cont, SIGCONT);
    (void)sigtimedwait(&cont, NULL, &at_once);
    (void)sigemptyset(&one);
    (void)sigaddset(&one, number);
    if (whole_group) {
        (void)kill(0, number);
    } else {
        (void)kill(getpid(), number);
    }
    (void)pthread_sigmask(SIG_UNBLOCK, &one, &before);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    /* Only SIGCONT ends a stop, and it is blocked: then it is still there, or a
     * stop that came since has taken its place. */
    return signals_pending(SIGCONT) || signals_pending(SIGTSTP);
}

_Noreturn void signals_die(int number)
{
    sigset_t one;
    struct sigaction standard = {.sa_handler = SIG_DFL};
    (void)sigemptyset(&one);
    (void)sigaddset(&one, number);
    (void)sigaction(number, &standard, NULL);
    (void)pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    (void)raise(number);
    _exit(CLI_SIGNAL_BASE + number); /* its default action ends nobody */
}
