/* The cache that one over ranks is compared with, and attention over both (cache_pair.h). */
#include "cache_pair.h"
#include "groups.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fovea_context *ctx;

float *floats(rng *r, int64_t count) {
    float *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)rng_between(r, -1000, 1000) / 512;
    return x;
}

static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16, FOVEA_DTYPE_I8, FOVEA_DTYPE_I4};

void open_both(both *x, rng *r, int64_t index, const fovea_rope *rope, int64_t pages) {
    fovea_kv_cache_desc *d = &x->desc;
    fovea_kv_cache_desc_init(d);
    d->layers = rng_between(r, 1, MOST_LAYERS);
    d->kv_heads = rng_between(r, 1, 2);
    d->head_dim = 8 * rng_between(r, 1, 4);
    d->value_dim = rng_between(r, 1, 40);
    d->k_dtype = types[index % 5];
    d->v_dtype = rng_below(r, 2) ? d->k_dtype : types[rng_below(r, 5)];
    d->max_pages = pages;
    d->rope = rng_below(r, 2) ? rope : NULL;
    for (int64_t i = 0; i < d->layers; i++)
        x->windows[i] = rng_below(r, 3) ? rng_between(r, 0, 600) : -1;
    d->windows = rng_below(r, 3) ? NULL : x->windows;
    x->stripe = rng_between(r, 1, 3);
    x->count = 0;
    snprintf(x->text, sizeof x->text,
             "case %" PRId64 ": types %d %d, %" PRId64 " layers, %" PRId64 " heads, %" PRId64 " and %" PRId64
             " channels%s%s, stripe %" PRId64,
             index, (int)d->k_dtype, (int)d->v_dtype, d->layers, d->kv_heads, d->head_dim, d->value_dim,
             d->windows ? ", windows" : "", d->rope ? ", rope" : "", x->stripe);
    const fovea_status one = fovea_kv_cache_create(ctx, d, &x->one);
    const fovea_status spread = fovea_mpi_cache_create(comm, ctx, d, x->stripe, &x->spread);
    if (!check(one == FOVEA_OK && spread == FOVEA_OK, "create: %s, %s; %s", fovea_error_detail(),
               fovea_mpi_error_detail(), x->text))
        MPI_Abort(comm, 1);
}

void same(const both *x, fovea_status one, fovea_status spread, const char *step) {
    check(one == spread, "%s: one %s (%s), over ranks %s (%s); %s", step, fovea_status_name(one), fovea_error_detail(),
          fovea_status_name(spread), fovea_mpi_error_detail(), x->text);
    for (int64_t i = 0; i < x->count; i++)
        for (int64_t layer = 0; layer < x->desc.layers; layer++) {
            int64_t a = -1, b = -2;
            fovea_kv_cache_length(x->one, layer, x->sequence[i].one, &a);
            fovea_mpi_cache_length(x->spread, layer, x->sequence[i].spread, &b);
            check(a == b, "%s: a length of %" PRId64 ", over ranks %" PRId64 "; %s", step, a, b, x->text);
        }
}

int64_t length_of(const both *x, int64_t layer, int64_t i) {
    int64_t length = 0;
    fovea_kv_cache_length(x->one, layer, x->sequence[i].one, &length);
    return length;
}

/* -------------------------------------------------------------------------------------------------------- attend -- */

static fovea_attention_desc random_desc(const both *x, rng *r, int64_t layer) {
    fovea_attention_desc d;
    fovea_attention_desc_init(&d);
    d.batch = rng_between(r, 1, x->count);
    d.kv_heads = x->desc.kv_heads;
    d.q_heads = d.kv_heads * rng_between(r, 1, 3);
    d.q_len = rng_below(r, 2) ? 1 : rng_between(r, 2, 300);
    d.kv_len = MOST_TOKENS + rng_below(r, 300);
    d.head_dim = x->desc.head_dim;
    d.value_dim = x->desc.value_dim;
    d.k_dtype = x->desc.k_dtype;
    d.v_dtype = x->desc.v_dtype;
    d.page_keys = FOVEA_KV_PAGE_KEYS;
    d.causal = rng_below(r, 4) ? FOVEA_CAUSAL_BOTTOM_RIGHT : (fovea_causal)rng_below(r, 4);
    d.window_left = x->desc.windows ? x->desc.windows[layer] : rng_below(r, 4) ? -1 : rng_below(r, 700);
    d.softcap = rng_below(r, 5) ? 0 : 3;
    d.has_sinks = rng_below(r, 4) == 0;
    d.relative = rng_below(r, 4) ? FOVEA_RELATIVE_NONE : FOVEA_RELATIVE_ALIBI;
    d.arithmetic = d.k_dtype == FOVEA_DTYPE_BF16 && d.v_dtype == FOVEA_DTYPE_BF16 && rng_below(r, 2)
                       ? FOVEA_ARITHMETIC_BF16
                       : FOVEA_ARITHMETIC_EXACT;
    d.dtype = d.arithmetic == FOVEA_ARITHMETIC_BF16 ? FOVEA_DTYPE_BF16 : FOVEA_DTYPE_F32;
    d.out_dtype = FOVEA_DTYPE_F32;
    return d;
}

