/* Things that are made by one and used up by another: a semaphore counts them.
 * It belongs to nobody, so the two may be different programs. Who takes some
 * and dies has taken them for good.
 *
 *     ./example_semaphore [NAME] */
#include <holdfast/holdfast.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define THINGS 6

static void *make(void *arg)
{
    hf_semaphore *things = arg;
    hf_error err = HF_ERROR_INIT;
    for (int i = 0; i < THINGS; i++) {
        if (hf_semaphore_release(things, 1, &err) != HF_OK) {
            fprintf(stderr, "%s\n", hf_error_text(&err));
            break;
        }
    }
    return NULL;
}

/* Takes two at a time, all or none. */
static hf_status use(hf_semaphore *things, hf_error *err)
{
    hf_status status = HF_OK;
    for (int i = 0; i < THINGS && status == HF_OK; i += 2) {
        status = hf_semaphore_acquire(things, 2, 10000, NULL, err);
        if (status == HF_OK) {
            printf("took two\n");
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "example:semaphore";
    pthread_t maker;
    hf_error err = HF_ERROR_INIT;
    hf_status status = HF_ESYSTEM;
    hf_client *client = hf_client_open(NULL, NULL, &err);
    hf_semaphore *things =
        client ? hf_semaphore_open(client, name, strlen(name), NULL, &err)
               : NULL;
    /* None at first, and forgotten in a minute. */
    if (things && hf_semaphore_set(things, 0, 60000, NULL, &err) == HF_OK &&
        pthread_create(&maker, NULL, make, things) == 0) {
        status = use(things, &err);
        pthread_join(maker, NULL);
    }
    if (hf_error_status(&err) != HF_OK) {
        fprintf(stderr, "%s\n", hf_error_text(&err));
    }
    hf_semaphore_free(things);
    hf_client_free(client);
    return status == HF_OK ? 0 : 1;
}
