/* The blocking driver of the acquisition machine: carries out what the
 * machine asks for in the calling thread, and tells it what came of it. */
#include "client/attempt.h"

/* ----------------------------------------------------------------- events */

static void event(hf__attempt *at, hf__acquire_event what)
{
    at->input = (hf__acquire_input){.event = what};
}

/* The reason is copied into the machine before the request is used again. */
static void failure_event(hf__attempt *at, hf__acquire_event what,
                          const hf__request *request)
{
    event(at, what);
    at->input.text = hf__slice_of(request->text);
    if (request->outcome == HF__REPLIED) {
        at->input.status = HF_ESERVER;
        at->input.retriable = true;
    } else {
        at->input.status = request->failure;
        at->input.retriable = hf__failure_passes(request->failure);
    }
}

static void interrupted_event(hf__attempt *at)
{
    bool cancelled = at->stop && atomic_load(at->stop);
    event(at, cancelled ? HF__EV_CANCEL : HF__EV_TIME_UP);
}

static void reply_event(hf__attempt *at, const hf__request *request)
{
    hf__outcome outcome = request->outcome;
    switch (outcome) {
    case HF__REPLIED:
        event(at, HF__EV_GRANTED_OR_NOT);
        at->input.reply = (hf__reply){.type = request->type,
                                      .integer = request->integer,
                                      .text = hf__slice_of(request->text)};
        break;
    case HF__OUTDATED:
        event(at, HF__EV_OUTDATED);
        break;
    case HF__NOT_SENT:
        failure_event(at, HF__EV_NOT_SENT, request);
        break;
    default:
        failure_event(at, HF__EV_UNKNOWN, request);
        break;
    }
}

/* --------------------------------------------------------------- settling */

/* True if the server has the known count. The turn is the caller's. */
static bool settle_now(hf__attempt *at)
{
    hf_client *client = at->client;
    hf__job *job = &hf__hold_driver_of(at->hold)->settle;
    hf__hold_call_release(&client->book, at->hold, &job->call);
    hf__job_prepare(job, HF__JOB_SETTLE, at->hold);
    at->hold->pins++;
    pthread_mutex_unlock(&client->mutex);
    bool completed = hf__link_say(&client->commands, &job->request, at->self,
                                  at->reply_by, at->stop) ||
                     hf__link_abandon(&client->commands, &job->request);
    pthread_mutex_lock(&client->mutex);
    if (!completed) {
        /* The keeper hears of it, unpins, and gives the turn back. */
        at->has_turn = false;
        interrupted_event(at);
        return false;
    }
    at->hold->pins--;
    bool final = hf__settle_heard(client, at->hold, &job->request);
    hf__keeper_notice(client); /* leases may have been lost by it */
    if (!final) {
        failure_event(at, HF__EV_NOT_SETTLED, &job->request);
    }
    return final;
}

static bool take_turn(hf__attempt *at)
{
    at->has_turn =
        hf__turn_take(at->client, at->hold, at->self, at->reply_by, at->stop);
    if (!at->has_turn) {
        interrupted_event(at);
    }
    return at->has_turn;
}

static void do_settle(hf__attempt *at)
{
    hf_client *client = at->client;
    hf__book_unsettle(&client->book, at->hold);
    if (take_turn(at) && settle_now(at)) {
        event(at, HF__EV_SETTLED);
    }
    pthread_mutex_unlock(&client->mutex);
}

/* ---------------------------------------------------------------- sending */

/* Nobody waits for this acquire any more, and the server may yet execute it. */
static void abandon(hf__attempt *at)
{
    hf_client *client = at->client;
    pthread_mutex_lock(&client->mutex);
    if (hf__keeper_drop_command(client, at->hold)) {
        at->has_turn = false;
        interrupted_event(at);
        at->input.in_flight = true;
    } else {
        reply_event(at, &hf__hold_driver_of(at->hold)->command.request);
    }
    pthread_mutex_unlock(&client->mutex);
}

/* Fills the hold's command. The turn is taken, the server's count is what is
 * known, and the client's mutex is held. */
