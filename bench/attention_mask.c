/* The mask of an attention that is timed: one for all sequences and heads. What it lets rows see is made first, as
 * bytes, by which results are checked and pairs are counted, and then said as the kind that is asked for. */
#include <stdlib.h>
#include <string.h>

#include "attention_bench.h"

enum { BLOCK = 64, DOCUMENTS = 16 };

static bool sees(const attention *self, int64_t i, int64_t j, uint64_t *state) {
    const fovea_attention_desc *d = &self->desc;
    const int64_t at = i + d->kv_len - d->q_len;
    switch (self->pattern) {
    case PATTERN_CAUSAL: return j <= at;
    case PATTERN_DOCUMENTS: return i * DOCUMENTS / d->q_len == j * DOCUMENTS / d->kv_len;
    case PATTERN_PADDED: return j < d->kv_len - d->kv_len / 8;
    case PATTERN_SCATTERED: return bench_random(state) % 8 != 0;
    }
    return true;
}

/* Lists the blocks in which a row sees a key. Patterns that cut one are refused before. */
static const char *say_blocks(attention *self, const uint8_t *bytes) {
    const int64_t rows = self->desc.q_len, keys = self->desc.kv_len;
    const int64_t lists = (rows + BLOCK - 1) / BLOCK, columns = (keys + BLOCK - 1) / BLOCK;
    int64_t *starts = bench_alloc((lists + 1) * (int64_t)sizeof *starts), count = 0;
    self->blocks = bench_alloc(lists * columns * (int64_t)sizeof *self->blocks);
    self->args.mask = fovea_tensor_bhtd(starts, FOVEA_DTYPE_I64, 1, 1, 1, lists + 1);
    if (starts == NULL || self->blocks == NULL)
        return "no memory";
    for (int64_t i = 0; i < lists; i++) {
        starts[i] = count;
        for (int64_t j = 0; j < columns; j++)
            if (bytes[i * BLOCK * keys + j * BLOCK])
                self->blocks[count++] = j;
    }
    starts[lists] = count;
    self->args.mask_blocks = self->blocks;
    self->args.mask_block_count = count;
    return NULL;
}

static const char *say_ranges(attention *self, const uint8_t *bytes) {
    const int64_t rows = self->desc.q_len, keys = self->desc.kv_len;
    int64_t *ranges = bench_alloc(2 * rows * (int64_t)sizeof *ranges);
    self->args.mask = fovea_tensor_bhtd(ranges, FOVEA_DTYPE_I64, 1, 1, rows, 2);
    for (int64_t i = 0; ranges != NULL && i < rows; i++) {
        int64_t begin = 0, end = keys;
        while (begin < end && !bytes[i * keys + begin])
            begin++;
        while (end > begin && !bytes[i * keys + end - 1])
            end--;
        ranges[2 * i] = begin;
        ranges[2 * i + 1] = end;
    }
    return ranges != NULL ? NULL : "no memory";
}

static const char *say_bits(attention *self, const uint8_t *bytes) {
    const int64_t rows = self->desc.q_len, keys = self->desc.kv_len, stride = (keys + 7) / 8;
    uint8_t *bits = bench_alloc(rows * stride);
    self->args.mask = fovea_tensor_bhtd(bits, FOVEA_DTYPE_BITS, 1, 1, rows, stride);
    if (bits == NULL)
        return "no memory";
    memset(bits, 0, (size_t)(rows * stride));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < keys; j++)
            bits[i * stride + j / 8] |= (uint8_t)((bytes[i * keys + j] ? 1U : 0U) << j % 8);
    return NULL;
}

static const char *prepare(attention *self) {
    fovea_mask_desc desc;
    fovea_mask_desc_init(&desc);
    desc.kind = FOVEA_MASK_BOOLEAN;
    desc.batch = self->desc.batch;
    desc.q_heads = self->desc.q_heads;
    desc.q_len = self->desc.q_len;
    desc.kv_len = self->desc.kv_len;
    desc.mask = self->seen;
    if (fovea_mask_create(self->base.context, &desc, &self->prepared) != FOVEA_OK)
        return fovea_error_detail();
    self->args.prepared = self->prepared;
    return NULL;
}

const char *attention_mask_problem(const attention *self) {
    const fovea_mask_kind kind = self->desc.mask;
    if (kind == FOVEA_MASK_RANGES && self->pattern == PATTERN_SCATTERED)
        return "mask=ranges needs a pattern of one range a row: causal, documents or padded";
    if (kind == FOVEA_MASK_KEY_PADDING && self->pattern != PATTERN_PADDED)
        return "mask=key_padding needs pattern=padded";
    if (kind == FOVEA_MASK_BLOCKS &&
        (self->pattern != PATTERN_DOCUMENTS || self->desc.q_len % (BLOCK * DOCUMENTS) != 0 ||
         self->desc.kv_len % (BLOCK * DOCUMENTS) != 0))
        return "mask=blocks needs pattern=documents, and lengths that are multiples of 1024";
    return NULL;
}

void attention_mask_blocks(fovea_attention_desc *desc) {
    if (desc->mask == FOVEA_MASK_BLOCKS)
        desc->mask_block_rows = desc->mask_block_keys = BLOCK;
}

const char *attention_make_mask(attention *self) {
    const fovea_attention_desc *d = &self->desc;
    const int64_t n = d->q_len * d->kv_len;
    uint64_t state = 5;
    if (d->mask == FOVEA_MASK_NONE)
        return NULL;
    if (d->mask == FOVEA_MASK_ADDITIVE) {
        float *added = bench_alloc(n * (int64_t)sizeof *added);
        self->args.mask = fovea_tensor_bhtd(added, FOVEA_DTYPE_F32, 1, 1, d->q_len, d->kv_len);
        if (added != NULL)
            bench_fill(added, n, -1, 1, state);
        return added != NULL ? NULL : "no memory";
    }
    uint8_t *bytes = bench_alloc(n);
    self->seen = fovea_tensor_bhtd(bytes, FOVEA_DTYPE_BOOL, 1, 1, d->q_len, d->kv_len);
    if (bytes == NULL)
        return "no memory";
    for (int64_t i = 0; i < n; i++)
        bytes[i] = sees(self, i / d->kv_len, i % d->kv_len, &state);
    switch (d->mask) {
    case FOVEA_MASK_BITS: return say_bits(self, bytes);
    case FOVEA_MASK_RANGES: return say_ranges(self, bytes);
    case FOVEA_MASK_BLOCKS: return say_blocks(self, bytes);
    case FOVEA_MASK_PREPARED: return prepare(self);
    default: self->args.mask = self->seen;
    }
    if (d->mask == FOVEA_MASK_KEY_PADDING) /* any row */
        self->args.mask.shape[2] = 1;
    return NULL;
}

void attention_free_mask(attention *self) {
    if (self->args.mask.data != self->seen.data)
        free(self->args.mask.data);
    free(self->seen.data);
    free(self->blocks);
    fovea_mask_destroy(self->prepared);
    self->seen.data = NULL;
    self->blocks = NULL;
    self->prepared = NULL;
}
