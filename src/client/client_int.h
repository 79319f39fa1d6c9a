/* What the parts of the client share: the structs behind the public handles.
 *
 * Locks, in their order: client->mutex, then a link's mutex. Neither is held
 * during a callback, a system call that may block, or a wait. */
#ifndef HF__CLIENT_CLIENT_INT_H
#define HF__CLIENT_CLIENT_INT_H

#include "base/log.h"
#include "core/acquire.h"
#include "core/book.h"
#include "core/refusal.h"
#include "core/waiters.h"
#include "os/os.h"
#include "os/thread.h"
#include "redis/link.h"
#include "redis/url.h"

#include <pthread.h>

/* A request that the keeper deals with when it is completed. */
typedef enum hf__job_what {
    HF__JOB_DROPPED,   /* abandoned acquire or release: a settling follows */
    HF__JOB_FORGOTTEN, /* abandoned question: only its memory is left */
    HF__JOB_SETTLE,
    HF__JOB_RENEW,
    HF__JOB_SUBSCRIBE,
    HF__JOB_UNSUBSCRIBE
} hf__job_what;

typedef struct hf__job {
    hf__request request;
    hf__call call;
    hf__job_what what;
    void *subject; /* hold, batch or channel */
} hf__job;

/* Behind each hf__hold. */
typedef struct hf__hold_driver {
    hf__job command; /* the acquire or release under way */
    hf__job settle;
    hf__list turns; /* threads that wait for the hold to be idle */
    bool made;
} hf__hold_driver;

/* Behind each hf__channel. */
typedef struct hf__channel_driver {
    hf__job subscribe;
    hf__job unsubscribe;
    bool unsubscribing;
} hf__channel_driver;

struct hf_client {
    _Atomic size_t refs; /* the program's, and one for each handle */
    unsigned generation; /* hf__fork_generation when it was opened */
    bool opening;        /* hf_client_open has not returned yet */
    atomic_bool closed;  /* hf_client_free was called */
    hf__endpoint endpoint;
    hf__log log;
    int64_t command_timeout; /* ns */
    int64_t poll_cap;        /* ns */
    hf__seam seam;
    hf__link commands;
    hf__link messages;
    hf__waker waker;
    atomic_bool woken; /* the waker was raised and not yet looked at */
    pthread_t keeper;
    bool keeper_runs;

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t called; /* a callback has returned */
    hf__book book;
    hf__waiters waiters;
    unsigned restarts_seen; /* of commands' server */
    unsigned connects_seen;
    unsigned breaks_seen;
    unsigned message_breaks_seen;
    int64_t sleep_until;      /* when the keeper looks again by itself */
    int64_t noticed;          /* earliest due that it was woken for: it looks
                                 at that time even if nothing is due any more,
                                 lest each of many short holds wakes it */
    int64_t close_by;         /* HF__NEVER: open */
    struct hf_lease *calling; /* whose callback runs */
    uint64_t probed;          /* kinds whose commands are known to be allowed:
                                 a bit for each letter */
    hf__list siblings;        /* in the process's list of open clients */
    hf__list multis;          /* hf__multi_lease whose first lock is here */
};

struct hf_owner {
    hf_client *client;
    uint64_t ordinal;
    char id[HF__OWNER_SIZE];
};

/* What an acquisition is for. */
typedef struct hf__goal {
    hf__target *target; /* gone once the client is closed */
    hf__wish wish;
    int64_t backoff_first; /* ns: of kinds without messages */
    int64_t backoff_max;
} hf__goal;

struct hf_lock {
    hf_client *client;
    hf__goal goal;
    struct hf__multi *multi; /* several locks as one, of which client and goal
                                are the first's; NULL: a single one */
};

struct hf_lease {
    hf__lease core;
    hf_client *client;
    hf_lost_fn on_lost;
    void *on_lost_arg;
    _Atomic int fd;     /* -1: nobody asked for it */
    bool handed_out;    /* a handle of the program's, which frees it */
    atomic_bool giving; /* a release by lock and owner, which has not got the
                           handle, is under way */
    bool thread_owned;  /* by the thread whose ordinal is in core.hold */
    struct hf__multi_lease *multi; /* several leases as one, which is in no
                                      book; NULL: a single one */
    char owner[HF__OWNER_SIZE];
};

/* A thread in an acquisition. */
typedef struct hf__contender {
    hf__waiter waiter;
    hf__thread *thread;
} hf__contender;

/* ---- client.c */
/* HF_OK if calls may be made; HF_EFORKED or HF_ECLOSED with err set. */
hf_status hf__client_usable(const hf_client *client, hf_error *err);
hf_client *hf__client_ref(hf_client *client);
/* A lease without handle, which is never the client's last reference. */
void hf__lease_drop(hf_lease *lease);
void hf__client_unref(hf_client *client);
bool hf__client_inherited(const hf_client *client);

/* Copies options whose struct_size is `given_size` over the defaults in `to`:
 * an older program's are shorter; a newer one's may be longer, but what this
 * library does not know must be zero. */
hf_status hf__options_copy(void *to, size_t size, const void *given,
                           size_t given_size, hf_error *err);

/* Who acts: an explicit owner, or the calling thread. */
hf_status hf__client_actor(const hf_client *client, const hf_owner *owner,
                           uint64_t *ordinal, hf_error *err);
/* What a server answered to a question. */
typedef struct hf__answer {
    hf__value_type type;
    int64_t integer;
    char text[HF__REPLY_TEXT_MAX]; /* of a string or status */
    size_t count;                  /* of an array's members */
    char list[160];                /* an array's strings, comma between */
} hf__answer;

/* Says a call that changes nothing, or may be said twice, and waits for its
 * reply: over a new connection if need be, and at most the command time-out,
 * until `deadline` or until *stop is true. */
