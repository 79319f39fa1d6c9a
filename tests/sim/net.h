/* The network and the kernel's part of a connection. */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "sim/model.h"
#include "sim/sim.h"

typedef enum sim_conn_state {
    SIM_CONN_CONNECTING,
    SIM_CONN_OPEN,
    SIM_CONN_BROKEN /* for the client; errno is in `error` */
} sim_conn_state;

typedef struct sim_segment {
    struct sim_segment *next;
    int64_t at;
    size_t length; /* 0: the end of the flow */
    char bytes[];
} sim_segment;

/* One direction. */
typedef struct sim_flow {
    sim_segment *first;
    sim_segment *last;
    int64_t last_at;
    bool black;     /* nothing arrives */
    bool scheduled; /* an event waits for the first segment */
} sim_flow;

struct sim_conn {
    unsigned number;
    sim_process *process;
    sim_conn_state state;
    int error;
    model_conn *session; /* NULL: not accepted, or gone */
    bool client_gone;    /* has closed or shut down */
    bool server_ended;   /* its end is on its way to the client */
    bool ended;          /* and has arrived */
    sim_flow up;         /* to the server */
    sim_flow down;
    char *inbox; /* arrived, not yet received */
    size_t inbox_length;
    size_t inbox_room;
    uint64_t sent;  /* bytes */
    uint64_t acked; /* of them */
    int64_t user_timeout;
    bool lose_request; /* the next bytes sent are lost, and the connection */
    bool lose_reply;   /* the next reply */
    sim_conn *next;    /* all of the run */
};

extern sim_conn *sim_conns;

/* ---- net.c: what the faults do to it */
void sim_conn_reset(sim_conn *conn);
void sim_conn_blacken(sim_conn *conn, bool up, bool down);
void sim_conn_heal(sim_conn *conn);
void sim_process_cut_off(sim_process *process, int64_t until);
/* The process has died: its end of all connections is closed. */
void sim_conns_of_dead(sim_process *process, bool silently);
bool sim_conn_is_cut(const sim_conn *conn);
/* Bytes from the server, or its end of the connection (length 0). */
void sim_conn_down(sim_conn *conn, const char *bytes, size_t length);
/* The server has restarted: every connection is gone. */
void sim_conns_server_died(void);

/* ---- server.c */
model *sim_server(void);
bool sim_server_is_up(void);
bool sim_server_serves(void); /* nothing keeps it from answering */
void sim_server_condition(model_condition condition);
void sim_server_connect(sim_conn *conn);
/* Bytes, or the end (length 0), arrive at the server's kernel. */
void sim_server_receive(sim_conn *conn, const char *bytes, size_t length);
void sim_server_pump(void);
/* The other library's program says a request in RESP. The reply is good until
 * it says the next, and empty if the server does not answer just now. */
hf__slice sim_server_peer_says(hf__slice request);
bool sim_server_peer_speaks(void); /* just now */
/* The model lives at the present time. */
void sim_server_tick(void);
/* Virtual time of what the server's clock shows. */
int64_t sim_server_time(int64_t epoch_ms);

#endif
