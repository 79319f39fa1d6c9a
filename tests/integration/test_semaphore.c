/* Semaphores on a real server: what they leave there, how they count, and who
 * is woken. The clients here poll once an hour: what happens within a test's
 * life is a message's doing. */
#include "integration/sync_side.h"

#include <signal.h>

static bool available_is(hf_semaphore *semaphore, int64_t expected)
{
    int64_t available = -1000000;
    expect(HF_OK, hf_semaphore_available(semaphore, &available, &err));
    if (available != expected) {
        print_error("%lld permits\n", (long long)available);
    }
    return available == expected;
}

static void set_to(hf_semaphore *semaphore, int64_t permits)
{
    int set = 0;
    expect(HF_OK, hf_semaphore_set(semaphore, permits, 0, &set, &err));
    assert_int_equal(set, 1);
}

static void forget(const char *name)
{
    free(srv_cmd(server, "DEL %s", name));
}

/* ---- what it leaves on the server (wire-protocol 15) */

static void test_set_once(void **state)
{
    (void)state;
    int set = 7;
    const char *name = test_fresh_name();
    hf_semaphore *semaphore = sync_semaphore(client, name);
    ear *e = sync_ear(SYNC_PERMITS_EAR, name);
    assert_true(available_is(semaphore, 0));
    expect(HF_OK, hf_semaphore_set(semaphore, 10, 0, &set, &err));
    assert_int_equal(set, 1);
    assert_true(ear_hears(e, "10"));
    assert_true(srv_cmd_is(server, "10", "GET %s", name));
    assert_true(srv_cmd_is(server, "-1", "PTTL %s", name));
    expect(HF_OK, hf_semaphore_set(semaphore, 20, 0, &set, &err));
    assert_int_equal(set, 0);
    expect(HF_OK, hf_semaphore_set(semaphore, 20, 1000, NULL, &err));
    assert_true(available_is(semaphore, 10));
    assert_true(srv_cmd_is(server, "-1", "PTTL %s", name));
    assert_true(ear_heard_all(e, server));
    forget(name);
    expect(HF_OK, hf_semaphore_set(semaphore, 0, 60000, &set, &err));
    assert_int_equal(set, 1);
    long long left = srv_cmd_int(server, "PTTL %s", name);
    assert_true(left > 0 && left <= 60000);
    forget(name);
    ear_free(e);
    hf_semaphore_free(semaphore);
}

static void test_take_and_give(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_semaphore *semaphore = sync_semaphore(client, name);
    hf_semaphore *theirs = sync_semaphore(other, name);
    set_to(semaphore, 3);
    ear *e = sync_ear(SYNC_PERMITS_EAR, name);
    expect(HF_OK, hf_semaphore_try(semaphore, 2, &err));
    assert_true(available_is(theirs, 1));
    /* All or none. */
    expect(HF_NOT_ACQUIRED, hf_semaphore_try(theirs, 2, &err));
    assert_true(hf_error_is_retriable(&err));
    expect(HF_OK, hf_semaphore_try(theirs, 1, &err));
    expect(HF_NOT_ACQUIRED, hf_semaphore_try(theirs, 1, &err));
    assert_true(srv_cmd_is(server, "0", "GET %s", name));
    assert_true(ear_heard_all(e, server)); /* taking is told to nobody */
    /* Permits are nobody's: another may give them back. */
    expect(HF_OK, hf_semaphore_release(semaphore, 3, &err));
    assert_true(ear_hears(e, "3"));
    expect(HF_OK, hf_semaphore_release(theirs, 1, &err));
    assert_true(ear_hears(e, "4"));
    assert_true(ear_heard_all(e, server));
    assert_true(available_is(semaphore, 4));
    forget(name);
    ear_free(e);
    hf_semaphore_free(semaphore);
    hf_semaphore_free(theirs);
}

