/* Ropes: their angles and tables (rope.h), in double (core/elementary.h). */
#include "core/core.h"
#include "rope/rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool positive(double x) { return x > 0.0 && isfinite(x); }

static fovea_status check(const fovea_rope_desc *d) {
    const int64_t dim = d->rotary_dim;
    if (dim < 2 || dim % 2 != 0 || dim > 2 * FV_ROPE_MOST_PAIRS)
        return fv_fail(FOVEA_ERROR_SHAPE, "rotary_dim is %lld; it must be even, from 2 to %d", (long long)dim,
                       2 * FV_ROPE_MOST_PAIRS);
    fovea_status status = fv_enum_check(FV_ENUM_rope_pairing, "pairing", (int)d->pairing);
    if (status == FOVEA_OK)
        status = fv_enum_check(FV_ENUM_rope_scaling, "scaling", (int)d->scaling);
    if (status != FOVEA_OK)
        return status;
    const bool original = d->scaling == FOVEA_ROPE_YARN || d->scaling == FOVEA_ROPE_LLAMA3;
    if (!(d->base > 1.0 && isfinite(d->base)))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "base is %g; it must be more than 1, and finite", d->base);
    if (d->scaling != FOVEA_ROPE_UNSCALED && !positive(d->factor))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "factor is %g; it must be more than 0, and finite", d->factor);
    if (!(d->attention_factor >= 0.0 && isfinite(d->attention_factor)))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "attention_factor is %g; it must be 0 or more, and finite",
                       d->attention_factor);
    if (original && !positive(d->original_positions))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "original_positions is %g; this scaling needs the model's original length",
                       d->original_positions);
    if (d->scaling == FOVEA_ROPE_NTK && dim < 4)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "rotary_dim is 2; FOVEA_ROPE_NTK needs 4 or more");
    if (d->scaling == FOVEA_ROPE_YARN && !(positive(d->beta_fast) && positive(d->beta_slow)))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "beta_fast is %g and beta_slow %g; they must be more than 0, and finite",
                       d->beta_fast, d->beta_slow);
    if (d->scaling == FOVEA_ROPE_LLAMA3 &&
        !(d->low_frequency < d->high_frequency && isfinite(d->high_frequency - d->low_frequency)))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "low_frequency %g is not less than high_frequency %g", d->low_frequency,
                       d->high_frequency);
    for (int64_t i = 0; d->divisors && i < dim / 2; i++)
        if (!positive((double)d->divisors[i]))
            return fv_fail(FOVEA_ERROR_ARGUMENT, "divisors[%lld] is %g; it must be more than 0, and finite",
                           (long long)i, (double)d->divisors[i]);
    return FOVEA_OK;
}

/* The pair that makes that many turns within the original length. */
static double yarn_pair(const fovea_rope_desc *d, double turns) {
    return (double)d->rotary_dim * fv_log(d->original_positions / (2.0 * FV_PI * turns)) / (2.0 * fv_log(d->base));
}

static double yarn(const fovea_rope_desc *d, double f, int64_t i) {
    const double low = fmax(floor(yarn_pair(d, d->beta_fast)), 0.0),
                 high = fmin(ceil(yarn_pair(d, d->beta_slow)), (double)d->rotary_dim - 1.0);
    const double t = fmin(fmax(((double)i - low) / fmax(high - low, 0.001), 0.0), 1.0);
    return f / d->factor * t + f * (1.0 - t);
}

static double llama3(const fovea_rope_desc *d, double f) {
    const double turns = d->original_positions * f / (2.0 * FV_PI), low = d->low_frequency, high = d->high_frequency;
    if (turns < low || turns > high)
        return turns < low ? f / d->factor : f;
    const double t = (turns - low) / (high - low);
    return (1.0 - t) * f / d->factor + t * f;
}

