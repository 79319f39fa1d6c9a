/* What the fenced lock's table says: the counter's name, the order of
 * arguments, how long the counter lives, and how replies are read. */
#include "kinds/fenced.h"
#include "kinds/lock.h"
#include "kinds/scripts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

static void assert_name(hf__name_fn make, const char *name,
                        const char *expected)
{
    hf__buf out;
    hf__buf_init(&out, 256);
    make(&out, hf__slice_of(name));
    assert_false(out.failed);
    assert_int_equal(out.length, strlen(expected));
    assert_memory_equal(out.data, expected, out.length);
    hf__buf_free(&out);
}

/* Wire-protocol 2.2, 26. */
static void test_names(void **state)
{
    (void)state;
    assert_name(hf__kind_fenced.names[0], "f", "redisson_lock_token:{f}");
    assert_name(hf__kind_fenced.names[0], "{t}:k", "redisson_lock_token:{t}:k");
    assert_null(hf__kind_fenced.names[1]);
    assert_name(hf__kind_fenced.channel, "f", "redisson_lock__channel:{f}");
}

static hf__asker asker_with_life(int64_t token_life_ms)
{
    return (hf__asker){.name = HF__LITERAL("f"),
                       .channel = HF__LITERAL("redisson_lock__channel:{f}"),
                       .names = {HF__LITERAL("redisson_lock_token:{f}")},
                       .owner = HF__LITERAL("uuid:7"),
                       .wish = {.token_life_ms = token_life_ms}};
}

static void assert_acquire(int64_t token_life_ms, int64_t lease_ms,
                           const char *const args[5])
{
    hf__call call;
    hf__asker asker = asker_with_life(token_life_ms);
    hf__kind_fenced.acquire(&call, &asker, lease_ms);
    assert_ptr_equal(call.script, &hf__script_fenced_acquire);
    assert_int_equal(call.keys, 2);
    assert_int_equal(call.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(call.args[i].length, strlen(args[i]));
        assert_memory_equal(call.args[i].data, args[i], strlen(args[i]));
    }
}

static void test_acquire_says_keys_lease_owner_life(void **state)
{
    (void)state;
    static const char *const args[] = {"f", "redisson_lock_token:{f}", "30000",
                                       "uuid:7", "0"};
    assert_acquire(0, 30000, args);
}

static void test_the_counter_never_ends_before_the_lock(void **state)
{
    (void)state;
    static const char *const longer[] = {"f", "redisson_lock_token:{f}",
                                         "30000", "uuid:7", "60000"};
    static const char *const shorter[] = {"f", "redisson_lock_token:{f}",
                                          "30000", "uuid:7", "30000"};
    assert_acquire(60000, 30000, longer);
    assert_acquire(29999, 30000, shorter);
}

static void test_the_rest_is_the_lock_s(void **state)
{
    (void)state;
    assert_true(hf__kind_fenced.reentrant);
    assert_false(hf__kind_fenced.anonymous || hf__kind_fenced.shared);
    assert_ptr_equal(hf__kind_fenced.wake, hf__kind_lock.wake);
    assert_ptr_equal(hf__kind_fenced.release, hf__kind_lock.release);
    assert_ptr_equal(hf__kind_fenced.force, hf__kind_lock.force);
    assert_ptr_equal(hf__kind_fenced.look, hf__kind_lock.look);
    assert_ptr_equal(hf__kind_fenced.renew, &hf__script_fenced_renew);
    hf__call call;
    hf__asker asker = asker_with_life(0);
    hf__kind_fenced.probe(&call, &asker);
    assert_ptr_equal(call.script, &hf__script_lock_probe);
}

/* ---- replies */

static hf__verdict verdict_of(const char *text)
{
    const hf__reply reply = {.type = HF__VALUE_STRING,
                             .text = hf__slice_of(text)};
    return hf__kind_fenced.verdict(&reply);
}

static void assert_granted(const char *text, int64_t count, uint64_t token)
{
    hf__verdict verdict = verdict_of(text);
    assert_int_equal(verdict.what, HF__GRANTED);
    assert_int_equal(verdict.count, count);
    assert_int_equal(verdict.token, token);
}

static void test_grants(void **state)
{
    (void)state;
    assert_granted("1 1", 1, 1);
    assert_granted("1 1795170092639123", 1, UINT64_C(1795170092639123));
    assert_granted("17 9007199254740993", 17, UINT64_C(9007199254740993));
    assert_granted("2147483647 9223372036854775807", INT32_MAX, INT64_MAX);
}

static void test_grants_that_are_none(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "1",
        "1 ",
        " 1",
        "0 5",
        "5 0",
        "1 5 ",
        "1 5 7",
        "-1 5",
        "1 -5",
        "1  5",
        "1\t5",
        "x 5",
        "1 x",
        "1 1.5",
        "1 1e5",
        "1 5\n",
        "1 9223372036854775808",
        "2147483648 5",
        "1 99999999999999999999999999",
        "nil",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(verdict_of(texts[i]).what, HF__MISUNDERSTOOD);
    }
    const hf__reply with_nul = {.type = HF__VALUE_STRING, .text = {"1 5\0", 4}};
    assert_int_equal(hf__kind_fenced.verdict(&with_nul).what,
                     HF__MISUNDERSTOOD);
}

/* Redisson takes -1, a key without an end, for a grant: not so here. */
static void test_busy(void **state)
{
    (void)state;
    static const int64_t remaining[] = {-1, 0, 1, 30000, INT64_MAX};
    for (size_t i = 0; i < sizeof(remaining) / sizeof(remaining[0]); i++) {
        const hf__reply reply = {.type = HF__VALUE_INTEGER,
                                 .integer = remaining[i]};
        hf__verdict verdict = hf__kind_fenced.verdict(&reply);
        assert_int_equal(verdict.what, HF__BUSY);
        assert_int_equal(verdict.remaining_ms, remaining[i]);
    }
    assert_int_equal(remaining[0], HF__NO_END);
}

static void test_other_replies(void **state)
{
    (void)state;
    static const hf__value_type types[] = {HF__VALUE_NIL, HF__VALUE_STATUS,
                                           HF__VALUE_ERROR, HF__VALUE_ARRAY};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const hf__reply reply = {.type = types[i], .text = HF__LITERAL("1 5")};
        assert_int_equal(hf__kind_fenced.verdict(&reply).what,
                         HF__MISUNDERSTOOD);
    }
    const hf__reply below = {.type = HF__VALUE_INTEGER, .integer = -3};
    assert_int_equal(hf__kind_fenced.verdict(&below).what, HF__MISUNDERSTOOD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_acquire_says_keys_lease_owner_life),
        cmocka_unit_test(test_the_counter_never_ends_before_the_lock),
        cmocka_unit_test(test_the_rest_is_the_lock_s),
        cmocka_unit_test(test_grants),
        cmocka_unit_test(test_grants_that_are_none),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_other_replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
