#include "kinds/permit.h"

#include "kinds/names.h"
#include "kinds/scripts.h"
#include "kinds/semaphore.h"

/* Redisson RedissonObject.suffixName. */
static void holders(hf__buf *out, hf__slice name)
{
    bool braced = memchr(name.data, '{', name.length) != NULL;
    hf__buf_append(out, "{", braced ? 0 : 1);
    hf__buf_append(out, name.data, name.length);
    hf__buf_append(out, "}", braced ? 0 : 1);
    hf__buf_append(out, ":timeout", strlen(":timeout"));
}

/* All want one: one that has come is for one of them. */
static hf__wake wake(hf__slice payload)
{
    return hf__slice_is(payload, "1") ? HF__WAKE_ONE
                                      : hf__semaphore_wake(payload);
}

static void begin(hf__call *call, const hf__script *script,
                  const hf__asker *asker)
{
    hf__call_begin(call, script);
    hf__call_add(call, asker->name);
    hf__call_add(call, asker->names[0]);
    call->keys = 2;
}

static void acquire(hf__call *call, const hf__asker *asker, int64_t lease_ms)
{
    begin(call, &hf__script_permit_acquire, asker);
    hf__call_add_number(call, 0, lease_ms);
    hf__call_add(call, asker->owner);
    hf__call_add(call, asker->channel);
}

static hf__verdict verdict(const hf__reply *reply)
{
    hf__verdict said = hf__semaphore_verdict(reply);
    said.count = said.what == HF__GRANTED;
    return said;
}

static void release(hf__call *call, const hf__asker *asker, int64_t remaining,
                    int64_t lease_ms)
{
    begin(call, &hf__script_permit_release, asker);
    hf__call_add(call, asker->owner);
    hf__call_add_number(call, 0, remaining);
    hf__call_add_number(call, 1, lease_ms);
    hf__call_add(call, asker->channel);
}

static void force(hf__call *call, const hf__asker *asker)
{
    begin(call, &hf__script_permit_force, asker);
    hf__call_add(call, asker->channel);
}

static void look(hf__call *call, const hf__asker *asker)
{
    begin(call, &hf__script_permit_look, asker);
    hf__call_add(call, asker->owner);
}

static void probe(hf__call *call, const hf__asker *asker)
{
    begin(call, &hf__script_permit_probe, asker);
    hf__call_add(call, asker->channel);
}

const hf__kind hf__kind_permit = {
    .noun = "permit",
    .letter = 'P',
    .shared = true,
    .anonymous = true,
    .owner_is_raw = true,
    .channel = hf__semaphore_channel,
    .wake = wake,
    .names = {holders, hf__semaphore_records},
    .acquire = acquire,
    .verdict = verdict,
    .release = release,
    .force = force,
    .look = look,
    .probe = probe,
    .renew = &hf__script_permit_renew,
};
