/* The server's life: its time, its restarts and its connections; see model.h.
 */
#include "sim/model_int.h"

#include <stdio.h>
#include <stdlib.h>

/* Of what is not taken yet, or not whole yet. */
#define BUFFER_MAX ((size_t)64 * 1024 * 1024)

/* --------------------------------------------------------------- its life */

/* A run id of 40 digits: another for each seed and each life. */
static void begin_life(model *m)
{
    uint64_t x = m->seed + UINT64_C(0x9e3779b97f4a7c15) * ++m->lives;
    for (size_t i = 0; i < sizeof(m->run_id) - 1; i++) {
        x ^= x >> 30;
        x *= UINT64_C(0xbf58476d1ce4e5b9);
        x ^= x >> 27;
        m->run_id[i] = "0123456789abcdef"[x & 15];
        x += UINT64_C(0x9e3779b97f4a7c15);
    }
    m->run_id[sizeof(m->run_id) - 1] = '\0';
    m->condition = MODEL_WELL;
    model_scripts_forget(m->scripts);
}

model *model_new(uint64_t seed)
{
    model *m = model_grow(NULL, sizeof(*m));
    *m = (model){.seed = seed, .store.earliest = MODEL_NEVER};
    m->conns_end = &m->conns;
    m->scripts = model_scripts_new();
    begin_life(m);
    return m;
}

void model_reset(model *m, uint64_t seed)
{
    while (m->conns) {
        model_disconnect(m->conns);
    }
    model_store_clear(&m->store, -1);
    m->store.last_id = 0;
    m->store.earliest = MODEL_NEVER;
    m->hooks = (model_hooks){.ctx = NULL};
    model_set_password(m, NULL);
    m->last_conn = 0;
    m->now_us = 0;
    m->lives = 0;
    m->seed = seed;
    begin_life(m);
}

void model_free(model *m)
{
    if (!m) {
        return;
    }
    model_reset(m, 0);
    model_scripts_free(m->scripts);
    free(m->store.keys);
    free(m);
}

void model_restart(model *m, const model_image *image)
{
    for (model_conn *conn = m->conns; conn; conn = conn->next) {
        model_close(conn);
    }
    if (image) {
        model_store_copy(&m->store, (const model_store *)image);
    } else {
        model_store_clear(&m->store, -1);
    }
    begin_life(m);
    model_set_now(m, m->now_us);
}

const char *model_run_id(const model *m)
{
    return m->run_id;
}

model_image *model_image_new(void)
{
    model_store *store = model_grow(NULL, sizeof(*store));
    *store = (model_store){.earliest = MODEL_NEVER};
    return (model_image *)store;
}

void model_image_free(model_image *image)
{
    model_store *store = (model_store *)image;
    if (store) {
        model_store_clear(store, -1);
        free(store->keys);
        free(store);
    }
}

void model_image_take(model_image *image, const model *m)
{
    model_store_copy((model_store *)image, &m->store);
}

/* --------------------------------------------------------------- settings */

void model_set_hooks(model *m, const model_hooks *hooks)
{
    m->hooks = *hooks;
}

void model_set_password(model *m, const char *password)
{
    free(m->password);
    m->password = NULL;
    if (password) {
        size_t size = strlen(password) + 1;
        m->password = model_grow(NULL, size);
        memcpy(m->password, password, size);
    }
}

void model_set_condition(model *m, model_condition condition)
{
    m->condition = condition;
}

/* ------------------------------------------------------------------- time */

static model_key *next_to_expire(const model *m)
{
    model_key *next = NULL;
    for (size_t i = 0; i < m->store.count; i++) {
        model_key *key = m->store.keys[i];
        if (key->expires_at != MODEL_NEVER &&
            (!next || key->expires_at < next->expires_at)) {
            next = key;
        }
    }
    return next;
}

/* As in Redis, a key is there still in the millisecond in which it ends. */
void model_set_now(model *m, int64_t now_us)
{
    if (now_us > m->now_us) {
        m->now_us = now_us;
    }
    while (m->store.earliest < model_now_ms(m)) {
        model_key *key = next_to_expire(m);
        m->store.earliest = key ? key->expires_at : MODEL_NEVER;
        if (m->store.earliest < model_now_ms(m)) {
            if (m->hooks.on_expired) {
                m->hooks.on_expired(m->hooks.ctx, key);
            }
            model_store_remove(&m->store, key);
        }
    }
}

int64_t model_next_expiry(const model *m)
{
    const model_key *key = next_to_expire(m);
    return key && key->expires_at < MODEL_NEVER / 1000 - 1
               ? (key->expires_at + 1) * 1000
               : MODEL_NEVER;
}

/* -------------------------------------------------------------- questions */

size_t model_key_count(const model *m)
{
    return m->store.count;
}

const model_key *model_key_at(const model *m, size_t i)
{
    return m->store.keys[i];
}

const model_key *model_find(const model *m, int database, hf__slice name)
{
    return model_store_find(&m->store, database, name);
}

int64_t model_pttl(const model *m, const model_key *key)
{
    if (!key) {
        return -2;
    }
    return key->expires_at == MODEL_NEVER ? -1
                                          : key->expires_at - model_now_ms(m);
}

size_t model_subscribers(const model *m, hf__slice channel)
{
    size_t count = 0;
    for (const model_conn *conn = m->conns; conn; conn = conn->next) {
        for (size_t i = 0; i < conn->subscribed; i++) {
            count += model_text_is(&conn->subscriptions[i].channel, channel);
        }
    }
    return count;
}

size_t model_subscriptions(const model *m)
{
    size_t count = 0;
    for (const model_conn *conn = m->conns; conn; conn = conn->next) {
        count += conn->subscribed;
    }
    return count;
}

/* ------------------------------------------------------------- connections */

model_conn *model_connect(model *m, void *tag)
{
    model_conn *conn = model_grow(NULL, sizeof(*conn));
    *conn = (model_conn){.m = m, .tag = tag, .id = ++m->last_conn};
    conn->trusted = m->password == NULL;
    hf__buf_init(&conn->in, BUFFER_MAX);
    hf__buf_init(&conn->out, BUFFER_MAX);
    *m->conns_end = conn;
    m->conns_end = &conn->next;
    return conn;
}

void model_close(model_conn *conn)
{
    while (conn->subscribed > 0) {
        free(conn->subscriptions[--conn->subscribed].channel.data);
    }
    conn->closed = true;
}

bool model_is_closed(const model_conn *conn)
{
    return conn->closed;
}

void model_disconnect(model_conn *conn)
{
    model *m = conn->m;
    model_close(conn);
    model_conn **link = &m->conns;
    while (*link != conn) {
        link = &(*link)->next;
    }
    *link = conn->next;
    if (!conn->next) {
        m->conns_end = link;
    }
    hf__buf_free(&conn->in);
    hf__buf_free(&conn->out);
    free(conn->args);
    free(conn->subscriptions);
    free(conn);
}

static void must_fit(const hf__buf *buf)
{
    if (buf->failed) {
        (void)fprintf(stderr, "model: out of memory for a connection\n");
        abort();
    }
}

void model_receive(model_conn *conn, const char *bytes, size_t length)
{
    if (conn->closed) {
        return;
    }
    hf__buf_append(&conn->in, bytes, length);
    must_fit(&conn->in);
    model_read_requests(conn);
    must_fit(&conn->out);
}

hf__slice model_output(const model_conn *conn)
{
    return (hf__slice){conn->out.data ? conn->out.data : "", conn->out.length};
}

void model_taken(model_conn *conn, size_t length)
{
    hf__buf_consume(&conn->out, length);
}
