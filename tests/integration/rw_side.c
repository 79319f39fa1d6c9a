/* See rw_side.h. */
#include "integration/rw_side.h"

#include "support/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- an owner's sides */

side reader(const char *name, const char *own)
{
    return (side){.kind = &hf__kind_read, .name = name, .own = own};
}

side writer(const char *name, const char *own)
{
    return (side){.kind = &hf__kind_write, .name = name, .own = own};
}

side polite(const char *name, const char *own)
{
    side s = reader(name, own);
    s.wish.prefer_writers = true;
    return s;
}

side waiting(const char *name, const char *own)
{
    side s = writer(name, own);
    s.wish.wait_ms = -1;
    return s;
}

side entered(side s)
{
    s.again = true;
    return s;
}

/* What the book says to a kind's table. */
typedef struct talk {
    hf__buf channel;
    hf__buf mark;
    hf__buf owner;
    hf__asker asker;
    hf__call call;
} talk;

static hf__slice slice_of(const hf__buf *buf)
{
    return (hf__slice){buf->data, buf->length};
}

static void talk_begin(talk *t, const side *s)
{
    const char *suffix = s->kind->owner_suffix ? s->kind->owner_suffix : "";
    hf__buf_init(&t->channel, 256);
    hf__buf_init(&t->mark, 256);
    hf__buf_init(&t->owner, 256);
    s->kind->channel(&t->channel, hf__slice_of(s->name));
    s->kind->names[0](&t->mark, hf__slice_of(s->name));
    hf__buf_append(&t->owner, s->own, strlen(s->own));
    hf__buf_append(&t->owner, suffix, strlen(suffix));
    t->asker = (hf__asker){.name = hf__slice_of(s->name),
                           .channel = slice_of(&t->channel),
                           .names = {slice_of(&t->mark)},
                           .owner = slice_of(&t->owner),
                           .again = s->again,
                           .wish = s->wish};
}

/* The script's reply. No argument has a space or a percent sign. */
static char *talk_end(talk *t)
{
    char *line = test_text("EVAL %%b %zu", t->call.keys);
    for (size_t i = 0; i < t->call.count; i++) {
        const hf__slice arg = t->call.args[i];
        char *longer = test_text("%s %.*s", line, (int)arg.length, arg.data);
        free(line);
        line = longer;
    }
    char *reply =
        srv_cmd(server, line, t->call.script->text, t->call.script->length);
    free(line);
    hf__buf_free(&t->channel);
    hf__buf_free(&t->mark);
    hf__buf_free(&t->owner);
    return reply;
}

static bool is_reply(char *reply, const char *expected)
{
    bool same = strcmp(reply, expected) == 0;
    if (!same) {
        print_error("replied \"%s\", expected \"%s\"\n", reply, expected);
    }
    free(reply);
    return same;
}

char *say_acquire(side s, int64_t lease_ms)
{
    talk t;
    talk_begin(&t, &s);
    s.kind->acquire(&t.call, &t.asker, lease_ms);
    return talk_end(&t);
}

bool takes(side s, int64_t lease_ms, const char *reply)
{
    return is_reply(say_acquire(s, lease_ms), reply);
}

/* Of a lease given a moment ago. */
static void assert_about(int64_t remaining, int64_t lease_ms)
{
    int64_t least = lease_ms - TEST_LIMIT_MS / 2;
    assert_in_range(remaining, least > 0 ? least : 1, lease_ms);
}

void assert_busy(side s, int64_t lease_ms)
{
    char *reply = say_acquire(s, 30000);
    char *end = NULL;
    int64_t remaining = strtoll(reply, &end, 10);
    assert_true(end != reply && *end == '\0');
    free(reply);
    assert_about(remaining, lease_ms);
}

char *say_release(side s, int64_t remaining, int64_t lease_ms)
{
    talk t;
    talk_begin(&t, &s);
    s.kind->release(&t.call, &t.asker, remaining, lease_ms);
    return talk_end(&t);
}

bool keeps(side s, int64_t remaining, int64_t lease_ms, const char *reply)
{
    return is_reply(say_release(s, remaining, lease_ms), reply);
}

bool leaves(side s, const char *reply)
{
    return keeps(s, 0, 30000, reply);
}

char *say_force(side s)
{
    talk t;
    talk_begin(&t, &s);
    s.kind->force(&t.call, &t.asker);
    return talk_end(&t);
}

bool forced(side s, const char *reply)
{
    return is_reply(say_force(s), reply);
}

