/* See sync_side.h. */
#include "integration/sync_side.h"

#include <stdio.h>

hf_semaphore *sync_semaphore(hf_client *used, const char *name)
{
    hf_semaphore *semaphore =
        hf_semaphore_open(used, name, strlen(name), NULL, &err);
    must(semaphore != NULL);
    return semaphore;
}

hf_semaphore *sync_in_turn(hf_client *used, const char *name)
{
    hf_semaphore_options options = HF_SEMAPHORE_OPTIONS_INIT;
    options.no_starvation = 1;
    hf_semaphore *semaphore =
        hf_semaphore_open(used, name, strlen(name), &options, &err);
    must(semaphore != NULL);
    return semaphore;
}

hf_latch *sync_latch(hf_client *used, const char *name)
{
    hf_latch *latch = hf_latch_open(used, name, strlen(name), &err);
    must(latch != NULL);
    return latch;
}

hf_lock *sync_permits(hf_client *used, const char *name)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = HF_KIND_PERMIT;
    hf_lock *lock = hf_lock_open_with(used, name, strlen(name), &options, &err);
    must(lock != NULL);
    return lock;
}

ear *sync_ear(const char *before, const char *name)
{
    char *channel = test_text("%s{%s}", before, name);
    ear *e = ear_subscribe(server, channel, strlen(channel));
    free(channel);
    return e;
}

/* ---- the server */

static void use(hf_semaphore *semaphore, hf_latch *latch, hf_lock *permits)
{
    must_be(HF_OK, hf_semaphore_set(semaphore, 1, 0, NULL, &err));
    must_be(HF_OK, hf_semaphore_try(semaphore, 1, &err));
    must_be(HF_OK, hf_semaphore_release(semaphore, 1, &err));
    must_be(HF_OK, hf_semaphore_drain(semaphore, NULL, &err));
    must_be(HF_OK, hf_latch_set(latch, 1, 0, NULL, &err));
    must_be(HF_NOT_ACQUIRED, hf_latch_await(latch, 0, NULL, &err));
    must_be(HF_OK, hf_latch_count_down(latch, 1, NULL, &err));
    must_be(HF_OK, hf_latch_delete(latch, NULL, &err));
    must_be(HF_OK, hf_permits_set(permits, 1, &err));
    test_give(test_take(permits));
}

void sync_warm_up(hf_client *used)
{
    hf_semaphore *semaphore = sync_semaphore(used, "warm-up:s");
    hf_semaphore *in_turn = sync_in_turn(used, "warm-up:s");
    hf_latch *latch = sync_latch(used, "warm-up:l");
    hf_lock *permits = sync_permits(used, "warm-up:p");
    use(semaphore, latch, permits);
    must_be(HF_NOT_ACQUIRED, hf_semaphore_try(in_turn, 1, &err));
    hf_semaphore_free(semaphore);
    hf_semaphore_free(in_turn);
    hf_latch_free(latch);
    hf_lock_free(permits);
    free(srv_cmd(server, "DEL warm-up:s warm-up:p"));
}

int sync_setup(void **state)
{
    int failed = fixture_patient(state);
    sync_warm_up(client);
    sync_warm_up(other);
    return failed;
}

int sync_nothing_is_left(void **state)
{
    static const char script[] =
        "for _, key in ipairs(redis.call('keys', 'holdfast_*')) do "
        "local left = redis.call('pttl', key) "
        "if left > 0 and left <= 600000 then redis.call('del', key) end end "
        "return redis.call('keys', '*')";
    (void)state;
    bool empty = srv_cmd_is(server, "", "EVAL %s 0", script);
    free(srv_cmd(server, "FLUSHALL")); /* of a test that failed */
    return empty ? 0 : -1;
}

/* ---- waiting */

static void *wait_for_it(void *arg)
{
    sync_waiter *w = arg;
    w->status = w->latch
                    ? hf_latch_await(w->latch, w->wait_ms, w->cancel, &w->err)
                    : hf_semaphore_acquire(w->semaphore, w->permits, w->wait_ms,
                                           w->cancel, &w->err);
    atomic_store(&w->ended, true);
    return NULL;
}

void sync_start(sync_waiter *waiter)
{
    waiter->status = HF_EINVAL;
    waiter->err = (hf_error)HF_ERROR_INIT;
    atomic_store(&waiter->ended, false);
    waiter->thread = test_thread(wait_for_it, waiter);
}

void sync_park(sync_waiter *waiter, bool again)
{
    const char *asked = waiter->latch ? "get" : "evalsha";
    test_reset_calls(server);
    sync_start(waiter);
    must(again || test_wait_calls(server, "subscribe", 1));
    must(test_wait_calls(server, asked, again ? 1 : 2));
}

void sync_end(sync_waiter *waiter, hf_status status)
{
    test_join(waiter->thread);
    test_expect(status, waiter->status, &waiter->err, "the wait", __FILE__,
                __LINE__);
}
