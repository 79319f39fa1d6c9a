/* Who waits for which channel's messages. One subscription of the process
 * serves all its waiters; a message wakes the first of them that is parked,
 * and so does time, should no message come. Plain state: the caller
 * guards it, and does what it answers.
 * Redisson PublishSubscribe, RedissonLockEntry. */
#ifndef HF__CORE_WAITERS_H
#define HF__CORE_WAITERS_H

#include "base/heap.h"
#include "base/list.h"
#include "core/hash.h"
#include "core/kind.h"
#include "core/seam.h"

#include <stdbool.h>

typedef enum hf__channel_state {
    HF__CHANNEL_SILENT, /* not subscribed */
    HF__CHANNEL_ASKED,  /* the acknowledgement is due */
    HF__CHANNEL_ACTIVE
} hf__channel_state;

typedef struct hf__channel {
    UT_hash_handle hh; /* by name */
    hf__slice name;    /* behind this struct */
    const hf__kind *kind;
    hf__channel_state state;
    bool shared;          /* some waiter has been of a shared kind */
    hf__list waiters;     /* in the order of their arrival */
    hf__heap_item timer;  /* the earlier of poll_at and linger_until */
    int64_t poll_at;      /* with parked waiters: when one of them must try */
    int64_t linger_until; /* without waiters: when to unsubscribe */
    void *driver;         /* the driver's part, behind the name */
} hf__channel;

typedef enum hf__waiter_state {
    HF__WAITER_OUT,
    HF__WAITER_TRYING, /* between two parkings */
    HF__WAITER_PARKED,
    HF__WAITER_WOKEN /* owes the others a try */
} hf__waiter_state;

typedef struct hf__waiter {
    hf__list node;
    hf__channel *channel;
    hf__waiter_state state;
    bool shares; /* of a shared kind */
    bool again;  /* a message came while it tried: the try may be older */
} hf__waiter;

typedef struct hf__waiters {
    hf__channel *channels;
    hf__heap due;
    size_t driver_size; /* of each channel's `driver` */
    int64_t linger;
    int64_t poll_cap;
} hf__waiters;

void hf__waiters_init(hf__waiters *waiters, size_t driver_size, int64_t linger,
                      int64_t poll_cap);
void hf__waiters_free(hf__waiters *waiters);

/* Finds, or makes if `make`; NULL if there is none or no memory. */
hf__channel *hf__waiters_channel(hf__waiters *waiters, const hf__kind *kind,
                                 hf__slice name, bool make);
/* A channel without waiters that is not subscribed. */
void hf__waiters_drop(hf__waiters *waiters, hf__channel *channel);

void hf__waiter_join(hf__waiters *waiters, hf__channel *channel,
                     hf__waiter *waiter);
/* Returns another waiter that must be woken in its place, or NULL. `ends_at`:
 * when what it was granted may end by itself, which no message tells;
 * HF__NEVER: it was granted nothing. */
hf__waiter *hf__waiter_leave(hf__waiters *waiters, hf__waiter *waiter,
                             int64_t now, int64_t ends_at);
/* False: do not park, try again. `poll_at`: when someone must try. */
bool hf__waiter_park(hf__waiters *waiters, hf__waiter *waiter, int64_t poll_at);
/* It is trying: from now on a message concerns its next try. */
void hf__waiter_try(hf__waiter *waiter);

/* Next waiter that a message or the time wakes, or NULL; the caller unparks
 * it. */
hf__waiter *hf__channel_wake(hf__channel *channel);
/* For a message that concerns all: called again until NULL, it wakes all that
 * can have it together, and one of the others. *others is 0 at first. */
hf__waiter *hf__channel_wake_sharing(hf__channel *channel, unsigned *others);
/* For a message of that meaning: marks those that try. */
void hf__channel_mark_trying(hf__channel *channel, bool all);
/* The earliest channel with something due, or NULL. Its timer is taken out. */
hf__channel *hf__waiters_due(hf__waiters *waiters, int64_t now);
/* Sets the timer anew after a change of poll_at or linger_until. */
void hf__channel_arm(hf__waiters *waiters, hf__channel *channel);

#endif
