/* See model_pair.h. */
#include "sim/model_pair.h"

#include "support/net.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_WORDS 64
#define REQUEST_MAX ((size_t)1024 * 1024)
/* The connection that looks at keys. */
#define LOOKER (PAIR_CONNS - 1)
#define SHOWN_MAX 60

struct pair {
    srv *server;
    model *m;
    model_conn *conns[PAIR_CONNS];
    redisContext *real[PAIR_CONNS];
    bool exact_words; /* the real server is of the model's own version */
    uint64_t seed;
    uint64_t chance;
    int conn; /* whose requests are queued */
    hf__buf queued;
    FILE *history;
    char *history_text;
    size_t history_size;
};

/* ----------------------------------------------------------------- history */

static void show_bytes(FILE *to, hf__slice text)
{
    (void)fputc(' ', to);
    for (size_t i = 0; i < text.length && i < SHOWN_MAX; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c > ' ' && c < 127) {
            (void)fputc(c, to);
        } else {
            (void)fprintf(to, "\\x%02x", c);
        }
    }
    (void)fputs(text.length > SHOWN_MAX ? "..."
                : text.length == 0      ? "''"
                                        : "",
                to);
}

static void show_reply(FILE *to, const redisReply *reply)
{
    static const char marks[] = {
        [REDIS_REPLY_STRING] = '$',  [REDIS_REPLY_ARRAY] = '*',
        [REDIS_REPLY_INTEGER] = ':', [REDIS_REPLY_NIL] = '_',
        [REDIS_REPLY_STATUS] = '+',  [REDIS_REPLY_ERROR] = '-'};
    if (!reply) {
        (void)fputs(" nothing", to);
        return;
    }
    (void)fprintf(to, " %c", marks[reply->type]);
    if (reply->type == REDIS_REPLY_INTEGER) {
        (void)fprintf(to, "%lld", reply->integer);
    } else if (reply->type == REDIS_REPLY_ARRAY) {
        for (size_t i = 0; i < reply->elements; i++) {
            show_reply(to, reply->element[i]);
        }
        (void)fputs(" .", to);
    } else if (reply->type != REDIS_REPLY_NIL) {
        (void)fwrite(reply->str, 1, (size_t)reply->len, to);
    }
}

static void begin_history(pair *p)
{
    if (p->history) {
        (void)fclose(p->history);
        free(p->history_text);
    }
    p->history = open_memstream(&p->history_text, &p->history_size);
    if (!p->history) {
        test_die("out of memory");
    }
}

void pair_note(pair *p, const char *text)
{
    (void)fprintf(p->history, "     %s\n", text);
}

static _Noreturn void differ(pair *p, int conn, const redisReply *model_says,
                             const redisReply *real_says, const char *what)
{
    (void)fflush(p->history);
    (void)fprintf(stderr, "%s\nconnection %d: %s\n  model:", p->history_text,
                  conn, what);
    show_reply(stderr, model_says);
    (void)fputs("\n  real: ", stderr);
    show_reply(stderr, real_says);
    (void)fputc('\n', stderr);
    test_die("the model and the server differ; HOLDFAST_TEST_SEED=%" PRIu64
             " repeats it",
             p->seed);
}

/* --------------------------------------------------------------- comparing */

static hf__slice text_of(const redisReply *reply)
{
    return (hf__slice){reply->str ? reply->str : "", (size_t)reply->len};
}

