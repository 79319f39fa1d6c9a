/* Everything that is the platform's: clock, random bytes, waiting, waking,
 * sockets, fork, child servers. The only home of platform conditionals; Linux
 * is the only platform so far. Times are nanoseconds on CLOCK_BOOTTIME. */
#ifndef HF__OS_OS_H
#define HF__OS_OS_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HF__MS INT64_C(1000000)
#define HF__SECOND INT64_C(1000000000)

/* ---- clock.c: CLOCK_BOOTTIME counts suspend, CLOCK_MONOTONIC does not */
int64_t hf__now(void);

/* ---- random.c: bytes from getrandom(2); HF_ESYSTEM if there are none */
hf_status hf__random(void *out, size_t length, hf_error *err);

/* ---- park.c: one thread sleeps, another wakes it; a futex, one word.
 * An unpark before the park is not lost: the park returns at once. */
typedef struct hf__parker {
    _Atomic uint32_t word;
} hf__parker;

void hf__parker_init(hf__parker *parker);
/* Sleeps until unparked or until `deadline` (hf__now's clock; HF__NEVER for
 * none). May return early; the caller checks its condition again. */
void hf__park(hf__parker *parker, int64_t deadline);
/* No system call unless the other sleeps. The parker's memory may be gone as
 * soon as its owner has seen the condition, so nothing is touched after the
 * store but the address given to FUTEX_WAKE. */
void hf__unpark(hf__parker *parker);

/* ---- wake.c: what the keeper polls beside sockets; an eventfd and a
 * timerfd on CLOCK_BOOTTIME, both non-blocking and close-on-exec */
typedef struct hf__waker {
    int event_fd;
    int timer_fd;
    int64_t armed; /* for when; HF__NEVER: not known to be */
} hf__waker;

hf_status hf__waker_open(hf__waker *waker, hf_error *err);
void hf__waker_close(hf__waker *waker); /* also fine after a failed open */
void hf__waker_wake(hf__waker *waker);  /* any thread, async-signal-safe */
/* Makes timer_fd readable at `due`; HF__NEVER disarms. */
void hf__waker_arm(hf__waker *waker, int64_t due);
/* Reads both empty. */
void hf__waker_drain(hf__waker *waker);

/* A descriptor that becomes and stays readable once raised. -1 on failure. */
int hf__flag_fd_open(void);
void hf__flag_fd_raise(int fd);

/* ---- fork.c: how often this process image has been forked since its
 * parent; a handle that remembers another number is a parent's. No system
 * call. hf__fork_watch registers the handler (once, thread-safe). */
hf_status hf__fork_watch(hf_error *err);
unsigned hf__fork_generation(void);

/* ---- socket.c: non-blocking, close-on-exec, no SIGPIPE, TCP_NODELAY,
 * keepalive and TCP_USER_TIMEOUT where TCP */
typedef struct hf__address_list hf__address_list; /* addrinfo results */

/* Resolves (blocks in getaddrinfo unless the host is numeric). NULL host
 * with a path makes a single unix address. */
hf_status hf__resolve(const char *host, int port, const char *unix_path,
                      hf__address_list **out, hf_error *err);
/* The same, but only if nobody need be asked: HF_OK with *out NULL for a
 * host's name. */
hf_status hf__resolve_at_once(const char *host, int port, const char *unix_path,
                              hf__address_list **out, hf_error *err);
void hf__address_list_free(hf__address_list *list);
size_t hf__address_count(const hf__address_list *list);
/* "127.0.0.1:6379" or the path; returns out. */
const char *hf__address_text(const hf__address_list *list, size_t index,
                             char *out, size_t size);

/* ---- lookup.c: asks the name service in a thread of its own */
typedef struct hf__lookup hf__lookup;

/* *fd, the caller's to close, becomes readable when there is an answer. */
hf_status hf__lookup_start(const char *host, int port, hf__lookup **out,
                           int *fd, hf_error *err);
/* The answer, once. */
hf_status hf__lookup_take(hf__lookup *lookup, hf__address_list **out,
                          hf_error *err);
/* Whether it has been answered or not. NULL is allowed. */
void hf__lookup_drop(hf__lookup *lookup);

/* Begins to connect to one address. *in_progress: wait until the socket is
 * writable, then ask hf__connect_result. `user_timeout_ms` bounds how long
 * sent bytes may stay unacknowledged. On failure errno tells why. */
hf_status hf__connect_start(const hf__address_list *list, size_t index,
                            int64_t user_timeout_ms, int *fd, bool *in_progress,
                            hf_error *err);
hf_status hf__connect_result(int fd, const hf__address_list *list, size_t index,
                             hf_error *err);
/* Makes a connected socket block in hf__recv, at most so long. */
hf_status hf__socket_set_blocking(int fd, int64_t recv_timeout_ms,
                                  hf_error *err);

/* Results below 0 of send and recv. */
#define HF__IO_AGAIN (-1)  /* would block, timed out or was interrupted */
#define HF__IO_BROKEN (-2) /* error or end; errno tells, 0 for an end */
/* Never blocks, never raises SIGPIPE. */
ssize_t hf__send(int fd, const void *bytes, size_t length);
/* `wait`: block as set above; otherwise never block. */
ssize_t hf__recv(int fd, void *bytes, size_t size, bool wait);
/* Looks without taking or blocking: 1 if there is something to receive. */
ssize_t hf__peek(int fd);
/* Whose process listens at the other end of a unix socket; -1 for unknown. */
void hf__socket_peer(int fd, uid_t *uid, pid_t *pid);
void hf__socket_shutdown(int fd); /* wakes a thread that blocks in recv */
void hf__close(int fd);

/* poll(2) with nanosecond deadline; EINTR counts as a return with no events.
 * Returns the number of ready descriptors. */
struct pollfd;
int hf__poll(struct pollfd *fds, size_t count, int64_t deadline);

/* ---- spawn.c: a daemon that outlives this process */
/* Starts argv[0] (found on PATH) in a session of its own, stdin, stdout and
 * stderr on /dev/null, no descriptor and no signal mask or handler inherited.
 * HF_ESYSTEM when it could not be executed (not found: says so). *pid is the
 * daemon's, which is not our child. `keep_fd` is the one descriptor that the
 * daemon inherits, under some number; -1 for none. */
hf_status hf__spawn_daemon(const char *const argv[], int keep_fd, pid_t *pid,
                           hf_error *err);
/* Finds a program: `name` itself if it has a slash, else on PATH. A copy to be
 * freed; NULL if there is none that may be executed. */
char *hf__find_program(const char *name);
/* A descriptor that becomes readable when that process, any process, has
 * ended; -1 with errno ESRCH if it has ended already. */
int hf__process_fd(pid_t pid);

#endif
