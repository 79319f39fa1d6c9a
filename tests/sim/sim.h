/* The simulated world: processes with threads and a clock each, one server,
 * the network between, and one seed from which everything follows.
 *
 * One run is one seed. Everything happens in one thread of the system and in
 * virtual time, which is nanoseconds since the run's beginning. Threads of the
 * simulated processes are coroutines. They run one at a time, until they block
 * or are interrupted at a point where the product lets go of something; who
 * runs next is chance. Between two steps the invariants are looked at. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "base/heap.h"
#include "os/thread.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#define SIM_US INT64_C(1000)
#define SIM_MS INT64_C(1000000)
#define SIM_SECOND INT64_C(1000000000)

#define SIM_PROCESSES 6 /* ever started in one run */
#define SIM_THREADS 256 /* of one process, ever */
#define SIM_FDS 64
#define SIM_LOCKS 2

typedef struct sim_process sim_process;
typedef struct sim_thread sim_thread;
typedef struct sim_conn sim_conn;

/* ---------------------------------------------------------------- threads */

typedef enum sim_thread_state {
    SIM_UNUSED,
    SIM_RUNNABLE,
    SIM_BLOCKED,
    SIM_ENDED
} sim_thread_state;

struct sim_thread {
    sim_process *process;
    unsigned number; /* within its process */
    sim_thread_state state;
    void *(*body)(void *);
    void *arg;
    void *result;
    const char *where;     /* what it waits for, for the history ... */
    const void *waits_for; /* ... and who wakes it */
    struct pollfd *polled; /* while it polls or receives */
    size_t polled_count;
    uint64_t sleep;     /* counts its sleeps: tells an old timer */
    uint64_t late_for;  /* which one it was woken late from */
    int64_t preempted;  /* since when it is kept from running; 0: it is not */
    hf__thread *record; /* os/thread.h's */
    jmp_buf context;
    ucontext_t birth;
};

/* --------------------------------------------------------------- processes */

typedef enum sim_fd_kind {
    SIM_FD_FREE,
    SIM_FD_EVENT, /* eventfd: also a lease's */
    SIM_FD_TIMER,
    SIM_FD_LOOKUP, /* tells of the name service's answer */
    SIM_FD_SOCKET
} sim_fd_kind;

typedef struct sim_fd {
    sim_fd_kind kind;
    bool raised;
    uint64_t armed; /* TIMER: counts the settings: tells an old one */
    sim_conn *conn;
} sim_fd;

struct sim_process {
    unsigned number;
    bool dead;
    bool paused;
    bool left;            /* its main thread has come to its end */
    int64_t running_from; /* when it was last resumed or started */
    int64_t clock_offset;
    int64_t clock_ppm; /* how much faster its clock runs */
    uint64_t ordinals;
    hf__thread *spare_records;
    unsigned thread_count;
    sim_thread threads[SIM_THREADS];
    sim_fd fds[SIM_FDS];
    int64_t cut_off;   /* no packet passes until then; 0: they do */
    int64_t disturbed; /* when something last stood in its way */
    int64_t stolen;    /* of late from its threads; leaks at an eighth */
    int64_t stolen_at;
    int64_t bears; /* so much of it disturbs nobody; 0: any */
    struct sim_actor *actor;
};

/* ------------------------------------------------------------------- kinds */

/* What stands behind a name: one kind of lock, or two that share its state. */
#define SIM_KIND_MAP(X)                                                        \
    X(REENTRANT, "reentrant")                                                  \
    X(ONCE, "once")                                                            \
    X(SPIN, "spin")                                                            \
    X(FENCED, "fenced")                                                        \
    X(SIMPLE, "simple")                                                        \
    X(RW, "rw")                                                                \
    X(FAIR, "fair")                                                            \
    X(FAIR_ONCE, "fair-once")                                                  \
    X(PERMIT, "permit")                                                        \
    X(SEMAPHORE, "semaphore")                                                  \
    X(IN_TURN, "in-turn")                                                      \
    X(LATCH, "latch")

