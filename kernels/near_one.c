/* near_one.h. */
#include "near_one.h"

#include <math.h>
#include <string.h>

float fv_largest(int64_t n, const float *x, float most) {
    for (int64_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

float fv_near_one(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    uint32_t exponent = bits >> 23;
    exponent = exponent < 1 ? 1 : exponent > 253 ? 253 : exponent; /* so is 2^-e a normal number */
    bits = (254 - exponent) << 23;
    memcpy(&number, &bits, sizeof bits);
    return number;
}
