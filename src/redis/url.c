/* Parses server URLs. A URL may carry a password, and a password with a raw
 * '/', '?', '#' or '@' falls into the wrong part of it. Hence no message quotes
 * any part but the scheme, and every such URL is refused. */
#include "redis/url.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_PORT 6379
#define HIGHEST_PORT 65535
#define LONGEST_SCHEME 24

#define ENCODE_HINT                                                            \
    "; a special character in the user or password must be percent-encoded, "  \
    "such as %2F for a slash"

/* A part of the URL, not terminated. */
typedef struct slice {
    const char *at;
    size_t length;
} slice;

typedef enum transport { TCP, UNIX, PLANNED } transport;

typedef struct scheme {
    const char *name;
    transport transport;
} scheme;

static const scheme schemes[] = {
    {"redis", TCP},
    {"valkey", TCP},
    {"redis+unix", UNIX},
    {"valkey+unix", UNIX},
    {"unix", UNIX},
    {"rediss", PLANNED},
    {"valkeys", PLANNED},
    {"redis+sentinel", PLANNED},
    {"valkey+sentinel", PLANNED},
    {"redis+cluster", PLANNED},
    {"valkey+cluster", PLANNED},
};

static slice until(const char *at, const char *stops)
{
    return (slice){at, strcspn(at, stops)};
}

/* No part of the URL goes in. */
static hf_status refuse(hf_error *err, const char *why)
{
    (void)hf__error_set(err, HF_ECONFIG, "the server's URL %s", why);
    return HF_ECONFIG;
}

static hf_status no_memory(hf_error *err)
{
    (void)hf__error_nomem(err);
    return HF_ENOMEM;
}

static const scheme *find_scheme(slice name)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strlen(schemes[i].name) == name.length &&
            strncasecmp(schemes[i].name, name.at, name.length) == 0) {
            return &schemes[i];
        }
    }
    return NULL;
}

static bool looks_like_scheme(slice name)
{
    for (size_t i = 0; i < name.length; i++) {
        if (!isalnum((unsigned char)name.at[i]) && !strchr("+-.", name.at[i])) {
            return false;
        }
    }
    return name.length > 0 && name.length <= LONGEST_SCHEME;
}

