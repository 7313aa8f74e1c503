/* fovea-bench: attention of any shape through the public API, planned, with the workspace of the caller, or by the one
 * call (call=sdpa). attention_data.c makes its operands; its result is checked before it is timed (attention_check.c).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_bench.h"
#include "core/core.h"

/* ------------------------------------------------------------------------------------------------------- timing -- */

static void attention_end(bench *base) {
    attention *self = (attention *)base;
    fovea_attention_plan_destroy(self->plan);
    fovea_context_destroy(self->base.context);
    free(self->workspace);
    free(self->args.q.data);
    free(self->args.k.data);
    free(self->args.v.data);
    attention_free_mask(self);
    attention_free_beside(self);
    free(self->args.bias.data);
    free(self->args.relative.data);
    for (int o = 0; o < ATTENTION_OUTPUTS; o++)
        free(attention_output(&self->args, o)->data);
    free(self->lengths);
#define FOVEA_ARGS_HEADS(name, flag, text)                                                                             \
    free(self->name);                                                                                                  \
    self->name = NULL;
#include "fovea/fields.inc"
    attention_state_end(self);
    fovea_attention_args_init(&self->args);
    self->plan = NULL;
    self->base.context = NULL;
    self->workspace = NULL;
    self->lengths = NULL;
}

static const char *make_plan(attention *self) {
    const char *error = bench_context(self->base.isa, self->base.threads, &self->base.context);
    if (error != NULL || attention_has_state(self))
        return error ? error : attention_state_plans(self);
    error = bench_plan(self->base.context, &self->desc, self->keys, self->values, &self->plan);
    if (error)
        return error;
    self->workspace_size = fovea_attention_plan_workspace_size(self->plan);
    self->workspace = bench_alloc((int64_t)self->workspace_size);
    return self->workspace ? NULL : "no memory";
}

/* The one call has a context of its own, whose tier and threads are the environment's. */
static const char *check_one_call(const attention *self) {
    fovea_context *context;
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    if (fovea_context_create(NULL, &context) != FOVEA_OK)
        return fovea_error_detail();
    const fovea_status status = fovea_context_info(context, &info);
    fovea_context_destroy(context);
    if (status != FOVEA_OK)
        return fovea_error_detail();
    if (info.isa != self->base.isa)
        return "call=sdpa runs on the best tier: FOVEA_ISA chooses another";
    if (info.threads != self->base.threads)
        return "call=sdpa runs on all CPUs that it may: taskset -c 0 leaves one, threads= says how many there are";
    const fovea_attention_desc *d = &self->desc;
    bool other = d->mask || d->relative || d->packed || d->dtype != FOVEA_DTYPE_F32 || d->window_left >= 0 ||
                 d->window_right >= 0;
#define FOVEA_DESC_NUMBER(name, least, most, text) other = other || d->name != 0;
#define FOVEA_DESC_GIVEN(name, argument, text) other = other || d->name != 0;
#include "fovea/fields.inc"
    if (other || self->layout != LAYOUT_BHTD || self->q_shortest >= 0 || self->kv_shortest >= 0 || self->has_offset ||
        self->lse || self->weights || self->beside)
        return "call=sdpa takes sizes and causal, and no other option";
    return NULL;
}

static fovea_status execute(attention *self) {
    const fovea_attention_desc *d = &self->desc;
    const fovea_attention_args *a = &self->args;
    if (attention_has_state(self))
        return attention_state_execute(self);
    if (self->call == CALL_SDPA)
        return fovea_sdpa_f32(a->q.data, a->k.data, a->v.data, a->out.data, d->batch, d->q_heads, d->kv_heads, d->q_len,
                              d->kv_len, d->head_dim, d->value_dim, d->causal);
    return fovea_attention_execute(self->plan, a, self->workspace, self->workspace_size);
}

static void attention_run(bench *base) { execute((attention *)base); }

