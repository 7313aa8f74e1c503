/* States through tokens by the delta kernel (recurrence.h). A unit of work is one head of one sequence, or some of its
 * blocks of columns where heads are few: it takes chunks of tokens. Their vectors are made first. Then each block goes
 * through the chunk, its state in a tile that the first-level cache holds. Between chunks tiles wait in the next cache.
 * A single token reads and writes the caller's state in place, if it lies as the kernel takes it. */
#include "recurrence/recurrence.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS = FV_STATE_COLUMNS,
    TASK_ELEMENTS = 1 << 16, /* least work for a thread of its own */
    /* Through which a state by columns is not transposed. The correction reads each state twice a token. */
    FEW_TOKENS = 4,
    FEW_CORRECTED = 2
};

/* Parts of a task's workspace: offsets. */
typedef struct room {
    int64_t tiles, k, q, decay, decayed, gate, v, o, z, skip, beta, spare, bytes;
} room;

typedef struct execution {
    const fv_rule *rule;
    fv_delta_f32_fn *delta;
    fv_sweep_f32_fn *sweep;
    fv_bias_act_residual_f32_fn *activate;
    fv_exp_f32_fn *exp;
    int64_t k_dim, v_dim, heads, width; /* width: whole blocks of columns */
    int64_t queries;                    /* that read one state */
    int64_t blocks, splits, units, tasks;
    room room;
    char *base;
    _Atomic int64_t next;
} execution;

static float *place(char *base, int64_t offset) { return (float *)(void *)(base + offset); }

/* The vectors of a chunk. */
typedef struct chunk {
    int64_t batch, head, first, tokens; /* of the sequence's place in tensors */
    fv_delta call;
} chunk;

static bool direct(const fovea_tensor *t) { return t->dtype == FOVEA_DTYPE_F32 && t->shape[3] % COLUMNS == 0; }

static room layout(const fv_rule *rule, int64_t queries, int64_t width) {
    const int64_t k_dim = rule->k->shape[3], n = fv_min(FV_RULE_TOKENS, rule->sequences.tokens), size = sizeof(float);
    room r = {0};
    r.tiles = fv_reserve(&r.bytes, width * k_dim, size);
    r.k = fv_reserve(&r.bytes, n * k_dim, size);
    r.q = fv_reserve(&r.bytes, queries * n * k_dim, size);
    r.decay = fv_reserve(&r.bytes, n * k_dim, size);
    r.decayed = fv_reserve(&r.bytes, n * k_dim, size);
    r.gate = fv_reserve(&r.bytes, n, size);
    r.v = fv_reserve(&r.bytes, direct(rule->v) ? 0 : n * width, size);
    r.o = fv_reserve(&r.bytes, direct(rule->out) && !rule->z ? 0 : queries * n * width, size);
    r.z = fv_reserve(&r.bytes, rule->z ? n * width : 0, size);
    r.skip = fv_reserve(&r.bytes, rule->skip ? COLUMNS : 0, size);
    r.beta = fv_reserve(&r.bytes, n, size);
    r.spare = fv_reserve(&r.bytes, k_dim * COLUMNS, size);
    return r;
}

/* How work is divided, by sizes and types alone. */
static void divide(const fv_rule *rule, execution *e) {
    const int64_t threads = rule->ctx->threads.count, pairs = rule->sequences.count * rule->sequences.heads;
    e->rule = rule;
    e->k_dim = rule->k->shape[3];
    e->v_dim = rule->v->shape[3];
    e->heads = rule->sequences.heads;
    e->blocks = fv_ceil_div(e->v_dim, COLUMNS);
    e->width = e->blocks * COLUMNS;
    e->queries = fv_max(rule->q->shape[1] / e->heads, 1);
    e->splits = fv_min(e->blocks, fv_max(fv_ceil_div(4 * threads, fv_max(pairs, 1)), 1));
    e->units = pairs * e->splits;
    const double work = rule->sequences.all * (double)e->heads * (double)e->k_dim * (double)e->width;
    e->tasks = work < TASK_ELEMENTS ? 1 : fv_min((int64_t)fmin(work / TASK_ELEMENTS, (double)e->units), threads);
    e->room = layout(rule, e->queries, e->width);
}

