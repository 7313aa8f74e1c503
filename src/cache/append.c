/* Appending (fovea/cache.h): all pages are taken, then all bytes are written, then sequences are longer. */
#include "cache/pool.h"

#include <string.h>

/* One call. */
typedef struct appending {
    const fovea_kv_append_args *args;
    const fv_pages *pages;
    const fovea_rope *rope; /* NULL: keys stay as they are */
    fv_growth growth;       /* of a cache, or */
    const fovea_kv_pages *table;
    const int64_t *lengths;
    fv_converter convert[2]; /* of keys and values; to float32, where they become integers */
    int64_t tokens, tasks;   /* of all sequences */
} appending;

/* Tokens of the sequence at a place of the call, and where the first is in the tensors. */
static int64_t tokens_of(const fovea_kv_append_args *a, int64_t place) {
    return a->cu_seqlens ? a->cu_seqlens[place + 1] - a->cu_seqlens[place] : a->lens ? a->lens[place] : a->k.shape[2];
}

static const char *row_of(const fovea_kv_append_args *a, const fovea_tensor *t, int64_t place, int64_t head,
                          int64_t token) {
    const int64_t batch = a->cu_seqlens ? 0 : place, first = a->cu_seqlens ? a->cu_seqlens[place] : 0;
    return (const char *)t->data +
           (batch * t->stride[0] + head * t->stride[1] + (first + token) * t->stride[2]) * fv_dtype_size(t->dtype);
}

/* A row of keys or of values, in the type of pages. Not inline: the row is on the stack only here. */
static __attribute__((noinline)) void write_row(const appending *x, int side, const fv_rope_turn *turn,
                                                const char *from, int32_t page, int64_t head, int64_t key) {
    const fv_converter none = {.same = true, .from_size = sizeof(float), .to_size = sizeof(float)};
    const fv_pages *p = x->pages;
    const fv_converter *convert = &x->convert[side];
    const int64_t n = p->channels[side];
    const bool rotated = side == 0 && x->rope;
    float row[FV_I8_CHANNELS];
    if (fv_dtype_paged(p->dtype[side])) {
        if (rotated)
            fv_rope_floats(x->rope, turn, convert, n, from, row);
        fv_quantize(p, side, rotated ? &none : convert, rotated ? (const char *)row : from, row, page, head, key);
        return;
    }
    const bool words = p->part[side].word > 0;
    void *const to = words ? (char *)row : fv_page_at(p, side, page, head, key);
    if (rotated)
        fv_rope_row(x->rope, turn, convert, n, from, to);
    else
        fv_convert(convert, n, from, to);
    if (words)
        fv_interleaved_write(p, side, page, head, key, 1, to);
}

/* The token of a sequence at a place of the call, which comes to a position of it. */
static void write_token(const appending *x, const fv_cache_sequence *s, int64_t place, int64_t token,
                        int64_t position) {
    const fovea_kv_append_args *a = x->args;
    const int64_t key = position % x->pages->page_keys;
    const int32_t page = s ? fv_list_page(&s->layer[a->layer], position)
                           : fv_pages_table(x->table, place)[position / x->pages->page_keys];
    fv_rope_turn turn;
    if (x->rope)
        fv_rope_at(x->rope, position, &turn);
    for (int64_t h = 0; h < x->pages->kv_heads; h++) {
        write_row(x, 0, &turn, row_of(a, &a->k, place, h, token), page, h, key);
        write_row(x, 1, &turn, row_of(a, &a->v, place, h, token), page, h, key);
    }
}

/* An equal part of all tokens, sequence after sequence. */
static void write_part(void *arg, int64_t task) {
    const appending *x = arg;
    const int64_t part = fv_ceil_div(x->tokens, x->tasks), begin = part * task, end = begin + part;
    int64_t before = 0;
    const fv_cache_sequence *s = x->growth.first;
    for (int64_t place = 0; place < x->args->count && before < end; place++) {
        const int64_t tokens = tokens_of(x->args, place),
                      length = s ? s->layer[x->args->layer].length : x->lengths[place];
        for (int64_t i = fv_max(begin - before, 0); i < fv_min(end - before, tokens); i++)
            write_token(x, s, place, i, length + i);
        before += tokens;
        s = s ? s->next : NULL;
    }
}

/* -------------------------------------------------------------------------------------------------------- checks -- */

