/* States by columns have the bits of states by rows, for each number of tokens: kernels update them where they are, or
 * transpose them. */
#include "attention_case.h"

#include <math.h>
#include <stdlib.h>

enum { BATCH = 2, HEADS = 2, MOST_TOKENS = 5, MOST = 128, STATE = BATCH * HEADS * MOST * MOST };
enum { ROWS = BATCH * HEADS * MOST_TOKENS * MOST };

static float q[ROWS], k[ROWS], v[ROWS], gate[ROWS], beta[ROWS], rates[HEADS] = {-0.5f, -1.0f}, state[STATE];

static fovea_tensor rows_of(float *data, int64_t tokens, int64_t n) {
    return fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, BATCH, HEADS, tokens, n);
}

static void fill(float *x, int64_t n, float low, float high, rng *r) {
    for (int64_t i = 0; i < n; i++)
        x[i] = low + (high - low) * (float)rng_below(r, 4096) / 4096;
}

static void call(const fovea_context *ctx, bool rule, int64_t tokens, int64_t n, int64_t m, const fovea_states *states,
                 float *out) {
    fovea_status status;
    if (rule) {
        fovea_delta_args args;
        fovea_delta_args_init(&args);
        args.q = rows_of(q, tokens, n);
        args.k = rows_of(k, tokens, n);
        args.v = rows_of(v, tokens, m);
        args.gate = rows_of(gate, tokens, 1);
        args.beta = rows_of(beta, tokens, 1);
        args.out = rows_of(out, tokens, m);
        args.states = states;
        status = fovea_gated_delta_rule(ctx, &args, NULL, 0);
    } else {
        fovea_scan_args args;
        fovea_scan_args_init(&args);
        args.x = rows_of(v, tokens, m);
        args.dt = rows_of(beta, tokens, 1);
        args.b = rows_of(k, tokens, n);
        args.c = rows_of(q, tokens, n);
        args.out = rows_of(out, tokens, m);
        args.a = rates;
        args.states = states;
        status = fovea_selective_scan(ctx, &args, NULL, 0);
    }
    test_check(status == FOVEA_OK, "%s", fovea_error_detail());
}

/* States of n rows and m columns, into another place or, in_place, into the same; rows or columns are `gap` further
 * apart than they need. */
static void check(const fovea_context *ctx, bool rule, int64_t tokens, int64_t n, int64_t m, bool in_place,
                  int64_t gap) {
    const int64_t heads = BATCH * HEADS, column = n + gap;
    float *out[2] = {must_alloc(ROWS, sizeof(float)), must_alloc(ROWS, sizeof(float))};
    float *rows = must_alloc(STATE, sizeof *rows), *columns = must_alloc(2 * heads * m * column, sizeof *columns),
          *to = in_place ? columns : columns + heads * m * column;
    fovea_states states;
    fovea_states_init(&states);
    states.before = fovea_tensor_bhtd(state, FOVEA_DTYPE_F32, BATCH, HEADS, n, m);
    states.after = fovea_tensor_bhtd(rows, FOVEA_DTYPE_F32, BATCH, HEADS, n, m);
    call(ctx, rule, tokens, n, m, &states, out[0]);
    for (int64_t i = 0; i < heads * n * m; i++)
        columns[(i / (n * m) * m + i % m) * column + i / m % n] = state[i];
    states.order = FOVEA_STATE_COLUMNS;
    states.before = fovea_tensor_bhtd(columns, FOVEA_DTYPE_F32, BATCH, HEADS, m, n);
    states.before.stride[2] = column;
    states.before.stride[1] = m * column;
    states.before.stride[0] = HEADS * m * column;
    states.after = states.before;
    states.after.data = to;
    call(ctx, rule, tokens, n, m, &states, out[1]);
    test_same(out[1], out[0], heads * tokens * m, "%s, %lld tokens, %lld x %lld", rule ? "delta rule" : "scan",
              (long long)tokens, (long long)n, (long long)m);
    for (int64_t i = 0; i < heads * n * m; i++)
        if (memcmp(&to[(i / (n * m) * m + i % m) * column + i / m % n], &rows[i], sizeof *rows) != 0) {
            test_check(false, "%s, %lld tokens: state of %lld x %lld has other bits at %lld",
                       rule ? "delta rule" : "scan", (long long)tokens, (long long)n, (long long)m, (long long)i);
            break;
        }
    free(out[0]);
    free(out[1]);
    free(rows);
    free(columns);
}

