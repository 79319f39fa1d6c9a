/* Hand-off of one lock from an owner to the next, by the release's message:
 * from the moment before the release to the moment at which another owner has
 * acquired. Owners are threads, spread over processes with a client each.
 *
 * A cycle of one owner:
 *
 *     acquire .. half a hold .. probe .. the other half .. release .. think
 *
 * The think time keeps the releaser from competing with those that it wakes:
 * it ends when another has acquired, and not before THINK. With one owner more
 * than waiters, and THINK well below a hold, every release finds exactly that
 * many waiting.
 *
 * A hand-off is compared with an uncontended acquire through the same client,
 * in two ways. The round trip is that of acquires in a row, right before each
 * contest and right after it, with server and client kept on different cpus:
 * left to itself, the scheduler puts both on one or not, by chance, and the
 * round trip differs by a factor of three. The probe is a single acquire in
 * the middle of each hold, after as long a sleep as precedes the release. */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOLD (1 * BENCH_MS)
#define THINK INT64_C(300000)
/* Before counting, until whoever has thought waits again. */
#define QUIET (20 * BENCH_MS)
#define ALONE (80 * BENCH_MS) /* round trips before, and as long after */
#define WARM_UP 50            /* acquisitions, and one more by each owner */
#define OWNERS_MAX 65
#define PROCESSES_MAX 4
#define PATIENCE_S 60

/* Shared by the processes. What is not atomic belongs to the lock's holder,
 * and to the parent once they have ended. */
typedef struct board {
    pthread_barrier_t start;
    _Atomic uint32_t inside; /* holders: never more than one */
    atomic_bool stop;
    _Atomic uint64_t taken; /* acquisitions */
    _Atomic int64_t released_at;
    uint64_t probes;
    uint64_t commands[2]; /* as counted at the begin and at the end */
    uint64_t probes_at[2];
    bench_histogram handoff;
    bench_histogram rtt;
    bench_histogram probe;
} board;

typedef struct contest {
    const bench_options *options;
    board *board;
    pid_t server;
    uint32_t owners;
    uint32_t processes;
    hf_kind kind;
    uint64_t first; /* the hold in which counting begins */
    uint64_t last;  /* and ends */
} contest;

/* One process's. */
typedef struct party {
    const contest *contest;
    hf_client *client;
    redisContext *control;
} party;

typedef struct owner {
    const party *party;
    pthread_t thread;
    hf_lock *lock;
    hf_lock *own; /* the probe's */
} owner;

/* ------------------------------------------------------------------ a cycle */

static void release(hf_lease *lease)
{
    hf_error err = HF_ERROR_INIT;
    if (hf_lease_release(lease, &err) != HF_OK) {
        bench_die("%s", hf_error_text(&err));
    }
    hf_lease_free(lease);
}

static hf_lease *acquire(hf_lock *lock)
{
    hf_error err = HF_ERROR_INIT;
    hf_lease *lease = NULL;
    if (hf_lock_acquire(lock, HF_WAIT_FOREVER, &lease, &err) != HF_OK) {
        bench_die("%s", hf_error_text(&err));
    }
    return lease;
}

static bool is_counted(const contest *c, uint64_t turn)
{
    return turn > c->first && turn <= c->last;
}

static void probe(owner *o, uint64_t turn)
{
    const contest *c = o->party->contest;
    int64_t before = bench_now();
    hf_lease *lease = acquire(o->own);
    int64_t after = bench_now();
    release(lease);
    c->board->probes++;
    if (is_counted(c, turn)) {
        bench_histogram_add(&c->board->probe, after - before);
    }
}

/* All others wait: what has been sent so far is exactly what `turn` hand-offs
 * have cost. */
static void count(owner *o, size_t which)
{
    board *b = o->party->contest->board;
    bench_sleep_until(bench_now() + QUIET);
    b->commands[which] = bench_commands(o->party->control);
    b->probes_at[which] = b->probes;
}

static void hold(owner *o, uint64_t turn, int64_t since)
{
    const contest *c = o->party->contest;
    if (turn == c->first) {
        count(o, 0);
    } else if (turn == c->last) {
        count(o, 1);
        atomic_store(&c->board->stop, true);
        return;
    }
    bench_sleep_until(since + HOLD / 2);
    probe(o, turn);
    bench_sleep_until(since + HOLD);
}

static void note_handoff(const contest *c, uint64_t turn, int64_t now)
{
    int64_t latency = now - atomic_load(&c->board->released_at);
    /* The first one counted follows a hold that counting had prolonged. */
    if (is_counted(c, turn) && turn != c->first + 1) {
        bench_histogram_add(&c->board->handoff, latency);
    }
}

static void think(board *b, uint64_t turn)
{
    do {
        bench_sleep_until(bench_now() + THINK);
    } while (atomic_load(&b->taken) == turn && !atomic_load(&b->stop));
}

