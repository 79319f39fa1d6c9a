/* What the files of the model share. */
#ifndef SIM_MODEL_INT_H
#define SIM_MODEL_INT_H

#include "model.h"

#include <stdarg.h>

/* ---------------------------------------------------------------- the store */

typedef struct model_store {
    model_key **keys; /* as created */
    size_t count;
    size_t room;
    uint64_t last_id;
    int64_t earliest; /* no key ends before this, epoch ms */
} model_store;

/* Memory of that size, or the end of the program. */
void *model_grow(void *old, size_t size);

hf__slice model_slice(const model_text *text);
void model_text_set(model_text *text, hf__slice bytes);
bool model_text_is(const model_text *text, hf__slice bytes);

model_key *model_store_find(const model_store *store, int database,
                            hf__slice name);
model_key *model_store_add(model_store *store, int database, hf__slice name,
                           model_type type);
void model_store_remove(model_store *store, model_key *key);
/* Of one database, or of all (-1). Whether there were any. */
bool model_store_clear(model_store *store, int database);
void model_store_copy(model_store *to, const model_store *from);
void model_store_expire(model_store *store, model_key *key, int64_t at);

/* By name; SIZE_MAX when there is none. */
size_t model_item_index(const model_key *key, hf__slice name);
/* Makes room before the item at that index; the pointer is good until the
 * next change. */
model_item *model_item_insert(model_key *key, size_t at, hf__slice name);
void model_item_remove(model_key *key, size_t at);

/* --------------------------------------------------------- the server's state
 */

typedef struct model_subscription {
    model_text channel;
    bool sharded;
} model_subscription;

struct model_conn {
    model *m;
    void *tag;
    model_conn *next; /* in the order of connecting */
    uint64_t id;
    int database;
    bool trusted; /* has said the password */
    bool closed;
    hf__buf in;
    hf__buf out;
    hf__slice *args; /* of the request at hand */
    size_t args_room;
    model_subscription *subscriptions;
    size_t subscribed;
    size_t subscriptions_room;
};

typedef struct model_scripts model_scripts;

struct model {
    model_store store;
    model_scripts *scripts;
    model_conn *conns;
    model_conn **conns_end;
    uint64_t last_conn;
    int64_t now_us;
    uint64_t seed;
    unsigned lives; /* how often it was started */
    char run_id[41];
    char *password;
    model_condition condition;
    model_hooks hooks;
};

static inline int64_t model_now_ms(const model *m)
{
    return m->now_us / 1000;
}

bool model_is_subscribed(const model_conn *conn);
bool model_subscribe(model_conn *conn, hf__slice channel, bool sharded);
bool model_unsubscribe(model_conn *conn, hf__slice channel, bool sharded);

/* ----------------------------------------------------------------- commands */

typedef struct model_command model_command;

/* What a script may do and has done. */
typedef struct model_script_run {
    bool allow_oom;
    bool no_writes;
    bool has_written;
} model_script_run;

typedef struct model_call {
    model *m;
    model_conn *conn;
    const hf__slice *args;
    size_t count;
    int *database; /* the connection's, or the script's own */
    hf__buf *out;
    model_script_run *script; /* the one that calls; NULL: a client does */
    const model_command *command;
    bool changed;
} model_call;

enum {
    MODEL_WRITE = 1,        /* can change keys */
    MODEL_GROWS = 2,        /* refused when out of memory */
    MODEL_NO_SCRIPT = 4,    /* not from a script */
    MODEL_WHEN_LOADING = 8, /* also while loading */
    MODEL_FAMILY = 16,      /* the second word says what */
    MODEL_SUBSCRIBED = 32,  /* also by who has subscribed */
    MODEL_UNTRUSTED = 64,   /* also before the password */
    MODEL_WHEN_BUSY = 128,
    MODEL_REACHES_REPLICAS = 256 /* a read-only script may not */
};

struct model_command {
    const char *name; /* lower case; of a family's member "family|member" */
    size_t length;
    int arity; /* as Redis counts: with the name; -n: at least n */
    unsigned flags;
    void (*run)(model_call *call);
};

/* NULL for an unknown name. A family's member is found by both words. */
const model_command *model_command_find(const hf__slice *args, size_t count);
/* Runs a client's request: the reply goes to the connection's output. */
void model_execute(model_conn *conn, const hf__slice *args, size_t count);
/* Runs a command for a script. */
void model_execute_scripted(model_call *call);

