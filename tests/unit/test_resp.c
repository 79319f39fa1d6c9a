/* RESP2: calls to bytes, bytes to values, and what a hostile server can do
 * with them. R21. */
#include "redis/resp.h"

#include <inttypes.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK ((size_t)16 * 1024) /* as a link reads */
#define MIB ((size_t)1024 * 1024)

/* ---- writing */

static void assert_encoded(const hf__call *call, bool with_text,
                           const char *expected, size_t length)
{
    hf__buf out;
    hf__buf_init(&out, 4096);
    hf__buf_append(&out, "before", 6); /* it appends */
    hf__resp_encode(&out, call, with_text);
    assert_false(out.failed);
    assert_int_equal(out.length, length + 6);
    assert_memory_equal(out.data, "before", 6);
    assert_memory_equal(out.data + 6, expected, length);
    hf__buf_free(&out);
}

static void test_command_is_an_array_of_bulks(void **state)
{
    (void)state;
    static const char expected[] = "*3\r\n$3\r\nSET\r\n$4\r\na\0\r\n\r\n"
                                   "$0\r\n\r\n";
    hf__call call;
    hf__call_begin(&call, NULL);
    hf__call_add(&call, HF__LITERAL("SET"));
    hf__call_add(&call, (hf__slice){"a\0\r\n", 4});
    hf__call_add(&call, HF__LITERAL(""));
    assert_encoded(&call, false, expected, sizeof(expected) - 1);
    assert_encoded(&call, true, expected, sizeof(expected) - 1);
}

static void test_script_goes_by_digest_or_with_its_text(void **state)
{
    (void)state;
    static const hf__script script = {
        .name = "x",
        .text = "return 1\n",
        .length = 9,
        .sha1 = "0123456789abcdef0123456789abcdef01234567"};
    static const char by_digest[] =
        "*5\r\n$7\r\nEVALSHA\r\n"
        "$40\r\n0123456789abcdef0123456789abcdef01234567\r\n"
        "$1\r\n1\r\n$1\r\nk\r\n$3\r\n-42\r\n";
    static const char with_text[] = "*5\r\n$4\r\nEVAL\r\n$9\r\nreturn 1\n\r\n"
                                    "$1\r\n1\r\n$1\r\nk\r\n$3\r\n-42\r\n";
    hf__call call;
    hf__call_begin(&call, &script);
    hf__call_add(&call, HF__LITERAL("k"));
    call.keys = 1;
    hf__call_add_number(&call, 0, -42);
    assert_encoded(&call, false, by_digest, sizeof(by_digest) - 1);
    assert_encoded(&call, true, with_text, sizeof(with_text) - 1);
}

static void test_numbers_are_written_to_their_limits(void **state)
{
    (void)state;
    static const char expected[] =
        "*4\r\n$19\r\n9223372036854775807\r\n$20\r\n-9223372036854775808\r\n"
        "$1\r\n0\r\n$10\r\n1000000000\r\n";
    hf__call low;
    hf__call high;
    hf__call_begin(&low, NULL);
    hf__call_begin(&high, NULL);
    hf__call_add_number(&low, 0, INT64_MAX);
    hf__call_add_number(&low, 1, INT64_MIN);
    hf__call_add_number(&high, 0, 0);
    hf__call_add_number(&high, 1, 1000000000);
    hf__call_add(&low, high.args[0]);
    hf__call_add(&low, high.args[1]);
    assert_encoded(&low, false, expected, sizeof(expected) - 1);
}

/* A renewal has three arguments for each of a hundred locks. */
static void test_call_of_many_arguments(void **state)
{
    (void)state;
    hf__slice args[300];
    hf__call call;
    hf__buf out;
    hf__call_begin(&call, NULL);
    for (size_t i = 0; i < 300; i++) {
        args[i] = (hf__slice){"0123456789abcdef", i % 17};
    }
    call.args = args;
    call.count = 300;
    hf__buf_init(&out, 64 * 1024);
    hf__resp_encode(&out, &call, false);
    assert_false(out.failed);

    hf__resp *resp = hf__resp_new();
    const hf__value *value = NULL;
    assert_int_equal(hf__resp_feed(resp, out.data, out.length, NULL), HF_OK);
    assert_int_equal(hf__resp_next(resp, &value, NULL), HF_OK);
    assert_int_equal(value->count, 300);
    size_t i = 0;
    for (const hf__value *v = value->first; v; v = v->next, i++) {
        assert_int_equal(v->text.length, args[i].length);
        assert_memory_equal(v->text.data, args[i].data, args[i].length);
    }
    assert_int_equal(i, 300);
    hf__resp_free(resp);
    hf__buf_free(&out);
}

