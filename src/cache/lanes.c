/* Keys in lanes (pool.h). */
#include "cache/pool.h"

#include <string.h>

enum { STEP = FV_KEY_GROUP * FV_WORD_BYTES }; /* from a word of a key to its next */

void fv_lanes_read(const fovea_kv_cache *c, int32_t page, int64_t head, int64_t key, int64_t count, char *rows) {
    const int64_t bytes = c->part[FV_KEYS].row, whole = fv_round_down(bytes, FV_WORD_BYTES);
    for (int64_t i = 0; i < count; i++, rows += bytes) {
        const char *at = fv_cache_at(c, FV_KEYS, page, head, key + i);
        for (int64_t byte = 0; byte < whole; byte += FV_WORD_BYTES, at += STEP)
            memcpy(rows + byte, at, FV_WORD_BYTES);
        memcpy(rows + whole, at, (size_t)(bytes - whole));
    }
}

void fv_lanes_write(const fovea_kv_cache *c, int32_t page, int64_t head, int64_t key, int64_t count, const char *rows) {
    const int64_t bytes = c->part[FV_KEYS].row, whole = fv_round_down(bytes, FV_WORD_BYTES);
    for (int64_t i = 0; i < count; i++, rows += bytes) {
        char *at = fv_cache_at(c, FV_KEYS, page, head, key + i);
        for (int64_t byte = 0; byte < whole; byte += FV_WORD_BYTES, at += STEP)
            memcpy(at, rows + byte, FV_WORD_BYTES);
        if (whole < bytes) {
            memset(at, 0, FV_WORD_BYTES);
            memcpy(at, rows + whole, (size_t)(bytes - whole));
        }
    }
}
