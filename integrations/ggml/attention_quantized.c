/* Keys or values in q8_0 or q4_0. Each thread takes a key head of a sequence, with all heads and rows that it serves,
 * and goes over its keys in pieces that stay in its cache: it widens a piece to float32, exactly, and attends to it.
 * The state between pieces makes this the result of one call, bit for bit. */
#include "attention_part.h"

#include <math.h>
#include <stdatomic.h>

/* Bytes of a widened piece, keys and values: what stays in a second-level cache of 512 KiB. */
enum { PIECE_BYTES = 256 << 10, SEGMENT = 256, LINE = 64 };

typedef struct work {
    const fg_attention *a;
    fg_team *team;
    const fovea_attention_plan *whole, *last; /* of a piece, and of the last one */
    int64_t rows, row_parts;                  /* of an item; how many items share a key head */
    int64_t piece, items;
    size_t thread_bytes, k_at, v_at, shifted_at, bias_at, state_at, state_size, workspace_at, workspace_size;
    char *memory;
    _Atomic int64_t next;
    _Atomic int status;
} work;

static size_t lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

/* Widens rows of blocks, row_bytes apart, to contiguous float32. A row with a scale that is not finite becomes NaN,
 * which matters only if the row is seen. */
static void widen(const fovea_context *context, fovea_matrix rows, int64_t row_bytes, float *to) {
    if (fovea_dequantize(context, &rows, to) == FOVEA_OK)
        return;
    const int64_t count = rows.out;
    rows.out = 1;
    for (int64_t r = 0; r < count; r++, to += rows.in, rows.data = (const char *)rows.data + row_bytes) {
        const bool finite = fovea_dequantize(context, &rows, to) == FOVEA_OK;
        for (int64_t i = 0; !finite && i < rows.in; i++)
            to[i] = NAN;
    }
}

/* Keys or values of a piece as a tensor [1, 1, keys, channels], widened if they are quantized. */
static fovea_tensor piece_of(const work *w, const struct ggml_tensor *t, const fg_type *type, const fg_part *part,
                             float *widened) {
    const int64_t kv_head = part->head / part->heads;
    const fovea_tensor x = fg_attention_tensor(t, w->a->batch);
    if (type->block == 1)
        return fg_attention_view(x, part->sequence, 1, kv_head, 1, part->key, part->keys);
    const int64_t first = x.stride[0] * part->sequence + x.stride[1] * kv_head + x.stride[2] * part->key;
    const fovea_matrix rows = {.data = (const char *)t->data + first * type->bytes,
                               .dtype = type->dtype,
                               .in = t->ne[0],
                               .out = part->keys,
                               .in_stride = 1,
                               .out_stride = x.stride[2] * type->block};
    widen(w->team->context, rows, (int64_t)t->nb[1], widened);
    return fovea_tensor_bhtd(widened, FOVEA_DTYPE_F32, 1, 1, part->keys, t->ne[0]);
}

static fovea_status compute_piece(const work *w, char *memory, fg_part *part, fovea_attention_args *args) {
    const fg_attention *a = w->a;
    const bool last = part->key + part->keys == a->keys;
    const fovea_attention_plan *plan = last ? w->last : w->whole;
    args->k = piece_of(w, a->k, a->k_type, part, (float *)(void *)(memory + w->k_at));
    args->v = piece_of(w, a->v, a->v_type, part, (float *)(void *)(memory + w->v_at));
    args->mask = fg_mask_part(a, part, (int64_t *)(void *)(memory + w->shifted_at));
    if (a->seen.has_bias)
        args->bias = fg_mask_bias(a, w->team, part, (float *)(void *)(memory + w->bias_at));
    args->first_key = part->key;
    if (last) {
        const struct ggml_tensor *o = a->out;
        args->out = (fovea_tensor){.data = (char *)o->data + part->sequence * (int64_t)o->nb[3] +
                                           part->head * (int64_t)o->nb[1] + part->row * (int64_t)o->nb[2],
                                   .dtype = FOVEA_DTYPE_F32,
                                   .shape = {1, part->heads, part->rows, a->value_dim},
                                   .stride = {(int64_t)o->nb[3] / 4, (int64_t)o->nb[1] / 4, (int64_t)o->nb[2] / 4, 1}};
    }
    return fovea_attention_execute(plan, args, memory + w->workspace_at, w->workspace_size);
}

