/* Output as JSON: one object per line. Names are any bytes, JSON strings are
 * not: what is not UTF-8 goes out in base64, under another key, so that no
 * reader takes the one for the other. */
#include "cli/json.h"

#include "cli/exit_codes.h"
#include "cli/report.h"
#include "cli/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* RFC 4648, section 4, with padding. */
static char *base64(const char *bytes, size_t length)
{
    char *out = malloc((length + 2) / 3 * 4 + 1);
    char *to = out;
    if (!out) {
        return NULL;
    }
    for (size_t i = 0; i < length; i += 3) {
        unsigned char group[3] = {0};
        size_t n = length - i < 3 ? length - i : 3;
        memcpy(group, bytes + i, n);
        uint32_t bits =
            (uint32_t)group[0] << 16 | (uint32_t)group[1] << 8 | group[2];
        for (size_t digit = 0; digit < 4; digit++) {
            *to++ = digit <= n ? base64_digits[(bits >> (18 - 6 * digit)) & 63]
                               : '=';
        }
    }
    *to = '\0';
    return out;
}

json_t *json_line_new(void)
{
    return json_pack("{s:i}", "v", 1);
}

int json_set_bytes(json_t *object, const char *key, const char *bytes,
                   size_t length)
{
    char other[32];
    if (text_is_utf8(bytes, length)) {
        return json_object_set_new(object, key, json_stringn(bytes, length));
    }
    (void)snprintf(other, sizeof(other), "%s_base64", key);
    char *coded = base64(bytes, length);
    int failed =
        coded ? json_object_set_new(object, other, json_string(coded)) : -1;
    free(coded);
    return failed;
}

int json_line_write(json_t *object, int failed)
{
    int code = CLI_OK;
    if (!object || failed) {
        say("out of memory");
        code = CLI_SYSTEM;
    } else if (json_dumpf(object, stdout, JSON_COMPACT) != 0 ||
               putchar('\n') == EOF) {
        code = CLI_OUTPUT;
    }
    json_decref(object);
    return code;
}
