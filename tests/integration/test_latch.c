/* Count-down latches on a real server: what they leave there, and who goes on
 * when. The clients here poll once an hour: what happens within a test's life
 * is a message's doing. */
#include "integration/sync_side.h"

#include <signal.h>

#define AWAITERS 4

static bool count_is(hf_latch *latch, int64_t expected)
{
    int64_t count = -1;
    expect(HF_OK, hf_latch_count(latch, &count, &err));
    if (count != expected) {
        print_error("count %lld\n", (long long)count);
    }
    return count == expected;
}

static void set_to(hf_latch *latch, int64_t count)
{
    int set = 0;
    expect(HF_OK, hf_latch_set(latch, count, 0, &set, &err));
    assert_int_equal(set, 1);
}

static int64_t count_down(hf_latch *latch, int64_t by)
{
    int64_t left = -1;
    expect(HF_OK, hf_latch_count_down(latch, by, &left, &err));
    return left;
}

static sync_waiter awaiter_of(hf_latch *latch)
{
    return (sync_waiter){.latch = latch, .wait_ms = SYNC_PATIENCE_MS};
}

/* ---- what it leaves on the server (wire-protocol 18) */

static void test_set_once(void **state)
{
    (void)state;
    int set = 7;
    const char *name = test_fresh_name();
    hf_latch *latch = sync_latch(client, name);
    ear *e = sync_ear(SYNC_LATCH_EAR, name);
    expect(HF_OK, hf_latch_set(latch, 3, 0, &set, &err));
    assert_int_equal(set, 1);
    assert_true(ear_hears(e, "1"));
    assert_true(srv_cmd_is(server, "3", "GET %s", name));
    assert_true(srv_cmd_is(server, "-1", "PTTL %s", name));
    expect(HF_OK, hf_latch_set(latch, 5, 60000, &set, &err));
    assert_int_equal(set, 0);
    assert_true(count_is(latch, 3));
    assert_true(ear_heard_all(e, server));
    assert_int_equal(count_down(latch, 3), 0);
    assert_true(ear_hears(e, "0"));
    /* Again, for a while, which counting does not change. */
    expect(HF_OK, hf_latch_set(latch, 2, 60000, &set, &err));
    assert_int_equal(set, 1);
    assert_int_equal(count_down(latch, 1), 1);
    long long left = srv_cmd_int(server, "PTTL %s", name);
    assert_true(left > 0 && left <= 60000);
    free(srv_cmd(server, "DEL %s", name));
    ear_free(e);
    hf_latch_free(latch);
}

static void test_count_down(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_latch *latch = sync_latch(client, name);
    hf_latch *theirs = sync_latch(other, name);
    set_to(latch, 6);
    ear *e = sync_ear(SYNC_LATCH_EAR, name);
    assert_int_equal(count_down(latch, 1), 5);
    assert_int_equal(count_down(theirs, 3), 2);
    assert_true(count_is(latch, 2));
    assert_true(ear_heard_all(e, server));
    /* By more than there is left. */
    assert_int_equal(count_down(theirs, 9), 0);
    assert_true(ear_hears(e, "0"));
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    assert_true(count_is(latch, 0));
    /* One that is not there stays so, and nobody is told. */
    assert_int_equal(count_down(latch, 1), 0);
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    assert_true(ear_heard_all(e, server));
    ear_free(e);
    hf_latch_free(latch);
    hf_latch_free(theirs);
}

/* One that begins at none is there: it is not made again. */
static void test_begins_at_none(void **state)
{
    (void)state;
    int set = 7;
    const char *name = test_fresh_name();
    hf_latch *latch = sync_latch(client, name);
    set_to(latch, 0);
    expect(HF_OK, hf_latch_await(latch, 0, NULL, &err));
    expect(HF_OK, hf_latch_set(latch, 4, 0, &set, &err));
    assert_int_equal(set, 0);
    ear *e = sync_ear(SYNC_LATCH_EAR, name);
    assert_int_equal(count_down(latch, 1), 0);
    assert_true(ear_heard_all(e, server)); /* it was none before */
    set_to(latch, 4);
    assert_true(count_is(latch, 4));
    free(srv_cmd(server, "DEL %s", name));
    ear_free(e);
    hf_latch_free(latch);
}

