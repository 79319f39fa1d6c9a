/* How status and list show a lock. The name stands last in the table: it may
 * be of any length, and then needs no column. */
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

static json_t *owner_or_null(const hf_lock_info *info)
{
    const char *owner = info->owner;
    if (!info->locked || !owner) {
        return json_null();
    }
    /* Written by anybody: what is not UTF-8 would be no JSON. */
    json_t *value = json_string(owner);
    return value ? value : json_null();
}

static json_t *remaining_or_null(const hf_lock_info *info)
{
    return info->locked && info->remaining_ms >= 0
               ? json_integer(info->remaining_ms)
               : json_null();
}

static int show_json(const lock_view *view, const hf_lock_info *info)
{
    json_t *line = json_line_new();
    int failed = json_line_set_name(line, info->name, info->name_length);
    failed |= json_object_set_new(line, "locked", json_boolean(info->locked));
    failed |= json_object_set_new(line, "owner", owner_or_null(info));
    failed |= json_object_set_new(
        line, "hold_count", json_integer(info->locked ? info->hold_count : 0));
    failed |=
        json_object_set_new(line, "remaining_ms", remaining_or_null(info));
    failed |= json_object_set_new(line, "server", json_string(view->server));
    return json_line_write(line, failed);
}

static void show_head(lock_view *view)
{
    if (!view->headed) {
        (void)printf("%-6s  %5s  %9s  %-40s  %s\n", "STATE", "HOLDS",
                     "REMAINING", "OWNER", "NAME");
        view->headed = true;
    }
}

static void show_row(lock_view *view, const hf_lock_info *info)
{
    char remaining[DURATION_SIZE] = "-";
    show_head(view);
    if (info->locked) {
        if (info->remaining_ms >= 0) {
            (void)duration_format(remaining, info->remaining_ms);
        } else if (info->remaining_ms == REMAINING_NO_END) {
            (void)snprintf(remaining, sizeof(remaining), "no end");
        }
        (void)printf("%-6s  %5" PRId64 "  %9s  ", "locked", info->hold_count,
                     remaining);
        const char *owner = info->owner ? info->owner : "-";
        text_print(stdout, owner, strlen(owner));
        (void)printf("%*s  ", strlen(owner) < 40 ? 40 - (int)strlen(owner) : 0,
                     "");
    } else {
        (void)printf("%-6s  %5s  %9s  %-40s  ", "free", "-", "-", "-");
    }
    text_print(stdout, info->name, info->name_length);
    (void)putchar('\n');
}

int show_lock(void *arg, const hf_lock_info *info)
{
    lock_view *view = arg;
    if (view->json) {
        int code = show_json(view, info);
        view->code = view->code == CLI_OK ? code : view->code;
    } else {
        show_row(view, info);
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
