/* The read/write lock as callers see it. But where a test says so, the clients
 * poll once an hour and their leases last as long: what happens within a test's
 * life is a message's doing. */
#include "integration/rw_side.h"
#include "support/net.h"

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

#define THREADS 8

/* ---- who excludes whom */

static void test_many_readers(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    rw mine = rw_open(client, name);
    rw theirs = rw_open(other, name);
    int released = 7;
    expect(HF_OK, hf_lock_force_release(mine.read, &released, &err));
    assert_int_equal(released, 0);
    hf_lease *first = test_take(mine.read);
    hf_lease *second = test_take(theirs.read);
    assert_string_not_equal(hf_lease_owner_id(first),
                            hf_lease_owner_id(second));
    assert_taken(mine.write);
    assert_taken(theirs.write);
    test_give(first);
    assert_count(mine.read, 0);
    assert_locked(mine.read, 1);
    assert_taken(mine.write);
    test_give(second);
    assert_locked(mine.read, 0);
    hf_lease *alone = test_take(mine.write);
    assert_non_null(strstr(hf_lease_owner_id(alone), ":write"));
    assert_count(mine.write, 1);
    assert_taken(theirs.read);
    assert_taken(theirs.write);
    test_give(alone);
    assert_locked(mine.write, 0);
    rw_free(mine);
    rw_free(theirs);
}

/* Each thread is another owner, of one handle. */
static void *try_both(void *arg)
{
    const rw *lock = arg;
    int held = 7;
    must_be(HF_NOT_ACQUIRED, hf_lock_try(lock->read, NULL, &err));
    must_be(HF_NOT_ACQUIRED, hf_lock_try(lock->write, NULL, &err));
    must_be(HF_ENOTHELD, hf_lock_release(lock->write, NULL, &err));
    must_be(HF_OK, hf_lock_is_held_by(lock->write, NULL, &held, &err));
    must(held == 0);
    must_be(HF_OK, hf_lock_is_locked(lock->write, &held, &err));
    must(held == 1);
    return NULL;
}

static void *read_once(void *arg)
{
    const rw *lock = arg;
    must_be(HF_ENOTHELD, hf_lock_release(lock->read, NULL, &err));
    test_give(test_take(lock->read));
    must_be(HF_NOT_ACQUIRED, hf_lock_try(lock->write, NULL, &err));
    return NULL;
}

static void test_threads_are_owners(void **state)
{
    (void)state;
    rw lock = rw_open(client, test_fresh_name());
    hf_lease *writes = test_take(lock.write);
    hf_lease *again = test_take(lock.write);
    assert_count(lock.write, 2);
    test_join(test_thread(try_both, &lock));
    test_give(writes);
    assert_count(lock.write, 1);
    test_join(test_thread(try_both, &lock));
    test_give(again);
    hf_lease *reads = test_take(lock.read);
    test_join(test_thread(read_once, &lock));
    test_give(reads);
    rw_free(lock);
}

static void test_hold_counts(void **state)
{
    (void)state;
    rw lock = rw_open(client, test_fresh_name());
    hf_lock *const sides[] = {lock.read, lock.write};
    for (int i = 0; i < 2; i++) {
        hf_lease *leases[3];
        assert_count(sides[i], 0);
        for (int n = 0; n < 3; n++) {
            leases[n] = test_take(sides[i]);
            assert_count(sides[i], n + 1);
        }
        test_give(leases[1]); /* in any order */
        assert_count(sides[i], 2);
        test_give(leases[0]);
        assert_count(sides[i], 1);
        assert_true(hf_lease_is_held(leases[2]));
        test_give(leases[2]);
        assert_count(sides[i], 0);
        expect(HF_ENOTHELD, hf_lock_release(sides[i], NULL, &err));
        /* Without a handle on the lease. */
        expect(HF_OK, hf_lock_try(sides[i], NULL, &err));
        expect(HF_OK, hf_lock_release(sides[i], NULL, &err));
        assert_locked(sides[i], 0);
    }
    rw_free(lock);
}

/* ---- one owner on both sides */

