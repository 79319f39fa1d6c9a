/* The lock as a caller sees it, and what it leaves on the server byte for
 * byte: Redisson's RLock. */
#include "support/ear.h"
#include "support/fixture.h"
#include "support/net.h"

#include <inttypes.h>
#include <regex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR_MS (INT64_C(3600) * 1000)

/* PTTL of a lease given or renewed a moment ago. */
static void assert_pttl(const char *name, int64_t lease)
{
    long long left = srv_cmd_int(server, "PTTL %s", name);
    assert_in_range(left, lease - TEST_LIMIT_MS / 2, lease);
}

/* ---- taking and giving back */

static void assert_owner_id(const char *id)
{
    regex_t form;
    assert_int_equal(regcomp(&form,
                             "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-"
                             "[89ab][0-9a-f]{3}-[0-9a-f]{12}:[1-9][0-9]*$",
                             REG_EXTENDED | REG_NOSUB),
                     0);
    assert_int_equal(regexec(&form, id, 0, NULL, 0), 0);
    regfree(&form);
}

static void test_acquire_and_release(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "orders");
    ear *e = ear_of_lock(server, "orders");
    hf_lease *lease = NULL;
    expect(HF_OK, hf_lock_acquire(lock, HF_WAIT_FOREVER, &lease, &err));
    assert_owner_id(hf_lease_owner_id(lease));
    assert_true(srv_cmd_is(server, "orders", "KEYS *"));
    assert_true(srv_cmd_is(server, "hash", "TYPE orders"));
    assert_true(test_is_held(server, "orders", hf_lease_owner_id(lease), 1));
    assert_pttl("orders", 30000);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    assert_true(hf_lease_is_held(lease));
    /* The validity ends before the lease: R1. */
    assert_in_range(hf_lease_remaining_ms(lease), 30000 - TEST_LIMIT_MS,
                    30000 - 302);
    assert_int_equal(hf_lease_loss(lease), HF_LOSS_NONE);
    assert_int_equal(hf_lease_token(lease), 0);
    assert_true(ear_heard_all(e, server));

    expect(HF_OK, hf_lease_release(lease, &err));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    assert_true(ear_hears(e, "0"));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_RELEASED);
    assert_false(hf_lease_is_held(lease));
    assert_int_equal(hf_lease_remaining_ms(lease), 0);
    expect(HF_OK, hf_lease_release(lease, &err)); /* idempotent */
    assert_int_equal(hf_lease_loss(lease), HF_LOSS_NONE);
    hf_lease_free(lease);
    assert_true(ear_heard_all(e, server));
    ear_free(e);
    hf_lock_free(lock);
}

/* What was freed is given back in the background. */
static void test_freeing_releases(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "freed");
    ear *e = ear_of_lock(server, "freed");
    hf_lease *lease = test_take(lock);
    hf_lock_free(lock); /* leases of it live on */
    assert_true(test_is_held(server, "freed", hf_lease_owner_id(lease), 1));
    hf_lease_free(lease);
    assert_true(ear_hears(e, "0"));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    ear_free(e);
    hf_lease_free(NULL);
    hf_lock_free(NULL);
    hf_owner_free(NULL);
    hf_cancel_free(NULL);
    hf_client_free(NULL);
}

/* Closing gives back what is held; the handles stay, and know. */
static void test_closing_releases(void **state)
{
    (void)state;
    hf_client *brief = test_client(srv_url(server), NULL);
    test_warm_up(brief);
    hf_lock *lock = test_lock(brief, "closed");
    hf_owner *owner = hf_owner_new(brief, &err);
    hf_lease *lease = test_take(lock);
    expect(HF_OK, hf_lock_try(lock, NULL, &err)); /* without a handle */
    ear *e = ear_of_lock(server, "closed");
    hf_client_free(brief);
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    assert_true(ear_hears(e, "0"));
    assert_true(ear_heard_all(e, server));
    assert_false(hf_lease_is_held(lease));
    expect(HF_ECLOSED, hf_lock_try(lock, NULL, &err));
    expect(HF_ECLOSED, hf_lock_release(lock, NULL, &err));
    int locked = 7;
    expect(HF_ECLOSED, hf_lock_is_locked(lock, &locked, &err));
    assert_int_equal(locked, 7);
    ear_free(e);
    hf_lease_free(lease);
    hf_owner_free(owner);
    hf_lock_free(lock);
}

