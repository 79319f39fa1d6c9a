/* Lock handles, and what may be asked of a lock. */
#include "client/client_int.h"
#include "client/multi.h"

#include "kinds/kinds.h"

#include <inttypes.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ opening */

#define FAIR_WAIT_MS 300000 /* Redisson's fairLockWaitTimeout */

static hf_status check_options(const hf_lock_options *options, hf_error *err)
{
    const int64_t times[] = {options->fair_wait_ms, options->token_life_ms,
                             options->backoff_first_ms,
                             options->backoff_max_ms};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        if (times[i] < 0 || times[i] > HF_LEASE_MAX_MS) {
            return hf__error_set(err, HF_EINVAL,
                                 "a time of %" PRId64 " ms is not from 0 to "
                                 "%" PRId64,
                                 times[i], HF_LEASE_MAX_MS);
        }
    }
    if (!hf__kind_of(options->kind)) {
        return hf__error_set(err, HF_EINVAL, "there is no kind of lock %d",
                             (int)options->kind);
    }
    return HF_OK;
}

static int64_t or_else(int64_t given, int64_t otherwise)
{
    return given != 0 ? given : otherwise;
}

static void set_goal(hf__goal *goal, const hf_lock_options *options)
{
    const hf__kind *kind = hf__kind_of(options->kind);
    int64_t first = or_else(options->backoff_first_ms, kind->backoff_first_ms);
    int64_t most = or_else(options->backoff_max_ms, kind->backoff_max_ms);
    goal->wish =
        (hf__wish){.fair_wait_ms = or_else(options->fair_wait_ms, FAIR_WAIT_MS),
                   .token_life_ms = options->token_life_ms,
                   .permits = 1,
                   .prefer_writers = options->prefer_writers != 0};
    goal->backoff_first = first * HF__MS;
    goal->backoff_max = (most > first ? most : first) * HF__MS;
}

hf_status hf__goal_open(hf_client *client, const hf__kind *kind,
                        const void *name, size_t length, hf__goal *goal,
                        hf_error *err)
{
    if (!client || !name || length == 0) {
        return hf__error_set(err, HF_EINVAL, "a %s needs a client and a name",
                             kind->noun);
    }
    if (length > HF_NAME_MAX) {
        return hf__error_set(err, HF_EINVAL,
                             "a name has at most %zu bytes, not %zu",
                             HF_NAME_MAX, length);
    }
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK) {
        return status;
    }
    pthread_mutex_lock(&client->mutex);
    goal->target =
        hf__book_target(&client->book, kind, (hf__slice){name, length});
    pthread_mutex_unlock(&client->mutex);
    if (!goal->target) {
        return hf__error_nomem(err);
    }
    hf__client_ref(client);
    return HF_OK;
}

void hf__goal_close(hf_client *client, hf__goal *goal)
{
    if (!hf__client_inherited(client)) {
        pthread_mutex_lock(&client->mutex);
        if (!atomic_load(&client->closed)) {
            hf__book_drop_target(&client->book, goal->target);
        }
        pthread_mutex_unlock(&client->mutex);
    }
    hf__client_unref(client);
}

hf_lock *hf_lock_open_with(hf_client *client, const void *name, size_t length,
                           const hf_lock_options *given, hf_error *err)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    if (given && hf__options_copy(&options, sizeof(options), given,
                                  given->struct_size, err) != HF_OK) {
        return NULL;
    }
    if (check_options(&options, err) != HF_OK) {
        return NULL;
    }
    hf_lock *lock = calloc(1, sizeof(*lock));
    if (!lock) {
        hf__error_nomem(err);
        return NULL;
    }
    lock->client = client;
    set_goal(&lock->goal, &options);
    if (hf__goal_open(client, hf__kind_of(options.kind), name, length,
                      &lock->goal, err) != HF_OK) {
        free(lock);
        return NULL;
    }
    return lock;
}

hf_lock *hf_lock_open_bytes(hf_client *client, const void *name, size_t length,
                            hf_error *err)
{
    return hf_lock_open_with(client, name, length, NULL, err);
}

hf_lock *hf_lock_open(hf_client *client, const char *name, hf_error *err)
{
    return hf_lock_open_bytes(client, name, name ? strlen(name) : 0, err);
}

void hf_lock_free(hf_lock *lock)
{
    if (lock && lock->multi) {
        hf__multi_free(lock);
    } else if (lock) {
        hf__goal_close(lock->client, &lock->goal);
        free(lock);
    }
}

/* ---------------------------------------------------------------- releasing */

static hf_status not_held(const hf_lock *lock, uint64_t ordinal, hf_error *err)
{
    char id[HF__OWNER_SIZE];
    hf__book_owner_id(&lock->client->book, lock->goal.target->kind, ordinal,
                      id);
    hf_error why = HF_ERROR_INIT;
    hf__error_set(&why, HF_ENOTHELD,
                  "not held by %s: never acquired, released or lost", id);
    return hf__target_error(lock->client, lock->goal.target, err, &why);
}

hf_status hf_lock_release(hf_lock *lock, hf_owner *owner, hf_error *err)
{
    uint64_t ordinal = 0;
    if (!lock) {
        return hf__error_set(err, HF_EINVAL, "lock is NULL");
    }
    if (lock->multi) {
        return hf__multi_release(lock, owner, err);
    }
    hf_client *client = lock->client;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK ||
        (status = hf__client_actor(client, owner, &ordinal, err)) != HF_OK) {
        return status;
    }
    status =
        hf__lease_give_back_latest(client, lock->goal.target, ordinal, err);
    return status == HF_ENOTHELD ? not_held(lock, ordinal, err) : status;
}

