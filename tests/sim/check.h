/* What the checkers know of each other. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "sim/net.h"

#define SIM_OWNER_SIZE 64

/* How a lock became free. */
typedef enum sim_freeing {
    SIM_FREE_TOLD,    /* waiters were sent a message */
    SIM_FREE_EXPIRED, /* its time was up */
    SIM_FREE_REMOVED  /* by an operator, or with the server's memory */
} sim_freeing;

/* A lock as the server has it. */
typedef struct sim_watch {
    bool held;
    char owner[SIM_OWNER_SIZE];
    int64_t count;
    int64_t ends_at; /* in virtual time */
    int64_t free_since;
    sim_freeing freeing;
} sim_watch;

/* An owner's standing at one lock, as the server saw it. */
typedef struct sim_standing {
    char owner[SIM_OWNER_SIZE];
    unsigned lock;
    unsigned process;
    int64_t granted_at;   /* the latest that began */
    int64_t acquired_at;  /* the last acquire */
    int64_t longest;      /* lease asked for in it */
    unsigned released_by; /* connection of the final release; 0: none */
} sim_standing;

extern sim_watch sim_watches[SIM_LOCKS];

/* NULL if the server never granted it. */
const sim_standing *sim_standing_of(const char *owner, unsigned lock);
/* The lock was taken from whoever had it. */
void sim_check_taken_away(unsigned lock);
/* The number of a lock's name, SIM_LOCKS for any other. */
unsigned sim_lock_number(const char *name, size_t length);

#endif
