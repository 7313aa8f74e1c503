/* The time of each form (cost.h): all layers are made of the same random weights, and run one after another in rounds,
 * so that what disturbs the machine disturbs all of them. Medians of the rounds' times and of their ratios are kept. */
#include "cost.h"

#include "splitmix.h"
#include "stopwatch.h"

#include <math.h>
#include <stdlib.h>

enum { DEFAULT_SECONDS = 5, LEAST_ROUNDS = 5, MOST_ROUNDS = 4096 };

/* Numbers that all layers read, as many as the largest needs. */
typedef struct numbers {
    float *input, *weight, *bias, *out;
} numbers;

typedef struct runner {
    fovea_mha *mha;
    fovea_attention_args args;
    void *workspace;
    double *seconds; /* [MOST_ROUNDS] */
} runner;

static double most(double a, double b) { return a > b ? a : b; }

/* The largest of each kind of array; as double, in which nothing overflows. */
static int allocate(const fovea_mha_desc *d, numbers *n, complaint to) {
    const fovea_attention_desc *a = d->attention;
    const double heads = (double)a->q_heads, width = heads * most((double)a->head_dim, (double)a->value_dim);
    const double widest = most(most((double)d->q_features, (double)d->out_features), 3.0 * width);
    const double input = (double)a->batch * most((double)a->q_len, (double)a->kv_len) * widest;
    const double weight = most((double)d->q_features, (double)d->out_features) * 3.0 * width;
    if (input + weight > 0x1p40)
        return complain(to, "cost", "a layer of this size is too large to be measured");
    float **const all[] = {&n->input, &n->out, &n->weight, &n->bias};
    const double sizes[] = {input, input, weight, widest};
    for (int i = 0; i < 4; i++) {
        *all[i] = malloc((size_t)sizes[i] * sizeof(float));
        if (*all[i] == NULL)
            return complain(to, "cost", "out of memory");
        uint64_t state = (uint64_t)i;
        const float range = i < 2 ? 1.0f : 1.0f / sqrtf((float)d->q_features);
        for (size_t k = 0; k < (size_t)sizes[i]; k++)
            (*all[i])[k] = range * ((float)(splitmix64(&state) >> 40) * 0x1p-23f - 1.0f);
    }
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------- runs -- */

static fovea_tensor rows_of(float *data, int64_t batch, int64_t tokens, int64_t channels) {
    return fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, batch, 1, tokens, channels);
}

static fovea_status make_layer(const fovea_context *context, const cost_form *f, const numbers *n, runner *r) {
    const fovea_mha_desc *d = &f->desc;
    const fovea_attention_desc *a = d->attention;
    const int64_t width = d->q_features, q = a->q_heads * a->head_dim, k = a->kv_heads * a->head_dim;
    const int64_t v = a->kv_heads * a->value_dim;
    fovea_mha_weights w;
    fovea_mha_weights_init(&w);
    if (f->form == FOVEA_MHA_FUSED) {
        w.fused = fovea_matrix_in_out(n->weight, FOVEA_DTYPE_F32, width, q + k + v);
        w.fused_bias = d->biases ? n->bias : NULL;
    } else if (f->form != FOVEA_MHA_PROJECTED) {
        w.q = fovea_matrix_in_out(n->weight, FOVEA_DTYPE_F32, width, q);
        w.q_bias = d->biases && !f->lacks[0] ? n->bias : NULL;
        if (f->form != FOVEA_MHA_TIED) {
            w.k = fovea_matrix_in_out(n->weight + width * q, FOVEA_DTYPE_F32, width, k);
            w.v = fovea_matrix_in_out(n->weight + width * (q + k), FOVEA_DTYPE_F32, width, v);
            w.k_bias = d->biases && !f->lacks[1] ? n->bias : NULL;
            w.v_bias = d->biases && !f->lacks[2] ? n->bias : NULL;
        }
    }
    if (d->out_features > 0) {
        w.o = fovea_matrix_in_out(n->weight, FOVEA_DTYPE_F32, a->q_heads * a->value_dim, d->out_features);
        w.o_bias = d->biases ? n->bias : NULL;
    }
    return fovea_mha_create(context, d, &w, &r->mha);
}

