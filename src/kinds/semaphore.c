#include "kinds/semaphore.h"

#include "kinds/names.h"
#include "kinds/scripts.h"

void hf__semaphore_channel(hf__buf *out, hf__slice name)
{
    hf__name_prefixed(out, HF__LITERAL("redisson_sc"), name);
}

void hf__semaphore_records(hf__buf *out, hf__slice name)
{
    hf__name_prefixed(out, HF__LITERAL("holdfast_permits"), name);
}

static void queue(hf__buf *out, hf__slice name)
{
    hf__name_prefixed(out, HF__LITERAL("holdfast_permits_queue"), name);
}

static bool is_positive(hf__slice payload)
{
    bool any = false;
    for (size_t i = 0; i < payload.length; i++) {
        if (payload.data[i] < '0' || payload.data[i] > '9') {
            return false;
        }
        any = any || payload.data[i] != '0';
    }
    return any;
}

/* The number of permits there are, or that have come. All wake even for one:
 * the first may want more than that, and another have enough with it. */
hf__wake hf__semaphore_wake(hf__slice payload)
{
    return is_positive(payload) ? HF__WAKE_ALL : HF__WAKE_NONE;
}

static void begin(hf__call *call, const hf__script *script,
                  const hf__asker *asker)
{
    hf__call_begin(call, script);
    hf__call_add(call, asker->name);
    hf__call_add(call, asker->names[0]);
    call->keys = 2;
    if (asker->names[1].length > 0) {
        hf__call_add(call, asker->names[1]);
        call->keys = 3;
    }
}

static void acquire(hf__call *call, const hf__asker *asker, int64_t lease_ms)
{
    (void)lease_ms;
    begin(call, &hf__script_semaphore_acquire, asker);
    hf__call_add_number(call, 0, asker->wish.permits);
    hf__call_add(call, asker->owner);
    hf__call_add_number(call, 1, (int64_t)asker->wish.number);
}

static void acquire_in_turn(hf__call *call, const hf__asker *asker,
                            int64_t lease_ms)
{
    bool waits = asker->wish.wait_ms != 0;
    acquire(call, asker, lease_ms);
    call->script = &hf__script_semaphore_acquire_in_turn;
    hf__call_add(call, asker->channel);
    hf__call_add(call, waits ? HF__LITERAL("1") : HF__LITERAL("0"));
}

hf__verdict hf__semaphore_verdict(const hf__reply *reply)
{
    if (reply->type == HF__VALUE_NIL) {
        return (hf__verdict){.what = HF__GRANTED};
    }
    if (reply->type == HF__VALUE_INTEGER &&
        (reply->integer >= 0 || reply->integer == HF__NOT_SAID)) {
        return (hf__verdict){.what = HF__BUSY, .remaining_ms = reply->integer};
    }
    return (hf__verdict){.what = HF__MISUNDERSTOOD};
}

/* Nothing remains of an acquisition that is over. */
static void release(hf__call *call, const hf__asker *asker, int64_t remaining,
                    int64_t lease_ms)
{
    (void)remaining;
    (void)lease_ms;
    begin(call, &hf__script_semaphore_release, asker);
    hf__call_add(call, asker->owner);
    hf__call_add(call, asker->channel);
    hf__call_add_number(call, 0, (int64_t)asker->wish.number);
}

static void probe(hf__call *call, const hf__asker *asker)
{
    begin(call, &hf__script_semaphore_probe, asker);
    hf__call_add(call, asker->channel);
}

const hf__kind hf__kind_semaphore = {
    .noun = "semaphore",
    .letter = 'S',
    .reentrant = true,
    .shared = true,
    .leaseless = true,
    .channel = hf__semaphore_channel,
    .wake = hf__semaphore_wake,
    .names = {hf__semaphore_records},
    .acquire = acquire,
    .verdict = hf__semaphore_verdict,
    .release = release,
    .probe = probe,
};

const hf__kind hf__kind_semaphore_in_turn = {
    .noun = "semaphore",
    .letter = 'T',
    .reentrant = true,
    .shared = true,
    .queued = true,
    .leaseless = true,
    .channel = hf__semaphore_channel,
    .wake = hf__semaphore_wake,
    .names = {hf__semaphore_records, queue},
    .acquire = acquire_in_turn,
    .verdict = hf__semaphore_verdict,
    .release = release,
    .probe = probe,
};
