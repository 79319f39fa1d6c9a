/* Semaphores, permits and latches behind a network that loses requests and
 * replies: what was done is done once, what was taken in vain is given back. */
#include "integration/sync_side.h"
#include "support/proxy.h"

#include <signal.h>

static proxy *net;
static hf_client *far; /* through it; command time-out 1000 ms */

static int setup(void **state)
{
    hf_client_options options = test_patient();
    options.command_timeout_ms = 1000;
    int failed = sync_setup(state);
    net = proxy_start(srv_socket(server));
    far = test_client(proxy_tcp_url(net), &options);
    sync_warm_up(far);
    return failed;
}

static int end(void **state)
{
    hf_client_free(far);
    proxy_stop(net);
    return fixture_end(state);
}

static void set_to(const char *name, const char *permits)
{
    assert_true(srv_cmd_is(server, "OK", "SET %s %s", name, permits));
}

static bool becomes(const char *name, const char *permits)
{
    return srv_cmd_becomes(server, permits, "GET %s", name);
}

static void forget(const char *name)
{
    free(srv_cmd(server, "DEL %s", name));
}

/* Whatever of this thread's is unsettled is settled before this. */
static void cycle(hf_semaphore *semaphore)
{
    expect(HF_OK,
           hf_semaphore_acquire(semaphore, 1, TEST_LIMIT_MS, NULL, &err));
    expect(HF_OK, hf_semaphore_release(semaphore, 1, &err));
}

static hf_semaphore *open_kind(const char *name, int in_turn)
{
    return in_turn ? sync_in_turn(far, name) : sync_semaphore(far, name);
}

/* From here on replies do not come, until the connection is cut, and they with
 * it; what is said besides, such as a renewal, loses its own as well. */
static void hold_replies(void)
{
    proxy_set(net, PROXY_TO_CLIENT, PROXY_HOLD);
}

static void cut_and_pass(void)
{
    proxy_reset(net);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
}

/* ---- taking */

static void test_reply_of_acquire_lost(void **state)
{
    (void)state;
    for (int in_turn = 0; in_turn < 2; in_turn++) {
        const char *name = test_fresh_name();
        hf_semaphore *semaphore = open_kind(name, in_turn);
        set_to(name, "5");
        test_reset_calls(server);
        proxy_set(net, PROXY_TO_CLIENT, PROXY_DROP_NEXT);
        expect(HF_OK,
               hf_semaphore_acquire(semaphore, 2, TEST_LIMIT_MS, NULL, &err));
        /* It was taken twice, and once given back. */
        assert_int_equal(test_calls(server, "decrby"), 2);
        assert_true(srv_cmd_is(server, "3", "GET %s", name));
        forget(name);
        hf_semaphore_free(semaphore);
    }
}

static void test_reply_of_try_lost(void **state)
{
    (void)state;
    for (int in_turn = 0; in_turn < 2; in_turn++) {
        const char *name = test_fresh_name();
        hf_semaphore *semaphore = open_kind(name, in_turn);
        set_to(name, "5");
        ear *e = sync_ear(SYNC_PERMITS_EAR, name);
        proxy_set(net, PROXY_TO_CLIENT, PROXY_DROP_NEXT);
        expect(HF_EUNREACHABLE, hf_semaphore_try(semaphore, 2, &err));
        assert_true(becomes(name, "5"));
        assert_true(ear_hears(e, "5")); /* somebody may wait for them */
        cycle(semaphore);
        assert_true(srv_cmd_is(server, "5", "GET %s", name));
        forget(name);
        ear_free(e);
        hf_semaphore_free(semaphore);
    }
}

/* The request never came: nothing is given back, what this thread had taken
 * before is not. */