static fovea_status check_lens(const fovea_kv_append_args *a) {
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

static fovea_status check_tensor(const fv_pages *p, const fovea_kv_append_args *a, const fovea_tensor *t,
                                 const char *name, int64_t channels, fv_span *span) {
    const int64_t batch = a->cu_seqlens ? 1 : a->count, tokens = a->k.shape[2];
    fovea_status status = fv_convert_check(name, t->dtype, "a cache");
    if (status != FOVEA_OK)
        return status;
    if (tokens < 0 || tokens > FV_SIZE_LIMIT)
        return fv_fail(FOVEA_ERROR_SHAPE, "k has %lld tokens: negative, or too many", (long long)tokens);
    if (!t->data && batch > 0 && tokens > 0)
        return fv_fail(FOVEA_ERROR_NULL, "%s has no data", name);
    const fv_tensor_rule rule = {name, t->dtype, {batch, p->kv_heads, tokens, channels}, false, false};
    return fv_tensor_check(t, &rule, span);
}

/* Checks what is to be appended; sets the spans of its keys and of its values. */
static fovea_status check(const fv_pages *p, const fovea_kv_append_args *a, fv_span spans[2]) {
    if (a->count < 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "count is %lld; it must be at least 0", (long long)a->count);
    if (a->count > FV_SIZE_LIMIT)
        return fv_fail(FOVEA_ERROR_OVERFLOW, "count is %lld: too large", (long long)a->count);
    if (a->reserved)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "a reserved field is set");
    fovea_status status = check_tensor(p, a, &a->k, "k", p->channels[0], &spans[0]);
    if (status == FOVEA_OK)
        status = check_tensor(p, a, &a->v, "v", p->channels[1], &spans[1]);
    return status == FOVEA_OK ? check_lens(a) : status;
}

static fovea_status check_sequences(const fovea_kv_cache *c, const fovea_kv_append_args *a) {
    if (a->layer < 0 || a->layer >= c->desc.layers)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "layer is %lld; the cache has %lld", (long long)a->layer,
                       (long long)c->desc.layers);
    return a->count > 0 && !a->sequences ? fv_fail(FOVEA_ERROR_NULL, "sequences is NULL") : FOVEA_OK;
}

/* ------------------------------------------------------------------------------------------------------ the call -- */

/* Under the lock: sequences, their tokens, and pages for them. */
static fovea_status begin(fovea_kv_cache *c, appending *x) {
    const fovea_kv_append_args *a = x->args;
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
    return fv_converter_make(from->dtype, fv_dtype_paged(to) ? FOVEA_DTYPE_F32 : to, ctx->target);
}

/* Writes all tokens, their number being known. */
static void write_all(appending *x, const fovea_context *ctx) {
    enum { LEAST = 1 << 15 }; /* elements of a task: what a join of threads costs */
    const fv_pages *p = x->pages;
    x->convert[0] = converter(&x->args->k, p->dtype[0], x->rope != NULL, ctx);
    x->convert[1] = converter(&x->args->v, p->dtype[1], false, ctx);
    const int64_t elements = x->tokens * p->kv_heads * (p->channels[0] + p->channels[1]);
    x->tasks = fv_max(fv_min(fv_min(elements / LEAST, x->tokens), ctx->threads.count), 1);
    if (x->tasks == 1)
        write_part(x, 0);
    else
        fv_parallel(&ctx->threads, x->tasks, &(fv_work){.task = write_part, .arg = x});
}

fovea_status fovea_kv_cache_append(fovea_kv_cache *c, const fovea_kv_append_args *given) {
    FV_HOLD_EXCEPTIONS();
    if (!c || !given)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", c ? "append" : "cache");
    fovea_kv_append_args args;
    fv_span spans[2];
    fovea_kv_append_args_init(&args);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_kv_append_args), given, &args);
    if (status == FOVEA_OK)
        status = check_sequences(c, &args);
    if (status == FOVEA_OK)
        status = check(&c->pages, &args, spans);
    if (status != FOVEA_OK)
        return status;
    appending x = {.args = &args,
                   .pages = &c->pages,
                   .rope = args.rotated ? NULL : c->desc.rope,
                   .growth = {.layer = args.layer, .end = args.layer + 1}};
    fv_mutex_lock(&c->lock);
    status = begin(c, &x);
    fv_mutex_unlock(&c->lock);
    if (status != FOVEA_OK)
        return status;
    fv_growth_copy(c, &x.growth);
    write_all(&x, c->ctx);
    fv_mutex_lock(&c->lock);
    end(c, &x);
    fv_mutex_unlock(&c->lock);
    return FOVEA_OK;
}

