/* Executing a layer: all arguments are checked first, then projections go to the workspace as attention reads them,
 * heads next to each other as W^O reads them, and the result to the caller. Nothing is transposed or copied between. */
#include "attention/attention.h"
#include "core/core.h"
#include "linear/linear.h"
#include "mha/mha.h"

#include <stdlib.h>
#include <string.h>

typedef struct run {
    const fovea_mha *mha;
    const fovea_attention_args *args;    /* the caller's */
    fovea_attention_args inner;          /* of the heads' attention */
    int64_t batch, tokens[FV_MHA_ROLES]; /* of the tensors */
    char *base;
    void *scratch;
} run;

static const fovea_tensor *input_of(const fovea_attention_args *args, int role) {
    return role == FV_MHA_Q ? &args->q : role == FV_MHA_K ? &args->k : &args->v;
}

static void *memory_at(const run *r, int64_t at) { return r->base + at; }

/* -------------------------------------------------------------------------------------------------------- checks -- */

/* The shape of the tensors: as described, or one axis of the tokens that are given. */
static fovea_status read_shape(run *r) {
    const fovea_mha *m = r->mha;
    const fovea_attention_desc *a = &m->attention;
    const fovea_tensor *keys = input_of(r->args, fv_mha_input(&m->desc, FV_MHA_K));
    r->batch = a->packed ? 1 : a->batch;
    for (int i = 0; i < FV_MHA_ROLES; i++) {
        const bool queries = i == FV_MHA_Q || fv_mha_cached(m);
        r->tokens[i] = queries ? a->q_len : a->kv_len;
        if (!a->packed)
            continue;
        r->tokens[i] = queries ? r->args->q.shape[2] : keys->data ? keys->shape[2] : 0;
        if (r->tokens[i] < 0 || r->tokens[i] > m->rows[i])
            return fv_fail(FOVEA_ERROR_SHAPE, "%s has %lld tokens; this layer takes from 0 to %lld",
                           i == FV_MHA_Q ? "q" : "the keys' input", (long long)r->tokens[i], (long long)m->rows[i]);
    }
    return FOVEA_OK;
}

/* Rows of features in any number of groups. */
static fovea_status check_rows(const fovea_tensor *t, const char *name, fovea_dtype dtype, int64_t batch,
                               int64_t tokens, int64_t features, bool output, fv_span *span) {
    int64_t channels;
    *span = (fv_span){name, 0, 0};
    if (!t->data && (batch == 0 || tokens == 0))
        return FOVEA_OK;
    if (!t->data)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", name);
    if (t->shape[1] < 1 || t->shape[3] < 1 || !fv_multiply(t->shape[1], t->shape[3], &channels) || channels != features)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s has %lld group%s of %lld channel%s, but the layer has %lld channels",
                       name, (long long)t->shape[1], fv_plural(t->shape[1]), (long long)t->shape[3],
                       fv_plural(t->shape[3]), (long long)features);
    const fv_tensor_rule rule = {name, dtype, {batch, t->shape[1], tokens, t->shape[3]}, output, false};
    return fv_tensor_check(t, &rule, span);
}

/* An input of a role, if it is the one that is given for it. */
static fovea_status check_input(const run *r, int role, fv_span *span) {
    static const char *const names[] = {"q", "k", "v"};
    const fovea_mha *m = r->mha;
    const fovea_tensor *t = input_of(r->args, role);
    const int64_t tokens = r->tokens[role];
    *span = (fv_span){names[role], 0, 0};
    if (fv_mha_input(&m->desc, role) != role)
        return t->data ? fv_fail(FOVEA_ERROR_ARGUMENT, "%s is given, but inputs is %s, which does not use it",
                                 names[role], fv_enum_name(FV_ENUM_mha_inputs, (int)m->desc.inputs))
                       : FOVEA_OK;
    if (tokens == 0)
        return FOVEA_OK;
    const fv_mha_role *x = &m->shape.role[role];
    const bool heads = m->desc.form == FOVEA_MHA_PROJECTED;
    const fovea_status status = check_rows(t, names[role], x->dtype, r->batch, tokens,
                                           heads ? x->heads * x->channels : x->features, false, span);
    if (status == FOVEA_OK && heads && t->shape[1] != x->heads)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s has %lld head%s, but the description says %lld", names[role],
                       (long long)t->shape[1], fv_plural(t->shape[1]), (long long)x->heads);
    return status;
}

