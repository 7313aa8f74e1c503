/* Classes of shapes.
 *
 * A class is a box. Of attentions: rows and keys within about a factor of four, units (key heads of the batch) in three
 * sizes if there are several threads, groups of query heads in four, dimensions and limits as they are. Of linear maps:
 * rows within a factor of four (with quantized weights: 1, 2 to 8, 9 to 64, and more, since there is a class for each
 * of their formats), channels by how they fit into the caches. What decides among choices changes little
 * within it, and the proof on shapes near both ends of the box tells where it does.
 */
#include "classes.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double PRICE = 0.0015; /* seconds that an execution for measuring may take, about */

enum {
    WHOLE = 64,
    WINDOW = 64,         /* keys, at least, where a row does not say how many */
    LONGEST = 1024,      /* rows for measuring: from there on it is the same again and again; heads of a group, too */
    MOST_UNITS = 1 << 20 /* which a row may ask for; no memory holds them */
};

/* Approximate flops per second, from the lanes of the product of the tier. */
static double rate_of(int threads, fv_isa isa) {
    const fv_kernel *product = fv_multiply_best(FV_KIND_f32, FV_FORMAT_f32, (fv_target){isa, FV_HAS_nothing});
    return 7e9 * fv_isa_lanes(product->isa) * threads;
}

double tune_class_cost(const tune_class *c, int threads, fv_isa isa) {
    return tune_is_cold(c->operation) ? PRICE : tune_flops(&c->search) / rate_of(threads, isa);
}

static fv_interval interval_of(int64_t value, const int64_t *ends, int count, fv_interval range) {
    int64_t least = range.least;
    for (int i = 0; i < count; i++) {
        if (value <= ends[i])
            return (fv_interval){least, fv_min(ends[i], range.most)};
        least = ends[i] + 1;
    }
    return (fv_interval){least, range.most};
}

/* Units of a shape for measuring: enough that threads have work and operands are not all in the first cache, and so few
 * that an execution takes about a millisecond. */
static int64_t units_for(const tune_class *c, const fovea_attention_desc *one, int threads, fv_isa isa) {
    const tune_shape shape = {.attention = *one};
    const int64_t affordable = (int64_t)(PRICE / (tune_flops(&shape) / rate_of(threads, isa)));
    const fv_interval *range = &c->key[FV_ATTENTION_KEY_units];
    const int64_t target = tune_is_cold(c->operation) ? 8 : 4 * (int64_t)threads;
    return fv_max(fv_min(fv_min(target, affordable), range->most), fv_max(range->least, 1));
}

/* Gives operands the class's type, which mixed types share; integers have queries of their own. */
static void set_types(const tune_class *c, fovea_attention_desc *d) {
    const fovea_dtype keys = fv_tuning_dtype(c->operation);
    d->k_dtype = d->v_dtype = keys;
    if (!fv_dtype_paged(keys))
        d->dtype = keys;
    else
        d->page_keys = FOVEA_KV_PAGE_KEYS;
    d->out_dtype = d->dtype;
}

static tune_shape sized(const tune_class *c, int64_t q_len, int64_t kv_len, int threads, fv_isa isa) {
    fovea_attention_desc d = c->search.attention;
    const int64_t limit = c->key[FV_ATTENTION_KEY_limited].least;
    const bool masked = limit == FV_ATTENTION_LIMITED_masked, limited = limit != FV_ATTENTION_LIMITED_no && !masked;
    d.q_len = q_len;
    d.kv_len = kv_len;
    d.head_dim = c->key[FV_ATTENTION_KEY_head_dim].least;
    d.value_dim = c->key[FV_ATTENTION_KEY_value_dim].least;
    d.packed = 0; /* one sequence stands for all */
    d.arithmetic = fv_tuning_arithmetic(c->operation);
    set_types(c, &d);
    if (masked)
        d.window_left = d.window_right = -1;
    if (d.window_left < 0 && d.window_right < 0)
        d.causal = !limited ? FOVEA_CAUSAL_NONE : q_len == kv_len ? FOVEA_CAUSAL_TOP_LEFT : FOVEA_CAUSAL_BOTTOM_RIGHT;
    d.batch = d.kv_heads = 1;
    d.q_heads = c->group;
    d.kv_heads = fv_min(units_for(c, &d, threads, isa), MOST_UNITS);
    d.q_heads = c->group * d.kv_heads;
    return (tune_shape){.attention = d};
}

/* Columns are for measuring as few as take about a millisecond: what decides among choices is the same in each panel
 * of them. */
