/* Included before every file of the product that the simulator compiles: its
 * mutexes, conditions and threads become the simulator's, which switches
 * between coroutines of one thread of the system. */
#ifndef SIM_THREADS_H
#define SIM_THREADS_H

#include <pthread.h>
#include <stdbool.h>

struct sim_thread;

/* All zero is a mutex that nobody holds. */
typedef struct sim_mutex {
    struct sim_thread *holder;
} sim_mutex;

typedef struct sim_cond {
    char unused; /* who waits is found by the address */
} sim_cond;

int sim_mutex_init(sim_mutex *mutex, const void *attributes);
int sim_mutex_destroy(sim_mutex *mutex);
int sim_mutex_lock(sim_mutex *mutex);
int sim_mutex_trylock(sim_mutex *mutex);
int sim_mutex_unlock(sim_mutex *mutex);
int sim_cond_init(sim_cond *cond, const void *attributes);
int sim_cond_destroy(sim_cond *cond);
int sim_cond_wait(sim_cond *cond, sim_mutex *mutex);
int sim_cond_broadcast(sim_cond *cond);
int sim_pthread_create(pthread_t *id, const void *attributes,
                       void *(*body)(void *), void *arg);
int sim_pthread_join(pthread_t id, void **result);
pthread_t sim_pthread_self(void);

#undef PTHREAD_MUTEX_INITIALIZER
#define PTHREAD_MUTEX_INITIALIZER                                              \
    {                                                                          \
        NULL                                                                   \
    }
#undef pthread_equal
#define pthread_mutex_t sim_mutex
#define pthread_cond_t sim_cond
#define pthread_mutex_init sim_mutex_init
#define pthread_mutex_destroy sim_mutex_destroy
#define pthread_mutex_lock sim_mutex_lock
#define pthread_mutex_trylock sim_mutex_trylock
#define pthread_mutex_unlock sim_mutex_unlock
#define pthread_cond_init sim_cond_init
#define pthread_cond_destroy sim_cond_destroy
#define pthread_cond_wait sim_cond_wait
#define pthread_cond_broadcast sim_cond_broadcast
#define pthread_create sim_pthread_create
#define pthread_join sim_pthread_join
#define pthread_self sim_pthread_self
#define pthread_equal(a, b) ((a) == (b))

#endif
