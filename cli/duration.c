/* Durations as people write them, and the clock they are measured by. Parsed
 * by hand: strtod would take "inf", "0x1p3" and the locale's comma. */
#include "cli/duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Digits are collected as integer and fraction, both in units of a millionth
 * of a second at most; 10^12 seconds is far above every range here. */
#define WHOLE_MAX INT64_C(1000000000000)

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {
    {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool parse_unit(const char *text, int64_t *ms)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(text, units[i].name) == 0) {
            *ms = units[i].ms;
            return true;
        }
    }
    return false;
}

/* Reads digits behind the point into millionths; the rest rounds up. */
static const char *parse_fraction(const char *at, int64_t *millionths)
{
    int64_t scale = 100000;
    bool more = false;
    *millionths = 0;
    for (; is_digit(*at); at++) {
        *millionths += scale * (*at - '0');
        more = more || (scale == 0 && *at != '0');
        scale /= 10;
    }
    *millionths += more ? 1 : 0;
    return at;
}

bool duration_parse(const char *text, int64_t *ms)
{
    const char *at = text;
    int64_t whole = 0;
    int64_t millionths = 0;
    int64_t unit;
    for (; is_digit(*at); at++) {
        whole = whole * 10 + (*at - '0');
        if (whole > WHOLE_MAX) {
            return false;
        }
    }
    bool digits = at > text;
    if (*at == '.') {
        digits = digits || is_digit(at[1]);
        at = parse_fraction(at + 1, &millionths);
    }
    if (!digits || !parse_unit(at, &unit)) {
        return false;
    }
    *ms = whole * unit + (millionths * unit + 999999) / 1000000;
    return true;
}

const char *duration_format(char out[DURATION_SIZE], int64_t ms)
{
    int64_t s = ms / 1000;
    if (ms < 1000) {
        (void)snprintf(out, DURATION_SIZE, "%" PRId64 "ms", ms);
    } else if (s < 60) {
        (void)snprintf(out, DURATION_SIZE, "%" PRId64 "s", s);
    } else if (s < 3600) {
        (void)snprintf(out, DURATION_SIZE, "%" PRId64 "m%02" PRId64 "s", s / 60,
                       s % 60);
    } else {
        (void)snprintf(out, DURATION_SIZE, "%" PRId64 "h%02" PRId64 "m",
                       s / 3600, s / 60 % 60);
    }
    return out;
}

int64_t clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