typedef enum sim_kind {
#define SIM_KIND_ENUM(name, text) SIM_##name,
    SIM_KIND_MAP(SIM_KIND_ENUM)
#undef SIM_KIND_ENUM
        SIM_KINDS
} sim_kind;

/* Ways in: a read/write lock has a writers' and a readers', a semaphore one
 * for each number of permits. */
#define SIM_DOORS 4
#define SIM_WRITERS 0
#define SIM_READERS 1

/* -------------------------------------------------------------------- plan */

/* What is drawn from the seed at the beginning. */
typedef struct sim_plan {
    unsigned processes;
    unsigned threads; /* of each */
    unsigned locks;
    unsigned operations; /* of each thread */
    bool calm;           /* no fault at all: prompt wake-ups are expected */
    bool rush;           /* many short waits for one another */
    int64_t step_cost;   /* at most, of virtual time */
    uint32_t yields;     /* of 256: how often a thread is interrupted ... */
    uint32_t preempts;   /* ... of 4096: and kept from running ... */
    int64_t preempt_max; /* ... at most so long */
    uint32_t late_wakes; /* of 256: time wakes it so much too late */
    int64_t delay_min;   /* of the network */
    int64_t delay_max;
    uint32_t splits;   /* of 256: how often bytes are torn apart */
    uint32_t spurious; /* of 256: wake-ups without a cause */
    bool numeric;      /* the server's address needs no name service */
    bool late; /* bytes of a connection given up may arrive after others */
    size_t send_buffer;   /* bytes a socket takes */
    unsigned faults;      /* a set of 1 << sim_fault */
    int64_t fault_pause;  /* between two, on average */
    int64_t faults_until; /* none later */
    int64_t lease_max;    /* longest lease that anybody asks for */
    sim_kind kinds[SIM_LOCKS];
    bool peer; /* another library's program contends for the first lock */
    bool prefer_writers;
    int64_t fair_wait;   /* ms: a waiter without an end is thought to live */
    int64_t token_life;  /* ms; 0: for ever */
    int64_t backoff_max; /* ms: of those who ask again and again */
    int64_t permits;     /* at first */
} sim_plan;

/* ------------------------------------------------------------------ counts */

#define SIM_COUNT_MAP(X)                                                       \
    X(ACQUIRE_TRY, "op try")                                                   \
    X(ACQUIRE_WAIT, "op acquire with a wait")                                  \
    X(ACQUIRE_FOREVER, "op acquire without an end")                            \
    X(ACQUIRE_FIXED, "op fixed lease")                                         \
    X(ACQUIRE_MAX_HOLD, "op longest hold")                                     \
    X(ACQUIRE_OWNER, "op by an owner handle")                                  \
    X(ACQUIRE_NO_HANDLE, "op acquire without handle")                          \
    X(GRANTED, "result granted")                                               \
    X(REENTERED, "seen granted again to its owner")                            \
    X(NOT_ACQUIRED, "result not acquired")                                     \
    X(CANCELLED, "result cancelled")                                           \
    X(UNREACHABLE, "result unreachable")                                       \
    X(RELEASED, "result released")                                             \
    X(RELEASE_LOST, "result release of a lost lease")                          \
    X(RELEASE_UNKNOWN, "result release unknown")                               \
    X(OTHER_ERROR, "result other error")                                       \
    X(LOST_EXPIRED, "told lost: expired")                                      \
    X(LOST_REVOKED, "told lost: revoked")                                      \
    X(LOST_MAX_HOLD, "told lost: longest hold")                                \
    X(SUSPECT, "seen suspect")                                                 \
    X(RELEASE_LEASE, "op release of a lease")                                  \
    X(RELEASE_LOCK, "op release by lock and owner")                            \
    X(RELEASE_FREE, "op free without release")                                 \
    X(RELEASE_OTHERS, "op release of another thread's lease")                  \
    X(FORCE, "op force release")                                               \
    X(QUESTION, "op question")                                                 \
    X(PING, "op ping")                                                         \
    X(INSPECT, "op inspect or list")                                           \
    X(CANCEL, "op cancel")                                                     \
    X(END_HOLDING, "op thread ends while it holds")                            \
    X(REOPEN, "op client freed and opened anew")                               \
    X(QUARANTINED, "seen quarantine")                                          \
    X(HELD_ALREADY, "result held by its owner already")                        \
    X(SHARED, "seen several holders of one name")                              \
    X(PEER_GRANTED, "seen granted to the other library")                       \
    X(TAKEN, "result permits taken")                                           \
    X(GIVEN, "result permits given back")                                      \
    X(AWAITED, "result latch awaited")

