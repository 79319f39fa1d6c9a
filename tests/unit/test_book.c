/* The book: until when a lease is held, how it is renewed, how it is lost. R
 * numbers are those of the correctness rules that a test stands for. */
#include "kinds/lock.h"
#include "support/holder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define DRIFTED(lease) ((lease) - (lease) / 100 - VIRTUAL_MS(2))

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

static void grant(hf__hold *hold, hf__lease *lease, uint64_t token)
{
    const hf__terms terms = {0};
    const hf__grant granted = {.sent_at = h.world.now,
                               .asked =
                                   hf__book_lease_to_ask(&h.book, hold, &terms),
                               .token = token};
    hf__book_granted(&h.book, hold, lease, &terms, &granted);
}

static void assert_lost(const hf__lease *lease, hf_loss why)
{
    assert_int_equal(holder_state(lease), HF_LEASE_LOST);
    assert_int_equal(holder_loss(lease), why);
}

/* The next renewal is lost. */
static void fail_renewal(void)
{
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
    holder_renewal renewal = holder_send_renewal(&h);
    holder_renewed(&h, &renewal, -1);
}

/* ---- deadlines (R1) */

static void test_deadline_counts_from_the_sending(void **state)
{
    (void)state;
    holder_acquire acquire = holder_send_acquire(&h, (hf__terms){0});
    virtual_pass(&h.world, 4 * VIRTUAL_SECOND); /* the reply takes its time */
    holder_granted(&h, &acquire, &leases[0]);
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_HELD);
    assert_int_equal(holder_deadline(&leases[0]),
                     acquire.grant.sent_at + DRIFTED(HOLDER_WATCHDOG));

    assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
    holder_renewal renewal = holder_send_renewal(&h);
    virtual_pass(&h.world, 3 * VIRTUAL_SECOND);
    holder_renewed(&h, &renewal, 1);
    assert_int_equal(holder_deadline(&leases[0]),
                     renewal.sent_at + DRIFTED(HOLDER_WATCHDOG));
}

static void test_deadline_of_a_fixed_lease(void **state)
{
    (void)state;
    int64_t sent_at = h.world.now;
    holder_take_fixed(&h, &leases[0], VIRTUAL_MS(20));
    assert_int_equal(holder_deadline(&leases[0]),
                     sent_at + DRIFTED(VIRTUAL_MS(20)));
    assert_int_equal(hf__book_next(&h.book), holder_deadline(&leases[0]));
}

static void test_what_is_asked_for(void **state)
{
    (void)state;
    static const struct {
        int64_t fixed_ms;
        int64_t max_hold_ms;
        int64_t asked_ms;
    } cases[] = {
        {0, 0, 30000},      {0, 30001, 30000},
        {0, 20, 20},        {0, 29999, 29999},
        {20, 0, 20},        {60000, 0, 60000},
        {60000, 20, 60000}, {HF_LEASE_MAX_MS, 0, HF_LEASE_MAX_MS},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const hf__terms terms = {.fixed = VIRTUAL_MS(cases[i].fixed_ms),
                                 .max_hold = VIRTUAL_MS(cases[i].max_hold_ms)};
        assert_int_equal(hf__book_lease_to_ask(&h.book, h.hold, &terms),
                         VIRTUAL_MS(cases[i].asked_ms));
    }
}

/* ---- loss (R3, R4) */

static void test_lease_is_lost_at_its_deadline(void **state)
{
    (void)state;
    holder_take_fixed(&h, &leases[0], VIRTUAL_SECOND);
    h.world.now = holder_deadline(&leases[0]) - 1;
    assert_int_equal(holder_due(&h), HF__DUE_NOTHING);
    assert_false(hf__book_expire(&h.book, &leases[0]));
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_HELD);
    h.world.now++;
    (void)holder_due(&h);
    assert_lost(&leases[0], HF_LOSS_EXPIRED);
    assert_ptr_equal(h.book.lost.next, &leases[0].node);
    assert_int_equal(h.hold->live, 0);
}

/* R4: whoever asks first, even before the keeper has looked. */
static void test_late_release_finds_the_loss_by_itself(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    virtual_pass(&h.world, HOLDER_WATCHDOG); /* stopped for so long */
    assert_false(hf__book_leave(&h.book, &leases[0]));
    assert_lost(&leases[0], HF_LOSS_EXPIRED);
    assert_true(hf__book_expire(&h.book, &leases[0]));
    assert_false(hf__book_leave(&h.book, &leases[0]));
}

