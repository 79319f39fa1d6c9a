/* The link by itself, in front of a real server: what becomes of a request
 * whose connection ends under it. */
#include "redis/link.h"
#include "support/net.h"
#include "support/server.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

/* More than a socket's buffers hold. */
#define LARGE ((size_t)8 * 1024 * 1024)
/* Threads; more than a reader wakes at once. */
#define MANY 80

typedef struct fixture {
    srv *server;
    hf__endpoint endpoint;
    hf__link link;
} fixture;

/* The test's own thread waits for every request, so there is no keeper. */
static void no_keeper(void *ctx)
{
    (void)ctx;
}

static int set_up(void **state)
{
    static const hf__link_hooks hooks = {.wake_keeper = no_keeper};
    const int64_t limit = TEST_LIMIT_MS * HF__MS;
    hf_error err = HF_ERROR_INIT;
    fixture *f = calloc(1, sizeof(*f));
    f->server = srv_start(NULL);
    assert_int_equal(hf__endpoint_parse(srv_url(f->server), &f->endpoint, &err),
                     HF_OK);
    assert_int_equal(
        hf__link_init(&f->link, &f->endpoint, &hooks, limit, limit, &err),
        HF_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    hf__link_close(&f->link);
    hf__link_destroy(&f->link);
    hf__endpoint_free(&f->endpoint);
    srv_stop(f->server);
    free(f);
    return 0;
}

static bool wait_for(fixture *f, hf__request *request)
{
    return hf__link_wait(&f->link, request, hf__now() + TEST_LIMIT_MS * HF__MS,
                         NULL);
}

static void ping(fixture *f, hf__request *request, hf__call *call)
{
    *request = (hf__request){.call = call};
    hf__call_begin(call, NULL);
    hf__call_add(call, HF__LITERAL("PING"));
    hf__link_submit(&f->link, request, hf__thread_self());
}

static void expect_pong(fixture *f, hf__request *request)
{
    assert_true(wait_for(f, request));
    assert_int_equal(request->outcome, HF__REPLIED);
    assert_string_equal(request->text, "PONG");
}

/* A connection counts as idle a millisecond after it was last heard of. */
static void become_idle(const fixture *f)
{
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    while (hf__now() - f->link.heard_at < 2 * HF__MS && test_pause(by)) {
    }
}

/* Queued behind more than the socket takes, it was not sent when the
 * connection broke: the next one carries it. What was sent in part is
 * unknown. */
static void test_unsent_goes_over_the_next_connection(void **state)
{
    fixture *f = *state;
    hf__call calls[2];
    hf__request large;
    hf__request small;
    char *text = calloc(1, LARGE);
    ping(f, &small, &calls[0]);
    expect_pong(f, &small);
    srv_pause(f->server);
    large = (hf__request){.call = &calls[1]};
    hf__call_begin(&calls[1], NULL);
    hf__call_add(&calls[1], HF__LITERAL("ECHO"));
    hf__call_add(&calls[1], (hf__slice){text, LARGE});
    hf__link_submit(&f->link, &large, hf__thread_self());
    ping(f, &small, &calls[0]);
    assert_int_equal(shutdown(f->link.fd, SHUT_RDWR), 0);
    srv_resume(f->server);
    assert_true(wait_for(f, &large));
    assert_int_equal(large.outcome, HF__UNKNOWN);
    expect_pong(f, &small);
    assert_int_equal(f->link.connects, 2);
    free(text);
}

static atomic_int messages;

static void hear(void *ctx, hf__slice channel, hf__slice payload)
{
    (void)ctx;
    (void)channel;
    (void)payload;
    (void)atomic_fetch_add(&messages, 1);
}

/* A subscriber's link is spoken to unasked: what has come while nobody read is
 * heard with the next reply. */
static void test_message_while_idle(void **state)
{
    fixture *f = *state;
    hf__call call;
    hf__request request = {.call = &call};
    const hf__link_hooks hooks = {.wake_keeper = no_keeper, .on_message = hear};
    f->link.hooks = hooks;
    hf__call_begin(&call, NULL);
    hf__call_add(&call, HF__LITERAL("SUBSCRIBE"));
    hf__call_add(&call, HF__LITERAL("news"));
    hf__link_submit(&f->link, &request, hf__thread_self());
    assert_true(wait_for(f, &request));
    assert_true(srv_cmd_is(f->server, "1", "PUBLISH news 0"));
    become_idle(f);
    assert_int_equal(hf__peek(f->link.fd), 1);
    request = (hf__request){.call = &call};
    hf__link_submit(&f->link, &request, hf__thread_self());
    assert_true(wait_for(f, &request));
    assert_int_equal(request.outcome, HF__REPLIED);
    assert_int_equal(atomic_load(&messages), 1);
    assert_int_equal(f->link.connects, 1);
}

/* No next connection can be had: then it was certainly not sent. */
static void test_unsent_without_a_server(void **state)
{
    fixture *f = *state;
    hf__call call;
    hf__request request;
    ping(f, &request, &call);
    expect_pong(f, &request);
    srv_kill9(f->server);
    become_idle(f);
    ping(f, &request, &call);
    assert_true(wait_for(f, &request));
    assert_int_equal(request.outcome, HF__NOT_SENT);
    assert_int_equal(request.failure, HF_EUNREACHABLE);
}

/* ---- refused at once */

static void test_closed(void **state)
{
    fixture *f = *state;
    hf__call call;
    hf__request request;
    ping(f, &request, &call);
    expect_pong(f, &request);
    hf__link_close(&f->link);
    ping(f, &request, &call);
    assert_true(wait_for(f, &request));
    assert_int_equal(request.outcome, HF__NOT_SENT);
    assert_int_equal(request.failure, HF_ECLOSED);
}

/* Not for a server that was restarted since the submitter looked. */
static void test_outdated(void **state)
{
    fixture *f = *state;
    hf__call call;
    hf__request request;
    ping(f, &request, &call);
    expect_pong(f, &request);
    srv_restart(f->server);
    become_idle(f);
    ping(f, &request, &call);
    expect_pong(f, &request); /* not into the old connection */
    assert_int_equal(f->link.restarts, 1);
    for (unsigned seen = 0; seen < 2; seen++) {
        request =
            (hf__request){.call = &call, .same_server = true, .restarts = seen};
        hf__link_submit(&f->link, &request, hf__thread_self());
        assert_true(wait_for(f, &request));
        assert_int_equal(request.outcome,
                         seen == 1 ? HF__REPLIED : HF__OUTDATED);
    }
}

/* ---- replies */

static void test_long_text_is_cut(void **state)
{
    fixture *f = *state;
    char text[2 * HF__REPLY_TEXT_MAX];
    hf__call call;
    memset(text, 'x', sizeof(text));
    for (size_t n = HF__REPLY_TEXT_MAX - 2; n <= sizeof(text);
         n += n <= HF__REPLY_TEXT_MAX ? 1 : 100) {
        size_t kept = n < HF__REPLY_TEXT_MAX ? n : HF__REPLY_TEXT_MAX - 1;
        hf__request request = {.call = &call};
        hf__call_begin(&call, NULL);
        hf__call_add(&call, HF__LITERAL("ECHO"));
        hf__call_add(&call, (hf__slice){text, n});
        hf__link_submit(&f->link, &request, hf__thread_self());
        assert_true(wait_for(f, &request));
        assert_int_equal(request.text_length, n);
        assert_int_equal(strlen(request.text), kept);
        assert_memory_equal(request.text, text, kept);
    }
}

/* ---- threads */

typedef struct sayer {
    fixture *f;
    hf__call call;
    hf__request request;
    bool completed;
} sayer;

static void *say_ping(void *arg)
{
    sayer *s = arg;
    ping(s->f, &s->request, &s->call);
    s->completed = wait_for(s->f, &s->request);
    return NULL;
}

static size_t sleepers(fixture *f)
{
    size_t count = 0;
    pthread_mutex_lock(&f->link.mutex);
    for (hf__list *n = f->link.pending.next; n != &f->link.pending;
         n = n->next) {
        count += HF__CONTAINER(n, hf__request, node)->reading;
    }
    pthread_mutex_unlock(&f->link.mutex);
    return count;
}

/* More than are woken at once: the server's replies come in one piece, and all
 * but the reader sleep until then. */
static void test_many_replies_at_once(void **state)
{
    fixture *f = *state;
    sayer sayers[MANY];
    pthread_t threads[MANY];
    const int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    sayers[0] = (sayer){.f = f};
    (void)say_ping(&sayers[0]); /* connects */
    srv_pause(f->server);
    for (size_t i = 0; i < MANY; i++) {
        sayers[i] = (sayer){.f = f};
        assert_int_equal(
            pthread_create(&threads[i], NULL, say_ping, &sayers[i]), 0);
    }
    while (sleepers(f) < MANY - 1) {
        assert_true(test_pause(deadline));
    }
    srv_resume(f->server);
    for (size_t i = 0; i < MANY; i++) {
        (void)pthread_join(threads[i], NULL);
        assert_true(sayers[i].completed);
        expect_pong(f, &sayers[i].request);
    }
    assert_int_equal(f->link.connects, 1);
}

/* ---- a slow writer: stands before the C library's. The sanitizers have one
 * of their own; the plain build covers it. */

#if !TEST_SANITIZED

static atomic_bool gate_closed;
static atomic_bool at_gate;

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    ssize_t (*real)(int, const void *, size_t, int) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "send");
    const int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    while (atomic_load(&gate_closed)) {
        atomic_store(&at_gate, true);
        (void)test_pause(deadline);
    }
    return real(fd, bytes, length, flags);
}

