/* What may be given to the calls: names of any bytes, options, the limits of
 * both; and what is refused changes nothing. */
#include "support/ear.h"
#include "support/fixture.h"
#include "support/net.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- names */

/* The channel as Redisson derives it: braces, unless the name has one. */
static ear *listen_to(const char *name, size_t length)
{
    static const char prefix[] = "redisson_lock__channel:";
    bool braced = memchr(name, '{', length) != NULL;
    size_t n = sizeof(prefix) - 1;
    char *channel = malloc(n + length + 2);
    assert_non_null(channel);
    memcpy(channel, prefix, n);
    if (!braced) {
        channel[n++] = '{';
    }
    memcpy(channel + n, name, length);
    n += length;
    if (!braced) {
        channel[n++] = '}';
    }
    ear *e = ear_subscribe(server, channel, n);
    free(channel);
    return e;
}

static void check_name(const char *name, size_t length)
{
    hf_lock *lock = hf_lock_open_bytes(client, name, length, &err);
    assert_non_null(lock);
    ear *e = listen_to(name, length);
    hf_lease *lease = test_take(lock);
    assert_true(srv_cmd_is(server, "1", "EXISTS %b", name, length));
    assert_true(srv_cmd_is(server, "1", "HGET %b %s", name, length,
                           hf_lease_owner_id(lease)));
    assert_true(srv_cmd_is(server, "1", "DBSIZE"));
    hf_lease *again = test_take(lock);
    assert_true(srv_cmd_is(server, "2", "HGET %b %s", name, length,
                           hf_lease_owner_id(lease)));
    test_give(again);
    test_give(lease);
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    assert_true(ear_hears(e, "0"));
    ear_free(e);
    hf_lock_free(lock);
}

static void test_names(void **state)
{
    (void)state;
#define NAME(literal)                                                          \
    {                                                                          \
        literal, sizeof(literal) - 1                                           \
    }
    static const struct {
        const char *bytes;
        size_t length;
    } names[] = {
        NAME("a"),
        NAME("\0"),
        NAME("a\0b"),
        NAME("line\r\nend"),
        NAME("\r\n"),
        NAME("*3\r\n$3\r\nSET\r\n"),
        NAME("\xff\xfe\x80"),
        NAME("{}"),
        NAME("{}x"),
        NAME("{a}{b}"),
        NAME("{"),
        NAME("}"),
        NAME("x}{y"),
        NAME("a b 'c\""),
        NAME("%s%n%b"),
        NAME("\xc3\xa9t\xc3\xa9"),
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        check_name(names[i].bytes, names[i].length);
    }
}

static void test_all_bytes(void **state)
{
    (void)state;
    char name[256];
    for (size_t i = 0; i < sizeof(name); i++) {
        name[i] = (char)i;
    }
    check_name(name, sizeof(name));
}

static char *long_name(size_t length)
{
    char *name = malloc(length + 1);
    assert_non_null(name);
    memset(name, 'n', length);
    name[length] = '\0';
    return name;
}

static void test_long_names(void **state)
{
    (void)state;
    char *name = long_name(HF_NAME_MAX + 1);
    check_name(name, 100000);
    check_name(name, HF_NAME_MAX);
    free(name);
}

static void test_refused_names(void **state)
{
    (void)state;
    char *name = long_name(HF_NAME_MAX + 1);
    assert_null(hf_lock_open_bytes(client, name, HF_NAME_MAX + 1, &err));
    assert_int_equal(hf_error_status(&err), HF_EINVAL);
    assert_non_null(strstr(hf_error_text(&err), "16777216"));
    assert_null(hf_lock_open(client, name, &err));
    assert_int_equal(hf_error_status(&err), HF_EINVAL);
    free(name);
    assert_null(hf_lock_open(client, "", &err));
    assert_int_equal(hf_error_status(&err), HF_EINVAL);
    assert_null(hf_lock_open(client, NULL, NULL));
    assert_null(hf_lock_open_bytes(client, "x", 0, &err));
    assert_int_equal(hf_error_status(&err), HF_EINVAL);
    assert_null(hf_lock_open(NULL, "x", &err));
    assert_int_equal(hf_error_status(&err), HF_EINVAL);
}

/* Two handles of one name are one lock, also if one comes as bytes. */
static void test_two_handles(void **state)
{
    (void)state;
    hf_lock *one = test_lock(client, "twice");
    hf_lock *two = hf_lock_open_bytes(client, "twice", 5, &err);
    hf_lease *lease = test_take(one);
    hf_lease *again = test_take(two);
    assert_true(test_is_held(server, "twice", hf_lease_owner_id(lease), 2));
    hf_lock_free(one);
    expect(HF_OK, hf_lock_release(two, NULL, &err));
    expect(HF_OK, hf_lock_release(two, NULL, &err));
    hf_lease_free(lease);
    hf_lease_free(again);
    hf_lock_free(two);
}

/* ---- options of an acquisition */