int64_t fv_rule_bytes(const fv_rule *rule) {
    execution e;
    int64_t bytes = 0;
    divide(rule, &e);
    if (e.room.bytes < 0)
        return -1;
    fv_reserve(&bytes, e.tasks, e.room.bytes);
    return bytes < 0 || !fv_add(bytes, FV_ALIGNMENT, &bytes) ? -1 : bytes;
}

/* ------------------------------------------------------------------------------------------- vectors of a chunk -- */

static const float *unit_rows(const execution *e, const chunk *c, const fovea_tensor *t, int64_t head, float *to,
                              int64_t *ld) {
    const fv_rule *rule = e->rule;
    *ld = e->k_dim;
    const float *from = fv_rows_floats(rule->ctx, t, c->batch, head, c->first, c->tokens, to, ld);
    if (rule->norm == FOVEA_L2_NONE)
        return from;
    for (int64_t n = 0; n < c->tokens; n++)
        fv_vector_normalize(e->k_dim, from + n * *ld, rule->norm, rule->eps, to + n * e->k_dim);
    *ld = e->k_dim;
    return to;
}

/* The head of k or q that a head of v has, where there are fewer of them. */
static int64_t shared_head(const execution *e, const fovea_tensor *t, int64_t head) {
    return e->rule->tiled_heads ? head % t->shape[1] : head / (e->heads / t->shape[1]);
}

/* n gates from x on, of width channels each, become what exp is taken of; steps gets what the rate multiplies. */
static void finish_gates(const execution *e, int64_t head, int64_t n, int64_t width, float *x, float *steps) {
    const fv_rule *rule = e->rule;
    if (rule->bias || rule->softplus) {
        float one;
        fv_bias_act_residual act = {.activation = rule->softplus ? FV_ACT_SOFTPLUS : FV_ACT_NONE};
        if (rule->bias)
            act.bias = rule->bias + head * width;
        if (width == 1 && rule->bias) { /* one bias for all */
            one = rule->bias[head];
            act.bias = &one;
        }
        if (width == 1 && !rule->bias)
            e->activate(1, n, x, n, &act, x, n);
        else
            e->activate(n, width, x, width, &act, x, width);
    }
    if (rule->limited)
        fv_vector_limit(n * width, rule->low, rule->high, x);
    if (steps)
        memcpy(steps, x, (size_t)n * sizeof *x);
    if (rule->rate) {
        float rate = rule->rate[head];
        if (rule->log_rate) {
            e->exp(1, &rate, &rate);
            rate = -rate;
        }
        fv_vector_scale(n * width, rate, x);
    }
    e->exp(n * width, x, x);
}

static void make_decay(const execution *e, chunk *c, char *base) {
    const fv_rule *rule = e->rule;
    const int64_t n = c->tokens, k_dim = e->k_dim;
    float *decay = place(base, e->room.decay), *decayed = place(base, e->room.decayed),
          *gate = place(base, e->room.gate);
    fv_delta *call = &c->call;
    call->decay = decay;
    if (!rule->gate) {
        fv_vector_fill(k_dim, 1.0F, decay);
        call->lddecay = 0;
        call->decayed = call->k;
        call->lddecayed = call->ldk;
        return;
    }
    call->lddecay = k_dim;
    call->decayed = decayed;
    call->lddecayed = k_dim;
    const fovea_tensor *g = rule->gate;
    const void *from = fv_token_at(g, c->batch, c->head, c->first);
    if (g->shape[3] == 1 && k_dim > 1) {
        fv_to_floats(n, from, g->stride[2], g->dtype, gate, rule->ctx->target);
        finish_gates(e, c->head, n, 1, gate, rule->steps ? place(base, e->room.beta) : NULL);
        for (int64_t t = 0; t < n; t++)
            fv_vector_fill(k_dim, gate[t], decay + t * k_dim);
    } else {
        for (int64_t t = 0; t < n; t++)
            fv_to_floats(k_dim, fv_token_at(g, c->batch, c->head, c->first + t), 1, g->dtype, decay + t * k_dim,
                         rule->ctx->target);
        finish_gates(e, c->head, n, k_dim, decay, rule->steps ? place(base, e->room.beta) : NULL);
    }
    for (int64_t t = 0; t < n && rule->correct; t++)
        fv_vector_multiply(k_dim, call->k + t * call->ldk, decay + t * k_dim, decayed + t * k_dim);
}