static void test_one_that_was_never_made(void **state)
{
    (void)state;
    int released = 7;
    const char *name = test_fresh_name();
    hf_semaphore *semaphore = sync_semaphore(client, name);
    expect(HF_NOT_ACQUIRED, hf_semaphore_try(semaphore, 1, &err));
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    expect(HF_OK,
           hf_semaphore_release_if_exists(semaphore, 2, &released, &err));
    assert_int_equal(released, 0);
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    expect(HF_OK, hf_semaphore_release(semaphore, 2, &err));
    assert_true(srv_cmd_is(server, "2", "GET %s", name));
    expect(HF_OK,
           hf_semaphore_release_if_exists(semaphore, 3, &released, &err));
    assert_int_equal(released, 1);
    assert_true(srv_cmd_is(server, "5", "GET %s", name));
    forget(name);
    hf_semaphore_free(semaphore);
}

/* Redisson drops the end here; its key would live for ever. */
static void test_add_and_drain_keep_the_end(void **state)
{
    (void)state;
    int64_t drained = -1;
    const char *name = test_fresh_name();
    hf_semaphore *semaphore = sync_semaphore(client, name);
    expect(HF_OK, hf_semaphore_set(semaphore, 2, 60000, NULL, &err));
    expect(HF_OK, hf_semaphore_add(semaphore, 5, &err));
    assert_true(available_is(semaphore, 7));
    assert_true(srv_cmd_int(server, "PTTL %s", name) > 0);
    expect(HF_OK, hf_semaphore_drain(semaphore, &drained, &err));
    assert_int_equal(drained, 7);
    assert_true(srv_cmd_is(server, "0", "GET %s", name));
    assert_true(srv_cmd_int(server, "PTTL %s", name) > 0);
    expect(HF_OK, hf_semaphore_drain(semaphore, &drained, &err));
    assert_int_equal(drained, 0);
    forget(name);
    hf_semaphore_free(semaphore);
}

static void test_fewer_than_none(void **state)
{
    (void)state;
    int64_t drained = 0;
    const char *name = test_fresh_name();
    hf_semaphore *semaphore = sync_semaphore(client, name);
    set_to(semaphore, 2);
    ear *e = sync_ear(SYNC_PERMITS_EAR, name);
    expect(HF_OK, hf_semaphore_add(semaphore, -5, &err));
    assert_true(available_is(semaphore, -3));
    expect(HF_NOT_ACQUIRED, hf_semaphore_try(semaphore, 1, &err));
    /* Redisson's waiters do not bear a number below 0. */
    expect(HF_OK, hf_semaphore_release(semaphore, 1, &err));
    assert_true(ear_heard_all(e, server));
    expect(HF_OK, hf_semaphore_drain(semaphore, &drained, &err));
    assert_int_equal(drained, -2);
    assert_true(available_is(semaphore, 0));
    forget(name);
    expect(HF_OK, hf_semaphore_drain(semaphore, &drained, &err));
    assert_int_equal(drained, 0);
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    ear_free(e);
    hf_semaphore_free(semaphore);
}

static void test_none_wanted(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_semaphore *semaphore = sync_semaphore(client, name);
    test_reset_calls(server);
    expect(HF_OK, hf_semaphore_try(semaphore, 0, &err));
    expect(HF_OK, hf_semaphore_release(semaphore, 0, &err));
    expect(HF_OK, hf_semaphore_add(semaphore, 0, &err));
    assert_int_equal(test_calls(server, "evalsha"), 0);
    hf_semaphore_free(semaphore);
}

static void test_one_command_each(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_semaphore *semaphore = sync_semaphore(client, name);
    set_to(semaphore, 1);
    test_reset_calls(server);
    ear *e = ear_monitor(server);
    for (int i = 0; i < 3; i++) {
        expect(HF_OK, hf_semaphore_try(semaphore, 1, &err));
        expect(HF_OK, hf_semaphore_release(semaphore, 1, &err));
    }
    assert_true(ear_heard_only(e, server, name, 6));
    ear_free(e);
    /* The records of all that are no more than two keys. */
    assert_true(srv_cmd_is(server, "3", "DBSIZE"));
    forget(name);
    hf_semaphore_free(semaphore);
}

/* ---- names and arguments */

