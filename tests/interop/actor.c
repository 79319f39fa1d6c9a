/* Locks and synchronizers of libholdfast on orders from standard input;
 * java/Actor.java is the same on Redisson, and docs/interop.md tells what
 * either understands.
 *
 *     interop_actor URL WATCHDOG_MS */
#include "actor.h"
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

int64_t number(const char *word)
{
    return strtoll(word, NULL, 10);
}

/* ---- what orders are about */

static const struct {
    const char *name;
    family family;
    hf_kind kind;
} kinds[] = {
    {"lock", LOCKS, HF_KIND_REENTRANT},
    {"once", LOCKS, HF_KIND_NON_REENTRANT},
    {"fair", LOCKS, HF_KIND_FAIR},
    {"fair-once", LOCKS, HF_KIND_FAIR_NON_REENTRANT},
    {"read", LOCKS, HF_KIND_READ},
    {"write", LOCKS, HF_KIND_WRITE},
    {"spin", LOCKS, HF_KIND_SPIN},
    {"fenced", LOCKS, HF_KIND_FENCED},
    {"simple", LOCKS, HF_KIND_SIMPLE},
    {"permit", PERMITS, HF_KIND_PERMIT},
    {"multi", MULTI, HF_KIND_REENTRANT},
    {"semaphore", SEMAPHORE, HF_KIND_PERMIT},
    {"latch", LATCH, HF_KIND_PERMIT},
};

static bool find_kind(subject *s)
{
    const char *at = strchr(s->word, '@');
    s->name = at ? at + 1 : s->word;
    size_t length = at ? (size_t)(at - s->word) : 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!at || (strlen(kinds[i].name) == length &&
                    strncmp(kinds[i].name, s->word, length) == 0)) {
            s->family = kinds[i].family;
            s->kind = kinds[i].kind;
            return true;
        }
    }
    return false;
}

/* Puts one in their place. */
static hf_status join_locks(subject *s, hf_error *err)
{
    size_t count = 0;
    while (count < MOST_LOCKS && s->locks[count]) {
        count++;
    }
    hf_lock *joined = hf_multi_open(s->locks, count, err);
    for (size_t i = 0; i < count; i++) {
        hf_lock_free(s->locks[i]);
        s->locks[i] = NULL;
    }
    s->locks[0] = joined;
    return joined ? HF_OK : hf_error_status(err);
}

static hf_status open_locks(subject *s, hf_error *err)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = s->kind;
    const char *name = s->name;
    for (size_t i = 0; i < MOST_LOCKS; i++) {
        size_t length = strlen(name);
        if (s->family == MULTI) {
            length = strcspn(name, "+");
        }
        s->locks[i] = hf_lock_open_with(client, name, length, &options, err);
        if (!s->locks[i]) {
            return hf_error_status(err);
        }
        if (!name[length]) {
            break;
        }
        name += length + 1;
    }
    return s->family == MULTI ? join_locks(s, err) : HF_OK;
}

static hf_status open_subject(subject *s, hf_error *err)
{
    size_t length = strlen(s->name);
    if (s->family == SEMAPHORE) {
        s->semaphore = hf_semaphore_open(client, s->name, length, NULL, err);
        return s->semaphore ? HF_OK : hf_error_status(err);
    }
    if (s->family == LATCH) {
        s->latch = hf_latch_open(client, s->name, length, err);
        return s->latch ? HF_OK : hf_error_status(err);
    }
    return open_locks(s, err);
}

static void close_subject(subject *s)
{
    hf_semaphore_free(s->semaphore);
    hf_latch_free(s->latch);
    for (size_t i = 0; i < MOST_LOCKS; i++) {
        hf_lock_free(s->locks[i]);
    }
}

/* ---- what can be ordered */

void say(char *answer, const char *text)
{
    (void)snprintf(answer, ANSWER_SIZE, "%s", text);
}

void say_number(char *answer, int64_t n)
{
    (void)snprintf(answer, ANSWER_SIZE, "%" PRId64, n);
}