/* Finds what stands before "://" and moves *at behind it. */
static hf_status read_scheme(const char **at, const scheme **out, hf_error *err)
{
    slice name = until(*at, ":");
    if (!looks_like_scheme(name) ||
        strncmp(name.at + name.length, "://", 3) != 0) {
        return refuse(err, "must begin with redis://, redis+unix:// or "
                           "unix://");
    }
    const scheme *found = find_scheme(name);
    if (found && found->transport != PLANNED) {
        *out = found;
        *at = name.at + name.length + 3;
        return HF_OK;
    }
    (void)hf__error_set(
        err, HF_ECONFIG, "%s %.*s://; use redis://, redis+unix:// or unix://",
        found ? "this version does not speak" : "unknown URL scheme",
        (int)name.length, name.at);
    return HF_ECONFIG;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes into fresh memory; refuses %00, which no C string can carry. */
static hf_status decode(slice from, char **out, hf_error *err)
{
    char *text = malloc(from.length + 1);
    if (!text) {
        return no_memory(err);
    }
    size_t used = 0;
    for (size_t i = 0; i < from.length; i++) {
        char c = from.at[i];
        if (c == '%') {
            int high = i + 2 < from.length ? hex_digit(from.at[i + 1]) : -1;
            int low = i + 2 < from.length ? hex_digit(from.at[i + 2]) : -1;
            c = high < 0 || low < 0 ? '\0' : (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0') {
            explicit_bzero(text, used);
            free(text);
            return refuse(err, "has a % that is not followed by two hex digits "
                               "of a character; a % itself is written %25");
        }
        text[used++] = c;
    }
    text[used] = '\0';
    *out = text;
    return HF_OK;
}

/* Digits only, at most `most`; -1 otherwise. */
static long read_number(slice text, long most)
{
    long value = 0;
    for (size_t i = 0; i < text.length; i++) {
        int digit = text.at[i] - '0';
        if (digit < 0 || digit > 9 || value > (most - digit) / 10) {
            return -1;
        }
        value = value * 10 + digit;
    }
    return text.length > 0 ? value : -1;
}

static hf_status read_database(slice text, long *out, hf_error *err)
{
    long value = read_number(text, INT_MAX);
    if (value < 0) {
        return refuse(err, "needs a number from 0 as its database" ENCODE_HINT);
    }
    *out = value;
    return HF_OK;
}

/* Takes "user:password@" off the front of the authority. */
static hf_status read_login(slice *authority, hf__endpoint *into, hf_error *err)
{
    const char *end = memrchr(authority->at, '@', authority->length);
    if (!end) {
        return HF_OK;
    }
    slice login = {authority->at, (size_t)(end - authority->at)};
    slice user = login;
    slice password = {end, 0};
    const char *colon = memchr(login.at, ':', login.length);
    if (colon) {
        user.length = (size_t)(colon - login.at);
        password.at = colon + 1;
        password.length = login.length - user.length - 1;
    }
    authority->at = end + 1;
    authority->length -= login.length + 1;
    hf_status status = HF_OK;
    if (user.length > 0) {
        status = decode(user, &into->username, err);
    }
    if (status == HF_OK && password.length > 0) {
        status = decode(password, &into->password, err);
    }
    return status;
}

static hf_status read_port(slice text, int *out, hf_error *err)
{
    long port = read_number(text, HIGHEST_PORT);
    if (port < 1) {
        return refuse(err,
                      "needs a number from 1 to 65535 as its port" ENCODE_HINT);
    }
    *out = (int)port;
    return HF_OK;
}

/* Splits "host", "host:port" or "[address]:port". A port that is not there
 * has a NULL `at`. */
static hf_status split_host(slice authority, slice *host, slice *port,
                            hf_error *err)
{
    const char *end = authority.at + authority.length;
    const char *colon;
    if (authority.length > 0 && authority.at[0] == '[') {
        const char *close = memchr(authority.at, ']', authority.length);
        if (!close || (close + 1 < end && close[1] != ':')) {
            return refuse(err, "has a bracket that is not "
                               "closed; an IPv6 address is written "
                               "redis://[::1]:6379");
        }
        *host = (slice){authority.at + 1, (size_t)(close - authority.at - 1)};
        colon = close + 1 < end ? close + 1 : NULL;
    } else {
        colon = memchr(authority.at, ':', authority.length);
        *host = authority;
        if (colon) {
            host->length = (size_t)(colon - authority.at);
        }
    }
    *port = (slice){NULL, 0};
    if (colon) {
        *port = (slice){colon + 1, (size_t)(end - colon - 1)};
    }
    if (host->length == 0) {
        return refuse(err, "names no host; write "
                           "redis://127.0.0.1:6379 for one on this machine");
    }
    return HF_OK;
}

static hf_status no_trailer(const char *rest, hf_error *err)
{
    if (*rest == '\0') {
        return HF_OK;
    }
    return refuse(err, *rest == '#'
                           ? "has a '#'" ENCODE_HINT
                           : "has a query, which redis:// lacks" ENCODE_HINT);
}

/* [login@]host[:port][/db] */
static hf_status parse_tcp(const char *at, hf__endpoint *into, hf_error *err)
{
    slice authority = until(at, "/?#");
    const char *rest = authority.at + authority.length;
    if (strchr(rest, '@')) {
        return refuse(err, "has an '@' behind its host" ENCODE_HINT);
    }
    slice host = {at, 0};
    slice port = {NULL, 0};
    hf_status status = read_login(&authority, into, err);
    if (status == HF_OK) {
        status = split_host(authority, &host, &port, err);
    }
    if (status == HF_OK) {
        status = decode(host, &into->host, err);
    }
    into->port = DEFAULT_PORT;
    if (status == HF_OK && port.at) {
        status = read_port(port, &into->port, err);
    }
    if (status == HF_OK && *rest == '/') {
        slice database = until(rest + 1, "?#");
        rest = database.at + database.length;
        if (database.length > 0) {
            status = read_database(database, &into->database, err);
        }
    }
    return status == HF_OK ? no_trailer(rest, err) : status;
}

/* "?db=n" and nothing else. */
static hf_status read_query(const char *at, hf__endpoint *into, hf_error *err)
{
    while (*at) {
        slice parameter = until(at, "&#");
        at = parameter.at + parameter.length;
        if (parameter.length < 3 || strncmp(parameter.at, "db=", 3) != 0 ||
            *at == '#') {
            return refuse(err, "has an unknown query parameter; the only one "
                               "is ?db=NUMBER, and a '?' or '#' "
                               "in the path or login is percent-encoded");
        }
        slice value = {parameter.at + 3, parameter.length - 3};
        hf_status status = read_database(value, &into->database, err);
        if (status != HF_OK) {
            return status;
        }
        at += *at == '&';
    }
    return HF_OK;
}

/* [login@]/path[?db=n] */
static hf_status parse_unix(const char *at, hf__endpoint *into, hf_error *err)
{
    slice authority = until(at, "/?#");
    slice path = until(authority.at + authority.length, "?#");
    const char *rest = path.at + path.length;
    hf_status status = read_login(&authority, into, err);
    if (status != HF_OK) {
        return status;
    }
    if (authority.length > 0 || path.length < 2) {
        return refuse(err, "needs the absolute path of a socket, such as "
                           "unix:///run/redis.sock" ENCODE_HINT);
    }
    if (*rest == '#') {
        return refuse(err, "has a '#'" ENCODE_HINT);
    }
    status = decode(path, &into->path, err);
    return status == HF_OK && *rest == '?' ? read_query(rest + 1, into, err)
                                           : status;
}

/* Has it a control character, or one below `lowest`? */
static bool has_control(const char *text, unsigned char lowest)
{
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < lowest || byte == 0x7f) {
            return true;
        }
    }
    return false;
}

