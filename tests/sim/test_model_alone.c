/* What the model does that cannot be compared with a real server, because it
 * is about time, restarts or what a test sees of it. */
#include "sim/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define START_US INT64_C(1700000000000000)
#define SHA_OF_1 "e0e1f9fabfc9d4800c877a703b823ac0578ff8db" /* return 1 */

/* Says a line; whether the reply, all that is in the output, is that. */
static bool says(model_conn *conn, const char *line, const char *expected)
{
    model_receive(conn, line, strlen(line));
    model_receive(conn, "\r\n", 2);
    hf__slice output = model_output(conn);
    bool same = hf__slice_is(output, expected);
    if (!same) {
        (void)fprintf(stderr, "%s: replied \"%.*s\"\n", line,
                      (int)output.length, output.data);
    }
    model_taken(conn, output.length);
    return same;
}

static model *fresh(uint64_t seed, model_conn **conn)
{
    model *m = model_new(seed);
    model_set_now(m, START_US);
    *conn = model_connect(m, NULL);
    return m;
}

static void note_end(void *ctx, const model_key *key)
{
    hf__buf_append(ctx, key->name.data, key->name.length);
}

static void test_keys_end_at_their_instant(void **state)
{
    (void)state;
    model_conn *conn;
    model *m = fresh(1, &conn);
    hf__buf ended;
    hf__buf_init(&ended, 100);
    model_set_hooks(m, &(model_hooks){.ctx = &ended, .on_expired = note_end});
    assert_true(model_next_expiry(m) == MODEL_NEVER);
    assert_true(says(conn, "SET b 1 PX 20", "+OK\r\n"));
    assert_true(says(conn, "SET a 1 PX 10", "+OK\r\n"));
    assert_true(says(conn, "SET c 1", "+OK\r\n"));
    assert_true(model_next_expiry(m) == START_US + 11000);
    model_set_now(m, START_US + 10999);
    assert_true(says(conn, "PTTL a", ":0\r\n"));
    assert_int_equal(model_pttl(m, model_find(m, 0, HF__LITERAL("b"))), 10);
    model_set_now(m, START_US + 11000);
    assert_true(says(conn, "PTTL a", ":-2\r\n"));
    model_set_now(m, START_US); /* time does not go back */
    assert_true(says(conn, "EXISTS a b", ":1\r\n"));
    model_set_now(m, START_US + 900000);
    assert_int_equal(model_key_count(m), 1);
    assert_true(says(conn, "PTTL c", ":-1\r\n"));
    assert_memory_equal(ended.data, "ab", 2);
    hf__buf_free(&ended);
    model_free(m);
}

/* Those behind the first, too, and those that a script set. */
static void test_the_next_end_is_known(void **state)
{
    (void)state;
    model_conn *conn;
    model *m = fresh(1, &conn);
    assert_true(says(conn, "SET a 1 PX 100", "+OK\r\n"));
    assert_true(says(conn, "PEXPIRE a 50", ":1\r\n"));
    assert_true(model_next_expiry(m) == START_US + 51000);
    assert_true(says(conn, "PERSIST a", ":1\r\n"));
    assert_true(model_next_expiry(m) == MODEL_NEVER);
    model_set_now(m, START_US + 60000);
    assert_true(says(conn, "PEXPIRE a 5", ":1\r\n"));
    model_set_now(m, START_US + 66000);
    assert_int_equal(model_key_count(m), 0);
    model_free(m);
}

static void test_restart_empty(void **state)
{
    (void)state;
    char before[41];
    model_conn *conn;
    model *m = fresh(1, &conn);
    (void)snprintf(before, sizeof(before), "%s", model_run_id(m));
    assert_true(says(conn, "SET a 1", "+OK\r\n"));
    model_restart(m, NULL);
    assert_true(model_is_closed(conn));
    assert_true(says(conn, "PING", ""));
    model_disconnect(conn);
    conn = model_connect(m, NULL);
    assert_true(says(conn, "DBSIZE", ":0\r\n"));
    assert_string_not_equal(before, model_run_id(m));
    assert_int_equal(strlen(model_run_id(m)), 40);
    model_free(m);
}

