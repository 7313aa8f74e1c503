/* Blocks of queries, the stops that each makes with PASS, and what a stop costs. */
#include "route.h"

#include <stdlib.h>

/* Costs treat ROWS queries as one, or more if a block would have over PARTS such parts. */
enum { ROWS = 64, PARTS = 4096 };

static int64_t rows_of(const fv_mpi_problem *p, const fv_mpi_block *b) {
    return p->desc.batch * b->queries * b->heads * fv_mpi_heads_per_key(&p->desc);
}

int64_t fv_mpi_q_bytes(const fv_mpi_problem *p, const fv_mpi_block *b) {
    return fv_mpi_units(rows_of(p, b) * p->desc.head_dim * fv_mpi_element(p->desc.dtype));
}

int64_t fv_mpi_state_bytes(const fv_mpi_problem *p, const fv_mpi_block *b) {
    return fv_mpi_units(rows_of(p, b) * (p->desc.value_dim + 2) * 4 + FV_MPI_UNIT);
}

int64_t fv_mpi_out_bytes(const fv_mpi_problem *p, const fv_mpi_block *b) {
    const int64_t rows = rows_of(p, b);
    return fv_mpi_units(rows * p->desc.value_dim * fv_mpi_element(p->desc.out_dtype)) + fv_mpi_units(rows * 4);
}

int64_t fv_mpi_hop_bytes(const fv_mpi_problem *p, const fv_mpi_block *b, int to) {
    const bool with_q = p->queries == FOVEA_MPI_QUERIES_DEALT && to != b->home;
    return fv_mpi_state_bytes(p, b) + (with_q ? fv_mpi_q_bytes(p, b) : 0);
}

void fv_mpi_sees(const fovea_attention_desc *d, int64_t first, int64_t count, int64_t min, int64_t max, int64_t *low,
                 int64_t *high) {
    const int64_t last = first + count - 1 + max;
    int64_t end = d->kv_len;
    if (d->causal != FOVEA_CAUSAL_NONE)
        end = fv_mpi_min(end, last + 1);
    if (d->window_right >= 0 && last < d->kv_len - d->window_right)
        end = fv_mpi_min(end, last + d->window_right + 1);
    *high = fv_mpi_max(0, end);
    *low = d->window_left >= 0 ? fv_mpi_clamp(first + min - d->window_left, 0, *high) : 0;
}

/* Bytes of a channel of a key or value; with scales of 4-bit caches. */
static double stored(fovea_dtype dtype) { return dtype == FOVEA_DTYPE_I4 ? 0.5625 : (double)fv_mpi_element(dtype); }

double fv_mpi_visit_seconds(const fv_mpi_problem *p, const fv_mpi_block *b, int64_t key, int64_t keys) {
    const fovea_attention_desc *d = &p->desc;
    const double heads = (double)(d->batch * b->heads), groups = (double)fv_mpi_heads_per_key(d);
    double pairs = 0;
    int64_t low, high, read_low = key + keys, read_high = key;
    const int64_t rows = fv_mpi_max(ROWS, fv_mpi_ceil(b->queries, PARTS));
    for (int64_t i = 0; i < b->queries; i += rows) {
        const int64_t n = fv_mpi_min(rows, b->queries - i);
        /* on average rows see half of the keys that only some of them see */
        fv_mpi_sees(d, b->query + i + n / 2, 1, p->max_offset, p->max_offset, &low, &high);
        low = fv_mpi_clamp(low, key, key + keys), high = fv_mpi_clamp(high, key, key + keys);
        pairs += (double)n * (double)fv_mpi_max(0, high - low);
        if (high > low)
            read_low = fv_mpi_min(read_low, low), read_high = fv_mpi_max(read_high, high);
    }
    const double bytes = (double)d->head_dim * stored(d->k_dtype) + (double)d->value_dim * stored(d->v_dtype);
    return p->costs.call + 2 * pairs * groups * heads * (double)(d->head_dim + d->value_dim) / p->costs.flops +
           (double)fv_mpi_max(0, read_high - read_low) * heads * bytes / p->costs.key_bytes;
}

/* Without a walk over stripes: runs are the first stripe, pairs of stripes, and single ones between. */
int64_t fv_mpi_block_count(const fv_mpi_problem *p, const fv_mpi_choice *c) {
    const fovea_attention_desc *d = &p->desc;
    const int64_t heads = fv_mpi_ceil(d->kv_heads, c->block_kv_heads), width = c->query_stripe;
    const int64_t stripes = fv_mpi_ceil(d->q_len, width);
    if (d->batch == 0 || d->kv_heads == 0 || d->q_heads == 0 || d->q_len == 0)
        return 0;
    if (p->queries != FOVEA_MPI_QUERIES_DEALT || p->ranks == 1 || stripes == 1)
        return fv_mpi_ceil(d->q_len, c->block_queries) * heads;
    const fv_mpi_layout tokens = {d->q_len, width, p->ranks};
    const int64_t paired = (stripes - 1) % p->ranks == 0; /* is the last stripe, which may be short, in a pair? */
    const int64_t pairs = (stripes - 1) / p->ranks, singles = stripes - 2 * pairs;
    const int64_t last = fv_mpi_run(&tokens, (stripes - 1 - paired) * width);
    return ((pairs - paired) * fv_mpi_ceil(2 * width, c->block_queries) +
            (singles - !paired) * fv_mpi_ceil(width, c->block_queries) + fv_mpi_ceil(last, c->block_queries)) *
           heads;
}

