/* The scripts of the read/write lock on a real server: the keys and fields that
 * they leave there, and the messages, are those of Redisson's RReadWriteLock,
 * but for what wire-protocol 23 calls its defects. */
#include "integration/rw_side.h"
#include "support/net.h"

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

/* ---- the walk-through of wire-protocol 26 */

static void test_walk_through(void **state)
{
    (void)state;
    ear *e = ear_of("redisson_rwlock:{rw}");
    assert_true(takes(writer("rw", "U:7"), 30000, "(nil)"));
    assert_true(srv_cmd_is(server, "mode write U:7:write 1", "HGETALL rw"));
    assert_true(takes(writer("rw", "U:7"), 30000, "-3"));
    assert_ends("rw", 30000); /* Redisson: 60000 */
    assert_true(takes(reader("rw", "U:7"), 30000, "(nil)"));
    assert_true(has_fields("rw", "3"));
    assert_true(has_field("rw", "mode", "write"));
    assert_true(has_field("rw", "U:7:write", "2"));
    assert_true(has_field("rw", "U:7", "1"));
    assert_true(srv_cmd_is(server, "1", "GET {rw}:U:7:rwlock_timeout:1"));
    assert_ends("{rw}:U:7:rwlock_timeout:1", 30000);
    assert_true(keeps(writer("rw", "U:7"), 1, 30000, "0"));
    assert_true(has_field("rw", "U:7:write", "1"));
    assert_ends("rw", 30000);
    assert_true(ear_heard_all(e, server));
    assert_true(leaves(writer("rw", "U:7"), "1"));
    assert_true(srv_cmd_is(server, "mode read U:7 1", "HGETALL rw"));
    assert_true(ear_hears(e, "1")); /* Redisson: nothing */
    assert_true(leaves(reader("rw", "U:7"), "1"));
    assert_true(ear_hears(e, "0"));
    assert_true(ear_heard_all(e, server));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    ear_free(e);
}

static void test_braces_in_the_name(void **state)
{
    (void)state;
    ear *e = ear_of("redisson_rwlock:{t}:k");
    assert_true(takes(reader("{t}:k", "U:7"), 30000, "(nil)"));
    assert_true(takes(reader("{t}:k", "U:7"), 30000, "-3"));
    assert_true(is_there("{t}:k:U:7:rwlock_timeout:1"));
    assert_true(is_there("{t}:k:U:7:rwlock_timeout:2"));
    assert_true(renews(reader("{t}:k", "U:7"), 60000, "1"));
    assert_ends("{t}:k:U:7:rwlock_timeout:2", 60000);
    assert_true(leaves(reader("{t}:k", "U:7"), "1"));
    assert_true(ear_hears(e, "0"));
    assert_true(takes(writer("{t}:k", "U:7"), 30000, "(nil)"));
    assert_true(takes(reader("{t}:k", "U:7"), 30000, "(nil)"));
    assert_true(leaves(writer("{t}:k", "U:7"), "1"));
    assert_true(has_field("{t}:k", "mode", "read"));
    assert_true(ear_hears(e, "1"));
    assert_true(forced(reader("{t}:k", "U:9"), "1"));
    assert_true(ear_hears(e, "0"));
    ear_free(e);
}

/* ---- readers */

static void test_readers_share(void **state)
{
    (void)state;
    ear *e = ear_of("redisson_rwlock:{rw}");
    assert_true(takes(reader("rw", "U:1"), 30000, "(nil)"));
    assert_true(srv_cmd_is(server, "mode read U:1 1", "HGETALL rw"));
    assert_ends("rw", 30000);
    assert_true(takes(reader("rw", "U:2"), 60000, "(nil)"));
    assert_true(has_field("rw", "U:2", "1"));
    assert_ends("rw", 60000);
    assert_true(takes(reader("rw", "U:1"), 10000, "-3"));
    assert_true(takes(reader("rw", "U:1"), 40000, "-4"));
    assert_true(has_field("rw", "U:1", "3"));
    assert_ends("rw", 60000); /* never shortened by another hold */
    assert_ends("{rw}:U:1:rwlock_timeout:1", 30000);
    assert_ends("{rw}:U:1:rwlock_timeout:2", 10000);
    assert_ends("{rw}:U:1:rwlock_timeout:3", 40000);
    assert_ends("{rw}:U:2:rwlock_timeout:1", 60000);
    assert_true(leaves(reader("rw", "U:2"), "1"));
    assert_ends("rw", 40000); /* as long as the longest that is left */
    assert_true(leaves(reader("rw", "U:2"), "(nil)"));
    assert_true(ear_heard_all(e, server));
    assert_true(leaves(reader("rw", "U:1"), "1"));
    assert_true(ear_hears(e, "0"));
    assert_true(leaves(reader("rw", "U:1"), "(nil)"));
    assert_true(ear_heard_all(e, server));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    ear_free(e);
}

