/* Random calls on semaphores and latches, which nobody holds: each must have
 * changed the number once, if it says so. */
#include "sim/actor.h"
#include "sim/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What a call is about, and what was known before it. */
typedef struct tally {
    sim_actor *actor;
    unsigned lock;
    char owner[HF__OWNER_SIZE];
    uint64_t ordinal;
    int64_t began;
    sim_standing *standing;
} tally;

static tally begin(sim_actor *actor, unsigned lock)
{
    tally t = {.actor = actor, .lock = lock, .began = world.now};
    t.ordinal = hf__thread_self()->ordinal;
    hf__book_owner_id(&actor->client->book, NULL, t.ordinal, t.owner);
    t.standing = sim_standing_make(t.owner, lock);
    return t;
}

/* Once data were lost it begins anew: what was taken is not there. */
static bool is_void(const tally *t)
{
    if (!sim_check_lost_since(t->lock, 0)) {
        return false;
    }
    t->standing->granted = t->standing->taken;
    t->standing->certain = t->standing->changes;
    t->standing->called = t->standing->changes + 1;
    return true;
}

/* --------------------------------------------------------------- semaphores */

static bool is_settled(const tally *t)
{
    const hf__hold *hold = t->actor->client->book.holds;
    for (; hold; hold = hold->hh.next) {
        if (hold->key.ordinal == t->ordinal &&
            hf__slice_is(hold->target->name, sim_lock_name(t->lock))) {
            return !hold->busy && !hold->unsettled;
        }
    }
    return true;
}

static void check_taken(const tally *t, hf_status status, int64_t permits)
{
    sim_standing *standing = t->standing;
    standing->granted += status == HF_OK ? permits : 0;
    if (is_void(t) || (status != HF_OK && !is_settled(t))) {
        return;
    }
    if (standing->taken != standing->granted) {
        sim_violation("PermitConservation",
                      "%s took %" PRId64 " of %s, and was granted %" PRId64,
                      t->owner, standing->taken, sim_lock_name(t->lock),
                      standing->granted);
    }
}

static void begin_waiting(const tally *t, int64_t wait_ms, unsigned door)
{
    sim_waiting *waiting = &t->actor->waiting[world.running->number];
    *waiting = (sim_waiting){
        .waiting = wait_ms != 0,
        .cancelled = waiting->cancelled,
        .lock = t->lock,
        .door = door,
        .since = world.now,
        .until = wait_ms < 0 ? HF__NEVER : world.now + wait_ms * SIM_MS};
    memcpy(waiting->owner, t->owner, sizeof(waiting->owner));
}

static void take(sim_actor *actor, unsigned lock)
{
    tally t = begin(actor, lock);
    hf_error err = HF_ERROR_INIT;
    int64_t wait_ms = sim_draw_wait();
    int64_t permits = sim_skewed(1, SIM_DOORS);
    hf_cancel *cancel = sim_fresh_cancel(actor);
    SIM_TRACE("takes %" PRId64 " of %s, wait %" PRId64, permits,
              sim_lock_name(lock), wait_ms);
    begin_waiting(&t, wait_ms, (unsigned)permits - 1);
    hf_status status = hf_semaphore_acquire(actor->handles[lock].semaphore,
                                            permits, wait_ms, cancel, &err);
    actor->waiting[world.running->number].waiting = false;
    world.totals.counts[SIM_TAKEN] += status == HF_OK;
    sim_note_status("take", status, &err);
    check_taken(&t, status, permits);
    actor->permits[world.running->number][lock] +=
        status == HF_OK ? permits : 0;
    sim_check_call_time(actor, "take", t.began,
                        wait_ms < 0    ? HF__NEVER
                        : wait_ms == 0 ? actor->command_timeout
                                       : wait_ms * SIM_MS);
}

/* -------------------------------------------------------------- the number */

/* A call that changes the number has done so once, if `sure`. */
static void check_changed(const tally *t, const char *call, hf_status status,
                          const hf_error *err, bool sure)
{
    sim_standing *standing = t->standing;
    sim_note_status(call, status, err);
    sim_check_call_time(t->actor, call, t->began,
                        3 * t->actor->command_timeout);
    standing->called++;
    standing->certain += status == HF_OK && sure;
    if (is_void(t)) {
        return;
    }
    if (standing->changes < standing->certain ||
        standing->changes > standing->called) {
        sim_violation("ExactlyOnce",
                      "%s has changed %s %" PRId64 " times by %" PRId64
                      " calls, of which %" PRId64 " have succeeded",
                      t->owner, sim_lock_name(t->lock), standing->changes,
                      standing->called, standing->certain);
    }
}

