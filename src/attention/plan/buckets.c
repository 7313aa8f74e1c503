/* The buckets of T5's relative bias (buckets.h): where each begins, without rounding. */
#include "attention/plan/buckets.h"

#include "core/core.h"

#include <stdbool.h>

int64_t fv_relative_buckets(const fovea_attention_desc *d) {
    if (d->relative != FOVEA_RELATIVE_T5)
        return 0;
    return d->relative_bidirectional ? d->relative_buckets / 2 : d->relative_buckets;
}

/* A natural number of at most 2 FV_MOST_BUCKETS / 2 factors below 2^31, lowest digit first. */
typedef struct natural {
    uint32_t digit[FV_MOST_BUCKETS];
    int digits;
} natural;

static void multiply_power(natural *x, int64_t factor, int64_t times) {
    for (int64_t i = 0; i < times; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < x->digits; j++) {
            carry += (uint64_t)x->digit[j] * (uint64_t)factor;
            x->digit[j] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry)
            x->digit[x->digits++] = (uint32_t)carry;
    }
}

static bool not_less(const natural *a, const natural *b) {
    if (a->digits != b->digits)
        return a->digits > b->digits;
    for (int i = a->digits - 1; i >= 0; i--)
        if (a->digit[i] != b->digit[i])
            return a->digit[i] > b->digit[i];
    return true;
}

/* Is (n / exact)^logarithmic >= (most / exact)^step? */
static bool reaches(int64_t n, int64_t exact, int64_t most, int64_t logarithmic, int64_t step) {
    natural a = {.digit = {1}, .digits = 1}, b = a;
    multiply_power(&a, n, logarithmic);
    multiply_power(&a, exact, step);
    multiply_power(&b, most, step);
    multiply_power(&b, exact, logarithmic);
    return not_less(&a, &b);
}

void fv_relative_bucket_starts(const fovea_attention_desc *d, int64_t *starts) {
    const int64_t buckets = fv_relative_buckets(d), exact = buckets / 2, logarithmic = buckets - exact;
    const int64_t most = d->relative_max_distance;
    for (int64_t b = 0; b < buckets; b++) {
        const int64_t step = b - exact;
        int64_t n = b;
        if (step > 0) { /* a guess first */
            n = (int64_t)((double)exact * fv_pow((double)most / (double)exact, (double)step / (double)logarithmic));
            n = fv_min(fv_max(n, exact), most);
            while (n > exact && reaches(n - 1, exact, most, logarithmic, step))
                n--;
            while (!reaches(n, exact, most, logarithmic, step))
                n++;
        }
        starts[b] = n;
    }
}
