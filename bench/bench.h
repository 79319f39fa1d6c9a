/* What the parts of the benchmark share. It measures the public API beside
 * blocking hiredis; docs/benchmarks.md tells what its numbers mean. */
#ifndef HOLDFAST_BENCH_BENCH_H
#define HOLDFAST_BENCH_BENCH_H

#include "holdfast/holdfast.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BENCH_MS INT64_C(1000000)
#define BENCH_SECOND INT64_C(1000000000)
#define BENCH_ROUNDS_MAX 99

/* Names what failed on stderr, and ends the process with 1. */
__attribute__((noreturn, format(printf, 1, 2))) void
bench_die(const char *format, ...);

/* ---- stats.c: nanoseconds on CLOCK_MONOTONIC */
int64_t bench_now(void);
void bench_sleep_until(int64_t when);

/* Counts of durations in classes of at most 1/64 of their size. No pointers
 * within: may lie in memory that processes share. */
#define BENCH_CLASSES 2560
typedef struct bench_histogram {
    uint64_t total;
    uint32_t classes[BENCH_CLASSES];
} bench_histogram;

void bench_histogram_add(bench_histogram *histogram, int64_t ns);
void bench_histogram_merge(bench_histogram *into, const bench_histogram *from);
/* In microseconds; `part` from 0 to 1. */
double bench_histogram_us(const bench_histogram *histogram, double part);

/* One value a round. */
typedef struct bench_series {
    double values[BENCH_ROUNDS_MAX];
    size_t count;
} bench_series;

void bench_series_add(bench_series *series, double value);
double bench_series_median(const bench_series *series);
double bench_series_min(const bench_series *series);
double bench_series_max(const bench_series *series);
/* "median [min..max]", each divided by `unit`; returns out. */
const char *bench_series_text(const bench_series *series, double unit,
                              int decimals, char *out, size_t size);

/* Keeps a ratio for the end of the report. */
__attribute__((format(printf, 2, 3))) void bench_ratio(double value,
                                                       const char *name, ...);
void bench_print_ratios(void);

/* ---- server.c */
/* A connection of the benchmark's own. Tries for a while if `patient`. */
redisContext *bench_connect(const char *socket, bool patient);
/* A command's reply that is no error; dies otherwise. The format is hiredis's
 * own, with %b. */
redisReply *bench_command(redisContext *server, const char *format, ...);
/* How many scripts and subscriptions clients have asked for so far. */
uint64_t bench_commands(redisContext *server);
/* Machine, server and libraries: whatever a number depends on. */
void bench_print_facts(redisContext *server);

typedef enum bench_placement {
    BENCH_SAME,
    BENCH_FREE,
    BENCH_APART /* the server on one cpu, this process on another */
} bench_placement;
const char *bench_placement_name(bench_placement placement);
/* Pins this process, all its threads, and the server's; what is started from
 * here on inherits it. */
void bench_place(bench_placement placement, pid_t server);
pid_t bench_server_pid(redisContext *server);

/* ---- parts */
typedef struct bench_options {
    const char *socket;
    size_t rounds;
    int64_t slice;     /* ns measured of each side in each round */
    uint64_t handoffs; /* measured in each round */
    bool pairs;
    bool handoff;
    bool kinds;
    int threads;   /* 0: all numbers of threads, or of waiters */
    int placement; /* -1: all */
    int side;      /* -1: both, 0: ours, 1: theirs */
} bench_options;

void bench_pairs(const bench_options *options, redisContext *server);
void bench_kinds(const bench_options *options, redisContext *server);
void bench_handoff(const bench_options *options, redisContext *server);

#endif