static void test_try(void **state)
{
    (void)state;
    hf_lock *mine = test_lock(client, "tried");
    hf_lock *theirs = test_lock(other, "tried");
    hf_lease *lease = test_take(mine);
    hf_lease *untouched = (hf_lease *)&server;
    expect(HF_NOT_ACQUIRED, hf_lock_try(theirs, &untouched, &err));
    assert_ptr_equal(untouched, &server);
    assert_int_equal(hf_error_status(&err), HF_NOT_ACQUIRED);
    assert_true(hf_error_is_retriable(&err));
    assert_non_null(strstr(hf_error_text(&err), "tried"));
    assert_true(test_is_held(server, "tried", hf_lease_owner_id(lease), 1));
    expect(HF_NOT_ACQUIRED, hf_lock_acquire(theirs, 0, NULL, NULL));
    assert_int_equal(srv_cmd_int(server, "PUBSUB NUMPAT"), 0);
    assert_true(srv_cmd_is(server, "", "PUBSUB CHANNELS"));
    test_give(lease);
    test_give(test_take(theirs));
    hf_lock_free(mine);
    hf_lock_free(theirs);
}

/* ---- reentrancy */

static void test_counts(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "count");
    ear *e = ear_of_lock(server, "count");
    hf_lease *leases[4];
    for (int i = 0; i < 4; i++) {
        leases[i] = test_take(lock);
        assert_string_equal(hf_lease_owner_id(leases[i]),
                            hf_lease_owner_id(leases[0]));
        assert_true(
            test_is_held(server, "count", hf_lease_owner_id(leases[0]), i + 1));
        assert_pttl("count", 30000);
    }
    /* In any order. */
    static const int order[] = {1, 3, 0};
    for (int i = 0; i < 3; i++) {
        expect(HF_OK, hf_lease_release(leases[order[i]], &err));
        expect(HF_OK, hf_lease_release(leases[order[i]], &err));
        assert_true(
            test_is_held(server, "count", hf_lease_owner_id(leases[0]), 3 - i));
        assert_true(hf_lease_is_held(leases[2]));
    }
    assert_true(ear_heard_all(e, server)); /* no message for a part */
    expect(HF_OK, hf_lease_release(leases[2], &err));
    assert_true(srv_cmd_is(server, "0", "EXISTS count"));
    assert_true(ear_hears(e, "0"));
    assert_true(ear_heard_all(e, server));
    for (int i = 0; i < 4; i++) {
        hf_lease_free(leases[i]);
    }
    ear_free(e);
    hf_lock_free(lock);
}

static void test_partial_release_rearms(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "rearmed");
    hf_lease *first = test_take(lock);
    hf_lease *second = test_take(lock);
    assert_true(srv_cmd_is(server, "1", "PEXPIRE rearmed 12000"));
    test_give(second);
    assert_pttl("rearmed", 30000);
    test_give(first);
    hf_lock_free(lock);
}

/* A reentrant acquisition with a shorter lease takes nothing from the longer
 * one that is held already. */
static void test_shorter_lease_within(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "within");
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *inner = NULL;
    hf_lease *outer = test_take(lock);
    options.lease_ms = 300;
    expect(HF_OK, hf_lock_acquire_with(lock, &options, &inner, &err));
    assert_pttl("within", 30000 + 1000);
    assert_true(test_is_held(server, "within", hf_lease_owner_id(outer), 2));
    assert_in_range(hf_lease_remaining_ms(inner), 0, 300 - 5);
    /* It ends by itself, and its count with it. */
    char *one = test_text("%s 1", hf_lease_owner_id(outer));
    assert_true(srv_cmd_becomes(server, one, "HGETALL within"));
    free(one);
    assert_int_equal(hf_lease_get_state(inner), HF_LEASE_LOST);
    assert_int_equal(hf_lease_loss(inner), HF_LOSS_EXPIRED);
    assert_int_equal(hf_lease_get_state(outer), HF_LEASE_HELD);
    expect(HF_ELOST, hf_lease_release(inner, &err));
    assert_true(test_is_held(server, "within", hf_lease_owner_id(outer), 1));
    hf_lease_free(inner);
    test_give(outer);
    hf_lock_free(lock);
}

/* ---- releasing without being the holder */

static void test_release_by_another(void **state)
{
    (void)state;
    hf_lock *mine = test_lock(client, "another's");
    hf_lock *theirs = test_lock(other, "another's");
    hf_owner *owner = hf_owner_new(client, &err);
    expect(HF_ENOTHELD, hf_lock_release(mine, NULL, &err)); /* nobody has it */
    hf_lease *lease = test_take(mine);
    expect(HF_ENOTHELD, hf_lock_release(theirs, NULL, &err));
    assert_non_null(strstr(hf_error_text(&err), "another's"));
    expect(HF_ENOTHELD, hf_lock_release(mine, owner, &err));
    assert_true(test_is_held(server, "another's", hf_lease_owner_id(lease), 1));
    test_give(lease);
    expect(HF_ENOTHELD, hf_lock_release(mine, NULL, &err)); /* no more */
    hf_owner_free(owner);
    hf_lock_free(mine);
    hf_lock_free(theirs);
}

