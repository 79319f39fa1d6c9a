/* Every kind of lock with a lease, behind a network that loses requests,
 * replies and connections. */
#include "fault/kinds.h"

static size_t hold_replies(kinds_case *k)
{
    proxy_set(k->f.net, PROXY_TO_CLIENT, PROXY_HOLD);
    return proxy_counts(k->f.net).seen[PROXY_TO_CLIENT];
}

/* F9: exactly one hold afterwards, and one release ends it. */
static void test_reply_of_acquire_lost(void **state)
{
    kinds_case *k = *state;
    hf_client *client = kinds_client_behind(k);
    hf_acquire_options terms = kinds_long(TEST_LIMIT_MS);
    hf_lock *lock = kinds_lock(k, client);
    taker t;
    size_t seen = hold_replies(k);
    taker_start_with(&t, lock, &terms);
    kinds_cut_reply(k, seen);
    assert_int_equal(taker_end(&k->f, &t), HF_OK);
    kinds_expect_once(k, t.lease);
    fault_give(&k->f, t.lease);
    kinds_expect_nothing(k);
}

/* F9: a single try does not ask again; what was granted is given back. */
static void test_reply_of_try_lost(void **state)
{
    kinds_case *k = *state;
    hf_error err = HF_ERROR_INIT;
    hf_client *client = kinds_client_behind(k);
    hf_acquire_options terms = kinds_long(0);
    hf_lock *lock = kinds_lock(k, client);
    proxy_set(k->f.net, PROXY_TO_CLIENT, PROXY_DROP_NEXT);
    assert_int_equal(hf_lock_acquire_with(lock, &terms, NULL, &err),
                     HF_EUNREACHABLE);
    assert_true(hf_error_is_retriable(&err));
    kinds_expect_nothing(k);
    kinds_cycle(k, client);
}

/* F8: a wait asks again, by itself. */
static void test_request_lost(void **state)
{
    kinds_case *k = *state;
    hf_client *client = kinds_client_behind(k);
    hf_acquire_options terms = kinds_long(TEST_LIMIT_MS);
    hf_lock *lock = kinds_lock(k, client);
    size_t before = proxy_counts(k->f.net).dropped[PROXY_TO_SERVER];
    proxy_set(k->f.net, PROXY_TO_SERVER, PROXY_DROP_NEXT);
    hf_lease *lease = fault_take_with(&k->f, lock, &terms);
    assert_true(proxy_counts(k->f.net).dropped[PROXY_TO_SERVER] > before);
    kinds_expect_once(k, lease);
    fault_give(&k->f, lease);
    kinds_expect_nothing(k);
}

static void *give(void *arg)
{
    return hf_lease_release(arg, NULL) == HF_OK ? arg : NULL;
}

/* F9: said again, a release counts once, and is no loss. */
static void test_reply_of_release_lost(void **state)
{
    kinds_case *k = *state;
    pthread_t thread;
    void *given = NULL;
    hf_client *client = kinds_client_behind(k);
    hf_acquire_options terms = kinds_long(0);
    hf_lease *lease = fault_take_with(&k->f, kinds_lock(k, client), &terms);
    size_t seen = hold_replies(k);
    assert_int_equal(pthread_create(&thread, NULL, give, lease), 0);
    kinds_cut_reply(k, seen);
    (void)pthread_join(thread, &given);
    assert_ptr_equal(given, lease);
    kinds_expect_nothing(k);
    kinds_cycle(k, client);
}

/* F10: the lease outlives the connection. */
static void test_cut_while_held(void **state)
{
    kinds_case *k = *state;
    loss_note note = {0};
    hf_acquire_options terms = kinds_noting(&note);
    hf_client *client = kinds_client_behind(k);
    hf_lease *lease = fault_take_with(&k->f, kinds_lock(k, client), &terms);
    size_t connections = proxy_counts(k->f.net).connections;
    proxy_reset(k->f.net);
    assert_true(fault_renewed(lease, 1));
    assert_true(proxy_counts(k->f.net).connections > connections);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    assert_int_equal(atomic_load(&note.count), 0);
    kinds_expect_once(k, lease);
    fault_give(&k->f, lease);
    kinds_expect_nothing(k);
}

/* F10, F33: a waiter comes back by itself, and is granted without a poll. */
static void test_cut_while_waiting(void **state)
{
    kinds_case *k = *state;
    hf_acquire_options terms = kinds_long(TEST_LIMIT_MS);
    hf_client *holder = kinds_client(k);
    hf_client *client = kinds_client_behind(k);
    hf_lease *held = fault_take_with(&k->f, kinds_rival(k, holder), &terms);
    taker t;
    kinds_unheard(k);
    taker_start_with(&t, kinds_lock(k, client), &terms);
    kinds_expect_waiting(k);
    kinds_unheard(k);
    proxy_reset(k->f.net);
    kinds_expect_waiting(k);
    assert_false(atomic_load(&t.done));
    fault_give(&k->f, held);
    assert_int_equal(taker_end(&k->f, &t), HF_OK);
    kinds_expect_once(k, t.lease);
    fault_give(&k->f, t.lease);
    kinds_expect_nothing(k);
}

