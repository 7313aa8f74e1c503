// The same in C++, by plan and execute: the output of one query is the mean of the values where all keys are equal.
#include <fovea/fovea.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
    const int64_t keys = 300, channels = 20;
    std::vector<float> q(channels, 0.5f), k(keys * channels, 0.25f), v(keys), out(1);
    for (int64_t i = 0; i < keys; i++)
        v[i] = static_cast<float>(i);

    fovea_context *context = nullptr;
    fovea_attention_plan *plan = nullptr;
    fovea_attention_desc desc;
    fovea_attention_desc_init(&desc);
    desc.q_heads = desc.kv_heads = desc.q_len = desc.value_dim = 1;
    desc.kv_len = keys;
    desc.head_dim = channels;

    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(q.data(), FOVEA_DTYPE_F32, 1, 1, 1, channels);
    args.k = fovea_tensor_bhtd(k.data(), FOVEA_DTYPE_F32, 1, 1, keys, channels);
    args.v = fovea_tensor_bhtd(v.data(), FOVEA_DTYPE_F32, 1, 1, keys, 1);
    args.out = fovea_tensor_bhtd(out.data(), FOVEA_DTYPE_F32, 1, 1, 1, 1);

    bool ok = fovea_context_create(nullptr, &context) == FOVEA_OK &&
              fovea_attention_plan_create(context, &desc, &plan) == FOVEA_OK &&
              fovea_attention_execute(plan, &args, nullptr, 0) == FOVEA_OK;
    if (!ok)
        std::fprintf(stderr, "%s\n", fovea_error_detail());
    else if (!(std::fabs(out[0] - 149.5f) < 1e-3f)) {
        std::fprintf(stderr, "the mean is %.9g and not 149.5\n", static_cast<double>(out[0]));
        ok = false;
    }
    fovea_attention_plan_destroy(plan);
    fovea_context_destroy(context);
    return ok ? 0 : 1;
}