/* ---------------------------------------------------------------- questions */

/* What the kind's look answers. */
typedef struct look {
    int locked;
    int64_t count;
    int64_t remaining_ms;
} look;

/* "LOCKED COUNT REMAINING" */
static bool read_look(const char *text, look *seen)
{
    int64_t numbers[3];
    for (size_t i = 0; i < 3; i++) {
        char *end = NULL;
        numbers[i] = strtoll(text, &end, 10);
        if (end == text || *end != (i < 2 ? ' ' : '\0')) {
            return false;
        }
        text = end;
    }
    *seen = (look){numbers[0] != 0, numbers[1], numbers[2]};
    return true;
}

static hf_status look_with_id(hf_lock *lock, hf__slice id, look *seen,
                              hf_error *err)
{
    hf__call call;
    hf__answer answer;
    const hf__target *target = lock->goal.target;
    hf__asker asker = hf__target_asker(target);
    hf_error why = HF_ERROR_INIT;
    asker.owner = id;
    target->kind->look(&call, &asker);
    hf_status status =
        hf__client_ask(lock->client, &call, &answer, HF__NEVER, NULL, &why);
    if (status == HF_OK && !read_look(answer.text, seen)) {
        status = hf__error_set(&why, HF_EPROTOCOL,
                               "the server's reply is none of this script");
    }
    return status == HF_OK ? HF_OK
                           : hf__target_error(lock->client, target, err, &why);
}

static hf_status look_at_one(hf_lock *lock, const hf_owner *owner, look *seen,
                             hf_error *err)
{
    char id[HF__OWNER_SIZE];
    uint64_t ordinal = 0;
    hf_status status = hf__client_usable(lock->client, err);
    if (status != HF_OK || (status = hf__client_actor(
                                lock->client, owner, &ordinal, err)) != HF_OK) {
        return status; /* the target has gone with its client */
    }
    size_t length = hf__book_owner_id(&lock->client->book,
                                      lock->goal.target->kind, ordinal, id);
    return look_with_id(lock, (hf__slice){id, length}, seen, err);
}

/* Several together are locked as soon as one is, and held if all are. */
static void combine(look *all, const look *one)
{
    bool endless = one->remaining_ms < 0;
    all->locked = all->locked || one->locked;
    all->count = one->count < all->count ? one->count : all->count;
    if (one->locked &&
        (all->remaining_ms == -2 || (all->remaining_ms == -1 && !endless) ||
         (!endless && one->remaining_ms < all->remaining_ms))) {
        all->remaining_ms = one->remaining_ms;
    }
}

static hf_status look_for(hf_lock *lock, const hf_owner *owner, look *seen,
                          hf_error *err)
{
    *seen = (look){.count = INT64_MAX, .remaining_ms = -2};
    if (!lock) {
        return hf__error_set(err, HF_EINVAL, "lock is NULL");
    }
    if (!lock->multi) {
        return look_at_one(lock, owner, seen, err);
    }
    for (size_t i = 0; i < lock->multi->count; i++) {
        look one = {0};
        hf_owner room;
        hf_lock *member = &lock->multi->members[i].lock;
        hf_status status = look_at_one(
            member, hf__multi_owner(member, owner, &room), &one, err);
        if (status != HF_OK) {
            return status;
        }
        combine(seen, &one);
    }
    return HF_OK;
}

hf_status hf_lock_is_locked(hf_lock *lock, int *locked, hf_error *err)
{
    look seen;
    hf_status status = look_for(lock, NULL, &seen, err);
    if (status == HF_OK) {
        *locked = seen.locked;
    }
    return status;
}

hf_status hf_lock_is_held_by(hf_lock *lock, hf_owner *owner, int *held,
                             hf_error *err)
{
    look seen;
    hf_status status = look_for(lock, owner, &seen, err);
    if (status == HF_OK) {
        *held = seen.count > 0;
    }
    return status;
}

hf_status hf_lock_hold_count(hf_lock *lock, hf_owner *owner, int64_t *count,
                             hf_error *err)
{
    look seen;
    hf_status status = look_for(lock, owner, &seen, err);
    if (status == HF_OK) {
        *count = seen.count;
    }
    return status;
}

hf_status hf_lock_remaining_ms(hf_lock *lock, int64_t *remaining_ms,
                               hf_error *err)
{
    look seen;
    hf_status status = look_for(lock, NULL, &seen, err);
    if (status == HF_OK) {
        *remaining_ms = seen.remaining_ms;
    }
    return status;
}

hf_status hf_lock_force_release(hf_lock *lock, int *released, hf_error *err)
{
    hf__call call;
    hf__answer answer;
    if (!lock) {
        return hf__error_set(err, HF_EINVAL, "lock is NULL");
    }
    if (lock->multi) {
        return hf__multi_force(lock, released, err);
    }
    hf_client *client = lock->client;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK) {
        return status;
    }
    hf__asker asker = hf__target_asker(lock->goal.target);
    if (!lock->goal.target->kind->force) {
        return hf__error_set(err, HF_EINVAL, "a %s has no forced release",
                             lock->goal.target->kind->noun);
    }
    lock->goal.target->kind->force(&call, &asker);
    int64_t asked_at = hf__now();
    hf_error why = HF_ERROR_INIT;
    if (hf__client_tell(client, &call, &answer, &why) != HF_OK) {
        return hf__target_error(client, lock->goal.target, err, &why);
    }
    pthread_mutex_lock(&client->mutex);
    hf__book_revoke(&client->book, lock->goal.target, asked_at);
    hf__keeper_notice(client);
    pthread_mutex_unlock(&client->mutex);
    if (released) {
        *released = answer.integer != 0;
    }
    return HF_OK;
}
