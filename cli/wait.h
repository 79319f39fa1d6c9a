/* Waits for something on the server: signals end the wait, a line on stderr
 * shows it. */
#ifndef HOLDFAST_CLI_WAIT_H
#define HOLDFAST_CLI_WAIT_H

#include "cli/options.h"
#include "cli/signals.h"
#include "holdfast/holdfast.h"

/* What is waited for. Functions get it back, and find their own around it.
 * The first two run in a thread of their own, one after the other. */
typedef struct waiting {
    const cli_options *options;
    char *const *names; /* for the line on stderr */
    int name_count;
    hf_status (*open)(struct waiting *w, hf_error *err);
    hf_status (*acquire)(struct waiting *w, hf_error *err);
    /* A signal has ended the wait: gives back what there may be. */
    void (*drop)(struct waiting *w);

    hf_lock *lock;     /* set by open: whose remaining time the line tells;
                          NULL: nobody's */
    hf_cancel *cancel; /* set before */
} waiting;

/* Opens and acquires. Returns what came of it, with err set as the two do.
 * Does not return when a signal ended the wait: then the process has ended by
 * it. */
hf_status wait_for(waiting *w, const signals *s, hf_error *err);

/* How long the options want to wait, as the library takes it. */
int64_t wait_of(const cli_options *options);
/* Says what has to be said of a wait that failed. Returns the exit code, which
 * may be 0 (-E 0). */
int wait_failure(const waiting *w, hf_status status, const hf_error *err);

#endif
