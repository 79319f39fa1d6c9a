/* The model of a server: beside a real one, in random and in chosen histories,
 * and where no real one can be asked, by itself. HOLDFAST_TEST_SEED repeats
 * one random history. */
#include "sim/model_pair.h"
#include "sim/model_vocabulary.h"

#include "kinds/scripts.h"
#include "support/locks.h"
#include "support/net.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HISTORIES 1000
#define ROUNDS 60
#define HOUR_MS INT64_C(3600000)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define WRITER "c0ffee00-0000-4000-8000-000000000000:1:write"

static srv *server;
static pair *both;

static const pair_mode exact = {.tolerance = 0};
static const pair_mode timed = {.tolerance = PAIR_SOON_MS};
static const pair_mode unordered = {.any_order = true};

/* ------------------------------------------------------- random histories */

/* The product's own, with what they are given. */
static const struct {
    const hf__script *script;
    const char *words; /* number of keys first */
} own_scripts[] = {
    {&hf__script_lock_acquire, "1 k t f"},
    {&hf__script_lock_acquire, "1 k t f"},
    {&hf__script_lock_release, "1 k f n t c"},
    {&hf__script_lock_release, "1 k f 0 t c"},
    {&hf__script_lock_renew, "1 k t f"},
    {&hf__script_lock_renew, "3 k k k t f 0 f t f"},
    {&hf__script_lock_force, "1 k c"},
    {&hf__script_lock_probe, "1 k c holdfast:probe"},
    {&hf__script_lock_acquire, "1 k t f again"},
    {&hf__script_lock_acquire, "1 k t f once"},
    {&hf__script_lock_look, "1 k f"},
    {&hf__script_read_acquire, "2 rw other t f 0"},
    {&hf__script_read_acquire, "2 rw other t f 1"},
    {&hf__script_read_release, "1 rw f m t c"},
    {&hf__script_read_release, "1 rw f 0 t c"},
    {&hf__script_read_renew, "2 rw rw t f 0 f"},
    {&hf__script_write_acquire, "2 rw other t " WRITER " 0"},
    {&hf__script_write_acquire, "2 rw other t " WRITER " t"},
    {&hf__script_write_release, "2 rw other " WRITER " m t c"},
    {&hf__script_write_release, "2 rw other " WRITER " 0 t c"},
    {&hf__script_write_renew, "2 rw rw t " WRITER " 0 f"},
    {&hf__script_rw_force, "1 rw c read 0"},
    {&hf__script_rw_force, "1 rw c write 1"},
    {&hf__script_rw_look, "1 rw f read"},
    {&hf__script_rw_look, "1 rw " WRITER " write"},
    {&hf__script_rw_probe, "2 k other c holdfast:probe"},
    {&hf__script_fenced_acquire, "2 k other t f 0"},
    {&hf__script_fenced_acquire, "2 k other t f t"},
    {&hf__script_fenced_renew, "2 k k t f 0 f"},
    {&hf__script_fair_acquire, "3 k l z t f 0"},
    {&hf__script_fair_acquire, "3 k l z t f t"},
    {&hf__script_fair_acquire, "3 k l z t f n"},
    {&hf__script_fair_acquire, "3 k l z t f t once"},
    {&hf__script_fair_release, "3 k l z f 0 t t c"},
    {&hf__script_fair_release, "3 k l z f n t t c"},
    {&hf__script_fair_force, "3 k l z c"},
    {&hf__script_fair_probe, "3 k l z c holdfast:probe"},
    {&hf__script_simple_release, "1 other f 0 t"},
    {&hf__script_simple_release, "1 other f 1 t why"},
    {&hf__script_simple_renew, "2 other k t f 0 f"},
    {&hf__script_simple_force, "1 other"},
    {&hf__script_simple_look, "1 other f"},
    {&hf__script_counter_add, "2 other rec f n n c 0"},
    {&hf__script_counter_add, "2 other rec f n n c 1"},
    {&hf__script_counter_set, "2 other rec f n n c t v"},
    {&hf__script_latch_count_down, "2 other rec f n n c"},
    {&hf__script_latch_delete, "2 other rec f n c"},
    {&hf__script_latch_probe, "2 other rec c"},
    {&hf__script_semaphore_acquire, "2 other rec n f n"},
    {&hf__script_semaphore_acquire_in_turn, "3 other rec z n f n c 1"},
    {&hf__script_semaphore_release, "2 other rec f c n"},
    {&hf__script_semaphore_release, "3 other rec z f c n"},
    {&hf__script_semaphore_drain, "2 other rec f n"},
    {&hf__script_semaphore_probe, "3 other rec z c"},
    {&hf__script_permit_acquire, "2 other z t f c"},
    {&hf__script_permit_release, "2 other z f 0 t c"},
    {&hf__script_permit_release, "2 other z f 1 t c"},
    {&hf__script_permit_renew, "2 other k t f 0 f"},
    {&hf__script_permit_count, "2 other z c"},
    {&hf__script_permit_force, "2 other z c"},
    {&hf__script_permit_look, "2 other z f"},
    {&hf__script_permit_probe, "2 other z c"},
    {&hf__script_permit_set, "3 other rec z f n n c"},
};

