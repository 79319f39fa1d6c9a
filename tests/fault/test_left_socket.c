/* F10: the operator, or the system, destroys a client's sockets under it, as
 * `ss -K` does: the next system call on each of them fails with ECONNABORTED,
 * and the server sees a reset. */
#include "fault/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* So long that within a test nothing is renewed because it is time to. */
#define WATCHDOG_MS 120000

/* ---- ss */

static void run_ss(char *argv[])
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)dup2(nowhere, STDOUT_FILENO);
    (void)dup2(nowhere, STDERR_FILENO);
    (void)execvp(argv[0], argv);
    _exit(127);
}

/* Destroys the TCP sockets that are connected to that port, all of them or the
 * one of a local port. They are gone on return. */
static bool destroy_sockets(int server_port, int local_port)
{
    char *server = test_text(":%d", server_port);
    char *local = test_text(":%d", local_port);
    char *argv[] = {"ss", "-K", "-t", "dport", "=", server,
                    NULL, NULL, NULL, NULL,    NULL};
    if (local_port > 0) {
        argv[6] = "and";
        argv[7] = "sport";
        argv[8] = "=";
        argv[9] = local;
    }
    pid_t pid = fork();
    if (pid == 0) {
        run_ss(argv);
    }
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    free(server);
    free(local);
    return status == 0;
}

/* ss says nothing of sockets that the kernel refuses to destroy: so one of the
 * test's own is tried. NULL, or what is missing. */
static const char *try_ss(void)
{
    const char *missing = NULL;
    char byte;
    int port = 0;
    int listener = test_listen_tcp(&port);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0) {
        test_die("connect: %s", strerror(errno));
    }
    if (!destroy_sockets(port, 0)) {
        missing = "no ss (Debian: iproute2), or no permission for ss -K";
    } else if (recv(fd, &byte, 1, MSG_DONTWAIT) >= 0 || errno != ECONNABORTED) {
        missing = "the kernel does not let ss -K destroy sockets "
                  "(CONFIG_INET_DIAG_DESTROY, root)";
    }
    (void)close(fd);
    (void)close(listener);
    return missing;
}

/* ---- the client's sockets */

/* The only one by TCP; everybody else uses the server's unix socket. */
static hf_client *open_tcp(fault *f)
{
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = WATCHDOG_MS;
    return fault_open(f, srv_tcp_url(f->server), &options);
}

/* The local port of its connection of a type: "normal" or "pubsub". */
static int local_port(fault *f, const char *type)
{
    static const char address[] = " addr=127.0.0.1:";
    char *list = srv_cmd(f->server, "CLIENT LIST TYPE %s", type);
    const char *at = strstr(list, address);
    int port = at ? (int)strtol(at + strlen(address), NULL, 10) : 0;
    free(list);
    return port;
}

static void destroy(fault *f, const char *type)
{
    int port = type ? local_port(f, type) : 0;
    assert_true(!type || port > 0);
    assert_true(destroy_sockets(srv_port(f->server), port));
}

static hf_acquire_options terms_of(loss_note *note)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = note;
    return options;
}

static int64_t end_of(const hf_lease *lease)
{
    return test_now_ms() + hf_lease_remaining_ms(lease);
}

/* Later than its end now, and earlier than after a renewal from now on. */
static int64_t later_end(const hf_lease *lease)
{
    int64_t end = end_of(lease) + 10;
    int64_t from = test_now_ms() + 20;
    assert_becomes(test_now_ms() >= from);
    return end;
}

/* It was asked about over a new connection, and goes on. */
static void expect_kept(fault *f, const char *name, const hf_lease *lease,
                        int64_t later)
{
    assert_becomes(end_of(lease) > later);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    fault_expect_count(f, name, lease, "1");
}

/* ---- a holder */

/* Nobody calls: the keeper notices by itself, and looks whether the lease is
 * still there, long before its renewal is due. */
static void test_socket_of_a_holder(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_acquire_options terms = terms_of(&note);
    hf_client *client = open_tcp(f);
    hf_lease *lease = fault_take_with(f, fault_lock(f, client, "held"), &terms);
    for (int i = 0; i < 3; i++) {
        int64_t later = later_end(lease);
        long long before = fault_info(f, "total_connections_received");
        destroy(f, NULL);
        expect_kept(f, "held", lease, later);
        assert_int_equal(fault_info(f, "total_connections_received"),
                         before + 1);
    }
    assert_int_equal(atomic_load(&note.count), 0);
    fault_give(f, lease);
    fault_cycle(f, client, "held");
}

/* ---- a waiter, who is a holder as well */

