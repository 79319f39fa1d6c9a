/* Filling an hf_error. Reporting never allocates; err may be NULL. */
#ifndef HF__BASE_ERROR_H
#define HF__BASE_ERROR_H

#include "holdfast/holdfast.h"

#include <stdarg.h>

#define HF__PRINTF(format_index, first)                                        \
    __attribute__((format(printf, format_index, first)))

/* Sets status and text, and returns the status, so that a failing function
 * can end with `return hf__error_set(err, ...)`. Never put a secret in. */
hf_status hf__error_set(hf_error *err, hf_status status, const char *format,
                        ...) HF__PRINTF(3, 4);
/* As above, for a failure that may pass without a change by the caller. */
hf_status hf__error_set_retriable(hf_error *err, hf_status status,
                                  const char *format, ...) HF__PRINTF(3, 4);
/* Copies; to may be NULL. Returns from's status. */
hf_status hf__error_copy(hf_error *to, const hf_error *from);
hf_status hf__error_nomem(hf_error *err);

/* The system's words for an errno, in English; constant text, any thread. */
const char *hf__errno_text(int number);

/* Writes bytes as printable text in quotes, other bytes as \xNN, cut with
 * "..." to fit: a lock's name for a message. Returns out. */
const char *hf__quote(char *out, size_t size, const void *bytes, size_t length);
/* Enough for the longest name shown in a message. */
#define HF__QUOTE_SIZE 96

#endif
