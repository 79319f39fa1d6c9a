/* What the tables of semaphores, permits and latches say: names byte for byte
 * as Redisson has them, messages, arguments, and how replies are read. */
#include "kinds/latch.h"
#include "kinds/permit.h"
#include "kinds/scripts.h"
#include "kinds/semaphore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- names (wire-protocol 2.1, 2.2, 26) */

static bool name_is(hf__name_fn make, const char *name, const char *expected)
{
    hf__buf out;
    hf__buf_init(&out, 256);
    make(&out, hf__slice_of(name));
    bool same = !out.failed && out.length == strlen(expected) &&
                memcmp(out.data, expected, out.length) == 0;
    if (!same) {
        print_error("%.*s, expected %s\n", (int)out.length, out.data, expected);
    }
    hf__buf_free(&out);
    return same;
}

static void test_channels(void **state)
{
    (void)state;
    assert_true(name_is(hf__kind_semaphore.channel, "s", "redisson_sc:{s}"));
    assert_true(
        name_is(hf__kind_semaphore_in_turn.channel, "s", "redisson_sc:{s}"));
    assert_true(name_is(hf__kind_permit.channel, "{t}:s", "redisson_sc:{t}:s"));
    assert_true(name_is(hf__kind_latch.channel, "l",
                        "redisson_countdownlatch__channel__{l}"));
    /* Braced in any case. */
    assert_true(name_is(hf__kind_latch.channel, "{t}:l",
                        "redisson_countdownlatch__channel__{{t}:l}"));
}

static void test_names_besides(void **state)
{
    (void)state;
    assert_true(name_is(hf__kind_permit.names[0], "s", "{s}:timeout"));
    assert_true(name_is(hf__kind_permit.names[0], "{t}:s", "{t}:s:timeout"));
    assert_true(name_is(hf__kind_permit.names[0], "a{b", "a{b:timeout"));
    assert_true(name_is(hf__kind_permit.names[1], "s", "holdfast_permits:{s}"));
    assert_true(
        name_is(hf__kind_semaphore.names[0], "s", "holdfast_permits:{s}"));
    assert_null(hf__kind_semaphore.names[1]);
    assert_true(name_is(hf__kind_semaphore_in_turn.names[0], "s",
                        "holdfast_permits:{s}"));
    assert_true(name_is(hf__kind_semaphore_in_turn.names[1], "s",
                        "holdfast_permits_queue:{s}"));
    assert_true(name_is(hf__kind_latch.names[0], "l", "holdfast_latch:{l}"));
}

/* ---- messages (wire-protocol 3.4) */

typedef struct message {
    const char *payload;
    hf__wake semaphore;
    hf__wake permit;
    hf__wake latch;
} message;

