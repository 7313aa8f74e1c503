/* The figures of a model as heat maps of layers x heads: a panel for each question, with its own range. Everywhere the
 * lightest colour is the greatest value of the panel and the darkest the least; both are marked in the map and named
 * below it, over a histogram in the same colours. */
#include "similarity.h"

#include "heat.h"

#include <math.h>
#include <string.h>

enum {
    TOP = 64,
    TITLE = 34,   /* above a map */
    BOTTOM = 116, /* below it */
    GAP = 36,
    LEGEND = 330, /* the width of a legend, and the least of a panel */
    ACROSS = 2,
    MAP_WIDE = 440, /* about what a map takes, in pixels */
    MAP_HIGH = 560
};

/* The questions, as they stand side by side. */
static const struct question {
    int figure;
    const char *title, *meaning;
} questions[] = {
    {FIGURE_COSINE, "Q and K: cosine", "1: equal up to a factor, 0: unrelated, -1: opposite"},
    {FIGURE_ANGLE, "Q and K: mean principal angle", "0°: they read the same channels, 90°: none in common"},
    {FIGURE_COSINE + 1, "Q and V: cosine", "1: equal up to a factor, 0: unrelated, -1: opposite"},
    {FIGURE_ANGLE + 1, "Q and V: mean principal angle", "0°: they read the same channels, 90°: none in common"},
    {FIGURE_COSINE + 2, "K and V: cosine", "1: equal up to a factor, 0: unrelated, -1: opposite"},
    {FIGURE_ANGLE + 2, "K and V: mean principal angle", "0°: they read the same channels, 90°: none in common"},
    {FIGURE_SYMMETRY, "Symmetry of B = W_Q W_K^T", "1: scores are symmetric, 0.5: as at random, 0: antisymmetric"},
    {FIGURE_RANK, "Effective rank of B = W_Q W_K^T", "how many directions it uses; d_k at most"},
};
enum { QUESTIONS = sizeof questions / sizeof questions[0] };

typedef struct panel {
    const similarity *s;
    int figure;
    similarity_range range;
} panel;

static int level_of(const panel *p, double value) {
    const double width = p->range.high - p->range.low;
    return heat_level(width > 0.0 ? (value - p->range.low) / width : value - value + 0.5);
}

static int level(const void *of, int64_t row, int64_t column) {
    const panel *p = of;
    if (column >= p->s->layer[row].heads)
        return HEAT_ABSENT;
    return level_of(p, p->s->figure[p->s->first[row] + column][p->figure]);
}

/* ---------------------------------------------------------------------------------------------------------- axes -- */

/* A round number of cells that take up at least that many pixels. */
static int64_t round_step(double pixels, double cell) {
    static const int64_t steps[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};
    int i = 0;
    while (i < 9 && (double)steps[i] * cell < pixels)
        i++;
    return steps[i];
}

static bool begins_stack(const similarity *s, int64_t layer) {
    const model_layer *l = &s->layer[layer], *before = l - 1;
    return layer == 0 || l->cross != before->cross || l->stack_length != before->stack_length ||
           memcmp(l->stack, before->stack, (size_t)l->stack_length) != 0;
}

/* Numbers of layers and heads at the edges of a map, as many as there is room for; a line between stacks. */
static void draw_axes(const similarity *s, FILE *to, double x, double y, double cell, int64_t heads) {
    enum { LINE = 11 };
    const int64_t step = round_step(LINE, cell), head_step = round_step(22.0, cell), near = (int64_t)ceil(LINE / cell);
    const double right = x + (double)heads * cell, bottom = y + (double)s->layers * cell;
    char text[SIMILARITY_LABEL];
    fprintf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"mark\"/>\n", x - 0.5, y - 0.5,
            right - x + 1.0, bottom - y + 1.0);
    for (int64_t i = 0; i < s->layers; i++) {
        const bool begins = begins_stack(s, i);
        bool shown = begins || s->layer[i].number % step == 0;
        for (int64_t n = 1; n < near && !begins; n++) /* what begins a stack has its number in any case */
            shown = shown && !(i >= n && begins_stack(s, i - n)) && !(i + n < s->layers && begins_stack(s, i + n));
        if (begins && i > 0)
            fprintf(to, "<path d=\"M%.1f %.1fH%.1f\" class=\"mark\"/>\n", x - 8.0, y + (double)i * cell, right);
        if (shown)
            heat_text(to, x - 5.0, y + ((double)i + 0.5) * cell + 3.5, "small soft", HEAT_END, false, 36,
                      similarity_label(s, i, text));
    }
    for (int64_t h = 0; h < heads; h += head_step) {
        snprintf(text, sizeof text, "%lld", (long long)h);
        heat_text(to, x + ((double)h + 0.5) * cell, bottom + 12.0, "small soft", HEAT_MIDDLE, false, 0, text);
    }
}

/* -------------------------------------------------------------------------------------------------------- legend -- */

/* "greatest 0.398: layer 0, head 2", behind its mark. */
static void name_extreme(const panel *p, FILE *to, double x, double y, heat_shape shape, const char *what, double value,
                         int64_t head, int digits) {
    const similarity *s = p->s;
    const int64_t layer = similarity_layer(s, head);
    char text[160], label[SIMILARITY_LABEL];
    heat_mark(to, shape, x + 6.0, y - 4.0, 5.0);
    snprintf(text, sizeof text, "%s %.*f: layer %s, head %lld", what, digits, similarity_tidy(value, digits),
             similarity_label(s, layer, label), (long long)(head - s->first[layer]));
    heat_text(to, x + 18.0, y, "small", HEAT_START, false, 0, text);
}

