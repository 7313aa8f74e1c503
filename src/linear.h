/* A linear map with packed weights. Made by linear_pack.c, checked by linear_check.c, executed by linear_execute.c.
 *
 * The columns (output channels) of all parts are numbered together and packed in panels as wide as the register tile
 * of the gemm: panel p holds its columns of input channel 0, then of channel 1 and so on, so that a product reads it
 * from front to back.
 */
#ifndef FV_LINEAR_H
#define FV_LINEAR_H

#include "context.h"
#include "kernels.h"

typedef struct fv_linear_part {
    int64_t first, out; /* columns */
    float *bias;        /* [out], or NULL */
} fv_linear_part;

struct fovea_linear {
    const fovea_context *ctx;
    const fv_kernel *gemm;
    fv_after_f32_fn *after;
    fv_activation activation;
    int64_t in, out; /* input channels, columns of all parts */
    int64_t part_count;
    fv_linear_part *parts;
    float *bias;    /* of the parts that have one */
    float *weights; /* [panels][in][panel] */
    int64_t panel, panels;
    int64_t k_block;    /* input channels of one call of the gemm, at most */
    int64_t row_block;  /* rows of a work item, at most */
    int64_t chunk;      /* rows that go to y together */
    int64_t task_bytes; /* of one thread's scratch: [row_block][panel] */
    int64_t bytes;      /* of workspace, with room to align it */
};

/* Checks at the public edge (linear_check.c). */
fovea_status fv_linear_check_desc(const fovea_linear_desc *desc);
fovea_status fv_linear_check_args(const fovea_linear *linear, const fovea_linear_args *args, const void *workspace,
                                  size_t workspace_size);

/* desc's parts, whichever way they are given. */
static inline const fovea_linear_part *fv_linear_parts(const fovea_linear_desc *desc) {
    return desc->parts ? desc->parts : &desc->part;
}

#endif
