/* What the next item needs (attention_next.h). A pass over many short sequences is bound by the time in which its
 * tensors come from beyond the second-level cache: 8 x 12 heads of 128 x 64 are 7% faster for it, 256 of 32 x 64 3%
 * (Intel family 6 model 207); where a head fills the cache, 1% is lost. */
#include "attention_next.h"

#include "size.h"

enum { LINE = 16 }; /* floats */

/* Rows [first, first + rows) of heads from head on, as far as they lie one behind the other. */
static void add(fv_next *next, const fovea_tensor *t, int64_t batch, int64_t head, int64_t first, int64_t rows) {
    const int64_t channels = t->shape[3];
    if (!t->data || t->stride[2] != channels) /* keys and values may be NULL where there are none */
        return;
    if (t->stride[1] != t->shape[2] * channels)
        rows = fv_min(rows, t->shape[2] - first);
    const float *at = (const float *)t->data + batch * t->stride[0] + head * t->stride[1] + first * t->stride[2];
    next->part[next->count++] = (fv_near){at, at + rows * channels};
}

void fv_next_open(fv_next *next, const fovea_attention_plan *plan, const fovea_attention_args *args, int64_t item) {
    const fovea_attention_desc *d = &plan->desc;
    next->count = next->now = 0;
    if (!plan->fetches_next || item >= plan->items)
        return;
    const int64_t block = item % plan->blocks, head = item / plan->blocks % d->kv_heads;
    const int64_t batch = item / plan->blocks / d->kv_heads;
    const int64_t row = block * plan->choice.block_rows, rows = fv_min(plan->choice.block_rows, plan->rows - row);
    const int64_t q_head = head * plan->group + row / d->q_len, query = row % d->q_len;
    add(next, &args->q, batch, q_head, query, rows);
    if (block == 0) {
        add(next, &args->k, batch, head, 0, d->kv_len);
        add(next, &args->v, batch, head, 0, d->kv_len);
    }
    add(next, &args->out, batch, q_head, query, rows);
}

void fv_next_take(fv_next *next, const fv_kernel *gemm, int64_t rows, int64_t k, fv_merge *merge) {
    if (next->now >= next->count)
        return;
    fv_near *part = &next->part[next->now];
    fv_near_take(part, fv_ceil_div(rows, gemm->mr) * k * LINE, merge);
    next->now += part->at == part->end;
}
