/* The numbers behind `sem` and `latch`. */
#include "cli/counter.h"

#include "cli/connect.h"
#include "cli/exit_codes.h"
#include "cli/json.h"
#include "cli/report.h"
#include "cli/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIELD(name) offsetof(cli_options, name)

const cli_option counter_options[COUNTER_OPTION_COUNT] = {
    NONBLOCK_OPTION("Do not wait: fail at once."),
    WAIT_OPTION("Fail if it takes longer than this. Default: wait for ever."),
    CONFLICT_OPTION("Exit code of a wait that failed. Default: 75."),
    {.names = {"lifetime"},
     .argument = "DURATION",
     .kind = OPTION_DURATION,
     .offset = FIELD(lifetime_ms),
     .min = 1,
     .max = HF_LEASE_MAX_MS,
     .help = "When it is made: how long it shall live. Default: for ever."},
    {.names = {"json"},
     .kind = OPTION_FLAG,
     .offset = FIELD(json),
     .help = "Answer with a JSON object."},
};

/* ---- the command line */

static int check_options(const char *verb, const action *a,
                         const cli_options *o)
{
    bool waiting = o->nonblock || o->wait_ms != UNSET ||
                   o->conflict_code != CLI_NOT_ACQUIRED;
    if (waiting && !a->waits) {
        return usage_error(verb,
                           "%s does not wait: no --nonblock, --wait or "
                           "--conflict-exit-code",
                           a->name);
    }
    if (o->nonblock && o->wait_ms != UNSET) {
        return usage_error(verb, "--nonblock and --wait exclude each other");
    }
    if (o->lifetime_ms != UNSET && !a->makes) {
        return usage_error(verb, "%s takes no --lifetime", a->name);
    }
    return CLI_OK;
}

static int parse_number(const char *verb, const action *a, const char *text,
                        int64_t *number)
{
    char shown[QUOTE_SIZE];
    bool negative = text[0] == '-';
    if (!number_parse(text + negative, number) ||
        (negative ? -*number : *number) < a->least) {
        return usage_error(
            verb, "%s %s: not a number from %" PRId64 " to 999999999", a->name,
            text_quote(shown, sizeof(shown), text, strlen(text)), a->least);
    }
    *number = negative ? -*number : *number;
    return CLI_OK;
}

static int check_operands(const char *verb, const action *a,
                          const cli_options *o)
{
    if (o->operand_count < 2) {
        return usage_error(verb, "NAME is missing");
    }
    if (o->operands[1][0] == '\0') {
        return usage_error(verb, "the name is empty");
    }
    if (o->operand_count > (a->takes_number ? 3 : 2)) {
        return usage_error(verb, "too many arguments");
    }
    if (o->operand_count < 3 && a->needs_number) {
        return usage_error(verb, "%s needs a number", a->name);
    }
    return CLI_OK;
}

static int run_action(const char *verb, const action *a, const cli_options *o)
{
    request r = {.options = o, .name = o->operands[1], .number = 1};
    int code = check_operands(verb, a, o);
    if (code == CLI_OK) {
        code = check_options(verb, a, o);
    }
    if (code == CLI_OK && o->operand_count == 3) {
        code = parse_number(verb, a, o->operands[2], &r.number);
    }
    if (code == CLI_OK && !a->waits) {
        code = connect_for(o, &r.client);
    }
    if (code == CLI_OK) {
        code = a->run(&r);
    }
    hf_client_free(r.client);
    return code;
}

int counter_run(const char *verb, const action *actions, size_t count,
                const cli_options *options)
{
    char shown[QUOTE_SIZE];
    const char *what = options->operands[0];
    for (size_t i = 0; i < count; i++) {
        if (strcmp(actions[i].name, what) == 0) {
            return run_action(verb, &actions[i], options);
        }
    }
    return usage_error(verb, "there is no action %s",
                       text_quote(shown, sizeof(shown), what, strlen(what)));
}

/* ---- the answer */

static int write_line(const request *r, const char *key, json_t *value)
{
    json_t *line = json_line_new();
    int failed = json_set_bytes(line, "name", r->name, strlen(r->name));
    failed |= json_object_set_new(line, key, value);
    failed |= json_object_set_new(line, "server",
                                  json_string(hf_client_server(r->client)));
    int code = json_line_write(line, failed);
    return finish_output(code == CLI_OUTPUT ? CLI_OK : code);
}

int counter_show(const request *r, const char *key, int64_t number)
{
    if (r->options->json) {
        return write_line(r, key, json_integer(number));
    }
    (void)printf("%" PRId64 "\n", number);
    return finish_output(CLI_OK);
}

int counter_made(const request *r, int made)
{
    char shown[QUOTE_SIZE];
    int code = CLI_OK;
    if (r->options->json) {
        code = write_line(r, "made", json_boolean(made));
    } else if (!made) {
        say("%s is there already, and stays as it is",
            text_quote(shown, sizeof(shown), r->name, strlen(r->name)));
    }
    return code != CLI_OK ? code : made ? CLI_OK : CLI_NOTHING_DONE;
}
