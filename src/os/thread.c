#include "os/thread.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static hf__thread *records;       /* guarded by mutex */
static hf__thread *spare_records; /* guarded by mutex */
static _Atomic uint64_t last_ordinal;
static _Thread_local hf__thread *self;

uint64_t hf__next_ordinal(void)
{
    return atomic_fetch_add_explicit(&last_ordinal, 1, memory_order_relaxed) +
           1;
}

static void give_back(void *record)
{
    hf__thread *thread = record;
    self = NULL;
    pthread_mutex_lock(&mutex);
    thread->spare = spare_records;
    spare_records = thread;
    pthread_mutex_unlock(&mutex);
}

/* A fork while another thread held the mutex would leave it locked for ever
 * in the child. */
static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&mutex);
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, give_back) == 0 &&
               pthread_atfork(before_fork, after_fork, after_fork) == 0;
}

static hf__thread *take_record(void)
{
    pthread_mutex_lock(&mutex);
    hf__thread *thread = spare_records;
    if (thread) {
        spare_records = thread->spare;
    } else if ((thread = calloc(1, sizeof(*thread))) != NULL) {
        hf__parker_init(&thread->parker);
        thread->next = records;
        records = thread;
    }
    pthread_mutex_unlock(&mutex);
    return thread;
}

hf__thread *hf__thread_self(void)
{
    if (self) {
        return self;
    }
    pthread_once(&once, make_key);
    hf__thread *thread = key_made ? take_record() : NULL;
    if (!thread) {
        return NULL;
    }
    thread->ordinal = hf__next_ordinal();
    if (pthread_setspecific(key, thread) != 0) {
        give_back(thread);
        return NULL;
    }
    self = thread;
    return thread;
}
