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
    unsigned thread;
} sim_record;

/* A thread that waits for a lock. */
typedef struct sim_waiting {
    bool waiting;
    bool cancelled;
    unsigned lock;
    int64_t since;
    int64_t until;
} sim_waiting;

typedef struct sim_actor {
    sim_process *process;
    hf_client *client; /* NULL while there is none */
    int64_t opened_at;
    int64_t command_timeout;
    int64_t poll_cap;
    int64_t quarantine;
    hf_lock *locks[SIM_LOCKS];
    hf_owner *owners[SIM_OWNERS];
    hf_cancel *cancels[SIM_THREADS];
    bool all_cancelled;
    sim_record records[SIM_RECORDS];
    sim_waiting waiting[SIM_THREADS];
} sim_actor;

/* How long anything may take beyond what it should. */
int64_t sim_slack(void);

/* ---- ops.c: one random call by the calling thread */
void sim_operate(sim_actor *actor);
/* Gives back what a thread holds, in one of the ways; or leaves it. */
void sim_finish_thread(sim_actor *actor);
/* Frees a record's handle. */
void sim_record_free(sim_record *record);
/* What a call came to: counted, and must be one that may be. */
void sim_note_status(const char *call, hf_status status, const hf_error *err);

#endif