/* What is said of these depends on the time of either server, or is about a
 * key that ends soon: here the time is a key, and nothing ends. */
static const struct {
    const char *old;
    const char *new;
} stilled[] = {
    {"redis.call('time')", "{redis.call('get', 'clock') or '0', '250000'}"},
    {"call('time')", "{call('get', 'clock') or '0', '250000'}"},
    {"call('pttl', key)\nlocal free",
     "call('exists', key) == 1 and 7200000 or -2\nlocal free"},
    {"'px', 5000", "'px', 7200000"},
    {"queue, 10000", "queue, 7200000"},
};

static char *still_texts[COUNT(own_scripts)];

/* A copy of the text with one thing in the place of another. */
static char *replaced(const char *text, const char *old, const char *new)
{
    size_t size = strlen(text) * (strlen(new) / strlen(old) + 1) + 1;
    char *copy = malloc(size);
    char *to = copy;
    assert_non_null(copy);
    for (const char *at = text; *at;) {
        if (strncmp(at, old, strlen(old)) == 0) {
            to += snprintf(to, size - (size_t)(to - copy), "%s", new);
            at += strlen(old);
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
    return copy;
}

/* NULL if the script is fit as it is. */
static char *still(const char *text)
{
    char *made = NULL;
    for (size_t i = 0; i < COUNT(stilled); i++) {
        const char *from = made ? made : text;
        if (strstr(from, stilled[i].old)) {
            char *next = replaced(from, stilled[i].old, stilled[i].new);
            free(made);
            made = next;
        }
    }
    return made;
}

static int start_server(void **state)
{
    (void)state;
    server = srv_start(NULL);
    both = pair_new(server);
    for (size_t i = 0; i < COUNT(own_scripts); i++) {
        still_texts[i] = still(own_scripts[i].script->text);
    }
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    pair_free(both);
    srv_stop(server);
    for (size_t i = 0; i < COUNT(own_scripts); i++) {
        free(still_texts[i]);
    }
    return 0;
}

typedef struct history {
    uint64_t seed;
    unsigned leases; /* given so far: each is another */
    bool ends_soon;  /* one that is over in some milliseconds */
    const char *key; /* mostly named: of the type at hand; NULL: any */
    size_t count;
    hf__slice words[40];
    char text[40][40];
} history;

static uint64_t chance(history *h, uint64_t below)
{
    uint64_t x = h->seed += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (x ^ (x >> 31)) % below;
}

static void add_text(history *h, const char *text)
{
    assert_true(h->count < COUNT(h->words));
    h->words[h->count++] = hf__slice_of(text);
}

__attribute__((format(printf, 2, 3))) static void
add_format(history *h, const char *format, ...)
{
    char *text = h->text[h->count];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(h->text[0]), format, args);
    va_end(args);
    add_text(h, text);
}

#define ADD_ONE_OF(h, ...)                                                     \
    do {                                                                       \
        static const char *const some[] = {__VA_ARGS__};                       \
        add_text(h, some[chance(h, COUNT(some))]);                             \
    } while (0)

/* In milliseconds: hours mostly, of which no two are near each other. */
static void add_lease(history *h, bool seconds)
{
    uint64_t kind = chance(h, 20);
    if (kind == 0) {
        ADD_ONE_OF(h, "none", "", "1.5", "9223372036854775807", "+1", "01");
    } else if (kind == 1) {
        ADD_ONE_OF(h, "0", "-1", "-100000", "-9223372036854775807");
    } else if (kind == 2 && !seconds) {
        h->ends_soon = true;
        add_format(h, "%" PRIu64, 1 + chance(h, 3));
    } else {
        uint64_t serial = chance(h, 100) * 1000 + h->leases++ % 1000;
        uint64_t lease = (uint64_t)HOUR_MS + serial * 2 * PAIR_SOON_MS;
        add_format(h, "%" PRIu64, seconds ? lease / 1000 : lease);
    }
}

static void add_number(history *h)
{
    if (chance(h, 12) == 0) {
        ADD_ONE_OF(h, "abc", "", "1.5", "+1", "01", " 1", "-0", "-",
                   "9223372036854775807", "-9223372036854775807",
                   "9223372036854775808", "18446744073709551617");
    } else {
        add_format(h, "%d", (int)chance(h, 8) - 3);
    }
}

static void add_score(history *h, bool bound)
{
    if (chance(h, 10) == 0) {
        ADD_ONE_OF(h, "abc", "", "nan", "+inf", "-inf", "inf");
    } else {
        add_format(h, "%s%.1f", bound && chance(h, 3) == 0 ? "(" : "",
                   (double)chance(h, 12) / 2 - 1);
    }
}

static void add_word(history *h, char letter)
{
    switch (letter) {
    case 'k':
        if (h->key && chance(h, 4) > 0) {
            add_text(h, h->key);
            break;
        }
        ADD_ONE_OF(h, "lock", "{t}:lock", "a b", "s", "l", "z", "other");
        break;
    case 'f':
        ADD_ONE_OF(h, "c0ffee00-0000-4000-8000-000000000000:1",
                   "c0ffee00-0000-4000-8000-000000000000:2",
                   "c0ffee00-0000-4000-8000-000000000001:1", "x", "");
        break;
    case 'v':
        ADD_ONE_OF(h, "1", "2", "7", "0", "-1", "text", "", "two words",
                   "9223372036854775807", "1.5");
        break;
    case 'c':
        ADD_ONE_OF(h, "redisson_lock__channel:{lock}", "c2", "c3");
        break;
    case 'n':
        add_number(h);
        break;
    case 'm': /* how often: a script may count so far */
        add_format(h, "%d", (int)chance(h, 4));
        break;
    case 's':
    case 'b':
        add_score(h, letter == 'b');
        break;
    default:
        add_lease(h, letter == 'T');
    }
}

/* The words of a template such as "HGET k f". */
static void add_template(history *h, const char *words)
{
    while (*words) {
        size_t length = strcspn(words, " ");
        if (length == 1 && strchr("kfvcnmsbtT", *words)) {
            add_word(h, *words);
        } else {
            add_format(h, "%.*s", (int)length, words);
        }
        words += length;
        words += *words == ' ';
    }
}

static void add_command(history *h)
{
    size_t from = h->count;
    const char *words = commands[chance(h, COUNT(commands))];
    h->key = *words == 'H'                    ? "lock"
             : *words == 'L' || *words == 'R' ? "l"
             : *words == 'Z'                  ? "z"
                                              : NULL;
    add_template(h, words);
    switch (chance(h, 40)) {
    case 0:
        h->count -= h->count > from + 1;
        break;
    case 1:
        add_word(h, "kfvn"[chance(h, 4)]);
        break;
    case 2:
        h->words[from] = HF__LITERAL("hGet");
        break;
    case 3:
        h->words[from] = HF__LITERAL("NOSUCH");
        break;
    default:
        break;
    }
}

static void add_script(history *h, size_t i)
{
    const hf__script *script = own_scripts[i].script;
    bool with_text = chance(h, 3) == 0 || still_texts[i];
    add_text(h, with_text ? "EVAL" : "EVALSHA");
    if (still_texts[i]) {
        add_text(h, still_texts[i]);
    } else if (with_text) {
        h->words[h->count++] = (hf__slice){script->text, script->length};
    } else {
        add_text(h, script->sha1);
    }
}

static bool is_timed(const history *h)
{
    return hf__slice_is(h->words[0], "PTTL") ||
           hf__slice_is(h->words[0], "TTL") ||
           hf__slice_begins(h->words[0], "EVAL");
}

static void send_words(history *h, int conn)
{
    pair_add(both, conn, h->words, h->count);
    pair_mode mode = is_timed(h) ? timed : exact;
    if (hf__slice_is(h->words[0], "TTL")) {
        mode.tolerance /= 1000;
    }
    /* Some go out together. What comes behind a key's end must not. */
    if (h->ends_soon || mode.tolerance > 0 || chance(h, 3) > 0) {
        pair_flush(both, mode);
    }
    h->count = 0;
    h->ends_soon = false;
}

static void do_rarer(history *h)
{
    static const char *const lines[] = {
        "SCRIPT FLUSH",
        "SCRIPT EXISTS none",
        "SELECT 0",
        "SELECT 1",
        "SELECT 0",
        "SELECT 99",
        "PING",
        "PING word",
        "PUBSUB NUMSUB c2 c3",
        "WAIT 0 0",
        "SCAN 0 COUNT 1000",
        "SCAN 0 COUNT 1000 TYPE hash",
        "PUBSUB CHANNELS",
        "SCAN 0 MATCH *o* COUNT 1000",
        "FLUSHALL",
        "ROLE",
        "CLIENT KILL TYPE pubsub x",
    };
    pair_flush(both, exact);
    pair_say(both, 0, lines[chance(h, COUNT(lines))], unordered);
}

/* On a connection of its own, to which messages come. In which order many
 * channels are left at once is nobody's business. */
static void do_subscriptions(history *h)
{
    static const char *const templates[] = {
        "SUBSCRIBE c",  "SUBSCRIBE c",   "SUBSCRIBE c c",
        "SSUBSCRIBE c", "UNSUBSCRIBE c", "GET k",
        "PING",         "UNSUBSCRIBE",   "SUNSUBSCRIBE"};
    size_t most = COUNT(templates);
    pair_flush(both, exact);
    if (model_subscriptions(pair_model(both)) > 1) {
        most -= 2;
    }
    add_template(h, templates[chance(h, most)]);
    pair_add(both, 1, h->words, h->count);
    pair_flush(both, exact);
    h->count = 0;
}

static void do_round(history *h)
{
    uint64_t what = chance(h, 20);
    if (what == 0) {
        do_rarer(h);
    } else if (what == 1) {
        do_subscriptions(h);
    } else if (what < 8) {
        size_t i = chance(h, COUNT(own_scripts));
        h->key = chance(h, 2) ? "lock" : "{t}:lock";
        add_script(h, i);
        add_template(h, own_scripts[i].words);
        send_words(h, 0);
    } else if (what < 11) {
        add_text(h, "EVAL");
        add_text(h, callers[chance(h, COUNT(callers))]);
        add_template(h, "1 k");
        add_command(h);
        send_words(h, 0);
    } else {
        add_command(h);
        send_words(h, 0);
    }
}

static void run_history(uint64_t seed)
{
    history h = {.seed = seed};
    pair_begin(both, seed);
    for (int i = 1; i <= ROUNDS; i++) {
        do_round(&h);
        if (i % 15 == 0) {
            pair_flush(both, exact);
            pair_look(both);
        }
    }
}

static void test_random_histories(void **state)
{
    (void)state;
    const char *seed = getenv("HOLDFAST_TEST_SEED");
    if (seed && *seed) {
        run_history(strtoull(seed, NULL, 10));
        return;
    }
    for (int i = 1; i <= test_scaled(HISTORIES); i++) {
        run_history((uint64_t)i);
    }
}

/* -------------------------------------------------------- chosen histories
 */

static void say_all(const char *const *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pair_say(both, 0, lines[i], exact);
    }
}

