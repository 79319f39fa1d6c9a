/* Leases: what a holder may know without I/O, and giving back. */
#include "client/client_int.h"
#include "client/multi.h"

#include <inttypes.h>
#include <stdlib.h>

/* ------------------------------------------------------------ local answers */

static hf_lease_state state_now(const hf_lease *lease)
{
    if (lease->multi) {
        return hf__multi_state(lease);
    }
    hf_lease_state state = (hf_lease_state)atomic_load(&lease->core.state);
    bool live = state == HF_LEASE_HELD || state == HF_LEASE_SUSPECT;
    if (live && (hf__client_inherited(lease->client) ||
                 hf__now() >= atomic_load(&lease->core.deadline))) {
        return HF_LEASE_LOST; /* whoever is to note it down will */
    }
    return state;
}

hf_lease_state hf_lease_get_state(const hf_lease *lease)
{
    return state_now(lease);
}

int hf_lease_is_held(const hf_lease *lease)
{
    hf_lease_state state = state_now(lease);
    return state == HF_LEASE_HELD || state == HF_LEASE_SUSPECT;
}

int64_t hf_lease_remaining_ms(const hf_lease *lease)
{
    if (!hf_lease_is_held(lease)) {
        return 0;
    }
    if (lease->multi) {
        return hf__multi_remaining_ms(lease);
    }
    int64_t left = atomic_load(&lease->core.deadline) - hf__now();
    return left > 0 ? left / HF__MS : 0;
}

hf_loss hf_lease_loss(const hf_lease *lease)
{
    if (lease->multi) {
        return hf__multi_loss(lease);
    }
    hf_loss loss = (hf_loss)atomic_load(&lease->core.loss);
    if (loss == HF_LOSS_NONE && state_now(lease) == HF_LEASE_LOST) {
        return HF_LOSS_EXPIRED;
    }
    return loss;
}

uint64_t hf_lease_token(const hf_lease *lease)
{
    return lease->core.token;
}

const char *hf_lease_owner_id(const hf_lease *lease)
{
    return lease->owner;
}

int hf_lease_fd(hf_lease *lease, hf_error *err)
{
    hf_client *client = lease->client;
    if (hf__client_inherited(client)) {
        hf__client_usable(client, err);
        return -1;
    }
    pthread_mutex_lock(&client->mutex);
    int fd = atomic_load(&lease->fd);
    if (fd < 0) {
        fd = hf__flag_fd_open();
        atomic_store(&lease->fd, fd);
        if (fd >= 0 && atomic_load(&lease->core.state) == HF_LEASE_LOST) {
            hf__flag_fd_raise(fd);
        }
    }
    pthread_mutex_unlock(&client->mutex);
    if (fd < 0) {
        hf__error_set_retriable(err, HF_ESYSTEM,
                                "no descriptor left for the lease");
    }
    return fd;
}

/* ------------------------------------------------------------- giving back */

static hf_status unconfirmed(hf__giving *g, const char *why, hf_error *err)
{
    hf_error reason = HF_ERROR_INIT;
    int64_t left = (g->valid_for - hf__now()) / HF__MS;
    hf__error_set_retriable(&reason, HF_EUNKNOWN,
                            "the release is not confirmed (%s); it goes on in "
                            "the background, and the lease ends by itself in "
                            "%" PRId64 " ms",
                            why, left > 0 ? left : 0);
    return hf__target_error(g->lease->client, g->hold->target, err, &reason);
}

/* The server does not list the owner. Had the release been said before, and
 * within the lease's validity, then it was that which removed it. */
static hf_status not_listed(hf__giving *g, hf_error *err)
{
    if (g->repeated && hf__now() < g->valid_for) {
        return HF_OK;
    }
    /* A settling that was said after the lease had left released it. */
    if (g->hold->heard > g->sayings) {
        return HF_OK;
    }
    hf_error reason = HF_ERROR_INIT;
    hf__book_found_lost(&g->lease->core);
    hf__error_set(&reason, HF_ELOST,
                  "the lease was lost before its release: the server no "
                  "longer lists this owner");
    return hf__target_error(g->lease->client, g->hold->target, err, &reason);
}

static hf_status refused(hf__giving *g, const hf__request *request,
                         hf_error *err)
{
    hf_error reason = HF_ERROR_INIT;
    hf__request_failed(request, &reason);
    return hf__target_error(g->lease->client, g->hold->target, err, &reason);
}

/* A completed release. The client's mutex is held. HF_CANCELLED: to be said
 * again. */
static hf_status judge(hf__giving *g, const hf__request *request, hf_error *err)
{
    hf__book *book = &g->lease->client->book;
    if (request->outcome != HF__REPLIED) {
        g->repeated = g->repeated || request->outcome == HF__UNKNOWN;
        return HF_CANCELLED;
    }
    if (request->type == HF__VALUE_ERROR) {
        if (hf__refusal_of(hf__slice_of(request->text)).retriable) {
            return HF_CANCELLED;
        }
        hf__book_unsettle(book, g->hold);
        return refused(g, request, err);
    }
    bool listed = request->type == HF__VALUE_INTEGER;
    hf__book_released(book, g->hold, listed && g->hold->live > 0,
                      request->sent_at);
    return listed ? HF_OK : not_listed(g, err);
}

