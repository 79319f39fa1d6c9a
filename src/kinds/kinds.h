/* All kinds, by the numbers of the public header. */
#ifndef HF__KINDS_KINDS_H
#define HF__KINDS_KINDS_H

#include "core/kind.h"
#include "holdfast/holdfast.h"

/* NULL if there is no such kind. */
const hf__kind *hf__kind_of(hf_kind kind);

#endif
