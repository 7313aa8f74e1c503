/* Mixtures of experts (fovea/experts.h). route.c chooses experts; create.c packs two linear maps for each; apply.c
 * checks calls and runs them: rows are sorted by expert (sort.c), and in pieces that fit the workspace they go through
 * the first maps, the activation where that is not the maps' own, the second maps, and into the sums of their tokens
 * (loops.c). multiply.c applies one map of each expert: sorted rows, and one call over all maps. */
#ifndef FV_EXPERTS_H
#define FV_EXPERTS_H

#include "context/context.h"
#include "core/core.h"
#include "encoder/encoder.h"
#include "linear/linear.h"

enum { FV_MOST_EXPERTS = 2048 }; /* numbers for each of them are on the stack */

/* The span of count numbers of that many bytes; empty if there are none. */
static inline fv_span fv_array_span(const char *name, const void *data, int64_t count, size_t size) {
    const uintptr_t begin = (uintptr_t)data;
    return (fv_span){name, begin, begin ? begin + (uintptr_t)count * size : begin};
}

struct fovea_experts {
    int64_t count, in, intermediate, out;
    fovea_dtype x_dtype, y_dtype;
    fovea_linear **first, **second; /* [count] */
    bool clamped;                   /* the gate is not the maps' own: limit, alpha and up_offset are used */
    float limit, alpha, up_offset;
    int64_t thread_bytes; /* of the maps */
};

/* ------------------------------------------------------------------------------------------------------ route.c -- */

/* A call of a router, checked. */
typedef struct fv_routing {
    const fovea_context *ctx;
    fovea_router router;
    const fovea_tensor *logits;
    int64_t experts;
} fv_routing;

/* Reads and checks a router and its logits, of that many experts; 0: as logits have. span: theirs. */
fovea_status fv_routing_read(const fovea_context *ctx, const fovea_router *given, const fovea_tensor *logits,
                             int64_t experts, fv_routing *routing, fv_span *span);

/* The span of a router's bias. */
fv_span fv_routing_bias(const fv_routing *routing);

/* Routes rows [first, first + count) of the batch. */
void fv_routing_run(const fv_routing *routing, int64_t first, int64_t count, int64_t *chosen, float *weights);

/* ------------------------------------------------------------------------------------------------------ apply.c -- */

/* Checks a tensor [batch, 1, tokens, channels] of a call, and gives its span. */
fovea_status fv_experts_check_tensor(const char *name, const fovea_tensor *t, fovea_dtype dtype, int64_t channels,
                                     bool output, fv_span *span);

/* ------------------------------------------------------------------------------------------------------- sort.c -- */

/* Rows of a batch and their experts, by expert; of one expert in the batch's order. */
typedef struct fv_sorted {
    int64_t count;   /* of pairs of a row and an expert */
    int64_t *begin;  /* [experts + 1]: pairs of expert e begin at begin[e] */
    int64_t *row;    /* [count] of pairs */
    float *weight;   /* [count] */
    int64_t *places; /* [rows][k]: of each row's pairs, ascending; -1 behind the last */
} fv_sorted;

/* Sorts rows [first, first + rows). weights: or NULL. */
void fv_sort(int64_t experts, int64_t first, int64_t rows, int64_t k, const int64_t *chosen, const float *weights,
             fv_sorted *sorted);

/* ------------------------------------------------------------------------------------------------------ loops.c -- */

/* gate = min(gate, limit), scaled = alpha * gate, up = min(max(up, -limit), limit) + offset. */
void fv_gate_clamp(int64_t n, float limit, float alpha, float offset, float *gate, float *up, float *scaled);

/* gate = gate * sigmoid * up. */
void fv_gate_multiply(int64_t n, const float *sigmoid, const float *up, float *gate);

#endif
