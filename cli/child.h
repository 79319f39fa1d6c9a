/* The command: started in a process group of its own, and ended with it. */
#ifndef HOLDFAST_CLI_CHILD_H
#define HOLDFAST_CLI_CHILD_H

#include "cli/guard.h"
#include "cli/signals.h"
#include "cli/terminal.h"

#include <stddef.h>

/* A variable of the command's environment. */
typedef struct variable {
    const char *name;
    const char *value; /* NULL: the command does not find it */
} variable;

typedef struct command {
    char **argv;
    const variable *variables; /* set, or taken away */
    size_t variable_count;
} command;

/* Starts it, from the main thread (the parent-death signal follows the thread
 * that forks); it executes nothing before the guard knows its group. Returns
 * its pid, which is its group's id too; or -1 with *code set to 71, 126 or
 * 127, after saying why. */
pid_t child_start(const command *c, const signals *s, const guard *g,
                  terminal *t, int *code);

/* To the whole group. */
void child_signal(pid_t group, int number);
bool child_group_is_empty(pid_t group);

#endif
