/* Several locks as one, all or nothing, whatever their kinds and servers.
 *
 * All are tried at once. If one is not to be had, what was granted is given
 * back, that one is waited for on its own channel, and with it in hand the
 * others are tried again. So nothing is held while anything is waited for, but
 * for the time of a try, which has an end: nobody can be part of a circle of
 * those who hold and wait, whatever the others do. That is more than a common
 * order yields. It would keep programs like this one from waiting for each
 * other, but not from waiting for one that takes single locks in another
 * order, nor for a RedissonMultiLock, which takes its locks in the order of
 * its constructor and keeps them while it waits, for as long as its share of
 * the time. The price: who wants many locks that are much wanted may be
 * overtaken by those who want one.
 *
 * The order, by server and name, serves something else: those who want the
 * same locks meet at the first of them, and only one of them gets further.
 * Redisson RedissonMultiLock. */
#include "client/multi.h"

#include "client/attempt.h"

#include <stdlib.h>

/* Rounds before a pause is made between two, and how long it is at most: those
 * who get into each other's way again and again get out of step. */
#define ROUNDS_AT_ONCE 4
#define PAUSE_MAX (16 * HF__MS)

/* ------------------------------------------------------------------ opening */

static size_t count_of(hf_lock *const *locks, size_t count)
{
    size_t all = 0;
    for (size_t i = 0; i < count; i++) {
        if (!locks[i]) {
            return 0;
        }
        all += locks[i]->multi ? locks[i]->multi->count : 1;
    }
    return all;
}

hf__multi *hf__multi_ref(hf__multi *multi)
{
    atomic_fetch_add(&multi->refs, 1);
    return multi;
}

void hf__multi_unref(hf__multi *multi)
{
    if (atomic_fetch_sub(&multi->refs, 1) != 1) {
        return;
    }
    for (size_t i = 0; i < multi->count; i++) {
        hf_lock *lock = &multi->members[i].lock;
        hf__goal_close(lock->client, &lock->goal);
    }
    free(multi);
}

/* A handle of its own, with the same wishes. */
static hf_status add(hf__multi *multi, const hf_lock *lock, size_t place,
                     hf_error *err)
{
    hf_status status = hf__client_usable(lock->client, err);
    if (status != HF_OK) {
        return status; /* the target has gone with its client */
    }
    hf__member *member = &multi->members[multi->count];
    const hf__target *target = lock->goal.target;
    member->lock = *lock;
    member->place = place;
    status = hf__goal_open(lock->client, target->kind, target->name.data,
                           target->name.length, &member->lock.goal, err);
    multi->count += status == HF_OK;
    return status;
}

/* Several in one of those that are given stand for themselves. */
static hf_status add_all(hf__multi *multi, hf_lock *const *locks, size_t count,
                         hf_error *err)
{
    hf_status status = HF_OK;
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        const hf__multi *inner = locks[i]->multi;
        size_t base = multi->count;
        if (!inner) {
            status = add(multi, locks[i], base, err);
        }
        for (size_t k = 0; inner && k < inner->count && status == HF_OK; k++) {
            status = add(multi, &inner->members[k].lock,
                         base + inner->members[k].place, err);
        }
    }
    return status;
}

