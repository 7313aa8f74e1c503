/* The multi-head layer by heads (fovea_mpi_layer.h): this rank's heads are a layer of the core without W^O, and W^O is
 * a linear map by columns. */
#include "agree.h"
#include "columns.h"
#include "desc.h"
#include "layer.h"
#include "structs.h"

#include <stdlib.h>
#include <string.h>

void fovea_mpi_mha_desc_init_size(fovea_mpi_mha_desc *desc, size_t size) {
    static const fovea_mpi_mha_desc defaults;
    fv_mpi_init_struct(desc, &defaults, sizeof defaults, size);
}

enum { ROLES = 3 }; /* q, k and v */

typedef struct making {
    fovea_mpi_mha *m;
    const fovea_context *ctx;
    fovea_mpi_mha_desc over;
    fovea_mha_desc layer;
    fovea_attention_desc attention;
    fovea_mha_weights weights; /* given, then of this rank */
    fv_mpi_slice slices[ROLES];
} making;

static fovea_status check_supported(const making *k) {
    const fovea_mha_desc *d = &k->layer;
    const int64_t stride = d->out_features > 0 ? k->weights.o_head_stride : 0;
    const fv_mpi_refusal refused[] = {{"other forms than FOVEA_MHA_FACTORED", d->form != FOVEA_MHA_FACTORED},
                                      {"folded values", d->fold_values != FOVEA_MHA_FOLD_NEVER},
                                      {"a W^O whose heads are not adjacent",
                                       stride != 0 && stride != k->attention.value_dim * k->weights.o.in_stride}};
    return fv_mpi_refuse("a layer over ranks", refused, sizeof refused / sizeof refused[0]);
}

static fovea_status read_desc(making *k, const fovea_mpi_mha_desc *given, const fovea_mha_weights *weights) {
    fovea_attention_desc *a = &k->attention;
    fovea_arithmetic taken;
    fovea_mpi_mha_desc_init(&k->over);
    fovea_mha_desc_init(&k->layer);
    fovea_mha_weights_init(&k->weights);
    fovea_attention_desc_init(a);
    fovea_status status = fv_mpi_read_struct(&k->over, given, sizeof k->over, "desc");
    if (status == FOVEA_OK)
        status = fv_mpi_read_struct(&k->layer, k->over.layer, sizeof k->layer, "desc.layer");
    if (status == FOVEA_OK)
        status = fv_mpi_read_struct(&k->weights, weights, sizeof k->weights, "weights");
    if (status == FOVEA_OK)
        status = fv_mpi_read_attention(k->ctx, k->layer.attention, "desc.layer.attention", a, &taken);
    if (status != FOVEA_OK)
        return status;
    const int64_t most = (int64_t)1 << 31, sizes[] = {a->batch, a->q_len, a->q_heads, k->layer.out_features};
    for (int i = 0; i < 4; i++)
        if (sizes[i] < (i == 2) || sizes[i] > most)
            return fv_mpi_fail(FOVEA_ERROR_SHAPE, "a size of the layer is %lld", (long long)sizes[i]);
    k->layer.k_features = k->layer.k_features ? k->layer.k_features : k->layer.q_features;
    k->layer.v_features = k->layer.v_features ? k->layer.v_features : k->layer.k_features;
    if (k->over.multiple < 0 || k->over.multiple > INT32_MAX)
        return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "multiple is %lld", (long long)k->over.multiple);
    return check_supported(k);
}

/* All ranks must have the same, except the types of weights of which a rank may have none. */
static uint64_t desc_digest(const making *k) {
    const fovea_mha_desc *d = &k->layer;
    const fovea_attention_desc *a = &k->attention;
    const int64_t of_layer[] = {
        d->inputs,       d->q_tokens,     d->kv_tokens,   d->q_features,           d->k_features,
        d->v_features,   d->out_features, d->biases != 0, d->quantised_arithmetic, k->over.own_weights != 0,
        k->over.multiple};
    const fovea_mpi_attention_desc none = {0};
    uint64_t sum = fv_mpi_digest(fv_mpi_desc_digest(a, &none), of_layer, sizeof of_layer);
    sum = fv_mpi_digest(sum, &d->norm_eps, sizeof d->norm_eps);
    const bool bf16 = a->dtype == FOVEA_DTYPE_BF16 || a->k_dtype == FOVEA_DTYPE_BF16 || a->v_dtype == FOVEA_DTYPE_BF16;
    return a->arithmetic == FOVEA_ARITHMETIC_FASTEST && bf16 ? fv_mpi_context_digest(sum, k->ctx) : sum;
}