static hf_status acquire(hf_lock *lock, int64_t wait, int64_t lease_ms,
                         hf_lease **lease, hf_error *err)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = wait < 0 ? HF_WAIT_FOREVER : wait;
    options.lease_ms = lease_ms;
    return hf_lock_acquire_with(lock, &options, lease, err);
}

hf_status say_taken(hf_status status, char *answer)
{
    if (status == HF_EHELD) {
        say(answer, "own");
        return HF_OK;
    }
    say(answer, status == HF_OK ? "yes" : "no");
    return status == HF_NOT_ACQUIRED ? HF_OK : status;
}

static hf_status say_released(hf_status status, char *answer)
{
    if (status == HF_ENOTHELD || status == HF_ELOST) {
        say(answer, "refused");
        return HF_OK;
    }
    say(answer, "yes");
    return status;
}

/* Every order has a handle of its own. */
static hf_status do_make(subject *s, const order *o, char *answer,
                         hf_error *err)
{
    (void)s;
    (void)o;
    (void)err;
    say(answer, "yes");
    return HF_OK;
}

static hf_status do_try(subject *s, const order *o, char *answer, hf_error *err)
{
    (void)o;
    return say_taken(hf_lock_try(s->locks[0], NULL, err), answer);
}

static hf_status do_acquire(subject *s, const order *o, char *answer,
                            hf_error *err)
{
    return say_taken(acquire(s->locks[0], number(o->words[4]),
                             number(o->words[5]), NULL, err),
                     answer);
}

/* The fencing token, or the id of a permit. */
static void say_token(const subject *s, const hf_lease *lease, char *answer)
{
    if (s->kind == HF_KIND_FENCED) {
        (void)snprintf(answer, ANSWER_SIZE, "%" PRIu64, hf_lease_token(lease));
    } else {
        say(answer, s->kind == HF_KIND_PERMIT ? hf_lease_owner_id(lease) : "-");
    }
}

static void keep(subject *s, hf_lease *lease, const char *token)
{
    kept *k = need(calloc(1, sizeof(*k)));
    k->lease = lease;
    (void)snprintf(k->name, sizeof(k->name), "%s", s->word);
    (void)snprintf(k->token, sizeof(k->token), "%s", token);
    k->next = s->worker->leases;
    s->worker->leases = k;
}

static hf_status do_take(subject *s, const order *o, char *answer,
                         hf_error *err)
{
    hf_lease *lease = NULL;
    hf_status status = acquire(s->locks[0], number(o->words[4]),
                               number(o->words[5]), &lease, err);
    if (status != HF_OK) {
        return say_taken(status, answer);
    }
    say_token(s, lease, answer);
    keep(s, lease, answer);
    return HF_OK;
}

/* The latest lease that was kept of this subject; token: NULL for any. */
static hf_lease *find_kept(subject *s, const char *token)
{
    for (kept **at = &s->worker->leases; *at; at = &(*at)->next) {
        kept *k = *at;
        if (strcmp(k->name, s->word) == 0 &&
            (!token || strcmp(k->token, token) == 0)) {
            hf_lease *lease = k->lease;
            *at = k->next;
            free(k);
            return lease;
        }
    }
    return NULL;
}

static hf_status release(subject *s, hf_error *err)
{
    hf_lease *lease = find_kept(s, NULL);
    if (!lease) {
        return hf_lock_release(s->locks[0], NULL, err);
    }
    hf_status status = hf_lease_release(lease, err);
    hf_lease_free(lease);
    return status;
}

static hf_status do_release(subject *s, const order *o, char *answer,
                            hf_error *err)
{
    (void)o;
    return say_released(release(s, err), answer);
}

/* By what the key of a simple lock has, or by a permit's id. */
static hf_status do_give(subject *s, const order *o, char *answer,
                         hf_error *err)
{
    if (s->kind == HF_KIND_SIMPLE) {
        int result = 0;
        hf_status status =
            hf_simple_release(client, s->name, o->words[4], &result, err);
        say_number(answer, result);
        return status;
    }
    hf_lease *lease = find_kept(s, o->words[4]);
    hf_status status = lease ? hf_lease_release(lease, err) : HF_ENOTHELD;
    hf_lease_free(lease);
    (void)say_released(status, answer);
    say(answer, strcmp(answer, "yes") == 0 ? "yes" : "no");
    return HF_OK;
}

