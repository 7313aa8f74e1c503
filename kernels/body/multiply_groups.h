/* Products of many rows with weights as int8 in groups (groups.h has the formulas), by tiles of FV_MR rows and FV_NR
 * columns.
 *
 * A strip of FV_NR columns goes piece by piece: its words are prepared in a buffer that stays in the first-level cache,
 * and all tiles of rows run over that, so that the inner loop has nothing but products, loads of B and broadcasts of A
 * from memory. Kind i16: words become two of int16, the integers less their zeros, and one sum has all. Kind i8
 * (FV_BYTES): bytes have 128 added, since the instruction wants them without sign, and sums begin with what that adds.
 *
 * Sums of a tile go through a buffer, too: from there they become floats, added to c at the end of each group, in one
 * loop for all sizes of tiles, and pieces of a longer group go on with them.
 *
 * Bound: the units that multiply. A group adds 3 operations a vector of c to its 8 (kind i8) or 16 for each 32
 * channels, 5 where it has a minimum. Figures: docs/measurements.md, "multiply_groups.h". */
#ifndef FV_ALWAYS_INLINE
#define FV_ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

#ifdef FV_BYTES
enum { BYTES = 1, STEPS = 1 }; /* STEPS: instructions for a word of A */
FV_ALWAYS_INLINE vw groups_add(vw sums, vw b, vw a) { return w_add_bytes(sums, b, a); }
#else
enum { BYTES = 0, STEPS = 2 };
FV_ALWAYS_INLINE vw groups_add(vw sums, vw b, vw a) { return w_add_pairs(sums, b, a); }
#endif

enum {
    NV = FV_NR / FV_W,
    PIECE_BYTES = 16384,
    PIECE = PIECE_BYTES / (FV_NR * 4 * STEPS), /* words of a column in a piece: half of the smallest cache */
    ROWS = 8 * FV_MR, /* at once, if groups are longer than pieces: preparing a piece takes 2% */
    WORD = sizeof(fv_i8_word),
    SIGN_BITS = 7 /* 128 is added to bytes */
};

/* Groups of the same size, or a part of one. */
typedef struct groups_piece {
    int64_t count, words;      /* words of each */
    int64_t step, at, skipped; /* its first step, the row's word that begins its first group, and the words of that
                                     before */
    int begins, ends;
    const float *scales; /* of its first group */
} groups_piece;

/* A strip, the rows that are multiplied with it, and what is kept of both. */
typedef struct groups_strip {
    const fv_operand *b;
    int64_t column, vectors; /* its first column, and its width */
    const fv_i8_word *a;
    int64_t lda;
    float *c; /* of the first row and column */
    int64_t ldc;
    const float *start; /* NULL: +0 */
    int64_t ldstart;
    char *words;   /* [PIECE_BYTES] */
    int32_t *sums; /* [ROWS][FV_NR] */
} groups_strip;

static inline const fv_i8_row *groups_row(const char *head) { return (const fv_i8_row *)(const void *)head; }

/* Prepares a piece. */
static void groups_prepare(groups_strip *s, const groups_piece *p) {
    const fv_operand *b = s->b;
    const fv_group_extra extra = (fv_group_extra)b->group.extra;
    const uint32_t *from = (const uint32_t *)b->data + (p->step / 4 + p->skipped) * b->row + s->column;
    const float *zeros = p->scales + b->width;
    char *to = s->words;
    for (int64_t g = 0; g < p->count; g++, zeros += fv_scales_row(extra, b->width))
        for (int64_t w = 0; w < p->words; w++, from += b->row, to += s->vectors * FV_W * 4 * STEPS)
            for (int64_t j = 0; j < s->vectors; j++) {
                const vw word = w_load(from + j * FV_W);
                char *at = to + j * FV_W * 4;
                if (BYTES) {
                    w_store(at, w_xor(word, w_set1(0x80808080)));
                    continue;
                }
                vw zero = w_set1(0);
                if (extra == FV_GROUP_zero) { /* in both halves */
                    zero = w_of_float(v_load(zeros + j * FV_W));
                    zero = w_or(w_and(zero, w_set1(0xffff)), w_left(zero, 16));
                }
                w_store(at, w_sub_16(w_even(word), zero));
                w_store(at + s->vectors * FV_W * 4, w_sub_16(w_odd(word), zero));
            }
}

/* A stride that the compiler knows nothing about (multiply_tile.h). */
FV_ALWAYS_INLINE int64_t groups_opaque(int64_t stride) {
    __asm__("" : "+r"(stride));
    return stride;
}

