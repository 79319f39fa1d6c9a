/* The fenced lock: its token is larger at each grant, whoever was granted
 * before, in whichever language, and whatever has become of the counter. */
#include "support/ear.h"
#include "support/fixture.h"
#include "support/net.h"
#include "support/proxy.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FOREIGN_OWNER "1b2c3d4e-5f60-4718-9a0b-c1d2e3f4a5b6:42"
#define HOUR_MS (INT64_C(3600) * 1000)

static hf_lock *fenced(hf_client *of, const char *name, int64_t token_life_ms)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = HF_KIND_FENCED;
    options.token_life_ms = token_life_ms;
    hf_lock *lock = hf_lock_open_with(of, name, strlen(name), &options, &err);
    assert_non_null(lock);
    return lock;
}

/* Valid until the next call. */
static const char *counter_of(const char *name)
{
    static char counter[128];
    (void)snprintf(counter, sizeof(counter),
                   strchr(name, '{') ? "redisson_lock_token:%s"
                                     : "redisson_lock_token:{%s}",
                   name);
    return counter;
}

static uint64_t counted(srv *on, const char *name)
{
    return (uint64_t)srv_cmd_int(on, "GET %s", counter_of(name));
}

/* The server's, in microseconds. */
static uint64_t server_time(void)
{
    char *text = srv_cmd(server, "TIME");
    char *end = NULL;
    uint64_t seconds = strtoull(text, &end, 10);
    uint64_t time = seconds * 1000000 + strtoull(end, NULL, 10);
    free(text);
    return time;
}

static uint64_t take_and_give(hf_lock *lock)
{
    hf_lease *lease = test_take(lock);
    uint64_t token = hf_lease_token(lease);
    test_give(lease);
    return token;
}

static void drop_counter(const char *name)
{
    assert_true(srv_cmd_is(server, "1", "DEL %s", counter_of(name)));
}

/* ---- Redisson's, played by plain commands (wire-protocol 11) */

/* Its acquire: -1 and the token if granted, else the remaining time and -1. */
static const char foreign_lock[] =
    "local free = redis.call('exists', KEYS[1]) == 0 "
    "if free or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then "
    "  local token = redis.call('incr', KEYS[2]) "
    "  redis.call('hincrby', KEYS[1], ARGV[2], 1) "
    "  redis.call('pexpire', KEYS[1], ARGV[1]) "
    "  return {-1, token} "
    "end "
    "return {redis.call('pttl', KEYS[1]), -1}";

static uint64_t foreign_take(const char *name)
{
    char *reply = srv_cmd(server, "EVAL %s 2 %s %s 30000 %s", foreign_lock,
                          name, counter_of(name), FOREIGN_OWNER);
    char *end = NULL;
    long long granted = strtoll(reply, &end, 10);
    uint64_t token = strtoull(end, NULL, 10);
    assert_int_equal(granted, -1);
    free(reply);
    return token;
}

static bool foreign_is_refused(const char *name)
{
    char *reply = srv_cmd(server, "EVAL %s 2 %s %s 30000 %s", foreign_lock,
                          name, counter_of(name), FOREIGN_OWNER);
    char *end = NULL;
    long long remaining = strtoll(reply, &end, 10);
    bool refused = remaining > 0 && strcmp(end, " -1") == 0;
    free(reply);
    return refused;
}

static void foreign_give(const char *name)
{
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
}

/* ---- tokens */

