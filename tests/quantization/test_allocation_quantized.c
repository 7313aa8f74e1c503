/* Memory for quantized weights: every allocation of fovea_quantize(), fovea_dequantize(), of packing such weights for
 * maps and layers, and of their execution, that fails gives a clean status (test_allocation.c). */
#include "attention_case.h"
#include "failing.h"
#include "mha_layer.h"
#include "quantized_case.h"

#include <stdlib.h>
#include <string.h>

enum { OUT = 24, ROWS = 5, SQUARE = 8 }; /* SQUARE of layer_sizes_tested: sizes are multiples of 32 */

/* ------------------------------------------------------------------------------------------- floats and integers -- */

static void fail_quantize(const fovea_context *ctx, fovea_dtype to, bool told, bool persistent) {
    enum { IN = 512, MOST = IN * OUT * 2 };
    static uint8_t data[MOST], scales[MOST];
    static float from[IN * OUT];
    rng r = rng_stream(test_seed(), "fail quantize");
    rng_fill_normal(&r, from, IN * OUT);
    const fovea_matrix m = fovea_matrix_out_in(from, FOVEA_DTYPE_F32, OUT, IN);
    fovea_quantize_stats error;
    memset(data, 0x5a, sizeof data);
    memset(scales, 0x5a, sizeof scales);
    fovea_quantize_stats_init(&error);
    error.rms = -1;
    FAIL_EACH("fovea_quantize", 1, persistent, fovea_quantize(ctx, &m, to, NULL, data, scales, told ? &error : NULL)) {
        test_check(live == f.live_before, "fovea_quantize leaves %lld blocks", live - f.live_before);
        test_check((data[0] != 0x5a || data[1] != 0x5a) == f.through && (error.rms >= 0) == (f.through && told),
                   "type %d, allocation %" PRId64 ": an output is not as it should be", (int)to, f.n);
    }
}

static void fail_dequantize(const fovea_context *ctx, const quantized_kind *kind, bool persistent) {
    const int64_t in = kind->unit * 4;
    rng r = rng_stream(test_seed(), kind->name);
    quantized_weight w;
    quantized_make(&w, kind, in, OUT, &r);
    float *to = must_alloc(in * OUT, sizeof *to);
    poison_fill(to, in * OUT);
    FAIL_EACH(kind->name, kind->ordered, persistent, fovea_dequantize(ctx, &w.matrix, to)) {
        test_check(live == f.live_before, "fovea_dequantize leaves %lld blocks", live - f.live_before);
        test_check((float_bits(to[0]) != float_bits(poison())) == f.through,
                   "%s: fovea_dequantize, allocation %" PRId64, kind->name, f.n);
    }
    free(to);
    quantized_free(&w);
}

/* ---------------------------------------------------------------------------------------------------------- maps -- */

typedef enum mixture { ALIKE, SCALED, WITH_FLOATS, MIXTURES } mixture;

/* Reading back allocates nothing; neither does an execution with a workspace. */
static void fail_use(const fovea_context *ctx, fovea_linear *map, int64_t in, const char *name, bool persistent) {
    static float y[2][ROWS * OUT], x[ROWS * 2048];
    static uint8_t weight[4 * 2048 * OUT], scales[4 * 2048 * OUT], zeros[2048 * OUT];
    static int32_t group_of[2048];
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    fovea_tensor out[2];
    for (int i = 0; i < 2; i++)
        out[i] = fovea_tensor_bhtd(y[i], FOVEA_DTYPE_F32, 1, 1, ROWS, OUT);
    args.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, ROWS, in);
    args.y = out;
    poison_fill(y[0], ROWS * OUT);
    FAIL_EACH(name, 1, persistent, fovea_linear_apply(ctx, map, &args, NULL, 0)) {
        test_check((float_bits(y[0][0]) != float_bits(poison())) == f.through,
                   "%s: fovea_linear_apply wrote before it failed", name);
    }
    const size_t size = fovea_linear_apply_workspace_size(ctx, map);
    void *workspace = must_alloc((int64_t)size, 1);
    fovea_dtype dtype;
    fovea_quantization q;
    fovea_quantization_init(&q);
    TAKES_NONE(name, fovea_linear_unpack(map, 1, weight, NULL, &dtype));
    TAKES_NONE(name, (fovea_linear_unpack_groups(map, 1, &q, scales, zeros, group_of), FOVEA_OK));
    TAKES_NONE(name, fovea_linear_apply(ctx, map, &args, workspace, size));
    free(workspace);
}

