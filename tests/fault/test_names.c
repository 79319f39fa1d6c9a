/* F47, F48: names of every sort on a real server. Whatever is accepted is the
 * very key that others see, and wakes the waiters of that name alone. */
#include "fault/fault.h"

#include <stdio.h>

typedef struct name {
    const char *bytes;
    size_t length;
    const char *channel; /* as Redisson names it; NULL: not looked at */
} name;

#define NAME(text, channel)                                                    \
    {                                                                          \
        text, sizeof(text) - 1, channel                                        \
    }
#define PREFIX "redisson_lock__channel:"

static const name names[] = {
    NAME("x", PREFIX "{x}"),
    NAME("orders:42", PREFIX "{orders:42}"),
    NAME(" ", PREFIX "{ }"),
    NAME("two words", PREFIX "{two words}"),
    NAME("{a}b", PREFIX "{a}b"),
    NAME("{a}{b}", PREFIX "{a}{b}"),
    NAME("{}x", PREFIX "{}x"),
    NAME("a{b", PREFIX "a{b"),
    NAME("a}b", PREFIX "{a}b}"),
    NAME("}{", PREFIX "}{"),
    NAME("\r\n", NULL),
    NAME("$5\r\nhello\r\n*1\r\n", NULL),
    NAME("a\0b", NULL),
    NAME("\0", NULL),
    NAME("\xff\xfe\x80", NULL),
    NAME("%s%n%d", NULL),
    NAME("Schl\xc3\xb6sser", NULL),
    NAME("'\"\\", NULL),
    NAME("*", NULL),
    NAME("[a-z]?", NULL),
};

static hf_lock *open_name(hf_client *client, const void *bytes, size_t length)
{
    hf_error err = HF_ERROR_INIT;
    hf_lock *lock = hf_lock_open_bytes(client, bytes, length, &err);
    if (!lock) {
        fail_msg("%s", hf_error_text(&err));
    }
    return lock;
}

/* A waiter in another client's thread is woken by the release's message, for
 * the poll cap is a minute and the lease too. */
static void hand_over(fault *f, hf_lock *from, hf_lock *to, const name *n)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.lease_ms = 60000;
    hf_lease *lease = fault_take_with(f, from, &options);
    assert_true(srv_cmd_is(f->server, "1", "EXISTS %b", n->bytes, n->length));
    assert_true(srv_cmd_is(f->server, "1", "DBSIZE"));
    taker t;
    taker_start(&t, to, TEST_LIMIT_MS);
    assert_becomes(srv_cmd_int(f->server, "EVAL %s 0",
                               "return #redis.call('pubsub','channels')") > 0);
    if (n->channel) {
        assert_true(srv_cmd_is(f->server, n->channel, "PUBSUB CHANNELS"));
    }
    fault_give(f, lease);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
    assert_true(srv_cmd_is(f->server, "0", "DBSIZE"));
}

static void test_names_of_every_sort(void **state)
{
    fault *f = *state;
    hf_client_options options = fault_options();
    options.subscription_linger_ms = 1;
    hf_client *holder = fault_open(f, srv_url(f->server), &options);
    hf_client *other = fault_open(f, srv_url(f->server), &options);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const name *n = &names[i];
        hf_lock *from = open_name(holder, n->bytes, n->length);
        hf_lock *to = open_name(other, n->bytes, n->length);
        hand_over(f, from, to, n);
        hf_lock_free(from);
        hf_lock_free(to);
        assert_true(srv_cmd_becomes(f->server, "", "PUBSUB CHANNELS"));
    }
}

/* Names that differ in what a C string or a shell would drop are different
 * locks. */
static void test_names_are_not_confused(void **state)
{
    fault *f = *state;
    static const name alike[] = {NAME("a", NULL),    NAME("a\0", NULL),
                                 NAME("a\0b", NULL), NAME("a ", NULL),
                                 NAME("A", NULL),    NAME("{a}", NULL),
                                 NAME("a\n", NULL)};
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    size_t count = sizeof(alike) / sizeof(alike[0]);
    for (size_t i = 0; i < count; i++) {
        hf_lock *lock = open_name(client, alike[i].bytes, alike[i].length);
        hf_lock *same = open_name(other, alike[i].bytes, alike[i].length);
        (void)fault_take(f, lock);
        assert_int_equal(hf_lock_try(same, NULL, NULL), HF_NOT_ACQUIRED);
        hf_lock_free(lock);
        hf_lock_free(same);
    }
    assert_int_equal(srv_cmd_int(f->server, "DBSIZE"), (long long)count);
}

