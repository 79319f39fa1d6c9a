/* F49, F14: a server that answers what no server answers, at every point of
 * the conversation. Each case runs in a process of its own: it must come to an
 * end with an error that can be read, hold nothing, need little memory, and
 * find its way back as soon as the server behaves. */
#include "fault/actor.h"
#include "fault/fault.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a case may add to the process. The most comes from a reply of as many
 * elements as are taken, 2^20. */
#define MOST_KIB (96 * 1024)

/* No reply of a RESP2 server, whatever was asked. */
static const kind broken[] = {
    {"HTTP/1.1 400 Bad Request\r\n\r\n", NULL, 0},
    {"\r\n", NULL, 0},
    {"\x16\x03\x01\x02", NULL, 0},
    {"*2147483647\r\n", NULL, 0},
    {"*9223372036854775807\r\n", NULL, 0},
    {"*-5\r\n", NULL, 0},
    {"*x\r\n", NULL, 0},
    {"*1048577\r\n", ":1\r\n", 1048577},
    {"$-5\r\n", NULL, 0},
    {"$9223372036854775807\r\n", NULL, 0},
    {"$99999999999999999999999999\r\n", NULL, 0},
    {"$17000000\r\n", "0123456789abcdef", 1062501},
    {":12a\r\n", NULL, 0},
    {":99999999999999999999999999\r\n", NULL, 0},
    {":\r\n", NULL, 0},
    {"+", "endless ", 1048576},
    {"-", "endless ", 1048576},
    {"", "*1\r\n", 1000000},
    {"", "*2\r\n", 40},
};

/* RESP3, which was not asked for: a newer reader knows it. */
static const kind resp3[] = {
    {"%1\r\n+a\r\n+b\r\n", NULL, 0},
    {"~1\r\n:1\r\n", NULL, 0},
    {">2\r\n+a\r\n+b\r\n", NULL, 0},
    {"_\r\n", NULL, 0},
    {"#t\r\n", NULL, 0},
    {",1.5\r\n", NULL, 0},
    {"(12345678901234567890123\r\n", NULL, 0},
    {"=7\r\ntxt:abc\r\n", NULL, 0},
    {"!5\r\nERR x\r\n", NULL, 0},
};

/* Understood by the reader, and none of what was asked for. */
static const kind wrong[] = {
    {"-ERR \x1b[2J\x07 first\nsecond\r\n", NULL, 0},
    {"-\r\n", NULL, 0},
    {"-", "x", 60000},
    {"+OK\r\n", NULL, 0},
    {"+\r\n", NULL, 0},
    {":-9223372036854775808\r\n", NULL, 0},
    {"$0\r\n\r\n", NULL, 0},
    {"$4\r\n\r\n\r\n\r\n", NULL, 0},
    {"$3\r\nabcdefgh", NULL, 0}, /* older readers skip the two bytes */
    {"*0\r\n", NULL, 0},
    {"*1\r\n*1\r\n*0\r\n", NULL, 0},
    {"*1\r\n$1\r\na\r\n", NULL, 0},
    {"*2\r\n:0\r\n:0\r\n", NULL, 0},
    {"*2\r\n$-1\r\n$-1\r\n", NULL, 0},
    {"*2\r\n*0\r\n*0\r\n", NULL, 0},
    {"*2\r\n$1\r\n0\r\n*2\r\n$-1\r\n:1\r\n", NULL, 0},
    {"*2\r\n$1\r\n0\r\n*1\r\n*1\r\n*0\r\n", NULL, 0},
    {"*3\r\n$7\r\nmessage\r\n:1\r\n:2\r\n", NULL, 0},
    {"*3\r\n$7\r\nmessage\r\n$-1\r\n$-1\r\n", NULL, 0},
    {"*3\r\n$7\r\nmessage\r\n*0\r\n*0\r\n", NULL, 0},
    {"*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", NULL, 0},
    {"*100000\r\n", "$1\r\na\r\n", 100000},
};

/* --------------------------------------------------------------- the client */

static int count_locks(void *arg, const hf_lock_info *info)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

