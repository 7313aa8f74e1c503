/* Receipts of answers: a JSON file by which somebody else can check each step (docs/receipts.md is the format).
 *
 *     receipt_rows *rows = receipt_rows_begin();
 *     receipt_row_digest(logits, words, &digest)             each row of logits,
 *     receipt_rows_add(rows, &digest, token)                 and the token drawn from it
 *     receipt_write(&receipt, "answer.receipt", complaint)
 *
 *     receipt *r;
 *     if (receipt_read("answer.receipt", &r, complaint) != 0) ...            a file that is not wholly understood */
#ifndef RECEIPTS_RECEIPT_H
#define RECEIPTS_RECEIPT_H

#include "model_digest.h"

enum { RECEIPT_EVERY = 32, RECEIPT_WORD = 32 }; /* rows of a block; room for words and numbers */

/* Rows of logits of one answer, in order. */
typedef struct receipt_rows {
    int64_t count, room;
    int32_t *tokens;
    uint64_t *hashes;    /* the first 8 bytes of each row's digest, the first byte highest */
    sha256_digest *full; /* of each row; NULL where only blocks are known */
    int64_t blocks;
    sha256_digest *block; /* of each RECEIPT_EVERY rows, and of those that are left */
    sha256_digest all;
} receipt_rows;

/* 0, or -1 without memory. */
int receipt_rows_add(receipt_rows *rows, const sha256_digest *row, int32_t token);
int receipt_rows_end(receipt_rows *rows); /* blocks and all, of full */
void receipt_rows_free(receipt_rows *rows);
/* Zeros count as +0, whatever their sign. */
int receipt_row_digest(const float *logits, int64_t words, sha256_digest *digest);
uint64_t receipt_row_hash(const sha256_digest *digest);

typedef struct receipt_answer {
    uint64_t seed;
    int64_t prompt_count;
    int32_t *prompt; /* [prompt_count], or NULL: private */
    sha256_digest prompt_digest;
    receipt_rows rows;
} receipt_answer;

/* How results were made, in the words of fovea-generate's options. */
typedef enum receipt_setting {
    RECEIPT_TYPE,
    RECEIPT_WEIGHTS,
    RECEIPT_ARITHMETIC,
    RECEIPT_KEYS,
    RECEIPT_VALUES,
    RECEIPT_TEMPERATURE,
    RECEIPT_TOP_K,
    RECEIPT_TOP_P,
    RECEIPT_MIN_P,
    RECEIPT_PENALTY,
    RECEIPT_SETTINGS
} receipt_setting;

/* Shared by receipts of answers and of vectors. */
typedef struct receipt_head {
    bool changed; /* of one that was read: its fields have another SHA-256 than it states */
    int64_t bits; /* FOVEA_BITS_VERSION of what made it */
    model_digest model;
    double seconds; /* that it took */
} receipt_head;

typedef struct receipt {
    receipt_head head;
    char settings[RECEIPT_SETTINGS][RECEIPT_WORD];
    int64_t count;
    receipt_answer *answers;
} receipt;

/* The digest of token ids, 4 bytes each, little-endian. */
int receipt_prompt_digest(const int32_t *ids, int64_t count, sha256_digest *digest);

/* Refuses a file that is there; the other says beforehand whether one can be written. */
int receipt_write(const receipt *r, const char *path, complaint to);
int receipt_writable(const char *path, complaint to);

/* A receipt that is whole and of this format, without a field that is unknown; or -1 and why not. */
int receipt_read(const char *path, receipt **r, complaint to);
int receipt_read_memory(const char *bytes, size_t count, const char *name, receipt **r, complaint to);
void receipt_free(receipt *r); /* of receipt_read(); NULL is allowed */

#endif
