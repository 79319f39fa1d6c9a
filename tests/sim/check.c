/* Invariants of what the clients believe, looked at between any two steps. */
#include "sim/actor.h"
#include "sim/check.h"

#include <inttypes.h>
#include <string.h>

#define LOSSES 128
/* A loss is told so soon after the deadline. */
#define TOLD_WITHIN (5 * SIM_MS)
/* What is due by time is done so soon after, however busy the threads are. */
#define TIMER_WITHIN SIM_MS
#define END_WITHIN (600 * SIM_SECOND)

/* What the server knew of a lock may have gone. */
typedef struct loss {
    unsigned lock; /* SIM_LOCKS: of all */
    int64_t at;
    bool quarantine; /* clients that were connected know and wait ... */
    int64_t waits[SIM_PROCESSES]; /* ... at least so long; 0: they do not */
} loss;

static loss losses[LOSSES];
static unsigned loss_count;
/* Since when a process' keeper sleeps over a loss; 0: it does not. */
static int64_t overslept_since[SIM_PROCESSES];

/* --------------------------------------------------- what was taken from whom
 */

static void note_loss(unsigned lock, int64_t at, bool quarantine)
{
    if (loss_count == LOSSES) {
        memmove(losses, losses + 1, sizeof(losses) - sizeof(losses[0]));
        loss_count--;
    }
    loss *made = &losses[loss_count++];
    *made = (loss){.lock = lock, .at = at, .quarantine = quarantine};
    for (unsigned i = 0; i < world.process_count; i++) {
        const sim_actor *actor = world.processes[i].actor;
        if (actor && actor->client) {
            int64_t longest = actor->client->book.longest;
            bool knew = actor->client->commands.connects > 0;
            made->waits[i] = actor->quarantine < 0 || !knew ? 0
                             : actor->quarantine > 0        ? actor->quarantine
                                                            : longest;
        }
    }
}

void sim_check_taken_away(unsigned lock)
{
    note_loss(lock, world.now, false);
}

void sim_check_data_lost(int64_t at, bool quarantine)
{
    note_loss(SIM_LOCKS, at, quarantine);
}

/* The latest loss of that lock since then; NULL if there is none. */
static const loss *loss_since(unsigned lock, int64_t since)
{
    for (unsigned i = loss_count; i-- > 0;) {
        if (losses[i].at < since) {
            return NULL;
        }
        if (losses[i].lock == lock || losses[i].lock == SIM_LOCKS) {
            return &losses[i];
        }
    }
    return NULL;
}

bool sim_check_lost_since(unsigned lock, int64_t since)
{
    return loss_since(lock, since) != NULL;
}

/* --------------------------------------------------------------- exclusion */

static const char *owner_of(const hf__hold *hold, char text[SIM_OWNER_SIZE])
{
    if (!hold->target->kind->owner_is_raw) {
        return hold->owner;
    }
    sim_owner_text(text, (hf__slice){hold->owner, hold->owner_length});
    return text;
}

typedef struct holder {
    const sim_actor *actor;
    const hf__hold *hold;
} holder;

/* Until when the owner believes to hold, by its clock; 0 if it does not. */
static int64_t valid_until(const sim_actor *actor, const hf__hold *hold)
{
    int64_t now = sim_local(actor->process, world.now);
    int64_t until = 0;
    for (hf__list *n = hold->leases.next; n != &hold->leases; n = n->next) {
        const hf__lease *lease = HF__CONTAINER(n, hf__lease, node);
        int state = lease->state;
        world.totals.counts[SIM_SUSPECT] += state == HF_LEASE_SUSPECT;
        if ((state == HF_LEASE_HELD || state == HF_LEASE_SUSPECT) &&
            now < lease->deadline && until < lease->deadline) {
            until = lease->deadline;
        }
    }
    return until;
}

/* Whether the one that was granted first may have lost its lock, and the other
 * need not have known. See docs/guarantees.md, "What does not hold". */
static bool excused(const sim_standing *first, const sim_standing *second,
                    unsigned lock)
{
    const sim_actor *later = world.processes[second->process].actor;
    int64_t holds = first->longest / 95 * 100 + 5 * SIM_MS;
    for (unsigned i = 0; i < loss_count; i++) {
        const loss *l = &losses[i];
        if ((l->lock != lock && l->lock != SIM_LOCKS) ||
            l->at < first->granted_at || l->at > second->acquired_at ||
            world.now > l->at + holds) {
            continue;
        }
        if (!l->quarantine || later->opened_at > l->at ||
            l->waits[second->process] < first->longest) {
            return true;
        }
    }
    return false;
}

