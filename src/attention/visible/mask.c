/* Kinds of masks (mask.h): how each is read, and checked. A kind is a row of the table kinds. */
#include "attention/visible/mask.h"

#include "attention/visible/mask_prepared.h"
#include "core/core.h"

#include <assert.h>
#include <string.h>

struct fv_mask_kind {
    fovea_dtype dtype;
    bool repeats_columns;                             /* by a size of 1 or a stride of 0 */
    int64_t (*channels)(const fovea_mask_desc *desc); /* of the tensor's last axis; NULL: any number of pairs */
    int64_t (*rows)(const fovea_mask_desc *desc);
    fv_range (*bounds)(const fv_mask *mask, const fv_mask_rows *row, fv_range within);
    fv_visibility (*classify)(const fv_mask *mask, const fv_mask_rows *first, int64_t count,
                              int64_t column);                                     /* NULL: SOME */
    int64_t (*next)(const fv_mask *mask, const fv_mask_rows *row, int64_t column); /* NULL: the column itself */
    void (*and_bits)(const fv_mask *mask, const fv_mask_rows *row, int64_t column, fv_range keys, fv_keybits *bits);
};

/* ------------------------------------------------------------------------------------------------ what they have -- */

static int64_t element_of(const fv_mask *mask, const fv_mask_rows *at) {
    const int64_t *stride = mask->tensor.stride;
    return at->batch * stride[0] + at->head * stride[1] + at->row * stride[2];
}

static const uint8_t *bytes_of(const fv_mask *mask, const fv_mask_rows *at) {
    return (const uint8_t *)mask->tensor.data + element_of(mask, at);
}

static const int64_t *numbers_of(const fv_mask *mask, const fv_mask_rows *at) {
    return (const int64_t *)mask->tensor.data + element_of(mask, at);
}

/* From the first to the last byte of a range that is not 0, eight at once. */
static fv_range bytes_range(const uint8_t *bytes, fv_range within) {
    int64_t begin = within.begin, end = within.end;
    uint64_t word;
    for (; begin + 8 <= end; begin += 8) {
        memcpy(&word, bytes + begin, sizeof word);
        if (word)
            break;
    }
    while (begin < end && !bytes[begin])
        begin++;
    for (; end - 8 >= begin; end -= 8) {
        memcpy(&word, bytes + end - 8, sizeof word);
        if (word)
            break;
    }
    while (end > begin && !bytes[end - 1])
        end--;
    return begin < end ? (fv_range){begin, end} : (fv_range){0, 0};
}

/* --------------------------------------------------------------------------------------------------------- bytes -- */

static int64_t key_channels(const fovea_mask_desc *d) { return d->kv_len; }
static int64_t query_rows(const fovea_mask_desc *d) { return d->q_len; }
static int64_t one_row(const fovea_mask_desc *d) {
    (void)d;
    return 1;
}

static fv_range bytes_bounds(const fv_mask *mask, const fv_mask_rows *row, fv_range within) {
    const uint8_t *bytes = bytes_of(mask, row);
    if (mask->tensor.stride[3] == 0)
        return *bytes ? within : (fv_range){0, 0};
    return bytes_range(bytes, within);
}

static void bytes_and_bits(const fv_mask *mask, const fv_mask_rows *row, int64_t column, fv_range keys,
                           fv_keybits *bits) {
    const int64_t step = mask->tensor.stride[3];
    mask->to_bits(keys.begin, keys.end, bytes_of(mask, row) + column * step, step, bits);
}

/* ---------------------------------------------------------------------------------------------------------- bits -- */

static int64_t bits_channels(const fovea_mask_desc *d) { return fv_ceil_div(d->kv_len, 8); }

/* May take in keys of the same bytes outside the range, which are cut off. */
static fv_range bits_bounds(const fv_mask *mask, const fv_mask_rows *row, fv_range within) {
    const uint8_t *bytes = bytes_of(mask, row);
    const fv_range range = bytes_range(bytes, (fv_range){within.begin / 8, fv_ceil_div(within.end, 8)});
    if (range.begin == range.end)
        return range;
    const int first = __builtin_ctz(bytes[range.begin]), last = 31 - __builtin_clz(bytes[range.end - 1]);
    return fv_range_common((fv_range){range.begin * 8 + first, (range.end - 1) * 8 + last + 1}, within);
}

/* 64 flags from flag first on, of bytes that end at end. */
static uint64_t flags_from(const uint8_t *bytes, int64_t first, int64_t end) {
    uint64_t word = 0;
    const int64_t at = first / 8, shift = first % 8;
    const int64_t count = fv_min(end - at, 8);
    for (int64_t i = 0; i < count; i++)
        word |= (uint64_t)bytes[at + i] << (8 * i);
    word >>= shift;
    if (shift && at + 8 < end)
        word |= (uint64_t)bytes[at + 8] << (64 - shift);
    return word;
}

