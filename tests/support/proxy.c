/* See proxy.h. One thread polls everything. `mutex` guards the modes, the
 * wishes and the counts; the connections are the thread's alone. Whoever
 * changes a mode wakes the thread through `wake_fd` and waits until the thread
 * has taken it over, so that no byte slips past an older mode. */
#include "support/proxy.h"

#include "base/buf.h"
#include "support/net.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_CONNECTIONS 256
#define QUEUE_LIMIT ((size_t)64 * 1024 * 1024)
#define PIECE ((size_t)65536)

/* So many bytes of a queue may be handed on from that time on. */
typedef struct piece {
    int64_t due;
    size_t length;
} piece;

/* Index 0 of a pair is the client's end, 1 the server's: direction d reads
 * from ends[d] and writes to ends[!d]. */
typedef struct pair {
    int ends[2];
    hf__buf queue[2];
    hf__buf pieces[2];    /* what the queue consists of, each a struct piece */
    int64_t next_byte[2]; /* of a trickle */
    bool ended[2];        /* nothing more will be read */
    bool shut[2];         /* and all that was read has been handed on */
} pair;

struct proxy {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a count, or a wish fulfilled */
    proxy_mode mode[2];
    int64_t now;    /* of this round */
    size_t leak[2]; /* bytes that may pass while held */
    int delay[2];
    int pace[2];
    const void *injected[2]; /* until the wish is taken */
    size_t injected_length[2];
    proxy_count count;
    bool stop;
    bool reset;
    bool refuse;
    unsigned wished; /* number of the latest change of the above */
    unsigned taken;  /* up to which the thread has seen them */
    int wake_fd;
    int listeners[2];
    int port;
    char *folder;
    char *socket;
    char *server_socket;
    char *url;
    char *tcp_url;
    pair pairs[MOST_CONNECTIONS];
    size_t pair_count;
};

/* ---- the thread; called with the mutex held but for poll */

static void hard_close(int fd)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    (void)close(fd);
}

static void forget_queue(proxy *net, pair *of, int d)
{
    net->count.dropped[d] += of->queue[d].length;
    hf__buf_clear(&of->queue[d]);
    hf__buf_clear(&of->pieces[d]);
}

static void end_pair(proxy *net, size_t index, bool hard)
{
    pair *of = &net->pairs[index];
    for (int d = 0; d < 2; d++) {
        forget_queue(net, of, d);
        hf__buf_free(&of->queue[d]);
        hf__buf_free(&of->pieces[d]);
        if (hard) {
            hard_close(of->ends[d]);
        } else {
            (void)close(of->ends[d]);
        }
    }
    *of = net->pairs[--net->pair_count];
    net->count.open = net->pair_count;
}

static void accept_one(proxy *net, int listener)
{
    int on = 1;
    int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0) {
        return;
    }
    net->count.connections++;
    int server = net->refuse || net->pair_count == MOST_CONNECTIONS
                     ? -1
                     : test_connect_unix(net->server_socket);
    if (server < 0) {
        hard_close(client);
        return;
    }
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    pair *made = &net->pairs[net->pair_count++];
    *made = (pair){.ends = {client, server}};
    for (int d = 0; d < 2; d++) {
        hf__buf_init(&made->queue[d], QUEUE_LIMIT);
        hf__buf_init(&made->pieces[d], QUEUE_LIMIT);
    }
    net->count.open = net->pair_count;
}

static piece *first_piece(const pair *of, int d)
{
    return of->pieces[d].length > 0 ? (piece *)(void *)of->pieces[d].data
                                    : NULL;
}

/* Without delays a queue is one piece, whatever it was read in. */
static void enqueue(proxy *net, pair *of, int d, const void *bytes,
                    size_t length)
{
    const piece fresh = {.due = net->now + net->delay[d], .length = length};
    piece *first = first_piece(of, d);
    hf__buf_append(&of->queue[d], bytes, length);
    if (first && net->delay[d] == 0 && of->pieces[d].length == sizeof(fresh)) {
        first->length += length;
    } else {
        hf__buf_append(&of->pieces[d], &fresh, sizeof(fresh));
    }
    if (of->queue[d].failed || of->pieces[d].failed) {
        test_die("the proxy holds too much");
    }
}

