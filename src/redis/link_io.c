#include "redis/link_io.h"

#include "redis/link_open.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#define IDLE_AFTER HF__MS
#define READ_SIZE ((size_t)16 * 1024)
/* Waiters that one batch of replies wakes outside of the mutex. */
#define WAKE_MAX 64

/* ------------------------------------------------------------- completion */

static void store_value(hf__request *request, const hf__value *value)
{
    request->type = value->type;
    request->integer = value->integer;
    request->text_length = value->text.length;
    size_t n = value->text.length;
    if (n >= sizeof(request->text)) {
        n = sizeof(request->text) - 1;
    }
    if (n > 0) {
        memcpy(request->text, value->text.data, n);
    }
    request->text[n] = '\0';
    if (value->type == HF__VALUE_ARRAY && request->on_array) {
        request->on_array(request, value);
    }
}

static void store_failure(hf__request *request, const hf_error *failure)
{
    request->failure = hf_error_status(failure);
    assert(request->failure != HF_OK);
    size_t n = strnlen(failure->opaque_text, sizeof(request->text) - 1);
    memcpy(request->text, failure->opaque_text, n);
    request->text[n] = '\0';
    request->text_length = n;
}

hf__parker *hf__link_complete(hf__link *link, hf__request *request,
                              hf__outcome outcome)
{
    if (outcome != HF__REPLIED) {
        store_failure(request, &link->failure);
    }
    hf__list_remove(&request->node);
    hf__parker *parker = request->reading ? &request->waiter->parker : NULL;
    if (!request->waiter) {
        link->orphans--;
        bool first = hf__list_empty(&link->done);
        hf__list_append(&link->done, &request->node);
        if (first) {
            link->hooks.wake_keeper(link->hooks.ctx);
        }
    }
    atomic_store_explicit(&request->outcome, outcome, memory_order_release);
    return parker;
}

static void fail(hf__link *link, hf__request *request, hf__outcome outcome)
{
    hf__parker *parker = hf__link_complete(link, request, outcome);
    if (parker) {
        hf__unpark(parker);
    }
}

/* What the server may have got. */
static void fail_sent(hf__link *link)
{
    hf__list *n = link->pending.next;
    while (n != &link->pending) {
        hf__request *request = HF__CONTAINER(n, hf__request, node);
        n = n->next;
        if (request->offset < link->handed) {
            fail(link, request, HF__UNKNOWN);
        }
    }
}

/* All bytes that were not sent go with them. */
static void fail_unsent(hf__link *link, hf__outcome outcome)
{
    while (!hf__list_empty(&link->pending)) {
        fail(link, HF__CONTAINER(link->pending.next, hf__request, node),
             outcome);
    }
    hf__buf_clear(&link->out);
    link->handed = link->accepted;
}

void hf__link_refuse_outdated(hf__link *link)
{
    hf__list *n = link->pending.next;
    while (n != &link->pending) {
        hf__request *request = HF__CONTAINER(n, hf__request, node);
        n = n->next;
        if (request->same_server && request->restarts != link->restarts) {
            /* Its bytes are queued among others': all must be made anew. */
            hf__error_set_retriable(&link->failure, HF_EUNREACHABLE,
                                    "%s was restarted",
                                    link->endpoint->display);
            fail_unsent(link, HF__OUTDATED);
            return;
        }
    }
}

void hf__link_break(hf__link *link)
{
    bool was_ready = link->state == HF__LINK_READY;
    if (link->state >= HF__LINK_RESOLVING && link->state <= HF__LINK_READY) {
        link->breaks += was_ready;
        link->client_before = was_ready ? link->client_id : link->client_before;
        link->state = HF__LINK_BROKEN;
        hf__socket_shutdown(link->fd);
    }
    fail_sent(link);
    /* What was not sent yet may as well go over the next connection. */
    if (!was_ready || link->closing) {
        fail_unsent(link, HF__NOT_SENT);
    }
}

void hf__link_settle(hf__link *link)
{
    if (link->reading || link->writing) {
        return;
    }
    if (link->state == HF__LINK_BROKEN) {
        hf__close(link->fd);
        link->fd = -1;
        hf__lookup_drop(link->lookup);
        link->lookup = NULL;
        link->stalled = false;
        hf__buf_clear(&link->wire);
        link->state = HF__LINK_DOWN;
    }
    if (link->closing && link->state == HF__LINK_DOWN) {
        link->state = HF__LINK_CLOSED;
    }
}