static void test_call_that_does_not_fit_fails_whole(void **state)
{
    (void)state;
    char large[200] = {0};
    hf__call call;
    hf__buf out;
    hf__call_begin(&call, NULL);
    hf__call_add(&call, (hf__slice){large, sizeof(large)});
    hf__buf_init(&out, 128);
    hf__resp_encode(&out, &call, false);
    assert_true(out.failed);
    assert_int_equal(out.length, 0);
    hf__buf_free(&out);
}

/* ---- reading: rendered as text, to be compared */

typedef struct text {
    char bytes[1024];
    size_t length;
} text;

__attribute__((format(printf, 2, 3))) static void
append(text *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out->bytes + out->length,
                      sizeof(out->bytes) - out->length, format, args);
    va_end(args);
    assert_in_range(n, 0, sizeof(out->bytes) - out->length - 1);
    out->length += (size_t)n;
}

static void render_leaf(text *out, const hf__value *value)
{
    static const char marks[] = {[HF__VALUE_STRING] = '$',
                                 [HF__VALUE_STATUS] = '+',
                                 [HF__VALUE_ERROR] = '-'};
    if (value->type == HF__VALUE_NIL) {
        append(out, "nil ");
    } else if (value->type == HF__VALUE_INTEGER) {
        append(out, "%" PRId64 " ", value->integer);
    } else {
        assert_int_equal(value->text.data[value->text.length], '\0');
        append(out, "%c%s ", marks[value->type], value->text.data);
    }
}

/* Depth first, without recursion. */
static void render(text *out, const hf__value *root)
{
    const hf__value *stack[16];
    size_t depth = 0;
    const hf__value *at = root;
    for (;;) {
        if (at && at->type == HF__VALUE_ARRAY) {
            append(out, "%zu[ ", at->count);
            assert_in_range(depth, 0, 15);
            stack[depth++] = at;
            at = at->first;
            continue;
        }
        if (at) {
            render_leaf(out, at);
        } else {
            append(out, "] ");
            at = stack[--depth];
        }
        if (depth == 0) {
            return;
        }
        at = at->next;
    }
}

/* Reads all that was fed; "!" at its end for an error. */
static bool read_all(hf__resp *resp, text *out)
{
    const hf__value *value = NULL;
    hf_error err = HF_ERROR_INIT;
    for (;;) {
        if (hf__resp_next(resp, &value, &err) != HF_OK) {
            assert_int_equal(hf_error_status(&err), HF_EPROTOCOL);
            append(out, "!");
            return false;
        }
        if (!value) {
            return true;
        }
        render(out, value);
    }
}

/* As a text; `piece` bytes at a time. */
static void decode(text *out, const char *bytes, size_t length, size_t piece)
{
    hf__resp *resp = hf__resp_new();
    assert_non_null(resp);
    out->length = 0;
    out->bytes[0] = '\0';
    for (size_t i = 0; i < length; i += piece) {
        size_t n = length - i < piece ? length - i : piece;
        assert_int_equal(hf__resp_feed(resp, bytes + i, n, NULL), HF_OK);
        if (!read_all(resp, out)) {
            break;
        }
    }
    hf__resp_free(resp);
}

static void assert_decoded(const char *bytes, const char *expected)
{
    text out;
    size_t length = strlen(bytes);
    for (size_t piece = 1; piece <= length; piece++) {
        decode(&out, bytes, length, piece);
        assert_string_equal(out.bytes, expected);
    }
}

