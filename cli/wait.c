/* Waits for the lock.
 *
 * Connecting and acquiring block, so a worker thread does them, for an
 * explicit owner; the main thread reads the signals. A second thread, the
 * announcer, is started once the wait lasts: it asks for the lock's remaining
 * time and writes the waiting line. */
#include "cli/wait.h"

#include "cli/announce.h"
#include "cli/duration.h"
#include "cli/exit_codes.h"
#include "cli/report.h"
#include "cli/text.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Below this nobody calls it waiting. */
#define ANNOUNCE_AFTER_MS 200

typedef struct acquisition {
    const cli_options *options;
    const cli_target *target;
    holding got;
    hf_cancel *cancel;
    hf_status status;
    hf_error err;
    int done_fd;           /* readable once the worker has ended */
    atomic_bool acquiring; /* connected; `got` has client and lock */
} acquisition;

/* ---- worker */

static hf_status connect_and_open(acquisition *a)
{
    a->got.client = target_open(a->target, &a->err);
    if (!a->got.client) {
        return hf_error_status(&a->err);
    }
    a->got.lock = hf_lock_open(a->got.client, a->options->operands[0], &a->err);
    if (!a->got.lock) {
        return hf_error_status(&a->err);
    }
    a->got.owner = hf_owner_new(a->got.client, &a->err);
    return a->got.owner ? HF_OK : hf_error_status(&a->err);
}

static hf_status acquire(acquisition *a)
{
    const cli_options *wanted = a->options;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.owner = a->got.owner;
    options.cancel = a->cancel;
    options.wait_ms = wanted->nonblock           ? 0
                      : wanted->wait_ms == UNSET ? HF_WAIT_FOREVER
                                                 : wanted->wait_ms;
    options.lease_ms = wanted->lease_ms == UNSET ? 0 : wanted->lease_ms;
    options.max_hold_ms =
        wanted->max_hold_ms == UNSET ? 0 : wanted->max_hold_ms;
    atomic_store(&a->acquiring, true);
    return hf_lock_acquire_with(a->got.lock, &options, &a->got.lease, &a->err);
}

static void *work(void *arg)
{
    acquisition *a = arg;
    uint64_t one = 1;
    a->status = connect_and_open(a);
    if (a->status == HF_OK) {
        a->status = acquire(a);
    }
    (void)!write(a->done_fd, &one, sizeof(one));
    return NULL;
}

/* ---- main thread */

/* Returns the signal that ends the wait; 0 for none. */
static int read_signals(const signals *s)
{
    for (int number; (number = signals_next(s)) != 0;) {
        switch (number) {
        case SIGCHLD:
        case SIGCONT:
        case SIGWINCH:
        case SIGURG:
            break;
        case SIGTSTP: /* nothing is held yet: stop as everybody does */
            (void)signals_stop(number, false);
            break;
        default:
            return number;
        }
    }
    return 0;
}

/* Polls until the worker is done. Returns the signal that ended the wait. */
static int watch(acquisition *a, const signals *s)
{
    int64_t start = clock_ms();
    int ended_by = 0;
    announcer line = {0};
    struct pollfd fds[] = {{a->done_fd, POLLIN, 0}, {s->fd, POLLIN, 0}};
    while (!(fds[0].revents & POLLIN)) {
        bool announce = !line.running && !a->options->nonblock;
        (void)poll(fds, 2, announce ? ANNOUNCE_AFTER_MS : -1);
        int number = read_signals(s);
        if (number != 0 && ended_by == 0) {
            ended_by = number;
            hf_cancel_fire(a->cancel);
            if (!atomic_load(&a->acquiring)) {
                /* It asked for nothing yet, and now never will. */
                signals_die(number);
            }
        }
        if (announce && ended_by == 0 && atomic_load(&a->acquiring) &&
            clock_ms() - start >= ANNOUNCE_AFTER_MS) {
            announcer_start(&line, a->got.lock, a->options->operands[0], start);
        }
    }
    announcer_stop(&line);
    return ended_by;
}

static bool start_and_watch(acquisition *a, const signals *s)
{
    pthread_t worker;
    int error = pthread_create(&worker, NULL, work, a);
    if (error != 0) {
        say("cannot start a thread: %s", strerror(error));
        return false;
    }
    int ended_by = watch(a, s);
    (void)pthread_join(worker, NULL);
    if (ended_by != 0) {
        holding_free(&a->got);
        signals_die(ended_by);
    }
    return true;
}

static void say_refused(const acquisition *a)
{
    char name[QUOTE_SIZE];
    const char *lock = a->options->operands[0];
    if (a->options->verbose) {
        say("did not get %s: another owner holds it",
            text_quote(name, sizeof(name), lock, strlen(lock)));
    }
}

static int failure_code(const acquisition *a)
{
    if (a->status == HF_NOT_ACQUIRED) {
        say_refused(a); /* not an error: -n in a cron job is to be silent */
        return (int)a->options->conflict_code;
    }
    return report_error(&a->err);
}

bool wait_for_lock(const cli_options *options, const cli_target *target,
                   const signals *s, holding *out, int *code)
{
    acquisition a = {
        .options = options,
        .target = target,
        .status = HF_ESYSTEM,
        .err = HF_ERROR_INIT,
        .cancel = hf_cancel_new(),
        .done_fd = eventfd(0, EFD_CLOEXEC),
    };
    *code = CLI_SYSTEM;
    if (!a.cancel || a.done_fd < 0) {
        say("cannot wait for a lock: %s", strerror(errno));
    } else if (start_and_watch(&a, s) && a.status != HF_OK) {
        *code = failure_code(&a);
    }
    hf_cancel_free(a.cancel);
    if (a.done_fd >= 0) {
        (void)close(a.done_fd);
    }
    if (a.status != HF_OK) {
        holding_free(&a.got);
        return false;
    }
    *out = a.got;
    return true;
}

void holding_free(holding *h)
{
    hf_lease_free(h->lease);
    hf_owner_free(h->owner);
    hf_lock_free(h->lock);
    hf_client_free(h->client);
    *h = (holding){0};
}
