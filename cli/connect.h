/* Which server, with which password. */
#ifndef HOLDFAST_CLI_CONNECT_H
#define HOLDFAST_CLI_CONNECT_H

#include "cli/options.h"
#include "holdfast/holdfast.h"

typedef struct cli_target {
    const char *url; /* NULL: the embedded server */
    const char *origin;
    char *password;            /* NULL: the URL's, if any */
    int64_t watchdog_lease_ms; /* 0: the library's default */
    bool verbose;
} cli_target;

/* Chooses by --url, HOLDFAST_URL, REDIS_URL, embedded; reads the password.
 * Warns of a password on the command line. Returns an exit code; any but
 * CLI_OK has been explained. Call before there are threads. */
int target_choose(const cli_options *options, cli_target *out);
void target_free(cli_target *target);

/* Connects; says where, if that was wanted. NULL with err set. */
hf_client *target_open(const cli_target *target, hf_error *err);

/* Both, for a verb that asks and ends. Returns an exit code. */
int connect_for(const cli_options *options, hf_client **out);

#endif