static void bits_and_bits(const fv_mask *mask, const fv_mask_rows *row, int64_t column, fv_range keys,
                          fv_keybits *bits) {
    const uint8_t *bytes = bytes_of(mask, row);
    const int64_t end = fv_ceil_div(fv_min(column + keys.end, mask->columns), 8);
    for (int64_t word = keys.begin / 64; word * 64 < keys.end; word++)
        bits->word[word] &= flags_from(bytes, column + word * 64, end);
}

/* -------------------------------------------------------------------------------------------------------- ranges -- */

static fv_range ranges_bounds(const fv_mask *mask, const fv_mask_rows *row, fv_range within) {
    const int64_t *pairs = numbers_of(mask, row);
    fv_range all = {0, 0};
    for (int64_t i = 0; i < mask->tensor.shape[3]; i += 2)
        all = fv_range_union(all, fv_range_common((fv_range){pairs[i], pairs[i + 1]}, within));
    return all;
}

static fv_visibility ranges_classify(const fv_mask *mask, const fv_mask_rows *first, int64_t count, int64_t column) {
    (void)first, (void)count, (void)column;
    return mask->tensor.shape[3] == 2 ? FV_VISIBLE_ALL : FV_VISIBLE_SOME;
}

static int64_t ranges_next(const fv_mask *mask, const fv_mask_rows *row, int64_t column) {
    const int64_t *pairs = numbers_of(mask, row);
    int64_t next = INT64_MAX;
    for (int64_t i = 0; i < mask->tensor.shape[3]; i += 2) {
        const int64_t begin = fv_max(pairs[i], column);
        next = begin < pairs[i + 1] ? fv_min(next, begin) : next;
    }
    return next;
}

/* Sets the bits of a range of columns in the segment that begins with a column. */
static void add_range(fv_keybits *bits, fv_range range, int64_t column) {
    const fv_range here = fv_range_common(range, (fv_range){column, column + FV_SEGMENT});
    if (here.begin == here.end)
        return;
    const fv_keybits more = fv_range_bits((fv_range){here.begin - column, here.end - column});
    for (int i = 0; i < FV_SEGMENT / 64; i++)
        bits->word[i] |= more.word[i];
}

static void keep_only(fv_keybits *bits, const fv_keybits *kept) {
    for (int i = 0; i < FV_SEGMENT / 64; i++)
        bits->word[i] &= kept->word[i];
}

static void ranges_and_bits(const fv_mask *mask, const fv_mask_rows *row, int64_t column, fv_range keys,
                            fv_keybits *bits) {
    const int64_t *pairs = numbers_of(mask, row);
    fv_keybits kept = {{0}};
    (void)keys;
    for (int64_t i = 0; i < mask->tensor.shape[3]; i += 2)
        add_range(&kept, (fv_range){pairs[i], pairs[i + 1]}, column);
    keep_only(bits, &kept);
}

/* -------------------------------------------------------------------------------------------------------- blocks -- */

static int64_t list_ends(const fovea_mask_desc *d) { return fv_ceil_div(d->q_len, d->block_rows) + 1; }

/* The list of a row: blocks [begin, end). */
static fv_range list_of(const fv_mask *mask, const fv_mask_rows *row) {
    const fv_mask_rows head = {row->batch, row->head, 0};
    const int64_t *starts = numbers_of(mask, &head) + row->row / mask->block_rows;
    return (fv_range){starts[0], starts[1]};
}

static fv_range blocks_bounds(const fv_mask *mask, const fv_mask_rows *row, fv_range within) {
    const fv_range list = list_of(mask, row);
    if (list.begin == list.end)
        return (fv_range){0, 0};
    const int64_t last = mask->blocks[list.end - 1];
    return fv_range_common((fv_range){mask->blocks[list.begin] * mask->block_keys, (last + 1) * mask->block_keys},
                           within);
}

/* The first block of a list that ends behind a column, or the list's end. */
static int64_t block_from(const fv_mask *mask, fv_range list, int64_t column) {
    int64_t at = list.begin, past = list.end;
    while (at < past) {
        const int64_t middle = at + (past - at) / 2;
        if ((mask->blocks[middle] + 1) * mask->block_keys <= column)
            at = middle + 1;
        else
            past = middle;
    }
    return at;
}

static int64_t blocks_next(const fv_mask *mask, const fv_mask_rows *row, int64_t column) {
    const fv_range list = list_of(mask, row);
    const int64_t at = block_from(mask, list, column);
    return at < list.end ? fv_max(mask->blocks[at] * mask->block_keys, column) : INT64_MAX;
}

