/* Locks of libholdfast on orders from standard input; java/Actor.java is the
 * same on Redisson, and docs/interop.md tells what either understands.
 *
 *     interop_actor URL WATCHDOG_MS */
#include "holdfast/holdfast.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_WORDS 8
#define ANSWER_SIZE 1024

/* "ID THREAD VERB NAME ARGUMENT..." */
typedef struct order {
    char *line;
    const char *words[MOST_WORDS];
    struct order *next;
} order;

/* A thread, which is an owner of locks. */
typedef struct worker {
    char *name;
    pthread_mutex_t mutex;
    pthread_cond_t more;
    order *first, *last;
    struct worker *next;
} worker;

static hf_client *client;
static worker *workers;

_Noreturn static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", what, why);
    _exit(1);
}

static void *need(void *memory)
{
    if (!memory) {
        die("memory", "none left");
    }
    return memory;
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void sleep_ms(int64_t milliseconds)
{
    struct timespec pause = {.tv_sec = milliseconds / 1000,
                             .tv_nsec = milliseconds % 1000 * 1000000};
    while (nanosleep(&pause, &pause) != 0) {
    }
}

static int64_t number(const char *word)
{
    return strtoll(word, NULL, 10);
}

/* ---- what can be ordered */

typedef hf_status (*verb_fn)(hf_lock *lock, const order *o, char *answer,
                             hf_error *err);

static void say(char *answer, const char *text)
{
    (void)snprintf(answer, ANSWER_SIZE, "%s", text);
}

static void say_number(char *answer, int64_t n)
{
    (void)snprintf(answer, ANSWER_SIZE, "%" PRId64, n);
}

static hf_status acquire(hf_lock *lock, int64_t wait, int64_t lease,
                         hf_error *err)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = wait;
    options.lease_ms = lease;
    return hf_lock_acquire_with(lock, &options, NULL, err);
}

static hf_status say_taken(hf_status status, char *answer)
{
    say(answer, status == HF_OK ? "yes" : "no");
    return status == HF_NOT_ACQUIRED ? HF_OK : status;
}

/* Every order has a handle of its own. */
static hf_status do_make(hf_lock *lock, const order *o, char *answer,
                         hf_error *err)
{
    (void)lock;
    (void)o;
    (void)err;
    say(answer, "yes");
    return HF_OK;
}

static hf_status do_try(hf_lock *lock, const order *o, char *answer,
                        hf_error *err)
{
    (void)o;
    return say_taken(hf_lock_try(lock, NULL, err), answer);
}

static hf_status do_acquire(hf_lock *lock, const order *o, char *answer,
                            hf_error *err)
{
    int64_t wait = number(o->words[4]);
    return say_taken(acquire(lock, wait < 0 ? HF_WAIT_FOREVER : wait,
                             number(o->words[5]), err),
                     answer);
}

static hf_status do_release(hf_lock *lock, const order *o, char *answer,
                            hf_error *err)
{
    (void)o;
    hf_status status = hf_lock_release(lock, NULL, err);
    if (status == HF_ENOTHELD || status == HF_ELOST) {
        say(answer, "refused");
        return HF_OK;
    }
    say(answer, "yes");
    return status;
}

static hf_status do_force(hf_lock *lock, const order *o, char *answer,
                          hf_error *err)
{
    (void)o;
    int released = 0;
    hf_status status = hf_lock_force_release(lock, &released, err);
    say(answer, released ? "yes" : "no");
    return status;
}

static hf_status do_locked(hf_lock *lock, const order *o, char *answer,
                           hf_error *err)
{
    (void)o;
    int locked = 0;
    hf_status status = hf_lock_is_locked(lock, &locked, err);
    say(answer, locked ? "yes" : "no");
    return status;
}

static hf_status do_held(hf_lock *lock, const order *o, char *answer,
                         hf_error *err)
{
    (void)o;
    int held = 0;
    hf_status status = hf_lock_is_held_by(lock, NULL, &held, err);
    say(answer, held ? "yes" : "no");
    return status;
}

static hf_status do_count(hf_lock *lock, const order *o, char *answer,
                          hf_error *err)
{
    (void)o;
    int64_t count = 0;
    hf_status status = hf_lock_hold_count(lock, NULL, &count, err);
    say_number(answer, count);
    return status;
}

static hf_status do_remaining(hf_lock *lock, const order *o, char *answer,
                              hf_error *err)
{
    (void)o;
    int64_t remaining = 0;
    hf_status status = hf_lock_remaining_ms(lock, &remaining, err);
    say_number(answer, remaining);
    return status;
}

static hf_status do_hold(hf_lock *lock, const order *o, char *answer,
                         hf_error *err)
{
    hf_status status = acquire(lock, HF_WAIT_FOREVER, number(o->words[4]), err);
    if (status != HF_OK) {
        return status;
    }
    int64_t enter = now_ns();
    sleep_ms(number(o->words[5]));
    int64_t leave = now_ns();
    char released[ANSWER_SIZE];
    status = do_release(lock, o, released, err);
    (void)snprintf(answer, ANSWER_SIZE, "%" PRId64 " %" PRId64 " %.16s", enter,
                   leave, released);
    return status;
}

