#include <holdfast/holdfast.h>
#include <stdio.h>
int main(void)
{
    hf_error err = HF_ERROR_INIT;
    hf_lease *lease = NULL;
    hf_client *client = hf_client_open(NULL, NULL, &err);
    hf_lock *lock = client ? hf_lock_open(client, "orders:42", &err) : NULL;
    if (lock && hf_lock_acquire(lock, 10000, &lease, &err) == HF_OK) {
        if (hf_lease_is_held(lease)) /* ask before each step of the work */
            printf("mine for %d ms\n", (int)hf_lease_remaining_ms(lease));
        hf_lease_release(lease, &err);
    }
    if (hf_error_status(&err) != HF_OK)
        fprintf(stderr, "%s\n", hf_error_text(&err));
    hf_lease_free(lease);
    hf_lock_free(lock);
    hf_client_free(client);
    return hf_error_status(&err) == HF_OK ? 0 : 1;
}
