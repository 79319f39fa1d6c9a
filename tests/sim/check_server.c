/* Invariants of the server's state, looked at after each command: who may
 * change what. */
#include "sim/check.h"

#include "kinds/scripts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STANDINGS 4096
#define BUCKETS 512

sim_watch sim_watches[SIM_LOCKS];

static sim_standing standings[STANDINGS];
static unsigned standing_count;
static sim_standing *buckets[BUCKETS];
static bool time_passed; /* some key has ended since the last look */

unsigned sim_lock_number(const char *name, size_t length)
{
    for (unsigned i = 0; i < SIM_LOCKS; i++) {
        if (strlen(sim_lock_name(i)) == length &&
            memcmp(sim_lock_name(i), name, length) == 0) {
            return i;
        }
    }
    return SIM_LOCKS;
}

/* --------------------------------------------------------------- standings */

static sim_standing **bucket_of(const char *owner)
{
    uint32_t hash = 2166136261;
    for (; *owner; owner++) {
        hash = (hash ^ (unsigned char)*owner) * 16777619;
    }
    return &buckets[hash % BUCKETS];
}

sim_standing *sim_standing_of(const char *owner, unsigned lock)
{
    sim_standing *standing = *bucket_of(owner);
    while (standing &&
           (standing->lock != lock || strcmp(standing->owner, owner) != 0)) {
        standing = standing->next;
    }
    return standing;
}

sim_standing *sim_standing_make(const char *owner, unsigned lock)
{
    sim_standing *standing = sim_standing_of(owner, lock);
    if (!standing) {
        if (standing_count == STANDINGS) {
            abort();
        }
        sim_standing **bucket = bucket_of(owner);
        standing = &standings[standing_count++];
        (void)snprintf(standing->owner, sizeof(standing->owner), "%s", owner);
        standing->lock = lock;
        standing->next = *bucket;
        *bucket = standing;
    }
    return standing;
}

/* ---------------------------------------------------------------- commands */

/* What a script of ours, or a command, is for. */
typedef enum verb {
    NOTHING,
    ACQUIRES,
    RELEASES,
    FORCES,
    RENEWS,
    TAKES,      /* permits, of a semaphore */
    GIVES_BACK, /* what was taken for nobody */
    COUNTS      /* changes a number */
} verb;

static const struct {
    const hf__script *script;
    verb verb;
} scripts[] = {
    {&hf__script_lock_acquire, ACQUIRES},
    {&hf__script_lock_release, RELEASES},
    {&hf__script_lock_renew, RENEWS},
    {&hf__script_lock_force, FORCES},
    {&hf__script_lock_probe, NOTHING},
    {&hf__script_fenced_acquire, ACQUIRES},
    {&hf__script_fenced_renew, RENEWS},
    {&hf__script_read_acquire, ACQUIRES},
    {&hf__script_read_release, RELEASES},
    {&hf__script_read_renew, RENEWS},
    {&hf__script_write_acquire, ACQUIRES},
    {&hf__script_write_release, RELEASES},
    {&hf__script_write_renew, RENEWS},
    {&hf__script_rw_force, FORCES},
    {&hf__script_simple_release, RELEASES},
    {&hf__script_simple_renew, RENEWS},
    {&hf__script_simple_force, FORCES},
    {&hf__script_fair_acquire, ACQUIRES},
    {&hf__script_fair_release, RELEASES},
    {&hf__script_fair_force, FORCES},
    {&hf__script_counter_add, COUNTS},
    {&hf__script_counter_set, COUNTS},
    {&hf__script_permit_set, COUNTS},
    {&hf__script_semaphore_acquire, TAKES},
    {&hf__script_semaphore_acquire_in_turn, TAKES},
    {&hf__script_semaphore_release, GIVES_BACK},
    {&hf__script_semaphore_drain, COUNTS},
    {&hf__script_latch_count_down, COUNTS},
    {&hf__script_latch_delete, COUNTS},
    {&hf__script_permit_acquire, ACQUIRES},
    {&hf__script_permit_release, RELEASES},
    {&hf__script_permit_renew, RENEWS},
    {&hf__script_permit_force, FORCES},
};

