#include "kinds/fair.h"

#include "kinds/lock.h"
#include "kinds/names.h"
#include "kinds/scripts.h"

static void queue(hf__buf *out, hf__slice name)
{
    hf__name_prefixed(out, HF__LITERAL("redisson_lock_queue"), name);
}

static void timeouts(hf__buf *out, hf__slice name)
{
    hf__name_prefixed(out, HF__LITERAL("redisson_lock_timeout"), name);
}

static void on_queue(hf__call *call, const hf__script *script,
                     const hf__asker *asker)
{
    hf__call_on_name(call, script, asker);
    hf__call_add(call, asker->names[0]);
    hf__call_add(call, asker->names[1]);
    call->keys = 3;
}

/* As the acquire's script takes it: without an end it is below 0. */
static int64_t wait_ms(const hf__wish *wish)
{
    return wish->wait_ms < 0 ? -wish->fair_wait_ms : wish->wait_ms;
}

static void say_acquire(hf__call *call, const hf__asker *asker,
                        int64_t lease_ms)
{
    on_queue(call, &hf__script_fair_acquire, asker);
    hf__call_add_number(call, 0, lease_ms);
    hf__call_add(call, asker->owner);
    hf__call_add_number(call, 1, wait_ms(&asker->wish));
}

static void acquire(hf__call *call, const hf__asker *asker, int64_t lease_ms)
{
    say_acquire(call, asker, lease_ms);
    hf__call_add_again(call, asker);
}

static void release(hf__call *call, const hf__asker *asker, int64_t remaining,
                    int64_t lease_ms)
{
    const hf__wish *wish = &asker->wish;
    on_queue(call, &hf__script_fair_release, asker);
    hf__call_add(call, asker->owner);
    hf__call_add_number(call, 0, remaining);
    hf__call_add_number(call, 1, lease_ms);
    hf__call_add_number(call, 2,
                        wish->wait_ms > 0 ? wish->wait_ms : wish->fair_wait_ms);
    hf__call_add(call, asker->channel);
}

static void force(hf__call *call, const hf__asker *asker)
{
    on_queue(call, &hf__script_fair_force, asker);
    hf__call_add(call, asker->channel);
}

static void probe(hf__call *call, const hf__asker *asker)
{
    on_queue(call, &hf__script_fair_probe, asker);
    hf__call_add(call, asker->channel);
    hf__call_add(call, HF__LITERAL("holdfast:probe"));
}

/* A fourth argument forbids the second time. */
static void acquire_once(hf__call *call, const hf__asker *asker,
                         int64_t lease_ms)
{
    say_acquire(call, asker, lease_ms);
    hf__call_add(call, HF__LITERAL("once"));
}

const hf__kind hf__kind_fair = {
    .noun = "fair lock",
    .letter = 'F',
    .reentrant = true,
    .queued = true,
    .channel = hf__lock_channel,
    .channel_of_owner = true,
    .wake = hf__lock_wake,
    .names = {queue, timeouts},
    .acquire = acquire,
    .verdict = hf__lock_verdict,
    .release = release,
    .force = force,
    .look = hf__lock_look,
    .probe = probe,
    .renew = &hf__script_lock_renew,
};

const hf__kind hf__kind_fair_once = {
    .noun = "fair lock",
    .letter = 'G',
    .queued = true,
    .channel = hf__lock_channel,
    .channel_of_owner = true,
    .wake = hf__lock_wake,
    .names = {queue, timeouts},
    .acquire = acquire_once,
    .verdict = hf__lock_verdict_once,
    .release = release,
    .force = force,
    .look = hf__lock_look,
    .probe = probe,
    .renew = &hf__script_lock_renew,
};