static void await_broken(fixture *f)
{
    const int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    bool broken = false;
    while (!broken) {
        assert_true(test_pause(deadline));
        pthread_mutex_lock(&f->link.mutex);
        broken = f->link.state == HF__LINK_BROKEN && !f->link.reading;
        pthread_mutex_unlock(&f->link.mutex);
    }
}

/* The reader finds the connection broken while a writer still uses it: it
 * sleeps, and the writer, once done, hands on to it. */
static void test_break_under_a_writer(void **state)
{
    fixture *f = *state;
    pthread_t threads[2];
    sayer writer = {.f = f};
    sayer reader = {.f = f};
    ping(f, &writer.request, &writer.call);
    expect_pong(f, &writer.request);
    atomic_store(&gate_closed, true);
    assert_int_equal(pthread_create(&threads[0], NULL, say_ping, &writer), 0);
    while (!atomic_load(&at_gate)) {
        assert_true(test_pause(test_now_ms() + TEST_LIMIT_MS));
    }
    assert_int_equal(pthread_create(&threads[1], NULL, say_ping, &reader), 0);
    assert_int_equal(shutdown(f->link.fd, SHUT_RDWR), 0);
    await_broken(f);
    atomic_store(&gate_closed, false);
    (void)pthread_join(threads[0], NULL);
    (void)pthread_join(threads[1], NULL);
    assert_int_equal(writer.request.outcome, HF__UNKNOWN);
    assert_true(reader.completed);
    expect_pong(f, &reader.request);
}

#endif

int main(void)
{
#define LINK_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        LINK_TEST(test_unsent_goes_over_the_next_connection),
        LINK_TEST(test_message_while_idle),
        LINK_TEST(test_unsent_without_a_server),
        LINK_TEST(test_closed),
        LINK_TEST(test_outdated),
        LINK_TEST(test_long_text_is_cut),
        LINK_TEST(test_many_replies_at_once),
#if !TEST_SANITIZED
        LINK_TEST(test_break_under_a_writer),
#endif
    };
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
