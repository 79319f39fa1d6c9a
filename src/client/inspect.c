/* What stands on the server under a name, of whatever kind: the answer of
 * inspect.lua, copied out. */
#include "client/scan.h"
#include "core/refusal.h"
#include "kinds/scripts.h"

#include <stdlib.h>

#define PERMIT_ID_SIZE 16
/* Of the lists in an answer: id, count, time. */
#define PARTY_VALUES 3
/* The members of an answer. */
#define ANSWER_VALUES 6

/* One name's answer. Parties and texts stand behind it. */
typedef struct sight {
    hf_inspection seen;
    hf_status status; /* HF_EWRONGTYPE: a key of no kind; or why not */
    bool retriable;
    char text[160]; /* of a status that is not HF_OK */
    hf_party parties[];
} sight;

/* A question about some names. */
typedef struct query {
    const hf__slice *names;
    size_t count;
    sight **sights;
    bool understood;
    bool failed; /* out of memory */
} query;

/* ------------------------------------------------------------------- copying
 */

static int64_t number_of(const hf__value *value)
{
    char digits[24] = {0};
    if (value->type == HF__VALUE_INTEGER) {
        return value->integer;
    }
    if (value->text.length < sizeof(digits) && value->text.length > 0) {
        memcpy(digits, value->text.data, value->text.length);
    }
    return strtoll(digits, NULL, 10);
}

static char *copy_bytes(char *to, hf__slice bytes)
{
    if (bytes.length > 0) {
        memcpy(to, bytes.data, bytes.length);
    }
    to[bytes.length] = '\0';
    return to + bytes.length + 1;
}

/* As Redisson shows it: ServiceManager.generateId. */
static char *copy_permit_id(char *to, hf__slice bytes)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes.length; i++) {
        unsigned char byte = (unsigned char)bytes.data[i];
        *to++ = digits[byte >> 4];
        *to++ = digits[byte & 15];
    }
    *to = '\0';
    return to + 1;
}

/* Copies a list of parties, their ids to `text`; returns its end. */
static char *copy_parties(hf_party *to, const hf__value *list, char *text,
                          bool permits)
{
    for (const hf__value *v = list->first; v; v = v->next->next->next) {
        bool hex = permits && v->text.length == PERMIT_ID_SIZE;
        to->id = text;
        to->id_length = hex ? 2 * v->text.length : v->text.length;
        to->count = number_of(v->next);
        to->remaining_ms = number_of(v->next->next);
        text = hex ? copy_permit_id(text, v->text) : copy_bytes(text, v->text);
        to++;
    }
    return text;
}

static bool is_party_list(const hf__value *value)
{
    if (value->type != HF__VALUE_ARRAY || value->count % PARTY_VALUES != 0) {
        return false;
    }
    size_t i = 0;
    for (const hf__value *v = value->first; v; v = v->next) {
        if (i++ % PARTY_VALUES == 0 && v->type != HF__VALUE_STRING) {
            return false;
        }
    }
    return true;
}

/* Room for the ids, each of which may become twice as long. */
static size_t id_room(const hf__value *list)
{
    size_t room = 0;
    for (const hf__value *v = list->first; v; v = v->next->next->next) {
        room += 2 * v->text.length + 1;
    }
    return room;
}

/* ------------------------------------------------------------------ one name
 */

static const hf__value *member(const hf__value *array, size_t index)
{
    const hf__value *value = array->first;
    while (index-- > 0) {
        value = value->next;
    }
    return value;
}

static hf_shape shape_of(hf__slice what, const hf_inspection *seen)
{
    static const struct {
        const char *what;
        hf_shape shape;
    } others[] = {
        {"read", HF_SHAPE_READ},       {"write", HF_SHAPE_WRITE},
        {"string", HF_SHAPE_SIMPLE},   {"number", HF_SHAPE_COUNTER},
        {"permits", HF_SHAPE_PERMITS},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (hf__slice_is(what, others[i].what)) {
            return others[i].shape;
        }
    }
    if (seen->waiter_count > 0) {
        return HF_SHAPE_FAIR;
    }
    if (seen->token > 0) {
        return HF_SHAPE_FENCED;
    }
    return hf__slice_is(what, "lock") ? HF_SHAPE_LOCK : HF_SHAPE_NONE;
}

