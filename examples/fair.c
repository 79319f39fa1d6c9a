/* Served in the order of arrival. Each thread asks for a fair lock; whoever
 * asked first has it first. Start the program in several terminals as well:
 * the queue is the server's, and the same for all.
 *
 *     ./example_fair [NAME] */
#include <holdfast/holdfast.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CUSTOMERS 4

static void *queue_up(void *arg)
{
    hf_lock *lock = arg;
    hf_error err = HF_ERROR_INIT;
    hf_lease *lease = NULL;
    if (hf_lock_acquire(lock, 10000, &lease, &err) == HF_OK) {
        printf("served: %s\n", hf_lease_owner_id(lease));
        hf_lease_release(lease, &err);
    }
    if (hf_error_status(&err) != HF_OK) {
        fprintf(stderr, "%s\n", hf_error_text(&err));
    }
    hf_lease_free(lease);
    return NULL;
}

static int serve_all(hf_lock *lock)
{
    pthread_t customers[CUSTOMERS];
    int started = 0;
    while (started < CUSTOMERS &&
           pthread_create(&customers[started], NULL, queue_up, lock) == 0) {
        started++;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(customers[i], NULL);
    }
    return started < CUSTOMERS;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "example:fair";
    int failed = 1;
    hf_error err = HF_ERROR_INIT;
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = HF_KIND_FAIR;
    hf_client *client = hf_client_open(NULL, NULL, &err);
    hf_lock *lock =
        client ? hf_lock_open_with(client, name, strlen(name), &options, &err)
               : NULL;
    if (lock) {
        failed = serve_all(lock);
    }
    if (hf_error_status(&err) != HF_OK) {
        fprintf(stderr, "%s\n", hf_error_text(&err));
    }
    hf_lock_free(lock);
    hf_client_free(client);
    return failed;
}
