/* What a kind's table says, byte for byte as Redisson has it: names, messages,
 * the order of arguments, and how replies are read. */
#include "kinds/lock.h"
#include "kinds/names.h"
#include "kinds/scripts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

/* ---- names (wire-protocol 2.1, 26) */

static bool prefixed_is(const char *prefix, hf__slice name,
                        const char *expected)
{
    hf__buf out;
    hf__buf_init(&out, 1024);
    hf__name_prefixed(&out, hf__slice_of(prefix), name);
    bool same = !out.failed && out.length == strlen(expected) &&
                memcmp(out.data, expected, out.length) == 0;
    if (!same) {
        print_error("%.*s, expected %s\n", (int)out.length, out.data, expected);
    }
    hf__buf_free(&out);
    return same;
}

static void test_prefixed_names(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"redisson_lock__channel", "anyLock",
         "redisson_lock__channel:{anyLock}"},
        {"redisson_unlock_latch", "anyLock", "redisson_unlock_latch:{anyLock}"},
        {"redisson_lock_queue", "fairLock", "redisson_lock_queue:{fairLock}"},
        {"redisson_lock_timeout", "fairLock",
         "redisson_lock_timeout:{fairLock}"},
        {"redisson_rwlock", "rw", "redisson_rwlock:{rw}"},
        {"redisson_rwlock", "{t}:k", "redisson_rwlock:{t}:k"},
        {"redisson_lock_token", "f", "redisson_lock_token:{f}"},
        {"redisson_sc", "s", "redisson_sc:{s}"},
        /* a `{` anywhere counts, tag or no tag */
        {"p", "{user1}:cart", "p:{user1}:cart"},
        {"p", "a{b}c", "p:a{b}c"},
        {"p", "a{b", "p:a{b"},
        {"p", "{}x", "p:{}x"},
        {"p", "x{", "p:x{"},
        {"p", "a}b", "p:{a}b}"},
        {"p", "}a{", "p:}a{"},
        {"p", "order:42", "p:{order:42}"},
        {"p", " ", "p:{ }"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(
            prefixed_is(cases[i][0], hf__slice_of(cases[i][1]), cases[i][2]));
    }
}

static void test_prefixed_name_of_any_bytes(void **state)
{
    (void)state;
    static const char bytes[] = {'a', '\0', '\xff', '\r', '\n', '{'};
    static const char plain[] = "p:{a\0\xff\r\n}";
    static const char braced[] = "p:a\0\xff\r\n{";
    hf__buf out;
    hf__buf_init(&out, 64);
    hf__name_prefixed(&out, HF__LITERAL("p"), (hf__slice){bytes, 5});
    assert_int_equal(out.length, sizeof(plain) - 1);
    assert_memory_equal(out.data, plain, out.length);
    hf__buf_clear(&out);
    hf__name_prefixed(&out, HF__LITERAL("p"), (hf__slice){bytes, 6});
    assert_int_equal(out.length, sizeof(braced) - 1);
    assert_memory_equal(out.data, braced, out.length);
    hf__buf_free(&out);
}

static void test_prefixed_name_that_does_not_fit_fails(void **state)
{
    (void)state;
    hf__buf out;
    hf__buf_init(&out, 6);
    hf__name_prefixed(&out, HF__LITERAL("p"), HF__LITERAL("abc"));
    assert_true(out.failed);
    hf__buf_free(&out);
}

static void test_channel_of_a_lock(void **state)
{
    (void)state;
    hf__buf out;
    hf__buf_init(&out, 256);
    hf__kind_lock.channel(&out, HF__LITERAL("anyLock"));
    assert_int_equal(out.length, strlen("redisson_lock__channel:{anyLock}"));
    assert_memory_equal(out.data, "redisson_lock__channel:{anyLock}",
                        out.length);
    hf__buf_free(&out);
}

/* ---- messages (wire-protocol 3.4) */