/* A convolution whose tokens are channels first: the state right in front of them, as kernels take few tokens where
 * they are, or elsewhere. */
static void check_conv(const fovea_context *ctx, int64_t tokens, int64_t taps, int64_t channels, bool silu) {
    const int64_t before = taps - 1, row = before + tokens;
    float *out[2] = {must_alloc(STATE, sizeof(float)), must_alloc(STATE, sizeof(float))};
    float *apart = must_alloc(STATE, sizeof *apart);
    fovea_states states;
    fovea_states_init(&states);
    states.order = FOVEA_STATE_COLUMNS;
    states.before = fovea_tensor_bhtd(state, FOVEA_DTYPE_F32, BATCH, 1, channels, before);
    states.before.stride[2] = row;
    states.before.stride[0] = channels * row;
    fovea_conv_args args;
    fovea_conv_args_init(&args);
    args.x = fovea_tensor_bhtd(state + before, FOVEA_DTYPE_F32, BATCH, 1, channels, tokens);
    args.x.stride[2] = row;
    args.x.stride[0] = channels * row;
    args.x_channels_first = 1;
    args.weight = k;
    args.bias = silu ? v : NULL;
    args.taps = taps;
    args.silu = silu;
    args.states = &states;
    for (int i = 0; i < 2; i++) {
        args.out = fovea_tensor_bhtd(out[i], FOVEA_DTYPE_F32, BATCH, 1, tokens, channels);
        test_check(fovea_causal_conv(ctx, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
        for (int64_t j = 0; j < BATCH * channels * before; j++)
            apart[j] = state[j / before * row + j % before];
        states.before = fovea_tensor_bhtd(apart, FOVEA_DTYPE_F32, BATCH, 1, channels, before);
    }
    test_same(out[1], out[0], BATCH * tokens * channels, "convolution of %lld channels and %lld taps, %lld tokens",
              (long long)channels, (long long)taps, (long long)tokens);
    free(out[0]);
    free(out[1]);
    free(apart);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "recurrence-columns", NULL);
    static const int64_t sizes[][2] = {{16, 32}, {17, 32}, {48, 48}, {128, 64}, {32, 128}, {1, 1}};
    case_contexts contexts = contexts_make();
    const fovea_context *const all[] = {contexts.scalar, contexts.one, contexts.own, contexts.three};
    rng r = rng_stream(test_seed(), "recurrence-columns");
    fill(q, ROWS, -1, 1, &r);
    fill(k, ROWS, -0.1f, 0.1f, &r);
    fill(v, ROWS, -1, 1, &r);
    fill(gate, ROWS, -1, 0, &r);
    fill(beta, ROWS, 0, 1, &r);
    fill(state, STATE, -1, 1, &r);
    for (int nan = 0; nan < 2; nan++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int64_t tokens = 1; tokens <= MOST_TOKENS; tokens++)
                for (int kind = 0; kind < 8; kind++)
                    check(all[(tokens + kind / 2) % 4], kind & 1, tokens, sizes[s][0], sizes[s][1], kind & 2,
                          kind & 4 ? 3 : 0);
        for (int64_t tokens = 1; tokens <= 8; tokens++)
            for (int kind = 0; kind < 8; kind++)
                check_conv(all[(tokens + kind / 2) % 4], tokens, kind & 4 ? 4 : 3, kind & 2 ? 272 : 100, kind & 1);
        const uint32_t bits = 0xffc12345;
        memcpy(&state[40], &bits, sizeof bits); /* and once more with NaN and infinity */
        v[3] = INFINITY;
    }
    contexts_free(&contexts);
    return test_end();
}
