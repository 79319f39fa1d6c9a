/* Commands on keys of any type, and on strings. */
#include "sim/model_int.h"

#include "base/decimal.h"

#include <stdio.h>
#include <strings.h>

static model_key *find(const model_call *call, size_t i)
{
    return model_store_find(&call->m->store, *call->database, call->args[i]);
}

/* --------------------------------------------------------------- any type */

void model_del(model_call *call)
{
    int64_t count = 0;
    for (size_t i = 1; i < call->count; i++) {
        model_key *key = find(call, i);
        if (key) {
            model_store_remove(&call->m->store, key);
            count++;
        }
    }
    call->changed = count > 0;
    model_reply_integer(call->out, count);
}

void model_exists(model_call *call)
{
    int64_t count = 0;
    for (size_t i = 1; i < call->count; i++) {
        count += find(call, i) != NULL;
    }
    model_reply_integer(call->out, count);
}

static const char *const type_names[] = {[MODEL_STRING] = "string",
                                         [MODEL_HASH] = "hash",
                                         [MODEL_LIST] = "list",
                                         [MODEL_ZSET] = "zset"};

void model_type_of(model_call *call)
{
    const model_key *key = find(call, 1);
    model_reply_status(call->out, key ? type_names[key->type] : "none");
}

void model_dbsize(model_call *call)
{
    int64_t count = 0;
    for (size_t i = 0; i < call->m->store.count; i++) {
        count += call->m->store.keys[i]->database == *call->database;
    }
    model_reply_integer(call->out, count);
}

static void flush(model_call *call, int database)
{
    if (call->count > 2 ||
        (call->count == 2 && !model_arg_is(call, 1, "sync") &&
         !model_arg_is(call, 1, "async"))) {
        model_reply_error(call->out, "ERR syntax error");
        return;
    }
    call->changed = model_store_clear(&call->m->store, database);
    model_reply_status(call->out, "OK");
}

void model_flush(model_call *call)
{
    flush(call, *call->database);
}

void model_flushall(model_call *call)
{
    flush(call, -1);
}

/* ------------------------------------------------------------------- expiry
 */

typedef struct conditions {
    bool nx, xx, gt, lt;
} conditions;

static bool read_conditions(model_call *call, conditions *only)
{
    *only = (conditions){false, false, false, false};
    for (size_t i = 3; i < call->count; i++) {
        if (model_arg_is(call, i, "nx")) {
            only->nx = true;
        } else if (model_arg_is(call, i, "xx")) {
            only->xx = true;
        } else if (model_arg_is(call, i, "gt")) {
            only->gt = true;
        } else if (model_arg_is(call, i, "lt")) {
            only->lt = true;
        } else {
            model_reply_error(call->out, "ERR Unsupported option %.*s",
                              (int)call->args[i].length, call->args[i].data);
            return false;
        }
    }
    if (only->nx && (only->xx || only->gt || only->lt)) {
        model_reply_error(call->out, "ERR NX and XX, GT or LT options at the "
                                     "same time are not compatible");
        return false;
    }
    if (only->gt && only->lt) {
        model_reply_error(call->out, "ERR GT and LT options at the same time "
                                     "are not compatible");
        return false;
    }
    return true;
}

static bool applies(const conditions *only, int64_t current, int64_t at)
{
    bool endless = current == MODEL_NEVER;
    return !(only->nx && !endless) && !(only->xx && endless) &&
           !(only->gt && (endless || at <= current)) &&
           !(only->lt && !endless && at >= current);
}

/* `amount` units from now, epoch ms. */
static bool find_end(model_call *call, int64_t amount, int64_t unit,
                     int64_t *at)
{
    int64_t now = model_now_ms(call->m);
    if (amount > INT64_MAX / unit || amount < INT64_MIN / unit ||
        amount * unit > INT64_MAX - now) {
        model_reply_error(call->out, "ERR invalid expire time in '%s' command",
                          call->command->name);
        return false;
    }
    *at = amount * unit + now;
    return true;
}

static void expire(model_call *call, int64_t unit)
{
    conditions only;
    int64_t amount;
    int64_t at;
    if (!read_conditions(call, &only) || !model_arg_integer(call, 2, &amount) ||
        !find_end(call, amount, unit, &at)) {
        return;
    }
    model_key *key = find(call, 1);
    if (!key || !applies(&only, key->expires_at, at)) {
        model_reply_integer(call->out, 0);
        return;
    }
    if (at <= model_now_ms(call->m)) {
        model_store_remove(&call->m->store, key);
    } else {
        model_store_expire(&call->m->store, key, at);
    }
    call->changed = true;
    model_reply_integer(call->out, 1);
}

void model_expire(model_call *call)
{
    expire(call, 1000);
}

void model_pexpire(model_call *call)
{
    expire(call, 1);
}

void model_persist(model_call *call)
{
    model_key *key = find(call, 1);
    call->changed = key && key->expires_at != MODEL_NEVER;
    if (call->changed) {
        key->expires_at = MODEL_NEVER;
    }
    model_reply_integer(call->out, call->changed);
}

