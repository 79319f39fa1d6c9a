/* The reentrant lock. Redisson RedissonLock. */
#ifndef HF__KINDS_LOCK_H
#define HF__KINDS_LOCK_H

#include "core/kind.h"

extern const hf__kind hf__kind_lock;

#endif
