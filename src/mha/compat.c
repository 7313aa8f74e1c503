/* Descriptions from the words of other systems (fovea/coming_from.h): layers. */
#include "core/core.h"
#include "fovea/fovea.h"

fovea_status fovea_from_torch_mha_weights(fovea_mha_desc *desc, fovea_mha_weights *weights, int64_t embed_dim,
                                          const float *in_proj_weight, const float *in_proj_bias,
                                          const float *out_proj_weight, const float *out_proj_bias) {
    const fv_pointer all[] = {{"desc", desc}, {"weights", weights}};
    const fovea_status status = fv_pointers_check(all, 2);
    if (status != FOVEA_OK)
        return status;
    desc->form = FOVEA_MHA_FUSED;
    desc->q_features = desc->out_features = embed_dim;
    desc->biases = in_proj_bias || out_proj_bias;
    weights->fused = fovea_matrix_out_in(in_proj_weight, FOVEA_DTYPE_F32, 3 * embed_dim, embed_dim);
    weights->fused_bias = in_proj_bias;
    weights->o = fovea_matrix_out_in(out_proj_weight, FOVEA_DTYPE_F32, embed_dim, embed_dim);
    weights->o_bias = out_proj_bias;
    return FOVEA_OK;
}

fovea_status fovea_from_keras_weights(fovea_mha_desc *desc, fovea_mha_weights *weights, const int64_t features[4],
                                      const float *const kernels[4], const float *const biases[4]) {
    const fv_pointer all[] = {
        {"desc", desc},       {"weights", weights}, {"features", features},
        {"kernels", kernels}, {"biases", biases},   {"attention of the fovea_mha_desc", desc ? desc->attention : NULL}};
    const fovea_status status = fv_pointers_check(all, 6);
    if (status != FOVEA_OK)
        return status;
    const fovea_attention_desc *a = desc->attention;
    desc->form = FOVEA_MHA_FACTORED;
    desc->inputs = FOVEA_MHA_SEPARATE;
    desc->q_features = features[0];
    desc->k_features = features[1];
    desc->v_features = features[2];
    desc->out_features = features[3];
    desc->biases = biases[0] || biases[1] || biases[2] || biases[3];
    weights->q = fovea_matrix_in_out(kernels[0], FOVEA_DTYPE_F32, features[0], a->q_heads * a->head_dim);
    weights->k = fovea_matrix_in_out(kernels[1], FOVEA_DTYPE_F32, features[1], a->kv_heads * a->head_dim);
    weights->v = fovea_matrix_in_out(kernels[2], FOVEA_DTYPE_F32, features[2], a->kv_heads * a->value_dim);
    weights->o = fovea_matrix_in_out(kernels[3], FOVEA_DTYPE_F32, a->q_heads * a->value_dim, features[3]);
    weights->q_bias = biases[0];
    weights->k_bias = biases[1];
    weights->v_bias = biases[2];
    weights->o_bias = biases[3];
    return FOVEA_OK;
}
