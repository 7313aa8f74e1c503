/* Linear maps and layers without rows or sequences succeed, with NULL for tensors that have no elements, and write
 * nothing. */
#include "attention_case.h"

static fovea_context *ctx;

/* Rows of a linear map and of a layer, or none. */
static void test_maps(void) {
    enum { D = 8 };
    static float w[4 * D * D];
    fovea_linear_desc desc;
    fovea_linear *linear;
    fovea_linear_desc_init(&desc);
    desc.in_features = D;
    desc.part.weight = fovea_matrix_in_out(w, FOVEA_DTYPE_F32, D, D);
    check_status("linear", fovea_linear_create(ctx, &desc, &linear), FOVEA_OK, NULL);
    static const int64_t shapes[][2] = {{0, 5}, {3, 0}, {0, 0}};
    for (int i = 0; linear && i < 3; i++) {
        const fovea_tensor x = fovea_tensor_bhtd(NULL, FOVEA_DTYPE_F32, shapes[i][0], 1, shapes[i][1], D);
        fovea_linear_args args;
        fovea_linear_args_init(&args);
        args.x = x;
        args.y = &x;
        check_status("linear of no rows", fovea_linear_apply(ctx, linear, &args, NULL, 0), FOVEA_OK, NULL);
    }
    fovea_linear_destroy(linear);

    for (int given = FOVEA_MHA_SELF; given <= FOVEA_MHA_SEPARATE; given++)
        for (int i = 0; i < 3; i++)
            for (int64_t out_features = 0; out_features <= D; out_features += D) {
                attention_case c = case_plain(shapes[i][0], 2, 2, shapes[i][1], shapes[i][1], D / 2, D / 2);
                fovea_mha_desc mha_desc;
                fovea_mha_desc_init(&mha_desc);
                mha_desc.inputs = (fovea_mha_inputs)given;
                mha_desc.form = given == FOVEA_MHA_SELF && out_features ? FOVEA_MHA_MERGED : mha_desc.form;
                mha_desc.q_features = D;
                mha_desc.out_features = out_features;
                mha_desc.attention = &c.desc;
                fovea_mha_weights weights;
                fovea_mha_weights_init(&weights);
                weights.q = weights.k = weights.v = fovea_matrix_in_out(w, FOVEA_DTYPE_F32, D, D);
                if (out_features)
                    weights.o = fovea_matrix_in_out(w, FOVEA_DTYPE_F32, D, D);
                fovea_mha *mha;
                check_status("a layer", fovea_mha_create(ctx, &mha_desc, &weights, &mha), FOVEA_OK, NULL);
                if (!mha)
                    continue;
                fovea_attention_args args;
                fovea_attention_args_init(&args);
                check_status("a layer of no rows", fovea_mha_execute(mha, &args, NULL, 0), FOVEA_OK, NULL);
                fovea_attention_args strange = args;
                strange.q = (fovea_tensor){
                    w, FOVEA_DTYPE_F32, {shapes[i][0], 2, shapes[i][1], D / 2}, {-1, INT64_MAX, 3, 0}, NULL};
                check_status("an input of no rows", fovea_mha_execute(mha, &strange, NULL, 0), FOVEA_OK, NULL);
                fovea_mha *other;
                check_status("another shape", fovea_mha_reshape(mha, 0, 4, 4, &other), FOVEA_OK, NULL);
                check_status("a layer of no sequences", fovea_mha_execute(other, &args, NULL, 0), FOVEA_OK, NULL);
                fovea_mha_destroy(other);
                fovea_mha_costs cost;
                fovea_mha_costs_init(&cost);
                check_status("its cost", fovea_mha_desc_costs(&mha_desc, &cost), FOVEA_OK, NULL);
                test_check(cost.attention_flops == 0, "no rows cost %g flops", cost.attention_flops);
                fovea_mha_destroy(mha);
            }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "empty_maps", NULL);
    for (int threads = 1; threads <= 2; threads++) {
        ctx = context_of(FOVEA_ISA_BEST, threads, NULL);
        test_maps();
        fovea_context_destroy(ctx);
    }
    return test_end();
}
