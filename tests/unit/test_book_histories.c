/* The book in random histories, beside a simple model of the server: commands
 * are executed in the order in which they were sent, their replies are heard
 * in any order, late or never. After each step the invariants hold. R numbers
 * are those of the correctness rules. */
#include "support/holder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define LEASES 6
#define STEPS 400

typedef enum purpose { NOTHING, ACQUIRE, RELEASE, SETTLE } purpose;

/* The command under way: one at a time, as `busy` says. */
typedef struct command {
    purpose what;
    holder_acquire acquire;
    hf__lease *lease;
    int64_t sent_at;
    int64_t remaining;
    int64_t span;
    bool executed;
    bool listed;
} command;

typedef struct history {
    holder h;
    hf__lease leases[LEASES];
    bool ended[LEASES];        /* seen as lost or released */
    int64_t deadlines[LEASES]; /* last seen of live ones */
    command command;
    holder_renewal renewal;
    bool renewal_sent;
    bool renewal_executed;
    bool renewal_first; /* sent before the command */
    bool faults;        /* replies are lost, the keeper is late */
    bool flushes;       /* an operator deletes the lock */
} history;

static history now;

static bool is_live(int i)
{
    hf_lease_state state = holder_state(&now.leases[i]);
    return state == HF_LEASE_HELD || state == HF_LEASE_SUSPECT;
}

static uint64_t chance(uint64_t below)
{
    return virtual_chance(&now.h.world, below);
}

/* ------------------------------------------------------------- the server */

static bool is_listed(void)
{
    return now.h.server.count > 0 && now.h.world.now < now.h.server.end;
}

static void execute_renewal(void)
{
    if (now.renewal_sent && !now.renewal_executed) {
        now.renewal.renewal.found = virtual_entry_renew(
            &now.h.server, now.h.world.now, now.renewal.renewal.asked);
        now.renewal_executed = true;
    }
}

static void execute_command(void)
{
    command *c = &now.command;
    if (c->what == NOTHING || c->executed) {
        return;
    }
    if (now.renewal_first) {
        execute_renewal();
    }
    if (c->what == ACQUIRE) {
        virtual_entry_acquire(&now.h.server, now.h.world.now,
                              c->acquire.grant.asked);
    } else {
        c->listed = virtual_entry_release(&now.h.server, now.h.world.now,
                                          c->remaining, c->span);
    }
    c->executed = true;
}

static void execute_next(void)
{
    if (!now.renewal_first) {
        execute_command();
    }
    execute_renewal();
    execute_command();
}

/* ------------------------------------------------------------- the holder */

static hf__terms random_terms(void)
{
    switch (chance(4)) {
    case 0:
        return (hf__terms){.fixed = VIRTUAL_MS(20 + chance(60000))};
    case 1:
        return (hf__terms){.max_hold = VIRTUAL_MS(20 + chance(90000))};
    default:
        return (hf__terms){0};
    }
}

static void send_command(purpose what)
{
    now.command.what = what;
    now.command.sent_at = now.h.world.now;
    now.command.executed = false;
    now.renewal_first = now.renewal_sent && !now.renewal_executed;
}

static void send_acquire(void)
{
    for (int i = 0; i < LEASES; i++) {
        hf__lease *lease = &now.leases[i];
        if (is_live(i) || !hf__list_empty(&lease->node)) {
            continue;
        }
        hf__terms terms = random_terms();
        memset(lease, 0, sizeof(*lease));
        hf__list_init(&lease->node);
        now.ended[i] = false;
        now.deadlines[i] = 0;
        now.h.hold->busy = true;
        now.command.lease = lease;
        now.command.acquire =
            (holder_acquire){.terms = terms,
                             .grant = {.asked = hf__book_lease_to_ask(
                                           &now.h.book, now.h.hold, &terms),
                                       .sent_at = now.h.world.now}};
        send_command(ACQUIRE);
        return;
    }
}

static void send_count(purpose what)
{
    now.h.hold->busy = true;
    hf__book_say(&now.h.book, now.h.hold);
    now.command.remaining = (int64_t)now.h.hold->said;
    now.command.span = now.h.hold->said_lease;
    send_command(what);
}

