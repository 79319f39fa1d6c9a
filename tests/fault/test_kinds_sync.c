/* Semaphores and latches: a reply, a message or the server is lost. */
#include "fault/fault.h"

#define RECORDS_GONE                                                           \
    "for _, key in ipairs(redis.call('keys', 'holdfast_*'))"                   \
    " do if redis.call('pttl', key) > 0 then redis.call('del', key) end end "  \
    "return redis.call('dbsize')"

/* Either a semaphore, of which one permit is wanted, or a latch. */
typedef struct waiter {
    hf_semaphore *semaphore;
    hf_latch *latch;
    hf_status status;
    hf_error err;
    atomic_bool done;
    pthread_t thread;
} waiter;

static void *wait_for_it(void *arg)
{
    waiter *w = arg;
    w->status = w->latch
                    ? hf_latch_await(w->latch, TEST_LIMIT_MS, NULL, &w->err)
                    : hf_semaphore_acquire(w->semaphore, 1, TEST_LIMIT_MS, NULL,
                                           &w->err);
    atomic_store(&w->done, true);
    return NULL;
}

static void waiter_start(waiter *w)
{
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_it, w), 0);
}

static void waiter_end(waiter *w)
{
    (void)pthread_join(w->thread, NULL);
    if (w->status != HF_OK) {
        fail_msg("%s", hf_error_text(&w->err));
    }
}

static void waiter_free(waiter *w)
{
    hf_semaphore_free(w->semaphore);
    hf_latch_free(w->latch);
}

static waiter of_semaphore(hf_client *client, int in_turn)
{
    hf_semaphore_options options = HF_SEMAPHORE_OPTIONS_INIT;
    options.no_starvation = in_turn;
    waiter w = {.semaphore = hf_semaphore_open(client, "x", 1, &options, NULL)};
    assert_non_null(w.semaphore);
    return w;
}

static waiter of_latch(hf_client *client)
{
    waiter w = {.latch = hf_latch_open(client, "x", 1, NULL)};
    assert_non_null(w.latch);
    return w;
}

/* It has subscribed, and asked again. */
static void expect_parked(fault *f, const waiter *w)
{
    const char *asked = w->latch ? "get" : "evalsha";
    assert_becomes(fault_calls(f, "subscribe") > 0);
    assert_becomes(fault_calls(f, asked) >= 2);
    assert_false(atomic_load(&w->done));
}

static void start_parked(fault *f, waiter *w)
{
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG RESETSTAT"));
    waiter_start(w);
    expect_parked(f, w);
}

/* Nothing stays but private records, which end by themselves. */
static void expect_nothing(fault *f)
{
    assert_true(srv_cmd_becomes(f->server, "0", "EVAL %s 0", RECORDS_GONE));
}

/* ---- F9: the reply is lost */

static void cut_reply(fault *f, waiter *w)
{
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_HOLD);
    size_t seen = proxy_counts(f->net).seen[PROXY_TO_CLIENT];
    waiter_start(w);
    assert_true(proxy_wait_seen(f->net, PROXY_TO_CLIENT, seen + 1));
    proxy_reset(f->net);
    proxy_set(f->net, PROXY_TO_CLIENT, PROXY_PASS);
    waiter_end(w);
}

static void lose_reply(fault *f, int in_turn)
{
    hf_client *client = fault_open(f, proxy_tcp_url(f->net), NULL);
    waiter w = of_semaphore(client, in_turn);
    assert_true(srv_cmd_is(f->server, "OK", "SET x 3"));
    assert_int_equal(hf_semaphore_try(w.semaphore, 1, NULL), HF_OK);
    cut_reply(f, &w);
    assert_true(srv_cmd_becomes(f->server, "1", "GET x"));
    /* The thread's next change comes behind whatever is still unsettled. */
    assert_int_equal(hf_semaphore_release(w.semaphore, 2, NULL), HF_OK);
    assert_true(srv_cmd_is(f->server, "3", "GET x"));
    assert_true(srv_cmd_is(f->server, "1", "DEL x"));
    expect_nothing(f);
    waiter_free(&w);
}