static hf_status do_force(subject *s, const order *o, char *answer,
                          hf_error *err)
{
    (void)o;
    int released = 0;
    hf_status status = hf_lock_force_release(s->locks[0], &released, err);
    say(answer, released ? "yes" : "no");
    return status;
}

static hf_status do_locked(subject *s, const order *o, char *answer,
                           hf_error *err)
{
    (void)o;
    int locked = 0;
    hf_status status = hf_lock_is_locked(s->locks[0], &locked, err);
    say(answer, locked ? "yes" : "no");
    return status;
}

static hf_status do_held(subject *s, const order *o, char *answer,
                         hf_error *err)
{
    (void)o;
    int held = 0;
    hf_status status = hf_lock_is_held_by(s->locks[0], NULL, &held, err);
    say(answer, held ? "yes" : "no");
    return status;
}

static hf_status do_count(subject *s, const order *o, char *answer,
                          hf_error *err)
{
    (void)o;
    int64_t count = 0;
    hf_status status = hf_lock_hold_count(s->locks[0], NULL, &count, err);
    say_number(answer, count);
    return status;
}

static hf_status do_remaining(subject *s, const order *o, char *answer,
                              hf_error *err)
{
    (void)o;
    int64_t remaining = 0;
    hf_status status = hf_lock_remaining_ms(s->locks[0], &remaining, err);
    say_number(answer, remaining);
    return status;
}

static hf_status do_hold(subject *s, const order *o, char *answer,
                         hf_error *err)
{
    hf_lease *lease = NULL;
    hf_status status =
        acquire(s->locks[0], -1, number(o->words[4]), &lease, err);
    if (status != HF_OK) {
        return status;
    }
    int64_t enter = now_ns();
    sleep_ms(number(o->words[5]));
    int64_t leave = now_ns();
    char released[ANSWER_SIZE];
    status = say_released(hf_lease_release(lease, err), released);
    hf_lease_free(lease);
    (void)snprintf(answer, ANSWER_SIZE, "%" PRId64 " %" PRId64 " %.16s", enter,
                   leave, released);
    return status;
}

/* ---- load */

/* One thread's share of a load. */
typedef struct share {
    int counter; /* a file with a number */
    FILE *stays; /* ENTER LEAVE TOKEN */
    hf_lease *lease;
    char token[ANSWER_SIZE];
} share;

static uint64_t read_counter(int file)
{
    uint64_t n;
    if (pread(file, &n, sizeof(n), 0) != (ssize_t)sizeof(n)) {
        die("counter", "not read");
    }
    return be64toh(n);
}

/* Writers add one, in two steps that only the lock guards; readers read it
 * twice; of a semaphore's permits others have some at the same time. */
static void be_inside(const subject *s, int file)
{
    if (s->kind == HF_KIND_PERMIT) {
        sleep_ms(1);
        return;
    }
    uint64_t n = read_counter(file);
    if (s->kind == HF_KIND_READ) {
        sleep_ms(1);
        if (read_counter(file) != n) {
            die("counter", "a writer beside a reader");
        }
        return;
    }
    n = htobe64(n + 1);
    if (pwrite(file, &n, sizeof(n), 0) != (ssize_t)sizeof(n)) {
        die("counter", "not written");
    }
}

static hf_status enter(subject *s, share *sh, hf_error *err)
{
    if (s->semaphore) {
        say(sh->token, "-");
        return hf_semaphore_acquire(s->semaphore, 1, HF_WAIT_FOREVER, NULL,
                                    err);
    }
    hf_status status =
        hf_lock_acquire(s->locks[0], HF_WAIT_FOREVER, &sh->lease, err);
    if (status == HF_OK) {
        say_token(s, sh->lease, sh->token);
    }
    return status;
}

static hf_status leave(subject *s, share *sh, hf_error *err)
{
    if (s->semaphore) {
        return hf_semaphore_release(s->semaphore, 1, err);
    }
    hf_status status = hf_lease_release(sh->lease, err);
    hf_lease_free(sh->lease);
    return status;
}

