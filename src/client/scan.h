/* The names on a server, bit by bit. */
#ifndef HF__CLIENT_SCAN_H
#define HF__CLIENT_SCAN_H

#include "client/client_int.h"

/* A name that a scan has found. */
typedef struct hf__found {
    UT_hash_handle hh;
    struct hf__found *next; /* in the page at hand */
    bool kept;
    size_t length;
    char name[]; /* with a NUL behind */
} hf__found;

/* On the heap: an abandoned question may still look at its cursor. */
typedef struct hf__scan {
    const char *glob; /* NULL: all */
    const char *type; /* NULL: of any */
    char cursor[32];
    hf__found *page;
    size_t page_size;
    hf__found *kept; /* by name */
    bool page_read;
    bool failed; /* out of memory */
} hf__scan;

hf__scan *hf__scan_new(const char *glob, const char *type);
void hf__scan_free(hf__scan *scan);
/* Reads the next page, which may have no names, or some twice; *more is false
 * when it is the last. */
hf_status hf__scan_next(hf_client *client, hf__scan *scan, bool *more,
                        hf_error *err);
/* Keeps a name of the page at hand, so that it is known when it comes again:
 * HF_NOT_ACQUIRED if it was kept before. */
hf_status hf__scan_keep(hf__scan *scan, hf__found *found, hf_error *err);

#endif
