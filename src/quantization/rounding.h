/* Rows of floats as integers with scales: the rules of fovea_quantize() (docs/types.md). In the mode that rounds to
 * nearest. */
#ifndef FV_QUANTIZATION_ROUNDING_H
#define FV_QUANTIZATION_ROUNDING_H

#include "quantization/read.h"

typedef struct fv_rounding {
    fovea_dtype to;
    fv_scale_words scales; /* as the scale is stored: f32, f16 or bf16 */
    int64_t group;         /* elements that share a scale */
    bool search;
} fv_rounding;

/* n finite floats, whole groups and blocks, go to data and scales; integers: room for 2 * n. False: a scale would be
 * infinite; what is written then is not defined. */
bool fv_round_row(const fv_rounding *rounding, int64_t n, const float *x, int8_t *integers, uint8_t *data,
                  uint8_t *scales);

#endif
