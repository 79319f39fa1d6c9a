/* F45: system calls fail, each in turn at every point: once, and from there on
 * for good. An actor, a process of its own, goes through a scene; its calls of
 * one sort come to this process by a filter of the kernel's, which lets them
 * through or makes them fail. Whatever fails, the actor neither crashes nor
 * hangs, calls nothing a success that was none, and leaves no lock behind. */
#include "fault/fault.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEASE_MS 300
#define STRANGER "4b1d9c1e-0000-4000-8000-000000000000:7"

/* ---- what the actor and its director share */

typedef enum wish { NONE, IS_LISTED, IS_GONE, TAKE_THEIRS } wish;

typedef struct stage {
    atomic_int listener; /* number of the actor's descriptor, and once more: */
    atomic_bool taken;   /* the director has it */
    atomic_bool armed;   /* calls count from here on */
    bool unnoticed;      /* what fails is to be made up for at once */
    atomic_int asked;    /* a wish: what to look up, or do, on the server */
    atomic_int answer;   /* 0 not yet, 1 yes, -1 no */
    char owner[64];
    const char *wrong; /* what should not have happened; same in both */
} stage;

static stage *shared;

/* ---- the actor */

/* A call may fail, but says why. */
static bool accept_status(hf_status status, const hf_error *err)
{
    static const hf_status fair[] = {HF_ENOMEM,   HF_ESYSTEM,
                                     HF_EUNKNOWN, HF_EUNREACHABLE,
                                     HF_ELOST,    HF_NOT_ACQUIRED};
    for (size_t i = 0; i < sizeof(fair) / sizeof(fair[0]); i++) {
        if (status == fair[i]) {
            return hf_error_status(err) == status && *hf_error_text(err);
        }
    }
    return false;
}

static void expect_fair(hf_status status, const hf_error *err)
{
    if (status != HF_OK && (shared->unnoticed || !accept_status(status, err))) {
        (void)fprintf(stderr, "status %d: %s\n", status, hf_error_text(err));
        shared->wrong = "a failure without a good reason";
    }
}

static bool look_up(wish what)
{
    atomic_store(&shared->answer, 0);
    atomic_store(&shared->asked, what);
    while (atomic_load(&shared->answer) == 0) {
        (void)test_pause(0);
    }
    return atomic_load(&shared->answer) > 0;
}

/* Who holds is listed. It may have ended since, but not still be held. */
static void expect_listed(hf_lease *lease)
{
    (void)snprintf(shared->owner, sizeof(shared->owner), "%s",
                   hf_lease_owner_id(lease));
    if (!look_up(IS_LISTED) && hf_lease_is_held(lease)) {
        shared->wrong = "held, and the server does not know";
    }
}

static void give(hf_lease *lease)
{
    hf_error err = HF_ERROR_INIT;
    hf_status status = hf_lease_release(lease, &err);
    expect_fair(status, &err);
    if (hf_lease_is_held(lease)) {
        shared->wrong = "held after its release";
    }
    if (status == HF_OK && !look_up(IS_GONE)) {
        shared->wrong = "released, and the server still has it";
    }
    hf_lease_free(lease);
}

static hf_client *open_client(const fault *f)
{
    hf_error err = HF_ERROR_INIT;
    hf_client_options options = fault_options();
    options.connect_timeout_ms = shared->unnoticed ? TEST_LIMIT_MS : 150;
    options.command_timeout_ms = options.connect_timeout_ms;
    options.watchdog_lease_ms = shared->unnoticed ? TEST_LIMIT_MS : LEASE_MS;
    options.subscription_linger_ms = 1;
    hf_client *client = hf_client_open(srv_tcp_url(f->server), &options, &err);
    if (!client) {
        expect_fair(hf_error_status(&err), &err);
    }
    return client;
}

static int64_t wait_ms(void)
{
    return shared->unnoticed ? TEST_LIMIT_MS : 500;
}

/* Another's lock, which ends soon. */
static void wait_for_another(hf_client *client)
{
    hf_error err = HF_ERROR_INIT;
    hf_lease *lease = NULL;
    (void)look_up(TAKE_THEIRS);
    hf_lock *lock = hf_lock_open(client, "theirs", &err);
    hf_status status = lock ? hf_lock_acquire(lock, wait_ms(), &lease, &err)
                            : hf_error_status(&err);
    expect_fair(status, &err);
    hf_lease_free(lease);
    hf_lock_free(lock);
}

