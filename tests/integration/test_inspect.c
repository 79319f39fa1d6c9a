/* What stands under a name, as the library hands it out. What each kind looks
 * like is tested by the tool, cli/test_inspect.py; here are the edges. */
#include "support/fixture.h"
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

/* ---- one */

static int check_fair(void *arg, const hf_inspection *seen)
{
    int *calls = arg;
    (*calls)++;
    assert_int_equal(seen->struct_size, sizeof(*seen));
    assert_int_equal(seen->name_length, 3);
    assert_memory_equal(seen->name, "a\0b", 4);
    assert_int_equal(seen->shape, HF_SHAPE_FAIR);
    assert_true(seen->locked);
    assert_int_equal(seen->holder_count, 1);
    assert_string_equal(seen->holders[0].id, "someone:1");
    assert_int_equal(seen->holders[0].id_length, 9);
    assert_int_equal(seen->holders[0].count, 3);
    assert_int_equal(seen->holders[0].remaining_ms, -1);
    assert_int_equal(seen->waiter_count, 2);
    assert_string_equal(seen->waiters[0].id, "next:2");
    assert_string_equal(seen->waiters[1].id, "last:3");
    assert_int_equal(seen->waiters[1].count, 0);
    assert_int_equal(seen->waiters[1].remaining_ms, -1);
    return 1;
}

static void test_a_name_of_any_bytes(void **state)
{
    (void)state;
    int calls = 0;
    static const char queue[] = "redisson_lock_queue:{a\0b}";
    assert_true(
        srv_cmd_is(server, "1", "HSET %b someone:1 3", "a\0b", (size_t)3));
    assert_true(srv_cmd_is(server, "2", "RPUSH %b next:2 last:3", queue,
                           sizeof(queue) - 1));
    expect(HF_OK, hf_inspect(client, "a\0b", 3, check_fair, &calls, &err));
    assert_int_equal(calls, 1);
    expect(HF_OK, hf_inspect_all(client, NULL, check_fair, &calls, &err));
    assert_int_equal(calls, 2);
    free(srv_cmd(server, "FLUSHALL"));
}

/* ---- all */

typedef struct shown {
    bool has[MANY];
    int count;
    int most; /* then it is enough; 0: all */
} shown;

static int note(void *arg, const hf_inspection *seen)
{
    shown *s = arg;
    int number = -1;
    assert_int_equal(sscanf(seen->name, "lock:%d", &number), 1);
    assert_in_range(number, 0, MANY - 1);
    assert_false(s->has[number]);
    assert_int_equal(seen->shape, HF_SHAPE_LOCK);
    assert_int_equal(seen->holders[0].count, 1 + number % 3);
    s->has[number] = true;
    s->count++;
    return s->count == s->most;
}

static void test_many_are_listed_once(void **state)
{
    (void)state;
    shown all = {0};
    shown some = {.most = 5};
    shown ten = {0};
    for (int i = 0; i < MANY; i++) {
        assert_true(
            srv_cmd_is(server, "1", "HSET lock:%d someone:1 %d", i, 1 + i % 3));
    }
    expect(HF_OK, hf_inspect_all(client, NULL, note, &all, &err));
    assert_int_equal(all.count, MANY);
    expect(HF_OK, hf_inspect_all(client, NULL, note, &some, &err));
    assert_int_equal(some.count, 5);
    expect(HF_OK, hf_inspect_all(client, "lock:?", note, &ten, &err));
    assert_int_equal(ten.count, 10);
    free(srv_cmd(server, "FLUSHALL"));
}

/* ---- what is refused */

static int unused(void *arg, const hf_inspection *seen)
{
    (void)arg;
    fail_msg("called for %s", seen->name);
    return 0;
}