static void test_writer_reads(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    rw mine = rw_open(client, name);
    rw theirs = rw_open(other, name);
    hf_lease *writes = test_take(mine.write);
    assert_locked(mine.read, 0);
    hf_lease *reads = test_take(mine.read);
    assert_locked(mine.read, 1);
    assert_locked(mine.write, 1);
    assert_taken(theirs.read);
    test_give(reads);
    assert_locked(mine.read, 0);
    assert_locked(mine.write, 1);
    assert_count(mine.write, 1);
    assert_taken(theirs.read);
    test_give(writes);
    assert_locked(mine.write, 0);
    rw_free(mine);
    rw_free(theirs);
}

/* Writing, reading, and then reading only: whoever waits to read comes in at
 * once. Defect 5 of wire-protocol 23. */
static void test_downgrade_lets_readers_in(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    rw mine = rw_open(client, name);
    rw theirs = rw_open(other, name);
    hf_lease *writes = test_take(mine.write);
    hf_lease *reads = test_take(mine.read);
    taker_park(server, &t, theirs.read, HF_WAIT_FOREVER, NULL);
    test_give(writes);
    taker_end(&t, HF_OK);
    assert_count(mine.read, 1);
    assert_count(mine.write, 0);
    assert_taken(mine.write); /* there is no way back */
    assert_taken(theirs.write);
    test_give(reads);
    test_give(test_take(mine.write));
    rw_free(mine);
    rw_free(theirs);
}

/* A reader that wants to write waits, for itself too. */
static void test_no_upgrade(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    rw lock = rw_open(client, name);
    hf_lease *reads = test_take(lock.read);
    expect(HF_NOT_ACQUIRED, hf_lock_acquire(lock.write, 200, NULL, &err));
    assert_true(hf_lease_is_held(reads));
    assert_count(lock.read, 1);
    assert_count(lock.write, 0);
    test_give(reads);
    assert_true(
        srv_cmd_becomes(server, "0", "EXISTS {%s}:holdfast_writer", name));
    test_give(test_take(lock.write));
    rw_free(lock);
}

/* ---- force */

static void force(hf_lock *lock, int expected)
{
    int released = 7;
    expect(HF_OK, hf_lock_force_release(lock, &released, &err));
    assert_int_equal(released, expected);
}

static void test_force(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    rw mine = rw_open(client, name);
    rw theirs = rw_open(other, name);
    hf_lease *reads = test_take(mine.read);
    force(theirs.write, 0);
    assert_locked(mine.read, 1);
    force(theirs.read, 1);
    assert_locked(mine.read, 0);
    expect(HF_ELOST, hf_lease_release(reads, &err));
    hf_lease *writes = test_take(mine.write);
    force(theirs.read, 0);
    assert_locked(mine.write, 1);
    force(mine.write, 1); /* one's own is known to be lost at once */
    assert_int_equal(hf_lease_get_state(writes), HF_LEASE_LOST);
    assert_locked(mine.write, 0);
    hf_lease_free(reads);
    hf_lease_free(writes);
    rw_free(mine);
    rw_free(theirs);
}

/* ---- waiting */

static void test_last_reader_wakes_a_writer(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    rw mine = rw_open(client, name);
    rw theirs = rw_open(other, name);
    hf_lease *first = test_take(mine.read);
    hf_owner *owner = hf_owner_new(client, &err);
    hf_lease *second = take_as(mine.read, owner, 0);
    taker_park(server, &t, theirs.write, HF_WAIT_FOREVER, NULL);
    test_give(first);
    assert_locked(mine.read, 1);
    test_give(second);
    taker_end(&t, HF_OK);
    hf_owner_free(owner);
    rw_free(mine);
    rw_free(theirs);
}

typedef struct crowd {
    hf_lock *lock;
    pthread_barrier_t *together;
} crowd;

/* Leaves only when all are in. */
static void *read_together(void *arg)
{
    const crowd *c = arg;
    hf_lease *lease = NULL;
    must_be(HF_OK, hf_lock_acquire(c->lock, HF_WAIT_FOREVER, &lease, &err));
    (void)pthread_barrier_wait(c->together);
    test_give(lease);
    return NULL;
}