/* What is on the server is a lock's hash, and a decimal without an end. */
static void test_a_grant(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = fenced(client, name, 0);
    (void)take_and_give(lock); /* the client's first publishes a probe */
    drop_counter(name);
    ear *e = ear_of_lock(server, name);
    uint64_t before = server_time();
    hf_lease *lease = test_take(lock);
    uint64_t after = server_time();
    assert_true(hf_lease_token(lease) >= before);
    assert_true(hf_lease_token(lease) <= after);
    assert_true(test_is_held(server, name, hf_lease_owner_id(lease), 1));
    char *text = test_text("%" PRIu64, hf_lease_token(lease));
    assert_true(srv_cmd_is(server, text, "GET %s", counter_of(name)));
    assert_true(srv_cmd_is(server, "-1", "PTTL %s", counter_of(name)));
    assert_true(srv_cmd_is(server, "2", "DBSIZE"));
    assert_in_range(srv_cmd_int(server, "PTTL %s", name),
                    HOUR_MS - TEST_LIMIT_MS, HOUR_MS);
    test_give(lease);
    assert_true(ear_hears(e, "0"));
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    assert_true(srv_cmd_is(server, text, "GET %s", counter_of(name)));
    free(text);
    ear_free(e);
    drop_counter(name);
    hf_lock_free(lock);
}

/* A lease's token is that of its acquisition, whoever came later. */
static void test_a_lease_has_its_own_token(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *mine = fenced(client, name, 0);
    hf_lock *theirs = fenced(other, name, 0);
    hf_lease *first = test_take(mine);
    uint64_t token = hf_lease_token(first);
    expect(HF_OK, hf_lease_release(first, &err));
    hf_lease *second = test_take(theirs);
    assert_true(hf_lease_token(second) > token);
    assert_int_equal(hf_lease_token(second), counted(server, name));
    assert_int_equal(hf_lease_token(first), token);
    assert_true(foreign_is_refused(name));
    test_give(second);
    hf_lease *third = test_take(mine);
    assert_int_equal(hf_lease_token(first), token);
    test_give(third);
    hf_lease_free(first);
    drop_counter(name);
    hf_lock_free(mine);
    hf_lock_free(theirs);
}

/* R18: the same again on re-entry, while the counter stands. */
static void test_reentry_has_the_same_token(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = fenced(client, name, 0);
    hf_lease *leases[3];
    for (int i = 0; i < 3; i++) {
        leases[i] = test_take(lock);
        assert_int_equal(hf_lease_token(leases[i]), hf_lease_token(leases[0]));
        assert_true(
            test_is_held(server, name, hf_lease_owner_id(leases[0]), i + 1));
    }
    assert_int_equal(counted(server, name), hf_lease_token(leases[0]));
    for (int i = 0; i < 3; i++) {
        test_give(leases[i]);
    }
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    drop_counter(name);
    hf_lock_free(lock);
}

/* R18: strictly rising, over programs, languages and ways to hold. */
static void test_tokens_rise_beside_redisson(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *mine = fenced(client, name, 0);
    hf_lock *theirs = fenced(other, name, 0);
    uint64_t last = foreign_take(name); /* its first: 1 */
    assert_int_equal(last, 1);
    foreign_give(name);
    for (int i = 0; i < 60; i++) {
        uint64_t token = 0;
        if (i % 3 == 2) {
            token = foreign_take(name);
            expect(HF_NOT_ACQUIRED, hf_lock_try(mine, NULL, &err));
            foreign_give(name);
            assert_int_equal(token, last + 1); /* INCR goes on from ours */
        } else {
            token = take_and_give(i % 3 == 0 ? mine : theirs);
        }
        assert_true(token > last);
        last = token;
    }
    assert_int_equal(counted(server, name), last);
    drop_counter(name);
    hf_lock_free(mine);
    hf_lock_free(theirs);
}

/* What a resource behind the lock sees. */
typedef struct resource {
    const char *name;
    uint64_t largest;
    int writes;
} resource;

#define WRITERS 4
#define WRITES 25

typedef struct writer {
    hf_client *client;
    resource *resource;
} writer;

static void *write_fenced(void *arg)
{
    writer *w = arg;
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = HF_KIND_FENCED;
    hf_lock *lock =
        hf_lock_open_with(w->client, w->resource->name,
                          strlen(w->resource->name), &options, &err);
    must(lock != NULL);
    for (int i = 0; i < test_scaled(WRITES); i++) {
        hf_lease *lease = NULL;
        must_be(HF_OK, hf_lock_acquire(lock, HF_WAIT_FOREVER, &lease, &err));
        must(hf_lease_token(lease) > w->resource->largest);
        w->resource->largest = hf_lease_token(lease);
        w->resource->writes++;
        test_give(lease);
    }
    hf_lock_free(lock);
    return NULL;
}