static void *compete(void *arg)
{
    owner *o = arg;
    const contest *c = o->party->contest;
    board *b = c->board;
    pthread_barrier_wait(&b->start);
    while (!atomic_load(&b->stop)) {
        hf_lease *lease = acquire(o->lock);
        int64_t now = bench_now();
        if (atomic_fetch_add(&b->inside, 1) != 0) {
            bench_die("two owners hold the lock at a time");
        }
        uint64_t turn = atomic_fetch_add(&b->taken, 1) + 1;
        if (!atomic_load(&b->stop)) {
            note_handoff(c, turn, now);
            hold(o, turn, now);
        }
        atomic_fetch_sub(&b->inside, 1);
        atomic_store(&b->released_at, bench_now());
        release(lease);
        think(b, turn);
    }
    return NULL;
}

/* --------------------------------------------------------------- processes */

static hf_lock *open_lock(const party *p, const char *name, hf_kind kind)
{
    hf_error err = HF_ERROR_INIT;
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = kind;
    hf_lock *lock =
        hf_lock_open_with(p->client, name, strlen(name), &options, &err);
    if (!lock) {
        bench_die("%s", hf_error_text(&err));
    }
    return lock;
}

static void measure_alone(const party *p)
{
    const contest *c = p->contest;
    hf_lock *lock = open_lock(p, "bench:alone", c->kind);
    bench_place(BENCH_APART, c->server);
    int64_t begin = bench_now();
    for (int64_t now = begin; now < begin + ALONE;) {
        int64_t before = bench_now();
        hf_lease *lease = acquire(lock);
        now = bench_now();
        release(lease);
        if (now > begin + ALONE / 4) {
            bench_histogram_add(&c->board->rtt, now - before);
        }
    }
    bench_place(BENCH_FREE, c->server);
    hf_lock_free(lock);
}

static void compete_all(const party *p, uint32_t process, uint32_t count)
{
    static owner owners[OWNERS_MAX];
    char name[64];
    for (uint32_t i = 0; i < count; i++) {
        owner *o = &owners[i];
        snprintf(name, sizeof(name), "bench:probe:%u:%02u", process, i);
        o->party = p;
        o->lock = open_lock(p, "bench:handoff", p->contest->kind);
        o->own = open_lock(p, name, HF_KIND_REENTRANT);
        if (pthread_create(&o->thread, NULL, compete, o) != 0) {
            bench_die("cannot start a thread");
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(owners[i].thread, NULL);
        hf_lock_free(owners[i].lock);
        hf_lock_free(owners[i].own);
    }
}

static void run_party(const contest *c, uint32_t process)
{
    char url[256];
    hf_error err = HF_ERROR_INIT;
    party p = {.contest = c,
               .control = bench_connect(c->options->socket, false)};
    uint32_t surplus = process < c->owners % c->processes ? 1 : 0;
    snprintf(url, sizeof(url), "unix://%s", c->options->socket);
    p.client = hf_client_open(url, NULL, &err);
    if (!p.client) {
        bench_die("%s", hf_error_text(&err));
    }
    if (process == 0) {
        measure_alone(&p);
    }
    compete_all(&p, process, c->owners / c->processes + surplus);
    if (process == 0) {
        measure_alone(&p);
    }
    hf_client_free(p.client);
    redisFree(p.control);
}

static void start_process(const contest *c, uint32_t process, pid_t *pid)
{
    fflush(stdout);
    *pid = fork();
    if (*pid < 0) {
        bench_die("cannot fork");
    }
    if (*pid == 0) {
        alarm(PATIENCE_S); /* a hand-off that never comes ends here */
        run_party(c, process);
        _exit(0);
    }
}

static void run_contest(const contest *c)
{
    pid_t pids[PROCESSES_MAX];
    bool fine = true;
    for (uint32_t i = 0; i < c->processes; i++) {
        start_process(c, i, &pids[i]);
    }
    for (uint32_t i = 0; i < c->processes; i++) {
        int status = 0;
        fine = waitpid(pids[i], &status, 0) == pids[i] && status == 0 && fine;
    }
    if (!fine) {
        bench_die("hand-off between %u owners in %u processes failed",
                  c->owners, c->processes);
    }
}

/* ----------------------------------------------------------------- report */

typedef struct row {
    uint32_t waiters;
    uint32_t processes;
    hf_kind kind;
    bench_series p50;
    bench_series p99;
    bench_series rtt;
    bench_series p50_rtt;
    bench_series p99_rtt;
    bench_series probe;
    bench_series p50_probe;
    bench_series commands;
} row;

static board *board_new(uint32_t owners)
{
    pthread_barrierattr_t shared;
    board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED || pthread_barrierattr_init(&shared) != 0 ||
        pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) != 0 ||
        pthread_barrier_init(&b->start, &shared, owners) != 0) {
        bench_die("cannot make a barrier of %u threads", owners);
    }
    pthread_barrierattr_destroy(&shared);
    return b;
}

