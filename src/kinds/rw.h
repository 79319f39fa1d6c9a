/* The two sides of a read/write lock: shares for readers, or one writer, who
 * may read as well. Redisson RedissonReadLock, RedissonWriteLock. */
#ifndef HF__KINDS_RW_H
#define HF__KINDS_RW_H

#include "core/kind.h"

extern const hf__kind hf__kind_read;
extern const hf__kind hf__kind_write;

#endif
