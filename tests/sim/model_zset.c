/* Commands on sorted sets: items by score, those of one score by name. */
#include "sim/model_int.h"

#include <math.h>
#include <strings.h>

static bool comes_before(const model_item *item, double score, hf__slice name)
{
    if (item->score != score) {
        return item->score < score;
    }
    size_t n =
        item->name.length < name.length ? item->name.length : name.length;
    int order = memcmp(item->name.data, name.data, n);
    return order != 0 ? order < 0 : item->name.length < name.length;
}

static void put(model_key *key, hf__slice name, double score)
{
    size_t at = 0;
    score = score == 0 ? 0 : score; /* there is no minus zero */
    while (at < key->count && comes_before(&key->items[at], score, name)) {
        at++;
    }
    model_item_insert(key, at, name)->score = score;
}

/* ------------------------------------------------------------------- adding
 */

typedef struct options {
    bool nx, xx, gt, lt, ch, incr;
    size_t first; /* argument behind them */
    int64_t added;
    int64_t moved;
    bool refused; /* by nx, xx, gt or lt */
    double score; /* the last one that stands now */
} options;

static bool read_options(model_call *call, options *o)
{
    for (o->first = 2; o->first < call->count; o->first++) {
        if (model_arg_is(call, o->first, "nx")) {
            o->nx = true;
        } else if (model_arg_is(call, o->first, "xx")) {
            o->xx = true;
        } else if (model_arg_is(call, o->first, "gt")) {
            o->gt = true;
        } else if (model_arg_is(call, o->first, "lt")) {
            o->lt = true;
        } else if (model_arg_is(call, o->first, "ch")) {
            o->ch = true;
        } else if (model_arg_is(call, o->first, "incr")) {
            o->incr = true;
        } else {
            break;
        }
    }
    const char *why = NULL;
    size_t words = call->count - o->first;
    if (words == 0 || words % 2 != 0) {
        why = "ERR syntax error";
    } else if (o->nx && o->xx) {
        why = "ERR XX and NX options at the same time are not compatible";
    } else if ((o->gt && (o->nx || o->lt)) || (o->lt && o->nx)) {
        why = "ERR GT, LT, and/or NX options at the same time are not "
              "compatible";
    } else if (o->incr && words > 2) {
        why = "ERR INCR option supports a single increment-element pair";
    }
    if (why) {
        model_reply_error(call->out, "%s", why);
    }
    return why == NULL;
}

/* False when the sum is not a number. */
static bool add_one(model_key *key, options *o, double score, hf__slice name)
{
    size_t at = model_item_index(key, name);
    o->refused = at == SIZE_MAX ? o->xx : o->nx;
    if (o->refused) {
        return true;
    }
    if (at == SIZE_MAX) {
        put(key, name, score);
        o->score = score;
        o->added++;
        return true;
    }
    double old = key->items[at].score;
    o->score = o->incr ? old + score : score;
    if (isnan(o->score)) {
        return false;
    }
    if ((o->gt && o->score <= old) || (o->lt && o->score >= old)) {
        o->refused = true;
        return true;
    }
    if (o->score != old) {
        model_item_remove(key, at);
        put(key, name, o->score);
        o->moved++;
    }
    return true;
}

static bool scores_are_numbers(model_call *call, size_t first)
{
    double score;
    for (size_t i = first; i < call->count; i += 2) {
        if (!model_parse_double(call->args[i], &score)) {
            model_reply_error(call->out, "ERR value is not a valid float");
            return false;
        }
    }
    return true;
}

static void reply_added(model_call *call, const options *o)
{
    if (!o->incr) {
        model_reply_integer(call->out, o->added + (o->ch ? o->moved : 0));
    } else if (o->refused) {
        model_reply_nil(call->out);
    } else {
        model_reply_double(call->out, o->score);
    }
}

static void add(model_call *call, options *o)
{
    model_key *key;
    if (!scores_are_numbers(call, o->first) ||
        !model_key_of(call, MODEL_ZSET, &key)) {
        return;
    }
    if (!key && o->xx) {
        o->refused = true;
        reply_added(call, o);
        return;
    }
    key = model_key_make(call, MODEL_ZSET);
    for (size_t i = o->first; i < call->count; i += 2) {
        double score = 0;
        model_parse_double(call->args[i], &score);
        if (!add_one(key, o, score, call->args[i + 1])) {
            model_reply_error(call->out,
                              "ERR resulting score is not a number (NaN)");
            return;
        }
    }
    call->changed = o->added + o->moved > 0;
    reply_added(call, o);
}

void model_zadd(model_call *call)
{
    options o = {.first = 0};
    if (read_options(call, &o)) {
        add(call, &o);
    }
}

void model_zincrby(model_call *call)
{
    options o = {.first = 2, .incr = true};
    add(call, &o);
}

void model_zrem(model_call *call)
{
    model_key *key;
    int64_t removed = 0;
    if (!model_key_of(call, MODEL_ZSET, &key)) {
        return;
    }
    for (size_t i = 2; key && i < call->count; i++) {
        size_t at = model_item_index(key, call->args[i]);
        if (at != SIZE_MAX) {
            model_item_remove(key, at);
            removed++;
        }
    }
    call->changed = removed > 0;
    if (key) {
        model_key_prune(call, key);
    }
    model_reply_integer(call->out, removed);
}

/* ------------------------------------------------------------------ reading
 */

void model_zscore(model_call *call)
{
    model_key *key;
    if (!model_key_of(call, MODEL_ZSET, &key)) {
        return;
    }
    const model_item *item = key ? model_find_item(key, call->args[2]) : NULL;
    if (item) {
        model_reply_double(call->out, item->score);
    } else {
        model_reply_nil(call->out);
    }
}

