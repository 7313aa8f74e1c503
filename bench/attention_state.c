/* Attention through a state (fovea/state.h) that is timed: keys in pieces, or a prefix that all sequences share, read
 * once, and then each sequence's own keys. What is computed, and checked, is the attention of the whole case. */
#include <stdlib.h>
#include <string.h>

#include "attention_bench.h"
#include "core/core.h"

enum { SEGMENT = 256 };

bool attention_has_state(const attention *self) { return self->pieces > 1 || self->prefix > 0; }

const char *attention_state_problem(const attention *self) {
    const fovea_attention_desc *d = &self->desc;
    if (!attention_has_state(self))
        return NULL;
    if (self->pieces > 1 && self->prefix > 0)
        return "pieces goes without prefix";
    if (d->mask != FOVEA_MASK_NONE || d->has_bias || d->packed || self->weights || self->beside ||
        self->call == CALL_SDPA || d->causal == FOVEA_CAUSAL_BOTTOM_RIGHT)
        return "pieces and prefix take no mask, bias, packed, weights, beside, causal=bottom_right or call=sdpa";
    if (self->prefix == 0)
        return self->pieces * SEGMENT <= d->kv_len + SEGMENT - 1 ? NULL : "pieces: at most one for each 256 keys";
    if (self->prefix % SEGMENT != 0 || self->prefix >= d->kv_len || self->kv_shortest >= 0)
        return "prefix is a multiple of 256 below kv_len, and goes without kv_lens";
    if (d->causal != FOVEA_CAUSAL_NONE || d->window_left >= 0 || d->window_right >= 0 || d->relative ||
        self->q_shortest >= 0)
        return "prefix takes no causal, window, relative or q_lens";
    return d->q_len == 1 || self->layout == LAYOUT_BTHD ? NULL : "prefix needs q_len=1 or layout=bthd";
}

/* Keys of a piece: the first, and most of the others. */
static int64_t piece_keys(const attention *self) {
    const int64_t kv_len = self->desc.kv_len;
    return self->prefix > 0 ? kv_len - self->prefix : fv_round_up(fv_ceil_div(kv_len, self->pieces), (int64_t)SEGMENT);
}

int64_t attention_state_room(const attention *self) {
    const int64_t kv_len = self->desc.kv_len;
    return attention_has_state(self) ? self->prefix + fv_round_up(kv_len - self->prefix, piece_keys(self)) : kv_len;
}

/* A plan for one of the calls; the workspace and the state are large enough for all. */
static const char *make_plan(attention *self, const fovea_attention_desc *desc, fovea_attention_plan **plan) {
    if (fovea_attention_plan_create(self->base.context, desc, plan) != FOVEA_OK)
        return fovea_error_detail();
    const size_t size = fovea_attention_plan_workspace_size(*plan);
    self->workspace_size = size > self->workspace_size ? size : self->workspace_size;
    self->state_size = fovea_attention_plan_state_size(*plan);
    return NULL;
}

const char *attention_state_plans(attention *self) {
    fovea_attention_desc desc = self->desc;
    desc.kv_len = piece_keys(self);
    const char *error = make_plan(self, &desc, &self->plan);
    if (error == NULL && self->prefix > 0) {
        desc.q_len *= desc.batch;
        desc.batch = 1;
        desc.kv_len = self->prefix;
        error = make_plan(self, &desc, &self->prefix_plan);
    }
    if (error != NULL)
        return error;
    self->workspace = bench_alloc((int64_t)self->workspace_size);
    self->state = bench_alloc((int64_t)self->state_size);
    self->piece_lens = bench_alloc(self->desc.batch * (int64_t)sizeof *self->piece_lens);
    return self->workspace && self->state && self->piece_lens ? NULL : "no memory";
}

void attention_state_share(attention *self) {
    const fovea_tensor *const sides[] = {&self->args.k, &self->args.v};
    for (int i = 0; i < 2; i++)
        for (int64_t b = 1; b < self->desc.batch; b++)
            for (int64_t h = 0; h < self->desc.kv_heads; h++)
                for (int64_t t = 0; t < self->prefix; t++) {
                    const fovea_tensor *s = sides[i];
                    const int64_t at = h * s->stride[1] + t * s->stride[2], size = fv_dtype_size(s->dtype);
                    memcpy((char *)s->data + (b * s->stride[0] + at) * size, (const char *)s->data + at * size,
                           (size_t)(s->shape[3] * size));
                }
}

/* All rows of a batch as one sequence. */
static fovea_tensor as_one(const fovea_tensor *t) {
    fovea_tensor one = *t;
    one.shape[0] = 1;
    one.shape[2] = t->shape[0] * t->shape[2];
    one.stride[2] = t->shape[2] == 1 ? t->stride[0] : t->stride[2];
    return one;
}

static fovea_status run_prefix(attention *self, fovea_attention_state *state) {
    fovea_attention_args args = self->args;
    args.out.data = args.lse.data = NULL;
    args.q_offsets = NULL;
    args.q = as_one(&args.q);
    args.k = fovea_tensor_tokens(args.k, 0, self->prefix);
    args.v = fovea_tensor_tokens(args.v, 0, self->prefix);
    args.k.shape[0] = args.v.shape[0] = 1;
    args.state = state;
    return fovea_attention_execute(self->prefix_plan, &args, self->workspace, self->workspace_size);
}

fovea_status attention_state_execute(attention *self) {
    const fovea_attention_desc *d = &self->desc;
    fovea_attention_state *state;
    fovea_status status = fovea_attention_state_init(self->prefix > 0 ? self->prefix_plan : self->plan, self->state,
                                                     self->state_size, &state);
    if (status == FOVEA_OK && self->prefix > 0)
        status = run_prefix(self, state);
    const int64_t keys = piece_keys(self);
    for (int64_t first = self->prefix; status == FOVEA_OK && first < d->kv_len; first += keys) {
        fovea_attention_args args = self->args;
        const int64_t left = fv_min(d->kv_len - first, keys);
        args.k = fovea_tensor_tokens(args.k, first, left);
        args.v = fovea_tensor_tokens(args.v, first, left);
        args.k.shape[2] = args.v.shape[2] = keys; /* as many as there is room for */
        for (int64_t b = 0; b < d->batch; b++)
            self->piece_lens[b] = fv_max(fv_min(attention_sequence_of(self, b).kv_len - first, left), 0);
        args.kv_lens = self->piece_lens;
        args.state = state;
        args.first_key = first;
        if (first + left < d->kv_len)
            args.out.data = args.lse.data = NULL;
        status = fovea_attention_execute(self->plan, &args, self->workspace, self->workspace_size);
    }
    return status;
}

void attention_state_end(attention *self) {
    fovea_attention_plan_destroy(self->prefix_plan);
    free(self->state);
    free(self->piece_lens);
    self->prefix_plan = NULL;
    self->state = NULL;
    self->piece_lens = NULL;
    self->workspace_size = 0;
}
