/* The acquisition machine while it waits: subscribing, parking, backing off,
 * quarantine. R numbers are those of the correctness rules that a test stands
 * for. */
#include "core/acquire.h"
#include "kinds/lock.h"
#include "support/virtual.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static virtual_seam world;

/* ---- waiting (R12, R13) */

static void test_busy_subscribes_tries_again_and_parks(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    assert_int_equal(virtual_integer(&a, 900), HF__ACT_SUBSCRIBE);
    assert_int_equal(a.tries, 1);
    assert_int_equal(virtual_event(&a, HF__EV_SUBSCRIBED), HF__ACT_SEND);
    assert_int_equal(a.tries, 2);
    assert_int_equal(virtual_integer(&a, 900), HF__ACT_PARK);
    assert_true(a.shared);
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_SEND);
    assert_int_equal(virtual_nil(&a), HF__ACT_DONE);
    assert_int_equal(a.status, HF_OK);
}

static void test_subscription_of_others_serves_too(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    a.listening = true;
    assert_int_equal(virtual_integer(&a, 900), HF__ACT_PARK);
    assert_true(a.shared);
}

/* R13: the driver clears `listening` and wakes. */
static void test_lost_subscription_is_made_again(void **state)
{
    (void)state;
    hf__acquire a = virtual_parked(&world, 900);
    a.listening = false;
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_SEND);
    assert_int_equal(virtual_integer(&a, 900), HF__ACT_SUBSCRIBE);
}

static void test_without_subscription_it_polls_by_itself(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(virtual_integer(&a, 60000), HF__ACT_SUBSCRIBE);
        assert_int_equal(
            virtual_failure(&a, HF__EV_NOT_SUBSCRIBED, HF_EPERM, true),
            HF__ACT_PARK);
        assert_false(a.shared);
        assert_true(a.park_until > world.now);
        assert_true(a.park_until <= world.now + VIRTUAL_SECOND);
        world.now = a.park_until;
        assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_SEND);
    }
}

static void test_parking_ends_at_ttl_or_poll_cap(void **state)
{
    (void)state;
    static const struct {
        int64_t remaining_ms;
        int64_t after_ms;
        bool endless;
    } cases[] = {
        {0, 1, false},
        {1, 2, false},
        {4998, 4999, false},
        {4999, 5000, false},
        {5000, 5000, false},
        {86400000, 5000, false},
        {INT64_MAX, 5000, false},
        {-1, 5000, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hf__acquire a = virtual_parked(&world, cases[i].remaining_ms);
        assert_int_equal(a.poll_at, world.now + VIRTUAL_MS(cases[i].after_ms));
        assert_int_equal(a.endless, cases[i].endless);
        assert_int_equal(a.park_until, INT64_MAX);
    }
}

static void test_poll_cap_is_jittered_downwards_only(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        hf__acquire a = virtual_sent(&world);
        virtual_seed(&world, seed);
        a.listening = true;
        assert_int_equal(virtual_integer(&a, -1), HF__ACT_PARK);
        assert_in_range(a.poll_at - world.now, VIRTUAL_POLL_CAP / 2,
                        VIRTUAL_POLL_CAP);
    }
}

static void test_parking_ends_at_the_deadline(void **state)
{
    (void)state;
    hf__acquire a = virtual_parked(&world, 3000);
    a.deadline = world.now + VIRTUAL_SECOND;
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_SEND);
    assert_int_equal(virtual_integer(&a, 3000), HF__ACT_PARK);
    assert_int_equal(a.park_until, a.deadline);
    world.now = a.deadline;
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_DONE);
    assert_int_equal(a.status, HF_NOT_ACQUIRED);
    assert_non_null(strstr(hf_error_text(&a.error), "3000 ms"));
}

static void test_private_parking_ends_at_the_deadline_too(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    a.deadline = world.now + VIRTUAL_MS(3);
    assert_int_equal(
        virtual_failure(&a, HF__EV_NOT_SENT, HF_EUNREACHABLE, true),
        HF__ACT_PARK);
    assert_int_equal(a.park_until, a.deadline);
    world.now = a.deadline;
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_DONE);
    assert_int_equal(a.status, HF_EUNREACHABLE);
}

