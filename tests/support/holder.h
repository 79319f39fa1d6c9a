/* One owner at one lock: the book on a virtual clock, and what the server
 * keeps of it. Each command is sent and heard of in two steps, as a driver
 * does it, so that a test can put others in between. The server executes a
 * command when it is sent. */
#ifndef TEST_SUPPORT_HOLDER_H
#define TEST_SUPPORT_HOLDER_H

#include "core/book.h"
#include "support/virtual.h"

#define HOLDER_WATCHDOG (30 * VIRTUAL_SECOND)

typedef struct holder {
    virtual_seam world;
    hf__book book;
    hf__target *target;
    hf__hold *hold;
    virtual_entry server;
} holder;

/* With a watchdog lease of HOLDER_WATCHDOG; the hold is pinned. */
void holder_open(holder *h);
void holder_close(holder *h);

typedef struct holder_acquire {
    hf__terms terms;
    hf__grant grant;
} holder_acquire;

/* An acquire is under way from here to its grant. */
holder_acquire holder_send_acquire(holder *h, hf__terms terms);
void holder_granted(holder *h, const holder_acquire *acquire, hf__lease *lease);
/* Both at once. */
void holder_take(holder *h, hf__lease *lease, hf__terms terms);
/* With a watchdog lease. */
void holder_take_watched(holder *h, hf__lease *lease);
/* With a fixed lease. */
void holder_take_fixed(holder *h, hf__lease *lease, int64_t span);

typedef struct holder_release {
    bool listed;
    int64_t sent_at;
} holder_release;

/* After hf__book_leave. */
holder_release holder_send_release(holder *h);
void holder_released(holder *h, const holder_release *release);
/* All of it; false if the lease was no longer live. */
bool holder_give_back(holder *h, hf__lease *lease);

typedef struct holder_renewal {
    hf__renewal renewal;
    int64_t sent_at;
} holder_renewal;

/* After HF__DUE_RENEW. */
holder_renewal holder_send_renewal(holder *h);
/* `found` in place of what the server has answered. */
void holder_renewed(holder *h, const holder_renewal *renewal, int found);
/* After HF__DUE_SETTLE: said and, if `heard`, confirmed. */
void holder_settle(holder *h, bool heard);

/* What is due now for the one hold. */
hf__due holder_due(holder *h);
/* Lets time pass until something is due, and tells what; a lease that ends on
 * the way is put into the book's lost list. HF__DUE_NOTHING if nothing will
 * ever be due. */
hf__due holder_pass_to_due(holder *h);
/* Lets time pass, with each renewal and settling answered at once. */
void holder_live(holder *h, int64_t span);

hf_lease_state holder_state(const hf__lease *lease);
hf_loss holder_loss(const hf__lease *lease);
int64_t holder_deadline(const hf__lease *lease);

#endif
