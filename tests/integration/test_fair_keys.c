/* The scripts of the fair lock on a real server: what they leave in its queue,
 * and whom they tell, is what Redisson's fair lock does, but for what
 * wire-protocol 23 calls its defects. The lock is always "f". */
#include "kinds/fair.h"
#include "support/ear.h"
#include "support/fixture.h"
#include "support/net.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LEASE 30000
#define TIMEOUTS "redisson_lock_timeout:{f}"
#define QUEUE "redisson_lock_queue:{f}"
#define CHANNEL "redisson_lock__channel:{f}"
/* How far a time may be off that is not copied from another: much longer than
 * a script takes, shorter than the waits that are told apart. */
#define SLACK 4000

/* ---- what is said */

typedef struct asking {
    const hf__kind *kind;
    const char *own;
    hf__wish wish;
    bool again; /* it has it already */
} asking;

/* A wait of that long; 0: one try; below 0: without an end, by one that is
 * believed to live for so long. */
static asking as(const char *own, int64_t wait_ms)
{
    return (asking){.kind = &hf__kind_fair,
                    .own = own,
                    .wish = {.wait_ms = wait_ms < 0 ? -1 : wait_ms,
                             .fair_wait_ms = wait_ms < 0 ? -wait_ms : 300000}};
}

static asking once(const char *own, int64_t wait_ms)
{
    asking who = as(own, wait_ms);
    who.kind = &hf__kind_fair_once;
    return who;
}

static hf__asker asker_of(const asking *who)
{
    return (hf__asker){.name = HF__LITERAL("f"),
                       .channel = HF__LITERAL(CHANNEL),
                       .names = {HF__LITERAL(QUEUE), HF__LITERAL(TIMEOUTS)},
                       .owner = hf__slice_of(who->own),
                       .wish = who->wish,
                       .again = who->again};
}

/* The script's reply. No argument has a space or a percent sign. */
static char *say(const hf__call *call)
{
    char *line = test_text("EVAL %%b %zu", call->keys);
    for (size_t i = 0; i < call->count; i++) {
        char *longer = test_text("%s %.*s", line, (int)call->args[i].length,
                                 call->args[i].data);
        free(line);
        line = longer;
    }
    char *reply =
        srv_cmd(server, line, call->script->text, call->script->length);
    free(line);
    return reply;
}

static bool is_reply(char *reply, const char *expected)
{
    bool same = strcmp(reply, expected) == 0;
    if (!same) {
        print_error("replied \"%s\", expected \"%s\"\n", reply, expected);
    }
    free(reply);
    return same;
}

static char *say_acquire(asking who, int64_t lease_ms)
{
    hf__call call;
    hf__asker asker = asker_of(&who);
    who.kind->acquire(&call, &asker, lease_ms);
    return say(&call);
}

/* The reply is that. "(nil)": fresh; "-3": for the second time, and so on. */
static bool takes(asking who, const char *reply)
{
    return is_reply(say_acquire(who, LEASE), reply);
}

/* It is not to be had; says when to ask again. */
static int64_t waits(asking who)
{
    char *reply = say_acquire(who, LEASE);
    char *end = NULL;
    int64_t again = strtoll(reply, &end, 10);
    if (end == reply || *end != '\0' || again < -1) {
        print_error("replied \"%s\"\n", reply);
        fail();
    }
    free(reply);
    return again;
}

static bool keeps(asking who, int64_t remaining, const char *reply)
{
    hf__call call;
    hf__asker asker = asker_of(&who);
    who.kind->release(&call, &asker, remaining, LEASE);
    return is_reply(say(&call), reply);
}

/* Releases, or gives up waiting: then the reply is nil. */
static bool leaves(asking who, const char *reply)
{
    return keeps(who, 0, reply);
}

static bool forced(const char *reply)
{
    hf__call call;
    asking who = as("U:0", 0);
    hf__asker asker = asker_of(&who);
    who.kind->force(&call, &asker);
    return is_reply(say(&call), reply);
}

/* ---- what is there */