static void blocks_and_bits(const fv_mask *mask, const fv_mask_rows *row, int64_t column, fv_range keys,
                            fv_keybits *bits) {
    const fv_range list = list_of(mask, row);
    fv_keybits kept = {{0}};
    for (int64_t at = block_from(mask, list, column);
         at < list.end && mask->blocks[at] * mask->block_keys < column + keys.end; at++) {
        const int64_t first = mask->blocks[at] * mask->block_keys;
        add_range(&kept, (fv_range){first, first + mask->block_keys}, column);
    }
    keep_only(bits, &kept);
}

/* ------------------------------------------------------------------------------------------------------ prepared -- */

static fv_range prepared_bounds(const fv_mask *mask, const fv_mask_rows *row, fv_range within) {
    return fv_range_common(fv_prepared_bounds(mask->prepared, row), within);
}

static fv_visibility prepared_classify(const fv_mask *mask, const fv_mask_rows *first, int64_t count, int64_t column) {
    return fv_prepared_classify(mask->prepared, first, count, column);
}

static void prepared_and_bits(const fv_mask *mask, const fv_mask_rows *row, int64_t column, fv_range keys,
                              fv_keybits *bits) {
    const fv_keybits kept = fv_prepared_bits(mask->prepared, row, column);
    (void)keys;
    keep_only(bits, &kept);
}

/* ----------------------------------------------------------------------------------------------------- the table -- */

static const fv_mask_kind kinds[] = {
    [FOVEA_MASK_BOOLEAN] = {FOVEA_DTYPE_BOOL, true, key_channels, query_rows, bytes_bounds, NULL, NULL, bytes_and_bits},
    [FOVEA_MASK_BITS] = {FOVEA_DTYPE_BITS, false, bits_channels, query_rows, bits_bounds, NULL, NULL, bits_and_bits},
    [FOVEA_MASK_KEY_PADDING] = {FOVEA_DTYPE_BOOL, false, key_channels, one_row, bytes_bounds, NULL, NULL,
                                bytes_and_bits},
    [FOVEA_MASK_RANGES] = {FOVEA_DTYPE_I64, false, NULL, query_rows, ranges_bounds, ranges_classify, ranges_next,
                           ranges_and_bits},
    [FOVEA_MASK_BLOCKS] = {FOVEA_DTYPE_I64, false, list_ends, one_row, blocks_bounds, NULL, blocks_next,
                           blocks_and_bits},
    [FOVEA_MASK_PREPARED] = {0, false, NULL, NULL, prepared_bounds, prepared_classify, NULL, prepared_and_bits},
};

fv_range fv_mask_bounds(const fv_mask *mask, const fv_mask_rows *row, fv_range within) {
    assert(0 <= within.begin && within.begin < within.end && within.end <= mask->columns);
    return mask->kind->bounds(mask, row, within);
}

fv_visibility fv_mask_classify(const fv_mask *mask, const fv_mask_rows *first, int64_t count, int64_t column) {
    return mask->kind->classify ? mask->kind->classify(mask, first, count, column) : FV_VISIBLE_SOME;
}

int64_t fv_mask_next(const fv_mask *mask, const fv_mask_rows *row, int64_t column) {
    return mask->kind->next ? mask->kind->next(mask, row, column) : column;
}

void fv_mask_and_bits(const fv_mask *mask, const fv_mask_rows *row, int64_t column, fv_range keys, fv_keybits *bits) {
    assert(0 <= keys.begin && keys.begin < keys.end && keys.end <= FV_SEGMENT && column + keys.end <= mask->columns);
    mask->kind->and_bits(mask, row, column, keys, bits);
}

/* Only masks of bytes are large enough to come from beyond L2. */
void fv_mask_prefetch(const fv_mask *mask, const fv_mask_rows *row, int64_t column) {
    if (mask->kind->dtype != FOVEA_DTYPE_BOOL || mask->tensor.stride[3] == 0)
        return;
    const uint8_t *bytes = bytes_of(mask, row) + column;
    for (int64_t at = 0; at < fv_min(FV_SEGMENT, mask->columns - column); at += FV_ALIGNMENT)
        __builtin_prefetch(bytes + at);
}

