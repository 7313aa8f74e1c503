/* Executing a layer by heads: each rank computes its heads, all are gathered, then each computes its columns of W^O. */
#include "agree.h"
#include "layer.h"
#include "structs.h"

#include <string.h>

enum { HEADS, LSE, SECTIONS };

/* A call, and where its parts are in the group's memory. */
typedef struct call {
    const fovea_mpi_mha *m;
    fovea_attention_args args;
    int64_t batch, tokens, rows;
    fv_mpi_section sections[SECTIONS];
    fv_mpi_message message;
    unsigned char *written; /* rows of packed sequences, or NULL */
    char *heads, *workspace, *linear;
} call;

static void set_sections(call *c) {
    c->sections[HEADS] = (fv_mpi_section){c->m->head_bounds, c->rows, fv_mpi_element(c->m->heads_dtype)};
    c->sections[LSE] = (fv_mpi_section){c->m->q_bounds, c->args.lse.data ? c->rows : 0, (int64_t)sizeof(float)};
    c->message = (fv_mpi_message){c->m->group, NULL, c->sections, SECTIONS};
}

/* Bytes of a call; with memory, its parts are set. The first of it are zeros for checks, [rows] or [batch]. */
static int64_t lay_out(call *c, char *memory) {
    const fovea_mpi_mha *m = c->m;
    const int64_t zeros = fv_mpi_units(fv_mpi_max(1, c->batch) * (int64_t)sizeof(int64_t));
    const int64_t written = fv_mpi_units(c->rows), message = fv_mpi_message_bytes(&c->message);
    const int64_t heads =
        m->out ? fv_mpi_units(c->rows * m->head_bounds[m->group->ranks] * fv_mpi_element(m->heads_dtype)) : 0;
    const int64_t linear = m->out ? (int64_t)fovea_mpi_linear_memory(m->out, c->rows) : 0;
    if (memory) {
        c->written = m->desc.packed ? (unsigned char *)memory + zeros : NULL;
        c->message.all = memory + zeros + written;
        c->heads = c->message.all + message;
        c->linear = c->heads + heads;
        c->workspace = c->linear + linear;
    }
    return zeros + written + message + heads + linear + (m->own ? (int64_t)fovea_mha_workspace_size(m->own) : 0);
}

size_t fovea_mpi_mha_memory(const fovea_mpi_mha *m) {
    if (!m)
        return 0;
    static float lse;
    call c = {.m = m, .batch = m->desc.batch, .rows = m->most_rows, .args.lse.data = &lse};
    set_sections(&c);
    return (size_t)lay_out(&c, NULL);
}

static fovea_status check_tensor(const fovea_tensor *t, const char *name, fovea_dtype dtype, const int64_t shape[4]) {
    bool good = t->data && t->dtype == dtype && !t->quantisation && (t->stride[3] == 1 || t->shape[3] == 1);
    for (int i = 0; i < 4; i++)
        good = good && t->shape[i] == shape[i] && (t->stride[i] > 0 || (t->stride[i] == 0 && shape[i] == 1));
    return good ? FOVEA_OK
                : fv_mpi_fail(FOVEA_ERROR_SHAPE,
                              "%s must be [%lld, %lld, %lld, %lld] of dtype %d, with a channel stride of 1", name,
                              (long long)shape[0], (long long)shape[1], (long long)shape[2], (long long)shape[3],
                              (int)dtype);
}

static fovea_status check_absent(const fovea_attention_args *a) {
    const fv_mpi_refusal absent[] = {{"state", a->state},
                                     {"weights", a->weights.data},
                                     {"scores", a->scores},
                                     {"summary", a->summary},
                                     {"stats", a->stats}};
    return fv_mpi_refuse("a layer over ranks", absent, sizeof absent / sizeof absent[0]);
}

