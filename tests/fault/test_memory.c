/* F44: memory runs out, at every allocation in turn: once, and from there on
 * for good. Every call ends with an error that says so or does its work, no
 * block is left behind, and no lock is left that nobody renews.
 *
 * The C library's malloc is replaced by one that counts, and that fails where
 * a test wants it to: in all threads, for the library's own are meant too. */
#include "fault/fault.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

static atomic_bool armed;
static atomic_bool for_good;
static atomic_long made;       /* allocations since armed */
static atomic_long fails_at;   /* number of the one that fails */
static atomic_bool has_failed; /* it was reached */
static atomic_long live;       /* blocks */

static bool refused(void)
{
    if (!atomic_load(&armed)) {
        return false;
    }
    long number = atomic_fetch_add(&made, 1);
    long at = atomic_load(&fails_at);
    bool fails = atomic_load(&for_good) ? number >= at : number == at;
    if (fails) {
        atomic_store(&has_failed, true);
        errno = ENOMEM;
    }
    return fails;
}

void *malloc(size_t size)
{
    void *block = refused() ? NULL : __libc_malloc(size);
    (void)atomic_fetch_add(&live, block ? 1 : 0);
    return block;
}

void *calloc(size_t count, size_t size)
{
    void *block = refused() ? NULL : __libc_calloc(count, size);
    (void)atomic_fetch_add(&live, block ? 1 : 0);
    return block;
}

void *realloc(void *old, size_t size)
{
    void *block = refused() ? NULL : __libc_realloc(old, size);
    (void)atomic_fetch_add(&live, block && !old ? 1 : 0);
    return block;
}

void free(void *block)
{
    (void)atomic_fetch_sub(&live, block ? 1 : 0);
    __libc_free(block);
}

static void arm(long at, bool good)
{
    atomic_store(&made, 0);
    atomic_store(&has_failed, false);
    atomic_store(&fails_at, at);
    atomic_store(&for_good, good);
    atomic_store(&armed, true);
}

static void disarm(void)
{
    atomic_store(&armed, false);
}

/* -------------------------------------------------------------- the scenes */

/* One run, in a thread of its own, so that what is allocated for a thread
 * fails too. Assertions are the main thread's; here is only noted. */
typedef struct run {
    const fault *f;
    void (*play)(struct run *r);
    long at;
    bool for_good;
    hf_client *client; /* but for the scene of opening one */
    hf_lock *lock;
    hf_status status;
    hf_error err;
    const char *wrong; /* what should not have happened */
    loss_note note;
} run;

static hf_client *open_client(run *r)
{
    hf_client_options options = fault_options();
    options.poll_cap_ms = 50;
    options.command_timeout_ms = 3000;
    return hf_client_open(srv_url(r->f->server), &options, &r->err);
}

static void note(run *r, hf_status status)
{
    if (r->status == HF_OK) {
        r->status = status;
    }
}

static void play_open(run *r)
{
    arm(r->at, r->for_good);
    hf_client *client = open_client(r);
    disarm();
    note(r, client ? HF_OK : hf_error_status(&r->err));
    hf_client_free(client);
}

static void play_open_tcp(run *r)
{
    arm(r->at, r->for_good);
    hf_client *client =
        hf_client_open(srv_tcp_url(r->f->server), NULL, &r->err);
    disarm();
    note(r, client ? HF_OK : hf_error_status(&r->err));
    hf_client_free(client);
}

/* Handles, two holds, questions; everything fails in turn. */
static void play_cycle(run *r)
{
    hf_lease *first = NULL;
    hf_lease *second = NULL;
    int64_t count = 0;
    arm(r->at, r->for_good);
    hf_lock *lock = hf_lock_open(r->client, "memory", &r->err);
    hf_status status = lock ? hf_lock_acquire(lock, 2000, &first, &r->err)
                            : hf_error_status(&r->err);
    if (status == HF_OK) {
        status = hf_lock_try(lock, &second, &r->err);
    }
    if (status == HF_OK) {
        status = hf_lock_hold_count(lock, NULL, &count, &r->err);
    }
    note(r, status);
    hf_error given = HF_ERROR_INIT;
    if (second && (status = hf_lease_release(second, &given)) != HF_OK) {
        r->err = given;
        note(r, status);
    }
    if (first && (status = hf_lease_release(first, &given)) != HF_OK) {
        r->err = given;
        note(r, status);
    }
    disarm();
    hf_lease_free(second);
    hf_lease_free(first);
    hf_lock_free(lock);
}

