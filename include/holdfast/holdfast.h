/* holdfast: distributed locks on Redis or Valkey, wire-compatible with
 * Redisson.
 *
 * What is held is a lease: a lock that ends by itself when its holder can no
 * longer renew it. A holder asks locally, without I/O, whether it may still
 * act (hf_lease_is_held), and is told of a loss before the lease can pass to
 * another holder. Mutual exclusion holds within that validity time only; see
 * docs/guarantees.md.
 *
 * Times are milliseconds. Strings and byte ranges given to a call are copied;
 * pointers returned stay the library's until the matching *_free. A call that
 * fails leaves its outputs untouched. */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
#else
#define HF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0
#define HF_VERSION_STRING "0.1.0"

/** @return the version of the library that runs, such as "0.1.0".
 *  Threads: any thread. */
HF_API const char *hf_version(void);

/* ------------------------------------------------------------- statuses */

/** Outcome of a call: 0 is success, above 0 an expected outcome that is no
 *  error, below 0 an error. Numbers never change. */
#define HF_STATUS_MAP(X)                                                       \
    X(HF_OK, 0, "success")                                                     \
    X(HF_NOT_ACQUIRED, 1, "not acquired, another owner holds it")              \
    X(HF_CANCELLED, 2, "cancelled")                                            \
    X(HF_EINVAL, -1, "invalid argument")                                       \
    X(HF_ENOMEM, -2, "out of memory")                                          \
    X(HF_ESYSTEM, -3, "the operating system refused")                          \
    X(HF_EUNREACHABLE, -4, "server unreachable")                               \
    X(HF_EPROTOCOL, -5, "the server's reply is not understood")                \
    X(HF_EAUTH, -6, "authentication failed")                                   \
    X(HF_EPERM, -7, "permission denied by the server")                         \
    X(HF_EWRONGTYPE, -8, "the key holds another type of value")                \
    X(HF_ESERVER, -9, "the server refused the command")                        \
    X(HF_ENOTHELD, -10, "not held by this owner")                              \
    X(HF_ELOST, -11, "the lease was lost")                                     \
    X(HF_EUNKNOWN, -12, "the outcome is unknown, the reply was lost")          \
    X(HF_EFORKED, -13, "handle inherited through fork")                        \
    X(HF_ECLOSED, -14, "the client is closed")                                 \
    X(HF_ECONFIG, -15, "invalid configuration")                                \
    X(HF_EHELD, -16, "held by this owner already")

typedef enum hf_status {
#define HF_STATUS_ENUM(name, number, text) name = number,
    HF_STATUS_MAP(HF_STATUS_ENUM)
#undef HF_STATUS_ENUM
} hf_status;

/** @return the constant text of a status; "unknown status" for any other
 *  number. Threads: any thread. */
HF_API const char *hf_status_text(hf_status status);

/** What went wrong, in words. The caller's memory, of fixed size; reporting
 *  never allocates. Begin with HF_ERROR_INIT. Every `hf_error *` argument may
 *  be NULL. */
typedef struct hf_error {
    int32_t opaque_status;
    uint32_t opaque_flags;
    char opaque_text[504];
} hf_error;

#define HF_ERROR_INIT                                                          \
    {                                                                          \
        0, 0,                                                                  \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }

/** @return the status last reported into err; HF_OK when there was none. */
HF_API hf_status hf_error_status(const hf_error *err);
/** @return one line without a secret: what happened, to which lock on which
 *  server, what to do. Valid as long as err. */
HF_API const char *hf_error_text(const hf_error *err);
/** @return non-zero when the same call may succeed later without a change. */
HF_API int hf_error_is_retriable(const hf_error *err);

/* ------------------------------------------------------------------ log */

typedef enum hf_log_level {
    HF_LOG_ERROR = 0,
    HF_LOG_WARNING = 1,
    HF_LOG_INFO = 2,
    HF_LOG_DEBUG = 3
} hf_log_level;

/** Receives one line of text without a newline or a secret. Called from any
 *  thread, with no lock of the library held; must not call back into the
 *  client. */
typedef void (*hf_log_fn)(void *arg, hf_log_level level, const char *line);

/* --------------------------------------------------------------- client */

