/* F11: the server's machine vanishes from the network, and no connection is
 * closed. Client and server run in network namespaces of their own, with a
 * cable between them; a machine that vanishes loses its address. Nothing of
 * this outlives the process. */
#include "fault/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENT_ADDRESS "10.71.0.1/24"
#define SERVER_HOST "10.71.0.2"
#define SERVER_ADDRESS SERVER_HOST "/24"
#define SLACK_MS 5000
#define MOST_FDS 256

static int client_net = -1;
static int server_net = -1;

/* ---- the network */

/* Runs `ip` in a namespace; the words are separated by single spaces. */
static bool ip_in(int net, const char *words)
{
    char *copy = test_text("ip %s", words);
    char *argv[32] = {NULL};
    size_t n = 0;
    for (char *word = strtok(copy, " "); word && n < 31;
         word = strtok(NULL, " ")) {
        argv[n++] = word;
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (setns(net, CLONE_NEWNET) == 0) {
            (void)execvp(argv[0], argv);
        }
        _exit(127);
    }
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    free(copy);
    return status == 0;
}

static int new_net(void)
{
    return unshare(CLONE_NEWNET) == 0
               ? open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)
               : -1;
}

/* This process stays in the client's namespace. NULL, or what is missing. */
static const char *make_network(void)
{
    server_net = new_net();
    client_net = new_net();
    if (server_net < 0 || client_net < 0) {
        return "no permission to make a network namespace";
    }
    char *cable = test_text("link add cable type veth peer name cable netns %d",
                            (int)getpid());
    bool made = ip_in(server_net, cable) &&
                ip_in(client_net, "address add " CLIENT_ADDRESS " dev cable") &&
                ip_in(client_net, "link set cable up") &&
                ip_in(client_net, "link set lo up") &&
                ip_in(server_net, "link set cable up") &&
                ip_in(server_net, "link set lo up");
    free(cable);
    return made ? NULL : "ip (Debian: iproute2) cannot make a veth pair";
}

static void vanish(void)
{
    assert_true(ip_in(server_net, "address del " SERVER_ADDRESS " dev cable"));
}

static void come_back(void)
{
    assert_true(ip_in(server_net, "address add " SERVER_ADDRESS " dev cable"));
}

static char *far_url(const fault *f)
{
    return test_text("redis://" SERVER_HOST ":%d", srv_port(f->server));
}

/* The first packets may get lost, while the cable comes up. */
static bool wait_for_network(const fault *f)
{
    char *url = far_url(f);
    hf_client *client = NULL;
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    while (!client && test_pause(by)) {
        client = hf_client_open(url, NULL, NULL);
    }
    bool there = client;
    hf_client_free(client);
    free(url);
    return there;
}

static int setup(void **state)
{
    static const char *const extra[] = {"--bind", "*", "--protected-mode", "no",
                                        NULL};
    fault *f = calloc(1, sizeof(*f));
    if (!f || setns(server_net, CLONE_NEWNET) != 0) {
        return -1;
    }
    journal_clear();
    f->server = srv_start(extra);
    *state = f;
    if (setns(client_net, CLONE_NEWNET) != 0) {
        return -1;
    }
    come_back();
    return wait_for_network(f) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)ip_in(server_net, "address flush dev cable");
    return fault_teardown(state);
}

static hf_client *open_far(fault *f, int64_t watchdog_ms, int64_t poll_cap_ms)
{
    char *url = far_url(f);
    hf_client_options options = fault_options();
    options.command_timeout_ms = 500;
    options.connect_timeout_ms = 500;
    options.watchdog_lease_ms = watchdog_ms;
    options.poll_cap_ms = poll_cap_ms;
    hf_client *client = fault_open(f, url, &options);
    free(url);
    return client;
}

/* ---- a holder */

static void test_vanished_for_less_than_the_lease(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = &note;
    hf_client *client = open_far(f, 6000, 60000);
    hf_lease *lease =
        fault_take_with(f, fault_lock(f, client, "far"), &options);
    vanish();
    assert_becomes(hf_lease_get_state(lease) == HF_LEASE_SUSPECT);
    assert_true(hf_lease_is_held(lease));
    come_back();
    assert_becomes(hf_lease_get_state(lease) == HF_LEASE_HELD);
    assert_int_equal(atomic_load(&note.count), 0);
    fault_expect_count(f, "far", lease, "1");
    fault_give(f, lease);
}

/* Nothing is ever heard: lost at the deadline, every call comes to an end, and
 * all is well when the machine is back. */