static void fill(sight *s, hf__slice name, const hf__value *answer)
{
    hf_inspection *seen = &s->seen;
    const hf__value *what = answer->first;
    const hf__value *holders = member(answer, 4);
    const hf__value *waiters = member(answer, 5);
    bool permits = hf__slice_is(what->text, "permits");
    seen->struct_size = sizeof(*seen);
    seen->name = name.data;
    seen->name_length = name.length;
    seen->remaining_ms = number_of(member(answer, 1));
    seen->number = number_of(member(answer, 2));
    int64_t token = number_of(member(answer, 3));
    seen->token = token > 0 ? (uint64_t)token : 0;
    seen->holder_count = holders->count / PARTY_VALUES;
    seen->waiter_count = waiters->count / PARTY_VALUES;
    seen->locked = seen->holder_count > 0;
    seen->holders = s->parties;
    seen->waiters = s->parties + seen->holder_count;
    seen->shape = shape_of(what->text, seen);
    char *text = (char *)(s->parties + seen->holder_count + seen->waiter_count);
    text = copy_parties(s->parties, holders, text, permits);
    (void)copy_parties(s->parties + seen->holder_count, waiters, text, false);
}

static void fill_failure(sight *s, const hf__value *answer)
{
    const hf__value *why = member(answer, 2);
    size_t length = why->text.length;
    s->status = HF_EWRONGTYPE;
    if (hf__slice_is(answer->first->text, "refused")) {
        hf__refusal refusal = hf__refusal_of(why->text);
        s->status = refusal.status;
        s->retriable = refusal.retriable;
    }
    length = length < sizeof(s->text) ? length : sizeof(s->text) - 1;
    (void)copy_bytes(s->text, (hf__slice){why->text.data, length});
}

/* Whether it looks as inspect.lua makes it, so that copying need not ask. */
static bool is_answer(const hf__value *answer)
{
    if (answer->type != HF__VALUE_ARRAY || answer->count < 3 ||
        answer->first->type != HF__VALUE_STRING) {
        return false;
    }
    hf__slice what = answer->first->text;
    if (hf__slice_is(what, "other") || hf__slice_is(what, "refused")) {
        return member(answer, 2)->type == HF__VALUE_STRING;
    }
    return answer->count == ANSWER_VALUES && is_party_list(member(answer, 4)) &&
           is_party_list(member(answer, 5));
}

static sight *sight_new(hf__slice name, const hf__value *answer)
{
    size_t parties = 0;
    size_t room = 0;
    for (size_t i = 4; answer->count == ANSWER_VALUES && i <= 5; i++) {
        parties += member(answer, i)->count / PARTY_VALUES;
        room += id_room(member(answer, i));
    }
    sight *s = calloc(1, sizeof(*s) + parties * sizeof(hf_party) + room);
    if (s && answer->count == ANSWER_VALUES) {
        fill(s, name, answer);
    } else if (s) {
        fill_failure(s, answer);
    }
    return s;
}

/* ------------------------------------------------------------- the question */

static void forget(query *q)
{
    for (size_t i = 0; i < q->count; i++) {
        free(q->sights[i]);
        q->sights[i] = NULL;
    }
}

static void take_answers(void *arg, const hf__value *array)
{
    query *q = arg;
    forget(q);
    q->understood = array->count == q->count;
    const hf__value *answer = array->first;
    for (size_t i = 0; q->understood && i < q->count; i++) {
        q->understood = is_answer(answer);
        q->sights[i] = q->understood ? sight_new(q->names[i], answer) : NULL;
        q->failed = q->failed || (q->understood && !q->sights[i]);
        answer = answer->next;
    }
}

static hf_status ask(hf_client *client, query *q, hf_error *err)
{
    hf__call call;
    hf__call_begin(&call, &hf__script_inspect);
    call.args = q->names;
    call.count = q->count;
    call.keys = q->count;
    hf_status status = hf__client_query(client, &call, take_answers, q, err);
    if (status == HF_OK && q->failed) {
        status = hf__error_nomem(err);
    } else if (status == HF_OK && !q->understood) {
        status = hf__error_set(err, HF_EPROTOCOL,
                               "the server's reply is none of this script");
    }
    return status;
}