#define SAY_ALL(...)                                                           \
    do {                                                                       \
        static const char *const lines[] = {__VA_ARGS__};                      \
        say_all(lines, COUNT(lines));                                          \
    } while (0)

/* What Lua makes of replies, and Redis of Lua's values. */
static void test_conversions(void **state)
{
    (void)state;
    pair_begin(both, 1);
    SAY_ALL(
        "HSET h f 1 g 2", "SET s text",
        "EVAL 'return {1, 2.9, -2.9, \"a\", false, true, {}, {{1}}, nil, 5}' 0",
        "EVAL 'return {{ok=\"fine\"}, {err=\"Odd one\"}, 3}' 0",
        "EVAL 'return {[1]=1, [3]=3}' 0", "EVAL 'return {ok=1}' 0",
        "EVAL 'return {err=\"a b\", ok=\"c\"}' 0", "EVAL 'return nil' 0",
        "EVAL 'return 1e300' 0", "EVAL 'return -1/0' 0", "EVAL 'return -0.5' 0",
        "EVAL 'return 9007199254740993' 0", "EVAL 'return redis.call' 0",
        "EVAL 'return redis.call(\"set\", \"n\", 1.5)' 0", "GET n",
        "EVAL 'return redis.call(\"set\", \"n\", 3)' 0", "GET n",
        "EVAL 'return redis.call(\"hgetall\", \"h\")' 0",
        "EVAL 'return redis.call(\"hincrby\", \"h\", \"f\", 2)' 0",
        "EVAL 'return redis.call(\"hincrby\", \"h\", \"f\", 2.5)' 0",
        "EVAL 'return type(redis.call(\"hget\", \"h\", \"none\"))' 0",
        "EVAL 'return type(redis.call(\"lpop\", \"none\", 1))' 0",
        "EVAL 'return redis.call(\"set\", \"n\", \"1\").ok' 0",
        "EVAL 'return redis.pcall(\"hget\", \"s\", \"f\").err' 0",
        "EVAL 'return type(redis.pcall(\"nosuch\").err)' 0",
        "EVAL 'return {KEYS[1], ARGV[1], #KEYS, #ARGV}' 1 a b c",
        "EVAL 'return redis.sha1hex(\"\")' 0",
        "EVAL 'return redis.sha1hex(string.rep(\"a\", 55))' 0",
        "EVAL 'return redis.sha1hex(string.rep(\"a\", 56))' 0",
        "EVAL 'return redis.sha1hex(string.rep(\"a\", 128))' 0",
        "EVAL 'return redis.status_reply(\"fine\")' 0",
        "EVAL 'return redis.error_reply(\"Odd one\")' 0",
        "EVAL 'return redis.error_reply(\"odd\")' 0",
        "EVAL 'return redis.error_reply(\"-odd\")' 0",
        "EVAL 'return redis.error_reply(1)' 0",
        "EVAL 'return redis.status_reply({})' 0",
        "EVAL 'return redis.acl_check_cmd(\"lpos\", \"a\", 1)' 0",
        "EVAL 'redis.call(\"select\", 1) return redis.call(\"dbsize\")' 0",
        "DBSIZE", "EVAL 'return tostring(2^53)..tostring(0.1)' 0");
}

