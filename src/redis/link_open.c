/* From an address to a connection on which the server knows us: looks up the
 * host, connects to one address after the other, and says the greeting. */
#include "redis/link_open.h"

#include "redis/info.h"
#include "redis/link_io.h"

#include <poll.h>
#include <string.h>

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
    /* While a script keeps it busy, it neither ends the connection before nor
     * tells by what number this one could be ended. */
    if (hf__slice_begins(text, "BUSY")) {
        return hf__error_set_retriable(&link->failure, HF_ESERVER, "%.*s",
                                       (int)text.length, text.data);
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
    hf__link_refuse_outdated(link);
    hf__link_flush_locked(link);
    link->hooks.wake_keeper(link->hooks.ctx);
}

void hf__link_greeted(hf__link *link, const hf__value *value)
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

void hf__link_connect(hf__link *link)
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

void hf__link_step_resolving(hf__link *link, int64_t until)
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

void hf__link_step_connecting(hf__link *link, int64_t until)
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
