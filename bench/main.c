/* The benchmark's command line; bench/run builds it and starts the server. */
#include "bench.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 11
#define QUICK_ROUNDS 3
#define SLICE_MS 250
#define QUICK_SLICE_MS 150
#define HANDOFFS 400
#define QUICK_HANDOFFS 200

static const char usage[] = "see bench/run --help\n";

static void fail_usage(const char *what, const char *value)
{
    fprintf(stderr, "bench: %s %s\n%s", what, value, usage);
    exit(64);
}

static long number(const char *option, const char *text, long max)
{
    char *end = NULL;
    long n = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || n < 1 || n > max) {
        fail_usage(option, text);
    }
    return n;
}

/* Which of the words it is. */
static int choice(const char *option, const char *text,
                  const char *const words[], int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            return i;
        }
    }
    fail_usage(option, text);
    return -1;
}

static void take(bench_options *options, int option, const char *value)
{
    static const char *const parts[] = {"pairs", "handoff", "kinds"};
    static const char *const places[] = {"same", "free"};
    static const char *const sides[] = {"ours", "theirs"};
    int only = 0;
    switch (option) {
    case 's':
        options->socket = value;
        break;
    case 'q':
        options->rounds = QUICK_ROUNDS;
        options->slice = QUICK_SLICE_MS * BENCH_MS;
        options->handoffs = QUICK_HANDOFFS;
        break;
    case 'o':
        only = choice("--only", value, parts, 3);
        options->pairs = only == 0;
        options->handoff = only == 1;
        options->kinds = only == 2;
        break;
    case 'r':
        options->rounds = (size_t)number("--rounds", value, BENCH_ROUNDS_MAX);
        break;
    case 'm':
        options->slice = number("--ms", value, 3600000) * BENCH_MS;
        break;
    case 't':
        options->threads = (int)number("--threads", value, 64);
        break;
    case 'p':
        options->placement = choice("--place", value, places, 2);
        break;
    case 'd':
        options->side = choice("--side", value, sides, 2);
        break;
    default:
        fputs(usage, stderr);
        exit(64);
    }
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"socket", required_argument, NULL, 's'},
        {"quick", no_argument, NULL, 'q'},
        {"only", required_argument, NULL, 'o'},
        {"rounds", required_argument, NULL, 'r'},
        {"ms", required_argument, NULL, 'm'},
        {"threads", required_argument, NULL, 't'},
        {"place", required_argument, NULL, 'p'},
        {"side", required_argument, NULL, 'd'},
        {NULL, 0, NULL, 0}};
    bench_options options = {.rounds = ROUNDS,
                             .slice = SLICE_MS * BENCH_MS,
                             .handoffs = HANDOFFS,
                             .pairs = true,
                             .handoff = true,
                             .kinds = true,
                             .placement = -1,
                             .side = -1};
    int option = 0;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        take(&options, option, optarg);
    }
    if (!options.socket || optind < argc) {
        fail_usage("cannot use", optind < argc ? argv[optind] : "no --socket");
    }
    redisContext *server = bench_connect(options.socket, true);
    bench_print_facts(server);
    if (options.pairs) {
        bench_pairs(&options, server);
    }
    if (options.kinds) {
        bench_kinds(&options, server);
    }
    if (options.handoff) {
        bench_handoff(&options, server);
    }
    putchar('\n');
    bench_print_ratios();
    redisFree(server);
    return 0;
}
