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

/* Where chains begin with +0, with ldstart 0. */
static const float groups_zero[FV_NR];

/* A strip, the rows that are multiplied with it, and what is kept of both. */
typedef struct groups_strip {
    const fv_operand *b;
    int64_t column, vectors; /* its first column, and its width */
    const fv_i8_word *a;
    int64_t lda;
    float *c; /* of the first row and column */
    int64_t ldc;
    const float *start;
    int64_t ldstart;
    char *words;      /* [PIECE_BYTES] */
    int32_t *tile;    /* [FV_MR][FV_NR], sums */
    int32_t *carried; /* [ROWS][FV_NR], sums of groups that are longer than a piece */
    int32_t first[FV_MR];
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

/* Sums of products of so many words, of the rows of a tile from `at` on. row: the first word of the first of these. */
FV_ALWAYS_INLINE void groups_tile(const groups_strip *s, const char *b, const char *row, int64_t words, int64_t at,
                                  const int mr, const int nv) {
    enum { THREE = 3, POINTERS = (FV_MR + THREE - 1) / THREE };
    int64_t lda = s->lda * WORD;
    const char *a[POINTERS]; /* a row of each three */
    vw acc[FV_MR][NV];
    a[0] = row + (BYTES ? offsetof(fv_i8_word, low) : 0);
#pragma GCC unroll 8
    for (int g = 1; g * THREE < mr; g++)
        a[g] = a[g - 1] + THREE * lda;
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (int j = 0; j < nv; j++)
            acc[i][j] = w_set1((uint32_t)s->first[at + i]);
    do {
#pragma GCC unroll 8
        for (int e = 0; e < STEPS; e++, b += nv * FV_W * 4) {
            vw y[NV];
#pragma GCC unroll 8
            for (int j = 0; j < nv; j++)
                y[j] = w_load(b + j * FV_W * 4);
#pragma GCC unroll 8
            for (int i = 0; i < mr; i++) {
                uint32_t word;
                memcpy(&word, a[i / THREE] + i % THREE * lda + e * 4, sizeof word);
                const vw x = w_set1(word);
#pragma GCC unroll 8
                for (int j = 0; j < nv; j++)
                    acc[i][j] = groups_add(acc[i][j], y[j], x);
            }
        }
#pragma GCC unroll 8
        for (int g = 0; g * THREE < mr; g++)
            a[g] += WORD;
        lda = groups_opaque(lda);
    } while (--words > 0);
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (int j = 0; j < nv; j++)
            w_store(s->tile + (at + i) * FV_NR + j * FV_W, acc[i][j]);
}

FV_ALWAYS_INLINE void groups_width(const groups_strip *s, const char *b, const char *a, int64_t words, int64_t at,
                                   const int mr) {
    if (s->vectors == NV)
        groups_tile(s, b, a, words, at, mr, NV);
    else
        groups_tile(s, b, a, words, at, mr, 1);
}

/* Fewer than four rows, which only the smallest products have, go one by one: less text. */
static __attribute__((noinline)) void groups_height(const groups_strip *s, const char *b, const char *a, int64_t words,
                                                    int64_t rows) {
    switch (rows) {
    case 4: groups_width(s, b, a, words, 0, 4); break;
#if FV_MR > 5
    case 5: groups_width(s, b, a, words, 0, 5); break;
#endif
    case FV_MR: groups_width(s, b, a, words, 0, FV_MR); break;
    default:
        for (int64_t i = 0; i < rows; i++, a += s->lda * WORD)
            groups_width(s, b, a, words, i, 1);
    }
}

/* What sums of rows begin with: what makes up for bytes without sign, counted with the first words of a group. */
static inline void groups_begin(groups_strip *s, const char *head, int64_t rows, int begins) {
    for (int64_t i = 0; BYTES && i < rows; i++, head += s->lda * WORD)
        s->first[i] = begins ? -(groups_row(head)->sum * (1 << SIGN_BITS)) : 0;
}

/* Of bytes: subtracts zeros from sums. */
static void groups_zeros(const groups_strip *s, const float *zeros, const char *head, int64_t rows, int32_t *sums) {
    for (int64_t i = 0; i < rows; i++, head += s->lda * WORD, sums += FV_NR)
        for (int64_t j = 0; j < s->vectors * FV_W; j += FV_W)
            w_store(sums + j, w_sub(w_load(sums + j),
                                    w_times(w_set1((uint32_t)groups_row(head)->sum), w_of_float(v_load(zeros + j)))));
}

/* Sums of a tile so far, of a group that is longer than a piece. */
static void groups_carry(const groups_strip *s, int64_t rows, int begins, int32_t *sums) {
    for (int64_t i = 0; i < rows * FV_NR; i += FV_W)
        w_store(sums + i, begins ? w_load(s->tile + i) : w_add(w_load(sums + i), w_load(s->tile + i)));
}

/* Sums of a group become floats, added to so many vectors of rows of c, or of start. */
FV_ALWAYS_INLINE void groups_floats(const groups_strip *s, const float *scales, const char *head, int64_t row,
                                    int64_t rows, const int32_t *sums, int first, int64_t column, const int minimum,
                                    const int nv) {
    float *c = s->c + row * s->ldc + column;
    const float *from = first ? s->start + row * s->ldstart + column : c;
    const int64_t ld = first ? s->ldstart : s->ldc;
    scales += column;
    sums += column;
    for (int64_t i = 0; i < rows; i++, head += s->lda * WORD, sums += FV_NR, from += ld, c += s->ldc) {
        const vf scale = v_set1(groups_row(head)->scale), total = v_set1(minimum ? (float)groups_row(head)->sum : 0.0f);
#pragma GCC unroll 8
        for (int j = 0; j < nv * FV_W; j += FV_W) {
            vf acc = v_fma(w_float(w_load(sums + j)), v_mul(v_load(scales + j), scale), v_load(from + j));
            if (minimum)
                acc = v_fma(total, v_mul(v_load(scales + s->b->width + j), scale), acc);
            v_store(c + j, acc);
        }
    }
}

FV_ALWAYS_INLINE void groups_end(const groups_strip *s, const float *scales, const char *head, int64_t row,
                                 int64_t rows, const int32_t *sums, int first, const int minimum) {
    if (s->vectors == NV) {
        groups_floats(s, scales, head, row, rows, sums, first, 0, minimum, NV);
        return;
    }
    for (int64_t v = 0; v < s->vectors; v++)
        groups_floats(s, scales, head, row, rows, sums, first, v * FV_W, minimum, 1);
}

/* Rows from row on, count of them, by a piece. */
static void groups_run(groups_strip *s, const groups_piece *p, int64_t row, int64_t count) {
    const fv_group_extra extra = (fv_group_extra)s->b->group.extra;
    const int64_t scales_row = fv_scales_row(extra, s->b->width), tiles = (count + FV_MR - 1) / FV_MR,
                  low = count / tiles, more = count % tiles;
    int32_t *carried = s->carried;
    groups_prepare(s, p);
    for (int64_t tile = 0, rows; tile < tiles; tile++, row += rows) {
        const char *b = s->words, *head = (const char *)(s->a + row * s->lda + p->at);
        const float *scales = p->scales;
        rows = low + (tile < more);
        for (int64_t g = 0; g < p->count; g++, scales += scales_row) {
            int32_t *sums = s->tile;
            groups_begin(s, head, rows, p->begins);
            groups_height(s, b, head + (1 + p->skipped) * WORD, p->words, rows);
            if (!p->begins || !p->ends) {
                groups_carry(s, rows, p->begins, carried);
                sums = carried;
                carried += rows * FV_NR;
            }
            if (p->ends && BYTES && extra == FV_GROUP_zero)
                groups_zeros(s, scales + s->b->width, head, rows, sums);
            if (p->ends && extra == FV_GROUP_minimum)
                groups_end(s, scales, head, row, rows, sums, p->step == 0 && g == 0, 1);
            else if (p->ends)
                groups_end(s, scales, head, row, rows, sums, p->step == 0 && g == 0, 0);
            b += p->words * s->vectors * FV_W * 4 * STEPS;
            head += (p->words + 1) * WORD;
        }
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
    _Alignas(64) int32_t tile[FV_MR * FV_NR], carried[ROWS * FV_NR];
    groups_strip s = {.words = words,
                      .tile = tile,
                      .carried = carried,
                      .b = b,
                      .a = a->data,
                      .lda = a->stride,
                      .ldc = ldc,
                      .ldstart = start ? epilogue->ldstart : 0};
    for (; s.column < n; s.column += s.vectors * FV_W) {
        s.vectors = n - s.column >= FV_NR ? NV : 1;
        s.c = c + s.column;
        s.start = start ? start + s.column : groups_zero;
        for (int64_t turn = 0, row = 0; turn < turns; turn++) {
            const int64_t rows = m / turns + (turn < m % turns);
            groups_rows(&s, row, rows);
            row += rows;
        }
    }
}
