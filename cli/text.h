/* Names from outside, made fit for a terminal. */
#ifndef HOLDFAST_CLI_TEXT_H
#define HOLDFAST_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Room for a quoted name in a message. */
#define QUOTE_SIZE 128

/* Whether all of it is UTF-8, of any characters. */
bool text_is_utf8(const char *bytes, size_t length);

/* Writes the bytes between double quotes. Printable UTF-8 stays; everything
 * that could move a cursor, recolour or reorder a line becomes \xNN; what
 * does not fit becomes "...". Returns out. */
const char *text_quote(char *out, size_t size, const char *bytes,
                       size_t length);

/* The first of some names, and how many more there are. */
const char *text_quote_names(char *out, size_t size, char *const *names,
                             int count);

/* The same without quotes and of any length, to a stream. */
void text_print(FILE *out, const char *bytes, size_t length);

#endif