static void test_release_by_lock(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "by lock");
    hf_lease *first = test_take(lock);
    expect(HF_OK, hf_lock_try(lock, NULL, &err));
    hf_lease *third = test_take(lock);
    assert_true(test_is_held(server, "by lock", hf_lease_owner_id(first), 3));
    expect(HF_OK, hf_lock_release(lock, NULL, &err)); /* the latest first */
    assert_int_equal(hf_lease_get_state(third), HF_LEASE_RELEASED);
    expect(HF_OK, hf_lock_release(lock, NULL, &err)); /* without a handle */
    assert_int_equal(hf_lease_get_state(first), HF_LEASE_HELD);
    assert_true(test_is_held(server, "by lock", hf_lease_owner_id(first), 1));
    expect(HF_OK, hf_lock_release(lock, NULL, &err));
    assert_int_equal(hf_lease_get_state(first), HF_LEASE_RELEASED);
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    expect(HF_ENOTHELD, hf_lock_release(lock, NULL, &err));
    hf_lease_free(first);
    hf_lease_free(third);
    hf_lock_free(lock);
}

/* ---- by force */

static void test_force_by_another(void **state)
{
    (void)state;
    hf_client_options options = test_watchdog(600);
    hf_client *holder = test_client(srv_url(server), &options);
    test_warm_up(holder);
    hf_lock *mine = test_lock(holder, "forced");
    hf_lock *theirs = test_lock(other, "forced");
    hf_lease *lease = test_take(mine);
    int fd = hf_lease_fd(lease, &err);
    ear *e = ear_of_lock(server, "forced");
    int released = 7;
    expect(HF_OK, hf_lock_force_release(theirs, &released, &err));
    assert_int_equal(released, 1);
    assert_true(ear_hears(e, "0"));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    hf_lease *next = test_take(theirs);
    /* The holder hears of it at its next renewal. */
    assert_true(test_wait_readable(fd));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    assert_int_equal(hf_lease_loss(lease), HF_LOSS_REVOKED);
    expect(HF_ELOST, hf_lease_release(lease, &err));
    assert_true(test_is_held(server, "forced", hf_lease_owner_id(next), 1));
    test_give(next);
    assert_true(ear_hears(e, "0"));
    expect(HF_OK, hf_lock_force_release(theirs, &released, &err));
    assert_int_equal(released, 0); /* there was nothing */
    expect(HF_OK, hf_lock_force_release(theirs, NULL, &err));
    assert_true(ear_heard_all(e, server));
    ear_free(e);
    hf_lease_free(lease);
    hf_lock_free(mine);
    hf_lock_free(theirs);
    hf_client_free(holder);
}

static void test_force_by_the_holder(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "own force");
    hf_lease *first = test_take(lock);
    hf_lease *second = test_take(lock);
    expect(HF_OK, hf_lock_force_release(lock, NULL, &err));
    assert_int_equal(hf_lease_get_state(first), HF_LEASE_LOST); /* at once */
    assert_int_equal(hf_lease_loss(second), HF_LOSS_REVOKED);
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    hf_lease *again = test_take(lock);
    expect(HF_ELOST, hf_lease_release(first, &err));
    hf_lease_free(second);
    assert_true(test_is_held(server, "own force", hf_lease_owner_id(again), 1));
    test_give(again);
    hf_lease_free(first);
    hf_lock_free(lock);
}

/* ---- questions */

static void assert_answers(hf_lock *lock, hf_owner *owner, int locked,
                           int64_t count)
{
    int is_locked = 7;
    int is_held = 7;
    int64_t is_count = 7;
    expect(HF_OK, hf_lock_is_locked(lock, &is_locked, &err));
    expect(HF_OK, hf_lock_is_held_by(lock, owner, &is_held, &err));
    expect(HF_OK, hf_lock_hold_count(lock, owner, &is_count, &err));
    assert_int_equal(is_locked, locked);
    assert_int_equal(is_held, count > 0);
    assert_int_equal(is_count, count);
}

static void assert_remaining(hf_lock *lock, int64_t from, int64_t to)
{
    int64_t left = INT64_MAX;
    expect(HF_OK, hf_lock_remaining_ms(lock, &left, &err));
    assert_true(left >= from && left <= to);
}

