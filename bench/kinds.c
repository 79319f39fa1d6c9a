/* Every kind: an uncontended acquire and its release by one thread, through
 * the public API and as the bare commands that it sends, replayed by blocking
 * hiredis. What is replayed is not written down here: it is what the server's
 * MONITOR has heard of one pair. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "bench:kind"
#define WARM_UP 20
#define ARGS_MAX 16
#define HEARD_MAX 8 /* commands of one pair, at most */
#define COUNTED 1000
#define PERMITS 1000000000

typedef struct pair {
    const char *word;
    int kind; /* an hf_kind; below 0: a synchronizer */
} pair;

#define SEMAPHORE (-1)
#define LATCH (-2)

static const pair pairs[] = {
    {"reentrant", HF_KIND_REENTRANT},
    {"non_reentrant", HF_KIND_NON_REENTRANT},
    {"fair", HF_KIND_FAIR},
    {"fair_non_reentrant", HF_KIND_FAIR_NON_REENTRANT},
    {"read", HF_KIND_READ},
    {"write", HF_KIND_WRITE},
    {"spin", HF_KIND_SPIN},
    {"fenced", HF_KIND_FENCED},
    {"simple", HF_KIND_SIMPLE},
    {"permit", HF_KIND_PERMIT},
    {"semaphore", SEMAPHORE},
    {"latch", LATCH},
};
#define PAIRS (sizeof(pairs) / sizeof(pairs[0]))

/* One command as it was said. */
typedef struct said {
    int count;
    char *args[ARGS_MAX];
    size_t lengths[ARGS_MAX];
} said;

typedef struct subject {
    const pair *what;
    hf_client *client;
    hf_lock *lock;
    hf_semaphore *semaphore;
    hf_latch *latch;
} subject;

static void fine(hf_status status, const hf_error *err)
{
    if (status != HF_OK) {
        bench_die("%s", hf_error_text(err));
    }
}

/* ------------------------------------------------------------------ one pair
 */

static void lock_pair(hf_lock *lock)
{
    hf_error err = HF_ERROR_INIT;
    hf_lease *lease = NULL;
    fine(hf_lock_acquire(lock, HF_WAIT_FOREVER, &lease, &err), &err);
    fine(hf_lease_release(lease, &err), &err);
    hf_lease_free(lease);
}

static void one_pair(const subject *s)
{
    hf_error err = HF_ERROR_INIT;
    if (s->lock) {
        lock_pair(s->lock);
    } else if (s->semaphore) {
        fine(hf_semaphore_acquire(s->semaphore, 1, HF_WAIT_FOREVER, NULL, &err),
             &err);
        fine(hf_semaphore_release(s->semaphore, 1, &err), &err);
    } else {
        fine(hf_latch_set(s->latch, 1, 0, NULL, &err), &err);
        fine(hf_latch_count_down(s->latch, 1, NULL, &err), &err);
    }
}

static void open_subject(subject *s, const pair *what, hf_client *client)
{
    hf_error err = HF_ERROR_INIT;
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    *s = (subject){.what = what, .client = client};
    if (what->kind == SEMAPHORE) {
        s->semaphore =
            hf_semaphore_open(client, NAME, strlen(NAME), NULL, &err);
        /* A release that is replayed is known to have been said before: it
         * gives nothing back. */
        fine(hf_semaphore_set(s->semaphore, PERMITS, 0, NULL, &err), &err);
    } else if (what->kind == LATCH) {
        s->latch = hf_latch_open(client, NAME, strlen(NAME), &err);
    } else {
        options.kind = (hf_kind)what->kind;
        s->lock = hf_lock_open_with(client, NAME, strlen(NAME), &options, &err);
    }
    fine(hf_error_status(&err), &err);
    if (what->kind == HF_KIND_PERMIT) {
        fine(hf_permits_set(s->lock, 1, &err), &err);
    }
    for (int i = 0; i < WARM_UP; i++) {
        one_pair(s);
    }
}

static void close_subject(const subject *s)
{
    hf_lock_free(s->lock);
    hf_semaphore_free(s->semaphore);
    hf_latch_free(s->latch);
}

/* ------------------------------------------------------------------ listening
 */

/* A line of MONITOR ends in quoted arguments: "a" "b\x00". */
static const char *take_arg(const char *at, said *to)
{
    char *out = malloc(strlen(at) + 1);
    size_t n = 0;
    if (!out) {
        bench_die("out of memory");
    }
    for (at++; *at != '"' && *at != '\0'; at++) {
        if (*at == '\\' && at[1] == 'x') {
            char digits[3] = {at[2], at[3], '\0'};
            out[n++] = (char)strtol(digits, NULL, 16);
            at += 3;
        } else if (*at == '\\') {
            static const char names[] = "nrtab";
            static const char bytes[] = "\n\r\t\a\b";
            const char *name = strchr(names, *++at);
            out[n++] = name ? bytes[name - names] : *at;
        } else {
            out[n++] = *at;
        }
    }
    out[n] = '\0';
    to->args[to->count] = out;
    to->lengths[to->count] = n;
    to->count++;
    return *at == '"' ? at + 1 : at;
}

/* False for what a script has called, and what is no command. */
static bool take_line(const char *line, said *to)
{
    const char *at = strstr(line, "] \"");
    to->count = 0;
    if (!at || strstr(line, " lua] ")) {
        return false;
    }
    for (at += 2; *at == '"' && to->count < ARGS_MAX;) {
        at = take_arg(at, to);
        at += *at == ' ';
    }
    return true;
}