/* Adds to a number in a file, in two steps that only the lock guards. */
static void add_one(int file)
{
    uint64_t n;
    if (pread(file, &n, sizeof(n), 0) != (ssize_t)sizeof(n)) {
        die("counter", "not read");
    }
    n = htobe64(be64toh(n) + 1);
    if (pwrite(file, &n, sizeof(n), 0) != (ssize_t)sizeof(n)) {
        die("counter", "not written");
    }
}

static hf_status do_load(hf_lock *lock, const order *o, char *answer,
                         hf_error *err)
{
    int64_t rounds = number(o->words[4]);
    int file = open(o->words[5], O_RDWR | O_CLOEXEC);
    FILE *ledger = fopen(o->words[6], "we");
    if (file < 0 || !ledger) {
        die("load", strerror(errno));
    }
    hf_status status = HF_OK;
    for (int64_t i = 0; i < rounds && status == HF_OK; i++) {
        status = hf_lock_acquire(lock, HF_WAIT_FOREVER, NULL, err);
        if (status != HF_OK) {
            break;
        }
        int64_t enter = now_ns();
        add_one(file);
        int64_t leave = now_ns();
        status = hf_lock_release(lock, NULL, err);
        (void)fprintf(ledger, "%" PRId64 " %" PRId64 "\n", enter, leave);
    }
    if (fclose(ledger) != 0 || close(file) != 0) {
        die("load", strerror(errno));
    }
    say_number(answer, rounds);
    return status;
}

static const struct {
    const char *name;
    size_t words;
    verb_fn fn;
} verbs[] = {
    {"acquire", 6, do_acquire}, {"count", 4, do_count},
    {"force", 4, do_force},     {"held", 4, do_held},
    {"hold", 6, do_hold},       {"load", 7, do_load},
    {"locked", 4, do_locked},   {"make", 4, do_make},
    {"release", 4, do_release}, {"remaining", 4, do_remaining},
    {"try", 4, do_try},
};

static verb_fn find_verb(const order *o)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(verbs[i].name, o->words[2]) == 0 &&
            o->words[verbs[i].words - 1]) {
            return verbs[i].fn;
        }
    }
    return NULL;
}

static void obey(const order *o, char *answer)
{
    hf_error err = HF_ERROR_INIT;
    verb_fn fn = find_verb(o);
    if (!fn) {
        say(answer, "error no such order");
        return;
    }
    hf_lock *lock = hf_lock_open(client, o->words[3], &err);
    hf_status status = lock ? fn(lock, o, answer, &err) : hf_error_status(&err);
    hf_lock_free(lock);
    if (status != HF_OK) {
        (void)snprintf(answer, ANSWER_SIZE, "error %s: %s",
                       hf_status_text(status), hf_error_text(&err));
    }
}

/* ---- threads */

static order *next_order(worker *w)
{
    (void)pthread_mutex_lock(&w->mutex);
    while (!w->first) {
        (void)pthread_cond_wait(&w->more, &w->mutex);
    }
    order *o = w->first;
    w->first = o->next;
    (void)pthread_mutex_unlock(&w->mutex);
    return o;
}

static void *work(void *arg)
{
    worker *w = arg;
    for (;;) {
        order *o = next_order(w);
        char answer[ANSWER_SIZE];
        int64_t start = now_ns();
        obey(o, answer);
        (void)printf("%s %" PRId64 " %" PRId64 " %s\n", o->words[0], start,
                     now_ns(), answer);
        free(o->line);
        free(o);
    }
    return NULL;
}

static worker *find_worker(const char *name)
{
    for (worker *w = workers; w; w = w->next) {
        if (strcmp(w->name, name) == 0) {
            return w;
        }
    }
    worker *w = need(calloc(1, sizeof(*w)));
    w->name = need(strdup(name));
    (void)pthread_mutex_init(&w->mutex, NULL);
    (void)pthread_cond_init(&w->more, NULL);
    w->next = workers;
    workers = w;
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, w) != 0) {
        die("thread", "not created");
    }
    (void)pthread_detach(thread);
    return w;
}

static void enqueue(worker *w, order *o)
{
    (void)pthread_mutex_lock(&w->mutex);
    if (w->first) {
        w->last->next = o;
    } else {
        w->first = o;
    }
    w->last = o;
    (void)pthread_cond_signal(&w->more);
    (void)pthread_mutex_unlock(&w->mutex);
}

static order *parse(const char *line)
{
    order *o = need(calloc(1, sizeof(*o)));
    o->line = need(strdup(line));
    char *rest = o->line;
    size_t n = 0;
    for (char *word; n < MOST_WORDS && (word = strsep(&rest, " \n"));) {
        if (*word) {
            o->words[n++] = word;
        }
    }
    if (n < 4) {
        die("not an order", line);
    }
    return o;
}

int main(int argc, char *argv[])
{
    if (argc != 3) {
        die("usage", "interop_actor URL WATCHDOG_MS");
    }
    hf_error err = HF_ERROR_INIT;
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    options.watchdog_lease_ms = number(argv[2]);
    options.command_timeout_ms = 20000;
    /* A waiter is woken by a message or by the lease's end, as Redisson's. */
    options.poll_cap_ms = INT64_C(600) * 1000;
    options.subscription_linger_ms = 50; /* one scenario after the other */
    client = hf_client_open(argv[1], &options, &err);
    if (!client) {
        die(argv[1], hf_error_text(&err));
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)printf("ready holdfast-%s\n", hf_version());

    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        order *o = parse(line);
        enqueue(find_worker(o->words[1]), o);
    }
    _exit(0); /* what is held stays held */
}
