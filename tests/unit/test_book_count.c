/* The book: what leases of one hold have to do with each other, giving back
 * and settling. R numbers are those of the correctness rules that a test stands
 * for. */
#include "kinds/lock.h"
#include "support/holder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static holder h;
static hf__lease leases[4];

static int set_up(void **state)
{
    (void)state;
    holder_open(&h);
    memset(leases, 0, sizeof(leases));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    holder_close(&h);
    return 0;
}

/* Every live lease ends before the server forgets it (R1). */
static void assert_covered(const hf__lease *lease)
{
    if (holder_state(lease) == HF_LEASE_HELD) {
        assert_true(holder_deadline(lease) <= h.server.end);
    }
}

/* ---- the hold count (R7) */

static void test_leases_of_one_owner_share_a_hold(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        holder_take_watched(&h, &leases[i]);
        assert_int_equal(h.hold->live, i + 1);
        assert_int_equal(h.server.count, i + 1);
    }
    static const int order[] = {1, 0, 2};
    for (int i = 0; i < 3; i++) {
        assert_true(holder_give_back(&h, &leases[order[i]]));
        assert_int_equal(holder_state(&leases[order[i]]), HF_LEASE_RELEASED);
        assert_int_equal(h.hold->live, 2 - i);
        assert_int_equal(h.server.count, 2 - i);
    }
    assert_int_equal(hf__book_next(&h.book), HF__NEVER);
}

static void test_released_twice_is_released_once(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    holder_take_watched(&h, &leases[1]);
    assert_true(holder_give_back(&h, &leases[0]));
    assert_false(holder_give_back(&h, &leases[0]));
    assert_int_equal(h.server.count, 1);
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_RELEASED);
}

static void test_release_that_finds_nothing_loses_the_others(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    holder_take_watched(&h, &leases[1]);
    h.server.count = 0;
    assert_true(holder_give_back(&h, &leases[1]));
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_LOST);
    assert_int_equal(holder_loss(&leases[0]), HF_LOSS_REVOKED);
    assert_int_equal(h.hold->live, 0);
}

/* ---- mixes: no earlier lease gets shorter, here or on the server */

static const hf__terms mixes[] = {
    {0},
    {.fixed = VIRTUAL_MS(20)},
    {.fixed = VIRTUAL_MS(1000)},
    {.fixed = VIRTUAL_MS(29999)},
    {.fixed = VIRTUAL_MS(300000)},
    {.max_hold = VIRTUAL_MS(500)},
    {.max_hold = VIRTUAL_MS(40000)},
    {.max_hold = VIRTUAL_MS(400000)},
};
#define MIXES (sizeof(mixes) / sizeof(mixes[0]))
static const int64_t ages_ms[] = {0, 1, 7, 480, 7000, 9999, 26000};
#define AGES (sizeof(ages_ms) / sizeof(ages_ms[0]))

static void take_one_after_the_other(hf__terms first, hf__terms second,
                                     int64_t age)
{
    holder_take(&h, &leases[0], first);
    holder_live(&h, age);
    bool alive = holder_state(&leases[0]) == HF_LEASE_HELD;
    int64_t deadline = holder_deadline(&leases[0]);
    holder_take(&h, &leases[1], second);
    if (alive) {
        assert_true(holder_deadline(&leases[0]) >= deadline);
    }
    assert_covered(&leases[0]);
    assert_covered(&leases[1]);
    deadline = holder_deadline(&leases[0]);
    assert_true(holder_give_back(&h, &leases[1]));
    if (alive) {
        assert_true(holder_deadline(&leases[0]) >= deadline);
        assert_int_equal(h.server.count, 1);
    }
    assert_covered(&leases[0]);
    holder_live(&h, HOLDER_WATCHDOG);
    assert_covered(&leases[0]);
}