static void test_names(void **state)
{
    (void)state;
    static const char bytes[] = {'a', '\0', '\xff', '{', 'b', '}'};
    hf_semaphore *semaphore =
        hf_semaphore_open(client, bytes, sizeof(bytes), NULL, &err);
    assert_non_null(semaphore);
    static const char channel[] = "redisson_sc:a\0\xff{b}";
    ear *e = ear_subscribe(server, channel, sizeof(channel) - 1);
    set_to(semaphore, 1);
    assert_true(ear_hears(e, "1"));
    assert_true(srv_cmd_is(server, "1", "GET %b", bytes, sizeof(bytes)));
    expect(HF_OK, hf_semaphore_try(semaphore, 1, &err));
    assert_true(srv_cmd_is(server, "1", "DEL %b", bytes, sizeof(bytes)));
    ear_free(e);
    hf_semaphore_free(semaphore);
}

static void test_arguments(void **state)
{
    (void)state;
    static const int64_t most = INT64_C(2147483647);
    hf_semaphore *semaphore = sync_semaphore(client, test_fresh_name());
    int64_t number = 7;
    expect(HF_EINVAL, hf_semaphore_try(NULL, 1, &err));
    expect(HF_EINVAL, hf_semaphore_try(semaphore, -1, &err));
    expect(HF_EINVAL, hf_semaphore_try(semaphore, most + 1, &err));
    expect(HF_EINVAL, hf_semaphore_acquire(semaphore, 1, -2, NULL, &err));
    expect(HF_EINVAL, hf_semaphore_release(NULL, 1, &err));
    expect(HF_EINVAL, hf_semaphore_release(semaphore, -1, &err));
    expect(HF_EINVAL, hf_semaphore_release(semaphore, INT64_MAX, &err));
    expect(HF_EINVAL, hf_semaphore_release_if_exists(semaphore, 0, NULL, &err));
    expect(HF_EINVAL, hf_semaphore_add(NULL, 1, &err));
    expect(HF_EINVAL, hf_semaphore_add(semaphore, INT64_MIN, &err));
    expect(HF_EINVAL, hf_semaphore_set(NULL, 1, 0, NULL, &err));
    expect(HF_EINVAL, hf_semaphore_set(semaphore, -1, 0, NULL, &err));
    expect(HF_EINVAL, hf_semaphore_set(semaphore, 1, -1, NULL, &err));
    expect(HF_EINVAL, hf_semaphore_drain(NULL, NULL, &err));
    expect(HF_EINVAL, hf_semaphore_available(NULL, &number, &err));
    assert_int_equal(number, 7);
    hf_semaphore_free(semaphore);
    hf_semaphore_free(NULL);
    assert_null(hf_semaphore_open(NULL, "s", 1, NULL, &err));
    assert_null(hf_semaphore_open(client, "", 0, NULL, &err));
    assert_int_equal(hf_error_status(&err), HF_EINVAL);
}

static void test_key_of_another_sort(void **state)
{
    (void)state;
    int64_t number = 7;
    const char *name = test_fresh_name();
    hf_semaphore *semaphore = sync_semaphore(client, name);
    assert_true(srv_cmd_is(server, "1", "RPUSH %s x", name));
    expect(HF_EWRONGTYPE, hf_semaphore_try(semaphore, 1, &err));
    expect(HF_EWRONGTYPE, hf_semaphore_release(semaphore, 1, &err));
    expect(HF_EWRONGTYPE, hf_semaphore_drain(semaphore, &number, &err));
    expect(HF_EWRONGTYPE, hf_semaphore_available(semaphore, &number, &err));
    assert_true(srv_cmd_is(server, "x", "LRANGE %s 0 -1", name));
    forget(name);
    static const char *const texts[] = {"x", "7.5", ""};
    for (int i = 0; i < 3; i++) {
        assert_true(srv_cmd_is(server, "OK", "SET %s %b", name, texts[i],
                               strlen(texts[i])));
        expect(HF_ESERVER, hf_semaphore_try(semaphore, 1, &err));
        expect(HF_ESERVER, hf_semaphore_release(semaphore, 1, &err));
        expect(HF_ESERVER, hf_semaphore_drain(semaphore, &number, &err));
        assert_true(srv_cmd_is(server, texts[i], "GET %s", name));
    }
    assert_int_equal(number, 7);
    forget(name);
    hf_semaphore_free(semaphore);
}

static void test_closed_client(void **state)
{
    (void)state;
    int64_t number = 0;
    hf_client *closed = test_client(srv_url(server), NULL);
    hf_semaphore *semaphore = sync_semaphore(closed, test_fresh_name());
    hf_client_free(closed);
    expect(HF_ECLOSED, hf_semaphore_try(semaphore, 1, &err));
    expect(HF_ECLOSED, hf_semaphore_release(semaphore, 1, &err));
    expect(HF_ECLOSED, hf_semaphore_available(semaphore, &number, &err));
    hf_semaphore_free(semaphore);
}

