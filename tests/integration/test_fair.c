/* The fair lock as callers see it. But where a test says so, the clients poll
 * once an hour and their leases last as long: what happens within a test's life
 * is a message's doing. */
#include "support/ear.h"
#include "support/fixture.h"
#include "support/net.h"
#include "support/proxy.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WAITERS 8
#define ROUNDS 20

/* ---- locks and queues */

static hf_lock *open_fair(hf_client *of, const char *name, hf_kind kind,
                          int64_t fair_wait_ms)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = kind;
    options.fair_wait_ms = fair_wait_ms;
    hf_lock *lock = hf_lock_open_with(of, name, strlen(name), &options, &err);
    must(lock != NULL);
    return lock;
}

static hf_lock *fair(hf_client *of, const char *name)
{
    return open_fair(of, name, HF_KIND_FAIR, 0);
}

static void warm_up(hf_client *of)
{
    hf_lock *lock = fair(of, "warm-up");
    test_give(test_take(lock));
    hf_lock_free(lock);
}

static int setup(void **state)
{
    (void)fixture_patient(state);
    warm_up(client);
    warm_up(other);
    return 0;
}

/* One holds it, and the other may wait for it. */
typedef struct pair {
    const char *name;
    hf_lock *held;
    hf_lock *wanted;
    hf_lease *lease;
} pair;

static pair pair_open(void)
{
    pair p = {.name = test_fresh_name()};
    p.held = fair(other, p.name);
    p.wanted = fair(client, p.name);
    p.lease = test_take(p.held);
    test_reset_calls(server);
    return p;
}

static void pair_free(pair *p)
{
    hf_lock_free(p->held);
    hf_lock_free(p->wanted);
}

static bool queue_becomes(const char *name, int length)
{
    char *expected = test_text("%d", length);
    bool reached = srv_cmd_becomes(server, expected,
                                   "LLEN redisson_lock_queue:{%s}", name);
    free(expected);
    return reached;
}

/* Starts the waiters one behind the other, since the calls were reset; returns
 * when each has tried before and after its SUBSCRIBE. */
static void line_up(pair *p, taker *waiters, int count, int64_t wait_ms,
                    hf_cancel *cancel)
{
    for (int i = 0; i < count; i++) {
        taker_start(&waiters[i], p->wanted, wait_ms, cancel);
        assert_true(queue_becomes(p->name, i + 1));
    }
    assert_true(test_wait_calls(server, "subscribe", count));
    assert_true(test_wait_calls(server, "evalsha", 2LL * count));
}

/* The id of the n-th in the queue. */
static char *queued(const char *name, int n)
{
    return srv_cmd(server, "LINDEX redisson_lock_queue:{%s} %d", name, n);
}

/* ---- the order */

typedef struct place {
    hf_lock *lock;
    _Atomic int *turn;
    int64_t lease_ms;
    int number;
    bool forgets; /* to release */
} place;

static void *pass(void *arg)
{
    const place *p = arg;
    hf_lease *lease = NULL;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = HF_WAIT_FOREVER;
    options.lease_ms = p->lease_ms;
    must_be(HF_OK, hf_lock_acquire_with(p->lock, &options, &lease, &err));
    must(atomic_fetch_add(p->turn, 1) == p->number);
    if (!p->forgets) {
        must_be(HF_OK, hf_lease_release(lease, &err));
    } else {
        while (hf_lease_is_held(lease)) {
            (void)test_pause(INT64_MAX);
        }
    }
    hf_lease_free(lease);
    return NULL;
}

static void pass_in_order(int count, int64_t lease_ms, bool forgets)
{
    _Atomic int turn = 0;
    place places[WAITERS];
    pthread_t threads[WAITERS];
    pair p = pair_open();
    for (int i = 0; i < count; i++) {
        places[i] = (place){.lock = i % 3 ? p.wanted : p.held,
                            .lease_ms = lease_ms,
                            .number = i,
                            .turn = &turn,
                            .forgets = forgets};
        threads[i] = test_thread(pass, &places[i]);
        assert_true(queue_becomes(p.name, i + 1));
    }
    assert_int_equal(atomic_load(&turn), 0);
    test_give(p.lease);
    for (int i = 0; i < count; i++) {
        test_join(threads[i]);
    }
    assert_int_equal(atomic_load(&turn), count);
    assert_true(srv_cmd_becomes(server, "0", "DBSIZE"));
    pair_free(&p);
}

