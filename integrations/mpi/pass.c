/* PASS: blocks travel with their states. This rank's steps are in the order of all ranks' work (schedule.c). It waits
 * only for messages that others send earlier in that order, and for sends whose receive stands earlier in it. So nobody
 * waits in a circle, and the number of slots is known.
 *
 * A slot holds a block under way: header, q (if queries are dealt), a second header, state. It is received into,
 * computed in, and sent on from. A block's home has its q, and gets what begins with the second header. While one block
 * is computed, others arrive or leave; MPI gets on with them between steps. */
#include "pass.h"
#include "agree.h"
#include "piece.h"

typedef struct slot {
    char *memory;
    int64_t block; /* that is here or expected; -1: none */
    MPI_Request received, sent;
} slot;

/* A result on its way: header, out, lse. */
typedef struct out_slot {
    char *memory;
    int64_t block; /* of which this rank is home, so to be copied into out; -1: none */
    MPI_Request request;
} out_slot;

typedef struct pass {
    fv_mpi_call *call;
    fv_mpi_scratch scratch;
    slot *slots;
    out_slot outs[FV_MPI_OUT_SLOTS];
    int64_t next, next_out; /* round robin, so that sends have time */
} pass;

static const fv_mpi_block *block_of(const pass *p, int64_t block) { return &p->call->plan->routes.blocks[block]; }

static int64_t q_bytes_of(const pass *p, const fv_mpi_block *b) {
    const fv_mpi_problem *problem = &p->call->plan->problem;
    return problem->queries == FOVEA_MPI_QUERIES_DEALT ? fv_mpi_q_bytes(problem, b) : 0;
}

/* The part of a slot that is sent to a rank. */
static void *message_in(const pass *p, const fv_mpi_block *b, const slot *s, int to) {
    return s->memory + (to == b->home ? FV_MPI_UNIT + q_bytes_of(p, b) : 0);
}

static int64_t message_bytes(const pass *p, const fv_mpi_block *b, int to) {
    const int64_t state = FV_MPI_UNIT + fv_mpi_state_of(p->call->plan, b);
    return state + (to == b->home ? 0 : FV_MPI_UNIT + q_bytes_of(p, b));
}

static slot *slot_with(pass *p, int64_t block) {
    const int64_t count = p->call->plan->steps.slots;
    for (int64_t i = 0; i < count; i++) {
        slot *s = &p->slots[(p->next + i) % count];
        if (s->block != block)
            continue;
        if (block < 0) {
            MPI_Wait(&s->sent, MPI_STATUS_IGNORE);
            p->next = (p->next + i + 1) % count;
        }
        return s;
    }
    return NULL; /* never: steps.c has counted */
}

static slot *take(pass *p, int64_t block) {
    slot *s = slot_with(p, -1);
    s->block = block;
    return s;
}

/* Sends a message with this rank's status; after an error only its header. */
static void send(pass *p, void *memory, int64_t bytes, int to, int tag, MPI_Request *request) {
    const fovea_mpi_attention_plan *plan = p->call->plan;
    const fovea_status status = p->call->status;
    *(fv_mpi_header *)memory = (fv_mpi_header){.status = status};
    MPI_Isend(memory, (int)(status == FOVEA_OK ? bytes / FV_MPI_UNIT : 1), plan->unit, to, tag, plan->comm, request);
}

/* Waits for the message of an out slot, and unpacks a received result. */
static void settle(pass *p, out_slot *o) {
    MPI_Wait(&o->request, MPI_STATUS_IGNORE);
    const int64_t block = o->block;
    o->block = -1;
    if (block < 0 || p->call->status != FOVEA_OK)
        return;
    const fv_mpi_header *header = (void *)o->memory;
    if (header->status != FOVEA_OK) {
        p->call->status = (fovea_status)header->status;
        return;
    }
    fv_mpi_result_unpack(p->call, block_of(p, block), o->memory + FV_MPI_UNIT);
}

static out_slot *take_out(pass *p) {
    out_slot *o = &p->outs[p->next_out++ % FV_MPI_OUT_SLOTS];
    settle(p, o);
    return o;
}

static void pack_q(pass *p, const fv_mpi_block *b, slot *s) {
    if (p->call->status != FOVEA_OK || q_bytes_of(p, b) == 0)
        return;
    const fovea_tensor mine = fv_mpi_view(p->call, b, &p->call->args.q);
    const fovea_tensor to = fv_mpi_packed(p->call, b, &mine, s->memory + FV_MPI_UNIT);
    fv_mpi_copy(&mine, &to);
}

static void send_q(pass *p, const fv_mpi_step *step) {
    const fv_mpi_block *b = block_of(p, step->block);
    slot *s = take(p, step->block);
    pack_q(p, b, s);
    send(p, s->memory, FV_MPI_UNIT + q_bytes_of(p, b), p->call->plan->routes.stops[b->stop].rank, FV_MPI_TAG_STATE,
         &s->sent);
    s->block = -1;
}

static void expect(pass *p, const fv_mpi_step *step) {
    const fovea_mpi_attention_plan *plan = p->call->plan;
    const fv_mpi_block *b = block_of(p, step->block);
    slot *s = take(p, step->block);
    const int from = step->stop > 0 ? plan->routes.stops[b->stop + step->stop - 1].rank : b->home;
    MPI_Irecv(message_in(p, b, s, plan->rank), (int)(message_bytes(p, b, plan->rank) / FV_MPI_UNIT), plan->unit, from,
              FV_MPI_TAG_STATE, plan->comm, &s->received);
}

