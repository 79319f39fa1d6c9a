/* F11: a server falls silent while a reply is due that nobody waits for just
 * then, since whoever will has not come to it yet. The keeper, which a reader
 * has set an alarm for, breaks the connection: it is closed, and the next call
 * opens another. */
#include "fault/fault.h"

#include "client/client_int.h"
#include "redis/link.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define SILENCE_MS 300

/* ---- a link by itself: the test is its keeper */

typedef struct line {
    srv *server;
    proxy *net;
    hf__endpoint endpoint;
    hf__link link;
} line;

static void no_wake(void *ctx)
{
    (void)ctx;
}

static int line_setup(void **state)
{
    static const hf__link_hooks hooks = {.wake_keeper = no_wake};
    hf_error err = HF_ERROR_INIT;
    line *l = calloc(1, sizeof(*l));
    if (!l) {
        return -1;
    }
    l->server = srv_start(NULL);
    l->net = proxy_start(srv_socket(l->server));
    *state = l;
    return hf__endpoint_parse(proxy_tcp_url(l->net), &l->endpoint, &err) ==
                       HF_OK &&
                   hf__link_init(&l->link, &l->endpoint, &hooks,
                                 TEST_LIMIT_MS * HF__MS, SILENCE_MS * HF__MS,
                                 &err) == HF_OK
               ? 0
               : -1;
}

static int line_teardown(void **state)
{
    line *l = *state;
    hf__link_close(&l->link);
    hf__link_destroy(&l->link);
    hf__endpoint_free(&l->endpoint);
    proxy_stop(l->net);
    srv_stop(l->server);
    free(l);
    return 0;
}

typedef struct question {
    hf__call call;
    hf__request request;
} question;

static void make_ping(question *q)
{
    memset(q, 0, sizeof(*q));
    hf__call_begin(&q->call, NULL);
    hf__call_add(&q->call, HF__LITERAL("PING"));
    q->request.call = &q->call;
}

static void expect_pong(line *l)
{
    question q;
    make_ping(&q);
    assert_true(hf__link_say(&l->link, &q.request, hf__thread_self(),
                             hf__now() + TEST_LIMIT_MS * HF__MS, NULL));
    assert_int_equal(q.request.outcome, HF__REPLIED);
}

/* What the keeper does, and nobody else does anything, until the request is
 * completed. There is no reply to read. */
static void keep_until_completed(line *l, const hf__request *request)
{
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    while (request->outcome == HF__PENDING && test_now_ms() < by) {
        int fd = -1;
        int64_t due = HF__NEVER;
        bool reader = true;
        (void)hf__link_poll(&l->link, false, &fd, &due, &reader);
        assert_false(reader);
        assert_true(due != HF__NEVER);
        hf__poll(NULL, 0, due);
        hf__link_pump(&l->link, reader);
    }
}

static void break_by_alarm(line *l, void (*silence)(line *),
                           void (*end_silence)(line *))
{
    question q;
    expect_pong(l); /* its reader has set the alarm */
    assert_true(l->link.alarm != HF__NEVER);
    silence(l);
    make_ping(&q);
    hf__link_submit(&l->link, &q.request, hf__thread_self());
    keep_until_completed(l, &q.request);
    assert_int_equal(q.request.outcome, HF__UNKNOWN);
    assert_int_equal(l->link.fd, -1);
    assert_int_equal(l->link.state, HF__LINK_DOWN);
    end_silence(l);
    expect_pong(l);
    assert_int_equal(l->link.connects, 2);
    assert_true(proxy_wait_open(l->net, 1));
}

static void drop(line *l)
{
    proxy_set(l->net, PROXY_TO_CLIENT, PROXY_DROP);
}

static void pass(line *l)
{
    proxy_set(l->net, PROXY_TO_CLIENT, PROXY_PASS);
}

static void stop(line *l)
{
    srv_pause(l->server);
}

static void go_on(line *l)
{
    srv_resume(l->server);
}

static void test_alarm_when_replies_are_lost(void **state)
{
    break_by_alarm(*state, drop, pass);
}

static void test_alarm_when_the_server_has_stopped(void **state)
{
    break_by_alarm(*state, stop, go_on);
}

