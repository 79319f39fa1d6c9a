#include "kinds/lock.h"

#include "kinds/names.h"
#include "kinds/scripts.h"

#define COUNT_MAX INT32_MAX /* of holds that an owner may have */

static void channel(hf__buf *out, hf__slice name)
{
    hf__name_prefixed(out, HF__LITERAL("redisson_lock__channel"), name);
}

/* "0" is a release, for one waiter of each process; "1" a writer's, for all.
 * Redisson LockPubSub.onMessage. */
static hf__wake wake(hf__slice payload)
{
    if (hf__slice_is(payload, "0")) {
        return HF__WAKE_ONE;
    }
    return hf__slice_is(payload, "1") ? HF__WAKE_ALL : HF__WAKE_NONE;
}

static void on_key(hf__call *call, const hf__script *script,
                   const hf__asker *asker)
{
    hf__call_begin(call, script);
    hf__call_add(call, asker->name);
    call->keys = 1;
}

static void acquire(hf__call *call, const hf__asker *asker, int64_t lease_ms)
{
    on_key(call, &hf__script_lock_acquire, asker);
    hf__call_add_number(call, 0, lease_ms);
    hf__call_add(call, asker->owner);
}

static hf__verdict verdict_of_integer(int64_t n)
{
    if (n >= -1) {
        return (hf__verdict){.what = HF__BUSY, .remaining_ms = n};
    }
    if (n >= -1 - COUNT_MAX) {
        return (hf__verdict){.what = HF__GRANTED, .count = -1 - n};
    }
    return (hf__verdict){.what = HF__MISUNDERSTOOD};
}

static hf__verdict verdict(const hf__reply *reply)
{
    switch (reply->type) {
    case HF__VALUE_NIL:
        return (hf__verdict){.what = HF__GRANTED, .count = 1};
    case HF__VALUE_INTEGER:
        return verdict_of_integer(reply->integer);
    default:
        return (hf__verdict){.what = HF__MISUNDERSTOOD};
    }
}

static void release(hf__call *call, const hf__asker *asker, int64_t remaining,
                    int64_t lease_ms)
{
    on_key(call, &hf__script_lock_release, asker);
    hf__call_add(call, asker->owner);
    hf__call_add_number(call, 0, remaining);
    hf__call_add_number(call, 1, lease_ms);
    hf__call_add(call, asker->channel);
}

static void force(hf__call *call, const hf__asker *asker)
{
    on_key(call, &hf__script_lock_force, asker);
    hf__call_add(call, asker->channel);
}

static void probe(hf__call *call, const hf__asker *asker)
{
    on_key(call, &hf__script_lock_probe, asker);
    hf__call_add(call, asker->channel);
    hf__call_add(call, HF__LITERAL("holdfast:probe"));
}

const hf__kind hf__kind_lock = {
    .noun = "lock",
    .channel = channel,
    .wake = wake,
    .acquire = acquire,
    .verdict = verdict,
    .release = release,
    .force = force,
    .probe = probe,
    .renew = &hf__script_lock_renew,
};
