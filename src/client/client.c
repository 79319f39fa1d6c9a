/* Opening and closing a client, and what all of its calls share. */
#include "client/client_int.h"
#include "client/multi.h"

#include "redis/embedded.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Open clients of the process, for its exit. */
static pthread_mutex_t open_clients_mutex = PTHREAD_MUTEX_INITIALIZER;
static hf__list open_clients = {&open_clients, &open_clients};

/* ------------------------------------------------------------------- options
 */

typedef struct range {
    const char *name;
    int64_t value;
    int64_t usual; /* in place of 0 */
    int64_t min;
    int64_t max;
} range;

static hf_status check_range(range *r, hf_error *err)
{
    if (r->value == 0) {
        r->value = r->usual;
    }
    if (r->value < r->min || r->value > r->max) {
        return hf__error_set(err, HF_ECONFIG,
                             "%s %" PRId64 " is not from %" PRId64
                             " to %" PRId64,
                             r->name, r->value, r->min, r->max);
    }
    return HF_OK;
}

#define MINUTES_MS (INT64_C(60) * 1000)

static hf_status apply_options(hf_client *client,
                               const hf_client_options *options, hf_error *err)
{
    range connect = {"connect_timeout_ms", options->connect_timeout_ms, 3000, 1,
                     60 * MINUTES_MS};
    range command = {"command_timeout_ms", options->command_timeout_ms, 3000, 1,
                     60 * MINUTES_MS};
    range watchdog = {"watchdog_lease_ms", options->watchdog_lease_ms, 30000,
                      HF_LEASE_MIN_MS, HF_LEASE_MAX_MS};
    range poll = {"poll_cap_ms", options->poll_cap_ms, 5000, 10,
                  60 * MINUTES_MS};
    range linger = {"subscription_linger_ms", options->subscription_linger_ms,
                    2000, 1, 60 * MINUTES_MS};
    range quarantine = {"restart_quarantine_ms", options->restart_quarantine_ms,
                        0, -1, HF_LEASE_MAX_MS};
    range *all[] = {&connect, &command, &watchdog, &poll, &linger, &quarantine};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (check_range(all[i], err) != HF_OK) {
            return HF_ECONFIG;
        }
    }
    client->command_timeout = command.value * HF__MS;
    hf__link *links[] = {&client->commands, &client->messages};
    for (size_t i = 0; i < 2; i++) {
        links[i]->command_timeout = command.value * HF__MS;
        links[i]->connect_timeout = connect.value * HF__MS;
    }
    client->poll_cap = poll.value * HF__MS;
    client->log = (hf__log){options->log, options->log_arg, options->log_level};
    client->book.watchdog = watchdog.value * HF__MS;
    client->book.longest = client->book.watchdog;
    client->book.quarantine =
        quarantine.value < 0 ? quarantine.value : quarantine.value * HF__MS;
    client->waiters.linger = linger.value * HF__MS;
    client->waiters.poll_cap = client->poll_cap;
    return HF_OK;
}

static hf_status copy_options(const hf_client_options *given,
                              hf_client_options *options, hf_error *err)
{
    *options = (hf_client_options)HF_CLIENT_OPTIONS_INIT;
    if (!given) {
        return HF_OK;
    }
    return hf__options_copy(options, sizeof(*options), given,
                            given->struct_size, err);
}

hf_status hf__options_copy(void *to, size_t size, const void *given,
                           size_t given_size, hf_error *err)
{
    const char *bytes = given;
    if (given_size < sizeof(given_size)) {
        return hf__error_set(err, HF_EINVAL,
                             "struct_size is not set: begin with the "
                             "options' _INIT macro");
    }
    for (size_t i = size; i < given_size; i++) {
        if (bytes[i] != 0) {
            return hf__error_set(err, HF_EINVAL,
                                 "these options are of a newer holdfast than "
                                 "this library");
        }
    }
    memcpy(to, given, given_size < size ? given_size : size);
    return HF_OK;
}

/* ------------------------------------------------------------------- opening
 */

static int64_t seam_now(void *ctx)
{
    (void)ctx;
    return hf__now();
}

/* xorshift64*: jitter needs no secret. Not synchronised on purpose: a lost
 * update is as random as another. */
static uint64_t seam_random(void *ctx)
{
    static _Atomic uint64_t state;
    uint64_t x = atomic_load_explicit(&state, memory_order_relaxed);
    (void)ctx;
    if (x == 0 && hf__random(&x, sizeof(x), NULL) != HF_OK) {
        x = (uint64_t)hf__now() | 1;
    }
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    atomic_store_explicit(&state, x, memory_order_relaxed);
    return x * UINT64_C(2685821657736338717);
}

/* RFC 9562, version 4: Redisson's clients have such ids too. */
static hf_status make_uuid(char out[37], hf_error *err)
{
    unsigned char b[16];
    hf_status status = hf__random(b, sizeof(b), err);
    if (status != HF_OK) {
        return status;
    }
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    char *at = out;
    for (int i = 0; i < 16; i++) {
        at += snprintf(at, 4,
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                       b[i]);
    }
    return HF_OK;
}