static void test_reader_gives_back_a_part(void **state)
{
    (void)state;
    ear *e = ear_of("redisson_rwlock:{rw}");
    const side mine = reader("rw", "U:1");
    assert_true(takes(reader("rw", "U:2"), 20000, "(nil)"));
    assert_true(takes(mine, 20000, "(nil)"));
    assert_true(takes(mine, 20000, "-3"));
    assert_true(takes(mine, 90000, "-4"));
    for (int i = 0; i < 2; i++) { /* to say it twice changes nothing */
        assert_true(keeps(mine, 1, 40000, "0"));
        assert_true(has_field("rw", "U:1", "1"));
        assert_true(is_gone("{rw}:U:1:rwlock_timeout:2"));
        assert_true(is_gone("{rw}:U:1:rwlock_timeout:3"));
        assert_ends("{rw}:U:1:rwlock_timeout:1", 40000); /* re-armed */
        assert_ends("{rw}:U:2:rwlock_timeout:1", 20000);
        assert_ends("rw", 40000);
    }
    /* What has longer to live keeps it. */
    assert_true(keeps(mine, 1, 1, "0"));
    assert_ends("{rw}:U:1:rwlock_timeout:1", 40000);
    /* More than the server knows of is made good: the repair of lost replies
     * may say so. */
    assert_true(keeps(mine, 2, 50000, "0"));
    assert_true(has_field("rw", "U:1", "2"));
    assert_true(srv_cmd_is(server, "1", "GET {rw}:U:1:rwlock_timeout:2"));
    assert_ends("{rw}:U:1:rwlock_timeout:2", 50000);
    assert_ends("rw", 50000);
    assert_true(leaves(mine, "1"));
    assert_true(keeps(mine, 1, 30000, "(nil)")); /* nothing comes to life */
    assert_true(srv_cmd_is(server, "mode read U:2 1", "HGETALL rw"));
    assert_true(ear_heard_all(e, server));
    assert_true(leaves(reader("rw", "U:2"), "1"));
    assert_true(ear_hears(e, "0"));
    ear_free(e);
}

/* A dead reader's field stays, but its hold has ended: it keeps nobody out once
 * the living have left. */
static void test_dead_reader(void **state)
{
    (void)state;
    ear *e = ear_of("redisson_rwlock:{rw}");
    assert_true(takes(reader("rw", "dead:1"), 30000, "(nil)"));
    assert_true(takes(reader("rw", "U:1"), 30000, "(nil)"));
    assert_true(takes(reader("rw", "U:2"), 10000, "(nil)"));
    end_hold("{rw}:dead:1:rwlock_timeout:1");
    assert_true(leaves(reader("rw", "U:1"), "1"));
    assert_ends("rw", 10000);
    assert_busy(writer("rw", "U:3"), 10000);
    assert_true(ear_heard_all(e, server));
    assert_true(leaves(reader("rw", "U:2"), "1"));
    assert_true(ear_hears(e, "0"));
    assert_true(is_gone("rw"));
    assert_true(takes(writer("rw", "U:3"), 30000, "(nil)"));
    assert_true(leaves(writer("rw", "U:3"), "1"));
    ear_free(e);
}

