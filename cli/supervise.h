/* Watches over the command while the lock is held. */
#ifndef HOLDFAST_CLI_SUPERVISE_H
#define HOLDFAST_CLI_SUPERVISE_H

#include "cli/guard.h"
#include "cli/options.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "holdfast/holdfast.h"

#include <stdbool.h>
#include <sys/types.h>

typedef struct watched {
    const cli_options *options;
    hf_lease *lease;
    int64_t hold_end; /* by --max-hold, clock_ms; INT64_MAX for none */
    const guard *guard;
    const signals *signals;
    terminal *terminal;
    pid_t group; /* the command's process group, its leader's pid too */
} watched;

/* The lease that the options ask for, and how long before its end the command
 * is told. */
int64_t lease_of(const cli_options *options);
int64_t kill_after_of(const cli_options *options);

typedef struct verdict {
    int code;     /* exit code to use */
    bool lost;    /* the lock was lost while the command ran */
    bool release; /* there may be something to give back, and a server that
                     answers */
} verdict;

/* Forwards signals, follows the terminal, ends the command when the lock is
 * lost; returns once the command has ended. */
verdict supervise(const watched *w);

#endif
