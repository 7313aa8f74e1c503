/* The effect of a choice (heuristics.h), for tuners: fields that have no part in a map's work are 0. */
#include "linear/linear.h"

#include "core/core.h"
#include "linear/knobs.h"

fv_linear_choice fv_linear_effect(const fovea_linear *l, int threads, int64_t rows, const fv_linear_choice *requested) {
    fv_linear_choice c = fv_linear_heuristics(l, threads, rows, requested);
    const int64_t block = fv_linear_block(l, &c, threads, rows, l->panels);
    const bool integers = fv_linear_integers(l), few = rows <= c.few_rows,
               pairs = l->pairs && c.pair_rows > 0 && rows >= c.pair_rows, only_pairs = l->pairs && !l->pack_x;
    c.items = fv_linear_group(&c, threads, block, rows, l->panels);
    c.cache_scale = rows > block && fv_linear_rows_fit(l, &c, block); /* whether rows are prefetched */
    c.row_block = c.split_rows = block;
    c.chunk = fv_min(c.chunk, block);
    c.few_rows = few;
    c.pair_rows = pairs || only_pairs;
    if (integers || few || only_pairs || l->weights.format == FV_FORMAT_f32)
        c.widened = 0;
    if (integers || few || only_pairs || l->blocks)
        c.gemm = NULL;
    if (integers || only_pairs || l->widen_x)
        c.gather = 0;
    if (!few || rows > FV_LINEAR_FEW_ROWS || !fv_linear_streams(l))
        c.ahead = 0;
    if (few)
        c.integers = 0;
    return c;
}
