/* What the work costs: commands as the server's MONITOR tells them, system
 * calls as strace does. */
#include "holdfast/holdfast.h"
#include "support/ear.h"
#include "support/locks.h"
#include "support/net.h"
#include "support/server.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PAIRS 100
#define MANY 250

static srv *server;
static ear *monitor;
static char self[512]; /* this program */
static _Thread_local hf_error err = HF_ERROR_INIT;

static int setup(void **state)
{
    (void)state;
    server = srv_start(NULL);
    monitor = ear_monitor(server);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ear_free(monitor);
    srv_stop(server);
    return 0;
}

/* Since the last time, and all of them scripts by name. */
#define assert_commands(expected)                                              \
    assert_true(ear_heard_only(monitor, server, "\"EVALSHA\"", expected))

/* Its background thread has run when a freed lease has been given back: the
 * first connection is no news to it any more. */
static hf_client *open_warm(void)
{
    hf_client_options options = test_patient();
    hf_client *client = test_client(srv_url(server), &options);
    hf_lock *lock = test_lock(client, "freed");
    test_warm_up(client);
    hf_lease_free(test_take(lock));
    assert_true(srv_cmd_becomes(server, "0", "EXISTS freed"));
    hf_lock_free(lock);
    (void)ear_commands(monitor, server, "");
    return client;
}

/* ---- commands */

static void test_two_commands_a_pair(void **state)
{
    (void)state;
    hf_client *client = open_warm();
    hf_lock *lock = test_lock(client, "pair");
    for (int i = 0; i < PAIRS; i++) {
        test_give(test_take(lock));
    }
    assert_commands(2 * PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        expect(HF_OK, hf_lock_acquire(lock, HF_WAIT_FOREVER, NULL, &err));
        expect(HF_OK, hf_lock_release(lock, NULL, &err));
    }
    assert_commands(2 * PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        hf_lease_free(test_take(lock)); /* released in the background */
    }
    assert_true(srv_cmd_becomes(server, "0", "EXISTS pair"));
    /* The helper's own question was asked a number of times. */
    assert_int_equal(ear_commands(monitor, server, "\"EVALSHA\"").matching,
                     2 * PAIRS);
    hf_lock_free(lock);
    hf_client_free(client);
}

/* Another name each time: nothing is asked about it beforehand. */
static void test_two_commands_for_a_new_name(void **state)
{
    (void)state;
    hf_client *client = open_warm();
    for (int i = 0; i < PAIRS; i++) {
        hf_lock *lock = test_lock(client, test_fresh_name());
        test_give(test_take(lock));
        hf_lock_free(lock);
    }
    assert_commands(2 * PAIRS);
    hf_client_free(client);
}

static void test_one_command_a_step(void **state)
{
    (void)state;
    hf_client *client = open_warm();
    hf_client *other = open_warm();
    hf_lock *lock = test_lock(client, "step");
    hf_lock *theirs = test_lock(other, "step");
    hf_lease *first = test_take(lock);
    assert_commands(1);
    hf_lease *second = test_take(lock); /* reentrant */
    assert_commands(1);
    expect(HF_NOT_ACQUIRED, hf_lock_try(theirs, NULL, &err));
    assert_commands(1);
    expect(HF_ENOTHELD, hf_lock_release(theirs, NULL, &err));
    assert_commands(0); /* who holds nothing need not ask */
    (void)hf_lease_is_held(first);
    (void)hf_lease_remaining_ms(first);
    (void)hf_lease_get_state(first);
    assert_commands(0); /* local */
    test_give(second);
    assert_commands(1);
    test_give(first);
    assert_commands(1);
    expect(HF_OK, hf_lock_force_release(lock, NULL, &err));
    hf_lock_free(lock);
    hf_lock_free(theirs);
    hf_client_free(client);
    hf_client_free(other);
}

static void test_one_command_a_question(void **state)
{
    (void)state;
    hf_client *client = open_warm();
    hf_lock *lock = test_lock(client, "question");
    int yes = 0;
    int64_t number = 0;
    expect(HF_OK, hf_lock_is_locked(lock, &yes, &err));
    (void)ear_commands(monitor, server, ""); /* the script's text, for once */
    expect(HF_OK, hf_lock_is_locked(lock, &yes, &err));
    assert_commands(1);
    expect(HF_OK, hf_lock_is_held_by(lock, NULL, &yes, &err));
    assert_commands(1);
    expect(HF_OK, hf_lock_hold_count(lock, NULL, &number, &err));
    assert_commands(1);
    expect(HF_OK, hf_lock_remaining_ms(lock, &number, &err));
    assert_commands(1);
    hf_lock_free(lock);
    hf_client_free(client);
}

/* Two tries, the subscription between them, and one more after the message. */
static void test_commands_of_a_wait(void **state)
{
    (void)state;
    taker t;
    hf_client *holder = open_warm();
    hf_client *client = open_warm();
    const char *name = test_fresh_name();
    hf_lock *held = test_lock(holder, name);
    hf_lock *wanted = test_lock(client, name);
    hf_lease *lease = test_take(held);
    taker_park(server, &t, wanted, HF_WAIT_FOREVER, NULL);
    (void)ear_commands(monitor, server, "");
    test_give(lease);
    taker_end(&t, HF_OK);
    assert_commands(3); /* release, acquire, release */
    hf_lock_free(held);
    hf_lock_free(wanted);
    hf_client_free(holder);
    hf_client_free(client);
}

/* ---- renewal */

