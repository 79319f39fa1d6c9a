/* Names of keys and channels that belong to a lock's name. */
#ifndef HF__KINDS_NAMES_H
#define HF__KINDS_NAMES_H

#include "base/buf.h"
#include "base/bytes.h"

/* `prefix:{name}`, or `prefix:name` if the name has a `{` anywhere, so that a
 * hash tag of its own goes on to count. Redisson RedissonObject.prefixName. */
void hf__name_prefixed(hf__buf *out, hf__slice prefix, hf__slice name);

#endif