static void start_something(void)
{
    int i = (int)chance(LEASES);
    if (!now.h.hold->busy && !now.h.hold->unsettled && chance(2)) {
        send_acquire();
    } else if (is_live(i) && hf__book_leave(&now.h.book, &now.leases[i])) {
        if (now.h.hold->busy || chance(3) == 0) {
            hf__book_unsettle(&now.h.book, now.h.hold);
        } else {
            send_count(RELEASE);
        }
    }
}

/* ---------------------------------------------------------------- replies */

static void hear_acquire(const command *c, bool heard)
{
    const hf__grant *grant = &c->acquire.grant;
    if (heard &&
        now.h.world.now < hf__lease_deadline(grant->sent_at, grant->asked)) {
        hf__book_granted(&now.h.book, now.h.hold, c->lease, &c->acquire.terms,
                         grant);
    } else {
        hf__book_unsettle(&now.h.book, now.h.hold);
    }
}

static void hear_command(bool heard)
{
    command c = now.command;
    if (c.what == NOTHING || (heard && !c.executed)) {
        return;
    }
    now.command.what = NOTHING;
    if (c.what == ACQUIRE) {
        hear_acquire(&c, heard);
    } else if (c.what == RELEASE && heard) {
        hf__book_released(&now.h.book, now.h.hold, c.listed, c.sent_at);
    } else if (c.what == RELEASE) {
        hf__book_unsettle(&now.h.book, now.h.hold);
    }
    hf__book_idle(&now.h.book, now.h.hold);
    if (c.what == SETTLE) {
        hf__book_settled(&now.h.book, now.h.hold, heard, heard && c.listed);
    }
}

static void hear_renewal(bool heard)
{
    if (!now.renewal_sent || (heard && !now.renewal_executed)) {
        return;
    }
    now.renewal_sent = false;
    holder_renewed(&now.h, &now.renewal,
                   heard ? now.renewal.renewal.found : -1);
}

/* A connection that breaks loses both, executed or not. */
static void break_connection(void)
{
    if (chance(2)) {
        execute_next();
    }
    hear_command(false);
    hear_renewal(false);
    hf__book_check_all(&now.h.book);
}

/* -------------------------------------------------------------- the keeper */

static void send_renewal(void)
{
    bool watched = false;
    for (int i = 0; i < LEASES; i++) {
        watched = watched || (is_live(i) && now.leases[i].watchdog);
    }
    assert_false(now.renewal_sent);
    now.renewal = (holder_renewal){
        .renewal = {.asked = hf__book_lease_to_renew(&now.h.book, now.h.hold),
                    .standing = now.h.hold->standing},
        .sent_at = now.h.world.now};
    assert_true(watched || now.renewal.renewal.asked == 0); /* R6 */
    now.renewal_sent = true;
    now.renewal_executed = false;
    now.renewal_first = false;
}

static void keep(void)
{
    hf__due due = HF__DUE_NOTHING;
    while ((due = holder_due(&now.h)) != HF__DUE_NOTHING) {
        if (due == HF__DUE_SETTLE) {
            assert_int_equal(now.command.what, NOTHING);
            send_count(SETTLE);
        } else {
            send_renewal();
        }
    }
    while (hf__list_pop(&now.h.book.lost)) {
    }
}

/* -------------------------------------------------------------- invariants */

static void check_lease(int i)
{
    const hf__lease *lease = &now.leases[i];
    int64_t deadline = holder_deadline(lease);
    bool may_act = is_live(i) && now.h.world.now < deadline;
    if (now.ended[i]) {
        assert_false(may_act); /* R3: LOST and RELEASED are final */
        return;
    }
    if (!is_live(i)) {
        now.ended[i] = lease->hold != NULL;
        return;
    }
    assert_true(deadline >= now.deadlines[i]);
    now.deadlines[i] = deadline;
    assert_true(deadline <= lease->limit);
    if (may_act && !now.flushes) {
        assert_true(is_listed()); /* R1: nobody else can have it */
        assert_true(deadline <= now.h.server.end);
    }
    assert_true(hf__book_next(&now.h.book) <= deadline); /* R4 */
    now.ended[i] = !may_act;
}

