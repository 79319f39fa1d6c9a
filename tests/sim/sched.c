/* Who runs next: coroutines, virtual time and the events that are due. */
#undef _FORTIFY_SOURCE /* its longjmp takes another stack for a mistake */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STACK_SIZE ((size_t)256 * 1024)
#define GUARD_SIZE ((size_t)4096)
/* As many without a moment in which all sleep: somebody runs in a circle. */
#define STEPS_AT_ONCE 100000
#define STEPS_IN_ALL 1000000

/* ----------------------------------------------------------------- events */

typedef struct event {
    int64_t at;
    uint64_t order; /* of those at the same time */
    sim_event_fn fn;
    void *arg;
    uint64_t number;
} event;

static event *events; /* a binary heap */
static size_t event_count;
static size_t event_room;
static uint64_t event_order;

static bool earlier(const event *a, const event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap_events(size_t a, size_t b)
{
    event kept = events[a];
    events[a] = events[b];
    events[b] = kept;
}

void sim_at(int64_t when, sim_event_fn fn, void *arg, uint64_t number)
{
    if (when == HF__NEVER) {
        return;
    }
    if (event_count == event_room) {
        event_room = event_room ? 2 * event_room : 256;
        events = realloc(events, event_room * sizeof(event));
        if (!events) {
            abort();
        }
    }
    size_t i = event_count++;
    events[i] = (event){when, event_order++, fn, arg, number};
    for (; i > 0 && earlier(&events[i], &events[(i - 1) / 2]);
         i = (i - 1) / 2) {
        swap_events(i, (i - 1) / 2);
    }
}

static event take_event(void)
{
    event first = events[0];
    events[0] = events[--event_count];
    size_t i = 0;
    for (;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2; child++) {
            if (child < event_count &&
                earlier(&events[child], &events[least])) {
                least = child;
            }
        }
        if (least == i) {
            return first;
        }
        swap_events(i, least);
        i = least;
    }
}

/* ------------------------------------------------------------- coroutines */

static jmp_buf scheduler;
static sim_thread *newborn;

static void leave_coroutine(void)
{
    if (_setjmp(world.running->context) == 0) {
        _longjmp(scheduler, 1);
    }
}

/* On a stack of its own, once: waits to be resumed, then runs. */
static void live(void)
{
    sim_thread *self = newborn;
    if (_setjmp(self->context) == 0) {
        _longjmp(scheduler, 1);
    }
    self->result = self->body(self->arg);
    self->state = SIM_ENDED;
    sim_thread_gone(self);
    sim_wake_waiting(self->process, self);
    leave_coroutine();
    abort();
}

static void give_birth(sim_thread *thread)
{
    char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || getcontext(&thread->birth) != 0) {
        abort();
    }
    (void)mprotect(stack, GUARD_SIZE, PROT_NONE);
    thread->birth.uc_stack.ss_sp = stack;
    thread->birth.uc_stack.ss_size = STACK_SIZE;
    makecontext(&thread->birth, live, 0);
    newborn = thread;
    if (_setjmp(scheduler) == 0) {
        (void)setcontext(&thread->birth);
    }
}

static void resume(sim_thread *thread)
{
    world.running = thread;
    if (_setjmp(scheduler) == 0) {
        _longjmp(thread->context, 1);
    }
    world.running = NULL;
}

/* A jump out of this frame must not find it gone: hence a thread is born in
 * the scheduler, or by another thread in an event of this very moment. */
static void be_born(void *arg, uint64_t number)
{
    sim_thread *thread = arg;
    (void)number;
    give_birth(thread);
    if (thread->state == SIM_BLOCKED) {
        thread->state = SIM_RUNNABLE;
    }
}

sim_thread *sim_thread_start(sim_process *process, void *(*body)(void *),
                             void *arg)
{
    if (process->thread_count == SIM_THREADS) {
        abort();
    }
    sim_thread *thread = &process->threads[process->thread_count];
    memset(thread, 0, sizeof(*thread));
    thread->number = process->thread_count++;
    thread->process = process;
    thread->body = body;
    thread->arg = arg;
    thread->where = "its birth";
    thread->state = SIM_BLOCKED;
    sim_at(world.now, be_born, thread, 0);
    return thread;
}

/* ----------------------------------------------------------------- sleeping */

