/* One command that changes a hold's count at a time: who wants to send one
 * waits for its turn. Threads that own by themselves never meet here; those
 * that share an owner do, and so does a new acquire with the settling of an
 * abandoned one. */
#include "client/client_int.h"

typedef struct turn {
    hf__list node;
    hf__thread *thread;
} turn;

hf__hold_driver *hf__hold_driver_of(hf__hold *hold)
{
    hf__hold_driver *driver = hold->driver;
    if (!driver->made) {
        hf__list_init(&driver->turns);
        driver->made = true;
    }
    return driver;
}

bool hf__turn_take(hf_client *client, hf__hold *hold, hf__thread *self,
                   int64_t deadline, const atomic_bool *stop)
{
    hf__hold_driver *driver = hf__hold_driver_of(hold);
    turn mine = {.thread = self};
    while (hold->busy || hold->renewing) {
        if ((stop && atomic_load(stop)) || hf__now() >= deadline) {
            return false;
        }
        hf__list_append(&driver->turns, &mine.node);
        pthread_mutex_unlock(&client->mutex);
        hf__park(&self->parker, deadline);
        pthread_mutex_lock(&client->mutex);
        hf__list_remove(&mine.node);
    }
    hold->busy = true;
    return true;
}

void hf__turn_give(hf_client *client, hf__hold *hold)
{
    hf__book_idle(&client->book, hold);
    hf__turn_offer(hold);
}

void hf__turn_offer(hf__hold *hold)
{
    hf__hold_driver *driver = hf__hold_driver_of(hold);
    for (hf__list *n = driver->turns.next; n != &driver->turns; n = n->next) {
        hf__unpark(&HF__CONTAINER(n, turn, node)->thread->parker);
    }
}