/* Readers of two programs wait for a writer, and come in all at once when it
 * has given its lease back or, without one, has died. */
static void crowd_reads_after(const char *name, hf_lease *writes)
{
    pthread_t threads[THREADS];
    pthread_barrier_t together;
    rw mine = rw_open(client, name);
    rw theirs = rw_open(other, name);
    crowd crowds[] = {{mine.read, &together}, {theirs.read, &together}};
    (void)pthread_barrier_init(&together, NULL, THREADS);
    test_reset_calls(server);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = test_thread(read_together, &crowds[i % 2]);
    }
    if (writes) {
        assert_true(test_wait_calls(server, "evalsha", THREADS));
        test_give(writes);
    }
    for (int i = 0; i < THREADS; i++) {
        test_join(threads[i]);
    }
    (void)pthread_barrier_destroy(&together);
    rw_free(mine);
    rw_free(theirs);
}

/* Many times over, for the release may come at any moment of their first tries
 * and of the subscription: none may miss it. */
static void test_readers_come_in_together(void **state)
{
    (void)state;
    for (int i = 0; i < test_scaled(40); i++) {
        const char *name = test_fresh_name();
        rw lock = rw_open(client, name);
        crowd_reads_after(name, test_take(lock.write));
        rw_free(lock);
    }
}

/* What a program leaves that dies; nobody tells of its lease's end. */
static void leave_dead(const char *name, const char *mode, const char *field,
                       int lease_ms)
{
    if (strcmp(mode, "read") == 0) {
        assert_true(srv_cmd_is(server, "OK",
                               "SET {%s}:%s:rwlock_timeout:1 1 PX %d", name,
                               field, lease_ms));
    }
    assert_true(
        srv_cmd_is(server, "2", "HSET %s mode %s %s 1", name, mode, field));
    assert_true(srv_cmd_is(server, "1", "PEXPIRE %s %d", name, lease_ms));
}

static void test_readers_come_in_when_a_writer_has_died(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    leave_dead(name, "write", "dead:1:write", 1500);
    crowd_reads_after(name, NULL);
}

static void write_after_the_dead(const char *name)
{
    rw lock = rw_open(client, name);
    hf_lease *lease = NULL;
    expect(HF_OK, hf_lock_acquire(lock.write, TEST_LIMIT_MS, &lease, &err));
    assert_true(has_fields(name, "2"));
    assert_count(lock.write, 1);
    test_give(lease);
    rw_free(lock);
}

static void test_writer_comes_in_when_a_writer_has_died(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    leave_dead(name, "write", "dead:1:write", 500);
    write_after_the_dead(name);
}

/* Another reader's coming and going neither lengthens nor shortens the dead
 * one's share. */
static void test_writer_comes_in_when_a_reader_has_died(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    rw lock = rw_open(client, name);
    leave_dead(name, "read", "dead:1", 1500);
    test_give(take_as(lock.read, NULL, 120000));
    write_after_the_dead(name);
    assert_true(srv_cmd_becomes(server, "0",
                                "EXISTS {%s}:dead:1:rwlock_timeout:1", name));
    rw_free(lock);
}

/* A lease that ends is over for its holder before another comes in. */
static void test_lease_ends(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    rw mine = rw_open(client, name);
    rw theirs = rw_open(other, name);
    hf_lock *const sides[] = {mine.read, mine.write};
    for (int i = 0; i < 2; i++) {
        hf_lease *mortal = take_as(sides[i], NULL, 300);
        hf_lease *next = NULL;
        expect(HF_OK,
               hf_lock_acquire(theirs.write, TEST_LIMIT_MS, &next, &err));
        assert_int_equal(hf_lease_get_state(mortal), HF_LEASE_LOST);
        assert_int_equal(hf_lease_loss(mortal), HF_LOSS_EXPIRED);
        expect(HF_ELOST, hf_lease_release(mortal, &err));
        expect(HF_ENOTHELD, hf_lock_release(sides[i], NULL, &err));
        assert_true(hf_lease_is_held(next));
        assert_count(theirs.write, 1);
        test_give(next);
        hf_lease_free(mortal);
    }
    rw_free(mine);
    rw_free(theirs);
}