static void take_and_give(hf_client *client)
{
    hf_error err = HF_ERROR_INIT;
    hf_lease *lease = NULL;
    int64_t count = 1;
    hf_lock *lock = hf_lock_open(client, "ours", &err);
    hf_status status = lock ? hf_lock_acquire(lock, wait_ms(), &lease, &err)
                            : hf_error_status(&err);
    expect_fair(status, &err);
    if (lease) {
        expect_listed(lease);
        if (hf_lease_fd(lease, &err) < 0) {
            expect_fair(hf_error_status(&err), &err);
        }
        expect_fair(hf_lock_hold_count(lock, NULL, &count, &err), &err);
        if (count != 1 && hf_lease_is_held(lease)) {
            shared->wrong = "held with another count";
        }
        give(lease);
    }
    hf_lock_free(lock);
}

/* Everything from the opening to the closing. */
static void play_life(const fault *f)
{
    atomic_store(&shared->armed, true);
    hf_client *client = open_client(f);
    if (client) {
        take_and_give(client);
        wait_for_another(client);
    }
    hf_client_free(client);
}

/* A lease, taken while nothing fails. */
static hf_lease *take_at_leisure(hf_client *client, hf_lock **lock)
{
    hf_error err = HF_ERROR_INIT;
    hf_lease *lease = NULL;
    *lock = hf_lock_open(client, "ours", &err);
    while (!lease || !hf_lease_is_held(lease)) {
        hf_lease_free(lease);
        lease = NULL;
        (void)hf_lock_acquire(*lock, TEST_LIMIT_MS, &lease, &err);
    }
    return lease;
}

/* Until the lease is renewed (true) or ends. */
static bool watch(const hf_lease *lease)
{
    int64_t by = test_now_ms() + TEST_LIMIT_MS / 2;
    int64_t left = hf_lease_remaining_ms(lease);
    int64_t least = left;
    while (hf_lease_is_held(lease) && left <= least && test_pause(by)) {
        least = left;
        left = hf_lease_remaining_ms(lease);
    }
    return left > least;
}

/* The watchdog at work: the lease is renewed, or it ends. */
static void play_renewal(const fault *f)
{
    hf_client *client = NULL;
    hf_lock *lock = NULL;
    while (!client) { /* its time-outs are short */
        client = open_client(f);
    }
    hf_lease *lease = take_at_leisure(client, &lock);
    atomic_store(&shared->armed, true);
    if (!watch(lease) && hf_lease_is_held(lease)) {
        shared->wrong = "held without a watchdog";
    }
    expect_listed(lease);
    give(lease);
    hf_lock_free(lock);
    hf_client_free(client);
}

/* A client that opens although something has failed has a watchdog. */
static void play_opening(const fault *f)
{
    hf_lock *lock = NULL;
    bool renewed = false;
    atomic_store(&shared->armed, true);
    hf_client *client = open_client(f);
    int64_t by = test_now_ms() + TEST_LIMIT_MS / 2;
    /* On a busy machine one may come too late, but not each time. */
    while (client && !renewed && test_pause(by)) {
        hf_lease *lease = take_at_leisure(client, &lock);
        renewed = watch(lease);
        hf_lease_free(lease);
        hf_lock_free(lock);
    }
    if (client && !renewed) {
        shared->wrong = "a client without a watchdog";
    }
    hf_client_free(client);
}

/* ---- the filter */

#define NUMBER offsetof(struct seccomp_data, nr)
#define SECOND_ARGUMENT (offsetof(struct seccomp_data, args) + sizeof(uint64_t))
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offset))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)

/* Of futexes only the waits: the C library has no answer to a wake-up that
 * fails, for the kernel's never do. */
static int listen_to(long number)
{
    bool futex = number == SYS_futex;
    struct sock_filter rules[] = {
        LOAD(NUMBER),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 5),
        LOAD(SECOND_ARGUMENT),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, futex ? 0x7f : 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT_BITSET, 0, 1),
        RETURN(SECCOMP_RET_USER_NOTIF),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(rules) / sizeof(rules[0]),
                                 .filter = rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -1;
    }
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* ---- the director */

