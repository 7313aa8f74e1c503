/* Linear maps and layers over ranks: the bits of one rank. Run by mpirun with any number of ranks. Every rank computes
 * a problem alone, then its part of it with the others, and compares. Ranks have different tiers and threads. */
#include "layer_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fovea_context *ctx;
fovea_mpi_group *group;

enum { FEATURES = 64, CHANNELS = 16, OUT = 203 };

typedef struct layer_case {
    int64_t q_heads, kv_heads;
    weight_kind kind;
    bool cross, cached, own, biases, extras, heads_alone;
    fovea_dtype dtype;
} layer_case;

typedef struct layer_data {
    fovea_attention_desc attention;
    fovea_mha_desc desc;
    fovea_mha_weights weights;
    fovea_attention_args args;
    fovea_tensor out, lse, want, want_lse;
    float sinks[64];
} layer_data;

static void make(const layer_case *c, rng *r, layer_data *d) {
    memset(d, 0, sizeof *d);
    fovea_attention_desc *a = &d->attention;
    fovea_attention_desc_init(a);
    fovea_mha_desc_init(&d->desc);
    fovea_mha_weights_init(&d->weights);
    fovea_attention_args_init(&d->args);
    a->batch = 2;
    a->q_heads = c->q_heads;
    a->kv_heads = c->kv_heads;
    a->q_len = 5;
    a->kv_len = c->cross ? 9 : c->cached ? 12 : 5;
    a->head_dim = a->value_dim = CHANNELS;
    a->dtype = c->dtype;
    a->causal = c->cross ? FOVEA_CAUSAL_NONE : FOVEA_CAUSAL_BOTTOM_RIGHT;
    d->desc.attention = a;
    d->desc.inputs = c->cross ? FOVEA_MHA_CROSS : FOVEA_MHA_SELF;
    d->desc.q_features = FEATURES;
    d->desc.out_features = c->heads_alone ? 0 : OUT;
    d->desc.biases = c->biases;
    fovea_mha_weights *w = &d->weights;
    const int64_t q = c->q_heads * CHANNELS, kv = c->kv_heads * CHANNELS;
    w->q = weight(r, c->kind, FEATURES, q);
    w->k = weight(r, c->kind, FEATURES, kv);
    w->v = weight(r, c->kind, FEATURES, kv);
    if (c->kind == F32_IN_OUT && !c->own) { /* stored head by head */
        w->q.in_stride = CHANNELS;
        w->q_head_stride = FEATURES * CHANNELS;
    }
    if (!c->heads_alone)
        w->o = weight(r, c->kind == BF16 ? BF16 : F32_IN_OUT, q, OUT);
    if (c->biases) {
        w->q_bias = numbers(r, FOVEA_DTYPE_F32, q);
        w->k_bias = numbers(r, FOVEA_DTYPE_F32, kv);
        w->v_bias = numbers(r, FOVEA_DTYPE_F32, kv);
        w->o_bias = c->heads_alone ? NULL : numbers(r, FOVEA_DTYPE_F32, OUT);
        w->q_norm = numbers(r, FOVEA_DTYPE_F32, CHANNELS);
        w->k_norm = numbers(r, FOVEA_DTYPE_F32, CHANNELS);
    }
    d->args.q = filled(r, c->dtype, 2, 1, a->q_len, FEATURES);
    if (c->cross)
        d->args.k = filled(r, c->dtype, 2, 1, a->kv_len, FEATURES);
    d->want = filled(r, c->dtype, 2, c->heads_alone ? c->q_heads : 1, a->q_len, c->heads_alone ? CHANNELS : OUT);
    d->want_lse = filled(r, FOVEA_DTYPE_F32, 2, c->q_heads, a->q_len, 1);
    if (!c->extras)
        return;
    a->has_sinks = 1;
    a->relative = FOVEA_RELATIVE_ALIBI;
    a->mask = c->cached ? FOVEA_MASK_NONE : FOVEA_MASK_BOOLEAN;
    for (int i = 0; i < 64; i++)
        d->sinks[i] = (float)i * 0.1f - 1;
    d->args.sinks = d->sinks;
    d->args.relative = fovea_tensor_bhtd(numbers(r, FOVEA_DTYPE_F32, c->q_heads), FOVEA_DTYPE_F32, 1, c->q_heads, 1, 1);
    if (!c->cached) {
        unsigned char *mask = keep((size_t)(c->q_heads * a->q_len * a->kv_len));
        for (int64_t i = 0; i < c->q_heads * a->q_len * a->kv_len; i++)
            mask[i] = rng_below(r, 4) > 0;
        d->args.mask = fovea_tensor_bhtd(mask, FOVEA_DTYPE_BOOL, 1, c->q_heads, a->q_len, a->kv_len);
        d->args.mask.shape[0] = 2;
        d->args.mask.stride[0] = 0;
    }
}

