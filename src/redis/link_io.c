#include "redis/link_io.h"

#include "redis/info.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

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

/* -------------------------------------------------------------- greeting */

/* What is said first on a connection: all but the last at once. */
typedef enum greeting_step {
    SAY_AUTH,
    SAY_SELECT,
    SAY_INFO,
    SAY_ID,
    SAY_KILL
} greeting_step;

#define STEPS_MAX 5

static int greeting_steps(const hf__link *link, greeting_step steps[STEPS_MAX])
{
    int n = 0;
    if (link->endpoint->password) {
        steps[n++] = SAY_AUTH;
    }
    if (link->endpoint->database != 0) {
        steps[n++] = SAY_SELECT;
    }
    steps[n++] = SAY_INFO;
    steps[n++] = SAY_ID;
    steps[n] = SAY_KILL;
    return n;
}

static void encode_greeting(const hf__link *link, greeting_step step,
                            hf__buf *out)
{
    hf__call call;
    hf__call_begin(&call, NULL);
    switch (step) {
    case SAY_AUTH:
        hf__call_add(&call, HF__LITERAL("AUTH"));
        if (link->endpoint->username) {
            hf__call_add(&call, hf__slice_of(link->endpoint->username));
        }
        hf__call_add(&call, hf__slice_of(link->endpoint->password));
        break;
    case SAY_SELECT:
        hf__call_add(&call, HF__LITERAL("SELECT"));
        hf__call_add_number(&call, 0, link->endpoint->database);
        break;
    case SAY_INFO:
        hf__call_add(&call, HF__LITERAL("INFO"));
        hf__call_add(&call, HF__LITERAL("server"));
        break;
    case SAY_ID:
        hf__call_add(&call, HF__LITERAL("CLIENT"));
        hf__call_add(&call, HF__LITERAL("ID"));
        break;
    case SAY_KILL:
        hf__call_add(&call, HF__LITERAL("CLIENT"));
        hf__call_add(&call, HF__LITERAL("KILL"));
        hf__call_add(&call, HF__LITERAL("ID"));
        hf__call_add_number(&call, 0, link->client_before);
        break;
    }
    hf__resp_encode(out, &call, false);
}

/* A server that has closed already, such as one with too many clients, has
 * said why: that is read, whatever became of what was sent. A new connection's
 * buffer takes so few bytes at once. */
static void say_steps(hf__link *link, const greeting_step *steps, int n)
{
    hf__buf out;
    hf__buf_init(&out, HF__RESP_LINE_MAX);
    for (int i = 0; i < n; i++) {
        encode_greeting(link, steps[i], &out);
    }
    if (out.failed) {
        hf__error_nomem(&link->failure);
        hf__link_break(link);
    } else {
        (void)hf__send(link->fd, out.data, out.length);
    }
    if (out.data) {
        explicit_bzero(out.data, out.length);
    }
    hf__buf_free(&out);
}

static void send_greeting(hf__link *link)
{
    greeting_step steps[STEPS_MAX];
    int n = greeting_steps(link, steps);
    link->greeted = 0;
    link->client_id = 0;
    link->same_life = false;
    link->state = HF__LINK_GREETING;
    say_steps(link, steps, n);
}

/* The server may not have read all of the connection before: bytes that come
 * late, over whatever carried them, would undo what is said from now on. So
 * nothing is said until it has ended that connection. It is known by a number
 * that a server gives but once in its life. */
static bool ends_the_one_before(const hf__link *link)
{
    return link->same_life && link->client_before != 0;
}

static hf_status greeting_refused(hf__link *link, hf__slice text)
{
    const char *server = link->endpoint->display;
    if (hf__slice_begins(text, "NOAUTH")) {
        return hf__error_set(&link->failure, HF_EAUTH,
                             "%s wants a password, and was given none", server);
    }
    if (hf__slice_begins(text, "WRONGPASS")) {
        return hf__error_set(&link->failure, HF_EAUTH,
                             "%s does not accept this user and password",
                             server);
    }
    /* Told before the first reply, whatever was asked. */
    if (hf__slice_begins(text, "ERR max number of clients")) {
        return hf__error_set_retriable(&link->failure, HF_EUNREACHABLE,
                                       "%s has as many clients as it allows",
                                       server);
    }
    /* While a script keeps it busy, the connection before cannot be ended. */
    if (link->client_before != 0 && hf__slice_begins(text, "BUSY")) {
        return hf__error_set_retriable(&link->failure, HF_EUNREACHABLE,
                                       "%s is busy: %.80s", server, text.data);
    }
    return HF_OK;
}

