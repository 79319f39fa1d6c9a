/* The simple lock, a string set if it is absent, and its release by a token. */
#include "support/fixture.h"
#include "support/net.h"
#include "support/proxy.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR_MS (INT64_C(3600) * 1000)
#define FOREIGN "5d1f6a52-8f0e-4c0b-9c3e-0b8a7d3e9f11"

static hf_lock *of_kind(hf_client *of, const char *name, hf_kind kind)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = kind;
    hf_lock *lock = hf_lock_open_with(of, name, strlen(name), &options, &err);
    assert_non_null(lock);
    return lock;
}

static hf_lock *simple(hf_client *of, const char *name)
{
    return of_kind(of, name, HF_KIND_SIMPLE);
}

static bool holds(const char *name, const char *token)
{
    return srv_cmd_is(server, token, "GET %s", name);
}

static bool is_free(const char *name)
{
    return srv_cmd_is(server, "0", "EXISTS %s", name);
}

/* ---- taking and giving back */

static void test_acquire_and_release(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = simple(client, name);
    hf_owner *owner = hf_owner_new(client, &err);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = NULL;
    options.owner = owner;
    expect(HF_OK, hf_lock_acquire_with(lock, &options, &lease, &err));
    assert_string_equal(hf_lease_owner_id(lease), hf_owner_id(owner));
    assert_true(holds(name, hf_owner_id(owner)));
    assert_in_range(srv_cmd_int(server, "PTTL %s", name),
                    HOUR_MS - TEST_LIMIT_MS, HOUR_MS);
    assert_true(srv_cmd_is(server, "1", "DBSIZE"));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    assert_int_equal(hf_lease_token(lease), 0);
    expect(HF_OK, hf_lease_release(lease, &err));
    assert_true(is_free(name));
    expect(HF_OK, hf_lease_release(lease, &err)); /* idempotent */
    hf_lease_free(lease);
    expect(HF_ENOTHELD, hf_lock_release(lock, owner, &err));
    hf_owner_free(owner);
    hf_lock_free(lock);
}

/* One plain command to take it, and one to give it back. */
static void test_commands(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = simple(client, name);
    test_give(test_take(lock)); /* the server learns the script */
    test_reset_calls(server);
    hf_lease *lease = test_take(lock);
    assert_int_equal(test_calls(server, "set"), 1);
    assert_int_equal(test_calls(server, "evalsha"), 0);
    test_give(lease);
    assert_int_equal(test_calls(server, "set"), 1);
    assert_int_equal(test_calls(server, "evalsha"), 1);
    assert_int_equal(test_calls(server, "publish"), 0);
    hf_lock_free(lock);
}

static void test_not_reentrant(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = simple(client, name);
    hf_owner *owner = hf_owner_new(client, &err);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = test_take(lock);
    expect(HF_EHELD, hf_lock_try(lock, NULL, &err));
    expect(HF_EHELD, hf_lock_acquire(lock, HF_WAIT_FOREVER, NULL, &err));
    options.owner = owner;
    expect(HF_NOT_ACQUIRED, hf_lock_acquire_with(lock, &options, NULL, &err));
    assert_true(hf_lease_is_held(lease));
    assert_true(holds(name, hf_lease_owner_id(lease)));
    test_give(lease);
    test_give(test_take(lock));
    hf_owner_free(owner);
    hf_lock_free(lock);
}

