/* fovea-bench: decoding over a cache (fovea/cache.h): attention of few new queries of each sequence to the keys in its
 * pages, appending of tokens, or a step, which is both, through `layers` layers. decode_cache.c makes the cache. Its
 * result is checked before it is timed: attention against the scalar tier, over the same pages; what was appended
 * against what the scalar tier appends.
 *
 * Keys come from memory, as those of a model do: the cache has several sets of layers, which calls use in turn, and
 * which are together at least twice the last-level cache (peak_cold_bytes).
 *
 * Bytes are those of the keys and values that sequences see, once where they share them, of queries and outputs; of an
 * append, those that it reads and writes. Flops are 2 * (head_dim + value_dim) for each pair of a query and a key.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode_bench.h"

/* ------------------------------------------------------------------------------------------------------- timing -- */

static fovea_status attend(decode *self, int64_t layer) {
    fovea_attention_args *args = &self->args;
    args->cache_layer = layer;
    return fovea_attention_execute(self->plan, args, self->workspace, self->workspace_size);
}

/* One call: all layers of a set. */
static fovea_status execute(decode *self, int64_t set) {
    fovea_status status = FOVEA_OK;
    for (int64_t i = 0; i < self->layers && status == FOVEA_OK; i++) {
        const int64_t layer = set * self->layers + i;
        if (self->call != DECODE_ATTENTION)
            status = decode_append(self, self->cache, layer, self->desc.batch, self->sequences, 0, self->desc.q_len);
        if (self->call != DECODE_APPEND && status == FOVEA_OK)
            status = attend(self, layer);
    }
    return status;
}

static void decode_run(bench *base) {
    decode *self = (decode *)base;
    if (self->call != DECODE_ATTENTION && self->runs == self->sets * (DECODE_ROOM / self->desc.q_len)) {
        for (int64_t b = 0; b < self->desc.batch; b++)
            fovea_kv_cache_truncate(self->cache, self->sequences[b], self->desc.kv_len);
        self->runs = 0;
    }
    execute(self, self->runs++ % self->sets);
}

static void decode_end(bench *base) {
    decode *self = (decode *)base;
    fovea_attention_plan_destroy(self->plan);
    fovea_kv_cache_destroy(self->cache);
    fovea_context_destroy(self->base.context);
    free(self->numbers);
    free(self->sequences);
    free(self->lens);
    free(self->args.q.data);
    free(self->args.out.data);
    free(self->workspace);
    fovea_attention_args_init(&self->args);
    self->plan = NULL;
    self->cache = NULL;
    self->base.context = NULL;
    self->numbers = self->workspace = NULL;
    self->sequences = self->lens = NULL;
    self->runs = 0;
}

static const char *make_plan(decode *self) {
    const char *error = bench_context(self->base.isa, self->base.threads, &self->base.context);
    return error ? error : bench_plan(self->base.context, &self->desc, self->keys, self->values, &self->plan);
}

static const char *make_arguments(decode *self) {
    const fovea_attention_desc *d = &self->desc;
    fovea_attention_args *args = &self->args;
    const int64_t rows = d->batch * d->q_heads * d->q_len;
    fovea_attention_args_init(args);
    args->q = fovea_tensor_bhtd(bench_numbers(rows * d->head_dim, d->dtype, -2, 2, 1), d->dtype, d->batch, d->q_heads,
                                d->q_len, d->head_dim);
    args->out = fovea_tensor_bhtd(bench_alloc(rows * d->value_dim * fv_dtype_size(d->dtype)), d->dtype, d->batch,
                                  d->q_heads, d->q_len, d->value_dim);
    args->cache = self->cache;
    args->cache_sequences = self->sequences;
    args->kv_lens = self->lens; /* appended tokens are not attended to: each call does the same */
    self->workspace_size = fovea_attention_plan_workspace_size(self->plan);
    self->workspace = bench_alloc((int64_t)self->workspace_size);
    return args->q.data && args->out.data && self->workspace ? NULL : "no memory";
}

