/* INFO's answer, any bytes: the reader finds what a plain reading, line by
 * line, finds. */
#include "fuzz/fuzz.h"

#include "redis/info.h"

static const char *const names[] = {
    "run_id", "valkey_version", "redis_version", "uptime_in_seconds", "a", ""};

/* The value in a line; NULL if it is another one's. */
static const char *value_in(const char *line, size_t length, const char *name)
{
    const char *colon = length > 0 ? memchr(line, ':', length) : NULL;
    size_t n = strlen(name);
    return colon && (size_t)(colon - line) == n && memcmp(line, name, n) == 0
               ? colon + 1
               : NULL;
}

static void expect(const char *text, size_t length, const char *name, char *out,
                   size_t size)
{
    const char *end = text + length;
    for (const char *line = text; line < end;) {
        const char *stop = line;
        while (stop < end && *stop != '\n') {
            stop++;
        }
        const char *value = value_in(line, (size_t)(stop - line), name);
        if (value) {
            size_t n = 0;
            while (value + n < stop && n + 1 < size &&
                   (unsigned char)value[n] >= 0x20) {
                out[n] = value[n];
                n++;
            }
            out[n] = '\0';
            return;
        }
        line = stop + 1;
    }
    out[0] = '\0';
}

static void check(const char *text, size_t length, const char *name,
                  size_t size)
{
    char *got = malloc(size); /* exactly that much room */
    char *expected = malloc(size);
    FUZZ_CHECK(got && expected);
    memset(got, 'x', size);
    bool found = hf__info_read((hf__slice){text, length}, name, got, size);
    expect(text, length, name, expected, size);
    FUZZ_CHECK(strcmp(got, expected) == 0);
    FUZZ_CHECK(found == (got[0] != '\0'));
    free(got);
    free(expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        check((const char *)data, size, names[i], 48);
        check((const char *)data, size, names[i], 5);
        check((const char *)data, size, names[i], 1);
    }
    return 0;
}