/* Another's lock, which ends soon: subscribing, waiting, trying again. */
static void play_contended(run *r)
{
    hf_lease *lease = NULL;
    arm(r->at, r->for_good);
    note(r, hf_lock_acquire(r->lock, 2000, &lease, &r->err));
    disarm();
    hf_lease_free(lease);
}

static void play_renewal(run *r)
{
    hf_lease *lease = NULL;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.on_lost = loss_note_take;
    options.on_lost_arg = &r->note;
    if (hf_lock_acquire_with(r->lock, &options, &lease, &r->err) != HF_OK) {
        r->wrong = "not acquired";
        return;
    }
    arm(r->at, r->for_good);
    if (r->for_good) { /* until it is lost, or shown to need no memory */
        int64_t by = test_now_ms() + 900;
        while (hf_lease_is_held(lease) && test_pause(by)) {
        }
    } else if (!fault_renewed(lease, 1)) {
        r->wrong = "one failed allocation cost the lease";
    }
    bool held = hf_lease_is_held(lease);
    disarm();
    if (held != (hf_lease_release(lease, &r->err) == HF_OK)) {
        r->wrong = "held without the server's knowing";
    }
    hf_lease_free(lease);
}

static int count_locks(void *arg, const hf_lock_info *info)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

static void play_list(run *r)
{
    int found = 0;
    arm(r->at, r->for_good);
    note(r, hf_client_list_locks(r->client, "list:*", count_locks, &found,
                                 &r->err));
    disarm();
    if (r->status == HF_OK && found != 3) {
        r->wrong = "not all were listed, and no error said so";
    }
}

static void play_rest(run *r)
{
    int flag = 0;
    int64_t number = 0;
    hf_lease *lease = NULL;
    arm(r->at, r->for_good);
    hf_cancel *cancel = hf_cancel_new();
    hf_owner *owner = hf_owner_new(r->client, &r->err);
    note(r, owner ? HF_OK : hf_error_status(&r->err));
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.owner = owner;
    options.cancel = cancel;
    hf_error err = HF_ERROR_INIT;
    hf_status status = hf_lock_acquire_with(r->lock, &options, &lease, &err);
    if (status == HF_OK && hf_lease_fd(lease, &err) < 0) {
        status = hf_error_status(&err);
    }
    if (status == HF_OK) {
        status = hf_lock_inspect(r->lock, count_locks, &flag, &err);
    }
    if (status == HF_OK) {
        status = hf_lock_remaining_ms(r->lock, &number, &err);
    }
    if (status == HF_OK) {
        status = hf_lock_force_release(r->lock, &flag, &err);
    }
    if (status != HF_OK && r->status == HF_OK) {
        r->err = err;
    }
    note(r, status);
    hf_cancel_free(cancel);
    disarm();
    hf_lease_free(lease);
    hf_owner_free(owner);
}

/* Closing must give back what is held, or at least stop renewing it. */
static void play_close(run *r)
{
    if (hf_lock_try(r->lock, NULL, &r->err) != HF_OK) {
        r->wrong = "not acquired";
    }
    arm(r->at, r->for_good);
    hf_client_free(r->client);
    disarm();
    r->client = NULL;
}

/* ------------------------------------------------------------------ running */

static void *run_in_thread(void *arg)
{
    run *r = arg;
    bool with_client = r->play != play_open && r->play != play_open_tcp;
    r->client = with_client ? open_client(r) : NULL;
    r->lock = r->client ? hf_lock_open(r->client, "memory", &r->err) : NULL;
    if (with_client && !r->lock) {
        r->wrong = "no client";
    } else {
        r->play(r);
    }
    hf_lock_free(r->lock);
    hf_client_free(r->client);
    return NULL;
}

