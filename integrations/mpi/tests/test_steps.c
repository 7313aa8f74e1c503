/* The plan of PASS without MPI: all ranks' steps (steps.c) are gone through as pass.c does, for many shapes, ranks and
 * stripes. A message counts as sent only when its receive is posted, which is the worst that MPI may do. Then
 *   - no rank waits for ever, with the slots of the plan and without the spare ones,
 *   - a rank has as many slots as it needs at the most, and the spare ones,
 *   - messages from one rank to another are expected in the order in which they are sent,
 *   - a block makes each of its stops once, in order; the stops are all keys that it may see, where they are; its
 *     result gets home. */
#include "heuristics.h"
#include "schedule.h"
#include "steps.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------------ problems -- */

typedef struct trial {
    fv_mpi_problem p;
    fv_mpi_choice c;
    fv_mpi_routes r;
    int64_t number;
} trial;

static void describe(const trial *t, char *text, size_t size) {
    const fovea_attention_desc *d = &t->p.desc;
    snprintf(text, size,
             "case %" PRId64 ": %d ranks, %" PRId64 " queries %s, %" PRId64 " keys, %" PRId64
             " heads, causal %d, window "
             "%" PRId64 "/%" PRId64 ", stripes %" PRId64 "/%" PRId64 ", blocks %" PRId64 " x %" PRId64 ", %" PRId64
             " in flight",
             t->number, t->p.ranks, d->q_len, t->p.queries == FOVEA_MPI_QUERIES_DEALT ? "dealt" : "replicated",
             d->kv_len, d->kv_heads, (int)d->causal, d->window_left, d->window_right, t->c.stripe_segments,
             t->c.query_stripe, t->c.block_queries, t->c.block_kv_heads, t->c.in_flight);
}

static bool expect(const trial *t, bool ok, const char *what, int64_t a, int64_t b) {
    char text[400] = "";
    if (!ok)
        describe(t, text, sizeof text);
    return test_check(ok, "%s (%" PRId64 ", %" PRId64 "): %s", what, a, b, text);
}

static double power(rng *r, int64_t low, int64_t high) {
    double x = 1;
    for (int64_t n = rng_between(r, low, high); n != 0; n += n < 0 ? 1 : -1)
        x *= n < 0 ? 0.1 : 10;
    return x * (1 + (double)rng_below(r, 9));
}

static void draw(rng *r, trial *t) {
    fv_mpi_problem *p = &t->p;
    fovea_attention_desc *d = &p->desc;
    fovea_attention_desc_init(d);
    p->ranks = (int)rng_between(r, 1, 12);
    p->queries = (fovea_mpi_queries)rng_below(r, 2);
    p->costs = (fovea_mpi_costs){sizeof p->costs,  power(r, 9, 13), power(r, 9, 11), power(r, -7, -4),
                                 power(r, -7, -2), power(r, 7, 11), power(r, 8, 11)};
    d->batch = rng_between(r, 1, 2);
    d->kv_heads = rng_between(r, 1, 6);
    d->q_heads = d->kv_heads * rng_between(r, 1, 3);
    d->kv_len = rng_below(r, 8) ? rng_between(r, 1, 9000) : rng_below(r, 2);
    d->q_len = rng_below(r, 3) ? d->kv_len : rng_below(r, 4000);
    d->head_dim = d->value_dim = 16;
    d->k_dtype = d->v_dtype = d->out_dtype = d->dtype;
    d->causal = (fovea_causal)rng_below(r, 4);
    d->window_left = rng_below(r, 3) ? -1 : rng_below(r, 3000);
    d->window_right = rng_below(r, 3) ? -1 : rng_below(r, 3000);
    p->min_offset = rng_between(r, -500, 500);
    p->max_offset = p->min_offset + rng_below(r, 1000);
    const fv_mpi_choice none = {.method = FOVEA_MPI_METHOD_PASS},
                        given = {.stripe_segments = rng_between(r, 1, 6),
                                 .query_stripe = rng_between(r, 1, 900),
                                 .block_queries = rng_between(r, 20, 900),
                                 .block_kv_heads = rng_between(r, 1, 6),
                                 .in_flight = rng_between(r, 1, 2 * p->ranks + 3),
                                 .method = FOVEA_MPI_METHOD_PASS};
    double seconds;
    if (!fv_mpi_choose(p, rng_below(r, 6) ? &given : &none, &t->c, &seconds) || !fv_mpi_routes_make(p, &t->c, &t->r))
        abort();
}