/* Packed sequences of 2 and 3 new tokens, of 7. */
static const int64_t starts[] = {0, 2, 5};

static fovea_kv_cache *make_cache(const layer_case *c, layer_data *d, int64_t kv_heads, const fovea_rope *rope,
                                  int64_t sequences[2]) {
    fovea_kv_cache_desc desc;
    fovea_kv_cache *cache = NULL;
    fovea_kv_cache_desc_init(&desc);
    desc.kv_heads = kv_heads;
    desc.head_dim = desc.value_dim = CHANNELS;
    desc.k_dtype = desc.v_dtype = c->dtype;
    desc.max_pages = 4;
    desc.rope = rope;
    if (kv_heads == 0)
        return NULL;
    check(fovea_kv_cache_create(ctx, &desc, &cache) == FOVEA_OK, "cache: %s", fovea_error_detail());
    for (int i = 0; cache && i < 2; i++)
        fovea_kv_cache_add(cache, &sequences[i]);
    d->args.cache = cache;
    d->args.cache_sequences = sequences;
    return cache;
}

static void make_cached(layer_data *d, rng *r, const layer_case *c) {
    d->attention.packed = 1;
    d->attention.page_keys = FOVEA_KV_PAGE_KEYS;
    d->desc.q_tokens = 8;
    d->args.q = filled(r, c->dtype, 1, 1, 7, FEATURES); /* the last 2 tokens are of no sequence */
    d->args.q_cu_seqlens = starts;
    d->want = filled(r, c->dtype, 1, c->heads_alone ? c->q_heads : 1, 7, c->heads_alone ? CHANNELS : OUT);
    d->want_lse = filled(r, FOVEA_DTYPE_F32, 1, c->q_heads, 7, 1);
}

static void run_alone(const layer_case *c, layer_data *d, const fovea_rope *rope) {
    fovea_mha *mha = NULL;
    int64_t sequences[2];
    fovea_kv_cache *cache = c->cached ? make_cache(c, d, c->kv_heads, rope, sequences) : NULL;
    d->args.out = d->want = empty_like(&d->want);
    d->args.lse = d->want_lse = empty_like(&d->want_lse);
    fovea_status status = fovea_mha_create(ctx, &d->desc, &d->weights, &mha);
    for (int i = 0; i <= c->cached && status == FOVEA_OK; i++)
        status = fovea_mha_execute(mha, &d->args, NULL, 0);
    check(status == FOVEA_OK, "alone: %s", fovea_error_detail());
    fovea_mha_destroy(mha);
    fovea_kv_cache_destroy(cache);
    d->out = empty_like(&d->want);
    d->lse = empty_like(&d->want_lse);
    d->args.out = d->out;
    d->args.lse = d->lse;
    d->args.cache = NULL;
}

/* Rows of [out][in] of a rank's own. */
static void own_rows(fovea_matrix *m, int64_t first, int64_t count, int64_t row_bytes) {
    m->data = count ? (const char *)m->data + first * row_bytes : NULL;
    m->out = count;
}

static void take_own(const layer_case *c, layer_data *d) {
    const fovea_mpi_heads h = fovea_mpi_share_heads(group, rank, c->q_heads, c->kv_heads);
    fovea_mha_weights *w = &d->weights;
    const int64_t row = FEATURES * (c->kind == BF16 ? 2 : 4), q = h.q_first * CHANNELS, kv = h.kv_first * CHANNELS;
    int64_t first;
    const int64_t columns = fovea_mpi_share(group, rank, OUT, 0, &first);
    own_rows(&w->q, q, h.q_count * CHANNELS, row);
    own_rows(&w->k, kv, h.kv_count * CHANNELS, row);
    own_rows(&w->v, kv, h.kv_count * CHANNELS, row);
    if (!c->heads_alone)
        own_rows(&w->o, first, columns, c->kind == BF16 ? 2 * w->o.in : 4);
    if (!c->biases)
        return;
    w->q_bias = (const float *)w->q_bias + q;
    w->k_bias = (const float *)w->k_bias + kv;
    w->v_bias = (const float *)w->v_bias + kv;
    w->o_bias = (const float *)w->o_bias + first;
}

static fovea_status create(const layer_case *c, const layer_data *d, fovea_mpi_mha **mha) {
    fovea_mpi_mha_desc over;
    fovea_mpi_mha_desc_init(&over);
    over.layer = &d->desc;
    over.own_weights = c->own;
    const fovea_status status = fovea_mpi_mha_create(group, ctx, &over, &d->weights, mha);
    check((*mha == NULL) == (status != FOVEA_OK), "a layer and an error");
    return status;
}

