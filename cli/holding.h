/* What `run` holds while its command runs. */
#ifndef HOLDFAST_CLI_HOLDING_H
#define HOLDFAST_CLI_HOLDING_H

#include "cli/connect.h"
#include "cli/options.h"
#include "cli/signals.h"
#include "holdfast/holdfast.h"

#include <stdbool.h>

/* What was taken, and what belongs to it. */
typedef struct holding {
    hf_client *client;
    hf_lock *lock;
    hf_owner *owner;
    hf_lease *lease;
} holding;

/* Finds a kind by its name on the command line. */
bool kind_find(const char *name, hf_kind *out);
/* Their names, for a message. */
#define KIND_NAMES                                                             \
    "reentrant, non-reentrant, fair, fair-non-reentrant, read, write, spin, "  \
    "fenced or simple"

/* "lock", or "permit of": what stands before the names in a message. */
const char *holding_noun(const cli_options *options);

/* Takes the lock, or the permit, that the options name, into *out. When false,
 * nothing is held, the reason has been said, and *code is the exit code, which
 * may be 0 (-E 0). Does not return when a signal ended the wait. */
bool holding_take(const cli_options *options, const cli_target *target,
                  const signals *s, holding *out, int *code);

/* Frees what is in it; a lease that is still held is given back. */
void holding_free(holding *h);

#endif