/* What may be on the server is for the background to settle. */
static void test_no_settling_begins_at_the_deadline(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    a.deadline = world.now + VIRTUAL_MS(10);
    assert_int_equal(virtual_failure(&a, HF__EV_UNKNOWN, HF_EUNREACHABLE, true),
                     HF__ACT_SETTLE);
    assert_int_equal(
        virtual_failure(&a, HF__EV_NOT_SETTLED, HF_EUNREACHABLE, true),
        HF__ACT_PARK);
    assert_int_equal(a.park_until, a.deadline);
    world.now = a.deadline;
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_DONE);
    assert_int_equal(a.status, HF_EUNREACHABLE);
    assert_true(a.maybe_applied);
}

/* Clients that failed together do not come back together. */
static void test_pauses_differ(void **state)
{
    (void)state;
    int64_t shortest = VIRTUAL_SECOND;
    int64_t longest = 0;
    virtual_start(&world);
    virtual_seed(&world, 3);
    for (int i = 0; i < 100; i++) {
        int64_t pause = hf__seam_backoff(&world.seam, 5);
        shortest = pause < shortest ? pause : shortest;
        longest = pause > longest ? pause : longest;
    }
    assert_true(longest - shortest > VIRTUAL_MS(300));
}

static void test_reply_after_the_deadline_ends_the_wait(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    a.deadline = world.now + VIRTUAL_MS(50);
    virtual_pass(&world, VIRTUAL_MS(50));
    assert_int_equal(virtual_integer(&a, -1), HF__ACT_DONE);
    assert_int_equal(a.status, HF_NOT_ACQUIRED);
    assert_non_null(strstr(hf_error_text(&a.error), "without an end"));
}

static void test_endless_is_forgotten_when_it_has_an_end(void **state)
{
    (void)state;
    hf__acquire a = virtual_parked(&world, -1);
    assert_true(a.endless);
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_SEND);
    assert_int_equal(virtual_integer(&a, 40), HF__ACT_PARK);
    assert_false(a.endless);
    assert_int_equal(a.poll_at, world.now + VIRTUAL_MS(41));
}

static void test_backoff_starts_over_after_a_sign_of_life(void **state)
{
    (void)state;
    hf__acquire a = virtual_sent(&world);
    a.listening = true;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(
            virtual_failure(&a, HF__EV_NOT_SENT, HF_EUNREACHABLE, true),
            HF__ACT_PARK);
        assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_SEND);
    }
    assert_int_equal(virtual_integer(&a, 100), HF__ACT_PARK);
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_SEND);
    assert_int_equal(
        virtual_failure(&a, HF__EV_NOT_SENT, HF_EUNREACHABLE, true),
        HF__ACT_PARK);
    assert_int_equal(a.park_until, world.now + VIRTUAL_MS(25));
    assert_true(a.listening);
}

static void test_backoff_grows_to_a_bound(void **state)
{
    (void)state;
    static const int64_t whole_ms[] = {25, 50, 100, 200, 400, 800, 800, 800};
    virtual_start(&world);
    for (unsigned i = 0; i < 8; i++) {
        virtual_start(&world);
        assert_int_equal(hf__seam_backoff(&world.seam, i),
                         VIRTUAL_MS(whole_ms[i]));
        virtual_seed(&world, i);
        for (int j = 0; j < 100; j++) {
            assert_in_range(hf__seam_backoff(&world.seam, i),
                            VIRTUAL_MS(whole_ms[i]) / 2,
                            VIRTUAL_MS(whole_ms[i]));
        }
    }
    assert_in_range(hf__seam_backoff(&world.seam, UINT32_MAX), 1,
                    VIRTUAL_SECOND);
    assert_int_equal(hf__seam_jitter(&world.seam, 0), 0);
    assert_int_equal(hf__seam_jitter(&world.seam, 1), 1);
}

/* ---- quarantine after a restart (R19) */

static void test_quarantine_delays_the_first_try(void **state)
{
    (void)state;
    hf__acquire a = virtual_machine(&world);
    a.not_before = world.now + 3 * VIRTUAL_SECOND;
    a.listening = true;
    assert_int_equal(virtual_event(&a, HF__EV_START), HF__ACT_PARK);
    assert_int_equal(a.park_until, a.not_before);
    assert_false(a.shared);
    assert_true(a.listening);
    world.now = a.not_before - 1;
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_PARK);
    world.now = a.not_before;
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_SEND);
}

