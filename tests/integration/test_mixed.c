/* One owner and one name by two kinds that share their state on the server: it
 * has one hold count, so the second is refused, and the first is what it was.
 */
#include "support/fixture.h"
#include "support/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void mix(hf_kind kind)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = kind;
    const char *name = test_fresh_name();
    hf_lock *plain = test_lock(client, name);
    hf_lock *another =
        hf_lock_open_with(client, name, strlen(name), &options, &err);
    assert_non_null(another);
    hf_lease *lease = test_take(plain);
    expect(HF_EHELD, hf_lock_try(another, NULL, &err));
    assert_true(srv_cmd_becomes(server, "1", "HGET %s %s", name,
                                hf_lease_owner_id(lease)));
    assert_true(hf_lease_is_held(lease));
    test_give(lease);
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    test_give(test_take(another));
    hf_lock_free(plain);
    hf_lock_free(another);
}

static void test_one_owner_two_kinds(void **state)
{
    static const hf_kind kinds[] = {HF_KIND_SPIN, HF_KIND_FENCED, HF_KIND_FAIR,
                                    HF_KIND_NON_REENTRANT,
                                    HF_KIND_FAIR_NON_REENTRANT};
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        mix(kinds[i]);
    }
    assert_true(srv_cmd_is(server, "OK", "FLUSHALL")); /* a counter */
}

/* A forced release through one kind is found out by the other at once. */
static void test_forced_through_another_kind(void **state)
{
    (void)state;
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = HF_KIND_SPIN;
    const char *name = test_fresh_name();
    hf_lock *plain = test_lock(client, name);
    hf_lock *spin =
        hf_lock_open_with(client, name, strlen(name), &options, &err);
    hf_lease *lease = test_take(plain);
    int fd = hf_lease_fd(lease, &err);
    expect(HF_OK, hf_lock_force_release(spin, NULL, &err));
    assert_true(test_wait_readable(fd));
    assert_int_equal(hf_lease_loss(lease), HF_LOSS_REVOKED);
    hf_lease_free(lease);
    hf_lock_free(plain);
    hf_lock_free(spin);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_one_owner_two_kinds),
        FIXTURE_TEST(test_forced_through_another_kind),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, fixture_patient, fixture_end);
}
