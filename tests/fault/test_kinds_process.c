/* Every kind of lock with a lease, held by a process that is killed or stopped.
 * The processes are started before the program has threads, and wait for their
 * test. */
#include "fault/kinds.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_LEASE_MS 200
#define SLACK_MS 5000

enum { TO_BE_KILLED, TO_BE_STOPPED, FATES };

static child children[FATES][FAULT_MOST];
static const kinds_row *child_row;

/* Holds the lock once it is told to, and says so; then it looks whether it was
 * told of the loss. */
static int hold_until_told(const fault *f, int in, int out)
{
    loss_note note = {0};
    hf_lease *lease = NULL;
    hf_client_options options = fault_options();
    hf_acquire_options terms = kinds_noting(&note);
    options.watchdog_lease_ms = CHILD_LEASE_MS;
    if (child_hear(in) != 'h') {
        _exit(0);
    }
    hf_client *client = hf_client_open(srv_url(f->server), &options, NULL);
    hf_lock *lock =
        client ? kinds_open(child_row, child_row->kind, client) : NULL;
    if (!lock || hf_lock_acquire_with(lock, &terms, &lease, NULL) != HF_OK) {
        _exit(98);
    }
    child_say(out, 'h');
    (void)child_hear(in);
    int held = hf_lease_is_held(lease);
    hf_status given = hf_lease_release(lease, NULL);
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    while (atomic_load(&note.count) == 0 && test_pause(by)) {
    }
    _exit(held != 0                       ? 1
          : given != HF_ELOST             ? 2
          : atomic_load(&note.count) != 1 ? 3
                                          : 0);
}

static void start_children(srv *server)
{
    fault f = {.server = server};
    for (size_t i = 0; i < FATES * kinds_count; i++) {
        child_row = &kinds_rows[i % kinds_count];
        children[i / kinds_count][i % kinds_count] =
            child_start(&f, hold_until_told);
    }
}

/* It holds from here on. */
static child *let_hold(const kinds_case *k, int fate)
{
    child *c = &children[fate][k->row - kinds_rows];
    child_say(c->to, 'h');
    assert_int_equal(child_hear(c->from), 'h');
    return c;
}

/* F6: who waits has it when the lease is over, without a poll. */
static void test_holder_killed(void **state)
{
    kinds_case *k = *state;
    hf_acquire_options terms = kinds_long(TEST_LIMIT_MS);
    hf_client *client = kinds_client(k);
    child *c = let_hold(k, TO_BE_KILLED);
    taker t;
    kinds_unheard(k);
    taker_start_with(&t, kinds_rival(k, client), &terms);
    kinds_expect_waiting(k);
    child_kill(c);
    int64_t killed_at = test_now_ms();
    assert_int_equal(taker_end(&k->f, &t), HF_OK);
    assert_true(t.took_at - killed_at < CHILD_LEASE_MS + SLACK_MS);
    kinds_expect_once(k, t.lease);
    fault_give(&k->f, t.lease);
    kinds_expect_nothing(k);
}

/* F5: the holder goes on when another one has the lock: it has lost, and
 * nothing that it says touches the other. */
static void test_holder_stopped(void **state)
{
    kinds_case *k = *state;
    hf_client *client = kinds_client(k);
    child *c = let_hold(k, TO_BE_STOPPED);
    assert_int_equal(kill(c->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(c->pid, NULL, WUNTRACED), c->pid);
    hf_lease *lease = fault_take(&k->f, kinds_rival(k, client));
    child_say(c->to, 'g');
    assert_int_equal(kill(c->pid, SIGCONT), 0);
    assert_int_equal(child_end(c), 0);
    assert_int_equal(hf_lease_get_state(lease), HF_LEASE_HELD);
    kinds_expect_once(k, lease);
    fault_give(&k->f, lease);
    kinds_expect_nothing(k);
}

int main(void)
{
    static const kinds_test tests[] = {
        {"test_holder_killed", test_holder_killed, NULL},
        {"test_holder_stopped", test_holder_stopped, NULL},
    };
    return kinds_run(tests, sizeof(tests) / sizeof(tests[0]), start_children);
}
