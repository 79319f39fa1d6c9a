/* Durations as people write them, and the clock they are measured by. */
#ifndef HOLDFAST_CLI_DURATION_H
#define HOLDFAST_CLI_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DURATION_SIZE 32

/* Reads `500ms`, `30s`, `2m`, `1h`; a bare number is seconds, and decimals are
 * allowed (`0.5`, as in flock -w 0.5). A fraction of a millisecond is rounded
 * up, so that nothing above zero becomes zero. */
bool duration_parse(const char *text, int64_t *ms);

/* Writes `350ms`, `18s`, `2m14s`, `3h05m`; returns out. */
const char *duration_format(char out[DURATION_SIZE], int64_t ms);

/* Milliseconds on CLOCK_BOOTTIME, which goes on while the machine sleeps, as
 * a lease does. */
int64_t clock_ms(void);

#endif