/* ---- order */

static bool is_fair(const kinds_row *row)
{
    return row->kind == HF_KIND_FAIR || row->kind == HF_KIND_FAIR_NON_REENTRANT;
}

static void queue_up(kinds_case *k, taker *t, hf_client *client,
                     long long place)
{
    hf_acquire_options terms = kinds_long(TEST_LIMIT_MS);
    taker_start_with(t, kinds_lock(k, client), &terms);
    assert_becomes(srv_cmd_int(k->f.server, "LLEN redisson_lock_queue:{x}") ==
                   place);
}

/* The second of three is cut off: it is served, and the others in the order in
 * which they came. */
static void test_order_over_a_cut(void **state)
{
    kinds_case *k = *state;
    taker t[3];
    hf_acquire_options terms = kinds_long(TEST_LIMIT_MS);
    hf_client *near = kinds_client(k);
    hf_client *far = kinds_client_behind(k);
    hf_lease *held = fault_take_with(&k->f, kinds_rival(k, near), &terms);
    for (int i = 0; i < 3; i++) {
        queue_up(k, &t[i], i == 1 ? far : near, i + 1);
    }
    size_t connections = proxy_counts(k->f.net).connections;
    proxy_reset(k->f.net);
    assert_true(proxy_wait_connections(k->f.net, connections + 1));
    fault_give(&k->f, held);
    assert_int_equal(taker_end(&k->f, &t[0]), HF_OK);
    assert_false(atomic_load(&t[2].done));
    fault_give(&k->f, t[0].lease);
    bool second = false;
    bool third = false;
    while (!second || !third) {
        if (!second && atomic_load(&t[1].done)) {
            assert_int_equal(taker_end(&k->f, &t[1]), HF_OK);
            fault_give(&k->f, t[1].lease);
            second = true;
        }
        if (!third && atomic_load(&t[2].done)) {
            assert_int_equal(taker_end(&k->f, &t[2]), HF_OK);
            fault_give(&k->f, t[2].lease);
            third = true;
        }
        (void)test_pause(INT64_MAX);
    }
    kinds_expect_nothing(k);
}

/* ---- waiters that leave */

static bool gone_as_before(kinds_case *k, const char *before)
{
    char *now = kinds_keys(k);
    char *channels = srv_cmd(k->f.server, "PUBSUB CHANNELS");
    bool same = strcmp(now, before) == 0 && strcmp(channels, "") == 0;
    free(channels);
    free(now);
    return same;
}

/* Nothing stays of it: no place in a queue, no writer's mark, no
 * subscription. */
static void leave(kinds_case *k, hf_cancel *cancel, int64_t wait_ms)
{
    hf_acquire_options terms = kinds_long(TEST_LIMIT_MS);
    hf_client *holder = kinds_client(k);
    hf_client *client = kinds_client(k);
    kinds_cycle(k, client);
    hf_lease *held = fault_take_with(&k->f, kinds_rival(k, holder), &terms);
    char *before = kinds_keys(k);
    taker t;
    terms = kinds_long(wait_ms);
    terms.cancel = cancel;
    kinds_unheard(k);
    hf_lock *lock = kinds_lock(k, client);
    hf_status status = HF_EUNREACHABLE;
    while (status == HF_EUNREACHABLE) { /* on a busy machine */
        taker_start_with(&t, lock, &terms);
        if (cancel) {
            kinds_expect_waiting(k);
            hf_cancel_fire(cancel);
        }
        status = taker_end(&k->f, &t);
    }
    assert_int_equal(status, cancel ? HF_CANCELLED : HF_NOT_ACQUIRED);
    assert_becomes(gone_as_before(k, before));
    free(before);
    fault_give(&k->f, held);
    kinds_expect_nothing(k);
}

static void test_waiter_cancelled(void **state)
{
    hf_cancel *cancel = hf_cancel_new();
    leave(*state, cancel, HF_WAIT_FOREVER);
    hf_cancel_free(cancel);
}

static void test_waiter_timed_out(void **state)
{
    leave(*state, NULL, 100);
}

int main(void)
{
    static const kinds_test tests[] = {
        {"test_reply_of_acquire_lost", test_reply_of_acquire_lost, NULL},
        {"test_reply_of_try_lost", test_reply_of_try_lost, NULL},
        {"test_request_lost", test_request_lost, NULL},
        {"test_reply_of_release_lost", test_reply_of_release_lost, NULL},
        {"test_cut_while_held", test_cut_while_held, NULL},
        {"test_cut_while_waiting", test_cut_while_waiting, NULL},
        {"test_order_over_a_cut", test_order_over_a_cut, is_fair},
        {"test_waiter_cancelled", test_waiter_cancelled, NULL},
        {"test_waiter_timed_out", test_waiter_timed_out, NULL},
    };
    return kinds_run(tests, sizeof(tests) / sizeof(tests[0]), NULL);
}
