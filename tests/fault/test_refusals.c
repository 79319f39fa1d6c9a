/* The server refuses: no memory, no login, no permission, a key of another
 * type or without an end; and names of every sort. */
#include "fault/fault.h"

#include <stdio.h>

#define SECRET "s3kr1t-Hase"

/* A client of the user "app", whom the test gives the rest of his rules. */
static char *app_url(const fault *f, const char *password)
{
    return test_text("redis://app:%s@127.0.0.1:%d", password,
                     srv_port(f->server));
}

static void set_app(fault *f, const char *rules)
{
    char *command =
        test_text("ACL SETUSER app reset on >" SECRET " +@all ~* &* %s", rules);
    assert_true(srv_cmd_is(f->server, "OK", command));
    free(command);
}

static hf_client *open_app(fault *f, const hf_client_options *options)
{
    char *url = app_url(f, SECRET);
    hf_client *client = fault_open(f, url, options);
    free(url);
    return client;
}

/* The user's connections are closed, as an operator would. */
static void drop_app(fault *f)
{
    free(srv_cmd(f->server, "CLIENT KILL USER app"));
}

/* ---- F20: out of memory */

/* A new lock is refused and leaves nothing; what is held can be renewed, given
 * back in part and in whole. */
static void test_out_of_memory(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_lock *held = fault_lock(f, client, "held");
    hf_lock *fresh = fault_lock(f, client, "fresh");
    hf_lease *first = fault_take(f, held);
    hf_lease *second = fault_take(f, held);
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG SET maxmemory 1"));

    assert_int_equal(hf_lock_acquire(fresh, 200, NULL, &err), HF_ESERVER);
    assert_non_null(strstr(hf_error_text(&err), "OOM"));
    assert_true(srv_cmd_is(f->server, "0", "EXISTS fresh"));
    assert_int_equal(hf_lock_acquire(held, 200, NULL, &err), HF_ESERVER);
    fault_expect_count(f, "held", first, "2");

    assert_true(fault_renewed(first, 4)); /* past the first lease's end */
    assert_int_equal(hf_lease_get_state(first), HF_LEASE_HELD);
    fault_give(f, second);
    fault_expect_count(f, "held", first, "1");
    fault_give(f, first);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS held"));
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG SET maxmemory 0"));
    fault_cycle(f, client, "fresh");
}

/* A waiter that is woken into a full server is told, and not left waiting. */
static void test_woken_into_a_full_server(void **state)
{
    fault *f = *state;
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    hf_lease *lease = fault_take(f, fault_lock(f, holder, "full"));
    taker t;
    taker_start(&t, fault_lock(f, other, "full"), TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "full", 1));
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG SET maxmemory 1"));
    fault_give(f, lease);
    assert_int_equal(taker_end(f, &t), HF_ESERVER);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS full"));
}

/* ---- F25: logins */

static void expect_no_login(const char *url, const hf_client_options *options)
{
    hf_error err = HF_ERROR_INIT;
    assert_null(hf_client_open(url, options, &err));
    assert_int_equal(hf_error_status(&err), HF_EAUTH);
    assert_false(hf_error_is_retriable(&err));
    assert_null(strstr(hf_error_text(&err), "Hase"));
}

static void test_wrong_password(void **state)
{
    fault *f = *state;
    hf_client_options options = fault_options();
    set_app(f, "");
    char *wrong = app_url(f, "falscher-Hase");
    expect_no_login(wrong, &options);
    options.username = "nobody";
    options.password = SECRET;
    expect_no_login(srv_tcp_url(f->server), &options);
    options.username = NULL;
    assert_true(
        srv_cmd_is(f->server, "OK", "CONFIG SET requirepass anderer-Hase"));
    expect_no_login(srv_tcp_url(f->server), &options);
    options.password = NULL;
    expect_no_login(srv_tcp_url(f->server), &options);
    assert_false(journal_has("Hase"));
    free(wrong);
}

/* The user is switched off while he holds and waits: told at once and for
 * good, without a storm of logins; the lease is lost in time. */
static void test_user_disabled_in_mid_life(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_error err = HF_ERROR_INIT;
    set_app(f, "");
    hf_client *client = open_app(f, NULL);
    assert_null(strstr(hf_client_server(client), "Hase"));
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = &note;
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, client, "mine"), &options);
    hf_lock *lock = fault_lock(f, client, "other");

    set_app(f, "off");
    drop_app(f);
    int64_t before = test_now_ms();
    assert_int_equal(hf_lock_acquire(lock, TEST_LIMIT_MS, NULL, &err),
                     HF_EAUTH);
    assert_true(test_now_ms() - before < TEST_LIMIT_MS / 2);
    assert_null(strstr(hf_error_text(&err), "Hase"));
    long long connections = fault_info(f, "total_connections_received");
    assert_becomes(atomic_load(&note.count) == 1);
    connections = fault_info(f, "total_connections_received") - connections;
    assert_true(connections < 60);
    assert_int_equal(hf_lease_release(lease, &err), HF_ELOST);
    assert_false(journal_has("Hase"));

    set_app(f, "");
    assert_becomes(hf_client_ping(client, NULL) == HF_OK);
    fault_give(f, fault_take(f, lock));
}

