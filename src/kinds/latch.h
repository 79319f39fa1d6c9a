/* The count-down latch: who waits goes on when the count is none. Redisson
 * RedissonCountDownLatch. */
#ifndef HF__KINDS_LATCH_H
#define HF__KINDS_LATCH_H

#include "core/kind.h"

/* To acquire it is to wait; names[0]: the records of what was done. */
extern const hf__kind hf__kind_latch;

#endif
