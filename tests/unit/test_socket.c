/* Resolving, connecting, sending and receiving, against listeners of the
 * test's own. */
#include "base/heap.h"
#include "os/os.h"
#include "support/net.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT (TEST_LIMIT_MS * HF__MS)

static hf__address_list *resolve(const char *host, int port, const char *path)
{
    hf__address_list *list = NULL;
    hf_error err = HF_ERROR_INIT;
    if (hf__resolve(host, port, path, &list, &err) != HF_OK) {
        fail_msg("%s", hf_error_text(&err));
    }
    return list;
}

static hf_status finish_connect(int fd, bool in_progress,
                                const hf__address_list *list, hf_error *err)
{
    struct pollfd poll = {.fd = fd, .events = POLLOUT};
    if (in_progress) {
        assert_int_equal(hf__poll(&poll, 1, hf__now() + LIMIT), 1);
    }
    return hf__connect_result(fd, list, 0, err);
}

static int dial(const hf__address_list *list)
{
    int fd = -1;
    bool in_progress = false;
    hf_error err = HF_ERROR_INIT;
    if (hf__connect_start(list, 0, 3000, &fd, &in_progress, &err) != HF_OK ||
        finish_connect(fd, in_progress, list, &err) != HF_OK) {
        fail_msg("%s", hf_error_text(&err));
    }
    return fd;
}

/* ---- addresses */

static void check_address_text(const char *host, int port, const char *path,
                               const char *expected)
{
    char text[200];
    hf__address_list *list = resolve(host, port, path);
    assert_int_equal(hf__address_count(list), 1);
    assert_ptr_equal(hf__address_text(list, 0, text, sizeof(text)), text);
    assert_string_equal(text, expected);
    hf__address_list_free(list);
}

static void test_address_texts(void **state)
{
    (void)state;
    check_address_text("127.0.0.1", 6379, NULL, "127.0.0.1:6379");
    check_address_text("::1", 1, NULL, "[::1]:1");
    check_address_text(NULL, 0, "/run/x.sock", "/run/x.sock");
}

static void test_long_path_is_refused(void **state)
{
    (void)state;
    char path[200];
    hf__address_list *list = NULL;
    hf_error err = HF_ERROR_INIT;
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[107] = '\0';
    hf__address_list_free(resolve(NULL, 0, path));
    path[107] = 'x';
    path[108] = '\0';
    assert_int_equal(hf__resolve(NULL, 0, path, &list, &err), HF_ECONFIG);
    assert_non_null(strstr(hf_error_text(&err), "107"));
    assert_non_null(strstr(hf_error_text(&err), path));
    assert_null(list);
    assert_int_equal(hf__resolve(NULL, 0, "", &list, &err), HF_ECONFIG);
}

static void test_unknown_host(void **state)
{
    (void)state;
    hf__address_list *list = NULL;
    hf_error err = HF_ERROR_INIT;
    assert_int_equal(hf__resolve("host.invalid.", 1, NULL, &list, &err),
                     HF_EUNREACHABLE);
    assert_non_null(strstr(hf_error_text(&err), "host.invalid."));
    assert_true(hf_error_is_retriable(&err));
    assert_null(list);
}

/* ---- connecting */

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof(value);
    assert_int_equal(getsockopt(fd, level, name, &value, &length), 0);
    return value;
}

static void test_tcp_options(void **state)
{
    (void)state;
    int port = 0;
    int listener = test_listen_tcp(&port);
    hf__address_list *list = resolve("127.0.0.1", port, NULL);
    int fd = dial(list);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    assert_int_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 15);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 5);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 3000);
    hf__close(fd);
    hf__close(listener);
    hf__address_list_free(list);
}

static void test_refused(void **state)
{
    (void)state;
    int port = 0;
    char *folder = test_folder_new();
    char *path = test_text("%s/none", folder);
    hf_error err = HF_ERROR_INIT;
    bool in_progress = false;
    int fd = -1;
    hf__close(test_listen_tcp(&port));
    hf__address_list *list = resolve("127.0.0.1", port, NULL);
    hf_status status =
        hf__connect_start(list, 0, 3000, &fd, &in_progress, &err);
    if (status == HF_OK) {
        status = finish_connect(fd, in_progress, list, &err);
    }
    assert_int_equal(status, HF_EUNREACHABLE);
    assert_int_equal(errno, ECONNREFUSED);
    assert_non_null(strstr(hf_error_text(&err), "127.0.0.1:"));
    assert_true(hf_error_is_retriable(&err));
    hf__close(fd);
    hf__address_list_free(list);

    fd = -1;
    list = resolve(NULL, 0, path);
    assert_int_equal(hf__connect_start(list, 0, 0, &fd, &in_progress, &err),
                     HF_EUNREACHABLE);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(fd, -1);
    hf__address_list_free(list);
    free(path);
    test_folder_remove(folder);
}

