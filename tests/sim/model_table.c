/* The commands' table, and how one is run. */
#include "sim/model_int.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#define ROW(name, arity, flags, run)                                           \
    {                                                                          \
        name, sizeof(name) - 1, arity, flags, run                              \
    }

/* MODEL_SUBSCRIBED etc. cut short. */
#define W MODEL_WRITE
#define G MODEL_GROWS
#define N MODEL_NO_SCRIPT
#define L MODEL_WHEN_LOADING
#define F MODEL_FAMILY
#define S MODEL_SUBSCRIBED
#define U MODEL_UNTRUSTED
#define B MODEL_WHEN_BUSY
#define R MODEL_REACHES_REPLICAS

static const model_command commands[] = {
    ROW("auth", -2, N | L | U | B, model_auth),
    ROW("client", -2, N | F, NULL),
    ROW("client|id", 2, N | L, model_client_id),
    ROW("client|kill", -3, N | L, model_client_kill),
    ROW("client|setname", 3, N | L, model_client_setname),
    ROW("dbsize", 1, 0, model_dbsize),
    ROW("decr", 2, W | G, model_decr),
    ROW("decrby", 3, W | G, model_decrby),
    ROW("del", -2, W, model_del),
    ROW("echo", 2, L, model_echo),
    ROW("eval", -3, N, model_eval),
    ROW("evalsha", -3, N, model_evalsha),
    ROW("exists", -2, 0, model_exists),
    ROW("expire", -3, W, model_expire),
    ROW("flushall", -1, W, model_flushall),
    ROW("flushdb", -1, W, model_flush),
    ROW("get", 2, 0, model_get),
    ROW("getdel", 2, W, model_getdel),
    ROW("hdel", -3, W, model_hdel),
    ROW("hexists", 3, 0, model_hexists),
    ROW("hget", 3, 0, model_hget),
    ROW("hgetall", 2, 0, model_hgetall),
    ROW("hincrby", 4, W | G, model_hincrby),
    ROW("hkeys", 2, 0, model_hkeys),
    ROW("hlen", 2, 0, model_hlen),
    ROW("hset", -4, W | G, model_hset),
    ROW("hsetnx", 4, W | G, model_hsetnx),
    ROW("hvals", 2, 0, model_hvals),
    ROW("incr", 2, W | G, model_incr),
    ROW("incrby", 3, W | G, model_incrby),
    ROW("info", -1, L, model_info),
    ROW("lindex", 3, 0, model_lindex),
    ROW("llen", 2, 0, model_llen),
    ROW("lpop", -2, W, model_lpop),
    ROW("lpos", -3, 0, model_lpos),
    ROW("lpush", -3, W | G, model_lpush),
    ROW("lrange", 4, 0, model_lrange),
    ROW("lrem", 4, W, model_lrem),
    ROW("persist", 2, W, model_persist),
    ROW("pexpire", -3, W, model_pexpire),
    ROW("ping", -1, S, model_ping),
    ROW("pttl", 2, 0, model_pttl_of),
    ROW("publish", 3, L | R, model_publish),
    ROW("pubsub", -2, F, NULL),
    ROW("pubsub|channels", -2, L, model_pubsub_channels),
    ROW("pubsub|numsub", -2, L, model_pubsub_numsub),
    ROW("pubsub|shardnumsub", -2, L, model_pubsub_shardnumsub),
    ROW("quit", -1, N | L | S | U | B, model_quit),
    ROW("role", 1, N | L, model_role),
    ROW("rpop", -2, W, model_rpop),
    ROW("rpush", -3, W | G, model_rpush),
    ROW("scan", -2, 0, model_scan),
    ROW("script", -2, N | F, NULL),
    ROW("script|exists", -3, N, model_script_exists),
    ROW("script|flush", -2, N, model_script_flush),
    ROW("script|load", 3, N, model_script_load),
    ROW("select", 2, L, model_select),
    ROW("set", -3, W | G, model_set),
    ROW("setnx", 3, W | G, model_setnx),
    ROW("spublish", 3, L | R, model_spublish),
    ROW("ssubscribe", -2, N | L | S, model_ssubscribe_to),
    ROW("strlen", 2, 0, model_strlen),
    ROW("subscribe", -2, N | L | S, model_subscribe_to),
    ROW("sunsubscribe", -1, N | L | S, model_sunsubscribe_from),
    ROW("time", 1, L, model_time),
    ROW("ttl", 2, 0, model_ttl),
    ROW("type", 2, 0, model_type_of),
    ROW("unlink", -2, W, model_del),
    ROW("unsubscribe", -1, N | L | S, model_unsubscribe_from),
    ROW("wait", 3, N, model_wait),
    ROW("zadd", -4, W | G, model_zadd),
    ROW("zcard", 2, 0, model_zcard),
    ROW("zcount", 4, 0, model_zcount),
    ROW("zincrby", 4, W | G, model_zincrby),
    ROW("zrange", -4, 0, model_zrange),
    ROW("zrangebyscore", -4, 0, model_zrangebyscore),
    ROW("zrem", -3, W, model_zrem),
    ROW("zremrangebyscore", 4, W, model_zremrangebyscore),
    ROW("zscore", 3, 0, model_zscore),
};

/* ----------------------------------------------------------------- look-up */

