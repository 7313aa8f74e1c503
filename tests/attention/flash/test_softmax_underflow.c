/* Scores so far apart that exp of the lowest is 0. Where norms of queries and keys tell that there are none, softmax
 * does not look for them (attention/flash/tile.c): it must everywhere else.
 *
 * A query times a key is half the distance where both have the signs of a pattern, minus that where the key has the
 * opposite ones, and 0 for a key of zeros. Low keys have values so large that a subnormal p would show. */
#include "attention_case.h"
#include "fp_control.h"

#include <stdlib.h>

typedef enum far_kind {
    FAR_ALL,
    FAR_ONE_QUERY, /* the others are hundred times as short */
    FAR_FIRST_QUERY,
    FAR_FIRST_HEAD, /* of two that share keys */
    FAR_ONE_KEY,    /* is not zero, and low */
    FAR_NAN_QUERY,  /* among the others */
    FAR_NAN_KEY,    /* masked */
    FAR_CAUSAL,
    FAR_ADDED, /* by a mask, to keys of zeros */
    FAR_KINDS
} far_kind;

static const char *const kind_words[FAR_KINDS] = {"all far",   "one query", "first query", "first head", "one key",
                                                  "NaN query", "NaN key",   "causal",      "added"};

enum { ROWS = 70, KEYS = 300, ODD_ROW = 69, ODD_KEY = 150 }; /* odd: what differs */

static const float low_value = 0x1p110f;

/* Half the distance, -half of it, or 0. */
static int key_sign(far_kind kind, int64_t key) {
    if (kind == FAR_ONE_KEY)
        return key == ODD_KEY ? -1 : 0;
    return key % 3 == 0 ? 1 : key % 3 == 1 ? -1 : 0;
}

static int64_t heads_of(far_kind kind) { return kind == FAR_FIRST_HEAD ? 2 : 1; }

/* Rows of the second head come after those of the first one. */
static double query_distance(far_kind kind, double distance, int64_t row) {
    const bool far = kind == FAR_ONE_QUERY     ? row == ODD_ROW
                     : kind == FAR_FIRST_QUERY ? row == 0
                     : kind == FAR_FIRST_HEAD  ? row < ROWS
                                               : true;
    return far ? distance : distance / 100.0;
}

static bool sees(far_kind kind, int64_t row, int64_t key) {
    return kind == FAR_CAUSAL ? key <= row + KEYS - ROWS : kind != FAR_NAN_KEY || key != ODD_KEY;
}

static double capped(double score, double softcap) { return softcap > 0 ? softcap * tanh(score / softcap) : score; }

/* The output of a row, and what of it is due to keys below the highest. */
static double expected(far_kind kind, double distance, double softcap, int64_t row, double *due) {
    const int highest = kind == FAR_ONE_KEY ? 0 : 1;
    double sum = 0.0, out = 0.0;
    *due = 0.0;
    for (int64_t key = 0; key < KEYS; key++) {
        const int sign = key_sign(kind, key);
        const double half = query_distance(kind, distance, row) / 2.0;
        const double below = capped(half * highest, softcap) - capped(half * sign, softcap);
        const double p = !sees(kind, row, key) || below > 87.33654 ? 0.0 : exp(-below);
        sum += p;
        out += p * (sign < 0 ? (double)low_value : 1.0);
        *due += sign < 0 ? p * (double)low_value : 0.0;
    }
    *due /= sum;
    return out / sum;
}

/* Moves the keys and values of a call into a cache, whose keys are in groups. */
static void cache_keys(const fovea_context *ctx, fovea_attention_args *args, int64_t *sequence) {
    fovea_kv_cache_desc d;
    fovea_kv_append_args append;
    fovea_kv_cache_desc_init(&d);
    fovea_kv_append_args_init(&append);
    d.kv_heads = 1;
    d.head_dim = args->k.shape[3];
    d.value_dim = 1;
    d.max_pages = KEYS / FOVEA_KV_PAGE_KEYS + 1;
    append.count = 1;
    append.sequences = sequence;
    append.k = args->k;
    append.v = args->v;
    if (!test_check(fovea_kv_cache_create(ctx, &d, &args->cache) == FOVEA_OK &&
                        fovea_kv_cache_add(args->cache, sequence) == FOVEA_OK &&
                        fovea_kv_cache_append(args->cache, &append) == FOVEA_OK,
                    "cache: %s", fovea_error_detail()))
        exit(1);
    args->k.data = args->v.data = NULL;
    args->cache_sequences = sequence;
}

