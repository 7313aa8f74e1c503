/* multiply_masked: gemm that skips the terms whose a is -0, so that b may be NaN or infinite there (kernels.h has the
 * contract). One row at a time, FV_NR columns in registers. Rare: boundary tiles over values that are not finite. */
enum { SKIP_VECTORS = FV_NR / FV_W };

static inline int skip_masked(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits == 0x80000000u;
}

/* The last vector of a strip may be partial, those past it are absent. */
static inline vf skip_load(const float *p, int64_t n) {
    return n >= FV_W ? v_load(p) : n > 0 ? v_load_n(p, n) : v_set1(0.0f);
}

static inline void skip_strip(int64_t n, int64_t k, const float *a, const float *b, int64_t ldb, float *c,
                              const float *start, const float *merge_a, const float *merge_b) {
    vf acc[SKIP_VECTORS];
    for (int j = 0; j < SKIP_VECTORS; j++)
        acc[j] = start ? skip_load(start + j * FV_W, n - j * FV_W) : v_set1(0.0f);
    for (int64_t p = 0; p < k; p++, b += ldb)
        for (int j = 0; j < SKIP_VECTORS && !skip_masked(a[p]); j++)
            acc[j] = v_fma(v_set1(a[p]), skip_load(b + j * FV_W, n - j * FV_W), acc[j]);
    for (int j = 0; j * FV_W < n; j++) {
        const int64_t left = n - j * FV_W;
        vf x = acc[j];
        if (merge_b)
            x = v_mul(x, v_set1(*merge_b));
        if (merge_a)
            x = v_fma(skip_load(c + j * FV_W, left), v_set1(*merge_a), x);
        if (left < FV_W)
            v_store_n(c + j * FV_W, left, x);
        else
            v_store(c + j * FV_W, x);
    }
}

void FV_NAME(const fv_rows *rows, const fv_operand *operand, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const int64_t m = rows->count, n = operand->columns, k = operand->steps, lda = rows->stride, ldb = operand->row;
    const float *a = rows->data;
    const float *b = operand->data;
    static const fv_epilogue store;
    const fv_epilogue *e = epilogue ? epilogue : &store;
    (void)prefetch;
    assert(m >= 1 && n >= 1 && k >= 1 && lda >= 0 && ldb >= 0);
    assert(m == 1 || ldc >= n);
    assert(e->b || !e->a);
    assert(!e->row_max);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j += FV_NR)
            skip_strip(n - j < FV_NR ? n - j : FV_NR, k, a + i * lda, b + j, ldb, c + i * ldc + j,
                       e->start ? e->start + i * e->ldstart + j : NULL, e->a ? e->a + i : NULL, e->b ? e->b + i : NULL);
}
