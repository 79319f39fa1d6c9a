/* How status and list show what is on the server: a row for each who has it or
 * waits, so that each row tells its name. The name stands last: it may be of
 * any length, and then needs no column. */
#include "cli/show.h"

#include "cli/duration.h"
#include "cli/exit_codes.h"
#include "cli/json.h"
#include "cli/report.h"
#include "cli/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REMAINING_NO_END INT64_C(-1)
#define UUID_LENGTH 36
#define OWNER_WIDTH 45 /* a writer's */

static const char *shape_text(hf_shape shape)
{
    switch (shape) {
    case HF_SHAPE_LOCK:
        return "lock";
    case HF_SHAPE_FAIR:
        return "fair";
    case HF_SHAPE_FENCED:
        return "fenced";
    case HF_SHAPE_READ:
        return "read";
    case HF_SHAPE_WRITE:
        return "write";
    case HF_SHAPE_SIMPLE:
        return "simple";
    case HF_SHAPE_COUNTER:
        return "counter";
    case HF_SHAPE_PERMITS:
        return "permits";
    case HF_SHAPE_NONE:
        break;
    }
    return NULL;
}

static bool has_number(const hf_inspection *seen)
{
    return seen->shape == HF_SHAPE_COUNTER || seen->shape == HF_SHAPE_PERMITS;
}

/* ---- JSON */

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *time_or_null(int64_t ms)
{
    return ms >= 0 ? json_integer(ms) : json_null();
}

/* Whose it is, if one has it; what is not UTF-8 would be no JSON. */
static json_t *owner_or_null(const hf_inspection *seen)
{
    const hf_party *one = seen->holders;
    if (seen->holder_count != 1 || !text_is_utf8(one->id, one->id_length)) {
        return json_null();
    }
    return json_stringn(one->id, one->id_length);
}

