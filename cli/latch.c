/* holdfast latch: a count that goes down, and who waits for its end. */
#include "cli/connect.h"
#include "cli/counter.h"
#include "cli/exit_codes.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/wait.h"

#include <string.h>

static hf_latch *open_named(hf_client *client, const char *name, hf_error *err)
{
    return hf_latch_open(client, name, strlen(name), err);
}

/* ---- what does not wait */

static int set(const request *r)
{
    hf_error err = HF_ERROR_INIT;
    int made = 0;
    const cli_options *o = r->options;
    int64_t lifetime = o->lifetime_ms == UNSET ? 0 : o->lifetime_ms;
    hf_latch *l = open_named(r->client, r->name, &err);
    int code = l && hf_latch_set(l, r->number, lifetime, &made, &err) == HF_OK
                   ? counter_made(r, made)
                   : report_error(&err);
    hf_latch_free(l);
    return code;
}

static int down(const request *r)
{
    hf_error err = HF_ERROR_INIT;
    int64_t left = 0;
    hf_latch *l = open_named(r->client, r->name, &err);
    int code = l && hf_latch_count_down(l, r->number, &left, &err) == HF_OK
                   ? counter_show(r, "count", left)
                   : report_error(&err);
    hf_latch_free(l);
    return code;
}

static int status(const request *r)
{
    hf_error err = HF_ERROR_INIT;
    int64_t count = 0;
    hf_latch *l = open_named(r->client, r->name, &err);
    int code = l && hf_latch_count(l, &count, &err) == HF_OK
                   ? counter_show(r, "count", count)
                   : report_error(&err);
    hf_latch_free(l);
    return code;
}

/* ---- what waits */

typedef struct awaiting {
    waiting wait;
    const cli_target *target;
    hf_client *client;
    hf_latch *latch;
} awaiting;

static hf_status open_latch(waiting *w, hf_error *err)
{
    awaiting *a = (awaiting *)w;
    a->client = target_open(a->target, err);
    a->latch = a->client ? open_named(a->client, w->names[0], err) : NULL;
    return a->latch ? HF_OK : hf_error_status(err);
}

static hf_status await(waiting *w, hf_error *err)
{
    awaiting *a = (awaiting *)w;
    return hf_latch_await(a->latch, wait_of(w->options), w->cancel, err);
}

static void drop(waiting *w)
{
    awaiting *a = (awaiting *)w;
    hf_latch_free(a->latch);
    hf_client_free(a->client);
}

static int await_with(const request *r, const cli_target *target)
{
    hf_error err = HF_ERROR_INIT;
    signals s;
    awaiting a = {.wait = {.options = r->options,
                           .names = r->options->operands + 1,
                           .name_count = 1,
                           .open = open_latch,
                           .acquire = await,
                           .drop = drop},
                  .target = target};
    if (!signals_open(&s)) {
        return CLI_SYSTEM;
    }
    hf_status said = wait_for(&a.wait, &s, &err);
    int code = said == HF_OK ? CLI_OK : wait_failure(&a.wait, said, &err);
    drop(&a.wait);
    return code;
}

static int wait_until_none(const request *r)
{
    cli_target target;
    int code = target_choose(r->options, &target);
    if (code == CLI_OK) {
        code = await_with(r, &target);
    }
    target_free(&target);
    return code;
}

/* ---- the verb */

static int latch(const cli_options *options)
{
    static const action actions[] = {
        {.name = "set",
         .takes_number = true,
         .needs_number = true,
         .makes = true,
         .run = set},
        {.name = "down", .takes_number = true, .least = 1, .run = down},
        {.name = "wait", .waits = true, .run = wait_until_none},
        {.name = "status", .run = status},
    };
    return counter_run("latch", actions, sizeof(actions) / sizeof(actions[0]),
                       options);
}

const cli_verb verb_latch = {
    .name = "latch",
    .synopsis = "set [OPTION...] NAME N\n"
                "down [OPTION...] NAME [N]\n"
                "wait|status [OPTION...] NAME",
    .summary = "wait until others have counted down to none",
    .notes = "set makes a latch with the count N, unless there is one. down "
             "counts down by N, or by one, and writes what is left. wait "
             "returns when nothing is left, or there is no such latch. status "
             "writes what is left.\n"
             "Exit code: 0 if it was done, 1 if set found one, 75 if wait took "
             "too long.",
    .operand = "an action, such as wait,",
    .operands = OPERANDS_MANY,
    .connects = true,
    .negative = true,
    .options = counter_options,
    .option_count = COUNTER_OPTION_COUNT,
    .run = latch,
};
