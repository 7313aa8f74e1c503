/* The figures of a model as tables: means of layers, rankings of heads, histograms, one head (similarity.h). */
#include "similarity.h"

#include "plural.h"

#include <math.h>
#include <string.h>

/* The part of a name that tells stacks apart: the end of it, where that is long. */
static int stack_label(const similarity *s, const model_layer *l, char *text, size_t size) {
    enum { MOST = 32 };
    const int skip = s->one_stack || s->common > l->stack_length ? l->stack_length : s->common;
    const int length = l->stack_length - skip, cut = length > MOST ? length - MOST : 0;
    return snprintf(text, size, "%s%.*s%s", cut > 0 ? "..." : "", length - cut, l->stack + skip + cut,
                    length > 0 ? "." : "");
}

const char *similarity_label(const similarity *s, int64_t layer, char text[SIMILARITY_LABEL]) {
    const model_layer *l = &s->layer[layer];
    const int length = stack_label(s, l, text, SIMILARITY_LABEL);
    snprintf(text + length, SIMILARITY_LABEL - (size_t)length, "%lld%s", (long long)l->number,
             l->cross && !s->one_stack ? " cross" : "");
    return text;
}

const char *similarity_name(const similarity *s, int64_t head, char text[SIMILARITY_LABEL]) {
    const int64_t layer = similarity_layer(s, head);
    const model_layer *l = &s->layer[layer];
    const int length = stack_label(s, l, text, SIMILARITY_LABEL);
    snprintf(text + length, SIMILARITY_LABEL - (size_t)length, "%lld.%lld%s", (long long)l->number,
             (long long)(head - s->first[layer]), l->cross && !s->one_stack ? " cross" : "");
    return text;
}

/* Layers in a row that have one stack's name and kind. */
static int64_t stack_end(const similarity *s, int64_t begin) {
    const model_layer *l = &s->layer[begin];
    int64_t end = begin + 1;
    while (end < s->layers && s->layer[end].cross == l->cross && s->layer[end].family == l->family &&
           s->layer[end].stack_length == l->stack_length &&
           memcmp(s->layer[end].stack, l->stack, (size_t)l->stack_length) == 0)
        end++;
    return end;
}

void similarity_notes(const similarity *s, FILE *to, const char *begin) {
    const rest *r = model_rest(s->file);
    if (model_partial(s->file) != NULL)
        fprintf(to, "%s%s.\n", begin, model_partial(s->file));
    for (int i = 0; i < r->count; i++)
        fprintf(to, "%sleft out: %s (%lld array%s; %s)\n", begin, rest_names(&r->item[i]), (long long)r->item[i].count,
                plural(r->item[i].count), r->item[i].why);
    for (int64_t i = 0, end; i < s->layers && model_partial(s->file) == NULL; i = end) {
        const model_layer *l = &s->layer[i];
        end = stack_end(s, i);
        if (l->numbered && l->used == 1 && l->model_layers != 0 && l->model_layers != end - i)
            fprintf(to, "%sconfig.json names %lld layer%s of %.*s; attention was found in %lld\n", begin,
                    (long long)l->model_layers, plural(l->model_layers), l->stack_length, l->stack,
                    (long long)(end - i));
    }
}

double similarity_tidy(double value, int digits) {
    const double unit = pow(10.0, digits);
    return round(value * unit) / unit + 0.0;
}

/* --------------------------------------------------------------------------------------------------------- table -- */

/* Groups that the table has room for, and how wide their columns are. */
static const struct {
    int first, width;
    const char *head;
} columns[] = {{FIGURE_COSINE, 7, "cosine"},        {FIGURE_DISTANCE, 6, "distance"}, {FIGURE_ANGLE, 6, "mean angle"},
               {FIGURE_LEAST_ANGLE, 6, "smallest"}, {FIGURE_SYMMETRY, 7, "symm."},    {FIGURE_RANK, 7, "rank"}};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static void print_head(FILE *to, int label, const char *lines) {
    fprintf(to, "%-*s", label, "");
    for (int c = 0; c < COLUMNS; c++)
        fprintf(to, "  %-*s", columns[c].width * similarity_group(columns[c].first)->count, columns[c].head);
    fprintf(to, "\n%-*s", label, lines);
    for (int c = 0; c < COLUMNS; c++) {
        fputs("  ", to);
        for (int i = 0; i < similarity_group(columns[c].first)->count; i++)
            fprintf(to, "%*s", columns[c].width,
                    similarity_group(columns[c].first)->count == 1 ? "B" : (const char *[]){"Q,K", "Q,V", "K,V"}[i]);
    }
    fputc('\n', to);
}

