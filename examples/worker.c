/* A worker with an event loop. It works in short steps, and only as long as
 * the lock is its own: the lease's descriptor wakes its poll when the lock is
 * lost, and before each step it asks once more, which costs no I/O.
 *
 *     ./example_worker [NAME [STEPS]]
 *
 * To see a loss: `holdfast unlock --force NAME` while it works. */
#include <holdfast/holdfast.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define STEP_MS 200

/* Runs on the client's background thread: short, and no hf_client_free. */
static void on_lost(void *arg, hf_lease *lease, hf_loss why)
{
    static const char *const reasons[] = {
        [HF_LOSS_NONE] = "no reason",
        [HF_LOSS_EXPIRED] = "it was not renewed in time",
        [HF_LOSS_REVOKED] = "the server no longer lists this owner",
        [HF_LOSS_MAX_HOLD] = "it was held for the longest time allowed",
    };
    printf("%s: %s lost it, %s\n", (const char *)arg, hf_lease_owner_id(lease),
           reasons[why]);
}

/* Returns 0 when all steps were done while the lock was held. */
static int work(hf_lease *lease, int steps, hf_error *err)
{
    struct pollfd events = {.fd = hf_lease_fd(lease, err), .events = POLLIN};
    if (events.fd < 0) {
        return 1;
    }
    for (int i = 1; i <= steps; i++) {
        /* A real worker polls its sockets and timers here as well. */
        if (poll(&events, 1, STEP_MS) > 0 || !hf_lease_is_held(lease)) {
            printf("stopped before step %d\n", i);
            return 1;
        }
        printf("step %d, the lease is valid for another %lld ms\n", i,
               (long long)hf_lease_remaining_ms(lease));
    }
    return 0;
}

static int lock_and_work(hf_lock *lock, char *name, int steps, hf_error *err)
{
    hf_lease *lease = NULL;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = HF_WAIT_FOREVER;
    options.on_lost = on_lost;
    options.on_lost_arg = name;
    if (hf_lock_acquire_with(lock, &options, &lease, err) != HF_OK) {
        return 1;
    }
    int failed = work(lease, steps, err);
    if (hf_lease_release(lease, err) != HF_OK) {
        failed = 1;
    }
    hf_lease_free(lease);
    return failed;
}

int main(int argc, char **argv)
{
    static char standard[] = "example:worker";
    char *name = argc > 1 ? argv[1] : standard;
    int steps = argc > 2 ? atoi(argv[2]) : 5;
    int failed = 1;
    hf_error err = HF_ERROR_INIT;
    hf_client *client = hf_client_open(NULL, NULL, &err);
    hf_lock *lock = client ? hf_lock_open(client, name, &err) : NULL;
    if (lock) {
        failed = lock_and_work(lock, name, steps, &err);
    }
    if (hf_error_status(&err) != HF_OK) {
        fprintf(stderr, "%s\n", hf_error_text(&err));
    }
    hf_lock_free(lock);
    hf_client_free(client);
    return failed;
}
