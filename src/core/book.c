#include "core/book.h"

#include "base/decimal.h"
#include "core/acquire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Holds without lease that are kept, for most names are locked again. */
#define IDLE_MAX 256
#define PHASES 1024

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t whole_ms(int64_t ns)
{
    return (ns + HF__NS_PER_MS - 1) / HF__NS_PER_MS * HF__NS_PER_MS;
}

/* The lease whose deadline is `span` away: hf__lease_deadline turned round. */
static int64_t lease_spanning(int64_t span)
{
    return (span + 2 * HF__NS_PER_MS) / 99 * 100 + 101;
}

void hf__book_init(hf__book *book, const hf__seam *seam, int64_t watchdog,
                   int64_t quarantine, size_t driver_size)
{
    memset(book, 0, sizeof(*book));
    book->seam = seam;
    book->watchdog = watchdog;
    book->longest = watchdog;
    book->quarantine = quarantine;
    book->phase = PHASES * 3 / 4 + hf__seam_jitter(seam, PHASES / 4);
    book->driver_size = driver_size;
    hf__heap_init(&book->due);
    hf__list_init(&book->lost);
    hf__list_init(&book->idle);
}

void hf__book_free(hf__book *book)
{
    hf__hold *hold = book->holds;
    hf__target *target = book->targets;
    HASH_CLEAR(hh, book->holds);
    HASH_CLEAR(hh, book->targets);
    while (hold) {
        hf__hold *next = hold->hh.next;
        free(hold);
        hold = next;
    }
    while (target) {
        hf__target *next = target->hh.next;
        free(target);
        target = next;
    }
    hf__heap_free(&book->due);
}

/* ------------------------------------------------------------------ holds */

hf__hold *hf__book_find(hf__book *book, const hf__target *target,
                        uint64_t ordinal)
{
    hf__hold_key key;
    hf__hold *hold = NULL;
    memset(&key, 0, sizeof(key));
    key.target = target;
    key.ordinal = ordinal;
    HASH_FIND(hh, book->holds, &key, sizeof(key), hold);
    return hold;
}

/* The client's UUID in 16 bytes, told from the client's others by the ordinal:
 * as unique as the two. */