static hf__request *make_acquire(hf__attempt *at)
{
    hf_client *client = at->client;
    hf__hold *hold = at->hold;
    hf__job *job = &hf__hold_driver_of(hold)->command;
    hold->wish = at->wish;
    hf__asker asker = hf__hold_asker(hold);
    asker.again = hf__book_live(&client->book, hold) > 0;
    hf__keeper_notice(client); /* some may have ended */
    at->machine.again = asker.again;
    at->asked = hf__book_lease_to_ask(&client->book, hold, &at->terms);
    at->machine.lease = at->asked;
    at->machine.last_token = at->target->last_token;
    at->target->kind->acquire(&job->call, &asker, at->asked / HF__MS);
    hf__job_prepare(job, HF__JOB_DROPPED, hold);
    job->request.same_server = true;
    job->request.restarts = at->restarts; /* settling may have found one */
    return &job->request;
}

static void take_reply(hf__attempt *at, const hf__request *request,
                       bool completed)
{
    at->machine.sent_at = request->sent_at;
    if (completed) {
        reply_event(at, request);
    } else {
        abandon(at);
    }
}

/* The keeper has sent it already. */
static void await_hastened(hf__attempt *at)
{
    hf__link *link = &at->client->commands;
    hf__request *request = &hf__hold_driver_of(at->hold)->command.request;
    at->hastened = false;
    at->stepped = false;
    pthread_mutex_unlock(&at->client->mutex);
    take_reply(at, request,
               hf__link_wait(link, request, at->reply_by, at->stop));
}

static void do_send(hf__attempt *at)
{
    hf_client *client = at->client;
    if (at->hastened) {
        await_hastened(at);
        return;
    }
    hf__waiter_try(&at->contender.waiter);
    if (!take_turn(at) || (at->hold->unsettled && !settle_now(at))) {
        pthread_mutex_unlock(&client->mutex);
        return;
    }
    hf__request *request = make_acquire(at);
    pthread_mutex_unlock(&client->mutex);
    take_reply(at, request,
               hf__link_say(&client->commands, request, at->self, at->reply_by,
                            at->stop));
}

/* ---------------------------------------------------------------- waiting */

/* The channel of the target, or of this owner at the target. */
static hf__slice channel_name(hf__attempt *at)
{
    hf__buf *own = &at->channel;
    if (!at->target->kind->channel_of_owner) {
        return at->target->channel;
    }
    if (own->length == 0) {
        hf__buf_init(own, HF_NAME_MAX + 256);
        hf__buf_append(own, at->target->channel.data,
                       at->target->channel.length);
        hf__buf_append(own, ":", 1);
        hf__buf_append(own, at->hold->owner, at->hold->owner_length);
    }
    return own->failed ? (hf__slice){NULL, 0}
                       : (hf__slice){own->data, own->length};
}

static hf__channel *find_channel(hf__attempt *at, bool make)
{
    hf__slice name = channel_name(at);
    return name.length == 0 ? NULL
                            : hf__waiters_channel(&at->client->waiters,
                                                  at->target->kind, name, make);
}

/* Joins the channel's waiters; listening if messages come in already. */
static void join(hf__attempt *at, bool subscribe)
{
    hf_client *client = at->client;
    hf__waiter *waiter = &at->contender.waiter;
    hf__channel *channel = waiter->channel;
    if (waiter->state == HF__WAITER_OUT) {
        channel = find_channel(at, subscribe);
        if (channel && (subscribe || channel->state == HF__CHANNEL_ACTIVE)) {
            hf__waiter_join(&client->waiters, channel, waiter);
            /* A try that was under way may be older than the subscription,
             * and its answer older than a message that was missed. */
            waiter->again = !subscribe && at->machine.tries > 0;
        }
    }
    at->machine.listening = waiter->state != HF__WAITER_OUT && channel &&
                            channel->state == HF__CHANNEL_ACTIVE;
}

/* `why` must outlive the machine's next step. */
static void not_subscribed(hf__attempt *at, hf_status status, const char *why)
{
    event(at, HF__EV_NOT_SUBSCRIBED);
    at->input.status = status;
    at->input.text = hf__slice_of(why);
    at->input.retriable = true;
}

