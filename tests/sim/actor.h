/* A simulated program: one client, some threads, random calls. */
#ifndef SIM_ACTOR_H
#define SIM_ACTOR_H

#include "sim/threads.h"

#include "client/client_int.h"
#include "sim/sim.h"

#define SIM_RECORDS 64
#define SIM_OWNERS 2

/* A lease of which the program has the handle. */
typedef struct sim_record {
    struct sim_actor *actor;
    hf_lease *lease; /* NULL: not granted yet */
    bool used;
    bool busy;    /* some thread releases or frees it */
    bool tells;   /* has a callback */
    bool renewed; /* by the watchdog, without a ceiling */
    bool told;
    bool ended;         /* was seen not to be held */
    bool released;      /* was seen released: who did it is told of a loss */
    int64_t lost_since; /* was seen lost, at that time; 0: was not */
    unsigned lock;
    unsigned door;
    unsigned thread;
} sim_record;

/* A thread that waits for a lock. */
typedef struct sim_waiting {
    bool waiting;
    bool cancelled;
    unsigned lock;
    unsigned door;
    char owner[64]; /* in whose name */
    int64_t since;
    int64_t until;
} sim_waiting;

/* A name's handles. */
typedef struct sim_handles {
    hf_lock *lock[SIM_READERS + 1]; /* by door; the second of read locks only */
    hf_semaphore *semaphore;
    hf_latch *latch;
} sim_handles;

typedef struct sim_actor {
    sim_process *process;
    hf_client *client; /* NULL while there is none */
    int64_t opened_at;
    int64_t command_timeout;
    int64_t poll_cap;
    int64_t quarantine;
    sim_handles handles[SIM_LOCKS];
    hf_owner *owners[SIM_OWNERS];
    hf_cancel *cancels[SIM_THREADS];
    bool all_cancelled;
    sim_record records[SIM_RECORDS];
    sim_waiting waiting[SIM_THREADS];
    int64_t permits[SIM_THREADS][SIM_LOCKS]; /* that a thread has taken */
} sim_actor;

/* How long anything may take beyond what it should. */
int64_t sim_slack(void);

/* ---- ops.c: one random call by the calling thread */
void sim_operate(sim_actor *actor);
void sim_operate_count(sim_actor *actor, unsigned lock); /* ops_count.c */
int64_t sim_draw_wait(void);
/* One that has not been fired, for the calling thread's next wait. */
hf_cancel *sim_fresh_cancel(sim_actor *actor);
/* A call that began then has taken no longer. */
void sim_check_call_time(const sim_actor *actor, const char *call,
                         int64_t began, int64_t limit);
/* Gives back what a thread holds, in one of the ways; or leaves it. */
void sim_finish_thread(sim_actor *actor);
/* Frees a record's handle. */
void sim_record_free(sim_record *record);
/* What a call came to: counted, and must be one that may be. */
void sim_note_status(const char *call, hf_status status, const hf_error *err);

#endif
