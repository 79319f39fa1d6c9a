/* Several leases as one. Each member is a lease like any other, known to its
 * client's book and renewed by its keeper; this is what the program sees. */
#include "client/multi.h"

#include <stdlib.h>

/* How long one server's reply is waited for before another's is looked at. */
#define SLICE (50 * HF__MS)

hf__multi_lease *hf__multi_lease_new(const hf_lock *lock, uint64_t ordinal,
                                     const hf_acquire_options *options,
                                     bool handed_out)
{
    size_t count = lock->multi->count;
    hf__multi_lease *whole =
        calloc(1, sizeof(*whole) + count * sizeof(whole->parts[0]));
    if (whole) {
        whole->lease.client = hf__client_ref(lock->client);
        whole->lease.on_lost = options->on_lost;
        whole->lease.on_lost_arg = options->on_lost_arg;
        whole->lease.fd = -1;
        whole->lease.handed_out = handed_out;
        whole->lease.multi = whole;
        whole->multi = hf__multi_ref(lock->multi);
        whole->ordinal = ordinal;
        hf__list_init(&whole->lease.core.node);
        hf__list_init(&whole->node);
    }
    return whole;
}

static bool move_on(hf__multi_lease *whole, hf__phase from, hf__phase to)
{
    int expected = (int)from;
    return atomic_compare_exchange_strong(&whole->phase, &expected, (int)to);
}

/* ------------------------------------------------------------ local answers */

/* Whoever has not all of them has nothing. */
static int severity(hf_lease_state state)
{
    switch (state) {
    case HF_LEASE_HELD:
        return 0;
    case HF_LEASE_SUSPECT:
        return 1;
    case HF_LEASE_RELEASED:
        return 2;
    default:
        return 3;
    }
}

hf_lease_state hf__multi_state(const hf_lease *lease)
{
    const hf__multi_lease *whole = lease->multi;
    hf_lease_state worst = HF_LEASE_HELD;
    for (size_t i = 0; i < whole->multi->count; i++) {
        hf_lease_state state = hf_lease_get_state(whole->parts[i].lease);
        worst = severity(state) > severity(worst) ? state : worst;
    }
    return worst;
}

int64_t hf__multi_remaining_ms(const hf_lease *lease)
{
    const hf__multi_lease *whole = lease->multi;
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < whole->multi->count; i++) {
        int64_t left = hf_lease_remaining_ms(whole->parts[i].lease);
        least = left < least ? left : least;
    }
    return least;
}

hf_loss hf__multi_loss(const hf_lease *lease)
{
    const hf__multi_lease *whole = lease->multi;
    hf_loss loss = (hf_loss)atomic_load(&lease->core.loss);
    for (size_t i = 0; i < whole->multi->count && loss == HF_LOSS_NONE; i++) {
        loss = hf_lease_loss(whole->parts[i].lease);
    }
    return loss;
}

uint64_t hf_multi_token(const hf_lease *lease, size_t index)
{
    const hf__multi_lease *whole = lease ? lease->multi : NULL;
    if (!whole) {
        return lease && index == 0 ? lease->core.token : 0;
    }
    for (size_t i = 0; i < whole->multi->count; i++) {
        if (whole->multi->members[i].place == index) {
            return hf_lease_token(whole->parts[i].lease);
        }
    }
    return 0;
}

/* --------------------------------------------------------------- publishing */

static bool lasts(const hf__multi_lease *whole, int64_t least)
{
    int64_t until = hf__now() + least;
    for (size_t i = 0; i < whole->multi->count; i++) {
        const hf_lease *part = whole->parts[i].lease;
        if (!hf_lease_is_held(part) || part->core.limit < until) {
            return false;
        }
    }
    return true;
}

static void copy_owner(hf__multi_lease *whole)
{
    for (size_t i = 0; i < whole->multi->count; i++) {
        if (whole->multi->members[i].place == 0) {
            memcpy(whole->lease.owner, whole->parts[i].lease->owner,
                   sizeof(whole->lease.owner));
        }
    }
}

/* True if it was in its client's list: whoever takes a lease without a handle
 * out of that, frees it. */
static bool take_out(hf__multi_lease *whole)
{
    hf_client *client = whole->lease.client;
    pthread_mutex_lock(&client->mutex);
    bool listed = !hf__list_empty(&whole->node);
    hf__list_remove(&whole->node);
    pthread_mutex_unlock(&client->mutex);
    return listed;
}

bool hf__multi_publish(hf__multi_lease *whole, int64_t least)
{
    hf_client *client = whole->lease.client;
    if (!lasts(whole, least)) {
        return false;
    }
    copy_owner(whole);
    atomic_store(&whole->lease.core.state, HF_LEASE_HELD);
    pthread_mutex_lock(&client->mutex);
    hf__list_append(&client->multis, &whole->node);
    pthread_mutex_unlock(&client->mutex);
    if (move_on(whole, HF__FORMING, HF__OPEN)) {
        return true;
    }
    (void)take_out(whole);
    return false;
}

