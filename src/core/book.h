/* The book of what is held: which owner holds which lock how often, until
 * when, and what is next to be done about it. Plain state, no I/O: the caller
 * guards it with one mutex, and carries out what it asks for.
 *
 * A *hold* is one owner's standing at one lock: its hold count on the server
 * is the number of its live leases. A *lease* is one acquisition.
 *
 *     HELD <-> SUSPECT (a renewal failed, the deadline is ahead)
 *       |         |
 *       v         v
 *     RELEASED   LOST (final)
 *
 * Of one hold only one command that changes the count is under way at a time
 * (`busy`). When its outcome is unknown the hold is *unsettled*: the server is
 * told the count that is known, which may be said twice, and no other command
 * of the hold is sent before that is confirmed. */
#ifndef HF__CORE_BOOK_H
#define HF__CORE_BOOK_H

#include "base/heap.h"
#include "base/list.h"
#include "core/hash.h"
#include "core/kind.h"
#include "core/seam.h"
#include "holdfast/holdfast.h"

#include <stdatomic.h>
#include <stdbool.h>

#define HF__OWNER_SIZE 64 /* 36 of the UUID, a colon, 20 digits, 6, a NUL */

/* A lock's name with all that follows from it, shared by its handles. */
typedef struct hf__target {
    UT_hash_handle hh; /* by the kind's letter and the name */
    const hf__kind *kind;
    hf__slice name;    /* bytes behind this struct */
    hf__slice channel; /* likewise */
    hf__slice names[HF__NAMES_MAX];
    size_t refs;
    uint64_t last_token; /* largest ever granted to this client */
} hf__target;

#define HF__RAW_ID ((size_t)16) /* bytes of an owner's id that is no text */

typedef struct hf__hold_key {
    const hf__target *target;
    uint64_t ordinal; /* the owner's */
} hf__hold_key;

typedef struct hf__hold {
    UT_hash_handle hh;
    hf__hold_key key;
    hf__target *target;
    char owner[HF__OWNER_SIZE];
    size_t owner_length;
    hf__wish wish;      /* of the latest acquire */
    hf__list leases;    /* live ones, the latest last */
    size_t live;        /* how many: the server's hold count, once settled */
    int64_t deadline;   /* of the last confirmed acquire or renewal */
    int64_t lease;      /* what the server was told then */
    int64_t asked_at;   /* when the acquire under way was made up */
    int64_t reach;      /* latest deadline that anything sent may yield: what is
                           sent next must not fall short of it */
    size_t said;        /* hold count in the release or settling under way */
    int64_t said_lease; /* and its lease */
    unsigned sayings;   /* releases and settlings ever said */
    unsigned heard;     /* the latest settling that found the owner listed */
    unsigned standing;  /* how often it went from free to held: tells a late
                           reply about an earlier standing */
    int64_t renew_at;   /* HF__NEVER: nothing to renew, or it is under way */
    int64_t settle_at;
    unsigned settle_failures;
    unsigned renew_failures;
    size_t pins;    /* acquisitions, releases and requests that use it */
    bool busy;      /* a command that changes the count is under way */
    bool renewing;  /* a renewal is under way */
    bool unsettled; /* the server's count may be another than `live` */
    bool handed;    /* over to another process: its owner, who is the same to
                       the server, gets nothing here any more */
    hf__heap_item timer;
    hf__list idle; /* in the book's list of holds kept for their next use */
    void *driver;  /* behind this struct */
} hf__hold;

typedef struct hf__lease {
    hf__list node;  /* in its hold's leases, or in the book's lost */
    hf__hold *hold; /* NULL once neither live nor waiting to be told */
    _Atomic int64_t deadline; /* until when its holder may act */
    _Atomic int state;        /* hf_lease_state */
    _Atomic int loss;         /* hf_loss */
    int64_t sent_at;          /* of its acquire */
    int64_t limit; /* end of its own: a fixed lease's, a longest hold's */
    hf_loss limit_loss;
    bool watchdog; /* renewed */
    uint64_t token;
} hf__lease;

/* What an acquisition asks for. Nanoseconds. */
typedef struct hf__terms {
    int64_t fixed;    /* above 0: a fixed lease */
    int64_t max_hold; /* above 0: longest hold of a renewed lease */
} hf__terms;

typedef struct hf__book {
    const hf__seam *seam;
    char uuid[37];      /* first half of every owner's id */
    int64_t watchdog;   /* lease of renewed holds */
    int64_t longest;    /* lease ever asked for */
    int64_t quarantine; /* after a restart; below 0: none, 0: `longest` */
    int64_t quarantined_until;
    size_t driver_size; /* of each hold's `driver` */
    hf__target *targets;
    hf__hold *holds;
    hf__heap due;
    int64_t phase;       /* of 1024: where in its third a lease is renewed */
    int64_t along_until; /* renewals due by then travel with one that is */
    hf__list lost;       /* leases whose holder is to be told */
    hf__list idle;
    size_t idle_count;
} hf__book;

void hf__book_init(hf__book *book, const hf__seam *seam, int64_t watchdog,
                   int64_t quarantine, size_t driver_size);
void hf__book_free(hf__book *book);

/* Finds or makes; adds a reference. NULL when out of memory. */
hf__target *hf__book_target(hf__book *book, const hf__kind *kind,
                            hf__slice name);
