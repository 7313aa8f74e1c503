/* experts.h: loops. Plain C: the compiler's vectors give the bits of one at a time, as nothing is fused or reordered.
 */
#include "experts/experts.h"

void fv_gate_clamp(int64_t n, float limit, float alpha, float offset, float *gate, float *up, float *scaled) {
    for (int64_t i = 0; i < n; i++) {
        const float g = gate[i] > limit ? limit : gate[i], low = up[i] < -limit ? -limit : up[i];
        gate[i] = g;
        scaled[i] = alpha * g;
        up[i] = (low > limit ? limit : low) + offset;
    }
}

void fv_gate_multiply(int64_t n, const float *sigmoid, const float *up, float *gate) {
    for (int64_t i = 0; i < n; i++)
        gate[i] = gate[i] * sigmoid[i] * up[i];
}