static void print_line(FILE *to, int width, const char *label, const double figure[FIGURES]) {
    fprintf(to, "%-*s", width, label);
    for (int c = 0; c < COLUMNS; c++) {
        const figure_group *g = similarity_group(columns[c].first);
        fputs("  ", to);
        for (int i = 0; i < g->count; i++)
            if (isnan(figure[g->first + i]))
                fprintf(to, "%*s", columns[c].width, "-");
            else
                fprintf(to, "%*.*f", columns[c].width, g->digits, similarity_tidy(figure[g->first + i], g->digits));
    }
    fputc('\n', to);
}

typedef enum over { OVER_mean, OVER_lowest, OVER_highest } over;

/* The mean of heads that have the figure; NaN where none has. */
static void summarize(double (*figure)[FIGURES], int64_t heads, over how, double to[FIGURES]) {
    for (int f = 0; f < FIGURES; f++) {
        int64_t count = 0;
        double result = how == OVER_lowest ? INFINITY : how == OVER_highest ? -INFINITY : 0.0;
        for (int64_t h = 0; h < heads; h++) {
            const double value = figure[h][f];
            if (isnan(value))
                continue;
            count++;
            result = how == OVER_mean     ? result + (value - result) / (double)count
                     : how == OVER_lowest ? fmin(result, value)
                                          : fmax(result, value);
        }
        to[f] = count > 0 ? result : NAN;
    }
}

/* --------------------------------------------------------------------------------------------------------- texts -- */

static void print_title(const similarity *s, FILE *to) {
    const char *type = model_type(s->file);
    fprintf(to, "%s%s (%s): %lld layer%s, %lld head%s\n", s->path, model_files(s->file) > 1 ? " and others" : "",
            *type != '\0' ? type : s->layer[0].family, (long long)s->layers, plural(s->layers), (long long)s->heads,
            plural(s->heads));
    for (int64_t i = 0, end; i < s->layers; i = end) {
        const model_layer *l = &s->layer[i];
        end = stack_end(s, i);
        fprintf(to, "  %.*s%s%lld layer%s of %s-attention", l->stack_length, l->stack, l->stack_length > 0 ? ": " : "",
                (long long)(end - i), plural(end - i), l->cross ? "cross" : "self");
        if (l->used > 1)
            fprintf(to, ", used by %lld layers of the model", (long long)l->used);
        fprintf(to, "; %lld head%s%s, %lld of keys and values; d_model %lld, d_k %lld; positions: %s\n",
                (long long)l->heads, plural(l->heads), l->gated ? " with a gate each" : "", (long long)l->kv_heads,
                (long long)l->d_model, (long long)l->d_k, l->positions != NULL ? l->positions : "unknown");
    }
}

/* The width of the column of labels. */
static int label_width(const similarity *s) {
    int width = 14;
    char label[SIMILARITY_LABEL];
    for (int64_t i = 0; i < s->layers; i++) {
        const int length = (int)strlen(similarity_label(s, i, label)) + 6;
        width = length > width ? length : width;
    }
    return width;
}

static void print_random(const similarity *s, FILE *to, int width) {
    for (int i = 0; i < s->shapes; i++) {
        const random_heads *r = &s->random[i];
        if (s->shapes > 1)
            fprintf(to, "heads of d_model %lld, d_k %lld\n", (long long)r->d_model, (long long)r->d_k);
        print_line(to, width, "random, mean", r->mean);
        print_line(to, width, "  deviation", r->deviation);
    }
}

/* The first heads of each order. */
static void print_rankings(const similarity *s, FILE *to) {
    enum { INDENT = 42, WIDTH = 120 };
    const int64_t top = s->top != 0 ? s->top : 5;
    fputs("\nHeads, as layer.head\n", to);
    for (int i = 0; i < SIMILARITY_RANKINGS; i++) {
        const similarity_order *o = &similarity_orders[i];
        const int64_t count = similarity_sort(s, o);
        const int digits = similarity_group(o->figure)->digits;
        int column = fprintf(to, "%-*s", INDENT, o->title);
        for (int64_t h = 0; h < count && h < top; h++) {
            char name[SIMILARITY_LABEL], text[SIMILARITY_LABEL + 32];
            const int length = snprintf(text, sizeof text, "  %s (%.*f)", similarity_name(s, s->sorted[h].head, name),
                                        digits, similarity_tidy(s->figure[s->sorted[h].head][o->figure], digits));
            if (column + length > WIDTH)
                column = fprintf(to, "\n%*s", INDENT, "") - 1;
            column += fprintf(to, "%s", text);
        }
        fputc('\n', to);
    }
}

