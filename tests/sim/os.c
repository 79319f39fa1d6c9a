/* In the place of src/os: a process' clock, chance, parking, waking,
 * descriptors and thread records. Sockets are in net.c. */
#include "sim/sim.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_FD 3
/* Questions to the clock within one step: more, and the step has no end. */
#define LOOKS_AT_ONCE 20000

/* ------------------------------------------------------------------- clock */

static const sim_process *here(void)
{
    return world.running ? world.running->process : world.looking;
}

int64_t sim_local(const sim_process *process, int64_t at)
{
    return process->clock_offset + at + at / 1000 * process->clock_ppm / 1000;
}

int64_t sim_true(const sim_process *process, int64_t local)
{
    if (local == HF__NEVER) {
        return HF__NEVER;
    }
    int64_t span = local - process->clock_offset;
    int64_t at = span - span / 1000 * process->clock_ppm / 1000;
    at -= SIM_MS; /* the inverse is not exact */
    while (sim_local(process, at) < local) {
        int64_t short_of = local - sim_local(process, at);
        at += short_of > 200 ? short_of - short_of / 100 : 1;
    }
    return at;
}

int64_t hf__now(void)
{
    const sim_process *process = here();
    if (++world.looks_at > LOOKS_AT_ONCE && world.running) {
        sim_violation("NoEndlessLoop", "%d looks at the clock in one step",
                      LOOKS_AT_ONCE);
    }
    return process ? sim_local(process, world.now) : 0;
}

/* ------------------------------------------------------------------ chance */

hf_status hf__random(void *out, size_t length, hf_error *err)
{
    unsigned char *at = out;
    (void)err;
    for (size_t i = 0; i < length; i++) {
        at[i] = (unsigned char)sim_random();
    }
    return HF_OK;
}

/* ----------------------------------------------------------------- parking */

enum { EMPTY = 0, NOTIFIED = 1, PARKED = 2 };

void hf__parker_init(hf__parker *parker)
{
    atomic_init(&parker->word, EMPTY);
}

void hf__park(hf__parker *parker, int64_t deadline)
{
    int64_t until = sim_true(world.running->process, deadline);
    if (atomic_load(&parker->word) == EMPTY && world.now < until) {
        atomic_store(&parker->word, PARKED);
        bool early = sim_chance(world.plan.spurious);
        sim_block("a wake-up", parker,
                  early ? world.now + sim_between(1, SIM_MS) : until);
    }
    atomic_store(&parker->word, EMPTY);
}

void hf__unpark(hf__parker *parker)
{
    uint32_t before = atomic_exchange(&parker->word, NOTIFIED);
    if (before == PARKED && world.running) {
        sim_wake_waiting(world.running->process, parker);
        sim_yield_maybe();
    }
}

/* ------------------------------------------------------------- descriptors */

static sim_fd *fd_of(sim_process *process, int fd)
{
    if (fd < FIRST_FD || fd >= SIM_FDS) {
        return NULL;
    }
    return &process->fds[fd];
}

/* The lowest free number, as the kernel does. */
int sim_fd_open(sim_fd_kind kind)
{
    sim_process *process = world.running->process;
    for (int fd = FIRST_FD; fd < SIM_FDS; fd++) {
        sim_fd *at = &process->fds[fd];
        if (at->kind == SIM_FD_FREE) {
            at->kind = kind;
            at->raised = false;
            at->conn = NULL;
            return fd;
        }
    }
    return -1;
}

sim_conn *sim_fd_conn(int fd, const char *what)
{
    sim_fd *at = fd_of(world.running->process, fd);
    if (!at || at->kind != SIM_FD_SOCKET) {
        sim_violation("DescriptorUse",
                      "%s on descriptor %d, which is no socket", what, fd);
    }
    return at->conn;
}

void sim_fd_set_conn(int fd, sim_conn *conn)
{
    world.running->process->fds[fd].conn = conn;
}

void hf__close(int fd)
{
    if (fd < 0 || !world.running) {
        return;
    }
    sim_fd *at = fd_of(world.running->process, fd);
    if (!at || at->kind == SIM_FD_FREE) {
        sim_violation("DescriptorUse", "descriptor %d is closed twice", fd);
    }
    if (at->kind == SIM_FD_SOCKET) {
        sim_conn_closed_by_client(at->conn);
    }
    at->kind = SIM_FD_FREE;
    at->conn = NULL;
    at->armed++;
}

/* ----------------------------------------------------------------- polling */

static short ready_events(sim_process *process, const struct pollfd *poll_fd)
{
    const sim_fd *at = fd_of(process, poll_fd->fd);
    if (!at) {
        return 0;
    }
    switch (at->kind) {
    case SIM_FD_SOCKET:
        return sim_conn_ready(at->conn, poll_fd->events);
    case SIM_FD_FREE:
        return POLLNVAL;
    default:
        return (short)(at->raised ? poll_fd->events & POLLIN : 0);
    }
}

static int count_ready(sim_process *process, struct pollfd *fds, size_t count)
{
    int ready = 0;
    for (size_t i = 0; i < count; i++) {
        fds[i].revents = ready_events(process, &fds[i]);
        ready += fds[i].revents != 0;
    }
    return ready;
}

