/* The simulator's program: many seeds, or one with its whole history.
 *
 *     sim [--seeds N] [--from S] [--jobs J] [--stop] [--brief]
 *         [--rush] [--kind K]
 *     sim --seed X [--trace] [--rush] [--kind K]
 *
 * Each seed runs in a process of its own, so that nothing is left over from
 * one to the next, and a crash is but a violation. --stop ends with the first
 * violation; --brief leaves the history out; --rush takes only plans
 * without faults in which many wait for one another; --kind takes only locks of
 * that kind, such as "rw".
 * Without --seeds it is 20,000 of them, times HOLDFAST_TEST_SCALE, or a million
 * with HOLDFAST_TEST_LONG=1. Ends with 0, or 1 when an invariant was violated.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS_MAX 64
#define FAILURES_MAX 10 /* of one job: more say nothing new */
/* A run that computes for so long does not come to its end. */
#define LONGEST_RUN_S 5

typedef struct options {
    uint64_t seeds;
    uint64_t from;
    unsigned jobs;
    bool one;
    bool trace;
    bool stop;
    bool brief;
    bool rush;
    int kind; /* below 0: any */
} options;

/* One worker's, in memory that is shared with the program. */
typedef struct report {
    sim_totals totals;
    uint64_t seeds;
    uint64_t failures;
    uint64_t first_failure; /* its seed */
} report;

static report *reports;
static volatile bool *stopped; /* shared */

/* ----------------------------------------------------------------- one run */

static void add_totals(sim_totals *to, const sim_totals *from)
{
    for (int i = 0; i < SIM_COUNTS; i++) {
        to->counts[i] += from->counts[i];
    }
    for (int i = 0; i < SIM_FAULTS; i++) {
        to->faults[i] += from->faults[i];
    }
    to->steps += from->steps;
    to->commands += from->commands;
    to->virtual_ms += from->virtual_ms;
}

static void say_plan(void)
{
    const sim_plan *plan = &world.plan;
    sim_say("seed %llu: %u processes, %u threads each, %u locks, leases up to "
            "%lld ms, delays up to %.1f ms%s",
            (unsigned long long)world.seed, plan->processes, plan->threads,
            plan->locks, (long long)(plan->lease_max / SIM_MS),
            (double)plan->delay_max / 1e6, plan->calm ? ", no faults" : "");
    for (unsigned i = 0; i < plan->locks; i++) {
        sim_say("  %s is %s%s", sim_lock_name(i), sim_kind_text(plan->kinds[i]),
                i == 0 && plan->peer ? ", the other library's, too" : "");
    }
    for (int i = 0; i < SIM_FAULTS; i++) {
        if (plan->faults & 1u << i) {
            sim_say("  fault possible: %s", sim_fault_text((sim_fault)i));
        }
    }
}

static void run_seed(uint64_t seed, const options *o)
{
    world.seed = seed;
    world.chance = seed * UINT64_C(0xd1342543de82ef95) + 1;
    world.trace = o->trace;
    world.rush = o->rush;
    world.only = o->kind;
    sim_draw_plan();
    if (world.trace) {
        say_plan();
    }
    sim_server_start(&sim_check_hooks);
    sim_check_start();
    sim_faults_start();
    sim_peer_start();
    for (unsigned i = 0; i < world.plan.processes; i++) {
        sim_actor_start();
    }
    sim_run();
}

/* In a process of its own. */
static void run_child(uint64_t seed, const options *o, report *to)
{
    const struct itimerval limit = {.it_value = {.tv_sec = LONGEST_RUN_S}};
    (void)setitimer(ITIMER_PROF, &limit, NULL);
    if (o->trace) {
        (void)setvbuf(stdout, NULL, _IOLBF, 0);
    }
    run_seed(seed, o);
    world.totals.steps = world.steps;
    world.totals.virtual_ms = (uint64_t)(world.now / SIM_MS);
    add_totals(&to->totals, &world.totals);
    (void)fflush(stdout);
    _exit(0);
}

