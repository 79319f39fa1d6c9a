/* Chance: one generator, from which a whole run follows. */
#include "sim/sim.h"

/* splitmix64 (Steele, Lea, Flood 2014): any seed will do. */
uint64_t sim_random(void)
{
    uint64_t z = (world.chance += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t sim_below(uint64_t bound)
{
    return bound < 2 ? 0 : sim_random() % bound;
}

bool sim_chance(uint32_t of_256)
{
    return of_256 > 0 && sim_below(256) < of_256;
}

int64_t sim_between(int64_t min, int64_t max)
{
    return max <= min ? min
                      : min + (int64_t)sim_below((uint64_t)(max - min) + 1);
}

int64_t sim_skewed(int64_t min, int64_t max)
{
    int64_t top = max;
    while (top / 2 > min && sim_below(2) == 0) {
        top /= 2;
    }
    return sim_between(min, top);
}

static unsigned draw_faults(void)
{
    /* Each alone is rare enough to have its effects seen; together they find
     * what needs two. Now and then a single one. */
    unsigned all = (1u << SIM_FAULTS) - 1;
    if (sim_below(4) == 0) {
        return 1u << sim_below(SIM_FAULTS);
    }
    unsigned drawn = (unsigned)sim_random() & all;
    if (sim_below(2) == 0) {
        drawn &= (unsigned)sim_random();
    }
    return drawn;
}

static void draw_network(sim_plan *plan)
{
    static const int64_t slowest[] = {200 * SIM_US, SIM_MS, 5 * SIM_MS,
                                      40 * SIM_MS};
    plan->delay_max = slowest[sim_below(4)];
    plan->delay_min = sim_below(2) ? 20 * SIM_US : plan->delay_max / 4;
    plan->splits = sim_below(2) ? 0 : (uint32_t)sim_below(160);
    plan->send_buffer =
        sim_below(4) ? (size_t)1 << 16 : (size_t)sim_between(512, 2048);
}

static void draw_processors(sim_plan *plan)
{
    static const uint32_t yields[] = {0, 8, 64, 160};
    static const int64_t costs[] = {0, 0, 2 * SIM_US, 40 * SIM_US};
    plan->step_cost = costs[sim_below(4)];
    plan->yields = yields[sim_below(4)];
    plan->preempts = sim_below(2) ? 0 : (uint32_t)sim_below(64);
    plan->preempt_max = sim_below(4) ? SIM_MS : 20 * SIM_MS;
    plan->late_wakes = plan->preempts;
    if (plan->rush) {
        plan->preempts = 1 + (uint32_t)sim_below(8);
        plan->preempt_max = 4 * SIM_MS;
        plan->late_wakes = 128;
    }
    plan->spurious = sim_below(3) ? 0 : 16;
}

/* Short ones end often; long ones show who waits for their end in vain. */
static int64_t draw_lease_max(void)
{
    static const int64_t longest[] = {400 * SIM_MS,   400 * SIM_MS,
                                      400 * SIM_MS,   3 * SIM_SECOND,
                                      3 * SIM_SECOND, 15 * SIM_SECOND};
    return longest[sim_below(6)];
}

void sim_draw_plan(void)
{
    sim_plan *plan = &world.plan;
    plan->processes = 1 + (unsigned)sim_below(3);
    plan->threads = 1 + (unsigned)sim_below(4);
    plan->locks = 1 + (unsigned)(sim_below(4) == 0);
    plan->operations = 3 + (unsigned)sim_below(8);
    plan->rush = sim_below(4) == 0 || world.rush;
    plan->calm = sim_below(4) == 0 || world.rush;
    plan->lease_max = draw_lease_max();
    plan->faults = plan->calm ? 0 : draw_faults();
    plan->fault_pause = sim_skewed(30 * SIM_MS, 2 * SIM_SECOND);
    plan->faults_until =
        plan->calm ? 0 : sim_between(SIM_SECOND, 8 * SIM_SECOND);
    plan->numeric = sim_below(3) > 0;
    plan->late = sim_below(2);
    draw_network(plan);
    draw_processors(plan);
    sim_draw_kinds();
}