/* -------------------------------------------------------------------------------------------------------- routes -- */

/* Runs are as long as they can be. */
static void check_runs(const trial *t, const fv_mpi_layout *l) {
    int64_t at = 0, run = 0;
    for (; at < l->total; at += run) {
        run = fv_mpi_run(l, at);
        bool one = run > 0 && at + run <= l->total;
        for (int64_t i = at; one && i < at + run && l->ranks > 1; i += l->width)
            one = fv_mpi_owner(l, i) == fv_mpi_owner(l, at);
        expect(t, one && (at == 0 || fv_mpi_owner(l, at - 1) != fv_mpi_owner(l, at)), "run", at, run);
        if (run <= 0)
            break;
    }
}

static void check_routes(const trial *t) {
    const fv_mpi_routes *r = &t->r;
    check_runs(t, &r->keys);
    if (t->p.queries == FOVEA_MPI_QUERIES_DEALT)
        check_runs(t, &r->tokens);
    const bool dealt = t->p.queries == FOVEA_MPI_QUERIES_DEALT;
    int64_t work = 0, stops = 0;
    for (int64_t i = 0; i < r->block_count; i++) {
        const fv_mpi_block *b = &r->blocks[i];
        const fv_mpi_stop *s = r->stops + b->stop;
        int64_t low, high;
        fv_mpi_sees(&t->p.desc, b->query, b->queries, t->p.min_offset, t->p.max_offset, &low, &high);
        work += b->queries * b->heads;
        expect(t, b->stop == stops && b->stops > 0, "stops of block", i, b->stops);
        stops += b->stops;
        if (dealt)
            expect(t,
                   b->home == fv_mpi_owner(&r->tokens, b->query) && fv_mpi_run(&r->tokens, b->query) >= b->queries &&
                       b->q_local == fv_mpi_local(&r->tokens, b->query),
                   "queries of block", i, b->home);
        for (int64_t k = 0; k < b->stops; k++)
            expect(t,
                   low < high ? s[k].rank == fv_mpi_owner(&r->keys, s[k].key) && s[k].keys > 0 &&
                                    s[k].keys <= fv_mpi_run(&r->keys, s[k].key) &&
                                    (k == 0 ? s[k].key <= low : s[k].key == s[k - 1].key + s[k - 1].keys) &&
                                    (k + 1 == b->stops ? s[k].key + s[k].keys >= high : s[k].key + s[k].keys < high)
                              : b->stops == 1 && s[k].keys == 0,
                   "keys of block, stop", i, k);
    }
    expect(t, work == t->p.desc.q_len * t->p.desc.kv_heads && stops == r->stop_count, "all queries and stops", work,
           stops);
}

/* --------------------------------------------------------------------------------------------------------- ranks -- */

enum { STATE, OUT, TAGS };

/* The message to stop i of block b has number stop + b + i, its result that of i = stops. */
typedef struct message {
    int64_t sent, received; /* which from its sender to its receiver with its tag; -1: not posted */
} message;

typedef struct slot {
    int64_t block, leaving; /* leaving: a message, or -1 */
} slot;

typedef struct machine {
    fv_mpi_steps steps;
    int64_t slot_count, next, at, next_out, most; /* most: slots in use */
    slot *slots;
    struct {
        int64_t message; /* -1: none */
        bool here;       /* it is received */
    } outs[FV_MPI_OUT_SLOTS];
    bool ended;
} machine;

typedef struct world {
    const trial *t;
    machine *ranks;
    message *messages;
    int64_t *posted; /* [2: sends, receives][TAGS][from][to] */
    int64_t *made, *home;
} world;

static int64_t number_of(const world *w, int64_t block, int64_t stop) {
    return w->t->r.blocks[block].stop + block + stop;
}

/* Posts a send (receive 0) or a receive (1). */
static void post(const world *w, int receive, int tag, int from, int to, int64_t number) {
    message *m = &w->messages[number];
    const int ranks = w->t->p.ranks;
    int64_t *const at = receive ? &m->received : &m->sent, other = receive ? m->sent : m->received;
    expect(w->t, *at < 0, receive ? "received once" : "sent once", number, *at);
    *at = w->posted[((receive * TAGS + tag) * ranks + from) * ranks + to]++;
    expect(w->t, other < 0 || other == *at, "the order of messages", number, other);
}