/* Two clients' threads, in the order of their arrival. */
static void test_in_order(void **state)
{
    (void)state;
    pass_in_order(WAITERS, 0, false);
}

/* Nobody releases: no message comes, and each lease ends by itself. */
static void test_in_order_after_leases(void **state)
{
    (void)state;
    pass_in_order(4, 1000, true);
}

/* A message concerns one waiter, and no other tries. */
static void test_handed_on_to_one(void **state)
{
    (void)state;
    taker waiters[3];
    pair p = pair_open();
    line_up(&p, waiters, 3, HF_WAIT_FOREVER, NULL);
    for (int i = 0; i < 3; i++) {
        test_reset_calls(server);
        test_give(i == 0 ? p.lease : waiters[i - 1].lease);
        taker_join(&waiters[i]);
        assert_int_equal(waiters[i].status, HF_OK);
        assert_true(test_is_held(server, p.name,
                                 hf_lease_owner_id(waiters[i].lease), 1));
        assert_int_equal(test_calls(server, "evalsha"), 2);
        assert_int_equal(test_calls(server, "publish"), 1);
    }
    test_give(waiters[2].lease);
    pair_free(&p);
}

/* Who comes without waiting overtakes nobody. */
static void test_single_try_does_not_overtake(void **state)
{
    (void)state;
    pair p = pair_open();
    expect(HF_NOT_ACQUIRED, hf_lock_try(p.wanted, NULL, &err));
    assert_int_equal(srv_cmd_int(server, "DBSIZE"), 1);
    /* A waiter of another program's, which has been told and is slow. */
    int64_t late = (int64_t)4102444800000; /* 2100-01-01 */
    assert_true(
        srv_cmd_is(server, "1", "RPUSH redisson_lock_queue:{%s} J:1", p.name));
    assert_true(srv_cmd_is(server, "1",
                           "ZADD redisson_lock_timeout:{%s} %lld J:1", p.name,
                           (long long)late));
    test_give(p.lease);
    expect(HF_NOT_ACQUIRED, hf_lock_try(p.wanted, NULL, &err));
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", p.name));
    assert_true(srv_cmd_is(server, "2",
                           "DEL redisson_lock_queue:{%s} "
                           "redisson_lock_timeout:{%s}",
                           p.name, p.name));
    test_give(test_take(p.wanted));
    pair_free(&p);
}

/* ---- giving up */

/* Its time is over: it leaves nothing, and those behind have their turn. */
static void test_time_is_over(void **state)
{
    (void)state;
    taker behind;
    pair p = pair_open();
    hf_lock *third = fair(other, p.name);
    taker_start(&behind, p.wanted, 1, NULL);
    taker_end(&behind, HF_NOT_ACQUIRED);
    assert_true(queue_becomes(p.name, 0));
    assert_true(srv_cmd_becomes(server, "1", "DBSIZE"));
    taker first;
    test_reset_calls(server);
    taker_start(&first, third, 300, NULL);
    assert_true(test_wait_calls(server, "rpush", 1));
    taker_start(&behind, p.wanted, HF_WAIT_FOREVER, NULL);
    taker_end(&first, HF_NOT_ACQUIRED);
    assert_true(queue_becomes(p.name, 1));
    test_give(p.lease);
    taker_end(&behind, HF_OK);
    hf_lock_free(third);
    pair_free(&p);
}

static void test_cancelled(void **state)
{
    (void)state;
    taker first;
    taker second;
    pair p = pair_open();
    hf_cancel *cancel = hf_cancel_new();
    taker_start(&first, p.wanted, HF_WAIT_FOREVER, cancel);
    assert_true(queue_becomes(p.name, 1));
    taker_start(&second, p.wanted, HF_WAIT_FOREVER, NULL);
    assert_true(queue_becomes(p.name, 2));
    char *id = queued(p.name, 1);
    hf_cancel_fire(cancel);
    taker_end(&first, HF_CANCELLED);
    assert_true(queue_becomes(p.name, 1));
    assert_true(
        srv_cmd_is(server, id, "LINDEX redisson_lock_queue:{%s} 0", p.name));
    test_give(p.lease);
    taker_end(&second, HF_OK);
    free(id);
    hf_cancel_free(cancel);
    pair_free(&p);
}