/** A connection to one server, shared by all threads of a process. */
typedef struct hf_client hf_client;

/** Zero means default in every field. */
typedef struct hf_client_options {
    size_t struct_size;         /**< set by HF_CLIENT_OPTIONS_INIT */
    const char *username;       /**< over the URL's */
    const char *password;       /**< over the URL's */
    int64_t connect_timeout_ms; /**< default 3000 */
    /** Longest silence of the server while a reply is due, and the longest
     *  that a release waits for its confirmation; default 3000. Source:
     *  Redisson's `timeout`. */
    int64_t command_timeout_ms;
    /** Lease of acquisitions without one of their own, renewed each third of
     *  it; default 30000. Source: Redisson's lockWatchdogTimeout. */
    int64_t watchdog_lease_ms;
    /** A waiter asks the server at least this often, should no message come;
     *  default 5000. */
    int64_t poll_cap_ms;
    /** How long a subscription outlives its last waiter; default 2000. */
    int64_t subscription_linger_ms;
    /** After a reconnection has found a server that was restarted, grant
     *  nothing for this long, for its memory may have lost locks whose
     *  holders still act. Default: the longest lease in use; -1 switches
     *  it off. */
    int64_t restart_quarantine_ms;
    hf_log_fn log; /**< default none */
    void *log_arg;
    hf_log_level log_level; /**< most talkative level wanted; default errors */
} hf_client_options;

#define HF_CLIENT_OPTIONS_INIT                                                 \
    {                                                                          \
        sizeof(hf_client_options), NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL,   \
            HF_LOG_ERROR                                                       \
    }

/** Connects to a server and starts the client's background thread.
 *
 *  @param[in]  url   `redis://[user:password@]host[:port][/db]`,
 *                    `redis+unix://[user:password@]/path[?db=n]` or
 *                    `unix:///path[?db=n]` (`valkey...` are synonyms); NULL
 *                    takes HOLDFAST_URL, else REDIS_URL, else the embedded
 *                    server of this user, started if need be
 *  @param[in]  options optional
 *  @param[out] err   optional
 *  @return the client, to be given to hf_client_free; NULL with err set to
 *          HF_ECONFIG (URL, options), HF_EUNREACHABLE, HF_EAUTH, HF_EPERM,
 *          HF_EPROTOCOL, HF_ESERVER (it refuses PING, and not just for now),
 *          HF_ESYSTEM or HF_ENOMEM
 *  Blocks: at most the connect time-out for each address.
 *  Threads: any thread. Since: 0.1 */
HF_API hf_client *hf_client_open(const char *url,
                                 const hf_client_options *options,
                                 hf_error *err);

/** Closes a client: refuses new work, gives back what its leases still hold
 *  (at most the command time-out), ends the background thread. Locks, leases
 *  and owners of it stay valid memory until their own free, and then answer
 *  HF_ECLOSED. In a forked child it only closes the descriptors. NULL is
 *  allowed. Not from a callback of this client. */
HF_API void hf_client_free(hf_client *client);

/** @return where this client is connected, such as "redis://host:6379/0",
 *  without a secret; valid as long as the client. Threads: any thread. */
HF_API const char *hf_client_server(const hf_client *client);

/** Asks the server for a sign of life (PING).
 *  @return HF_OK, or the error that stands in the way. */
HF_API hf_status hf_client_ping(hf_client *client, hf_error *err);

/* ---------------------------------------------------------------- owner */

/** Who holds. By default the calling thread, under an id that is never used
 *  again; an explicit owner may act from any thread. On the wire:
 *  "uuid:ordinal", as in Redisson (RedissonBaseLock.getLockName). */
typedef struct hf_owner hf_owner;

/** @return a new owner of this client, to be given to hf_owner_free; NULL on
 *  HF_ENOMEM, HF_EFORKED or HF_ECLOSED. Threads: any thread. */
HF_API hf_owner *hf_owner_new(hf_client *client, hf_error *err);
/** Frees the handle; what the owner holds stays held. NULL is allowed. */
HF_API void hf_owner_free(hf_owner *owner);
/** @return the id as it stands on the server; valid as long as the owner. */
HF_API const char *hf_owner_id(const hf_owner *owner);

