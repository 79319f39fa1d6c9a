/* What goes wrong, and when: drawn from the seed. */
#include "sim/net.h"

#define FINAL_CANCEL (2 * SIM_SECOND)

static bool drawn(sim_fault fault)
{
    return (world.plan.faults & 1u << fault) != 0 &&
           world.now < world.plan.faults_until;
}

bool sim_fault_now(sim_fault fault)
{
    if (!drawn(fault) || sim_below(8) != 0) {
        return false;
    }
    world.totals.faults[fault]++;
    if (world.running) {
        world.running->process->disturbed = world.now;
    }
    return true;
}

void sim_disturb_all(void)
{
    for (unsigned i = 0; i < world.process_count; i++) {
        world.processes[i].disturbed = world.now;
    }
}

/* ------------------------------------------------------------- whom it hits */

static sim_process *any_process(void)
{
    sim_process *alive[SIM_PROCESSES];
    size_t count = 0;
    for (unsigned i = 0; i < world.process_count; i++) {
        sim_process *process = &world.processes[i];
        if (!process->dead && !process->left) {
            alive[count++] = process;
        }
    }
    return count ? alive[sim_below(count)] : NULL;
}

static sim_conn *any_conn(void)
{
    sim_conn *open[32];
    size_t count = 0;
    for (sim_conn *conn = sim_conns; conn && count < 32; conn = conn->next) {
        if (conn->state == SIM_CONN_OPEN && !conn->client_gone) {
            open[count++] = conn;
        }
    }
    return count ? open[sim_below(count)] : NULL;
}

static int64_t a_while(void)
{
    int64_t longest = world.plan.lease_max + world.plan.lease_max / 2;
    int64_t span = sim_skewed(SIM_MS, longest);
    if (world.now + span > world.quiet_from) {
        world.quiet_from = world.now + span + SIM_SECOND;
    }
    return span;
}

/* ------------------------------------------------------------- connections */

static void heal(void *arg, uint64_t number)
{
    (void)number;
    sim_conn_heal(arg);
}

static bool hit_conn(sim_fault fault)
{
    sim_conn *conn = any_conn();
    if (!conn) {
        return false;
    }
    SIM_TRACE("fault on conn %u of p%u: %s", conn->number,
              conn->process->number, sim_fault_text(fault));
    switch (fault) {
    case SIM_FAULT_RESET:
        sim_conn_reset(conn);
        break;
    case SIM_FAULT_LOST_REQUEST:
        conn->lose_request = true;
        break;
    case SIM_FAULT_LOST_REPLY:
        conn->lose_reply = true;
        break;
    case SIM_FAULT_CLIENT_KILL:
        sim_server_kill(conn);
        break;
    case SIM_FAULT_DELAY:
        sim_conn_blacken(conn, sim_below(3) > 0, sim_below(3) > 0);
        sim_at(world.now + a_while(), heal, conn, 0);
        break;
    default:
        sim_conn_blacken(conn, fault != SIM_FAULT_HALF_OPEN_FROM,
                         fault != SIM_FAULT_HALF_OPEN_TO);
        break;
    }
    return true;
}

/* --------------------------------------------------------------- processes */

static void resume(void *arg, uint64_t number)
{
    sim_process *process = arg;
    (void)number;
    if (process->paused) {
        SIM_TRACE("p%u goes on", process->number);
        process->paused = false;
        process->running_from = world.now;
        process->disturbed = world.now;
    }
}

static void replace(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    if (world.now < world.plan.faults_until) {
        sim_actor_start();
    }
}

static bool hit_process(sim_fault fault)
{
    sim_process *process = any_process();
    if (!process || process->paused) {
        return false;
    }
    SIM_TRACE("fault on p%u: %s", process->number, sim_fault_text(fault));
    process->disturbed = world.now;
    switch (fault) {
    case SIM_FAULT_CUT:
        sim_process_cut_off(process, world.now + a_while());
        break;
    case SIM_FAULT_PROCESS_PAUSE:
        process->paused = true;
        sim_at(world.now + a_while(), resume, process, 0);
        break;
    default:
        process->dead = true;
        sim_conns_of_dead(process, fault == SIM_FAULT_MACHINE_DEATH);
        if (sim_below(2)) {
            sim_at(world.now + a_while(), replace, NULL, 0);
        }
        break;
    }
    return true;
}

/* ------------------------------------------------------------------ server */

static void be_well(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    SIM_TRACE("server refuses no more");
    sim_server_condition(MODEL_WELL);
}