static void test_script_errors(void **state)
{
    (void)state;
    pair_begin(both, 2);
    SAY_ALL(
        "SET s text", "EVAL 'return 1' abc", "EVAL 'return 1' 1",
        "EVAL 'return 1' -1", "EVAL 'return 1 1' 0", "SCRIPT LOAD 'return ('",
        "EVAL 'none()' 0", "EVAL 'x = 1' 0", "EVAL 'return x' 0",
        "EVAL 'string.x = 1' 0", "EVAL '_G.x = 1' 0", "EVAL 'return _G.x' 0",
        "EVAL 'KEYS = 3' 0", "EVAL 'redis.none()' 0",
        "EVAL 'local t\n\nreturn t.x' 0", "EVAL 'error(\"boo\")' 0",
        "EVAL 'error(\"boo\", 0)' 0", "EVAL 'error({err=\"My boo\"})' 0",
        "EVAL 'error(true)' 0", "EVAL 'error(nil)' 0",
        "EVAL 'local function f()\nerror(\"deep\") end\nf()' 0",
        "EVAL 'return table.concat({1, {}})' 0", "EVAL 'return print' 0",
        "EVAL 'return io' 0", "EVAL 'return redis.call()' 0",
        "EVAL 'return redis.acl_check_cmd()' 0",
        "EVAL 'return redis.acl_check_cmd({})' 0",
        "EVAL 'return redis.acl_check_cmd(\"nosuch\")' 0",
        "EVAL 'return redis.call({})' 0", "EVAL 'return redis.call(nil)' 0",
        "EVAL 'return redis.call(\"get\")' 0",
        "EVAL 'return redis.call(\"nosuch\", 1)' 0",
        "EVAL '\nredis.call(\"hget\", \"s\", \"f\")\nreturn 1' 0",
        "EVAL 'return redis.pcall(\"hget\", \"s\", \"f\")' 0",
        "EVAL 'return redis.call(\"subscribe\", \"c\")' 0",
        "EVAL 'return redis.call(\"eval\", \"return 1\", 0)' 0",
        "EVAL 'return redis.call(\"script\", \"flush\")' 0",
        "EVAL 'return redis.call(\"pubsub\", \"none\")' 0",
        "EVAL 'local ok, e = pcall(redis.call, \"incr\", \"s\") return e' 0",
        "EVAL 'local ok, e = pcall(error, {x=1}) return type(e)' 0",
        "EVAL '#!lua flags=none\nreturn 1' 0",
        "EVAL '#!lua none=1\nreturn 1' 0", "EVAL '#!none\nreturn 1' 0",
        "EVAL '#!lua' 0", "EVAL '#!lua flags=allow-oom,no-writes\n\nnone()' 0",
        "EVALSHA 00 0", "EVALSHA 00 none",
        "EVALSHA 0000000000000000000000000000000000000000 0",
        "EVALSHA 0000000000000000000000000000000000000000 none",
        "SCRIPT LOAD 'return 1'",
        "EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0",
        "SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db 00",
        "SCRIPT FLUSH none", "SCRIPT FLUSH SYNC",
        "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", "SCRIPT none",
        "SCRIPT", "SCRIPT EXISTS");
}

