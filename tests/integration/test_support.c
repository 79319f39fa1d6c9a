/* The test support itself: real server, faulty network, rubbish server. What
 * other tests lean on must fail when it should. */
#include "support/net.h"
#include "support/proxy.h"
#include "support/rubbish.h"
#include "support/server.h"

#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct timeval limit = {.tv_sec = TEST_LIMIT_MS / 1000};

/* Blocking hiredis over a unix URL, or over TCP on 127.0.0.1. */
static redisContext *dial(const char *url)
{
    static const char unix_scheme[] = "redis+unix://";
    static const char tcp_scheme[] = "redis://127.0.0.1:";
    redisContext *made;
    if (strncmp(url, unix_scheme, sizeof(unix_scheme) - 1) == 0) {
        made =
            redisConnectUnixWithTimeout(url + sizeof(unix_scheme) - 1, limit);
    } else {
        long port = strtol(url + sizeof(tcp_scheme) - 1, NULL, 10);
        made = redisConnectWithTimeout("127.0.0.1", (int)port, limit);
    }
    assert_non_null(made);
    assert_int_equal(made->err, 0);
    (void)redisSetTimeout(made, limit);
    return made;
}

static void expect(redisContext *on, const char *command, const char *text)
{
    redisReply *reply = redisCommand(on, command);
    assert_string_equal(reply ? reply->str : on->errstr, text);
    freeReplyObject(reply);
}

/* Sends without waiting for the reply. */
static void send_only(redisContext *on, const char *command)
{
    int done = 0;
    assert_int_equal(redisAppendCommand(on, command), REDIS_OK);
    while (!done) {
        assert_int_equal(redisBufferWrite(on, &done), REDIS_OK);
    }
}

static void expect_reply(redisContext *on, const char *text)
{
    void *reply = NULL;
    assert_int_equal(redisGetReply(on, &reply), REDIS_OK);
    assert_string_equal(((redisReply *)reply)->str, text);
    freeReplyObject(reply);
}

static void expect_broken(redisContext *on)
{
    void *reply = NULL;
    assert_int_equal(redisGetReply(on, &reply), REDIS_ERR);
}

static int start_server(void **state)
{
    *state = srv_start(NULL);
    return 0;
}

static int stop_server(void **state)
{
    srv_stop(*state);
    return 0;
}

/* ---- server */

static void test_server_answers(void **state)
{
    srv *server = *state;
    assert_true(srv_cmd_is(server, "OK", "SET %s %b", "k", "v", (size_t)1));
    assert_true(srv_cmd_is(server, "v", "GET k"));
    assert_true(srv_cmd_is(server, "(nil)", "GET none"));
    assert_true(srv_cmd_is(server, "v (nil)", "MGET k none"));
    assert_int_equal(srv_cmd_int(server, "EXISTS k"), 1);
    assert_int_equal(srv_cmd_int(server, "GET k"), -1);
    /* The helper's own connection is replaced when it has been cut. */
    assert_true(srv_cmd_is(server, "1", "CLIENT KILL TYPE normal SKIPME no"));
    assert_true(srv_cmd_becomes(server, "v", "GET k"));
    char *text = srv_cmd(server, "NOSUCHCOMMAND");
    assert_memory_equal(text, "(error) ERR", 11);
    free(text);
    redisContext *tcp = dial(srv_tcp_url(server));
    expect(tcp, "GET k", "v");
    redisFree(tcp);
    redisContext *local = dial(srv_url(server));
    expect(local, "GET k", "v");
    redisFree(local);
}

static void test_server_pauses(void **state)
{
    srv *server = *state;
    redisContext *on = dial(srv_url(server));
    srv_pause(server);
    send_only(on, "PING");
    char byte;
    struct timeval soon = {.tv_usec = 50000};
    assert_int_equal(
        setsockopt(on->fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)), 0);
    assert_int_equal(recv(on->fd, &byte, 1, MSG_PEEK), -1);
    srv_resume(server);
    (void)redisSetTimeout(on, limit);
    expect_reply(on, "PONG");
    redisFree(on);
}