/* Section 24's own acquire and release, by plain commands. */
static void test_beside_another_program(void **state)
{
    (void)state;
    static const char unlock[] = "local holder = redis.call('get', KEYS[1]) "
                                 "if not holder then return -1 end "
                                 "if holder ~= ARGV[1] then return 0 end "
                                 "return redis.call('del', KEYS[1])";
    const char *name = test_fresh_name();
    hf_lock *lock = simple(client, name);
    hf_lease *lease = NULL;
    assert_true(
        srv_cmd_is(server, "OK", "SET %s " FOREIGN " PX 600000 NX", name));
    expect(HF_NOT_ACQUIRED, hf_lock_try(lock, &lease, &err));
    expect(HF_ENOTHELD, hf_lock_release(lock, NULL, &err));
    assert_true(holds(name, FOREIGN));
    assert_true(srv_cmd_is(server, "1", "EVAL %s 1 %s " FOREIGN, unlock, name));
    lease = test_take(lock);
    assert_true(
        srv_cmd_is(server, "(nil)", "SET %s " FOREIGN " PX 600000 NX", name));
    assert_true(srv_cmd_is(server, "0", "EVAL %s 1 %s " FOREIGN, unlock, name));
    assert_true(holds(name, hf_lease_owner_id(lease)));
    test_give(lease);
    assert_true(
        srv_cmd_is(server, "-1", "EVAL %s 1 %s " FOREIGN, unlock, name));
    hf_lock_free(lock);
}

/* ---- waiting */

/* It asks again and again, and subscribes to nothing. */
static void test_waiting(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *mine = simple(client, name);
    hf_lock *theirs = simple(other, name);
    taker t;
    hf_lease *lease = test_take(mine);
    test_reset_calls(server);
    taker_start(&t, theirs, HF_WAIT_FOREVER, NULL);
    assert_true(test_wait_calls(server, "set", 5));
    assert_int_equal(test_calls(server, "subscribe"), 0);
    assert_true(holds(name, hf_lease_owner_id(lease)));
    test_give(lease);
    taker_join(&t);
    expect(HF_OK, t.status);
    assert_true(holds(name, hf_lease_owner_id(t.lease)));
    test_give(t.lease);
    hf_lock_free(mine);
    hf_lock_free(theirs);
}

static void test_waiting_ends(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *mine = simple(client, name);
    hf_lock *theirs = simple(other, name);
    taker t;
    hf_lease *lease = test_take(mine);
    expect(HF_NOT_ACQUIRED, hf_lock_acquire(theirs, 50, NULL, &err));
    hf_cancel *cancel = hf_cancel_new();
    test_reset_calls(server);
    taker_start(&t, theirs, HF_WAIT_FOREVER, cancel);
    assert_true(test_wait_calls(server, "set", 2));
    hf_cancel_fire(cancel);
    taker_end(&t, HF_CANCELLED);
    assert_true(holds(name, hf_lease_owner_id(lease)));
    test_give(lease);
    assert_true(is_free(name));
    hf_cancel_free(cancel);
    hf_lock_free(mine);
    hf_lock_free(theirs);
}

/* A holder that has gone away: its time is up, and nobody says so. */
static void test_taking_over(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = simple(client, name);
    hf_lease *lease = NULL;
    assert_true(srv_cmd_is(server, "OK", "SET %s " FOREIGN " PX 200 NX", name));
    expect(HF_OK, hf_lock_acquire(lock, HF_WAIT_FOREVER, &lease, &err));
    test_give(lease);
    hf_lock_free(lock);
}

#define THREADS 4
#define ROUNDS 20

typedef struct worker {
    hf_client *client;
    const char *name;
    int *shared; /* changed under the lock only */
} worker;

static void *work_under_lock(void *arg)
{
    const worker *w = arg;
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = HF_KIND_SIMPLE;
    options.backoff_first_ms = 1;
    hf_lock *lock =
        hf_lock_open_with(w->client, w->name, strlen(w->name), &options, &err);
    must(lock != NULL);
    for (int i = 0; i < test_scaled(ROUNDS); i++) {
        hf_lease *lease = NULL;
        must_be(HF_OK, hf_lock_acquire(lock, HF_WAIT_FOREVER, &lease, &err));
        int seen = *w->shared;
        (void)test_pause(INT64_MAX);
        *w->shared = seen + 1;
        test_give(lease);
    }
    hf_lock_free(lock);
    return NULL;
}

