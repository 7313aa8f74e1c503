/* One execution: its arguments, memory and messages, and blocks as tensors. */
#ifndef FV_MPI_CALL_H
#define FV_MPI_CALL_H

#include "agree.h"
#include "cache.h"
#include "plan.h"

enum { FV_MPI_TAG_STATE = 1, FV_MPI_TAG_OUT = 2, FV_MPI_TAG_Q = 3, FV_MPI_TAG_PARTIALS = 4 };

typedef struct fv_mpi_call {
    fovea_mpi_attention_plan *plan;
    fovea_attention_args args;
    fovea_status status; /* of this rank's arguments, then also of its work: after an error only headers are sent */
    int64_t *offsets;    /* [batch] of queries */
    int64_t *zeros;      /* [batch] */
    const fovea_mpi_cache *cache; /* NULL: keys and values are in args.k and v */
    int64_t *keys;                /* [batch] with a cache: the keys of its sequences */
    char *memory;                 /* what is left of the workspace */
} fv_mpi_call;

int64_t fv_mpi_q_len(const fv_mpi_call *call, int64_t sequence);
int64_t fv_mpi_kv_len(const fv_mpi_call *call, int64_t sequence);

/* Bytes of the workspace, rounded up to FV_MPI_UNIT. */
void *fv_mpi_take(fv_mpi_call *call, int64_t bytes);

/* Memory with which a thread computes pieces. */
typedef struct fv_mpi_scratch {
    int64_t *lens; /* [4 batch] */
    void *workspace;
} fv_mpi_scratch;
int64_t fv_mpi_scratch_bytes(const fovea_mpi_attention_plan *plan);
fv_mpi_scratch fv_mpi_scratch_take(fv_mpi_call *call);

/* Some heads and tokens of a tensor. */
fovea_tensor fv_mpi_part(const fovea_tensor *whole, int64_t head, int64_t heads, int64_t token, int64_t tokens);
/* A block in this rank's q, out or lse. */
fovea_tensor fv_mpi_view(const fv_mpi_call *call, const fv_mpi_block *block, const fovea_tensor *whole);
/* A block in contiguous memory. */
fovea_tensor fv_mpi_packed(const fv_mpi_call *call, const fv_mpi_block *block, const fovea_tensor *like, void *data);
void fv_mpi_copy(const fovea_tensor *from, const fovea_tensor *to);

/* A block's result in contiguous memory: out, then lse if the caller asked for it. */
void fv_mpi_result(const fv_mpi_call *call, const fv_mpi_block *block, void *data, fovea_tensor *out,
                   fovea_tensor *lse);
/* Copies a result from there to args, or from args to there. */
void fv_mpi_result_unpack(const fv_mpi_call *call, const fv_mpi_block *block, void *data);
void fv_mpi_result_pack(const fv_mpi_call *call, const fv_mpi_block *block, void *data);

#endif
