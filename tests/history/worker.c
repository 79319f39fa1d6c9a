/* One process of a history: threads that each act as two owners, on few locks,
 * at random, until SIGTERM.
 *
 *     history_worker URL FILE PROCESS SEED THREADS LOCKS LEASE MODE
 *
 * MODE is that of the run. */
#include "history/history.h"
#include "holdfast/holdfast.h"
#include "support/locks.h"
#include "support/net.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_LOCKS 4
#define MOST_THREADS 8
#define DEPTH 3
#define OWNERS 2

/* A lease in hand; the lost ones are kept for a while, for they must stay
 * lost. */
typedef struct in_hand {
    hf_lease *lease;
    unsigned number;
    bool lost;
} in_hand;

typedef struct place {
    hf_lock *lock;
    const char *name;
    in_hand leases[DEPTH];
    int count;
    bool doubtful; /* an acquisition's outcome is not known */
} place;

/* One owner. Does one thing at a time. */
typedef struct owner {
    hf_owner *handle; /* NULL: the thread */
    unsigned number;
    place places[MOST_LOCKS];
} owner;

typedef struct worker {
    uint64_t seed;
    owner owners[OWNERS];
    pthread_t thread;
} worker;

static hf_client *client;
static atomic_bool stop;
static bool calm;
static bool emptied;
static int lock_count;
static int64_t watchdog_ms;
static const char *const names[MOST_LOCKS] = {"a", "b", "c", "d"};
static _Thread_local hf_error err = HF_ERROR_INIT;

static void nap(uint64_t microseconds)
{
    struct timespec span = {(time_t)(microseconds / 1000000),
                            (long)(microseconds % 1000000) * 1000};
    (void)nanosleep(&span, NULL);
}

static history_actor actor_of(const owner *o, const place *at)
{
    return (history_actor){o->number, at->name};
}

static const char *loss_name(hf_loss loss)
{
    switch (loss) {
    case HF_LOSS_EXPIRED:
        return "expired";
    case HF_LOSS_REVOKED:
        return "revoked";
    case HF_LOSS_MAX_HOLD:
        return "max-hold";
    default:
        return "none";
    }
}

/* ---- what an owner believes */

static void observe_lease(const owner *o, const place *at, in_hand *in)
{
    int64_t before = history_now();
    if (hf_lease_is_held(in->lease)) {
        int64_t remaining = hf_lease_remaining_ms(in->lease);
        history_line(before, actor_of(o, at), 0,
                     "held " LEASE_FORMAT " %" PRId64, LEASE_WORDS(in->number),
                     remaining);
    } else if (hf_lease_get_state(in->lease) == HF_LEASE_LOST) {
        history_line(history_now(), actor_of(o, at), 0,
                     "ended " LEASE_FORMAT " %s", LEASE_WORDS(in->number),
                     loss_name(hf_lease_loss(in->lease)));
        in->lost = true;
    }
}

static void observe(owner *o)
{
    for (int i = 0; i < lock_count; i++) {
        for (int n = 0; n < o->places[i].count; n++) {
            observe_lease(o, &o->places[i], &o->places[i].leases[n]);
        }
    }
}

static bool has_leases(const worker *w)
{
    int count = 0;
    for (int i = 0; i < OWNERS; i++) {
        for (int n = 0; n < lock_count; n++) {
            count += w->owners[i].places[n].count;
        }
    }
    return count > 0;
}

static void drop(place *at, int index)
{
    hf_lease_free(at->leases[index].lease);
    at->count--;
    memmove(&at->leases[index], &at->leases[index + 1],
            (size_t)(at->count - index) * sizeof(at->leases[0]));
}

/* ---- what it does */

static void count_holds(owner *o, place *at)
{
    int64_t count = 0;
    unsigned operation = history_next_operation();
    history_line(history_now(), actor_of(o, at), operation, "count");
    hf_status status = hf_lock_hold_count(at->lock, o->handle, &count, &err);
    int64_t after = history_now();
    if (status == HF_OK) {
        history_line(after, actor_of(o, at), operation, "counted %" PRId64,
                     count);
    } else {
        history_line(after, actor_of(o, at), operation, "unknown %d", status);
    }
}

/* In calm everything is definite: who waits, waits until granted, and with
 * nothing in hand, or there would be a deadlock. */
static int64_t choose_wait(worker *w)
{
    if (calm) {
        return has_leases(w) || history_chance(&w->seed, 2) ? 0 : TEST_LIMIT_MS;
    }
    /* Where there are quarantines, some wait longer than these. */
    uint64_t most = has_leases(w) ? 20 : emptied ? 500 : 150;
    return history_chance(&w->seed, 2)
               ? 0
               : 5 + (int64_t)history_chance(&w->seed, most);
}

