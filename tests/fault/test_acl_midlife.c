/* F25, F27 to F29: an operator takes rights away from a user who holds and
 * waits, and gives them back. */
#include "fault/fault.h"

#include <stdio.h>

#define SECRET "s3kr1t-Hase"

/* Far more than is asked with pauses between, far less than without. */
#define STORM 100

static void set_app(fault *f, const char *rules)
{
    char *command =
        test_text("ACL SETUSER app reset on >" SECRET " +@all ~* &* %s", rules);
    assert_true(srv_cmd_is(f->server, "OK", command));
    free(command);
}

static hf_client *open_app(fault *f, const hf_client_options *options)
{
    char *url =
        test_text("redis://app:" SECRET "@127.0.0.1:%d", srv_port(f->server));
    hf_client *client = fault_open(f, url, options);
    free(url);
    return client;
}

static hf_acquire_options fixed_lease(void)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.lease_ms = 120000;
    options.wait_ms = HF_WAIT_FOREVER;
    return options;
}

static void expect_error(const hf_error *err, hf_status status)
{
    assert_int_equal(hf_error_status(err), status);
    assert_false(hf_error_is_retriable(err));
    assert_null(strstr(hf_error_text(err), "Hase"));
}

/* ---- F25 */

typedef struct scene {
    hf_client *client; /* the user's */
    hf_lease *lease;   /* his, of 600 ms, which he renews */
    loss_note note;
    hf_lease *foreign; /* another's of the lock that he waits for */
    taker waiter;
} scene;

/* The user holds one lock and waits for another, without an end. */
static void set_scene(fault *f, scene *s)
{
    hf_acquire_options noting = HF_ACQUIRE_OPTIONS_INIT;
    hf_acquire_options fixed = fixed_lease();
    memset(s, 0, sizeof(*s));
    noting.on_lost = loss_note_take;
    noting.on_lost_arg = &s->note;
    set_app(f, "");
    s->client = open_app(f, NULL);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    s->foreign = fault_take_with(f, fault_lock(f, other, "foreign"), &fixed);
    s->lease = fault_take_with(f, fault_lock(f, s->client, "mine"), &noting);
    taker_start_with(&s->waiter, fault_lock(f, s->client, "foreign"), &fixed);
    assert_true(fault_subscribed(f, "foreign", 1));
}

/* Every lease that he has is lost at its end, and nothing of it stays. */
static void expect_lost(fault *f, scene *s)
{
    assert_becomes(atomic_load(&s->note.count) == 1);
    assert_int_equal(atomic_load(&s->note.why), HF_LOSS_EXPIRED);
    assert_int_equal(hf_lease_release(s->lease, NULL), HF_ELOST);
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS mine"));
}

/* Told for good and at once, though he would wait for ever; without a storm of
 * logins; and all is well again when he may come back. */
static void shut_out(fault *f, const char *const orders[])
{
    scene s;
    hf_error err = HF_ERROR_INIT;
    set_scene(f, &s);
    for (size_t i = 0; orders[i]; i++) {
        free(srv_cmd(f->server, orders[i]));
    }
    long long logins = fault_calls(f, "auth");
    assert_int_equal(taker_end(f, &s.waiter), HF_EAUTH);
    expect_error(&s.waiter.err, HF_EAUTH);
    assert_int_equal(hf_client_ping(s.client, &err), HF_EAUTH);
    expect_error(&err, HF_EAUTH);
    expect_lost(f, &s);
    logins = fault_calls(f, "auth") - logins;
    assert_in_range(logins, 1, STORM);

    set_app(f, "");
    assert_becomes(hf_client_ping(s.client, NULL) == HF_OK);
    fault_cycle(f, s.client, "again");
    assert_false(journal_has("Hase"));
}

static void test_user_switched_off(void **state)
{
    static const char *const orders[] = {"ACL SETUSER app off",
                                         "CLIENT KILL USER app", NULL};
    shut_out(*state, orders);
}

static void test_password_changed(void **state)
{
    static const char *const orders[] = {
        "ACL SETUSER app resetpass >anderer-Hase", "CLIENT KILL USER app",
        NULL};
    shut_out(*state, orders);
}

/* The server closes the connections of a deleted user by itself. */
static void test_user_deleted(void **state)
{
    static const char *const orders[] = {"ACL DELUSER app", NULL};
    shut_out(*state, orders);
}

/* He stays connected and may do nothing any more: as above, but for the name
 * of the error. */