static void check_refused(hf_lock *lock, int64_t wait, int64_t lease_ms,
                          int64_t max_hold)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = (hf_lease *)&server;
    options.wait_ms = wait;
    options.lease_ms = lease_ms;
    options.max_hold_ms = max_hold;
    expect(HF_EINVAL, hf_lock_acquire_with(lock, &options, &lease, &err));
    assert_int_equal(hf_error_status(&err), HF_EINVAL);
    assert_ptr_equal(lease, &server);
}

static void check_accepted(hf_lock *lock, int64_t wait, int64_t lease_ms,
                           int64_t max_hold)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = NULL;
    options.wait_ms = wait;
    options.lease_ms = lease_ms;
    options.max_hold_ms = max_hold;
    expect(HF_OK, hf_lock_acquire_with(lock, &options, &lease, &err));
    hf_lease_free(lease);
}

static void test_refused_options(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "refused");
    ear *e = ear_monitor(server);
    check_refused(lock, -2, 0, 0);
    check_refused(lock, INT64_MIN, 0, 0);
    check_refused(lock, HF_LEASE_MAX_MS + 1, 0, 0);
    check_refused(lock, INT64_MAX, 0, 0);
    check_refused(lock, 0, -1, 0);
    check_refused(lock, 0, 1, 0);
    check_refused(lock, 0, HF_LEASE_MIN_MS - 1, 0);
    check_refused(lock, 0, HF_LEASE_MAX_MS + 1, 0);
    check_refused(lock, 0, INT64_MIN, 0);
    check_refused(lock, 0, INT64_MAX, 0);
    check_refused(lock, 0, 0, -1);
    check_refused(lock, 0, 0, HF_LEASE_MIN_MS - 1);
    check_refused(lock, 0, 0, HF_LEASE_MAX_MS + 1);
    check_refused(lock, 0, 1000, 1000); /* fixed and renewed */
    expect(HF_EINVAL, hf_lock_acquire(lock, -2, NULL, &err));
    assert_int_equal(ear_commands(e, server, "").commands, 0);
    ear_free(e);
    hf_lock_free(lock);
}

static void test_accepted_options(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "accepted");
    check_accepted(lock, HF_WAIT_FOREVER, 0, 0);
    check_accepted(lock, HF_LEASE_MAX_MS, HF_LEASE_MAX_MS, 0);
    check_accepted(lock, 0, 0, HF_LEASE_MAX_MS);
    check_accepted(lock, TEST_LIMIT_MS, 1000, 0);
    check_accepted(lock, 0, 0, 1000);
    expect(HF_OK, hf_lock_acquire_with(lock, NULL, NULL, &err));
    expect(HF_OK, hf_lock_release(lock, NULL, &err));
    assert_true(srv_cmd_becomes(server, "0", "DBSIZE"));
    hf_lock_free(lock);
}

static void test_foreign_handles(void **state)
{
    (void)state;
    hf_owner *theirs = hf_owner_new(other, &err);
    hf_lock *lock = test_lock(client, "foreign");
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    int64_t count = 7;
    options.owner = theirs;
    expect(HF_EINVAL, hf_lock_acquire_with(lock, &options, NULL, &err));
    expect(HF_EINVAL, hf_lock_release(lock, theirs, &err));
    expect(HF_EINVAL, hf_lock_hold_count(lock, theirs, &count, &err));
    assert_int_equal(count, 7);
    expect(HF_EINVAL, hf_lock_try(NULL, NULL, &err));
    expect(HF_EINVAL, hf_lock_release(NULL, NULL, &err));
    expect(HF_EINVAL, hf_lease_release(NULL, &err));
    expect(HF_EINVAL, hf_lock_force_release(NULL, NULL, &err));
    expect(HF_EINVAL, hf_client_ping(NULL, &err));
    hf_owner_free(theirs);
    hf_lock_free(lock);
}

/* ---- struct_size */

typedef struct newer_acquire_options {
    hf_acquire_options known;
    int64_t unknown[2];
} newer_acquire_options;

static void test_size_of_acquire_options(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "sized");
    newer_acquire_options newer = {.known = HF_ACQUIRE_OPTIONS_INIT};
    hf_acquire_options *options = &newer.known;
    options->struct_size = 0;
    expect(HF_EINVAL, hf_lock_acquire_with(lock, options, NULL, &err));
    options->struct_size = sizeof(size_t) - 1;
    expect(HF_EINVAL, hf_lock_acquire_with(lock, options, NULL, &err));

    options->struct_size = sizeof(newer);
    expect(HF_OK, hf_lock_acquire_with(lock, options, NULL, &err));
    newer.unknown[1] = 1; /* asks for what this library does not know */
    expect(HF_EINVAL, hf_lock_acquire_with(lock, options, NULL, &err));
    assert_int_equal(srv_cmd_int(server, "HLEN sized"), 1);
    expect(HF_OK, hf_lock_release(lock, NULL, &err));
    expect(HF_ENOTHELD, hf_lock_release(lock, NULL, &err));

    /* An older program's ends before max_hold_ms: what follows is not
     * looked at. */
    options->struct_size = offsetof(hf_acquire_options, max_hold_ms);
    options->max_hold_ms = -77;
    options->lease_ms = 40000;
    expect(HF_OK, hf_lock_acquire_with(lock, options, NULL, &err));
    assert_in_range(srv_cmd_int(server, "PTTL sized"), 1, 40000);
    expect(HF_OK, hf_lock_release(lock, NULL, &err));
    hf_lock_free(lock);
}

