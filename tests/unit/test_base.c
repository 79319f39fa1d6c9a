/* The base room: errors, quoting, buffer, list and heap. */
#include "base/buf.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* So that a hopeless allocation fails under sanitizers as it does without;
 * they fix these names. NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl*) */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl*) */

/* More than any address space; positive as a signed number too. */
#define HOPELESS ((size_t)1 << 61)

/* ---- errors */

static void test_status_texts(void **state)
{
    (void)state;
#define CHECK(name, number, text)                                              \
    assert_int_equal(name, number);                                            \
    assert_string_equal(hf_status_text(name), text);
    HF_STATUS_MAP(CHECK)
#undef CHECK
    assert_string_equal(hf_status_text((hf_status)-999), "unknown status");
    assert_string_equal(hf_version(), HF_VERSION_STRING);
}

static void test_error_is_filled(void **state)
{
    (void)state;
    hf_error err = HF_ERROR_INIT;
    assert_int_equal(hf_error_status(&err), HF_OK);
    assert_string_equal(hf_error_text(&err), "success");
    assert_int_equal(hf__error_set(&err, HF_EPERM, "no %s for %d", "key", 7),
                     HF_EPERM);
    assert_int_equal(hf_error_status(&err), HF_EPERM);
    assert_string_equal(hf_error_text(&err), "no key for 7");
    assert_false(hf_error_is_retriable(&err));
    (void)hf__error_set_retriable(&err, HF_EUNREACHABLE, "later");
    assert_true(hf_error_is_retriable(&err));
    (void)hf__error_set(&err, HF_EINVAL, "never");
    assert_false(hf_error_is_retriable(&err));
}

static void test_error_may_be_null(void **state)
{
    (void)state;
    hf_error from = HF_ERROR_INIT;
    assert_int_equal(hf__error_set(NULL, HF_EINVAL, "x"), HF_EINVAL);
    assert_int_equal(hf__error_set_retriable(NULL, HF_ELOST, "x"), HF_ELOST);
    assert_int_equal(hf__error_nomem(NULL), HF_ENOMEM);
    (void)hf__error_set(&from, HF_EAUTH, "who?");
    assert_int_equal(hf__error_copy(NULL, &from), HF_EAUTH);
    assert_int_equal(hf_error_status(NULL), HF_OK);
    assert_non_null(hf_error_text(NULL));
    assert_false(hf_error_is_retriable(NULL));
}

static void test_error_text_is_one_bounded_line(void **state)
{
    (void)state;
    hf_error err = HF_ERROR_INIT;
    char text[2000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)hf__error_set(&err, HF_EINVAL, "%s", text);
    assert_int_equal(strlen(hf_error_text(&err)), sizeof(err.opaque_text) - 1);
    (void)hf__error_set(&err, HF_EINVAL, "a\r\nb\033[31mc\177");
    assert_string_equal(hf_error_text(&err), "a  b [31mc ");
}

static void test_error_may_quote_itself(void **state)
{
    (void)state;
    hf_error err = HF_ERROR_INIT;
    hf_error copy = HF_ERROR_INIT;
    (void)hf__error_set(&err, HF_EINVAL, "inner");
    (void)hf__error_set(&err, HF_ESERVER, "outer: %s", hf_error_text(&err));
    assert_string_equal(hf_error_text(&err), "outer: inner");
    assert_int_equal(hf__error_copy(&copy, &err), HF_ESERVER);
    assert_string_equal(hf_error_text(&copy), "outer: inner");
    assert_int_equal(hf__error_copy(&copy, &copy), HF_ESERVER);
}

static void test_error_texts_of_the_system(void **state)
{
    (void)state;
    assert_string_equal(hf__errno_text(ENOENT), "No such file or directory");
    assert_string_equal(hf__errno_text(-5), "unknown error");
}

static void test_quote(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        size_t size;
        const char *expected;
    } cases[] = {
        {"orders:42", 9, 96, "\"orders:42\""},
        {"", 0, 96, "\"\""},
        {"a\0b\r\n\x7f\xc3", 7, 96, "\"a\\x00b\\x0d\\x0a\\x7f\\xc3\""},
        {"say \"\\\"", 7, 96, "\"say \\\"\\\\\\\"\""},
        {"abcdef", 6, 9, "\"abcdef\""}, /* just fits */
        {"abcdefg", 7, 9, "\"abc\"..."},
        {"ab\0\0\0\0", 6, 12, "\"ab\\x00\"..."}, /* cut between bytes */
        {"ab\0\0\0\0", 6, 11, "\"ab\"..."},
        {"abc", 3, 5, ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[96];
        memset(out, '#', sizeof(out));
        assert_ptr_equal(
            hf__quote(out, cases[i].size, cases[i].bytes, cases[i].length),
            out);
        assert_string_equal(out, cases[i].expected);
        assert_true(strlen(out) < cases[i].size);
    }
}

