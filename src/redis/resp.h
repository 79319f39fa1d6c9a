/* RESP2: calls to bytes, bytes to values. No I/O. Reading is hiredis' reader
 * (0.14 and 1.x) behind limits of ours. */
#ifndef HF__REDIS_RESP_H
#define HF__REDIS_RESP_H

#include "base/buf.h"
#include "base/call.h"
#include "base/error.h"
#include "base/value.h"

/* A hostile server cannot make the reader keep more than these. */
#define HF__RESP_BULK_MAX ((size_t)16 * 1024 * 1024)
#define HF__RESP_LINE_MAX ((size_t)64 * 1024)
#define HF__RESP_DEPTH_MAX 32
#define HF__RESP_VALUES_MAX ((size_t)1 << 20)
#define HF__RESP_TEXT_MAX ((size_t)32 * 1024 * 1024) /* of one reply */

/* Appends a call: EVALSHA by digest, or EVAL with the script's text. A failure
 * is the buffer's. */
void hf__resp_encode(hf__buf *out, const hf__call *call, bool with_text);

typedef struct hf__resp hf__resp;

hf__resp *hf__resp_new(void); /* NULL when out of memory */
void hf__resp_free(hf__resp *resp);

/* Takes bytes in. HF_EPROTOCOL or HF_ENOMEM; the reader is useless then. */
hf_status hf__resp_feed(hf__resp *resp, const char *bytes, size_t length,
                        hf_error *err);
/* Next whole value, or *value = NULL when more bytes are needed. It lives
 * until the next call. */
hf_status hf__resp_next(hf__resp *resp, const hf__value **value, hf_error *err);

#endif