static hf_status run_round(subject *s, share *sh, hf_error *err)
{
    hf_status status = enter(s, sh, err);
    if (status != HF_OK) {
        return status;
    }
    int64_t entry = now_ns();
    be_inside(s, sh->counter);
    int64_t exit_at = now_ns();
    (void)fprintf(sh->stays, "%" PRId64 " %" PRId64 " %s\n", entry, exit_at,
                  sh->token);
    return leave(s, sh, err);
}

static hf_status do_load(subject *s, const order *o, char *answer,
                         hf_error *err)
{
    int64_t rounds = number(o->words[4]);
    share sh = {.counter = open(o->words[5], O_RDWR | O_CLOEXEC),
                .stays = fopen(o->words[6], "we")};
    if (sh.counter < 0 || !sh.stays) {
        die("load", strerror(errno));
    }
    hf_status status = HF_OK;
    for (int64_t i = 0; i < rounds && status == HF_OK; i++) {
        status = run_round(s, &sh, err);
    }
    if (fclose(sh.stays) != 0 || close(sh.counter) != 0) {
        die("load", strerror(errno));
    }
    say_number(answer, rounds);
    return status;
}

/* ---- all orders */

static const struct {
    family family;
    const char *name;
    size_t words;
    verb_fn fn;
} verbs[] = {
    {LOCKS, "acquire", 6, do_acquire},
    {LOCKS, "count", 4, do_count},
    {LOCKS, "force", 4, do_force},
    {LOCKS, "give", 5, do_give},
    {LOCKS, "held", 4, do_held},
    {LOCKS, "hold", 6, do_hold},
    {LOCKS, "load", 7, do_load},
    {LOCKS, "locked", 4, do_locked},
    {LOCKS, "make", 4, do_make},
    {LOCKS, "release", 4, do_release},
    {LOCKS, "take", 6, do_take},
    {LOCKS, "remaining", 4, do_remaining},
    {PERMITS, "set", 5, do_set_permits},
    {PERMITS, "assign", 5, do_assign},
    {PERMITS, "add", 5, do_add},
    {PERMITS, "available", 4, do_available},
    {PERMITS, "total", 4, do_total},
    {PERMITS, "acquired", 4, do_acquired},
    {PERMITS, "take", 6, do_take},
    {PERMITS, "give", 5, do_give},
    {PERMITS, "hold", 6, do_hold},
    {PERMITS, "load", 7, do_load},
    {SEMAPHORE, "set", 5, do_set_permits},
    {SEMAPHORE, "add", 5, do_add},
    {SEMAPHORE, "available", 4, do_available},
    {SEMAPHORE, "drain", 4, do_drain},
    {SEMAPHORE, "take", 6, do_take_permits},
    {SEMAPHORE, "give", 5, do_give_permits},
    {SEMAPHORE, "load", 7, do_load},
    {LATCH, "set", 5, do_set_count},
    {LATCH, "down", 5, do_down},
    {LATCH, "await", 5, do_await},
    {LATCH, "count", 4, do_latch_count},
    {LATCH, "delete", 4, do_delete},
    {LOCKS, "try", 4, do_try},

};

static verb_fn find_verb(const order *o, family wanted)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (verbs[i].family == wanted &&
            strcmp(verbs[i].name, o->words[2]) == 0 &&
            o->words[verbs[i].words - 1]) {
            return verbs[i].fn;
        }
    }
    return NULL;
}

static void obey(worker *w, const order *o, char *answer)
{
    hf_error err = HF_ERROR_INIT;
    subject s = {.word = o->words[3], .worker = w};
    verb_fn fn = find_kind(&s)
                     ? find_verb(o, s.family == MULTI ? LOCKS : s.family)
                     : NULL;
    if (!fn) {
        say(answer, "error no such order");
        return;
    }
    hf_status status = open_subject(&s, &err);
    if (status == HF_OK) {
        status = fn(&s, o, answer, &err);
    }
    close_subject(&s);
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
        obey(w, o, answer);
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
