/* A model of a Redis 7 server in memory: the commands that locks use, scripts
 * by a real Lua 5.1, expiry, messages, restarts. One thread, no I/O, no clock
 * of its own: it lives at the time it is told. Deterministic: the same seed
 * and the same bytes at the same times give the same bytes. Out of memory ends
 * the program. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "base/buf.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct model model;
typedef struct model_conn model_conn;
typedef struct model_image model_image;

/* ------------------------------------------------------------- the keyspace */

#define MODEL_NEVER INT64_MAX

typedef enum model_type {
    MODEL_STRING,
    MODEL_HASH,
    MODEL_LIST,
    MODEL_ZSET
} model_type;

/* Bytes of its own; a NUL follows that does not count. */
typedef struct model_text {
    char *data;
    size_t length;
} model_text;

/* A hash's field and value, a list's element (name), a sorted set's member
 * (name) with its score, a string (value). */
typedef struct model_item {
    model_text name;
    model_text value;
    double score;
} model_item;

typedef struct model_key {
    model_text name;
    model_type type;
    int database;
    int64_t expires_at; /* epoch ms, MODEL_NEVER without an end */
    model_item *items;  /* hash: as inserted; sorted set: by score and name */
    size_t count;
    size_t room;
    uint64_t id; /* rises with every creation */
} model_key;

/* In the order of creation; a pointer is good until the next call that is not
 * a question. */
size_t model_key_count(const model *m);
const model_key *model_key_at(const model *m, size_t i);
const model_key *model_find(const model *m, int database, hf__slice name);
const model_item *model_find_item(const model_key *key, hf__slice name);
/* As PTTL says: -2 no key, -1 no end. */
int64_t model_pttl(const model *m, const model_key *key);

/* ---------------------------------------------------------------- the hooks */

typedef struct model_event {
    model_conn *conn; /* whose request it was; in a script too */
    void *tag;        /* of that connection */
    const char *name; /* the command's, lower case */
    const hf__slice *args;
    size_t count;    /* args[0] is the command's name as it came */
    hf__slice reply; /* RESP */
    bool in_script;  /* called by a script; EVALSHA itself follows */
    bool writes;     /* a command that can change keys */
    bool changed;    /* and this time did */
} model_event;

typedef struct model_hooks {
    void *ctx;
    /* Right after each command. May ask the model, but not change it. */
    void (*on_command)(void *ctx, const model_event *event);
    /* Right before a key vanishes because its time is over. */
    void (*on_expired)(void *ctx, const model_key *key);
} model_hooks;

/* ------------------------------------------------------------- the server */

/* Every command but a few is refused, or those that write. */
typedef enum model_condition {
    MODEL_WELL,
    MODEL_OUT_OF_MEMORY, /* OOM, but for what frees */
    MODEL_READ_ONLY,     /* READONLY: has become a replica */
    MODEL_LOADING,       /* LOADING */
    MODEL_BUSY           /* BUSY: in a script that does not end */
} model_condition;

/* Empty, at time 0, with a run id from the seed. */
model *model_new(uint64_t seed);
void model_free(model *m);
/* As new, but keeps memory and compiled scripts: for the next run. Frees all
 * connections. The hooks and the password go. */
void model_reset(model *m, uint64_t seed);

void model_set_hooks(model *m, const model_hooks *hooks);
void model_set_password(model *m, const char *password); /* NULL: none */
void model_set_condition(model *m, model_condition condition);

/* Epoch microseconds, never less than before. Keys whose time is over vanish,
 * the earliest first. */
void model_set_now(model *m, int64_t now_us);
/* When the next key vanishes, in the same time; MODEL_NEVER if none does. */
int64_t model_next_expiry(const model *m);

/* Dies and comes up again, with the keys of an image, or with none (NULL).
 * Connections are closed, scripts forgotten, the run id is another. A replica
 * that takes over, behind by some commands, is an older image. */
void model_restart(model *m, const model_image *image);
const char *model_run_id(const model *m);

model_image *model_image_new(void);
void model_image_free(model_image *image);
/* Copies the keys of now. An image may be used again and again. */
void model_image_take(model_image *image, const model *m);

/* ------------------------------------------------------------- connections */

/* `tag` is handed to the hooks. */
model_conn *model_connect(model *m, void *tag);
/* The client has gone: what it sent is done, what it subscribed to is not its
 * any more. Frees the connection. */
void model_disconnect(model_conn *conn);
/* The server closes it: after this, after a restart, CLIENT KILL, QUIT or a
 * protocol error it takes and says nothing more, but what is in its output
 * can be taken still. It is to be disconnected all the same. */
void model_close(model_conn *conn);
bool model_is_closed(const model_conn *conn);

/* Takes bytes of requests, cut anywhere, and executes each that is whole. */
void model_receive(model_conn *conn, const char *bytes, size_t length);
/* Replies and messages that were not taken yet. */
hf__slice model_output(const model_conn *conn);
/* Drops the first bytes of them. */
void model_taken(model_conn *conn, size_t length);

/* How many connections are subscribed to a channel; subscriptions in all. */
size_t model_subscribers(const model *m, hf__slice channel);
size_t model_subscriptions(const model *m);

#endif