void model_zcard(model_call *call)
{
    model_key *key;
    if (model_key_of(call, MODEL_ZSET, &key)) {
        model_reply_integer(call->out, key ? (int64_t)key->count : 0);
    }
}

/* "1.5", or "(1.5" without that score itself. */
typedef struct bound {
    double score;
    bool open;
} bound;

static bool read_bound(hf__slice text, bound *b)
{
    b->open = text.length > 0 && text.data[0] == '(';
    b->score = 0; /* of an empty text, too */
    text = (hf__slice){text.data + b->open, text.length - b->open};
    return text.length == 0 || model_parse_double(text, &b->score);
}

static bool read_bounds(model_call *call, size_t low, size_t high, bound b[2])
{
    if (read_bound(call->args[low], &b[0]) &&
        read_bound(call->args[high], &b[1])) {
        return true;
    }
    model_reply_error(call->out, "ERR min or max is not a float");
    return false;
}

/* Items between the bounds: from the first to before the second. */
static void between(const model_key *key, const bound b[2], size_t *from,
                    size_t *to)
{
    *from = 0;
    *to = key ? key->count : 0;
    while (*from < *to && (b[0].open ? key->items[*from].score <= b[0].score
                                     : key->items[*from].score < b[0].score)) {
        ++*from;
    }
    while (*to > *from &&
           (b[1].open ? key->items[*to - 1].score >= b[1].score
                      : key->items[*to - 1].score > b[1].score)) {
        --*to;
    }
}

void model_zcount(model_call *call)
{
    model_key *key;
    bound b[2];
    size_t from;
    size_t to;
    if (read_bounds(call, 2, 3, b) && model_key_of(call, MODEL_ZSET, &key)) {
        between(key, b, &from, &to);
        model_reply_integer(call->out, (int64_t)(to - from));
    }
}

void model_zremrangebyscore(model_call *call)
{
    model_key *key;
    bound b[2];
    size_t from;
    size_t to;
    if (!read_bounds(call, 2, 3, b) || !model_key_of(call, MODEL_ZSET, &key)) {
        return;
    }
    between(key, b, &from, &to);
    model_reply_integer(call->out, (int64_t)(to - from));
    call->changed = to > from;
    while (to > from) {
        model_item_remove(key, --to);
    }
    if (key) {
        model_key_prune(call, key);
    }
}

typedef struct range {
    bool by_score;
    bool reversed;
    bool with_scores;
    bool limited;
    int64_t skip;
    int64_t most; /* negative: all */
} range;

static bool read_range(model_call *call, range *r, bool fixed)
{
    r->most = -1;
    for (size_t i = 4; i < call->count; i++) {
        if (model_arg_is(call, i, "withscores")) {
            r->with_scores = true;
        } else if (model_arg_is(call, i, "limit") && i + 2 < call->count) {
            if (!model_arg_integer(call, i + 1, &r->skip) ||
                !model_arg_integer(call, i + 2, &r->most)) {
                return false;
            }
            r->limited = true;
            i += 2;
        } else if (!fixed && model_arg_is(call, i, "byscore")) {
            r->by_score = true;
        } else if (!fixed && model_arg_is(call, i, "rev")) {
            r->reversed = true;
        } else {
            model_reply_error(call->out, "ERR syntax error");
            return false;
        }
    }
    if (r->limited && !r->by_score) {
        model_reply_error(call->out,
                          "ERR syntax error, LIMIT is only supported in "
                          "combination with either BYSCORE or BYLEX");
        return false;
    }
    return true;
}

/* Items from the first to before the second; reversed, from the end. */
static void reply_range(model_call *call, const model_key *key, const range *r,
                        size_t from, size_t to)
{
    size_t count = to - from;
    size_t skip =
        r->skip < 0 || (uint64_t)r->skip > count ? count : (size_t)r->skip;
    count -= skip;
    if (r->most >= 0 && (uint64_t)r->most < count) {
        count = (size_t)r->most;
    }
    model_reply_array(call->out, count * (r->with_scores ? 2 : 1));
    for (size_t i = skip; i < skip + count; i++) {
        const model_item *item =
            &key->items[r->reversed ? to - 1 - i : from + i];
        model_reply_bulk(call->out, model_slice(&item->name));
        if (r->with_scores) {
            model_reply_double(call->out, item->score);
        }
    }
}

static void range_by_score(model_call *call, const range *r)
{
    model_key *key;
    bound b[2];
    size_t from;
    size_t to;
    size_t low = r->reversed ? 3 : 2;
    if (read_bounds(call, low, 5 - low, b) &&
        model_key_of(call, MODEL_ZSET, &key)) {
        between(key, b, &from, &to);
        reply_range(call, key, r, from, to);
    }
}

static void range_by_rank(model_call *call, const range *r)
{
    model_key *key;
    int64_t start;
    int64_t stop;
    if (!model_arg_integer(call, 2, &start) ||
        !model_arg_integer(call, 3, &stop) ||
        !model_key_of(call, MODEL_ZSET, &key)) {
        return;
    }
    if (!key || !model_clip(&start, &stop, key->count)) {
        model_reply_array(call->out, 0);
        return;
    }
    size_t from = (size_t)start;
    size_t to = (size_t)stop + 1;
    if (r->reversed) {
        from = key->count - (size_t)stop - 1;
        to = key->count - (size_t)start;
    }
    reply_range(call, key, r, from, to);
}

void model_zrange(model_call *call)
{
    range r = {.by_score = false};
    if (!read_range(call, &r, false)) {
        return;
    }
    if (r.by_score) {
        range_by_score(call, &r);
    } else {
        range_by_rank(call, &r);
    }
}

void model_zrangebyscore(model_call *call)
{
    range r = {.by_score = true};
    if (read_range(call, &r, true)) {
        range_by_score(call, &r);
    }
}