/* The server gets to know the renewal's script. */
static void warm_up_renewal(void)
{
    hf_client_options options = test_watchdog(3000);
    hf_client *client = test_client(srv_url(server), &options);
    hf_lock *lock = test_lock(client, "renewed");
    hf_lease *lease = test_take(lock);
    test_reset_calls(server);
    assert_true(test_wait_calls(server, "pexpire", 1));
    test_give(lease);
    hf_lock_free(lock);
    hf_client_free(client);
}

static void test_renewal_of_many(void **state)
{
    (void)state;
    warm_up_renewal();
    static hf_lease *leases[MANY];
    hf_client_options options =
        test_watchdog(test_instrumented() ? 24000 : 6000);
    hf_client *client = test_client(srv_url(server), &options);
    test_warm_up(client);
    for (int i = 0; i < MANY; i++) {
        hf_lock *lock = test_lock(client, test_fresh_name());
        leases[i] = test_take(lock);
        hf_lock_free(lock);
    }
    test_reset_calls(server);
    (void)ear_commands(monitor, server, "");
    /* Each has been renewed once when as many keys got a new end. */
    assert_true(test_wait_calls(server, "pexpire", MANY));
    assert_int_equal(test_calls(server, "pexpire"), MANY);
    assert_int_equal(test_calls(server, "evalsha") + test_calls(server, "eval"),
                     3);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(hf_lease_get_state(leases[i]), HF_LEASE_HELD);
        hf_lease_free(leases[i]);
    }
    hf_client_free(client);
    assert_true(srv_cmd_is(server, "0", "DBSIZE"));
}

/* ---- system calls */

/* Between two marks that strace shows: writes to nowhere. */
static void mark(void)
{
    must(write(-1, "mark", 4) == -1);
}

static int run_pairs(const char *url)
{
    hf_client_options options = test_patient();
    hf_client *client = test_client(url, &options);
    hf_lock *lock = test_lock(client, "traced");
    test_warm_up(client);
    for (int i = 0; i < 5; i++) {
        test_give(test_take(lock));
    }
    mark();
    for (int i = 0; i < PAIRS; i++) {
        /* One try, for ever, and for a while that is longer than the server
         * may be silent. */
        static const int64_t waits[] = {0, HF_WAIT_FOREVER, 3600000};
        must_be(HF_OK, hf_lock_acquire(lock, waits[i % 3], NULL, &err));
        must_be(HF_OK, hf_lock_release(lock, NULL, &err));
    }
    mark();
    hf_lock_free(lock);
    hf_client_free(client);
    return 0;
}

typedef struct traced {
    long caller; /* the thread that took and released */
    int sent;
    int received;
    int waits; /* other calls of the caller in which it may sleep */
    int others;
} traced;

static bool is_call(const char *line, const char *name)
{
    size_t length = strlen(name);
    return strncmp(line, name, length) == 0 && line[length] == '(';
}

/* One line: "1234 name(arguments...) = result"; what a call that was
 * interrupted resumes with is not counted again. */
static void count_line(const char *line, traced *t)
{
    char *name = NULL;
    long thread = strtol(line, &name, 10);
    name += strspn(name, " ");
    if (is_call(name, "sendto") || is_call(name, "sendmsg")) {
        t->sent++;
    } else if (is_call(name, "recvfrom") || is_call(name, "recvmsg")) {
        t->received++;
    } else if (thread == t->caller &&
               (is_call(name, "poll") || is_call(name, "ppoll") ||
                is_call(name, "futex"))) {
        t->waits++;
    } else if (*name != '<' && *name != '+' && *name != '-') {
        t->others++;
    }
}

static traced read_trace(const char *path)
{
    char line[4096];
    traced t = {0};
    int marks = 0;
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        if (strstr(line, "write(-1, \"mark\"")) {
            marks++;
            t.caller = strtol(line, NULL, 10);
        } else if (marks == 1) {
            count_line(line, &t);
        }
    }
    (void)fclose(file);
    assert_int_equal(marks, 2);
    return t;
}

static void test_system_calls(void **state)
{
    (void)state;
    char *path = test_text("%s/trace", srv_folder(server));
    pid_t child = fork();
    if (child == 0) {
        /* The leak sanitizer cannot work under strace. */
        (void)setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
        (void)execlp("strace", "strace", "-f", "-qq", "-o", path, self, "pairs",
                     srv_url(server), (char *)NULL);
        (void)fprintf(stderr, "strace is missing\n");
        _exit(127);
    }
    assert_int_equal(test_reap(child), 0);
    traced t = read_trace(path);
    assert_int_equal(t.sent, 2 * PAIRS);
    assert_int_equal(t.received, 2 * PAIRS);
    if (!test_instrumented()) {
        assert_int_equal(t.waits, 0);
        /* The keeper is told, should something be due earlier than it thinks:
         * a handful of calls, rarely. */
        assert_in_range(t.others, 0, PAIRS / 2);
    }
    free(path);
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    if (argc == 3 && strcmp(argv[1], "pairs") == 0) {
        return run_pairs(argv[2]);
    }
    must(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_commands_a_pair),
        cmocka_unit_test(test_two_commands_for_a_new_name),
        cmocka_unit_test(test_one_command_a_step),
        cmocka_unit_test(test_one_command_a_question),
        cmocka_unit_test(test_commands_of_a_wait),
        cmocka_unit_test(test_renewal_of_many),
        cmocka_unit_test(test_system_calls),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