static const char *text(const layer_case *c) {
    static char line[160];
    snprintf(line, sizeof line,
             "heads %lld/%lld, %s, cross %d, cached %d, own %d, biases %d, extras %d, heads alone %d",
             (long long)c->q_heads, (long long)c->kv_heads, weight_name(c->kind), c->cross, c->cached, c->own,
             c->biases, c->extras, c->heads_alone);
    return line;
}

/* Heads of all ranks follow each other, and each key head is with its query heads. */
static void check_heads(const layer_case *c, const fovea_mpi_mha *mha) {
    int64_t next = 0;
    for (int i = 0; i < ranks; i++) {
        const fovea_mpi_heads h = fovea_mpi_mha_heads(mha, i);
        const int64_t of_each = c->q_heads / c->kv_heads;
        const int64_t end = (h.q_first + h.q_count + of_each - 1) / of_each;
        check(h.q_first == next &&
                  (h.q_count == 0 ? h.kv_count == 0
                                  : h.kv_first == h.q_first / of_each && h.kv_first + h.kv_count == end),
              "rank %d has heads %lld + %lld, key heads %lld + %lld (%s)", i, (long long)h.q_first,
              (long long)h.q_count, (long long)h.kv_first, (long long)h.kv_count, text(c));
        next += h.q_count;
    }
    check(next == c->q_heads, "ranks have %lld heads", (long long)next);
}

static void run(const layer_case *c, rng *r) {
    layer_data d;
    make(c, r, &d);
    fovea_rope_desc rope_desc;
    fovea_rope *rope = NULL;
    fovea_rope_desc_init(&rope_desc);
    rope_desc.rotary_dim = CHANNELS;
    if (c->cached) {
        make_cached(&d, r, c);
        fovea_rope_create(&rope_desc, &rope);
    }
    run_alone(c, &d, rope);
    if (c->own)
        take_own(c, &d);
    fovea_mpi_mha *mha;
    fovea_status status = create(c, &d, &mha);
    check(status == FOVEA_OK, "%s: %s", fovea_mpi_error_detail(), text(c));
    if (mha) {
        int64_t sequences[2] = {0};
        check_heads(c, mha);
        fovea_kv_cache *cache =
            c->cached ? make_cache(c, &d, fovea_mpi_mha_heads(mha, rank).kv_count, rope, sequences) : NULL;
        for (int i = 0; i <= c->cached && status == FOVEA_OK; i++)
            status = fovea_mpi_mha_execute(mha, &d.args);
        check(status == FOVEA_OK, "%s: %s", fovea_mpi_error_detail(), text(c));
        check(same_memory(&d.out, &d.want), "out differs: %s", text(c));
        check(same_memory(&d.lse, &d.want_lse), "lse differs: %s", text(c));
        check(fovea_mpi_group_memory(group) >= (c->cached ? 0 : fovea_mpi_mha_memory(mha)), "memory is not as told");
        int64_t first;
        const bool any = fovea_mpi_mha_heads(mha, rank).q_count + fovea_mpi_mha_columns(mha, rank, &first) > 0;
        check((fovea_mpi_mha_weight_bytes(mha) > 0) == any, "a rank has %zu bytes of weights",
              fovea_mpi_mha_weight_bytes(mha));
        fovea_kv_cache_destroy(cache);
    }
    fovea_mpi_mha_destroy(mha);
    fovea_rope_destroy(rope);
    free_all();
}

