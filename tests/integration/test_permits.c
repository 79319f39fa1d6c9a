/* Permits that are had for the time of a lease, on a real server: what they
 * leave there, when they end, and that none is made or lost. */
#include "integration/sync_side.h"

#include <signal.h>
#include <unistd.h>

#define HEX "0123456789abcdef"

typedef struct counts {
    int64_t available;
    int64_t acquired;
    int64_t total;
} counts;

static bool counts_are(hf_lock *permits, int64_t available, int64_t acquired,
                       int64_t total)
{
    counts c = {-1000, -1000, -1000};
    expect(HF_OK, hf_permits_available(permits, &c.available, &err));
    expect(HF_OK, hf_permits_acquired(permits, &c.acquired, &err));
    expect(HF_OK, hf_permits_total(permits, &c.total, &err));
    if (c.available == available && c.acquired == acquired &&
        c.total == total) {
        return true;
    }
    print_error("available %lld, acquired %lld, total %lld\n",
                (long long)c.available, (long long)c.acquired,
                (long long)c.total);
    return false;
}

static bool counts_become(hf_lock *permits, int64_t available, int64_t acquired)
{
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    counts c = {-1000, -1000, -1000};
    while (c.available != available || c.acquired != acquired) {
        if (!test_pause(deadline)) {
            return false;
        }
        expect(HF_OK, hf_permits_available(permits, &c.available, &err));
        expect(HF_OK, hf_permits_acquired(permits, &c.acquired, &err));
    }
    return true;
}

static hf_lock *open_with(hf_client *used, const char *name, int64_t total)
{
    hf_lock *permits = sync_permits(used, name);
    expect(HF_OK, hf_permits_set(permits, total, &err));
    return permits;
}

static void forget(const char *name)
{
    free(srv_cmd(server, "DEL %s {%s}:timeout", name, name));
}

static hf_lease *take_fixed(hf_lock *permits, int64_t lease_ms)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = NULL;
    options.lease_ms = lease_ms;
    expect(HF_OK, hf_lock_acquire_with(permits, &options, &lease, &err));
    return lease;
}

/* The permit's id as it stands on the server. */
static void id_of(const hf_lease *lease, char id[16])
{
    const char *text = hf_lease_owner_id(lease);
    assert_int_equal(strlen(text), 32);
    assert_int_equal(strspn(text, HEX), 32);
    for (size_t i = 0; i < 16; i++) {
        ptrdiff_t high = strchr(HEX, text[2 * i]) - HEX;
        ptrdiff_t low = strchr(HEX, text[2 * i + 1]) - HEX;
        id[i] = (char)(high << 4 | low);
    }
}

static long long score_of(const char *name, const hf_lease *lease)
{
    char id[16];
    id_of(lease, id);
    return srv_cmd_int(server, "ZSCORE {%s}:timeout %b", name, id, sizeof(id));
}

static long long server_ms(void)
{
    return srv_cmd_int(server, "EVAL %s 0",
                       "local t = redis.call('time') "
                       "return t[1] * 1000 + math.floor(t[2] / 1000)");
}

/* ---- the number (wire-protocol 17) */

static void test_try_set_once(void **state)
{
    (void)state;
    int set = 7;
    const char *name = test_fresh_name();
    hf_lock *permits = sync_permits(client, name);
    ear *e = sync_ear(SYNC_PERMITS_EAR, name);
    assert_true(counts_are(permits, 0, 0, 0));
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    expect(HF_OK, hf_permits_try_set(permits, 5, &set, &err));
    assert_int_equal(set, 1);
    assert_true(ear_hears(e, "5"));
    assert_true(srv_cmd_is(server, "5", "GET %s", name));
    expect(HF_OK, hf_permits_try_set(permits, 9, &set, &err));
    assert_int_equal(set, 0);
    assert_true(counts_are(permits, 5, 0, 5));
    assert_true(ear_heard_all(e, server));
    forget(name);
    ear_free(e);
    hf_lock_free(permits);
}

