/* Questions: calls that change nothing, or may be said twice, and are said
 * again over a new connection when their reply is lost. */
#include "client/client_int.h"

#include <stdlib.h>

/* On the heap, for the link may still have it when nobody waits any more. */
typedef struct question {
    hf__job job;
    hf__on_value_fn on_value;
    void *arg;
} question;

static void pass_on(hf__request *request, const hf__value *value)
{
    hf__job *job = HF__CONTAINER(request, hf__job, request);
    question *q = HF__CONTAINER(job, question, job);
    q->on_value(q->arg, value);
}

hf_status hf__request_failed(const hf__request *request, hf_error *err)
{
    if (request->outcome != HF__REPLIED) {
        if (hf__failure_passes(request->failure)) {
            return hf__error_set_retriable(err, request->failure, "%s",
                                           request->text);
        }
        return hf__error_set(err, request->failure, "%s", request->text);
    }
    if (request->type == HF__VALUE_ERROR) {
        hf__refusal refusal = hf__refusal_of(hf__slice_of(request->text));
        return refusal.retriable
                   ? hf__error_set_retriable(err, refusal.status, "%s",
                                             request->text)
                   : hf__error_set(err, refusal.status, "%s", request->text);
    }
    return hf__error_set(err, HF_EPROTOCOL,
                         "the server's reply is none that was expected");
}

static hf_status interrupted(const hf_client *client, const atomic_bool *stop,
                             hf_error *err)
{
    if (stop && atomic_load(stop)) {
        return hf__error_set(err, HF_CANCELLED, "the call was cancelled");
    }
    return hf__error_set_retriable(err, HF_EUNREACHABLE,
                                   "%s did not answer in time",
                                   client->endpoint.display);
}

/* One saying. The question is the keeper's when HF_CANCELLED or a time-out is
 * returned with *q set to NULL. */
static hf_status say(hf_client *client, question **q, int64_t deadline,
                     const atomic_bool *stop, hf_error *err)
{
    hf__request *request = &(*q)->job.request;
    hf__thread *self = hf__thread_self();
    if (!self) {
        return hf__error_nomem(err);
    }
    if (!hf__link_say(&client->commands, request, self, deadline, stop) &&
        !hf__link_abandon(&client->commands, request)) {
        *q = NULL;
        return interrupted(client, stop, err);
    }
    if (request->outcome == HF__REPLIED && request->type != HF__VALUE_ERROR) {
        return HF_OK;
    }
    return hf__request_failed(request, err);
}

static hf_status ask(hf_client *client, question **q, int64_t deadline,
                     const atomic_bool *stop, hf_error *err)
{
    int64_t latest = hf__now() + client->command_timeout;
    /* The first connection has an end of its own: that of the last address. */
    bool first = client->opening;
    if (deadline > latest && !first) {
        deadline = latest;
    }
    hf_status status = say(client, q, deadline, stop, err);
    if (*q && (*q)->job.request.outcome == HF__UNKNOWN) {
        status = say(client, q, deadline, stop, err);
    }
    return status;
}

static question *question_new(const hf__call *call, hf_error *err)
{
    question *q = calloc(1, sizeof(*q));
    if (!q) {
        hf__error_nomem(err);
        return NULL;
    }
    hf__job_prepare(&q->job, HF__JOB_FORGOTTEN, NULL);
    q->job.request.call = call;
    return q;
}

hf_status hf__client_query(hf_client *client, const hf__call *call,
                           hf__on_value_fn on_value, void *arg, hf_error *err)
{
    question *q = question_new(call, err);
    if (!q) {
        return HF_ENOMEM;
    }
    q->on_value = on_value;
    q->arg = arg;
    q->job.request.on_array = pass_on;
    hf_status status = ask(client, &q, HF__NEVER, NULL, err);
    if (q && status == HF_OK && q->job.request.type != HF__VALUE_ARRAY) {
        status = hf__request_failed(&q->job.request, err);
    }
    free(q);
    return status;
}

static void list_strings(hf__answer *answer, const hf__value *array)
{
    size_t n = 0;
    answer->count = array->count;
    for (const hf__value *v = array->first; v; v = v->next) {
        if (n + v->text.length + 2 < sizeof(answer->list)) {
            memcpy(answer->list + n, v->text.data ? v->text.data : "",
                   v->text.length);
            n += v->text.length;
            answer->list[n++] = v->next ? ',' : '\0';
        }
    }
}

/* Until the caller has left, `arg` is its; then nothing is passed on, for an
 * abandoned request's array is not looked into. */
static void take_list(void *arg, const hf__value *value)
{
    list_strings(arg, value);
}

static question *question_for(const hf__call *call, hf__answer *answer,
                              hf_error *err)
{
    question *q = question_new(call, err);
    if (q) {
        memset(answer, 0, sizeof(*answer));
        q->on_value = take_list;
        q->arg = answer;
        q->job.request.on_array = pass_on;
    }
    return q;
}

static void take_answer(const question *q, hf__answer *answer)
{
    const hf__request *request = &q->job.request;
    answer->type = request->type;
    answer->integer = request->integer;
    memcpy(answer->text, request->text, sizeof(answer->text));
}

hf_status hf__client_ask(hf_client *client, const hf__call *call,
                         hf__answer *answer, int64_t deadline,
                         const atomic_bool *stop, hf_error *err)
{
    question *q = question_for(call, answer, err);
    if (!q) {
        return HF_ENOMEM;
    }
    hf_status status = ask(client, &q, deadline, stop, err);
    if (q && status == HF_OK) {
        take_answer(q, answer);
    }
    free(q);
    return status;
}

hf_status hf__client_tell(hf_client *client, const hf__call *call,
                          hf__answer *answer, hf_error *err)
{
    question *q = question_for(call, answer, err);
    if (!q) {
        return HF_ENOMEM;
    }
    int64_t deadline = hf__now() + client->command_timeout;
    hf_status status = say(client, &q, deadline, NULL, err);
    if (!q || q->job.request.outcome == HF__UNKNOWN) {
        status = hf__error_set(err, HF_EUNKNOWN,
                               "the reply was lost: the server may or may not "
                               "have done it");
    } else if (status == HF_OK) {
        take_answer(q, answer);
    }
    free(q);
    return status;
}
