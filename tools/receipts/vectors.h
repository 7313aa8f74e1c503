/* Receipts of vectors of texts (docs/receipts.md).
 *
 *     vectors_receipt r = {...};
 *     vectors_receipt_add(&r, &(vectors_entry){...}, text, complaint)          each text
 *     vectors_receipt_write(&r, "vectors.receipt", complaint)
 *     vectors_receipt_free(&r) */
#ifndef RECEIPTS_VECTORS_H
#define RECEIPTS_VECTORS_H

#include "receipt.h"

typedef struct vectors_entry {
    sha256_digest text, tokens, vector;
} vectors_entry;

typedef enum vectors_setting {
    VECTORS_TYPE,
    VECTORS_WEIGHTS,
    VECTORS_POOLING,
    VECTORS_NORMALIZED, /* how often each is divided by its length */
    VECTORS_TOKENS,     /* the most of a text */
    VECTORS_SETTINGS
} vectors_setting;

typedef struct vectors_receipt {
    receipt_head head;
    char settings[VECTORS_SETTINGS][RECEIPT_WORD];
    int64_t count, room;
    vectors_entry *entries;
    char **texts; /* NULL: private */
} vectors_receipt;

/* text NULL: they are private; else it must be UTF-8. 0, or -1 after a complaint. */
int vectors_receipt_add(vectors_receipt *r, const vectors_entry *entry, const char *text, complaint to);
void vectors_receipt_free(vectors_receipt *r);

int vectors_receipt_write(const vectors_receipt *r, const char *path, complaint to);

/* A receipt that is whole and of this format, without a field that is unknown; or -1, why not, and nothing to free. */
int vectors_receipt_read(const char *path, vectors_receipt *r, complaint to);
int vectors_receipt_read_memory(const char *bytes, size_t count, const char *name, vectors_receipt *r, complaint to);

#endif