static void test_second_lease_never_shortens_the_first(void **state)
{
    for (size_t i = 0; i < MIXES * MIXES * AGES; i++) {
        take_one_after_the_other(mixes[i % MIXES], mixes[i / MIXES % MIXES],
                                 VIRTUAL_MS(ages_ms[i / MIXES / MIXES]));
        tear_down(state);
        set_up(state);
    }
}

static void test_short_inner_lease_ends_without_the_outer(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    holder_take_fixed(&h, &leases[1], VIRTUAL_SECOND);
    int64_t end = holder_deadline(&leases[1]);
    assert_int_equal(end, h.world.now + VIRTUAL_MS(988));
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_SETTLE);
    assert_int_equal(h.world.now, end);
    assert_int_equal(holder_loss(&leases[1]), HF_LOSS_EXPIRED);
    holder_settle(&h, true);
    assert_int_equal(h.server.count, 1);
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_HELD);
    assert_covered(&leases[0]);
    holder_live(&h, 10 * HOLDER_WATCHDOG);
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_HELD);
}

static void test_outer_longest_hold_ends_without_the_inner(void **state)
{
    (void)state;
    holder_take(&h, &leases[0], (hf__terms){.max_hold = VIRTUAL_MS(45000)});
    holder_take_watched(&h, &leases[1]);
    holder_live(&h, VIRTUAL_MS(45000));
    assert_int_equal(holder_loss(&leases[0]), HF_LOSS_MAX_HOLD);
    assert_int_equal(holder_state(&leases[1]), HF_LEASE_HELD);
    assert_int_equal(h.server.count, 1);
    holder_live(&h, VIRTUAL_MS(60000));
    assert_int_equal(holder_state(&leases[1]), HF_LEASE_HELD);
    assert_covered(&leases[1]);
}

static void test_many_short_leases_do_not_push_the_end_away(void **state)
{
    (void)state;
    holder_take_fixed(&h, &leases[0], 60 * VIRTUAL_SECOND);
    int64_t end = h.server.end;
    for (int i = 0; i < 1000; i++) {
        holder_take_fixed(&h, &leases[1], VIRTUAL_MS(20));
        assert_true(holder_give_back(&h, &leases[1]));
    }
    assert_true(h.server.end <= end + VIRTUAL_MS(2));
}

/* A fixed lease whose holder dies is free when it said it would be. */
static void test_fixed_lease_is_not_prolonged_by_inner_ones(void **state)
{
    (void)state;
    holder_take_fixed(&h, &leases[0], 60 * VIRTUAL_SECOND);
    int64_t end = h.server.end;
    for (int i = 0; i < 50; i++) {
        holder_take_fixed(&h, &leases[1], 2 * VIRTUAL_SECOND);
        virtual_pass(&h.world, VIRTUAL_SECOND);
        assert_true(holder_give_back(&h, &leases[1]));
    }
    assert_true(h.server.end <= end + VIRTUAL_SECOND);
}

/* ---- replies that come late */

/* The acquire was sent behind a renewal whose reply is heard only now. */
static void test_renewal_heard_late_promises_no_more_than_is_kept(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
    holder_renewal renewal = holder_send_renewal(&h);
    virtual_pass(&h.world, VIRTUAL_MS(1));
    holder_acquire acquire =
        holder_send_acquire(&h, (hf__terms){.fixed = VIRTUAL_SECOND});
    holder_granted(&h, &acquire, &leases[1]);
    assert_covered(&leases[0]);
    int64_t deadline = holder_deadline(&leases[0]);
    holder_renewed(&h, &renewal, 1);
    assert_covered(&leases[0]);
    assert_true(holder_deadline(&leases[0]) >= deadline);
}

static void test_grant_heard_late_takes_nothing_back(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
    holder_acquire acquire =
        holder_send_acquire(&h, (hf__terms){.fixed = VIRTUAL_SECOND});
    holder_renewal renewal = holder_send_renewal(&h);
    holder_renewed(&h, &renewal, 1);
    int64_t deadline = holder_deadline(&leases[0]);
    virtual_pass(&h.world, VIRTUAL_MS(5));
    holder_granted(&h, &acquire, &leases[1]);
    assert_true(holder_deadline(&leases[0]) >= deadline);
    assert_covered(&leases[0]);
}