static const char *attention_begin(bench *base, shim_cost *cost) {
    attention *self = (attention *)base;
    const fovea_attention_desc *desc = &self->desc;
    fovea_attention_args_init(&self->args);
    const char *error = make_plan(self);
    if (error == NULL)
        error = attention_make_arguments(self);
    if (error == NULL)
        error = attention_make_beside(self);
    if (error != NULL)
        return error;
    if (execute(self) != FOVEA_OK)
        return fovea_error_detail();
    if (!self->base.checked) {
        if ((error = attention_check(self)) != NULL)
            return error;
        self->pairs = attention_pairs(self);
        self->base.checked = true;
    }
    cost->flops = 2.0 * (double)(desc->head_dim + desc->value_dim) * self->pairs;
    cost->bytes = attention_bytes(self);
    cost->peak = self->base.threads * bench_peak((fv_isa)self->base.isa);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------- making -- */

static const char *const mask_words[] = {"none",   "boolean", "additive", "bits", "key_padding",
                                         "ranges", "blocks",  "prepared", NULL};
static const char *const pattern_words[] = {"scattered", "causal", "documents", "padded", NULL};
static const char *const relative_words[] = {"none", "alibi", "toeplitz", "t5", "window_2d", NULL};
static const char *const layout_words[] = {"bhtd", "bthd", NULL};
static const char *const length_words[] = {"even", "halved", NULL};
static const char *const call_words[] = {"plan", "sdpa", NULL};

/* A window's side, as name. */
static const char *side(int64_t keys, char text[24]) {
    snprintf(text, 24, "%" PRId64, keys);
    return keys < 0 ? "none" : text;
}

static void name_it(attention *self) {
    const fovea_attention_desc *desc = &self->desc;
    char left[24], right[24];
    bench_name(&self->base,
               "attention/%s/b%" PRId64 "_hq%" PRId64 "_hkv%" PRId64 "_q%" PRId64 "_kv%" PRId64 "_dk%" PRId64
               "_dv%" PRId64 "/causal:%s",
               fv_dtype_word(desc->dtype), desc->batch, desc->q_heads, desc->kv_heads, desc->q_len, desc->kv_len,
               desc->head_dim, desc->value_dim, fv_causal_words[desc->causal]);
    if (self->has_offset)
        bench_name(&self->base, "/q_offset:%" PRId64, self->offset);
    if (desc->window_left >= 0 || desc->window_right >= 0)
        bench_name(&self->base, "/window:%s,%s", side(desc->window_left, left), side(desc->window_right, right));
    if (desc->mask != FOVEA_MASK_NONE)
        bench_name(&self->base, "/mask:%s", mask_words[desc->mask]);
    if (self->pattern != PATTERN_SCATTERED)
        bench_name(&self->base, "/pattern:%s", pattern_words[self->pattern]);
    if (desc->relative != FOVEA_RELATIVE_NONE)
        bench_name(&self->base, "/relative:%s", relative_words[desc->relative]);
#define FOVEA_DESC_NUMBER(name, least, most, text)                                                                     \
    if (desc->name != 0)                                                                                               \
        bench_name(&self->base, "/" #name ":%g", desc->name);
#define FOVEA_DESC_GIVEN(name, argument, text)                                                                         \
    if (desc->name)                                                                                                    \
        bench_name(&self->base, "/" #argument ":1");
#include "fovea/fields.inc"
    if (self->q_shortest >= 0)
        bench_name(&self->base, "/q_lens:%" PRId64, self->q_shortest);
    if (self->kv_shortest >= 0)
        bench_name(&self->base, "/kv_lens:%" PRId64, self->kv_shortest);
    if (self->halved)
        bench_name(&self->base, "/lengths:halved");
    if (desc->packed)
        bench_name(&self->base, "/packed:1");
    if (self->pieces > 1)
        bench_name(&self->base, "/pieces:%" PRId64, self->pieces);
    if (self->prefix > 0)
        bench_name(&self->base, "/prefix:%" PRId64, self->prefix);
    if (self->lse)
        bench_name(&self->base, "/lse:1");
    if (self->weights)
        bench_name(&self->base, "/weights:1");
    if (self->beside != BESIDE_NOTHING)
        bench_name(&self->base, "/beside:%s", attention_beside_words[self->beside]);
    if (self->layout != LAYOUT_BHTD)
        bench_name(&self->base, "/layout:%s", layout_words[self->layout]);
    if (desc->arithmetic != FOVEA_ARITHMETIC_EXACT)
        bench_name(&self->base, "/arithmetic:%s", fovea_arithmetic_name(desc->arithmetic));
    if (self->keys > 0)
        bench_name(&self->base, "/keys:%s", bench_keys_words[self->keys]);
    if (self->values > 0)
        bench_name(&self->base, "/values:%s", bench_values_words[self->values]);
    if (self->call != CALL_PLAN)
        bench_name(&self->base, "/call:%s", call_words[self->call]);
    bench_name_end(&self->base);
}

/* Refuses what the library would refuse only when it is executed, and what cannot be timed; 0, or -1 and a sentence. */
static int check_options(const attention *self, char error[BENCH_ERROR_SIZE]) {
    const fovea_attention_desc *d = &self->desc;
    const struct {
        const char *name;
        int64_t shortest, longest;
    } lengths[] = {{"q", self->q_shortest, d->q_len}, {"kv", self->kv_shortest, d->kv_len}};
    for (int i = 0; i < 2; i++) {
        if (lengths[i].shortest > lengths[i].longest) {
            snprintf(error, BENCH_ERROR_SIZE, "%s_lens=%" PRId64 ": the shortest cannot be above %s_len=%" PRId64,
                     lengths[i].name, lengths[i].shortest, lengths[i].name, lengths[i].longest);
            return -1;
        }
    }
    if (d->packed && (d->mask != FOVEA_MASK_NONE || d->has_bias || self->weights)) {
        snprintf(error, BENCH_ERROR_SIZE, "packed=1 takes no mask, bias or weights");
        return -1;
    }
    if (self->has_offset && d->causal != FOVEA_CAUSAL_OFFSET && d->causal != FOVEA_CAUSAL_NONE) {
        snprintf(error, BENCH_ERROR_SIZE, "q_offset goes with causal=offset and causal=none: causal=%s sets its own",
                 fv_causal_words[d->causal]);
        return -1;
    }
    int64_t bytes = (int64_t)sizeof(float);
    if (self->weights && (!fv_multiply(bytes, d->batch, &bytes) || !fv_multiply(bytes, d->q_heads, &bytes) ||
                          !fv_multiply(bytes, d->q_len, &bytes) || !fv_multiply(bytes, d->kv_len, &bytes))) {
        snprintf(error, BENCH_ERROR_SIZE, "weights=1: more weights than any memory holds");
        return -1;
    }
    /* Where the longest sequence has no pair, no other has. */
    const attention_sequence longest = attention_sequence_of(self, 0);
    if (attention_pairs_of(d, &longest, NULL) == 0) {
        snprintf(error, BENCH_ERROR_SIZE, "no query sees a key, so there is nothing to time");
        return -1;
    }
    return 0;
}

static bench *attention_make(const char *words, char error[BENCH_ERROR_SIZE]) {
    const int64_t most = INT64_C(1) << 24;
    /* Fields of the description, whose keys have their names. */
#define FOVEA_DESC(type, name) int64_t name;
    struct {
#include "fovea/fields.inc"
    } d = {
        .batch = 1, .q_heads = 12, .q_len = 512, .kv_len = -1, .head_dim = 64, .window_left = -1, .window_right = -1};
    int64_t pattern = 0, layout = 0, call = 0, q_lens = -1, kv_lens = -1, q_offset = INT64_MIN;
    int64_t lse = 0, weights = 0, lengths = 0, pieces = 1, prefix = 0, beside = 0, key_source = 0, value_source = 0;
    const cli_key keys[] = {{"dtype", fv_dtype_words, 0, 0, &d.dtype},
                            {"arithmetic", fv_arithmetic_words, 0, 0, &d.arithmetic},
                            {"causal", fv_causal_words, 0, 0, &d.causal},
                            {"mask", mask_words, 0, 0, &d.mask},
                            {"relative", relative_words, 0, 0, &d.relative},
                            {"packed", NULL, 0, 1, &d.packed},
#define FOVEA_DESC_SHAPE(name, initial, least, most_, status, text) {#name, NULL, least < 0 ? least : 1, most, &d.name},
#define FOVEA_DESC_NUMBER(name, least, most_, text) {#name, NULL, 0, most, &d.name},
#define FOVEA_DESC_GIVEN(name, argument, text) {#argument, NULL, 0, 1, &d.name},
#include "fovea/fields.inc"
                            {"pattern", pattern_words, 0, 0, &pattern},
                            {"q_lens", NULL, 0, most, &q_lens},
                            {"kv_lens", NULL, 0, most, &kv_lens},
                            {"lengths", length_words, 0, 0, &lengths},
                            {"pieces", NULL, 1, most, &pieces},
                            {"prefix", NULL, 0, most, &prefix},
                            {"q_offset", NULL, -most, most, &q_offset},
                            {"lse", NULL, 0, 1, &lse},
                            {"weights", NULL, 0, 1, &weights},
                            {"beside", attention_beside_words, 0, 0, &beside},
                            {"layout", layout_words, 0, 0, &layout},
                            {"call", call_words, 0, 0, &call},
                            {"keys", bench_keys_words, 0, 0, &key_source},
                            {"values", bench_values_words, 0, 0, &value_source}};
    const bench functions = {.begin = attention_begin, .run = attention_run, .end = attention_end};
    attention *self =
        bench_new(sizeof *self, &functions, words, keys, sizeof keys / sizeof keys[0], BENCH_TAKES_THREADS, error);
    if (self == NULL)
        return NULL;
    d.kv_heads = d.kv_heads ? d.kv_heads : d.q_heads;
    d.kv_len = d.kv_len >= 0 ? d.kv_len : d.q_len;
    d.value_dim = d.value_dim ? d.value_dim : d.head_dim;
    fovea_attention_desc_init(&self->desc);
#define FOVEA_DESC_SHAPE(name, initial, least, most, status, text) self->desc.name = d.name;
#define FOVEA_DESC_NUMBER(name, least, most, text) self->desc.name = (double)d.name;
#define FOVEA_DESC_GIVEN(name, argument, text) self->desc.name = (int)d.name;
#define FOVEA_DESC_ENUM(name, type, initial, text) self->desc.name = (fovea_##type)d.name;
#include "fovea/fields.inc"
    self->desc.dtype = fv_dtype_of_word[d.dtype];
    self->desc.arithmetic = bench_arithmetic(self->desc.arithmetic, (fv_isa)self->base.isa, self->desc.dtype, 0);
    self->desc.packed = (int)d.packed;
    attention_mask_blocks(&self->desc);
    self->desc.relative_bidirectional = 1;
    self->desc.relative_buckets = 32;
    self->desc.relative_max_distance = 128;
    self->desc.relative_height = 1;
    while (self->desc.relative_height * self->desc.relative_height < fv_max(d.q_len, d.kv_len))
        self->desc.relative_height++;
    self->desc.relative_width = self->desc.relative_height;
    self->pattern = (attention_pattern)pattern;
    self->keys = key_source;
    self->values = value_source;
    self->q_shortest = q_lens;
    self->kv_shortest = kv_lens;
    self->halved = lengths != 0;
    self->pieces = pieces;
    self->prefix = prefix;
    self->has_offset = q_offset != INT64_MIN || d.causal == FOVEA_CAUSAL_OFFSET;
    self->offset = q_offset != INT64_MIN ? q_offset : 0;
    self->beside = (attention_beside)beside;
    self->lse = lse != 0 || beside == BESIDE_KEY_SUMS;
    self->weights = weights != 0;
    self->layout = (memory_layout)layout;
    self->call = (attention_call)call;
    name_it(self);
    /* The library itself says what is wrong with a shape. */
    const char *problem = attention_mask_problem(self);
    if (problem == NULL)
        problem = attention_state_problem(self);
    if (problem == NULL)
        problem = make_plan(self);
    if (problem == NULL && self->call == CALL_SDPA)
        problem = check_one_call(self);
    if (problem != NULL)
        snprintf(error, BENCH_ERROR_SIZE, "%s", problem);
    const bool good = problem == NULL && check_options(self, error) == 0;
    attention_end(&self->base);
    if (good)
        return &self->base;
    free(self);
    return NULL;
}

const bench_kind bench_attention = {
    "attention", attention_make,
    "dtype=f32|bf16|f16 arithmetic=exact|bf16|bf16_tile|fastest\n"
    "      batch=1 q_heads=12 kv_heads=(q_heads) q_len=512 kv_len=(q_len) head_dim=64 value_dim=(head_dim)\n"
    "      causal=none|top_left|bottom_right|offset q_offset=(0) window_left=-1 window_right=-1\n"
    "      mask=none|boolean|additive|bits|key_padding|ranges|blocks|prepared\n"
    "      pattern=scattered|causal|documents|padded relative=none|alibi|toeplitz|t5|window_2d\n"
    "     "
#define FOVEA_DESC_NUMBER(name, least, most, text) " " #name "=0"
#define FOVEA_DESC_GIVEN(name, argument, text) " " #argument "=0|1"
#include "fovea/fields.inc"
    "\n"
    "      q_lens=(q_len) kv_lens=(kv_len) lengths=even|halved packed=0|1 pieces=1 prefix=0 lse=0|1 weights=0|1\n"
    "      beside=nothing|raw|capped|biased|weights|key_sums|rows\n"
    "      layout=bhtd|bthd call=plan|sdpa isa=best|TIER threads=1\n"
    "      keys=default"
#define FV_KEYS(name, fallback) "|" #name
#include "attention/sources/sources.inc"
    " values=default"
#define FV_VALUES(name, fallback) "|" #name
#include "attention/sources/sources.inc"
    "\n"
    "      q_offset: position of each sequence's first query among its keys (with causal=offset or none)\n"
    "      q_lens, kv_lens: the shortest length; the others fall to it from q_len or kv_len, evenly or halved\n"
    "      packed: all sequences on one token axis, without padding\n"
    "      pieces: number of pieces of the keys, through a state; prefix: number of keys that all sequences share\n"
    "      mask: one for all sequences and heads; pattern: which keys it shows (scattered: 7 in 8;\n"
    "      documents: 16 of them; padded: all keys but the last eighth); bias: one for each head, added beside the "
    "mask\n"
    "      relative: a bias by positions; t5 has 32 buckets to 128 tokens, both ways; window_2d is a square\n"
    "      lse, weights: 1 computes these outputs, too; beside: scores of a kind, sums of keys (with lse), or "
    "entropy,\n"
    "      largest weight and 8 top keys of each row; keys, values: how they become operands, as plans name it"};