static void test_server_dies_and_comes_back(void **state)
{
    srv *server = *state;
    pid_t before = srv_pid(server);
    int port = srv_port(server);
    assert_true(srv_cmd_is(server, "OK", "SET k v"));
    srv_kill9(server);
    assert_int_equal(kill(before, 0), -1);
    char *text = srv_cmd(server, "PING");
    assert_memory_equal(text, "(broken)", 8);
    free(text);
    srv_restart(server);
    assert_int_not_equal(srv_pid(server), before);
    assert_int_equal(srv_port(server), port);
    assert_true(srv_cmd_is(server, "(nil)", "GET k")); /* memory only */
    srv_restart(server);                               /* of a living one */
    assert_true(srv_cmd_is(server, "PONG", "PING"));
}

static void test_server_with_a_file(void **state)
{
    (void)state;
    static const char *const extra[] = {"--appendonly", "yes", "--appendfsync",
                                        "always", NULL};
    srv *server = srv_start(extra);
    assert_true(srv_cmd_is(server, "OK", "SET k v"));
    srv_restart(server);
    assert_true(srv_cmd_is(server, "v", "GET k"));
    char *folder = test_text("%s", srv_folder(server));
    srv_stop(server);
    assert_int_equal(access(folder, F_OK), -1);
    free(folder);
}

/* The server must not outlive a test that crashes. */
static void test_server_dies_with_the_test(void **state)
{
    (void)state;
    int ends[2];
    struct {
        pid_t pid;
        char folder[100];
    } told = {0};
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        srv *server = srv_start(NULL);
        told.pid = srv_pid(server);
        (void)snprintf(told.folder, sizeof(told.folder), "%s",
                       srv_folder(server));
        (void)!write(ends[1], &told, sizeof(told));
        (void)raise(SIGKILL);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &told, sizeof(told)), sizeof(told));
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    char *socket = test_text("%s/redis.sock", told.folder);
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    int fd;
    while ((fd = test_connect_unix(socket)) >= 0) { /* somebody listens */
        (void)close(fd);
        assert_true(test_pause(deadline));
    }
    free(socket);
    test_folder_remove(test_text("%s", told.folder));
}

/* ---- proxy */

static void check_proxy_passes(srv *server, bool tcp)
{
    proxy *net = proxy_start(srv_socket(server));
    redisContext *on = dial(tcp ? proxy_tcp_url(net) : proxy_url(net));
    expect(on, "SET k through", "OK");
    expect(on, "GET k", "through");
    proxy_count count = proxy_counts(net);
    assert_int_equal(count.connections, 1);
    assert_int_equal(count.open, 1);
    /* Requests and replies of the two commands, byte for byte. */
    assert_int_equal(count.seen[PROXY_TO_SERVER], 33 + 20);
    assert_int_equal(count.seen[PROXY_TO_CLIENT], 5 + 13);
    redisFree(on);
    assert_true(proxy_wait_open(net, 0));
    count = proxy_counts(net);
    assert_int_equal(count.passed[PROXY_TO_SERVER], 33 + 20);
    assert_int_equal(count.passed[PROXY_TO_CLIENT], 5 + 13);
    proxy_stop(net);
}

static void test_proxy_passes(void **state)
{
    check_proxy_passes(*state, false);
    check_proxy_passes(*state, true);
}

static void test_proxy_loses_a_request(void **state)
{
    srv *server = *state;
    proxy *net = proxy_start(srv_socket(server));
    redisContext *on = dial(proxy_tcp_url(net));
    expect(on, "SET k before", "OK");
    proxy_set(net, PROXY_TO_SERVER, PROXY_DROP_NEXT);
    send_only(on, "SET k lost");
    assert_true(proxy_wait_dropped(net, PROXY_TO_SERVER, 1));
    assert_true(srv_cmd_is(server, "before", "GET k"));
    send_only(on, "PING");
    expect_reply(on, "PONG"); /* the next one gets through */
    redisFree(on);
    proxy_stop(net);
}

