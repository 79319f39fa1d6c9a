/* Clients, locks, threads and children for tests of the public API, without
 * ceremony; what goes wrong in making them ends the test program. */
#ifndef TEST_SUPPORT_LOCKS_H
#define TEST_SUPPORT_LOCKS_H

#include "holdfast/holdfast.h"
#include "support/server.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Like an assert, for threads and child processes, which must not use those of
 * cmocka: ends the whole process. */
#define must(condition) test_must((condition), #condition, __FILE__, __LINE__)
void test_must(bool holds, const char *what, const char *file, int line);

/* The call gives that status; prints what `err` says if not. `err` is a name,
 * for it is set anew. For the test's own thread. */
#define expect(status, call)                                                   \
    test_expect((status), (call), &err, #call, __FILE__, __LINE__)
/* The same for threads and children. */
#define must_be(status, call)                                                  \
    test_must_be((status), (call), &err, #call, __FILE__, __LINE__)
void test_expect(hf_status expected, hf_status status, const hf_error *err,
                 const char *call, const char *file, int line);
void test_must_be(hf_status expected, hf_status status, const hf_error *err,
                  const char *call, const char *file, int line);

/* n, scaled by HOLDFAST_TEST_SCALE; at least 1. */
int test_scaled(int n);
/* Whether a sanitizer or valgrind makes system calls of its own. */
bool test_instrumented(void);

/* Options with which nothing but a message wakes a waiter, and no lease ends,
 * within a test's life. */
hf_client_options test_patient(void);
/* The same but for the watchdog's lease. */
hf_client_options test_watchdog(int64_t lease_ms);
hf_client *test_client(const char *url, const hf_client_options *options);
/* The first acquisition finds out what the server's user may do, and may find
 * scripts missing; it is followed by exactly one command each. */
void test_warm_up(hf_client *client);
hf_lock *test_lock(hf_client *client, const char *name);
/* A name that no test has used; valid until the next call. */
const char *test_fresh_name(void);
/* One try, which must succeed. */
hf_lease *test_take(hf_lock *lock);
void test_give(hf_lease *lease); /* releases and frees; must succeed */

/* Whether the server's hash of that name has that owner and count only. */
bool test_is_held(srv *server, const char *name, const char *owner,
                  int64_t count);
/* How often the server ran a command since CONFIG RESETSTAT, within scripts
 * or not. */
long long test_calls(srv *server, const char *command);
void test_reset_calls(srv *server);
/* Until it ran that often in all. */
bool test_wait_calls(srv *server, const char *command, long long calls);
/* Until so many connections wait for the lock's messages. */
bool test_wait_subscribed(srv *server, const char *name, int connections);

/* One acquisition in a thread of its own. */
typedef struct taker {
    hf_lock *lock;
    hf_acquire_options options;
    hf_status status;
    hf_lease *lease;
    hf_error err;
    pthread_t thread;
} taker;

void taker_start(taker *t, hf_lock *lock, int64_t wait_ms, hf_cancel *cancel);
/* The same for a lock that is held; returns when it has tried before and after
 * its SUBSCRIBE: all that is left to it is to sleep. Resets the calls. */
void taker_park(srv *server, taker *t, hf_lock *lock, int64_t wait_ms,
                hf_cancel *cancel);
/* Ends the program if the acquisition does not end within the test's limit. */
void taker_join(taker *t);
/* Joins, expects that status, and gives back what was taken. */
void taker_end(taker *t, hf_status status);

pthread_t test_thread(void *(*fn)(void *), void *arg);
/* Ends the program after the limit. */
void test_join(pthread_t thread);

/* End a forked child by _exit or exit. Under valgrind another program's end
 * follows, for what a child has inherited would look lost. */
_Noreturn void test_end_child(int code);
_Noreturn void test_exit_child(int code);
/* Exit code of a child, 128 + n if signal n ended it. Kills it and ends the
 * program after the limit. */
int test_reap(pid_t child);

size_t test_open_fds(void);
/* Whether a descriptor is readable now; and until it is. */
bool test_readable(int fd);
bool test_wait_readable(int fd);

#endif
