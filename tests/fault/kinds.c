/* See kinds.h. */
#include "fault/kinds.h"

#include <stdio.h>

#define FAIR_QUEUE "redisson_lock_queue:{x}"
#define TOKEN_COUNTER "redisson_lock_token:{x}"
#define PERMIT_HOLDERS "{x}:timeout"

const kinds_row kinds_rows[] = {
    {"non-reentrant", HF_KIND_NON_REENTRANT, HF_KIND_NON_REENTRANT, false,
     false, NULL, "x", "pexpire"},
    {"fair", HF_KIND_FAIR, HF_KIND_FAIR, false, false, FAIR_QUEUE, "x",
     "pexpire"},
    {"fair non-reentrant", HF_KIND_FAIR_NON_REENTRANT,
     HF_KIND_FAIR_NON_REENTRANT, false, false, FAIR_QUEUE, "x", "rpush"},
    {"read", HF_KIND_READ, HF_KIND_WRITE, false, false, NULL, "x", "pexpire"},
    {"write", HF_KIND_WRITE, HF_KIND_WRITE, false, false, NULL, "x", "pexpire"},
    {"spin", HF_KIND_SPIN, HF_KIND_SPIN, false, true, NULL, "x", "pexpire"},
    {"fenced", HF_KIND_FENCED, HF_KIND_FENCED, false, false, TOKEN_COUNTER, "x",
     "pexpire"},
    {"simple", HF_KIND_SIMPLE, HF_KIND_SIMPLE, false, true, NULL, "x", "set"},
    {"permit", HF_KIND_PERMIT, HF_KIND_PERMIT, false, false, NULL,
     PERMIT_HOLDERS, "zadd"},
    {"several", HF_KIND_REENTRANT, HF_KIND_REENTRANT, true, false, NULL, "x",
     "pexpire"},
};
const size_t kinds_count = sizeof(kinds_rows) / sizeof(kinds_rows[0]);

/* ------------------------------------------------------------- the fixture */

static srv *server;
static proxy *net;

static int setup(void **state)
{
    kinds_case *k = calloc(1, sizeof(*k));
    if (!k) {
        return -1;
    }
    k->row = *state;
    k->f.server = server;
    k->f.net = net;
    journal_clear();
    kinds_stock(k);
    *state = k;
    return 0;
}

/* The server is the program's. */
static int teardown(void **state)
{
    fault *f = *state;
    f->server = NULL;
    f->net = NULL;
    proxy_refuse(net, false);
    proxy_set(net, PROXY_TO_SERVER, PROXY_PASS);
    proxy_set(net, PROXY_TO_CLIENT, PROXY_PASS);
    free(srv_cmd(server, "CONFIG SET maxmemory 0"));
    int failed = fault_teardown(state);
    free(srv_cmd(server, "FLUSHALL"));
    return failed;
}

static size_t add_tests(struct CMUnitTest *tests, size_t length,
                        const kinds_test *test)
{
    for (size_t i = 0; i < kinds_count; i++) {
        const kinds_row *row = &kinds_rows[i];
        if (!test->fits || test->fits(row)) {
            tests[length++] = (struct CMUnitTest){
                .name = test_text("%s: %s", test->name, row->name),
                .test_func = test->test,
                .setup_func = setup,
                .teardown_func = teardown,
                .initial_state = (void *)row};
        }
    }
    return length;
}

int kinds_run(const kinds_test *tests, size_t count,
              void (*prepare)(srv *server))
{
    size_t length = 0;
    struct CMUnitTest *all = calloc(count * kinds_count, sizeof(*all));
    if (!all) {
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        length = add_tests(all, length, &tests[i]);
    }
    server = srv_start(NULL);
    if (prepare) {
        prepare(server);
    }
    net = proxy_start(srv_socket(server));
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    int failed = _cmocka_run_group_tests("kinds", all, length, NULL, NULL);
    proxy_stop(net);
    srv_stop(server);
    for (size_t i = 0; i < length; i++) {
        free((void *)all[i].name);
    }
    free(all);
    return failed;
}

/* ---------------------------------------------------------- locks and clients
 */

static hf_lock *open_one(const char *name, hf_kind kind, hf_client *client)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = kind;
    return hf_lock_open_with(client, name, strlen(name), &options, NULL);
}

hf_lock *kinds_open(const kinds_row *row, hf_kind kind, hf_client *client)
{
    hf_lock *first = open_one("x", kind, client);
    if (!row->several || !first) {
        return first;
    }
    hf_lock *both[] = {first, open_one("x2", HF_KIND_FAIR, client)};
    hf_lock *lock = both[1] ? hf_multi_open(both, 2, NULL) : NULL;
    hf_lock_free(both[0]);
    hf_lock_free(both[1]);
    return lock;
}

static hf_lock *open_kept(kinds_case *k, hf_kind kind, hf_client *client)
{
    hf_lock *lock = kinds_open(k->row, kind, client);
    assert_non_null(lock);
    for (size_t i = 0; i < FAULT_MOST; i++) {
        if (!k->f.locks[i]) {
            k->f.locks[i] = lock;
            return lock;
        }
    }
    test_die("the fixture has too few places");
}

hf_lock *kinds_lock(kinds_case *k, hf_client *client)
{
    return open_kept(k, k->row->kind, client);
}

