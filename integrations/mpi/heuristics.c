/* Fields that the caller leaves open: the fastest candidate by the cost model. Stripes from contiguous to 32 for each
 * rank; blocks of powers of two queries, of all key heads, some or one. GATHER has the narrowest stripes: then
 * work is even however many keys there are. */
#include "heuristics.h"
#include "schedule.h"

enum { MOST_STOPS = 30000 }; /* of a candidate that is simulated, or ranks squared; unless it is the only one */

static void consider(const fv_mpi_problem *p, const fv_mpi_choice *c, fv_mpi_choice *best, double *seconds, bool *ok) {
    const int64_t stripes = fv_mpi_ceil(p->desc.kv_len, c->stripe_segments * FV_MPI_SEGMENT);
    const int64_t most = fv_mpi_max(MOST_STOPS, (int64_t)p->ranks * p->ranks);
    const bool pass = c->method == FOVEA_MPI_METHOD_PASS;
    if (*seconds >= 0 && fv_mpi_block_count(p, c) > most / (pass ? stripes / 2 + 1 : 1))
        return;
    fv_mpi_routes routes;
    *ok = fv_mpi_routes_make(p, c, &routes);
    if (*ok) {
        const double predicted =
            pass ? fv_mpi_schedule(p, &routes, c->in_flight, NULL, NULL) : fv_mpi_gather_seconds(p, &routes);
        *ok = predicted >= 0;
        if (*ok && (*seconds < 0 || predicted < *seconds))
            *best = *c, *seconds = predicted;
    }
    fv_mpi_routes_free(&routes);
}

/* Fields of given that are not 0 hold for all candidates. */
static void consider_blocks(const fv_mpi_problem *p, const fv_mpi_choice *given, fv_mpi_choice c, fv_mpi_choice *best,
                            double *seconds, bool *ok) {
    const fovea_attention_desc *d = &p->desc;
    const int64_t all = fv_mpi_max(1, d->kv_heads), queries = fv_mpi_max(1, d->q_len);
    const int64_t heads[] = {all, fv_mpi_ceil(all, 2), fv_mpi_ceil(all, p->ranks), 1};
    c.query_stripe = given->query_stripe     ? given->query_stripe
                     : d->q_len == d->kv_len ? c.stripe_segments * FV_MPI_SEGMENT
                                             : fv_mpi_max(1, fv_mpi_ceil(d->q_len, p->ranks));
    const int64_t longest = p->queries == FOVEA_MPI_QUERIES_DEALT && p->ranks > 1 ? 2 * c.query_stripe : queries;
    for (int64_t n = queries, next; n > 0 && *ok; n = next) {
        c.block_queries = given->block_queries ? given->block_queries : n;
        for (int64_t h = 0, last = 0; h < 4 && *ok; last = heads[h++]) {
            c.block_kv_heads = given->block_kv_heads ? given->block_kv_heads : heads[h];
            if (h == 0 || (heads[h] < last && !given->block_kv_heads))
                consider(p, &c, best, seconds, ok);
        }
        /* blocks end where their rank's queries do: longer ones would be the same again */
        for (next = 128; next * 2 < fv_mpi_min(n, longest); next *= 2) {
        }
        if (n <= 128 || given->block_queries)
            next = 0;
    }
}

bool fv_mpi_choose(const fv_mpi_problem *p, const fv_mpi_choice *given, fv_mpi_choice *choice, double *seconds) {
    const int64_t segments = fv_mpi_max(1, fv_mpi_ceil(p->desc.kv_len, FV_MPI_SEGMENT));
    const bool window = p->desc.relative == FOVEA_RELATIVE_WINDOW_2D;
    bool ok = true;
    *seconds = -1;
    for (int method = FOVEA_MPI_METHOD_PASS; method <= FOVEA_MPI_METHOD_GATHER; method++) {
        const bool gather = method == FOVEA_MPI_METHOD_GATHER;
        if ((given->method != FOVEA_MPI_METHOD_MODEL && (int)given->method != method) ||
            (gather && window && given->method == FOVEA_MPI_METHOD_MODEL))
            continue;
        fv_mpi_choice c = {.method = (fovea_mpi_method)method,
                           .in_flight = given->in_flight ? given->in_flight : 2 * p->ranks + 2};
        for (int64_t parts = gather ? segments : 1, last = 0; parts <= (gather ? segments : 32) && ok; parts *= 2) {
            c.stripe_segments = given->stripe_segments ? given->stripe_segments
                                : gather               ? 1
                                                       : fv_mpi_ceil(segments, p->ranks * parts);
            if (c.stripe_segments != last)
                consider_blocks(p, given, c, choice, seconds, &ok);
            last = c.stripe_segments;
        }
    }
    return ok;
}
