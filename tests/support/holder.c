#include "support/holder.h"

#include "kinds/lock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

void holder_open(holder *h)
{
    memset(h, 0, sizeof(*h));
    virtual_start(&h->world);
    hf__book_init(&h->book, &h->world.seam, HOLDER_WATCHDOG, 0, 0);
    memset(h->book.uuid, 'u', sizeof(h->book.uuid) - 1);
    h->target =
        hf__book_target(&h->book, &hf__kind_lock, HF__LITERAL("orders"));
    assert_non_null(h->target);
    h->hold = hf__book_pin(&h->book, h->target, 7);
    assert_non_null(h->hold);
}

void holder_close(holder *h)
{
    hf__book_free(&h->book);
}

/* ------------------------------------------------------------------ acquire */

holder_acquire holder_send_acquire(holder *h, hf__terms terms)
{
    assert_false(h->hold->busy);
    h->hold->busy = true;
    holder_acquire acquire = {
        .terms = terms,
        .grant = {.asked = hf__book_lease_to_ask(&h->book, h->hold, &terms),
                  .sent_at = h->world.now}};
    assert_int_equal(acquire.grant.asked % HF__NS_PER_MS, 0);
    virtual_entry_acquire(&h->server, h->world.now, acquire.grant.asked);
    acquire.grant.count = h->server.count;
    return acquire;
}

void holder_granted(holder *h, const holder_acquire *acquire, hf__lease *lease)
{
    hf__book_granted(&h->book, h->hold, lease, &acquire->terms,
                     &acquire->grant);
    hf__book_idle(&h->book, h->hold);
}

void holder_take(holder *h, hf__lease *lease, hf__terms terms)
{
    holder_acquire acquire = holder_send_acquire(h, terms);
    holder_granted(h, &acquire, lease);
}

void holder_take_watched(holder *h, hf__lease *lease)
{
    holder_take(h, lease, (hf__terms){0});
}

void holder_take_fixed(holder *h, hf__lease *lease, int64_t span)
{
    holder_take(h, lease, (hf__terms){.fixed = span});
}

/* ------------------------------------------------------------------ release */

static bool say(holder *h)
{
    hf__book_say(&h->book, h->hold);
    assert_int_equal(h->hold->said_lease % HF__NS_PER_MS, 0);
    return virtual_entry_release(&h->server, h->world.now,
                                 (int64_t)h->hold->said, h->hold->said_lease);
}

holder_release holder_send_release(holder *h)
{
    assert_false(h->hold->busy);
    h->hold->busy = true;
    return (holder_release){.listed = say(h), .sent_at = h->world.now};
}

void holder_released(holder *h, const holder_release *release)
{
    hf__book_released(&h->book, h->hold, release->listed, release->sent_at);
    hf__book_idle(&h->book, h->hold);
}

bool holder_give_back(holder *h, hf__lease *lease)
{
    if (!hf__book_leave(&h->book, lease)) {
        return false;
    }
    holder_release release = holder_send_release(h);
    holder_released(h, &release);
    return true;
}

/* ---------------------------------------------------------------- the keeper
 */

holder_renewal holder_send_renewal(holder *h)
{
    assert_true(h->hold->renewing);
    holder_renewal renewal = {
        .renewal = {.asked = hf__book_lease_to_renew(&h->book, h->hold),
                    .standing = h->hold->standing},
        .sent_at = h->world.now};
    assert_int_equal(renewal.renewal.asked % HF__NS_PER_MS, 0);
    renewal.renewal.found =
        virtual_entry_renew(&h->server, h->world.now, renewal.renewal.asked);
    return renewal;
}

void holder_renewed(holder *h, const holder_renewal *renewal, int found)
{
    hf__renewal heard = renewal->renewal;
    heard.found = found;
    hf__book_renewed(&h->book, h->hold, &heard, renewal->sent_at);
}

void holder_settle(holder *h, bool heard)
{
    assert_true(h->hold->busy);
    bool listed = say(h);
    hf__book_idle(&h->book, h->hold);
    hf__book_settled(&h->book, h->hold, heard, heard && listed);
}

hf__due holder_due(holder *h)
{
    hf__hold *hold = NULL;
    hf__due due = hf__book_due(&h->book, &hold);
    if (due != HF__DUE_NOTHING) {
        assert_ptr_equal(hold, h->hold);
    }
    return due;
}

hf__due holder_pass_to_due(holder *h)
{
    while (hf__book_next(&h->book) != HF__NEVER) {
        int64_t next = hf__book_next(&h->book);
        h->world.now = next > h->world.now ? next : h->world.now;
        hf__due due = holder_due(h);
        if (due != HF__DUE_NOTHING) {
            return due;
        }
    }
    return HF__DUE_NOTHING;
}

void holder_live(holder *h, int64_t span)
{
    int64_t end = h->world.now + span;
    while (hf__book_next(&h->book) <= end) {
        hf__due due = holder_pass_to_due(h);
        if (due == HF__DUE_SETTLE) {
            holder_settle(h, true);
        } else if (due == HF__DUE_RENEW) {
            holder_renewal renewal = holder_send_renewal(h);
            holder_renewed(h, &renewal, renewal.renewal.found);
        }
    }
    h->world.now = end > h->world.now ? end : h->world.now;
}

/* ------------------------------------------------------------------- leases */

hf_lease_state holder_state(const hf__lease *lease)
{
    return (hf_lease_state)atomic_load(&lease->state);
}

hf_loss holder_loss(const hf__lease *lease)
{
    return (hf_loss)atomic_load(&lease->loss);
}

int64_t holder_deadline(const hf__lease *lease)
{
    return atomic_load(&lease->deadline);
}