static void cut(const fv_mpi_problem *p, const fv_mpi_choice *c, const fv_mpi_layout *tokens, fv_mpi_block *blocks) {
    const fovea_attention_desc *d = &p->desc;
    const bool dealt = p->queries == FOVEA_MPI_QUERIES_DEALT;
    int64_t count = 0;
    for (int64_t first = 0; d->batch > 0 && d->kv_heads > 0 && d->q_heads > 0 && first < d->q_len;) {
        const int64_t run = dealt ? fv_mpi_run(tokens, first) : d->q_len;
        for (int64_t i = 0; i < run; i += c->block_queries)
            for (int64_t h = 0; h < d->kv_heads; h += c->block_kv_heads, count++)
                blocks[count] = (fv_mpi_block){
                    .query = first + i,
                    .queries = fv_mpi_min(c->block_queries, run - i),
                    .head = h,
                    .heads = fv_mpi_min(c->block_kv_heads, d->kv_heads - h),
                    .home = dealt ? fv_mpi_owner(tokens, first) : (int)(count % p->ranks),
                    .q_local = dealt ? fv_mpi_local(tokens, first + i) : first + i,
                };
        first += run;
    }
}

/* Counts a block's stops, or writes them: all runs of keys that it may see; if none, one at home without keys. */
static int64_t route(const fv_mpi_problem *p, const fv_mpi_layout *keys, const fv_mpi_block *b, fv_mpi_stop *stops) {
    int64_t low, high, count = 0;
    fv_mpi_sees(&p->desc, b->query, b->queries, p->min_offset, p->max_offset, &low, &high);
    for (int64_t at = 0; at < high && low < high;) {
        const int64_t run = fv_mpi_run(keys, at);
        if (at + run > low) {
            if (stops)
                stops[count] = (fv_mpi_stop){fv_mpi_owner(keys, at), at, run, fv_mpi_visit_seconds(p, b, at, run)};
            count++;
        }
        at += run;
    }
    if (count == 0 && stops)
        stops[0] = (fv_mpi_stop){b->home, 0, 0, p->costs.call};
    return fv_mpi_max(1, count);
}

/* The CPU's share of messages to and from a block's stops. */
static void add_copies(const fv_mpi_problem *p, const fv_mpi_block *b, fv_mpi_stop *stops) {
    const bool dealt = p->queries == FOVEA_MPI_QUERIES_DEALT;
    const int64_t q = dealt ? fv_mpi_q_bytes(p, b) : 0;
    for (int64_t i = 0; i < b->stops; i++) {
        const bool home = stops[i].rank == b->home;
        const int64_t in = i > 0 ? fv_mpi_hop_bytes(p, b, stops[i].rank) : home ? 0 : q;
        const int64_t out = i + 1 < b->stops ? fv_mpi_hop_bytes(p, b, stops[i + 1].rank)
                            : home           ? 0
                                             : fv_mpi_out_bytes(p, b);
        stops[i].seconds += (double)(in + out) / p->costs.copy;
    }
}

bool fv_mpi_routes_make(const fv_mpi_problem *p, const fv_mpi_choice *c, fv_mpi_routes *r) {
    *r = (fv_mpi_routes){
        .keys = {p->desc.kv_len, c->stripe_segments * FV_MPI_SEGMENT, p->ranks},
        .tokens = {p->desc.q_len, c->query_stripe, p->ranks},
    };
    r->block_count = fv_mpi_block_count(p, c);
    r->blocks = calloc((size_t)r->block_count + 1, sizeof *r->blocks);
    if (!r->blocks)
        return false;
    cut(p, c, &r->tokens, r->blocks);
    if (c->method == FOVEA_MPI_METHOD_GATHER)
        return true;
    for (int64_t i = 0; i < r->block_count; i++) {
        r->blocks[i].stop = r->stop_count;
        r->blocks[i].stops = route(p, &r->keys, &r->blocks[i], NULL);
        r->stop_count += r->blocks[i].stops;
    }
    r->stops = calloc((size_t)r->stop_count + 1, sizeof *r->stops);
    if (!r->stops)
        return false;
    for (int64_t i = 0; i < r->block_count; i++) {
        fv_mpi_block *b = &r->blocks[i];
        route(p, &r->keys, b, r->stops + b->stop);
        if (p->queries == FOVEA_MPI_QUERIES_REPLICATED) /* the result is where it is finished */
            b->home = r->stops[b->stop + b->stops - 1].rank;
        add_copies(p, b, r->stops + b->stop);
    }
    return true;
}

void fv_mpi_routes_free(fv_mpi_routes *r) {
    free(r->blocks);
    free(r->stops);
    r->blocks = NULL;
    r->stops = NULL;
}
