/* Pairs of lock and release without contention: each thread has a lock of its
 * own. Both sides run the same loop, clock readings included; what differs is
 * what one pair does. */
#include "bench.h"

#include "kinds/scripts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 64
#define LEASE_TEXT "30000" /* the library's default */
#define ACQUIRE_ARGS 6
#define RELEASE_ARGS 8

typedef enum side { OURS, THEIRS } side;

/* One thread's part of a slice. */
typedef struct worker worker;
typedef struct slice slice;

struct worker {
    slice *of;
    pthread_t thread;
    unsigned number;
    uint64_t pairs;
    int64_t previous; /* when the last pair was done */
    bench_histogram latency;

    hf_lock *lock; /* ours */

    redisContext *server; /* theirs; all arguments are made beforehand */
    char name[32];
    char channel[64];
    char owner[64];
    const char *acquire[ACQUIRE_ARGS];
    size_t acquire_lengths[ACQUIRE_ARGS];
    const char *release[RELEASE_ARGS];
    size_t release_lengths[RELEASE_ARGS];
};

/* One measurement of one side. */
struct slice {
    const bench_options *options;
    side side;
    unsigned threads;
    atomic_bool warm;
    atomic_bool stop;
    pthread_barrier_t barrier;
    hf_client *client;
    worker workers[THREADS_MAX];

    double rate; /* the outcome */
    double p50;
    double p99;
    double commands; /* per pair */
};

/* ------------------------------------------------------------------- ours */

static void pair_ours(worker *w)
{
    hf_error err = HF_ERROR_INIT;
    hf_lease *lease = NULL;
    if (hf_lock_acquire(w->lock, HF_WAIT_FOREVER, &lease, &err) != HF_OK ||
        hf_lease_release(lease, &err) != HF_OK) {
        bench_die("%s", hf_error_text(&err));
    }
    hf_lease_free(lease);
}

static void open_ours(slice *s)
{
    char url[256];
    hf_error err = HF_ERROR_INIT;
    snprintf(url, sizeof(url), "unix://%s", s->options->socket);
    s->client = hf_client_open(url, NULL, &err);
    if (!s->client) {
        bench_die("%s", hf_error_text(&err));
    }
    for (unsigned i = 0; i < s->threads; i++) {
        worker *w = &s->workers[i];
        w->lock = hf_lock_open(s->client, w->name, &err);
        if (!w->lock) {
            bench_die("%s", hf_error_text(&err));
        }
    }
}

static void close_ours(slice *s)
{
    for (unsigned i = 0; i < s->threads; i++) {
        hf_lock_free(s->workers[i].lock);
    }
    hf_client_free(s->client);
}

/* ----------------------------------------------------------------- theirs */

static void expect(worker *w, const redisReply *reply, int type)
{
    if (!reply) {
        bench_die("hiredis: %s", w->server->errstr);
    }
    if (reply->type != type) {
        bench_die("hiredis: unexpected reply of type %d%s%s", reply->type,
                  reply->str ? ": " : "", reply->str ? reply->str : "");
    }
}

static void pair_theirs(worker *w)
{
    redisReply *reply = redisCommandArgv(w->server, ACQUIRE_ARGS, w->acquire,
                                         w->acquire_lengths);
    expect(w, reply, REDIS_REPLY_NIL);
    freeReplyObject(reply);
    reply = redisCommandArgv(w->server, RELEASE_ARGS, w->release,
                             w->release_lengths);
    expect(w, reply, REDIS_REPLY_INTEGER);
    freeReplyObject(reply);
}

static void set_args(const char **args, size_t *lengths,
                     const char *const *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        args[i] = from[i];
        lengths[i] = strlen(from[i]);
    }
}

static void open_theirs(slice *s)
{
    for (unsigned i = 0; i < s->threads; i++) {
        worker *w = &s->workers[i];
        const char *acquire[ACQUIRE_ARGS] = {
            "EVALSHA", hf__script_lock_acquire.sha1, "1", w->name, LEASE_TEXT,
            w->owner};
        const char *release[RELEASE_ARGS] = {
            "EVALSHA",  hf__script_lock_release.sha1,
            "1",        w->name,
            w->owner,   "0",
            LEASE_TEXT, w->channel};
        w->server = bench_connect(s->options->socket, false);
        set_args(w->acquire, w->acquire_lengths, acquire, ACQUIRE_ARGS);
        set_args(w->release, w->release_lengths, release, RELEASE_ARGS);
    }
}

