/* The embedded server: one for all processes, whatever they do at once. */
#include "base/heap.h"
#include "os/os.h"
#include "redis/embedded.h"
#include "support/net.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT (TEST_LIMIT_MS * HF__MS)
#define RACERS 12

/* The runtime directory is not there yet when a test begins. */
typedef struct scene {
    char *folder;
    char *runtime;
    char *socket;
} scene;

static hf_embedded_info status_now(void)
{
    hf_embedded_info info = HF_EMBEDDED_INFO_INIT;
    hf_error err = HF_ERROR_INIT;
    if (hf_embedded_status(&info, &err) != HF_OK) {
        fail_msg("%s", hf_error_text(&err));
    }
    return info;
}

/* The server that the other tests run on; without one, what the library finds.
 */
static void choose_server(void)
{
    const char *named = getenv("HOLDFAST_TEST_SERVER");
    assert_int_equal(named ? setenv("HOLDFAST_SERVER", named, 1)
                           : unsetenv("HOLDFAST_SERVER"),
                     0);
}

static int set_up(void **state)
{
    scene *of = calloc(1, sizeof(*of));
    of->folder = test_folder_new();
    of->runtime = test_text("%s/runtime", of->folder);
    of->socket = test_text("%s/server.sock", of->runtime);
    *state = of;
    choose_server();
    return setenv("HOLDFAST_RUNTIME_DIR", of->runtime, 1);
}

static void kill_and_wait(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_true(test_wait_gone(pid));
}

static int tear_down(void **state)
{
    scene *of = *state;
    (void)hf_embedded_stop(NULL, NULL);
    test_folder_remove(of->folder);
    free(of->runtime);
    free(of->socket);
    free(of);
    return 0;
}

static void ensure(void)
{
    hf__endpoint at = {0};
    hf_error err = HF_ERROR_INIT;
    if (hf__embedded_ensure(&at, &err) != HF_OK) {
        fail_msg("%s", hf_error_text(&err));
    }
    hf__endpoint_free(&at);
}

static char *ask(const scene *of, const char *command)
{
    redisContext *on = redisConnectUnix(of->socket);
    assert_non_null(on);
    assert_int_equal(on->err, 0);
    redisReply *reply = redisCommand(on, command);
    assert_non_null(reply);
    char *text = reply->type == REDIS_REPLY_INTEGER
                     ? test_text("%lld", reply->integer)
                 : reply->str ? test_text("%s", reply->str)
                              : test_text("%s", reply->element[1]->str);
    freeReplyObject(reply);
    redisFree(on);
    return text;
}

static void expect(const scene *of, const char *command, const char *expected)
{
    char *text = ask(of, command);
    assert_string_equal(text, expected);
    free(text);
}

/* ---- the race */

/* In a child: asks for the server and leaves a mark on it. */
static int race(const scene *of, int start_fd)
{
    char byte;
    hf__endpoint at = {0};
    hf_error err = HF_ERROR_INIT;
    (void)!read(start_fd, &byte, 1); /* ends for all at once */
    if (hf__embedded_ensure(&at, &err) != HF_OK) {
        (void)fprintf(stderr, "%s\n", hf_error_text(&err));
        return 1;
    }
    int result = strcmp(at.path, of->socket) == 0 && !at.host ? 0 : 2;
    hf__endpoint_free(&at);
    redisContext *on = redisConnectUnix(of->socket);
    redisReply *reply = on ? redisCommand(on, "INCR racers") : NULL;
    if (!reply || reply->type != REDIS_REPLY_INTEGER) {
        result = 3;
    }
    if (reply) {
        freeReplyObject(reply);
    }
    if (on) {
        redisFree(on);
    }
    return result;
}

