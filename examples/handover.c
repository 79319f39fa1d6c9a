/* A lock that is taken in one thread and given back in another. By default a
 * lock belongs to the thread that acquired it; an owner handle belongs to no
 * thread, so whoever has it may acquire once more, and whoever has the lease
 * may release it.
 *
 *     ./example_handover [NAME] */
#include <holdfast/holdfast.h>

#include <pthread.h>
#include <stdio.h>

typedef struct order {
    hf_lock *lock;
    hf_owner *owner;
    hf_lease *lease; /* handed over with the order */
    hf_error err;
    int64_t holds; /* hold count on the server while both had it */
} order;

static hf_status acquire(order *o, hf_lease **lease)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.owner = o->owner;
    options.wait_ms = 10000;
    return hf_lock_acquire_with(o->lock, &options, lease, &o->err);
}

/* The lock is reentrant for its owner: the second acquisition succeeds at
 * once, and each of the two is released for itself. */
static void *finish_order(void *arg)
{
    order *o = arg;
    hf_lease *inner = NULL;
    if (acquire(o, &inner) == HF_OK) {
        hf_lock_hold_count(o->lock, o->owner, &o->holds, &o->err);
        hf_lease_release(inner, &o->err);
    }
    hf_lease_free(inner);
    hf_lease_release(o->lease, &o->err);
    return NULL;
}

static int hand_over(order *o)
{
    pthread_t worker;
    if (acquire(o, &o->lease) != HF_OK) {
        return 1;
    }
    printf("%s acquired, and hands over\n", hf_owner_id(o->owner));
    if (pthread_create(&worker, NULL, finish_order, o) != 0) {
        fprintf(stderr, "cannot start a thread\n");
        return 1; /* freeing the lease gives it back */
    }
    pthread_join(worker, NULL);
    printf("hold count in the worker: %lld, held now: %d\n",
           (long long)o->holds, hf_lease_is_held(o->lease));
    return hf_error_status(&o->err) != HF_OK;
}

int main(int argc, char **argv)
{
    order o = {.err = HF_ERROR_INIT};
    int failed = 1;
    hf_client *client = hf_client_open(NULL, NULL, &o.err);
    if (client) {
        o.lock = hf_lock_open(client, argc > 1 ? argv[1] : "example:handover",
                              &o.err);
        o.owner = hf_owner_new(client, &o.err);
    }
    if (o.lock && o.owner) {
        failed = hand_over(&o);
    }
    if (hf_error_status(&o.err) != HF_OK) {
        fprintf(stderr, "%s\n", hf_error_text(&o.err));
    }
    hf_lease_free(o.lease);
    hf_owner_free(o.owner);
    hf_lock_free(o.lock);
    hf_client_free(client);
    return failed;
}
