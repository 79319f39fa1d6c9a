/* What semaphores, permits and latches have in common: a number on the server,
 * and changes of it that must not be made twice, though a reply be lost. */
#ifndef HF__CLIENT_SYNCHRONIZER_H
#define HF__CLIENT_SYNCHRONIZER_H

#include "client/client_int.h"

/* Permits and counts are Java's int. */
#define HF__COUNT_MAX INT64_C(2147483647)

/* Refuses what is not from `least` to HF__COUNT_MAX. */
hf_status hf__count_check(int64_t count, int64_t least, hf_error *err);

/* A script with these keys: the name, the records' name, and the target's
 * other name if it has one; then the owner's id and the change's number; what
 * follows is added to `call`, its numbers in digits[1] and [2]. It keeps in the
 * owner's record what it has done and answered, and so may be said again. */
typedef struct hf__change {
    hf_client *client;
    hf__target *target;
    hf__call call;
    char owner[HF__OWNER_SIZE];
} hf__change;

/* `records`: which of the target's names. */
hf_status hf__change_begin(hf__change *change, hf_client *client,
                           const hf__goal *goal, size_t records,
                           const hf__script *script, hf_error *err);
/* `answer`, which may be NULL, is the script's integer. HF_EUNKNOWN: it may or
 * may not have been made. */
hf_status hf__change_make(hf__change *change, int64_t *answer, hf_error *err);

/* Makes a synchronizer unless there is one; *made, which may be NULL, tells.
 * The message NULL is the number itself. */
typedef struct hf__beginning {
    size_t records;
    int64_t count;
    int64_t lifetime_ms; /* 0: for ever */
    const char *message;
} hf__beginning;

hf_status hf__counter_set(hf_client *client, const hf__goal *goal,
                          const hf__beginning *beginning, int *made,
                          hf_error *err);
/* 0 if there is none. */
hf_status hf__counter_get(hf_client *client, const hf__goal *goal,
                          int64_t *count, hf_error *err);
typedef struct hf__addition {
    size_t records;
    int64_t count;  /* may be below 0 */
    bool if_exists; /* nothing if there is none */
} hf__addition;

hf_status hf__counter_add(hf_client *client, const hf__goal *goal,
                          const hf__addition *addition, int64_t *done,
                          hf_error *err);

#endif
