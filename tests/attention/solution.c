/* Attention problems that were computed: see solution.h. */
#include "solution.h"

#include <inttypes.h>

solution solve(const fovea_context *ctx, attention_case c, inputs *in) {
    solution s = {c, in, outputs_make(&c, c.layout)};
    case_run(ctx, NULL, &s.c, s.in, s.out);
    return s;
}

void forget(solution *s) {
    inputs_free(s->in);
    outputs_free(s->out);
}

inputs *same_values(const attention_case *c, const solution *from) {
    rng r = rng_stream(test_seed(), "same_values");
    inputs *in = inputs_make_given(c, &r, from->in->q_lens, from->in->kv_lens, from->in->q_offsets);
    const fovea_tensor *source[] = {&from->in->args.q, &from->in->args.k, &from->in->args.v};
    fovea_tensor *to[] = {&in->args.q, &in->args.k, &in->args.v};
    for (int n = 0; n < 3; n++)
        for (int64_t b = 0; b < to[n]->shape[0]; b++)
            for (int64_t h = 0; h < to[n]->shape[1]; h++)
                for (int64_t t = 0; t < to[n]->shape[2]; t++)
                    memcpy(tensor_row(to[n], b, h, t),
                           tensor_row(source[n], b, h * source[n]->shape[1] / to[n]->shape[1], t),
                           (size_t)to[n]->shape[3] * sizeof(float));
    return in;
}

int64_t check_equal(const char *what, const solution *x, const solution *y) {
    const fovea_attention_desc *d = &x->c.desc;
    char text[512];
    int64_t wrong = 0, ordinary = 0;
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t h = 0; h < d->q_heads; h++)
            for (int64_t i = 0; i < d->q_len; i++) {
                const float *out = tensor_row(&x->out->out, b, h, i);
                bool ok = first_difference(tensor_row(&y->out->out, b, h, i), out, d->value_dim) < 0;
                if (x->c.lse && y->c.lse)
                    ok = ok &&
                         first_difference(tensor_row(&y->out->lse, b, h, i), tensor_row(&x->out->lse, b, h, i), 1) < 0;
                if (x->c.weights && y->c.weights)
                    ok = ok && first_difference(tensor_row(&y->out->weights, b, h, i),
                                                tensor_row(&x->out->weights, b, h, i), d->kv_len) < 0;
                wrong += !ok;
                ordinary += isfinite(out[0]) && out[0] != 0;
            }
    test_check(wrong == 0, "%s: %" PRId64 " rows differ (%s)", what, wrong, case_text(&y->c, text, sizeof text));
    return ordinary;
}