/* ---- waiting */

static sync_waiter waiter_of(hf_semaphore *semaphore, int64_t permits)
{
    return (sync_waiter){.semaphore = semaphore,
                         .permits = permits,
                         .wait_ms = SYNC_PATIENCE_MS};
}

/* Whatever brings permits wakes who waits for them. */
static void test_woken(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        const char *name = test_fresh_name();
        hf_semaphore *wanted = sync_semaphore(client, name);
        hf_semaphore *giver = sync_semaphore(other, name);
        sync_waiter w = waiter_of(wanted, 2);
        sync_park(&w, false);
        if (how == 0) {
            set_to(giver, 2);
        } else if (how == 1) {
            expect(HF_OK, hf_semaphore_add(giver, 2, &err));
        } else if (how == 2) {
            expect(HF_OK, hf_semaphore_release(giver, 2, &err));
        } else { /* Redisson */
            assert_true(srv_cmd_is(server, "2", "INCRBY %s 2", name));
            free(srv_cmd(server, "PUBLISH redisson_sc:{%s} 2", name));
        }
        sync_end(&w, HF_OK);
        assert_true(available_is(wanted, 0));
        forget(name);
        hf_semaphore_free(wanted);
        hf_semaphore_free(giver);
    }
}

/* A release of many permits is for many. */
static void test_one_message_wakes_many(void **state)
{
    (void)state;
    sync_waiter waiters[3];
    const char *name = test_fresh_name();
    hf_semaphore *wanted = sync_semaphore(client, name);
    hf_semaphore *giver = sync_semaphore(other, name);
    for (int i = 0; i < 3; i++) {
        waiters[i] = waiter_of(wanted, 1);
        sync_park(&waiters[i], i > 0);
    }
    expect(HF_OK, hf_semaphore_release(giver, 3, &err));
    for (int i = 0; i < 3; i++) {
        sync_end(&waiters[i], HF_OK);
    }
    assert_true(available_is(wanted, 0));
    forget(name);
    hf_semaphore_free(wanted);
    hf_semaphore_free(giver);
}

/* Too few for the first are enough for the second. */
static void test_woken_by_its_own_need(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_semaphore *wanted = sync_semaphore(client, name);
    hf_semaphore *giver = sync_semaphore(other, name);
    sync_waiter many = waiter_of(wanted, 10);
    sync_waiter few = waiter_of(wanted, 1);
    sync_park(&many, false);
    sync_park(&few, true);
    expect(HF_OK, hf_semaphore_release(giver, 1, &err));
    sync_end(&few, HF_OK);
    assert_false(atomic_load(&many.ended));
    expect(HF_OK, hf_semaphore_release(giver, 10, &err));
    sync_end(&many, HF_OK);
    assert_true(available_is(wanted, 0));
    forget(name);
    hf_semaphore_free(wanted);
    hf_semaphore_free(giver);
}

/* No message comes: both ask by themselves, though the first goes on in vain.
 */
static void test_message_missed(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    options.poll_cap_ms = 100;
    hf_client *asking = test_client(srv_url(server), &options);
    sync_warm_up(asking);
    const char *name = test_fresh_name();
    hf_semaphore *wanted = sync_semaphore(asking, name);
    sync_waiter many = waiter_of(wanted, 10);
    sync_waiter few = waiter_of(wanted, 1);
    sync_park(&many, false);
    sync_park(&few, true);
    assert_true(srv_cmd_is(server, "1", "INCRBY %s 1", name));
    sync_end(&few, HF_OK);
    assert_true(srv_cmd_is(server, "10", "INCRBY %s 10", name));
    sync_end(&many, HF_OK);
    forget(name);
    hf_semaphore_free(wanted);
    hf_client_free(asking);
}

