/* Messages, and commands about the connection and the server. */
#include "sim/model_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---------------------------------------------------------------- messages */

bool model_is_subscribed(const model_conn *conn)
{
    return conn->subscribed > 0;
}

static size_t find(const model_conn *conn, hf__slice channel, bool sharded)
{
    for (size_t i = 0; i < conn->subscribed; i++) {
        if (conn->subscriptions[i].sharded == sharded &&
            model_text_is(&conn->subscriptions[i].channel, channel)) {
            return i;
        }
    }
    return SIZE_MAX;
}

static int64_t count_kind(const model_conn *conn, bool sharded)
{
    int64_t count = 0;
    for (size_t i = 0; i < conn->subscribed; i++) {
        count += conn->subscriptions[i].sharded == sharded;
    }
    return count;
}

static void acknowledge(model_conn *conn, const char *what,
                        const hf__slice *channel, bool sharded)
{
    model_reply_array(&conn->out, 3);
    model_reply_text(&conn->out, what);
    if (channel) {
        model_reply_bulk(&conn->out, *channel);
    } else {
        model_reply_nil(&conn->out);
    }
    model_reply_integer(&conn->out, count_kind(conn, sharded));
}

static void subscribe(model_call *call, bool sharded)
{
    model_conn *conn = call->conn;
    for (size_t i = 1; i < call->count; i++) {
        if (find(conn, call->args[i], sharded) == SIZE_MAX) {
            if (conn->subscribed == conn->subscriptions_room) {
                conn->subscriptions_room += 8;
                conn->subscriptions = model_grow(
                    conn->subscriptions,
                    conn->subscriptions_room * sizeof(model_subscription));
            }
            model_subscription *s = &conn->subscriptions[conn->subscribed++];
            *s = (model_subscription){.sharded = sharded};
            model_text_set(&s->channel, call->args[i]);
        }
        acknowledge(conn, sharded ? "ssubscribe" : "subscribe", &call->args[i],
                    sharded);
    }
}

void model_subscribe_to(model_call *call)
{
    subscribe(call, false);
}

void model_ssubscribe_to(model_call *call)
{
    subscribe(call, true);
}

static void remove_at(model_conn *conn, size_t at)
{
    model_subscription *s = &conn->subscriptions[at];
    free(s->channel.data);
    conn->subscribed--;
    memmove(s, s + 1, (conn->subscribed - at) * sizeof(*s));
}

static void unsubscribe(model_call *call, bool sharded)
{
    model_conn *conn = call->conn;
    const char *what = sharded ? "sunsubscribe" : "unsubscribe";
    for (size_t i = 1; i < call->count; i++) {
        size_t at = find(conn, call->args[i], sharded);
        if (at != SIZE_MAX) {
            remove_at(conn, at);
        }
        acknowledge(conn, what, &call->args[i], sharded);
    }
    if (call->count > 1) {
        return;
    }
    if (count_kind(conn, sharded) == 0) {
        acknowledge(conn, what, NULL, sharded);
    }
    for (size_t i = 0; i < conn->subscribed;) {
        if (conn->subscriptions[i].sharded != sharded) {
            i++;
            continue;
        }
        model_text channel = conn->subscriptions[i].channel;
        conn->subscriptions[i].channel = (model_text){.data = NULL};
        remove_at(conn, i);
        hf__slice name = model_slice(&channel);
        acknowledge(conn, what, &name, sharded);
        free(channel.data);
    }
}

void model_unsubscribe_from(model_call *call)
{
    unsubscribe(call, false);
}

void model_sunsubscribe_from(model_call *call)
{
    unsubscribe(call, true);
}

static void publish(model_call *call, bool sharded)
{
    int64_t heard = 0;
    for (model_conn *conn = call->m->conns; conn; conn = conn->next) {
        if (find(conn, call->args[1], sharded) != SIZE_MAX) {
            model_reply_array(&conn->out, 3);
            model_reply_text(&conn->out, sharded ? "smessage" : "message");
            model_reply_bulk(&conn->out, call->args[1]);
            model_reply_bulk(&conn->out, call->args[2]);
            heard++;
        }
    }
    model_reply_integer(call->out, heard);
}

