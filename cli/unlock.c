/* holdfast unlock --force: deletes a lock whoever holds it. */
#include "cli/connect.h"
#include "cli/duration.h"
#include "cli/exit_codes.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const cli_option unlock_options[] = {
    {.names = {"force"},
     .kind = OPTION_FLAG,
     .offset = offsetof(cli_options, force),
     .help = "Required: this takes the lock away from whoever holds it. The "
             "holder is told at its next renewal, and may still be at work "
             "until then."},
    {.letter = 'y',
     .names = {"yes"},
     .kind = OPTION_FLAG,
     .offset = offsetof(cli_options, yes),
     .help = "Do not ask. Required where there is no terminal to ask on."},
    {.names = {"json"},
     .kind = OPTION_FLAG,
     .offset = offsetof(cli_options, json),
     .help = "Say what was done as a JSON object on stdout."},
};

static bool has_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

static int check(const cli_options *o)
{
    if (o->operands[0][0] == '\0') {
        return usage_error("unlock", "the lock's name is empty");
    }
    if (!o->force) {
        return usage_error("unlock", "this takes a lock away from its holder, "
                                     "so it needs --force");
    }
    if (!o->yes && !has_terminal()) {
        return usage_error("unlock",
                           "there is no terminal to ask on, so it needs --yes");
    }
    return CLI_OK;
}

/* ---- asking */

/* An hf_lock_info_fn: the question says whose lock it is. */
static int ask_about(void *arg, const hf_lock_info *info)
{
    char name[QUOTE_SIZE];
    char owner[QUOTE_SIZE];
    char remaining[DURATION_SIZE] = "-";
    (void)arg;
    (void)text_quote(name, sizeof(name), info->name, info->name_length);
    if (!info->locked) {
        (void)fprintf(stderr, "holdfast: %s is not locked. ", name);
        return 0;
    }
    const char *who = info->owner ? info->owner : "";
    (void)text_quote(owner, sizeof(owner), who, strlen(who));
    if (info->remaining_ms >= 0) {
        (void)duration_format(remaining, info->remaining_ms);
    }
    (void)fprintf(stderr, "holdfast: %s is held by %s, remaining time %s. ",
                  name, owner, remaining);
    return 0;
}

static bool answered_yes(void)
{
    char answer[16];
    (void)fputs("Release it by force? [y/N] ", stderr);
    (void)fflush(stderr);
    if (!fgets(answer, sizeof(answer), stdin)) {
        (void)fputc('\n', stderr);
        return false;
    }
    answer[strcspn(answer, "\r\n")] = '\0';
    return strcmp(answer, "y") == 0 || strcmp(answer, "Y") == 0 ||
           strcmp(answer, "yes") == 0;
}

static int ask(hf_lock *lock)
{
    hf_error err = HF_ERROR_INIT;
    if (hf_lock_inspect(lock, ask_about, NULL, &err) != HF_OK) {
        return report_error(&err);
    }
    if (!answered_yes()) {
        say("nothing was done");
        return CLI_NOTHING_DONE;
    }
    return CLI_OK;
}

/* ---- doing */

static int say_result(const cli_options *o, hf_client *client, int released)
{
    char shown[QUOTE_SIZE];
    const char *name = o->operands[0];
    int code = CLI_OK;
    if (o->json) {
        json_t *line = json_line_new();
        int failed = json_line_set_name(line, name, strlen(name));
        failed |= json_object_set_new(line, "released", json_boolean(released));
        failed |= json_object_set_new(line, "server",
                                      json_string(hf_client_server(client)));
        code = json_line_write(line, failed);
        code = finish_output(code == CLI_OUTPUT ? CLI_OK : code);
    } else if (!released || o->verbose) {
        say("%s %s", text_quote(shown, sizeof(shown), name, strlen(name)),
            released ? "was released by force" : "was not locked");
    }
    return code != CLI_OK ? code : released ? CLI_OK : CLI_NOTHING_DONE;
}

static int release(const cli_options *o, hf_client *client)
{
    hf_error err = HF_ERROR_INIT;
    int released = 0;
    hf_lock *lock = hf_lock_open(client, o->operands[0], &err);
    if (!lock) {
        return report_error(&err);
    }
    int code = o->yes ? CLI_OK : ask(lock);
    if (code == CLI_OK) {
        code = hf_lock_force_release(lock, &released, &err) == HF_OK
                   ? say_result(o, client, released)
                   : report_error(&err);
    }
    hf_lock_free(lock);
    return code;
}

static int unlock(const cli_options *o)
{
    hf_client *client = NULL;
    int code = check(o);
    if (code == CLI_OK) {
        code = connect_for(o, &client);
    }
    if (code == CLI_OK) {
        code = release(o, client);
    }
    hf_client_free(client);
    return code;
}

const cli_verb verb_unlock = {
    .name = "unlock",
    .synopsis = "--force [OPTION...] NAME",
    .summary = "take a lock away from whoever holds it",
    .notes = "Exit code: 0 if it was released, 1 if it was not locked or the "
             "answer was no.",
    .operand = "the lock's NAME",
    .operands = OPERANDS_ONE,
    .connects = true,
    .options = unlock_options,
    .option_count = OPTION_COUNT(unlock_options),
    .run = unlock,
};
