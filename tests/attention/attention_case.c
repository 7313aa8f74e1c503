/* Attention problems for tests: what they are and how they are run (attention_case.h). */
#include "attention_case.h"

#include "attention/sources/source.h"
#include "context/context.h"
#include "dispatch/dispatch.h"
#include "mask_words.h"
#include "target.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void *must_alloc(int64_t n, size_t size) {
    void *memory = malloc((size_t)(n > 0 ? n : 1) * size);
    if (memory == NULL) {
        fputs("out of memory\n", stderr);
        exit(TEST_FAILED);
    }
    return memory;
}

/* ------------------------------------------------------------------------------------------------------ cases -- */

attention_case case_plain(int64_t batch, int64_t q_heads, int64_t kv_heads, int64_t q_len, int64_t kv_len,
                          int64_t head_dim, int64_t value_dim) {
    attention_case c = {.lse = true, .mask_density = 0.5F};
    fovea_attention_desc_init(&c.desc);
    c.desc.batch = batch;
    c.desc.q_heads = q_heads;
    c.desc.kv_heads = kv_heads;
    c.desc.q_len = q_len;
    c.desc.kv_len = kv_len;
    c.desc.head_dim = head_dim;
    c.desc.value_dim = value_dim;
    return c;
}

static int64_t random_channels(rng *r) {
    static const int64_t usual[] = {31, 32, 33, 40, 63, 64, 65, 80, 128};
    int64_t kind = rng_below(r, 20);
    if (kind < 10)
        return rng_between(r, 1, 24);
    if (kind < 17)
        return usual[rng_below(r, 9)];
    return rng_between(r, 66, kind < 19 ? 200 : 576);
}

static int64_t random_kv_len(rng *r) {
    int64_t kind = rng_below(r, 20);
    return kind < 1    ? rng_below(r, 3)
           : kind < 8  ? rng_between(r, 1, 70)
           : kind < 12 ? rng_between(r, 240, 272) /* around one segment */
           : kind < 14 ? rng_between(r, 508, 530) /* around two */
                       : rng_between(r, 71, 900);
}

static int64_t random_q_len(rng *r, int64_t kv_len) {
    int64_t kind = rng_below(r, 10);
    return kind < 3 ? 1 : kind < 6 ? rng_between(r, 2, 20) : kind < 9 ? rng_between(r, 21, 140) : kv_len + 1;
}

static int64_t case_work(const fovea_attention_desc *d) {
    return d->batch * d->q_heads * d->q_len * (d->kv_len + 1) * (d->head_dim + d->value_dim);
}

attention_case case_random(rng *r, int64_t work) {
    static const float densities[] = {0.95F, 0.7F, 0.3F, 0.02F};
    static const double scales[] = {0.3, -0.2, 1.0, 0.01};
    int64_t groups[] = {1, 1, 2, 3, 4, 8};
    /* Each draw is a statement: the order of arguments is the compiler's, and a case must be the same by all. */
    int64_t kv_len = random_kv_len(r), kv_heads = rng_between(r, 1, 3);
    int64_t batch = rng_between(r, 1, 3), group = groups[rng_below(r, 6)];
    int64_t head_dim = random_channels(r), value_dim = random_channels(r);
    attention_case c = case_plain(batch, kv_heads * group, kv_heads, 1, kv_len, head_dim, value_dim);
    fovea_attention_desc *d = &c.desc;
    d->q_len = random_q_len(r, kv_len);
    while (case_work(d) > work) {
        if (d->q_len > 3)
            d->q_len = (d->q_len + 1) / 2;
        else if (d->q_heads > d->kv_heads)
            d->q_heads = d->kv_heads;
        else if (d->batch > 1)
            d->batch--;
        else if (d->head_dim + d->value_dim > 8)
            d->head_dim = (d->head_dim + 1) / 2, d->value_dim = (d->value_dim + 1) / 2;
        else
            d->kv_len /= 2;
    }

    c.layout = (case_layout)rng_below(r, LAYOUT_COUNT);
    c.values = rng_below(r, 2) ? VALUES_RANDOM : (case_values)rng_below(r, VALUES_COUNT);
    d->has_scale = !rng_below(r, 3);
    d->scale = d->has_scale ? scales[rng_below(r, 4)] : 0;
    d->causal = (fovea_causal)rng_below(r, 4);
    if (rng_below(r, 3) == 0) {
        d->window_left = rng_below(r, 3) ? rng_below(r, d->kv_len + 2) : -1;
        d->window_right = rng_below(r, 3) ? rng_below(r, d->kv_len / 2 + 2) : -1;
    }
    d->mask = rng_below(r, 2) ? FOVEA_MASK_NONE : rng_below(r, 2) ? FOVEA_MASK_BOOLEAN : FOVEA_MASK_ADDITIVE;
    c.mask_density = densities[rng_below(r, 4)];
    for (int axis = 0; axis < 4; axis++)
        c.mask_repeats[axis] = rng_below(r, axis == 3 ? 8 : 3) == 0;
    c.q_lens = rng_below(r, 3) == 0;
    c.kv_lens = rng_below(r, 3) == 0;
    c.q_offsets = d->causal == FOVEA_CAUSAL_OFFSET || (d->causal == FOVEA_CAUSAL_NONE && rng_below(r, 2));
    c.lse = rng_below(r, 2) == 0;
    c.weights = rng_below(r, 2) == 0;
    if (d->mask == FOVEA_MASK_BOOLEAN) /* without a draw */
        c.say_mask = (fovea_mask_kind)((d->q_len + d->kv_len + d->head_dim) % (FOVEA_MASK_PREPARED + 1));
    return c;
}

