/* A server-side script, embedded at build time. */
#ifndef HF__BASE_SCRIPT_H
#define HF__BASE_SCRIPT_H

#include <stddef.h>

typedef struct hf__script {
    const char *name;
    const char *text;
    size_t length;
    char sha1[41]; /* lower-case digits and a NUL */
} hf__script;

#endif
