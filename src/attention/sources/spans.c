/* Where keys and values of an open segment are (source.h). */
#include "attention/sources/source.h"

fv_kv_span fv_keys_span(const fv_keys *k, int64_t key, int64_t end) {
    return fv_kv_span_of(k->side, k->sequence, k->head, k->first + key, k->first + end);
}

fv_kv_span fv_values_span(const fv_values *v, int64_t key, int64_t end) {
    return fv_kv_span_of(v->side, v->sequence, v->head, v->first + key, v->first + end);
}