/* Arguments. What fails has replied. */
bool model_parse_integer(hf__slice text, int64_t *number);
bool model_parse_double(hf__slice text, double *number);
bool model_arg_integer(model_call *call, size_t i, int64_t *number);
bool model_arg_is(const model_call *call, size_t i, const char *word);
/* The key named by the first argument: NULL if there is none; false with
 * WRONGTYPE. */
bool model_key_of(model_call *call, model_type type, model_key **key);
/* The same, and makes it. */
model_key *model_key_make(model_call *call, model_type type);
/* After something was taken out: an empty one goes. */
void model_key_prune(model_call *call, model_key *key);
/* A range as LRANGE counts, cut to what there is; false if it is empty. */
bool model_clip(int64_t *start, int64_t *stop, size_t count);

/* The commands, by file. */
void model_del(model_call *call);
void model_exists(model_call *call);
void model_type_of(model_call *call);
void model_expire(model_call *call);
void model_pexpire(model_call *call);
void model_persist(model_call *call);
void model_ttl(model_call *call);
void model_pttl_of(model_call *call);
void model_scan(model_call *call);
void model_dbsize(model_call *call);
void model_flush(model_call *call);
void model_flushall(model_call *call);

void model_get(model_call *call);
void model_getdel(model_call *call);
void model_strlen(model_call *call);
void model_set(model_call *call);
void model_setnx(model_call *call);
void model_incr(model_call *call);
void model_incrby(model_call *call);
void model_decr(model_call *call);
void model_decrby(model_call *call);

void model_hset(model_call *call);
void model_hsetnx(model_call *call);
void model_hget(model_call *call);
void model_hdel(model_call *call);
void model_hexists(model_call *call);
void model_hincrby(model_call *call);
void model_hlen(model_call *call);
void model_hkeys(model_call *call);
void model_hvals(model_call *call);
void model_hgetall(model_call *call);

void model_lpush(model_call *call);
void model_rpush(model_call *call);
void model_lpop(model_call *call);
void model_rpop(model_call *call);
void model_lrem(model_call *call);
void model_lpos(model_call *call);
void model_lindex(model_call *call);
void model_lrange(model_call *call);
void model_llen(model_call *call);

void model_zadd(model_call *call);
void model_zincrby(model_call *call);
void model_zrem(model_call *call);
void model_zremrangebyscore(model_call *call);
void model_zscore(model_call *call);
void model_zcard(model_call *call);
void model_zcount(model_call *call);
void model_zrange(model_call *call);
void model_zrangebyscore(model_call *call);

void model_publish(model_call *call);
void model_spublish(model_call *call);
void model_subscribe_to(model_call *call);
void model_ssubscribe_to(model_call *call);
void model_unsubscribe_from(model_call *call);
void model_sunsubscribe_from(model_call *call);
void model_pubsub_channels(model_call *call);
void model_pubsub_numsub(model_call *call);
void model_pubsub_shardnumsub(model_call *call);

void model_ping(model_call *call);
void model_echo(model_call *call);
void model_auth(model_call *call);
void model_select(model_call *call);
void model_info(model_call *call);
void model_role(model_call *call);
void model_wait(model_call *call);
void model_time(model_call *call);
void model_quit(model_call *call);
void model_client_id(model_call *call);
void model_client_setname(model_call *call);
void model_client_kill(model_call *call);

void model_eval(model_call *call);
void model_evalsha(model_call *call);
void model_script_load(model_call *call);
void model_script_exists(model_call *call);
void model_script_flush(model_call *call);

/* ------------------------------------------------------------------ scripts */

model_scripts *model_scripts_new(void);
void model_scripts_free(model_scripts *scripts);
/* They stay compiled, but the server does not know them any more. */
void model_scripts_forget(model_scripts *scripts);
/* SHA-1 as 40 lower-case digits and a NUL. */
void model_sha1(hf__slice bytes, char hex[41]);

/* ------------------------------------------------------------------ replies */

void model_reply_integer(hf__buf *out, int64_t number);
void model_reply_bulk(hf__buf *out, hf__slice bytes);
void model_reply_text(hf__buf *out, const char *text); /* as a bulk */
void model_reply_double(hf__buf *out, double number);
void model_reply_nil(hf__buf *out);
void model_reply_nil_array(hf__buf *out);
void model_reply_array(hf__buf *out, size_t count);
void model_reply_status(hf__buf *out, const char *text);
/* Line ends become spaces. */
void model_reply_error(hf__buf *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void model_reply_error_bytes(hf__buf *out, hf__slice text);

/* Executes what is whole in the connection's input. */
void model_read_requests(model_conn *conn);

#endif