/* What plain commands leave as a Redisson client would. */
static void test_readers_of_redisson(void **state)
{
    (void)state;
    assert_true(srv_cmd_is(server, "2", "HSET rw mode read J:5 2"));
    assert_true(
        srv_cmd_is(server, "OK", "SET {rw}:J:5:rwlock_timeout:1 1 PX 20000"));
    assert_true(
        srv_cmd_is(server, "OK", "SET {rw}:J:5:rwlock_timeout:2 1 PX 40000"));
    assert_true(srv_cmd_is(server, "1", "PEXPIRE rw 40000"));
    assert_busy(writer("rw", "U:1"), 40000);
    assert_true(takes(reader("rw", "U:1"), 60000, "(nil)"));
    assert_ends("rw", 60000);
    assert_true(leaves(reader("rw", "U:1"), "1"));
    assert_ends("rw", 40000);
    assert_true(has_field("rw", "J:5", "2"));
    assert_true(looks(reader("rw", "J:5"), "1 2"));
    assert_true(forced(reader("rw", "U:1"), "1"));
    assert_true(srv_cmd_is(server, "2", "HSET rw mode write J:5:write 1"));
    assert_true(srv_cmd_is(server, "1", "PEXPIRE rw 40000"));
    assert_busy(reader("rw", "U:1"), 40000);
    assert_busy(writer("rw", "U:1"), 40000);
    assert_true(leaves(writer("rw", "U:1"), "(nil)"));
    assert_true(leaves(writer("rw", "J:5"), "1"));
}

/* ---- renewal */

static void test_renewal_of_a_reader(void **state)
{
    (void)state;
    const side mine = reader("rw", "U:1");
    assert_true(takes(mine, 20000, "(nil)"));
    assert_true(takes(mine, 20000, "-3"));
    assert_true(takes(reader("rw", "U:2"), 20000, "(nil)"));
    assert_true(renews(mine, 0, "1"));
    assert_ends("{rw}:U:1:rwlock_timeout:1", 20000);
    assert_ends("rw", 20000);
    assert_true(renews(mine, 60000, "1"));
    assert_ends("{rw}:U:1:rwlock_timeout:1", 60000);
    assert_ends("{rw}:U:1:rwlock_timeout:2", 60000);
    assert_ends("rw", 60000);
    assert_ends("{rw}:U:2:rwlock_timeout:1", 20000); /* never another's */
    assert_true(renews(reader("rw", "U:2"), 30000, "1"));
    assert_ends("{rw}:U:2:rwlock_timeout:1", 30000);
    assert_ends("rw", 60000); /* never shortened */
    assert_true(renews(reader("rw", "U:3"), 30000, "0"));
    assert_true(renews(reader("none", "U:1"), 30000, "0"));
    assert_true(is_gone("none"));
    assert_true(leaves(reader("rw", "U:2"), "1"));
    /* It is listed, but its holds have ended: another has had the time to
     * come in. */
    end_hold("{rw}:U:1:rwlock_timeout:1");
    assert_true(renews(mine, 30000, "1"));
    end_hold("{rw}:U:1:rwlock_timeout:2");
    assert_true(renews(mine, 0, "0"));
    assert_true(renews(mine, 90000, "0"));
    assert_ends("rw", 60000);
    assert_true(leaves(mine, "1"));
}

static void test_renewal_of_a_writer(void **state)
{
    (void)state;
    const side mine = writer("rw", "U:1");
    assert_true(takes(mine, 20000, "(nil)"));
    assert_true(renews(mine, 0, "1"));
    assert_ends("rw", 20000);
    assert_true(renews(mine, 40000, "1"));
    assert_ends("rw", 40000);
    /* What its reads need stays. */
    assert_true(takes(reader("rw", "U:1"), 90000, "(nil)"));
    assert_true(renews(mine, 40000, "1"));
    assert_ends("rw", 90000);
    assert_true(renews(writer("rw", "U:2"), 120000, "0"));
    assert_ends("rw", 90000);
    assert_true(renews(writer("none", "U:1"), 40000, "0"));
    assert_true(is_gone("none"));
    assert_true(leaves(mine, "1"));
    assert_true(renews(mine, 40000, "0"));
    assert_true(leaves(reader("rw", "U:1"), "1"));
}

/* One bad key costs the others nothing, and several owners of one lock go
 * together. */
