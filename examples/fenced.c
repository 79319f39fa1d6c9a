/* A resource that refuses a writer whose token is older than one that it has
 * seen. The first writer "sleeps" in front of its write for longer than its
 * lease lasts; the second one gets the lock meanwhile and writes. The first
 * one's write comes too late, and is refused.
 *
 *     ./example_fenced [NAME] */
#include <holdfast/holdfast.h>

#include <stdio.h>
#include <string.h>

#define LEASE_MS 200

/* Stands for a database row, a file server, a device: whatever can compare a
 * number and write in one step. */
typedef struct resource {
    uint64_t newest; /* token of the last write */
    const char *text;
} resource;

static int resource_write(resource *r, uint64_t token, const char *text)
{
    if (token < r->newest) {
        printf("refused: \"%s\"\n", text);
        return 0;
    }
    r->newest = token;
    r->text = text;
    printf("written: \"%s\"\n", text);
    return 1;
}

static hf_status acquire(hf_lock *lock, hf_owner *owner, hf_lease **lease,
                         hf_error *err)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.owner = owner;
    options.wait_ms = 10000;
    options.lease_ms = LEASE_MS; /* fixed: it ends although we go on */
    return hf_lock_acquire_with(lock, &options, lease, err);
}

/* Returns 0 when the stale write was refused. */
static int race(hf_lock *lock, hf_owner *slow, hf_owner *quick, hf_error *err)
{
    hf_lease *old = NULL;
    hf_lease *young = NULL;
    resource r = {0, ""};
    int failed = 1;
    if (acquire(lock, slow, &old, err) == HF_OK &&
        /* Granted only when the first lease is over. */
        acquire(lock, quick, &young, err) == HF_OK) {
        int wrote = resource_write(&r, hf_lease_token(young), "in time");
        int stale = resource_write(&r, hf_lease_token(old), "too late");
        printf("the resource says \"%s\"\n", r.text);
        failed = !wrote || stale;
    }
    hf_lease_free(old);
    hf_lease_free(young);
    return failed;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "example:fenced";
    int failed = 1;
    hf_error err = HF_ERROR_INIT;
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.kind = HF_KIND_FENCED;
    hf_client *client = hf_client_open(NULL, NULL, &err);
    hf_owner *slow = client ? hf_owner_new(client, &err) : NULL;
    hf_owner *quick = slow ? hf_owner_new(client, &err) : NULL;
    hf_lock *lock =
        quick ? hf_lock_open_with(client, name, strlen(name), &options, &err)
              : NULL;
    if (lock) {
        failed = race(lock, slow, quick, &err);
    }
    if (hf_error_status(&err) != HF_OK) {
        fprintf(stderr, "%s\n", hf_error_text(&err));
    }
    hf_lock_free(lock);
    hf_owner_free(quick);
    hf_owner_free(slow);
    hf_client_free(client);
    return failed;
}
