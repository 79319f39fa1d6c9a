/* The reader's work on a link, apart from who does it and when. */
#ifndef HF__REDIS_LINK_IO_H
#define HF__REDIS_LINK_IO_H

#include "redis/link.h"

/* One step towards READY, or one batch of bytes: connects, greets or reads.
 * The caller has the reader's role and the mutex, which is given up during
 * every system call. `until`: how long the step may block; 0 for not at
 * all. */
void hf__link_step(hf__link *link, int64_t until);

/* Link's mutex held from here on. */

/* Ends the connection: completes all that the server may have got, and closes
 * the descriptor as soon as neither reader nor writer uses it. What was not
 * sent waits for the next connection, unless this one never became READY or
 * the link closes. link->failure says why. */
void hf__link_break(hf__link *link);
/* The server was restarted: what was meant for the one before is not sent. */
void hf__link_refuse_outdated(hf__link *link);
/* Closes a broken link's descriptor once both roles are free. */
void hf__link_settle(hf__link *link);
/* Breaks a link whose server has kept silent for too long. */
void hf__link_check_silence(hf__link *link, int64_t now);
int64_t hf__link_silence_due(const hf__link *link);
/* Takes a request out of pending. Returns the parker to wake, which must
 * happen after the request was last touched; NULL if none sleeps. */
hf__parker *hf__link_complete(hf__link *link, hf__request *request,
                              hf__outcome outcome);
/* Before something is sent on a connection that has been idle: breaks the link
 * if the server has spoken unasked, or has closed it. */
void hf__link_check_idle(hf__link *link);
/* Sends what is queued as far as possible. */
void hf__link_flush_locked(hf__link *link);

#endif
