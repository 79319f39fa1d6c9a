/* A kind of lock is a table: its names, its scripts, how to read their
 * replies and whom a message wakes. The machines know nothing else of it. */
#ifndef HF__CORE_KIND_H
#define HF__CORE_KIND_H

#include "base/buf.h"
#include "base/call.h"
#include "base/error.h"
#include "base/value.h"

#include <stdint.h>

/* A reply's root, as far as a lock's script has one. */
typedef struct hf__reply {
    hf__value_type type;
    int64_t integer;
    hf__slice text;
} hf__reply;

typedef enum hf__verdict_what {
    HF__GRANTED,
    HF__BUSY,         /* another's */
    HF__MISUNDERSTOOD /* not a reply that the script gives */
} hf__verdict_what;

typedef struct hf__verdict {
    hf__verdict_what what;
    int64_t remaining_ms; /* BUSY: of the other's lease; below 0: no end */
    uint64_t token;       /* GRANTED: fencing token, 0 for none */
    int64_t count;        /* GRANTED: the owner's hold count, 0 for unknown */
} hf__verdict;

typedef enum hf__wake { HF__WAKE_NONE, HF__WAKE_ONE, HF__WAKE_ALL } hf__wake;

/* Who asks for what, as the scripts' arguments need it. */
typedef struct hf__asker {
    hf__slice name;
    hf__slice channel;
    hf__slice owner;
} hf__asker;

typedef struct hf__kind {
    const char *noun; /* for messages: "lock" */

    /* Appends the channel whose messages wake a waiter. */
    void (*channel)(hf__buf *out, hf__slice name);
    hf__wake (*wake)(hf__slice payload);

    void (*acquire)(hf__call *call, const hf__asker *asker, int64_t lease_ms);
    hf__verdict (*verdict)(const hf__reply *reply);
    /* Sets the hold count to `remaining`; may be said twice. Answers nil if
     * the owner held nothing. */
    void (*release)(hf__call *call, const hf__asker *asker, int64_t remaining,
                    int64_t lease_ms);
    void (*force)(hf__call *call, const hf__asker *asker);
    /* Lists commands that the user may not run. */
    void (*probe)(hf__call *call, const hf__asker *asker);

    /* Renewal of many at once: the script, then for each hold one key and
     * the pair lease, owner. Answers a list of 1, 0, -1. */
    const hf__script *renew;
} hf__kind;

#endif
