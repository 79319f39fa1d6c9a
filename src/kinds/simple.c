#include "kinds/simple.h"

#include "kinds/lock.h"
#include "kinds/scripts.h"

static void acquire(hf__call *call, const hf__asker *asker, int64_t lease_ms)
{
    hf__call_begin(call, NULL);
    hf__call_add(call, HF__LITERAL("SET"));
    hf__call_add(call, asker->name);
    hf__call_add(call, asker->owner);
    hf__call_add(call, HF__LITERAL("PX"));
    hf__call_add_number(call, 0, lease_ms);
    hf__call_add(call, HF__LITERAL("NX"));
}

static hf__verdict verdict(const hf__reply *reply)
{
    if (reply->type == HF__VALUE_STATUS && hf__slice_is(reply->text, "OK")) {
        return (hf__verdict){.what = HF__GRANTED, .count = 1};
    }
    if (reply->type == HF__VALUE_NIL) {
        return (hf__verdict){.what = HF__BUSY, .remaining_ms = HF__NOT_SAID};
    }
    return (hf__verdict){.what = HF__MISUNDERSTOOD};
}

static void release(hf__call *call, const hf__asker *asker, int64_t remaining,
                    int64_t lease_ms)
{
    hf__call_on_name(call, &hf__script_simple_release, asker);
    hf__call_add(call, asker->owner);
    hf__call_add_number(call, 0, remaining);
    hf__call_add_number(call, 1, lease_ms);
}

void hf__simple_delete(hf__call *call, const hf__asker *asker)
{
    release(call, asker, 0, 0);
    hf__call_add(call, HF__LITERAL("why"));
}

static void force(hf__call *call, const hf__asker *asker)
{
    hf__call_on_name(call, &hf__script_simple_force, asker);
}

static void look(hf__call *call, const hf__asker *asker)
{
    hf__call_on_name(call, &hf__script_simple_look, asker);
    hf__call_add(call, asker->owner);
}

static void probe(hf__call *call, const hf__asker *asker)
{
    hf__call_on_name(call, &hf__script_simple_probe, asker);
}

const hf__kind hf__kind_simple = {
    .noun = "simple lock",
    .letter = 'U',
    .backoff_first_ms = 10,
    .backoff_max_ms = 10,
    .acquire = acquire,
    .verdict = verdict,
    .release = release,
    .force = force,
    .look = look,
    .probe = probe,
    .renew = &hf__script_simple_renew,
};
