/* fovea-inspect cost: what fovea_mha_desc_costs() says of a layer in every form and, if asked, how long each takes. */
#include "cost.h"

#include "plural.h"

#include <string.h>

static int64_t or_else(int64_t given, int64_t otherwise) { return given > 0 ? given : otherwise; }

/* The layer as form 0; -1 if the options do not make one. */
static int describe(const inspect_options *o, fovea_mha_desc *desc, fovea_attention_desc *a, complaint to) {
    fovea_mha_desc_init(desc);
    fovea_attention_desc_init(a);
    desc->attention = a;
    if (o->d_k == 0 && o->d_model % o->heads != 0)
        return complain(to, "cost",
                        "d-model %lld is not a multiple of heads %lld; give the width of a head with --d-k N",
                        (long long)o->d_model, (long long)o->heads);
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

/* ------------------------------------------------------------------------------------------------------- showing -- */

/* 1234567 as "1.235 M". */
static const char *short_number(double number, char text[24]) {
    static const char units[] = " kMGTPE";
    int unit = 0;
    for (; number >= 999.95 && units[unit + 1] != '\0'; unit++)
        number /= 1000.0;
    snprintf(text, 24, "%.4g %c", number, units[unit]);
    return text;
}

/* The same within a sentence. */
static const char *trimmed(double number, char text[24]) {
    short_number(number, text);
    const size_t length = strlen(text);
    if (text[length - 1] == ' ')
        text[length - 2] = text[length - 1] = '\0';
    return text;
}

/* Does it multiply in another order than form 0, which pays or not by the number of queries? */
static bool is_reordered(const cost_form *f) { return f->form == FOVEA_MHA_MERGED || f->fold != FOVEA_MHA_FOLD_NEVER; }

/* How many biases the form would have to drop. */
static int lacking(const cost_form *f) {
    int count = 0;
    for (int b = 0; b < COST_BIASES; b++)
        count += f->lacks[b];
    return count;
}

/* The one matrix B_i of a head, compared with the two that it is made of. */
static void print_size(const cost_form *form, FILE *to) {
    const fovea_mha_desc *d = &form[0].desc;
    const fovea_attention_desc *a = d->attention;
    const double wide = (double)d->q_features, one = wide * wide, factor = wide * (double)a->head_dim;
    const double heads = (double)a->q_heads, factors = (heads + (double)a->kv_heads) * factor;
    const int64_t rank = a->head_dim < d->q_features ? a->head_dim : d->q_features;
    char text[4][24];
    fprintf(to,
            "\none B_i = W_i^Q W_i^K^T: %lld x %lld, %s numbers of rank %lld at most; W_i^Q and W_i^K: %s numbers\n",
            (long long)d->q_features, (long long)d->q_features, trimmed(one, text[0]), (long long)rank,
            trimmed(2.0 * factor, text[1]));
    if (a->q_heads > 1)
        fprintf(to, "of all %lld heads: B_i %s numbers; W^Q and W^K %s\n", (long long)a->q_heads,
                trimmed(heads * one, text[2]), trimmed(factors, text[3]));
}

/* With how many queries each other order of the products is cheaper than form 0, for as many keys. */
static void print_break_even(const cost_form *form, int64_t kv_len, FILE *to) {
    if (kv_len == COST_MANY)
        fputs("break-even with very many keys, fewer flops than form 0: ", to);
    else
        fprintf(to, "break-even with %lld key%s, fewer flops than form 0: ", (long long)kv_len, plural(kv_len));
    bool first = true, named = false;
    for (int i = 1; i < COST_FORMS; i++) {
        if (!form[i].possible || !is_reordered(&form[i]))
            continue;
        const cost_range cheaper = cost_cheaper(&form[i], &form[0].desc, kv_len);
        fprintf(to, "%s%s ", first ? "" : ", ", form[i].name);
        first = false;
        if (cheaper.to == 0 || (cheaper.from == 1 && cheaper.to == COST_MANY)) {
            fputs(cheaper.to == 0 ? "never" : "always", to);
            continue;
        }
        const bool above = cheaper.from > 1;
        const int64_t queries = above ? cheaper.from : cheaper.to;
        fprintf(to, "%s %lld", above ? "from" : "up to", (long long)queries);
        if (!named)
            fprintf(to, " quer%s", plural_y(queries));
        fputs(above ? " on" : "", to);
        named = true;
    }
    fputc('\n', to);
}

static void print_table(const cost_form *form, bool measured, int threads, FILE *to) {
    const fovea_mha_desc *d = &form[0].desc;
    const fovea_attention_desc *a = d->attention;
    fprintf(
        to,
        "d_model %lld, d_out %lld; %lld head%s, %lld of keys and values, d_k %lld, d_v %lld; batch %lld, %lld quer%s, "
        "%lld key%s%s%s",
        (long long)d->q_features, (long long)d->out_features, (long long)a->q_heads, plural(a->q_heads),
        (long long)a->kv_heads, (long long)a->head_dim, (long long)a->value_dim, (long long)a->batch,
        (long long)a->q_len, plural_y(a->q_len), (long long)a->kv_len, plural(a->kv_len), a->causal ? ", causal" : "",
        d->biases ? ", biases" : "");
    if (measured)
        fprintf(to, "; %d thread%s", threads, plural(threads));
    fprintf(to, "\n\n%-37s%12s%36s%16s%24s%s\n", "", "", "flops:      ", "",
            "bytes:          ", measured ? "    measured:" : "");
    fprintf(to, "%-37s%12s%13s%11s%12s%16s%12s%12s%s\n", "form", "parameters", "projections", "attention", "output",
            "all  to form 0", "moved", "scratch", measured ? "       ms  to form 0" : "");
    for (int i = 0; i < COST_FORMS; i++) {
        const cost_form *f = &form[i];
        const fovea_mha_costs *c = &f->cost;
        fprintf(to, "%s%-*s %-33s", f->name, 3 - (int)strlen(f->name), lacking(f) > 0 ? "*" : "", f->what);
        if (!f->possible) {
            fputs("          - (below)\n", to);
            continue;
        }
        const double numbers[] = {c->parameters, c->projection_flops, c->attention_flops, c->output_flops,
                                  cost_flops(c)};
        char text[24];
        static const int widths[] = {12, 13, 11, 12, 10};
        for (int n = 0; n < 5; n++)
            fprintf(to, "%*s", widths[n], short_number(numbers[n], text));
        fprintf(to, "%6.2f", cost_flops(c) / cost_flops(&form[0].cost));
        fprintf(to, "%12s", short_number(c->bytes, text));
        fprintf(to, "%12s", short_number(c->scratch, text));
        if (f->seconds > 0.0)
            fprintf(to, "%9.3f%11.2f", 1e3 * f->seconds, f->ratio);
        fputc('\n', to);
    }
    for (int i = 0; i < COST_FORMS; i++)
        if (!form[i].possible)
            fprintf(to, "%s: %s\n", form[i].name, form[i].why);
    for (int i = 0; i < COST_FORMS; i++)
        if (form[i].possible && lacking(&form[i]) > 0)
            fprintf(to, "* %s is counted%s without the bias it cannot hold: %s\n", form[i].name,
                    measured ? " and measured" : "", form[i].why_lacks);
    print_size(form, to);
    print_break_even(form, a->kv_len, to);
    print_break_even(form, COST_MANY, to);
}

/* A form that the shape does not have has no figures. */
static int write_csv(const void *of, FILE *to) {
    const cost_form *form = of;
    fputs("form,what,parameters,projection_flops,attention_flops,output_flops,bytes,scratch,seconds,time_ratio,"
          "cannot_hold,cheaper_from_queries,cheaper_to_queries\n",
          to);
    for (int i = 0; i < COST_FORMS; i++) {
        const cost_form *f = &form[i];
        const fovea_mha_costs *c = &f->cost;
        fprintf(to, "%s,\"%s\",", f->name, f->what);
        if (!f->possible) {
            fputs(",,,,,,,,,,\n", to);
            continue;
        }
        fprintf(to, "%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,", c->parameters, c->projection_flops, c->attention_flops,
                c->output_flops, c->bytes, c->scratch);
        if (f->seconds > 0.0)
            fprintf(to, "%.9g,%.4f,", f->seconds, f->ratio);
        else
            fputs(",,", to);
        for (int b = 0, before = 0; b < COST_BIASES; b++)
            if (f->lacks[b])
                fprintf(to, "%s%s", before++ > 0 ? " " : "", cost_bias_names[b]);
        if (!is_reordered(f)) {
            fputs(",,\n", to);
            continue;
        }
        const cost_range cheaper = cost_cheaper(f, &form[0].desc, f->attention.kv_len);
        fprintf(to, ",%lld,", (long long)cheaper.from);
        if (cheaper.to == COST_MANY)
            fputs("inf\n", to);
        else
            fprintf(to, "%lld\n", (long long)cheaper.to);
    }
    return 0;
}

int inspect_cost(const inspect_options *options) {
    char text[INSPECT_COMPLAINT];
    const complaint to = {text, sizeof text};
    cost_form form[COST_FORMS];
    fovea_mha_desc layer;
    fovea_attention_desc attention;
    const output csv = {options->csv, "form,", write_csv};
    bool standard;
    int threads = 0, status = outputs_check(&csv, 1, &standard, to);
    if (status == 0)
        status = describe(options, &layer, &attention, to);
    memcpy(form, cost_all_forms, sizeof form);
    for (int i = 0; status == 0 && i < COST_FORMS; i++)
        cost_evaluate(&form[i], &layer);
    if (status == 0 && !form[0].possible)
        status = complain(to, "cost", "%s", form[0].why);
    if (status == 0 && options->biases)
        status = cost_probe_biases(form, to);
    if (status == 0 && options->measure)
        status = cost_measure(options, form, &threads, to);
    if (status == 0)
        status = outputs_write(&csv, 1, form, to);
    if (status == 0 && !standard)
        print_table(form, options->measure, threads, stdout);
    return status == 0 ? INSPECT_GOOD : inspect_failed(to);
}