typedef struct sort {
    const char *name;
    long number;
    int error;
    enum {
        OR_ON,    /* may also go on failing */
        ONCE,     /* would make no sense for good */
        UNNOTICED /* once, and nobody may notice */
    } how;
    int least; /* so many calls there are in a scene, or it is not tested */
} sort;

typedef struct run {
    fault *f;
    void (*play)(const fault *f);
    const sort *what;
    int at; /* number of the call that fails, from 1 */
    bool for_good;
    int made;
} run;

static pid_t start_actor(const run *r)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)alarm(TEST_LIMIT_MS / 1000);
        atomic_store(&shared->listener, listen_to(r->what->number) + 1);
        while (!atomic_load(&shared->taken)) {
            (void)test_pause(0);
        }
        r->play(r->f);
        _exit(0);
    }
    return pid;
}

static int take_listener(pid_t actor)
{
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    while (atomic_load(&shared->listener) == 0 && test_pause(by)) {
    }
    int process = (int)syscall(SYS_pidfd_open, actor, 0);
    int fd = (int)syscall(SYS_pidfd_getfd, process,
                          atomic_load(&shared->listener) - 1, 0);
    (void)close(process);
    atomic_store(&shared->taken, true);
    return fd;
}

static void answer_call(run *r, int listener)
{
    struct seccomp_notif call = {0};
    struct seccomp_notif_resp answer = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
        return; /* it has been interrupted meanwhile */
    }
    r->made += atomic_load(&shared->armed) ? 1 : 0;
    bool fails = r->for_good ? r->made >= r->at : r->made == r->at;
    answer.id = call.id;
    if (fails && atomic_load(&shared->armed)) {
        answer.error = -r->what->error;
    } else {
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    }
    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

static bool fulfil(const fault *f, int what)
{
    if (what == IS_GONE) {
        return srv_cmd_int(f->server, "EXISTS ours") == 0;
    }
    if (what == IS_LISTED) {
        return srv_cmd_int(f->server, "HGET ours %s", shared->owner) == 1 &&
               srv_cmd_int(f->server, "PTTL ours") > 0;
    }
    return srv_cmd_int(f->server, "HSET theirs " STRANGER " 1") == 1 &&
           srv_cmd_int(f->server, "PEXPIRE theirs 20") == 1;
}

static void answer_wish(const fault *f)
{
    int what = atomic_exchange(&shared->asked, NONE);
    if (what != NONE) {
        atomic_store(&shared->answer, fulfil(f, what) ? 1 : -1);
    }
}

static int direct(run *r)
{
    int status = 0;
    memset(shared, 0, sizeof(*shared));
    shared->unnoticed = r->what->how == UNNOTICED && r->play == play_life;
    pid_t actor = start_actor(r);
    struct pollfd calls = {.fd = take_listener(actor), .events = POLLIN};
    assert_true(calls.fd >= 0);
    while (waitpid(actor, &status, WNOHANG) == 0) {
        (void)poll(&calls, 1, 2);
        if (calls.revents & POLLIN) {
            answer_call(r, calls.fd);
        }
        answer_wish(r->f);
    }
    (void)close(calls.fd);
    return status;
}

/* No lock is there for ever, nor for longer than its lease. */
static void expect_nothing_left(const run *r)
{
    static const char *const names[] = {"ours", "theirs"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        long long left = srv_cmd_int(r->f->server, "PTTL %s", names[i]);
        if (left == -1 || left > LEASE_MS) {
            fail_msg("%s: %s for %lld ms", r->what->name, names[i], left);
        }
    }
    assert_true(srv_cmd_becomes(r->f->server, "0", "DBSIZE"));
}

static void play(run *r)
{
    long long connections = fault_info(r->f, "total_connections_received") + 2;
    int status = direct(r);
    if (shared->unnoticed && !shared->wrong &&
        fault_info(r->f, "total_connections_received") > connections) {
        shared->wrong = "it has connected anew";
    }
    if (shared->wrong || status != 0) {
        fail_msg("%s %d%s, %s: %s, %s %d", r->what->name, r->at,
                 r->for_good ? " and on" : "", strerror(r->what->error),
                 shared->wrong ? shared->wrong : "it did not come to its end",
                 WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : status);
    }
    expect_nothing_left(r);
}

/* Each call fails once; and some, further and further apart, are the first of
 * those that fail. */