static void test_late_positive_renewal_revives_nothing(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
    holder_renewal renewal = holder_send_renewal(&h);
    assert_int_equal(renewal.renewal.found, 1);
    h.world.now = holder_deadline(&leases[0]);
    holder_renewed(&h, &renewal, 1);
    assert_lost(&leases[0], HF_LOSS_EXPIRED);
    assert_true(holder_deadline(&leases[0]) <= h.world.now);
    holder_live(&h, HOLDER_WATCHDOG);
    assert_lost(&leases[0], HF_LOSS_EXPIRED);
}

/* Its holder may have been told of the loss already. */
static void test_late_grant_of_another_revives_nothing(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    virtual_pass(&h.world, HOLDER_WATCHDOG - VIRTUAL_SECOND);
    holder_acquire acquire = holder_send_acquire(&h, (hf__terms){0});
    h.world.now = holder_deadline(&leases[0]);
    holder_granted(&h, &acquire, &leases[1]);
    assert_int_equal(holder_state(&leases[1]), HF_LEASE_HELD);
    assert_true(holder_deadline(&leases[0]) <= h.world.now);
    assert_true(hf__book_expire(&h.book, &leases[0]));
    assert_int_equal(holder_state(&leases[1]), HF_LEASE_HELD);
}

static void test_late_release_of_another_revives_nothing(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    holder_take_watched(&h, &leases[1]);
    assert_true(hf__book_leave(&h.book, &leases[1]));
    virtual_pass(&h.world, VIRTUAL_SECOND);
    holder_release release = holder_send_release(&h);
    assert_true(release.listed);
    h.world.now = holder_deadline(&leases[0]);
    holder_released(&h, &release);
    assert_true(holder_deadline(&leases[0]) <= h.world.now);
    assert_true(hf__book_expire(&h.book, &leases[0]));
}

static void test_renewal_that_finds_nothing_loses_all_at_once(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    holder_take_fixed(&h, &leases[1], VIRTUAL_SECOND * 100);
    h.server.count = 0; /* deleted by an operator */
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
    holder_renewal renewal = holder_send_renewal(&h);
    holder_renewed(&h, &renewal, renewal.renewal.found);
    assert_lost(&leases[0], HF_LOSS_REVOKED);
    assert_lost(&leases[1], HF_LOSS_REVOKED);
    assert_int_equal(h.hold->live, 0);
    /* A grant may have overtaken the refusal: the server is told. */
    assert_true(h.hold->unsettled);
    assert_int_equal(hf__book_next(&h.book), h.world.now);
}

/* The lock may have been another's before the owner took it again. */
static void test_grant_that_finds_nothing_loses_what_was_before(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    holder_take_fixed(&h, &leases[1], VIRTUAL_SECOND * 100);
    h.server.count = 0; /* deleted by an operator */
    holder_take_watched(&h, &leases[2]);
    assert_lost(&leases[0], HF_LOSS_REVOKED);
    assert_lost(&leases[1], HF_LOSS_REVOKED);
    assert_int_equal(holder_state(&leases[2]), HF_LEASE_HELD);
    assert_int_equal(h.hold->live, 1);
    assert_false(h.hold->unsettled);
}

static void test_grant_with_a_surprising_count_is_settled(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    h.server.count = 5;
    holder_take_watched(&h, &leases[1]);
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_HELD);
    assert_int_equal(holder_due(&h), HF__DUE_SETTLE);
    holder_settle(&h, true);
    assert_int_equal(h.server.count, 2);
}

static void test_forced_release_loses_all_holds_of_the_lock(void **state)
{
    (void)state;
    hf__target *other =
        hf__book_target(&h.book, &hf__kind_lock, HF__LITERAL("other"));
    hf__hold *second = hf__book_pin(&h.book, h.target, 8);
    hf__hold *elsewhere = hf__book_pin(&h.book, other, 7);
    hf__hold *const holds[] = {h.hold, second, elsewhere};
    for (int i = 0; i < 3; i++) {
        grant(holds[i], &leases[i], 0);
    }
    int64_t asked_at = h.world.now;
    virtual_pass(&h.world, 1);
    grant(second, &leases[3], 0); /* the next owner's already */
    hf__book_revoke(&h.book, h.target, asked_at);
    assert_lost(&leases[0], HF_LOSS_REVOKED);
    assert_lost(&leases[1], HF_LOSS_REVOKED);
    assert_int_equal(holder_state(&leases[2]), HF_LEASE_HELD);
    assert_int_equal(holder_state(&leases[3]), HF_LEASE_HELD);
    assert_int_equal(h.hold->live, 0);
    assert_int_equal(second->live, 1);
    assert_int_equal(elsewhere->live, 1);
}

