/* Rows without a query, which padded batches have past their sequences' lengths (block.h). Blocks of such rows alone
 * are not computed. */
#include "attention/flash/asked.h"
#include "attention/flash/tile.h"

#include <math.h>
#include <string.h>

bool fv_block_is_padding(const fv_block *x) {
    const fv_sequence *s = &x->sequence;
    const int64_t begin = x->first.token, end = begin + x->rows; /* of rows of one head */
    return !fv_asked_rows(x->args) && !fv_asked_views(x->args) && !fv_asked_key_sums(x->args) &&
           (s->q_len == 0 || (end <= s->tokens.end && (end <= s->q_start || begin >= s->q_start + s->q_len)));
}

/* As of a row without keys; of a sink alone: sink + log(1). */
static float lse_of(const fv_block *x, int64_t row) {
    const float sink = x->plan->desc.has_sinks ? x->args->sinks[fv_place_of(x, row).head] : -INFINITY;
    return sink < INFINITY ? sink + 0.0f : NAN;
}

void fv_block_pad(const fv_block *x, int64_t first, int64_t rows) {
    const fovea_tensor *out = &x->args->out, *lse = &x->args->lse;
    for (int64_t row = first; row < first + rows; row++) {
        const int64_t query = fv_place_of(x, row).token - x->sequence.q_start;
        if (query >= 0 && query < x->sequence.q_len)
            continue;
        if (out->data)
            memset(fv_row_address(x, out, row), 0, (size_t)(out->shape[3] * fv_dtype_size(out->dtype)));
        if (lse->data)
            *fv_row_element(x, lse, row) = lse_of(x, row);
    }
}
