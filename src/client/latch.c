/* Count-down latches: to wait until a count is none. */
#include "client/synchronizer.h"

#include "kinds/latch.h"
#include "kinds/scripts.h"

#include <stdlib.h>

#define RECORDS 0 /* which of the target's names */

struct hf_latch {
    hf_client *client;
    hf__goal goal;
};

hf_latch *hf_latch_open(hf_client *client, const void *name, size_t length,
                        hf_error *err)
{
    hf_latch *latch = calloc(1, sizeof(*latch));
    if (!latch) {
        hf__error_nomem(err);
        return NULL;
    }
    latch->client = client;
    if (hf__goal_open(client, &hf__kind_latch, name, length, &latch->goal,
                      err) != HF_OK) {
        free(latch);
        return NULL;
    }
    return latch;
}

void hf_latch_free(hf_latch *latch)
{
    if (latch) {
        hf__goal_close(latch->client, &latch->goal);
        free(latch);
    }
}

static hf_status check(const hf_latch *latch, hf_error *err)
{
    return latch ? hf__client_usable(latch->client, err)
                 : hf__error_set(err, HF_EINVAL, "latch is NULL");
}

hf_status hf_latch_set(hf_latch *latch, int64_t count, int64_t lifetime_ms,
                       int *set, hf_error *err)
{
    const hf__beginning beginning = {.records = RECORDS,
                                     .count = count,
                                     .lifetime_ms = lifetime_ms,
                                     .message = "1"};
    hf_status status = check(latch, err);
    return status == HF_OK ? hf__counter_set(latch->client, &latch->goal,
                                             &beginning, set, err)
                           : status;
}

hf_status hf_latch_count_down(hf_latch *latch, int64_t by, int64_t *left,
                              hf_error *err)
{
    hf__change change;
    hf_status status = check(latch, err);
    if (status != HF_OK || (status = hf__count_check(by, 1, err)) != HF_OK ||
        (status =
             hf__change_begin(&change, latch->client, &latch->goal, RECORDS,
                              &hf__script_latch_count_down, err)) != HF_OK) {
        return status;
    }
    hf__call_add_number(&change.call, 1, by);
    hf__call_add(&change.call, change.target->channel);
    return hf__change_make(&change, left, err);
}

hf_status hf_latch_await(hf_latch *latch, int64_t wait_ms, hf_cancel *cancel,
                         hf_error *err)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_status status = check(latch, err);
    if (status != HF_OK) {
        return status;
    }
    options.wait_ms = wait_ms;
    options.cancel = cancel;
    return hf__goal_acquire(latch->client, &latch->goal, &options, NULL, err);
}

hf_status hf_latch_count(hf_latch *latch, int64_t *count, hf_error *err)
{
    hf_status status = check(latch, err);
    return status == HF_OK
               ? hf__counter_get(latch->client, &latch->goal, count, err)
               : status;
}

hf_status hf_latch_delete(hf_latch *latch, int *deleted, hf_error *err)
{
    hf__change change;
    int64_t answer = 0;
    hf_status status = check(latch, err);
    if (status != HF_OK || (status = hf__change_begin(
                                &change, latch->client, &latch->goal, RECORDS,
                                &hf__script_latch_delete, err)) != HF_OK) {
        return status;
    }
    hf__call_add(&change.call, change.target->channel);
    status = hf__change_make(&change, &answer, err);
    if (status == HF_OK && deleted) {
        *deleted = answer != 0;
    }
    return status;
}
