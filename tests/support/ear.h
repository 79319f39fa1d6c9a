/* What can be heard on a server: a channel's messages, and with MONITOR every
 * command. Plain hiredis, no holdfast. */
#ifndef TEST_SUPPORT_EAR_H
#define TEST_SUPPORT_EAR_H

#include "support/server.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ear ear;

/* Subscribed on return. */
ear *ear_subscribe(srv *server, const void *channel, size_t length);
/* To the channel of a lock whose name has no brace. */
ear *ear_of_lock(srv *server, const char *name);
/* Whether the next message is that text; waits for it. */
bool ear_hears(ear *e, const char *text);
/* Whether nothing was published that ear_hears has not taken. */
bool ear_heard_all(ear *e, srv *server);

/* MONITOR runs on return. */
ear *ear_monitor(srv *server);
/* How many commands clients have sent since the last call, what scripts do not
 * counted; and how many of those contain a text (quoted as MONITOR does). */
typedef struct ear_count {
    size_t commands;
    size_t matching;
} ear_count;
ear_count ear_commands(ear *e, srv *server, const char *text);
/* The same; if the commands are not so many, and all of them match, prints
 * them. */
bool ear_heard_only(ear *e, srv *server, const char *text, size_t commands);

void ear_free(ear *e);

#endif
