/* The semaphore: a number of permits that belong to nobody. Redisson
 * RedissonSemaphore. */
#ifndef HF__KINDS_SEMAPHORE_H
#define HF__KINDS_SEMAPHORE_H

#include "core/kind.h"

/* names[0]: the records of what was done, a private key for each owner. */
extern const hf__kind hf__kind_semaphore;
/* The same permits, which are given in the order of asking. */
extern const hf__kind hf__kind_semaphore_in_turn;

/* What a semaphore of permits for a time, RedissonPermitExpirableSemaphore,
 * has in common with it. */
void hf__semaphore_channel(hf__buf *out, hf__slice name);
void hf__semaphore_records(hf__buf *out, hf__slice name);
hf__wake hf__semaphore_wake(hf__slice payload);
hf__verdict hf__semaphore_verdict(const hf__reply *reply);

#endif