void hf__book_drop_target(hf__book *book, hf__target *target);

/* Of nobody in particular. */
hf__asker hf__target_asker(const hf__target *target);
/* Who acts by this hold. */
hf__asker hf__hold_asker(const hf__hold *hold);
/* How often its owner has it, as far as is known here. */
size_t hf__book_live(hf__book *book, hf__hold *hold);

/* NULL if there is none. */
hf__hold *hf__book_find(hf__book *book, const hf__target *target,
                        uint64_t ordinal);
/* Finds or makes; pins it. NULL when out of memory. */
hf__hold *hf__book_pin(hf__book *book, hf__target *target, uint64_t ordinal);
/* An owner's id on the wire, "uuid:ordinal" and what the kind adds, which may
 * be NULL. Returns its length. */
size_t hf__book_owner_id(const hf__book *book, const hf__kind *kind,
                         uint64_t ordinal, char id[HF__OWNER_SIZE]);
void hf__book_unpin(hf__book *book, hf__hold *hold);

/* What to ask the server for, so that no live lease of the hold gets shorter
 * than its holder was told. Whole milliseconds. */
int64_t hf__book_lease_to_ask(const hf__book *book, hf__hold *hold,
                              const hf__terms *terms);
/* A granted acquire. */
typedef struct hf__grant {
    int64_t sent_at;
    int64_t asked; /* what hf__book_lease_to_ask has said for it */
    uint64_t token;
    int64_t count; /* the owner's on the server by now; 0 unknown */
} hf__grant;

void hf__book_granted(hf__book *book, hf__hold *hold, hf__lease *lease,
                      const hf__terms *terms, const hf__grant *grant);
/* A hold just made stands for another process' owner of that id, which has room
 * for what the kind adds to it. */
void hf__book_adopt(hf__hold *hold, hf__slice owner_id);
/* The server, asked at `asked_at`, did not list the owner. */
void hf__book_forgotten(hf__book *book, hf__hold *hold, int64_t asked_at);
/* The owner's leases of another kind by the same name, which share the count
 * on the server: it is set right if there are any. */
bool hf__book_settle_kin(hf__book *book, const hf__hold *hold);
/* Takes a lease out, before its release is sent: from here on no renewal goes
 * out that counts it. False if it is no longer live (lost or released). */
bool hf__book_leave(hf__book *book, hf__lease *lease);
/* The release sent at `sent_at` was confirmed; `held`: the server goes on to
 * list the owner. */
void hf__book_released(hf__book *book, hf__hold *hold, bool held,
                       int64_t sent_at);
/* What a release or settling says, and is to be remembered until it is
 * answered: in `said` the hold count, in `said_lease` the lease of what
 * remains, in whole milliseconds. */
void hf__book_say(const hf__book *book, hf__hold *hold);

/* No command of the hold is under way any more. */
void hf__book_idle(hf__book *book, hf__hold *hold);
/* A release found its lease lost: whoever released it is told by that. */
void hf__book_found_lost(hf__lease *lease);

/* The server's count may differ: settle as soon as the hold is not busy. */
void hf__book_unsettle(hf__book *book, hf__hold *hold);
/* Outcome of a settling. `confirmed`: the server has the count; `held`: it
 * lists the owner. Otherwise it is tried again after a while. */
void hf__book_settled(hf__book *book, hf__hold *hold, bool confirmed,
                      bool held);
/* The server has refused it for good: what it lists is not known, and the ends
 * that were promised stand. */
void hf__book_settle_refused(hf__book *book, hf__hold *hold);

/* Outcome of a renewal. */
typedef struct hf__renewal {
    int64_t asked;     /* 0: only looked */
    unsigned standing; /* the hold's when it was sent */
    int found;         /* 1 held, 0 not listed, -1 unknown */
} hf__renewal;

void hf__book_renewed(hf__book *book, hf__hold *hold,
                      const hf__renewal *renewal, int64_t sent_at);
/* The connection broke or came back: find out about every hold now. */
void hf__book_check_all(hf__book *book);
/* The server was restarted: grant nothing for a while. */
void hf__book_restarted(hf__book *book);
/* The lock was deleted by a command sent at `asked_at`: leases acquired before
 * are lost; later ones are the next owner's. Other kinds of that name, which
 * may share its key, are looked at. */
void hf__book_revoke(hf__book *book, const hf__target *target,
                     int64_t asked_at);

/* Marks a lease lost whose deadline has passed; true if it is lost. */
bool hf__book_expire(hf__book *book, hf__lease *lease);

typedef enum hf__due { HF__DUE_NOTHING, HF__DUE_SETTLE, HF__DUE_RENEW } hf__due;

/* What is next due at the present time, and for which hold; it counts as
 * under way (busy, renewing) and must be answered by hf__book_settled or
 * hf__book_renewed. Leases that have ended meanwhile are put into `lost`. */
hf__due hf__book_due(hf__book *book, hf__hold **out);
/* What a renewal must ask for; 0: only look. Whole milliseconds. */
int64_t hf__book_lease_to_renew(const hf__book *book, hf__hold *hold);
/* When hf__book_due has something to say; HF__NEVER if nothing. */
int64_t hf__book_next(const hf__book *book);

#endif
