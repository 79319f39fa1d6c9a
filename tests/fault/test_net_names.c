/* F51: the server is known by its host's name. A name service of the test's
 * own stands before the C library's getaddrinfo, and the server listens at
 * several addresses of the loopback device, one port. */
#include "fault/fault.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOST "locks.test"
#define SLACK_MS 5000
#define ADDRESSES 4

/* Where the server can listen, and where nobody does. */
#define FIRST "127.0.71.1"
#define SECOND "127.0.71.2"
#define NOBODY "127.0.71.3"
#define SILENT "127.0.71.4"

/* ---- the name service */

static pthread_mutex_t names_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t names_changed = PTHREAD_COND_INITIALIZER;
static const char *answer[ADDRESSES + 1];
static int failure;  /* EAI_..., in place of an answer */
static bool blocked; /* no answer until this is over */
static int asked;    /* how often, all in all */

typedef int (*getaddrinfo_fn)(const char *, const char *,
                              const struct addrinfo *, struct addrinfo **);

static getaddrinfo_fn real_getaddrinfo(void)
{
    getaddrinfo_fn real = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real;
}

static int answer_all(const char *service, const struct addrinfo *hints,
                      struct addrinfo **out)
{
    int status = failure;
    for (int i = 0; status == 0 && answer[i]; i++) {
        status = real_getaddrinfo()(answer[i], service, hints, out);
        while (status == 0 && *out) {
            out = &(*out)->ai_next;
        }
    }
    return status;
}

int getaddrinfo(const char *name, const char *service,
                const struct addrinfo *hints, struct addrinfo **out)
{
    bool numeric = hints && hints->ai_flags & AI_NUMERICHOST;
    if (numeric || !name || strcmp(name, HOST) != 0) {
        return real_getaddrinfo()(name, service, hints, out);
    }
    (void)pthread_mutex_lock(&names_mutex);
    asked++;
    (void)pthread_cond_broadcast(&names_changed);
    while (blocked) {
        (void)pthread_cond_wait(&names_changed, &names_mutex);
    }
    *out = NULL;
    int status = answer_all(service, hints, out);
    errno = status == EAI_SYSTEM ? EMFILE : errno;
    (void)pthread_mutex_unlock(&names_mutex);
    return status;
}

static void set_names(int error, const char *first, const char *second,
                      const char *third)
{
    (void)pthread_mutex_lock(&names_mutex);
    failure = error;
    answer[0] = first;
    answer[1] = second;
    answer[2] = third;
    (void)pthread_mutex_unlock(&names_mutex);
}

static void set_blocked(bool on)
{
    (void)pthread_mutex_lock(&names_mutex);
    blocked = on;
    (void)pthread_cond_broadcast(&names_changed);
    (void)pthread_mutex_unlock(&names_mutex);
}

static int times_asked(void)
{
    (void)pthread_mutex_lock(&names_mutex);
    int times = asked;
    (void)pthread_mutex_unlock(&names_mutex);
    return times;
}

/* ---- the server */

static int setup(void **state)
{
    static const char *const extra[] = {"--bind", FIRST, NULL};
    fault *f = calloc(1, sizeof(*f));
    if (!f) {
        return -1;
    }
    journal_clear();
    set_blocked(false);
    set_names(0, FIRST, NULL, NULL);
    f->server = srv_start(extra);
    *state = f;
    return 0;
}

static char *named_url(const fault *f)
{
    return test_text("redis://" HOST ":%d", srv_port(f->server));
}

static hf_client *open_named(fault *f, int64_t watchdog_ms)
{
    char *url = named_url(f);
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = watchdog_ms;
    hf_client *client = fault_open(f, url, &options);
    free(url);
    return client;
}

static hf_status try_to_open(const fault *f, hf_error *err)
{
    char *url = named_url(f);
    hf_client_options options = fault_options();
    hf_client *client = hf_client_open(url, &options, err);
    hf_status status = client ? HF_OK : hf_error_status(err);
    hf_client_free(client);
    free(url);
    return status;
}

