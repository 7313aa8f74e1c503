/* fovea-inspect cost: what fovea_mha_cost() says of one layer in every form, and, if asked, how long each takes. */
#include "cost.h"

#include <string.h>

static const cost_form all_forms[COST_FORMS] = {
    {"1", "factored: (Q Wq) (K Wk)^T", FOVEA_MHA_FACTORED, FOVEA_MHA_MERGE_QUERIES, FOVEA_MHA_FOLD_NEVER,
     .possible = true},
    {"1v", "the same, Wv Wo as one matrix", FOVEA_MHA_FACTORED, FOVEA_MHA_MERGE_QUERIES, FOVEA_MHA_FOLD_ALWAYS,
     .possible = true},
    {"2q", "merged: (Q W) K^T, W = Wq Wk^T", FOVEA_MHA_MERGED, FOVEA_MHA_MERGE_QUERIES, FOVEA_MHA_FOLD_NEVER,
     .possible = true},
    {"2k", "merged: Q (K W^T)^T", FOVEA_MHA_MERGED, FOVEA_MHA_MERGE_KEYS, FOVEA_MHA_FOLD_NEVER, .possible = true},
    {"2v", "2q, and Wv Wo as one matrix", FOVEA_MHA_MERGED, FOVEA_MHA_MERGE_QUERIES, FOVEA_MHA_FOLD_ALWAYS,
     .possible = true},
    {"3", "folded: outer W into each head's", FOVEA_MHA_FOLDED, FOVEA_MHA_MERGE_QUERIES, FOVEA_MHA_FOLD_NEVER,
     .possible = true},
    {"4", "inputs already projected", FOVEA_MHA_PROJECTED, FOVEA_MHA_MERGE_QUERIES, FOVEA_MHA_FOLD_NEVER,
     .possible = true},
    {"5", "tied: Wq = Wk = Wv", FOVEA_MHA_TIED, FOVEA_MHA_MERGE_QUERIES, FOVEA_MHA_FOLD_NEVER, .possible = true},
    {"6", "fused: [Wq Wk Wv] as one matrix", FOVEA_MHA_FUSED, FOVEA_MHA_MERGE_QUERIES, FOVEA_MHA_FOLD_NEVER,
     .possible = true},
};

static int64_t or_else(int64_t given, int64_t otherwise) { return given > 0 ? given : otherwise; }

/* The layer as form 1; -1 if the options do not make one. */
static int describe(const inspect_options *o, fovea_mha_desc *desc, fovea_attention_desc *a, complaint to) {
    fovea_mha_desc_init(desc);
    fovea_attention_desc_init(a);
    desc->attention = a;
    if (o->d_k == 0 && o->d_model % o->heads != 0)
        return complain(to, "cost", "d-model %lld is not a multiple of heads %lld: --d-k N", (long long)o->d_model,
                        (long long)o->heads);
    a->batch = or_else(o->batch, 1);
    a->q_heads = o->heads;
    a->kv_heads = or_else(o->kv_heads, o->heads);
    a->q_len = or_else(o->q_len, 512);
    a->kv_len = or_else(o->kv_len, a->q_len);
    a->head_dim = or_else(o->d_k, o->d_model / o->heads);
    a->value_dim = or_else(o->d_v, a->head_dim);
    a->causal = o->causal ? FOVEA_CAUSAL_BOTTOM_RIGHT : FOVEA_CAUSAL_NONE;
    desc->q_features = o->d_model;
    desc->out_features = o->d_out >= 0 ? o->d_out : o->d_model;
    desc->biases = o->biases;
    return 0;
}

/* The costs of a form, or why this shape has none. */
static void evaluate(cost_form *f, const fovea_mha_desc *layer) {
    f->desc = *layer;
    f->attention = *layer->attention;
    f->desc.attention = &f->attention;
    f->desc.form = f->form;
    f->desc.merge = f->merge;
    f->desc.fold_values = f->fold;
    f->desc.inputs = f->form == FOVEA_MHA_PROJECTED                        ? FOVEA_MHA_SEPARATE
                     : layer->attention->q_len == layer->attention->kv_len ? FOVEA_MHA_SELF
                                                                           : FOVEA_MHA_CROSS;
    fovea_mha_costs_init(&f->cost);
    f->possible = fovea_mha_cost(&f->desc, &f->cost) == FOVEA_OK;
    if (!f->possible)
        snprintf(f->why, sizeof f->why, "%s", fovea_error_detail());
}

/* ------------------------------------------------------------------------------------------------------- showing -- */

static double flops(const fovea_mha_costs *c) { return c->projection_flops + c->attention_flops + c->output_flops; }

