/* The acquisition machine in random histories: every event that may answer an
 * action comes, and after each step the rules hold that no single test can
 * prove. R numbers are those of the correctness rules. */
#include "core/acquire.h"
#include "kinds/lock.h"
#include "support/virtual.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LEASE VIRTUAL_SECOND
#define POLL_CAP (5 * VIRTUAL_SECOND)

static virtual_seam world;

static hf__acquire machine(void)
{
    virtual_start(&world);
    return (hf__acquire){.kind = &hf__kind_lock,
                         .seam = &world.seam,
                         .deadline = INT64_MAX,
                         .poll_cap = POLL_CAP,
                         .lease = LEASE};
}

/* What the walk knows that the machine must respect. */
typedef struct walk {
    hf__acquire a;
    bool ambiguous; /* an acquire may be on the server beyond what is known */
    unsigned steps;
} walk;

static hf__acquire_action random_reply(walk *w)
{
    switch (virtual_chance(&world, 8)) {
    case 0:
        w->ambiguous = true;
        return virtual_failure(&w->a, HF__EV_UNKNOWN, HF_EUNREACHABLE, true);
    case 1:
        return virtual_failure(&w->a, HF__EV_NOT_SENT, HF_EUNREACHABLE, true);
    case 2:
        return virtual_event(&w->a, HF__EV_OUTDATED);
    case 3:
        return virtual_error(&w->a, "LOADING");
    case 4:
        w->ambiguous = world.now >= hf__lease_deadline(w->a.sent_at, LEASE);
        return virtual_nil(&w->a);
    default:
        return virtual_integer(&w->a,
                               (int64_t)virtual_chance(&world, 20000) - 2);
    }
}

static hf__acquire_action random_interruption(walk *w, hf__acquire_action doing)
{
    w->ambiguous = w->ambiguous || doing == HF__ACT_SEND;
    hf__acquire_event event =
        virtual_chance(&world, 2) ? HF__EV_CANCEL : HF__EV_TIME_UP;
    return doing == HF__ACT_SEND ? virtual_event_in_flight(&w->a, event)
                                 : virtual_event(&w->a, event);
}

static hf__acquire_action random_event(walk *w, hf__acquire_action doing)
{
    if (virtual_chance(&world, 60) == 0) {
        return random_interruption(w, doing);
    }
    switch (doing) {
    case HF__ACT_SEND:
        return random_reply(w);
    case HF__ACT_SETTLE:
        if (virtual_chance(&world, 2)) {
            return virtual_failure(&w->a, HF__EV_NOT_SETTLED, HF_EUNREACHABLE,
                                   true);
        }
        w->ambiguous = false;
        return virtual_event(&w->a, HF__EV_SETTLED);
    case HF__ACT_SUBSCRIBE:
        if (virtual_chance(&world, 3) == 0) {
            return virtual_failure(&w->a, HF__EV_NOT_SUBSCRIBED,
                                   HF_EUNREACHABLE, true);
        }
        return virtual_event(&w->a, HF__EV_SUBSCRIBED);
    default:
        w->a.listening = w->a.listening && virtual_chance(&world, 8) > 0;
        return virtual_event(&w->a, HF__EV_WOKEN);
    }
}

/* R12: no wait is without an end. */
static void check_parking(const hf__acquire *a)
{
    int64_t until = a->park_until;
    if (a->shared && a->poll_at < until) {
        until = a->poll_at;
    }
    int64_t latest = world.now + POLL_CAP;
    latest = latest > a->not_before ? latest : a->not_before;
    assert_true(until <= latest);
    assert_true(a->park_until <= a->deadline);
}

static void check_step(const walk *w, hf__acquire_action action)
{
    switch (action) {
    case HF__ACT_SEND:
        assert_false(w->ambiguous); /* R7 */
        assert_true(world.now >= w->a.not_before);
        break;
    case HF__ACT_PARK:
        check_parking(&w->a);
        break;
    case HF__ACT_DONE:
        assert_true(!w->ambiguous || w->a.maybe_applied); /* R9 */
        assert_true(w->a.status == HF_OK ||
                    w->a.status == hf_error_status(&w->a.error));
        assert_true(w->a.status != HF_OK || !w->ambiguous);
        break;
    default:
        break;
    }
}

static void random_walk(uint64_t seed)
{
    walk w = {.a = machine()};
    virtual_seed(&world, seed);
    w.a.once = virtual_chance(&world, 6) == 0;
    if (virtual_chance(&world, 2)) {
        w.a.deadline = world.now + VIRTUAL_MS(virtual_chance(&world, 20000));
    }
    hf__acquire_action doing = virtual_event(&w.a, HF__EV_START);
    check_step(&w, doing);
    while (doing != HF__ACT_DONE && w.steps++ < 400) {
        virtual_pass(&world, VIRTUAL_MS(virtual_chance(&world, 1200)));
        if (virtual_chance(&world, 40) == 0) {
            w.a.not_before = world.now + VIRTUAL_MS(3000);
        }
        doing = random_event(&w, doing);
        check_step(&w, doing);
    }
    assert_true(w.steps < 400);
}

static void test_random_histories_keep_the_rules(void **state)
{
    (void)state;
    unsigned runs = virtual_runs(20000);
    for (unsigned i = 0; i < runs; i++) {
        random_walk(i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_histories_keep_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
