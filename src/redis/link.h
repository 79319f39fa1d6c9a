/* A pipelined connection to one server, shared by all threads of a client.
 *
 * There is no I/O thread. Whoever submits also writes, whoever waits first
 * also reads, completing the requests of others as their replies come past,
 * and hands the reader's role on when its own reply has come. The keeper reads
 * when requests are pending for which no caller waits.
 *
 *     DOWN -> RESOLVING -> CONNECTING -> GREETING -> READY -> BROKEN -> DOWN
 *
 * Requests may be submitted in any state; they are sent when the link is
 * READY, over the next connection should this one break first, and refused,
 * certainly unsent, when it cannot be made READY. */
#ifndef HF__REDIS_LINK_H
#define HF__REDIS_LINK_H

#include "base/buf.h"
#include "base/call.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/value.h"
#include "os/os.h"
#include "os/thread.h"
#include "redis/resp.h"
#include "redis/url.h"

#include <pthread.h>

typedef enum hf__outcome {
    HF__PENDING,
    HF__REPLIED,  /* the server answered, perhaps with an error */
    HF__NOT_SENT, /* certainly not executed */
    HF__OUTDATED, /* not sent either: the server is not the one that the
                     submitter knew, it was restarted */
    HF__UNKNOWN   /* sent, the reply is lost: perhaps executed */
} hf__outcome;

#define HF__REPLY_TEXT_MAX 200

typedef struct hf__request hf__request;

/* Copies what it needs out of an array. Runs under the link's mutex: short,
 * no lock, no call into the link. */
typedef void (*hf__on_array_fn)(hf__request *request, const hf__value *array);

struct hf__request {
    /* filled by the submitter */
    const hf__call *call;     /* and its bytes: valid until completed */
    hf__on_array_fn on_array; /* NULL: arrays are not looked into */
    /* Not to be sent to a server restarted since `restarts` was read. */
    bool same_server;
    unsigned restarts;
    bool in_full; /* with the script's text at once: should the server lack the
                     script, nobody will be there to hear of it */

    /* the outcome, valid once completed */
    _Atomic hf__outcome outcome; /* set last: its waiter may see it, and be
                                    gone with the request, at once */
    hf__value_type type;
    int64_t integer;
    char text[HF__REPLY_TEXT_MAX]; /* string, status or error, cut to fit;
                                      for an outcome without reply: why */
    size_t text_length;            /* before the cut */
    hf_status failure;             /* status behind an outcome without reply */
    int64_t sent_at;               /* before its bytes left: R1's time */

    /* the link's */
    hf__list node;
    hf__thread *waiter; /* NULL: completion goes to the list of done ones */
    uint64_t offset;    /* of its first byte in all that the link has sent */
    bool with_text;
    bool reading; /* its waiter sleeps and could become the reader */
};

typedef enum hf__link_state {
    HF__LINK_DOWN,
    HF__LINK_RESOLVING, /* only for a host's name */
    HF__LINK_CONNECTING,
    HF__LINK_GREETING,
    HF__LINK_READY,
    HF__LINK_BROKEN, /* waits until reader and writer have let go */
    HF__LINK_CLOSED
} hf__link_state;

typedef struct hf__link_hooks {
    void *ctx;
    /* Something waits for the keeper. Any thread, link's mutex held. */
    void (*wake_keeper)(void *ctx);
    /* A subscriber's link: a message came. Reader's thread, no lock held. */
    void (*on_message)(void *ctx, hf__slice channel, hf__slice payload);
} hf__link_hooks;

