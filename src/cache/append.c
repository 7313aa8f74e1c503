/* Appending (fovea/cache.h): all pages are taken, then all bytes are written, then sequences are longer. */
#include "cache/pool.h"

#include <string.h>

void fovea_kv_append_init_size(fovea_kv_append *append, size_t size) {
    const fovea_kv_append nothing = {0};
    fv_struct_init(append, size, &nothing, sizeof nothing);
}

/* One call. */
typedef struct appending {
    const fovea_kv_cache *cache;
    const fovea_kv_append *args;
    const fovea_rope *rope; /* NULL: keys stay as they are */
    fv_growth growth;
    fv_converter k, v;     /* of int8 keys or values: to float32 */
    int64_t tokens, tasks; /* of all sequences */
} appending;

/* Tokens of the sequence at a place of the call, and where the first is in the tensors. */
static int64_t tokens_of(const fovea_kv_append *a, int64_t place) {
    return a->cu_seqlens ? a->cu_seqlens[place + 1] - a->cu_seqlens[place] : a->lens ? a->lens[place] : a->k.shape[2];
}

static const char *row_of(const fovea_kv_append *a, const fovea_tensor *t, int64_t place, int64_t head, int64_t token) {
    const int64_t batch = a->cu_seqlens ? 0 : place, first = a->cu_seqlens ? a->cu_seqlens[place] : 0;
    return (const char *)t->data +
           (batch * t->stride[0] + head * t->stride[1] + (first + token) * t->stride[2]) * fv_dtype_size(t->dtype);
}

/* A key's row in the cache's type; rotated floats of int8 keys become integers in their place. Not inline: the row is
 * on the stack only here. */
static __attribute__((noinline)) void write_key(const appending *x, const fv_rope_turn *turn, const char *from,
                                                int32_t page, int64_t head, int64_t position) {
    const fv_converter none = {.same = true, .from_size = sizeof(float), .to_size = sizeof(float)};
    const fovea_kv_cache *c = x->cache;
    const int64_t n = c->desc.head_dim;
    float row[FV_I8_CHANNELS];
    char *const to = c->word ? (char *)row : fv_cache_at(c, FV_KEYS, page, head, position);
    if (c->desc.k_dtype == FOVEA_DTYPE_I8) {
        if (x->rope)
            fv_rope_floats(x->rope, turn, &x->k, n, from, row);
        const float scale =
            x->rope ? fv_quantise(&none, n, row, (int8_t *)row) : fv_quantise(&x->k, n, from, (int8_t *)row);
        memcpy(fv_cache_at(c, FV_KEY_SCALES, page, head, position), &scale, sizeof scale);
    } else if (x->rope)
        fv_rope_row(x->rope, turn, &x->k, n, from, to);
    else
        fv_convert(&x->k, n, from, to);
    if (c->word)
        fv_interleaved_write(c, page, head, position, 1, to);
}

static void write_value(const appending *x, const char *from, int32_t page, int64_t head, int64_t position) {
    const fovea_kv_cache *c = x->cache;
    char *const to = fv_cache_at(c, FV_VALUES, page, head, position);
    if (c->desc.v_dtype != FOVEA_DTYPE_I8) {
        fv_convert(&x->v, c->desc.value_dim, from, to);
        return;
    }
    const float scale = fv_quantise(&x->v, c->desc.value_dim, from, (int8_t *)to);
    memcpy(fv_cache_at(c, FV_VALUE_SCALES, page, head, position), &scale, sizeof scale);
}

static void write_token(const appending *x, const fv_cache_sequence *s, int64_t token) {
    const fovea_kv_append *a = x->args;
    const fv_cache_list *list = &s->layer[a->layer];
    const int64_t position = list->length + token;
    const int32_t page = fv_list_page(list, position);
    fv_rope_turn turn;
    if (x->rope)
        fv_rope_at(x->rope, position, &turn);
    for (int64_t h = 0; h < x->cache->desc.kv_heads; h++) {
        write_key(x, &turn, row_of(a, &a->k, s->place, h, token), page, h, position);
        write_value(x, row_of(a, &a->v, s->place, h, token), page, h, position);
    }
}

/* An equal part of all tokens, sequence after sequence. */
static void write_part(void *arg, int64_t task) {
    const appending *x = arg;
    const int64_t part = fv_ceil_div(x->tokens, x->tasks), begin = part * task, end = begin + part;
    int64_t before = 0;
    for (const fv_cache_sequence *s = x->growth.first; s && before < end; s = s->next) {
        for (int64_t i = fv_max(begin - before, 0); i < fv_min(end - before, s->tokens); i++)
            write_token(x, s, i);
        before += s->tokens;
    }
}

/* -------------------------------------------------------------------------------------------------------- checks -- */

static fovea_status check_lens(const fovea_kv_append *a) {
    const int64_t tokens = a->k.shape[2], *ends = a->cu_seqlens;
    if (ends && a->lens)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "lens and cu_seqlens are both given");
    for (int64_t i = 0; a->lens && i < a->count; i++)
        if (a->lens[i] < 0 || a->lens[i] > tokens)
            return fv_fail(FOVEA_ERROR_SHAPE, "lens[%lld] is %lld; it must be from 0 to %lld", (long long)i,
                           (long long)a->lens[i], (long long)tokens);
    for (int64_t i = 0; ends && i <= a->count; i++)
        if (ends[i] < (i > 0 ? ends[i - 1] : 0) || ends[i] > tokens)
            return fv_fail(FOVEA_ERROR_SHAPE, "cu_seqlens[%lld] is %lld; it must be from %lld to %lld", (long long)i,
                           (long long)ends[i], (long long)(i > 0 ? ends[i - 1] : 0), (long long)tokens);
    return FOVEA_OK;
}

