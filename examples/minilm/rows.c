/* rows.h. A sum over a row is taken in 16 lanes, which compilers turn into vectors by themselves, then pairwise. */
#include "rows.h"

#include <math.h>
#include <stddef.h>

enum { LANES = 16 };

static float sum_of_lanes(float *lanes) {
    for (int step = LANES / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++)
            lanes[i] += lanes[i + step];
    return lanes[0];
}

float rows_dot(const float *a, const float *b, int64_t width) {
    float lanes[LANES] = {0};
    int64_t c = 0;
    for (; c + LANES <= width; c += LANES)
        for (int i = 0; i < LANES; i++)
            lanes[i] += a[c + i] * b[c + i];
    for (int i = 0; c < width; c++, i++)
        lanes[i] += a[c] * b[c];
    return sum_of_lanes(lanes);
}

static float sum(const float *a, int64_t width) {
    float lanes[LANES] = {0};
    int64_t c = 0;
    for (; c + LANES <= width; c += LANES)
        for (int i = 0; i < LANES; i++)
            lanes[i] += a[c + i];
    for (int i = 0; c < width; c++, i++)
        lanes[i] += a[c];
    return sum_of_lanes(lanes);
}

/* The sum of the squares of what a row's elements differ from its mean. */
static float squares(const float *a, float mean, int64_t width) {
    float lanes[LANES] = {0};
    int64_t c = 0;
    for (; c + LANES <= width; c += LANES)
        for (int i = 0; i < LANES; i++)
            lanes[i] += (a[c + i] - mean) * (a[c + i] - mean);
    for (int i = 0; c < width; c++, i++)
        lanes[i] += (a[c] - mean) * (a[c] - mean);
    return sum_of_lanes(lanes);
}

void rows_norm(float *x, int64_t rows, int64_t width, const float *weight, const float *bias, float epsilon) {
    for (int64_t r = 0; r < rows; r++, x += width) {
        const float mean = sum(x, width) / (float)width;
        const float scale = 1.0f / sqrtf(squares(x, mean, width) / (float)width + epsilon);
        for (int64_t c = 0; c < width; c++)
            x[c] = (x[c] - mean) * scale * weight[c] + bias[c];
    }
}

void rows_mean_direction(const float *x, int64_t rows, int64_t width, float *to) {
    for (int64_t c = 0; c < width; c++)
        to[c] = 0.0f;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c++)
            to[c] += x[r * width + c];
    for (int64_t c = 0; c < width; c++)
        to[c] /= (float)rows;
    const float length = sqrtf(rows_dot(to, to, width));
    for (int64_t c = 0; c < width && length > 0.0f; c++)
        to[c] /= length;
}
