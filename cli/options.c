/* Reads a command line by a verb's table of options. Long options as
 * `--name VALUE` or `--name=VALUE`, short ones alone or together (`-nE 3`).
 * Options may stand before and behind the operands; `--` ends them. */
#include "cli/options.h"

#include "cli/duration.h"
#include "cli/exit_codes.h"
#include "cli/report.h"
#include "cli/secret.h"
#include "cli/signals.h"
#include "cli/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const cli_option connection_options[] = {
    {.names = {"url"},
     .argument = "URL",
     .kind = OPTION_URL,
     .offset = offsetof(cli_options, url),
     .help = "The server: redis://host:port/db, redis+unix:///path?db=0 or "
             "unix:///path. Else HOLDFAST_URL, else REDIS_URL, else a private "
             "server of this user, started when needed."},
    {.names = {"password-file"},
     .argument = "FILE",
     .kind = OPTION_TEXT,
     .offset = offsetof(cli_options, password_file),
     .help = "Take the server's password from the first line of a file. Else "
             "from HOLDFAST_PASSWORD, else from the URL."},
    {.names = {"verbose"},
     .kind = OPTION_FLAG,
     .offset = offsetof(cli_options, verbose),
     .help = "Say on stderr which server is used and what is done."},
};
const size_t connection_option_count = OPTION_COUNT(connection_options);

const cli_option help_option = {
    .letter = 'h',
    .names = {"help"},
    .kind = OPTION_FLAG,
    .offset = offsetof(cli_options, help),
    .help = "Show this text.",
};

typedef struct parser {
    const cli_verb *verb;
    char **next; /* the word to be read */
    cli_options *out;
} parser;

/* ---- looking up */

