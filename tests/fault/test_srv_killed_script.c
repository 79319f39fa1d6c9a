/* F24: an operator kills a script of ours. None of them runs for long enough:
 * a gate in front of the server says another one in its place. */
#include "fault/fault.h"
#include "kinds/scripts.h"
#include "support/rubbish.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <unistd.h>

#define MOST_ARGUMENTS 64

static const char endless[] = "while true do end";
static const char half_done[] =
    "redis.call('hset', KEYS[1], ARGV[2], '1') error('broken off')";

typedef struct gate {
    redisContext *server;
    rubbish *front;
    const hf__script *script; /* of ours, to be replaced once ... */
    const char *instead;      /* ... by this */
    atomic_bool armed;
    atomic_int settled; /* how often a release was said, and answered */
    hf_client *client;
} gate;

/* ---- the gate */

static void pass_back(rubbish_peer *peer, const redisReply *reply)
{
    char head[64] = "$-1\r\n";
    if (reply->type == REDIS_REPLY_STATUS || reply->type == REDIS_REPLY_ERROR) {
        rubbish_text(peer, reply->type == REDIS_REPLY_STATUS ? "+" : "-");
        rubbish_send(peer, reply->str, reply->len);
        (void)snprintf(head, sizeof(head), "\r\n");
    } else if (reply->type == REDIS_REPLY_INTEGER) {
        (void)snprintf(head, sizeof(head), ":%lld\r\n", reply->integer);
    } else if (reply->type == REDIS_REPLY_STRING) {
        (void)snprintf(head, sizeof(head), "$%zu\r\n", reply->len);
    } else if (reply->type == REDIS_REPLY_ARRAY) {
        (void)snprintf(head, sizeof(head), "*%zu\r\n", reply->elements);
    }
    rubbish_text(peer, head);
    if (reply->type == REDIS_REPLY_STRING) {
        rubbish_send(peer, reply->str, reply->len);
        rubbish_text(peer, "\r\n");
    }
    for (size_t i = 0; i < reply->elements; i++) {
        pass_back(peer, reply->element[i]);
    }
}

static bool says(const rubbish_request *request, const hf__script *script)
{
    return (rubbish_is(request, "EVALSHA") &&
            strcmp(request->arguments[1], script->sha1) == 0) ||
           (rubbish_is(request, "EVAL") &&
            strcmp(request->arguments[1], script->text) == 0);
}

static void pass(void *arg, rubbish_peer *peer, const rubbish_request *request)
{
    gate *g = arg;
    const char *arguments[MOST_ARGUMENTS];
    size_t lengths[MOST_ARGUMENTS];
    if (request->count == 0) {
        return;
    }
    for (size_t i = 0; i < request->count; i++) {
        arguments[i] = request->arguments[i];
        lengths[i] = request->lengths[i];
    }
    if (says(request, g->script) && atomic_exchange(&g->armed, false)) {
        arguments[0] = "EVAL";
        lengths[0] = 4;
        arguments[1] = g->instead;
        lengths[1] = strlen(g->instead);
    }
    redisReply *reply =
        redisCommandArgv(g->server, (int)request->count, arguments, lengths);
    if (!reply) {
        test_die("the gate: %s", g->server->errstr);
    }
    if (says(request, &hf__script_lock_release) &&
        reply->type != REDIS_REPLY_ERROR) {
        (void)atomic_fetch_add(&g->settled, 1);
    }
    pass_back(peer, reply);
    freeReplyObject(reply);
}

/* With a client whose replies may take long; it has acquired and released. On
 * the heap, for its thread outlives a failed test. */
static gate *gate_open(fault *f, const hf__script *script, const char *instead)
{
    hf_client_options options = fault_options();
    options.command_timeout_ms = TEST_LIMIT_MS;
    options.watchdog_lease_ms = 6000;
    gate *g = calloc(1, sizeof(*g));
    assert_non_null(g);
    g->script = script;
    g->instead = instead;
    g->server = redisConnectUnix(srv_socket(f->server));
    assert_non_null(g->server);
    assert_int_equal(g->server->err, 0);
    g->front = rubbish_start(pass, g);
    g->client = fault_open(f, rubbish_url(g->front), &options);
    fault_cycle(f, g->client, "warm");
    assert_true(
        srv_cmd_is(f->server, "OK", "CONFIG SET busy-reply-threshold 50"));
    atomic_store(&g->settled, 0);
    atomic_store(&g->armed, true);
    return g;
}

static void gate_close(gate *g, fault *f)
{
    fault_close(f, g->client);
    rubbish_stop(g->front);
    redisFree(g->server);
    free(g);
}

static void kill_script(fault *f)
{
    assert_true(srv_cmd_becomes(f->server, "OK", "SCRIPT KILL"));
}

/* ---- scripts of ours */

/* Whatever the killed acquire has done is set right, by its owner only; the
 * caller is told at once, for nobody knows whether it will be better again. */
