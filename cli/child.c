/* Starts the command. The runner has threads by then, so the child calls only
 * what is async-signal-safe between fork and exec: its environment is built
 * before. */
#include "cli/child.h"

#include "cli/exit_codes.h"
#include "cli/report.h"
#include "cli/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Two pipes between runner and child, closed by exec. */
typedef struct channel {
    int go[2];    /* one byte: you may execute; end: the runner is gone */
    int error[2]; /* an errno: exec failed; end: it did not */
} channel;

/* ---- environment */

static char *make_entry(const variable *v)
{
    size_t size = strlen(v->name) + strlen(v->value) + 2;
    char *entry = malloc(size);
    if (entry) {
        (void)snprintf(entry, size, "%s=%s", v->name, v->value);
    }
    return entry;
}

static bool is_named(const char *entry, const char *name)
{
    size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

static bool is_replaced(const command *c, const char *entry)
{
    for (size_t i = 0; i < c->variable_count; i++) {
        if (is_named(entry, c->variables[i].name)) {
            return true;
        }
    }
    return false;
}

/* The first `own` entries are its own, the others the environment's. */
typedef struct environment {
    char **list;
    size_t own;
} environment;

static void free_environment(environment *e)
{
    for (size_t i = 0; e->list && i < e->own; i++) {
        free(e->list[i]);
    }
    free(e->list);
}

static bool make_environment(const command *c, environment *out)
{
    size_t count = 0;
    while (environ[count]) {
        count++;
    }
    *out = (environment){
        .list = calloc(count + c->variable_count + 1, sizeof(*out->list))};
    if (!out->list) {
        return false;
    }
    for (size_t i = 0; i < c->variable_count; i++) {
        if (c->variables[i].value) {
            out->list[out->own] = make_entry(&c->variables[i]);
            if (!out->list[out->own]) {
                return false;
            }
            out->own++;
        }
    }
    size_t used = out->own;
    for (char **at = environ; *at; at++) {
        if (!is_replaced(c, *at)) {
            out->list[used++] = *at;
        }
    }
    return true;
}

/* ---- pipes */

static void close_pair(const int pair[2])
{
    (void)close(pair[0]);
    if (pair[1] >= 0) {
        (void)close(pair[1]);
    }
}

static bool open_channel(channel *ch)
{
    if (pipe2(ch->go, O_CLOEXEC) != 0) {
        return false;
    }
    if (pipe2(ch->error, O_CLOEXEC) != 0) {
        close_pair(ch->go);
        return false;
    }
    return true;
}

static bool read_all(int fd, void *out, size_t size)
{
    ssize_t n;
    do {
        n = read(fd, out, size);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)size;
}

/* ---- in the child */

_Noreturn static void child_main(const command *c, char **variables,
                                 const signals *s, const channel *ch,
                                 pid_t parent)
{
    char go;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Its copy of the writing end would keep the pipe from ending. */
    (void)close(ch->go[1]);
    if (getppid() != parent || !read_all(ch->go[0], &go, 1)) {
        _exit(CLI_INTERNAL); /* the runner died meanwhile */
    }
    signals_restore(s);
    (void)execvpe(c->argv[0], c->argv, variables);
    int error = errno;
    (void)!write(ch->error[1], &error, sizeof(error));
    _exit(CLI_NOT_FOUND);
}

/* ---- in the runner */

static int exec_error(const char *program, int error)
{
    char shown[QUOTE_SIZE];
    say("cannot execute %s: %s",
        text_quote(shown, sizeof(shown), program, strlen(program)),
        strerror(error));
    return error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXECUTE;
}

/* Lets the child execute once guard and terminal are told of it. Returns an
 * exit code. */
static int release_child(const command *c, pid_t pid, const guard *g,
                         terminal *t, const channel *ch)
{
    int error = 0;
    (void)setpgid(pid, pid); /* whichever of the two comes first */
    if (!guard_set_group(g, pid)) {
        say("the guard process has ended, so the command is not started");
        return CLI_SYSTEM;
    }
    if (t->eager && terminal_is_ours(t)) {
        terminal_give(t, pid);
    }
    (void)!write(ch->go[1], "", 1);
    if (!read_all(ch->error[0], &error, sizeof(error))) {
        return CLI_OK;
    }
    terminal_take(t);
    return exec_error(c->argv[0], error);
}

static int run_child(const command *c, char **variables, const signals *s,
                     channel *ch, pid_t *pid)
{
    pid_t parent = getpid();
    *pid = fork();
    if (*pid == 0) {
        child_main(c, variables, s, ch, parent);
    }
    if (*pid < 0) {
        say("cannot start a process: %s", strerror(errno));
        return CLI_SYSTEM;
    }
    /* Only the child shall keep these open. */
    (void)close(ch->error[1]);
    ch->error[1] = -1;
    return CLI_OK;
}

pid_t child_start(const command *c, const signals *s, const guard *g,
                  terminal *t, int *code)
{
    channel ch;
    pid_t pid = -1;
    environment with;
    *code = CLI_SYSTEM;
    if (!make_environment(c, &with) || !open_channel(&ch)) {
        say("cannot start a process: %s", strerror(errno));
        free_environment(&with);
        return -1;
    }
    *code = run_child(c, with.list, s, &ch, &pid);
    if (*code == CLI_OK) {
        *code = release_child(c, pid, g, t, &ch);
    }
    /* Ends a child that was not let go. */
    close_pair(ch.go);
    close_pair(ch.error);
    free_environment(&with);
    if (*code != CLI_OK && pid > 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    return *code == CLI_OK ? pid : -1;
}

void child_signal(pid_t group, int number)
{
    (void)kill(-group, number);
}

bool child_group_is_empty(pid_t group)
{
    return kill(-group, 0) != 0 && errno == ESRCH;
}