/* ---- renewal (R5) */

static void test_renewals_are_at_most_a_third_apart(void **state)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        tear_down(state);
        set_up(state);
        virtual_seed(&h.world, seed);
        holder_take_watched(&h, &leases[0]);
        int64_t before = h.world.now;
        for (int i = 0; i < 20; i++) {
            assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
            holder_renewal renewal = holder_send_renewal(&h);
            assert_int_equal(renewal.renewal.asked, HOLDER_WATCHDOG);
            assert_in_range(renewal.sent_at - before, HOLDER_WATCHDOG / 4,
                            HOLDER_WATCHDOG / 3);
            before = renewal.sent_at;
            virtual_pass(&h.world, VIRTUAL_MS(100));
            holder_renewed(&h, &renewal, 1);
        }
        assert_int_equal(holder_state(&leases[0]), HF_LEASE_HELD);
    }
}

static void test_renewal_under_way_is_not_due_again(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
    assert_int_equal(holder_due(&h), HF__DUE_NOTHING);
    assert_int_equal(hf__book_next(&h.book), holder_deadline(&leases[0]));
    hf__book_check_all(&h.book);
    assert_int_equal(holder_due(&h), HF__DUE_NOTHING);
}

static void test_failed_renewal_is_suspect_and_retried_quickly(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    int64_t deadline = holder_deadline(&leases[0]);
    static const int64_t pauses_ms[] = {25, 50, 100, 200, 400, 800, 800};
    fail_renewal();
    for (size_t i = 0; i < sizeof(pauses_ms) / sizeof(pauses_ms[0]); i++) {
        assert_int_equal(holder_state(&leases[0]), HF_LEASE_SUSPECT);
        assert_int_equal(holder_deadline(&leases[0]), deadline);
        int64_t failed_at = h.world.now;
        fail_renewal();
        assert_int_equal(h.world.now - failed_at, VIRTUAL_MS(pauses_ms[i]));
    }
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
    holder_renewal renewal = holder_send_renewal(&h);
    holder_renewed(&h, &renewal, renewal.renewal.found);
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_HELD);
    assert_int_equal(holder_deadline(&leases[0]),
                     renewal.sent_at + DRIFTED(HOLDER_WATCHDOG));
    /* and it is patient again */
    assert_true(hf__book_next(&h.book) - h.world.now >= HOLDER_WATCHDOG / 4);
    fail_renewal();
    assert_true(hf__book_next(&h.book) - h.world.now <= VIRTUAL_MS(25));
}

/* R5: no missed tick ends renewal; R3: the end is the deadline. */
static void test_renewal_is_tried_until_the_deadline(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    int64_t deadline = holder_deadline(&leases[0]);
    int64_t last = h.world.now + HOLDER_WATCHDOG / 3;
    while (holder_pass_to_due(&h) == HF__DUE_RENEW) {
        assert_true(h.world.now - last <= VIRTUAL_SECOND);
        assert_int_equal(holder_state(&leases[0]) == HF_LEASE_LOST, 0);
        last = h.world.now;
        const holder_renewal unheard = {
            .renewal = {.standing = h.hold->standing}};
        holder_renewed(&h, &unheard, -1);
    }
    assert_int_equal(h.world.now, deadline);
    assert_lost(&leases[0], HF_LOSS_EXPIRED);
}

static void test_fixed_lease_is_never_renewed(void **state)
{
    (void)state;
    holder_take_fixed(&h, &leases[0], VIRTUAL_SECOND * 60);
    int64_t deadline = holder_deadline(&leases[0]);
    assert_int_equal(hf__book_next(&h.book), deadline);
    /* What still stands on the server is taken away. */
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_SETTLE);
    assert_int_equal(h.world.now, deadline);
    assert_lost(&leases[0], HF_LOSS_EXPIRED);
    holder_settle(&h, true);
    assert_int_equal(h.server.count, 0);
    assert_int_equal(hf__book_next(&h.book), HF__NEVER);
}

