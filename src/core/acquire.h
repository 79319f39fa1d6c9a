/* The acquisition: one state machine for every kind of lock, without I/O.
 * An event goes in, what is to be done comes out.
 *
 *     START -> TRYING -> granted -> DONE
 *                 | busy
 *                 v
 *            SUBSCRIBING -> TRYING -> PARKED -> (message, time) -> TRYING
 *
 * and whenever a reply is lost
 *
 *     TRYING -> SETTLING -> TRYING
 *
 * for an acquire that may have been executed is never sent again before the
 * server's hold count has been set to what is known: executed twice it would
 * count twice, and one release would leave the lock held.
 *
 * A try is always made after the subscription's acknowledgement: a release
 * between the first try and the subscription would be heard by nobody. No
 * wait is without an end.
 * Redisson RedissonLock.lock, tryLock; Redis manual "Distributed locks". */
#ifndef HF__CORE_ACQUIRE_H
#define HF__CORE_ACQUIRE_H

#include "core/kind.h"
#include "core/seam.h"

#include <stdbool.h>

typedef enum hf__acquire_event {
    HF__EV_START,
    HF__EV_GRANTED_OR_NOT, /* the acquire's reply is in `reply` */
    HF__EV_NOT_SENT,       /* certainly not executed; `status` says why */
    HF__EV_OUTDATED,       /* not sent, for the server was restarted */
    HF__EV_UNKNOWN,        /* sent, its reply is lost */
    HF__EV_SETTLED,        /* the server's count is what is known */
    HF__EV_NOT_SETTLED,
    HF__EV_SUBSCRIBED,
    HF__EV_NOT_SUBSCRIBED,
    HF__EV_WOKEN,   /* a message, the parking's end, or a lost subscription */
    HF__EV_TIME_UP, /* the deadline passed during an action */
    HF__EV_CANCEL
} hf__acquire_event;

typedef enum hf__acquire_action {
    HF__ACT_SEND,      /* the acquire; note the time before in sent_at */
    HF__ACT_SETTLE,    /* set the server's count to what is known */
    HF__ACT_SUBSCRIBE, /* and wait for the acknowledgement */
    HF__ACT_PARK,      /* until park_until, or as `shared` says */
    HF__ACT_DONE
} hf__acquire_action;

typedef enum hf__acquire_state {
    HF__ACQ_START,
    HF__ACQ_TRYING,
    HF__ACQ_SETTLING,
    HF__ACQ_SUBSCRIBING,
    HF__ACQ_PARKED,
    HF__ACQ_DONE
} hf__acquire_state;

typedef struct hf__acquire {
    /* filled before START */
    const hf__kind *kind;
    const hf__seam *seam;
    int64_t deadline;      /* INT64_MAX for none */
    int64_t poll_cap;      /* longest time without a try */
    int64_t backoff_first; /* of kinds without messages: time between tries, */
    int64_t backoff_max;   /* doubled each time up to this */
    uint64_t last_token;   /* known here; a new one is larger */
    bool once;             /* a single try */

    /* kept up to date by the driver */
    bool again;         /* the acquire under way is a re-entry */
    bool listening;     /* the channel's messages reach this waiter */
    int64_t not_before; /* quarantine: no try before */
    int64_t sent_at;    /* before the acquire left */
    int64_t lease;      /* what was asked for */

    /* the answer to an event */
    hf__acquire_state state;
    int64_t park_until; /* PARK: for this waiter alone */
    int64_t poll_at; /* PARK, shared: some waiter of the channel tries then */
    bool shared;     /* PARK: messages wake it */
    bool gone;       /* the owner's earlier leases are not there any more */
    bool endless;    /* the other's key has no end: say so */
    bool maybe_applied; /* DONE: the server may hold more than is known */
    hf_status status;   /* DONE */
    hf_error error;     /* DONE: text for a status other than HF_OK */
    uint64_t token;     /* DONE: of the grant */
    int64_t count;      /* DONE: the owner's hold count; 0 unknown */

    unsigned failures;
    unsigned tries;
    unsigned asked; /* tries that found it busy */
    unsigned polls; /* waits for want of a subscription */
    bool heard_busy;
    int64_t remaining_ms; /* last heard of the other's lease */
} hf__acquire;

typedef struct hf__acquire_input {
    hf__acquire_event event;
    hf__reply reply;  /* GRANTED_OR_NOT */
    hf_status status; /* NOT_SENT, NOT_SETTLED, NOT_SUBSCRIBED */
    hf__slice text;   /* with status: why */
    bool retriable;   /* with status */
    bool in_flight;   /* TIME_UP, CANCEL: the acquire may yet be executed */
} hf__acquire_input;

hf__acquire_action hf__acquire_step(hf__acquire *acquire,
                                    const hf__acquire_input *input);

/* When a lease of that length that was asked for at `sent_at` ends for its
 * holder: before it ends on the server, by a hundredth and 2 ms for clocks
 * that run differently. Redis manual "Distributed locks", validity time. */
int64_t hf__lease_deadline(int64_t sent_at, int64_t lease);

#endif
