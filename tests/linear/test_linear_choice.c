/* Choices of linear maps: whatever a tuner may try, which is what the table of knobs lists (fv_tuning_linear), has the
 * bits of the scalar tier when it is forced, for every type of weights, few and many rows, one thread and several. */
#include "attention_case.h"
#include "dispatch/dispatch.h"
#include "guard.h"
#include "linear/knobs.h"
#include "linear/linear.h"
#include "quantized_case.h"
#include "target.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 3 };

typedef struct map_case {
    const char *name;
    fovea_dtype weights, x;
    fovea_arithmetic arithmetic;
    const quantized_kind *kind; /* or NULL */
} map_case;

typedef struct problem {
    const map_case *c;
    int64_t in, out, rows;
    bool apart; /* heads of x lie in other places */
    quantized_weight w;
    void *x;
    float *want;
} problem;

static fovea_context *untuned(fovea_isa isa, int threads) {
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.isa = isa;
    options.threads = threads;
    options.tuning_file = "";
    if (!test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail()))
        exit(TEST_FAILED);
    return ctx;
}

/* Numbers of a type; a few so small that they are not multiplied as pairs. */
static void *numbers(int64_t n, fovea_dtype dtype, rng *r) {
    float *floats = must_alloc(n, sizeof *floats);
    for (int64_t i = 0; i < n; i++)
        floats[i] = rng_normal(r) * (rng_below(r, 2000) ? 1.0f : 0x1p-70f);
    fv_narrow_bf16_fn *narrow = fv_narrow_of(dtype, (fv_target){.isa = FV_ISA_scalar});
    if (narrow) {
        uint16_t *halves = must_alloc(n, sizeof *halves);
        narrow(1, n, floats, 0, halves, 0);
        free(floats);
        return halves;
    }
    return floats;
}

static fovea_linear_args args_of(const problem *p, const fovea_tensor *y) {
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    args.x = p->apart ? fovea_tensor_bhtd(p->x, p->c->x, 1, HEADS, p->rows, p->in / HEADS)
                      : fovea_tensor_bthd(p->x, p->c->x, 1, p->rows, HEADS, p->in / HEADS);
    args.y = y;
    return args;
}

static fovea_linear *pack(const problem *p, const fovea_context *ctx) {
    fovea_linear_desc desc;
    fovea_linear *map;
    fovea_linear_desc_init(&desc);
    desc.in_features = p->in;
    desc.dtype = p->c->x;
    desc.y_dtype = FOVEA_DTYPE_F32;
    desc.part.weight = p->w.matrix;
    desc.arithmetic = p->c->arithmetic;
    if (!test_check(fovea_linear_create(ctx, &desc, &map) == FOVEA_OK, "%s: %s", p->c->name, fovea_error_detail()))
        exit(TEST_FAILED);
    return map;
}

/* Executes with a choice, in a workspace of exactly its size, and compares; the products that were of pairs. */
static int64_t run(const problem *p, const fovea_context *ctx, const fovea_linear *map,
                   const fv_linear_choice *wanted) {
    const int threads = ctx->threads.count;
    const fv_linear_choice choice = fv_linear_heuristics(map, threads, p->rows, wanted);
    const int64_t bytes = fv_linear_workspace(threads, fv_linear_lay_out(map, &choice).bytes);
    guard *workspace = guard_alloc("workspace", (size_t)bytes, GUARD_END);
    const size_t size = (size_t)(p->rows * p->out) * sizeof(float);
    guard *got = guard_alloc("y", size, GUARD_END);
    const fovea_tensor y = fovea_tensor_bhtd(got->data, FOVEA_DTYPE_F32, 1, 1, p->rows, p->out);
    fovea_linear_args args = args_of(p, &y);
    fovea_linear_stats stats;
    fovea_linear_stats_init(&stats);
    args.stats = &stats;
    fv_linear_apply_chosen(ctx, map, &args, &choice, workspace->data);
    test_check(memcmp(got->data, p->want, size) == 0,
               "%s, in %" PRId64 ", out %" PRId64 ", %" PRId64
               " rows, %d threads%s: other bits with %s, k_block %" PRId64 ", row_block %" PRId64 ", chunk %" PRId64
               ", items %" PRId64 ", split_rows %" PRId64 ", few_rows %" PRId64 ", integers %" PRId64
               ", pair_rows %" PRId64 ", widened %" PRId64 ", prefetch %" PRId64 ", ahead %" PRId64 ", gather %" PRId64,
               p->c->name, p->in, p->out, p->rows, threads, p->apart ? ", heads apart" : "", choice.gemm->name,
               choice.k_block, choice.row_block, choice.chunk, choice.items, choice.split_rows, choice.few_rows,
               choice.integers, choice.pair_rows, choice.widened, choice.prefetch, choice.ahead, choice.gather);
    guard_free(workspace);
    guard_free(got);
    return stats.fast_products;
}

