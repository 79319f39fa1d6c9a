/* Random calls of the public interface, and what each must come to. */
#include "sim/actor.h"
#include "sim/check.h"

#include <inttypes.h>
#include <stdio.h>

#define HELD_AT_MOST 4

/* ---------------------------------------------------------------- statuses */

static bool is_fenced(sim_kind kind)
{
    return kind == SIM_FENCED;
}

/* The server may have gone back to an older state. */
static bool data_may_be_lost(void)
{
    return (world.plan.faults &
            (1u << SIM_FAULT_FAILOVER | 1u << SIM_FAULT_RESTART_EMPTY |
             1u << SIM_FAULT_DEL)) != 0;
}

static bool may_be(hf_status status)
{
    switch (status) {
    case HF_EHELD:
        return sim_plan_has(sim_kind_is_once);
    case HF_EPROTOCOL: /* a token that is not new */
        return sim_plan_has(is_fenced) && data_may_be_lost();
    case HF_OK:
    case HF_NOT_ACQUIRED:
    case HF_CANCELLED:
    case HF_ELOST:
    case HF_ENOTHELD:
        return true;
    case HF_EUNREACHABLE: /* a wait that is shorter than a round trip */
        return true;
    case HF_EUNKNOWN:
        return !world.plan.calm;
    case HF_ESERVER:
        return (world.plan.faults & 1u << SIM_FAULT_REFUSAL) != 0;
    case HF_ESYSTEM:
        return (world.plan.faults & 1u << SIM_FAULT_THREAD_FAILS) != 0;
    default:
        return false;
    }
}

void sim_note_status(const char *call, hf_status status, const hf_error *err)
{
    SIM_TRACE("%s: %s%s%s", call, hf_status_text(status),
              status == HF_OK ? "" : ": ",
              status == HF_OK || !err ? "" : hf_error_text(err));
    if (!may_be(status)) {
        sim_violation("NoOddStatus", "%s: %s: %s", call, hf_status_text(status),
                      err ? hf_error_text(err) : "");
    }
    world.totals.counts[SIM_HELD_ALREADY] += status == HF_EHELD;
    if (status == HF_EUNREACHABLE) {
        world.totals.counts[SIM_UNREACHABLE]++;
    } else if (status != HF_OK && status != HF_NOT_ACQUIRED &&
               status != HF_CANCELLED && status != HF_ELOST &&
               status != HF_EUNKNOWN) {
        world.totals.counts[SIM_OTHER_ERROR]++;
    }
}

/* A call must return within its time, unless the process was stopped. */
void sim_check_call_time(const sim_actor *actor, const char *call,
                         int64_t began, int64_t limit)
{
    int64_t took = world.now - began;
    if (actor->process->running_from > began || limit == HF__NEVER) {
        return;
    }
    /* A reader that waits for a silent server sleeps on for an eighth of the
     * command time-out: see redis/link_io.c. */
    limit += actor->command_timeout / 8;
    if (took > limit + limit / 100 + sim_slack()) {
        sim_violation("InTime", "%s took %" PRId64 " ms, its limit is %" PRId64,
                      call, took / SIM_MS, limit / SIM_MS);
    }
}

/* The lock of a call; SIM_LOCKS if it is none, and the call was made. */
static unsigned draw_lock(sim_actor *actor)
{
    unsigned lock = (unsigned)sim_below(world.plan.locks);
    if (sim_kind_counts(world.plan.kinds[lock])) {
        sim_operate_count(actor, lock);
        return SIM_LOCKS;
    }
    return lock;
}

/* ----------------------------------------------------------------- records */

static sim_record *record_new(sim_actor *actor, unsigned lock, unsigned door)
{
    for (unsigned i = 0; i < SIM_RECORDS; i++) {
        sim_record *record = &actor->records[i];
        if (!record->used) {
            *record = (sim_record){.actor = actor,
                                   .used = true,
                                   .busy = true,
                                   .lock = lock,
                                   .door = door,
                                   .thread = world.running->number};
            return record;
        }
    }
    return NULL;
}

void sim_record_free(sim_record *record)
{
    hf_lease *lease = record->lease;
    record->busy = true;
    SIM_TRACE("frees a lease of %s", sim_lock_name(record->lock));
    hf_lease_free(lease);
    record->lease = NULL;
    record->used = false;
}

