/* The calling thread: an ordinal that is never used again, and its parker. */
#ifndef HF__OS_THREAD_H
#define HF__OS_THREAD_H

#include "os/os.h"

/* Records outlive their threads and are reused by later ones (with another
 * ordinal), so that a late unpark finds a parker: at worst it wakes the
 * wrong thread, which checks its condition again. */
typedef struct hf__thread {
    hf__parker parker;
    uint64_t ordinal;
    struct hf__thread *next; /* all records */
    struct hf__thread *spare;
} hf__thread;

/* NULL when out of memory. */
hf__thread *hf__thread_self(void);
/* A number that neither a thread nor an owner of this process has had. */
uint64_t hf__next_ordinal(void);

#endif
