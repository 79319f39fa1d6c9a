/* What wakes the keeper's poll, and the descriptor that tells of a loss. */
#include "os/os.h"

#include "base/heap.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

hf_status hf__waker_open(hf__waker *waker, hf_error *err)
{
    waker->armed = HF__NEVER;
    waker->timer_fd = -1;
    waker->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (waker->event_fd >= 0) {
        waker->timer_fd =
            timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    }
    if (waker->timer_fd < 0) {
        int error = errno;
        hf__waker_close(waker);
        return hf__error_set(err, HF_ESYSTEM,
                             "cannot make a wake-up descriptor: %s",
                             hf__errno_text(error));
    }
    return HF_OK;
}

void hf__waker_close(hf__waker *waker)
{
    hf__close(waker->event_fd);
    hf__close(waker->timer_fd);
    waker->event_fd = -1;
    waker->timer_fd = -1;
}

/* A full counter is as readable as any, so that the result does not matter. */
static void add_one(int fd)
{
    int saved = errno;
    uint64_t one = 1;
    ssize_t n;
    do {
        n = write(fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
    errno = saved;
}

void hf__waker_wake(hf__waker *waker)
{
    add_one(waker->event_fd);
}

void hf__waker_arm(hf__waker *waker, int64_t due)
{
    struct itimerspec when = {0}; /* all zero disarms */
    if (due == waker->armed) {
        return;
    }
    waker->armed = due;
    if (due != HF__NEVER) {
        int64_t at = due > 0 ? due : 1;
        when.it_value.tv_sec = (time_t)(at / HF__SECOND);
        when.it_value.tv_nsec = (long)(at % HF__SECOND);
    }
    (void)timerfd_settime(waker->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void drain(int fd)
{
    uint64_t count;
    ssize_t n;
    do {
        n = read(fd, &count, sizeof(count));
    } while (n < 0 && errno == EINTR);
}

void hf__waker_drain(hf__waker *waker)
{
    waker->armed = HF__NEVER;
    drain(waker->event_fd);
    drain(waker->timer_fd);
}

int hf__flag_fd_open(void)
{
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

void hf__flag_fd_raise(int fd)
{
    add_one(fd);
}
