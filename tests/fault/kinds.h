/* The fault table over all kinds of lock: each test is run once for each of
 * them, on one server that the tests of a program share. All that happens, does
 * so to the lock "x". */
#ifndef TEST_FAULT_KINDS_H
#define TEST_FAULT_KINDS_H

#include "fault/fault.h"

#define KINDS_ENDLESS_MS 60000

/* One kind, or several locks as one, and what the tests must know of it. */
typedef struct kinds_row {
    const char *name;
    hf_kind kind;
    /* What excludes it: for a reader a writer, else its own kind. */
    hf_kind against;
    bool several;        /* "x" and the fair lock "x2" */
    bool deaf;           /* its waiters ask again and again */
    const char *second;  /* another key that an acquire needs; NULL: none */
    const char *holders; /* the key that says who has it */
    const char *forbid;  /* a command that a half-done acquire would need */
} kinds_row;

extern const kinds_row kinds_rows[];
extern const size_t kinds_count;

/* The fixture, and the row that the test is run for. */
typedef struct kinds_case {
    fault f; /* first: it is freed as such */
    const kinds_row *row;
} kinds_case;

/* A test for all rows for which `fits` (NULL: for all). */
typedef struct kinds_test {
    const char *name;
    CMUnitTestFunction test;
    bool (*fits)(const kinds_row *row);
} kinds_test;

/* Runs them all; `prepare`, if any, is called once the server runs and before
 * the program has threads. For main. */
int kinds_run(const kinds_test *tests, size_t count,
              void (*prepare)(srv *server));

/* The row's lock, or the lock that excludes it. Permits: there is one. */
hf_lock *kinds_lock(kinds_case *k, hf_client *client);
hf_lock *kinds_rival(kinds_case *k, hf_client *client);
/* The same in a process of its own; NULL if it cannot be opened. */
hf_lock *kinds_open(const kinds_row *row, hf_kind kind, hf_client *client);
/* Makes the one permit, where there are permits. */
void kinds_stock(kinds_case *k);

/* Fault's options, with neither a linger of subscriptions nor a quarantine. */
hf_client *kinds_client(kinds_case *k);
/* The same behind the proxy, over TCP; command time-out 300. All that is to be
 * found out at the first acquisition has been. */
hf_client *kinds_client_behind(kinds_case *k);
/* A lease that does not end within the test. */
hf_acquire_options kinds_long(int64_t wait_ms);
hf_acquire_options kinds_noting(loss_note *note);

/* The server lists the lease's owner once, and nobody else. */
void kinds_expect_once(kinds_case *k, const hf_lease *lease);
/* Nothing stays on the server but a fencing counter, the one permit, and
 * private records that end by themselves. */
void kinds_expect_nothing(kinds_case *k);
/* All keys in order, as text, to be freed. */
char *kinds_keys(kinds_case *k);
/* A whole acquire and release by a client; nothing stays. */
void kinds_cycle(kinds_case *k, hf_client *client);
/* Until so many channels have a subscriber, or for deaf kinds until waiters
 * have asked once more; reset it by kinds_unheard before they start. */
void kinds_unheard(kinds_case *k);
void kinds_expect_waiting(kinds_case *k);
/* Cuts the connections when a reply to what was just said is on its way;
 * `seen` from proxy_counts before it was said, PROXY_HOLD set. */
void kinds_cut_reply(kinds_case *k, size_t seen);

#endif
