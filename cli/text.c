/* Names from outside, made fit for a terminal. A lock's name is any bytes,
 * given by whoever may write to the server: printed raw it could forge lines
 * or drive the terminal. */
#include "cli/text.h"

#include <stdint.h>
#include <string.h>

/* The longest escaped piece: four bytes as \xNN. */
#define PIECE_SIZE 17

/* Number of following bytes that a first byte announces; -1 if it is none. */
static int utf8_tail(unsigned char first)
{
    if (first < 0x80) {
        return 0;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        return 1;
    }
    if (first >= 0xE0 && first <= 0xEF) {
        return 2;
    }
    return first >= 0xF0 && first <= 0xF4 ? 3 : -1;
}

/* Decodes one character. Returns its length, 0 for what is not UTF-8
 * (overlong forms, surrogates and numbers past U+10FFFF included). */
static size_t utf8_decode(const unsigned char *at, size_t left, uint32_t *out)
{
    static const uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
    int tail = utf8_tail(at[0]);
    if (tail < 0 || (size_t)tail >= left) {
        return 0;
    }
    uint32_t value = tail == 0 ? at[0] : at[0] & (0x3FU >> tail);
    for (int i = 1; i <= tail; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return 0;
        }
        value = (value << 6) | (at[i] & 0x3FU);
    }
    if (value < smallest[tail] || value > 0x10FFFF ||
        (value >= 0xD800 && value <= 0xDFFF)) {
        return 0;
    }
    *out = value;
    return (size_t)tail + 1;
}

/* Neither a control character (C0, DEL, C1), nor a separator of lines, nor
 * one of those that change the direction of writing. */
static bool is_printable(uint32_t value)
{
    if (value < 0x20 || (value >= 0x7F && value < 0xA0)) {
        return false;
    }
    return !(value == 0x200E || value == 0x200F ||
             (value >= 0x2028 && value <= 0x202E) ||
             (value >= 0x2066 && value <= 0x2069) || value == 0xFEFF);
}

bool text_is_utf8(const char *bytes, size_t length)
{
    const unsigned char *at = (const unsigned char *)bytes;
    while (length > 0) {
        uint32_t value;
        size_t n = utf8_decode(at, length, &value);
        if (n == 0) {
            return false;
        }
        at += n;
        length -= n;
    }
    return true;
}

/* Writes the next character, escaped if need be, as text into piece. Returns
 * how many bytes of the input it stands for. */
static size_t escape(char piece[PIECE_SIZE], const char *bytes, size_t left)
{
    const unsigned char *at = (const unsigned char *)bytes;
    uint32_t value = 0;
    size_t length = utf8_decode(at, left, &value);
    if (length > 0 && is_printable(value)) {
        size_t before = value == '"' || value == '\\' ? 1 : 0;
        piece[0] = '\\';
        memcpy(piece + before, bytes, length);
        piece[before + length] = '\0';
        return length;
    }
    if (length == 0) {
        length = 1;
    }
    for (size_t i = 0; i < length; i++) {
        (void)snprintf(piece + 4 * i, 5, "\\x%02x", at[i]);
    }
    return length;
}

const char *text_quote(char *out, size_t size, const char *bytes, size_t length)
{
    static const char cut[] = "...\"";
    char piece[PIECE_SIZE];
    size_t at = 0;
    out[at++] = '"';
    while (length > 0) {
        size_t used = escape(piece, bytes, length);
        size_t wide = strlen(piece);
        size_t behind = used == length ? sizeof("\"") : sizeof(cut);
        if (at + wide + behind > size) {
            memcpy(out + at, cut, sizeof(cut));
            return out;
        }
        memcpy(out + at, piece, wide);
        at += wide;
        bytes += used;
        length -= used;
    }
    out[at] = '"';
    out[at + 1] = '\0';
    return out;
}

const char *text_quote_names(char *out, size_t size, char *const *names,
                             int count)
{
    char more[32] = "";
    if (count > 1) {
        (void)snprintf(more, sizeof(more), " and %d more", count - 1);
    }
    (void)text_quote(out, size - strlen(more), names[0], strlen(names[0]));
    memcpy(out + strlen(out), more, strlen(more) + 1);
    return out;
}

void text_print(FILE *out, const char *bytes, size_t length)
{
    char piece[PIECE_SIZE];
    while (length > 0) {
        size_t used = escape(piece, bytes, length);
        (void)fputs(piece, out);
        bytes += used;
        length -= used;
    }
}