static void dequeue(pair *of, int d, size_t length)
{
    piece *first = first_piece(of, d);
    hf__buf_consume(&of->queue[d], length);
    first->length -= length;
    if (first->length == 0) {
        hf__buf_consume(&of->pieces[d], sizeof(*first));
    }
}

static void read_piece(proxy *net, pair *of, int d)
{
    char bytes[PIECE];
    ssize_t n = recv(of->ends[d], bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n <= 0) {
        of->ended[d] = n == 0 || (errno != EAGAIN && errno != EINTR);
        return;
    }
    net->count.seen[d] += (size_t)n;
    if (net->mode[d] == PROXY_DROP || net->mode[d] == PROXY_DROP_NEXT) {
        net->count.dropped[d] += (size_t)n;
        if (net->mode[d] == PROXY_DROP_NEXT) {
            net->mode[d] = PROXY_PASS;
        }
        return;
    }
    enqueue(net, of, d, bytes, (size_t)n);
}

/* When the first bytes of a queue may be handed on; INT64_MAX: never, as
 * things are. */
static int64_t write_due(const proxy *net, const pair *of, int d)
{
    const piece *first = first_piece(of, d);
    if (!first || (net->mode[d] == PROXY_HOLD && net->leak[d] == 0)) {
        return INT64_MAX;
    }
    return net->mode[d] == PROXY_TRICKLE && of->next_byte[d] > first->due
               ? of->next_byte[d]
               : first->due;
}

static bool may_write(const proxy *net, const pair *of, int d)
{
    return write_due(net, of, d) <= net->now;
}

static void write_piece(proxy *net, pair *of, int d)
{
    size_t length =
        net->mode[d] == PROXY_TRICKLE ? 1 : first_piece(of, d)->length;
    if (net->mode[d] == PROXY_HOLD && length > net->leak[d]) {
        length = net->leak[d];
    }
    ssize_t n = send(of->ends[!d], of->queue[d].data, length,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
        net->count.passed[d] += (size_t)n;
        dequeue(of, d, (size_t)n);
        of->next_byte[d] = net->now + net->pace[d];
        net->leak[d] -= net->mode[d] == PROXY_HOLD ? (size_t)n : 0;
    } else if (errno != EAGAIN && errno != EINTR) {
        forget_queue(net, of, d);
        of->ended[d] = true;
    }
}

/* Hands an end on once everything before it has been handed on. True when the
 * pair is of no more use. */
static bool hand_on_end(pair *of)
{
    for (int d = 0; d < 2; d++) {
        if (of->ended[d] && !of->shut[d] && of->queue[d].length == 0) {
            of->shut[d] = true;
            (void)shutdown(of->ends[!d], SHUT_WR);
        }
    }
    return of->shut[0] && of->shut[1];
}

/* First the wake-up and the listeners, then two for each pair. */
static size_t fill_poll(proxy *net, struct pollfd *fds)
{
    fds[0] = (struct pollfd){.fd = net->wake_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = net->listeners[0], .events = POLLIN};
    fds[2] = (struct pollfd){.fd = net->listeners[1], .events = POLLIN};
    for (size_t i = 0; i < net->pair_count; i++) {
        const pair *of = &net->pairs[i];
        for (int end = 0; end < 2; end++) {
            struct pollfd *at = &fds[3 + 2 * i + (size_t)end];
            bool wants_out = may_write(net, of, !end);
            at->events = (short)((of->ended[end] ? 0 : POLLIN) |
                                 (wants_out ? POLLOUT : 0));
            /* An end that hung up would wake the poll again and again. */
            at->fd = at->events ? of->ends[end] : -1;
            at->revents = 0;
        }
    }
    return 3 + 2 * net->pair_count;
}

/* Until something may be written that may not now; -1 for no limit. */
static int poll_limit(const proxy *net)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < net->pair_count; i++) {
        for (int d = 0; d < 2; d++) {
            int64_t due = write_due(net, &net->pairs[i], d);
            next = due > net->now && due < next ? due : next;
        }
    }
    return next == INT64_MAX ? -1 : (int)(next - net->now);
}