static void test_exclusion(void **state)
{
    (void)state;
    int shared = 0;
    const char *name = test_fresh_name();
    worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){i % 2 ? client : other, name, &shared};
        threads[i] = test_thread(work_under_lock, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        test_join(threads[i]);
    }
    assert_int_equal(shared, THREADS * test_scaled(ROUNDS));
}

/* ---- renewal, loss */

/* One renewal for many: what is gone, another's or no string is lost, what is
 * still held goes on. */
static void test_renewal(void **state)
{
    (void)state;
    static const char *const names[] = {"kept", "gone", "taken", "hash"};
    hf_client_options options = test_watchdog(3000);
    hf_client *renewing = test_client(srv_url(server), &options);
    hf_lock *locks[4];
    hf_lease *leases[4];
    for (int i = 0; i < 4; i++) {
        locks[i] = simple(renewing, names[i]);
        leases[i] = test_take(locks[i]);
    }
    assert_true(srv_cmd_is(server, "3", "DEL gone taken hash"));
    assert_true(srv_cmd_is(server, "OK", "SET taken " FOREIGN " PX 3600000"));
    assert_true(srv_cmd_is(server, "1", "HSET hash field value"));
    for (int i = 1; i < 4; i++) {
        int fd = hf_lease_fd(leases[i], &err);
        assert_true(test_wait_readable(fd));
        assert_int_equal(hf_lease_get_state(leases[i]), HF_LEASE_LOST);
        assert_int_equal(hf_lease_loss(leases[i]), HF_LOSS_REVOKED);
        expect(HF_ELOST, hf_lease_release(leases[i], &err));
    }
    assert_true(srv_cmd_is(server, "1", "PEXPIRE kept 2000"));
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    while (srv_cmd_int(server, "PTTL kept") <= 2000) {
        assert_true(test_pause(deadline));
    }
    assert_int_equal(hf_lease_get_state(leases[0]), HF_LEASE_HELD);
    assert_true(holds("taken", FOREIGN));
    assert_in_range(srv_cmd_int(server, "PTTL taken"), HOUR_MS / 2, HOUR_MS);
    assert_true(srv_cmd_is(server, "value", "HGET hash field"));
    expect(HF_OK, hf_lease_release(leases[0], &err));
    assert_true(srv_cmd_is(server, "2", "DEL taken hash"));
    for (int i = 0; i < 4; i++) {
        hf_lease_free(leases[i]);
        hf_lock_free(locks[i]);
    }
    hf_client_free(renewing);
}

/* Compare and delete: what another has by now is not touched. */
static void test_release_of_what_was_lost(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = simple(client, name);
    hf_lease *lease = test_take(lock);
    assert_true(srv_cmd_is(server, "OK", "SET %s " FOREIGN, name));
    expect(HF_ELOST, hf_lease_release(lease, &err));
    assert_true(holds(name, FOREIGN));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    hf_lease_free(lease);
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
    lease = test_take(lock);
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
    expect(HF_ELOST, hf_lease_release(lease, &err));
    hf_lease_free(lease);
    hf_lock_free(lock);
}

static void test_a_fixed_lease_ends(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = simple(client, name);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = NULL;
    options.lease_ms = 300;
    expect(HF_OK, hf_lock_acquire_with(lock, &options, &lease, &err));
    int fd = hf_lease_fd(lease, &err);
    assert_true(test_wait_readable(fd));
    assert_int_equal(hf_lease_loss(lease), HF_LOSS_EXPIRED);
    assert_true(srv_cmd_becomes(server, "0", "EXISTS %s", name));
    hf_lease_free(lease);
    hf_lock_free(lock);
}

/* The reply of a grant is lost: what it may have set is taken back before it
 * is asked for again, or the waiter would wait for itself. */