static void test_partial_release_behind_a_renewal_keeps_its_lease(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    virtual_pass(&h.world, HOLDER_WATCHDOG / 4);
    holder_take_fixed(&h, &leases[1], VIRTUAL_SECOND);
    hf__book_check_all(&h.book);
    assert_int_equal(holder_due(&h), HF__DUE_RENEW);
    holder_renewal renewal = holder_send_renewal(&h);
    assert_true(hf__book_leave(&h.book, &leases[1]));
    virtual_pass(&h.world, VIRTUAL_SECOND);
    holder_release release = holder_send_release(&h);
    holder_renewed(&h, &renewal, 1);
    assert_covered(&leases[0]);
    holder_released(&h, &release);
    assert_covered(&leases[0]);
}

static void test_renewal_of_an_earlier_standing_says_nothing(void **state)
{
    for (int found = -1; found <= 1; found++) {
        holder_take_watched(&h, &leases[0]);
        assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
        holder_renewal renewal = holder_send_renewal(&h);
        assert_true(holder_give_back(&h, &leases[0]));
        holder_take_fixed(&h, &leases[1], 20 * VIRTUAL_SECOND);
        int64_t deadline = holder_deadline(&leases[1]);
        holder_renewed(&h, &renewal, found);
        assert_int_equal(holder_state(&leases[1]), HF_LEASE_HELD);
        assert_int_equal(holder_deadline(&leases[1]), deadline);
        assert_covered(&leases[1]);
        tear_down(state);
        set_up(state);
    }
}

/* The lock was deleted, refused to the renewal, and taken again by a grant
 * that is heard of before the refusal and does not tell the count. */
static void test_refusal_concerns_the_leases_before_it(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
    h.server.count = 0;
    holder_renewal renewal = holder_send_renewal(&h);
    virtual_pass(&h.world, 1);
    holder_acquire acquire = holder_send_acquire(&h, (hf__terms){0});
    acquire.grant.count = 0;
    holder_granted(&h, &acquire, &leases[1]);
    holder_renewed(&h, &renewal, renewal.renewal.found);
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_LOST);
    assert_int_equal(holder_loss(&leases[0]), HF_LOSS_REVOKED);
    assert_int_equal(holder_state(&leases[1]), HF_LEASE_HELD);
    /* The count is put right, and what lives is looked for at once. */
    assert_int_equal(holder_due(&h), HF__DUE_SETTLE);
    holder_settle(&h, true);
    assert_int_equal(h.server.count, 1);
    assert_int_equal(holder_due(&h), HF__DUE_RENEW);
    renewal = holder_send_renewal(&h);
    holder_renewed(&h, &renewal, renewal.renewal.found);
    holder_live(&h, 3 * HOLDER_WATCHDOG);
    assert_int_equal(holder_state(&leases[1]), HF_LEASE_HELD);
    assert_int_equal(h.server.count, 1);
    assert_covered(&leases[1]);
}

static void test_renewal_goes_on_after_an_earlier_standings_reply(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
    holder_renewal renewal = holder_send_renewal(&h);
    assert_true(holder_give_back(&h, &leases[0]));
    holder_take_watched(&h, &leases[1]);
    holder_renewed(&h, &renewal, 0);
    holder_live(&h, 5 * HOLDER_WATCHDOG);
    assert_int_equal(holder_state(&leases[1]), HF_LEASE_HELD);
}

/* ---- renewal and release (R6) */

static void test_leaving_stops_renewal_before_the_release(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    assert_true(hf__book_leave(&h.book, &leases[0]));
    assert_int_equal(hf__book_next(&h.book), HF__NEVER);
    virtual_pass(&h.world, HOLDER_WATCHDOG / 3);
    assert_int_equal(holder_due(&h), HF__DUE_NOTHING);
}

