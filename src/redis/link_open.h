/* The reader's work on a link that is not READY yet. The caller has the
 * reader's role and the mutex, which is given up during every system call that
 * may block. */
#ifndef HF__REDIS_LINK_OPEN_H
#define HF__REDIS_LINK_OPEN_H

#include "redis/link.h"

/* DOWN: begins with the first address, or the question for it. */
void hf__link_connect(hf__link *link);
/* RESOLVING, CONNECTING: waits for the outcome, at most until `until`. */
void hf__link_step_resolving(hf__link *link, int64_t until);
void hf__link_step_connecting(hf__link *link, int64_t until);
/* GREETING: a reply to what was said first. */
void hf__link_greeted(hf__link *link, const hf__value *value);

#endif
