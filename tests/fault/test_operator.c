/* An operator, or a program that should not, works on the keys of locks that
 * are held. */
#include "fault/fault.h"

#include <stdio.h>

typedef struct scene {
    hf_client *client;
    hf_lock *lock;
    hf_lease *lease;
    loss_note note;
} scene;

/* "mine" is held, twice if so wished, with the watchdog's lease. */
static void set_scene(fault *f, scene *s)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    memset(s, 0, sizeof(*s));
    options.on_lost = loss_note_take;
    options.on_lost_arg = &s->note;
    s->client = fault_open(f, srv_url(f->server), NULL);
    s->lock = fault_lock(f, s->client, "mine");
    s->lease = fault_take_with(f, s->lock, &options);
}

/* The holder is told, once, that the server no longer lists it, and its
 * release touches nothing. */
static void expect_revoked(scene *s)
{
    assert_becomes(atomic_load(&s->note.count) == 1);
    assert_int_equal(atomic_load(&s->note.why), HF_LOSS_REVOKED);
    assert_int_equal(hf_lease_get_state(s->lease), HF_LEASE_LOST);
    assert_false(hf_lease_is_held(s->lease));
    assert_int_equal(hf_lease_release(s->lease, NULL), HF_ELOST);
    assert_int_equal(hf_lock_release(s->lock, NULL, NULL), HF_ENOTHELD);
}

/* F64: after each of these the holder's key is gone. */
static void lose_by(void **state, const char *command, const char *reply)
{
    fault *f = *state;
    scene s;
    set_scene(f, &s);
    assert_true(srv_cmd_is(f->server, reply, command));
    expect_revoked(&s);
    fault_give(f, fault_take(f, s.lock));
    assert_int_equal(atomic_load(&s.note.count), 1);
}

static void test_flushall(void **state)
{
    lose_by(state, "FLUSHALL", "OK");
}

static void test_del(void **state)
{
    lose_by(state, "DEL mine", "1");
}

static void test_unlink(void **state)
{
    lose_by(state, "UNLINK mine", "1");
}

static void test_pexpire_at_once(void **state)
{
    lose_by(state, "PEXPIRE mine 1", "1");
}

/* F64: what was renamed ends with the lease that it took along. */
static void test_rename(void **state)
{
    fault *f = *state;
    lose_by(state, "RENAME mine theirs", "OK");
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS theirs"));
}

/* F64: the next renewal gives the lock its end back. */
static void test_persist(void **state)
{
    fault *f = *state;
    scene s;
    set_scene(f, &s);
    assert_true(srv_cmd_is(f->server, "1", "PERSIST mine"));
    assert_becomes(srv_cmd_int(f->server, "PTTL mine") > 0);
    assert_int_equal(hf_lease_get_state(s.lease), HF_LEASE_HELD);
    assert_int_equal(atomic_load(&s.note.count), 0);
    fault_give(f, s.lease);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS mine"));
}

/* F64: without a watchdog nobody would: the holder is told at its deadline,
 * and what stands on the server is taken away by itself. */
static void test_persist_of_a_fixed_lease(void **state)
{
    fault *f = *state;
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_lock *lock = fault_lock(f, client, "fixed");
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.lease_ms = 300;
    hf_lease *lease = fault_take_with(f, lock, &options);
    assert_true(srv_cmd_is(f->server, "1", "PERSIST fixed"));
    assert_becomes(!hf_lease_is_held(lease));
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS fixed"));
}

/* F64: deleted, and taken by another at once: two never act together for
 * longer than a renewal's interval, and the loser touches nothing. */
static void test_deleted_and_taken(void **state)
{
    fault *f = *state;
    scene s;
    set_scene(f, &s);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    hf_lock *lock = fault_lock(f, other, "mine");
    assert_true(srv_cmd_is(f->server, "1", "DEL mine"));
    hf_lease *lease = fault_take(f, lock);
    assert_int_equal(hf_lease_release(s.lease, NULL), HF_ELOST);
    fault_expect_count(f, "mine", lease, "1");
    fault_give(f, lease);
}

/* The same owner takes it again before it has noticed: what it held before is
 * lost, for it may have been another's meanwhile. */
