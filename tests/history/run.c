/* Makes one history: a server with an append-only file that is synced before
 * each answer, a proxy and a process of workers behind it, several times, and a
 * nemesis that goes for all of them.
 *
 *     history_run WORKER FILE SEED MILLISECONDS calm|wild|overtaken|emptied
 *
 * When it is to be emptied, the server has no file, and again and again it is
 * killed and started anew; the workers have the default quarantine.
 *
 * Prints how many faults of each kind there were. Ends with 1 if a worker ended
 * by itself, or if a lock cannot be had when all is over. */
#include "history/history.h"
#include "holdfast/holdfast.h"
#include "support/locks.h"
#include "support/net.h"
#include "support/proxy.h"
#include "support/server.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 3
#define THREADS "3"
#define LEASE_MS 300
#define LEAST_UPTIME_MS 600 /* of a server that is emptied */
#define MORE_UPTIME_MS 900
#define MOST_LOCKS 3

static const struct timespec tick = {0, 5000000};

typedef enum ailment {
    WELL,
    SERVER_PAUSED,
    SERVER_KILLED,
    WORKER_STOPPED,
    WORKER_KILLED,
    STOPPED_AFTER_DELAY,
    REQUESTS_LOST,
    REPLIES_LOST,
    REQUESTS_DELAYED,
    REPLIES_DELAYED,
    REQUESTS_OVERTAKEN,
    REPLIES_IN_BYTES,
    CONNECTIONS_RESET,
    CLIENTS_KILLED,
    LISTENERS_KILLED,
    SCRIPTS_FLUSHED,
    AILMENTS
} ailment;

/* What may befall in the wild, how often beside the others, and for how long at
 * most. */
static const struct {
    const char *name;
    unsigned weight;
    unsigned most_ms;
} ailments[AILMENTS] = {
    [WELL] = {"none", 0, 0},
    [SERVER_PAUSED] = {"server paused", 3, 450},
    [SERVER_KILLED] = {"server killed", 2, 0},
    [WORKER_STOPPED] = {"worker stopped", 4, 700},
    [WORKER_KILLED] = {"worker killed", 3, 0},
    [STOPPED_AFTER_DELAY] = {"stopped after a delay", 5, 280},
    [REQUESTS_LOST] = {"requests lost", 3, 300},
    [REPLIES_LOST] = {"replies lost", 4, 300},
    [REQUESTS_DELAYED] = {"requests delayed", 4, 400},
    [REPLIES_DELAYED] = {"replies delayed", 4, 400},
    [REQUESTS_OVERTAKEN] = {"requests overtaken", 3, 1200},
    [REPLIES_IN_BYTES] = {"replies byte by byte", 2, 200},
    [CONNECTIONS_RESET] = {"connections reset", 4, 0},
    [CLIENTS_KILLED] = {"CLIENT KILL", 2, 0},
    [LISTENERS_KILLED] = {"subscribers killed", 2, 0},
    [SCRIPTS_FLUSHED] = {"SCRIPT FLUSH", 3, 0},
};

/* Something that is ill, and when it is to be well again. */
typedef struct patient {
    ailment what;
    int64_t until;
} patient;

/* A process of workers. It connects by a symbolic link, to one of two proxies:
 * what is held in one can so be overtaken by what passes through the other. */
typedef struct seat {
    proxy *nets[2];
    int front;
    char *link;
    char *url;
    pid_t pid;
    patient worker;
    patient wire;
} seat;

typedef struct run {
    const char *program;
    const char *mode;
    const char *file;
    uint64_t seed;
    bool calm;      /* no faults */
    bool overtaken; /* requests, and nothing else */
    bool emptied;   /* a restart is one with an empty memory */
    int64_t next_restart;
    char locks[4];
    srv *server;
    patient health; /* the server's */
    seat seats[PROCESSES];
    unsigned processes; /* so far; 0 is this one */
    unsigned faults[AILMENTS];
} run;

static int64_t after_ms(int64_t ms)
{
    return history_now() + ms * 1000000;
}

/* ---- workers */