static int64_t now(void)
{
    char *time = srv_cmd(server, "TIME");
    char *usec = NULL;
    int64_t ms = strtoll(time, &usec, 10) * 1000;
    ms += strtoll(usec, NULL, 10) / 1000;
    free(time);
    return ms;
}

/* In the last millisecond of which the lock is held. */
static int64_t lock_end(void)
{
    return srv_cmd_int(server, "PEXPIRETIME f");
}

static int64_t score(const char *own)
{
    return srv_cmd_int(server, "ZSCORE " TIMEOUTS " %s", own);
}

static void set_score(const char *own, int64_t to)
{
    assert_true(srv_cmd_is(server, "0", "ZADD " TIMEOUTS " %lld %s",
                           (long long)to, own));
}

static void assert_near(int64_t value, int64_t expected)
{
    assert_in_range(value + SLACK - expected, 0, 2 * SLACK);
}

/* The owners of the queue, with a space between; as many have time-outs. */
static bool queue_is(const char *owners)
{
    return srv_cmd_is(server, owners, "LRANGE " QUEUE " 0 -1") &&
           srv_cmd_int(server, "LLEN " QUEUE) ==
               srv_cmd_int(server, "ZCARD " TIMEOUTS);
}

static bool is_held(const char *own, int64_t count)
{
    return test_is_held(server, "f", own, count);
}

static bool nothing_is_left(void)
{
    return srv_cmd_is(server, "0", "DBSIZE");
}

static ear *ear_of(const char *own)
{
    char *channel = test_text(CHANNEL ":%s", own);
    ear *e = ear_subscribe(server, channel, strlen(channel));
    free(channel);
    return e;
}

/* ---- the walk-through of wire-protocol 26 */

static void test_walk_through(void **state)
{
    (void)state;
    ear *b = ear_of("U:2");
    ear *c = ear_of("U:3");
    int64_t before = 0;
    int64_t again = 0;
    assert_true(takes(as("U:1", 5000), "(nil)"));
    again = waits(as("U:2", 5000));
    assert_in_range(again, srv_cmd_int(server, "PTTL f"), 30000);
    assert_near(score("U:2"), lock_end() + 5000);
    before = now();
    again = waits(as("U:3", 5000));
    assert_in_range(again, score("U:2") - now(), score("U:2") - before);
    assert_int_equal(score("U:3"), score("U:2") + 5000);
    before = srv_cmd_int(server, "PTTL f");
    again = waits(as("U:2", 5000));
    assert_in_range(again, srv_cmd_int(server, "PTTL f"), before);
    assert_true(queue_is("U:2 U:3"));
    assert_int_equal(score("U:3"), score("U:2") + 5000);
    int64_t place = score("U:2");
    assert_true(leaves(as("U:1", 5000), "1"));
    assert_true(ear_hears(b, "0"));
    assert_true(takes(as("U:2", 5000), "(nil)"));
    assert_true(queue_is("U:3"));
    assert_int_equal(score("U:3"), place);
    assert_true(leaves(as("U:2", 5000), "1"));
    assert_true(ear_hears(c, "0"));
    assert_true(takes(as("U:3", 5000), "(nil)"));
    assert_true(leaves(as("U:3", 5000), "1"));
    assert_true(ear_heard_all(b, server));
    assert_true(ear_heard_all(c, server));
    assert_true(nothing_is_left());
    ear_free(b);
    ear_free(c);
}

/* ---- without a queue */

/* A fresh acquire and its release: four commands and two. */
static void test_free_lock_costs_no_queue(void **state)
{
    (void)state;
    static const char *const none[] = {"time",   "zscore",  "zadd",   "zrem",
                                       "zrange", "lpop",    "lrem",   "lpos",
                                       "exists", "hexists", "publish"};
    test_reset_calls(server);
    assert_true(takes(as("U:1", -300000), "(nil)"));
    assert_true(leaves(as("U:1", -300000), "1"));
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(test_calls(server, none[i]), 0);
    }
    assert_int_equal(test_calls(server, "pttl"), 1);
    assert_int_equal(test_calls(server, "lindex"), 2);
    assert_int_equal(test_calls(server, "hset"), 1);
    assert_int_equal(test_calls(server, "pexpire"), 1);
    assert_int_equal(test_calls(server, "hdel"), 1);
    assert_true(nothing_is_left());
}

