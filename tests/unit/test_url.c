/* Server URLs: what they mean, and that no message gives a password away. */
#include "redis/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct good {
    const char *url;
    hf__endpoint is;
} good;

/* clang-format off */
static const good goods[] = {
    {"redis://localhost",
     {.host = "localhost", .port = 6379, .display = "redis://localhost:6379/0"}},
    {"redis://127.0.0.1:7000",
     {.host = "127.0.0.1", .port = 7000, .display = "redis://127.0.0.1:7000/0"}},
    {"valkey://h.example:1/15",
     {.host = "h.example", .port = 1, .database = 15,
      .display = "valkey://h.example:1/15"}},
    {"REDIS://h/", {.host = "h", .port = 6379, .display = "redis://h:6379/0"}},
    {"redis://h:65535/2147483647",
     {.host = "h", .port = 65535, .database = 2147483647,
      .display = "redis://h:65535/2147483647"}},
    {"redis://[::1]", {.host = "::1", .port = 6379, .display = "redis://[::1]:6379/0"}},
    {"redis://[fe80::1%25eth0]:7/3",
     {.host = "fe80::1%eth0", .port = 7, .database = 3,
      .display = "redis://[fe80::1%eth0]:7/3"}},
    {"redis://ada@h",
     {.host = "h", .port = 6379, .username = "ada", .display = "redis://h:6379/0"}},
    {"redis://ada:sesame@h",
     {.host = "h", .port = 6379, .username = "ada", .password = "sesame",
      .display = "redis://h:6379/0"}},
    {"redis://:sesame@h",
     {.host = "h", .port = 6379, .password = "sesame",
      .display = "redis://h:6379/0"}},
    {"redis://:@h", {.host = "h", .port = 6379, .display = "redis://h:6379/0"}},
    {"redis://a%3Ab:p%2fq%40%25%c3%a9@h:1",
     {.host = "h", .port = 1, .username = "a:b", .password = "p/q@%\xc3\xa9",
      .display = "redis://h:1/0"}},
    {"redis://u:p@ss:w@rd@h", /* up to the last '@' */
     {.host = "h", .port = 6379, .username = "u", .password = "p@ss:w@rd",
      .display = "redis://h:6379/0"}},
    {"redis+unix:///run/redis.sock",
     {.path = "/run/redis.sock", .display = "redis+unix:///run/redis.sock"}},
    {"valkey+unix:///v?db=3",
     {.path = "/v", .database = 3, .display = "valkey+unix:///v?db=3"}},
    {"unix:///a%20b%3fc?db=0",
     {.path = "/a b?c", .display = "unix:///a b?c"}},
    {"unix:///a@b?", {.path = "/a@b", .display = "unix:///a@b"}},
    {"redis+unix://ada:sesame@/s?db=9",
     {.path = "/s", .database = 9, .username = "ada", .password = "sesame",
      .display = "redis+unix:///s?db=9"}},
    {"redis+unix://:p%2Fq@/s",
     {.path = "/s", .password = "p/q", .display = "redis+unix:///s"}},
};
/* clang-format on */

/* Each has "sesame", if anything, for a password. */
static const char *const bads[] = {
    "",
    "localhost",
    "localhost:6379",
    "sesame@localhost",
    "://h",
    ":sesame@h",
    "redis:",
    "redis:/h",
    "redis:h",
    "http://h",
    "redis+tcp://u:sesame@h",
    "sesame sesame",
    "redis://",
    "redis:///0",
    "redis://:6379",
    "redis://u:sesame@",
    "redis://u:sesame@:6379",
    "redis://h:",
    "redis://h:0",
    "redis://h:65536",
    "redis://h:99999999999999999999",
    "redis://h:-1",
    "redis://h:+1",
    "redis://h:6379x",
    "redis://h:1:2",
    "redis://::1",
    "redis://[::1",
    "redis://[]:1",
    "redis://[::1]x",
    "redis://[::1]:",
    "redis://h/x",
    "redis://h/-1",
    "redis://h/0/1",
    "redis://h/2147483648",
    "redis://h/99999999999999999999999",
    "redis://h?db=1",
    "redis://h/0?timeout=3",
    "redis://h/0#1",
    "redis://h#",
    "redis://u:%zz@h",
    "redis://u:sesame%@h",
    "redis://u:sesame%4@h",
    "redis://u:sesame%00x@h",
    "redis://h%",
    "redis://u:ses/ame/sesame@h",
    "redis://u:sesame/@h",
    "redis://u:1/sesame@h",
    "redis://u:sesame?@h",
    "redis://u:1?sesame@h/0",
    "redis://u:sesame#@h",
    "redis://u:1#sesame@h",
    "redis://u:sesame@h\n",
    "redis://u:sesame @h",
    "redis://u:sesame\t@h",
    "redis://u:sesame@%1b[31mh",
    "unix://u:sesame@/a%0ab",
    "unix:///a%7f",
    "unix://",
    "unix:///",
    "unix://run/redis.sock",
    "unix://u:sesame/run/redis.sock",
    "redis+unix://u:sesame@run/redis.sock",
    "redis+unix://u:sesame@",
    "unix:///s?db=",
    "unix:///s?db=x",
    "unix:///s?db=-1",
    "unix:///s?password=sesame",
    "unix:///s?db=1&password=sesame",
    "unix:///s?db",
    "unix:///s#sesame",
    "unix:///s?db=1#sesame",
    "unix:///s%0",
};

