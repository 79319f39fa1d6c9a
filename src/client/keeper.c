/* The keeper, the one background thread of a client: sleeps until something is
 * due. It renews, settles, tells of losses, reads the subscriptions, and reads
 * the commands' link when replies are due that no caller waits for. It never
 * blocks but in its own poll. */
#include "client/client_int.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH_MAX 100 /* Redisson's lockWatchdogBatchSize */

/* Renewals that travel in one script. */
typedef struct batch {
    hf__job job;
    size_t count;
    hf__hold *holds[BATCH_MAX];
    hf__renewal renewals[BATCH_MAX];
    char digits[BATCH_MAX][24];
    hf__slice args[3 * BATCH_MAX];
} batch;

/* ------------------------------------------------------------------- waking */

void hf__keeper_wake(hf_client *client)
{
    if (client->keeper_runs && pthread_equal(pthread_self(), client->keeper)) {
        return; /* it looks once more before it sleeps */
    }
    if (!atomic_exchange(&client->woken, true)) {
        hf__waker_wake(&client->waker);
    }
}

static int64_t next_due(const hf_client *client)
{
    const hf__heap_item *first = hf__heap_first(&client->waiters.due);
    int64_t due = hf__book_next(&client->book);
    if (first && first->due < due) {
        due = first->due;
    }
    if (!hf__list_empty(&client->book.lost)) {
        due = 0;
    }
    return due < client->close_by ? due : client->close_by;
}

void hf__keeper_notice(hf_client *client)
{
    int64_t due = next_due(client);
    if (due < client->sleep_until) {
        client->sleep_until = due;
        client->noticed = due < client->noticed ? due : client->noticed;
        hf__keeper_wake(client);
    }
}

/* --------------------------------------------------------------------- jobs */

void hf__job_prepare(hf__job *job, hf__job_what what, void *subject)
{
    job->what = what;
    job->subject = subject;
    job->request.call = &job->call;
    job->request.on_array = NULL;
    job->request.same_server = false;
    job->request.in_full = false;
}

void hf__hold_call_release(const hf__book *book, hf__hold *hold, hf__call *call)
{
    hf__asker asker = hf__hold_asker(hold);
    hf__book_say(book, hold);
    hold->target->kind->release(call, &asker, (int64_t)hold->said,
                                hold->said_lease / HF__MS);
}

static void settle(hf_client *client, hf__hold *hold, bool in_full)
{
    hf__job *job = &hf__hold_driver_of(hold)->settle;
    hf__hold_call_release(&client->book, hold, &job->call);
    hf__job_prepare(job, HF__JOB_SETTLE, hold);
    job->request.in_full = in_full;
    hold->pins++;
    hf__link_submit(&client->commands, &job->request, NULL);
}

void hf__keeper_settle(hf_client *client, hf__hold *hold)
{
    settle(client, hold, false);
}

bool hf__keeper_drop_command(hf_client *client, hf__hold *hold)
{
    hf__job *command = &hf__hold_driver_of(hold)->command;
    if (hf__link_abandon(&client->commands, &command->request)) {
        return false;
    }
    hold->pins++; /* until the command is completed */
    hf__book_unsettle(&client->book, hold);
    hf__keeper_settle(client, hold);
    return true;
}

/* It need not be said again: it was heard, or refused with an error that will
 * not pass by itself; then the lease's end remains. */
static bool settle_is_final(const hf__request *request)
{
    return request->outcome == HF__REPLIED &&
           (request->type != HF__VALUE_ERROR ||
            !hf__refusal_of(hf__slice_of(request->text)).retriable);
}

bool hf__settle_heard(hf_client *client, hf__hold *hold,
                      const hf__request *request)
{
    bool final = settle_is_final(request);
    if (final && request->type == HF__VALUE_ERROR) {
        hf__book_settle_refused(&client->book, hold);
    } else {
        hf__book_settled(&client->book, hold, final,
                         request->type == HF__VALUE_INTEGER);
    }
    return final;
}

static void settled(hf_client *client, hf__job *job)
{
    hf__hold *hold = job->subject;
    hf__turn_give(client, hold);
    (void)hf__settle_heard(client, hold, &job->request);
    hf__book_unpin(&client->book, hold);
}

