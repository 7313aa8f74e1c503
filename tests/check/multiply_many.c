/* Trials of products of many rows whose A and B have words of the same kind. Sizes: m, n, k, and how the result is
 * stored. */
#include "check.h"

#include "dispatch/tiles.h"
#include "multiply_call.h"
#include "simd/half_scalar.h"

#include <inttypes.h>

/* t->size, t->operand */
enum { SIZE_M, SIZE_N, SIZE_K, SIZE_STORE };
enum { OPERAND_A, OPERAND_B, OPERAND_C, OPERAND_START, OPERAND_MERGE_A, OPERAND_MERGE_B, OPERAND_ROW_MAX };

/* How results are stored: where chains begin, which factors they are merged by, and what becomes of maxima. */
enum { START_ZERO, START_OTHER, START_C, START_RUNS }; /* runs: of steps of k, the last of which stores */
enum { FACTORS_NONE, FACTORS_B, FACTORS_BOTH };
enum { MAXIMA_NONE, MAXIMA_NEW, MAXIMA_RAISED };
typedef struct store {
    const char *words;
    int start, factors, maxima;
} store;

static const store stores[] = {
    {"stored", START_ZERO, FACTORS_NONE, MAXIMA_NONE},
    {"first segment", START_ZERO, FACTORS_B, MAXIMA_NONE},
    {"merged", START_ZERO, FACTORS_BOTH, MAXIMA_NONE},
    {"with maxima", START_ZERO, FACTORS_NONE, MAXIMA_NEW},
    {"maxima raised", START_ZERO, FACTORS_NONE, MAXIMA_RAISED},
    {"carried on", START_C, FACTORS_NONE, MAXIMA_NONE},
    {"carried on, maxima raised", START_C, FACTORS_NONE, MAXIMA_RAISED},
    {"carried on, merged", START_C, FACTORS_BOTH, MAXIMA_NONE},
    {"from another place", START_OTHER, FACTORS_NONE, MAXIMA_NONE},
    {"from another place, first segment", START_OTHER, FACTORS_B, MAXIMA_NONE},
    {"from another place, merged", START_OTHER, FACTORS_BOTH, MAXIMA_NONE},
    {"from another place, with maxima", START_OTHER, FACTORS_NONE, MAXIMA_NEW},
    {"first segment, with maxima", START_ZERO, FACTORS_B, MAXIMA_NEW},
    {"first segment, maxima raised", START_ZERO, FACTORS_B, MAXIMA_RAISED},
    {"in runs, merged", START_RUNS, FACTORS_BOTH, MAXIMA_NONE},
};
enum { STORES = sizeof stores / sizeof stores[0], RUNS = 3 };

static const store *store_of(const trial *t) { return &stores[t->size[SIZE_STORE]]; }

typedef enum data { DATA_NORMAL, DATA_SPECIAL, DATA_MASKED, DATA_KINDS } data;
static const char *const data_words[DATA_KINDS] = {"normal", "special values", "a masked, b not finite there"};

/* Pairs of bfloat16 that fv_pairs_exact() allows on both sides, some of them zeros of either sign. */
static void fill_pairs(trial *t, operand *o) {
    for (int64_t i = 0; i < o->rows; i++)
        for (int64_t j = 0; j < o->cols; j++) {
            uint32_t word = 0;
            for (int e = 0; e < 32; e += 16) {
                const uint32_t bits = (uint32_t)rng_u64(&t->rng), exponent = 127 - 56 + (bits >> 8 & 63);
                word |= (rng_below(&t->rng, 16) ? (bits & 0x807f) | exponent << 7 : bits & 0x8000) << e;
            }
            *float_before(o, i, j) = bits_float(word);
        }
}

/* Pairs of float16: any finite ones. */
static void fill_pairs_f16(trial *t, operand *o) {
    for (int64_t i = 0; i < o->rows; i++)
        for (int64_t j = 0; j < o->cols; j++) {
            uint32_t word = (uint32_t)rng_u64(&t->rng);
            for (int e = 0; e < 32; e += 16)
                word &= rng_below(&t->rng, 16) == 0 || (word >> e & 0x7c00) == 0x7c00 ? ~(0x7c00u << e) : ~0u;
            *float_before(o, i, j) = bits_float(word);
        }
}