static void test_hold_counts(void **state)
{
    (void)state;
    asking who = as("U:1", 0);
    asking again = as("U:1", 5000);
    again.again = true;
    assert_true(takes(again, "-2")); /* what it has not, it does not get */
    assert_true(takes(who, "(nil)"));
    assert_true(takes(again, "-3"));
    assert_true(srv_cmd_is(server, "1", "PEXPIRE f 10000"));
    assert_true(takes(as("U:1", -300000), "-4"));
    assert_true(is_held("U:1", 3));
    assert_near(lock_end(), now() + LEASE);
    for (int i = 0; i < 2; i++) { /* to say it twice changes nothing */
        assert_true(srv_cmd_is(server, "1", "PEXPIRE f 10000"));
        assert_true(keeps(who, 2, "0"));
        assert_true(is_held("U:1", 2));
        assert_near(lock_end(), now() + LEASE);
    }
    assert_true(leaves(as("U:2", 0), "(nil)"));
    assert_true(keeps(as("U:2", 0), 1, "(nil)"));
    assert_true(is_held("U:1", 2));
    assert_true(leaves(who, "1"));
    assert_true(leaves(who, "(nil)"));
    assert_true(keeps(who, 1, "(nil)")); /* nothing comes to life */
    assert_true(nothing_is_left());
}

static void test_not_twice(void **state)
{
    (void)state;
    assert_true(takes(once("U:1", 0), "(nil)"));
    assert_true(takes(once("U:1", 0), "-3"));
    assert_true(takes(once("U:1", 5000), "-3"));
    assert_true(is_held("U:1", 1));
    assert_true(waits(as("U:2", 5000)) > 0); /* the same lock */
    assert_true(leaves(once("U:1", 0), "1"));
    assert_true(takes(once("U:2", 5000), "(nil)"));
    assert_true(leaves(once("U:2", 5000), "1"));
    assert_true(nothing_is_left());
}

/* ---- the queue */

/* A single try neither waits nor overtakes. */
static void test_single_try(void **state)
{
    (void)state;
    assert_true(takes(as("U:1", 0), "(nil)"));
    test_reset_calls(server);
    assert_in_range(waits(as("U:2", 0)), 1, LEASE);
    assert_int_equal(test_calls(server, "lindex"), 0); /* a try costs little */
    assert_int_equal(test_calls(server, "time"), 0);
    assert_true(is_held("U:1", 1));
    assert_int_equal(srv_cmd_int(server, "DBSIZE"), 1);
    assert_true(waits(as("U:3", 5000)) > 0);
    assert_true(leaves(as("U:1", 0), "1"));
    int64_t left = score("U:3") - now();
    assert_in_range(waits(as("U:2", 0)), 1, left);
    assert_true(queue_is("U:3"));
    assert_true(srv_cmd_is(server, "0", "EXISTS f"));
    assert_true(takes(as("U:3", 0), "(nil)")); /* the first's own */
    assert_true(leaves(as("U:3", 0), "1"));
    assert_true(nothing_is_left());
}

/* Only the first gets it; the others are told how long that may take, and not
 * to ask again at once (wire-protocol 23, 1). */
static void test_first_come_first_served(void **state)
{
    (void)state;
    static const char *const owners[] = {"U:2", "J:3", "U:4"};
    assert_true(takes(as("U:1", 0), "(nil)"));
    for (int i = 0; i < 3; i++) {
        assert_true(waits(as(owners[i], 5000)) > 0);
    }
    assert_true(queue_is("U:2 J:3 U:4"));
    assert_true(leaves(as("U:1", 0), "1"));
    for (int i = 0; i < 3; i++) {
        int64_t left = score(owners[i]) - now();
        for (int later = i + 1; later < 3; later++) {
            assert_in_range(waits(as(owners[later], 5000)), left - SLACK, left);
        }
        assert_true(takes(as(owners[i], 5000), "(nil)"));
        assert_true(waits(as("U:5", 0)) > 0);
        assert_true(leaves(as(owners[i], 5000), "1"));
    }
    assert_true(nothing_is_left());
}

