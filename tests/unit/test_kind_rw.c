/* What the tables of the read/write lock say, byte for byte as Redisson has it:
 * names, messages, the order of arguments, and how replies are read. */
#include "kinds/rw.h"
#include "kinds/scripts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#define CHANNEL "redisson_rwlock:{orders}"
#define MARK "{orders}:holdfast_writer"

static const hf__kind *const sides[] = {&hf__kind_read, &hf__kind_write};

static hf__asker asker_of(const char *owner)
{
    return (hf__asker){.name = HF__LITERAL("orders"),
                       .channel = HF__LITERAL(CHANNEL),
                       .names = {HF__LITERAL(MARK)},
                       .owner = hf__slice_of(owner)};
}

/* ---- names (wire-protocol 2.1, 26) */

static void assert_name(hf__name_fn make, const char *name,
                        const char *expected)
{
    hf__buf out;
    hf__buf_init(&out, 256);
    make(&out, hf__slice_of(name));
    assert_false(out.failed);
    hf__buf_append(&out, "", 1);
    assert_string_equal(out.data, expected);
    hf__buf_free(&out);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"rw", "redisson_rwlock:{rw}", "{rw}:holdfast_writer"},
        {"{t}:k", "redisson_rwlock:{t}:k", "{t}:k:holdfast_writer"},
        {"a{b", "redisson_rwlock:a{b", "a{b:holdfast_writer"},
        {"a}b", "redisson_rwlock:{a}b}", "{a}b}:holdfast_writer"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t side = 0; side < 2; side++) {
            assert_name(sides[side]->channel, cases[i][0], cases[i][1]);
            assert_name(sides[side]->names[0], cases[i][0], cases[i][2]);
            assert_null(sides[side]->names[1]);
        }
    }
}

static void test_name_that_does_not_fit_fails(void **state)
{
    (void)state;
    hf__buf out;
    hf__buf_init(&out, 10);
    hf__kind_read.names[0](&out, HF__LITERAL("rw"));
    assert_true(out.failed);
    hf__buf_free(&out);
}

/* ---- what sort of kinds they are */

static void test_readers_share_and_writers_do_not(void **state)
{
    (void)state;
    assert_true(hf__kind_read.shared);
    assert_false(hf__kind_write.shared);
    assert_null(hf__kind_read.owner_suffix);
    assert_string_equal(hf__kind_write.owner_suffix, ":write");
    assert_int_not_equal(hf__kind_read.letter, hf__kind_write.letter);
    for (size_t side = 0; side < 2; side++) {
        assert_true(sides[side]->reentrant);
        assert_false(sides[side]->anonymous);
        assert_false(sides[side]->leaseless);
        assert_false(sides[side]->owner_is_raw);
        assert_false(sides[side]->channel_of_owner);
    }
}

/* A writer that gives up says so, for its mark; a reader leaves nothing. */
static void test_only_writers_leave_a_mark(void **state)
{
    (void)state;
    assert_true(hf__kind_write.queued);
    assert_false(hf__kind_read.queued);
}

/* ---- messages (wire-protocol 3.4) */

static void test_both_messages_wake_all(void **state)
{
    (void)state;
    static const struct {
        const char *payload;
        hf__wake wake;
    } cases[] = {
        {"0", HF__WAKE_ALL},   {"1", HF__WAKE_ALL},   {"", HF__WAKE_NONE},
        {"-1", HF__WAKE_NONE}, {"00", HF__WAKE_NONE}, {"2", HF__WAKE_NONE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t side = 0; side < 2; side++) {
            assert_int_equal(sides[side]->wake(hf__slice_of(cases[i].payload)),
                             cases[i].wake);
        }
    }
}

/* ---- calls */

static void assert_call(const hf__call *call, const hf__script *script,
                        size_t keys, const char *const args[])
{
    size_t count = 0;
    assert_ptr_equal(call->script, script);
    assert_int_equal(call->keys, keys);
    while (args[count]) {
        count++;
    }
    assert_int_equal(call->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(call->args[i].length, strlen(args[i]));
        assert_memory_equal(call->args[i].data, args[i], strlen(args[i]));
    }
}

static void test_read_acquire_says_whether_it_gives_way(void **state)
{
    (void)state;
    static const char *const plain[] = {"orders", MARK, "30000",
                                        "u:7",    "0",  NULL};
    static const char *const polite[] = {"orders", MARK, "30000",
                                         "u:7",    "1",  NULL};
    hf__call call;
    hf__asker asker = asker_of("u:7");
    hf__kind_read.acquire(&call, &asker, 30000);
    assert_call(&call, &hf__script_read_acquire, 2, plain);
    asker.wish.prefer_writers = true;
    hf__kind_read.acquire(&call, &asker, 30000);
    assert_call(&call, &hf__script_read_acquire, 2, polite);
}

