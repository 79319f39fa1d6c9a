/* What the fair locks' tables say: the names of the queue's keys, the order of
 * arguments, which wait they speak of, and how replies are read. */
#include "kinds/fair.h"
#include "kinds/lock.h"
#include "kinds/scripts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

static const hf__kind *const kinds[] = {&hf__kind_fair, &hf__kind_fair_once};

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
    for (int i = 0; i < 2; i++) {
        const hf__kind *kind = kinds[i];
        assert_name(kind->names[0], "fairLock",
                    "redisson_lock_queue:{fairLock}");
        assert_name(kind->names[1], "fairLock",
                    "redisson_lock_timeout:{fairLock}");
        assert_name(kind->channel, "fairLock",
                    "redisson_lock__channel:{fairLock}");
        assert_name(kind->names[0], "{t}:k", "redisson_lock_queue:{t}:k");
        assert_name(kind->names[1], "{t}:k", "redisson_lock_timeout:{t}:k");
    }
}

static void test_what_the_kinds_are(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_true(kinds[i]->queued);
        assert_true(kinds[i]->channel_of_owner);
        assert_false(kinds[i]->shared);
        assert_int_equal(kinds[i]->wake(HF__LITERAL("0")), HF__WAKE_ONE);
        assert_int_equal(kinds[i]->wake(HF__LITERAL("-1")), HF__WAKE_NONE);
        assert_ptr_equal(kinds[i]->renew, &hf__script_lock_renew);
    }
    assert_true(hf__kind_fair.reentrant);
    assert_false(hf__kind_fair_once.reentrant);
    assert_int_not_equal(hf__kind_fair.letter, hf__kind_fair_once.letter);
}

/* ---- calls */

static hf__asker asker_waiting(int64_t wait_ms)
{
    return (hf__asker){.name = HF__LITERAL("f"),
                       .channel = HF__LITERAL("redisson_lock__channel:{f}"),
                       .names = {HF__LITERAL("redisson_lock_queue:{f}"),
                                 HF__LITERAL("redisson_lock_timeout:{f}")},
                       .owner = HF__LITERAL("uuid:7"),
                       .wish = {.wait_ms = wait_ms, .fair_wait_ms = 300000}};
}

/* The keys are the name and those of its queue. */
static void assert_call(const hf__call *call, const hf__script *script,
                        const char *const args[], size_t count)
{
    static const char *const keys[] = {"f", "redisson_lock_queue:{f}",
                                       "redisson_lock_timeout:{f}"};
    assert_ptr_equal(call->script, script);
    assert_int_equal(call->keys, 3);
    assert_int_equal(call->count, 3 + count);
    for (size_t i = 0; i < 3 + count; i++) {
        const char *expected = i < 3 ? keys[i] : args[i - 3];
        assert_int_equal(call->args[i].length, strlen(expected));
        assert_memory_equal(call->args[i].data, expected, strlen(expected));
    }
}

static void assert_acquire(int64_t wait_ms, const char *said)
{
    const char *const args[] = {"30000", "uuid:7", said, "once"};
    hf__call call;
    hf__asker asker = asker_waiting(wait_ms);
    hf__kind_fair.acquire(&call, &asker, 30000);
    assert_call(&call, &hf__script_fair_acquire, args, 3);
    hf__kind_fair_once.acquire(&call, &asker, 30000);
    assert_call(&call, &hf__script_fair_acquire, args, 4);
}

static void test_acquire_says_lease_owner_wait(void **state)
{
    (void)state;
    assert_acquire(5000, "5000");
    assert_acquire(1, "1");
    assert_acquire(0, "0");        /* does not queue */
    assert_acquire(-1, "-300000"); /* without an end */
    /* What it has already. */
    static const char *const args[] = {"30000", "uuid:7", "5000", "again"};
    hf__call call;
    hf__asker asker = asker_waiting(5000);
    asker.again = true;
    hf__kind_fair.acquire(&call, &asker, 30000);
    assert_call(&call, &hf__script_fair_acquire, args, 4);
}

/* For the queue it is what the owner has waited with. */
static void assert_release(int64_t wait_ms, const char *said)
{
    const char *const args[] = {"uuid:7", "2", "40000", said,
                                "redisson_lock__channel:{f}"};
    hf__call call;
    hf__asker asker = asker_waiting(wait_ms);
    for (int i = 0; i < 2; i++) {
        kinds[i]->release(&call, &asker, 2, 40000);
        assert_call(&call, &hf__script_fair_release, args, 5);
    }
}

static void test_release_says_owner_count_lease_wait_channel(void **state)
{
    (void)state;
    assert_release(5000, "5000");
    assert_release(-1, "300000");
    assert_release(0, "300000");
}

static void test_force_says_channel(void **state)
{
    (void)state;
    static const char *const args[] = {"redisson_lock__channel:{f}"};
    hf__call call;
    hf__asker asker = asker_waiting(0);
    hf__kind_fair.force(&call, &asker);
    assert_call(&call, &hf__script_fair_force, args, 1);
}

static void test_probe_says_channel_and_no_owner(void **state)
{
    (void)state;
    static const char *const args[] = {"redisson_lock__channel:{f}",
                                       "holdfast:probe"};
    hf__call call;
    hf__asker asker = asker_waiting(0);
    hf__kind_fair.probe(&call, &asker);
    assert_call(&call, &hf__script_fair_probe, args, 2);
}

/* ---- replies */

static hf__verdict verdict_of(const hf__kind *kind, int64_t integer)
{
    const hf__reply reply = {.type = HF__VALUE_INTEGER, .integer = integer};
    return kind->verdict(&reply);
}

static void test_verdicts(void **state)
{
    (void)state;
    static const int64_t remaining[] = {1, 30000, -1, INT64_MAX};
    for (int i = 0; i < 2; i++) {
        hf__verdict verdict =
            kinds[i]->verdict(&(hf__reply){.type = HF__VALUE_NIL});
        assert_int_equal(verdict.what, HF__GRANTED);
        assert_int_equal(verdict.count, 1);
        for (size_t n = 0; n < sizeof(remaining) / sizeof(remaining[0]); n++) {
            verdict = verdict_of(kinds[i], remaining[n]);
            assert_int_equal(verdict.what, HF__BUSY);
            assert_int_equal(verdict.remaining_ms, remaining[n]);
        }
        assert_int_equal(verdict_of(kinds[i], INT64_MIN).what,
                         HF__MISUNDERSTOOD);
        assert_int_equal(
            kinds[i]->verdict(&(hf__reply){.type = HF__VALUE_ARRAY}).what,
            HF__MISUNDERSTOOD);
    }
    hf__verdict again = verdict_of(&hf__kind_fair, -3);
    assert_int_equal(again.what, HF__GRANTED);
    assert_int_equal(again.count, 2);
    assert_int_equal(verdict_of(&hf__kind_fair_once, -3).what, HF__OWN);
    assert_int_equal(verdict_of(&hf__kind_fair, -2).what, HF__GONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_what_the_kinds_are),
        cmocka_unit_test(test_acquire_says_lease_owner_wait),
        cmocka_unit_test(test_release_says_owner_count_lease_wait_channel),
        cmocka_unit_test(test_force_says_channel),
        cmocka_unit_test(test_probe_says_channel_and_no_owner),
        cmocka_unit_test(test_verdicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
