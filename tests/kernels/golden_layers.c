/* Golden results of linear maps and layers (golden.h): random maps of every layout and activation, and one layer in
 * every form, whose matrices are folded and merged on the way. */
#include "golden.h"

#include "attention_case.h"
#include "fp_control.h"
#include "linear_case.h"
#include "mha_layer.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAPS = 24 };

static uint64_t hash_floats(uint64_t hash, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        hash = fnv_u32(hash, float_bits(x[i]));
    return hash;
}

static uint64_t hash_guard(uint64_t hash, const guard *g) {
    return hash_floats(hash, g->data, (int64_t)(g->size / sizeof(float)));
}

/* With what a map must not touch: gaps, rows past lengths. */
static golden_hash run_map(const fovea_context *ctx, rng *r, bool flush) {
    golden_hash hash = {FNV_START, FNV_START};
    const linear_case c = linear_case_random(r);
    linear_problem *p = linear_problem_make(&c, r);
    hash.inputs = hash_guard(hash.inputs, p->x_memory);
    fp_flush(flush);
    linear_problem_run(p, ctx);
    fp_flush(false);
    for (int i = 0; i < c.parts; i++) {
        hash.inputs = hash_guard(hash.inputs, p->weight_memory[i]);
        hash.inputs = hash_guard(hash.inputs, p->bias_memory[i]);
        hash.inputs = hash_floats(hash.inputs, p->residual_memory[i], tensor_floats(&p->y[i]));
        hash.outputs = hash_guard(hash.outputs, p->y_memory[i]);
    }
    linear_problem_free(p);
    return hash;
}

static const struct {
    const char *name;
    fovea_mha_form form;
    fovea_mha_merge merge;
    fovea_mha_fold fold;
} forms[] = {
    {"factored", FOVEA_MHA_FACTORED, FOVEA_MHA_MERGE_QUERIES, FOVEA_MHA_FOLD_NEVER},
    {"factored, values folded", FOVEA_MHA_FACTORED, FOVEA_MHA_MERGE_QUERIES, FOVEA_MHA_FOLD_ALWAYS},
    {"merged queries", FOVEA_MHA_MERGED, FOVEA_MHA_MERGE_QUERIES, FOVEA_MHA_FOLD_NEVER},
    {"merged keys", FOVEA_MHA_MERGED, FOVEA_MHA_MERGE_KEYS, FOVEA_MHA_FOLD_NEVER},
    {"folded", FOVEA_MHA_FOLDED, FOVEA_MHA_MERGE_QUERIES, FOVEA_MHA_FOLD_NEVER},
    {"tied", FOVEA_MHA_TIED, FOVEA_MHA_MERGE_QUERIES, FOVEA_MHA_FOLD_NEVER},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

static golden_hash run_layer(const fovea_context *ctx, int number, rng *r, bool flush) {
    static const layer_sizes sizes = {.batch = 2,
                                      .q_len = 21,
                                      .kv_len = 21,
                                      .heads = 3,
                                      .kv_heads = 3,
                                      .d_k = 10,
                                      .d_v = 10,
                                      .features = {30, 30, 30},
                                      .out = 26,
                                      .causal = FOVEA_CAUSAL_TOP_LEFT};
    golden_hash hash = {FNV_START, FNV_START};
    layer *l = layer_make(&sizes, r);
    fovea_mha_desc desc = l->desc;
    fovea_mha_weights w = l->w;
    desc.form = forms[number].form;
    desc.merge = forms[number].merge;
    desc.fold_values = forms[number].fold;
    float *outer = normals(r, 30 * 30, 0.2);
    if (desc.form == FOVEA_MHA_FOLDED)
        w.outer_q = w.outer_k = w.outer_v = fovea_matrix_out_in(outer, FOVEA_DTYPE_F32, 30, 30);
    hash.inputs = hash_floats(hash.inputs, l->x[0], 2 * 21 * 30);
    hash.inputs = hash_floats(hash.inputs, outer, 30 * 30);
    for (int i = 0; i < 4; i++)
        hash.inputs = hash_floats(hash.inputs, l->m[i], layer_rows(l, i) * layer_columns(l, i));
    fp_flush(flush);
    float *out = layer_run(ctx, l, &desc, &w, forms[number].name);
    fp_flush(false);
    hash.outputs = hash_floats(hash.outputs, out, layer_floats(l));
    free(out);
    free(outer);
    layer_free(l);
    return hash;
}

bool golden_layer_name(int number, char name[32]) {
    if (number < MAPS)
        snprintf(name, 32, "linear %d", number);
    else if (number < MAPS + FORMS)
        snprintf(name, 32, "mha %s", forms[number - MAPS].name);
    return number < MAPS + FORMS;
}

golden_hash golden_layer(const fovea_context *ctx, int number, bool flush) {
    char name[32] = "";
    golden_layer_name(number, name);
    rng r = rng_stream(GOLDEN_SEED, name);
    return number < MAPS ? run_map(ctx, &r, flush) : run_layer(ctx, number - MAPS, &r, flush);
}