static int compare_names(hf__slice a, hf__slice b)
{
    size_t common = a.length < b.length ? a.length : b.length;
    int order = memcmp(a.data, b.data, common);
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare(const void *a, const void *b)
{
    const hf_lock *one = &((const hf__member *)a)->lock;
    const hf_lock *other = &((const hf__member *)b)->lock;
    int order =
        strcmp(hf_client_server(one->client), hf_client_server(other->client));
    return order != 0 ? order
                      : compare_names(one->goal.target->name,
                                      other->goal.target->name);
}

static void read_run_id(hf_client *client, char id[48])
{
    hf__link *link = &client->commands;
    pthread_mutex_lock(&link->mutex);
    memcpy(id, link->run_id, 48);
    pthread_mutex_unlock(&link->mutex);
}

/* A server may be known by several URLs. */
static bool same_server(hf_client *a, hf_client *b)
{
    char one[48];
    char other[48];
    if (a == b || strcmp(a->endpoint.display, b->endpoint.display) == 0) {
        return true;
    }
    read_run_id(a, one);
    read_run_id(b, other);
    return a->endpoint.database == b->endpoint.database && one[0] != '\0' &&
           memcmp(one, other, sizeof(one)) == 0;
}

/* Twice the same is refused, for which of the two hf_multi_token's index would
 * mean, and by another client, or as another kind, it would wait for itself. */
static hf_status refuse_twins(hf__multi *multi, hf_error *err)
{
    for (size_t i = 0; i < multi->count; i++) {
        const hf_lock *a = &multi->members[i].lock;
        multi->one_client =
            multi->one_client && a->client == multi->members[0].lock.client;
        for (size_t k = i + 1; k < multi->count; k++) {
            const hf_lock *b = &multi->members[k].lock;
            if (compare_names(a->goal.target->name, b->goal.target->name) ==
                    0 &&
                same_server(a->client, b->client)) {
                hf_error why = HF_ERROR_INIT;
                hf__error_set(&why, HF_EINVAL,
                              "it is given twice, as numbers %zu and %zu",
                              multi->members[i].place, multi->members[k].place);
                return hf__target_error(a->client, a->goal.target, err, &why);
            }
        }
    }
    return HF_OK;
}

static const hf_lock *first_given(const hf__multi *multi)
{
    size_t i = 0;
    while (multi->members[i].place != 0) {
        i++;
    }
    return &multi->members[i].lock;
}

hf_lock *hf_multi_open(hf_lock *const *locks, size_t count, hf_error *err)
{
    size_t all = locks ? count_of(locks, count) : 0;
    if (all == 0) {
        hf__error_set(err, HF_EINVAL,
                      "several locks as one need at least one, and none that "
                      "is NULL");
        return NULL;
    }
    hf_lock *lock = calloc(1, sizeof(*lock));
    hf__multi *multi =
        calloc(1, sizeof(*multi) + all * sizeof(multi->members[0]));
    if (!lock || !multi) {
        free(lock);
        free(multi);
        hf__error_nomem(err);
        return NULL;
    }
    multi->refs = 1;
    multi->one_client = true;
    hf_status status = add_all(multi, locks, count, err);
    if (status == HF_OK) {
        qsort(multi->members, multi->count, sizeof(multi->members[0]), compare);
        status = refuse_twins(multi, err);
    }
    if (status != HF_OK) {
        hf__multi_unref(multi);
        free(lock);
        return NULL;
    }
    *lock = *first_given(multi);
    lock->multi = multi;
    return lock;
}

void hf__multi_free(hf_lock *lock)
{
    hf__multi_unref(lock->multi);
    free(lock);
}

bool hf__multi_equal(const hf__multi *a, const hf__multi *b)
{
    bool equal = a->count == b->count;
    for (size_t i = 0; equal && a != b && i < a->count; i++) {
        const hf_lock *one = &a->members[i].lock;
        const hf_lock *other = &b->members[i].lock;
        equal = one->client == other->client &&
                one->goal.target == other->goal.target;
    }
    return equal;
}

/* -------------------------------------------------------------------- owners
 */

hf_owner *hf__multi_owner(const hf_lock *member, const hf_owner *owner,
                          hf_owner *room)
{
    if (!owner) {
        return NULL;
    }
    *room = (hf_owner){.client = member->client, .ordinal = owner->ordinal};
    return room;
}

static hf_status choose_owner(const hf__multi *multi, const hf_owner *owner,
                              uint64_t *ordinal, hf_error *err)
{
    for (size_t i = 0; owner && i < multi->count; i++) {
        if (multi->members[i].lock.client == owner->client) {
            *ordinal = owner->ordinal;
            return HF_OK;
        }
    }
    return hf__client_actor(multi->members[0].lock.client, owner, ordinal, err);
}

/* ---------------------------------------------------------------- acquiring */

#define NONE SIZE_MAX

typedef struct trial {
    hf__try t;
    bool begun;
} trial;

/* An acquisition of all. */
typedef struct run {
    hf__multi *multi;
    hf__multi_lease *whole;
    hf__thread *self;
    hf_acquire_options options; /* of all */
    bool once;
    int64_t deadline;
    const atomic_bool *stop;
    /* What came of the latest round. */
    hf_status status;
    bool passes;  /* what stood in the way may pass */
    size_t which; /* where it stood; NONE: nowhere in particular */
    hf_error error;
    trial trials[]; /* one for each member */
} run;

/* For one member. */
static hf_acquire_options options_for(const run *r, size_t i, hf_owner *room)
{
    hf_acquire_options options = r->options;
    options.owner =
        hf__multi_owner(&r->multi->members[i].lock, r->options.owner, room);
    options.wait_ms = 0;
    options.on_lost = hf__multi_lost;
    options.on_lost_arg = r->whole;
    return options;
}

static void all_is_well(run *r)
{
    r->status = HF_OK;
    r->which = NONE;
    r->passes = false;
}

/* What will not pass is the news; otherwise the first in the order. */
static void note(run *r, size_t which, hf_status status, const hf_error *why)
{
    bool passes = status == HF_NOT_ACQUIRED || hf_error_is_retriable(why);
    if (r->status == HF_OK || (r->passes && !passes) ||
        (r->passes == passes && which < r->which)) {
        r->status = status;
        r->passes = passes;
        r->which = which;
        r->error = *why;
    }
}

static bool stopped(const run *r)
{
    return r->stop && atomic_load(r->stop);
}

/* Holding nothing. */
static void wait_for(run *r, size_t which)
{
    hf_owner room;
    const hf_lock *lock = &r->multi->members[which].lock;
    hf_acquire_options options = options_for(r, which, &room);
    hf_error why = HF_ERROR_INIT;
    options.wait_ms = HF_WAIT_FOREVER;
    if (r->deadline != HF__NEVER) {
        options.wait_ms = (r->deadline - hf__now() + HF__MS - 1) / HF__MS;
        if (options.wait_ms <= 0) {
            return; /* what stood in the way last, stands */
        }
    }
    all_is_well(r);
    hf_status status = hf__goal_acquire(lock->client, &lock->goal, &options,
                                        &r->whole->parts[which].lease, &why);
    if (status != HF_OK) {
        note(r, which, status, &why);
    }
}

static void begin_trials(run *r)
{
    int64_t by = r->once ? HF__NEVER : r->deadline;
    for (size_t i = 0; i < r->multi->count; i++) {
        hf_owner room;
        trial *t = &r->trials[i];
        const hf_lock *lock = &r->multi->members[i].lock;
        if (r->whole->parts[i].lease) {
            continue;
        }
        int64_t latest = hf__now() + lock->client->command_timeout;
        hf_acquire_options options = options_for(r, i, &room);
        hf_error why = HF_ERROR_INIT;
        t->t.reply_by = by < latest ? by : latest;
        hf_status status =
            hf__try_begin(&t->t, lock->client, &lock->goal, &options, &why);
        t->begun = status == HF_OK;
        if (!t->begun) {
            note(r, i, status, &why);
            break;
        }
    }
}

static bool is_due(trial *t)
{
    return t->begun && hf__try_request(&t->t);
}

static void hear_trials(run *r)
{
    for (bool due = true; due && !stopped(r);) {
        due = false;
        for (size_t i = 0; i < r->multi->count; i++) {
            trial *t = &r->trials[i];
            if (is_due(t) &&
                !hf__multi_hear(r->multi, t->t.at.client,
                                hf__try_request(&t->t), t->t.at.reply_by,
                                r->stop) &&
                hf__now() < t->t.at.reply_by) {
                due = true;
            }
        }
    }
}

/* Those that were sent first: while another's turn is waited for, none is
 * kept. */
static void end_trials(run *r)
{
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < r->multi->count; i++) {
            trial *t = &r->trials[i];
            if (!t->begun || (pass == 0 && !is_due(t))) {
                continue;
            }
            hf_error why = HF_ERROR_INIT;
            hf_status status =
                hf__try_end(&t->t, &r->whole->parts[i].lease, &why);
            t->begun = false;
            if (status != HF_OK) {
                note(r, i, status, &why);
            }
        }
    }
}

