/* Attention weights as pictures (attention.h): a heat map of tokens by tokens for each head, rows the tokens that look,
 * columns those looked at. Of a long sentence a cell stands for a block of weights and shows the largest of them, so
 * that no picture grows without bound. */
#include "attention.h"

#include "heat.h"

#include <math.h>
#include <string.h>

enum {
    CELL = 11,        /* pixels, of a sentence whose tokens all have a label */
    READABLE = 64,    /* tokens of such a sentence */
    MOST_CELLS = 128, /* on a side, of many maps */
    MOST_ALONE = 512, /* of one map alone */
    LABELS = 66,      /* room for tokens to the left of a map and above it */
    TOP = 84,
    ACROSS = 4 /* maps side by side, of one layer */
};

/* How all maps of a picture are drawn. */
typedef struct layout {
    int64_t block, cells; /* tokens of a cell, cells on a side */
    double cell, size;    /* pixels */
    int64_t label_step;   /* cells from label to label */
} layout;

static layout plan(const attention *a) {
    const int64_t most = attention_chosen(a) == 1 ? MOST_ALONE : MOST_CELLS;
    layout l = {.block = (a->tokens + most - 1) / most};
    l.cells = (a->tokens + l.block - 1) / l.block;
    l.cell = l.cells <= READABLE ? (double)CELL : fmax(1.0, floor(10.0 * CELL * READABLE / (double)l.cells) / 10.0);
    l.size = l.cell * (double)l.cells;
    l.label_step = (int64_t)ceil((double)CELL / l.cell);
    return l;
}

/* The largest weight of a cell; NaN if there is one. */
static float largest(const attention *a, const layout *l, const float *weights, int64_t row, int64_t column) {
    float most = 0.0f;
    for (int64_t i = row * l->block; i < (row + 1) * l->block && i < a->tokens; i++)
        for (int64_t k = column * l->block; k < (column + 1) * l->block && k < a->tokens; k++) {
            const float weight = weights[i * a->tokens + k];
            most = weight > most || isnan(weight) ? weight : most;
        }
    return most;
}

/* The levels of one head's cells, which are asked for once for each colour. */
typedef struct map {
    int64_t cells;
    short level[MOST_ALONE * MOST_ALONE];
} map;

/* The square root, so that small weights are seen. */
static void make_map(const attention *a, const layout *l, int64_t layer, int64_t head, map *m) {
    const float *weights = attention_weights(a, layer, head);
    m->cells = l->cells;
    for (int64_t row = 0; row < l->cells; row++)
        for (int64_t column = 0; column < l->cells; column++)
            m->level[row * l->cells + column] = (short)heat_level(sqrt((double)largest(a, l, weights, row, column)));
}

static int level(const void *of, int64_t row, int64_t column) {
    const map *m = of;
    return m->level[row * m->cells + column];
}

static void draw_map(const attention *a, const layout *l, FILE *to, double x, double y, int64_t layer, int64_t head) {
    static map m;
    make_map(a, l, layer, head, &m);
    char text[64];
    snprintf(text, sizeof text, "layer %lld, head %lld", (long long)layer, (long long)head);
    heat_text(to, x, y + l->size + 15.0, "small", HEAT_START, false, 0, text);
    fprintf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"p0\"/>\n", x, y, l->size, l->size);
    heat_cells(to, x, y, l->cell, l->cells, l->cells, level, &m);
    for (int64_t c = 0; c < l->cells; c += l->label_step) {
        const double at = l->cell * ((double)c + 0.5) + 3.0;
        const char *token = a->token[c * l->block].text;
        heat_text(to, x - 4.0, y + at, "tiny soft", HEAT_END, false, 11, token);
        heat_text(to, x + at, y - 4.0, "tiny soft", HEAT_START, true, 11, token);
    }
}

static void draw_legend(FILE *to, double x, double y) {
    static const double marks[] = {0.0, 0.04, 0.25, 0.5, 1.0};
    enum { WIDTH = 220 };
    heat_scale(to, x, y, WIDTH, 0, HEAT_LEVELS);
    for (int i = 0; i < 5; i++) {
        char text[16];
        snprintf(text, sizeof text, "%g", marks[i]);
        heat_text(to, x + WIDTH * sqrt(marks[i]), y + 19.0, "small", HEAT_MIDDLE, false, 0, text);
    }
}

int attention_write_svg(const void *of, FILE *to) {
    const attention *a = of;
    const layout l = plan(a);
    const int64_t heads = a->last_head - a->first_head + 1, maps = attention_chosen(a);
    const int64_t across = heads == 1 ? 1 : a->first_layer == a->last_layer ? ACROSS : heads;
    const double step = LABELS + l.size, down = step + 22.0;
    heat_begin(to, fmax(16.0 + step * (double)across + 16.0, 560.0),
               TOP + down * ceil((double)maps / (double)across) + 12.0,
               "Heat maps of attention weights, a map for each head, tokens on both axes");
    heat_text(to, 16.0, 28.0, "title", HEAT_START, false, 60 + (int)(step * (double)across / 12.0), a->title);
    char text[240], blocks[80] = "";
    if (l.block > 1)
        snprintf(blocks, sizeof blocks, " A cell: the largest of %lld x %lld.", (long long)l.block, (long long)l.block);
    snprintf(text, sizeof text,
             "%.60s. Down: the token that looks; across: what it looks at. A row's weights sum to 1.%s", a->model,
             blocks);
    heat_text(to, 16.0, 46.0, "soft", HEAT_START, false, 0, text);
    draw_legend(to, 22.0, 56.0);
    for (int64_t i = 0; i < maps; i++)
        draw_map(a, &l, to, 16.0 + LABELS - 10.0 + step * (double)(i % across),
                 TOP + LABELS - 10.0 + down * floor((double)i / (double)across), a->first_layer + i / heads,
                 a->first_head + i % heads);
    heat_end(to);
    return 0;
}