static void test_quarantine_delays_later_tries(void **state)
{
    (void)state;
    hf__acquire a = virtual_parked(&world, 1000);
    a.not_before = world.now + 3 * VIRTUAL_SECOND;
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_PARK);
    assert_int_equal(a.park_until, a.not_before);

    a = virtual_sent(&world);
    a.not_before = world.now + 3 * VIRTUAL_SECOND;
    assert_int_equal(virtual_event(&a, HF__EV_OUTDATED), HF__ACT_PARK);

    a = virtual_sent(&world);
    assert_int_equal(virtual_failure(&a, HF__EV_UNKNOWN, HF_EUNREACHABLE, true),
                     HF__ACT_SETTLE);
    a.not_before = world.now + 3 * VIRTUAL_SECOND;
    assert_int_equal(virtual_event(&a, HF__EV_SETTLED), HF__ACT_PARK);
    assert_int_equal(a.park_until, a.not_before);
}

static void test_quarantine_ends_with_the_wait(void **state)
{
    (void)state;
    hf__acquire a = virtual_machine(&world);
    a.deadline = world.now + VIRTUAL_SECOND;
    a.not_before = world.now + 3 * VIRTUAL_SECOND;
    assert_int_equal(virtual_event(&a, HF__EV_START), HF__ACT_PARK);
    assert_int_equal(a.park_until, a.deadline);
    world.now = a.deadline;
    assert_int_equal(virtual_event(&a, HF__EV_WOKEN), HF__ACT_DONE);
    assert_int_equal(a.status, HF_NOT_ACQUIRED);
    assert_int_equal(a.tries, 0);
    assert_non_null(strstr(hf_error_text(&a.error), "restarted"));
    assert_non_null(strstr(hf_error_text(&a.error), "2001 ms"));
}

static void test_single_try_in_quarantine_says_why(void **state)
{
    (void)state;
    hf__acquire a = virtual_machine(&world);
    a.once = true;
    a.not_before = world.now + VIRTUAL_MS(1500);
    assert_int_equal(virtual_event(&a, HF__EV_START), HF__ACT_DONE);
    assert_int_equal(a.status, HF_NOT_ACQUIRED);
    assert_non_null(strstr(hf_error_text(&a.error), "restarted"));
    assert_true(hf_error_is_retriable(&a.error));
}

/* The restart was found out by the very try: nobody is known to hold it. */
static void test_quarantine_found_by_a_try_says_why(void **state)
{
    (void)state;
    hf__acquire a = virtual_machine(&world);
    a.once = true;
    assert_int_equal(virtual_event(&a, HF__EV_START), HF__ACT_SEND);
    a.not_before = world.now + VIRTUAL_MS(1500);
    assert_int_equal(virtual_event(&a, HF__EV_OUTDATED), HF__ACT_DONE);
    assert_int_equal(a.status, HF_NOT_ACQUIRED);
    assert_non_null(strstr(hf_error_text(&a.error), "restarted"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy_subscribes_tries_again_and_parks),
        cmocka_unit_test(test_subscription_of_others_serves_too),
        cmocka_unit_test(test_lost_subscription_is_made_again),
        cmocka_unit_test(test_without_subscription_it_polls_by_itself),
        cmocka_unit_test(test_parking_ends_at_ttl_or_poll_cap),
        cmocka_unit_test(test_poll_cap_is_jittered_downwards_only),
        cmocka_unit_test(test_parking_ends_at_the_deadline),
        cmocka_unit_test(test_private_parking_ends_at_the_deadline_too),
        cmocka_unit_test(test_no_settling_begins_at_the_deadline),
        cmocka_unit_test(test_pauses_differ),
        cmocka_unit_test(test_reply_after_the_deadline_ends_the_wait),
        cmocka_unit_test(test_endless_is_forgotten_when_it_has_an_end),
        cmocka_unit_test(test_backoff_starts_over_after_a_sign_of_life),
        cmocka_unit_test(test_backoff_grows_to_a_bound),
        cmocka_unit_test(test_quarantine_delays_the_first_try),
        cmocka_unit_test(test_quarantine_delays_later_tries),
        cmocka_unit_test(test_quarantine_ends_with_the_wait),
        cmocka_unit_test(test_single_try_in_quarantine_says_why),
        cmocka_unit_test(test_quarantine_found_by_a_try_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
