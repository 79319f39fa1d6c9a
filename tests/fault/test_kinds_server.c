/* Every kind of lock with a lease, on a server that comes back empty, forgets
 * its scripts, refuses, or is meddled with. */
#include "fault/kinds.h"

#define SECRET "s3kr1t-Hase"

static void expect_lost(loss_note *note, hf_lease *lease)
{
    assert_becomes(atomic_load(&note->count) > 0);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    assert_false(hf_lease_is_held(lease));
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
    assert_int_equal(atomic_load(&note->count), 1);
}

/* F1 */
static void test_restarted_while_held(void **state)
{
    kinds_case *k = *state;
    loss_note note = {0};
    hf_acquire_options terms = kinds_noting(&note);
    hf_client *holder = kinds_client(k);
    hf_client *other = kinds_client(k);
    hf_lease *lease = fault_take_with(&k->f, kinds_lock(k, holder), &terms);
    srv_kill9(k->f.server);
    srv_restart(k->f.server);
    kinds_stock(k);
    terms = kinds_long(TEST_LIMIT_MS);
    hf_lease *next = fault_take_with(&k->f, kinds_lock(k, other), &terms);
    expect_lost(&note, lease);
    kinds_expect_once(k, next);
    fault_give(&k->f, next);
    kinds_expect_nothing(k);
}

/* F1: who waited for the old server's lock is served by the new one. */
static void test_restarted_while_waiting(void **state)
{
    kinds_case *k = *state;
    hf_acquire_options terms = kinds_long(TEST_LIMIT_MS);
    hf_client *holder = kinds_client(k);
    hf_client *other = kinds_client(k);
    (void)fault_take_with(&k->f, kinds_rival(k, holder), &terms);
    taker t;
    kinds_unheard(k);
    taker_start_with(&t, kinds_lock(k, other), &terms);
    kinds_expect_waiting(k);
    srv_kill9(k->f.server);
    srv_restart(k->f.server);
    kinds_stock(k);
    assert_int_equal(taker_end(&k->f, &t), HF_OK);
    kinds_expect_once(k, t.lease);
    fault_give(&k->f, t.lease);
    kinds_expect_nothing(k);
}

/* F31: told at the next renewal. */
static void test_key_deleted(void **state)
{
    kinds_case *k = *state;
    loss_note note = {0};
    hf_acquire_options terms = kinds_noting(&note);
    hf_client *holder = kinds_client(k);
    hf_lease *lease = fault_take_with(&k->f, kinds_lock(k, holder), &terms);
    assert_true(srv_cmd_is(k->f.server, "1", "DEL %s", k->row->holders));
    if (k->row->several) { /* its other is given back */
        assert_true(srv_cmd_becomes(k->f.server, "0", "EXISTS x2"));
    }
    expect_lost(&note, lease);
    assert_int_equal(atomic_load(&note.why), HF_LOSS_REVOKED);
    if (k->row->kind == HF_KIND_PERMIT) {
        assert_true(srv_cmd_is(k->f.server, "0", "GET x"));
        kinds_stock(k);
    }
    kinds_expect_nothing(k);
    kinds_cycle(k, holder);
}

/* A waiter is served, long before the lease's end. */
static void test_forced_while_waiting(void **state)
{
    kinds_case *k = *state;
    int released = 0;
    hf_acquire_options terms = kinds_long(TEST_LIMIT_MS);
    hf_client *holder = kinds_client(k);
    hf_client *other = kinds_client(k);
    hf_lock *forcing = kinds_lock(k, other);
    (void)fault_take_with(&k->f, kinds_lock(k, holder), &terms);
    taker t;
    kinds_unheard(k);
    taker_start_with(&t, kinds_rival(k, other), &terms);
    kinds_expect_waiting(k);
    hf_status forced = hf_lock_force_release(forcing, &released, NULL);
    assert_int_equal(taker_end(&k->f, &t), HF_OK);
    assert_int_equal(forced, HF_OK);
    assert_true(released);
    kinds_expect_once(k, t.lease);
    fault_give(&k->f, t.lease);
    kinds_expect_nothing(k);
}

