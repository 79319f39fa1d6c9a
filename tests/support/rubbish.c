/* See rubbish.h. One thread polls the listeners and all connections. */
#include "support/rubbish.h"

#include "base/buf.h"
#include "support/net.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_PEERS 64
#define MOST_ARGUMENTS 1024
#define INPUT_LIMIT ((size_t)64 * 1024 * 1024)

struct rubbish_peer {
    int fd;
    bool over;
    size_t connection;
    size_t requests;
    hf__buf input;
};

struct rubbish {
    pthread_t thread;
    rubbish_fn fn;
    void *arg;
    int stop_fd;
    int listeners[2];
    int port;
    char *folder;
    char *socket;
    char *url;
    char *tcp_url;
    size_t connections;
    rubbish_peer peers[MOST_PEERS];
    size_t peer_count;
    const char *const *script;
};

/* ---- answering */

void rubbish_send(rubbish_peer *peer, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0 && !peer->over) {
        ssize_t n = send(peer->fd, at, length, MSG_NOSIGNAL);
        if (n > 0) {
            at += n;
            length -= (size_t)n;
        } else if (errno != EINTR) {
            peer->over = true;
        }
    }
}

void rubbish_text(rubbish_peer *peer, const char *text)
{
    rubbish_send(peer, text, strlen(text));
}

void rubbish_hang_up(rubbish_peer *peer)
{
    peer->over = true;
}

void rubbish_cut(rubbish_peer *peer)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &at_once,
                     sizeof(at_once));
    peer->over = true;
}

bool rubbish_is(const rubbish_request *request, const char *word)
{
    return request->count > 0 && strcasecmp(request->arguments[0], word) == 0;
}

/* ---- reading requests: arrays of bulk strings, as all clients send */

/* Reads "<mark><number>\r\n" at *at and moves behind it. */
static bool read_head(const hf__buf *input, size_t *at, char mark, size_t *out)
{
    const char *from = input->data + *at;
    size_t left = input->length - *at;
    const char *end = left > 0 ? memmem(from, left, "\r\n", 2) : NULL;
    if (!end) {
        return false;
    }
    if (*from != mark) {
        test_die("the fake server got no request but \"%.*s\"",
                 (int)(end - from), from);
    }
    *out = strtoul(from + 1, NULL, 10);
    *at += (size_t)(end - from) + 2;
    return true;
}

/* Finds the arguments in the input and ends each with a NUL; the bytes used, 0
 * if more must come. */
static size_t read_request(hf__buf *input, char **arguments, size_t *lengths,
                           size_t *count)
{
    size_t at = 0;
    if (!read_head(input, &at, '*', count)) {
        return 0;
    }
    if (*count > MOST_ARGUMENTS) {
        test_die("too many arguments for the fake server");
    }
    for (size_t i = 0; i < *count; i++) {
        if (!read_head(input, &at, '$', &lengths[i]) ||
            input->length - at < lengths[i] + 2) {
            return 0;
        }
        arguments[i] = input->data + at;
        at += lengths[i] + 2;
    }
    /* Not before it is whole: else the next look would miss the '\r'. */
    for (size_t i = 0; i < *count; i++) {
        arguments[i][lengths[i]] = '\0';
    }
    return at;
}

static void answer_all(rubbish *fake, rubbish_peer *peer)
{
    char *arguments[MOST_ARGUMENTS];
    size_t lengths[MOST_ARGUMENTS];
    while (!peer->over) {
        size_t count = 0;
        size_t used = read_request(&peer->input, arguments, lengths, &count);
        if (used == 0) {
            break;
        }
        rubbish_request request = {peer->connection, ++peer->requests, count,
                                   (const char *const *)arguments, lengths};
        fake->fn(fake->arg, peer, &request);
        hf__buf_consume(&peer->input, used);
    }
}

static void read_more(rubbish *fake, rubbish_peer *peer)
{
    char bytes[16384];
    ssize_t n = recv(peer->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n <= 0) {
        peer->over = n == 0 || (errno != EAGAIN && errno != EINTR);
        return;
    }
    hf__buf_append(&peer->input, bytes, (size_t)n);
    if (peer->input.failed) {
        test_die("too long a request for the fake server");
    }
    answer_all(fake, peer);
}

/* ---- the thread */