static bool same_bytes(hf__slice a, hf__slice b)
{
    return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

/* Other versions say the same errors in other words, but for the first. */
static bool same_error(const pair *p, hf__slice a, hf__slice b)
{
    if (!p->exact_words) {
        const char *end = memchr(a.data, ' ', a.length);
        size_t first = end ? (size_t)(end - a.data) : a.length;
        a.length = first;
        b.length = b.length < first ? b.length : first;
    }
    return same_bytes(a, b);
}

static bool same_number(int64_t a, int64_t b, int64_t tolerance)
{
    return a == b || (tolerance > 0 && a > tolerance && b > tolerance &&
                      llabs(a - b) <= tolerance);
}

/* A text may end in such a number, or be one. */
static bool same_text(hf__slice a, hf__slice b, int64_t tolerance)
{
    int64_t numbers[2];
    size_t space = a.length;
    while (space > 0 && a.data[space - 1] != ' ') {
        space--;
    }
    if (tolerance == 0 || b.length < space ||
        memcmp(a.data, b.data, space) != 0) {
        return same_bytes(a, b);
    }
    const hf__slice ends[] = {{a.data + space, a.length - space},
                              {b.data + space, b.length - space}};
    for (size_t i = 0; i < 2; i++) {
        char *end;
        numbers[i] = strtoll(ends[i].data, &end, 10);
        if (end == ends[i].data || end != ends[i].data + ends[i].length) {
            return same_bytes(a, b);
        }
    }
    return same_number(numbers[0], numbers[1], tolerance);
}

static int by_text(const void *a, const void *b)
{
    const redisReply *const *x = a;
    const redisReply *const *y = b;
    hf__slice s = text_of(*x);
    hf__slice t = text_of(*y);
    size_t n = s.length < t.length ? s.length : t.length;
    int order = memcmp(s.data, t.data, n);
    return order != 0 ? order : (s.length > t.length) - (s.length < t.length);
}

static bool same(const pair *p, const redisReply *a, const redisReply *b,
                 pair_mode mode);

static bool same_members(const pair *p, const redisReply *a,
                         const redisReply *b, pair_mode mode)
{
    if (a->elements != b->elements) {
        return false;
    }
    bool texts = true;
    for (size_t i = 0; i < a->elements; i++) {
        texts &= a->element[i]->type == REDIS_REPLY_STRING &&
                 b->element[i]->type == REDIS_REPLY_STRING;
    }
    if (mode.any_order && texts && a->elements > 0) {
        qsort(a->element, a->elements, sizeof(*a->element), by_text);
        qsort(b->element, b->elements, sizeof(*b->element), by_text);
    }
    for (size_t i = 0; i < a->elements; i++) {
        if (!same(p, a->element[i], b->element[i], mode)) {
            return false;
        }
    }
    return true;
}

static bool same(const pair *p, const redisReply *a, const redisReply *b,
                 pair_mode mode)
{
    if (a->type != b->type) {
        return false;
    }
    switch (a->type) {
    case REDIS_REPLY_INTEGER:
        return same_number(a->integer, b->integer, mode.tolerance);
    case REDIS_REPLY_NIL:
        return true;
    case REDIS_REPLY_ERROR:
        return same_error(p, text_of(a), text_of(b));
    case REDIS_REPLY_ARRAY:
        return same_members(p, a, b, mode);
    default:
        return same_text(text_of(a), text_of(b), mode.tolerance);
    }
}

/* -------------------------------------------------------------- connections
 */

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void pair_reconnect(pair *p, int conn)
{
    struct timeval limit = {.tv_sec = TEST_LIMIT_MS / 1000};
    if (p->conns[conn]) {
        model_disconnect(p->conns[conn]);
    }
    redisFree(p->real[conn]);
    p->conns[conn] = model_connect(p->m, NULL);
    p->real[conn] = redisConnectUnix(srv_socket(p->server));
    if (!p->real[conn] || p->real[conn]->err ||
        redisSetTimeout(p->real[conn], limit) != REDIS_OK) {
        test_die("cannot connect to the server");
    }
}

static redisReply *tell_real(pair *p, int conn, int argc, const char **argv,
                             const size_t *lengths)
{
    redisReply *reply = redisCommandArgv(p->real[conn], argc, argv, lengths);
    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        test_die("%s: %s", argv[0], reply ? reply->str : p->real[conn]->errstr);
    }
    return reply;
}

pair *pair_new(srv *server)
{
    pair *p = calloc(1, sizeof(*p));
    if (!p) {
        test_die("out of memory");
    }
    p->server = server;
    p->m = model_new(0);
    hf__buf_init(&p->queued, REQUEST_MAX);
    char *info = srv_cmd(server, "INFO server");
    p->exact_words = strstr(info, "redis_version:7.0.") != NULL;
    free(info);
    return p;
}

void pair_free(pair *p)
{
    for (int i = 0; i < PAIR_CONNS; i++) {
        redisFree(p->real[i]);
    }
    model_free(p->m);
    hf__buf_free(&p->queued);
    if (p->history) {
        (void)fclose(p->history);
        free(p->history_text);
    }
    free(p);
}

model *pair_model(pair *p)
{
    return p->m;
}

void pair_begin(pair *p, uint64_t seed)
{
    p->seed = seed;
    p->chance = seed;
    begin_history(p);
    model_reset(p->m, seed);
    memset(p->conns, 0, sizeof(p->conns));
    for (int i = 0; i < PAIR_CONNS; i++) {
        pair_reconnect(p, i);
    }
    pair_tell_real(p, "FLUSHALL");
    pair_tell_real(p, "SCRIPT FLUSH");
}

/* ----------------------------------------------------------------- sending */

