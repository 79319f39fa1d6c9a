/* RESP2: requests in, replies out. */
#include "sim/model_int.h"

#include "base/decimal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* As Redis has them. */
#define MOST_ARGUMENTS (1024 * 1024)
#define LONGEST_BULK (512 * 1024 * 1024)
#define LONGEST_LINE ((size_t)64 * 1024)

/* ----------------------------------------------------------------- replies */

static void line(hf__buf *out, char mark, hf__slice text)
{
    hf__buf_append(out, &mark, 1);
    hf__buf_append(out, text.data, text.length);
    hf__buf_append(out, "\r\n", 2);
}

static void number_line(hf__buf *out, char mark, int64_t number)
{
    char digits[HF__DECIMAL_MAX + 1];
    char *at = digits;
    uint64_t size = (uint64_t)number;
    if (number < 0) {
        *at++ = '-';
        size = 0 - size;
    }
    char *end = hf__decimal(at, size);
    line(out, mark, (hf__slice){digits, (size_t)(end - digits)});
}

void model_reply_integer(hf__buf *out, int64_t number)
{
    number_line(out, ':', number);
}

void model_reply_bulk(hf__buf *out, hf__slice bytes)
{
    number_line(out, '$', (int64_t)bytes.length);
    hf__buf_append(out, bytes.data, bytes.length);
    hf__buf_append(out, "\r\n", 2);
}

void model_reply_text(hf__buf *out, const char *text)
{
    model_reply_bulk(out, hf__slice_of(text));
}

void model_reply_double(hf__buf *out, double number)
{
    char text[64];
    if (isinf(number)) {
        model_reply_text(out, number > 0 ? "inf" : "-inf");
        return;
    }
    (void)snprintf(text, sizeof(text), "%.17g", number);
    model_reply_text(out, text);
}

void model_reply_nil(hf__buf *out)
{
    hf__buf_append(out, "$-1\r\n", 5);
}

void model_reply_nil_array(hf__buf *out)
{
    hf__buf_append(out, "*-1\r\n", 5);
}

void model_reply_array(hf__buf *out, size_t count)
{
    number_line(out, '*', (int64_t)count);
}

void model_reply_status(hf__buf *out, const char *text)
{
    line(out, '+', hf__slice_of(text));
}

void model_reply_error_bytes(hf__buf *out, hf__slice text)
{
    size_t start = out->length;
    line(out, '-', text);
    for (size_t i = start; !out->failed && i + 2 < out->length; i++) {
        if (out->data[i] == '\r' || out->data[i] == '\n') {
            out->data[i] = ' ';
        }
    }
}

void model_reply_error(hf__buf *out, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    model_reply_error_bytes(out, hf__slice_of(text));
}

/* ---------------------------------------------------------------- requests */

typedef enum reading { WHOLE, MORE, BROKEN } reading;

/* The rest of a connection's input. */
typedef struct cursor {
    model_conn *conn;
    const char *at;
    const char *end;
} cursor;

static reading broken(cursor *c, const char *what)
{
    model_reply_error(&c->conn->out, "ERR Protocol error: %s", what);
    return BROKEN;
}

/* A line that ends in "\r\n". */
static reading read_line(cursor *c, hf__slice *text, const char *too_long)
{
    const char *cr = memchr(c->at, '\r', (size_t)(c->end - c->at));
    if (!cr || cr + 1 >= c->end) {
        return (size_t)(c->end - c->at) > LONGEST_LINE ? broken(c, too_long)
                                                       : MORE;
    }
    *text = (hf__slice){c->at, (size_t)(cr - c->at)};
    c->at = cr + 2;
    return WHOLE;
}

static hf__slice *argument(model_conn *conn, size_t i)
{
    if (i == conn->args_room) {
        conn->args_room = i ? i * 2 : 16;
        conn->args =
            model_grow(conn->args, conn->args_room * sizeof(hf__slice));
    }
    return &conn->args[i];
}

static reading read_bulk(cursor *c, size_t i)
{
    hf__slice text;
    int64_t length;
    if (c->at == c->end) {
        return MORE;
    }
    if (*c->at != '$') {
        char what[40];
        (void)snprintf(what, sizeof(what), "expected '$', got '%c'", *c->at);
        return broken(c, what);
    }
    reading r = read_line(c, &text, "too big bulk count string");
    if (r != WHOLE) {
        return r;
    }
    if (!model_parse_integer((hf__slice){text.data + 1, text.length - 1},
                             &length) ||
        length < 0 || length > LONGEST_BULK) {
        return broken(c, "invalid bulk length");
    }
    if (c->end - c->at < length + 2) {
        return MORE;
    }
    *argument(c->conn, i) = (hf__slice){c->at, (size_t)length};
    c->at += length + 2;
    return WHOLE;
}

static reading read_array(cursor *c, size_t *count)
{
    hf__slice text;
    int64_t number;
    reading r = read_line(c, &text, "too big mbulk count string");
    if (r != WHOLE) {
        return r;
    }
    if (!model_parse_integer((hf__slice){text.data + 1, text.length - 1},
                             &number) ||
        number > MOST_ARGUMENTS) {
        return broken(c, "invalid multibulk length");
    }
    for (*count = 0; (int64_t)*count < number; ++*count) {
        r = read_bulk(c, *count);
        if (r != WHOLE) {
            return r;
        }
    }
    return WHOLE;
}

/* Words on a line, as a person types them; quotes are not understood. */
static reading read_inline(cursor *c, size_t *count)
{
    const char *nl = memchr(c->at, '\n', (size_t)(c->end - c->at));
    if (!nl) {
        return (size_t)(c->end - c->at) > LONGEST_LINE
                   ? broken(c, "too big inline request")
                   : MORE;
    }
    const char *at = c->at;
    c->at = nl + 1;
    for (*count = 0;; ++*count) {
        while (at < nl && (*at == ' ' || *at == '\r' || *at == '\t')) {
            at++;
        }
        const char *from = at;
        while (at < nl && *at != ' ' && *at != '\r' && *at != '\t') {
            at++;
        }
        if (at == from) {
            return WHOLE;
        }
        *argument(c->conn, *count) = (hf__slice){from, (size_t)(at - from)};
    }
}

void model_read_requests(model_conn *conn)
{
    cursor c = {conn, conn->in.data, conn->in.data + conn->in.length};
    const char *done = c.at;
    while (c.at < c.end && !conn->closed) {
        size_t count = 0;
        reading r =
            *c.at == '*' ? read_array(&c, &count) : read_inline(&c, &count);
        if (r == MORE) {
            break;
        }
        if (r == BROKEN) {
            model_close(conn);
            break;
        }
        done = c.at;
        if (count > 0) {
            model_execute(conn, conn->args, count);
        }
    }
    hf__buf_consume(&conn->in, (size_t)(done - conn->in.data));
}