static hf_status do_release(hf_lock *lock, hf_error *err)
{
    hf_lease *lease = NULL;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.lease_ms = 60000;
    hf_status status = hf_lock_acquire_with(lock, &options, &lease, err);
    if (status == HF_OK) {
        status = hf_lease_release(lease, err);
    }
    hf_lease_free(lease);
    return status;
}

/* Without an understood renewal the lease is lost, in time. */
static hf_status do_renew(hf_lock *lock, hf_error *err)
{
    hf_lease *lease = NULL;
    hf_status status = hf_lock_try(lock, &lease, err);
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    while (status == HF_OK && hf_lease_is_held(lease)) {
        if (!test_pause(by)) {
            break;
        }
    }
    if (status == HF_OK && !hf_lease_is_held(lease)) {
        status = hf_lease_release(lease, err);
    }
    hf_lease_free(lease);
    return status;
}

static hf_status do_phase(hf_client *client, hf_lock *lock, phase at,
                          hf_error *err)
{
    int found = 0;
    switch (at) {
    case RECONNECTING:
    case PINGING:
        return hf_client_ping(client, err);
    case PROBING:
    case ACQUIRING:
        return hf_lock_try(lock, NULL, err);
    case RELEASING:
        return do_release(lock, err);
    case RENEWING:
        return do_renew(lock, err);
    case SUBSCRIBING:
    case LISTENING:
        return hf_lock_acquire(lock, 60, NULL, err);
    case SCANNING:
        return hf_client_list_locks(client, NULL, count_locks, &found, err);
    default:
        return hf_lock_inspect(lock, count_locks, &found, err);
    }
}

