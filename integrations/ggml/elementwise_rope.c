/* ROPE (elementwise.h): fovea_rope_apply(), whose cosines are rounded once from double at any position. ggml's
 * positions may be negative, where it shifts a cache: those rows turn the other way. So do pairs whose divisor is
 * negative; those whose divisor is 0 or NaN are NaN. */
#include "elementwise.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ggml's parameters of the operation. */
enum {
    DIMS = 1,
    MODE = 2,
    ORIGINAL = 4,
    BASE = 5,
    SCALE = 6,
    EXTRAPOLATION = 7,
    ATTENTION = 8,
    FAST = 9,
    SLOW = 10,
    OFFSET = 15
};
enum { ADJACENT = 0, HALVES = 2 };
enum { ROPES = 4, MOST_DIMS = 1024 };

struct fg_ropes {
    struct {
        int32_t key[OFFSET]; /* the parameters */
        float divisors[MOST_DIMS / 2];
        bool divided;
        uint64_t used;
        fovea_rope *rope;
    } of[ROPES];
    uint64_t clock;
};

void fg_ropes_free(fg_backend *backend) {
    for (int i = 0; backend->ropes && i < ROPES; i++)
        fovea_rope_destroy(backend->ropes->of[i].rope);
    free(backend->ropes);
    backend->ropes = NULL;
}

bool fg_rope_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *x = op->src[0], *divisors = op->src[2];
    const int32_t dims = op->op_params[DIMS], mode = op->op_params[MODE];
    const float extrapolation = fg_parameter(op, EXTRAPOLATION), scale = fg_parameter(op, SCALE);
    const bool yarn = extrapolation == 1.0f && op->op_params[ORIGINAL] > 0 && fg_parameter(op, FAST) > 0.0f &&
                      fg_parameter(op, SLOW) > 0.0f;
    if (!fg_is_float(x) || op->type != x->type || memcmp(op->ne, x->ne, sizeof op->ne) ||
        !fg_is_named(op->src[1], "i32"))
        return false;
    const size_t bytes = (size_t)fg_type_of(x->type)->bytes;
    for (int i = 1; i < 4; i++)
        if (x->nb[i] % bytes != 0 || op->nb[i] % bytes != 0)
            return false;
    return x->nb[0] == bytes && op->nb[0] == bytes && (mode == ADJACENT || mode == HALVES) &&
           op->op_params[OFFSET] == 0 && dims >= 2 && dims <= MOST_DIMS && dims % 2 == 0 && dims <= x->ne[0] &&
           fg_parameter(op, BASE) > 1.0f && scale > 0.0f && fg_parameter(op, ATTENTION) > 0.0f &&
           (extrapolation == 0.0f || yarn) &&
           (!divisors || (fg_is_plain(divisors, FOVEA_DTYPE_F32) && divisors->ne[0] >= dims / 2));
}

static const float *divisors_of(const struct ggml_tensor *op) { return op->src[2] ? op->src[2]->data : NULL; }

/* As fovea_rope_desc has divisors: more than 0, and finite. */
static float usual(float divisor) {
    const float size = fabsf(divisor);
    return size > 0.0f ? fminf(size, FLT_MAX) : 1.0f;
}

static fovea_rope *create(const struct ggml_tensor *op, const float *divisors) {
    float sizes[MOST_DIMS / 2];
    for (int i = 0; divisors && i < op->op_params[DIMS] / 2; i++)
        sizes[i] = usual(divisors[i]);
    const double factor = 1.0 / (double)fg_parameter(op, SCALE);
    fovea_rope *rope = NULL;
    fovea_rope_desc desc;
    fovea_rope_desc_init(&desc);
    desc.rotary_dim = op->op_params[DIMS];
    desc.pairing = op->op_params[MODE] == HALVES ? FOVEA_ROPE_HALVES : FOVEA_ROPE_ADJACENT;
    desc.base = fg_parameter(op, BASE);
    desc.factor = factor;
    desc.scaling = factor == 1.0 ? FOVEA_ROPE_UNSCALED : FOVEA_ROPE_LINEAR;
    desc.attention_factor = fg_parameter(op, ATTENTION);
    desc.divisors = divisors ? sizes : NULL;
    if (fg_parameter(op, EXTRAPOLATION) != 0.0f) {
        desc.scaling = FOVEA_ROPE_YARN;
        desc.original_positions = op->op_params[ORIGINAL];
        desc.beta_fast = fg_parameter(op, FAST);
        desc.beta_slow = fg_parameter(op, SLOW);
        desc.attention_factor *= 1.0 + 0.1 * log(factor);
    }
    fg_status(fovea_rope_create(&desc, &rope), "ROPE");
    return rope;
}

/* Tables of these parameters, made once. NULL after an error, which was said. */
static const fovea_rope *rope_of(fg_backend *backend, const struct ggml_tensor *op) {
    const float *divisors = divisors_of(op);
    const size_t bytes = (size_t)op->op_params[DIMS] / 2 * sizeof *divisors;
    struct fg_ropes *ropes = backend->ropes = backend->ropes ? backend->ropes : calloc(1, sizeof *ropes);
    if (!ropes)
        return NULL;
    int oldest = 0;
    for (int i = 0; i < ROPES; i++) {
        if (ropes->of[i].rope && !memcmp(ropes->of[i].key, op->op_params, sizeof ropes->of[i].key) &&
            ropes->of[i].divided == (divisors != NULL) &&
            (!divisors || !memcmp(ropes->of[i].divisors, divisors, bytes))) {
            ropes->of[i].used = ++ropes->clock;
            return ropes->of[i].rope;
        }
        oldest = ropes->of[i].used < ropes->of[oldest].used ? i : oldest;
    }
    fovea_rope_destroy(ropes->of[oldest].rope);
    ropes->of[oldest].rope = create(op, divisors);
    ropes->of[oldest].used = ++ropes->clock;
    ropes->of[oldest].divided = divisors != NULL;
    memcpy(ropes->of[oldest].key, op->op_params, sizeof ropes->of[oldest].key);
    if (divisors)
        memcpy(ropes->of[oldest].divisors, divisors, bytes);
    return ropes->of[oldest].rope;
}

