/* The float64 side of fovea-minilm: computes in double, in its own way, what the data file says the answer is, and from
 * the same weights p how large a rounding error may be. */
#include "agreement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One row: weights p[tokens], and the largest scale * sum |q||k|. */
static double weigh_row(const minilm_data *data, const float *q, const float *k, double *p) {
    int64_t stride = data->heads * data->head_dim;
    double scale = 1.0 / sqrt((double)data->head_dim), largest = -INFINITY, magnitude = 0.0, sum = 0.0;
    for (int64_t j = 0; j < data->tokens; j++) {
        double dot = 0.0, absolute = 0.0;
        for (int64_t c = 0; c < data->head_dim; c++) {
            double term = (double)q[c] * (double)k[j * stride + c];
            dot += term;
            absolute += fabs(term);
        }
        p[j] = scale * dot;
        largest = fmax(largest, p[j]);
        magnitude = fmax(magnitude, scale * absolute);
    }
    for (int64_t j = 0; j < data->tokens; j++)
        sum += p[j] = exp(p[j] - largest);
    for (int64_t j = 0; j < data->tokens; j++)
        p[j] /= sum;
    return magnitude;
}

int reference_create(const minilm_data *data, reference *ref) {
    int64_t stride = data->heads * data->head_dim;
    double *p = malloc((size_t)data->tokens * sizeof *p);
    ref->unit = malloc((size_t)(data->tokens * stride) * sizeof *ref->unit);
    ref->limit = malloc((size_t)(data->tokens * data->heads) * sizeof *ref->limit);
    ref->drift = 0.0;
    if (p == NULL || ref->unit == NULL || ref->limit == NULL) {
        free(p);
        reference_free(ref);
        return -1;
    }
    for (int64_t i = 0; i < data->tokens; i++)
        for (int64_t h = 0; h < data->heads; h++) {
            int64_t head = h * data->head_dim, row = i * stride + head;
            double magnitude = weigh_row(data, data->q + row, data->k + head, p);
            ref->limit[i * data->heads + h] = 4.0 + 4.0 * magnitude;
            for (int64_t c = 0; c < data->head_dim; c++) {
                double out = 0.0, absolute = 0.0;
                for (int64_t j = 0; j < data->tokens; j++) {
                    double term = p[j] * (double)data->v[j * stride + head + c];
                    out += term;
                    absolute += fabs(term);
                }
                ref->unit[row + c] = 0x1p-23 * absolute;
                ref->drift = fmax(ref->drift, fabs(out - data->out[row + c]) / (0x1p-52 * absolute));
            }
        }
    free(p);
    return 0;
}

void reference_free(reference *ref) {
    free(ref->unit);
    free(ref->limit);
    memset(ref, 0, sizeof *ref);
}

/* Unlike fmax, keeps a NaN. */
static double larger(double a, double b) { return isnan(a) || a >= b ? a : b; }

agreement reference_compare(const reference *ref, const minilm_data *data, const float *out) {
    agreement result = {0.0, 0.0, 0.0, 0.0};
    double errors = 0.0, squares = 0.0;
    for (int64_t row = 0; row < data->tokens * data->heads; row++)
        for (int64_t c = 0; c < data->head_dim; c++) {
            int64_t i = row * data->head_dim + c;
            double error = fabs((double)out[i] - data->out[i]);
            /* An error of 0 is 0 units, also where the unit is 0 because every v is. */
            double scaled = error == 0.0 ? 0.0 : error / ref->unit[i];
            result.absolute = larger(result.absolute, error);
            result.scaled = larger(result.scaled, scaled);
            result.of_limit = larger(result.of_limit, scaled / ref->limit[row]);
            errors += error * error;
            squares += data->out[i] * data->out[i];
        }
    result.relative = errors == 0.0 ? 0.0 : sqrt(errors / squares);
    return result;
}
