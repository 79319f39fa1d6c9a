/* What a server answered: a RESP value as a tree. */
#ifndef HF__BASE_VALUE_H
#define HF__BASE_VALUE_H

#include "base/bytes.h"

#include <stdint.h>

typedef enum hf__value_type {
    HF__VALUE_NIL,
    HF__VALUE_INTEGER,
    HF__VALUE_STRING,
    HF__VALUE_STATUS,
    HF__VALUE_ERROR,
    HF__VALUE_ARRAY
} hf__value_type;

/* Lives in its reader's memory until the reader's next value. */
typedef struct hf__value {
    hf__value_type type;
    int64_t integer;
    hf__slice text; /* of a string, status or error */
    size_t count;   /* of an array's members */
    struct hf__value *first;
    struct hf__value *last;
    struct hf__value *next; /* in the array that this is a member of */
} hf__value;

#endif
