/* The acquisition machine, fed with events by hand: grants, lost replies,
 * refusals, tokens, and the end from outside. R numbers are those of the
 * correctness rules that a test stands for. */
#include "core/acquire.h"
#include "kinds/lock.h"
#include "support/virtual.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static virtual_seam world;

/* ---- validity (R1, R2) */

static void test_deadline_is_sending_plus_lease_minus_drift(void **state)
{
    (void)state;
    const int64_t at = 77 * VIRTUAL_SECOND;
    assert_int_equal(hf__lease_deadline(at, VIRTUAL_MS(30000)) - at,
                     VIRTUAL_MS(30000 - 300 - 2));
    assert_int_equal(hf__lease_deadline(at, VIRTUAL_MS(20)) - at,
                     VIRTUAL_MS(18) - VIRTUAL_MS(20) / 100);
    const int64_t year = VIRTUAL_MS(HF_LEASE_MAX_MS);
    assert_int_equal(hf__lease_deadline(at, year) - at,
                     year - year / 100 - VIRTUAL_MS(2));
}

static void test_grant_ends_the_machine(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    virtual_pass(&world, VIRTUAL_MS(7));
    assert_int_equal(virtual_nil(&a), HF__ACT_DONE);
    assert_int_equal(a.status, HF_OK);
    assert_int_equal(a.state, HF__ACQ_DONE);
    assert_int_equal(a.token, 0);
    assert_false(a.maybe_applied);
    assert_int_equal(a.sent_at, world.now - VIRTUAL_MS(7));
}

static void test_grant_in_the_last_moment_counts(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    world.now = hf__lease_deadline(a.sent_at, VIRTUAL_LEASE) - 1;
    assert_int_equal(virtual_nil(&a), HF__ACT_DONE);
    assert_int_equal(a.status, HF_OK);
}

/* R1: such a grant is worth nothing, and must not stay on the server. */
static void test_grant_after_its_own_deadline_is_settled(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    world.now = hf__lease_deadline(a.sent_at, VIRTUAL_LEASE);
    assert_int_equal(virtual_nil(&a), HF__ACT_SETTLE);
    assert_true(a.maybe_applied);
    assert_int_equal(virtual_event(&a, HF__EV_SETTLED), HF__ACT_SEND);
    assert_false(a.maybe_applied);
    assert_int_equal(a.sent_at, world.now);
    assert_int_equal(virtual_nil(&a), HF__ACT_DONE);
    assert_int_equal(a.status, HF_OK);
}

/* ---- lost replies (R7, R9) */

static void test_unknown_outcome_is_never_resent_before_settling(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    assert_int_equal(virtual_failure(&a, HF__EV_UNKNOWN, HF_EUNREACHABLE, true),
                     HF__ACT_SETTLE);
    for (int i = 0; i < 5; i++) {
        assert_true(a.maybe_applied);
        assert_int_equal(
            virtual_failure(&a, HF__EV_NOT_SETTLED, HF_EUNREACHABLE, true),
            HF__ACT_PARK);
        assert_false(a.shared);
        world.now = a.park_until;
        assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_SETTLE);
    }
    assert_int_equal(virtual_event(&a, HF__EV_SETTLED), HF__ACT_SEND);
    assert_false(a.maybe_applied);
    assert_int_equal(a.tries, 2);
}

static void test_unknown_outcome_while_parked_waiter_tries(void **state)
{
    (void)state;
    hf__acquire a = virtual_parked(&world, 1000);
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_SEND);
    assert_int_equal(virtual_failure(&a, HF__EV_UNKNOWN, HF_EUNREACHABLE, true),
                     HF__ACT_SETTLE);
    assert_int_equal(virtual_event(&a, HF__EV_SETTLED), HF__ACT_SEND);
    assert_int_equal(virtual_integer(&a, 1000), HF__ACT_PARK);
    assert_true(a.shared);
}

static void test_giving_up_after_unknown_says_so(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    a.deadline = world.now + VIRTUAL_SECOND;
    assert_int_equal(virtual_failure(&a, HF__EV_UNKNOWN, HF_EUNREACHABLE, true),
                     HF__ACT_SETTLE);
    world.now = a.deadline;
    assert_int_equal(virtual_event(&a, HF__EV_TIME_UP), HF__ACT_DONE);
    assert_int_equal(a.status, HF_EUNREACHABLE);
    assert_true(a.maybe_applied);
    assert_string_equal(hf_error_text(&a.error), "said by the test");
}

