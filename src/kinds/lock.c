#include "kinds/lock.h"

#include "kinds/names.h"
#include "kinds/scripts.h"

#define COUNT_MAX INT32_MAX /* of holds that an owner may have */

void hf__lock_channel(hf__buf *out, hf__slice name)
{
    hf__name_prefixed(out, HF__LITERAL("redisson_lock__channel"), name);
}

/* "0" is a release, for one waiter of each process; "1" a writer's, for all.
 * Redisson LockPubSub.onMessage. */
hf__wake hf__lock_wake(hf__slice payload)
{
    if (hf__slice_is(payload, "0")) {
        return HF__WAKE_ONE;
    }
    return hf__slice_is(payload, "1") ? HF__WAKE_ALL : HF__WAKE_NONE;
}

void hf__call_on_name(hf__call *call, const hf__script *script,
                      const hf__asker *asker)
{
    hf__call_begin(call, script);
    hf__call_add(call, asker->name);
    call->keys = 1;
}

void hf__call_add_again(hf__call *call, const hf__asker *asker)
{
    if (asker->again) {
        hf__call_add(call, HF__LITERAL("again"));
    }
}

static void say_acquire(hf__call *call, const hf__asker *asker,
                        int64_t lease_ms)
{
    hf__call_on_name(call, &hf__script_lock_acquire, asker);
    hf__call_add_number(call, 0, lease_ms);
    hf__call_add(call, asker->owner);
}

static void acquire(hf__call *call, const hf__asker *asker, int64_t lease_ms)
{
    say_acquire(call, asker, lease_ms);
    hf__call_add_again(call, asker);
}

static hf__verdict verdict_of_integer(int64_t n)
{
    if (n >= -1) {
        return (hf__verdict){.what = HF__BUSY, .remaining_ms = n};
    }
    if (n == -2) {
        return (hf__verdict){.what = HF__GONE};
    }
    if (n >= -1 - COUNT_MAX) {
        return (hf__verdict){.what = HF__GRANTED, .count = -1 - n};
    }
    return (hf__verdict){.what = HF__MISUNDERSTOOD};
}

hf__verdict hf__lock_verdict(const hf__reply *reply)
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

void hf__lock_release(hf__call *call, const hf__asker *asker, int64_t remaining,
                      int64_t lease_ms)
{
    hf__call_on_name(call, &hf__script_lock_release, asker);
    hf__call_add(call, asker->owner);
    hf__call_add_number(call, 0, remaining);
    hf__call_add_number(call, 1, lease_ms);
    hf__call_add(call, asker->channel);
}

void hf__lock_force(hf__call *call, const hf__asker *asker)
{
    hf__call_on_name(call, &hf__script_lock_force, asker);
    hf__call_add(call, asker->channel);
}

static void probe(hf__call *call, const hf__asker *asker)
{
    hf__call_on_name(call, &hf__script_lock_probe, asker);
    hf__call_add(call, asker->channel);
    hf__call_add(call, HF__LITERAL("holdfast:probe"));
}

void hf__lock_look(hf__call *call, const hf__asker *asker)
{
    hf__call_on_name(call, &hf__script_lock_look, asker);
    hf__call_add(call, asker->owner);
}

static void acquire_once(hf__call *call, const hf__asker *asker,
                         int64_t lease_ms)
{
    say_acquire(call, asker, lease_ms);
    hf__call_add(call, HF__LITERAL("once"));
}

hf__verdict hf__lock_verdict_once(const hf__reply *reply)
{
    hf__verdict verdict = hf__lock_verdict(reply);
    if (verdict.what == HF__GRANTED && verdict.count != 1) {
        verdict.what = HF__OWN;
    }
    return verdict;
}

const hf__kind hf__kind_lock = {
    .noun = "lock",
    .letter = 'L',
    .reentrant = true,
    .channel = hf__lock_channel,
    .wake = hf__lock_wake,
    .acquire = acquire,
    .verdict = hf__lock_verdict,
    .release = hf__lock_release,
    .force = hf__lock_force,
    .look = hf__lock_look,
    .probe = probe,
    .renew = &hf__script_lock_renew,
};

const hf__kind hf__kind_lock_once = {
    .noun = "lock",
    .letter = 'N',
    .channel = hf__lock_channel,
    .wake = hf__lock_wake,
    .acquire = acquire_once,
    .verdict = hf__lock_verdict_once,
    .release = hf__lock_release,
    .force = hf__lock_force,
    .look = hf__lock_look,
    .probe = probe,
    .renew = &hf__script_lock_renew,
};

/* Its channel's name is empty, which the scripts take for "tell nobody". */
const hf__kind hf__kind_spin = {
    .noun = "spin lock",
    .letter = 'I',
    .reentrant = true,
    .backoff_first_ms = 1, /* LockOptions.ExponentialBackOff */
    .backoff_max_ms = 128,
    .acquire = acquire,
    .verdict = hf__lock_verdict,
    .release = hf__lock_release,
    .force = hf__lock_force,
    .look = hf__lock_look,
    .probe = probe,
    .renew = &hf__script_lock_renew,
};
