/* A permit of a semaphore for the time of a lease: who dies gives it back.
 * Redisson RedissonPermitExpirableSemaphore. */
#ifndef HF__KINDS_PERMIT_H
#define HF__KINDS_PERMIT_H

#include "core/kind.h"

/* names[0]: who has permits; names[1]: the records of what was done. */
extern const hf__kind hf__kind_permit;

#endif