static void test_values_whole_and_in_pieces(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"+OK\r\n", "+OK "},
        {"+\r\n", "+ "},
        {"-ERR no such thing\r\n", "-ERR no such thing "},
        {":0\r\n", "0 "},
        {":-1\r\n", "-1 "},
        {":9223372036854775807\r\n", "9223372036854775807 "},
        {":-9223372036854775808\r\n", "-9223372036854775808 "},
        {"$-1\r\n", "nil "},
        {"*-1\r\n", "nil "},
        {"$0\r\n\r\n", "$ "},
        {"$5\r\nhello\r\n", "$hello "},
        {"$4\r\na\r\nb\r\n", "$a\r\nb "},
        {"*0\r\n", "0[ ] "},
        {"*3\r\n:1\r\n$1\r\nx\r\n$-1\r\n", "3[ 1 $x nil ] "},
        {"*2\r\n*0\r\n*1\r\n*1\r\n+a\r\n", "2[ 0[ ] 1[ 1[ +a ] ] ] "},
        {"*3\r\n-ERR a\r\n-ERR b\r\n:1\r\n", "3[ -ERR a -ERR b 1 ] "},
        {"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n",
         "3[ $message $c $0 ] "},
        {"+a\r\n:2\r\n*1\r\n$-1\r\n-x\r\n$1\r\ny\r\n", "+a 2 1[ nil ] -x $y "},
        {"", ""},
        {"*2\r\n:1\r\n", ""},
        {"$5\r\nhell", ""},
        {":1\r\n$3\r\nab", "1 "},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_decoded(cases[i][0], cases[i][1]);
    }
}

static void test_bytes_of_a_string_are_any(void **state)
{
    (void)state;
    char bytes[300] = "$256\r\n";
    size_t head = strlen(bytes);
    for (int i = 0; i < 256; i++) {
        bytes[head + (size_t)i] = (char)i;
    }
    memcpy(bytes + head + 256, "\r\n", 2);
    hf__resp *resp = hf__resp_new();
    const hf__value *value = NULL;
    for (size_t i = 0; i < head + 258; i++) {
        assert_int_equal(hf__resp_next(resp, &value, NULL), HF_OK);
        assert_null(value);
        assert_int_equal(hf__resp_feed(resp, bytes + i, 1, NULL), HF_OK);
    }
    assert_int_equal(hf__resp_next(resp, &value, NULL), HF_OK);
    assert_int_equal(value->text.length, 256);
    assert_memory_equal(value->text.data, bytes + head, 256);
    hf__resp_free(resp);
}

static void test_what_is_no_resp2_is_an_error(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "x\r\n",
        "\r\n",
        "HTTP/1.1 200 OK\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        ":\r\n",
        ":x\r\n",
        ":1x\r\n",
        ":9223372036854775808\r\n",
        ":-9223372036854775809\r\n",
        "$x\r\n",
        "$\r\n",
        "$-2\r\n",
        "$-5\r\n",
        "$9223372036854775808\r\n",
        "$18446744073709551615\r\n",
        "*x\r\n",
        "*\r\n",
        "*-2\r\n",
        "*9223372036854775807\r\n",
        "*9223372036854775808\r\n",
        "*1\r\n$-5\r\n",
        "*2\r\n:1\r\n?\r\n",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        text out;
        for (size_t piece = 1; piece <= strlen(cases[i]); piece++) {
            decode(&out, cases[i], strlen(cases[i]), piece);
            if (strcmp(out.bytes, "!") != 0) {
                fail_msg("\"%s\" in pieces of %zu gives \"%s\"", cases[i],
                         piece, out.bytes);
            }
        }
    }
}

/* HELLO 3 was not said. */
static void test_resp3_is_an_error(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "_\r\n",
        "#t\r\n",
        "#f\r\n",
        ",1.5\r\n",
        ",inf\r\n",
        "(3492890328409238509324850943850943825024385\r\n",
        "%1\r\n+a\r\n:1\r\n",
        "~1\r\n:1\r\n",
        ">1\r\n+invalidate\r\n",
        "=7\r\ntxt:abc\r\n",
        "!5\r\nERR x\r\n",
        "*1\r\n_\r\n",
        "*2\r\n:1\r\n#t\r\n",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        text out;
        decode(&out, cases[i], strlen(cases[i]), 1);
        if (strcmp(out.bytes, "!") != 0) {
            fail_msg("\"%s\" gives \"%s\"", cases[i], out.bytes);
        }
    }
}