static hf_status make_display(const scheme *as, hf__endpoint *into,
                              hf_error *err)
{
    char *text = NULL;
    int n;
    if (as->transport == TCP) {
        bool brackets = strchr(into->host, ':') != NULL;
        n = asprintf(&text, "%s://%s%s%s:%d/%ld", as->name, brackets ? "[" : "",
                     into->host, brackets ? "]" : "", into->port,
                     into->database);
    } else if (into->database == 0) {
        n = asprintf(&text, "%s://%s", as->name, into->path);
    } else {
        n = asprintf(&text, "%s://%s?db=%ld", as->name, into->path,
                     into->database);
    }
    if (n < 0) {
        return no_memory(err);
    }
    into->display = text;
    if (has_control(text, ' ')) { /* it would be in every message */
        return refuse(err, "has a control character in its host or path");
    }
    return HF_OK;
}

hf_status hf__endpoint_parse(const char *url, hf__endpoint *out, hf_error *err)
{
    hf__endpoint made = {0};
    const scheme *as = NULL;
    const char *at = url;
    /* A newline left over from a file, say. */
    if (has_control(url, ' ' + 1)) {
        return refuse(err, "has a space, newline or other control character; "
                           "write it percent-encoded");
    }
    hf_status status = read_scheme(&at, &as, err);
    if (status == HF_OK) {
        status = as->transport == TCP ? parse_tcp(at, &made, err)
                                      : parse_unix(at, &made, err);
    }
    if (status == HF_OK) {
        status = make_display(as, &made, err);
    }
    if (status == HF_OK) {
        *out = made;
    } else {
        hf__endpoint_free(&made);
    }
    return status;
}

static void wipe(char *secret)
{
    if (secret) {
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
}

hf_status hf__endpoint_set_login(hf__endpoint *endpoint, const char *username,
                                 const char *password, hf_error *err)
{
    char *new_username = username ? strdup(username) : NULL;
    char *new_password = password ? strdup(password) : NULL;
    if ((username && !new_username) || (password && !new_password)) {
        free(new_username);
        wipe(new_password);
        return no_memory(err);
    }
    if (new_username) {
        free(endpoint->username);
        endpoint->username = new_username;
    }
    if (new_password) {
        wipe(endpoint->password);
        endpoint->password = new_password;
    }
    return HF_OK;
}

void hf__endpoint_free(hf__endpoint *endpoint)
{
    free(endpoint->host);
    free(endpoint->path);
    free(endpoint->username);
    wipe(endpoint->password);
    free(endpoint->display);
    *endpoint = (hf__endpoint){0};
}
