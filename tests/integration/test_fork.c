/* fork, exec, exit and the ends of threads while locks are held: what was the
 * parent's stays the parent's, and what ends takes only its own with it. */
#include "holdfast/holdfast.h"
#include "support/locks.h"
#include "support/net.h"
#include "support/server.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 4

static srv *server;
static char self[512]; /* this program */
static _Thread_local hf_error err = HF_ERROR_INIT;

static int setup(void **state)
{
    (void)state;
    server = srv_start(NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    srv_stop(server);
    return 0;
}

static int nothing_is_left(void **state)
{
    (void)state;
    bool empty = srv_cmd_becomes(server, "0", "DBSIZE");
    free(srv_cmd(server, "FLUSHALL")); /* of a test that failed */
    return empty ? 0 : -1;
}

/* The connections by number, without the test's own. */
static char *connections(void)
{
    char *own = srv_cmd(server, "CLIENT ID");
    char *list = srv_cmd(server, "CLIENT LIST");
    char *ids = test_text("%s", "");
    char *rest = NULL;
    for (char *line = strtok_r(list, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        long long id = 0;
        if (sscanf(line, "id=%lld", &id) == 1 && id != atoll(own)) {
            char *longer = test_text("%s %lld", ids, id);
            free(ids);
            ids = longer;
        }
    }
    free(list);
    free(own);
    return ids;
}

/* ---- the child of a holder */

typedef struct inherited {
    hf_client *client;
    hf_lock *lock;
    hf_lease *lease;
    hf_owner *owner;
    hf_cancel *cancel;
} inherited;

static int count_nothing(void *arg, const hf_lock_info *info)
{
    (void)arg;
    (void)info;
    return 0;
}

/* Every call of an inherited handle says so, and touches nothing. */
static void use_everything(const inherited *in)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = NULL;
    int yes = 7;
    int64_t number = 7;
    options.owner = in->owner;
    options.cancel = in->cancel;
    options.wait_ms = HF_WAIT_FOREVER;
    must_be(HF_EFORKED, hf_lock_try(in->lock, &lease, &err));
    must_be(HF_EFORKED, hf_lock_acquire(in->lock, -1, &lease, &err));
    must_be(HF_EFORKED, hf_lock_acquire_with(in->lock, &options, &lease, &err));
    must_be(HF_EFORKED, hf_lease_release(in->lease, &err));
    must_be(HF_EFORKED, hf_lock_release(in->lock, NULL, &err));
    must_be(HF_EFORKED, hf_lock_release(in->lock, in->owner, &err));
    must_be(HF_EFORKED, hf_lock_force_release(in->lock, &yes, &err));
    must_be(HF_EFORKED, hf_lock_is_locked(in->lock, &yes, &err));
    must_be(HF_EFORKED, hf_lock_is_held_by(in->lock, NULL, &yes, &err));
    must_be(HF_EFORKED, hf_lock_hold_count(in->lock, NULL, &number, &err));
    must_be(HF_EFORKED, hf_lock_remaining_ms(in->lock, &number, &err));
    must_be(HF_EFORKED, hf_lock_inspect(in->lock, count_nothing, NULL, &err));
    must_be(HF_EFORKED,
            hf_client_list_locks(in->client, NULL, count_nothing, NULL, &err));
    must_be(HF_EFORKED, hf_client_ping(in->client, &err));
    must(!hf_lock_open(in->client, "another", &err));
    must(hf_error_status(&err) == HF_EFORKED);
    must(!hf_owner_new(in->client, &err));
    must(hf_error_status(&err) == HF_EFORKED);
    must(hf_lease_fd(in->lease, &err) == -1);
    must(!lease && yes == 7 && number == 7);
    /* Whoever is forked off does not hold. */
    must(!hf_lease_is_held(in->lease));
    must(hf_lease_remaining_ms(in->lease) == 0);
    must(strlen(hf_lease_owner_id(in->lease)) > 36);
    must(strlen(hf_client_server(in->client)) > 0);
}

static void free_everything(const inherited *in)
{
    hf_lease_free(in->lease);
    hf_owner_free(in->owner);
    hf_lock_free(in->lock);
    hf_client_free(in->client);
}

static inherited hold(const char *name, int64_t lease_ms)
{
    hf_client_options options = test_watchdog(lease_ms);
    inherited in = {.client = test_client(srv_url(server), &options)};
    test_warm_up(in.client);
    in.lock = test_lock(in.client, name);
    in.owner = hf_owner_new(in.client, &err);
    in.cancel = hf_cancel_new();
    in.lease = test_take(in.lock);
    return in;
}

static void let_go(inherited *in)
{
    assert_int_equal(hf_lease_get_state(in->lease), HF_LEASE_HELD);
    expect(HF_OK, hf_lease_release(in->lease, &err));
    hf_cancel_free(in->cancel);
    free_everything(in);
}

static void test_child_uses_and_frees(void **state)
{
    (void)state;
    inherited in = hold("forked", 3600000);
    char *before = connections();
    size_t fds = test_open_fds();
    pid_t child = fork();
    if (child == 0) {
        use_everything(&in);
        free_everything(&in);
        must(test_open_fds() < fds);
        test_exit_child(0); /* with all that is done at exit */
    }
    assert_int_equal(test_reap(child), 0);
    expect(HF_OK, hf_client_ping(in.client, &err));
    char *after = connections();
    assert_string_equal(after, before); /* the same connections still */
    assert_true(test_is_held(server, "forked", hf_lease_owner_id(in.lease), 1));
    free(before);
    free(after);
    let_go(&in);
}

/* A child that just ends, by whatever way, takes nothing with it, and renews
 * nothing either. */
static void test_child_just_ends(void **state)
{
    (void)state;
    inherited in = hold("forked", 900);
    char *before = connections();
    for (int way = 0; way < 4; way++) {
        pid_t child = fork();
        if (child == 0 && way == 0) {
            test_exit_child(0);
        } else if (child == 0 && way == 1) {
            test_end_child(0);
        } else if (child == 0 && way == 2) {
            (void)raise(SIGKILL);
        } else if (child == 0) {
            hf_lease_free(in.lease); /* and nothing else */
            test_exit_child(0);
        }
        assert_int_equal(test_reap(child), way == 2 ? 128 + SIGKILL : 0);
    }
    assert_true(test_is_held(server, "forked", hf_lease_owner_id(in.lease), 1));
    /* Renewals go on as before. */
    test_reset_calls(server);
    assert_true(test_wait_calls(server, "evalsha", 5));
    assert_int_equal(hf_lease_get_state(in.lease), HF_LEASE_HELD);
    char *after = connections();
    assert_string_equal(after, before);
    free(before);
    free(after);
    let_go(&in);
}

static void test_child_with_a_client_of_its_own(void **state)
{
    (void)state;
    inherited in = hold("forked", 3600000);
    pid_t child = fork();
    if (child == 0) {
        hf_client_options options = test_patient();
        hf_client *own = test_client(srv_url(server), &options);
        hf_lock *same = test_lock(own, "forked");
        hf_lock *free_one = test_lock(own, "the child's");
        must_be(HF_NOT_ACQUIRED, hf_lock_try(same, NULL, &err));
        hf_lease *lease = test_take(free_one);
        /* Neither the parent's UUID nor, with it, its name. */
        must(memcmp(hf_lease_owner_id(lease), hf_lease_owner_id(in.lease),
                    36) != 0);
        test_give(lease);
        /* Handles of the other client do not go with it. */
        hf_acquire_options with = HF_ACQUIRE_OPTIONS_INIT;
        with.owner = in.owner;
        must_be(HF_EINVAL, hf_lock_acquire_with(free_one, &with, &lease, &err));
        hf_lock_free(same);
        hf_lock_free(free_one);
        hf_client_free(own);
        free_everything(&in);
        test_end_child(0);
    }
    assert_int_equal(test_reap(child), 0);
    assert_true(test_is_held(server, "forked", hf_lease_owner_id(in.lease), 1));
    let_go(&in);
}

/* ---- a fork in the middle of other threads' work */

typedef struct hammer {
    hf_client *client;
    hf_lock *lock; /* the same for all */
    _Atomic bool stop;
    _Atomic int pairs;
} hammer;

static void *strike(void *arg)
{
    hammer *h = arg;
    while (!atomic_load(&h->stop)) {
        must_be(HF_OK, hf_lock_acquire(h->lock, HF_WAIT_FOREVER, NULL, &err));
        must_be(HF_OK, hf_lock_release(h->lock, NULL, &err));
        (void)atomic_fetch_add(&h->pairs, 1);
    }
    return NULL;
}

_Noreturn static void end_in_child(const inherited *in, bool with_client)
{
    use_everything(in);
    if (with_client) {
        hf_client_options options = test_patient();
        hf_client *own = test_client(srv_url(server), &options);
        hf_lock *lock = test_lock(own, "the child's");
        test_give(test_take(lock));
        hf_lock_free(lock);
        hf_client_free(own);
    }
    free_everything(in);
    if (test_instrumented()) {
        test_end_child(
            0); /* what threads had that are no more looks like a leak */
    }
    test_exit_child(0);
}

static void test_fork_among_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    inherited in = hold("forked", 3600000);
    hammer h = {.client = in.client, .stop = false, .pairs = 0};
    h.lock = test_lock(in.client, "hammered");
    for (int i = 0; i < THREADS; i++) {
        threads[i] = test_thread(strike, &h);
    }
    for (int i = 0; i < test_scaled(20); i++) {
        int pairs = atomic_load(&h.pairs);
        pid_t child = fork();
        if (child == 0) {
            end_in_child(&in, i % 2);
        }
        assert_int_equal(test_reap(child), 0);
        int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
        while (atomic_load(&h.pairs) < pairs + THREADS) { /* work goes on */
            assert_true(test_pause(deadline));
        }
    }
    atomic_store(&h.stop, true);
    for (int i = 0; i < THREADS; i++) {
        test_join(threads[i]);
    }
    assert_true(test_is_held(server, "forked", hf_lease_owner_id(in.lease), 1));
    hf_lock_free(h.lock);
    let_go(&in);
}