/* 1234567 as "1.235 M". */
static const char *short_number(double number, char text[24]) {
    static const char units[] = " kMGTPE";
    int unit = 0;
    for (; number >= 999.95 && units[unit + 1] != '\0'; unit++)
        number /= 1000.0;
    snprintf(text, 24, "%.4g %c", number, units[unit]);
    return text;
}

static void print_table(const cost_form *form, bool measured, int threads, FILE *to) {
    const fovea_mha_desc *d = &form[0].desc;
    const fovea_attention_desc *a = d->attention;
    fprintf(
        to,
        "d_model %lld, d_out %lld; %lld heads, %lld of keys and values, d_k %lld, d_v %lld; batch %lld, %lld queries, "
        "%lld keys%s%s",
        (long long)d->q_features, (long long)d->out_features, (long long)a->q_heads, (long long)a->kv_heads,
        (long long)a->head_dim, (long long)a->value_dim, (long long)a->batch, (long long)a->q_len, (long long)a->kv_len,
        a->causal ? ", causal" : "", d->biases ? ", biases" : "");
    if (measured)
        fprintf(to, "; %d %s", threads, threads == 1 ? "thread" : "threads");
    fprintf(to, "\n\n%-37s%12s%36s%16s%24s%s\n", "", "", "flops:      ", "",
            "bytes:          ", measured ? "    measured:" : "");
    fprintf(to, "%-37s%12s%13s%11s%12s%16s%12s%12s%s\n", "form", "parameters", "projections", "attention", "output",
            "all  to form 1", "moved", "scratch", measured ? "       ms  to form 1" : "");
    for (int i = 0; i < COST_FORMS; i++) {
        const cost_form *f = &form[i];
        const fovea_mha_costs *c = &f->cost;
        fprintf(to, "%-3s %-33s", f->name, f->what);
        if (!f->possible) {
            fputs("          - (below)\n", to);
            continue;
        }
        const double numbers[] = {c->parameters, c->projection_flops, c->attention_flops, c->output_flops, flops(c)};
        char text[24];
        static const int widths[] = {12, 13, 11, 12, 10};
        for (int n = 0; n < 5; n++)
            fprintf(to, "%*s", widths[n], short_number(numbers[n], text));
        fprintf(to, "%6.2f", flops(c) / flops(&form[0].cost));
        fprintf(to, "%12s", short_number(c->bytes, text));
        fprintf(to, "%12s", short_number(c->scratch, text));
        if (f->seconds > 0.0)
            fprintf(to, "%9.3f%11.2f", 1e3 * f->seconds, f->ratio);
        fputc('\n', to);
    }
    for (int i = 0; i < COST_FORMS; i++)
        if (!form[i].possible)
            fprintf(to, "%s: %s\n", form[i].name, form[i].why);
}

static void print_csv(const cost_form *form, FILE *to) {
    fputs("form,what,parameters,projection_flops,attention_flops,output_flops,bytes,scratch,seconds,time_ratio\n", to);
    for (int i = 0; i < COST_FORMS; i++) {
        const fovea_mha_costs *c = &form[i].cost;
        fprintf(to, "%s,\"%s\",", form[i].name, form[i].what);
        if (!form[i].possible) {
            fputs(",,,,,,,\n", to);
            continue;
        }
        fprintf(to, "%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,", c->parameters, c->projection_flops, c->attention_flops,
                c->output_flops, c->bytes, c->scratch);
        if (form[i].seconds > 0.0)
            fprintf(to, "%.9g,%.4f\n", form[i].seconds, form[i].ratio);
        else
            fputs(",\n", to);
    }
}

int inspect_cost(const inspect_options *options) {
    char text[INSPECT_COMPLAINT];
    const complaint to = {text, sizeof text};
    cost_form form[COST_FORMS];
    fovea_mha_desc layer;
    fovea_attention_desc attention;
    int threads = 0, status = options->csv != NULL ? output_check(options->csv, to) : 0;
    if (status == 0)
        status = describe(options, &layer, &attention, to);
    memcpy(form, all_forms, sizeof form);
    for (int i = 0; status == 0 && i < COST_FORMS; i++)
        evaluate(&form[i], &layer);
    if (status == 0 && !form[0].possible)
        status = complain(to, "cost", "%s", form[0].why);
    if (status == 0 && options->measure)
        status = cost_measure(options, form, &threads, to);
    output out;
    if (status == 0 && options->csv != NULL && (status = output_begin(&out, options->csv, to)) == 0) {
        print_csv(form, out.to);
        status = output_end(&out, to);
    }
    if (status == 0 && !(options->csv != NULL && strcmp(options->csv, "-") == 0))
        print_table(form, options->measure, threads, stdout);
    return status == 0 ? INSPECT_GOOD : inspect_failed(to);
}
