/* The book: holds that are kept for their next use, and many at once. */
#include "kinds/lock.h"
#include "support/holder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define IDLE_MAX 256 /* as in core/book.c */

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

/* ---- holds kept for their next use */

static hf__hold *pin(uint64_t ordinal)
{
    hf__hold *hold = hf__book_pin(&h.book, h.target, ordinal);
    assert_non_null(hold);
    return hold;
}

static void test_idle_hold_is_found_again(void **state)
{
    (void)state;
    hf__hold *hold = pin(100);
    hf__book_unpin(&h.book, hold);
    assert_int_equal(h.book.idle_count, 1);
    assert_ptr_equal(pin(100), hold);
    assert_int_equal(h.book.idle_count, 0);
    assert_ptr_equal(pin(100), hold);
    hf__book_unpin(&h.book, hold);
    assert_int_equal(h.book.idle_count, 0); /* pinned once more */
    hf__book_unpin(&h.book, hold);
    assert_int_equal(h.book.idle_count, 1);
}

static void test_oldest_idle_holds_are_forgotten(void **state)
{
    (void)state;
    size_t refs = h.target->refs;
    for (uint64_t i = 0; i < IDLE_MAX + 10; i++) {
        hf__book_unpin(&h.book, pin(100 + i));
    }
    assert_int_equal(h.book.idle_count, IDLE_MAX);
    for (uint64_t i = 0; i < IDLE_MAX + 10; i++) {
        bool kept = hf__book_find(&h.book, h.target, 100 + i) != NULL;
        assert_int_equal(kept, i >= 10);
    }
    assert_int_equal(h.target->refs, refs + IDLE_MAX);
}

/* Whatever is still to be done about a hold keeps it. */
static void test_holds_in_use_are_never_forgotten(void **state)
{
    (void)state;
    hf__hold *live = pin(1);
    hf__hold *unsettled = pin(2);
    hf__hold *renewing = pin(3);
    hf__hold *pinned = pin(4);
    const hf__terms terms = {.fixed = VIRTUAL_SECOND};
    const hf__grant grant = {.sent_at = h.world.now,
                             .asked =
                                 hf__book_lease_to_ask(&h.book, live, &terms)};
    hf__book_granted(&h.book, live, &leases[0], &terms, &grant);
    hf__book_unsettle(&h.book, unsettled);
    renewing->renewing = true;
    hf__book_unpin(&h.book, live);
    hf__book_unpin(&h.book, unsettled);
    hf__book_unpin(&h.book, renewing);
    for (uint64_t i = 0; i < 2 * IDLE_MAX; i++) {
        hf__book_unpin(&h.book, pin(100 + i));
    }
    assert_ptr_equal(hf__book_find(&h.book, h.target, 1), live);
    assert_ptr_equal(hf__book_find(&h.book, h.target, 2), unsettled);
    assert_ptr_equal(hf__book_find(&h.book, h.target, 3), renewing);
    assert_ptr_equal(hf__book_find(&h.book, h.target, 4), pinned);
}

static void test_hold_becomes_idle_whatever_ends_last(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    assert_int_equal(holder_pass_to_due(&h), HF__DUE_RENEW);
    holder_renewal renewal = holder_send_renewal(&h);
    assert_true(holder_give_back(&h, &leases[0]));
    hf__book_unpin(&h.book, h.hold);
    assert_int_equal(h.book.idle_count, 0);
    holder_renewed(&h, &renewal, 1);
    assert_int_equal(h.book.idle_count, 1);

    assert_ptr_equal(pin(7), h.hold);
    hf__book_unsettle(&h.book, h.hold);
    hf__book_unpin(&h.book, h.hold);
    assert_int_equal(h.book.idle_count, 0);
    assert_int_equal(holder_due(&h), HF__DUE_SETTLE);
    holder_settle(&h, true);
    assert_int_equal(h.book.idle_count, 1);

    assert_ptr_equal(pin(7), h.hold);
    holder_take_fixed(&h, &leases[1], VIRTUAL_SECOND);
    hf__book_unpin(&h.book, h.hold);
    hf__book_revoke(&h.book, h.target, h.world.now);
    assert_int_equal(h.book.idle_count,
                     0); /* what was sent before is settled */
    assert_int_equal(holder_due(&h), HF__DUE_SETTLE);
    holder_settle(&h, true);
    assert_int_equal(h.book.idle_count, 1);

    /* even one that was idle already */
    hf__book_unsettle(&h.book, h.hold);
    assert_int_equal(h.book.idle_count, 0);
}

static void test_targets_are_shared_and_counted(void **state)
{
    (void)state;
    static const char bytes[] = {'o', 'r', '\0', 'x'};
    const hf__slice binary = {bytes, sizeof(bytes)};
    size_t refs = h.target->refs;
    assert_ptr_equal(
        hf__book_target(&h.book, &hf__kind_lock, HF__LITERAL("orders")),
        h.target);
    assert_int_equal(h.target->refs, refs + 1);
    hf__book_drop_target(&h.book, h.target);
    assert_int_equal(h.target->refs, refs);

    hf__target *other = hf__book_target(&h.book, &hf__kind_lock, binary);
    assert_ptr_not_equal(other, h.target);
    assert_memory_equal(other->name.data, bytes, sizeof(bytes));
    assert_int_equal(other->channel.length,
                     strlen("redisson_lock__channel") + sizeof(bytes) + 3);
    hf__book_drop_target(&h.book, other);
    assert_int_equal(HASH_COUNT(h.book.targets), 1);
}

