/* The one clock of the library. */
#include "os/os.h"

#include <time.h>

int64_t hf__now(void)
{
    struct timespec now;
    /* Cannot fail: the clock exists since Linux 2.6.39. */
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * HF__SECOND + now.tv_nsec;
}