static void expect_out(pass *p, const fv_mpi_step *step) {
    const fovea_mpi_attention_plan *plan = p->call->plan;
    const fv_mpi_block *b = block_of(p, step->block);
    out_slot *o = take_out(p);
    o->block = step->block;
    MPI_Irecv(o->memory, (int)(plan->out_bytes / FV_MPI_UNIT), plan->unit,
              plan->routes.stops[b->stop + b->stops - 1].rank, FV_MPI_TAG_OUT, plan->comm, &o->request);
}

/* At a single stop one call computes all of a block, but over a cache. Places of a window of two dimensions count from
 * key 0, and without a state the first key is 0. */
static bool stateless(const pass *p, const fv_mpi_block *b) {
    const fovea_attention_desc *d = &p->call->plan->problem.desc;
    return b->stops == 1 && !d->page_keys && d->relative != FOVEA_RELATIVE_WINDOW_2D;
}

/* The state of a block in its slot: new at the first stop. */
static fovea_attention_state *state_in(pass *p, const fv_mpi_block *b, const fv_mpi_stop *at, slot *s, bool first) {
    fovea_attention_state *state = (void *)(s->memory + 2 * FV_MPI_UNIT + q_bytes_of(p, b));
    if (first)
        p->call->status = fv_mpi_new_state(p->call->plan, b, at->keys, state, &state);
    return state;
}

/* Computes in a slot. o: NULL, or where the result is sent from; last without o: the result is for here. */
static void compute(pass *p, const fv_mpi_block *b, const fv_mpi_step *step, slot *s, bool last, out_slot *o) {
    fv_mpi_call *call = p->call;
    const fv_mpi_stop *at = &call->plan->routes.stops[b->stop + step->stop];
    fovea_attention_state *state = stateless(p, b) ? NULL : state_in(p, b, at, s, step->stop == 0);
    fovea_tensor q = fv_mpi_view(call, b, &call->args.q), out = {0}, lse = {0};
    if (q_bytes_of(p, b) > 0 && b->home != call->plan->rank)
        q = fv_mpi_packed(call, b, &q, s->memory + FV_MPI_UNIT);
    if (o) {
        fv_mpi_result(call, b, o->memory + FV_MPI_UNIT, &out, &lse);
    } else if (last) {
        out = fv_mpi_view(call, b, &call->args.out);
        lse = fv_mpi_view(call, b, &call->args.lse);
    }
    if (call->status == FOVEA_OK)
        call->status = fv_mpi_piece(call, b, &q, at->key, at->keys, state, last ? &out : NULL,
                                    last && lse.data ? &lse : NULL, p->scratch);
}

static void visit(pass *p, const fv_mpi_step *step) {
    fv_mpi_call *call = p->call;
    const fovea_mpi_attention_plan *plan = call->plan;
    const fv_mpi_block *b = block_of(p, step->block);
    const bool last = step->stop + 1 == b->stops;
    slot *s = slot_with(p, step->block);
    if (s) {
        MPI_Wait(&s->received, MPI_STATUS_IGNORE);
        const fv_mpi_header *header = message_in(p, b, s, plan->rank);
        if (header->status != FOVEA_OK && call->status == FOVEA_OK)
            call->status = (fovea_status)header->status;
    } else {
        s = take(p, step->block);
    }
    out_slot *o = last && b->home != plan->rank ? take_out(p) : NULL;
    if (call->status == FOVEA_OK)
        compute(p, b, step, s, last, o);
    s->block = -1;
    if (o) {
        send(p, o->memory, FV_MPI_UNIT + fv_mpi_out_bytes(&plan->problem, b), b->home, FV_MPI_TAG_OUT, &o->request);
    } else if (!last) {
        const int to = plan->routes.stops[b->stop + step->stop + 1].rank;
        if (b->home == plan->rank)
            pack_q(p, b, s);
        send(p, message_in(p, b, s, to), message_bytes(p, b, to), to, FV_MPI_TAG_STATE, &s->sent);
    }
}

/* MPI gets on with messages only in calls. */
static void progress(const fovea_mpi_attention_plan *plan) {
    int any;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, plan->comm, &any, MPI_STATUS_IGNORE);
}

int64_t fv_mpi_pass_bytes(const fovea_mpi_attention_plan *plan) {
    return fv_mpi_units(plan->steps.slots * (int64_t)sizeof(slot)) + plan->steps.slots * plan->slot_bytes +
           FV_MPI_OUT_SLOTS * plan->out_bytes;
}

void fv_mpi_pass(fv_mpi_call *call) {
    const fovea_mpi_attention_plan *plan = call->plan;
    pass p = {.call = call, .scratch = fv_mpi_scratch_take(call)};
    p.slots = fv_mpi_take(call, plan->steps.slots * (int64_t)sizeof(slot));
    for (int64_t i = 0; i < plan->steps.slots; i++)
        p.slots[i] = (slot){fv_mpi_take(call, plan->slot_bytes), -1, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    for (int64_t i = 0; i < FV_MPI_OUT_SLOTS; i++)
        p.outs[i] = (out_slot){fv_mpi_take(call, plan->out_bytes), -1, MPI_REQUEST_NULL};
    static void (*const run[])(pass *, const fv_mpi_step *) = {
        [FV_MPI_SEND_Q] = send_q, [FV_MPI_EXPECT] = expect, [FV_MPI_VISIT] = visit, [FV_MPI_EXPECT_OUT] = expect_out};
    for (int64_t i = 0; i < plan->steps.count; i++) {
        run[plan->steps.at[i].kind](&p, &plan->steps.at[i]);
        progress(plan);
    }
    for (int64_t i = 0; i < plan->steps.slots; i++)
        MPI_Wait(&p.slots[i].sent, MPI_STATUS_IGNORE);
    for (int64_t i = 0; i < FV_MPI_OUT_SLOTS; i++)
        settle(&p, &p.outs[p.next_out++ % FV_MPI_OUT_SLOTS]);
}
