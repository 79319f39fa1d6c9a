/* The signals of the runner: blocked, and read from a descriptor. */
#ifndef HOLDFAST_CLI_SIGNALS_H
#define HOLDFAST_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

typedef struct signals {
    int fd;          /* signalfd, non-blocking */
    sigset_t before; /* mask that was inherited, for the command */
    struct sigaction before_pipe;
    struct sigaction before_child;
} signals;

/* Number of a signal from `HUP`, `SIGHUP` or `1`; 0 when there is none. */
int signal_number(const char *text);
/* "SIGHUP", or "signal 40". Valid until the next call. */
const char *signal_text(int number);

/* Blocks what is forwarded, and opens the descriptor. Call before there are
 * threads. False after saying why. */
bool signals_open(signals *s);
/* The next signal that has come; 0 when there is none. */
int signals_next(const signals *s);
/* Whether one has come that was not read yet. */
bool signals_pending(int number);
/* Gives a child what the runner had inherited. Async-signal-safe. */
void signals_restore(const signals *s);

/* Stops this process (whole_group: its group) by a signal, as if it had never
 * been blocked. Returns true once continued; false when the kernel ignored it,
 * as it does where nobody could continue the process (an orphaned group). */
bool signals_stop(int number, bool whole_group);

/* Ends this process by a signal's default action, so that a shell sees the
 * truth. */
_Noreturn void signals_die(int number);

#endif