/* Adds the products of so many words to the sums of a tile. head: what begins the group in the first row, in which so
 * many words are skipped. lda: bytes. */
FV_ALWAYS_INLINE void groups_tile(const char *b, const char *head, int64_t lda, int64_t skipped, int64_t words,
                                  int32_t *sums, const int mr, const int nv) {
    enum { THREE = 3, POINTERS = (FV_MR + THREE - 1) / THREE, PLACE = BYTES ? offsetof(fv_i8_word, low) : 0 };
    const char *a[POINTERS]; /* a row of each three */
    vw acc[FV_MR][NV];
    a[0] = head + (skipped + 1) * WORD + PLACE;
    for (int g = 1; g * THREE < mr; g++)
        a[g] = a[g - 1] + THREE * lda;
    for (int i = 0; i < mr; i++)
        for (int j = 0; j < nv; j++)
            acc[i][j] = w_load(sums + i * FV_NR + j * FV_W);
    do {
        for (int e = 0; e < STEPS; e++, b += nv * FV_W * 4) {
            vw y[NV];
            for (int j = 0; j < nv; j++)
                y[j] = w_load(b + j * FV_W * 4);
            for (int i = 0; i < mr; i++) {
                uint32_t word;
                memcpy(&word, a[i / THREE] + i % THREE * lda + e * 4, sizeof word);
                const vw x = w_set1(word);
                for (int j = 0; j < nv; j++)
                    acc[i][j] = groups_add(acc[i][j], y[j], x);
            }
        }
        for (int g = 0; g * THREE < mr; g++)
            a[g] += WORD;
        lda = groups_opaque(lda);
    } while (--words > 0);
    for (int i = 0; i < mr; i++)
        for (int j = 0; j < nv; j++)
            w_store(sums + i * FV_NR + j * FV_W, acc[i][j]);
}

/* Widths of strips are FV_NR and halves of it down to a vector. */
FV_ALWAYS_INLINE void groups_width(const groups_strip *s, const groups_piece *p, const char *b, const char *head,
                                   int32_t *sums, const int mr) {
    const int64_t lda = s->lda * WORD;
    if (s->vectors == NV)
        groups_tile(b, head, lda, p->skipped, p->words, sums, mr, NV);
    else if (NV > 2 && s->vectors == 2)
        groups_tile(b, head, lda, p->skipped, p->words, sums, mr, NV > 2 ? 2 : 1);
    else
        groups_tile(b, head, lda, p->skipped, p->words, sums, mr, 1);
}

static __attribute__((noinline)) void groups_height(const groups_strip *s, const groups_piece *p, const char *b,
                                                    const char *head, int32_t *sums, int64_t rows) {
    switch (rows) {
    case 1: groups_width(s, p, b, head, sums, 1); break;
    case 2: groups_width(s, p, b, head, sums, 2); break;
    case 3: groups_width(s, p, b, head, sums, 3); break;
    case 4: groups_width(s, p, b, head, sums, 4); break;
#if FV_MR > 5
    case 5: groups_width(s, p, b, head, sums, 5); break;
#endif
    default: groups_width(s, p, b, head, sums, FV_MR); break;
    }
}

/* What sums of a group begin with: 0, or what makes up for bytes without sign, and zeros that are not subtracted yet. */
static void groups_begin(const groups_strip *s, const float *scales, const char *head, int64_t rows, int32_t *sums) {
    const float *zeros = s->b->group.extra == FV_GROUP_zero ? scales + s->b->width : NULL;
    for (int64_t i = 0; i < rows; i++, head += s->lda * WORD, sums += FV_NR) {
        const vw total = w_set1(0u - (uint32_t)groups_row(head)->sum),
                 more = BYTES ? w_left(total, SIGN_BITS) : w_set1(0);
        for (int64_t j = 0; j < s->vectors * FV_W; j += FV_W)
            w_store(sums + j, BYTES && zeros ? w_add(more, w_times(total, w_of_float(v_load(zeros + j)))) : more);
    }
}

