#include "kinds/kinds.h"

#include "kinds/fair.h"
#include "kinds/fenced.h"
#include "kinds/lock.h"
#include "kinds/permit.h"
#include "kinds/rw.h"
#include "kinds/simple.h"

static const hf__kind *const kinds[] = {
    [HF_KIND_REENTRANT] = &hf__kind_lock,
    [HF_KIND_NON_REENTRANT] = &hf__kind_lock_once,
    [HF_KIND_FAIR] = &hf__kind_fair,
    [HF_KIND_FAIR_NON_REENTRANT] = &hf__kind_fair_once,
    [HF_KIND_READ] = &hf__kind_read,
    [HF_KIND_WRITE] = &hf__kind_write,
    [HF_KIND_SPIN] = &hf__kind_spin,
    [HF_KIND_FENCED] = &hf__kind_fenced,
    [HF_KIND_SIMPLE] = &hf__kind_simple,
    [HF_KIND_PERMIT] = &hf__kind_permit,
};

const hf__kind *hf__kind_of(hf_kind kind)
{
    return (size_t)kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[kind] : NULL;
}
