/* Who is woken by a message, by time, and by another's leaving. R numbers are
 * those of the correctness rules that a test stands for. */
#include "core/waiters.h"
#include "kinds/lock.h"
#include "support/virtual.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define LINGER (2 * VIRTUAL_SECOND)
#define POLL_CAP (5 * VIRTUAL_SECOND)
#define CROWD 4

static virtual_seam world;
static hf__waiters waiters;
static hf__channel *channel;
static hf__waiter crowd[CROWD];

static hf__channel *channel_of(const char *name)
{
    return hf__waiters_channel(&waiters, &hf__kind_lock, hf__slice_of(name),
                               true);
}

static int set_up(void **state)
{
    (void)state;
    virtual_start(&world);
    hf__waiters_init(&waiters, 32, LINGER, POLL_CAP);
    channel = channel_of("c");
    memset(crowd, 0, sizeof(crowd));
    return channel ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    hf__waiters_free(&waiters);
    return 0;
}

static void join(int count)
{
    for (int i = 0; i < count; i++) {
        hf__waiter_join(&waiters, channel, &crowd[i]);
    }
}

static void park(int i, int64_t poll_at)
{
    assert_true(hf__waiter_park(&waiters, &crowd[i], poll_at));
}

static hf__waiter *leave(int i)
{
    return hf__waiter_leave(&waiters, &crowd[i], world.now, HF__NEVER);
}

/* A message that wakes one, as the driver takes it. */
static hf__waiter *message(void)
{
    hf__waiter *waiter = hf__channel_wake(channel);
    if (!waiter) {
        hf__channel_mark_trying(channel, false);
    }
    return waiter;
}

/* What the driver does when the clock says so; returns who was woken. */
static hf__waiter *let_time_wake(void)
{
    hf__channel *due = hf__waiters_due(&waiters, world.now);
    if (!due || due->poll_at > world.now) {
        return NULL;
    }
    due->poll_at = HF__NEVER;
    hf__waiter *waiter = hf__channel_wake(due);
    hf__channel_arm(&waiters, due);
    return waiter;
}

static int64_t next_due(void)
{
    const hf__heap_item *first = hf__heap_first(&waiters.due);
    return first ? first->due : HF__NEVER;
}

/* ---- channels */

static void test_channel_is_found_by_its_bytes(void **state)
{
    (void)state;
    static const char bytes[] = {'c', '\0', 'x'};
    const hf__slice binary = {bytes, sizeof(bytes)};
    assert_null(hf__waiters_channel(&waiters, &hf__kind_lock, binary, false));
    hf__channel *other =
        hf__waiters_channel(&waiters, &hf__kind_lock, binary, true);
    assert_ptr_not_equal(other, channel);
    assert_ptr_equal(hf__waiters_channel(&waiters, NULL, binary, false), other);
    assert_ptr_equal(channel_of("c"), channel);
    assert_ptr_not_equal(other->name.data, bytes);
    assert_memory_equal(other->name.data, bytes, sizeof(bytes));
    hf__waiters_drop(&waiters, other);
    assert_null(hf__waiters_channel(&waiters, NULL, binary, false));
}

static void test_channel_begins_silent_with_a_clean_driver(void **state)
{
    (void)state;
    static const char zeros[32] = {0};
    assert_int_equal(channel->state, HF__CHANNEL_SILENT);
    assert_int_equal((uintptr_t)channel->driver % _Alignof(max_align_t), 0);
    assert_memory_equal(channel->driver, zeros, sizeof(zeros));
    assert_int_equal(next_due(), HF__NEVER);
}

static void test_due_channels_come_in_order_and_not_early(void **state)
{
    (void)state;
    hf__channel *channels[40];
    for (int i = 0; i < 40; i++) {
        char name[8] = {'n', (char)('0' + i), '\0'};
        channels[i] = channel_of(name);
        channels[i]->poll_at = world.now + VIRTUAL_MS(1 + (i * 17) % 40);
        hf__channel_arm(&waiters, channels[i]);
    }
    for (int i = 1; i <= 40; i++) {
        assert_null(hf__waiters_due(&waiters, world.now));
        virtual_pass(&world, VIRTUAL_MS(1));
        hf__channel *due = hf__waiters_due(&waiters, world.now);
        assert_non_null(due);
        assert_int_equal(due->poll_at, world.now);
    }
    assert_int_equal(next_due(), HF__NEVER);
}

