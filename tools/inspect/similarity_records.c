/* The figures of a model as CSV, a line for each head, and as JSON (similarity.h). */
#include "similarity.h"

#include "records.h"

#include <math.h>
#include <stdlib.h>

/* Heads that were asked for: all, or one. */
static bool wanted(const similarity *s, const model_layer *l, int64_t head) {
    return s->chosen.layer < 0 || (l->number == s->chosen.layer && head == s->chosen.head);
}

static const char *stack_of(const model_layer *l, char text[512]) {
    snprintf(text, 512, "%.*s", l->stack_length, l->stack);
    return text;
}

static const char *kind_of(const model_layer *l) { return l->cross ? "cross" : "self"; }

/* ----------------------------------------------------------------------------------------------------------- CSV -- */

static void write_figures(FILE *to, const double figure[FIGURES]) {
    for (int f = 0; f < FIGURES; f++)
        if (isnan(figure[f]))
            fputc(',', to);
        else
            fprintf(to, ",%.9g", figure[f]);
    fputc('\n', to);
}

int similarity_csv(const void *of, FILE *to) {
    const similarity *s = of;
    char text[512];
    fputs("stack,layer,attention,head,d_model,d_k", to);
    for (int f = 0; f < FIGURES; f++)
        fprintf(to, ",%s", similarity_column(f));
    fputc('\n', to);
    for (int64_t i = 0; i < s->layers; i++)
        for (int64_t h = 0; h < s->layer[i].heads; h++) {
            const model_layer *l = &s->layer[i];
            if (!wanted(s, l, h))
                continue;
            record_csv_text(to, stack_of(l, text));
            fprintf(to, ",%lld,%s,%lld,%lld,%lld", (long long)l->number, kind_of(l), (long long)h,
                    (long long)l->d_model, (long long)l->d_k);
            write_figures(to, s->figure[s->first[i] + h]);
        }
    for (int i = 0; i < s->shapes; i++)
        for (int64_t h = 0; h < s->samples; h++) {
            fprintf(to, "random,,,%lld,%lld,%lld", (long long)h, (long long)s->random[i].d_model,
                    (long long)s->random[i].d_k);
            write_figures(to, s->random[i].figure[h]);
        }
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------- JSON -- */

static json_t *object_of(const double figure[FIGURES]) {
    json_t *object = json_object();
    for (int f = 0; f < FIGURES; f++)
        object = record_add(object, similarity_column(f), record_number(figure[f]));
    return object;
}

static json_t *layers_of(const similarity *s) {
    char text[512];
    json_t *layers = json_array();
    for (int64_t i = 0; i < s->layers; i++) {
        const model_layer *l = &s->layer[i];
        layers = record_append(layers, json_pack("{s:o, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:s?}", "stack",
                                                 record_text(stack_of(l, text)), "layer", l->number, "attention",
                                                 kind_of(l), "d_model", l->d_model, "d_k", l->d_k, "heads", l->heads,
                                                 "kv_heads", l->kv_heads, "used", l->used, "positions", l->positions));
    }
    return layers;
}

static json_t *heads_of(const similarity *s) {
    char text[512];
    json_t *heads = json_array();
    for (int64_t i = 0; i < s->layers; i++)
        for (int64_t h = 0; h < s->layer[i].heads; h++) {
            const model_layer *l = &s->layer[i];
            if (!wanted(s, l, h))
                continue;
            json_t *head = json_pack("{s:o, s:I, s:s, s:I}", "stack", record_text(stack_of(l, text)), "layer",
                                     l->number, "attention", kind_of(l), "head", h);
            for (int f = 0; f < FIGURES; f++)
                head = record_add(head, similarity_column(f), record_number(s->figure[s->first[i] + h][f]));
            heads = record_append(heads, head);
        }
    return heads;
}

static json_t *random_of(const similarity *s) {
    json_t *shapes = json_array();
    for (int i = 0; i < s->shapes; i++) {
        const random_heads *r = &s->random[i];
        shapes = record_append(shapes,
                               json_pack("{s:I, s:I, s:I, s:o, s:o}", "d_model", r->d_model, "d_k", r->d_k, "heads",
                                         s->samples, "mean", object_of(r->mean), "deviation", object_of(r->deviation)));
    }
    return shapes;
}

static json_t *histograms_of(const similarity *s) {
    enum { PARTS = 20 };
    json_t *histograms = json_object();
    for (int f = 0; f < FIGURES; f++) {
        const similarity_range r = similarity_find_range(s, f);
        int64_t count[PARTS];
        json_t *heads = json_array();
        similarity_count(s, f, &r, PARTS, count);
        for (int i = 0; i < PARTS; i++)
            heads = record_append(heads, json_integer(count[i]));
        histograms = record_add(
            histograms, similarity_column(f),
            json_pack("{s:o, s:o, s:o}", "low", record_number(r.low), "high", record_number(r.high), "heads", heads));
    }
    return histograms;
}

static json_t *left_out_of(const similarity *s) {
    const rest *r = model_rest(s->file);
    json_t *arrays = json_array();
    for (int i = 0; i < r->count; i++)
        arrays = record_append(arrays, json_pack("{s:o, s:I, s:s}", "names", record_text(rest_names(&r->item[i])),
                                                 "arrays", r->item[i].count, "why", r->item[i].why));
    return arrays;
}

int similarity_json(const void *of, FILE *to) {
    const similarity *s = of;
    return record_write(json_pack("{s:o, s:s, s:i, s:b, s:o, s:o, s:o, s:o, s:o}", "model", record_text(s->path),
                                  "model_type", model_type(s->file), "files", model_files(s->file), "whole",
                                  model_partial(s->file) == NULL, "layers", layers_of(s), "heads", heads_of(s),
                                  "random", random_of(s), "histograms", histograms_of(s), "left_out", left_out_of(s)),
                        to);
}