void model_publish(model_call *call)
{
    publish(call, false);
}

void model_spublish(model_call *call)
{
    publish(call, true);
}

/* Whether no connection before this one, and none of its subscriptions before
 * that one, is to the same channel. */
static bool is_first(const model_conn *conn, size_t at)
{
    const model_text *channel = &conn->subscriptions[at].channel;
    for (const model_conn *c = conn->m->conns; c != conn; c = c->next) {
        if (find(c, model_slice(channel), false) != SIZE_MAX) {
            return false;
        }
    }
    return true;
}

/* All, whatever pattern is given. */
void model_pubsub_channels(model_call *call)
{
    size_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            model_reply_array(call->out, count);
        }
        for (model_conn *c = call->m->conns; c; c = c->next) {
            for (size_t i = 0; i < c->subscribed; i++) {
                if (c->subscriptions[i].sharded || !is_first(c, i)) {
                    continue;
                }
                count++;
                if (pass == 1) {
                    model_reply_bulk(call->out,
                                     model_slice(&c->subscriptions[i].channel));
                }
            }
        }
    }
}

static void numsub(model_call *call, bool sharded)
{
    model_reply_array(call->out, (call->count - 2) * 2);
    for (size_t i = 2; i < call->count; i++) {
        int64_t count = 0;
        for (model_conn *conn = call->m->conns; conn; conn = conn->next) {
            count += find(conn, call->args[i], sharded) != SIZE_MAX;
        }
        model_reply_bulk(call->out, call->args[i]);
        model_reply_integer(call->out, count);
    }
}

void model_pubsub_numsub(model_call *call)
{
    numsub(call, false);
}

void model_pubsub_shardnumsub(model_call *call)
{
    numsub(call, true);
}

/* ---------------------------------------------------------- the connection */

void model_ping(model_call *call)
{
    if (call->count > 2) {
        model_reply_error(call->out,
                          "ERR wrong number of arguments for 'ping' command");
    } else if (model_is_subscribed(call->conn)) {
        model_reply_array(call->out, 2);
        model_reply_text(call->out, "pong");
        model_reply_bulk(call->out,
                         call->count == 2 ? call->args[1] : HF__LITERAL(""));
    } else if (call->count == 2) {
        model_reply_bulk(call->out, call->args[1]);
    } else {
        model_reply_status(call->out, "PONG");
    }
}

void model_echo(model_call *call)
{
    model_reply_bulk(call->out, call->args[1]);
}

void model_auth(model_call *call)
{
    const char *password = call->m->password;
    hf__slice said = call->args[call->count - 1];
    bool is_default = call->count < 3 || hf__slice_is(call->args[1], "default");
    if (call->count > 3) {
        model_reply_error(call->out, "ERR syntax error");
    } else if (call->count == 2 && !password) {
        model_reply_error(
            call->out,
            "ERR AUTH <password> called without any password configured for "
            "the default user. Are you sure your configuration is correct?");
    } else if (!is_default || (password && !hf__slice_is(said, password))) {
        model_reply_error(
            call->out,
            "WRONGPASS invalid username-password pair or user is disabled.");
    } else {
        call->conn->trusted = true;
        model_reply_status(call->out, "OK");
    }
}

void model_select(model_call *call)
{
    int64_t database;
    if (!model_arg_integer(call, 1, &database)) {
        return;
    }
    if (database < 0 || database > 15) {
        model_reply_error(call->out, "ERR DB index is out of range");
        return;
    }
    *call->database = (int)database;
    model_reply_status(call->out, "OK");
}

void model_quit(model_call *call)
{
    model_reply_status(call->out, "OK");
    model_close(call->conn);
}

void model_client_id(model_call *call)
{
    model_reply_integer(call->out, (int64_t)call->conn->id);
}

void model_client_setname(model_call *call)
{
    model_reply_status(call->out, "OK");
}