static void test_a_resource_sees_tokens_rise(void **state)
{
    (void)state;
    resource shared = {.name = test_fresh_name()};
    writer writers[WRITERS];
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (writer){i % 2 ? client : other, &shared};
        threads[i] = test_thread(write_fenced, &writers[i]);
    }
    for (int i = 0; i < WRITERS; i++) {
        test_join(threads[i]);
    }
    assert_int_equal(shared.writes, WRITERS * test_scaled(WRITES));
    drop_counter(shared.name);
}

/* ---- the counter is lost, set back, far ahead */

static void test_a_lost_counter(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = fenced(client, name, 0);
    uint64_t last = take_and_give(lock);
    drop_counter(name);
    uint64_t token = take_and_give(lock);
    assert_true(token > last);
    last = token;
    assert_true(srv_cmd_is(server, "OK", "SET %s 3", counter_of(name)));
    token = take_and_give(lock);
    assert_true(token > last);
    drop_counter(name);
    hf_lock_free(lock);
}

/* Lost while the lock is held: no token is given that has been given before,
 * and what is held goes on. */
static void test_a_counter_lost_while_held(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = fenced(client, name, 0);
    hf_lease *first = test_take(lock);
    drop_counter(name);
    hf_lease *second = test_take(lock);
    assert_true(hf_lease_token(second) > hf_lease_token(first));
    assert_int_equal(counted(server, name), hf_lease_token(second));
    assert_true(test_is_held(server, name, hf_lease_owner_id(first), 2));
    assert_true(hf_lease_is_held(first));
    test_give(second);
    test_give(first);
    drop_counter(name);
    hf_lock_free(lock);
}

/* Set back while the lock is held, by whatever: an older token is refused. */
static void test_a_counter_set_back_while_held(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = fenced(client, name, 0);
    hf_lease *first = test_take(lock);
    assert_true(srv_cmd_is(server, "OK", "SET %s 3", counter_of(name)));
    expect(HF_EPROTOCOL, hf_lock_try(lock, NULL, &err));
    assert_non_null(strstr(hf_error_text(&err), "token 3 "));
    char *one = test_text("%s 1", hf_lease_owner_id(first));
    assert_true(srv_cmd_becomes(server, one, "HGETALL %s", name));
    free(one);
    test_give(first);
    drop_counter(name);
    hf_lock_free(lock);
}

/* As after a step back of the server's clock; and beyond what a double can
 * tell apart. */
static void test_a_counter_ahead(void **state)
{
    (void)state;
    static const char *const ahead[] = {
        "4000000000000000",    /* the year 2096 */
        "9007199254740992",    /* 2^53 */
        "1152921504606846977", /* 2^60 + 1 */
    };
    const char *name = test_fresh_name();
    hf_lock *mine = fenced(client, name, 0);
    hf_lock *theirs = fenced(other, name, HOUR_MS);
    for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
        uint64_t last = strtoull(ahead[i], NULL, 10);
        assert_true(
            srv_cmd_is(server, "OK", "SET %s %s", counter_of(name), ahead[i]));
        assert_int_equal(take_and_give(mine), last + 1);
        assert_int_equal(take_and_give(theirs), last + 2);
        assert_in_range(srv_cmd_int(server, "PTTL %s", counter_of(name)), 1,
                        HOUR_MS);
        (void)foreign_take(name); /* what it answers was a double */
        foreign_give(name);
        assert_int_equal(counted(server, name), last + 3);
        assert_int_equal(take_and_give(mine), last + 4);
        assert_true(srv_cmd_is(server, "-1", "PTTL %s", counter_of(name)));
    }
    drop_counter(name);
    hf_lock_free(mine);
    hf_lock_free(theirs);
}

