/* A reentrant lock each grant of which has a token, larger than all before: a
 * resource that remembers the largest it has seen can turn away whoever acts
 * too late. Its state is a reentrant lock's, and a counter. Redisson
 * RedissonFencedLock. */
#ifndef HF__KINDS_FENCED_H
#define HF__KINDS_FENCED_H

#include "core/kind.h"

extern const hf__kind hf__kind_fenced;

#endif
