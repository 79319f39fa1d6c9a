/* Starts, finds and ends the private server of this user.
 *
 * One at a time: who starts the server holds flock(2) on a file in the runtime
 * directory, and the server inherits that very descriptor. So the kernel keeps
 * the lock for as long as the server lives, even if the starter is killed
 * half-way, and gives it back when the server is dead. A socket that refuses
 * while the lock is free belongs to a dead server and may be cleared away; one
 * that accepts is never touched, be its server ever so silent. */
#include "redis/embedded.h"

#include "base/buf.h"
#include "os/os.h"
#include "redis/info.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define START_LIMIT (10 * HF__SECOND)
#define STOP_LIMIT (10 * HF__SECOND)
#define STATUS_LIMIT (3 * HF__SECOND)
#define POLL_INTERVAL (2 * HF__MS)
#define MOST_STARTS 3
#define REPLY_LIMIT ((size_t)65536)

#define WAY_OUT "set HOLDFAST_RUNTIME_DIR to another one, or HOLDFAST_URL"

typedef struct place {
    char *folder;
    char *socket;
    char *lock;
    char *log;
    hf__address_list *address;
    bool exists; /* the folder */
} place;

typedef enum life {
    DEAD,   /* nobody listens */
    SILENT, /* somebody listens, but does not answer (yet) */
    ALIVE
} life;

/* ---- the place */

static void place_free(place *at)
{
    free(at->folder);
    free(at->socket);
    free(at->lock);
    free(at->log);
    hf__address_list_free(at->address);
}

static bool is_own_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid();
}

/* A foreign XDG_RUNTIME_DIR, as su leaves it behind, counts as none. */
static hf_status name_folder(char **out, hf_error *err)
{
    const char *chosen = secure_getenv("HOLDFAST_RUNTIME_DIR");
    const char *xdg = secure_getenv("XDG_RUNTIME_DIR");
    unsigned uid = geteuid();
    char run[32];
    int n;
    (void)snprintf(run, sizeof(run), "/run/user/%u", uid);
    if (chosen && chosen[0] != '\0') {
        if (chosen[0] != '/') {
            return hf__error_set(err, HF_ECONFIG,
                                 "HOLDFAST_RUNTIME_DIR must be an absolute "
                                 "path, not %.200s",
                                 chosen);
        }
        n = asprintf(out, "%s", chosen);
    } else if (xdg && xdg[0] == '/' && is_own_folder(xdg)) {
        n = asprintf(out, "%s/holdfast", xdg);
    } else if (is_own_folder(run)) {
        n = asprintf(out, "%s/holdfast", run);
    } else {
        n = asprintf(out, "/tmp/holdfast-%u", uid);
    }
    if (n < 0) {
        *out = NULL;
        return hf__error_nomem(err);
    }
    /* A trailing slash would make open follow a symbolic link. */
    for (size_t i = strlen(*out); i > 1 && (*out)[i - 1] == '/'; i--) {
        (*out)[i - 1] = '\0';
    }
    return HF_OK;
}

static hf_status name_files(place *at, hf_error *err)
{
    if (asprintf(&at->socket, "%s/server.sock", at->folder) < 0) {
        at->socket = NULL;
        return hf__error_nomem(err);
    }
    if (asprintf(&at->lock, "%s/server.lock", at->folder) < 0) {
        at->lock = NULL;
        return hf__error_nomem(err);
    }
    if (asprintf(&at->log, "%s/server.log", at->folder) < 0) {
        at->log = NULL;
        return hf__error_nomem(err);
    }
    return hf__resolve(NULL, 0, at->socket, &at->address, err);
}

/* Refuses a folder through which another user could slip us a server. */
static hf_status check_folder(place *at, hf_error *err)
{
    struct stat st;
    int fd = open(at->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        return HF_OK;
    }
    if (fd < 0 || fstat(fd, &st) != 0) {
        int error = errno;
        bool other = error == ENOTDIR || error == ELOOP;
        hf__close(fd);
        return hf__error_set(
            err, HF_ESYSTEM,
            "cannot use the runtime directory %s: %s; " WAY_OUT, at->folder,
            other ? "it is no directory but a file or a "
                    "symbolic link"
                  : hf__errno_text(error));
    }
    hf__close(fd);
    if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return hf__error_set(
            err, HF_ESYSTEM, "refused the runtime directory %s: %s; " WAY_OUT,
            at->folder,
            st.st_uid != geteuid() ? "it belongs to another user"
                                   : "other users may write to it (chmod 700)");
    }
    at->exists = true;
    return HF_OK;
}

