/* One side of a read/write lock as one owner has it, asked for as the library
 * asks: what the kind's table says goes to the server as EVAL, and the reply
 * comes back as text. */
#ifndef TEST_INTEGRATION_RW_SIDE_H
#define TEST_INTEGRATION_RW_SIDE_H

#include "kinds/rw.h"
#include "support/ear.h"
#include "support/fixture.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct side {
    const hf__kind *kind;
    const char *name;
    const char *own; /* without ":write" */
    hf__wish wish;
    bool again; /* it has it already, as far as it knows */
} side;

side reader(const char *name, const char *own);
side writer(const char *name, const char *own);
/* A reader that gives way to writers that wait. */
side polite(const char *name, const char *own);
/* A writer that waits. */
side waiting(const char *name, const char *own);
/* The same, which has it already, as far as it knows. */
side entered(side s);

char *say_acquire(side s, int64_t lease_ms);
char *say_release(side s, int64_t remaining, int64_t lease_ms);
char *say_force(side s);
char *say_probe(side s);

/* The reply is that. "(nil)": fresh; "-3": for the second time, and so on. */
bool takes(side s, int64_t lease_ms, const char *reply);
bool keeps(side s, int64_t remaining, int64_t lease_ms, const char *reply);
bool leaves(side s, const char *reply); /* gives all back */
bool forced(side s, const char *reply);
bool renews(side s, int64_t lease_ms, const char *reply);
/* "LOCKED COUNT"; the remaining time is the lock's own. */
bool looks(side s, const char *locked_count);
/* Refused for what remains of that lease. */
void assert_busy(side s, int64_t lease_ms);

/* What is on the server; a lease was given a moment ago. */
void assert_ends(const char *key, int64_t lease_ms);
bool has_field(const char *name, const char *field, const char *value);
bool has_fields(const char *name, const char *count);
bool is_there(const char *key);
bool is_gone(const char *key);
/* The hold of that key is over. */
void end_hold(const char *key);
ear *ear_of(const char *channel);

/* Both sides of a lock, of a client. */
typedef struct rw {
    hf_lock *read;
    hf_lock *write;
} rw;

rw rw_open(hf_client *of, const char *name);
void rw_free(rw lock);
hf_lock *open_kind(hf_client *of, const char *name, hf_kind kind,
                   int prefer_writers);
/* As test_warm_up; and fixture_patient with both clients so. */
void rw_warm_up(hf_client *of);
int rw_setup(void **state);
hf_lease *take_as(hf_lock *lock, hf_owner *owner, int64_t lease_ms);
void assert_taken(hf_lock *lock);
void assert_locked(hf_lock *lock, int expected);
/* How often the calling thread has it, by the server's word. */
void assert_count(hf_lock *lock, int64_t expected);
/* Becomes so: whether a writer says that it waits. */
bool is_marked(const char *name, bool marked);

#endif