static const model_command *find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (commands[i].length == length &&
            strncasecmp(commands[i].name, name, length) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

const model_command *model_command_find(const hf__slice *args, size_t count)
{
    const model_command *command = find(args[0].data, args[0].length);
    char name[64];
    if (!command || !(command->flags & MODEL_FAMILY) || count < 2) {
        return command;
    }
    size_t length = command->length + 1 + args[1].length;
    if (length > sizeof(name)) {
        return NULL;
    }
    memcpy(name, args[0].data, command->length);
    name[command->length] = '|';
    memcpy(name + command->length + 1, args[1].data, args[1].length);
    return find(name, length);
}

static bool has_arity(const model_command *command, size_t count)
{
    return command->arity >= 0 ? count == (size_t)command->arity
                               : count >= (size_t)-command->arity;
}

/* ----------------------------------------------------------------- running */

static void run(model_call *call)
{
    size_t start = call->out->length;
    model *m = call->m;
    call->command->run(call);
    if (!m->hooks.on_command || call->out->failed) {
        return;
    }
    model_event event = {
        .conn = call->conn,
        .tag = call->conn->tag,
        .name = call->command->name,
        .args = call->args,
        .count = call->count,
        .reply = {call->out->data + start, call->out->length - start},
        .in_script = call->script != NULL,
        .writes = (call->command->flags & MODEL_WRITE) != 0,
        .changed = call->changed,
    };
    m->hooks.on_command(m->hooks.ctx, &event);
}

static void say_unknown(model_call *call)
{
    char text[256];
    const hf__slice *args = call->args;
    if (find(args[0].data, args[0].length)) {
        char family[16];
        size_t n = 0;
        for (; n < args[0].length && n + 1 < sizeof(family); n++) {
            family[n] = (char)toupper((unsigned char)args[0].data[n]);
        }
        family[n] = '\0';
        model_reply_error(call->out,
                          "ERR unknown subcommand '%.*s'. Try %s HELP.",
                          (int)args[1].length, args[1].data, family);
        return;
    }
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 1; i < call->count && used < 128; i++) {
        int room = (int)(128 - used);
        int length = args[i].length < (size_t)room ? (int)args[i].length : room;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "'%.*s' ",
                                 length, args[i].data);
    }
    model_reply_error(
        call->out, "ERR unknown command '%.*s', with args beginning with: %s",
        args[0].length < 128 ? (int)args[0].length : 128, args[0].data, text);
}

/* Why the server as it is does not do that; NULL if it does. */
static const char *refusal(const model *m, unsigned flags)
{
    switch (m->condition) {
    case MODEL_OUT_OF_MEMORY:
        return flags & MODEL_GROWS
                   ? "OOM command not allowed when used memory > 'maxmemory'."
                   : NULL;
    case MODEL_READ_ONLY:
        return flags & MODEL_WRITE
                   ? "READONLY You can't write against a read only replica."
                   : NULL;
    case MODEL_LOADING:
        return flags & MODEL_WHEN_LOADING
                   ? NULL
                   : "LOADING Redis is loading the dataset in memory";
    case MODEL_BUSY:
        return flags & MODEL_WHEN_BUSY
                   ? NULL
                   : "BUSY Redis is busy running a script. You can only call "
                     "SCRIPT KILL or SHUTDOWN NOSAVE.";
    default:
        return NULL;
    }
}

static bool is_admitted(model_call *call)
{
    const model_command *command = call->command;
    const char *why = NULL;
    if (!call->conn->trusted && !(command->flags & MODEL_UNTRUSTED)) {
        why = "NOAUTH Authentication required.";
    } else if (model_is_subscribed(call->conn) &&
               !(command->flags & MODEL_SUBSCRIBED)) {
        model_reply_error(
            call->out,
            "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / "
            "PING / QUIT / RESET are allowed in this context",
            command->name);
        return false;
    } else {
        why = refusal(call->m, command->flags);
    }
    if (why) {
        model_reply_error(call->out, "%s", why);
    }
    return why == NULL;
}

void model_execute(model_conn *conn, const hf__slice *args, size_t count)
{
    model_call call = {.m = conn->m,
                       .conn = conn,
                       .args = args,
                       .count = count,
                       .database = &conn->database,
                       .out = &conn->out};
    call.command = model_command_find(args, count);
    if (!call.command) {
        say_unknown(&call);
    } else if (!has_arity(call.command, count)) {
        model_reply_error(call.out,
                          "ERR wrong number of arguments for '%s' command",
                          call.command->name);
    } else if (is_admitted(&call)) {
        run(&call);
    }
}

/* Out of memory counts only until the script's first write, lest it stop half
 * way. */
static const char *script_refusal(const model_call *call)
{
    unsigned flags = call->command->flags;
    model_script_run *script = call->script;
    if (flags & MODEL_NO_SCRIPT) {
        return "ERR This Redis command is not allowed from script";
    }
    if ((flags & (MODEL_WRITE | MODEL_REACHES_REPLICAS)) && script->no_writes) {
        return "ERR Write commands are not allowed from read-only scripts.";
    }
    if (script->allow_oom || script->has_written) {
        flags &= ~(unsigned)MODEL_GROWS;
    }
    return refusal(call->m, flags);
}

void model_execute_scripted(model_call *call)
{
    const char *why = NULL;
    call->command = model_command_find(call->args, call->count);
    if (!call->command) {
        why = "ERR Unknown Redis command called from script";
    } else if (!has_arity(call->command, call->count)) {
        why = "ERR Wrong number of args calling Redis command from script";
    } else {
        why = script_refusal(call);
    }
    if (why) {
        model_reply_error(call->out, "%s", why);
        return;
    }
    call->script->has_written |= (call->command->flags & MODEL_WRITE) != 0;
    run(call);
}
