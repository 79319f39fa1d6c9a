/* Counts forks on the child's side. A raw clone(2) is not seen; who calls it
 * takes over all duties of fork(2). */
#include "os/os.h"

#include <pthread.h>

static pthread_once_t watch_once = PTHREAD_ONCE_INIT;
static int watch_error; /* written inside watch_once only */
static _Atomic unsigned generation;

static void in_child(void)
{
    (void)atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
}

static void start_watch(void)
{
    watch_error = pthread_atfork(NULL, NULL, in_child);
}

hf_status hf__fork_watch(hf_error *err)
{
    (void)pthread_once(&watch_once, start_watch);
    return watch_error ? hf__error_nomem(err) : HF_OK;
}

unsigned hf__fork_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}