/* Inputs that every head reads as they are must be rows. */
static fovea_status check_shared(const run *r) {
    static const char *const names[] = {"q", "k", "v"};
    for (int i = 0; i < FV_MHA_ROLES; i++) {
        const int input = fv_mha_input(&r->mha->desc, i);
        const fovea_tensor *t = input_of(r->args, input);
        if (r->mha->shape.role[i].shared && t->data && t->shape[1] > 1 && t->stride[1] != t->shape[3] &&
            !fv_tensor_empty(t))
            return fv_fail(FOVEA_ERROR_STRIDE, "%s: this form reads whole rows, so its groups must be contiguous",
                           names[input]);
    }
    return FOVEA_OK;
}

/* Operands of the heads' attention that the layer passes on, and that none overlaps another that is written. */
static fovea_status check_overlaps(const run *r, const fv_span *inputs, const fv_span *out, const fv_span *workspace) {
    const fovea_attention_args *args = r->args;
    const fovea_attention_desc *a = &r->mha->attention;
    const int64_t queries = r->tokens[FV_MHA_Q], keys = a->page_keys > 0 ? a->kv_len : r->tokens[FV_MHA_K];
    const fovea_tensor *tensors[] = {&args->lse, &args->weights, &args->bias, &args->relative};
    const fv_tensor_rule rules[] = {
        {"lse", FOVEA_DTYPE_F32, {r->batch, a->q_heads, queries, 1}, true, false},
        {"weights", FOVEA_DTYPE_F32, {r->batch, a->q_heads, queries, keys}, true, false},
        {"bias", FOVEA_DTYPE_F32, {r->batch, a->q_heads, queries, keys}, false, true},
        {"relative", FOVEA_DTYPE_F32, {a->batch, a->q_heads, 1, args->relative.shape[3]}, false, true}};
    enum {
        TENSORS = sizeof tensors / sizeof tensors[0],
        STATS = TENSORS,
        OUTPUTS,
        OUT = OUTPUTS + FV_ATTENTION_OUTPUTS,
        INPUTS,
        ARRAYS = INPUTS + FV_MHA_ROLES,
        MASKS = ARRAYS + FV_ATTENTION_ARRAYS,
        OPERANDS = MASKS + 2
    };
    fv_span spans[OPERANDS] = {[STATS] = fv_struct_span("stats", args->stats), [OUT] = *out};
    bool written[OPERANDS] = {[STATS] = true, [OUT] = true};
    memcpy(spans + INPUTS, inputs, FV_MHA_ROLES * sizeof *inputs);
    fv_attention_array_spans(a, args, spans + ARRAYS);
    fovea_status status = fv_attention_check_mask(a, &r->inner, spans + MASKS);
    if (status == FOVEA_OK)
        status = fv_attention_check_outputs(a, &r->inner, spans + OUTPUTS);
    for (int i = 0; i < FV_ATTENTION_OUTPUTS_WRITTEN; i++)
        written[OUTPUTS + i] = true;
    for (int i = 0; status == FOVEA_OK && i < TENSORS; i++) {
        written[i] = rules[i].output;
        if (tensors[i]->data)
            status = fv_tensor_check(tensors[i], &rules[i], &spans[i]);
    }
    return status == FOVEA_OK ? fv_spans_apart(spans, written, OPERANDS, workspace) : status;
}

static fovea_status check(const run *r, const fv_span *workspace) {
    const fovea_mha *m = r->mha;
    const fovea_attention_desc *a = &m->attention;
    fv_span inputs[FV_MHA_ROLES], out;
    fovea_status status = FOVEA_OK;
    if (r->args->state)
        return fv_fail(FOVEA_ERROR_UNSUPPORTED, "state is given: layers take their keys in one piece");
    if (fv_mha_cached(m))
        status = fv_mha_cached_check(m, r->args);
    for (int i = 0; status == FOVEA_OK && i < FV_MHA_ROLES; i++)
        status = check_input(r, i, &inputs[i]);
    if (status == FOVEA_OK)
        status = check_shared(r);
    if (status == FOVEA_OK && m->packed->out)
        status =
            check_rows(&r->args->out, "out", a->out_dtype, r->batch, r->tokens[FV_MHA_Q], m->shape.o_out, true, &out);
    else if (status == FOVEA_OK) {
        const fv_tensor_rule rule = {"out",
                                     a->out_dtype,
                                     {r->batch, a->q_heads, r->tokens[FV_MHA_Q], m->shape.role[FV_MHA_V].channels},
                                     true,
                                     false};
        out = (fv_span){"out", 0, 0};
        if (r->args->out.data)
            status = fv_tensor_check(&r->args->out, &rule, &out);
        else if (r->batch > 0 && r->tokens[FV_MHA_Q] > 0)
            status = fv_fail(FOVEA_ERROR_NULL, "out is NULL");
    }
    if (status == FOVEA_OK)
        status = check_overlaps(r, inputs, &out, workspace);
    return status;
}

/* ----------------------------------------------------------------------------------------------------- execution -- */

