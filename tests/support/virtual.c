#include "support/virtual.h"

#include "kinds/lock.h"
#include "support/net.h"

#include <stdlib.h>

/* ------------------------------------------------------- clock and chance */

static int64_t now(void *ctx)
{
    return ((virtual_seam *)ctx)->now;
}

/* Marsaglia's xorshift64. */
static uint64_t next(virtual_seam *world)
{
    world->seed ^= world->seed << 13;
    world->seed ^= world->seed >> 7;
    world->seed ^= world->seed << 17;
    return world->seed;
}

static uint64_t chance(void *ctx)
{
    virtual_seam *world = ctx;
    return world->seed ? next(world) : world->dealt;
}

void virtual_start(virtual_seam *world)
{
    *world = (virtual_seam){.now = 1000 * VIRTUAL_SECOND};
    world->seam = (hf__seam){.ctx = world, .now = now, .random = chance};
}

void virtual_seed(virtual_seam *world, uint64_t seed)
{
    world->seed = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
    for (int i = 0; i < 8; i++) {
        (void)next(world);
    }
}

uint64_t virtual_chance(virtual_seam *world, uint64_t below)
{
    return next(world) % below;
}

void virtual_pass(virtual_seam *world, int64_t span)
{
    world->now += span;
}

unsigned virtual_runs(unsigned count)
{
    const char *text = getenv("HOLDFAST_TEST_SCALE");
    double scale = text ? strtod(text, NULL) : 1.0;
    double runs = scale * count;
    return runs < 1.0 ? 1 : (unsigned)runs;
}

/* ------------------------------------------------------- replies by script */

hf__acquire_action virtual_say(hf__acquire *acquire,
                               const hf__acquire_input *input)
{
    hf__acquire_action action = hf__acquire_step(acquire, input);
    if (action == HF__ACT_SEND) {
        acquire->sent_at = hf__seam_now(acquire->seam);
    }
    return action;
}

hf__acquire_action virtual_event(hf__acquire *acquire, hf__acquire_event event)
{
    const hf__acquire_input input = {.event = event};
    return virtual_say(acquire, &input);
}

hf__acquire_action virtual_event_in_flight(hf__acquire *acquire,
                                           hf__acquire_event event)
{
    const hf__acquire_input input = {.event = event, .in_flight = true};
    return virtual_say(acquire, &input);
}

static hf__acquire_action say_reply(hf__acquire *acquire, hf__reply reply)
{
    const hf__acquire_input input = {.event = HF__EV_GRANTED_OR_NOT,
                                     .reply = reply};
    return virtual_say(acquire, &input);
}

hf__acquire_action virtual_nil(hf__acquire *acquire)
{
    return say_reply(acquire, (hf__reply){.type = HF__VALUE_NIL});
}

hf__acquire_action virtual_integer(hf__acquire *acquire, int64_t number)
{
    return say_reply(acquire,
                     (hf__reply){.type = HF__VALUE_INTEGER, .integer = number});
}

hf__acquire_action virtual_error(hf__acquire *acquire, const char *text)
{
    return say_reply(acquire, (hf__reply){.type = HF__VALUE_ERROR,
                                          .text = hf__slice_of(text)});
}

hf__acquire_action virtual_failure(hf__acquire *acquire,
                                   hf__acquire_event event, hf_status status,
                                   bool retriable)
{
    const hf__acquire_input input = {.event = event,
                                     .status = status,
                                     .text = HF__LITERAL("said by the test"),
                                     .retriable = retriable};
    return virtual_say(acquire, &input);
}

/* -------------------------------------------- a machine of the plain lock */

hf__acquire virtual_machine(virtual_seam *world)
{
    virtual_start(world);
    return (hf__acquire){.kind = &hf__kind_lock,
                         .seam = &world->seam,
                         .deadline = INT64_MAX,
                         .poll_cap = VIRTUAL_POLL_CAP,
                         .lease = VIRTUAL_LEASE};
}

static void must_answer(hf__acquire_action expected, hf__acquire_action action)
{
    if (action != expected) {
        test_die("the machine answered %d, not %d", (int)action, (int)expected);
    }
}

hf__acquire virtual_sent(virtual_seam *world)
{
    hf__acquire a = virtual_machine(world);
    must_answer(HF__ACT_SEND, virtual_event(&a, HF__EV_START));
    return a;
}

hf__acquire virtual_parked(virtual_seam *world, int64_t remaining_ms)
{
    hf__acquire a = virtual_sent(world);
    must_answer(HF__ACT_SUBSCRIBE, virtual_integer(&a, remaining_ms));
    must_answer(HF__ACT_SEND, virtual_event(&a, HF__EV_SUBSCRIBED));
    must_answer(HF__ACT_PARK, virtual_integer(&a, remaining_ms));
    return a;
}

/* --------------------------------------------------------- server's entry */

static bool is_listed(const virtual_entry *entry, int64_t at)
{
    return entry->count > 0 && at < entry->end;
}

void virtual_entry_acquire(virtual_entry *entry, int64_t at, int64_t lease)
{
    entry->count = is_listed(entry, at) ? entry->count + 1 : 1;
    entry->end = at + lease;
}

bool virtual_entry_release(virtual_entry *entry, int64_t at, int64_t remaining,
                           int64_t lease)
{
    bool listed = is_listed(entry, at);
    entry->count = listed ? remaining : 0;
    entry->end = at + lease;
    return entry->count > 0;
}

int virtual_entry_renew(virtual_entry *entry, int64_t at, int64_t lease)
{
    if (!is_listed(entry, at)) {
        return 0;
    }
    if (lease > 0) {
        entry->end = at + lease;
    }
    return 1;
}

/* ------------------------------------------------------------ fenced lock */

static void channel(hf__buf *out, hf__slice name)
{
    hf__kind_lock.channel(out, name);
}

static hf__verdict verdict(const hf__reply *reply)
{
    switch (reply->type) {
    case HF__VALUE_INTEGER:
        return (hf__verdict){.what = HF__GRANTED,
                             .token = (uint64_t)reply->integer};
    case HF__VALUE_NIL:
        return (hf__verdict){.what = HF__BUSY, .remaining_ms = 1000};
    default:
        return (hf__verdict){.what = HF__MISUNDERSTOOD};
    }
}

const hf__kind virtual_kind_fenced = {
    .noun = "fenced lock",
    .channel = channel,
    .verdict = verdict,
};