static size_t split(const char *line, hf__slice words[MOST_WORDS])
{
    size_t count = 0;
    while (*line && count < MOST_WORDS) {
        line += strspn(line, " ");
        bool quoted = *line == '\'';
        line += quoted;
        size_t length = strcspn(line, quoted ? "'" : " ");
        if (length > 0 || quoted) {
            words[count++] = (hf__slice){line, length};
        }
        line += length;
        line += quoted && *line;
    }
    return count;
}

void pair_add(pair *p, int conn, const hf__slice *words, size_t count)
{
    char head[32];
    p->conn = conn;
    (void)fprintf(p->history, "[%d]", conn);
    int n = snprintf(head, sizeof(head), "*%zu\r\n", count);
    hf__buf_append(&p->queued, head, (size_t)n);
    for (size_t i = 0; i < count; i++) {
        n = snprintf(head, sizeof(head), "$%zu\r\n", words[i].length);
        hf__buf_append(&p->queued, head, (size_t)n);
        hf__buf_append(&p->queued, words[i].data, words[i].length);
        hf__buf_append(&p->queued, "\r\n", 2);
        show_bytes(p->history, words[i]);
    }
    (void)fputc('\n', p->history);
}

/* In pieces, as a network may deliver them. */
static void tell_model(pair *p)
{
    const char *at = p->queued.data;
    size_t left = p->queued.length;
    model_set_now(p->m, now_us());
    while (left > 0) {
        p->chance = p->chance * UINT64_C(6364136223846793005) +
                    UINT64_C(1442695040888963407);
        size_t piece = (p->chance >> 33) % 200 + 1;
        piece = piece < left ? piece : left;
        model_receive(p->conns[p->conn], at, piece);
        at += piece;
        left -= piece;
    }
}

static void compare_one(pair *p, int conn, const redisReply *expected,
                        pair_mode mode)
{
    redisReply *reply = NULL;
    if (redisGetReply(p->real[conn], (void **)&reply) != REDIS_OK) {
        differ(p, conn, expected, NULL, p->real[conn]->errstr);
    }
    (void)fprintf(p->history, "  %d>", conn);
    show_reply(p->history, reply);
    (void)fputc('\n', p->history);
    if (!same(p, expected, reply, mode)) {
        differ(p, conn, expected, reply, "another reply");
    }
    freeReplyObject(reply);
}

static void compare_replies(pair *p, int conn, pair_mode mode)
{
    redisReader *reader = redisReaderCreate();
    hf__slice output = model_output(p->conns[conn]);
    redisReply *expected = NULL;
    if (!reader ||
        redisReaderFeed(reader, output.data, output.length) != REDIS_OK) {
        test_die("out of memory");
    }
    while (redisReaderGetReply(reader, (void **)&expected) == REDIS_OK &&
           expected) {
        compare_one(p, conn, expected, mode);
        freeReplyObject(expected);
        expected = NULL;
    }
    if (reader->err) {
        differ(p, conn, NULL, NULL, "the model wrote no RESP");
    }
    redisReaderFree(reader);
    model_taken(p->conns[conn], output.length);
}

/* Until the real server has forgotten it. */
static void wait_gone(pair *p, const model_key *key)
{
    char database[16];
    (void)snprintf(database, sizeof(database), "%d", key->database);
    redisReply *reply =
        tell_real(p, LOOKER, 2, (const char *[]){"SELECT", database}, NULL);
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    bool there = true;
    while (there) {
        freeReplyObject(reply);
        reply =
            tell_real(p, LOOKER, 2, (const char *[]){"EXISTS", key->name.data},
                      (const size_t[]){6, key->name.length});
        there = reply->integer != 0;
        if (there && !test_pause(deadline)) {
            differ(p, LOOKER, NULL, reply, "a key does not end");
        }
    }
    freeReplyObject(reply);
}

/* First on the real server, then in the model, whose clock may have to be put
 * forward by a millisecond for it. */
static void wait_for_ends(pair *p)
{
    int64_t soon = now_us() + PAIR_SOON_MS * INT64_C(1000);
    if (model_next_expiry(p->m) > soon) {
        return;
    }
    for (size_t i = 0; i < model_key_count(p->m); i++) {
        const model_key *key = model_key_at(p->m, i);
        if (key->expires_at < soon / 1000) {
            wait_gone(p, key);
            pair_note(p, "a key has ended");
        }
    }
    int64_t next;
    while ((next = model_next_expiry(p->m)) <= soon) {
        model_set_now(p->m, next);
        if (model_next_expiry(p->m) == next) {
            differ(p, LOOKER, NULL, NULL, "a key does not end in the model");
        }
    }
}

