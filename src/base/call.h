/* What is said to a server: a script with keys and arguments, or a plain
 * command. The thinking wing fills it, the talking wing encodes it. */
#ifndef HF__BASE_CALL_H
#define HF__BASE_CALL_H

#include "base/bytes.h"
#include "base/script.h"

#include <stdint.h>

#define HF__CALL_FIXED 10

/* args points to `fixed`, or to a longer array of the filler's. The bytes must
 * stay until the request that carries the call is completed. */
typedef struct hf__call {
    const hf__script *script; /* NULL: args[0] is a command's name */
    const hf__slice *args;
    size_t count;
    size_t keys; /* how many of args are the script's KEYS */
    hf__slice fixed[HF__CALL_FIXED];
    char digits[3][24]; /* text of numbers among the arguments */
} hf__call;

/* Starts a call with room for HF__CALL_FIXED arguments. */
void hf__call_begin(hf__call *call, const hf__script *script);
void hf__call_add(hf__call *call, hf__slice arg);
/* Adds a number as decimal text, kept in digits[slot]. */
void hf__call_add_number(hf__call *call, size_t slot, int64_t number);

#endif