/* The run id names a server's life: another one means a restart, perhaps with
 * an empty memory. */
static void learn_run_id(hf__link *link, hf__slice info)
{
    char run_id[sizeof(link->run_id)];
    if (!hf__info_read(info, "run_id", run_id, sizeof(run_id))) {
        return;
    }
    link->same_life = strcmp(run_id, link->run_id) == 0;
    if (link->same_life) {
        return;
    }
    /* Not told on the connection before: it may have been another's. */
    if (link->run_id[0] != '\0' || link->connects > 0) {
        link->restarts++;
    }
    memcpy(link->run_id, run_id, strlen(run_id) + 1);
}

static void refuse_outdated(hf__link *link)
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

static void become_ready(hf__link *link)
{
    hf_error err = HF_ERROR_INIT;
    if (hf__socket_set_blocking(link->fd, 0, &err) != HF_OK) {
        link->failure = err;
        hf__link_break(link);
        return;
    }
    link->state = HF__LINK_READY;
    link->client_before = 0;
    link->connects++;
    refuse_outdated(link);
    hf__link_flush_locked(link);
    link->hooks.wake_keeper(link->hooks.ctx);
}

static void take_greeting(hf__link *link, const hf__value *value)
{
    greeting_step steps[STEPS_MAX];
    int n = greeting_steps(link, steps);
    greeting_step step = steps[link->greeted];
    link->greeted++;
    if (value->type == HF__VALUE_ERROR) {
        hf_status status = greeting_refused(link, value->text);
        if (status == HF_OK && step == SAY_AUTH) {
            status = hf__error_set(&link->failure, HF_EAUTH,
                                   "%s refuses to authenticate: %.80s",
                                   link->endpoint->display, value->text.data);
        } else if (status == HF_OK && step == SAY_SELECT) {
            status = hf__error_set(&link->failure, HF_ECONFIG,
                                   "%s has no database %ld: %.80s",
                                   link->endpoint->display,
                                   link->endpoint->database, value->text.data);
        }
        if (status != HF_OK) {
            hf__link_break(link);
            return;
        }
    } else if (step == SAY_INFO && value->text.length > 0) {
        learn_run_id(link, value->text);
    } else if (step == SAY_ID && value->type == HF__VALUE_INTEGER) {
        link->client_id = value->integer;
    }
    if (link->greeted == n && ends_the_one_before(link)) {
        say_steps(link, &steps[n], 1);
    } else if (link->greeted >= n) {
        become_ready(link);
    }
}

/* -------------------------------------------------------------- connecting */

static void take_addresses(hf__link *link, hf__address_list *list)
{
    hf__address_list_free(link->addresses);
    link->addresses = list;
}

hf_status hf__link_resolve(hf__link *link, hf_error *err)
{
    hf__address_list *list = NULL;
    hf_status status =
        hf__resolve_at_once(link->endpoint->host, link->endpoint->port,
                            link->endpoint->path, &list, err);
    if (list) {
        take_addresses(link, list);
    }
    return status;
}

/* Tries addresses, from the current one on, until one is being connected to.
 * Without an answer before `connect_deadline` it is the next one's turn. */
static void connect_next(hf__link *link)
{
    for (; link->address < hf__address_count(link->addresses);
         link->address++) {
        bool in_progress = false;
        int fd = -1;
        if (hf__connect_start(link->addresses, link->address,
                              link->command_timeout / HF__MS, &fd, &in_progress,
                              &link->failure) != HF_OK) {
            continue;
        }
        link->connect_deadline = hf__now() + link->connect_timeout;
        link->fd = fd;
        link->state = HF__LINK_CONNECTING;
        if (!in_progress) {
            send_greeting(link);
        }
        return;
    }
    link->state = HF__LINK_BROKEN;
    hf__link_break(link);
}

static void give_up_address(hf__link *link)
{
    hf__close(link->fd);
    link->fd = -1;
    link->address++;
    connect_next(link);
}

/* The name service is asked for each connection anew, for the host may have
 * moved. What it said last serves if it gives no answer in time. */