static bool left(const world *w, int64_t number) { return number < 0 || w->messages[number].received >= 0; }

/* The slot that would be taken next; NULL: none is free. */
static slot *free_slot(const machine *m) {
    for (int64_t i = 0; i < m->slot_count; i++)
        if (m->slots[(m->next + i) % m->slot_count].block < 0)
            return &m->slots[(m->next + i) % m->slot_count];
    return NULL;
}

static slot *slot_with(const machine *m, int64_t block) {
    for (int64_t i = 0; i < m->slot_count; i++)
        if (m->slots[i].block == block)
            return &m->slots[i];
    return NULL;
}

static void take(machine *m, slot *s, int64_t block) {
    int64_t used = 0;
    *s = (slot){block, -1};
    m->next = (s - m->slots + 1) % m->slot_count;
    for (int64_t i = 0; i < m->slot_count; i++)
        used += m->slots[i].block >= 0;
    m->most = used > m->most ? used : m->most;
}

static bool settled(const world *w, const machine *m, int64_t out) {
    const int64_t number = m->outs[out].message;
    return m->outs[out].here ? number < 0 || w->messages[number].sent >= 0 : left(w, number);
}

/* A step of a rank, unless it has to wait. */
static bool step(const world *w, int rank) {
    const trial *t = w->t;
    machine *m = &w->ranks[rank];
    const fv_mpi_step *s = &m->steps.at[m->at];
    const fv_mpi_block *b = &t->r.blocks[s->block];
    const fv_mpi_stop *stops = t->r.stops + b->stop;
    const int64_t arriving = number_of(w, s->block, s->stop), result = number_of(w, s->block, b->stops),
                  out = m->next_out % FV_MPI_OUT_SLOTS;
    const bool last = s->stop + 1 == b->stops, visit = s->kind == FV_MPI_VISIT,
               uses_out = s->kind == FV_MPI_EXPECT_OUT || (visit && last && b->home != rank);
    if (uses_out && !settled(w, m, out))
        return false;
    if (s->kind == FV_MPI_EXPECT_OUT) {
        m->next_out++;
        m->outs[out].message = result, m->outs[out].here = true;
        post(w, 1, OUT, stops[b->stops - 1].rank, rank, result);
        w->home[s->block]++;
        return true;
    }
    slot *at = visit ? slot_with(m, s->block) : NULL;
    if (at && w->messages[arriving].sent < 0)
        return false;
    if (!at) {
        at = free_slot(m);
        if (!expect(t, at != NULL, "no slot on rank, at step", rank, m->at)) {
            m->at = m->steps.count;
            return false;
        }
        if (!left(w, at->leaving))
            return false;
        take(m, at, s->block);
        expect(t, !visit || (s->stop == 0 && (b->home == rank || t->p.queries == FOVEA_MPI_QUERIES_REPLICATED)),
               "nothing expected of block, at stop", s->block, s->stop);
    }
    if (s->kind == FV_MPI_EXPECT) {
        post(w, 1, STATE, s->stop > 0 ? stops[s->stop - 1].rank : b->home, rank, arriving);
        return true;
    }
    at->block = -1;
    if (s->kind == FV_MPI_SEND_Q) {
        post(w, 0, STATE, rank, stops[0].rank, arriving);
        at->leaving = arriving;
        return true;
    }
    expect(t, stops[s->stop].rank == rank && w->made[s->block] == s->stop, "stops of block made", s->block,
           w->made[s->block]);
    w->made[s->block]++;
    if (uses_out) {
        m->next_out++;
        m->outs[out].message = result, m->outs[out].here = false;
        post(w, 0, OUT, rank, b->home, result);
    } else if (last) {
        w->home[s->block]++;
    } else {
        at->leaving = arriving + 1;
        post(w, 0, STATE, rank, stops[s->stop + 1].rank, arriving + 1);
    }
    return true;
}

static bool ends(const world *w, const machine *m) {
    bool all = true;
    for (int64_t i = 0; i < m->slot_count; i++)
        all = all && left(w, m->slots[i].leaving);
    for (int64_t i = 0; i < FV_MPI_OUT_SLOTS; i++)
        all = all && settled(w, m, i);
    return all;
}

