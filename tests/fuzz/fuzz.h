/* What the fuzz targets share. Each target is one LLVMFuzzerTestOneInput: with
 * libFuzzer it gets inputs without end, with replay.c those of its corpus. */
#ifndef TEST_FUZZ_FUZZ_H
#define TEST_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What holds for any input. Does not depend on NDEBUG. */
#define FUZZ_CHECK(condition)                                                  \
    ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #condition))

static inline void fuzz_fail(const char *file, int line, const char *condition)
{
    (void)fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

#endif