static void make_beta(const execution *e, const chunk *c, float *beta) {
    const fv_rule *rule = e->rule;
    const fovea_tensor *b = rule->beta;
    if (!b) {
        fv_vector_fill(c->tokens, 1.0F, beta);
        return;
    }
    fv_to_floats(c->tokens, fv_token_at(b, c->batch, b->shape[1] == 1 ? 0 : c->head, c->first), b->stride[2], b->dtype,
                 beta, rule->ctx->target);
    if (rule->sigmoid)
        e->activate(1, c->tokens, beta, c->tokens, &(fv_bias_act_residual){.activation = FV_ACT_SIGMOID}, beta,
                    c->tokens);
    if (rule->beta_scale != 1.0F)
        fv_vector_scale(c->tokens, rule->beta_scale, beta);
}

static void make_queries(const execution *e, chunk *c, char *base) {
    const fv_rule *rule = e->rule;
    fv_delta *call = &c->call;
    float *to = place(base, e->room.q);
    call->queries = e->queries;
    if (e->queries == 1 && rule->q->shape[1] != e->heads) {
        call->q = unit_rows(e, c, rule->q, shared_head(e, rule->q, c->head), to, &call->ldq);
        return;
    }
    for (int64_t i = e->queries - 1; i >= 0; i--) /* the first one last, whose address stays */
        call->q = unit_rows(e, c, rule->q, c->head * e->queries + i, to + i * c->tokens * e->k_dim, &call->ldq);
    call->q_step = call->q == to ? c->tokens * e->k_dim : rule->q->stride[1];
}

static void make_values(const execution *e, chunk *c, char *base) {
    const fv_rule *rule = e->rule;
    fv_delta *call = &c->call;
    float *to = place(base, e->room.v);
    call->ldv = e->width;
    call->v = fv_rows_floats(rule->ctx, rule->v, c->batch, c->head, c->first, c->tokens, to, &call->ldv);
    if (!direct(rule->v) && call->v != to) {
        rule->ctx->ops.copy(c->tokens, e->v_dim, call->v, call->ldv, to, e->width);
        call->v = to;
        call->ldv = e->width;
    }
}

static void make_vectors(const execution *e, chunk *c, char *base) {
    const fv_rule *rule = e->rule;
    fv_delta *call = &c->call;
    *call = (fv_delta){.tokens = c->tokens, .rows = e->k_dim, .scale = rule->scale, .correct = rule->correct};
    call->k = unit_rows(e, c, rule->k, shared_head(e, rule->k, c->head), place(base, e->room.k), &call->ldk);
    make_queries(e, c, base);
    make_values(e, c, base);
    if (!rule->steps)
        make_beta(e, c, place(base, e->room.beta));
    make_decay(e, c, base);
    call->beta = place(base, e->room.beta);
    if (rule->skip) {
        fv_vector_fill(COLUMNS, rule->skip[c->head], place(base, e->room.skip));
        call->skip = place(base, e->room.skip);
    }
    if (direct(rule->out) && !rule->z) {
        call->o = fv_token_at(rule->out, c->batch, c->head * e->queries, c->first);
        call->ldo = rule->out->stride[2];
        call->o_step = rule->out->stride[1];
    } else {
        call->o = place(base, e->room.o);
        call->ldo = e->width;
        call->o_step = c->tokens * e->width;
    }
}

