/* multiply_masked: the product of many rows that skips the terms whose a is -0, so that b may be NaN or infinite there
 * (kernels.h has the contract). One row and one vector at a time. Rare: boundary tiles over values that are not
 * finite. */
_Static_assert(FV_NR == FV_W, "a vector at a time");

static inline int skip_masked(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits == 0x80000000u;
}

/* n columns, of which there may be more than a vector has. */
static inline vf skip_load(const float *p, int64_t n) { return n >= FV_W ? v_load(p) : v_load_n(p, n); }

static inline void skip_vector(int64_t n, int64_t k, const float *a, const float *b, int64_t ldb, float *c,
                               const float *start, const float *merge_a, const float *merge_b) {
    vf acc = start ? skip_load(start, n) : v_set1(0.0f);
    for (int64_t p = 0; p < k; p++, b += ldb)
        if (!skip_masked(a[p]))
            acc = v_fma(v_set1(a[p]), skip_load(b, n), acc);
    if (merge_b)
        acc = v_mul(acc, v_set1(*merge_b));
    if (merge_a)
        acc = v_fma(skip_load(c, n), v_set1(*merge_a), acc);
    if (n < FV_W)
        v_store_n(c, n, acc);
    else
        v_store(c, acc);
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
        for (int64_t j = 0; j < n; j += FV_W)
            skip_vector(n - j, k, a + i * lda, b + j, ldb, c + i * ldc + j,
                        e->start ? e->start + i * e->ldstart + j : NULL, e->a ? e->a + i : NULL,
                        e->b ? e->b + i : NULL);
}