/* Readers share, and a writer reads what it writes. Permits are counted. */
static bool may_share(const holder *a, const holder *b, unsigned lock)
{
    sim_kind kind = world.plan.kinds[lock];
    bool readers =
        !sim_is_writer(a->hold->owner) && !sim_is_writer(b->hold->owner);
    return kind == SIM_PERMIT ||
           (kind == SIM_RW &&
            (readers || sim_same_actor(a->hold->owner, b->hold->owner)));
}

static void check_pair(const holder *a, const holder *b, unsigned lock)
{
    if (may_share(a, b, lock)) {
        return;
    }
    const sim_standing *of_a = sim_standing_of(a->hold->owner, lock);
    const sim_standing *of_b = sim_standing_of(b->hold->owner, lock);
    if (!of_a || !of_b) {
        sim_violation("ValidityExclusion",
                      "%s is held by one to whom the server never gave it",
                      sim_lock_name(lock));
    }
    if (excused(of_a, of_b, lock) || excused(of_b, of_a, lock)) {
        return;
    }
    sim_violation("ValidityExclusion", "%s is held by %s (p%u) and %s (p%u)",
                  sim_lock_name(lock), a->hold->owner,
                  a->actor->process->number, b->hold->owner,
                  b->actor->process->number);
}

/* The server keeps a lock for longer than its owner believes to have it. */
static void check_end_at_server(const sim_actor *actor, const hf__hold *hold,
                                unsigned lock, int64_t until)
{
    char text[SIM_OWNER_SIZE];
    const char *owner = owner_of(hold, text);
    const sim_standing *standing = sim_standing_of(owner, lock);
    if (standing && loss_since(lock, standing->granted_at)) {
        return;
    }
    const sim_share *share = sim_share_of(&sim_watches[lock], owner);
    if (!share) {
        sim_violation("ValidityExclusion",
                      "%s believes to hold %s, the server knows nothing of it",
                      owner, sim_lock_name(lock));
    }
    if (until > sim_local(actor->process, share->ends_at)) {
        sim_violation("ValidityExclusion",
                      "%s believes to hold %s until %.6f s, on the server it "
                      "ends at %.6f s",
                      owner, sim_lock_name(lock),
                      (double)sim_true(actor->process, until) / 1e9,
                      (double)share->ends_at / 1e9);
    }
}

typedef struct holders {
    holder of[SIM_LOCKS][SIM_PROCESSES * 4];
    unsigned count[SIM_LOCKS];
} holders;

static void check_hold(sim_actor *actor, const hf__hold *hold, holders *all)
{
    unsigned lock =
        sim_lock_number(hold->target->name.data, hold->target->name.length);
    int64_t until = hold->live > 0 ? valid_until(actor, hold) : 0;
    if (until == 0) {
        return;
    }
    check_end_at_server(actor, hold, lock, until);
    holder found = {actor, hold};
    for (unsigned i = 0; i < all->count[lock]; i++) {
        check_pair(&all->of[lock][i], &found, lock);
    }
    if (all->count[lock] < SIM_PROCESSES * 4) {
        all->of[lock][all->count[lock]++] = found;
    }
}

/* ------------------------------------------------------------------- counts */

static int64_t count_at_server(const hf__hold *hold, unsigned lock)
{
    char text[SIM_OWNER_SIZE];
    const sim_share *share =
        sim_share_of(&sim_watches[lock], owner_of(hold, text));
    return share ? share->count : 0;
}

/* Something is under way, or somebody is about to say something. */
static bool is_moving(const hf__hold *hold)
{
    const hf__hold_driver *driver = hold->driver;
    return hold->busy || hold->unsettled ||
           (driver->made && !hf__list_empty(&driver->turns));
}