static tune_shape sized_linear(const tune_class *c, int64_t rows, int64_t in, int64_t out, int threads, fv_isa isa) {
    const fv_interval *range = &c->key[FV_LINEAR_KEY_out];
    const double reading = 5e9 / (double)sizeof(float); /* floats per second from memory, at least */
    const double columns = PRICE / fmax(2.0 * (double)rows * (double)in / rate_of(threads, isa), (double)in / reading);
    const int64_t affordable = fv_max(fv_round_down((int64_t)fmin(columns, 1 << 20), WHOLE), threads * WHOLE);
    out = fv_max(fv_min(out, affordable), range->least);
    const fovea_dtype dtype = fv_tuning_dtype(c->operation);
    const int64_t unit = dtype == FOVEA_DTYPE_U4 ? 32 : fv_dtype_block_of(dtype).elements; /* whole groups, or blocks */
    in = fv_max(fv_round_down(in, unit), unit);
    return (tune_shape){.linear = true, .rows = rows, .in = in, .out = out, .dtype = dtype};
}

/* Where a box has no end, half as much again as its least stands for it. */
static int64_t between(fv_interval range, double where) {
    const double least = (double)fv_max(range.least, 1);
    const double most = range.most < INT64_MAX ? (double)range.most : 1.5 * least;
    return (int64_t)floor(least * pow(most / least, where));
}

/* Channels, as models have them: whole multiples, where the box has one. */
static int64_t channels(fv_interval range, double where) {
    const int64_t size = between(range, where), whole = fv_round_down(size, WHOLE);
    return whole >= range.least ? whole : size;
}

/* Keys for measuring, at most. */
static int64_t longest_keys(const tune_class *c) { return fv_max(2 * LONGEST, c->key[FV_ATTENTION_KEY_keys].least); }

/* Do queries as many as keys stand for the class? Whole prompts are what a class of square shapes is for, as chunks of
 * them see other keys; but of grouped heads they are more rows than LONGEST, which is affordable for a few heads and up
 * to LONGEST keys. */
static bool is_square(const tune_class *c) {
    const int64_t few = 8; /* heads of a group */
    return c->square && c->group <= few && c->key[FV_ATTENTION_KEY_rows].most == INT64_MAX &&
           c->key[FV_ATTENTION_KEY_keys].most <= LONGEST &&
           c->key[FV_ATTENTION_KEY_keys].least * c->group >= c->key[FV_ATTENTION_KEY_rows].least;
}

tune_shape tune_class_shape(const tune_class *c, double where, int threads, fv_isa isa) {
    if (tune_is_linear(c->operation)) {
        fv_interval out = c->key[FV_LINEAR_KEY_out];
        out.most = fv_min(out.most, 16 * out.least);
        const double other = fmod(where + 0.38, 1); /* not the longest channels with the most rows each time */
        return sized_linear(c, between(c->key[FV_LINEAR_KEY_rows], where), channels(c->key[FV_LINEAR_KEY_in], other),
                            channels(out, other), threads, isa);
    }
    const int64_t rows = between(c->key[FV_ATTENTION_KEY_rows], where);
    int64_t q_len = fv_max(rows / c->group, 1), kv_len = between(c->key[FV_ATTENTION_KEY_keys], where);
    if (is_square(c))
        q_len = kv_len;
    else if (c->square && q_len >= c->key[FV_ATTENTION_KEY_keys].least && q_len <= c->key[FV_ATTENTION_KEY_keys].most)
        kv_len = q_len;
    if (!tune_is_cold(c->operation))
        kv_len = fv_min(kv_len, longest_keys(c));
    while (q_len * c->group < c->key[FV_ATTENTION_KEY_rows].least)
        q_len++;
    return sized(c, q_len, kv_len, threads, isa);
}

static bool same_shape(const tune_shape *a, const tune_shape *b) {
    char one[96], other[96];
    return strcmp(tune_shape_name(a, one, sizeof one), tune_shape_name(b, other, sizeof other)) == 0;
}

/* The shape at where or, if that is the one of the search or among the others, at the next place that is not; false if
 * there is none. */
static bool apart(const tune_class *c, double where, int threads, fv_isa isa, const tune_shape *others, int count,
                  tune_shape *shape) {
    enum { PLACES = 19 };
    for (int i = 0; i < PLACES; i++) {
        *shape = tune_class_shape(c, fmod(where + (double)i / PLACES, 1), threads, isa);
        bool known = same_shape(shape, &c->search);
        for (int n = 0; n < count && !known; n++)
            known = same_shape(shape, &others[n]);
        if (!known)
            return true;
    }
    return false;
}

