/* What the server's keys say of a lock; what they must never say. */
#include "sim/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char writer_suffix[] = ":write";

void sim_owner_text(char out[SIM_OWNER_SIZE], hf__slice owner)
{
    static const char digits[] = "0123456789abcdef";
    size_t length = owner.length < SIM_OWNER_SIZE ? owner.length : 0;
    if (length != 16) {
        memcpy(out, owner.data, length);
        out[length] = '\0';
        return;
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)owner.data[i];
        out[2 * i] = digits[byte >> 4];
        out[2 * i + 1] = digits[byte & 15];
    }
    out[2 * length] = '\0';
}

bool sim_is_writer(const char *owner)
{
    size_t length = strlen(owner);
    size_t suffix = sizeof(writer_suffix) - 1;
    return length > suffix &&
           strcmp(owner + length - suffix, writer_suffix) == 0;
}

static size_t actor_length(const char *owner)
{
    return strlen(owner) -
           (sim_is_writer(owner) ? sizeof(writer_suffix) - 1 : 0);
}

bool sim_same_actor(const char *owner, const char *other)
{
    size_t length = actor_length(owner);
    return length == actor_length(other) && memcmp(owner, other, length) == 0;
}

const sim_share *sim_share_of(const sim_watch *watch, const char *owner)
{
    for (unsigned i = 0; i < watch->share_count; i++) {
        if (strcmp(watch->shares[i].owner, owner) == 0) {
            return &watch->shares[i];
        }
    }
    return NULL;
}

