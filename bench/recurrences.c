/* fovea-bench: recurrences through the public API, with the workspace of the caller. Each call takes the states of the
 * next layer: of few tokens they come from memory, if those of all layers are larger than the last-level cache. Before
 * it is timed, the first tokens are computed again on the scalar tier, and must have the same bits.
 *
 * Flops are two for each vector operation that recurrences.h names, exp being 12 of them and silu 20, compared with the
 * FMA peak; bytes are those of states, read and written. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { CHECKED_TOKENS = 5, OPERANDS = 7 };
typedef enum recurrence_op { DELTA, MAMBA2, MAMBA1, CONV, OPS } recurrence_op;
typedef enum operand { OUT, X, K, Q, GATE, BETA, RATES } operand; /* scans: b and c in k and q, dt in gate */

typedef struct recurrence {
    bench base;
    recurrence_op op;
    int64_t tokens, heads, rows, columns, order, layers, next;
    float *operand[OPERANDS], *before, *after;
    void *workspace;
    size_t size; /* of it */
} recurrence;

static const char *const op_words[] = {"delta", "mamba2", "mamba1", "conv", NULL}, *const order_words[] = {
                                                                                       "rows", "columns", NULL};

static int64_t state_floats(const recurrence *self) { return self->heads * self->rows * self->columns; }

static fovea_tensor by_token(const recurrence *self, operand which, int64_t tokens, int64_t heads, int64_t channels) {
    return fovea_tensor_bthd(self->operand[which], FOVEA_DTYPE_F32, 1, tokens, heads, channels);
}

static fovea_tensor states_at(const recurrence *self, float *all, int64_t layer) {
    const int64_t sizes[] = {self->rows, self->columns};
    return fovea_tensor_bhtd(all + layer * state_floats(self), FOVEA_DTYPE_F32, 1, self->heads, sizes[self->order],
                             sizes[!self->order]);
}

/* One call of the first tokens; without memory for it, the bytes that it takes. */
static fovea_status execute(const recurrence *self, const fovea_context *context, int64_t tokens, void *workspace,
                            size_t *bytes) {
    const int64_t heads = self->heads, rows = self->rows, columns = self->columns;
    fovea_states states;
    fovea_states_init(&states);
    states.before = states_at(self, self->before, self->next);
    states.after = states_at(self, self->after, self->next);
    states.order = self->order ? FOVEA_STATE_COLUMNS : FOVEA_STATE_ROWS;
    if (self->op == DELTA) {
        fovea_delta_args a;
        fovea_delta_args_init(&a);
        a.out = by_token(self, OUT, tokens, heads, columns);
        a.v = by_token(self, X, tokens, heads, columns);
        a.k = by_token(self, K, tokens, heads, rows);
        a.q = by_token(self, Q, tokens, heads, rows);
        a.gate = by_token(self, GATE, tokens, heads, 1);
        a.beta = by_token(self, BETA, tokens, heads, 1);
        a.states = &states;
        *bytes = workspace ? *bytes : fovea_gated_delta_rule_workspace_size(context, &a);
        return workspace ? fovea_gated_delta_rule(context, &a, workspace, *bytes) : FOVEA_OK;
    }
    if (self->op == CONV) {
        fovea_conv_args a;
        fovea_conv_args_init(&a);
        a.out = by_token(self, OUT, tokens, 1, columns);
        a.x = by_token(self, X, tokens, 1, columns);
        a.weight = self->operand[RATES];
        a.taps = rows + 1;
        a.silu = 1;
        a.states = &states;
        *bytes = workspace ? *bytes : fovea_causal_conv_workspace_size(context, &a);
        return workspace ? fovea_causal_conv(context, &a, workspace, *bytes) : FOVEA_OK;
    }
    fovea_scan_args a;
    fovea_scan_args_init(&a);
    a.out = by_token(self, OUT, tokens, heads, columns);
    a.x = by_token(self, X, tokens, heads, columns);
    a.b = by_token(self, K, tokens, 1, rows);
    a.c = by_token(self, Q, tokens, 1, rows);
    a.dt = by_token(self, GATE, tokens, heads, self->op == MAMBA1 ? columns : 1);
    a.a = self->operand[RATES];
    a.states = &states;
    *bytes = workspace ? *bytes : fovea_selective_scan_workspace_size(context, &a);
    return workspace ? fovea_selective_scan(context, &a, workspace, *bytes) : FOVEA_OK;
}

static void recurrence_end(bench *base) {
    recurrence *self = (recurrence *)base;
    for (int i = 0; i < OPERANDS; i++) {
        free(self->operand[i]);
        self->operand[i] = NULL;
    }
    free(self->before);
    free(self->after);
    free(self->workspace);
    fovea_context_destroy(base->context);
    self->before = self->after = self->workspace = NULL;
    base->context = NULL;
}

