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

void similarity_csv(const similarity *s, FILE *to) {
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
}

/* ---------------------------------------------------------------------------------------------------------- JSON -- */

static void write_object(FILE *to, const double figure[FIGURES]) {
    for (int f = 0; f < FIGURES; f++) {
        fprintf(to, "%s\"%s\": ", f > 0 ? ", " : "", similarity_column(f));
        record_json_number(to, figure[f]);
    }
    fputc('}', to);
}

static void write_layers(const similarity *s, FILE *to) {
    char text[512];
    fputs(",\n  \"layers\": [", to);
    for (int64_t i = 0; i < s->layers; i++) {
        const model_layer *l = &s->layer[i];
        fputs(i > 0 ? ",\n    {\"stack\": " : "\n    {\"stack\": ", to);
        record_json_text(to, stack_of(l, text));
        fprintf(to,
                ", \"layer\": %lld, \"attention\": \"%s\", \"d_model\": %lld, \"d_k\": %lld, \"heads\": %lld, "
                "\"kv_heads\": %lld, \"used\": %lld, \"positions\": ",
                (long long)l->number, kind_of(l), (long long)l->d_model, (long long)l->d_k, (long long)l->heads,
                (long long)l->kv_heads, (long long)l->used);
        if (l->positions != NULL)
            record_json_text(to, l->positions);
        else
            fputs("null", to);
        fputc('}', to);
    }
    fputs("\n  ]", to);
}

static void write_heads(const similarity *s, FILE *to) {
    char text[512];
    bool any = false;
    fputs(",\n  \"heads\": [", to);
    for (int64_t i = 0; i < s->layers; i++)
        for (int64_t h = 0; h < s->layer[i].heads; h++) {
            const model_layer *l = &s->layer[i];
            if (!wanted(s, l, h))
                continue;
            fputs(any ? ",\n    {\"stack\": " : "\n    {\"stack\": ", to);
            any = true;
            record_json_text(to, stack_of(l, text));
            fprintf(to, ", \"layer\": %lld, \"attention\": \"%s\", \"head\": %lld, ", (long long)l->number, kind_of(l),
                    (long long)h);
            write_object(to, s->figure[s->first[i] + h]);
        }
    fputs("\n  ]", to);
}

static void write_random(const similarity *s, FILE *to) {
    fputs(",\n  \"random\": [", to);
    for (int i = 0; i < s->shapes; i++) {
        const random_heads *r = &s->random[i];
        fprintf(to, "%s\n    {\"d_model\": %lld, \"d_k\": %lld, \"heads\": %lld, \"mean\": {", i > 0 ? "," : "",
                (long long)r->d_model, (long long)r->d_k, (long long)s->samples);
        write_object(to, r->mean);
        fputs(", \"deviation\": {", to);
        write_object(to, r->deviation);
        fputc('}', to);
    }
    fputs("\n  ]", to);
}

static void write_histograms(const similarity *s, FILE *to) {
    enum { PARTS = 20 };
    fputs(",\n  \"histograms\": {", to);
    for (int f = 0; f < FIGURES; f++) {
        const similarity_range r = similarity_find_range(s, f);
        int64_t count[PARTS];
        similarity_count(s, f, &r, PARTS, count);
        fprintf(to, "%s\n    \"%s\": {\"low\": ", f > 0 ? "," : "", similarity_column(f));
        record_json_number(to, r.low);
        fputs(", \"high\": ", to);
        record_json_number(to, r.high);
        fputs(", \"heads\": [", to);
        for (int i = 0; i < PARTS; i++)
            fprintf(to, "%s%lld", i > 0 ? ", " : "", (long long)count[i]);
        fputs("]}", to);
    }
    fputs("\n  }", to);
}

static void write_left_out(const similarity *s, FILE *to) {
    const rest *r = model_rest(s->file);
    fputs(",\n  \"left_out\": [", to);
    for (int i = 0; i < r->count; i++) {
        fputs(i > 0 ? ",\n    {\"names\": " : "\n    {\"names\": ", to);
        record_json_text(to, rest_names(&r->item[i]));
        fprintf(to, ", \"arrays\": %lld, \"why\": ", (long long)r->item[i].count);
        record_json_text(to, r->item[i].why);
        fputc('}', to);
    }
    fputs(r->count > 0 ? "\n  ]" : "]", to);
}

void similarity_json(const similarity *s, FILE *to) {
    fputs("{\n  \"model\": ", to);
    record_json_text(to, s->path);
    fputs(",\n  \"model_type\": ", to);
    record_json_text(to, model_type(s->file));
    fprintf(to, ",\n  \"files\": %d,\n  \"whole\": %s", model_files(s->file),
            model_partial(s->file) == NULL ? "true" : "false");
    write_layers(s, to);
    write_heads(s, to);
    write_random(s, to);
    write_histograms(s, to);
    write_left_out(s, to);
    fputs("\n}\n", to);
}