/* The total includes what is held, and may be set below that. */
static void test_set_the_total(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(client, name, 3);
    hf_lease *first = test_take(permits);
    hf_lease *second = test_take(permits);
    ear *e = sync_ear(SYNC_PERMITS_EAR, name);
    assert_true(counts_are(permits, 1, 2, 3));
    expect(HF_OK, hf_permits_set(permits, 5, &err));
    assert_true(ear_hears(e, "3"));
    assert_true(counts_are(permits, 3, 2, 5));
    expect(HF_OK, hf_permits_set(permits, 5, &err));
    assert_true(ear_heard_all(e, server));
    expect(HF_OK, hf_permits_set(permits, 1, &err));
    assert_true(counts_are(permits, -1, 2, 1));
    expect(HF_NOT_ACQUIRED, hf_lock_try(permits, NULL, &err));
    test_give(first);
    assert_true(counts_are(permits, 0, 1, 1));
    expect(HF_NOT_ACQUIRED, hf_lock_try(permits, NULL, &err));
    assert_true(ear_heard_all(e, server)); /* none was to be had yet */
    test_give(second);
    assert_true(ear_hears(e, "1"));
    assert_true(counts_are(permits, 1, 0, 1));
    forget(name);
    ear_free(e);
    hf_lock_free(permits);
}

static void test_add(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *permits = sync_permits(client, name);
    ear *e = sync_ear(SYNC_PERMITS_EAR, name);
    expect(HF_OK, hf_permits_add(permits, 2, &err));
    assert_true(ear_hears(e, "2"));
    assert_true(srv_cmd_is(server, "1", "PEXPIRE %s 60000", name));
    hf_lease *lease = test_take(permits);
    /* With the semaphore its permits end. */
    assert_true(srv_cmd_int(server, "PTTL {%s}:timeout", name) > 0);
    expect(HF_OK, hf_permits_add(permits, 3, &err));
    assert_true(ear_hears(e, "4"));
    assert_true(counts_are(permits, 4, 1, 5));
    assert_true(srv_cmd_int(server, "PTTL %s", name) > 0);
    expect(HF_OK, hf_permits_add(permits, -9, &err));
    assert_true(counts_are(permits, -5, 1, -4));
    assert_true(ear_heard_all(e, server));
    test_give(lease);
    forget(name);
    ear_free(e);
    hf_lock_free(permits);
}

/* ---- taking and giving back */

static void test_state_of_a_permit(void **state)
{
    (void)state;
    char id[16];
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(client, name, 2);
    ear *e = sync_ear(SYNC_PERMITS_EAR, name);
    long long before = server_ms();
    hf_lease *lease = take_fixed(permits, 60000);
    long long after = server_ms();
    id_of(lease, id);
    assert_true(srv_cmd_is(server, "1", "ZCARD {%s}:timeout", name));
    assert_in_range(score_of(name, lease), before + 60000, after + 60000);
    assert_true(srv_cmd_is(server, "1", "GET %s", name));
    assert_true(hf_lease_is_held(lease));
    assert_int_equal(hf_lease_token(lease), 0);
    assert_true(ear_heard_all(e, server));
    expect(HF_OK, hf_lease_release(lease, &err));
    assert_true(ear_hears(e, "2"));
    assert_true(srv_cmd_is(server, "2", "GET %s", name));
    assert_true(srv_cmd_is(server, "0", "EXISTS {%s}:timeout", name));
    expect(HF_OK, hf_lease_release(lease, &err)); /* again: no matter */
    assert_true(srv_cmd_is(server, "2", "GET %s", name));
    hf_lease_free(lease);
    forget(name);
    ear_free(e);
    hf_lock_free(permits);
}

/* One thread may have many; each has an id of its own. */
static void test_many_of_one_thread(void **state)
{
    (void)state;
    hf_lease *leases[20];
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(client, name, 20);
    for (int i = 0; i < 20; i++) {
        leases[i] = test_take(permits);
    }
    assert_true(srv_cmd_is(server, "20", "ZCARD {%s}:timeout", name));
    expect(HF_NOT_ACQUIRED, hf_lock_try(permits, NULL, &err));
    assert_true(counts_are(permits, 0, 20, 20));
    /* There is no permit of the thread's to be named. */
    expect(HF_ENOTHELD, hf_lock_release(permits, NULL, &err));
    for (int i = 0; i < 20; i++) {
        test_give(leases[i]);
    }
    assert_true(counts_are(permits, 20, 0, 20));
    forget(name);
    hf_lock_free(permits);
}