/* What certainly was not executed needs no settling. */
static void test_not_sent_is_tried_again_after_a_while(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    int64_t before = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(
            virtual_failure(&a, HF__EV_NOT_SENT, HF_EUNREACHABLE, true),
            HF__ACT_PARK);
        assert_false(a.maybe_applied);
        assert_true(a.park_until - world.now > before);
        assert_true(a.park_until - world.now <= VIRTUAL_SECOND);
        before = a.park_until - world.now;
        world.now = a.park_until;
        assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_SEND);
    }
}

static void test_hopeless_failure_ends_the_wait(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    assert_int_equal(virtual_failure(&a, HF__EV_NOT_SENT, HF_EAUTH, false),
                     HF__ACT_DONE);
    assert_int_equal(a.status, HF_EAUTH);
    assert_int_equal(hf_error_status(&a.error), HF_EAUTH);
    assert_false(hf_error_is_retriable(&a.error));
}

static void test_outdated_is_sent_again(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    assert_int_equal(virtual_event(&a, HF__EV_OUTDATED), HF__ACT_SEND);
    assert_false(a.maybe_applied);
}

/* ---- a single try */

static void test_single_try_ends_when_busy(void **state)
{
    (void)state;
    hf__acquire a = virtual_machine(&world);
    a.once = true;
    assert_int_equal(virtual_event(&a, HF__EV_START), HF__ACT_SEND);
    assert_int_equal(virtual_integer(&a, 1234), HF__ACT_DONE);
    assert_int_equal(a.status, HF_NOT_ACQUIRED);
    assert_int_equal(a.tries, 1);
    assert_non_null(strstr(hf_error_text(&a.error), "1234 ms"));
    assert_true(hf_error_is_retriable(&a.error));
}

static void test_single_try_survives_one_lost_connection_only(void **state)
{
    (void)state;
    hf__acquire a = virtual_machine(&world);
    a.once = true;
    assert_int_equal(virtual_event(&a, HF__EV_START), HF__ACT_SEND);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            virtual_failure(&a, HF__EV_UNKNOWN, HF_EUNREACHABLE, true),
            HF__ACT_SETTLE);
        assert_int_equal(virtual_event(&a, HF__EV_SETTLED),
                         i == 0 ? HF__ACT_SEND : HF__ACT_DONE);
    }
    assert_int_equal(a.status, HF_EUNREACHABLE);
    assert_false(a.maybe_applied);
}

static void test_single_try_does_not_back_off(void **state)
{
    (void)state;
    hf__acquire a = virtual_machine(&world);
    a.once = true;
    assert_int_equal(virtual_event(&a, HF__EV_START), HF__ACT_SEND);
    assert_int_equal(virtual_error(&a, "LOADING the dataset"), HF__ACT_DONE);
    assert_int_equal(a.status, HF_ESERVER);
    assert_true(hf_error_is_retriable(&a.error));
    assert_false(a.maybe_applied);

    a = virtual_machine(&world);
    a.once = true;
    assert_int_equal(virtual_event(&a, HF__EV_START), HF__ACT_SEND);
    assert_int_equal(
        virtual_failure(&a, HF__EV_NOT_SENT, HF_EUNREACHABLE, true),
        HF__ACT_DONE);
    assert_int_equal(a.status, HF_EUNREACHABLE);
}

/* Redisson tryLock: a wait of nothing is one try. */
static void test_first_try_is_made_whatever_the_time(void **state)
{
    (void)state;
    hf__acquire a = virtual_machine(&world);
    a.deadline = world.now - 1;
    assert_int_equal(virtual_event(&a, HF__EV_START), HF__ACT_SEND);
    assert_int_equal(virtual_integer(&a, 10), HF__ACT_DONE);
    assert_int_equal(a.status, HF_NOT_ACQUIRED);
}

/* ---- refusals (R10) */

static void test_passing_refusal_is_waited_out(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy running a script.",
        "READONLY You can't write against a read only replica.",
        "CLUSTERDOWN The cluster is down",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        hf__acquire a = virtual_sent(&world);
        assert_int_equal(virtual_error(&a, texts[i]), HF__ACT_PARK);
        assert_false(a.maybe_applied);
        assert_false(a.shared);
        world.now = a.park_until;
        assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_SEND);
        assert_int_equal(virtual_nil(&a), HF__ACT_DONE);
        assert_int_equal(a.status, HF_OK);
    }
}

