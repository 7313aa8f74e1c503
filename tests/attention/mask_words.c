/* Masks in other words (mask_words.h). */
#include "mask_words.h"

#include "attention_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t step(const fovea_tensor *t, int axis) { return t->shape[axis] == 1 ? 0 : t->stride[axis]; }

bool mask_attends(const fovea_tensor *m, int64_t b, int64_t h, int64_t i, int64_t j) {
    return ((const uint8_t *)m->data)[b * step(m, 0) + h * step(m, 1) + i * step(m, 2) + j * step(m, 3)] != 0;
}

bool mask_words_can(const fovea_attention_args *args, fovea_mask_kind kind) {
    const fovea_tensor *m = &args->mask;
    return kind != FOVEA_MASK_KEY_PADDING || (step(m, 1) == 0 && step(m, 2) == 0);
}

/* The axes of a mask, those that repeat as 1, and a tensor of these with channels of its own. */
static fovea_tensor tensor_like(const fovea_tensor *m, fovea_dtype dtype, int64_t rows, int64_t channels, size_t size,
                                void **memory) {
    const int64_t batch = step(m, 0) ? m->shape[0] : 1, heads = step(m, 1) ? m->shape[1] : 1;
    *memory = must_alloc(batch * heads * rows * channels, size);
    return fovea_tensor_bhtd(*memory, dtype, batch, heads, rows, channels);
}

static int64_t own_rows(const fovea_tensor *m) { return step(m, 2) ? m->shape[2] : 1; }

static void say_bits(mask_words *w, const fovea_tensor *m, int64_t keys) {
    const int64_t bytes = (keys + 7) / 8;
    fovea_tensor t = tensor_like(m, FOVEA_DTYPE_BITS, own_rows(m), bytes, 1, &w->memory[0]);
    uint8_t *at = t.data;
    for (int64_t b = 0; b < t.shape[0]; b++)
        for (int64_t h = 0; h < t.shape[1]; h++)
            for (int64_t i = 0; i < t.shape[2]; i++, at += bytes) {
                memset(at, 0xff, (size_t)bytes); /* behind the last key, too */
                for (int64_t j = 0; j < keys; j++)
                    if (!mask_attends(m, b, h, i, j))
                        at[j / 8] &= (uint8_t) ~(1U << j % 8);
            }
    w->args.mask = t;
}

static void say_key_padding(mask_words *w, const fovea_tensor *m, int64_t keys) {
    fovea_tensor t = tensor_like(m, FOVEA_DTYPE_BOOL, 1, keys, 1, &w->memory[0]);
    for (int64_t b = 0; b < t.shape[0]; b++)
        for (int64_t j = 0; j < keys; j++)
            ((uint8_t *)t.data)[b * keys + j] = (uint8_t)(mask_attends(m, b, 0, 0, j) ? 1 + j % 255 : 0);
    w->args.mask = t;
}

/* Writes the ranges of a row, if to is not NULL, and returns how many there are. The last one reaches past the keys. */
static int64_t row_ranges(const fovea_tensor *m, int64_t b, int64_t h, int64_t i, int64_t keys, int64_t *to) {
    int64_t count = 0;
    for (int64_t j = 0, end; j < keys; j = end) {
        for (end = j + 1; end < keys && mask_attends(m, b, h, i, end) == mask_attends(m, b, h, i, j);)
            end++;
        if (!mask_attends(m, b, h, i, j))
            continue;
        if (to) {
            to[2 * count] = j == 0 ? INT64_MIN : j;
            to[2 * count + 1] = end == keys ? INT64_MAX : end;
        }
        count++;
    }
    return count;
}

static void say_ranges(mask_words *w, const fovea_tensor *m, int64_t keys) {
    static const int64_t nothing[3][2] = {{5, 5}, {INT64_MAX, INT64_MIN}, {9, -3}};
    const int64_t batch = step(m, 0) ? m->shape[0] : 1, heads = step(m, 1) ? m->shape[1] : 1, rows = own_rows(m);
    int64_t most = 1;
    for (int64_t at = 0; at < batch * heads * rows; at++) {
        const int64_t count = row_ranges(m, at / rows / heads, at / rows % heads, at % rows, keys, NULL);
        most = count > most ? count : most;
    }
    fovea_tensor t = tensor_like(m, FOVEA_DTYPE_I64, rows, 2 * most, sizeof(int64_t), &w->memory[0]);
    int64_t *to = t.data;
    for (int64_t at = 0; at < batch * heads * rows; at++, to += 2 * most)
        for (int64_t n = row_ranges(m, at / rows / heads, at / rows % heads, at % rows, keys, to); n < most; n++)
            memcpy(to + 2 * n, nothing[(at + n) % 3], sizeof nothing[0]);
    w->args.mask = t;
}

