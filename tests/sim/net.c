/* The network: connections whose bytes are delayed, torn apart and lost. What
 * arrives of one direction arrives in order; one connection knows nothing of
 * another. */
#include "sim/net.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* When the client's kernel gives up an idle peer: see os/socket.c. */
#define KEEPALIVE (30 * SIM_SECOND)
#define SYN_AGAIN SIM_SECOND

sim_conn *sim_conns;

static int64_t delay(void)
{
    return sim_skewed(world.plan.delay_min, world.plan.delay_max);
}

bool sim_conn_is_cut(const sim_conn *conn)
{
    return conn->process->cut_off > world.now;
}

/* ------------------------------------------------------------------- flows */

static bool is_up(const sim_conn *conn, const sim_flow *flow)
{
    return flow == &conn->up;
}

static void arrive(void *arg, uint64_t up);

static void schedule(sim_conn *conn, sim_flow *flow)
{
    if (!flow->first || flow->scheduled || flow->black ||
        sim_conn_is_cut(conn)) {
        return;
    }
    flow->scheduled = true;
    int64_t at = flow->first->at;
    sim_at(at > world.now ? at : world.now, arrive, conn, is_up(conn, flow));
}

static void put_segment(sim_conn *conn, sim_flow *flow, const char *bytes,
                        size_t length)
{
    sim_segment *segment = malloc(sizeof(*segment) + length);
    if (!segment) {
        abort();
    }
    int64_t at = world.now + delay();
    segment->next = NULL;
    segment->length = length;
    segment->at = at > flow->last_at ? at : flow->last_at;
    flow->last_at = segment->at;
    if (length > 0) {
        memcpy(segment->bytes, bytes, length);
    }
    if (flow->last) {
        flow->last->next = segment;
    } else {
        flow->first = segment;
    }
    flow->last = segment;
    schedule(conn, flow);
}

static void put(sim_conn *conn, sim_flow *flow, const char *bytes,
                size_t length)
{
    while (length > 1 && sim_chance(world.plan.splits)) {
        size_t piece = 1 + (size_t)sim_below(length - 1);
        put_segment(conn, flow, bytes, piece);
        bytes += piece;
        length -= piece;
    }
    put_segment(conn, flow, bytes, length);
}

static sim_segment *take_segment(sim_flow *flow)
{
    sim_segment *segment = flow->first;
    flow->first = segment->next;
    if (!flow->first) {
        flow->last = NULL;
    }
    return segment;
}

static void drop(sim_flow *flow)
{
    while (flow->first) {
        free(take_segment(flow));
    }
}

static void into_inbox(sim_conn *conn, const sim_segment *segment)
{
    size_t length = conn->inbox_length + segment->length;
    if (conn->client_gone || conn->state != SIM_CONN_OPEN) {
        return;
    }
    if (segment->length == 0) {
        conn->ended = true;
        return;
    }
    if (length > conn->inbox_room) {
        conn->inbox_room = 2 * length;
        conn->inbox = realloc(conn->inbox, conn->inbox_room);
        if (!conn->inbox) {
            abort();
        }
    }
    memcpy(conn->inbox + conn->inbox_length, segment->bytes, segment->length);
    conn->inbox_length = length;
}

static void deliver_up(sim_conn *conn)
{
    sim_segment *segment = take_segment(&conn->up);
    if (!conn->down.black) {
        conn->acked += segment->length;
    }
    sim_server_receive(conn, segment->bytes, segment->length);
    free(segment);
}

static void arrive(void *arg, uint64_t up)
{
    sim_conn *conn = arg;
    sim_flow *flow = up ? &conn->up : &conn->down;
    flow->scheduled = false;
    if (!flow->first || flow->black || sim_conn_is_cut(conn)) {
        return;
    }
    if (flow->first->at > world.now) {
        schedule(conn, flow);
        return;
    }
    if (up) {
        deliver_up(conn);
    } else {
        sim_segment *segment = take_segment(flow);
        into_inbox(conn, segment);
        free(segment);
    }
    schedule(conn, flow);
    sim_fds_changed(conn->process);
}

