/* holdfast: semaphores, permits and latches. A part of holdfast.h, which
 * includes it. */
#ifndef HOLDFAST_SYNCHRONIZERS_H
#define HOLDFAST_SYNCHRONIZERS_H

#include "holdfast/holdfast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------ semaphores */

/** A number of permits that belong to nobody: who takes some gives some back,
 *  or somebody else does. A permit whose holder dies is gone; HF_KIND_PERMIT
 *  has permits that come back.
 *  Source: Redisson RedissonSemaphore; state on the server is exactly its, but
 *  for private records of what was done lately, which end by themselves. */
typedef struct hf_semaphore hf_semaphore;

/** Zero means default in every field. */
typedef struct hf_semaphore_options {
    size_t struct_size; /**< set by HF_SEMAPHORE_OPTIONS_INIT */
    /** Non-zero: who waits with this option is served in the order of asking,
     *  so that one who needs many permits is not overtaken for ever by those
     *  who need few; a waiter that dies keeps the others waiting for some
     *  seconds. Who asks without it, such as Redisson, knows nothing of
     *  turns. */
    int no_starvation;
} hf_semaphore_options;

#define HF_SEMAPHORE_OPTIONS_INIT                                              \
    {                                                                          \
        sizeof(hf_semaphore_options), 0                                        \
    }

/** Opens a semaphore. No I/O; hf_semaphore_set gives it its permits.
 *  @param[in] name     any bytes, `length` of them, as in hf_lock_open
 *  @param[in] options  optional
 *  @return the semaphore, to be given to hf_semaphore_free; NULL on HF_EINVAL,
 *          HF_ENOMEM, HF_EFORKED, HF_ECLOSED
 *  Threads: any thread. Since: 0.1 */
HF_API hf_semaphore *hf_semaphore_open(hf_client *client, const void *name,
                                       size_t length,
                                       const hf_semaphore_options *options,
                                       hf_error *err);
/** Frees the handle; nothing is given back. NULL is allowed. */
HF_API void hf_semaphore_free(hf_semaphore *semaphore);

/** Takes permits, all of them or none.
 *  @param[in] permits  from 0, which always succeeds, to 2^31 - 1
 *  @param[in] wait_ms  HF_WAIT_FOREVER, or 0 for a single try
 *  @param[in] cancel   optional
 *  @return HF_OK; HF_NOT_ACQUIRED; HF_CANCELLED; HF_EUNREACHABLE when the
 *          server has not answered in that time; another error, after which
 *          nothing is taken: what a lost reply may have granted is given back
 *          in the background
 *  Blocks: until granted or the time-out. Threads: any thread; not from a
 *  callback. Source: RedissonSemaphore.acquire, tryAcquire */
HF_API hf_status hf_semaphore_acquire(hf_semaphore *semaphore, int64_t permits,
                                      int64_t wait_ms, hf_cancel *cancel,
                                      hf_error *err);
/** hf_semaphore_acquire with wait 0. */
HF_API hf_status hf_semaphore_try(hf_semaphore *semaphore, int64_t permits,
                                  hf_error *err);

/** Gives permits back, whoever took them, and wakes those who wait.
 *  @param[in] permits  from 0 to 2^31 - 1
 *  @return HF_OK; HF_EUNKNOWN when the server's reply was lost, and could not
 *          be had over a second connection either: say it again, and there may
 *          be too many
 *  Threads: any thread. Source: RedissonSemaphore.release */
HF_API hf_status hf_semaphore_release(hf_semaphore *semaphore, int64_t permits,
                                      hf_error *err);
/** The same, but nothing is given to a semaphore that is not there (deleted,
 *  or its life is over).
 *  @param[out] released  optional: non-zero if it was there */
HF_API hf_status hf_semaphore_release_if_exists(hf_semaphore *semaphore,
                                                int64_t permits, int *released,
                                                hf_error *err);
/** Makes the semaphore with so many permits, unless there is one.
 *  @param[in]  lifetime_ms  0: for ever
 *  @param[out] set          optional: non-zero if it was made
 *  Source: RedissonSemaphore.trySetPermits */
HF_API hf_status hf_semaphore_set(hf_semaphore *semaphore, int64_t permits,
                                  int64_t lifetime_ms, int *set, hf_error *err);
/** Changes how many there are, by a number that may be below 0; its end stays
 *  what it was. Source: RedissonSemaphore.addPermits */
HF_API hf_status hf_semaphore_add(hf_semaphore *semaphore, int64_t permits,
                                  hf_error *err);
/** Takes all there are; the semaphore's end stays what it was.
 *  @param[out] drained  optional: how many that were
 *  Source: RedissonSemaphore.drainPermits */
