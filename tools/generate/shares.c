/* Heads and columns that a process has of a model (model_weights.h): all, or those of its rank. */
#include "model_weights.h"

#include <stdlib.h>
#include <string.h>

static int share_columns(const model_ranks *r, int64_t columns, model_share *s) {
    *s = (model_share){0, columns, columns, NULL};
    if (r == NULL)
        return 0;
    s->bounds = calloc((size_t)r->ranks + 1, sizeof *s->bounds);
    if (s->bounds == NULL)
        return -1;
    for (int i = 0; i < r->ranks; i++)
        r->columns(r->arg, i, columns, &s->bounds[i]);
    s->bounds[r->ranks] = columns;
    s->count = r->columns(r->arg, r->rank, columns, &s->first);
    return 0;
}

/* A rank without heads computes one that nobody takes, so that its cache knows how long sequences are. */
static int share_heads(const model_ranks *r, const config *c, model_shares *s) {
    const int64_t all = c->heads * c->head_dim;
    s->heads = (model_share){0, all, all, NULL};
    s->q_heads = c->heads;
    s->kv_heads = c->kv_heads;
    if (r == NULL)
        return 0;
    s->heads.bounds = calloc((size_t)r->ranks + 1, sizeof *s->heads.bounds);
    if (s->heads.bounds == NULL)
        return -1;
    for (int i = 0; i < r->ranks; i++) {
        int64_t q[2], kv[2];
        r->heads(r->arg, i, c->heads, c->kv_heads, q, kv);
        s->heads.bounds[i + 1] = (q[0] + q[1]) * c->head_dim;
        if (i != r->rank)
            continue;
        s->heads.first = q[0] * c->head_dim;
        s->heads.count = q[1] * c->head_dim;
        s->q_first = q[0];
        s->q_heads = q[1] > 0 ? q[1] : 1;
        s->kv_first = kv[0];
        s->kv_heads = q[1] > 0 ? kv[1] : 1;
    }
    for (int i = 0; i < r->ranks; i++) /* of ranks without heads, which may come between others */
        if (s->heads.bounds[i + 1] < s->heads.bounds[i])
            s->heads.bounds[i + 1] = s->heads.bounds[i];
    return 0;
}

int model_share_out(model *m) {
    const model_ranks *r = m->options.ranks;
    const config *c = &m->config;
    model_shares *s = &m->shares;
    return share_heads(r, c, s) != 0 || share_columns(r, c->width, &s->width) != 0 ||
                   share_columns(r, c->inner, &s->inner) != 0 || share_columns(r, c->words, &s->words) != 0
               ? -1
               : 0;
}

void model_shares_free(model *m) {
    const model_shares *s = &m->shares;
    free(s->heads.bounds);
    free(s->width.bounds);
    free(s->inner.bounds);
    free(s->words.bounds);
}

fovea_status model_gather(const model *m, const model_share *share, fovea_dtype dtype, int64_t rows, void *whole,
                          void *own, fovea_status before) {
    const model_ranks *r = m->options.ranks;
    const int64_t element = model_element(dtype), bytes = share->count * element;
    if (r == NULL)
        return before;
    for (int64_t i = 0; before == FOVEA_OK && i < rows; i++)
        memcpy((char *)own + i * bytes, (const char *)whole + (i * share->all + share->first) * element, (size_t)bytes);
    return r->gather(r->arg, before, rows, share->all, element, share->bounds, own, whole);
}