static void test_error_is_told_again(void **state)
{
    (void)state;
    hf__resp *resp = hf__resp_new();
    const hf__value *value = NULL;
    hf_error err = HF_ERROR_INIT;
    assert_int_equal(hf__resp_feed(resp, "?\r\n", 3, &err), HF_OK);
    assert_int_equal(hf__resp_next(resp, &value, &err), HF_EPROTOCOL);
    assert_int_equal(hf__resp_next(resp, &value, &err), HF_EPROTOCOL);
    assert_null(value);
    assert_non_null(strstr(hf_error_text(&err), "RESP2"));
    hf__resp_free(resp);
    hf__resp_free(NULL);
}

static void test_reader_serves_many_replies(void **state)
{
    (void)state;
    hf__resp *resp = hf__resp_new();
    const hf__value *value = NULL;
    for (int i = 0; i < 20000; i++) {
        char bytes[64];
        int n = snprintf(bytes, sizeof(bytes), "*2\r\n:%d\r\n$3\r\nabc\r\n", i);
        assert_int_equal(hf__resp_feed(resp, bytes, (size_t)n, NULL), HF_OK);
        assert_int_equal(hf__resp_next(resp, &value, NULL), HF_OK);
        assert_int_equal(value->first->integer, i);
        assert_true(value->first->next == value->last);
        assert_string_equal(value->last->text.data, "abc");
    }
    hf__resp_free(resp);
}

/* ---- limits */

/* What malloc has handed out; nothing is known under sanitizers. */
static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Feeds the same piece again and again, as a link would, until there is an
 * error. Returns how many bytes went in until then; at most `most`. */
static size_t feed_until_refused(hf__resp *resp, const char *piece,
                                 size_t length, size_t most)
{
    const hf__value *value = NULL;
    size_t fed = 0;
    while (fed < most) {
        fed += length;
        if (hf__resp_feed(resp, piece, length, NULL) != HF_OK ||
            hf__resp_next(resp, &value, NULL) != HF_OK) {
            return fed;
        }
        assert_null(value);
    }
    fail_msg("took %zu bytes without an end", fed);
    return 0;
}

static char *repeated(const char *unit, size_t times)
{
    size_t length = strlen(unit);
    char *piece = malloc(length * times);
    assert_non_null(piece);
    for (size_t i = 0; i < times; i++) {
        memcpy(piece + i * length, unit, length);
    }
    return piece;
}

/* Begins with `begin`, goes on with `unit`: refused within `most` bytes, and
 * no more than `kept` of memory are taken for it. */
static void assert_refused(const char *begin, const char *unit, size_t most,
                           size_t kept)
{
    size_t times = CHUNK / strlen(unit);
    char *piece = repeated(unit, times);
    size_t before = allocated();
    hf__resp *resp = hf__resp_new();
    assert_int_equal(hf__resp_feed(resp, begin, strlen(begin), NULL), HF_OK);
    feed_until_refused(resp, piece, strlen(unit) * times, most);
    size_t after = allocated();
    assert_true(after <= before || after - before <= kept);
    hf__resp_free(resp);
    free(piece);
}

static void test_announcing_much_costs_nothing(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "*2147483647\r\n",
        "*1048577\r\n",
        "$2147483647\r\n",
        "$1099511627776\r\n",
        "$9223372036854775807\r\n",
        "*1000000\r\n*1000000\r\n*1000000\r\n$1000000000\r\n",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t before = allocated();
        hf__resp *resp = hf__resp_new();
        const hf__value *value = NULL;
        assert_int_equal(hf__resp_feed(resp, cases[i], strlen(cases[i]), NULL),
                         HF_OK);
        (void)hf__resp_next(resp, &value, NULL);
        assert_null(value);
        size_t after = allocated();
        assert_true(after <= before || after - before <= 64 * 1024);
        hf__resp_free(resp);
    }
}

static void test_endless_line_is_refused(void **state)
{
    (void)state;
    static const char *const begins[] = {"+", "-", ":", "*", "*1\r\n+"};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        assert_refused(begins[i], "1", HF__RESP_LINE_MAX + 2 * CHUNK, MIB);
    }
}

/* Such a head is a line as any other: the string has not begun. */
static void test_endless_head_of_a_string_is_refused(void **state)
{
    (void)state;
    assert_refused("$", "1", HF__RESP_LINE_MAX + 2 * CHUNK, MIB);
}

