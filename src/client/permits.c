/* The number of permits that are had for a time: how many there are, and how
 * many are held. To hold one is hf_lock_acquire and hf_lease_release. */
#include "client/synchronizer.h"

#include "kinds/permit.h"
#include "kinds/scripts.h"

#include <stdlib.h>

#define RECORDS 1 /* which of the target's names; 0: who holds */

static hf_status check(const hf_lock *lock, int64_t permits, int64_t least,
                       hf_error *err)
{
    if (!lock) {
        return hf__error_set(err, HF_EINVAL, "lock is NULL");
    }
    if (lock->multi) {
        return hf__error_set(err, HF_EINVAL,
                             "several locks as one have no permits");
    }
    hf_status status = hf__client_usable(lock->client, err);
    if (status != HF_OK) {
        return status; /* the target has gone with its client */
    }
    if (lock->goal.target->kind != &hf__kind_permit) {
        return hf__error_set(err, HF_EINVAL, "a %s has no permits",
                             lock->goal.target->kind->noun);
    }
    return hf__count_check(permits, least, err);
}

hf_status hf_permits_try_set(hf_lock *lock, int64_t permits, int *set,
                             hf_error *err)
{
    const hf__beginning beginning = {.records = RECORDS, .count = permits};
    hf_status status = check(lock, permits, 0, err);
    return status == HF_OK ? hf__counter_set(lock->client, &lock->goal,
                                             &beginning, set, err)
                           : status;
}

hf_status hf_permits_set(hf_lock *lock, int64_t permits, hf_error *err)
{
    hf__change change;
    hf_status status = check(lock, permits, 0, err);
    if (status == HF_OK) {
        status = hf__change_begin(&change, lock->client, &lock->goal, RECORDS,
                                  &hf__script_permit_set, err);
    }
    if (status != HF_OK) {
        return status;
    }
    hf__call_add_number(&change.call, 1, permits);
    hf__call_add(&change.call, change.target->channel);
    return hf__change_make(&change, NULL, err);
}

hf_status hf_permits_add(hf_lock *lock, int64_t permits, hf_error *err)
{
    const hf__addition addition = {.records = RECORDS, .count = permits};
    hf_status status = check(lock, permits, -HF__COUNT_MAX, err);
    if (status != HF_OK || permits == 0) {
        return status;
    }
    return hf__counter_add(lock->client, &lock->goal, &addition, NULL, err);
}

/* What permit_count.lua answers. */
typedef struct counts {
    int64_t available;
    int64_t acquired;
    int64_t total;
} counts;

static bool read_counts(const char *text, counts *said)
{
    int64_t *numbers[] = {&said->available, &said->acquired, &said->total};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        char *end = NULL;
        *numbers[i] = strtoll(text, &end, 10);
        if (end == text) {
            return false;
        }
        text = end;
    }
    return true;
}

static hf_status ask(hf_lock *lock, counts *said, hf_error *err)
{
    hf__call call;
    hf__answer answer;
    hf_error why = HF_ERROR_INIT;
    hf_status status = check(lock, 0, 0, err);
    if (status != HF_OK) {
        return status;
    }
    const hf__target *target = lock->goal.target;
    hf__call_begin(&call, &hf__script_permit_count);
    hf__call_add(&call, target->name);
    hf__call_add(&call, target->names[0]);
    call.keys = 2;
    hf__call_add(&call, target->channel);
    status =
        hf__client_ask(lock->client, &call, &answer, HF__NEVER, NULL, &why);
    if (status == HF_OK && !read_counts(answer.text, said)) {
        status = hf__error_set(&why, HF_EPROTOCOL,
                               "the server's reply is none of this script");
    }
    return status == HF_OK ? HF_OK
                           : hf__target_error(lock->client, target, err, &why);
}

hf_status hf_permits_available(hf_lock *lock, int64_t *available, hf_error *err)
{
    counts said = {0, 0, 0};
    hf_status status = ask(lock, &said, err);
    if (status == HF_OK) {
        *available = said.available;
    }
    return status;
}

hf_status hf_permits_acquired(hf_lock *lock, int64_t *acquired, hf_error *err)
{
    counts said = {0, 0, 0};
    hf_status status = ask(lock, &said, err);
    if (status == HF_OK) {
        *acquired = said.acquired;
    }
    return status;
}

hf_status hf_permits_total(hf_lock *lock, int64_t *total, hf_error *err)
{
    counts said = {0, 0, 0};
    hf_status status = ask(lock, &said, err);
    if (status == HF_OK) {
        *total = said.total;
    }
    return status;
}
