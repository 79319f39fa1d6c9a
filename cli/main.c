/* holdfast: distributed locks for shells. Finds the verb, reads its options,
 * runs it. */
#include "cli/exit_codes.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/text.h"

#include "holdfast/holdfast.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Descriptors 0 to 2 must be taken, lest a socket becomes somebody's
 * stdout. */
static bool open_standard(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0;
}

static int run_verb(const cli_verb *verb, char **words)
{
    static cli_options options; /* what it owns lives until exit */
    int code = options_parse(verb, words, &options);
    if (code != CLI_OK) {
        return code;
    }
    if (options.help) {
        print_help(verb);
        return finish_output(CLI_OK);
    }
    return verb->run(&options);
}

static int run_global(const char *word)
{
    char shown[QUOTE_SIZE];
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        (void)printf("holdfast %s\n", hf_version());
        return finish_output(CLI_OK);
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        print_help(NULL);
        return finish_output(CLI_OK);
    }
    return usage_error(
        NULL, word[0] == '-' ? "unknown option %s" : "there is no verb %s",
        text_quote(shown, sizeof(shown), word, strcspn(word, "=")));
}

int main(int argc, char **argv)
{
    if (!open_standard()) {
        return CLI_SYSTEM;
    }
    if (argc < 2) {
        return usage_error(NULL, "a verb is missing, such as run or status");
    }
    const cli_verb *verb = find_verb(argv[1]);
    return verb ? run_verb(verb, argv + 2) : run_global(argv[1]);
}