static unsigned held_by_me(const sim_actor *actor)
{
    unsigned count = 0;
    for (unsigned i = 0; i < SIM_RECORDS; i++) {
        const sim_record *record = &actor->records[i];
        count += record->used && record->thread == world.running->number;
    }
    return count;
}

/* A lease that nobody is about to free, the calling thread's if it has one. */
static sim_record *some_record(sim_actor *actor, bool others)
{
    sim_record *found[SIM_RECORDS];
    size_t count = 0;
    for (unsigned i = 0; i < SIM_RECORDS; i++) {
        sim_record *record = &actor->records[i];
        if (record->used && !record->busy &&
            (others || record->thread == world.running->number)) {
            found[count++] = record;
        }
    }
    return count ? found[sim_below(count)] : NULL;
}

/* ------------------------------------------------------------------ losses */

static void count_loss(hf_loss why)
{
    sim_count count = why == HF_LOSS_REVOKED    ? SIM_LOST_REVOKED
                      : why == HF_LOSS_MAX_HOLD ? SIM_LOST_MAX_HOLD
                                                : SIM_LOST_EXPIRED;
    world.totals.counts[count]++;
}

/* In the keeper's thread. */
static void on_lost(void *arg, hf_lease *lease, hf_loss why)
{
    sim_record *record = arg;
    SIM_TRACE("is told: lease of %s lost (%d)", sim_lock_name(record->lock),
              (int)why);
    if (record->told || !record->used) {
        sim_violation("LostIsTimely", "a loss is told %s",
                      record->told ? "twice" : "of a lease that was freed");
    }
    if (hf_lease_is_held(lease) || hf_lease_loss(lease) != why) {
        sim_violation("LostIsSticky", "a lease that was told lost is held");
    }
    record->told = true;
    count_loss(why);
    if (sim_below(4) == 0 && hf_lease_release(lease, NULL) != HF_ELOST) {
        sim_violation("LostIsSticky", "a lease that was told lost is released");
    }
}

/* --------------------------------------------------------------- acquiring */

/* In a rush everybody meets at the full second: waits end when the message of
 * a release comes, and then it is quiet for a while. */
static int64_t meeting(void)
{
    return (world.now / SIM_SECOND + 1) * SIM_SECOND;
}

int64_t sim_draw_wait(void)
{
    if (world.plan.rush) {
        int64_t rest = (meeting() - world.now) / SIM_MS;
        return sim_below(2) ? rest + (int64_t)sim_below(4) : rest + 1000;
    }
    switch (sim_below(8)) {
    case 0:
        return HF_WAIT_FOREVER;
    case 1:
    case 2:
        return 0;
    default:
        return sim_skewed(1, 3000);
    }
}

/* A cancel handle stays fired: then the thread's next wait gets another. */
hf_cancel *sim_fresh_cancel(sim_actor *actor)
{
    unsigned thread = world.running->number;
    if (actor->waiting[thread].cancelled && !actor->all_cancelled) {
        actor->waiting[thread].cancelled = false;
        actor->cancels[thread] = hf_cancel_new();
    }
    return actor->cancels[thread];
}

static void draw_terms(sim_actor *actor, hf_acquire_options *options)
{
    int64_t longest = world.plan.lease_max / SIM_MS;
    options->wait_ms = sim_draw_wait();
    if (sim_below(4) == 0) {
        options->lease_ms = sim_skewed(HF_LEASE_MIN_MS, longest);
    } else if (sim_below(8) == 0) {
        options->max_hold_ms = sim_skewed(HF_LEASE_MIN_MS, 2 * longest);
    }
    if (sim_below(3) == 0) {
        options->owner = actor->owners[sim_below(SIM_OWNERS)];
    }
    if (options->wait_ms == HF_WAIT_FOREVER || sim_below(3) == 0) {
        options->cancel = sim_fresh_cancel(actor);
    }
}

static void count_terms(const hf_acquire_options *options, bool handle)
{
    uint64_t *counts = world.totals.counts;
    counts[SIM_ACQUIRE_TRY] += options->wait_ms == 0;
    counts[SIM_ACQUIRE_WAIT] += options->wait_ms > 0;
    counts[SIM_ACQUIRE_FOREVER] += options->wait_ms < 0;
    counts[SIM_ACQUIRE_FIXED] += options->lease_ms > 0;
    counts[SIM_ACQUIRE_MAX_HOLD] += options->max_hold_ms > 0;
    counts[SIM_ACQUIRE_OWNER] += options->owner != NULL;
    counts[SIM_ACQUIRE_NO_HANDLE] += !handle;
}