char *say_probe(side s)
{
    talk t;
    talk_begin(&t, &s);
    s.kind->probe(&t.call, &t.asker);
    return talk_end(&t);
}

bool looks(side s, const char *locked_count)
{
    talk t;
    talk_begin(&t, &s);
    s.kind->look(&t.call, &t.asker);
    char *reply = talk_end(&t);
    size_t length = strlen(locked_count);
    bool same = strncmp(reply, locked_count, length) == 0;
    if (!same) {
        print_error("looks like \"%s\", expected \"%s\"\n", reply,
                    locked_count);
    }
    int64_t remaining = strtoll(reply + length, NULL, 10);
    int64_t later = srv_cmd_int(server, "PTTL %s", s.name);
    free(reply);
    return same && later <= remaining && remaining <= later + TEST_LIMIT_MS / 2;
}

bool renews(side s, int64_t lease_ms, const char *reply)
{
    const hf__script *renew = s.kind->renew;
    const char *suffix = s.kind->owner_suffix ? s.kind->owner_suffix : "";
    return srv_cmd_is(server, reply, "EVAL %b 1 %s %lld %s%s", renew->text,
                      renew->length, s.name, (long long)lease_ms, s.own,
                      suffix);
}

/* ---- what is on the server */

void assert_ends(const char *key, int64_t lease_ms)
{
    assert_about(srv_cmd_int(server, "PTTL %s", key), lease_ms);
}

bool has_field(const char *name, const char *field, const char *value)
{
    return srv_cmd_is(server, value, "HGET %s %s", name, field);
}

bool has_fields(const char *name, const char *count)
{
    return srv_cmd_is(server, count, "HLEN %s", name);
}

bool is_there(const char *key)
{
    return srv_cmd_is(server, "1", "EXISTS %s", key);
}

bool is_gone(const char *key)
{
    return srv_cmd_is(server, "0", "EXISTS %s", key);
}

void end_hold(const char *key)
{
    assert_true(srv_cmd_is(server, "1", "DEL %s", key));
}

ear *ear_of(const char *channel)
{
    return ear_subscribe(server, channel, strlen(channel));
}

/* ---- both sides of a lock, of a client */

hf_lock *open_kind(hf_client *of, const char *name, hf_kind kind,
                   int prefer_writers)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = kind;
    options.prefer_writers = prefer_writers;
    hf_lock *lock = hf_lock_open_with(of, name, strlen(name), &options, &err);
    must(lock != NULL);
    return lock;
}

rw rw_open(hf_client *of, const char *name)
{
    return (rw){.read = open_kind(of, name, HF_KIND_READ, 0),
                .write = open_kind(of, name, HF_KIND_WRITE, 0)};
}

void rw_free(rw lock)
{
    hf_lock_free(lock.read);
    hf_lock_free(lock.write);
}

void rw_warm_up(hf_client *of)
{
    rw lock = rw_open(of, "warm-up");
    test_give(test_take(lock.read));
    test_give(test_take(lock.write));
    rw_free(lock);
}

int rw_setup(void **state)
{
    (void)fixture_patient(state);
    rw_warm_up(client);
    rw_warm_up(other);
    return 0;
}

hf_lease *take_as(hf_lock *lock, hf_owner *owner, int64_t lease_ms)
{
    hf_lease *lease = NULL;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.owner = owner;
    options.lease_ms = lease_ms;
    expect(HF_OK, hf_lock_acquire_with(lock, &options, &lease, &err));
    return lease;
}

void assert_taken(hf_lock *lock)
{
    expect(HF_NOT_ACQUIRED, hf_lock_try(lock, NULL, &err));
}

void assert_locked(hf_lock *lock, int expected)
{
    int locked = 7;
    expect(HF_OK, hf_lock_is_locked(lock, &locked, &err));
    assert_int_equal(locked, expected);
}

/* How often the calling thread has it, by the server's word. */
void assert_count(hf_lock *lock, int64_t expected)
{
    int held = 7;
    int64_t count = -1;
    expect(HF_OK, hf_lock_hold_count(lock, NULL, &count, &err));
    expect(HF_OK, hf_lock_is_held_by(lock, NULL, &held, &err));
    assert_int_equal(count, expected);
    assert_int_equal(held, expected > 0);
}

bool is_marked(const char *name, bool marked)
{
    return srv_cmd_becomes(server, marked ? "1" : "0",
                           "EXISTS {%s}:holdfast_writer", name);
}