/* ---- the end of a thread */

typedef struct visit {
    hf_lock *lock;
    hf_lease *lease;
    hf_status status;
    char id[64];
} visit;

static void *take_and_end(void *arg)
{
    visit *v = arg;
    v->status = hf_lock_try(v->lock, &v->lease, &err);
    if (v->status == HF_OK) {
        (void)snprintf(v->id, sizeof(v->id), "%s", hf_lease_owner_id(v->lease));
    } else {
        must(hf_lock_release(v->lock, NULL, &err) == HF_ENOTHELD);
    }
    return NULL;
}

static void test_thread_ends_while_holding(void **state)
{
    (void)state;
    hf_client_options options = test_watchdog(900);
    hf_client *client = test_client(srv_url(server), &options);
    hf_lock *lock = test_lock(client, "left");
    visit first = {.lock = lock};
    test_join(test_thread(take_and_end, &first));
    assert_int_equal(first.status, HF_OK);
    /* New threads get its memory and its number of the system, but not what
     * it held. */
    for (int i = 0; i < 20; i++) {
        visit next = {.lock = lock};
        test_join(test_thread(take_and_end, &next));
        assert_int_equal(next.status, HF_NOT_ACQUIRED);
    }
    /* The watchdog goes on. */
    test_reset_calls(server);
    assert_true(test_wait_calls(server, "evalsha", 10));
    assert_int_equal(hf_lease_get_state(first.lease), HF_LEASE_HELD);
    assert_true(test_is_held(server, "left", first.id, 1));
    /* Whoever has the lease can give it back. */
    test_give(first.lease);
    visit last = {.lock = lock};
    test_join(test_thread(take_and_end, &last));
    assert_int_equal(last.status, HF_OK);
    assert_string_not_equal(last.id, first.id);
    test_give(last.lease);
    hf_lock_free(lock);
    hf_client_free(client);
}