/* The id under which the server knows the caller. */
static void say_owner(const sim_actor *actor, const hf_lock *lock,
                      const hf_owner *owner, char id[HF__OWNER_SIZE])
{
    const hf__kind *kind = lock->goal.target->kind;
    uint64_t ordinal = owner                   ? owner->ordinal
                       : world.running->record ? world.running->record->ordinal
                                               : 0;
    id[0] = '\0';
    if (!kind->anonymous && ordinal > 0) {
        hf__book_owner_id(&actor->client->book, kind, ordinal, id);
    }
}

static void begin_waiting(sim_actor *actor, unsigned lock, unsigned door,
                          const hf_acquire_options *options)
{
    int64_t wait_ms = options->wait_ms;
    sim_waiting *waiting = &actor->waiting[world.running->number];
    (void)hf__thread_self(); /* has an ordinal now */
    *waiting = (sim_waiting){
        .waiting = wait_ms != 0,
        .cancelled = waiting->cancelled,
        .lock = lock,
        .door = door,
        .since = world.now,
        .until = wait_ms < 0 ? HF__NEVER : world.now + wait_ms * SIM_MS};
    say_owner(actor, actor->handles[lock].lock[door], options->owner,
              waiting->owner);
}

static hf_status call_acquire(hf_lock *lock, const hf_acquire_options *options,
                              hf_lease **lease, hf_error *err)
{
    bool plain = !options->owner && !options->cancel && !options->lease_ms &&
                 !options->max_hold_ms && !options->on_lost;
    if (plain && options->wait_ms == 0) {
        return hf_lock_try(lock, lease, err);
    }
    if (plain) {
        return hf_lock_acquire(lock, options->wait_ms, lease, err);
    }
    return hf_lock_acquire_with(lock, options, lease, err);
}

static void count_grant(hf_status status)
{
    uint64_t *counts = world.totals.counts;
    counts[SIM_GRANTED] += status == HF_OK;
    counts[SIM_NOT_ACQUIRED] += status == HF_NOT_ACQUIRED;
    counts[SIM_CANCELLED] += status == HF_CANCELLED;
}

/* Readers are more than writers. */
static unsigned draw_door(unsigned lock)
{
    return sim_doors(lock) > 1 && sim_below(3) ? SIM_READERS : SIM_WRITERS;
}

/* Fenced leases have the token that the server gave. */
static void check_token(unsigned lock, const hf_lease *lease)
{
    uint64_t token = hf_lease_token(lease);
    const sim_standing *standing =
        sim_standing_of(hf_lease_owner_id(lease), lock);
    bool fenced = world.plan.kinds[lock] == SIM_FENCED;
    if (fenced != (token > 0)) {
        sim_violation("TokenMonotone", "a lease of %s has the token %" PRIu64,
                      sim_lock_name(lock), token);
    }
    if (fenced && standing && token != standing->token &&
        !sim_check_lost_since(lock, standing->granted_at)) {
        sim_violation("TokenMonotone",
                      "a lease of %s has the token %" PRIu64
                      ", the server gave %" PRIu64,
                      sim_lock_name(lock), token, standing->token);
    }
}