#define SIM_FAULT_MAP(X)                                                       \
    X(RESET, "connection reset")                                               \
    X(LOST_REQUEST, "connection lost before the request arrives")              \
    X(LOST_REPLY, "connection lost after execution, before the reply")         \
    X(HALF_OPEN_TO, "half-open towards the server")                            \
    X(HALF_OPEN_FROM, "half-open from the server")                             \
    X(HALF_OPEN_BOTH, "half-open both ways")                                   \
    X(DELAY, "delay of a connection")                                          \
    X(CUT, "process cut off from the server")                                  \
    X(REFUSE, "connections refused")                                           \
    X(RESOLVE, "host name not resolved")                                       \
    X(SERVER_PAUSE, "server pause")                                            \
    X(RESTART_KEEP, "server restart with data")                                \
    X(RESTART_EMPTY, "server restart without data")                            \
    X(FAILOVER, "failover to a lagging replica")                               \
    X(SCRIPT_FLUSH, "SCRIPT FLUSH")                                            \
    X(CLIENT_KILL, "CLIENT KILL")                                              \
    X(REFUSAL, "server refuses for a while")                                   \
    X(DEL, "operator deletes the key")                                         \
    X(PROCESS_PAUSE, "process pause")                                          \
    X(PROCESS_DEATH, "process death")                                          \
    X(MACHINE_DEATH, "process death, connections half-open")                   \
    X(THREAD_FAILS, "thread cannot be made")

typedef enum sim_count {
#define SIM_COUNT_ENUM(name, text) SIM_##name,
    SIM_COUNT_MAP(SIM_COUNT_ENUM)
#undef SIM_COUNT_ENUM
        SIM_COUNTS
} sim_count;

typedef enum sim_fault {
#define SIM_FAULT_ENUM(name, text) SIM_FAULT_##name,
    SIM_FAULT_MAP(SIM_FAULT_ENUM)
#undef SIM_FAULT_ENUM
        SIM_FAULTS
} sim_fault;

/* Shared by all runs of a program, in memory that outlives their processes. */
typedef struct sim_totals {
    uint64_t counts[SIM_COUNTS];
    uint64_t faults[SIM_FAULTS];
    uint64_t steps;
    uint64_t commands;
    uint64_t virtual_ms;
} sim_totals;

/* ------------------------------------------------------------------- world */

typedef struct sim_world {
    uint64_t seed;
    uint64_t chance; /* state of the generator */
    int64_t now;
    bool trace;
    bool rush;   /* all plans are those of a calm rush */
    int only;    /* the one kind that is drawn; below 0: any */
    bool ending; /* nobody begins any more */
    bool finished;
    int64_t commanded;  /* when the server last executed a command */
    int64_t quiet_from; /* no fault lasts until then */
    uint64_t steps;
    uint64_t steps_at; /* since all slept */
    uint64_t looks_at; /* at the clock, in this step */
    sim_plan plan;
    unsigned process_count;
    sim_process processes[SIM_PROCESSES];
    sim_thread *running;  /* NULL: the scheduler */
    sim_process *looking; /* whose clock is asked when nobody runs */
    sim_totals totals;
} sim_world;

extern sim_world world;

/* ---- chance.c: everything that is drawn */
uint64_t sim_random(void);
uint64_t sim_below(uint64_t bound);
bool sim_chance(uint32_t of_256);
int64_t sim_between(int64_t min, int64_t max); /* both included */
/* Between them, rather near to `min`: each magnitude is as likely. */
int64_t sim_skewed(int64_t min, int64_t max);
void sim_draw_plan(void);

