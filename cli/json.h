/* Output as JSON: one object per line, each with "v":1; documented in
 * holdfast(1). */
#ifndef HOLDFAST_CLI_JSON_H
#define HOLDFAST_CLI_JSON_H

#include <jansson.h>

#include <stddef.h>

/* A new object with its version; NULL when out of memory. */
json_t *json_line_new(void);
/* Sets the key if the bytes are UTF-8, else the key with "_base64" behind.
 * Returns 0 or -1, as jansson does. */
int json_set_bytes(json_t *object, const char *key, const char *bytes,
                   size_t length);
/* Writes it to stdout as one line and frees it. `failed`: whether setting a
 * member did. Returns an exit code. */
int json_line_write(json_t *object, int failed);

#endif
