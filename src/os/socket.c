/* Sockets: resolving, connecting, sending and receiving. */
#include "os/os.h"

#include "base/heap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A peer that vanished from an idle connection is noticed after 30 s. */
#define KEEPALIVE_IDLE_S 15
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_COUNT 3

#define TEXT_SIZE 160

typedef struct address {
    struct sockaddr_storage sockaddr;
    socklen_t length;
} address;

struct hf__address_list {
    size_t count;
    address addresses[];
};

static hf__address_list *new_list(size_t count)
{
    hf__address_list *list =
        calloc(1, sizeof(hf__address_list) + count * sizeof(address));
    if (list) {
        list->count = count;
    }
    return list;
}

static hf_status resolve_unix(const char *path, hf__address_list **out,
                              hf_error *err)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof(to.sun_path)) {
        return hf__error_set(err, HF_ECONFIG,
                             "the path of a unix socket must have 1 to %zu "
                             "bytes, this one has %zu: %.200s",
                             sizeof(to.sun_path) - 1, length, path);
    }
    hf__address_list *list = new_list(1);
    if (!list) {
        return hf__error_nomem(err);
    }
    memcpy(to.sun_path, path, length + 1);
    memcpy(&list->addresses[0].sockaddr, &to, sizeof(to));
    list->addresses[0].length = sizeof(to);
    *out = list;
    return HF_OK;
}

static hf_status resolve_error(const char *host, int code, hf_error *err)
{
    if (code == EAI_MEMORY) {
        return hf__error_nomem(err);
    }
    const char *why =
        code == EAI_SYSTEM ? hf__errno_text(errno) : gai_strerror(code);
    return hf__error_set_retriable(err, HF_EUNREACHABLE,
                                   "cannot resolve host %.200s: %s", host, why);
}

static hf_status resolve_tcp(const char *host, int port, int flags,
                             hf__address_list **out, hf_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | flags};
    struct addrinfo *found = NULL;
    char service[16];
    (void)snprintf(service, sizeof(service), "%d", port);
    int code = getaddrinfo(host, service, &hints, &found);
    if (code == EAI_NONAME && flags & AI_NUMERICHOST) {
        *out = NULL;
        return HF_OK;
    }
    if (code != 0) {
        return resolve_error(host, code, err);
    }
    size_t count = 0;
    for (struct addrinfo *at = found; at; at = at->ai_next) {
        count++;
    }
    hf__address_list *list = new_list(count);
    if (list) {
        address *to = list->addresses;
        for (struct addrinfo *at = found; at; at = at->ai_next, to++) {
            memcpy(&to->sockaddr, at->ai_addr, at->ai_addrlen);
            to->length = at->ai_addrlen;
        }
        *out = list;
    }
    freeaddrinfo(found);
    return list ? HF_OK : hf__error_nomem(err);
}

hf_status hf__resolve(const char *host, int port, const char *unix_path,
                      hf__address_list **out, hf_error *err)
{
    if (host) {
        return resolve_tcp(host, port, 0, out, err);
    }
    return resolve_unix(unix_path, out, err);
}

hf_status hf__resolve_at_once(const char *host, int port, const char *unix_path,
                              hf__address_list **out, hf_error *err)
{
    if (host) {
        return resolve_tcp(host, port, AI_NUMERICHOST, out, err);
    }
    return resolve_unix(unix_path, out, err);
}

void hf__address_list_free(hf__address_list *list)
{
    free(list);
}

size_t hf__address_count(const hf__address_list *list)
{
    return list->count;
}

static const struct sockaddr *as_sockaddr(const address *of)
{
    return (const struct sockaddr *)(const void *)&of->sockaddr;
}

const char *hf__address_text(const hf__address_list *list, size_t index,
                             char *out, size_t size)
{
    const address *of = &list->addresses[index];
    if (of->sockaddr.ss_family == AF_UNIX) {
        const struct sockaddr_un *to = (const void *)&of->sockaddr;
        (void)snprintf(out, size, "%s", to->sun_path);
        return out;
    }
    char host[128];
    char service[16];
    if (getnameinfo(as_sockaddr(of), of->length, host, sizeof(host), service,
                    sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        (void)snprintf(out, size, "?");
        return out;
    }
    bool brackets = of->sockaddr.ss_family == AF_INET6;
    (void)snprintf(out, size, brackets ? "[%s]:%s" : "%s:%s", host, service);
    return out;
}

static void set_option(int fd, int level, int name, int value)
{
    /* A refused option costs promptness, never correctness. */
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

static void set_tcp_options(int fd, int64_t user_timeout_ms)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
    if (user_timeout_ms > 0) {
        int64_t bounded =
            user_timeout_ms < INT32_MAX ? user_timeout_ms : INT32_MAX;
        set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)bounded);
    }
}

