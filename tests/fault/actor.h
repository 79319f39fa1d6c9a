/* A server that behaves, but for one point of the conversation, where it says
 * what no server says. */
#ifndef TEST_FAULT_ACTOR_H
#define TEST_FAULT_ACTOR_H

#include "support/rubbish.h"

#include <stdatomic.h>

typedef enum phase {
    GREETING,
    RECONNECTING,
    PINGING,
    PROBING,
    ACQUIRING,
    RELEASING,
    RENEWING,
    SUBSCRIBING,
    LISTENING,
    SCANNING,
    INSPECTING,
    PHASES
} phase;

/* `head`, then `piece` so many times. */
typedef struct kind {
    const char *head;
    const char *piece;
    size_t times;
} kind;

extern const char *const phase_names[PHASES];

typedef struct actor {
    const kind *what;
    phase at;
    char acquire[64];  /* digest of the script that acquires */
    atomic_bool nasty; /* from now on; until then it behaves */
} actor;

/* A rubbish_fn, with the actor for its argument. */
void actor_act(void *arg, rubbish_peer *peer, const rubbish_request *request);
/* What a server would answer. */
void actor_behave(actor *a, rubbish_peer *peer, const rubbish_request *request);

#endif