/* The holder is told at its next renewal. */
static void test_forced_while_held(void **state)
{
    kinds_case *k = *state;
    int released = 0;
    loss_note note = {0};
    hf_acquire_options terms = kinds_noting(&note);
    hf_client *holder = kinds_client(k);
    hf_client *other = kinds_client(k);
    hf_lease *lease = fault_take_with(&k->f, kinds_lock(k, holder), &terms);
    assert_int_equal(
        hf_lock_force_release(kinds_lock(k, other), &released, NULL), HF_OK);
    assert_true(released);
    kinds_expect_nothing(k);
    expect_lost(&note, lease);
    assert_int_equal(atomic_load(&note.why), HF_LOSS_REVOKED);
    kinds_cycle(k, other);
}

/* F15 */
static void test_scripts_flushed(void **state)
{
    kinds_case *k = *state;
    hf_client *client = kinds_client(k);
    hf_lock *lock = kinds_lock(k, client);
    for (int i = 0; i < 2; i++) {
        assert_true(srv_cmd_is(k->f.server, "OK", "SCRIPT FLUSH"));
        hf_lease *lease = fault_take(&k->f, lock);
        assert_true(srv_cmd_is(k->f.server, "OK", "SCRIPT FLUSH"));
        assert_true(i > 0 || fault_renewed(lease, 1));
        assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
        kinds_expect_once(k, lease);
        assert_true(srv_cmd_is(k->f.server, "OK", "SCRIPT FLUSH"));
        fault_give(&k->f, lease);
        kinds_expect_nothing(k);
    }
}

/* ---- F24: wrong type */

static void expect_untouched(kinds_case *k, const char *key)
{
    assert_true(srv_cmd_is(k->f.server, "1", "DEL foreign"));
    assert_true(srv_cmd_is(k->f.server, "foreign", "SMEMBERS %s", key));
    assert_true(srv_cmd_is(k->f.server, "1", "DEL %s", key));
    kinds_stock(k);
    kinds_expect_nothing(k);
}

static void put_foreign(kinds_case *k, const char *key)
{
    free(srv_cmd(k->f.server, "DEL %s", key));
    assert_true(srv_cmd_is(k->f.server, "1", "SADD %s foreign", key));
    assert_true(srv_cmd_is(k->f.server, "OK", "SET foreign 1"));
}

/* SET NX does not look at what there is: to a simple lock it is another's. */
static void test_wrong_type(void **state)
{
    kinds_case *k = *state;
    hf_error err = HF_ERROR_INIT;
    hf_acquire_options terms = kinds_long(0);
    hf_client *client = kinds_client(k);
    hf_lock *lock = kinds_lock(k, client);
    bool simple = k->row->kind == HF_KIND_SIMPLE;
    const char *keys[] = {"x", k->row->second, k->row->several ? "x2" : NULL};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (keys[i]) {
            put_foreign(k, keys[i]);
            assert_int_equal(hf_lock_acquire_with(lock, &terms, NULL, &err),
                             simple ? HF_NOT_ACQUIRED : HF_EWRONGTYPE);
            expect_untouched(k, keys[i]);
        }
    }
    kinds_cycle(k, client);
}

/* What somebody has put in the place of a lock is not touched by the one who
 * held it. */
static void test_wrong_type_while_held(void **state)
{
    kinds_case *k = *state;
    loss_note note = {0};
    hf_acquire_options terms = kinds_noting(&note);
    hf_client *client = kinds_client(k);
    hf_lease *lease = fault_take_with(&k->f, kinds_lock(k, client), &terms);
    put_foreign(k, k->row->holders);
    expect_lost(&note, lease);
    expect_untouched(k, k->row->holders);
    kinds_cycle(k, client);
}

/* ---- F20: no memory */

static bool is_reentrant(const kinds_row *row)
{
    return row->kind != HF_KIND_NON_REENTRANT &&
           row->kind != HF_KIND_FAIR_NON_REENTRANT &&
           row->kind != HF_KIND_SIMPLE && row->kind != HF_KIND_PERMIT;
}

/* Nothing new is granted, but what is held can be renewed, and given back in
 * part and in whole. */
static void test_out_of_memory(void **state)
{
    kinds_case *k = *state;
    hf_error err = HF_ERROR_INIT;
    loss_note note = {0};
    hf_acquire_options terms = kinds_noting(&note);
    hf_client *client = kinds_client(k);
    hf_lock *lock = kinds_lock(k, client);
    hf_lease *lease = fault_take_with(&k->f, lock, &terms);
    hf_lease *again = is_reentrant(k->row) ? fault_take(&k->f, lock) : NULL;
    assert_true(srv_cmd_is(k->f.server, "OK", "CONFIG SET maxmemory 1"));
    if (again) {
        fault_give(&k->f, again);
        kinds_expect_once(k, lease);
    }
    assert_true(fault_renewed(lease, 1));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    fault_give(&k->f, lease);
    kinds_expect_nothing(k);
    assert_int_equal(hf_lock_try(lock, NULL, &err), HF_ESERVER);
    assert_non_null(strstr(hf_error_text(&err), "OOM"));
    kinds_expect_nothing(k);
    assert_true(srv_cmd_is(k->f.server, "OK", "CONFIG SET maxmemory 0"));
    kinds_cycle(k, client);
}

