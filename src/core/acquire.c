#include "core/acquire.h"

#include "core/refusal.h"

#include <assert.h>
#include <inttypes.h>

int64_t hf__lease_deadline(int64_t sent_at, int64_t lease)
{
    return sent_at + lease - (lease / 100 + 2 * HF__NS_PER_MS);
}

/* ------------------------------------------------------------- the state */

static bool may_follow(hf__acquire_state from, hf__acquire_state to)
{
    static const unsigned allowed[] = {
        [HF__ACQ_START] =
            1u << HF__ACQ_TRYING | 1u << HF__ACQ_PARKED | 1u << HF__ACQ_DONE,
        [HF__ACQ_TRYING] = 1u << HF__ACQ_SETTLING | 1u << HF__ACQ_SUBSCRIBING |
                           1u << HF__ACQ_PARKED | 1u << HF__ACQ_TRYING |
                           1u << HF__ACQ_DONE,
        [HF__ACQ_SETTLING] = 1u << HF__ACQ_TRYING | 1u << HF__ACQ_SETTLING |
                             1u << HF__ACQ_PARKED | 1u << HF__ACQ_DONE,
        [HF__ACQ_SUBSCRIBING] =
            1u << HF__ACQ_TRYING | 1u << HF__ACQ_PARKED | 1u << HF__ACQ_DONE,
        [HF__ACQ_PARKED] = 1u << HF__ACQ_TRYING | 1u << HF__ACQ_SETTLING |
                           1u << HF__ACQ_PARKED | 1u << HF__ACQ_DONE,
        [HF__ACQ_DONE] = 0,
    };
    return (allowed[from] & 1u << to) != 0;
}

