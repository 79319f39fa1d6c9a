/* The acquire as the program calls it: options, the lease's handle, and one
 * attempt. */
#include "client/attempt.h"
#include "client/multi.h"

#include <inttypes.h>
#include <stdlib.h>

static hf_status check_options(const hf_acquire_options *options, hf_error *err)
{
    int64_t lease = options->lease_ms;
    int64_t max_hold = options->max_hold_ms;
    if (options->wait_ms < HF_WAIT_FOREVER ||
        options->wait_ms > HF_LEASE_MAX_MS) {
        return hf__error_set(err, HF_EINVAL,
                             "wait_ms %" PRId64 " is not from -1 to %" PRId64,
                             options->wait_ms, HF_LEASE_MAX_MS);
    }
    if (lease != 0 && (lease < HF_LEASE_MIN_MS || lease > HF_LEASE_MAX_MS)) {
        return hf__error_set(err, HF_EINVAL,
                             "lease_ms %" PRId64 " is not from %" PRId64
                             " to %" PRId64,
                             lease, HF_LEASE_MIN_MS, HF_LEASE_MAX_MS);
    }
    if (max_hold != 0 &&
        (max_hold < HF_LEASE_MIN_MS || max_hold > HF_LEASE_MAX_MS)) {
        return hf__error_set(err, HF_EINVAL,
                             "max_hold_ms %" PRId64 " is not from %" PRId64
                             " to %" PRId64,
                             max_hold, HF_LEASE_MIN_MS, HF_LEASE_MAX_MS);
    }
    if (lease != 0 && max_hold != 0) {
        return hf__error_set(err, HF_EINVAL,
                             "a fixed lease (lease_ms) is never renewed: "
                             "max_hold_ms says nothing about it");
    }
    return HF_OK;
}

hf_status hf__acquire_options(const hf_acquire_options *given,
                              hf_acquire_options *options, hf_error *err)
{
    *options = (hf_acquire_options)HF_ACQUIRE_OPTIONS_INIT;
    hf_status status = given ? hf__options_copy(options, sizeof(*options),
                                                given, given->struct_size, err)
                             : HF_OK;
    return status == HF_OK ? check_options(options, err) : status;
}

static void set_up(hf__attempt *at, hf_client *client, const hf__goal *goal,
                   const hf_acquire_options *options)
{
    int64_t now = hf__now();
    memset(at, 0, sizeof(*at));
    at->client = client;
    at->target = goal->target;
    at->self = hf__thread_self();
    at->contender.thread = at->self;
    at->contender.waiter.shares = goal->target->kind->shared;
    at->stop = hf__cancel_flag(options->cancel);
    at->terms = (hf__terms){.fixed = options->lease_ms * HF__MS,
                            .max_hold = options->max_hold_ms * HF__MS};
    at->wish = goal->wish;
    at->wish.wait_ms = options->wait_ms;
    at->machine.kind = goal->target->kind;
    at->machine.seam = &client->seam;
    at->machine.once = options->wait_ms == 0;
    at->machine.deadline = options->wait_ms == HF_WAIT_FOREVER
                               ? HF__NEVER
                               : now + options->wait_ms * HF__MS;
    at->machine.poll_cap = client->poll_cap;
    at->machine.backoff_first = goal->backoff_first;
    at->machine.backoff_max = goal->backoff_max;
    at->reply_by =
        at->machine.once ? now + client->command_timeout : at->machine.deadline;
}

/* Who acquires. */
static hf_status choose_owner(const hf__attempt *at, hf_lease *lease,
                              const hf_owner *owner, uint64_t *ordinal,
                              hf_error *err)
{
    if (at->target->kind->anonymous) {
        *ordinal = hf__next_ordinal();
        return HF_OK;
    }
    lease->thread_owned = !owner;
    return hf__client_actor(at->client, owner, ordinal, err);
}

/* The owner's id, in hexadecimal digits where it is no text. */
static void copy_owner(hf_lease *lease, const hf__hold *hold)
{
    static const char digits[] = "0123456789abcdef";
    if (!hold->target->kind->owner_is_raw) {
        memcpy(lease->owner, hold->owner, sizeof(lease->owner));
        return;
    }
    for (size_t i = 0; i < HF__RAW_ID; i++) {
        unsigned char byte = (unsigned char)hold->owner[i];
        lease->owner[2 * i] = digits[byte >> 4];
        lease->owner[2 * i + 1] = digits[byte & 15];
    }
}

/* On HF_OK the client's mutex is held. */
static hf_status prepare(hf__attempt *at, hf_lease *lease,
                         const hf_owner *owner, hf_error *err)
{
    hf_client *client = at->client;
    uint64_t ordinal = 0;
    if (!at->self) {
        hf__error_nomem(err);
        return HF_ENOMEM;
    }
    hf_status status = choose_owner(at, lease, owner, &ordinal, err);
    if (status != HF_OK) {
        return status;
    }
    pthread_mutex_lock(&client->mutex);
    at->hold = hf__book_pin(&client->book, at->target, ordinal);
    if (!at->hold) {
        pthread_mutex_unlock(&client->mutex);
        hf__error_nomem(err);
        return HF_ENOMEM;
    }
    copy_owner(lease, at->hold);
    return HF_OK;
}

/* Whether it may be tried at all. Begins and ends with the client's mutex held;
 * ends the attempt if not. */
