/* Passwords out of sight. /proc/PID/cmdline and /proc/PID/environ show the
 * memory in which the kernel put arguments and environment at exec, so that is
 * where a secret has to be overwritten. Between exec and that moment there is
 * a window nobody can close, hence the warning about passwords on the command
 * line. */
#include "cli/secret.h"

#include "cli/report.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MASK '*'

/* Where the password lies: between the first ':' behind the scheme and the
 * last '@' before `end`. */
static char *find_password(char *url, const char *end, size_t *length)
{
    char *start = strstr(url, "://");
    start = start ? start + 3 : url;
    char *last = NULL;
    for (char *at = start; at < end; at++) {
        if (*at == '@') {
            last = at;
        }
    }
    if (!last) {
        return NULL;
    }
    char *colon = memchr(start, ':', (size_t)(last - start));
    if (!colon || colon + 1 == last) {
        return NULL;
    }
    *length = (size_t)(last - colon - 1);
    return colon + 1;
}

bool secret_in_url(const char *url)
{
    const char *start = strstr(url, "://");
    start = start ? start + 3 : url;
    size_t length;
    return find_password((char *)url, start + strcspn(start, "/?#"), &length) !=
           NULL;
}

/* Masks more than secret_in_url sees: a password with a bare '/' in it makes
 * the URL invalid, but no less secret. */
static void mask(char *url)
{
    size_t length;
    char *password = find_password(url, url + strlen(url), &length);
    if (password) {
        memset(password, MASK, length);
    }
}

static char *copy(const char *text)
{
    char *out = strdup(text);
    if (!out) {
        say("out of memory");
    }
    return out;
}

char *secret_take_argument(char *url)
{
    char *out = copy(url);
    if (out) {
        mask(url);
    }
    return out;
}

/* The entry NAME=value of the environment; NULL if there is none. */
static char **find_entry(const char *name)
{
    size_t length = strlen(name);
    for (char **at = environ; *at; at++) {
        if (strncmp(*at, name, length) == 0 && (*at)[length] == '=') {
            return at;
        }
    }
    return NULL;
}

static bool hide_url(const char *name)
{
    char **entry = find_entry(name);
    if (!entry || !secret_in_url(*entry)) {
        return true;
    }
    char *original = *entry;
    char *moved = copy(original);
    if (!moved) {
        return false;
    }
    *entry = moved;
    mask(original);
    return true;
}

bool secret_take_environment(char **password)
{
    static const char name[] = "HOLDFAST_PASSWORD";
    *password = NULL;
    if (!hide_url("HOLDFAST_URL") || !hide_url("REDIS_URL")) {
        return false;
    }
    char **entry = find_entry(name);
    if (!entry) {
        return true;
    }
    char *value = *entry + sizeof(name);
    *password = copy(value);
    if (!*password) {
        return false;
    }
    explicit_bzero(value, strlen(value));
    (void)unsetenv(name);
    return true;
}
