/* What a holder asks about its lease is answered here: nothing goes to the
 * server, which may be silent just then. */
#include "fault/fault.h"

static void test_questions_go_nowhere(void **state)
{
    fault *f = *state;
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = 120000; /* no renewal in between */
    hf_client *client = fault_open(f, proxy_tcp_url(f->net), &options);
    hf_lease *lease = fault_take(f, fault_lock(f, client, "asked"));
    size_t said = proxy_counts(f->net).seen[PROXY_TO_SERVER];
    srv_pause(f->server);
    for (int i = 0; i < 1000; i++) {
        assert_true(hf_lease_is_held(lease));
        assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
        assert_true(hf_lease_remaining_ms(lease) > 0);
        assert_int_equal(hf_lease_loss(lease), HF_LOSS_NONE);
        assert_int_equal(hf_lease_token(lease), 0);
        assert_non_null(hf_lease_owner_id(lease));
        assert_true(hf_lease_fd(lease, NULL) >= 0);
    }
    srv_resume(f->server);
    /* This one does, behind whatever the others might have said. */
    assert_int_equal(hf_client_ping(client, NULL), HF_OK);
    size_t ping = sizeof("*1\r\n$4\r\nPING\r\n") - 1;
    assert_int_equal(proxy_counts(f->net).seen[PROXY_TO_SERVER], said + ping);
    fault_give(f, lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST_NET(test_questions_go_nowhere),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