static long memory_kib(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static hf_client *open_fake(const rubbish *fake, phase at, hf_error *err)
{
    hf_client_options options = fault_options();
    options.connect_timeout_ms = at <= RECONNECTING ? 150 : TEST_LIMIT_MS;
    options.command_timeout_ms = 150;
    options.watchdog_lease_ms = 200;
    return hf_client_open(rubbish_url(fake), &options, err);
}

/* A printable reason, for all that is no success. */
static int judge(hf_status status, const hf_error *err, bool must_fail)
{
    if (status == HF_OK) {
        return must_fail ? 10 : 0;
    }
    if (hf_error_status(err) != status || !*hf_error_text(err)) {
        return 11;
    }
    return fault_printable(hf_error_text(err)) && journal_is_printable() ? 0
                                                                         : 12;
}

static int open_on_rubbish(rubbish *fake, actor *a, bool must_fail)
{
    hf_error err = HF_ERROR_INIT;
    atomic_store(&a->nasty, true);
    hf_client *client = open_fake(fake, GREETING, &err);
    int result = judge(client ? HF_OK : hf_error_status(&err), &err, must_fail);
    hf_client_free(client);
    return result;
}

static int recover(hf_client *client, hf_lock *lock)
{
    hf_error err = HF_ERROR_INIT;
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    while (hf_client_ping(client, &err) != HF_OK) {
        if (!test_pause(by)) {
            return 20;
        }
    }
    return hf_lock_acquire(lock, TEST_LIMIT_MS, NULL, &err) == HF_OK ? 0 : 21;
}

static int use_rubbish(rubbish *fake, actor *a, bool must_fail)
{
    hf_error err = HF_ERROR_INIT;
    hf_client *client = NULL;
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    while (!client && test_pause(by)) { /* its time-outs are short */
        client = open_fake(fake, a->at, &err);
    }
    hf_lock *lock = client ? hf_lock_open(client, "rubbish", &err) : NULL;
    if (!lock) {
        return 30;
    }
    atomic_store(&a->nasty, true);
    hf_status status = do_phase(client, lock, a->at, &err);
    int result = judge(status, &err, must_fail);
    atomic_store(&a->nasty, false);
    if (result == 0 && status != HF_OK) {
        result = recover(client, lock);
    }
    hf_lock_free(lock);
    hf_client_free(client);
    return result;
}

static int run_case(const kind *what, phase at, bool must_fail)
{
    actor a = {.what = what, .at = at};
    (void)alarm(TEST_LIMIT_MS / 1000);
    rubbish *fake = rubbish_start(actor_act, &a);
    long before = memory_kib();
    int result = at == GREETING ? open_on_rubbish(fake, &a, must_fail)
                                : use_rubbish(fake, &a, must_fail);
    long grown = memory_kib() - before;
    rubbish_stop(fake);
    const char *sanitize = getenv("HOLDFAST_SANITIZE");
    if (result == 0 && (!sanitize || !*sanitize) && grown > MOST_KIB) {
        (void)fprintf(stderr, "%ld KiB more\n", grown);
        result = 40;
    }
    return result;
}

static void expect_case(const kind *what, phase at, bool must_fail)
{
    int status = 0;
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(run_case(what, at, must_fail));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0) {
        fail_msg("%s while %s: %s %d", what->head, phase_names[at],
                 WIFSIGNALED(status) ? "signal" : "result",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Messages are nobody's reply: what comes among them costs the subscription
 * only, and the wait runs out. */
static void each_broken(phase at)
{
    for (size_t i = 0; i < COUNT(broken); i++) {
        expect_case(&broken[i], at, true);
    }
}

static void test_broken_greeting(void **state)
{
    (void)state;
    each_broken(GREETING);
    each_broken(RECONNECTING);
}

static void test_broken_answers(void **state)
{
    (void)state;
    each_broken(PINGING);
    each_broken(SCANNING);
    each_broken(INSPECTING);
}

static void test_broken_probe(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(broken); i++) {
        expect_case(&broken[i], PROBING, false);
    }
}

static void test_broken_acquire(void **state)
{
    (void)state;
    each_broken(ACQUIRING);
}

static void test_broken_release(void **state)
{
    (void)state;
    each_broken(RELEASING);
}

static void test_broken_renewal(void **state)
{
    (void)state;
    each_broken(RENEWING);
}

static void test_broken_messages(void **state)
{
    (void)state;
    each_broken(SUBSCRIBING);
    each_broken(LISTENING);
}

static void test_wrong_replies(void **state)
{
    (void)state;
    for (phase at = GREETING; at < PHASES; at++) {
        for (size_t i = 0; i < COUNT(wrong); i++) {
            expect_case(&wrong[i], at, at == ACQUIRING);
        }
    }
}

static void test_resp3(void **state)
{
    (void)state;
    for (phase at = GREETING; at < PHASES; at++) {
        for (size_t i = 0; i < COUNT(resp3); i++) {
            expect_case(&resp3[i], at, false);
        }
    }
}

/* ---- F14 */

/* One reply too many, which would be the next request's: a grant. */
static void one_too_many(void *arg, rubbish_peer *peer,
                         const rubbish_request *request)
{
    actor *a = arg;
    if (rubbish_is(request, "PING")) {
        rubbish_text(peer, "+PONG\r\n$-1\r\n");
    } else if (request->count > 0) {
        actor_act(a, peer, request);
    }
}

static void test_one_reply_too_many(void **state)
{
    (void)state;
    actor a = {.at = SUBSCRIBING, .nasty = true};
    hf_error err = HF_ERROR_INIT;
    rubbish *fake = rubbish_start(one_too_many, &a);
    hf_client *client = open_fake(fake, a.at, &err);
    assert_non_null(client);
    hf_lock *lock = hf_lock_open(client, "rubbish", &err);
    assert_non_null(lock);
    for (int i = 0; i < 10; i++) {
        (void)hf_client_ping(client, &err);
        hf_status status = hf_lock_try(lock, NULL, &err);
        assert_true(status == HF_NOT_ACQUIRED || status == HF_EUNREACHABLE ||
                    status == HF_EPROTOCOL);
    }
    hf_lock_free(lock);
    hf_client_free(client);
    rubbish_stop(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_greeting),
        cmocka_unit_test(test_broken_answers),
        cmocka_unit_test(test_broken_probe),
        cmocka_unit_test(test_broken_acquire),
        cmocka_unit_test(test_broken_release),
        cmocka_unit_test(test_broken_renewal),
        cmocka_unit_test(test_broken_messages),
        cmocka_unit_test(test_wrong_replies),
        cmocka_unit_test(test_resp3),
        cmocka_unit_test(test_one_reply_too_many),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
