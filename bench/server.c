/* The benchmark's dealings with the server apart from what it measures, and
 * with the machine. */
#include "bench.h"

#include <dirent.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PATIENCE (10 * BENCH_SECOND)

redisContext *bench_connect(const char *socket, bool patient)
{
    int64_t until = bench_now() + PATIENCE;
    for (;;) {
        redisContext *server = redisConnectUnix(socket);
        if (server && !server->err) {
            return server;
        }
        if (!patient || bench_now() > until) {
            bench_die("cannot connect to %s: %s", socket,
                      server ? server->errstr : "out of memory");
        }
        redisFree(server);
        bench_sleep_until(bench_now() + 10 * BENCH_MS);
    }
}

redisReply *bench_command(redisContext *server, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(server, format, args);
    va_end(args);
    if (!reply) {
        bench_die("%s: %s", format, server->errstr);
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        bench_die("%s: %s", format, reply->str);
    }
    return reply;
}

/* --------------------------------------------------------------- counting */

/* What clients of ours send; the server counts what a script calls as well. */
static bool is_sent(const char *name, size_t length)
{
    static const char *const sent[] = {"evalsha", "eval", "subscribe",
                                       "unsubscribe"};
    for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
        if (strlen(sent[i]) == length && strncmp(sent[i], name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Lines are "cmdstat_NAME:calls=N,...". */
uint64_t bench_commands(redisContext *server)
{
    redisReply *reply = bench_command(server, "INFO commandstats");
    uint64_t sum = 0;
    const char *line = reply->str;
    while ((line = strstr(line, "cmdstat_")) != NULL) {
        line += strlen("cmdstat_");
        size_t length = strcspn(line, ":");
        const char *calls = strstr(line, "calls=");
        if (calls && is_sent(line, length)) {
            sum += strtoull(calls + strlen("calls="), NULL, 10);
        }
    }
    freeReplyObject(reply);
    return sum;
}

/* ------------------------------------------------------------------ facts */

/* The value of "key:value" in text; "unknown" if it is not there. */
static void field(const char *text, const char *key, char *out, size_t size)
{
    const char *at = strstr(text, key);
    snprintf(out, size, "unknown");
    if (at) {
        at += strlen(key);
        at += strspn(at, " \t:");
        snprintf(out, size, "%.*s", (int)strcspn(at, "\r\n"), at);
    }
}

static void read_text(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(out, 1, size - 1, file) : 0;
    out[n] = '\0';
    if (file) {
        fclose(file);
    }
}

pid_t bench_server_pid(redisContext *server)
{
    char value[32];
    redisReply *reply = bench_command(server, "INFO server");
    field(reply->str, "process_id", value, sizeof(value));
    freeReplyObject(reply);
    return (pid_t)strtol(value, NULL, 10);
}

static void print_server(redisContext *server)
{
    char version[64];
    redisReply *reply = bench_command(server, "INFO server");
    bool valkey = strstr(reply->str, "valkey_version:") != NULL;
    field(reply->str, valkey ? "valkey_version" : "redis_version", version,
          sizeof(version));
    freeReplyObject(reply);
    printf("server    %s %s, unix socket, not persistent\n",
           valkey ? "valkey" : "redis", version);
}

void bench_print_facts(redisContext *server)
{
    char text[4096];
    char value[128];
    struct utsname name;
    double load[1] = {0};
    read_text("/proc/cpuinfo", text, sizeof(text));
    field(text, "model name", value, sizeof(value));
    printf("cpu       %s, %ld cores%s\n", value, sysconf(_SC_NPROCESSORS_ONLN),
           strstr(text, " hypervisor") ? ", virtual machine" : "");
    if (uname(&name) == 0) {
        printf("kernel    %s %s %s\n", name.sysname, name.release,
               name.machine);
    }
    print_server(server);
    printf("libraries holdfast %s, hiredis %d.%d.%d\n", hf_version(),
           HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    if (getloadavg(load, 1) == 1) {
        printf("load      %.2f before the start\n", load[0]);
    }
}

/* -------------------------------------------------------------- placement */

const char *bench_placement_name(bench_placement placement)
{
    return placement == BENCH_SAME ? "same" : "free";
}

static void place_threads(pid_t pid, const cpu_set_t *cpus)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
    DIR *tasks = opendir(path);
    if (!tasks) {
        bench_die("cannot read %s", path);
    }
    struct dirent *entry = NULL;
    while ((entry = readdir(tasks)) != NULL) {
        long task = strtol(entry->d_name, NULL, 10);
        if (task > 0 &&
            sched_setaffinity((pid_t)task, sizeof(*cpus), cpus) != 0) {
            bench_die("cannot choose the cpus of process %ld", (long)pid);
        }
    }
    closedir(tasks);
}

/* Leaves the first in `cpus`, and all but it in `others`. */
static void split(cpu_set_t *cpus, cpu_set_t *others)
{
    *others = *cpus;
    CPU_ZERO(cpus);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, others)) {
            CPU_CLR(cpu, others);
            CPU_SET(cpu, cpus);
            return;
        }
    }
}

void bench_place(bench_placement placement, pid_t server)
{
    static cpu_set_t allowed;
    static bool known;
    if (!known && sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        bench_die("cannot tell which cpus this process may use");
    }
    known = true;
    cpu_set_t theirs = allowed;
    cpu_set_t ours = allowed;
    cpu_set_t others;
    if (placement != BENCH_FREE) {
        split(&theirs, &others);
        ours = theirs;
    }
    if (placement == BENCH_APART && CPU_COUNT(&others) > 0) {
        ours = others;
        split(&ours, &others);
    }
    place_threads(getpid(), &ours);
    place_threads(server, &theirs);
}
