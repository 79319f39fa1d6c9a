/* holdfast run: takes a lock, runs a command under it, gives it back. */
#include "cli/child.h"
#include "cli/connect.h"
#include "cli/duration.h"
#include "cli/exit_codes.h"
#include "cli/guard.h"
#include "cli/holding.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/supervise.h"
#include "cli/terminal.h"
#include "cli/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name) offsetof(cli_options, name)

static const cli_option run_options[] = {
    NONBLOCK_OPTION("Fail at once if another owner holds the lock."),
    WAIT_OPTION(
        "Fail if the lock cannot be had within this time. Default: wait "
        "for ever."),
    CONFLICT_OPTION("Exit code when the lock was not acquired. Default: 75."),
    {.letter = 's',
     .names = {"shared"},
     .kind = OPTION_FLAG,
     .offset = FIELD(shared),
     .help = "Take the read side of a read/write lock, which several may have "
             "at once: --kind read."},
    {.letter = 'x',
     .names = {"exclusive"},
     .kind = OPTION_FLAG,
     .offset = FIELD(exclusive),
     .help = "Take its write side: --kind write."},
    {.names = {"kind"},
     .argument = "KIND",
     .kind = OPTION_TEXT,
     .offset = FIELD(kind),
     .help = "What kind of lock: reentrant (the default), non-reentrant, fair, "
             "fair-non-reentrant, read, write, spin, fenced or simple."},
    {.letter = 'j',
     .names = {"permits"},
     .argument = "N",
     .kind = OPTION_NUMBER,
     .offset = FIELD(permits),
     .min = 1,
     .max = 999999999,
     .help = "Take one of N permits instead of a lock: at most N commands run "
             "at once. N counts when there is no semaphore of that name yet; "
             "holdfast sem add changes it."},
    {.letter = 'c',
     .names = {"command"},
     .argument = "LINE",
     .kind = OPTION_TEXT,
     .offset = FIELD(command_line),
     .help = "Run this line with $SHELL, else /bin/sh, instead of a command "
             "behind --."},
    {.names = {"ttl"},
     .argument = "DURATION",
     .kind = OPTION_DURATION,
     .offset = FIELD(ttl_ms),
     .min = HF_LEASE_MIN_MS,
     .max = HF_LEASE_MAX_MS,
     .help = "Lease of the lock, renewed each third of it as long as the "
             "command runs. Default: 30s."},
    {.names = {"lease"},
     .argument = "DURATION",
     .kind = OPTION_DURATION,
     .offset = FIELD(lease_ms),
     .min = HF_LEASE_MIN_MS,
     .max = HF_LEASE_MAX_MS,
     .help = "A fixed lease that is never renewed: the command has to be done "
             "by then."},
    {.names = {"max-hold"},
     .argument = "DURATION",
     .kind = OPTION_DURATION,
     .offset = FIELD(max_hold_ms),
     .min = HF_LEASE_MIN_MS,
     .max = HF_LEASE_MAX_MS,
     .help = "Renew the lease, but never hold the lock for longer than this."},
    {.names = {"on-lost"},
     .argument = "ACTION",
     .kind = OPTION_ON_LOST,
     .offset = FIELD(on_lost),
     .help = "When the lock is lost: kill ends the command, signal:NAME sends "
             "it that signal and nothing else, ignore only says so. Default: "
             "kill."},
    {.names = {"kill-after"},
     .argument = "DURATION",
     .kind = OPTION_DURATION,
     .offset = FIELD(kill_after_ms),
     .max = HF_LEASE_MAX_MS,
     .help = "How long before the lease's end the command gets SIGTERM; "
             "SIGKILL follows at its end. At most a third of the lease. "
             "Default: 5s, or a third of the lease if that is less."},
};

/* ---- what was asked for */

static int check_times(const cli_options *o)
{
    char text[DURATION_SIZE];
    if (o->nonblock && o->wait_ms != UNSET) {
        return usage_error("run", "--nonblock and --wait exclude each other");
    }
    if (o->lease_ms != UNSET && o->ttl_ms != UNSET) {
        return usage_error("run", "--lease and --ttl exclude each other: a "
                                  "lease is either fixed or renewed");
    }
    if (o->lease_ms != UNSET && o->max_hold_ms != UNSET) {
        return usage_error("run", "--lease and --max-hold exclude each other: "
                                  "a fixed lease is not renewed");
    }
    if (o->kill_after_ms > lease_of(o) / 3) {
        return usage_error("run",
                           "--kill-after is more than a third of the lease, "
                           "%s: renewals would come too late to prevent it",
                           duration_format(text, lease_of(o) / 3));
    }
    if (o->max_hold_ms != UNSET && o->kill_after_ms >= o->max_hold_ms) {
        return usage_error("run", "--kill-after leaves nothing of --max-hold");
    }
    return CLI_OK;
}