static void test_time_out(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_semaphore *wanted = sync_semaphore(client, name);
    set_to(wanted, 1);
    int64_t before = test_now_ms();
    expect(HF_NOT_ACQUIRED, hf_semaphore_acquire(wanted, 2, 50, NULL, &err));
    assert_true(test_now_ms() - before >= 50);
    assert_true(available_is(wanted, 1));
    expect(HF_OK, hf_semaphore_acquire(wanted, 1, 50, NULL, &err));
    forget(name);
    hf_semaphore_free(wanted);
}

static void test_cancelled(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_semaphore *wanted = sync_semaphore(client, name);
    sync_waiter w = waiter_of(wanted, 1);
    w.cancel = hf_cancel_new();
    sync_park(&w, false);
    hf_cancel_fire(w.cancel);
    sync_end(&w, HF_CANCELLED);
    expect(HF_OK, hf_semaphore_release(wanted, 1, &err));
    assert_true(available_is(wanted, 1)); /* nobody takes it any more */
    hf_cancel_free(w.cancel);
    forget(name);
    hf_semaphore_free(wanted);
}

/* ---- many at once */

#define THREADS 8
#define PERMITS 3

typedef struct crowd {
    hf_semaphore *semaphore;
    int rounds;
    _Atomic int inside;
    _Atomic int most;
    _Atomic int passed;
} crowd;

static void *pass(void *arg)
{
    crowd *c = arg;
    for (int i = 0; i < c->rounds; i++) {
        must_be(HF_OK, hf_semaphore_acquire(c->semaphore, 1, HF_WAIT_FOREVER,
                                            NULL, &err));
        int inside = atomic_fetch_add(&c->inside, 1) + 1;
        int most = atomic_load(&c->most);
        while (inside > most &&
               !atomic_compare_exchange_weak(&c->most, &most, inside)) {
        }
        (void)atomic_fetch_sub(&c->inside, 1);
        (void)atomic_fetch_add(&c->passed, 1);
        must_be(HF_OK, hf_semaphore_release(c->semaphore, 1, &err));
    }
    return NULL;
}

static void test_crowd(void **state)
{
    (void)state;
    for (int in_turn = 0; in_turn < 2; in_turn++) {
        const char *name = test_fresh_name();
        hf_semaphore *semaphore =
            in_turn ? sync_in_turn(client, name) : sync_semaphore(client, name);
        crowd c = {.semaphore = semaphore, .rounds = test_scaled(20)};
        pthread_t threads[THREADS];
        set_to(semaphore, PERMITS);
        for (int i = 0; i < THREADS; i++) {
            threads[i] = test_thread(pass, &c);
        }
        for (int i = 0; i < THREADS; i++) {
            test_join(threads[i]);
        }
        assert_in_range(atomic_load(&c.most), 1, PERMITS);
        assert_int_equal(atomic_load(&c.passed), THREADS * c.rounds);
        assert_true(available_is(semaphore, PERMITS));
        forget(name);
        hf_semaphore_free(semaphore);
    }
}

/* ---- in turn */

/* While one waits for many, those who come later and need few wait too. */
static void test_not_overtaken(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_semaphore *wanted = sync_in_turn(client, name);
    hf_semaphore *theirs = sync_in_turn(other, name);
    hf_semaphore *giver = sync_semaphore(other, name);
    sync_waiter many = waiter_of(wanted, 3);
    sync_waiter few = waiter_of(theirs, 1);
    set_to(wanted, 1);
    sync_park(&many, false);
    sync_park(&few, false);
    expect(HF_NOT_ACQUIRED, hf_semaphore_try(theirs, 1, &err));
    expect(HF_OK, hf_semaphore_release(giver, 1, &err));
    assert_true(available_is(giver, 2));
    /* Who knows of no turns takes what there is. */
    expect(HF_OK, hf_semaphore_try(giver, 1, &err));
    expect(HF_OK, hf_semaphore_release(giver, 2, &err));
    sync_end(&many, HF_OK);
    assert_false(atomic_load(&few.ended));
    expect(HF_OK, hf_semaphore_release(giver, 1, &err));
    sync_end(&few, HF_OK);
    assert_true(available_is(giver, 0));
    forget(name);
    hf_semaphore_free(wanted);
    hf_semaphore_free(theirs);
    hf_semaphore_free(giver);
}