static void test_failed_release_does_not_restart_renewal(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    assert_true(hf__book_leave(&h.book, &leases[0]));
    h.hold->busy = true;
    hf__book_unsettle(&h.book, h.hold);
    hf__book_check_all(&h.book); /* the connection came back */
    hf__book_idle(&h.book, h.hold);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(holder_pass_to_due(&h), HF__DUE_SETTLE);
        holder_settle(&h, false);
    }
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_SETTLE);
    holder_settle(&h, true);
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_NOTHING);
}

static void test_renewal_under_way_is_not_repeated_after_leaving(void **state)
{
    for (int found = -1; found <= 1; found++) {
        holder_take_watched(&h, &leases[0]);
        assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
        holder_renewal renewal = holder_send_renewal(&h);
        assert_true(hf__book_leave(&h.book, &leases[0]));
        holder_renewed(&h, &renewal, found);
        assert_int_equal(holder_state(&leases[0]), HF_LEASE_RELEASED);
        assert_int_equal(hf__book_next(&h.book), HF__NEVER);
        tear_down(state);
        set_up(state);
    }
}

static void test_fixed_lease_that_remains_is_not_renewed(void **state)
{
    (void)state;
    holder_take_fixed(&h, &leases[0], 100 * VIRTUAL_SECOND);
    holder_take_watched(&h, &leases[1]);
    assert_true(hf__book_leave(&h.book, &leases[1]));
    assert_int_equal(hf__book_next(&h.book), holder_deadline(&leases[0]));
    holder_release release = holder_send_release(&h);
    holder_released(&h, &release);
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_SETTLE);
    assert_int_equal(h.world.now, holder_deadline(&leases[0]));
}

/* ---- settling (R7, R9, R10) */

static void test_unsettled_hold_is_settled_until_confirmed(void **state)
{
    (void)state;
    static const int64_t pauses_ms[] = {0, 25, 50, 100, 200, 400, 800, 800};
    holder_take_watched(&h, &leases[0]);
    h.server.count = 2; /* an acquire was executed, its reply lost */
    hf__book_unsettle(&h.book, h.hold);
    for (size_t i = 0; i < sizeof(pauses_ms) / sizeof(pauses_ms[0]); i++) {
        int64_t before = h.world.now;
        assert_int_equal(holder_pass_to_due(&h), HF__DUE_SETTLE);
        assert_int_equal(h.world.now - before, VIRTUAL_MS(pauses_ms[i]));
        assert_true(h.hold->unsettled);
        holder_settle(&h, false);
    }
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_SETTLE);
    holder_settle(&h, true);
    assert_false(h.hold->unsettled);
    assert_int_equal(h.server.count, 1);
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_HELD);
    assert_covered(&leases[0]);
    /* another time it begins anew */
    hf__book_unsettle(&h.book, h.hold);
    assert_true(hf__book_next(&h.book) <= h.world.now);
}

static void test_settling_waits_for_the_command_under_way(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    h.hold->busy = true;
    hf__book_unsettle(&h.book, h.hold);
    assert_int_equal(holder_due(&h), HF__DUE_NOTHING);
    assert_true(hf__book_next(&h.book) > h.world.now);
    hf__book_idle(&h.book, h.hold);
    assert_int_equal(holder_due(&h), HF__DUE_SETTLE);
    assert_true(h.hold->busy);
    assert_int_equal(holder_due(&h), HF__DUE_NOTHING);
}

static void test_reconnection_settles_without_further_pause(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    hf__book_unsettle(&h.book, h.hold);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(holder_pass_to_due(&h), HF__DUE_SETTLE);
        holder_settle(&h, false);
    }
    assert_int_equal(holder_due(&h), HF__DUE_NOTHING);
    hf__book_check_all(&h.book);
    assert_int_equal(holder_due(&h), HF__DUE_SETTLE);
}

