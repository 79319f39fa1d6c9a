/* Lock handles, and what may be asked of a lock. */
#include "client/client_int.h"

#include "kinds/lock.h"

#include <stdlib.h>

hf_lock *hf_lock_open_bytes(hf_client *client, const void *name, size_t length,
                            hf_error *err)
{
    if (!client || !name || length == 0) {
        hf__error_set(err, HF_EINVAL, "a lock needs a client and a name");
        return NULL;
    }
    if (length > HF_NAME_MAX) {
        hf__error_set(err, HF_EINVAL,
                      "a lock's name has at most %zu bytes, not %zu",
                      HF_NAME_MAX, length);
        return NULL;
    }
    if (hf__client_usable(client, err) != HF_OK) {
        return NULL;
    }
    hf_lock *lock = calloc(1, sizeof(*lock));
    if (!lock) {
        hf__error_nomem(err);
        return NULL;
    }
    pthread_mutex_lock(&client->mutex);
    lock->target = hf__book_target(&client->book, &hf__kind_lock,
                                   (hf__slice){name, length});
    pthread_mutex_unlock(&client->mutex);
    if (!lock->target) {
        hf__error_nomem(err);
        free(lock);
        return NULL;
    }
    lock->client = hf__client_ref(client);
    return lock;
}

hf_lock *hf_lock_open(hf_client *client, const char *name, hf_error *err)
{
    return hf_lock_open_bytes(client, name, name ? strlen(name) : 0, err);
}

void hf_lock_free(hf_lock *lock)
{
    if (!lock) {
        return;
    }
    hf_client *client = lock->client;
    if (!hf__client_inherited(client)) {
        pthread_mutex_lock(&client->mutex);
        if (!atomic_load(&client->closed)) {
            hf__book_drop_target(&client->book, lock->target);
        }
        pthread_mutex_unlock(&client->mutex);
    }
    hf__client_unref(client);
    free(lock);
}

/* ---------------------------------------------------------------- releasing */

static hf_status not_held(const hf_lock *lock, uint64_t ordinal, hf_error *err)
{
    char id[HF__OWNER_SIZE];
    hf__book_owner_id(&lock->client->book, ordinal, id);
    hf_error why = HF_ERROR_INIT;
    hf__error_set(&why, HF_ENOTHELD,
                  "not held by %s: never acquired, released or lost", id);
    return hf__target_error(lock->client, lock->target, err, &why);
}

hf_status hf_lock_release(hf_lock *lock, hf_owner *owner, hf_error *err)
{
    uint64_t ordinal = 0;
    if (!lock) {
        return hf__error_set(err, HF_EINVAL, "lock is NULL");
    }
    hf_client *client = lock->client;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK ||
        (status = hf__client_actor(client, owner, &ordinal, err)) != HF_OK) {
        return status;
    }
    status = hf__lease_give_back_latest(client, lock->target, ordinal, err);
    return status == HF_ENOTHELD ? not_held(lock, ordinal, err) : status;
}

/* ---------------------------------------------------------------- questions */

static hf_status ask(hf_lock *lock, const hf__call *call, hf__answer *answer,
                     hf_error *err)
{
    hf_error why = HF_ERROR_INIT;
    hf_status status =
        hf__client_ask(lock->client, call, answer, HF__NEVER, NULL, &why);
    if (status != HF_OK) {
        return hf__target_error(lock->client, lock->target, err, &why);
    }
    return HF_OK;
}

static hf_status start(hf_lock *lock, const char *command, hf__call *call,
                       hf_error *err)
{
    if (!lock) {
        return hf__error_set(err, HF_EINVAL, "lock is NULL");
    }
    hf_status status = hf__client_usable(lock->client, err);
    if (status != HF_OK) {
        return status; /* the target has gone with its client */
    }
    hf__call_begin(call, NULL);
    hf__call_add(call, hf__slice_of(command));
    hf__call_add(call, lock->target->name);
    return HF_OK;
}

static hf_status ask_of_owner(hf_lock *lock, const char *command,
                              hf_owner *owner, hf__answer *answer,
                              hf_error *err)
{
    char id[HF__OWNER_SIZE];
    uint64_t ordinal = 0;
    hf__call call;
    hf_status status = start(lock, command, &call, err);
    if (status != HF_OK || (status = hf__client_actor(
                                lock->client, owner, &ordinal, err)) != HF_OK) {
        return status;
    }
    hf__book_owner_id(&lock->client->book, ordinal, id);
    hf__call_add(&call, hf__slice_of(id));
    return ask(lock, &call, answer, err);
}

hf_status hf_lock_is_locked(hf_lock *lock, int *locked, hf_error *err)
{
    hf__call call;
    hf__answer answer;
    hf_status status = start(lock, "EXISTS", &call, err);
    if (status == HF_OK && (status = ask(lock, &call, &answer, err)) == HF_OK) {
        *locked = answer.integer != 0;
    }
    return status;
}

hf_status hf_lock_is_held_by(hf_lock *lock, hf_owner *owner, int *held,
                             hf_error *err)
{
    hf__answer answer;
    hf_status status = ask_of_owner(lock, "HEXISTS", owner, &answer, err);
    if (status == HF_OK) {
        *held = answer.integer != 0;
    }
    return status;
}

hf_status hf_lock_hold_count(hf_lock *lock, hf_owner *owner, int64_t *count,
                             hf_error *err)
{
    hf__answer answer;
    hf_status status = ask_of_owner(lock, "HGET", owner, &answer, err);
    if (status == HF_OK) {
        *count =
            answer.type == HF__VALUE_NIL ? 0 : strtoll(answer.text, NULL, 10);
    }
    return status;
}

hf_status hf_lock_remaining_ms(hf_lock *lock, int64_t *remaining_ms,
                               hf_error *err)
{
    hf__call call;
    hf__answer answer;
    hf_status status = start(lock, "PTTL", &call, err);
    if (status == HF_OK && (status = ask(lock, &call, &answer, err)) == HF_OK) {
        *remaining_ms = answer.integer;
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
    hf_client *client = lock->client;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK) {
        return status;
    }
    hf__asker asker = {.name = lock->target->name,
                       .channel = lock->target->channel};
    lock->target->kind->force(&call, &asker);
    int64_t asked_at = hf__now();
    hf_error why = HF_ERROR_INIT;
    if (hf__client_tell(client, &call, &answer, &why) != HF_OK) {
        return hf__target_error(client, lock->target, err, &why);
    }
    pthread_mutex_lock(&client->mutex);
    hf__book_revoke(&client->book, lock->target, asked_at);
    hf__keeper_notice(client);
    pthread_mutex_unlock(&client->mutex);
    if (released) {
        *released = answer.integer != 0;
    }
    return HF_OK;
}