static void test_waiting_out_a_refusal_tells_it_in_the_end(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    a.deadline = world.now + VIRTUAL_MS(10);
    assert_int_equal(virtual_error(&a, "LOADING now"), HF__ACT_PARK);
    world.now = a.park_until;
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_DONE);
    assert_int_equal(a.status, HF_ESERVER);
    assert_string_equal(hf_error_text(&a.error), "LOADING now");
}

/* An error reply is no rollback. */
static void test_error_of_a_script_may_have_been_applied(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        hf_status status;
        bool maybe_applied;
    } cases[] = {
        {"ERR value is not an integer or out of range", HF_ESERVER, true},
        {"OOM command not allowed", HF_ESERVER, true},
        {"WRONGTYPE Operation against a key", HF_EWRONGTYPE, false},
        {"NOPERM this user has no permissions", HF_EPERM, true},
        {"ERR The user executing the script can't run this command or "
         "subcommand script: 0123, on @user_script:9.",
         HF_EPERM, true},
        {"NOAUTH Authentication required.", HF_EAUTH, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hf__acquire a = virtual_sent(&world);
        assert_int_equal(virtual_error(&a, cases[i].text), HF__ACT_DONE);
        assert_int_equal(a.status, cases[i].status);
        assert_int_equal(hf_error_status(&a.error), cases[i].status);
        assert_string_equal(hf_error_text(&a.error), cases[i].text);
        assert_int_equal(a.maybe_applied, cases[i].maybe_applied);
    }
}

static void test_error_text_ends_where_its_slice_ends(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    static const char bytes[] = "OOM no memory\r\n+OK";
    const hf__acquire_input input = {
        .event = HF__EV_GRANTED_OR_NOT,
        .reply = {.type = HF__VALUE_ERROR, .text = {bytes, 13}}};
    assert_int_equal(virtual_say(&a, &input), HF__ACT_DONE);
    assert_string_equal(hf_error_text(&a.error), "OOM no memory");
}

static void test_reply_of_another_kind_is_refused(void **state)
{
    (void)state;
    static const hf__value_type types[] = {HF__VALUE_STRING, HF__VALUE_STATUS,
                                           HF__VALUE_ARRAY};
    for (size_t i = 0; i < 3; i++) {
        hf__acquire a = virtual_sent(&world);
        const hf__acquire_input input = {
            .event = HF__EV_GRANTED_OR_NOT,
            .reply = {.type = types[i], .text = HF__LITERAL("OK")}};
        assert_int_equal(virtual_say(&a, &input), HF__ACT_DONE);
        assert_int_equal(a.status, HF_EPROTOCOL);
        assert_true(a.maybe_applied);
    }
}

/* ---- tokens (R18) */

static hf__acquire fenced(uint64_t last_token)
{
    hf__acquire a = virtual_machine(&world);
    a.kind = &virtual_kind_fenced;
    a.last_token = last_token;
    assert_int_equal(virtual_event(&a, HF__EV_START), HF__ACT_SEND);
    return a;
}

static void test_token_must_rise(void **state)
{
    (void)state;
    const int64_t large = (INT64_C(1) << 53) + 1;
    hf__acquire a = fenced((uint64_t)large);
    assert_int_equal(virtual_integer(&a, large + 1), HF__ACT_DONE);
    assert_int_equal(a.status, HF_OK);
    assert_int_equal(a.token, large + 1);

    for (int64_t token = large - 1; token <= large; token++) {
        a = fenced((uint64_t)large);
        assert_int_equal(virtual_integer(&a, token), HF__ACT_DONE);
        assert_int_equal(a.status, HF_EPROTOCOL);
        assert_true(a.maybe_applied); /* it is to be given back */
        assert_int_equal(a.token, 0);
    }
}

static void test_kind_without_tokens_is_not_asked_for_any(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    a.last_token = 5;
    assert_int_equal(virtual_nil(&a), HF__ACT_DONE);
    assert_int_equal(a.status, HF_OK);
}

/* ---- the end from outside */

