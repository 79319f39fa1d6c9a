/* What the tool says: single lines on stderr, and the exit code that a failure
 * means. */
#ifndef HOLDFAST_CLI_REPORT_H
#define HOLDFAST_CLI_REPORT_H

#include "holdfast/holdfast.h"

#define CLI_PRINTF(format_index, first)                                        \
    __attribute__((format(printf, format_index, first)))

/* Writes "holdfast: " and the text as one line to stderr, in one write, so
 * that the lines of several processes do not mix. Any thread. */
void say(const char *format, ...) CLI_PRINTF(1, 2);

/* Says what is wrong with the command line, and where help is to be had.
 * Returns CLI_USAGE. verb may be NULL. */
int usage_error(const char *verb, const char *format, ...) CLI_PRINTF(2, 3);

/* Says the error, and returns its exit code. */
int report_error(const hf_error *err);
int exit_code_of(hf_status status);

/* Ends output on stdout. Returns code, or CLI_OUTPUT if it is 0 and stdout
 * could not be written. */
int finish_output(int code);

/* Receives the library's log lines. */
void report_log(void *arg, hf_log_level level, const char *line);

#endif