/* A password is asked for from one connection to the next: NOAUTH. */
static void test_password_set_in_mid_life(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    hf_client *client = fault_open(f, srv_tcp_url(f->server), NULL);
    hf_lock *lock = fault_lock(f, client, "barred");
    fault_give(f, fault_take(f, lock));
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG SET requirepass " SECRET));
    free(srv_cmd(f->server, "CLIENT KILL TYPE normal SKIPME yes"));
    free(srv_cmd(f->server, "CLIENT KILL TYPE pubsub"));
    assert_int_equal(hf_lock_acquire(lock, TEST_LIMIT_MS, NULL, &err),
                     HF_EAUTH);
    assert_int_equal(hf_client_ping(client, &err), HF_EAUTH);
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG SET requirepass %s", ""));
    assert_becomes(hf_client_ping(client, NULL) == HF_OK);
    fault_give(f, fault_take(f, lock));
}

/* ---- F26 to F29: permissions */

/* F26: the key is none of the user's. */
static void test_no_permission_for_the_key(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    set_app(f, "resetkeys ~ok:*");
    hf_client *client = open_app(f, NULL);
    for (int again = 0; again < 2; again++) {
        hf_lock *lock = fault_lock(f, client, "alien");
        assert_int_equal(hf_lock_acquire(lock, 200, NULL, &err), HF_EPERM);
        assert_non_null(strstr(hf_error_text(&err), "alien"));
        assert_false(hf_error_is_retriable(&err));
        assert_true(srv_cmd_is(f->server, "0", "DBSIZE"));
        fault_cycle(f, client, "ok:mine"); /* the next is not the first */
    }
}

/* F27, F28: what a script may not do is found before the first lock, named,
 * and nothing is left. */
static void expect_named(fault *f, const char *rules, const char *named)
{
    hf_error err = HF_ERROR_INIT;
    set_app(f, rules);
    hf_client *client = open_app(f, NULL);
    hf_lock *lock = fault_lock(f, client, "probed");
    assert_int_equal(hf_lock_acquire(lock, 200, NULL, &err), HF_EPERM);
    if (!strstr(hf_error_text(&err), named)) {
        fail_msg("\"%s\" does not name %s", hf_error_text(&err), named);
    }
    assert_true(srv_cmd_is(f->server, "0", "DBSIZE"));
}

static void test_commands_forbidden(void **state)
{
    fault *f = *state;
    expect_named(f, "-pexpire", "pexpire");
    expect_named(f, "-hset", "hset");
    expect_named(f, "-hdel", "hdel");
    expect_named(f, "-hincrby", "hincrby");
    expect_named(f, "-publish", "publish");
    expect_named(f, "resetchannels", "publish");
    expect_named(f, "-eval -evalsha", "eval");
}

/* F27: forbidden after the probe: the script breaks off behind HSET, which
 * stands; the repair takes it back, for it would have no end. */
static void test_pexpire_forbidden_in_mid_life(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    set_app(f, "");
    hf_client *client = open_app(f, NULL);
    fault_cycle(f, client, "endless");
    hf_lock *lock = fault_lock(f, client, "endless");
    set_app(f, "-pexpire");
    assert_int_equal(hf_lock_acquire(lock, 200, NULL, &err), HF_EPERM);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS endless"));
    set_app(f, "");
    fault_give(f, fault_take(f, lock));
}

/* F28: forbidden after the probe: the release deletes before it publishes. */
static void test_publish_forbidden_in_mid_life(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    set_app(f, "");
    hf_client *client = open_app(f, NULL);
    hf_lease *lease = fault_take(f, fault_lock(f, client, "mute"));
    set_app(f, "-publish");
    assert_int_equal(hf_lease_release(lease, &err), HF_EPERM);
    assert_false(hf_lease_is_held(lease));
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS mute"));
}

/* F28: SUBSCRIBE alone is refused: waiters poll, and get the lock. */
static void test_subscribe_forbidden(void **state)
{
    fault *f = *state;
    set_app(f, "-subscribe");
    hf_client *client = open_app(f, NULL);
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_lease *lease = fault_take(f, fault_lock(f, holder, "deaf"));
    taker t;
    taker_start(&t, fault_lock(f, client, "deaf"), TEST_LIMIT_MS);
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG RESETSTAT"));
    assert_becomes(fault_calls(f, "evalsha") >= 3);
    fault_give(f, lease);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
}

