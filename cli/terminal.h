/* Who may read from the terminal: the command is in a process group of its
 * own, and has to be the foreground group while the runner is. */
#ifndef HOLDFAST_CLI_TERMINAL_H
#define HOLDFAST_CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct terminal {
    int fd;      /* the controlling terminal; -1: there is none */
    bool eager;  /* hand over at the start, not when it is asked for */
    bool handed; /* the command's group has it */
} terminal;

void terminal_open(terminal *t);
void terminal_close(terminal *t);
/* Whether the runner's own group is the foreground group now. */
bool terminal_is_ours(const terminal *t);
/* Makes that group the foreground group. */
void terminal_give(terminal *t, pid_t group);
/* Takes the terminal back, if it was given. */
void terminal_take(terminal *t);

#endif