static void run_race(const scene *of)
{
    int gate[2];
    pid_t racers[RACERS];
    assert_int_equal(pipe(gate), 0);
    for (int i = 0; i < RACERS; i++) {
        racers[i] = fork();
        if (racers[i] == 0) {
            (void)close(gate[1]);
            _exit(race(of, gate[0]));
        }
    }
    (void)close(gate[0]);
    (void)close(gate[1]);
    for (int i = 0; i < RACERS; i++) {
        int status = -1;
        assert_int_equal(waitpid(racers[i], &status, 0), racers[i]);
        assert_int_equal(status, 0);
    }
    /* All marks are on one server, and it is the one that answers now: had
     * there been two, one would have counted less. */
    char expected[16];
    (void)snprintf(expected, sizeof(expected), "%d", RACERS);
    expect(of, "GET racers", expected);
}

static void test_race_starts_one(void **state)
{
    run_race(*state);
    assert_true(status_now().running);
}

static void test_race_after_a_crash(void **state)
{
    scene *of = *state;
    for (int i = 0; i < 5; i++) {
        ensure();
        pid_t pid = (pid_t)status_now().pid;
        kill_and_wait(pid);
        assert_int_equal(access(of->socket, F_OK), 0); /* left behind */
        assert_false(status_now().running);
        run_race(of);
        assert_int_not_equal(status_now().pid, pid);
        assert_int_equal(hf_embedded_stop(NULL, NULL), HF_OK);
    }
}

/* A starter that is killed in the midst: its server still comes up, and it is
 * the only one. */
static void test_killed_starter(void **state)
{
    scene *of = *state;
    for (int i = 0; i < 10; i++) {
        pid_t starter = fork();
        if (starter == 0) {
            hf__endpoint at = {0};
            (void)hf__embedded_ensure(&at, NULL);
            hf__endpoint_free(&at);
            _exit(0);
        }
        /* Not before it has begun; anywhere later is as good a moment. */
        char *lock = test_text("%s/server.lock", of->runtime);
        int64_t deadline = hf__now() + LIMIT;
        while (access(lock, F_OK) != 0 && hf__now() < deadline) {
            (void)hf__poll(NULL, 0, hf__now() + HF__MS / 10);
        }
        (void)hf__poll(NULL, 0, hf__now() + i * HF__MS);
        (void)kill(starter, SIGKILL);
        assert_int_equal(waitpid(starter, NULL, 0), starter);
        run_race(of);
        assert_int_equal(hf_embedded_stop(NULL, NULL), HF_OK);
        assert_int_equal(unlink(lock), 0);
        free(lock);
    }
}

/* ---- status and stop */

static void test_status_and_stop(void **state)
{
    scene *of = *state;
    int stopped = -1;
    hf_embedded_info info = status_now();
    assert_false(info.running);
    assert_string_equal(info.socket_path, of->socket);
    assert_int_equal(access(of->runtime, F_OK), -1); /* status makes nothing */
    assert_int_equal(hf_embedded_stop(&stopped, NULL), HF_OK);
    assert_int_equal(stopped, 0);

    ensure();
    info = status_now();
    assert_true(info.running);
    assert_string_equal(info.socket_path, of->socket);
    assert_int_equal(kill((pid_t)info.pid, 0), 0);
    assert_true(info.uptime_s >= 0 && info.uptime_s < 60);
    assert_true(strncmp(info.version, "redis ", 6) == 0 ||
                strncmp(info.version, "valkey ", 7) == 0);
    assert_non_null(strchr(info.version, '.'));
    ensure(); /* the same one */
    assert_int_equal(status_now().pid, info.pid);

    int process = hf__process_fd((pid_t)info.pid);
    assert_int_equal(hf_embedded_stop(&stopped, NULL), HF_OK);
    assert_int_equal(stopped, 1);
    struct pollfd poll = {.fd = process, .events = POLLIN};
    if (process >= 0) {                             /* valgrind has none */
        assert_int_equal(hf__poll(&poll, 1, 0), 1); /* gone by now */
    }
    hf__close(process);
    assert_true(test_wait_gone((pid_t)info.pid));
    assert_false(status_now().running);
    assert_int_equal(hf_embedded_stop(&stopped, NULL), HF_OK);
    assert_int_equal(stopped, 0);
}