void model_pttl_of(model_call *call)
{
    model_reply_integer(call->out, model_pttl(call->m, find(call, 1)));
}

void model_ttl(model_call *call)
{
    int64_t ms = model_pttl(call->m, find(call, 1));
    model_reply_integer(call->out, ms < 0 ? ms : (ms + 500) / 1000);
}

/* --------------------------------------------------------------------- scan
 */

/* Whether a set such as "[a-c]" has the character; moves behind it. */
static bool matches_set(const char **at, const char *end, char c)
{
    const char *p = *at + 1;
    bool found = false;
    bool inverse = p < end && *p == '^';
    for (p += inverse; p < end && *p != ']'; p++) {
        if (*p == '\\' && p + 1 < end) {
            found |= *++p == c;
        } else if (end - p > 2 && p[1] == '-') {
            found |= (p[0] <= c && c <= p[2]) || (p[2] <= c && c <= p[0]);
            p += 2;
        } else {
            found |= *p == c;
        }
    }
    *at = p < end ? p + 1 : end;
    return found != inverse;
}

static bool matches(hf__slice glob, hf__slice text)
{
    const char *at = glob.data;
    const char *end = at + glob.length;
    size_t i = 0;
    while (at < end) {
        if (*at == '*') {
            hf__slice rest = {at + 1, (size_t)(end - at) - 1};
            for (; i <= text.length; i++) {
                if (matches(rest,
                            (hf__slice){text.data + i, text.length - i})) {
                    return true;
                }
            }
            return false;
        }
        if (i == text.length) {
            return false;
        }
        if (*at == '[') {
            if (!matches_set(&at, end, text.data[i])) {
                return false;
            }
        } else {
            bool any = *at == '?';
            at += *at == '\\' && at + 1 < end;
            if (!any && *at != text.data[i]) {
                return false;
            }
            at++;
        }
        i++;
    }
    return i == text.length;
}

typedef struct scan {
    int64_t after; /* the id of the last key seen: what is older was shown */
    int64_t count;
    hf__slice glob;
    const char *type;
    size_t type_length;
} scan;

static bool read_scan(model_call *call, scan *s)
{
    *s = (scan){.count = 10};
    if (!model_parse_integer(call->args[1], &s->after) || s->after < 0) {
        model_reply_error(call->out, "ERR invalid cursor");
        return false;
    }
    for (size_t i = 2; i < call->count; i += 2) {
        bool more = i + 1 < call->count;
        if (more && model_arg_is(call, i, "count")) {
            if (!model_arg_integer(call, i + 1, &s->count)) {
                return false;
            }
            more = s->count > 0;
        } else if (more && model_arg_is(call, i, "match")) {
            s->glob = call->args[i + 1];
        } else if (more && model_arg_is(call, i, "type")) {
            s->type = call->args[i + 1].data;
            s->type_length = call->args[i + 1].length;
        } else {
            more = false;
        }
        if (!more) {
            model_reply_error(call->out, "ERR syntax error");
            return false;
        }
    }
    return true;
}

static bool is_shown(const scan *s, const model_key *key)
{
    const char *type = type_names[key->type];
    return (!s->glob.data || matches(s->glob, model_slice(&key->name))) &&
           (!s->type || (s->type_length == strlen(type) &&
                         strncasecmp(s->type, type, s->type_length) == 0));
}

void model_scan(model_call *call)
{
    scan s;
    if (!read_scan(call, &s)) {
        return;
    }
    const model_store *store = &call->m->store;
    size_t from = 0;
    size_t shown = 0;
    while (from < store->count && store->keys[from]->id <= (uint64_t)s.after) {
        from++;
    }
    size_t to = from;
    for (int64_t seen = 0; to < store->count && seen < s.count; to++) {
        if (store->keys[to]->database == *call->database) {
            seen++;
            shown += is_shown(&s, store->keys[to]);
        }
    }
    char cursor[HF__DECIMAL_MAX];
    uint64_t next = to < store->count ? store->keys[to - 1]->id : 0;
    char *end = hf__decimal(cursor, next);
    model_reply_array(call->out, 2);
    model_reply_bulk(call->out, (hf__slice){cursor, (size_t)(end - cursor)});
    model_reply_array(call->out, shown);
    for (; from < to; from++) {
        if (store->keys[from]->database == *call->database &&
            is_shown(&s, store->keys[from])) {
            model_reply_bulk(call->out, model_slice(&store->keys[from]->name));
        }
    }
}

/* ------------------------------------------------------------------ strings */

static hf__slice text_of(const model_key *key)
{
    return model_slice(&key->items[0].value);
}

static void put_text(model_key *key, hf__slice text)
{
    if (key->count == 0) {
        model_item_insert(key, 0, HF__LITERAL(""));
    }
    model_text_set(&key->items[0].value, text);
}

static void reply_text(model_call *call, const model_key *key)
{
    if (key) {
        model_reply_bulk(call->out, text_of(key));
    } else {
        model_reply_nil(call->out);
    }
}

void model_get(model_call *call)
{
    model_key *key;
    if (model_key_of(call, MODEL_STRING, &key)) {
        reply_text(call, key);
    }
}

