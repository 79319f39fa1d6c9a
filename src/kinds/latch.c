#include "kinds/latch.h"

#include "kinds/names.h"
#include "kinds/scripts.h"

/* In braces even if the name has some: RedissonCountDownLatch.getChannelName.
 */
static void channel(hf__buf *out, hf__slice name)
{
    static const char before[] = "redisson_countdownlatch__channel__{";
    hf__buf_append(out, before, sizeof(before) - 1);
    hf__buf_append(out, name.data, name.length);
    hf__buf_append(out, "}", 1);
}

static void records(hf__buf *out, hf__slice name)
{
    hf__name_prefixed(out, HF__LITERAL("holdfast_latch"), name);
}

/* "0": none is left; "1": there is a new count, or Redisson has deleted it,
 * and then its waiters may go on. CountDownLatchPubSub.onMessage. */
static hf__wake wake(hf__slice payload)
{
    bool changed = hf__slice_is(payload, "0") || hf__slice_is(payload, "1");
    return changed ? HF__WAKE_ALL : HF__WAKE_NONE;
}

static void command(hf__call *call, hf__slice name, const hf__asker *asker)
{
    hf__call_begin(call, NULL);
    hf__call_add(call, name);
    hf__call_add(call, asker->name);
}

static void await(hf__call *call, const hf__asker *asker, int64_t lease_ms)
{
    (void)lease_ms;
    command(call, HF__LITERAL("GET"), asker);
}

static bool is_integer(hf__slice text)
{
    size_t sign = hf__slice_begins(text, "-") ? 1 : 0;
    for (size_t i = sign; i < text.length; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
    }
    return text.length > sign;
}

/* Over when there is no count, or none above 0. */
static hf__verdict verdict(const hf__reply *reply)
{
    if (reply->type == HF__VALUE_NIL) {
        return (hf__verdict){.what = HF__GRANTED};
    }
    if (reply->type != HF__VALUE_STRING || !is_integer(reply->text)) {
        return (hf__verdict){.what = HF__MISUNDERSTOOD};
    }
    if (hf__slice_begins(reply->text, "-") || hf__slice_is(reply->text, "0")) {
        return (hf__verdict){.what = HF__GRANTED};
    }
    return (hf__verdict){.what = HF__BUSY, .remaining_ms = HF__NOT_SAID};
}

/* Whoever has waited holds nothing: there is nothing to settle. */
static void release(hf__call *call, const hf__asker *asker, int64_t remaining,
                    int64_t lease_ms)
{
    (void)remaining;
    (void)lease_ms;
    command(call, HF__LITERAL("EXISTS"), asker);
}

static void probe(hf__call *call, const hf__asker *asker)
{
    hf__call_begin(call, &hf__script_latch_probe);
    hf__call_add(call, asker->name);
    hf__call_add(call, asker->names[0]);
    call->keys = 2;
    hf__call_add(call, asker->channel);
}

const hf__kind hf__kind_latch = {
    .noun = "latch",
    .letter = 'H',
    .reentrant = true,
    .shared = true,
    .leaseless = true,
    .channel = channel,
    .wake = wake,
    .names = {records},
    .acquire = await,
    .verdict = verdict,
    .release = release,
    .probe = probe,
};
