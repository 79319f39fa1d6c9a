/* The line on stderr while a lock is waited for, by a thread of its own: to
 * ask the server for the lock's remaining time may block. */
#include "cli/announce.h"

#include "cli/duration.h"
#include "cli/report.h"
#include "cli/text.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TERMINAL_PERIOD_MS 1000
#define LOG_PERIOD_MS 60000
#define FREE_PERIOD_MS 200
#define NOT_LOCKED INT64_C(-2)
#define NO_END INT64_C(-1)
#define COLUMNS_DEFAULT 80
/* What stands around the name, at its longest. */
#define AROUND_NAME 64

static int columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    return COLUMNS_DEFAULT;
}

/* `, lock's remaining time 18s`; empty when the server does not say. */
static void format_remaining(char *out, size_t size, int64_t remaining)
{
    char text[DURATION_SIZE];
    *out = '\0';
    if (remaining >= 0) {
        (void)snprintf(out, size, ", lock's remaining time %s",
                       duration_format(text, remaining));
    } else if (remaining == NO_END) {
        (void)snprintf(out, size, ", lock without an end");
    }
}

/* A line of the terminal must not be longer than it is wide, or it cannot be
 * rewritten. */
static size_t name_room(const announcer *a)
{
    if (!a->terminal) {
        return QUOTE_SIZE;
    }
    int room = columns() - AROUND_NAME;
    return room < 16 ? 16 : room > QUOTE_SIZE ? QUOTE_SIZE : (size_t)room;
}

static void rewrite(announcer *a, const char *text)
{
    char line[512];
    int length = (int)strlen(text);
    int n = snprintf(line, sizeof(line), "\r%s%*s", text,
                     a->shown > length ? a->shown - length : 0, "");
    /* In the background the terminal is somebody else's. */
    if (n > 0 && tcgetpgrp(STDERR_FILENO) == getpgrp()) {
        (void)!write(STDERR_FILENO, line, (size_t)n);
        a->shown = length;
    }
}

static void show(announcer *a, int64_t remaining)
{
    char name[QUOTE_SIZE];
    char waited[DURATION_SIZE];
    char behind[DURATION_SIZE + 32];
    char text[QUOTE_SIZE + 2 * DURATION_SIZE + 64];
    (void)text_quote_names(name, name_room(a), a->names, a->name_count);
    /* Whole seconds: 0s, not 200ms, at the start. */
    int64_t elapsed = (clock_ms() - a->start) / 1000;
    (void)snprintf(waited, sizeof(waited), "0s");
    if (elapsed > 0) {
        (void)duration_format(waited, elapsed * 1000);
    }
    format_remaining(behind, sizeof(behind), remaining);
    (void)snprintf(text, sizeof(text), "waiting for %s: %s%s", name, waited,
                   behind);
    if (!a->terminal) {
        say("%s", text);
        return;
    }
    char line[sizeof(text) + 16];
    (void)snprintf(line, sizeof(line), "holdfast: %s", text);
    rewrite(a, line);
}

/* Shows the line, and returns when to do so again. A lock that is free just
 * now is about to be ours: nothing to tell. */
static int look(announcer *a, const struct pollfd *stop)
{
    struct pollfd stopped = *stop;
    int64_t remaining = INT64_MIN;
    if (a->lock) {
        (void)hf_lock_remaining_ms(a->lock, &remaining, NULL);
    }
    if (remaining == NOT_LOCKED) {
        return FREE_PERIOD_MS;
    }
    if (poll(&stopped, 1, 0) == 0) {
        show(a, remaining);
    }
    return a->terminal ? TERMINAL_PERIOD_MS : LOG_PERIOD_MS;
}

static void *announce(void *arg)
{
    announcer *a = arg;
    struct pollfd stop = {a->stop_fd, POLLIN, 0};
    int period;
    do {
        period = look(a, &stop);
    } while (poll(&stop, 1, period) == 0);
    return NULL;
}

void announcer_start(announcer *a)
{
    a->terminal = isatty(STDERR_FILENO);
    a->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (a->stop_fd < 0) {
        return;
    }
    a->running = pthread_create(&a->thread, NULL, announce, a) == 0;
    if (!a->running) {
        (void)close(a->stop_fd);
    }
}

void announcer_stop(announcer *a)
{
    uint64_t one = 1;
    if (!a->running) {
        return;
    }
    (void)!write(a->stop_fd, &one, sizeof(one));
    (void)pthread_join(a->thread, NULL);
    (void)close(a->stop_fd);
    a->running = false;
    if (a->shown > 0) {
        rewrite(a, "");
        (void)!write(STDERR_FILENO, "\r", 1);
    }
}