/* The server executes nothing for a while, neither the waiter's acquire nor its
 * taking leave; it leaves nothing all the same. */
static void test_time_is_over_on_a_paused_server(void **state)
{
    (void)state;
    taker parked;
    taker fresh;
    pair p = pair_open();
    line_up(&p, &parked, 1, 4000, NULL);
    assert_true(srv_cmd_is(server, "OK", "CLIENT PAUSE 3600000 WRITE"));
    taker_start(&fresh, p.wanted, 300, NULL);
    taker_join(&fresh);
    taker_join(&parked);
    assert_int_equal(parked.status, HF_NOT_ACQUIRED);
    assert_int_not_equal(fresh.status, HF_OK);
    assert_true(
        srv_cmd_is(server, "1", "LLEN redisson_lock_queue:{%s}", p.name));
    assert_true(srv_cmd_is(server, "OK", "CLIENT UNPAUSE"));
    assert_true(srv_cmd_becomes(server, "1", "DBSIZE"));
    test_give(p.lease);
    test_give(test_take(p.wanted)); /* whoever has given up is not in the way */
    pair_free(&p);
}

/* ---- the dead, and the living */

_Noreturn static void wait_in_child(const char *name)
{
    hf_client_options options = test_patient();
    hf_client *own = test_client(srv_url(server), &options);
    hf_lock *lock = open_fair(own, name, HF_KIND_FAIR, 1000);
    (void)hf_lock_acquire(lock, HF_WAIT_FOREVER, NULL, &err);
    _exit(1);
}

/* The first in the queue is killed. The next one gets the lock when the dead
 * one's time is over, and asks no more often than it must. */
static void test_killed_waiter(void **state)
{
    (void)state;
    taker next;
    const char *name = test_fresh_name();
    hf_client_options options = test_watchdog(3000);
    hf_client *brief = test_client(srv_url(server), &options);
    hf_lock *held = fair(brief, name);
    hf_lock *wanted = fair(client, name);
    hf_lease *lease = test_take(held);
    pid_t child = fork();
    if (child == 0) {
        wait_in_child(name);
    }
    assert_true(queue_becomes(name, 1));
    (void)kill(child, SIGKILL);
    assert_int_equal(test_reap(child), 128 + SIGKILL);
    test_reset_calls(server);
    taker_start(&next, wanted, HF_WAIT_FOREVER, NULL);
    assert_true(queue_becomes(name, 2));
    test_give(lease);
    taker_end(&next, HF_OK);
    /* Its tries: two at once, one when the dead one's time is over; and
     * renewals, releases. */
    assert_in_range(test_calls(server, "evalsha"), 4, 40);
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    hf_lock_free(held);
    hf_lock_free(wanted);
    hf_client_free(brief);
}

/* A hold that lasts as long as a waiter is believed to live: who goes on asking
 * is believed to live longer, and keeps its place. */
static void test_long_hold(void **state)
{
    (void)state;
    _Atomic int turn = 0;
    place places[3];
    pthread_t threads[3];
    const char *name = test_fresh_name();
    hf_client_options options = test_watchdog(2000);
    hf_client *brief = test_client(srv_url(server), &options);
    hf_lock *held = fair(brief, name);
    hf_lock *wanted = open_fair(client, name, HF_KIND_FAIR, 4000);
    hf_lease *lease = test_take(held);
    test_reset_calls(server);
    for (int i = 0; i < 3; i++) {
        places[i] = (place){.lock = wanted, .number = i, .turn = &turn};
        threads[i] = test_thread(pass, &places[i]);
        assert_true(queue_becomes(name, i + 1));
    }
    char *first = queued(name, 0);
    long long begun = srv_cmd_int(
        server, "ZSCORE redisson_lock_timeout:{%s} %s", name, first);
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    while (srv_cmd_int(server, "ZSCORE redisson_lock_timeout:{%s} %s", name,
                       first) < begun + 3000) {
        must(test_pause(deadline));
    }
    assert_int_equal(test_calls(server, "rpush"), 3);
    assert_int_equal(test_calls(server, "lpop"), 0);
    test_give(lease);
    for (int i = 0; i < 3; i++) {
        test_join(threads[i]);
    }
    free(first);
    hf_lock_free(held);
    hf_lock_free(wanted);
    hf_client_free(brief);
}

