/* Output as JSON: one object per line, each with "v":1; documented in
 * holdfast(1). */
#ifndef HOLDFAST_CLI_JSON_H
#define HOLDFAST_CLI_JSON_H

#include <jansson.h>

#include <stddef.h>

/* A new object with its version; NULL when out of memory. */
json_t *json_line_new(void);
/* Sets "name" if the bytes are UTF-8, else "name_base64". Returns 0 or -1, as
 * jansson does. */
int json_line_set_name(json_t *object, const char *bytes, size_t length);
/* Writes it to stdout as one line and frees it. `failed`: whether setting a
 * member did. Returns an exit code. */
int json_line_write(json_t *object, int failed);

#endif
