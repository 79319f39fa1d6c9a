/* See server.h. */
#include "support/server.h"

#include "support/net.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_ARGUMENTS 64
#define MOST_PORTS 20

struct srv {
    char *folder;
    char *socket;
    char *url;
    char *tcp_url;
    char *log;
    int port;
    pid_t pid;   /* 0: not running */
    pid_t owner; /* the process that started it; its children must not end it */
    char *extra[MOST_ARGUMENTS];
    redisContext *connection;
    struct srv *next; /* all that are to be cleared away at exit */
};

static srv *all;
static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- the process */

static const char *program(void)
{
    const char *named = getenv("HOLDFAST_TEST_SERVER");
    return named && *named ? named : "redis-server";
}

_Noreturn static void run_server(const srv *server, pid_t parent)
{
    char port[16];
    (void)snprintf(port, sizeof(port), "%d", server->port);
    const char *argv[MOST_ARGUMENTS + 24] = {program(),
                                             "--port",
                                             port,
                                             "--bind",
                                             "127.0.0.1",
                                             "--unixsocket",
                                             server->socket,
                                             "--dir",
                                             server->folder,
                                             "--save",
                                             "",
                                             "--appendonly",
                                             "no",
                                             "--daemonize",
                                             "no",
                                             "--logfile",
                                             server->log,
                                             "--enable-debug-command",
                                             "yes"};
    size_t n = 0;
    while (argv[n]) {
        n++;
    }
    for (size_t i = 0; server->extra[i]; i++) {
        argv[n++] = server->extra[i];
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    (void)execvp(argv[0], (char *const *)argv);
    (void)fprintf(stderr, "cannot execute %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static void launch(srv *server)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        test_die("fork: %s", strerror(errno));
    }
    if (pid == 0) {
        run_server(server, parent);
    }
    server->pid = pid;
}

static void drop_connection(srv *server)
{
    if (server->connection) {
        redisFree(server->connection);
        server->connection = NULL;
    }
}

static bool has_ended(srv *server)
{
    if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
        server->pid = 0;
        return true;
    }
    return false;
}

/* False when the process ended instead. */
static bool wait_until_it_answers(srv *server)
{
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    do {
        if (has_ended(server)) {
            return false;
        }
        if (access(server->socket, F_OK) == 0) {
            char *reply = srv_cmd(server, "PING");
            bool answers = strcmp(reply, "PONG") == 0;
            free(reply);
            if (answers) {
                return true;
            }
        }
    } while (test_pause(deadline));
    test_die("%s does not answer; see %s", program(), server->log);
}

static void print_log(const srv *server)
{
    char line[512];
    FILE *log = fopen(server->log, "re");
    while (log && fgets(line, sizeof(line), log)) {
        (void)fputs(line, stderr);
    }
    if (log) {
        (void)fclose(log);
    }
}

static int free_port(void)
{
    int port = 0;
    (void)close(test_listen_tcp(&port));
    return port;
}

/* ---- starting and ending */

static void destroy(srv *server)
{
    if (server->owner == getpid() && server->pid > 0) {
        srv_kill9(server);
    }
    drop_connection(server);
    test_folder_remove(server->folder);
    free(server->socket);
    free(server->url);
    free(server->tcp_url);
    free(server->log);
    for (size_t i = 0; server->extra[i]; i++) {
        free(server->extra[i]);
    }
    free(server);
}

static void clear_away(void)
{
    while (all && all->owner == getpid()) {
        srv_stop(all);
    }
}

static void enlist(srv *server)
{
    static bool registered;
    (void)pthread_mutex_lock(&all_mutex);
    if (!registered) {
        registered = atexit(clear_away) == 0;
    }
    server->next = all;
    all = server;
    (void)pthread_mutex_unlock(&all_mutex);
}

static void name_parts(srv *server, const char *const extra[])
{
    server->owner = getpid();
    server->folder = test_folder_new();
    server->socket = test_text("%s/redis.sock", server->folder);
    server->url = test_text("redis+unix://%s", server->socket);
    server->log = test_text("%s/redis.log", server->folder);
    for (size_t i = 0; extra && extra[i]; i++) {
        if (i + 1 >= MOST_ARGUMENTS) {
            test_die("too many arguments");
        }
        server->extra[i] = test_text("%s", extra[i]);
    }
}

srv *srv_start(const char *const extra[])
{
    srv *server = calloc(1, sizeof(*server));
    if (!server) {
        test_die("out of memory");
    }
    name_parts(server, extra);
    enlist(server);
    /* Another process may take the port before the server does. */
    for (int i = 0; i < MOST_PORTS; i++) {
        server->port = free_port();
        launch(server);
        if (wait_until_it_answers(server)) {
            server->tcp_url = test_text("redis://127.0.0.1:%d", server->port);
            return server;
        }
    }
    print_log(server);
    test_die("%s does not start", program());
}

