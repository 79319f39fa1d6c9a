/* A wait that SIGINT or SIGTERM ends: a thread watches for signals and fires
 * the cancel handle, the acquisition returns HF_CANCELLED, and nothing of it
 * stays on the server.
 *
 *     ./example_cancel [NAME]
 *
 * To see it: `holdfast run NAME -- sleep 60` in another terminal, then press
 * Ctrl-C here. */
#include <holdfast/holdfast.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

typedef struct watch {
    sigset_t signals;
    hf_cancel *cancel;
} watch;

static void *watch_signals(void *arg)
{
    int number = 0;
    watch *w = arg;
    sigwait(&w->signals, &number);
    hf_cancel_fire(w->cancel);
    return NULL;
}

static hf_status acquire_and_release(hf_lock *lock, hf_cancel *cancel,
                                     hf_error *err)
{
    hf_lease *lease = NULL;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = HF_WAIT_FOREVER;
    options.cancel = cancel;
    hf_status status = hf_lock_acquire_with(lock, &options, &lease, err);
    if (status == HF_OK) {
        printf("acquired by %s\n", hf_lease_owner_id(lease));
        status = hf_lease_release(lease, err);
    }
    hf_lease_free(lease);
    return status;
}

static hf_status run(const char *name, watch *w, hf_error *err)
{
    pthread_t watcher;
    hf_client *client = hf_client_open(NULL, NULL, err);
    hf_lock *lock = client ? hf_lock_open(client, name, err) : NULL;
    hf_status status = hf_error_status(err);
    if (lock && pthread_create(&watcher, NULL, watch_signals, w) != 0) {
        fprintf(stderr, "cannot start a thread\n");
        status = HF_ESYSTEM;
    } else if (lock) {
        status = acquire_and_release(lock, w->cancel, err);
        /* Ends the watcher; to fire after the acquisition does no harm. */
        pthread_kill(watcher, SIGTERM);
        pthread_join(watcher, NULL);
    }
    hf_lock_free(lock);
    hf_client_free(client);
    return status;
}

int main(int argc, char **argv)
{
    hf_error err = HF_ERROR_INIT;
    watch w = {.cancel = hf_cancel_new()};
    if (!w.cancel) {
        return 1;
    }
    /* Before any thread is started, so that all have them blocked. */
    sigemptyset(&w.signals);
    sigaddset(&w.signals, SIGINT);
    sigaddset(&w.signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &w.signals, NULL);
    hf_status status = run(argc > 1 ? argv[1] : "example:cancel", &w, &err);
    if (hf_error_status(&err) != HF_OK) {
        fprintf(stderr, "%s\n", hf_error_text(&err));
    }
    hf_cancel_free(w.cancel);
    return status == HF_OK ? 0 : 1;
}
