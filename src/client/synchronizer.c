#include "client/synchronizer.h"

#include "kinds/scripts.h"

#include <inttypes.h>
#include <stdlib.h>

hf_status hf__count_check(int64_t count, int64_t least, hf_error *err)
{
    if (count >= least && count <= HF__COUNT_MAX) {
        return HF_OK;
    }
    return hf__error_set(err, HF_EINVAL,
                         "a number of %" PRId64 " is not from %" PRId64
                         " to %" PRId64,
                         count, least, HF__COUNT_MAX);
}

/* ----------------------------------------------------------------- changing */

hf_status hf__change_begin(hf__change *change, hf_client *client,
                           const hf__goal *goal, size_t records,
                           const hf__script *script, hf_error *err)
{
    uint64_t ordinal = 0;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK ||
        (status = hf__client_actor(client, NULL, &ordinal, err)) != HF_OK) {
        return status; /* the target has gone with its client */
    }
    size_t length =
        hf__book_owner_id(&client->book, NULL, ordinal, change->owner);
    hf__slice other = goal->target->names[1 - records];
    change->client = client;
    change->target = goal->target;
    hf__call_begin(&change->call, script);
    hf__call_add(&change->call, goal->target->name);
    hf__call_add(&change->call, goal->target->names[records]);
    change->call.keys = 2;
    if (other.length > 0) {
        hf__call_add(&change->call, other);
        change->call.keys = 3;
    }
    hf__call_add(&change->call, (hf__slice){change->owner, length});
    hf__call_add_number(&change->call, 0, (int64_t)hf__next_ordinal());
    return HF_OK;
}

static hf_status probe(const hf__change *change, hf_error *err)
{
    hf_client *client = change->client;
    pthread_mutex_lock(&client->mutex);
    hf_status status =
        hf__client_probe_once(client, change->target, HF__NEVER, NULL, err);
    pthread_mutex_unlock(&client->mutex);
    return status;
}

/* A reply that is lost with its connection is asked for over the next one; if
 * that fails, it may yet have been made at first. */
static hf_status tell(const hf__change *change, hf__answer *answer,
                      hf_error *err)
{
    hf_client *client = change->client;
    int64_t latest = hf__now() + client->command_timeout;
    hf_status status = hf__client_tell(client, &change->call, answer, err);
    if (status != HF_EUNKNOWN || hf__now() >= latest) {
        return status;
    }
    hf_error again = HF_ERROR_INIT;
    status = hf__client_tell(client, &change->call, answer, &again);
    return status == HF_OK ? HF_OK : HF_EUNKNOWN;
}

hf_status hf__change_make(hf__change *change, int64_t *answer, hf_error *err)
{
    hf__answer said;
    hf_error why = HF_ERROR_INIT;
    hf_status status = probe(change, &why);
    if (status == HF_OK) {
        status = tell(change, &said, &why);
    }
    if (status == HF_OK && said.type != HF__VALUE_INTEGER) {
        status = hf__error_set(&why, HF_EPROTOCOL,
                               "the server's reply is none of this script");
    }
    if (status != HF_OK) {
        return hf__target_error(change->client, change->target, err, &why);
    }
    if (answer) {
        *answer = said.integer;
    }
    return HF_OK;
}

/* --------------------------------------------------------------- the number */

static hf_status check_beginning(const hf__beginning *beginning, hf_error *err)
{
    int64_t lifetime = beginning->lifetime_ms;
    if (lifetime < 0 || lifetime > HF_LEASE_MAX_MS) {
        return hf__error_set(err, HF_EINVAL,
                             "a lifetime of %" PRId64
                             " ms is not from 0 to %" PRId64,
                             lifetime, HF_LEASE_MAX_MS);
    }
    return hf__count_check(beginning->count, 0, err);
}

hf_status hf__counter_set(hf_client *client, const hf__goal *goal,
                          const hf__beginning *beginning, int *made,
                          hf_error *err)
{
    hf__change change;
    int64_t answer = 0;
    hf_status status = check_beginning(beginning, err);
    if (status != HF_OK ||
        (status = hf__change_begin(&change, client, goal, beginning->records,
                                   &hf__script_counter_set, err)) != HF_OK) {
        return status;
    }
    hf__call *call = &change.call;
    hf__call_add_number(call, 1, beginning->count);
    hf__slice count = call->fixed[call->count - 1];
    hf__call_add(call, change.target->channel);
    hf__call_add_number(call, 2, beginning->lifetime_ms);
    hf__call_add(call,
                 beginning->message ? hf__slice_of(beginning->message) : count);
    status = hf__change_make(&change, &answer, err);
    if (status == HF_OK && made) {
        *made = answer != 0;
    }
    return status;
}

/* 0 if there is none. */
static bool read_count(const hf__answer *answer, int64_t *count)
{
    char *end = NULL;
    int64_t number = strtoll(answer->text, &end, 10);
    if (answer->type != HF__VALUE_NIL &&
        (end == answer->text || *end != '\0')) {
        return false;
    }
    *count = number;
    return true;
}

hf_status hf__counter_get(hf_client *client, const hf__goal *goal,
                          int64_t *count, hf_error *err)
{
    hf__call call;
    hf__answer answer;
    hf_error why = HF_ERROR_INIT;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK) {
        return status;
    }
    hf__call_begin(&call, NULL);
    hf__call_add(&call, HF__LITERAL("GET"));
    hf__call_add(&call, goal->target->name);
    status = hf__client_ask(client, &call, &answer, HF__NEVER, NULL, &why);
    if (status == HF_OK && !read_count(&answer, count)) {
        status = hf__error_set(&why, HF_EPROTOCOL, "its key has no number");
    }
    return status == HF_OK ? HF_OK
                           : hf__target_error(client, goal->target, err, &why);
}

hf_status hf__counter_add(hf_client *client, const hf__goal *goal,
                          const hf__addition *addition, int64_t *done,
                          hf_error *err)
{
    hf__change change;
    bool if_exists = addition->if_exists;
    hf_status status = hf__change_begin(
        &change, client, goal, addition->records, &hf__script_counter_add, err);
    if (status != HF_OK) {
        return status;
    }
    hf__call_add_number(&change.call, 1, addition->count);
    hf__call_add(&change.call, change.target->channel);
    hf__call_add(&change.call, if_exists ? HF__LITERAL("1") : HF__LITERAL("0"));
    return hf__change_make(&change, done, err);
}
