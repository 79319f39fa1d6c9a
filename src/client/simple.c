/* Conveniences: a callback under a lock of any kind, and the release of a
 * simple lock by whoever has its token. */
#include "client/client_int.h"

#include "kinds/simple.h"

#include <errno.h>
#include <stdlib.h>

/* ------------------------------------------------------- a call under a lock
 */

/* A copy with a NUL behind: the program may close the client meanwhile. */
static char *copy_name(hf__slice name)
{
    char *copy = malloc(name.length + 1);
    if (copy) {
        memcpy(copy, name.data, name.length);
        copy[name.length] = '\0';
    }
    return copy;
}

hf_status hf_with_lock(hf_lock *lock, const hf_acquire_options *options,
                       hf_with_fn fn, void *arg, int *returned, hf_error *err)
{
    if (!lock || !fn) {
        return hf__error_set(err, HF_EINVAL, "%s is NULL",
                             lock ? "the function" : "lock");
    }
    hf_status status = hf__client_usable(lock->client, err);
    if (status != HF_OK) {
        return status; /* the target has gone with its client */
    }
    hf__slice name = lock->goal.target->name;
    char *key = copy_name(name);
    if (!key) {
        return hf__error_nomem(err);
    }
    hf_lease *lease = NULL;
    hf_with_context context = {
        .struct_size = sizeof(context), .key = key, .key_length = name.length};
    status = hf_lock_acquire_with(lock, options, &lease, err);
    context.success = status == HF_OK;
    context.status = status;
    context.lease = lease;
    context.token = lease ? hf_lease_owner_id(lease) : NULL;
    int value = fn(arg, &context);
    if (lease) {
        status = hf_lease_release(lease, err);
        hf_lease_free(lease);
    }
    free(key);
    if (returned) {
        *returned = value;
    }
    return status;
}

/* -------------------------------------------------- a release by its token */

/* The ordinal in an owner's id that is this client's; 0 if it is not. */
static uint64_t own_ordinal(const hf_client *client, const char *token)
{
    size_t length = strlen(client->book.uuid);
    char *end = NULL;
    if (strncmp(token, client->book.uuid, length) != 0 ||
        token[length] != ':') {
        return 0;
    }
    errno = 0;
    unsigned long long ordinal = strtoull(token + length + 1, &end, 10);
    return errno == 0 && *end == '\0' ? ordinal : 0;
}

static hf_status delete_by_token(hf_client *client, const hf__target *target,
                                 const char *token, int *result, hf_error *err)
{
    hf__call call;
    hf__answer answer;
    hf_error why = HF_ERROR_INIT;
    hf__asker asker = hf__target_asker(target);
    asker.owner = hf__slice_of(token);
    hf__simple_delete(&call, &asker);
    hf_status status = hf__client_tell(client, &call, &answer, &why);
    if (status == HF_OK && (answer.type != HF__VALUE_INTEGER ||
                            answer.integer < -1 || answer.integer > 1)) {
        status = hf__error_set(&why, HF_EPROTOCOL,
                               "the server's reply is none of this script");
    }
    if (status != HF_OK) {
        return hf__target_error(client, target, err, &why);
    }
    *result = (int)answer.integer;
    return HF_OK;
}

static hf_status no_turn(const hf_client *client, const hf__target *target,
                         hf_error *err)
{
    hf_error why = HF_ERROR_INIT;
    hf__error_set_retriable(&why, HF_EUNREACHABLE,
                            "another command of this owner is not answered");
    return hf__target_error(client, target, err, &why);
}

/* For an owner of this client that has nothing: not while it acquires, or its
 * new lease would be deleted and not know. HF_EHELD: by now it has one. */
static hf_status delete_in_turn(hf_client *client, hf__target *target,
                                uint64_t ordinal, const char *token,
                                int *result, hf_error *err)
{
    hf_status status = HF_EHELD;
    hf__thread *self = hf__thread_self();
    int64_t deadline = hf__now() + client->command_timeout;
    pthread_mutex_lock(&client->mutex);
    hf__hold *hold = self ? hf__book_pin(&client->book, target, ordinal) : NULL;
    if (!hold) {
        status = hf__error_nomem(err);
    } else if (!hf__turn_take(client, hold, self, deadline, NULL)) {
        status = no_turn(client, target, err);
        hf__book_unpin(&client->book, hold);
    } else {
        if (hf__book_live(&client->book, hold) == 0) {
            pthread_mutex_unlock(&client->mutex);
            status = delete_by_token(client, target, token, result, err);
            pthread_mutex_lock(&client->mutex);
        }
        hf__turn_give(client, hold);
        hf__book_unpin(&client->book, hold);
    }
    hf__keeper_notice(client);
    pthread_mutex_unlock(&client->mutex);
    return status;
}

/* What this client knows to be held is released as ever, so that its lease
 * knows, too. */
static hf_status release_own(hf_client *client, hf__target *target,
                             uint64_t ordinal, const char *token, int *result,
                             hf_error *err)
{
    hf_status status = HF_EHELD;
    while (status == HF_EHELD) {
        hf_error why = HF_ERROR_INIT;
        status = hf__lease_give_back_latest(client, target, ordinal, &why);
        if (status != HF_ENOTHELD && status != HF_ELOST) {
            *result = 1;
            return status == HF_OK ? HF_OK : hf__error_copy(err, &why);
        }
        status = delete_in_turn(client, target, ordinal, token, result, err);
    }
    return status;
}

hf_status hf_simple_release(hf_client *client, const char *name,
                            const char *token, int *result, hf_error *err)
{
    hf__goal goal;
    int released = 0;
    if (!token || *token == '\0') {
        return hf__error_set(err, HF_EINVAL, "a release needs a token");
    }
    hf_status status = hf__goal_open(client, &hf__kind_simple, name,
                                     name ? strlen(name) : 0, &goal, err);
    if (status != HF_OK) {
        return status;
    }
    uint64_t ordinal = own_ordinal(client, token);
    status =
        ordinal > 0
            ? release_own(client, goal.target, ordinal, token, &released, err)
            : delete_by_token(client, goal.target, token, &released, err);
    hf__goal_close(client, &goal);
    if (status == HF_OK && result) {
        *result = released;
    }
    return status;
}