/* How the heads are spread over the range of each figure, a line for each. */
static void print_histograms(const similarity *s, FILE *to) {
    enum { PARTS = 32, HEIGHTS = 8 };
    static const char *const block[HEIGHTS + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const int shown[] = {FIGURE_COSINE,    FIGURE_COSINE + 1, FIGURE_COSINE + 2, FIGURE_ANGLE,
                                FIGURE_ANGLE + 1, FIGURE_ANGLE + 2,  FIGURE_SYMMETRY,   FIGURE_RANK};
    fputs("\nHeads by figure, from the lowest to the highest\n", to);
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        const similarity_range r = similarity_find_range(s, shown[i]);
        const int digits = similarity_group(shown[i])->digits;
        int64_t count[PARTS], most = 1;
        if (r.least < 0)
            continue;
        similarity_count(s, shown[i], &r, PARTS, count);
        for (int p = 0; p < PARTS; p++)
            most = count[p] > most ? count[p] : most;
        fprintf(to, "%-34s%9.*f |", similarity_words(shown[i]), digits, similarity_tidy(r.low, digits));
        for (int p = 0; p < PARTS; p++)
            fputs(block[(count[p] * HEIGHTS + most - 1) / most], to);
        fprintf(to, "| %.*f\n", digits, similarity_tidy(r.high, digits));
    }
}

static void print_foot(const similarity *s, FILE *to) {
    fprintf(to,
            "\nAngles: principal, in degrees. B = W^Q W^K^T; symm.: its symmetric share; rank: its effective rank. "
            "Random: %lld heads of\nindependent normal numbers. fovea-inspect similarity --help says more.\n",
            (long long)s->samples);
    bool rotary = false, cross = false;
    for (int64_t i = 0; i < s->layers; i++) {
        cross = cross || s->layer[i].cross;
        rotary = rotary || (s->layer[i].positions != NULL && strcmp(s->layer[i].positions, "rotary") == 0);
    }
    if (cross)
        fputs("In cross-attention, Q reads one sequence, and K and V another: similarity to Q means less there.\n", to);
    if (rotary)
        fputs("Rotary positions rotate queries and keys: B alone scores tokens at the same position only.\n", to);
    similarity_notes(s, to, "");
}

void similarity_table(const similarity *s, FILE *to) {
    static const char *const over_words[] = {"mean", "lowest head", "highest head"};
    double line[FIGURES];
    char label[SIMILARITY_LABEL];
    const int width = label_width(s);
    print_title(s, to);
    fputs("means over the heads of each layer\n\n", to);
    print_head(to, width, "layer");
    for (int64_t i = 0; i < s->layers; i++) {
        summarize(s->figure + s->first[i], s->layer[i].heads, OVER_mean, line);
        print_line(to, width, similarity_label(s, i, label), line);
    }
    fputc('\n', to);
    for (int how = OVER_mean; how <= OVER_highest; how++) {
        summarize(s->figure, s->heads, (over)how, line);
        print_line(to, width, over_words[how], line);
    }
    print_random(s, to, width);
    print_rankings(s, to);
    print_histograms(s, to);
    print_foot(s, to);
}

void similarity_ranking(const similarity *s, FILE *to) {
    const similarity_order *o = &similarity_orders[s->rank];
    const int width = label_width(s);
    const int64_t count = similarity_sort(s, o);
    print_title(s, to);
    fprintf(to, "%s\n\n", o->title);
    print_head(to, width, "layer.head");
    for (int64_t h = 0; h < count && (s->top == 0 || h < s->top); h++) {
        char name[SIMILARITY_LABEL];
        print_line(to, width, similarity_name(s, s->sorted[h].head, name), s->figure[s->sorted[h].head]);
    }
    fputc('\n', to);
    print_random(s, to, width);
    print_foot(s, to);
}

void similarity_one(const similarity *s, FILE *to) {
    print_title(s, to);
    for (int64_t i = 0; i < s->layers; i++) {
        const model_layer *l = &s->layer[i];
        char name[SIMILARITY_LABEL];
        if (l->number != s->chosen.layer || l->heads <= s->chosen.head)
            continue;
        const int64_t head = s->first[i] + s->chosen.head;
        const random_heads *r = &s->random[s->shape[i]];
        fprintf(to, "\n%-46s%9s   random heads\n", similarity_name(s, head, name), "");
        for (int f = 0; f < FIGURES; f++) {
            const int digits = similarity_group(f)->digits;
            /* A degree sign is two bytes. */
            const char *words = similarity_words(f);
            fprintf(to, "  %-*s", strstr(words, "°") != NULL ? 43 : 42, words);
            if (isnan(s->figure[head][f]))
                fprintf(to, "%11s", "-");
            else
                fprintf(to, "%11.*f", digits, similarity_tidy(s->figure[head][f], digits));
            fprintf(to, "   %.*f (deviation %.*f)\n", digits, similarity_tidy(r->mean[f], digits), digits,
                    r->deviation[f]);
        }
    }
    print_foot(s, to);
}
