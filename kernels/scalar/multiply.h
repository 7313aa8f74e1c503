/* Products on scalar: the definition of kernels.h, a tile of FV_MR rows by FV_NR columns at a time, as chains hide
 * their latency in each other. FV_WORDS: the format's header (body/to_float/<format>.h). FV_PAIRS: A has words of that
 * format, too. FV_MASKED: terms whose a is -0 are skipped. FV_AMX_ORDER: sums by blocks of even and odd steps.
 * FV_STEP_SCALES: steps of B have scales, which are multiplied into A, but for a of -0. */
#include FV_WORDS

enum {
#ifdef FV_PAIRS
    PAIRS = 1,
#else
    PAIRS = 0,
#endif
#ifdef FV_MASKED
    MASKED = 1,
#else
    MASKED = 0,
#endif
#ifdef FV_AMX_ORDER
    AMX_ORDER = 1
#else
    AMX_ORDER = 0
#endif
};

typedef struct product {
    const fv_rows *a;
    const fv_operand *b;
    float *c;
    int64_t ldc;
    const fv_epilogue *e;
} product;

static inline int hidden(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits == UINT32_C(0x80000000);
}

static inline float factor_of(const float *row, const float *scales, int64_t t) {
    (void)scales;
#ifdef FV_PAIRS
    return format_load(row + t / PER_WORD, NULL, (int)(t % PER_WORD));
#elif defined(FV_STEP_SCALES)
    return scales && !hidden(row[t]) ? row[t] * scales[t] : row[t];
#else
    return row[t];
#endif
}

static inline __attribute__((always_inline)) void multiply_tile(const product *p, int64_t i, int64_t j,
                                                                const int64_t rows, const int64_t columns) {
    const float *a = (const float *)p->a->data + i * p->a->stride;
    const format_word *column = (const format_word *)p->b->data + fv_operand_place(p->b, 0, j) / PER_WORD;
    const float *scales = SCALED ? p->b->scales + j : NULL;
    const fv_epilogue *e = p->e;
    const int64_t steps = PAIRS ? (p->b->steps + PER_WORD - 1) / PER_WORD * PER_WORD : p->b->steps;
    float acc[FV_MR][FV_NR], chain[2][FV_MR][FV_NR] = {{{0.0f}}};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < columns; s++)
            acc[r][s] = e->start ? e->start[(i + r) * e->ldstart + j + s] : 0.0f;
    for (int64_t t = 0; t < steps; t++) {
        const format_word *b = column + t / PER_WORD * p->b->row;
        for (int64_t r = 0; r < rows; r++) {
            const float x = factor_of(a + r * p->a->stride, p->b->scales, t);
            float *to = AMX_ORDER ? chain[t % 2][r] : acc[r];
            for (int64_t s = 0; s < columns && !(MASKED && hidden(x)); s++)
                to[s] = v_fma(x, format_load(b + s, SCALED ? scales + s : NULL, (int)(t % PER_WORD)), to[s]);
        }
        if (AMX_ORDER && (t + 1 == steps || (t + 1) % FV_BLOCK == 0))
            for (int64_t r = 0; r < rows; r++)
                for (int64_t s = 0; s < columns; s++) {
                    acc[r][s] = acc[r][s] + (chain[0][r][s] + chain[1][r][s]);
                    chain[0][r][s] = chain[1][r][s] = 0.0f;
                }
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < columns; s++) {
            float *to = p->c + (i + r) * p->ldc + j + s, x = acc[r][s];
            x = e->b ? x * e->b[i + r] : x;
            *to = e->a ? v_fma(*to, e->a[i + r], x) : x;
            if (e->row_max) {
                float *max = &e->row_max[(i + r) * FV_LANES + (j + s) % FV_LANES];
                *max = v_max(x, *max);
            }
        }
}

/* Multiplies less than a tile, one element at a time: less text than tiles of any size. */
static __attribute__((noinline)) void multiply_edge(const product *p, int64_t i, int64_t j, int64_t rows,
                                                    int64_t columns) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < columns; s++)
            multiply_tile(p, i + r, j + s, 1, 1);
}

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    static const fv_epilogue store;
    const product p = {a, b, c, ldc, epilogue ? epilogue : &store};
    const int64_t m = a->count, n = b->columns;
    (void)prefetch;
    assert(m >= 1 && n >= 1 && b->steps >= 1 && a->stride >= 0 && b->row >= 0);
    assert(m == 1 || ldc >= n);
    assert(b->first + n <= b->width || (b->width % FV_NR == 0 && b->first % FV_NR == 0)); /* one panel a tile */
    assert(p.e->b || !p.e->a);
    assert(p.e->start != c || m == 1 || p.e->ldstart == ldc);
    assert(!p.e->row_max || (!MASKED && !p.e->b && n % FV_LANES == 0));
    for (int64_t i = 0; i < m * FV_LANES && p.e->row_max && !p.e->accumulate_max; i++)
        p.e->row_max[i] = -INFINITY;
    for (int64_t i = 0; i < m; i += FV_MR)
        for (int64_t j = 0; j < n; j += FV_NR)
            if (m - i >= FV_MR && n - j >= FV_NR)
                multiply_tile(&p, i, j, FV_MR, FV_NR);
            else
                multiply_edge(&p, i, j, m - i < FV_MR ? m - i : FV_MR, n - j < FV_NR ? n - j : FV_NR);
}
