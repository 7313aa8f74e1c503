/* Linear maps by output columns (fovea_mpi_layer.h). Each rank packs a map of its columns. An execution votes on
 * arguments while it computes, then gathers columns. What outputs must be is checked by a map of one input channel. */
#include "linear.h"
#include "agree.h"
#include "columns.h"
#include "structs.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS_MOST = 1024 };

void fovea_mpi_linear_desc_init_size(fovea_mpi_linear_desc *desc, size_t size) {
    static const fovea_mpi_linear_desc defaults;
    fv_mpi_init_struct(desc, &defaults, sizeof defaults, size);
}

static int64_t own_columns(const fovea_mpi_linear *l, int64_t part) {
    const int64_t *bounds = fv_mpi_linear_bounds(l, part);
    return bounds[l->group->rank + 1] - bounds[l->group->rank];
}

typedef struct packing {
    fovea_mpi_linear *l;
    const fovea_context *ctx;
    fovea_mpi_linear_desc over;
    fovea_linear_desc desc; /* with types resolved */
    const fovea_linear_part *given;
    fovea_linear_part *parts; /* [part_count]: of this rank, those without columns left out */
    fv_mpi_slice *slices;     /* [part_count] */
} packing;

static fovea_status read_desc(packing *p, const fovea_mpi_linear_desc *given) {
    fovea_mpi_linear_desc_init(&p->over);
    fovea_linear_desc_init(&p->desc);
    if (!p->ctx)
        return fv_mpi_fail_null("ctx");
    fovea_status status = fv_mpi_read_struct(&p->over, given, sizeof p->over, "desc");
    if (status == FOVEA_OK)
        status = fv_mpi_read_struct(&p->desc, p->over.linear, sizeof p->desc, "desc.linear");
    if (status != FOVEA_OK)
        return status;
    fovea_linear_desc *d = &p->desc;
    p->given = d->parts ? d->parts : &p->over.linear->part;
    d->y_dtype = d->y_dtype ? d->y_dtype : d->dtype;
    d->residual_dtype = d->residual_dtype ? d->residual_dtype : d->y_dtype;
    if (d->part_count < 1 || d->part_count > PARTS_MOST || (!d->parts && d->part_count != 1))
        return fv_mpi_fail(FOVEA_ERROR_SHAPE, "part_count is %lld; it must be from 1 to %d, and 1 without parts",
                           (long long)d->part_count, PARTS_MOST);
    if (d->in_features < 1 || p->over.multiple < 0 || p->over.multiple > INT32_MAX)
        return fv_mpi_fail(FOVEA_ERROR_SHAPE, "in_features is %lld and multiple %lld; they must be at least 1 and 0",
                           (long long)d->in_features, (long long)p->over.multiple);
    for (int64_t i = 0; i < d->part_count; i++) {
        const int64_t columns = p->over.columns ? p->over.columns[i] : p->given[i].weight.out;
        if (columns < 1 || columns > INT32_MAX)
            return fv_mpi_fail(FOVEA_ERROR_SHAPE, "part %lld has %lld columns; it must have from 1 to 2^31 - 1",
                               (long long)i, (long long)columns);
    }
    return FOVEA_OK;
}

/* All ranks must have the same. */
static uint64_t desc_digest(const packing *p) {
    const fovea_linear_desc *d = &p->desc;
    const int64_t numbers[] = {
#define FOVEA_LINEAR_DESC(name, type, initial, text) (int64_t) d->name,
#include "fovea/fields.inc"
        p->over.multiple};
    uint64_t digest = fv_mpi_digest(0, numbers, sizeof numbers);
    if (d->arithmetic == FOVEA_ARITHMETIC_FASTEST && d->dtype == FOVEA_DTYPE_BF16) /* else it takes EXACT */
        digest = fv_mpi_context_digest(digest, p->ctx);
    for (int64_t i = 0; i < d->part_count; i++) {
        const fovea_linear_part *part = &p->given[i];
        const int64_t of_part[] = {p->over.columns ? p->over.columns[i] : part->weight.out, part->weight.dtype,
                                   part->has_scale != 0};
        const double scale = part->has_scale ? part->scale : 0;
        digest = fv_mpi_digest(fv_mpi_digest(digest, of_part, sizeof of_part), &scale, sizeof scale);
    }
    return digest;
}

/* A part's columns of this rank. */
static fovea_status take_part(packing *p, int64_t i, int64_t at) {
    const fovea_linear_part *given = &p->given[i];
    const int64_t first = fv_mpi_linear_bounds(p->l, i)[p->l->group->rank], count = own_columns(p->l, i);
    fovea_linear_part *part = &p->parts[at];
    *part = *given;
    if (p->over.columns) {
        if (given->weight.out != count)
            return fv_mpi_fail(FOVEA_ERROR_SHAPE, "the weight of part %lld has %lld columns, this rank's share is %lld",
                               (long long)i, (long long)given->weight.out, (long long)count);
        return FOVEA_OK;
    }
    const fovea_dtype stored = given->weight.dtype;
    const fovea_dtype bias = given->bias_dtype ? given->bias_dtype : fv_mpi_floats(stored) ? stored : FOVEA_DTYPE_F32;
    if (given->bias)
        part->bias = (const char *)given->bias + first * fv_mpi_element(bias);
    const fovea_status status = fv_mpi_slice_columns(&given->weight, first, count, 1, 0, &p->slices[at]);
    part->weight = p->slices[at].matrix;
    return status;
}