/* Once; nothing is logged under the mutex, which is given up here. */
static void warn_of_polling(hf__attempt *at)
{
    char name[HF__QUOTE_SIZE];
    pthread_mutex_unlock(&at->client->mutex);
    if (at->input.event == HF__EV_NOT_SUBSCRIBED && !at->told_polling) {
        at->told_polling = true;
        hf__log_line(&at->client->log, HF_LOG_WARNING,
                     "lock %s on %s: its messages cannot be had (is the "
                     "channel allowed to the user?): asking again and again",
                     hf__quote(name, sizeof(name), at->target->name.data,
                               at->target->name.length),
                     at->client->endpoint.display);
    }
}

static void do_subscribe(hf__attempt *at)
{
    hf_client *client = at->client;
    join(at, true);
    hf__channel *channel = at->contender.waiter.channel;
    if (!channel) {
        not_subscribed(at, HF_ENOMEM, "out of memory");
        warn_of_polling(at);
        return;
    }
    if (channel->state == HF__CHANNEL_SILENT) {
        hf__keeper_subscribe(client, channel);
    }
    int64_t until = at->machine.deadline;
    while (channel->state == HF__CHANNEL_ASKED &&
           !(at->stop && atomic_load(at->stop)) && hf__now() < until) {
        pthread_mutex_unlock(&client->mutex);
        hf__park(&at->self->parker, until);
        pthread_mutex_lock(&client->mutex);
    }
    if (channel->state == HF__CHANNEL_ACTIVE) {
        event(at, HF__EV_SUBSCRIBED);
    } else if (channel->state == HF__CHANNEL_SILENT) {
        not_subscribed(at, HF_EUNREACHABLE, "messages cannot be had");
    } else {
        interrupted_event(at);
    }
    warn_of_polling(at);
}

/* Once; nothing is logged under the mutex. */
static void warn_of_endless(hf__attempt *at)
{
    char name[HF__QUOTE_SIZE];
    if (!at->machine.endless || at->told_endless) {
        return;
    }
    at->told_endless = true;
    pthread_mutex_unlock(&at->client->mutex);
    hf__log_line(&at->client->log, HF_LOG_WARNING,
                 "lock %s on %s is held without an end (its key has no "
                 "time to live): asking for it again and again",
                 hf__quote(name, sizeof(name), at->target->name.data,
                           at->target->name.length),
                 at->client->endpoint.display);
    pthread_mutex_lock(&at->client->mutex);
}

static void do_park(hf__attempt *at)
{
    hf_client *client = at->client;
    hf__waiter *waiter = &at->contender.waiter;
    int64_t until = at->machine.park_until;
    bool shared = at->machine.shared;
    event(at, HF__EV_WOKEN);
    warn_of_endless(at);
    if (shared &&
        (waiter->channel->state != HF__CHANNEL_ACTIVE ||
         !hf__waiter_park(&client->waiters, waiter, at->machine.poll_at))) {
        pthread_mutex_unlock(&client->mutex);
        return;
    }
    hf__keeper_notice(client);
    while (!(at->stop && atomic_load(at->stop)) && hf__now() < until &&
           (!shared || waiter->state == HF__WAITER_PARKED)) {
        pthread_mutex_unlock(&client->mutex);
        hf__park(&at->self->parker, until);
        pthread_mutex_lock(&client->mutex);
    }
    if (waiter->state == HF__WAITER_PARKED) {
        hf__waiter_try(waiter); /* woken by itself: a message is too late */
    }
    pthread_mutex_unlock(&client->mutex);
    if (!at->stepped && at->stop && atomic_load(at->stop)) {
        event(at, HF__EV_CANCEL);
    }
}

/* ------------------------------------------------------------- the machine */

/* What the machine looks at. Client's mutex held. */
static void look_around(hf__attempt *at)
{
    hf_client *client = at->client;
    hf__keeper_note_restart(client);
    at->restarts = client->restarts_seen;
    /* What is not held by anyone is not held by anyone of before. */
    at->machine.not_before =
        at->target->kind->leaseless ? 0 : client->book.quarantined_until;
    join(at, false);
}

void hf__attempt_leave(hf__attempt *at)
{
    hf_client *client = at->client;
    hf__waiter *next = NULL;
    if (at->contender.waiter.state != HF__WAITER_OUT) {
        int64_t now = hf__now();
        bool granted = at->machine.status == HF_OK;
        /* Its last try may not have been executed: let another try. */
        at->contender.waiter.again |= !granted;
        next = hf__waiter_leave(&client->waiters, &at->contender.waiter, now,
                                granted ? now + at->asked + HF__MS : HF__NEVER);
    }
    if (next) {
        hf__unpark(&HF__CONTAINER(next, hf__contender, waiter)->thread->parker);
    }
    if (at->channel.data) {
        hf__buf_free(&at->channel);
    }
    hf__book_unpin(&client->book, at->hold);
    hf__keeper_notice(client);
}