static void test_request_of_try_lost(void **state)
{
    (void)state;
    for (int in_turn = 0; in_turn < 2; in_turn++) {
        const char *name = test_fresh_name();
        hf_semaphore *semaphore = open_kind(name, in_turn);
        set_to(name, "5");
        expect(HF_OK, hf_semaphore_try(semaphore, 3, &err));
        proxy_set(net, PROXY_TO_SERVER, PROXY_DROP_NEXT);
        expect(HF_EUNREACHABLE, hf_semaphore_try(semaphore, 2, &err));
        cycle(semaphore);
        assert_true(srv_cmd_is(server, "2", "GET %s", name));
        forget(name);
        hf_semaphore_free(semaphore);
    }
}

/* The time is over before the reply comes. */
static void test_given_up(void **state)
{
    (void)state;
    for (int in_turn = 0; in_turn < 2; in_turn++) {
        const char *name = test_fresh_name();
        hf_semaphore *semaphore = open_kind(name, in_turn);
        set_to(name, "5");
        expect(HF_OK, hf_semaphore_try(semaphore, 1, &err));
        proxy_set(net, PROXY_TO_CLIENT, PROXY_HOLD);
        expect(HF_EUNREACHABLE,
               hf_semaphore_acquire(semaphore, 2, 100, NULL, &err));
        proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
        cycle(semaphore);
        assert_true(becomes(name, "4"));
        forget(name);
        hf_semaphore_free(semaphore);
    }
}

/* Meanwhile the semaphore was deleted: its permits do not make it anew. */
static void test_given_up_and_deleted(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_semaphore *semaphore = sync_semaphore(far, name);
    sync_waiter w = {.semaphore = semaphore,
                     .permits = 2,
                     .wait_ms = SYNC_PATIENCE_MS,
                     .cancel = hf_cancel_new()};
    set_to(name, "5");
    proxy_set(net, PROXY_TO_CLIENT, PROXY_HOLD);
    sync_start(&w);
    assert_true(becomes(name, "3"));
    proxy_set(net, PROXY_TO_SERVER, PROXY_HOLD);
    hf_cancel_fire(w.cancel);
    sync_end(&w, HF_CANCELLED);
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
    test_reset_calls(server);
    proxy_set(net, PROXY_TO_SERVER, PROXY_PASS);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
    assert_true(test_wait_calls(server, "evalsha", 1));
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    hf_cancel_free(w.cancel);
    hf_semaphore_free(semaphore);
}

/* Busy is no grant: to give up waiting gives nothing back. */
static void test_given_up_in_vain(void **state)
{
    (void)state;
    for (int in_turn = 0; in_turn < 2; in_turn++) {
        const char *name = test_fresh_name();
        hf_semaphore *semaphore = open_kind(name, in_turn);
        set_to(name, "3");
        expect(HF_OK, hf_semaphore_try(semaphore, 2, &err));
        expect(HF_NOT_ACQUIRED,
               hf_semaphore_acquire(semaphore, 2, 100, NULL, &err));
        cycle(semaphore);
        assert_true(srv_cmd_is(server, "1", "GET %s", name));
        forget(name);
        hf_semaphore_free(semaphore);
    }
}

/* ---- changing */

typedef struct change {
    hf_semaphore *semaphore;
    hf_latch *latch;
    hf_lock *permits;
    int what;
    int64_t answer;
    hf_status status;
    hf_error err;
} change;

enum { RELEASE, ADD, SET, DRAIN, COUNT_DOWN, LATCH_SET, DELETE, TOTAL, MORE };

static void *make(void *arg)
{
    change *c = arg;
    int made = 0;
    switch (c->what) {
    case RELEASE:
        c->status = hf_semaphore_release(c->semaphore, 2, &c->err);
        break;
    case ADD:
        c->status = hf_semaphore_add(c->semaphore, -2, &c->err);
        break;
    case SET:
        c->status = hf_semaphore_set(c->semaphore, 2, 0, &made, &c->err);
        break;
    case DRAIN:
        c->status = hf_semaphore_drain(c->semaphore, &c->answer, &c->err);
        break;
    case COUNT_DOWN:
        c->status = hf_latch_count_down(c->latch, 2, &c->answer, &c->err);
        break;
    case LATCH_SET:
        c->status = hf_latch_set(c->latch, 2, 0, &made, &c->err);
        break;
    case DELETE:
        c->status = hf_latch_delete(c->latch, &made, &c->err);
        break;
    case TOTAL:
        c->status = hf_permits_set(c->permits, 2, &c->err);
        break;
    default:
        c->status = hf_permits_add(c->permits, 2, &c->err);
        break;
    }
    c->answer += made;
    return NULL;
}