static void test_looks(void **state)
{
    (void)state;
    int locked = 7;
    int64_t remaining = 0;
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(client, name, 2);
    expect(HF_OK, hf_lock_is_locked(permits, &locked, &err));
    assert_int_equal(locked, 0);
    expect(HF_OK, hf_lock_remaining_ms(permits, &remaining, &err));
    assert_int_equal(remaining, -2);
    hf_lease *lease = take_fixed(permits, 60000);
    expect(HF_OK, hf_lock_is_locked(permits, &locked, &err));
    assert_int_equal(locked, 1);
    expect(HF_OK, hf_lock_remaining_ms(permits, &remaining, &err));
    assert_in_range(remaining, 1, 60000);
    test_give(lease);
    free(srv_cmd(server, "ZADD {%s}:timeout 1 dead", name)); /* not looked at */
    expect(HF_OK, hf_lock_is_locked(permits, &locked, &err));
    assert_int_equal(locked, 0);
    expect(HF_OK, hf_lock_remaining_ms(permits, &remaining, &err));
    assert_int_equal(remaining, -2);
    free(srv_cmd(server, "ZADD {%s}:timeout 922337203685477 endless", name));
    expect(HF_OK, hf_lock_remaining_ms(permits, &remaining, &err));
    assert_int_equal(remaining, -1);
    forget(name);
    hf_lock_free(permits);
}

/* All are taken back; whoever had one is told. */
static void test_force(void **state)
{
    (void)state;
    int released = 7;
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(client, name, 2);
    hf_lock *theirs = sync_permits(other, name);
    hf_lease *lease = test_take(permits);
    hf_lease *far = test_take(theirs);
    ear *e = sync_ear(SYNC_PERMITS_EAR, name);
    expect(HF_OK, hf_lock_force_release(permits, &released, &err));
    assert_int_equal(released, 1);
    assert_true(ear_hears(e, "2"));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_LOST);
    expect(HF_ELOST, hf_lease_release(far, &err));
    assert_true(counts_are(permits, 2, 0, 2));
    expect(HF_OK, hf_lock_force_release(permits, &released, &err));
    assert_int_equal(released, 0);
    assert_true(ear_heard_all(e, server));
    hf_lease_free(lease);
    hf_lease_free(far);
    forget(name);
    ear_free(e);
    hf_lock_free(permits);
    hf_lock_free(theirs);
}

/* ---- leases */

/* A lease that ends: the holder knows, and another gets the permit, though
 * nobody has given it back. */
static void test_fixed_lease_ends(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(client, name, 1);
    hf_lock *theirs = sync_permits(other, name);
    hf_lease *lease = take_fixed(permits, 300);
    hf_lease *next = NULL;
    expect(HF_OK, hf_lock_acquire(theirs, TEST_LIMIT_MS, &next, &err));
    assert_false(hf_lease_is_held(lease)); /* it has ended before that */
    expect(HF_ELOST, hf_lease_release(lease, &err));
    assert_true(hf_lease_is_held(next));
    assert_true(counts_are(permits, 0, 1, 1));
    test_give(next);
    hf_lease_free(lease);
    forget(name);
    hf_lock_free(permits);
    hf_lock_free(theirs);
}

/* To count is enough for those that have ended to be given back, and to be
 * told of. */
static void test_ended_ones_are_counted(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(client, name, 3);
    ear *e = sync_ear(SYNC_PERMITS_EAR, name);
    /* Of holders that are gone, one of them for long. */
    free(srv_cmd(server, "ZADD {%s}:timeout 1 a 1 b", name));
    assert_true(srv_cmd_is(server, "1", "DECRBY %s 2", name));
    assert_true(counts_are(permits, 3, 0, 3));
    assert_true(ear_hears(e, "3"));
    assert_true(ear_heard_all(e, server));
    forget(name);
    ear_free(e);
    hf_lock_free(permits);
}

/* So it is to take one. */
static void test_ended_ones_are_taken(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(client, name, 2);
    ear *e = sync_ear(SYNC_PERMITS_EAR, name);
    free(srv_cmd(server, "ZADD {%s}:timeout 1 a 1 b", name));
    assert_true(srv_cmd_is(server, "0", "DECRBY %s 2", name));
    hf_lease *lease = test_take(permits);
    assert_true(ear_hears(e, "2")); /* another one may wait */
    assert_true(ear_heard_all(e, server));
    assert_true(srv_cmd_is(server, "1", "ZCARD {%s}:timeout", name));
    assert_true(counts_are(permits, 1, 1, 2));
    test_give(lease);
    forget(name);
    ear_free(e);
    hf_lock_free(permits);
}