/* ---- a client: the waiter for whom the keeper asks is held up */

/* So long that the steps before the alarm rings take less, however busy the
 * machine is. */
#define PATIENCE_MS 4000

static int held_up[2];
static int goes_on[2];

/* The program's own signal handler takes its time. */
static void hold_up(int signal)
{
    int error = errno;
    char byte = '\0';
    (void)signal;
    child_say(held_up[1], '!');
    while (read(goes_on[0], &byte, 1) < 0 && errno == EINTR) {
    }
    errno = error;
}

static bool has_parked_waiter(const hf_client *client)
{
    const hf__channel *channel = client->waiters.channels;
    return channel && !hf__list_empty(&channel->waiters) &&
           HF__CONTAINER(channel->waiters.next, hf__waiter, node)->state ==
               HF__WAITER_PARKED;
}

/* Who is parked holds no mutex, and gets none before it is held up. */
static void hold_up_waiter(hf_client *client, const taker *t)
{
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    pthread_mutex_lock(&client->mutex);
    while (!has_parked_waiter(client)) {
        pthread_mutex_unlock(&client->mutex);
        assert_true(test_pause(by));
        pthread_mutex_lock(&client->mutex);
    }
    int error = pthread_kill(t->thread, SIGUSR1);
    char heard = error == 0 ? child_hear(held_up[0]) : '\0';
    pthread_mutex_unlock(&client->mutex);
    assert_int_equal(heard, '!');
}

static bool alarm_is_far(hf__link *link)
{
    pthread_mutex_lock(&link->mutex);
    bool far = link->alarm != HF__NEVER &&
               link->alarm > hf__now() + PATIENCE_MS * HF__MS * 3 / 4;
    pthread_mutex_unlock(&link->mutex);
    return far;
}

/* Calls until the alarm has only just been set: so it rings after the keeper
 * has asked for the waiter, and not before. */
static void set_alarm(hf_client *client)
{
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    do {
        assert_true(test_pause(by));
        assert_int_equal(hf_client_ping(client, NULL), HF_OK);
    } while (!alarm_is_far(&client->commands));
}

static void test_alarm_for_a_waiter_held_up(void **state)
{
    fault *f = *state;
    struct sigaction action = {.sa_handler = hold_up, .sa_flags = SA_RESTART};
    assert_int_equal(pipe2(held_up, 0), 0);
    assert_int_equal(pipe2(goes_on, 0), 0);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    hf_client_options options = fault_options();
    options.command_timeout_ms = PATIENCE_MS;
    options.watchdog_lease_ms = 120000; /* its end wakes no waiter */
    hf_client *other = fault_open(f, srv_url(f->server), &options);
    hf_client *client = fault_open(f, proxy_tcp_url(f->net), &options);
    hf_lease *lease = fault_take(f, fault_lock(f, other, "alarm"));
    taker t;
    taker_start(&t, fault_lock(f, client, "alarm"), HF_WAIT_FOREVER);
    hold_up_waiter(client, &t);
    set_alarm(client);
    size_t dropped = proxy_counts(f->net).dropped[PROXY_TO_SERVER];
    proxy_set(f->net, PROXY_TO_SERVER, PROXY_DROP);
    fault_give(f, lease); /* hence the keeper asks for the waiter */
    assert_true(proxy_wait_dropped(f->net, PROXY_TO_SERVER, dropped + 1));
    assert_true(proxy_wait_open(f->net, 1)); /* that of the messages */
    proxy_set(f->net, PROXY_TO_SERVER, PROXY_PASS);
    assert_int_equal(hf_client_ping(client, NULL), HF_OK);
    child_say(goes_on[1], '!');
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_expect_count(f, "alarm", t.lease, "1");
    fault_give(f, t.lease);
    assert_int_equal(proxy_counts(f->net).open, 2);
}

int main(void)
{
#define LINE_TEST(test)                                                        \
    cmocka_unit_test_setup_teardown(test, line_setup, line_teardown)
    const struct CMUnitTest tests[] = {
        LINE_TEST(test_alarm_when_replies_are_lost),
        LINE_TEST(test_alarm_when_the_server_has_stopped),
        FAULT_TEST_NET(test_alarm_for_a_waiter_held_up),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
