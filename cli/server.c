/* holdfast server: the private server that is used when no URL is given. */
#include "cli/exit_codes.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/text.h"

#include "holdfast/holdfast.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const cli_option server_options[] = {
    {.names = {"json"},
     .kind = OPTION_FLAG,
     .offset = offsetof(cli_options, json),
     .help = "One JSON object."},
};

/* ---- status */

static int status_json(const hf_embedded_info *info)
{
    json_t *line = json_line_new();
    int failed =
        json_object_set_new(line, "running", json_boolean(info->running));
    if (info->running) {
        failed |= json_object_set_new(line, "pid", json_integer(info->pid));
        failed |=
            json_object_set_new(line, "version", json_string(info->version));
        failed |=
            json_object_set_new(line, "uptime_s", json_integer(info->uptime_s));
    }
    failed |=
        json_object_set_new(line, "socket", json_string(info->socket_path));
    return json_line_write(line, failed);
}

static void status_text(const hf_embedded_info *info)
{
    if (info->running) {
        (void)printf("running: %s, pid %" PRId64 ", for %" PRId64 "s, ",
                     info->version, info->pid, info->uptime_s);
        text_print(stdout, info->socket_path, strlen(info->socket_path));
        (void)putchar('\n');
    } else {
        (void)puts("not running");
    }
}

static int server_status(const cli_options *options)
{
    hf_error err = HF_ERROR_INIT;
    hf_embedded_info info = HF_EMBEDDED_INFO_INIT;
    if (hf_embedded_status(&info, &err) != HF_OK) {
        return report_error(&err);
    }
    int code = info.running ? CLI_OK : CLI_NOTHING_DONE;
    if (options->json) {
        int written = status_json(&info);
        code = written == CLI_OK ? code : written;
    } else {
        status_text(&info);
    }
    int written = finish_output(CLI_OK);
    return written == CLI_OK ? code : written;
}

/* ---- stop */

static int stop_json(int stopped)
{
    json_t *line = json_line_new();
    int failed = json_object_set_new(line, "stopped", json_boolean(stopped));
    int code = json_line_write(line, failed);
    return finish_output(code == CLI_OUTPUT ? CLI_OK : code);
}

/* Where nothing runs, what was asked for is the case already. */
static int server_stop(const cli_options *options)
{
    hf_error err = HF_ERROR_INIT;
    int stopped = 0;
    if (hf_embedded_stop(&stopped, &err) != HF_OK) {
        return report_error(&err);
    }
    if (options->json) {
        return stop_json(stopped);
    }
    if (!stopped) {
        say("the embedded server was not running");
    }
    return CLI_OK;
}

static int server(const cli_options *options)
{
    char shown[QUOTE_SIZE];
    const char *what = options->operands[0];
    if (strcmp(what, "status") == 0) {
        return server_status(options);
    }
    if (strcmp(what, "stop") == 0) {
        return server_stop(options);
    }
    return usage_error("server", "%s is neither status nor stop",
                       text_quote(shown, sizeof(shown), what, strlen(what)));
}

const cli_verb verb_server = {
    .name = "server",
    .synopsis = "status|stop [OPTION...]",
    .summary = "show or end the private server of this user",
    .notes = "It is started when a lock is wanted and no server is named. "
             "Ending it frees all locks that are held there.\n"
             "Exit code: status: 0 if it runs, 1 if not; stop: 0 if it does "
             "not run any more.",
    .operand = "status or stop",
    .operands = OPERANDS_ONE,
    .options = server_options,
    .option_count = OPTION_COUNT(server_options),
    .run = server,
};
