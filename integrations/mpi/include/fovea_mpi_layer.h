/* Fovea over MPI: linear maps by output columns, and the multi-head layer by heads, with the bits of one rank. Part of
 * Fovea::mpi, as fovea_mpi.h is, whose rules for errors and threads hold here, too.
 *
 *     fovea_mpi_group_create(MPI_COMM_WORLD, &group);
 *     fovea_mpi_share(group, rank, out_features, 0, &first);      the columns of a rank
 *     desc.linear = &map;                                         as for one rank
 *     fovea_mpi_linear_create(group, ctx, &desc, &linear);        packs this rank's columns
 *     fovea_mpi_linear_execute(linear, &args);                    all ranks have x, and all get y
 *     fovea_mpi_linear_destroy(linear);
 *     fovea_mpi_group_destroy(group);
 *
 * Distribution. Each rank has a contiguous range of columns (heads), in the order of ranks. Shares differ by at most
 * one unit; some are empty if there are fewer units than ranks. No sum is split: one rank computes each output, and
 * outputs are gathered. So every rank must have the whole input.
 *
 * Memory. A rank holds the weights of its share. Messages use the group's memory, which its maps and layers share. A
 * layer makes it large enough when it is created, so that its executions allocate nothing; the call of a map or of
 * fovea_mpi_gather_columns() that needs more enlarges it, unless it was reserved. If any rank lacks memory, every rank
 * returns FOVEA_ERROR_OUT_OF_MEMORY. */
#ifndef FOVEA_MPI_LAYER_H
#define FOVEA_MPI_LAYER_H

#include "fovea_mpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------------------------------------------- groups -- */

/* Ranks that share maps and layers. All ranks must make the calls on a group in the same order, one at a time. */
typedef struct fovea_mpi_group fovea_mpi_group;

/* Duplicates comm. Collective. FOVEA_ERROR_NULL, _ARGUMENT (MPI is not initialised), _OUT_OF_MEMORY. After an
 * error *group is NULL, on all ranks. */
FOVEA_API fovea_status fovea_mpi_group_create(MPI_Comm comm, fovea_mpi_group **group);

/* Frees a group, after its maps and layers. NULL is allowed. Collective. Not after MPI_Finalize(). */
FOVEA_API void fovea_mpi_group_destroy(fovea_mpi_group *group);

/* Bytes of the group's memory for messages; makes it at least so large. Local. FOVEA_ERROR_NULL, _OUT_OF_MEMORY. */
FOVEA_API size_t fovea_mpi_group_memory(const fovea_mpi_group *group);
FOVEA_API fovea_status fovea_mpi_group_reserve(fovea_mpi_group *group, size_t bytes);

/* Columns that stay together, unless a description says otherwise. */
#define FOVEA_MPI_COLUMNS 32

/* A rank's share of columns: [*first, *first + count). Returns count. multiple: columns that stay together; 0:
 * FOVEA_MPI_COLUMNS. Local, thread-safe. */
FOVEA_API int64_t fovea_mpi_share(const fovea_mpi_group *group, int rank, int64_t columns, int64_t multiple,
                                  int64_t *first);

/* Heads of a rank. With at least as many key heads as ranks, each rank gets whole key heads and their query heads. With
 * fewer, several ranks share the query heads of a key head, and each has a copy of its W^K, W^V, keys and values. With
 * more ranks than query heads, some have no heads (q_count 0, kv_count 0), but columns of W^O. */
typedef struct fovea_mpi_heads {
    int64_t q_first, q_count;
    int64_t kv_first, kv_count;
} fovea_mpi_heads;
FOVEA_API fovea_mpi_heads fovea_mpi_share_heads(const fovea_mpi_group *group, int rank, int64_t q_heads,
                                                int64_t kv_heads);

/* Gathers columns that the ranks have computed. Collective.
 *   mine   FOVEA_OK, or the status of this rank's work before, with fovea_error_detail(); every rank then returns it
 *   own    [rows][share of this rank], contiguous
 *   whole  [rows][columns], contiguous; not own
 *   bounds [ranks + 1]: rank r has columns [bounds[r], bounds[r + 1]); NULL: by fovea_mpi_share() with multiple 0
 * FOVEA_ERROR_ARGUMENT if rows, columns, element or bounds differ between ranks, _OUT_OF_MEMORY. */
FOVEA_API fovea_status fovea_mpi_gather_columns(fovea_mpi_group *group, fovea_status mine, int64_t rows,
                                                int64_t columns, int64_t element_bytes, const int64_t *bounds,
                                                const void *own, void *whole);

/* --------------------------------------------------------------------------------------------------- linear maps -- */

typedef struct fovea_mpi_linear_desc {
    size_t struct_size;
    /* The map, as for one rank. Its weights and biases are whole, or this rank's share. */
    const fovea_linear_desc *linear;
    /* NULL: weights and biases are whole, and the same on all ranks. Else [part_count]: output columns over all ranks;
     * each weight and bias has this rank's share only (weight.out; if it is 0, only weight.dtype is read). */
    const int64_t *columns;
    int64_t multiple; /* columns that stay together; default 0: FOVEA_MPI_COLUMNS. Whole weights of 4 bits, and of words
                         of integers, need a multiple of 8 */
} fovea_mpi_linear_desc;

/* Sets struct_size and the defaults. */
#define fovea_mpi_linear_desc_init(desc) fovea_mpi_linear_desc_init_size((desc), sizeof(fovea_mpi_linear_desc))
FOVEA_API void fovea_mpi_linear_desc_init_size(fovea_mpi_linear_desc *desc, size_t size);

typedef struct fovea_mpi_linear fovea_mpi_linear;

