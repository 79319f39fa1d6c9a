/* Numbers as decimal text; several times faster than snprintf, which would
 * be the larger part of a command's cost. */
#ifndef HF__BASE_DECIMAL_H
#define HF__BASE_DECIMAL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HF__DECIMAL_MAX 20

/* Writes without a NUL; returns the end. Room for HF__DECIMAL_MAX bytes. */
static inline char *hf__decimal(char *out, uint64_t number)
{
    char digits[HF__DECIMAL_MAX];
    size_t i = sizeof(digits);
    do {
        digits[--i] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    memcpy(out, digits + i, sizeof(digits) - i);
    return out + (sizeof(digits) - i);
}

#endif