static void test_a_lost_reply(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    options.command_timeout_ms = 300;
    const char *name = test_fresh_name();
    proxy *net = proxy_start(srv_socket(server));
    hf_client *behind = test_client(proxy_url(net), &options);
    hf_lock *lock = simple(behind, name);
    hf_lease *lease = NULL;
    test_give(test_take(lock));
    test_reset_calls(server);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_DROP_NEXT);
    expect(HF_OK, hf_lock_acquire(lock, TEST_LIMIT_MS, &lease, &err));
    assert_true(proxy_counts(net).dropped[PROXY_TO_CLIENT] > 0);
    assert_true(test_calls(server, "set") >= 2);
    assert_int_equal(test_calls(server, "del"), 1);
    assert_true(holds(name, hf_lease_owner_id(lease)));
    test_give(lease);

    proxy_set(net, PROXY_TO_CLIENT, PROXY_DROP_NEXT);
    expect(HF_EUNREACHABLE, hf_lock_try(lock, NULL, &err));
    assert_true(srv_cmd_becomes(server, "0", "EXISTS %s", name));
    hf_lock_free(lock);
    hf_client_free(behind);
    proxy_stop(net);
}

/* Giving back needs no memory; taking does, and is refused as a whole. */
static void test_out_of_memory(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = simple(client, name);
    hf_lease *lease = test_take(lock);
    assert_true(srv_cmd_is(server, "OK", "CONFIG SET maxmemory 1"));
    hf_status refused = hf_lock_try(lock, NULL, &err);
    hf_status released = hf_lease_release(lease, &err);
    hf_status full = hf_lock_try(lock, NULL, &err);
    assert_true(srv_cmd_is(server, "OK", "CONFIG SET maxmemory 0"));
    assert_int_equal(refused, HF_EHELD);
    assert_int_equal(released, HF_OK);
    assert_int_equal(full, HF_ESERVER);
    assert_non_null(strstr(hf_error_text(&err), "OOM"));
    assert_true(srv_cmd_becomes(server, "0", "EXISTS %s", name));
    hf_lease_free(lease);
    hf_lock_free(lock);
}

/* ---- questions, force */

static void assert_answers(hf_lock *lock, int locked, int held)
{
    int is_locked = 7;
    int is_held = 7;
    int64_t count = 7;
    int64_t remaining = 7;
    expect(HF_OK, hf_lock_is_locked(lock, &is_locked, &err));
    expect(HF_OK, hf_lock_is_held_by(lock, NULL, &is_held, &err));
    expect(HF_OK, hf_lock_hold_count(lock, NULL, &count, &err));
    expect(HF_OK, hf_lock_remaining_ms(lock, &remaining, &err));
    assert_int_equal(is_locked, locked);
    assert_int_equal(is_held, held);
    assert_int_equal(count, held);
    if (locked) {
        assert_in_range(remaining, HOUR_MS - TEST_LIMIT_MS, HOUR_MS);
    } else {
        assert_int_equal(remaining, -2);
    }
}

static void test_questions(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *mine = simple(client, name);
    hf_lock *theirs = simple(other, name);
    int64_t remaining = 7;
    assert_answers(mine, 0, 0);
    hf_lease *lease = test_take(mine);
    assert_answers(mine, 1, 1);
    assert_answers(theirs, 1, 0);
    assert_true(srv_cmd_is(server, "1", "PERSIST %s", name));
    expect(HF_OK, hf_lock_remaining_ms(theirs, &remaining, &err));
    assert_int_equal(remaining, -1);
    test_give(lease);
    assert_answers(theirs, 0, 0);
    hf_lock_free(mine);
    hf_lock_free(theirs);
}

static void test_force(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *mine = simple(client, name);
    hf_lock *theirs = simple(other, name);
    int released = 7;
    expect(HF_OK, hf_lock_force_release(theirs, &released, &err));
    assert_int_equal(released, 0);
    hf_lease *lease = test_take(mine);
    expect(HF_OK, hf_lock_force_release(theirs, &released, &err));
    assert_int_equal(released, 1);
    assert_true(is_free(name));
    hf_lease *next = test_take(theirs);
    expect(HF_ELOST, hf_lease_release(lease, &err));
    assert_true(holds(name, hf_lease_owner_id(next)));
    expect(HF_OK, hf_lock_force_release(theirs, &released, &err));
    assert_int_equal(released, 1);
    assert_int_equal(hf_lease_loss(next), HF_LOSS_REVOKED);
    hf_lease_free(lease);
    hf_lease_free(next);
    hf_lock_free(mine);
    hf_lock_free(theirs);
}

