/* See fault.h. */
#include "fault/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ------------------------------------------------------------- the journal */

#define JOURNAL_SIZE ((size_t)1024 * 1024)

static pthread_mutex_t journal_mutex = PTHREAD_MUTEX_INITIALIZER;
static char journal[JOURNAL_SIZE];
static size_t journal_length;

static bool journal_odd;

bool fault_printable(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            return false;
        }
    }
    return true;
}

static void journal_add(void *arg, hf_log_level level, const char *line)
{
    size_t length = strlen(line);
    (void)arg;
    (void)level;
    (void)pthread_mutex_lock(&journal_mutex);
    journal_odd = journal_odd || !fault_printable(line);
    if (journal_length + length + 2 < JOURNAL_SIZE) {
        memcpy(journal + journal_length, line, length);
        journal_length += length;
        journal[journal_length++] = '\n';
        journal[journal_length] = '\0';
    }
    (void)pthread_mutex_unlock(&journal_mutex);
}

bool journal_has(const char *text)
{
    (void)pthread_mutex_lock(&journal_mutex);
    bool has = strstr(journal, text) != NULL;
    (void)pthread_mutex_unlock(&journal_mutex);
    return has;
}

bool journal_is_printable(void)
{
    (void)pthread_mutex_lock(&journal_mutex);
    bool printable = !journal_odd;
    (void)pthread_mutex_unlock(&journal_mutex);
    return printable;
}

void journal_clear(void)
{
    (void)pthread_mutex_lock(&journal_mutex);
    journal_length = 0;
    journal[0] = '\0';
    (void)pthread_mutex_unlock(&journal_mutex);
}

/* ------------------------------------------------------------- the fixture */

int fault_setup(void **state)
{
    fault *f = calloc(1, sizeof(*f));
    if (!f) {
        return -1;
    }
    journal_clear();
    f->server = srv_start(NULL);
    *state = f;
    return 0;
}

int fault_setup_net(void **state)
{
    if (fault_setup(state) != 0) {
        return -1;
    }
    fault *f = *state;
    f->net = proxy_start(srv_socket(f->server));
    return 0;
}

int fault_teardown(void **state)
{
    fault *f = *state;
    for (size_t i = 0; i < FAULT_MOST; i++) {
        hf_lease_free(f->leases[i]);
    }
    for (size_t i = 0; i < FAULT_MOST; i++) {
        hf_lock_free(f->locks[i]);
    }
    for (size_t i = 0; i < FAULT_MOST; i++) {
        hf_client_free(f->clients[i]);
    }
    proxy_stop(f->net);
    srv_stop(f->server);
    free(f);
    return 0;
}

/* The place of a pointer, or of NULL for a free one. */
static size_t place_of(void *const places[FAULT_MOST], const void *what)
{
    for (size_t i = 0; i < FAULT_MOST; i++) {
        if (places[i] == what) {
            return i;
        }
    }
    test_die("the fixture has too few places");
}

hf_client_options fault_options(void)
{
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    options.connect_timeout_ms = 1000;
    options.command_timeout_ms = 1000;
    options.watchdog_lease_ms = 600;
    options.poll_cap_ms = 60000;
    options.log = journal_add;
    options.log_level = HF_LOG_DEBUG;
    return options;
}

hf_client *fault_open(fault *f, const char *url,
                      const hf_client_options *options)
{
    hf_error err = HF_ERROR_INIT;
    hf_client_options usual = fault_options();
    hf_client *client = hf_client_open(url, options ? options : &usual, &err);
    if (!client) {
        fail_msg("%s: %s", url, hf_error_text(&err));
    }
    f->clients[place_of((void *const *)f->clients, NULL)] = client;
    return client;
}

void fault_close(fault *f, hf_client *client)
{
    f->clients[place_of((void *const *)f->clients, client)] = NULL;
    hf_client_free(client);
}

hf_lock *fault_lock(fault *f, hf_client *client, const char *name)
{
    hf_error err = HF_ERROR_INIT;
    hf_lock *lock = hf_lock_open(client, name, &err);
    if (!lock) {
        fail_msg("%s: %s", name, hf_error_text(&err));
    }
    f->locks[place_of((void *const *)f->locks, NULL)] = lock;
    return lock;
}

hf_lease *fault_take_with(fault *f, hf_lock *lock,
                          const hf_acquire_options *options)
{
    hf_lease *lease = NULL;
    hf_error err = HF_ERROR_INIT;
    if (hf_lock_acquire_with(lock, options, &lease, &err) != HF_OK) {
        fail_msg("%s", hf_error_text(&err));
    }
    f->leases[place_of((void *const *)f->leases, NULL)] = lease;
    return lease;
}

hf_lease *fault_take(fault *f, hf_lock *lock)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = TEST_LIMIT_MS;
    return fault_take_with(f, lock, &options);
}

void fault_free(fault *f, hf_lease *lease)
{
    f->leases[place_of((void *const *)f->leases, lease)] = NULL;
    hf_lease_free(lease);
}

