/* ROPE (elementwise.h): fovea_rope_apply(), whose cosines are rounded once from double at any position. What it has no
 * words for is rotated here, with its cosines and its formula:
 *   M-RoPE     a token has four positions, and a pair takes that of its section (GGML_ROPE_TYPE_MROPE, or IMROPE, where
 *              sections alternate); VISION: a section's angles begin anew, and all channels turn. Where the positions
 *              of a token are equal, as of text, that is no difference.
 *   negative   positions, where ggml shifts a cache, and divisors: pairs turn the other way; a divisor of 0 or NaN
 *              gives NaN. */
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
    SECTIONS = 11,
    OFFSET = 15
};
enum { ADJACENT = 0, HALVES = 2, MULTI = 8, VISION = 24, INTERLEAVED = 40 };
enum { ROPES = 4, MOST_DIMS = 1024, POSITIONS = 4 };

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

static bool is_multi(const struct ggml_tensor *op) { return op->op_params[MODE] & MULTI; }

/* Which position a pair takes; *index: which of the angles. */
static int section_of(const struct ggml_tensor *op, int pair, int *index) {
    const int32_t *sizes = op->op_params + SECTIONS, mode = op->op_params[MODE];
    *index = pair;
    if (!is_multi(op))
        return 0;
    const int sector = pair % (sizes[0] + sizes[1] + sizes[2] + sizes[3]);
    if (mode == INTERLEAVED)
        return sector < 3 * sizes[sector % 3] ? sector % 3 : 3;
    int section = 0, begin = 0;
    while (section < POSITIONS - 1 && sector >= begin + sizes[section])
        begin += sizes[section++];
    *index = mode == VISION ? sector - begin : pair;
    return section;
}

static int pairs_of(const struct ggml_tensor *op) {
    return op->op_params[DIMS] / (op->op_params[MODE] == VISION ? 1 : 2);
}

/* Modes, and what they need. */
static bool serves_mode(const struct ggml_tensor *op) {
    const int32_t *sizes = op->op_params + SECTIONS, mode = op->op_params[MODE], dims = op->op_params[DIMS];
    int64_t sum = 0;
    for (int i = 0; i < POSITIONS && is_multi(op); i++) {
        if (sizes[i] < 0)
            return false;
        sum += sizes[i];
    }
    if (!is_multi(op))
        return mode == ADJACENT || mode == HALVES;
    if (sum < 1 || sum > op->src[0]->ne[0] || op->src[1]->ne[0] < POSITIONS * op->ne[2])
        return false;
    if (mode != VISION)
        return mode == MULTI || mode == INTERLEAVED;
    for (int i = 0, index; i < pairs_of(op); i++) {
        section_of(op, i, &index);
        if (index >= dims / 2)
            return false;
    }
    return 2 * dims == op->ne[0] && !op->src[2] && fg_parameter(op, EXTRAPOLATION) == 0.0f;
}

bool fg_rope_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *x = op->src[0], *divisors = op->src[2];
    const int32_t dims = op->op_params[DIMS];
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
    return x->nb[0] == bytes && op->nb[0] == bytes && op->op_params[OFFSET] == 0 && dims >= 2 && dims <= MOST_DIMS &&
           dims % 2 == 0 && dims <= x->ne[0] && fg_parameter(op, BASE) > 1.0f && scale > 0.0f &&
           fg_parameter(op, ATTENTION) > 0.0f && (extrapolation == 0.0f || yarn) &&
           (!divisors || (fg_is_plain(divisors, FOVEA_DTYPE_F32) && divisors->ne[0] >= dims / 2)) && serves_mode(op);
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
    desc.pairing = op->op_params[MODE] == ADJACENT ? FOVEA_ROPE_ADJACENT : FOVEA_ROPE_HALVES;
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

typedef struct angles {
    float cosine[MOST_DIMS], sine[MOST_DIMS]; /* of each pair */
} angles;

