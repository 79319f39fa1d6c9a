/* Looking a host up in a thread of its own: the answer comes when it comes,
 * whoever waits for it, and whoever does not any more. */
#include "os/os.h"
#include "support/locks.h"
#include "support/net.h"

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a slow name service: stands before the C library's. The sanitizers have
 * one of their own; the plain build covers what needs it. */

#if !TEST_SANITIZED

static int gate[2] = {-1, -1}; /* while open, names are looked up when its
                                  other end is closed */
static atomic_bool signals_come;

int getaddrinfo(const char *host, const char *service,
                const struct addrinfo *hints, struct addrinfo **found)
{
    int (*real)(const char *, const char *, const struct addrinfo *,
                struct addrinfo **) = NULL;
    sigset_t blocked;
    char byte;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    (void)pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    atomic_store(&signals_come, !sigismember(&blocked, SIGUSR1));
    if (gate[0] >= 0) {
        (void)!read(gate[0], &byte, 1);
    }
    return real(host, service, hints, found);
}

static void close_gate(void)
{
    assert_int_equal(pipe(gate), 0);
}

static void open_gate(void)
{
    (void)close(gate[1]);
}

#endif

/* ---- answers */

static hf__lookup *start(const char *host, int *fd)
{
    hf__lookup *lookup = NULL;
    hf_error err = HF_ERROR_INIT;
    if (hf__lookup_start(host, 7, &lookup, fd, &err) != HF_OK) {
        fail_msg("%s", hf_error_text(&err));
    }
    return lookup;
}

static void expect_loopback(hf__lookup *lookup, int fd)
{
    char text[64];
    hf__address_list *list = NULL;
    assert_true(test_wait_readable(fd));
    assert_int_equal(hf__lookup_take(lookup, &list, NULL), HF_OK);
    assert_int_equal(hf__address_count(list), 1);
    assert_string_equal(hf__address_text(list, 0, text, sizeof(text)),
                        "127.0.0.1:7");
    hf__address_list_free(list);
    hf__lookup_drop(lookup);
    hf__close(fd);
}

static void test_address(void **state)
{
    (void)state;
    int fd = -1;
    hf__lookup *lookup = start("127.0.0.1", &fd);
    expect_loopback(lookup, fd);
    hf__lookup_drop(NULL);
}

static void test_unknown_host(void **state)
{
    (void)state;
    int fd = -1;
    hf__address_list *list = NULL;
    hf_error err = HF_ERROR_INIT;
    hf__lookup *lookup = start("host.invalid.", &fd);
    assert_true(test_wait_readable(fd));
    assert_int_equal(hf__lookup_take(lookup, &list, &err), HF_EUNREACHABLE);
    assert_non_null(strstr(hf_error_text(&err), "host.invalid."));
    assert_true(hf_error_is_retriable(&err));
    assert_null(list);
    hf__lookup_drop(lookup);
    hf__close(fd);
}

/* Without asking anybody: an address, or nothing. */
static void test_at_once(void **state)
{
    (void)state;
    static const char *const addresses[] = {"127.0.0.1", "::1"};
    hf__address_list *list = NULL;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            hf__resolve_at_once(addresses[i], 7, NULL, &list, NULL), HF_OK);
        assert_int_equal(hf__address_count(list), 1);
        hf__address_list_free(list);
    }
    assert_int_equal(hf__resolve_at_once(NULL, 0, "/s", &list, NULL), HF_OK);
    assert_int_equal(hf__address_count(list), 1);
    hf__address_list_free(list);
    assert_int_equal(hf__resolve_at_once("localhost", 7, NULL, &list, NULL),
                     HF_OK);
    assert_null(list);
}

#if !TEST_SANITIZED

/* ---- late answers */

static void test_late_answer(void **state)
{
    (void)state;
    int fd = -1;
    close_gate();
    hf__lookup *lookup = start("127.0.0.1", &fd);
    assert_false(test_readable(fd));
    open_gate();
    expect_loopback(lookup, fd);
    assert_false(atomic_load(&signals_come));
    (void)close(gate[0]);
}

/* Nobody wants it any more; what it takes is given back even so. */
static void test_dropped_before_its_answer(void **state)
{
    (void)state;
    int fd = -1;
    close_gate();
    hf__lookup_drop(start("127.0.0.1", &fd));
    assert_false(test_readable(fd));
    open_gate();
    assert_true(test_wait_readable(fd));
    hf__close(fd);
    (void)close(gate[0]);
}

/* A child that was forked meanwhile, and has inherited every descriptor, keeps
 * no answer back. */
static void test_answer_after_a_fork(void **state)
{
    (void)state;
    int fd = -1;
    int life[2];
    char byte;
    close_gate();
    assert_int_equal(pipe(life), 0);
    hf__lookup *lookup = start("127.0.0.1", &fd);
    pid_t child = fork();
    if (child == 0) {
        (void)close(gate[1]);
        (void)close(life[1]);
        (void)!read(life[0], &byte, 1); /* until the test is over */
        test_end_child(0);
    }
    open_gate();
    expect_loopback(lookup, fd);
    (void)close(life[1]);
    assert_int_equal(test_reap(child), 0);
    (void)close(life[0]);
    (void)close(gate[0]);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address),
        cmocka_unit_test(test_unknown_host),
        cmocka_unit_test(test_at_once),
#if !TEST_SANITIZED
        cmocka_unit_test(test_late_answer),
        cmocka_unit_test(test_dropped_before_its_answer),
        cmocka_unit_test(test_answer_after_a_fork),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