/* ---- many holds */

#define MANY 500

static void take_many(hf__hold *holds[MANY], hf__lease many[MANY])
{
    const hf__terms terms = {0};
    for (uint64_t i = 0; i < MANY; i++) {
        holds[i] = pin(1000 + i);
        const hf__grant grant = {
            .sent_at = h.world.now,
            .asked = hf__book_lease_to_ask(&h.book, holds[i], &terms)};
        hf__book_granted(&h.book, holds[i], &many[i], &terms, &grant);
        virtual_pass(&h.world, VIRTUAL_MS(virtual_chance(&h.world, 10)));
    }
}

static void test_many_holds_are_each_renewed_in_time(void **state)
{
    (void)state;
    static hf__lease many[MANY];
    static hf__hold *holds[MANY];
    memset(many, 0, sizeof(many));
    virtual_seed(&h.world, 1);
    take_many(holds, many);
    int64_t end = h.world.now + 3 * HOLDER_WATCHDOG;
    unsigned renewals = 0;
    while (hf__book_next(&h.book) <= end) {
        int64_t next = hf__book_next(&h.book);
        assert_true(next >= h.world.now);
        h.world.now = next;
        hf__hold *hold = NULL;
        assert_int_equal(hf__book_due(&h.book, &hold), HF__DUE_RENEW);
        const hf__renewal renewal = {.asked =
                                         hf__book_lease_to_renew(&h.book, hold),
                                     .standing = hold->standing,
                                     .found = 1};
        hf__book_renewed(&h.book, hold, &renewal, h.world.now);
        renewals++;
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(holder_state(&many[i]), HF_LEASE_HELD);
    }
    assert_in_range(renewals, 9 * MANY - MANY, 12 * MANY);
}

static void test_many_holds_are_all_lost_in_time(void **state)
{
    (void)state;
    static hf__lease many[MANY];
    static hf__hold *holds[MANY];
    memset(many, 0, sizeof(many));
    virtual_seed(&h.world, 2);
    take_many(holds, many);
    virtual_pass(&h.world, HOLDER_WATCHDOG); /* stopped for so long */
    size_t settlings = 0;
    hf__hold *hold = NULL;
    hf__due due = HF__DUE_NOTHING;
    while ((due = hf__book_due(&h.book, &hold)) != HF__DUE_NOTHING) {
        assert_int_equal(due, HF__DUE_SETTLE);
        settlings++;
    }
    assert_int_equal(settlings, MANY);
    size_t lost = 0;
    while (hf__list_pop(&h.book.lost)) {
        lost++;
    }
    assert_int_equal(lost, MANY);
}

/* What is due soon goes along with what is due now; nothing else does. */
static void test_renewals_that_are_due_soon_travel_along(void **state)
{
    (void)state;
    const hf__terms terms = {0};
    hf__hold *const holds[] = {pin(1), pin(2), pin(3)};
    for (int i = 0; i < 3; i++) {
        const hf__grant grant = {
            .sent_at = h.world.now,
            .asked = hf__book_lease_to_ask(&h.book, holds[i], &terms)};
        hf__book_granted(&h.book, holds[i], &leases[i], &terms, &grant);
        virtual_pass(&h.world, HOLDER_WATCHDOG / 12 - VIRTUAL_MS(100));
    }
    h.world.now = hf__book_next(&h.book) - 1;
    hf__hold *hold = NULL;
    assert_int_equal(hf__book_due(&h.book, &hold), HF__DUE_NOTHING);
    virtual_pass(&h.world, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hf__book_due(&h.book, &hold), HF__DUE_RENEW);
        assert_ptr_equal(hold, holds[i]);
    }
    assert_int_equal(hf__book_due(&h.book, &hold), HF__DUE_NOTHING);
    assert_false(holds[2]->renewing);
}

/* A lease's end is never brought forward. */
static void test_ends_do_not_travel_along(void **state)
{
    (void)state;
    holder_take_watched(&h, &leases[0]);
    hf__hold *other = pin(1);
    const hf__terms fixed = {.fixed = VIRTUAL_SECOND};
    h.world.now = hf__book_next(&h.book);
    const hf__grant grant = {.sent_at = h.world.now,
                             .asked =
                                 hf__book_lease_to_ask(&h.book, other, &fixed)};
    hf__book_granted(&h.book, other, &leases[1], &fixed, &grant);
    hf__hold *hold = NULL;
    assert_int_equal(hf__book_due(&h.book, &hold), HF__DUE_RENEW);
    assert_ptr_equal(hold, h.hold);
    assert_int_equal(hf__book_due(&h.book, &hold), HF__DUE_NOTHING);
    assert_int_equal(holder_state(&leases[1]), HF_LEASE_HELD);
    assert_false(other->unsettled);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_idle_hold_is_found_again),
        TEST(test_oldest_idle_holds_are_forgotten),
        TEST(test_holds_in_use_are_never_forgotten),
        TEST(test_hold_becomes_idle_whatever_ends_last),
        TEST(test_targets_are_shared_and_counted),
        TEST(test_many_holds_are_each_renewed_in_time),
        TEST(test_many_holds_are_all_lost_in_time),
        TEST(test_renewals_that_are_due_soon_travel_along),
        TEST(test_ends_do_not_travel_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