static void renewed(hf_client *client, batch *b)
{
    const hf__request *request = &b->job.request;
    bool answered =
        request->outcome == HF__REPLIED && request->type == HF__VALUE_ARRAY;
    for (size_t i = 0; i < b->count; i++) {
        if (!answered) {
            b->renewals[i].found = -1;
        }
        hf__book_renewed(&client->book, b->holds[i], &b->renewals[i],
                         request->sent_at);
        hf__turn_offer(b->holds[i]);
    }
    free(b);
}

static void wake_waiter(hf__waiter *waiter)
{
    hf__unpark(&HF__CONTAINER(waiter, hf__contender, waiter)->thread->parker);
}

/* Wakes all that can have it together, and one of the others. */
static void wake_sharing(hf__channel *channel)
{
    unsigned others = 0;
    hf__waiter *waiter = NULL;
    while ((waiter = hf__channel_wake_sharing(channel, &others)) != NULL) {
        wake_waiter(waiter);
    }
}

/* Wakes the first parked waiter of a channel, but for its thread, which is
 * returned, to be unparked after the mutex, which it wants at once. */
static hf__thread *wake_first(hf__channel *channel)
{
    hf__waiter *waiter = hf__channel_wake(channel);
    if (!waiter) {
        return NULL;
    }
    hf__contender *contender = HF__CONTAINER(waiter, hf__contender, waiter);
    hf__contender_hasten(contender);
    return contender->thread;
}

static void wake_everyone(const hf__channel *channel)
{
    for (hf__list *n = channel->waiters.next; n != &channel->waiters;
         n = n->next) {
        wake_waiter(HF__CONTAINER(n, hf__waiter, node));
    }
}

static void subscribed(hf__channel *channel, const hf__request *request)
{
    if (request->outcome == HF__REPLIED && request->type == HF__VALUE_ARRAY) {
        channel->state = HF__CHANNEL_ACTIVE;
    } else {
        channel->state = HF__CHANNEL_SILENT;
    }
    wake_everyone(channel);
}

static void unsubscribed(hf_client *client, hf__channel *channel)
{
    hf__channel_driver *driver = channel->driver;
    driver->unsubscribing = false;
    if (channel->state == HF__CHANNEL_SILENT &&
        hf__list_empty(&channel->waiters)) {
        hf__waiters_drop(&client->waiters, channel);
    }
}

static void handle(hf_client *client, hf__job *job)
{
    switch (job->what) {
    case HF__JOB_DROPPED:
        hf__book_unpin(&client->book, job->subject);
        break;
    case HF__JOB_FORGOTTEN:
        free(job);
        break;
    case HF__JOB_SETTLE:
        settled(client, job);
        break;
    case HF__JOB_RENEW:
        renewed(client, job->subject);
        break;
    case HF__JOB_SUBSCRIBE:
        subscribed(job->subject, &job->request);
        break;
    case HF__JOB_UNSUBSCRIBE:
        unsubscribed(client, job->subject);
        break;
    }
}

static void handle_done(hf_client *client, hf__link *link)
{
    hf__request *request = NULL;
    while ((request = hf__link_take_done(link)) != NULL) {
        handle(client, HF__CONTAINER(request, hf__job, request));
    }
}

/* ----------------------------------------------------------------- renewing */

static void take_found(hf__request *request, const hf__value *array)
{
    hf__job *job = HF__CONTAINER(request, hf__job, request);
    batch *b = job->subject;
    const hf__value *value = array->first;
    for (size_t i = 0; i < b->count; i++) {
        b->renewals[i].found = value && value->type == HF__VALUE_INTEGER
                                   ? (int)value->integer
                                   : -1;
        value = value ? value->next : NULL;
    }
}

static batch *batch_new(void)
{
    batch *b = malloc(sizeof(*b));
    if (b) {
        b->count = 0;
        hf__job_prepare(&b->job, HF__JOB_RENEW, b);
        b->job.request.on_array = take_found;
    }
    return b;
}

static void batch_add(const hf_client *client, batch *b, hf__hold *hold)
{
    size_t i = b->count++;
    b->holds[i] = hold;
    b->renewals[i] =
        (hf__renewal){.asked = hf__book_lease_to_renew(&client->book, hold),
                      .standing = hold->standing};
    snprintf(b->digits[i], sizeof(b->digits[i]), "%" PRId64,
             b->renewals[i].asked / HF__MS);
}

