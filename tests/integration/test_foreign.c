/* A Redisson client on the other side, played by plain commands: it knows
 * nothing of holdfast but the key, the field and the channel. */
#include "support/ear.h"
#include "support/fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FOREIGN_OWNER "1b2c3d4e-5f60-4718-9a0b-c1d2e3f4a5b6:42"

/* Its acquire: nothing if granted, else the remaining time. */
static const char foreign_lock[] =
    "if redis.call('exists', KEYS[1]) == 0 or "
    "   redis.call('hexists', KEYS[1], ARGV[2]) == 1 then "
    "  redis.call('hincrby', KEYS[1], ARGV[2], 1) "
    "  redis.call('pexpire', KEYS[1], ARGV[1]) "
    "  return nil "
    "end "
    "return redis.call('pttl', KEYS[1])";

/* Its release, with the record that makes it idempotent. */
static const char foreign_unlock[] =
    "local before = redis.call('get', KEYS[3]) "
    "if before then return tonumber(before) end "
    "if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end "
    "local left = redis.call('hincrby', KEYS[1], ARGV[3], -1) "
    "if left > 0 then "
    "  redis.call('pexpire', KEYS[1], ARGV[2]) "
    "  redis.call('set', KEYS[3], 0, 'px', ARGV[4]) "
    "  return 0 "
    "end "
    "redis.call('del', KEYS[1]) "
    "redis.call('publish', KEYS[2], ARGV[1]) "
    "redis.call('set', KEYS[3], 1, 'px', ARGV[4]) "
    "return 1";

static bool foreign_locks(const char *name, const char *reply)
{
    return srv_cmd_is(server, reply, "EVAL %s 1 %s 30000 %s", foreign_lock,
                      name, FOREIGN_OWNER);
}

static bool foreign_unlocks(const char *name, const char *reply)
{
    static int request;
    request++;
    return srv_cmd_is(server, reply,
                      "EVAL %s 3 %s redisson_lock__channel:{%s} "
                      "redisson_unlock_latch:{%s}:%d 0 30000 %s 13500",
                      foreign_unlock, name, name, name, request,
                      FOREIGN_OWNER) &&
           srv_cmd_is(server, strcmp(reply, "(nil)") == 0 ? "0" : "1",
                      "DEL redisson_unlock_latch:{%s}:%d", name, request);
}

static void test_foreign_holder(void **state)
{
    (void)state;
    taker t;
    const char *name = test_fresh_name();
    hf_lock *wanted = test_lock(client, name);
    assert_true(foreign_locks(name, "(nil)"));
    assert_true(foreign_locks(name, "(nil)"));
    /* Its watchdog sees to it that its lease lasts. */
    assert_true(srv_cmd_is(server, "1", "PEXPIRE %s 3600000", name));
    expect(HF_NOT_ACQUIRED, hf_lock_try(wanted, NULL, &err));
    expect(HF_ENOTHELD, hf_lock_release(wanted, NULL, &err));
    taker_park(server, &t, wanted, HF_WAIT_FOREVER, NULL);
    assert_true(foreign_unlocks(name, "0"));
    assert_true(test_is_held(server, name, FOREIGN_OWNER, 1));
    assert_true(srv_cmd_is(server, "1", "PEXPIRE %s 3600000", name));
    assert_true(foreign_unlocks(name, "1"));
    taker_end(&t, HF_OK);
    hf_lock_free(wanted);
}

static void test_foreign_waiter(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_lock *lock = test_lock(client, name);
    hf_lease *lease = test_take(lock);
    hf_lease *again = test_take(lock);
    char *left = srv_cmd(server, "EVAL %s 1 %s 30000 %s", foreign_lock, name,
                         FOREIGN_OWNER);
    assert_in_range(strtoll(left, NULL, 10), 1, 3600000);
    free(left);
    assert_true(foreign_unlocks(name, "(nil)"));
    assert_true(test_is_held(server, name, hf_lease_owner_id(lease), 2));
    ear *e = ear_of_lock(server, name);
    test_give(again);
    assert_true(ear_heard_all(e, server));
    test_give(lease);
    assert_true(ear_hears(e, "0"));
    assert_true(foreign_locks(name, "(nil)"));
    expect(HF_NOT_ACQUIRED, hf_lock_try(lock, NULL, &err));
    assert_true(foreign_unlocks(name, "1"));
    assert_true(ear_hears(e, "0"));
    test_give(test_take(lock));
    ear_free(e);
    hf_lock_free(lock);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_foreign_holder),
        FIXTURE_TEST(test_foreign_waiter),
    };
    return cmocka_run_group_tests(tests, fixture_patient, fixture_end);
}