static void refuse_for_a_while(void)
{
    static const model_condition conditions[] = {
        MODEL_OUT_OF_MEMORY, MODEL_READ_ONLY, MODEL_LOADING, MODEL_BUSY};
    sim_server_condition(conditions[sim_below(4)]);
    sim_at(world.now + a_while(), be_well, NULL, 0);
}

/* Permits that are deleted are never there again. */
static void delete_one(unsigned lock)
{
    sim_kind kind = world.plan.kinds[lock];
    if (kind != SIM_PERMIT && kind != SIM_SEMAPHORE && kind != SIM_IN_TURN) {
        sim_server_operate("DEL", sim_lock_name(lock));
    }
}

static bool hit_server(sim_fault fault)
{
    if (!sim_server_is_up()) {
        return false;
    }
    SIM_TRACE("fault: %s", sim_fault_text(fault));
    switch (fault) {
    case SIM_FAULT_SERVER_PAUSE:
        sim_server_stop(world.now + a_while());
        break;
    case SIM_FAULT_RESTART_KEEP:
    case SIM_FAULT_RESTART_EMPTY:
        sim_server_restart(fault == SIM_FAULT_RESTART_KEEP,
                           sim_skewed(SIM_MS, SIM_SECOND));
        break;
    case SIM_FAULT_FAILOVER:
        sim_server_fail_over(sim_skewed(SIM_MS, SIM_SECOND));
        break;
    case SIM_FAULT_SCRIPT_FLUSH:
        sim_server_operate("SCRIPT", "FLUSH");
        sim_disturb_all(); /* the next command takes twice as long */
        break;
    case SIM_FAULT_DEL:
        delete_one((unsigned)sim_below(SIM_LOCKS));
        break;
    default:
        refuse_for_a_while();
        break;
    }
    return true;
}

/* ---------------------------------------------------------------- schedule */

static bool hit(sim_fault fault)
{
    switch (fault) {
    case SIM_FAULT_RESET:
    case SIM_FAULT_LOST_REQUEST:
    case SIM_FAULT_LOST_REPLY:
    case SIM_FAULT_HALF_OPEN_TO:
    case SIM_FAULT_HALF_OPEN_FROM:
    case SIM_FAULT_HALF_OPEN_BOTH:
    case SIM_FAULT_DELAY:
    case SIM_FAULT_CLIENT_KILL:
        return hit_conn(fault);
    case SIM_FAULT_CUT:
    case SIM_FAULT_PROCESS_PAUSE:
    case SIM_FAULT_PROCESS_DEATH:
    case SIM_FAULT_MACHINE_DEATH:
        return hit_process(fault);
    case SIM_FAULT_REFUSE:
    case SIM_FAULT_RESOLVE:
    case SIM_FAULT_THREAD_FAILS:
        return false; /* where it happens: sim_fault_now */
    default:
        return hit_server(fault);
    }
}

static void next_fault(void *arg, uint64_t number)
{
    sim_fault fault = (sim_fault)sim_below(SIM_FAULTS);
    (void)arg;
    (void)number;
    if (world.now >= world.plan.faults_until) {
        return;
    }
    for (int i = 0; i < SIM_FAULTS && !drawn(fault); i++) {
        fault = (sim_fault)((fault + 1) % SIM_FAULTS);
    }
    if (drawn(fault) && hit(fault)) {
        world.totals.faults[fault]++;
    }
    sim_at(world.now + sim_skewed(SIM_MS, 2 * world.plan.fault_pause),
           next_fault, NULL, 0);
}

static void next_replication(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    sim_server_replicate();
    if (world.now < world.plan.faults_until) {
        sim_at(world.now + sim_skewed(SIM_MS, SIM_SECOND), next_replication,
               NULL, 0);
    }
}

void sim_faults_start(void)
{
    sim_at(sim_between(0, world.plan.fault_pause), next_fault, NULL, 0);
    if (drawn(SIM_FAULT_FAILOVER)) {
        sim_at(0, next_replication, NULL, 0);
    }
    sim_at(world.plan.faults_until + FINAL_CANCEL, sim_actors_cancel_all, NULL,
           0);
}

const char *sim_fault_text(sim_fault fault)
{
    static const char *const texts[] = {
#define SIM_FAULT_TEXT(name, text) text,
        SIM_FAULT_MAP(SIM_FAULT_TEXT)
#undef SIM_FAULT_TEXT
    };
    return texts[fault];
}