static fovea_status read_args(call *c, const fovea_attention_args *given) {
    const fovea_attention_desc *d = &c->m->desc;
    fovea_attention_args_init(&c->args);
    fovea_status status = fv_mpi_read_struct(&c->args, given, sizeof c->args, "args");
    if (status == FOVEA_OK)
        status = check_absent(&c->args);
    if (status != FOVEA_OK)
        return status;
    c->batch = d->packed ? 1 : d->batch;
    c->tokens = d->packed ? c->args.q.shape[2] : d->q_len;
    if (c->tokens < 0 || (d->packed && c->tokens > c->m->most_rows))
        return fv_mpi_fail(FOVEA_ERROR_SHAPE, "q has %lld tokens; this layer takes from 0 to %lld",
                           (long long)c->tokens, (long long)c->m->most_rows);
    c->rows = c->batch * c->tokens;
    set_sections(c);
    if (d->packed && !c->args.q_cu_seqlens)
        return fv_mpi_fail_null("q_cu_seqlens");
#define FOVEA_ARGS_HEADS(name, flag, text)                                                                             \
    if (c->args.name == NULL && d->flag)                                                                               \
        return fv_mpi_fail_null(#name);
#include "fovea/fields.inc"
    return FOVEA_OK;
}

static fovea_linear_args out_args(const call *c) {
    fovea_linear_args a;
    fovea_linear_args_init(&a);
    a.x = fovea_tensor_bthd(c->heads, c->m->heads_dtype, c->batch, c->tokens, 1, c->m->head_bounds[c->m->group->ranks]);
    a.y = &c->args.out;
    return a;
}

static fovea_status check_outputs(const call *c, const int64_t *zeros) {
    const fovea_attention_desc *d = &c->m->desc;
    const int64_t of_lse[] = {c->batch, d->q_heads, c->tokens, 1},
                  of_heads[] = {c->batch, d->q_heads, c->tokens, d->value_dim};
    fovea_status status = FOVEA_OK;
    if (c->rows == 0)
        return FOVEA_OK;
    if (c->args.lse.data)
        status = check_tensor(&c->args.lse, "lse", FOVEA_DTYPE_F32, of_lse);
    if (status != FOVEA_OK)
        return status;
    if (!c->m->out)
        return check_tensor(&c->args.out, "out", d->out_dtype, of_heads);
    const fovea_linear_args a = out_args(c);
    return fv_mpi_linear_check(c->m->out, &a, zeros, c->linear);
}

static uint64_t digest_lens(uint64_t digest, const int64_t *lens, int64_t count) {
    const bool given = lens != NULL;
    digest = fv_mpi_digest(digest, &given, sizeof given);
    return lens ? fv_mpi_digest(digest, lens, (size_t)count * sizeof *lens) : digest;
}

static uint64_t digest_of(const call *c) {
    const fovea_attention_args *a = &c->args;
    const int64_t batch = c->m->desc.batch, sizes[] = {c->tokens, a->lse.data != NULL, a->cache_layer};
    const struct {
        const int64_t *lens;
        int64_t count;
    } all[] = {{a->q_lens, batch},    {a->kv_lens, batch},          {a->q_starts, batch},         {a->kv_starts, batch},
               {a->q_offsets, batch}, {a->q_cu_seqlens, batch + 1}, {a->kv_cu_seqlens, batch + 1}};
    uint64_t digest = fv_mpi_digest(0, sizes, sizeof sizes);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        digest = digest_lens(digest, all[i].lens, all[i].count);
    return digest;
}

/* Rows that packed sequences have. What is out of range is the core's to refuse. */
static void mark_rows(const call *c) {
    if (!c->written)
        return;
    memset(c->written, 0, (size_t)c->rows);
    for (int64_t b = 0; b < c->m->desc.batch; b++) {
        const int64_t begin = fv_mpi_clamp(c->args.q_cu_seqlens[b], 0, c->rows);
        int64_t end = fv_mpi_clamp(c->args.q_cu_seqlens[b + 1], begin, c->rows);
        if (c->args.q_lens)
            end = fv_mpi_clamp(c->args.q_lens[b], 0, end - begin) + begin;
        memset(c->written + begin, 1, (size_t)(end - begin));
    }
}

/* The heads of this rank, of a tensor for all; one of one head is for all heads. */
static void take_heads(fovea_tensor *t, const fovea_mpi_mha *m) {
    if (!t->data || t->shape[1] != m->desc.q_heads || m->desc.q_heads == 1)
        return;
    t->data = (char *)t->data + m->heads.q_first * t->stride[1] * fv_mpi_element(t->dtype);
    t->shape[1] = m->heads.q_count;
}

static fovea_status compute(const call *c) {
    const fovea_mpi_mha *m = c->m;
    if (!m->own)
        return FOVEA_OK;
    char *heads = fv_mpi_message_at(&c->message, m->group->rank, HEADS);
    char *lse = fv_mpi_message_at(&c->message, m->group->rank, LSE);
    if (c->written)
        memset(heads, 0, (size_t)(lse - heads));
    fovea_attention_args a = c->args;
    take_heads(&a.mask, m);
    take_heads(&a.bias, m);
    take_heads(&a.relative, m);
#define FOVEA_ARGS_HEADS(name, flag, text) a.name = a.name ? a.name + m->heads.q_first : NULL;
#include "fovea/fields.inc"
    a.out = fovea_tensor_bthd(heads, m->heads_dtype, c->batch, c->tokens, m->heads.q_count, m->desc.value_dim);
    if (a.lse.data)
        a.lse = fovea_tensor_bthd(lse, FOVEA_DTYPE_F32, c->batch, c->tokens, m->heads.q_count, 1);
    const fovea_status status = fovea_mha_execute(m->own, &a, c->workspace, fovea_mha_workspace_size(m->own));
    return fv_mpi_from_core(status);
}

static fovea_status finish(const call *c, fovea_status status) {
    const fovea_mpi_mha *m = c->m;
    status = fv_mpi_message_exchange(&c->message, status);
    if (status != FOVEA_OK || c->rows == 0)
        return status;
    if (c->args.lse.data)
        fv_mpi_message_read(&c->message, LSE, &c->args.lse, c->written);
    if (!m->out) {
        fv_mpi_message_read(&c->message, HEADS, &c->args.out, c->written);
        return FOVEA_OK;
    }
    const fovea_linear_args a = out_args(c);
    fv_mpi_message_read(&c->message, HEADS, &a.x, NULL);
    return fv_mpi_linear_run(m->out, &a, c->linear, c->written, FOVEA_OK);
}

fovea_status fovea_mpi_mha_execute(fovea_mpi_mha *m, const fovea_attention_args *args) {
    if (!m)
        return fv_mpi_fail_null("mha");
    fovea_mpi_group *g = m->group;
    call c = {.m = m};
    fovea_status status = read_args(&c, args);
    if (status == FOVEA_OK) {
        const int64_t *zeros = (const int64_t *)(const void *)g->memory;
        lay_out(&c, g->memory);
        memset(g->memory, 0, (size_t)c.batch * sizeof *zeros);
        mark_rows(&c);
        status = check_outputs(&c, zeros);
    }
    fv_mpi_vote vote;
    fv_mpi_vote_begin(&vote, g->comm, status, status == FOVEA_OK ? digest_of(&c) : 0);
    /* A cache gets its tokens once all ranks have agreed. */
    const bool first = m->desc.page_keys > 0;
    static const char what[] = "sizes, lengths or whether lse is asked for";
    fovea_status agreed = first ? fv_mpi_vote_end(&vote, what) : status;
    if (agreed == FOVEA_OK)
        status = compute(&c);
    if (!first)
        agreed = fv_mpi_vote_end(&vote, what);
    return agreed == FOVEA_OK ? finish(&c, status) : agreed;
}