static void acquire(worker *w, owner *o, place *at)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = NULL;
    options.owner = o->handle;
    options.wait_ms = choose_wait(w);
    if (history_chance(&w->seed, 3) == 0) {
        options.lease_ms = 30 + (int64_t)history_chance(&w->seed, 250);
    } else if (history_chance(&w->seed, 10) == 0) {
        options.max_hold_ms = 100 + (int64_t)history_chance(&w->seed, 700);
    }
    unsigned operation = history_next_operation();
    history_line(history_now(), actor_of(o, at), operation,
                 "acquire %" PRId64 " %" PRId64, options.wait_ms,
                 options.lease_ms);
    hf_status status = hf_lock_acquire_with(at->lock, &options, &lease, &err);
    int64_t after = history_now();
    if (status == HF_OK) {
        in_hand *in = &at->leases[at->count++];
        *in = (in_hand){.lease = lease, .number = history_next_lease()};
        history_line(after, actor_of(o, at), operation, "granted " LEASE_FORMAT,
                     LEASE_WORDS(in->number));
        observe_lease(o, at, in);
    } else if (status == HF_NOT_ACQUIRED) {
        history_line(after, actor_of(o, at), operation, "refused %" PRId64,
                     options.wait_ms);
    } else {
        history_line(after, actor_of(o, at), operation, "unknown %d", status);
        at->doubtful = true;
    }
}

static void tell_release(const owner *o, const place *at, unsigned operation,
                         hf_status status, const in_hand *in)
{
    int64_t after = history_now();
    char lease[32] = "-";
    if (in) {
        (void)snprintf(lease, sizeof(lease), LEASE_FORMAT,
                       LEASE_WORDS(in->number));
    }
    if (status == HF_OK) {
        history_line(after, actor_of(o, at), operation, "released %s", lease);
    } else if (status == HF_ELOST) {
        history_line(after, actor_of(o, at), operation, "lost %s", lease);
    } else if (status == HF_ENOTHELD) {
        history_line(after, actor_of(o, at), operation, "notheld");
    } else {
        history_line(after, actor_of(o, at), operation, "unknown %s %d", lease,
                     status);
    }
}

/* Of a lease in hand, live or lost. */
static void release_one(worker *w, owner *o, place *at)
{
    int index = (int)history_chance(&w->seed, (uint64_t)at->count);
    in_hand *in = &at->leases[index];
    observe_lease(o, at, in);
    unsigned operation = history_next_operation();
    history_line(history_now(), actor_of(o, at), operation,
                 "release " LEASE_FORMAT, LEASE_WORDS(in->number));
    hf_status status = hf_lease_release(in->lease, &err);
    tell_release(o, at, operation, status, in);
    drop(at, index);
}

/* The one that the library has given back, or tried to. */
static int find_released(const place *at)
{
    for (int i = at->count; i-- > 0;) {
        if (hf_lease_get_state(at->leases[i].lease) == HF_LEASE_RELEASED) {
            return i;
        }
    }
    return -1;
}

/* Of whatever this owner has, perhaps nothing: then it is to be refused. */
static void release_any(owner *o, place *at)
{
    unsigned operation = history_next_operation();
    history_line(history_now(), actor_of(o, at), operation, "release -");
    hf_status status = hf_lock_release(at->lock, o->handle, &err);
    int index = find_released(at);
    tell_release(o, at, operation, status,
                 index < 0 ? NULL : &at->leases[index]);
    if (index >= 0) {
        drop(at, index);
    }
}

/* Released in the background, when nobody knows. */
static void let_go(worker *w, owner *o, place *at)
{
    int index = (int)history_chance(&w->seed, (uint64_t)at->count);
    in_hand *in = &at->leases[index];
    unsigned operation = history_next_operation();
    history_line(history_now(), actor_of(o, at), operation,
                 "release " LEASE_FORMAT, LEASE_WORDS(in->number));
    unsigned number = in->number;
    drop(at, index);
    history_line(history_now(), actor_of(o, at), operation,
                 "unknown " LEASE_FORMAT " 0", LEASE_WORDS(number));
}

static void force(owner *o, place *at)
{
    int released = 0;
    unsigned operation = history_next_operation();
    history_line(history_now(), actor_of(o, at), operation, "force");
    hf_status status = hf_lock_force_release(at->lock, &released, &err);
    int64_t after = history_now();
    if (status == HF_OK) {
        history_line(after, actor_of(o, at), operation, "forced %d",
                     released ? 1 : 0);
    } else {
        history_line(after, actor_of(o, at), operation, "unknown %d", status);
    }
}

/* Holds on, looking at its leases all the while. */
static void linger(worker *w, owner *o)
{
    int looks = 1 + (int)history_chance(&w->seed, 60);
    for (int i = 0; i < looks && !atomic_load(&stop); i++) {
        nap(5000);
        observe(o);
    }
}

/* ---- one thread */

/* One thing of many that an owner does while it holds. */
static void use(worker *w, owner *o, place *at)
{
    uint64_t what = history_chance(&w->seed, 100);
    nap(history_chance(&w->seed, 2000));
    observe(o);
    if (what < 3) {
        linger(w, o);
    } else if (what < 50) {
        count_holds(o, at);
    } else if (at->count < DEPTH) {
        acquire(w, o, at);
    } else {
        release_one(w, o, at);
    }
}

