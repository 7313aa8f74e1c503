/* Values of CSV (RFC 4180, lines ending in LF) and JSON (RFC 8259). */
#ifndef INSPECT_RECORDS_H
#define INSPECT_RECORDS_H

#include <stdio.h>

/* A field; quoted if it has a comma, a quote or a line break. */
void record_csv_text(FILE *to, const char *text);

/* A string with its quotes. Bytes that are no UTF-8 become U+FFFD. */
void record_json_text(FILE *to, const char *text);

/* A number that reads back as the same float; null for infinities and NaN, which JSON lacks. */
void record_json_number(FILE *to, double number);

#endif
