/* What a server's error reply means. The texts are those of Redis 7.0 to 8.0
 * and Valkey 8.1. */
#include "core/refusal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct expectation {
    const char *text;
    hf__refusal refusal; /* status, retriable, not run */
} expectation;

static void check(const expectation *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hf__refusal got = hf__refusal_of(hf__slice_of(cases[i].text));
        const hf__refusal *want = &cases[i].refusal;
        if (got.status != want->status || got.retriable != want->retriable ||
            got.not_run != want->not_run) {
            fail_msg("\"%s\": status %d, retriable %d, not run %d",
                     cases[i].text, got.status, got.retriable, got.not_run);
        }
    }
}

/* They pass by themselves, and nothing was executed: an acquire may be sent
 * again without settling. */
static void test_what_passes_by_itself(void **state)
{
    (void)state;
    static const expectation cases[] = {
        {"LOADING Redis is loading the dataset in memory",
         {HF_ESERVER, true, true}},
        {"BUSY Redis is busy running a script. You can only call SCRIPT KILL",
         {HF_ESERVER, true, true}},
        {"MASTERDOWN Link with MASTER is down", {HF_ESERVER, true, true}},
        {"READONLY You can't write against a read only replica. script: "
         "a9b4, on @user_script:9.",
         {HF_ESERVER, true, true}},
        {"NOREPLICAS Not enough good replicas to write.",
         {HF_ESERVER, true, true}},
        {"MISCONF Redis is configured to save RDB snapshots, but it's "
         "currently unable to persist to disk.",
         {HF_ESERVER, true, true}},
        {"CLUSTERDOWN The cluster is down", {HF_ESERVER, true, true}},
        {"TRYAGAIN Multiple keys request during rehashing of slot",
         {HF_ESERVER, true, true}},
        {"NOSCRIPT No matching script. Please use EVAL.",
         {HF_ESERVER, true, true}},
        {"ERR max number of clients reached", {HF_EUNREACHABLE, true, true}},
    };
    check(cases, sizeof(cases) / sizeof(cases[0]));
}

/* Each script looks at its key before it writes to it. */
static void test_key_of_another_type_was_left_alone(void **state)
{
    (void)state;
    static const expectation cases[] = {
        {"WRONGTYPE Operation against a key holding the wrong kind of value",
         {HF_EWRONGTYPE, false, true}},
    };
    check(cases, 1);
}

static void test_who_may_not(void **state)
{
    (void)state;
    static const expectation cases[] = {
        {"NOAUTH Authentication required.", {HF_EAUTH, false, true}},
        {"WRONGPASS invalid username-password pair", {HF_EAUTH, false, true}},
        {"NOPERM this user has no permissions to run the 'evalsha' command",
         {HF_EPERM, false, false}},
        {"ERR ACL failure in script: User app has no permissions to run the "
         "'pexpire' command script: f3, on @user_script:11.",
         {HF_EPERM, false, false}},
        {"ERR ACL failure in script: No permissions to access a key script: f3",
         {HF_EPERM, false, false}},
        {"ERR The user executing the script can't run this command or "
         "subcommand script: f3, on @user_script:11.",
         {HF_EPERM, false, false}},
        {"ERR The user executing the script can't access at least one of the "
         "keys mentioned in the command arguments script: f3",
         {HF_EPERM, false, false}},
        {"ERR The user executing the script can't publish to the channel "
         "mentioned in the command script: f3",
         {HF_EPERM, false, false}},
    };
    check(cases, sizeof(cases) / sizeof(cases[0]));
}

/* R10: anything else may have come in the midst of a script. */
static void test_everything_else_may_have_been_applied(void **state)
{
    (void)state;
    static const expectation cases[] = {
        {"OOM command not allowed when used memory > 'maxmemory'.",
         {HF_ESERVER, false, false}},
        {"ERR Error running script: killed by user with SCRIPT KILL.",
         {HF_ESERVER, false, false}},
        {"ERR max number of things", {HF_ESERVER, false, false}},
        {"ERR a text with READONLY in it", {HF_ESERVER, false, false}},
        {" LOADING", {HF_ESERVER, false, false}},
        {"loading", {HF_ESERVER, false, false}},
        {"L", {HF_ESERVER, false, false}},
        {"", {HF_ESERVER, false, false}},
    };
    check(cases, sizeof(cases) / sizeof(cases[0]));
}

/* The first word, not its beginning. */
static void test_longer_words_are_other_words(void **state)
{
    (void)state;
    static const expectation cases[] = {
        {"BUSYKEY Target key name already exists.", {HF_ESERVER, false, false}},
        {"BUSYGROUP Consumer Group name already exists",
         {HF_ESERVER, false, false}},
        {"BUSY", {HF_ESERVER, true, true}},
    };
    check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_text_is_read_within_its_bounds(void **state)
{
    (void)state;
    static const char bytes[] = "LOADING";
    hf__refusal refusal = hf__refusal_of((hf__slice){bytes, 6});
    assert_false(refusal.retriable);
    refusal = hf__refusal_of((hf__slice){bytes, 7});
    assert_true(refusal.retriable);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_passes_by_itself),
        cmocka_unit_test(test_key_of_another_type_was_left_alone),
        cmocka_unit_test(test_who_may_not),
        cmocka_unit_test(test_everything_else_may_have_been_applied),
        cmocka_unit_test(test_longer_words_are_other_words),
        cmocka_unit_test(test_text_is_read_within_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