/* The first or the second element of a word of a, or of b, where those of float16 come in fours of columns. */
static float element_of(const trial *t, const operand *o, int64_t i, int64_t j, bool second) {
    if (t->checker->kernel->type == FV_TYPE_bf16) {
        const uint32_t word = float_bits(*float_before(o, i, j));
        return bits_float(second ? word << 16 : word & 0xffff0000u);
    }
    const bool fours = o == &t->operand[OPERAND_B];
    const int64_t word = fours ? j / 4 * 4 + (second ? 2 : 0) + j % 4 / 2 : j;
    const bool upper = fours ? j % 2 : second;
    return half_widen_f16((uint16_t)(float_bits(*float_before(o, i, word)) >> (upper ? 16 : 0)));
}

/* Its operands are words of pairs. */
static bool has_pairs(const fv_kernel *kernel) { return kernel->type != FV_TYPE_f32; }

static bool has_skips(const fv_kernel *kernel) {
    return kernel->kind == FV_KIND_f32_masked || kernel->kind == FV_KIND_f32_amx_order_masked;
}

/* Steps of k of a block; 1: there are none. */
static int64_t block_of(const fv_kernel *kernel) {
    const bool blocks = kernel->kind == FV_KIND_f32_amx_order || kernel->kind == FV_KIND_f32_amx_order_masked ||
                        kernel->kind == FV_KIND_bf16x2_amx_order;
    return !blocks ? 1 : has_pairs(kernel) ? FV_BLOCK / 2 : FV_BLOCK;
}