/* The first and the last sequence, each alone on the scalar tier. */
static const char *check_attention(const decode *self, int64_t layer) {
    fovea_attention_desc d = self->desc;
    fovea_context *context = NULL;
    fovea_attention_plan *alone = NULL;
    const int64_t size = fv_dtype_size(d.dtype), bytes = d.q_heads * d.q_len * d.value_dim * size;
    const char *error = bench_context(FOVEA_ISA_SCALAR, 1, &context);
    char *want = bench_alloc(bytes);
    d.batch = 1;
    if (want == NULL)
        error = "no memory";
    if (error == NULL && fovea_attention_plan_create(context, &d, &alone) != FOVEA_OK)
        error = fovea_error_detail();
    for (int64_t b = 0; b < self->desc.batch && error == NULL; b += fv_max(self->desc.batch - 1, 1)) {
        fovea_attention_args args = self->args;
        args.cache_layer = layer;
        args.cache_sequences += b;
        args.q.data = (char *)args.q.data + b * d.q_heads * d.q_len * d.head_dim * size;
        args.q.shape[0] = args.out.shape[0] = 1;
        args.out.data = want;
        if (fovea_attention_execute(alone, &args, NULL, 0) != FOVEA_OK)
            error = fovea_error_detail();
        else if (memcmp(want, (const char *)self->args.out.data + b * bytes, (size_t)bytes) != 0)
            error = "WRONG: the output of a sequence is not what scalar gives";
    }
    fovea_attention_plan_destroy(alone);
    fovea_context_destroy(context);
    free(want);
    return error;
}

static void count_cost(decode *self, shim_cost *cost) {
    const fovea_attention_desc *d = &self->desc;
    const double layers = (double)self->layers, rows = (double)(d->batch * d->q_heads * d->q_len);
    const double pairs = rows * ((double)d->kv_len - (double)(d->q_len - 1) / 2), token = decode_token_bytes(self);
    const double elements = (double)(d->head_dim + d->value_dim) * (double)fv_dtype_size(d->dtype);
    if (self->call != DECODE_ATTENTION)
        cost->bytes += layers * (double)(d->batch * d->kv_heads * d->q_len) * (elements + token);
    if (self->call == DECODE_APPEND)
        return;
    cost->bytes += layers * (decode_set_bytes(self) / layers + rows * elements);
    cost->flops = 2.0 * layers * (double)(d->head_dim + d->value_dim) * pairs;
    const double floats = (double)d->head_dim / decode_key_rate(self) + (double)d->value_dim;
    cost->peak =
        self->base.threads * bench_peak((fv_isa)self->base.isa) * (double)(d->head_dim + d->value_dim) / floats;
    cost->read = self->read_speed;
}