/* Value `at` of those that are tried of a knob, in a choice; false: there is none. */
static bool set_value(const fv_tuning_knob *knob, int at, const fv_linear_choice *made, fv_linear_choice *choice) {
    char *field = (char *)choice + knob->offset;
    int64_t number = at + 1;
    if (knob->kind == FV_TUNING_KERNEL) {
        const fv_kernel *kernel = at < fv_kernel_count ? &fv_kernels[at] : NULL;
        if (kernel && fv_multiply_tuned(kernel, test_target()))
            memcpy(field, &kernel, sizeof kernel);
        return kernel != NULL;
    }
    if (knob->kind == FV_TUNING_NUMBER) {
        number = at < FV_TUNING_TRIED ? knob->tried[at] : 0;
        if (number != 0 && (knob->how & FV_TUNING_EIGHTHS)) {
            memcpy(&number, (const char *)made + knob->offset, sizeof number);
            number = fv_max(fv_min(number * knob->tried[at] / 8, knob->range.most), 1);
        }
    } else if (!knob->name_of(number)) {
        return false;
    }
    if (number != 0)
        memcpy(field, &number, sizeof number);
    return number != 0;
}

static void try_all(const problem *p, const fovea_context *ctx, const fovea_linear *map, rng *r) {
    const int threads = ctx->threads.count;
    static int64_t number;
    fv_linear_choice best = {0};
    for (int round = 0; round < 2; round++) {
        const fv_linear_choice made = fv_linear_heuristics(map, threads, p->rows, &best);
        const fv_linear_choice same = fv_linear_effect(map, threads, p->rows, &best);
        fv_linear_choice next = best;
        for (int k = 0; k < FV_LINEAR_KNOBS; k++) {
            fv_linear_choice choice = best;
            for (int at = 0; set_value(&fv_tuning_linear.knob[k], at, &made, &choice); at++, choice = best) {
                const fv_linear_choice does = fv_linear_effect(map, threads, p->rows, &choice);
                if (memcmp(&does, &same, sizeof does) == 0 || !test_takes(number++))
                    continue;
                run(p, ctx, map, &choice);
                if (rng_below(r, 4) == 0)
                    set_value(&fv_tuning_linear.knob[k], at, &made, &next); /* several fields in the next round */
            }
        }
        best = next;
    }
    if (!map->pairs || !map->pack_x)
        return;
    const int64_t with = run(p, ctx, map, &(fv_linear_choice){.pair_rows = 1}),
                  without = run(p, ctx, map, &(fv_linear_choice){.pair_rows = -1});
    test_check(without == 0 && (with > 0 || p->rows * p->in > 4000),
               "%s: pairs in %" PRId64 " products, forced; %" PRId64 ", refused", p->c->name, with, without);
}

