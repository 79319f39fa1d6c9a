/* A server made of a function: it reads the requests of its clients, and the
 * test says, byte for byte, what comes back. For replies that no real server
 * gives. */
#ifndef TEST_SUPPORT_RUBBISH_H
#define TEST_SUPPORT_RUBBISH_H

#include <stdbool.h>
#include <stddef.h>

typedef struct rubbish rubbish;
typedef struct rubbish_peer rubbish_peer; /* one connection */

/* One request. count is 0 for the greeting, when a client has just connected.
 * The arguments have a NUL behind them. */
typedef struct rubbish_request {
    size_t connection; /* 1 for the first one accepted, and so on */
    size_t number;     /* 1 for the first one of this connection */
    size_t count;
    const char *const *arguments;
    const size_t *lengths;
} rubbish_request;

/* Called on the server's thread, one request at a time. Answers by the calls
 * below, or not at all. */
typedef void (*rubbish_fn)(void *arg, rubbish_peer *peer,
                           const rubbish_request *request);

rubbish *rubbish_start(rubbish_fn fn, void *arg);
/* Returns when the function will not be called any more. NULL is allowed. */
void rubbish_stop(rubbish *fake);
const char *rubbish_url(const rubbish *fake);     /* redis+unix:///... */
const char *rubbish_tcp_url(const rubbish *fake); /* redis://127.0.0.1:... */

/* Inside the function only. */
void rubbish_send(rubbish_peer *peer, const void *bytes, size_t length);
void rubbish_text(rubbish_peer *peer, const char *text);
void rubbish_hang_up(rubbish_peer *peer); /* after what was sent */
void rubbish_cut(rubbish_peer *peer);     /* RST on TCP */

/* Whether the request's first argument is that word, whatever the case. */
bool rubbish_is(const rubbish_request *request, const char *word);

/* A server that answers its n-th request, over all connections, with the n-th
 * text, and hangs up when they are used up. NULL ends the list, an empty text
 * is no answer. */
rubbish *rubbish_start_script(const char *const answers[]);

#endif
