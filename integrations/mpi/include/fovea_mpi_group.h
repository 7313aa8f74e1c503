/* Fovea over MPI: weights divided among ranks by columns and heads, with the bits of one rank. Part of Fovea::mpi, as
 * fovea_mpi.h is, whose rules for errors and threads hold here, too. A linear map by output columns:
 *
 *     fovea_mpi_group_create(MPI_COMM_WORLD, &group);
 *     count = fovea_mpi_share(group, rank, out_features, 0, &first);    this rank's columns: [first, first + count)
 *     fovea_linear_create(ctx, &of_these_columns, &linear);               not if count is 0
 *     status = fovea_linear_apply(ctx, linear, &args, NULL, 0);            all ranks have x; y is own, [rows][count]
 *     fovea_mpi_gather_columns(group, status, rows, out_features, sizeof(float), NULL, own, whole);
 *     fovea_mpi_group_destroy(group);
 *
 * Each rank has a contiguous range of columns (heads), in the order of ranks. Shares differ by at most one unit; some
 * are empty if there are fewer units than ranks. No sum is split: one rank computes each output, from the whole input.
 * So results have the bits of one rank, if all ranks compute in the same arithmetic: name one, as
 * FOVEA_ARITHMETIC_FASTEST depends on the CPU. Maps that follow each other by columns alone (W^Q to attention by heads;
 * gate and up to their product) need no gathering between them. */
#ifndef FOVEA_MPI_GROUP_H
#define FOVEA_MPI_GROUP_H

#include "fovea_mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ranks that share weights, with memory for their messages. All ranks must make the collective calls on a group in the
 * same order, one at a time. */
typedef struct fovea_mpi_group fovea_mpi_group;

/* Duplicates comm. Collective. FOVEA_ERROR_NULL, _ARGUMENT (MPI is not initialized), _OUT_OF_MEMORY. After an
 * error *group is NULL, on all ranks. */
FOVEA_API fovea_status fovea_mpi_group_create(MPI_Comm comm, fovea_mpi_group **group);

/* Frees a group. NULL is allowed. Collective. Not after MPI_Finalize(). */
FOVEA_API void fovea_mpi_group_destroy(fovea_mpi_group *group);

/* Columns that stay together, unless the caller says otherwise. */
#define FOVEA_MPI_COLUMNS 32

/* A rank's share of columns: [*first, *first + count). Returns count. multiple: columns that stay together; 0:
 * FOVEA_MPI_COLUMNS. Local, thread-safe. */
FOVEA_API int64_t fovea_mpi_share(const fovea_mpi_group *group, int rank, int64_t columns, int64_t multiple,
                                  int64_t *first);

/* Heads of a rank. With at least as many key heads as ranks, each rank gets whole key heads and their query heads. With
 * fewer, several ranks share the query heads of a key head, and each has a copy of its W^K, W^V, keys and values. With
 * more ranks than query heads, some have no heads (q_count 0, kv_count 0). */
typedef struct fovea_mpi_heads {
    int64_t q_first, q_count;
    int64_t kv_first, kv_count;
} fovea_mpi_heads;
FOVEA_API fovea_mpi_heads fovea_mpi_share_heads(const fovea_mpi_group *group, int rank, int64_t q_heads,
                                                int64_t kv_heads);

/* Gathers columns that the ranks have computed. Collective. The group's memory grows to the largest message so far.
 *   mine   FOVEA_OK, or the status of this rank's work before, with fovea_error_detail(); every rank then returns it
 *   own    [rows][share of this rank], contiguous
 *   whole  [rows][columns], contiguous; not own
 *   bounds [ranks + 1]: rank r has columns [bounds[r], bounds[r + 1]); NULL: by fovea_mpi_share() with multiple 0
 * FOVEA_ERROR_ARGUMENT if rows, columns, element_bytes or bounds differ between ranks, _SHAPE, _NULL, _UNSUPPORTED
 * (messages of more than 2^37 bytes), _OUT_OF_MEMORY. After an error whole is undefined, and the group can gather
 * again. */
FOVEA_API fovea_status fovea_mpi_gather_columns(fovea_mpi_group *group, fovea_status mine, int64_t rows,
                                                int64_t columns, int64_t element_bytes, const int64_t *bounds,
                                                const void *own, void *whole);

#ifdef __cplusplus
}
#endif
#endif
