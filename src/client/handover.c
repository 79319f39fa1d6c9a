/* From one process to another: a lease that is let go without a release, and
 * one that goes on where another has ended. */
#include "client/client_int.h"

static void take_first(void *arg, const hf__value *array)
{
    const hf__value *first = array->first;
    bool answered = first && first->type == HF__VALUE_INTEGER;
    *(int *)arg = answered ? (int)first->integer : -1;
}

/* Renews one hold. *found as in hf__renewal. */
static hf_status renew(hf_client *client, const hf__hold *hold, int64_t lease,
                       int *found, hf_error *err)
{
    hf__call call;
    hf__call_begin(&call, hold->target->kind->renew);
    hf__call_add(&call, hold->target->name);
    call.keys = 1;
    hf__call_add_number(&call, 0, lease / HF__MS);
    hf__call_add(&call, (hf__slice){hold->owner, hold->owner_length});
    hf_status status = hf__client_query(client, &call, take_first, found, err);
    if (status == HF_OK && *found < 0) {
        status = hf__error_set(err, HF_ESERVER,
                               "the server refused to renew the lease");
    }
    return status;
}

static hf_status check_lease(int64_t lease_ms, hf_error *err)
{
    if (lease_ms < HF_LEASE_MIN_MS || lease_ms > HF_LEASE_MAX_MS) {
        return hf__error_set(err, HF_EINVAL,
                             "a lease is from %d ms to a year, not %lld ms",
                             (int)HF_LEASE_MIN_MS, (long long)lease_ms);
    }
    return HF_OK;
}

/* ------------------------------------------------------------ handing over */

/* Its hold is not looked at after its end, for it may be gone. */
static hf_status has_ended(hf_client *client, hf_lease *lease, hf_error *err)
{
    if (atomic_load(&lease->core.state) == HF_LEASE_RELEASED) {
        return hf__error_set(err, HF_ENOTHELD,
                             "the lease of %s was released before",
                             lease->owner);
    }
    if (hf__book_expire(&client->book, &lease->core)) {
        return hf__error_set(err, HF_ELOST, "the lease of %s was lost before",
                             lease->owner);
    }
    return HF_OK;
}

static hf_status may_be_handed_over(const hf_lease *lease, hf_error *err)
{
    const hf__hold *hold = lease->core.hold;
    if (hold->target->kind->anonymous) {
        return hf__error_set(err, HF_EINVAL, "a %s has no owner to hand it to",
                             hold->target->kind->noun);
    }
    if (lease->thread_owned) {
        return hf__error_set(err, HF_EINVAL,
                             "held by a thread, whose id others cannot take "
                             "over: acquire it for an hf_owner");
    }
    if (hold->live != 1) {
        return hf__error_set(err, HF_EINVAL,
                             "%s holds it %zu times: who adopts it would not "
                             "know how often to release it",
                             hold->owner, hold->live);
    }
    return HF_OK;
}

/* The turn is ours. The client's mutex is held, and given up meanwhile. */
static hf_status let_go(hf_client *client, hf_lease *lease, int64_t lease_ms,
                        hf_error *err)
{
    hf__hold *hold = lease->core.hold;
    int found = -1;
    int64_t asked_at = hf__now();
    pthread_mutex_unlock(&client->mutex);
    hf_status status = renew(client, hold, lease_ms * HF__MS, &found, err);
    pthread_mutex_lock(&client->mutex);
    if (status != HF_OK) {
        return status;
    }
    if (found == 0) {
        hf__book_forgotten(&client->book, hold, asked_at);
    }
    if (!hf__book_leave(&client->book, &lease->core)) {
        return hf__error_set(err, HF_ELOST, "the lease was lost meanwhile");
    }
    hold->handed = true;
    return HF_OK;
}

static hf_status hand_over(hf_client *client, hf_lease *lease, int64_t lease_ms,
                           hf_error *err)
{
    hf__thread *self = hf__thread_self();
    hf__hold *hold = lease->core.hold;
    hf_status status =
        self ? may_be_handed_over(lease, err) : hf__error_nomem(err);
    if (status != HF_OK) {
        return status;
    }
    hold->pins++;
    if (hf__turn_take(client, hold, self, hf__now() + client->command_timeout,
                      NULL)) {
        status = let_go(client, lease, lease_ms, err);
        hf__turn_give(client, hold);
    } else {
        status = hf__error_set_retriable(err, HF_EUNREACHABLE,
                                         "another command of this owner has "
                                         "not been answered in time");
    }
    hf__book_unpin(&client->book, hold);
    return status;
}

