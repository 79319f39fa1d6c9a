#include "redis/info.h"

static size_t copy_value(hf__slice line, char *out, size_t size)
{
    size_t n = 0;
    while (n < line.length && n + 1 < size &&
           (unsigned char)line.data[n] >= ' ') {
        out[n] = line.data[n];
        n++;
    }
    out[n] = '\0';
    return n;
}

bool hf__info_read(hf__slice info, const char *name, char *out, size_t size)
{
    size_t length = strlen(name);
    out[0] = '\0';
    while (info.length > length) {
        if (info.data[length] == ':' && hf__slice_begins(info, name)) {
            info.data += length + 1;
            info.length -= length + 1;
            return copy_value(info, out, size) > 0;
        }
        const char *end = memchr(info.data, '\n', info.length);
        if (!end) {
            return false;
        }
        info.length -= (size_t)(end + 1 - info.data);
        info.data = end + 1;
    }
    return false;
}