static void test_a_key_of_another_type(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = simple(client, name);
    int number = 7;
    assert_true(srv_cmd_is(server, "1", "HSET %s field 1", name));
    expect(HF_NOT_ACQUIRED, hf_lock_try(lock, NULL, &err));
    expect(HF_EWRONGTYPE, hf_lock_is_locked(lock, &number, &err));
    expect(HF_EWRONGTYPE, hf_lock_force_release(lock, &number, &err));
    expect(HF_EWRONGTYPE,
           hf_simple_release(client, name, FOREIGN, &number, &err));
    assert_int_equal(number, 7);
    assert_true(srv_cmd_is(server, "field 1", "HGETALL %s", name));
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
    hf_lock_free(lock);
}

/* ---- release by token */

static void *take(void *arg)
{
    taker *t = arg;
    t->status = hf_lock_acquire_with(t->lock, &t->options, &t->lease, &t->err);
    return NULL;
}

static int by_token(hf_client *by, const char *name, const char *token)
{
    int result = 7;
    expect(HF_OK, hf_simple_release(by, name, token, &result, &err));
    return result;
}

static void test_release_by_token(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = simple(client, name);
    assert_int_equal(by_token(other, name, FOREIGN), -1);
    hf_lease *lease = test_take(lock);
    char *token = test_text("%s", hf_lease_owner_id(lease));
    char *longer = test_text("%s0", token);
    assert_int_equal(by_token(other, name, FOREIGN), 0);
    assert_int_equal(by_token(other, name, longer), 0);
    assert_true(holds(name, token));
    assert_int_equal(by_token(other, name, token), 1);
    assert_true(is_free(name));
    assert_int_equal(by_token(other, name, token), -1);
    expect(HF_ELOST, hf_lease_release(lease, &err));
    assert_true(
        srv_cmd_is(server, "OK", "SET %s " FOREIGN " PX 600000 NX", name));
    assert_int_equal(by_token(client, name, token), 0);
    assert_true(holds(name, FOREIGN));
    expect(HF_OK, hf_simple_release(client, name, FOREIGN, NULL, &err));
    assert_true(is_free(name));
    hf_lease_free(lease);
    free(longer);
    free(token);
    hf_lock_free(lock);
}

/* A lease of the same client knows that it was released. */
static void test_release_of_an_own_lease_by_token(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = simple(client, name);
    hf_lease *lease = test_take(lock);
    assert_int_equal(by_token(client, name, hf_lease_owner_id(lease)), 1);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_RELEASED);
    assert_true(is_free(name));
    expect(HF_OK, hf_lease_release(lease, &err));
    assert_int_equal(by_token(client, name, hf_lease_owner_id(lease)), -1);
    hf_lease_free(lease);

    /* Taken away behind its back: what another has by now is not touched. */
    lease = test_take(lock);
    assert_true(srv_cmd_is(server, "OK", "SET %s " FOREIGN, name));
    assert_int_equal(by_token(client, name, hf_lease_owner_id(lease)), 0);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
    hf_lease_free(lease);
    hf_lock_free(lock);
}

typedef struct releaser {
    hf_client *client;
    const char *name;
    const char *token;
    int result;
} releaser;

static void *release_by_token(void *arg)
{
    releaser *r = arg;
    must_be(HF_OK,
            hf_simple_release(r->client, r->name, r->token, &r->result, &err));
    return NULL;
}

