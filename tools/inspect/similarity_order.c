/* Orders, ranges and names of figures (similarity.h). */
#include "similarity.h"

#include <math.h>
#include <stdlib.h>

/* As the values of --rank (options.c). */
const similarity_order similarity_orders[SIMILARITY_ORDERS] = {
    {FIGURE_ANGLE, false, "Q and K most alike (smallest mean angle)"},
    {FIGURE_ANGLE, true, "Q and K least alike (largest mean angle)"},
    {FIGURE_SYMMETRY, true, "most symmetric B"},
    {FIGURE_SYMMETRY, false, "least symmetric B"},
    {FIGURE_RANK, false, "lowest effective rank of B"},
    {FIGURE_RANK, true, "highest effective rank of B"},
    {FIGURE_ANGLE + 1, false, "Q and V most alike (smallest mean angle)"},
    {FIGURE_ANGLE + 2, false, "K and V most alike (smallest mean angle)"},
    {-1, false, "by layer and head"},
};

/* ------------------------------------------------------------------------------------------------------- sorting -- */

static int compare(const void *a, const void *b) {
    const similarity_place *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : (x->head > y->head) - (x->head < y->head);
}

int64_t similarity_sort(const similarity *s, const similarity_order *order) {
    int64_t count = 0;
    for (int64_t h = 0; h < s->heads; h++) {
        const double value = order->figure < 0 ? 0.0 : s->figure[h][order->figure];
        if (!isnan(value))
            s->sorted[count++] = (similarity_place){order->falling ? -value : value, h};
    }
    qsort(s->sorted, (size_t)count, sizeof *s->sorted, compare);
    return count;
}

int64_t similarity_layer(const similarity *s, int64_t head) {
    int64_t low = 0, high = s->layers;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (s->first[middle] <= head)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* -------------------------------------------------------------------------------------------------------- ranges -- */

similarity_range similarity_find_range(const similarity *s, int figure) {
    similarity_range r = {.low = NAN, .high = NAN, .least = -1, .most = -1};
    for (int64_t h = 0; h < s->heads; h++) {
        const double value = s->figure[h][figure];
        r.without += isnan(value);
        if (value < r.low || (r.least < 0 && !isnan(value)))
            r.low = value, r.least = h;
        if (value > r.high || (r.most < 0 && !isnan(value)))
            r.high = value, r.most = h;
    }
    return r;
}

void similarity_count(const similarity *s, int figure, const similarity_range *range, int parts, int64_t *count) {
    for (int i = 0; i < parts; i++)
        count[i] = 0;
    const double width = range->high - range->low;
    for (int64_t h = 0; h < s->heads; h++) {
        const double value = s->figure[h][figure];
        if (isnan(value))
            continue;
        const int part = width > 0.0 ? (int)((value - range->low) / width * parts) : parts / 2;
        count[part < parts ? part : parts - 1]++;
    }
}

/* --------------------------------------------------------------------------------------------------------- names -- */

const figure_group *similarity_group(int figure) {
    int g = 0;
    while (figure >= figure_groups[g].first + figure_groups[g].count)
        g++;
    return &figure_groups[g];
}

const char *similarity_column(int figure) {
    static char text[64];
    const figure_group *g = similarity_group(figure);
    snprintf(text, sizeof text, "%s%s%s", g->column, g->count > 1 ? "_" : "",
             g->count > 1 ? figure_pairs[figure - g->first] : "");
    return text;
}

const char *similarity_words(int figure) {
    static const char *const pairs[] = {"Q and K: ", "Q and V: ", "K and V: "};
    static char text[96];
    const figure_group *g = similarity_group(figure);
    snprintf(text, sizeof text, "%s%s", g->count > 1 ? pairs[figure - g->first] : "", g->title);
    return text;
}
