/* The thinking wing without the world: a clock that stands until it is moved,
 * chance that can be dictated, replies by script, one owner's entry at a
 * server, and a kind of lock with fencing tokens. */
#ifndef TEST_SUPPORT_VIRTUAL_H
#define TEST_SUPPORT_VIRTUAL_H

#include "core/acquire.h"
#include "core/kind.h"
#include "core/seam.h"

#include <stdbool.h>
#include <stdint.h>

#define VIRTUAL_MS(ms) ((int64_t)(ms)*HF__NS_PER_MS)
#define VIRTUAL_SECOND VIRTUAL_MS(1000)

/* ---- clock and chance */

typedef struct virtual_seam {
    hf__seam seam; /* what is given to the machines */
    int64_t now;
    uint64_t dealt; /* chance, as long as no seed is set */
    uint64_t seed;
} virtual_seam;

/* The clock stands at some time; each jitter takes its whole span. */
void virtual_start(virtual_seam *world);
/* From now on chance follows from the seed. */
void virtual_seed(virtual_seam *world, uint64_t seed);
/* Chance for the test itself: less than `below`. */
uint64_t virtual_chance(virtual_seam *world, uint64_t below);
void virtual_pass(virtual_seam *world, int64_t span);
/* How often a test of random histories runs: `count`, scaled by
 * HOLDFAST_TEST_SCALE. */
unsigned virtual_runs(unsigned count);

/* ---- replies by script; each notes the time of a sending as a driver does */

hf__acquire_action virtual_say(hf__acquire *acquire,
                               const hf__acquire_input *input);
hf__acquire_action virtual_event(hf__acquire *acquire, hf__acquire_event event);
/* TIME_UP or CANCEL while the acquire is under way. */
hf__acquire_action virtual_event_in_flight(hf__acquire *acquire,
                                           hf__acquire_event event);
hf__acquire_action virtual_nil(hf__acquire *acquire);
hf__acquire_action virtual_integer(hf__acquire *acquire, int64_t number);
hf__acquire_action virtual_error(hf__acquire *acquire, const char *text);
/* An event that comes with a status and its words. */
hf__acquire_action virtual_failure(hf__acquire *acquire,
                                   hf__acquire_event event, hf_status status,
                                   bool retriable);

/* ---- a machine of the plain lock in some state, from the start of the world
 */

#define VIRTUAL_LEASE VIRTUAL_SECOND
#define VIRTUAL_POLL_CAP (5 * VIRTUAL_SECOND)

hf__acquire virtual_machine(virtual_seam *world);
/* Its acquire is under way. */
hf__acquire virtual_sent(virtual_seam *world);
/* It waits, with the channel's messages coming in. */
hf__acquire virtual_parked(virtual_seam *world, int64_t remaining_ms);

/* ---- what a server keeps of one owner at one lock */

typedef struct virtual_entry {
    int64_t count; /* 0: not listed */
    int64_t end;
} virtual_entry;

void virtual_entry_acquire(virtual_entry *entry, int64_t at, int64_t lease);
/* As the release script; true if the owner is still listed. */
bool virtual_entry_release(virtual_entry *entry, int64_t at, int64_t remaining,
                           int64_t lease);
/* As the renewal script: 1 or 0. */
int virtual_entry_renew(virtual_entry *entry, int64_t at, int64_t lease);

/* ---- a lock with fencing tokens: "n" is a grant, nil is busy */
extern const hf__kind virtual_kind_fenced;

#endif
