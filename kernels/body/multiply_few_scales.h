/* Part of multiply_few_rows.h: B has scales of steps. */

/* Rows of A times the scales of steps. What is -0 stays that: its scale may be anything. */
static __attribute__((noinline)) void few_scale(few_args *t, const float *scales, float *scaled) {
    for (int64_t i = 0; i < t->m; i++)
        for (int64_t s = 0; s < t->k; s += FV_W) {
            const int64_t left = t->k - s;
            const float *from = t->a + i * t->lda + s;
            const vf a = left < FV_W ? v_load_n(from, left) : v_load(from),
                     scale = left < FV_W ? v_load_n(scales + s, left) : v_load(scales + s);
            const vm positive = v_not_lt(v_with_sign(v_set1(-1.0f), a), v_set1(0.0f));
            v_store(scaled + i * FV_SEGMENT + s,
                    v_select(v_eq(a, v_set1(0.0f)), v_mul_where(positive, a, scale), v_mul(a, scale)));
        }
    t->a = scaled;
    t->lda = FV_SEGMENT;
}