void case_random_scores(attention_case *c, rng *r) {
    fovea_attention_desc *d = &c->desc;
    d->has_bias = d->mask != FOVEA_MASK_ADDITIVE && rng_below(r, 3) == 0;
    for (int axis = 0; axis < 4; axis++)
        c->bias_repeats[axis] = rng_below(r, axis == 3 ? 8 : 3) == 0;
    static const double caps[] = {50, 30, 1, 0.1, 1e4}, scales[] = {0, -1, -0.3};
    d->softcap = rng_below(r, 3) == 0 ? caps[rng_below(r, 5)] : 0;
    d->has_sinks = rng_below(r, 3) == 0;
    if (d->has_scale && rng_below(r, 2))
        d->scale = scales[rng_below(r, 3)];
    d->relative = rng_below(r, 2) ? FOVEA_RELATIVE_NONE : (fovea_relative)rng_below(r, 5);
    c->relative_entries = 2 * rng_below(r, rng_below(r, 2) ? 5 : d->q_len + d->kv_len + 1) + 1;
    c->relative_repeats[0] = rng_below(r, 2);
    c->relative_repeats[1] = rng_below(r, 3) == 0;
    d->relative_bidirectional = (int)rng_below(r, 2);
    d->relative_buckets = rng_below(r, 2) ? 32 : rng_between(r, d->relative_bidirectional ? 4 : 2, 40);
    d->relative_max_distance = rng_below(r, 2) ? 128 : rng_between(r, d->relative_buckets, 2000);
    if (d->relative != FOVEA_RELATIVE_WINDOW_2D)
        return;
    /* Whatever the offset, positions must lie in the window. */
    if (c->q_offsets || d->causal == FOVEA_CAUSAL_BOTTOM_RIGHT) {
        c->q_offsets = false;
        d->causal = FOVEA_CAUSAL_TOP_LEFT;
    }
    const int64_t tokens = d->q_len > d->kv_len ? d->q_len : d->kv_len;
    d->relative_width = rng_between(r, 1, rng_below(r, 2) ? 20 : tokens + 1);
    d->relative_height = (tokens + d->relative_width - 1) / d->relative_width + rng_below(r, 2);
}

void case_feature(attention_case *c, int i) {
    enum { SOFTCAP, SINKS, BIAS, SCALE, RELATIVE, MASK = RELATIVE + FOVEA_RELATIVE_WINDOW_2D };
    fovea_attention_desc *d = &c->desc;
    switch (i) {
    case SOFTCAP: d->softcap = 3; return;
    case SINKS: d->has_sinks = 1; return;
    case BIAS: d->has_bias = 1; return;
    case SCALE: d->has_scale = 1; return; /* of 0 */
    default: break;
    }
    if (i < MASK) {
        d->relative = (fovea_relative)(i - RELATIVE + 1);
        d->relative_buckets = 32;
        d->relative_max_distance = 128;
        d->relative_height = d->relative_width = 30;
        c->relative_entries = 101;
        return;
    }
    c->say_mask = (fovea_mask_kind)(i - MASK + 1);
    d->mask = c->say_mask > FOVEA_MASK_ADDITIVE ? FOVEA_MASK_BOOLEAN : c->say_mask;
    c->mask_repeats[1] = c->mask_repeats[2] = c->say_mask == FOVEA_MASK_KEY_PADDING;
}

static const fv_kernel *random_gemm(rng *r) {
    const fv_kernel *row;
    do
        row = &fv_kernels[rng_below(r, fv_kernel_count)];
    while (!fv_multiply_tuned(row, test_target()));
    return row;
}