static void test_nothing_to_ask_about(void **state)
{
    (void)state;
    expect(HF_EINVAL, hf_inspect(NULL, "x", 1, unused, NULL, &err));
    expect(HF_EINVAL, hf_inspect(client, NULL, 1, unused, NULL, &err));
    expect(HF_EINVAL, hf_inspect(client, "x", 0, unused, NULL, &err));
    expect(HF_EINVAL,
           hf_inspect(client, "x", HF_NAME_MAX + 1, unused, NULL, &err));
    expect(HF_EINVAL, hf_inspect(client, "x", 1, NULL, NULL, &err));
    expect(HF_EINVAL, hf_inspect_all(NULL, NULL, unused, NULL, &err));
    expect(HF_EINVAL, hf_inspect_all(client, NULL, NULL, NULL, &err));
}

static void test_a_key_of_no_kind(void **state)
{
    (void)state;
    assert_true(srv_cmd_is(server, "1", "RPUSH pile x"));
    expect(HF_EWRONGTYPE, hf_inspect(client, "pile", 4, unused, NULL, &err));
    assert_non_null(strstr(hf_error_text(&err), "\"pile\" on "));
    assert_non_null(strstr(hf_error_text(&err), "holds a list, no lock"));
    expect(HF_OK, hf_inspect_all(client, NULL, unused, NULL, &err));
    free(srv_cmd(server, "FLUSHALL"));
}

/* ---- answers that no server gives */

/* What the server made of a function says to the script and to SCAN. */
typedef struct odd {
    const char *answer;
    hf_status status;
    bool retriable;
    int calls;
} odd;

static void answer_oddly(void *arg, rubbish_peer *peer,
                         const rubbish_request *request)
{
    const odd *say = arg;
    if (rubbish_is(request, "INFO")) {
        rubbish_text(peer, "$0\r\n\r\n");
    } else if (rubbish_is(request, "SCAN")) {
        rubbish_text(peer, "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nx\r\n");
    } else if (rubbish_is(request, "EVALSHA")) {
        rubbish_text(peer, say->answer);
    } else if (request->count > 0) {
        rubbish_text(peer, "+PONG\r\n");
    }
}

static int count(void *arg, const hf_inspection *seen)
{
    int *calls = arg;
    (*calls)++;
    assert_string_equal(seen->name, "x");
    return 0;
}

#define TEXT(text, size) "$" #size "\r\n" text "\r\n"
#define HEAD(what, size) "*1\r\n" BODY(what, size)
#define BODY(what, size) "*6\r\n" TEXT(what, size) ":7\r\n:0\r\n"
#define NO_TOKEN TEXT("", 0)
#define NOBODY "*0\r\n"
#define LOCK BODY("lock", 4) NO_TOKEN ONE NOBODY
#define ONE "*3\r\n" TEXT("a:1", 3) TEXT("1", 1) ":7\r\n"

