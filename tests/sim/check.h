/* What the checkers know of each other. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "sim/net.h"

#define SIM_OWNER_SIZE 64
#define SIM_SHARES 64
#define SIM_PLACES 64

/* How a way in became free. */
typedef enum sim_freeing {
    SIM_FREE_TOLD,    /* waiters were sent a message */
    SIM_FREE_EXPIRED, /* a time was up */
    SIM_FREE_REMOVED  /* by an operator, or with the server's memory */
} sim_freeing;

/* What one owner has of a lock. */
typedef struct sim_share {
    char owner[SIM_OWNER_SIZE];
    int64_t count;
    int64_t ends_at; /* in virtual time */
} sim_share;

typedef struct sim_door {
    bool open;
    int64_t since;
    sim_freeing how;
} sim_door;

/* Somebody's in a queue. */
typedef struct sim_place {
    char owner[SIM_OWNER_SIZE];
    int64_t ends_at; /* when it is believed to have died, in virtual time */
    int64_t taken_at;
    int64_t left_at; /* its owner does not wait any more since then; 0: does */
} sim_place;

/* A lock as the server has it. */
typedef struct sim_watch {
    sim_share shares[SIM_SHARES];
    unsigned share_count;
    bool numbered; /* has a number */
    int64_t number;
    int64_t total; /* of permits: those that are held as well */
    bool marked;   /* a writer waits, and readers give way */
    sim_place queue[SIM_PLACES];
    unsigned queue_count;
    int64_t first_since; /* the first in the queue is it */
    sim_door doors[SIM_DOORS];
    int64_t open_until; /* when the first door was last seen open */
    int64_t granted_at[SIM_PROCESSES]; /* the latest to anybody there */
    uint64_t last_token;
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
    uint64_t token;
    int64_t taken;   /* of a semaphore's permits, less what was undone */
    int64_t granted; /* of them, as it was told */
    int64_t changes; /* of a number, in its name, that took effect */
    int64_t called;  /* how many it has asked for ... */
    int64_t certain; /* ... and was told of */
    struct sim_standing *next; /* of the same hash */
} sim_standing;

extern sim_watch sim_watches[SIM_LOCKS];

/* NULL if the server never granted it. */
sim_standing *sim_standing_of(const char *owner, unsigned lock);
sim_standing *sim_standing_make(const char *owner, unsigned lock);
/* The lock was taken from whoever had it. */
void sim_check_taken_away(unsigned lock);
/* Whether what the server knew of it may have gone since then. */
bool sim_check_lost_since(unsigned lock, int64_t since);
/* It was taken out of the queue because it is believed to be dead. */
void sim_check_passed_over(unsigned lock, const sim_place *place);
/* The other library has made a token. */
void sim_check_peer_token(unsigned lock, uint64_t token);
/* ---- peer.c: whether that is the other library's program */
bool sim_peer_is(const char *owner);
/* The number of a lock's name, SIM_LOCKS for any other. */
unsigned sim_lock_number(const char *name, size_t length);

/* ---- look.c: what the server's keys say */
/* Owners that are no text in hexadecimal digits. */
void sim_owner_text(char out[SIM_OWNER_SIZE], hf__slice owner);
/* Two that may write and read at once. */
bool sim_same_actor(const char *owner, const char *other);
bool sim_is_writer(const char *owner);
const sim_share *sim_share_of(const sim_watch *watch, const char *owner);
const sim_place *sim_place_of(const sim_watch *watch, const char *owner);
void sim_look(unsigned lock, sim_watch *watch);
bool sim_door_is_open(const sim_watch *watch, unsigned lock, unsigned door);

#endif
