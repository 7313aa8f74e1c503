/* PASS: the order of work, and its predicted time, by simulation.
 *
 * Each rank does one stop at a time. Of the blocks at hand it takes the one with the most work ahead. At most
 * in_flight blocks are under way; when one ends, the next begins whose first rank has the least to do. A rank begins
 * with a short block, since others have nothing to do until it has passed one on. The order in
 * which stops begin is the order of all ranks' work, so each rank can wait for what comes earlier in it, and for
 * nothing else: no circle of ranks can wait for each other. Times are of the cost model; if it is wrong, ranks wait
 * longer.
 *
 * Every rank simulates by itself: sums of doubles in the same order, without contraction, are equal everywhere. */
#include "schedule.h"

#include <math.h>
#include <stdlib.h>

typedef struct entry {
    double key;
    int64_t block;
    int kind;
} entry;

typedef struct heap {
    entry *at;
    int64_t count;
} heap;

/* Least key first, then the lower block. */
static bool before(const entry *a, const entry *b) { return a->key != b->key ? a->key < b->key : a->block < b->block; }

static void push(heap *h, entry e) {
    int64_t i = h->count++;
    for (; i > 0 && before(&e, &h->at[(i - 1) / 2]); i = (i - 1) / 2)
        h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = e;
}

static entry pop(heap *h) {
    const entry top = h->at[0], last = h->at[--h->count];
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && before(&h->at[child + 1], &h->at[child]))
            child++;
        if (!before(&h->at[child], &last))
            break;
        h->at[i] = h->at[child];
    }
    h->at[i] = last;
    return top;
}

enum { ARRIVES, ENDS };

typedef struct rank_state {
    heap waiting, ready; /* blocks that have not begun, and that are here: by the seconds ahead, negative */
    double free_at, queued, sends_until, receives_until;
    bool busy;
} rank_state;

typedef struct simulation {
    const fv_mpi_problem *problem;
    const fv_mpi_routes *routes;
    rank_state *ranks;
    int64_t *next;    /* stop of each block */
    double *ahead;    /* seconds of a block's stops from next on */
    int64_t *opening; /* the block with which a rank begins; -1: any */
    heap events;
    fv_mpi_op *ops;
    int64_t op_count;
    entry *memory;
} simulation;

static const fv_mpi_stop *stop_of(const simulation *s, int64_t block) {
    return &s->routes->stops[s->routes->blocks[block].stop + s->next[block]];
}

static void emit(simulation *s, int64_t block, int64_t stop) {
    if (s->ops)
        s->ops[s->op_count] = (fv_mpi_op){block, stop};
    s->op_count++;
}

static double latest(double a, double b) { return a > b ? a : b; }

/* When a message that is ready now has arrived. An adapter sends one at a time, and receives one at a time. */
static double transfer(simulation *s, int from, int to, double now, int64_t bytes) {
    rank_state *out = &s->ranks[from], *in = &s->ranks[to];
    out->sends_until = in->receives_until =
        latest(now, latest(out->sends_until, in->receives_until)) + (double)bytes / s->problem->costs.bandwidth;
    return in->receives_until + s->problem->costs.latency;
}

static double urgency(const simulation *s, int rank, int64_t block) {
    return s->next[block] == 0 && s->opening[rank] == block ? -INFINITY : -s->ahead[block];
}

/* The next block, at the first rank that has the least to do. */
static void begin_one(simulation *s, double now) {
    int best = -1;
    for (int r = 0; r < s->problem->ranks; r++)
        if (s->ranks[r].waiting.count > 0 && (best < 0 || s->ranks[r].queued < s->ranks[best].queued))
            best = r;
    if (best < 0)
        return;
    const int64_t block = pop(&s->ranks[best].waiting).block;
    const fv_mpi_block *b = &s->routes->blocks[block];
    double at = now;
    if (b->home != best && s->problem->queries == FOVEA_MPI_QUERIES_DEALT) {
        emit(s, block, -1);
        at = transfer(s, b->home, best, latest(now, s->ranks[b->home].free_at), fv_mpi_q_bytes(s->problem, b));
    }
    s->ranks[best].queued += stop_of(s, block)->seconds;
    push(&s->events, (entry){at, block, ARRIVES});
}

static void dispatch(simulation *s, int rank, double now) {
    rank_state *r = &s->ranks[rank];
    if (r->busy || r->ready.count == 0)
        return;
    const int64_t block = pop(&r->ready).block;
    emit(s, block, s->next[block]);
    r->busy = true;
    r->free_at = now + stop_of(s, block)->seconds;
    push(&s->events, (entry){r->free_at, block, ENDS});
}

static double simulate(simulation *s, int64_t in_flight) {
    double now = 0, end = 0;
    for (int64_t i = 0; i < in_flight; i++)
        begin_one(s, 0);
    while (s->events.count > 0) {
        const entry e = pop(&s->events);
        const fv_mpi_stop *stop = stop_of(s, e.block);
        const int rank = stop->rank;
        now = e.key;
        if (e.kind == ARRIVES) {
            push(&s->ranks[rank].ready, (entry){urgency(s, rank, e.block), e.block, 0});
        } else {
            const fv_mpi_block *b = &s->routes->blocks[e.block];
            s->ranks[rank].busy = false;
            s->ranks[rank].queued -= stop->seconds;
            s->ahead[e.block] -= stop->seconds;
            if (++s->next[e.block] < b->stops) {
                const fv_mpi_stop *to = stop_of(s, e.block);
                s->ranks[to->rank].queued += to->seconds;
                const int64_t bytes = fv_mpi_hop_bytes(s->problem, b, to->rank);
                push(&s->events, (entry){transfer(s, rank, to->rank, now, bytes), e.block, ARRIVES});
            } else {
                end = latest(end,
                             b->home == rank ? now : transfer(s, rank, b->home, now, fv_mpi_out_bytes(s->problem, b)));
                begin_one(s, now);
            }
        }
        if (now > 0)
            dispatch(s, rank, now);
        else if (s->events.count == 0 || s->events.at[0].key > 0) /* all that is there at the beginning */
            for (int r = 0; r < s->problem->ranks; r++)
                dispatch(s, r, now);
    }
    return end;
}