/* A call of one of our scripts, or a plain command. */
typedef struct call {
    const hf__script *script; /* NULL: a plain command, or unknown */
    verb verb;
    bool by_text;         /* EVAL */
    bool refused;         /* answered by an error */
    bool by_peer;         /* the other library's */
    const sim_conn *conn; /* NULL: the operator, or the other library */
    const hf__slice *keys;
    const hf__slice *args;
    size_t key_count;
    hf__slice reply;
    unsigned lock;              /* SIM_LOCKS: of none, or of many */
    char owner[SIM_OWNER_SIZE]; /* who acquires or releases */
    hf__slice lease;            /* that it acquires for */
    bool final;                 /* it releases all that it has */
} call;

static bool is_script(const hf__script *script, bool by_sha, hf__slice said)
{
    return hf__slice_is(said, by_sha ? script->sha1 : script->text);
}

static void find_script(call *read, const model_event *event)
{
    bool by_sha = strcmp(event->name, "evalsha") == 0;
    read->by_text = strcmp(event->name, "eval") == 0;
    if ((!by_sha && !read->by_text) || event->count <= 2) {
        return;
    }
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        if (is_script(scripts[i].script, by_sha, event->args[1])) {
            read->script = scripts[i].script;
            read->verb = scripts[i].verb;
            read->key_count = (size_t)strtoll(event->args[2].data, NULL, 10);
            read->keys = event->args + 3;
            read->args = read->keys + read->key_count;
        }
    }
}

/* A simple lock's acquire is a SET. */
static void find_command(call *read, const model_event *event)
{
    unsigned lock = event->count > 1 ? sim_lock_number(event->args[1].data,
                                                       event->args[1].length)
                                     : SIM_LOCKS;
    if (strcmp(event->name, "set") == 0 && lock < SIM_LOCKS &&
        world.plan.kinds[lock] == SIM_SIMPLE && event->count == 6) {
        read->verb = ACQUIRES;
        read->keys = event->args + 1;
        read->key_count = 1;
        read->lock = lock;
        read->lease = event->args[4];
        sim_owner_text(read->owner, event->args[2]);
    }
}

static call read_call(const model_event *event)
{
    call read = {.refused =
                     event->reply.length > 0 && event->reply.data[0] == '-',
                 .by_peer = sim_server_peer_speaks(),
                 .conn = event->tag,
                 .reply = event->reply,
                 .lock = SIM_LOCKS};
    find_script(&read, event);
    if (!read.script) {
        find_command(&read, event);
        return read;
    }
    if (read.verb != RENEWS && read.key_count > 0) {
        read.lock = sim_lock_number(read.keys[0].data, read.keys[0].length);
    }
    if (read.verb == ACQUIRES) {
        read.lease = read.args[0];
        sim_owner_text(read.owner, read.args[1]);
    } else if (read.verb == RELEASES) {
        sim_owner_text(read.owner, read.args[0]);
        read.final = hf__slice_is(read.args[1], "0");
    } else if (read.verb == TAKES) {
        sim_owner_text(read.owner, read.args[1]);
    } else if (read.verb == GIVES_BACK || read.verb == COUNTS) {
        sim_owner_text(read.owner, read.args[0]);
    }
    return read;
}

/* Whose name is in the arguments must be the sender's. */
static bool sent_by_owner(const call *made, unsigned lock)
{
    const sim_standing *standing = sim_standing_of(made->owner, lock);
    return made->conn && standing &&
           standing->process == made->conn->process->number;
}

static bool is_of(const call *made, verb what, unsigned lock)
{
    return made && made->verb == what && made->lock == lock;
}

/* ----------------------------------------------------------- who has what */

static void check_taken(const call *made, unsigned lock, const sim_share *from)
{
    bool released = is_of(made, RELEASES, lock) &&
                    strcmp(made->owner, from->owner) == 0 &&
                    sent_by_owner(made, lock);
    bool by_peer = made && made->by_peer && sim_peer_is(from->owner);
    if (released || by_peer || from->ends_at <= world.now) {
        return;
    }
    if (is_of(made, FORCES, lock) || (made && !made->conn && !made->by_peer)) {
        sim_check_taken_away(lock);
        return;
    }
    sim_violation("OwnerOnlyRelease", "%s was taken from %s by %s",
                  sim_lock_name(lock), from->owner,
                  !made          ? "time"
                  : made->script ? made->script->name
                                 : "a plain command");
}