/* The watchdog's lease goes on as long as it is held. */
static void test_renewed(void **state)
{
    (void)state;
    hf_client_options options = test_watchdog(2000);
    hf_client *watched = test_client(srv_url(server), &options);
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(watched, name, 2);
    hf_lease *first = test_take(permits);
    hf_lease *second = test_take(permits);
    long long begin = score_of(name, second);
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    while (score_of(name, first) < begin + 2000 ||
           score_of(name, second) < begin + 2000) {
        assert_true(hf_lease_is_held(first));
        assert_true(hf_lease_is_held(second));
        assert_true(test_pause(deadline));
    }
    expect(HF_NOT_ACQUIRED, hf_lock_try(permits, NULL, &err));
    test_give(first);
    test_give(second);
    assert_true(counts_are(permits, 2, 0, 2));
    forget(name);
    hf_lock_free(permits);
    hf_client_free(watched);
}

/* One that the server no longer lists is lost at its next renewal. */
static void test_lost(void **state)
{
    (void)state;
    char id[16];
    hf_client_options options = test_watchdog(3000);
    hf_client *watched = test_client(srv_url(server), &options);
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(watched, name, 2);
    hf_lease *lost = test_take(permits);
    hf_lease *kept = test_take(permits);
    int fd = hf_lease_fd(lost, &err);
    id_of(lost, id);
    assert_true(
        srv_cmd_is(server, "1", "ZREM {%s}:timeout %b", name, id, sizeof(id)));
    assert_true(test_wait_readable(fd));
    assert_int_equal(hf_lease_loss(lost), HF_LOSS_REVOKED);
    assert_int_equal(hf_lease_get_state(kept), HF_LEASE_HELD);
    test_give(kept);
    /* Whoever took it out was to give it back; the loser does not. */
    assert_true(counts_are(permits, 1, 0, 1));
    hf_lease_free(lost);
    assert_true(counts_are(permits, 1, 0, 1));
    forget(name);
    hf_lock_free(permits);
    hf_client_free(watched);
}

_Noreturn static void hold_in_child(const char *name, int ready)
{
    hf_client_options options = test_watchdog(2000);
    hf_client *own = test_client(srv_url(server), &options);
    hf_lock *permits = sync_permits(own, name);
    (void)test_take(permits);
    must(write(ready, "x", 1) == 1);
    for (;;) {
        (void)pause();
    }
}

/* F62: the holder's process is killed; its permit comes back, and nobody has to
 * do anything for that. */
static void test_holder_is_killed(void **state)
{
    (void)state;
    int ready[2];
    char byte = 0;
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(client, name, 1);
    hf_lease *lease = NULL;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        hold_in_child(name, ready[1]);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    expect(HF_NOT_ACQUIRED, hf_lock_try(permits, NULL, &err));
    assert_int_equal(kill(child, SIGKILL), 0);
    expect(HF_OK, hf_lock_acquire(permits, TEST_LIMIT_MS, &lease, &err));
    assert_int_equal(test_reap(child), 128 + SIGKILL);
    assert_true(counts_are(permits, 0, 1, 1));
    test_give(lease);
    (void)close(ready[0]);
    (void)close(ready[1]);
    forget(name);
    hf_lock_free(permits);
}

/* ---- waiting */

static void test_handed_on(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    hf_lock *held = open_with(other, name, 1);
    hf_lock *wanted = sync_permits(client, name);
    hf_lease *lease = test_take(held);
    taker_park(server, &t, wanted, HF_WAIT_FOREVER, NULL);
    test_give(lease);
    taker_end(&t, HF_OK);
    assert_true(counts_are(wanted, 1, 0, 1));
    forget(name);
    hf_lock_free(held);
    hf_lock_free(wanted);
}

/* A permit of Redisson's without an end stands in the way until it is given
 * back; nobody warns of it or asks all the time. */
static void test_behind_an_endless_one(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    hf_lock *wanted = open_with(client, name, 1);
    assert_true(srv_cmd_is(server, "0", "DECRBY %s 1", name));
    free(srv_cmd(server, "ZADD {%s}:timeout 922337203685477 endless", name));
    expect(HF_NOT_ACQUIRED, hf_lock_try(wanted, NULL, &err));
    assert_null(strstr(hf_error_text(&err), " ms")); /* nobody knows when */
    taker_park(server, &t, wanted, HF_WAIT_FOREVER, NULL);
    assert_true(counts_are(wanted, 0, 1, 1));
    free(srv_cmd(server, "EVAL %s 1 %s",
                 "redis.call('zrem', '{' .. KEYS[1] .. '}:timeout', 'endless') "
                 "redis.call('publish', 'redisson_sc:{' .. KEYS[1] .. '}', "
                 "redis.call('incrby', KEYS[1], 1))",
                 name));
    taker_end(&t, HF_OK);
    assert_true(counts_are(wanted, 1, 0, 1));
    forget(name);
    hf_lock_free(wanted);
}

