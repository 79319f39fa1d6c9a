/* The life of a simulated process: opens a client, lets threads work, leaves.
 */
#include "sim/actor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sim_actor actors[SIM_PROCESSES];

const char *sim_lock_name(uint64_t number)
{
    static const char *const names[SIM_LOCKS] = {"lock:a", "lock:b"};
    return names[number % SIM_LOCKS];
}

int64_t sim_slack(void)
{
    int64_t slack =
        150 * SIM_MS + 20 * world.plan.delay_max + 2000 * world.plan.step_cost;
    return world.plan.preempts ? slack + 20 * world.plan.preempt_max : slack;
}

/* ----------------------------------------------------------------- opening */

static void log_line(void *arg, hf_log_level level, const char *line)
{
    (void)arg;
    SIM_TRACE("log %d: %s", (int)level, line);
}

static int64_t draw_quarantine(void)
{
    switch (sim_below(6)) {
    case 0:
        return -1;
    case 1:
    case 2:
        return 0;
    default:
        return world.plan.lease_max / SIM_MS + 30;
    }
}

static hf_client_options draw_options(void)
{
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    const sim_plan *plan = &world.plan;
    int64_t round_trip = 4 * plan->delay_max / SIM_MS + 20;
    options.command_timeout_ms =
        plan->calm ? 3000 : sim_skewed(round_trip, 3000);
    options.connect_timeout_ms =
        plan->calm ? 3000 : sim_skewed(round_trip, 3000);
    options.watchdog_lease_ms =
        sim_between(2 * round_trip + 30, plan->lease_max / SIM_MS);
    options.poll_cap_ms =
        sim_below(2) ? sim_between(20000, 60000) : sim_skewed(50, 2000);
    options.subscription_linger_ms = sim_skewed(1, 2000);
    options.restart_quarantine_ms = draw_quarantine();
    options.log = log_line;
    options.log_level = HF_LOG_WARNING;
    return options;
}

static void note_options(sim_actor *actor, const hf_client_options *options)
{
    actor->command_timeout = options->command_timeout_ms * SIM_MS;
    actor->poll_cap = options->poll_cap_ms * SIM_MS;
    actor->quarantine = options->restart_quarantine_ms * SIM_MS;
    actor->process->bears = options->watchdog_lease_ms * SIM_MS / 4;
    SIM_TRACE("opens a client: time-outs %lld and %lld ms, lease %lld, poll "
              "cap %lld, linger %lld, quarantine %lld",
              (long long)options->connect_timeout_ms,
              (long long)options->command_timeout_ms,
              (long long)options->watchdog_lease_ms,
              (long long)options->poll_cap_ms,
              (long long)options->subscription_linger_ms,
              (long long)options->restart_quarantine_ms);
}

static hf_lock *open_lock(const sim_actor *actor, unsigned lock, hf_kind kind)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    const char *name = sim_lock_name(lock);
    hf_error err = HF_ERROR_INIT;
    options.kind = kind;
    options.fair_wait_ms = world.plan.fair_wait;
    options.token_life_ms = world.plan.token_life;
    options.backoff_max_ms = world.plan.backoff_max;
    options.prefer_writers = world.plan.prefer_writers;
    hf_lock *opened =
        hf_lock_open_with(actor->client, name, strlen(name), &options, &err);
    if (!opened) {
        sim_violation("NoOddStatus", "hf_lock_open_with: %s",
                      hf_error_text(&err));
    }
    return opened;
}

static void open_handles(sim_actor *actor, unsigned lock)
{
    static const hf_kind kinds[SIM_KINDS] = {
        [SIM_REENTRANT] = HF_KIND_REENTRANT,
        [SIM_ONCE] = HF_KIND_NON_REENTRANT,
        [SIM_SPIN] = HF_KIND_SPIN,
        [SIM_FENCED] = HF_KIND_FENCED,
        [SIM_SIMPLE] = HF_KIND_SIMPLE,
        [SIM_RW] = HF_KIND_WRITE,
        [SIM_FAIR] = HF_KIND_FAIR,
        [SIM_FAIR_ONCE] = HF_KIND_FAIR_NON_REENTRANT,
        [SIM_PERMIT] = HF_KIND_PERMIT,
    };
    sim_handles *handles = &actor->handles[lock];
    sim_kind kind = world.plan.kinds[lock];
    memset(handles, 0, sizeof(*handles));
    if (kind == SIM_REENTRANT) {
        handles->lock[0] =
            hf_lock_open(actor->client, sim_lock_name(lock), NULL);
    } else if (!sim_kind_counts(kind)) {
        handles->lock[0] = open_lock(actor, lock, kinds[kind]);
    }
    if (kind == SIM_SEMAPHORE || kind == SIM_IN_TURN) {
        hf_semaphore_options options = HF_SEMAPHORE_OPTIONS_INIT;
        options.no_starvation = kind == SIM_IN_TURN;
        handles->semaphore =
            hf_semaphore_open(actor->client, sim_lock_name(lock),
                              strlen(sim_lock_name(lock)), &options, NULL);
    }
    if (kind == SIM_LATCH) {
        handles->latch = hf_latch_open(actor->client, sim_lock_name(lock),
                                       strlen(sim_lock_name(lock)), NULL);
    }
    if (kind == SIM_RW) {
        handles->lock[SIM_READERS] = open_lock(actor, lock, HF_KIND_READ);
    }
}