/* ---- writers that wait */

/* It shall not end by itself within a test's life. */
static void keep_mark(const char *name)
{
    assert_true(
        srv_cmd_is(server, "1", "PEXPIRE {%s}:holdfast_writer 3600000", name));
}

static void test_polite_readers_give_way(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    rw mine = rw_open(client, name);
    rw theirs = rw_open(other, name);
    hf_lock *gentle = open_kind(other, name, HF_KIND_READ, 1);
    hf_lease *reads = test_take(gentle); /* nobody waits yet */
    taker_park(server, &t, mine.write, HF_WAIT_FOREVER, NULL);
    keep_mark(name);
    test_give(test_take(gentle)); /* it reads already */
    hf_owner *owner = hf_owner_new(other, &err);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.owner = owner;
    expect(HF_NOT_ACQUIRED, hf_lock_acquire_with(gentle, &options, NULL, &err));
    test_give(take_as(theirs.read, owner, 0)); /* does not care */
    test_give(reads);
    taker_end(&t, HF_OK);
    assert_true(is_marked(name, false));
    test_give(test_take(gentle));
    hf_owner_free(owner);
    hf_lock_free(gentle);
    rw_free(mine);
    rw_free(theirs);
}

/* The writer gives up: readers that gave way to it come in at once. */
static void test_writer_gives_up(void **state)
{
    (void)state;
    taker writer_waits;
    taker reader_waits;
    const char *name = test_fresh_name();
    rw mine = rw_open(client, name);
    hf_lock *gentle = open_kind(other, name, HF_KIND_READ, 1);
    hf_cancel *cancel = hf_cancel_new();
    hf_lease *reads = test_take(mine.read);
    taker_park(server, &writer_waits, mine.write, HF_WAIT_FOREVER, cancel);
    keep_mark(name);
    taker_park(server, &reader_waits, gentle, HF_WAIT_FOREVER, NULL);
    hf_cancel_fire(cancel);
    taker_end(&writer_waits, HF_CANCELLED);
    taker_end(&reader_waits, HF_OK);
    assert_true(is_marked(name, false));
    assert_count(mine.read, 1);
    test_give(reads);
    hf_cancel_free(cancel);
    hf_lock_free(gentle);
    rw_free(mine);
}

/* One that has died while it waited: its mark ends by itself. */
static void test_mark_of_a_dead_writer_ends(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *gentle = open_kind(client, name, HF_KIND_READ, 1);
    assert_true(srv_cmd_is(
        server, "OK", "SET {%s}:holdfast_writer dead:1:write PX 1000", name));
    hf_lease *lease = NULL;
    expect(HF_OK, hf_lock_acquire(gentle, HF_WAIT_FOREVER, &lease, &err));
    assert_true(is_marked(name, false));
    test_give(lease);
    hf_lock_free(gentle);
}

/* Redisson's messages wake our waiters. */
static void test_messages_of_redisson(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    rw lock = rw_open(client, name);
    assert_true(srv_cmd_is(server, "2", "HSET %s mode read J:5 1", name));
    assert_true(srv_cmd_is(server, "1", "PEXPIRE %s 3600000", name));
    taker_park(server, &t, lock.write, HF_WAIT_FOREVER, NULL);
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
    assert_true(
        srv_cmd_is(server, "1", "PUBLISH redisson_rwlock:{%s} 0", name));
    taker_end(&t, HF_OK);
    name = test_fresh_name();
    rw_free(lock);
    lock = rw_open(client, name);
    assert_true(
        srv_cmd_is(server, "2", "HSET %s mode write J:5:write 1", name));
    assert_true(srv_cmd_is(server, "1", "PEXPIRE %s 3600000", name));
    taker_park(server, &t, lock.read, HF_WAIT_FOREVER, NULL);
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
    assert_true(
        srv_cmd_is(server, "1", "PUBLISH redisson_rwlock:{%s} 1", name));
    taker_end(&t, HF_OK);
    rw_free(lock);
}

/* ---- many at once */