/* One message for many. */
static void test_added_to_many(void **state)
{
    (void)state;
    taker takers[3];
    const char *name = test_fresh_name();
    hf_lock *wanted = open_with(client, name, 0);
    hf_lock *giver = sync_permits(other, name);
    taker_park(server, &takers[0], wanted, HF_WAIT_FOREVER, NULL);
    for (int i = 1; i < 3; i++) {
        taker_start(&takers[i], wanted, HF_WAIT_FOREVER, NULL);
        assert_true(test_wait_calls(server, "evalsha", 2 + i));
    }
    expect(HF_OK, hf_permits_add(giver, 3, &err));
    for (int i = 0; i < 3; i++) {
        taker_join(&takers[i]);
        test_expect(HF_OK, takers[i].status, &takers[i].err, "acquire",
                    __FILE__, __LINE__);
    }
    assert_true(counts_are(wanted, 0, 3, 3));
    for (int i = 0; i < 3; i++) {
        test_give(takers[i].lease);
    }
    forget(name);
    hf_lock_free(wanted);
    hf_lock_free(giver);
}

static void test_time_out_and_cancel(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    hf_lock *wanted = open_with(client, name, 1);
    hf_lease *lease = test_take(wanted);
    hf_cancel *cancel = hf_cancel_new();
    expect(HF_NOT_ACQUIRED, hf_lock_acquire(wanted, 50, NULL, &err));
    test_reset_calls(server);
    taker_start(&t, wanted, HF_WAIT_FOREVER, cancel);
    assert_true(test_wait_calls(server, "evalsha", 1));
    hf_cancel_fire(cancel);
    taker_end(&t, HF_CANCELLED);
    test_give(lease);
    assert_true(counts_become(wanted, 1, 0));
    hf_cancel_free(cancel);
    forget(name);
    hf_lock_free(wanted);
}

/* ---- many at once */

#define THREADS 8
#define PERMITS 3

typedef struct crowd {
    hf_lock *permits;
    int rounds;
    _Atomic int inside;
    _Atomic int most;
} crowd;

static void *pass(void *arg)
{
    crowd *c = arg;
    for (int i = 0; i < c->rounds; i++) {
        hf_lease *lease = NULL;
        must_be(HF_OK,
                hf_lock_acquire(c->permits, HF_WAIT_FOREVER, &lease, &err));
        int inside = atomic_fetch_add(&c->inside, 1) + 1;
        int most = atomic_load(&c->most);
        while (inside > most &&
               !atomic_compare_exchange_weak(&c->most, &most, inside)) {
        }
        (void)atomic_fetch_sub(&c->inside, 1);
        must_be(HF_OK, hf_lease_release(lease, &err));
        hf_lease_free(lease);
    }
    return NULL;
}

static void test_crowd(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(client, name, PERMITS);
    crowd c = {.permits = permits, .rounds = test_scaled(20)};
    for (int i = 0; i < THREADS; i++) {
        threads[i] = test_thread(pass, &c);
    }
    for (int i = 0; i < THREADS; i++) {
        test_join(threads[i]);
    }
    assert_in_range(atomic_load(&c.most), 1, PERMITS);
    assert_true(counts_are(permits, PERMITS, 0, PERMITS));
    forget(name);
    hf_lock_free(permits);
}

/* ---- refusals */

static void test_arguments(void **state)
{
    (void)state;
    int64_t number = 7;
    hf_lock *plain = test_lock(client, test_fresh_name());
    hf_lock *permits = sync_permits(client, test_fresh_name());
    expect(HF_EINVAL, hf_permits_set(plain, 1, &err));
    expect(HF_EINVAL, hf_permits_try_set(plain, 1, NULL, &err));
    expect(HF_EINVAL, hf_permits_add(plain, 1, &err));
    expect(HF_EINVAL, hf_permits_available(plain, &number, &err));
    expect(HF_EINVAL, hf_permits_acquired(NULL, &number, &err));
    expect(HF_EINVAL, hf_permits_total(NULL, &number, &err));
    expect(HF_EINVAL, hf_permits_set(permits, -1, &err));
    expect(HF_EINVAL, hf_permits_try_set(permits, INT64_MAX, NULL, &err));
    expect(HF_EINVAL, hf_permits_add(permits, INT64_MIN, &err));
    expect(HF_OK, hf_permits_add(permits, 0, &err));
    assert_int_equal(number, 7);
    hf_lock_free(plain);
    hf_lock_free(permits);
}