/* What is left when the first has been served is told to the next. */
static void test_next_one_is_told(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_semaphore *wanted = sync_in_turn(client, name);
    hf_semaphore *theirs = sync_in_turn(other, name);
    sync_waiter many = waiter_of(wanted, 3);
    sync_waiter few = waiter_of(theirs, 1);
    sync_park(&many, false);
    sync_park(&few, false);
    ear *e = sync_ear(SYNC_PERMITS_EAR, name);
    expect(HF_OK, hf_semaphore_add(theirs, 4, &err));
    sync_end(&many, HF_OK);
    sync_end(&few, HF_OK);
    assert_true(ear_hears(e, "4"));
    assert_true(ear_hears(e, "1"));
    assert_true(ear_heard_all(e, server));
    ear_free(e);
    assert_true(available_is(theirs, 0));
    forget(name);
    hf_semaphore_free(wanted);
    hf_semaphore_free(theirs);
}

/* The first gives up: it leaves the queue, and the next is told. */
static void test_first_gives_up(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_semaphore *wanted = sync_in_turn(client, name);
    hf_semaphore *theirs = sync_in_turn(other, name);
    sync_waiter many = waiter_of(wanted, 3);
    sync_waiter few = waiter_of(theirs, 1);
    many.cancel = hf_cancel_new();
    set_to(wanted, 1);
    sync_park(&many, false);
    sync_park(&few, false);
    ear *e = sync_ear(SYNC_PERMITS_EAR, name);
    hf_cancel_fire(many.cancel);
    sync_end(&many, HF_CANCELLED);
    assert_true(ear_hears(e, "1"));
    sync_end(&few, HF_OK);
    ear_free(e);
    assert_true(
        srv_cmd_is(server, "0", "EXISTS holdfast_permits_queue:{%s}", name));
    hf_cancel_free(many.cancel);
    forget(name);
    hf_semaphore_free(wanted);
    hf_semaphore_free(theirs);
}

/* The first has died: it costs the others the time for which it was believed
 * to live, and so does the next. */
static void test_first_is_dead(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_semaphore *wanted = sync_in_turn(client, name);
    set_to(wanted, 1);
    assert_true(srv_cmd_is(server, "2",
                           "ZADD holdfast_permits_queue:{%s} 1 "
                           "dead:1 2 dead:2",
                           name));
    expect(HF_NOT_ACQUIRED, hf_semaphore_try(wanted, 1, &err));
    assert_true(srv_cmd_is(server, "dead:2",
                           "ZRANGE "
                           "holdfast_permits_queue:{%s} 0 -1",
                           name));
    long long left =
        srv_cmd_int(server, "PTTL holdfast_permits_queue:{%s}:head", name);
    assert_in_range(left, 1, 5000);
    expect(HF_NOT_ACQUIRED, hf_semaphore_try(wanted, 1, &err));
    free(srv_cmd(server, "PEXPIRE holdfast_permits_queue:{%s}:head 300", name));
    expect(HF_OK, hf_semaphore_acquire(wanted, 1, TEST_LIMIT_MS, NULL, &err));
    assert_true(
        srv_cmd_is(server, "0", "EXISTS holdfast_permits_queue:{%s}", name));
    forget(name);
    hf_semaphore_free(wanted);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        SYNC_TEST(test_set_once),
        SYNC_TEST(test_take_and_give),
        SYNC_TEST(test_one_that_was_never_made),
        SYNC_TEST(test_add_and_drain_keep_the_end),
        SYNC_TEST(test_fewer_than_none),
        SYNC_TEST(test_none_wanted),
        SYNC_TEST(test_one_command_each),
        SYNC_TEST(test_names),
        SYNC_TEST(test_arguments),
        SYNC_TEST(test_key_of_another_sort),
        SYNC_TEST(test_closed_client),
        SYNC_TEST(test_woken),
        SYNC_TEST(test_one_message_wakes_many),
        SYNC_TEST(test_woken_by_its_own_need),
        SYNC_TEST(test_message_missed),
        SYNC_TEST(test_time_out),
        SYNC_TEST(test_cancelled),
        SYNC_TEST(test_crowd),
        SYNC_TEST(test_not_overtaken),
        SYNC_TEST(test_next_one_is_told),
        SYNC_TEST(test_first_gives_up),
        SYNC_TEST(test_first_is_dead),
    };
    return cmocka_run_group_tests(tests, sync_setup, fixture_end);
}