/* Each delay is short, but many in a row keep a renewal from its time. */
static void steal(sim_process *process, int64_t span)
{
    int64_t leaked = (world.now - process->stolen_at) / 8;
    process->stolen = leaked < process->stolen ? process->stolen - leaked : 0;
    process->stolen += span;
    process->stolen_at = world.now;
    if (process->bears > 0 && process->stolen > process->bears) {
        process->disturbed = world.now + span;
    }
}

/* A system may be late to run a thread whose time has come. */
static void wake_by_time(void *arg, uint64_t sleep)
{
    sim_thread *thread = arg;
    if (thread->sleep != sleep || thread->state != SIM_BLOCKED) {
        return;
    }
    if (thread->late_for != sleep && sim_chance(world.plan.late_wakes)) {
        thread->late_for = sleep;
        int64_t span = sim_between(1, world.plan.preempt_max);
        steal(thread->process, span);
        sim_at(world.now + span, wake_by_time, thread, sleep);
        return;
    }
    thread->state = SIM_RUNNABLE;
}

void sim_wake(sim_thread *thread)
{
    if (thread->state == SIM_BLOCKED && thread->waits_for) {
        thread->state = SIM_RUNNABLE;
    }
}

void sim_wake_waiting(sim_process *process, const void *waits_for)
{
    for (unsigned i = 0; i < process->thread_count; i++) {
        if (process->threads[i].waits_for == waits_for) {
            sim_wake(&process->threads[i]);
        }
    }
}

void sim_block(const char *where, const void *waits_for, int64_t until)
{
    sim_thread *self = world.running;
    self->where = where;
    self->waits_for = waits_for;
    self->sleep++;
    self->state = SIM_BLOCKED;
    sim_at(until, wake_by_time, self, self->sleep);
    leave_coroutine();
    self->where = NULL;
    self->waits_for = NULL;
}

void sim_sleep_until(int64_t until)
{
    while (world.now < until) {
        sim_block("time", NULL, until);
    }
}

/* Here a thread of a real system may lose its processor. */
void sim_yield_maybe(void)
{
    sim_thread *self = world.running;
    if (!self) {
        return;
    }
    if (sim_below(4096) < world.plan.preempts) {
        int64_t until = world.now + sim_skewed(1, world.plan.preempt_max);
        steal(self->process, until - world.now);
        self->preempted = world.now;
        sim_sleep_until(until);
        self->preempted = 0;
    } else if (sim_chance(world.plan.yields)) {
        leave_coroutine();
    }
}

void sim_spend(int64_t span)
{
    world.now += span;
    leave_coroutine();
}

/* ----------------------------------------------------------------- the loop */

static bool may_run(const sim_thread *thread)
{
    return thread->state == SIM_RUNNABLE;
}

/* One of those that could run. */
static sim_thread *choose(void)
{
    sim_thread *able[SIM_PROCESSES * SIM_THREADS];
    size_t count = 0;
    for (unsigned p = 0; p < world.process_count; p++) {
        sim_process *process = &world.processes[p];
        if (process->dead || process->paused) {
            continue;
        }
        for (unsigned i = 0; i < process->thread_count; i++) {
            if (may_run(&process->threads[i])) {
                able[count++] = &process->threads[i];
            }
        }
    }
    return count == 0 ? NULL : able[count == 1 ? 0 : sim_below(count)];
}

static void count_step(void)
{
    world.steps++;
    world.steps_at++;
    if (world.steps_at > STEPS_AT_ONCE) {
        sim_violation("NoEndlessLoop", "%d steps in a row", STEPS_AT_ONCE);
    }
    if (world.steps > STEPS_IN_ALL) {
        sim_violation("NoEndlessLoop", "%d steps in one run", STEPS_IN_ALL);
    }
}

static void step(sim_thread *thread)
{
    count_step();
    world.looks_at = 0;
    resume(thread);
    if (world.plan.step_cost > 0) {
        world.now += sim_between(0, world.plan.step_cost);
    }
}

void sim_run(void)
{
    while (!world.finished) {
        if (event_count > 0 && events[0].at <= world.now) {
            event due = take_event();
            count_step();
            due.fn(due.arg, due.number);
            sim_check();
            continue;
        }
        sim_thread *thread = choose();
        if (thread) {
            step(thread);
            sim_check();
        } else if (event_count > 0) {
            world.now = events[0].at;
            world.steps_at = 0;
        } else {
            sim_violation("NoDeadlock", "everybody waits, and nothing is due");
        }
    }
}