static void test_odd_answers(void **state)
{
    (void)state;
    static const odd answers[] = {
        {HEAD("lock", 4) NO_TOKEN ONE NOBODY, HF_OK, false, 1},
        {HEAD("lock", 4) ":5\r\n" ONE ONE, HF_OK, false, 1},
        {HEAD("none", 4) NO_TOKEN NOBODY NOBODY, HF_OK, false, 1},
        {HEAD("strange", 7) NO_TOKEN NOBODY NOBODY, HF_OK, false, 1},
        {HEAD("lock", 4) NO_TOKEN NOBODY NOBODY, HF_OK, false, 1},
        {"+OK\r\n", HF_EPROTOCOL, false, 0},
        {":1\r\n", HF_EPROTOCOL, false, 0},
        {"$-1\r\n", HF_EPROTOCOL, false, 0},
        {"*0\r\n", HF_EPROTOCOL, false, 0},
        {"*1\r\n*0\r\n", HF_EPROTOCOL, false, 0},
        {"*1\r\n$4\r\nlock\r\n", HF_EPROTOCOL, false, 0},
        {"*1\r\n*3\r\n$4\r\nlock\r\n:1\r\n:1\r\n", HF_EPROTOCOL, false, 0},
        {"*1\r\n*3\r\n$5\r\nother\r\n:1\r\n:1\r\n", HF_EPROTOCOL, false, 0},
        {"*2\r\n*0\r\n*0\r\n", HF_EPROTOCOL, false, 0},
        {HEAD("lock", 4) NO_TOKEN ONE TEXT("x", 1), HF_EPROTOCOL, false, 0},
        {HEAD("lock", 4) NO_TOKEN "*2\r\n:1\r\n:1\r\n" NOBODY, HF_EPROTOCOL,
         false, 0},
        {HEAD("lock", 4) NO_TOKEN "*2\r\n" TEXT("a:1", 3) ":1\r\n" NOBODY,
         HF_EPROTOCOL, false, 0},
        {HEAD("lock", 4) NO_TOKEN "*3\r\n:1\r\n:1\r\n:1\r\n" NOBODY,
         HF_EPROTOCOL, false, 0},
        {"*1\r\n*3\r\n$7\r\nrefused\r\n:0\r\n$8\r\nERR what\r\n", HF_ESERVER,
         false, 0},
        {"*1\r\n*3\r\n$7\r\nrefused\r\n:0\r\n$7\r\nBUSY it\r\n", HF_ESERVER,
         true, 0},
        {"-LOADING it\r\n", HF_ESERVER, true, 0},
        {"-ERR no\r\n", HF_ESERVER, false, 0},
        {"-NOPERM no\r\n", HF_EPERM, false, 0},
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        odd say = answers[i];
        int calls = 0;
        rubbish *fake = rubbish_start(answer_oddly, &say);
        hf_client *far = test_client(rubbish_url(fake), NULL);
        expect(say.status, hf_inspect(far, "x", 1, count, &calls, &err));
        if (say.status != HF_OK) {
            assert_int_equal(hf_error_is_retriable(&err), say.retriable);
        }
        assert_int_equal(calls, say.calls);
        expect(say.status, hf_inspect_all(far, NULL, count, &calls, &err));
        hf_client_free(far);
        rubbish_stop(fake);
    }
}

/* SCAN may show a name more than once, at once or later. */
static void answer_twice(void *arg, rubbish_peer *peer,
                         const rubbish_request *request)
{
    (void)arg;
    if (rubbish_is(request, "INFO")) {
        rubbish_text(peer, "$0\r\n\r\n");
    } else if (rubbish_is(request, "SCAN")) {
        bool first = strcmp(request->arguments[1], "0") == 0;
        rubbish_text(peer,
                     first ? "*2\r\n" TEXT("9", 1) : "*2\r\n" TEXT("0", 1));
        rubbish_text(peer, "*2\r\n" TEXT("x", 1) TEXT("x", 1));
    } else if (rubbish_is(request, "EVALSHA")) {
        rubbish_text(peer, "*2\r\n" LOCK LOCK);
    } else if (request->count > 0) {
        rubbish_text(peer, "+PONG\r\n");
    }
}

static void test_a_name_that_comes_again(void **state)
{
    (void)state;
    int calls = 0;
    rubbish *fake = rubbish_start(answer_twice, NULL);
    hf_client *far = test_client(rubbish_url(fake), NULL);
    expect(HF_OK, hf_inspect_all(far, NULL, count, &calls, &err));
    assert_int_equal(calls, 1);
    hf_client_free(far);
    rubbish_stop(fake);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_a_name_of_any_bytes),
        FIXTURE_TEST(test_many_are_listed_once),
        FIXTURE_TEST(test_nothing_to_ask_about),
        FIXTURE_TEST(test_a_key_of_no_kind),
        FIXTURE_TEST(test_odd_answers),
        FIXTURE_TEST(test_a_name_that_comes_again),
    };
    return cmocka_run_group_tests(tests, fixture_usual, fixture_end);
}