static void batch_send(hf_client *client, batch *b)
{
    hf__call *call = &b->job.call;
    hf__call_begin(call, b->holds[0]->target->kind->renew);
    for (size_t i = 0; i < b->count; i++) {
        const hf__hold *hold = b->holds[i];
        b->args[i] = hold->target->name;
        hf__slice *pair = &b->args[b->count + 2 * i];
        pair[0] = hf__slice_of(b->digits[i]);
        pair[1] = (hf__slice){hold->owner, hold->owner_length};
    }
    call->args = b->args;
    call->count = 3 * b->count;
    call->keys = b->count;
    hf__link_submit(&client->commands, &b->job.request, NULL);
}

static bool fits(const batch *b, const hf__hold *hold)
{
    return b->count < BATCH_MAX &&
           (b->count == 0 ||
            b->holds[0]->target->kind->renew == hold->target->kind->renew);
}

static void renew(hf_client *client, hf__hold *hold, batch **open)
{
    if (*open && !fits(*open, hold)) {
        batch_send(client, *open);
        *open = NULL;
    }
    if (!*open) {
        *open = batch_new();
    }
    if (*open) {
        batch_add(client, *open, hold);
    } else {
        const hf__renewal failed = {.standing = hold->standing, .found = -1};
        hf__book_renewed(&client->book, hold, &failed, 0);
    }
}

static void do_due_holds(hf_client *client)
{
    batch *open = NULL;
    hf__hold *hold = NULL;
    hf__due due = HF__DUE_NOTHING;
    while ((due = hf__book_due(&client->book, &hold)) != HF__DUE_NOTHING) {
        if (due == HF__DUE_SETTLE) {
            hf__keeper_settle(client, hold);
        } else {
            renew(client, hold, &open);
        }
    }
    if (open) {
        batch_send(client, open);
    }
}

void hf__keeper_settle_due(hf_client *client)
{
    hf__hold *hold = NULL;
    for (hold = client->book.holds; hold; hold = hold->hh.next) {
        if (hold->unsettled && !hold->busy) {
            hold->busy = true;
            settle(client, hold, true);
        }
    }
}

/* ------------------------------------------------------------ subscriptions */

static void channel_call(hf__job *job, const char *command,
                         hf__channel *channel)
{
    hf__call_begin(&job->call, NULL);
    hf__call_add(&job->call, hf__slice_of(command));
    hf__call_add(&job->call, channel->name);
}

void hf__keeper_subscribe(hf_client *client, hf__channel *channel)
{
    hf__job *job = &((hf__channel_driver *)channel->driver)->subscribe;
    channel->state = HF__CHANNEL_ASKED;
    hf__job_prepare(job, HF__JOB_SUBSCRIBE, channel);
    channel_call(job, "SUBSCRIBE", channel);
    hf__link_submit(&client->messages, &job->request, NULL);
}

static void unsubscribe(hf_client *client, hf__channel *channel)
{
    hf__channel_driver *driver = channel->driver;
    hf__job *job = &driver->unsubscribe;
    bool active = channel->state == HF__CHANNEL_ACTIVE;
    channel->linger_until = HF__NEVER;
    if (channel->state == HF__CHANNEL_ASKED || driver->unsubscribing) {
        channel->linger_until = hf__now() + client->waiters.linger;
        hf__channel_arm(&client->waiters, channel);
        return;
    }
    channel->state = HF__CHANNEL_SILENT;
    if (!active) {
        hf__waiters_drop(&client->waiters, channel);
        return;
    }
    driver->unsubscribing = true;
    hf__job_prepare(job, HF__JOB_UNSUBSCRIBE, channel);
    channel_call(job, "UNSUBSCRIBE", channel);
    hf__link_submit(&client->messages, &job->request, NULL);
}

static void on_message(void *ctx, hf__slice name, hf__slice payload)
{
    hf_client *client = ctx;
    pthread_mutex_lock(&client->mutex);
    hf__channel *channel =
        hf__waiters_channel(&client->waiters, NULL, name, false);
    hf__wake wake = channel ? channel->kind->wake(payload) : HF__WAKE_NONE;
    hf__thread *thread = NULL;
    if (wake == HF__WAKE_ONE) {
        thread = wake_first(channel);
        if (!thread) {
            hf__channel_mark_trying(channel, false);
        }
    } else if (wake == HF__WAKE_ALL) {
        hf__channel_mark_trying(channel, true);
        wake_sharing(channel);
    }
    pthread_mutex_unlock(&client->mutex);
    if (thread) {
        hf__unpark(&thread->parker);
    }
}

