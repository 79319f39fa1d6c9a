/* Invariants of the server's state, looked at after each command: who may
 * change what. */
#include "sim/check.h"

#include "kinds/scripts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STANDINGS 256

sim_watch sim_watches[SIM_LOCKS];

static sim_standing standings[STANDINGS];
static unsigned standing_count;

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

static sim_standing *find_standing(const char *owner, unsigned lock)
{
    for (unsigned i = 0; i < standing_count; i++) {
        if (standings[i].lock == lock &&
            strcmp(standings[i].owner, owner) == 0) {
            return &standings[i];
        }
    }
    return NULL;
}

const sim_standing *sim_standing_of(const char *owner, unsigned lock)
{
    return find_standing(owner, lock);
}

static sim_standing *make_standing(const char *owner, unsigned lock)
{
    sim_standing *standing = find_standing(owner, lock);
    if (!standing) {
        if (standing_count == STANDINGS) {
            abort();
        }
        standing = &standings[standing_count++];
        memset(standing, 0, sizeof(*standing));
        (void)snprintf(standing->owner, sizeof(standing->owner), "%s", owner);
        standing->lock = lock;
    }
    return standing;
}

/* ------------------------------------------------------------------ watching
 */

static sim_watch look(unsigned lock)
{
    sim_watch now = sim_watches[lock];
    const char *name = sim_lock_name(lock);
    const model_key *key =
        model_find(sim_server(), 0, (hf__slice){name, strlen(name)});
    now.held = key != NULL;
    if (!key) {
        return now;
    }
    if (key->type != MODEL_HASH || key->count != 1) {
        sim_violation("ServerExclusion", "%s has %zu owners", name, key->count);
    }
    if (key->expires_at == MODEL_NEVER) {
        sim_violation("NoImmortalKey", "%s of %s has no end", name,
                      key->items[0].name.data);
    }
    (void)snprintf(now.owner, sizeof(now.owner), "%s", key->items[0].name.data);
    now.ends_at = sim_server_time(key->expires_at);
    now.count = atoll(key->items[0].value.data);
    if (now.count < 1) {
        sim_violation("HoldCount", "%s is held %lld times", name,
                      (long long)now.count);
    }
    return now;
}

static void become_free(unsigned lock, sim_freeing how)
{
    sim_watch *watch = &sim_watches[lock];
    watch->held = false;
    watch->free_since = world.now;
    watch->freeing = how;
}

/* ---------------------------------------------------------------- commands */

/* A call of one of our scripts. */
typedef struct call {
    const hf__script *script; /* NULL: a plain command */
    bool by_text;             /* EVAL */
    bool refused;             /* answered by an error */
    const sim_conn *conn;     /* NULL: the operator */
    const hf__slice *keys;
    const hf__slice *args;
    size_t key_count;
} call;

static const hf__script *const scripts[] = {
    &hf__script_lock_acquire, &hf__script_lock_release, &hf__script_lock_renew,
    &hf__script_lock_force, &hf__script_lock_probe};

static const hf__script *script_of(const model_event *event)
{
    bool by_sha = strcmp(event->name, "evalsha") == 0;
    if (!by_sha && strcmp(event->name, "eval") != 0) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        const hf__script *script = scripts[i];
        if (event->count > 2 &&
            hf__slice_is(event->args[1],
                         by_sha ? script->sha1 : script->text)) {
            return script;
        }
    }
    return NULL;
}

static call read_call(const model_event *event)
{
    call read = {.script = script_of(event),
                 .refused =
                     event->reply.length > 0 && event->reply.data[0] == '-',
                 .by_text = strcmp(event->name, "eval") == 0,
                 .conn = event->tag};
    if (read.script) {
        read.key_count = (size_t)atoll(event->args[2].data);
        read.keys = event->args + 3;
        read.args = read.keys + read.key_count;
    }
    return read;
}

static bool is_of(const call *made, const hf__script *script, unsigned lock)
{
    return made->script == script &&
           sim_lock_number(made->keys[0].data, made->keys[0].length) == lock;
}

/* Whose name is in the arguments must be the sender's. */
static bool sent_by_owner(const call *made, const char *owner, unsigned lock)
{
    const sim_standing *standing = find_standing(owner, lock);
    return made->conn && standing &&
           standing->process == made->conn->process->number;
}

static void check_taken(const call *made, unsigned lock,
                        const sim_watch *before, const sim_watch *after)
{
    bool released = is_of(made, &hf__script_lock_release, lock) &&
                    hf__slice_is(made->args[0], before->owner) &&
                    sent_by_owner(made, before->owner, lock);
    bool forced = is_of(made, &hf__script_lock_force, lock) || !made->conn;
    if (!released && !forced) {
        sim_violation("OwnerOnlyRelease", "%s was taken from %s by %s",
                      sim_lock_name(lock), before->owner,
                      made->script ? made->script->name : "a plain command");
    }
    if (forced) {
        sim_check_taken_away(lock);
    }
    if (!after->held) {
        become_free(lock, made->conn ? SIM_FREE_TOLD : SIM_FREE_REMOVED);
    }
}