static void test_delete(void **state)
{
    (void)state;
    int deleted = 7;
    const char *name = test_fresh_name();
    hf_latch *latch = sync_latch(client, name);
    ear *e = sync_ear(SYNC_LATCH_EAR, name);
    expect(HF_OK, hf_latch_delete(latch, &deleted, &err));
    assert_int_equal(deleted, 0);
    assert_true(ear_heard_all(e, server));
    set_to(latch, 2);
    assert_true(ear_hears(e, "1"));
    expect(HF_OK, hf_latch_delete(latch, &deleted, &err));
    assert_int_equal(deleted, 1);
    assert_true(ear_hears(e, "0")); /* opens the gate of Redisson's waiters */
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    assert_true(ear_heard_all(e, server));
    ear_free(e);
    hf_latch_free(latch);
}

/* In braces although it has some. */
static void test_channel_of_a_braced_name(void **state)
{
    (void)state;
    static const char channel[] = "redisson_countdownlatch__channel__{{t}:l}";
    hf_latch *latch = sync_latch(client, "{t}:l");
    ear *e = ear_subscribe(server, channel, sizeof(channel) - 1);
    set_to(latch, 1);
    assert_true(ear_hears(e, "1"));
    assert_int_equal(count_down(latch, 1), 0);
    assert_true(ear_hears(e, "0"));
    ear_free(e);
    hf_latch_free(latch);
}

/* ---- waiting */

static void test_nothing_to_wait_for(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_latch *latch = sync_latch(client, name);
    expect(HF_OK, hf_latch_await(latch, TEST_LIMIT_MS, NULL, &err));
    expect(HF_OK, hf_latch_await(latch, 0, NULL, &err));
    assert_true(srv_cmd_is(server, "0", "EXISTS %s", name));
    hf_latch_free(latch);
}

/* All go on at once, and not before. */
static void test_all_go_on(void **state)
{
    (void)state;
    sync_waiter awaiters[AWAITERS];
    const char *name = test_fresh_name();
    hf_latch *ours = sync_latch(client, name);
    hf_latch *theirs = sync_latch(other, name);
    set_to(ours, 2);
    for (int i = 0; i < AWAITERS; i++) {
        awaiters[i] = awaiter_of(i % 2 ? ours : theirs);
        sync_park(&awaiters[i], i >= 2);
    }
    assert_int_equal(count_down(theirs, 1), 1);
    for (int i = 0; i < AWAITERS; i++) {
        assert_false(atomic_load(&awaiters[i].ended));
    }
    assert_int_equal(count_down(ours, 1), 0);
    for (int i = 0; i < AWAITERS; i++) {
        sync_end(&awaiters[i], HF_OK);
    }
    hf_latch_free(ours);
    hf_latch_free(theirs);
}

/* Whoever deletes it, and however: by this library, by Redisson. */
static void test_deleted_meanwhile(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        const char *name = test_fresh_name();
        hf_latch *ours = sync_latch(client, name);
        hf_latch *theirs = sync_latch(other, name);
        set_to(ours, 2);
        sync_waiter w = awaiter_of(ours);
        sync_park(&w, false);
        if (how == 0) {
            expect(HF_OK, hf_latch_delete(theirs, NULL, &err));
        } else {
            assert_true(srv_cmd_is(server, "1", "DEL %s", name));
            free(srv_cmd(server,
                         "PUBLISH "
                         "redisson_countdownlatch__channel__{%s} 1",
                         name));
        }
        sync_end(&w, HF_OK);
        hf_latch_free(ours);
        hf_latch_free(theirs);
    }
}

/* A message that there is a new count, and others, end no wait. */
static void test_other_messages(void **state)
{
    (void)state;
    static const char *const payloads[] = {"1", "0", "-1", "x", "2", ""};
    const char *name = test_fresh_name();
    hf_latch *latch = sync_latch(client, name);
    set_to(latch, 1);
    sync_waiter w = awaiter_of(latch);
    sync_park(&w, false);
    for (int i = 0; i < 6; i++) {
        free(srv_cmd(server,
                     "PUBLISH redisson_countdownlatch__channel__{%s} %b", name,
                     payloads[i], strlen(payloads[i])));
    }
    /* The first of them, at the least, makes it look again. */
    assert_true(test_wait_calls(server, "get", 3));
    assert_false(atomic_load(&w.ended));
    assert_int_equal(count_down(latch, 1), 0);
    sync_end(&w, HF_OK);
    hf_latch_free(latch);
}

