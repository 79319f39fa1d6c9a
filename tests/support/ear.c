/* See ear.h. */
#include "support/ear.h"

#include "support/net.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "mark-of-the-test"

struct ear {
    redisContext *connection;
    char *channel;
    size_t channel_length;
};

static ear *ear_new(srv *server)
{
    struct timeval limit = {.tv_sec = TEST_LIMIT_MS / 1000};
    ear *e = calloc(1, sizeof(*e));
    if (!e) {
        test_die("out of memory");
    }
    e->connection = redisConnectUnixWithTimeout(srv_socket(server), limit);
    if (!e->connection || e->connection->err) {
        test_die("cannot listen at the server");
    }
    (void)redisSetTimeout(e->connection, limit);
    return e;
}

/* The next reply or message; a program that hears none in time ends. */
static redisReply *next(const ear *e)
{
    void *reply = NULL;
    if (redisGetReply(e->connection, &reply) != REDIS_OK) {
        test_die("nothing heard: %s", e->connection->errstr);
    }
    return reply;
}

/* ---- messages */

ear *ear_subscribe(srv *server, const void *channel, size_t length)
{
    ear *e = ear_new(server);
    e->channel = malloc(length);
    if (!e->channel) {
        test_die("out of memory");
    }
    memcpy(e->channel, channel, length);
    e->channel_length = length;
    (void)redisAppendCommand(e->connection, "SUBSCRIBE %b", channel, length);
    freeReplyObject(next(e));
    return e;
}

ear *ear_of_lock(srv *server, const char *name)
{
    char *channel = test_text("redisson_lock__channel:{%s}", name);
    ear *e = ear_subscribe(server, channel, strlen(channel));
    free(channel);
    return e;
}

bool ear_hears(ear *e, const char *text)
{
    redisReply *message = next(e);
    const char *payload = message->elements == 3 && message->element[2]->str
                              ? message->element[2]->str
                              : "(no message)";
    bool same = strcmp(payload, text) == 0;
    if (!same) {
        (void)fprintf(stderr, "heard \"%s\", expected \"%s\"\n", payload, text);
    }
    freeReplyObject(message);
    return same;
}

bool ear_heard_all(ear *e, srv *server)
{
    free(srv_cmd(server, "PUBLISH %b " MARK, e->channel, e->channel_length));
    return ear_hears(e, MARK);
}

/* ---- commands */

ear *ear_monitor(srv *server)
{
    ear *e = ear_new(server);
    (void)redisAppendCommand(e->connection, "MONITOR");
    freeReplyObject(next(e));
    return e;
}

/* What clients have said since the last call: counted, and the lines, to be
 * freed. */
static char *hear(ear *e, srv *server, const char *text, ear_count *count)
{
    char *lines = test_text("%s", "");
    bool over = false;
    *count = (ear_count){0};
    free(srv_cmd(server, "ECHO " MARK));
    while (!over) {
        redisReply *line = next(e);
        over = strstr(line->str, MARK) != NULL;
        if (!over && !strstr(line->str, " lua] ")) {
            char *longer = test_text("%s%.200s\n", lines, line->str);
            free(lines);
            lines = longer;
            count->commands++;
            count->matching += strstr(line->str, text) != NULL;
        }
        freeReplyObject(line);
    }
    return lines;
}

ear_count ear_commands(ear *e, srv *server, const char *text)
{
    ear_count count;
    free(hear(e, server, text, &count));
    return count;
}

bool ear_heard_only(ear *e, srv *server, const char *text, size_t commands)
{
    ear_count count;
    char *lines = hear(e, server, text, &count);
    bool so = count.commands == commands && count.matching == commands;
    if (!so) {
        (void)fprintf(stderr, "%zu commands, %zu with %s, expected %zu:\n%s",
                      count.commands, count.matching, text, commands, lines);
    }
    free(lines);
    return so;
}

void ear_free(ear *e)
{
    redisFree(e->connection);
    free(e->channel);
    free(e);
}