static void test_restart_from_an_image(void **state)
{
    (void)state;
    model_conn *conn;
    model *m = fresh(1, &conn);
    model_image *image = model_image_new();
    assert_true(says(conn, "HSET h f 1", ":1\r\n"));
    assert_true(says(conn, "ZADD z 2 b 1 a", ":2\r\n"));
    assert_true(says(conn, "SET a 1 PX 10", "+OK\r\n"));
    model_image_take(image, m);
    assert_true(says(conn, "HSET h f 2", ":0\r\n"));
    assert_true(says(conn, "DEL z", ":1\r\n"));
    for (int i = 0; i < 2; i++) {
        model_set_now(m, START_US + 11000);
        model_restart(m, image);
        model_disconnect(conn);
        conn = model_connect(m, NULL);
        assert_true(says(conn, "HGET h f", "$1\r\n1\r\n"));
        assert_true(
            says(conn, "ZRANGE z 0 -1", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"));
        assert_true(says(conn, "EXISTS a", ":0\r\n"));
        assert_true(says(conn, "FLUSHALL", "+OK\r\n"));
    }
    model_image_free(image);
    model_free(m);
}

static void test_scripts_are_forgotten(void **state)
{
    (void)state;
    model_conn *conn;
    model *m = fresh(1, &conn);
    static const char load[] = "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n"
                               "$8\r\nreturn 1\r\n";
    for (int i = 0; i < 2; i++) {
        assert_true(says(conn, "EVALSHA " SHA_OF_1 " 0",
                         "-NOSCRIPT No matching script. Please use EVAL.\r\n"));
        assert_true(says(conn, load, "$40\r\n" SHA_OF_1 "\r\n"));
        assert_true(says(conn, "EVALSHA " SHA_OF_1 " 0", ":1\r\n"));
        model_restart(m, NULL);
        model_disconnect(conn);
        conn = model_connect(m, NULL);
    }
    model_free(m);
}

static void test_subscriptions_are_counted(void **state)
{
    (void)state;
    model_conn *conn;
    model *m = fresh(1, &conn);
    model_conn *other = model_connect(m, NULL);
    model_receive(conn, "SUBSCRIBE c d\r\n", 15);
    model_receive(other, "SUBSCRIBE c\r\n", 13);
    assert_int_equal(model_subscriptions(m), 3);
    assert_int_equal(model_subscribers(m, HF__LITERAL("c")), 2);
    model_disconnect(conn);
    assert_int_equal(model_subscriptions(m), 1);
    conn = model_connect(m, NULL);
    assert_true(says(conn, "CLIENT ID", ":3\r\n"));
    assert_true(says(conn, "CLIENT KILL ID 3", ":0\r\n"));
    assert_true(says(conn, "CLIENT KILL ID 2", ":1\r\n"));
    assert_true(model_is_closed(other));
    assert_int_equal(model_subscriptions(m), 0);
    assert_true(says(conn, "PUBLISH c m", ":0\r\n"));
    model_free(m);
}

static void test_loading(void **state)
{
    (void)state;
    static const char loading[] =
        "-LOADING Redis is loading the dataset in memory\r\n";
    model_conn *conn;
    model *m = fresh(1, &conn);
    model_set_condition(m, MODEL_LOADING);
    assert_true(says(conn, "PING", loading));
    assert_true(says(conn, "EVALSHA " SHA_OF_1 " 0", loading));
    assert_true(says(conn, "SELECT 0", "+OK\r\n"));
    model_restart(m, NULL);
    model_disconnect(conn);
    conn = model_connect(m, NULL);
    assert_true(says(conn, "PING", "+PONG\r\n"));
    model_free(m);
}

typedef struct events {
    char text[400];
    size_t length;
} events;

static void note_event(void *ctx, const model_event *event)
{
    events *e = ctx;
    int n = snprintf(e->text + e->length, sizeof(e->text) - e->length,
                     "%s%s%s%s:%.*s ", event->in_script ? "." : "", event->name,
                     event->writes ? "!" : "", event->changed ? "!" : "",
                     (int)event->reply.length - 2, event->reply.data);
    e->length += (size_t)n;
    assert_true(e->length < sizeof(e->text));
    assert_string_equal(event->tag, "tag");
    assert_int_equal(event->args[0].length, strlen(event->name));
}

static void test_commands_are_told(void **state)
{
    (void)state;
    events e = {.length = 0};
    model *m = model_new(1);
    char tag[] = "tag";
    model_conn *conn = model_connect(m, tag);
    static const char script[] =
        "*4\r\n$4\r\nEVAL\r\n$38\r\nreturn redis.call('del', KEYS[1], 'x')"
        "\r\n$1\r\n1\r\n$1\r\na\r\n";
    model_set_hooks(m, &(model_hooks){.ctx = &e, .on_command = note_event});
    assert_true(says(conn, "SET a 1", "+OK\r\n"));
    assert_true(says(conn, "GET none", "$-1\r\n"));
    assert_true(says(conn, script, ":1\r\n"));
    assert_true(says(conn, "DEL a", ":0\r\n"));
    assert_true(says(conn, "NOSUCH",
                     "-ERR unknown command 'NOSUCH', with args beginning "
                     "with: \r\n"));
    assert_string_equal(e.text,
                        "set!!:+OK get:$-1 .del!!::1 eval!::1 del!::0 ");
    model_free(m);
}

static void test_protocol_errors(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
        {"*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'\r\n"},
        {"*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n"}};
    model_conn *conn;
    model *m = fresh(1, &conn);
    for (size_t i = 0; i < 3; i++) {
        assert_true(says(conn, bad[i][0], bad[i][1]));
        assert_true(model_is_closed(conn));
        model_disconnect(conn);
        conn = model_connect(m, NULL);
    }
    assert_true(says(conn, "*0\r\n*-1\r\n\r\nPING", "+PONG\r\n"));
    model_free(m);
}

/* Each key that is there all the time is shown, whatever goes meanwhile. */
static void test_scan_in_pages(void **state)
{
    (void)state;
    model_conn *conn;
    model *m = fresh(1, &conn);
    for (int i = 0; i < 5; i++) {
        char line[20];
        (void)snprintf(line, sizeof(line), "SET k%d 1", i);
        assert_true(says(conn, line, "+OK\r\n"));
    }
    assert_true(says(conn, "SCAN 0 COUNT 2",
                     "*2\r\n$1\r\n2\r\n*2\r\n$2\r\nk0\r\n$2\r\nk1\r\n"));
    assert_true(says(conn, "DEL k0 k1 k3", ":3\r\n"));
    assert_true(
        says(conn, "SCAN 2 COUNT 1", "*2\r\n$1\r\n3\r\n*1\r\n$2\r\nk2\r\n"));
    assert_true(
        says(conn, "SCAN 3 COUNT 9", "*2\r\n$1\r\n0\r\n*1\r\n$2\r\nk4\r\n"));
    model_free(m);
}

/* Two lives of the same seed are the same, in a new model and in a used one. */
static void test_the_same_again(void **state)
{
    (void)state;
    char first[600] = "";
    model *m = model_new(7);
    for (int i = 0; i < 3; i++) {
        model_set_now(m, START_US);
        model_conn *conn = model_connect(m, NULL);
        model_receive(
            conn, "INFO\r\nCLIENT ID\r\nSCAN 0\r\nTIME\r\nSET a 1\r\n",
            strlen("INFO\r\nCLIENT ID\r\nSCAN 0\r\nTIME\r\nSET a 1\r\n"));
        hf__slice output = model_output(conn);
        assert_true(output.length < sizeof(first));
        if (i > 0) {
            assert_true(hf__slice_is(output, first));
        }
        memcpy(first, output.data, output.length);
        if (i == 0) {
            model_free(m);
            m = model_new(7);
        } else {
            model_reset(m, 7);
            assert_int_equal(model_key_count(m), 0);
        }
    }
    char run_id[41];
    (void)snprintf(run_id, sizeof(run_id), "%s", model_run_id(m));
    model_reset(m, 8);
    assert_string_not_equal(run_id, model_run_id(m));
    model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_end_at_their_instant),
        cmocka_unit_test(test_the_next_end_is_known),
        cmocka_unit_test(test_restart_empty),
        cmocka_unit_test(test_restart_from_an_image),
        cmocka_unit_test(test_scripts_are_forgotten),
        cmocka_unit_test(test_subscriptions_are_counted),
        cmocka_unit_test(test_loading),
        cmocka_unit_test(test_commands_are_told),
        cmocka_unit_test(test_protocol_errors),
        cmocka_unit_test(test_scan_in_pages),
        cmocka_unit_test(test_the_same_again),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