/* ---------------------------------------------------------------- silence */

int64_t hf__link_silence_due(const hf__link *link)
{
    if (link->state != HF__LINK_READY || hf__list_empty(&link->pending)) {
        return HF__NEVER;
    }
    const hf__request *first =
        HF__CONTAINER(link->pending.next, hf__request, node);
    int64_t since =
        first->sent_at > link->heard_at ? first->sent_at : link->heard_at;
    return since + link->command_timeout;
}

void hf__link_check_silence(hf__link *link, int64_t now)
{
    if (now < hf__link_silence_due(link)) {
        return;
    }
    hf__error_set_retriable(
        &link->failure, HF_EUNREACHABLE, "%s has not answered for %lld ms",
        link->endpoint->display, (long long)(link->command_timeout / HF__MS));
    hf__link_break(link);
}

/* ---------------------------------------------------------------- reading */

/* A subscriber's link hears messages among the replies. */
static bool is_message(const hf__value *value)
{
    return value->type == HF__VALUE_ARRAY && value->count == 3 &&
           value->first->type == HF__VALUE_STRING &&
           hf__slice_is(value->first->text, "message");
}

static void hear_message(hf__link *link, const hf__value *value)
{
    hf__slice channel = value->first->next->text;
    hf__slice payload = value->last->text;
    pthread_mutex_unlock(&link->mutex);
    link->hooks.on_message(link->hooks.ctx, channel, payload);
    pthread_mutex_lock(&link->mutex);
}

/* The server has not got the script: it cannot have run, so it is said again
 * at once, with its text. */
static bool say_with_text(hf__link *link, hf__request *request,
                          const hf__value *value)
{
    /* In this order: who has abandoned a request, which then counts as said
     * with its text, has taken its call along. */
    if (value->type != HF__VALUE_ERROR || request->with_text ||
        !request->call->script || !hf__slice_begins(value->text, "NOSCRIPT")) {
        return false;
    }
    size_t before = link->out.length;
    request->offset = link->accepted;
    hf__resp_encode(&link->out, request->call, true);
    if (link->out.failed) {
        link->out.failed = false;
        link->out.length = before;
        return false;
    }
    link->accepted += link->out.length - before;
    request->with_text = true;
    hf__list_remove(&request->node);
    hf__list_append(&link->pending, &request->node);
    hf__link_flush_locked(link);
    return true;
}

static void unasked(hf__link *link)
{
    hf__error_set_retriable(&link->failure, HF_EPROTOCOL,
                            "%s answered what was not asked",
                            link->endpoint->display);
    hf__link_break(link);
}

/* Returns the parker of a completed request's sleeping waiter. */
static hf__parker *take_reply(hf__link *link, const hf__value *value)
{
    hf__list *first = link->pending.next;
    hf__request *request = HF__CONTAINER(first, hf__request, node);
    if (first == &link->pending || request->offset >= link->handed) {
        unasked(link);
        return NULL;
    }
    if (say_with_text(link, request, value)) {
        return NULL;
    }
    store_value(request, value);
    return hf__link_complete(link, request, HF__REPLIED);
}

static void wake_all(hf__link *link, hf__parker **parkers, size_t count)
{
    if (count == 0) {
        return;
    }
    pthread_mutex_unlock(&link->mutex);
    for (size_t i = 0; i < count; i++) {
        hf__unpark(parkers[i]);
    }
    pthread_mutex_lock(&link->mutex);
}

static void take_value(hf__link *link, const hf__value *value,
                       hf__parker **parkers, size_t *count)
{
    if (link->state == HF__LINK_GREETING) {
        hf__link_greeted(link, value);
    } else if (link->hooks.on_message && is_message(value)) {
        hear_message(link, value);
    } else {
        parkers[*count] = take_reply(link, value);
        *count += parkers[*count] ? 1 : 0;
    }
    if (*count == WAKE_MAX) {
        wake_all(link, parkers, *count);
        *count = 0;
    }
}