static void test_expiry(void **state)
{
    (void)state;
    pair_begin(both, 10);
    SAY_ALL("SET a 1", "PEXPIRE a 1", "EXISTS a", "SET a 1 PX 2", "EXISTS a",
            "SET a 1",
            "EVAL 'return {redis.call(\"pexpire\", \"a\", 0), "
            "redis.call(\"exists\", \"a\")}' 0",
            "HSET h f 1",
            "EVAL 'return {redis.call(\"pexpire\", \"h\", -5), "
            "redis.call(\"exists\", \"h\")}' 0",
            "HSET h f 1",
            "EVAL 'redis.call(\"pexpire\", \"h\", 1) "
            "redis.call(\"hset\", \"h\", \"g\", 2) "
            "return redis.call(\"hlen\", \"h\")' 0",
            "EXISTS h", "RPUSH l x", "EXPIRE l -1", "EXISTS l", "ZADD z 1 m",
            "PEXPIRE z 3 XX", "EXISTS z", "PEXPIRE z 3 NX", "EXISTS z",
            "SET a 1 EX 7200", "PEXPIRE a 3600000 GT", "PEXPIRE a 5 LT",
            "EXISTS a", "PEXPIRE none 1", "SET a 1 PX 1", "PERSIST a");
}

static void test_refused_arguments(void **state)
{
    (void)state;
    pair_begin(both, 3);
    SAY_ALL(
        "GET", "NOSUCH a b", "nosuch", "PUBSUB none", "CLIENT none",
        "SET a b c", "SET a b NX XX", "SET a b PX 10 EX 10",
        "SET a b KEEPTTL PX 100", "SET a b PX 0", "SET a b PX x",
        "SET a b PX 9223372036854775807", "SET a b EX 9223372036854775807",
        "HSET h f", "HSET h f 1 g", "PEXPIRE a 100 NX GT",
        "PEXPIRE a 100 GT LT", "PEXPIRE a 100 none",
        "EXPIRE a 9223372036854775807", "PEXPIRE a 9223372036854775807",
        "SET n 9223372036854775807", "INCR n", "DECRBY n -9223372036854775808",
        "SELECT 16", "SELECT -1", "SELECT x", "AUTH word", "AUTH user word",
        "AUTH a b c", "AUTH", "WAIT x 0", "WAIT 0 x", "WAIT 0 -1", "SCAN x",
        "SCAN 0 COUNT 0", "SCAN 0 COUNT x", "SCAN 0 none", "RPUSH l a b",
        "LINDEX l x", "LINDEX none x", "LPOP l -1", "LPOP l x", "LPOP l 1 2",
        "LPOP none 2", "LRANGE none x 0", "ZADD z 1 a 2", "ZADD z x a",
        "ZADD z nan a", "ZADD z NX XX 1 a", "ZADD z NX GT 1 a",
        "ZADD z GT LT 1 a", "ZADD z INCR 1 a 2 b", "ZADD z inf a",
        "ZINCRBY z -inf a", "ZRANGE z 0 -1 LIMIT 0 1", "ZRANGE z 0 -1 none",
        "ZRANGE z a b", "ZRANGE z a b BYSCORE", "ZCOUNT z a b",
        "ZRANGEBYSCORE z 0 1 LIMIT 0", "FLUSHALL none", "TIME x",
        "CLIENT KILL 1.1.1.1:1", "CLIENT KILL TYPE none", "CLIENT KILL TYPE",
        "CLIENT KILL ID 99999999", "PING a b", "ECHO", "PUBLISH c");
}