/* It listens somewhere else, and the old connections are cut. */
static void move_server(fault *f, const char *to)
{
    assert_true(srv_cmd_is(f->server, "OK", "CONFIG SET bind %s", to));
    set_names(0, to, NULL, NULL);
    free(srv_cmd(f->server, "CLIENT KILL TYPE normal SKIPME yes"));
    free(srv_cmd(f->server, "CLIENT KILL TYPE pubsub"));
}

/* A port where a connection is neither accepted nor refused: the listener's
 * queue is full. */
typedef struct silence {
    int fds[3];
} silence;

static silence fall_silent(const char *at, int port)
{
    silence made;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port)};
    (void)inet_pton(AF_INET, at, &address.sin_addr);
    for (int i = 0; i < 3; i++) {
        made.fds[i] =
            socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(made.fds[i] >= 0);
    }
    const struct sockaddr *to = (const void *)&address;
    assert_int_equal(bind(made.fds[0], to, sizeof(address)), 0);
    assert_int_equal(listen(made.fds[0], 0), 0);
    for (int i = 1; i < 3; i++) {
        (void)connect(made.fds[i], to, sizeof(address));
    }
    return made;
}

static void break_silence(silence *of)
{
    for (int i = 0; i < 3; i++) {
        (void)close(of->fds[i]);
    }
}

/* ---- no address */

static void test_no_address(void **state)
{
    fault *f = *state;
    static const int failures[] = {EAI_NONAME, EAI_AGAIN, EAI_FAIL, EAI_SYSTEM};
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        hf_error err = HF_ERROR_INIT;
        set_names(failures[i], NULL, NULL, NULL);
        assert_int_equal(try_to_open(f, &err), HF_EUNREACHABLE);
        assert_true(hf_error_is_retriable(&err));
        assert_non_null(strstr(hf_error_text(&err), HOST));
    }
    hf_error err = HF_ERROR_INIT;
    set_names(EAI_MEMORY, NULL, NULL, NULL);
    assert_int_equal(try_to_open(f, &err), HF_ENOMEM);
    set_names(0, FIRST, NULL, NULL);
    fault_cycle(f, open_named(f, 600), "named");
}

/* A connected client outlives its name service: it goes on, and reconnects, by
 * the addresses that it knows. */
static void test_name_lost_in_mid_life(void **state)
{
    fault *f = *state;
    hf_client *client = open_named(f, 600);
    hf_lease *lease = fault_take(f, fault_lock(f, client, "kept"));
    set_names(EAI_AGAIN, NULL, NULL, NULL);
    for (int i = 0; i < 5; i++) {
        free(srv_cmd(f->server, "CLIENT KILL TYPE normal SKIPME yes"));
        fault_cycle(f, client, "named");
    }
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    fault_give(f, lease);
}

/* ---- several addresses */

/* One refuses, one is silent, one answers. */
static void test_all_addresses_are_tried(void **state)
{
    fault *f = *state;
    silence of = fall_silent(SILENT, srv_port(f->server));
    set_names(0, NOBODY, SILENT, FIRST);
    int64_t before = test_now_ms();
    hf_client *client = open_named(f, 600);
    /* The connect time-out of one second for the silent one. */
    assert_in_range(test_now_ms() - before, 1000, 1000 + SLACK_MS);
    fault_cycle(f, client, "named");
    break_silence(&of);
}

static void test_all_addresses_are_dead(void **state)
{
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    silence of = fall_silent(SILENT, srv_port(f->server));
    set_names(0, NOBODY, SILENT, NOBODY);
    int64_t before = test_now_ms();
    assert_int_equal(try_to_open(f, &err), HF_EUNREACHABLE);
    assert_true(hf_error_is_retriable(&err));
    assert_in_range(test_now_ms() - before, 1000, 1000 + SLACK_MS);
    break_silence(&of);
}

/* ---- another address */

/* The next call finds the server where it is now. */
static void test_moved(void **state)
{
    fault *f = *state;
    hf_client *client = open_named(f, 600);
    fault_cycle(f, client, "named");
    int before = times_asked();
    move_server(f, SECOND);
    fault_cycle(f, client, "named");
    assert_true(times_asked() > before);
    move_server(f, FIRST);
    fault_cycle(f, client, "named");
}