static void fail_map(const fovea_context *ctx, const quantized_kind *kind, fovea_arithmetic arithmetic, mixture how,
                     bool persistent) {
    static float floats[2048 * OUT];
    const int64_t in = kind->unit * 4 > 256 ? kind->unit * 2 : kind->unit * 4;
    rng r = rng_stream(test_seed(), kind->name);
    quantized_weight w;
    quantized_make(&w, kind, in, OUT, &r);
    fovea_linear_part parts[2] = {{.weight = w.matrix, .has_scale = how == SCALED, .scale = 0.5},
                                  {.weight = w.matrix, .bias = floats, .bias_dtype = FOVEA_DTYPE_F32}};
    if (how == WITH_FLOATS)
        parts[0].weight = fovea_matrix_out_in(floats, FOVEA_DTYPE_F32, OUT, in);
    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    desc.in_features = in;
    desc.part_count = 2;
    desc.parts = parts;
    desc.arithmetic = arithmetic;
    fovea_linear *map;
    FAIL_MAKING(kind->name, 3, persistent, map, fovea_linear_destroy, fovea_linear_create(ctx, &desc, &map))
    if (test_check(fovea_linear_create(ctx, &desc, &map) == FOVEA_OK, "%s: %s", kind->name, fovea_error_detail()))
        fail_use(ctx, map, in, kind->name, persistent);
    fovea_linear_destroy(map);
    quantized_free(&w);
}

/* -------------------------------------------------------------------------------------------------------- layers -- */

static void fail_layer(const fovea_context *ctx, const quantized_kind *kind, bool merged, bool persistent) {
    rng r = rng_stream(test_seed(), kind->name);
    layer *l = layer_make(&layer_sizes_tested[SQUARE], &r);
    fovea_mha_weights given = l->w;
    fovea_matrix *const all[] = {&given.q, &given.k, &given.v, &given.o};
    quantized_weight w[4];
    for (int i = 0; i < 4; i++) {
        quantized_make(&w[i], kind, all[i]->in, all[i]->out, &r);
        *all[i] = w[i].matrix;
    }
    fovea_mha_desc desc = l->desc;
    desc.form = merged ? FOVEA_MHA_MERGED : FOVEA_MHA_FACTORED;
    desc.quantized_arithmetic = merged ? FOVEA_ARITHMETIC_EXACT : FOVEA_ARITHMETIC_DEFAULT;
    fovea_mha *mha;
    FAIL_MAKING(kind->name, 10, persistent, mha, fovea_mha_destroy, fovea_mha_create(ctx, &desc, &given, &mha))
    for (int i = 0; i < 4; i++)
        quantized_free(&w[i]);
    layer_free(l);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "allocation_quantized", NULL);
    static const fovea_dtype made[] = {FOVEA_DTYPE_I8,   FOVEA_DTYPE_U4,   FOVEA_DTYPE_Q8_0,
                                       FOVEA_DTYPE_Q4_0, FOVEA_DTYPE_Q4_1, FOVEA_DTYPE_Q4_K};
    const case_contexts all = contexts_make();
    const fovea_context *const contexts[] = {all.one, all.own, all.three};
    for (int i = 0; i < 3; i++) {
        for (int t = 0; t < 6; t++)
            for (int told = 0; told < 2; told++)
                fail_quantize(contexts[i], made[t], told, (i + t) & 1);
        for (int k = 0; k < quantized_kind_count; k++) {
            const quantized_kind *kind = &quantized_kinds[k];
            const bool persistent = (i + k) & 1;
            fail_dequantize(contexts[i], kind, persistent);
            fail_map(contexts[i], kind, FOVEA_ARITHMETIC_DEFAULT, ALIKE, persistent);
            fail_map(contexts[i], kind, FOVEA_ARITHMETIC_Q8, ALIKE, !persistent);
            for (int how = ALIKE; how < MIXTURES; how++)
                fail_map(contexts[i], kind, FOVEA_ARITHMETIC_EXACT, (mixture)how, persistent);
            for (int merged = 0; merged < 2 && kind->unit <= 32; merged++)
                fail_layer(contexts[i], kind, merged, persistent);
        }
    }
    contexts_free(&all);
    return test_end();
}