/* Those who come while the lock is free, but not theirs. */
static void test_joining_behind_a_free_lock(void **state)
{
    (void)state;
    assert_true(takes(as("U:1", 0), "(nil)"));
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_true(leaves(as("U:1", 0), "1"));
    int64_t left = score("U:2") - now();
    assert_in_range(waits(as("U:3", 7000)), left - SLACK, left);
    assert_int_equal(score("U:3"), score("U:2") + 7000);
    assert_true(takes(as("U:2", 5000), "(nil)"));
    assert_true(leaves(as("U:2", 5000), "1"));
    assert_true(takes(as("U:3", 7000), "(nil)"));
    assert_true(leaves(as("U:3", 7000), "1"));
    assert_true(nothing_is_left());
}

/* ---- those who give up */

static void test_giving_up(void **state)
{
    (void)state;
    assert_true(takes(as("U:1", 0), "(nil)"));
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_true(waits(as("U:3", 7000)) > 0);
    assert_true(waits(as("U:4", 9000)) > 0);
    assert_true(waits(as("U:5", 3000)) > 0);
    int64_t first = score("U:2");
    assert_int_equal(score("U:5"), first + 19000);
    for (int i = 0; i < 2; i++) { /* to say it twice changes nothing */
        assert_true(leaves(as("U:3", 7000), "(nil)"));
        assert_true(queue_is("U:2 U:4 U:5"));
        assert_int_equal(score("U:2"), first);
        assert_int_equal(score("U:4"), first + 9000);
        assert_int_equal(score("U:5"), first + 12000);
    }
    assert_true(leaves(as("U:9", 5000), "(nil)")); /* was never there */
    assert_int_equal(score("U:5"), first + 12000);
    assert_true(leaves(as("U:5", 3000), "(nil)")); /* nobody is behind */
    assert_true(queue_is("U:2 U:4"));
    assert_int_equal(score("U:4"), first + 9000);
    assert_true(is_held("U:1", 1));
    assert_true(leaves(as("U:2", 5000), "(nil)"));
    assert_int_equal(score("U:4"), first + 4000);
    assert_true(leaves(as("U:4", 9000), "(nil)"));
    assert_true(leaves(as("U:1", 0), "1"));
    assert_true(nothing_is_left());
}

/* The lock was just offered to it: the next one is told. */
static void test_giving_up_what_is_offered(void **state)
{
    (void)state;
    ear *second = ear_of("U:3");
    assert_true(takes(as("U:1", 0), "(nil)"));
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_true(waits(as("U:3", 5000)) > 0);
    assert_true(leaves(as("U:3", 5000), "(nil)")); /* of a held lock */
    assert_true(waits(as("U:3", 5000)) > 0);
    assert_true(leaves(as("U:1", 0), "1"));
    assert_true(ear_heard_all(second, server));
    assert_true(leaves(as("U:2", 5000), "(nil)"));
    assert_true(ear_hears(second, "0"));
    assert_true(takes(as("U:3", 5000), "(nil)"));
    assert_true(leaves(as("U:3", 5000), "1"));
    assert_true(nothing_is_left());
    ear_free(second);
}

/* ---- the dead */