/* What was granted first must not have grown old before the last was granted:
 * half of what was asked for is there, or it is asked for anew. What is renewed
 * needs but to live. */
static void publish(run *r)
{
    const hf_acquire_options *options = &r->options;
    int64_t asked = options->lease_ms + options->max_hold_ms; /* one is 0 */
    hf_error why = HF_ERROR_INIT;
    if (!hf__multi_publish(r->whole, asked * HF__MS / 2)) {
        hf__error_set_retriable(&why, HF_EUNREACHABLE,
                                "it took too long to acquire all %zu: the "
                                "first had ended, or nearly so, when the last "
                                "was granted",
                                r->multi->count);
        note(r, NONE, HF_EUNREACHABLE, &why);
    }
}

/* Once. Something else is tried if it fails but may pass. */
static void play(run *r)
{
    size_t which = r->which;
    if (which != NONE) {
        wait_for(r, which);
    } else {
        all_is_well(r);
    }
    if (r->status == HF_OK) {
        begin_trials(r);
        hear_trials(r);
        end_trials(r);
    }
    if (r->status == HF_OK) {
        publish(r);
    }
    if (r->status != HF_OK) {
        int64_t by = r->once ? HF__NEVER : r->deadline;
        hf__multi_undo(r->whole, stopped(r) ? 0 : by);
    }
}