hf_lock *kinds_rival(kinds_case *k, hf_client *client)
{
    return open_kept(k, k->row->against, client);
}

void kinds_stock(kinds_case *k)
{
    if (k->row->kind == HF_KIND_PERMIT) {
        free(srv_cmd(k->f.server, "SET x 1"));
        free(srv_cmd(k->f.server, "PUBLISH redisson_sc:{x} 1"));
    }
}

static hf_client_options usual(void)
{
    hf_client_options options = fault_options();
    options.watchdog_lease_ms = 600;
    options.subscription_linger_ms = 1;
    options.restart_quarantine_ms = -1;
    return options;
}

hf_client *kinds_client(kinds_case *k)
{
    hf_client_options options = usual();
    return fault_open(&k->f, srv_url(k->f.server), &options);
}

hf_client *kinds_client_behind(kinds_case *k)
{
    hf_client_options options = usual();
    options.command_timeout_ms = 300;
    hf_client *client = fault_open(&k->f, proxy_tcp_url(k->f.net), &options);
    kinds_cycle(k, client);
    return client;
}

hf_acquire_options kinds_long(int64_t wait_ms)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.lease_ms = KINDS_ENDLESS_MS;
    options.wait_ms = wait_ms;
    return options;
}

hf_acquire_options kinds_noting(loss_note *note)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = TEST_LIMIT_MS;
    options.on_lost = loss_note_take;
    options.on_lost_arg = note;
    return options;
}

/* --------------------------------------------------------- what there must be
 */

static void expect_in_hash(kinds_case *k, const char *name, const char *owner)
{
    bool mode = k->row->kind == HF_KIND_READ || k->row->kind == HF_KIND_WRITE;
    assert_true(srv_cmd_is(k->f.server, "1", "HGET %s %s", name, owner));
    assert_true(srv_cmd_is(k->f.server, mode ? "2" : "1", "HLEN %s", name));
    assert_true(srv_cmd_int(k->f.server, "PTTL %s", name) > 0);
}

void kinds_expect_once(kinds_case *k, const hf_lease *lease)
{
    const char *owner = hf_lease_owner_id(lease);
    if (k->row->kind == HF_KIND_SIMPLE) {
        assert_true(srv_cmd_is(k->f.server, owner, "GET x"));
        assert_true(srv_cmd_int(k->f.server, "PTTL x") > 0);
    } else if (k->row->kind == HF_KIND_PERMIT) {
        assert_true(srv_cmd_is(k->f.server, "0", "GET x"));
        assert_true(srv_cmd_is(k->f.server, "1", "ZCARD " PERMIT_HOLDERS));
    } else {
        expect_in_hash(k, "x", owner);
    }
    if (k->row->several) {
        expect_in_hash(k, "x2", owner);
    }
}

static char *keys_but(kinds_case *k, const char *permit)
{
    static const char script[] =
        "local kept = {} "
        "for _, key in ipairs(redis.call('keys', '*')) do "
        "local record = string.find(key, '^holdfast_') "
        "and redis.call('pttl', key) > 0 "
        "local counter = key == '" TOKEN_COUNTER "' "
        "local permit = key == 'x' and redis.call('type', key).ok == 'string' "
        "and redis.call('get', key) == ARGV[1] "
        "if not (record or counter or permit) then "
        "kept[#kept + 1] = key end end "
        "table.sort(kept) return kept";
    return srv_cmd(k->f.server, "EVAL %s 0 %s", script, permit);
}

char *kinds_keys(kinds_case *k)
{
    return keys_but(k, "none");
}

void kinds_expect_nothing(kinds_case *k)
{
    const char *permit = k->row->kind == HF_KIND_PERMIT ? "1" : "none";
    char *keys = NULL;
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    do {
        free(keys);
        keys = keys_but(k, permit);
    } while (*keys && test_pause(by));
    if (*keys) {
        fail_msg("left on the server: %s", keys);
    }
    free(keys);
}

void kinds_cycle(kinds_case *k, hf_client *client)
{
    hf_acquire_options terms = kinds_long(TEST_LIMIT_MS);
    hf_lease *lease = fault_take_with(&k->f, kinds_lock(k, client), &terms);
    kinds_expect_once(k, lease);
    fault_give(&k->f, lease);
    kinds_expect_nothing(k);
}

/* ------------------------------------------------------------------- waiters
 */

static long long asked(kinds_case *k)
{
    return fault_calls(&k->f, "evalsha") + fault_calls(&k->f, "set");
}

void kinds_unheard(kinds_case *k)
{
    assert_true(srv_cmd_is(k->f.server, "OK", "CONFIG RESETSTAT"));
}

void kinds_expect_waiting(kinds_case *k)
{
    if (!k->row->deaf) {
        assert_becomes(fault_calls(&k->f, "subscribe") > 0);
    }
    assert_becomes(asked(k) >= 2);
}

void kinds_cut_reply(kinds_case *k, size_t seen)
{
    assert_true(proxy_wait_seen(k->f.net, PROXY_TO_CLIENT, seen + 1));
    proxy_reset(k->f.net);
    proxy_set(k->f.net, PROXY_TO_CLIENT, PROXY_PASS);
}