static void test_deleted_and_taken_again(void **state)
{
    fault *f = *state;
    scene s;
    set_scene(f, &s);
    assert_true(srv_cmd_is(f->server, "1", "DEL mine"));
    hf_lease *again = fault_take(f, s.lock);
    assert_int_equal(hf_lease_get_state(s.lease), HF_LEASE_LOST);
    assert_becomes(atomic_load(&s.note.count) == 1);
    assert_int_equal(atomic_load(&s.note.why), HF_LOSS_REVOKED);
    assert_int_equal(hf_lease_release(s.lease, NULL), HF_ELOST);
    fault_expect_count(f, "mine", again, "1");
    fault_give(f, again);
}

/* The owner is told also when both of its holds are gone. */
static void test_deleted_while_held_twice(void **state)
{
    fault *f = *state;
    scene s;
    set_scene(f, &s);
    hf_lease *again = fault_take(f, s.lock);
    assert_true(srv_cmd_is(f->server, "1", "DEL mine"));
    assert_int_equal(hf_lease_release(again, NULL), HF_ELOST);
    assert_becomes(hf_lease_get_state(s.lease) == HF_LEASE_LOST);
    expect_revoked(&s);
}

/* A count that somebody has raised is set right by the next release. */
static void test_count_raised(void **state)
{
    fault *f = *state;
    scene s;
    set_scene(f, &s);
    hf_lease *again = fault_take(f, s.lock);
    assert_true(srv_cmd_is(f->server, "7", "HINCRBY mine %s 5",
                           hf_lease_owner_id(again)));
    fault_give(f, again);
    fault_expect_count(f, "mine", s.lease, "1");
    fault_give(f, s.lease);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS mine"));
}

/* Deleted without a message: a waiter finds out when it would have ended. */
static void test_deleted_while_waited_for(void **state)
{
    fault *f = *state;
    scene s;
    set_scene(f, &s);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    taker t;
    taker_start(&t, fault_lock(f, other, "mine"), TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "mine", 1));
    assert_true(srv_cmd_is(f->server, "OK", "FLUSHALL"));
    assert_int_equal(taker_end(f, &t), HF_OK);
    expect_revoked(&s);
    fault_expect_count(f, "mine", t.lease, "1");
    fault_give(f, t.lease);
}

/* Another client's force release: the holder is told, its waiter is woken. */
static void test_force_release(void **state)
{
    fault *f = *state;
    scene s;
    int released = 0;
    set_scene(f, &s);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    hf_lock *lock = fault_lock(f, other, "mine");
    taker t;
    taker_start(&t, lock, TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "mine", 1));
    assert_int_equal(hf_lock_force_release(lock, &released, NULL), HF_OK);
    assert_int_equal(released, 1);
    assert_int_equal(taker_end(f, &t), HF_OK);
    expect_revoked(&s);
    fault_give(f, t.lease);
}

/* The server answers nobody for less than the lease. */
static void test_client_pause(void **state)
{
    fault *f = *state;
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = 3000;
    options.command_timeout_ms = 5000;
    hf_client *client = fault_open(f, srv_url(f->server), &options);
    hf_lease *lease = fault_take(f, fault_lock(f, client, "paused"));
    assert_true(srv_cmd_is(f->server, "OK", "CLIENT PAUSE 1500 ALL"));
    assert_true(fault_renewed(lease, 2));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    fault_give(f, lease);
}

/* All connections are closed, again and again: no hold is lost or doubled. */
static void test_clients_killed(void **state)
{
    fault *f = *state;
    scene s;
    set_scene(f, &s);
    hf_lock *lock = fault_lock(f, s.client, "cycle");
    for (int i = 0; i < 50; i++) {
        hf_lease *lease = fault_take(f, lock);
        free(srv_cmd(f->server, "CLIENT KILL TYPE normal SKIPME yes"));
        fault_give(f, lease);
        assert_true(srv_cmd_is(f->server, "0", "EXISTS cycle"));
    }
    assert_int_equal(atomic_load(&s.note.count), 0);
    fault_expect_count(f, "mine", s.lease, "1");
    fault_give(f, s.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_flushall),
        FAULT_TEST(test_del),
        FAULT_TEST(test_unlink),
        FAULT_TEST(test_pexpire_at_once),
        FAULT_TEST(test_rename),
        FAULT_TEST(test_persist),
        FAULT_TEST(test_persist_of_a_fixed_lease),
        FAULT_TEST(test_deleted_and_taken),
        FAULT_TEST(test_deleted_and_taken_again),
        FAULT_TEST(test_deleted_while_held_twice),
        FAULT_TEST(test_count_raised),
        FAULT_TEST(test_deleted_while_waited_for),
        FAULT_TEST(test_force_release),
        FAULT_TEST(test_client_pause),
        FAULT_TEST(test_clients_killed),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
