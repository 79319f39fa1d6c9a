/* What the parts of the actor share. */
#ifndef INTEROP_ACTOR_H
#define INTEROP_ACTOR_H

#include "holdfast/holdfast.h"

#include <pthread.h>
#include <stdint.h>

#define MOST_WORDS 8
#define MOST_LOCKS 4
#define ANSWER_SIZE 1024

/* "ID THREAD VERB NAME ARGUMENT..." */
typedef struct order {
    char *line;
    const char *words[MOST_WORDS];
    struct order *next;
} order;

/* A lease that is released by its name, or by its token or id. */
typedef struct kept {
    hf_lease *lease;
    char name[128];
    char token[64];
    struct kept *next;
} kept;

/* A thread, which is an owner of locks. */
typedef struct worker {
    char *name;
    pthread_mutex_t mutex;
    pthread_cond_t more;
    order *first, *last;
    kept *leases;
    struct worker *next;
} worker;

typedef enum family { LOCKS, MULTI, PERMITS, SEMAPHORE, LATCH } family;

/* What the name of an order says: "KIND@NAME", or the name of a lock. */
typedef struct subject {
    family family;
    hf_kind kind;
    const char *word;
    const char *name;
    hf_lock *locks[MOST_LOCKS]; /* several: "multi@NAME+NAME..." */
    hf_semaphore *semaphore;
    hf_latch *latch;
    worker *worker;
} subject;

/* Obeys; the answer has ANSWER_SIZE bytes. */
typedef hf_status (*verb_fn)(subject *s, const order *o, char *answer,
                             hf_error *err);

int64_t number(const char *word);
void say(char *answer, const char *text);
void say_number(char *answer, int64_t n);
hf_status say_taken(hf_status status, char *answer);

/* Of permits, semaphores and latches. */
hf_status do_set_permits(subject *s, const order *o, char *answer,
                         hf_error *err);
hf_status do_assign(subject *s, const order *o, char *answer, hf_error *err);
hf_status do_add(subject *s, const order *o, char *answer, hf_error *err);
hf_status do_available(subject *s, const order *o, char *answer, hf_error *err);
hf_status do_total(subject *s, const order *o, char *answer, hf_error *err);
hf_status do_acquired(subject *s, const order *o, char *answer, hf_error *err);
hf_status do_drain(subject *s, const order *o, char *answer, hf_error *err);
hf_status do_take_permits(subject *s, const order *o, char *answer,
                          hf_error *err);
hf_status do_give_permits(subject *s, const order *o, char *answer,
                          hf_error *err);
hf_status do_set_count(subject *s, const order *o, char *answer, hf_error *err);
hf_status do_down(subject *s, const order *o, char *answer, hf_error *err);
hf_status do_await(subject *s, const order *o, char *answer, hf_error *err);
hf_status do_latch_count(subject *s, const order *o, char *answer,
                         hf_error *err);
hf_status do_delete(subject *s, const order *o, char *answer, hf_error *err);

#endif
