/* How status and list show what is on the server: rows of a table, or JSON. */
#ifndef HOLDFAST_CLI_SHOW_H
#define HOLDFAST_CLI_SHOW_H

#include "holdfast/holdfast.h"

#include <stdbool.h>

typedef struct lock_view {
    bool json;
    bool only_locks; /* passes over what may be anything */
    const char *server;
    bool headed; /* the table's head has been written */
    int code;    /* exit code of the first failure */
} lock_view;

/* An hf_inspect_fn; arg is a lock_view. Stops when stdout is gone. */
int show_lock(void *arg, const hf_inspection *seen);
/* Ends the output; a table without lines gets its head. Returns the exit
 * code. */
int show_end(lock_view *view);

#endif
