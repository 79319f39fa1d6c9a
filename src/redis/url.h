/* Where a server is and how to log in, from a URL. */
#ifndef HF__REDIS_URL_H
#define HF__REDIS_URL_H

#include "base/error.h"

typedef struct hf__endpoint {
    char *host; /* NULL for a unix socket */
    int port;
    char *path; /* NULL for TCP */
    long database;
    char *username; /* NULL for the default user */
    char *password; /* NULL for none; never printed */
    char *display;  /* the URL without user and password, for messages */
} hf__endpoint;

/* Parses `redis://[user[:password]@]host[:port][/db]` (IPv6 in brackets,
 * percent-decoding of user, password, host and path),
 * `redis+unix://[user[:password]@]/path[?db=n]` and `unix:///path[?db=n]`,
 * with `valkey` for `redis` alike. An unknown scheme, an unknown query
 * parameter or a bad port or database is HF_ECONFIG; the message never quotes
 * user or password. A scheme that is planned but not there (rediss,
 * redis+sentinel, redis+cluster and their valkey synonyms) is HF_ECONFIG too
 * and says that this version does not speak it. On failure *out is untouched;
 * hf__endpoint_free ends a filled one and wipes the password's memory. */
hf_status hf__endpoint_parse(const char *url, hf__endpoint *out, hf_error *err);
/* Takes a copy over the URL's; NULL leaves as it is. */
hf_status hf__endpoint_set_login(hf__endpoint *endpoint, const char *username,
                                 const char *password, hf_error *err);
void hf__endpoint_free(hf__endpoint *endpoint);

#endif