static hf_status find_place(place *at, bool create, hf_error *err)
{
    hf_status status = name_folder(&at->folder, err);
    if (status == HF_OK) {
        status = name_files(at, err);
    }
    if (status == HF_OK && create && mkdir(at->folder, S_IRWXU) != 0 &&
        errno != EEXIST) {
        status = hf__error_set(err, HF_ESYSTEM,
                               "cannot make the runtime directory %s: "
                               "%s; " WAY_OUT,
                               at->folder, hf__errno_text(errno));
    }
    return status == HF_OK ? check_folder(at, err) : status;
}

/* ---- talking to it */

/* *fd is -1 and the result HF_OK when nobody can be reached. */
static hf_status dial(const place *at, int *fd, pid_t *pid, life *found,
                      hf_error *err)
{
    bool in_progress = false;
    uid_t uid = (uid_t)-1;
    hf_error failure = HF_ERROR_INIT;
    *fd = -1;
    *found = DEAD;
    if (hf__connect_start(at->address, 0, 0, fd, &in_progress, &failure)) {
        *found = errno == EAGAIN ? SILENT : DEAD; /* EAGAIN: queue is full */
        bool absent =
            errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN;
        return absent ? HF_OK : hf__error_copy(err, &failure);
    }
    *found = SILENT;
    hf__socket_peer(*fd, &uid, pid);
    if (uid != geteuid()) {
        hf__close(*fd);
        *fd = -1;
        return hf__error_set(err, HF_ESYSTEM,
                             "refused the server at %s: it runs as another "
                             "user; " WAY_OUT,
                             at->socket);
    }
    return HF_OK;
}

static bool is_whole(const hf__buf *reply)
{
    const char *end = memmem(reply->data, reply->length, "\r\n", 2);
    if (!end) {
        return false;
    }
    if (reply->data[0] != '$') {
        return true;
    }
    long bulk = strtol(reply->data + 1, NULL, 10);
    size_t head = (size_t)(end - reply->data) + 2;
    return bulk < 0 || reply->length - head >= (size_t)bulk + 2;
}

static bool wait_for(int fd, short events, int64_t deadline)
{
    struct pollfd poll = {.fd = fd, .events = events};
    while (hf__poll(&poll, 1, deadline) == 0) {
        if (hf__now() >= deadline) {
            return false;
        }
    }
    return true;
}

/* Sends an inline command and reads its reply, terminated by a NUL. False with
 * HF__IO_AGAIN (too late) or HF__IO_BROKEN in *why. A command is short enough
 * for an empty socket buffer to take it whole. */
static bool ask(int fd, const char *command, int64_t deadline, hf__buf *reply,
                ssize_t *why)
{
    ssize_t n = hf__send(fd, command, strlen(command));
    while (n >= 0 || n == HF__IO_AGAIN) {
        if (!wait_for(fd, POLLIN, deadline)) {
            n = HF__IO_AGAIN;
            break;
        }
        char bytes[4096];
        n = hf__recv(fd, bytes, sizeof(bytes), false);
        if (n > 0) {
            hf__buf_append(reply, bytes, (size_t)n);
            hf__buf_append(reply, "", 1);
            if (reply->failed) {
                n = HF__IO_BROKEN;
                break;
            }
            reply->length--;
            if (is_whole(reply)) {
                return true;
            }
        }
    }
    *why = n;
    return false;
}

static hf_status probe(const place *at, int64_t deadline, life *found,
                       pid_t *pid, hf_error *err)
{
    int fd = -1;
    hf_status status = dial(at, &fd, pid, found, err);
    if (status != HF_OK || fd < 0) {
        return status;
    }
    ssize_t why;
    hf__buf reply;
    hf__buf_init(&reply, REPLY_LIMIT);
    /* Any answer is a sign of life but "come back later". */
    if (ask(fd, "PING\r\n", deadline, &reply, &why) &&
        strncmp(reply.data, "-LOADING", 8) != 0) {
        *found = ALIVE;
    }
    hf__buf_free(&reply);
    hf__close(fd);
    return HF_OK;
}

/* ---- starting */

static hf_status find_server(char **out, hf_error *err)
{
    static const char *const known[] = {"valkey-server", "redis-server",
                                        "/usr/bin/valkey-server",
                                        "/usr/bin/redis-server"};
    const char *chosen = secure_getenv("HOLDFAST_SERVER");
    if (chosen && chosen[0] != '\0') {
        *out = hf__find_program(chosen);
        return *out ? HF_OK
                    : hf__error_set(err, HF_ESYSTEM,
                                    "HOLDFAST_SERVER names %.200s, which is "
                                    "not there or not executable",
                                    chosen);
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        *out = hf__find_program(known[i]);
        if (*out) {
            return HF_OK;
        }
    }
    return hf__error_set(err, HF_ESYSTEM,
                         "no server to start: install redis-server or "
                         "valkey-server, or set HOLDFAST_URL");
}