/* Each costs its own time-out, and nothing of the others'. */
static void test_dead_are_passed_over(void **state)
{
    (void)state;
    assert_true(takes(as("U:1", 0), "(nil)"));
    for (int i = 2; i <= 5; i++) {
        char *own = test_text("U:%d", i);
        assert_true(waits(as(own, 5000)) > 0);
        free(own);
    }
    int64_t last = score("U:5");
    assert_true(srv_cmd_is(server, "1", "DEL f"));
    assert_true(waits(as("U:5", 5000)) > 0);
    assert_true(queue_is("U:2 U:3 U:4 U:5"));
    set_score("U:2", now() - 1);
    set_score("U:3", now());
    assert_in_range(waits(as("U:5", 5000)), 1, score("U:4") - now() + SLACK);
    assert_true(queue_is("U:4 U:5"));
    assert_int_equal(score("U:5"), last);
    set_score("U:4", now() - 100000);
    assert_true(takes(as("U:5", 5000), "(nil)"));
    assert_true(leaves(as("U:5", 5000), "1"));
    assert_true(nothing_is_left());
}

/* When the first's time is over, that is when the next asks again. */
static void test_dead_cost_no_polling(void **state)
{
    (void)state;
    assert_true(takes(as("U:1", 0), "(nil)"));
    assert_true(waits(as("J:2", 300000)) > 0);
    assert_true(waits(as("U:3", -300000)) > 0);
    assert_true(leaves(as("U:1", 0), "1"));
    set_score("J:2", now() + 60000);
    assert_near(waits(as("U:3", -300000)), 60000);
    set_score("J:2", now());
    assert_true(takes(as("U:3", -300000), "(nil)"));
    assert_true(leaves(as("U:3", -300000), "1"));
    assert_true(nothing_is_left());
}

/* Wire-protocol 23, 3. */
static void test_first_without_time_out(void **state)
{
    (void)state;
    assert_true(takes(as("U:1", 0), "(nil)"));
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_true(waits(as("U:3", 5000)) > 0);
    assert_true(srv_cmd_is(server, "1", "ZREM " TIMEOUTS " U:2"));
    ear *second = ear_of("U:3");
    assert_true(leaves(as("U:1", 0), "1"));
    assert_true(ear_hears(second, "0"));
    assert_true(queue_is("U:3"));
    assert_true(takes(as("U:3", 5000), "(nil)"));
    assert_true(leaves(as("U:3", 5000), "1"));
    /* It need not be the first for good. */
    assert_true(srv_cmd_is(server, "1", "RPUSH " QUEUE " U:4"));
    assert_true(takes(as("U:5", 0), "(nil)"));
    assert_true(forced("1"));
    assert_true(nothing_is_left());
    ear_free(second);
}

/* ---- the living */

/* A hold may last longer than all time-outs: who asks gets a new one, and so do
 * those behind, of whom each keeps its distance. */
static void test_living_are_not_passed_over(void **state)
{
    (void)state;
    assert_true(takes(as("U:1", 0), "(nil)"));
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_true(waits(as("J:3", 7000)) > 0);
    int64_t place = score("U:2");
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_int_equal(score("U:2"), place); /* far enough ahead */
    set_score("U:2", now() + 2000);
    set_score("J:3", score("U:2") + 7000);
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_near(score("U:2"), lock_end() + 5000);
    assert_int_equal(score("J:3"), score("U:2") + 7000);
    /* As late as it may be: it lives, or it would not ask. */
    set_score("U:2", now() - 100000);
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_true(queue_is("U:2 J:3"));
    assert_near(score("U:2"), lock_end() + 5000);
    /* One in the middle moves those behind it only. */
    set_score("J:3", now() + 3000);
    place = score("U:2");
    assert_true(waits(as("U:4", 1000)) > 0);
    int64_t last = score("U:4") - score("J:3");
    assert_true(waits(as("J:3", 7000)) > 0);
    assert_int_equal(score("U:2"), place);
    assert_near(score("J:3"), lock_end() + 7000);
    assert_int_equal(score("U:4") - score("J:3"), last);
    assert_true(leaves(as("U:1", 0), "1"));
    set_score("U:2", now() - 100000);
    assert_true(takes(as("U:2", 5000), "(nil)"));
    assert_true(queue_is("J:3 U:4"));
    assert_true(score("J:3") > now());
    assert_true(srv_cmd_is(server, "3", "DEL f " QUEUE " " TIMEOUTS));
}