/* The turn is ours. */
static hf__request *fill(hf__giving *g)
{
    hf__job *job = &hf__hold_driver_of(g->hold)->command;
    hf__hold_call_release(&g->lease->client->book, g->hold, &job->call);
    hf__job_prepare(job, HF__JOB_DROPPED, g->hold);
    return &job->request;
}

/* Says the release once. The turn is ours, and stays so unless it returns
 * HF_EUNKNOWN. */
static hf_status say(hf__giving *g, hf_error *err)
{
    hf_client *client = g->lease->client;
    bool sent = g->sent;
    hf__request *request = sent ? hf__giving_request(g) : fill(g);
    g->sent = false;
    pthread_mutex_unlock(&client->mutex);
    bool completed =
        sent ? hf__link_wait(&client->commands, request, g->deadline, NULL)
             : hf__link_say(&client->commands, request, g->self, g->deadline,
                            NULL);
    pthread_mutex_lock(&client->mutex);
    if (!completed && hf__keeper_drop_command(client, g->hold)) {
        return unconfirmed(g, "the server does not answer", err);
    }
    return judge(g, request, err);
}

static hf_status say_until_heard(hf__giving *g, hf_error *err)
{
    hf_client *client = g->lease->client;
    hf_status status = HF_CANCELLED;
    for (unsigned failures = 0;; failures++) {
        status = say(g, err);
        if (status != HF_CANCELLED) {
            break;
        }
        int64_t pause = hf__now() + hf__seam_backoff(&client->seam, failures);
        if (pause >= g->deadline || atomic_load(&client->closed)) {
            hf__book_unsettle(&client->book, g->hold);
            status = unconfirmed(
                g, hf__hold_driver_of(g->hold)->command.request.text, err);
            hf__turn_give(client, g->hold);
            return status;
        }
        pthread_mutex_unlock(&client->mutex);
        while (hf__now() < pause) {
            hf__park(&g->self->parker, pause);
        }
        pthread_mutex_lock(&client->mutex);
    }
    if (status != HF_EUNKNOWN) {
        hf__turn_give(client, g->hold);
    }
    return status;
}

/* The lease has left the book: from here on no renewal counts it. */
static void begin_locked(hf__giving *g, hf_lease *lease, hf__thread *self,
                         int64_t deadline)
{
    *g = (hf__giving){.lease = lease,
                      .hold = lease->core.hold,
                      .self = self,
                      .sayings = lease->core.hold->sayings,
                      .deadline = deadline,
                      .valid_for = atomic_load(&lease->core.deadline)};
    g->hold->pins++;
}

static hf_status end_locked(hf__giving *g, hf_error *err)
{
    hf_client *client = g->lease->client;
    hf_status status = HF_OK;
    if (g->sent || hf__turn_take(client, g->hold, g->self, g->deadline, NULL)) {
        status = say_until_heard(g, err);
    } else {
        hf__book_unsettle(&client->book, g->hold);
        status = unconfirmed(g, "another command of this owner is not", err);
    }
    hf__book_unpin(&client->book, g->hold);
    hf__keeper_notice(client);
    return status;
}

static hf_status give_back_locked(hf_client *client, hf_lease *lease,
                                  hf__thread *self, hf_error *err)
{
    hf__giving g;
    begin_locked(&g, lease, self, hf__now() + client->command_timeout);
    return end_locked(&g, err);
}

static hf_status already_ended(hf_lease *lease, hf_error *err)
{
    if (atomic_load(&lease->core.state) == HF_LEASE_RELEASED) {
        return HF_OK;
    }
    return hf__error_set(err, HF_ELOST,
                         "the lease of %s was lost before its release: %s",
                         lease->owner,
                         atomic_load(&lease->core.loss) == HF_LOSS_REVOKED
                             ? "the server no longer listed it"
                             : "its time was up");
}

static hf_status give_back(hf_lease *lease, hf_error *err)
{
    hf_client *client = lease->client;
    hf__thread *self = hf__thread_self();
    if (!self) {
        return hf__error_nomem(err);
    }
    pthread_mutex_lock(&client->mutex);
    hf_status status = hf__book_leave(&client->book, &lease->core)
                           ? give_back_locked(client, lease, self, err)
                           : already_ended(lease, err);
    hf__keeper_notice(client);
    pthread_mutex_unlock(&client->mutex);
    return status;
}

void hf__giving_begin(hf__giving *g, hf_lease *lease, hf__thread *self,
                      int64_t deadline)
{
    hf_client *client = lease->client;
    *g = (hf__giving){.lease = lease};
    pthread_mutex_lock(&client->mutex);
    if (!atomic_load(&client->closed) &&
        hf__book_leave(&client->book, &lease->core)) {
        begin_locked(g, lease, self, deadline);
        if (!g->hold->busy && !g->hold->renewing) {
            g->hold->busy = true;
            g->sent = true;
            hf__link_submit(&client->commands, fill(g), self);
        }
    }
    pthread_mutex_unlock(&client->mutex);
}