static void launch(run *r, seat *at)
{
    char process[16];
    char seed[24];
    char lease[16];
    (void)snprintf(process, sizeof(process), "%u", ++r->processes);
    (void)snprintf(seed, sizeof(seed), "%" PRIu64,
                   history_chance(&r->seed, UINT64_MAX));
    (void)snprintf(lease, sizeof(lease), "%d", LEASE_MS);
    const char *argv[] = {r->program, at->url,  r->file, process, seed,
                          THREADS,    r->locks, lease,   r->mode, NULL};
    pid_t parent = getpid();
    at->pid = fork();
    if (at->pid < 0) {
        test_die("fork: %s", strerror(errno));
    }
    if (at->pid == 0) {
        sigset_t term; /* until the worker is ready for it */
        (void)sigemptyset(&term);
        (void)sigaddset(&term, SIGTERM);
        (void)sigprocmask(SIG_BLOCK, &term, NULL);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) {
            (void)execv(argv[0], (char *const *)argv);
        }
        _exit(127);
    }
}

static void kill_worker(run *r, seat *at)
{
    (void)kill(at->pid, SIGKILL);
    if (test_reap(at->pid) != 128 + SIGKILL) {
        test_die("a worker ended before it was killed");
    }
    launch(r, at);
}

/* Returns when all of its threads stand still. */
static void stop_worker(const seat *at)
{
    siginfo_t info;
    (void)kill(at->pid, SIGSTOP);
    if (waitid(P_PID, (id_t)at->pid, &info, WSTOPPED | WEXITED | WNOWAIT) !=
            0 ||
        info.si_code != CLD_STOPPED) {
        test_die("a worker ended before it was stopped");
    }
}

/* ---- the wire */

/* After bytes are lost no byte of that connection may pass, nor of one that
 * was made meanwhile: the others would be taken for replies to something
 * else. */
static void cut(seat *at)
{
    for (int i = 0; i < 2; i++) {
        proxy_refuse(at->nets[i], true);
        proxy_reset(at->nets[i]);
        proxy_set(at->nets[i], PROXY_TO_SERVER, PROXY_PASS);
        proxy_set(at->nets[i], PROXY_TO_CLIENT, PROXY_PASS);
        proxy_refuse(at->nets[i], false);
    }
}

static void pass(seat *at)
{
    for (int i = 0; i < 2; i++) {
        proxy_set(at->nets[i], PROXY_TO_SERVER, PROXY_PASS);
        proxy_set(at->nets[i], PROXY_TO_CLIENT, PROXY_PASS);
    }
}

/* New connections are made through the other proxy. */
static void turn_front(seat *at)
{
    char *fresh = test_text("%s.new", at->link);
    at->front = !at->front;
    const char *path = strchr(proxy_url(at->nets[at->front]), '/') + 2;
    if (symlink(path, fresh) != 0 || rename(fresh, at->link) != 0) {
        test_die("%s: %s", at->link, strerror(errno));
    }
    free(fresh);
}

static void spoil_wire(seat *at, ailment what)
{
    int front = at->front;
    static const struct {
        ailment what;
        proxy_direction direction;
        proxy_mode mode;
    } ways[] = {
        {REQUESTS_LOST, PROXY_TO_SERVER, PROXY_DROP},
        {REPLIES_LOST, PROXY_TO_CLIENT, PROXY_DROP},
        {REQUESTS_DELAYED, PROXY_TO_SERVER, PROXY_HOLD},
        {REPLIES_DELAYED, PROXY_TO_CLIENT, PROXY_HOLD},
        {STOPPED_AFTER_DELAY, PROXY_TO_CLIENT, PROXY_HOLD},
        {REQUESTS_OVERTAKEN, PROXY_TO_SERVER, PROXY_HOLD},
        {REPLIES_IN_BYTES, PROXY_TO_CLIENT, PROXY_TRICKLE},
    };
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (ways[i].what == what) {
            proxy_set(at->nets[front], ways[i].direction, ways[i].mode);
        }
    }
    if (what == REQUESTS_OVERTAKEN) {
        turn_front(at);
    }
}

static void mend_wire(seat *at)
{
    if (at->wire.what == REQUESTS_LOST || at->wire.what == REPLIES_LOST) {
        cut(at);
    } else {
        pass(at);
    }
}

/* ---- the nemesis */

/* Whose health it is; NULL: of no duration. */
static patient *patient_of(run *r, seat *at, ailment what)
{
    switch (what) {
    case SERVER_PAUSED:
    case SERVER_KILLED:
    case CLIENTS_KILLED:
    case LISTENERS_KILLED:
    case SCRIPTS_FLUSHED:
        return &r->health;
    case WORKER_STOPPED:
    case WORKER_KILLED:
        return &at->worker;
    default:
        return &at->wire;
    }
}