static void test_line_up_to_the_limit_is_read(void **state)
{
    (void)state;
    size_t length = HF__RESP_LINE_MAX - 1;
    char *line = repeated("x", length);
    hf__resp *resp = hf__resp_new();
    const hf__value *value = NULL;
    assert_int_equal(hf__resp_feed(resp, "+", 1, NULL), HF_OK);
    for (size_t i = 0; i < length; i += 1000) {
        size_t n = length - i < 1000 ? length - i : 1000;
        assert_int_equal(hf__resp_feed(resp, line + i, n, NULL), HF_OK);
        assert_int_equal(hf__resp_next(resp, &value, NULL), HF_OK);
        assert_null(value);
    }
    assert_int_equal(hf__resp_feed(resp, "\r\n", 2, NULL), HF_OK);
    assert_int_equal(hf__resp_next(resp, &value, NULL), HF_OK);
    assert_int_equal(value->text.length, length);
    hf__resp_free(resp);
    free(line);
}

static void test_endless_members_are_refused(void **state)
{
    (void)state;
    static const char *const units[] = {":1\r\n", "$-1\r\n", "$0\r\n\r\n",
                                        "*0\r\n", "+\r\n"};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        assert_refused("*2147483647\r\n", units[i],
                       HF__RESP_VALUES_MAX * strlen(units[i]) + 2 * CHUNK,
                       160 * MIB);
    }
}

static void test_members_up_to_the_limit_are_read(void **state)
{
    (void)state;
    /* The array is a value too. */
    size_t members = HF__RESP_VALUES_MAX - 1;
    char *bytes = repeated(":7\r\n", members);
    hf__resp *resp = hf__resp_new();
    const hf__value *value = NULL;
    for (int i = 0; i < 2; i++) { /* each reply is counted for itself */
        assert_int_equal(hf__resp_feed(resp, "*1048575\r\n", 10, NULL), HF_OK);
        assert_int_equal(hf__resp_feed(resp, bytes, 4 * members, NULL), HF_OK);
        assert_int_equal(hf__resp_next(resp, &value, NULL), HF_OK);
        assert_int_equal(value->count, members);
        assert_int_equal(value->last->integer, 7);
    }
    hf__resp_free(resp);
    free(bytes);
}

static void test_deep_nesting_is_refused(void **state)
{
    (void)state;
    assert_refused("", "*1\r\n", 2 * CHUNK, MIB);
    assert_refused("", "*2\r\n:1\r\n", 2 * CHUNK, MIB);
    char *bytes = repeated("*1\r\n", 33);
    text out;
    decode(&out, bytes, 33 * strlen("*1\r\n"), 7);
    assert_string_equal(out.bytes, "!");
    free(bytes);
}

/* Feeds a string of so many bytes as a link would; its length, or 0. */
static size_t read_string(size_t length)
{
    char *piece = repeated("abcdefgh", CHUNK / 8);
    hf__resp *resp = hf__resp_new();
    const hf__value *value = NULL;
    hf_status status = HF_OK;
    char head[32];
    int n = snprintf(head, sizeof(head), "$%zu\r\n", length);
    assert_int_equal(hf__resp_feed(resp, head, (size_t)n, NULL), HF_OK);
    for (size_t i = 0; i < length && status == HF_OK; i += CHUNK) {
        size_t more = length - i < CHUNK ? length - i : CHUNK;
        assert_int_equal(hf__resp_feed(resp, piece, more, NULL), HF_OK);
        status = hf__resp_next(resp, &value, NULL);
        assert_null(value);
    }
    if (status == HF_OK) {
        assert_int_equal(hf__resp_feed(resp, "\r\n", 2, NULL), HF_OK);
        status = hf__resp_next(resp, &value, NULL);
    }
    size_t read = status == HF_OK && value ? value->text.length : 0;
    hf__resp_free(resp);
    free(piece);
    return read;
}

static void test_string_up_to_the_limit_is_read(void **state)
{
    (void)state;
    assert_int_equal(read_string(HF__RESP_BULK_MAX - 1), HF__RESP_BULK_MAX - 1);
    assert_int_equal(read_string(HF__RESP_BULK_MAX), HF__RESP_BULK_MAX);
}

static void test_string_beyond_the_limit_is_refused(void **state)
{
    (void)state;
    assert_int_equal(
        read_string(HF__RESP_BULK_MAX + HF__RESP_LINE_MAX + 2 * CHUNK), 0);
    static const char *const begins[] = {"$1099511627776\r\n",
                                         "$9223372036854775807\r\n",
                                         "*2\r\n$1099511627776\r\n"};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        assert_refused(begins[i], "11111111",
                       HF__RESP_BULK_MAX + HF__RESP_LINE_MAX + 2 * CHUNK,
                       3 * HF__RESP_BULK_MAX);
    }
}

