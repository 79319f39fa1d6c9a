/* Who may read from the terminal.
 *
 * Run by itself from an interactive shell, the runner hands the terminal to
 * the command at once. As a part of a pipeline or of a script it must not: the
 * other processes of its group would find themselves in the background (`run
 * ... | less` could not read a key). Then the command gets the terminal when
 * it asks, that is, when it is stopped by SIGTTIN or SIGTTOU; until then
 * Ctrl-C and Ctrl-Z reach the runner, which forwards them. */
#include "cli/terminal.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

void terminal_open(terminal *t)
{
    t->fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    t->handed = false;
    t->eager = t->fd >= 0 && getpgrp() == getpid() && isatty(STDIN_FILENO) &&
               isatty(STDOUT_FILENO);
}

void terminal_close(terminal *t)
{
    if (t->fd >= 0) {
        (void)close(t->fd);
        t->fd = -1;
    }
}

bool terminal_is_ours(const terminal *t)
{
    return t->fd >= 0 && tcgetpgrp(t->fd) == getpgrp();
}

/* From the background, setting the group would stop the runner. */
static void set_foreground(int fd, pid_t group)
{
    sigset_t ttou;
    sigset_t before;
    (void)sigemptyset(&ttou);
    (void)sigaddset(&ttou, SIGTTOU);
    (void)pthread_sigmask(SIG_BLOCK, &ttou, &before);
    (void)tcsetpgrp(fd, group);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void terminal_give(terminal *t, pid_t group)
{
    set_foreground(t->fd, group);
    t->handed = true;
}

void terminal_take(terminal *t)
{
    if (t->handed) {
        set_foreground(t->fd, getpgrp());
        t->handed = false;
    }
}
