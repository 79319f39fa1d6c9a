/* What locks there are, as the server sees them. */
#include "client/client_int.h"

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
    hf_client *client = lock->client;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK) {
        return status;
    }
    status = look(client, lock->target->name, &s, &info, &why);
    if (status != HF_OK) {
        return hf__target_error(client, lock->target, err, &why);
    }
    fn(arg, &info);
    return HF_OK;
}

/* ------------------------------------------------------------------ scanning
 */

/* Names seen in a scan, which may show a name more than once. */
typedef struct seen {
    UT_hash_handle hh;
    struct seen *next; /* in the page at hand */
    size_t length;
    char name[];
} seen;

typedef struct scan {
    char cursor[32];
    seen *names;
    seen *page; /* names first seen in the page at hand */
    size_t shown;
    size_t refused; /* keys that the user may not read */
    bool page_read;
    bool failed; /* out of memory */
} scan;

static void add_name(scan *s, hf__slice name)
{
    seen *found = NULL;
    HASH_FIND(hh, s->names, name.data, name.length, found);
    if (found) {
        return;
    }
    seen *entry = malloc(sizeof(*entry) + name.length + 1);
    if (!entry) {
        s->failed = true;
        return;
    }
    entry->length = name.length;
    memcpy(entry->name, name.data, name.length);
    entry->name[name.length] = '\0';
    HASH_ADD(hh, s->names, name, entry->length, entry);
    if (!entry->hh.tbl) {
        free(entry);
        s->failed = true;
        return;
    }
    entry->next = s->page;
    s->page = entry;
}

static bool is_number(hf__slice text)
{
    size_t digits = 0;
    while (digits < text.length && text.data[digits] >= '0' &&
           text.data[digits] <= '9') {
        digits++;
    }
    return digits > 0 && digits == text.length;
}

static void take_page(void *arg, const hf__value *array)
{
    scan *s = arg;
    s->page = NULL;
    s->page_read = array->count == 2 && is_number(array->first->text) &&
                   array->last->type == HF__VALUE_ARRAY;
    if (!s->page_read) {
        return;
    }
    copy_text(s->cursor, sizeof(s->cursor), array->first->text);
    for (const hf__value *v = array->last->first; v; v = v->next) {
        if (v->type == HF__VALUE_STRING) {
            add_name(s, v->text);
        }
    }
}

static hf_status next_page(hf_client *client, scan *s, const char *glob,
                           hf_error *err)
{
    char cursor[sizeof(s->cursor)];
    hf__call call;
    memcpy(cursor, s->cursor, sizeof(cursor));
    hf__call_begin(&call, NULL);
    hf__call_add(&call, HF__LITERAL("SCAN"));
    hf__call_add(&call, hf__slice_of(cursor));
    hf__call_add(&call, HF__LITERAL("COUNT"));
    hf__call_add(&call, HF__LITERAL("100"));
    hf__call_add(&call, HF__LITERAL("TYPE"));
    hf__call_add(&call, HF__LITERAL("hash"));
    if (glob) {
        hf__call_add(&call, HF__LITERAL("MATCH"));
        hf__call_add(&call, hf__slice_of(glob));
    }
    hf_status status = hf__client_query(client, &call, take_page, s, err);
    if (status == HF_OK && !s->page_read) {
        status = hf__error_set(err, HF_EPROTOCOL,
                               "the server's reply is no page of a SCAN");
    } else if (status == HF_OK && s->failed) {
        status = hf__error_nomem(err);
    }
    return status;
}

/* A key that is gone, is no lock, or is not for this user is passed over. */
static hf_status show_page(hf_client *client, scan *s, hf_lock_info_fn fn,
                           void *arg, bool *stop, hf_error *err)
{
    for (const seen *entry = s->page; entry && !*stop; entry = entry->next) {
        standing standing_now;
        hf_lock_info info;
        hf__slice name = {entry->name, entry->length};
        hf_status status = look(client, name, &standing_now, &info, err);
        if (status == HF_EWRONGTYPE || status == HF_EPERM) {
            s->refused += status == HF_EPERM;
            continue;
        }
        if (status != HF_OK) {
            return status;
        }
        if (looks_like_lock(&standing_now)) {
            s->shown++;
            *stop = fn(arg, &info) != 0;
        }
    }
    return HF_OK;
}

static void scan_free(scan *s)
{
    seen *entry = s->names;
    HASH_CLEAR(hh, s->names);
    while (entry) {
        seen *next = entry->hh.next;
        free(entry);
        entry = next;
    }
    free(s);
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
    scan *s = calloc(1, sizeof(*s));
    if (!s) {
        return hf__error_nomem(err);
    }
    bool stop = false;
    s->cursor[0] = '0';
    do {
        status = next_page(client, s, glob, err);
        if (status == HF_OK) {
            status = show_page(client, s, fn, arg, &stop, err);
        }
    } while (status == HF_OK && !stop && strcmp(s->cursor, "0") != 0);
    if (status == HF_OK && s->shown == 0 && s->refused > 0) {
        status = hf__error_set(err, HF_EPERM,
                               "%s: the user may not read any of %zu keys",
                               client->endpoint.display, s->refused);
    }
    scan_free(s);
    return status;
}