/* A waiter whose connections are cut goes on waiting. */
static void test_cut_waiter(void **state)
{
    (void)state;
    taker t;
    hf_client_options options = test_patient();
    options.poll_cap_ms = 200;
    proxy *net = proxy_start(srv_socket(server));
    hf_client *far = test_client(proxy_url(net), &options);
    pair p = pair_open();
    hf_lock *wanted = fair(far, p.name);
    taker_start(&t, wanted, HF_WAIT_FOREVER, NULL);
    assert_true(queue_becomes(p.name, 1));
    for (int i = 0; i < 3; i++) {
        test_reset_calls(server);
        proxy_reset(net);
        assert_true(test_wait_calls(server, "subscribe", 1));
        assert_true(test_wait_calls(server, "evalsha", 1));
    }
    assert_true(queue_becomes(p.name, 1));
    test_give(p.lease);
    taker_end(&t, HF_OK);
    assert_true(srv_cmd_becomes(server, "0", "DBSIZE"));
    hf_lock_free(wanted);
    hf_client_free(far);
    proxy_stop(net);
    pair_free(&p);
}

/* ---- beside Redisson: what it says is said here by hand */

static void test_told_by_redisson(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    hf_lock *wanted = fair(client, name);
    assert_true(srv_cmd_is(server, "1", "HSET %s J:1 1", name));
    assert_true(srv_cmd_is(server, "1", "PEXPIRE %s 3600000", name));
    taker_park(server, &t, wanted, HF_WAIT_FOREVER, NULL);
    char *id = queued(name, 0);
    char *channel = test_text("redisson_lock__channel:{%s}:%s", name, id);
    char *subscribed = test_text("%s 1", channel);
    assert_true(srv_cmd_is(server, subscribed, "PUBSUB NUMSUB %s", channel));
    assert_true(
        srv_cmd_is(server, "0", "PUBLISH redisson_lock__channel:{%s} 0", name));
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
    assert_true(srv_cmd_is(server, "1", "PUBLISH %s 0", channel));
    taker_join(&t);
    assert_int_equal(t.status, HF_OK);
    assert_true(test_is_held(server, name, id, 1));
    test_give(t.lease);
    free(subscribed);
    free(channel);
    free(id);
    hf_lock_free(wanted);
}

static void test_tells_redisson(void **state)
{
    (void)state;
    taker t;
    pair p = pair_open();
    char *channel = test_text("redisson_lock__channel:{%s}:J:1", p.name);
    ear *e = ear_subscribe(server, channel, strlen(channel));
    assert_true(
        srv_cmd_is(server, "1", "RPUSH redisson_lock_queue:{%s} J:1", p.name));
    assert_true(srv_cmd_is(server, "1",
                           "ZADD redisson_lock_timeout:{%s} 4102444800000 J:1",
                           p.name));
    taker_park(server, &t, p.wanted, HF_WAIT_FOREVER, NULL);
    test_give(p.lease);
    assert_true(ear_hears(e, "0"));
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", p.name));
    /* It takes and releases. */
    assert_true(
        srv_cmd_is(server, "J:1", "LPOP redisson_lock_queue:{%s}", p.name));
    assert_true(
        srv_cmd_is(server, "1", "ZREM redisson_lock_timeout:{%s} J:1", p.name));
    char *id = queued(p.name, 0);
    assert_true(srv_cmd_is(
        server, "1", "PUBLISH redisson_lock__channel:{%s}:%s 0", p.name, id));
    taker_end(&t, HF_OK);
    assert_true(ear_heard_all(e, server));
    free(id);
    free(channel);
    ear_free(e);
    pair_free(&p);
}

/* ---- who has it */

static void assert_count(hf_lock *lock, int64_t expected)
{
    int held = 7;
    int64_t count = -1;
    expect(HF_OK, hf_lock_hold_count(lock, NULL, &count, &err));
    expect(HF_OK, hf_lock_is_held_by(lock, NULL, &held, &err));
    assert_int_equal(count, expected);
    assert_int_equal(held, expected > 0);
}