/* ------------------------------------------------------------ cancelling */

/** Ends waits from another thread. One may serve many acquisitions; once
 *  fired it stays fired. */
typedef struct hf_cancel hf_cancel;

/** @return a new cancel handle, to be given to hf_cancel_free after the last
 *  acquisition that uses it has returned; NULL when out of memory. */
HF_API hf_cancel *hf_cancel_new(void);
/** Ends every acquisition, present and future, that was given this handle:
 *  it returns HF_CANCELLED and leaves nothing behind on the server.
 *  Threads: any thread. */
HF_API void hf_cancel_fire(hf_cancel *cancel);
/** NULL is allowed. */
HF_API void hf_cancel_free(hf_cancel *cancel);

/* ----------------------------------------------------------------- lock */

/** A name on a server that one owner at a time may hold. */
typedef struct hf_lock hf_lock;
/** One acquisition of a lock. */
typedef struct hf_lease hf_lease;

#define HF_WAIT_FOREVER INT64_C(-1)
#define HF_NAME_MAX ((size_t)16 * 1024 * 1024) /**< bytes */
#define HF_LEASE_MIN_MS INT64_C(20)
#define HF_LEASE_MAX_MS (INT64_C(366) * 24 * 3600 * 1000)

/** How a lock behaves. All but HF_KIND_SIMPLE and HF_KIND_PERMIT are hashes on
 *  the server; REENTRANT, NON_REENTRANT, SPIN and FENCED of one name exclude
 *  one another. docs/choosing.md compares them. Numbers never change. */
typedef enum hf_kind {
    /** An owner may take it again; Redisson RLock. */
    HF_KIND_REENTRANT = 0,
    /** A second acquisition by its owner is HF_EHELD; RNonReentrantLock. */
    HF_KIND_NON_REENTRANT = 1,
    /** Served in the order of arrival; Redisson RFairLock. */
    HF_KIND_FAIR = 2,
    HF_KIND_FAIR_NON_REENTRANT = 3,
    /** Shared among readers; Redisson RReadWriteLock.readLock. */
    HF_KIND_READ = 4,
    /** Excludes readers and writers; its owner may read as well. */
    HF_KIND_WRITE = 5,
    /** Waiters ask again and again, without a subscription: for very many
     *  locks; Redisson RedissonSpinLock. */
    HF_KIND_SPIN = 6,
    /** Each grant has a larger token than all before; RFencedLock. */
    HF_KIND_FENCED = 7,
    /** A string set by SET NX PX, not reentrant; its waiters ask again and
     *  again. Redis manual "Distributed locks". */
    HF_KIND_SIMPLE = 8,
    /** One of the permits of an expirable semaphore, for the time of a lease;
     *  RPermitExpirableSemaphore. Owners do not matter. */
    HF_KIND_PERMIT = 9
} hf_kind;

/** Zero means default in every field. */
typedef struct hf_lock_options {
    size_t struct_size; /**< set by HF_LOCK_OPTIONS_INIT */
    hf_kind kind;       /**< default HF_KIND_REENTRANT */
    /** Fair kinds: how long a waiter without a time-out of its own is believed
     *  to live after its last sign of life; default 300000. Source: Redisson's
     *  fairLockWaitTimeout. */
    int64_t fair_wait_ms;
    /** Fenced: how long the counter of tokens outlives the last grant; default
     *  for ever. */
    int64_t token_life_ms;
    /** Spin and simple: time between two tries, doubled each time up to the
     *  second, with jitter unless the two are equal. Default 1 and 128; for
     *  simple locks 10 and 10. Source: Redisson LockOptions.BackOff. */
    int64_t backoff_first_ms;
    int64_t backoff_max_ms;
    /** Read: give way to writers of holdfast that wait; default: do not. */
    int prefer_writers;
} hf_lock_options;

#define HF_LOCK_OPTIONS_INIT                                                   \
    {                                                                          \
        sizeof(hf_lock_options), HF_KIND_REENTRANT, 0, 0, 0, 0, 0              \
    }

