/* The lock of the Redis manual's "Distributed locks": a string that is set if
 * it is absent, with an end. Not reentrant, without messages: waiters ask again
 * and again. */
#ifndef HF__KINDS_SIMPLE_H
#define HF__KINDS_SIMPLE_H

#include "core/kind.h"

extern const hf__kind hf__kind_simple;

/* Compare and delete, for the asker's owner. Answers 1: deleted; 0: another's;
 * -1: nobody's. Said twice, the second answer may be about the first. */
void hf__simple_delete(hf__call *call, const hf__asker *asker);

#endif