/* The connection is cut when the server has made the change, but for its
 * reply. */
static void cut(change *c)
{
    size_t seen = proxy_counts(net).seen[PROXY_TO_CLIENT];
    proxy_set(net, PROXY_TO_CLIENT, PROXY_HOLD);
    pthread_t thread = test_thread(make, c);
    assert_true(proxy_wait_seen(net, PROXY_TO_CLIENT, seen + 1));
    proxy_reset(net);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
    test_join(thread);
}

typedef struct cut_case {
    int what;
    const char *before;
    const char *after;
    int64_t answer;
} cut_case;

/* Said again over the next connection, made once, and answered as at first. */
static void test_reply_of_change_lost(void **state)
{
    (void)state;
    static const cut_case cases[] = {
        {RELEASE, "5", "7", 0},    {ADD, "5", "3", 0},
        {SET, NULL, "2", 1},       {DRAIN, "5", "0", 5},
        {COUNT_DOWN, "5", "3", 3}, {COUNT_DOWN, "2", "(nil)", 0},
        {LATCH_SET, NULL, "2", 1}, {DELETE, "5", "(nil)", 1},
        {TOTAL, "5", "2", 0},      {MORE, "5", "7", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *name = test_fresh_name();
        change c = {.semaphore = sync_semaphore(far, name),
                    .latch = sync_latch(far, name),
                    .permits = sync_permits(far, name),
                    .what = cases[i].what};
        if (cases[i].before) {
            set_to(name, cases[i].before);
        }
        size_t connections = proxy_counts(net).connections;
        cut(&c);
        test_expect(HF_OK, c.status, &c.err, "the change", __FILE__, __LINE__);
        assert_true(proxy_counts(net).connections > connections);
        assert_int_equal(c.answer, cases[i].answer);
        assert_true(srv_cmd_is(server, cases[i].after, "GET %s", name));
        /* The next change of this thread is another one. */
        (void)make(&c);
        test_expect(HF_OK, c.status, &c.err, "the next", __FILE__, __LINE__);
        forget(name);
        hf_semaphore_free(c.semaphore);
        hf_latch_free(c.latch);
        hf_lock_free(c.permits);
    }
}

/* Nobody knows whether it was made. */
static void test_change_not_confirmed(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_semaphore *semaphore = sync_semaphore(far, name);
    set_to(name, "5");
    proxy_set(net, PROXY_TO_CLIENT, PROXY_HOLD);
    expect(HF_EUNKNOWN, hf_semaphore_release(semaphore, 1, &err));
    assert_non_null(strstr(hf_error_text(&err), "semaphore"));
    assert_true(srv_cmd_is(server, "6", "GET %s", name));
    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
    cycle(semaphore);
    assert_true(srv_cmd_is(server, "6", "GET %s", name));
    forget(name);
    hf_semaphore_free(semaphore);
}

/* Nor is it known when the server cannot be reached any more after that. */
static void test_change_made_and_cut_off(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    change c = {.semaphore = sync_semaphore(far, name), .what = RELEASE};
    set_to(name, "5");
    size_t seen = proxy_counts(net).seen[PROXY_TO_CLIENT];
    hold_replies();
    pthread_t thread = test_thread(make, &c);
    assert_true(proxy_wait_seen(net, PROXY_TO_CLIENT, seen + 1));
    proxy_refuse(net, true);
    cut_and_pass();
    test_join(thread);
    test_expect(HF_EUNKNOWN, c.status, &c.err, "the change", __FILE__,
                __LINE__);
    proxy_refuse(net, false);
    cycle(c.semaphore);
    assert_true(srv_cmd_is(server, "7", "GET %s", name));
    forget(name);
    hf_semaphore_free(c.semaphore);
}

/* Certainly not made: another status. */
static void test_change_not_sent(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_semaphore *semaphore = sync_semaphore(far, name);
    set_to(name, "5");
    size_t open = proxy_counts(net).open;
    assert_true(open > 0);
    proxy_refuse(net, true);
    proxy_reset(net);
    assert_true(proxy_wait_open(net, 0));
    hf_status status = hf_semaphore_release(semaphore, 1, &err);
    assert_true(status == HF_EUNREACHABLE || status == HF_EUNKNOWN);
    proxy_refuse(net, false);
    cycle(semaphore);
    assert_true(srv_cmd_is(server, "5", "GET %s", name));
    forget(name);
    hf_semaphore_free(semaphore);
}

/* ---- permits for a time */

/* None is made or lost: those available and those held are the total. */
static bool conserved(hf_lock *permits, int64_t total, int64_t held)
{
    int64_t available = -1;
    int64_t acquired = -1;
    expect(HF_OK, hf_permits_available(permits, &available, &err));
    expect(HF_OK, hf_permits_acquired(permits, &acquired, &err));
    return acquired == held && available + acquired == total;
}

/* Over whatever connection comes next. */
static void cycle_permit(hf_lock *permits)
{
    hf_lease *lease = NULL;
    expect(HF_OK, hf_lock_acquire(permits, TEST_LIMIT_MS, &lease, &err));
    test_give(lease);
}

static void test_replies_of_permits_lost(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    hf_lock *permits = sync_permits(far, name);
    expect(HF_OK, hf_permits_set(permits, 3, &err));
    hold_replies();
    taker_start(&t, permits, TEST_LIMIT_MS, NULL);
    assert_true(becomes(name, "2"));
    cut_and_pass();
    taker_join(&t);
    test_expect(HF_OK, t.status, &t.err, "acquire", __FILE__, __LINE__);
    assert_true(conserved(permits, 3, 1));
    hold_replies();
    expect(HF_EUNREACHABLE, hf_lock_try(permits, NULL, &err));
    cut_and_pass();
    cycle_permit(permits);
    assert_true(becomes(name, "2"));
    assert_true(conserved(permits, 3, 1));
    hold_replies();
    expect(HF_EUNKNOWN, hf_lease_release(t.lease, &err));
    assert_true(becomes(name, "3"));
    cut_and_pass();
    cycle_permit(permits);
    assert_true(conserved(permits, 3, 0));
    hf_lease_free(t.lease);
    forget(name);
    hf_lock_free(permits);
}

/* ---- latches */

/* To wait changes nothing, whatever is lost. */
static void test_reply_of_await_lost(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_latch *latch = sync_latch(far, name);
    set_to(name, "2");
    test_reset_calls(server);
    hold_replies();
    sync_waiter w = {.latch = latch, .wait_ms = SYNC_PATIENCE_MS};
    sync_start(&w);
    assert_true(test_wait_calls(server, "get", 1));
    cut_and_pass();
    assert_true(test_wait_calls(server, "subscribe", 1));
    assert_true(test_wait_calls(server, "get", 3));
    assert_true(srv_cmd_is(server, "2", "GET %s", name));
    expect(HF_OK, hf_latch_count_down(latch, 2, NULL, &err));
    sync_end(&w, HF_OK);
    hf_latch_free(latch);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        SYNC_TEST(test_reply_of_acquire_lost),
        SYNC_TEST(test_reply_of_try_lost),
        SYNC_TEST(test_request_of_try_lost),
        SYNC_TEST(test_given_up),
        SYNC_TEST(test_given_up_and_deleted),
        SYNC_TEST(test_given_up_in_vain),
        SYNC_TEST(test_reply_of_change_lost),
        SYNC_TEST(test_change_not_confirmed),
        SYNC_TEST(test_change_made_and_cut_off),
        SYNC_TEST(test_change_not_sent),
        SYNC_TEST(test_replies_of_permits_lost),
        SYNC_TEST(test_reply_of_await_lost),
    };
    return cmocka_run_group_tests(tests, setup, end);
}