/* F29: the channels are taken away while a waiter is subscribed; the server
 * closes its subscription's connection. */
static void test_channels_taken_away(void **state)
{
    fault *f = *state;
    set_app(f, "");
    hf_client *client = open_app(f, NULL);
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_lease *lease = fault_take(f, fault_lock(f, holder, "taken"));
    taker t;
    taker_start(&t, fault_lock(f, client, "taken"), TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "taken", 1));
    set_app(f, "resetchannels");
    assert_true(fault_subscribed(f, "taken", 0));
    fault_give(f, lease);
    assert_int_equal(taker_end(f, &t), HF_OK);
    (void)hf_lease_release(t.lease, NULL);
}

/* ---- F31, F32: keys of others */

/* F31: the key is of another type: told, and left alone. */
static void test_wrong_type(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    int64_t number = 0;
    int flag = 0;
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_lock *lock = fault_lock(f, client, "text");
    assert_true(srv_cmd_is(f->server, "OK", "SET text precious"));
    assert_int_equal(hf_lock_try(lock, NULL, &err), HF_EWRONGTYPE);
    assert_non_null(strstr(hf_error_text(&err), "text"));
    assert_int_equal(hf_lock_acquire(lock, 200, NULL, &err), HF_EWRONGTYPE);
    assert_int_equal(hf_lock_force_release(lock, &flag, &err), HF_EWRONGTYPE);
    assert_int_equal(hf_lock_hold_count(lock, NULL, &number, &err),
                     HF_EWRONGTYPE);
    assert_int_equal(hf_lock_is_held_by(lock, NULL, &flag, &err),
                     HF_EWRONGTYPE);
    assert_true(srv_cmd_is(f->server, "precious", "GET text"));
    assert_true(srv_cmd_is(f->server, "-1", "PTTL text"));
    assert_true(srv_cmd_is(f->server, "1", "DBSIZE"));
    assert_true(srv_cmd_is(f->server, "1", "DEL text"));
    fault_give(f, fault_take(f, lock));
}

/* F31: a holder's key is overwritten: lost, and the value left alone. */
static void test_wrong_type_in_mid_life(void **state)
{
    fault *f = *state;
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_lease *lease = fault_take(f, fault_lock(f, client, "over"));
    assert_true(srv_cmd_is(f->server, "OK", "SET over precious"));
    assert_becomes(hf_lease_get_state(lease) == HF_LEASE_LOST);
    assert_int_equal(hf_lease_loss(lease), HF_LOSS_REVOKED);
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
    assert_true(srv_cmd_is(f->server, "precious", "GET over"));
    assert_true(srv_cmd_is(f->server, "-1", "PTTL over"));
}

/* F32: somebody's lock without an end: warned of, asked for again and again,
 * taken once it is gone. */
static void test_key_without_end(void **state)
{
    fault *f = *state;
    int64_t left = 0;
    hf_client_options options = fault_options();
    options.poll_cap_ms = 100;
    hf_client *client = fault_open(f, srv_url(f->server), &options);
    hf_lock *lock = fault_lock(f, client, "foreign");
    assert_true(srv_cmd_is(f->server, "1", "HSET foreign %s 1",
                           "4b1d9c1e-0000-4000-8000-000000000000:7"));
    assert_int_equal(hf_lock_try(lock, NULL, NULL), HF_NOT_ACQUIRED);
    assert_int_equal(hf_lock_remaining_ms(lock, &left, NULL), HF_OK);
    assert_int_equal(left, -1);
    assert_int_equal(hf_lock_acquire(lock, 150, NULL, NULL), HF_NOT_ACQUIRED);
    journal_clear();
    taker t;
    taker_start(&t, lock, TEST_LIMIT_MS);
    assert_becomes(journal_has("foreign") && journal_has("without an end"));
    assert_true(srv_cmd_is(f->server, "1", "DEL foreign"));
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_out_of_memory),
        FAULT_TEST(test_woken_into_a_full_server),
        FAULT_TEST(test_wrong_password),
        FAULT_TEST(test_user_disabled_in_mid_life),
        FAULT_TEST(test_password_set_in_mid_life),
        FAULT_TEST(test_no_permission_for_the_key),
        FAULT_TEST(test_commands_forbidden),
        FAULT_TEST(test_pexpire_forbidden_in_mid_life),
        FAULT_TEST(test_publish_forbidden_in_mid_life),
        FAULT_TEST(test_subscribe_forbidden),
        FAULT_TEST(test_channels_taken_away),
        FAULT_TEST(test_wrong_type),
        FAULT_TEST(test_wrong_type_in_mid_life),
        FAULT_TEST(test_key_without_end),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
