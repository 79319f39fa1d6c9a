/* What the tool says: single lines on stderr, and the exit code that a failure
 * means. */
#include "cli/report.h"

#include "cli/exit_codes.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_SIZE 1280

static const char prefix[] = "holdfast: ";

/* Length of what vsnprintf has written into that room. */
static size_t fitted(int n, size_t room)
{
    if (n < 0) {
        return 0;
    }
    return (size_t)n < room ? (size_t)n : room - 1;
}

static void write_line(char *line, size_t length)
{
    line[length++] = '\n';
    const char *at = line;
    while (length > 0) {
        ssize_t n = write(STDERR_FILENO, at, length);
        if (n < 0 && errno != EINTR) {
            return; /* nowhere left to complain to */
        }
        if (n > 0) {
            at += n;
            length -= (size_t)n;
        }
    }
}

void say(const char *format, ...)
{
    char line[LINE_SIZE];
    size_t length = sizeof(prefix) - 1;
    size_t room = sizeof(line) - length - 1; /* less the newline */
    va_list args;
    memcpy(line, prefix, length);
    va_start(args, format);
    int n = vsnprintf(line + length, room, format, args);
    va_end(args);
    write_line(line, length + fitted(n, room));
}

int usage_error(const char *verb, const char *format, ...)
{
    char text[LINE_SIZE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    say("%.1000s (see: holdfast help%s%s)", text, verb ? " " : "",
        verb ? verb : "");
    return CLI_USAGE;
}

int exit_code_of(hf_status status)
{
    switch (status) {
    case HF_OK:
        return CLI_OK;
    case HF_NOT_ACQUIRED:
    case HF_EHELD: /* to a script it is all the same who has it */
        return CLI_NOT_ACQUIRED;
    case HF_EINVAL:
        return CLI_USAGE;
    case HF_EUNREACHABLE:
    case HF_ESERVER:
    case HF_EUNKNOWN:
        return CLI_UNREACHABLE;
    case HF_EAUTH:
    case HF_EPERM:
        return CLI_DENIED;
    case HF_ECONFIG:
        return CLI_CONFIG;
    case HF_ELOST:
        return CLI_LOST;
    case HF_EWRONGTYPE:
        return CLI_WRONG_TYPE;
    case HF_EPROTOCOL:
        return CLI_PROTOCOL;
    case HF_ENOMEM:
    case HF_ESYSTEM:
        return CLI_SYSTEM;
    case HF_CANCELLED:
    case HF_ENOTHELD:
    case HF_EFORKED:
    case HF_ECLOSED:
        break;
    }
    return CLI_INTERNAL;
}

int report_error(const hf_error *err)
{
    say("%s", hf_error_text(err));
    return exit_code_of(hf_error_status(err));
}

int finish_output(int code)
{
    bool failed = fflush(stdout) != 0 || ferror(stdout);
    if (failed && code == CLI_OK) {
        say("cannot write to stdout: %s", strerror(errno));
        return CLI_OUTPUT;
    }
    return code;
}

void report_log(void *arg, hf_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    say("%s", line);
}