static void say_blocks(mask_words *w, const fovea_tensor *m, int64_t queries, int64_t keys, const int64_t block[2]) {
    const int64_t lists = (queries + block[0] - 1) / block[0], columns = (keys + block[1] - 1) / block[1];
    fovea_tensor t = tensor_like(m, FOVEA_DTYPE_I64, 1, lists + 1, sizeof(int64_t), &w->memory[0]);
    int64_t *start = t.data, *blocks, count = 0;
    w->memory[1] = blocks = must_alloc(t.shape[0] * t.shape[1] * lists * columns, sizeof *blocks);
    for (int64_t b = 0; b < t.shape[0]; b++)
        for (int64_t h = 0; h < t.shape[1]; h++) {
            for (int64_t i = 0; i < lists; i++) {
                *start++ = count;
                for (int64_t j = 0; j < columns; j++)
                    if (mask_attends(m, b, h, i * block[0], j * block[1]))
                        blocks[count++] = j;
            }
            *start++ = count;
        }
    w->args.mask = t;
    w->args.mask_blocks = blocks;
    w->args.mask_block_count = count;
    w->desc.mask_block_rows = block[0];
    w->desc.mask_block_keys = block[1];
}

/* From what w says, which is freed then: whoever prepared a mask needs no other. */
static void prepare(mask_words *w, const fovea_context *ctx) {
    fovea_mask_desc d;
    fovea_mask_desc_init(&d);
    d.kind = w->desc.mask;
    d.batch = w->desc.batch;
    d.q_heads = w->desc.q_heads;
    d.q_len = w->desc.q_len;
    d.kv_len = w->desc.kv_len;
    d.mask = w->args.mask;
    d.block_rows = w->desc.mask_block_rows;
    d.block_keys = w->desc.mask_block_keys;
    d.blocks = w->args.mask_blocks;
    d.block_count = w->args.mask_block_count;
    if (fovea_mask_create(ctx, &d, &w->prepared) != FOVEA_OK) {
        fprintf(stderr, "fovea_mask_create: %s\n", fovea_error_detail());
        exit(TEST_FAILED);
    }
    for (int i = 0; i < 2; i++) {
        free(w->memory[i]);
        w->memory[i] = NULL;
    }
    fovea_attention_args none;
    fovea_attention_args_init(&none);
    w->args.mask = none.mask;
    w->args.mask_blocks = NULL;
    w->args.mask_block_count = 0;
    w->args.prepared = w->prepared;
    w->desc.mask = FOVEA_MASK_PREPARED;
}

void mask_words_make(mask_words *w, const fovea_context *ctx, const fovea_attention_desc *desc,
                     const fovea_attention_args *args, fovea_mask_kind kind, fovea_mask_kind inner,
                     const int64_t block[2]) {
    *w = (mask_words){.desc = *desc, .args = *args};
    w->desc.mask = kind == FOVEA_MASK_PREPARED ? inner : kind;
    switch (w->desc.mask) {
    case FOVEA_MASK_BITS: say_bits(w, &args->mask, desc->kv_len); break;
    case FOVEA_MASK_KEY_PADDING: say_key_padding(w, &args->mask, desc->kv_len); break;
    case FOVEA_MASK_RANGES: say_ranges(w, &args->mask, desc->kv_len); break;
    case FOVEA_MASK_BLOCKS: say_blocks(w, &args->mask, desc->q_len, desc->kv_len, block); break;
    default: break;
    }
    if (kind == FOVEA_MASK_PREPARED)
        prepare(w, ctx);
}

void mask_words_free(mask_words *w) {
    fovea_mask_destroy(w->prepared);
    for (int i = 0; i < 2; i++)
        free(w->memory[i]);
}