/** Opens a lock of any kind. No I/O.
 *  @param[in] name     any bytes, `length` of them, as in hf_lock_open
 *  @param[in] options  NULL: a reentrant lock
 *  @return the lock, to be given to hf_lock_free; NULL on HF_EINVAL,
 *          HF_ENOMEM, HF_EFORKED, HF_ECLOSED
 *  Threads: any thread. Since: 0.1 */
HF_API hf_lock *hf_lock_open_with(hf_client *client, const void *name,
                                  size_t length, const hf_lock_options *options,
                                  hf_error *err);

/** Opens a reentrant lock. No I/O.
 *  @param[in] name  not empty, at most HF_NAME_MAX bytes; any bytes in the
 *                   _bytes form
 *  @return the lock, to be given to hf_lock_free; NULL on HF_EINVAL,
 *          HF_ENOMEM, HF_EFORKED, HF_ECLOSED
 *  Threads: any thread.
 *  Source: Redisson RedissonLock; state on the server is exactly its. */
HF_API hf_lock *hf_lock_open(hf_client *client, const char *name,
                             hf_error *err);
HF_API hf_lock *hf_lock_open_bytes(hf_client *client, const void *name,
                                   size_t length, hf_error *err);
/** Frees the handle; leases of it live on. NULL is allowed. */
HF_API void hf_lock_free(hf_lock *lock);

/** Why a lease was lost. */
typedef enum hf_loss {
    HF_LOSS_NONE = 0,
    HF_LOSS_EXPIRED = 1, /**< not renewed in time, or a fixed lease ended */
    HF_LOSS_REVOKED = 2, /**< the server no longer lists this owner */
    HF_LOSS_MAX_HOLD = 3 /**< max_hold_ms has passed */
} hf_loss;

/** Told once when a lease is lost; not after a release. Runs on the client's
 *  background thread with no lock held; may ask, release and free any lease,
 *  must not block for long nor free the client. */
typedef void (*hf_lost_fn)(void *arg, hf_lease *lease, hf_loss why);

/** Zero means default in every field. */
typedef struct hf_acquire_options {
    size_t struct_size; /**< set by HF_ACQUIRE_OPTIONS_INIT */
    hf_owner *owner;    /**< default: the calling thread */
    hf_cancel *cancel;  /**< default: none */
    int64_t wait_ms;    /**< 0: try once; HF_WAIT_FOREVER */
    /** Above 0: a fixed lease, never renewed. 0: the watchdog's lease,
     *  renewed until release, loss or max_hold_ms. */
    int64_t lease_ms;
    int64_t max_hold_ms; /**< ceiling for renewal; default none */
    hf_lost_fn on_lost;
    void *on_lost_arg;
} hf_acquire_options;

#define HF_ACQUIRE_OPTIONS_INIT                                                \
    {                                                                          \
        sizeof(hf_acquire_options), NULL, NULL, 0, 0, 0, NULL, NULL            \
    }

/** Takes the lock, waiting at most so long. A second acquisition by the same
 *  owner succeeds at once and adds one to the hold count.
 *
 *  @param[in]  wait_ms  HF_WAIT_FOREVER, or 0 for a single try
 *  @param[out] lease    set on HF_OK, to be given to hf_lease_free; NULL if
 *                       the release will come by hf_lock_release
 *  @return HF_OK; HF_NOT_ACQUIRED (time-out, or held by another on a try);
 *          HF_CANCELLED; HF_EUNREACHABLE when the server has not answered in
 *          that time; another error, after which nothing is held: what a lost
 *          reply may have granted is given back in the background
 *  Blocks: until granted or the time-out.
 *  Threads: any thread; not from a callback.
 *  Source: Redisson RedissonLock.lock, tryLock; kinds/lua/lock_acquire.lua */
HF_API hf_status hf_lock_acquire(hf_lock *lock, int64_t wait_ms,
                                 hf_lease **lease, hf_error *err);
/** hf_lock_acquire with wait 0: one try, no waiting. */
HF_API hf_status hf_lock_try(hf_lock *lock, hf_lease **lease, hf_error *err);
/** hf_lock_acquire with everything that can be chosen. */
HF_API hf_status hf_lock_acquire_with(hf_lock *lock,
                                      const hf_acquire_options *options,
                                      hf_lease **lease, hf_error *err);