static void play(run *r)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_in_thread, r), 0);
    (void)pthread_join(thread, NULL);
    if (r->wrong) {
        fail_msg("allocation %ld%s: %s", r->at, r->for_good ? " on" : "",
                 r->wrong);
    }
}

static void expect_reason(const run *r)
{
    const char *text = hf_error_text(&r->err);
    bool named = r->status == HF_ENOMEM || r->status == HF_ESYSTEM ||
                 r->status == HF_EUNREACHABLE || r->status == HF_EUNKNOWN ||
                 r->status == HF_NOT_ACQUIRED;
    if (!named || hf_error_status(&r->err) != r->status || !*text) {
        fail_msg("allocation %ld%s: status %d, \"%s\"", r->at,
                 r->for_good ? " on" : "", r->status, text);
    }
}

typedef void (*before_fn)(fault *f);

/* Every allocation fails in turn, until there are no more to fail. */
static void torture(fault *f, void (*scene)(run *r), before_fn before,
                    bool forever, long least)
{
    bool more = true;
    long most = 0;
    for (long at = -2; more; at++) {
        /* Twice without a failure: what is made once, and kept, is made. */
        run r = {.f = f, .play = scene, .at = at < 0 ? 1000000 : at};
        r.for_good = forever;
        if (before) {
            before(f);
        }
        long live_before = atomic_load(&live);
        play(&r);
        if (at < 0) {
            assert_int_equal(r.status, HF_OK);
            continue;
        }
        if (r.status != HF_OK) {
            expect_reason(&r);
        }
        long left = atomic_load(&live) - live_before;
        if (left != 0) {
            fail_msg("allocation %ld%s: %ld blocks left", at,
                     forever ? " on" : "", left);
        }
        assert_true(srv_cmd_becomes(f->server, "0", "EXISTS memory"));
        more = atomic_load(&has_failed);
        most = at;
    }
    assert_true(most >= least);
}

/* A scene makes `least` allocations, or the test is not what it seems. */
static void both_ways(void **state, void (*scene)(run *r), before_fn before,
                      long least)
{
    torture(*state, scene, before, false, least);
    torture(*state, scene, before, true, least);
}

static void test_open(void **state)
{
    both_ways(state, play_open, NULL, 8);
}

static void test_open_tcp(void **state)
{
    both_ways(state, play_open_tcp, NULL, 8);
}

static void test_cycle(void **state)
{
    both_ways(state, play_cycle, NULL, 5);
}

static void hold_for_a_moment(fault *f)
{
    assert_true(srv_cmd_is(f->server, "1", "HSET memory %s 1",
                           "4b1d9c1e-0000-4000-8000-000000000000:7"));
    assert_true(srv_cmd_is(f->server, "1", "PEXPIRE memory 30"));
}

static void test_contended(void **state)
{
    both_ways(state, play_contended, hold_for_a_moment, 8);
}

static void test_renewal(void **state)
{
    both_ways(state, play_renewal, NULL, 1);
}

static void make_three(fault *f)
{
    for (int i = 0; i < 3; i++) {
        free(srv_cmd(f->server, "HSET list:%d %s 1", i,
                     "4b1d9c1e-0000-4000-8000-000000000000:7"));
    }
}

static void test_list(void **state)
{
    both_ways(state, play_list, make_three, 5);
}

static void test_rest(void **state)
{
    both_ways(state, play_rest, NULL, 5);
}

static void test_close(void **state)
{
    both_ways(state, play_close, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_open),    FAULT_TEST(test_open_tcp),
        FAULT_TEST(test_cycle),   FAULT_TEST(test_contended),
        FAULT_TEST(test_renewal), FAULT_TEST(test_list),
        FAULT_TEST(test_rest),    FAULT_TEST(test_close),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