static void test_renewal_of_many(void **state)
{
    (void)state;
    const hf__script *script = hf__kind_read.renew;
    assert_true(srv_cmd_is(server, "OK", "SET text x"));
    assert_true(takes(reader("rw", "U:1"), 20000, "(nil)"));
    assert_true(takes(reader("rw", "U:2"), 20000, "(nil)"));
    assert_true(takes(reader("other", "U:1"), 20000, "(nil)"));
    assert_true(srv_cmd_is(server, "1 0 1 0 1",
                           "EVAL %b 5 rw text other other rw 60000 U:1 60000 "
                           "U:1 0 U:1 60000 U:9 90000 U:2",
                           script->text, script->length));
    assert_ends("{rw}:U:1:rwlock_timeout:1", 60000);
    assert_ends("{rw}:U:2:rwlock_timeout:1", 90000);
    assert_ends("rw", 90000);
    assert_ends("other", 20000);
    assert_true(leaves(reader("rw", "U:1"), "1"));
    assert_true(leaves(reader("rw", "U:2"), "1"));
    assert_true(leaves(reader("other", "U:1"), "1"));
    script = hf__kind_write.renew;
    assert_true(takes(writer("rw", "U:1"), 20000, "(nil)"));
    assert_true(takes(writer("other", "U:1"), 20000, "(nil)"));
    assert_true(srv_cmd_is(server, "0 1 1",
                           "EVAL %b 3 text rw other 60000 U:1:write 60000 "
                           "U:1:write 70000 U:1:write",
                           script->text, script->length));
    assert_ends("rw", 60000);
    assert_ends("other", 70000);
    assert_true(leaves(writer("rw", "U:1"), "1"));
    assert_true(leaves(writer("other", "U:1"), "1"));
    assert_true(srv_cmd_is(server, "x", "GETDEL text"));
}

/* ---- writers */

static void test_writer_excludes(void **state)
{
    (void)state;
    ear *e = ear_of("redisson_rwlock:{rw}");
    assert_true(takes(writer("rw", "U:1"), 40000, "(nil)"));
    assert_busy(writer("rw", "U:2"), 40000);
    assert_busy(reader("rw", "U:2"), 40000);
    assert_true(leaves(writer("rw", "U:2"), "(nil)"));
    assert_true(leaves(reader("rw", "U:1"), "(nil)"));
    assert_true(srv_cmd_is(server, "mode write U:1:write 1", "HGETALL rw"));
    assert_true(ear_heard_all(e, server));
    assert_true(leaves(writer("rw", "U:1"), "1"));
    assert_true(ear_hears(e, "1"));
    assert_true(leaves(writer("rw", "U:1"), "(nil)"));
    assert_true(ear_heard_all(e, server));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    ear_free(e);
}

/* Another hold never adds its lease to what runs, nor takes from it. */
static void test_writer_again(void **state)
{
    (void)state;
    const side mine = writer("rw", "U:1");
    assert_true(takes(mine, 30000, "(nil)"));
    assert_true(takes(mine, 10000, "-3"));
    assert_ends("rw", 30000);
    assert_true(takes(mine, 50000, "-4"));
    assert_ends("rw", 50000);
    assert_true(keeps(mine, 1, 20000, "0"));
    assert_true(has_field("rw", "U:1:write", "1"));
    assert_ends("rw", 50000);
    for (int i = 0; i < 2; i++) {
        assert_true(keeps(mine, 1, 90000, "0"));
        assert_ends("rw", 90000); /* re-armed */
    }
    assert_true(leaves(mine, "1"));
    assert_true(keeps(mine, 1, 30000, "(nil)"));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
}

/* A reader does not become a writer, not even the only one. */
static void test_no_upgrade(void **state)
{
    (void)state;
    assert_true(takes(reader("rw", "U:1"), 40000, "(nil)"));
    assert_busy(writer("rw", "U:1"), 40000);
    assert_true(srv_cmd_is(server, "mode read U:1 1", "HGETALL rw"));
    assert_true(leaves(writer("rw", "U:1"), "(nil)"));
    assert_true(leaves(reader("rw", "U:1"), "1"));
}