/* Those of a token: what becomes of (1, 0). */
static fovea_status turn_ones(const fovea_context *context, const fovea_rope *rope, const struct ggml_tensor *op,
                              const int32_t positions[POSITIONS], angles *a) {
    const int dims = op->op_params[DIMS];
    const bool adjacent = op->op_params[MODE] == ADJACENT;
    const int step = adjacent ? 2 : 1, apart = adjacent ? 1 : dims / 2;
    const float *divisors = divisors_of(op);
    float one[POSITIONS][MOST_DIMS];
    int64_t forwards[POSITIONS];
    for (int p = 0; p < POSITIONS; p++) {
        forwards[p] = positions[p] < 0 ? -(int64_t)positions[p] : positions[p];
        for (int i = 0; i < dims / 2; i++) {
            one[p][i * step] = 1.0f;
            one[p][i * step + apart] = 0.0f;
        }
    }
    fovea_tensor t = fovea_tensor_bhtd(one, FOVEA_DTYPE_F32, 1, 1, POSITIONS, dims);
    t.stride[2] = MOST_DIMS;
    const fovea_status status = fovea_rope_apply(context, rope, &t, forwards, &t);
    for (int i = 0, index; i < pairs_of(op); i++) {
        const int p = section_of(op, i, &index);
        const float divisor = divisors ? divisors[index] : 1.0f, sine = one[p][index * step + apart];
        a->cosine[i] = fabsf(divisor) > 0.0f ? one[p][index * step] : NAN;
        a->sine[i] = (positions[p] < 0) == (divisor < 0.0f) ? sine : -sine;
    }
    return status;
}

/* A head of a token; room: for its channels. */
static void turn_head(const struct ggml_tensor *op, int64_t head, int64_t token, int64_t sequence, const angles *a,
                      float *room) {
    const struct ggml_tensor *x = op->src[0];
    const fovea_dtype dtype = fg_type_of(op->type)->dtype;
    const int64_t r = (sequence * op->ne[2] + token) * op->ne[1] + head;
    const bool adjacent = op->op_params[MODE] == ADJACENT;
    const int pairs = pairs_of(op), step = adjacent ? 2 : 1, apart = adjacent ? 1 : pairs;
    fovea_convert(op->ne[0], fg_row(x, r), dtype, room, FOVEA_DTYPE_F32);
    for (int i = 0; i < pairs; i++) {
        float *one = room + i * step, *other = one + apart;
        const float first = *one, second = *other;
        *one = first * a->cosine[i] - second * a->sine[i];
        *other = second * a->cosine[i] + first * a->sine[i];
    }
    fovea_convert(op->ne[0], room, FOVEA_DTYPE_F32, fg_row(op, r), dtype);
}

static int32_t position_of(const struct ggml_tensor *op, int64_t token, int which) {
    return ((const int32_t *)op->src[1]->data)[(is_multi(op) ? which * op->ne[2] : 0) + token];
}

static fovea_status turn_tokens(fg_backend *backend, const fovea_context *context, const fovea_rope *rope,
                                const struct ggml_tensor *op) {
    float *room = fg_memory_get(&backend->widened, (size_t)op->ne[0] * sizeof *room);
    fovea_status status = room ? FOVEA_OK : FOVEA_ERROR_OUT_OF_MEMORY;
    angles a;
    for (int64_t t = 0; t < op->ne[2] && status == FOVEA_OK; t++) {
        int32_t positions[POSITIONS];
        for (int p = 0; p < POSITIONS; p++)
            positions[p] = position_of(op, t, p);
        status = turn_ones(context, rope, op, positions, &a);
        for (int64_t i = 0; i < op->ne[3] * op->ne[1] && status == FOVEA_OK; i++)
            turn_head(op, i % op->ne[1], t, i / op->ne[1], &a, room);
    }
    return status;
}

/* Has each token one position, from 0 on, and has each pair a usual angle? Then positions of all tokens are written. */
static bool is_usual(const struct ggml_tensor *op, int64_t *positions) {
    const float *divisors = divisors_of(op);
    bool used[POSITIONS] = {false};
    int first = 0;
    for (int i = 0, index; i < pairs_of(op); i++) {
        first = section_of(op, i, &index);
        used[first] = true;
        if (index != i || (divisors && !(divisors[i] > 0.0f)))
            return false;
    }
    for (int64_t i = 0; i < op->ne[3] * op->ne[2]; i++) {
        positions[i] = position_of(op, i % op->ne[2], first);
        for (int p = 0; p < POSITIONS; p++)
            if (positions[i] < 0 || (used[p] && position_of(op, i % op->ne[2], p) != positions[i]))
                return false;
    }
    return op->op_params[MODE] != VISION;
}

enum ggml_status fg_rope_compute(fg_backend *backend, struct ggml_tensor *op) {
    const fg_team *team = fg_backend_team(backend);
    const fovea_rope *rope = rope_of(backend, op);
    int64_t *positions = fg_memory_get(&backend->ranges, (size_t)(op->ne[3] * op->ne[2] + 1) * sizeof *positions);
    if (!team || !rope || !positions)
        return GGML_STATUS_FAILED;
    const fovea_tensor x = fg_heads_tensor(op->src[0]), y = fg_heads_tensor(op);
    return fg_status(is_usual(op, positions) ? fovea_rope_apply(team->context, rope, &x, positions, &y)
                                             : turn_tokens(backend, team->context, rope, op),
                     "ROPE");
}
