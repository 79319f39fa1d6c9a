/* The server: the model, and around it what a kernel and an operator do. */
#include "sim/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The server's clock at the beginning of each run. */
#define EPOCH_US INT64_C(1800000000000000)

/* What has arrived while the server was stopped, in the order of arrival. */
typedef struct backlog_entry {
    struct backlog_entry *next;
    sim_conn *conn;
    size_t length; /* 0: the client's end */
    char bytes[];
} backlog_entry;

static model *server;
static model_conn *operator_conn;
static model_conn *peer_conn;
static bool peer_speaks;
static const model_hooks *hooks;
static model_image *replica;
static int64_t replica_at; /* when it last heard of the primary */
static model_image *kept;
static bool up;
static bool well = true;
static int64_t stopped_until;
static int64_t expiry_planned;
static backlog_entry *backlog;
static backlog_entry **backlog_end = &backlog;

model *sim_server(void)
{
    return server;
}

bool sim_server_is_up(void)
{
    return up;
}

bool sim_server_serves(void)
{
    return up && well && world.now >= stopped_until;
}

void sim_server_condition(model_condition condition)
{
    well = condition == MODEL_WELL;
    model_set_condition(server, condition);
    sim_disturb_all();
}

/* Once for all runs: the scripts stay compiled. */
void sim_server_prepare(void)
{
    server = model_new(1);
    replica = model_image_new();
    kept = model_image_new();
}

int64_t sim_server_time(int64_t epoch_ms)
{
    return (epoch_ms - EPOCH_US / 1000) * SIM_MS;
}

static void expire(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    expiry_planned = 0;
    sim_server_tick();
}

void sim_server_tick(void)
{
    model_set_now(server, EPOCH_US + world.now / SIM_US);
    sim_check_time_passed();
    int64_t next = model_next_expiry(server);
    if (next == MODEL_NEVER) {
        return;
    }
    int64_t at = (next - EPOCH_US) * SIM_US;
    if (at > world.now && (expiry_planned == 0 || at < expiry_planned)) {
        expiry_planned = at;
        sim_at(at, expire, NULL, 0);
    }
}

/* An operator makes what somebody has to make. */
static void give_permits(void)
{
    model_set_hooks(server, &(model_hooks){.ctx = NULL});
    for (unsigned i = 0; i < SIM_LOCKS; i++) {
        char command[64];
        sim_kind kind = world.plan.kinds[i];
        if (kind != SIM_PERMIT && kind != SIM_SEMAPHORE &&
            kind != SIM_IN_TURN) {
            continue;
        }
        int n = snprintf(command, sizeof(command), "SET %s %d NX\r\n",
                         sim_lock_name(i), (int)world.plan.permits);
        model_receive(operator_conn, command, (size_t)n);
    }
    model_set_hooks(server, hooks);
}

void sim_server_start(const model_hooks *given)
{
    hooks = given;
    model_reset(server, world.seed);
    model_set_hooks(server, hooks);
    up = true;
    sim_server_tick();
    operator_conn = model_connect(server, NULL);
    peer_conn = model_connect(server, NULL);
    give_permits();
    model_image_take(replica, server);
}

/* ------------------------------------------------------------- connections */

void sim_server_connect(sim_conn *conn)
{
    conn->session = model_connect(server, conn);
}

/* Takes what the model says to the network, which may end the connection. */
static void flush_output(sim_conn *conn)
{
    hf__slice output = model_output(conn->session);
    if (output.length > 0) {
        char *copy = malloc(output.length);
        if (!copy) {
            abort();
        }
        memcpy(copy, output.data, output.length);
        model_taken(conn->session, output.length);
        sim_conn_down(conn, copy, output.length);
        free(copy);
    }
    if (conn->session && model_is_closed(conn->session)) {
        model_disconnect(conn->session);
        conn->session = NULL;
        conn->process->disturbed = world.now;
        sim_conn_down(conn, NULL, 0);
    }
}

static void flush_outputs(void)
{
    for (sim_conn *conn = sim_conns; conn; conn = conn->next) {
        if (conn->session) {
            flush_output(conn);
        }
    }
    hf__slice output = model_output(operator_conn);
    model_taken(operator_conn, output.length);
}