static void check(void)
{
    size_t live = 0;
    for (int i = 0; i < LEASES; i++) {
        check_lease(i);
        live += is_live(i);
    }
    assert_int_equal(live, now.h.hold->live);
    if (!now.flushes && now.command.what == NOTHING && !now.h.hold->unsettled &&
        is_listed()) {
        assert_int_equal(now.h.server.count, live); /* R7 */
    }
}

/* ------------------------------------------------------------------ a walk */

static void misfortune(void)
{
    switch (chance(8)) {
    case 0:
    case 1:
    case 2:
        hear_command(false);
        break;
    case 3:
        hear_renewal(false);
        break;
    case 4:
        break_connection();
        break;
    case 5:
        if (chance(4) == 0) { /* stopped for so long */
            virtual_pass(&now.h.world, VIRTUAL_MS(chance(60000)));
        }
        break;
    case 6:
        if (now.flushes && chance(4) == 0) {
            now.h.server.count = 0;
        }
        break;
    default:
        break;
    }
}

static void step(void)
{
    switch (chance(now.faults ? 9 : 8)) {
    case 0:
        virtual_pass(&now.h.world, VIRTUAL_MS(chance(8000)));
        break;
    case 1:
    case 2:
        start_something();
        break;
    case 3:
    case 4:
        execute_next();
        break;
    case 5:
    case 6:
        hear_command(true);
        break;
    case 7:
        hear_renewal(true);
        break;
    default:
        misfortune();
        break;
    }
    check();
    if (!now.faults || chance(3)) {
        keep();
        check();
    }
}

static void leave_all(void)
{
    for (int i = 0; i < LEASES; i++) {
        if (is_live(i) && hf__book_leave(&now.h.book, &now.leases[i])) {
            hf__book_unsettle(&now.h.book, now.h.hold);
        }
    }
}

/* With everything answered again nothing is left behind. */
static void come_to_rest(void)
{
    for (int i = 0; i < 100; i++) {
        leave_all();
        keep();
        execute_next();
        hear_command(true);
        hear_renewal(true);
        virtual_pass(&now.h.world, VIRTUAL_MS(100));
    }
    assert_false(is_listed());
    assert_int_equal(now.h.hold->live, 0);
    assert_int_equal(hf__book_next(&now.h.book), HF__NEVER);
    hf__book_unpin(&now.h.book, now.h.hold);
    assert_int_equal(now.h.book.idle_count, 1);
}

static void walk(uint64_t seed, bool faults, bool flushes)
{
    memset(&now, 0, sizeof(now));
    holder_open(&now.h);
    virtual_seed(&now.h.world, seed);
    now.faults = faults;
    now.flushes = flushes;
    for (int i = 0; i < LEASES; i++) {
        hf__list_init(&now.leases[i].node);
        now.ended[i] = true;
    }
    for (int i = 0; i < STEPS; i++) {
        step();
    }
    come_to_rest();
    holder_close(&now.h);
}

static void test_histories_without_faults(void **state)
{
    (void)state;
    unsigned runs = virtual_runs(1000);
    for (unsigned i = 0; i < runs; i++) {

        walk(i, false, false);
    }
}

static void test_histories_with_lost_replies_and_late_keepers(void **state)
{
    (void)state;
    unsigned runs = virtual_runs(3000);
    for (unsigned i = 0; i < runs; i++) {

        walk(i, true, false);
    }
}

static void test_histories_with_an_operator_who_deletes(void **state)
{
    (void)state;
    unsigned runs = virtual_runs(1000);
    for (unsigned i = 0; i < runs; i++) {

        walk(i, true, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histories_without_faults),
        cmocka_unit_test(test_histories_with_lost_replies_and_late_keepers),
        cmocka_unit_test(test_histories_with_an_operator_who_deletes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
