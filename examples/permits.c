/* At most two at a time, of however many threads, processes and machines. A
 * permit is a lease: that of a program that dies comes back by itself.
 *
 *     ./example_permits [NAME] */
#include <holdfast/holdfast.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define PERMITS 2
#define WORKERS 5

static void *work(void *arg)
{
    hf_lock *lock = arg;
    hf_error err = HF_ERROR_INIT;
    hf_lease *lease = NULL;
    int64_t acquired = 0;
    if (hf_lock_acquire(lock, 10000, &lease, &err) == HF_OK) {
        if (hf_permits_acquired(lock, &acquired, &err) == HF_OK) {
            printf("permit %s, %lld in use\n", hf_lease_owner_id(lease),
                   (long long)acquired);
        }
        hf_lease_release(lease, &err);
    }
    if (hf_error_status(&err) != HF_OK) {
        fprintf(stderr, "%s\n", hf_error_text(&err));
    }
    hf_lease_free(lease);
    return NULL;
}

static int work_all(hf_lock *lock)
{
    pthread_t workers[WORKERS];
    int started = 0;
    while (started < WORKERS &&
           pthread_create(&workers[started], NULL, work, lock) == 0) {
        started++;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(workers[i], NULL);
    }
    return started < WORKERS;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "example:permits";
    int failed = 1;
    hf_error err = HF_ERROR_INIT;
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = HF_KIND_PERMIT;
    hf_client *client = hf_client_open(NULL, NULL, &err);
    hf_lock *lock =
        client ? hf_lock_open_with(client, name, strlen(name), &options, &err)
               : NULL;
    /* Whoever comes first says how many there are; nobody else changes it. */
    if (lock && hf_permits_try_set(lock, PERMITS, NULL, &err) == HF_OK) {
        failed = work_all(lock);
    }
    if (hf_error_status(&err) != HF_OK) {
        fprintf(stderr, "%s\n", hf_error_text(&err));
    }
    hf_lock_free(lock);
    hf_client_free(client);
    return failed;
}
