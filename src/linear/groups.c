/* Weights in groups (kernels/groups.h): how a map packs them, and what its panels need of rows of x and of a block of
 * weights. Rows become integers once for an item. Of each block of a panel scales become floats first; then
 *   few rows      multiply the integers as they lie (q16 and q8);
 *   many rows     multiply words of i8g, made once for the block, or by the product from 4 bits;
 *   exact         multiplies floats, made of these words (panel.c).
 */
#include "linear/execution.h"

#include "core/core.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Describes groups by the parts' description; false if there is no memory. */
bool fv_linear_describe_groups(fovea_linear *l, const fovea_matrix *w) {
    l->quantized = fv_quantized_of(w);
    if (l->arithmetic == FOVEA_ARITHMETIC_Q8)
        fv_quantized_split(&l->quantized, l->in);
    if (w->quantization)
        fv_struct_read(FV_STRUCT(fovea_quantization), w->quantization, &l->given);
    l->order = malloc((size_t)l->in * sizeof *l->order);
    if (!l->order)
        return false;
    if (!fv_quantized_order(w, l->order)) {
        free(l->order);
        l->order = NULL;
    }
    l->quantized.order = l->order;
    return true;
}

void fv_linear_pack_groups(fovea_linear *l, const fovea_matrix *w, int64_t first, int64_t count, int64_t place) {
    const int64_t panel = place / l->panel;
    fv_quantized_pack(w, &l->quantized, first, count, l->panel, place % l->panel,
                      (char *)l->memory + panel * l->weights.panel * 4);
}

void fv_linear_read_integers(const fv_linear_execution *e, const fv_linear_buffers *b, const fv_row_run *run) {
    const fovea_linear *l = e->linear;
    const fovea_tensor *x = &e->args->x;
    const fv_kind kind = e->integers->kind;
    const int64_t words = fv_group_words(kind, l->in, l->quantized.group), stride = fv_linear_row_stride(x);
    const int most = l->arithmetic == FOVEA_ARITHMETIC_Q8 ? FV_Q8_MOST : FV_I8_MOST;
    const bool lies = !l->widen_x && fv_linear_together(e) == l->in;
    uint32_t *to = b->integers + (run->first + run->done) * words;
    if (lies && !l->order) {
        l->quantize(run->count, l->in, l->quantized.group, kind, most, fv_linear_place(x, run, 0, 0), stride, to);
        return;
    }
    fv_row_run row = *run;
    for (row.count = 1; row.done < run->done + run->count; row.done++, to += words) {
        float *from = b->x, *ordered = b->x + l->in;
        for (int64_t head = 0; head < x->shape[1]; head++)
            if (l->widen_x)
                l->widen_x(1, x->shape[3], fv_linear_place(x, &row, head, 0), 0, from + head * x->shape[3], 0);
            else
                l->copy(1, x->shape[3], fv_linear_place(x, &row, head, 0), 0, from + head * x->shape[3], 0);
        for (int64_t t = 0; t < l->in && l->order; t++)
            ordered[t] = from[l->order[t]];
        l->quantize(1, l->in, l->quantized.group, kind, most, l->order ? ordered : from, 0, to);
    }
}

/* Scales of a block as floats. */
static void read_scales(const fovea_linear *l, int64_t panel, int64_t k, int64_t step, float *to) {
    const fv_quantized *q = &l->quantized;
    const int64_t first = k / q->group, count = fv_ceil_div(step, q->group),
                  chunk = q->apart ? count : fv_scales_per_super(q->scales),
                  row = fv_scales_row((fv_group_extra)l->weights.group.extra, l->panel);
    const uint32_t *from = (const uint32_t *)l->memory + panel * l->weights.panel;
    for (int64_t g = 0; g < count; g += chunk, to += chunk * row)
        l->read_scales(q->scales, q->apart ? from : from + fv_quantized_words(q, l->panel, (first + g) * q->group),
                       l->panel, q->apart ? first : 0, fv_min(chunk, count - g), to);
}

/* Does a product of many rows make words of these integers itself? All of body/multiply_groups.h do. */
static bool makes_words(const fv_kernel *product, const fv_operand *w) {
#ifdef FV_HAVE_X86
    const bool zeros = w->group.extra == FV_GROUP_zero && product->kind == FV_KIND_i8; /* a group at a time */
    return w->format == FV_FORMAT_i4g && !zeros && product->isa != FV_ISA_scalar &&
           !(product->features & FV_HAS_amx_int8);
#else
    (void)product, (void)w;
    return false;
#endif
}

fv_operand fv_linear_open_groups(const fovea_linear *l, const fv_linear_buffers *b, int64_t panel, int64_t columns,
                                 int64_t k, int64_t step, const fv_kernel *product) {
    const bool expanded = product != l->few;
    const int64_t group = l->quantized.group, count = fv_ceil_div(step, group);
    assert(k % fv_linear_block_unit(l) == 0);
    fv_operand w = fv_operand_part(&l->weights, panel * l->panel, fv_round_up(columns, l->panel), k, step);
    if (!expanded && !l->quantized.apart)
        return w;
    read_scales(l, panel, k, step, b->scales);
    w.scales = b->scales;
    if (!expanded || !l->expand || (product && makes_words(product, &w)))
        return w;
    l->expand(&w, b->words, l->panel);
    w.data = b->words;
    w.format = FV_FORMAT_i8g;
    w.group.gap = 0;
    if (w.group.extra == FV_GROUP_zero) { /* subtracted: what is left are rows of scales */
        for (int64_t g = 1; g < count; g++)
            memcpy(b->scales + g * l->panel, b->scales + 2 * g * l->panel, (size_t)l->panel * sizeof *b->scales);
        w.group.extra = FV_GROUP_plain;
    }
    return w;
}
