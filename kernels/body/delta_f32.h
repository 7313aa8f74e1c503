/* delta: a state of FV_STATE_COLUMNS columns through many tokens (kernels.h has the formulas).
 *
 * A sweep over the rows brings the state one token further, and finds two sums of the new state on its way: that with
 * q, which is this token's output, and that with the next token's decayed k, which its update begins with. So each
 * vector of the state is loaded and stored once a token. The sum for the first token is a pass of its own.
 *
 * Bound: four vector operations a vector of the state and token, with the state in the first-level cache (16 KiB of
 * 128 rows). FV_GROUP vectors of columns go together: their sums and updates fill the registers, and eight chains hide
 * the latency of the multiply-adds. Figures: docs/lab/recurrences.md. */
#include "prefetch_ahead.h"

/* Rows of v and o may be far apart, which no hardware prefetches: they are fetched some tokens ahead. Stores of the
 * state would wait behind those of outputs whose lines are missing. */
enum { DELTA_AHEAD = 4, DELTA_LINE = 16 };

enum { DELTA_VECTORS = FV_STATE_COLUMNS / FV_W, DELTA_GROUP = DELTA_VECTORS < FV_GROUP ? DELTA_VECTORS : FV_GROUP };

#if FV_W > 1
#define DELTA_INLINE static inline __attribute__((always_inline))
#else
#define DELTA_INLINE static /* this tier is for its bits */
#endif

/* One token of a group of columns: from src to dst. corrected: m becomes the sum with the next token's decayed k. last:
 * there is none, and the state leaves the library. */
DELTA_INLINE void delta_sweep(const fv_delta *args, int64_t t, const float *src, int64_t ldsrc, float *dst,
                              int64_t lddst, const vf *d, vf *o, vf *m, const int corrected, const int last) {
    const float *a = args->decay + t * args->lddecay, *k = args->k + t * args->ldk, *q = args->q + t * args->ldq,
                *next = corrected ? args->decayed + (t + 1) * args->lddecayed : NULL;
    for (int c = 0; c < DELTA_GROUP; c++)
        o[c] = m[c] = v_set1(0.0f);
    for (int64_t i = 0; i < args->rows; i++, src += ldsrc, dst += lddst) {
        const vf decay = v_set1(a[i]), key = v_set1(k[i]), query = v_set1(q[i]);
        for (int c = 0; c < DELTA_GROUP; c++) {
            vf s = v_fma(key, d[c], v_mul(decay, v_load(src + c * FV_W)));
            o[c] = v_accumulate(query, s, o[c]);
            if (last)
                s = v_select(v_nan(s), v_set1(NAN), s);
            if (corrected)
                m[c] = v_accumulate(v_set1(next[i]), s, m[c]);
            v_store(dst + c * FV_W, s);
        }
    }
}

/* The sums of a state with a vector. */
DELTA_INLINE void delta_sums(int64_t rows, const float *s, int64_t lds, const float *q, vf *o) {
    for (int c = 0; c < DELTA_GROUP; c++)
        o[c] = v_set1(0.0f);
    for (int64_t i = 0; i < rows; i++, s += lds)
        for (int c = 0; c < DELTA_GROUP; c++)
            o[c] = v_accumulate(v_set1(q[i]), v_load(s + c * FV_W), o[c]);
}

/* Outputs of a group from its sums; at: its first column. */
DELTA_INLINE void delta_out(const fv_delta *args, int64_t t, int64_t at, int64_t query, const vf *sums) {
    float *o = args->o + query * args->o_step + t * args->ldo + at;
    for (int c = 0; c < DELTA_GROUP; c++) {
        vf y = v_mul(v_set1(args->scale), sums[c]);
        if (args->skip)
            y = v_fma(v_load(args->skip + at + c * FV_W), v_load(args->v + t * args->ldv + at + c * FV_W), y);
        v_store(o + c * FV_W, v_select(v_nan(y), v_set1(NAN), y));
    }
}

static inline void delta_group(const fv_delta *args, int64_t at) {
    const float *src = args->from + at;
    int64_t ldsrc = args->ldfrom;
    vf m[DELTA_GROUP], d[DELTA_GROUP], o[DELTA_GROUP];
    for (int c = 0; c < DELTA_GROUP; c++)
        m[c] = v_set1(0.0f);
    if (args->correct)
        delta_sums(args->rows, src, ldsrc, args->decayed, m);
    for (int64_t t = 0; t < args->tokens; t++) {
        const int last = t == args->tokens - 1;
        float *dst = (last ? args->to : args->tile) + at;
        for (int c = 0; c < DELTA_GROUP * FV_W; c += DELTA_LINE) {
            __builtin_prefetch(fv_ahead(args->v, (t + DELTA_AHEAD) * args->ldv + at + c), 0, 3);
            __builtin_prefetch(fv_ahead(args->o, (t + DELTA_AHEAD) * args->ldo + at + c), 1, 3);
        }
        const int64_t lddst = last ? args->ldto : FV_STATE_COLUMNS;
        for (int c = 0; c < DELTA_GROUP; c++) {
            const vf v = v_load(args->v + t * args->ldv + at + c * FV_W);
            d[c] = v_mul(v_set1(args->beta[t]), args->correct ? v_sub(v, m[c]) : v);
        }
        if (last)
            delta_sweep(args, t, src, ldsrc, dst, lddst, d, o, m, 0, 1);
        else if (args->correct)
            delta_sweep(args, t, src, ldsrc, dst, lddst, d, o, m, 1, 0);
        else
            delta_sweep(args, t, src, ldsrc, dst, lddst, d, o, m, 0, 0);
        for (int64_t query = 0; query < args->queries; query++) {
            if (query > 0)
                delta_sums(args->rows, dst, lddst, args->q + query * args->q_step + t * args->ldq, o);
            delta_out(args, t, at, query, o);
        }
        src = dst;
        ldsrc = lddst;
    }
}

void FV_NAME(const fv_delta *args) {
    assert(args->tokens >= 1 && args->rows >= 1 && args->queries >= 1);
    for (int64_t at = 0; at < FV_STATE_COLUMNS; at += DELTA_GROUP * FV_W)
        delta_group(args, at);
}