/* ---- F27, F28: permissions */

static void set_app(kinds_case *k, const char *rules)
{
    char *command =
        test_text("ACL SETUSER app reset on >" SECRET " +@all ~* &* %s", rules);
    assert_true(srv_cmd_is(k->f.server, "OK", command));
    free(command);
}

/* By a new client of the user; the error, if any, has that word. */
static hf_status acquire_as_app(kinds_case *k, const char *word)
{
    hf_error err = HF_ERROR_INIT;
    hf_acquire_options terms = kinds_long(TEST_LIMIT_MS);
    hf_client_options options = fault_options();
    char *url =
        test_text("redis://app:" SECRET "@127.0.0.1:%d", srv_port(k->f.server));
    hf_client *client = fault_open(&k->f, url, &options);
    hf_lock *lock = kinds_open(k->row, k->row->kind, client);
    hf_lease *lease = NULL;
    hf_status status = hf_lock_acquire_with(lock, &terms, &lease, &err);
    if (status == HF_OK) {
        kinds_expect_once(k, lease);
        if (hf_lease_release(lease, &err) != HF_OK) {
            fail_msg("without %s: %s", word, hf_error_text(&err));
        }
    } else if (!strstr(hf_error_text(&err), word) ||
               strstr(hf_error_text(&err), "Hase")) {
        fail_msg("without %s: \"%s\"", word, hf_error_text(&err));
    }
    hf_lease_free(lease);
    hf_lock_free(lock);
    fault_close(&k->f, client);
    free(url);
    return status;
}

/* Without any one of the commands that scripts use it is acquired and given
 * back as ever, or refused before anything was done. */
static void test_command_forbidden(void **state)
{
    static const char *const commands[] = {
        "decrby",        "del",     "exists",
        "get",           "hdel",    "hexists",
        "hget",          "hgetall", "hincrby",
        "hlen",          "hset",    "incr",
        "incrby",        "lindex",  "lpop",
        "lpos",          "lrange",  "lrem",
        "pexpire",       "pttl",    "publish",
        "rpush",         "set",     "strlen",
        "time",          "zadd",    "zcard",
        "zcount",        "zincrby", "zrange",
        "zrangebyscore", "zrem",    "zremrangebyscore",
        "zscore"};
    kinds_case *k = *state;
    bool refused = false;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        char *rules = test_text("-%s", commands[i]);
        set_app(k, rules);
        hf_status status = acquire_as_app(k, commands[i]);
        assert_true(status == HF_OK || status == HF_EPERM);
        refused = refused || (status == HF_EPERM &&
                              strcmp(commands[i], k->row->forbid) == 0);
        kinds_expect_nothing(k);
        free(rules);
    }
    assert_true(refused);
}

/* Simple locks and spin locks have no messages. */
static void test_channel_forbidden(void **state)
{
    kinds_case *k = *state;
    hf_status expected = k->row->deaf ? HF_OK : HF_EPERM;
    set_app(k, "resetchannels");
    assert_int_equal(acquire_as_app(k, "publish"), expected);
    kinds_expect_nothing(k);
}

int main(void)
{
    static const kinds_test tests[] = {
        {"test_restarted_while_held", test_restarted_while_held, NULL},
        {"test_restarted_while_waiting", test_restarted_while_waiting, NULL},
        {"test_key_deleted", test_key_deleted, NULL},
        {"test_forced_while_waiting", test_forced_while_waiting, NULL},
        {"test_forced_while_held", test_forced_while_held, NULL},
        {"test_scripts_flushed", test_scripts_flushed, NULL},
        {"test_wrong_type", test_wrong_type, NULL},
        {"test_wrong_type_while_held", test_wrong_type_while_held, NULL},
        {"test_out_of_memory", test_out_of_memory, NULL},
        {"test_command_forbidden", test_command_forbidden, NULL},
        {"test_channel_forbidden", test_channel_forbidden, NULL},
    };
    return kinds_run(tests, sizeof(tests) / sizeof(tests[0]), NULL);
}
