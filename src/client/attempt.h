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

#endif