/* This rank's heads of q, k and v, with biases. */
static fovea_status take_heads(making *k) {
    fovea_mha_weights *w = &k->weights;
    const fovea_mpi_heads *h = &k->m->heads;
    const fovea_attention_desc *a = &k->attention;
    fovea_matrix *const matrices[] = {&w->q, &w->k, &w->v};
    const void **const biases[] = {&w->q_bias, &w->k_bias, &w->v_bias};
    const int64_t strides[] = {w->q_head_stride, w->k_head_stride, w->v_head_stride};
    const int64_t channels[] = {a->head_dim, a->head_dim, a->value_dim}, all[] = {a->q_heads, a->kv_heads, a->kv_heads};
    for (int i = 0; i < ROLES && !k->over.own_weights; i++) {
        const int64_t first = (i ? h->kv_first : h->q_first) * channels[i],
                      count = (i ? h->kv_count : h->q_count) * channels[i];
        if (matrices[i]->out != all[i] * channels[i])
            return fv_mpi_fail(FOVEA_ERROR_SHAPE, "weight %c has %lld columns, but the layer has %lld heads of %lld",
                               "qkv"[i], (long long)matrices[i] -> out, (long long)all[i], (long long)channels[i]);
        const fovea_status status =
            fv_mpi_slice_columns(matrices[i], first, count, channels[i], strides[i], &k->slices[i]);
        if (status != FOVEA_OK)
            return status;
        *matrices[i] = k->slices[i].matrix;
        if (*biases[i])
            *biases[i] = (const char *)*biases[i] + first * fv_mpi_element(w->bias_dtype);
    }
    return FOVEA_OK;
}

static fovea_status make_own(making *k) {
    fovea_mpi_mha *m = k->m;
    fovea_attention_desc a = k->attention;
    fovea_mha_desc d = k->layer;
    fovea_mha_weights w = k->weights;
    if (m->heads.q_count == 0)
        return FOVEA_OK;
    a.q_heads = m->heads.q_count;
    a.kv_heads = m->heads.kv_count;
    a.out_dtype = m->heads_dtype;
    d.attention = &a;
    d.out_features = 0;
    w.o = (fovea_matrix){0};
    w.o_bias = NULL;
    w.o_head_stride = 0;
    const fovea_status status = fovea_mha_create(k->ctx, &d, &w, &m->own);
    return fv_mpi_from_core(status);
}

/* W^O in the arithmetic that the core's layer takes for it. All ranks call this. */
static fovea_status make_out(making *k, fovea_status before) {
    const fovea_mha_weights *w = &k->weights;
    const fovea_attention_desc *a = &k->attention;
    fovea_linear_desc map;
    fovea_mpi_linear_desc over;
    fovea_linear_desc_init(&map);
    fovea_mpi_linear_desc_init(&over);
    const int64_t heads = a->q_heads * a->value_dim, columns = k->layer.out_features;
    map.in_features = heads;
    map.dtype = k->m->heads_dtype;
    map.y_dtype = a->out_dtype;
    map.part.weight = w->o;
    map.part.bias = k->layer.biases ? w->o_bias : NULL;
    map.part.bias_dtype = w->bias_dtype;
    map.arithmetic = !fv_mpi_floats(w->o.dtype)                                        ? k->layer.quantised_arithmetic
                     : w->o.dtype == FOVEA_DTYPE_BF16 && map.dtype == FOVEA_DTYPE_BF16 ? a->arithmetic
                                                                                       : FOVEA_ARITHMETIC_EXACT;
    over.linear = &map;
    over.columns = k->over.own_weights ? &columns : NULL;
    over.multiple = k->over.multiple;
    const bool wrong = before == FOVEA_OK && !k->over.own_weights && w->o.out != columns;
    if (wrong)
        before = fv_mpi_fail(FOVEA_ERROR_SHAPE, "weight o has %lld columns, but out_features is %lld",
                             (long long)w->o.out, (long long)columns);
    const fovea_status status = fv_mpi_agree(k->m->group->comm, before, before == FOVEA_OK ? desc_digest(k) : 0,
                                             "fields of desc, of desc.layer or of its attention" FV_MPI_FASTEST);
    return status != FOVEA_OK || columns == 0 ? status
                                              : fovea_mpi_linear_create(k->m->group, k->ctx, &over, &k->m->out);
}