/* Nothing is half done when the counter cannot be counted. */
static void test_a_counter_that_is_none(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = fenced(client, name, 0);
    assert_true(srv_cmd_is(server, "1", "RPUSH %s 5", counter_of(name)));
    expect(HF_EWRONGTYPE, hf_lock_try(lock, NULL, &err));
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    drop_counter(name);
    static const char *const texts[] = {"none", "9223372036854775807", ""};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_true(
            srv_cmd_is(server, "OK", "SET %s %s", counter_of(name), texts[i]));
        expect(HF_ESERVER, hf_lock_try(lock, NULL, &err));
        assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
        assert_true(srv_cmd_is(server, texts[i], "GET %s", counter_of(name)));
    }
    drop_counter(name);
    hf_lock_free(lock);
}

/* F53: a failover to a replica that has not heard of the last grants, as
 * replication is asynchronous. */
static void test_a_failover_that_lost_grants(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    const char *name = test_fresh_name();
    char *port = test_text("%d", srv_port(server));
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, NULL};
    hf_lock *before = fenced(client, name, 0);
    assert_true(
        srv_cmd_is(server, "OK", "CONFIG SET repl-diskless-sync-delay 0"));
    srv *replica = srv_start(extra);
    char *copied = test_text("%" PRIu64, take_and_give(before));
    assert_true(srv_cmd_becomes(replica, copied, "GET %s", counter_of(name)));
    assert_true(srv_cmd_becomes(replica, "0", "EXISTS %s", name));
    assert_true(srv_cmd_is(replica, "OK", "REPLICAOF NO ONE"));
    uint64_t last = 0;
    for (int i = 0; i < 3; i++) {
        last = take_and_give(before);
    }
    assert_true(srv_cmd_is(replica, copied, "GET %s", counter_of(name)));
    hf_client *promoted = test_client(srv_url(replica), &options);
    hf_lock *after = fenced(promoted, name, 0);
    assert_true(take_and_give(after) > last);
    hf_lock_free(after);
    hf_client_free(promoted);
    srv_stop(replica);
    free(copied);
    free(port);
    drop_counter(name);
    hf_lock_free(before);
}

/* The reply of a grant is lost: there is one hold, and its token is larger
 * than the one that nobody heard. */
static void test_a_lost_reply(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    options.command_timeout_ms = 300;
    const char *name = test_fresh_name();
    proxy *net = proxy_start(srv_socket(server));
    hf_client *behind = test_client(proxy_url(net), &options);
    hf_lock *lock = fenced(behind, name, 0);
    uint64_t before = take_and_give(lock);
    hf_lease *lease = NULL;
    test_reset_calls(server);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_DROP_NEXT);
    expect(HF_OK, hf_lock_acquire(lock, TEST_LIMIT_MS, &lease, &err));
    assert_true(proxy_counts(net).dropped[PROXY_TO_CLIENT] > 0);
    assert_true(test_calls(server, "hincrby") >= 2);
    assert_true(hf_lease_token(lease) > before);
    assert_int_equal(hf_lease_token(lease), counted(server, name));
    assert_true(test_is_held(server, name, hf_lease_owner_id(lease), 1));
    test_give(lease);
    hf_lock_free(lock);
    hf_client_free(behind);
    proxy_stop(net);
    drop_counter(name);
}

/* ---- the hash */

/* Section 11: Redisson takes a remaining time of -1 for a grant. */
static void test_a_hash_without_an_end(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = fenced(client, name, 0);
    assert_true(srv_cmd_is(server, "1", "HSET %s " FOREIGN_OWNER " 1", name));
    expect(HF_NOT_ACQUIRED, hf_lock_try(lock, NULL, &err));
    assert_non_null(strstr(hf_error_text(&err), "without an end"));
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", counter_of(name)));
    assert_true(test_is_held(server, name, FOREIGN_OWNER, 1));
    foreign_give(name);

    /* The owner's own gets one again, and no token of its own. */
    hf_lease *first = test_take(lock);
    assert_true(srv_cmd_is(server, "1", "PERSIST %s", name));
    hf_lease *second = test_take(lock);
    assert_int_equal(hf_lease_token(second), hf_lease_token(first));
    assert_in_range(srv_cmd_int(server, "PTTL %s", name), 1, HOUR_MS);
    test_give(second);
    test_give(first);
    drop_counter(name);
    hf_lock_free(lock);
}

