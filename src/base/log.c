/* Formats a log line and hands it to the user's function. */
#include "base/log.h"

#include <stdio.h>

#define LINE_SIZE 1024

void hf__log_line(const hf__log *log, hf_log_level level, const char *format,
                  ...)
{
    if (!log->fn || level > log->level) {
        return;
    }
    char line[LINE_SIZE];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (length < 0) {
        return;
    }
    for (char *at = line; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte < 0x20 || byte == 0x7f) {
            *at = ' ';
        }
    }
    log->fn(log->arg, level, line);
}
