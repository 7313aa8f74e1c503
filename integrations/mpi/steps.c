/* PASS: a rank's part of the order of all ranks' work (schedule.c), and the slots that it needs. */
#include "steps.h"
#include "schedule.h"

#include <stdlib.h>

static void add(fv_mpi_steps *s, fv_mpi_step_kind kind, const fv_mpi_op *op, int64_t stop) {
    s->at[s->count++] = (fv_mpi_step){kind, op->block, stop};
}

/* Adds the rank's part of an op. */
static void add_steps(fv_mpi_steps *s, const fv_mpi_routes *r, int rank, const fv_mpi_op *op) {
    const fv_mpi_block *b = &r->blocks[op->block];
    const fv_mpi_stop *stops = r->stops + b->stop;
    if (op->stop < 0) {
        if (b->home == rank)
            add(s, FV_MPI_SEND_Q, op, 0);
        else if (stops[0].rank == rank)
            add(s, FV_MPI_EXPECT, op, 0);
        return;
    }
    const bool last = op->stop + 1 == b->stops;
    if (stops[op->stop].rank == rank)
        add(s, FV_MPI_VISIT, op, op->stop);
    else if (!last && stops[op->stop + 1].rank == rank)
        add(s, FV_MPI_EXPECT, op, op->stop + 1);
    else if (last && b->home == rank)
        add(s, FV_MPI_EXPECT_OUT, op, 0);
}

/* Slots that hold something at a time, from being expected to being sent; a first stop at home expects nothing. */
static int64_t count_slots(const fv_mpi_steps *steps, const fv_mpi_problem *p, const fv_mpi_routes *r, int rank) {
    const bool dealt = p->queries == FOVEA_MPI_QUERIES_DEALT;
    int64_t live = 0, most = 0;
    for (int64_t i = 0; i < steps->count; i++) {
        const fv_mpi_step *s = &steps->at[i];
        const bool here = s->stop == 0 && (!dealt || r->blocks[s->block].home == rank);
        live += s->kind == FV_MPI_EXPECT || s->kind == FV_MPI_SEND_Q || (s->kind == FV_MPI_VISIT && here);
        most = fv_mpi_max(most, live);
        live -= s->kind == FV_MPI_SEND_Q || s->kind == FV_MPI_VISIT;
    }
    return most + FV_MPI_SPARE_SLOTS;
}

bool fv_mpi_steps_make(const fv_mpi_problem *p, const fv_mpi_routes *r, int64_t in_flight, int rank, fv_mpi_steps *s) {
    const int64_t count = r->block_count + r->stop_count;
    fv_mpi_op *ops = calloc((size_t)count + 1, sizeof *ops);
    *s = (fv_mpi_steps){calloc((size_t)count + 1, sizeof *s->at), 0, 0};
    int64_t written = 0;
    const bool made = ops && s->at && fv_mpi_schedule(p, r, in_flight, ops, &written) >= 0;
    for (int64_t i = 0; made && i < written; i++)
        add_steps(s, r, rank, &ops[i]);
    free(ops);
    s->slots = count_slots(s, p, r, rank);
    return made;
}
