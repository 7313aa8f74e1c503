/* Relative biases from their formulas in fovea/attention.h (reference.h). */
#include "reference.h"

#include <math.h>

int64_t reference_bucket(const fovea_attention_desc *desc, int64_t d) {
    const int64_t buckets = desc->relative_bidirectional ? desc->relative_buckets / 2 : desc->relative_buckets;
    const int64_t exact = buckets / 2, add = desc->relative_bidirectional && d < 0 ? buckets : 0;
    const int64_t n = d >= 0 ? d : desc->relative_bidirectional ? -d : 0;
    if (n < exact)
        return add + n;
    const double share = log((double)n / (double)exact) / log((double)desc->relative_max_distance / (double)exact);
    const int64_t bucket = exact + (int64_t)floor(share * (double)(buckets - exact) + 1e-9);
    return add + (bucket < buckets ? bucket : buckets - 1);
}

double reference_relative(const fovea_attention_desc *desc, const fovea_tensor *t, int64_t b, int64_t h,
                          int64_t position, int64_t j) {
    const int64_t d = position - j, w = desc->relative_width;
    int64_t entry = 0;
    switch (desc->relative) {
    case FOVEA_RELATIVE_TOEPLITZ: {
        const int64_t reach = t->shape[3] / 2;
        entry = reach + (d < -reach ? -reach : d > reach ? reach : d);
        break;
    }
    case FOVEA_RELATIVE_T5: entry = reference_bucket(desc, d); break;
    case FOVEA_RELATIVE_WINDOW_2D:
        entry = (position / w - j / w + desc->relative_height - 1) * (2 * w - 1) + position % w - j % w + w - 1;
        break;
    default: break;
    }
    const double value = (double)tensor_f32(t, b, h, 0, entry);
    return desc->relative == FOVEA_RELATIVE_ALIBI ? -value * fabs((double)d) : value;
}
