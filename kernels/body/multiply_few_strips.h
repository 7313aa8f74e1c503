/* Part of multiply_few_rows.h: more than two rows where a vector has 8 lanes and widening takes operations. Four of
 * them by a strip of three vectors, or two, have as many chains as registers hold, so that each element is widened once
 * for four rows. All strips take some steps before the next steps, which are fetched into the first-level cache
 * meanwhile. Rows that are missing to four are the last one again. */
enum {
    STRIP_ROWS = 4,
    STRIP_VECTORS = 3,
    STRIP_STEPS = 64 / (int)sizeof(FV_ELEMENT) /* taken in turn */
};

/* Addresses of what is fetched, a line of each for every two steps; of next `line` bytes, which may be 0. */
typedef struct few_fetched {
    uintptr_t near, next, line;
} few_fetched;

FEW_INLINE void few_strip(const float *const a[STRIP_ROWS], const FV_ELEMENT *b, int64_t ldb, int64_t steps,
                          few_fetched *fetch, float *chains, int64_t ldchains, const int vectors) {
    vf acc[STRIP_ROWS][STRIP_VECTORS];
#pragma GCC unroll 4
    for (int i = 0; i < STRIP_ROWS; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            acc[i][v] = v_load(chains + i * ldchains + v * FV_W);
    uintptr_t near = fetch->near, next = fetch->next;
    for (int64_t s = 0; s < steps; s++, b += ldb) {
        if (s % 2 == 0) {
            __builtin_prefetch((const char *)near, 0, 3);
            __builtin_prefetch((const char *)next, 0, 2);
            near += LINE_BYTES;
            next += fetch->line;
        }
        vf x[STRIP_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            x[v] = FV_WIDEN(b + v * FV_W);
            __asm__("" : FV_KEEP(x[v]));
        }
#pragma GCC unroll 4
        for (int i = 0; i < STRIP_ROWS; i++) {
            const vf y = v_set1(a[i][s]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[i][v] = v_fma(y, x[v], acc[i][v]);
        }
    }
    fetch->near = near;
    fetch->next = next;
#pragma GCC unroll 4
    for (int i = 0; i < STRIP_ROWS; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            v_store(chains + i * ldchains + v * FV_W, acc[i][v]);
}

/* Multiplies `count` vectors of columns from j on, at least two. */
static __attribute__((noinline)) void few_strips(few_args *t, int64_t j, int64_t count) {
    _Alignas(LINE_BYTES) float chains[MOST_ROWS * MOST_COLUMNS] = {0};
    const int64_t ldchains = count * FV_W;
    few_start(t, j, 1, count, chains);
    for (int64_t first = 0, steps; first < t->k; first += steps) {
        steps = t->k - first < STRIP_STEPS ? t->k - first : STRIP_STEPS;
        const FV_ELEMENT *const b = t->b + first * t->ldb + j;
        few_fetched fetch = {.near = (uintptr_t)b + (uintptr_t)(steps * t->ldb) * sizeof *b};
        for (int64_t row = 0; row < t->m; row += STRIP_ROWS) {
            const float *a[STRIP_ROWS];
            for (int64_t i = 0; i < STRIP_ROWS; i++)
                a[i] = t->a + (row + i < t->m ? row + i : t->m - 1) * t->lda + first;
            for (int64_t v = 0, left = count; left > 0;) {
                const int vectors = left == 2 || left == 4 ? 2 : STRIP_VECTORS;
                float *at = chains + row * ldchains + v * FV_W;
                fetch.line = t->next ? LINE_BYTES : 0;
                fetch.next = (uintptr_t)(t->next ? t->next : (const char *)b);
                if (vectors == 2)
                    few_strip(a, b + v * FV_W, t->ldb, steps, &fetch, at, ldchains, 2);
                else
                    few_strip(a, b + v * FV_W, t->ldb, steps, &fetch, at, ldchains, STRIP_VECTORS);
                if (t->next)
                    t->next = fetch.next < (uintptr_t)t->next_end ? (const char *)fetch.next : NULL;
                v += vectors;
                left -= vectors;
            }
        }
    }
    few_store(t, j, 1, count, chains);
}