/* ---- fault.c */
bool sim_fault_now(sim_fault fault); /* does it happen here? */
void sim_disturb_all(void);
void sim_faults_start(void);
const char *sim_fault_text(sim_fault fault);

/* ---- server.c, what the faults do */
void sim_server_prepare(void);
void sim_server_stop(int64_t until);
void sim_server_restart(bool keep, int64_t down_for);
void sim_server_replicate(void);
void sim_server_fail_over(int64_t down_for);
void sim_server_operate(const char *verb, const char *what);
void sim_server_kill(sim_conn *conn);

/* ---- actor.c */
void sim_actor_start(void); /* a process more, if there is room */
void sim_actors_cancel_all(void *arg, uint64_t number);
const char *sim_lock_name(uint64_t number);

/* ---- kind.c */
const char *sim_kind_text(sim_kind kind);
/* A semaphore or latch: nobody holds it. */
bool sim_kind_counts(sim_kind kind);
/* Its owner cannot have it twice. */
bool sim_kind_is_once(sim_kind kind);
/* Its waiters ask again and again. */
bool sim_kind_is_silent(sim_kind kind);
bool sim_kind_is_fair(sim_kind kind);
/* The doors of that lock. */
unsigned sim_doors(unsigned lock);
bool sim_plan_has(bool (*is)(sim_kind kind));
void sim_draw_kinds(void);

/* ---- peer.c */
void sim_peer_start(void);

/* ---- check.c */
extern const struct model_hooks sim_check_hooks;
void sim_server_start(const struct model_hooks *hooks);
void sim_check_start(void);
void sim_check(void); /* between any two steps */
/* What the server has confirmed may be gone, or old things be back. */
void sim_check_data_lost(int64_t at, bool quarantine);
void sim_check_server_changed(void);
/* Keys may have ended. */
void sim_check_time_passed(void);
void sim_check_end(void);

/* ---- sched.c */
typedef void (*sim_event_fn)(void *arg, uint64_t number);
void sim_at(int64_t when, sim_event_fn fn, void *arg, uint64_t number);
void sim_run(void);
sim_thread *sim_thread_start(sim_process *process, void *(*body)(void *),
                             void *arg);
void sim_yield_maybe(void);
/* The running thread sleeps until woken or until `until`; may wake early. */
void sim_block(const char *where, const void *waits_for, int64_t until);
void sim_wake(sim_thread *thread);
void sim_wake_waiting(sim_process *process, const void *waits_for);
void sim_sleep_until(int64_t until);
/* The running thread takes so long, and others get their turn. */
void sim_spend(int64_t span);

/* ---- os.c */
sim_process *sim_process_new(void);
int64_t sim_local(const sim_process *process, int64_t at);
/* The first moment at which that process' clock shows `local` or more. */
int64_t sim_true(const sim_process *process, int64_t local);
/* Threads of the process that poll look again. */
void sim_fds_changed(sim_process *process);
int sim_fd_open(sim_fd_kind kind);
sim_conn *sim_fd_conn(int fd, const char *what);
void sim_fd_set_conn(int fd, sim_conn *conn);
void sim_fd_raise(sim_process *process, int fd);
void sim_thread_gone(sim_thread *thread);
short sim_conn_ready(const sim_conn *conn, short events);
void sim_conn_closed_by_client(sim_conn *conn);

#define SIM_EXIT_VIOLATION 3

/* ---- names.c: false if the descriptor is no look-up's */
bool sim_lookup_shutdown(int fd);

/* ---- trace.c */
void sim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the run. */
_Noreturn void sim_violation(const char *invariant, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sim_dump_threads(void);
#define SIM_TRACE(...)                                                         \
    do {                                                                       \
        if (world.trace) {                                                     \
            sim_say(__VA_ARGS__);                                              \
        }                                                                      \
    } while (0)

#endif
