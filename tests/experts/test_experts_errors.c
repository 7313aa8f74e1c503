/* Calls that the functions of fovea/experts.h refuse: a sentence, and nothing written. Calls without rows. */
#include "attention_case.h"

#include <math.h>

enum { EXPERTS = 4, IN = 6, N = 5, OUT = 3, ROWS = 4, K = 2 };

static float memory[EXPERTS * IN * N * 2], logits[ROWS * EXPERTS], out[ROWS * IN], weight[ROWS * K];
static int64_t chosen[ROWS * K], other[ROWS * K];
static fovea_matrix gate[EXPERTS], up[EXPERTS], down[EXPERTS];

static void fill(void) {
    for (int i = 0; i < ROWS * IN; i++)
        out[i] = -1.0f;
    for (int i = 0; i < ROWS * K; i++) {
        chosen[i] = i % EXPERTS;
        other[i] = -1;
    }
}

static void unchanged(void) {
    bool same = true;
    for (int i = 0; i < ROWS * IN; i++)
        same = same && out[i] == -1.0f;
    for (int i = 0; i < ROWS * K; i++)
        same = same && other[i] == -1;
    test_check(same, "a refused call has written");
}

static fovea_tensor tensor(float *data, int64_t channels) {
    return fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, 1, 1, ROWS, channels);
}

static fovea_experts_desc good_desc(void) {
    fovea_experts_desc desc;
    fovea_experts_desc_init(&desc);
    desc.experts = EXPERTS;
    desc.in_features = IN;
    desc.intermediate = N;
    desc.out_features = OUT;
    return desc;
}

static fovea_experts_weights good_weights(void) {
    fovea_experts_weights w;
    fovea_experts_weights_init(&w);
    for (int e = 0; e < EXPERTS; e++) {
        gate[e] = up[e] = fovea_matrix_in_out(memory, FOVEA_DTYPE_F32, IN, N);
        down[e] = fovea_matrix_in_out(memory, FOVEA_DTYPE_F32, N, OUT);
    }
    w.gate = gate;
    w.up = up;
    w.down = down;
    return w;
}

#define CREATE(status, words, change)                                                                                  \
    do {                                                                                                               \
        fovea_experts_desc desc = good_desc();                                                                         \
        fovea_experts_weights w = good_weights();                                                                      \
        fovea_experts *made = (fovea_experts *)(void *)memory;                                                         \
        change;                                                                                                        \
        check_status(#change, fovea_experts_create(ctx, &desc, &w, &made), status, words);                             \
        test_check(!made, "%s: experts is not NULL", #change);                                                         \
    } while (0)

static void refused_create(const fovea_context *ctx) {
    fovea_experts *none;
    fovea_quantization q;
    fovea_quantization_init(&q);
    const fovea_experts_desc d = good_desc();
    const fovea_experts_weights plain = good_weights();
    check_status("no ctx", fovea_experts_create(NULL, &d, &plain, &none), FOVEA_ERROR_NULL, "ctx is NULL");
    check_status("no desc", fovea_experts_create(ctx, NULL, &plain, &none), FOVEA_ERROR_NULL, "desc is NULL");
    check_status("no weights", fovea_experts_create(ctx, &d, NULL, &none), FOVEA_ERROR_NULL, "weights is NULL");
    check_status("no experts", fovea_experts_create(ctx, &d, &plain, NULL), FOVEA_ERROR_NULL, "experts is NULL");
    CREATE(FOVEA_ERROR_SHAPE, "experts is 0", desc.experts = 0);
    CREATE(FOVEA_ERROR_OVERFLOW, "experts is 2049", desc.experts = 2049);
    CREATE(FOVEA_ERROR_SHAPE, "in_features is 0", desc.in_features = 0);
    CREATE(FOVEA_ERROR_SHAPE, "intermediate is -1", desc.intermediate = -1);
    CREATE(FOVEA_ERROR_SHAPE, "out_features is -2", desc.out_features = -2);
    CREATE(FOVEA_ERROR_DTYPE, "FOVEA_DTYPE_I64", desc.dtype = FOVEA_DTYPE_I64);
    CREATE(FOVEA_ERROR_DTYPE, "y_dtype", desc.y_dtype = FOVEA_DTYPE_I64);
    CREATE(FOVEA_ERROR_ARGUMENT, "activation is 77", desc.activation = (fovea_activation)77);
    CREATE(FOVEA_ERROR_ARGUMENT, "gate_up is 3", desc.gate_up = (fovea_gate_up)3);
    CREATE(FOVEA_ERROR_ARGUMENT, "has no gate", (desc.activation = FOVEA_ACTIVATION_RELU, desc.gate_up = 1));
    CREATE(FOVEA_ERROR_ARGUMENT, "limit is 0", desc.limit = 0);
    CREATE(FOVEA_ERROR_ARGUMENT, "alpha inf", desc.alpha = INFINITY);
    CREATE(FOVEA_ERROR_ARGUMENT, "are for FOVEA_ACTIVATION_SILU_GATED",
           (desc.activation = FOVEA_ACTIVATION_GELU_GATED, desc.limit = 7));
    CREATE(FOVEA_ERROR_ARGUMENT, "reserved", desc.reserved = 1);
    CREATE(FOVEA_ERROR_ARGUMENT, "reserved", w.reserved = 1);
    CREATE(FOVEA_ERROR_UNSUPPORTED, "FOVEA_ARITHMETIC_Q8", desc.arithmetic = FOVEA_ARITHMETIC_Q8);
    CREATE(FOVEA_ERROR_VERSION, "struct_size", desc.struct_size += 8);
    CREATE(FOVEA_ERROR_VERSION, "struct_size", w.struct_size = 0);
    CREATE(FOVEA_ERROR_NULL, "gate is NULL", w.gate = NULL);
    CREATE(FOVEA_ERROR_NULL, "up is NULL", w.up = NULL);
    CREATE(FOVEA_ERROR_NULL, "down is NULL", w.down = NULL);
    CREATE(FOVEA_ERROR_ARGUMENT, "does not gate", desc.activation = FOVEA_ACTIVATION_RELU);
    CREATE(FOVEA_ERROR_ARGUMENT, "up has the gate", desc.gate_up = FOVEA_GATE_UP_CONCATENATED);
    CREATE(FOVEA_ERROR_SHAPE, "expert 0: up, with the gate, has 5",
           (desc.gate_up = FOVEA_GATE_UP_CONCATENATED, w.gate = NULL));
    CREATE(FOVEA_ERROR_UNSUPPORTED, "matrices of their own",
           (desc.gate_up = FOVEA_GATE_UP_CONCATENATED, w.gate = NULL, up[0].out = 2 * N, up[0].quantization = &q));
    CREATE(FOVEA_ERROR_DTYPE, "bias_dtype", (w.up_bias = memory, w.bias_dtype = FOVEA_DTYPE_I64));
    CREATE(FOVEA_ERROR_SHAPE, "gate and up of expert 2: up has 4", up[2].out = 4);
    CREATE(FOVEA_ERROR_SHAPE, "gate and up of expert 1: the weight", gate[1].in = 4);
    CREATE(FOVEA_ERROR_NULL, "down of expert 3: ", down[3].data = NULL);
    CREATE(FOVEA_ERROR_SHAPE, "down of expert 3: down has 2", down[3].out = 2);
}

#define APPLY(status, words, change)                                                                                   \
    do {                                                                                                               \
        args = *good;                                                                                                  \
        change;                                                                                                        \
        check_status(#change, fovea_experts_apply(ctx, experts, &args, NULL, 0), status, words);                       \
        unchanged();                                                                                                   \
        fill();                                                                                                        \
    } while (0)

static void refused_apply(const fovea_context *ctx, const fovea_experts *experts, const fovea_experts_args *good) {
    fovea_experts_args args;
    char room[8];
    check_status("no ctx", fovea_experts_apply(NULL, experts, good, NULL, 0), FOVEA_ERROR_NULL, "ctx is NULL");
    check_status("no experts", fovea_experts_apply(ctx, NULL, good, NULL, 0), FOVEA_ERROR_NULL, "experts is NULL");
    check_status("no args", fovea_experts_apply(ctx, experts, NULL, NULL, 0), FOVEA_ERROR_NULL, "args is NULL");
    check_status("small", fovea_experts_apply(ctx, experts, good, room, 8), FOVEA_ERROR_WORKSPACE, "has 8 bytes");
    check_status("size", fovea_experts_apply(ctx, experts, good, NULL, 8), FOVEA_ERROR_WORKSPACE, "is NULL");
    APPLY(FOVEA_ERROR_NULL, "x is NULL", args.x.data = NULL);
    APPLY(FOVEA_ERROR_NULL, "y is NULL", args.y.data = NULL);
    APPLY(FOVEA_ERROR_NULL, "chosen is NULL", args.chosen = NULL);
    APPLY(FOVEA_ERROR_NULL, "weights is NULL", args.weights = NULL);
    APPLY(FOVEA_ERROR_SHAPE, "x: channel", args.x.shape[3] = 5);
    APPLY(FOVEA_ERROR_SHAPE, "y: channel", args.y.shape[3] = 4);
    APPLY(FOVEA_ERROR_SHAPE, "y has 1 x 3 rows", args.y.shape[2] = 3);
    APPLY(FOVEA_ERROR_SHAPE, "x: head", args.x.shape[1] = 2);
    APPLY(FOVEA_ERROR_DTYPE, "x: dtype", args.x.dtype = FOVEA_DTYPE_BF16);
    APPLY(FOVEA_ERROR_STRIDE, "y: two elements", args.y.stride[2] = 1);
    APPLY(FOVEA_ERROR_SHAPE, "k is 0", args.k = 0);
    APPLY(FOVEA_ERROR_SHAPE, "k is 5", args.k = 5);
    APPLY(FOVEA_ERROR_ARGUMENT, "chosen[7] is 5", chosen[7] = 5);
    APPLY(FOVEA_ERROR_ARGUMENT, "chosen[3] is -1", chosen[3] = -1);
    APPLY(FOVEA_ERROR_ALIAS, "y overlaps x", args.x.data = out);
    APPLY(FOVEA_ERROR_ALIAS, "overlaps", args.weights = out);
    APPLY(FOVEA_ERROR_VERSION, "struct_size", args.struct_size += 8);
    fovea_router router;
    fovea_router_init(&router);
    router.k = K;
    fovea_experts_args routed = *good;
    routed.router = &router;
    routed.logits = tensor(logits, EXPERTS);
    routed.chosen = NULL;
    routed.weights = NULL;
    good = &routed;
    APPLY(FOVEA_ERROR_ARGUMENT, "router is given", args.chosen = chosen);
    APPLY(FOVEA_ERROR_SHAPE, "k is 3, but that of router 2", args.k = 3);
    APPLY(FOVEA_ERROR_SHAPE, "logits are of 3 experts", args.logits.shape[3] = 3);
    APPLY(FOVEA_ERROR_SHAPE, "logits are 1 x 3 rows", args.logits.shape[2] = 3);
    APPLY(FOVEA_ERROR_NULL, "logits is NULL", args.logits.data = NULL);
    APPLY(FOVEA_ERROR_ALIAS, "overlaps", args.logits.data = out);
    router.bias = out;
    APPLY(FOVEA_ERROR_ALIAS, "bias of the router", (void)0);
    router.bias = NULL;
    router.k = 5;
    APPLY(FOVEA_ERROR_SHAPE, "k is 5", args.k = 0);
}

#define ROUTE(status, words, change)                                                                                   \
    do {                                                                                                               \
        fovea_router router = good;                                                                                    \
        fovea_tensor t = tensor(logits, EXPERTS);                                                                      \
        change;                                                                                                        \
        check_status(#change, fovea_experts_route(ctx, &router, &t, other, out), status, words);                       \
        unchanged();                                                                                                   \
    } while (0)

static void refused_route(const fovea_context *ctx) {
    fovea_router good;
    fovea_router_init(&good);
    good.k = K;
    const fovea_tensor plain = tensor(logits, EXPERTS);
    check_status("ctx", fovea_experts_route(NULL, &good, &plain, other, out), FOVEA_ERROR_NULL, "ctx is NULL");
    check_status("router", fovea_experts_route(ctx, NULL, &plain, other, out), FOVEA_ERROR_NULL, "router is NULL");
    check_status("logits", fovea_experts_route(ctx, &good, NULL, other, out), FOVEA_ERROR_NULL, "logits is NULL");
    check_status("chosen", fovea_experts_route(ctx, &good, &plain, NULL, out), FOVEA_ERROR_NULL, "chosen is NULL");
    check_status("weights", fovea_experts_route(ctx, &good, &plain, other, NULL), FOVEA_ERROR_NULL, "weights is NULL");
    ROUTE(FOVEA_ERROR_SHAPE, "k is 0", router.k = 0);
    ROUTE(FOVEA_ERROR_SHAPE, "k is 5", router.k = 5);
    ROUTE(FOVEA_ERROR_SHAPE, "groups is 3", router.groups = 3);
    ROUTE(FOVEA_ERROR_SHAPE, "groups is 0", router.groups = 0);
    ROUTE(FOVEA_ERROR_SHAPE, "groups_used is 3", (router.groups = 2, router.groups_used = 3));
    ROUTE(FOVEA_ERROR_SHAPE, "k is 3; it must be from 1 to 2", (router.groups = 2, router.k = 3));
    ROUTE(FOVEA_ERROR_ARGUMENT, "one expert each",
          (router.groups = router.groups_used = 4, router.group_score = FOVEA_GROUP_SUM_OF_TWO));
    ROUTE(FOVEA_ERROR_ARGUMENT, "score is 2", router.score = (fovea_router_score)2);
    ROUTE(FOVEA_ERROR_ARGUMENT, "group_score is 2", router.group_score = (fovea_group_score)2);
    ROUTE(FOVEA_ERROR_ARGUMENT, "denominator is 3", router.denominator = (fovea_denominator)3);
    ROUTE(FOVEA_ERROR_ARGUMENT, "eps is -1", router.eps = -1);
    ROUTE(FOVEA_ERROR_ARGUMENT, "scale nan", router.scale = NAN);
    ROUTE(FOVEA_ERROR_VERSION, "struct_size", router.struct_size = 7);
    ROUTE(FOVEA_ERROR_SHAPE, "one head", t.shape[1] = 2);
    ROUTE(FOVEA_ERROR_DTYPE, "FOVEA_DTYPE_I64", t.dtype = FOVEA_DTYPE_I64);
    ROUTE(FOVEA_ERROR_ALIAS, "overlaps", t.data = out);
    ROUTE(FOVEA_ERROR_ALIAS, "overlaps", router.bias = out);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "experts_errors", NULL);
    fovea_context *ctx = test_context_untuned();
    fovea_experts *experts;
    const fovea_experts_desc desc = good_desc();
    const fovea_experts_weights weights = good_weights();
    fill();
    refused_create(ctx);
    (void)good_weights();
    test_check(fovea_experts_create(ctx, &desc, &weights, &experts) == FOVEA_OK, "%s", fovea_error_detail());
    fovea_experts_args args;
    fovea_experts_args_init(&args);
    args.x = tensor(memory, IN);
    args.y = tensor(out, OUT);
    args.k = K;
    args.chosen = chosen;
    args.weights = weight;
    refused_apply(ctx, experts, &args);
    refused_route(ctx);
    args.x.shape[2] = args.y.shape[2] = 0;
    args.x.data = args.y.data = NULL;
    args.chosen = NULL;
    args.weights = NULL;
    check_status("no rows", fovea_experts_apply(ctx, experts, &args, NULL, 0), FOVEA_OK, "");
    test_check(fovea_experts_weight_bytes(experts) >= EXPERTS * (2 * IN * N + N * OUT) * sizeof(float), "bytes");
    test_check(fovea_experts_weight_bytes(NULL) == 0 && fovea_experts_apply_workspace_size(ctx, NULL, 1, 1) == 0 &&
                   fovea_experts_apply_workspace_size(ctx, experts, 1, 5) == 0,
               "sizes of nothing");
    fovea_experts_destroy(experts);
    fovea_experts_destroy(NULL);
    fovea_context_destroy(ctx);
    return test_end();
}
