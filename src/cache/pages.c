/* Pages: how their parts lie, and those of a caller (cache.h). */
#include "cache/pool.h"

void fovea_kv_pages_init_size(fovea_kv_pages *pages, size_t size) {
    const fovea_kv_pages nothing = {0};
    fv_struct_init(pages, size, &nothing, sizeof nothing);
}

fovea_status fv_stored_check(const char *name, fovea_dtype dtype, int64_t channels, bool keys) {
    const bool integers = fv_scale_bytes(dtype) > 0 && fv_dtype_built(dtype);
    if (!integers && fv_type_of(dtype) == FV_TYPE_COUNT)
        return fv_dtype_refuse(name, dtype, "a cache keeps FOVEA_DTYPE_F32, _BF16, _F16 and _I8");
    return !integers || !keys || channels <= FV_I8_CHANNELS
               ? FOVEA_OK
               : fv_fail(FOVEA_ERROR_SHAPE, "head_dim is %lld; with keys of %s it must be at most %d",
                         (long long)channels, fv_enum_name(FV_ENUM_dtype, (int)dtype), FV_I8_CHANNELS);
}

void fv_pages_lay_out(fv_pages *p, bool callers) {
    for (int side = 0; side < 2; side++) {
        const fovea_dtype dtype = p->dtype[side];
        const int64_t bits = fv_dtype_bits(dtype), row = fv_ceil_div(p->channels[side] * bits, 8);
        const bool integers = fv_scale_bytes(dtype) > 0;
        const int64_t word = side == 0 && (integers || (!callers && row <= FV_MOST_LANE_BYTES))
                                 ? fv_interleaved_word(dtype) * bits / 8
                                 : 0;
        p->part[side].row = row;
        p->part[side].word = word;
        p->part[side].step = word ? fv_round_up(row, word) : row;
        p->part[FV_KEY_SCALES + side].row = p->part[FV_KEY_SCALES + side].step = fv_scale_bytes(dtype);
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
    const int64_t bits = fv_dtype_bits(t->dtype), step = p->part[part].step, word = p->part[part].word;
    if (status != FOVEA_OK || span->begin == span->end)
        return status;
    p->part[part].at = t->data;
    p->part[part].page = t->stride[0] * bits / 8;
    p->part[part].head = t->stride[1] * bits / 8;
    p->part[part].step = t->stride[2] * bits / 8;
    const bool fixed = word || part >= FV_KEY_SCALES;
    if (fixed && p->part[part].step != step)
        return fv_fail(FOVEA_ERROR_STRIDE, "%s: token stride is %lld; with %s it must be %lld", rule->name,
                       (long long)t->stride[2], fv_enum_name(FV_ENUM_dtype, (int)p->dtype[part % 2]),
                       (long long)(step * 8 / bits));
    if (word && ((uintptr_t)t->data | (uintptr_t)p->part[part].page | (uintptr_t)p->part[part].head) % (uintptr_t)word)
        return fv_fail(FOVEA_ERROR_STRIDE, "%s: pages and heads must begin with a multiple of %lld bytes", rule->name,
                       (long long)word);
    return FOVEA_OK;
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
    if (p->part[FV_KEYS].word && p->page_keys % FV_KEY_GROUP != 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "pages of %lld keys; with keys of %s it must be a multiple of %d",
                       (long long)p->page_keys, fv_enum_name(FV_ENUM_dtype, (int)p->dtype[0]), FV_KEY_GROUP);
    const fovea_tensor *tensors[] = {&own->k, &own->v, &own->k_scales, &own->v_scales};
    for (int part = 0; part < FV_PAGE_PARTS && status == FOVEA_OK; part++) {
        const bool scales = part >= FV_KEY_SCALES;
        const fv_tensor_rule rule = {
            names[part],
            scales ? FOVEA_DTYPE_F32 : p->dtype[part],
            {pages, p->kv_heads, p->page_keys, scales ? p->part[part].row / (int64_t)sizeof(float) : p->channels[part]},
            written,
            false};
        if (p->part[part].row > 0)
            status = read_part(tensors[part], &rule, p, part, &spans[part]);
        else if (tensors[part]->data)
            status = fv_fail(FOVEA_ERROR_ARGUMENT, "%s are given, but elements of %s have none", names[part],
                             fv_enum_name(FV_ENUM_dtype, (int)p->dtype[part % 2]));
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
