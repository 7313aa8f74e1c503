/* Ranges and bits of keys (attention_rows.h). */
#include "attention_rows.h"

#include "size.h"

fv_sequence fv_attention_sequence(const fovea_attention_plan *plan, const fovea_attention_args *args, int64_t batch) {
    const fovea_attention_desc *d = &plan->desc;
    fv_sequence s = {.index = batch,
                     .q_len = args->q_lens ? args->q_lens[batch] : d->q_len,
                     .kv_len = args->kv_lens ? args->kv_lens[batch] : d->kv_len};
    if (d->causal == FOVEA_CAUSAL_BOTTOM_RIGHT)
        s.offset = s.kv_len - s.q_len;
    else if (args->q_offsets)
        s.offset = args->q_offsets[batch];
    return s;
}

bool fv_attention_limited(const fovea_attention_desc *d) {
    const int64_t no_limit = (int64_t)1 << 60; /* plans hold "no limit" as a larger number */
    const bool left = d->window_left >= 0 && d->window_left < no_limit;
    const bool right = d->window_right >= 0 && d->window_right < no_limit;
    const bool causal =
        d->causal != FOVEA_CAUSAL_NONE && d->q_len > 1; /* one query: as a rule the last, that sees all */
    return causal || left || right;
}

fv_range fv_bits_range(const fv_keybits *bits) {
    fv_range range = {0, 0};
    for (int64_t i = 0; i < FV_SEGMENT / 64; i++)
        if (bits->word[i]) {
            const int64_t first = __builtin_ctzll(bits->word[i]), last = 63 - __builtin_clzll(bits->word[i]);
            range = fv_range_union(range, (fv_range){i * 64 + first, i * 64 + last + 1});
        }
    return range;
}
