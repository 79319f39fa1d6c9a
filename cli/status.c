/* holdfast status: what the server knows of some locks. */
#include "cli/connect.h"
#include "cli/exit_codes.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/show.h"

#include <string.h>

static const cli_option status_options[] = {
    {.names = {"json"},
     .kind = OPTION_FLAG,
     .offset = offsetof(cli_options, json),
     .help = "One JSON object per line."},
};

static void show_one(hf_client *client, const char *name, lock_view *view)
{
    hf_error err = HF_ERROR_INIT;
    if (hf_inspect(client, name, strlen(name), show_lock, view, &err) !=
        HF_OK) {
        int code = report_error(&err);
        view->code = view->code == CLI_OK ? code : view->code;
    }
}

static int status(const cli_options *options)
{
    hf_client *client = NULL;
    for (int i = 0; i < options->operand_count; i++) {
        if (options->operands[i][0] == '\0') {
            return usage_error("status", "a lock's name is empty");
        }
    }
    int code = connect_for(options, &client);
    if (code != CLI_OK) {
        return code;
    }
    lock_view view = {.json = options->json,
                      .server = hf_client_server(client)};
    for (int i = 0; i < options->operand_count; i++) {
        show_one(client, options->operands[i], &view);
    }
    code = show_end(&view);
    hf_client_free(client);
    return code;
}

const cli_verb verb_status = {
    .name = "status",
    .synopsis = "[OPTION...] NAME...",
    .summary = "show who has and who waits for locks of any kind",
    .notes = "For the columns see holdfast(1).\nExit code: 0 if all could be "
             "read, whether locked or not.",
    .operand = "the lock's NAME",
    .operands = OPERANDS_MANY,
    .connects = true,
    .options = status_options,
    .option_count = OPTION_COUNT(status_options),
    .run = status,
};
