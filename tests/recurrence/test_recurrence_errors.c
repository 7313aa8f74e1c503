/* Calls that the functions of fovea/recurrence.h refuse: a sentence, and nothing written. Calls of no tokens. */
#include "attention_case.h"

#include <math.h>

static float memory[4096], out[4096], state[4096];

static fovea_tensor tensor(float *data, int64_t heads, int64_t tokens, int64_t channels) {
    return fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, 2, heads, tokens, channels);
}

static void unchanged(void) {
    for (int i = 0; i < 4096; i++)
        if (out[i] != -1.0f || state[i] != -1.0f) {
            test_check(false, "a refused call has written element %d", i);
            return;
        }
}

#define REFUSED(function, status, words, change)                                                                       \
    do {                                                                                                               \
        args = good;                                                                                                   \
        change;                                                                                                        \
        check_status(#change, function(ctx, &args, NULL, 0), status, words);                                           \
        unchanged();                                                                                                   \
    } while (0)

static void refused_states(const fovea_context *ctx, const fovea_delta_args *call) {
    fovea_states good, args;
    fovea_delta_args delta = *call;
    fovea_states_init(&good);
    good.before = good.after = tensor(state, 4, 3, 5);
    delta.states = &args;
    const int64_t lens[2] = {2, 7}, offsets[3] = {0, 3, 2}, negative[2] = {-1, 1}, long_offsets[3] = {0, 2, 7};
#define STATES(status, words, change)                                                                                  \
    do {                                                                                                               \
        args = good;                                                                                                   \
        change;                                                                                                        \
        check_status(#change, fovea_gated_delta_rule(ctx, &delta, NULL, 0), status, words);                            \
        unchanged();                                                                                                   \
    } while (0)
    STATES(FOVEA_ERROR_SHAPE, "states.before", args.before.shape[2] = 4);
    STATES(FOVEA_ERROR_SHAPE, "states.after", args.after.shape[0] = 1);
    STATES(FOVEA_ERROR_SHAPE, "states.before", args.order = FOVEA_STATE_COLUMNS);
    STATES(FOVEA_ERROR_DTYPE, "states.after", args.after.dtype = FOVEA_DTYPE_I64);
    STATES(FOVEA_ERROR_ARGUMENT, "slots is 0", args.slots = 0);
    STATES(FOVEA_ERROR_SHAPE, "states.after", args.slots = 2);
    STATES(FOVEA_ERROR_ARGUMENT, "order is 2", args.order = (fovea_state_order)2);
    STATES(FOVEA_ERROR_SHAPE, "lens[1] is 7", args.lens = lens);
    STATES(FOVEA_ERROR_SHAPE, "lens[0] is -1", args.lens = negative);
    STATES(FOVEA_ERROR_ARGUMENT, "sequences is 2 without", args.sequences = 2);
    STATES(FOVEA_ERROR_SHAPE, "needs a batch of 1", (args.cu_seqlens = offsets, args.sequences = 2));
    STATES(FOVEA_ERROR_ARGUMENT, "lens and cu_seqlens", (args.cu_seqlens = offsets, args.lens = lens));
    STATES(FOVEA_ERROR_ALIAS, "overlap", args.after.data = state + 1);
    STATES(FOVEA_ERROR_ALIAS, "overlap", args.after.data = out);
    STATES(FOVEA_ERROR_VERSION, "struct_size", args.struct_size += 8);
    delta.q.shape[0] = delta.k.shape[0] = delta.v.shape[0] = delta.gate.shape[0] = delta.beta.shape[0] =
        delta.out.shape[0] = 1;
    STATES(FOVEA_ERROR_SHAPE, "cu_seqlens[2] is 2", (args.cu_seqlens = offsets, args.sequences = 2));
    STATES(FOVEA_ERROR_SHAPE, "cu_seqlens[2] is 7", (args.cu_seqlens = long_offsets, args.sequences = 2));
}

static void refused_delta(const fovea_context *ctx) {
    fovea_delta_args good, args;
    fovea_delta_args_init(&good);
    good.v = tensor(memory, 4, 6, 5);
    good.k = tensor(memory, 2, 6, 3);
    good.q = tensor(memory, 2, 6, 3);
    good.gate = tensor(memory, 4, 6, 1);
    good.beta = tensor(memory, 4, 6, 1);
    good.out = tensor(out, 4, 6, 5);
    check_status("no context", fovea_gated_delta_rule(NULL, &good, NULL, 0), FOVEA_ERROR_NULL, "ctx is NULL");
    check_status("no arguments", fovea_gated_delta_rule(ctx, NULL, NULL, 0), FOVEA_ERROR_NULL, "args is NULL");
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_NULL, "v is NULL", args.v.data = NULL);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_NULL, "out is NULL", args.out.data = NULL);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_SHAPE, "no multiple", args.k.shape[1] = 3);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_SHAPE, "divisor or a multiple", args.q.shape[1] = 3);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_SHAPE, "q: channel", args.q.shape[3] = 4);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_SHAPE, "gate: channel", args.gate.shape[3] = 2);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_SHAPE, "beta: head", args.beta.shape[1] = 2);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_SHAPE, "k has a size of 0", args.k.shape[3] = 0);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_OVERFLOW, "too large", args.v.shape[2] = INT64_MAX / 2);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_DTYPE, "beta", args.beta.dtype = FOVEA_DTYPE_BOOL);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_STRIDE, "share memory", args.out.stride[2] = 2);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_ALIAS, "overlap", args.q.data = out);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_ARGUMENT, "norm is 3", args.norm = (fovea_l2)3);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_ARGUMENT, "eps is -1", args.eps = -1);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_ARGUMENT, "scale is nan", args.scale = NAN);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_ARGUMENT, "beta_scale inf", args.beta_scale = INFINITY);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_ARGUMENT, "dt_min is 2", (args.dt_min = 2, args.dt_max = 1));
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_ARGUMENT, "without a_log", args.dt_bias = memory);
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_ARGUMENT, "without a gate",
            (args.a_log = memory, args.gate.data = NULL));
    REFUSED(fovea_gated_delta_rule, FOVEA_ERROR_VERSION, "struct_size", args.struct_size += 8);
    char room[64];
    const size_t size = fovea_gated_delta_rule_workspace_size(ctx, &good);
    test_check(size > 64, "a workspace of %zu bytes", size);
    check_status("a small workspace", fovea_gated_delta_rule(ctx, &good, room, sizeof room), FOVEA_ERROR_WORKSPACE,
                 "workspace has 64 bytes");
    check_status("no workspace", fovea_gated_delta_rule(ctx, &good, NULL, 64), FOVEA_ERROR_WORKSPACE, "NULL");
    check_status("workspace in out", fovea_gated_delta_rule(ctx, &good, out, size), FOVEA_ERROR_ALIAS, "workspace");
    unchanged();
    args = good;
    args.k.shape[1] = 3;
    test_check(fovea_gated_delta_rule_workspace_size(ctx, &args) == 0, "a wrong call needs a workspace");
    refused_states(ctx, &good);
    args = good;
    args.q.shape[2] = args.k.shape[2] = args.v.shape[2] = args.gate.shape[2] = args.beta.shape[2] = args.out.shape[2] =
        0;
    test_check(fovea_gated_delta_rule(ctx, &args, NULL, 0) == FOVEA_OK, "no tokens: %s", fovea_error_detail());
    unchanged();
}