static void many_trial(checker *c, int64_t m, int64_t n, int64_t k, int how, data kind) {
    const store *to = &stores[how];
    const bool pairs = has_pairs(c->kernel), skips = has_skips(c->kernel);
    const bool scales = c->kernel->type == FV_TYPE_f16;
    if ((to->maxima && skips) || (pairs && kind != DATA_NORMAL))
        return;
    if ((to->factors && to->maxima && !scales) || (scales && to->factors == FACTORS_BOTH))
        return;
    if (to->maxima || scales)
        n = (n + FV_LANES - 1) / FV_LANES * FV_LANES;
    trial *t = trial_begin(c, "m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " %s, %s", m, n, k, to->words, data_words[kind]);
    if (!t)
        return;
    t->size[SIZE_M] = m;
    t->size[SIZE_N] = n;
    t->size[SIZE_K] = k;
    t->size[SIZE_STORE] = how;
    operand *a = trial_floats(t, "a", CELL_KEPT, m, k, some_stride(t, k));
    operand *b = trial_floats(t, "b", CELL_KEPT, k, n, some_stride(t, n));
    operand *out = trial_floats(t, "c", CELL_NAN, m, n, some_stride(t, n));
    operand *start = trial_floats(t, "start", to->start == START_RUNS ? CELL_ANY : CELL_KEPT, m, n, some_stride(t, n));
    void (*const fill)(trial *, operand *) = scales ? fill_pairs_f16 : pairs ? fill_pairs : fill_normal;
    fill(t, a);
    fill(t, b);
    if (to->factors == FACTORS_BOTH || to->start == START_C)
        fill_normal(t, out);
    if (to->start == START_OTHER)
        fill_normal(t, start);
    operand *merge_a = trial_floats(t, "merge a", CELL_KEPT, to->factors == FACTORS_BOTH, m, m);
    operand *merge_b = trial_floats(t, "merge b", CELL_KEPT, 1, m, m);
    if (to->factors == FACTORS_BOTH)
        fill_uniform(t, merge_a, 0.0f, 1.0f);
    if (to->factors)
        fill_uniform(t, merge_b, 0.0f, 1.0f);
    if (to->maxima) {
        operand *row_max = trial_floats(t, "row_max", CELL_ZERO, m, FV_LANES, FV_LANES);
        for (int64_t i = 0; i < m && to->maxima == MAXIMA_RAISED; i++)
            for (int64_t lane = 0; lane < FV_LANES; lane++)
                *float_before(row_max, i, lane) = rng_below(&t->rng, 2) ? -INFINITY : rng_normal(&t->rng);
    }
    if (kind == DATA_SPECIAL) {
        sprinkle_specials(t, a, 4 * k);
        sprinkle_specials(t, b, 4 * k);
    } else if (kind == DATA_MASKED) {
        /* Columns of a, that is, rows of b, that every row masks; masked products may be given anything there. */
        for (int64_t p = 0; p < k; p++)
            if (rng_below(&t->rng, 2) == 0) {
                for (int64_t i = 0; i < m; i++)
                    *float_before(a, i, p) = -0.0f;
                for (int64_t j = 0; j < n && skips; j++)
                    *float_before(b, p, j) = rng_below(&t->rng, 2) ? poison() : INFINITY;
            } else if (skips && rng_below(&t->rng, 4) == 0) {
                *float_before(a, rng_below(&t->rng, m), p) = 0.0f; /* attended, so times infinity it is NaN */
                *float_before(b, p, rng_below(&t->rng, n)) = INFINITY;
            } else {
                const int64_t row = rng_below(&t->rng, m);
                *float_before(a, row, p) = rng_below(&t->rng, 2) ? 0.0f : -0.0f;
            }
    }
    trial_run(t);
}

/* Every width of a strip and its neighbours, the edges of the tile's height, short and long chains. */
static void many_trials(checker *c) {
    static const int64_t few_k[] = {1, 2, 5, 16, 33};
    enum { FEW_K = sizeof few_k / sizeof few_k[0] };
    static const int64_t long_k[] = {64, 255, 256, 577};
    int64_t m[EDGE_SIZES], n[EDGE_SIZES];
    const int heights = edge_sizes(c->kernel->mr, m), widths = edge_sizes(c->kernel->nr, n);
    for (int h = 0; h < heights; h++)
        for (int64_t width = 1; width <= c->kernel->nr + 1; width++)
            for (int s = 0; s < STORES; s++)
                many_trial(c, m[h], width, few_k[width % FEW_K], s, DATA_NORMAL);
    for (int64_t height = 1; height <= 2 * c->kernel->mr + 1; height++)
        for (int s = 0; s < STORES; s++) {
            many_trial(c, height, c->kernel->nr - height % c->kernel->nr, few_k[height % FEW_K], s, DATA_NORMAL);
            if (c->kernel->nr > FV_LANES / 2) /* the last vector of the widest tier is half */
                many_trial(c, height, c->kernel->nr - FV_LANES / 2, few_k[height % FEW_K], s, DATA_NORMAL);
        }
    /* Every size of a tile whose last vector is whole or half, and each end of its steps of k, which a loop takes
     * several at once. */
    for (int64_t height = 1; height <= c->kernel->mr; height++)
        for (int64_t width = FV_LANES / 2; width <= c->kernel->nr; width += FV_LANES / 2)
            for (int s = 0; s < STORES; s++)
                for (int64_t i = 0; i < 8; i += 3)
                    many_trial(c, height, width, 3 + (height + width / (FV_LANES / 2) + s + i) % 8, s,
                               i ? DATA_NORMAL : DATA_SPECIAL);
    for (int h = 0; h < heights; h++)
        for (int w = 0; w < widths; w++) {
            for (int i = 0; i < FEW_K; i++)
                for (int d = 0; d < DATA_KINDS; d++)
                    many_trial(c, m[h], n[w], few_k[i], (h + w + i) % STORES, (data)d);
            many_trial(c, m[h], n[w], long_k[(h + w) % 4], (h + w) % STORES, DATA_NORMAL);
        }
    for (int64_t height = 3 * c->kernel->mr; height < 40; height += 5) /* several tiles high and wide */
        many_trial(c, height, 2 * c->kernel->nr + height, few_k[height % FEW_K], (int)(height % STORES), DATA_SPECIAL);
    for (int s = 0; s < STORES; s++)
        for (int i = 0; i < 4; i++) {
            many_trial(c, c->kernel->mr, c->kernel->nr, long_k[i], s, DATA_NORMAL);
            for (int d = 0; d < DATA_KINDS; d++) /* a second strip, which ends with half a vector */
                many_trial(c, c->kernel->mr + 1, c->kernel->nr + FV_LANES / 2, long_k[i], s, (data)d);
        }
}

/* Which lane has a maximum is open: the first one now. */
static void fold_lanes(float *row_max, int64_t rows) {
    for (int64_t i = 0; i < rows; i++, row_max += FV_LANES)
        for (int64_t lane = 1; lane < FV_LANES; lane++) {
            if (row_max[lane] > row_max[0] || float_is_nan(row_max[lane])) /* none is a NaN */
                row_max[0] = row_max[lane];
            row_max[lane] = 0.0f;
        }
}

/* Multiplies steps [from, to) of k, as the trial stores its result, or, before the last run, to its start. */
static void many_call(const fv_kernel *kernel, trial *t, int64_t from, int64_t to, bool last) {
    const operand *o = t->operand;
    const store *how = store_of(t);
    const int64_t m = t->size[SIZE_M], n = t->size[SIZE_N], k = t->size[SIZE_K];
    float *c = trial_pointer(t, OPERAND_C), *start = trial_pointer(t, OPERAND_START);
    const float *a = trial_pointer(t, OPERAND_A), *b = trial_pointer(t, OPERAND_B);
    const bool zero = how->start == START_ZERO || (how->start == START_RUNS && from == 0);
    const fv_epilogue epilogue = {
        .start = zero                    ? NULL
                 : how->start == START_C ? c
                                         : start,
        .ldstart = how->start == START_C ? o[OPERAND_C].stride : o[OPERAND_START].stride,
        .a = last && how->factors == FACTORS_BOTH ? trial_pointer(t, OPERAND_MERGE_A) : NULL,
        .b = last && how->factors ? trial_pointer(t, OPERAND_MERGE_B) : NULL,
        .row_max = how->maxima ? trial_pointer(t, OPERAND_ROW_MAX) : NULL,
        .accumulate_max = how->maxima == MAXIMA_RAISED,
    };
    const bool no_next = k % 3 == 0; /* of one and of several tiles, which depends on m */
    const fv_prefetch prefetch = {
        .streams = m % 2 == 0, .next = no_next ? NULL : b, .next_end = no_next ? NULL : b + k * n};
    const bool plain = zero && last && !how->factors && !how->maxima;
    multiply_call(kernel->run.multiply, kernel->format, m, n, (to - from) * (has_pairs(kernel) ? 2 : 1), a + from,
                  o[OPERAND_A].stride, b + from * o[OPERAND_B].stride, o[OPERAND_B].stride, last ? c : start,
                  last ? o[OPERAND_C].stride : o[OPERAND_START].stride, plain ? NULL : &epilogue,
                  k % 4 == 0 ? NULL : &prefetch);
}

static void many_invoke(const fv_kernel *kernel, trial *t) {
    const int64_t k = t->size[SIZE_K], block = block_of(kernel), blocks = (k + block - 1) / block;
    fv_tiles_enter(kernel);
    if (store_of(t)->start == START_RUNS)
        for (int64_t run = 0; run < RUNS; run++) {
            const int64_t from = blocks * run / RUNS * block, to = blocks * (run + 1) / RUNS * block;
            if (from < to)
                many_call(kernel, t, from, to < k ? to : k, run == RUNS - 1);
        }
    else
        many_call(kernel, t, 0, k, true);
    fv_tiles_leave(kernel);
    if (store_of(t)->maxima)
        fold_lanes(trial_pointer(t, OPERAND_ROW_MAX), t->size[SIZE_M]);
}

/* One element: the chain of kernels.h by bits, and its distance from float64 by the sum of its terms' magnitudes. */
static bool many_element(const trial *t, int64_t i, int64_t j) {
    const operand *a = &t->operand[OPERAND_A], *b = &t->operand[OPERAND_B], *c = &t->operand[OPERAND_C];
    const int64_t k = t->size[SIZE_K];
    const store *how = store_of(t);
    const bool skips = has_skips(t->checker->kernel), pairs = has_pairs(t->checker->kernel);
    const int64_t block = block_of(t->checker->kernel);
    float acc = how->start == START_C       ? *float_before(c, i, j)
                : how->start == START_OTHER ? *float_before(&t->operand[OPERAND_START], i, j)
                                            : 0.0f;
    float chain[2] = {0.0f, 0.0f}; /* of a block: of its even elements and of its odd ones */
    double sum = acc, magnitude = fabs(sum);
    for (int64_t p = 0; p < k; p++) {
        const float x = *float_before(a, i, p), y = *float_before(b, p, j);
        for (int e = 0; e <= pairs; e++) { /* the first elements of words, then the second */
            const float x_e = pairs ? element_of(t, a, i, p, e) : x, y_e = pairs ? element_of(t, b, p, j, e) : y;
            float *to = block == 1 ? &acc : &chain[pairs ? e : p % 2];
            if (skips && float_bits(x_e) == 0x80000000)
                continue;
            *to = fmaf(x_e, y_e, *to);
            sum += (double)x_e * y_e;
            magnitude += fabs((double)x_e * y_e);
        }
        if (block > 1 && (p + 1 == k || (p + 1) % block == 0)) {
            acc = acc + (chain[0] + chain[1]);
            chain[0] = chain[1] = 0.0f;
        }
    }
    const bool overflows = !(magnitude < 0x1p127); /* then the chain may be infinite, or is NaN */
    if (how->factors) {
        const float factor = *float_before(&t->operand[OPERAND_MERGE_B], 0, i);
        acc = acc * factor;
        sum *= factor;
        magnitude *= factor;
    }
    if (how->factors == FACTORS_BOTH) {
        const float old = *float_before(c, i, j), factor = *float_before(&t->operand[OPERAND_MERGE_A], 0, i);
        acc = fmaf(old, factor, acc);
        sum += (double)old * factor;
        magnitude += fabs((double)old * factor);
    }
    const float got = float_want(c, i, j);
    if (float_bits(got) != float_bits(acc) && !(float_is_nan(got) && float_is_nan(acc))) {
        trial_fail(t, "c[%" PRId64 "][%" PRId64 "] is %.9g, the chain of kernels.h gives %.9g", i, j, (double)got,
                   (double)acc);
        return false;
    }
    /* Each of the k + 2 roundings is of a partial sum, at most the magnitude; 2^-149 is for subnormal ones. */
    const double bound = (double)((pairs ? 2 : 1) * k + 2) * (float_eps() * magnitude + 0x1p-149);
    if (!overflows && magnitude < 0x1p127 && !near_double(got, sum, bound)) {
        trial_fail(t, "c[%" PRId64 "][%" PRId64 "] is %.9g, float64 gives %.17g (bound %.3g)", i, j, (double)got, sum,
                   bound);
        return false;
    }
    return true;
}

/* A row of c, and its contents before. */
static float highest_of(const trial *t, int64_t i) {
    float row_max = -INFINITY;
    for (int64_t j = 0; j < t->size[SIZE_N]; j++) {
        const float x = float_want(&t->operand[OPERAND_C], i, j);
        row_max = x > row_max ? x : row_max;
    }
    for (int64_t lane = 0; lane < FV_LANES && store_of(t)->maxima == MAXIMA_RAISED; lane++) {
        const float x = *float_before(&t->operand[OPERAND_ROW_MAX], i, lane);
        row_max = x > row_max ? x : row_max;
    }
    return row_max;
}

static void many_verify(const trial *t) {
    for (int64_t i = 0; i < t->size[SIZE_M] && store_of(t)->maxima; i++) {
        const float got = float_want(&t->operand[OPERAND_ROW_MAX], i, 0), row_max = highest_of(t, i);
        if (got != row_max) {
            trial_fail(t, "row_max[%" PRId64 "] is %.9g, the maximum of its row %.9g", i, (double)got, (double)row_max);
            return;
        }
    }
    for (int64_t i = 0; i < t->size[SIZE_M]; i++)
        for (int64_t j = 0; j < t->size[SIZE_N]; j++)
            if (!many_element(t, i, j))
                return;
}

const op_check check_many = {many_trials, many_invoke, many_verify};