/* An operator deletes it, and nobody is told: all find out by themselves. */
static void test_message_missed(void **state)
{
    (void)state;
    sync_waiter awaiters[AWAITERS];
    hf_client_options options = test_patient();
    options.poll_cap_ms = 100;
    hf_client *asking = test_client(srv_url(server), &options);
    sync_warm_up(asking);
    const char *name = test_fresh_name();
    hf_latch *latch = sync_latch(asking, name);
    set_to(latch, 1);
    for (int i = 0; i < AWAITERS; i++) {
        awaiters[i] = awaiter_of(latch);
        sync_park(&awaiters[i], i > 0);
    }
    assert_true(srv_cmd_is(server, "1", "DEL %s", name));
    for (int i = 0; i < AWAITERS; i++) {
        sync_end(&awaiters[i], HF_OK);
    }
    hf_latch_free(latch);
    hf_client_free(asking);
}

static void test_time_out(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_latch *latch = sync_latch(client, name);
    set_to(latch, 1);
    int64_t before = test_now_ms();
    expect(HF_NOT_ACQUIRED, hf_latch_await(latch, 50, NULL, &err));
    assert_true(test_now_ms() - before >= 50);
    assert_non_null(strstr(hf_error_text(&err), "latch"));
    expect(HF_NOT_ACQUIRED, hf_latch_await(latch, 0, NULL, &err));
    assert_true(count_is(latch, 1)); /* waiting takes nothing */
    free(srv_cmd(server, "DEL %s", name));
    hf_latch_free(latch);
}

static void test_cancelled(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    hf_latch *latch = sync_latch(client, name);
    set_to(latch, 1);
    sync_waiter w = awaiter_of(latch);
    w.cancel = hf_cancel_new();
    sync_park(&w, false);
    hf_cancel_fire(w.cancel);
    sync_end(&w, HF_CANCELLED);
    hf_cancel_free(w.cancel);
    free(srv_cmd(server, "DEL %s", name));
    hf_latch_free(latch);
}

/* Its life ends by itself: the wait ends with it. */
static void test_life_over(void **state)
{
    (void)state;
    hf_client_options options = test_patient();
    options.poll_cap_ms = 100;
    hf_client *asking = test_client(srv_url(server), &options);
    hf_latch *latch = sync_latch(asking, test_fresh_name());
    expect(HF_OK, hf_latch_set(latch, 1, 200, NULL, &err));
    expect(HF_OK, hf_latch_await(latch, TEST_LIMIT_MS, NULL, &err));
    hf_latch_free(latch);
    hf_client_free(asking);
}

/* ---- many at once */

static void *count_once(void *arg)
{
    must_be(HF_OK, hf_latch_count_down(arg, 1, NULL, &err));
    return NULL;
}

static void test_many_count_down(void **state)
{
    (void)state;
    pthread_t threads[16];
    const char *name = test_fresh_name();
    hf_latch *ours = sync_latch(client, name);
    hf_latch *theirs = sync_latch(other, name);
    set_to(ours, 16);
    sync_waiter w = awaiter_of(theirs);
    sync_park(&w, false);
    for (int i = 0; i < 15; i++) {
        threads[i] = test_thread(count_once, i % 2 ? ours : theirs);
    }
    for (int i = 0; i < 15; i++) {
        test_join(threads[i]);
    }
    assert_true(count_is(ours, 1));
    assert_false(atomic_load(&w.ended));
    threads[15] = test_thread(count_once, ours);
    test_join(threads[15]);
    sync_end(&w, HF_OK);
    hf_latch_free(ours);
    hf_latch_free(theirs);
}

/* ---- arguments, and keys of another sort */

