/* Command lines of the tool: a verb's name, then its words, one a line. What
 * is accepted is whole, within its ranges, and the same when it is spelled out
 * and read again; what is refused says one line about it; no password stays
 * where others can read it. */
#include "fuzz/fuzz.h"

#include "cli/exit_codes.h"
#include "cli/options.h"
#include "cli/secret.h"
#include "cli/text.h"
#include "redis/url.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* ---- what the tool says: its stderr, as long as it is listened to */

static struct {
    bool on;
    char text[4096];
    size_t length;
} heard;

ssize_t __real_write(int fd, const void *bytes, size_t length);
ssize_t __wrap_write(int fd, const void *bytes, size_t length);

ssize_t __wrap_write(int fd, const void *bytes, size_t length)
{
    if (!heard.on || fd != STDERR_FILENO) {
        return __real_write(fd, bytes, length);
    }
    FUZZ_CHECK(length < sizeof(heard.text) - heard.length);
    memcpy(heard.text + heard.length, bytes, length);
    heard.length += length;
    heard.text[heard.length] = '\0';
    return (ssize_t)length;
}

/* One line for a terminal. */
static void check_message(void)
{
    static const char unknown[] = "holdfast: unknown option";
    size_t length = heard.length;
    FUZZ_CHECK(length > 10 && memcmp(heard.text, "holdfast: ", 10) == 0);
    FUZZ_CHECK(heard.text[length - 1] == '\n');
    FUZZ_CHECK(text_is_utf8(heard.text, length));
    for (size_t i = 0; i < length - 1; i++) {
        FUZZ_CHECK((unsigned char)heard.text[i] >= ' ' &&
                   heard.text[i] != 0x7f);
    }
    if (strncmp(heard.text, unknown, sizeof(unknown) - 1) == 0) {
        FUZZ_CHECK(!strchr(heard.text, '=')); /* nor what stands behind it */
    }
}

/* ---- words */

typedef struct words {
    char **list; /* NULL-terminated */
    int count;
} words;

static void add_word(words *to, const char *text, size_t length)
{
    char *word = malloc(length + 1); /* exactly: a read beyond is noticed */
    to->list = realloc(to->list, ((size_t)to->count + 2) * sizeof(char *));
    FUZZ_CHECK(word && to->list);
    if (length > 0) {
        memcpy(word, text, length);
    }
    word[length] = '\0';
    to->list[to->count++] = word;
    to->list[to->count] = NULL;
}

__attribute__((format(printf, 2, 3))) static void
add_format(words *to, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    FUZZ_CHECK(n >= 0);
    add_word(to, text, (size_t)n);
    free(text);
}

static words split(const char *text, size_t size)
{
    words out = {0};
    const char *end = text + size;
    while (text <= end) {
        const char *stop = text;
        while (stop < end && *stop != '\0' && *stop != '\n') {
            stop++;
        }
        add_word(&out, text, (size_t)(stop - text));
        text = stop + 1;
    }
    return out;
}

static void free_words(words *w)
{
    for (int i = 0; i < w->count; i++) {
        free(w->list[i]);
    }
    free(w->list);
}

/* ---- a parse. The words are reordered: `order` is a list of its own. */

typedef struct parse {
    char **order;
    cli_options out;
    int code;
} parse;

static parse parse_words(const cli_verb *verb, const words *w, int first)
{
    size_t count = (size_t)(w->count - first);
    parse made = {.order = calloc(count + 1, sizeof(char *))};
    FUZZ_CHECK(made.order);
    if (count > 0) {
        memcpy(made.order, w->list + first, count * sizeof(char *));
    }
    heard.length = 0;
    heard.on = true;
    made.code = options_parse(verb, made.order, &made.out);
    heard.on = false;
    FUZZ_CHECK(made.code == CLI_OK || made.code == CLI_USAGE);
    FUZZ_CHECK((made.code == CLI_OK) == (heard.length == 0));
    return made;
}

static void free_parse(parse *p)
{
    free((void *)p->out.url);
    free(p->order);
}

/* ---- options of a verb */

typedef void (*option_fn)(void *arg, const cli_option *option);

