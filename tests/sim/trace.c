/* The history, in lines for people, and the end of a run that went wrong. */
#include "sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

sim_world world;

__attribute__((format(printf, 1, 0))) static void say(const char *format,
                                                      va_list args)
{
    const sim_thread *self = world.running;
    char who[32] = "";
    if (self) {
        (void)snprintf(who, sizeof(who), "p%u/t%u", self->process->number,
                       self->number);
    }
    printf("%12.6f  %-8s", (double)world.now / 1e9, who);
    vprintf(format, args);
    putchar('\n');
}

void sim_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

void sim_dump_threads(void)
{
    for (unsigned p = 0; p < world.process_count; p++) {
        const sim_process *process = &world.processes[p];
        sim_say("  p%u%s%s", process->number, process->dead ? " dead" : "",
                process->paused ? " paused" : "");
        for (unsigned i = 0; i < process->thread_count; i++) {
            const sim_thread *thread = &process->threads[i];
            if (thread->state != SIM_ENDED) {
                sim_say("    t%u %s%s", thread->number,
                        thread->state == SIM_BLOCKED ? "waits for " : "can run",
                        thread->state == SIM_BLOCKED && thread->where
                            ? thread->where
                            : "");
            }
        }
    }
}

_Noreturn void sim_violation(const char *invariant, const char *format, ...)
{
    va_list args;
    char text[512];
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    printf("VIOLATION of %s, seed %llu, at %.6f s: %s\n", invariant,
           (unsigned long long)world.seed, (double)world.now / 1e9, text);
    if (world.trace) {
        world.running = NULL;
        sim_dump_threads();
    }
    (void)fflush(stdout);
    _exit(SIM_EXIT_VIOLATION);
}
