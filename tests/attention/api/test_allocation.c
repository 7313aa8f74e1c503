/* Memory from the heap: execution with a workspace takes none, and every allocation that fails gives a clean status.
 *
 * By failing.h, allocations of the library and of this program are counted and can fail, those of the OpenMP run-time,
 * whose thread pool is its own, cannot. Each entry point is called with its 1st, 2nd, 3rd ... allocation failing until
 * one call gets through:
 *   status FOVEA_ERROR_OUT_OF_MEMORY with a sentence, the result NULL, outputs untouched, no block left over.
 * Layers, quantized weights, caches: test_allocation_mha.c, _quantized.c, _cache.c. */
#define _POSIX_C_SOURCE 200809L
#include "attention_case.h"
#include "extra_outputs.h"
#include "failing.h"
#include "linear_case.h"
#include "tuning_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------- no allocation -- */

/* A plan, its operands, all that it may give, and a workspace. */
typedef struct planned_call {
    attention_case c;
    inputs *in;
    outputs *out;
    fovea_attention_plan *plan;
    fovea_attention_args args;
    extra_outputs all;
    size_t size;
    void *workspace;
} planned_call;

static void plan(planned_call *p, const fovea_context *ctx, int64_t q_len, int64_t kv_len, fovea_mask_kind mask) {
    rng r = rng_stream(test_seed(), "allocation");
    p->c = case_plain(2, 4, 2, q_len, kv_len, 24, 24);
    p->c.desc.mask = mask;
    p->c.desc.causal = mask ? FOVEA_CAUSAL_BOTTOM_RIGHT : FOVEA_CAUSAL_NONE;
    p->c.weights = true;
    p->in = inputs_make(&p->c, &r);
    p->out = outputs_make(&p->c, LAYOUT_BHTD);
    test_check(fovea_attention_plan_create(ctx, &p->c.desc, &p->plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
    p->args = case_args(p->in, p->out);
    ask_for_all(&p->all, &p->c.desc, &p->args); /* args point into all */
    p->size = fovea_attention_plan_workspace_size(p->plan);
    p->workspace = must_alloc((int64_t)p->size, 1);
}

static void planned_free(planned_call *p) {
    free(p->workspace);
    free(p->all.memory);
    fovea_attention_plan_destroy(p->plan);
    inputs_free(p->in);
    outputs_free(p->out);
}

static void check_no_allocation(const fovea_context *ctx, int64_t q_len, fovea_mask_kind mask) {
    planned_call p;
    plan(&p, ctx, q_len, 700, mask);
    TAKES_NONE("fovea_attention_execute", fovea_attention_execute(p.plan, &p.args, p.workspace, p.size));
    planned_free(&p);
}

/* Two states of keys, merged and finished. */
static fovea_status run_states(planned_call *p, void *const memory[2], size_t size) {
    fovea_attention_state *state[2];
    fovea_status status = FOVEA_OK;
    for (int i = 0; i < 2 && status == FOVEA_OK; i++) {
        status = fovea_attention_state_init(p->plan, memory[i], size, &state[i]);
        p->args.state = state[i];
        p->args.first_key = 256 * i;
        if (status == FOVEA_OK)
            status = fovea_attention_execute(p->plan, &p->args, p->workspace, p->size);
    }
    if (status == FOVEA_OK)
        status = fovea_attention_state_merge(state[0], state[1]);
    const fovea_attention_part part = {.out = p->out->out, .lse = p->out->lse};
    return status == FOVEA_OK ? fovea_attention_merge(&part, 1, NULL, &part) : status;
}

static void check_states(const fovea_context *ctx, int64_t q_len) {
    planned_call p;
    plan(&p, ctx, q_len, 256, FOVEA_MASK_NONE);
    const size_t size = fovea_attention_plan_state_size(p.plan);
    void *const memory[2] = {must_alloc((int64_t)size, 1), must_alloc((int64_t)size, 1)};
    p.args = p.in->args;
    p.args.out = p.out->out;
    p.args.lse = p.out->lse;
    TAKES_NONE("a state", run_states(&p, memory, size));
    free(memory[0]);
    free(memory[1]);
    planned_free(&p);
}

/* ------------------------------------------------------------------------------------------- failing allocations -- */

static void fail_context(const fovea_context_options *options, bool persistent) {
    fovea_context *ctx;
    FAIL_MAKING("fovea_context_create", 1, persistent, ctx, fovea_context_destroy, fovea_context_create(options, &ctx))
}

/* Tuning files: contexts that load one and log shapes, and the functions for them. */
static void fail_tuning(bool persistent) {
    char path[256], log[256], other[256];
    snprintf(path, sizeof path, "%s", files_name("tuning"));
    snprintf(log, sizeof log, "%s", files_name("log"));
    snprintf(other, sizeof other, "%s", files_name("other"));
    fovea_tuning *sound = tuning_sound(1), *more = tuning_sound(2), *loaded;
    test_check(fovea_tuning_save(sound, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.tuning_file = path;
    setenv("FOVEA_LOG_SHAPES", log, 1);
    fail_context(&options, persistent);
    unsetenv("FOVEA_LOG_SHAPES");
    FAIL_MAKING("fovea_tuning_load", 1, persistent, loaded, fovea_tuning_destroy, fovea_tuning_load(path, &loaded))
    FAIL_EACH("fovea_tuning_save", 1, persistent, fovea_tuning_save(sound, other)) {}
    FAIL_EACH("fovea_tuning_merge", 1, persistent, fovea_tuning_merge(sound, more)) {
        test_check(sound->rows == (f.through ? 2 : 1) * FV_TUNING_OPERATIONS, "merged: %d rows", sound->rows);
    }
    fovea_tuning_destroy(sound);
    fovea_tuning_destroy(more);
}

static void fail_plan(const fovea_context *ctx, bool persistent) {
    const attention_case c = case_plain(2, 4, 2, 60, 700, 24, 24);
    fovea_attention_plan *plan;
    FAIL_MAKING("fovea_attention_plan_create", 1, persistent, plan, fovea_attention_plan_destroy,
                fovea_attention_plan_create(ctx, &c.desc, &plan))
}

/* Descriptors that are refused, early and late, and sizes that only the workspace makes too large. */
static void check_refused(const fovea_context *ctx) {
    static const int64_t sizes[] = {0, 1, 3, (int64_t)1 << 40, (int64_t)1 << 53, (int64_t)1 << 58, INT64_MAX};
    int64_t refused = 0;
    long long before = live;
    for (int i = 0; i < 7 * 7 * 7; i++) {
        fovea_attention_desc desc = case_plain(1, 1, 1, 1, sizes[i % 7], sizes[i / 7 % 7], sizes[i / 49]).desc;
        fovea_attention_plan *plan;
        refused += fovea_attention_plan_create(ctx, &desc, &plan) != FOVEA_OK;
        fovea_attention_plan_destroy(plan);
    }
    test_check(refused > 50 && refused < 7 * 7 * 7, "%" PRId64 " plans refused", refused);
    test_check(live == before, "refused plans leave %lld blocks", live - before);
}

static void fail_execute(const fovea_context *ctx, int64_t q_len, bool persistent) {
    planned_call p;
    plan(&p, ctx, q_len, 700, FOVEA_MASK_NONE);
    outputs *blank = outputs_make(&p.c, LAYOUT_BHTD), *want = outputs_make(&p.c, LAYOUT_BHTD);
    case_run(ctx, NULL, &p.c, p.in, want);
    FAIL_EACH("fovea_attention_execute", 1, persistent, fovea_attention_execute(p.plan, &p.args, NULL, 0)) {
        int64_t untouched = 0;
        outputs_same(p.out, f.through ? want : blank,
                     "outputs of fovea_attention_execute, allocation %" PRId64 " fails", f.n);
        test_check(live == f.live_before, "fovea_attention_execute leaves %lld blocks", live - f.live_before);
        for (int64_t i = 0; i < p.all.floats; i++)
            untouched += p.all.memory[i] == 7;
        test_check(f.through ? untouched == 0 : untouched == p.all.floats,
                   "%" PRId64 " scores and statistics are as before, allocation %" PRId64 " fails", untouched, f.n);
    }
    planned_free(&p);
    outputs_free(blank);
    outputs_free(want);
}

/* A boolean mask [1, heads, T, T], repeated along heads, of one key in two. */
static fovea_mask_desc scattered(uint8_t *bytes, int64_t heads, int64_t T) {
    fovea_mask_desc d;
    fovea_mask_desc_init(&d);
    d.kind = FOVEA_MASK_BOOLEAN;
    d.q_heads = heads;
    d.q_len = d.kv_len = T;
    d.mask = fovea_tensor_bhtd(bytes, FOVEA_DTYPE_BOOL, 1, 1, T, T);
    for (int64_t i = 0; i < T * T; i++)
        bytes[i] = (uint8_t)(i % 3 != 0);
    return d;
}

static void fail_mask(const fovea_context *ctx, bool persistent) {
    uint8_t *bytes = must_alloc(600 * 600, 1);
    const fovea_mask_desc d = scattered(bytes, 3, 600);
    fovea_mask *mask;
    FAIL_MAKING("fovea_mask_create", 4, persistent, mask, fovea_mask_destroy, fovea_mask_create(ctx, &d, &mask))
    free(bytes);
}

/* A mask or bias of [1, 1, T, T] is kept once for 64 heads, prepared or not, and is never expanded. */
static void test_flat_masks(void) {
    enum { T = 600, KINDS = 4 }; /* boolean, prepared, added, a bias */
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    uint8_t *bytes = must_alloc(T * T, 1);
    float *added = must_alloc(T * T, sizeof *added);
    long long prepared[2], planned[KINDS][2];
    memset(added, 0, T * T * sizeof *added);
    for (int many = 0; many < 2; many++) {
        const int64_t heads = many ? 64 : 1;
        const fovea_mask_desc d = scattered(bytes, heads, T);
        fovea_mask *mask;
        long long before = asked;
        test_check(fovea_mask_create(ctx, &d, &mask) == FOVEA_OK, "%s", fovea_error_detail());
        prepared[many] = asked - before;
        for (int kind = 0; kind < KINDS; kind++) {
            static const fovea_mask_kind masks[KINDS] = {FOVEA_MASK_BOOLEAN, FOVEA_MASK_PREPARED, FOVEA_MASK_ADDITIVE,
                                                         FOVEA_MASK_NONE};
            attention_case c = case_plain(1, heads, heads, T, T, 8, 8);
            c.desc.mask = masks[kind];
            c.desc.has_bias = kind == 3;
            float *floats = must_alloc(4 * heads * T * 8, sizeof *floats);
            rng r = rng_stream(test_seed(), "flat");
            rng_fill_normal(&r, floats, 4 * heads * T * 8);
            fovea_attention_args args;
            fovea_attention_args_init(&args);
            fovea_tensor *all[] = {&args.q, &args.k, &args.v, &args.out};
            for (int i = 0; i < 4; i++)
                *all[i] = fovea_tensor_bhtd(floats + i * heads * T * 8, FOVEA_DTYPE_F32, 1, heads, T, 8);
            args.prepared = kind == 1 ? mask : NULL;
            if (kind != 1)
                *(kind == 3 ? &args.bias : &args.mask) =
                    kind == 0 ? d.mask : fovea_tensor_bhtd(added, FOVEA_DTYPE_F32, 1, 1, T, T);
            fovea_attention_plan *plan;
            before = asked;
            test_check(fovea_attention_plan_create(ctx, &c.desc, &plan) == FOVEA_OK, "%s", fovea_error_detail());
            test_check(fovea_attention_execute(plan, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
            planned[kind][many] = asked - before;
            fovea_attention_plan_destroy(plan);
            free(floats);
        }
        fovea_mask_destroy(mask);
    }
    test_check(prepared[0] == prepared[1], "a prepared mask takes %lld bytes for a head, %lld for 64", prepared[0],
               prepared[1]);
    for (int kind = 0; kind < KINDS; kind++)
        test_check(planned[kind][0] == planned[kind][1],
                   "kind %d: an attention takes %lld bytes for a head, %lld for 64", kind, planned[kind][0],
                   planned[kind][1]);
    free(added);
    free(bytes);
    fovea_context_destroy(ctx);
}

static void fail_linear(const fovea_context *ctx, bool persistent) {
    rng r = rng_stream(test_seed(), "fail linear");
    const linear_case c = linear_case_plain(1, 9, 30, 20);
    linear_problem *p = linear_problem_make(&c, &r);
    fovea_linear *linear;
    FAIL_MAKING("fovea_linear_create", 3, persistent, linear, fovea_linear_destroy,
                fovea_linear_create(ctx, &p->desc, &linear))
    test_check(fovea_linear_create(ctx, &p->desc, &linear) == FOVEA_OK, "%s", fovea_error_detail());
    linear_problem_clear(p);
    FAIL_EACH("fovea_linear_apply", 1, persistent, fovea_linear_apply(ctx, linear, &p->args, NULL, 0)) {
        test_check((float_bits(*(float *)p->y[0].data) != float_bits(poison())) == f.through,
                   "fovea_linear_apply wrote before it failed");
    }
    const size_t size = fovea_linear_apply_workspace_size(ctx, linear);
    void *workspace = must_alloc((int64_t)size, 1);
    TAKES_NONE("fovea_linear_apply", fovea_linear_apply(ctx, linear, &p->args, workspace, size));
    free(workspace);
    fovea_linear_destroy(linear);
    linear_problem_free(p);
}

enum { HEADS = 2, KEYS = 40, DIM = 16, MOST = HEADS * 2000 * DIM };

/* Memory of fovea_sdpa_f32() calls: q, k, v, out. Each call has a q_len that no call had before, so that none finds its
 * plan in the cache. */
static float *sdpa_memory;
static int64_t sdpa_q_len;

static fovea_status call_sdpa(void) {
    float *m = sdpa_memory, *out = m + 3 * (size_t)MOST;
    for (int64_t i = HEADS * sdpa_q_len * DIM - 1; i >= 0; i--)
        out[i] = poison();
    return fovea_sdpa_f32(m, m + MOST, m + 2 * (size_t)MOST, out, 1, HEADS, HEADS, sdpa_q_len, KEYS, DIM, DIM,
                          FOVEA_CAUSAL_NONE);
}

/* Memory that only serves the next call may fail silently; else the call fails and has written nothing. first: the
 * failure meets the default context, until one is there. */
static void fail_sdpa(bool persistent, bool first) {
    int64_t n = 0;
    for (bool through = false; !through && n < 300;) {
        sdpa_q_len += !first;
        arm(++n, persistent);
        fovea_status status = call_sdpa();
        fail_at = 0;
        through = !failed;
        const float *out = sdpa_memory + 3 * (size_t)MOST;
        if (status == FOVEA_OK)
            test_check(!float_is_nan(out[0]) && !float_is_nan(out[HEADS * sdpa_q_len * DIM - 1]),
                       "fovea_sdpa_f32 has not written its output");
        else {
            test_check(!through && status == FOVEA_ERROR_OUT_OF_MEMORY,
                       "fovea_sdpa_f32, allocation %" PRId64 " fails: %s", n, fovea_status_name(status));
            test_check(float_bits(out[0]) == float_bits(poison()), "fovea_sdpa_f32 wrote before it failed");
        }
    }
    test_check(n > 1 && n < 300, "fovea_sdpa_f32 allocates %" PRId64 " times", n - 1);
}

/* Blocks that live in the cache once it is full. */
static long long fill_cache(void) {
    for (int i = 0; i < 100; i++) {
        sdpa_q_len++;
        test_check(call_sdpa() == FOVEA_OK, "fovea_sdpa_f32: %s", fovea_error_detail());
    }
    long long before = calls;
    test_check(call_sdpa() == FOVEA_OK, "fovea_sdpa_f32: %s", fovea_error_detail());
    test_check(calls == before, "fovea_sdpa_f32 allocates %lld times at the second call of a shape", calls - before);
    return live;
}

static void test_sdpa(void) {
    rng r = rng_stream(test_seed(), "fail sdpa");
    sdpa_memory = must_alloc(4 * (int64_t)MOST, sizeof *sdpa_memory);
    rng_fill_normal(&r, sdpa_memory, 3 * (int64_t)MOST);
    sdpa_q_len = 1;
    fail_sdpa(true, true);
    fail_sdpa(false, false);
    long long before = fill_cache();
    for (int round = 0; round < 6; round++)
        fail_sdpa(round & 1, false);
    long long after = fill_cache();
    test_check(before == after, "failures in fovea_sdpa_f32 leave %lld blocks", after - before);
    free(sdpa_memory);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "allocation", NULL);
    test_sdpa(); /* first, for the default context to be made here */
    fail_context(NULL, false);
    fail_context(NULL, true);
    test_flat_masks();
    files_begin();
    fail_tuning(false);
    fail_tuning(true);
    files_end();
    const case_contexts all = contexts_make();
    const fovea_context *const contexts[] = {all.one, all.own, all.three};
    for (int i = 0; i < 3; i++) {
        fail_plan(contexts[i], i & 1);
        fail_mask(contexts[i], i & 1);
        check_refused(contexts[i]);
        fail_linear(contexts[i], i & 1);
        for (int q_len = 1; q_len <= 60; q_len += 59) {
            fail_execute(contexts[i], q_len, false);
            fail_execute(contexts[i], q_len, true);
            check_states(contexts[i], q_len);
            for (int mask = FOVEA_MASK_NONE; mask <= FOVEA_MASK_ADDITIVE; mask++)
                check_no_allocation(contexts[i], q_len, (fovea_mask_kind)mask);
        }
    }
    contexts_free(&all);
    return test_end();
}