static void run(const trial *t, int64_t spare) {
    const int ranks = t->p.ranks;
    const int64_t blocks = t->r.block_count, count = blocks + t->r.stop_count;
    world w = {t,
               calloc((size_t)ranks, sizeof *w.ranks),
               malloc((size_t)(count + 1) * sizeof *w.messages),
               calloc((size_t)(2 * TAGS * ranks * ranks), sizeof *w.posted),
               calloc((size_t)blocks + 1, sizeof *w.made),
               calloc((size_t)blocks + 1, sizeof *w.home)};
    for (int64_t i = 0; i < count; i++)
        w.messages[i] = (message){-1, -1};
    for (int i = 0; i < ranks; i++) {
        machine *m = &w.ranks[i];
        if (!fv_mpi_steps_make(&t->p, &t->r, t->c.in_flight, i, &m->steps))
            abort();
        m->slot_count = m->steps.slots - FV_MPI_SPARE_SLOTS + spare;
        m->slots = calloc((size_t)m->slot_count + 1, sizeof *m->slots);
        for (int64_t k = 0; k < m->slot_count; k++)
            m->slots[k] = (slot){-1, -1};
        for (int64_t k = 0; k < FV_MPI_OUT_SLOTS; k++)
            m->outs[k].message = -1;
    }
    int waiting = ranks;
    for (bool moved = true; moved && waiting > 0;) {
        moved = false;
        for (int i = 0; i < ranks; i++) {
            machine *m = &w.ranks[i];
            while (m->at < m->steps.count && step(&w, i))
                m->at++, moved = true;
            if (!m->ended && m->at >= m->steps.count && ends(&w, m))
                m->ended = moved = true, waiting--;
        }
    }
    expect(t, waiting == 0, "ranks wait for each other, spare slots", waiting, spare);
    for (int64_t i = 0; i < blocks; i++)
        expect(t, w.made[i] == t->r.blocks[i].stops && w.home[i] == 1, "stops and results of a block", w.made[i],
               w.home[i]);
    for (int i = 0; i < ranks; i++) {
        const machine *m = &w.ranks[i];
        expect(t, m->most == m->steps.slots - FV_MPI_SPARE_SLOTS, "slots used, of", m->most, m->steps.slots);
        free(m->slots);
        free(m->steps.at);
    }
    void *const all[] = {w.ranks, w.messages, w.posted, w.made, w.home};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

/* A plan of 2^40 queries and keys is made in no more time than one of 2^20: stripes are not counted one by one. */
static void check_long(int ranks) {
    const fv_mpi_choice none = {.method = FOVEA_MPI_METHOD_MODEL};
    trial t = {.number = -1};
    fovea_attention_desc *d = &t.p.desc;
    fovea_attention_desc_init(d);
    d->batch = d->q_heads = d->kv_heads = 1;
    d->q_len = d->kv_len = INT64_C(1) << 40;
    d->head_dim = d->value_dim = 16;
    d->k_dtype = d->v_dtype = d->out_dtype = d->dtype;
    d->causal = FOVEA_CAUSAL_TOP_LEFT;
    t.p.ranks = ranks;
    t.p.costs = (fovea_mpi_costs){sizeof t.p.costs, 1e11, 1e10, 1e-6, 1e-5, 1e9, 1e10};
    double seconds;
    const bool made = fv_mpi_choose(&t.p, &none, &t.c, &seconds) && fv_mpi_routes_make(&t.p, &t.c, &t.r);
    if (expect(&t, made && seconds > 0 && t.r.block_count <= 30000, "a long plan", t.r.block_count, ranks))
        check_routes(&t);
    fv_mpi_routes_free(&t.r);
}

/* Queries 100 to 104, of which the first may be 3 keys further on. */
static void check_sees(void) {
    fovea_attention_desc d = {.kv_len = 1000, .causal = FOVEA_CAUSAL_TOP_LEFT, .window_left = 10, .window_right = -1};
    int64_t low, high;
    fv_mpi_sees(&d, 100, 5, 0, 3, &low, &high);
    test_check(low == 90 && high == 108, "queries see keys %" PRId64 " to %" PRId64, low, high);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "mpi-steps", NULL);
    rng r = rng_stream(test_seed(), "steps");
    const int64_t cases = test_scaled(400);
    for (int64_t i = 0; i < cases; i++) {
        trial t = {.number = i};
        draw(&r, &t);
        check_routes(&t);
        run(&t, FV_MPI_SPARE_SLOTS);
        run(&t, 0);
        fv_mpi_routes_free(&t.r);
    }
    check_sees();
    check_long(1);
    check_long(2);
    return test_end();
}
