#include "kinds/rw.h"

#include "kinds/lock.h"
#include "kinds/names.h"
#include "kinds/scripts.h"

/* How long a waiting writer is believed to live after a try: twice the time
 * after which it tries again at the latest, by default. */
#define MARK_MS INT64_C(10000)

static void channel(hf__buf *out, hf__slice name)
{
    hf__name_prefixed(out, HF__LITERAL("redisson_rwlock"), name);
}

/* Says that a writer waits. Begins as the keys of the readers' holds do, so
 * that whoever may use those may use it. */
static void mark(hf__buf *out, hf__slice name)
{
    bool braced = memchr(name.data, '{', name.length) != NULL;
    hf__buf_append(out, "{", braced ? 0 : 1);
    hf__buf_append(out, name.data, name.length);
    hf__buf_append(out, "}", braced ? 0 : 1);
    hf__buf_append(out, ":holdfast_writer", 16);
}

/* "0" is the last reader's, "1" a writer's: after either of them readers may
 * come in, or one writer, and who hears it does not know which. Redisson
 * LockPubSub.onMessage wakes one for "0", who may be a reader that leaves the
 * other readers sleeping. */
static hf__wake wake(hf__slice payload)
{
    return hf__slice_is(payload, "0") || hf__slice_is(payload, "1")
               ? HF__WAKE_ALL
               : HF__WAKE_NONE;
}

static void on_name_and_mark(hf__call *call, const hf__script *script,
                             const hf__asker *asker)
{
    hf__call_on_name(call, script, asker);
    hf__call_add(call, asker->names[0]);
    call->keys = 2;
}

static void say_release(hf__call *call, const hf__asker *asker,
                        int64_t remaining, int64_t lease_ms)
{
    hf__call_add(call, asker->owner);
    hf__call_add_number(call, 0, remaining);
    hf__call_add_number(call, 1, lease_ms);
    hf__call_add(call, asker->channel);
}

static void probe(hf__call *call, const hf__asker *asker)
{
    on_name_and_mark(call, &hf__script_rw_probe, asker);
    hf__call_add(call, asker->channel);
    hf__call_add(call, HF__LITERAL("holdfast:probe"));
}

/* ---------------------------------------------------------------- readers */

static void read_acquire(hf__call *call, const hf__asker *asker,
                         int64_t lease_ms)
{
    on_name_and_mark(call, &hf__script_read_acquire, asker);
    hf__call_add_number(call, 0, lease_ms);
    hf__call_add(call, asker->owner);
    hf__call_add_number(call, 1, asker->wish.prefer_writers ? 1 : 0);
    hf__call_add_again(call, asker);
}

static void read_release(hf__call *call, const hf__asker *asker,
                         int64_t remaining, int64_t lease_ms)
{
    hf__call_on_name(call, &hf__script_read_release, asker);
    say_release(call, asker, remaining, lease_ms);
}

static void read_force(hf__call *call, const hf__asker *asker)
{
    hf__call_on_name(call, &hf__script_rw_force, asker);
    hf__call_add(call, asker->channel);
    hf__call_add(call, HF__LITERAL("read"));
    hf__call_add(call, HF__LITERAL("0"));
}

static void read_look(hf__call *call, const hf__asker *asker)
{
    hf__call_on_name(call, &hf__script_rw_look, asker);
    hf__call_add(call, asker->owner);
    hf__call_add(call, HF__LITERAL("read"));
}

const hf__kind hf__kind_read = {
    .noun = "read lock",
    .letter = 'R',
    .reentrant = true,
    .shared = true,
    .channel = channel,
    .wake = wake,
    .names = {mark},
    .acquire = read_acquire,
    .verdict = hf__lock_verdict,
    .release = read_release,
    .force = read_force,
    .look = read_look,
    .probe = probe,
    .renew = &hf__script_read_renew,
};

/* ---------------------------------------------------------------- writers */

static int64_t mark_ms(const hf__wish *wish)
{
    bool shorter = wish->wait_ms >= 0 && wish->wait_ms < MARK_MS;
    return shorter ? wish->wait_ms : MARK_MS;
}

static void write_acquire(hf__call *call, const hf__asker *asker,
                          int64_t lease_ms)
{
    on_name_and_mark(call, &hf__script_write_acquire, asker);
    hf__call_add_number(call, 0, lease_ms);
    hf__call_add(call, asker->owner);
    hf__call_add_number(call, 1, mark_ms(&asker->wish));
    hf__call_add_again(call, asker);
}

static void write_release(hf__call *call, const hf__asker *asker,
                          int64_t remaining, int64_t lease_ms)
{
    on_name_and_mark(call, &hf__script_write_release, asker);
    say_release(call, asker, remaining, lease_ms);
}

static void write_force(hf__call *call, const hf__asker *asker)
{
    hf__call_on_name(call, &hf__script_rw_force, asker);
    hf__call_add(call, asker->channel);
    hf__call_add(call, HF__LITERAL("write"));
    hf__call_add(call, HF__LITERAL("1"));
}

static void write_look(hf__call *call, const hf__asker *asker)
{
    hf__call_on_name(call, &hf__script_rw_look, asker);
    hf__call_add(call, asker->owner);
    hf__call_add(call, HF__LITERAL("write"));
}

/* No queue, but a mark that says that somebody waits. */
const hf__kind hf__kind_write = {
    .noun = "write lock",
    .letter = 'W',
    .reentrant = true,
    .queued = true,
    .owner_suffix = ":write",
    .channel = channel,
    .wake = wake,
    .names = {mark},
    .acquire = write_acquire,
    .verdict = hf__lock_verdict,
    .release = write_release,
    .force = write_force,
    .look = write_look,
    .probe = probe,
    .renew = &hf__script_write_renew,
};