static void restart_server(run *r)
{
    unsigned operation = history_next_operation();
    if (!r->emptied) {
        srv_restart(r->server);
        return;
    }
    history_line(history_now(), HISTORY_NO_LOCK, operation, "restart");
    srv_restart(r->server);
    history_line(history_now(), HISTORY_NO_LOCK, operation, "restarted");
    r->health.what = WELL;
    /* The quarantine is to pass in between, mostly. */
    r->next_restart = after_ms(
        LEAST_UPTIME_MS + (int64_t)history_chance(&r->seed, MORE_UPTIME_MS));
}

static void strike(run *r, seat *at, ailment what)
{
    switch (what) {
    case SERVER_PAUSED:
        srv_pause(r->server);
        break;
    case SERVER_KILLED:
        restart_server(r);
        break;
    case WORKER_STOPPED:
        stop_worker(at);
        break;
    case WORKER_KILLED:
        kill_worker(r, at);
        break;
    case CONNECTIONS_RESET:
        proxy_reset(at->nets[at->front]);
        break;
    case CLIENTS_KILLED:
        free(srv_cmd(r->server, "CLIENT KILL TYPE normal"));
        break;
    case LISTENERS_KILLED:
        free(srv_cmd(r->server, "CLIENT KILL TYPE pubsub"));
        break;
    case SCRIPTS_FLUSHED:
        free(srv_cmd(r->server, "SCRIPT FLUSH"));
        break;
    default:
        spoil_wire(at, what);
        break;
    }
}

static ailment choose(run *r)
{
    if (r->overtaken) {
        return REQUESTS_OVERTAKEN;
    }
    uint64_t total = 0;
    for (int i = 0; i < AILMENTS; i++) {
        total += ailments[i].weight;
    }
    uint64_t chance = history_chance(&r->seed, total);
    int what = 0;
    while (chance >= ailments[what].weight) {
        chance -= ailments[what++].weight;
    }
    return (ailment)what;
}

static void begin_fault(run *r)
{
    ailment what = choose(r);
    seat *at = &r->seats[history_chance(&r->seed, PROCESSES)];
    patient *who = patient_of(r, at, what);
    if (who->what != WELL) {
        return;
    }
    r->faults[what]++;
    history_note("%" PRId64 " %s %u", history_now(), ailments[what].name,
                 (unsigned)(at - r->seats));
    strike(r, at, what);
    if (ailments[what].most_ms > 0) {
        who->what = what;
        who->until = after_ms(
            10 + (int64_t)history_chance(&r->seed, ailments[what].most_ms));
    }
}

/* What was granted long ago has just been heard of: a holder that counts its
 * time from then holds for too long. */
static void stop_late(run *r, seat *at)
{
    static const struct timespec moment = {0, 1000000};
    if (at->worker.what == WELL) {
        (void)nanosleep(&moment, NULL);
        stop_worker(at);
        at->worker.what = WORKER_STOPPED;
        at->worker.until =
            after_ms(LEASE_MS + (int64_t)history_chance(&r->seed, LEASE_MS));
    }
}

static void end_faults(run *r, int64_t by)
{
    if (r->health.what != WELL && r->health.until <= by) {
        srv_resume(r->server);
        r->health.what = WELL;
    }
    for (int i = 0; i < PROCESSES; i++) {
        seat *at = &r->seats[i];
        if (at->worker.what != WELL && at->worker.until <= by) {
            (void)kill(at->pid, SIGCONT);
            at->worker.what = WELL;
        }
        if (at->wire.what != WELL && at->wire.until <= by) {
            mend_wire(at);
            if (at->wire.what == STOPPED_AFTER_DELAY && by < INT64_MAX) {
                stop_late(r, at);
            }
            at->wire.what = WELL;
        }
    }
}

static void rage(run *r, int64_t milliseconds)
{
    int64_t until = after_ms(milliseconds);
    while (history_now() < until) {
        (void)nanosleep(&tick, NULL);
        end_faults(r, history_now());
        if (r->emptied && history_now() >= r->next_restart) {
            r->faults[SERVER_KILLED]++;
            restart_server(r);
        }
        if (!r->calm && history_chance(&r->seed, 12) == 0) {
            begin_fault(r);
        }
    }
    end_faults(r, INT64_MAX);
}