void sim_fds_changed(sim_process *process)
{
    for (unsigned i = 0; i < process->thread_count; i++) {
        sim_thread *thread = &process->threads[i];
        if (thread->polled && thread->state == SIM_BLOCKED &&
            count_ready(process, thread->polled, thread->polled_count) > 0) {
            sim_wake(thread);
        }
    }
}

int hf__poll(struct pollfd *fds, size_t count, int64_t deadline)
{
    sim_thread *self = world.running;
    int64_t until = sim_true(self->process, deadline);
    int ready = 0;
    if (count_ready(self->process, fds, count) > 0) {
        sim_spend(SIM_US); /* who polls in a circle lets time pass by */
    }
    while ((ready = count_ready(self->process, fds, count)) == 0 &&
           world.now < until) {
        bool early = sim_chance(world.plan.spurious);
        self->polled = fds;
        self->polled_count = count;
        sim_block("poll", self->process->fds,
                  early ? world.now + sim_between(1, SIM_MS) : until);
        self->polled = NULL;
        if (early) {
            return count_ready(self->process, fds, count);
        }
    }
    return ready;
}

/* ------------------------------------------------------------------ waking */

hf_status hf__waker_open(hf__waker *waker, hf_error *err)
{
    (void)err;
    waker->armed = HF__NEVER;
    waker->event_fd = sim_fd_open(SIM_FD_EVENT);
    waker->timer_fd = sim_fd_open(SIM_FD_TIMER);
    return HF_OK;
}

void hf__waker_close(hf__waker *waker)
{
    hf__close(waker->event_fd);
    hf__close(waker->timer_fd);
    waker->event_fd = -1;
    waker->timer_fd = -1;
}

void sim_fd_raise(sim_process *process, int fd)
{
    process->fds[fd].raised = true;
    sim_fds_changed(process);
}

static void raise_fd(int fd)
{
    sim_process *process = world.running->process;
    sim_fd *at = fd_of(process, fd);
    if (!at || at->kind != SIM_FD_EVENT) {
        sim_violation("DescriptorUse", "descriptor %d is raised, which is none",
                      fd);
    }
    sim_fd_raise(process, fd);
}

void hf__waker_wake(hf__waker *waker)
{
    raise_fd(waker->event_fd);
}

static void timer_rings(void *arg, uint64_t number)
{
    sim_process *process = arg;
    sim_fd *at = &process->fds[number % SIM_FDS];
    if (at->kind == SIM_FD_TIMER && at->armed == number / SIM_FDS) {
        at->raised = true;
        sim_fds_changed(process);
    }
}

void hf__waker_arm(hf__waker *waker, int64_t due)
{
    sim_process *process = world.running->process;
    if (due == waker->armed) {
        return;
    }
    waker->armed = due;
    sim_fd *at = &process->fds[waker->timer_fd];
    at->raised = false;
    at->armed++;
    int64_t when = sim_true(process, due);
    sim_at(when < world.now ? world.now : when, timer_rings, process,
           at->armed * SIM_FDS + (uint64_t)waker->timer_fd);
}

void hf__waker_drain(hf__waker *waker)
{
    sim_process *process = world.running->process;
    waker->armed = HF__NEVER;
    process->fds[waker->event_fd].raised = false;
    process->fds[waker->timer_fd].raised = false;
}

int hf__flag_fd_open(void)
{
    return sim_fd_open(SIM_FD_EVENT);
}

void hf__flag_fd_raise(int fd)
{
    raise_fd(fd);
}

/* ------------------------------------------------------------ fork, threads */

hf_status hf__fork_watch(hf_error *err)
{
    (void)err;
    return HF_OK;
}

unsigned hf__fork_generation(void)
{
    return 0;
}

uint64_t hf__next_ordinal(void)
{
    return ++world.running->process->ordinals;
}

hf__thread *hf__thread_self(void)
{
    sim_thread *self = world.running;
    if (!self) {
        return NULL; /* the product's destructor, at the program's end */
    }
    if (!self->record) {
        self->record = self->process->spare_records;
        if (self->record) {
            self->process->spare_records = self->record->spare;
        } else if ((self->record = calloc(1, sizeof(hf__thread))) != NULL) {
            hf__parker_init(&self->record->parker);
        }
        self->record->ordinal = hf__next_ordinal();
    }
    return self->record;
}

void sim_thread_gone(sim_thread *thread)
{
    if (thread->record) {
        thread->record->spare = thread->process->spare_records;
        thread->process->spare_records = thread->record;
        thread->record = NULL;
    }
}

/* --------------------------------------------------------------- processes */

sim_process *sim_process_new(void)
{
    if (world.process_count == SIM_PROCESSES) {
        return NULL;
    }
    sim_process *process = &world.processes[world.process_count];
    memset(process, 0, sizeof(*process));
    process->number = world.process_count++;
    process->running_from = world.now;
    process->clock_offset = sim_between(SIM_SECOND, 1000000 * SIM_SECOND);
    /* Any two clocks run within the hundredth that the leases allow for. */
    process->clock_ppm = sim_below(3) ? sim_between(-4500, 4500) : 0;
    return process;
}
