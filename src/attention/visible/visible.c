/* Ranges and bits of keys (visible.h). */
#include "attention/visible/visible.h"

#include "core/core.h"

bool fv_attention_empty(const fovea_attention_desc *d) { return d->batch == 0 || d->q_heads == 0 || d->q_len == 0; }

fv_sequence fv_attention_sequence(const fovea_attention_desc *d, const fovea_attention_args *args, int64_t batch) {
    fv_sequence s = {.index = batch};
    int64_t q_end = d->q_len, kv_end = d->kv_len;
    if (d->packed) {
        s.q_start = args->q_cu_seqlens[batch];
        q_end = args->q_cu_seqlens[batch + 1];
        if (d->page_keys == 0) { /* keys in pages count from each sequence's first */
            s.kv_start = args->kv_cu_seqlens[batch];
            kv_end = args->kv_cu_seqlens[batch + 1];
        }
    } else {
        s.entry = batch;
        s.q_start = args->q_starts ? args->q_starts[batch] : 0;
        s.kv_start = args->kv_starts ? args->kv_starts[batch] : 0;
    }
    s.q_len = args->q_lens ? args->q_lens[batch] : q_end - s.q_start;
    s.kv_len = args->kv_lens ? args->kv_lens[batch] : kv_end - s.kv_start;
    s.tokens = d->packed ? (fv_range){s.q_start, s.q_start + s.q_len} : (fv_range){0, d->q_len};
    if (d->causal == FOVEA_CAUSAL_BOTTOM_RIGHT)
        s.offset = s.kv_len - s.q_len;
    else if (args->q_offsets)
        s.offset = args->q_offsets[batch];
    s.offset -= args->first_key; /* positions of a piece count from its own first key */
    return s;
}

bool fv_attention_windowed(const fovea_attention_desc *d) {
    const bool left = d->window_left >= 0 && d->window_left < FV_NO_LIMIT;
    const bool right = d->window_right >= 0 && d->window_right < FV_NO_LIMIT;
    return left || right;
}

bool fv_attention_limited(const fovea_attention_desc *d) {
    const bool causal =
        d->causal != FOVEA_CAUSAL_NONE && d->q_len > 1; /* one query: as a rule the last, that sees all */
    return causal || fv_attention_windowed(d);
}

/* Pairs of a row i and a key j of one head with j <= i + reach. */
static double pairs_up_to(const fovea_attention_desc *d, int64_t reach) {
    const int64_t first = fv_min(fv_max(-reach, 0), d->q_len);                  /* row that has such a key */
    const int64_t all = fv_min(fv_max(d->kv_len - 1 - reach, first), d->q_len); /* row that has all keys */
    const double sum = (double)first + (double)all + 2.0 * (double)reach + 1.0; /* of the ends between */
    return (double)(all - first) * sum / 2.0 + (double)(d->q_len - all) * (double)d->kv_len;
}

/* Row i may see keys [begin + i, end + i), if there are such. */
static fv_range reach(const fovea_attention_desc *d) {
    const int64_t offset = d->causal == FOVEA_CAUSAL_BOTTOM_RIGHT ? d->kv_len - d->q_len : 0;
    const int64_t far = d->q_len + d->kv_len; /* past every key from every row */
    const int64_t left = d->window_left < 0 ? far : fv_min(d->window_left, far);
    const int64_t last = fv_attention_right(d), right = last < 0 ? far : fv_min(last, far);
    return (fv_range){offset - left, offset + right + 1};
}

double fv_attention_pairs(const fovea_attention_desc *d) {
    const fv_range keys = reach(d);
    return pairs_up_to(d, keys.end - 1) - pairs_up_to(d, keys.begin - 1);
}

int64_t fv_attention_keys(const fovea_attention_desc *d) {
    const fv_range keys = reach(d);
    return fv_max(fv_min(keys.end + d->q_len - 1, d->kv_len) - fv_max(keys.begin, 0), 0);
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
