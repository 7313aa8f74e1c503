/* Calls over a cache: which parts of its pool they read. */
#ifndef FV_MPI_CACHED_H
#define FV_MPI_CACHED_H

#include "call.h"

/* Checks sequences and lengths of a call; then, with offsets, whether the keys that queries see are there. */
fovea_status fv_mpi_cached_check(fv_mpi_call *call);
fovea_status fv_mpi_cached_visible(const fv_mpi_call *call);
/* Keys of a segment, from key on, as those of a piece. Writes ids[batch]. */
void fv_mpi_cached_piece(const fv_mpi_call *call, int64_t key, int64_t *kv_lens, int64_t *ids,
                         fovea_attention_args *args);

#endif
