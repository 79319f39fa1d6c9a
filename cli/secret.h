/* Passwords out of sight: what others can read of this process (ps shows
 * arguments and environment) must not contain one. */
#ifndef HOLDFAST_CLI_SECRET_H
#define HOLDFAST_CLI_SECRET_H

#include <stdbool.h>

/* Copies a URL from the command line, then masks the password in the original.
 * NULL when out of memory, which has been said. */
char *secret_take_argument(char *url);

/* Whether a URL carries a password. */
bool secret_in_url(const char *url);

/* Moves HOLDFAST_PASSWORD out of the environment, and hides the passwords of
 * HOLDFAST_URL and REDIS_URL from ps; getenv still answers with the whole URL.
 * Call once, before there are threads. *password is NULL when it is not set.
 * False when out of memory, which has been said. */
bool secret_take_environment(char **password);

#endif
