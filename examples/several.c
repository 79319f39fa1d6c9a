/* Two accounts that are locked together or not at all: nothing is held while
 * one of them is waited for, so that two such programs cannot block each other
 * for ever, in whatever order they name the accounts.
 *
 *     ./example_several [NAME NAME] */
#include <holdfast/holdfast.h>

#include <stdio.h>

static hf_status transfer(hf_lock *both, hf_error *err)
{
    hf_lease *lease = NULL;
    hf_status status = hf_lock_acquire(both, 10000, &lease, err);
    if (status == HF_OK) {
        /* One lease: lost as soon as one of the two locks is. */
        if (hf_lease_is_held(lease)) {
            printf("both are mine for %lld ms\n",
                   (long long)hf_lease_remaining_ms(lease));
        }
        status = hf_lease_release(lease, err);
    }
    hf_lease_free(lease);
    return status;
}

int main(int argc, char **argv)
{
    const char *from = argc > 2 ? argv[1] : "example:account:1";
    const char *to = argc > 2 ? argv[2] : "example:account:2";
    hf_error err = HF_ERROR_INIT;
    hf_lock *locks[2] = {NULL, NULL};
    hf_lock *both = NULL;
    hf_status status = HF_EINVAL;
    hf_client *client = hf_client_open(NULL, NULL, &err);
    if (client) {
        locks[0] = hf_lock_open(client, from, &err);
        locks[1] = hf_lock_open(client, to, &err);
    }
    if (locks[0] && locks[1]) {
        both = hf_multi_open(locks, 2, &err);
    }
    if (both) {
        status = transfer(both, &err);
    }
    if (hf_error_status(&err) != HF_OK) {
        fprintf(stderr, "%s\n", hf_error_text(&err));
    }
    hf_lock_free(both);
    hf_lock_free(locks[0]);
    hf_lock_free(locks[1]);
    hf_client_free(client);
    return status == HF_OK ? 0 : 1;
}
