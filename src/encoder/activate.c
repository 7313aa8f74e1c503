/* fovea_activate (fovea/encoder.h): the epilogue of linear maps by itself. */
#include "encoder/encoder.h"

typedef struct activation {
    fv_view x, up, residual, y;
    fv_activation act;
    fv_bias_act_residual_f32_fn *run;
} activation;

static void rows(const void *arg, int64_t begin, int64_t end) {
    const activation *m = arg;
    const int64_t channels = m->x.tensor->shape[3];
    float in[FV_RUN], gate[FV_RUN], add[FV_RUN], out[FV_RUN];
    for (int64_t row = begin; row < end; row++)
        for (int64_t at = 0, n; at < channels; at += n) {
            n = fv_min(channels - at, FV_RUN);
            const fv_bias_act_residual with = {
                .activation = m->act,
                .up = m->up.tensor->data ? fv_view_read(&m->up, row, at, n, gate) : NULL,
                .residual = m->residual.tensor->data ? fv_view_read(&m->residual, row, at, n, add) : NULL};
            m->run(1, n, fv_view_read(&m->x, row, at, n, in), n, &with, fv_view_write(&m->y, row, at, out), n);
            fv_view_written(&m->y, row, at, n, out);
        }
}

/* Checks an input against the output. */
static fovea_status check_input(const char *name, const fovea_tensor *t, const fovea_activate_args *args,
                                const fv_span *y) {
    fv_span span;
    const fovea_status status = fv_floats_check(name, t, args->x.shape, false, &span);
    return status != FOVEA_OK || fv_tensor_same(t, &args->y) ? status : fv_spans_disjoint(y, &span);
}

static fovea_status check(const fovea_activate_args *args) {
    fv_span y;
    fovea_status status = fv_floats_sizes("x", &args->x, false);
    if (status == FOVEA_OK)
        status = fv_floats_check("y", &args->y, args->x.shape, true, &y);
    if (status == FOVEA_OK)
        status = check_input("x", &args->x, args, &y);
    if (status == FOVEA_OK && args->up.data)
        status = check_input("up", &args->up, args, &y);
    if (status == FOVEA_OK && args->residual.data)
        status = check_input("residual", &args->residual, args, &y);
    if (status == FOVEA_OK)
        status = fv_enum_check(FV_ENUM_activation, "activation", (int)args->activation);
    if (status == FOVEA_OK && fovea_activation_info(args->activation)->gate != args->activation)
        status = fv_fail(FOVEA_ERROR_ARGUMENT, "activation is %s; give up, and the activation without its gate",
                         fv_enum_name(FV_ENUM_activation, (int)args->activation));
    if (status == FOVEA_OK && (args->reserved || args->reserved_flags))
        status = fv_fail(FOVEA_ERROR_ARGUMENT, "reserved fields are set");
    return status;
}

fovea_status fovea_activate(const fovea_context *ctx, const fovea_activate_args *given) {
    FV_HOLD_EXCEPTIONS();
    fovea_activate_args args;
    if (!ctx || !given)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", ctx ? "args" : "ctx");
    fovea_activate_args_init(&args);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_activate_args), given, &args);
    if (status == FOVEA_OK)
        status = check(&args);
    if (status != FOVEA_OK)
        return status;
    const activation m = {
        .x = fv_view_input(&args.x, ctx->target),
        .up = fv_view_input(&args.up, ctx->target),
        .residual = fv_view_input(&args.residual, ctx->target),
        .y = fv_view_output(&args.y, ctx->target),
        .act = (fv_activation)args.activation,
        .run = fv_kernel_best(FV_OP_bias_act_residual, FV_TYPE_f32, ctx->target)->run.bias_act_residual_f32};
    fv_rows_run(ctx, args.x.shape[0] * args.x.shape[1] * args.x.shape[2], args.x.shape[3], rows, &m);
    return FOVEA_OK;
}
