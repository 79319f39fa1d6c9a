/* The history that the processes of a run write together: one line for each
 * thing that happens, in one file, with times of one clock (CLOCK_BOOTTIME,
 * nanoseconds). A line is handed to the kernel at once, so that a process that
 * is killed has said what it did.
 *
 *     TIME PROCESS OWNER LOCK OPERATION WHAT [WORD...]
 *
 * PROCESS is a number that no other process of the run has, OWNER and the
 * LEASE of a line begin with it. OPERATION numbers the operations of a
 * process; 0 is an observation. What is written:
 *
 *     acquire WAIT LEASE_MS   begins; LEASE_MS 0: the watchdog's
 *         granted LEASE | refused WAIT | unknown STATUS
 *     release LEASE|-         begins; - leaves the choice to the library
 *         released LEASE | lost LEASE|- | notheld | unknown LEASE|- STATUS
 *     count                   begins; counted N | unknown STATUS
 *     force                   begins; forced 0|1 | unknown STATUS
 *     held LEASE MS           the holder may act, for MS more (at least)
 *     ended LEASE WHY         the holder knows that it may not
 *
 * What is no lock's has 0 as the owner's number, and - as LOCK:
 *
 *     connected               the process has its client (an observation)
 *     restart                 begins: the server is killed, and started again
 *         restarted           with nothing in its memory
 *
 * The time of a beginning and of `held` is taken before the call, that of an
 * end and of `ended` after it. A line that begins with # is a note; `# lease
 * MS` says how long the watchdog's lease is. */
#ifndef TEST_HISTORY_HISTORY_H
#define TEST_HISTORY_HISTORY_H

#include <stdint.h>

/* Appends to the file. Once for each process. */
void history_open(const char *path, unsigned process);
/* Nanoseconds. */
int64_t history_now(void);
unsigned history_next_operation(void);
unsigned history_next_lease(void);

/* Who does it, and to what. */
typedef struct history_actor {
    unsigned owner; /* within the process */
    const char *lock;
} history_actor;

/* The process itself, at the server itself. */
#define HISTORY_NO_LOCK ((history_actor){0, "-"})

/* Words are in the format. */
void history_line(int64_t time, history_actor actor, unsigned operation,
                  const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The number of a lease as it stands in lines. */
#define LEASE_FORMAT "%u.%u"
#define LEASE_WORDS(number) history_process(), (number)
unsigned history_process(void);
void history_note(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Chance that follows from a seed (splitmix64). */
uint64_t history_chance(uint64_t *seed, uint64_t below);

#endif
