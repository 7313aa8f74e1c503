/* Which keys a row sees, as a range of positions and as bits of a segment. */
#ifndef FV_ATTENTION_VISIBLE_H
#define FV_ATTENTION_VISIBLE_H

#include "attention/attention.h"
#include "core/core.h"

/* Keys [begin, end); empty: begin == end == 0. */
typedef struct fv_range {
    int64_t begin, end;
} fv_range;

/* Where a row is in the caller's tensors. */
typedef struct fv_row_place {
    int64_t head, token;
} fv_row_place;

/* One sequence of the batch. Positions count from its first query and key, wherever they are in the tensors. */
typedef struct fv_sequence {
    int64_t index; /* in the batch */
    int64_t entry; /* of the tensors that have a row for each query */
    int64_t q_len, kv_len;
    int64_t q_start, kv_start; /* tokens of the tensors: its first query and key */
    fv_range tokens;           /* of q and the outputs for which there are rows; those without a query are padding */
    int64_t offset;            /* key position of query 0, counted from first_key */
} fv_sequence;

fv_sequence fv_attention_sequence(const fovea_attention_desc *desc, const fovea_attention_args *args, int64_t batch);

/* Keys behind its own position that a query may see: window_right, but none where it is causal. */
static inline int64_t fv_attention_right(const fovea_attention_desc *d) {
    return d->causal != FOVEA_CAUSAL_NONE ? 0 : d->window_right;
}

/* A row of a key head, which group query heads share: token by token, then head by head. */
static inline fv_row_place fv_attention_place(int64_t group, const fv_sequence *sequence, int64_t kv_head,
                                              int64_t row) {
    const int64_t tokens = sequence->tokens.end - sequence->tokens.begin;
    return (fv_row_place){kv_head * group + row / tokens, sequence->tokens.begin + row % tokens};
}

/* The place of the row that is row rows after first. */
static inline fv_row_place fv_row_in_sequence(const fv_sequence *sequence, fv_row_place first, int64_t row) {
    const fv_range tokens = sequence->tokens;
    const int64_t token = first.token + row;
    if (token < tokens.end) /* as a rule: no division */
        return (fv_row_place){first.head, token};
    const int64_t past = token - tokens.begin, count = tokens.end - tokens.begin;
    return (fv_row_place){first.head + past / count, tokens.begin + past % count};
}

/* Keys that the query at a token may see by lengths, causality and window; desc: a plan's, whose limits are finite. */
static inline fv_range fv_attention_range(const fovea_attention_desc *d, const fv_sequence *sequence, int64_t token) {
    const int64_t query = token - sequence->q_start;
    if (query < 0 || query >= sequence->q_len)
        return (fv_range){0, 0};
    const int64_t position = query + sequence->offset;
    const int64_t right = fv_attention_right(d);
    const int64_t begin = fv_max(position - d->window_left, 0);
    const int64_t end = fv_min(position + right + 1, sequence->kv_len);
    return begin < end ? (fv_range){begin, end} : (fv_range){0, 0};
}

/* The smallest range that holds both. */
static inline fv_range fv_range_union(fv_range a, fv_range b) {
    if (a.begin == a.end)
        return b;
    if (b.begin == b.end)
        return a;
    return (fv_range){fv_min(a.begin, b.begin), fv_max(a.end, b.end)};
}

/* The range of what is in both. */
static inline fv_range fv_range_common(fv_range a, fv_range b) {
    const fv_range range = {fv_max(a.begin, b.begin), fv_min(a.end, b.end)};
    return range.begin < range.end ? range : (fv_range){0, 0};
}

/* The part of a range that lies in a segment, relative to the segment's first key. */
static inline fv_range fv_range_in_segment(fv_range range, int64_t segment) {
    const int64_t first = segment * FV_SEGMENT;
    const int64_t begin = fv_max(range.begin - first, 0), end = fv_min(range.end - first, FV_SEGMENT);
    return begin < end ? (fv_range){begin, end} : (fv_range){0, 0};
}

/* The lowest n bits, all for n >= 64, none for n <= 0. */
static inline uint64_t fv_low_bits(int64_t n) { return n >= 64 ? ~(uint64_t)0 : n <= 0 ? 0 : ((uint64_t)1 << n) - 1; }

/* Bits of the keys of a range that is relative to its segment. */
static inline fv_keybits fv_range_bits(fv_range range) {
    fv_keybits bits;
    for (int64_t i = 0; i < FV_SEGMENT / 64; i++)
        bits.word[i] = fv_low_bits(range.end - i * 64);
    for (int64_t i = 0; i < FV_SEGMENT / 64 && range.begin > 0; i++)
        bits.word[i] &= ~fv_low_bits(range.begin - i * 64);
    return bits;
}

/* The smallest range, relative to the segment, that holds all bits. */
fv_range fv_bits_range(const fv_keybits *bits);

#endif