void sim_conn_down(sim_conn *conn, const char *bytes, size_t length)
{
    if (conn->server_ended) {
        return;
    }
    conn->server_ended = length == 0;
    if (conn->lose_reply && length > 0) {
        conn->lose_reply = false;
        SIM_TRACE("conn %u: its reply is lost", conn->number);
        sim_conn_reset(conn);
        return;
    }
    put(conn, &conn->down, bytes, length);
}

/* ------------------------------------------------------- ends of connections
 */

static void break_client_side(sim_conn *conn, int error)
{
    if (conn->state != SIM_CONN_BROKEN) {
        conn->state = SIM_CONN_BROKEN;
        conn->error = error;
        drop(&conn->down);
        sim_fds_changed(conn->process);
    }
}

/* What of the bytes under way the server still gets: some first part of them,
 * at once. */
static void decide_fate(sim_conn *conn)
{
    bool gets = sim_below(3) > 0 && !sim_conn_is_cut(conn) && !conn->up.black;
    while (conn->up.first && gets) {
        deliver_up(conn);
        gets = sim_below(4) > 0;
    }
    drop(&conn->up);
}

static void server_notices(void *arg, uint64_t number)
{
    (void)number;
    sim_server_receive(arg, NULL, 0);
}

/* Both ends hear of it, each in its time. */
void sim_conn_reset(sim_conn *conn)
{
    conn->process->disturbed = world.now;
    decide_fate(conn);
    sim_at(world.now + sim_skewed(0, 300 * SIM_MS), server_notices, conn, 0);
    if (sim_below(2)) {
        conn->inbox_length = 0;
    }
    break_client_side(conn, ECONNRESET);
}

void sim_conns_server_died(void)
{
    for (sim_conn *conn = sim_conns; conn; conn = conn->next) {
        if (!conn->session) {
            continue;
        }
        drop(&conn->up);
        conn->process->disturbed = world.now;
        model_disconnect(conn->session);
        conn->session = NULL;
        sim_conn_down(conn, NULL, 0);
    }
}

static void give_up_idle(void *arg, uint64_t number)
{
    sim_conn *conn = arg;
    (void)number;
    if ((conn->up.black || conn->down.black) && !conn->client_gone) {
        conn->process->disturbed = world.now;
        break_client_side(conn, ETIMEDOUT);
    }
}

void sim_conn_blacken(sim_conn *conn, bool up, bool down)
{
    conn->up.black = conn->up.black || up;
    conn->down.black = conn->down.black || down;
    conn->process->disturbed = world.now;
    sim_at(world.now + KEEPALIVE, give_up_idle, conn, 0);
}

void sim_conn_heal(sim_conn *conn)
{
    conn->up.black = false;
    conn->down.black = false;
    conn->process->disturbed = world.now;
    schedule(conn, &conn->up);
    schedule(conn, &conn->down);
}

static void end_cut(void *arg, uint64_t number)
{
    sim_process *process = arg;
    (void)number;
    if (process->cut_off > world.now) {
        return;
    }
    SIM_TRACE("p%u is connected again", process->number);
    process->cut_off = 0;
    process->disturbed = world.now;
    for (sim_conn *conn = sim_conns; conn; conn = conn->next) {
        if (conn->process == process) {
            schedule(conn, &conn->up);
            schedule(conn, &conn->down);
        }
    }
}

void sim_process_cut_off(sim_process *process, int64_t until)
{
    process->disturbed = world.now;
    if (until > process->cut_off) {
        process->cut_off = until;
        sim_at(until, end_cut, process, 0);
    }
}