/* Nothing is half done. */
static void test_keys_of_another_sort(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(client, name, 1);
    assert_true(srv_cmd_is(server, "OK", "SET {%s}:timeout x", name));
    expect(HF_EWRONGTYPE, hf_lock_try(permits, NULL, &err));
    assert_true(srv_cmd_is(server, "1", "GET %s", name));
    forget(name);
    assert_true(srv_cmd_is(server, "1", "RPUSH %s x", name));
    expect(HF_EWRONGTYPE, hf_lock_try(permits, NULL, &err));
    assert_true(srv_cmd_is(server, "0", "EXISTS {%s}:timeout", name));
    forget(name);
    assert_true(srv_cmd_is(server, "OK", "SET %s 2.5", name));
    expect(HF_ESERVER, hf_lock_try(permits, NULL, &err));
    assert_true(srv_cmd_is(server, "0", "EXISTS {%s}:timeout", name));
    forget(name);
    hf_lock_free(permits);
}

/* F20: what is held goes on and can be given back, nothing new is had. */
static void test_out_of_memory(void **state)
{
    (void)state;
    hf_client_options options = test_watchdog(2000);
    hf_client *watched = test_client(srv_url(server), &options);
    const char *name = test_fresh_name();
    hf_lock *permits = open_with(watched, name, 2);
    hf_lease *lease = test_take(permits);
    long long begin = score_of(name, lease);
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    assert_true(srv_cmd_is(server, "OK", "CONFIG SET maxmemory 1"));
    expect(HF_ESERVER, hf_lock_try(permits, NULL, &err));
    while (score_of(name, lease) < begin + 900) {
        assert_true(test_pause(deadline));
    }
    test_give(lease);
    assert_true(srv_cmd_is(server, "OK", "CONFIG SET maxmemory 0"));
    assert_true(counts_are(permits, 2, 0, 2));
    forget(name);
    hf_lock_free(permits);
    hf_client_free(watched);
}

static void test_missing_permission(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    assert_true(srv_cmd_is(server, "OK",
                           "ACL SETUSER app reset on >x +@all -decrby ~* &*"));
    char *url = test_text("redis://app:x@127.0.0.1:%d", srv_port(server));
    hf_client *app = test_client(url, NULL);
    hf_lock *permits = sync_permits(app, name);
    assert_true(srv_cmd_is(server, "OK", "SET %s 1", name));
    expect(HF_EPERM, hf_lock_try(permits, NULL, &err));
    assert_non_null(strstr(hf_error_text(&err), "decrby"));
    assert_true(srv_cmd_is(server, "0", "EXISTS {%s}:timeout", name));
    hf_lock_free(permits);
    hf_client_free(app);
    free(srv_cmd(server, "ACL DELUSER app"));
    forget(name);
    free(url);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        SYNC_TEST(test_try_set_once),
        SYNC_TEST(test_set_the_total),
        SYNC_TEST(test_add),
        SYNC_TEST(test_state_of_a_permit),
        SYNC_TEST(test_many_of_one_thread),
        SYNC_TEST(test_looks),
        SYNC_TEST(test_force),
        SYNC_TEST(test_fixed_lease_ends),
        SYNC_TEST(test_ended_ones_are_counted),
        SYNC_TEST(test_ended_ones_are_taken),
        SYNC_TEST(test_renewed),
        SYNC_TEST(test_lost),
        SYNC_TEST(test_holder_is_killed),
        SYNC_TEST(test_handed_on),
        SYNC_TEST(test_behind_an_endless_one),
        SYNC_TEST(test_added_to_many),
        SYNC_TEST(test_time_out_and_cancel),
        SYNC_TEST(test_crowd),
        SYNC_TEST(test_arguments),
        SYNC_TEST(test_keys_of_another_sort),
        SYNC_TEST(test_out_of_memory),
        SYNC_TEST(test_missing_permission),
    };
    return cmocka_run_group_tests(tests, sync_setup, fixture_end);
}