static void draw_legend(const panel *p, FILE *to, double x, double y) {
    const similarity *s = p->s;
    const similarity_range *r = &p->range;
    const int digits = similarity_group(p->figure)->digits;
    int64_t count[HEAT_LEVELS + 1] = {0};
    char text[96];
    for (int64_t i = 0; i < s->layers; i++)
        for (int64_t h = 0; h < s->layer[i].heads; h++) {
            const int at = level(p, i, h);
            if (at <= HEAT_LEVELS)
                count[at]++;
        }
    heat_histogram(to, x, y + 36.0, LEGEND, 32.0, count);
    const double below = y + 55.0;
    snprintf(text, sizeof text, "%.*f", digits, similarity_tidy(r->low, digits));
    heat_text(to, x, below, "small", HEAT_START, false, 0, text);
    snprintf(text, sizeof text, "%.*f", digits, similarity_tidy(r->high, digits));
    heat_text(to, x + LEGEND, below, "small", HEAT_END, false, 0, text);
    if (s->shapes == 1) {
        const double mean = s->random[0].mean[p->figure];
        const bool inside = mean >= r->low && mean <= r->high && r->high > r->low;
        const double at = LEGEND * (inside ? (mean - r->low) / (r->high - r->low) : 0.5);
        snprintf(text, sizeof text, "random heads %.*f%s", digits, similarity_tidy(mean, digits),
                 inside ? "" : ", outside");
        if (inside)
            fprintf(to, "<path d=\"M%.1f %.1fv14\" class=\"mark\"/>\n", x + at, y + 33.0);
        heat_text(to, x + fmax(94.0, fmin(at, LEGEND - 94.0)), below, "small soft", HEAT_MIDDLE, false, 0, text);
    }
    name_extreme(p, to, x, y + 73.0, HEAT_RING, "greatest", r->high, r->most, digits);
    name_extreme(p, to, x, y + 89.0, HEAT_DIAMOND, "least", r->low, r->least, digits);
}

/* -------------------------------------------------------------------------------------------------------- panels -- */

static void mark_head(const panel *p, FILE *to, double x, double y, double cell, heat_shape shape, int64_t head) {
    const int64_t layer = similarity_layer(p->s, head);
    heat_mark(to, shape, x + ((double)(head - p->s->first[layer]) + 0.5) * cell, y + ((double)layer + 0.5) * cell,
              fmax(5.0, cell * 0.35));
}

static void draw_panel(const panel *p, const struct question *q, FILE *to, double x, double y, double cell,
                       int64_t heads) {
    heat_text(to, x, y, "panel", HEAT_START, false, 0, q->title);
    heat_text(to, x, y + 15.0, "small soft", HEAT_START, false, 0, q->meaning);
    const double map = y + TITLE - 10.0, below = map + (double)p->s->layers * cell + 18.0;
    heat_cells(to, x, map, cell, p->s->layers, heads, level, p);
    draw_axes(p->s, to, x, map, cell, heads);
    if (p->range.most < 0) {
        heat_text(to, x, below + 16.0, "small", HEAT_START, false, 0, "no head has a value");
        return;
    }
    mark_head(p, to, x, map, cell, HEAT_RING, p->range.most);
    mark_head(p, to, x, map, cell, HEAT_DIAMOND, p->range.least);
    draw_legend(p, to, x, below);
}

int similarity_svg(const void *of, FILE *to) {
    const similarity *s = of;
    int64_t heads = 0;
    for (int64_t i = 0; i < s->layers; i++)
        heads = s->layer[i].heads > heads ? s->layer[i].heads : heads;
    const double room = fmin(MAP_WIDE / (double)heads, MAP_HIGH / (double)s->layers);
    const double cell = fmax(4.0, fmin(22.0, floor(room)));
    const double left = s->one_stack ? 40.0 : 190.0, wide = fmax((double)heads * cell, LEGEND);
    const double across = left + wide, down = TITLE + (double)s->layers * cell + BOTTOM + GAP;
    const char *slash = strrchr(s->path, '/');
    const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : s->path;
    char text[256];
    heat_begin(to, ACROSS * across + GAP, TOP + (QUESTIONS / ACROSS) * down,
               "Heat maps of layers and heads: how alike the matrices of queries, keys and values are");
    snprintf(text, sizeof text, "%.120s: how alike are W_Q, W_K and W_V?", name);
    heat_text(to, 16.0, 28.0, "title", HEAT_START, false, 0, text);
    heat_text(to, 16.0, 46.0, "soft", HEAT_START, false, 0,
              "Down: layers; across: heads. The lighter a cell, the greater the value; each panel has its own range.");
    heat_text(to, 16.0, 62.0, "soft", HEAT_START, false, 0,
              "Below each map: how many heads have which value. Colours: viridis. Grey: no value.");
    for (int i = 0; i < QUESTIONS; i++) {
        const panel p = {s, questions[i].figure, similarity_find_range(s, questions[i].figure)};
        draw_panel(&p, &questions[i], to, left + across * (i % ACROSS), TOP + TITLE + down * (double)(i / ACROSS), cell,
                   heads);
    }
    heat_end(to);
    return 0;
}