/* Attention's operand for a role: its projection, or the input as it is. */
static fovea_tensor operand_of(const run *r, int role) {
    const fovea_mha *m = r->mha;
    const fv_mha_role *x = &m->shape.role[role];
    const fovea_attention_desc *a = &m->attention;
    if (x->projected)
        return fovea_tensor_bhtd(memory_at(r, m->at[x->same_as]), x->dtype, r->batch, x->heads, r->tokens[role],
                                 x->channels);
    fovea_tensor t = *input_of(r->args, fv_mha_input(&m->desc, role));
    if (x->shared) {
        t.shape[1] = role == FV_MHA_Q ? a->q_heads : a->kv_heads;
        t.shape[3] = x->channels;
        t.stride[1] = 0;
    }
    return t;
}

static void make_inner(run *r) {
    const fovea_mha *m = r->mha;
    const fovea_attention_desc *a = &m->attention;
    r->inner = *r->args;
    r->inner.q = operand_of(r, FV_MHA_Q);
    r->inner.k = operand_of(r, FV_MHA_K);
    r->inner.v = operand_of(r, FV_MHA_V);
    if (fv_mha_cached(m)) /* attention has them from the cache */
        r->inner.k.data = r->inner.v.data = NULL;
    if (m->packed->out)
        r->inner.out = fovea_tensor_bthd(memory_at(r, m->heads_at), m->shape.heads_dtype, r->batch, r->tokens[FV_MHA_Q],
                                         a->q_heads, m->shape.role[FV_MHA_V].channels);
}

/* Packed sequences, first to last: their tokens are [starts[0], starts[0] + lens[0]) and so on. */
typedef struct side {
    const int64_t *starts, *lens; /* lens NULL: up to the next one's start */
    int64_t left;                 /* 0: not used */
} side;

typedef struct piece {
    int64_t begin, end;
} piece;

static side side_of(const run *r, bool used, bool keys) {
    const fovea_attention_args *args = r->args;
    return (side){keys ? args->kv_cu_seqlens : args->q_cu_seqlens, keys ? args->kv_lens : args->q_lens,
                  used ? r->mha->attention.batch : 0};
}

static piece piece_of(const side *s) {
    return (piece){s->starts[0], s->lens ? s->starts[0] + s->lens[0] : s->starts[1]};
}

/* Takes the sequence that begins first off its side. false: none is left. */
static bool take_piece(side sides[2], piece *p) {
    side *first = NULL;
    for (int i = 0; i < 2; i++)
        if (sides[i].left > 0 && (!first || sides[i].starts[0] < first->starts[0]))
            first = &sides[i];
    if (!first)
        return false;
    *p = piece_of(first);
    *first = (side){first->starts + 1, first->lens ? first->lens + 1 : NULL, first->left - 1};
    return true;
}

/* Maps tokens [begin, end), or all tokens up to lens of each sequence. y: count of them. */
static void map_tokens(const run *r, const fovea_linear *map, const fovea_tensor *x, const fovea_tensor *y,
                       int64_t count, const int64_t *lens, piece p) {
    fovea_tensor part[FV_MHA_ROLES];
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    for (int64_t i = 0; i < count; i++)
        part[i] = fovea_tensor_tokens(y[i], p.begin, p.end - p.begin);
    args.x = fovea_tensor_tokens(*x, p.begin, p.end - p.begin);
    args.y = part;
    args.lens = lens;
    if (r->batch > 0 && p.end > p.begin)
        fv_linear_run(r->mha->ctx, map, &args, r->scratch);
}

/* Maps the tokens of packed sequences: those of queries, of keys or of either, runs of them at once. */
static void map_packed(const run *r, const fovea_linear *map, const fovea_tensor *x, const fovea_tensor *y,
                       int64_t count, bool queries, bool keys) {
    side sides[2] = {side_of(r, queries, false), side_of(r, keys, true)};
    piece whole = {0, 0}, next;
    while (take_piece(sides, &next)) {
        if (next.begin > whole.end) {
            map_tokens(r, map, x, y, count, NULL, whole);
            whole = next;
        } else
            whole.end = fv_max(whole.end, next.end);
    }
    map_tokens(r, map, x, y, count, NULL, whole);
}

/* Rows of an input up to the last that somebody reads: a query, a key, of an input of both either. NULL: all. */
static const int64_t *lens_of(const run *r, bool queries, bool keys) {
    const fovea_attention_args *args = r->args;
    if ((queries && !args->q_lens) || (keys && !args->kv_lens))
        return NULL;
    int64_t *lens = (int64_t *)(void *)(r->base + r->mha->lens_at);
    for (int64_t b = 0; b < r->mha->attention.batch; b++) {
        const int64_t q_end = queries ? args->q_lens[b] + (args->q_starts ? args->q_starts[b] : 0) : 0;
        const int64_t kv_end = keys ? args->kv_lens[b] + (args->kv_starts ? args->kv_starts[b] : 0) : 0;
        lens[b] = fv_max(q_end, kv_end);
    }
    return lens;
}