static void check_given(const call *made, unsigned lock, const sim_share *to)
{
    if (made && made->by_peer && sim_peer_is(to->owner)) {
        return;
    }
    if (!is_of(made, ACQUIRES, lock) || !made->conn ||
        strcmp(made->owner, to->owner) != 0) {
        sim_violation("OwnerOnlyRelease", "%s was given to %s, who did not ask",
                      sim_lock_name(lock), to->owner);
    }
    sim_standing *standing = sim_standing_make(to->owner, lock);
    standing->process = made->conn->process->number;
    standing->granted_at = world.now;
    standing->longest = 0;
    sim_watches[lock].granted_at[standing->process] = world.now;
}

static void check_shares(const call *made, unsigned lock,
                         const sim_watch *before, const sim_watch *after)
{
    for (unsigned i = 0; i < before->share_count; i++) {
        const sim_share *old = &before->shares[i];
        if (!sim_share_of(after, old->owner)) {
            check_taken(made, lock, old);
        }
    }
    for (unsigned i = 0; i < after->share_count; i++) {
        const sim_share *now = &after->shares[i];
        const sim_share *old = sim_share_of(before, now->owner);
        world.totals.counts[SIM_REENTERED] += old && now->count > old->count;
        if (!old) {
            check_given(made, lock, now);
        }
    }
    world.totals.counts[SIM_SHARED] += after->share_count > 1;
}

/* ------------------------------------------------------------------- queues
 */

static bool asks_for(const call *made, unsigned lock, const char *owner)
{
    return (is_of(made, ACQUIRES, lock) ||
            (is_of(made, RELEASES, lock) && made->final)) &&
           strcmp(made->owner, owner) == 0;
}

static void trace_queue(const char *when, const sim_watch *watch)
{
    for (unsigned i = 0; i < watch->queue_count; i++) {
        sim_say("  %s: %u. %s until %.6f s", when, i + 1, watch->queue[i].owner,
                (double)watch->queue[i].ends_at / 1e9);
    }
}

/* Whoever stands in the queue stands there until it gets the lock, leaves, or
 * is believed to be dead. */
static void check_places(const call *made, unsigned lock,
                         const sim_watch *before, const sim_watch *after)
{
    unsigned kept = 0;
    if (world.trace && before->queue_count != after->queue_count) {
        trace_queue("before", before);
        trace_queue("after", after);
    }
    for (unsigned i = 0; i < before->queue_count; i++) {
        const sim_place *old = &before->queue[i];
        if (kept < after->queue_count &&
            strcmp(after->queue[kept].owner, old->owner) == 0) {
            kept++;
        } else if (sim_place_of(after, old->owner)) {
            sim_violation("Fifo", "%s: %s has changed its place",
                          sim_lock_name(lock), old->owner);
        } else if (asks_for(made, lock, old->owner)) {
            continue;
        } else if (made && made->conn && old->ends_at > world.now) {
            sim_violation("Fifo",
                          "%s: %s, believed to live until %.6f s, lost its "
                          "place by another's %s",
                          sim_lock_name(lock), old->owner,
                          (double)old->ends_at / 1e9,
                          made->script ? made->script->name : "command");
        } else {
            sim_check_passed_over(lock, old);
        }
    }
    for (; kept < after->queue_count; kept++) {
        if (!asks_for(made, lock, after->queue[kept].owner)) {
            sim_violation("Fifo", "%s: %s did not queue", sim_lock_name(lock),
                          after->queue[kept].owner);
        }
    }
}

/* A fresh grant is the first's of those who live. */
static void check_turn(unsigned lock, const sim_watch *before,
                       const sim_watch *after)
{
    if (after->share_count == 0 ||
        sim_share_of(before, after->shares[0].owner)) {
        return;
    }
    const char *owner = after->shares[0].owner;
    for (unsigned i = 0; i < before->queue_count; i++) {
        const sim_place *place = &before->queue[i];
        if (strcmp(place->owner, owner) == 0) {
            break;
        }
        if (place->ends_at > world.now) {
            sim_violation("Fifo", "%s was granted to %s before %s",
                          sim_lock_name(lock), owner, place->owner);
        }
    }
}

/* ------------------------------------------------------------------ numbers
 */

/* What is to be had, and what is held, is what there is. */
static void check_permits(const call *made, unsigned lock, sim_watch *watch)
{
    int64_t total = watch->number + watch->share_count;
    if (is_of(made, COUNTS, lock)) {
        watch->total = total;
    }
    if (total != watch->total || watch->number < 0) {
        sim_violation("PermitConservation",
                      "%s: %" PRId64 " are to be had and %u held, of %" PRId64
                      " in all",
                      sim_lock_name(lock), watch->number, watch->share_count,
                      watch->total);
    }
}