/* Defect 6 of wire-protocol 23. */
static void test_reads_of_a_writer_do_not_shorten_its_lease(void **state)
{
    (void)state;
    ear *e = ear_of("redisson_rwlock:{rw}");
    const side reads = reader("rw", "U:1");
    assert_true(takes(writer("rw", "U:1"), 90000, "(nil)"));
    assert_true(takes(reads, 10000, "(nil)"));
    assert_true(takes(reads, 10000, "-3"));
    assert_ends("rw", 90000);
    assert_true(keeps(reads, 1, 10000, "0"));
    assert_ends("rw", 90000);
    assert_true(renews(reads, 20000, "1"));
    assert_ends("rw", 90000);
    assert_true(leaves(reads, "1"));
    assert_ends("rw", 90000);
    assert_true(srv_cmd_is(server, "mode write U:1:write 1", "HGETALL rw"));
    assert_true(is_gone("{rw}:U:1:rwlock_timeout:1"));
    /* Not even one without an end, made by hand. */
    assert_true(takes(reads, 10000, "(nil)"));
    assert_true(srv_cmd_is(server, "1", "PERSIST rw"));
    assert_true(leaves(reads, "1"));
    assert_true(srv_cmd_is(server, "mode write U:1:write 1", "HGETALL rw"));
    assert_true(renews(writer("rw", "U:1"), 90000, "1"));
    assert_ends("rw", 90000);
    /* And where the reads last longer, so does the lock. */
    assert_true(takes(reads, 120000, "(nil)"));
    assert_ends("rw", 120000);
    assert_true(keeps(reads, 1, 150000, "0"));
    assert_ends("rw", 150000);
    assert_true(ear_heard_all(e, server));
    assert_true(leaves(writer("rw", "U:1"), "1"));
    assert_true(leaves(reads, "1"));
    ear_free(e);
}

static void test_downgrade(void **state)
{
    (void)state;
    ear *e = ear_of("redisson_rwlock:{rw}");
    assert_true(takes(writer("rw", "U:1"), 90000, "(nil)"));
    assert_true(takes(reader("rw", "U:1"), 20000, "(nil)"));
    assert_true(takes(reader("rw", "U:1"), 40000, "-3"));
    assert_busy(reader("rw", "U:2"), 90000);
    assert_true(leaves(writer("rw", "U:1"), "1"));
    assert_true(ear_hears(e, "1"));
    assert_true(srv_cmd_is(server, "mode read U:1 2", "HGETALL rw"));
    assert_ends("rw", 40000); /* as long as the reads */
    assert_true(takes(reader("rw", "U:2"), 30000, "(nil)"));
    assert_busy(writer("rw", "U:1"), 40000);
    assert_true(leaves(reader("rw", "U:1"), "1"));
    assert_true(leaves(reader("rw", "U:2"), "1"));
    assert_true(ear_hears(e, "0"));
    /* Reads that have ended do not keep the lock. */
    assert_true(takes(writer("rw", "U:1"), 90000, "(nil)"));
    assert_true(takes(reader("rw", "U:1"), 20000, "(nil)"));
    end_hold("{rw}:U:1:rwlock_timeout:1");
    assert_true(leaves(writer("rw", "U:1"), "1"));
    assert_true(ear_hears(e, "1"));
    assert_true(is_gone("rw"));
    ear_free(e);
}

/* Who had it and finds it gone does not take it anew: the reply could be lost,
 * and what was lost would seem to have lasted. */
static void test_entering_again_what_is_gone(void **state)
{
    (void)state;
    const side reads = entered(reader("rw", "U:1"));
    const side writes = entered(writer("rw", "U:1"));
    assert_true(takes(reads, 30000, "-2"));
    assert_true(takes(writes, 30000, "-2"));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    assert_true(takes(reader("rw", "U:2"), 30000, "(nil)"));
    assert_true(takes(reads, 60000, "-2"));
    assert_busy(writes, 30000);
    assert_true(srv_cmd_is(server, "mode read U:2 1", "HGETALL rw"));
    assert_ends("rw", 30000);
    assert_true(takes(reader("rw", "U:1"), 30000, "(nil)"));
    assert_true(takes(reads, 30000, "-3"));
    assert_true(leaves(reads, "1"));
    assert_true(leaves(reader("rw", "U:2"), "1"));
    assert_true(takes(writer("rw", "U:1"), 30000, "(nil)"));
    assert_true(takes(writes, 30000, "-3"));
    assert_true(takes(reads, 30000, "-2")); /* it has the other side only */
    assert_true(leaves(writes, "1"));
}

/* ---- force, questions */

