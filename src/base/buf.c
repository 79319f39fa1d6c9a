/* The growing byte buffer; see buf.h. */
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST ((size_t)64)

void hf__buf_init(hf__buf *buf, size_t limit)
{
    *buf = (hf__buf){.limit = limit};
}

void hf__buf_free(hf__buf *buf)
{
    free(buf->data);
    *buf = (hf__buf){.limit = buf->limit};
}

void hf__buf_clear(hf__buf *buf)
{
    buf->length = 0;
    buf->failed = false;
}

/* The next capacity by doubling, so that appending stays linear. */
static size_t grown(const hf__buf *buf, size_t needed)
{
    size_t capacity = buf->capacity < SMALLEST ? SMALLEST : buf->capacity;
    while (capacity < needed) {
        if (capacity > buf->limit / 2) {
            return buf->limit;
        }
        capacity *= 2;
    }
    return capacity < buf->limit ? capacity : buf->limit;
}

bool hf__buf_reserve(hf__buf *buf, size_t more)
{
    if (buf->failed) {
        return false;
    }
    if (more > buf->limit - buf->length) {
        buf->failed = true;
        return false;
    }
    size_t needed = buf->length + more;
    if (needed <= buf->capacity) {
        return true;
    }
    size_t capacity = grown(buf, needed);
    char *data = realloc(buf->data, capacity);
    if (!data) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

void hf__buf_append(hf__buf *buf, const void *bytes, size_t length)
{
    if (length == 0 || !hf__buf_reserve(buf, length)) {
        return;
    }
    memcpy(buf->data + buf->length, bytes, length);
    buf->length += length;
}

void hf__buf_consume(hf__buf *buf, size_t n)
{
    if (n >= buf->length) {
        buf->length = 0;
        return;
    }
    if (n > 0) {
        buf->length -= n;
        memmove(buf->data, buf->data + n, buf->length);
    }
}