/* Each is left its own wait, whoever was ahead of it, and however long. */
static void test_living_keep_their_wait(void **state)
{
    (void)state;
    for (int gives_up = 0; gives_up < 2; gives_up++) {
        assert_true(takes(as("U:1", 0), "(nil)"));
        assert_true(waits(as("U:2", -300000)) > 0);
        set_score("U:2", now() + 150000); /* after a while */
        assert_true(waits(as("U:3", 20000)) > 0);
        if (gives_up) {
            assert_true(leaves(as("U:2", -300000), "(nil)"));
            assert_near(score("U:3"), now() + 20000);
            assert_true(leaves(as("U:1", 0), "1"));
        } else {
            assert_true(leaves(as("U:1", 0), "1"));
            assert_true(takes(as("U:2", -300000), "(nil)"));
            assert_near(score("U:3"), now() + 20000);
            assert_true(leaves(as("U:2", -300000), "1"));
        }
        assert_true(takes(as("U:3", 20000), "(nil)"));
        assert_true(leaves(as("U:3", 20000), "1"));
        assert_true(nothing_is_left());
    }
}

/* Who joins behind a time-out that has nearly passed lives as long as anyone
 * who joins an empty queue. */
static void test_joining_behind_the_dead(void **state)
{
    (void)state;
    assert_true(takes(as("U:1", 0), "(nil)"));
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_true(waits(as("J:3", 5000)) > 0);
    set_score("J:3", now() - 100000); /* behind another: not passed over yet */
    assert_true(waits(as("U:4", 5000)) > 0);
    assert_near(score("U:4"), lock_end() + 5000);
    assert_true(srv_cmd_is(server, "3", "DEL f " QUEUE " " TIMEOUTS));
}

/* A wait without an end asks often enough to be known to live. */
static void test_living_ask_in_time(void **state)
{
    (void)state;
    assert_true(takes(as("U:1", 0), "(nil)"));
    for (int i = 0; i < 2; i++) {
        assert_in_range(waits(as("U:2", -1000)), 1, 250);
    }
    assert_in_range(waits(as("U:3", -1)), 1, 1);
    assert_true(waits(as("U:4", 1000)) > LEASE / 2); /* it ends by itself */
    assert_true(srv_cmd_is(server, "3", "DEL f " QUEUE " " TIMEOUTS));
}

static void test_lock_without_end(void **state)
{
    (void)state;
    assert_true(srv_cmd_is(server, "1", "HSET f J:1 1"));
    assert_int_equal(waits(as("U:2", 0)), -1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waits(as("U:2", 5000)), -1);
        assert_near(score("U:2"), now() + 5000);
    }
    assert_int_equal(waits(as("U:3", -300000)), -1);
    assert_true(srv_cmd_is(server, "3", "DEL f " QUEUE " " TIMEOUTS));
}

/* As somebody may who tidies up. */
static void test_queue_is_deleted(void **state)
{
    (void)state;
    assert_true(takes(as("U:1", 0), "(nil)"));
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_true(waits(as("U:3", 5000)) > 0);
    assert_true(srv_cmd_is(server, "1", "DEL " QUEUE));
    set_score("U:2", now() + 2000);
    set_score("U:3", now() + 2000);
    assert_true(waits(as("U:3", 5000)) > 0);
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_true(queue_is("U:3 U:2"));
    assert_true(srv_cmd_is(server, "1", "DEL " TIMEOUTS));
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_true(leaves(as("U:1", 0), "1"));
    assert_true(takes(as("U:2", 5000), "(nil)"));
    assert_true(leaves(as("U:2", 5000), "1"));
    assert_true(nothing_is_left());
}

/* ---- who is told */