static json_t *party_list(const hf_party *parties, size_t count, bool holders)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++) {
        json_t *one = json_object();
        int failed =
            json_set_bytes(one, "owner", parties[i].id, parties[i].id_length);
        if (holders) {
            failed |= json_object_set_new(one, "hold_count",
                                          json_integer(parties[i].count));
        }
        failed |= json_object_set_new(one, "remaining_ms",
                                      time_or_null(parties[i].remaining_ms));
        failed |= json_array_append_new(list, one);
        if (failed) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int64_t all_holds(const hf_inspection *seen)
{
    int64_t sum = 0;
    for (size_t i = 0; i < seen->holder_count; i++) {
        sum += seen->holders[i].count;
    }
    return sum;
}

/* What only some kinds have. */
static int set_of_kind(json_t *line, const hf_inspection *seen)
{
    int failed = 0;
    if (seen->token > 0) {
        failed |= json_object_set_new(line, "token",
                                      json_integer((json_int_t)seen->token));
    }
    if (has_number(seen)) {
        failed |=
            json_object_set_new(line, "number", json_integer(seen->number));
    }
    return failed;
}

static int show_json(const lock_view *view, const hf_inspection *seen)
{
    json_t *line = json_line_new();
    int failed = json_set_bytes(line, "name", seen->name, seen->name_length);
    failed |= json_object_set_new(line, "kind",
                                  text_or_null(shape_text(seen->shape)));
    failed |= json_object_set_new(line, "locked", json_boolean(seen->locked));
    failed |= json_object_set_new(line, "owner", owner_or_null(seen));
    failed |=
        json_object_set_new(line, "hold_count", json_integer(all_holds(seen)));
    failed |= json_object_set_new(line, "remaining_ms",
                                  time_or_null(seen->remaining_ms));
    failed |= json_object_set_new(
        line, "holders", party_list(seen->holders, seen->holder_count, true));
    failed |= json_object_set_new(
        line, "waiters", party_list(seen->waiters, seen->waiter_count, false));
    failed |= set_of_kind(line, seen);
    failed |= json_object_set_new(line, "server", json_string(view->server));
    return json_line_write(line, failed);
}

/* ---- table */

static void show_head(lock_view *view)
{
    if (!view->headed) {
        (void)printf("%-6s  %-7s  %5s  %9s  %16s  %-*s  %s\n", "STATE", "KIND",
                     "HOLDS", "REMAINING", "VALUE", OWNER_WIDTH, "OWNER",
                     "NAME");
        view->headed = true;
    }
}

static void number_text(char out[24], bool there, int64_t number)
{
    (void)snprintf(out, 24, "-");
    if (there) {
        (void)snprintf(out, 24, "%" PRId64, number);
    }
}

/* A row up to the owner. */
typedef struct row {
    const char *state;
    char holds[24];
    char value[24];
    int64_t remaining;
    const hf_party *who; /* NULL: nobody */
} row;

static void show_row(const hf_inspection *seen, const row *r)
{
    char remaining[DURATION_SIZE] = "-";
    const char *kind = shape_text(seen->shape);
    if (r->remaining >= 0) {
        (void)duration_format(remaining, r->remaining);
    } else if (r->remaining == REMAINING_NO_END) {
        (void)snprintf(remaining, sizeof(remaining), "no end");
    }
    (void)printf("%-6s  %-7s  %5s  %9s  %16s  ", r->state, kind ? kind : "-",
                 r->holds, remaining, r->value);
    int wide = 1;
    if (r->who) {
        text_print(stdout, r->who->id, r->who->id_length);
        wide = r->who->id_length < OWNER_WIDTH ? (int)r->who->id_length
                                               : OWNER_WIDTH;
    } else {
        (void)putchar('-');
    }
    (void)printf("%*s  ", OWNER_WIDTH - wide, "");
    text_print(stdout, seen->name, seen->name_length);
    (void)putchar('\n');
}

/* The number of a name: what it counts, or its latest token. */
static void value_of(const hf_inspection *seen, char out[24])
{
    if (has_number(seen)) {
        number_text(out, true, seen->number);
    } else {
        number_text(out, seen->token > 0, (int64_t)seen->token);
    }
}

static void show_nobody(const hf_inspection *seen)
{
    bool counter = seen->shape == HF_SHAPE_COUNTER;
    row r = {.state = counter ? "-" : "free",
             .holds = "-",
             .remaining = seen->remaining_ms};
    if (counter && r.remaining == REMAINING_NO_END) {
        r.remaining = INT64_MIN; /* as it should be */
    }
    value_of(seen, r.value);
    show_row(seen, &r);
}

static void show_holder(const hf_inspection *seen, const hf_party *who)
{
    row r = {.state = "locked", .remaining = who->remaining_ms, .who = who};
    number_text(r.holds, true, who->count);
    value_of(seen, r.value);
    show_row(seen, &r);
}

static void show_waiter(const hf_inspection *seen, size_t index)
{
    const hf_party *who = &seen->waiters[index];
    row r = {.state = "waits",
             .holds = "-",
             .remaining = who->remaining_ms,
             .who = who};
    if (r.remaining == REMAINING_NO_END) {
        r.remaining = INT64_MIN; /* not known */
    }
    number_text(r.value, true, (int64_t)index + 1);
    show_row(seen, &r);
}

static void show_rows(lock_view *view, const hf_inspection *seen)
{
    show_head(view);
    if (seen->holder_count == 0) {
        show_nobody(seen);
    }
    for (size_t i = 0; i < seen->holder_count; i++) {
        show_holder(seen, &seen->holders[i]);
    }
    for (size_t i = 0; i < seen->waiter_count; i++) {
        show_waiter(seen, i);
    }
}

/* ---- what is shown */

static bool is_token(const hf_party *who)
{
    const char *id = who->id;
    size_t hex = strspn(id, "0123456789abcdefABCDEF-");
    if (hex != UUID_LENGTH || id[8] != '-' || id[13] != '-' || id[18] != '-' ||
        id[23] != '-') {
        return false;
    }
    if (who->id_length == hex) {
        return true;
    }
    size_t ordinal = id[hex] == ':' ? strspn(id + hex + 1, "0123456789") : 0;
    return ordinal > 0 && who->id_length == hex + 1 + ordinal;
}

/* Any application counts, and keeps strings. Those of a simple lock have an
 * end, and their owner's id, a UUID. */
static bool may_be_anything(const hf_inspection *seen)
{
    if (seen->shape == HF_SHAPE_SIMPLE) {
        return seen->remaining_ms < 0 || !seen->locked ||
               !is_token(&seen->holders[0]);
    }
    return seen->shape == HF_SHAPE_COUNTER;
}

int show_lock(void *arg, const hf_inspection *seen)
{
    lock_view *view = arg;
    if (view->only_locks && may_be_anything(seen)) {
        return 0;
    }
    if (view->json) {
        int code = show_json(view, seen);
        view->code = view->code == CLI_OK ? code : view->code;
    } else {
        show_rows(view, seen);
    }
    return ferror(stdout);
}

int show_end(lock_view *view)
{
    if (!view->json) {
        show_head(view);
    }
    return finish_output(view->code == CLI_OUTPUT ? CLI_OK : view->code);
}
