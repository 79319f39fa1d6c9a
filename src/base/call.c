#include "base/call.h"

#include "base/decimal.h"

#include <assert.h>

void hf__call_begin(hf__call *call, const hf__script *script)
{
    call->script = script;
    call->args = call->fixed;
    call->count = 0;
    call->keys = 0;
}

void hf__call_add(hf__call *call, hf__slice arg)
{
    assert(call->count < HF__CALL_FIXED);
    call->fixed[call->count] = arg;
    call->count++;
}

void hf__call_add_number(hf__call *call, size_t slot, int64_t number)
{
    char *text = call->digits[slot];
    char *end = text;
    uint64_t magnitude = (uint64_t)number;
    if (number < 0) {
        *end++ = '-';
        magnitude = 0 - magnitude;
    }
    end = hf__decimal(end, magnitude);
    hf__call_add(call, (hf__slice){text, (size_t)(end - text)});
}
