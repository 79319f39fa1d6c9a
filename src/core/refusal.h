/* What a server's error reply means for a lock. */
#ifndef HF__CORE_REFUSAL_H
#define HF__CORE_REFUSAL_H

#include "base/bytes.h"
#include "base/error.h"

typedef struct hf__refusal {
    hf_status status;
    bool retriable; /* passes by itself: loading, busy, failing over */
    bool not_run;   /* the script certainly changed nothing */
} hf__refusal;

/* By the first word of the reply, for inside a script the server appends to
 * the text. */
hf__refusal hf__refusal_of(hf__slice text);

#endif