static void test_release_tells_the_first_that_lives(void **state)
{
    (void)state;
    ear *dead = ear_of("U:2");
    ear *first = ear_of("J:3");
    ear *second = ear_of("U:4");
    ear *all = ear_of_lock(server, "f");
    assert_true(takes(as("U:1", 0), "(nil)"));
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_true(waits(as("J:3", 5000)) > 0);
    assert_true(waits(as("U:4", 5000)) > 0);
    set_score("U:2", now());
    assert_true(keeps(as("U:1", 0), 1, "0"));
    assert_true(leaves(as("U:9", 0), "(nil)")); /* has nothing to say */
    assert_true(ear_heard_all(first, server));
    assert_true(leaves(as("U:1", 0), "1"));
    assert_true(ear_hears(first, "0"));
    assert_true(queue_is("J:3 U:4"));
    /* Its lease was over, it says: whoever is first shall know (8). */
    assert_true(leaves(as("U:1", 0), "(nil)"));
    assert_true(ear_hears(first, "0"));
    assert_true(keeps(as("U:1", 0), 1, "(nil)"));
    assert_true(ear_hears(first, "0"));
    assert_true(queue_is("J:3 U:4"));
    ear *const ears[] = {dead, first, second, all};
    for (int i = 0; i < 4; i++) {
        assert_true(ear_heard_all(ears[i], server));
        ear_free(ears[i]);
    }
    assert_true(srv_cmd_is(server, "2", "DEL " QUEUE " " TIMEOUTS));
}

static void test_force(void **state)
{
    (void)state;
    ear *first = ear_of("J:3");
    assert_true(forced("0"));
    assert_true(takes(as("U:1", 0), "(nil)"));
    assert_true(takes(as("U:1", 0), "-3"));
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_true(waits(as("J:3", 5000)) > 0);
    set_score("U:2", now());
    assert_true(forced("1"));
    assert_true(ear_hears(first, "0"));
    assert_true(queue_is("J:3"));
    assert_true(srv_cmd_is(server, "0", "EXISTS f"));
    assert_true(forced("0"));
    assert_true(ear_heard_all(first, server));
    assert_true(takes(as("J:3", 5000), "(nil)"));
    assert_true(waits(as("U:4", 5000)) > 0);
    assert_true(forced("1"));
    set_score("U:4", now());
    assert_true(forced("0")); /* the dead are passed over all the same */
    assert_true(nothing_is_left());
    ear_free(first);
}

/* ---- servers and users in a bad state */

static void test_key_of_another_type_is_not_touched(void **state)
{
    (void)state;
    static const char *const keys[] = {"f", QUEUE, TIMEOUTS};
    for (int i = 0; i < 3; i++) {
        assert_true(takes(as("U:1", 0), "(nil)"));
        assert_true(waits(as("U:2", 5000)) > 0);
        assert_true(srv_cmd_is(server, "OK", "SET %s other", keys[i]));
        char *reply = say_acquire(as("U:3", 5000), LEASE);
        assert_non_null(strstr(reply, "WRONGTYPE"));
        free(reply);
        hf__call call;
        asking who = as("U:3", 5000);
        hf__asker asker = asker_of(&who);
        who.kind->force(&call, &asker);
        reply = say(&call);
        assert_non_null(strstr(reply, "WRONGTYPE"));
        free(reply);
        assert_true(srv_cmd_is(server, "other", "GET %s", keys[i]));
        assert_int_equal(srv_cmd_int(server, "DBSIZE"), 3);
        assert_true(srv_cmd_is(server, "3", "DEL f " QUEUE " " TIMEOUTS));
    }
}

static void test_release_works_out_of_memory(void **state)
{
    (void)state;
    ear *first = ear_of("U:2");
    assert_true(takes(as("U:1", 0), "(nil)"));
    assert_true(takes(as("U:1", 0), "-3"));
    assert_true(waits(as("U:2", 5000)) > 0);
    assert_true(waits(as("U:3", 5000)) > 0);
    assert_true(waits(as("U:4", 5000)) > 0);
    assert_true(srv_cmd_is(server, "OK", "CONFIG SET maxmemory 1"));
    assert_true(keeps(as("U:1", 0), 1, "0"));
    assert_true(leaves(as("U:3", 5000), "(nil)"));
    assert_true(leaves(as("U:1", 0), "1"));
    assert_true(srv_cmd_is(server, "OK", "CONFIG SET maxmemory 0"));
    assert_true(ear_hears(first, "0"));
    assert_true(queue_is("U:2 U:4"));
    assert_true(srv_cmd_is(server, "2", "DEL " QUEUE " " TIMEOUTS));
    ear_free(first);
}