static void test_messages_of_a_lock(void **state)
{
    (void)state;
    static const struct {
        const char *payload;
        hf__wake wake;
    } cases[] = {
        {"0", HF__WAKE_ONE},   {"1", HF__WAKE_ALL},   {"", HF__WAKE_NONE},
        {"-1", HF__WAKE_NONE}, {"00", HF__WAKE_NONE}, {"2", HF__WAKE_NONE},
        {"01", HF__WAKE_NONE}, {"0 ", HF__WAKE_NONE}, {"10", HF__WAKE_NONE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(hf__kind_lock.wake(hf__slice_of(cases[i].payload)),
                         cases[i].wake);
    }
    assert_int_equal(hf__kind_lock.wake((hf__slice){"0\0", 2}), HF__WAKE_NONE);
}

/* ---- calls */

static const hf__asker asker = {
    .name = {"orders", 6},
    .channel = {"redisson_lock__channel:{orders}", 31},
    .owner = {"uuid:7", 6},
};

static void assert_call(const hf__call *call, const hf__script *script,
                        const char *const args[], size_t count)
{
    assert_ptr_equal(call->script, script);
    assert_int_equal(call->keys, 1);
    assert_int_equal(call->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(call->args[i].length, strlen(args[i]));
        assert_memory_equal(call->args[i].data, args[i], strlen(args[i]));
    }
}

static void test_acquire_says_name_lease_owner(void **state)
{
    (void)state;
    static const char *const args[] = {"orders", "30000", "uuid:7"};
    hf__call call;
    hf__kind_lock.acquire(&call, &asker, 30000);
    assert_call(&call, &hf__script_lock_acquire, args, 3);
}

static void test_release_says_name_owner_count_lease_channel(void **state)
{
    (void)state;
    static const char *const args[] = {"orders", "uuid:7", "2", "31622400000",
                                       "redisson_lock__channel:{orders}"};
    hf__call call;
    hf__kind_lock.release(&call, &asker, 2, HF_LEASE_MAX_MS);
    assert_call(&call, &hf__script_lock_release, args, 5);
}

static void test_force_says_name_channel(void **state)
{
    (void)state;
    static const char *const args[] = {"orders",
                                       "redisson_lock__channel:{orders}"};
    hf__call call;
    hf__kind_lock.force(&call, &asker);
    assert_call(&call, &hf__script_lock_force, args, 2);
}

static void test_probe_says_name_channel_and_no_owner(void **state)
{
    (void)state;
    static const char *const args[] = {
        "orders", "redisson_lock__channel:{orders}", "holdfast:probe"};
    hf__call call;
    hf__kind_lock.probe(&call, &asker);
    assert_call(&call, &hf__script_lock_probe, args, 3);
}

static void test_scripts_are_embedded_whole(void **state)
{
    (void)state;
    static const hf__script *const scripts[] = {
        &hf__script_lock_acquire, &hf__script_lock_release,
        &hf__script_lock_renew, &hf__script_lock_force, &hf__script_lock_probe};
    assert_ptr_equal(hf__kind_lock.renew, &hf__script_lock_renew);
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        assert_int_equal(scripts[i]->length, strlen(scripts[i]->text));
        assert_int_equal(strlen(scripts[i]->sha1), 40);
        assert_int_equal(strspn(scripts[i]->sha1, "0123456789abcdef"), 40);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(scripts[i]->sha1, scripts[j]->sha1);
        }
    }
}

/* ---- replies */

static void test_verdicts_of_a_lock(void **state)
{
    (void)state;
    hf__verdict verdict =
        hf__kind_lock.verdict(&(hf__reply){.type = HF__VALUE_NIL});
    assert_int_equal(verdict.what, HF__GRANTED);
    assert_int_equal(verdict.token, 0);
    assert_int_equal(verdict.count, 1);
    const hf__reply again = {.type = HF__VALUE_INTEGER, .integer = -8};
    verdict = hf__kind_lock.verdict(&again);
    assert_int_equal(verdict.what, HF__GRANTED);
    assert_int_equal(verdict.count, 7);
    static const int64_t remaining[] = {0, 1, 30000, -1, INT64_MAX};
    for (size_t i = 0; i < sizeof(remaining) / sizeof(remaining[0]); i++) {
        const hf__reply reply = {.type = HF__VALUE_INTEGER,
                                 .integer = remaining[i]};
        verdict = hf__kind_lock.verdict(&reply);
        assert_int_equal(verdict.what, HF__BUSY);
        assert_int_equal(verdict.remaining_ms, remaining[i]);
    }
    const hf__reply absurd = {.type = HF__VALUE_INTEGER, .integer = INT64_MIN};
    assert_int_equal(hf__kind_lock.verdict(&absurd).what, HF__MISUNDERSTOOD);
    static const hf__value_type others[] = {HF__VALUE_STRING, HF__VALUE_STATUS,
                                            HF__VALUE_ERROR, HF__VALUE_ARRAY};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const hf__reply reply = {.type = others[i], .text = HF__LITERAL("1")};
        assert_int_equal(hf__kind_lock.verdict(&reply).what, HF__MISUNDERSTOOD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixed_names),
        cmocka_unit_test(test_prefixed_name_of_any_bytes),
        cmocka_unit_test(test_prefixed_name_that_does_not_fit_fails),
        cmocka_unit_test(test_channel_of_a_lock),
        cmocka_unit_test(test_messages_of_a_lock),
        cmocka_unit_test(test_acquire_says_name_lease_owner),
        cmocka_unit_test(test_release_says_name_owner_count_lease_channel),
        cmocka_unit_test(test_force_says_name_channel),
        cmocka_unit_test(test_probe_says_name_channel_and_no_owner),
        cmocka_unit_test(test_scripts_are_embedded_whole),
        cmocka_unit_test(test_verdicts_of_a_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
