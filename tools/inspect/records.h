/* Values of CSV (RFC 4180, lines ending in LF) and JSON (by jansson). Functions that make JSON of others own these
 * then, and return NULL where one of them is: memory was short. */
#ifndef INSPECT_RECORDS_H
#define INSPECT_RECORDS_H

#include <jansson.h>
#include <stdio.h>

/* A field; quoted if it has a comma, a quote or a line break. */
void record_csv_text(FILE *to, const char *text);

json_t *record_text(const char *text); /* bytes that are no UTF-8 become U+FFFD */
json_t *record_number(double number);  /* null for infinities and NaN, which JSON lacks */
json_t *record_add(json_t *object, const char *name, json_t *value);
json_t *record_append(json_t *array, json_t *value);

/* Writes it in one line, numbers such that they read back as the same floats; -1: out of memory. */
int record_write(json_t *value, FILE *to);

#endif