/* What is said to the server for one pair. */
static int listen_to_a_pair(const bench_options *options, const subject *s,
                            said heard[HEARD_MAX])
{
    int count = 0;
    redisContext *ear = bench_connect(options->socket, false);
    redisContext *mouth = bench_connect(options->socket, false);
    freeReplyObject(bench_command(ear, "MONITOR"));
    one_pair(s);
    freeReplyObject(bench_command(mouth, "ECHO end"));
    for (;;) {
        redisReply *reply = NULL;
        if (redisGetReply(ear, (void **)&reply) != REDIS_OK) {
            bench_die("MONITOR: %s", ear->errstr);
        }
        bool command = take_line(reply->str, &heard[count]);
        freeReplyObject(reply);
        if (command && strcmp(heard[count].args[0], "ECHO") == 0) {
            break;
        }
        count += command && count < HEARD_MAX - 1;
    }
    redisFree(ear);
    redisFree(mouth);
    return count;
}

/* -------------------------------------------------------------------- rates */

static double per_second(uint64_t count, int64_t span)
{
    return (double)count * (double)BENCH_SECOND / (double)span;
}

static double rate_of_ours(const subject *s, int64_t slice)
{
    uint64_t count = 0;
    int64_t begin = bench_now();
    int64_t now = begin;
    for (; now < begin + slice; now = bench_now()) {
        one_pair(s);
        count++;
    }
    return per_second(count, now - begin);
}

static void replay(redisContext *server, const said *heard, int commands)
{
    for (int i = 0; i < commands; i++) {
        redisReply *reply =
            redisCommandArgv(server, heard[i].count,
                             (const char **)heard[i].args, heard[i].lengths);
        if (!reply || reply->type == REDIS_REPLY_ERROR) {
            bench_die("replay: %s", reply ? reply->str : server->errstr);
        }
        freeReplyObject(reply);
    }
}

static double rate_of_bare(redisContext *server, const said *heard,
                           int commands, int64_t slice)
{
    uint64_t count = 0;
    int64_t begin = bench_now();
    int64_t now = begin;
    for (; now < begin + slice; now = bench_now()) {
        replay(server, heard, commands);
        count++;
    }
    return per_second(count, now - begin);
}

/* ------------------------------------------------------------------- report */

static double bytes_so_far(redisContext *server)
{
    redisReply *reply = bench_command(server, "INFO stats");
    double sum = 0;
    const char *in = strstr(reply->str, "total_net_input_bytes:");
    const char *out = strstr(reply->str, "total_net_output_bytes:");
    if (in && out) {
        sum = strtod(strchr(in, ':') + 1, NULL) +
              strtod(strchr(out, ':') + 1, NULL);
    }
    freeReplyObject(reply);
    return sum;
}

static double bytes_of_pairs(redisContext *server, const subject *s)
{
    double before = bytes_so_far(server);
    double between = bytes_so_far(server);
    for (int i = 0; i < COUNTED; i++) {
        one_pair(s);
    }
    double after = bytes_so_far(server);
    return (after - between - (between - before)) / COUNTED;
}

static void measure(const bench_options *options, redisContext *server,
                    hf_client *client, const pair *what)
{
    subject s;
    said heard[HEARD_MAX];
    bench_series ours = {.count = 0};
    bench_series bare = {.count = 0};
    bench_series ratio = {.count = 0};
    char text[2][48];
    open_subject(&s, what, client);
    int commands = listen_to_a_pair(options, &s, heard);
    for (size_t round = 0; round < options->rounds; round++) {
        double a = rate_of_ours(&s, options->slice);
        double b = rate_of_bare(server, heard, commands, options->slice);
        bench_series_add(&ours, a);
        bench_series_add(&bare, b);
        bench_series_add(&ratio, a / b);
    }
    printf("%-19s %8d %6.0f  %-22s %-22s %.2f\n", what->word, commands,
           bytes_of_pairs(server, &s),
           bench_series_text(&ours, 1000, 1, text[0], sizeof(text[0])),
           bench_series_text(&bare, 1000, 1, text[1], sizeof(text[1])),
           bench_series_median(&ratio));
    bench_ratio(bench_series_median(&ratio), "%s_vs_bare", what->word);
    bench_ratio(commands, "%s_commands", what->word);
    for (int i = 0; i < commands; i++) {
        for (int k = 0; k < heard[i].count; k++) {
            free(heard[i].args[k]);
        }
    }
    close_subject(&s);
    freeReplyObject(bench_command(server, "FLUSHALL"));
}

void bench_kinds(const bench_options *options, redisContext *server)
{
    char url[256];
    hf_error err = HF_ERROR_INIT;
    snprintf(url, sizeof(url), "unix://%s", options->socket);
    hf_client *client = hf_client_open(url, NULL, &err);
    if (!client) {
        bench_die("%s", hf_error_text(&err));
    }
    printf("\nEvery kind, one thread, acquire and release uncontended "
           "(thousands a second; median [min..max])\n"
           "%-19s %8s %6s  %-22s %-22s %s\n",
           "kind", "commands", "bytes", "holdfast", "bare commands", "ratio");
    for (size_t i = 0; i < PAIRS; i++) {
        measure(options, server, client, &pairs[i]);
    }
    hf_client_free(client);
}