/* Messages of a call of the most rows: heads with lse, then columns of W^O. */
static fovea_status check_messages(const making *k) {
    const fovea_mpi_mha *m = k->m;
    const double rows = (double)m->most_rows, heads = (double)m->desc.q_heads, columns = (double)k->layer.out_features;
    const double of_head = (double)(m->desc.value_dim * fv_mpi_element(m->heads_dtype)) + sizeof(float);
    const fovea_status status = fv_mpi_message_check(m->group, rows * heads * of_head, 2);
    return status != FOVEA_OK
               ? status
               : fv_mpi_message_check(m->group, rows * columns * (double)fv_mpi_element(m->desc.out_dtype), 1);
}

static fovea_status build(making *k) {
    fovea_mpi_mha *m = k->m;
    const fovea_attention_desc *a = &k->attention;
    const size_t bounds = (size_t)m->group->ranks + 1;
    m->desc = *a;
    m->heads_dtype = k->layer.out_features > 0 ? a->dtype : a->out_dtype;
    m->most_rows = a->packed && k->layer.q_tokens > 0 ? k->layer.q_tokens : a->batch * a->q_len;
    fovea_status status = check_messages(k);
    if (status != FOVEA_OK)
        return status;
    m->q_bounds = calloc(bounds, sizeof *m->q_bounds);
    m->head_bounds = calloc(bounds, sizeof *m->head_bounds);
    if (!m->q_bounds || !m->head_bounds)
        return fv_mpi_fail_memory();
    m->heads = fovea_mpi_share_heads(m->group, m->group->rank, a->q_heads, a->kv_heads);
    for (int rank = 0; rank < m->group->ranks; rank++) {
        const fovea_mpi_heads h = fovea_mpi_share_heads(m->group, rank, a->q_heads, a->kv_heads);
        m->q_bounds[rank + 1] = h.q_first + h.q_count;
        m->head_bounds[rank + 1] = m->q_bounds[rank + 1] * a->value_dim;
    }
    status = take_heads(k);
    return status == FOVEA_OK ? make_own(k) : status;
}

fovea_status fovea_mpi_mha_create(fovea_mpi_group *group, const fovea_context *ctx, const fovea_mpi_mha_desc *desc,
                                  const fovea_mha_weights *weights, fovea_mpi_mha **mha) {
    if (mha)
        *mha = NULL;
    if (!group)
        return fv_mpi_fail_null("group");
    fovea_mpi_mha none = {.group = group}, *m = calloc(1, sizeof *m);
    making k = {.ctx = ctx, .m = m ? m : &none};
    k.m->group = group;
    fovea_status status = !m ? fv_mpi_fail_memory() : !mha ? fv_mpi_fail_null("mha") : read_desc(&k, desc, weights);
    if (status == FOVEA_OK)
        status = build(&k);
    for (int i = 0; i < ROLES; i++)
        fv_mpi_slice_free(&k.slices[i]);
    status = make_out(&k, status);
    if (status == FOVEA_OK) /* executions allocate nothing */
        status = fv_mpi_agree(group->comm, fovea_mpi_group_reserve(group, fovea_mpi_mha_memory(m)), 0, "memory");
    if (status == FOVEA_OK)
        *mha = m;
    else
        fovea_mpi_mha_destroy(m);
    return status;
}

void fovea_mpi_mha_destroy(fovea_mpi_mha *m) {
    if (!m)
        return;
    fovea_mha_destroy(m->own);
    fovea_mpi_linear_destroy(m->out);
    free(m->q_bounds);
    free(m->head_bounds);
    free(m);
}

fovea_mpi_heads fovea_mpi_mha_heads(const fovea_mpi_mha *m, int rank) {
    return fovea_mpi_share_heads(m ? m->group : NULL, rank, m ? m->desc.q_heads : 0, m ? m->desc.kv_heads : 0);
}

int64_t fovea_mpi_mha_columns(const fovea_mpi_mha *m, int rank, int64_t *first) {
    return fovea_mpi_linear_columns(m ? m->out : NULL, 0, rank, first);
}

size_t fovea_mpi_mha_weight_bytes(const fovea_mpi_mha *m) {
    if (!m)
        return 0;
    size_t bytes = fovea_mpi_linear_weight_bytes(m->out);
    const fovea_linear *counted[ROLES] = {NULL};
    for (int i = 0; m->own && i < ROLES; i++) { /* roles may share a map */
        int64_t part, in, out;
        bool counted_before = fovea_mha_linear(m->own, i, &counted[i], &part, &in, &out) != FOVEA_OK || !counted[i];
        for (int j = 0; j < i; j++)
            counted_before = counted_before || counted[j] == counted[i];
        bytes += counted_before ? 0 : fovea_linear_weight_bytes(counted[i]);
    }
    return bytes;
}
