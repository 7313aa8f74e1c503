/* receipt.h: rows of logits. */
#include "receipt.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 4096 }; /* numbers that are hashed at once */

/* Little-endian, as numbers are in memory on every CPU that this runs on; + 0 makes -0 0. */
int receipt_row_digest(const float *logits, int64_t words, sha256_digest *digest) {
    float piece[PIECE];
    sha256 sum = sha256_begin();
    for (int64_t at = 0; at < words; at += PIECE) {
        const int64_t count = words - at < PIECE ? words - at : PIECE;
        for (int64_t i = 0; i < count; i++)
            piece[i] = logits[at + i] + 0.0f;
        sha256_add(&sum, piece, (size_t)count * sizeof *piece);
    }
    return sha256_end(&sum, digest);
}

uint64_t receipt_row_hash(const sha256_digest *digest) {
    uint64_t hash = 0;
    for (int i = 0; i < 8; i++)
        hash = hash << 8 | digest->bytes[i];
    return hash;
}

static int grow(void **at, size_t element, int64_t count) {
    void *more = realloc(*at, element * (size_t)count);
    *at = more != NULL ? more : *at;
    return more != NULL ? 0 : -1;
}

int receipt_rows_add(receipt_rows *r, const sha256_digest *row, int32_t token) {
    if (r->count == r->room) {
        const int64_t room = 2 * r->room + RECEIPT_EVERY;
        if (grow((void **)&r->tokens, sizeof *r->tokens, room) != 0 ||
            grow((void **)&r->hashes, sizeof *r->hashes, room) != 0 ||
            grow((void **)&r->full, sizeof *r->full, room) != 0)
            return -1;
        r->room = room;
    }
    r->full[r->count] = *row;
    r->hashes[r->count] = receipt_row_hash(row);
    r->tokens[r->count++] = token;
    return 0;
}

int receipt_rows_end(receipt_rows *r) {
    r->blocks = (r->count + RECEIPT_EVERY - 1) / RECEIPT_EVERY;
    r->block = malloc((size_t)(r->blocks + 1) * sizeof *r->block);
    for (int64_t i = 0; r->block != NULL && i < r->blocks; i++) {
        const int64_t first = i * RECEIPT_EVERY, left = r->count - first;
        if (sha256_of(r->full + first, (size_t)(left < RECEIPT_EVERY ? left : RECEIPT_EVERY) * sizeof *r->full,
                      &r->block[i]) != 0)
            return -1;
    }
    return r->block != NULL ? sha256_of(r->full, (size_t)r->count * sizeof *r->full, &r->all) : -1;
}

void receipt_rows_free(receipt_rows *r) {
    free(r->tokens);
    free(r->hashes);
    free(r->full);
    free(r->block);
    *r = (receipt_rows){0};
}

int receipt_prompt_digest(const int32_t *ids, int64_t count, sha256_digest *digest) {
    return sha256_of(ids, (size_t)count * sizeof *ids, digest);
}