static hf_status try_as(const char *url)
{
    hf_client_options options = test_patient();
    hf_lock_options kind = HF_LOCK_OPTIONS_INIT;
    kind.kind = HF_KIND_FAIR;
    hf_client *limited = test_client(url, &options);
    hf_lock *lock = hf_lock_open_with(limited, "f", 1, &kind, &err);
    assert_non_null(lock);
    hf_status status = hf_lock_try(lock, NULL, &err);
    hf_lock_free(lock);
    hf_client_free(limited);
    return status;
}

/* Whatever the scripts need, each on the key that it is needed for. */
static void test_probe_finds_what_is_not_allowed(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "pttl", "exists",  "hexists", "hget",    "hlen",   "hset",
        "del",  "hdel",    "hincrby", "pexpire", "lindex", "lpos",
        "lpop", "lrange",  "lrem",    "rpush",   "zscore", "zrange",
        "zadd", "zincrby", "zrem",    "time",    "publish"};
    static const char *const rights[] = {"~f ~" QUEUE " &*",
                                         "~f ~" TIMEOUTS " &*",
                                         "~f ~redisson_lock_*:{f} &none"};
    char *url = test_text("redis://lk:pw@127.0.0.1:%d", srv_port(server));
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        assert_true(srv_cmd_is(server, "OK",
                               "ACL SETUSER lk reset on >pw ~f "
                               "~redisson_lock_*:{f} &* +@all -%s",
                               commands[i]));
        expect(HF_EPERM, try_as(url));
        assert_non_null(strstr(hf_error_text(&err), commands[i]));
    }
    for (size_t i = 0; i < 3; i++) {
        char *line =
            test_text("ACL SETUSER lk reset on >pw %s +@all", rights[i]);
        assert_true(srv_cmd_is(server, "OK", line));
        free(line);
        expect(HF_EPERM, try_as(url));
    }
    assert_non_null(strstr(hf_error_text(&err), "publish"));
    assert_true(srv_cmd_is(server, "OK",
                           "ACL SETUSER lk reset on >pw ~f "
                           "~redisson_lock_*:{f} "
                           "&redisson_lock__channel:{f}:* +@all"));
    expect(HF_OK, try_as(url));
    assert_true(srv_cmd_becomes(server, "0", "DBSIZE"));
    free(url);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_walk_through),
        FIXTURE_TEST(test_free_lock_costs_no_queue),
        FIXTURE_TEST(test_hold_counts),
        FIXTURE_TEST(test_not_twice),
        FIXTURE_TEST(test_single_try),
        FIXTURE_TEST(test_first_come_first_served),
        FIXTURE_TEST(test_joining_behind_a_free_lock),
        FIXTURE_TEST(test_giving_up),
        FIXTURE_TEST(test_giving_up_what_is_offered),
        FIXTURE_TEST(test_dead_are_passed_over),
        FIXTURE_TEST(test_dead_cost_no_polling),
        FIXTURE_TEST(test_first_without_time_out),
        FIXTURE_TEST(test_living_are_not_passed_over),
        FIXTURE_TEST(test_living_keep_their_wait),
        FIXTURE_TEST(test_joining_behind_the_dead),
        FIXTURE_TEST(test_living_ask_in_time),
        FIXTURE_TEST(test_lock_without_end),
        FIXTURE_TEST(test_queue_is_deleted),
        FIXTURE_TEST(test_release_tells_the_first_that_lives),
        FIXTURE_TEST(test_force),
        FIXTURE_TEST(test_key_of_another_type_is_not_touched),
        FIXTURE_TEST(test_release_works_out_of_memory),
        FIXTURE_TEST(test_probe_finds_what_is_not_allowed),
    };
    return cmocka_run_group_tests(tests, fixture_patient, fixture_end);
}