static void test_questions(void **state)
{
    (void)state;
    hf_lock *mine = test_lock(client, "asked");
    hf_lock *theirs = test_lock(other, "asked");
    hf_owner *owner = hf_owner_new(client, &err);
    assert_answers(mine, NULL, 0, 0);
    assert_remaining(mine, -2, -2);
    hf_lease *first = test_take(mine);
    hf_lease *second = test_take(mine);
    assert_answers(mine, NULL, 1, 2);
    assert_answers(mine, owner, 1, 0);
    assert_answers(theirs, NULL, 1, 0);
    assert_remaining(theirs, 30000 - TEST_LIMIT_MS, 30000);
    assert_true(srv_cmd_is(server, "1", "PERSIST asked"));
    assert_remaining(theirs, -1, -1);
    test_give(second);
    test_give(first);
    assert_answers(theirs, NULL, 0, 0);
    hf_owner_free(owner);
    hf_lock_free(mine);
    hf_lock_free(theirs);
}

typedef struct seen {
    char *names[8];
    size_t count;
    hf_lock_info last;
    char owner[64];
} seen;

static int note(void *arg, const hf_lock_info *info)
{
    seen *s = arg;
    s->last = *info;
    if (info->owner) {
        (void)snprintf(s->owner, sizeof(s->owner), "%s", info->owner);
    }
    s->names[s->count++ % 8] = test_text("%s", info->name);
    return 0;
}

static void forget(seen *s)
{
    for (size_t i = 0; i < s->count && i < 8; i++) {
        free(s->names[i]);
    }
    *s = (seen){.count = 0};
}

static void test_inspect_and_list(void **state)
{
    (void)state;
    seen s = {.count = 0};
    hf_lock *one = test_lock(client, "list:one");
    hf_lock *two = test_lock(client, "list:two");
    hf_lease *lease = test_take(one);
    hf_lease *again = test_take(one);
    expect(HF_OK, hf_lock_inspect(one, note, &s, &err));
    assert_int_equal(s.count, 1);
    assert_string_equal(s.names[0], "list:one");
    assert_int_equal(s.last.name_length, 8);
    assert_true(s.last.locked);
    assert_int_equal(s.last.hold_count, 2);
    assert_string_equal(s.owner, hf_lease_owner_id(lease));
    assert_in_range(s.last.remaining_ms, 30000 - TEST_LIMIT_MS, 30000);
    forget(&s);
    expect(HF_OK, hf_lock_inspect(two, note, &s, &err));
    assert_int_equal(s.count, 1);
    assert_false(s.last.locked);
    assert_null(s.last.owner);
    assert_int_equal(s.last.remaining_ms, -2);
    forget(&s);
    /* No lock: another type, and a hash that nobody could hold. */
    assert_true(srv_cmd_is(server, "OK", "SET list:string x"));
    assert_true(srv_cmd_is(server, "OK", "SET elsewhere x"));
    expect(HF_OK, hf_client_list_locks(client, "list:*", note, &s, &err));
    assert_int_equal(s.count, 1);
    assert_string_equal(s.names[0], "list:one");
    forget(&s);
    hf_lease *third = test_take(two);
    expect(HF_OK, hf_client_list_locks(client, NULL, note, &s, &err));
    assert_int_equal(s.count, 2);
    forget(&s);
    assert_true(srv_cmd_is(server, "2", "DEL list:string elsewhere"));
    test_give(third);
    test_give(again);
    test_give(lease);
    hf_lock_free(one);
    hf_lock_free(two);
}

/* ---- fixed leases */

static void test_fixed_lease(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "fixed");
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = NULL;
    options.lease_ms = 400;
    assert_true(srv_cmd_is(server, "OK", "CONFIG RESETSTAT"));
    int64_t before = test_now_ms();
    expect(HF_OK, hf_lock_acquire_with(lock, &options, &lease, &err));
    assert_in_range(srv_cmd_int(server, "PTTL fixed"), 0, 400);
    assert_in_range(hf_lease_remaining_ms(lease), 0, 400 - 4 - 2);
    int fd = hf_lease_fd(lease, &err);
    assert_true(test_wait_readable(fd));
    assert_true(test_now_ms() - before >= 400 - 4 - 2 - 1);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    assert_int_equal(hf_lease_loss(lease), HF_LOSS_EXPIRED);
    assert_int_equal(hf_lease_remaining_ms(lease), 0);
    assert_true(srv_cmd_becomes(server, "0", "EXISTS fixed"));
    expect(HF_ELOST, hf_lease_release(lease, &err));
    /* Never renewed: PEXPIRE ran when it was taken and not again. */
    assert_int_equal(test_calls(server, "pexpire"), 1);
    hf_lease_free(lease);
    options.lease_ms = HOUR_MS;
    expect(HF_OK, hf_lock_acquire_with(lock, &options, &lease, &err));
    assert_pttl("fixed", HOUR_MS);
    test_give(lease);
    hf_lock_free(lock);
}