static void check_given(const call *made, unsigned lock, const char *owner)
{
    if (!is_of(made, &hf__script_lock_acquire, lock) ||
        !hf__slice_is(made->args[1], owner)) {
        sim_violation("OwnerOnlyRelease", "%s was given to %s, who did not ask",
                      sim_lock_name(lock), owner);
    }
    sim_standing *standing = make_standing(owner, lock);
    standing->process = made->conn->process->number;
    standing->granted_at = world.now;
    standing->longest = 0;
}

static void check_lock(const call *made, unsigned lock)
{
    sim_watch before = sim_watches[lock];
    sim_watch after = look(lock);
    bool other =
        before.held != after.held || strcmp(before.owner, after.owner) != 0;
    world.totals.counts[SIM_REENTERED] += !other && after.count > before.count;
    if (before.held && other) {
        check_taken(made, lock, &before, &after);
        after.free_since = sim_watches[lock].free_since;
        after.freeing = sim_watches[lock].freeing;
    }
    if (after.held && other) {
        check_given(made, lock, after.owner);
    }
    sim_watches[lock] = after;
}

/* ------------------------------------------------------- release and renewal
 */

static void note_lease(sim_standing *standing, const hf__slice *milliseconds)
{
    int64_t lease = atoll(milliseconds->data) * SIM_MS;
    if (lease > standing->longest) {
        standing->longest = lease;
    }
}

static void note_saying(const call *made)
{
    unsigned lock =
        made->script && made->key_count > 0
            ? sim_lock_number(made->keys[0].data, made->keys[0].length)
            : SIM_LOCKS;
    char owner[SIM_OWNER_SIZE];
    if (lock == SIM_LOCKS || !made->conn || made->refused) {
        return;
    }
    bool acquires = made->script == &hf__script_lock_acquire;
    if (!acquires && made->script != &hf__script_lock_release) {
        return;
    }
    const hf__slice *of = &made->args[acquires ? 1 : 0];
    (void)snprintf(owner, sizeof(owner), "%.*s", (int)of->length, of->data);
    sim_standing *standing = make_standing(owner, lock);
    bool final = !acquires && hf__slice_is(made->args[1], "0");
    standing->released_by = final ? made->conn->number : 0;
    if (acquires) {
        standing->acquired_at = world.now;
        note_lease(standing, &made->args[0]);
    }
}

static void check_renewal(const call *made)
{
    if (made->script != &hf__script_lock_renew || !made->conn ||
        made->refused) {
        return;
    }
    for (size_t i = 0; i < made->key_count; i++) {
        char owner[SIM_OWNER_SIZE];
        const hf__slice *of = &made->args[2 * i + 1];
        unsigned lock =
            sim_lock_number(made->keys[i].data, made->keys[i].length);
        (void)snprintf(owner, sizeof(owner), "%.*s", (int)of->length, of->data);
        sim_standing *standing = find_standing(owner, lock);
        if (standing) {
            note_lease(standing, &made->args[2 * i]);
        }
        /* Said again for want of the script it comes late, and finds none. */
        bool again =
            made->by_text && !(sim_watches[lock].held &&
                               strcmp(sim_watches[lock].owner, owner) == 0);
        if (standing && standing->released_by == made->conn->number &&
            !hf__slice_is(made->args[2 * i], "0") && !again) {
            sim_violation("NoRenewAfterRelease",
                          "%s is renewed for %s, which was released before",
                          sim_lock_name(lock), owner);
        }
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
    note_saying(&made);
    check_renewal(&made);
}

static void on_expired(void *ctx, const model_key *key)
{
    unsigned lock = sim_lock_number(key->name.data, key->name.length);
    (void)ctx;
    SIM_TRACE("server: %s of %s has expired", key->name.data,
              key->items[0].name.data);
    if (lock < SIM_LOCKS) {
        become_free(lock, SIM_FREE_EXPIRED);
    }
}

const model_hooks sim_check_hooks = {.on_command = on_command,
                                     .on_expired = on_expired};

void sim_check_server_changed(void)
{
    for (unsigned i = 0; i < SIM_LOCKS; i++) {
        bool was_held = sim_watches[i].held;
        sim_watches[i] = look(i);
        if (was_held && !sim_watches[i].held) {
            become_free(i, SIM_FREE_REMOVED);
        }
        if (!sim_watches[i].held) {
            sim_watches[i].free_since = world.now;
        }
    }
}
