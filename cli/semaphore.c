/* holdfast sem: permits that belong to nobody. */
#include "cli/connect.h"
#include "cli/counter.h"
#include "cli/exit_codes.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/wait.h"

#include <string.h>

static hf_semaphore *open_named(hf_client *client, const char *name,
                                hf_error *err)
{
    return hf_semaphore_open(client, name, strlen(name), NULL, err);
}

/* ---- what does not wait */

static int init(const request *r)
{
    hf_error err = HF_ERROR_INIT;
    int made = 0;
    const cli_options *o = r->options;
    int64_t lifetime = o->lifetime_ms == UNSET ? 0 : o->lifetime_ms;
    hf_semaphore *s = open_named(r->client, r->name, &err);
    int code =
        s && hf_semaphore_set(s, r->number, lifetime, &made, &err) == HF_OK
            ? counter_made(r, made)
            : report_error(&err);
    hf_semaphore_free(s);
    return code;
}

static int release(const request *r)
{
    hf_error err = HF_ERROR_INIT;
    hf_semaphore *s = open_named(r->client, r->name, &err);
    int code = s && hf_semaphore_release(s, r->number, &err) == HF_OK
                   ? CLI_OK
                   : report_error(&err);
    hf_semaphore_free(s);
    return code;
}

static int add(const request *r)
{
    hf_error err = HF_ERROR_INIT;
    hf_semaphore *s = open_named(r->client, r->name, &err);
    int code = s && hf_semaphore_add(s, r->number, &err) == HF_OK
                   ? CLI_OK
                   : report_error(&err);
    hf_semaphore_free(s);
    return code;
}

static int drain(const request *r)
{
    hf_error err = HF_ERROR_INIT;
    int64_t drained = 0;
    hf_semaphore *s = open_named(r->client, r->name, &err);
    int code = s && hf_semaphore_drain(s, &drained, &err) == HF_OK
                   ? counter_show(r, "drained", drained)
                   : report_error(&err);
    hf_semaphore_free(s);
    return code;
}

static int status(const request *r)
{
    hf_error err = HF_ERROR_INIT;
    int64_t available = 0;
    hf_semaphore *s = open_named(r->client, r->name, &err);
    int code = s && hf_semaphore_available(s, &available, &err) == HF_OK
                   ? counter_show(r, "available", available)
                   : report_error(&err);
    hf_semaphore_free(s);
    return code;
}

/* ---- what waits */

typedef struct taking {
    waiting wait;
    const cli_target *target;
    hf_client *client;
    hf_semaphore *semaphore;
    int64_t number;
    bool taken;
} taking;

static hf_status open_semaphore(waiting *w, hf_error *err)
{
    taking *t = (taking *)w;
    t->client = target_open(t->target, err);
    t->semaphore = t->client ? open_named(t->client, w->names[0], err) : NULL;
    return t->semaphore ? HF_OK : hf_error_status(err);
}

static hf_status take(waiting *w, hf_error *err)
{
    taking *t = (taking *)w;
    hf_status said = hf_semaphore_acquire(t->semaphore, t->number,
                                          wait_of(w->options), w->cancel, err);
    t->taken = said == HF_OK;
    return said;
}

static void close_semaphore(taking *t)
{
    hf_semaphore_free(t->semaphore);
    hf_client_free(t->client);
}

/* Whoever has sent the signal thinks that nothing was taken. */
static void drop(waiting *w)
{
    taking *t = (taking *)w;
    if (t->taken) {
        (void)hf_semaphore_release(t->semaphore, t->number, NULL);
    }
    close_semaphore(t);
}

static int wait_and_take(const request *r, const cli_target *target)
{
    hf_error err = HF_ERROR_INIT;
    signals s;
    taking t = {.wait = {.options = r->options,
                         .names = r->options->operands + 1,
                         .name_count = 1,
                         .open = open_semaphore,
                         .acquire = take,
                         .drop = drop},
                .target = target,
                .number = r->number};
    if (!signals_open(&s)) {
        return CLI_SYSTEM;
    }
    hf_status said = wait_for(&t.wait, &s, &err);
    int code = said == HF_OK ? CLI_OK : wait_failure(&t.wait, said, &err);
    close_semaphore(&t);
    return code;
}

static int acquire(const request *r)
{
    cli_target target;
    int code = target_choose(r->options, &target);
    if (code == CLI_OK) {
        code = wait_and_take(r, &target);
    }
    target_free(&target);
    return code;
}

/* ---- the verb */

static int sem(const cli_options *options)
{
    static const action actions[] = {
        {.name = "init",
         .takes_number = true,
         .needs_number = true,
         .makes = true,
         .run = init},
        {.name = "acquire",
         .takes_number = true,
         .least = 1,
         .waits = true,
         .run = acquire},
        {.name = "release", .takes_number = true, .least = 1, .run = release},
        {.name = "add",
         .takes_number = true,
         .needs_number = true,
         .least = -999999999,
         .run = add},
        {.name = "drain", .run = drain},
        {.name = "status", .run = status},
    };
    return counter_run("sem", actions, sizeof(actions) / sizeof(actions[0]),
                       options);
}

const cli_verb verb_sem = {
    .name = "sem",
    .synopsis = "init [OPTION...] NAME N\n"
                "acquire|release [OPTION...] NAME [N]\n"
                "add [OPTION...] NAME N\n"
                "drain|status [OPTION...] NAME",
    .summary = "take and give permits of a semaphore",
    .notes = "init makes a semaphore with N permits, unless there is one. "
             "acquire takes N permits, or one, and waits until there are so "
             "many. release gives them back. add changes how many there are, "
             "by an N that may be below 0. drain takes all there are, and "
             "writes how many that were. status writes how many there are.\n"
             "Permits that were acquired belong to nobody: if the script that "
             "took one dies, it is gone. Those of holdfast run --permits come "
             "back.\n"
             "Exit code: 0 if it was done, 1 if init found one, 75 if the "
             "permits were not acquired.",
    .operand = "an action, such as acquire,",
    .operands = OPERANDS_MANY,
    .connects = true,
    .negative = true,
    .options = counter_options,
    .option_count = COUNTER_OPTION_COUNT,
    .run = sem,
};