/* ---- owners */

typedef struct borrowed {
    hf_lock *lock;
    hf_owner *owner;
    hf_status status;
    char id[64];
} borrowed;

/* Takes once more, keeps it, and says under which name. */
static void *take_as(void *arg)
{
    borrowed *b = arg;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = NULL;
    options.owner = b->owner;
    b->status = hf_lock_acquire_with(b->lock, &options, &lease, &err);
    if (b->status == HF_OK) {
        (void)snprintf(b->id, sizeof(b->id), "%s", hf_lease_owner_id(lease));
        must(hf_lock_release(b->lock, b->owner, &err) == HF_OK);
        hf_lease_free(lease);
        b->status = hf_lock_acquire_with(b->lock, &options, NULL, &err);
    }
    return NULL;
}

static void test_threads_are_owners(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "threads");
    hf_lease *lease = test_take(lock);
    borrowed b = {.lock = lock};
    test_join(test_thread(take_as, &b));
    assert_int_equal(b.status, HF_NOT_ACQUIRED);
    assert_true(test_is_held(server, "threads", hf_lease_owner_id(lease), 1));
    char mine[64];
    (void)snprintf(mine, sizeof(mine), "%s", hf_lease_owner_id(lease));
    test_give(lease);
    test_join(test_thread(take_as, &b));
    assert_int_equal(b.status, HF_OK);
    assert_owner_id(b.id);
    assert_string_not_equal(b.id, mine);
    assert_memory_equal(b.id, mine, 37); /* one client, one UUID */
    assert_true(test_is_held(server, "threads", b.id, 1));
    expect(HF_ENOTHELD, hf_lock_release(lock, NULL, &err));
    expect(HF_OK, hf_lock_force_release(lock, NULL, &err));
    lease = test_take(lock); /* the same thread, the same name */
    assert_string_equal(hf_lease_owner_id(lease), mine);
    test_give(lease);
    hf_lock_free(lock);
}

static void test_owner_of_several_threads(void **state)
{
    (void)state;
    hf_lock *lock = test_lock(client, "shared");
    hf_owner *owner = hf_owner_new(client, &err);
    hf_owner *second = hf_owner_new(client, &err);
    assert_owner_id(hf_owner_id(owner));
    assert_string_not_equal(hf_owner_id(owner), hf_owner_id(second));
    borrowed b = {.lock = lock, .owner = owner};
    for (int i = 1; i <= 3; i++) {
        test_join(test_thread(take_as, &b));
        assert_int_equal(b.status, HF_OK);
        assert_string_equal(b.id, hf_owner_id(owner));
        assert_true(test_is_held(server, "shared", hf_owner_id(owner), i));
    }
    assert_answers(lock, owner, 1, 3);
    assert_answers(lock, NULL, 1, 0);
    expect(HF_ENOTHELD, hf_lock_release(lock, NULL, &err));
    expect(HF_ENOTHELD, hf_lock_release(lock, second, &err));
    expect(HF_NOT_ACQUIRED, hf_lock_try(lock, NULL, &err));
    for (int i = 0; i < 3; i++) {
        expect(HF_OK, hf_lock_release(lock, owner, &err));
    }
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    hf_owner_free(owner);
    hf_owner_free(second);
    hf_lock_free(lock);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_acquire_and_release),
        FIXTURE_TEST(test_freeing_releases),
        FIXTURE_TEST(test_closing_releases),
        FIXTURE_TEST(test_try),
        FIXTURE_TEST(test_counts),
        FIXTURE_TEST(test_partial_release_rearms),
        FIXTURE_TEST(test_shorter_lease_within),
        FIXTURE_TEST(test_release_by_another),
        FIXTURE_TEST(test_release_by_lock),
        FIXTURE_TEST(test_force_by_another),
        FIXTURE_TEST(test_force_by_the_holder),
        FIXTURE_TEST(test_questions),
        FIXTURE_TEST(test_inspect_and_list),
        FIXTURE_TEST(test_fixed_lease),
        FIXTURE_TEST(test_threads_are_owners),
        FIXTURE_TEST(test_owner_of_several_threads),
    };
    return cmocka_run_group_tests(tests, fixture_usual, fixture_end);
}