static fovea_status compute_item(const work *w, char *memory, int64_t item) {
    const fg_attention *a = w->a;
    const int64_t group = a->heads / a->kv_heads, head = item / w->row_parts, row = item % w->row_parts * w->rows;
    fg_part part = {.sequence = head / a->kv_heads,
                    .sequences = 1,
                    .head = head % a->kv_heads * group,
                    .heads = group,
                    .row = row,
                    .rows = w->rows};
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fg_attention_view(fg_attention_tensor(a->q, a->batch), part.sequence, 1, part.head, group, row, part.rows);
    args.sinks = a->sinks ? (const float *)a->sinks->data + part.head : NULL;
    fovea_status status = fovea_attention_state_init(w->last, memory + w->state_at, w->state_size, &args.state);
    for (part.key = 0; part.key < a->keys && status == FOVEA_OK; part.key += w->piece) {
        part.keys = a->keys - part.key < w->piece ? a->keys - part.key : w->piece;
        status = compute_piece(w, memory, &part, &args);
    }
    return status;
}

static void compute_items(void *arg, int64_t thread) {
    work *w = arg;
    for (int64_t item; (item = atomic_fetch_add(&w->next, 1)) < w->items;) {
        const fovea_status status = compute_item(w, w->memory + (size_t)thread * w->thread_bytes, item);
        if (status != FOVEA_OK) {
            fg_status(status, "FLASH_ATTN_EXT");
            atomic_store(&w->status, (int)status);
        }
    }
}

/* How many parts of equal size the rows of a key head are computed in, so that there is an item for each thread. */
static int64_t row_parts(int64_t rows, int64_t heads, int64_t threads) {
    int64_t parts = 1;
    for (int64_t n = 2; n <= rows && heads * parts < threads; n++)
        if (rows % n == 0)
            parts = n;
    return parts;
}

static size_t most(size_t a, size_t b) { return a > b ? a : b; }

static enum ggml_status make_plans(work *w, fg_backend *backend) {
    const fg_attention *a = w->a;
    fg_part part = {.sequences = 1, .heads = a->heads / a->kv_heads, .rows = w->rows};
    const int64_t tail = a->keys % w->piece;
    const int64_t lengths[] = {w->piece, tail ? tail : w->piece};
    const fovea_attention_plan **plans[] = {&w->whole, &w->last};
    for (int i = 0; i < 2; i++) {
        fovea_attention_desc desc;
        part.keys = lengths[i];
        fg_attention_desc(a, &part, &desc);
        desc.k_dtype = a->k_type->block > 1 ? FOVEA_DTYPE_F32 : a->k_type->dtype;
        desc.v_dtype = a->v_type->block > 1 ? FOVEA_DTYPE_F32 : a->v_type->dtype;
        if (!(*plans[i] = fg_attention_plan(backend, w->team, &desc)))
            return GGML_STATUS_FAILED;
    }
    part.keys = w->piece;
    w->workspace_size =
        most(fovea_attention_plan_workspace_size(w->whole), fovea_attention_plan_workspace_size(w->last));
    w->state_size = most(fovea_attention_plan_state_size(w->whole), fovea_attention_plan_state_size(w->last));
    const struct {
        size_t *at, bytes;
    } parts[] = {
        {&w->k_at, (size_t)(w->piece * a->head_dim) * sizeof(float)},
        {&w->v_at, (size_t)(w->piece * a->value_dim) * sizeof(float)},
        {&w->shifted_at, (size_t)(part.heads * part.rows * 2) * sizeof(int64_t)},
        {&w->bias_at, a->seen.has_bias ? (size_t)fg_mask_bias_size(a, &part) * sizeof(float) : 0},
        {&w->state_at, w->state_size},
        {&w->workspace_at, w->workspace_size},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i].at = w->thread_bytes;
        w->thread_bytes += lines(parts[i].bytes);
    }
    return GGML_STATUS_SUCCESS;
}

enum ggml_status fg_attention_quantized(fg_backend *backend, fg_team *team, const fg_attention *a) {
    const int64_t heads = a->batch * a->kv_heads;
    work w = {.a = a, .team = team, .row_parts = row_parts(a->rows, heads, team->threads)};
    const int64_t bytes_of_key = (a->head_dim + a->value_dim) * (int64_t)sizeof(float);
    w.piece = PIECE_BYTES / bytes_of_key / SEGMENT * SEGMENT;
    w.piece = w.piece > SEGMENT ? w.piece : SEGMENT;
    w.rows = a->rows / w.row_parts;
    w.items = heads * w.row_parts;
    const int64_t threads = w.items < team->threads ? w.items : team->threads;
    enum ggml_status status = make_plans(&w, backend);
    if (status != GGML_STATUS_SUCCESS)
        return status;
    w.memory = fg_memory_get(&backend->widened, (size_t)threads * w.thread_bytes);
    if (!w.memory)
        return GGML_STATUS_ALLOC_FAILED;
    status = fg_status(fovea_parallel(team->context, threads, compute_items, &w), "FLASH_ATTN_EXT");
    return status == GGML_STATUS_SUCCESS && atomic_load(&w.status) ? GGML_STATUS_FAILED : status;
}
