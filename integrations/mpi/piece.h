/* Pieces of attention. */
#ifndef FV_MPI_PIECE_H
#define FV_MPI_PIECE_H

#include "call.h"

/* A block's queries with keys [key, key + keys) of this rank, into state. Without out (NULL) it does not finish. state
 * NULL: these are all the keys that they see. */
fovea_status fv_mpi_piece(const fv_mpi_call *call, const fv_mpi_block *block, const fovea_tensor *q, int64_t key,
                          int64_t keys, fovea_attention_state *state, const fovea_tensor *out, const fovea_tensor *lse,
                          fv_mpi_scratch scratch);

#endif
