/* Semaphores: permits that belong to nobody. */
#include "client/synchronizer.h"

#include "kinds/scripts.h"
#include "kinds/semaphore.h"

#include <stdlib.h>

#define RECORDS 0 /* which of the target's names */

struct hf_semaphore {
    hf_client *client;
    hf__goal goal;
};

static const hf__kind *kind_of(const hf_semaphore_options *options)
{
    return options->no_starvation ? &hf__kind_semaphore_in_turn
                                  : &hf__kind_semaphore;
}

hf_semaphore *hf_semaphore_open(hf_client *client, const void *name,
                                size_t length,
                                const hf_semaphore_options *given,
                                hf_error *err)
{
    hf_semaphore_options options = HF_SEMAPHORE_OPTIONS_INIT;
    if (given && hf__options_copy(&options, sizeof(options), given,
                                  given->struct_size, err) != HF_OK) {
        return NULL;
    }
    hf_semaphore *semaphore = calloc(1, sizeof(*semaphore));
    if (!semaphore) {
        hf__error_nomem(err);
        return NULL;
    }
    semaphore->client = client;
    if (hf__goal_open(client, kind_of(&options), name, length, &semaphore->goal,
                      err) != HF_OK) {
        free(semaphore);
        return NULL;
    }
    return semaphore;
}

void hf_semaphore_free(hf_semaphore *semaphore)
{
    if (semaphore) {
        hf__goal_close(semaphore->client, &semaphore->goal);
        free(semaphore);
    }
}

/* The handle is one, the number is in its bounds, and the client is open. */
static hf_status check(const hf_semaphore *semaphore, int64_t permits,
                       int64_t least, hf_error *err)
{
    if (!semaphore) {
        return hf__error_set(err, HF_EINVAL, "semaphore is NULL");
    }
    hf_status status = hf__client_usable(semaphore->client, err);
    return status == HF_OK ? hf__count_check(permits, least, err) : status;
}

/* ---------------------------------------------------------------- acquiring */

hf_status hf_semaphore_acquire(hf_semaphore *semaphore, int64_t permits,
                               int64_t wait_ms, hf_cancel *cancel,
                               hf_error *err)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_status status = check(semaphore, permits, 0, err);
    if (status != HF_OK || permits == 0) {
        return status;
    }
    hf__goal goal = semaphore->goal;
    goal.wish.permits = permits;
    goal.wish.number = hf__next_ordinal();
    options.wait_ms = wait_ms;
    options.cancel = cancel;
    return hf__goal_acquire(semaphore->client, &goal, &options, NULL, err);
}

hf_status hf_semaphore_try(hf_semaphore *semaphore, int64_t permits,
                           hf_error *err)
{
    return hf_semaphore_acquire(semaphore, permits, 0, NULL, err);
}

/* ----------------------------------------------------------------- changing */

static hf_status add(hf_semaphore *semaphore, int64_t permits, int64_t least,
                     hf_error *err)
{
    const hf__addition addition = {.records = RECORDS, .count = permits};
    hf_status status = check(semaphore, permits, least, err);
    if (status != HF_OK || permits == 0) {
        return status;
    }
    return hf__counter_add(semaphore->client, &semaphore->goal, &addition, NULL,
                           err);
}

hf_status hf_semaphore_release(hf_semaphore *semaphore, int64_t permits,
                               hf_error *err)
{
    return add(semaphore, permits, 0, err);
}

hf_status hf_semaphore_add(hf_semaphore *semaphore, int64_t permits,
                           hf_error *err)
{
    return add(semaphore, permits, -HF__COUNT_MAX, err);
}

hf_status hf_semaphore_release_if_exists(hf_semaphore *semaphore,
                                         int64_t permits, int *released,
                                         hf_error *err)
{
    const hf__addition addition = {
        .records = RECORDS, .count = permits, .if_exists = true};
    int64_t done = 0;
    hf_status status = check(semaphore, permits, 1, err);
    if (status == HF_OK) {
        status = hf__counter_add(semaphore->client, &semaphore->goal, &addition,
                                 &done, err);
    }
    if (status == HF_OK && released) {
        *released = done != 0;
    }
    return status;
}

hf_status hf_semaphore_set(hf_semaphore *semaphore, int64_t permits,
                           int64_t lifetime_ms, int *set, hf_error *err)
{
    const hf__beginning beginning = {
        .records = RECORDS, .count = permits, .lifetime_ms = lifetime_ms};
    hf_status status = check(semaphore, permits, 0, err);
    return status == HF_OK
               ? hf__counter_set(semaphore->client, &semaphore->goal,
                                 &beginning, set, err)
               : status;
}

hf_status hf_semaphore_drain(hf_semaphore *semaphore, int64_t *drained,
                             hf_error *err)
{
    hf__change change;
    hf_status status = check(semaphore, 0, 0, err);
    if (status == HF_OK) {
        status = hf__change_begin(&change, semaphore->client, &semaphore->goal,
                                  RECORDS, &hf__script_semaphore_drain, err);
    }
    return status == HF_OK ? hf__change_make(&change, drained, err) : status;
}

/* ------------------------------------------------------------------- asking */

hf_status hf_semaphore_available(hf_semaphore *semaphore, int64_t *available,
                                 hf_error *err)
{
    hf_status status = check(semaphore, 0, 0, err);
    return status == HF_OK ? hf__counter_get(semaphore->client,
                                             &semaphore->goal, available, err)
                           : status;
}