static void *try_in_vain(void *arg)
{
    hf_lock *lock = arg;
    int yes = 7;
    must_be(HF_NOT_ACQUIRED, hf_lock_try(lock, NULL, &err));
    must_be(HF_ENOTHELD, hf_lock_release(lock, NULL, &err));
    must_be(HF_OK, hf_lock_is_held_by(lock, NULL, &yes, &err));
    must(yes == 0);
    must_be(HF_OK, hf_lock_is_locked(lock, &yes, &err));
    must(yes == 1);
    return NULL;
}

static void test_hold_counts(void **state)
{
    (void)state;
    int locked = 7;
    int64_t remaining = 0;
    hf_lock *lock = fair(client, test_fresh_name());
    assert_count(lock, 0);
    expect(HF_OK, hf_lock_acquire(lock, HF_WAIT_FOREVER, NULL, &err));
    expect(HF_OK, hf_lock_acquire(lock, 1000, NULL, &err));
    expect(HF_OK, hf_lock_try(lock, NULL, &err));
    for (int count = 3; count > 0; count--) {
        assert_count(lock, count);
        test_join(test_thread(try_in_vain, lock));
        expect(HF_OK, hf_lock_remaining_ms(lock, &remaining, &err));
        assert_true(remaining > 0);
        expect(HF_OK, hf_lock_release(lock, NULL, &err));
    }
    assert_count(lock, 0);
    expect(HF_ENOTHELD, hf_lock_release(lock, NULL, &err));
    expect(HF_OK, hf_lock_is_locked(lock, &locked, &err));
    assert_int_equal(locked, 0);
    expect(HF_OK, hf_lock_remaining_ms(lock, &remaining, &err));
    assert_int_equal(remaining, -2);
    hf_lock_free(lock);
}

static void test_two_commands_a_pair(void **state)
{
    (void)state;
    hf_lock *lock = fair(client, test_fresh_name());
    static const int64_t waits[] = {0, 1000, HF_WAIT_FOREVER};
    test_give(test_take(lock));
    test_reset_calls(server);
    for (int i = 0; i < ROUNDS; i++) {
        expect(HF_OK, hf_lock_acquire(lock, waits[i % 3], NULL, &err));
        expect(HF_OK, hf_lock_release(lock, NULL, &err));
    }
    assert_int_equal(test_calls(server, "evalsha"), 2 * ROUNDS);
    assert_int_equal(test_calls(server, "subscribe"), 0);
    assert_int_equal(test_calls(server, "zscore"), 0);
    hf_lock_free(lock);
}

static void test_renewed(void **state)
{
    (void)state;
    hf_client_options options = test_watchdog(3000);
    hf_client *brief = test_client(srv_url(server), &options);
    hf_lock *lock = fair(brief, test_fresh_name());
    hf_lease *lease = test_take(lock);
    test_reset_calls(server);
    assert_true(test_wait_calls(server, "pexpire", 3));
    assert_true(hf_lease_is_held(lease));
    test_give(lease);
    hf_lock_free(lock);
    hf_client_free(brief);
}

/* What it had is the next one's, and its lease is lost. */
static void test_force(void **state)
{
    (void)state;
    taker t;
    int released = 7;
    pair p = pair_open();
    taker_park(server, &t, p.wanted, HF_WAIT_FOREVER, NULL);
    expect(HF_OK, hf_lock_force_release(p.wanted, &released, &err));
    assert_int_equal(released, 1);
    taker_join(&t);
    assert_int_equal(t.status, HF_OK);
    expect(HF_ELOST, hf_lease_release(p.lease, &err));
    assert_true(hf_lease_is_held(t.lease));
    test_give(t.lease);
    expect(HF_OK, hf_lock_force_release(p.held, &released, &err));
    assert_int_equal(released, 0);
    hf_lease_free(p.lease);
    pair_free(&p);
}

/* ---- the kind that its owner cannot take twice */