typedef struct hf__link {
    const hf__endpoint *endpoint;
    hf__link_hooks hooks;
    int64_t connect_timeout; /* ns */
    int64_t command_timeout; /* ns */

    pthread_mutex_t mutex; /* guards all below but where noted */
    hf__link_state state;
    _Atomic int fd;
    bool reading;      /* someone has the reader's role */
    bool writing;      /* someone has the writer's role */
    hf__buf out;       /* to be sent */
    hf__buf wire;      /* being sent; the writer's */
    bool stalled;      /* the socket is full: the keeper flushes */
    bool closing;      /* refuses whatever comes */
    uint64_t accepted; /* bytes ever put into out */
    uint64_t handed;   /* bytes ever given to the kernel, or tried to */
    hf__list pending;  /* requests in the order of their bytes */
    hf__list done;     /* completed, without waiter: the keeper's */
    size_t orphans;    /* pending ones without waiter */
    int64_t heard_at;  /* last bytes from the server */
    int64_t alarm;     /* when the keeper looks for a silent server */

    hf__lookup *lookup;          /* the reader's; while RESOLVING */
    hf__address_list *addresses; /* the reader's */
    size_t address;              /* the reader's */
    int64_t connect_deadline;    /* the reader's */
    hf__resp *resp;              /* the reader's */
    int greeted;                 /* replies to the greeting so far */
    int64_t client_id; /* the server's for this connection; 0 unknown */
    /* The last READY connection's, which the server may yet read from; it is
     * ended before anything is said on another. 0: none is known. */
    int64_t client_before;
    bool same_life; /* of the server, as when client_before was learnt */

    char run_id[48];           /* of the server last talked to; "" unknown */
    _Atomic unsigned restarts; /* how often another run id was found */
    _Atomic unsigned connects; /* how often the link became READY */
    _Atomic unsigned breaks;   /* how often it stopped being so */
    hf_error failure;          /* of the last attempt */
} hf__link;

/* endpoint is borrowed for the link's life. */
hf_status hf__link_init(hf__link *link, const hf__endpoint *endpoint,
                        const hf__link_hooks *hooks, int64_t connect_timeout,
                        int64_t command_timeout, hf_error *err);
/* Makes sure that the endpoint's address, unless it is a host's name, is
 * one. */
hf_status hf__link_resolve(hf__link *link, hf_error *err);
/* Nobody may use the link any more; pending requests are dropped. */
void hf__link_destroy(hf__link *link);
/* In a forked child: closes the child's copy of the descriptor, takes no
 * lock and sends nothing. */
void hf__link_forget(hf__link *link);
/* Refuses whatever comes, completes what is pending. Any thread. */
void hf__link_close(hf__link *link);

/* Whether what kept a request from its reply may pass by itself: no network, a
 * server that makes no sense, or one that is busy for now. */
static inline bool hf__failure_passes(hf_status failure)
{
    return failure == HF_EUNREACHABLE || failure == HF_EPROTOCOL ||
           failure == HF_ESERVER;
}

/* Queues a request. `waiter`: the calling thread, which goes on to
 * hf__link_wait; NULL: the keeper collects it from hf__link_take_done. */
void hf__link_submit(hf__link *link, hf__request *request, hf__thread *waiter);

/* Waits until the request is completed (true), `deadline` has passed or
 * *stop has become true. Until true is returned the request is still the
 * link's: give it to hf__link_abandon. */
bool hf__link_wait(hf__link *link, hf__request *request, int64_t deadline,
                   const atomic_bool *stop);
/* hf__link_submit and hf__link_wait in one. */
bool hf__link_say(hf__link *link, hf__request *request, hf__thread *self,
                  int64_t deadline, const atomic_bool *stop);
/* Makes the request one without waiter. Returns true if it is completed
 * already: then it is the caller's again. */
bool hf__link_abandon(hf__link *link, hf__request *request);

/* The keeper's part. */
/* What to poll for: 0 if nothing; *fd and *due (the next time to pump at the
 * latest) are set. Takes the reader's role if it is free and needed, as
 * *reader says; then pump must follow. */
short hf__link_poll(hf__link *link, bool always, int *fd, int64_t *due,
                    bool *reader);
/* Reads and writes without blocking, and gives the reader's role back. */
void hf__link_pump(hf__link *link, bool reader);
hf__request *hf__link_take_done(hf__link *link);
bool hf__link_has_done(hf__link *link);

#endif