static void acquire(sim_actor *actor)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_error err = HF_ERROR_INIT;
    unsigned lock = draw_lock(actor);
    if (lock == SIM_LOCKS) {
        return;
    }
    unsigned door = draw_door(lock);
    bool handle = sim_below(10) > 0;
    hf_lease *lease = NULL;
    sim_record *record = record_new(actor, lock, door);
    if (!record) {
        return;
    }
    draw_terms(actor, &options);
    if (sim_below(3) && handle) {
        options.on_lost = on_lost;
        options.on_lost_arg = record;
        record->tells = true;
    }
    record->renewed = options.lease_ms == 0 && options.max_hold_ms == 0;
    count_terms(&options, handle);
    SIM_TRACE("acquires %s%s: wait %" PRId64 " lease %" PRId64
              " max hold %" PRId64 "%s%s%s",
              sim_lock_name(lock), door == SIM_READERS ? " to read" : "",
              options.wait_ms, options.lease_ms, options.max_hold_ms,
              options.cancel ? ", can be cancelled" : "",
              options.owner ? ", owner " : "",
              options.owner ? hf_owner_id(options.owner) + 36 : "");
    int64_t began = world.now;
    begin_waiting(actor, lock, door, &options);
    hf_status status = call_acquire(actor->handles[lock].lock[door], &options,
                                    handle ? &lease : NULL, &err);
    actor->waiting[world.running->number].waiting = false;
    count_grant(status);
    sim_note_status("acquire", status, &err);
    if (lease) {
        check_token(lock, lease);
    }
    record->lease = lease;
    record->used = lease != NULL;
    record->busy = false;
    sim_check_call_time(actor, "acquire", began,
                        options.wait_ms < 0    ? HF__NEVER
                        : options.wait_ms == 0 ? actor->command_timeout
                                               : options.wait_ms * SIM_MS);
    if (status == HF_CANCELLED && !options.cancel) {
        sim_violation("NoOddStatus", "cancelled without a cancel handle");
    }
}

/* --------------------------------------------------------------- releasing */

static void note_release(const sim_actor *actor, const char *call,
                         hf_status status, const hf_error *err, int64_t began)
{
    world.totals.counts[SIM_RELEASED] += status == HF_OK;
    world.totals.counts[SIM_RELEASE_LOST] += status == HF_ELOST;
    world.totals.counts[SIM_RELEASE_UNKNOWN] += status == HF_EUNKNOWN;
    sim_note_status(call, status, err);
    sim_check_call_time(actor, call, began, actor->command_timeout);
}

static void release_record(sim_actor *actor, sim_record *record)
{
    hf_error err = HF_ERROR_INIT;
    int64_t began = world.now;
    record->busy = true;
    SIM_TRACE("releases a lease of %s", sim_lock_name(record->lock));
    hf_status status = hf_lease_release(record->lease, &err);
    note_release(actor, "release", status, &err, began);
    if (hf_lease_is_held(record->lease)) {
        sim_violation("LostIsSticky", "a lease is held after its release");
    }
    if (sim_below(4) == 0) {
        hf_status again = hf_lease_release(record->lease, NULL);
        if (again != HF_OK && again != HF_ELOST) {
            sim_violation("NoOddStatus", "a second release: %s",
                          hf_status_text(again));
        }
    }
    sim_record_free(record);
}

static void release(sim_actor *actor)
{
    bool others = sim_below(6) == 0;
    sim_record *record = some_record(actor, others);
    uint64_t *counts = world.totals.counts;
    if (record && sim_below(4)) {
        counts[SIM_RELEASE_LEASE]++;
        counts[SIM_RELEASE_OTHERS] += record->thread != world.running->number;
        release_record(actor, record);
    } else if (record && sim_below(2)) {
        counts[SIM_RELEASE_FREE]++;
        sim_record_free(record);
    } else {
        hf_error err = HF_ERROR_INIT;
        int64_t began = world.now;
        unsigned lock = draw_lock(actor);
        if (lock == SIM_LOCKS) {
            return;
        }
        uint64_t owner = sim_below(SIM_OWNERS + 2);
        counts[SIM_RELEASE_LOCK]++;
        hf_status status = hf_lock_release(
            actor->handles[lock].lock[draw_door(lock)],
            owner < SIM_OWNERS ? actor->owners[owner] : NULL, &err);
        note_release(actor, "release by lock", status, &err, began);
    }
}

/* --------------------------------------------------------------- questions */

static int take_info(void *arg, const hf_lock_info *info)
{
    (void)arg;
    SIM_TRACE("sees %s: %s, count %" PRId64 ", %" PRId64 " ms left", info->name,
              info->locked ? info->owner : "free", info->hold_count,
              info->remaining_ms);
    return 0;
}

/* Not every kind's key is a hash. */
static hf_status inspect(hf_lock *lock, hf_error *err)
{
    hf_status status = hf_lock_inspect(lock, take_info, NULL, err);
    return status == HF_EWRONGTYPE ? HF_OK : status;
}