static void refused_scan(const fovea_context *ctx) {
    fovea_scan_args good, args;
    fovea_scan_args_init(&good);
    good.x = tensor(memory, 4, 6, 5);
    good.dt = tensor(memory, 4, 6, 1);
    good.b = good.c = tensor(memory, 2, 6, 3);
    good.out = tensor(out, 4, 6, 5);
    good.a = memory;
    check_status("no context", fovea_selective_scan(NULL, &good, NULL, 0), FOVEA_ERROR_NULL, "ctx is NULL");
    REFUSED(fovea_selective_scan, FOVEA_ERROR_NULL, "a is NULL", args.a = NULL);
    REFUSED(fovea_selective_scan, FOVEA_ERROR_NULL, "c is NULL", args.c.data = NULL);
    REFUSED(fovea_selective_scan, FOVEA_ERROR_SHAPE, "no multiple", args.b.shape[1] = args.c.shape[1] = 3);
    REFUSED(fovea_selective_scan, FOVEA_ERROR_SHAPE, "dt: channel", args.dt.shape[3] = 2);
    REFUSED(fovea_selective_scan, FOVEA_ERROR_SHAPE, "c: channel", args.c.shape[3] = 2);
    REFUSED(fovea_selective_scan, FOVEA_ERROR_SHAPE, "z: channel", (args.z = args.x, args.z.shape[3] = 2));
    REFUSED(fovea_selective_scan, FOVEA_ERROR_ARGUMENT, "dt_min is 2", (args.dt_min = 2, args.dt_max = 1));
    REFUSED(fovea_selective_scan, FOVEA_ERROR_ALIAS, "overlap", args.d = out);
    REFUSED(fovea_selective_scan, FOVEA_ERROR_VERSION, "struct_size", args.struct_size += 8);
    test_check(fovea_selective_scan_workspace_size(ctx, &good) > 0, "no workspace");
}

