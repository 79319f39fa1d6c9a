/* What the simple lock's table says: its commands, and how replies are read. */
#include "kinds/scripts.h"
#include "kinds/simple.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

static const hf__asker asker = {
    .name = {"orders", 6},
    .owner = {"uuid:7", 6},
};

static void assert_call(const hf__call *call, const hf__script *script,
                        const char *const args[], size_t count)
{
    assert_ptr_equal(call->script, script);
    assert_int_equal(call->keys, script ? 1 : 0);
    assert_int_equal(call->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(call->args[i].length, strlen(args[i]));
        assert_memory_equal(call->args[i].data, args[i], strlen(args[i]));
    }
}

static void test_acquire_is_one_plain_command(void **state)
{
    (void)state;
    static const char *const args[] = {"SET", "orders",      "uuid:7",
                                       "PX",  "31622400000", "NX"};
    hf__call call;
    hf__kind_simple.acquire(&call, &asker, HF_LEASE_MAX_MS);
    assert_call(&call, NULL, args, 6);
}

static void test_release_says_name_owner_count_lease(void **state)
{
    (void)state;
    static const char *const args[] = {"orders", "uuid:7", "0", "30000"};
    hf__call call;
    hf__kind_simple.release(&call, &asker, 0, 30000);
    assert_call(&call, &hf__script_simple_release, args, 4);
}

static void test_delete_asks_why(void **state)
{
    (void)state;
    static const char *const args[] = {"orders", "uuid:7", "0", "0", "why"};
    hf__call call;
    hf__simple_delete(&call, &asker);
    assert_call(&call, &hf__script_simple_release, args, 5);
}

static void test_force_and_look(void **state)
{
    (void)state;
    static const char *const args[] = {"orders", "uuid:7"};
    hf__call call;
    hf__kind_simple.force(&call, &asker);
    assert_call(&call, &hf__script_simple_force, args, 1);
    hf__kind_simple.look(&call, &asker);
    assert_call(&call, &hf__script_simple_look, args, 2);
    assert_ptr_equal(hf__kind_simple.renew, &hf__script_simple_renew);
}

/* Not reentrant, and without messages: its waiters ask again and again. */
static void test_ways(void **state)
{
    (void)state;
    assert_false(hf__kind_simple.reentrant || hf__kind_simple.shared ||
                 hf__kind_simple.queued || hf__kind_simple.anonymous ||
                 hf__kind_simple.leaseless);
    assert_null(hf__kind_simple.channel);
    assert_null(hf__kind_simple.names[0]);
}

static void test_verdicts(void **state)
{
    (void)state;
    const hf__reply ok = {.type = HF__VALUE_STATUS, .text = HF__LITERAL("OK")};
    hf__verdict verdict = hf__kind_simple.verdict(&ok);
    assert_int_equal(verdict.what, HF__GRANTED);
    assert_int_equal(verdict.count, 1);
    assert_int_equal(verdict.token, 0);
    verdict = hf__kind_simple.verdict(&(hf__reply){.type = HF__VALUE_NIL});
    assert_int_equal(verdict.what, HF__BUSY);
    assert_int_equal(verdict.remaining_ms, HF__NOT_SAID);
    static const hf__value_type others[] = {HF__VALUE_INTEGER, HF__VALUE_STRING,
                                            HF__VALUE_ERROR, HF__VALUE_ARRAY};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const hf__reply reply = {.type = others[i], .text = HF__LITERAL("OK")};
        assert_int_equal(hf__kind_simple.verdict(&reply).what,
                         HF__MISUNDERSTOOD);
    }
    const hf__reply queued = {.type = HF__VALUE_STATUS,
                              .text = HF__LITERAL("QUEUED")};
    assert_int_equal(hf__kind_simple.verdict(&queued).what, HF__MISUNDERSTOOD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acquire_is_one_plain_command),
        cmocka_unit_test(test_release_says_name_owner_count_lease),
        cmocka_unit_test(test_delete_asks_why),
        cmocka_unit_test(test_force_and_look),
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_verdicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