void fault_give(fault *f, hf_lease *lease)
{
    hf_error err = HF_ERROR_INIT;
    if (hf_lease_release(lease, &err) != HF_OK) {
        fail_msg("%s", hf_error_text(&err));
    }
    fault_free(f, lease);
}

void fault_cycle(fault *f, hf_client *client, const char *name)
{
    hf_lock *lock = fault_lock(f, client, name);
    fault_give(f, fault_take(f, lock));
    f->locks[place_of((void *const *)f->locks, lock)] = NULL;
    hf_lock_free(lock);
    assert_true(srv_cmd_is(f->server, "0", "EXISTS %s", name));
}

void fault_expect_count(fault *f, const char *name, const hf_lease *lease,
                        const char *count)
{
    assert_true(srv_cmd_is(f->server, count, "HGET %s %s", name,
                           hf_lease_owner_id(lease)));
    assert_true(srv_cmd_is(f->server, "1", "HLEN %s", name));
    assert_true(srv_cmd_int(f->server, "PTTL %s", name) > 0);
}

bool fault_renewed(const hf_lease *lease, int times)
{
    int64_t by = test_now_ms() + TEST_LIMIT_MS;
    int64_t least = INT64_MAX;
    while (times > 0 && test_pause(by)) {
        int64_t left = hf_lease_remaining_ms(lease);
        if (left > least) {
            times--;
            least = INT64_MAX;
        } else {
            least = left;
        }
    }
    return times == 0;
}

/* -------------------------------------------------------- losses and takers */

void loss_note_take(void *arg, hf_lease *lease, hf_loss why)
{
    loss_note *note = arg;
    (void)lease;
    atomic_store(&note->why, (int)why);
    (void)atomic_fetch_add(&note->count, 1);
}

static void *take(void *arg)
{
    taker *t = arg;
    t->status = hf_lock_acquire_with(t->lock, &t->options, &t->lease, &t->err);
    t->took_at = test_now_ms();
    atomic_store(&t->done, true);
    return NULL;
}

void taker_start_with(taker *t, hf_lock *lock,
                      const hf_acquire_options *options)
{
    memset(t, 0, sizeof(*t));
    t->lock = lock;
    t->options = *options;
    if (pthread_create(&t->thread, NULL, take, t) != 0) {
        test_die("no thread for a taker");
    }
}

void taker_start(taker *t, hf_lock *lock, int64_t wait_ms)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = wait_ms;
    taker_start_with(t, lock, &options);
}

hf_status taker_end(fault *f, taker *t)
{
    (void)pthread_join(t->thread, NULL);
    if (t->lease) {
        f->leases[place_of((void *const *)f->leases, NULL)] = t->lease;
    }
    return t->status;
}

/* ------------------------------------------------------ the server's numbers
 */

bool fault_subscribed(fault *f, const char *name, int count)
{
    char *expected = test_text("redisson_lock__channel:{%s} %d", name, count);
    bool there = srv_cmd_becomes(
        f->server, expected, "PUBSUB NUMSUB redisson_lock__channel:{%s}", name);
    free(expected);
    return there;
}

static long long number_behind(fault *f, const char *section, const char *word)
{
    char *info = srv_cmd(f->server, "INFO %s", section);
    const char *at = strstr(info, word);
    long long number = at ? strtoll(at + strlen(word), NULL, 10) : 0;
    free(info);
    return number;
}

long long fault_calls(fault *f, const char *command)
{
    char *word = test_text("cmdstat_%s:calls=", command);
    long long calls = number_behind(f, "commandstats", word);
    free(word);
    return calls;
}

long long fault_info(fault *f, const char *field)
{
    char *word = test_text("\n%s:", field);
    long long number = number_behind(f, "all", word);
    free(word);
    return number;
}

/* ---------------------------------------------------------------- children */

child child_start(const fault *f, child_fn body)
{
    int to[2];
    int from[2];
    if (pipe2(to, 0) != 0 || pipe2(from, 0) != 0) {
        test_die("pipe: %s", strerror(errno));
    }
    (void)fflush(NULL);
    child c = {.pid = fork(), .to = to[1], .from = from[0]};
    if (c.pid < 0) {
        test_die("fork: %s", strerror(errno));
    }
    if (c.pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(to[1]);
        (void)close(from[0]);
        exit(body(f, to[0], from[1]));
    }
    (void)close(to[0]);
    (void)close(from[1]);
    return c;
}

void child_say(int fd, char what)
{
    while (write(fd, &what, 1) < 0 && errno == EINTR) {
    }
}

char child_hear(int fd)
{
    char what = '\0';
    while (read(fd, &what, 1) < 0 && errno == EINTR) {
    }
    return what;
}

int child_end(child *c)
{
    int status = 0;
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
    }
    (void)close(c->to);
    (void)close(c->from);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void child_kill(child *c)
{
    (void)kill(c->pid, SIGKILL);
    (void)child_end(c);
}
