/* Products of few rows with integers in groups: rows and blocks of groups, for all tiers (body/groups_few.h). All rows
 * take a block before the next, so that B comes from memory once, and those that registers do not hold find it in the
 * caches. */
#include "body/groups_few.h"

#include <assert.h>
#include <stdbool.h>

enum { TOGETHER = FV_I8_CHANNELS }; /* steps of a block, about */

void fv_groups_few_run(const fv_groups_few *with, const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                       const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    const int64_t m = a->count;
    const bool gaps = b->scales == NULL, whole = gaps && with->columns[0] == b->width && b->first == 0,
               once = whole && m == 1, few = m < 4;
    /* Turns that take whole panels read a stream; two or three rows of 4 bits one by one wait less for lines that were
     * all prefetched. */
    const bool streams = whole && (once || !few || with->rows < 4 || fv_format_of(b->format).bits > 4);
    const int64_t group = b->group.steps, chunk = gaps ? group * b->group.chunk : group,
                  together = once               ? b->steps
                             : chunk < TOGETHER ? TOGETHER / chunk * chunk
                                                : chunk;
    const fv_scale_words layout = (fv_scale_words)b->group.scales;
    const int64_t groups = fv_scales_group_bytes(layout) * b->width;
    const fv_group_extra extra = (fv_group_extra)b->group.extra;
    const uintptr_t stream =
        prefetch && prefetch->ahead ? (uintptr_t)(prefetch->ahead > 0 ? prefetch->ahead : 0) : (uintptr_t)FV_AHEAD;
    assert(m >= 1 && b->steps >= 1 && b->columns >= 1 && b->columns % FV_LANES == 0);
    assert(b->columns % with->columns[0] == 0 && b->columns % with->columns[1] == 0);
    assert(b->first % FV_LANES == 0 && (once || b->first + b->columns <= b->width));
    assert(group >= 1 && group <= FV_I8_CHANNELS && (group % 16 == 0 || b->steps <= group));
    assert(b->format != FV_FORMAT_i5g || (group % 32 == 0 && b->steps % 32 == 0));
    assert(!gaps || b->group.gap > 0);
    assert((b->format != FV_FORMAT_i6g && b->format != FV_FORMAT_i4tg) || extra == FV_GROUP_plain);
    assert(!epilogue || (!epilogue->a && !epilogue->b && !epilogue->row_max));
    fv_groups_block p = {.columns = b->columns,
                         .ldb = b->row,
                         .group = group,
                         .width = b->width,
                         .first = gaps ? b->first : 0,
                         .layout = gaps ? (int)layout : FV_SCALES_COUNT,
                         .chunk = chunk,
                         .gap = b->group.gap,
                         .super = fv_scales_super_bytes(layout) * b->width,
                         .groups = groups,
                         .other = extra == FV_GROUP_zero ? groups - b->width : groups / 2,
                         .next = fv_scales_row(extra, b->width),
                         .extra = extra,
                         .zero = fv_group_zero(b->format, extra) +
                                 (b->format == FV_FORMAT_i8g || b->format == FV_FORMAT_i4tg ? with->bias : 0),
                         .table = fv_tables[b->group.table],
                         .share = m / with->rows + (streams && m >= with->rows ? 0 : m % with->rows),
                         .lda = a->stride,
                         .ldc = ldc};
    for (int64_t first = 0; first < b->steps; first += p.steps) {
        const float *start = first > 0 ? c : epilogue ? epilogue->start : NULL;
        p.ldstart = first > 0 ? ldc : start ? epilogue->ldstart : 0;
        p.steps = b->steps - first < together ? b->steps - first : together;
        p.words =
            (const uint32_t *)b->data + fv_group_rows(b->format, first) * b->row + fv_group_skipped(b->group, first);
        p.scales = gaps ? (const void *)(p.words - b->first - b->group.gap)
                        : (const void *)(b->scales + b->first + first / group * p.next);
        const int64_t bytes = fv_group_rows(b->format, p.steps) * b->row * (int64_t)sizeof *p.words;
        int64_t turn = 0;
        for (int64_t row = 0, rows; row < m; row += rows) {
            const int which = m - row >= with->rows;
            rows = which ? with->rows : 1;
            p.panel = streams && (few || !which || with->whole) ? b->panel : 0;
            const bool parts = p.share > 1 || with->columns[which] < b->columns;
            const uintptr_t ahead = !prefetch            ? 0
                                    : prefetch->next     ? (uintptr_t)prefetch->next - (uintptr_t)b->data
                                    : !prefetch->streams ? 0
                                    : parts              ? (uintptr_t)bytes
                                                         : 2 * stream;
            p.fetch = p.panel > 0 ? stream /* a share each, in order */
                                  : (uintptr_t)p.words + ahead + (uintptr_t)(bytes / p.share * turn++);
            p.a = (const uint32_t *)a->data + row * a->stride + first / group * fv_group_row_words(FV_KIND_i16, group);
            p.start = start ? start + row * p.ldstart : NULL;
            p.c = c + row * ldc;
            with->product[which](&p);
        }
    }
}
