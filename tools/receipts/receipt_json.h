/* Shared by reading and writing of receipts, of answers and of vectors. */
#ifndef RECEIPTS_RECEIPT_JSON_H
#define RECEIPTS_RECEIPT_JSON_H

#include "receipt.h"

#include <jansson.h>

#define RECEIPT_FORMAT "fovea-receipt 1"

/* In `arithmetic` up to values, then in `sampling`. */
extern const char *const receipt_setting_names[RECEIPT_SETTINGS];

/* Reading. What returns -1 or NULL has complained. */
typedef struct receipt_reader {
    const char *name;
    complaint to;
} receipt_reader;

char *receipt_bytes(const char *path, int64_t *count, complaint to); /* to be freed */
json_t *receipt_parse(const receipt_reader *r, const char *bytes, size_t count);

/* The object of that name in another (NULL: in itself), with these fields and no others. */
json_t *receipt_object(const receipt_reader *r, json_t *in, const char *name, const char *const *fields, int count);
int receipt_hex(const receipt_reader *r, json_t *in, const char *name, sha256_digest *digest);
/* An array of that many elements, or any number if it is negative. */
json_t *receipt_array(const receipt_reader *r, json_t *in, const char *name, int64_t count, int64_t most);
/* An object whose fields are words. */
int receipt_words(const receipt_reader *r, json_t *root, const char *name, const char *const *fields, int count,
                  char (*words)[RECEIPT_WORD]);
/* Numbers as receipts spell them, in fewer than RECEIPT_WORD characters. A decimal one: digits, then optionally a point
 * and digits, then optionally e, a sign or none, and digits. */
bool receipt_digits(const char *text);
bool receipt_decimal(const char *text);
/* Checks fields and format, and reads what all receipts have. */
int receipt_head_read(const receipt_reader *r, json_t *root, const char *format, const char *const *fields, int count,
                      receipt_head *head);

/* Writing. good becomes false without memory. */
void receipt_set(json_t *object, const char *key, json_t *value, bool *good);
json_t *receipt_hex_of(const sha256_digest *digest);
void receipt_set_words(json_t *root, const char *name, const char *const *fields, int count,
                       const char (*words)[RECEIPT_WORD], bool *good);
void receipt_set_head(json_t *root, const char *format, const char *by, const receipt_head *head, bool *good);
/* Adds sha256, writes a file that is not there yet, and frees root. */
int receipt_finish(json_t *root, bool good, const char *path, complaint to);

#endif
