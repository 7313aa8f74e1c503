/* The figures of a model as heat maps of layers x heads: a panel for each figure, coloured by how far it is from random
 * heads of the same shape. Panels of one kind of figure have one scale. */
#include "heat.h"
#include "similarity.h"

#include <math.h>
#include <string.h>

enum { TOP = 62, TITLE = 16, BOTTOM = 52, GAP = 28, LEGEND = 160, ACROSS = 3 };

/* Rows of panels: the first figure, and how many. The largest angles are in the CSV alone: close to 90 degrees nearly
 * everywhere, they show nothing. */
static const int rows[][2] = {
    {FIGURE_COSINE, 3}, {FIGURE_DISTANCE, 3}, {FIGURE_ANGLE, 3}, {FIGURE_LEAST_ANGLE, 3}, {FIGURE_SYMMETRY, 2}};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* One panel: a figure, and what is as far from random as the colours go. */
typedef struct panel {
    const similarity *s;
    int figure;
    double low, high, span; /* differences from random: the least, the greatest, and what the full colours stand for */
} panel;

static double difference(const similarity *s, int64_t layer, int64_t head, int figure) {
    return s->figure[s->first[layer] + head][figure] - s->random[s->shape[layer]].mean[figure];
}

static int level(const void *of, int64_t row, int64_t column) {
    const panel *p = of;
    if (column >= p->s->layer[row].heads)
        return HEAT_ABSENT;
    return heat_level(difference(p->s, row, column, p->figure) / p->span);
}

/* The group that a figure belongs to. */
static const figure_group *group_of(int figure) {
    int g = 0;
    while (figure >= figure_groups[g].first + figure_groups[g].count)
        g++;
    return &figure_groups[g];
}

/* What a group's differences from random range over, and zero. */
static void set_span(panel *p, const figure_group *g) {
    const similarity *s = p->s;
    p->low = p->high = 0.0;
    for (int64_t i = 0; i < s->layers; i++)
        for (int64_t h = 0; h < s->layer[i].heads; h++)
            for (int f = g->first; f < g->first + g->count; f++) {
                p->low = fmin(p->low, difference(s, i, h, f)); /* fmin and fmax leave NaN out */
                p->high = fmax(p->high, difference(s, i, h, f));
            }
    p->span = fmax(-p->low, p->high);
    if (!(p->span > 0.0))
        p->span = 1.0;
}

/* Numbers of layers and heads beside a panel, as many as there is room for. */
static void draw_axes(const similarity *s, FILE *to, double x, double y, double cell, int64_t heads) {
    char text[SIMILARITY_LABEL];
    const int64_t each_layer = (int64_t)ceil(11.0 / cell), each_head = (int64_t)ceil(18.0 / cell);
    for (int64_t i = 0; i < s->layers; i += each_layer)
        heat_text(to, x - 5.0, y + ((double)i + 0.5) * cell + 3.5, "small soft", HEAT_END, false, 24,
                  similarity_label(s, i, text));
    const double below = y + (double)s->layers * cell + 12.0;
    for (int64_t h = 0; h < heads; h += each_head) {
        snprintf(text, sizeof text, "%lld", (long long)h);
        heat_text(to, x + ((double)h + 0.5) * cell, below, "small soft", HEAT_MIDDLE, false, 0, text);
    }
}

/* The colours from the least value to the greatest, and where random heads are. With heads of several shapes, these
 * have no one value, and the ends tell differences. */
static void draw_legend(const panel *p, FILE *to, double x, double y, int digits) {
    const int first = heat_level(p->low / p->span), last = heat_level(p->high / p->span);
    const bool one = p->s->shapes == 1;
    const double middle = one ? p->s->random[0].mean[p->figure] : 0.0;
    const double random_at = x + LEGEND * (0.5 - first) / (last - first + 1);
    char text[64];
    heat_scale(to, x, y, LEGEND, first, last);
    fprintf(to, "<path d=\"M%.1f %.1fv12\" class=\"mark\"/>\n", random_at, y - 2.0);
    snprintf(text, sizeof text, one ? "%.*f" : "%+.*f", digits, similarity_tidy(middle + p->low, digits));
    heat_text(to, x, y + 20.0, "small", HEAT_START, false, 0, text);
    snprintf(text, sizeof text, one ? "%.*f" : "%+.*f", digits, similarity_tidy(middle + p->high, digits));
    heat_text(to, x + LEGEND, y + 20.0, "small", HEAT_END, false, 0, text);
    snprintf(text, sizeof text, "| random: %.*f", digits, similarity_tidy(middle, digits));
    heat_text(to, x + LEGEND + 8.0, y + 8.0, "small", HEAT_START, false, 0, one ? text : "| random");
}

static void draw_panel(const panel *p, FILE *to, double x, double y, double cell, int64_t heads) {
    const figure_group *g = group_of(p->figure);
    char title[96];
    if (g->count == 3)
        snprintf(title, sizeof title, "%s: %s", (const char *[]){"Q and K", "Q and V", "K and V"}[p->figure - g->first],
                 g->title);
    else
        snprintf(title, sizeof title, "%s", g->title);
    heat_text(to, x, y, "panel", HEAT_START, false, 0, title);
    y += 10.0;
    heat_cells(to, x, y, cell, p->s->layers, heads, level, p);
    draw_axes(p->s, to, x, y, cell, heads);
    draw_legend(p, to, x, y + (double)p->s->layers * cell + 24.0, g->digits);
}

void similarity_svg(const similarity *s, FILE *to) {
    int64_t heads = 0;
    for (int64_t i = 0; i < s->layers; i++)
        heads = s->layer[i].heads > heads ? s->layer[i].heads : heads;
    const double cell = fmax(3.0, fmin(22.0, floor(300.0 / (double)heads)));
    const double left = s->one_stack ? 40.0 : 150.0, wide = fmax((double)heads * cell, 270.0);
    const double across = left + wide, down = TITLE + (double)s->layers * cell + BOTTOM + GAP;
    const char *slash = strrchr(s->path, '/');
    char text[256];
    heat_begin(to, ACROSS * across + GAP, TOP + ROWS * down,
               "Heat maps of layers and heads: how alike the matrices of queries, keys and values are");
    snprintf(text, sizeof text, "%.120s: how alike are W_Q, W_K and W_V?", slash ? slash + 1 : s->path);
    heat_text(to, 16.0, 28.0, "title", HEAT_START, false, 0, text);
    heat_text(to, 16.0, 46.0, "soft", HEAT_START, false, 0,
              "Down: layers; across: heads. Blue: greater than in random heads of the same shape; orange: less. "
              "W = W_Q W_K^T.");
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < rows[r][1]; c++) {
            panel p = {.s = s, .figure = rows[r][0] + c};
            set_span(&p, group_of(p.figure));
            draw_panel(&p, to, left + across * c, TOP + TITLE + down * r, cell, heads);
        }
    heat_end(to);
}