void srv_stop(srv *server)
{
    if (!server) {
        return;
    }
    (void)pthread_mutex_lock(&all_mutex);
    for (srv **at = &all; *at; at = &(*at)->next) {
        if (*at == server) {
            *at = server->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&all_mutex);
    destroy(server);
}

const char *srv_url(const srv *server)
{
    return server->url;
}

const char *srv_tcp_url(const srv *server)
{
    return server->tcp_url;
}

const char *srv_socket(const srv *server)
{
    return server->socket;
}

const char *srv_folder(const srv *server)
{
    return server->folder;
}

int srv_port(const srv *server)
{
    return server->port;
}

pid_t srv_pid(const srv *server)
{
    return server->pid;
}

static void signal_and_wait(srv *server, int number, int state)
{
    siginfo_t info;
    if (server->pid <= 0 || kill(server->pid, number) != 0) {
        test_die("the server does not run");
    }
    while (waitid(P_PID, (id_t)server->pid, &info, state) != 0) {
        if (errno != EINTR) {
            test_die("waitid: %s", strerror(errno));
        }
    }
}

void srv_pause(srv *server)
{
    signal_and_wait(server, SIGSTOP, WSTOPPED);
}

void srv_resume(srv *server)
{
    signal_and_wait(server, SIGCONT, WCONTINUED);
}

void srv_kill9(srv *server)
{
    signal_and_wait(server, SIGKILL, WEXITED);
    server->pid = 0;
    drop_connection(server);
}

void srv_restart(srv *server)
{
    if (server->pid > 0) {
        srv_kill9(server);
    }
    drop_connection(server);
    /* Left behind by a killed one; the new one's is waited for. */
    (void)unlink(server->socket);
    for (int i = 0; i < MOST_PORTS; i++) {
        launch(server);
        if (wait_until_it_answers(server)) {
            return;
        }
    }
    print_log(server);
    test_die("%s does not start again", program());
}

/* ---- commands */

/* Nothing was sent yet, so that a new connection is no blind repeat. */
static bool is_over(const redisContext *on)
{
    char byte;
    return on->err != 0 ||
           recv(on->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
           errno != EAGAIN;
}

static bool connect_to(srv *server)
{
    struct timeval limit = {.tv_sec = TEST_LIMIT_MS / 1000};
    if (server->connection && is_over(server->connection)) {
        drop_connection(server);
    }
    if (!server->connection) {
        server->connection = redisConnectUnixWithTimeout(server->socket, limit);
        if (server->connection && !server->connection->err) {
            (void)redisSetTimeout(server->connection, limit);
        }
    }
    return server->connection && !server->connection->err;
}

static char *as_text(const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        return test_text("%s", reply->str);
    case REDIS_REPLY_ERROR:
        return test_text("(error) %s", reply->str);
    case REDIS_REPLY_INTEGER:
        return test_text("%lld", reply->integer);
    case REDIS_REPLY_NIL:
        return test_text("(nil)");
    default:
        break;
    }
    char *text = test_text("%s", "");
    for (size_t i = 0; i < reply->elements; i++) {
        char *element = as_text(reply->element[i]);
        char *longer = test_text("%s%s%s", text, i ? " " : "", element);
        free(element);
        free(text);
        text = longer;
    }
    return text;
}

/* hiredis 0.14 sends with SIGPIPE, and a test may well have to do without
 * ignoring it. */
static redisReply *run_quietly(redisContext *on, const char *format,
                               va_list args)
{
    static const struct timespec no_time;
    sigset_t pipe_only;
    sigset_t before;
    (void)sigemptyset(&pipe_only);
    (void)sigaddset(&pipe_only, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    redisReply *reply = redisvCommand(on, format, args);
    if (!sigismember(&before, SIGPIPE)) {
        (void)sigtimedwait(&pipe_only, NULL, &no_time);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return reply;
}

static char *command(srv *server, const char *format, va_list args)
{
    if (!connect_to(server)) {
        return test_text("(broken) cannot connect");
    }
    redisReply *reply = run_quietly(server->connection, format, args);
    if (!reply) {
        return test_text("(broken) %s", server->connection->errstr);
    }
    char *text = as_text(reply);
    freeReplyObject(reply);
    return text;
}

char *srv_cmd(srv *server, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = command(server, format, args);
    va_end(args);
    return text;
}

bool srv_cmd_is(srv *server, const char *expected, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = command(server, format, args);
    va_end(args);
    bool same = strcmp(text, expected) == 0;
    if (!same) {
        (void)fprintf(stderr, "%s: replied \"%s\", expected \"%s\"\n", format,
                      text, expected);
    }
    free(text);
    return same;
}

bool srv_cmd_becomes(srv *server, const char *expected, const char *format, ...)
{
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    char *text = NULL;
    bool same = false;
    do {
        va_list args;
        va_start(args, format);
        free(text);
        text = command(server, format, args);
        va_end(args);
        same = strcmp(text, expected) == 0;
    } while (!same && test_pause(deadline));
    if (!same) {
        (void)fprintf(stderr, "%s: stayed \"%s\", expected \"%s\"\n", format,
                      text, expected);
    }
    free(text);
    return same;
}

long long srv_cmd_int(srv *server, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = command(server, format, args);
    va_end(args);
    char *end;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0') {
        value = -1;
    }
    free(text);
    return value;
}
