/* Packing by any strides (pack_any.h). */
#include "pack_any.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { STEPS = 16 }; /* of a column at a time: so few that a line of either side is in cache until it is used up */

/* Where elements of a column go: pairs of words `row` apart, each of per_word elements `next` apart. */
typedef struct places {
    int64_t row, next;
    int per_word;
} places;

/* n elements, and +0 up to the end of a word. */
static inline void put(const char *from, int64_t stride, int64_t n, char *to, const places *p, int64_t size) {
    const int64_t row = p->row * size, step = stride * size * p->per_word;
    for (int e = 0; e < p->per_word; e++) {
        const char *x = from + e * stride * size;
        char *y = to + e * p->next * size;
        int64_t t = e;
        for (; t < n; t += p->per_word, x += step, y += row)
            memcpy(y, x, (size_t)size);
        if (t - e < n)
            memset(y, 0, (size_t)size);
    }
}

static void floats_of(const fv_matrix *m, const char *from, int64_t j, int64_t n, float *numbers) {
    if (m->bits == 8)
        for (int64_t t = 0; t < n; t++)
            numbers[t] = m->scales[j] * (float)((const int8_t *)from)[t * m->step];
    else if (m->widen)
        m->widen(n, 1, (const uint16_t *)(const void *)from, m->step, numbers, 1);
    else
        for (int64_t t = 0; t < n; t++)
            numbers[t] = ((const float *)(const void *)from)[t * m->step];
}

/* Floats by blocks: a column is read some lines at a time, and rows are written a line at a time. */
static void pack_floats(const fv_matrix *m, const fv_operand *b, float *to, int64_t column) {
    enum { COLUMNS = 16, ROWS = 64 };
    float numbers[ROWS], block[ROWS][COLUMNS];
    const bool scaled = m->scale != 1.0f; /* else no bit changes, of NaN neither */
    for (int64_t k = 0; k < m->steps; k += ROWS)
        for (int64_t j = 0, count; j < m->columns; j += count) {
            const int64_t n = m->steps - k < ROWS ? m->steps - k : ROWS;
            count = m->columns - j < COLUMNS ? m->columns - j : COLUMNS;
            for (int64_t c = 0; c < count; c++) {
                floats_of(m, (const char *)m->data + (k * m->step + (j + c) * m->column) * m->bits / 8, j + c, n,
                          numbers);
                for (int64_t t = 0; t < n; t++)
                    block[t][c] = scaled ? m->scale * numbers[t] : numbers[t];
            }
            float *row = to + fv_operand_place(b, k, column + j);
            for (int64_t t = 0; t < n; t++, row += b->row)
                memcpy(row, block[t], (size_t)count * sizeof(float));
        }
}

void fv_pack_any(const fv_matrix *m, const fv_operand *b, void *words, int64_t column) {
    const fv_format_info f = fv_format_of(b->format);
    assert(f.word != FV_WORD_column && STEPS % f.per_word == 0 && m->steps <= b->steps);
    assert(m->bits == f.bits || ((m->widen || m->scales) && f.element == FV_TYPE_f32));
    if (f.element == FV_TYPE_f32) {
        pack_floats(m, b, words, column);
        return;
    }
    const places p = {b->row * f.per_word,
                      f.per_word > 1 ? fv_operand_place(b, 1, column) - fv_operand_place(b, 0, column) : 0, f.per_word};
    for (int64_t k = 0; k < m->steps; k += STEPS)
        for (int64_t j = 0; j < m->columns; j++) {
            const char *from = (const char *)m->data + (k * m->step + j * m->column) * m->bits / 8;
            char *to = (char *)words + fv_operand_place(b, k, column + j) * f.bits / 8;
            const int64_t n = m->steps - k < STEPS ? m->steps - k : STEPS;
            if (f.bits == 16) /* a size that the compiler knows: copies are moves, not calls */
                put(from, m->step, n, to, &p, 2);
            else
                put(from, m->step, n, to, &p, f.bits / 8);
        }
}

void fv_unpack_any(const fv_operand *b, int64_t column, void *elements) {
    const size_t size = (size_t)fv_format_of(b->format).bits / 8;
    for (int64_t t = 0; t < b->steps; t++)
        memcpy((char *)elements + (size_t)t * size,
               (const char *)b->data + (size_t)fv_operand_place(b, t, column) * size, size);
}