static void test_max_hold_is_never_exceeded(void **state)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        tear_down(state);
        set_up(state);
        virtual_seed(&h.world, seed);
        int64_t span = VIRTUAL_SECOND * (int64_t)(31 + 7 * seed);
        int64_t end = h.world.now + DRIFTED(span);
        holder_take(&h, &leases[0], (hf__terms){.max_hold = span});
        while (holder_pass_to_due(&h) == HF__DUE_RENEW) {
            holder_renewal renewal = holder_send_renewal(&h);
            holder_renewed(&h, &renewal, renewal.renewal.found);
            assert_true(holder_deadline(&leases[0]) <= end);
            /* A key whose holder dies goes at most this late. */
            assert_true(h.server.end <= end + span / 50 + VIRTUAL_MS(5));
        }
        assert_int_equal(h.world.now, end);
        assert_lost(&leases[0], HF_LOSS_MAX_HOLD);
        assert_true(h.hold->unsettled);
    }
}

static void test_max_hold_below_the_watchdog_lease(void **state)
{
    (void)state;
    int64_t end = h.world.now + DRIFTED(VIRTUAL_SECOND);
    holder_take(&h, &leases[0], (hf__terms){.max_hold = VIRTUAL_SECOND});
    assert_int_equal(holder_deadline(&leases[0]), end);
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_SETTLE);
    assert_int_equal(h.world.now, end);
    assert_lost(&leases[0], HF_LOSS_MAX_HOLD);
}

static void test_max_hold_that_is_not_renewed_has_expired(void **state)
{
    (void)state;
    holder_take(&h, &leases[0], (hf__terms){.max_hold = VIRTUAL_SECOND * 90});
    virtual_pass(&h.world, HOLDER_WATCHDOG);
    assert_true(hf__book_expire(&h.book, &leases[0]));
    assert_lost(&leases[0], HF_LOSS_EXPIRED);
}

/* ---- finding out (R3, R13) */

static void test_broken_connection_makes_every_hold_be_asked_for(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    virtual_pass(&h.world, VIRTUAL_SECOND);
    assert_int_equal(holder_due(&h), HF__DUE_NOTHING);
    hf__book_check_all(&h.book);
    assert_int_equal(holder_due(&h), HF__DUE_RENEW);
    holder_renewal renewal = holder_send_renewal(&h);
    assert_int_equal(renewal.renewal.asked, HOLDER_WATCHDOG);
    holder_renewed(&h, &renewal, 1);
    assert_int_equal(holder_due(&h), HF__DUE_NOTHING);
}

static void test_fixed_lease_is_looked_for_without_renewal(void **state)
{
    (void)state;
    holder_take_fixed(&h, &leases[0], VIRTUAL_SECOND * 60);
    int64_t deadline = holder_deadline(&leases[0]);
    int64_t end = h.server.end;
    hf__book_check_all(&h.book);
    fail_renewal();
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_SUSPECT);
    assert_true(hf__book_next(&h.book) <= h.world.now + VIRTUAL_MS(25));
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
    holder_renewal renewal = holder_send_renewal(&h);
    assert_int_equal(renewal.renewal.asked, 0);
    holder_renewed(&h, &renewal, renewal.renewal.found);
    assert_int_equal(holder_state(&leases[0]), HF_LEASE_HELD);
    assert_int_equal(holder_deadline(&leases[0]), deadline);
    assert_int_equal(h.server.end, end);
    assert_int_equal(hf__book_next(&h.book), deadline);

    h.server.count = 0; /* the server came back with an empty memory */
    hf__book_check_all(&h.book);
    assert_int_equal(holder_due(&h), HF__DUE_RENEW);
    renewal = holder_send_renewal(&h);
    holder_renewed(&h, &renewal, renewal.renewal.found);
    assert_lost(&leases[0], HF_LOSS_REVOKED);
}

/* ---- quarantine (R19) */

static void test_restart_quarantines_for_the_longest_lease(void **state)
{
    (void)state;
    assert_int_equal(h.book.quarantined_until, 0);
    hf__book_restarted(&h.book);
    assert_int_equal(h.book.quarantined_until, h.world.now + HOLDER_WATCHDOG);
    holder_take_fixed(&h, &leases[0], VIRTUAL_SECOND * 100);
    assert_true(holder_give_back(&h, &leases[0]));
    holder_take_fixed(&h, &leases[1], VIRTUAL_SECOND);
    virtual_pass(&h.world, VIRTUAL_SECOND);
    hf__book_restarted(&h.book);
    assert_int_equal(h.book.quarantined_until,
                     h.world.now + VIRTUAL_SECOND * 100);
}