static void torture(fault *f, void (*scene)(const fault *f), const sort *what)
{
    int most = 0;
    for (int good = 0; good < (what->how == OR_ON ? 2 : 1); good++) {
        int step = 1;
        for (int at = 1; at > 0; at += step) {
            run r = {f, scene, what, at, good, 0};
            play(&r);
            most = r.made > most ? r.made : most;
            at = r.made < at ? -step : at; /* there are no more */
            step = good ? at / 2 + 1 : 1;
        }
    }
    if (most < what->least) {
        fail_msg("%s: only %d calls", what->name, most);
    }
}

#define CALL(name) #name, SYS_##name

/* What the kernel may answer. For good only where it may last. There are more
 * calls than said here unless theirs ends before it is waited for. */
static const sort life[] = {
    {CALL(socket), EMFILE, OR_ON, 1},
    {CALL(connect), ENETUNREACH, OR_ON, 1},
    {CALL(connect), EINTR, ONCE, 1},
    {CALL(setsockopt), ENOMEM, OR_ON, 3},
    {CALL(getsockopt), ENOBUFS, OR_ON, 1},
    {CALL(fcntl), EINVAL, OR_ON, 2},
    {CALL(sendto), ECONNRESET, OR_ON, 3},
    {CALL(sendto), EAGAIN, ONCE, 3},
    {CALL(recvfrom), ECONNRESET, OR_ON, 3},
    {CALL(recvfrom), EINTR, UNNOTICED, 3},
    {CALL(recvfrom), ENOMEM, ONCE, 3},
    {CALL(ppoll), EINTR, UNNOTICED, 2},
    {CALL(ppoll), ENOMEM, ONCE, 2},
    {CALL(futex), EINTR, UNNOTICED, 1},
    {CALL(futex), EAGAIN, UNNOTICED, 1},
    {CALL(eventfd2), EMFILE, OR_ON, 2},
    {CALL(timerfd_create), EMFILE, OR_ON, 1},
    {CALL(timerfd_settime), ENOMEM, OR_ON, 1},
    {CALL(getrandom), EINTR, UNNOTICED, 1},
    {CALL(getrandom), ENOSYS, OR_ON, 1},
    {CALL(clone3), EAGAIN, OR_ON, 1},
    {CALL(mmap), ENOMEM, OR_ON, 1},
    {CALL(mprotect), ENOMEM, OR_ON, 1},
    {CALL(read), EINTR, UNNOTICED, 1},
    {CALL(read), EAGAIN, UNNOTICED, 1},
    {CALL(write), EINTR, UNNOTICED, 1},
    {CALL(shutdown), ENOTCONN, OR_ON, 1},
    {CALL(close), EIO, OR_ON, 3},
};

static void test_life(void **state)
{
    for (size_t i = 0; i < sizeof(life) / sizeof(life[0]); i++) {
        torture(*state, play_life, &life[i]);
    }
}

static const sort renewal[] = {
    {CALL(sendto), ECONNRESET, OR_ON, 1},
    {CALL(sendto), EAGAIN, ONCE, 1},
    {CALL(recvfrom), ECONNRESET, OR_ON, 1},
    {CALL(recvfrom), EINTR, ONCE, 1},
    {CALL(ppoll), EINTR, ONCE, 2},
    {CALL(timerfd_settime), ENOMEM, OR_ON, 1},
    {CALL(read), EAGAIN, ONCE, 1},
};

static const sort opening[] = {
    {CALL(clone3), EAGAIN, ONCE, 1},         {CALL(eventfd2), EMFILE, ONCE, 1},
    {CALL(timerfd_create), EMFILE, ONCE, 1}, {CALL(mprotect), ENOMEM, ONCE, 1},
    {CALL(fcntl), EINVAL, ONCE, 2},
};

static void test_opening(void **state)
{
    for (size_t i = 0; i < sizeof(opening) / sizeof(opening[0]); i++) {
        torture(*state, play_opening, &opening[i]);
    }
}

static void test_renewal(void **state)
{
    for (size_t i = 0; i < sizeof(renewal) / sizeof(renewal[0]); i++) {
        torture(*state, play_renewal, &renewal[i]);
    }
}

int main(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_life),
        FAULT_TEST(test_opening),
        FAULT_TEST(test_renewal),
    };
    cmocka_set_test_filter(getenv("HOLDFAST_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