hf_status hf_lease_hand_over(hf_lease *lease, int64_t lease_ms, hf_error *err)
{
    if (!lease) {
        return hf__error_set(err, HF_EINVAL, "lease is NULL");
    }
    if (lease->multi) {
        return hf__error_set(err, HF_EINVAL,
                             "a lease of several locks cannot be handed over");
    }
    hf_client *client = lease->client;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK || (status = check_lease(lease_ms, err)) != HF_OK) {
        return status;
    }
    hf_error why = HF_ERROR_INIT;
    const hf__target *target = NULL;
    pthread_mutex_lock(&client->mutex);
    status = has_ended(client, lease, err);
    if (status == HF_OK) {
        target = lease->core.hold->target;
        status = hand_over(client, lease, lease_ms, &why);
    }
    hf__keeper_notice(client);
    pthread_mutex_unlock(&client->mutex);
    return status != HF_OK && target
               ? hf__target_error(client, target, err, &why)
               : status;
}

/* ---------------------------------------------------------------- adopting */

/* The id without what this kind adds to it, if it has that. */
static hf__slice bare_id(const hf__kind *kind, const char *owner_id)
{
    hf__slice id = hf__slice_of(owner_id);
    size_t more = kind->owner_suffix ? strlen(kind->owner_suffix) : 0;
    if (more > 0 && id.length > more &&
        strcmp(owner_id + id.length - more, kind->owner_suffix) == 0) {
        id.length -= more;
    }
    return id;
}

static hf_status check_adoption(const hf_lock *lock, const char *owner_id,
                                hf_error *err)
{
    const hf__kind *kind = lock->goal.target->kind;
    if (kind->anonymous) {
        return hf__error_set(err, HF_EINVAL, "a %s has no owner", kind->noun);
    }
    hf__slice id = bare_id(kind, owner_id);
    if (id.length == 0 || id.length > HF__OWNER_SIZE - 8 ||
        !memchr(id.data, ':', id.length)) {
        return hf__error_set(err, HF_EINVAL, "\"%.80s\" is no owner's id",
                             owner_id);
    }
    return HF_OK;
}

/* Nobody else knows the hold yet, so its turn is ours. The client's mutex is
 * held, and given up meanwhile. */
static hf_status adopt(hf_client *client, hf__hold *hold, hf_lease *lease,
                       const hf__terms *terms, hf_error *err)
{
    int found = -1;
    hf__grant grant = {.sent_at = hf__now()};
    grant.asked = hf__book_lease_to_ask(&client->book, hold, terms);
    hold->busy = true;
    pthread_mutex_unlock(&client->mutex);
    hf_status status = renew(client, hold, grant.asked, &found, err);
    pthread_mutex_lock(&client->mutex);
    if (status == HF_OK && found == 0) {
        status = hf__error_set(err, HF_ENOTHELD, "not held by %s", hold->owner);
    } else if (status == HF_OK &&
               hf__now() >= hf__lease_deadline(grant.sent_at, grant.asked)) {
        status = hf__error_set_retriable(err, HF_EUNREACHABLE,
                                         "the server took as long to answer as "
                                         "the lease lasts");
    } else if (status == HF_OK) {
        hf__book_granted(&client->book, hold, &lease->core, terms, &grant);
    }
    hf__turn_give(client, hold);
    return status;
}

static hf_status adopt_for(hf_lock *lock, const char *owner_id,
                           const hf_acquire_options *options, hf_lease *lease,
                           hf_error *err)
{
    hf_client *client = lock->client;
    const hf__terms terms = {.fixed = options->lease_ms * HF__MS,
                             .max_hold = options->max_hold_ms * HF__MS};
    pthread_mutex_lock(&client->mutex);
    hf__hold *hold =
        hf__book_pin(&client->book, lock->goal.target, hf__next_ordinal());
    if (!hold) {
        pthread_mutex_unlock(&client->mutex);
        return hf__error_nomem(err);
    }
    hf__book_adopt(hold, bare_id(hold->target->kind, owner_id));
    memcpy(lease->owner, hold->owner, sizeof(lease->owner));
    hf_status status = adopt(client, hold, lease, &terms, err);
    hf__book_unpin(&client->book, hold);
    hf__keeper_notice(client);
    pthread_mutex_unlock(&client->mutex);
    return status;
}

hf_status hf_lock_adopt(hf_lock *lock, const char *owner_id,
                        const hf_acquire_options *given, hf_lease **out,
                        hf_error *err)
{
    hf_acquire_options options;
    hf_error why = HF_ERROR_INIT;
    if (!lock || !owner_id || !out) {
        return hf__error_set(err, HF_EINVAL, "lock, owner_id or lease is NULL");
    }
    if (lock->multi) {
        return hf__error_set(err, HF_EINVAL,
                             "several locks as one cannot be adopted");
    }
    hf_client *client = lock->client;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK ||
        (status = hf__acquire_options(given, &options, err)) != HF_OK) {
        return status;
    }
    hf_lease *lease = hf__lease_new(client, &options, true);
    if (!lease) {
        return hf__error_nomem(err);
    }
    status = check_adoption(lock, owner_id, &why);
    if (status == HF_OK) {
        status = adopt_for(lock, owner_id, &options, lease, &why);
    }
    if (status != HF_OK) {
        hf__lease_drop(lease);
        return hf__target_error(client, lock->goal.target, err, &why);
    }
    *out = lease;
    return HF_OK;
}