/* One token of one sequence. */
static fovea_tensor token_of(const struct ggml_tensor *t, int64_t sequence, int64_t token) {
    fovea_tensor v = fovea_tensor_tokens(fg_heads_tensor(t), token, 1);
    v.data = (char *)v.data + (size_t)sequence * t->nb[3];
    v.shape[0] = 1;
    return v;
}

static char *head_of(const struct ggml_tensor *t, const fovea_tensor *token, int64_t head) {
    return (char *)token->data + (size_t)head * t->nb[1];
}

typedef void pair_function(char *one, char *other, size_t bytes);

static void exchange(char *one, char *other, size_t bytes) {
    char kept[sizeof(float)];
    memcpy(kept, one, bytes);
    memcpy(one, other, bytes);
    memcpy(other, kept, bytes);
}

static void make_nan(char *one, char *other, size_t bytes) { /* of each type, all bits are NaN */
    memset(one, 0xff, bytes);
    memset(other, 0xff, bytes);
}

/* Pair i of each head of a token. */
static void for_pair(const struct ggml_tensor *op, const fovea_tensor *token, int64_t i, pair_function *function) {
    const bool halves = op->op_params[MODE] == HALVES;
    const size_t bytes = op->nb[0], step = (halves ? 1 : 2) * bytes;
    const size_t apart = halves ? (size_t)(op->op_params[DIMS] / 2) * bytes : bytes;
    for (int64_t h = 0; h < op->ne[1]; h++) {
        char *one = head_of(op, token, h) + (size_t)i * step;
        function(one, one + apart, bytes);
    }
}

/* Exchanges the channels of the pairs that turn backwards. */
static void exchange_pairs(const struct ggml_tensor *op, const fovea_tensor *token, bool backwards) {
    const float *divisors = divisors_of(op);
    for (int64_t i = 0; i < op->op_params[DIMS] / 2; i++)
        if (backwards != (divisors && divisors[i] < 0.0f))
            for_pair(op, token, i, exchange);
}

/* With its channels exchanged a pair turns forwards. */
static fovea_status turn(const fovea_context *context, const fovea_rope *rope, const struct ggml_tensor *op,
                         const fovea_tensor *x, const fovea_tensor *y, int64_t position) {
    const float *divisors = divisors_of(op);
    const bool backwards = position < 0;
    const int64_t forwards = backwards ? -position : position;
    for (int64_t h = 0; h < op->ne[1]; h++)
        memmove(head_of(op, y, h), head_of(op->src[0], x, h), (size_t)op->ne[0] * op->nb[0]);
    exchange_pairs(op, y, backwards);
    const fovea_status status = fovea_rope_apply(context, rope, y, &forwards, y);
    exchange_pairs(op, y, backwards);
    for (int64_t i = 0; divisors && i < op->op_params[DIMS] / 2; i++)
        if (!(fabsf(divisors[i]) > 0.0f))
            for_pair(op, y, i, make_nan);
    return status;
}

/* Token by token. */
static fovea_status turn_both_ways(const fovea_context *context, const fovea_rope *rope, const struct ggml_tensor *op,
                                   const int64_t *positions) {
    fovea_status status = FOVEA_OK;
    for (int64_t b = 0; b < op->ne[3]; b++)
        for (int64_t t = 0; t < op->ne[2] && status == FOVEA_OK; t++) {
            const fovea_tensor x = token_of(op->src[0], b, t), y = token_of(op, b, t);
            status = turn(context, rope, op, &x, &y, positions[t]);
        }
    return status;
}

enum ggml_status fg_rope_compute(fg_backend *backend, struct ggml_tensor *op) {
    const int64_t tokens = op->ne[2], all = op->ne[3] * tokens;
    const fg_team *team = fg_backend_team(backend);
    const fovea_rope *rope = rope_of(backend, op);
    int64_t *positions = fg_memory_get(&backend->ranges, (size_t)(all + 1) * sizeof *positions);
    if (!team || !rope || !positions)
        return GGML_STATUS_FAILED;
    const float *divisors = divisors_of(op);
    bool both_ways = false;
    for (int64_t i = 0; divisors && i < op->op_params[DIMS] / 2; i++)
        both_ways = both_ways || !(divisors[i] > 0.0f);
    for (int64_t i = 0; i < all; i++) {
        positions[i] = ((const int32_t *)op->src[1]->data)[i % tokens];
        both_ways = both_ways || positions[i] < 0;
    }
    const fovea_tensor x = fg_heads_tensor(op->src[0]), y = fg_heads_tensor(op);
    return fg_status(both_ways ? turn_both_ways(team->context, rope, op, positions)
                               : fovea_rope_apply(team->context, rope, &x, positions, &y),
                     "ROPE");
}