static void test_map(const map_case *c, int64_t rows, const fovea_context *const contexts[2],
                     const fovea_context *scalar, rng *r) {
    problem p = {.c = c, .rows = rows, .apart = rng_below(r, 2), .out = 8 * rng_between(r, 1, 20)};
    p.in =
        HEADS * (c->kind ? c->kind->unit * rng_between(r, 1, fv_max(128 / c->kind->unit, 1)) : rng_between(r, 1, 120));
    if (c->kind) {
        quantized_make(&p.w, c->kind, p.in, p.out, r);
    } else {
        p.w.data = numbers(p.in * p.out, c->weights, r);
        p.w.matrix = fovea_matrix_out_in(p.w.data, c->weights, p.out, p.in);
    }
    p.x = numbers(p.rows * p.in, c->x, r);
    p.want = must_alloc(p.rows * p.out, sizeof *p.want);
    const fovea_tensor y = fovea_tensor_bhtd(p.want, FOVEA_DTYPE_F32, 1, 1, p.rows, p.out);
    const fovea_linear_args args = args_of(&p, &y);
    fovea_linear *map = pack(&p, scalar);
    test_check(fovea_linear_apply(scalar, map, &args, NULL, 0) == FOVEA_OK, "%s: %s", c->name, fovea_error_detail());
    fovea_linear_destroy(map);
    for (int i = 0; i < 2; i++) {
        map = pack(&p, contexts[i]);
        try_all(&p, contexts[i], map, r);
        fovea_linear_destroy(map);
    }
    free(p.want);
    free(p.x);
    quantized_free(&p.w);
}

int main(int argc, char **argv) {
    static const map_case plain[] = {
        {"float32", FOVEA_DTYPE_F32, FOVEA_DTYPE_F32, FOVEA_ARITHMETIC_EXACT, NULL},
        {"bfloat16", FOVEA_DTYPE_BF16, FOVEA_DTYPE_BF16, FOVEA_ARITHMETIC_EXACT, NULL},
        {"bfloat16 for floats", FOVEA_DTYPE_BF16, FOVEA_DTYPE_F32, FOVEA_ARITHMETIC_EXACT, NULL},
        {"bfloat16 in bf16_tile", FOVEA_DTYPE_BF16, FOVEA_DTYPE_BF16, FOVEA_ARITHMETIC_BF16_TILE, NULL},
        {"float16", FOVEA_DTYPE_F16, FOVEA_DTYPE_F16, FOVEA_ARITHMETIC_EXACT, NULL},
        {"float16 for floats", FOVEA_DTYPE_F16, FOVEA_DTYPE_F32, FOVEA_ARITHMETIC_EXACT, NULL},
    };
    static const fovea_arithmetic arithmetics[] = {FOVEA_ARITHMETIC_EXACT, FOVEA_ARITHMETIC_Q16, FOVEA_ARITHMETIC_Q8};
    static const int64_t rows[] = {1, 5, 30, 90};
    test_begin(argc, argv, "linear_choice", NULL);
    fovea_context *scalar = untuned(FOVEA_ISA_SCALAR, 1);
    fovea_context *contexts[2] = {untuned(test_isa(), 1), untuned(test_isa(), 3)};
    contexts[1]->cpu.emulates_tiles = true;
    for (int n = 0; n < 4; n++) {
        for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
            rng r = rng_stream(test_seed() + (uint64_t)n, plain[i].name);
            if (fv_dtype_built(plain[i].weights))
                test_map(&plain[i], rows[n], (const fovea_context *const *)contexts, scalar, &r);
        }
        for (int k = 0; k < quantized_kind_count && fv_dtype_built(FOVEA_DTYPE_I8); k++) {
            rng r = rng_stream(test_seed() + (uint64_t)n, quantized_kinds[k].name);
            const map_case c = {quantized_kinds[k].name, quantized_kinds[k].dtype, FOVEA_DTYPE_F32,
                                arithmetics[rng_below(&r, 3)], &quantized_kinds[k]};
            test_map(&c, rows[n], (const fovea_context *const *)contexts, scalar, &r);
        }
    }
    fovea_context_destroy(scalar);
    for (int i = 0; i < 2; i++)
        fovea_context_destroy(contexts[i]);
    return test_end();
}
