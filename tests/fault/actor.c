/* See actor.h. */
#include "fault/actor.h"

#include "support/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const phase_names[PHASES] = {
    "greeting",  "reconnecting", "pinging",    "probing",
    "acquiring", "releasing",    "renewing",   "subscribing",
    "listening", "scanning",     "inspecting",
};

static void misbehave(const actor *a, rubbish_peer *peer)
{
    rubbish_text(peer, a->what->head);
    char block[4096];
    size_t piece = a->what->piece ? strlen(a->what->piece) : 0;
    size_t in_block = piece > 0 ? sizeof(block) / piece : 0;
    for (size_t i = 0; i < in_block; i++) {
        memcpy(block + i * piece, a->what->piece, piece);
    }
    for (size_t left = a->what->times; left > 0;) {
        size_t now = left < in_block ? left : in_block;
        rubbish_send(peer, block, now * piece);
        left -= now;
    }
}

static bool is_script(const rubbish_request *request)
{
    return (rubbish_is(request, "EVALSHA") || rubbish_is(request, "EVAL")) &&
           request->count >= 6;
}

static bool is_probe(const rubbish_request *request)
{
    return is_script(request) &&
           strncmp(request->arguments[4], "redisson", 8) == 0;
}

static bool is_acquire(const actor *a, const rubbish_request *request)
{
    return is_script(request) && strcmp(request->arguments[1], a->acquire) == 0;
}

static bool is_due(const actor *a, const rubbish_request *request)
{
    switch (a->at) {
    case GREETING:
    case RECONNECTING:
        return rubbish_is(request, "INFO");
    case PINGING:
        return rubbish_is(request, "PING");
    case PROBING:
        return is_probe(request);
    case ACQUIRING:
        return is_acquire(a, request);
    case RELEASING:
    case RENEWING:
        return is_script(request) && !is_probe(request) &&
               !is_acquire(a, request);
    case SUBSCRIBING:
        return rubbish_is(request, "SUBSCRIBE");
    case SCANNING:
        return rubbish_is(request, "SCAN");
    case INSPECTING:
        return rubbish_is(request, "HGETALL") || rubbish_is(request, "PTTL");
    default:
        return false;
    }
}

static void acknowledge(const actor *a, rubbish_peer *peer,
                        const rubbish_request *request)
{
    char *text = test_text("*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n",
                           request->lengths[1], request->arguments[1]);
    rubbish_text(peer, text);
    free(text);
    if (a->at == LISTENING && atomic_load(&a->nasty)) {
        misbehave(a, peer);
    }
}

static const char *script_reply(const actor *a, const rubbish_request *request)
{
    bool waits = a->at == SUBSCRIBING || a->at == LISTENING;
    if (is_probe(request)) {
        return "*0\r\n";
    }
    if (is_acquire(a, request)) {
        return waits && atomic_load(&a->nasty) ? ":60000\r\n" : "$-1\r\n";
    }
    return a->at == RENEWING ? "*1\r\n:1\r\n" : ":1\r\n";
}

void actor_behave(actor *a, rubbish_peer *peer, const rubbish_request *request)
{
    if (rubbish_is(request, "INFO")) {
        rubbish_text(peer, "$16\r\nrun_id:01234567\n\r\n");
    } else if (rubbish_is(request, "SUBSCRIBE")) {
        acknowledge(a, peer, request);
    } else if (rubbish_is(request, "PING")) {
        rubbish_text(peer, "+PONG\r\n");
    } else if (is_script(request)) {
        rubbish_text(peer, script_reply(a, request));
    } else {
        rubbish_text(peer, "*0\r\n");
    }
}

/* The first script whose second word is a number, the lease, acquires. */
static void learn_acquire(actor *a, const rubbish_request *request)
{
    if (is_script(request) && !*a->acquire && request->lengths[4] > 0 &&
        strspn(request->arguments[4], "0123456789") == request->lengths[4]) {
        (void)snprintf(a->acquire, sizeof(a->acquire), "%s",
                       request->arguments[1]);
    }
}

void actor_act(void *arg, rubbish_peer *peer, const rubbish_request *request)
{
    actor *a = arg;
    if (request->count == 0) {
        return;
    }
    learn_acquire(a, request);
    if (a->at == RECONNECTING && rubbish_is(request, "PING") &&
        atomic_load(&a->nasty)) {
        rubbish_hang_up(peer);
    } else if (atomic_load(&a->nasty) && is_due(a, request)) {
        misbehave(a, peer);
    } else {
        actor_behave(a, peer, request);
    }
}
