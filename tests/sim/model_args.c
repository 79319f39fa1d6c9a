/* What the commands' arguments mean. */
#include "sim/model_int.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

/* Decimal as the server itself would write it: no "+1", "01", " 1". */
bool model_parse_integer(hf__slice text, int64_t *number)
{
    size_t i = 0;
    bool negative = text.length > 0 && text.data[0] == '-';
    uint64_t limit = (uint64_t)INT64_MAX + negative;
    uint64_t value = 0;
    i += negative;
    if (i == text.length || text.length > 20 ||
        (text.data[i] == '0' && text.length > 1)) {
        return false;
    }
    for (; i < text.length; i++) {
        unsigned digit = (unsigned)(unsigned char)text.data[i] - '0';
        if (digit > 9 || value > (limit - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *number = (int64_t)(negative ? 0 - value : value);
    return true;
}

bool model_parse_double(hf__slice text, double *number)
{
    char copy[128];
    char *end;
    if (text.length == 0 || text.length >= sizeof(copy) ||
        text.data[0] == ' ') {
        return false;
    }
    memcpy(copy, text.data, text.length);
    copy[text.length] = '\0';
    *number = strtod(copy, &end);
    return end == copy + text.length && !isnan(*number);
}

bool model_arg_integer(model_call *call, size_t i, int64_t *number)
{
    if (model_parse_integer(call->args[i], number)) {
        return true;
    }
    model_reply_error(call->out, "ERR value is not an integer or out of range");
    return false;
}

bool model_arg_is(const model_call *call, size_t i, const char *word)
{
    size_t length = strlen(word);
    return call->args[i].length == length &&
           strncasecmp(call->args[i].data, word, length) == 0;
}

bool model_key_of(model_call *call, model_type type, model_key **key)
{
    *key = model_store_find(&call->m->store, *call->database, call->args[1]);
    if (*key && (*key)->type != type) {
        model_reply_error(call->out, "WRONGTYPE Operation against a key "
                                     "holding the wrong kind of value");
        return false;
    }
    return true;
}

model_key *model_key_make(model_call *call, model_type type)
{
    model_key *key;
    if (!model_key_of(call, type, &key)) {
        return NULL;
    }
    return key ? key
               : model_store_add(&call->m->store, *call->database,
                                 call->args[1], type);
}

void model_key_prune(model_call *call, model_key *key)
{
    if (key->count == 0) {
        model_store_remove(&call->m->store, key);
    }
}

bool model_clip(int64_t *start, int64_t *stop, size_t count)
{
    int64_t n = (int64_t)count;
    *start += *start < 0 ? n : 0;
    *stop += *stop < 0 ? n : 0;
    *start = *start < 0 ? 0 : *start;
    *stop = *stop >= n ? n - 1 : *stop;
    return *start <= *stop && *start < n;
}
