/* Rows of outputs (mask_rows.h). */
#include "mask_rows.h"

#include "reference.h"

#include <math.h>

float element(const fovea_tensor *t, int64_t b, int64_t h, int64_t i, int64_t c) { return tensor_row(t, b, h, i)[c]; }

bool canonical(const outputs *out) {
    for (int64_t i = 0; i < out->floats; i++) {
        uint32_t bits = float_bits(out->memory[i]);
        if (bits == 0x80000000 || (float_is_nan(out->memory[i]) && bits != CANONICAL_NAN))
            return false;
    }
    return true;
}

void set_row(float *row, int64_t n, float value) {
    for (int64_t i = 0; i < n; i++)
        row[i] = value;
}

bool row_is_empty(const attention_case *c, const outputs *out, int64_t b, int64_t h, int64_t i) {
    bool ok = float_bits(element(&out->lse, b, h, i, 0)) == float_bits(-INFINITY);
    for (int64_t n = 0; n < c->desc.value_dim; n++)
        ok = ok && float_bits(element(&out->out, b, h, i, n)) == 0;
    for (int64_t j = 0; c->weights && j < c->desc.kv_len; j++)
        ok = ok && float_bits(element(&out->weights, b, h, i, j)) == 0;
    return ok;
}

bool row_is_nan(const attention_case *c, const inputs *in, const outputs *out, int64_t b, int64_t h, int64_t i) {
    bool ok = float_bits(element(&out->lse, b, h, i, 0)) == CANONICAL_NAN;
    for (int64_t n = 0; n < c->desc.value_dim; n++)
        ok = ok && float_bits(element(&out->out, b, h, i, n)) == CANONICAL_NAN;
    for (int64_t j = 0; c->weights && j < c->desc.kv_len; j++)
        ok = ok && float_bits(element(&out->weights, b, h, i, j)) ==
                       (reference_attends(&c->desc, &in->args, b, h, i, j) ? (uint32_t)CANONICAL_NAN : 0);
    return ok;
}

bool row_same(const attention_case *c, const outputs *x, const outputs *y, int64_t b, int64_t h, int64_t i) {
    return first_difference(tensor_row(&x->out, b, h, i), tensor_row(&y->out, b, h, i), c->desc.value_dim) < 0 &&
           float_bits(element(&x->lse, b, h, i, 0)) == float_bits(element(&y->lse, b, h, i, 0)) &&
           (!c->weights ||
            first_difference(tensor_row(&x->weights, b, h, i), tensor_row(&y->weights, b, h, i), c->desc.kv_len) < 0);
}

int64_t attended_keys(const attention_case *c, const inputs *in, int64_t b, int64_t h, int64_t i) {
    int64_t n = 0;
    for (int64_t j = 0; j < c->desc.kv_len; j++)
        n += reference_attends(&c->desc, &in->args, b, h, i, j);
    return n;
}