HF_API hf_status hf_semaphore_drain(hf_semaphore *semaphore, int64_t *drained,
                                    hf_error *err);
/** @param[out] available  how many there are; 0 if there is no semaphore */
HF_API hf_status hf_semaphore_available(hf_semaphore *semaphore,
                                        int64_t *available, hf_error *err);

/* ---------------------------------------------------- permits for a time */

/** For locks opened with HF_KIND_PERMIT; HF_EINVAL for others. One permit is
 *  had by hf_lock_acquire, for as long as its lease is held, and given back by
 *  hf_lease_release; hf_lease_owner_id is its id, as Redisson shows it. The
 *  outcome HF_EUNKNOWN is that of hf_semaphore_release.
 *  Source: Redisson RedissonPermitExpirableSemaphore. */

/** Makes so many permits, unless there are some.
 *  @param[out] set  optional: non-zero if they were made */
HF_API hf_status hf_permits_try_set(hf_lock *lock, int64_t permits, int *set,
                                    hf_error *err);
/** Sets how many there are in all, those that are held included: fewer than
 *  none may then be available. */
HF_API hf_status hf_permits_set(hf_lock *lock, int64_t permits, hf_error *err);
/** Changes how many there are, by a number that may be below 0. */
HF_API hf_status hf_permits_add(hf_lock *lock, int64_t permits, hf_error *err);
/** @param[out] available  how many are to be had */
HF_API hf_status hf_permits_available(hf_lock *lock, int64_t *available,
                                      hf_error *err);
/** @param[out] acquired  how many are held */
HF_API hf_status hf_permits_acquired(hf_lock *lock, int64_t *acquired,
                                     hf_error *err);
/** @param[out] total  how many there are, held or not */
HF_API hf_status hf_permits_total(hf_lock *lock, int64_t *total, hf_error *err);

/* --------------------------------------------------------------- latches */

/** A count that goes down to none; who waits for that goes on then.
 *  Source: Redisson RedissonCountDownLatch; state on the server is exactly its,
 *  but for private records, which end by themselves. */
typedef struct hf_latch hf_latch;

/** Opens a latch. No I/O; hf_latch_set gives it its count.
 *  @return the latch, to be given to hf_latch_free; NULL on HF_EINVAL,
 *          HF_ENOMEM, HF_EFORKED, HF_ECLOSED
 *  Threads: any thread. Since: 0.1 */
HF_API hf_latch *hf_latch_open(hf_client *client, const void *name,
                               size_t length, hf_error *err);
/** NULL is allowed. */
HF_API void hf_latch_free(hf_latch *latch);

/** Makes the latch with a count, unless there is one.
 *  @param[in]  count        from 0 to 2^31 - 1
 *  @param[in]  lifetime_ms  0: for ever
 *  @param[out] set          optional: non-zero if it was made
 *  Source: RedissonCountDownLatch.trySetCount */
HF_API hf_status hf_latch_set(hf_latch *latch, int64_t count,
                              int64_t lifetime_ms, int *set, hf_error *err);
/** Counts down by so many, and wakes those who wait when nothing is left.
 *  Without effect on a latch that is not there.
 *  @param[in]  by    at least 1
 *  @param[out] left  optional
 *  @return HF_OK; HF_EUNKNOWN as in hf_semaphore_release
 *  Source: RedissonCountDownLatch.countDown */
HF_API hf_status hf_latch_count_down(hf_latch *latch, int64_t by, int64_t *left,
                                     hf_error *err);
/** Waits until the count is none, or there is no latch.
 *  @param[in] wait_ms  HF_WAIT_FOREVER, or 0 to look once
 *  @param[in] cancel   optional
 *  @return HF_OK; HF_NOT_ACQUIRED when the time is over; HF_CANCELLED;
 *          HF_EUNREACHABLE; another error
 *  Blocks: until then. Threads: any thread; not from a callback.
 *  Source: RedissonCountDownLatch.await */
HF_API hf_status hf_latch_await(hf_latch *latch, int64_t wait_ms,
                                hf_cancel *cancel, hf_error *err);
/** @param[out] count  what is left; 0 if there is no latch */
HF_API hf_status hf_latch_count(hf_latch *latch, int64_t *count, hf_error *err);
/** Deletes the latch, and lets those who wait go on.
 *  @param[out] deleted  optional: non-zero if there was one
 *  Source: RedissonCountDownLatch.delete */
HF_API hf_status hf_latch_delete(hf_latch *latch, int *deleted, hf_error *err);

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_SYNCHRONIZERS_H */