/* Who has changed the number, and how. */
static void check_number(const call *made, unsigned lock,
                         const sim_watch *before, const sim_watch *watch)
{
    int64_t more = watch->number - before->number;
    bool latch = world.plan.kinds[lock] == SIM_LATCH;
    if ((more == 0 && watch->numbered == before->numbered) || !made ||
        !made->conn) {
        return;
    }
    if (made->lock != lock || (made->verb != TAKES && made->verb != COUNTS &&
                               made->verb != GIVES_BACK)) {
        sim_violation("PermitConservation", "%s was changed by %s",
                      sim_lock_name(lock),
                      made->script ? made->script->name : "a plain command");
    }
    sim_standing *standing = sim_standing_make(made->owner, lock);
    standing->process = made->conn->process->number;
    standing->changes += made->verb == COUNTS;
    standing->taken -= made->verb == COUNTS ? 0 : more;
    if (watch->number < 0 && !latch) {
        sim_violation("PermitConservation", "%s has %" PRId64 " permits",
                      sim_lock_name(lock), watch->number);
    }
}

/* ------------------------------------------------------------------- doors */

static void move_doors(unsigned lock, sim_watch *watch, sim_freeing how)
{
    for (unsigned i = 0; i < sim_doors(lock); i++) {
        sim_door *door = &watch->doors[i];
        bool open = sim_door_is_open(watch, lock, i);
        if (open && !door->open) {
            door->since = world.now;
            door->how = how;
        }
        door->open = open;
    }
    if (watch->doors[0].open) {
        watch->open_until = world.now;
    }
}

/* `made` is NULL when time has passed. */
static void check_lock(const call *made, unsigned lock)
{
    static sim_watch before;
    sim_watch *watch = &sim_watches[lock];
    before = *watch;
    sim_look(lock, watch);
    check_shares(made, lock, &before, watch);
    if (sim_kind_is_fair(world.plan.kinds[lock])) {
        check_places(made, lock, &before, watch);
        check_turn(lock, &before, watch);
    }
    if (sim_kind_counts(world.plan.kinds[lock])) {
        check_number(made, lock, &before, watch);
    }
    if (world.plan.kinds[lock] == SIM_PERMIT) {
        check_permits(made, lock, watch);
    }
    if (before.doors[0].open) {
        watch->open_until = world.now;
    }
    move_doors(lock, watch,
               !made                         ? SIM_FREE_EXPIRED
               : made->conn || made->by_peer ? SIM_FREE_TOLD
                                             : SIM_FREE_REMOVED);
}

/* ------------------------------------------------------------------- tokens
 */

static void check_token(unsigned lock, const char *owner, bool fresh,
                        uint64_t token)
{
    sim_watch *watch = &sim_watches[lock];
    sim_standing *standing = sim_standing_make(owner, lock);
    if (fresh && token <= watch->last_token) {
        sim_violation("TokenMonotone",
                      "%s got the token %" PRIu64 " of %s, after %" PRIu64,
                      owner, token, sim_lock_name(lock), watch->last_token);
    }
    if (!fresh && token != standing->token &&
        !sim_check_lost_since(lock, standing->granted_at)) {
        sim_violation("TokenMonotone",
                      "%s got the token %" PRIu64 " of %s, but has %" PRIu64,
                      owner, token, sim_lock_name(lock), standing->token);
    }
    if (token > watch->last_token) {
        watch->last_token = token;
    }
    standing->token = token;
}

void sim_check_peer_token(unsigned lock, uint64_t token)
{
    sim_watch *watch = &sim_watches[lock];
    if (token > watch->last_token) {
        watch->last_token = token;
    }
}

static void note_token(const call *made)
{
    if (made->script != &hf__script_fenced_acquire || !made->conn ||
        made->lock == SIM_LOCKS || made->reply.data[0] != '$') {
        return;
    }
    char text[64];
    const char *at = memchr(made->reply.data, '\n', made->reply.length);
    (void)snprintf(text, sizeof(text), "%.*s", 60, at ? at + 1 : "");
    char *end;
    long long count = strtoll(text, &end, 10);
    check_token(made->lock, made->owner, count == 1, strtoull(end, NULL, 10));
}

/* ------------------------------------------------------- release and renewal
 */

