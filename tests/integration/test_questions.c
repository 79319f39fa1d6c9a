/* Questions: what locks there are, and what is known of one, as far as the
 * server lets the user know. */
#include "support/fixture.h"
#include "support/net.h"
#include "support/rubbish.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MANY 350 /* more than a SCAN gives at once */

/* ---- listing */

/* Which of the locks lock:0, lock:1, ... were shown. */
typedef struct shown {
    bool has[MANY];
    int count;
    int most; /* then it is enough; 0: all */
} shown;

static int note(void *arg, const hf_lock_info *info)
{
    shown *s = arg;
    int number = -1;
    assert_int_equal(sscanf(info->name, "lock:%d", &number), 1);
    assert_in_range(number, 0, MANY - 1);
    assert_false(s->has[number]);
    assert_true(info->locked);
    assert_string_equal(info->owner, "someone:1");
    assert_int_equal(info->hold_count, 1 + number % 3);
    assert_in_range(info->remaining_ms, 1, 3600000);
    s->has[number] = true;
    s->count++;
    return s->count == s->most;
}

static void make_locks(void)
{
    for (int i = 0; i < MANY; i++) {
        assert_true(
            srv_cmd_is(server, "1", "HSET lock:%d someone:1 %d", i, 1 + i % 3));
        assert_true(srv_cmd_is(server, "1", "PEXPIRE lock:%d 3600000", i));
    }
}

/* Hashes that are no locks, and what is no hash at all. */
static void make_others(void)
{
    assert_true(srv_cmd_is(server, "2", "HSET two a:1 1 b:2 1"));
    assert_true(srv_cmd_is(server, "1", "HSET thread a:x 1"));
    assert_true(srv_cmd_is(server, "1", "HSET colon a 1"));
    assert_true(srv_cmd_is(server, "1", "HSET count a:1 many"));
    assert_true(srv_cmd_is(server, "1", "HSET empty a: 1"));
    assert_true(srv_cmd_is(server, "OK", "SET text someone:1"));
}

static void test_many_are_listed_once(void **state)
{
    (void)state;
    shown all = {0};
    shown some = {.most = 5};
    shown ten = {0};
    shown none = {0};
    make_locks();
    make_others();
    expect(HF_OK, hf_client_list_locks(client, NULL, note, &all, &err));
    assert_int_equal(all.count, MANY);
    expect(HF_OK, hf_client_list_locks(client, NULL, note, &some, &err));
    assert_int_equal(some.count, 5);
    expect(HF_OK, hf_client_list_locks(client, "lock:?", note, &ten, &err));
    assert_int_equal(ten.count, 10);
    expect(HF_OK, hf_client_list_locks(client, "t*", note, &none, &err));
    assert_int_equal(none.count, 0);
    free(srv_cmd(server, "FLUSHALL"));
}

/* What the user may not read is passed over; if that is all there is, it is
 * said. */
static void test_unreadable_ones(void **state)
{
    (void)state;
    shown one = {0};
    shown none = {0};
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    options.username = "ada";
    options.password = "sesame";
    assert_true(srv_cmd_is(server, "OK",
                           "ACL SETUSER ada on >sesame ~lock:7 &* +@all"));
    make_locks();
    hf_client *ada = test_client(srv_url(server), &options);
    expect(HF_OK, hf_client_list_locks(ada, NULL, note, &one, &err));
    assert_int_equal(one.count, 1);
    assert_true(one.has[7]);
    expect(HF_EPERM, hf_client_list_locks(ada, "lock:1?", note, &none, &err));
    assert_non_null(strstr(hf_error_text(&err), "any of 10 keys"));
    assert_false(hf_error_is_retriable(&err));
    assert_int_equal(none.count, 0);
    hf_client_free(ada);
    free(srv_cmd(server, "FLUSHALL"));
}

/* ---- handles that are none */

static int unused(void *arg, const hf_lock_info *info)
{
    (void)arg;
    fail_msg("called for %s", info->name);
    return 0;
}

static void test_nothing_to_ask_about(void **state)
{
    (void)state;
    int answer = 7;
    int64_t number = 7;
    hf_lock *lock = test_lock(client, test_fresh_name());
    expect(HF_EINVAL, hf_lock_is_locked(NULL, &answer, &err));
    expect(HF_EINVAL, hf_lock_is_held_by(NULL, NULL, &answer, &err));
    expect(HF_EINVAL, hf_lock_hold_count(NULL, NULL, &number, &err));
    expect(HF_EINVAL, hf_lock_remaining_ms(NULL, &number, &err));
    expect(HF_EINVAL, hf_lock_force_release(NULL, &answer, &err));
    expect(HF_EINVAL, hf_lock_inspect(NULL, unused, NULL, &err));
    expect(HF_EINVAL, hf_lock_inspect(lock, NULL, NULL, &err));
    expect(HF_EINVAL, hf_client_list_locks(client, NULL, NULL, NULL, &err));
    expect(HF_EINVAL, hf_client_list_locks(NULL, NULL, note, NULL, &err));
    assert_int_equal(answer, 7);
    assert_int_equal(number, 7);
    hf_lock_free(lock);
}

