/* What locks there are, as the server sees them. */
#include "client/scan.h"

#include <stdlib.h>

/* ------------------------------------------------------------- one lock */

/* A reply with one hash field, copied out. */
typedef struct standing {
    char owner[256];
    char count[32];
    size_t fields;
} standing;

static void copy_text(char *to, size_t size, hf__slice text)
{
    size_t n = text.length < size - 1 ? text.length : size - 1;
    memcpy(to, text.data ? text.data : "", n);
    to[n] = '\0';
}

static void take_fields(void *arg, const hf__value *array)
{
    standing *s = arg;
    memset(s, 0, sizeof(*s));
    s->fields = array->count / 2;
    if (s->fields > 0) {
        copy_text(s->owner, sizeof(s->owner), array->first->text);
        copy_text(s->count, sizeof(s->count), array->first->next->text);
    }
}

/* A reentrant lock is a hash of one field, whose name ends in a thread's
 * number and whose value is a count. */
static bool looks_like_lock(const standing *s)
{
    const char *colon = strrchr(s->owner, ':');
    return s->fields == 1 && colon && colon[1] != '\0' &&
           strspn(colon + 1, "0123456789") == strlen(colon + 1) &&
           s->count[0] != '\0' &&
           strspn(s->count, "0123456789") == strlen(s->count);
}

static hf_status ask_of_key(hf_client *client, const char *command,
                            hf__slice key, hf__answer *answer, hf_error *err)
{
    hf__call call;
    hf__call_begin(&call, NULL);
    hf__call_add(&call, hf__slice_of(command));
    hf__call_add(&call, key);
    return hf__client_ask(client, &call, answer, HF__NEVER, NULL, err);
}

static hf_status look(hf_client *client, hf__slice name, standing *s,
                      hf_lock_info *info, hf_error *err)
{
    hf__call call;
    hf__answer remaining;
    hf__call_begin(&call, NULL);
    hf__call_add(&call, HF__LITERAL("HGETALL"));
    hf__call_add(&call, name);
    hf_status status = hf__client_query(client, &call, take_fields, s, err);
    if (status != HF_OK ||
        (status = ask_of_key(client, "PTTL", name, &remaining, err)) != HF_OK) {
        return status;
    }
    *info =
        (hf_lock_info){.struct_size = sizeof(*info),
                       .name = name.data,
                       .name_length = name.length,
                       .locked = s->fields > 0,
                       .owner = s->fields > 0 ? s->owner : NULL,
                       .hold_count = strtoll(s->count, NULL, 10),
                       .remaining_ms = s->fields > 0 ? remaining.integer : -2};
    return HF_OK;
}

hf_status hf_lock_inspect(hf_lock *lock, hf_lock_info_fn fn, void *arg,
                          hf_error *err)
{
    standing s;
    hf_lock_info info;
    hf_error why = HF_ERROR_INIT;
    if (!lock || !fn) {
        return hf__error_set(err, HF_EINVAL, "lock or callback is NULL");
    }
    if (lock->multi) {
        return hf__error_set(err, HF_EINVAL,
                             "several locks as one: ask each by itself");
    }
    hf_client *client = lock->client;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK) {
        return status;
    }
    status = look(client, lock->goal.target->name, &s, &info, &why);
    if (status != HF_OK) {
        return hf__target_error(client, lock->goal.target, err, &why);
    }
    fn(arg, &info);
    return HF_OK;
}

/* ---------------------------------------------------------------- many locks
 */

/* Where a listing stands. */
typedef struct listing {
    hf_client *client;
    hf_lock_info_fn fn;
    void *arg;
    hf__scan *scan;
    size_t shown;
    size_t refused; /* keys that the user may not read */
    bool stop;
} listing;

/* A key that is gone, is no lock, or is not for this user is passed over. */
static hf_status show(listing *l, hf__found *found, hf_error *err)
{
    standing s;
    hf_lock_info info;
    hf__slice name = {found->name, found->length};
    hf_status status = hf__scan_keep(l->scan, found, err);
    if (status == HF_OK) {
        status = look(l->client, name, &s, &info, err);
        l->refused += status == HF_EPERM;
    }
    if (status == HF_NOT_ACQUIRED || status == HF_EWRONGTYPE ||
        status == HF_EPERM) {
        return HF_OK;
    }
    if (status == HF_OK && looks_like_lock(&s)) {
        l->shown++;
        l->stop = l->fn(l->arg, &info) != 0;
    }
    return status;
}

static hf_status show_all(listing *l, hf_error *err)
{
    hf_status status;
    bool more = true;
    do {
        status = hf__scan_next(l->client, l->scan, &more, err);
        hf__found *found = status == HF_OK ? l->scan->page : NULL;
        for (; found && status == HF_OK && !l->stop; found = found->next) {
            status = show(l, found, err);
        }
    } while (status == HF_OK && !l->stop && more);
    if (status == HF_OK && l->shown == 0 && l->refused > 0) {
        status = hf__error_set(err, HF_EPERM,
                               "%s: the user may not read any of %zu keys",
                               l->client->endpoint.display, l->refused);
    }
    return status;
}

hf_status hf_client_list_locks(hf_client *client, const char *glob,
                               hf_lock_info_fn fn, void *arg, hf_error *err)
{
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK || !fn) {
        return status != HF_OK
                   ? status
                   : hf__error_set(err, HF_EINVAL, "callback is NULL");
    }
    listing l = {.client = client, .fn = fn, .arg = arg};
    l.scan = hf__scan_new(glob, "hash");
    if (!l.scan) {
        return hf__error_nomem(err);
    }
    status = show_all(&l, err);
    hf__scan_free(l.scan);
    return status;
}