/* ---- the end of the process */

/* What is held at the end and freed by nobody, in sight of leak checkers. */
static struct {
    hf_client *client;
    hf_owner *owner;
    hf_lock *locks[3];
    hf_lease *leases[2];
} kept;

static void *take_by_thread(void *arg)
{
    kept.locks[0] = test_lock(arg, "a thread's");
    kept.leases[0] = test_take(kept.locks[0]);
    return NULL;
}

static void *exit_by_thread(void *arg)
{
    (void)take_by_thread(arg);
    test_exit_child(3);
}

/* Holds as the main thread, twice; as another thread; as an owner. */
_Noreturn static void hold_and_exit(bool by_thread)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_client_options patient = test_patient();
    kept.client = test_client(srv_url(server), &patient);
    kept.locks[1] = test_lock(kept.client, "the main thread's");
    kept.locks[2] = test_lock(kept.client, "an owner's");
    kept.leases[1] = test_take(kept.locks[1]);
    must_be(HF_OK, hf_lock_try(kept.locks[1], NULL, &err));
    kept.owner = hf_owner_new(kept.client, &err);
    options.owner = kept.owner;
    must_be(HF_OK, hf_lock_acquire_with(kept.locks[2], &options, NULL, &err));
    if (by_thread) {
        test_join(test_thread(exit_by_thread, kept.client));
    }
    test_join(test_thread(take_by_thread, kept.client));
    test_exit_child(3);
}

