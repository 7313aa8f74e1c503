/* Values in place: shared by the sources that copy nothing (source.h). */
#ifndef FV_ATTENTION_IN_PLACE_H
#define FV_ATTENTION_IN_PLACE_H

#include "attention/sources/source.h"

/* All channels of the keys of a span. */
static inline fv_values_step fv_lying_step(const fv_values *v, int64_t begin, int64_t end, const fv_kernel *product) {
    const fv_kv_span span = fv_values_span(v, begin, end);
    return (fv_values_step){.values = {.data = span.at,
                                       .scales = span.scales,
                                       .columns = v->plan->desc->value_dim,
                                       .steps = span.count,
                                       .row = span.stride,
                                       .format = fv_format_as_it_lies(v->side->dtype)},
                            .begin = begin,
                            .end = begin + span.count,
                            .product = product,
                            .most_rows = product->few ? product->mr : INT64_MAX};
}

#endif
