/* Makes a history by a script: three owners and one accident, which always
 * comes at the same place. What comes of it is not looked at here but is left
 * to the checkers.
 *
 *     history_script FILE SCRIPT
 *
 *     forced     the reply to a forced release is lost, and the next holder
 *                has the lock before that is noticed
 *     resent     the same, and then it is said again
 *     restarted  the server is restarted with nothing in its memory, while
 *                the lock is held
 *     trusted    the same, by clients that have no quarantine */
#include "history/history.h"
#include "holdfast/holdfast.h"
#include "support/locks.h"
#include "support/net.h"
#include "support/proxy.h"
#include "support/server.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_MS 3600000 /* nothing ends by itself */

/* A client with one owner: the thread. */
typedef struct party {
    unsigned number;
    hf_client *client;
    hf_lock *lock;
    hf_lease *lease;
    unsigned lease_number;
} party;

typedef struct stage {
    srv *server;
    proxy *net; /* the meddler's */
    party holder;
    party next;
    party meddler;
} stage;

static const char name[] = "a";

static history_actor actor_of(const party *who)
{
    return (history_actor){who->number, name};
}

/* ---- what they do */

static unsigned begin(const party *who, const char *what)
{
    unsigned operation = history_next_operation();
    history_line(history_now(), actor_of(who), operation, "%s", what);
    return operation;
}

static void end_unknown(const party *who, unsigned operation, hf_status status)
{
    history_line(history_now(), actor_of(who), operation, "unknown %d", status);
}

/* One try. */
static void acquire(party *who)
{
    hf_error err = HF_ERROR_INIT;
    unsigned operation = begin(who, "acquire 0 0");
    hf_status status = hf_lock_acquire(who->lock, 0, &who->lease, &err);
    int64_t after = history_now();
    if (status == HF_OK) {
        who->lease_number = history_next_lease();
        history_line(after, actor_of(who), operation, "granted " LEASE_FORMAT,
                     LEASE_WORDS(who->lease_number));
    } else if (status == HF_NOT_ACQUIRED) {
        history_line(after, actor_of(who), operation, "refused 0");
    } else {
        end_unknown(who, operation, status);
    }
}

static void observe(const party *who)
{
    int64_t before = history_now();
    if (who->lease && hf_lease_is_held(who->lease)) {
        history_line(before, actor_of(who), 0, "held " LEASE_FORMAT " %" PRId64,
                     LEASE_WORDS(who->lease_number),
                     hf_lease_remaining_ms(who->lease));
    }
}

static void count(const party *who)
{
    hf_error err = HF_ERROR_INIT;
    int64_t holds = 0;
    unsigned operation = begin(who, "count");
    hf_status status = hf_lock_hold_count(who->lock, NULL, &holds, &err);
    if (status == HF_OK) {
        history_line(history_now(), actor_of(who), operation,
                     "counted %" PRId64, holds);
    } else {
        end_unknown(who, operation, status);
    }
}

static void *force(void *arg)
{
    party *who = arg;
    hf_error err = HF_ERROR_INIT;
    int released = 0;
    unsigned operation = begin(who, "force");
    hf_status status = hf_lock_force_release(who->lock, &released, &err);
    if (status == HF_OK) {
        history_line(history_now(), actor_of(who), operation, "forced %d",
                     released ? 1 : 0);
    } else {
        end_unknown(who, operation, status);
    }
    return NULL;
}

static void release(party *who)
{
    hf_error err = HF_ERROR_INIT;
    if (!who->lease) {
        return;
    }
    unsigned operation = history_next_operation();
    history_line(history_now(), actor_of(who), operation,
                 "release " LEASE_FORMAT, LEASE_WORDS(who->lease_number));
    hf_status status = hf_lease_release(who->lease, &err);
    const char *how = status == HF_OK      ? "released"
                      : status == HF_ELOST ? "lost"
                                           : "unknown";
    char code[16] = "";
    if (status != HF_OK && status != HF_ELOST) {
        (void)snprintf(code, sizeof(code), " %d", status);
    }
    history_line(history_now(), actor_of(who), operation,
                 "%s " LEASE_FORMAT "%s", how, LEASE_WORDS(who->lease_number),
                 code);
    hf_lease_free(who->lease);
    who->lease = NULL;
}

/* ---- the accidents */

/* Is executed, and its caller does not hear of it. */
static void lose_the_reply(stage *on, bool again)
{
    force(&on->meddler); /* that of a free lock; its script is known now */
    acquire(&on->holder);
    observe(&on->holder);
    size_t before = proxy_counts(on->net).dropped[PROXY_TO_CLIENT];
    proxy_set(on->net, PROXY_TO_CLIENT, PROXY_DROP_NEXT);
    pthread_t thread = test_thread(force, &on->meddler);
    must(proxy_wait_dropped(on->net, PROXY_TO_CLIENT, before + 1));
    acquire(&on->next);
    observe(&on->next);
    proxy_reset(on->net); /* a new connection is made, and works */
    test_join(thread);
    if (again) {
        hf_error err = HF_ERROR_INIT;
        must_be(HF_OK, hf_lock_force_release(on->meddler.lock, NULL, &err));
    }
}

static void restart(stage *on)
{
    acquire(&on->holder);
    observe(&on->holder);
    unsigned operation = history_next_operation();
    history_line(history_now(), HISTORY_NO_LOCK, operation, "restart");
    srv_restart(on->server);
    history_line(history_now(), HISTORY_NO_LOCK, operation, "restarted");
    acquire(&on->next);
    observe(&on->next);
}

/* What has come of it. */
static void look(stage *on)
{
    count(&on->next);
    count(&on->holder);
    acquire(&on->meddler);
    observe(&on->meddler);
    release(&on->holder);
    release(&on->next);
    release(&on->meddler);
}

/* ---- before and after */

static party enter(const char *url, unsigned number, int64_t quarantine_ms)
{
    hf_client_options options = test_watchdog(LEASE_MS);
    options.restart_quarantine_ms = quarantine_ms;
    party who = {.number = number, .client = test_client(url, &options)};
    who.lock = test_lock(who.client, name);
    return who;
}

static void leave(party *who)
{
    hf_lock_free(who->lock);
    hf_client_free(who->client);
}

int main(int argc, char **argv)
{
    stage on = {0};
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis 0.14 raises it */
    if (argc != 3) {
        test_die("history_script: 2 arguments are expected");
    }
    const char *script = argv[2];
    int64_t quarantine_ms = strcmp(script, "trusted") == 0 ? -1 : 0;
    history_open(argv[1], 0);
    history_note("lease %d", LEASE_MS);
    on.server = srv_start(NULL);
    on.net = proxy_start(srv_socket(on.server));
    on.holder = enter(srv_url(on.server), 1, quarantine_ms);
    on.next = enter(srv_url(on.server), 2, quarantine_ms);
    on.meddler = enter(proxy_url(on.net), 3, quarantine_ms);
    history_line(history_now(), HISTORY_NO_LOCK, 0, "connected");
    if (strcmp(script, "forced") == 0 || strcmp(script, "resent") == 0) {
        lose_the_reply(&on, strcmp(script, "resent") == 0);
    } else {
        restart(&on);
    }
    look(&on);
    leave(&on.holder);
    leave(&on.next);
    leave(&on.meddler);
    proxy_stop(on.net);
    srv_stop(on.server);
    return 0;
}