static hf_status find_server(hf_client *client, const char *url,
                             const hf_client_options *options, hf_error *err)
{
    const char *from = url ? url : getenv("HOLDFAST_URL");
    if (!url && (!from || !*from)) {
        from = getenv("REDIS_URL");
    }
    hf_status status = url || (from && *from)
                           ? hf__endpoint_parse(from, &client->endpoint, err)
                           : hf__embedded_ensure(&client->endpoint, err);
    if (status != HF_OK) {
        return status;
    }
    return hf__endpoint_set_login(&client->endpoint, options->username,
                                  options->password, err);
}

/* Whatever cannot fail, so that a client that is half open can be freed. */
static hf_status init_parts(hf_client *client, hf_error *err)
{
    static const hf__link_hooks none;
    client->refs = 1;
    client->close_by = HF__NEVER;
    client->noticed = HF__NEVER;
    client->generation = hf__fork_generation();
    client->seam = (hf__seam){.now = seam_now, .random = seam_random};
    client->waker = (hf__waker){.event_fd = -1, .timer_fd = -1};
    hf__list_init(&client->siblings);
    hf__list_init(&client->multis);
    hf__book_init(&client->book, &client->seam, 0, 0, sizeof(hf__hold_driver));
    hf__waiters_init(&client->waiters, sizeof(hf__channel_driver), 0, 0);
    pthread_mutex_init(&client->mutex, NULL);
    pthread_cond_init(&client->called, NULL);
    hf_status status =
        hf__link_init(&client->commands, &client->endpoint, &none, 0, 0, err);
    if (status == HF_OK) {
        status = hf__link_init(&client->messages, &client->endpoint, &none, 0,
                               0, err);
    }
    return status;
}

/* A server that refuses even a PING, but only for now (it is loading, its disk
 * is full), is there: whoever waits for a lock may wait for that, too. */
static hf_status greet(hf_client *client, hf_error *err)
{
    hf_status status = hf_client_ping(client, err);
    bool only_for_now = status == HF_ESERVER && hf_error_is_retriable(err);
    return only_for_now ? HF_OK : status;
}

static hf_status start(hf_client *client, const char *url,
                       const hf_client_options *options, hf_error *err)
{
    hf_status status = apply_options(client, options, err);
    if (status == HF_OK) {
        status = make_uuid(client->book.uuid, err);
    }
    if (status == HF_OK) {
        status = find_server(client, url, options, err);
    }
    if (status == HF_OK) {
        status = hf__link_resolve(&client->commands, err);
    }
    if (status == HF_OK) {
        status = hf__link_resolve(&client->messages, err);
    }
    if (status == HF_OK) {
        status = hf__waker_open(&client->waker, err);
    }
    if (status == HF_OK) {
        status = hf__keeper_start(client, err);
    }
    if (status == HF_OK) {
        status = greet(client, err);
    }
    if (status == HF_OK) {
        pthread_mutex_lock(&client->mutex);
        hf__keeper_note_connections(client);
        pthread_mutex_unlock(&client->mutex);
    }
    return status;
}

static void remember_open(hf_client *client)
{
    pthread_mutex_lock(&open_clients_mutex);
    hf__list_append(&open_clients, &client->siblings);
    pthread_mutex_unlock(&open_clients_mutex);
}

hf_client *hf_client_open(const char *url, const hf_client_options *given,
                          hf_error *err)
{
    hf_client_options options;
    if (copy_options(given, &options, err) != HF_OK ||
        hf__fork_watch(err) != HF_OK) {
        return NULL;
    }
    hf_client *client = calloc(1, sizeof(*client));
    if (!client) {
        hf__error_nomem(err);
        return NULL;
    }
    hf_error why = HF_ERROR_INIT;
    client->opening = true;
    if (init_parts(client, &why) != HF_OK) {
        hf__error_copy(err, &why);
        free(client);
        return NULL;
    }
    if (start(client, url, &options, &why) != HF_OK) {
        hf__error_copy(err, &why);
        hf_client_free(client);
        return NULL;
    }
    client->opening = false;
    remember_open(client);
    return client;
}

/* ------------------------------------------------------------------- closing
 */

hf_client *hf__client_ref(hf_client *client)
{
    atomic_fetch_add(&client->refs, 1);
    return client;
}

void hf__client_unref(hf_client *client)
{
    if (atomic_fetch_sub(&client->refs, 1) != 1) {
        return;
    }
    pthread_mutex_destroy(&client->mutex);
    pthread_cond_destroy(&client->called);
    hf__endpoint_free(&client->endpoint);
    free(client);
}

void hf__lease_drop(hf_lease *lease)
{
    atomic_fetch_sub(&lease->client->refs, 1);
    free(lease);
}

/* In a child the parent's threads are gone, perhaps in the middle of a
 * change: nothing of the client may be looked at but its descriptors. */
static void forget(hf_client *client)
{
    hf__link_forget(&client->commands);
    hf__link_forget(&client->messages);
    hf__waker_close(&client->waker);
}

