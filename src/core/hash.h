/* uthash, set up so that a failed allocation is an answer and no exit: after
 * HASH_ADD, hh.tbl is NULL if there was no memory. Include before uthash.h. */
#ifndef HF__CORE_HASH_H
#define HF__CORE_HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif
