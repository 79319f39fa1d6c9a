/* One acquisition under way: the acquisition machine and the blocking driver
 * around it. */
#ifndef HF__CLIENT_ATTEMPT_H
#define HF__CLIENT_ATTEMPT_H

#include "client/client_int.h"

typedef struct hf__attempt {
    hf_client *client;
    hf__target *target;
    hf__hold *hold;
    hf__thread *self;
    hf__terms terms;
    hf__wish wish;
    hf__buf channel; /* what this owner hears, if that is its own alone */
    hf__acquire machine;
    hf__acquire_input input;
    hf__contender contender;
    const atomic_bool *stop;
    int64_t reply_by;  /* when to stop waiting for a reply */
    int64_t asked;     /* lease of the acquire under way */
    unsigned restarts; /* of the server, when it was last looked at */
    bool told_endless;
    bool told_polling;
    hf__acquire_action action; /* what the keeper was told in its place ... */
    bool stepped;              /* ... if this is set */
    bool hastened; /* the keeper has sent the acquire; its reply is due */
    bool has_turn; /* nobody else's command of this hold is under way */
} hf__attempt;

/* Drives the machine to its end; what is granted opens `lease`. Client's mutex
 * held, given up meanwhile. */
void hf__attempt_run(hf__attempt *at, hf_lease *lease);
/* Ends an attempt that was not run. Client's mutex held. */
void hf__attempt_leave(hf__attempt *at);

/* ---- acquire.c */
/* A single try in two halves, so that the commands of several travel
 * together. */
typedef struct hf__try {
    int64_t reply_by; /* filled before: wait no longer for a reply */
    hf__attempt at;
    hf_lease *lease;
} hf__try;

/* Sends the acquire, unless the owner's hold is not ready for one. On HF_OK
 * hf__try_end must follow, by the same thread; otherwise there is nothing to
 * end. The options are checked ones, with wait_ms 0. */
hf_status hf__try_begin(hf__try *t, hf_client *client, const hf__goal *goal,
                        const hf_acquire_options *options, hf_error *err);
/* What was sent; NULL if nothing was. */
hf__request *hf__try_request(hf__try *t);
/* Waits for the reply, or first sends what was not. On HF_OK *out is set. */
hf_status hf__try_end(hf__try *t, hf_lease **out, hf_error *err);

#endif