/* Bound to the port that it connects to, a socket meets itself. */
static void test_own_end_is_no_server(void **state)
{
    (void)state;
    int port = 0;
    int fd = test_listen_tcp(&port);
    hf__close(fd);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    hf__address_list *list = resolve("127.0.0.1", port, NULL);
    hf_error err = HF_ERROR_INIT;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(hf__connect_result(fd, list, 0, &err), HF_EUNREACHABLE);
    hf__close(fd);
    hf__address_list_free(list);
}

/* ---- sending and receiving, over a unix socket */

typedef struct wire {
    char *folder;
    int ours;
    int theirs;
} wire;

static int set_up(void **state)
{
    wire *of = calloc(1, sizeof(*of));
    of->folder = test_folder_new();
    char *path = test_text("%s/wire", of->folder);
    int listener = test_listen_unix(path);
    hf__address_list *list = resolve(NULL, 0, path);
    of->ours = dial(list);
    of->theirs = accept(listener, NULL, NULL);
    hf__address_list_free(list);
    hf__close(listener);
    free(path);
    *state = of;
    return of->theirs >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    wire *of = *state;
    hf__close(of->ours);
    hf__close(of->theirs);
    test_folder_remove(of->folder);
    free(of);
    return 0;
}

static void test_peer(void **state)
{
    wire *of = *state;
    uid_t uid = (uid_t)-1;
    pid_t pid = -1;
    hf__socket_peer(of->ours, &uid, &pid);
    assert_int_equal(uid, geteuid());
    assert_int_equal(pid, getpid());
}

static void test_recv_does_not_block(void **state)
{
    wire *of = *state;
    char bytes[8];
    assert_int_equal(hf__recv(of->ours, bytes, sizeof(bytes), false),
                     HF__IO_AGAIN);
    assert_int_equal(write(of->theirs, "hello", 5), 5);
    assert_int_equal(hf__recv(of->ours, bytes, sizeof(bytes), false), 5);
    assert_memory_equal(bytes, "hello", 5);
    assert_int_equal(hf__socket_set_blocking(of->ours, 10000, NULL), HF_OK);
    assert_int_equal(hf__recv(of->ours, bytes, sizeof(bytes), false),
                     HF__IO_AGAIN); /* nor on a blocking socket */
}

static void test_recv_blocks_so_long(void **state)
{
    wire *of = *state;
    char bytes[8];
    assert_int_equal(hf__socket_set_blocking(of->ours, 30, NULL), HF_OK);
    int64_t begun = hf__now();
    assert_int_equal(hf__recv(of->ours, bytes, sizeof(bytes), true),
                     HF__IO_AGAIN);
    /* The kernel counts in ticks of its own, up to 10 ms. */
    assert_true(hf__now() - begun >= 20 * HF__MS);
    assert_true(hf__now() - begun < LIMIT);
    assert_int_equal(write(of->theirs, "x", 1), 1);
    assert_int_equal(hf__recv(of->ours, bytes, sizeof(bytes), true), 1);
}

static void test_peek_takes_nothing(void **state)
{
    wire *of = *state;
    char bytes[8];
    assert_int_equal(hf__peek(of->ours), HF__IO_AGAIN);
    assert_int_equal(write(of->theirs, "xy", 2), 2);
    assert_int_equal(hf__peek(of->ours), 1);
    assert_int_equal(hf__recv(of->ours, bytes, sizeof(bytes), false), 2);
    assert_int_equal(hf__peek(of->ours), HF__IO_AGAIN);
    hf__close(of->theirs);
    of->theirs = -1;
    errno = EIO;
    assert_int_equal(hf__peek(of->ours), HF__IO_BROKEN);
    assert_int_equal(errno, 0);
}