static int check_command(const cli_options *o)
{
    bool behind = o->command && o->command[0];
    if (o->command_line && o->command) {
        return usage_error("run", "--command and a command behind -- exclude "
                                  "each other");
    }
    if (!o->command_line && !behind) {
        return usage_error("run", "no command: put -- in front of it, or use "
                                  "--command");
    }
    return CLI_OK;
}

static int check_names(const cli_options *o)
{
    char name[QUOTE_SIZE];
    for (int i = 0; i < o->operand_count; i++) {
        const char *this = o->operands[i];
        if (this[0] == '\0') {
            return usage_error("run", "the lock's name is empty");
        }
        for (int j = 0; j < i; j++) {
            if (strcmp(this, o->operands[j]) == 0) {
                return usage_error(
                    "run", "%s is named twice",
                    text_quote(name, sizeof(name), this, strlen(this)));
            }
        }
    }
    return CLI_OK;
}

static int check_kind(const cli_options *o)
{
    char kind[QUOTE_SIZE];
    hf_kind unused;
    int ways =
        o->shared + o->exclusive + (o->kind != NULL) + (o->permits != UNSET);
    if (ways > 1) {
        return usage_error("run", "--shared, --exclusive, --kind and --permits "
                                  "exclude each other");
    }
    if (o->permits != UNSET && o->operand_count > 1) {
        return usage_error("run", "--permits takes one name");
    }
    if (o->kind && !kind_find(o->kind, &unused)) {
        return usage_error(
            "run", "--kind %s: not one of " KIND_NAMES,
            text_quote(kind, sizeof(kind), o->kind, strlen(o->kind)));
    }
    return CLI_OK;
}

static int check(const cli_options *o)
{
    int code = check_names(o);
    if (code == CLI_OK) {
        code = check_kind(o);
    }
    if (code == CLI_OK) {
        code = check_command(o);
    }
    return code == CLI_OK ? check_times(o) : code;
}

/* ---- the command */

/* With -c as flock(1) does it. */
static char **command_of(const cli_options *o, char *shell_words[4])
{
    static char dash_c[] = "-c";
    static char standard[] = "/bin/sh";
    if (!o->command_line) {
        return o->command;
    }
    char *shell = getenv("SHELL");
    shell_words[0] = shell && *shell ? shell : standard;
    shell_words[1] = dash_c;
    shell_words[2] = (char *)o->command_line;
    shell_words[3] = NULL;
    return shell_words;
}

static verdict start_and_supervise(watched *w, const command *c)
{
    verdict result = {.release = true};
    w->group = child_start(c, w->signals, w->guard, w->terminal, &result.code);
    return w->group > 0 ? supervise(w) : result;
}

/* ---- giving back */

static const char *names_of(const cli_options *o, char out[QUOTE_SIZE])
{
    return text_quote_names(out, QUOTE_SIZE, o->operands, o->operand_count);
}

/* A command that did its work while the lock was lost did not do it under the
 * lock, hence CLI_LOST even if the command succeeded. */
static int released_as_lost(const cli_options *o, int code)
{
    char names[QUOTE_SIZE];
    say("the %s %s was lost before the command ended", holding_noun(o),
        names_of(o, names));
    return o->on_lost.action == LOST_IGNORE ? code : CLI_LOST;
}

static int give_back(const cli_options *o, hf_lease *lease, verdict result)
{
    int code = result.code;
    hf_error err = HF_ERROR_INIT;
    char names[QUOTE_SIZE];
    hf_status status = hf_lease_release(lease, &err);
    if (status == HF_ELOST) {
        return result.lost ? code : released_as_lost(o, code);
    }
    if (status != HF_OK) {
        say("warning: %s", hf_error_text(&err));
    } else if (o->verbose) {
        say("released %s", names_of(o, names));
    }
    return code;
}

static void say_acquired(const cli_options *o, int64_t started)
{
    char names[QUOTE_SIZE];
    if (o->verbose) {
        say("acquired %s after %" PRId64 " ms", names_of(o, names),
            clock_ms() - started);
    }
}

/* ---- the verb */

#define TOKEN_SIZE 24

/* Names and tokens of what is held, each on a line. */
typedef struct held {
    char *names;
    char *tokens;
    bool has_token;
} held;

