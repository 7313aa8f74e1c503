/* Checks of tensors at the public edge. */
#ifndef FV_TENSOR_H
#define FV_TENSOR_H

#include "core/dtypes.h"
#include "fovea/fovea.h"

#include <stdbool.h>

/* The conditions that a tensor must meet. */
typedef struct fv_tensor_rule {
    const char *name; /* for the sentence */
    fovea_dtype dtype;
    int64_t shape[4];
    bool output;    /* elements must not share memory */
    bool broadcast; /* sizes of 1 and a channel stride of 0 are allowed */
} fv_tensor_rule;

/* The bytes from the first element to the last, [begin, end). */
typedef struct fv_span {
    const char *name;
    uintptr_t begin, end;
} fv_span;

/* Has it no elements? Then nobody looks at its strides: numpy, say, gives empty arrays any. */
static inline bool fv_tensor_empty(const fovea_tensor *t) {
    return t->shape[0] == 0 || t->shape[1] == 0 || t->shape[2] == 0 || t->shape[3] == 0;
}

/* A tensor whose axes of size 1 have stride 0: any index finds their one element. */
fovea_tensor fv_tensor_repeated(const fovea_tensor *tensor);

/* Checks a tensor whose data is not NULL and gives its span, an empty one if it has no elements. */
fovea_status fv_tensor_check(const fovea_tensor *tensor, const fv_tensor_rule *rule, fv_span *span);

/* Refuses a dtype that is no type of floats. */
fovea_status fv_floats_refuse(const char *name, fovea_dtype dtype);

/* Checks the sizes of an operation's first tensor. rows_only: it must be [1, 1, rows, channels]. */
fovea_status fv_floats_sizes(const char *name, const fovea_tensor *t, bool rows_only);

/* Checks a tensor of floats of a known shape. */
fovea_status fv_floats_check(const char *name, const fovea_tensor *t, const int64_t shape[4], bool output,
                             fv_span *span);

/* Are they the same elements? */
bool fv_tensor_same(const fovea_tensor *a, const fovea_tensor *b);

/* The span of lengths or offsets, one for each sequence of the batch; empty if there are none. */
fv_span fv_lens_span(const char *name, const int64_t *lens, int64_t batch);

/* The span of a struct that begins with struct_size; empty if there is none. */
fv_span fv_struct_span(const char *name, const void *given);

/* Fails if the spans share a byte. */
fovea_status fv_spans_disjoint(const fv_span *a, const fv_span *b);

/* Fails if a span that is written shares a byte with another one, or any with the workspace. Leaves only those in both
 * arrays that are not empty: of what a call may be given, most is absent. */
fovea_status fv_spans_apart(fv_span *spans, bool *written, int count, const fv_span *workspace);

#endif