static void client_leaves(sim_conn *conn)
{
    if (conn->client_gone) {
        return;
    }
    conn->client_gone = true;
    conn->inbox_length = 0;
    drop(&conn->down);
    if (!world.plan.late) {
        decide_fate(conn);
    }
    put_segment(conn, &conn->up, NULL, 0);
}

void sim_conn_closed_by_client(sim_conn *conn)
{
    client_leaves(conn);
}

void sim_conns_of_dead(sim_process *process, bool silently)
{
    for (sim_conn *conn = sim_conns; conn; conn = conn->next) {
        if (conn->process == process && !conn->client_gone) {
            client_leaves(conn);
            conn->up.black = conn->up.black || silently;
        }
    }
}

/* -------------------------------------------------------------- connecting */

static void establish(sim_conn *conn)
{
    if (sim_server_is_up() && !sim_fault_now(SIM_FAULT_REFUSE)) {
        sim_server_connect(conn);
        conn->state = SIM_CONN_OPEN;
    } else {
        conn->state = SIM_CONN_BROKEN;
        conn->error = ECONNREFUSED;
    }
    sim_fds_changed(conn->process);
}

static void greet(void *arg, uint64_t number)
{
    sim_conn *conn = arg;
    if (conn->client_gone || conn->state != SIM_CONN_CONNECTING) {
        return;
    }
    if (sim_conn_is_cut(conn)) {
        sim_at(world.now + SYN_AGAIN, greet, conn, number);
        return;
    }
    establish(conn);
}

hf_status hf__connect_start(const hf__address_list *list, size_t index,
                            int64_t user_timeout_ms, int *fd, bool *in_progress,
                            hf_error *err)
{
    static unsigned numbers;
    (void)list;
    (void)index;
    sim_conn *conn = calloc(1, sizeof(*conn));
    if (!conn) {
        abort();
    }
    conn->number = ++numbers;
    conn->process = world.running->process;
    conn->user_timeout = user_timeout_ms * SIM_MS;
    conn->next = sim_conns;
    sim_conns = conn;
    int s = sim_fd_open(SIM_FD_SOCKET);
    sim_fd_set_conn(s, conn);
    SIM_TRACE("connects, conn %u on descriptor %d", conn->number, s);
    if (sim_below(4) || sim_conn_is_cut(conn)) {
        sim_at(world.now + 2 * delay(), greet, conn, 0);
    } else {
        establish(conn);
    }
    if (conn->state == SIM_CONN_BROKEN) {
        hf__close(s);
        errno = conn->error;
        return hf__error_set_retriable(err, HF_EUNREACHABLE,
                                       "cannot connect to server: refused");
    }
    *fd = s;
    *in_progress = conn->state == SIM_CONN_CONNECTING;
    return HF_OK;
}

hf_status hf__connect_result(int fd, const hf__address_list *list, size_t index,
                             hf_error *err)
{
    const sim_conn *conn = sim_fd_conn(fd, "connect");
    (void)list;
    (void)index;
    if (conn->state == SIM_CONN_BROKEN) {
        errno = conn->error;
        return hf__error_set_retriable(err, HF_EUNREACHABLE,
                                       "cannot connect to server: refused");
    }
    return HF_OK;
}

hf_status hf__socket_set_blocking(int fd, int64_t recv_timeout_ms,
                                  hf_error *err)
{
    (void)sim_fd_conn(fd, "set blocking");
    (void)recv_timeout_ms;
    (void)err;
    return HF_OK;
}

void hf__socket_peer(int fd, uid_t *uid, pid_t *pid)
{
    (void)fd;
    *uid = (uid_t)-1;
    *pid = -1;
}

/* ------------------------------------------------------- sending, receiving */

static size_t room(const sim_conn *conn)
{
    uint64_t used = conn->sent - conn->acked;
    return used < world.plan.send_buffer ? world.plan.send_buffer - (size_t)used
                                         : 0;
}