/* ---- before and after */

static void take_seat(run *r, int index)
{
    seat *at = &r->seats[index];
    at->nets[0] = proxy_start(srv_socket(r->server));
    at->nets[1] = proxy_start(srv_socket(r->server));
    at->link = test_text("%s/way%d", srv_folder(r->server), index);
    at->url = test_text("redis+unix://%s", at->link);
    turn_front(at);
    launch(r, at);
}

static void leave_seat(seat *at)
{
    int code = test_reap(at->pid);
    if (code != 0) {
        test_die("a worker ended with %d", code);
    }
    proxy_stop(at->nets[0]);
    proxy_stop(at->nets[1]);
    free(at->link);
    free(at->url);
}

static void begin(run *r)
{
    static const char *const extra[] = {"--appendonly", "yes", "--appendfsync",
                                        "always", NULL};
    r->server = srv_start(r->emptied ? NULL : extra);
    (void)snprintf(r->locks, sizeof(r->locks), "%u",
                   1 + (unsigned)history_chance(&r->seed, MOST_LOCKS));
    history_note("lease %d", LEASE_MS);
    r->next_restart = after_ms(LEASE_MS);
    for (int i = 0; i < PROCESSES; i++) {
        take_seat(r, i);
    }
}

static void end_workers(run *r)
{
    for (int i = 0; i < PROCESSES; i++) {
        (void)kill(r->seats[i].pid, SIGTERM);
    }
    for (int i = 0; i < PROCESSES; i++) {
        leave_seat(&r->seats[i]);
    }
}

/* Whatever happened, the lock can be had, and nothing is left of it. */
static void take_once_more(run *r, hf_client *client, const char *name)
{
    hf_lock *lock = test_lock(client, name);
    hf_lease *lease = NULL;
    hf_error err = HF_ERROR_INIT;
    history_actor actor = {1, name};
    unsigned operation = history_next_operation();
    unsigned number = history_next_lease();
    history_line(history_now(), actor, operation, "acquire %d 0",
                 TEST_LIMIT_MS);
    must_be(HF_OK, hf_lock_acquire(lock, TEST_LIMIT_MS, &lease, &err));
    history_line(history_now(), actor, operation, "granted " LEASE_FORMAT,
                 LEASE_WORDS(number));
    operation = history_next_operation();
    history_line(history_now(), actor, operation, "release " LEASE_FORMAT,
                 LEASE_WORDS(number));
    test_give(lease);
    history_line(history_now(), actor, operation, "released " LEASE_FORMAT,
                 LEASE_WORDS(number));
    must(srv_cmd_is(r->server, "0", "EXISTS %s", name));
    hf_lock_free(lock);
}

static void end(run *r)
{
    static const char *const names[MOST_LOCKS] = {"a", "b", "c"};
    hf_client_options options = test_patient();
    options.poll_cap_ms = 200;
    hf_client *client = test_client(srv_url(r->server), &options);
    history_line(history_now(), HISTORY_NO_LOCK, 0, "connected");
    for (int i = 0; i < atoi(r->locks); i++) {
        take_once_more(r, client, names[i]);
    }
    hf_client_free(client);
    must(srv_cmd_is(r->server, "0", "DBSIZE"));
    srv_stop(r->server);
}

static void report(const run *r)
{
    for (int i = 0; i < AILMENTS; i++) {
        if (r->faults[i] > 0) {
            (void)printf("%s %u, ", ailments[i].name, r->faults[i]);
        }
    }
    (void)printf("%u processes\n", r->processes);
}

int main(int argc, char **argv)
{
    static run r;
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    if (argc != 6) {
        test_die("history_run: 5 arguments are expected");
    }
    r.program = argv[1];
    r.file = argv[2];
    r.seed = strtoull(argv[3], NULL, 10);
    r.mode = argv[5];
    r.calm = strcmp(r.mode, "calm") == 0;
    r.overtaken = strcmp(r.mode, "overtaken") == 0;
    r.emptied = strcmp(r.mode, "emptied") == 0;
    history_open(r.file, 0);
    begin(&r);
    rage(&r, atoi(argv[4]));
    end_workers(&r);
    end(&r);
    report(&r);
    return 0;
}
