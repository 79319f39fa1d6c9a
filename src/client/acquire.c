/* The acquire as the program calls it: options, the lease's handle, and one
 * attempt. */
#include "client/attempt.h"

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

static hf_status copy_options(const hf_acquire_options *given,
                              hf_acquire_options *options, hf_error *err)
{
    *options = (hf_acquire_options)HF_ACQUIRE_OPTIONS_INIT;
    hf_status status = given ? hf__options_copy(options, sizeof(*options),
                                                given, given->struct_size, err)
                             : HF_OK;
    return status == HF_OK ? check_options(options, err) : status;
}

/* On HF_OK the client's mutex is held. */
static hf_status prepare(hf__attempt *at, hf_lock *lock,
                         const hf_acquire_options *options, hf_lease *lease,
                         hf_error *err)
{
    hf_client *client = lock->client;
    uint64_t ordinal = 0;
    memset(at, 0, sizeof(*at));
    at->client = client;
    at->target = lock->target;
    at->self = hf__thread_self();
    at->contender.thread = at->self;
    at->stop = hf__cancel_flag(options->cancel);
    at->terms = (hf__terms){.fixed = options->lease_ms * HF__MS,
                            .max_hold = options->max_hold_ms * HF__MS};
    int64_t now = hf__now();
    at->machine.kind = lock->target->kind;
    at->machine.seam = &client->seam;
    at->machine.once = options->wait_ms == 0;
    at->machine.deadline = options->wait_ms == HF_WAIT_FOREVER
                               ? HF__NEVER
                               : now + options->wait_ms * HF__MS;
    at->machine.poll_cap = client->poll_cap;
    at->reply_by =
        at->machine.once ? now + client->command_timeout : at->machine.deadline;
    if (!at->self) {
        return hf__error_nomem(err);
    }
    hf_status status = hf__client_actor(client, options->owner, &ordinal, err);
    if (status != HF_OK) {
        return status;
    }
    lease->thread_owned = !options->owner;
    pthread_mutex_lock(&client->mutex);
    at->hold = hf__book_pin(&client->book, at->target, ordinal);
    if (!at->hold) {
        pthread_mutex_unlock(&client->mutex);
        return hf__error_nomem(err);
    }
    memcpy(lease->owner, at->hold->owner, sizeof(lease->owner));
    return HF_OK;
}

static hf_lease *lease_new(hf_client *client, const hf_acquire_options *options,
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

hf_status hf_lock_acquire_with(hf_lock *lock, const hf_acquire_options *given,
                               hf_lease **out, hf_error *err)
{
    hf_acquire_options options;
    if (!lock) {
        return hf__error_set(err, HF_EINVAL, "lock is NULL");
    }
    hf_client *client = lock->client;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK ||
        (status = copy_options(given, &options, err)) != HF_OK) {
        return status;
    }
    hf_lease *lease = lease_new(client, &options, out != NULL);
    if (!lease) {
        return hf__error_nomem(err);
    }
    hf__attempt at;
    status = prepare(&at, lock, &options, lease, err);
    if (status != HF_OK) {
        hf__lease_drop(lease);
        return status;
    }
    hf__cancel_entry watch;
    hf__cancel_watch(options.cancel, &watch, at.self);
    status = hf__client_probe_once(client, at.target, at.reply_by, at.stop,
                                   &at.machine.error);
    if (status == HF_OK) {
        hf__attempt_run(&at, lease);
        status = at.machine.status;
    } else {
        hf__attempt_leave(&at);
    }
    pthread_mutex_unlock(&client->mutex);
    hf__cancel_unwatch(options.cancel, &watch);
    if (status != HF_OK) {
        hf__lease_drop(lease);
        return hf__target_error(client, lock->target, err, &at.machine.error);
    }
    if (out) {
        *out = lease;
    }
    return HF_OK;
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