static void test_not_twice(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    hf_lock *lock = open_fair(client, name, HF_KIND_FAIR_NON_REENTRANT, 0);
    hf_lock *theirs = fair(other, name); /* the same lock */
    hf_lease *lease = test_take(lock);
    expect(HF_EHELD, hf_lock_try(lock, NULL, &err));
    expect(HF_EHELD, hf_lock_acquire(lock, HF_WAIT_FOREVER, NULL, &err));
    assert_true(test_is_held(server, name, hf_lease_owner_id(lease), 1));
    char *entry = test_text("%s", hf_lease_owner_id(lease));
    taker_start(&t, lock, HF_WAIT_FOREVER, NULL); /* another thread waits */
    assert_true(queue_becomes(name, 1));
    test_give(lease);
    taker_join(&t);
    assert_int_equal(t.status, HF_OK);
    expect(HF_NOT_ACQUIRED, hf_lock_try(theirs, NULL, &err));
    test_give(t.lease);
    lease = test_take(theirs);
    expect(HF_NOT_ACQUIRED, hf_lock_acquire(lock, 1, NULL, &err));
    assert_true(queue_becomes(name, 0));
    test_give(lease);
    test_give(test_take(lock));
    /* The server knows that it has it, and it does not. */
    assert_true(srv_cmd_is(server, "1", "HSET %s %s 1", name, entry));
    expect(HF_EHELD, hf_lock_try(lock, NULL, &err));
    assert_true(test_is_held(server, name, entry, 1));
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
    free(entry);
    hf_lock_free(lock);
    hf_lock_free(theirs);
}

/* ---- many */

typedef struct crowd {
    hf_lock *lock;
    _Atomic int *inside;
    int *passed; /* guarded by the lock */
} crowd;

/* Long enough for another to come in, if it could. */
static void stay(hf_lock *lock)
{
    int held = 7;
    must_be(HF_OK, hf_lock_is_held_by(lock, NULL, &held, &err));
    must(held == 1);
}

static void *pass_often(void *arg)
{
    const crowd *c = arg;
    for (int i = 0; i < ROUNDS; i++) {
        must_be(HF_OK, hf_lock_acquire(c->lock, HF_WAIT_FOREVER, NULL, &err));
        must(atomic_fetch_add(c->inside, 1) == 0);
        ++*c->passed;
        stay(c->lock);
        must(atomic_fetch_sub(c->inside, 1) == 1);
        must_be(HF_OK, hf_lock_release(c->lock, NULL, &err));
    }
    return NULL;
}

static void test_many(void **state)
{
    (void)state;
    _Atomic int inside = 0;
    int passed = 0;
    crowd crowds[2];
    pthread_t threads[WAITERS];
    const char *name = test_fresh_name();
    for (int i = 0; i < 2; i++) {
        crowds[i] = (crowd){.lock = fair(i ? client : other, name),
                            .inside = &inside,
                            .passed = &passed};
    }
    for (int i = 0; i < WAITERS; i++) {
        threads[i] = test_thread(pass_often, &crowds[i % 2]);
    }
    for (int i = 0; i < WAITERS; i++) {
        test_join(threads[i]);
    }
    assert_int_equal(passed, WAITERS * ROUNDS);
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    hf_lock_free(crowds[0].lock);
    hf_lock_free(crowds[1].lock);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_in_order),
        FIXTURE_TEST(test_in_order_after_leases),
        FIXTURE_TEST(test_handed_on_to_one),
        FIXTURE_TEST(test_single_try_does_not_overtake),
        FIXTURE_TEST(test_time_is_over),
        FIXTURE_TEST(test_cancelled),
        FIXTURE_TEST(test_time_is_over_on_a_paused_server),
        FIXTURE_TEST(test_killed_waiter),
        FIXTURE_TEST(test_long_hold),
        FIXTURE_TEST(test_cut_waiter),
        FIXTURE_TEST(test_told_by_redisson),
        FIXTURE_TEST(test_tells_redisson),
        FIXTURE_TEST(test_hold_counts),
        FIXTURE_TEST(test_two_commands_a_pair),
        FIXTURE_TEST(test_renewed),
        FIXTURE_TEST(test_force),
        FIXTURE_TEST(test_not_twice),
        FIXTURE_TEST(test_many),
    };
    return cmocka_run_group_tests(tests, setup, fixture_end);
}
