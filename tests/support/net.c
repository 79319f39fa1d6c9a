/* See net.h. */
#include "support/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void test_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fprintf(stderr, "test support: ");
    (void)vfprintf(stderr, format, args);
    (void)fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

char *test_text(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) {
        test_die("out of memory");
    }
    va_end(args);
    return text;
}

char *test_folder_new(void)
{
    const char *parent = getenv("TMPDIR");
    char *folder =
        test_text("%s/hf-test-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(folder)) {
        test_die("cannot make %s: %s", folder, strerror(errno));
    }
    return folder;
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *place)
{
    (void)st;
    (void)type;
    (void)place;
    (void)remove(path);
    return 0;
}

void test_folder_remove(char *folder)
{
    if (folder) {
        (void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        free(folder);
    }
}

int64_t test_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool test_pause(int64_t deadline_ms)
{
    struct timespec length = {.tv_nsec = 2000000};
    (void)nanosleep(&length, NULL);
    return test_now_ms() < deadline_ms;
}

/* By /proc, for valgrind does not know pidfd_open. Behind the name in brackets
 * stand the state and, 17 fields on, the number of threads: the first may be a
 * zombie while another still has the sockets open. */
static bool is_gone(pid_t pid)
{
    char line[256] = "";
    char *path = test_text("/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "re");
    bool read = file && fgets(line, sizeof(line), file);
    if (file) {
        (void)fclose(file);
    }
    free(path);
    const char *name_end = read ? strrchr(line, ')') : NULL;
    if (!name_end) {
        return true;
    }
    const char *at = name_end + 2;
    bool ended = strchr("ZX", *at) != NULL;
    for (int i = 0; i < 17 && at; i++) {
        at = strchr(at + 1, ' ');
    }
    return ended && (!at || strtol(at, NULL, 10) <= 1);
}

bool test_wait_gone(pid_t pid)
{
    int64_t deadline = test_now_ms() + TEST_LIMIT_MS;
    while (!is_gone(pid)) {
        if (!test_pause(deadline)) {
            return false;
        }
    }
    return true;
}

static int open_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        test_die("socket: %s", strerror(errno));
    }
    return fd;
}

static struct sockaddr_un unix_address(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(at.sun_path)) {
        test_die("path too long for a socket: %s", path);
    }
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    return at;
}

int test_listen_unix(const char *path)
{
    struct sockaddr_un at = unix_address(path);
    int fd = open_socket(AF_UNIX);
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        listen(fd, 64) != 0) {
        test_die("cannot listen on %s: %s", path, strerror(errno));
    }
    return fd;
}

int test_listen_tcp(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)*port)};
    socklen_t length = sizeof(at);
    int on = 1;
    int fd = open_socket(AF_INET);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &length) != 0) {
        test_die("cannot listen on port %d: %s", *port, strerror(errno));
    }
    *port = ntohs(at.sin_port);
    return fd;
}

int test_connect_unix(const char *path)
{
    struct sockaddr_un at = unix_address(path);
    int fd = open_socket(AF_UNIX);
    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}
