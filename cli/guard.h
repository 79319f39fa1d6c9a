/* A tiny process that ends the command when the runner no longer can: killed
 * by SIGKILL, or stopped past the lease's end. */
#ifndef HOLDFAST_CLI_GUARD_H
#define HOLDFAST_CLI_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct guard {
    pid_t pid;
    int fd; /* write end of the pipe; its closing is the runner's death */
} guard;

/* Forks it. Call while the process has one thread. False after saying why. */
bool guard_start(guard *g);
/* Names the process group that shall not outlive the runner. False when the
 * guard is gone. */
bool guard_set_group(const guard *g, pid_t group);
/* When the group is to be killed unless told of a later time (clock_ms). */
void guard_set_deadline(const guard *g, int64_t deadline);
/* The command has ended; what it left in the background may live on. True if
 * the guard had to kill the group because its deadline had passed. */
bool guard_end(guard *g);

#endif