/* The angle of a pair at position 1. */
static double frequency(const fovea_rope_desc *d, int64_t i) {
    const double dim = (double)d->rotary_dim;
    double base = d->base;
    if (d->scaling == FOVEA_ROPE_NTK)
        base *= fv_pow(d->factor, dim / (dim - 2.0));
    const double f = base > 0.0 && base < INFINITY ? fv_pow(base, -2.0 * (double)i / dim) : NAN;
    const double scaled = d->scaling == FOVEA_ROPE_LINEAR   ? f / d->factor
                          : d->scaling == FOVEA_ROPE_YARN   ? yarn(d, f, i)
                          : d->scaling == FOVEA_ROPE_LLAMA3 ? llama3(d, f)
                                                            : f;
    return d->divisors ? scaled / (double)d->divisors[i] : scaled;
}

static double factor_of(const fovea_rope_desc *d) {
    if (d->attention_factor != 0.0)
        return d->attention_factor;
    return d->scaling == FOVEA_ROPE_YARN && d->factor > 1.0 ? 0.1 * fv_log(d->factor) + 1.0 : 1.0;
}

static fovea_status fill(fovea_rope *rope) {
    const int64_t n = rope->pairs;
    for (int64_t i = 0; i < n; i++) {
        const double f = frequency(&rope->desc, i);
        if (!(f <= FV_ROPE_MOST_ANGLE))
            return fv_fail(FOVEA_ERROR_ARGUMENT,
                           "pair %lld would turn by %g at position 1; it must be at most %d: base, factor or divisors "
                           "are wrong",
                           (long long)i, f, FV_ROPE_MOST_ANGLE);
        double step = 1.0;
        for (int64_t digit = 0; digit < FV_ROPE_DIGITS; digit++, step *= FV_ROPE_BASE)
            for (int64_t value = 0; value < FV_ROPE_BASE; value++) {
                double *to = rope->table + (digit * FV_ROPE_BASE + value) * 2 * n + i;
                fv_sincos((double)value * step * f, to + n, to);
            }
    }
    rope->factor = factor_of(&rope->desc);
    return FOVEA_OK;
}

fovea_status fovea_rope_create(const fovea_rope_desc *given, fovea_rope **rope) {
    FV_HOLD_EXCEPTIONS();
    if (!rope)
        return fv_fail(FOVEA_ERROR_NULL, "rope is NULL");
    *rope = NULL;
    if (!given)
        return fv_fail(FOVEA_ERROR_NULL, "desc is NULL");
    fovea_rope_desc desc;
    fovea_rope_desc_init(&desc);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_rope_desc), given, &desc);
    if (status == FOVEA_OK)
        status = check(&desc);
    if (status != FOVEA_OK)
        return status;
    const int64_t n = desc.rotary_dim / 2, doubles = FV_ROPE_DIGITS * FV_ROPE_BASE * 2 * n;
    fovea_rope *made = malloc(sizeof *made + (size_t)doubles * sizeof(double) + (size_t)n * sizeof(float));
    if (!made)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory for the tables of a rope (%lld bytes)",
                       (long long)doubles * (long long)sizeof(double));
    made->desc = desc;
    made->pairs = n;
    if (desc.divisors)
        made->desc.divisors = memcpy(made->table + doubles, desc.divisors, (size_t)n * sizeof(float));
    const fv_float_mode mode = fv_float_plain();
    status = fill(made);
    fv_float_mode_set(&mode);
    if (status == FOVEA_OK)
        *rope = made;
    else
        free(made);
    return status;
}

void fovea_rope_destroy(fovea_rope *rope) { free(rope); }

uint64_t fv_rope_hash(const fovea_rope *rope) {
    const struct {
        int64_t pairs, pairing;
        double factor;
    } head = {rope->pairs, (int64_t)rope->desc.pairing, rope->factor};
    const int64_t angles = 2 * rope->pairs; /* of position 1 */
    uint64_t hash = fv_hash(FV_HASH_BEGIN, (const char *)&head, sizeof head);
    hash = fv_hash(hash, (const char *)(rope->table + angles), (size_t)angles * sizeof(double));
    return hash ? hash : 1;
}