/* Outputs of a unit's columns that are not where they belong. */
static void write_outputs(const execution *e, const chunk *c, char *base, int64_t column, int64_t columns) {
    const fv_rule *rule = e->rule;
    const fovea_tensor *out = rule->out;
    fv_narrow_bf16_fn *narrow = fv_narrow_of(out->dtype, rule->ctx->target);
    if (direct(out) && !rule->z)
        return;
    for (int64_t i = 0; i < e->queries; i++) {
        float *o = place(base, e->room.o) + i * c->call.o_step + column;
        if (rule->z) {
            int64_t ld = e->width;
            const float *z =
                fv_rows_floats(rule->ctx, rule->z, c->batch, c->head, c->first, c->tokens, place(base, e->room.z), &ld);
            const fv_bias_act_residual act = {.activation = FV_ACT_SILU, .up = o, .ldup = e->width};
            e->activate(c->tokens, columns, z + column, ld, &act, o, e->width);
        }
        char *to =
            (char *)fv_token_at(out, c->batch, c->head * e->queries + i, c->first) + column * fv_dtype_size(out->dtype);
        if (narrow)
            narrow(c->tokens, columns, o, e->width, (uint16_t *)(void *)to, out->stride[2]);
        else
            rule->ctx->ops.copy(c->tokens, columns, o, e->width, (float *)(void *)to, out->stride[2]);
    }
}

/* -------------------------------------------------------------------------------------------------------- units -- */

/* Fetches a block that is stored by columns into the second-level cache: transposed, lines come in an order that no
 * hardware foresees. The block may lie behind the state. */
static void fetch(const fv_state *state, int64_t rows, int64_t column) {
    enum { LINE = 64 };
    const uintptr_t size = sizeof(float);
    if (!state->data || !state->by_columns || state->dtype != FOVEA_DTYPE_F32)
        return;
    for (int64_t j = column; j < column + COLUMNS; j++)
        for (uintptr_t at = 0; at < (uintptr_t)rows * size; at += LINE)
            __builtin_prefetch((const void *)((uintptr_t)state->data + (uintptr_t)(j * state->stride) * size + at), 0,
                               2);
}

/* One block of columns through a chunk. The first chunk begins with the state before, done tokens are behind it. */
static void run_block(const execution *e, chunk *c, int64_t sequence, int64_t block, int64_t done, int64_t all,
                      char *base) {
    const fv_sequences *s = &e->rule->sequences;
    const int64_t column = block * COLUMNS, columns = fv_min(e->v_dim - column, COLUMNS), slot = all - done - c->tokens;
    const fv_state before = fv_state_before(s, sequence, c->head), after = fv_state_after(s, sequence, c->head, slot);
    const bool last = slot == 0;
    float *tile = place(base, e->room.tiles) + column * e->k_dim, *spare = place(base, e->room.spare);
    float *from = done == 0 && c->tokens > 0 ? fv_state_in_place(&before, false, column, e->v_dim) : NULL;
    float *to = last && c->tokens > 0 ? fv_state_in_place(&after, false, column, e->v_dim) : NULL;
    if (done == 0 && !from)
        fv_state_load(e->rule->ctx, &before, e->k_dim, column, columns, tile, COLUMNS, spare);
    if (last)
        fetch(&after, e->k_dim, column);
    if (done == 0)
        fetch(&before, e->k_dim, column + COLUMNS);
    fv_delta call = c->call;
    call.v += column;
    call.o += column;
    call.from = from ? from : tile;
    call.ldfrom = from ? before.stride : COLUMNS;
    call.tile = tile;
    call.to = to ? to : tile;
    call.ldto = to ? after.stride : COLUMNS;
    if (c->tokens > 0)
        e->delta(&call);
    if (!to)
        fv_state_store(e->rule->ctx, &after, e->k_dim, column, columns, tile, COLUMNS, spare);
}