/* The roles that a map makes of an input, if there are any. */
static void project(const run *r, int input, int map) {
    const fovea_mha *m = r->mha;
    fovea_tensor y[FV_MHA_ROLES];
    int64_t count = 0;
    for (int i = 0; i < FV_MHA_ROLES; i++)
        if (m->shape.role[i].projected && m->shape.role[i].same_as == i && fv_mha_input(&m->desc, i) == input &&
            m->packed->map_of[i] == map)
            y[count++] = operand_of(r, i);
    const fovea_tensor *x = input_of(r->args, input);
    const bool both = m->desc.inputs == FOVEA_MHA_SELF, queries = both || input == FV_MHA_Q,
               keys = (both || input != FV_MHA_Q) && !fv_mha_cached(m);
    if (count > 0 && m->attention.packed)
        map_packed(r, m->packed->map[map], x, y, count, queries, keys);
    else if (count > 0)
        map_tokens(r, m->packed->map[map], x, y, count, lens_of(r, queries, keys), (piece){0, r->tokens[input]});
}

/* Attention over what was projected. Fails before an output is written. */
static fovea_status attend(const run *r) {
    const fovea_mha *m = r->mha;
    const fovea_tensor q = operand_of(r, FV_MHA_Q), k = operand_of(r, FV_MHA_K), v = operand_of(r, FV_MHA_V);
    int64_t *positions = memory_at(r, m->positions_at);
    fovea_status status = fv_mha_norm(m, &q, &k, r->scratch);
    if (status != FOVEA_OK || !fv_mha_cached(m))
        return status == FOVEA_OK ? fv_attention_run(m->plan, &r->inner, r->scratch) : status;
    status = fv_mha_cached_append(m, r->args, &q, &k, &v, positions);
    if (status != FOVEA_OK)
        return status;
    status = fv_attention_run(m->plan, &r->inner, r->scratch);
    if (status != FOVEA_OK)
        fv_mha_cached_undo(m, r->args, positions);
    return status;
}

static fovea_status execute(const run *r) {
    const fovea_mha *m = r->mha;
    for (int i = 0; i < FV_MHA_ROLES * FV_MHA_ROLES; i++)
        project(r, i / FV_MHA_ROLES, i % FV_MHA_ROLES);
    const fovea_status status = attend(r);
    if (status != FOVEA_OK)
        return status;
    if (!m->packed->out)
        return FOVEA_OK;
    const int64_t tokens = r->tokens[FV_MHA_Q];
    const fovea_tensor heads =
        fovea_tensor_bhtd(memory_at(r, m->heads_at), m->shape.heads_dtype, r->batch, 1, tokens, m->shape.o_in);
    if (m->attention.packed)
        map_packed(r, m->packed->out, &heads, &r->args->out, 1, true, false);
    else
        map_tokens(r, m->packed->out, &heads, &r->args->out, 1, NULL, (piece){0, tokens});
    return FOVEA_OK;
}

fovea_status fovea_mha_execute(const fovea_mha *mha, const fovea_attention_args *args, void *workspace,
                               size_t workspace_size) {
    FV_HOLD_EXCEPTIONS();
    if (!mha || !args)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", mha ? "args" : "mha");
    fovea_attention_args own_args;
    fovea_status status;
    args = fv_attention_read_args(args, &own_args, &status);
    if (status != FOVEA_OK)
        return status;
    if (workspace && workspace_size < (size_t)mha->bytes)
        return fv_fail(FOVEA_ERROR_WORKSPACE, "workspace has %zu bytes, but this layer needs %lld", workspace_size,
                       (long long)mha->bytes);
    void *own = NULL;
    if (!workspace) {
        own = workspace = malloc((size_t)mha->bytes);
        if (!own)
            return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for a workspace of %lld bytes", (long long)mha->bytes);
    }
    const uintptr_t begin = (uintptr_t)workspace;
    run r = {.mha = mha, .args = args, .base = fv_aligned(workspace)};
    r.scratch = r.base + mha->inner_at;
    const fv_span span = {"the workspace", begin, begin + (uintptr_t)mha->bytes};
    status = read_shape(&r);
    if (status == FOVEA_OK) {
        make_inner(&r);
        status = check(&r, &span);
    }
    if (status == FOVEA_OK)
        status = fv_attention_check_args(mha->plan, &r.inner, r.scratch, (size_t)mha->inner_bytes);
    if (status == FOVEA_OK)
        status = execute(&r);
    free(own);
    return status;
}