/* One asks for all, unless they ask for different things. */
static void wake_by_time(hf__channel *channel)
{
    if (channel->shared) {
        wake_sharing(channel);
        return;
    }
    hf__thread *thread = wake_first(channel);
    if (thread) {
        hf__unpark(&thread->parker);
    }
}

static void do_due_channels(hf_client *client)
{
    int64_t now = hf__now();
    hf__channel *channel = NULL;
    while ((channel = hf__waiters_due(&client->waiters, now)) != NULL) {
        if (channel->poll_at <= now) {
            channel->poll_at = HF__NEVER;
            wake_by_time(channel);
        }
        if (channel->linger_until <= now) {
            unsubscribe(client, channel);
        } else {
            hf__channel_arm(&client->waiters, channel);
        }
    }
}

/* The connection that carried the messages is gone: nobody knows what was
 * missed, so every waiter looks for itself, and subscribes again. */
static void lose_subscriptions(hf_client *client)
{
    hf__channel *channel = NULL;
    hf__channel *next = NULL;
    HASH_ITER(hh, client->waiters.channels, channel, next)
    {
        if (channel->state != HF__CHANNEL_ACTIVE) {
            continue;
        }
        channel->state = HF__CHANNEL_SILENT;
        hf__channel_mark_trying(channel, true);
        hf__waiter *waiter = NULL;
        while ((waiter = hf__channel_wake(channel)) != NULL) {
            wake_waiter(waiter);
        }
    }
}

/* --------------------------------------------------------------- the server */

void hf__keeper_note_restart(hf_client *client)
{
    unsigned restarts = atomic_load(&client->commands.restarts);
    if (restarts != client->restarts_seen) {
        client->restarts_seen = restarts;
        hf__book_restarted(&client->book);
    }
}

void hf__keeper_note_connections(hf_client *client)
{
    unsigned connects = atomic_load(&client->commands.connects);
    unsigned breaks = atomic_load(&client->commands.breaks);
    unsigned message_breaks = atomic_load(&client->messages.breaks);
    hf__keeper_note_restart(client);
    if (connects != client->connects_seen || breaks != client->breaks_seen) {
        client->connects_seen = connects;
        client->breaks_seen = breaks;
        hf__book_check_all(&client->book);
    }
    if (message_breaks != client->message_breaks_seen) {
        client->message_breaks_seen = message_breaks;
        lose_subscriptions(client);
    }
}

/* ------------------------------------------------------------------- losses */

static void tell(hf_client *client, hf_lease *lease)
{
    int fd = atomic_load(&lease->fd);
    hf_loss why = (hf_loss)atomic_load(&lease->core.loss);
    client->calling = lease;
    pthread_mutex_unlock(&client->mutex);
    if (fd >= 0) {
        hf__flag_fd_raise(fd);
    }
    hf__log_line(&client->log, HF_LOG_WARNING, "lease of %s lost: %s",
                 lease->owner,
                 why == HF_LOSS_REVOKED    ? "the server no longer lists it"
                 : why == HF_LOSS_MAX_HOLD ? "its longest hold has passed"
                                           : "it has ended");
    if (lease->on_lost) {
        lease->on_lost(lease->on_lost_arg, lease, why);
    }
    pthread_mutex_lock(&client->mutex);
    bool ours = client->calling == lease && !lease->handed_out;
    client->calling = NULL;
    pthread_cond_broadcast(&client->called);
    if (ours) {
        pthread_mutex_unlock(&client->mutex);
        hf_lease_free(lease);
        pthread_mutex_lock(&client->mutex);
    }
}

static void tell_losses(hf_client *client)
{
    hf__list *node = NULL;
    while ((node = hf__list_pop(&client->book.lost)) != NULL) {
        hf__lease *core = HF__CONTAINER(node, hf__lease, node);
        tell(client, HF__CONTAINER(core, hf_lease, core));
    }
}

/* ----------------------------------------------------------------- the loop */

static bool may_end(const hf_client *client)
{
    if (client->close_by == HF__NEVER) {
        return false;
    }
    const hf__hold *hold = NULL;
    for (hold = client->book.holds; hold; hold = hold->hh.next) {
        if (hold->unsettled && hf__now() < client->close_by) {
            return false;
        }
    }
    return true;
}

/* Everything that can be done at once. Returns when to look again; -1 when the
 * keeper shall end. */