static void serve_pair(proxy *net, pair *of, const struct pollfd *fds)
{
    for (int d = 0; d < 2; d++) {
        if (fds[d].revents & ~POLLOUT) {
            read_piece(net, of, d);
        }
    }
    for (int d = 0; d < 2; d++) {
        if (may_write(net, of, d)) {
            write_piece(net, of, d);
        }
    }
}

static void take_wishes(proxy *net)
{
    if (net->taken == net->wished) {
        return;
    }
    while (net->reset && net->pair_count > 0) {
        end_pair(net, net->pair_count - 1, true);
    }
    net->reset = false;
    for (size_t i = 0; i < net->pair_count; i++) {
        for (int d = 0; d < 2; d++) {
            pair *of = &net->pairs[i];
            if (net->mode[d] == PROXY_DROP) {
                forget_queue(net, of, d);
            } else if (net->injected_length[d] > 0) {
                net->count.seen[d] += net->injected_length[d];
                enqueue(net, of, d, net->injected[d], net->injected_length[d]);
            }
        }
    }
    net->injected_length[0] = net->injected_length[1] = 0;
    net->taken = net->wished;
}

static void serve_all(proxy *net, const struct pollfd *fds, size_t pairs)
{
    /* Backwards, for an ended pair's place is taken by the last. */
    for (size_t i = pairs; i-- > 0;) {
        serve_pair(net, &net->pairs[i], &fds[3 + 2 * i]);
        if (hand_on_end(&net->pairs[i])) {
            end_pair(net, i, false);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (fds[1 + i].revents) {
            accept_one(net, net->listeners[i]);
        }
    }
}

static void *run(void *arg)
{
    proxy *net = arg;
    uint64_t ignored;
    struct pollfd fds[3 + 2 * MOST_CONNECTIONS];
    (void)pthread_mutex_lock(&net->mutex);
    while (!net->stop) {
        size_t pairs = net->pair_count;
        net->now = test_now_ms();
        size_t count = fill_poll(net, fds);
        int limit = poll_limit(net);
        (void)pthread_mutex_unlock(&net->mutex);
        (void)poll(fds, (nfds_t)count, limit);
        (void)pthread_mutex_lock(&net->mutex);
        net->now = test_now_ms();
        if (fds[0].revents) {
            (void)!read(net->wake_fd, &ignored, sizeof(ignored));
        }
        /* What poll found was found under the older modes. */
        if (net->taken == net->wished) {
            serve_all(net, fds, pairs);
        }
        take_wishes(net);
        (void)pthread_cond_broadcast(&net->changed);
    }
    while (net->pair_count > 0) {
        end_pair(net, net->pair_count - 1, false);
    }
    (void)pthread_mutex_unlock(&net->mutex);
    return NULL;
}

/* ---- the test's side */

proxy *proxy_start(const char *server_socket)
{
    proxy *net = calloc(1, sizeof(*net));
    pthread_condattr_t attributes;
    if (!net) {
        test_die("out of memory");
    }
    (void)pthread_mutex_init(&net->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&net->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    net->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    net->server_socket = test_text("%s", server_socket);
    net->folder = test_folder_new();
    net->socket = test_text("%s/proxy.sock", net->folder);
    net->url = test_text("redis+unix://%s", net->socket);
    net->listeners[0] = test_listen_unix(net->socket);
    net->listeners[1] = test_listen_tcp(&net->port);
    net->tcp_url = test_text("redis://127.0.0.1:%d", net->port);
    if (pthread_create(&net->thread, NULL, run, net) != 0) {
        test_die("no thread for the proxy");
    }
    return net;
}

static void wake(proxy *net)
{
    uint64_t one = 1;
    (void)!write(net->wake_fd, &one, sizeof(one));
}

/* Call with the mutex held; returns when the thread acts upon the wish. */
static void wish(proxy *net)
{
    unsigned mine = ++net->wished;
    wake(net);
    while ((int)(net->taken - mine) < 0) {
        (void)pthread_cond_wait(&net->changed, &net->mutex);
    }
}

void proxy_stop(proxy *net)
{
    if (!net) {
        return;
    }
    (void)pthread_mutex_lock(&net->mutex);
    net->stop = true;
    wake(net);
    (void)pthread_mutex_unlock(&net->mutex);
    (void)pthread_join(net->thread, NULL);
    (void)close(net->listeners[0]);
    (void)close(net->listeners[1]);
    (void)close(net->wake_fd);
    test_folder_remove(net->folder);
    free(net->socket);
    free(net->server_socket);
    free(net->url);
    free(net->tcp_url);
    (void)pthread_cond_destroy(&net->changed);
    (void)pthread_mutex_destroy(&net->mutex);
    free(net);
}

const char *proxy_url(const proxy *net)
{
    return net->url;
}

const char *proxy_tcp_url(const proxy *net)
{
    return net->tcp_url;
}

void proxy_set(proxy *net, proxy_direction direction, proxy_mode mode)
{
    (void)pthread_mutex_lock(&net->mutex);
    net->mode[direction] = mode;
    net->leak[direction] = 0;
    wish(net);
    (void)pthread_mutex_unlock(&net->mutex);
}

void proxy_leak(proxy *net, proxy_direction direction, size_t bytes)
{
    (void)pthread_mutex_lock(&net->mutex);
    net->leak[direction] = bytes;
    wish(net);
    (void)pthread_mutex_unlock(&net->mutex);
}

void proxy_delay(proxy *net, proxy_direction direction, int milliseconds)
{
    (void)pthread_mutex_lock(&net->mutex);
    net->delay[direction] = milliseconds;
    wish(net);
    (void)pthread_mutex_unlock(&net->mutex);
}

void proxy_pace(proxy *net, proxy_direction direction, int milliseconds)
{
    (void)pthread_mutex_lock(&net->mutex);
    net->pace[direction] = milliseconds;
    wish(net);
    (void)pthread_mutex_unlock(&net->mutex);
}

void proxy_inject(proxy *net, proxy_direction direction, const void *bytes,
                  size_t length)
{
    (void)pthread_mutex_lock(&net->mutex);
    net->injected[direction] = bytes;
    net->injected_length[direction] = length;
    wish(net);
    (void)pthread_mutex_unlock(&net->mutex);
}

void proxy_reset(proxy *net)
{
    (void)pthread_mutex_lock(&net->mutex);
    net->reset = true;
    wish(net);
    (void)pthread_mutex_unlock(&net->mutex);
}

void proxy_refuse(proxy *net, bool refuse)
{
    (void)pthread_mutex_lock(&net->mutex);
    net->refuse = refuse;
    wish(net);
    (void)pthread_mutex_unlock(&net->mutex);
}

proxy_count proxy_counts(proxy *net)
{
    (void)pthread_mutex_lock(&net->mutex);
    proxy_count count = net->count;
    (void)pthread_mutex_unlock(&net->mutex);
    return count;
}

/* Waits until *at is at least `from` and at most `to`. */
static bool wait_for(proxy *net, const size_t *at, size_t from, size_t to)
{
    struct timespec limit;
    bool there;
    (void)clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += TEST_LIMIT_MS / 1000;
    (void)pthread_mutex_lock(&net->mutex);
    for (;;) {
        there = *at >= from && *at <= to;
        if (there || pthread_cond_timedwait(&net->changed, &net->mutex,
                                            &limit) == ETIMEDOUT) {
            break;
        }
    }
    (void)pthread_mutex_unlock(&net->mutex);
    return there;
}

bool proxy_wait_seen(proxy *net, proxy_direction direction, size_t bytes)
{
    return wait_for(net, &net->count.seen[direction], bytes, SIZE_MAX);
}

bool proxy_wait_passed(proxy *net, proxy_direction direction, size_t bytes)
{
    return wait_for(net, &net->count.passed[direction], bytes, SIZE_MAX);
}

bool proxy_wait_dropped(proxy *net, proxy_direction direction, size_t bytes)
{
    return wait_for(net, &net->count.dropped[direction], bytes, SIZE_MAX);
}

bool proxy_wait_connections(proxy *net, size_t connections)
{
    return wait_for(net, &net->count.connections, connections, SIZE_MAX);
}

bool proxy_wait_open(proxy *net, size_t open)
{
    return wait_for(net, &net->count.open, 0, open);
}
