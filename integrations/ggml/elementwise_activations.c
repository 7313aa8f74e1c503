/* UNARY and GLU (elementwise.h): fovea_activate(), and what it lacks: -x, exp(x) by fovea_exp_f32(),
 * gelu_quick(x) = x / (1 + exp(-1.702 x)), and gpt-oss's clamped SwiGLU, whose operations are each rounded once. */
#include "elementwise.h"

#include <string.h>

enum { PIECE = 256 };

typedef void row_function(int64_t n, const float *x, float *y); /* n <= PIECE */

static void negate(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = -x[i];
}

static void exponential(int64_t n, const float *x, float *y) { fovea_exp_f32(n, x, y); }

static void gelu_quick(int64_t n, const float *x, float *y) {
    float e[PIECE] = {0};
    for (int64_t i = 0; i < n; i++)
        e[i] = -1.702f * x[i];
    fovea_exp_f32(n, e, e);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] / (1.0f + e[i]);
}

typedef struct named {
    const char *unary, *glu; /* as ggml_unary_op_name() and ggml_glu_op_name() have it; NULL: not served */
    fovea_activation activation;
    row_function *function; /* NULL, or what is computed before the activation */
} named;

static const named table[] = {
    {"RELU", "REGLU", FOVEA_ACTIVATION_RELU, NULL},
    {"GELU", "GEGLU", FOVEA_ACTIVATION_GELU_TANH, NULL},
    {"GELU_ERF", "GEGLU_ERF", FOVEA_ACTIVATION_GELU, NULL},
    {"GELU_QUICK", "GEGLU_QUICK", FOVEA_ACTIVATION_NONE, gelu_quick},
    {"SILU", "SWIGLU", FOVEA_ACTIVATION_SILU, NULL},
    {NULL, "SWIGLU_OAI", FOVEA_ACTIVATION_NONE, NULL},
    {"SIGMOID", NULL, FOVEA_ACTIVATION_SIGMOID, NULL},
    {"SOFTPLUS", NULL, FOVEA_ACTIVATION_SOFTPLUS, NULL},
    {"TANH", NULL, FOVEA_ACTIVATION_TANH, NULL},
    {"NEG", NULL, FOVEA_ACTIVATION_NONE, negate},
    {"EXP", NULL, FOVEA_ACTIVATION_NONE, exponential},
};

static bool gates(const struct ggml_tensor *op) { return fg_op_of(op->op) == FG_GLU; }

static const named *find(const struct ggml_tensor *op) {
    const int number = op->op_params[0];
    const bool glu = gates(op);
    const char *name =
        glu ? fg_ggml.glu_op_name((enum ggml_glu_op)number) : fg_ggml.unary_op_name((enum ggml_unary_op)number);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *there = glu ? table[i].glu : table[i].unary;
        if (there && !strcmp(there, name))
            return &table[i];
    }
    return NULL;
}

bool fg_unary_serves(const struct ggml_tensor *op) {
    return fg_is_strided(op) && fg_is_strided(op->src[0]) && !memcmp(op->ne, op->src[0]->ne, sizeof op->ne) && find(op);
}

/* Gate and the other factor are two tensors, or halves of one: the gate last if the second parameter is set. */
bool fg_glu_serves(const struct ggml_tensor *op) {
    const struct ggml_tensor *a = op->src[0], *b = op->src[1];
    return fg_is_strided(op) && fg_is_strided(a) && (!b || fg_is_strided(b)) &&
           a->ne[0] == (b ? op->ne[0] : 2 * op->ne[0]) && !memcmp(op->ne + 1, a->ne + 1, 3 * sizeof op->ne[0]) &&
           (!b || !memcmp(a->ne, b->ne, sizeof a->ne)) && find(op);
}

/* Where the operand, or the gate, is in a row of the first source. */
static int64_t first_of(const struct ggml_tensor *op) {
    return gates(op) && !op->src[1] && op->op_params[1] ? op->ne[0] : 0;
}

static fovea_tensor operand(const struct ggml_tensor *op, const struct ggml_tensor *source, int64_t first) {
    fovea_tensor t = fg_tensor(source);
    t.data = (float *)t.data + first;
    t.shape[3] = op->ne[0];
    return t;
}

static bool function_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    row_function *function = find(op)->function;
    for (int64_t r = first; r < end; r++) {
        const float *x = (const float *)(const void *)fg_row(op->src[0], r) + first_of(op);
        float *y = (float *)(void *)fg_row(op, r);
        for (int64_t i = 0; i < op->ne[0]; i += PIECE)
            function(op->ne[0] - i < PIECE ? op->ne[0] - i : PIECE, x + i, y + i);
    }
    return true;
}

/* x / (1 + exp(-alpha x)) (u + 1), with gate x at most limit and u within it. NaN stays. */
static bool clamped_rows(const struct ggml_tensor *op, int64_t first, int64_t end) {
    enum { ALPHA = 2, LIMIT = 3 };
    const float alpha = fg_parameter(op, ALPHA), limit = fg_parameter(op, LIMIT);
    const struct ggml_tensor *other = op->src[1] ? op->src[1] : op->src[0];
    const int64_t up = op->src[1] ? 0 : op->ne[0] - first_of(op);
    for (int64_t r = first; r < end; r++)
        for (int64_t i = 0; i < op->ne[0]; i += PIECE) {
            const int64_t n = op->ne[0] - i < PIECE ? op->ne[0] - i : PIECE;
            const float *x = (const float *)(const void *)fg_row(op->src[0], r) + first_of(op) + i;
            const float *u = (const float *)(const void *)fg_row(other, r) + up + i;
            float *y = (float *)(void *)fg_row(op, r) + i, gate[PIECE] = {0}, e[PIECE] = {0};
            for (int64_t j = 0; j < n; j++) {
                gate[j] = x[j] > limit ? limit : x[j];
                e[j] = -alpha * gate[j];
            }
            fovea_exp_f32(n, e, e);
            for (int64_t j = 0; j < n; j++) {
                const float within = u[j] > limit ? limit : u[j] < -limit ? -limit : u[j];
                y[j] = gate[j] / (1.0f + e[j]) * (within + 1.0f);
            }
        }
    return true;
}

enum ggml_status fg_activation_compute(fg_backend *backend, struct ggml_tensor *op) {
    const named *n = find(op);
    if (op->ne[0] * fg_rows(op) == 0)
        return GGML_STATUS_SUCCESS;
    if (gates(op) && !strcmp(n->glu, "SWIGLU_OAI"))
        return fg_for_rows(backend, op, fg_rows(op), 6 * op->ne[0] * (int64_t)sizeof(float), clamped_rows);
    if (n->function) {
        const enum ggml_status status =
            fg_for_rows(backend, op, fg_rows(op), 4 * op->ne[0] * (int64_t)sizeof(float), function_rows);
        if (status != GGML_STATUS_SUCCESS || !gates(op))
            return status;
    }
    const fg_team *team = fg_backend_team(backend);
    fovea_activate_args args;
    fovea_activate_args_init(&args);
    args.activation = n->activation;
    args.y = fg_tensor(op);
    args.x = n->function ? args.y : operand(op, op->src[0], first_of(op));
    if (gates(op))
        args.up = op->src[1] ? operand(op, op->src[1], 0) : operand(op, op->src[0], op->ne[0] - first_of(op));
    return team ? fg_status(fovea_activate(team->context, &args), fg_ggml.op_name(op->op)) : GGML_STATUS_FAILED;
}