/* ------------------------------------------------------------------- losing */

static void tell(hf__multi_lease *whole, hf_loss why)
{
    hf_lease *lease = &whole->lease;
    bool handed_out = lease->handed_out;
    atomic_store(&lease->core.loss, (int)why);
    atomic_store(&lease->core.state, HF_LEASE_LOST);
    int fd = atomic_load(&lease->fd);
    if (fd >= 0) {
        hf__flag_fd_raise(fd);
    }
    if (lease->on_lost) {
        lease->on_lost(lease->on_lost_arg, lease, why);
    }
    /* One with a handle may be gone by now. */
    if (!handed_out && take_out(whole)) {
        hf__multi_lease_free(lease);
    }
}

/* Runs on the keeper of the member's client. Two members may be lost at once:
 * one of them tells, and the other does not wait for it. */
void hf__multi_lost(void *arg, hf_lease *member, hf_loss why)
{
    hf__multi_lease *whole = arg;
    if (move_on(whole, HF__FORMING, HF__BROKEN) ||
        !move_on(whole, HF__OPEN, HF__TOLD)) {
        return;
    }
    for (size_t i = 0; i < whole->multi->count; i++) {
        if (whole->parts[i].lease != member) {
            hf__lease_let_go(whole->parts[i].lease);
        }
    }
    tell(whole, why);
}

/* -------------------------------------------------------------- giving back */

bool hf__multi_hear(const hf__multi *multi, hf_client *client,
                    hf__request *request, int64_t by, const atomic_bool *stop)
{
    int64_t slice = hf__now() + SLICE;
    int64_t until = multi->one_client || by < slice ? by : slice;
    return hf__link_wait(&client->commands, request, until, stop);
}

/* The last in the order first: who waits for the first of them, as those who
 * want the same ones do, finds the others free when it is woken. */
static void begin_all(hf__multi_lease *whole, hf__thread *self, int64_t by)
{
    for (size_t i = whole->multi->count; i-- > 0;) {
        hf__part *part = &whole->parts[i];
        part->giving.lease = NULL;
        if (part->lease) {
            int64_t latest = hf__now() + part->lease->client->command_timeout;
            hf__giving_begin(&part->giving, part->lease, self,
                             by < latest ? by : latest);
        }
    }
}

static void hear_all(hf__multi_lease *whole)
{
    for (bool due = true; due;) {
        due = false;
        for (size_t i = 0; i < whole->multi->count; i++) {
            hf__giving *g = &whole->parts[i].giving;
            hf__request *request = g->lease ? hf__giving_request(g) : NULL;
            if (request &&
                !hf__multi_hear(whole->multi, g->lease->client, request,
                                g->deadline, NULL) &&
                hf__now() < g->deadline) {
                due = true;
            }
        }
    }
}

/* A lost lease is the worst that there is to be told, for others may have acted
 * as well; a release that goes on in the background is the least. */
static int gravity(hf_status status)
{
    switch (status) {
    case HF_OK:
        return 0;
    case HF_EUNKNOWN:
        return 1;
    case HF_ELOST:
        return 3;
    default:
        return 2;
    }
}

static void worsen(hf_status *worst, hf_status status, hf_error *err,
                   const hf_error *why)
{
    if (gravity(status) > gravity(*worst)) {
        *worst = status;
        hf__error_copy(err, why);
    }
}

/* Those that were sent first: while another's turn is waited for, none is
 * kept. */
static hf_status end_all(hf__multi_lease *whole, hf_error *err)
{
    hf_status worst = HF_OK;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < whole->multi->count; i++) {
            hf__giving *g = &whole->parts[i].giving;
            if (!g->lease || (pass == 0 && !hf__giving_request(g))) {
                continue;
            }
            hf_error why = HF_ERROR_INIT;
            hf_status status = hf__giving_end(g, &why);
            g->lease = NULL;
            worsen(&worst, status, err, &why);
        }
    }
    return worst;
}

static hf_status give_back(hf__multi_lease *whole, int64_t by, hf_error *err)
{
    hf__thread *self = hf__thread_self();
    if (!self) {
        return hf__error_nomem(err);
    }
    begin_all(whole, self, by);
    hear_all(whole);
    return end_all(whole, err);
}

void hf__multi_undo(hf__multi_lease *whole, int64_t by)
{
    (void)give_back(whole, by, NULL);
    for (size_t i = 0; i < whole->multi->count; i++) {
        hf_lease_free(whole->parts[i].lease);
        whole->parts[i].lease = NULL;
    }
    atomic_store(&whole->phase, HF__FORMING);
}

/* Somebody else gives it back, or one was lost: what remains to be said is a
 * matter of each member by itself. */