/* While its owner acquires it: the new lease knows, or is not granted yet. */
static void test_release_by_token_meets_its_acquire(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    char *name = test_text("%s", test_fresh_name());
    proxy *net = proxy_start(srv_socket(server));
    hf_client *behind = test_client(proxy_url(net), &options);
    hf_lock *lock = simple(behind, name);
    hf_owner *owner = hf_owner_new(behind, &err);
    taker t = {.lock = lock};
    releaser r = {behind, name, hf_owner_id(owner), 7};
    test_give(test_take(lock));
    proxy_set(net, PROXY_TO_CLIENT, PROXY_HOLD);
    t.options = (hf_acquire_options)HF_ACQUIRE_OPTIONS_INIT;
    t.options.owner = owner;
    t.thread = test_thread(take, &t);
    assert_true(srv_cmd_becomes(server, hf_owner_id(owner), "GET %s", name));
    pthread_t thread = test_thread(release_by_token, &r);
    for (int i = 0; i < 20; i++) { /* it most likely waits by then */
        (void)test_pause(INT64_MAX);
    }
    assert_true(holds(name, hf_owner_id(owner)));
    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
    taker_join(&t);
    test_join(thread);
    expect(HF_OK, t.status);
    assert_int_equal(r.result, 1);
    assert_int_equal(hf_lease_get_state(t.lease), HF_LEASE_RELEASED);
    assert_true(is_free(name));
    hf_lease_free(t.lease);
    hf_owner_free(owner);
    hf_lock_free(lock);
    hf_client_free(behind);
    proxy_stop(net);
    free(name);
}

static void test_release_by_token_of_nothing(void **state)
{
    (void)state;
    int result = 7;
    expect(HF_EINVAL, hf_simple_release(NULL, "n", "t", &result, &err));
    expect(HF_EINVAL, hf_simple_release(client, NULL, "t", &result, &err));
    expect(HF_EINVAL, hf_simple_release(client, "", "t", &result, &err));
    expect(HF_EINVAL, hf_simple_release(client, "n", NULL, &result, &err));
    expect(HF_EINVAL, hf_simple_release(client, "n", "", &result, &err));
    assert_int_equal(result, 7);
}

/* It is not said again, for by then the lock may be the owner's next one. */
static void test_release_by_token_whose_reply_is_lost(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    options.command_timeout_ms = 300;
    const char *name = test_fresh_name();
    proxy *net = proxy_start(srv_socket(server));
    hf_client *behind = test_client(proxy_url(net), &options);
    int result = 7;
    assert_int_equal(by_token(behind, name, FOREIGN), -1);
    assert_true(srv_cmd_is(server, "OK", "SET %s " FOREIGN, name));
    test_reset_calls(server);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_DROP_NEXT);
    expect(HF_EUNKNOWN,
           hf_simple_release(behind, name, FOREIGN, &result, &err));
    assert_int_equal(result, 7);
    assert_true(is_free(name));
    assert_int_equal(test_calls(server, "evalsha"), 1);
    hf_client_free(behind);
    proxy_stop(net);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_acquire_and_release),
        FIXTURE_TEST(test_commands),
        FIXTURE_TEST(test_not_reentrant),
        FIXTURE_TEST(test_beside_another_program),
        FIXTURE_TEST(test_waiting),
        FIXTURE_TEST(test_waiting_ends),
        FIXTURE_TEST(test_taking_over),
        FIXTURE_TEST(test_exclusion),
        FIXTURE_TEST(test_renewal),
        FIXTURE_TEST(test_release_of_what_was_lost),
        FIXTURE_TEST(test_a_fixed_lease_ends),
        FIXTURE_TEST(test_a_lost_reply),
        FIXTURE_TEST(test_out_of_memory),
        FIXTURE_TEST(test_questions),
        FIXTURE_TEST(test_force),
        FIXTURE_TEST(test_a_key_of_another_type),
        FIXTURE_TEST(test_release_by_token),
        FIXTURE_TEST(test_release_of_an_own_lease_by_token),
        FIXTURE_TEST(test_release_by_token_meets_its_acquire),
        FIXTURE_TEST(test_release_by_token_of_nothing),
        FIXTURE_TEST(test_release_by_token_whose_reply_is_lost),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, fixture_patient, fixture_end);
}
