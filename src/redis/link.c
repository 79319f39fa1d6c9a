#include "redis/link.h"

#include "redis/link_io.h"

#include <poll.h>
#include <string.h>

/* Unsent bytes that one link keeps at most; a request beyond is refused. */
#define STOP_TICK (100 * HF__MS)
#define OUT_MAX ((size_t)256 * 1024 * 1024)

hf_status hf__link_init(hf__link *link, const hf__endpoint *endpoint,
                        const hf__link_hooks *hooks, int64_t connect_timeout,
                        int64_t command_timeout, hf_error *err)
{
    memset(link, 0, sizeof(*link));
    link->endpoint = endpoint;
    link->hooks = *hooks;
    link->connect_timeout = connect_timeout;
    link->command_timeout = command_timeout;
    link->fd = -1;
    link->alarm = HF__NEVER;
    hf__buf_init(&link->out, OUT_MAX);
    hf__buf_init(&link->wire, OUT_MAX);
    hf__list_init(&link->pending);
    hf__list_init(&link->done);
    if (pthread_mutex_init(&link->mutex, NULL) != 0) {
        return hf__error_set(err, HF_ESYSTEM, "cannot make a mutex");
    }
    return HF_OK;
}

void hf__link_destroy(hf__link *link)
{
    hf__close(link->fd);
    hf__resp_free(link->resp);
    hf__lookup_drop(link->lookup);
    hf__address_list_free(link->addresses);
    hf__buf_free(&link->out);
    hf__buf_free(&link->wire);
    pthread_mutex_destroy(&link->mutex);
}

void hf__link_forget(hf__link *link)
{
    hf__close(link->fd);
    link->fd = -1;
}

void hf__link_close(hf__link *link)
{
    pthread_mutex_lock(&link->mutex);
    link->closing = true;
    hf__error_set(&link->failure, HF_ECLOSED, "the client is closed");
    hf__link_break(link);
    hf__link_settle(link);
    pthread_mutex_unlock(&link->mutex);
}

/* ------------------------------------------------------------- submitting */

/* The submitter does not sleep yet: nobody is to be woken. */
static void refuse(hf__link *link, hf__request *request, hf__outcome outcome,
                   hf_status status, const char *why)
{
    hf__error_set(&link->failure, status, "%s", why);
    hf__link_complete(link, request, outcome);
}

static void submit(hf__link *link, hf__request *request, hf__thread *waiter)
{
    request->outcome = HF__PENDING;
    request->waiter = waiter;
    request->with_text = request->in_full;
    request->reading = false;
    hf__list_append(&link->pending, &request->node);
    if (!waiter) {
        link->orphans++;
    }
    request->offset = link->accepted;
    size_t before = link->out.length;
    hf__resp_encode(&link->out, request->call, request->in_full);
    if (link->closing) {
        link->out.length = before;
        refuse(link, request, HF__NOT_SENT, HF_ECLOSED, "the client is closed");
    } else if (link->out.failed) {
        link->out.failed = false;
        link->out.length = before;
        refuse(link, request, HF__NOT_SENT, HF_ENOMEM, "out of memory");
    } else if (request->same_server && request->restarts != link->restarts) {
        link->out.length = before;
        refuse(link, request, HF__OUTDATED, HF_EUNREACHABLE,
               "the server was restarted");
    } else {
        link->accepted += link->out.length - before;
        hf__link_flush_locked(link);
        if (!waiter && (!link->reading || link->state != HF__LINK_READY)) {
            link->hooks.wake_keeper(link->hooks.ctx);
        }
    }
}

void hf__link_submit(hf__link *link, hf__request *request, hf__thread *waiter)
{
    request->sent_at = hf__now();
    pthread_mutex_lock(&link->mutex);
    submit(link, request, waiter);
    pthread_mutex_unlock(&link->mutex);
}

/* A broken link has none until its last one, and its writer, have let go. */
static bool wants_reader(const hf__link *link)
{
    return !link->reading && link->state != HF__LINK_BROKEN &&
           link->state != HF__LINK_CLOSED;
}