static void test_status_of_an_older_caller(void **state)
{
    (void)state;
    struct {
        hf_embedded_info info;
        char behind[8];
    } room;
    size_t size = offsetof(hf_embedded_info, version);
    memset(&room, '#', sizeof(room));
    room.info.struct_size = size;
    assert_int_equal(hf_embedded_status(&room.info, NULL), HF_OK);
    assert_int_equal(room.info.struct_size, size);
    assert_int_equal(room.info.running, 0);
    assert_int_equal(room.info.version[0], '#');
    room.info.struct_size = 0;
    assert_int_equal(hf_embedded_status(&room.info, NULL), HF_EINVAL);
    assert_int_equal(hf_embedded_status(NULL, NULL), HF_EINVAL);
}

/* It must be private, and must forget. */
static void test_how_the_server_is_set_up(void **state)
{
    scene *of = *state;
    struct stat st;
    ensure();
    expect(of, "CONFIG GET port", "0");
    expect(of, "CONFIG GET save", "");
    expect(of, "CONFIG GET appendonly", "no");
    expect(of, "CONFIG GET maxmemory-policy", "noeviction");
    expect(of, "CONFIG GET dir", of->runtime);
    assert_int_equal(stat(of->socket, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(of->runtime, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    pid_t pid = (pid_t)status_now().pid;
    assert_int_not_equal(getsid(pid), getsid(0));
}

/* A server that is only slow must not get a second one beside it. */
static void test_silent_server_is_left_alone(void **state)
{
    (void)state;
    hf_embedded_info info = HF_EMBEDDED_INFO_INIT;
    hf_error err = HF_ERROR_INIT;
    ensure();
    pid_t pid = (pid_t)status_now().pid;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(hf_embedded_status(&info, &err), HF_EUNREACHABLE);
    char number[32];
    (void)snprintf(number, sizeof(number), "process %ld", (long)pid);
    assert_non_null(strstr(hf_error_text(&err), number));

    pid_t waiter = fork();
    if (waiter == 0) {
        hf__endpoint at = {0};
        hf_status status = hf__embedded_ensure(&at, NULL);
        hf__endpoint_free(&at);
        _exit(status == HF_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(waiter, NULL, WNOHANG), 0);
    assert_int_equal(kill(pid, SIGCONT), 0);
    int status = -1;
    assert_int_equal(waitpid(waiter, &status, 0), waiter);
    assert_int_equal(status, 0);
    assert_int_equal(status_now().pid, pid);
}

/* ---- refusals */

static void check_refused(hf_status expected, const char *must_say)
{
    hf__endpoint at = {0};
    hf_error err = HF_ERROR_INIT;
    assert_int_equal(hf__embedded_ensure(&at, &err), expected);
    assert_null(at.path);
    if (!strstr(hf_error_text(&err), must_say)) {
        fail_msg("does not say \"%s\": %s", must_say, hf_error_text(&err));
    }
}

static void test_unsafe_folders(void **state)
{
    scene *of = *state;
    char *other = test_text("%s/other", of->folder);
    char *slashed = test_text("%s//", of->runtime);
    hf_embedded_info info = HF_EMBEDDED_INFO_INIT;
    assert_int_equal(mkdir(of->runtime, 0700), 0);
    static const mode_t modes[] = {0777, 0720, 0702, 01777};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(chmod(of->runtime, modes[i]), 0);
        check_refused(HF_ESYSTEM, "other users may write");
        assert_int_equal(hf_embedded_status(&info, NULL), HF_ESYSTEM);
        assert_int_equal(hf_embedded_stop(NULL, NULL), HF_ESYSTEM);
    }
    assert_int_equal(rmdir(of->runtime), 0);

    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(symlink(other, of->runtime), 0);
    check_refused(HF_ESYSTEM, "symbolic link");
    assert_int_equal(setenv("HOLDFAST_RUNTIME_DIR", slashed, 1), 0);
    check_refused(HF_ESYSTEM, "symbolic link");
    assert_int_equal(unlink(of->runtime), 0);

    FILE *file = fopen(of->runtime, "we");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    check_refused(HF_ESYSTEM, "no directory");
    if (geteuid() == 0) {
        assert_int_equal(unlink(of->runtime), 0);
        assert_int_equal(mkdir(of->runtime, 0700), 0);
        assert_int_equal(chown(of->runtime, 65534, 65534), 0);
        check_refused(HF_ESYSTEM, "another user");
    }
    free(slashed);
    free(other);
}

static void test_bad_settings(void **state)
{
    scene *of = *state;
    char long_name[120];
    char *missing = test_text("%s/a/b", of->folder);
    assert_int_equal(setenv("HOLDFAST_SERVER", "/nonexistent/server", 1), 0);
    check_refused(HF_ESYSTEM, "HOLDFAST_SERVER names /nonexistent/server");
    assert_int_equal(setenv("HOLDFAST_SERVER", "/bin/true", 1), 0);
    check_refused(HF_ESYSTEM, "ended as soon as it was started");
    assert_int_equal(unsetenv("HOLDFAST_SERVER"), 0);

    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[0] = '/';
    long_name[sizeof(long_name) - 1] = '\0';
    assert_int_equal(setenv("HOLDFAST_RUNTIME_DIR", long_name, 1), 0);
    check_refused(HF_ECONFIG, "107");
    assert_int_equal(setenv("HOLDFAST_RUNTIME_DIR", "here", 1), 0);
    check_refused(HF_ECONFIG, "absolute");
    assert_int_equal(setenv("HOLDFAST_RUNTIME_DIR", missing, 1), 0);
    check_refused(HF_ESYSTEM, "No such file");
    free(missing);
    assert_int_equal(setenv("HOLDFAST_RUNTIME_DIR", of->runtime, 1), 0);
    ensure(); /* and nothing of this stands in the way later */
}

static void test_without_a_server_program(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("HOLDFAST_SERVER"), 0);
    if (access("/usr/bin/redis-server", X_OK) == 0 ||
        access("/usr/bin/valkey-server", X_OK) == 0) {
        /* They are found without PATH as well. */
        char *path = test_text("%s", getenv("PATH"));
        assert_int_equal(setenv("PATH", "/nonexistent", 1), 0);
        ensure();
        assert_int_equal(setenv("PATH", path, 1), 0);
        free(path);
    } else {
        check_refused(HF_ESYSTEM, "install redis-server or valkey-server");
    }
}

/* ---- where it lives */

static void expect_place(const char *expected)
{
    assert_string_equal(status_now().socket_path, expected);
}

static void test_places(void **state)
{
    scene *of = *state;
    char *xdg = test_text("%s/holdfast/server.sock", of->folder);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", of->folder, 1), 0);
    expect_place(of->socket); /* the named one goes first */
    assert_int_equal(unsetenv("HOLDFAST_RUNTIME_DIR"), 0);
    expect_place(xdg);
    assert_int_equal(setenv("HOLDFAST_RUNTIME_DIR", "", 1), 0);
    expect_place(xdg);    /* empty is unset */
    if (geteuid() == 0) { /* what su leaves behind is another user's */
        assert_int_equal(chown(of->folder, 65534, 65534), 0);
        assert_null(strstr(status_now().socket_path, of->folder));
    }
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    char place[64];
    (void)snprintf(place, sizeof(place), "/run/user/%u", geteuid());
    bool run = access(place, F_OK) == 0;
    (void)snprintf(place, sizeof(place),
                   run ? "/run/user/%u/holdfast/server.sock"
                       : "/tmp/holdfast-%u/server.sock",
                   geteuid());
    expect_place(place);
    assert_int_equal(setenv("HOLDFAST_RUNTIME_DIR", of->runtime, 1), 0);
    free(xdg);
}

#define STAGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGED(test_race_starts_one),
        STAGED(test_race_after_a_crash),
        STAGED(test_killed_starter),
        STAGED(test_status_and_stop),
        STAGED(test_status_of_an_older_caller),
        STAGED(test_how_the_server_is_set_up),
        STAGED(test_silent_server_is_left_alone),
        STAGED(test_unsafe_folders),
        STAGED(test_bad_settings),
        STAGED(test_without_a_server_program),
        STAGED(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