/* Columns [begin, end) of a head through all of its tokens, if states by columns can stay as they are. */
static bool run_columns(const execution *e, const chunk *c, int64_t sequence, int64_t begin, int64_t end) {
    const fv_state before = fv_state_before(&e->rule->sequences, sequence, c->head),
                   after = fv_state_after(&e->rule->sequences, sequence, c->head, 0);
    fv_delta call = c->call;
    if (c->tokens == 0 || c->tokens > (call.correct ? FEW_CORRECTED : FEW_TOKENS) || call.queries > 1 || call.skip ||
        e->k_dim % FV_LANES != 0)
        return false;
    call.from = fv_state_in_place(&before, true, begin, end);
    call.to = fv_state_in_place(&after, true, begin, end);
    if (!call.from || !call.to)
        return false;
    call.ldfrom = before.stride;
    call.ldto = after.stride;
    call.v += begin;
    call.o += begin;
    fv_columns_run(e->sweep, &call, end - begin);
    return true;
}

static void run_unit(const execution *e, int64_t unit, char *base) {
    const fv_sequences *s = &e->rule->sequences;
    const int64_t part = unit % e->splits, pair = unit / e->splits, sequence = pair / e->heads;
    const int64_t begin = part * e->blocks / e->splits, end = (part + 1) * e->blocks / e->splits;
    chunk c = {.head = pair % e->heads};
    int64_t first;
    const int64_t all = fv_sequence_tokens(s, sequence, &c.batch, &first);
    int64_t done = 0;
    do {
        c.first = first + done;
        c.tokens = fv_sequence_chunk(s, FV_RULE_TOKENS, all - done);
        if (c.tokens > 0)
            make_vectors(e, &c, base);
        const bool whole = c.tokens == all && e->v_dim % COLUMNS == 0;
        const bool done_in_place = whole && run_columns(e, &c, sequence, begin * COLUMNS, end * COLUMNS);
        for (int64_t block = begin; block < end && !done_in_place; block++)
            run_block(e, &c, sequence, block, done, all, base);
        if (c.tokens > 0)
            write_outputs(e, &c, base, begin * COLUMNS, fv_min(end * COLUMNS, e->v_dim) - begin * COLUMNS);
        done += c.tokens;
    } while (done < all);
}

static void run_task(void *arg, int64_t task) {
    execution *e = arg;
    char *base = e->base + task * e->room.bytes;
    if (!direct(e->rule->v)) /* columns past the last are computed, too */
        memset(place(base, e->room.v), 0,
               (size_t)(fv_min(FV_RULE_TOKENS, e->rule->sequences.tokens) * e->width) * sizeof(float));
    for (int64_t unit, end; (unit = fv_claim(&e->next, e->units, e->tasks, &end)) < end;)
        for (; unit < end; unit++)
            run_unit(e, unit, base);
}

fovea_status fv_rule_run(const fv_rule *rule, void *workspace, size_t workspace_size) {
    execution e = {
        .delta = fv_kernel_best(FV_OP_delta, FV_TYPE_f32, rule->ctx->target)->run.delta_f32,
        .sweep = fv_kernel_best(FV_OP_sweep, FV_TYPE_f32, rule->ctx->target)->run.sweep_f32,
        .activate = fv_kernel_best(FV_OP_bias_act_residual, FV_TYPE_f32, rule->ctx->target)->run.bias_act_residual_f32,
        .exp = fv_kernel_best(FV_OP_exp, FV_TYPE_f32, rule->ctx->target)->run.exp_f32};
    void *own;
    divide(rule, &e);
    const fovea_status status = fv_call_workspace(fv_rule_bytes(rule), workspace, workspace_size, &own, &e.base);
    if (status != FOVEA_OK)
        return status;
    fv_sequences_clear(&rule->sequences, rule->out, false);
    fv_sequences_begin(&rule->sequences);
    if (e.units > 0)
        fv_parallel(&rule->ctx->threads, e.tasks, &(fv_work){.task = run_task, .arg = &e});
    fv_sequences_end(&rule->sequences);
    free(own);
    return FOVEA_OK;
}
