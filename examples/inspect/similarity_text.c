/* The figures of a model as a table, a line for each layer, and as CSV, a line for each head. */
#include "similarity.h"

#include "plural.h"

#include <math.h>

const char *similarity_label(const similarity *s, int64_t layer, char text[SIMILARITY_LABEL]) {
    const model_layer *l = &s->layer[layer];
    enum { MOST = 24 };
    const int skip = s->one_stack || s->common > l->stack_length ? l->stack_length : s->common;
    const int length = l->stack_length - skip, cut = length > MOST ? length - MOST : 0;
    snprintf(text, SIMILARITY_LABEL, "%.*s%s%lld%s", length - cut, l->stack + skip + cut, length > 0 ? "." : "",
             (long long)l->number, l->cross && !s->one_stack ? " cross" : "");
    return text;
}

void similarity_notes(const similarity *s, FILE *to, const char *begin) {
    const rest *r = model_rest(s->file);
    if (model_partial(s->file) != NULL)
        fprintf(to, "%s%s.\n", begin, model_partial(s->file));
    for (int i = 0; i < r->count; i++)
        fprintf(to, "%sleft out: %s (%lld array%s; %s)\n", begin, rest_names(&r->item[i]), (long long)r->item[i].count,
                plural(r->item[i].count), r->item[i].why);
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

static const figure_group *group_at(int first) {
    int g = 0;
    while (figure_groups[g].first != first)
        g++;
    return &figure_groups[g];
}

static void print_head(FILE *to, int label) {
    fprintf(to, "%-*s", label, "");
    for (int c = 0; c < COLUMNS; c++)
        fprintf(to, "  %-*s", columns[c].width * group_at(columns[c].first)->count, columns[c].head);
    fprintf(to, "\n%-*s", label, "layer");
    for (int c = 0; c < COLUMNS; c++) {
        fputs("  ", to);
        for (int i = 0; i < group_at(columns[c].first)->count; i++)
            fprintf(to, "%*s", columns[c].width,
                    group_at(columns[c].first)->count == 1 ? "W" : (const char *[]){"Q,K", "Q,V", "K,V"}[i]);
    }
    fputc('\n', to);
}

static void print_line(FILE *to, int width, const char *label, const double figure[FIGURES]) {
    fprintf(to, "%-*s", width, label);
    for (int c = 0; c < COLUMNS; c++) {
        const figure_group *g = group_at(columns[c].first);
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

/* Of heads that have the figure; NaN where none has. */
static void summarise(double (*figure)[FIGURES], int64_t heads, over how, double to[FIGURES]) {
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

void similarity_table(const similarity *s, FILE *to) {
    static const char *const over_words[] = {"mean", "lowest head", "highest head"};
    const model_layer *l = &s->layer[0];
    double line[FIGURES];
    char label[SIMILARITY_LABEL + 8];
    fprintf(
        to,
        "%s (%s): %lld layers, %lld heads; the first: %lld heads, %lld of keys and values, d_model %lld, d_k %lld\n\n",
        s->path, l->family, (long long)s->layers, (long long)s->heads, (long long)l->heads, (long long)l->kv_heads,
        (long long)l->d_model, (long long)l->d_k);
    const int width = s->one_stack ? 14 : SIMILARITY_LABEL;
    print_head(to, width);
    for (int64_t i = 0; i < s->layers; i++) {
        summarise(s->figure + s->first[i], s->layer[i].heads, OVER_mean, line);
        print_line(to, width, similarity_label(s, i, label), line);
    }
    fputc('\n', to);
    for (int how = OVER_mean; how <= OVER_highest; how++) {
        summarise(s->figure, s->heads, (over)how, line);
        print_line(to, width, over_words[how], line);
    }
    for (int i = 0; i < s->shapes; i++) {
        const random_heads *r = &s->random[i];
        if (s->shapes > 1)
            fprintf(to, "heads of d_model %lld, d_k %lld\n", (long long)r->d_model, (long long)r->d_k);
        print_line(to, width, "random, mean", r->mean);
        print_line(to, width, "  deviation", r->deviation);
    }
    fprintf(
        to,
        "\nLines of layers are means over heads. Angles: principal, in degrees. W = W^Q W^K^T; symm.: its symmetric "
        "share; rank: its\neffective rank. Random: %lld heads of independent normal numbers. fovea-inspect "
        "--help says more.\n",
        (long long)s->samples);
}

/* ----------------------------------------------------------------------------------------------------------- CSV -- */

/* A field that may hold anything, by RFC 4180. */
static void write_field(FILE *to, const char *text, int length) {
    fputc('"', to);
    for (int i = 0; i < length; i++) {
        if (text[i] == '"')
            fputc('"', to);
        fputc(text[i], to);
    }
    fputc('"', to);
}

static void write_figures(FILE *to, const double figure[FIGURES]) {
    for (int f = 0; f < FIGURES; f++)
        if (isnan(figure[f]))
            fputc(',', to);
        else
            fprintf(to, ",%.9g", figure[f]);
    fputc('\n', to);
}

void similarity_csv(const similarity *s, FILE *to) {
    fputs("stack,layer,head,d_model,d_k", to);
    for (int g = 0; g < FIGURE_GROUPS; g++)
        for (int i = 0; i < figure_groups[g].count; i++)
            fprintf(to, ",%s%s%s", figure_groups[g].column, figure_groups[g].count > 1 ? "_" : "",
                    figure_groups[g].count > 1 ? figure_pairs[i] : "");
    fputc('\n', to);
    for (int64_t i = 0; i < s->layers; i++)
        for (int64_t h = 0; h < s->layer[i].heads; h++) {
            const model_layer *l = &s->layer[i];
            write_field(to, l->stack, l->stack_length);
            fprintf(to, ",%lld,%lld,%lld,%lld", (long long)l->number, (long long)h, (long long)l->d_model,
                    (long long)l->d_k);
            write_figures(to, s->figure[s->first[i] + h]);
        }
    for (int i = 0; i < s->shapes; i++)
        for (int64_t h = 0; h < s->samples; h++) {
            fprintf(to, "\"random\",,%lld,%lld,%lld", (long long)h, (long long)s->random[i].d_model,
                    (long long)s->random[i].d_k);
            write_figures(to, s->random[i].figure[h]);
        }
}
