/* Verbs and their options. One table per verb drives parsing, ranges and the
 * help text, and the tests hold the manual pages against it. */
#ifndef HOLDFAST_CLI_OPTIONS_H
#define HOLDFAST_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lost_action { LOST_KILL, LOST_SIGNAL, LOST_IGNORE };

typedef struct lost_rule {
    enum lost_action action;
    int signal; /* for LOST_SIGNAL */
} lost_rule;

#define UNSET INT64_C(-1)
#define TTL_DEFAULT_MS INT64_C(30000)

/* What was asked for on the command line, of all verbs. */
typedef struct cli_options {
    bool help;
    bool verbose;
    bool json;
    bool force;
    bool yes;
    bool nonblock;
    bool shared;
    bool exclusive;
    bool all;
    const char *url; /* a copy; the original is masked */
    const char *password_file;
    const char *command_line; /* of -c */
    const char *kind;         /* a name of kind_find's */
    const char *token;        /* of what another process has acquired */
    int64_t wait_ms;          /* UNSET: for ever */
    int64_t conflict_code;
    int64_t permits;     /* UNSET: a lock is wanted */
    int64_t lifetime_ms; /* UNSET: for ever */
    int64_t ttl_ms;
    int64_t lease_ms;      /* UNSET: renewed */
    int64_t max_hold_ms;   /* UNSET: no ceiling */
    int64_t kill_after_ms; /* UNSET: from the lease */
    lost_rule on_lost;
    char **operands;
    int operand_count;
    char **command; /* behind `--`, NULL-terminated; NULL when there was none */
} cli_options;

enum option_kind {
    OPTION_FLAG,     /* bool */
    OPTION_TEXT,     /* const char * */
    OPTION_URL,      /* const char *, may carry a password */
    OPTION_DURATION, /* int64_t, milliseconds */
    OPTION_NUMBER,   /* int64_t */
    OPTION_ON_LOST   /* lost_rule */
};

#define OPTION_NAMES 3

typedef struct cli_option {
    const char *names[OPTION_NAMES]; /* long ones, unused ones NULL */
    const char *argument;            /* what to call it; NULL for a flag */
    const char *help;
    size_t offset; /* in cli_options */
    int64_t min;
    int64_t max;
    enum option_kind kind;
    char letter; /* 0 for none */
} cli_option;

enum operand_rule {
    OPERANDS_NONE,
    OPERANDS_OPTIONAL, /* none or one */
    OPERANDS_ONE,
    OPERANDS_MANY,   /* one or more */
    OPERANDS_COMMAND /* one or more, options among them, then `--` and a
                        command */
};

typedef struct cli_verb {
    const char *name;
    const char *synopsis; /* behind the name */
    const char *summary;
    const char *notes;   /* below the options; may be NULL */
    const char *operand; /* what an operand is called in messages */
    enum operand_rule operands;
    bool connects; /* takes the options that say which server */
    bool negative; /* an operand may be a number below 0 */
    const cli_option *options;
    size_t option_count;
    int (*run)(const cli_options *options);
} cli_verb;

/* Options of several verbs, each with what the verb says of it. */
#define NONBLOCK_OPTION(text)                                                  \
    {                                                                          \
        .letter = 'n', .names = {"nonblock", "nb"}, .kind = OPTION_FLAG,       \
        .offset = offsetof(cli_options, nonblock), .help = (text),             \
    }
#define WAIT_OPTION(text)                                                      \
    {                                                                          \
        .letter = 'w', .names = {"wait", "timeout"}, .argument = "DURATION",   \
        .kind = OPTION_DURATION, .offset = offsetof(cli_options, wait_ms),     \
        .max = HF_LEASE_MAX_MS, .help = (text),                                \
    }
#define CONFLICT_OPTION(text)                                                  \
    {                                                                          \
        .letter = 'E', .names = {"conflict-exit-code"}, .argument = "CODE",    \
        .kind = OPTION_NUMBER, .offset = offsetof(cli_options, conflict_code), \
        .max = 255, .help = (text),                                            \
    }

#define OPTION_COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* Those of every verb that connects, and that of every verb. */
extern const cli_option connection_options[];
extern const size_t connection_option_count;
extern const cli_option help_option;

extern const cli_verb verb_run;
extern const cli_verb verb_status;
extern const cli_verb verb_list;
extern const cli_verb verb_unlock;
extern const cli_verb verb_acquire;
extern const cli_verb verb_renew;
extern const cli_verb verb_release;
extern const cli_verb verb_sem;
extern const cli_verb verb_latch;
extern const cli_verb verb_server;
extern const cli_verb verb_help;

/* All of them, NULL at the end. */
extern const cli_verb *const all_verbs[];
const cli_verb *find_verb(const char *name);

/* Reads the words behind the verb. Returns CLI_OK, or CLI_USAGE after saying
 * what is wrong; when help was asked for, what is missing is no mistake.
 * words is NULL-terminated, and is reordered. */
int options_parse(const cli_verb *verb, char **words, cli_options *out);

/* Reads a number of up to nine digits, as options take them. */
bool number_parse(const char *text, int64_t *out);

/* Writes the help of a verb to stdout; NULL: of the tool. */
void print_help(const cli_verb *verb);

#endif