static hf_status spawn_server(const place *at, int lock_fd, hf_error *err)
{
    char *program = NULL;
    pid_t pid;
    hf_status status = find_server(&program, err);
    if (status != HF_OK) {
        return status;
    }
    const char *const argv[] = {program,      "--port",
                                "0",          "--unixsocket",
                                at->socket,   "--unixsocketperm",
                                "700",        "--save",
                                "",           "--appendonly",
                                "no",         "--daemonize",
                                "no",         "--dir",
                                at->folder,   "--logfile",
                                at->log,      "--maxmemory-policy",
                                "noeviction", "--timeout",
                                "0",          "--latency-tracking",
                                "no",         NULL};
    (void)unlink(at->socket);
    (void)unlink(at->log);
    status = hf__spawn_daemon(argv, lock_fd, &pid, err);
    free(program);
    return status;
}

/* Starts the server unless another process does so or has done so. */
static hf_status try_start(const place *at, int64_t deadline, int *starts,
                           hf_error *err)
{
    pid_t pid;
    life found = DEAD;
    struct stat st;
    hf_status status = HF_OK;
    int fd = open(at->lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                  S_IRUSR | S_IWUSR);
    if (fd < 0) {
        return hf__error_set(err, HF_ESYSTEM, "cannot open %s: %s", at->lock,
                             hf__errno_text(errno));
    }
    /* A file that was deleted since it was opened locks nobody out. */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &st) != 0 ||
        st.st_nlink == 0) {
        goto done;
    }
    status = probe(at, deadline, &found, &pid, err);
    if (status != HF_OK || found != DEAD) {
        goto done;
    }
    if (*starts >= MOST_STARTS) {
        status = hf__error_set(err, HF_ESYSTEM,
                               "the embedded server ended as soon as it was "
                               "started; see %s, or set HOLDFAST_URL",
                               at->log);
        goto done;
    }
    (*starts)++;
    status = spawn_server(at, fd, err);
done:
    hf__close(fd);
    return status;
}

static hf_status too_late(const place *at, life found, pid_t pid, hf_error *err)
{
    if (found == DEAD) {
        return hf__error_set_retriable(
            err, HF_EUNREACHABLE,
            "the embedded server did not come up at %s; see %s, or set "
            "HOLDFAST_URL",
            at->socket, at->log);
    }
    return hf__error_set_retriable(err, HF_EUNREACHABLE,
                                   "the embedded server at %s (process %ld) "
                                   "does not answer; end it, or set "
                                   "HOLDFAST_URL",
                                   at->socket, (long)pid);
}

static hf_status make_it_run(const place *at, hf_error *err)
{
    int64_t deadline = hf__now() + START_LIMIT;
    int starts = 0;
    life found = DEAD;
    pid_t pid = -1;
    for (;;) {
        hf_status status = probe(at, deadline, &found, &pid, err);
        if (status == HF_OK && found == DEAD) {
            status = try_start(at, deadline, &starts, err);
        }
        if (status != HF_OK || found == ALIVE) {
            return status;
        }
        if (hf__now() >= deadline) {
            return too_late(at, found, pid, err);
        }
        (void)hf__poll(NULL, 0, hf__now() + POLL_INTERVAL);
    }
}

static hf_status fill_endpoint(const place *at, hf__endpoint *out,
                               hf_error *err)
{
    hf__endpoint made = {0};
    made.path = strdup(at->socket);
    if (!made.path ||
        asprintf(&made.display, "redis+unix://%s", at->socket) < 0) {
        free(made.path);
        return hf__error_nomem(err);
    }
    *out = made;
    return HF_OK;
}

hf_status hf__embedded_ensure(hf__endpoint *out, hf_error *err)
{
    place at = {0};
    hf_status status = find_place(&at, true, err);
    if (status == HF_OK) {
        status = make_it_run(&at, err);
    }
    if (status == HF_OK) {
        status = fill_endpoint(&at, out, err);
    }
    place_free(&at);
    return status;
}

/* ---- status */