/* The block with which each rank begins: of those that others wait for, the one that it passes on first. */
static bool opens(const fv_mpi_routes *r, int64_t block, int64_t best) {
    const fv_mpi_block *b = &r->blocks[block];
    const fv_mpi_stop *first = &r->stops[b->stop];
    if (b->stops < 2 || b->home != first->rank)
        return false;
    return best < 0 || first->seconds < r->stops[r->blocks[best].stop].seconds;
}

double fv_mpi_schedule(const fv_mpi_problem *p, const fv_mpi_routes *r, int64_t in_flight, fv_mpi_op *ops,
                       int64_t *op_count) {
    const int64_t blocks = r->block_count;
    simulation s = {.problem = p, .routes = r, .ops = ops};
    /* A rank's heaps hold as many blocks as begin there, and as many as are under way. */
    int64_t *begins = calloc((size_t)p->ranks + 1, sizeof *begins);
    s.opening = calloc((size_t)p->ranks + 1, sizeof *s.opening);
    const int64_t under_way = fv_mpi_min(in_flight, blocks);
    s.ranks = calloc((size_t)p->ranks, sizeof *s.ranks);
    s.next = calloc((size_t)blocks + 1, sizeof *s.next);
    s.ahead = calloc((size_t)blocks + 1, sizeof *s.ahead);
    s.memory = calloc((size_t)(blocks + (p->ranks + 1) * under_way + 1), sizeof *s.memory);
    double seconds = -1;
    if (begins && s.opening && s.ranks && s.next && s.ahead && s.memory) {
        for (int i = 0; i < p->ranks; i++)
            s.opening[i] = -1;
        for (int64_t i = 0; i < blocks; i++) {
            const int first = r->stops[r->blocks[i].stop].rank;
            begins[first]++;
            if (opens(r, i, s.opening[first]))
                s.opening[first] = i;
        }
        entry *free_entries = s.memory;
        s.events.at = free_entries, free_entries += under_way;
        for (int i = 0; i < p->ranks; i++) {
            s.ranks[i].waiting.at = free_entries, free_entries += begins[i];
            s.ranks[i].ready.at = free_entries, free_entries += under_way;
        }
        for (int64_t i = 0; i < blocks; i++) {
            const fv_mpi_block *b = &r->blocks[i];
            for (int64_t j = 0; j < b->stops; j++)
                s.ahead[i] += r->stops[b->stop + j].seconds;
            const int first = r->stops[b->stop].rank;
            push(&s.ranks[first].waiting, (entry){urgency(&s, first, i), i, 0});
        }
        seconds = simulate(&s, under_way);
        if (op_count)
            *op_count = s.op_count;
    }
    free(begins);
    free(s.opening);
    free(s.ranks);
    free(s.next);
    free(s.ahead);
    free(s.memory);
    return seconds;
}

/* The slowest rank's segments, one call each; then messages of states into the rank that merges the most; then merges,
 * which read each state; then results. Overlap is left out. */
double fv_mpi_gather_seconds(const fv_mpi_problem *p, const fv_mpi_routes *r) {
    const int64_t segments = fv_mpi_ceil(p->desc.kv_len, FV_MPI_SEGMENT);
    double *bytes = calloc((size_t)p->ranks + 1, sizeof *bytes); /* of states, into each rank */
    double work = 0, slowest = 0, states = 0, other = 0;
    for (int64_t i = 0; bytes && i < r->block_count; i++) {
        const fv_mpi_block *b = &r->blocks[i];
        int64_t low, high;
        fv_mpi_sees(&p->desc, b->query, b->queries, p->max_offset, p->max_offset, &low, &high);
        const double visible = (double)(fv_mpi_ceil(high, FV_MPI_SEGMENT) - low / FV_MPI_SEGMENT);
        work += fv_mpi_visit_seconds(p, b, 0, p->desc.kv_len) + visible * p->costs.call;
        bytes[b->home] += visible * (double)fv_mpi_state_bytes(p, b);
        if (b->home == 0)
            other += (double)(fv_mpi_q_bytes(p, b) + fv_mpi_out_bytes(p, b)) / p->costs.bandwidth;
    }
    for (int rank = 0; bytes && rank < p->ranks; rank++) {
        const double mine = (double)fv_mpi_ceil(fv_mpi_held(&r->keys, rank), FV_MPI_SEGMENT);
        const double seconds = segments > 0 ? work * mine / (double)segments : 0;
        slowest = seconds > slowest ? seconds : slowest;
        states = bytes[rank] > states ? bytes[rank] : states;
    }
    const bool made = bytes != NULL;
    free(bytes);
    const double away = (double)(p->ranks - 1) / (double)p->ranks;
    return made ? slowest + 2 * p->costs.latency + states * away * (1 / p->costs.bandwidth + 1 / p->costs.copy) +
                      states / p->costs.key_bytes + other * (double)(p->ranks - 1)
                : -1;
}