static void close_theirs(slice *s)
{
    for (unsigned i = 0; i < s->threads; i++) {
        redisFree(s->workers[i].server);
    }
}

/* ------------------------------------------------------------------ slice */

static void run_until(worker *w, const atomic_bool *flag)
{
    w->previous = bench_now();
    while (!atomic_load_explicit(flag, memory_order_relaxed)) {
        if (w->of->side == OURS) {
            pair_ours(w);
        } else {
            pair_theirs(w);
        }
        int64_t now = bench_now();
        bench_histogram_add(&w->latency, now - w->previous);
        w->previous = now;
        w->pairs++;
    }
}

static void *work(void *arg)
{
    worker *w = arg;
    pthread_barrier_wait(&w->of->barrier);
    run_until(w, &w->of->warm);
    pthread_barrier_wait(&w->of->barrier);
    w->pairs = 0;
    memset(&w->latency, 0, sizeof(w->latency));
    pthread_barrier_wait(&w->of->barrier);
    run_until(w, &w->of->stop);
    return NULL;
}

static void start(slice *s)
{
    if (pthread_barrier_init(&s->barrier, NULL, s->threads + 1) != 0) {
        bench_die("cannot make a barrier");
    }
    for (unsigned i = 0; i < s->threads; i++) {
        if (pthread_create(&s->workers[i].thread, NULL, work, &s->workers[i]) !=
            0) {
            bench_die("cannot start %u threads", s->threads);
        }
    }
}

static void summarize(slice *s, int64_t elapsed, uint64_t commands)
{
    static bench_histogram all;
    uint64_t pairs = 0;
    memset(&all, 0, sizeof(all));
    for (unsigned i = 0; i < s->threads; i++) {
        bench_histogram_merge(&all, &s->workers[i].latency);
        pairs += s->workers[i].pairs;
    }
    s->rate = (double)pairs * (double)BENCH_SECOND / (double)elapsed;
    s->p50 = bench_histogram_us(&all, 0.50);
    s->p99 = bench_histogram_us(&all, 0.99);
    s->commands = (double)commands / (double)pairs;
}

static void measure(slice *s, redisContext *server)
{
    start(s);
    pthread_barrier_wait(&s->barrier);
    bench_sleep_until(bench_now() + s->options->slice / 5);
    atomic_store(&s->warm, true);
    pthread_barrier_wait(&s->barrier);
    uint64_t commands = bench_commands(server);
    pthread_barrier_wait(&s->barrier);
    int64_t begin = bench_now();
    bench_sleep_until(begin + s->options->slice);
    atomic_store(&s->stop, true);
    for (unsigned i = 0; i < s->threads; i++) {
        pthread_join(s->workers[i].thread, NULL);
    }
    int64_t elapsed = bench_now() - begin;
    pthread_barrier_destroy(&s->barrier);
    summarize(s, elapsed, bench_commands(server) - commands);
}

static void name_everything(slice *s)
{
    for (unsigned i = 0; i < s->threads; i++) {
        worker *w = &s->workers[i];
        w->of = s;
        w->number = i;
        snprintf(w->name, sizeof(w->name), "bench:pairs:%02u", i);
        snprintf(w->channel, sizeof(w->channel), "redisson_lock__channel:{%s}",
                 w->name);
        /* As long as the library's. */
        snprintf(w->owner, sizeof(w->owner),
                 "b00c5a1e-0000-4000-8000-000000000000:%u", i + 1);
    }
}

static slice *run_slice(const bench_options *options, redisContext *server,
                        side which, unsigned threads)
{
    slice *s = calloc(1, sizeof(*s));
    if (!s) {
        bench_die("out of memory");
    }
    s->options = options;
    s->side = which;
    s->threads = threads;
    name_everything(s);
    if (which == OURS) {
        open_ours(s);
    } else {
        open_theirs(s);
    }
    measure(s, server);
    if (which == OURS) {
        close_ours(s);
    } else {
        close_theirs(s);
    }
    return s;
}

/* ----------------------------------------------------------------- report */

