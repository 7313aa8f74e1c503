/* Pages: how their parts lie, and those of a caller (cache.h). */
#include "cache/pool.h"

/* How rows of keys or of values lie. */
typedef struct stored {
    int64_t row, word;             /* bytes of channels; of a word of interleaved ones, else 0 */
    int64_t scale_row, scale_word; /* likewise */
    int64_t group;                 /* keys */
    fovea_dtype scales;
} stored;

static stored stored_as(fovea_dtype dtype, bool keys, int64_t channels) {
    const int64_t row = channels * fv_dtype_bits(dtype) / 8;
    if (dtype == FOVEA_DTYPE_I8)
        return (stored){row, keys ? 4 : 0, sizeof(float), 0, FV_KEY_GROUP, FOVEA_DTYPE_F32};
    if (dtype == FOVEA_DTYPE_I4)
        return (stored){4 * fv_i4_words(keys ? FV_I4_KEY : FV_I4_VALUE, channels),
                        keys ? 4 : 0,
                        2 * fv_i4_groups(channels),
                        2,
                        FV_I4_KEYS,
                        FOVEA_DTYPE_F16};
    return (stored){.row = row,
                    .word = keys && row <= FV_MOST_LANE_BYTES ? fv_interleaved_word(dtype) * fv_dtype_size(dtype) : 0,
                    .group = FV_KEY_GROUP};
}

int64_t fv_stored_bytes(fovea_dtype dtype, bool keys, int64_t channels) {
    const stored s = stored_as(dtype, keys, channels);
    return s.row + s.scale_row;
}

fovea_status fv_stored_check(const char *name, fovea_dtype dtype, bool keys, int64_t channels, int64_t page_keys) {
    if (fv_type_of(dtype) != FV_TYPE_COUNT)
        return FOVEA_OK;
    if (!fv_dtype_paged(dtype) || !fv_dtype_built(dtype))
        return fv_dtype_refuse(name, dtype, "a cache keeps FOVEA_DTYPE_F32, _BF16, _F16, _I8 and _I4");
    const stored s = stored_as(dtype, keys, channels);
    if ((s.word || s.scale_word) && channels > FV_I8_CHANNELS)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s_dim is %lld; with %s of %s it must be at most %d",
                       keys ? "head" : "value", (long long)channels, keys ? "keys" : "values",
                       fv_enum_name(FV_ENUM_dtype, (int)dtype), FV_I8_CHANNELS);
    return (s.word || s.scale_word) && page_keys % s.group != 0
               ? fv_fail(FOVEA_ERROR_SHAPE, "page_keys is %lld; with %s of %s it must be a multiple of %lld",
                         (long long)page_keys, keys ? "keys" : "values", fv_enum_name(FV_ENUM_dtype, (int)dtype),
                         (long long)s.group)
               : FOVEA_OK;
}

static void lay_out_part(fv_pages *p, fv_page_part part, int64_t row, int64_t word, int64_t group) {
    p->part[part].row = row;
    p->part[part].word = word;
    p->part[part].step = word ? fv_round_up(row, word) : row;
    p->part[part].group = group;
}

void fv_pages_lay_out(fv_pages *p, bool callers) {
    for (int side = 0; side < 2; side++) {
        const stored s = stored_as(p->dtype[side], side == 0, p->channels[side]);
        lay_out_part(p, side, s.row, callers && s.scale_row == 0 ? 0 : s.word, s.group);
        lay_out_part(p, FV_KEY_SCALES + side, s.scale_row, s.scale_word, s.group);
    }
}

/* --------------------------------------------------------------------------------------------- a caller's -- */