static void test_quote_stays_inside(void **state)
{
    (void)state;
    unsigned char name[64];
    for (size_t i = 0; i < sizeof(name); i++) {
        name[i] = (unsigned char)(i * 37);
    }
    for (size_t size = 0; size < 80; size++) {
        for (size_t length = 0; length <= sizeof(name); length++) {
            char *out = malloc(size + 1); /* bounds seen by a checker */
            assert_non_null(out);
            out[size] = '#';
            (void)hf__quote(out, size, name, length);
            assert_true(size == 0 || strlen(out) < size);
            assert_int_equal(out[size], '#');
            free(out);
        }
    }
}

/* ---- log */

typedef struct heard {
    int count;
    hf_log_level level;
    char line[64];
} heard;

static void hear(void *arg, hf_log_level level, const char *line)
{
    heard *into = arg;
    into->count++;
    into->level = level;
    (void)snprintf(into->line, sizeof(into->line), "%s", line);
}

static void test_log(void **state)
{
    (void)state;
    heard into = {0};
    hf__log log = {hear, &into, HF_LOG_WARNING};
    hf__log_line(&log, HF_LOG_INFO, "too talkative");
    assert_int_equal(into.count, 0);
    hf__log_line(&log, HF_LOG_WARNING, "lost %d\nlocks", 3);
    assert_int_equal(into.count, 1);
    assert_int_equal(into.level, HF_LOG_WARNING);
    assert_string_equal(into.line, "lost 3 locks");
    log.fn = NULL;
    hf__log_line(&log, HF_LOG_ERROR, "nobody listens");
}

/* ---- buffer */

static void test_buf_grows(void **state)
{
    (void)state;
    hf__buf buf;
    hf__buf_init(&buf, 100000);
    for (int i = 0; i < 10000; i++) {
        char digit = (char)('0' + i % 10);
        hf__buf_append(&buf, &digit, 1);
    }
    assert_false(buf.failed);
    assert_int_equal(buf.length, 10000);
    for (size_t i = 0; i < buf.length; i++) {
        assert_int_equal(buf.data[i], '0' + (int)(i % 10));
    }
    hf__buf_consume(&buf, 9995);
    assert_int_equal(buf.length, 5);
    assert_memory_equal(buf.data, "56789", 5);
    hf__buf_consume(&buf, 0);
    assert_int_equal(buf.length, 5);
    hf__buf_consume(&buf, 6);
    assert_int_equal(buf.length, 0);
    hf__buf_append(&buf, NULL, 0);
    assert_false(buf.failed);
    hf__buf_free(&buf);
}

static void test_buf_keeps_its_limit(void **state)
{
    (void)state;
    hf__buf buf;
    hf__buf_init(&buf, 100);
    char bytes[101] = {0};
    hf__buf_append(&buf, bytes, 100);
    assert_false(buf.failed);
    assert_int_equal(buf.length, 100);
    assert_true(buf.capacity <= 100);
    hf__buf_append(&buf, bytes, 1);
    assert_true(buf.failed);
    assert_int_equal(buf.length, 100);
    hf__buf_consume(&buf, 50);
    hf__buf_append(&buf, bytes, 1);
    assert_int_equal(buf.length, 50); /* it stays failed */
    assert_false(hf__buf_reserve(&buf, 0));
    hf__buf_clear(&buf);
    assert_true(hf__buf_reserve(&buf, 100));
    assert_int_equal(buf.length, 0);
    assert_false(hf__buf_reserve(&buf, 101));
    hf__buf_free(&buf);
    assert_int_equal(buf.limit, 100);
}

static void test_buf_out_of_memory_sticks(void **state)
{
    (void)state;
    hf__buf buf;
    hf__buf_init(&buf, SIZE_MAX);
    hf__buf_append(&buf, "kept", 4);
    assert_false(hf__buf_reserve(&buf, HOPELESS));
    assert_true(buf.failed);
    hf__buf_append(&buf, "more", 4);
    assert_int_equal(buf.length, 4);
    assert_memory_equal(buf.data, "kept", 4);
    hf__buf_clear(&buf);
    hf__buf_append(&buf, "again", 5);
    assert_false(buf.failed);
    assert_false(hf__buf_reserve(&buf, SIZE_MAX));
    hf__buf_free(&buf);
}