void attend(both *x, rng *r) {
    const int64_t layer = rng_below(r, x->desc.layers);
    const fovea_attention_desc d = random_desc(x, r, layer);
    int64_t one[MOST_SEQUENCES], spread[MOST_SEQUENCES], lens[MOST_SEQUENCES], offsets[MOST_SEQUENCES];
    for (int64_t b = 0; b < d.batch; b++) {
        const int64_t i = rng_below(r, x->count), length = length_of(x, layer, i);
        one[b] = x->sequence[i].one;
        spread[b] = x->sequence[i].spread;
        lens[b] = rng_below(r, 4) ? length : rng_between(r, 0, length);
        offsets[b] = rng_between(r, 0, length);
    }
    const int64_t queries = d.batch * d.q_heads * d.q_len;
    float *q = floats(r, queries * d.head_dim), *sinks = floats(r, d.q_heads), *slopes = floats(r, d.q_heads);
    float *out = malloc((size_t)(queries * d.value_dim) * sizeof *out), *lse = malloc((size_t)queries * sizeof *lse);
    uint16_t *q16 = (void *)q; /* any 16 bits that are small numbers */
    for (int64_t i = 0; d.dtype == FOVEA_DTYPE_BF16 && i < queries * d.head_dim; i++)
        q16[i] = (uint16_t)(0x3e00 + rng_below(r, 400) + (rng_below(r, 2) << 15));
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(q, d.dtype, d.batch, d.q_heads, d.q_len, d.head_dim);
    args.cache = x->one;
    args.cache_layer = layer;
    args.cache_sequences = one;
    args.kv_lens = rng_below(r, 2) ? lens : NULL;
    args.q_offsets = d.causal == FOVEA_CAUSAL_OFFSET ? offsets : NULL;
    args.sinks = d.has_sinks ? sinks : NULL;
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, d.batch, d.q_heads, d.q_len, d.value_dim);
    args.lse = fovea_tensor_bhtd(lse, FOVEA_DTYPE_F32, d.batch, d.q_heads, d.q_len, 1);
    if (d.relative == FOVEA_RELATIVE_ALIBI)
        args.relative = fovea_tensor_bhtd(slopes, FOVEA_DTYPE_F32, 1, d.q_heads, 1, 1);
    fovea_attention_plan *plan;
    fovea_status want = fovea_attention_plan_create(ctx, &d, &plan);
    if (!check(want == FOVEA_OK, "plan: %s", fovea_error_detail()))
        MPI_Abort(comm, 1);
    want = fovea_attention_execute(plan, &args, NULL, 0);
    fovea_attention_plan_destroy(plan);

    fovea_mpi_attention_desc over;
    fovea_mpi_attention_desc_init(&over);
    over.attention = &d;
    over.queries = rng_below(r, 3) ? FOVEA_MPI_QUERIES_REPLICATED : FOVEA_MPI_QUERIES_DEALT;
    over.method = (fovea_mpi_method)(rng_below(r, 3));
    over.stripe_segments = x->stripe;
    over.min_offset = -(int64_t)MOST_TOKENS;
    over.max_offset = MOST_TOKENS;
    over.block_queries = rng_below(r, 2) ? 0 : rng_between(r, 1, 200);
    fovea_mpi_attention_plan *over_plan;
    fovea_status status = fovea_mpi_attention_plan_create(comm, ctx, &over, &over_plan);
    if (!check(status == FOVEA_OK, "plan over ranks: %s; %s", fovea_mpi_error_detail(), x->text))
        MPI_Abort(comm, 1);
    const fovea_attention_args whole = args;
    args.q = part_of(&whole.q, over_plan, rank, fovea_mpi_attention_query_stripe, true);
    args.out = part_of(&whole.out, over_plan, rank, fovea_mpi_attention_query_stripe, false);
    args.lse = part_of(&whole.lse, over_plan, rank, fovea_mpi_attention_query_stripe, false);
    args.cache = NULL;
    args.cache_sequences = spread;
    const size_t size = fovea_mpi_attention_plan_workspace_size(over_plan);
    unsigned char *workspace = malloc(size + 8);
    memset(workspace, 0xff, size + 8);
    status = fovea_mpi_cache_attention(over_plan, x->spread, &args, workspace, size);
    for (int i = 0; i < 8; i++)
        check(workspace[size + (size_t)i] == 0xff, "writes past the workspace; %s", x->text);
    same(x, want, status, "attend");
    if (want == FOVEA_OK && status == FOVEA_OK) {
        check(part_same(&args.out, &whole.out, over_plan, rank, fovea_mpi_attention_query_stripe),
              "out differs: q_len %" PRId64 ", causal %d, window %" PRId64 ", method %d; %s", d.q_len, (int)d.causal,
              d.window_left, (int)over.method, x->text);
        check(part_same(&args.lse, &whole.lse, over_plan, rank, fovea_mpi_attention_query_stripe), "lse differs; %s",
              x->text);
    }
    void *const all[] = {workspace, q, sinks, slopes, out, lse, args.q.data, args.out.data, args.lse.data};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    fovea_mpi_attention_plan_destroy(over_plan);
}
