/* A program of the other library, Redisson: takes the first lock as its scripts
 * do, by a thread that is never in a hurry and never renews. */
#include "sim/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char peer_owner[] = "fa11ed00-0000-4000-8000-000000000000:1";

/* RFencedLock: the counter grows by one with each acquisition. */
static const char acquire_fenced[] =
    "if redis.call('exists', KEYS[1]) == 0 or "
    "redis.call('hexists', KEYS[1], ARGV[2]) == 1 then "
    "local token = redis.call('incr', KEYS[2]) "
    "redis.call('hincrby', KEYS[1], ARGV[2], 1) "
    "redis.call('pexpire', KEYS[1], ARGV[1]) "
    "return {-1, token} end "
    "return {redis.call('pttl', KEYS[1]), -1}";

/* RLock. */
static const char acquire_plain[] =
    "if redis.call('exists', KEYS[1]) == 0 or "
    "redis.call('hexists', KEYS[1], ARGV[2]) == 1 then "
    "redis.call('hincrby', KEYS[1], ARGV[2], 1) "
    "redis.call('pexpire', KEYS[1], ARGV[1]) "
    "return {-1, 0} end "
    "return {redis.call('pttl', KEYS[1]), -1}";

static const char release[] =
    "if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return {0, 0} end "
    "local left = redis.call('hincrby', KEYS[1], ARGV[2], -1) "
    "if left > 0 then redis.call('pexpire', KEYS[1], ARGV[1]) "
    "return {0, left} end "
    "redis.call('del', KEYS[1]) "
    "redis.call('publish', 'redisson_lock__channel:{' .. KEYS[1] .. '}', '0') "
    "return {1, 0}";

static int64_t held; /* how often, as it believes */

bool sim_peer_is(const char *owner)
{
    return strcmp(owner, peer_owner) == 0;
}

static size_t add_word(char *to, size_t at, size_t size, const char *word)
{
    return at + (size_t)snprintf(to + at, size - at, "$%zu\r\n%s\r\n",
                                 strlen(word), word);
}

/* The two numbers of the reply; false if there is none. */
static bool say(const char *script, int64_t numbers[2])
{
    char request[2048];
    char token[64];
    char lease[32];
    size_t n = (size_t)snprintf(request, sizeof(request), "*7\r\n");
    (void)snprintf(token, sizeof(token), "redisson_lock_token:{%s}",
                   sim_lock_name(0));
    (void)snprintf(lease, sizeof(lease), "%" PRId64,
                   sim_skewed(10 * SIM_MS, world.plan.lease_max) / SIM_MS);
    const char *words[] = {"EVAL", script, "2",       sim_lock_name(0),
                           token,  lease,  peer_owner};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        n = add_word(request, n, sizeof(request), words[i]);
    }
    hf__slice reply = sim_server_peer_says((hf__slice){request, n});
    char text[64];
    (void)snprintf(text, sizeof(text), "%.*s", (int)reply.length, reply.data);
    const char *first = strchr(text, ':');
    const char *second = first ? strchr(first + 1, ':') : NULL;
    if (text[0] != '*' || !second) {
        return false;
    }
    numbers[0] = strtoll(first + 1, NULL, 10);
    numbers[1] = strtoll(second + 1, NULL, 10);
    return true;
}

static void acquire(void)
{
    int64_t numbers[2];
    bool fenced = world.plan.kinds[0] == SIM_FENCED;
    if (!say(fenced ? acquire_fenced : acquire_plain, numbers) ||
        numbers[0] != -1) {
        return;
    }
    held++;
    world.totals.counts[SIM_PEER_GRANTED]++;
    SIM_TRACE("the other library has %s, token %" PRId64, sim_lock_name(0),
              numbers[1]);
    if (fenced) {
        sim_check_peer_token(0, (uint64_t)numbers[1]);
    }
}

static void act(void *arg, uint64_t number)
{
    int64_t numbers[2];
    if (world.ending) {
        return;
    }
    if (held > 0 && sim_below(3)) {
        held -= say(release, numbers);
    } else {
        acquire();
    }
    sim_at(world.now + sim_skewed(SIM_MS, SIM_SECOND), act, arg, number);
}

void sim_peer_start(void)
{
    if (world.plan.peer) {
        sim_at(sim_between(0, 500 * SIM_MS), act, NULL, 0);
    }
}
