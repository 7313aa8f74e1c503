/* gemm_thin on scalar: the definition. FV_ELEMENT: that of B; FV_WIDEN: a pointer to one as a float. */
void FV_NAME(const fv_rows *rows, const fv_operand *operand, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const int64_t m = rows->count, n = operand->columns, k = operand->steps, lda = rows->stride, ldb = operand->row;
    const float *a = rows->data;
    const FV_ELEMENT *b = operand->data;
    static const fv_epilogue store;
    const fv_epilogue *e = epilogue ? epilogue : &store;
    assert(m >= 1 && m <= FV_DOT_ROWS && n >= 1 && k >= 1 && lda >= 0 && ldb >= 0 && (m == 1 || ldc >= n));
    assert(!e->row_max && (e->b || !e->a));
    (void)prefetch;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float acc = e->start ? e->start[i * e->ldstart + j] : 0.0f;
            for (int64_t t = 0; t < k; t++)
                acc = fmaf(a[i * lda + t], FV_WIDEN(b + t * ldb + j), acc);
            acc = e->b ? acc * e->b[i] : acc;
            c[i * ldc + j] = e->a ? fmaf(c[i * ldc + j], e->a[i], acc) : acc;
        }
}