/** Gives back the latest live acquisition of this lock by an owner (NULL: the
 *  calling thread), as hf_lease_release does.
 *  @return HF_ENOTHELD when that owner holds nothing here. */
HF_API hf_status hf_lock_release(hf_lock *lock, hf_owner *owner, hf_error *err);

/** Deletes the lock whoever holds it, and wakes a waiter. Its holder is told
 *  of the loss at its next renewal. Leases of this client are lost at once.
 *  @param[out] released  optional: non-zero if there was a lock to delete
 *  @return HF_EUNKNOWN when the reply was lost: it is not said again by itself,
 *          for by then the lock may be the next holder's
 *  Source: Redisson RedissonLock.forceUnlock */
HF_API hf_status hf_lock_force_release(hf_lock *lock, int *released,
                                       hf_error *err);

/** @param[out] locked  non-zero while anybody holds the lock */
HF_API hf_status hf_lock_is_locked(hf_lock *lock, int *locked, hf_error *err);
/** @param[in]  owner  NULL: the calling thread
 *  @param[out] held   non-zero if the server lists the owner */
HF_API hf_status hf_lock_is_held_by(hf_lock *lock, hf_owner *owner, int *held,
                                    hf_error *err);
/** @param[out] count  the owner's hold count on the server, 0 for none */
HF_API hf_status hf_lock_hold_count(hf_lock *lock, hf_owner *owner,
                                    int64_t *count, hf_error *err);
/** @param[out] remaining_ms  until the lock ends by itself; -1 a lock
 *                            without an end, -2 not locked */
HF_API hf_status hf_lock_remaining_ms(hf_lock *lock, int64_t *remaining_ms,
                                      hf_error *err);

/** One lock as the server sees it. */
typedef struct hf_lock_info {
    size_t struct_size; /**< of this version of the library */
    const char *name;   /**< bytes, with a NUL behind */
    size_t name_length;
    int locked;
    const char *owner; /**< "uuid:thread"; NULL when not locked */
    int64_t hold_count;
    int64_t remaining_ms; /**< as hf_lock_remaining_ms */
} hf_lock_info;

/** Called for each lock; what it points to lives until it returns. Return
 *  non-zero to stop. No lock of the library is held. */
typedef int (*hf_lock_info_fn)(void *arg, const hf_lock_info *info);

/** Reads one lock (one round trip) and hands it to fn. */
HF_API hf_status hf_lock_inspect(hf_lock *lock, hf_lock_info_fn fn, void *arg,
                                 hf_error *err);
/** Finds the locks whose names match a glob pattern (NULL: all) by SCAN, and
 *  hands each to fn; a lock may be missed or seen late if it comes or goes
 *  meanwhile, none is handed out twice. */
HF_API hf_status hf_client_list_locks(hf_client *client, const char *glob,
                                      hf_lock_info_fn fn, void *arg,
                                      hf_error *err);

/* ---------------------------------------------------------------- lease */

/** Whether a holder may still act. LOST is final for an acquisition. */
typedef enum hf_lease_state {
    HF_LEASE_HELD = 1,
    HF_LEASE_SUSPECT = 2, /**< a renewal failed, the deadline is ahead */
    HF_LEASE_LOST = 3,
    HF_LEASE_RELEASED = 4
} hf_lease_state;

/** All of these are local, without I/O or locks. Threads: any thread; safe
 *  inside callbacks. The deadline is the time at which the last confirmed
 *  acquire or renewal was *sent*, plus the lease, minus a hundredth of it and
 *  2 ms for the clocks' difference (CLOCK_BOOTTIME). */
HF_API hf_lease_state hf_lease_get_state(const hf_lease *lease);
/** @return non-zero before the deadline of a lease neither lost nor
 *  released. */
HF_API int hf_lease_is_held(const hf_lease *lease);
/** @return how long this holder may still act; 0 when lost or released. */
HF_API int64_t hf_lease_remaining_ms(const hf_lease *lease);
/** @return why it was lost; HF_LOSS_NONE as long as it is not. */
HF_API hf_loss hf_lease_loss(const hf_lease *lease);
/** @return the fencing token of this acquisition; 0 for kinds without. */
HF_API uint64_t hf_lease_token(const hf_lease *lease);
/** @return the owner's id as it stands on the server; valid as long as the
 *  lease. */