/* The server moves while a waiter waits, who calls nobody. */
static void test_moved_under_a_waiter(void **state)
{
    fault *f = *state;
    hf_client *holder = fault_open(f, srv_url(f->server), NULL);
    hf_lease *lease = fault_take(f, fault_lock(f, holder, "moved"));
    hf_client *client = open_named(f, 600);
    taker t;
    taker_start(&t, fault_lock(f, client, "moved"), TEST_LIMIT_MS);
    assert_true(fault_subscribed(f, "moved", 1));
    move_server(f, SECOND);
    assert_true(fault_subscribed(f, "moved", 1));
    fault_give(f, lease);
    assert_int_equal(taker_end(f, &t), HF_OK);
    fault_give(f, t.lease);
}

/* And while a holder holds, whom nobody but the watchdog could save. */
static void test_moved_under_a_holder(void **state)
{
    fault *f = *state;
    hf_client *client = open_named(f, 6000);
    hf_lease *lease = fault_take(f, fault_lock(f, client, "moved"));
    move_server(f, SECOND);
    assert_true(fault_renewed(lease, 2));
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    fault_give(f, lease);
}

/* ---- no answer in time */

static void *open_blocked(void *arg)
{
    hf_error err = HF_ERROR_INIT;
    return (void *)(intptr_t)try_to_open(arg, &err);
}

/* Opening ends when the connect time-out is over. */
static void test_no_answer_to_an_opening(void **state)
{
    fault *f = *state;
    pthread_t thread;
    void *status = NULL;
    struct timespec limit;
    set_blocked(true);
    assert_int_equal(pthread_create(&thread, NULL, open_blocked, f), 0);
    (void)clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += (1000 + SLACK_MS) / 1000;
    int error = pthread_timedjoin_np(thread, &status, &limit);
    set_blocked(false);
    if (error != 0) {
        (void)pthread_join(thread, NULL);
    }
    assert_int_equal(error, 0);
    assert_int_equal((intptr_t)status, HF_EUNREACHABLE);
}

/* A caller who waits for the name service does not stand in the watchdog's
 * way, who knows an address. */
static void test_no_answer_under_a_holder(void **state)
{
    fault *f = *state;
    hf_client *client = open_named(f, 6000);
    hf_lease *lease = fault_take(f, fault_lock(f, client, "kept"));
    int before = times_asked();
    set_blocked(true);
    move_server(f, SECOND);
    taker t;
    taker_start(&t, fault_lock(f, client, "wanted"), TEST_LIMIT_MS);
    assert_becomes(times_asked() > before);
    move_server(f, FIRST);
    bool renewed = fault_renewed(lease, 2);
    set_blocked(false);
    assert_int_equal(taker_end(f, &t), HF_OK);
    assert_true(renewed);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    fault_give(f, t.lease);
    fault_give(f, lease);
}

/* And finds to its own end in time. */
static void test_no_answer_to_a_caller(void **state)
{
    fault *f = *state;
    hf_client *client = open_named(f, 600);
    hf_lock *lock = fault_lock(f, client, "wanted");
    fault_cycle(f, client, "named");
    set_blocked(true);
    move_server(f, SECOND);
    taker t;
    taker_start(&t, lock, 1500);
    int64_t by = test_now_ms() + 1500 + SLACK_MS;
    while (!atomic_load(&t.done) && test_pause(by)) {
    }
    bool done = atomic_load(&t.done);
    set_blocked(false);
    assert_int_equal(taker_end(f, &t), HF_EUNREACHABLE);
    assert_true(done);
    fault_cycle(f, client, "named");
}

int main(void)
{
#define NAMED(test) cmocka_unit_test_setup_teardown(test, setup, fault_teardown)
    const struct CMUnitTest tests[] = {
        NAMED(test_no_address),
        NAMED(test_name_lost_in_mid_life),
        NAMED(test_all_addresses_are_tried),
        NAMED(test_all_addresses_are_dead),
        NAMED(test_moved),
        NAMED(test_moved_under_a_waiter),
        NAMED(test_moved_under_a_holder),
        NAMED(test_no_answer_to_an_opening),
        NAMED(test_no_answer_to_a_caller),
        NAMED(test_no_answer_under_a_holder),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