/* ---- list */

typedef struct node {
    int value;
    hf__list link;
} node;

static void test_list(void **state)
{
    (void)state;
    hf__list list;
    node nodes[4];
    hf__list_init(&list);
    assert_true(hf__list_empty(&list));
    assert_null(hf__list_pop(&list));
    for (int i = 0; i < 4; i++) {
        nodes[i].value = i;
        hf__list_init(&nodes[i].link);
    }
    hf__list_append(&list, &nodes[1].link);
    hf__list_append(&list, &nodes[2].link);
    hf__list_append(&list, &nodes[3].link);
    hf__list_prepend(&list, &nodes[0].link);
    hf__list_remove(&nodes[2].link);
    hf__list_remove(&nodes[2].link); /* harmless */
    static const int expected[] = {0, 1, 3};
    for (size_t i = 0; i < 3; i++) {
        hf__list *link = hf__list_pop(&list);
        assert_non_null(link);
        assert_int_equal(HF__CONTAINER(link, node, link)->value, expected[i]);
        assert_true(hf__list_empty(link));
    }
    assert_true(hf__list_empty(&list));
}

/* ---- heap, against an array that is searched */

#define ITEMS 200
#define STEPS 20000

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525U + 1013904223U;
    return *seed >> 8;
}

static void check_heap(const hf__heap *heap, const hf__heap_item *items)
{
    size_t in = 0;
    int64_t earliest = HF__NEVER;
    for (size_t i = 0; i < ITEMS; i++) {
        if (items[i].index != HF__HEAP_NOWHERE) {
            in++;
            assert_true(items[i].index < heap->count);
            assert_ptr_equal(heap->items[items[i].index], &items[i]);
            earliest = items[i].due < earliest ? items[i].due : earliest;
        }
    }
    assert_int_equal(heap->count, in);
    const hf__heap_item *first = hf__heap_first(heap);
    assert_true(in > 0 ? first && first->due == earliest : !first);
}

static void test_heap_against_a_model(void **state)
{
    (void)state;
    hf__heap heap;
    static hf__heap_item items[ITEMS];
    unsigned seed = 12345;
    hf__heap_init(&heap);
    assert_null(hf__heap_first(&heap));
    assert_true(hf__heap_reserve(&heap, ITEMS));
    for (size_t i = 0; i < ITEMS; i++) {
        items[i].index = HF__HEAP_NOWHERE;
    }
    for (int step = 0; step < STEPS; step++) {
        hf__heap_item *item = &items[next_random(&seed) % ITEMS];
        if (next_random(&seed) % 3 == 0) {
            hf__heap_remove(&heap, item);
            assert_true(item->index == HF__HEAP_NOWHERE);
        } else {
            int64_t due = next_random(&seed) % 500; /* many are equal */
            hf__heap_set(&heap, item, due);
            assert_int_equal(item->due, due);
        }
        check_heap(&heap, items);
    }
    int64_t last = -1;
    while (heap.count > 0) {
        hf__heap_item *first = hf__heap_first(&heap);
        assert_true(first->due >= last);
        last = first->due;
        hf__heap_remove(&heap, first);
    }
    hf__heap_free(&heap);
}

static void test_heap_out_of_memory(void **state)
{
    (void)state;
    hf__heap heap;
    hf__heap_item item = {.index = HF__HEAP_NOWHERE};
    hf__heap_init(&heap);
    assert_true(hf__heap_reserve(&heap, 1));
    hf__heap_set(&heap, &item, 5);
    assert_false(hf__heap_reserve(&heap, HOPELESS / sizeof(void *)));
    assert_false(hf__heap_reserve(&heap, SIZE_MAX));
    assert_ptr_equal(hf__heap_first(&heap), &item);
    hf__heap_free(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_texts),
        cmocka_unit_test(test_error_is_filled),
        cmocka_unit_test(test_error_may_be_null),
        cmocka_unit_test(test_error_text_is_one_bounded_line),
        cmocka_unit_test(test_error_may_quote_itself),
        cmocka_unit_test(test_error_texts_of_the_system),
        cmocka_unit_test(test_quote),
        cmocka_unit_test(test_quote_stays_inside),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_buf_grows),
        cmocka_unit_test(test_buf_keeps_its_limit),
        cmocka_unit_test(test_buf_out_of_memory_sticks),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_heap_against_a_model),
        cmocka_unit_test(test_heap_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
