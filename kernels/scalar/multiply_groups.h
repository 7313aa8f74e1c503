/* A row of products of integers in groups (groups.h) on scalar: one function has all, multiply_groups.c. */
fv_multiply_fn fv_multiply_groups_scalar;

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    fv_multiply_groups_scalar(a, b, c, ldc, epilogue, prefetch);
}
