/* The kinds of locks and synchronizers that a run may use. */
#include "sim/sim.h"

#include "kinds/kinds.h"

const char *sim_kind_text(sim_kind kind)
{
    static const char *const texts[] = {
#define SIM_KIND_TEXT(name, text) text,
        SIM_KIND_MAP(SIM_KIND_TEXT)
#undef SIM_KIND_TEXT
    };
    return texts[kind];
}

bool sim_kind_counts(sim_kind kind)
{
    return kind == SIM_SEMAPHORE || kind == SIM_IN_TURN || kind == SIM_LATCH;
}

bool sim_kind_is_once(sim_kind kind)
{
    return kind == SIM_ONCE || kind == SIM_FAIR_ONCE || kind == SIM_SIMPLE;
}

bool sim_kind_is_silent(sim_kind kind)
{
    return kind == SIM_SPIN || kind == SIM_SIMPLE;
}

bool sim_kind_is_fair(sim_kind kind)
{
    return kind == SIM_FAIR || kind == SIM_FAIR_ONCE;
}

unsigned sim_doors(unsigned lock)
{
    switch (world.plan.kinds[lock]) {
    case SIM_RW:
        return 2;
    case SIM_SEMAPHORE:
    case SIM_IN_TURN:
        return SIM_DOORS;
    default:
        return 1;
    }
}

bool sim_plan_has(bool (*is)(sim_kind kind))
{
    for (unsigned i = 0; i < world.plan.locks; i++) {
        if (is(world.plan.kinds[i])) {
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- drawing */

/* Of those that are drawn without being asked for. */
static const sim_kind usual[] = {SIM_ONCE,      SIM_SPIN,    SIM_FENCED,
                                 SIM_SIMPLE,    SIM_RW,      SIM_PERMIT,
                                 SIM_SEMAPHORE, SIM_IN_TURN, SIM_LATCH};

static sim_kind draw_kind(void)
{
    if (world.only >= 0) {
        return (sim_kind)world.only;
    }
    return usual[sim_below(sizeof(usual) / sizeof(usual[0]))];
}

/* From a stream of its own: half of the runs have but the kind that was there
 * first, and are what they would be without the others. */
void sim_draw_kinds(void)
{
    sim_plan *plan = &world.plan;
    uint64_t before = world.chance;
    world.chance = world.seed * UINT64_C(0x2545f4914f6cdd1d) + 7;
    bool other = sim_below(2) || world.only >= 0;
    for (unsigned i = 0; i < SIM_LOCKS; i++) {
        plan->kinds[i] = other ? draw_kind() : SIM_REENTRANT;
    }
    sim_kind first = plan->kinds[0];
    plan->peer =
        other && sim_below(2) && (first == SIM_FENCED || first == SIM_ONCE);
    plan->prefer_writers = sim_below(3) == 0;
    plan->fair_wait = sim_between(1000, 6000);
    plan->token_life = sim_below(3) ? 0 : sim_between(200, 3000);
    plan->backoff_max = sim_below(2) ? 0 : sim_between(1, 128);
    plan->permits = sim_between(1, 4);
    world.chance = before;
}