static void test_a_key_of_another_type(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = fenced(client, name, 0);
    assert_true(srv_cmd_is(server, "OK", "SET %s text", name));
    expect(HF_EWRONGTYPE, hf_lock_try(lock, NULL, &err));
    assert_true(srv_cmd_is(server, "text", "GET %s", name));
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", counter_of(name)));
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
    hf_lock_free(lock);
}

/* It shares its hash with the reentrant lock: they exclude one another. */
static void test_beside_a_reentrant_lock(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = fenced(client, name, 0);
    hf_lock *plain = test_lock(other, name);
    taker t;
    hf_lease *lease = test_take(lock);
    int locked = 0;
    expect(HF_OK, hf_lock_is_locked(plain, &locked, &err));
    assert_true(locked);
    taker_park(server, &t, plain, HF_WAIT_FOREVER, NULL);
    test_give(lease);
    taker_end(&t, HF_OK);
    lease = test_take(plain);
    assert_int_equal(hf_lease_token(lease), 0);
    taker_park(server, &t, lock, HF_WAIT_FOREVER, NULL);
    test_give(lease);
    taker_join(&t);
    expect(HF_OK, t.status);
    assert_int_equal(hf_lease_token(t.lease), counted(server, name));
    int released = 0;
    expect(HF_OK, hf_lock_force_release(lock, &released, &err));
    assert_true(released);
    assert_int_equal(hf_lease_loss(t.lease), HF_LOSS_REVOKED);
    assert_true(take_and_give(lock) > hf_lease_token(t.lease));
    hf_lease_free(t.lease);
    drop_counter(name);
    hf_lock_free(plain);
    hf_lock_free(lock);
}

/* ---- the counter's life */

static int64_t counter_life(const char *name)
{
    return srv_cmd_int(server, "PTTL %s", counter_of(name));
}

static void test_the_counter_may_have_an_end(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *brief = fenced(client, name, 20);
    hf_lock *longer = fenced(client, name, 3 * HOUR_MS);
    hf_lock *forever = fenced(client, name, 0);
    hf_lease *lease = test_take(longer);
    assert_in_range(counter_life(name), 3 * HOUR_MS - TEST_LIMIT_MS,
                    3 * HOUR_MS);
    /* Each grant renews it, a second one by the same owner, too. */
    assert_true(
        srv_cmd_is(server, "1", "PEXPIRE %s 7200000", counter_of(name)));
    hf_lease *again = test_take(longer);
    assert_in_range(counter_life(name), 3 * HOUR_MS - TEST_LIMIT_MS,
                    3 * HOUR_MS);
    test_give(again);
    test_give(lease);
    /* Never does it end before the lock. */
    lease = test_take(brief);
    assert_in_range(counter_life(name), HOUR_MS - TEST_LIMIT_MS, HOUR_MS);
    again = test_take(brief);
    assert_in_range(counter_life(name), HOUR_MS - TEST_LIMIT_MS,
                    HOUR_MS + TEST_LIMIT_MS);
    test_give(again);
    test_give(lease);
    (void)take_and_give(forever);
    assert_int_equal(counter_life(name), -1);
    drop_counter(name);
    hf_lock_free(brief);
    hf_lock_free(longer);
    hf_lock_free(forever);
}

static void wait_for_renewal(void)
{
    test_reset_calls(server);
    /* One for the lock, and one for the counter. */
    assert_true(test_wait_calls(server, "pexpire", 2));
}

/* A renewal lets the counter live as long as the lock; it takes nothing from
 * one that lives longer, or for ever. */