static void close_handles(sim_handles *handles)
{
    hf_lock_free(handles->lock[0]);
    hf_lock_free(handles->lock[SIM_READERS]);
    hf_semaphore_free(handles->semaphore);
    hf_latch_free(handles->latch);
}

static void open_client(sim_actor *actor)
{
    hf_client_options options = draw_options();
    note_options(actor, &options);
    for (int tries = 0; !actor->client; tries++) {
        hf_error err = HF_ERROR_INIT;
        hf_client *client =
            hf_client_open("redis://server:6379", &options, &err);
        if (client) {
            actor->opened_at = world.now;
            actor->client = client;
            SIM_TRACE("client is open, %s", client->book.uuid);
            break;
        }
        sim_note_status("hf_client_open", hf_error_status(&err), &err);
        if (tries > 1000) {
            sim_violation("NoDeadlock", "no client can be opened");
        }
        sim_sleep_until(world.now + sim_between(SIM_MS, 200 * SIM_MS));
    }
    for (unsigned i = 0; i < SIM_LOCKS; i++) {
        open_handles(actor, i);
    }
    for (unsigned i = 0; i < SIM_OWNERS; i++) {
        actor->owners[i] = hf_owner_new(actor->client, NULL);
    }
}

/* ----------------------------------------------------------------- leaving */

static void free_records(sim_actor *actor)
{
    for (unsigned i = 0; i < SIM_RECORDS; i++) {
        if (actor->records[i].used && !actor->records[i].busy) {
            sim_record_free(&actor->records[i]);
        }
    }
}

static void check_descriptors(const sim_process *process)
{
    for (int fd = 0; fd < SIM_FDS; fd++) {
        if (process->fds[fd].kind != SIM_FD_FREE) {
            sim_violation("NoResidue", "p%u leaves descriptor %d open",
                          process->number, fd);
        }
    }
}

static void close_client(sim_actor *actor)
{
    hf_client *client = actor->client;
    bool handles_first = sim_below(2);
    int64_t began = world.now;
    if (handles_first) {
        free_records(actor);
    }
    SIM_TRACE("frees its client");
    hf_client_free(client);
    if (actor->process->running_from <= began &&
        world.now > began + actor->command_timeout * 101 / 100 + sim_slack()) {
        sim_violation("InTime", "hf_client_free took %lld ms",
                      (long long)((world.now - began) / SIM_MS));
    }
    actor->client = NULL;
    free_records(actor);
    for (unsigned i = 0; i < SIM_LOCKS; i++) {
        close_handles(&actor->handles[i]);
    }
    for (unsigned i = 0; i < SIM_OWNERS; i++) {
        hf_owner_free(actor->owners[i]);
    }
    check_descriptors(actor->process);
}

/* ----------------------------------------------------------------- working */

static void *work(void *arg)
{
    sim_actor *actor = arg;
    unsigned count = 1 + (unsigned)sim_below(2 * world.plan.operations);
    sim_sleep_until(world.now + sim_skewed(0, 100 * SIM_MS));
    for (unsigned i = 0; i < count; i++) {
        sim_operate(actor);
    }
    sim_finish_thread(actor);
    return NULL;
}

static void one_wave(sim_actor *actor)
{
    sim_thread *threads[8];
    unsigned count = 0;
    for (unsigned i = 0; i < world.plan.threads; i++) {
        threads[count++] = sim_thread_start(actor->process, work, actor);
    }
    while (count > 0) {
        sim_pthread_join((pthread_t)(uintptr_t)threads[--count], NULL);
    }
}

static void *live(void *arg)
{
    sim_actor *actor = arg;
    unsigned waves = 1 + (unsigned)(sim_below(3) == 0);
    unsigned clients = 1 + (unsigned)(sim_below(5) == 0);
    while (clients-- > 0) {
        open_client(actor);
        for (unsigned i = 0; i < waves; i++) {
            one_wave(actor);
        }
        close_client(actor);
        world.totals.counts[SIM_REOPEN] += clients > 0;
    }
    actor->process->left = true;
    SIM_TRACE("has left");
    return NULL;
}

void sim_actor_start(void)
{
    sim_process *process = world.ending ? NULL : sim_process_new();
    if (!process) {
        return;
    }
    sim_actor *actor = &actors[process->number];
    actor->process = process;
    process->actor = actor;
    for (unsigned i = 0; i < SIM_THREADS; i++) {
        actor->cancels[i] = hf_cancel_new();
    }
    SIM_TRACE("p%u begins, its clock runs %+.2f %% fast", process->number,
              (double)process->clock_ppm / 1e4);
    sim_thread_start(process, live, actor);
}

/* Runs as a thread of the process: firing wakes by the process' own means. */
static void *cancel_all(void *arg)
{
    sim_actor *actor = arg;
    actor->all_cancelled = true;
    for (unsigned i = 0; i < SIM_THREADS; i++) {
        if (actor->cancels[i]) {
            hf_cancel_fire(actor->cancels[i]);
        }
    }
    return NULL;
}

void sim_actors_cancel_all(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    SIM_TRACE("all waits are cancelled");
    for (unsigned i = 0; i < world.process_count; i++) {
        sim_process *process = &world.processes[i];
        if (!process->dead && !process->left) {
            sim_thread_start(process, cancel_all, process->actor);
        }
    }
}
