#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Durations below 2^SUB_BITS nanoseconds have a class each, above them each
 * power of two has as many. */
#define SUB_BITS 6
#define SUB (1 << SUB_BITS)

#define RATIOS_MAX 64

static struct {
    char name[48];
    double value;
} ratios[RATIOS_MAX];
static size_t ratio_count;

void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

int64_t bench_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * BENCH_SECOND + now.tv_nsec;
}

void bench_sleep_until(int64_t when)
{
    struct timespec until = {.tv_sec = (time_t)(when / BENCH_SECOND),
                             .tv_nsec = (long)(when % BENCH_SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
    }
}

/* -------------------------------------------------------------- histogram */

static size_t class_of(int64_t ns)
{
    uint64_t n = ns > 0 ? (uint64_t)ns : 0;
    if (n < SUB) {
        return (size_t)n;
    }
    unsigned shift = 63U - (unsigned)__builtin_clzll(n) - SUB_BITS;
    size_t at = ((size_t)shift << SUB_BITS) + (size_t)(n >> shift);
    return at < BENCH_CLASSES ? at : BENCH_CLASSES - 1;
}

/* The middle of a class. */
static double class_ns(size_t at)
{
    if (at < SUB) {
        return (double)at;
    }
    unsigned shift = (unsigned)(at >> SUB_BITS) - 1;
    uint64_t low = ((uint64_t)(at & (SUB - 1)) | SUB) << shift;
    return (double)low + (double)(UINT64_C(1) << shift) / 2;
}

void bench_histogram_add(bench_histogram *histogram, int64_t ns)
{
    histogram->classes[class_of(ns)]++;
    histogram->total++;
}

void bench_histogram_merge(bench_histogram *into, const bench_histogram *from)
{
    for (size_t i = 0; i < BENCH_CLASSES; i++) {
        into->classes[i] += from->classes[i];
    }
    into->total += from->total;
}

double bench_histogram_us(const bench_histogram *histogram, double part)
{
    uint64_t wanted = (uint64_t)((double)histogram->total * part);
    uint64_t seen = 0;
    for (size_t i = 0; i < BENCH_CLASSES; i++) {
        seen += histogram->classes[i];
        if (seen > wanted) {
            return class_ns(i) / 1000;
        }
    }
    return 0;
}

/* ----------------------------------------------------------------- series */

void bench_series_add(bench_series *series, double value)
{
    if (series->count < BENCH_ROUNDS_MAX) {
        series->values[series->count] = value;
        series->count++;
    }
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

static bench_series sorted(const bench_series *series)
{
    bench_series copy = *series;
    qsort(copy.values, copy.count, sizeof(copy.values[0]), compare);
    return copy;
}

double bench_series_median(const bench_series *series)
{
    bench_series copy = sorted(series);
    size_t n = copy.count;
    if (n == 0) {
        return 0;
    }
    return (copy.values[(n - 1) / 2] + copy.values[n / 2]) / 2;
}

double bench_series_min(const bench_series *series)
{
    bench_series copy = sorted(series);
    return copy.count > 0 ? copy.values[0] : 0;
}

double bench_series_max(const bench_series *series)
{
    bench_series copy = sorted(series);
    return copy.count > 0 ? copy.values[copy.count - 1] : 0;
}

const char *bench_series_text(const bench_series *series, double unit,
                              int decimals, char *out, size_t size)
{
    snprintf(out, size, "%.*f [%.*f..%.*f]", decimals,
             bench_series_median(series) / unit, decimals,
             bench_series_min(series) / unit, decimals,
             bench_series_max(series) / unit);
    return out;
}

/* ----------------------------------------------------------------- ratios */

void bench_ratio(double value, const char *name, ...)
{
    if (ratio_count == RATIOS_MAX) {
        return;
    }
    va_list args;
    va_start(args, name);
    vsnprintf(ratios[ratio_count].name, sizeof(ratios[0].name), name, args);
    va_end(args);
    ratios[ratio_count].value = value;
    ratio_count++;
}

void bench_print_ratios(void)
{
    for (size_t i = 0; i < ratio_count; i++) {
        printf("ratio %s %.2f\n", ratios[i].name, ratios[i].value);
    }
}