/* Why a name has no inspection, as an error. */
static hf_status failure_of(const sight *s, hf_error *err)
{
    if (s->status == HF_EWRONGTYPE && strchr(s->text, ' ') == NULL) {
        return hf__error_set(err, s->status, "the key holds a %s, no lock",
                             s->text);
    }
    return s->retriable ? hf__error_set_retriable(err, s->status, "%s", s->text)
                        : hf__error_set(err, s->status, "%s", s->text);
}

/* `"name" on server: ` before the text of a failure. */
static hf_status name_error(const hf_client *client, hf__slice name,
                            hf_error *err, const hf_error *why)
{
    char quoted[HF__QUOTE_SIZE];
    hf_status status = hf_error_status(why);
    hf__quote(quoted, sizeof(quoted), name.data, name.length);
    if (hf_error_is_retriable(why)) {
        return hf__error_set_retriable(err, status, "%s on %s: %s", quoted,
                                       client->endpoint.display,
                                       hf_error_text(why));
    }
    return hf__error_set(err, status, "%s on %s: %s", quoted,
                         client->endpoint.display, hf_error_text(why));
}

/* With a NUL behind, as the callback is promised. */
static char *copy_name(const void *name, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy) {
        memcpy(copy, name, length);
        copy[length] = '\0';
    }
    return copy;
}

hf_status hf_inspect(hf_client *client, const void *name, size_t length,
                     hf_inspect_fn fn, void *arg, hf_error *err)
{
    hf_error why = HF_ERROR_INIT;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK || !fn) {
        return status != HF_OK
                   ? status
                   : hf__error_set(err, HF_EINVAL, "callback is NULL");
    }
    if (!name || length == 0 || length > HF_NAME_MAX) {
        return hf__error_set(err, HF_EINVAL,
                             "a name has from 1 to %zu bytes, not %zu",
                             HF_NAME_MAX, length);
    }
    char *copy = copy_name(name, length);
    if (!copy) {
        return hf__error_nomem(err);
    }
    sight *seen = NULL;
    hf__slice slice = {copy, length};
    query q = {.names = &slice, .count = 1, .sights = &seen};
    status = ask(client, &q, &why);
    if (status == HF_OK && seen->status != HF_OK) {
        status = failure_of(seen, &why);
    }
    if (status == HF_OK) {
        fn(arg, &seen->seen);
    } else {
        status = name_error(client, slice, err, &why);
    }
    free(seen);
    free(copy);
    return status;
}

/* ---------------------------------------------------------------- many names
 */

typedef struct tour {
    hf_client *client;
    hf_inspect_fn fn;
    void *arg;
    hf__scan *scan;
    size_t shown;
    size_t refused; /* keys that the user may not read */
    bool stop;
} tour;

/* What belongs to another name, and is shown with it. */
static bool is_private(const hf__found *found)
{
    static const char *const begins[] = {
        "redisson_lock_token:", "redisson_unlock_latch:", "holdfast_permits:",
        "holdfast_permits_queue:", "holdfast_latch:"};
    static const char mark[] = ":holdfast_writer";
    static const char hold[] = ":rwlock_timeout:";
    hf__slice name = {found->name, found->length};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        if (hf__slice_begins(name, begins[i])) {
            return true;
        }
    }
    size_t length = sizeof(mark) - 1;
    return (name.length > length &&
            memcmp(name.data + name.length - length, mark, length) == 0) ||
           memmem(name.data, name.length, hold, sizeof(hold) - 1) != NULL;
}

/* Gone meanwhile, or a hash of one number that is nobody's: an owner's id ends
 * in a thread's number. */
static bool is_foreign(const hf_inspection *seen)
{
    if (seen->shape != HF_SHAPE_LOCK) {
        return seen->shape == HF_SHAPE_NONE;
    }
    const char *colon = seen->locked ? strrchr(seen->holders[0].id, ':') : NULL;
    return !colon || colon[1] == '\0' ||
           strspn(colon + 1, "0123456789") != strlen(colon + 1);
}

