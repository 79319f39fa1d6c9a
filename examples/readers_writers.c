/* Three readers share a name, a writer has it alone. What they read is two
 * numbers in memory that belong together: nobody sees one without the other.
 *
 *     ./example_readers_writers [NAME] */
#include <holdfast/holdfast.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define READERS 3
#define ROUNDS 5

typedef struct document {
    hf_client *client;
    const char *name;
    int left; /* the two are always equal but while somebody writes */
    int right;
} document;

static hf_lock *open_side(document *d, hf_kind kind, hf_error *err)
{
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = kind;
    options.prefer_writers = 1; /* readers only: a waiting writer goes first */
    return hf_lock_open_with(d->client, d->name, strlen(d->name), &options,
                             err);
}

static void *read_it(void *arg)
{
    document *d = arg;
    hf_error err = HF_ERROR_INIT;
    hf_lock *lock = open_side(d, HF_KIND_READ, &err);
    for (int i = 0; lock && i < ROUNDS; i++) {
        if (hf_lock_acquire(lock, 10000, NULL, &err) == HF_OK) {
            printf("read %d and %d\n", d->left, d->right);
            hf_lock_release(lock, NULL, &err);
        }
    }
    if (hf_error_status(&err) != HF_OK) {
        fprintf(stderr, "reader: %s\n", hf_error_text(&err));
    }
    hf_lock_free(lock);
    return NULL;
}

static hf_status write_it(document *d, hf_error *err)
{
    hf_lock *lock = open_side(d, HF_KIND_WRITE, err);
    for (int i = 0; lock && i < ROUNDS; i++) {
        if (hf_lock_acquire(lock, 10000, NULL, err) == HF_OK) {
            d->left++;
            d->right++;
            hf_lock_release(lock, NULL, err);
        }
    }
    hf_lock_free(lock);
    return hf_error_status(err);
}

int main(int argc, char **argv)
{
    document d = {.name = argc > 1 ? argv[1] : "example:readers_writers"};
    pthread_t readers[READERS];
    int started = 0;
    hf_error err = HF_ERROR_INIT;
    d.client = hf_client_open(NULL, NULL, &err);
    while (d.client && started < READERS &&
           pthread_create(&readers[started], NULL, read_it, &d) == 0) {
        started++;
    }
    hf_status status = d.client ? write_it(&d, &err) : hf_error_status(&err);
    for (int i = 0; i < started; i++) {
        pthread_join(readers[i], NULL);
    }
    if (status != HF_OK) {
        fprintf(stderr, "%s\n", hf_error_text(&err));
    }
    hf_client_free(d.client);
    return status == HF_OK && started == READERS ? 0 : 1;
}