typedef struct newer_client_options {
    hf_client_options known;
    int64_t unknown[2];
} newer_client_options;

static void assert_no_client(const hf_client_options *options, hf_status why)
{
    assert_null(hf_client_open(srv_url(server), options, &err));
    assert_int_equal(hf_error_status(&err), why);
}

static void test_size_of_client_options(void **state)
{
    (void)state;
    newer_client_options newer = {.known = HF_CLIENT_OPTIONS_INIT};
    newer.known.struct_size = 0;
    assert_no_client(&newer.known, HF_EINVAL);
    newer.known.struct_size = sizeof(newer);
    hf_client_free(test_client(srv_url(server), &newer.known));
    newer.unknown[0] = 1;
    assert_no_client(&newer.known, HF_EINVAL);
    newer.known.struct_size = offsetof(hf_client_options, poll_cap_ms);
    newer.known.poll_cap_ms = -77;
    hf_client_free(test_client(srv_url(server), &newer.known));
}

static void test_ranges_of_client_options(void **state)
{
    (void)state;
    static const size_t fields[] = {
        offsetof(hf_client_options, connect_timeout_ms),
        offsetof(hf_client_options, command_timeout_ms),
        offsetof(hf_client_options, watchdog_lease_ms),
        offsetof(hf_client_options, poll_cap_ms),
        offsetof(hf_client_options, subscription_linger_ms),
        offsetof(hf_client_options, restart_quarantine_ms),
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        hf_client_options options = HF_CLIENT_OPTIONS_INIT;
        int64_t *field = (int64_t *)(void *)((char *)&options + fields[i]);
        *field = -2;
        assert_no_client(&options, HF_ECONFIG);
        *field = INT64_MAX;
        assert_no_client(&options, HF_ECONFIG);
        *field = INT64_MIN;
        assert_no_client(&options, HF_ECONFIG);
    }
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    options.watchdog_lease_ms = HF_LEASE_MIN_MS - 1;
    assert_no_client(&options, HF_ECONFIG);
    assert_non_null(strstr(hf_error_text(&err), "watchdog_lease_ms"));
    options.watchdog_lease_ms = HF_LEASE_MIN_MS;
    options.restart_quarantine_ms = -1;
    hf_client_free(test_client(srv_url(server), &options));
}

/* ---- a key that is no lock */

static void test_wrong_type(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "no-lock");
    int64_t count = 7;
    int released = 7;
    hf_lease *lease = NULL;
    assert_true(srv_cmd_is(server, "OK", "SET no-lock precious"));
    expect(HF_EWRONGTYPE, hf_lock_try(lock, &lease, &err));
    assert_non_null(strstr(hf_error_text(&err), "no-lock"));
    assert_false(hf_error_is_retriable(&err));
    for (int i = 0; i < 50; i++) { /* settling, refused too, may be under way */
        expect(HF_EWRONGTYPE, hf_lock_acquire(lock, 1000, &lease, &err));
    }
    expect(HF_EWRONGTYPE, hf_lock_acquire(lock, HF_WAIT_FOREVER, &lease, &err));
    assert_null(lease);
    expect(HF_EWRONGTYPE, hf_lock_hold_count(lock, NULL, &count, &err));
    assert_non_null(strstr(hf_error_text(&err), "no-lock"));
    expect(HF_EWRONGTYPE, hf_lock_force_release(lock, &released, &err));
    assert_non_null(strstr(hf_error_text(&err), "no-lock"));
    assert_int_equal(count, 7);
    assert_int_equal(released, 7);
    assert_true(srv_cmd_is(server, "precious", "GET no-lock"));
    assert_true(srv_cmd_is(server, "-1", "PTTL no-lock"));
    assert_true(srv_cmd_is(server, "1", "DEL no-lock"));
    test_give(test_take(lock)); /* and then it is one */
    hf_lock_free(lock);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_names),
        FIXTURE_TEST(test_all_bytes),
        FIXTURE_TEST(test_long_names),
        FIXTURE_TEST(test_refused_names),
        FIXTURE_TEST(test_two_handles),
        FIXTURE_TEST(test_refused_options),
        FIXTURE_TEST(test_accepted_options),
        FIXTURE_TEST(test_foreign_handles),
        FIXTURE_TEST(test_size_of_acquire_options),
        FIXTURE_TEST(test_size_of_client_options),
        FIXTURE_TEST(test_ranges_of_client_options),
        FIXTURE_TEST(test_wrong_type),
    };
    return cmocka_run_group_tests(tests, fixture_patient, fixture_end);
}