HF_API const char *hf_lease_owner_id(const hf_lease *lease);

/** @return a descriptor that becomes readable, and stays so, when the lease
 *  is lost; it is the lease's, close it not; -1 with err set when there is
 *  none to be had. Poll it, do not read it. */
HF_API int hf_lease_fd(hf_lease *lease, hf_error *err);

/** Gives the lease back. Renewal stops before the command is sent. Idempotent:
 *  a repeat returns HF_OK, or HF_ELOST for a lost one.
 *
 *  @return HF_OK; HF_ELOST when it had been lost before (nothing of the next
 *          holder is touched); HF_EUNKNOWN when the server did not confirm
 *          within the command time-out: the release goes on in the
 *          background, and the lease ends by itself at the latest when its
 *          time is up; HF_EPERM or HF_ESERVER when the server refused
 *  Threads: any thread.
 *  Source: Redisson RedissonBaseLock.unlock; kinds/lua/lock_release.lua */
HF_API hf_status hf_lease_release(hf_lease *lease, hf_error *err);

/** Frees the handle, and releases what it still holds (in the background).
 *  NULL is allowed. */
HF_API void hf_lease_free(hf_lease *lease);

/** Lets go of a lease without giving it back: it stays held on the server for
 *  lease_ms from now, and whoever is told its owner's id, another process for
 *  instance, can go on with it by hf_lock_adopt. Here it counts as released.
 *  To the server the two are the same owner; so it must have been acquired for
 *  an hf_owner, which gets this lock no more (HF_EHELD).
 *  @return HF_OK; HF_EINVAL for a thread's lease, for an owner that holds the
 *          lock more than once, and for kinds without owners; HF_ELOST; another
 *          error, after which the lease is what it was
 *  Threads: any thread. Since: 0.1 */
HF_API hf_status hf_lease_hand_over(hf_lease *lease, int64_t lease_ms,
                                    hf_error *err);
/** Goes on with what another process has handed over.
 *  @param[in] owner_id  hf_lease_owner_id of the lease handed over
 *  @param[in] options   lease_ms, max_hold_ms and on_lost count; NULL: the
 *                       watchdog's lease
 *  @param[out] lease    set on HF_OK, to be given to hf_lease_free; its token
 *                       is 0
 *  @return HF_ENOTHELD when that owner does not hold the lock
 *  Threads: any thread. Since: 0.1 */
HF_API hf_status hf_lock_adopt(hf_lock *lock, const char *owner_id,
                               const hf_acquire_options *options,
                               hf_lease **lease, hf_error *err);

/* ------------------------------------------------------ embedded server */

/** The private server of this user; see docs/architecture.md. */
typedef struct hf_embedded_info {
    size_t struct_size; /**< set by HF_EMBEDDED_INFO_INIT */
    int running;
    int64_t pid;
    char socket_path[108];
    char version[64]; /**< such as "redis 7.0.15" */
    int64_t uptime_s;
} hf_embedded_info;

#define HF_EMBEDDED_INFO_INIT                                                  \
    {                                                                          \
        sizeof(hf_embedded_info), 0, 0, {0}, {0}, 0                            \
    }

/** Says whether the embedded server runs, without starting it. */
HF_API hf_status hf_embedded_status(hf_embedded_info *info, hf_error *err);
/** Ends the embedded server; what was locked there is free.
 *  @param[out] stopped  optional: non-zero if one was running */
HF_API hf_status hf_embedded_stop(int *stopped, hf_error *err);

/* ---------------------------------------------------------- conveniences */

/** What hf_with_lock tells its function; lives until that returns. */
typedef struct hf_with_context {
    size_t struct_size; /**< of this version of the library */
    int success;        /**< non-zero: the lock was acquired */
    hf_status status;   /**< what came of the acquisition */
    const char *key;    /**< the lock's name, or the first's of several; with a
                             NUL behind */
    size_t key_length;
    const char *token; /**< the owner's id; NULL without success */
    hf_lease *lease;   /**< NULL without success; free it not */
} hf_with_context;

