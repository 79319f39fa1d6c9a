/* What the tests of semaphores, permits and latches share: two clients that
 * have used each of them before, threads that wait, and what may be left on
 * the server. */
#ifndef TEST_INTEGRATION_SYNC_SIDE_H
#define TEST_INTEGRATION_SYNC_SIDE_H

#include "support/ear.h"
#include "support/fixture.h"
#include "support/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* fixture_patient, and each kind has been used. */
int sync_setup(void **state);
/* Nothing but records, each with an end. */
int sync_nothing_is_left(void **state);
#define SYNC_TEST(test) cmocka_unit_test_teardown(test, sync_nothing_is_left)

/* What is sent for the first time by a client is sent by this. */
void sync_warm_up(hf_client *used);
hf_semaphore *sync_semaphore(hf_client *used, const char *name);
/* Who waits by this one is served in turn. */
hf_semaphore *sync_in_turn(hf_client *used, const char *name);
hf_latch *sync_latch(hf_client *used, const char *name);
hf_lock *sync_permits(hf_client *used, const char *name);
/* Hears the messages of semaphores and permits, or of latches, of that name,
 * which has no brace. */
ear *sync_ear(const char *before, const char *name);
#define SYNC_PERMITS_EAR "redisson_sc:"
#define SYNC_LATCH_EAR "redisson_countdownlatch__channel__"

/* A wait that a message is to end: beyond the limit of what must happen. */
#define SYNC_PATIENCE_MS (INT64_C(2) * TEST_LIMIT_MS)

/* A thread that takes permits, or waits for a latch. */
typedef struct sync_waiter {
    hf_semaphore *semaphore;
    hf_latch *latch;
    int64_t permits;
    int64_t wait_ms;
    hf_cancel *cancel;
    hf_status status;
    hf_error err;
    atomic_bool ended;
    pthread_t thread;
} sync_waiter;

void sync_start(sync_waiter *waiter);
/* The same, and returns when it has asked before and after its subscription,
 * or, if the channel has been subscribed before (`again`), once: all that is
 * left to it is to sleep. Resets the calls. */
void sync_park(sync_waiter *waiter, bool again);
/* Joins, and expects that status. */
void sync_end(sync_waiter *waiter, hf_status status);

#endif