static void test_proxy_loses_a_reply(void **state)
{
    srv *server = *state;
    proxy *net = proxy_start(srv_socket(server));
    redisContext *on = dial(proxy_url(net));
    proxy_set(net, PROXY_TO_CLIENT, PROXY_DROP);
    send_only(on, "SET k applied");
    assert_true(proxy_wait_dropped(net, PROXY_TO_CLIENT, 5));
    assert_true(srv_cmd_is(server, "applied", "GET k"));
    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
    send_only(on, "PING");
    expect_reply(on, "PONG");
    redisFree(on);
    proxy_stop(net);
}

static void test_proxy_holds_and_releases(void **state)
{
    srv *server = *state;
    proxy *net = proxy_start(srv_socket(server));
    redisContext *on = dial(proxy_url(net));
    expect(on, "SET k before", "OK");
    size_t before = proxy_counts(net).seen[PROXY_TO_SERVER];
    proxy_set(net, PROXY_TO_SERVER, PROXY_HOLD);
    send_only(on, "SET k after");
    assert_true(proxy_wait_seen(net, PROXY_TO_SERVER, before + 1));
    assert_true(srv_cmd_is(server, "before", "GET k"));
    proxy_set(net, PROXY_TO_SERVER, PROXY_PASS);
    expect_reply(on, "OK");

    before = proxy_counts(net).seen[PROXY_TO_CLIENT];
    proxy_set(net, PROXY_TO_CLIENT, PROXY_HOLD);
    send_only(on, "GET k");
    assert_true(proxy_wait_seen(net, PROXY_TO_CLIENT, before + 11));
    assert_int_equal(proxy_counts(net).passed[PROXY_TO_CLIENT], before);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
    expect_reply(on, "after");
    redisFree(on);
    proxy_stop(net);
}

/* A request that was sent runs, even if its sender has gone meanwhile. */
static void test_proxy_delivers_after_the_end(void **state)
{
    srv *server = *state;
    proxy *net = proxy_start(srv_socket(server));
    redisContext *on = dial(proxy_tcp_url(net));
    expect(on, "SET k before", "OK");
    size_t before = proxy_counts(net).seen[PROXY_TO_SERVER];
    proxy_set(net, PROXY_TO_SERVER, PROXY_HOLD);
    send_only(on, "SET k late");
    assert_true(proxy_wait_seen(net, PROXY_TO_SERVER, before + 1));
    redisFree(on);
    assert_true(srv_cmd_is(server, "before", "GET k"));
    proxy_set(net, PROXY_TO_SERVER, PROXY_PASS);
    assert_true(srv_cmd_becomes(server, "late", "GET k"));
    assert_true(proxy_wait_open(net, 0));
    proxy_stop(net);
}

static void test_proxy_resets(void **state)
{
    srv *server = *state;
    proxy *net = proxy_start(srv_socket(server));
    redisContext *on = dial(proxy_tcp_url(net));
    expect(on, "PING", "PONG");
    size_t before = proxy_counts(net).seen[PROXY_TO_CLIENT];
    proxy_set(net, PROXY_TO_CLIENT, PROXY_HOLD);
    send_only(on, "SET k reset");
    assert_true(proxy_wait_seen(net, PROXY_TO_CLIENT, before + 1));
    proxy_reset(net);
    assert_int_equal(proxy_counts(net).open, 0);
    expect_broken(on);
    assert_int_equal(on->err, REDIS_ERR_IO); /* ECONNRESET, no mere end */
    redisFree(on);
    assert_true(srv_cmd_is(server, "reset", "GET k"));

    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
    proxy_refuse(net, true);
    on = dial(proxy_url(net));
    assert_true(proxy_wait_connections(net, 2));
    assert_null(redisCommand(on, "PING"));
    redisFree(on);
    proxy_refuse(net, false);
    on = dial(proxy_url(net));
    expect(on, "PING", "PONG");
    redisFree(on);
    proxy_stop(net);
}