static void read_info(hf__slice text, hf_embedded_info *into)
{
    char value[32];
    if (hf__info_read(text, "valkey_version", value, sizeof(value))) {
        (void)snprintf(into->version, sizeof(into->version), "valkey %s",
                       value);
    } else if (hf__info_read(text, "redis_version", value, sizeof(value))) {
        (void)snprintf(into->version, sizeof(into->version), "redis %s", value);
    }
    if (hf__info_read(text, "uptime_in_seconds", value, sizeof(value))) {
        into->uptime_s = strtoll(value, NULL, 10);
    }
}

/* One attempt; *found tells how it went. */
static hf_status ask_once(const place *at, int64_t deadline, life *found,
                          hf_embedded_info *into, hf_error *err)
{
    int fd = -1;
    pid_t pid = -1;
    ssize_t why;
    hf__buf reply;
    hf_status status = dial(at, &fd, &pid, found, err);
    if (status != HF_OK) {
        return status;
    }
    into->pid = pid;
    hf__buf_init(&reply, REPLY_LIMIT);
    if (fd >= 0 && ask(fd, "INFO server\r\n", deadline, &reply, &why)) {
        *found = ALIVE;
        into->running = 1;
        read_info((hf__slice){reply.data, reply.length}, into);
    }
    hf__buf_free(&reply);
    hf__close(fd);
    return HF_OK;
}

/* A server that is just ending may still accept, to hang up at once. */
static hf_status ask_status(const place *at, hf_embedded_info *into,
                            hf_error *err)
{
    int64_t deadline = hf__now() + STATUS_LIMIT;
    life found = at->exists ? SILENT : DEAD;
    while (found == SILENT) {
        hf_status status = ask_once(at, deadline, &found, into, err);
        if (status != HF_OK) {
            return status;
        }
        if (found == SILENT && hf__now() >= deadline) {
            return too_late(at, found, (pid_t)into->pid, err);
        }
        if (found == SILENT) {
            (void)hf__poll(NULL, 0, hf__now() + POLL_INTERVAL);
        }
    }
    if (found == DEAD) {
        into->pid = 0;
    }
    return HF_OK;
}

hf_status hf_embedded_status(hf_embedded_info *info, hf_error *err)
{
    if (!info || info->struct_size < sizeof(size_t)) {
        return hf__error_set(err, HF_EINVAL,
                             "hf_embedded_status needs an info that began as "
                             "HF_EMBEDDED_INFO_INIT");
    }
    place at = {0};
    hf_embedded_info made = HF_EMBEDDED_INFO_INIT;
    hf_status status = find_place(&at, false, err);
    if (status == HF_OK) {
        status = ask_status(&at, &made, err);
    }
    if (status == HF_OK) {
        /* The caller may know an older, shorter struct. */
        size_t size =
            info->struct_size < sizeof(made) ? info->struct_size : sizeof(made);
        (void)snprintf(made.socket_path, sizeof(made.socket_path), "%s",
                       at.socket);
        made.struct_size = info->struct_size;
        memcpy(info, &made, size);
    }
    place_free(&at);
    return status;
}

/* ---- stopping */

/* Waits until the process is gone, not only its socket: until then its lock
 * is held and the next server cannot start. */
static hf_status shut_down(const place *at, int fd, pid_t pid, hf_error *err)
{
    int64_t deadline = hf__now() + STOP_LIMIT;
    int process = hf__process_fd(pid);
    ssize_t why = HF__IO_BROKEN;
    hf_status status = HF_OK;
    hf__buf reply;
    hf__buf_init(&reply, REPLY_LIMIT);
    if (ask(fd, "SHUTDOWN NOSAVE\r\n", deadline, &reply, &why)) {
        status = hf__error_set(err, HF_ESERVER,
                               "the embedded server at %s refused to end: "
                               "%.*s",
                               at->socket, (int)strcspn(reply.data, "\r\n"),
                               reply.data);
    } else if (why == HF__IO_AGAIN ||
               (process >= 0 && !wait_for(process, POLLIN, deadline))) {
        status = too_late(at, SILENT, pid, err);
    }
    hf__buf_free(&reply);
    hf__close(process);
    return status;
}

hf_status hf_embedded_stop(int *stopped, hf_error *err)
{
    int fd = -1;
    pid_t pid = -1;
    life found = DEAD;
    place at = {0};
    hf_status status = find_place(&at, false, err);
    if (status == HF_OK && at.exists) {
        status = dial(&at, &fd, &pid, &found, err);
    }
    if (status == HF_OK && found != DEAD) {
        status = fd >= 0 ? shut_down(&at, fd, pid, err)
                         : too_late(&at, found, pid, err);
    }
    hf__close(fd);
    place_free(&at);
    if (status == HF_OK && stopped) {
        *stopped = found != DEAD;
    }
    return status;
}
