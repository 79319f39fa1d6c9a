/* A function that runs under a simple lock, the string that other programs set
 * by SET NX PX. It is called whether the lock was had or not, and the lock is
 * released behind it.
 *
 *     ./example_with_lock [NAME]
 *
 * To see it refused: `redis-cli set NAME somebody nx px 60000`, then this. */
#include <holdfast/holdfast.h>

#include <stdio.h>
#include <string.h>

static int greet(void *arg, const hf_with_context *context)
{
    if (!context->success) {
        printf("%s: %s\n", context->key, hf_status_text(context->status));
        return 1;
    }
    printf("%s, as %s: hello, %s\n", context->key, context->token,
           (const char *)arg);
    return 0;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "example:with_lock";
    char whom[] = "world";
    int returned = 1;
    hf_error err = HF_ERROR_INIT;
    hf_lock_options kind = HF_LOCK_OPTIONS_INIT;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    kind.kind = HF_KIND_SIMPLE;
    options.wait_ms = 1000;
    options.lease_ms = 5000; /* fixed, as of a lock that nobody renews */
    hf_client *client = hf_client_open(NULL, NULL, &err);
    hf_lock *lock =
        client ? hf_lock_open_with(client, name, strlen(name), &kind, &err)
               : NULL;
    hf_status status = HF_EINVAL;
    if (lock) {
        status = hf_with_lock(lock, &options, greet, whom, &returned, &err);
    }
    if (hf_error_status(&err) != HF_OK) {
        fprintf(stderr, "%s\n", hf_error_text(&err));
    }
    hf_lock_free(lock);
    hf_client_free(client);
    return status == HF_OK ? returned : 1;
}
