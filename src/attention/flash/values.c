/* The product of the weights of a tile and values (products.h): group by group of rows, panel by panel of channels, and
 * of each panel span by span of keys. The chains of all spans but the last are kept, and the next goes on from them. */
#include "attention/flash/products.h"

#include <string.h>

void fv_no_values(const fv_block *x, const fv_destination *to, int64_t first, int64_t rows) {
    for (int64_t i = first; i < first + rows && !to->a; i++)
        memset(to->o + i * to->stride, 0, (size_t)x->plan->desc.value_dim * sizeof(float));
}

/* Weights of rows of the tile and keys of a step. */
static fv_rows weights_of(const fv_block *x, const fv_values_step *step, int64_t row, int64_t rows) {
    const int64_t stride = x->plan->s_stride;
    return x->values.now->words ? (fv_rows){x->to->p + row * FV_WEIGHT_WORDS + step->begin / 2, rows, FV_WEIGHT_WORDS}
                                : (fv_rows){x->to->s + row * stride + step->begin, rows, stride};
}

static const float *from_row(const float *factors, int64_t row) { return factors ? factors + row : NULL; }

/* Rows [first, first + rows) of the tile with the keys and channels of a step, which begin or end the chains. */
static void multiply_step(fv_block *x, const fv_values_step *step, const fv_kernel *product, int64_t first,
                          int64_t rows, bool begins, bool ends, const fv_destination *to, fv_products *deferred,
                          fv_prefetch *prefetch) {
    const int64_t stride = x->plan->o_stride;
    for (int64_t row = first, count; row < first + rows; row += count) {
        count = fv_min(first + rows - row, step->most_rows);
        float *const chain = x->to->chain + row * stride + step->column;
        const fv_product it = {.a = weights_of(x, step, row, count),
                               .b = step->values,
                               .c = ends ? to->o + row * to->stride + step->column : chain,
                               .ldc = ends ? to->stride : stride,
                               .epilogue = {.start = begins ? NULL : chain,
                                            .ldstart = stride,
                                            .a = ends ? from_row(to->a, row) : NULL,
                                            .b = ends ? from_row(to->b, row) : NULL}};
        if (deferred && product == x->plan->tiles)
            fv_products_defer(deferred, product, &it);
        else
            product->run.multiply(&it.a, &it.b, it.c, it.ldc, &it.epilogue, prefetch);
        prefetch->next = NULL; /* once is enough */
    }
}

/* Where sums go by blocks, a first one that is not whole is a call of its own. */
static int64_t end_of_call(const fovea_attention_plan *p, int64_t begin, int64_t end) {
    const int64_t block = p->desc.arithmetic == FOVEA_ARITHMETIC_BF16_TILE ? FV_BLOCK : 1;
    return begin % block == 0 ? end : fv_min(end, fv_round_up(begin, block));
}

void fv_values_multiply(fv_block *x, const fv_tile *t, fv_range of, const fv_destination *to, fv_products *deferred) {
    const fovea_attention_plan *p = x->plan;
    const fv_values_source *source = fv_values_for(&x->values, t->mixed);
    const bool skips = t->mixed && source->skips && !fv_values_finite(&x->values);
    for (int64_t first = of.begin; first < of.end; first += t->group_rows) {
        const int64_t rows = fv_min(t->group_rows, of.end - first);
        const fv_range keys = x->to->groups[first / t->group_rows];
        fv_prefetch prefetch = {.streams = x->rows <= p->choice.value->mr};
        bool prefetches = true;
        fv_values_step step;
        if (keys.begin == keys.end) {
            fv_no_values(x, to, first, rows);
            continue;
        }
        for (int64_t column = 0; column < p->desc.value_dim; column += step.values.columns)
            for (int64_t key = keys.begin; key < keys.end; key = step.end) {
                source->next(&x->values, column, key, end_of_call(p, key, keys.end), &step);
                step.column = column;
                if (prefetches)
                    fv_prefetch_with_values(&x->queue, p, step.product, rows, keys.end - keys.begin, &prefetch);
                prefetches = false;
                multiply_step(x, &step, skips ? p->sources.skip : step.product, first, rows, key == keys.begin,
                              step.end == keys.end, to, deferred, &prefetch);
            }
    }
}