fv_attention_choice choice_random(rng *r) {
    static const int64_t splits[] = {0, -1, 1, 2}, caches[] = {0, 10, 50, 400, 6400}, few[] = {0, 0, -1, 4, 64},
                         copied[] = {0, 0, 1, 64, 1 << 20}, tiled[] = {0, 0, 1, 4096}, streamed[] = {0, 0, -1, 1, 16};
    fv_attention_choice choice = {0};
    choice.score = random_gemm(r);
    choice.value = random_gemm(r);
    choice.block_rows = rng_below(r, 3) ? rng_between(r, 1, 100) : 0;
    choice.tile_rows = rng_below(r, 3) ? rng_between(r, 1, 40) : 0;
    choice.split_segments = splits[rng_below(r, 4)];
    choice.cache_scale = caches[rng_below(r, 5)];
    choice.few_rows = few[rng_below(r, 5)];
    choice.copy_rows = copied[rng_below(r, 5)];
    choice.amx_rows = tiled[rng_below(r, 4)];
    choice.stream_rows = streamed[rng_below(r, 5)];
    if (rng_below(r, 2)) { /* a source that does not serve leaves it to the planner */
        choice.k = rng_below(r, FV_KEYS_COUNT + 1);
        choice.v = rng_below(r, FV_VALUES_COUNT + 1);
    }
    return choice;
}

const char *case_text(const attention_case *c, char *text, size_t size) {
    static const char *const causal[] = {"none", "top_left", "bottom_right", "offset"};
    static const char *const mask[] = {"none", "boolean", "additive"};
    static const char *const relative[] = {"", " alibi", " toeplitz", " t5", " window_2d"};
    static const char *const layout[] = {"bhtd", "bthd", "packed", "odd"};
    static const char *const values[] = {"random", "equal", "one_huge", "rising", "falling", "overflow", "subnormal"};
    const fovea_attention_desc *d = &c->desc;
    char cap[32] = "";
    if (d->softcap > 0)
        snprintf(cap, sizeof cap, " softcap %g", d->softcap);
    snprintf(text, size,
             "b%" PRId64 " hq%" PRId64 " hkv%" PRId64 " q%" PRId64 " kv%" PRId64 " dk%" PRId64 " dv%" PRId64
             " scale %g%s%s causal %s window %" PRId64 ",%" PRId64 " mask %s(%g%s)%s%s layout %s values %s%s%s%s%s%s",
             d->batch, d->q_heads, d->kv_heads, d->q_len, d->kv_len, d->head_dim, d->value_dim, d->scale, cap,
             d->has_sinks ? " sinks" : "", causal[d->causal], d->window_left, d->window_right, mask[d->mask],
             (double)c->mask_density,
             c->mask_repeats[0] || c->mask_repeats[1] || c->mask_repeats[2] || c->mask_repeats[3] ? ", broadcast" : "",
             d->has_bias ? " bias" : "", relative[d->relative], layout[c->layout], values[c->values],
             c->q_lens ? " q_lens" : "", c->kv_lens ? " kv_lens" : "", c->q_offsets ? " q_offsets" : "",
             c->lse ? " lse" : "", c->weights ? " weights" : "");
    return text;
}

/* ------------------------------------------------------------------------------------------------------- runs -- */

fovea_attention_args case_args(const inputs *in, const outputs *out) {
    fovea_attention_args args = in->args;
    args.out = out->out;
    if (out->lse.data)
        args.lse = out->lse;
    if (out->weights.data)
        args.weights = out->weights;
    return args;
}

mask_words case_said(const fovea_context *ctx, const attention_case *c, const fovea_attention_args *args) {
    /* of which it is prepared */
    static const fovea_mask_kind inner[] = {FOVEA_MASK_BOOLEAN, FOVEA_MASK_BITS, FOVEA_MASK_RANGES, FOVEA_MASK_BLOCKS};
    const fovea_attention_desc *d = &c->desc;
    const bool other = d->mask == FOVEA_MASK_BOOLEAN && d->kv_len > 0 && c->say_mask > FOVEA_MASK_ADDITIVE &&
                       mask_words_can(args, c->say_mask);
    mask_words w;
    mask_words_make(&w, ctx, d, args, other ? c->say_mask : d->mask, inner[d->q_len % 4], (int64_t[]){1, 1});
    return w;
}

bool case_run(const fovea_context *ctx, const fv_attention_choice *choice, const attention_case *c, const inputs *in,
              outputs *out) {
    static const fv_attention_choice free_choice = {0};
    char text[512];
    fovea_attention_plan *plan;
    fovea_attention_args args = case_args(in, out);
    mask_words words = case_said(ctx, c, &args);
    args = words.args;
    fovea_status status = fv_attention_plan_create_chosen(ctx, &words.desc, choice ? choice : &free_choice, &plan);
    if (!test_check(status == FOVEA_OK, "plan: %s (%s)", fovea_error_detail(), case_text(c, text, sizeof text)))
        return false;
    size_t size = fovea_attention_plan_workspace_size(plan);
    void *workspace = must_alloc((int64_t)size, 1);
    status = fovea_attention_execute(plan, &args, workspace, size);
    free(workspace);
    fovea_attention_plan_destroy(plan);
    mask_words_free(&words);
    return test_check(status == FOVEA_OK, "execute: %s (%s)", fovea_error_detail(), case_text(c, text, sizeof text));
}