hf_status hf__client_ask(hf_client *client, const hf__call *call,
                         hf__answer *answer, int64_t deadline,
                         const atomic_bool *stop, hf_error *err);
/* Says a call once that must not be said twice: HF_EUNKNOWN when its reply is
 * lost, or has not come within the command time-out. */
hf_status hf__client_tell(hf_client *client, const hf__call *call,
                          hf__answer *answer, hf_error *err);
/* As hf__client_ask, for replies that are not small: `on_value` sees the reply,
 * under a link's mutex, and copies what it wants into `arg`. */
typedef void (*hf__on_value_fn)(void *arg, const hf__value *value);
hf_status hf__client_query(hf_client *client, const hf__call *call,
                           hf__on_value_fn on_value, void *arg, hf_error *err);
/* Turns a completed request that is an error, or no reply, into err. */
hf_status hf__request_failed(const hf__request *request, hf_error *err);
/* `lock "name" on server: ` before the text of a failure. */
hf_status hf__target_error(const hf_client *client, const hf__target *target,
                           hf_error *err, const hf_error *why);

/* ---- probe.c */
/* HF_EPERM, and which commands, if the user lacks one that the target's kind
 * needs; asks the server the first time. client->mutex held, given up
 * meanwhile. */
hf_status hf__client_probe_once(hf_client *client, const hf__target *target,
                                int64_t deadline, const atomic_bool *stop,
                                hf_error *err);

/* ---- keeper.c */
hf_status hf__keeper_start(hf_client *client, hf_error *err);
/* Ends it after what is unsettled, at the latest at `close_by`. */
void hf__keeper_stop(hf_client *client, int64_t close_by);
void hf__keeper_wake(hf_client *client);
/* After its end: frees what the links' completed requests leave behind. */
void hf__keeper_drain(hf_client *client);
/* client->mutex held from here on. */
/* Wakes the keeper if something is due before it would look. */
void hf__keeper_notice(hf_client *client);
/* Takes note of a server's restart that the link has found. */
void hf__keeper_note_restart(hf_client *client);
/* Of a connection that broke or came, too: finds out about every hold. */
void hf__keeper_note_connections(hf_client *client);
void hf__keeper_subscribe(hf_client *client, hf__channel *channel);
/* Says the hold's known count to the server, behind whatever was said of it
 * before; the hold is busy until then. */
void hf__keeper_settle(hf_client *client, hf__hold *hold);
/* Sends the settlings that are due, without waiting. */
void hf__keeper_settle_due(hf_client *client);
/* Nobody waits any more for the hold's command under way. False if it is
 * completed: it is the caller's again. Otherwise its settling is sent right
 * behind it on the same connection, so that a late grant lasts no longer than
 * the server needs to read on, and the turn is the keeper's. */
bool hf__keeper_drop_command(hf_client *client, hf__hold *hold);
/* Tells the book what came of a settling. True if it need not be said again. */
bool hf__settle_heard(hf_client *client, hf__hold *hold,
                      const hf__request *request);
/* Fills a release to what is known to live. */
void hf__hold_call_release(const hf__book *book, hf__hold *hold,
                           hf__call *call);
void hf__job_prepare(hf__job *job, hf__job_what what, void *subject);

/* ---- turn.c; client->mutex held, given up while waiting */
hf__hold_driver *hf__hold_driver_of(hf__hold *hold);
/* Makes the hold busy for the caller; false when `deadline` has passed or
 * *stop is true. */
bool hf__turn_take(hf_client *client, hf__hold *hold, hf__thread *self,
                   int64_t deadline, const atomic_bool *stop);
void hf__turn_give(hf_client *client, hf__hold *hold);
/* Nothing is under way: whoever waits for its turn looks again. */
void hf__turn_offer(hf__hold *hold);

/* ---- cancel.c */
const atomic_bool *hf__cancel_flag(const hf_cancel *cancel);
typedef struct hf__cancel_entry {
    hf__list node;
    hf__thread *thread;
} hf__cancel_entry;
void hf__cancel_watch(hf_cancel *cancel, hf__cancel_entry *entry,
                      hf__thread *self);
void hf__cancel_unwatch(hf_cancel *cancel, hf__cancel_entry *entry);

/* ---- lock.c */
/* Makes goal->target, and a reference to the client; the goal's wish is the
 * caller's. */
hf_status hf__goal_open(hf_client *client, const hf__kind *kind,
                        const void *name, size_t length, hf__goal *goal,
                        hf_error *err);
void hf__goal_close(hf_client *client, hf__goal *goal);

/* ---- acquire.c */
/* Options with their defaults, checked. */
hf_status hf__acquire_options(const hf_acquire_options *given,
                              hf_acquire_options *options, hf_error *err);
/* NULL when out of memory. */
hf_lease *hf__lease_new(hf_client *client, const hf_acquire_options *options,
                        bool handed_out);
/* hf_lock_acquire_with for any target; wish.wait_ms is taken from the options.
 * A leaseless kind leaves *out untouched. */
hf_status hf__goal_acquire(hf_client *client, const hf__goal *goal,
                           const hf_acquire_options *given, hf_lease **out,
                           hf_error *err);

/* ---- attempt.c */
/* A parked attempt was woken by a message: sends its acquire at once, so that
 * the server works while the thread wakes up. client->mutex held. */
void hf__contender_hasten(hf__contender *contender);

/* ---- lease.c */
/* Releases an owner's latest live lease; HF_ENOTHELD, without a text, if it
 * has none. */
hf_status hf__lease_give_back_latest(hf_client *client,
                                     const hf__target *target, uint64_t ordinal,
                                     hf_error *err);

#endif