static void test_end_is_told(void **state)
{
    wire *of = *state;
    char bytes[8];
    hf__close(of->theirs);
    of->theirs = -1;
    errno = EIO;
    assert_int_equal(hf__recv(of->ours, bytes, sizeof(bytes), false),
                     HF__IO_BROKEN);
    assert_int_equal(errno, 0);
    /* A SIGPIPE would end this program. */
    assert_int_equal(hf__send(of->ours, "x", 1), HF__IO_BROKEN);
    assert_int_equal(errno, EPIPE);
}

static void test_send_does_not_block(void **state)
{
    wire *of = *state;
    static const char bytes[65536];
    size_t sent = 0;
    assert_int_equal(hf__socket_set_blocking(of->ours, 10000, NULL), HF_OK);
    ssize_t n;
    while ((n = hf__send(of->ours, bytes, sizeof(bytes))) > 0) {
        sent += (size_t)n;
    }
    assert_int_equal(n, HF__IO_AGAIN);
    assert_true(sent > 0);
}

static void test_shutdown_wakes(void **state)
{
    wire *of = *state;
    char bytes[8];
    assert_int_equal(hf__socket_set_blocking(of->ours, 0, NULL), HF_OK);
    hf__socket_shutdown(of->ours);
    assert_int_equal(hf__recv(of->ours, bytes, sizeof(bytes), true),
                     HF__IO_BROKEN);
}

static void test_poll_ends_at_the_deadline(void **state)
{
    wire *of = *state;
    struct pollfd poll = {.fd = of->ours, .events = POLLIN, .revents = 1};
    int64_t deadline = hf__now() + 20 * HF__MS;
    while (hf__now() < deadline) {
        assert_int_equal(hf__poll(&poll, 1, deadline), 0);
        assert_int_equal(poll.revents, 0);
    }
    assert_int_equal(write(of->theirs, "x", 1), 1);
    assert_int_equal(hf__poll(&poll, 1, HF__NEVER), 1);
    assert_int_equal(hf__poll(&poll, 1, 0), 1);
}

#define WIRED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* ---- what is no socket */

static void test_no_socket(void **state)
{
    (void)state;
    int ends[2];
    uid_t uid = 0;
    pid_t pid = 0;
    hf_error err = HF_ERROR_INIT;
    hf__address_list *list = resolve("127.0.0.1", 1, NULL);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(hf__connect_result(ends[0], list, 0, &err),
                     HF_EUNREACHABLE);
    assert_non_null(strstr(hf_error_text(&err), "127.0.0.1:1"));
    assert_int_equal(hf__socket_set_blocking(ends[0], 0, &err), HF_ESYSTEM);
    assert_int_equal(hf__socket_set_blocking(-1, 0, &err), HF_ESYSTEM);
    hf__socket_peer(ends[0], &uid, &pid);
    assert_int_equal(uid, (uid_t)-1);
    assert_int_equal(pid, -1);
    hf__address_list_free(list);
    hf__close(ends[0]);
    hf__close(ends[1]);
}

static void ignore(int number)
{
    (void)number;
}

/* It may end before its time, and then tells of nothing. */
static void test_signal_ends_a_poll(void **state)
{
    (void)state;
    int ends[2];
    struct sigaction before;
    const struct sigaction action = {.sa_handler = ignore};
    const struct itimerval often = {{0, 5000}, {0, 5000}};
    const struct itimerval never = {{0, 0}, {0, 0}};
    assert_int_equal(pipe(ends), 0);
    struct pollfd poll = {.fd = ends[0], .events = POLLIN, .revents = POLLIN};
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    assert_int_equal(hf__poll(&poll, 1, HF__NEVER), 0);
    assert_int_equal(poll.revents, 0);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    hf__close(ends[0]);
    hf__close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address_texts),
        cmocka_unit_test(test_long_path_is_refused),
        cmocka_unit_test(test_unknown_host),
        cmocka_unit_test(test_tcp_options),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_own_end_is_no_server),
        WIRED(test_peer),
        WIRED(test_recv_does_not_block),
        WIRED(test_recv_blocks_so_long),
        WIRED(test_peek_takes_nothing),
        WIRED(test_end_is_told),
        WIRED(test_send_does_not_block),
        WIRED(test_shutdown_wakes),
        WIRED(test_poll_ends_at_the_deadline),
        cmocka_unit_test(test_no_socket),
        cmocka_unit_test(test_signal_ends_a_poll),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