/* The reader's role is free and replies are due: somebody must take it. The
 * keeper does when no caller sleeps for one. Returns whom to wake, best after
 * the mutex, which the next reader wants at once. */
static hf__parker *hand_over(hf__link *link)
{
    if (!wants_reader(link) || hf__list_empty(&link->pending)) {
        return NULL;
    }
    for (hf__list *n = link->pending.next; n != &link->pending; n = n->next) {
        hf__request *request = HF__CONTAINER(n, hf__request, node);
        if (request->reading) {
            request->reading = false;
            return &request->waiter->parker;
        }
    }
    if (link->orphans > 0) {
        link->hooks.wake_keeper(link->hooks.ctx);
    }
    return NULL;
}

/* Bytes that the kernel does not take stay in wire, for the keeper. */
static void send_wire(hf__link *link)
{
    link->writing = true;
    int fd = link->fd;
    pthread_mutex_unlock(&link->mutex);
    size_t sent = 0;
    ssize_t n = 0;
    while (sent < link->wire.length) {
        n = hf__send(fd, link->wire.data + sent, link->wire.length - sent);
        if (n < 0) {
            break;
        }
        sent += (size_t)n;
    }
    pthread_mutex_lock(&link->mutex);
    link->writing = false;
    hf__buf_consume(&link->wire, sent);
    if (n == HF__IO_BROKEN && link->state == HF__LINK_READY) {
        hf__error_set_retriable(&link->failure, HF_EUNREACHABLE,
                                "the connection to %s broke while sending",
                                link->endpoint->display);
        hf__link_break(link);
    } else if (link->wire.length > 0) {
        link->stalled = true;
        link->hooks.wake_keeper(link->hooks.ctx);
    }
    if (link->state == HF__LINK_BROKEN) {
        hf__link_settle(link);
        hf__parker *parker = hand_over(link);
        if (parker) {
            hf__unpark(parker);
        }
    }
}

void hf__link_flush_locked(hf__link *link)
{
    if (link->state == HF__LINK_READY && link->out.length > 0) {
        hf__link_check_idle(link);
    }
    while (link->state == HF__LINK_READY && !link->writing && !link->stalled &&
           link->out.length > 0) {
        hf__buf empty = link->wire;
        link->wire = link->out;
        link->out = empty;
        link->handed += link->wire.length;
        send_wire(link);
    }
}

/* ---------------------------------------------------------------- waiting */

static void unlock_and_wake(hf__link *link, hf__parker *parker)
{
    pthread_mutex_unlock(&link->mutex);
    if (parker) {
        hf__unpark(parker);
    }
}

static void read_as_leader(hf__link *link, int64_t deadline)
{
    link->reading = true;
    hf__link_step(link, deadline);
    link->reading = false;
    hf__link_settle(link);
}

/* Nothing wakes a reader who sleeps in the kernel: who may be stopped looks
 * now and then. */
static int64_t tick_before(int64_t deadline)
{
    int64_t tick = hf__now() + STOP_TICK;
    return tick < deadline ? tick : deadline;
}

/* Sleeps until another reader has completed the request, or nobody reads.
 * True: completed, and the mutex is not held any more. A follower that has its
 * reply has nothing to hand over, and would but stand in the others' way. */
static bool follow(hf__link *link, hf__request *request, int64_t deadline)
{
    hf__parker *parker = &request->waiter->parker;
    request->reading = true;
    pthread_mutex_unlock(&link->mutex);
    hf__park(parker, deadline);
    if (atomic_load_explicit(&request->outcome, memory_order_acquire) !=
        HF__PENDING) {
        return true;
    }
    pthread_mutex_lock(&link->mutex);
    if (request->outcome == HF__PENDING) {
        request->reading = false;
    }
    return false;
}

/* Begins with the mutex held, and ends without. */
static bool wait_for(hf__link *link, hf__request *request, int64_t deadline,
                     const atomic_bool *stop)
{
    while (request->outcome == HF__PENDING && !(stop && atomic_load(stop))) {
        if (wants_reader(link)) {
            read_as_leader(link, stop ? tick_before(deadline) : deadline);
        } else if (follow(link, request, deadline)) {
            return true;
        }
        if (request->outcome == HF__PENDING && deadline != HF__NEVER &&
            hf__now() >= deadline) {
            break;
        }
    }
    bool completed = request->outcome != HF__PENDING;
    unlock_and_wake(link, hand_over(link));
    return completed;
}

