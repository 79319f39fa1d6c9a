/* What `sem` and `latch` have in common: an action, a name and maybe a number
 * on the command line, and a number as the answer. */
#ifndef HOLDFAST_CLI_COUNTER_H
#define HOLDFAST_CLI_COUNTER_H

#include "cli/options.h"
#include "holdfast/holdfast.h"

/* What was asked for. */
typedef struct request {
    const cli_options *options;
    const char *name;
    int64_t number;
    hf_client *client; /* NULL for actions that wait */
} request;

typedef struct action {
    const char *name;
    int (*run)(const request *r);
    int64_t least; /* the number */
    bool takes_number;
    bool needs_number; /* else it is 1 */
    bool waits;        /* --wait, --nonblock and --conflict-exit-code; connects
                          by itself */
    bool makes;        /* --lifetime */
} action;

/* Runs the action that the first operand names. */
int counter_run(const char *verb, const action *actions, size_t count,
                const cli_options *options);

/* The options of both verbs. */
#define COUNTER_OPTION_COUNT 5
extern const cli_option counter_options[COUNTER_OPTION_COUNT];

/* Writes a number to stdout, or an object with it under that key. Returns an
 * exit code. */
int counter_show(const request *r, const char *key, int64_t number);
/* Says, or writes, whether it was made now. Returns an exit code. */
int counter_made(const request *r, int made);

#endif
