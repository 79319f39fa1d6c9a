/* Orders to permits, semaphores and latches. */
#include "actor.h"

#include <stddef.h>

hf_status do_set_permits(subject *s, const order *o, char *answer,
                         hf_error *err)
{
    int set = 0;
    hf_status status =
        s->semaphore
            ? hf_semaphore_set(s->semaphore, number(o->words[4]), 0, &set, err)
            : hf_permits_try_set(s->locks[0], number(o->words[4]), &set, err);
    say(answer, set ? "yes" : "no");
    return status;
}

hf_status do_assign(subject *s, const order *o, char *answer, hf_error *err)
{
    say(answer, "yes");
    return hf_permits_set(s->locks[0], number(o->words[4]), err);
}

hf_status do_add(subject *s, const order *o, char *answer, hf_error *err)
{
    say(answer, "yes");
    if (s->semaphore) {
        return hf_semaphore_add(s->semaphore, number(o->words[4]), err);
    }
    return hf_permits_add(s->locks[0], number(o->words[4]), err);
}

hf_status do_available(subject *s, const order *o, char *answer, hf_error *err)
{
    (void)o;
    int64_t n = 0;
    hf_status status = s->semaphore
                           ? hf_semaphore_available(s->semaphore, &n, err)
                           : hf_permits_available(s->locks[0], &n, err);
    say_number(answer, n);
    return status;
}

hf_status do_total(subject *s, const order *o, char *answer, hf_error *err)
{
    (void)o;
    int64_t n = 0;
    hf_status status = hf_permits_total(s->locks[0], &n, err);
    say_number(answer, n);
    return status;
}

hf_status do_acquired(subject *s, const order *o, char *answer, hf_error *err)
{
    (void)o;
    int64_t n = 0;
    hf_status status = hf_permits_acquired(s->locks[0], &n, err);
    say_number(answer, n);
    return status;
}

hf_status do_drain(subject *s, const order *o, char *answer, hf_error *err)
{
    (void)o;
    int64_t n = 0;
    hf_status status = hf_semaphore_drain(s->semaphore, &n, err);
    say_number(answer, n);
    return status;
}

hf_status do_take_permits(subject *s, const order *o, char *answer,
                          hf_error *err)
{
    int64_t wait = number(o->words[5]);
    return say_taken(hf_semaphore_acquire(s->semaphore, number(o->words[4]),
                                          wait < 0 ? HF_WAIT_FOREVER : wait,
                                          NULL, err),
                     answer);
}

hf_status do_give_permits(subject *s, const order *o, char *answer,
                          hf_error *err)
{
    say(answer, "yes");
    return hf_semaphore_release(s->semaphore, number(o->words[4]), err);
}

hf_status do_set_count(subject *s, const order *o, char *answer, hf_error *err)
{
    int set = 0;
    hf_status status =
        hf_latch_set(s->latch, number(o->words[4]), 0, &set, err);
    say(answer, set ? "yes" : "no");
    return status;
}

/* One by one, as Redisson has it. */
hf_status do_down(subject *s, const order *o, char *answer, hf_error *err)
{
    hf_status status = HF_OK;
    for (int64_t i = number(o->words[4]); i > 0 && status == HF_OK; i--) {
        status = hf_latch_count_down(s->latch, 1, NULL, err);
    }
    say(answer, "yes");
    return status;
}

hf_status do_await(subject *s, const order *o, char *answer, hf_error *err)
{
    int64_t wait = number(o->words[4]);
    return say_taken(
        hf_latch_await(s->latch, wait < 0 ? HF_WAIT_FOREVER : wait, NULL, err),
        answer);
}

hf_status do_latch_count(subject *s, const order *o, char *answer,
                         hf_error *err)
{
    (void)o;
    int64_t n = 0;
    hf_status status = hf_latch_count(s->latch, &n, err);
    say_number(answer, n);
    return status;
}

hf_status do_delete(subject *s, const order *o, char *answer, hf_error *err)
{
    (void)o;
    int deleted = 0;
    hf_status status = hf_latch_delete(s->latch, &deleted, err);
    say(answer, deleted ? "yes" : "no");
    return status;
}
