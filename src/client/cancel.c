#include "client/client_int.h"

#include <stdlib.h>

struct hf_cancel {
    atomic_bool fired;
    pthread_mutex_t mutex;
    hf__list watchers; /* threads in acquisitions; guarded by mutex */
};

hf_cancel *hf_cancel_new(void)
{
    hf_cancel *cancel = calloc(1, sizeof(*cancel));
    if (cancel && pthread_mutex_init(&cancel->mutex, NULL) != 0) {
        free(cancel);
        return NULL;
    }
    if (cancel) {
        hf__list_init(&cancel->watchers);
    }
    return cancel;
}

void hf_cancel_fire(hf_cancel *cancel)
{
    pthread_mutex_lock(&cancel->mutex);
    atomic_store(&cancel->fired, true);
    for (hf__list *n = cancel->watchers.next; n != &cancel->watchers;
         n = n->next) {
        hf__unpark(&HF__CONTAINER(n, hf__cancel_entry, node)->thread->parker);
    }
    pthread_mutex_unlock(&cancel->mutex);
}

void hf_cancel_free(hf_cancel *cancel)
{
    if (cancel) {
        pthread_mutex_destroy(&cancel->mutex);
        free(cancel);
    }
}

const atomic_bool *hf__cancel_flag(const hf_cancel *cancel)
{
    return cancel ? &cancel->fired : NULL;
}

void hf__cancel_watch(hf_cancel *cancel, hf__cancel_entry *entry,
                      hf__thread *self)
{
    entry->thread = self;
    if (cancel) {
        pthread_mutex_lock(&cancel->mutex);
        hf__list_append(&cancel->watchers, &entry->node);
        pthread_mutex_unlock(&cancel->mutex);
    }
}

void hf__cancel_unwatch(hf_cancel *cancel, hf__cancel_entry *entry)
{
    if (cancel) {
        pthread_mutex_lock(&cancel->mutex);
        hf__list_remove(&entry->node);
        pthread_mutex_unlock(&cancel->mutex);
    }
}