static void test_timer_is_the_earlier_of_poll_and_linger(void **state)
{
    (void)state;
    channel->poll_at = world.now + 9;
    channel->linger_until = world.now + 7;
    hf__channel_arm(&waiters, channel);
    assert_int_equal(next_due(), world.now + 7);
    channel->linger_until = HF__NEVER;
    hf__channel_arm(&waiters, channel);
    assert_int_equal(next_due(), world.now + 9);
    channel->poll_at = HF__NEVER;
    hf__channel_arm(&waiters, channel);
    assert_int_equal(next_due(), HF__NEVER);
}

/* ---- messages */

static void test_message_wakes_in_the_order_of_arrival(void **state)
{
    (void)state;
    join(3);
    for (int i = 2; i >= 0; i--) {
        park(i, world.now + 1);
    }
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(message(), &crowd[i]);
        assert_int_equal(crowd[i].state, HF__WAITER_WOKEN);
    }
    assert_null(message());
}

static void test_message_passes_over_those_that_try(void **state)
{
    (void)state;
    join(2);
    park(1, world.now + 1);
    assert_ptr_equal(message(), &crowd[1]);
    assert_false(crowd[0].again);
}

/* R12: its try may be older than the release that the message tells of. */
static void test_message_during_a_try_makes_it_try_again(void **state)
{
    (void)state;
    join(1);
    assert_null(message());
    assert_false(hf__waiter_park(&waiters, &crowd[0], world.now + 1));
    assert_int_equal(crowd[0].state, HF__WAITER_TRYING);
    park(0, world.now + 1); /* once is enough */
}

static void test_two_messages_during_tries_concern_two(void **state)
{
    (void)state;
    join(3);
    message();
    message();
    assert_true(crowd[0].again);
    assert_true(crowd[1].again);
    assert_false(crowd[2].again);
}

static void test_message_for_all_concerns_all(void **state)
{
    (void)state;
    join(4);
    park(1, world.now + 1);
    park(3, world.now + 1);
    hf__channel_mark_trying(channel, true);
    assert_ptr_equal(hf__channel_wake(channel), &crowd[1]);
    assert_ptr_equal(hf__channel_wake(channel), &crowd[3]);
    assert_null(hf__channel_wake(channel));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(crowd[i].again, i % 2 == 0);
    }
}

/* ---- leaving */

static void test_woken_waiter_that_leaves_passes_the_message_on(void **state)
{
    (void)state;
    join(3);
    for (int i = 0; i < 3; i++) {
        park(i, world.now + POLL_CAP);
    }
    assert_ptr_equal(message(), &crowd[0]);
    assert_ptr_equal(leave(0), &crowd[1]);
    assert_int_equal(crowd[1].state, HF__WAITER_WOKEN);
    assert_ptr_equal(leave(1), &crowd[2]);
    assert_null(leave(2));
}

static void test_waiter_that_has_tried_owes_nothing(void **state)
{
    (void)state;
    join(2);
    park(0, world.now + POLL_CAP);
    park(1, world.now + POLL_CAP);
    assert_ptr_equal(message(), &crowd[0]);
    hf__waiter_try(&crowd[0]);
    assert_int_equal(crowd[0].state, HF__WAITER_TRYING);
    assert_null(leave(0));
    assert_int_equal(crowd[1].state, HF__WAITER_PARKED);
}

/* The message came during its try, and it does not try again. */
static void test_marked_waiter_that_leaves_passes_the_message_on(void **state)
{
    (void)state;
    join(2);
    assert_null(message());
    assert_true(crowd[0].again);
    park(1, world.now + POLL_CAP);
    assert_ptr_equal(leave(0), &crowd[1]);
}

/* Its own try may be older than the message that the other was marked for. */
static void
test_marked_waiter_leaves_its_message_to_one_that_tries(void **state)
{
    (void)state;
    join(2);
    assert_null(message());
    assert_true(crowd[0].again);
    assert_null(leave(0));
    assert_true(crowd[1].again);
}

static void test_woken_waiter_leaves_its_message_to_one_that_tries(void **state)
{
    (void)state;
    join(2);
    park(0, world.now + POLL_CAP);
    assert_ptr_equal(message(), &crowd[0]);
    assert_null(leave(0));
    assert_true(crowd[1].again);
}

static void test_leaving_twice_is_harmless(void **state)
{
    (void)state;
    join(1);
    assert_null(leave(0));
    assert_int_equal(crowd[0].state, HF__WAITER_OUT);
    assert_null(leave(0));
    hf__waiter_try(&crowd[0]);
    assert_int_equal(crowd[0].state, HF__WAITER_OUT);
}

