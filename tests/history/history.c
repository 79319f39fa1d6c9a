/* See history.h. */
#include "history/history.h"

#include "support/net.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE 256

static int file = -1;
static unsigned self;
static atomic_uint operations;
static atomic_uint leases;

void history_open(const char *path, unsigned process)
{
    self = process;
    file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) {
        test_die("%s: %s", path, strerror(errno));
    }
}

int64_t history_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

unsigned history_process(void)
{
    return self;
}

unsigned history_next_operation(void)
{
    return atomic_fetch_add(&operations, 1) + 1;
}

unsigned history_next_lease(void)
{
    return atomic_fetch_add(&leases, 1) + 1;
}

/* In one write, for lines of many processes must not mix. */
static void put(char line[LINE], int length)
{
    if (length < 0 || length >= LINE - 1) {
        test_die("a line too long for the history");
    }
    line[length++] = '\n';
    if (write(file, line, (size_t)length) != length) {
        test_die("the history cannot be written: %s", strerror(errno));
    }
}

void history_line(int64_t time, history_actor actor, unsigned operation,
                  const char *format, ...)
{
    char line[LINE];
    va_list args;
    int head = snprintf(line, sizeof(line), "%" PRId64 " %u %u.%u %s %u ", time,
                        self, self, actor.owner, actor.lock, operation);
    if (head < 0 || head >= LINE) {
        test_die("a line too long for the history");
    }
    va_start(args, format);
    int tail =
        vsnprintf(line + head, sizeof(line) - (size_t)head, format, args);
    va_end(args);
    put(line, tail < 0 ? tail : head + tail);
}

void history_note(const char *format, ...)
{
    char line[LINE] = "# ";
    va_list args;
    va_start(args, format);
    int tail = vsnprintf(line + 2, sizeof(line) - 2, format, args);
    va_end(args);
    put(line, tail < 0 ? tail : 2 + tail);
}

uint64_t history_chance(uint64_t *seed, uint64_t below)
{
    uint64_t mixed = *seed += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (mixed ^ (mixed >> 31)) % below;
}