/* Takes a hold's leases out, those without a handle onto `dropped`. */
static void leave_hold(hf_client *client, hf__hold *hold, hf__list *dropped)
{
    while (!hf__list_empty(&hold->leases)) {
        hf__lease *core = HF__CONTAINER(hold->leases.prev, hf__lease, node);
        if (!hf__book_leave(&client->book, core)) {
            continue; /* lost just now, and in the list of those */
        }
        hf__book_unsettle(&client->book, hold);
        if (!HF__CONTAINER(core, hf_lease, core)->handed_out) {
            hf__list_append(dropped, &core->node);
        }
    }
}

/* All live leases are given back, in one go. `of`: only those of the thread
 * with that ordinal; 0 for all. */
static void leave_all(hf_client *client, uint64_t of)
{
    hf__list dropped;
    hf__list_init(&dropped);
    for (hf__hold *hold = client->book.holds; hold; hold = hold->hh.next) {
        if (of == 0 || hold->key.ordinal == of) {
            leave_hold(client, hold, &dropped);
        }
    }
    hf__list *node = NULL;
    while ((node = hf__list_pop(&dropped)) != NULL) {
        hf__lease *core = HF__CONTAINER(node, hf__lease, node);
        hf__lease_drop(HF__CONTAINER(core, hf_lease, core));
    }
}

static void forget_siblings(hf_client *client)
{
    pthread_mutex_lock(&open_clients_mutex);
    hf__list_remove(&client->siblings);
    pthread_mutex_unlock(&open_clients_mutex);
}

static void shut(hf_client *client)
{
    pthread_mutex_lock(&client->mutex);
    leave_all(client, 0);
    pthread_mutex_unlock(&client->mutex);
    if (client->keeper_runs) {
        hf__keeper_stop(client, hf__now() + client->command_timeout);
    }
    atomic_store(&client->closed, true);
    hf__link_close(&client->commands);
    hf__link_close(&client->messages);
}

void hf_client_free(hf_client *client)
{
    if (!client) {
        return;
    }
    if (hf__client_inherited(client)) {
        forget(client);
        return;
    }
    forget_siblings(client);
    shut(client);
    hf__keeper_drain(client);
    hf__multi_close(client);
    hf__link_destroy(&client->commands);
    hf__link_destroy(&client->messages);
    hf__waker_close(&client->waker);
    hf__book_free(&client->book);
    hf__waiters_free(&client->waiters);
    hf__client_unref(client);
}

/* ------------------------------------------------------------------ at exit */

/* The thread that ends the process is past its critical sections: what it
 * holds itself is given back. What other threads and explicit owners hold may
 * still be acted upon, and ends with its lease. */
__attribute__((destructor)) static void give_back_at_exit(void)
{
    hf__thread *self = hf__thread_self();
    if (!self || pthread_mutex_trylock(&open_clients_mutex) != 0) {
        return;
    }
    for (hf__list *n = open_clients.next; n != &open_clients; n = n->next) {
        hf_client *client = HF__CONTAINER(n, hf_client, siblings);
        if (hf__client_inherited(client) ||
            pthread_mutex_trylock(&client->mutex) != 0) {
            continue;
        }
        leave_all(client, self->ordinal);
        hf__keeper_settle_due(client);
        pthread_mutex_unlock(&client->mutex);
    }
    pthread_mutex_unlock(&open_clients_mutex);
}

/* ---------------------------------------------------------- for every call */

bool hf__client_inherited(const hf_client *client)
{
    return client->generation != hf__fork_generation();
}

hf_status hf__client_usable(const hf_client *client, hf_error *err)
{
    if (!client) {
        return hf__error_set(err, HF_EINVAL, "client is NULL");
    }
    if (hf__client_inherited(client)) {
        return hf__error_set(err, HF_EFORKED,
                             "this handle is the parent process's: open a "
                             "client of your own after fork");
    }
    if (atomic_load(&client->closed)) {
        return hf__error_set(err, HF_ECLOSED, "the client is closed");
    }
    return HF_OK;
}

const char *hf_client_server(const hf_client *client)
{
    return client->endpoint.display;
}

hf_status hf_client_ping(hf_client *client, hf_error *err)
{
    hf__call call;
    hf__answer answer;
    hf_status status = hf__client_usable(client, err);
    if (status != HF_OK) {
        return status;
    }
    hf__call_begin(&call, NULL);
    hf__call_add(&call, HF__LITERAL("PING"));
    return hf__client_ask(client, &call, &answer, HF__NEVER, NULL, err);
}

hf_status hf__target_error(const hf_client *client, const hf__target *target,
                           hf_error *err, const hf_error *why)
{
    char name[HF__QUOTE_SIZE];
    hf_status status = hf_error_status(why);
    hf__quote(name, sizeof(name), target->name.data, target->name.length);
    if (hf_error_is_retriable(why)) {
        return hf__error_set_retriable(
            err, status, "%s %s on %s: %s", target->kind->noun, name,
            client->endpoint.display, hf_error_text(why));
    }
    return hf__error_set(err, status, "%s %s on %s: %s", target->kind->noun,
                         name, client->endpoint.display, hf_error_text(why));
}