/* `type`: which of its two connections; NULL: both. */
static void destroy_under_a_waiter(fault *f, const char *type)
{
    loss_note note = {0};
    hf_acquire_options terms = terms_of(&note);
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    hf_lease *theirs = fault_take(f, fault_lock(f, other, "waited"));
    hf_client *client = open_tcp(f);
    hf_lease *ours = fault_take_with(f, fault_lock(f, client, "held"), &terms);
    taker t;
    taker_start(&t, fault_lock(f, client, "waited"), TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "waited", 1));
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG RESETSTAT"));
    int64_t later = later_end(ours);
    destroy(f, type);
    if (!type || strcmp(type, "normal") == 0) {
        expect_kept(f, "held", ours, later);
    }
    if (!type || strcmp(type, "pubsub") == 0) {
        assert_becomes(fault_calls(f, "subscribe") == 1);
    }
    assert_false(atomic_load(&t.done));
    fault_give(f, theirs);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_expect_count(f, "waited", t.lease, "1");
    fault_expect_count(f, "held", ours, "1");
    assert_int_equal(atomic_load(&note.count), 0);
    fault_give(f, t.lease);
    fault_give(f, ours);
}

static void test_sockets_of_a_waiter(void **state)
{
    destroy_under_a_waiter(*state, NULL);
}

static void test_commands_socket_of_a_waiter(void **state)
{
    destroy_under_a_waiter(*state, "normal");
}

static void test_messages_socket_of_a_waiter(void **state)
{
    destroy_under_a_waiter(*state, "pubsub");
}

/* Nobody waits until it has subscribed again: the message of the release may
 * come before, and be heard by nobody. */
static void test_released_at_once(void **state)
{
    fault *f = *state;
    hf_client *other = fault_open(f, srv_url(f->server), NULL);
    hf_client *client = open_tcp(f);
    hf_lock *theirs = fault_lock(f, other, "waited");
    hf_lock *ours = fault_lock(f, client, "waited");
    for (int i = 0; i < 5; i++) {
        hf_lease *lease = fault_take(f, theirs);
        taker t;
        taker_start(&t, ours, TEST_LIMIT_MS);
        assert_true(fault_subscribed(f, "waited", 1));
        destroy(f, "pubsub");
        fault_give(f, lease);
        assert_int_equal(taker_end(f, &t), HF_OK);
        fault_give(f, t.lease);
    }
}

/* ---- a caller whose reply is due */

/* The caller sleeps for its reply when the socket goes: what it said has been
 * executed, or not, and is said again. One hold remains. */
static void destroy_under_a_caller(fault *f, proxy_direction held_up)
{
    loss_note note = {0};
    hf_acquire_options terms = terms_of(&note);
    const char *url = proxy_tcp_url(f->net);
    int port = (int)strtol(strrchr(url, ':') + 1, NULL, 10);
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = WATCHDOG_MS;
    options.command_timeout_ms = TEST_LIMIT_MS;
    hf_client *client = fault_open(f, url, &options);
    hf_lease *ours = fault_take_with(f, fault_lock(f, client, "held"), &terms);
    hf_lock *lock = fault_lock(f, client, "called");
    taker t;
    proxy_set(f->net, held_up, PROXY_HOLD);
    size_t seen = proxy_counts(f->net).seen[held_up];
    taker_start(&t, lock, TEST_LIMIT_MS);
    assert_true(proxy_wait_seen(f->net, held_up, seen + 1));
    int64_t later = later_end(ours);
    assert_true(destroy_sockets(port, 0));
    proxy_set(f->net, held_up, PROXY_PASS);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_expect_count(f, "called", t.lease, "1");
    expect_kept(f, "held", ours, later);
    assert_int_equal(atomic_load(&note.count), 0);
    fault_give(f, t.lease);
    fault_give(f, ours);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS called"));
}

static void test_socket_of_a_caller_not_heard(void **state)
{
    destroy_under_a_caller(*state, PROXY_TO_SERVER);
}

static void test_socket_of_a_caller_heard(void **state)
{
    destroy_under_a_caller(*state, PROXY_TO_CLIENT);
}

int main(void)
{
    const char *missing = try_ss();
    if (missing) {
        (void)fprintf(stderr, "skipped: %s\n", missing);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_socket_of_a_holder),
        FAULT_TEST(test_sockets_of_a_waiter),
        FAULT_TEST(test_commands_socket_of_a_waiter),
        FAULT_TEST(test_messages_socket_of_a_waiter),
        FAULT_TEST(test_released_at_once),
        FAULT_TEST_NET(test_socket_of_a_caller_not_heard),
        FAULT_TEST_NET(test_socket_of_a_caller_heard),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
