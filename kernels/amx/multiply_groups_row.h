/* A row of products with weights in groups by tiles: one function has both kinds (multiply_groups.h). */
#include "amx/tiles.h"

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    fv_multiply_groups_amx(a, b, c, ldc, epilogue, prefetch, FV_PLANES);
}