static hf_status connect_error(const hf__address_list *list, size_t index,
                               int error, hf_error *err)
{
    char text[TEXT_SIZE];
    (void)hf__address_text(list, index, text, sizeof(text));
    (void)hf__error_set_retriable(err, HF_EUNREACHABLE,
                                  "cannot connect to %s: %s", text,
                                  hf__errno_text(error));
    errno = error;
    return HF_EUNREACHABLE;
}

hf_status hf__connect_start(const hf__address_list *list, size_t index,
                            int64_t user_timeout_ms, int *fd, bool *in_progress,
                            hf_error *err)
{
    const address *to = &list->addresses[index];
    int family = to->sockaddr.ss_family;
    int s = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s < 0) {
        int error = errno;
        (void)hf__error_set_retriable(
            err, HF_ESYSTEM, "cannot open a socket: %s", hf__errno_text(error));
        errno = error;
        return HF_ESYSTEM;
    }
    if (family != AF_UNIX) {
        set_tcp_options(s, user_timeout_ms);
    }
    bool waiting = false;
    if (connect(s, as_sockaddr(to), to->length) != 0) {
        /* An interrupted connect goes on in the background as well. */
        waiting = errno == EINPROGRESS || errno == EINTR;
        if (!waiting) {
            int error = errno;
            hf__close(s);
            return connect_error(list, index, error, err);
        }
    }
    *fd = s;
    *in_progress = waiting;
    return HF_OK;
}

/* TCP to a free port of this host may connect to itself, when the port the
 * kernel picks for us is the very port that we ask for. */
static bool is_own_end(int fd)
{
    struct sockaddr_storage ends[2];
    socklen_t lengths[2] = {sizeof(ends[0]), sizeof(ends[1])};
    memset(ends, 0, sizeof(ends));
    if (getsockname(fd, (struct sockaddr *)&ends[0], &lengths[0]) != 0 ||
        getpeername(fd, (struct sockaddr *)&ends[1], &lengths[1]) != 0) {
        return false;
    }
    return ends[0].ss_family != AF_UNIX && lengths[0] == lengths[1] &&
           memcmp(&ends[0], &ends[1], lengths[0]) == 0;
}

hf_status hf__connect_result(int fd, const hf__address_list *list, size_t index,
                             hf_error *err)
{
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
        error = errno;
    }
    if (error == 0 && is_own_end(fd)) {
        error = ECONNREFUSED;
    }
    return error == 0 ? HF_OK : connect_error(list, index, error, err);
}

hf_status hf__socket_set_blocking(int fd, int64_t recv_timeout_ms,
                                  hf_error *err)
{
    int flags = fcntl(fd, F_GETFL);
    struct timeval limit = {.tv_sec = (time_t)(recv_timeout_ms / 1000),
                            .tv_usec =
                                (suseconds_t)(recv_timeout_ms % 1000 * 1000)};
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0) {
        return hf__error_set(err, HF_ESYSTEM,
                             "cannot make a socket blocking: %s",
                             hf__errno_text(errno));
    }
    return HF_OK;
}

static ssize_t io_failure(void)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
        return HF__IO_AGAIN;
    }
    return HF__IO_BROKEN;
}

ssize_t hf__send(int fd, const void *bytes, size_t length)
{
    ssize_t n = send(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n >= 0 ? n : io_failure();
}

ssize_t hf__recv(int fd, void *bytes, size_t size, bool wait)
{
    ssize_t n = recv(fd, bytes, size, wait ? 0 : MSG_DONTWAIT);
    if (n > 0) {
        return n;
    }
    if (n == 0) {
        errno = 0;
        return HF__IO_BROKEN;
    }
    return io_failure();
}

ssize_t hf__peek(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0) {
        errno = 0;
        return HF__IO_BROKEN;
    }
    return n > 0 ? n : io_failure();
}

void hf__socket_peer(int fd, uid_t *uid, pid_t *pid)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
        *uid = (uid_t)-1;
        *pid = -1;
        return;
    }
    *uid = peer.uid;
    *pid = peer.pid;
}

void hf__socket_shutdown(int fd)
{
    (void)shutdown(fd, SHUT_RDWR);
}

void hf__close(int fd)
{
    /* Not repeated after EINTR: Linux has closed it even so. */
    if (fd >= 0) {
        int saved = errno;
        (void)close(fd);
        errno = saved;
    }
}

int hf__poll(struct pollfd *fds, size_t count, int64_t deadline)
{
    struct timespec limit = {0};
    if (deadline != HF__NEVER) {
        int64_t now = hf__now();
        int64_t left = deadline > now ? deadline - now : 0;
        limit.tv_sec = (time_t)(left / HF__SECOND);
        limit.tv_nsec = (long)(left % HF__SECOND);
    }
    int ready = ppoll(fds, count, deadline == HF__NEVER ? NULL : &limit, NULL);
    if (ready >= 0) {
        return ready;
    }
    for (size_t i = 0; i < count; i++) {
        fds[i].revents = 0;
    }
    return 0;
}
