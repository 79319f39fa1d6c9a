/* A lease that one process lets go of and another goes on with. */
#include "support/fixture.h"
#include "support/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONG_MS 60000
#define SHORT_MS 200

static hf_lock *open_kind(hf_client *of, const char *name, hf_kind kind)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = kind;
    hf_lock *lock = hf_lock_open_with(of, name, strlen(name), &options, &err);
    assert_non_null(lock);
    return lock;
}

static hf_lease *take_for(hf_lock *lock, hf_owner *owner)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = NULL;
    options.owner = owner;
    expect(HF_OK, hf_lock_acquire_with(lock, &options, &lease, &err));
    return lease;
}

/* From one client to another, which gives it back. */
static void pass_on(hf_kind kind)
{
    const char *name = test_fresh_name();
    hf_owner *owner = hf_owner_new(client, &err);
    hf_acquire_options again = HF_ACQUIRE_OPTIONS_INIT;
    again.owner = owner;
    hf_lock *ours = open_kind(client, name, kind);
    hf_lock *theirs = open_kind(other, name, kind);
    hf_lease *lease = take_for(ours, owner);
    hf_lease *adopted = NULL;
    expect(HF_OK, hf_lease_hand_over(lease, LONG_MS, &err));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_RELEASED);
    assert_int_equal(hf_lease_remaining_ms(lease), 0);
    expect(HF_NOT_ACQUIRED, hf_lock_try(theirs, NULL, &err));
    expect(HF_OK, hf_lock_adopt(theirs, hf_lease_owner_id(lease), NULL,
                                &adopted, &err));
    assert_string_equal(hf_lease_owner_id(adopted), hf_lease_owner_id(lease));
    assert_true(hf_lease_is_held(adopted));
    expect(HF_OK, hf_lease_release(lease, &err)); /* changes nothing */
    hf_lease_free(lease);
    expect(HF_NOT_ACQUIRED, hf_lock_try(ours, NULL, &err));
    expect(HF_EHELD, hf_lock_acquire_with(ours, &again, NULL, &err));
    test_give(adopted);
    test_give(test_take(ours));
    hf_owner_free(owner);
    hf_lock_free(ours);
    hf_lock_free(theirs);
}

static void test_each_kind_with_owners(void **state)
{
    static const hf_kind kinds[] = {HF_KIND_REENTRANT,
                                    HF_KIND_NON_REENTRANT,
                                    HF_KIND_FAIR,
                                    HF_KIND_WRITE,
                                    HF_KIND_FAIR_NON_REENTRANT,
                                    HF_KIND_SPIN,
                                    HF_KIND_FENCED,
                                    HF_KIND_SIMPLE};
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        pass_on(kinds[i]);
    }
    assert_true(srv_cmd_is(server, "OK", "FLUSHALL")); /* the counter */
}

/* Whoever adopts it renews it. */
static void test_adopted_is_renewed(void **state)
{
    (void)state;
    hf_client_options options = test_watchdog(SHORT_MS);
    hf_client *quick = test_client(srv_url(server), &options);
    const char *name = test_fresh_name();
    hf_lock *ours = test_lock(client, name);
    hf_lock *theirs = test_lock(quick, name);
    hf_owner *owner = hf_owner_new(client, &err);
    hf_lease *lease = take_for(ours, owner);
    hf_lease *adopted = NULL;
    expect(HF_OK, hf_lease_hand_over(lease, SHORT_MS * 10, &err));
    expect(HF_OK, hf_lock_adopt(theirs, hf_lease_owner_id(lease), NULL,
                                &adopted, &err));
    test_reset_calls(server);
    assert_true(test_wait_calls(server, "pexpire", 3));
    assert_true(hf_lease_is_held(adopted));
    test_give(adopted);
    hf_lease_free(lease);
    hf_lock_free(ours);
    hf_owner_free(owner);
    hf_lock_free(theirs);
    hf_client_free(quick);
}

static void test_nobody_adopts_it(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *ours = test_lock(client, name);
    hf_owner *owner = hf_owner_new(client, &err);
    hf_lease *lease = take_for(ours, owner);
    expect(HF_OK, hf_lease_hand_over(lease, SHORT_MS, &err));
    assert_true(srv_cmd_becomes(server, "0", "EXISTS %s", name));
    hf_lease *adopted = NULL;
    expect(HF_ENOTHELD,
           hf_lock_adopt(ours, hf_lease_owner_id(lease), NULL, &adopted, &err));
    assert_null(adopted);
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    hf_lease_free(lease);
    hf_owner_free(owner);
    hf_lock_free(ours);
}

/* What cannot be handed over stays what it was. */
static void test_refused(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = test_lock(client, name);
    hf_owner *owner = hf_owner_new(client, &err);
    hf_lease *threads = test_take(lock);
    expect(HF_EINVAL, hf_lease_hand_over(threads, LONG_MS, &err));
    test_give(threads);
    hf_lease *first = take_for(lock, owner);
    hf_lease *second = take_for(lock, owner);
    expect(HF_EINVAL, hf_lease_hand_over(second, LONG_MS, &err));
    assert_true(hf_lease_is_held(second));
    assert_true(test_is_held(server, name, hf_lease_owner_id(first), 2));
    expect(HF_EINVAL, hf_lease_hand_over(NULL, LONG_MS, &err));
    test_give(second);
    expect(HF_EINVAL, hf_lease_hand_over(first, 1, &err));
    assert_true(hf_lease_is_held(first));
    expect(HF_OK, hf_lease_release(first, &err));
    expect(HF_ENOTHELD, hf_lease_hand_over(first, LONG_MS, &err));
    hf_lease_free(first);
    hf_lease *taken = take_for(lock, owner);
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
    expect(HF_ELOST, hf_lease_hand_over(taken, LONG_MS, &err));
    assert_int_equal(hf_lease_get_state(taken), HF_LEASE_LOST);
    hf_lease_free(taken);
    hf_owner_free(owner);
    hf_lock_free(lock);
}

static void test_no_owner(void **state)
{
    static const char *const ids[] = {
        "", "nobody",
        "1b2c3d4e-5f60-4718-9a0b-c1d2e3f4a5b6:42424242424242424242424242"};
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = test_lock(client, name);
    hf_lease *adopted = NULL;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        expect(HF_EINVAL, hf_lock_adopt(lock, ids[i], NULL, &adopted, &err));
    }
    expect(HF_ENOTHELD,
           hf_lock_adopt(lock, "1b2c3d4e-5f60-4718-9a0b-c1d2e3f4a5b6:42", NULL,
                         &adopted, &err));
    assert_null(adopted);
    hf_lock_free(lock);
    lock = open_kind(client, name, HF_KIND_PERMIT);
    expect(HF_EINVAL,
           hf_lock_adopt(lock, "1b2c3d4e-5f60-4718-9a0b-c1d2e3f4a5b6:42", NULL,
                         &adopted, &err));
    hf_lock_free(lock);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_each_kind_with_owners),
        FIXTURE_TEST(test_adopted_is_renewed),
        FIXTURE_TEST(test_nobody_adopts_it),
        FIXTURE_TEST(test_refused),
        FIXTURE_TEST(test_no_owner),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, fixture_patient, fixture_end);
}