typedef struct row {
    bench_placement placement;
    unsigned threads;
    bench_series rate[2]; /* by side */
    bench_series p50[2];
    bench_series p99[2];
    bench_series commands; /* ours */
    bench_series ratio;
} row;

static void run_round(const bench_options *options, redisContext *server,
                      row *r, bool theirs_first)
{
    double rate[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        side which = (i == 0) == theirs_first ? THEIRS : OURS;
        if (options->side >= 0 && (int)which != options->side) {
            continue;
        }
        slice *s = run_slice(options, server, which, r->threads);
        bench_series_add(&r->rate[which], s->rate);
        bench_series_add(&r->p50[which], s->p50);
        bench_series_add(&r->p99[which], s->p99);
        if (which == OURS) {
            bench_series_add(&r->commands, s->commands);
        }
        rate[which] = s->rate;
        free(s);
    }
    if (rate[OURS] > 0 && rate[THEIRS] > 0) {
        bench_series_add(&r->ratio, rate[OURS] / rate[THEIRS]);
    }
}

static void print_row(const row *r)
{
    char rate[2][48];
    char latency[2][32];
    char ratio[48];
    for (int i = 0; i < 2; i++) {
        bench_series_text(&r->rate[i], 1000, 1, rate[i], sizeof(rate[i]));
        snprintf(latency[i], sizeof(latency[i]), "%.0f/%.0f",
                 bench_series_median(&r->p50[i]),
                 bench_series_median(&r->p99[i]));
    }
    bench_series_text(&r->ratio, 1, 2, ratio, sizeof(ratio));
    printf("%-5s %7u  %-21s %-21s %-18s %-12s %s\n",
           bench_placement_name(r->placement), r->threads, rate[OURS],
           rate[THEIRS], ratio, latency[OURS], latency[THEIRS]);
}

static void report(const row *rows, size_t count)
{
    printf("\nPairs of lock and release, each thread its own lock "
           "(1000/s; median [min..max])\n"
           "%-5s %7s  %-21s %-21s %-18s %-12s %s\n",
           "place", "threads", "holdfast", "hiredis", "ratio", "p50/p99 us",
           "hiredis us");
    for (size_t i = 0; i < count; i++) {
        const row *r = &rows[i];
        print_row(r);
        if (r->ratio.count > 0) {
            bench_ratio(bench_series_median(&r->ratio), "%s_%u_vs_%s",
                        bench_placement_name(r->placement), r->threads,
                        r->threads == 1 ? "hiredis" : "pool");
        }
    }
    if (count > 0 && rows[0].commands.count > 0) {
        bench_ratio(bench_series_max(&rows[0].commands), "pair_commands");
    }
}

static void load_scripts(redisContext *server)
{
    const hf__script *const scripts[] = {&hf__script_lock_acquire,
                                         &hf__script_lock_release};
    for (size_t i = 0; i < 2; i++) {
        redisReply *reply = bench_command(server, "SCRIPT LOAD %b",
                                          scripts[i]->text, scripts[i]->length);
        if (strcmp(reply->str, scripts[i]->sha1) != 0) {
            bench_die("%s: the server computes another digest",
                      scripts[i]->name);
        }
        freeReplyObject(reply);
    }
}

static bool is_wanted(const bench_options *options, unsigned threads,
                      bench_placement placement)
{
    return (options->threads == 0 || options->threads == (int)threads) &&
           (options->placement < 0 || options->placement == (int)placement);
}

void bench_pairs(const bench_options *options, redisContext *server)
{
    static const unsigned threads[] = {1, 4, 16, THREADS_MAX};
    static const bench_placement places[] = {BENCH_SAME, BENCH_FREE};
    static row rows[2 * 4];
    pid_t pid = bench_server_pid(server);
    size_t count = 0;
    for (size_t p = 0; p < 2; p++) {
        for (size_t t = 0; t < 4; t++) {
            if (is_wanted(options, threads[t], places[p])) {
                rows[count].placement = places[p];
                rows[count].threads = threads[t];
                count++;
            }
        }
    }
    load_scripts(server);
    for (size_t round = 0; round < options->rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            bench_place(rows[i].placement, pid);
            run_round(options, server, &rows[i], round % 2 == 1);
        }
    }
    bench_place(BENCH_FREE, pid);
    report(rows, count);
}
