/* experts.h: rows by expert. */
#include "experts/experts.h"

#include <string.h>

void fv_sort(int64_t experts, int64_t first, int64_t rows, int64_t k, const int64_t *chosen, const float *weights,
             fv_sorted *s) {
    memset(s->begin, 0, (size_t)(experts + 1) * sizeof *s->begin);
    for (int64_t i = 0; i < rows * k; i++)
        if (chosen[i] < experts)
            s->begin[chosen[i] + 1]++;
    for (int64_t e = 0; e < experts; e++)
        s->begin[e + 1] += s->begin[e];
    s->count = s->begin[experts];
    /* begin[e] moves to the next expert's as pairs are placed, and all of them back one. */
    for (int64_t i = 0; i < rows * k; i++) {
        if (chosen[i] >= experts)
            continue;
        const int64_t place = s->begin[chosen[i]]++;
        s->row[place] = first + i / k;
        if (weights)
            s->weight[place] = weights[i];
    }
    memmove(s->begin + 1, s->begin, (size_t)experts * sizeof *s->begin);
    s->begin[0] = 0;
    for (int64_t i = 0; i < rows * k; i++)
        s->places[i] = -1;
    for (int64_t place = 0; place < s->count; place++) {
        int64_t *at = s->places + (s->row[place] - first) * k;
        while (*at >= 0)
            at++;
        *at = place;
    }
}