/* The channel lies in the key's slot of a cluster, as far as Redisson's own
 * naming lets it: that of "{}x" does not. */
static void test_slots_of_channels(void **state)
{
    fault *f = *state;
    static const char *const clustered[] = {"--cluster-enabled", "yes", NULL};
    srv *cluster = srv_start(clustered);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const name *n = &names[i];
        if (!n->channel || strcmp(n->bytes, "{}x") == 0 ||
            strcmp(n->bytes, "a{b") == 0 || strcmp(n->bytes, "}{") == 0 ||
            strcmp(n->bytes, "a}b") == 0) {
            continue;
        }
        assert_int_equal(
            srv_cmd_int(cluster, "CLUSTER KEYSLOT %s", n->bytes),
            srv_cmd_int(cluster, "CLUSTER KEYSLOT %s", n->channel));
    }
    srv_stop(cluster);
    (void)f;
}

/* F48: the longest name works, a longer one and none are refused at once,
 * without a byte to the server. */
static void test_lengths(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    hf_client_options options = fault_options();
    options.command_timeout_ms = TEST_LIMIT_MS;
    options.watchdog_lease_ms = 30000;
    hf_client *client = fault_open(f, srv_url(f->server), &options);
    char *bytes = malloc(HF_NAME_MAX + 1);
    assert_non_null(bytes);
    memset(bytes, 'n', HF_NAME_MAX + 1);
    static const size_t fine[] = {1, 100 * 1024, HF_NAME_MAX};
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        hf_lock *lock = open_name(client, bytes, fine[i]);
        hf_lease *lease = fault_take(f, lock);
        assert_int_equal(hf_lock_try(lock, NULL, &err), HF_OK);
        assert_int_equal(hf_lock_release(lock, NULL, &err), HF_OK);
        fault_give(f, lease);
        hf_lock_free(lock);
        assert_true(srv_cmd_is(f->server, "0", "DBSIZE"));
    }
    long long heard = fault_info(f, "total_net_input_bytes");
    assert_null(hf_lock_open_bytes(client, bytes, HF_NAME_MAX + 1, &err));
    assert_int_equal(hf_error_status(&err), HF_EINVAL);
    /* Longer than the server could take; there are not so many bytes. */
    assert_null(
        hf_lock_open_bytes(client, bytes, (size_t)600 * 1024 * 1024, &err));
    assert_null(hf_lock_open_bytes(client, bytes, SIZE_MAX, &err));
    assert_null(hf_lock_open_bytes(client, bytes, 0, &err));
    assert_null(hf_lock_open_bytes(client, NULL, 1, &err));
    assert_null(hf_lock_open(client, "", &err));
    assert_null(hf_lock_open(client, NULL, &err));
    assert_int_equal(hf_error_status(&err), HF_EINVAL);
    assert_true(fault_info(f, "total_net_input_bytes") - heard < 1000);
    free(bytes);
}

/* An error about a name with control bytes is one printable line. */
static void test_names_in_errors(void **state)
{
    fault *f = *state;
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        hf_error err = HF_ERROR_INIT;
        hf_lock *from = open_name(client, names[i].bytes, names[i].length);
        hf_lock *to = open_name(other, names[i].bytes, names[i].length);
        hf_lease *lease = fault_take(f, from);
        assert_int_equal(hf_lock_try(to, NULL, &err), HF_NOT_ACQUIRED);
        assert_true(fault_printable(hf_error_text(&err)));
        fault_give(f, lease);
        hf_lock_free(from);
        hf_lock_free(to);
    }
    assert_true(journal_is_printable());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_names_of_every_sort),
        FAULT_TEST(test_names_are_not_confused),
        FAULT_TEST(test_slots_of_channels),
        FAULT_TEST(test_lengths),
        FAULT_TEST(test_names_in_errors),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
