/* A product of kind i8 by the tier's kernel of kind i16: rows of A have the same integers in both forms (int8.h). */
void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    FV_I16(a, b, c, ldc, epilogue, prefetch);
}