static void test_arguments(void **state)
{
    (void)state;
    int64_t number = 7;
    hf_latch *latch = sync_latch(client, test_fresh_name());
    expect(HF_EINVAL, hf_latch_set(NULL, 1, 0, NULL, &err));
    expect(HF_EINVAL, hf_latch_set(latch, -1, 0, NULL, &err));
    expect(HF_EINVAL, hf_latch_set(latch, 1, -1, NULL, &err));
    expect(HF_EINVAL, hf_latch_set(latch, INT64_MAX, 0, NULL, &err));
    expect(HF_EINVAL, hf_latch_count_down(NULL, 1, NULL, &err));
    expect(HF_EINVAL, hf_latch_count_down(latch, 0, NULL, &err));
    expect(HF_EINVAL, hf_latch_count_down(latch, -1, &number, &err));
    expect(HF_EINVAL, hf_latch_await(NULL, 0, NULL, &err));
    expect(HF_EINVAL, hf_latch_await(latch, -2, NULL, &err));
    expect(HF_EINVAL, hf_latch_count(NULL, &number, &err));
    expect(HF_EINVAL, hf_latch_delete(NULL, NULL, &err));
    assert_int_equal(number, 7);
    hf_latch_free(latch);
    hf_latch_free(NULL);
    assert_null(hf_latch_open(client, NULL, 1, &err));
    assert_int_equal(hf_error_status(&err), HF_EINVAL);
    assert_null(hf_latch_open(NULL, "l", 1, &err));
}

static void test_key_of_another_sort(void **state)
{
    (void)state;
    int64_t number = 7;
    const char *name = test_fresh_name();
    hf_latch *latch = sync_latch(client, name);
    assert_true(srv_cmd_is(server, "1", "HSET %s a b", name));
    expect(HF_EWRONGTYPE, hf_latch_await(latch, 1000, NULL, &err));
    expect(HF_EWRONGTYPE, hf_latch_count_down(latch, 1, &number, &err));
    expect(HF_EWRONGTYPE, hf_latch_count(latch, &number, &err));
    expect(HF_EWRONGTYPE, hf_latch_delete(latch, NULL, &err));
    assert_true(srv_cmd_is(server, "a b", "HGETALL %s", name));
    assert_true(srv_cmd_is(server, "OK", "SET %s 7x", name));
    expect(HF_EPROTOCOL, hf_latch_await(latch, 1000, NULL, &err));
    expect(HF_EPROTOCOL, hf_latch_count(latch, &number, &err));
    expect(HF_ESERVER, hf_latch_count_down(latch, 1, &number, &err));
    assert_true(srv_cmd_is(server, "7x", "GET %s", name));
    assert_int_equal(number, 7);
    free(srv_cmd(server, "DEL %s", name));
    hf_latch_free(latch);
}

/* Who may not publish is told so before a count comes down unheard. */
static void test_missing_permission(void **state)
{
    (void)state;
    const char *name = test_fresh_name();
    assert_true(srv_cmd_is(server, "OK",
                           "ACL SETUSER app reset on >x +@all -publish ~* &*"));
    char *url = test_text("redis://app:x@127.0.0.1:%d", srv_port(server));
    hf_client *app = test_client(url, NULL);
    hf_latch *latch = sync_latch(app, name);
    assert_true(srv_cmd_is(server, "OK", "SET %s 1", name));
    expect(HF_EPERM, hf_latch_count_down(latch, 1, NULL, &err));
    assert_non_null(strstr(hf_error_text(&err), "publish"));
    assert_true(srv_cmd_is(server, "1", "GET %s", name));
    hf_latch_free(latch);
    hf_client_free(app);
    free(srv_cmd(server, "ACL DELUSER app"));
    free(srv_cmd(server, "DEL %s", name));
    free(url);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    const struct CMUnitTest tests[] = {
        SYNC_TEST(test_set_once),
        SYNC_TEST(test_count_down),
        SYNC_TEST(test_begins_at_none),
        SYNC_TEST(test_delete),
        SYNC_TEST(test_channel_of_a_braced_name),
        SYNC_TEST(test_nothing_to_wait_for),
        SYNC_TEST(test_all_go_on),
        SYNC_TEST(test_deleted_meanwhile),
        SYNC_TEST(test_other_messages),
        SYNC_TEST(test_message_missed),
        SYNC_TEST(test_time_out),
        SYNC_TEST(test_cancelled),
        SYNC_TEST(test_life_over),
        SYNC_TEST(test_many_count_down),
        SYNC_TEST(test_arguments),
        SYNC_TEST(test_key_of_another_sort),
        SYNC_TEST(test_missing_permission),
    };
    return cmocka_run_group_tests(tests, sync_setup, fixture_end);
}