static void test_messages(void **state)
{
    (void)state;
    static const message cases[] = {
        {"1", HF__WAKE_ALL, HF__WAKE_ONE, HF__WAKE_ALL},
        {"2", HF__WAKE_ALL, HF__WAKE_ALL, HF__WAKE_NONE},
        {"10", HF__WAKE_ALL, HF__WAKE_ALL, HF__WAKE_NONE},
        {"9223372036854775807", HF__WAKE_ALL, HF__WAKE_ALL, HF__WAKE_NONE},
        {"0", HF__WAKE_NONE, HF__WAKE_NONE, HF__WAKE_ALL},
        {"-1", HF__WAKE_NONE, HF__WAKE_NONE, HF__WAKE_NONE},
        {"", HF__WAKE_NONE, HF__WAKE_NONE, HF__WAKE_NONE},
        {"x", HF__WAKE_NONE, HF__WAKE_NONE, HF__WAKE_NONE},
        {"1x", HF__WAKE_NONE, HF__WAKE_NONE, HF__WAKE_NONE},
        {"00", HF__WAKE_NONE, HF__WAKE_NONE, HF__WAKE_NONE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        hf__slice payload = hf__slice_of(cases[i].payload);
        assert_int_equal(hf__kind_semaphore.wake(payload), cases[i].semaphore);
        assert_int_equal(hf__kind_semaphore_in_turn.wake(payload),
                         cases[i].semaphore);
        assert_int_equal(hf__kind_permit.wake(payload), cases[i].permit);
        assert_int_equal(hf__kind_latch.wake(payload), cases[i].latch);
    }
}

/* ---- calls */

static const hf__asker semaphore_asker = {
    .name = {"s", 1},
    .channel = {"channel", 7},
    .names = {{"records", 7}},
    .owner = {"uuid:7", 6},
    .wish = {.wait_ms = -1, .permits = 3, .number = 42},
};

static const hf__asker permit_asker = {
    .name = {"s", 1},
    .channel = {"channel", 7},
    .names = {{"holders", 7}, {"records", 7}},
    .owner = {"0123456789abcdef", 16},
};

static hf__asker in_turn(int64_t wait_ms)
{
    hf__asker asker = semaphore_asker;
    asker.names[1] = HF__LITERAL("queue");
    asker.wish.wait_ms = wait_ms;
    return asker;
}

/* Keys first; NULL behind the last argument. */
static void assert_call(const hf__call *call, const hf__script *script,
                        size_t keys, const char *const args[])
{
    size_t count = 0;
    assert_ptr_equal(call->script, script);
    assert_int_equal(call->keys, keys);
    for (; args[count]; count++) {
        assert_true(count < call->count);
        assert_int_equal(call->args[count].length, strlen(args[count]));
        assert_memory_equal(call->args[count].data, args[count],
                            strlen(args[count]));
    }
    assert_int_equal(call->count, count);
}

static void test_calls_of_a_semaphore(void **state)
{
    (void)state;
    hf__call call;
    hf__kind_semaphore.acquire(&call, &semaphore_asker, 30000);
    assert_call(
        &call, &hf__script_semaphore_acquire, 2,
        (const char *const[]){"s", "records", "3", "uuid:7", "42", NULL});
    hf__kind_semaphore.release(&call, &semaphore_asker, 0, 30000);
    assert_call(
        &call, &hf__script_semaphore_release, 2,
        (const char *const[]){"s", "records", "uuid:7", "channel", "42", NULL});
    hf__kind_semaphore.probe(&call, &semaphore_asker);
    assert_call(&call, &hf__script_semaphore_probe, 2,
                (const char *const[]){"s", "records", "channel", NULL});
}

static void test_calls_of_a_semaphore_in_turn(void **state)
{
    (void)state;
    hf__call call;
    hf__asker asker = in_turn(-1);
    hf__kind_semaphore_in_turn.acquire(&call, &asker, 30000);
    assert_call(&call, &hf__script_semaphore_acquire_in_turn, 3,
                (const char *const[]){"s", "records", "queue", "3", "uuid:7",
                                      "42", "channel", "1", NULL});
    asker = in_turn(0); /* who does not wait gets no place */
    hf__kind_semaphore_in_turn.acquire(&call, &asker, 30000);
    assert_call(&call, &hf__script_semaphore_acquire_in_turn, 3,
                (const char *const[]){"s", "records", "queue", "3", "uuid:7",
                                      "42", "channel", "0", NULL});
    hf__kind_semaphore_in_turn.release(&call, &asker, 0, 30000);
    assert_call(&call, &hf__script_semaphore_release, 3,
                (const char *const[]){"s", "records", "queue", "uuid:7",
                                      "channel", "42", NULL});
    hf__kind_semaphore_in_turn.probe(&call, &asker);
    assert_call(
        &call, &hf__script_semaphore_probe, 3,
        (const char *const[]){"s", "records", "queue", "channel", NULL});
}

static void test_calls_of_a_permit(void **state)
{
    (void)state;
    hf__call call;
    hf__kind_permit.acquire(&call, &permit_asker, 30000);
    assert_call(&call, &hf__script_permit_acquire, 2,
                (const char *const[]){"s", "holders", "30000",
                                      "0123456789abcdef", "channel", NULL});
    hf__kind_permit.release(&call, &permit_asker, 1, 500);
    assert_call(&call, &hf__script_permit_release, 2,
                (const char *const[]){"s", "holders", "0123456789abcdef", "1",
                                      "500", "channel", NULL});
    hf__kind_permit.force(&call, &permit_asker);
    assert_call(&call, &hf__script_permit_force, 2,
                (const char *const[]){"s", "holders", "channel", NULL});
    hf__kind_permit.look(&call, &permit_asker);
    assert_call(
        &call, &hf__script_permit_look, 2,
        (const char *const[]){"s", "holders", "0123456789abcdef", NULL});
    hf__kind_permit.probe(&call, &permit_asker);
    assert_call(&call, &hf__script_permit_probe, 2,
                (const char *const[]){"s", "holders", "channel", NULL});
    assert_ptr_equal(hf__kind_permit.renew, &hf__script_permit_renew);
}

static void test_calls_of_a_latch(void **state)
{
    (void)state;
    hf__call call;
    hf__kind_latch.acquire(&call, &semaphore_asker, 30000);
    assert_call(&call, NULL, 0, (const char *const[]){"GET", "s", NULL});
    hf__kind_latch.release(&call, &semaphore_asker, 0, 30000);
    assert_call(&call, NULL, 0, (const char *const[]){"EXISTS", "s", NULL});
    hf__kind_latch.probe(&call, &semaphore_asker);
    assert_call(&call, &hf__script_latch_probe, 2,
                (const char *const[]){"s", "records", "channel", NULL});
}

/* ---- replies */

static void assert_verdict(const hf__kind *kind, hf__reply reply,
                           hf__verdict_what what, int64_t remaining_ms)
{
    hf__verdict verdict = kind->verdict(&reply);
    assert_int_equal(verdict.what, what);
    assert_int_equal(verdict.remaining_ms, remaining_ms);
    assert_int_equal(verdict.token, 0);
}

static void assert_verdict_of_integer(const hf__kind *kind, int64_t integer,
                                      hf__verdict_what what,
                                      int64_t remaining_ms)
{
    const hf__reply reply = {.type = HF__VALUE_INTEGER, .integer = integer};
    assert_verdict(kind, reply, what, remaining_ms);
}

static void test_verdicts_of_permits(void **state)
{
    (void)state;
    static const hf__kind *const kinds[] = {
        &hf__kind_semaphore, &hf__kind_semaphore_in_turn, &hf__kind_permit};
    static const hf__value_type others[] = {HF__VALUE_STRING, HF__VALUE_STATUS,
                                            HF__VALUE_ARRAY};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        const hf__reply nil = {.type = HF__VALUE_NIL};
        assert_verdict(kinds[i], nil, HF__GRANTED, 0);
        assert_verdict_of_integer(kinds[i], HF__NOT_SAID, HF__BUSY,
                                  HF__NOT_SAID);
        assert_verdict_of_integer(kinds[i], 0, HF__BUSY, 0);
        assert_verdict_of_integer(kinds[i], 2000, HF__BUSY, 2000);
        assert_verdict_of_integer(kinds[i], -1, HF__MISUNDERSTOOD, 0);
        assert_verdict_of_integer(kinds[i], -3, HF__MISUNDERSTOOD, 0);
        for (size_t j = 0; j < COUNT(others); j++) {
            const hf__reply reply = {.type = others[j],
                                     .text = HF__LITERAL("1")};
            assert_verdict(kinds[i], reply, HF__MISUNDERSTOOD, 0);
        }
    }
    /* A permit is never had twice. */
    const hf__reply nil = {.type = HF__VALUE_NIL};
    assert_int_equal(hf__kind_permit.verdict(&nil).count, 1);
}