fovea_context *context_of(fovea_isa isa, int threads, thread_pool *p) {
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.isa = isa;
    options.threads = threads;
    options.parallel_for = p ? thread_pool_parallel_for : NULL;
    options.pool = p;
    if (fovea_context_create(&options, &ctx) != FOVEA_OK) {
        fprintf(stderr, "no context: %s\n", fovea_error_detail());
        exit(TEST_FAILED);
    }
    return ctx;
}

fovea_context *context_with_pool(int threads) {
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.threads_backend = FOVEA_THREADS_POOL;
    if (fovea_context_create(&options, &ctx) != FOVEA_OK) {
        fprintf(stderr, "no context: %s\n", fovea_error_detail());
        exit(TEST_FAILED);
    }
    fovea_thread_pool_destroy(ctx->own_pool);
    if (fovea_thread_pool_create(threads, 0, &ctx->own_pool) != FOVEA_OK)
        exit(TEST_FAILED);
    ctx->threads.count = threads;
    ctx->threads.pool = ctx->own_pool;
    return ctx;
}

case_contexts contexts_make(void) {
    case_contexts x = {.threads = thread_pool_create(3)};
    x.scalar = context_of(FOVEA_ISA_SCALAR, 1, NULL);
    x.one = context_of(FOVEA_ISA_BEST, 1, NULL);
    x.own = context_of(FOVEA_ISA_BEST, 0, NULL);
    x.three = context_of(FOVEA_ISA_BEST, 3, x.threads);
    x.many = context_of(FOVEA_ISA_BEST, 40, x.threads);
    return x;
}

void contexts_free(const case_contexts *x) {
    fovea_context *all[] = {x->scalar, x->one, x->own, x->three, x->many};
    for (int i = 0; i < 5; i++)
        fovea_context_destroy(all[i]);
    thread_pool_destroy(x->threads);
}

void check_status(const char *what, fovea_status got, fovea_status want, const char *words) {
    const char *detail = fovea_error_detail();
    test_check(got == want, "%s: %s instead of %s (%s)", what, fovea_status_name(got), fovea_status_name(want), detail);
    if (want == FOVEA_OK || got == FOVEA_OK)
        return;
    char text[256];
    snprintf(text, sizeof text, "%s", words ? words : "");
    test_check(strchr(detail, ' ') != NULL, "%s: no sentence but \"%s\"", what, detail);
    for (char *word = text, *next; word && *word; word = next) {
        next = strchr(word, '|');
        if (next)
            *next++ = '\0';
        test_check(strstr(detail, word) != NULL, "%s: \"%s\" does not name %s", what, detail, word);
    }
}

void convert_elements(int64_t n, const void *from, fovea_dtype from_dtype, void *to, fovea_dtype to_dtype) {
    if (fovea_convert(n, from, from_dtype, to, to_dtype) != FOVEA_OK)
        test_check(false, "convert: %s", fovea_error_detail());
}

int64_t tensor_elements(const fovea_tensor *t) {
    int64_t last = 0;
    for (int i = 0; i < 4; i++) {
        if (t->shape[i] == 0)
            return 0;
        last += (t->shape[i] - 1) * t->stride[i];
    }
    return last + 1;
}

fovea_status attention_once(const fovea_context *ctx, const fovea_attention_desc *desc,
                            const fovea_attention_args *args) {
    fovea_attention_plan *plan;
    fovea_status status = fovea_attention_plan_create(ctx, desc, &plan);
    if (status == FOVEA_OK)
        status = fovea_attention_execute(plan, args, NULL, 0);
    fovea_attention_plan_destroy(plan);
    return status;
}

fovea_status mha_once(const fovea_context *ctx, const fovea_mha_desc *desc, const fovea_mha_weights *weights,
                      const fovea_attention_args *args) {
    fovea_mha *mha;
    fovea_status status = fovea_mha_create(ctx, desc, weights, &mha);
    if (status == FOVEA_OK)
        status = fovea_mha_execute(mha, args, NULL, 0);
    fovea_mha_destroy(mha);
    return status;
}

bool attention_runs(const fovea_context *ctx, const fovea_attention_desc *desc, const fovea_attention_args *args) {
    return test_check(attention_once(ctx, desc, args) == FOVEA_OK, "attention: %s", fovea_error_detail());
}
