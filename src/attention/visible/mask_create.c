/* Prepared masks (mask_prepared.h): made from a description, and told as bits. */
#include "attention/visible/mask_prepared.h"
#include "context/context.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <stdlib.h>
#include <string.h>

fovea_status fovea_mask_bits(const fovea_mask *mask, void *bits) {
    const fv_pointer pointers[] = {{"mask", mask}, {"bits", bits}};
    const fovea_status status = fv_pointers_check(pointers, 2);
    if (status != FOVEA_OK)
        return status;
    const int64_t bytes = fv_ceil_div(mask->kv_len, 8), rows = mask->batch * mask->q_heads * mask->q_len;
    char *to = bits;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t at = 0, count; at < bytes; at += count, to += count) {
            const int64_t head = row / mask->q_len;
            const fv_mask_rows place = {head / mask->q_heads, head % mask->q_heads, row % mask->q_len};
            const fv_keybits visible = fv_prepared_bits(mask, &place, at * 8);
            count = fv_min(bytes - at, FV_SEGMENT / 8);
            memcpy(to, visible.word, (size_t)count);
        }
    return FOVEA_OK;
}

/* ----------------------------------------------------------------------------------------------------- preparing -- */

/* The bits of count rows in a segment, and what kind of tile they make. */
static int64_t read_tile(const fovea_mask *m, const fv_mask *source, const fv_mask_rows *first, int64_t count,
                         int64_t segment, fv_keybits *bits) {
    const fv_range all = {0, fv_min(FV_SEGMENT, m->kv_len - segment * FV_SEGMENT)};
    uint64_t any = 0, different = 0;
    for (int64_t i = 0; i < count; i++) {
        const fv_mask_rows at = {first->batch, first->head, first->row + i};
        const fv_keybits range = fv_range_bits(fv_range_in_segment(fv_prepared_bounds(m, &at), segment));
        bits[i] = fv_range_bits(all);
        fv_mask_and_bits(source, &at, segment * FV_SEGMENT, all, &bits[i]);
        for (int w = 0; w < FV_SEGMENT / 64; w++) {
            any |= bits[i].word[w];
            different |= bits[i].word[w] ^ range.word[w];
        }
    }
    return any == 0 ? (different ? FV_PREPARED_HOLE : FV_PREPARED_OUTSIDE) : different ? 0 : FV_PREPARED_RANGES;
}

/* Goes through all tiles of a head: kinds first, then, where there is memory for them, bits. */
static void read_head(fovea_mask *m, const fv_mask *source, const fv_mask_rows *head) {
    fv_keybits spare[FV_PREPARED_ROWS];
    for (int64_t row = 0; row < m->kept_rows; row += FV_PREPARED_ROWS)
        for (int64_t segment = 0; segment < m->segments; segment++) {
            const fv_mask_rows first = {head->batch, head->head, row};
            int64_t *tile = fv_prepared_tile(m, fv_prepared_head(m, head), row, segment);
            if (m->bits && *tile < 0)
                continue;
            fv_keybits *bits = m->bits ? m->bits + *tile * FV_PREPARED_ROWS : spare;
            const int64_t kind =
                read_tile(m, source, &first, fv_min(FV_PREPARED_ROWS, m->kept_rows - row), segment, bits);
            if (!m->bits)
                *tile = kind < 0 ? kind : m->mixed++;
        }
}

static void read_ranges(fovea_mask *m, const fv_mask *source, const fv_mask_rows *head) {
    for (int64_t row = 0; row < m->kept_rows; row++) {
        const fv_mask_rows at = {head->batch, head->head, row};
        m->ranges[fv_prepared_head(m, head) * m->kept_rows + row] =
            fv_mask_bounds(source, &at, (fv_range){0, m->kv_len});
    }
}

static void for_each_head(fovea_mask *m, const fv_mask *source,
                          void (*read)(fovea_mask *m, const fv_mask *source, const fv_mask_rows *head)) {
    for (int64_t b = 0; b < m->kept_batch; b++)
        for (int64_t h = 0; h < m->kept_heads; h++)
            read(m, source, &(fv_mask_rows){b, h, 0});
}

/* count * size bytes, which may be 0; NULL: no memory, or more than there can be. */
static void *allocate(int64_t count, size_t size) {
    int64_t bytes;
    return fv_multiply(count, (int64_t)size, &bytes) ? malloc((size_t)fv_max(bytes, 1)) : NULL;
}

