/* The call under a lock of any kind. */
#include "support/fixture.h"
#include "support/net.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static hf_lock *of_kind(hf_client *of, const char *name, hf_kind kind)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = kind;
    hf_lock *lock = hf_lock_open_with(of, name, strlen(name), &options, &err);
    assert_non_null(lock);
    return lock;
}

static hf_lock *simple(hf_client *of, const char *name)
{
    return of_kind(of, name, HF_KIND_SIMPLE);
}

static bool holds(const char *name, const char *token)
{
    return srv_cmd_is(server, token, "GET %s", name);
}

static bool is_free(const char *name)
{
    return srv_cmd_is(server, "0", "EXISTS %s", name);
}

#define FOREIGN "5d1f6a52-8f0e-4c0b-9c3e-0b8a7d3e9f11"

typedef struct call {
    const char *name;
    int answer;
    int calls;
    int released_within; /* by the function itself */
    hf_status status;
} call;

static int note_call(void *arg, const hf_with_context *context)
{
    call *c = arg;
    c->calls++;
    c->status = context->status;
    must(context->struct_size == sizeof(*context));
    must(strcmp(context->key, c->name) == 0);
    must(context->key_length == strlen(c->name));
    must((context->success != 0) == (context->status == HF_OK));
    if (!context->success) {
        must(!context->lease && !context->token);
    } else {
        must(context->lease && context->token);
        must(hf_lease_is_held(context->lease));
        must(strcmp(context->token, hf_lease_owner_id(context->lease)) == 0);
        must(srv_cmd_is(server, "1", "EXISTS %s", c->name));
    }
    if (c->released_within) {
        must_be(HF_OK, hf_lease_release(context->lease, &err));
        must(is_free(c->name));
    }
    return c->answer;
}

static void with_kind(hf_kind kind)
{
    const char *name = test_fresh_name();
    call c = {.name = name, .answer = 42};
    int returned = 7;
    hf_lock *lock = of_kind(client, name, kind);
    expect(HF_OK, hf_with_lock(lock, NULL, note_call, &c, &returned, &err));
    assert_int_equal(returned, 42);
    assert_int_equal(c.calls, 1);
    assert_int_equal(c.status, HF_OK);
    assert_true(is_free(name));
    c.released_within = 1;
    expect(HF_OK, hf_with_lock(lock, NULL, note_call, &c, NULL, &err));
    assert_int_equal(c.calls, 2);
    assert_true(is_free(name));
    free(srv_cmd(server, "DEL redisson_lock_token:{%s}", name));
    hf_lock_free(lock);
}

static void test_with_each_kind(void **state)
{
    (void)state;
    for (int kind = HF_KIND_REENTRANT; kind < HF_KIND_PERMIT; kind++) {
        with_kind((hf_kind)kind);
    }
}

/* Its token is the permit's id. */
static int note_permit(void *arg, const hf_with_context *context)
{
    int64_t available = 7;
    must(context->success && strlen(context->token) == 32);
    must_be(HF_OK, hf_permits_available(arg, &available, &err));
    must(available == 1);
    return 8;
}

static void test_with_a_permit(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = of_kind(client, name, HF_KIND_PERMIT);
    int64_t available = 7;
    int returned = 7;
    expect(HF_OK, hf_permits_set(lock, 2, &err));
    expect(HF_OK, hf_with_lock(lock, NULL, note_permit, lock, &returned, &err));
    assert_int_equal(returned, 8);
    expect(HF_OK, hf_permits_available(lock, &available, &err));
    assert_int_equal(available, 2);
    hf_lock_free(lock);
    /* What a semaphore is made of stays. */
    assert_true(srv_cmd_is(server, "OK", "FLUSHALL"));
}

/* Called in every case: it is told that the lock is not its. */
static void test_with_a_lock_that_is_taken(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    call c = {.name = name, .answer = -3};
    int returned = 7;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lock *mine = simple(client, name);
    hf_lock *theirs = simple(other, name);
    hf_lease *lease = test_take(mine);
    expect(HF_NOT_ACQUIRED,
           hf_with_lock(theirs, NULL, note_call, &c, &returned, &err));
    assert_int_equal(c.calls, 1);
    assert_int_equal(c.status, HF_NOT_ACQUIRED);
    assert_int_equal(returned, -3);
    expect(HF_EHELD, hf_with_lock(mine, NULL, note_call, &c, NULL, &err));
    assert_int_equal(c.calls, 2);
    options.cancel = hf_cancel_new();
    options.wait_ms = HF_WAIT_FOREVER;
    hf_cancel_fire(options.cancel);
    expect(HF_CANCELLED,
           hf_with_lock(theirs, &options, note_call, &c, NULL, &err));
    assert_int_equal(c.calls, 3);
    options.wait_ms = -7;
    expect(HF_EINVAL,
           hf_with_lock(theirs, &options, note_call, &c, NULL, &err));
    assert_int_equal(c.calls, 4);
    assert_true(holds(name, hf_lease_owner_id(lease)));
    test_give(lease);
    hf_cancel_free(options.cancel);
    hf_lock_free(mine);
    hf_lock_free(theirs);
}

static int lose_it(void *arg, const hf_with_context *context)
{
    must(context->success);
    must(srv_cmd_is(server, "OK", "SET %s " FOREIGN, (const char *)arg));
    return 5;
}

/* What was lost while the function ran is said, and the next holder's is left
 * alone. */
static void test_with_a_lock_that_is_lost(void **state)
{
    (void)state;
    char *name = test_text("%s", test_fresh_name());
    int returned = 7;
    hf_lock *lock = simple(client, name);
    expect(HF_ELOST, hf_with_lock(lock, NULL, lose_it, name, &returned, &err));
    assert_int_equal(returned, 5);
    assert_true(holds(name, FOREIGN));
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
    hf_lock_free(lock);
    free(name);
}

static int close_client(void *arg, const hf_with_context *context)
{
    char *key = test_text("%s", context->key);
    hf_client_free(arg);
    must(strcmp(context->key, key) == 0);
    must(!hf_lease_is_held(context->lease));
    free(key);
    return 6;
}

/* Where nothing can come of it the function is not called; nor does it matter
 * to what it is told that the client is closed meanwhile. */
static void test_with_a_client_that_is_closed(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    call c = {.name = name};
    int returned = 7;
    hf_client *brief = test_client(srv_url(server), NULL);
    hf_lock *lock = simple(brief, name);
    expect(HF_EINVAL, hf_with_lock(NULL, NULL, note_call, &c, &returned, &err));
    expect(HF_EINVAL, hf_with_lock(lock, NULL, NULL, &c, &returned, &err));
    assert_int_equal(returned, 7);
    expect(HF_ECLOSED,
           hf_with_lock(lock, NULL, close_client, brief, &returned, &err));
    assert_int_equal(returned, 6);
    assert_true(is_free(name));
    expect(HF_ECLOSED,
           hf_with_lock(lock, NULL, note_call, &c, &returned, &err));
    assert_int_equal(c.calls, 0);
    assert_int_equal(returned, 6);
    hf_lock_free(lock);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_with_each_kind),
        FIXTURE_TEST(test_with_a_permit),
        FIXTURE_TEST(test_with_a_lock_that_is_taken),
        FIXTURE_TEST(test_with_a_lock_that_is_lost),
        FIXTURE_TEST(test_with_a_client_that_is_closed),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, fixture_patient, fixture_end);
}
