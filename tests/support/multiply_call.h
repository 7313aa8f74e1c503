/* Products by their sizes, for tests: what kernels take as structs, said in numbers. */
#ifndef MULTIPLY_CALL_H
#define MULTIPLY_CALL_H

#include "kernels.h"

static inline fv_operand operand_of(fv_format format, int64_t n, int64_t k, const void *b, int64_t ldb) {
    return (fv_operand){.data = b, .columns = n, .steps = k, .row = ldb, .format = format};
}

static inline void multiply_call(fv_multiply_fn *multiply, fv_format format, int64_t m, int64_t n, int64_t k,
                                 const void *a, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc,
                                 const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    const fv_rows rows = {a, m, lda};
    const fv_operand factor = operand_of(format, n, k, b, ldb);
    multiply(&rows, &factor, c, ldc, epilogue, prefetch);
}

#endif
