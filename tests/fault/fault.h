/* What the fault tests share. A fixture is a server of the test's own, with
 * the clients, locks and leases that the test makes; they are freed for it,
 * also when an assertion has failed. All times are milliseconds. */
#ifndef TEST_FAULT_FAULT_H
#define TEST_FAULT_FAULT_H

#include "holdfast/holdfast.h"
#include "support/net.h"
#include "support/proxy.h"
#include "support/server.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#define FAULT_MOST 16

typedef struct fault {
    srv *server;
    proxy *net; /* in front of the server, from fault_setup_net */
    hf_client *clients[FAULT_MOST];
    hf_lock *locks[FAULT_MOST];
    hf_lease *leases[FAULT_MOST];
} fault;

/* For cmocka_unit_test_setup_teardown. */
int fault_setup(void **state);
int fault_setup_net(void **state);
int fault_teardown(void **state);
#define FAULT_TEST(name)                                                       \
    cmocka_unit_test_setup_teardown(name, fault_setup, fault_teardown)
#define FAULT_TEST_NET(name)                                                   \
    cmocka_unit_test_setup_teardown(name, fault_setup_net, fault_teardown)

/* Waits until the condition is true; fails after the tests' limit. */
#define assert_becomes(condition)                                              \
    do {                                                                       \
        int64_t by_ = test_now_ms() + TEST_LIMIT_MS;                           \
        while (!(condition) && test_pause(by_)) {                              \
        }                                                                      \
        assert_true(condition);                                                \
    } while (0)

/* Watchdog lease 600, command time-out 1000, connect time-out 1000, poll cap a
 * minute, so that whatever comes in time was not polled for; all that is
 * logged goes to the journal. */
hf_client_options fault_options(void);
/* NULL: fault_options(). What cannot be opened fails the test. */
hf_client *fault_open(fault *f, const char *url,
                      const hf_client_options *options);
/* Before the end of the test. */
void fault_close(fault *f, hf_client *client);
hf_lock *fault_lock(fault *f, hf_client *client, const char *name);
/* Acquires, waiting at most the tests' limit; the test fails if it cannot. */
hf_lease *fault_take(fault *f, hf_lock *lock);
hf_lease *fault_take_with(fault *f, hf_lock *lock,
                          const hf_acquire_options *options);
void fault_give(fault *f, hf_lease *lease); /* releases: HF_OK; frees */
void fault_free(fault *f, hf_lease *lease); /* without looking */
/* A whole acquire and release, as proof that all is well again. */
void fault_cycle(fault *f, hf_client *client, const char *name);
/* The server lists the lease's owner alone, with that hold count, for a
 * limited time. */
void fault_expect_count(fault *f, const char *name, const hf_lease *lease,
                        const char *count);

/* Waits until the lease has been renewed so many times. */
bool fault_renewed(const hf_lease *lease, int times);

/* What was logged by all clients. */
bool journal_has(const char *text);
void journal_clear(void);
/* No line so far had a control byte in it. */
bool journal_is_printable(void);
/* The same for any text. */
bool fault_printable(const char *text);

/* For hf_acquire_options: what hf_lost_fn was told. */
typedef struct loss_note {
    atomic_int count;
    atomic_int why;
} loss_note;
void loss_note_take(void *arg, hf_lease *lease, hf_loss why);

/* An acquisition in a thread of its own. */
typedef struct taker {
    hf_lock *lock;
    hf_acquire_options options;
    hf_lease *lease;
    hf_status status;
    hf_error err;
    int64_t took_at; /* when it returned */
    atomic_bool done;
    pthread_t thread;
} taker;
void taker_start(taker *t, hf_lock *lock, int64_t wait_ms);
void taker_start_with(taker *t, hf_lock *lock,
                      const hf_acquire_options *options);
/* Joins; the lease, if any, is the fixture's. */
hf_status taker_end(fault *f, taker *t);

/* Until the server counts so many subscribers to the channel of a lock. */
bool fault_subscribed(fault *f, const char *name, int count);
/* How often a command has run since CONFIG RESETSTAT. */
long long fault_calls(fault *f, const char *command);
/* A number out of INFO. */
long long fault_info(fault *f, const char *field);

/* A child process that runs `body` with a pipe's ends and ends with what it
 * returns. Call before the process has threads of its own. */
typedef struct child {
    pid_t pid;
    int to;
    int from;
} child;
typedef int (*child_fn)(const fault *f, int in, int out);
child child_start(const fault *f, child_fn body);
/* In both: a byte through the pipe; '\0' when the other end is gone. */
void child_say(int fd, char what);
char child_hear(int fd);
/* Waits for its end; its exit status, or -1 if a signal ended it. */
int child_end(child *c);
void child_kill(child *c);

#endif
