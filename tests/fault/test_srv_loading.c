/* F16: the server comes back with a file that it takes long to load. */
#include "fault/fault.h"

#include <hiredis/hiredis.h>
#include <semaphore.h>
#include <signal.h>

/* It loads as slowly as it is told to, some 30 s in all. */
static const char *const slowly[] = {"--key-load-delay", "1000",
                                     "--loading-process-events-interval-bytes",
                                     "1024", NULL};

static int setup(void **state)
{
    if (fault_setup(state) != 0) {
        return -1;
    }
    fault *f = *state;
    srv_stop(f->server);
    f->server = srv_start(slowly);
    return 0;
}

/* srv_restart returns when all is loaded, and the server dies with the thread
 * that has called it. */
typedef struct starter {
    srv *server;
    atomic_bool loaded;
    sem_t end;
    pthread_t thread;
} starter;

static void *restart(void *arg)
{
    starter *s = arg;
    srv_restart(s->server);
    atomic_store(&s->loaded, true);
    while (sem_wait(&s->end) != 0) {
    }
    return NULL;
}

static void starter_begin(starter *s, srv *server)
{
    s->server = server;
    assert_int_equal(sem_init(&s->end, 0, 0), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, restart, s), 0);
}

/* The server is stopped first, for it would die anyway. */
static void starter_end(fault *f, starter *s)
{
    srv_stop(f->server);
    f->server = NULL;
    (void)sem_post(&s->end);
    (void)pthread_join(s->thread, NULL);
    (void)sem_destroy(&s->end);
}

/* Whether the answer to a command begins so; srv_cmd is the starter's. */
static bool answers(const char *path, const char *command, const char *expected)
{
    redisContext *on = redisConnectUnix(path);
    redisReply *reply = on && !on->err ? redisCommand(on, command) : NULL;
    bool so = reply && reply->str &&
              strncmp(reply->str, expected, strlen(expected)) == 0;
    if (reply) {
        freeReplyObject(reply);
    }
    if (on) {
        redisFree(on);
    }
    return so;
}

/* A lock that is in the file is doubted while it is loaded, and held again
 * when that is done; a try says what stands in the way, a wait outlasts it. */
static void test_restart_with_a_large_file(void **state)
{
    static starter s; /* its thread outlives a failed test */
    fault *f = *state;
    hf_error err = HF_ERROR_INIT;
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = 120000;
    options.command_timeout_ms = TEST_LIMIT_MS;
    options.restart_quarantine_ms = -1;
    hf_client *client = fault_open(f, srv_url(f->server), &options);
    hf_lease *kept = fault_take(f, fault_lock(f, client, "kept"));
    hf_lock *wanted = fault_lock(f, client, "wanted");
    const char *path = srv_socket(f->server);
    assert_true(srv_cmd_is(f->server, "OK", "DEBUG POPULATE 30000 padding"));
    assert_true(srv_cmd_is(f->server, "OK", "SAVE"));

    starter_begin(&s, f->server);
    assert_becomes(answers(path, "PING", "LOADING"));
    assert_becomes(hf_lease_get_state(kept) == HF_LEASE_SUSPECT);
    assert_true(hf_lease_is_held(kept));
    assert_int_equal(hf_lock_try(wanted, NULL, &err), HF_ESERVER);
    assert_non_null(strstr(hf_error_text(&err), "LOADING"));
    assert_true(hf_error_is_retriable(&err));
    taker t;
    taker_start(&t, wanted, TEST_LIMIT_MS);
    assert_false(atomic_load(&s.loaded));
    assert_false(atomic_load(&t.done));
    assert_true(answers(path, "CONFIG SET key-load-delay 0", "OK"));

    assert_int_equal(taker_end(f, &t), HF_OK);
    assert_becomes(hf_lease_get_state(kept) == HF_LEASE_HELD);
    assert_becomes(atomic_load(&s.loaded));
    fault_expect_count(f, "kept", kept, "1");
    fault_expect_count(f, "wanted", t.lease, "1");
    fault_give(f, t.lease);
    fault_give(f, kept);
    fault_close(f, client);
    starter_end(f, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_restart_with_a_large_file, setup,
                                        fault_teardown),
    };
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
