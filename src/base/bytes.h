/* A borrowed range of bytes. */
#ifndef HF__BASE_BYTES_H
#define HF__BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct hf__slice {
    const char *data;
    size_t length;
} hf__slice;

#define HF__LITERAL(text) ((hf__slice){(text), sizeof(text) - 1})

static inline hf__slice hf__slice_of(const char *text)
{
    return (hf__slice){text, strlen(text)};
}

static inline bool hf__slice_is(hf__slice slice, const char *text)
{
    return slice.length == strlen(text) &&
           memcmp(slice.data, text, slice.length) == 0;
}

static inline bool hf__slice_begins(hf__slice slice, const char *text)
{
    size_t length = strlen(text);
    return slice.length >= length && memcmp(slice.data, text, length) == 0;
}

#endif
