/* Several locks as one, and what a part of the client does in two halves so
 * that it can be done for several at once. */
#ifndef HF__CLIENT_MULTI_H
#define HF__CLIENT_MULTI_H

#include "client/client_int.h"

/* ---- lease.c */
/* A release under way. */
typedef struct hf__giving {
    hf_lease *lease;
    hf__hold *hold; /* NULL: the lease had ended before */
    hf__thread *self;
    int64_t deadline;  /* of this call */
    int64_t valid_for; /* of the lease, when the call began */
    bool sent;         /* the turn is ours, and the reply due */
    bool repeated;     /* an earlier saying may have been executed */
    unsigned sayings;  /* of the hold, when the lease left it */
} hf__giving;

/* Takes the lease out of the book, and sends the release unless the hold is not
 * ready for one. hf__giving_end must follow, by the same thread. */
void hf__giving_begin(hf__giving *g, hf_lease *lease, hf__thread *self,
                      int64_t deadline);
/* What was sent; NULL if nothing was. */
hf__request *hf__giving_request(const hf__giving *g);
hf_status hf__giving_end(hf__giving *g, hf_error *err);
/* Releases what the lease still holds, in the background. */
void hf__lease_let_go(hf_lease *lease);
/* The same, and neither the book nor the keeper knows the handle any more. */
void hf__lease_forget(hf_lease *lease);
/* Frees a handle that is forgotten. */
void hf__lease_dispose(hf_lease *lease);

/* ---- multi.c */
typedef struct hf__member {
    hf_lock lock;
    size_t place; /* among those that were given to hf_multi_open */
} hf__member;

/* In the order of their servers and names. */
typedef struct hf__multi {
    _Atomic size_t refs; /* the handle's, and one for each lease */
    size_t count;
    bool one_client;
    hf__member members[];
} hf__multi;

hf__multi *hf__multi_ref(hf__multi *multi);
void hf__multi_unref(hf__multi *multi);
/* The same locks of the same clients. */
bool hf__multi_equal(const hf__multi *a, const hf__multi *b);
/* The owner as the member's client knows it: ordinals are the process's. NULL
 * for the calling thread. */
hf_owner *hf__multi_owner(const hf_lock *member, const hf_owner *owner,
                          hf_owner *room);

/* What the public calls do when they are given several */
hf_status hf__multi_acquire(hf_lock *lock, const hf_acquire_options *given,
                            hf_lease **out, hf_error *err);
hf_status hf__multi_release(hf_lock *lock, const hf_owner *owner,
                            hf_error *err);
hf_status hf__multi_force(hf_lock *lock, int *released, hf_error *err);
void hf__multi_free(hf_lock *lock);

/* ---- multi_lease.c */
typedef enum hf__phase {
    HF__FORMING, /* the members are being acquired */
    HF__BROKEN,  /* one was lost meanwhile */
    HF__OPEN,
    HF__TOLD, /* one was lost, and the holder is told */
    HF__ENDED /* released or freed: no loss is told any more */
} hf__phase;

typedef struct hf__part {
    hf_lease *lease; /* NULL: not acquired yet */
    hf__giving giving;
} hf__part;

typedef struct hf__multi_lease {
    hf_lease lease; /* what the program sees: in no book, its client is the
                       first lock's */
    hf__multi *multi;
    _Atomic int phase;
    uint64_t ordinal; /* the owner's */
    hf__list node;    /* in client->multis; guarded by its mutex */
    hf__part parts[]; /* as multi->members */
} hf__multi_lease;

/* NULL when out of memory. */
hf__multi_lease *hf__multi_lease_new(const hf_lock *lock, uint64_t ordinal,
                                     const hf_acquire_options *options,
                                     bool handed_out);
/* The members' on_lost; `arg` is the hf__multi_lease. */
void hf__multi_lost(void *arg, hf_lease *member, hf_loss why);
/* All parts are acquired. False if one is not held any more, or the time after
 * which it ends in any case is less than `least` nanoseconds away. Once it is
 * true, a lease without a handle may be gone. */
bool hf__multi_publish(hf__multi_lease *whole, int64_t least);
/* Gives back the parts that were acquired, waits at most until `by` for the
 * confirmation, and begins anew. */
void hf__multi_undo(hf__multi_lease *whole, int64_t by);
/* Waits for a reply that may be one of several: not so long that the other
 * servers' replies are not looked at. True: it is there. */
bool hf__multi_hear(const hf__multi *multi, hf_client *client,
                    hf__request *request, int64_t by, const atomic_bool *stop);
/* Gives back an owner's latest lease of these locks. HF_ENOTHELD, without a
 * text, if there is none. */
hf_status hf__multi_give_back_latest(const hf_lock *lock, uint64_t ordinal,
                                     hf_error *err);
hf_lease_state hf__multi_state(const hf_lease *lease);
int64_t hf__multi_remaining_ms(const hf_lease *lease);
hf_loss hf__multi_loss(const hf_lease *lease);
hf_status hf__multi_give_back(hf_lease *lease, hf_error *err);
void hf__multi_lease_free(hf_lease *lease);
/* The client closes: frees those that nobody has a handle of. */
void hf__multi_close(hf_client *client);

#endif