static void test_force(void **state)
{
    (void)state;
    ear *e = ear_of("redisson_rwlock:{rw}");
    assert_true(forced(reader("rw", "U:9"), "0"));
    assert_true(forced(writer("rw", "U:9"), "0"));
    assert_true(takes(reader("rw", "U:1"), 30000, "(nil)"));
    assert_true(takes(reader("rw", "U:1"), 30000, "-3"));
    assert_true(takes(reader("rw", "U:2"), 30000, "(nil)"));
    assert_true(forced(writer("rw", "U:9"), "0"));
    assert_true(has_fields("rw", "3"));
    assert_true(ear_heard_all(e, server));
    assert_true(forced(reader("rw", "U:9"), "1"));
    assert_true(ear_hears(e, "0"));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    assert_true(takes(writer("rw", "U:1"), 30000, "(nil)"));
    assert_true(takes(reader("rw", "U:1"), 30000, "(nil)"));
    assert_true(forced(reader("rw", "U:9"), "0"));
    assert_true(has_fields("rw", "3"));
    assert_true(ear_heard_all(e, server));
    assert_true(forced(writer("rw", "U:9"), "1"));
    assert_true(ear_hears(e, "1"));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    ear_free(e);
}

static void test_look(void **state)
{
    (void)state;
    assert_true(looks(reader("rw", "U:1"), "0 0"));
    assert_true(looks(writer("rw", "U:1"), "0 0"));
    assert_true(takes(writer("rw", "U:1"), 30000, "(nil)"));
    assert_true(takes(writer("rw", "U:1"), 30000, "-3"));
    assert_true(looks(writer("rw", "U:1"), "1 2"));
    assert_true(looks(writer("rw", "U:2"), "1 0"));
    assert_true(looks(reader("rw", "U:1"), "0 0"));
    assert_true(takes(reader("rw", "U:1"), 30000, "(nil)"));
    assert_true(looks(reader("rw", "U:1"), "1 1"));
    assert_true(looks(reader("rw", "U:2"), "1 0"));
    assert_true(looks(writer("rw", "U:1"), "1 2"));
    assert_true(leaves(writer("rw", "U:1"), "1"));
    assert_true(looks(writer("rw", "U:1"), "0 0"));
    assert_true(looks(reader("rw", "U:1"), "1 1"));
    assert_true(leaves(reader("rw", "U:1"), "1"));
    assert_true(looks(reader("rw", "U:1"), "0 0"));
}

/* ---- the mark of a waiting writer */

#define MARK "{rw}:holdfast_writer"

static void test_waiting_writer_leaves_a_mark(void **state)
{
    (void)state;
    side brief = waiting("rw", "U:2");
    brief.wish.wait_ms = 8000;
    assert_true(takes(reader("rw", "U:1"), 30000, "(nil)"));
    assert_busy(writer("rw", "U:2"), 30000); /* a single try */
    assert_true(is_gone(MARK));
    assert_busy(brief, 30000);
    assert_true(srv_cmd_is(server, "U:2:write", "GET " MARK));
    assert_ends(MARK, 8000);
    assert_busy(waiting("rw", "U:2"), 30000); /* each try makes it anew */
    assert_true(srv_cmd_int(server, "PTTL " MARK) <= 10000);
    assert_true(srv_cmd_int(server, "PTTL " MARK) > 0);
    assert_true(leaves(reader("rw", "U:1"), "1"));
    assert_true(is_there(MARK));
    assert_true(takes(waiting("rw", "U:2"), 30000, "(nil)"));
    assert_true(is_gone(MARK));               /* it waits no more */
    assert_busy(waiting("rw", "U:3"), 30000); /* for a writer, too */
    assert_true(takes(waiting("rw", "U:2"), 30000, "-3"));
    assert_true(leaves(writer("rw", "U:2"), "1"));
    assert_true(takes(waiting("rw", "U:2"), 30000, "(nil)"));
    assert_true(srv_cmd_is(server, "U:3:write", "GET " MARK));
    assert_true(leaves(writer("rw", "U:2"), "1")); /* another's mark stays */
    assert_true(srv_cmd_is(server, "U:3:write", "GETDEL " MARK));
}

static void test_writer_that_gives_up_takes_its_mark(void **state)
{
    (void)state;
    ear *e = ear_of("redisson_rwlock:{rw}");
    assert_true(takes(reader("rw", "U:1"), 30000, "(nil)"));
    assert_busy(waiting("rw", "U:2"), 30000);
    assert_true(leaves(waiting("rw", "U:3"), "(nil)"));
    assert_true(is_there(MARK));
    assert_true(ear_heard_all(e, server));
    assert_true(leaves(waiting("rw", "U:2"), "(nil)"));
    assert_true(is_gone(MARK));
    assert_true(ear_hears(e, "1")); /* readers may come in */
    assert_true(leaves(waiting("rw", "U:2"), "(nil)"));
    assert_true(ear_heard_all(e, server));
    assert_true(has_field("rw", "U:1", "1"));
    assert_true(leaves(reader("rw", "U:1"), "1"));
    ear_free(e);
}