static fovea_status read_mask(fovea_mask *m, const fv_mask *source) {
    int64_t heads, rows, tiles, bits, bytes;
    if (!fv_multiply(m->kept_batch, m->kept_heads, &heads) || !fv_multiply(heads, m->kept_rows, &rows) ||
        !fv_multiply(heads, m->row_tiles, &tiles) || !fv_multiply(tiles, m->segments, &tiles) ||
        !fv_multiply(rows, (int64_t)sizeof *m->ranges, &bytes) ||
        !fv_multiply(tiles, (int64_t)sizeof *m->tiles, &bytes))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "a mask of %lld x %lld x %lld x %lld is too large", (long long)m->batch,
                       (long long)m->q_heads, (long long)m->q_len, (long long)m->kv_len);
    m->ranges = allocate(rows, sizeof *m->ranges);
    m->tiles = m->ranges ? allocate(tiles, sizeof *m->tiles) : NULL;
    if (!m->tiles)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a mask of %lld rows and %lld tiles", (long long)rows,
                       (long long)tiles);
    for_each_head(m, source, read_ranges);
    for_each_head(m, source, read_head);
    if (m->mixed == 0)
        return FOVEA_OK;
    m->bits = fv_multiply(m->mixed, FV_PREPARED_ROWS, &bits) ? allocate(bits, sizeof *m->bits) : NULL;
    if (!m->bits)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for the bits of %lld tiles of a mask",
                       (long long)m->mixed);
    for_each_head(m, source, read_head);
    return FOVEA_OK;
}

static fovea_status check_desc(const fovea_mask_desc *d) {
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"batch", d->batch}, {"q_heads", d->q_heads}, {"q_len", d->q_len}, {"kv_len", d->kv_len}};
    const fovea_status status = fv_enum_check(FV_ENUM_mask_kind, "kind", (int)d->kind);
    if (status != FOVEA_OK)
        return status;
    if (!fv_mask_selects(d->kind) || d->kind == FOVEA_MASK_PREPARED)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "kind is %s: it cannot be prepared",
                       fv_enum_name(FV_ENUM_mask_kind, (int)d->kind));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value < 0 || sizes[i].value > FV_SIZE_LIMIT)
            return fv_fail(sizes[i].value < 0 ? FOVEA_ERROR_SHAPE : FOVEA_ERROR_OVERFLOW,
                           "%s is %lld; it must be from 0 to 2^48", sizes[i].name, (long long)sizes[i].value);
    fv_span spans[2];
    return fv_mask_check(d, spans);
}

fovea_status fovea_mask_create(const fovea_context *ctx, const fovea_mask_desc *given, fovea_mask **mask) {
    FV_HOLD_EXCEPTIONS();
    if (!mask)
        return fv_fail(FOVEA_ERROR_NULL, "mask is NULL");
    *mask = NULL;
    if (!ctx || !given)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", ctx ? "desc" : "ctx");
    fovea_mask_desc d;
    fovea_mask_desc_init(&d);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_mask_desc), given, &d);
    if (status == FOVEA_OK)
        status = check_desc(&d);
    if (status != FOVEA_OK)
        return status;
    fovea_mask *m = calloc(1, sizeof *m);
    if (!m)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a mask (%zu bytes)", sizeof *m);
    const fv_mask source =
        fv_mask_of_desc(&d, fv_kernel_best(FV_OP_mask_to_bits, FV_TYPE_u8, ctx->target)->run.mask_to_bits_u8);
    const int64_t *stride = source.tensor.stride;
    m->batch = d.batch;
    m->q_heads = d.q_heads;
    m->q_len = d.q_len;
    m->kv_len = d.kv_len;
    m->kept_batch = stride[0] == 0 ? fv_min(d.batch, 1) : d.batch;
    m->kept_heads = stride[1] == 0 ? fv_min(d.q_heads, 1) : d.q_heads;
    m->kept_rows = source.one_row ? fv_min(d.q_len, 1) : d.q_len;
    m->row_tiles = fv_ceil_div(m->kept_rows, FV_PREPARED_ROWS);
    m->segments = fv_ceil_div(d.kv_len, FV_SEGMENT);
    status = fv_mask_empty(&d) ? FOVEA_OK : read_mask(m, &source); /* nobody asks one without elements */
    if (status != FOVEA_OK) {
        fovea_mask_destroy(m);
        return status;
    }
    *mask = m;
    return FOVEA_OK;
}

void fovea_mask_destroy(fovea_mask *mask) {
    if (!mask)
        return;
    free(mask->ranges);
    free(mask->tiles);
    free(mask->bits);
    free(mask);
}

fovea_status fv_mask_check_prepared(const fovea_mask_desc *d, const fovea_mask *m) {
    if (!m)
        return fv_fail(FOVEA_ERROR_NULL, "prepared is NULL, and desc.mask is FOVEA_MASK_PREPARED");
    if ((m->kept_batch != 1 && m->batch != d->batch) || (m->kept_heads != 1 && m->q_heads != d->q_heads) ||
        m->q_len != d->q_len || m->kv_len != d->kv_len)
        return fv_fail(FOVEA_ERROR_SHAPE,
                       "prepared is a mask of %lld x %lld x %lld x %lld, the description asks for %lld x %lld x %lld x "
                       "%lld",
                       (long long)m->batch, (long long)m->q_heads, (long long)m->q_len, (long long)m->kv_len,
                       (long long)d->batch, (long long)d->q_heads, (long long)d->q_len, (long long)d->kv_len);
    return FOVEA_OK;
}