static void test_all_commands_taken_away(void **state)
{
    fault *f = *state;
    scene s;
    hf_error err = HF_ERROR_INIT;
    set_scene(f, &s);
    hf_lock *lock = fault_lock(f, s.client, "more");
    set_app(f, "-@all");
    long long refused = fault_info(f, "acl_access_denied_cmd") +
                        fault_info(f, "total_error_replies");
    assert_int_equal(hf_lock_acquire(lock, TEST_LIMIT_MS, NULL, &err),
                     HF_EPERM);
    expect_error(&err, HF_EPERM);
    assert_int_equal(hf_client_ping(s.client, &err), HF_EPERM);
    expect_lost(f, &s);
    refused = fault_info(f, "acl_access_denied_cmd") +
              fault_info(f, "total_error_replies") - refused;
    assert_in_range(refused, 2, 2 * STORM);
    fault_give(f, s.foreign); /* its message still comes: he is woken */
    assert_int_equal(taker_end(f, &s.waiter), HF_EPERM);
    expect_error(&s.waiter.err, HF_EPERM);

    set_app(f, "");
    fault_cycle(f, s.client, "again");
    assert_false(journal_has("Hase"));
}

/* ---- F27 */

/* The renewals of a holder are refused: lost at the deadline, and the server's
 * end of the lease comes as ever. */
static void test_pexpire_forbidden_while_held(void **state)
{
    fault *f = *state;
    scene s;
    set_scene(f, &s);
    set_app(f, "-pexpire");
    assert_becomes(hf_lease_get_state(s.lease) != HF_LEASE_HELD);
    expect_lost(f, &s);
    set_app(f, "");
    fault_give(f, s.foreign);
    assert_int_equal(taker_end(f, &s.waiter), HF_OK);
    fault_give(f, s.waiter.lease);
}

/* A second acquisition breaks off behind its HINCRBY: the count is set right,
 * and the first one is as good as before. */
static void test_reentry_breaks_off(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    hf_acquire_options fixed = fixed_lease();
    set_app(f, "");
    hf_client *client = open_app(f, NULL);
    hf_lock *lock = fault_lock(f, client, "nested");
    hf_lease *outer = fault_take_with(f, lock, &fixed);
    set_app(f, "-pexpire");
    assert_int_equal(hf_lock_acquire_with(lock, &fixed, NULL, &err), HF_EPERM);
    expect_error(&err, HF_EPERM);
    assert_true(srv_cmd_becomes(f->server, "1", "HGET nested %s",
                                hf_lease_owner_id(outer)));
    assert_true(srv_cmd_int(f->server, "PTTL nested") > 0);
    assert_int_equal(hf_lease_get_state(outer), HF_LEASE_HELD);
    set_app(f, "");
    fault_give(f, outer);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS nested"));
}

/* ---- F28 */

/* The channel of another lock than the first, which was tried out, is not
 * allowed: the release deletes the lock, says so, and tells nobody. Others
 * find out by polling. */
static void test_channel_of_another_lock(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    hf_client_options polling = fault_options();
    hf_acquire_options fixed = fixed_lease();
    polling.poll_cap_ms = 100;
    set_app(f, "resetchannels &redisson_lock__channel:{ok*");
    hf_client *client = open_app(f, NULL);
    hf_client *other = fault_open(f, srv_url(f->server), &polling);
    fault_cycle(f, client, "ok");
    hf_lease *lease = fault_take_with(f, fault_lock(f, client, "mute"), &fixed);
    taker t;
    taker_start(&t, fault_lock(f, other, "mute"), TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "mute", 1));
    assert_int_equal(hf_lease_release(lease, &err), HF_EPERM);
    expect_error(&err, HF_EPERM);
    assert_false(hf_lease_is_held(lease));
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_expect_count(f, "mute", t.lease, "1");
    fault_give(f, t.lease);
}

/* ---- F29 */

/* The channels come back while a waiter has been polling: it subscribes again,
 * and is woken by the message alone. */
static void test_channels_come_back(void **state)
{
    fault *f = *state;
    hf_acquire_options fixed = fixed_lease();
    set_app(f, "");
    hf_client *client = open_app(f, NULL);
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_lease *lease = fault_take_with(f, fault_lock(f, holder, "back"), &fixed);
    taker t;
    taker_start(&t, fault_lock(f, client, "back"), TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "back", 1));
    set_app(f, "resetchannels");
    assert_true(fault_subscribed(f, "back", 0));
    assert_becomes(journal_has("its messages cannot be had"));
    set_app(f, "");
    assert_true(fault_subscribed(f, "back", 1));
    fault_give(f, lease);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_user_switched_off),
        FAULT_TEST(test_password_changed),
        FAULT_TEST(test_user_deleted),
        FAULT_TEST(test_all_commands_taken_away),
        FAULT_TEST(test_pexpire_forbidden_while_held),
        FAULT_TEST(test_reentry_breaks_off),
        FAULT_TEST(test_channel_of_another_lock),
        FAULT_TEST(test_channels_come_back),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
