/* The model beside a real server: both are told the same, and must answer the
 * same. Whatever differs ends the test with the history that led to it. */
#ifndef SIM_MODEL_PAIR_H
#define SIM_MODEL_PAIR_H

#include "sim/model.h"
#include "support/server.h"

#define PAIR_CONNS 4
/* Keys that end sooner than this are waited for; those that end later do not
 * end during the test. */
#define PAIR_SOON_MS 60000

typedef struct pair pair;

/* How the replies to what is sent may differ. */
typedef struct pair_mode {
    int64_t tolerance; /* of numbers above it, such as times to live */
    bool any_order;    /* of an array's members */
} pair_mode;

pair *pair_new(srv *server);
void pair_free(pair *p);

/* Both empty, with new connections; the history begins anew. `seed` cuts the
 * model's requests to pieces. */
void pair_begin(pair *p, uint64_t seed);
model *pair_model(pair *p);
/* A line of the history that is no command. */
void pair_note(pair *p, const char *text);

/* Queues a command; all that are queued are of one connection. */
void pair_add(pair *p, int conn, const hf__slice *words, size_t count);
/* Sends what is queued as one write, and compares all replies, and all
 * messages to others. Keys that end soon have ended when it returns. */
void pair_flush(pair *p, pair_mode mode);
/* The same for one command; words are parted by spaces, '...' is one word. */
void pair_say(pair *p, int conn, const char *line, pair_mode mode);
/* For the real server alone; its reply must not be an error. */
void pair_tell_real(pair *p, const char *line);
/* Keeps the real server in a script: returns when it says that it is busy. */
void pair_hang_real(pair *p, const char *line);
/* Kills the script: returns when the server answers again. */
void pair_free_real(pair *p);
/* Compares the keys of both, and that no message was left out. */
void pair_look(pair *p);
/* As if it had just been connected. */
void pair_reconnect(pair *p, int conn);

#endif