typedef struct guarded {
    _Atomic int readers;
    _Atomic int writers;
    _Atomic int wrong;
    _Atomic int passed;
    long counter; /* written by writers, and not atomic */
} guarded;

typedef struct worker {
    rw lock;
    guarded *guarded;
    int number;
    int rounds;
} worker;

static void work_as_writer(const worker *w)
{
    guarded *g = w->guarded;
    hf_lease *lease = NULL;
    must_be(HF_OK,
            hf_lock_acquire(w->lock.write, HF_WAIT_FOREVER, &lease, &err));
    if (atomic_fetch_add(&g->writers, 1) > 0 || atomic_load(&g->readers) > 0) {
        (void)atomic_fetch_add(&g->wrong, 1);
    }
    g->counter++;
    (void)atomic_fetch_add(&g->writers, -1);
    test_give(lease);
}

static void work_as_reader(const worker *w)
{
    guarded *g = w->guarded;
    hf_lease *lease = NULL;
    must_be(HF_OK,
            hf_lock_acquire(w->lock.read, HF_WAIT_FOREVER, &lease, &err));
    (void)atomic_fetch_add(&g->readers, 1);
    if (atomic_load(&g->writers) > 0) {
        (void)atomic_fetch_add(&g->wrong, 1);
    }
    (void)atomic_fetch_add(&g->readers, -1);
    test_give(lease);
}

static void *work(void *arg)
{
    const worker *w = arg;
    for (int i = 0; i < w->rounds; i++) {
        if ((w->number + i) % 3 == 0) {
            work_as_writer(w);
        } else {
            work_as_reader(w);
        }
        (void)atomic_fetch_add(&w->guarded->passed, 1);
    }
    return NULL;
}

/* Nobody is left waiting: nothing but messages wakes anyone here. */
static void assert_all_pass(const char *name)
{
    guarded g = {.counter = 0};
    worker workers[THREADS];
    pthread_t threads[THREADS];
    const rw locks[] = {rw_open(client, name), rw_open(other, name)};
    const int rounds = test_scaled(200);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){
            .lock = locks[i % 2], .guarded = &g, .number = i, .rounds = rounds};
        threads[i] = test_thread(work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        test_join(threads[i]);
    }
    assert_int_equal(atomic_load(&g.wrong), 0);
    assert_int_equal(atomic_load(&g.passed), THREADS * rounds);
    for (int i = 0; i < 2; i++) {
        assert_locked(locks[i].read, 0);
        assert_locked(locks[i].write, 0);
        rw_free(locks[i]);
    }
    assert_true(srv_cmd_becomes(server, "0", "DBSIZE"));
}

static void test_many_threads(void **state)
{
    (void)state;
    assert_all_pass(test_fresh_name());
}

static void test_many_threads_with_braces_in_the_name(void **state)
{
    (void)state;
    assert_all_pass("{test}:abc:key");
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_many_readers),
        FIXTURE_TEST(test_threads_are_owners),
        FIXTURE_TEST(test_hold_counts),
        FIXTURE_TEST(test_writer_reads),
        FIXTURE_TEST(test_downgrade_lets_readers_in),
        FIXTURE_TEST(test_no_upgrade),
        FIXTURE_TEST(test_force),
        FIXTURE_TEST(test_last_reader_wakes_a_writer),
        FIXTURE_TEST(test_readers_come_in_together),
        FIXTURE_TEST(test_readers_come_in_when_a_writer_has_died),
        FIXTURE_TEST(test_writer_comes_in_when_a_writer_has_died),
        FIXTURE_TEST(test_writer_comes_in_when_a_reader_has_died),
        FIXTURE_TEST(test_lease_ends),
        FIXTURE_TEST(test_polite_readers_give_way),
        FIXTURE_TEST(test_writer_gives_up),
        FIXTURE_TEST(test_mark_of_a_dead_writer_ends),
        FIXTURE_TEST(test_messages_of_redisson),
        FIXTURE_TEST(test_many_threads),
        FIXTURE_TEST(test_many_threads_with_braces_in_the_name),
    };
    return cmocka_run_group_tests(tests, rw_setup, fixture_end);
}
