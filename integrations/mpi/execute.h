/* One execution: what execute.c gives pass.c and gather.c. */
#ifndef FV_MPI_EXECUTE_H
#define FV_MPI_EXECUTE_H

#include "cache.h"

/* Begins each message. Nothing follows if status is not FOVEA_OK. */
typedef struct fv_mpi_header {
    int64_t status;       /* of the sender, or of a rank before */
    int64_t first, count; /* GATHER: which of the sender's segments follow */
    int64_t unused[5];
} fv_mpi_header;
_Static_assert(sizeof(fv_mpi_header) == FV_MPI_UNIT, "a header is a unit");

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

/* What a thread needs to compute pieces. */
typedef struct fv_mpi_scratch {
    int64_t *lens; /* [4 batch] */
    void *workspace;
} fv_mpi_scratch;
int64_t fv_mpi_scratch_bytes(const fovea_mpi_attention_plan *plan);
fv_mpi_scratch fv_mpi_scratch_take(fv_mpi_call *call);

/* fovea_mpi_attention_execute(), cache NULL, or over a cache. status: of this rank before. */
fovea_status fv_mpi_execute(fovea_mpi_attention_plan *plan, const fovea_mpi_cache *cache, fovea_status status,
                            const fovea_attention_args *args, void *workspace, size_t workspace_size);

/* Bytes of the workspace, a multiple of FV_MPI_UNIT. */
void *fv_mpi_take(fv_mpi_call *call, int64_t bytes);

/* A block's queries with keys [key, key + keys) of this rank, into state. Without out (NULL) it does not finish. state
 * NULL: these are all the keys that they see. */
fovea_status fv_mpi_piece(const fv_mpi_call *call, const fv_mpi_block *block, const fovea_tensor *q, int64_t key,
                          int64_t keys, fovea_attention_state *state, const fovea_tensor *out, const fovea_tensor *lse,
                          fv_mpi_scratch scratch);

/* cached.c: sequences and lengths of a call over a cache, then (with offsets) whether the keys that queries see are
 * there; keys [key, key + keys) of the call's sequences as those of a piece, at most a segment. Writes ids[batch]. */
fovea_status fv_mpi_cached_check(fv_mpi_call *call);
fovea_status fv_mpi_cached_visible(const fv_mpi_call *call);
void fv_mpi_cached_piece(const fv_mpi_call *call, int64_t key, int64_t *kv_lens, int64_t *ids,
                         fovea_attention_args *args);

/* A block in this rank's q, out or lse. */
fovea_tensor fv_mpi_view(const fv_mpi_call *call, const fv_mpi_block *block, const fovea_tensor *whole);
/* A block in contiguous memory. */
fovea_tensor fv_mpi_packed(const fv_mpi_call *call, const fv_mpi_block *block, const fovea_tensor *like, void *data);
void fv_mpi_copy(const fovea_tensor *from, const fovea_tensor *to);
/* A block's result in contiguous memory: out, then lse if that is asked for. */
void fv_mpi_result(const fv_mpi_call *call, const fv_mpi_block *block, void *data, fovea_tensor *out,
                   fovea_tensor *lse);

/* What each needs, and the work. Results are then in args.out of each block's home. */
int64_t fv_mpi_pass_bytes(const fovea_mpi_attention_plan *plan);
void fv_mpi_pass(fv_mpi_call *call);
int64_t fv_mpi_gather_bytes(const fovea_mpi_attention_plan *plan);
void fv_mpi_gather(fv_mpi_call *call);

#endif