/* ------------------------------------------------------------------------------------------------ external pages -- */

enum { TABLES = 5 };

/* Lengths and tables of the call, whose tokens are counted; spans: of what the caller says of them. */
static fovea_status check_tables(appending *x, fv_span spans[TABLES]) {
    const fovea_kv_append_args *a = x->args;
    const int64_t page_keys = x->pages->page_keys;
    fovea_status status = FOVEA_OK;
    int64_t entries = 0;
    for (int64_t i = 0; i < a->count && status == FOVEA_OK; i++) {
        const int64_t length = x->lengths[i], tokens = tokens_of(a, i);
        if (length < 0 || length > FV_SIZE_LIMIT)
            return fv_fail(FOVEA_ERROR_SHAPE, "lengths[%lld] is %lld; it must be from 0 to 2^48", (long long)i,
                           (long long)length);
        status = fv_pages_check_table(x->table, page_keys, i, length, length + tokens);
        x->tokens += tokens;
        entries =
            fv_max(entries, fv_pages_table(x->table, i) - x->table->table + fv_ceil_div(length + tokens, page_keys));
    }
    spans[0] = (fv_span){"the table of pages", (uintptr_t)x->table->table, (uintptr_t)(x->table->table + entries)};
    if (x->table->starts)
        spans[1] =
            (fv_span){"starts of the table", (uintptr_t)x->table->starts, (uintptr_t)(x->table->starts + a->count)};
    spans[2] = fv_lens_span("lengths", x->lengths, a->count);
    spans[3] = fv_lens_span("lens", a->lens, a->count);
    spans[4] = fv_lens_span("cu_seqlens", a->cu_seqlens, a->count + 1);
    return status;
}

fovea_status fovea_kv_pages_append(const fovea_context *ctx, const fovea_kv_pages *pages, const int64_t *lengths,
                                   const fovea_kv_append_args *given) {
    enum { K = FV_PAGE_PARTS, TABLE = K + 2, SPANS = TABLE + TABLES };
    FV_HOLD_EXCEPTIONS();
    if (!ctx || !pages || !given)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !ctx ? "ctx" : pages ? "append" : "pages");
    fovea_kv_append_args args;
    fovea_kv_pages own;
    fovea_kv_append_args_init(&args);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_kv_append_args), given, &args);
    if (status == FOVEA_OK)
        status = fv_struct_check(FV_STRUCT(fovea_kv_pages), pages);
    if (status != FOVEA_OK)
        return status;
    if (args.sequences || args.layer != 0)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "%s is given, which pages without a cache do not have",
                       args.sequences ? "sequences" : "layer");
    const fovea_tensor *k = &pages->k, *v = &pages->v;
    fv_pages p = {.dtype = {k->dtype, v->dtype},
                  .channels = {k->shape[3], v->shape[3]},
                  .kv_heads = k->shape[1],
                  .page_keys = k->shape[2]};
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"heads", p.kv_heads},
                 {"keys", p.page_keys},
                 {"channels of k", p.channels[0]},
                 {"channels of v", p.channels[1]}};
    for (int i = 0; i < 4; i++)
        if (sizes[i].value < 1 || sizes[i].value > FV_SIZE_LIMIT)
            return fv_fail(FOVEA_ERROR_SHAPE, "the pages have %lld %s; they must be from 1 to 2^48",
                           (long long)sizes[i].value, sizes[i].name);
    fv_span spans[SPANS] = {{0}};
    bool written[SPANS] = {true, true, true, true};
    status = fv_stored_check("k", k->dtype, true, p.channels[0], p.page_keys);
    if (status == FOVEA_OK)
        status = fv_stored_check("v", v->dtype, false, p.channels[1], p.page_keys);
    if (status == FOVEA_OK)
        status = fv_pages_read(pages, true, &own, &p, spans);
    if (status == FOVEA_OK)
        status = check(&p, &args, spans + K);
    if (status == FOVEA_OK && args.count > 0 && (!lengths || !own.table))
        status = fv_fail(FOVEA_ERROR_NULL, "%s is NULL", lengths ? "the table of pages" : "lengths");
    appending x = {.args = &args, .pages = &p, .table = &own, .lengths = lengths};
    if (status == FOVEA_OK)
        status = check_tables(&x, spans + TABLE);
    const fv_span none = {0};
    if (status == FOVEA_OK)
        status = fv_spans_apart(spans, written, SPANS, &none);
    if (status == FOVEA_OK)
        write_all(&x, ctx);
    return status;
}