/* ---- answers that no server gives */

/* What the server made of a function says to SCAN and HGETALL. */
typedef struct odd {
    const char *scan;
    const char *fields;
    hf_status status;
    bool retriable;
    int locks; /* that are shown */
} odd;

static void answer_oddly(void *arg, rubbish_peer *peer,
                         const rubbish_request *request)
{
    const odd *say = arg;
    if (rubbish_is(request, "INFO")) {
        rubbish_text(peer, "$0\r\n\r\n");
    } else if (rubbish_is(request, "SCAN")) {
        rubbish_text(peer, say->scan);
    } else if (rubbish_is(request, "HGETALL")) {
        rubbish_text(peer, say->fields);
    } else if (rubbish_is(request, "PTTL")) {
        rubbish_text(peer, ":1\r\n");
    } else if (request->count > 0) {
        rubbish_text(peer, "+PONG\r\n");
    }
}

#define PAGE "*2\r\n$1\r\n0\r\n*1\r\n$6\r\nlock:0\r\n"
#define TWICE "*2\r\n$1\r\n0\r\n*2\r\n$6\r\nlock:0\r\n$6\r\nlock:0\r\n"
#define FIELDS "*2\r\n$9\r\nsomeone:1\r\n$1\r\n1\r\n"

static void test_odd_answers(void **state)
{
    (void)state;
    static const odd answers[] = {
        {PAGE, FIELDS, HF_OK, false, 1},
        {TWICE, FIELDS, HF_OK, false, 1},
        {"+OK\r\n", FIELDS, HF_EPROTOCOL, false, 0},
        {":0\r\n", FIELDS, HF_EPROTOCOL, false, 0},
        {"$-1\r\n", FIELDS, HF_EPROTOCOL, false, 0},
        {"*0\r\n", FIELDS, HF_EPROTOCOL, false, 0},
        {"*1\r\n$1\r\n0\r\n", FIELDS, HF_EPROTOCOL, false, 0},
        {"*2\r\n$1\r\n0\r\n$1\r\nx\r\n", FIELDS, HF_EPROTOCOL, false, 0},
        {"*2\r\n$1\r\nx\r\n*0\r\n", FIELDS, HF_EPROTOCOL, false, 0},
        {"*2\r\n:0\r\n*0\r\n", FIELDS, HF_EPROTOCOL, false, 0},
        {"*2\r\n$1\r\n0\r\n*2\r\n:1\r\n*0\r\n", FIELDS, HF_OK, false, 0},
        {"-LOADING it\r\n", FIELDS, HF_ESERVER, true, 0},
        {"-ERR no\r\n", FIELDS, HF_ESERVER, false, 0},
        {PAGE, "+OK\r\n", HF_EPROTOCOL, false, 0},
        {PAGE, "*0\r\n", HF_OK, false, 0}, /* gone meanwhile */
        {PAGE, "*1\r\n:1\r\n", HF_OK, false, 0},
        {PAGE, "*2\r\n:1\r\n:1\r\n", HF_OK, false, 0},
        {PAGE, "-WRONGTYPE it\r\n", HF_OK, false, 0},
        {PAGE, "-BUSY it\r\n", HF_ESERVER, true, 0},
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        odd say = answers[i];
        shown s = {0};
        rubbish *fake = rubbish_start(answer_oddly, &say);
        hf_client *far = test_client(rubbish_url(fake), NULL);
        expect(say.status, hf_client_list_locks(far, NULL, note, &s, &err));
        if (say.status != HF_OK) {
            assert_int_equal(hf_error_is_retriable(&err), say.retriable);
        }
        assert_int_equal(s.count, say.locks);
        hf_client_free(far);
        rubbish_stop(fake);
    }
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_many_are_listed_once),
        FIXTURE_TEST(test_unreadable_ones),
        FIXTURE_TEST(test_nothing_to_ask_about),
        FIXTURE_TEST(test_odd_answers),
    };
    return cmocka_run_group_tests(tests, fixture_usual, fixture_end);
}