/* A hold of which nothing is under way has the count that the server has. */
static void check_count(const sim_actor *actor, const hf__hold *hold)
{
    unsigned lock =
        sim_lock_number(hold->target->name.data, hold->target->name.length);
    char text[SIM_OWNER_SIZE];
    const sim_standing *standing = sim_standing_of(owner_of(hold, text), lock);
    if (is_moving(hold) || !sim_server_is_up() ||
        (hold->live > 0 && valid_until(actor, hold) == 0) ||
        (standing && loss_since(lock, standing->granted_at))) {
        return;
    }
    int64_t count = count_at_server(hold, lock);
    if (count != (int64_t)hold->live) {
        sim_violation("HoldCount",
                      "%s of %s: %zu here, %" PRId64 " on the server",
                      sim_lock_name(lock), hold->owner, hold->live, count);
    }
}

/* ------------------------------------------------------------------ records */

static bool has_black_conn(const sim_process *process)
{
    for (const sim_conn *conn = sim_conns; conn; conn = conn->next) {
        if (conn->process == process && !conn->client_gone &&
            (conn->up.black || conn->down.black)) {
            return true;
        }
    }
    return false;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void check_told(const sim_actor *actor, sim_record *record)
{
    int64_t from = actor->process->running_from;
    int64_t patience = TOLD_WITHIN + 1000 * world.plan.step_cost +
                       (world.plan.preempts ? 12 * world.plan.preempt_max : 0);
    if (record->lost_since == 0) {
        record->lost_since = world.now;
    }
    if (record->lost_since > from) {
        from = record->lost_since;
    }
    if (world.now > from + patience) {
        sim_violation(
            "LostIsTimely", "a loss of %s at %.6f s has not been told yet",
            sim_lock_name(record->lock), (double)record->lost_since / 1e9);
    }
}

/* A loss that the client has noted down, or could have. */
static bool has_loss_to_tell(const hf_client *client, int64_t now)
{
    const hf__hold *hold = client->book.holds;
    for (; hold; hold = hold->hh.next) {
        for (hf__list *n = hold->leases.next; n != &hold->leases; n = n->next) {
            if (now >= HF__CONTAINER(n, hf__lease, node)->deadline) {
                return true;
            }
        }
    }
    return !hf__list_empty(&client->book.lost);
}

/* Nobody has woken it, and nobody is about to: that is done before the mutex
 * is given up. */
static bool keeper_sleeps(const hf_client *client)
{
    const sim_thread *keeper = (const sim_thread *)(uintptr_t)client->keeper;
    return client->keeper_runs && !client->mutex.holder &&
           keeper->state == SIM_BLOCKED && keeper->polled;
}

/* However soon something else wakes the keeper: to sleep is late already. */
static void check_keeper(const sim_actor *actor)
{
    int64_t *since = &overslept_since[actor->process->number];
    if (!keeper_sleeps(actor->client) ||
        !has_loss_to_tell(actor->client,
                          sim_local(actor->process, world.now))) {
        *since = 0;
    } else if (*since == 0) {
        *since = world.now;
    } else if (world.now > *since + TIMER_WITHIN) {
        sim_violation("LostIsTimely",
                      "the keeper of p%u sleeps since %.6f s, although a loss "
                      "is to be told",
                      actor->process->number, (double)*since / 1e9);
    }
}

/* With these faults an attempt to connect may take its whole time-out. */
static bool may_be_slow(void)
{
    return (world.plan.faults &
            (1u << SIM_FAULT_RESOLVE | 1u << SIM_FAULT_CUT)) != 0;
}

/* A lease that is renewed ends because something stood in the way. */
static void check_need(const sim_actor *actor, const sim_record *record)
{
    const sim_process *process = actor->process;
    int64_t well_since = most(process->disturbed, process->running_from);
    int64_t patience = 3 * actor->command_timeout + SIM_SECOND + sim_slack() +
                       (may_be_slow() ? 4 * SIM_SECOND : 0);
    if (hf_lease_loss(record->lease) == HF_LOSS_EXPIRED && record->renewed &&
        sim_server_serves() && process->cut_off <= world.now &&
        !has_black_conn(process) && world.now > well_since + patience) {
        sim_violation(
            "NoNeedlessLoss",
            "a lease of %s has ended, and nothing stood in the way of "
            "its renewal since %.6f s",
            sim_lock_name(record->lock), (double)well_since / 1e9);
    }
}

static void check_record(const sim_actor *actor, sim_record *record)
{
    hf_lease_state state = hf_lease_get_state(record->lease);
    bool held = state == HF_LEASE_HELD || state == HF_LEASE_SUSPECT;
    if (held != (hf_lease_is_held(record->lease) != 0)) {
        sim_violation("LostIsSticky", "state and answer differ");
    }
    if (record->ended && held) {
        sim_violation("LostIsSticky", "a lease of %s is held again",
                      sim_lock_name(record->lock));
    }
    if (state == HF_LEASE_LOST && !record->ended && !actor->process->paused) {
        check_need(actor, record);
    }
    record->ended = !held;
    record->released = record->released || state == HF_LEASE_RELEASED;
    if (state == HF_LEASE_LOST && !record->released && record->tells &&
        !record->told && !record->busy && !actor->process->paused) {
        check_told(actor, record);
    }
}

/* ------------------------------------------------------------------ waiters */

/* How long a free lock may stay free although somebody waits. */
static int64_t patience(const sim_actor *actor, unsigned lock, sim_freeing how)
{
    sim_kind kind = world.plan.kinds[lock];
    int64_t span = sim_slack();
    int64_t ends = world.plan.lease_max / 95 * 100;
    if (actor->process->disturbed > 0) {
        /* Reconnections, one after the other, and pauses between. */
        bool slow = (world.plan.faults &
                     (1u << SIM_FAULT_RESOLVE | 1u << SIM_FAULT_CUT)) != 0;
        span += 2 * actor->command_timeout + (slow ? 8 : 2) * SIM_SECOND;
    }
    if (sim_kind_is_silent(kind)) {
        return span + 2 * 128 * SIM_MS;
    }
    if (how != SIM_FREE_TOLD) {
        /* Who has asked knows when the other's lease ends. */
        bool known = how == SIM_FREE_EXPIRED && !sim_kind_is_fair(kind);
        span += (known ? least(actor->poll_cap, ends) : actor->poll_cap) * 101 /
                100;
    }
    if (has_black_conn(actor->process)) {
        span += least(actor->poll_cap, 31 * SIM_SECOND) * 101 / 100;
    }
    return span;
}

/* The way in for that waiter, as it is now; how it came to be so. */
static sim_door door_of(const sim_waiting *waiting)
{
    const sim_watch *watch = &sim_watches[waiting->lock];
    sim_kind kind = world.plan.kinds[waiting->lock];
    sim_door door = watch->doors[waiting->door];
    if (kind == SIM_PERMIT && !door.open) {
        for (unsigned i = 0; i < watch->share_count; i++) {
            int64_t ends_at = watch->shares[i].ends_at;
            if (ends_at < world.now && (!door.open || ends_at < door.since)) {
                door = (sim_door){true, ends_at, SIM_FREE_EXPIRED};
            }
        }
    }
    if (!sim_kind_is_fair(kind) && kind != SIM_IN_TURN) {
        return door;
    }
    /* Of two that wait in one name the place goes with the first's grant, and
     * the other asks again by itself. */
    if (sim_kind_is_fair(kind) && !sim_place_of(watch, waiting->owner)) {
        door.how = SIM_FREE_REMOVED;
    }
    for (unsigned i = 0; door.open && i < watch->queue_count; i++) {
        const sim_place *place = &watch->queue[i];
        if (strcmp(place->owner, waiting->owner) == 0) {
            break;
        }
        door.open = place->ends_at <= world.now;
        if (place->ends_at > door.since) {
            door.since = place->ends_at;
            door.how = SIM_FREE_EXPIRED;
        }
    }
    door.since = most(door.since, watch->first_since);
    return door;
}

/* A grant whose reply takes as long as its lease is worth nothing, and of a
 * shared lock the door stays open meanwhile. */
static int64_t last_grant(const sim_process *process,
                          const sim_waiting *waiting)
{
    const sim_standing *standing =
        sim_standing_of(waiting->owner, waiting->lock);
    if (waiting->owner[0] == '\0') {
        return sim_watches[waiting->lock].granted_at[process->number];
    }
    return standing ? standing->granted_at : 0;
}

static void check_waiting(const sim_actor *actor, const sim_waiting *waiting)
{
    const sim_process *process = actor->process;
    if (!waiting->waiting || waiting->cancelled || actor->all_cancelled ||
        world.now >= waiting->until || process->paused ||
        process->cut_off > world.now || !sim_server_serves()) {
        return;
    }
    const sim_door door = door_of(waiting);
    if (!door.open) {
        return;
    }
    int64_t since = most(door.since, waiting->since);
    since = most(since, last_grant(process, waiting));
    since = most(since, most(process->disturbed, process->running_from));
    int64_t quarantine = actor->client->book.quarantined_until;
    if (quarantine > 0 && !sim_kind_counts(world.plan.kinds[waiting->lock])) {
        since = most(since, sim_true(process, quarantine));
    }
    if (world.now - since > patience(actor, waiting->lock, door.how)) {
        sim_violation("NoLostWakeup",
                      "%s is free since %.6f s, and a thread of p%u waits for "
                      "it since %.6f s",
                      sim_lock_name(waiting->lock), (double)door.since / 1e9,
                      process->number, (double)waiting->since / 1e9);
    }
}

/* ------------------------------------------------------------------- queues
 */

static sim_actor *actor_of(const char *owner)
{
    for (unsigned i = 0; i < world.process_count; i++) {
        const sim_process *process = &world.processes[i];
        sim_actor *actor = process->actor;
        if (!process->dead && actor && actor->client &&
            strncmp(owner, actor->client->book.uuid, 36) == 0) {
            return actor;
        }
    }
    return NULL;
}

/* In that name, since then or before, and for longer than that. */
static bool is_waiting(const sim_actor *actor, unsigned lock, const char *owner,
                       int64_t since, int64_t until)
{
    for (unsigned i = 0; i < actor->process->thread_count; i++) {
        const sim_waiting *waiting = &actor->waiting[i];
        if (waiting->waiting && waiting->lock == lock &&
            waiting->since <= since && waiting->until > until &&
            strcmp(waiting->owner, owner) == 0) {
            return true;
        }
    }
    return false;
}

/* Nothing has kept the process from saying anything since then. */
static bool was_free_since(const sim_process *process, int64_t since)
{
    return process->disturbed <= since && process->running_from <= since &&
           !process->paused && process->cut_off <= since &&
           !has_black_conn(process);
}

void sim_check_passed_over(unsigned lock, const sim_place *place)
{
    sim_actor *actor = actor_of(place->owner);
    int64_t since = world.now - world.plan.fair_wait * SIM_MS / 2;
    if (actor &&
        is_waiting(actor, lock, place->owner, since, world.now + sim_slack()) &&
        sim_true(actor->process, actor->client->book.quarantined_until) <
            since &&
        was_free_since(actor->process, since) && since > place->taken_at &&
        !sim_check_lost_since(lock, place->taken_at)) {
        sim_violation("Fifo", "%s waits for %s, and was passed over",
                      place->owner, sim_lock_name(lock));
    }
}

/* Who does not wait any more leaves the queue. */
static void check_queue(unsigned lock)
{
    sim_watch *watch = &sim_watches[lock];
    for (unsigned i = 0; i < watch->queue_count; i++) {
        sim_place *place = &watch->queue[i];
        sim_actor *actor = actor_of(place->owner);
        /* An older state has old places. */
        if (!actor || is_waiting(actor, lock, place->owner, world.now, 0) ||
            !sim_server_serves() || sim_check_lost_since(lock, 0)) {
            place->left_at = 0;
            continue;
        }
        if (place->left_at == 0) {
            place->left_at = world.now;
        }
        int64_t patience = 3 * actor->command_timeout + SIM_SECOND +
                           sim_slack() + (may_be_slow() ? 4 * SIM_SECOND : 0);
        if (world.now > place->left_at + patience &&
            was_free_since(actor->process, world.now - patience)) {
            sim_violation("NoResidue",
                          "%s does not wait for %s any more, but stands in "
                          "its queue",
                          place->owner, sim_lock_name(lock));
        }
    }
}

/* ---------------------------------------------------------------- each step */

static void check_actor(sim_actor *actor, holders *all)
{
    /* Of permits and the like many idle ones are kept. */
    bool count =
        world.steps % (actor->client->book.idle_count > 16 ? 64 : 4) == 0;
    const hf__hold *hold = actor->client->book.holds;
    for (; hold; hold = hold->hh.next) {
        check_hold(actor, hold, all);
        if (count) {
            check_count(actor, hold);
        }
    }
    for (unsigned i = 0; i < actor->process->thread_count; i++) {
        check_waiting(actor, &actor->waiting[i]);
    }
    check_keeper(actor);
    int64_t quarantine = actor->client->book.quarantined_until;
    world.totals.counts[SIM_QUARANTINED] +=
        quarantine > sim_local(actor->process, world.now);
}

static void check_records(sim_actor *actor)
{
    for (unsigned i = 0; i < SIM_RECORDS; i++) {
        sim_record *record = &actor->records[i];
        if (record->used && record->lease && actor->client) {
            check_record(actor, record);
        }
    }
}

void sim_check(void)
{
    holders all;
    memset(all.count, 0, sizeof(all.count));
    for (unsigned i = 0; i < SIM_LOCKS && world.steps % 16 == 0; i++) {
        check_queue(i);
    }
    for (unsigned i = 0; i < world.process_count; i++) {
        sim_process *process = &world.processes[i];
        sim_actor *actor = process->actor;
        if (process->dead || !actor || !actor->client) {
            continue;
        }
        world.looking = process;
        check_actor(actor, &all);
        check_records(actor);
    }
    world.looking = NULL;
}

/* ------------------------------------------------------------------- the end
 */

static bool all_have_left(void)
{
    for (unsigned i = 0; i < world.process_count; i++) {
        if (!world.processes[i].left && !world.processes[i].dead) {
            return false;
        }
    }
    return true;
}

static bool begins(const model_key *key, const char *text)
{
    return strncmp(key->name.data, text, strlen(text)) == 0;
}

/* What a program that has gone may leave: the counter of tokens; what there is
 * of permits; records, which end by themselves; the places of dead waiters. */
static bool may_stay(const model_key *key)
{
    unsigned lock = sim_lock_number(key->name.data, key->name.length);
    if (lock < SIM_LOCKS) {
        return world.plan.kinds[lock] == SIM_PERMIT ||
               sim_kind_counts(world.plan.kinds[lock]);
    }
    if (begins(key, "holdfast_")) {
        return key->expires_at != MODEL_NEVER;
    }
    if (begins(key, "redisson_lock_queue") ||
        begins(key, "redisson_lock_timeout")) {
        return world.plan.faults != 0;
    }
    if (strstr(key->name.data, ":holdfast_writer")) {
        return world.plan.faults != 0 && key->expires_at != MODEL_NEVER;
    }
    if (begins(key, "redisson_lock_token")) {
        return world.plan.token_life == 0 || world.plan.peer ||
               key->expires_at != MODEL_NEVER;
    }
    return key->type == MODEL_ZSET; /* permits of the dead */
}

void sim_check_end(void)
{
    for (size_t i = 0; i < model_key_count(sim_server()); i++) {
        const model_key *key = model_key_at(sim_server(), i);
        if (!may_stay(key)) {
            sim_violation("NoResidue", "key %s is left", key->name.data);
        }
    }
    for (const sim_conn *conn = sim_conns; conn; conn = conn->next) {
        if (conn->session && !conn->up.black) {
            sim_violation("NoResidue", "conn %u of p%u is left", conn->number,
                          conn->process->number);
        }
    }
}

/* Nobody is left, and the longest lease is over since the server was told
 * something, which a dead process' last bytes may have done late. */
static void look_for_rest(void *arg, uint64_t number)
{
    int64_t quiet_at =
        world.commanded + world.plan.lease_max / 90 * 100 + 2 * SIM_SECOND;
    if (world.now < quiet_at || world.now < world.quiet_from) {
        sim_at(most(quiet_at, world.quiet_from), look_for_rest, arg, number);
        return;
    }
    sim_check_end();
    world.finished = true;
}

static void look_for_end(void *arg, uint64_t number)
{
    if (world.now > world.plan.faults_until + END_WITHIN) {
        sim_dump_threads();
        sim_violation("NoDeadlock", "the run does not come to its end");
    }
    if (all_have_left() && world.now >= world.plan.faults_until) {
        world.ending = true;
        world.commanded = world.now;
        look_for_rest(arg, number);
    } else {
        sim_at(world.now + 100 * SIM_MS, look_for_end, arg, number);
    }
}

void sim_check_start(void)
{
    for (unsigned i = 0; i < SIM_LOCKS; i++) {
        sim_look(i, &sim_watches[i]);
        sim_watches[i].total = sim_watches[i].number;
        for (unsigned d = 0; d < sim_doors(i); d++) {
            sim_watches[i].doors[d].open =
                sim_door_is_open(&sim_watches[i], i, d);
        }
    }
    sim_at(0, look_for_end, NULL, 0);
}