static bool run_apart(uint64_t seed, const options *o, report *to)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run_child(seed, o, to);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("sim: cannot run a seed");
        exit(2);
    }
    if (WIFSIGNALED(status)) {
        int signal = WTERMSIG(status);
        printf("VIOLATION of %s, seed %llu: %s\n",
               signal == SIGPROF ? "NoEndlessLoop" : "NoCrash",
               (unsigned long long)seed, strsignal(signal));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ----------------------------------------------------------------- many runs
 */

static void work(unsigned job, const options *o)
{
    report *mine = &reports[job];
    for (uint64_t i = job; i < o->seeds && !*stopped; i += o->jobs) {
        mine->seeds++;
        if (run_apart(o->from + i, o, mine)) {
            continue;
        }
        if (mine->failures++ == 0) {
            mine->first_failure = o->from + i;
        }
        if (o->stop) {
            *stopped = true;
        }
        if (mine->failures == FAILURES_MAX) {
            break;
        }
    }
    (void)fflush(stdout);
    _exit(0);
}

static void run_jobs(const options *o)
{
    for (unsigned job = 0; job < o->jobs; job++) {
        pid_t worker = fork();
        if (worker == 0) {
            work(job, o);
        }
        if (worker < 0) {
            perror("sim: cannot start a worker");
            exit(2);
        }
    }
    for (unsigned job = 0; job < o->jobs; job++) {
        int status = 0;
        if (wait(&status) < 0 || status != 0) {
            (void)fprintf(stderr, "sim: a worker has failed\n");
            exit(2);
        }
    }
}

static void sum(const options *o, report *all)
{
    memset(all, 0, sizeof(*all));
    for (unsigned job = 0; job < o->jobs; job++) {
        const report *one = &reports[job];
        add_totals(&all->totals, &one->totals);
        all->seeds += one->seeds;
        if (one->failures > 0 && all->failures == 0) {
            all->first_failure = one->first_failure;
        }
        all->failures += one->failures;
    }
}

/* ----------------------------------------------------------------- reporting
 */

static unsigned print_counts(const sim_totals *totals)
{
    static const char *const texts[] = {
#define SIM_COUNT_TEXT(name, text) text,
        SIM_COUNT_MAP(SIM_COUNT_TEXT)
#undef SIM_COUNT_TEXT
    };
    unsigned missing = 0;
    for (int i = 0; i < SIM_COUNTS; i++) {
        printf("  %12llu  %s\n", (unsigned long long)totals->counts[i],
               texts[i]);
        missing += totals->counts[i] == 0;
    }
    for (int i = 0; i < SIM_FAULTS; i++) {
        printf("  %12llu  fault %s\n", (unsigned long long)totals->faults[i],
               sim_fault_text((sim_fault)i));
        missing += totals->faults[i] == 0;
    }
    printf("  %12llu  commands executed\n",
           (unsigned long long)totals->commands);
    printf("  %12llu  steps\n", (unsigned long long)totals->steps);
    printf("  %12llu  seconds of virtual time\n",
           (unsigned long long)(totals->virtual_ms / 1000));
    return missing;
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int run_many(options *o)
{
    report all;
    double began = now_s();
    run_jobs(o);
    double took = now_s() - began;
    sum(o, &all);
    unsigned missing = print_counts(&all.totals);
    if (all.failures > 0 && !o->brief) {
        options again = *o;
        again.trace = true;
        (void)run_apart(all.first_failure, &again, &reports[0]);
    }
    bool rare = all.failures == 0 && !o->rush && o->kind < 0 &&
                all.seeds >= 5000 && missing > 0;
    printf("%s each operation and fault has happened\n",
           rare ? "not ok" : "ok");
    printf("%s %llu seeds from %llu, %llu violations, %.0f seeds a minute\n",
           all.failures ? "not ok" : "ok", (unsigned long long)all.seeds,
           (unsigned long long)o->from, (unsigned long long)all.failures,
           (double)all.seeds * 60 / (took > 0 ? took : 1));
    return all.failures > 0 || rare;
}

/* ------------------------------------------------------------------- options
 */

static int usage(void)
{
    (void)fprintf(stderr, "usage: sim [--seeds N] [--from S] [--jobs J] "
                          "[--stop] [--brief] [--rush] [--kind K]\n"
                          "       sim --seed X [--trace] [--rush] "
                          "[--kind K]\n");
    return 2;
}

/* Below 0 if there is none of that name. */
static int kind_named(const char *name)
{
    for (int i = 0; i < SIM_KINDS; i++) {
        if (strcmp(sim_kind_text((sim_kind)i), name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool take_option(options *o, const char *name, const char *value)
{
    if (strcmp(name, "--trace") == 0) {
        o->trace = true;
    } else if (strcmp(name, "--stop") == 0) {
        o->stop = true;
    } else if (strcmp(name, "--brief") == 0) {
        o->brief = true;
    } else if (strcmp(name, "--rush") == 0) {
        o->rush = true;
    } else if (value && strcmp(name, "--seeds") == 0) {
        o->seeds = strtoull(value, NULL, 10);
    } else if (value && strcmp(name, "--from") == 0) {
        o->from = strtoull(value, NULL, 10);
    } else if (value && strcmp(name, "--jobs") == 0) {
        o->jobs = (unsigned)strtoul(value, NULL, 10);
    } else if (value && strcmp(name, "--kind") == 0) {
        o->kind = kind_named(value);
        return o->kind >= 0;
    } else if (value && strcmp(name, "--seed") == 0) {
        o->from = strtoull(value, NULL, 10);
        o->one = true;
    } else {
        return false;
    }
    return true;
}

static bool has_value(const char *name)
{
    return strcmp(name, "--trace") != 0 && strcmp(name, "--stop") != 0 &&
           strcmp(name, "--brief") != 0 && strcmp(name, "--rush") != 0;
}

/* What the tests' environment asks for, if nobody says otherwise. */
static uint64_t usual_seeds(void)
{
    const char *is_long = getenv("HOLDFAST_TEST_LONG");
    const char *scale = getenv("HOLDFAST_TEST_SCALE");
    if (is_long && strcmp(is_long, "1") == 0) {
        return 1000000;
    }
    double seeds = 20000 * (scale ? strtod(scale, NULL) : 1);
    return seeds >= 1 ? (uint64_t)seeds : 1;
}

int main(int argc, char **argv)
{
    options o = {.seeds = usual_seeds(), .from = 1, .kind = -1};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    o.jobs = cores > 0 ? (unsigned)cores : 1;
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        const char *value = has_value(name) && i + 1 < argc ? argv[++i] : NULL;
        if (!take_option(&o, name, value)) {
            return usage();
        }
    }
    o.jobs = o.jobs > JOBS_MAX ? JOBS_MAX : o.jobs ? o.jobs : 1;
    size_t size = sizeof(report) * JOBS_MAX + sizeof(bool);
    reports = mmap(NULL, size, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (reports == MAP_FAILED) {
        perror("sim");
        return 2;
    }
    stopped = (volatile bool *)(reports + JOBS_MAX);
    sim_server_prepare();
    if (o.one) {
        return run_apart(o.from, &o, &reports[0]) ? 0 : 1;
    }
    return run_many(&o);
}