/* Takes the lock, does something with it, and nearly always gives it back. */
static void visit(worker *w, owner *o, place *at)
{
    int uses = (int)history_chance(&w->seed, 4);
    if (at->count < DEPTH) {
        acquire(w, o, at);
    }
    if (at->count < DEPTH && at->doubtful) {
        acquire(w, o, at);
    }
    while (at->count > 0 && uses-- > 0) {
        use(w, o, at);
    }
    bool forgets = !calm && history_chance(&w->seed, 15) == 0;
    while (at->count > 0 && !forgets) {
        release_one(w, o, at);
    }
}

static void step(worker *w)
{
    owner *o = &w->owners[history_chance(&w->seed, OWNERS)];
    place *at = &o->places[history_chance(&w->seed, (uint64_t)lock_count)];
    uint64_t what = history_chance(&w->seed, 1000);
    if (what < 15 && !calm) {
        force(o, at);
    } else if (what < 25 && !calm && at->count > 0) {
        let_go(w, o, at);
    } else if (what < 35) {
        release_any(o, at);
    } else if (what < 60) {
        count_holds(o, at);
    } else {
        visit(w, o, at);
    }
    observe(o);
}

static void *run(void *arg)
{
    worker *w = arg;
    while (!atomic_load(&stop)) {
        step(w);
        nap(history_chance(&w->seed, 1000));
    }
    for (int i = 0; i < OWNERS; i++) {
        for (int n = 0; n < lock_count; n++) {
            place *at = &w->owners[i].places[n];
            while (at->count > 0) {
                release_one(w, &w->owners[i], at);
            }
        }
    }
    return NULL;
}

static void begin(worker *w, uint64_t seed, unsigned index)
{
    w->seed = seed;
    for (unsigned i = 0; i < OWNERS; i++) {
        owner *o = &w->owners[i];
        o->number = index * OWNERS + i + 1;
        if (i > 0) {
            o->handle = hf_owner_new(client, &err);
            must(o->handle != NULL);
        }
        for (int n = 0; n < lock_count; n++) {
            o->places[n].name = names[n];
            o->places[n].lock = test_lock(client, names[n]);
        }
    }
    w->thread = test_thread(run, w);
}

static void end(worker *w)
{
    test_join(w->thread);
    for (int i = 0; i < OWNERS; i++) {
        for (int n = 0; n < lock_count; n++) {
            hf_lock_free(w->owners[i].places[n].lock);
        }
        hf_owner_free(w->owners[i].handle);
    }
}

/* ---- the process */

/* The server may be down just now. */
static void open_client(const char *url)
{
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    options.watchdog_lease_ms = watchdog_ms;
    options.command_timeout_ms = calm ? TEST_LIMIT_MS : 300;
    options.connect_timeout_ms = calm ? TEST_LIMIT_MS : 300;
    options.poll_cap_ms = 200;
    /* Otherwise the server syncs before it answers: a restart forgets
     * nothing. */
    options.restart_quarantine_ms = emptied ? 0 : -1;
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    while (!atomic_load(&stop) && test_pause(deadline)) {
        client = hf_client_open(url, &options, &err);
        if (client) {
            history_line(history_now(), HISTORY_NO_LOCK, 0, "connected");
            return;
        }
    }
    if (!atomic_load(&stop)) {
        test_die("no client: %s", hf_error_text(&err));
    }
}

static void stop_on_signal(int number)
{
    (void)number;
    atomic_store(&stop, true);
}

static void wait_for_stop(const sigset_t *before)
{
    while (!atomic_load(&stop)) {
        (void)sigsuspend(before);
    }
}

int main(int argc, char **argv)
{
    static worker workers[MOST_THREADS];
    struct sigaction action = {.sa_handler = stop_on_signal};
    sigset_t term;
    sigset_t before;
    if (argc != 9) {
        test_die("history_worker: 8 arguments are expected");
    }
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, &before);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigdelset(&before, SIGTERM);
    history_open(argv[2], (unsigned)atoi(argv[3]));
    uint64_t seed = strtoull(argv[4], NULL, 10);
    unsigned threads = (unsigned)atoi(argv[5]);
    lock_count = atoi(argv[6]);
    watchdog_ms = atoi(argv[7]);
    calm = strcmp(argv[8], "calm") == 0;
    emptied = strcmp(argv[8], "emptied") == 0;
    must(threads <= MOST_THREADS && lock_count <= MOST_LOCKS);
    open_client(argv[1]);
    for (unsigned i = 0; client && i < threads; i++) {
        begin(&workers[i], seed + i * 1000003, i);
    }
    wait_for_stop(&before);
    for (unsigned i = 0; client && i < threads; i++) {
        end(&workers[i]);
    }
    hf_client_free(client);
    return 0;
}
