/* Waits for the lock: signals end the wait, a line on stderr shows it. */
#ifndef HOLDFAST_CLI_WAIT_H
#define HOLDFAST_CLI_WAIT_H

#include "cli/connect.h"
#include "cli/options.h"
#include "cli/signals.h"
#include "holdfast/holdfast.h"

/* A lock that was taken, and what belongs to it. */
typedef struct holding {
    hf_client *client;
    hf_lock *lock;
    hf_owner *owner;
    hf_lease *lease;
} holding;

/* Takes the lock named by the first operand, into *out. When false, nothing is
 * held, the reason has been said, and *code is the exit code, which may be 0
 * (-E 0). Does not return when a signal ended the wait: then the process has
 * ended by it. */
bool wait_for_lock(const cli_options *options, const cli_target *target,
                   const signals *s, holding *out, int *code);

/* Frees what is in it; a lease that is still held is given back. */
void holding_free(holding *h);

#endif
