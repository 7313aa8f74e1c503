/* A row of products of integers in groups (groups.h) on scalar: one function has all, multiply_groups.c. */
void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    (void)prefetch;
    fv_multiply_groups_scalar(a, b, c, ldc, epilogue, FV_GROUP_KIND);
}
