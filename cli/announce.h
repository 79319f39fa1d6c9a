/* The line on stderr while a lock is waited for. */
#ifndef HOLDFAST_CLI_ANNOUNCE_H
#define HOLDFAST_CLI_ANNOUNCE_H

#include "holdfast/holdfast.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Zero it, and set lock, names and start before it is started. */
typedef struct announcer {
    bool running;
    pthread_t thread;
    int stop_fd;
    hf_lock *lock; /* NULL: there is no remaining time to tell */
    char *const *names;
    int name_count;
    int64_t start; /* of the wait, clock_ms */
    bool terminal; /* one line, rewritten */
    int shown;     /* columns of it that are on the screen */
} announcer;

/* Writes the line until stopped: rewritten each second on a terminal, else
 * once now and then every minute. Failing to is no failure. */
void announcer_start(announcer *a);
/* Also clears the line. Harmless if it never ran. */
void announcer_stop(announcer *a);

#endif
