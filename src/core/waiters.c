#include "core/waiters.h"

#include <stdlib.h>

void hf__waiters_init(hf__waiters *waiters, size_t driver_size, int64_t linger,
                      int64_t poll_cap)
{
    waiters->channels = NULL;
    hf__heap_init(&waiters->due);
    waiters->driver_size = driver_size;
    waiters->linger = linger;
    waiters->poll_cap = poll_cap;
}

void hf__waiters_free(hf__waiters *waiters)
{
    hf__channel *channel = waiters->channels;
    HASH_CLEAR(hh, waiters->channels);
    while (channel) {
        hf__channel *next = channel->hh.next;
        free(channel);
        channel = next;
    }
    hf__heap_free(&waiters->due);
}

static hf__channel *channel_new(const hf__waiters *waiters,
                                const hf__kind *kind, hf__slice name)
{
    size_t align = sizeof(max_align_t);
    size_t head = (sizeof(hf__channel) + name.length + align) / align * align;
    hf__channel *channel = calloc(1, head + waiters->driver_size);
    if (!channel) {
        return NULL;
    }
    char *bytes = (char *)(channel + 1);
    memcpy(bytes, name.data, name.length);
    channel->name = (hf__slice){bytes, name.length};
    channel->driver = (char *)channel + head;
    channel->kind = kind;
    hf__list_init(&channel->waiters);
    channel->timer.index = HF__HEAP_NOWHERE;
    channel->poll_at = HF__NEVER;
    channel->linger_until = HF__NEVER;
    return channel;
}

hf__channel *hf__waiters_channel(hf__waiters *waiters, const hf__kind *kind,
                                 hf__slice name, bool make)
{
    hf__channel *channel = NULL;
    HASH_FIND(hh, waiters->channels, name.data, name.length, channel);
    if (channel || !make) {
        return channel;
    }
    if (!hf__heap_reserve(&waiters->due, HASH_COUNT(waiters->channels) + 1)) {
        return NULL;
    }
    channel = channel_new(waiters, kind, name);
    if (!channel) {
        return NULL;
    }
    HASH_ADD_KEYPTR(hh, waiters->channels, channel->name.data,
                    channel->name.length, channel);
    if (!channel->hh.tbl) {
        free(channel); /* no memory for the table */
        return NULL;
    }
    return channel;
}

void hf__waiters_drop(hf__waiters *waiters, hf__channel *channel)
{
    hf__heap_remove(&waiters->due, &channel->timer);
    HASH_DEL(waiters->channels, channel);
    free(channel);
}

void hf__channel_arm(hf__waiters *waiters, hf__channel *channel)
{
    int64_t due = channel->poll_at < channel->linger_until
                      ? channel->poll_at
                      : channel->linger_until;
    if (due == HF__NEVER) {
        hf__heap_remove(&waiters->due, &channel->timer);
    } else {
        hf__heap_set(&waiters->due, &channel->timer, due);
    }
}

void hf__waiter_join(hf__waiters *waiters, hf__channel *channel,
                     hf__waiter *waiter)
{
    waiter->channel = channel;
    waiter->state = HF__WAITER_TRYING;
    waiter->again = false;
    channel->shared = channel->shared || waiter->shares;
    hf__list_append(&channel->waiters, &waiter->node);
    if (channel->linger_until != HF__NEVER) {
        channel->linger_until = HF__NEVER;
        hf__channel_arm(waiters, channel);
    }
}

/* A message that it was woken or marked for, and did not answer with a try, is
 * another's, be it one that is trying just now: that try may be the older. */
hf__waiter *hf__waiter_leave(hf__waiters *waiters, hf__waiter *waiter,
                             int64_t now, int64_t ends_at)
{
    hf__channel *channel = waiter->channel;
    if (waiter->state == HF__WAITER_OUT) {
        return NULL;
    }
    bool owes = waiter->state == HF__WAITER_WOKEN || waiter->again;
    waiter->state = HF__WAITER_OUT;
    hf__list_remove(&waiter->node);
    if (hf__list_empty(&channel->waiters)) {
        channel->poll_at = HF__NEVER;
        channel->linger_until = now + waiters->linger;
        hf__channel_arm(waiters, channel);
        return NULL;
    }
    /* It may be the one that time had woken: the others go on needing it. */
    int64_t latest = now + waiters->poll_cap;
    latest = ends_at < latest ? ends_at : latest;
    if (channel->poll_at == HF__NEVER ||
        (ends_at != HF__NEVER && channel->poll_at > latest)) {
        channel->poll_at = latest;
        hf__channel_arm(waiters, channel);
    }
    hf__waiter *heir = owes ? hf__channel_wake(channel) : NULL;
    if (owes && !heir) {
        hf__channel_mark_trying(channel, false);
    }
    return heir;
}

bool hf__waiter_park(hf__waiters *waiters, hf__waiter *waiter, int64_t poll_at)
{
    if (waiter->again) {
        waiter->again = false;
        return false;
    }
    waiter->state = HF__WAITER_PARKED;
    waiter->channel->poll_at = poll_at;
    hf__channel_arm(waiters, waiter->channel);
    return true;
}

void hf__waiter_try(hf__waiter *waiter)
{
    if (waiter->state != HF__WAITER_OUT) {
        waiter->state = HF__WAITER_TRYING;
    }
}

hf__waiter *hf__channel_wake(hf__channel *channel)
{
    for (hf__list *n = channel->waiters.next; n != &channel->waiters;
         n = n->next) {
        hf__waiter *waiter = HF__CONTAINER(n, hf__waiter, node);
        if (waiter->state == HF__WAITER_PARKED) {
            waiter->state = HF__WAITER_WOKEN;
            return waiter;
        }
    }
    return NULL;
}

hf__waiter *hf__channel_wake_sharing(hf__channel *channel, unsigned *others)
{
    for (hf__list *n = channel->waiters.next; n != &channel->waiters;
         n = n->next) {
        hf__waiter *waiter = HF__CONTAINER(n, hf__waiter, node);
        if (waiter->state == HF__WAITER_PARKED &&
            (waiter->shares || *others == 0)) {
            *others += !waiter->shares;
            waiter->state = HF__WAITER_WOKEN;
            return waiter;
        }
    }
    return NULL;
}

void hf__channel_mark_trying(hf__channel *channel, bool all)
{
    for (hf__list *n = channel->waiters.next; n != &channel->waiters;
         n = n->next) {
        hf__waiter *waiter = HF__CONTAINER(n, hf__waiter, node);
        if (waiter->state == HF__WAITER_TRYING && !waiter->again) {
            waiter->again = true;
            if (!all) {
                return;
            }
        }
    }
}

hf__channel *hf__waiters_due(hf__waiters *waiters, int64_t now)
{
    hf__heap_item *first = hf__heap_first(&waiters->due);
    if (!first || first->due > now) {
        return NULL;
    }
    hf__heap_remove(&waiters->due, first);
    return HF__CONTAINER(first, hf__channel, timer);
}