static void test_order(void **state)
{
    (void)state;
    pair_begin(both, 11);
    SAY_ALL("RPUSH l a b a c a", "LREM l -2 a", "LRANGE l 0 -1", "LREM l 1 a",
            "LRANGE l 0 -1", "LPUSH l x y", "RPOP l", "LPOP l 2", "LREM l 0 x",
            "RPUSH l 1 2 3 4", "LRANGE l -3 -2", "LRANGE l 2 1", "LINDEX l -1",
            "ZADD z 2 b 1 c 1 a 3 d", "ZRANGE z 0 -1 WITHSCORES",
            "ZRANGE z 0 1 REV", "ZINCRBY z 1.5 c", "ZRANGE z -2 -1",
            "ZRANGE z (1 3 BYSCORE", "ZRANGE z 3 (1 BYSCORE REV",
            "ZRANGEBYSCORE z -inf +inf LIMIT 1 2",
            "ZRANGEBYSCORE z -inf +inf LIMIT -1 2", "ZCOUNT z (1 (3",
            "ZADD z GT 1 d 9 a", "ZADD z XX CH 4 d 4 none", "ZADD z -0 e",
            "ZRANGE z 0 -1 WITHSCORES", "ZREM z a b none", "ZCARD z",
            "HSET h z 1 a 2 m 3", "HDEL h a", "HSET h a 4 z 5", "HGETALL h",
            "HKEYS h", "HVALS h");
}