static void test_errors(rng *r) {
    const layer_case c = {.q_heads = 8, .kv_heads = 4, .kind = F32_OUT_IN, .dtype = FOVEA_DTYPE_F32};
    layer_data d;
    fovea_mpi_mha *mha;
    for (int guilty = 0; guilty < ranks; guilty++) {
        const bool me = rank == guilty;
        make(&c, r, &d);
        d.desc.form = me ? FOVEA_MHA_TIED : FOVEA_MHA_FACTORED;
        all_failed(create(&c, &d, &mha), FOVEA_ERROR_UNSUPPORTED, guilty, "form");
        d.desc.form = FOVEA_MHA_FACTORED;
        d.weights.k.out -= me;
        all_failed(create(&c, &d, &mha), FOVEA_ERROR_SHAPE, guilty, "k");
        d.weights.k.out += me;
        d.weights.o.out -= me;
        all_failed(create(&c, &d, &mha), FOVEA_ERROR_SHAPE, guilty, "o");
        d.weights.o.out += me;
        d.attention.window_left = me ? 1 : 2;
        if (ranks > 1)
            all_failed(create(&c, &d, &mha), FOVEA_ERROR_ARGUMENT, -1, "other window");
        free_all();
    }
    make(&c, r, &d);
    run_alone(&c, &d, NULL);
    if (create(&c, &d, &mha) != FOVEA_OK)
        return;
    for (int guilty = 0; guilty < ranks; guilty++) {
        const bool me = rank == guilty;
        all_failed(fovea_mpi_mha_execute(mha, me ? NULL : &d.args), FOVEA_ERROR_NULL, guilty, "args");
        fovea_attention_args bad = d.args;
        bad.out.shape[2] += me;
        all_failed(fovea_mpi_mha_execute(mha, &bad), FOVEA_ERROR_SHAPE, guilty, "out");
        bad = d.args;
        bad.lse.dtype = me ? FOVEA_DTYPE_BF16 : FOVEA_DTYPE_F32;
        all_failed(fovea_mpi_mha_execute(mha, &bad), FOVEA_ERROR_SHAPE, guilty, "lse");
        bad = d.args;
        bad.q.dtype = me ? FOVEA_DTYPE_BF16 : FOVEA_DTYPE_F32;
        const bool heads = fovea_mpi_mha_heads(mha, guilty).q_count > 0;
        all_failed(fovea_mpi_mha_execute(mha, &bad), heads ? FOVEA_ERROR_DTYPE : FOVEA_OK, heads ? guilty : -1, "q");
        bad = d.args;
        int64_t lens[] = {5, me ? 4 : 5};
        bad.q_lens = lens;
        if (ranks > 1)
            all_failed(fovea_mpi_mha_execute(mha, &bad), FOVEA_ERROR_ARGUMENT, -1, "other lens");
        lens[1] = me ? 6 : 5;
        if (heads && ranks == 1)
            all_failed(fovea_mpi_mha_execute(mha, &bad), FOVEA_ERROR_SHAPE, guilty, "lens");
        fovea_attention_state *state = (fovea_attention_state *)&bad;
        bad = d.args;
        bad.state = me ? state : NULL;
        all_failed(fovea_mpi_mha_execute(mha, &bad), FOVEA_ERROR_UNSUPPORTED, guilty, "state");
    }
    check(fovea_mpi_mha_execute(mha, &d.args) == FOVEA_OK, "after errors: %s", fovea_mpi_error_detail());
    check(same_memory(&d.out, &d.want) && same_memory(&d.lse, &d.want_lse), "after errors out differs");
    fovea_mpi_mha_destroy(mha);
    free_all();
}

void test_layer(rng *r, int every) {
    static const int64_t heads[][2] = {{8, 8}, {8, 2}, {3, 1}, {2, 2}, {12, 6}, {1, 1}};
    test_errors(r);
    int at = ranks;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        for (int form = 0; form < 8; form++, at++) {
            if (at % every != 0)
                continue;
            layer_case c = {
                .q_heads = heads[i][0], .kv_heads = heads[i][1], .kind = F32_OUT_IN, .dtype = FOVEA_DTYPE_F32};
            c.kind = form == 1                ? Q8_0
                     : form == 2 || form == 6 ? BF16
                     : form == 3              ? INT8
                     : form == 7              ? F32_IN_OUT
                                              : F32_OUT_IN;
            c.dtype = form == 2 || form == 6 ? FOVEA_DTYPE_BF16 : FOVEA_DTYPE_F32;
            c.cross = form == 3;
            c.cached = form == 4 || form == 5 || form == 1;
            c.biases = form != 0 && form != 3;
            c.own = form == 5 || form == 6;
            c.extras = form == 7 || form == 2 || form == 5;
            c.heads_alone = form == 0;
            run(&c, r);
        }
}

int main(int argc, char **argv) {
    const char *scaled = getenv("FOVEA_TEST_SCALE");
    const double scale = scaled ? atof(scaled) : 1;
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    if (argc == 3 && strcmp(argv[1], "--seed") == 0)
        seed = atoll(argv[2]);
    const int every = scale < 0.2 ? 7 : scale < 1 ? 3 : 1;
    while (group_next()) {
        fovea_context_options options;
        fovea_context_options_init(&options);
        options.isa = rank % 3 == 1 ? FOVEA_ISA_SCALAR : FOVEA_ISA_BEST;
        options.threads = 1 + rank % 2;
        options.threads_backend = FOVEA_THREADS_POOL;
        options.tuning_file = "";
        if (fovea_context_create(&options, &ctx) != FOVEA_OK || fovea_mpi_group_create(comm, &group) != FOVEA_OK)
            MPI_Abort(comm, 1);
        rng r = {(uint64_t)(seed + ranks)};
        test_linear(&r, every);
        test_layer(&r, every);
        fovea_mpi_group_destroy(group);
        fovea_context_destroy(ctx);
    }
    return group_report("layers");
}