/* A tensor [pages, kv_heads, page_keys, channels] becomes a part. */
static fovea_status read_part(const fovea_tensor *t, const fv_tensor_rule *rule, fv_pages *p, fv_page_part part,
                              fv_span *span) {
    if (!t->data)
        return rule->shape[0] > 0 && p->kv_heads > 0 ? fv_fail(FOVEA_ERROR_NULL, "%s has no data", rule->name)
                                                     : FOVEA_OK;
    const fovea_status status = fv_tensor_check(t, rule, span);
    const int64_t bits = fv_dtype_bits(t->dtype), step = p->part[part].step, word = p->part[part].word,
                  unit = bits < 8 ? 32 : fv_max(word, 1) * 8; /* bits */
    if (status != FOVEA_OK || span->begin == span->end)
        return status;
    p->part[part].at = t->data;
    p->part[part].page = t->stride[0] * bits / 8;
    p->part[part].head = t->stride[1] * bits / 8;
    p->part[part].step = t->stride[2] * bits / 8;
    const bool integers = fv_dtype_paged(p->dtype[part % 2]), fixed = part != FV_VALUES || bits < 8;
    if (integers && fixed && p->part[part].step != step)
        return fv_fail(FOVEA_ERROR_STRIDE, "%s: token stride is %lld; with %s it must be %lld", rule->name,
                       (long long)t->stride[2], fv_enum_name(FV_ENUM_dtype, (int)p->dtype[part % 2]),
                       (long long)(step * 8 / bits));
    if ((uintptr_t)t->data % (uintptr_t)(unit / 8) || t->stride[0] * bits % unit || t->stride[1] * bits % unit)
        return fv_fail(FOVEA_ERROR_STRIDE, "%s: pages and heads must begin with a multiple of %lld bytes", rule->name,
                       (long long)unit / 8);
    if (!integers || !fixed)
        return FOVEA_OK;
    fovea_tensor block = *t; /* with what fills up its words */
    fv_tensor_rule whole = *rule;
    block.shape[3] = whole.shape[3] = t->stride[2];
    return fv_tensor_check(&block, &whole, span);
}

fovea_status fv_pages_read(const fovea_kv_pages *given, bool written, fovea_kv_pages *own, fv_pages *p,
                           fv_span spans[FV_PAGE_PARTS]) {
    static const char *const names[FV_PAGE_PARTS] = {"k of the pages", "v of the pages", "k_scales of the pages",
                                                     "v_scales of the pages"};
    fovea_kv_pages_init(own);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_kv_pages), given, own);
    if (status != FOVEA_OK)
        return status;
    const int64_t pages = own->k.shape[0];
    if (pages < 0 || pages > FV_SIZE_LIMIT || own->table_stride < 0 || own->table_stride > FV_SIZE_LIMIT)
        return fv_fail(FOVEA_ERROR_SHAPE, "%lld pages, table_stride %lld: negative, or too large", (long long)pages,
                       (long long)own->table_stride);
    fv_pages_lay_out(p, true);
    const fovea_tensor *tensors[] = {&own->k, &own->v, &own->k_scales, &own->v_scales};
    for (int part = 0; part < FV_PAGE_PARTS && status == FOVEA_OK; part++) {
        const fovea_dtype dtype = p->dtype[part % 2];
        const stored s = stored_as(dtype, part % 2 == 0, p->channels[part % 2]);
        const bool scales = part >= FV_KEY_SCALES;
        const fv_tensor_rule rule = {names[part],
                                     scales ? s.scales : dtype,
                                     {pages, p->kv_heads, p->page_keys,
                                      scales ? s.scale_row / fv_max(fv_dtype_size(s.scales), 1) : p->channels[part]},
                                     written,
                                     false};
        if (p->part[part].row > 0)
            status = read_part(tensors[part], &rule, p, part, &spans[part]);
        else if (tensors[part]->data)
            status = fv_fail(FOVEA_ERROR_ARGUMENT, "%s are given, but elements of %s have none", names[part],
                             fv_enum_name(FV_ENUM_dtype, (int)dtype));
    }
    return status;
}

fovea_status fv_pages_check_table(const fovea_kv_pages *own, int64_t page_keys, int64_t sequence, int64_t begin,
                                  int64_t end) {
    if (own->starts && own->starts[sequence] < 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "starts[%lld] is %lld; it must be at least 0", (long long)sequence,
                       (long long)own->starts[sequence]);
    if (!own->starts && fv_ceil_div(end, page_keys) > own->table_stride)
        return fv_fail(FOVEA_ERROR_SHAPE, "sequence %lld has %lld keys: that is more than %lld pages of %lld keys",
                       (long long)sequence, (long long)end, (long long)own->table_stride, (long long)page_keys);
    const int32_t *pages = fv_pages_table(own, sequence);
    for (int64_t i = begin / page_keys; i * page_keys < end; i++)
        if (pages[i] < 0 || pages[i] >= own->k.shape[0])
            return fv_fail(FOVEA_ERROR_ARGUMENT, "page %lld of sequence %lld is %lld; there are %lld", (long long)i,
                           (long long)sequence, (long long)pages[i], (long long)own->k.shape[0]);
    return FOVEA_OK;
}
