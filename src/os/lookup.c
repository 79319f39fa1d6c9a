/* Looking a host up, without waiting for it: getaddrinfo takes as long as the
 * name service pleases, so it runs in a thread of its own, which ends by itself
 * and which nobody joins. */
#include "os/os.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct hf__lookup {
    atomic_int refs; /* the thread and who started it */
    int end;         /* the thread's; its shutdown is the news */
    char *host;
    int port;
    hf_status status;
    hf_error error;
    hf__address_list *list;
    atomic_bool answered; /* set last: orders the three above */
};

void hf__lookup_drop(hf__lookup *lookup)
{
    if (!lookup || atomic_fetch_sub(&lookup->refs, 1) != 1) {
        return;
    }
    hf__address_list_free(lookup->list);
    free(lookup->host);
    free(lookup);
}

static void *look_up(void *arg)
{
    hf__lookup *lookup = arg;
    lookup->status = hf__resolve(lookup->host, lookup->port, NULL,
                                 &lookup->list, &lookup->error);
    atomic_store(&lookup->answered, true);
    hf__socket_shutdown(lookup->end); /* seen even if a child has a copy */
    hf__close(lookup->end);
    hf__lookup_drop(lookup);
    return NULL;
}

static int start_detached(hf__lookup *lookup)
{
    sigset_t all;
    sigset_t before;
    pthread_t thread;
    /* The program's signals are the program's threads'. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, look_up, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        pthread_detach(thread);
    }
    return error;
}

hf_status hf__lookup_start(const char *host, int port, hf__lookup **out,
                           int *fd, hf_error *err)
{
    int ends[2];
    hf__lookup *lookup = calloc(1, sizeof(*lookup));
    if (!lookup || !(lookup->host = strdup(host))) {
        free(lookup);
        return hf__error_nomem(err);
    }
    lookup->refs = 2;
    lookup->port = port;
    int error = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        error = errno;
    } else {
        lookup->end = ends[1];
        error = start_detached(lookup);
        if (error != 0) {
            hf__close(ends[0]);
            hf__close(ends[1]);
        }
    }
    if (error != 0) {
        lookup->refs = 1;
        hf__lookup_drop(lookup);
        return hf__error_set_retriable(err, HF_ESYSTEM,
                                       "cannot look up host %.200s: %s", host,
                                       hf__errno_text(error));
    }
    *fd = ends[0];
    *out = lookup;
    return HF_OK;
}

hf_status hf__lookup_take(hf__lookup *lookup, hf__address_list **out,
                          hf_error *err)
{
    (void)atomic_load(&lookup->answered); /* true, for the news has come */
    if (lookup->status == HF_OK) {
        *out = lookup->list;
        lookup->list = NULL;
    } else {
        hf__error_copy(err, &lookup->error);
    }
    return lookup->status;
}