int tune_class_proofs(const tune_class *c, int threads, fv_isa isa, tune_shape shapes[TUNE_PROOFS]) {
    static const double wheres[TUNE_PROOFS] = {0.85, 0.1, 0.45};
    int n = 0;
    for (int i = 0; i < TUNE_PROOFS; i++)
        n += apart(c, wheres[i], threads, isa, shapes, n, &shapes[n]);
    return n;
}

static void name_interval(const char *name, const fv_interval *range, char text[48]) {
    int n = snprintf(text, 48, "%s %" PRId64, name, range->least);
    if (range->most == INT64_MAX)
        snprintf(text + n, 48 - (size_t)n, "+");
    else if (range->most != range->least)
        snprintf(text + n, 48 - (size_t)n, "-%" PRId64, range->most);
}

static void name_class(tune_class *c) {
    char rows[48], keys[48], out[48];
    const fovea_dtype dtype = fv_tuning_dtype(c->operation);
    const fovea_arithmetic arithmetic = fv_tuning_arithmetic(c->operation);
    char type[32] = "";
    if (dtype != FOVEA_DTYPE_F32)
        snprintf(type, sizeof type, ", %.8s%s%.12s", fv_dtype_word(dtype), arithmetic ? " as " : "",
                 arithmetic ? fovea_arithmetic_name(arithmetic) : "");
    if (tune_is_linear(c->operation)) {
        name_interval("rows", &c->key[FV_LINEAR_KEY_rows], rows);
        name_interval("in", &c->key[FV_LINEAR_KEY_in], keys);
        name_interval("out", &c->key[FV_LINEAR_KEY_out], out);
        snprintf(c->name, sizeof c->name, "linear %s, %s, %s%s", rows, keys, out, type);
        return;
    }
    name_interval("rows", &c->key[FV_ATTENTION_KEY_rows], rows);
    name_interval("keys", &c->key[FV_ATTENTION_KEY_keys], keys);
    static const char *const limits[] = {"", ", causal", ", window", ", masked"};
    name_interval("group", &c->key[FV_ATTENTION_KEY_group], out);
    snprintf(c->name, sizeof c->name, "attention %s, %s, d%" PRId64 "%s%s%s%s", rows, keys,
             c->key[FV_ATTENTION_KEY_head_dim].least, limits[c->key[FV_ATTENTION_KEY_limited].least],
             c->key[FV_ATTENTION_KEY_group].most > 1 ? ", " : "", c->key[FV_ATTENTION_KEY_group].most > 1 ? out : "",
             type);
}

static tune_class linear_class_of(const tune_shape *shape, int threads, fv_isa isa) {
    static const int64_t few[] = {1, 4, FV_LINEAR_FEW_ROWS}, rows[] = {16, 64, 256, 1023}, few_quantized[] = {1},
                         rows_quantized[] = {64, 1023}, in[] = {255, 640, 1536, 6143}, out[] = {255};
    tune_class c = {.search = *shape};
    int64_t key[FV_TUNING_KEYS];
    c.operation = tune_shape_keys(shape, key);
    const fv_tuning_key *table = fv_tuning_operations[c.operation]->key;
    const bool is_few = tune_is_cold(c.operation);
    const fv_interval *range = &table[FV_LINEAR_KEY_rows].range;
    if (fv_dtype_quantized(shape->dtype))
        c.key[FV_LINEAR_KEY_rows] =
            interval_of(key[FV_LINEAR_KEY_rows], is_few ? few_quantized : rows_quantized, is_few ? 1 : 2, *range);
    else
        c.key[FV_LINEAR_KEY_rows] = interval_of(key[FV_LINEAR_KEY_rows], is_few ? few : rows, is_few ? 3 : 4, *range);
    c.key[FV_LINEAR_KEY_in] = interval_of(key[FV_LINEAR_KEY_in], in, 4, table[FV_LINEAR_KEY_in].range);
    c.key[FV_LINEAR_KEY_out] = interval_of(key[FV_LINEAR_KEY_out], out, 1, table[FV_LINEAR_KEY_out].range);
    /* Fewer rows, too, where even the fewest columns take long; the proof has as many as the class. */
    const int64_t columns = fv_max(c.key[FV_LINEAR_KEY_out].least, 1), least = c.key[FV_LINEAR_KEY_rows].least;
    const double affordable = 2 * PRICE * rate_of(threads, isa) / (2.0 * (double)shape->in * (double)columns);
    const int64_t longest = fv_max((int64_t)fmin(affordable, LONGEST), least);
    c.search = sized_linear(&c, fv_min(shape->rows, longest), shape->in, shape->out, threads, isa);
    name_class(&c);
    return c;
}