short sim_conn_ready(const sim_conn *conn, short events)
{
    bool broken = conn->state == SIM_CONN_BROKEN;
    bool over = broken || conn->ended || conn->client_gone;
    short ready = 0;
    if (conn->state == SIM_CONN_CONNECTING && !conn->client_gone) {
        return 0;
    }
    if (conn->inbox_length > 0 || over) {
        ready |= POLLIN;
    }
    if (room(conn) > 0 || broken) {
        ready |= POLLOUT;
    }
    if (over) {
        ready |= POLLRDHUP;
    }
    ready &= events;
    if (broken || conn->client_gone) {
        ready |= POLLHUP;
    }
    return ready;
}

static void give_up_unacked(void *arg, uint64_t sent)
{
    sim_conn *conn = arg;
    if (conn->acked < sent && !conn->client_gone &&
        conn->state == SIM_CONN_OPEN) {
        SIM_TRACE("conn %u: nothing is acknowledged", conn->number);
        conn->process->disturbed = world.now;
        decide_fate(conn);
        break_client_side(conn, ETIMEDOUT);
    }
}

ssize_t hf__send(int fd, const void *bytes, size_t length)
{
    sim_yield_maybe();
    sim_conn *conn = sim_fd_conn(fd, "send");
    if (conn->state == SIM_CONN_BROKEN || conn->client_gone) {
        errno = EPIPE;
        return HF__IO_BROKEN;
    }
    size_t n = length < room(conn) ? length : room(conn);
    if (n == 0) {
        errno = EAGAIN;
        return HF__IO_AGAIN;
    }
    conn->sent += n;
    if (conn->lose_request) {
        conn->lose_request = false;
        SIM_TRACE("conn %u: its request is lost", conn->number);
        conn->up.black = true;
        sim_conn_reset(conn);
    } else {
        put(conn, &conn->up, bytes, n);
    }
    sim_at(world.now + conn->user_timeout, give_up_unacked, conn, conn->sent);
    sim_yield_maybe();
    return (ssize_t)n;
}

static ssize_t take_inbox(sim_conn *conn, void *bytes, size_t size)
{
    size_t n = conn->inbox_length < size ? conn->inbox_length : size;
    if (n > 1 && sim_chance(world.plan.splits / 2)) {
        n = 1 + (size_t)sim_below(n - 1);
    }
    memcpy(bytes, conn->inbox, n);
    memmove(conn->inbox, conn->inbox + n, conn->inbox_length - n);
    conn->inbox_length -= n;
    return (ssize_t)n;
}

ssize_t hf__recv(int fd, void *bytes, size_t size, bool wait)
{
    sim_conn *conn = sim_fd_conn(fd, "receive");
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    if (wait) {
        (void)hf__poll(&poll_fd, 1, HF__NEVER);
    }
    if (conn->inbox_length > 0 && !conn->client_gone) {
        return take_inbox(conn, bytes, size);
    }
    errno = conn->state == SIM_CONN_BROKEN ? conn->error : 0;
    if (conn->client_gone || conn->ended || conn->state == SIM_CONN_BROKEN) {
        return HF__IO_BROKEN;
    }
    errno = EAGAIN;
    return HF__IO_AGAIN;
}

ssize_t hf__peek(int fd)
{
    const sim_conn *conn = sim_fd_conn(fd, "peek");
    if (conn->inbox_length > 0 && !conn->client_gone) {
        return 1;
    }
    errno = conn->state == SIM_CONN_BROKEN ? conn->error : 0;
    if (conn->client_gone || conn->ended || conn->state == SIM_CONN_BROKEN) {
        return HF__IO_BROKEN;
    }
    errno = EAGAIN;
    return HF__IO_AGAIN;
}

void hf__socket_shutdown(int fd)
{
    if (sim_lookup_shutdown(fd)) {
        return;
    }
    sim_conn *conn = sim_fd_conn(fd, "shut down");
    client_leaves(conn);
    sim_fds_changed(conn->process);
}