static void test_reply_of_semaphore_lost(void **state)
{
    lose_reply(*state, 0);
}

static void test_reply_in_turn_lost(void **state)
{
    lose_reply(*state, 1);
}

static void test_reply_of_await_lost(void **state)
{
    fault *f = *state;
    hf_client *client = fault_open(f, proxy_tcp_url(f->net), NULL);
    waiter w = of_latch(client);
    assert_int_equal(hf_latch_await(w.latch, 0, NULL, NULL), HF_OK);
    cut_reply(f, &w);
    expect_nothing(f);
    waiter_free(&w);
}

/* ---- F33: the message is lost */

static hf_client *open_polling(fault *f)
{
    hf_client_options options = fault_options();
    options.poll_cap_ms = 100;
    return fault_open(f, srv_url(f->server), &options);
}

/* Without a message, who waits finds out by a poll. */
static void lose_message(fault *f, waiter *w, const char *order)
{
    start_parked(f, w);
    free(srv_cmd(f->server, order));
    waiter_end(w);
    free(srv_cmd(f->server, "DEL x"));
    expect_nothing(f);
    waiter_free(w);
}

static void test_message_of_semaphore_lost(void **state)
{
    waiter w = of_semaphore(open_polling(*state), 0);
    lose_message(*state, &w, "SET x 1");
}

static void test_message_in_turn_lost(void **state)
{
    waiter w = of_semaphore(open_polling(*state), 1);
    lose_message(*state, &w, "SET x 1");
}

static void test_message_of_latch_lost(void **state)
{
    fault *f = *state;
    waiter w = of_latch(open_polling(f));
    assert_true(srv_cmd_is(f->server, "OK", "SET x 2"));
    lose_message(f, &w, "DEL x");
}

/* ---- F1: the server comes back empty */

static void restart(fault *f)
{
    srv_kill9(f->server);
    srv_restart(f->server);
}

static hf_client *open_bold(fault *f)
{
    hf_client_options options = fault_options();
    options.restart_quarantine_ms = -1;
    return fault_open(f, srv_url(f->server), &options);
}

/* Permits that are made anew are had, by a message. */
static void restart_semaphore(fault *f, int in_turn)
{
    hf_client *client = open_bold(f);
    waiter w = of_semaphore(client, in_turn);
    waiter other = of_semaphore(open_bold(f), 0);
    start_parked(f, &w);
    restart(f);
    expect_parked(f, &w);
    assert_int_equal(hf_semaphore_set(other.semaphore, 1, 0, NULL, NULL),
                     HF_OK);
    waiter_end(&w);
    assert_true(srv_cmd_is(f->server, "0", "GET x"));
    assert_true(srv_cmd_is(f->server, "1", "DEL x"));
    expect_nothing(f);
    waiter_free(&w);
    waiter_free(&other);
}

static void test_semaphore_restarted(void **state)
{
    restart_semaphore(*state, 0);
}

static void test_in_turn_restarted(void **state)
{
    restart_semaphore(*state, 1);
}

/* What is not there keeps nobody waiting. */
static void test_latch_restarted(void **state)
{
    fault *f = *state;
    waiter w = of_latch(open_bold(f));
    assert_true(srv_cmd_is(f->server, "OK", "SET x 2"));
    start_parked(f, &w);
    restart(f);
    waiter_end(&w);
    expect_nothing(f);
    waiter_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST_NET(test_reply_of_semaphore_lost),
        FAULT_TEST_NET(test_reply_in_turn_lost),
        FAULT_TEST_NET(test_reply_of_await_lost),
        FAULT_TEST(test_message_of_semaphore_lost),
        FAULT_TEST(test_message_in_turn_lost),
        FAULT_TEST(test_message_of_latch_lost),
        FAULT_TEST(test_semaphore_restarted),
        FAULT_TEST(test_in_turn_restarted),
        FAULT_TEST(test_latch_restarted),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