const sim_place *sim_place_of(const sim_watch *watch, const char *owner)
{
    for (unsigned i = 0; i < watch->queue_count; i++) {
        if (strcmp(watch->queue[i].owner, owner) == 0) {
            return &watch->queue[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------- keys */

static const model_key *find(const char *name)
{
    return model_find(sim_server(), 0, hf__slice_of(name));
}

/* "PREFIX:{NAME}" */
static const model_key *find_prefixed(const char *prefix, const char *name)
{
    char text[128];
    (void)snprintf(text, sizeof(text), "%s:{%s}", prefix, name);
    return find(text);
}

/* "{NAME}:SUFFIX" */
static const model_key *find_suffixed(const char *name, const char *suffix)
{
    char text[192];
    (void)snprintf(text, sizeof(text), "{%s}:%s", name, suffix);
    return find(text);
}

static int64_t end_of(const model_key *key)
{
    if (key->expires_at == MODEL_NEVER) {
        sim_violation("NoImmortalKey", "%s has no end", key->name.data);
    }
    return sim_server_time(key->expires_at);
}

static sim_share *add_share(sim_watch *watch, hf__slice owner)
{
    if (watch->share_count == SIM_SHARES) {
        abort();
    }
    sim_share *share = &watch->shares[watch->share_count++];
    sim_owner_text(share->owner, owner);
    return share;
}

static int64_t count_of(const model_item *item, const char *name)
{
    int64_t count = strtoll(item->value.data, NULL, 10);
    if (count < 1) {
        sim_violation("HoldCount", "%s is held %s times by %s", name,
                      item->value.data, item->name.data);
    }
    return count;
}

static hf__slice slice_of(const model_text *text)
{
    return (hf__slice){text->data, text->length};
}

/* ------------------------------------------------------------------- kinds */

static void look_exclusive(const char *name, sim_watch *watch)
{
    const model_key *key = find(name);
    if (!key) {
        return;
    }
    if (key->type != MODEL_HASH || key->count != 1) {
        sim_violation("ServerExclusion", "%s has %zu owners", name, key->count);
    }
    sim_share *share = add_share(watch, slice_of(&key->items[0].name));
    share->count = count_of(&key->items[0], name);
    share->ends_at = end_of(key);
}

static void look_simple(const char *name, sim_watch *watch)
{
    const model_key *key = find(name);
    if (!key) {
        return;
    }
    if (key->type != MODEL_STRING) {
        sim_violation("ServerExclusion", "%s is no string", name);
    }
    sim_share *share = add_share(watch, slice_of(&key->items[0].value));
    share->count = 1;
    share->ends_at = end_of(key);
}

/* A reader's last hold, at most the lock's end; 0 if all are over. */
static int64_t readers_end(const char *name, const sim_share *share,
                           int64_t end)
{
    int64_t latest = 0;
    for (int64_t i = 1; i <= share->count; i++) {
        char suffix[128];
        (void)snprintf(suffix, sizeof(suffix), "%s:rwlock_timeout:%lld",
                       share->owner, (long long)i);
        const model_key *hold = find_suffixed(name, suffix);
        if (hold && end_of(hold) > latest) {
            latest = end_of(hold);
        }
    }
    return latest < end ? latest : end;
}

static void check_mode(const char *name, const sim_watch *watch, bool writes)
{
    const char *writer = NULL;
    for (unsigned i = 0; i < watch->share_count; i++) {
        const char *owner = watch->shares[i].owner;
        if (sim_is_writer(owner)) {
            if (writer) {
                sim_violation("ServerExclusion", "%s has two writers", name);
            }
            writer = owner;
        }
    }
    if (watch->share_count == 0 || writes != (writer != NULL)) {
        sim_violation("ServerExclusion", "%s has %u owners, %s, and %s writer",
                      name, watch->share_count,
                      writes ? "is written" : "is read", writer ? "a" : "no");
    }
    for (unsigned i = 0; writer && i < watch->share_count; i++) {
        if (!sim_same_actor(watch->shares[i].owner, writer)) {
            sim_violation("ServerExclusion", "%s reads %s beside %s",
                          watch->shares[i].owner, name, writer);
        }
    }
}

static void look_rw(const char *name, sim_watch *watch)
{
    const model_key *key = find(name);
    const model_key *mark = find_suffixed(name, "holdfast_writer");
    const char *mode = NULL;
    watch->marked = mark && end_of(mark) > 0;
    if (!key) {
        return;
    }
    int64_t end = end_of(key);
    for (size_t i = 0; i < key->count; i++) {
        const model_item *item = &key->items[i];
        if (strcmp(item->name.data, "mode") == 0) {
            mode = item->value.data;
            continue;
        }
        sim_share *share = add_share(watch, slice_of(&item->name));
        share->count = count_of(item, name);
        share->ends_at =
            sim_is_writer(share->owner) ? end : readers_end(name, share, end);
    }
    check_mode(name, watch, mode && strcmp(mode, "write") == 0);
}

static int64_t score_of(const model_key *scores, const model_text *owner)
{
    const model_item *item =
        scores ? model_find_item(scores, slice_of(owner)) : NULL;
    return item ? sim_server_time((int64_t)item->score) : 0;
}

static void look_queue(const char *name, sim_watch *watch)
{
    const model_key *queue = find_prefixed("redisson_lock_queue", name);
    const model_key *times = find_prefixed("redisson_lock_timeout", name);
    static sim_watch before;
    before = *watch;
    watch->queue_count = 0;
    if (queue && queue->count > SIM_PLACES) {
        sim_violation("Fifo", "%s has a queue of %zu", name, queue->count);
    }
    for (size_t i = 0; queue && i < queue->count; i++) {
        sim_place *place = &watch->queue[watch->queue_count++];
        sim_owner_text(place->owner, slice_of(&queue->items[i].name));
        place->ends_at = score_of(times, &queue->items[i].name);
        const sim_place *old = sim_place_of(&before, place->owner);
        place->taken_at = old ? old->taken_at : world.now;
        place->left_at = old ? old->left_at : 0;
    }
    bool same = before.queue_count > 0 && watch->queue_count > 0 &&
                strcmp(before.queue[0].owner, watch->queue[0].owner) == 0;
    if (!same) {
        watch->first_since = world.now;
    }
}

static void look_number(const char *name, sim_watch *watch)
{
    const model_key *key = find(name);
    watch->numbered = key != NULL;
    watch->number = 0;
    if (key && (key->type != MODEL_STRING || key->count != 1)) {
        sim_violation("PermitConservation", "%s is no number", name);
    }
    if (key) {
        watch->number = strtoll(key->items[0].value.data, NULL, 10);
    }
}

static void look_permits(const char *name, sim_watch *watch)
{
    const model_key *held = find_suffixed(name, "timeout");
    look_number(name, watch);
    for (size_t i = 0; held && i < held->count; i++) {
        sim_share *share = add_share(watch, slice_of(&held->items[i].name));
        share->count = 1;
        share->ends_at = sim_server_time((int64_t)held->items[i].score);
    }
}

/* By the time of coming. */
static void look_turns(const char *name, sim_watch *watch)
{
    const model_key *queue = find_prefixed("holdfast_permits_queue", name);
    static sim_watch before;
    before = *watch;
    watch->queue_count = 0;
    for (size_t i = 0; queue && i < queue->count && i < SIM_PLACES; i++) {
        sim_place *place = &watch->queue[watch->queue_count++];
        sim_owner_text(place->owner, slice_of(&queue->items[i].name));
        const sim_place *old = sim_place_of(&before, place->owner);
        place->ends_at = INT64_MAX;
        place->left_at = old ? old->left_at : 0;
        place->taken_at = sim_server_time((int64_t)queue->items[i].score);
    }
    bool same = before.queue_count > 0 && watch->queue_count > 0 &&
                strcmp(before.queue[0].owner, watch->queue[0].owner) == 0;
    if (!same) {
        watch->first_since = world.now;
    }
}

void sim_look(unsigned lock, sim_watch *watch)
{
    const char *name = sim_lock_name(lock);
    watch->share_count = 0;
    switch (world.plan.kinds[lock]) {
    case SIM_SIMPLE:
        look_simple(name, watch);
        break;
    case SIM_RW:
        look_rw(name, watch);
        break;
    case SIM_FAIR:
    case SIM_FAIR_ONCE:
        look_exclusive(name, watch);
        look_queue(name, watch);
        break;
    case SIM_PERMIT:
        look_permits(name, watch);
        break;
    case SIM_IN_TURN:
        look_turns(name, watch);
        look_number(name, watch);
        break;
    case SIM_SEMAPHORE:
    case SIM_LATCH:
        look_number(name, watch);
        break;
    default:
        look_exclusive(name, watch);
        break;
    }
}

bool sim_door_is_open(const sim_watch *watch, unsigned lock, unsigned door)
{
    switch (world.plan.kinds[lock]) {
    case SIM_RW:
        if (door == SIM_READERS && world.plan.prefer_writers && watch->marked) {
            return false;
        }
        for (unsigned i = 0; i < watch->share_count; i++) {
            if (door == SIM_WRITERS || sim_is_writer(watch->shares[i].owner)) {
                return false;
            }
        }
        return true;
    case SIM_PERMIT:
    case SIM_SEMAPHORE:
    case SIM_IN_TURN:
        return watch->number > (int64_t)door;
    case SIM_LATCH:
        return watch->number <= 0;
    default:
        return watch->share_count == 0;
    }
}