static fovea_status check_tensor(const fovea_kv_cache *c, const fovea_kv_append *a, const fovea_tensor *t,
                                 const char *name, int64_t channels) {
    const int64_t batch = a->cu_seqlens ? 1 : a->count, tokens = a->k.shape[2];
    fovea_status status = fv_convert_check(name, t->dtype, "a cache");
    if (status != FOVEA_OK)
        return status;
    if (tokens < 0 || tokens > FV_SIZE_LIMIT)
        return fv_fail(FOVEA_ERROR_SHAPE, "k has %lld tokens: negative, or too many", (long long)tokens);
    if (!t->data && batch > 0 && tokens > 0)
        return fv_fail(FOVEA_ERROR_NULL, "%s has no data", name);
    const fv_tensor_rule rule = {name, t->dtype, {batch, c->desc.kv_heads, tokens, channels}, false, false};
    fv_span span;
    return fv_tensor_check(t, &rule, &span);
}

static fovea_status check(const fovea_kv_cache *c, const fovea_kv_append *a) {
    if (a->count < 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "count is %lld; it must be at least 0", (long long)a->count);
    if (a->count > FV_SIZE_LIMIT)
        return fv_fail(FOVEA_ERROR_OVERFLOW, "count is %lld: too large", (long long)a->count);
    if (a->layer < 0 || a->layer >= c->desc.layers)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "layer is %lld; the cache has %lld", (long long)a->layer,
                       (long long)c->desc.layers);
    if (a->count > 0 && !a->sequences)
        return fv_fail(FOVEA_ERROR_NULL, "sequences is NULL");
    fovea_status status = check_tensor(c, a, &a->k, "k", c->desc.head_dim);
    if (status == FOVEA_OK)
        status = check_tensor(c, a, &a->v, "v", c->desc.value_dim);
    return status == FOVEA_OK ? check_lens(a) : status;
}

/* ------------------------------------------------------------------------------------------------------ the call -- */

/* Under the lock: sequences, their tokens, and pages for them. */
static fovea_status begin(fovea_kv_cache *c, appending *x) {
    const fovea_kv_append *a = x->args;
    fovea_status status = fv_growth_make(c, a->count, a->sequences, &x->growth);
    for (fv_cache_sequence *s = x->growth.first; s && status == FOVEA_OK; s = s->next) {
        s->tokens = tokens_of(a, s->place);
        x->tokens += s->tokens;
        if (x->rope && s->tokens > 0 && s->layer[a->layer].length + s->tokens - 1 > FOVEA_ROPE_MAX_POSITION)
            status = fv_fail(FOVEA_ERROR_ARGUMENT, "sequence %lld would go past position %d, the last of a rope",
                             (long long)s->number, FOVEA_ROPE_MAX_POSITION);
    }
    return status == FOVEA_OK ? fv_growth_begin(c, &x->growth) : status;
}

static void end(fovea_kv_cache *c, const appending *x) {
    fv_growth_end(c, &x->growth);
    for (fv_cache_sequence *s = x->growth.first; s; s = s->next)
        s->layer[x->args->layer].length += s->tokens;
    c->stats.appended_tokens += x->tokens;
}

/* Without kernels, which are looked up, where rows are copied and nobody wants floats of them. */
static fv_converter converter(const fovea_tensor *from, fovea_dtype to, bool floats, const fovea_context *ctx) {
    const int64_t size = fv_dtype_size(to);
    if (from->dtype == to && !floats)
        return (fv_converter){.same = true, .from_size = size, .to_size = size};
    return fv_converter_make(from->dtype, to == FOVEA_DTYPE_I8 ? FOVEA_DTYPE_F32 : to, ctx->target);
}

fovea_status fovea_kv_cache_append(fovea_kv_cache *c, const fovea_kv_append *given) {
    enum { LEAST = 1 << 15 }; /* elements of a task: what a join of threads costs */
    FV_HOLD_EXCEPTIONS();
    if (!c || !given)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", c ? "append" : "cache");
    fovea_kv_append args;
    fovea_kv_append_init(&args);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_kv_append), given, &args);
    if (status == FOVEA_OK)
        status = check(c, &args);
    if (status != FOVEA_OK)
        return status;
    appending x = {.cache = c,
                   .args = &args,
                   .rope = args.rotated ? NULL : c->desc.rope,
                   .growth = {.layer = args.layer, .end = args.layer + 1},
                   .k = converter(&args.k, c->desc.k_dtype, !args.rotated && c->desc.rope, c->ctx),
                   .v = converter(&args.v, c->desc.v_dtype, false, c->ctx)};
    pthread_mutex_lock(&c->lock);
    status = begin(c, &x);
    pthread_mutex_unlock(&c->lock);
    if (status != FOVEA_OK)
        return status;
    fv_growth_copy(c, &x.growth);
    const int64_t elements = x.tokens * c->desc.kv_heads * (c->desc.head_dim + c->desc.value_dim);
    x.tasks = fv_max(fv_min(fv_min(elements / LEAST, x.tokens), c->ctx->threads.count), 1);
    if (x.tasks == 1)
        write_part(&x, 0);
    else
        fv_parallel(&c->ctx->threads, x.tasks, &(fv_work){.task = write_part, .arg = &x});
    pthread_mutex_lock(&c->lock);
    end(c, &x);
    pthread_mutex_unlock(&c->lock);
    return FOVEA_OK;
}
