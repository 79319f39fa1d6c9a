/* The fair lock, which its waiters get in the order of their arrival, and one
 * that its owner cannot take twice. Its state is the reentrant lock's, and a
 * queue. Redisson RedissonFairLock, RedissonNonReentrantFairLock. */
#ifndef HF__KINDS_FAIR_H
#define HF__KINDS_FAIR_H

#include "core/kind.h"

extern const hf__kind hf__kind_fair;
extern const hf__kind hf__kind_fair_once;

#endif