static void enter(hf__acquire *a, hf__acquire_state state)
{
    assert(may_follow(a->state, state));
    (void)may_follow;
    a->state = state;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---------------------------------------------------------------- actions */

static hf__acquire_action done(hf__acquire *a, hf_status status)
{
    enter(a, HF__ACQ_DONE);
    a->status = status;
    /* It may stand in the server's queue. */
    if (status != HF_OK && a->kind->queued && !a->once && a->tries > 0) {
        a->maybe_applied = true;
    }
    return HF__ACT_DONE;
}

static void say_why_not(hf__acquire *a)
{
    int64_t now = hf__seam_now(a->seam);
    if (now < a->not_before) {
        hf__error_set_retriable(
            &a->error, HF_NOT_ACQUIRED,
            "the server was restarted: nothing is granted for another %" PRId64
            " ms, for holders of before may still act",
            (a->not_before - now) / HF__NS_PER_MS + 1);
    } else if (!a->heard_busy) {
        hf__error_set_retriable(&a->error, HF_EUNREACHABLE,
                                "the server did not answer in time");
    } else if (a->remaining_ms >= 0) {
        hf__error_set_retriable(&a->error, HF_NOT_ACQUIRED,
                                "held by another owner for another %" PRId64
                                " ms unless renewed or released",
                                a->remaining_ms);
    } else if (a->remaining_ms == HF__NO_END) {
        hf__error_set_retriable(&a->error, HF_NOT_ACQUIRED,
                                "held by another owner, without an end");
    } else {
        hf__error_set_retriable(&a->error, HF_NOT_ACQUIRED,
                                "not to be had yet");
    }
}

/* The wait is over without a grant: what stood in the way last? */
static hf__acquire_action give_up(hf__acquire *a)
{
    if (a->failures == 0) {
        say_why_not(a);
    }
    return done(a, hf_error_status(&a->error));
}

static hf__acquire_action park(hf__acquire *a, int64_t poll_at)
{
    int64_t now = hf__seam_now(a->seam);
    if (a->once || now >= a->deadline) {
        return give_up(a);
    }
    enter(a, HF__ACQ_PARKED);
    a->park_until = a->deadline;
    a->poll_at = poll_at;
    a->shared = a->listening;
    /* Nobody else looks at poll_at for a waiter without subscription. */
    if (!a->listening) {
        a->park_until = earlier(a->deadline, poll_at);
    }
    return HF__ACT_PARK;
}

static hf__acquire_action send(hf__acquire *a)
{
    if (a->not_before > 0 && hf__seam_now(a->seam) < a->not_before) {
        bool listening = a->listening;
        a->listening = false; /* no message tells of the quarantine's end */
        hf__acquire_action action = park(a, a->not_before);
        a->listening = listening;
        return action;
    }
    if (a->tries > 0 && !a->once && hf__seam_now(a->seam) >= a->deadline) {
        return give_up(a);
    }
    enter(a, HF__ACQ_TRYING);
    a->tries++;
    return HF__ACT_SEND;
}

static hf__acquire_action settle(hf__acquire *a)
{
    enter(a, HF__ACQ_SETTLING);
    a->maybe_applied = true;
    return HF__ACT_SETTLE;
}

/* Something that may pass stood in the way. */
static hf__acquire_action pause_for(hf__acquire *a, unsigned times_before)
{
    bool listening = a->listening;
    a->listening = false; /* no message tells of its passing */
    hf__acquire_action action = park(
        a, hf__seam_now(a->seam) + hf__seam_backoff(a->seam, times_before));
    a->listening = listening;
    return action;
}

static hf__acquire_action back_off(hf__acquire *a)
{
    a->failures++;
    return pause_for(a, a->failures - 1);
}

/* ----------------------------------------------------------------- events */

/* Without messages: 1, 2, 4 ... times the first, with jitter so that those who
 * wait for one lock do not come together. */
static int64_t backoff(const hf__acquire *a)
{
    int64_t pause = a->backoff_first;
    for (unsigned i = 1; i < a->asked && pause < a->backoff_max; i++) {
        pause *= 2;
    }
    pause = earlier(pause, a->backoff_max);
    return a->backoff_first == a->backoff_max ? pause
                                              : hf__seam_jitter(a->seam, pause);
}

static hf__acquire_action on_busy(hf__acquire *a, int64_t remaining_ms)
{
    int64_t now = hf__seam_now(a->seam);
    a->failures = 0;
    a->heard_busy = true;
    a->remaining_ms = remaining_ms;
    a->endless = remaining_ms == HF__NO_END;
    a->asked++;
    if (a->once || now >= a->deadline) {
        return give_up(a);
    }
    if (!a->kind->channel) {
        return park(a, now + backoff(a));
    }
    if (!a->listening) {
        enter(a, HF__ACQ_SUBSCRIBING);
        return HF__ACT_SUBSCRIBE;
    }
    int64_t poll_at = now + hf__seam_jitter(a->seam, a->poll_cap);
    if (remaining_ms >= 0 && remaining_ms < a->poll_cap / HF__NS_PER_MS) {
        /* The server deletes a key in the millisecond after its last. */
        poll_at = earlier(poll_at, now + (remaining_ms + 1) * HF__NS_PER_MS);
    }
    return park(a, poll_at);
}

static hf__acquire_action on_granted(hf__acquire *a, const hf__verdict *verdict)
{
    uint64_t token = verdict->token;
    /* On re-entry it is the one that the owner has. */
    uint64_t least = a->last_token + (verdict->count > 1 ? 0 : 1);
    if (token != 0 && token < least) {
        a->maybe_applied = true;
        hf__error_set(&a->error, HF_EPROTOCOL,
                      "the server gave the fencing token %" PRIu64
                      " after %" PRIu64 ": it has lost data",
                      token, a->last_token);
        return done(a, HF_EPROTOCOL);
    }
    if (hf__seam_now(a->seam) >= hf__lease_deadline(a->sent_at, a->lease)) {
        /* The reply took as long as the lease: it is worth nothing. */
        hf__error_set_retriable(&a->error, HF_EUNREACHABLE,
                                "the server took as long to answer as the "
                                "lease lasts");
        a->failures++;
        return settle(a);
    }
    a->token = token;
    a->count = verdict->count;
    a->maybe_applied = false;
    return done(a, HF_OK);
}

static hf__acquire_action on_error(hf__acquire *a, hf__slice text)
{
    hf__refusal refusal = hf__refusal_of(text);
    if (refusal.retriable) {
        hf__error_set_retriable(&a->error, refusal.status, "%.*s",
                                (int)text.length, text.data);
    } else {
        hf__error_set(&a->error, refusal.status, "%.*s", (int)text.length,
                      text.data);
    }
    if (refusal.retriable && refusal.not_run && !a->once) {
        return back_off(a);
    }
    /* An error is no rollback: what came before it in the script stands. */
    a->maybe_applied = !refusal.not_run;
    return done(a, refusal.status);
}

static hf__acquire_action on_reply(hf__acquire *a, const hf__reply *reply)
{
    if (reply->type == HF__VALUE_ERROR) {
        return on_error(a, reply->text);
    }
    hf__verdict verdict = a->kind->verdict(reply);
    switch (verdict.what) {
    case HF__GRANTED:
        return on_granted(a, &verdict);
    case HF__BUSY:
        a->gone = a->again && a->kind->reentrant;
        return on_busy(a, verdict.remaining_ms);
    case HF__GONE:
        a->gone = true;
        return send(a);
    case HF__OWN:
        hf__error_set(&a->error, HF_EHELD, "this owner holds it already");
        return done(a, HF_EHELD);
    default:
        a->maybe_applied = true;
        hf__error_set(&a->error, HF_EPROTOCOL,
                      "the server's reply is none of this lock's script");
        return done(a, HF_EPROTOCOL);
    }
}

static void note_failure(hf__acquire *a, const hf__acquire_input *in)
{
    hf_status status = in->status ? in->status : HF_EUNREACHABLE;
    if (in->retriable) {
        hf__error_set_retriable(&a->error, status, "%.*s", (int)in->text.length,
                                in->text.data);
    } else {
        hf__error_set(&a->error, status, "%.*s", (int)in->text.length,
                      in->text.data);
    }
}

static hf__acquire_action on_failure(hf__acquire *a,
                                     const hf__acquire_input *in)
{
    note_failure(a, in);
    if (!in->retriable) {
        return done(a, in->status);
    }
    return back_off(a);
}

/* A single try gets over one lost connection, such as one that the server has
 * closed for idleness. */
static hf__acquire_action on_unknown(hf__acquire *a,
                                     const hf__acquire_input *in)
{
    note_failure(a, in);
    a->failures++;
    return settle(a);
}

static hf__acquire_action on_settled(hf__acquire *a)
{
    a->maybe_applied = false;
    if (a->once && a->failures > 1) {
        return give_up(a);
    }
    return send(a);
}

static hf__acquire_action on_time_up(hf__acquire *a,
                                     const hf__acquire_input *in)
{
    a->maybe_applied = a->maybe_applied || in->in_flight;
    return give_up(a);
}

static hf__acquire_action on_cancel(hf__acquire *a, const hf__acquire_input *in)
{
    a->maybe_applied = a->maybe_applied || in->in_flight;
    hf__error_set(&a->error, HF_CANCELLED, "the wait was cancelled");
    return done(a, HF_CANCELLED);
}

static hf__acquire_action on_woken(hf__acquire *a)
{
    if (hf__seam_now(a->seam) >= a->deadline) {
        return give_up(a);
    }
    return a->maybe_applied ? settle(a) : send(a);
}

hf__acquire_action hf__acquire_step(hf__acquire *a, const hf__acquire_input *in)
{
    switch (in->event) {
    case HF__EV_START:
        a->state = HF__ACQ_START;
        return send(a);
    case HF__EV_GRANTED_OR_NOT:
        return on_reply(a, &in->reply);
    case HF__EV_NOT_SENT:
    case HF__EV_NOT_SETTLED:
        return on_failure(a, in);
    case HF__EV_OUTDATED:
        return send(a);
    case HF__EV_UNKNOWN:
        return on_unknown(a, in);
    case HF__EV_SETTLED:
        return on_settled(a);
    case HF__EV_SUBSCRIBED:
        a->listening = true;
        return send(a);
    case HF__EV_NOT_SUBSCRIBED:
        /* Without messages: polling, which asks again for messages. */
        a->listening = false;
        a->polls++;
        return pause_for(a, a->polls - 1);
    case HF__EV_WOKEN:
        return on_woken(a);
    case HF__EV_TIME_UP:
        return on_time_up(a, in);
    default:
        return on_cancel(a, in);
    }
}