/* Each member is within its limit, and all together are not. */
static void test_many_large_members_are_refused(void **state)
{
    (void)state;
    size_t size = MIB;
    char *member = malloc(size + 16);
    assert_non_null(member);
    memset(member, 'x', size + 16);
    memcpy(member, "$1048565\r\n", 10);
    memcpy(member + 10 + 1048565, "\r\n", 2);
    hf__resp *resp = hf__resp_new();
    assert_int_equal(hf__resp_feed(resp, "*1000000\r\n", 10, NULL), HF_OK);
    feed_until_refused(resp, member, 10 + 1048565 + 2, 8 * HF__RESP_BULK_MAX);
    hf__resp_free(resp);
    free(member);
}

static void test_texts_are_counted_for_each_reply(void **state)
{
    (void)state;
    size_t length = HF__RESP_BULK_MAX;
    char *bytes = repeated("x", length);
    char head[32];
    int n = snprintf(head, sizeof(head), "$%zu\r\n", length);
    hf__resp *resp = hf__resp_new();
    const hf__value *value = NULL;
    for (size_t i = 0; i < HF__RESP_TEXT_MAX / length + 2; i++) {
        assert_int_equal(hf__resp_feed(resp, head, (size_t)n, NULL), HF_OK);
        assert_int_equal(hf__resp_feed(resp, bytes, length, NULL), HF_OK);
        assert_int_equal(hf__resp_feed(resp, "\r\n", 2, NULL), HF_OK);
        assert_int_equal(hf__resp_next(resp, &value, NULL), HF_OK);
        assert_int_equal(value->text.length, length);
    }
    hf__resp_free(resp);
    free(bytes);
}

static void test_large_reply_is_given_back_to_the_system(void **state)
{
    (void)state;
    size_t members = 100000;
    char *bytes = repeated("$3\r\nabc\r\n", members);
    hf__resp *resp = hf__resp_new();
    const hf__value *value = NULL;
    assert_int_equal(hf__resp_feed(resp, "*100000\r\n", 9, NULL), HF_OK);
    assert_int_equal(hf__resp_feed(resp, bytes, 9 * members, NULL), HF_OK);
    assert_int_equal(hf__resp_next(resp, &value, NULL), HF_OK);
    size_t with = allocated();
    assert_int_equal(hf__resp_next(resp, &value, NULL), HF_OK);
    assert_null(value);
    assert_true(with == 0 || with - allocated() >= members * 64);
    hf__resp_free(resp);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command_is_an_array_of_bulks),
        cmocka_unit_test(test_script_goes_by_digest_or_with_its_text),
        cmocka_unit_test(test_numbers_are_written_to_their_limits),
        cmocka_unit_test(test_call_of_many_arguments),
        cmocka_unit_test(test_call_that_does_not_fit_fails_whole),
        cmocka_unit_test(test_values_whole_and_in_pieces),
        cmocka_unit_test(test_bytes_of_a_string_are_any),
        cmocka_unit_test(test_what_is_no_resp2_is_an_error),
        cmocka_unit_test(test_resp3_is_an_error),
        cmocka_unit_test(test_error_is_told_again),
        cmocka_unit_test(test_reader_serves_many_replies),
        cmocka_unit_test(test_announcing_much_costs_nothing),
        cmocka_unit_test(test_endless_line_is_refused),
        cmocka_unit_test(test_endless_head_of_a_string_is_refused),
        cmocka_unit_test(test_line_up_to_the_limit_is_read),
        cmocka_unit_test(test_endless_members_are_refused),
        cmocka_unit_test(test_members_up_to_the_limit_are_read),
        cmocka_unit_test(test_deep_nesting_is_refused),
        cmocka_unit_test(test_string_up_to_the_limit_is_read),
        cmocka_unit_test(test_string_beyond_the_limit_is_refused),
        cmocka_unit_test(test_many_large_members_are_refused),
        cmocka_unit_test(test_texts_are_counted_for_each_reply),
        cmocka_unit_test(test_large_reply_is_given_back_to_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