static int make_runner(const fovea_context *context, const cost_form *f, const numbers *n, runner *r, complaint to) {
    const fovea_mha_desc *d = &f->desc;
    const fovea_attention_desc *a = d->attention;
    if (make_layer(context, f, n, r) != FOVEA_OK)
        return complain(to, f->what, "%s", fovea_error_detail());
    fovea_attention_args_init(&r->args);
    if (f->form == FOVEA_MHA_PROJECTED) {
        r->args.q = fovea_tensor_bthd(n->input, FOVEA_DTYPE_F32, a->batch, a->q_len, a->q_heads, a->head_dim);
        r->args.k = fovea_tensor_bthd(n->input, FOVEA_DTYPE_F32, a->batch, a->kv_len, a->kv_heads, a->head_dim);
        r->args.v = fovea_tensor_bthd(n->input, FOVEA_DTYPE_F32, a->batch, a->kv_len, a->kv_heads, a->value_dim);
    } else {
        r->args.q = rows_of(n->input, a->batch, a->q_len, d->q_features);
        if (d->inputs == FOVEA_MHA_CROSS)
            r->args.k = rows_of(n->input, a->batch, a->kv_len, d->q_features);
    }
    r->args.out = d->out_features > 0
                      ? rows_of(n->out, a->batch, a->q_len, d->out_features)
                      : fovea_tensor_bthd(n->out, FOVEA_DTYPE_F32, a->batch, a->q_len, a->q_heads, a->value_dim);
    const size_t size = fovea_mha_workspace_size(r->mha);
    r->workspace = malloc(size + 1);
    r->seconds = malloc(MOST_ROUNDS * sizeof *r->seconds);
    if (r->workspace == NULL || r->seconds == NULL)
        return complain(to, f->what, "out of memory");
    if (fovea_mha_execute(r->mha, &r->args, r->workspace, size) != FOVEA_OK) /* also wakes threads and warms caches */
        return complain(to, f->what, "%s", fovea_error_detail());
    return 0;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2.0;
}

static void run_rounds(runner *r, cost_form *form, double until) {
    int rounds = 0;
    for (; rounds < MOST_ROUNDS && (rounds < LEAST_ROUNDS || stopwatch(CLOCK_MONOTONIC) < until); rounds++)
        for (int k = 0; k < COST_FORMS; k++) {
            const int i = rounds % 2 == 0 ? k : COST_FORMS - 1 - k; /* there and back: neighbours change */
            if (!form[i].possible)
                continue;
            const double begin = stopwatch(CLOCK_MONOTONIC);
            fovea_mha_execute(r[i].mha, &r[i].args, r[i].workspace, fovea_mha_workspace_size(r[i].mha));
            r[i].seconds[rounds] = stopwatch(CLOCK_MONOTONIC) - begin;
        }
    double ratios[MOST_ROUNDS];
    for (int i = COST_FORMS - 1; i >= 0; i--) { /* form 0 last: its times are needed in their order */
        if (!form[i].possible)
            continue;
        for (int k = 0; k < rounds; k++)
            ratios[k] = r[i].seconds[k] / r[0].seconds[k];
        form[i].ratio = median(ratios, rounds);
        form[i].seconds = median(r[i].seconds, rounds);
    }
}

int cost_measure(const inspect_options *options, cost_form form[COST_FORMS], int *threads, complaint to) {
    numbers n = {0};
    runner r[COST_FORMS] = {0};
    fovea_context *context = inspect_context(options, threads, to);
    int status = context != NULL ? allocate(&form[0].desc, &n, to) : -1;
    for (int i = 0; status == 0 && i < COST_FORMS; i++)
        if (form[i].possible)
            status = make_runner(context, &form[i], &n, &r[i], to);
    if (status == 0)
        run_rounds(r, form,
                   stopwatch(CLOCK_MONOTONIC) + (double)(options->seconds ? options->seconds : DEFAULT_SECONDS));
    for (int i = 0; i < COST_FORMS; i++) {
        fovea_mha_destroy(r[i].mha);
        free(r[i].workspace);
        free(r[i].seconds);
    }
    free(n.input);
    free(n.weight);
    free(n.bias);
    free(n.out);
    fovea_context_destroy(context);
    return status;
}