static void test_polite_readers_give_way(void **state)
{
    (void)state;
    assert_true(takes(reader("rw", "U:1"), 90000, "(nil)"));
    assert_true(takes(polite("rw", "U:2"), 90000, "(nil)"));
    assert_true(srv_cmd_is(server, "OK", "SET " MARK " U:9:write PX 20000"));
    assert_busy(polite("rw", "U:3"), 20000); /* until the mark ends */
    assert_true(has_fields("rw", "3"));
    assert_true(is_gone("{rw}:U:3:rwlock_timeout:1"));
    assert_true(takes(polite("rw", "U:2"), 90000, "-3")); /* holds something */
    assert_true(takes(reader("rw", "U:4"), 90000, "(nil)"));
    assert_true(leaves(reader("rw", "U:1"), "1"));
    assert_true(leaves(reader("rw", "U:2"), "1"));
    assert_true(leaves(reader("rw", "U:4"), "1"));
    assert_busy(polite("rw", "U:3"), 20000); /* also while it is free */
    assert_true(is_gone("rw"));
    assert_true(takes(writer("rw", "U:3"), 90000, "(nil)"));
    assert_true(takes(polite("rw", "U:3"), 90000, "(nil)")); /* it writes */
    assert_busy(polite("rw", "U:2"), 90000);
    assert_true(leaves(reader("rw", "U:3"), "1"));
    assert_true(leaves(writer("rw", "U:3"), "1"));
    assert_true(srv_cmd_is(server, "1", "DEL " MARK));
    assert_true(takes(polite("rw", "U:2"), 90000, "(nil)"));
    assert_true(leaves(reader("rw", "U:2"), "1"));
}

/* ---- what is no read/write lock */

static void test_lock_of_another_kind_is_busy(void **state)
{
    (void)state;
    assert_true(srv_cmd_is(server, "1", "HSET rw U:1 1"));
    assert_true(srv_cmd_is(server, "1", "PEXPIRE rw 30000"));
    assert_busy(reader("rw", "U:1"), 30000);
    assert_busy(writer("rw", "U:1"), 30000);
    assert_true(forced(reader("rw", "U:1"), "0"));
    assert_true(forced(writer("rw", "U:1"), "0"));
    assert_true(srv_cmd_is(server, "U:1 1", "HGETALL rw"));
    assert_true(srv_cmd_is(server, "1", "DEL rw"));
}

static void assert_wrong_type(char *reply)
{
    assert_non_null(strstr(reply, "WRONGTYPE"));
    free(reply);
}

static void test_key_of_another_type_is_not_touched(void **state)
{
    (void)state;
    const side sides[] = {polite("rw", "U:1"), waiting("rw", "U:1")};
    assert_true(srv_cmd_is(server, "OK", "SET rw x"));
    for (size_t i = 0; i < 2; i++) {
        assert_wrong_type(say_acquire(sides[i], 30000));
        assert_wrong_type(say_release(sides[i], 1, 30000));
        assert_wrong_type(say_release(sides[i], 0, 30000));
        assert_wrong_type(say_force(sides[i]));
        assert_true(renews(sides[i], 30000, "0"));
    }
    assert_true(srv_cmd_is(server, "1", "DBSIZE"));
    assert_true(srv_cmd_is(server, "x", "GETDEL rw"));
}

/* ---- the server's limits */

static void test_release_works_out_of_memory(void **state)
{
    (void)state;
    assert_true(takes(reader("rw", "U:1"), 30000, "(nil)"));
    assert_true(takes(reader("rw", "U:1"), 30000, "-3"));
    assert_true(takes(writer("other", "U:1"), 30000, "(nil)"));
    assert_true(takes(reader("other", "U:1"), 30000, "(nil)"));
    assert_true(srv_cmd_is(server, "OK", "CONFIG SET maxmemory 1"));
    char *refused = say_acquire(reader("rw", "U:2"), 30000);
    assert_non_null(strstr(refused, "OOM"));
    free(refused);
    assert_true(renews(reader("rw", "U:1"), 60000, "1"));
    assert_true(renews(writer("other", "U:1"), 60000, "1"));
    assert_true(keeps(reader("rw", "U:1"), 1, 90000, "0"));
    assert_true(leaves(reader("rw", "U:1"), "1"));
    assert_true(leaves(writer("other", "U:1"), "1"));
    assert_true(leaves(reader("other", "U:1"), "1"));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
}