static void process(sim_conn *conn, const char *bytes, size_t length)
{
    if (!conn->session) {
        return;
    }
    sim_server_tick();
    if (length > 0) {
        model_receive(conn->session, bytes, length);
    } else {
        model_disconnect(conn->session);
        conn->session = NULL;
    }
    sim_server_tick();
    flush_outputs();
}

void sim_server_receive(sim_conn *conn, const char *bytes, size_t length)
{
    if (world.now >= stopped_until && !backlog) {
        process(conn, bytes, length);
        return;
    }
    backlog_entry *entry = malloc(sizeof(*entry) + length);
    if (!entry) {
        abort();
    }
    entry->next = NULL;
    entry->conn = conn;
    entry->length = length;
    if (length > 0) {
        memcpy(entry->bytes, bytes, length);
    }
    *backlog_end = entry;
    backlog_end = &entry->next;
}

static void go_on(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    if (world.now < stopped_until) {
        return;
    }
    SIM_TRACE("server goes on");
    sim_disturb_all();
    while (backlog) {
        backlog_entry *entry = backlog;
        process(entry->conn, entry->bytes, entry->length);
        backlog = entry->next;
        free(entry);
    }
    backlog_end = &backlog;
}

void sim_server_stop(int64_t until)
{
    sim_disturb_all();
    if (until > stopped_until) {
        stopped_until = until;
        sim_at(until, go_on, NULL, 0);
    }
}

/* ---------------------------------------------------------------- restarts */

static void drop_backlog(void)
{
    while (backlog) {
        backlog_entry *entry = backlog;
        backlog = entry->next;
        free(entry);
    }
    backlog_end = &backlog;
}

static void come_up(void *image, uint64_t number)
{
    (void)number;
    SIM_TRACE("server is up again%s", image == kept      ? ", with its data"
                                      : image == replica ? ", an older state"
                                                         : ", empty");
    sim_server_tick();
    model_disconnect(operator_conn);
    model_disconnect(peer_conn);
    model_restart(server, image);
    operator_conn = model_connect(server, NULL);
    peer_conn = model_connect(server, NULL);
    sim_server_tick();
    give_permits();
    up = true;
    sim_disturb_all();
    sim_check_server_changed();
}

static void die(void)
{
    sim_server_tick();
    up = false;
    drop_backlog();
    stopped_until = 0;
    sim_conns_server_died();
    sim_disturb_all();
}

void sim_server_restart(bool keep, int64_t down_for)
{
    sim_server_tick();
    model_image_take(kept, server);
    die();
    if (!keep) {
        sim_check_data_lost(world.now, true);
    }
    sim_at(world.now + down_for, come_up, keep ? kept : NULL, 0);
}

void sim_server_replicate(void)
{
    if (up) {
        sim_server_tick();
        model_image_take(replica, server);
        replica_at = world.now;
    }
}

void sim_server_fail_over(int64_t down_for)
{
    SIM_TRACE("the replica lags by %.6f s",
              (double)(world.now - replica_at) / 1e9);
    die();
    sim_check_data_lost(world.now, true);
    sim_at(world.now + down_for, come_up, replica, 0);
}

/* ---------------------------------------------------------------- operator */

void sim_server_operate(const char *verb, const char *what)
{
    char command[128];
    if (!up || world.now < stopped_until) {
        return;
    }
    int n = snprintf(command, sizeof(command), "%s %s\r\n", verb, what);
    SIM_TRACE("operator says %.*s", n - 2, command);
    sim_server_tick();
    model_receive(operator_conn, command, (size_t)n);
    sim_server_tick();
    flush_outputs();
}

hf__slice sim_server_peer_says(hf__slice request)
{
    if (!sim_server_serves()) {
        return (hf__slice){"", 0};
    }
    model_taken(peer_conn, model_output(peer_conn).length);
    sim_server_tick();
    peer_speaks = true;
    model_receive(peer_conn, request.data, request.length);
    peer_speaks = false;
    sim_server_tick();
    flush_outputs();
    return model_output(peer_conn);
}

bool sim_server_peer_speaks(void)
{
    return peer_speaks;
}

void sim_server_kill(sim_conn *conn)
{
    if (conn->session) {
        model_close(conn->session);
        flush_outputs();
    }
}