static void test_lease_that_ends_during_a_settling_is_settled_too(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    hf__book_unsettle(&h.book, h.hold);
    assert_int_equal(holder_due(&h), HF__DUE_SETTLE);
    hf__book_say(&h.book, h.hold); /* it says 1 */
    assert_true(hf__book_leave(&h.book, &leases[0]));
    hf__book_unsettle(&h.book, h.hold);
    hf__book_idle(&h.book, h.hold);
    hf__book_settled(&h.book, h.hold, true, true);
    assert_true(h.hold->unsettled);
    assert_int_equal(holder_due(&h), HF__DUE_SETTLE);
    holder_settle(&h, true);
    assert_int_equal(h.server.count, 0);
    assert_int_equal(holder_due(&h), HF__DUE_NOTHING);
}

static void test_settling_that_finds_nothing_loses_what_lives(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    h.server.count = 0;
    hf__book_unsettle(&h.book, h.hold);
    assert_int_equal(holder_due(&h), HF__DUE_SETTLE);
    holder_settle(&h, true);
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_LOST);
    assert_int_equal(holder_loss(&leases[0]), HF_LOSS_REVOKED);
    assert_int_equal(hf__book_next(&h.book), HF__NEVER);
}

static void test_unheard_settling_loses_nothing(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    hf__book_unsettle(&h.book, h.hold);
    assert_int_equal(holder_due(&h), HF__DUE_SETTLE);
    hf__book_say(&h.book, h.hold);
    hf__book_idle(&h.book, h.hold);
    hf__book_settled(&h.book, h.hold, false, false);
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_HELD);
    assert_true(h.hold->unsettled);
}

/* An abandoned acquire of an owner that holds nothing (R9). */
static void test_hold_without_lease_is_settled_to_nothing(void **state)
{
    (void)state;
    h.server.count = 1;
    h.server.end = h.world.now + HOLDER_WATCHDOG;
    hf__book_unsettle(&h.book, h.hold);
    assert_int_equal(holder_due(&h), HF__DUE_SETTLE);
    holder_settle(&h, true);
    assert_int_equal(h.server.count, 0);
    assert_int_equal(hf__book_next(&h.book), HF__NEVER);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_leases_of_one_owner_share_a_hold),
        TEST(test_released_twice_is_released_once),
        TEST(test_release_that_finds_nothing_loses_the_others),
        TEST(test_second_lease_never_shortens_the_first),
        TEST(test_short_inner_lease_ends_without_the_outer),
        TEST(test_outer_longest_hold_ends_without_the_inner),
        TEST(test_many_short_leases_do_not_push_the_end_away),
        TEST(test_fixed_lease_is_not_prolonged_by_inner_ones),
        TEST(test_renewal_heard_late_promises_no_more_than_is_kept),
        TEST(test_grant_heard_late_takes_nothing_back),
        TEST(test_partial_release_behind_a_renewal_keeps_its_lease),
        TEST(test_renewal_of_an_earlier_standing_says_nothing),
        TEST(test_refusal_concerns_the_leases_before_it),
        TEST(test_renewal_goes_on_after_an_earlier_standings_reply),
        TEST(test_leaving_stops_renewal_before_the_release),
        TEST(test_failed_release_does_not_restart_renewal),
        TEST(test_renewal_under_way_is_not_repeated_after_leaving),
        TEST(test_fixed_lease_that_remains_is_not_renewed),
        TEST(test_unsettled_hold_is_settled_until_confirmed),
        TEST(test_settling_waits_for_the_command_under_way),
        TEST(test_reconnection_settles_without_further_pause),
        TEST(test_lease_that_ends_during_a_settling_is_settled_too),
        TEST(test_settling_that_finds_nothing_loses_what_lives),
        TEST(test_unheard_settling_loses_nothing),
        TEST(test_hold_without_lease_is_settled_to_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
