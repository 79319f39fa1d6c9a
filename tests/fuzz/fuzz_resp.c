/* The reply reader on any bytes. However they are cut into pieces, the same
 * values and the same error come out; what comes out is a sound tree; and what
 * could have been a call reads back as it was after it is written. */
#include "fuzz/fuzz.h"

#include "redis/resp.h"

#include <string.h>

#define TEXT_MAX ((size_t)64 * 1024 * 1024)
#define ARGS_MAX 64

/* All that was read from an input. */
typedef struct outcome {
    hf__buf values; /* as bytes that differ when the values do */
    size_t count;   /* of values */
    hf_error err;   /* HF_OK when more bytes are wanted */
} outcome;

/* ---- values as bytes */

static void put(hf__buf *out, const void *bytes, size_t length)
{
    hf__buf_append(out, bytes, length);
    FUZZ_CHECK(!out->failed);
}

static void put_value(hf__buf *out, const hf__value *value, int depth);

static void put_members(hf__buf *out, const hf__value *array, int depth)
{
    size_t count = 0;
    const hf__value *last = NULL;
    for (const hf__value *v = array->first; v; v = v->next) {
        put_value(out, v, depth + 1);
        last = v;
        count++;
    }
    FUZZ_CHECK(count == array->count);
    FUZZ_CHECK(last == array->last);
}

static void put_value(hf__buf *out, const hf__value *value, int depth)
{
    FUZZ_CHECK(depth <= HF__RESP_DEPTH_MAX);
    put(out, &value->type, sizeof(value->type));
    switch (value->type) {
    case HF__VALUE_NIL:
        return;
    case HF__VALUE_INTEGER:
        put(out, &value->integer, sizeof(value->integer));
        return;
    case HF__VALUE_STRING:
    case HF__VALUE_STATUS:
    case HF__VALUE_ERROR:
        FUZZ_CHECK(value->text.data[value->text.length] == '\0');
        put(out, &value->text.length, sizeof(value->text.length));
        put(out, value->text.data, value->text.length);
        return;
    case HF__VALUE_ARRAY:
        put(out, &value->count, sizeof(value->count));
        put_members(out, value, depth);
        return;
    }
    fuzz_fail(__FILE__, __LINE__, "a type that there is");
}

/* ---- reading */

/* A reader that has failed says the same for ever. */
static void check_sticky(hf__resp *resp, const hf_error *err)
{
    const hf__value *value = NULL;
    hf_error again = HF_ERROR_INIT;
    hf_status status = hf__resp_next(resp, &value, &again);
    FUZZ_CHECK(status == hf_error_status(err));
    FUZZ_CHECK(strcmp(hf_error_text(&again), hf_error_text(err)) == 0);
    FUZZ_CHECK(!value);
}

/* False when the reader has failed. */
static bool read_values(hf__resp *resp, outcome *out)
{
    for (;;) {
        const hf__value *value = NULL;
        if (hf__resp_next(resp, &value, &out->err) != HF_OK) {
            FUZZ_CHECK(hf_error_status(&out->err) == HF_EPROTOCOL);
            check_sticky(resp, &out->err);
            return false;
        }
        if (!value) {
            return true;
        }
        out->count++;
        put_value(&out->values, value, 0);
    }
}

/* How many bytes come next: 0 for all, 1 for one, else some, by chance. */
static size_t next_piece(uint32_t *seed, size_t left)
{
    if (*seed < 2) {
        return *seed == 0 || left < 1 ? left : 1;
    }
    *seed = *seed * 1664525U + 1013904223U;
    *seed |= 2;
    size_t n = 1 + (*seed >> 16) % ((*seed >> 8) % 4 ? 8 : 64);
    return n < left ? n : left;
}

static outcome read_in_pieces(const uint8_t *data, size_t size, uint32_t seed)
{
    outcome out = {.err = HF_ERROR_INIT};
    hf__resp *resp = hf__resp_new();
    FUZZ_CHECK(resp);
    hf__buf_init(&out.values, TEXT_MAX);
    bool good = true;
    while (good && size > 0) {
        size_t n = next_piece(&seed, size);
        hf_status status = hf__resp_feed(resp, (const char *)data, n, &out.err);
        FUZZ_CHECK(status == HF_OK);
        good = read_values(resp, &out);
        data += n;
        size -= n;
    }
    hf__resp_free(resp);
    return out;
}

static void check_same(const outcome *a, const outcome *b)
{
    FUZZ_CHECK(a->count == b->count);
    FUZZ_CHECK(a->values.length == b->values.length);
    FUZZ_CHECK(a->values.length == 0 ||
               memcmp(a->values.data, b->values.data, a->values.length) == 0);
    FUZZ_CHECK(hf_error_status(&a->err) == hf_error_status(&b->err));
    FUZZ_CHECK(strcmp(hf_error_text(&a->err), hf_error_text(&b->err)) == 0);
}

/* ---- writing */

/* The texts of an array, as arguments; 0 if it has anything else. */
static size_t args_of(const hf__value *array, hf__slice *args)
{
    size_t n = 0;
    if (array->type != HF__VALUE_ARRAY || array->count > ARGS_MAX) {
        return 0;
    }
    for (const hf__value *v = array->first; v; v = v->next) {
        if (v->type != HF__VALUE_STRING) {
            return 0;
        }
        args[n++] = v->text;
    }
    return n;
}

static void check_written(const hf__value *value)
{
    hf__slice args[ARGS_MAX];
    hf__call call;
    hf__buf wire;
    hf__buf before;
    hf__call_begin(&call, NULL);
    call.args = args;
    call.count = args_of(value, args);
    if (call.count == 0) {
        return;
    }
    hf__buf_init(&wire, TEXT_MAX);
    hf__resp_encode(&wire, &call, false);
    FUZZ_CHECK(!wire.failed);
    hf__buf_init(&before, TEXT_MAX);
    put_value(&before, value, 0);
    outcome read = read_in_pieces((const uint8_t *)wire.data, wire.length, 0);
    FUZZ_CHECK(hf_error_status(&read.err) == HF_OK && read.count == 1);
    FUZZ_CHECK(read.values.length == before.length);
    FUZZ_CHECK(memcmp(read.values.data, before.data, before.length) == 0);
    hf__buf_free(&read.values);
    hf__buf_free(&before);
    hf__buf_free(&wire);
}

static void check_first_written(const uint8_t *data, size_t size)
{
    const hf__value *value = NULL;
    hf__resp *resp = hf__resp_new();
    FUZZ_CHECK(resp);
    if (hf__resp_feed(resp, (const char *)data, size, NULL) == HF_OK &&
        hf__resp_next(resp, &value, NULL) == HF_OK && value) {
        check_written(value);
    }
    hf__resp_free(resp);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Near the limit of a line it matters whether its end has come. */
    if (size > HF__RESP_LINE_MAX) {
        return 0;
    }
    outcome whole = read_in_pieces(data, size, 0);
    for (uint32_t seed = 1; seed <= 3; seed++) {
        outcome pieces = read_in_pieces(data, size, seed);
        check_same(&whole, &pieces);
        hf__buf_free(&pieces.values);
    }
    hf__buf_free(&whole.values);
    check_first_written(data, size);
    return 0;
}