static bool has_name(const cli_option *option, const char *name, size_t length)
{
    for (int i = 0; i < OPTION_NAMES && option->names[i]; i++) {
        if (strlen(option->names[i]) == length &&
            memcmp(option->names[i], name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* By name, or by letter when name is NULL. */
static const cli_option *find_in(const cli_option *table, size_t count,
                                 const char *name, size_t length, char letter)
{
    for (size_t i = 0; i < count; i++) {
        if (name ? has_name(&table[i], name, length)
                 : table[i].letter == letter) {
            return &table[i];
        }
    }
    return NULL;
}

static const cli_option *find_option(const cli_verb *verb, const char *name,
                                     size_t length, char letter)
{
    const cli_option *found =
        find_in(verb->options, verb->option_count, name, length, letter);
    if (!found && verb->connects) {
        found = find_in(connection_options, connection_option_count, name,
                        length, letter);
    }
    return found ? found : find_in(&help_option, 1, name, length, letter);
}

/* ---- values */

bool number_parse(const char *text, int64_t *out)
{
    if (*text == '\0' || strlen(text) > 9 ||
        strspn(text, "0123456789") != strlen(text)) {
        return false;
    }
    *out = strtol(text, NULL, 10);
    return true;
}

static bool parse_lost_rule(const char *text, lost_rule *out)
{
    static const char signal_prefix[] = "signal:";
    if (strcmp(text, "kill") == 0) {
        *out = (lost_rule){LOST_KILL, 0};
        return true;
    }
    if (strcmp(text, "ignore") == 0) {
        *out = (lost_rule){LOST_IGNORE, 0};
        return true;
    }
    if (strncmp(text, signal_prefix, sizeof(signal_prefix) - 1) != 0) {
        return false;
    }
    int number = signal_number(text + sizeof(signal_prefix) - 1);
    *out = (lost_rule){LOST_SIGNAL, number};
    return number > 0;
}

/* The option's name as a user may write it. */
static const char *display(const cli_option *option)
{
    return option->names[0];
}

static int range_error(const parser *p, const cli_option *option,
                       const char *shown)
{
    char low[DURATION_SIZE];
    char high[DURATION_SIZE];
    if (option->kind == OPTION_NUMBER) {
        return usage_error(p->verb->name,
                           "--%s %s: not a number from %" PRId64 " to %" PRId64,
                           display(option), shown, option->min, option->max);
    }
    return usage_error(
        p->verb->name,
        "--%s %s: not a duration from %s to %s, such as 500ms, 30s, 2m or 1h",
        display(option), shown, duration_format(low, option->min),
        duration_format(high, option->max));
}

static int store_amount(const parser *p, const cli_option *option,
                        const char *value, int64_t *to)
{
    char shown[QUOTE_SIZE];
    int64_t amount;
    bool good = option->kind == OPTION_NUMBER ? number_parse(value, &amount)
                                              : duration_parse(value, &amount);
    if (!good || amount < option->min || amount > option->max) {
        return range_error(
            p, option, text_quote(shown, sizeof(shown), value, strlen(value)));
    }
    *to = amount;
    return CLI_OK;
}

static int store(const parser *p, const cli_option *option, char *value)
{
    void *to = (char *)p->out + option->offset;
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)to = true;
        return CLI_OK;
    case OPTION_TEXT:
        *(const char **)to = value;
        return CLI_OK;
    case OPTION_URL:
        free((void *)*(const char **)to); /* given twice, the last one counts */
        *(const char **)to = secret_take_argument(value);
        return *(const char **)to ? CLI_OK : CLI_SYSTEM;
    case OPTION_DURATION:
    case OPTION_NUMBER:
        return store_amount(p, option, value, to);
    case OPTION_ON_LOST:
        if (parse_lost_rule(value, to)) {
            return CLI_OK;
        }
        return usage_error(p->verb->name,
                           "--%s takes kill, ignore, or signal: and a name, "
                           "such as signal:HUP",
                           display(option));
    }
    return CLI_INTERNAL;
}

/* ---- words */

static int unknown_option(const parser *p, const char *word)
{
    char shown[QUOTE_SIZE];
    /* Without what may stand behind a `=`: it could be a secret. */
    return usage_error(
        p->verb->name, "unknown option %s",
        text_quote(shown, sizeof(shown), word, strcspn(word, "=")));
}

/* value: what stands in the same word; NULL: take the next word. */
static int store_next(parser *p, const cli_option *option, char *value)
{
    if (!value) {
        value = *p->next;
        if (!value) {
            return usage_error(p->verb->name, "--%s needs %s", display(option),
                               option->argument);
        }
        p->next++;
    }
    return store(p, option, value);
}

static int parse_long(parser *p, char *word)
{
    char *name = word + 2;
    size_t length = strcspn(name, "=");
    char *value = name[length] == '=' ? name + length + 1 : NULL;
    const cli_option *option = find_option(p->verb, name, length, 0);
    if (!option) {
        return unknown_option(p, word);
    }
    if (option->kind != OPTION_FLAG) {
        return store_next(p, option, value);
    }
    if (value) {
        return usage_error(p->verb->name, "--%s takes no value",
                           display(option));
    }
    return store(p, option, NULL);
}

static int parse_short(parser *p, char *word)
{
    for (char *at = word + 1; *at; at++) {
        const cli_option *option = find_option(p->verb, NULL, 0, *at);
        if (!option) {
            return unknown_option(p, word);
        }
        if (option->kind != OPTION_FLAG) {
            return store_next(p, option, at[1] ? at + 1 : NULL);
        }
        int code = store(p, option, NULL);
        if (code != CLI_OK) {
            return code;
        }
    }
    return CLI_OK;
}

static void take_operand(parser *p, char *word)
{
    cli_options *out = p->out;
    /* Never in front of the word just read. */
    out->operands[out->operand_count++] = word;
}

/* Behind `--`: the command, if a lock's name was there already, else an
 * operand, however it looks; of other verbs all that follow. */
static int parse_rest(parser *p, bool *done)
{
    bool command = p->verb->operands == OPERANDS_COMMAND;
    if (command && p->out->operand_count > 0) {
        p->out->command = p->next;
        *done = true;
        return CLI_OK;
    }
    while (*p->next) {
        take_operand(p, *p->next++);
        if (command) {
            return CLI_OK;
        }
    }
    *done = true;
    return CLI_OK;
}

static int parse_word(parser *p, bool *done)
{
    char *word = *p->next++;
    if (strcmp(word, "--") == 0) {
        return parse_rest(p, done);
    }
    bool number = p->verb->negative && word[1] >= '0' && word[1] <= '9';
    if (word[0] != '-' || word[1] == '\0' || number) {
        take_operand(p, word);
        return CLI_OK;
    }
    return word[1] == '-' ? parse_long(p, word) : parse_short(p, word);
}

static int check_operands(const cli_verb *verb, const cli_options *out)
{
    int least =
        verb->operands == OPERANDS_NONE || verb->operands == OPERANDS_OPTIONAL
            ? 0
            : 1;
    if (out->operand_count < least) {
        return usage_error(verb->name, "%s is missing", verb->operand);
    }
    if ((verb->operands == OPERANDS_NONE && out->operand_count > 0) ||
        (verb->operands <= OPERANDS_ONE && out->operand_count > 1)) {
        return usage_error(verb->name, "too many arguments");
    }
    return CLI_OK;
}

int options_parse(const cli_verb *verb, char **words, cli_options *out)
{
    *out = (cli_options){
        .wait_ms = UNSET,
        .conflict_code = CLI_NOT_ACQUIRED,
        .ttl_ms = UNSET,
        .lease_ms = UNSET,
        .max_hold_ms = UNSET,
        .kill_after_ms = UNSET,
        .permits = UNSET,
        .lifetime_ms = UNSET,
        .operands = words,
    };
    parser p = {verb, words, out};
    bool done = false;
    while (!done && *p.next) {
        int code = parse_word(&p, &done);
        if (code != CLI_OK) {
            return code;
        }
    }
    return out->help ? CLI_OK : check_operands(verb, out);
}