/* Sums of a group become floats, added to rows of c, or of start. */
static void groups_end(const groups_strip *s, const float *scales, const char *head, int64_t row, int64_t rows,
                       const int32_t *sums, int first) {
    const fv_group_extra extra = (fv_group_extra)s->b->group.extra;
    const float *more = scales + s->b->width;
    for (int64_t i = 0; i < rows; i++, head += s->lda * WORD, sums += FV_NR) {
        const fv_i8_row *a = groups_row(head);
        float *c = s->c + (row + i) * s->ldc;
        const float *from = first ? s->start + (row + i) * s->ldstart : c;
        const vf scale = v_set1(a->scale);
        for (int64_t j = 0; j < s->vectors * FV_W; j += FV_W) {
            vf acc = first && !s->start ? v_set1(0.0f) : v_load(from + j);
            acc = v_fma(w_float(w_load(sums + j)), v_mul(v_load(scales + j), scale), acc);
            if (extra == FV_GROUP_minimum)
                acc = v_fma(v_set1((float)a->sum), v_mul(v_load(more + j), scale), acc);
            v_store(c + j, acc);
        }
    }
}

/* Rows from row on, count of them, by a piece. */
static void groups_run(groups_strip *s, const groups_piece *p, int64_t row, int64_t count) {
    const int64_t scales = fv_scales_row((fv_group_extra)s->b->group.extra, s->b->width),
                  tiles = (count + FV_MR - 1) / FV_MR;
    int32_t *sums = s->sums;
    groups_prepare(s, p);
    for (int64_t tile = 0, rows; tile < tiles; tile++, row += rows) {
        const char *b = s->words, *head = (const char *)(s->a + row * s->lda + p->at);
        rows = count / tiles + (tile < count % tiles);
        for (int64_t g = 0; g < p->count; g++) {
            if (p->begins)
                groups_begin(s, p->scales + g * scales, head, rows, sums);
            groups_height(s, p, b, head, sums, rows);
            if (p->ends)
                groups_end(s, p->scales + g * scales, head, row, rows, sums, p->step == 0 && g == 0);
            b += p->words * s->vectors * FV_W * 4 * STEPS;
            head += (p->words + 1) * WORD;
        }
        if (!p->begins || !p->ends) /* a part: all rows keep their sums */
            sums += rows * FV_NR;
    }
}

static int64_t groups_least(int64_t x, int64_t y) { return x < y ? x : y; }

/* Words of a group with so many steps left. */
static int64_t groups_words(const fv_operand *b, int64_t left) { return (groups_least(b->group.steps, left) + 3) / 4; }

/* All steps of so many rows. */
static void groups_rows(groups_strip *s, int64_t row, int64_t count) {
    const fv_operand *b = s->b;
    const int64_t scales = fv_scales_row((fv_group_extra)b->group.extra, b->width), steps = b->steps;
    groups_piece p = {.scales = b->scales + b->first + s->column};
    for (; p.step < steps; p.step += p.count * b->group.steps, p.scales += p.count * scales) {
        const int64_t words = groups_words(b, steps - p.step), whole = (steps - p.step) / b->group.steps;
        p.count = whole > 0 && words < PIECE ? groups_least(whole, PIECE / words) : 1;
        for (p.skipped = 0; p.skipped < words; p.skipped += p.words) {
            p.words = groups_least(words - p.skipped, PIECE);
            p.begins = p.skipped == 0;
            p.ends = p.skipped + p.words == words;
            groups_run(s, &p, row, count);
        }
        p.at += p.count * fv_i8_row_words(b->group.steps);
    }
}

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const float *start = epilogue ? epilogue->start : NULL;
    const int64_t m = a->count, n = b->columns, turns = groups_words(b, b->steps) > PIECE ? (m + ROWS - 1) / ROWS : 1;
    (void)prefetch;
    assert(m >= 1 && n >= 1 && b->steps >= 1 && b->first + n <= b->width);
    assert(n % FV_LANES == 0 && b->first % FV_LANES == 0 && (m == 1 || ldc >= n));
    assert(!epilogue || (!epilogue->a && !epilogue->b && !epilogue->row_max));
    assert(start != c || m == 1 || epilogue->ldstart == ldc);
    _Alignas(64) char words[PIECE_BYTES];
    _Alignas(64) int32_t sums[ROWS * FV_NR];
    groups_strip s = {.words = words,
                      .sums = sums,
                      .b = b,
                      .a = a->data,
                      .lda = a->stride,
                      .ldc = ldc,
                      .ldstart = start ? epilogue->ldstart : 0};
    for (; s.column < n; s.column += s.vectors * FV_W) {
        for (s.vectors = NV; s.vectors * FV_W > n - s.column; s.vectors /= 2) {
        }
        s.c = c + s.column;
        s.start = start ? start + s.column : NULL;
        for (int64_t turn = 0, row = 0; turn < turns; turn++) {
            const int64_t rows = m / turns + (turn < m % turns);
            groups_rows(&s, row, rows);
            row += rows;
        }
    }
}
