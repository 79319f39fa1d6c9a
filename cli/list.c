/* holdfast list: the locks there are. */
#include "cli/connect.h"
#include "cli/exit_codes.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/show.h"

static const cli_option list_options[] = {
    {.names = {"json"},
     .kind = OPTION_FLAG,
     .offset = offsetof(cli_options, json),
     .help = "One JSON object per line."},
    {.letter = 'a',
     .names = {"all"},
     .kind = OPTION_FLAG,
     .offset = offsetof(cli_options, all),
     .help = "Also what may be a semaphore, a latch or a simple lock, but also "
             "any program's number or string."},
};

static int list(const cli_options *options)
{
    hf_error err = HF_ERROR_INIT;
    hf_client *client = NULL;
    const char *glob = options->operand_count > 0 ? options->operands[0] : NULL;
    int code = connect_for(options, &client);
    if (code != CLI_OK) {
        return code;
    }
    lock_view view = {.json = options->json,
                      .only_locks = !options->all,
                      .server = hf_client_server(client)};
    if (hf_inspect_all(client, glob, show_lock, &view, &err) != HF_OK) {
        view.code = report_error(&err);
    }
    code = show_end(&view);
    hf_client_free(client);
    return code;
}

const cli_verb verb_list = {
    .name = "list",
    .synopsis = "[OPTION...] [GLOB]",
    .summary = "show all locks, or those whose names match",
    .notes = "In GLOB, * stands for any text, ? for one character, [ab] for "
             "one of these; \\ takes their meaning away. The keys are read "
             "with SCAN, bit by bit, so that the server goes on serving "
             "others.\nFor the columns see holdfast(1).",
    .operand = "GLOB",
    .operands = OPERANDS_OPTIONAL,
    .connects = true,
    .options = list_options,
    .option_count = OPTION_COUNT(list_options),
    .run = list,
};