static size_t raw_id(const hf__book *book, uint64_t ordinal,
                     char id[HF__OWNER_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    size_t n = 0;
    for (const char *at = book->uuid; *at != '\0'; at++) {
        const char *digit = strchr(digits, *at);
        if (digit && n < 2 * HF__RAW_ID) {
            char low = (char)(digit - digits);
            id[n / 2] = (char)(n % 2 == 0 ? low << 4 : id[n / 2] | low);
            n++;
        }
    }
    for (size_t i = 0; i < sizeof(ordinal); i++) {
        id[HF__RAW_ID - 1 - i] ^= (char)(ordinal >> (8 * i) & 0xff);
    }
    id[HF__RAW_ID] = '\0';
    return HF__RAW_ID;
}

size_t hf__book_owner_id(const hf__book *book, const hf__kind *kind,
                         uint64_t ordinal, char id[HF__OWNER_SIZE])
{
    if (kind && kind->owner_is_raw) {
        return raw_id(book, ordinal, id);
    }
    size_t n = strlen(book->uuid);
    memcpy(id, book->uuid, n);
    id[n++] = ':';
    char *end = hf__decimal(id + n, ordinal);
    if (kind && kind->owner_suffix) {
        size_t length = strlen(kind->owner_suffix);
        memcpy(end, kind->owner_suffix, length);
        end += length;
    }
    *end = '\0';
    return (size_t)(end - id);
}

hf__asker hf__hold_asker(const hf__hold *hold)
{
    hf__asker asker = hf__target_asker(hold->target);
    asker.owner = (hf__slice){hold->owner, hold->owner_length};
    asker.wish = hold->wish;
    return asker;
}

static hf__hold *hold_new(hf__book *book, hf__target *target, uint64_t ordinal)
{
    if (!hf__heap_reserve(&book->due, HASH_COUNT(book->holds) + 1)) {
        return NULL;
    }
    hf__hold *hold = calloc(1, sizeof(*hold) + book->driver_size);
    if (!hold) {
        return NULL;
    }
    hold->key.target = target;
    hold->key.ordinal = ordinal;
    hold->target = target;
    hold->owner_length =
        hf__book_owner_id(book, target->kind, ordinal, hold->owner);
    hf__list_init(&hold->leases);
    hf__list_init(&hold->idle);
    hold->renew_at = HF__NEVER;
    hold->settle_at = HF__NEVER;
    hold->timer.index = HF__HEAP_NOWHERE;
    hold->driver = hold + 1;
    HASH_ADD(hh, book->holds, key, sizeof(hold->key), hold);
    if (!hold->hh.tbl) {
        free(hold);
        return NULL;
    }
    target->refs++;
    return hold;
}

static void hold_free(hf__book *book, hf__hold *hold)
{
    hf__heap_remove(&book->due, &hold->timer);
    HASH_DEL(book->holds, hold);
    hf__book_drop_target(book, hold->target);
    free(hold);
}

static void keep_idle(hf__book *book, hf__hold *hold)
{
    if (hold->pins == 0 && hold->live == 0 && !hold->unsettled && !hold->busy &&
        !hold->renewing && !hold->handed && hf__list_empty(&hold->idle)) {
        hf__list_append(&book->idle, &hold->idle);
        book->idle_count++;
    }
}

static void take_from_idle(hf__book *book, hf__hold *hold)
{
    if (!hf__list_empty(&hold->idle)) {
        hf__list_remove(&hold->idle);
        book->idle_count--;
    }
}

/* Only before a hold is made, never while somebody walks over the holds. */
static void evict_idle(hf__book *book)
{
    while (book->idle_count >= IDLE_MAX) {
        hf__list *oldest = hf__list_pop(&book->idle);
        book->idle_count--;
        hold_free(book, HF__CONTAINER(oldest, hf__hold, idle));
    }
}

hf__hold *hf__book_pin(hf__book *book, hf__target *target, uint64_t ordinal)
{
    hf__hold *hold = hf__book_find(book, target, ordinal);
    if (!hold) {
        evict_idle(book);
        hold = hold_new(book, target, ordinal);
    }
    if (hold) {
        take_from_idle(book, hold);
        hold->pins++;
    }
    return hold;
}

void hf__book_unpin(hf__book *book, hf__hold *hold)
{
    assert(hold->pins > 0);
    hold->pins--;
    keep_idle(book, hold);
}

/* ------------------------------------------------------------ lease, state */

static hf_lease_state state_of(const hf__lease *lease)
{
    return (hf_lease_state)atomic_load(&lease->state);
}

/* The one place where a lease changes its state. */
static void set_state(hf__lease *lease, hf_lease_state to)
{
    hf_lease_state from = state_of(lease);
    assert(from != HF_LEASE_LOST && from != HF_LEASE_RELEASED);
    (void)from;
    atomic_store(&lease->state, (int)to);
}

static bool has_watchdog(const hf__hold *hold)
{
    for (hf__list *n = hold->leases.next; n != &hold->leases; n = n->next) {
        if (HF__CONTAINER(n, hf__lease, node)->watchdog) {
            return true;
        }
    }
    return false;
}

/* Until when renewed leases want the hold to last. */
static int64_t wanted_end(const hf__hold *hold)
{
    int64_t end = 0;
    for (hf__list *n = hold->leases.next; n != &hold->leases; n = n->next) {
        const hf__lease *lease = HF__CONTAINER(n, hf__lease, node);
        if (lease->watchdog) {
            end = max_of(end, lease->limit);
        }
    }
    return end;
}

static void schedule(hf__book *book, hf__hold *hold)
{
    bool moving = hold->busy || hold->renewing;
    int64_t due = moving ? HF__NEVER : hold->renew_at;
    for (hf__list *n = hold->leases.next; n != &hold->leases; n = n->next) {
        const hf__lease *lease = HF__CONTAINER(n, hf__lease, node);
        due = min_of(due, atomic_load(&lease->deadline));
    }
    if (hold->unsettled && !moving) {
        due = min_of(due, hold->settle_at);
    }
    if (due == HF__NEVER) {
        hf__heap_remove(&book->due, &hold->timer);
    } else {
        hf__heap_set(&book->due, &hold->timer, due);
    }
}

static void set_deadlines(hf__hold *hold)
{
    for (hf__list *n = hold->leases.next; n != &hold->leases; n = n->next) {
        hf__lease *lease = HF__CONTAINER(n, hf__lease, node);
        atomic_store(&lease->deadline, min_of(hold->deadline, lease->limit));
        if (state_of(lease) == HF_LEASE_SUSPECT) {
            set_state(lease, HF_LEASE_HELD);
        }
    }
}

static void lose(hf__book *book, hf__lease *lease, hf_loss why)
{
    hf__hold *hold = lease->hold;
    atomic_store(&lease->loss, (int)why);
    set_state(lease, HF_LEASE_LOST);
    hf__list_remove(&lease->node);
    hold->live--;
    hf__list_append(&book->lost, &lease->node);
    if (hold->live == 0) {
        hold->renew_at = HF__NEVER;
    }
}

/* Loses the leases acquired before `asked_at`: what was heard then says
 * nothing about later ones. */
static void revoke_before(hf__book *book, hf__hold *hold, int64_t asked_at)
{
    hf__list *n = hold->leases.next;
    while (n != &hold->leases) {
        hf__lease *lease = HF__CONTAINER(n, hf__lease, node);
        n = n->next;
        if (lease->sent_at <= asked_at) {
            lose(book, lease, HF_LOSS_REVOKED);
        }
    }
    schedule(book, hold);
    keep_idle(book, hold);
}

static void revoke(hf__book *book, hf__hold *hold)
{
    revoke_before(book, hold, HF__NEVER);
}

static bool expired(hf__book *book, hf__lease *lease, int64_t now)
{
    int64_t deadline = atomic_load(&lease->deadline);
    if (now < deadline) {
        return false;
    }
    lose(book, lease,
         deadline == lease->limit ? lease->limit_loss : HF_LOSS_EXPIRED);
    return true;
}

/* What has ended locally may go on for a while on the server: its count is
 * set to what still lives. */
static void expire_leases(hf__book *book, hf__hold *hold)
{
    if (hold->live == 0) {
        return;
    }
    int64_t now = hf__seam_now(book->seam);
    bool any = false;
    hf__list *n = hold->leases.next;
    while (n != &hold->leases) {
        hf__lease *lease = HF__CONTAINER(n, hf__lease, node);
        n = n->next;
        any = expired(book, lease, now) || any;
    }
    if (any) {
        hf__book_unsettle(book, hold);
    }
}

size_t hf__book_live(hf__book *book, hf__hold *hold)
{
    expire_leases(book, hold);
    return hold->live;
}

bool hf__book_expire(hf__book *book, hf__lease *lease)
{
    if (state_of(lease) == HF_LEASE_HELD ||
        state_of(lease) == HF_LEASE_SUSPECT) {
        expire_leases(book, lease->hold);
    }
    return state_of(lease) == HF_LEASE_LOST;
}

/* --------------------------------------------------------- acquire, release */

/* The lease to send, if `lease` is wanted: long enough for everything that was
 * promised before, for the server keeps the last word only. What rounding adds
 * is promised to nobody, or many short leases would push the end away. */
static int64_t reaching(hf__hold *hold, int64_t now, int64_t lease)
{
    int64_t end = hf__lease_deadline(now, lease);
    if (end >= hold->reach) {
        hold->reach = end;
        return lease;
    }
    return whole_ms(max_of(lease, lease_spanning(hold->reach - now)));
}

static int64_t promised(const hf__hold *hold, int64_t sent_at, int64_t lease)
{
    return min_of(hf__lease_deadline(sent_at, lease), hold->reach);
}

int64_t hf__book_lease_to_ask(const hf__book *book, hf__hold *hold,
                              const hf__terms *terms)
{
    int64_t lease = terms->fixed > 0 ? terms->fixed : book->watchdog;
    if (terms->fixed == 0 && terms->max_hold > 0) {
        lease = min_of(lease, terms->max_hold);
    }
    if (hold->live == 0) {
        hold->reach = 0;
    }
    hold->asked_at = hf__seam_now(book->seam);
    return reaching(hold, hold->asked_at, lease);
}

/* Each third of the lease, or up to an eighth of that earlier: how much is
 * drawn once per client, so that clients which started together do not renew
 * together, while one client's renewals come due in the order of its leases
 * and the keeper is not woken for each. */
static void plan_renewal(const hf__book *book, hf__hold *hold, int64_t from)
{
    hold->renew_failures = 0;
    if (!has_watchdog(hold) || wanted_end(hold) <= hold->deadline) {
        hold->renew_at = HF__NEVER;
        return;
    }
    hold->renew_at = from + hold->lease / 3 * book->phase / PHASES;
}

/* A lease's own end is reckoned from the moment of asking, as its hold's is,
 * so that the two are the same where they mean the same. */
static void set_limit(const hf__hold *hold, hf__lease *lease,
                      const hf__terms *terms)
{
    lease->watchdog = terms->fixed == 0;
    lease->limit = HF__NEVER;
    if (terms->fixed > 0) {
        lease->limit = hf__lease_deadline(hold->asked_at, terms->fixed);
        lease->limit_loss = HF_LOSS_EXPIRED;
    } else if (terms->max_hold > 0) {
        lease->limit = hf__lease_deadline(hold->asked_at, terms->max_hold);
        lease->limit_loss = HF_LOSS_MAX_HOLD;
    }
}

/* A count of 1 says that the server had forgotten the owner's other leases: the
 * lock may have been another's in between. Any other surprise is set right. */
static void compare_count(hf__book *book, hf__hold *hold, int64_t count)
{
    if (count == 1 && hold->live > 0) {
        revoke(book, hold);
    } else if (count > 0 && count != (int64_t)hold->live + 1) {
        hf__book_unsettle(book, hold);
    }
}

void hf__book_granted(hf__book *book, hf__hold *hold, hf__lease *lease,
                      const hf__terms *terms, const hf__grant *grant)
{
    expire_leases(book, hold); /* what has ended is not to be revived */
    compare_count(book, hold, grant->count);
    lease->hold = hold;
    lease->token = grant->token;
    lease->sent_at = grant->sent_at;
    set_limit(hold, lease, terms);
    atomic_store(&lease->loss, HF_LOSS_NONE);
    atomic_store(&lease->state, HF_LEASE_HELD);
    hold->standing += hold->live == 0;
    hf__list_append(&hold->leases, &lease->node);
    hold->live++;
    hold->lease = grant->asked;
    hold->deadline = max_of(hold->live > 1 ? hold->deadline : 0,
                            promised(hold, grant->sent_at, grant->asked));
    book->longest = max_of(book->longest, grant->asked);
    if (grant->token > hold->target->last_token) {
        hold->target->last_token = grant->token;
    }
    set_deadlines(hold);
    plan_renewal(book, hold, grant->sent_at);
    schedule(book, hold);
}

static bool same_name(const hf__target *a, const hf__target *b)
{
    return a->name.length == b->name.length &&
           memcmp(a->name.data, b->name.data, a->name.length) == 0;
}

/* By the id on the server, where a reader's and a writer's differ. */
static bool same_owner(const hf__hold *a, const hf__hold *b)
{
    return a->owner_length == b->owner_length &&
           memcmp(a->owner, b->owner, a->owner_length) == 0;
}

bool hf__book_settle_kin(hf__book *book, const hf__hold *hold)
{
    hf__hold *kin = NULL;
    for (kin = book->holds; kin; kin = kin->hh.next) {
        if (kin != hold && kin->live > 0 && same_owner(kin, hold) &&
            same_name(kin->target, hold->target)) {
            hf__book_unsettle(book, kin);
            return true;
        }
    }
    return false;
}

void hf__book_adopt(hf__hold *hold, hf__slice owner_id)
{
    const char *suffix = hold->target->kind->owner_suffix;
    size_t more = suffix ? strlen(suffix) : 0;
    assert(owner_id.length + more < sizeof(hold->owner));
    memcpy(hold->owner, owner_id.data, owner_id.length);
    memcpy(hold->owner + owner_id.length, suffix ? suffix : "", more + 1);
    hold->owner_length = owner_id.length + more;
}

void hf__book_forgotten(hf__book *book, hf__hold *hold, int64_t asked_at)
{
    revoke_before(book, hold, asked_at);
}

bool hf__book_leave(hf__book *book, hf__lease *lease)
{
    if (hf__book_expire(book, lease) || state_of(lease) == HF_LEASE_RELEASED) {
        return false;
    }
    hf__hold *hold = lease->hold;
    set_state(lease, HF_LEASE_RELEASED);
    hf__list_remove(&lease->node);
    hold->live--;
    if (!has_watchdog(hold)) {
        hold->renew_at = HF__NEVER;
    }
    schedule(book, hold);
    return true;
}

void hf__book_say(const hf__book *book, hf__hold *hold)
{
    /* Renewed leases begin anew; fixed ones end when they said they would. */
    int64_t lease = has_watchdog(hold) ? book->watchdog : HF__NS_PER_MS;
    hold->sayings++;
    hold->said = hold->live;
    hold->said_lease = hold->live == 0
                           ? lease
                           : reaching(hold, hf__seam_now(book->seam),
                                      min_of(lease, hold->lease));
}

void hf__book_released(hf__book *book, hf__hold *hold, bool held,
                       int64_t sent_at)
{
    expire_leases(book, hold);
    if (!held && hold->live > 0) {
        revoke(book, hold);
        return;
    }
    if (hold->live > 0) {
        hold->deadline =
            max_of(hold->deadline, promised(hold, sent_at, hold->said_lease));
        set_deadlines(hold);
        plan_renewal(book, hold, sent_at);
    }
    schedule(book, hold);
}

void hf__book_found_lost(hf__lease *lease)
{
    atomic_store(&lease->loss, HF_LOSS_REVOKED);
    atomic_store(&lease->state, HF_LEASE_LOST);
}

/* --------------------------------------------------------------- settling */

void hf__book_idle(hf__book *book, hf__hold *hold)
{
    hold->busy = false;
    schedule(book, hold);
    keep_idle(book, hold);
}

void hf__book_unsettle(hf__book *book, hf__hold *hold)
{
    if (!hold->unsettled) {
        hold->unsettled = true;
        hold->settle_failures = 0;
        hold->settle_at = hf__seam_now(book->seam);
        take_from_idle(book, hold);
    }
    schedule(book, hold);
}

void hf__book_settled(hf__book *book, hf__hold *hold, bool confirmed, bool held)
{
    if (confirmed) {
        if (held) {
            hold->heard = hold->sayings;
        }
        /* A lease that ended meanwhile was still counted in what was said. */
        hold->unsettled = hold->said != hold->live;
        hold->settle_at =
            hold->unsettled ? hf__seam_now(book->seam) : HF__NEVER;
        hold->settle_failures = 0;
        if (!held && hold->live > 0) {
            revoke(book, hold);
            return;
        }
    } else {
        hold->settle_at = hf__seam_now(book->seam) +
                          hf__seam_backoff(book->seam, hold->settle_failures);
        hold->settle_failures++;
    }
    schedule(book, hold);
    keep_idle(book, hold);
}

void hf__book_settle_refused(hf__book *book, hf__hold *hold)
{
    hold->unsettled = false;
    hold->settle_at = HF__NEVER;
    hold->settle_failures = 0;
    schedule(book, hold);
    keep_idle(book, hold);
}

/* --------------------------------------------------------------- renewing */

int64_t hf__book_lease_to_renew(const hf__book *book, hf__hold *hold)
{
    int64_t end = wanted_end(hold);
    int64_t now = hf__seam_now(book->seam);
    if (end <= hold->deadline || end <= now) {
        return 0;
    }
    int64_t lease = book->watchdog;
    if (end != HF__NEVER) {
        lease = min_of(lease, whole_ms(lease_spanning(end - now)));
    }
    return reaching(hold, now, lease);
}

static void suspect(hf__hold *hold)
{
    for (hf__list *n = hold->leases.next; n != &hold->leases; n = n->next) {
        hf__lease *lease = HF__CONTAINER(n, hf__lease, node);
        if (state_of(lease) == HF_LEASE_HELD) {
            set_state(lease, HF_LEASE_SUSPECT);
        }
    }
}

static void confirm_renewal(hf__book *book, hf__hold *hold, int64_t sent_at,
                            int64_t asked)
{
    if (asked > 0) {
        hold->lease = asked;
        hold->deadline = max_of(hold->deadline, promised(hold, sent_at, asked));
    }
    set_deadlines(hold);
    plan_renewal(book, hold, sent_at);
    schedule(book, hold);
}

void hf__book_renewed(hf__book *book, hf__hold *hold,
                      const hf__renewal *renewal, int64_t sent_at)
{
    hold->renewing = false;
    expire_leases(book, hold);
    if (hold->live == 0 || hold->standing != renewal->standing) {
        schedule(book, hold);
        keep_idle(book, hold);
    } else if (renewal->found == 0) {
        /* An acquire sent in the same instant may have been executed after
         * this: hence the settling, and a look for what still lives. */
        revoke_before(book, hold, sent_at);
        hold->renew_at = hold->live > 0 ? hf__seam_now(book->seam) : HF__NEVER;
        hf__book_unsettle(book, hold);
    } else if (renewal->found > 0) {
        confirm_renewal(book, hold, sent_at, renewal->asked);
    } else {
        suspect(hold);
        hold->renew_at = hf__seam_now(book->seam) +
                         hf__seam_backoff(book->seam, hold->renew_failures);
        hold->renew_failures++;
        schedule(book, hold);
    }
}

void hf__book_check_all(hf__book *book)
{
    hf__hold *hold = NULL;
    hf__hold *next = NULL;
    int64_t now = hf__seam_now(book->seam);
    HASH_ITER(hh, book->holds, hold, next)
    {
        if (hold->live > 0) {
            hold->renew_at = now;
        }
        if (hold->unsettled) {
            hold->settle_at = now;
        }
        if (hold->live > 0 || hold->unsettled) {
            schedule(book, hold);
        }
    }
}

void hf__book_restarted(hf__book *book)
{
    if (book->quarantine >= 0) {
        book->quarantined_until =
            hf__seam_now(book->seam) +
            (book->quarantine > 0 ? book->quarantine : book->longest);
    }
}

void hf__book_revoke(hf__book *book, const hf__target *target, int64_t asked_at)
{
    hf__hold *hold = NULL;
    hf__hold *next = NULL;
    HASH_ITER(hh, book->holds, hold, next)
    {
        if (hold->target == target && hold->live > 0) {
            /* What was sent before may have been executed after it, if it had
             * to be said again: hence the settling. */
            revoke_before(book, hold, asked_at);
            hf__book_unsettle(book, hold);
        } else if (hold->live > 0 && same_name(hold->target, target)) {
            hold->renew_at = hf__seam_now(book->seam);
            schedule(book, hold);
        }
    }
}

/* --------------------------------------------------------------------- due */

static bool renewable(const hf__hold *hold, int64_t by)
{
    return hold->live > 0 && !hold->busy && !hold->renewing &&
           hold->renew_at <= by;
}

static hf__due begin_settling(hf__book *book, hf__hold *hold)
{
    hold->busy = true;
    schedule(book, hold);
    return HF__DUE_SETTLE;
}

static hf__due begin_renewing(hf__book *book, hf__hold *hold)
{
    hold->renewing = true;
    hold->renew_at = HF__NEVER;
    schedule(book, hold);
    return HF__DUE_RENEW;
}

/* The hold at the top of the heap, whose time has come or nearly so. */
static hf__due due_of(hf__book *book, hf__hold *hold, int64_t now)
{
    expire_leases(book, hold);
    if (hold->unsettled && !hold->busy && !hold->renewing &&
        hold->settle_at <= now) {
        return begin_settling(book, hold);
    }
    if (renewable(hold, now)) {
        book->along_until = max_of(book->along_until, now + hold->lease / 12);
        return begin_renewing(book, hold);
    }
    if (renewable(hold, book->along_until)) {
        return begin_renewing(book, hold);
    }
    return HF__DUE_NOTHING;
}

hf__due hf__book_due(hf__book *book, hf__hold **out)
{
    for (;;) {
        int64_t now = hf__seam_now(book->seam);
        hf__heap_item *first = hf__heap_first(&book->due);
        if (!first || first->due > max_of(now, book->along_until)) {
            break;
        }
        bool early = first->due > now;
        *out = HF__CONTAINER(first, hf__hold, timer);
        hf__due due = due_of(book, *out, now);
        if (due != HF__DUE_NOTHING) {
            return due;
        }
        if (early) {
            break; /* a deadline, whose time is yet to come */
        }
        schedule(book, *out);
        keep_idle(book, *out);
    }
    book->along_until = 0;
    return HF__DUE_NOTHING;
}

int64_t hf__book_next(const hf__book *book)
{
    const hf__heap_item *first = hf__heap_first(&book->due);
    return first ? first->due : HF__NEVER;
}