static void counter_renewed(const char *name)
{
    hf_client_options options = test_watchdog(3000);
    hf_client *renewing = test_client(srv_url(server), &options);
    hf_lock *lock = fenced(renewing, name, 20);
    hf_lease *lease = test_take(lock);
    assert_in_range(counter_life(name), 1, 3000);
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    assert_true(srv_cmd_is(server, "1", "PEXPIRE %s 2000", counter_of(name)));
    while (counter_life(name) <= 2000) {
        assert_true(test_pause(deadline));
    }
    assert_true(
        srv_cmd_is(server, "1", "PEXPIRE %s 3600000", counter_of(name)));
    wait_for_renewal();
    assert_in_range(counter_life(name), HOUR_MS / 2, HOUR_MS);
    assert_true(srv_cmd_is(server, "1", "PERSIST %s", counter_of(name)));
    wait_for_renewal();
    assert_int_equal(counter_life(name), -1);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    assert_int_equal(counted(server, name), hf_lease_token(lease));
    test_give(lease);
    drop_counter(name);
    hf_lock_free(lock);
    hf_client_free(renewing);
}

static void test_renewal_keeps_the_counter(void **state)
{
    (void)state;
    counter_renewed(test_fresh_name());
    counter_renewed("{tag}:braced");
}

/* One renewal for many, of which one is gone, one is another's by now, one is
 * no lock any more. */
static void test_renewal_tells_losses(void **state)
{
    (void)state;
    static const char *const names[] = {"kept", "gone", "taken", "text"};
    hf_client_options options = test_watchdog(3000);
    hf_client *renewing = test_client(srv_url(server), &options);
    hf_lock *locks[4];
    hf_lease *leases[4];
    for (int i = 0; i < 4; i++) {
        locks[i] = fenced(renewing, names[i], 0);
        leases[i] = test_take(locks[i]);
    }
    assert_true(srv_cmd_is(server, "3", "DEL gone taken text"));
    assert_true(srv_cmd_is(server, "1", "HSET taken " FOREIGN_OWNER " 1"));
    assert_true(srv_cmd_is(server, "OK", "SET text text"));
    for (int i = 1; i < 4; i++) {
        int fd = hf_lease_fd(leases[i], &err);
        assert_true(test_wait_readable(fd));
        assert_int_equal(hf_lease_loss(leases[i]), HF_LOSS_REVOKED);
        expect(HF_ELOST, hf_lease_release(leases[i], &err));
    }
    wait_for_renewal();
    assert_int_equal(hf_lease_get_state(leases[0]), HF_LEASE_HELD);
    assert_true(test_is_held(server, "taken", FOREIGN_OWNER, 1));
    assert_true(srv_cmd_is(server, "text", "GET text"));
    expect(HF_OK, hf_lease_release(leases[0], &err));
    assert_true(srv_cmd_is(server, "2", "DEL taken text"));
    for (int i = 0; i < 4; i++) {
        hf_lease_free(leases[i]);
        hf_lock_free(locks[i]);
        drop_counter(names[i]);
    }
    hf_client_free(renewing);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_a_grant),
        FIXTURE_TEST(test_a_lease_has_its_own_token),
        FIXTURE_TEST(test_reentry_has_the_same_token),
        FIXTURE_TEST(test_tokens_rise_beside_redisson),
        FIXTURE_TEST(test_a_resource_sees_tokens_rise),
        FIXTURE_TEST(test_a_lost_counter),
        FIXTURE_TEST(test_a_counter_lost_while_held),
        FIXTURE_TEST(test_a_counter_set_back_while_held),
        FIXTURE_TEST(test_a_counter_ahead),
        FIXTURE_TEST(test_a_counter_that_is_none),
        FIXTURE_TEST(test_a_failover_that_lost_grants),
        FIXTURE_TEST(test_a_lost_reply),
        FIXTURE_TEST(test_a_hash_without_an_end),
        FIXTURE_TEST(test_a_key_of_another_type),
        FIXTURE_TEST(test_beside_a_reentrant_lock),
        FIXTURE_TEST(test_the_counter_may_have_an_end),
        FIXTURE_TEST(test_renewal_keeps_the_counter),
        FIXTURE_TEST(test_renewal_tells_losses),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, fixture_patient, fixture_end);
}