tune_class tune_class_of(const tune_shape *shape, int threads, fv_isa isa) {
    static const int64_t few[] = {1, 4, 8, FV_ATTENTION_FEW_ROWS}, rows[] = {64, 256, 1023},
                         keys[] = {64, 256, 1023, 4095};
    static const int64_t units[] = {1, 7}, groups[] = {1, 4, 8};
    const fovea_attention_desc *desc = &shape->attention;
    if (shape->linear)
        return linear_class_of(shape, threads, isa);
    tune_class c = {.search = *shape, .group = desc->q_heads / desc->kv_heads, .square = desc->q_len == desc->kv_len};
    int64_t key[FV_TUNING_KEYS];
    c.operation = fv_attention_tuning_keys(desc, key);
    const fv_tuning_key *table = fv_tuning_operations[c.operation]->key;
    const bool is_few = tune_is_cold(c.operation);
    for (int i = 0; i < FV_TUNING_KEYS; i++)
        c.key[i] = (fv_interval){key[i], key[i]};
    c.key[FV_ATTENTION_KEY_rows] = interval_of(key[FV_ATTENTION_KEY_rows], is_few ? few : rows, is_few ? 4 : 3,
                                               table[FV_ATTENTION_KEY_rows].range);
    c.key[FV_ATTENTION_KEY_keys] = interval_of(key[FV_ATTENTION_KEY_keys], keys, 4, table[FV_ATTENTION_KEY_keys].range);
    c.key[FV_ATTENTION_KEY_units] =
        threads == 1 ? table[FV_ATTENTION_KEY_units].range
                     : interval_of(key[FV_ATTENTION_KEY_units], units, 2, table[FV_ATTENTION_KEY_units].range);
    c.key[FV_ATTENTION_KEY_group] =
        interval_of(key[FV_ATTENTION_KEY_group], groups, 3, table[FV_ATTENTION_KEY_group].range);
    int64_t q_len = fv_max(fv_min(desc->q_len, fv_ceil_div(LONGEST, c.group)), 1),
            kv_len = fv_min(desc->kv_len, longest_keys(&c));
    if (is_square(&c))
        q_len = kv_len;
    else if (c.square && q_len >= c.key[FV_ATTENTION_KEY_keys].least)
        kv_len = q_len;
    c.search = sized(&c, q_len, kv_len, threads, isa);
    name_class(&c);
    return c;
}

tune_class tune_class_of_row(const fv_tuning_row *row, fv_isa isa) {
    tune_class c = {.operation = row->operation};
    memcpy(c.key, row->key, sizeof c.key);
    fovea_attention_desc *d = &c.search.attention;
    if (tune_is_linear(c.operation)) {
        c.search = tune_class_shape(&c, 0.5, (int)fv_max(row->threads, 1), isa);
        name_class(&c);
        return c;
    }
    fovea_attention_desc_init(d);
    set_types(&c, d);
    c.square = !tune_is_cold(c.operation);
    const fv_interval *group = &c.key[FV_ATTENTION_KEY_group]; /* of models it is the largest, as a rule */
    c.group = group->most < INT64_MAX ? group->most : 2 * fv_round_down(fv_max(group->least, 2), 2);
    if (tune_is_cold(c.operation))
        c.group = fv_max(fv_min(c.group, c.key[FV_ATTENTION_KEY_rows].most), group->least);
    c.group = fv_min(c.group, LONGEST);
    if (c.key[FV_ATTENTION_KEY_limited].least == FV_ATTENTION_LIMITED_masked)
        d->mask = FOVEA_MASK_RANGES;
    if (c.key[FV_ATTENTION_KEY_limited].least == FV_ATTENTION_LIMITED_window) {
        d->causal = FOVEA_CAUSAL_BOTTOM_RIGHT; /* a few rows are the last */
        d->window_left = fv_max(c.key[FV_ATTENTION_KEY_keys].least / 4, WINDOW);
    }
    c.search = tune_class_shape(&c, 0.5, (int)fv_max(row->threads, 1), isa);
    name_class(&c);
    return c;
}

static bool same_class(const tune_class *a, const tune_class *b) {
    return a->operation == b->operation && memcmp(a->key, b->key, sizeof a->key) == 0;
}

int tune_classes(const tune_options *options, int threads, fv_isa isa, tune_class **classes) {
    tune_shape *shapes;
    const int count = tune_shapes(options, &shapes);
    int n = 0;
    *classes = count > 0 ? calloc((size_t)count, sizeof **classes) : NULL;
    for (int i = 0; *classes && i < count; i++) {
        const tune_class c = tune_class_of(&shapes[i], threads, isa);
        int at = 0;
        while (at < n && !same_class(&(*classes)[at], &c))
            at++;
        if (at == n)
            (*classes)[n++] = c;
    }
    free(shapes);
    return count < 0 ? -1 : n;
}
