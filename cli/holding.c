/* Takes what `run` holds: a lock of some kind, a permit, or several locks at
 * once. An explicit owner has it, for one thread takes it, and another gives it
 * back. */
#include "cli/holding.h"

#include "cli/report.h"
#include "cli/wait.h"

#include <stdlib.h>
#include <string.h>

typedef struct taking {
    waiting wait;
    const cli_target *target;
    holding got;
} taking;

/* ---- kinds */

bool kind_find(const char *name, hf_kind *out)
{
    static const struct {
        const char *name;
        hf_kind kind;
    } kinds[] = {
        {"reentrant", HF_KIND_REENTRANT},
        {"non-reentrant", HF_KIND_NON_REENTRANT},
        {"fair", HF_KIND_FAIR},
        {"fair-non-reentrant", HF_KIND_FAIR_NON_REENTRANT},
        {"read", HF_KIND_READ},
        {"write", HF_KIND_WRITE},
        {"spin", HF_KIND_SPIN},
        {"fenced", HF_KIND_FENCED},
        {"simple", HF_KIND_SIMPLE},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *out = kinds[i].kind;
            return true;
        }
    }
    return false;
}

static hf_kind kind_of(const cli_options *options)
{
    hf_kind kind = HF_KIND_REENTRANT;
    if (options->permits != UNSET) {
        return HF_KIND_PERMIT;
    }
    if (options->shared || options->exclusive) {
        return options->shared ? HF_KIND_READ : HF_KIND_WRITE;
    }
    if (options->kind) {
        (void)kind_find(options->kind, &kind);
    }
    return kind;
}

const char *holding_noun(const cli_options *options)
{
    return options->permits != UNSET ? "permit of" : "lock";
}

/* ---- in the worker */

static hf_lock *open_one(const taking *t, const char *name, hf_error *err)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = kind_of(t->wait.options);
    return hf_lock_open_with(t->got.client, name, strlen(name), &options, err);
}

/* The single ones are not needed any more once they are one. */
static hf_lock *open_lock(const taking *t, hf_error *err)
{
    const cli_options *o = t->wait.options;
    size_t count = (size_t)o->operand_count;
    if (count == 1) {
        return open_one(t, o->operands[0], err);
    }
    hf_lock **parts = calloc(count, sizeof(hf_lock *));
    size_t opened = 0;
    if (!parts) {
        say("out of memory");
        return NULL;
    }
    while (opened < count &&
           (parts[opened] = open_one(t, o->operands[opened], err)) != NULL) {
        opened++;
    }
    hf_lock *lock = opened == count ? hf_multi_open(parts, count, err) : NULL;
    while (opened > 0) {
        hf_lock_free(parts[--opened]);
    }
    free((void *)parts);
    return lock;
}

static hf_status open_all(waiting *w, hf_error *err)
{
    taking *t = (taking *)w;
    t->got.client = target_open(t->target, err);
    t->got.lock = t->got.client ? open_lock(t, err) : NULL;
    t->got.owner = t->got.lock ? hf_owner_new(t->got.client, err) : NULL;
    if (!t->got.owner) {
        return hf_error_status(err) != HF_OK ? hf_error_status(err) : HF_ENOMEM;
    }
    if (w->options->permits != UNSET) {
        return hf_permits_try_set(t->got.lock, w->options->permits, NULL, err);
    }
    w->lock = t->got.lock;
    return HF_OK;
}

static hf_status acquire(waiting *w, hf_error *err)
{
    taking *t = (taking *)w;
    const cli_options *o = w->options;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.owner = t->got.owner;
    options.cancel = w->cancel;
    options.wait_ms = wait_of(o);
    options.lease_ms = o->lease_ms == UNSET ? 0 : o->lease_ms;
    options.max_hold_ms = o->max_hold_ms == UNSET ? 0 : o->max_hold_ms;
    return hf_lock_acquire_with(t->got.lock, &options, &t->got.lease, err);
}

/* ---- in the main thread */

static void drop(waiting *w)
{
    taking *t = (taking *)w;
    holding_free(&t->got);
}

bool holding_take(const cli_options *options, const cli_target *target,
                  const signals *s, holding *out, int *code)
{
    hf_error err = HF_ERROR_INIT;
    taking t = {.wait = {.options = options,
                         .names = options->operands,
                         .name_count = options->operand_count,
                         .open = open_all,
                         .acquire = acquire,
                         .drop = drop},
                .target = target};
    hf_status status = wait_for(&t.wait, s, &err);
    if (status != HF_OK) {
        *code = wait_failure(&t.wait, status, &err);
        drop(&t.wait);
        return false;
    }
    *out = t.got;
    return true;
}

void holding_free(holding *h)
{
    hf_lease_free(h->lease);
    hf_owner_free(h->owner);
    hf_lock_free(h->lock);
    hf_client_free(h->client);
    *h = (holding){0};
}