static void pause_between(run *r, unsigned rounds)
{
    if (rounds < ROUNDS_AT_ONCE) {
        return;
    }
    const hf__seam *seam = &r->whole->lease.client->seam;
    int64_t until = hf__now() + hf__seam_jitter(seam, PAUSE_MAX);
    until = until < r->deadline ? until : r->deadline;
    while (hf__now() < until && !stopped(r)) {
        hf__park(&r->self->parker, until);
    }
}

static hf_status acquire(run *r)
{
    r->which = NONE;
    for (unsigned rounds = 1;; rounds++) {
        play(r);
        if (r->status == HF_OK || !r->passes || r->once ||
            hf__now() >= r->deadline) {
            return r->status;
        }
        pause_between(r, rounds);
    }
}

static hf_status prepare(run *r, hf_lock *lock, const hf_acquire_options *given,
                         bool handed_out, hf_error *err)
{
    uint64_t ordinal = 0;
    r->multi = lock->multi;
    r->self = hf__thread_self();
    hf_status status = hf__acquire_options(given, &r->options, err);
    for (size_t i = 0; i < r->multi->count && status == HF_OK; i++) {
        status = hf__client_usable(r->multi->members[i].lock.client, err);
    }
    if (status == HF_OK) {
        status = choose_owner(r->multi, r->options.owner, &ordinal, err);
    }
    if (status != HF_OK) {
        return status;
    }
    r->once = r->options.wait_ms == 0;
    r->deadline = r->options.wait_ms == HF_WAIT_FOREVER
                      ? HF__NEVER
                      : hf__now() + r->options.wait_ms * HF__MS;
    r->stop = hf__cancel_flag(r->options.cancel);
    r->whole = hf__multi_lease_new(lock, ordinal, &r->options, handed_out);
    return r->whole && r->self ? HF_OK : hf__error_nomem(err);
}

hf_status hf__multi_acquire(hf_lock *lock, const hf_acquire_options *given,
                            hf_lease **out, hf_error *err)
{
    run *r = calloc(1, sizeof(*r) + lock->multi->count * sizeof(r->trials[0]));
    if (!r) {
        return hf__error_nomem(err);
    }
    hf_status status = prepare(r, lock, given, out != NULL, err);
    if (status == HF_OK) {
        hf__cancel_entry watch;
        hf__cancel_watch(r->options.cancel, &watch, r->self);
        status = acquire(r);
        hf__cancel_unwatch(r->options.cancel, &watch);
        if (status != HF_OK) {
            hf__error_copy(err, &r->error);
        }
    }
    if (status == HF_OK && out) {
        *out = &r->whole->lease;
    } else if (status != HF_OK && r->whole) {
        hf__multi_lease_free(&r->whole->lease);
    }
    free(r);
    return status;
}

/* ---------------------------------------------------------------- releasing */

hf_status hf__multi_release(hf_lock *lock, const hf_owner *owner, hf_error *err)
{
    uint64_t ordinal = 0;
    hf_status status = hf__client_usable(lock->client, err);
    if (status != HF_OK ||
        (status = choose_owner(lock->multi, owner, &ordinal, err)) != HF_OK) {
        return status;
    }
    status = hf__multi_give_back_latest(lock, ordinal, err);
    if (status != HF_ENOTHELD) {
        return status;
    }
    hf_error why = HF_ERROR_INIT;
    hf__error_set(&why, HF_ENOTHELD,
                  "not held by this owner as one of these %zu: never acquired, "
                  "released or lost",
                  lock->multi->count);
    return hf__target_error(lock->client, lock->goal.target, err, &why);
}

/* All of them, even if one fails. */
hf_status hf__multi_force(hf_lock *lock, int *released, hf_error *err)
{
    hf_status status = HF_OK;
    int any = 0;
    for (size_t i = 0; i < lock->multi->count; i++) {
        int one = 0;
        hf_error why = HF_ERROR_INIT;
        hf_status each =
            hf_lock_force_release(&lock->multi->members[i].lock, &one, &why);
        any = any || one;
        if (each != HF_OK && status == HF_OK) {
            status = hf__error_copy(err, &why);
        }
    }
    if (status == HF_OK && released) {
        *released = any;
    }
    return status;
}
