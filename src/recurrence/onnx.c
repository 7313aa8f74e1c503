/* Fills arguments from those of ONNX (fovea/compat.h). */
#include "core/core.h"
#include "fovea/fovea.h"

#include <string.h>

fovea_status fovea_from_onnx_linear_attention(fovea_delta_args *args, const char *update_rule, double scale,
                                              fovea_tensor decay, fovea_tensor beta) {
    const fv_pointer both[] = {{"args", args}, {"update_rule", update_rule}};
    fovea_status status = fv_pointers_check(both, 2);
    if (status == FOVEA_OK)
        status = fv_struct_check(FV_STRUCT(fovea_delta_args), args);
    if (status != FOVEA_OK)
        return status;
    static const char *const rules[] = {"linear", "gated", "delta", "gated_delta"};
    int rule = 0;
    while (rule < 4 && strcmp(update_rule, rules[rule]) != 0)
        rule++;
    if (rule == 4)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "update_rule is '%.20s'; it must be linear, gated, delta or gated_delta",
                       update_rule);
    const int gated = rule & 1, delta = rule >> 1;
    if (gated != (decay.data != NULL))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "update_rule %s %s decay", rules[rule], gated ? "needs" : "has no");
    if (delta != (beta.data != NULL))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "update_rule %s %s beta", rules[rule], delta ? "needs" : "has no");
    args->gate = decay;
    args->beta = beta;
    args->no_delta = !delta;
    args->scale = scale;
    return FOVEA_OK;
}

fovea_status fovea_from_onnx_causal_conv(fovea_conv_args *args, const char *activation) {
    const fv_pointer both[] = {{"args", args}, {"activation", activation}};
    fovea_status status = fv_pointers_check(both, 2);
    if (status == FOVEA_OK)
        status = fv_struct_check(FV_STRUCT(fovea_conv_args), args);
    if (status != FOVEA_OK)
        return status;
    const int silu = strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0;
    if (!silu && strcmp(activation, "none") != 0)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "activation is '%.20s'; it must be silu, swish or none", activation);
    args->silu = silu;
    args->x_channels_first = args->out_channels_first = 1;
    return FOVEA_OK;
}
