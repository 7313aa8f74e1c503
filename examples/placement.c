/* Weights that are spread over nodes of memory (docs/nodes.md): a linear map of a decoding step, and the same map
 * placed as usual. On a machine with one node there is nothing to spread. The bits are the same everywhere. */
#include <fovea/fovea.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 192, OUT = 640 };

/* Threads bound to nodes, and weights [OUT][IN] whose rows are divided among these. */
static fovea_status open_spread(const float *w, fovea_context **ctx, fovea_linear **linear) {
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.threads_backend = FOVEA_THREADS_POOL; /* OpenMP and your own pool bind their threads themselves */
    options.threads_bind = FOVEA_BIND_NODES;
    const fovea_status status = fovea_context_create(&options, ctx);
    if (status != FOVEA_OK)
        return status;

    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    desc.in_features = IN;
    desc.part.weight = fovea_matrix_out_in(w, FOVEA_DTYPE_F32, OUT, IN);
    desc.placement = FOVEA_PLACEMENT_SPREAD;
    return fovea_linear_create(*ctx, &desc, linear);
}

static fovea_status open_plain(const float *w, fovea_context **ctx, fovea_linear **linear) {
    const fovea_status status = fovea_context_create(NULL, ctx);
    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    desc.in_features = IN;
    desc.part.weight = fovea_matrix_out_in(w, FOVEA_DTYPE_F32, OUT, IN);
    return status == FOVEA_OK ? fovea_linear_create(*ctx, &desc, linear) : status;
}

static fovea_status multiply(const fovea_context *ctx, const fovea_linear *linear, float *x, float *y) {
    fovea_linear_args args;
    fovea_tensor to = fovea_tensor_bthd(y, FOVEA_DTYPE_F32, 1, 1, 1, OUT);
    fovea_linear_args_init(&args);
    args.x = fovea_tensor_bthd(x, FOVEA_DTYPE_F32, 1, 1, 1, IN);
    args.y = &to;
    return fovea_linear_apply(ctx, linear, &args, NULL, 0);
}

int main(void) {
    typedef fovea_status open_function(const float *w, fovea_context **ctx, fovea_linear **linear);
    static open_function *const open[] = {open_spread, open_plain};
    static float w[OUT * IN], x[IN], y[2][OUT];
    for (int i = 0; i < OUT * IN; i++)
        w[i] = (float)(i * 37 % 101) * 0.02f - 1;
    for (int i = 0; i < IN; i++)
        x[i] = (float)(i * 11 % 23) * 0.1f - 1;
    for (int i = 0; i < 2; i++) {
        fovea_context *ctx = NULL;
        fovea_linear *linear = NULL;
        fovea_status status = open[i](w, &ctx, &linear);
        if (status == FOVEA_OK)
            status = multiply(ctx, linear, x, y[i]);
        fovea_linear_destroy(linear);
        fovea_context_destroy(ctx);
        if (status != FOVEA_OK)
            return fprintf(stderr, "%s\n", fovea_error_detail()), EXIT_FAILURE;
    }
    const int same = memcmp(y[0], y[1], sizeof y[0]) == 0;
    printf("y ends with %.9g; the same bits in either place: %s\n", y[0][OUT - 1], same ? "yes" : "no");
    return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
