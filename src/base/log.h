/* Where a client's log lines go. */
#ifndef HF__BASE_LOG_H
#define HF__BASE_LOG_H

#include "base/error.h"

typedef struct hf__log {
    hf_log_fn fn; /* NULL: silent */
    void *arg;
    hf_log_level level;
} hf__log;

/* Call with no lock held. */
void hf__log_line(const hf__log *log, hf_log_level level, const char *format,
                  ...) HF__PRINTF(3, 4);

#endif