static const char *decode_begin(bench *base, shim_cost *cost) {
    decode *self = (decode *)base;
    const char *error = make_plan(self);
    if (error == NULL)
        error = decode_make_cache(self);
    if (error == NULL)
        error = make_arguments(self);
    if (error == NULL && !self->base.checked && self->call != DECODE_ATTENTION)
        error = decode_check_append(self);
    if (error != NULL)
        return error;
    if (execute(self, 0) != FOVEA_OK)
        return fovea_error_detail();
    self->runs = 1;
    if (!self->base.checked && self->call != DECODE_APPEND && (error = check_attention(self, self->layers - 1)) != NULL)
        return error;
    if (!self->base.checked)
        self->read_speed = bench_read_speed(self->base.context, self->base.threads);
    self->base.checked = true;
    count_cost(self, cost);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------- making -- */

static const char *const call_words[] = {"attention", "append", "step", NULL};

static void name_it(decode *self) {
    const fovea_attention_desc *d = &self->desc;
    bench_name(
        &self->base,
        "decode/%s/b%" PRId64 "_hq%" PRId64 "_hkv%" PRId64 "_q%" PRId64 "_kv%" PRId64 "_dk%" PRId64 "_dv%" PRId64,
        fv_dtype_word(d->dtype), d->batch, d->q_heads, d->kv_heads, d->q_len, d->kv_len, d->head_dim, d->value_dim);
    if (d->k_dtype != d->dtype)
        bench_name(&self->base, "/k_dtype:%s", fv_dtype_word(d->k_dtype));
    if (d->v_dtype != d->dtype)
        bench_name(&self->base, "/v_dtype:%s", fv_dtype_word(d->v_dtype));
    if (self->prefix > 0)
        bench_name(&self->base, "/prefix:%" PRId64, self->prefix);
    if (self->keys > 0)
        bench_name(&self->base, "/keys:%s", bench_keys_words[self->keys]);
    if (self->values > 0)
        bench_name(&self->base, "/values:%s", bench_values_words[self->values]);
    if (self->layers > 1)
        bench_name(&self->base, "/layers:%" PRId64, self->layers);
    if (self->call != DECODE_ATTENTION)
        bench_name(&self->base, "/call:%s", call_words[self->call]);
    bench_name_end(&self->base);
}

/* Problems that the library does not report itself. */
static const char *problem_of(const decode *self) {
    const fovea_attention_desc *d = &self->desc;
    if (d->q_len > d->kv_len)
        return "q_len: at most kv_len, as queries are the last tokens";
    if (d->q_len > DECODE_ROOM)
        return "q_len: at most 256";
    if (self->prefix >= d->kv_len)
        return "prefix: below kv_len, as each sequence has tokens of its own";
    return self->prefix > 0 && d->batch == 1 ? "prefix: needs batch=2 or more, which share it" : NULL;
}

static bench *decode_make(const char *words, char error[BENCH_ERROR_SIZE]) {
    const int64_t most = INT64_C(1) << 24;
    int64_t dtype = 0, k_dtype = -1, v_dtype = -1, batch = 1, q_heads = 32, kv_heads = 8, q_len = 1, kv_len = 4096,
            head_dim = 128, value_dim = 0, prefix = 0, layers = 1, call = 0, key_source = 0, value_source = 0;
    const cli_key keys[] = {{"dtype", fv_dtype_words, 0, 0, &dtype},
                            {"k_dtype", fv_kv_dtype_words, 0, 0, &k_dtype},
                            {"v_dtype", fv_kv_dtype_words, 0, 0, &v_dtype},
                            {"batch", NULL, 1, most, &batch},
                            {"q_heads", NULL, 1, most, &q_heads},
                            {"kv_heads", NULL, 1, most, &kv_heads},
                            {"q_len", NULL, 1, most, &q_len},
                            {"kv_len", NULL, 1, most, &kv_len},
                            {"head_dim", NULL, 1, most, &head_dim},
                            {"value_dim", NULL, 1, most, &value_dim},
                            {"prefix", NULL, 0, most, &prefix},
                            {"layers", NULL, 1, DECODE_MOST_LAYERS, &layers},
                            {"call", call_words, 0, 0, &call},
                            {"keys", bench_keys_words, 0, 0, &key_source},
                            {"values", bench_values_words, 0, 0, &value_source}};
    const bench functions = {.begin = decode_begin, .run = decode_run, .end = decode_end};
    decode *self =
        bench_new(sizeof *self, &functions, words, keys, sizeof keys / sizeof keys[0], BENCH_TAKES_THREADS, error);
    if (self == NULL)
        return NULL;
    fovea_attention_desc *d = &self->desc;
    fovea_attention_desc_init(d);
    d->dtype = fv_dtype_of_word[dtype];
    d->k_dtype = k_dtype < 0 ? d->dtype : fv_kv_dtype_of_word[k_dtype];
    d->v_dtype = v_dtype < 0 ? d->dtype : fv_kv_dtype_of_word[v_dtype];
    d->out_dtype = d->dtype;
    d->batch = batch;
    d->q_heads = q_heads;
    d->kv_heads = kv_heads;
    d->q_len = q_len;
    d->kv_len = kv_len;
    d->head_dim = head_dim;
    d->value_dim = value_dim ? value_dim : head_dim;
    d->causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    d->page_keys = FOVEA_KV_PAGE_KEYS;
    self->keys = key_source;
    self->values = value_source;
    self->prefix = prefix;
    self->layers = layers;
    self->call = (decode_call)call;
    fovea_attention_args_init(&self->args);
    name_it(self);
    /* The library itself says what is wrong with a shape. */
    const char *problem = problem_of(self);
    if (problem == NULL)
        problem = make_plan(self);
    if (problem != NULL)
        snprintf(error, BENCH_ERROR_SIZE, "%s", problem);
    decode_end(&self->base);
    if (problem == NULL)
        return &self->base;
    free(self);
    return NULL;
}

const bench_kind bench_decode = {
    "decode", decode_make,
    "dtype=f32|bf16|f16 k_dtype=(dtype)|f32|bf16|f16|i8 v_dtype=(dtype)|...\n"
    "      batch=1 q_heads=32 kv_heads=8 q_len=1 kv_len=4096 head_dim=128 value_dim=(head_dim)\n"
    "      prefix=0 layers=1 call=attention|append|step isa=best|TIER threads=1\n"
    "      keys=default"
#define FV_KEYS(name, fallback) "|" #name
#include "attention/sources/sources.inc"
    " values=default"
#define FV_VALUES(name, fallback) "|" #name
#include "attention/sources/sources.inc"
    "\n"
    "      attention over a cache of keys and values in pages, which come from memory\n"
    "      k_dtype, v_dtype: types of the cache; prefix: number of tokens that all sequences share\n"
    "      layers: how many a call goes through; append: only appends q_len tokens; step: appends and attends\n"
    "      keys, values: how they become operands, as plans name it"};
