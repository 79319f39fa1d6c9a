#include "redis/resp.h"

#include "base/decimal.h"

#include <hiredis/hiredis.h>
#include <hiredis/read.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- writing */

/* What a head such as "$123\r\n" takes at most, and a bulk's last "\r\n". */
#define FRAME_MAX (HF__DECIMAL_MAX + 5)

static char *write_head(char *at, char mark, size_t number)
{
    *at++ = mark;
    at = hf__decimal(at, number);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

static char *write_bulk(char *at, const char *data, size_t length)
{
    at = write_head(at, '$', length);
    memcpy(at, data, length);
    at += length;
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

static size_t size_at_most(const hf__call *call, size_t text_length)
{
    size_t size = (call->count + 5) * FRAME_MAX + text_length;
    for (size_t i = 0; i < call->count; i++) {
        size += call->args[i].length;
    }
    return size;
}

static char *write_script(char *at, const hf__call *call, bool with_text)
{
    const hf__script *script = call->script;
    char keys[HF__DECIMAL_MAX];
    if (with_text) {
        at = write_bulk(at, "EVAL", 4);
        at = write_bulk(at, script->text, script->length);
    } else {
        at = write_bulk(at, "EVALSHA", 7);
        at = write_bulk(at, script->sha1, 40);
    }
    return write_bulk(at, keys, (size_t)(hf__decimal(keys, call->keys) - keys));
}

void hf__resp_encode(hf__buf *out, const hf__call *call, bool with_text)
{
    size_t text = call->script && with_text ? call->script->length : 64;
    if (!hf__buf_reserve(out, size_at_most(call, text))) {
        return;
    }
    char *at = out->data + out->length;
    at = write_head(at, '*', call->count + (call->script ? 3 : 0));
    if (call->script) {
        at = write_script(at, call, with_text);
    }
    for (size_t i = 0; i < call->count; i++) {
        at = write_bulk(at, call->args[i].data, call->args[i].length);
    }
    out->length = (size_t)(at - out->data);
}

/* ---------------------------------------------------------------- reading */

/* Values of one reply come from a chain of blocks, all dropped together when
 * the next reply begins. The first block stays, so that a small reply costs
 * no allocation. */
typedef struct block {
    struct block *next;
    size_t used;
    size_t size;
    max_align_t data[];
} block;

#define BLOCK_SIZE ((size_t)2048)

struct hf__resp {
    redisReader *reader;
    block *first;
    block *current;
    size_t values;       /* made for the reply under way */
    size_t bytes;        /* of its texts */
    bool finished;       /* the last value was handed out: drop it next time */
    const char *refused; /* why a value was not made; NULL: no memory */
};

static block *block_new(size_t size)
{
    block *b = malloc(sizeof(*b) + size);
    if (b) {
        b->next = NULL;
        b->used = 0;
        b->size = size;
    }
    return b;
}

static void drop_values(hf__resp *resp)
{
    block *b = resp->first->next;
    while (b) {
        block *next = b->next;
        free(b);
        b = next;
    }
    resp->first->next = NULL;
    resp->first->used = 0;
    resp->current = resp->first;
    resp->values = 0;
    resp->bytes = 0;
}

static void *take(hf__resp *resp, size_t size)
{
    size = (size + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
    if (resp->current->size - resp->current->used < size) {
        block *b = block_new(size > BLOCK_SIZE ? size : BLOCK_SIZE);
        if (!b) {
            return NULL;
        }
        resp->current->next = b;
        resp->current = b;
    }
    void *p = (char *)resp->current->data + resp->current->used;
    resp->current->used += size;
    return p;
}

static void *refuse(hf__resp *resp, const char *why)
{
    resp->refused = why;
    return NULL;
}

/* RESP3 was not asked for; hiredis 0.14 refuses it by itself. */
static void *refuse_resp3(const redisReadTask *task)
{
    return refuse(task->privdata, "is RESP3, which was not asked for");
}

static hf__value *add_value(const redisReadTask *task, hf__value_type type)
{
    hf__resp *resp = task->privdata;
    if (resp->values >= HF__RESP_VALUES_MAX) {
        return refuse(resp, "is too large");
    }
    hf__value *value = take(resp, sizeof(*value));
    if (!value) {
        return NULL;
    }
    resp->values++;
    *value = (hf__value){.type = type};
    if (task->parent) {
        hf__value *array = task->parent->obj;
        if (array->last) {
            array->last->next = value;
        } else {
            array->first = value;
        }
        array->last = value;
        array->count++;
    }
    return value;
}

static void *create_string(const redisReadTask *task, char *text, size_t length)
{
    if (task->type != REDIS_REPLY_ERROR && task->type != REDIS_REPLY_STATUS &&
        task->type != REDIS_REPLY_STRING) {
        return refuse_resp3(task);
    }
    hf__value_type type = task->type == REDIS_REPLY_ERROR    ? HF__VALUE_ERROR
                          : task->type == REDIS_REPLY_STATUS ? HF__VALUE_STATUS
                                                             : HF__VALUE_STRING;
    hf__resp *resp = task->privdata;
    resp->bytes += length;
    if (resp->bytes > HF__RESP_TEXT_MAX) {
        return refuse(resp, "is too large");
    }
    hf__value *value = add_value(task, type);
    char *copy = value ? take(task->privdata, length + 1) : NULL;
    if (!copy) {
        return NULL;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    value->text = (hf__slice){copy, length};
    return value;
}

static void *create_integer(const redisReadTask *task, long long integer)
{
    hf__value *value = add_value(task, HF__VALUE_INTEGER);
    if (value) {
        value->integer = integer;
    }
    return value;
}

/* A nil of RESP2 is a string or an array without a length. */
static void *create_nil(const redisReadTask *task)
{
    return task->type == REDIS_REPLY_NIL ? refuse_resp3(task)
                                         : add_value(task, HF__VALUE_NIL);
}

static int depth_of(const redisReadTask *task)
{
    int depth = 0;
    for (; task->parent; task = task->parent) {
        depth++;
    }
    return depth;
}

/* Members come as they are read: what the server merely announces costs no
 * memory. */
#if HIREDIS_MAJOR >= 1
static void *create_array(const redisReadTask *task, size_t announced)
#else
static void *create_array(const redisReadTask *task, int announced)
#endif
{
    (void)announced;
    if (task->type != REDIS_REPLY_ARRAY) {
        return refuse_resp3(task);
    }
    if (depth_of(task) >= HF__RESP_DEPTH_MAX) {
        return refuse(task->privdata, "is nested too deep");
    }
    return add_value(task, HF__VALUE_ARRAY);
}

/* The item that the reader is in the middle of. */
#if HIREDIS_MAJOR >= 1
#define TASK_TYPE(reader) ((reader)->task[(reader)->ridx]->type)
#else
#define TASK_TYPE(reader) ((reader)->rstack[(reader)->ridx].type)
#endif

#if HIREDIS_MAJOR >= 1
static void *create_double(const redisReadTask *task, double number, char *text,
                           size_t length)
{
    (void)number;
    (void)text;
    (void)length;
    return refuse_resp3(task);
}

static void *create_bool(const redisReadTask *task, int truth)
{
    (void)truth;
    return refuse_resp3(task);
}
#endif

/* The values are the blocks'. */
static void free_object(void *object)
{
    (void)object;
}

static redisReplyObjectFunctions functions = {
    .createString = create_string,
    .createArray = create_array,
    .createInteger = create_integer,
    .createNil = create_nil,
    .freeObject = free_object,
#if HIREDIS_MAJOR >= 1
    .createDouble = create_double,
    .createBool = create_bool,
#endif
};

hf__resp *hf__resp_new(void)
{
    hf__resp *resp = calloc(1, sizeof(*resp));
    if (!resp) {
        return NULL;
    }
    resp->first = block_new(BLOCK_SIZE);
    resp->current = resp->first;
    resp->reader = redisReaderCreateWithFunctions(&functions);
    if (!resp->first || !resp->reader) {
        hf__resp_free(resp);
        return NULL;
    }
    resp->reader->privdata = resp;
    /* 0 keeps the reader's buffer: 0.14 asserts where it cannot make a new
     * one. */
    resp->reader->maxbuf = 0;
    return resp;
}

void hf__resp_free(hf__resp *resp)
{
    if (!resp) {
        return;
    }
    if (resp->reader) {
        redisReaderFree(resp->reader);
    }
    if (resp->first) {
        drop_values(resp);
        free(resp->first);
    }
    free(resp);
}

static hf_status reader_failed(const hf__resp *resp, hf_error *err)
{
    if (resp->refused) {
        return hf__error_set(err, HF_EPROTOCOL, "the server's reply %s",
                             resp->refused);
    }
    if (resp->reader->err == REDIS_ERR_OOM) {
        return hf__error_nomem(err);
    }
    return hf__error_set(err, HF_EPROTOCOL,
                         "the server's reply is no RESP2: %s",
                         resp->reader->errstr);
}

hf_status hf__resp_feed(hf__resp *resp, const char *bytes, size_t length,
                        hf_error *err)
{
    if (redisReaderFeed(resp->reader, bytes, length) != REDIS_OK) {
        return reader_failed(resp, err);
    }
    return HF_OK;
}

#define HEAD_MAX 32

/* What is buffered of an item that is not whole yet. */
static hf_status check_backlog(const hf__resp *resp, hf_error *err)
{
    const redisReader *reader = resp->reader;
    size_t waiting = reader->len - reader->pos;
    /* Only behind its head, "$123\r\n", has a bulk a right to its length. */
    size_t head = waiting < HEAD_MAX ? waiting : HEAD_MAX;
    bool bulk = reader->ridx >= 0 && TASK_TYPE(reader) == REDIS_REPLY_STRING &&
                memchr(reader->buf + reader->pos, '\n', head) != NULL;
    size_t limit = HF__RESP_LINE_MAX + (bulk ? HF__RESP_BULK_MAX : 0);
    if (waiting > limit) {
        return hf__error_set(err, HF_EPROTOCOL,
                             "the server's reply is larger than %zu bytes",
                             limit);
    }
    return HF_OK;
}

hf_status hf__resp_next(hf__resp *resp, const hf__value **value, hf_error *err)
{
    void *reply = NULL;
    if (resp->finished) {
        drop_values(resp);
        resp->finished = false;
    }
    if (redisReaderGetReply(resp->reader, &reply) != REDIS_OK) {
        return reader_failed(resp, err);
    }
    if (reply) {
        resp->finished = true;
    } else if (check_backlog(resp, err) != HF_OK) {
        return HF_EPROTOCOL;
    }
    *value = reply;
    return HF_OK;
}
