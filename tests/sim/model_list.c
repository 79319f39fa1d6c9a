/* Commands on lists; an item's name is the element. */
#include "sim/model_int.h"

static void push(model_call *call, bool left)
{
    model_key *key = model_key_make(call, MODEL_LIST);
    if (!key) {
        return;
    }
    for (size_t i = 2; i < call->count; i++) {
        model_item_insert(key, left ? 0 : key->count, call->args[i]);
    }
    call->changed = true;
    model_reply_integer(call->out, (int64_t)key->count);
}

void model_lpush(model_call *call)
{
    push(call, true);
}

void model_rpush(model_call *call)
{
    push(call, false);
}

static void pop_one(model_call *call, model_key *key, bool left)
{
    size_t at = left ? 0 : key->count - 1;
    model_reply_bulk(call->out, model_slice(&key->items[at].name));
    model_item_remove(key, at);
    call->changed = true;
}

static void pop(model_call *call, bool left)
{
    model_key *key;
    int64_t count = 1;
    bool counted = call->count == 3;
    if (call->count > 3) {
        model_reply_error(call->out,
                          "ERR wrong number of arguments for '%s' command",
                          call->command->name);
        return;
    }
    if (counted && (!model_parse_integer(call->args[2], &count) || count < 0)) {
        model_reply_error(call->out,
                          "ERR value is out of range, must be positive");
        return;
    }
    if (!model_key_of(call, MODEL_LIST, &key)) {
        return;
    }
    if (!key && counted) {
        model_reply_nil_array(call->out);
        return;
    }
    if (!key) {
        model_reply_nil(call->out);
        return;
    }
    if (count > (int64_t)key->count) {
        count = (int64_t)key->count;
    }
    if (counted) {
        model_reply_array(call->out, (size_t)count);
    }
    for (; count > 0; count--) {
        pop_one(call, key, left);
    }
    model_key_prune(call, key);
}

void model_lpop(model_call *call)
{
    pop(call, true);
}

void model_rpop(model_call *call)
{
    pop(call, false);
}

/* At most so many from the front, or (negative) from the back; 0: all. */
void model_lrem(model_call *call)
{
    model_key *key;
    int64_t limit;
    int64_t removed = 0;
    if (!model_arg_integer(call, 2, &limit) ||
        !model_key_of(call, MODEL_LIST, &key)) {
        return;
    }
    bool back = limit < 0;
    uint64_t most = limit == 0 ? UINT64_MAX
                    : back     ? 0 - (uint64_t)limit
                               : (uint64_t)limit;
    size_t left = key ? key->count : 0;
    size_t at = back && left > 0 ? left - 1 : 0;
    for (; left > 0 && (uint64_t)removed < most; left--) {
        bool hit = model_text_is(&key->items[at].name, call->args[3]);
        if (hit) {
            model_item_remove(key, at);
            removed++;
        }
        if (back) {
            at--; /* past the first one only when `left` ends the loop */
        } else if (!hit) {
            at++;
        }
    }
    call->changed = removed > 0;
    if (key) {
        model_key_prune(call, key);
    }
    model_reply_integer(call->out, removed);
}

/* Without its options. */
void model_lpos(model_call *call)
{
    model_key *key;
    if (call->count > 3) {
        model_reply_error(call->out, "ERR syntax error");
        return;
    }
    if (!model_key_of(call, MODEL_LIST, &key)) {
        return;
    }
    size_t at = key ? model_item_index(key, call->args[2]) : SIZE_MAX;
    if (at == SIZE_MAX) {
        model_reply_nil(call->out);
    } else {
        model_reply_integer(call->out, (int64_t)at);
    }
}

void model_lindex(model_call *call)
{
    model_key *key;
    int64_t i;
    if (!model_key_of(call, MODEL_LIST, &key)) {
        return;
    }
    if (!key) {
        model_reply_nil(call->out);
        return;
    }
    if (!model_arg_integer(call, 2, &i)) {
        return;
    }
    i += i < 0 ? (int64_t)key->count : 0;
    if (i < 0 || i >= (int64_t)key->count) {
        model_reply_nil(call->out);
    } else {
        model_reply_bulk(call->out, model_slice(&key->items[i].name));
    }
}

void model_lrange(model_call *call)
{
    model_key *key;
    int64_t start;
    int64_t stop;
    if (!model_arg_integer(call, 2, &start) ||
        !model_arg_integer(call, 3, &stop) ||
        !model_key_of(call, MODEL_LIST, &key)) {
        return;
    }
    if (!key || !model_clip(&start, &stop, key->count)) {
        model_reply_array(call->out, 0);
        return;
    }
    model_reply_array(call->out, (size_t)(stop - start + 1));
    for (; start <= stop; start++) {
        model_reply_bulk(call->out, model_slice(&key->items[start].name));
    }
}

void model_llen(model_call *call)
{
    model_key *key;
    if (model_key_of(call, MODEL_LIST, &key)) {
        model_reply_integer(call->out, key ? (int64_t)key->count : 0);
    }
}