typedef int (*hf_with_fn)(void *arg, const hf_with_context *context);

/** Acquires a lock of any kind, calls fn, and releases what was acquired,
 *  unless fn has done so. fn is called whatever came of the acquisition: it
 *  looks at context->success before it acts, and at the lease while it does.
 *
 *  @param[in]  options   as for hf_lock_acquire_with; NULL: a single try
 *  @param[out] returned  optional: what fn returned; untouched if it was not
 *                        called, for want of a lock, an open client or memory
 *  @return what came of the acquisition, if that failed; of the release
 *          otherwise, such as HF_ELOST when the lease was lost meanwhile
 *  Blocks: as hf_lock_acquire_with, fn and hf_lease_release.
 *  Threads: any thread; fn runs in the caller's. Since: 0.1 */
HF_API hf_status hf_with_lock(hf_lock *lock, const hf_acquire_options *options,
                              hf_with_fn fn, void *arg, int *returned,
                              hf_error *err);

/** Releases a simple lock (HF_KIND_SIMPLE) by its token: for programs that hand
 *  the token on, and for other clients' locks of the same make.
 *
 *  @param[in]  name    of the lock
 *  @param[in]  token   as hf_lease_owner_id says it, or any other string that
 *                      the key may hold
 *  @param[out] result  optional: 1 released, 0 it is another's, -1 it is
 *                      nobody's (released before, or its time was up)
 *  @return HF_OK with each of these; HF_EUNKNOWN when the reply was lost: it
 *          is not said again by itself, for by then the owner may have taken
 *          the lock anew; HF_EWRONGTYPE when the key is no string
 *  Threads: any thread; not from a callback. Since: 0.1 */
HF_API hf_status hf_simple_release(hf_client *client, const char *name,
                                   const char *token, int *result,
                                   hf_error *err);

/* ------------------------------------------------------------- inspecting */

/** What a name is, as far as its state on the server tells. */
typedef enum hf_shape {
    HF_SHAPE_NONE = 0, /**< nothing, or a plain lock that is free */
    /** Reentrant, non-reentrant or spin; also a fair lock without waiters. */
    HF_SHAPE_LOCK = 1,
    HF_SHAPE_FAIR = 2,   /**< somebody waits in its queue */
    HF_SHAPE_FENCED = 3, /**< it has given out tokens */
    HF_SHAPE_READ = 4,   /**< a read/write lock that readers have */
    HF_SHAPE_WRITE = 5,  /**< one that a writer has, who may read as well */
    HF_SHAPE_SIMPLE = 6, /**< a string, whose value is the owner's token */
    /** A number: a semaphore, permits of which none is held, or a latch. */
    HF_SHAPE_COUNTER = 7,
    HF_SHAPE_PERMITS = 8 /**< permits of which some were had for a time */
} hf_shape;

/** One who has a lock, or waits for it. */
typedef struct hf_party {
    const char *id; /**< bytes as they stand on the server, with a NUL behind;
                         a permit's as Redisson shows it, in 32 digits; a
                         writer's ends in ":write" */
    size_t id_length;
    int64_t count; /**< hold count; 0 for one who waits */
    /** Until the hold ends unless renewed, or the waiter is believed to be
     *  dead: 0 it has ended, -1 without an end or not known. */
    int64_t remaining_ms;
} hf_party;

/** What stands on the server under a name. */
typedef struct hf_inspection {
    size_t struct_size; /**< of this version of the library */
    const char *name;   /**< bytes, with a NUL behind */
    size_t name_length;
    hf_shape shape;
    int locked;           /**< somebody has it; 0 for a counter */
    int64_t remaining_ms; /**< of the key, as hf_lock_remaining_ms */
    uint64_t token;       /**< the latest fencing token; 0 for none */
    int64_t number;       /**< of a counter; of permits, how many are to be
                               had; else 0 */
    const hf_party *holders;
    size_t holder_count;
    /** In the order in which they will be served: of a fair lock all; of a
     *  read/write lock the latest writer; of a semaphore those who wait by
     *  no_starvation. Others leave no trace on the server. */
    const hf_party *waiters;
    size_t waiter_count;
} hf_inspection;

