/* The product's mutexes, conditions and threads, by coroutines. */
#include "sim/threads.h"

#include "sim/sim.h"

#include <errno.h>

int sim_mutex_init(sim_mutex *mutex, const void *attributes)
{
    (void)attributes;
    mutex->holder = NULL;
    return 0;
}

int sim_mutex_destroy(sim_mutex *mutex)
{
    if (mutex->holder) {
        sim_violation("MutexUse", "a mutex is destroyed while it is held");
    }
    return 0;
}

/* Whoever is not a thread of the world is never in anybody's way. */
int sim_mutex_lock(sim_mutex *mutex)
{
    sim_thread *self = world.running;
    if (!self) {
        return 0;
    }
    sim_yield_maybe();
    if (mutex->holder == self) {
        sim_violation("NoDeadlock", "a thread locks a mutex that it holds");
    }
    while (mutex->holder) {
        sim_block("a mutex", mutex, HF__NEVER);
    }
    mutex->holder = self;
    return 0;
}

int sim_mutex_trylock(sim_mutex *mutex)
{
    if (!world.running || mutex->holder) {
        return EBUSY;
    }
    mutex->holder = world.running;
    return 0;
}

int sim_mutex_unlock(sim_mutex *mutex)
{
    sim_thread *self = world.running;
    if (!self) {
        return 0;
    }
    if (mutex->holder != self) {
        sim_violation("MutexUse", "a thread unlocks a mutex of another");
    }
    mutex->holder = NULL;
    sim_wake_waiting(self->process, mutex);
    sim_yield_maybe();
    return 0;
}

int sim_cond_init(sim_cond *cond, const void *attributes)
{
    (void)attributes;
    cond->unused = 0;
    return 0;
}

int sim_cond_destroy(sim_cond *cond)
{
    (void)cond;
    return 0;
}

int sim_cond_wait(sim_cond *cond, sim_mutex *mutex)
{
    sim_thread *self = world.running;
    mutex->holder = NULL;
    sim_wake_waiting(self->process, mutex);
    sim_block("a condition", cond, HF__NEVER);
    while (mutex->holder) {
        sim_block("a mutex", mutex, HF__NEVER);
    }
    mutex->holder = self;
    return 0;
}

int sim_cond_broadcast(sim_cond *cond)
{
    if (world.running) {
        sim_wake_waiting(world.running->process, cond);
    }
    return 0;
}

int sim_pthread_create(pthread_t *id, const void *attributes,
                       void *(*body)(void *), void *arg)
{
    sim_process *process = world.running->process;
    (void)attributes;
    if (sim_fault_now(SIM_FAULT_THREAD_FAILS)) {
        return EAGAIN;
    }
    *id = (pthread_t)(uintptr_t)sim_thread_start(process, body, arg);
    return 0;
}

int sim_pthread_join(pthread_t id, void **result)
{
    sim_thread *thread = (sim_thread *)(uintptr_t)id;
    while (thread->state != SIM_ENDED) {
        sim_block("the end of a thread", thread, HF__NEVER);
    }
    if (result) {
        *result = thread->result;
    }
    return 0;
}

pthread_t sim_pthread_self(void)
{
    return (pthread_t)(uintptr_t)world.running;
}