static void test_acquire_killed(void **state)
{
    fault *f = *state;
    taker t;
    gate *g = gate_open(f, &hf__script_lock_acquire, endless);
    hf_lock *lock = fault_lock(f, g->client, "killed");
    taker_start(&t, lock, TEST_LIMIT_MS);
    kill_script(f);
    assert_int_equal(taker_end(f, &t), HF_ESERVER);
    assert_non_null(strstr(hf_error_text(&t.err), "SCRIPT KILL"));
    assert_false(hf_error_is_retriable(&t.err));
    assert_becomes(atomic_load(&g->settled) == 1);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS killed"));
    fault_give(f, fault_take(f, lock));
    gate_close(g, f);
}

/* An acquire that broke off behind its first write would leave a lock without
 * an end. */
static void test_acquire_broken_off(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    gate *g = gate_open(f, &hf__script_lock_acquire, half_done);
    hf_lock *lock = fault_lock(f, g->client, "half");
    assert_int_equal(hf_lock_acquire(lock, TEST_LIMIT_MS, NULL, &err),
                     HF_ESERVER);
    assert_becomes(atomic_load(&g->settled) == 1);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS half"));
    fault_give(f, fault_take(f, lock));
    gate_close(g, f);
}

/* A killed renewal is a failed one: it is said again, and nothing is lost. */
static void test_renewal_killed(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_acquire_options noting = HF_ACQUIRE_OPTIONS_INIT;
    noting.on_lost = loss_note_take;
    noting.on_lost_arg = &note;
    gate *g = gate_open(f, &hf__script_lock_renew, endless);
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, g->client, "kept"), &noting);
    kill_script(f);
    assert_true(fault_renewed(lease, 1));
    assert_becomes(hf_lease_get_state(lease) == HF_LEASE_HELD);
    assert_int_equal(atomic_load(&note.count), 0);
    fault_expect_count(f, "kept", lease, "1");
    fault_give(f, lease);
    gate_close(g, f);
}

static void *give(void *arg)
{
    return (void *)(intptr_t)hf_lease_release(arg, NULL);
}

/* A killed release is no silent one, and is done all the same, long before the
 * lease would end. */
static void test_release_killed(void **state)
{
    fault *f = *state;
    pthread_t thread;
    void *status = NULL;
    hf_acquire_options fixed = HF_ACQUIRE_OPTIONS_INIT;
    fixed.lease_ms = 120000;
    gate *g = gate_open(f, &hf__script_lock_release, endless);
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, g->client, "given"), &fixed);
    assert_int_equal(pthread_create(&thread, NULL, give, lease), 0);
    kill_script(f);
    (void)pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, HF_ESERVER);
    assert_false(hf_lease_is_held(lease));
    assert_true(srv_cmd_becomes(f->server, "0", "EXISTS given"));
    gate_close(g, f);
}

/* ---- somebody's script that has written cannot be killed */

static bool begins(fault *f, const char *command, const char *expected)
{
    char *reply = srv_cmd(f->server, command);
    bool so = strncmp(reply, expected, strlen(expected)) == 0;
    free(reply);
    return so;
}

/* The holder is told at its deadline; a wait goes on beyond the server's end,
 * which alone ends the script. */
static void test_script_that_cannot_be_killed(void **state)
{
    static const char command[] =
        "EVAL \"redis.call('set','x','1') while true do end\" 0\r\n";
    fault *f = *state;
    loss_note note = {0};
    hf_acquire_options noting = HF_ACQUIRE_OPTIONS_INIT;
    noting.on_lost = loss_note_take;
    noting.on_lost_arg = &note;
    hf_client *client = fault_open(f, srv_url(f->server), NULL);
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, client, "held"), &noting);
    hf_lock *lock = fault_lock(f, client, "wanted");
    assert_true(
        srv_cmd_is(f->server, "OK", "CONFIG SET busy-reply-threshold 50"));
    int fd = test_connect_unix(srv_socket(f->server));
    assert_int_equal(write(fd, command, sizeof(command) - 1),
                     (ssize_t)sizeof(command) - 1);
    assert_becomes(begins(f, "SCRIPT KILL", "(error) UNKILLABLE"));

    taker t;
    taker_start(&t, lock, TEST_LIMIT_MS);
    assert_becomes(atomic_load(&note.count) == 1);
    assert_int_equal(atomic_load(&note.why), HF_LOSS_EXPIRED);
    assert_false(atomic_load(&t.done));
    (void)close(fd);
    srv_restart(f->server);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_expect_count(f, "wanted", t.lease, "1");
    fault_give(f, t.lease);
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_acquire_killed),
        FAULT_TEST(test_acquire_broken_off),
        FAULT_TEST(test_renewal_killed),
        FAULT_TEST(test_release_killed),
        FAULT_TEST(test_script_that_cannot_be_killed),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