static void test_subscription_lingers_behind_the_last(void **state)
{
    (void)state;
    join(2);
    park(0, world.now + VIRTUAL_SECOND);
    assert_null(leave(1));
    assert_int_equal(channel->linger_until, HF__NEVER);
    assert_null(leave(0));
    assert_int_equal(channel->poll_at, HF__NEVER);
    assert_int_equal(channel->linger_until, world.now + LINGER);
    assert_int_equal(next_due(), world.now + LINGER);
    virtual_pass(&world, VIRTUAL_SECOND);
    join(1);
    assert_int_equal(channel->linger_until, HF__NEVER);
    assert_int_equal(next_due(), HF__NEVER);
}

/* ---- time (R12) */

static void test_time_wakes_one_only(void **state)
{
    (void)state;
    join(3);
    for (int i = 0; i < 3; i++) {
        park(i, world.now + VIRTUAL_MS(10));
    }
    assert_null(let_time_wake());
    virtual_pass(&world, VIRTUAL_MS(10));
    assert_ptr_equal(let_time_wake(), &crowd[0]);
    assert_null(let_time_wake());
    assert_int_equal(crowd[1].state, HF__WAITER_PARKED);
    /* It is busy again, and says when the next one must try. */
    hf__waiter_try(&crowd[0]);
    park(0, world.now + VIRTUAL_MS(10));
    virtual_pass(&world, VIRTUAL_MS(10));
    assert_non_null(let_time_wake());
}

static void test_poll_survives_the_leaving_of_a_parked_waiter(void **state)
{
    (void)state;
    join(2);
    park(1, world.now + VIRTUAL_MS(30));
    park(0, world.now + VIRTUAL_MS(10));
    assert_null(leave(0));
    assert_int_equal(next_due(), world.now + VIRTUAL_MS(10));
    virtual_pass(&world, VIRTUAL_MS(10));
    assert_ptr_equal(let_time_wake(), &crowd[1]);
}

static void test_poll_survives_the_leaving_of_the_woken_waiter(void **state)
{
    (void)state;
    join(3);
    for (int i = 0; i < 3; i++) {
        park(i, world.now + VIRTUAL_MS(10));
    }
    virtual_pass(&world, VIRTUAL_MS(10));
    assert_ptr_equal(let_time_wake(), &crowd[0]);
    hf__waiter_try(&crowd[0]);
    assert_null(leave(0)); /* it has got the lock */
    assert_int_equal(channel->poll_at, world.now + POLL_CAP);
    assert_int_equal(next_due(), world.now + POLL_CAP);
    virtual_pass(&world, POLL_CAP);
    assert_ptr_equal(let_time_wake(), &crowd[1]);
}

/* What was granted may end without a message: the others ask at its end, be it
 * sooner than they meant to. */
static void test_others_ask_when_the_grant_ends(void **state)
{
    (void)state;
    join(3);
    park(0, world.now + VIRTUAL_SECOND);
    park(1, world.now + VIRTUAL_SECOND);
    assert_null(hf__waiter_leave(&waiters, &crowd[2], world.now,
                                 world.now + VIRTUAL_MS(400)));
    assert_int_equal(channel->poll_at, world.now + VIRTUAL_MS(400));
    assert_null(hf__waiter_leave(&waiters, &crowd[1], world.now,
                                 world.now + VIRTUAL_MS(900)));
    assert_int_equal(channel->poll_at, world.now + VIRTUAL_MS(400));
    channel->poll_at = HF__NEVER;
    hf__waiter_try(&crowd[0]);
    hf__waiter_join(&waiters, channel, &crowd[1]);
    assert_null(hf__waiter_leave(&waiters, &crowd[1], world.now,
                                 world.now + 2 * POLL_CAP));
    assert_int_equal(channel->poll_at, world.now + POLL_CAP);
}

/* A message for all wakes all that can have it together, and one other. */
static void test_sharing(void **state)
{
    (void)state;
    unsigned others = 0;
    crowd[1].shares = crowd[3].shares = true;
    join(4);
    for (int i = 0; i < 4; i++) {
        park(i, world.now + VIRTUAL_SECOND);
    }
    assert_ptr_equal(hf__channel_wake_sharing(channel, &others), &crowd[0]);
    assert_ptr_equal(hf__channel_wake_sharing(channel, &others), &crowd[1]);
    assert_ptr_equal(hf__channel_wake_sharing(channel, &others), &crowd[3]);
    assert_null(hf__channel_wake_sharing(channel, &others));
    assert_int_equal(crowd[2].state, HF__WAITER_PARKED);
}