fv_mask fv_mask_of_desc(const fovea_mask_desc *d, fv_mask_to_bits_u8_fn *to_bits) {
    if (!fv_mask_selects(d->kind))
        return (fv_mask){0};
    fv_mask mask = {.kind = &kinds[d->kind],
                    .tensor = fv_tensor_repeated(&d->mask),
                    .columns = d->kv_len,
                    .block_rows = d->block_rows,
                    .block_keys = d->block_keys,
                    .blocks = d->blocks,
                    .to_bits = to_bits};
    mask.one_row = mask.kind->rows == query_rows && mask.tensor.stride[2] == 0;
    if (d->kind == FOVEA_MASK_KEY_PADDING)
        mask.one_row = true;
    if (d->kind == FOVEA_MASK_BLOCKS)
        mask.one_row = d->q_len <= d->block_rows;
    return mask;
}

fovea_mask_desc fv_mask_desc_of(const fovea_attention_desc *d, const fovea_attention_args *args) {
    return (fovea_mask_desc){.struct_size = sizeof(fovea_mask_desc),
                             .kind = d->mask,
                             .batch = d->packed ? 1 : d->batch,
                             .q_heads = d->q_heads,
                             .q_len = d->packed ? args->q.shape[2] : d->q_len,
                             .kv_len = !d->packed || d->page_keys > 0 ? d->kv_len
                                       : args->k.data                 ? args->k.shape[2]
                                                                      : 0,
                             .mask = args->mask,
                             .block_rows = d->mask_block_rows,
                             .block_keys = d->mask_block_keys,
                             .blocks = args->mask_blocks,
                             .block_count = args->mask_block_count};
}

fv_mask fv_mask_of_args(const fovea_attention_desc *d, const fovea_attention_args *args,
                        fv_mask_to_bits_u8_fn *to_bits) {
    const fovea_mask_desc desc = fv_mask_desc_of(d, args);
    if (desc.kv_len == 0)
        return (fv_mask){0};
    fv_mask mask = fv_mask_of_desc(&desc, to_bits);
    mask.prepared = args->prepared;
    if (d->mask == FOVEA_MASK_PREPARED)
        mask.one_row = fv_prepared_one_row(args->prepared);
    return mask;
}

fv_mask fv_mask_of_flags(const uint8_t *flags, int64_t stride, int64_t columns) {
    return (fv_mask){
        .kind = &kinds[FOVEA_MASK_BITS],
        .tensor = {.data = (void *)(uintptr_t)flags, .dtype = FOVEA_DTYPE_BITS, .stride = {stride, 0, 0, 1}},
        .columns = columns,
        .one_row = true,
        .by_sequence = true};
}

/* -------------------------------------------------------------------------------------------------------- checks -- */

bool fv_mask_empty(const fovea_mask_desc *d) {
    return d->batch == 0 || d->q_heads == 0 || d->q_len == 0 || d->kv_len == 0;
}

fovea_status fv_mask_check(const fovea_mask_desc *d, fv_span spans[2]) {
    const fv_mask_kind *kind = &kinds[d->kind];
    spans[0] = (fv_span){"mask", 0, 0};
    spans[1] = (fv_span){"mask_blocks", 0, 0};
    if (d->kind == FOVEA_MASK_BLOCKS) {
        const fovea_status status = fv_mask_block_sizes_check(d);
        if (status != FOVEA_OK)
            return status;
        spans[1] = fv_lens_span("mask_blocks", d->blocks, d->block_count);
    }
    const fovea_tensor *t = &d->mask;
    if (!t->data)
        return fv_mask_empty(d) ? FOVEA_OK : fv_fail(FOVEA_ERROR_NULL, "mask is NULL");
    const int64_t channels = kind->channels ? kind->channels(d) : t->shape[3], rows = kind->rows(d);
    const bool one_head_row = d->kind == FOVEA_MASK_KEY_PADDING;
    if (!kind->channels && (channels < 2 || channels % 2 != 0))
        return fv_fail(FOVEA_ERROR_SHAPE, "mask: channel axis has %lld elements: ranges are pairs",
                       (long long)channels);
    if (!kind->repeats_columns && t->shape[3] > 1 && t->stride[3] != 1 && !fv_tensor_empty(t))
        return fv_fail(FOVEA_ERROR_STRIDE, "mask: channel stride is %lld; it must be 1", (long long)t->stride[3]);
    if (!kind->repeats_columns && t->shape[3] != channels)
        return fv_fail(FOVEA_ERROR_SHAPE, "mask: channel axis has %lld elements, the description asks for %lld",
                       (long long)t->shape[3], (long long)channels);
    const fv_tensor_rule rule = {
        "mask", kind->dtype, {d->batch, one_head_row ? 1 : d->q_heads, rows, channels}, false, true};
    const fovea_status status = fv_tensor_check(t, &rule, &spans[0]);
    return status == FOVEA_OK && d->kind == FOVEA_MASK_BLOCKS && !fv_tensor_empty(t) ? fv_mask_blocks_check(d) : status;
}