/* Packs this rank's columns of each part. Collective. group and ctx must outlive the map. Ranks may have different
 * tiers and threads. Errors: those of fovea_linear_pack(), and FOVEA_ERROR_ARGUMENT if descriptions differ between
 * ranks or FOVEA_ARITHMETIC_FASTEST selects different arithmetics on their CPUs (name one), FOVEA_ERROR_UNSUPPORTED if
 * a share ends within a word of integers. After an error *linear is NULL on all ranks. */
FOVEA_API fovea_status fovea_mpi_linear_create(fovea_mpi_group *group, const fovea_context *ctx,
                                               const fovea_mpi_linear_desc *desc, fovea_mpi_linear **linear);

/* Frees a map. NULL is allowed. Local. */
FOVEA_API void fovea_mpi_linear_destroy(fovea_mpi_linear *linear);

/* A rank's columns of a part: [*first, *first + count). Returns count. Thread-safe. */
FOVEA_API int64_t fovea_mpi_linear_columns(const fovea_mpi_linear *linear, int64_t part, int rank, int64_t *first);

/* Bytes of this rank's packed weights, and of the group's memory that a call with rows (batch * tokens) needs.
 * Thread-safe. */
FOVEA_API size_t fovea_mpi_linear_weight_bytes(const fovea_mpi_linear *linear);
FOVEA_API size_t fovea_mpi_linear_memory(const fovea_mpi_linear *linear, int64_t rows);

/* fovea_linear_execute() over ranks. Collective. args are as for one rank: x and residual are whole on every rank, and
 * y is written whole on every rank, after all inputs were read. stats counts this rank's products. Errors: those of
 * fovea_linear_execute(), and FOVEA_ERROR_ARGUMENT if sizes, lens, the activation or the set of outputs differ between
 * ranks, FOVEA_ERROR_UNSUPPORTED for messages of more than 2^37 bytes. After an error every y is undefined, and the map
 * can be executed again. */
FOVEA_API fovea_status fovea_mpi_linear_execute(fovea_mpi_linear *linear, const fovea_linear_args *args);

/* --------------------------------------------------------------------------------------------------------- layer -- */

typedef struct fovea_mpi_mha_desc {
    size_t struct_size;
    /* The layer, as for one rank: form FACTORED, without folded values. */
    const fovea_mha_desc *layer;
    /* Nonzero: weights.q, k and v, o, and their biases are those of this rank's heads and columns only; without any,
     * only o.dtype is read. Default 0: weights are whole, and the same on all ranks. */
    int own_weights;
    int64_t multiple; /* columns of W^O that stay together; default 0: FOVEA_MPI_COLUMNS */
} fovea_mpi_mha_desc;

/* Sets struct_size and the defaults. */
#define fovea_mpi_mha_desc_init(desc) fovea_mpi_mha_desc_init_size((desc), sizeof(fovea_mpi_mha_desc))
FOVEA_API void fovea_mpi_mha_desc_init_size(fovea_mpi_mha_desc *desc, size_t size);

typedef struct fovea_mpi_mha fovea_mpi_mha;

/* Packs W^Q, W^K and W^V of this rank's heads (fovea_mpi_share_heads()) and its columns of W^O (fovea_mpi_share()).
 * Collective. group and ctx must outlive the layer. Errors: those of fovea_mha_create(), and FOVEA_ERROR_ARGUMENT if
 * descriptions or the arithmetics that FOVEA_ARITHMETIC_FASTEST selects differ between ranks, FOVEA_ERROR_UNSUPPORTED
 * for other forms, folded values, a W^O whose heads are not adjacent, and messages of more than 2^37 bytes for the most
 * rows (packed: q_tokens). After an error *mha is NULL on all ranks. */
FOVEA_API fovea_status fovea_mpi_mha_create(fovea_mpi_group *group, const fovea_context *ctx,
                                            const fovea_mpi_mha_desc *desc, const fovea_mha_weights *weights,
                                            fovea_mpi_mha **mha);

/* Frees a layer. NULL is allowed. Local. */
FOVEA_API void fovea_mpi_mha_destroy(fovea_mpi_mha *mha);

/* Heads of a rank; its columns of the result, [*first, *first + count), returning count. Thread-safe. */
FOVEA_API fovea_mpi_heads fovea_mpi_mha_heads(const fovea_mpi_mha *mha, int rank);
FOVEA_API int64_t fovea_mpi_mha_columns(const fovea_mpi_mha *mha, int rank, int64_t *first);

/* Bytes of this rank's packed weights, and of the group's memory that a call with the most rows needs. Thread-safe. */
FOVEA_API size_t fovea_mpi_mha_weight_bytes(const fovea_mpi_mha *mha);
FOVEA_API size_t fovea_mpi_mha_memory(const fovea_mpi_mha *mha);

/* fovea_mha_execute() over ranks. Collective. args are as for one rank: inputs, masks, biases and sinks are whole on
 * every rank, and out and lse are written whole on every rank, after all inputs were read. Differences:
 *   - cache and pages have this rank's key heads, with the same rope on all ranks (not compared). A rank without heads
 *     needs none.
 *   - weights, scores, summary and stats must be absent, and a prepared mask must be one for all heads.
 *   - Errors: those of fovea_mha_execute(), and FOVEA_ERROR_ARGUMENT if sizes, lengths or the set of outputs differ
 *     between ranks. After an error out and lse are undefined, and caches of some ranks may have the new tokens:
 *     fovea_kv_cache_truncate() restores one length. */
FOVEA_API fovea_status fovea_mpi_mha_execute(fovea_mpi_mha *mha, const fovea_attention_args *args);

#ifdef __cplusplus
}
#endif
#endif
