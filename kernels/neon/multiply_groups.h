/* Products of rows of integers with integers in groups (groups.h) on NEON, of few rows and of many. FV_GROUP_FORMAT is
 * the format of B, FV_GROUP_SUMS the file with the unit's sums, FV_GROUP_LOW says that A is of kind i8.
 *
 * A tile is up to 4 rows by 2 or 4 vectors of columns, as registers hold sums. Zeros are subtracted from a group's sum
 * at its end, times the sum of the row, so w are multiplied without sign. Few rows read B once for each four rows; the
 * second four find it in cache. Bound: the products; of few rows the unpacking, or memory. Not measured: no such CPU
 * was at hand. */
#include "neon/group_words.h"

#define GROUP_INLINE static inline __attribute__((always_inline))
enum { GROUP_ROWS = 4, GROUP_VECTORS = 4 };
#ifdef FV_GROUP_LOW
enum { GROUP_STEP = FV_GROUP_WORDS / 2 }; /* words of A of a block */
static const fv_kind group_kind = FV_KIND_i8;
#else
enum { GROUP_STEP = FV_GROUP_WORDS };
static const fv_kind group_kind = FV_KIND_i16; /* rows of i8x2 have as many words */
#endif

#include FV_GROUP_SUMS

typedef struct group_call {
    const fv_rows *a;
    const fv_operand *b;
    float *c;
    int64_t ldc;
    const fv_epilogue *e;
} group_call;

/* A group's sum of four columns joins the chain. */
GROUP_INLINE float32x4_t group_scaled(const fv_operand *b, const float *scale, const fv_group_row *row, int32x4_t sum,
                                      float32x4_t acc) {
    sum = vmlsq_n_s32(sum, group_zeros(b, scale), row->sum);
    acc = vfmaq_f32(acc, vcvtq_f32_s32(sum), vmulq_n_f32(vld1q_f32(scale), row->scale));
    if (b->group.extra == FV_GROUP_minimum)
        acc = vfmaq_f32(acc, vdupq_n_f32((float)row->sum), vmulq_n_f32(vld1q_f32(scale + b->width), row->scale));
    return acc;
}

/* Columns from column on of rows from row on; those past the last are computed, and not stored. */
GROUP_INLINE void group_tile(const group_call *x, int64_t column, int64_t row, const int rows, const int vectors) {
    const fv_operand *b = x->b;
    const int64_t group = b->group.steps, last = x->a->count - 1,
                  next_scale = fv_scales_row((fv_group_extra)b->group.extra, b->width);
    const float *scale = b->scales + b->first + column, *start = x->e ? x->e->start : NULL;
    const uint8_t *words = (const uint8_t *)b->data + 4 * column;
    const uint32_t *a[GROUP_ROWS];
    float32x4_t acc[GROUP_ROWS][GROUP_VECTORS];
    for (int i = 0; i < rows; i++) {
        const int64_t r = row + i < last ? row + i : last;
        a[i] = (const uint32_t *)x->a->data + r * x->a->stride;
        for (int v = 0; v < vectors; v++)
            acc[i][v] = start ? vld1q_f32(start + r * x->e->ldstart + column + v * FV_W) : vdupq_n_f32(0.0f);
    }
    for (int64_t t = 0; t < b->steps; t += group, scale += next_scale) {
        const int64_t count = b->steps - t < group ? b->steps - t : group;
        int32x4_t sums[GROUP_ROWS][GROUP_VECTORS];
        group_sum(a, words, 4 * b->row, t, count, rows, vectors, sums);
        for (int i = 0; i < rows; i++) {
            const fv_group_row *made = (const fv_group_row *)(const void *)a[i];
            for (int v = 0; v < vectors; v++)
                acc[i][v] = group_scaled(b, scale + v * FV_W, made, sums[i][v], acc[i][v]);
            a[i] += fv_group_row_words(group_kind, count);
        }
    }
    for (int i = 0; i < rows && row + i <= last; i++)
        for (int v = 0; v < vectors; v++)
            vst1q_f32(x->c + (row + i) * x->ldc + column + v * FV_W, acc[i][v]);
}

GROUP_INLINE void group_all(const group_call *x, const int rows, const int vectors) {
    for (int64_t column = 0; column < x->b->columns; column += vectors * FV_W)
        for (int64_t row = 0; row < x->a->count; row += rows)
            group_tile(x, column, row, rows, vectors);
}

static __attribute__((noinline)) void group_2(const group_call *x) { group_all(x, 2, GROUP_VECTORS); }
static __attribute__((noinline)) void group_4(const group_call *x) { group_all(x, GROUP_ROWS, GROUP_OF_FOUR); }

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const group_call x = {a, b, c, ldc, epilogue};
    (void)prefetch;
    assert(a->count >= 1 && b->columns >= 1 && b->steps >= 1 && b->first + b->columns <= b->width);
    assert(b->columns % FV_LANES == 0 && b->first % FV_LANES == 0 && b->format == FV_GROUP_FORMAT);
    assert(!epilogue || (!epilogue->a && !epilogue->b && !epilogue->row_max));
    if (a->count <= 2)
        group_2(&x);
    else
        group_4(&x);
}
