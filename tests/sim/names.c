/* The name service: one host, which has one address, found soon, late or not
 * at all. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>

struct hf__address_list {
    char text[64];
};

struct hf__lookup {
    sim_process *process;
    int fd;
    uint64_t use; /* of the descriptor's number: tells a later one */
    bool fails;
};

static hf_status answer(hf__address_list **out, hf_error *err)
{
    *out = calloc(1, sizeof(**out));
    if (!*out) {
        return hf__error_nomem(err);
    }
    (void)snprintf((*out)->text, sizeof((*out)->text), "server");
    return HF_OK;
}

static hf_status no_answer(hf_error *err)
{
    return hf__error_set_retriable(err, HF_EUNREACHABLE,
                                   "cannot resolve host server");
}

hf_status hf__resolve(const char *host, int port, const char *unix_path,
                      hf__address_list **out, hf_error *err)
{
    (void)host;
    (void)port;
    (void)unix_path;
    sim_sleep_until(world.now + sim_skewed(0, 2 * SIM_MS));
    return sim_fault_now(SIM_FAULT_RESOLVE) ? no_answer(err) : answer(out, err);
}

hf_status hf__resolve_at_once(const char *host, int port, const char *unix_path,
                              hf__address_list **out, hf_error *err)
{
    (void)host;
    (void)port;
    (void)unix_path;
    *out = NULL;
    return world.plan.numeric ? answer(out, err) : HF_OK;
}

void hf__address_list_free(hf__address_list *list)
{
    free(list);
}

size_t hf__address_count(const hf__address_list *list)
{
    (void)list;
    return 1;
}

const char *hf__address_text(const hf__address_list *list, size_t index,
                             char *out, size_t size)
{
    (void)index;
    (void)snprintf(out, size, "%s", list->text);
    return out;
}

/* ---------------------------------------------------------------- look-ups */

/* By then the descriptor may have been closed, and be another's. */
static void come(void *arg, uint64_t use)
{
    const hf__lookup *lookup = arg;
    const sim_fd *at = &lookup->process->fds[lookup->fd];
    if (at->kind == SIM_FD_LOOKUP && at->armed == use) {
        sim_fd_raise(lookup->process, lookup->fd);
    }
}

hf_status hf__lookup_start(const char *host, int port, hf__lookup **out,
                           int *fd, hf_error *err)
{
    (void)host;
    (void)port;
    hf__lookup *lookup = calloc(1, sizeof(*lookup));
    if (!lookup) {
        return hf__error_nomem(err);
    }
    lookup->process = world.running->process;
    lookup->fd = sim_fd_open(SIM_FD_LOOKUP);
    lookup->use = ++lookup->process->fds[lookup->fd].armed;
    lookup->fails = sim_fault_now(SIM_FAULT_RESOLVE);
    bool silent = lookup->fails && sim_below(2);
    if (!silent) {
        sim_at(world.now + sim_skewed(0, 20 * SIM_MS), come, lookup,
               lookup->use);
    }
    *out = lookup;
    *fd = lookup->fd;
    return HF_OK;
}

hf_status hf__lookup_take(hf__lookup *lookup, hf__address_list **out,
                          hf_error *err)
{
    return lookup->fails ? no_answer(err) : answer(out, err);
}

/* Its memory stays: an event may yet come for it. */
void hf__lookup_drop(hf__lookup *lookup)
{
    (void)lookup;
}

bool sim_lookup_shutdown(int fd)
{
    sim_process *process = world.running->process;
    if (fd < 0 || fd >= SIM_FDS || process->fds[fd].kind != SIM_FD_LOOKUP) {
        return false;
    }
    sim_fd_raise(process, fd);
    return true;
}