static void each_option(const cli_verb *verb, option_fn fn, void *arg)
{
    for (size_t i = 0; i < verb->option_count; i++) {
        fn(arg, &verb->options[i]);
    }
    for (size_t i = 0; verb->connects && i < connection_option_count; i++) {
        fn(arg, &connection_options[i]);
    }
    fn(arg, &help_option);
}

static const void *field(const cli_options *o, const cli_option *option)
{
    return (const char *)o + option->offset;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_field(const cli_options *a, const cli_options *b,
                       const cli_option *option)
{
    const void *x = field(a, option);
    const void *y = field(b, option);
    switch (option->kind) {
    case OPTION_FLAG:
        return *(const bool *)x == *(const bool *)y;
    case OPTION_TEXT:
    case OPTION_URL:
        return same_text(*(const char *const *)x, *(const char *const *)y);
    case OPTION_DURATION:
    case OPTION_NUMBER:
        return *(const int64_t *)x == *(const int64_t *)y;
    case OPTION_ON_LOST:
        return ((const lost_rule *)x)->action ==
                   ((const lost_rule *)y)->action &&
               ((const lost_rule *)x)->signal == ((const lost_rule *)y)->signal;
    }
    return false;
}

/* ---- what was accepted: each option */

typedef struct judge {
    const cli_verb *verb;
    const cli_options *got;
    cli_options unset; /* what no word at all gives */
    words *anew;       /* the same, spelled out */
} judge;

static void check_range(void *arg, const cli_option *option)
{
    const judge *j = arg;
    const void *value = field(j->got, option);
    if (same_field(j->got, &j->unset, option)) {
        return;
    }
    if (option->kind == OPTION_DURATION || option->kind == OPTION_NUMBER) {
        FUZZ_CHECK(*(const int64_t *)value >= option->min);
        FUZZ_CHECK(*(const int64_t *)value <= option->max);
    } else if (option->kind == OPTION_ON_LOST) {
        const lost_rule *rule = value;
        FUZZ_CHECK(rule->action <= LOST_IGNORE);
        FUZZ_CHECK((rule->action == LOST_SIGNAL) == (rule->signal != 0));
        FUZZ_CHECK(rule->signal >= 0 && rule->signal <= SIGRTMAX);
    }
}

typedef struct search {
    size_t offset;
    bool found;
} search;

static void look_for(void *arg, const cli_option *option)
{
    search *s = arg;
    s->found = s->found || s->offset == option->offset;
}

/* Another verb's option: nothing can have set it. */
static void check_foreign(void *arg, const cli_option *option)
{
    const judge *j = arg;
    search s = {.offset = option->offset};
    each_option(j->verb, look_for, &s);
    FUZZ_CHECK(s.found || same_field(j->got, &j->unset, option));
}

static void spell(void *arg, const cli_option *option)
{
    judge *j = arg;
    const void *value = field(j->got, option);
    const char *name = option->names[0];
    if (same_field(j->got, &j->unset, option)) {
        return;
    }
    switch (option->kind) {
    case OPTION_FLAG:
        add_format(j->anew, "--%s", name);
        return;
    case OPTION_TEXT:
    case OPTION_URL:
        add_format(j->anew, "--%s=%s", name, *(const char *const *)value);
        return;
    case OPTION_DURATION:
        add_format(j->anew, "--%s=%" PRId64 "ms", name,
                   *(const int64_t *)value);
        return;
    case OPTION_NUMBER:
        add_format(j->anew, "--%s=%" PRId64, name, *(const int64_t *)value);
        return;
    case OPTION_ON_LOST:
        if (j->got->on_lost.action == LOST_SIGNAL) {
            add_format(j->anew, "--%s=signal:%d", name, j->got->on_lost.signal);
        } else {
            add_format(j->anew, "--%s=ignore", name);
        }
        return;
    }
}

/* ---- operands */

static bool is_among(const char *word, const words *w)
{
    for (int i = 0; i < w->count; i++) {
        if (w->list[i] == word) {
            return true;
        }
    }
    return false;
}

static void check_operands(const cli_verb *verb, const parse *p, const words *w)
{
    static const int least[] = {0, 0, 1, 1, 1};
    static const int most[] = {0, 1, 1, INT32_MAX, INT32_MAX};
    const cli_options *o = &p->out;
    if (!o->help) {
        FUZZ_CHECK(o->operand_count >= least[verb->operands]);
        FUZZ_CHECK(o->operand_count <= most[verb->operands]);
    }
    FUZZ_CHECK(o->operands == p->order);
    for (int i = 0; i < o->operand_count; i++) {
        FUZZ_CHECK(is_among(o->operands[i], w));
    }
    FUZZ_CHECK(!o->command || verb->operands == OPERANDS_COMMAND);
    for (char **at = o->command; at && *at; at++) {
        FUZZ_CHECK(is_among(*at, w));
    }
}

static void spell_operands(const cli_options *o, words *to)
{
    if (o->operand_count > 0) {
        add_word(to, "--", 2);
    }
    for (int i = 0; i < o->operand_count; i++) {
        add_word(to, o->operands[i], strlen(o->operands[i]));
    }
    if (o->command) {
        add_word(to, "--", 2);
    }
    for (char **at = o->command; at && *at; at++) {
        add_word(to, *at, strlen(*at));
    }
}

static void check_same(void *arg, const cli_option *option)
{
    cli_options *const *both = arg;
    FUZZ_CHECK(same_field(both[0], both[1], option));
}

static void check_spelled_out(const cli_verb *verb, parse *p, const words *anew)
{
    parse again = parse_words(verb, anew, 0);
    cli_options *both[] = {&p->out, &again.out};
    FUZZ_CHECK(again.code == CLI_OK);
    each_option(verb, check_same, both);
    FUZZ_CHECK(p->out.operand_count == again.out.operand_count);
    for (int i = 0; i < p->out.operand_count; i++) {
        FUZZ_CHECK(same_text(p->out.operands[i], again.out.operands[i]));
    }
    FUZZ_CHECK(!p->out.command == !again.out.command);
    for (size_t i = 0; p->out.command && p->out.command[i]; i++) {
        FUZZ_CHECK(same_text(p->out.command[i], again.out.command[i]));
    }
    free_parse(&again);
}

/* ---- the password of --url */

static int count_in(const words *w, const char *text)
{
    int n = 0;
    for (int i = 0; i < w->count; i++) {
        n += strstr(w->list[i], text) != NULL;
    }
    return n;
}

/* `before` is what the words were: one of them has lost its password. */
static void check_url(const char *url, const words *before, const words *after)
{
    char *masked = strdup(url);
    hf__endpoint at = {0};
    FUZZ_CHECK(masked);
    char *copy = secret_take_argument(masked);
    FUZZ_CHECK(same_text(copy, url));
    if (strcmp(masked, url) != 0) {
        FUZZ_CHECK(count_in(after, url) < count_in(before, url));
    }
    if (hf__endpoint_parse(url, &at, NULL) == HF_OK) {
        FUZZ_CHECK(!at.password == !secret_in_url(url));
        hf__endpoint_free(&at);
    }
    if (hf__endpoint_parse(masked, &at, NULL) == HF_OK && at.password) {
        FUZZ_CHECK(strspn(at.password, "*") == strlen(at.password));
    }
    hf__endpoint_free(&at);
    free(copy);
    free(masked);
}

/* ---- */

static void check_accepted(const cli_verb *verb, parse *p, const words *before,
                           const words *after)
{
    words none = {0};
    words anew = {0};
    parse unset = parse_words(verb, &none, 0);
    judge j = {verb, &p->out, unset.out, &anew};
    each_option(verb, check_range, &j);
    for (size_t i = 0; all_verbs[i]; i++) {
        each_option(all_verbs[i], check_foreign, &j);
    }
    check_operands(verb, p, after);
    each_option(verb, spell, &j);
    spell_operands(&p->out, &anew);
    check_spelled_out(verb, p, &anew);
    if (p->out.url) {
        check_url(p->out.url, before, after);
    }
    free_words(&anew);
    free_parse(&unset);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    words before = split((const char *)data, size);
    words w = split((const char *)data, size);
    const cli_verb *verb = find_verb(w.list[0]);
    if (verb) {
        parse p = parse_words(verb, &w, 1);
        if (p.code == CLI_OK) {
            check_accepted(verb, &p, &before, &w);
        } else {
            check_message();
        }
        free_parse(&p);
    }
    free_words(&before);
    free_words(&w);
    return 0;
}