static void test_verdicts_of_a_latch(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        hf__verdict_what what;
    } cases[] = {
        {"0", HF__GRANTED},
        {"-1", HF__GRANTED},
        {"1", HF__BUSY},
        {"9223372036854775807", HF__BUSY},
        {"10", HF__BUSY},
        {"", HF__MISUNDERSTOOD},
        {"-", HF__MISUNDERSTOOD},
        {"x", HF__MISUNDERSTOOD},
        {"1.5", HF__MISUNDERSTOOD},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const hf__reply reply = {.type = HF__VALUE_STRING,
                                 .text = hf__slice_of(cases[i].text)};
        assert_verdict(&hf__kind_latch, reply, cases[i].what,
                       cases[i].what == HF__BUSY ? HF__NOT_SAID : 0);
    }
    const hf__reply nil = {.type = HF__VALUE_NIL};
    assert_verdict(&hf__kind_latch, nil, HF__GRANTED, 0);
    assert_verdict_of_integer(&hf__kind_latch, 0, HF__MISUNDERSTOOD, 0);
}

/* ---- what the machines ask of a table */

static void test_properties(void **state)
{
    (void)state;
    static const hf__kind *const kinds[] = {&hf__kind_semaphore,
                                            &hf__kind_semaphore_in_turn,
                                            &hf__kind_permit, &hf__kind_latch};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        assert_true(kinds[i]->shared); /* many have it at once */
        assert_int_equal(kinds[i]->leaseless, !kinds[i]->renew);
        assert_int_equal(kinds[i]->queued,
                         kinds[i] == &hf__kind_semaphore_in_turn);
        assert_int_equal(kinds[i]->anonymous, kinds[i] == &hf__kind_permit);
        assert_int_equal(kinds[i]->owner_is_raw, kinds[i] == &hf__kind_permit);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(kinds[i]->letter, kinds[j]->letter);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_names_besides),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_calls_of_a_semaphore),
        cmocka_unit_test(test_calls_of_a_semaphore_in_turn),
        cmocka_unit_test(test_calls_of_a_permit),
        cmocka_unit_test(test_calls_of_a_latch),
        cmocka_unit_test(test_verdicts_of_permits),
        cmocka_unit_test(test_verdicts_of_a_latch),
        cmocka_unit_test(test_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