/* A single try leaves no mark; one who waits leaves it no longer than that. */
static void test_write_acquire_says_how_long_its_mark_lasts(void **state)
{
    (void)state;
    static const struct {
        int64_t wait_ms;
        const char *mark_ms;
    } cases[] = {{0, "0"},       {1, "1"},         {300, "300"},
                 {9999, "9999"}, {10000, "10000"}, {86400000, "10000"},
                 {-1, "10000"}};
    hf__call call;
    hf__asker asker = asker_of("u:7:write");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const args[] = {
            "orders", MARK, "30000", "u:7:write", cases[i].mark_ms, NULL};
        asker.wish.wait_ms = cases[i].wait_ms;
        hf__kind_write.acquire(&call, &asker, 30000);
        assert_call(&call, &hf__script_write_acquire, 2, args);
    }
}

static void test_entering_again_says_so(void **state)
{
    (void)state;
    static const char *const read[] = {"orders", MARK,    "30000", "u:7",
                                       "0",      "again", NULL};
    static const char *const write[] = {"orders", MARK,    "30000", "u:7:write",
                                        "0",      "again", NULL};
    hf__call call;
    hf__asker reader = asker_of("u:7");
    hf__asker writer = asker_of("u:7:write");
    reader.again = true;
    writer.again = true;
    hf__kind_read.acquire(&call, &reader, 30000);
    assert_call(&call, &hf__script_read_acquire, 2, read);
    hf__kind_write.acquire(&call, &writer, 30000);
    assert_call(&call, &hf__script_write_acquire, 2, write);
}

static void test_release(void **state)
{
    (void)state;
    static const char *const read[] = {"orders",      "u:7",   "2",
                                       "31622400000", CHANNEL, NULL};
    static const char *const write[] = {
        "orders", MARK, "u:7:write", "0", "31622400000", CHANNEL, NULL};
    hf__call call;
    hf__asker reader = asker_of("u:7");
    hf__asker writer = asker_of("u:7:write");
    hf__kind_read.release(&call, &reader, 2, HF_LEASE_MAX_MS);
    assert_call(&call, &hf__script_read_release, 1, read);
    hf__kind_write.release(&call, &writer, 0, HF_LEASE_MAX_MS);
    assert_call(&call, &hf__script_write_release, 2, write);
}

static void test_force_looks_and_probe_tell_the_side(void **state)
{
    (void)state;
    static const char *const force[2][5] = {
        {"orders", CHANNEL, "read", "0", NULL},
        {"orders", CHANNEL, "write", "1", NULL}};
    static const char *const look[2][4] = {{"orders", "u:7", "read", NULL},
                                           {"orders", "u:7", "write", NULL}};
    static const char *const probe[] = {"orders", MARK, CHANNEL,
                                        "holdfast:probe", NULL};
    hf__call call;
    hf__asker asker = asker_of("u:7");
    for (size_t side = 0; side < 2; side++) {
        sides[side]->force(&call, &asker);
        assert_call(&call, &hf__script_rw_force, 1, force[side]);
        sides[side]->look(&call, &asker);
        assert_call(&call, &hf__script_rw_look, 1, look[side]);
        sides[side]->probe(&call, &asker);
        assert_call(&call, &hf__script_rw_probe, 2, probe);
    }
    assert_ptr_equal(hf__kind_read.renew, &hf__script_read_renew);
    assert_ptr_equal(hf__kind_write.renew, &hf__script_write_renew);
}

/* ---- replies */

static void test_verdicts(void **state)
{
    (void)state;
    const hf__reply fresh = {.type = HF__VALUE_NIL};
    const hf__reply again = {.type = HF__VALUE_INTEGER, .integer = -3};
    const hf__reply gone = {.type = HF__VALUE_INTEGER, .integer = -2};
    const hf__reply busy = {.type = HF__VALUE_INTEGER, .integer = 1200};
    const hf__reply text = {.type = HF__VALUE_STRING, .text = {"1", 1}};
    for (size_t side = 0; side < 2; side++) {
        hf__verdict verdict = sides[side]->verdict(&fresh);
        assert_int_equal(verdict.what, HF__GRANTED);
        assert_int_equal(verdict.count, 1);
        verdict = sides[side]->verdict(&again);
        assert_int_equal(verdict.what, HF__GRANTED);
        assert_int_equal(verdict.count, 2);
        assert_int_equal(sides[side]->verdict(&gone).what, HF__GONE);
        verdict = sides[side]->verdict(&busy);
        assert_int_equal(verdict.what, HF__BUSY);
        assert_int_equal(verdict.remaining_ms, 1200);
        assert_int_equal(sides[side]->verdict(&text).what, HF__MISUNDERSTOOD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_name_that_does_not_fit_fails),
        cmocka_unit_test(test_readers_share_and_writers_do_not),
        cmocka_unit_test(test_only_writers_leave_a_mark),
        cmocka_unit_test(test_both_messages_wake_all),
        cmocka_unit_test(test_read_acquire_says_whether_it_gives_way),
        cmocka_unit_test(test_write_acquire_says_how_long_its_mark_lasts),
        cmocka_unit_test(test_entering_again_says_so),
        cmocka_unit_test(test_release),
        cmocka_unit_test(test_force_looks_and_probe_tell_the_side),
        cmocka_unit_test(test_verdicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
