/* Waits.
 *
 * Connecting and acquiring block, so a worker thread does them; the main
 * thread reads the signals. A second thread, the announcer, is started once
 * the wait lasts: it asks for the lock's remaining time and writes the waiting
 * line. */
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
    waiting *w;
    hf_status status;
    hf_error *err;
    int done_fd;           /* readable once the worker has ended */
    atomic_bool acquiring; /* what `open` opens is open */
} acquisition;

/* ---- worker */

static void *work(void *arg)
{
    acquisition *a = arg;
    uint64_t one = 1;
    a->status = a->w->open(a->w, a->err);
    if (a->status == HF_OK) {
        atomic_store(&a->acquiring, true);
        a->status = a->w->acquire(a->w, a->err);
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

static void start_line(announcer *line, const waiting *w, int64_t start)
{
    line->lock = w->lock;
    line->names = w->names;
    line->name_count = w->name_count;
    line->start = start;
    announcer_start(line);
}

/* Polls until the worker is done. Returns the signal that ended the wait. */
static int watch(acquisition *a, const signals *s)
{
    int64_t start = clock_ms();
    int ended_by = 0;
    announcer line = {0};
    struct pollfd fds[] = {{a->done_fd, POLLIN, 0}, {s->fd, POLLIN, 0}};
    while (!(fds[0].revents & POLLIN)) {
        bool announce = !line.running && !a->w->options->nonblock;
        (void)poll(fds, 2, announce ? ANNOUNCE_AFTER_MS : -1);
        int number = read_signals(s);
        if (number != 0 && ended_by == 0) {
            ended_by = number;
            hf_cancel_fire(a->w->cancel);
            if (!atomic_load(&a->acquiring)) {
                /* It asked for nothing yet, and now never will. */
                signals_die(number);
            }
        }
        if (announce && ended_by == 0 && atomic_load(&a->acquiring) &&
            clock_ms() - start >= ANNOUNCE_AFTER_MS) {
            start_line(&line, a->w, start);
        }
    }
    announcer_stop(&line);
    return ended_by;
}

static void run_worker(acquisition *a, const signals *s)
{
    pthread_t worker;
    int error = pthread_create(&worker, NULL, work, a);
    if (error != 0) {
        say("cannot start a thread: %s", strerror(error));
        return;
    }
    int ended_by = watch(a, s);
    (void)pthread_join(worker, NULL);
    if (ended_by != 0) {
        a->w->drop(a->w);
        signals_die(ended_by);
    }
}

hf_status wait_for(waiting *w, const signals *s, hf_error *err)
{
    acquisition a = {
        .w = w,
        .status = HF_ESYSTEM,
        .err = err,
        .done_fd = eventfd(0, EFD_CLOEXEC),
    };
    w->cancel = hf_cancel_new();
    if (!w->cancel || a.done_fd < 0) {
        say("cannot wait: %s", strerror(errno));
    } else {
        run_worker(&a, s);
    }
    hf_cancel_free(w->cancel);
    if (a.done_fd >= 0) {
        (void)close(a.done_fd);
    }
    return a.status;
}

/* ---- what was asked for, and what came of it */

int64_t wait_of(const cli_options *options)
{
    if (options->nonblock) {
        return 0;
    }
    return options->wait_ms == UNSET ? HF_WAIT_FOREVER : options->wait_ms;
}

/* Not to get it is no error: -n in a cron job is to be silent. */
int wait_failure(const waiting *w, hf_status status, const hf_error *err)
{
    char names[QUOTE_SIZE];
    if (status == HF_NOT_ACQUIRED) {
        if (w->options->verbose) {
            say("did not get %s: another owner holds it",
                text_quote_names(names, sizeof(names), w->names,
                                 w->name_count));
        }
        return (int)w->options->conflict_code;
    }
    if (hf_error_status(err) == HF_OK) {
        return CLI_SYSTEM; /* which has been said */
    }
    int code = report_error(err);
    return status == HF_EHELD ? (int)w->options->conflict_code : code;
}