static void test_messages(void **state)
{
    (void)state;
    pair_begin(both, 4);
    pair_say(both, 1, "SUBSCRIBE c1 c2", exact);
    pair_say(both, 1, "SSUBSCRIBE c1", exact);
    pair_say(both, 2, "SUBSCRIBE c1", exact);
    SAY_ALL("PUBLISH c1 m", "SPUBLISH c1 m", "PUBLISH c2 ''", "PUBLISH c3 m",
            "PUBSUB NUMSUB c1 c2 c3", "PUBSUB SHARDNUMSUB c1 c2",
            "EVAL 'return redis.call(\"publish\", \"c1\", \"in script\")' 0");
    pair_say(both, 1, "PING word", exact);
    pair_say(both, 1, "GET k", exact);
    pair_say(both, 1, "UNSUBSCRIBE c1 c3", exact);
    pair_say(both, 2, "UNSUBSCRIBE", exact);
    pair_say(both, 2, "UNSUBSCRIBE", exact);
    pair_say(both, 2, "GET k", exact);
    pair_say(both, 0, "PUBLISH c1 m", exact);
    pair_reconnect(both, 1);
    pair_tell_real(both, "PING");
    pair_say(both, 0, "PUBSUB CHANNELS", exact);
}

static void test_killed_subscriber(void **state)
{
    (void)state;
    pair_begin(both, 5);
    pair_say(both, 1, "SUBSCRIBE c1", exact);
    pair_say(both, 0, "CLIENT KILL TYPE pubsub", exact);
    pair_say(both, 0, "PUBLISH c1 m", exact);
    pair_reconnect(both, 1);
    pair_look(both);
}

/* ------------------------------------------------- a server that is not well
 */