hf__request *hf__giving_request(const hf__giving *g)
{
    return g->hold && g->sent ? &hf__hold_driver_of(g->hold)->command.request
                              : NULL;
}

hf_status hf__giving_end(hf__giving *g, hf_error *err)
{
    hf_client *client = g->lease->client;
    if (!g->hold) {
        hf_status usable = hf__client_usable(client, err);
        return usable == HF_OK ? already_ended(g->lease, err) : usable;
    }
    pthread_mutex_lock(&client->mutex);
    hf_status status = end_locked(g, err);
    pthread_mutex_unlock(&client->mutex);
    return status;
}

/* The latest live lease, out of the book already; NULL if there is none. */
static hf_lease *leave_latest(hf_client *client, const hf__target *target,
                              uint64_t ordinal)
{
    hf__hold *hold = hf__book_find(&client->book, target, ordinal);
    while (hold && !hf__list_empty(&hold->leases)) {
        hf__lease *core = HF__CONTAINER(hold->leases.prev, hf__lease, node);
        hf_lease *lease = HF__CONTAINER(core, hf_lease, core);
        atomic_store(&lease->giving, true); /* before it is seen released */
        if (hf__book_leave(&client->book, core)) {
            return lease;
        }
        atomic_store(&lease->giving, false);
    }
    return NULL;
}

hf_status hf__lease_give_back_latest(hf_client *client,
                                     const hf__target *target, uint64_t ordinal,
                                     hf_error *err)
{
    hf__thread *self = hf__thread_self();
    if (!self) {
        return hf__error_nomem(err);
    }
    hf_status status = HF_ENOTHELD;
    pthread_mutex_lock(&client->mutex);
    hf_lease *lease = leave_latest(client, target, ordinal);
    bool handed_out = lease && lease->handed_out;
    if (lease) {
        status = give_back_locked(client, lease, self, err);
        atomic_store(&lease->giving, false);
        pthread_cond_broadcast(&client->called);
    }
    hf__keeper_notice(client);
    pthread_mutex_unlock(&client->mutex);
    if (lease && !handed_out) {
        hf_lease_free(lease);
    }
    return status;
}

hf_status hf_lease_release(hf_lease *lease, hf_error *err)
{
    if (!lease) {
        return hf__error_set(err, HF_EINVAL, "lease is NULL");
    }
    if (lease->multi) {
        return hf__multi_give_back(lease, err);
    }
    hf_status status = hf__client_usable(lease->client, err);
    if (status != HF_OK) {
        return status;
    }
    return give_back(lease, err);
}

/* --------------------------------------------------------------------- free */

static bool called_by_keeper(const hf_client *client)
{
    return client->keeper_runs && pthread_equal(pthread_self(), client->keeper);
}

/* Leaves the book, whatever its state; the release goes on without it. */
static void let_go_locked(hf_client *client, hf_lease *lease)
{
    hf__hold *hold = lease->core.hold;
    if (!atomic_load(&client->closed) && hold &&
        hf__book_leave(&client->book, &lease->core)) {
        hf__book_unsettle(&client->book, hold);
    }
}

void hf__lease_let_go(hf_lease *lease)
{
    hf_client *client = lease->client;
    pthread_mutex_lock(&client->mutex);
    let_go_locked(client, lease);
    hf__keeper_notice(client);
    pthread_mutex_unlock(&client->mutex);
}

static void forget(hf_client *client, hf_lease *lease)
{
    pthread_mutex_lock(&client->mutex);
    let_go_locked(client, lease);
    hf__list_remove(&lease->core.node); /* told or not, it is gone */
    while (client->calling == lease && !called_by_keeper(client)) {
        pthread_cond_wait(&client->called, &client->mutex);
    }
    if (client->calling == lease) {
        client->calling = NULL;
    }
    hf__keeper_notice(client);
    pthread_mutex_unlock(&client->mutex);
}

/* The other thread's release still looks at it. */
static void await_release(hf_client *client, hf_lease *lease)
{
    pthread_mutex_lock(&client->mutex);
    while (atomic_load(&lease->giving)) {
        pthread_cond_wait(&client->called, &client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
}

void hf__lease_forget(hf_lease *lease)
{
    /* A released one is in no list, and its callback is never called. */
    if (!hf__client_inherited(lease->client) &&
        atomic_load(&lease->core.state) != HF_LEASE_RELEASED) {
        forget(lease->client, lease);
    } else if (atomic_load(&lease->giving)) {
        await_release(lease->client, lease);
    }
}

void hf__lease_dispose(hf_lease *lease)
{
    hf__close(atomic_load(&lease->fd));
    hf__client_unref(lease->client);
    free(lease);
}

void hf_lease_free(hf_lease *lease)
{
    if (lease && lease->multi) {
        hf__multi_lease_free(lease);
    } else if (lease) {
        hf__lease_forget(lease);
        hf__lease_dispose(lease);
    }
}
