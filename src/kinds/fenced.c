#include "kinds/fenced.h"

#include "kinds/lock.h"
#include "kinds/names.h"
#include "kinds/scripts.h"

static void counter(hf__buf *out, hf__slice name)
{
    hf__name_prefixed(out, HF__LITERAL("redisson_lock_token"), name);
}

/* The counter shall not end before the lock, lest a second acquisition by the
 * owner finds no token. */
static int64_t counter_life(const hf__asker *asker, int64_t lease_ms)
{
    int64_t life = asker->wish.token_life_ms;
    return life > 0 && life < lease_ms ? lease_ms : life;
}

static void acquire(hf__call *call, const hf__asker *asker, int64_t lease_ms)
{
    hf__call_begin(call, &hf__script_fenced_acquire);
    hf__call_add(call, asker->name);
    hf__call_add(call, asker->names[0]);
    call->keys = 2;
    hf__call_add_number(call, 0, lease_ms);
    hf__call_add(call, asker->owner);
    hf__call_add_number(call, 1, counter_life(asker, lease_ms));
    hf__call_add_again(call, asker);
}

/* Reads a number from 1 to `max` at the beginning of the text, and takes it
 * off; 0 if there is none. */
static uint64_t take_number(hf__slice *text, uint64_t max)
{
    uint64_t number = 0;
    while (text->length > 0 && *text->data >= '0' && *text->data <= '9') {
        uint64_t digit = (uint64_t)(*text->data - '0');
        if (number > (max - digit) / 10) {
            return 0;
        }
        number = number * 10 + digit;
        text->data++;
        text->length--;
    }
    return number;
}

/* "COUNT TOKEN" */
static hf__verdict verdict_of_text(hf__slice text)
{
    uint64_t count = take_number(&text, INT32_MAX);
    uint64_t token = 0;
    if (count > 0 && hf__slice_begins(text, " ")) {
        text.data++;
        text.length--;
        token = take_number(&text, INT64_MAX);
    }
    if (token == 0 || text.length > 0) {
        return (hf__verdict){.what = HF__MISUNDERSTOOD};
    }
    return (hf__verdict){
        .what = HF__GRANTED, .token = token, .count = (int64_t)count};
}

static hf__verdict verdict(const hf__reply *reply)
{
    if (reply->type == HF__VALUE_STRING) {
        return verdict_of_text(reply->text);
    }
    if (reply->type == HF__VALUE_INTEGER && reply->integer == -2) {
        return (hf__verdict){.what = HF__GONE};
    }
    if (reply->type == HF__VALUE_INTEGER && reply->integer >= HF__NO_END) {
        return (hf__verdict){.what = HF__BUSY, .remaining_ms = reply->integer};
    }
    return (hf__verdict){.what = HF__MISUNDERSTOOD};
}

static void probe(hf__call *call, const hf__asker *asker)
{
    hf__call_begin(call, &hf__script_lock_probe);
    hf__call_add(call, asker->name);
    hf__call_add(call, asker->names[0]);
    call->keys = 2;
    hf__call_add(call, asker->channel);
    hf__call_add(call, HF__LITERAL("holdfast:probe"));
}

const hf__kind hf__kind_fenced = {
    .noun = "fenced lock",
    .letter = 'K',
    .reentrant = true,
    .channel = hf__lock_channel,
    .wake = hf__lock_wake,
    .names = {counter},
    .acquire = acquire,
    .verdict = verdict,
    .release = hf__lock_release,
    .force = hf__lock_force,
    .look = hf__lock_look,
    .probe = probe,
    .renew = &hf__script_fenced_renew,
};