static hf_status give_back_each(hf__multi_lease *whole, hf_error *err)
{
    hf_status worst = HF_OK;
    for (size_t i = whole->multi->count; i-- > 0;) {
        hf_error why = HF_ERROR_INIT;
        hf_status status = hf_lease_release(whole->parts[i].lease, &why);
        worsen(&worst, status, err, &why);
    }
    return worst;
}

/* Its keeper has it still to tell. */
static bool any_lost(const hf__multi_lease *whole)
{
    for (size_t i = 0; i < whole->multi->count; i++) {
        if (!hf_lease_is_held(whole->parts[i].lease)) {
            return true;
        }
    }
    return false;
}

hf_status hf__multi_give_back(hf_lease *lease, hf_error *err)
{
    hf__multi_lease *whole = lease->multi;
    if (hf__client_inherited(lease->client)) {
        return hf__client_usable(lease->client, err);
    }
    return !any_lost(whole) && move_on(whole, HF__OPEN, HF__ENDED)
               ? give_back(whole, HF__NEVER, err)
               : give_back_each(whole, err);
}

/* ------------------------------------------------- by its locks and its owner
 */

static bool any_held(const hf__multi_lease *whole)
{
    for (size_t i = 0; i < whole->multi->count; i++) {
        if (hf_lease_is_held(whole->parts[i].lease)) {
            return true;
        }
    }
    return false;
}

/* Out of the list and marked as being given back; NULL if there is none. */
static hf__multi_lease *leave_latest(const hf_lock *lock, uint64_t ordinal)
{
    hf__multi_lease *found = NULL;
    hf__list *all = &lock->client->multis;
    pthread_mutex_lock(&lock->client->mutex);
    for (hf__list *n = all->prev; n != all && !found; n = n->prev) {
        hf__multi_lease *whole = HF__CONTAINER(n, hf__multi_lease, node);
        if (whole->ordinal == ordinal &&
            atomic_load(&whole->phase) == HF__OPEN &&
            hf__multi_equal(whole->multi, lock->multi) && any_held(whole) &&
            move_on(whole, HF__OPEN, HF__ENDED)) {
            found = whole;
        }
    }
    if (found) {
        atomic_store(&found->lease.giving, true);
        hf__list_remove(&found->node);
    }
    pthread_mutex_unlock(&lock->client->mutex);
    return found;
}

hf_status hf__multi_give_back_latest(const hf_lock *lock, uint64_t ordinal,
                                     hf_error *err)
{
    hf_client *client = lock->client;
    hf__multi_lease *whole = leave_latest(lock, ordinal);
    if (!whole) {
        return HF_ENOTHELD;
    }
    bool handed_out = whole->lease.handed_out;
    hf_status status = give_back(whole, HF__NEVER, err);
    pthread_mutex_lock(&client->mutex);
    atomic_store(&whole->lease.giving, false);
    pthread_cond_broadcast(&client->called);
    pthread_mutex_unlock(&client->mutex);
    if (!handed_out) {
        hf__multi_lease_free(&whole->lease);
    }
    return status;
}

/* ------------------------------------------------------------------- freeing
 */

/* Takes it from everybody who could come across it. */
static void withdraw(hf__multi_lease *whole)
{
    hf_client *client = whole->lease.client;
    (void)move_on(whole, HF__OPEN, HF__ENDED);
    pthread_mutex_lock(&client->mutex);
    hf__list_remove(&whole->node);
    while (atomic_load(&whole->lease.giving)) {
        pthread_cond_wait(&client->called, &client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
}

/* A loss that is being told looks at all of them: none is freed before all are
 * forgotten. */
void hf__multi_lease_free(hf_lease *lease)
{
    hf__multi_lease *whole = lease->multi;
    if (!hf__client_inherited(lease->client)) {
        withdraw(whole);
    }
    for (size_t i = 0; i < whole->multi->count; i++) {
        if (whole->parts[i].lease) {
            hf__lease_forget(whole->parts[i].lease);
        }
    }
    for (size_t i = 0; i < whole->multi->count; i++) {
        if (whole->parts[i].lease) {
            hf__lease_dispose(whole->parts[i].lease);
        }
    }
    hf__multi_unref(whole->multi);
    hf__lease_dispose(lease);
}

static hf__multi_lease *pop_unhandled(hf_client *client)
{
    hf__multi_lease *found = NULL;
    pthread_mutex_lock(&client->mutex);
    for (hf__list *n = client->multis.next; n != &client->multis && !found;
         n = n->next) {
        hf__multi_lease *whole = HF__CONTAINER(n, hf__multi_lease, node);
        found = whole->lease.handed_out ? NULL : whole;
    }
    if (found) {
        hf__list_remove(&found->node);
    }
    pthread_mutex_unlock(&client->mutex);
    return found;
}

void hf__multi_close(hf_client *client)
{
    hf__multi_lease *whole = NULL;
    while ((whole = pop_unhandled(client)) != NULL) {
        hf__multi_lease_free(&whole->lease);
    }
}
