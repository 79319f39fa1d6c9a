/* Server URLs, any text. What is accepted has the documented form and means
 * the same when it is written anew; what is shown has no part of the login,
 * wherever in the URL a secret may stand. */
#include "fuzz/fuzz.h"

#include "redis/url.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#define SECRET "hunter2"
#define PLACES_MAX 48 /* where the secret is put in */

/* ---- what a good one looks like */

static const char *const schemes[] = {"redis", "valkey", "redis+unix",
                                      "valkey+unix", "unix"};

static void check_form(const hf__endpoint *at)
{
    FUZZ_CHECK(!at->host == !!at->path);
    FUZZ_CHECK(!at->host || (at->host[0] && at->port >= 1));
    FUZZ_CHECK(!at->host || at->port <= 65535);
    FUZZ_CHECK(!at->path || (at->path[0] == '/' && at->path[1]));
    for (const char *c = at->display; *c; c++) { /* for one line of a log */
        FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
    }
    FUZZ_CHECK(at->database >= 0 && at->database <= INT_MAX);
    FUZZ_CHECK(!at->username || at->username[0]);
    FUZZ_CHECK(!at->password || at->password[0]);
}

static bool is_scheme(const char *text, size_t length)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strlen(schemes[i]) == length &&
            memcmp(schemes[i], text, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Exactly this, and so nothing of the login. */
static void check_display(const hf__endpoint *at)
{
    size_t scheme = strcspn(at->display, ":");
    char *expected = NULL;
    int n;
    FUZZ_CHECK(is_scheme(at->display, scheme));
    if (at->host) {
        bool address = strchr(at->host, ':');
        n = asprintf(&expected, "://%s%s%s:%d/%ld", address ? "[" : "",
                     at->host, address ? "]" : "", at->port, at->database);
    } else if (at->database) {
        n = asprintf(&expected, "://%s?db=%ld", at->path, at->database);
    } else {
        n = asprintf(&expected, "://%s", at->path);
    }
    FUZZ_CHECK(n >= 0 && strcmp(at->display + scheme, expected) == 0);
    free(expected);
}

/* ---- again */

static void encode(char **to, const char *text)
{
    for (; text && *text; text++) {
        *to += sprintf(*to, "%%%02x", (unsigned char)*text);
    }
}

/* All of it spelled out, and every character percent-encoded. */
static char *write_anew(const hf__endpoint *at)
{
    size_t length = strlen(at->host ? at->host : at->path);
    length += at->username ? strlen(at->username) : 0;
    length += at->password ? strlen(at->password) : 0;
    char *url = malloc(3 * length + 100);
    FUZZ_CHECK(url);
    char *to = url + sprintf(url, "%.*s://", (int)strcspn(at->display, ":"),
                             at->display);
    encode(&to, at->username);
    to += sprintf(to, ":");
    encode(&to, at->password);
    to += sprintf(to, "@%s", at->path ? "/" : "");
    encode(&to, at->host ? at->host : at->path + 1);
    if (at->host) {
        (void)sprintf(to, ":%d/%ld", at->port, at->database);
    } else {
        (void)sprintf(to, "?db=%ld", at->database);
    }
    return url;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void check_same(const hf__endpoint *a, const hf__endpoint *b)
{
    FUZZ_CHECK(same_text(a->host, b->host));
    FUZZ_CHECK(same_text(a->path, b->path));
    FUZZ_CHECK(a->port == b->port || a->path);
    FUZZ_CHECK(a->database == b->database);
    FUZZ_CHECK(same_text(a->display, b->display));
}

static void check_written_anew(const hf__endpoint *at)
{
    hf__endpoint again;
    char *url = write_anew(at);
    FUZZ_CHECK(hf__endpoint_parse(url, &again, NULL) == HF_OK);
    check_same(at, &again);
    FUZZ_CHECK(same_text(at->username, again.username));
    FUZZ_CHECK(same_text(at->password, again.password));
    hf__endpoint_free(&again);
    free(url);
}

/* What is shown is a URL itself, unless it has a character that was encoded. */
static void check_display_again(const hf__endpoint *at)
{
    hf__endpoint again;
    for (const char *c = at->host ? at->host : at->path; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("-._~:/", *c)) {
            return;
        }
    }
    if (at->host && strchr(at->host, '/')) {
        return;
    }
    FUZZ_CHECK(hf__endpoint_parse(at->display, &again, NULL) == HF_OK);
    check_same(at, &again);
    FUZZ_CHECK(!again.username && !again.password);
    hf__endpoint_free(&again);
}

/* ---- one URL */

static void check_refused(const hf__endpoint *out, hf_status status,
                          const hf_error *err)
{
    static const hf__endpoint untouched;
    FUZZ_CHECK(status == HF_ECONFIG && hf_error_status(err) == status);
    FUZZ_CHECK(!hf_error_is_retriable(err));
    FUZZ_CHECK(hf_error_text(err)[0]);
    FUZZ_CHECK(memcmp(out, &untouched, sizeof(*out)) == 0);
}

static void check_one(const char *url)
{
    hf__endpoint at = {0};
    hf_error err = HF_ERROR_INIT;
    hf_status status = hf__endpoint_parse(url, &at, &err);
    if (status != HF_OK) {
        check_refused(&at, status, &err);
        return;
    }
    for (const char *c = url; *c; c++) {
        FUZZ_CHECK((unsigned char)*c > ' ' && *c != 0x7f);
    }
    check_form(&at);
    check_display(&at);
    check_written_anew(&at);
    check_display_again(&at);
    hf__endpoint_free(&at);
}

/* ---- a secret in it */

static bool shows(const char *text)
{
    return text && strstr(text, SECRET);
}

/* Whether it stands in the login, which ends at the authority's last '@'. */
static bool in_login(const char *url, const char *secret)
{
    const char *authority = strstr(url, "://") + 3;
    const char *end = authority + strcspn(authority, "/?#");
    const char *at = memrchr(authority, '@', (size_t)(end - authority));
    return at && secret < at;
}

/* Behind the scheme, a secret is in no message; and it is shown only as part
 * of the host or path. */
static void check_secret(const char *url, const char *secret)
{
    hf__endpoint at = {0};
    hf_error err = HF_ERROR_INIT;
    if (hf__endpoint_parse(url, &at, &err) != HF_OK) {
        FUZZ_CHECK(!shows(hf_error_text(&err)));
        return;
    }
    bool login = in_login(url, secret);
    FUZZ_CHECK(shows(at.display) == !login);
    FUZZ_CHECK((shows(at.host) || shows(at.path)) == !login);
    FUZZ_CHECK((shows(at.username) || shows(at.password)) == login);
    hf__endpoint_free(&at);
}

static void check_secrets(const char *url)
{
    const char *behind = strchr(url, ':');
    size_t length = strlen(url);
    size_t at = behind ? (size_t)(behind - url) + 1 : length;
    size_t end = at + PLACES_MAX < length ? at + PLACES_MAX : length;
    if (shows(url)) {
        return; /* it may stand in two places */
    }
    char *with = malloc(length + sizeof(SECRET));
    FUZZ_CHECK(with);
    for (; behind && at <= end; at++) {
        memcpy(with, url, at);
        memcpy(with + at, SECRET, sizeof(SECRET) - 1);
        memcpy(with + at + sizeof(SECRET) - 1, url + at, length - at + 1);
        check_secret(with, with + at);
    }
    free(with);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *url = malloc(size + 1);
    FUZZ_CHECK(url);
    if (size > 0) {
        memcpy(url, data, size);
    }
    url[size] = '\0';
    check_one(url);
    check_secrets(url);
    free(url);
    return 0;
}