static bool is_meant(const model_call *call, const model_conn *conn)
{
    int64_t id;
    if (conn->closed || conn == call->conn) {
        return false;
    }
    if (model_arg_is(call, 2, "id")) {
        return model_parse_integer(call->args[3], &id) && id > 0 &&
               conn->id == (uint64_t)id;
    }
    return model_arg_is(call, 3, "pubsub") == model_is_subscribed(conn);
}

/* By TYPE normal, TYPE pubsub or ID; never the connection that says so. */
void model_client_kill(model_call *call)
{
    int64_t count = 0;
    bool by_type = call->count == 4 && model_arg_is(call, 2, "type");
    if (call->count == 3) {
        model_reply_error(call->out, "ERR No such client");
        return;
    }
    if (by_type && !model_arg_is(call, 3, "normal") &&
        !model_arg_is(call, 3, "pubsub")) {
        model_reply_error(call->out, "ERR Unknown client type '%.*s'",
                          (int)call->args[3].length, call->args[3].data);
        return;
    }
    if (!by_type && !(call->count == 4 && model_arg_is(call, 2, "id"))) {
        model_reply_error(call->out, "ERR syntax error");
        return;
    }
    for (model_conn *conn = call->m->conns; conn; conn = conn->next) {
        if (is_meant(call, conn)) {
            model_close(conn);
            count++;
        }
    }
    model_reply_integer(call->out, count);
}

/* -------------------------------------------------------------- the server */

static bool is_asked(const model_call *call, const char *section)
{
    bool asked = call->count == 1;
    for (size_t i = 1; i < call->count; i++) {
        asked |= model_arg_is(call, i, section) ||
                 model_arg_is(call, i, "all") ||
                 model_arg_is(call, i, "default") ||
                 model_arg_is(call, i, "everything");
    }
    return asked;
}

void model_info(model_call *call)
{
    char text[512];
    size_t n = 0;
    bool server = is_asked(call, "server");
    const char *role =
        call->m->condition == MODEL_READ_ONLY ? "slave" : "master";
    text[0] = '\0';
    if (server) {
        n = (size_t)snprintf(text, sizeof(text),
                             "# Server\r\nredis_version:7.0.15\r\n"
                             "redis_mode:standalone\r\nrun_id:%s\r\n",
                             call->m->run_id);
    }
    if (is_asked(call, "replication")) {
        (void)snprintf(text + n, sizeof(text) - n,
                       "%s# Replication\r\nrole:%s\r\nconnected_slaves:0\r\n",
                       server ? "\r\n" : "", role);
    }
    model_reply_text(call->out, text);
}

void model_role(model_call *call)
{
    if (call->m->condition == MODEL_READ_ONLY) {
        model_reply_array(call->out, 5);
        model_reply_text(call->out, "slave");
        model_reply_text(call->out, "127.0.0.1");
        model_reply_integer(call->out, 6379);
        model_reply_text(call->out, "connected");
        model_reply_integer(call->out, 0);
        return;
    }
    model_reply_array(call->out, 3);
    model_reply_text(call->out, "master");
    model_reply_integer(call->out, 0);
    model_reply_array(call->out, 0);
}

/* There is no replica that could acknowledge. */
void model_wait(model_call *call)
{
    int64_t number;
    if (!model_arg_integer(call, 1, &number)) {
        return;
    }
    if (!model_parse_integer(call->args[2], &number)) {
        model_reply_error(call->out,
                          "ERR timeout is not an integer or out of range");
    } else if (number < 0) {
        model_reply_error(call->out, "ERR timeout is negative");
    } else {
        model_reply_integer(call->out, 0);
    }
}

void model_time(model_call *call)
{
    char text[24];
    model_reply_array(call->out, 2);
    (void)snprintf(text, sizeof(text), "%lld",
                   (long long)(call->m->now_us / 1000000));
    model_reply_text(call->out, text);
    (void)snprintf(text, sizeof(text), "%lld",
                   (long long)(call->m->now_us % 1000000));
    model_reply_text(call->out, text);
}
