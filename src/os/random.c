/* Random bytes from the kernel, which also differ after a fork. */
#include "os/os.h"

#include <errno.h>
#include <sys/random.h>

hf_status hf__random(void *out, size_t length, hf_error *err)
{
    unsigned char *at = out;
    while (length > 0) {
        ssize_t n = getrandom(at, length, 0);
        if (n > 0) {
            at += n;
            length -= (size_t)n;
        } else if (errno != EINTR) {
            return hf__error_set(err, HF_ESYSTEM,
                                 "the kernel gives no random bytes: %s",
                                 hf__errno_text(errno));
        }
    }
    return HF_OK;
}