static void refused_conv(const fovea_context *ctx) {
    fovea_conv_args good, args;
    fovea_conv_args_init(&good);
    good.x = tensor(memory, 1, 6, 5);
    good.out = tensor(out, 1, 6, 5);
    good.weight = memory;
    good.taps = 4;
    check_status("no arguments", fovea_causal_conv(ctx, NULL, NULL, 0), FOVEA_ERROR_NULL, "args is NULL");
    REFUSED(fovea_causal_conv, FOVEA_ERROR_NULL, "weight is NULL", args.weight = NULL);
    REFUSED(fovea_causal_conv, FOVEA_ERROR_ARGUMENT, "taps is 0", args.taps = 0);
    REFUSED(fovea_causal_conv, FOVEA_ERROR_ARGUMENT, "taps is 65", args.taps = 65);
    REFUSED(fovea_causal_conv, FOVEA_ERROR_SHAPE, "x has 2 heads", args.x.shape[1] = 2);
    REFUSED(fovea_causal_conv, FOVEA_ERROR_SHAPE, "out: token", args.out_channels_first = 1);
    REFUSED(fovea_causal_conv, FOVEA_ERROR_ALIAS, "overlap", args.bias = out + 59);
    REFUSED(fovea_causal_conv, FOVEA_ERROR_VERSION, "struct_size", args.struct_size += 8);
    test_check(fovea_causal_conv_workspace_size(ctx, &good) > 0, "no workspace");
}

/* ONNX: rules with what they need, and without. */
static void from_onnx(void) {
    fovea_delta_args args;
    fovea_conv_args conv;
    const fovea_tensor there = tensor(memory, 4, 6, 1), none = {0};
    fovea_delta_args_init(&args);
    fovea_conv_args_init(&conv);
    test_check(fovea_from_onnx_linear_attention(&args, "gated", 0.5, there, none) == FOVEA_OK && args.no_delta &&
                   args.gate.data == memory && !args.beta.data && args.scale == 0.5,
               "gated: %s", fovea_error_detail());
    test_check(fovea_from_onnx_linear_attention(&args, "delta", 0, none, there) == FOVEA_OK && !args.no_delta &&
                   !args.gate.data && args.beta.data == memory && args.scale == 0,
               "delta: %s", fovea_error_detail());
    check_status("no decay", fovea_from_onnx_linear_attention(&args, "gated_delta", 0, none, there),
                 FOVEA_ERROR_ARGUMENT, "gated_delta needs decay");
    check_status("beta", fovea_from_onnx_linear_attention(&args, "linear", 0, none, there), FOVEA_ERROR_ARGUMENT,
                 "linear has no beta");
    check_status("no rule", fovea_from_onnx_linear_attention(&args, "gate", 0, none, none), FOVEA_ERROR_ARGUMENT,
                 "update_rule is 'gate'");
    test_check(fovea_from_onnx_causal_conv(&conv, "swish") == FOVEA_OK && conv.silu && conv.x_channels_first &&
                   conv.out_channels_first,
               "%s", fovea_error_detail());
    check_status("gelu", fovea_from_onnx_causal_conv(&conv, "gelu"), FOVEA_ERROR_ARGUMENT, "activation is 'gelu'");
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "recurrence_errors", NULL);
    case_contexts contexts = contexts_make();
    for (int i = 0; i < 4096; i++)
        out[i] = state[i] = -1.0f;
    refused_delta(contexts.one);
    refused_scan(contexts.one);
    refused_conv(contexts.one);
    from_onnx();
    contexts_free(&contexts);
    return test_end();
}