static const char *check(recurrence *self) {
    const int64_t tokens = self->tokens < CHECKED_TOKENS ? self->tokens : CHECKED_TOKENS,
                  n = tokens * self->heads * self->columns;
    fovea_context *context = NULL;
    const char *error = bench_context(FOVEA_ISA_SCALAR, 1, &context);
    recurrence first = *self;
    size_t size;
    first.operand[OUT] = bench_alloc(n * (int64_t)sizeof(float));
    if (error == NULL && !first.operand[OUT])
        error = "no memory";
    if (error == NULL && execute(&first, context, tokens, NULL, &size) == FOVEA_OK)
        first.workspace = bench_alloc((int64_t)size);
    if (error == NULL && (execute(self, self->base.context, self->tokens, self->workspace, &self->size) != FOVEA_OK ||
                          execute(&first, context, tokens, first.workspace, &size) != FOVEA_OK))
        error = fovea_error_detail();
    if (error == NULL && memcmp(first.operand[OUT], self->operand[OUT], (size_t)n * sizeof(float)) != 0)
        error = "WRONG: the first tokens are not what scalar gives";
    fovea_context_destroy(context);
    free(first.operand[OUT]);
    if (first.workspace != self->workspace)
        free(first.workspace);
    return error;
}

/* Numbers with which states neither grow nor vanish. */
static const char *make(recurrence *self) {
    const bool per_channel = self->op == MAMBA1;
    const int64_t each = self->tokens * self->heads, states = state_floats(self);
    const int64_t sizes[OPERANDS] = {each * self->columns,
                                     each * self->columns,
                                     each * self->rows,
                                     each * self->rows,
                                     each * (per_channel ? self->columns : 1),
                                     each,
                                     self->columns * (self->rows + 1) + self->heads};
    static const float low[] = {0, -1, -0.1F, -0.1F, -1, 0, -1}, high[] = {1, 1, 0.1F, 0.1F, 0, 1, 0};
    bool all = true;
    for (int i = 0; i < OPERANDS; i++)
        all &= (self->operand[i] = bench_numbers(sizes[i], FOVEA_DTYPE_F32, low[i], high[i], (uint64_t)i)) != NULL;
    self->before = bench_numbers(states * self->layers, FOVEA_DTYPE_F32, -1, 1, 9);
    self->after = bench_numbers(states * self->layers, FOVEA_DTYPE_F32, -1, 1, 9);
    if (!all || !self->before || !self->after)
        return "no memory";
    const char *error = bench_context(self->base.isa, self->base.threads, &self->base.context);
    if (error != NULL)
        return error;
    execute(self, self->base.context, self->tokens, NULL, &self->size);
    self->workspace = bench_alloc((int64_t)self->size);
    if (!self->workspace)
        return "no memory";
    error = self->base.checked ? NULL : check(self);
    self->base.checked = true;
    return error;
}

static void recurrence_run(bench *base) {
    recurrence *self = (recurrence *)base;
    execute(self, base->context, self->tokens, self->workspace, &self->size);
    self->next = (self->next + 1) % self->layers;
}

static const char *recurrence_begin(bench *base, shim_cost *cost) {
    recurrence *self = (recurrence *)base;
    const char *error = make(self);
    if (error != NULL)
        return error;
    const double states = (double)state_floats(self);
    const double operations[OPS] = {4 * states, 3 * states, 16 * states,
                                    (double)((self->rows + 1 + 20) * self->columns)};
    cost->flops = 2 * (double)self->tokens * operations[self->op];
    cost->bytes = 2 * sizeof(float) * states;
    cost->peak = base->threads * bench_peak((fv_isa)base->isa);
    cost->read = bench_read_speed(base->context, base->threads);
    return NULL;
}

static bench *recurrence_make(const char *words, char error[BENCH_ERROR_SIZE]) {
    static const int64_t models[OPS][3] = {{32, 128, 128}, {128, 128, 64}, {1, 16, 8192}, {1, 3, 8192}};
    const int64_t most = INT64_C(1) << 16;
    int64_t op = DELTA, tokens = 1, heads = 0, rows = 0, columns = 0, order = 0, layers = 1;
    const cli_key keys[] = {{"op", op_words, 0, 0, &op},          {"tokens", NULL, 1, most, &tokens},
                            {"heads", NULL, 1, most, &heads},     {"rows", NULL, 1, 1024, &rows},
                            {"columns", NULL, 1, most, &columns}, {"order", order_words, 0, 0, &order},
                            {"layers", NULL, 1, 1024, &layers}};
    const bench functions = {.begin = recurrence_begin, .run = recurrence_run, .end = recurrence_end};
    recurrence *self =
        bench_new(sizeof *self, &functions, words, keys, sizeof keys / sizeof keys[0], BENCH_TAKES_THREADS, error);
    if (self == NULL)
        return NULL;
    *self = (recurrence){.base = self->base,
                         .op = (recurrence_op)op,
                         .tokens = tokens,
                         .heads = heads && op < MAMBA1 ? heads : models[op][0],
                         .rows = rows ? rows : models[op][1],
                         .columns = columns ? columns : models[op][2],
                         .order = order,
                         .layers = layers};
    bench_name(&self->base, "recurrence/%s/t%" PRId64 "_h%" PRId64 "_rows%" PRId64 "_columns%" PRId64, op_words[op],
               tokens, self->heads, self->rows, self->columns);
    if (order)
        bench_name(&self->base, "/order:%s", order_words[order]);
    if (layers > 1)
        bench_name(&self->base, "/layers:%" PRId64, layers);
    bench_name_end(&self->base);
    return &self->base;
}

const bench_kind bench_recurrence = {"recurrence", recurrence_make,
                                     "op=delta|mamba2|mamba1|conv tokens=1 heads=32 rows=128 columns=128\n"
                                     "      order=rows|columns layers=1 isa=best|TIER threads=1"};
