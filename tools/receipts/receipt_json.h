/* Shared by writing and reading of receipts. */
#ifndef RECEIPTS_RECEIPT_JSON_H
#define RECEIPTS_RECEIPT_JSON_H

#include "receipt.h"

#include <jansson.h>

#define RECEIPT_FORMAT "fovea-receipt 1"

/* In `arithmetic` up to values, then in `sampling`. */
extern const char *const receipt_setting_names[RECEIPT_SETTINGS];

/* The digest of all fields but sha256: as JSON without spaces, keys sorted. 0, or -1 without memory. */
int receipt_seal(json_t *root, sha256_digest *digest);

#endif
