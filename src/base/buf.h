/* A growing byte buffer with an upper bound and a sticky failure: append at
 * will, check `failed` once. */
#ifndef HF__BASE_BUF_H
#define HF__BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hf__buf {
    char *data;
    size_t length;
    size_t capacity;
    size_t limit; /* length never exceeds this */
    bool failed;  /* out of memory or over the limit; sticky until cleared */
} hf__buf;

void hf__buf_init(hf__buf *buf, size_t limit);
void hf__buf_free(hf__buf *buf);
/* Keeps the memory, forgets the content and the failure. */
void hf__buf_clear(hf__buf *buf);
void hf__buf_append(hf__buf *buf, const void *bytes, size_t length);
/* Makes room for that many more bytes without changing the length. */
bool hf__buf_reserve(hf__buf *buf, size_t more);
/* Drops the first n bytes. */
void hf__buf_consume(hf__buf *buf, size_t n);

#endif
