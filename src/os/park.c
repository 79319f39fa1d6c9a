/* One futex word per sleeper.
 *
 *   EMPTY     nobody sleeps, nothing is pending
 *   NOTIFIED  unparked; the next park takes it and returns at once
 *   PARKED    the owner sleeps or is about to
 *
 * Only the owner moves to EMPTY and PARKED, only others move to NOTIFIED.
 * Memory written before the unpark is seen after the park: release on the
 * store of NOTIFIED, acquire where it is taken. */
#include "os/os.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EMPTY = 0, NOTIFIED = 1, PARKED = 2 };

/* Futexes know no CLOCK_BOOTTIME. A longer sleep is cut into such pieces, so
 * that a deadline which passed while the machine was suspended is noticed at
 * most so late. */
#define LONGEST_SLEEP (5 * HF__SECOND)

void hf__parker_init(hf__parker *parker)
{
    atomic_init(&parker->word, EMPTY);
}

/* Sleeps while the word is PARKED, at most so long. */
static void futex_wait(hf__parker *parker, int64_t nanoseconds)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t end = (int64_t)until.tv_nsec + nanoseconds;
    until.tv_sec += (time_t)(end / HF__SECOND);
    until.tv_nsec = (long)(end % HF__SECOND);
    int saved = errno;
    (void)syscall(SYS_futex, &parker->word, FUTEX_WAIT_BITSET_PRIVATE, PARKED,
                  &until, NULL, FUTEX_BITSET_MATCH_ANY);
    errno = saved;
}

static int64_t sleep_length(int64_t deadline)
{
    int64_t now = hf__now();
    if (deadline <= now) {
        return 0;
    }
    return deadline - now < LONGEST_SLEEP ? deadline - now : LONGEST_SLEEP;
}

void hf__park(hf__parker *parker, int64_t deadline)
{
    uint32_t word = EMPTY;
    bool sleeps = atomic_compare_exchange_strong_explicit(
        &parker->word, &word, PARKED, memory_order_relaxed,
        memory_order_relaxed);
    while (sleeps) {
        int64_t left = sleep_length(deadline);
        if (left > 0) {
            futex_wait(parker, left);
        }
        word = atomic_load_explicit(&parker->word, memory_order_relaxed);
        sleeps = word == PARKED && left == LONGEST_SLEEP;
    }
    /* Exchange, not store: an unpark may come in just now, and what it
     * published must be seen by the caller's next look. */
    (void)atomic_exchange_explicit(&parker->word, EMPTY, memory_order_acquire);
}

void hf__unpark(hf__parker *parker)
{
    uint32_t before =
        atomic_exchange_explicit(&parker->word, NOTIFIED, memory_order_release);
    if (before == PARKED) {
        int saved = errno;
        (void)syscall(SYS_futex, &parker->word, FUTEX_WAKE_PRIVATE, 1, NULL,
                      NULL, 0);
        errno = saved;
    }
}
