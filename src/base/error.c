/* The error object, the texts of statuses and the version. Nothing here
 * allocates or locks, so that any failure can be reported anywhere. */
#include "base/error.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define FLAG_RETRIABLE UINT32_C(1)

const char *hf_version(void)
{
    return HF_VERSION_STRING;
}

const char *hf_status_text(hf_status status)
{
    switch (status) {
#define STATUS_CASE(name, number, text)                                        \
    case name:                                                                 \
        return text;
        HF_STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

hf_status hf_error_status(const hf_error *err)
{
    return err ? (hf_status)err->opaque_status : HF_OK;
}

const char *hf_error_text(const hf_error *err)
{
    if (!err || err->opaque_text[0] == '\0') {
        return hf_status_text(hf_error_status(err));
    }
    return err->opaque_text;
}

int hf_error_is_retriable(const hf_error *err)
{
    return err && (err->opaque_flags & FLAG_RETRIABLE) != 0;
}

/* Text may quote a server's words: keep it one line, whatever it is. */
static void flatten(char *text)
{
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f) {
            *text = ' ';
        }
    }
}

/* Formats aside first: an argument may well be err's own former text. */
HF__PRINTF(4, 0)
static void fill(hf_error *err, hf_status status, uint32_t flags,
                 const char *format, va_list args)
{
    char text[sizeof(err->opaque_text)];
    if (vsnprintf(text, sizeof(text), format, args) < 0) {
        text[0] = '\0';
    }
    flatten(text);
    err->opaque_status = (int32_t)status;
    err->opaque_flags = flags;
    memcpy(err->opaque_text, text, strlen(text) + 1);
}

hf_status hf__error_set(hf_error *err, hf_status status, const char *format,
                        ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        fill(err, status, 0, format, args);
        va_end(args);
    }
    return status;
}

hf_status hf__error_set_retriable(hf_error *err, hf_status status,
                                  const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        fill(err, status, FLAG_RETRIABLE, format, args);
        va_end(args);
    }
    return status;
}

hf_status hf__error_copy(hf_error *to, const hf_error *from)
{
    if (to && to != from) {
        *to = *from;
    }
    return (hf_status)from->opaque_status;
}

hf_status hf__error_nomem(hf_error *err)
{
    return hf__error_set_retriable(err, HF_ENOMEM, "out of memory");
}

const char *hf__errno_text(int number)
{
    /* Unlike strerror, no shared buffer and no look-up of translations. */
    const char *text = strerrordesc_np(number);
    return text ? text : "unknown error";
}

/* Writes one byte's form, at most 4 characters; returns how many. */
static size_t quote_byte(char out[4], unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    if (byte == '"' || byte == '\\') {
        out[0] = '\\';
        out[1] = (char)byte;
        return 2;
    }
    if (byte >= 0x20 && byte < 0x7f) {
        out[0] = (char)byte;
        return 1;
    }
    out[0] = '\\';
    out[1] = 'x';
    out[2] = digits[byte >> 4];
    out[3] = digits[byte & 15];
    return 4;
}

const char *hf__quote(char *out, size_t size, const void *bytes, size_t length)
{
    static const char cut[] = "\"...";
    const unsigned char *from = bytes;
    if (size <= sizeof(cut)) {
        if (size > 0) {
            out[0] = '\0';
        }
        return out;
    }
    size_t used = 0;
    size_t whole = 1; /* end of the last byte behind which `cut` still fits */
    out[used++] = '"';
    for (size_t i = 0; i < length; i++) {
        char form[4];
        size_t n = quote_byte(form, from[i]);
        if (used + n + 2 > size) {
            memcpy(out + whole, cut, sizeof(cut));
            return out;
        }
        memcpy(out + used, form, n);
        used += n;
        if (used + sizeof(cut) <= size) {
            whole = used;
        }
    }
    out[used++] = '"';
    out[used] = '\0';
    return out;
}