static void say_own_scripts(void)
{
    for (size_t i = 0; i < COUNT(own_scripts); i++) {
        const hf__script *script = own_scripts[i].script;
        history h = {.seed = i};
        add_text(&h, "EVAL");
        h.words[h.count++] = still_texts[i]
                                 ? hf__slice_of(still_texts[i])
                                 : (hf__slice){script->text, script->length};
        add_template(&h, own_scripts[i].words);
        pair_add(both, 0, h.words, h.count);
        pair_flush(both, timed);
    }
}

static void say_in_trouble(void)
{
    SAY_ALL("PING", "GET s", "SET s 1", "HSET h f 1", "HDEL h g", "DEL none",
            "PEXPIRE s 7200000", "PERSIST s", "RPUSH l a", "LPOP l", "EXISTS s",
            "PUBLISH c m", "ECHO a", "DBSIZE", "SCRIPT LOAD 'return 1'",
            "EVAL 'return redis.call(\"set\", \"a\", \"b\")' 0",
            "EVAL 'redis.call(\"del\", \"a\") "
            "return redis.call(\"set\", \"a\", \"b\")' 0",
            "EVAL 'return redis.pcall(\"hset\", \"a\", \"f\", \"b\")' 0",
            "EVAL '#!lua\nreturn 1' 0",
            "EVAL '#!lua flags=no-writes\nreturn 1' 0",
            "EVAL '#!lua flags=allow-oom\n"
            "return redis.call(\"set\", \"a\", \"c\")' 0",
            "EVAL 'return 1' 0", "SELECT 1", "SELECT 0");
    say_own_scripts();
}

static void test_out_of_memory(void **state)
{
    (void)state;
    pair_begin(both, 6);
    SAY_ALL("SET s text", "HSET h f 1 g 2", "RPUSH l x y");
    pair_tell_real(both, "CONFIG SET maxmemory 1");
    model_set_condition(pair_model(both), MODEL_OUT_OF_MEMORY);
    say_in_trouble();
    pair_tell_real(both, "CONFIG SET maxmemory 0");
    model_set_condition(pair_model(both), MODEL_WELL);
    pair_look(both);
}

static void test_read_only(void **state)
{
    (void)state;
    pair_begin(both, 7);
    SAY_ALL("SET s text", "HSET h f 1 g 2", "RPUSH l x y");
    pair_tell_real(both, "REPLICAOF 127.0.0.1 1");
    model_set_condition(pair_model(both), MODEL_READ_ONLY);
    say_in_trouble();
    pair_tell_real(both, "REPLICAOF NO ONE");
    model_set_condition(pair_model(both), MODEL_WELL);
    pair_look(both);
}

static void test_password(void **state)
{
    (void)state;
    pair_begin(both, 8);
    pair_tell_real(both, "CONFIG SET requirepass secret");
    model_set_password(pair_model(both), "secret");
    pair_reconnect(both, 1);
    static const char *const lines[] = {
        "PING",        "GET s",          "SUBSCRIBE c",         "NOSUCH",
        "GET",         "AUTH wrong",     "AUTH other secret",   "GET s",
        "AUTH secret", "AUTH default x", "AUTH default secret", "GET s"};
    for (size_t i = 0; i < COUNT(lines); i++) {
        pair_say(both, 1, lines[i], exact);
    }
    pair_tell_real(both, "CONFIG SET requirepass ''");
}

/* Until the script on the real server is known to run on and on. */
static void test_busy(void **state)
{
    (void)state;
    pair_begin(both, 9);
    pair_tell_real(both, "CONFIG SET busy-reply-threshold 1");
    pair_hang_real(both, "EVAL 'while true do end' 0");
    model_set_condition(pair_model(both), MODEL_BUSY);
    SAY_ALL("PING", "GET s", "SUBSCRIBE c", "INFO server", "SELECT 0",
            "EVALSHA 0000000000000000000000000000000000000000 0", "SET a b",
            "PUBLISH c m", "NOSUCH", "GET");
    pair_free_real(both);
    model_set_condition(pair_model(both), MODEL_WELL);
    SAY_ALL("PING", "GET a");
    pair_tell_real(both, "CONFIG SET busy-reply-threshold 5000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_script_errors),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_refused_arguments),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_killed_subscriber),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_password),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_random_histories),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
