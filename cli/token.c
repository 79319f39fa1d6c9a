/* holdfast acquire, renew and release: a lock for a script that cannot be
 * wrapped. Between the calls nobody renews it; the owner's id is the token by
 * which the next call goes on. */
#include "cli/connect.h"
#include "cli/exit_codes.h"
#include "cli/holding.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>

#define LEASE_DEFAULT_MS INT64_C(300000)
#define FIELD(name) offsetof(cli_options, name)

#define KIND_OPTION                                                            \
    {                                                                          \
        .names = {"kind"}, .argument = "KIND", .kind = OPTION_TEXT,            \
        .offset = FIELD(kind),                                                 \
        .help = "What kind of lock: reentrant (the default), non-reentrant, "  \
                "fair, fair-non-reentrant, read, write, spin, fenced or "      \
                "simple.",                                                     \
    }
#define TOKEN_OPTION                                                           \
    {                                                                          \
        .names = {"token"}, .argument = "TOKEN", .kind = OPTION_TEXT,          \
        .offset = FIELD(token),                                                \
        .help = "Required: what holdfast acquire has written.",                \
    }
#define LEASE_OPTION(text)                                                     \
    {                                                                          \
        .names = {"lease"}, .argument = "DURATION", .kind = OPTION_DURATION,   \
        .offset = FIELD(lease_ms), .min = HF_LEASE_MIN_MS,                     \
        .max = HF_LEASE_MAX_MS, .help = (text),                                \
    }

static const cli_option acquire_options[] = {
    NONBLOCK_OPTION("Fail at once if another owner holds the lock."),
    WAIT_OPTION(
        "Fail if the lock cannot be had within this time. Default: wait "
        "for ever."),
    KIND_OPTION,
    LEASE_OPTION("How long it is held unless it is renewed or released. "
                 "Default: 5m."),
    {.names = {"json"},
     .kind = OPTION_FLAG,
     .offset = FIELD(json),
     .help = "Write a JSON object instead of the token."},
};

static const cli_option renew_options[] = {
    TOKEN_OPTION,
    KIND_OPTION,
    LEASE_OPTION("Required: how long it is held from now on, unless it is "
                 "renewed again or released."),
};

static const cli_option release_options[] = {
    TOKEN_OPTION,
    KIND_OPTION,
};

/* ---- what was asked for */

static int check(const char *verb, const cli_options *o)
{
    char kind[QUOTE_SIZE];
    hf_kind unused;
    if (o->operands[0][0] == '\0') {
        return usage_error(verb, "the lock's name is empty");
    }
    if (o->kind && !kind_find(o->kind, &unused)) {
        return usage_error(
            verb, "--kind %s: not one of " KIND_NAMES,
            text_quote(kind, sizeof(kind), o->kind, strlen(o->kind)));
    }
    if (o->nonblock && o->wait_ms != UNSET) {
        return usage_error(verb, "--nonblock and --wait exclude each other");
    }
    return CLI_OK;
}

static const char *name_of(const cli_options *o, char out[QUOTE_SIZE])
{
    return text_quote(out, QUOTE_SIZE, o->operands[0], strlen(o->operands[0]));
}

/* ---- what is held by a token */

/* Whether it was held before or never: to a script the lock is lost. */
static int report_adoption(const hf_error *err)
{
    int code = report_error(err);
    return hf_error_status(err) == HF_ENOTHELD ? CLI_LOST : code;
}

static hf_kind kind_of(const cli_options *o)
{
    hf_kind kind = HF_KIND_REENTRANT;
    if (o->kind) {
        (void)kind_find(o->kind, &kind);
    }
    return kind;
}

/* An hf_inspect_fn. */
static int take_shape(void *arg, const hf_inspection *seen)
{
    *(hf_shape *)arg = seen->shape;
    return 0;
}

/* A read/write lock is a hash as others are: taken for one of these it would
 * be left behind without a holder, but not free. */
static int check_shape(const cli_options *o, hf_client *client)
{
    char name[QUOTE_SIZE];
    hf_error err = HF_ERROR_INIT;
    hf_shape shape = HF_SHAPE_NONE;
    hf_kind kind = kind_of(o);
    if (kind == HF_KIND_READ || kind == HF_KIND_WRITE ||
        kind == HF_KIND_SIMPLE) {
        return CLI_OK;
    }
    if (hf_inspect(client, o->operands[0], strlen(o->operands[0]), take_shape,
                   &shape, &err) != HF_OK) {
        return report_error(&err);
    }
    if (shape == HF_SHAPE_READ || shape == HF_SHAPE_WRITE) {
        say("not held in that way: %s is a read/write lock, of --kind %s",
            name_of(o, name), shape == HF_SHAPE_READ ? "read" : "write");
        return CLI_LOST;
    }
    return CLI_OK;
}

/* Sets h->lock and h->lease. */
static int adopt(const cli_options *o, const char *token, holding *h)
{
    hf_error err = HF_ERROR_INIT;
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    hf_acquire_options terms = HF_ACQUIRE_OPTIONS_INIT;
    const char *name = o->operands[0];
    options.kind = kind_of(o);
    terms.lease_ms = o->lease_ms == UNSET ? 0 : o->lease_ms;
    h->lock = hf_lock_open_with(h->client, name, strlen(name), &options, &err);
    if (!h->lock ||
        hf_lock_adopt(h->lock, token, &terms, &h->lease, &err) != HF_OK) {
        return report_adoption(&err);
    }
    return CLI_OK;
}

/* For renew and release. */
static int go_on(const char *verb, const cli_options *o, holding *h)
{
    int code = check(verb, o);
    if (code == CLI_OK && !o->token) {
        code = usage_error(verb, "--token is missing");
    }
    if (code == CLI_OK) {
        code = connect_for(o, &h->client);
    }
    if (code == CLI_OK) {
        code = check_shape(o, h->client);
    }
    return code == CLI_OK ? adopt(o, o->token, h) : code;
}