/* A grant that adds to what this owner has by a lock of another kind would be
 * two holds here and one on the server: it is taken back. */
static void refuse_kin(hf__attempt *at)
{
    hf__acquire *machine = &at->machine;
    if (machine->status == HF_OK && machine->count > 1 && at->hold->live == 0 &&
        hf__book_settle_kin(&at->client->book, at->hold)) {
        machine->status = HF_EHELD;
        hf__error_set(&machine->error, HF_EHELD,
                      "this owner holds it by a lock of another kind");
    }
}

static void give_turn(hf__attempt *at, hf__acquire_action action,
                      hf_lease *lease)
{
    hf_client *client = at->client;
    if (action == HF__ACT_DONE) {
        refuse_kin(at);
    }
    bool granted = action == HF__ACT_DONE && at->machine.status == HF_OK;
    if (granted && !at->target->kind->leaseless) {
        const hf__grant grant = {.sent_at = at->machine.sent_at,
                                 .asked = at->asked,
                                 .token = at->machine.token,
                                 .count = at->machine.count};
        hf__book_granted(&client->book, at->hold, &lease->core, &at->terms,
                         &grant);
    } else if (at->machine.maybe_applied) {
        hf__book_unsettle(&client->book, at->hold);
    }
    hf__turn_give(client, at->hold);
    at->has_turn = false;
}

static hf__acquire_action step(hf__attempt *at, hf_lease *lease)
{
    if (at->hastened) {
        return HF__ACT_SEND;
    }
    look_around(at);
    hf__acquire_action action =
        at->stepped ? at->action : hf__acquire_step(&at->machine, &at->input);
    at->stepped = false;
    if (at->machine.gone) {
        at->machine.gone = false;
        hf__book_forgotten(&at->client->book, at->hold, at->machine.sent_at);
        hf__keeper_notice(at->client);
    }
    if (at->has_turn) {
        give_turn(at, action, lease);
    }
    if (action == HF__ACT_DONE) {
        if (at->machine.maybe_applied) {
            hf__book_unsettle(&at->client->book, at->hold);
        }
        hf__attempt_leave(at);
    } else if (action != HF__ACT_SEND) {
        hf__keeper_notice(at->client);
    }
    return action;
}

void hf__contender_hasten(hf__contender *contender)
{
    hf__attempt *at = HF__CONTAINER(contender, hf__attempt, contender);
    hf_client *client = at->client;
    look_around(at);
    if (at->hold->busy || at->hold->renewing || at->hold->unsettled ||
        at->machine.maybe_applied || hf__now() >= at->machine.deadline ||
        hf__now() < at->machine.not_before) {
        return;
    }
    event(at, HF__EV_WOKEN);
    at->action = hf__acquire_step(&at->machine, &at->input);
    at->stepped = true;
    if (at->action != HF__ACT_SEND) {
        return; /* the deadline was just about to pass: the thread's to do */
    }
    hf__waiter_try(&contender->waiter);
    at->hold->busy = true;
    at->has_turn = true;
    at->hastened = true;
    hf__link_submit(&client->commands, make_acquire(at), at->self);
}

/* Each of the actions begins with the client's mutex held, and gives it up. */
void hf__attempt_run(hf__attempt *at, hf_lease *lease)
{
    hf__acquire_action action = HF__ACT_SEND;
    event(at, HF__EV_START);
    while (action != HF__ACT_DONE) {
        action = step(at, lease);
        switch (action) {
        case HF__ACT_SEND:
            do_send(at);
            break;
        case HF__ACT_SETTLE:
            do_settle(at);
            break;
        case HF__ACT_SUBSCRIBE:
            do_subscribe(at);
            break;
        case HF__ACT_PARK:
            do_park(at);
            break;
        case HF__ACT_DONE:
            return;
        }
        pthread_mutex_lock(&at->client->mutex);
    }
}
