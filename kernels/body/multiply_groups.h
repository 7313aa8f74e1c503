/* Products of many rows with weights as int8 in groups (groups.h has the formulas), by tiles of FV_MR rows and FV_NR
 * columns.
 *
 * A strip of FV_NR columns goes piece by piece: its words are prepared in a buffer that stays in the first-level cache,
 * and all tiles of rows run over that, so that the inner loop has nothing but products, loads of B and broadcasts of A
 * from memory. Words are those of i8g or i4g. Kind i16: they become two of int16, the integers less their zeros, and
 * one sum has all. Kind i8 (FV_BYTES): bytes have 128 added, since the instruction wants them without sign, and sums
 * begin with what that adds.
 *
 * Sums of a tile become floats where they are, and are added to c at the end of each group; those of groups that are
 * longer than a piece wait in a buffer.
 *
 * Bound: the units that multiply. A group adds 3 operations a vector of c to its 8 (kind i8) or 16 for each 32
 * channels, 5 where it has a minimum. Figures: docs/lab/quantized.md. */
#ifndef FV_ALWAYS_INLINE
#define FV_ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

#ifdef FV_BYTES
enum { BYTES = 1, STEPS = 1 }; /* STEPS: words of A for four channels */
FV_ALWAYS_INLINE vw groups_add(vw sums, vw b, vw a) { return w_add_bytes(sums, b, a); }
#else
enum { BYTES = 0, STEPS = 2 };
FV_ALWAYS_INLINE vw groups_add(vw sums, vw b, vw a) { return w_add_pairs(sums, b, a); }
#endif

enum {
    NV = FV_NR / FV_W,
    PIECE_BYTES = 16384,
    PIECE = PIECE_BYTES / (FV_NR * 4 * STEPS), /* words of B of a column in a piece: half of the smallest cache */
    ROWS = 8 * FV_MR, /* at once, if groups are longer than pieces: preparing a piece takes 2% */
    WORD = STEPS * 4, /* bytes of A for four channels */
    HEAD = sizeof(fv_group_row),
    LINE = 64,
    SIGN_BITS = 7 /* 128 is added to bytes */
};

/* Groups of the same size, or a part of one. */
typedef struct groups_piece {
    int64_t count, words;      /* words of each */
    int64_t step, at, skipped; /* its first step; of its first group the place in a row of A, and the words before */
    int begins, ends;
    int64_t number;      /* of a strip's pieces */
    const float *scales; /* of its first group */
} groups_piece;

/* Where chains begin with +0, with ldstart 0. */
static const float groups_zero[FV_NR];

/* A strip, the rows that are multiplied with it, and what is kept of both. */
typedef struct groups_strip {
    const fv_operand *b;
    int64_t column; /* its first */
    const char *a;
    int64_t lda; /* bytes */
    float *c;    /* of the first row and column */
    int64_t ldc;
    const float *start;
    int64_t ldstart;
    char *words;                 /* [PIECE_BYTES] */
    int32_t *carried;            /* [ROWS][FV_NR], sums of groups that are longer than a piece */
    const char *next, *next_end; /* what is fetched meanwhile, so much for each tile */
    int64_t fetched, pieces;
    char *write; /* lines of c: each piece fetches those of a part of a tile's rows, or loads of A would wait */
    int64_t write_stride;
} groups_strip;

static inline const fv_group_row *groups_row(const char *head) { return (const fv_group_row *)(const void *)head; }

/* Bytes with zeros of their own, which are subtracted from each group's sums in memory: a group at a time. */
static int groups_apart(const fv_operand *b) { return BYTES && b->group.extra == FV_GROUP_zero; }

FV_ALWAYS_INLINE void groups_word(char *to, vw bytes, vw less) {
    w_store(to, BYTES ? w_sub_8(bytes, less) : w_sub_16(w_even(bytes), less));
    if (!BYTES)
        w_store(to + FV_NR * 4, w_sub_16(w_odd(bytes), less));
}

/* Subtracts a group's own zeros from its words, which begin at `to`. */
static void groups_less(char *to, const char *end, const float *zeros) {
    for (int64_t j = 0; to < end; to += FV_W * 4, j = (j + FV_W) % FV_NR) {
        const vw zero = w_of_float(v_load(zeros + j));
        w_store(to, w_sub_16(w_load(to), w_or(w_and(zero, w_set1(0xffff)), w_left(zero, 16))));
    }
}

/* Prepares a piece. A row of i4g has two words of four channels, the second of which may be past the group's end. */
static void groups_prepare(groups_strip *s, const groups_piece *p) {
    enum { NEXT = FV_NR * 4 * STEPS };
    const fv_operand *b = s->b;
    const fv_group_extra extra = (fv_group_extra)b->group.extra;
    const int two = b->format == FV_FORMAT_i4g;
    const uint32_t zero = two && extra == FV_GROUP_plain ? 8 : 0;
    const vw mask = w_set1(two ? 0x0f0f0f0f : 0xffffffff),
             less = w_set1(BYTES ? (zero + 0x80) * 0x01010101u : zero * 0x00010001u);
    char *to = s->words;
    for (int64_t g = 0; g < p->count; g++) {
        const int64_t step = p->step + g * b->group.steps;
        const uint32_t *from = (const uint32_t *)b->data + ((step / 4 + p->skipped) >> two) * b->row + s->column +
                               fv_group_skipped(b->group, step);
        char *const begin = to;
        for (int64_t w = 0; w < p->words; w += 1 + two, from += b->row, to += NEXT << two)
#pragma GCC unroll 1
            for (int64_t j = 0; j < FV_NR; j += FV_W) {
                const vw word = w_load(from + j);
                groups_word(to + j * 4, w_and(word, mask), less);
                if (two)
                    groups_word(to + j * 4 + NEXT, w_and(w_right(word, 4), mask), less);
            }
        if (!BYTES && extra == FV_GROUP_zero)
            groups_less(begin, to, p->scales + g * fv_scales_row(extra, b->width) + b->width);
    }
}