static void run_round(const bench_options *options, pid_t server, row *r)
{
    contest c = {.options = options,
                 .server = server,
                 .owners = r->waiters + 1,
                 .processes = r->processes,
                 .kind = r->kind};
    board *b = board_new(c.owners);
    c.board = b;
    c.first = WARM_UP + c.owners;
    c.last = c.first + options->handoffs;
    run_contest(&c);
    uint64_t commands = b->commands[1] - b->commands[0];
    uint64_t probes = b->probes_at[1] - b->probes_at[0];
    double rtt = bench_histogram_us(&b->rtt, 0.50);
    double probed = bench_histogram_us(&b->probe, 0.50);
    double p50 = bench_histogram_us(&b->handoff, 0.50);
    double p99 = bench_histogram_us(&b->handoff, 0.99);
    bench_series_add(&r->p50, p50);
    bench_series_add(&r->p99, p99);
    bench_series_add(&r->rtt, rtt);
    bench_series_add(&r->p50_rtt, p50 / rtt);
    bench_series_add(&r->p99_rtt, p99 / rtt);
    bench_series_add(&r->probe, probed);
    bench_series_add(&r->p50_probe, p50 / probed);
    bench_series_add(&r->commands, (double)(commands - 2 * probes) /
                                       (double)options->handoffs);
    pthread_barrier_destroy(&b->start);
    munmap(b, sizeof(*b));
}

static const char *kind_name(hf_kind kind)
{
    switch (kind) {
    case HF_KIND_FAIR:
        return "fair";
    case HF_KIND_WRITE:
        return "write";
    case HF_KIND_FENCED:
        return "fenced";
    default:
        return "reentrant";
    }
}

static void print_row(const row *r)
{
    char text[6][48];
    size_t size = sizeof(text[0]);
    printf("%-9s %7u %9u  %-18s %-18s %-14s %-18s %-14s %s\n",
           kind_name(r->kind), r->waiters, r->processes,
           bench_series_text(&r->p50, 1, 0, text[0], size),
           bench_series_text(&r->p99, 1, 0, text[1], size),
           bench_series_text(&r->rtt, 1, 0, text[2], size),
           bench_series_text(&r->p50_rtt, 1, 2, text[3], size),
           bench_series_text(&r->probe, 1, 0, text[4], size),
           bench_series_text(&r->commands, 1, 2, text[5], size));
}

static void keep_ratios(const row *r)
{
    char name[40];
    int n = r->kind == HF_KIND_REENTRANT
                ? 0
                : snprintf(name, sizeof(name), "%s_", kind_name(r->kind));
    if (r->processes == 1) {
        snprintf(name + n, sizeof(name) - (size_t)n, "%u", r->waiters);
    } else {
        snprintf(name + n, sizeof(name) - (size_t)n, "%ux%u", r->waiters,
                 r->processes);
    }
    bench_ratio(bench_series_median(&r->p50_rtt), "handoff_%s_p50_rtt", name);
    bench_ratio(bench_series_median(&r->p99_rtt), "handoff_%s_p99_rtt", name);
    bench_ratio(bench_series_median(&r->p50_probe), "handoff_%s_p50_probe",
                name);
    bench_ratio(bench_series_median(&r->commands), "handoff_%s_commands", name);
}

static void report(const row *rows, size_t count)
{
    printf("\nHand-off of one lock by message, placement free, hold %.1f ms, "
           "think time %.1f ms (us; median [min..max])\n"
           "%-9s %7s %9s  %-18s %-18s %-14s %-18s %-14s %s\n",
           (double)HOLD / (double)BENCH_MS, (double)THINK / (double)BENCH_MS,
           "kind", "waiters", "processes", "p50", "p99", "rtt", "p50 in rtt",
           "probe", "commands");
    for (size_t i = 0; i < count; i++) {
        print_row(&rows[i]);
        keep_ratios(&rows[i]);
    }
}

void bench_handoff(const bench_options *options, redisContext *server)
{
    static const uint32_t shapes[][3] = {
        {1, 1, HF_KIND_REENTRANT},  {8, 1, HF_KIND_REENTRANT},
        {64, 1, HF_KIND_REENTRANT}, {8, 4, HF_KIND_REENTRANT},
        {64, 4, HF_KIND_REENTRANT}, {8, 1, HF_KIND_FAIR},
        {64, 1, HF_KIND_FAIR},      {8, 1, HF_KIND_WRITE},
        {64, 1, HF_KIND_WRITE},     {8, 1, HF_KIND_FENCED},
        {64, 1, HF_KIND_FENCED}};
    static row rows[sizeof(shapes) / sizeof(shapes[0])];
    size_t count = 0;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if (options->threads == 0 || options->threads == (int)shapes[i][0]) {
            rows[count].waiters = shapes[i][0];
            rows[count].processes = shapes[i][1];
            rows[count].kind = (hf_kind)shapes[i][2];
            count++;
        }
    }
    pid_t pid = bench_server_pid(server);
    bench_place(BENCH_FREE, pid);
    for (size_t round = 0; round < options->rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            run_round(options, pid, &rows[i]);
        }
    }
    report(rows, count);
}