static hf_status show(tour *t, hf__found *found, const sight *s, hf_error *err)
{
    if (s->status == HF_EPERM) {
        t->refused++;
    }
    if (s->status == HF_EPERM || s->status == HF_EWRONGTYPE) {
        return HF_OK;
    }
    if (s->status != HF_OK) {
        return failure_of(s, err);
    }
    if (is_foreign(&s->seen)) {
        return HF_OK;
    }
    hf_status status = hf__scan_keep(t->scan, found, err);
    if (status == HF_OK) {
        t->shown++;
        t->stop = t->fn(t->arg, &s->seen) != 0;
    }
    return status == HF_NOT_ACQUIRED ? HF_OK : status;
}

/* Inspects one by one: the server refuses a script of which one key is not for
 * the user. */
static hf_status show_each(tour *t, hf__found *const *page, const query *all,
                           hf_error *err)
{
    hf_status status = HF_OK;
    for (size_t i = 0; i < all->count && status == HF_OK && !t->stop; i++) {
        sight *seen = NULL;
        query one = {.names = &all->names[i], .count = 1, .sights = &seen};
        status = ask(t->client, &one, err);
        if (status == HF_EPERM) {
            t->refused++;
            status = HF_OK;
        } else if (status == HF_OK) {
            status = show(t, page[i], seen, err);
        }
        free(seen);
    }
    return status;
}

static hf_status show_page(tour *t, hf__found *const *page, query *q,
                           hf_error *err)
{
    hf_status status = ask(t->client, q, err);
    if (status == HF_EPERM && q->count > 1) {
        return show_each(t, page, q, err);
    }
    if (status == HF_EPERM) {
        t->refused++;
        return HF_OK;
    }
    for (size_t i = 0; i < q->count && status == HF_OK && !t->stop; i++) {
        status = show(t, page[i], q->sights[i], err);
    }
    return status;
}

/* The page at hand as arrays: what was found, its names, what is known. */
static hf_status inspect_page(tour *t, hf_error *err)
{
    size_t count = t->scan->page_size;
    hf__found **page = calloc(count, sizeof(hf__found *));
    hf__slice *names = calloc(count, sizeof(*names));
    sight **sights = calloc(count, sizeof(sight *));
    hf_status status = HF_OK;
    if (!page || !names || !sights) {
        status = hf__error_nomem(err);
    } else {
        query q = {.names = names, .sights = sights};
        for (hf__found *at = t->scan->page; at; at = at->next) {
            if (!is_private(at)) {
                page[q.count] = at;
                names[q.count++] = (hf__slice){at->name, at->length};
            }
        }
        status = q.count > 0 ? show_page(t, page, &q, err) : HF_OK;
        forget(&q);
    }
    free((void *)sights);
    free(names);
    free((void *)page);
    return status;
}

static hf_status walk(tour *t, hf_error *err)
{
    hf_status status;
    bool more = true;
    do {
        status = hf__scan_next(t->client, t->scan, &more, err);
        if (status == HF_OK && t->scan->page_size > 0) {
            status = inspect_page(t, err);
        }
    } while (status == HF_OK && !t->stop && more);
    if (status == HF_OK && t->shown == 0 && t->refused > 0) {
        status = hf__error_set(err, HF_EPERM,
                               "%s: the user may not read any of %zu keys",
                               t->client->endpoint.display, t->refused);
    }
    return status;
}

hf_status hf_inspect_all(hf_client *client, const char *glob, hf_inspect_fn fn,
                         void *arg, hf_error *err)
{
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK || !fn) {
        return status != HF_OK
                   ? status
                   : hf__error_set(err, HF_EINVAL, "callback is NULL");
    }
    tour t = {.client = client, .fn = fn, .arg = arg};
    t.scan = hf__scan_new(glob, NULL);
    if (!t.scan) {
        return hf__error_nomem(err);
    }
    status = walk(&t, err);
    hf__scan_free(t.scan);
    return status;
}