/* ---- acquire */

static int write_json(const cli_options *o, const holding *h)
{
    json_t *line = json_line_new();
    const char *name = o->operands[0];
    uint64_t fence = hf_lease_token(h->lease);
    int failed = json_set_bytes(line, "name", name, strlen(name));
    failed |= json_object_set_new(line, "token",
                                  json_string(hf_lease_owner_id(h->lease)));
    if (fence > 0) {
        failed |= json_object_set_new(line, "fencing_token",
                                      json_integer((json_int_t)fence));
    }
    failed |= json_object_set_new(line, "server",
                                  json_string(hf_client_server(h->client)));
    return json_line_write(line, failed);
}

static int write_token(const cli_options *o, const holding *h)
{
    int code = CLI_OK;
    if (o->json) {
        code = write_json(o, h);
    } else {
        (void)printf("%s\n", hf_lease_owner_id(h->lease));
    }
    return finish_output(code == CLI_OUTPUT ? CLI_OK : code);
}

/* Nobody knows the token of what was handed over. */
static void take_back(const cli_options *o, const holding *h)
{
    holding again = {.client = h->client};
    if (adopt(o, hf_lease_owner_id(h->lease), &again) == CLI_OK) {
        (void)hf_lease_release(again.lease, NULL);
    }
    again.client = NULL; /* which is h's */
    holding_free(&again);
}

static int hand_over(const cli_options *o, holding *h)
{
    char name[QUOTE_SIZE];
    hf_error err = HF_ERROR_INIT;
    if (hf_lease_hand_over(h->lease, o->lease_ms, &err) != HF_OK) {
        return report_error(&err);
    }
    int code = write_token(o, h);
    if (code != CLI_OK) {
        take_back(o, h);
    } else if (o->verbose) {
        say("acquired %s", name_of(o, name));
    }
    return code;
}

static int acquire_from(const cli_options *o, const cli_target *target)
{
    signals s;
    holding h = {0};
    int code;
    if (!signals_open(&s)) {
        return CLI_SYSTEM;
    }
    if (holding_take(o, target, &s, &h, &code)) {
        code = hand_over(o, &h);
        holding_free(&h);
    }
    return code;
}

static int acquire(const cli_options *given)
{
    cli_target target;
    cli_options o = *given;
    if (o.lease_ms == UNSET) {
        o.lease_ms = LEASE_DEFAULT_MS;
    }
    int code = check("acquire", &o);
    if (code != CLI_OK) {
        return code;
    }
    code = target_choose(&o, &target);
    if (code == CLI_OK) {
        code = acquire_from(&o, &target);
    }
    target_free(&target);
    return code;
}

/* ---- renew and release */

static int renew(const cli_options *o)
{
    static holding h; /* to be reachable at exit: it is not always freed */
    char name[QUOTE_SIZE];
    hf_error err = HF_ERROR_INIT;
    if (o->lease_ms == UNSET) {
        return usage_error("renew", "--lease is missing");
    }
    int code = go_on("renew", o, &h);
    if (code == CLI_OK &&
        hf_lease_hand_over(h.lease, o->lease_ms, &err) != HF_OK) {
        /* To free it would give it back, and its script is at work. */
        return report_error(&err);
    }
    if (code == CLI_OK && o->verbose) {
        say("renewed %s", name_of(o, name));
    }
    holding_free(&h);
    return code;
}

static int release(const cli_options *o)
{
    holding h = {0};
    char name[QUOTE_SIZE];
    hf_error err = HF_ERROR_INIT;
    int code = go_on("release", o, &h);
    if (code == CLI_OK && hf_lease_release(h.lease, &err) != HF_OK) {
        code = report_error(&err);
    } else if (code == CLI_OK && o->verbose) {
        say("released %s", name_of(o, name));
    }
    holding_free(&h);
    return code;
}

/* ---- the verbs */

const cli_verb verb_acquire = {
    .name = "acquire",
    .synopsis = "[OPTION...] NAME",
    .summary = "take a lock, and write the token to give it back by",
    .notes = "For scripts that cannot be run by holdfast run, which is the "
             "safer way: nobody renews this lock but holdfast renew, and "
             "nobody ends the script when it is lost.\n"
             "Who knows the token may renew and release the lock, from any "
             "process; --kind is to be the same each time.\n"
             "Exit code: 0 if it was acquired, 75 if not.",
    .operand = "the lock's NAME",
    .operands = OPERANDS_ONE,
    .connects = true,
    .options = acquire_options,
    .option_count = OPTION_COUNT(acquire_options),
    .run = acquire,
};

const cli_verb verb_renew = {
    .name = "renew",
    .synopsis = "--token TOKEN --lease DURATION [OPTION...] NAME",
    .summary = "hold on to a lock that was acquired",
    .notes = "The lease counts from now, and may be shorter than what was "
             "left.\n"
             "Exit code: 0 if it was renewed, 79 if it is not held any more.",
    .operand = "the lock's NAME",
    .operands = OPERANDS_ONE,
    .connects = true,
    .options = renew_options,
    .option_count = OPTION_COUNT(renew_options),
    .run = renew,
};

const cli_verb verb_release = {
    .name = "release",
    .synopsis = "--token TOKEN [OPTION...] NAME",
    .summary = "give a lock back that was acquired",
    .notes = "Exit code: 0 if it was released, 79 if it was not held any "
             "more.",
    .operand = "the lock's NAME",
    .operands = OPERANDS_ONE,
    .connects = true,
    .options = release_options,
    .option_count = OPTION_COUNT(release_options),
    .run = release,
};
