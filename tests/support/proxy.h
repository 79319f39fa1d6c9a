/* A faulty piece of network in front of a test server: a thread that listens
 * on a unix socket and a TCP port of 127.0.0.1 and forwards to the server's
 * unix socket, with whatever accident a test wants, at the time it wants it. */
#ifndef TEST_SUPPORT_PROXY_H
#define TEST_SUPPORT_PROXY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct proxy proxy;

typedef enum proxy_direction {
    PROXY_TO_SERVER = 0, /* requests */
    PROXY_TO_CLIENT = 1  /* replies and messages */
} proxy_direction;

typedef enum proxy_mode {
    PROXY_PASS,
    PROXY_DROP,      /* read and forget; what is held now is forgotten too */
    PROXY_DROP_NEXT, /* so for the next piece read, then PROXY_PASS */
    PROXY_HOLD,      /* read and keep, until another mode is set */
    PROXY_TRICKLE    /* forward byte by byte, each sent for itself */
} proxy_mode;

/* Bytes of all connections so far: seen = passed + dropped + held now. */
typedef struct proxy_count {
    size_t seen[2];
    size_t passed[2];
    size_t dropped[2];
    size_t connections; /* accepted so far */
    size_t open;        /* now */
} proxy_count;

proxy *proxy_start(const char *server_socket);
void proxy_stop(proxy *net);                 /* NULL is allowed */
const char *proxy_url(const proxy *net);     /* redis+unix:///... */
const char *proxy_tcp_url(const proxy *net); /* redis://127.0.0.1:... */

/* For all connections, present and future. In force on return. */
void proxy_set(proxy *net, proxy_direction direction, proxy_mode mode);
/* Lets so many bytes pass although PROXY_HOLD is set; counts for the bytes
 * held now and those to come, until another mode is set. */
void proxy_leak(proxy *net, proxy_direction direction, size_t bytes);
/* What is read from now on is handed on so many milliseconds later, unless it
 * is dropped; 0 again: at once. */
void proxy_delay(proxy *net, proxy_direction direction, int milliseconds);
/* PROXY_TRICKLE waits so long between two bytes of a connection; 0 again: not
 * at all. */
void proxy_pace(proxy *net, proxy_direction direction, int milliseconds);
/* Bytes out of thin air: on every open connection they follow what has been
 * read so far, as if the other end had sent them. */
void proxy_inject(proxy *net, proxy_direction direction, const void *bytes,
                  size_t length);
/* Cuts all connections: RST on TCP, and what is held is forgotten. */
void proxy_reset(proxy *net);
/* While on, a new connection is cut at once. */
void proxy_refuse(proxy *net, bool refuse);

proxy_count proxy_counts(proxy *net);
/* Wait until so many have been counted in all; false after the test's limit. */
bool proxy_wait_passed(proxy *net, proxy_direction direction, size_t bytes);
bool proxy_wait_seen(proxy *net, proxy_direction direction, size_t bytes);
bool proxy_wait_dropped(proxy *net, proxy_direction direction, size_t bytes);
bool proxy_wait_connections(proxy *net, size_t connections);
/* Until no more than so many connections are open. */
bool proxy_wait_open(proxy *net, size_t open);

#endif
