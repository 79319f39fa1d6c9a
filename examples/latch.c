/* Waits until some steps are done, by whomever and wherever: each step counts
 * the latch down, and at zero all who wait go on.
 *
 *     ./example_latch [NAME] */
#include <holdfast/holdfast.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define STEPS 3

static void *do_step(void *arg)
{
    hf_latch *latch = arg;
    hf_error err = HF_ERROR_INIT;
    int64_t left = 0;
    if (hf_latch_count_down(latch, 1, &left, &err) == HF_OK) {
        printf("done, %lld left\n", (long long)left);
    } else {
        fprintf(stderr, "%s\n", hf_error_text(&err));
    }
    return NULL;
}

static hf_status wait_for_steps(hf_latch *latch, hf_error *err)
{
    pthread_t steps[STEPS];
    int started = 0;
    while (started < STEPS &&
           pthread_create(&steps[started], NULL, do_step, latch) == 0) {
        started++;
    }
    hf_status status = hf_latch_await(latch, 10000, NULL, err);
    for (int i = 0; i < started; i++) {
        pthread_join(steps[i], NULL);
    }
    return status;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "example:latch";
    hf_error err = HF_ERROR_INIT;
    hf_status status = HF_EINVAL;
    hf_client *client = hf_client_open(NULL, NULL, &err);
    hf_latch *latch =
        client ? hf_latch_open(client, name, strlen(name), &err) : NULL;
    /* Forgotten in a minute, should a step never be done: who waits then goes
     * on as well. */
    if (latch && hf_latch_set(latch, STEPS, 60000, NULL, &err) == HF_OK) {
        status = wait_for_steps(latch, &err);
    }
    if (status == HF_OK) {
        printf("all steps are done\n");
    } else if (status == HF_NOT_ACQUIRED) {
        fprintf(stderr, "not done in time\n");
    } else {
        fprintf(stderr, "%s\n", hf_error_text(&err));
    }
    hf_latch_free(latch);
    hf_client_free(client);
    return status == HF_OK ? 0 : 1;
}