static bool held_make(const cli_options *o, const hf_lease *lease, held *out)
{
    size_t count = (size_t)o->operand_count;
    size_t size = 1;
    for (size_t i = 0; i < count; i++) {
        size += strlen(o->operands[i]) + 1;
    }
    *out = (held){malloc(size), malloc(count * TOKEN_SIZE + 1), false};
    if (!out->names || !out->tokens) {
        return false;
    }
    char *name = out->names;
    char *token = out->tokens;
    for (size_t i = 0; i < count; i++) {
        const char *end = i + 1 < count ? "\n" : "";
        uint64_t number = hf_multi_token(lease, i);
        name = stpcpy(stpcpy(name, o->operands[i]), end);
        token += snprintf(token, TOKEN_SIZE, "%" PRIu64 "%s", number, end);
        out->has_token = out->has_token || number != 0;
    }
    return true;
}

static void held_free(held *h)
{
    free(h->names);
    free(h->tokens);
}

static verdict run_command(watched *w, const held *h)
{
    char *shell_words[4];
    const variable variables[] = {
        {"HOLDFAST_LOCK", h->names},
        {"HOLDFAST_OWNER", hf_lease_owner_id(w->lease)},
        {"HOLDFAST_TOKEN", h->has_token ? h->tokens : NULL},
        {"HOLDFAST_PASSWORD", NULL},
    };
    command c = {command_of(w->options, shell_words), variables,
                 sizeof(variables) / sizeof(variables[0])};
    return start_and_supervise(w, &c);
}

static int hold_and_run(const cli_options *o, const signals *s, guard *g,
                        holding *h)
{
    terminal t;
    verdict result = {.code = CLI_SYSTEM, .release = true};
    held what;
    watched w = {
        .options = o,
        .lease = h->lease,
        .hold_end =
            o->max_hold_ms == UNSET ? INT64_MAX : clock_ms() + o->max_hold_ms,
        .guard = g,
        .signals = s,
        .terminal = &t,
    };
    terminal_open(&t);
    if (held_make(o, h->lease, &what)) {
        result = run_command(&w, &what);
    } else {
        say("out of memory");
    }
    held_free(&what);
    terminal_close(&t);
    if (guard_end(g) && !result.lost) {
        say("the runner did not run until the end of the lease it knew of, so "
            "the guard killed the command");
        result.lost = true;
        result.code = CLI_LOST;
    }
    if (result.release) {
        result.code = give_back(o, h->lease, result);
        holding_free(h);
    }
    return result.code;
}

static int acquire_and_run(const cli_options *o, const cli_target *target,
                           const signals *s, guard *g)
{
    static holding h; /* to be reachable at exit: it is not always freed */
    int64_t started = clock_ms();
    int code;
    if (!holding_take(o, target, s, &h, &code)) {
        return code;
    }
    say_acquired(o, started);
    return hold_and_run(o, s, g, &h);
}

static int run(const cli_options *o)
{
    signals s;
    guard g;
    cli_target target;
    int code = check(o);
    if (code != CLI_OK) {
        return code;
    }
    code = target_choose(o, &target);
    if (code == CLI_OK && (!signals_open(&s) || !guard_start(&g))) {
        code = CLI_SYSTEM;
    }
    if (code == CLI_OK) {
        target.watchdog_lease_ms = o->ttl_ms == UNSET ? 0 : o->ttl_ms;
        code = acquire_and_run(o, &target, &s, &g);
    }
    target_free(&target);
    return code;
}

const cli_verb verb_run = {
    .name = "run",
    .synopsis = "[OPTION...] NAME... [OPTION...] -- COMMAND [ARG...]\n"
                "[OPTION...] NAME... [OPTION...] -c LINE",
    .summary = "run a command while holding a lock",
    .notes = "A DURATION is a number with ms, s, m or h; without a unit it is "
             "seconds.\n"
             "Of several names all are taken or none; nothing is held while "
             "one of them is waited for.\n"
             "The command finds HOLDFAST_LOCK, HOLDFAST_OWNER and, under a "
             "fenced lock, HOLDFAST_TOKEN in its environment.\n"
             "Exit code: the command's own, 128+N if signal N ended it, 64 "
             "usage, 69 server unreachable, 75 not acquired, 77 authentication "
             "or permission, 78 configuration, 79 lock lost, 126 cannot "
             "execute, 127 not found.",
    .operand = "the lock's NAME",
    .operands = OPERANDS_COMMAND,
    .connects = true,
    .options = run_options,
    .option_count = OPTION_COUNT(run_options),
    .run = run,
};