static void test_quarantine_as_configured(void **state)
{
    (void)state;
    h.book.quarantine = VIRTUAL_SECOND * 3;
    hf__book_restarted(&h.book);
    assert_int_equal(h.book.quarantined_until,
                     h.world.now + VIRTUAL_SECOND * 3);
    h.book.quarantined_until = 0;
    h.book.quarantine = -1;
    hf__book_restarted(&h.book);
    assert_int_equal(h.book.quarantined_until, 0);
}

/* ---- owners (R14) and tokens (R18) */

static void test_owner_id_is_uuid_and_ordinal(void **state)
{
    (void)state;
    char id[HF__OWNER_SIZE];
    (void)snprintf(h.book.uuid, sizeof(h.book.uuid), "%s",
                   "01234567-89ab-4cde-8f01-23456789abcd");
    static const struct {
        uint64_t ordinal;
        const char *id;
    } cases[] = {
        {0, "01234567-89ab-4cde-8f01-23456789abcd:0"},
        {7, "01234567-89ab-4cde-8f01-23456789abcd:7"},
        {UINT64_MAX,
         "01234567-89ab-4cde-8f01-23456789abcd:18446744073709551615"},
    };
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(hf__book_owner_id(&h.book, NULL, cases[i].ordinal, id),
                         strlen(cases[i].id));
        assert_string_equal(id, cases[i].id);
    }
    hf__hold *hold = hf__book_pin(&h.book, h.target, UINT64_MAX);
    assert_string_equal(hold->owner, cases[2].id);
    assert_int_equal(hold->owner_length, strlen(cases[2].id));
}

static void test_owners_do_not_share_a_hold(void **state)
{
    (void)state;
    hf__hold *other = hf__book_pin(&h.book, h.target, 8);
    assert_ptr_not_equal(other, h.hold);
    assert_ptr_equal(hf__book_pin(&h.book, h.target, 8), other);
    assert_ptr_equal(hf__book_find(&h.book, h.target, 7), h.hold);
    assert_null(hf__book_find(&h.book, h.target, 9));
}

static void test_largest_token_is_remembered(void **state)
{
    (void)state;
    static const uint64_t tokens[] = {5, 4, 0, 9};
    static const uint64_t largest[] = {5, 5, 5, 9};
    for (int i = 0; i < 4; i++) {
        grant(h.hold, &leases[i], tokens[i]);
        assert_int_equal(leases[i].token, tokens[i]);
        assert_int_equal(h.target->last_token, largest[i]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_deadline_counts_from_the_sending),
        TEST(test_deadline_of_a_fixed_lease),
        TEST(test_what_is_asked_for),
        TEST(test_lease_is_lost_at_its_deadline),
        TEST(test_late_release_finds_the_loss_by_itself),
        TEST(test_late_positive_renewal_revives_nothing),
        TEST(test_late_grant_of_another_revives_nothing),
        TEST(test_late_release_of_another_revives_nothing),
        TEST(test_renewal_that_finds_nothing_loses_all_at_once),
        TEST(test_grant_that_finds_nothing_loses_what_was_before),
        TEST(test_grant_with_a_surprising_count_is_settled),
        TEST(test_forced_release_loses_all_holds_of_the_lock),
        TEST(test_renewals_are_at_most_a_third_apart),
        TEST(test_renewal_under_way_is_not_due_again),
        TEST(test_failed_renewal_is_suspect_and_retried_quickly),
        TEST(test_renewal_is_tried_until_the_deadline),
        TEST(test_fixed_lease_is_never_renewed),
        TEST(test_max_hold_is_never_exceeded),
        TEST(test_max_hold_below_the_watchdog_lease),
        TEST(test_max_hold_that_is_not_renewed_has_expired),
        TEST(test_broken_connection_makes_every_hold_be_asked_for),
        TEST(test_fixed_lease_is_looked_for_without_renewal),
        TEST(test_restart_quarantines_for_the_longest_lease),
        TEST(test_quarantine_as_configured),
        TEST(test_owner_id_is_uuid_and_ordinal),
        TEST(test_owners_do_not_share_a_hold),
        TEST(test_largest_token_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