static void test_poll_survives_a_woken_waiter_that_never_tries(void **state)
{
    (void)state;
    join(2);
    park(0, world.now + VIRTUAL_MS(10));
    park(1, world.now + VIRTUAL_MS(10));
    virtual_pass(&world, VIRTUAL_MS(10));
    assert_ptr_equal(let_time_wake(), &crowd[0]);
    assert_ptr_equal(leave(0), &crowd[1]);
    assert_true(next_due() <= world.now + POLL_CAP);
}

/* ---- random histories */

static void random_step(void)
{
    hf__waiter *waiter = &crowd[virtual_chance(&world, CROWD)];
    virtual_pass(&world, VIRTUAL_MS(virtual_chance(&world, 900)));
    switch (virtual_chance(&world, 6)) {
    case 0:
        if (waiter->state == HF__WAITER_OUT) {
            hf__waiter_join(&waiters, channel, waiter);
        }
        break;
    case 1:
        (void)hf__waiter_leave(&waiters, waiter, world.now, HF__NEVER);
        break;
    case 2:
        if (waiter->state == HF__WAITER_TRYING) {
            (void)hf__waiter_park(
                &waiters, waiter,
                world.now + VIRTUAL_MS(1 + virtual_chance(&world, 5000)));
        }
        break;
    case 3:
        if (waiter->state == HF__WAITER_WOKEN) {
            hf__waiter_try(waiter);
        }
        break;
    case 4:
        (void)message();
        break;
    default:
        (void)let_time_wake();
        break;
    }
}

/* R12: nobody is parked without somebody who will try, by the clock or because
 * it is at it. */
static void check_nobody_is_forgotten(void)
{
    bool parked = false;
    bool active = false;
    bool any = false;
    for (int i = 0; i < CROWD; i++) {
        hf__waiter_state state = crowd[i].state;
        parked = parked || state == HF__WAITER_PARKED;
        active =
            active || state == HF__WAITER_TRYING || state == HF__WAITER_WOKEN;
        any = any || state != HF__WAITER_OUT;
    }
    if (parked && !active) {
        assert_true(next_due() <= world.now + POLL_CAP);
        assert_int_equal(next_due(), channel->poll_at);
    }
    assert_true(any || channel->poll_at == HF__NEVER);
    assert_true(!any || channel->linger_until == HF__NEVER);
}

static void test_random_histories_forget_nobody(void **state)
{
    unsigned runs = virtual_runs(300);
    for (unsigned i = 0; i < runs; i++) {
        virtual_seed(&world, i);
        for (int step = 0; step < 200; step++) {
            random_step();
            check_nobody_is_forgotten();
        }
        tear_down(state);
        assert_int_equal(set_up(state), 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_channel_is_found_by_its_bytes),
        TEST(test_channel_begins_silent_with_a_clean_driver),
        TEST(test_due_channels_come_in_order_and_not_early),
        TEST(test_timer_is_the_earlier_of_poll_and_linger),
        TEST(test_message_wakes_in_the_order_of_arrival),
        TEST(test_message_passes_over_those_that_try),
        TEST(test_message_during_a_try_makes_it_try_again),
        TEST(test_two_messages_during_tries_concern_two),
        TEST(test_message_for_all_concerns_all),
        TEST(test_woken_waiter_that_leaves_passes_the_message_on),
        TEST(test_waiter_that_has_tried_owes_nothing),
        TEST(test_marked_waiter_that_leaves_passes_the_message_on),
        TEST(test_marked_waiter_leaves_its_message_to_one_that_tries),
        TEST(test_woken_waiter_leaves_its_message_to_one_that_tries),
        TEST(test_leaving_twice_is_harmless),
        TEST(test_subscription_lingers_behind_the_last),
        TEST(test_time_wakes_one_only),
        TEST(test_poll_survives_the_leaving_of_a_parked_waiter),
        TEST(test_poll_survives_the_leaving_of_the_woken_waiter),
        TEST(test_others_ask_when_the_grant_ends),
        TEST(test_sharing),
        TEST(test_poll_survives_a_woken_waiter_that_never_tries),
        TEST(test_random_histories_forget_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