/* What the thread that ends the process holds is given back; what others do,
 * they may be acting upon until the very end. */
static void check_exit(bool by_thread)
{
    pid_t child = fork();
    if (child == 0) {
        hold_and_exit(by_thread);
    }
    assert_int_equal(test_reap(child), 3);
    const char *given = by_thread ? "a thread's" : "the main thread's";
    const char *stays = by_thread ? "the main thread's" : "a thread's";
    assert_true(srv_cmd_becomes(server, "0", "EXISTS %s", given));
    assert_true(srv_cmd_is(server, "1", "EXISTS %s", stays));
    assert_true(srv_cmd_is(server, "1", "EXISTS %s", "an owner's"));
    assert_true(srv_cmd_is(server, "2", "DEL %s %s", stays, "an owner's"));
}

static void test_exit_while_holding(void **state)
{
    (void)state;
    check_exit(false);
    check_exit(true);
}

/* ---- exec */

/* What is open besides input, output, errors and the folder that is read. */
static int list_descriptors(void)
{
    int odd = 0;
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry = NULL;
    while (folder && (entry = readdir(folder)) != NULL) {
        int fd = atoi(entry->d_name);
        if (fd > 2 && fd != dirfd(folder)) {
            char to[256] = "";
            char *from = test_text("/proc/self/fd/%d", fd);
            (void)readlink(from, to, sizeof(to) - 1);
            free(from);
            (void)fprintf(stderr, "descriptor %d is open: %s\n", fd, to);
            odd++;
        }
    }
    if (!folder) {
        return -1;
    }
    (void)closedir(folder);
    return odd;
}

/* Everything that has a descriptor: both links, waker, lease. */
_Noreturn static void hold_and_exec(void)
{
    /* What this program was started with, and hiredis' connections, are none
     * of the library's. */
    for (int fd = 3; fd < 1024; fd++) {
        (void)close(fd);
    }
    hf_client_options options = test_patient();
    hf_client *client = test_client(srv_tcp_url(server), &options);
    hf_lock *lock = test_lock(client, "exec");
    hf_lock *busy = test_lock(client, "busy");
    hf_lease *lease = test_take(lock);
    must(hf_lease_fd(lease, &err) >= 0);
    must_be(HF_NOT_ACQUIRED, hf_lock_acquire(busy, 50, NULL, &err));
    (void)execl(self, self, "descriptors", (char *)NULL);
    _exit(127);
}

static void test_exec_while_holding(void **state)
{
    (void)state;
    assert_true(srv_cmd_is(server, "1", "HSET busy another:1 1"));
    char *before = connections();
    pid_t child = fork();
    if (child == 0) {
        hold_and_exec();
    }
    assert_int_equal(test_reap(child), 0);
    /* Its connections are gone, its lease goes on to its end. */
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    for (bool same = false; !same;) {
        char *after = connections();
        same = strcmp(after, before) == 0;
        free(after);
        assert_true(same || test_pause(deadline));
    }
    free(before);
    assert_int_equal(srv_cmd_int(server, "HLEN exec"), 1);
    assert_true(srv_cmd_is(server, "2", "DEL exec busy"));
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    if (argc == 2 && strcmp(argv[1], "descriptors") == 0) {
        return list_descriptors();
    }
    must(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
#define CHECKED(test) cmocka_unit_test_teardown(test, nothing_is_left)
    const struct CMUnitTest tests[] = {
        CHECKED(test_child_uses_and_frees),
        CHECKED(test_child_just_ends),
        CHECKED(test_child_with_a_client_of_its_own),
        CHECKED(test_fork_among_threads),
        CHECKED(test_thread_ends_while_holding),
        CHECKED(test_exit_while_holding),
        CHECKED(test_exec_while_holding),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
