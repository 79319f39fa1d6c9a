/* Commands on hashes. */
#include "sim/model_int.h"

#include "base/decimal.h"

#include <stdio.h>

/* True when the field was not there before. */
static bool put(model_key *key, hf__slice field, hf__slice value)
{
    size_t i = model_item_index(key, field);
    bool fresh = i == SIZE_MAX;
    model_item *item =
        fresh ? model_item_insert(key, key->count, field) : &key->items[i];
    model_text_set(&item->value, value);
    return fresh;
}

void model_hset(model_call *call)
{
    int64_t fresh = 0;
    if (call->count % 2 != 0) {
        model_reply_error(call->out,
                          "ERR wrong number of arguments for 'hset' command");
        return;
    }
    model_key *key = model_key_make(call, MODEL_HASH);
    if (!key) {
        return;
    }
    for (size_t i = 2; i < call->count; i += 2) {
        fresh += put(key, call->args[i], call->args[i + 1]);
    }
    call->changed = true;
    model_reply_integer(call->out, fresh);
}

void model_hsetnx(model_call *call)
{
    model_key *key = model_key_make(call, MODEL_HASH);
    if (!key) {
        return;
    }
    call->changed = model_item_index(key, call->args[2]) == SIZE_MAX;
    if (call->changed) {
        put(key, call->args[2], call->args[3]);
    }
    model_reply_integer(call->out, call->changed);
}

/* The item of the second argument; NULL if there is none; false with
 * WRONGTYPE. */
static bool field_of(model_call *call, const model_item **item)
{
    model_key *key;
    if (!model_key_of(call, MODEL_HASH, &key)) {
        return false;
    }
    *item = key ? model_find_item(key, call->args[2]) : NULL;
    return true;
}

void model_hget(model_call *call)
{
    const model_item *item;
    if (!field_of(call, &item)) {
        return;
    }
    if (item) {
        model_reply_bulk(call->out, model_slice(&item->value));
    } else {
        model_reply_nil(call->out);
    }
}

void model_hexists(model_call *call)
{
    const model_item *item;
    if (field_of(call, &item)) {
        model_reply_integer(call->out, item != NULL);
    }
}

void model_hdel(model_call *call)
{
    model_key *key;
    int64_t removed = 0;
    if (!model_key_of(call, MODEL_HASH, &key)) {
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

void model_hincrby(model_call *call)
{
    int64_t amount;
    int64_t number = 0;
    char text[HF__DECIMAL_MAX + 2];
    const model_item *item;
    if (!model_arg_integer(call, 3, &amount) || !field_of(call, &item)) {
        return;
    }
    if (item && !model_parse_integer(model_slice(&item->value), &number)) {
        model_reply_error(call->out, "ERR hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(number, amount, &number)) {
        model_reply_error(call->out,
                          "ERR increment or decrement would overflow");
        return;
    }
    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    put(model_key_make(call, MODEL_HASH), call->args[2], hf__slice_of(text));
    call->changed = true;
    model_reply_integer(call->out, number);
}

void model_hlen(model_call *call)
{
    model_key *key;
    if (model_key_of(call, MODEL_HASH, &key)) {
        model_reply_integer(call->out, key ? (int64_t)key->count : 0);
    }
}

static void all(model_call *call, bool names, bool values)
{
    model_key *key;
    if (!model_key_of(call, MODEL_HASH, &key)) {
        return;
    }
    size_t count = key ? key->count : 0;
    model_reply_array(call->out, count * ((size_t)names + (size_t)values));
    for (size_t i = 0; i < count; i++) {
        if (names) {
            model_reply_bulk(call->out, model_slice(&key->items[i].name));
        }
        if (values) {
            model_reply_bulk(call->out, model_slice(&key->items[i].value));
        }
    }
}

void model_hkeys(model_call *call)
{
    all(call, true, false);
}

void model_hvals(model_call *call)
{
    all(call, false, true);
}

void model_hgetall(model_call *call)
{
    all(call, true, true);
}
