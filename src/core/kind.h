/* A kind of lock, or of synchronizer, is a table: its names, its scripts, how
 * to read their replies and whom a message wakes. The machines know nothing
 * else of it. */
#ifndef HF__CORE_KIND_H
#define HF__CORE_KIND_H

#include "base/buf.h"
#include "base/call.h"
#include "base/error.h"
#include "base/value.h"

#include <stdbool.h>
#include <stdint.h>

/* A reply's root, as far as an acquire's script has one. */
typedef struct hf__reply {
    hf__value_type type;
    int64_t integer;
    hf__slice text; /* cut to HF__REPLY_TEXT_MAX */
} hf__reply;

typedef enum hf__verdict_what {
    HF__GRANTED,
    HF__BUSY,         /* another's */
    HF__OWN,          /* the owner's already, and not to be had twice */
    HF__GONE,         /* what the owner had is not there any more */
    HF__MISUNDERSTOOD /* not a reply that the script gives */
} hf__verdict_what;

/* Times that are no time. */
#define HF__NO_END INT64_C(-1)   /* the other's key has no end */
#define HF__NOT_SAID INT64_C(-2) /* the server does not say */

typedef struct hf__verdict {
    hf__verdict_what what;
    int64_t remaining_ms; /* BUSY: when to ask again at the latest, such as the
                             end of the other's lease; or one of the above */
    uint64_t token;       /* GRANTED: fencing token, 0 for none */
    int64_t count;        /* GRANTED: the owner's hold count, 0 for unknown */
} hf__verdict;

typedef enum hf__wake { HF__WAKE_NONE, HF__WAKE_ONE, HF__WAKE_ALL } hf__wake;

/* What an acquisition asks for beyond its lease. Kinds take what concerns
 * them. */
typedef struct hf__wish {
    int64_t wait_ms;       /* 0: a single try; below 0: without an end */
    int64_t fair_wait_ms;  /* queued kinds: for how long a waiter without an
                              end is believed to live; above 0 */
    int64_t token_life_ms; /* fenced: of the counter; 0: for ever */
    int64_t permits;       /* semaphores: how many; at least 1 */
    bool prefer_writers;   /* readers give way to waiting writers */
    uint64_t number;       /* semaphores: tells this acquisition from the
                              owner's others */
} hf__wish;

/* Names that follow from a lock's name, besides its channel. */
#define HF__NAMES_MAX 2
typedef void (*hf__name_fn)(hf__buf *out, hf__slice name);

/* Who asks for what, as the scripts' arguments need it. */
typedef struct hf__asker {
    hf__slice name;
    hf__slice channel; /* empty for kinds without */
    hf__slice names[HF__NAMES_MAX];
    hf__slice owner;
    bool again;    /* it has it already, as far as is known: an acquire that
                      finds it free must not take it, but answer so that the
                      verdict is HF__GONE, lest a lost reply revive what was
                      lost */
    hf__wish wish; /* of the owner's latest acquisition */
} hf__asker;

typedef struct hf__kind {
    const char *noun; /* for messages: "lock" */
    char letter;      /* its own among all kinds */

    /* An owner may have it more than once: it has a hold count. */
    bool reentrant;
    /* Several owners have it at once: a message wakes all waiters of such
     * kinds, and one of the others. */
    bool shared;
    /* The server keeps a queue: a waiter that leaves tells it so, by a release
     * to the hold count 0. */
    bool queued;
    /* Each acquisition is by an owner of its own: there is nothing to enter
     * again, and nobody else to tell apart. */
    bool anonymous;
    /* An acquisition is over once it is granted: there is nothing to renew,
     * nor to give back. */
    bool leaseless;

    /* What follows the owner's "uuid:ordinal" in its id; NULL: nothing. */
    const char *owner_suffix;
    /* The owner's id on the server is 16 bytes that no other has. */
    bool owner_is_raw;

    /* Appends the channel whose messages wake a waiter; NULL: there are no
     * messages, and waiters ask again and again. */
    hf__name_fn channel;
    /* Without messages: time between two tries, doubled from the first to the
     * second, unless the handle says otherwise. */
    int64_t backoff_first_ms;
    int64_t backoff_max_ms;
    /* A waiter hears `channel:owner`. */
    bool channel_of_owner;
    hf__wake (*wake)(hf__slice payload);
    hf__name_fn names[HF__NAMES_MAX];

    void (*acquire)(hf__call *call, const hf__asker *asker, int64_t lease_ms);
    hf__verdict (*verdict)(const hf__reply *reply);
    /* Sets the hold count to `remaining`; may be said twice. Answers an
     * integer, or nil if the owner held nothing. */
    void (*release)(hf__call *call, const hf__asker *asker, int64_t remaining,
                    int64_t lease_ms);
    /* Deletes it, whoever has it. Answers 1, or 0 if there was none. NULL:
     * cannot be asked for. */
    void (*force)(hf__call *call, const hf__asker *asker);
    /* Looks, without a change. Answers the text "LOCKED COUNT REMAINING": 1 or
     * 0, the asker's own hold count, and as PTTL does. */
    void (*look)(hf__call *call, const hf__asker *asker);
    /* Lists commands that the user may not run. */
    void (*probe)(hf__call *call, const hf__asker *asker);

    /* Renewal of many at once: the script, then for each hold its name as a
     * key, and the pair lease, owner. Answers a list of 1 held, 0 not listed,
     * -1 refused. NULL for leaseless kinds. */
    const hf__script *renew;
} hf__kind;

#endif
