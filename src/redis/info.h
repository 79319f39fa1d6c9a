/* The answer to INFO: lines `name:value`, ended by CR LF. */
#ifndef HF__REDIS_INFO_H
#define HF__REDIS_INFO_H

#include "base/bytes.h"

/* Copies the value of the first line of that name, which ends at the first
 * control character, cut to fit and terminated. False, and "" in out, when
 * there is no such line or nothing behind its colon. size is at least 1. */
bool hf__info_read(hf__slice info, const char *name, char *out, size_t size);

#endif
