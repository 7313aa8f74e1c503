/* Descriptions: checks, and what all ranks must have alike. */
#include "desc.h"
#include "agree.h"
#include "structs.h"

static fovea_status check_range(const char *name, int64_t value, int64_t most) {
    return value >= 0 && value <= most ? FOVEA_OK
                                       : fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "%s is %lld; it must be from 0 to %lld",
                                                     name, (long long)value, (long long)most);
}

static fovea_status check_own(const fovea_mpi_attention_desc *m) {
    const struct {
        const char *name;
        int64_t value, most;
    } ranges[] = {
        {"queries", m->queries, FOVEA_MPI_QUERIES_REPLICATED},
        {"method", m->method, FOVEA_MPI_METHOD_GATHER},
        {"stripe_segments", m->stripe_segments, (int64_t)1 << 40},
        {"query_stripe", m->query_stripe, (int64_t)1 << 48},
        {"block_queries", m->block_queries, (int64_t)1 << 48},
        {"block_kv_heads", m->block_kv_heads, (int64_t)1 << 48},
        {"in_flight", m->in_flight, (int64_t)1 << 20},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (check_range(ranges[i].name, ranges[i].value, ranges[i].most) != FOVEA_OK)
            return FOVEA_ERROR_ARGUMENT;
    const int64_t limit = (int64_t)1 << 60, offsets[2] = {m->min_offset, m->max_offset};
    for (int i = 0; i < 2; i++)
        if (offsets[i] != FOVEA_MPI_OFFSET_FULL && (offsets[i] < -limit || offsets[i] > limit))
            return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "%s_offset is %lld; it must be from -2^60 to 2^60",
                               i ? "max" : "min", (long long)offsets[i]);
    return FOVEA_OK;
}

static fovea_status check_costs(const fovea_mpi_costs *c) {
    const double all[] = {c->flops, c->key_bytes, c->call, c->latency, c->bandwidth, c->copy};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!(all[i] >= 0 && all[i] <= 1e30))
            return fv_mpi_fail(FOVEA_ERROR_ARGUMENT, "costs: a field is negative, too large or no number");
    return FOVEA_OK;
}

static fovea_status check_supported(const fovea_attention_desc *d, const fovea_mpi_attention_desc *m) {
    const bool paged = d->page_keys != 0, window = d->relative == FOVEA_RELATIVE_WINDOW_2D;
    const fv_mpi_refusal refused[] = {
        {"a mask", d->mask != FOVEA_MASK_NONE},
        {"has_bias", d->has_bias},
        {"packed sequences", d->packed},
        {"pages that are not those of a cache (page_keys must be 256)", paged && d->page_keys != FOVEA_KV_PAGE_KEYS},
        {"block_kv_heads other than all with keys in a cache",
         paged && m->block_kv_heads != 0 && m->block_kv_heads != d->kv_heads},
        {"GATHER with FOVEA_RELATIVE_WINDOW_2D", m->method == FOVEA_MPI_METHOD_GATHER && window}};
    return fv_mpi_refuse(refused, sizeof refused / sizeof refused[0]);
}

/* Reads a description that the core checks, and resolves its types and its arithmetic: FASTEST depends on the CPU. */
static fovea_status read_attention(const fovea_context *ctx, const fovea_attention_desc *given,
                                   fovea_attention_desc *d) {
    fovea_attention_plan *whole;
    fovea_attention_desc_init(d);
    fovea_status status = ctx ? fv_mpi_read_struct(d, given, sizeof *d, "desc.attention") : fv_mpi_fail_null("ctx");
    if (status == FOVEA_OK)
        status = fv_mpi_from_core(fovea_attention_plan_create(ctx, d, &whole));
    if (status != FOVEA_OK)
        return status;
    d->arithmetic = fovea_attention_plan_arithmetic(whole);
    fovea_attention_plan_destroy(whole);
    d->k_dtype = d->k_dtype ? d->k_dtype : d->dtype;
    d->v_dtype = d->v_dtype ? d->v_dtype : d->dtype;
    d->out_dtype = d->out_dtype ? d->out_dtype : d->dtype;
    return FOVEA_OK;
}

fovea_status fv_mpi_read_desc(const fovea_context *ctx, const fovea_mpi_attention_desc *given, fv_mpi_problem *p,
                              fovea_mpi_attention_desc *m) {
    fovea_attention_desc *d = &p->desc;
    fovea_mpi_attention_desc_init(m);
    fovea_mpi_costs_init(&p->costs);
    fovea_status status = fv_mpi_read_struct(m, given, sizeof *m, "desc");
    if (status == FOVEA_OK)
        status = read_attention(ctx, m->attention, d);
    if (status == FOVEA_OK)
        status = check_supported(d, m);
    if (status == FOVEA_OK)
        status = check_own(m);
    if (status == FOVEA_OK && m->costs)
        status = fv_mpi_read_struct(&p->costs, m->costs, sizeof p->costs, "costs");
    return status == FOVEA_OK ? check_costs(&p->costs) : status;
}

/* Field by field: what lies between fields is not the caller's, nor is the number in a field that is not used. */
uint64_t fv_mpi_desc_digest(const fovea_attention_desc *d, const fovea_mpi_attention_desc *m) {
    const int64_t whole[] = {
#define FOVEA_DESC(type, name) (int64_t) d->name,
#define FOVEA_DESC_SIZE(name, initial, least, most, status, when, text) (when) ? d->name : 0,
#define FOVEA_DESC_FLAG(name, text) d->name != 0,
#define FOVEA_DESC_NUMBER(name, least, most, text)
#define FOVEA_DESC_NUMBER_IF(name, flag, least, most, text)
#include "fovea/fields.inc"
    };
    const double reals[] = {
#define FOVEA_DESC_NUMBER(name, least, most, text) d->name,
#define FOVEA_DESC_NUMBER_IF(name, flag, least, most, text) d->flag ? d->name : 0,
#include "fovea/fields.inc"
    };
    const int64_t own[] = {m->queries,        m->method,    m->stripe_segments, m->query_stripe, m->block_queries,
                           m->block_kv_heads, m->in_flight, m->min_offset,      m->max_offset};
    uint64_t sum = fv_mpi_digest(0, whole, sizeof whole);
    sum = fv_mpi_digest(sum, own, sizeof own);
    return fv_mpi_digest(sum, reals, sizeof reals);
}
