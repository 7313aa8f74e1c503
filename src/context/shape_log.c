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
    const char *path = fv_environment("FOVEA_LOG_SHAPES");
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

/* A line, as far as it is written. */
typedef struct shape_line {
    char text[448];
    size_t length;
} shape_line;
#define ADD(line, ...) fv_text_add((line)->text, sizeof(line)->text, &(line)->length, __VA_ARGS__)

static void add_size(shape_line *line, const char *name, int64_t size) {
    ADD(line, " %s=%" PRId64, name, size < FV_NO_LIMIT ? size : -1);
}

/* Nothing where the type is the usual one. */
static void add_type(shape_line *line, const char *name, fovea_dtype dtype, fovea_dtype usual) {
    if (dtype != usual)
        ADD(line, " %s=%s", name, fv_dtype_word(dtype));
}

/* Ends the line, and writes it unless that was done before. */
static void note(fv_shape_log *log, shape_line *line, int threads) {
    FV_HOLD_CANCELLATION();
    add_size(line, "threads", threads);
    ADD(line, "\n");
    const uint64_t hash = fv_hash(FV_HASH_BEGIN, line->text, line->length);
    if (line->length < sizeof line->text && atomic_exchange(&log->seen[hash % PLACES], hash) != hash)
        fv_file_append(log->file, LOG_BYTES, line->text, line->length);
}

void fv_shape_log_attention(fv_shape_log *log, const fovea_attention_desc *d, int threads) {
    shape_line line = {.length = 0};
    ADD(&line, "attention");
#define FOVEA_DESC_SHAPE(name, initial, least, most, status, text) add_size(&line, #name, d->name);
#include "fovea/fields.inc"
    ADD(&line, " causal=%s", fv_causal_words[d->causal]);
    if (d->mask != FOVEA_MASK_NONE && d->mask != FOVEA_MASK_ADDITIVE && d->mask != FOVEA_MASK_KEY_PADDING)
        ADD(&line, " masked=1");
    if (d->packed)
        ADD(&line, " packed=1");
#define FOVEA_DESC_DTYPE(name, initial, text) add_type(&line, #name, d->name, (initial) ? (initial) : d->dtype);
#include "fovea/fields.inc"
    if (d->arithmetic)
        ADD(&line, " arithmetic=%s", fovea_arithmetic_name(d->arithmetic));
    note(log, &line, threads);
}

void fv_shape_log_linear(fv_shape_log *log, fovea_dtype dtype, int64_t rows, int64_t in, int64_t out, int threads) {
    shape_line line = {.length = 0};
    ADD(&line, "linear");
    add_size(&line, "rows", rows);
    add_size(&line, "in", in);
    add_size(&line, "out", out);
    add_type(&line, "dtype", dtype, FOVEA_DTYPE_F32);
    note(log, &line, threads);
}