static const char *const planned[] = {
    "rediss://u:sesame@h",         "valkeys://u:sesame@h",
    "redis+sentinel://u:sesame@h", "valkey+sentinel://h",
    "redis+cluster://u:sesame@h",  "valkey+cluster://h",
};

static void check_text(const char *url, const char *field, const char *is,
                       const char *expected)
{
    if (!expected ? is != NULL : !is || strcmp(is, expected) != 0) {
        fail_msg("%s: %s is \"%s\", expected \"%s\"", url, field,
                 is ? is : "(null)", expected ? expected : "(null)");
    }
}

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(goods) / sizeof(goods[0]); i++) {
        const good *of = &goods[i];
        hf__endpoint got;
        hf_error err = HF_ERROR_INIT;
        if (hf__endpoint_parse(of->url, &got, &err) != HF_OK) {
            fail_msg("%s: %s", of->url, hf_error_text(&err));
        }
        check_text(of->url, "host", got.host, of->is.host);
        check_text(of->url, "path", got.path, of->is.path);
        check_text(of->url, "user", got.username, of->is.username);
        check_text(of->url, "password", got.password, of->is.password);
        check_text(of->url, "display", got.display, of->is.display);
        assert_int_equal(got.database, of->is.database);
        if (of->is.host) {
            assert_int_equal(got.port, of->is.port);
        }
        hf__endpoint_free(&got);
        assert_null(got.password);
    }
}

static void check_bad(const char *url, const char *must_say)
{
    hf__endpoint out;
    hf__endpoint before;
    hf_error err = HF_ERROR_INIT;
    memset(&out, 0x5a, sizeof(out));
    memcpy(&before, &out, sizeof(out));
    if (hf__endpoint_parse(url, &out, &err) != HF_ECONFIG) {
        fail_msg("%s was accepted", url);
    }
    assert_memory_equal(&out, &before, sizeof(out));
    assert_int_equal(hf_error_status(&err), HF_ECONFIG);
    assert_false(hf_error_is_retriable(&err));
    if (strstr(hf_error_text(&err), "sesame")) {
        fail_msg("%s: gives the password away: %s", url, hf_error_text(&err));
    }
    if (!strstr(hf_error_text(&err), must_say)) {
        fail_msg("%s: does not say \"%s\": %s", url, must_say,
                 hf_error_text(&err));
    }
}

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
        check_bad(bads[i], "");
    }
    check_bad("http://h", "http");
    check_bad("redis://h:0", "65535");
    check_bad("redis://h/x", "database");
    check_bad("redis://u:ses/ame@h", "percent-encoded");
    check_bad("unix://run/x", "absolute path");
    check_bad("unix:///s?x=1", "db=");
}

static void test_planned(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(planned) / sizeof(planned[0]); i++) {
        check_bad(planned[i], "this version does not speak");
    }
}

/* Whatever place of a URL a password with an awkward character gets into. */
static void test_password_is_never_told(void **state)
{
    (void)state;
    static const char *const formats[] = {
        "redis://u:sesame%csesame@h:1/0",
        "redis://:sesame%csesame@h",
        "redis://sesame%csesame@h",
        "redis+unix://u:sesame%csesame@/s",
        "unix://:sesame%csesame@/s?db=1",
        "unix:///s?db=sesame%csesame",
        "sesame%csesame@h",
        "redis:sesame%csesame@h",
    };
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        for (int c = 1; c < 256; c++) {
            char url[128];
            size_t length = strcspn(formats[i], "%");
            (void)snprintf(url, sizeof(url), "%.*s%c%s", (int)length,
                           formats[i], c, formats[i] + length + 2);
            hf__endpoint out = {0};
            hf_error err = HF_ERROR_INIT;
            hf_status status = hf__endpoint_parse(url, &out, &err);
            const char *told =
                status == HF_OK ? out.display : hf_error_text(&err);
            if (strstr(told, "sesame")) {
                fail_msg("%s: gives the password away: %s", url, told);
            }
            hf__endpoint_free(&out);
        }
    }
}

static void test_login_from_elsewhere(void **state)
{
    (void)state;
    hf__endpoint at;
    hf_error err = HF_ERROR_INIT;
    char secret[] = "open";
    assert_int_equal(hf__endpoint_parse("redis://u:sesame@h", &at, &err),
                     HF_OK);
    assert_int_equal(hf__endpoint_set_login(&at, NULL, NULL, &err), HF_OK);
    assert_string_equal(at.username, "u");
    assert_string_equal(at.password, "sesame");
    assert_int_equal(hf__endpoint_set_login(&at, NULL, secret, &err), HF_OK);
    secret[0] = 'x'; /* a copy was taken */
    assert_string_equal(at.username, "u");
    assert_string_equal(at.password, "open");
    assert_int_equal(hf__endpoint_set_login(&at, "ada", NULL, &err), HF_OK);
    assert_string_equal(at.username, "ada");
    assert_string_equal(at.password, "open");
    hf__endpoint_free(&at);
    hf__endpoint_free(&at); /* twice is harmless */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_planned),
        cmocka_unit_test(test_password_is_never_told),
        cmocka_unit_test(test_login_from_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
