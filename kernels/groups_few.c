/* Products of few rows with integers in groups: rows, groups and pieces, for all tiers (body/groups_few.h). Group after
 * group, and of long groups piece after piece, all columns of the panel are taken: so B is read once, nearly in the order
 * in which it lies. Rows that registers do not hold find it in the caches. */
#include "body/groups_few.h"

#include <assert.h>
#include <string.h>

enum {
    TOGETHER = FV_I8_CHANNELS, /* steps of B, about, which all rows take before the next */
    AHEAD = 8192               /* bytes from what is read to what is fetched */
};

/* Step t, a multiple of 16, may be in the middle of words. */
static void groups_place(fv_groups_piece *p, const fv_operand *b, int64_t t) {
    const int64_t half = b->format == FV_FORMAT_i5g ? t / 16 % 2 : 0;
    p->half = half;
    p->words = (const uint32_t *)b->data + fv_group_rows(b->format, t - 16 * half) * b->row;
}

/* The groups of steps [first, last). */
static void groups_rows(const fv_groups_few *with, fv_groups_piece *p, const fv_rows *a, const fv_operand *b,
                        int64_t first, int64_t last) {
    const int64_t group = b->group.steps, words = fv_i8_row_words(group), scales = fv_scales_row(p->extra, b->width);
    const int zero = fv_group_zero(b->format, p->extra) + (b->format == FV_FORMAT_i8g ? with->bias : 0);
    void (*const columns)(const fv_groups_piece *) = with->columns[p->rows == with->most ? 3 : p->rows / 2];
    p->scales = b->scales + b->first + first / group * scales;
    for (int64_t i = 0; i < p->rows; i++) {
        const int64_t row = p->row + i < a->count ? p->row + i : a->count - 1;
        p->group[i] = fv_i8_row_of(a, row) + first / group * words;
    }
    for (int64_t t = first; t < last; t += group, p->scales += scales) {
        const int64_t count = last - t < group ? last - t : group;
        for (int64_t i = 0; i < p->rows; i++)
            p->start[i] = -zero * p->group[i]->sum;
        for (p->done = 0; p->done < count; p->done += p->steps) {
            p->steps = count - p->done < with->piece ? count - p->done : with->piece;
            groups_place(p, b, t + p->done);
            columns(p);
        }
        p->more = p->scales + b->width;
        with->end(p);
        for (int64_t i = 0; i < p->rows; i++)
            p->group[i] += words;
    }
}

void fv_groups_few_run(const fv_groups_few *with, const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                       const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    const int64_t group = b->group.steps, together = group < TOGETHER ? TOGETHER / group * group : group, m = a->count,
                  bytes = b->columns * (int64_t)sizeof *c;
    assert(m >= 1 && m <= FV_GROUPS_MOST_ROWS && b->steps >= 1 && b->columns >= 1 && b->columns % FV_LANES == 0);
    assert(b->first % FV_LANES == 0 && b->first + b->columns <= b->width && b->columns <= FV_GROUPS_MOST_COLUMNS);
    assert(group >= 1 && group <= FV_I8_CHANNELS && (group % 16 == 0 || b->steps <= group));
    assert(!epilogue || (!epilogue->a && !epilogue->b && !epilogue->row_max));
    _Alignas(64) fv_groups_sums sums; /* no vector lies across lines */
    fv_groups_piece p = {.sums = &sums, .columns = b->columns, .ldb = b->row, .extra = (fv_group_extra)b->group.extra};
    const int64_t fetch = prefetch && prefetch->next      ? (const char *)prefetch->next - (const char *)b->data
                          : prefetch && prefetch->streams ? AHEAD
                                                          : 0;
    for (int64_t i = 0; i < (m < 3 ? m : FV_GROUPS_MOST_ROWS); i++) {
        if (i < m && epilogue && epilogue->start)
            memcpy(sums.chains[i], epilogue->start + i * epilogue->ldstart, (size_t)bytes);
        else
            memset(sums.chains[i], 0, (size_t)bytes);
    }
    for (int64_t first = 0, last; first < b->steps; first = last) {
        last = b->steps - first < together ? b->steps : first + together;
        for (p.row = 0; p.row < m; p.row += p.rows) {
            const int64_t left = m - p.row;
            p.rows = left > with->most - 2 ? with->most : left > 2 ? 4 : left;
            p.fetch = p.row == 0 ? fetch : 0;
            groups_rows(with, &p, a, b, first, last);
        }
    }
    for (int64_t i = 0; i < m; i++)
        memcpy(c + i * ldc, sums.chains[i], (size_t)bytes);
}
