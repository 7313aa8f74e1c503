/* UNARY and GLU (elementwise.h). Exponentials are fovea_exp_f32()'s; the rest is a formula whose operations are each
 * rounded once:
 *
 *   sigmoid(x) = 1 / (1 + exp(-x))        silu(x) = x / (1 + exp(-x))        gelu_quick(x) = x / (1 + exp(-1.702 x))
 *   gelu(x) = x / (1 + exp(-2u)), u = sqrt(2/pi) x (1 + 0.044715 x^2), which is x/2 (1 + tanh(u))
 *   tanh(x) = 1 - 2 / (exp(2x) + 1), and its series of five terms where |x| < 1/8 */
#include "elementwise.h"

#include <math.h>
#include <string.h>

enum { PIECE = 256 };

typedef void activation(int64_t n, const float *x, float *y);

static void relu(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

static void negate(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = -x[i];
}

static void exponential(int64_t n, const float *x, float *y) { fovea_exp_f32(n, x, y); }

/* y = x / (1 + exp(e)), e of n <= PIECE. */
static void gate(int64_t n, const float *x, float *e, float *y) {
    fovea_exp_f32(n, e, e);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] / (1.0f + e[i]);
}

static void silu(int64_t n, const float *x, float *y) {
    float e[PIECE] = {0};
    for (int64_t i = 0; i < n; i++)
        e[i] = -x[i];
    gate(n, x, e, y);
}

static void sigmoid(int64_t n, const float *x, float *y) {
    float e[PIECE] = {0}, one[PIECE] = {0};
    for (int64_t i = 0; i < n; i++) {
        e[i] = -x[i];
        one[i] = 1.0f;
    }
    gate(n, one, e, y);
}

static void gelu_quick(int64_t n, const float *x, float *y) {
    float e[PIECE] = {0};
    for (int64_t i = 0; i < n; i++)
        e[i] = -1.702f * x[i];
    gate(n, x, e, y);
}

static void gelu(int64_t n, const float *x, float *y) {
    float e[PIECE] = {0};
    for (int64_t i = 0; i < n; i++)
        e[i] = -2.0f * (0.79788456080286535587989211986876f * x[i] * (1.0f + 0.044715f * x[i] * x[i]));
    gate(n, x, e, y);
}

static void hyperbolic(int64_t n, const float *x, float *y) {
    float e[PIECE] = {0};
    for (int64_t i = 0; i < n; i++)
        e[i] = 2.0f * x[i];
    fovea_exp_f32(n, e, e);
    for (int64_t i = 0; i < n; i++) {
        const float s = x[i] * x[i], far = 1.0f - 2.0f / (e[i] + 1.0f);
        const float series = 1.0f - s * (1.0f / 3 - s * (2.0f / 15 - s * (17.0f / 315 - s * (62.0f / 2835))));
        y[i] = fabsf(x[i]) < 0.125f ? x[i] * series : far;
    }
}

typedef struct named {
    const char *unary, *glu; /* as ggml_unary_op_name() and ggml_glu_op_name() have it; NULL: not served */
    activation *function;
} named;

static const named table[] = {
    {"RELU", "REGLU", relu},    {"GELU", "GEGLU", gelu},
    {"SILU", "SWIGLU", silu},   {"NEG", NULL, negate},
    {"SIGMOID", NULL, sigmoid}, {"TANH", NULL, hyperbolic},
    {"EXP", NULL, exponential}, {"GELU_QUICK", "GEGLU_QUICK", gelu_quick},
};

static activation *find(const struct ggml_tensor *op, bool glu) {
    const int number = op->op_params[0];
    const char *name =
        glu ? fg_ggml.glu_op_name((enum ggml_glu_op)number) : fg_ggml.unary_op_name((enum ggml_unary_op)number);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *there = glu ? table[i].glu : table[i].unary;
        if (there && !strcmp(there, name))
            return table[i].function;
    }
    return NULL;
}

bool fg_unary_serves(const struct ggml_tensor *op) {
    return fg_is_plain(op, FOVEA_DTYPE_F32) && fg_is_plain(op->src[0], FOVEA_DTYPE_F32) &&
           !memcmp(op->ne, op->src[0]->ne, sizeof op->ne) && find(op, false);
}

static bool unary_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    activation *function = find(op, false);
    for (int64_t r = first; r < end; r++) {
        const float *x = (const float *)(const void *)fg_row(op->src[0], r);
        float *y = (float *)(void *)fg_row(op, r);
        for (int64_t i = 0; i < op->ne[0]; i += PIECE)
            function(op->ne[0] - i < PIECE ? op->ne[0] - i : PIECE, x + i, y + i);
    }
    return true;
}

enum ggml_status fg_unary_compute(fg_backend *backend, struct ggml_tensor *op) {
    return fg_for_rows(backend, op, fg_rows(op), 4 * op->ne[0] * (int64_t)sizeof(float), unary_rows);
}

/* Gate and the other factor are two tensors, or halves of one: the gate last if the second parameter is set. */
bool fg_glu_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *a = op->src[0], *b = op->src[1];
    return fg_is_plain(op, FOVEA_DTYPE_F32) && fg_is_plain(a, FOVEA_DTYPE_F32) &&
           (!b || fg_is_plain(b, FOVEA_DTYPE_F32)) && a->ne[0] == (b ? op->ne[0] : 2 * op->ne[0]) &&
           !memcmp(op->ne + 1, a->ne + 1, 3 * sizeof op->ne[0]) && (!b || !memcmp(a->ne, b->ne, sizeof a->ne)) &&
           find(op, true);
}

static bool glu_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    activation *function = find(op, true);
    const int64_t n = op->ne[0];
    for (int64_t r = first; r < end; r++) {
        const float *x = (const float *)(const void *)fg_row(op->src[0], r);
        const float *z = op->src[1] ? (const float *)(const void *)fg_row(op->src[1], r) : x + n;
        if (!op->src[1] && op->op_params[1]) {
            z = x;
            x += n;
        }
        float *y = (float *)(void *)fg_row(op, r), t[PIECE];
        for (int64_t i = 0; i < n; i += PIECE) {
            const int64_t count = n - i < PIECE ? n - i : PIECE;
            function(count, x + i, t);
            for (int64_t j = 0; j < count; j++)
                y[i + j] = t[j] * z[i + j];
        }
    }
    return true;
}

enum ggml_status fg_glu_compute(fg_backend *backend, struct ggml_tensor *op) {
    return fg_for_rows(backend, op, fg_rows(op), 6 * op->ne[0] * (int64_t)sizeof(float), glu_rows);
}
