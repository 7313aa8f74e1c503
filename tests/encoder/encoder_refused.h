/* test-encoder: what is refused, and the tensors of it all. */
#ifndef FOVEA_TESTS_ENCODER_REFUSED_H
#define FOVEA_TESTS_ENCODER_REFUSED_H

#include "attention_case.h"

static inline fovea_tensor rows_of(void *data, fovea_dtype dtype, int64_t rows, int64_t n) {
    return fovea_tensor_bhtd(data, dtype, 1, 1, rows, n);
}

void check_refused(const fovea_context *ctx);

#endif
