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

/* What there is to release. */
typedef struct finding {
    bool is_lock;
    hf_kind kind;
    char question[2 * QUOTE_SIZE + DURATION_SIZE + 64];
} finding;

/* How a lock of that shape is released by force. */
static bool kind_of(hf_shape shape, hf_kind *out)
{
    static const hf_kind kinds[] = {
        [HF_SHAPE_NONE] = HF_KIND_REENTRANT,
        [HF_SHAPE_LOCK] = HF_KIND_REENTRANT,
        [HF_SHAPE_FAIR] = HF_KIND_FAIR,
        [HF_SHAPE_FENCED] = HF_KIND_FENCED,
        [HF_SHAPE_READ] = HF_KIND_READ,
        [HF_SHAPE_WRITE] = HF_KIND_WRITE,
        [HF_SHAPE_SIMPLE] = HF_KIND_SIMPLE,
        [HF_SHAPE_PERMITS] = HF_KIND_PERMIT,
    };
    if (shape == HF_SHAPE_COUNTER ||
        (size_t)shape >= sizeof(kinds) / sizeof(kinds[0])) {
        return false;
    }
    *out = kinds[shape];
    return true;
}

/* An hf_inspect_fn; the question says whose lock it is. */
static int find(void *arg, const hf_inspection *seen)
{
    char name[QUOTE_SIZE];
    char owner[QUOTE_SIZE];
    char more[32] = "";
    char remaining[DURATION_SIZE] = "-";
    finding *f = arg;
    f->is_lock = kind_of(seen->shape, &f->kind);
    (void)text_quote(name, sizeof(name), seen->name, seen->name_length);
    if (seen->holder_count == 0) {
        (void)snprintf(f->question, sizeof(f->question), "%s is not locked.",
                       name);
        return 0;
    }
    const hf_party *first = seen->holders;
    (void)text_quote(owner, sizeof(owner), first->id, first->id_length);
    if (seen->holder_count > 1) {
        (void)snprintf(more, sizeof(more), " and %zu more",
                       seen->holder_count - 1);
    }
    if (first->remaining_ms >= 0) {
        (void)duration_format(remaining, first->remaining_ms);
    }
    (void)snprintf(f->question, sizeof(f->question),
                   "%s is held by %s%s, remaining time %s.", name, owner, more,
                   remaining);
    return 0;
}

static int look(hf_client *client, const char *name, finding *f)
{
    char shown[QUOTE_SIZE];
    hf_error err = HF_ERROR_INIT;
    if (hf_inspect(client, name, strlen(name), find, f, &err) != HF_OK) {
        return report_error(&err);
    }
    if (!f->is_lock) {
        say("%s is a number, no lock: see holdfast sem and holdfast latch",
            text_quote(shown, sizeof(shown), name, strlen(name)));
        return CLI_WRONG_TYPE;
    }
    return CLI_OK;
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

static int ask(const finding *f)
{
    (void)fprintf(stderr, "holdfast: %s ", f->question);
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
        int failed = json_set_bytes(line, "name", name, strlen(name));
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

static int force(const cli_options *o, hf_client *client, hf_kind kind)
{
    hf_error err = HF_ERROR_INIT;
    int released = 0;
    const char *name = o->operands[0];
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = kind;
    hf_lock *lock =
        hf_lock_open_with(client, name, strlen(name), &options, &err);
    int code = lock && hf_lock_force_release(lock, &released, &err) == HF_OK
                   ? say_result(o, client, released)
                   : report_error(&err);
    hf_lock_free(lock);
    return code;
}

/* Each kind has waiters of its own to wake: so what is there is looked at
 * before. */
static int release(const cli_options *o, hf_client *client)
{
    finding f = {.kind = HF_KIND_REENTRANT};
    int code = look(client, o->operands[0], &f);
    if (code == CLI_OK && !o->yes) {
        code = ask(&f);
    }
    return code == CLI_OK ? force(o, client, f.kind) : code;
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