static hf_status admit(hf__attempt *at, hf_lease *lease)
{
    hf_client *client = at->client;
    const hf__kind *kind = at->target->kind;
    hf_status status = HF_EHELD;
    size_t live = kind->reentrant ? 0 : hf__book_live(&client->book, at->hold);
    if (at->hold->handed) {
        hf__error_set(&at->machine.error, HF_EHELD,
                      "%s has handed it over to another process", lease->owner);
    } else if (live > 0) {
        hf__error_set(&at->machine.error, HF_EHELD,
                      "%s holds it already, and this kind is not reentrant",
                      lease->owner);
    } else {
        status = hf__client_probe_once(client, at->target, at->reply_by,
                                       at->stop, &at->machine.error);
    }
    if (status != HF_OK) {
        hf__attempt_leave(at);
    }
    return status;
}

/* Begins and ends with the client's mutex held. */
static hf_status run(hf__attempt *at, hf_lease *lease)
{
    hf_status status = admit(at, lease);
    if (status != HF_OK) {
        return status;
    }
    hf__attempt_run(at, lease);
    return at->machine.status;
}

hf_lease *hf__lease_new(hf_client *client, const hf_acquire_options *options,
                        bool handed_out)
{
    hf_lease *lease = calloc(1, sizeof(*lease));
    if (lease) {
        lease->client = hf__client_ref(client);
        lease->on_lost = options->on_lost;
        lease->on_lost_arg = options->on_lost_arg;
        lease->fd = -1;
        lease->handed_out = handed_out;
        hf__list_init(&lease->core.node);
    }
    return lease;
}

hf_status hf__goal_acquire(hf_client *client, const hf__goal *goal,
                           const hf_acquire_options *given, hf_lease **out,
                           hf_error *err)
{
    hf_acquire_options options;
    hf__attempt at;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK ||
        (status = hf__acquire_options(given, &options, err)) != HF_OK) {
        return status;
    }
    hf_lease *lease = hf__lease_new(client, &options, out != NULL);
    if (!lease) {
        return hf__error_nomem(err);
    }
    set_up(&at, client, goal, &options);
    status = prepare(&at, lease, options.owner, err);
    if (status != HF_OK) {
        hf__lease_drop(lease);
        return status;
    }
    hf__cancel_entry watch;
    hf__cancel_watch(options.cancel, &watch, at.self);
    status = run(&at, lease);
    pthread_mutex_unlock(&client->mutex);
    hf__cancel_unwatch(options.cancel, &watch);
    if (status != HF_OK || goal->target->kind->leaseless) {
        hf__lease_drop(lease);
    } else if (out) {
        *out = lease;
    }
    return status == HF_OK
               ? HF_OK
               : hf__target_error(client, goal->target, err, &at.machine.error);
}

/* ------------------------------------------------------------ in two halves */

/* As one that is parked and woken at once; a single try knows no deadline but
 * that of its reply. */
static void hasten(hf__attempt *at)
{
    at->machine.state = HF__ACQ_PARKED;
    at->machine.deadline = HF__NEVER;
    hf__contender_hasten(&at->contender);
}

hf_status hf__try_begin(hf__try *t, hf_client *client, const hf__goal *goal,
                        const hf_acquire_options *options, hf_error *err)
{
    hf__attempt *at = &t->at;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK) {
        return status;
    }
    t->lease = hf__lease_new(client, options, true);
    if (!t->lease) {
        return hf__error_nomem(err);
    }
    set_up(at, client, goal, options);
    at->reply_by = t->reply_by < at->reply_by ? t->reply_by : at->reply_by;
    status = prepare(at, t->lease, options->owner, err);
    if (status == HF_OK) {
        status = admit(at, t->lease);
        if (status == HF_OK) {
            hasten(at);
        } else {
            hf__target_error(client, goal->target, err, &at->machine.error);
        }
        pthread_mutex_unlock(&client->mutex);
    }
    if (status != HF_OK) {
        hf__lease_drop(t->lease);
    }
    return status;
}

hf__request *hf__try_request(hf__try *t)
{
    return t->at.hastened ? &hf__hold_driver_of(t->at.hold)->command.request
                          : NULL;
}

hf_status hf__try_end(hf__try *t, hf_lease **out, hf_error *err)
{
    hf__attempt *at = &t->at;
    pthread_mutex_lock(&at->client->mutex);
    hf__attempt_run(at, t->lease);
    pthread_mutex_unlock(&at->client->mutex);
    if (at->machine.status == HF_OK) {
        *out = t->lease;
        return HF_OK;
    }
    hf__lease_drop(t->lease);
    return hf__target_error(at->client, at->target, err, &at->machine.error);
}

/* --------------------------------------------------------- the program's calls
 */

hf_status hf_lock_acquire_with(hf_lock *lock, const hf_acquire_options *options,
                               hf_lease **lease, hf_error *err)
{
    if (!lock) {
        return hf__error_set(err, HF_EINVAL, "lock is NULL");
    }
    if (lock->multi) {
        return hf__multi_acquire(lock, options, lease, err);
    }
    return hf__goal_acquire(lock->client, &lock->goal, options, lease, err);
}

hf_status hf_lock_acquire(hf_lock *lock, int64_t wait_ms, hf_lease **lease,
                          hf_error *err)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = wait_ms;
    return hf_lock_acquire_with(lock, &options, lease, err);
}

hf_status hf_lock_try(hf_lock *lock, hf_lease **lease, hf_error *err)
{
    return hf_lock_acquire(lock, 0, lease, err);
}