bool hf__link_wait(hf__link *link, hf__request *request, int64_t deadline,
                   const atomic_bool *stop)
{
    pthread_mutex_lock(&link->mutex);
    return wait_for(link, request, deadline, stop);
}

bool hf__link_say(hf__link *link, hf__request *request, hf__thread *self,
                  int64_t deadline, const atomic_bool *stop)
{
    request->sent_at = hf__now();
    pthread_mutex_lock(&link->mutex);
    submit(link, request, self);
    return wait_for(link, request, deadline, stop);
}

bool hf__link_abandon(hf__link *link, hf__request *request)
{
    pthread_mutex_lock(&link->mutex);
    bool completed = request->outcome != HF__PENDING;
    if (!completed) {
        request->waiter = NULL;
        /* Should the server lack the script, let it be: what is said after
         * this request relies on its having run before. */
        request->with_text = true;
        request->on_array = NULL; /* it would write to who has left */
        link->orphans++;
    }
    unlock_and_wake(link, completed ? NULL : hand_over(link));
    return completed;
}

/* ------------------------------------------------------------- the keeper */

static short wanted_events(const hf__link *link)
{
    switch (link->state) {
    case HF__LINK_CONNECTING:
        return POLLOUT;
    case HF__LINK_RESOLVING:
    case HF__LINK_GREETING:
    case HF__LINK_READY:
        return POLLIN;
    default:
        return 0;
    }
}

short hf__link_poll(hf__link *link, bool always, int *fd, int64_t *due,
                    bool *reader)
{
    pthread_mutex_lock(&link->mutex);
    bool needed = always || link->orphans > 0;
    short events = 0;
    *due = HF__NEVER;
    *reader = false;
    if (needed && wants_reader(link)) {
        link->reading = true;
        *reader = true;
        events = wanted_events(link);
        if (link->state == HF__LINK_DOWN) {
            *due = hf__list_empty(&link->pending) ? HF__NEVER : 0;
        } else if (link->state < HF__LINK_READY) {
            *due = link->connect_deadline;
        } else {
            *due = hf__link_silence_due(link);
        }
    }
    if (link->stalled) {
        events |= POLLOUT;
    }
    if (link->alarm < *due) {
        *due = link->alarm;
    }
    *fd = link->fd;
    pthread_mutex_unlock(&link->mutex);
    return events;
}

static void flush_stalled(hf__link *link)
{
    if (link->stalled && link->state == HF__LINK_READY && !link->writing) {
        link->stalled = false;
        send_wire(link);
        hf__link_flush_locked(link);
    }
}

/* On behalf of a reader who sleeps in the kernel without an end. */
static void ring_alarm(hf__link *link, int64_t now)
{
    if (now >= link->alarm) {
        hf__link_check_silence(link, now);
        link->alarm = hf__link_silence_due(link);
    }
}

void hf__link_pump(hf__link *link, bool reader)
{
    pthread_mutex_lock(&link->mutex);
    ring_alarm(link, hf__now());
    flush_stalled(link);
    if (reader) {
        if (link->state != HF__LINK_DOWN || !hf__list_empty(&link->pending)) {
            hf__link_step(link, 0);
        }
        link->reading = false;
    }
    hf__link_settle(link); /* the alarm breaks links that nobody reads, too */
    unlock_and_wake(link, hand_over(link));
}

bool hf__link_has_done(hf__link *link)
{
    pthread_mutex_lock(&link->mutex);
    bool any = !hf__list_empty(&link->done);
    pthread_mutex_unlock(&link->mutex);
    return any;
}

hf__request *hf__link_take_done(hf__link *link)
{
    pthread_mutex_lock(&link->mutex);
    hf__list *node = hf__list_pop(&link->done);
    pthread_mutex_unlock(&link->mutex);
    return node ? HF__CONTAINER(node, hf__request, node) : NULL;
}