static void check_far(const fovea_context *ctx, far_kind kind, int64_t dim, double distance, double softcap,
                      float query, bool flush, int64_t tile_rows, bool cached) {
    const int64_t heads = heads_of(kind), rows = heads * ROWS;
    const fv_attention_choice choice = {.block_rows = 2 * ROWS, .tile_rows = tile_rows}; /* all heads in one block */
    attention_case c = case_plain(1, heads, 1, ROWS, KEYS, dim, 1);
    c.desc.has_scale = 1;
    c.desc.scale = 1.0f;
    c.desc.softcap = softcap;
    c.desc.causal = kind == FAR_CAUSAL ? FOVEA_CAUSAL_BOTTOM_RIGHT : FOVEA_CAUSAL_NONE;
    c.desc.mask = kind == FAR_NAN_KEY ? FOVEA_MASK_BOOLEAN : kind == FAR_ADDED ? FOVEA_MASK_ADDITIVE : FOVEA_MASK_NONE;
    float *q = malloc((size_t)(rows * dim) * sizeof *q), *k = malloc((size_t)(KEYS * dim) * sizeof *k);
    float v[KEYS], out[2 * ROWS];
    uint8_t mask[KEYS];
    float added[KEYS];
    if (!test_check(q && k, "memory"))
        exit(1);
    for (int64_t j = 0; j < KEYS; j++) {
        v[j] = key_sign(kind, j) < 0 ? low_value : 1.0f;
        mask[j] = sees(kind, ROWS, j);
        added[j] = (float)(distance / 2.0 * key_sign(kind, j));
    }
    for (int64_t d = 0; d < dim; d++) {
        const float sign = d % 5 < 2 ? -1.0f : 1.0f;
        const double key = kind == FAR_ADDED ? 0.0 : distance / 2.0 / (double)dim / (double)query;
        for (int64_t i = 0; i < rows; i++)
            q[i * dim + d] = kind == FAR_NAN_QUERY && i == ODD_ROW
                                 ? poison()
                                 : sign * (float)((double)query * query_distance(kind, distance, i) / distance);
        for (int64_t j = 0; j < KEYS; j++)
            k[j * dim + d] =
                kind == FAR_NAN_KEY && j == ODD_KEY ? poison() : sign * (float)(key * (double)key_sign(kind, j));
    }
    fovea_attention_plan *plan;
    int64_t sequence;
    c.desc.page_keys = cached ? FOVEA_KV_PAGE_KEYS : 0;
    if (!test_check(fv_attention_plan_create_chosen(ctx, &c.desc, &choice, &plan) == FOVEA_OK, "plan: %s",
                    fovea_error_detail()))
        exit(1);
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, 1, heads, ROWS, dim);
    args.k = fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, 1, 1, KEYS, dim);
    args.v = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, 1, 1, KEYS, 1);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, heads, ROWS, 1);
    if (kind == FAR_NAN_KEY)
        args.mask = (fovea_tensor){mask, FOVEA_DTYPE_BOOL, {1, 1, 1, KEYS}, {0, 0, 0, 1}, NULL};
    if (kind == FAR_ADDED)
        args.mask = (fovea_tensor){added, FOVEA_DTYPE_F32, {1, 1, 1, KEYS}, {0, 0, 0, 1}, NULL};
    if (cached)
        cache_keys(ctx, &args, &sequence);
    fp_flush(flush);
    const fovea_status status = fovea_attention_execute(plan, &args, NULL, 0);
    fp_flush(false);
    test_check(status == FOVEA_OK, "execute: %s", fovea_error_detail());
    for (int64_t i = 0; i < rows; i++) {
        if (kind == FAR_NAN_QUERY && i == ODD_ROW)
            continue;
        double due;
        const double want = expected(kind, distance, softcap, i, &due);
        if (!test_check(fabs(out[i] - want) <= 1e-6 + 1e-3 * due,
                        "%s, %d channels, %g apart, softcap %g%s%s, tiles of %d: row %d is %.9g instead of %.9g",
                        kind_words[kind], (int)dim, distance, softcap, flush ? ", flushed" : "",
                        cached ? ", cached" : "", (int)tile_rows, (int)i, (double)out[i], want))
            break;
    }
    fovea_kv_cache_destroy(args.cache);
    fovea_attention_plan_destroy(plan);
    free(q);
    free(k);
}

int main(int argc, char **argv) {
    static const double distances[] = {1.0, 40.0, 79.5, 80.5, 87.0, 87.25, 87.5, 88.0, 89.0, 100.0, 178.0, 400.0, 1e4};
    test_begin(argc, argv, "softmax_underflow", NULL);
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++)
        for (int kind = 0; kind < FAR_KINDS; kind++)
            for (int several = 0; several < 2; several++) {
                const int64_t tile_rows = several ? 24 : 2 * ROWS; /* one tile takes its keys otherwise */
                check_far(ctx, (far_kind)kind, 64, distances[i], 0.0, 0.5f, false, tile_rows, false);
                check_far(ctx, (far_kind)kind, 33, distances[i], 0.0, 100.0f, false, tile_rows, false);
                check_far(ctx, (far_kind)kind, 33, distances[i], 0.0, 0.5f, false, tile_rows, true);
            }
    /* Scores of 1 to 2 caps: caps from 40 on bring some so far apart, lower ones none. */
    static const double caps[] = {10.0, 39.0, 40.0, 41.0, 46.0, 50.0, 60.0, 79.0, 81.0, 200.0},
                        of_cap[] = {1.0, 1.3, 1.6, 2.0};
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++)
        for (int j = 0; j < 4; j++)
            check_far(ctx, FAR_ALL, 64, 2.0 * caps[i] * of_cap[j], caps[i], 0.5f, false, j % 2 ? 24 : 2 * ROWS, false);
    /* Squares of queries too small to be numbers, of keys almost too large. */
    if (FP_FLUSH)
        check_far(ctx, FAR_ALL, 512, 90.0, 0.0, 1.08e-19f, true, 0, false);
    else
        test_skip("flush-to-zero: cannot be set here");
    fovea_context_destroy(ctx);
    return test_end();
}