static void note_lease(sim_standing *standing, hf__slice milliseconds)
{
    int64_t lease = strtoll(milliseconds.data, NULL, 10) * SIM_MS;
    if (lease > standing->longest) {
        standing->longest = lease;
    }
}

static void note_saying(const call *made)
{
    if (made->lock == SIM_LOCKS || !made->conn || made->refused ||
        (made->verb != ACQUIRES && made->verb != RELEASES)) {
        return;
    }
    sim_standing *standing = sim_standing_make(made->owner, made->lock);
    standing->released_by = made->final ? made->conn->number : 0;
    if (made->verb == ACQUIRES) {
        standing->acquired_at = world.now;
        note_lease(standing, made->lease);
    }
}

static void check_renewal_of(const call *made, size_t i)
{
    char owner[SIM_OWNER_SIZE];
    unsigned lock = sim_lock_number(made->keys[i].data, made->keys[i].length);
    bool asks = hf__slice_is(made->args[2 * i], "0");
    if (lock == SIM_LOCKS) {
        return;
    }
    sim_owner_text(owner, made->args[2 * i + 1]);
    sim_standing *standing = sim_standing_of(owner, lock);
    if (standing) {
        note_lease(standing, made->args[2 * i]);
    }
    /* Said again for want of the script it comes late, and finds none. */
    bool again = made->by_text && !sim_share_of(&sim_watches[lock], owner);
    if (standing && standing->released_by == made->conn->number && !asks &&
        !again) {
        sim_violation("NoRenewAfterRelease",
                      "%s is renewed for %s, which was released before",
                      sim_lock_name(lock), owner);
    }
}

static void check_renewal(const call *made)
{
    if (made->verb != RENEWS || !made->conn || made->refused) {
        return;
    }
    for (size_t i = 0; i < made->key_count; i++) {
        check_renewal_of(made, i);
    }
}

/* ------------------------------------------------------------------- hooks */

static void trace_command(const model_event *event, const call *made)
{
    char text[400];
    size_t n = 0;
    size_t from = made->script ? 3 : 0;
    for (size_t i = from; i < event->count && n < sizeof(text) - 1; i++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, " %.*s",
                              (int)event->args[i].length, event->args[i].data);
    }
    int length = (int)event->reply.length;
    while (length > 0 && event->reply.data[length - 1] <= ' ') {
        length--;
    }
    char reply[160];
    (void)snprintf(reply, sizeof(reply), "%.*s", length, event->reply.data);
    for (char *at = reply; *at; at++) {
        *at = *at < ' ' ? ' ' : *at;
    }
    sim_say("server, conn %u:%s%s%s -> %s", made->conn ? made->conn->number : 0,
            made->script ? " " : "", made->script ? made->script->name : "",
            text, reply);
}

static void on_command(void *ctx, const model_event *event)
{
    (void)ctx;
    if (event->in_script) {
        return;
    }
    call made = read_call(event);
    world.totals.commands++;
    world.commanded = world.now;
    if (world.trace) {
        trace_command(event, &made);
    }
    for (unsigned i = 0; i < SIM_LOCKS; i++) {
        check_lock(&made, i);
    }
    note_token(&made);
    note_saying(&made);
    check_renewal(&made);
}

/* It is there still: what is left is looked at when it has gone. */
static void on_expired(void *ctx, const model_key *key)
{
    (void)ctx;
    SIM_TRACE("server: %s of %s has expired", key->name.data,
              key->type == MODEL_STRING ? key->items[0].value.data
                                        : key->items[0].name.data);
    time_passed = true;
}

void sim_check_time_passed(void)
{
    if (!time_passed || !sim_server_is_up()) {
        return;
    }
    time_passed = false;
    for (unsigned i = 0; i < SIM_LOCKS; i++) {
        check_lock(NULL, i);
    }
}

const model_hooks sim_check_hooks = {.on_command = on_command,
                                     .on_expired = on_expired};

void sim_check_server_changed(void)
{
    time_passed = false;
    for (unsigned i = 0; i < SIM_LOCKS; i++) {
        sim_watch *watch = &sim_watches[i];
        sim_look(i, watch);
        watch->total = watch->number + watch->share_count;
        move_doors(i, watch, SIM_FREE_REMOVED);
        for (unsigned d = 0; d < sim_doors(i); d++) {
            if (watch->doors[d].open) {
                watch->doors[d].since = world.now;
            }
        }
    }
}
