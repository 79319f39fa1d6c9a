/* In the place of the embedded server, which the simulator has not got. */
#include "redis/embedded.h"

hf_status hf__embedded_ensure(hf__endpoint *out, hf_error *err)
{
    (void)out;
    return hf__error_set(err, HF_ESYSTEM, "no embedded server here");
}