static void test_vanished_for_more_than_the_lease(void **state)
{
    fault *f = *state;
    loss_note note = {0};
    hf_error err = HF_ERROR_INIT;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = &note;
    hf_client *client = open_far(f, 1000, 60000);
    hf_lock *lock = fault_lock(f, client, "far");
    hf_lease *lease = fault_take_with(f, lock, &options);
    vanish();
    int64_t before = test_now_ms();
    assert_int_equal(hf_client_ping(client, &err), HF_EUNREACHABLE);
    assert_int_equal(hf_lock_try(lock, NULL, &err), HF_EUNREACHABLE);
    assert_true(hf_error_is_retriable(&err));
    assert_int_equal(hf_lock_acquire(lock, 300, NULL, &err), HF_EUNREACHABLE);
    assert_in_range(test_now_ms() - before, 0, 1300 + SLACK_MS);
    assert_becomes(atomic_load(&note.count) == 1);
    assert_int_equal(atomic_load(&note.why), HF_LOSS_EXPIRED);
    assert_int_equal(hf_lease_release(lease, NULL), HF_ELOST);
    come_back();
    fault_cycle(f, client, "far");
}

/* ---- a caller and a waiter */

/* The acquire is on its way when nobody is there any more; it waits on. */
static void test_vanished_under_a_caller(void **state)
{
    fault *f = *state;
    hf_client *client = open_far(f, 60000, 60000);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = HF_WAIT_FOREVER;
    fault_cycle(f, client, "far");
    taker t;
    vanish();
    taker_start_with(&t, fault_lock(f, client, "far"), &options);
    assert_becomes(journal_has("has not answered for") ||
                   hf_client_ping(client, NULL) == HF_EUNREACHABLE);
    assert_false(atomic_load(&t.done));
    come_back();
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_expect_count(f, "far", t.lease, "1");
    fault_give(f, t.lease);
}

/* The release's message gets lost. */
static void test_vanished_under_a_waiter(void **state)
{
    fault *f = *state;
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_lease *lease = fault_take(f, fault_lock(f, holder, "far"));
    hf_client *client = open_far(f, 60000, 400);
    taker t;
    taker_start(&t, fault_lock(f, client, "far"), TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "far", 1));
    vanish();
    fault_give(f, lease);
    assert_int_equal(hf_client_ping(client, NULL), HF_EUNREACHABLE);
    come_back();
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
}

/* ---- a connection on which no reply is due */

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof(value);
    return getsockopt(fd, level, name, &value, &length) == 0 ? value : -1;
}

static bool is_established(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof(info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
           info.tcpi_state == TCP_ESTABLISHED;
}

/* This process's connections; all of them are the client's. */
static size_t connections(int fds[MOST_FDS])
{
    size_t count = 0;
    for (int fd = 0; fd < MOST_FDS; fd++) {
        if (is_established(fd)) {
            fds[count++] = fd;
        }
    }
    return count;
}

/* A subscription that nobody talks on is given up by the kernel, which asks
 * whether the other end is still there; here more often than the client has
 * told it to, for the test's sake. */
static void test_idle_subscription_is_given_up(void **state)
{
    fault *f = *state;
    int fds[MOST_FDS];
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_acquire_options terms = HF_ACQUIRE_OPTIONS_INIT;
    terms.lease_ms = 60000;
    hf_lease *lease = fault_take_with(f, fault_lock(f, holder, "far"), &terms);
    hf_client *client = open_far(f, 60000, 60000);
    taker t;
    taker_start(&t, fault_lock(f, client, "far"), TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "far", 1));
    assert_int_equal(connections(fds), 2);
    for (size_t i = 0; i < 2; i++) {
        int second = 1;
        assert_int_equal(option(fds[i], SOL_SOCKET, SO_KEEPALIVE), 1);
        assert_int_equal(option(fds[i], IPPROTO_TCP, TCP_USER_TIMEOUT), 500);
        assert_in_range(option(fds[i], IPPROTO_TCP, TCP_KEEPIDLE), 1, 15);
        assert_in_range(option(fds[i], IPPROTO_TCP, TCP_KEEPINTVL), 1, 5);
        assert_in_range(option(fds[i], IPPROTO_TCP, TCP_KEEPCNT), 1, 3);
        (void)setsockopt(fds[i], IPPROTO_TCP, TCP_KEEPINTVL, &second,
                         sizeof(second));
        (void)setsockopt(fds[i], IPPROTO_TCP, TCP_KEEPIDLE, &second,
                         sizeof(second));
    }
    vanish();
    assert_becomes(connections(fds) == 0);
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG RESETSTAT"));
    come_back();
    assert_becomes(fault_calls(f, "subscribe") == 1);
    fault_give(f, lease);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
}

int main(void)
{
    const char *missing = make_network();
    if (missing) {
        (void)fprintf(stderr, "skipped: %s\n", missing);
        return 77;
    }
#define FAR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        FAR(test_vanished_for_less_than_the_lease),
        FAR(test_vanished_for_more_than_the_lease),
        FAR(test_vanished_under_a_caller),
        FAR(test_vanished_under_a_waiter),
        FAR(test_idle_subscription_is_given_up),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