#include "body/groups_tile.h"

/* For bytes: subtracts zeros from sums of the piece's only group. */
static void groups_zeros(const groups_part *t, int64_t rows) {
    const groups_strip *s = t->s;
    const float *zeros = t->p->scales + s->b->width;
    const char *head = s->a + t->row * s->lda + t->p->at;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < FV_NR; j += FV_W) {
            int32_t *sums = t->carried + i * FV_NR + j;
            const vw total = w_set1((uint32_t)groups_row(head + i * s->lda)->sum);
            w_store(sums, w_sub(w_load(sums), w_times(total, w_of_float(v_load(zeros + j)))));
        }
}

/* Rows from row on, count of them, by a piece. */
static void groups_run(groups_strip *s, const groups_piece *p, int64_t row, int64_t count) {
    const int less = p->ends && groups_apart(s->b);
    groups_part t = {s, p, row, s->carried, p->words, p->begins, p->ends && !less};
    char *write = s->write ? s->write + row * s->write_stride + s->column * (int64_t)sizeof(float) : NULL;
    groups_prepare(s, p);
    for (int64_t rows, left = count; left > 0; left -= rows, t.row += rows) {
        rows = groups_height(left);
        for (int64_t i = 0; i < s->fetched && s->next < s->next_end; i++, s->next += LINE)
            __builtin_prefetch(s->next, 0, 2);
        for (int64_t i = p->number; write && i < rows; i += s->pieces)
            for (int64_t line = 0; line < FV_NR * (int64_t)sizeof(float); line += LINE)
                __builtin_prefetch(write + i * s->write_stride + line, 1, 2);
        write = write ? write + rows * s->write_stride : NULL;
        groups_rows(&t, rows);
        if (less) { /* what is left of the group, without words */
            groups_part end = t;
            groups_zeros(&t, rows);
            end.words = end.begins = 0;
            end.ends = 1;
            groups_rows(&end, rows);
        }
        t.carried += p->begins && p->ends ? 0 : rows * FV_NR;
    }
}

static int64_t groups_least(int64_t x, int64_t y) { return x < y ? x : y; }

/* Words of a group that has `left` steps left. */
static int64_t groups_words(const fv_operand *b, int64_t left) { return (groups_least(b->group.steps, left) + 3) / 4; }

/* All steps of `count` rows. */
static void groups_steps(groups_strip *s, int64_t row, int64_t count) {
    const fv_operand *b = s->b;
    const int64_t scales = fv_scales_row((fv_group_extra)b->group.extra, b->width), steps = b->steps;
    groups_piece p = {.scales = b->scales + b->first + s->column};
    for (; p.step < steps; p.step += p.count * b->group.steps, p.scales += p.count * scales) {
        const int64_t words = groups_words(b, steps - p.step), whole = (steps - p.step) / b->group.steps;
        p.count = whole > 0 && words < PIECE && !groups_apart(b) ? groups_least(whole, PIECE / words) : 1;
        for (p.skipped = 0; p.skipped < words; p.skipped += p.words) {
            p.words = groups_least(words - p.skipped, PIECE);
            p.begins = p.skipped == 0;
            p.ends = p.skipped + p.words == words;
            groups_run(s, &p, row, count);
            p.number++;
        }
        p.at += p.count * (HEAD + b->group.steps / 4 * WORD); /* but for the last group */
    }
}

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const float *start = epilogue ? epilogue->start : NULL;
    const int64_t m = a->count, n = b->columns, turns = groups_words(b, b->steps) > PIECE ? (m + ROWS - 1) / ROWS : 1;
    assert(m >= 1 && n >= 1 && b->steps >= 1 && b->first + n <= b->width);
    assert(n % FV_NR == 0 && b->first % FV_LANES == 0 && (m == 1 || ldc >= n));
    assert(!epilogue || (!epilogue->a && !epilogue->b && !epilogue->row_max));
    assert(start != c || m == 1 || epilogue->ldstart == ldc);
    _Alignas(64) char words[PIECE_BYTES];
    _Alignas(64) int32_t carried[ROWS * FV_NR];
    groups_strip s = {.words = words,
                      .carried = carried,
                      .b = b,
                      .a = a->data,
                      .lda = a->stride * (int64_t)sizeof(uint32_t),
                      .pieces = (b->steps + 4 * PIECE - 1) / (4 * PIECE),
                      .ldc = ldc,
                      .ldstart = start ? epilogue->ldstart : 0};
    if (prefetch) {
        s.write = prefetch->write;
        s.write_stride = prefetch->write_stride;
    }
    if (prefetch && prefetch->next) {
        const int64_t tiles = (m / FV_MR + 1) * (n / FV_NR) * s.pieces;
        s.next = prefetch->next;
        s.next_end = prefetch->next_end;
        s.fetched = (s.next_end - s.next) / (LINE * tiles) + 1;
    }
    for (; s.column < n; s.column += FV_NR) {
        s.c = c + s.column;
        s.start = start ? start + s.column : groups_zero;
        for (int64_t turn = 0, row = 0; turn < turns; turn++) {
            const int64_t rows = m / turns + (turn < m % turns);
            groups_steps(&s, row, rows);
            row += rows;
        }
    }
}