void model_getdel(model_call *call)
{
    model_key *key;
    if (!model_key_of(call, MODEL_STRING, &key)) {
        return;
    }
    reply_text(call, key);
    call->changed = key != NULL;
    if (key) {
        model_store_remove(&call->m->store, key);
    }
}

void model_strlen(model_call *call)
{
    model_key *key;
    if (model_key_of(call, MODEL_STRING, &key)) {
        model_reply_integer(call->out, key ? (int64_t)text_of(key).length : 0);
    }
}

typedef struct set_options {
    bool nx, xx, get, keep_ttl;
    size_t lease; /* the argument that says it; 0: none does */
    int64_t unit;
    int64_t expires_at;
} set_options;

/* Whether it is "px 100" or the like. */
static bool read_lease(const model_call *call, size_t i, set_options *o)
{
    int64_t unit = model_arg_is(call, i, "px") ? 1 : 1000;
    if ((unit == 1000 && !model_arg_is(call, i, "ex")) ||
        i + 1 >= call->count || o->keep_ttl || o->lease) {
        return false;
    }
    o->lease = i + 1;
    o->unit = unit;
    return true;
}

static bool find_set_end(model_call *call, set_options *o)
{
    int64_t amount;
    if (!o->lease) {
        return true;
    }
    if (!model_arg_integer(call, o->lease, &amount)) {
        return false;
    }
    if (amount <= 0) {
        model_reply_error(call->out, "ERR invalid expire time in '%s' command",
                          call->command->name);
        return false;
    }
    return find_end(call, amount, o->unit, &o->expires_at);
}

static bool read_set_options(model_call *call, set_options *o)
{
    *o = (set_options){.expires_at = MODEL_NEVER};
    for (size_t i = 3; i < call->count; i++) {
        if (model_arg_is(call, i, "nx") && !o->xx) {
            o->nx = true;
        } else if (model_arg_is(call, i, "xx") && !o->nx) {
            o->xx = true;
        } else if (model_arg_is(call, i, "get")) {
            o->get = true;
        } else if (model_arg_is(call, i, "keepttl") && !o->lease) {
            o->keep_ttl = true;
        } else if (read_lease(call, i, o)) {
            i++;
        } else {
            model_reply_error(call->out, "ERR syntax error");
            return false;
        }
    }
    return find_set_end(call, o);
}

/* A string in place of whatever was there. */
static void overwrite(model_call *call, model_key *key, const set_options *o)
{
    int64_t at = key && o->keep_ttl ? key->expires_at : o->expires_at;
    if (key && key->type != MODEL_STRING) {
        model_store_remove(&call->m->store, key);
        key = NULL;
    }
    if (!key) {
        key = model_store_add(&call->m->store, *call->database, call->args[1],
                              MODEL_STRING);
    }
    put_text(key, call->args[2]);
    model_store_expire(&call->m->store, key, at);
    call->changed = true;
}

void model_set(model_call *call)
{
    set_options o;
    model_key *key;
    if (!read_set_options(call, &o)) {
        return;
    }
    if (o.get) {
        if (!model_key_of(call, MODEL_STRING, &key)) {
            return;
        }
        reply_text(call, key);
    }
    key = find(call, 1);
    bool done = key ? !o.nx : !o.xx;
    if (done) {
        overwrite(call, key, &o);
    }
    if (!o.get && done) {
        model_reply_status(call->out, "OK");
    } else if (!o.get) {
        model_reply_nil(call->out);
    }
}

void model_setnx(model_call *call)
{
    set_options o = {.expires_at = MODEL_NEVER};
    bool absent = !find(call, 1);
    if (absent) {
        overwrite(call, NULL, &o);
    }
    model_reply_integer(call->out, absent);
}

static void increase(model_call *call, int64_t amount)
{
    model_key *key;
    int64_t number = 0;
    char text[HF__DECIMAL_MAX + 2];
    if (!model_key_of(call, MODEL_STRING, &key)) {
        return;
    }
    if (key && !model_parse_integer(text_of(key), &number)) {
        model_reply_error(call->out,
                          "ERR value is not an integer or out of range");
        return;
    }
    if (__builtin_add_overflow(number, amount, &number)) {
        model_reply_error(call->out,
                          "ERR increment or decrement would overflow");
        return;
    }
    key = model_key_make(call, MODEL_STRING);
    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    put_text(key, hf__slice_of(text));
    call->changed = true;
    model_reply_integer(call->out, number);
}

void model_incr(model_call *call)
{
    increase(call, 1);
}

void model_decr(model_call *call)
{
    increase(call, -1);
}

void model_incrby(model_call *call)
{
    int64_t amount;
    if (model_arg_integer(call, 2, &amount)) {
        increase(call, amount);
    }
}

void model_decrby(model_call *call)
{
    int64_t amount;
    if (!model_arg_integer(call, 2, &amount)) {
        return;
    }
    if (amount == INT64_MIN) {
        model_reply_error(call->out, "ERR decrement would overflow");
        return;
    }
    increase(call, -amount);
}