/** What it points to lives until it returns. Return non-zero to stop. No lock
 *  of the library is held. */
typedef int (*hf_inspect_fn)(void *arg, const hf_inspection *seen);

/** Hands what stands under a name, of whatever kind, to fn; changes nothing.
 *  Needs the rights to EVALSHA and EVAL; of what belongs to a name, but
 *  may not be read, nothing is told.
 *  @param[in] name  any bytes, `length` of them, as in hf_lock_open
 *  @return HF_OK after fn was called, once; HF_EWRONGTYPE when the key is of
 *          no kind of lock or synchronizer
 *  Blocks: one round trip. Threads: any thread; not from a callback.
 *  Since: 0.1 */
HF_API hf_status hf_inspect(hf_client *client, const void *name, size_t length,
                            hf_inspect_fn fn, void *arg, hf_error *err);
/** The same of all names that match a glob pattern (NULL: all), by SCAN; one
 *  may be missed or seen late if it comes or goes meanwhile, none is handed
 *  out twice. Any number is a counter, and any other short string a simple
 *  lock: whose they are, only their owner knows.
 *  @return HF_EPERM when there is nothing that the user may read, but something
 *          that it may not */
HF_API hf_status hf_inspect_all(hf_client *client, const char *glob,
                                hf_inspect_fn fn, void *arg, hf_error *err);

/* ------------------------------------------------- several locks as one */

/** Opens several locks as one, which is had with all of them or not at all.
 *  They may be of any kinds, and of any clients and servers. No I/O.
 *
 *  What hf_lock_acquire and its like yield is one lease:
 *  - its state is the worst of its members'; its remaining time, the smallest;
 *  - it is lost when any of them is: on_lost is called once, and those that
 *    still live are given back;
 *  - hf_lease_release gives all of them back, even if one fails, and returns
 *    the worst outcome: HF_ELOST before other errors, HF_EUNKNOWN last;
 *  - its token is 0, for hf_multi_token has each member's; its owner's id is
 *    that of the first lock given.
 *
 *  To acquire them: nothing is held while one of them is waited for. So it can
 *  be part of no deadlock, neither with other locks of this make, nor with
 *  single ones, nor with Redisson's RedissonMultiLock, in whatever order they
 *  are taken. In return who wants many may be overtaken by those who want one.
 *  A member of a fair kind keeps its place in the queue only until it is
 *  granted: if another one is not to be had then, it asks for a new place. With
 *  lease_ms or max_hold_ms at least half of that is left of each member when
 *  the last one is granted. HF_EHELD is returned for all if it is for one.
 *
 *  hf_lock_release finds the lease by its locks, whichever handle they were
 *  acquired by. hf_lock_force_release ends all of them; hf_lock_is_locked is
 *  non-zero if any is locked, hf_lock_is_held_by if all are held;
 *  hf_lock_hold_count and hf_lock_remaining_ms are the smallest, the latter of
 *  those that are locked. An explicit owner is of any of their clients.
 *  hf_lock_inspect, the hf_permits_* functions, handing over and adopting are
 *  for single locks.
 *
 *  @param[in] locks  `count` of them; they may be freed before the result. One
 *                    that is several itself stands for its members. A name that
 *                    is given twice for one server is HF_EINVAL.
 *  @return the lock, to be given to hf_lock_free; NULL on HF_EINVAL, HF_ENOMEM,
 *          HF_EFORKED, HF_ECLOSED
 *  Threads: any thread. Since: 0.1
 *  Source: Redisson RedissonMultiLock, each of whose locks may be one here and
 *  the other way round */
HF_API hf_lock *hf_multi_open(hf_lock *const *locks, size_t count,
                              hf_error *err);

/** @param[in] index  of the lock, as given to hf_multi_open
 *  @return the fencing token of one member of a lease of several; 0 for kinds
 *          without, and beyond the last. For a single lock's lease index 0 is
 *          hf_lease_token. Threads: any thread; safe inside callbacks. */
HF_API uint64_t hf_multi_token(const hf_lease *lease, size_t index);

#ifdef __cplusplus
}
#endif

#include "holdfast/synchronizers.h"

#endif /* HOLDFAST_H */
