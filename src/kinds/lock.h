/* The reentrant lock, and two that differ from it in one thing each: one that
 * its owner cannot take twice, and one without messages. They share their state
 * on the server. Redisson RedissonLock, RedissonNonReentrantLock,
 * RedissonSpinLock. */
#ifndef HF__KINDS_LOCK_H
#define HF__KINDS_LOCK_H

#include "core/kind.h"

extern const hf__kind hf__kind_lock;
extern const hf__kind hf__kind_lock_once;
extern const hf__kind hf__kind_spin;

/* For other kinds whose state is a lock's hash. */
void hf__lock_release(hf__call *call, const hf__asker *asker, int64_t remaining,
                      int64_t lease_ms);
void hf__lock_force(hf__call *call, const hf__asker *asker);
void hf__lock_look(hf__call *call, const hf__asker *asker);
hf__verdict hf__lock_verdict(const hf__reply *reply);
/* For a kind that its owner cannot have twice. */
hf__verdict hf__lock_verdict_once(const hf__reply *reply);
hf__wake hf__lock_wake(hf__slice payload);
void hf__lock_channel(hf__buf *out, hf__slice name);
/* The last argument of an acquire, where the owner has it already. */
void hf__call_add_again(hf__call *call, const hf__asker *asker);
/* Begins a call of a script whose one key is the name. */
void hf__call_on_name(hf__call *call, const hf__script *script,
                      const hf__asker *asker);

#endif