static void begin_resolving(hf__link *link)
{
    int fd = -1;
    hf_error err = HF_ERROR_INIT;
    if (hf__lookup_start(link->endpoint->host, link->endpoint->port,
                         &link->lookup, &fd, &err) == HF_OK) {
        link->fd = fd;
        link->state = HF__LINK_RESOLVING;
        link->connect_deadline = hf__now() + link->connect_timeout;
    } else if (link->addresses) {
        connect_next(link);
    } else {
        link->failure = err;
        hf__link_break(link);
    }
}

static void begin_connecting(hf__link *link)
{
    hf_error err = HF_ERROR_INIT;
    hf__address_list *list = NULL;
    hf__resp_free(link->resp);
    link->resp = hf__resp_new();
    link->address = 0;
    if (!link->resp) {
        hf__error_nomem(&link->failure);
        hf__link_break(link);
    } else if (hf__resolve_at_once(link->endpoint->host, link->endpoint->port,
                                   link->endpoint->path, &list,
                                   &err) != HF_OK) {
        link->failure = err;
        hf__link_break(link);
    } else if (list) {
        take_addresses(link, list);
        connect_next(link);
    } else {
        begin_resolving(link);
    }
}

static void end_resolving(hf__link *link, bool answered)
{
    hf_error err = HF_ERROR_INIT;
    hf__address_list *list = NULL;
    if (!answered) {
        hf__error_set_retriable(
            &err, HF_EUNREACHABLE, "no address of host %.200s within %lld ms",
            link->endpoint->host, (long long)(link->connect_timeout / HF__MS));
    } else if (hf__lookup_take(link->lookup, &list, &err) == HF_OK) {
        take_addresses(link, list);
    }
    hf__lookup_drop(link->lookup);
    link->lookup = NULL;
    if (link->addresses) {
        hf__close(link->fd);
        link->fd = -1;
        connect_next(link);
    } else {
        link->failure = err;
        hf__link_break(link);
    }
}

static void step_resolving(hf__link *link, int64_t until)
{
    struct pollfd poll_fd = {.fd = link->fd, .events = POLLIN};
    if (until > link->connect_deadline) {
        until = link->connect_deadline;
    }
    pthread_mutex_unlock(&link->mutex);
    int ready = hf__poll(&poll_fd, 1, until);
    pthread_mutex_lock(&link->mutex);
    if (link->state == HF__LINK_RESOLVING &&
        (ready > 0 || hf__now() >= link->connect_deadline)) {
        end_resolving(link, ready > 0);
    }
}

static void step_connecting(hf__link *link, int64_t until)
{
    struct pollfd poll_fd = {.fd = link->fd, .events = POLLOUT};
    if (until > link->connect_deadline) {
        until = link->connect_deadline;
    }
    pthread_mutex_unlock(&link->mutex);
    int ready = hf__poll(&poll_fd, 1, until);
    pthread_mutex_lock(&link->mutex);
    if (link->state != HF__LINK_CONNECTING) {
        return;
    }
    if (ready <= 0) {
        if (hf__now() >= link->connect_deadline) {
            char where[128];
            hf__error_set_retriable(
                &link->failure, HF_EUNREACHABLE,
                "no connection to %s within %lld ms",
                hf__address_text(link->addresses, link->address, where,
                                 sizeof(where)),
                (long long)(link->connect_timeout / HF__MS));
            give_up_address(link);
        }
        return;
    }
    if (hf__connect_result(link->fd, link->addresses, link->address,
                           &link->failure) != HF_OK) {
        give_up_address(link);
    } else {
        send_greeting(link);
    }
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

/* Returns the parker of a completed request's sleeping waiter. */
static hf__parker *take_reply(hf__link *link, const hf__value *value)
{
    hf__list *first = link->pending.next;
    hf__request *request = HF__CONTAINER(first, hf__request, node);
    if (first == &link->pending || request->offset >= link->handed) {
        hf__error_set_retriable(&link->failure, HF_EPROTOCOL,
                                "%s answered what was not asked",
                                link->endpoint->display);
        hf__link_break(link);
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
        take_greeting(link, value);
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
        begin_connecting(link);
        break;
    case HF__LINK_RESOLVING:
        step_resolving(link, until);
        break;
    case HF__LINK_CONNECTING:
        step_connecting(link, until);
        break;
    case HF__LINK_GREETING:
    case HF__LINK_READY:
        step_reading(link, until);
        break;
    default:
        break;
    }
}