void pair_flush(pair *p, pair_mode mode)
{
    if (p->queued.length == 0) {
        return;
    }
    tell_model(p);
    redisContext *real = p->real[p->conn];
    if (redisAppendFormattedCommand(real, p->queued.data, p->queued.length) !=
        REDIS_OK) {
        test_die("out of memory");
    }
    hf__buf_clear(&p->queued);
    compare_replies(p, p->conn, mode);
    for (int i = 0; i < PAIR_CONNS; i++) {
        compare_replies(p, i, mode);
    }
    wait_for_ends(p);
}

void pair_say(pair *p, int conn, const char *line, pair_mode mode)
{
    hf__slice words[MOST_WORDS];
    size_t count = split(line, words);
    pair_add(p, conn, words, count);
    pair_flush(p, mode);
}

typedef struct real_words {
    int count;
    const char *at[MOST_WORDS];
    size_t lengths[MOST_WORDS];
} real_words;

static void split_real(const char *line, real_words *words)
{
    hf__slice slices[MOST_WORDS];
    words->count = (int)split(line, slices);
    for (int i = 0; i < words->count; i++) {
        words->at[i] = slices[i].data;
        words->lengths[i] = slices[i].length;
    }
}

void pair_tell_real(pair *p, const char *line)
{
    real_words words;
    split_real(line, &words);
    pair_note(p, line);
    freeReplyObject(tell_real(p, LOOKER, words.count, words.at, words.lengths));
}

static void wait_busy(pair *p, bool wanted)
{
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    bool busy = !wanted;
    while (busy != wanted) {
        redisReply *reply = redisCommand(p->real[LOOKER], "PING");
        busy = reply && reply->type == REDIS_REPLY_ERROR;
        freeReplyObject(reply);
        if (busy != wanted && !test_pause(deadline)) {
            test_die("the server does not become %s", wanted ? "busy" : "free");
        }
    }
}

/* On a connection whose reply, when it is killed, nobody reads. */
void pair_hang_real(pair *p, const char *line)
{
    real_words words;
    int sent = 0;
    redisContext *other = redisConnectUnix(srv_socket(p->server));
    split_real(line, &words);
    if (!other || other->err ||
        redisAppendCommandArgv(other, words.count, words.at, words.lengths) !=
            REDIS_OK) {
        test_die("cannot connect to the server");
    }
    while (!sent && redisBufferWrite(other, &sent) == REDIS_OK) {
    }
    wait_busy(p, true);
    redisFree(other);
}

void pair_free_real(pair *p)
{
    pair_tell_real(p, "SCRIPT KILL");
    wait_busy(p, false);
}

/* ----------------------------------------------------------------- looking */

static void ask_of(pair *p, const char *command, const model_key *key)
{
    hf__slice words[] = {hf__slice_of(command),
                         {key->name.data, key->name.length},
                         HF__LITERAL("0"),
                         HF__LITERAL("-1"),
                         HF__LITERAL("WITHSCORES")};
    size_t count = strcmp(command, "LRANGE") == 0   ? 4
                   : strcmp(command, "ZRANGE") == 0 ? 5
                                                    : 2;
    pair_add(p, LOOKER, words, count);
}

static void look_at_database(pair *p, int database)
{
    static const char *const readers[] = {[MODEL_STRING] = "GET",
                                          [MODEL_HASH] = "HGETALL",
                                          [MODEL_LIST] = "LRANGE",
                                          [MODEL_ZSET] = "ZRANGE"};
    hf__slice select[] = {HF__LITERAL("SELECT"),
                          database ? HF__LITERAL("1") : HF__LITERAL("0")};
    hf__slice size[] = {HF__LITERAL("DBSIZE")};
    pair_add(p, LOOKER, select, 2);
    pair_add(p, LOOKER, size, 1);
    for (size_t i = 0; i < model_key_count(p->m); i++) {
        const model_key *key = model_key_at(p->m, i);
        if (key->database == database) {
            ask_of(p, "TYPE", key);
            ask_of(p, "PTTL", key);
            ask_of(p, readers[key->type], key);
        }
    }
    pair_flush(p, (pair_mode){.tolerance = PAIR_SOON_MS});
}

void pair_look(pair *p)
{
    hf__slice ping[] = {HF__LITERAL("PING")};
    look_at_database(p, 0);
    look_at_database(p, 1);
    for (int i = 0; i < PAIR_CONNS; i++) {
        pair_add(p, i, ping, 1);
        pair_flush(p, (pair_mode){.tolerance = 0});
    }
}
