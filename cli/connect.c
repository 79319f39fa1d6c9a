/* Which server, with which password. */
#include "cli/connect.h"

#include "cli/exit_codes.h"
#include "cli/report.h"
#include "cli/secret.h"
#include "cli/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PASSWORD_MAX 4096

/* An empty variable counts as one that is not set: `HOLDFAST_URL= cmd` is how
 * a shell user switches it off. */
static const char *from_environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* The library looks into the environment by itself when it gets no URL; a
 * variable that is set but empty must not confuse it. */
static void choose_url(const cli_options *options, cli_target *out)
{
    static const char *const variables[] = {"HOLDFAST_URL", "REDIS_URL"};
    out->url = options->url;
    out->origin = "--url";
    for (size_t i = 0; i < 2 && !out->url; i++) {
        out->url = from_environment(variables[i]);
        out->origin = variables[i];
    }
    if (!out->url) {
        out->origin = "embedded";
        (void)unsetenv(variables[0]);
        (void)unsetenv(variables[1]);
    }
}

static int file_error(const char *path, const char *what)
{
    char shown[QUOTE_SIZE];
    say("--password-file %s: %s",
        text_quote(shown, sizeof(shown), path, strlen(path)), what);
    return CLI_CONFIG;
}

/* The first line, without its end. */
static int parse_password(const char *path, char *text, size_t length,
                          char **password)
{
    if (length > PASSWORD_MAX) {
        return file_error(path, "too long for a password");
    }
    text[length] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    if (*text == '\0') {
        return file_error(path, "its first line is empty");
    }
    char *copy = strdup(text);
    if (!copy) {
        return file_error(path, "out of memory");
    }
    free(*password);
    *password = copy;
    return CLI_OK;
}

static int read_password(const char *path, char **password)
{
    char text[PASSWORD_MAX + 2];
    FILE *file = fopen(path, "re");
    if (!file) {
        return file_error(path, strerror(errno));
    }
    (void)setvbuf(file, NULL, _IONBF, 0); /* no copy left in a buffer */
    errno = 0;
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    int code = ferror(file) ? file_error(path, strerror(errno))
                            : parse_password(path, text, length, password);
    explicit_bzero(text, sizeof(text));
    (void)fclose(file);
    return code;
}

int target_choose(const cli_options *options, cli_target *out)
{
    *out = (cli_target){.verbose = options->verbose};
    if (!secret_take_environment(&out->password)) {
        return CLI_SYSTEM;
    }
    if (out->password && *out->password == '\0') {
        target_free(out);
    }
    if (options->url && *options->url == '\0') {
        say("--url is empty");
        return CLI_CONFIG;
    }
    choose_url(options, out);
    if (options->url && secret_in_url(options->url)) {
        say("warning: a password on the command line can be seen by others; "
            "use HOLDFAST_PASSWORD or --password-file");
    }
    return options->password_file
               ? read_password(options->password_file, &out->password)
               : CLI_OK;
}

void target_free(cli_target *target)
{
    if (target->password) {
        explicit_bzero(target->password, strlen(target->password));
        free(target->password);
        target->password = NULL;
    }
}

hf_client *target_open(const cli_target *target, hf_error *err)
{
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    options.password = target->password;
    options.watchdog_lease_ms = target->watchdog_lease_ms;
    options.log = report_log;
    options.log_level = target->verbose ? HF_LOG_INFO : HF_LOG_ERROR;
    hf_client *client = hf_client_open(target->url, &options, err);
    if (client && target->verbose) {
        say("server %s (%s%s)", hf_client_server(client),
            target->url ? "from " : "", target->origin);
    }
    return client;
}

int connect_for(const cli_options *options, hf_client **out)
{
    hf_error err = HF_ERROR_INIT;
    cli_target target;
    int code = target_choose(options, &target);
    if (code == CLI_OK) {
        *out = target_open(&target, &err);
        code = *out ? CLI_OK : report_error(&err);
    }
    target_free(&target);
    return code;
}