static int memory_again(void **state)
{
    free(srv_cmd(server, "CONFIG SET maxmemory 0"));
    return fixture_nothing_is_left(state);
}

static void assert_permitted(side s)
{
    char *refused = say_probe(s);
    assert_string_equal(refused, "");
    free(refused);
}

static void test_probe_changes_nothing(void **state)
{
    (void)state;
    ear *e = ear_of("redisson_rwlock:{rw}");
    assert_permitted(reader("rw", "U:1"));
    assert_permitted(writer("rw", "U:1"));
    assert_true(ear_hears(e, "-1"));
    assert_true(ear_hears(e, "-1"));
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
    assert_true(takes(writer("rw", "U:1"), 30000, "(nil)"));
    assert_permitted(writer("rw", "U:1"));
    assert_true(srv_cmd_is(server, "mode write U:1:write 1", "HGETALL rw"));
    assert_true(leaves(writer("rw", "U:1"), "1"));
    ear_free(e);
}

/* Whatever the scripts need is tried out by the probe. */
static void test_probe_finds_what_is_not_allowed(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "pttl", "hget",    "hexists", "hgetall", "hlen", "hdel", "hset",
        "set",  "hincrby", "pexpire", "exists",  "del",  "get",  "publish"};
    hf_client_options options = test_patient();
    hf_lock_options kind = HF_LOCK_OPTIONS_INIT;
    char *url = test_text("redis://lk:pw@127.0.0.1:%d", srv_port(server));
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        assert_true(
            srv_cmd_is(server, "OK",
                       "ACL SETUSER lk reset on >pw ~rw ~{rw}:* &* +@all -%s",
                       commands[i]));
        kind.kind = i % 2 ? HF_KIND_READ : HF_KIND_WRITE;
        hf_client *limited = test_client(url, &options);
        hf_lock *lock = hf_lock_open_with(limited, "rw", 2, &kind, &err);
        assert_non_null(lock);
        expect(HF_EPERM, hf_lock_try(lock, NULL, &err));
        assert_non_null(strstr(hf_error_text(&err), commands[i]));
        hf_lock_free(lock);
        hf_client_free(limited);
    }
    free(url);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_walk_through),
        FIXTURE_TEST(test_braces_in_the_name),
        FIXTURE_TEST(test_readers_share),
        FIXTURE_TEST(test_reader_gives_back_a_part),
        FIXTURE_TEST(test_dead_reader),
        FIXTURE_TEST(test_readers_of_redisson),
        FIXTURE_TEST(test_renewal_of_a_reader),
        FIXTURE_TEST(test_renewal_of_a_writer),
        FIXTURE_TEST(test_renewal_of_many),
        FIXTURE_TEST(test_writer_excludes),
        FIXTURE_TEST(test_writer_again),
        FIXTURE_TEST(test_no_upgrade),
        FIXTURE_TEST(test_reads_of_a_writer_do_not_shorten_its_lease),
        FIXTURE_TEST(test_downgrade),
        FIXTURE_TEST(test_entering_again_what_is_gone),
        FIXTURE_TEST(test_force),
        FIXTURE_TEST(test_look),
        FIXTURE_TEST(test_waiting_writer_leaves_a_mark),
        FIXTURE_TEST(test_writer_that_gives_up_takes_its_mark),
        FIXTURE_TEST(test_polite_readers_give_way),
        FIXTURE_TEST(test_lock_of_another_kind_is_busy),
        FIXTURE_TEST(test_key_of_another_type_is_not_touched),
        cmocka_unit_test_teardown(test_release_works_out_of_memory,
                                  memory_again),
        FIXTURE_TEST(test_probe_changes_nothing),
        FIXTURE_TEST(test_probe_finds_what_is_not_allowed),
    };
    return cmocka_run_group_tests(tests, fixture_patient, fixture_end);
}