static void test_cancel_ends_every_state(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    assert_int_equal(virtual_event_in_flight(&a, HF__EV_CANCEL), HF__ACT_DONE);
    assert_int_equal(a.status, HF_CANCELLED);
    assert_true(a.maybe_applied); /* R9 */

    a = virtual_parked(&world, 1000);
    assert_int_equal(virtual_event(&a, HF__EV_CANCEL), HF__ACT_DONE);
    assert_int_equal(a.status, HF_CANCELLED);
    assert_false(a.maybe_applied);

    a = virtual_sent(&world);
    assert_int_equal(virtual_integer(&a, 1000), HF__ACT_SUBSCRIBE);
    assert_int_equal(virtual_event(&a, HF__EV_CANCEL), HF__ACT_DONE);
    assert_int_equal(a.status, HF_CANCELLED);

    a = virtual_sent(&world);
    assert_int_equal(virtual_failure(&a, HF__EV_UNKNOWN, HF_EUNREACHABLE, true),
                     HF__ACT_SETTLE);
    assert_int_equal(virtual_event(&a, HF__EV_CANCEL), HF__ACT_DONE);
    assert_true(a.maybe_applied);
}

static void test_time_up_on_the_first_try_is_an_error(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    a.deadline = world.now + VIRTUAL_MS(50);
    world.now = a.deadline;
    assert_int_equal(virtual_event_in_flight(&a, HF__EV_TIME_UP), HF__ACT_DONE);
    assert_int_equal(a.status, HF_EUNREACHABLE);
    assert_true(hf_error_is_retriable(&a.error));
    assert_true(a.maybe_applied); /* R9 */
}

/* Redisson since 4.7: a try that times out after others were answered is a
 * wait that is over. */
static void test_time_up_on_a_later_try_is_not_acquired(void **state)
{
    (void)state;
    hf__acquire a = virtual_parked(&world, 1000);
    a.deadline = world.now + VIRTUAL_MS(50);
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_SEND);
    world.now = a.deadline;
    assert_int_equal(virtual_event_in_flight(&a, HF__EV_TIME_UP), HF__ACT_DONE);
    assert_int_equal(a.status, HF_NOT_ACQUIRED);
    assert_true(a.maybe_applied);
}

static void test_time_up_while_subscribing_leaves_nothing(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    a.deadline = world.now + VIRTUAL_MS(50);
    assert_int_equal(virtual_integer(&a, 1000), HF__ACT_SUBSCRIBE);
    world.now = a.deadline;
    assert_int_equal(virtual_event(&a, HF__EV_TIME_UP), HF__ACT_DONE);
    assert_int_equal(a.status, HF_NOT_ACQUIRED);
    assert_false(a.maybe_applied);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadline_is_sending_plus_lease_minus_drift),
        cmocka_unit_test(test_grant_ends_the_machine),
        cmocka_unit_test(test_grant_in_the_last_moment_counts),
        cmocka_unit_test(test_grant_after_its_own_deadline_is_settled),
        cmocka_unit_test(test_unknown_outcome_is_never_resent_before_settling),
        cmocka_unit_test(test_unknown_outcome_while_parked_waiter_tries),
        cmocka_unit_test(test_giving_up_after_unknown_says_so),
        cmocka_unit_test(test_not_sent_is_tried_again_after_a_while),
        cmocka_unit_test(test_hopeless_failure_ends_the_wait),
        cmocka_unit_test(test_outdated_is_sent_again),
        cmocka_unit_test(test_single_try_ends_when_busy),
        cmocka_unit_test(test_single_try_survives_one_lost_connection_only),
        cmocka_unit_test(test_single_try_does_not_back_off),
        cmocka_unit_test(test_first_try_is_made_whatever_the_time),
        cmocka_unit_test(test_passing_refusal_is_waited_out),
        cmocka_unit_test(test_waiting_out_a_refusal_tells_it_in_the_end),
        cmocka_unit_test(test_error_of_a_script_may_have_been_applied),
        cmocka_unit_test(test_error_text_ends_where_its_slice_ends),
        cmocka_unit_test(test_reply_of_another_kind_is_refused),
        cmocka_unit_test(test_token_must_rise),
        cmocka_unit_test(test_kind_without_tokens_is_not_asked_for_any),
        cmocka_unit_test(test_cancel_ends_every_state),
        cmocka_unit_test(test_time_up_on_the_first_try_is_an_error),
        cmocka_unit_test(test_time_up_on_a_later_try_is_not_acquired),
        cmocka_unit_test(test_time_up_while_subscribing_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