static void take_bytes(hf__link *link, const char *bytes, size_t length)
{
    hf__parker *parkers[WAKE_MAX];
    size_t count = 0;
    const hf__value *value = NULL;
    link->heard_at = hf__now();
    hf_error err = HF_ERROR_INIT;
    hf_status status = hf__resp_feed(link->resp, bytes, length, &err);
    while (status == HF_OK && (link->state == HF__LINK_GREETING ||
                               link->state == HF__LINK_READY)) {
        status = hf__resp_next(link->resp, &value, &err);
        if (status != HF_OK || !value) {
            break;
        }
        take_value(link, value, parkers, &count);
    }
    if (status != HF_OK) {
        hf__error_set_retriable(&link->failure, status, "%s: %s",
                                link->endpoint->display, hf_error_text(&err));
        hf__link_break(link);
    }
    wake_all(link, parkers, count);
}

static void lost_connection(hf__link *link, int error)
{
    hf__error_set_retriable(&link->failure, HF_EUNREACHABLE,
                            "%s closed the connection%s%s",
                            link->endpoint->display, error ? ": " : "",
                            error ? strerror(error) : "");
    hf__link_break(link);
}

/* Bytes that nobody asked for would be taken for the reply to what is sent
 * next; and a connection that the server has closed is noticed before an
 * acquire is lost on it. With something in flight, or a reader, both are the
 * reader's to find. It costs a system call, hence not in a row of commands that
 * leave no time between them. */
void hf__link_check_idle(hf__link *link)
{
    const hf__request *first =
        HF__CONTAINER(link->pending.next, hf__request, node);
    if (link->reading || link->writing || hf__list_empty(&link->pending) ||
        first->offset < link->handed ||
        first->sent_at - link->heard_at < IDLE_AFTER) {
        return;
    }
    ssize_t n = hf__peek(link->fd);
    if (n > 0 && !link->hooks.on_message) { /* a subscriber's is spoken to */
        unasked(link);
    } else if (n == HF__IO_BROKEN) {
        lost_connection(link, errno);
    }
    hf__link_settle(link);
}

/* One system call reads a reply, if the reader may sleep in it without an end:
 * should the server fall silent, the keeper breaks the link, which wakes the
 * reader. It is woken for that once in a while, not for every command. A
 * time-out of the socket's own would cost a timer for every command, and a
 * shorter deadline costs a poll. */
static bool may_sleep_on(hf__link *link, int64_t until)
{
    int64_t silent = hf__link_silence_due(link);
    if (silent == HF__NEVER || until < silent - link->command_timeout / 8) {
        return false;
    }
    if (link->alarm == HF__NEVER) {
        link->alarm = silent;
        link->hooks.wake_keeper(link->hooks.ctx);
    }
    return true;
}

static void step_reading(hf__link *link, int64_t until)
{
    char bytes[READ_SIZE];
    int fd = link->fd;
    bool greeting = link->state == HF__LINK_GREETING;
    if (greeting && until > link->connect_deadline) {
        until = link->connect_deadline;
    }
    bool wait = may_sleep_on(link, until);
    pthread_mutex_unlock(&link->mutex);
    if (!wait && until > 0) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        hf__poll(&poll_fd, 1, until);
    }
    ssize_t n = hf__recv(fd, bytes, sizeof(bytes), wait);
    int error = errno;
    pthread_mutex_lock(&link->mutex);
    if (link->state == HF__LINK_BROKEN) {
        return;
    }
    if (n > 0) {
        take_bytes(link, bytes, (size_t)n);
    } else if (n == HF__IO_BROKEN) {
        lost_connection(link, error);
    } else if (greeting && hf__now() >= link->connect_deadline) {
        hf__error_set_retriable(&link->failure, HF_EUNREACHABLE,
                                "%s accepts connections but does not answer",
                                link->endpoint->display);
        hf__link_break(link);
    } else {
        hf__link_check_silence(link, hf__now());
    }
}

void hf__link_step(hf__link *link, int64_t until)
{
    switch (link->state) {
    case HF__LINK_DOWN:
        if (link->closing) {
            break;
        }
        hf__link_connect(link);
        break;
    case HF__LINK_RESOLVING:
        hf__link_step_resolving(link, until);
        break;
    case HF__LINK_CONNECTING:
        hf__link_step_connecting(link, until);
        break;
    case HF__LINK_GREETING:
    case HF__LINK_READY:
        step_reading(link, until);
        break;
    default:
        break;
    }
}