static hf_status question(sim_actor *actor, hf_lock *lock, hf_error *err)
{
    int flag = 0;
    int64_t number = 0;
    hf_owner *owner = sim_below(2) ? actor->owners[0] : NULL;
    switch (sim_below(7)) {
    case 0:
        return hf_lock_is_locked(lock, &flag, err);
    case 1:
        return hf_lock_is_held_by(lock, owner, &flag, err);
    case 2:
        return hf_lock_hold_count(lock, owner, &number, err);
    case 3:
        return hf_lock_remaining_ms(lock, &number, err);
    case 4:
        world.totals.counts[SIM_INSPECT]++;
        return inspect(lock, err);
    case 5:
        world.totals.counts[SIM_PING]++;
        return hf_client_ping(actor->client, err);
    default:
        world.totals.counts[SIM_INSPECT]++;
        return hf_client_list_locks(actor->client, "lock:*", take_info, NULL,
                                    err);
    }
}

static void ask(sim_actor *actor)
{
    hf_error err = HF_ERROR_INIT;
    int64_t began = world.now;
    world.totals.counts[SIM_QUESTION]++;
    unsigned lock = draw_lock(actor);
    if (lock == SIM_LOCKS) {
        return;
    }
    hf_status status =
        question(actor, actor->handles[lock].lock[draw_door(lock)], &err);
    sim_note_status("question", status, &err);
    /* To list is to ask more than once. */
    sim_check_call_time(actor, "question", began, 6 * actor->command_timeout);
}

static void force(sim_actor *actor)
{
    hf_error err = HF_ERROR_INIT;
    int64_t began = world.now;
    unsigned lock = draw_lock(actor);
    if (lock == SIM_LOCKS) {
        return;
    }
    world.totals.counts[SIM_FORCE]++;
    SIM_TRACE("forces %s", sim_lock_name(lock));
    hf_status status = hf_lock_force_release(
        actor->handles[lock].lock[draw_door(lock)], NULL, &err);
    sim_note_status("force", status, &err);
    sim_check_call_time(actor, "force", began, actor->command_timeout);
}

static void cancel(sim_actor *actor)
{
    unsigned thread = (unsigned)sim_below(actor->process->thread_count);
    world.totals.counts[SIM_CANCEL]++;
    SIM_TRACE("cancels t%u", thread);
    actor->waiting[thread].cancelled = true;
    hf_cancel_fire(actor->cancels[thread]);
}

static void look(sim_actor *actor)
{
    sim_record *record = some_record(actor, true);
    if (record) {
        record->busy = true;
        (void)hf_lease_remaining_ms(record->lease);
        if (sim_below(2)) {
            (void)hf_lease_fd(record->lease, NULL);
        }
        record->busy = false;
    }
}

/* --------------------------------------------------------------- the choice */

static void think(void)
{
    int64_t longest = sim_below(8) ? 150 * SIM_MS : 2 * world.plan.lease_max;
    if (world.plan.rush && sim_below(4)) {
        sim_sleep_until(meeting());
    } else {
        sim_sleep_until(world.now + sim_skewed(0, longest));
    }
}

/* One holds until all meet, the others wait for it. */
static void rush(sim_actor *actor)
{
    sim_record *record = some_record(actor, false);
    if (record) {
        sim_sleep_until(meeting());
    }
    if (record && record->used && !record->busy) {
        release_record(actor, record);
    } else {
        acquire(actor);
    }
    /* Who does not hold is quiet, lest it takes what another waits for. */
    if (!some_record(actor, false) && sim_below(4)) {
        sim_sleep_until(meeting());
    }
}

void sim_operate(sim_actor *actor)
{
    uint64_t choice = sim_below(100);
    if (world.plan.rush && sim_below(8)) {
        rush(actor);
    } else if (choice < 40 && held_by_me(actor) < HELD_AT_MOST) {
        acquire(actor);
    } else if (choice < 70) {
        release(actor);
    } else if (choice < 88) {
        think();
    } else if (choice < 93) {
        ask(actor);
    } else if (choice < 95) {
        force(actor);
    } else if (choice < (world.plan.rush ? 99 : 97)) {
        cancel(actor);
    } else {
        look(actor);
    }
}

void sim_finish_thread(sim_actor *actor)
{
    sim_record *record = NULL;
    if (sim_below(5) == 0) {
        world.totals.counts[SIM_END_HOLDING] += held_by_me(actor) > 0;
        return;
    }
    while ((record = some_record(actor, false)) != NULL) {
        if (sim_below(3)) {
            release_record(actor, record);
        } else {
            sim_record_free(record);
        }
    }
}