static void test_proxy_trickles(void **state)
{
    srv *server = *state;
    proxy *net = proxy_start(srv_socket(server));
    redisContext *on = dial(proxy_url(net));
    proxy_set(net, PROXY_TO_SERVER, PROXY_TRICKLE);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_TRICKLE);
    expect(on, "SET k drop-by-drop", "OK");
    expect(on, "GET k", "drop-by-drop");
    redisFree(on);
    proxy_stop(net);
}

/* ---- rubbish */

static void test_rubbish_by_script(void **state)
{
    (void)state;
    static const char *const answers[] = {"+first\r\n", "$6\r\nsecond\r\n",
                                          ":-2147", NULL};
    rubbish *fake = rubbish_start_script(answers);
    redisContext *on = dial(rubbish_url(fake));
    expect(on, "PING", "first");
    expect(on, "GET k", "second");
    send_only(on, "GET k"); /* an answer that never ends */
    send_only(on, "GET k");
    expect_broken(on);
    redisFree(on);
    on = dial(rubbish_tcp_url(fake)); /* the script is used up */
    assert_null(redisCommand(on, "PING"));
    redisFree(on);
    rubbish_stop(fake);
}

typedef struct seen {
    char words[256];
    size_t connections;
} seen;

static void answer(void *arg, rubbish_peer *peer,
                   const rubbish_request *request)
{
    seen *into = arg;
    if (request->count == 0) {
        into->connections = request->connection;
        return;
    }
    for (size_t i = 0; i < request->count; i++) {
        size_t used = strlen(into->words);
        (void)snprintf(into->words + used, sizeof(into->words) - used, "%s/",
                       request->arguments[i]);
    }
    if (rubbish_is(request, "cut")) {
        rubbish_cut(peer);
    } else if (rubbish_is(request, "quit")) {
        rubbish_text(peer, "+BYE\r\n");
        rubbish_hang_up(peer);
    } else {
        rubbish_send(peer, "+A\r\n", 4);
    }
}

static void test_rubbish_by_function(void **state)
{
    (void)state;
    seen into = {.connections = 0};
    rubbish *fake = rubbish_start(answer, &into);
    redisContext *first = dial(rubbish_url(fake));
    redisContext *second = dial(rubbish_tcp_url(fake));
    send_only(first, "ECHO one");
    send_only(first, "ECHO two"); /* one answer for each, also together */
    expect_reply(first, "A");
    expect_reply(first, "A");
    expect(second, "quit", "BYE");
    expect_broken(second);
    expect(first, "PING", "A");
    assert_null(redisCommand(first, "CUT"));
    redisFree(first);
    redisFree(second);
    rubbish_stop(fake);
    assert_int_equal(into.connections, 2);
    assert_string_equal(into.words, "ECHO/one/ECHO/two/quit/PING/CUT/");
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server_answers),
        cmocka_unit_test(test_server_pauses),
        cmocka_unit_test(test_server_dies_and_comes_back),
        cmocka_unit_test(test_server_with_a_file),
        cmocka_unit_test(test_server_dies_with_the_test),
        cmocka_unit_test(test_proxy_passes),
        cmocka_unit_test(test_proxy_loses_a_request),
        cmocka_unit_test(test_proxy_loses_a_reply),
        cmocka_unit_test(test_proxy_holds_and_releases),
        cmocka_unit_test(test_proxy_delivers_after_the_end),
        cmocka_unit_test(test_proxy_resets),
        cmocka_unit_test(test_proxy_trickles),
        cmocka_unit_test(test_rubbish_by_script),
        cmocka_unit_test(test_rubbish_by_function),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