static int64_t work(hf_client *client)
{
    pthread_mutex_lock(&client->mutex);
    hf__keeper_note_connections(client);
    handle_done(client, &client->commands);
    handle_done(client, &client->messages);
    do_due_holds(client);
    do_due_channels(client);
    tell_losses(client);
    if (client->noticed <= hf__now()) {
        client->noticed = HF__NEVER;
    }
    int64_t until = next_due(client);
    until = client->noticed < until ? client->noticed : until;
    /* What the keeper sends itself may fail at once. */
    if (hf__link_has_done(&client->commands) ||
        hf__link_has_done(&client->messages)) {
        until = 0;
    }
    client->sleep_until = until;
    if (may_end(client)) {
        until = -1;
    }
    pthread_mutex_unlock(&client->mutex);
    return until;
}

/* Sleeps until something is due or some descriptor has something. */
static void sleep_and_pump(hf_client *client, int64_t until)
{
    bool reads_commands = false;
    bool reads_messages = false;
    int64_t due[2];
    struct pollfd fds[4] = {
        {.fd = client->waker.event_fd, .events = POLLIN},
        {.fd = client->waker.timer_fd, .events = POLLIN},
    };
    fds[2].events = hf__link_poll(&client->commands, false, &fds[2].fd, &due[0],
                                  &reads_commands);
    fds[3].events = hf__link_poll(&client->messages, true, &fds[3].fd, &due[1],
                                  &reads_messages);
    /* Should the server go away while nobody reads, holders want to know. */
    fds[2].events |= POLLRDHUP;
    for (int i = 0; i < 2; i++) {
        until = due[i] < until ? due[i] : until;
    }
    if (until > 0) {
        hf__waker_arm(&client->waker, until);
        hf__poll(fds, 4, HF__NEVER);
    }
    if (fds[0].revents || fds[1].revents) {
        hf__waker_drain(&client->waker);
    }
    atomic_store(&client->woken, false);
    if (!reads_commands && (fds[2].revents & (POLLRDHUP | POLLHUP | POLLERR))) {
        int64_t ignored = 0;
        hf__link_poll(&client->commands, true, &fds[2].fd, &ignored,
                      &reads_commands);
    }
    hf__link_pump(&client->commands, reads_commands);
    hf__link_pump(&client->messages, reads_messages);
}

static void *keep(void *arg)
{
    hf_client *client = arg;
    pthread_mutex_lock(&client->mutex); /* until keeper_start has returned */
    pthread_mutex_unlock(&client->mutex);
    int64_t until = 0;
    while ((until = work(client)) >= 0) {
        sleep_and_pump(client, until);
    }
    return NULL;
}

void hf__keeper_drain(hf_client *client)
{
    hf__list *node = NULL;
    pthread_mutex_lock(&client->mutex);
    handle_done(client, &client->commands);
    handle_done(client, &client->messages);
    /* Nobody is told of what is lost by closing. */
    while ((node = hf__list_pop(&client->book.lost)) != NULL) {
        hf__lease *core = HF__CONTAINER(node, hf__lease, node);
        hf_lease *lease = HF__CONTAINER(core, hf_lease, core);
        if (!lease->handed_out) {
            hf__lease_drop(lease);
        }
    }
    pthread_mutex_unlock(&client->mutex);
}

static void wake_keeper(void *ctx)
{
    hf__keeper_wake(ctx);
}

hf_status hf__keeper_start(hf_client *client, hf_error *err)
{
    sigset_t all;
    sigset_t before;
    const hf__link_hooks hooks = {
        .ctx = client, .wake_keeper = wake_keeper, .on_message = on_message};
    client->messages.hooks = hooks;
    client->commands.hooks = hooks;
    client->commands.hooks.on_message = NULL;
    /* The program's signals are the program's threads'. */
    sigfillset(&all);
    pthread_mutex_lock(&client->mutex);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&client->keeper, NULL, keep, client);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    client->keeper_runs = error == 0;
    pthread_mutex_unlock(&client->mutex);
    if (error != 0) {
        return hf__error_set_retriable(err, HF_ESYSTEM,
                                       "cannot start the background thread: %s",
                                       strerror(error));
    }
    return HF_OK;
}

void hf__keeper_stop(hf_client *client, int64_t close_by)
{
    pthread_mutex_lock(&client->mutex);
    client->close_by = close_by;
    client->sleep_until = 0;
    pthread_mutex_unlock(&client->mutex);
    hf__keeper_wake(client);
    pthread_join(client->keeper, NULL);
    client->keeper_runs = false;
}
