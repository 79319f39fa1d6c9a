/* What the thinking wing sees of the world: a clock and a source of chance.
 * The network is not called at all: machines answer an event with what is to
 * be done, and are told the outcome by another event. */
#ifndef HF__CORE_SEAM_H
#define HF__CORE_SEAM_H

#include <stdint.h>

typedef struct hf__seam {
    void *ctx;
    int64_t (*now)(void *ctx);     /* nanoseconds, counting suspend */
    uint64_t (*random)(void *ctx); /* for jitter; no secret */
} hf__seam;

#define HF__NS_PER_MS INT64_C(1000000)

static inline int64_t hf__seam_now(const hf__seam *seam)
{
    return seam->now(seam->ctx);
}

/* Something in [span/2, span], so that clients which failed together do not
 * come back together. */
static inline int64_t hf__seam_jitter(const hf__seam *seam, int64_t span)
{
    uint64_t half = (uint64_t)span / 2;
    return span - (int64_t)(half ? seam->random(seam->ctx) % half : 0);
}

/* Waits 25, 50, 100 ... at most 800 ms, each with jitter. */
static inline int64_t hf__seam_backoff(const hf__seam *seam, unsigned failures)
{
    unsigned doublings = failures > 5 ? 5 : failures;
    return hf__seam_jitter(seam, (HF__NS_PER_MS * 25) << doublings);
}

#endif