static void accept_one(rubbish *fake, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    if (fake->peer_count == MOST_PEERS) {
        test_die("too many connections for the fake server");
    }
    /* A client that reads no more must not hold this thread for ever. */
    struct timeval limit = {.tv_sec = TEST_LIMIT_MS / 1000};
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    rubbish_peer *peer = &fake->peers[fake->peer_count++];
    *peer = (rubbish_peer){.fd = fd, .connection = ++fake->connections};
    hf__buf_init(&peer->input, INPUT_LIMIT);
    rubbish_request greeting = {.connection = peer->connection};
    fake->fn(fake->arg, peer, &greeting);
}

static void end_peer(rubbish *fake, size_t index)
{
    rubbish_peer *peer = &fake->peers[index];
    hf__buf_free(&peer->input);
    (void)close(peer->fd);
    *peer = fake->peers[--fake->peer_count];
}

static void serve(rubbish *fake, const struct pollfd *fds)
{
    for (size_t i = fake->peer_count; i-- > 0;) {
        if (fds[3 + i].revents) {
            read_more(fake, &fake->peers[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (fds[1 + i].revents) {
            accept_one(fake, fake->listeners[i]);
        }
    }
    for (size_t i = fake->peer_count; i-- > 0;) {
        if (fake->peers[i].over) {
            end_peer(fake, i);
        }
    }
}

static void *run(void *arg)
{
    rubbish *fake = arg;
    struct pollfd fds[3 + MOST_PEERS];
    fds[0] = (struct pollfd){.fd = fake->stop_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = fake->listeners[0], .events = POLLIN};
    fds[2] = (struct pollfd){.fd = fake->listeners[1], .events = POLLIN};
    for (;;) {
        for (size_t i = 0; i < fake->peer_count; i++) {
            fds[3 + i] =
                (struct pollfd){.fd = fake->peers[i].fd, .events = POLLIN};
        }
        if (poll(fds, (nfds_t)(3 + fake->peer_count), -1) < 0) {
            continue;
        }
        if (fds[0].revents) {
            break;
        }
        serve(fake, fds);
    }
    while (fake->peer_count > 0) {
        end_peer(fake, fake->peer_count - 1);
    }
    return NULL;
}

/* ---- the test's side */

static rubbish *start(rubbish_fn fn, void *arg, const char *const *script)
{
    rubbish *fake = calloc(1, sizeof(*fake));
    if (!fake) {
        test_die("out of memory");
    }
    fake->fn = fn;
    fake->arg = script ? fake : arg;
    fake->script = script;
    fake->stop_fd = eventfd(0, EFD_CLOEXEC);
    fake->folder = test_folder_new();
    fake->socket = test_text("%s/fake.sock", fake->folder);
    fake->url = test_text("redis+unix://%s", fake->socket);
    fake->listeners[0] = test_listen_unix(fake->socket);
    fake->listeners[1] = test_listen_tcp(&fake->port);
    fake->tcp_url = test_text("redis://127.0.0.1:%d", fake->port);
    if (pthread_create(&fake->thread, NULL, run, fake) != 0) {
        test_die("no thread for the fake server");
    }
    return fake;
}

rubbish *rubbish_start(rubbish_fn fn, void *arg)
{
    return start(fn, arg, NULL);
}

void rubbish_stop(rubbish *fake)
{
    uint64_t one = 1;
    if (!fake) {
        return;
    }
    (void)!write(fake->stop_fd, &one, sizeof(one));
    (void)pthread_join(fake->thread, NULL);
    (void)close(fake->stop_fd);
    (void)close(fake->listeners[0]);
    (void)close(fake->listeners[1]);
    test_folder_remove(fake->folder);
    free(fake->socket);
    free(fake->url);
    free(fake->tcp_url);
    free(fake);
}

const char *rubbish_url(const rubbish *fake)
{
    return fake->url;
}

const char *rubbish_tcp_url(const rubbish *fake)
{
    return fake->tcp_url;
}

static void follow_script(void *arg, rubbish_peer *peer,
                          const rubbish_request *request)
{
    rubbish *fake = arg;
    if (request->count == 0) {
        return;
    }
    if (!*fake->script) {
        rubbish_hang_up(peer);
        return;
    }
    rubbish_text(peer, *fake->script++);
}

rubbish *rubbish_start_script(const char *const answers[])
{
    return start(follow_script, NULL, answers);
}
