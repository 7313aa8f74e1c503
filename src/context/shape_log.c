/* The log of shapes (shape_log.h).
 *
 * A shape that was logged is remembered by its hash in a table, at the place that the hash says; where two shapes share
 * a place each pushes the other out and both may be logged again, which costs a line. The file's size is limited.
 */
#include "context/shape_log.h"

#include "core/core.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLACES = 1024, LOG_BYTES = 1 << 20 };

struct fv_shape_log {
    int file;
    _Atomic uint64_t seen[PLACES];
};

fovea_status fv_shape_log_open(fv_shape_log **log, char *problem, size_t size) {
    *log = NULL;
    problem[0] = '\0';
    const char *path = getenv("FOVEA_LOG_SHAPES");
    if (!path || !*path)
        return FOVEA_OK;
    char error[FV_FILE_ERROR];
    const int file = fv_file_open_log(path, error);
    if (file < 0) {
        snprintf(problem, size, "shapes are not logged: %.300s", error);
        return FOVEA_OK;
    }
    *log = calloc(1, sizeof **log);
    if (!*log) {
        fv_file_close(file);
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for the log of shapes");
    }
    (*log)->file = file;
    return FOVEA_OK;
}

void fv_shape_log_close(fv_shape_log *log) {
    if (log)
        fv_file_close(log->file);
    free(log);
}

static void note(fv_shape_log *log, const char *line, size_t length) {
    FV_HOLD_CANCELLATION();
    const uint64_t hash = fv_hash(FV_HASH_BEGIN, line, length);
    if (atomic_exchange(&log->seen[hash % PLACES], hash) != hash)
        fv_file_append(log->file, LOG_BYTES, line, length);
}

/* " NAME=bf16", or nothing where the type is the usual one; returns text. */
static const char *type_text(const char *name, fovea_dtype dtype, fovea_dtype usual, char text[24]) {
    text[0] = '\0';
    if (dtype != usual)
        snprintf(text, 24, " %s=%s", name, fv_dtype_word(dtype));
    return text;
}

void fv_shape_log_attention(fv_shape_log *log, const fovea_attention_desc *d, int threads) {
    char line[448], types[4][24];
    const bool masked =
        d->mask != FOVEA_MASK_NONE && d->mask != FOVEA_MASK_ADDITIVE && d->mask != FOVEA_MASK_KEY_PADDING;
    const int length = snprintf(
        line, sizeof line,
        "attention batch=%" PRId64 " q_heads=%" PRId64 " kv_heads=%" PRId64 " q_len=%" PRId64 " kv_len=%" PRId64
        " head_dim=%" PRId64 " value_dim=%" PRId64 " causal=%s window_left=%" PRId64 " window_right=%" PRId64
        "%s%s%s%s%s%s%s%s threads=%d\n",
        d->batch, d->q_heads, d->kv_heads, d->q_len, d->kv_len, d->head_dim, d->value_dim, fv_causal_words[d->causal],
        d->window_left < FV_NO_LIMIT ? d->window_left : -1, d->window_right < FV_NO_LIMIT ? d->window_right : -1,
        masked ? " masked=1" : "", d->packed ? " packed=1" : "",
        type_text("dtype", d->dtype, FOVEA_DTYPE_F32, types[0]), type_text("k_dtype", d->k_dtype, d->dtype, types[1]),
        type_text("v_dtype", d->v_dtype, d->dtype, types[2]), type_text("out_dtype", d->out_dtype, d->dtype, types[3]),
        d->arithmetic ? " arithmetic=" : "", d->arithmetic ? fovea_arithmetic_name(d->arithmetic) : "", threads);
    if (length > 0 && (size_t)length < sizeof line)
        note(log, line, (size_t)length);
}

void fv_shape_log_linear(fv_shape_log *log, fovea_dtype dtype, int64_t rows, int64_t in, int64_t out, int threads) {
    char line[160], type[24];
    const int length =
        snprintf(line, sizeof line, "linear rows=%" PRId64 " in=%" PRId64 " out=%" PRId64 "%s threads=%d\n", rows, in,
                 out, type_text("dtype", dtype, FOVEA_DTYPE_F32, type), threads);
    if (length > 0 && (size_t)length < sizeof line)
        note(log, line, (size_t)length);
}