static fovea_status pack_own(packing *p) {
    fovea_mpi_linear *l = p->l;
    fovea_linear_desc d = p->desc;
    int64_t count = 0;
    for (int64_t i = 0; i < d.part_count; i++) {
        if (own_columns(l, i) == 0)
            continue;
        const fovea_status status = take_part(p, i, count++);
        if (status != FOVEA_OK)
            return status;
        if (i < l->outputs)
            l->own[l->own_count++] = i;
    }
    if (count == 0)
        return FOVEA_OK;
    d.parts = p->parts;
    d.part_count = count;
    const fovea_status status = fovea_linear_pack(p->ctx, &d, &l->map);
    return fv_mpi_from_core(status);
}

/* All columns of one input channel, of zeros. */
static fovea_status pack_check(packing *p) {
    static const float zero;
    fovea_linear_desc d = p->desc;
    d.in_features = 1;
    d.arithmetic = FOVEA_ARITHMETIC_EXACT;
    d.parts = p->parts;
    for (int64_t i = 0; i < d.part_count; i++) {
        const int64_t out = fv_mpi_linear_bounds(p->l, i)[p->l->group->ranks];
        p->parts[i] = (fovea_linear_part){.weight = {.data = &zero, .dtype = FOVEA_DTYPE_F32, .in = 1, .out = out}};
    }
    const fovea_status status = fovea_linear_pack(p->ctx, &d, &p->l->check);
    return fv_mpi_from_core(status);
}

static bool gated(fovea_activation a) {
    const fovea_activation_facts *facts = fovea_activation_info(a);
    return facts && facts->gate != a; /* others are refused when the map is packed */
}

static fovea_status build(packing *p) {
    fovea_mpi_linear *l = p->l;
    const fovea_linear_desc *d = &p->desc;
    l->in = d->in_features;
    l->parts = d->part_count;
    l->outputs = gated(d->activation) ? 1 : d->part_count;
    l->dtype = d->dtype;
    l->y_dtype = d->y_dtype;
    l->residual_dtype = d->residual_dtype;
    const size_t parts = (size_t)l->parts;
    l->own = calloc(parts, sizeof *l->own);
    l->bounds = calloc(parts * (size_t)(l->group->ranks + 1), sizeof *l->bounds);
    p->parts = calloc(parts, sizeof *p->parts);
    p->slices = calloc(parts, sizeof *p->slices);
    if (!l->own || !l->bounds || !p->parts || !p->slices)
        return fv_mpi_fail_memory();
    for (int64_t i = 0; i < l->parts; i++)
        fv_mpi_bounds(l->group, p->over.columns ? p->over.columns[i] : p->given[i].weight.out, p->over.multiple,
                      l->bounds + i * (l->group->ranks + 1));
    const fovea_status status = pack_own(p);
    return status == FOVEA_OK ? pack_check(p) : status;
}

fovea_status fovea_mpi_linear_create(fovea_mpi_group *group, const fovea_context *ctx,
                                     const fovea_mpi_linear_desc *desc, fovea_mpi_linear **linear) {
    if (linear)
        *linear = NULL;
    if (!group)
        return fv_mpi_fail_null("group");
    packing p = {.ctx = ctx, .l = calloc(1, sizeof *p.l)};
    fovea_status status = !p.l ? fv_mpi_fail_memory() : !linear ? fv_mpi_fail_null("linear") : read_desc(&p, desc);
    const uint64_t digest = status == FOVEA_OK ? desc_digest(&p) : 0;
    if (status == FOVEA_OK) {
        p.l->group = group;
        status = build(&p);
    }
    for (int64_t i = 0; p.slices && i < p.l->parts; i++)
        fv_mpi_slice_free(&p.slices[i]);
    free(p.slices);
    free(p.parts);
    status = fv_mpi_agree(group->comm, status, digest, "fields of desc or of desc.linear" FV_MPI_FASTEST);
    if (status == FOVEA_OK)
        *linear = p.l;
    else
        fovea_mpi_linear_destroy(p.l);
    return status;
}

void fovea_mpi_linear_destroy(fovea_mpi_linear *l) {
    if (!l)
        return;
    fovea_linear_destroy(l->map);
    fovea_linear_destroy(l->check);
    free(l->own);
    free(l->bounds);
    free(l);
}

int64_t fovea_mpi_linear_columns(const fovea_mpi_linear *l, int64_t part, int rank, int64_t *first) {
    if (first)
        *first = 0;
    if (!l || !first || part < 0 || part >= l->parts || rank < 0 || rank >= l->group->ranks)
        return 0;
    *first = fv_mpi_linear_bounds(l, part)[rank];
    return fv_mpi_linear_bounds(l, part)[rank + 1] - *first;
}

size_t fovea_mpi_linear_weight_bytes(const fovea_mpi_linear *l) {
    return l && l->map ? fovea_linear_weight_bytes(l->map) : 0;
}