static void give(sim_actor *actor, unsigned lock)
{
    int64_t *mine = &actor->permits[world.running->number][lock];
    hf_error err = HF_ERROR_INIT;
    if (*mine == 0) {
        take(actor, lock);
        return;
    }
    tally t = begin(actor, lock);
    int64_t permits = sim_between(1, *mine);
    *mine -= permits;
    SIM_TRACE("gives %" PRId64 " of %s", permits, sim_lock_name(lock));
    hf_status status =
        hf_semaphore_release(actor->handles[lock].semaphore, permits, &err);
    world.totals.counts[SIM_GIVEN] += status == HF_OK;
    check_changed(&t, "give", status, &err, true);
}

static void operate_semaphore(sim_actor *actor, unsigned lock)
{
    int64_t available = 0;
    uint64_t choice = sim_below(10);
    if (choice < 5) {
        take(actor, lock);
    } else if (choice < 9) {
        give(actor, lock);
    } else {
        hf_error err = HF_ERROR_INIT;
        hf_status status = hf_semaphore_available(
            actor->handles[lock].semaphore, &available, &err);
        sim_note_status("available", status, &err);
    }
}

/* ------------------------------------------------------------------ latches */

static void await(sim_actor *actor, unsigned lock)
{
    tally t = begin(actor, lock);
    hf_error err = HF_ERROR_INIT;
    int64_t wait_ms = sim_draw_wait();
    SIM_TRACE("awaits %s for %" PRId64, sim_lock_name(lock), wait_ms);
    begin_waiting(&t, wait_ms, 0);
    hf_status status = hf_latch_await(actor->handles[lock].latch, wait_ms,
                                      sim_fresh_cancel(actor), &err);
    actor->waiting[world.running->number].waiting = false;
    world.totals.counts[SIM_AWAITED] += status == HF_OK;
    sim_note_status("await", status, &err);
    if (status == HF_OK && sim_watches[lock].open_until < t.began) {
        sim_violation("LatchHolds",
                      "%s let a thread go at %.6f s, the latch was last open "
                      "at %.6f s",
                      sim_lock_name(lock), (double)t.began / 1e9,
                      (double)sim_watches[lock].open_until / 1e9);
    }
    sim_check_call_time(actor, "await", t.began,
                        wait_ms < 0    ? HF__NEVER
                        : wait_ms == 0 ? actor->command_timeout
                                       : wait_ms * SIM_MS);
}

static void operate_latch(sim_actor *actor, unsigned lock)
{
    uint64_t choice = sim_below(20);
    hf_latch *latch = actor->handles[lock].latch;
    hf_error err = HF_ERROR_INIT;
    int64_t number = 0;
    if (choice < 8) {
        await(actor, lock);
        return;
    }
    tally t = begin(actor, lock);
    if (choice < 12) {
        number = sim_between(1, 5);
        SIM_TRACE("sets %s to %" PRId64, sim_lock_name(lock), number);
        check_changed(&t, "set", hf_latch_set(latch, number, 0, NULL, &err),
                      &err, false);
    } else if (choice < 18) {
        SIM_TRACE("counts %s down", sim_lock_name(lock));
        check_changed(&t, "count down",
                      hf_latch_count_down(latch, sim_skewed(1, 2), NULL, &err),
                      &err, false);
    } else if (choice < 19) {
        SIM_TRACE("deletes %s", sim_lock_name(lock));
        check_changed(&t, "delete", hf_latch_delete(latch, NULL, &err), &err,
                      false);
    } else {
        sim_note_status("count", hf_latch_count(latch, &number, &err), &err);
    }
}

void sim_operate_count(sim_actor *actor, unsigned lock)
{
    if (world.plan.kinds[lock] == SIM_LATCH) {
        operate_latch(actor, lock);
    } else {
        operate_semaphore(actor, lock);
    }
}
