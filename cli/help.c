/* Help, made from the tables of verbs and options. */
#include "cli/exit_codes.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>

#define WIDTH 78

/* Breaks text at blanks; each line gets an indentation. '\n' begins anew. */
static void print_wrapped(const char *text, int indent)
{
    int column = 0;
    while (*text) {
        if (*text == ' ' || *text == '\n') {
            column = *text == '\n' ? WIDTH + 1 : column;
            text++;
            continue;
        }
        int length = (int)strcspn(text, " \n");
        if (column == 0 || column + 1 + length > WIDTH) {
            (void)printf("%s%*s", column == 0 ? "" : "\n", indent, "");
            column = indent;
        } else {
            (void)putchar(' ');
            column++;
        }
        (void)printf("%.*s", length, text);
        column += length;
        text += length;
    }
    (void)putchar('\n');
}

static void print_option(const cli_option *option)
{
    (void)fputs("  ", stdout);
    if (option->letter) {
        (void)printf("-%c, ", option->letter);
    }
    for (int i = 0; i < OPTION_NAMES && option->names[i]; i++) {
        (void)printf("%s--%s", i > 0 ? ", " : "", option->names[i]);
    }
    if (option->argument) {
        (void)printf(" %s", option->argument);
    }
    (void)putchar('\n');
    print_wrapped(option->help, 8);
}

static void print_options(const cli_option *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        print_option(&table[i]);
    }
}

/* A synopsis may have several lines. */
static void print_synopsis(const cli_verb *verb)
{
    const char *at = verb->synopsis;
    const char *head = "Usage:";
    while (*at) {
        int length = (int)strcspn(at, "\n");
        (void)printf("%6s holdfast %s %.*s\n", head, verb->name, length, at);
        head = "";
        at += length;
        at += *at == '\n' ? 1 : 0;
    }
}

static void print_verb(const cli_verb *verb)
{
    print_synopsis(verb);
    (void)printf("\n%s: %s.\n\nOptions:\n", verb->name, verb->summary);
    print_options(verb->options, verb->option_count);
    if (verb->connects) {
        print_options(connection_options, connection_option_count);
    }
    print_options(&help_option, 1);
    if (verb->notes) {
        (void)putchar('\n');
        print_wrapped(verb->notes, 0);
    }
}

static void print_tool(void)
{
    (void)puts("Usage: holdfast VERB [OPTION...] [ARGUMENT...]\n"
               "       holdfast help [VERB]\n"
               "       holdfast --version\n"
               "\n"
               "Distributed locks on Redis or Valkey.\n"
               "\n"
               "Verbs:");
    for (size_t i = 0; all_verbs[i]; i++) {
        (void)printf("  %-8s  %s\n", all_verbs[i]->name, all_verbs[i]->summary);
    }
    (void)puts("\n"
               "You know flock(1)? `flock -n /tmp/lock cmd` is `holdfast run "
               "-n lock -- cmd`.");
}

void print_help(const cli_verb *verb)
{
    if (verb) {
        print_verb(verb);
    } else {
        print_tool();
    }
}

static int help(const cli_options *options)
{
    char shown[QUOTE_SIZE];
    const cli_verb *verb = NULL;
    if (options->operand_count > 0) {
        const char *name = options->operands[0];
        verb = find_verb(name);
        if (!verb) {
            return usage_error(
                NULL, "there is no verb %s",
                text_quote(shown, sizeof(shown), name, strlen(name)));
        }
    }
    print_help(verb);
    return finish_output(CLI_OK);
}

const cli_verb verb_help = {
    .name = "help",
    .synopsis = "[VERB]",
    .summary = "explain the tool, or one verb",
    .operand = "VERB",
    .operands = OPERANDS_OPTIONAL,
    .run = help,
};
