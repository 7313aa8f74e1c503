/* A tile of multiply_groups.h, all groups of a piece. */
/* Hides the value of a stride from the compiler (multiply_tile.h). */
FV_ALWAYS_INLINE int64_t groups_opaque(int64_t stride) {
    __asm__("" : "+r"(stride));
    return stride;
}

/* A tile of rows from `row` on, with a piece. */
typedef struct groups_part {
    const groups_strip *s;
    const groups_piece *p;
    int64_t row;
    int32_t *carried; /* its sums of a group that does not begin, or not end, here: [rows][FV_NR] */
    int64_t words;    /* of each group */
    int begins, ends;
} groups_part;

/* Sums of a group start from the correction for unsigned bytes, or continue from `carried`. */
FV_ALWAYS_INLINE void groups_begin(const groups_part *t, const char *head, const int mr, vw acc[][NV]) {
    const int64_t lda = t->s->lda;
    if (t->begins) {
#pragma GCC unroll 8
        for (int i = 0; i < mr; i++) {
            const vw first = w_set1(BYTES ? (uint32_t) - (groups_row(head + i * lda)->sum * (1 << SIGN_BITS)) : 0);
#pragma GCC unroll 8
            for (int j = 0; j < NV; j++)
                acc[i][j] = first;
        }
        return;
    }
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++)
            acc[i][j] = w_load(t->carried + i * FV_NR + j * FV_W);
}

/* The sums become floats, added to those at `from`. */
FV_ALWAYS_INLINE void groups_end(const groups_part *t, const char *head, const float *scales, const float *from,
                                 int64_t ldfrom, const int mr, const int minimum, vw acc[][NV]) {
    const int64_t width = t->s->b->width, lda = t->s->lda;
    float *c = t->s->c + t->row * t->s->ldc;
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++, head += lda, from += ldfrom, c += t->s->ldc) {
        const vf scale = v_set1(groups_row(head)->scale), total = v_set1(minimum ? (float)groups_row(head)->sum : 0.0f);
#pragma GCC unroll 8
        for (int j = 0; j < FV_NR; j += FV_W) {
            vf sum = v_fma(w_float(acc[i][j / FV_W]), v_mul(v_load(scales + j), scale), v_load(from + j));
            if (minimum)
                sum = v_fma(total, v_mul(v_load(scales + width + j), scale), sum);
            v_store(c + j, sum);
        }
    }
}

/* All groups of the piece. */
FV_ALWAYS_INLINE void groups_tile(const groups_part *t, const int mr) {
    enum { THREE = 3, POINTERS = (FV_MR + THREE - 1) / THREE };
    const groups_strip *s = t->s;
    const groups_piece *p = t->p;
    const fv_group_extra extra = (fv_group_extra)s->b->group.extra;
    const char *b = s->words, *head = s->a + t->row * s->lda + p->at;
    const float *scales = p->scales, *from = p->step == 0 ? s->start + t->row * s->ldstart : s->c + t->row * s->ldc;
    int64_t ldfrom = p->step == 0 ? s->ldstart : s->ldc, lda = s->lda;
    for (int64_t g = 0; g < p->count; g++, scales += fv_scales_row(extra, s->b->width)) {
        const char *a[POINTERS]; /* a row of each three */
        vw acc[FV_MR][NV];
        groups_begin(t, head, mr, acc);
        a[0] = head + HEAD + p->skipped * WORD;
#pragma GCC unroll 8
        for (int k = 1; k * THREE < mr; k++)
            a[k] = a[k - 1] + THREE * lda;
        for (int64_t words = t->words; words > 0; words--) {
#pragma GCC unroll 8
            for (int e = 0; e < STEPS; e++, b += FV_NR * 4) {
                vw y[NV];
#pragma GCC unroll 8
                for (int j = 0; j < NV; j++)
                    y[j] = w_load(b + j * FV_W * 4);
#pragma GCC unroll 8
                for (int i = 0; i < mr; i++) {
                    uint32_t word;
                    memcpy(&word, a[i / THREE] + i % THREE * lda + e * 4, sizeof word);
                    const vw x = w_set1(word);
#pragma GCC unroll 8
                    for (int j = 0; j < NV; j++)
                        acc[i][j] = groups_add(acc[i][j], y[j], x);
                }
            }
#pragma GCC unroll 8
            for (int k = 0; k * THREE < mr; k++)
                a[k] += WORD;
            lda = groups_opaque(lda);
        }
        if (!t->ends)
#pragma GCC unroll 8
            for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
                for (int j = 0; j < NV; j++)
                    w_store(t->carried + i * FV_NR + j * FV_W, acc[i][j]);
        else if (extra == FV_GROUP_minimum)
            groups_end(t, head, scales, from, ldfrom, mr, 1, acc);
        else
            groups_end(t, head, scales, from, ldfrom, mr, 0, acc);
        head += HEAD + p->words * WORD;
        from = s->c + t->row * s->ldc;
        ldfrom = s->ldc;
    }
}

/* Heights of tiles are FV_MR and four; other rows, of which there are few, go one by one: less text. Fours are taken at
 * the end, where they leave fewer of these. */
static int64_t groups_height(int64_t left) {
    enum {
        FOUR = 4,
        SINGLE = FV_MR - FOUR - 1,                /* rows that fours may leave */
        ONE_MORE = FOUR * FV_MR / (FV_MR - FOUR), /* rows of which fours are one tile more than tiles of FV_MR */
        MOST = ONE_MORE - FOUR + SINGLE           /* rows of which they are not */
    };
    const int fours = left < FV_MR || (left <= MOST && left % FOUR <= SINGLE);
    return left < FOUR ? 1 : fours ? FOUR : FV_MR;
}

static __attribute__((noinline)) void groups_rows(const groups_part *t, int64_t rows) {
    if (rows == FV_MR)
        groups_tile(t, FV_MR);
    else if (rows > 1)
        groups_tile(t, 4);
    else
        groups_tile(t, 1);
}
