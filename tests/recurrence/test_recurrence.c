/* fovea_gated_delta_rule, fovea_selective_scan and fovea_causal_conv: token by token on the scalar tier they are right
 * in float64; and every tier, number of threads, batch, chunk, layout of states and packing gives these bits. */
#include "guard.h"
#include "recurrence_case.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { CASES = 120 };

/* A sequence's states after each of its last tokens: slot s has that s tokens before the last one. */
enum { SLOTS = 3 };

typedef struct result {
    char *out;           /* as the case's output */
    int64_t *lens;       /* [batch] */
    float *state[SLOTS]; /* [batch, heads, rows, columns] */
} result;

static fovea_tensor state_tensor(const recurrence_case *c, void *data, fovea_dtype dtype, int64_t batch,
                                 fovea_state_order order) {
    return order == FOVEA_STATE_ROWS ? fovea_tensor_bhtd(data, dtype, batch, c->heads, c->rows, c->columns)
                                     : fovea_tensor_bhtd(data, dtype, batch, c->heads, c->columns, c->rows);
}

/* n states [rows, columns] in an order, or back to rows. */
static void reorder(const recurrence_case *c, int64_t n, const float *from, float *to, bool back) {
    for (int64_t s = 0; s < n * c->heads; s++)
        for (int64_t i = 0; i < c->rows; i++)
            for (int64_t j = 0; j < c->columns; j++) {
                const int64_t row = (s * c->rows + i) * c->columns + j, column = (s * c->columns + j) * c->rows + i;
                to[back ? row : column] = from[back ? column : row];
            }
}

static fovea_tensor out_tensor(const recurrence_case *c, void *data) {
    fovea_tensor out = c->tensor[T_OUT];
    out.data = data;
    return out;
}

/* Token by token, each sequence alone, on the scalar tier. */
static result reference(const fovea_context *scalar, const recurrence_case *c, rng *r) {
    const int64_t size = recurrence_state_size(c);
    result want = {.out = must_alloc(recurrence_bytes(c) + 1, 1), .lens = must_alloc(c->batch, sizeof *want.lens)};
    memset(want.out, 0, (size_t)recurrence_bytes(c));
    for (int i = 0; i < SLOTS; i++)
        want.state[i] = must_alloc(c->batch * size + 1, sizeof(float));
    float *state = must_alloc(size + 1, sizeof *state);
    for (int64_t b = 0; b < c->batch; b++) {
        want.lens[b] = rng_below(r, 3) ? c->tokens : rng_between(r, 0, c->tokens);
        memcpy(state, c->state + b * size, (size_t)size * sizeof *state);
        for (int64_t t = 0; t <= want.lens[b]; t++) {
            if (want.lens[b] - t < SLOTS)
                memcpy(want.state[want.lens[b] - t] + b * size, state, (size_t)size * sizeof *state);
            if (t == want.lens[b])
                break;
            fovea_states states;
            fovea_states_init(&states);
            states.before = states.after = state_tensor(c, state, FOVEA_DTYPE_F32, 1, FOVEA_STATE_ROWS);
            test_check(recurrence_call(scalar, c, b, t, 1, out_tensor(c, want.out), &states, NULL, 0) == FOVEA_OK,
                       "%s: %s", c->title, fovea_error_detail());
        }
    }
    free(state);
    return want;
}

static void result_free(result *want) {
    free(want->out);
    free(want->lens);
    for (int i = 0; i < SLOTS; i++)
        free(want->state[i]);
}

/* The reference against float64. Roundings of a token enter all later ones, so that bounds grow with their number. */
static void check_oracle(const recurrence_case *c, const result *want) {
    const fovea_tensor *o = &c->tensor[T_OUT];
    const int64_t size = recurrence_state_size(c), heads = o->shape[1];
    const double eps = o->dtype == FOVEA_DTYPE_F32 ? 0x1p-24 : o->dtype == FOVEA_DTYPE_F16 ? 0x1p-11 : 0x1p-8;
    double *out = must_alloc(heads * c->tokens * c->columns + 1, sizeof *out),
           *state = must_alloc(size + 1, sizeof *state);
    float *got = must_alloc(c->columns, sizeof *got);
    for (int64_t b = 0; b < c->batch; b++) {
        const int64_t len = want->lens[b];
        double most, worst = 0;
        recurrence_oracle(c, b, len, out, state, &most);
        const double bound = 0x1p-24 * most * (double)(c->rows + 16) * 16 * (double)(len + 1);
        for (int64_t h = 0; h < heads; h++)
            for (int64_t t = 0; t < len; t++) {
                convert_elements(c->columns,
                                 want->out +
                                     fv_dtype_size(o->dtype) * (b * o->stride[0] + h * o->stride[1] + t * o->stride[2]),
                                 o->dtype, got, FOVEA_DTYPE_F32);
                for (int64_t j = 0; j < c->columns; j++) {
                    const double exact = out[(h * len + t) * c->columns + j],
                                 off = fabs((double)got[j] - exact) - eps * fabs(exact) - 0x1p-24;
                    worst = off > worst || isnan(off) ? off : worst;
                }
            }
        test_check(worst <= bound, "%s: sequence %" PRId64 " is off by %g, not at most %g", c->title, b, worst, bound);
        for (int64_t i = 0; i < size; i++)
            test_check(fabs((double)want->state[0][b * size + i] - state[i]) <= bound,
                       "%s: state %" PRId64 " of sequence %" PRId64 " is %g, float64 gives %g", c->title, i, b,
                       (double)want->state[0][b * size + i], state[i]);
    }
    free(out);
    free(state);
    free(got);
}

static void same_out(const recurrence_case *c, const result *want, const char *out, const char *how) {
    test_check(memcmp(out, want->out, (size_t)recurrence_bytes(c)) == 0, "%s, %s: other bits", c->title, how);
}

/* One call for all sequences, which may have fewer tokens; with slots, in either order of states. */
static void check_batch(const fovea_context *ctx, const recurrence_case *c, const result *want, rng *r) {
    const int64_t size = recurrence_state_size(c), n = c->batch * size;
    const fovea_state_order order = (fovea_state_order)rng_below(r, 2);
    const int64_t slots = rng_between(r, 1, SLOTS);
    char *out = must_alloc(recurrence_bytes(c) + 1, 1);
    memset(out, 0x5a, (size_t)recurrence_bytes(c) + 1);
    float *before = must_alloc(n + 1, sizeof *before), *after = must_alloc(slots * n + 1, sizeof *after),
          *rows = must_alloc(n + 1, sizeof *rows);
    if (order == FOVEA_STATE_ROWS)
        memcpy(before, c->state, (size_t)n * sizeof *before);
    else
        reorder(c, c->batch, c->state, before, false);
    fovea_states states;
    fovea_states_init(&states);
    states.order = order;
    states.slots = slots;
    states.lens = want->lens;
    states.before = state_tensor(c, before, FOVEA_DTYPE_F32, c->batch, order);
    states.after = state_tensor(c, slots == 1 ? before : after, FOVEA_DTYPE_F32, slots * c->batch, order);
    guard *workspace = guard_alloc("workspace", recurrence_workspace(ctx, c, -1, 0, c->tokens, &states), GUARD_END);
    const bool own = rng_below(r, 2);
    test_check(recurrence_call(ctx, c, -1, 0, c->tokens, out_tensor(c, out), &states, own ? NULL : workspace->data,
                               own ? 0 : workspace->size) == FOVEA_OK,
               "%s: %s", c->title, fovea_error_detail());
    same_out(c, want, out, "a batch");
    test_check(out[recurrence_bytes(c)] == 0x5a, "%s: written past the end", c->title);
    for (int64_t slot = 0; slot < slots; slot++) {
        const float *got = (slots == 1 ? before : after) + slot * n;
        if (order == FOVEA_STATE_COLUMNS) {
            reorder(c, c->batch, got, rows, true);
            got = rows;
        }
        for (int64_t b = 0; b < c->batch; b++)
            if (slot < want->lens[b] || slot == 0)
                test_same(got + b * size, want->state[slot] + b * size, size,
                          "%s: slot %" PRId64 " of %" PRId64 ", sequence %" PRId64, c->title, slot, slots, b);
    }
    guard_free(workspace);
    free(out);
    free(before);
    free(after);
    free(rows);
}

/* Each sequence alone, in random chunks. */
static void check_chunks(const fovea_context *ctx, const recurrence_case *c, const result *want, rng *r) {
    const int64_t size = recurrence_state_size(c);
    char *out = must_alloc(recurrence_bytes(c) + 1, 1);
    memset(out, 0, (size_t)recurrence_bytes(c) + 1);
    float *state = must_alloc(size + 1, sizeof *state);
    for (int64_t b = 0; b < c->batch; b++) {
        memcpy(state, c->state + b * size, (size_t)size * sizeof *state);
        fovea_states states;
        fovea_states_init(&states);
        states.before = states.after = state_tensor(c, state, FOVEA_DTYPE_F32, 1, FOVEA_STATE_ROWS);
        for (int64_t t = 0, n; t < want->lens[b]; t += n) {
            n = rng_between(r, 1, rng_below(r, 2) ? want->lens[b] - t : fv_min(want->lens[b] - t, 4));
            test_check(recurrence_call(ctx, c, b, t, n, out_tensor(c, out), &states, NULL, 0) == FOVEA_OK, "%s: %s",
                       c->title, fovea_error_detail());
        }
        test_same(state, want->state[0] + b * size, size, "%s: state after chunks", c->title);
    }
    same_out(c, want, out, "in chunks");
    free(state);
    free(out);
}

/* States of 16 bits are read as their floats, and rounded once, at the end of the call. */
static void check_16_bits(const fovea_context *ctx, const recurrence_case *c, const result *want, rng *r) {
    const int64_t n = c->batch * recurrence_state_size(c);
    const fovea_dtype dtype = rng_below(r, 2) ? FOVEA_DTYPE_BF16 : FOVEA_DTYPE_F16;
    const fovea_state_order order = (fovea_state_order)rng_below(r, 2);
    float *floats = must_alloc(n + 1, sizeof *floats);
    uint16_t *half = must_alloc(n + 1, sizeof *half), *rounded = must_alloc(n + 1, sizeof *rounded);
    char *out[2] = {must_alloc(recurrence_bytes(c) + 1, 1), must_alloc(recurrence_bytes(c) + 1, 1)};
    convert_elements(n, c->state, FOVEA_DTYPE_F32, half, dtype);
    convert_elements(n, half, dtype, floats, FOVEA_DTYPE_F32);
    for (int i = 0; i < 2; i++) {
        fovea_states states;
        fovea_states_init(&states);
        states.order = order;
        states.lens = want->lens;
        states.before = states.after = i == 0 ? state_tensor(c, floats, FOVEA_DTYPE_F32, c->batch, order)
                                              : state_tensor(c, half, dtype, c->batch, order);
        test_check(recurrence_call(ctx, c, -1, 0, c->tokens, out_tensor(c, out[i]), &states, NULL, 0) == FOVEA_OK,
                   "%s: %s", c->title, fovea_error_detail());
    }
    convert_elements(n, floats, FOVEA_DTYPE_F32, rounded, dtype);
    test_check(memcmp(out[0], out[1], (size_t)recurrence_bytes(c)) == 0 &&
                   memcmp(rounded, half, (size_t)n * sizeof *half) == 0,
               "%s: other bits with a state of 16 bits", c->title);
    free(floats);
    free(half);
    free(rounded);
    free(out[0]);
    free(out[1]);
}

/* All tokens as one axis, where sequences begin at cu_seqlens; those before `skipped` and as many at the end are left
 * out: their tokens become 0. A workspace asked for with other offsets is enough. */
static void check_packed(const fovea_context *ctx, const recurrence_case *given, const result *want, int64_t skipped) {
    recurrence_case c = *given;
    const int64_t sequences = c.batch - 2 * skipped, tokens = c.batch * c.tokens, each = recurrence_bytes(&c) / c.batch;
    int64_t offsets[4] = {0};
    for (int64_t b = 0; b < c.batch; b++)
        if (want->lens[b] != c.tokens)
            return;
    for (int i = 0; i < T_TENSORS; i++) {
        c.tensor[i].shape[2] *= c.batch;
        c.tensor[i].shape[0] = 1;
    }
    fovea_states states;
    fovea_states_init(&states);
    states.cu_seqlens = offsets;
    states.sequences = sequences;
    states.before =
        state_tensor(&c, c.state + skipped * recurrence_state_size(&c), FOVEA_DTYPE_F32, sequences, FOVEA_STATE_ROWS);
    guard *workspace = guard_alloc("workspace", recurrence_workspace(ctx, &c, -1, 0, tokens, &states), GUARD_END);
    for (int64_t b = 0; b <= sequences; b++)
        offsets[b] = (skipped + b) * c.tokens;
    char *out = must_alloc(recurrence_bytes(&c) + 1, 1), *rest = must_alloc(recurrence_bytes(&c) + 1, 1);
    memset(out, 0x5a, (size_t)recurrence_bytes(&c));
    memset(rest, 0, (size_t)recurrence_bytes(&c));
    memcpy(rest + skipped * each, want->out + skipped * each, (size_t)(sequences * each));
    test_check(recurrence_call(ctx, &c, -1, 0, tokens, out_tensor(&c, out), &states, workspace->data,
                               workspace->size) == FOVEA_OK,
               "%s: %s", c.title, fovea_error_detail());
    test_check(memcmp(out, rest, (size_t)recurrence_bytes(&c)) == 0, "%s, packed, %" PRId64 " skipped: other bits",
               c.title, skipped);
    guard_free(workspace);
    free(out);
    free(rest);
}

/* Tokens and channels change places. */
static fovea_tensor turned(const fovea_tensor *t, const char *from, char *to, bool back) {
    const int64_t size = fv_dtype_size(t->dtype), batch = t->shape[0], tokens = t->shape[2], n = t->shape[3];
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < tokens; i++)
            for (int64_t j = 0; j < n; j++) {
                const int64_t row = ((b * tokens + i) * n + j) * size, column = ((b * n + j) * tokens + i) * size;
                memcpy(to + (back ? row : column), from + (back ? column : row), (size_t)size);
            }
    return fovea_tensor_bhtd(to, t->dtype, batch, 1, n, tokens);
}

/* A convolution whose input, output or both have channels first. */
static void check_channels_first(const fovea_context *ctx, const recurrence_case *c, const result *want, rng *r) {
    const fovea_tensor *x = &c->tensor[C_X], *y = &c->tensor[T_OUT];
    char *in = must_alloc(c->batch * c->tokens * c->columns, sizeof(float)), *out = must_alloc(recurrence_bytes(c), 1),
         *back = must_alloc(recurrence_bytes(c), 1);
    const int which = (int)rng_between(r, 1, 3);
    fovea_states states;
    fovea_states_init(&states);
    states.lens = want->lens;
    states.before = state_tensor(c, c->state, FOVEA_DTYPE_F32, c->batch, FOVEA_STATE_ROWS);
    fovea_conv_args args = c->conv;
    args.x_channels_first = which & 1;
    args.out_channels_first = which >> 1;
    args.x = args.x_channels_first ? turned(x, x->data, in, false) : *x;
    args.out = out_tensor(c, out);
    if (args.out_channels_first)
        args.out = fovea_tensor_bhtd(out, y->dtype, c->batch, 1, c->columns, c->tokens);
    args.weight = c->a;
    args.bias = c->bias;
    args.states = &states;
    memset(out, 0x5a, (size_t)recurrence_bytes(c));
    test_check(fovea_causal_conv(ctx, &args, NULL, 0) == FOVEA_OK, "%s: %s", c->title, fovea_error_detail());
    if (args.out_channels_first)
        (void)turned(y, out, back, true);
    same_out(c, want, args.out_channels_first ? back : out, "channels first");
    free(in);
    free(out);
    free(back);
}

/* A NaN of other bits in the inputs: NaN that come out are 0x7fc00000, in states, too, and on each tier. */
static void test_nan(const case_contexts *contexts, recurrence kind, rng *r) {
    recurrence_case *c = recurrence_case_random(kind, r);
    const fovea_tensor *t = &c->tensor[T_V], *o = &c->tensor[T_OUT];
    const uint32_t nan = 0xffc12345;
    char *at =
        (char *)t->data + rng_below(r, c->batch * c->tokens * t->shape[1] * t->shape[3]) * fv_dtype_size(t->dtype);
    convert_elements(1, &nan, FOVEA_DTYPE_F32, at, t->dtype);
    result want = reference(contexts->scalar, c, r);
    const int64_t n = c->batch * recurrence_state_size(c), all = recurrence_bytes(c) / fv_dtype_size(o->dtype);
    float *out = must_alloc(all, sizeof *out), canonical = NAN;
    convert_elements(all, want.out, o->dtype, out, FOVEA_DTYPE_F32);
    bool right = true;
    for (int64_t i = 0; i < n; i++)
        right = right && (!isnan(want.state[0][i]) || memcmp(&want.state[0][i], &canonical, sizeof canonical) == 0);
    for (int64_t i = 0; i < all; i++)
        right = right && (!isnan(out[i]) || memcmp(&out[i], &canonical, sizeof canonical) == 0);
    test_check(right, "%s: other bits of NaN", c->title);
    check_batch(contexts->own, c, &want, r);
    check_chunks(contexts->three, c, &want, r);
    free(out);
    result_free(&want);
    recurrence_case_free(c);
}

static void test_case(const case_contexts *contexts, recurrence kind, int64_t tokens, rng *r) {
    recurrence_case *c = recurrence_case_of(kind, tokens, r);
    result want = reference(contexts->scalar, c, r);
    check_oracle(c, &want);
    const fovea_context *const all[] = {contexts->scalar, contexts->one, contexts->own, contexts->three};
    for (int i = 0; i < 4; i++) {
        check_batch(all[i], c, &want, r);
        check_chunks(all[i], c, &want, r);
        for (int64_t skipped = 0; 2 * skipped < c->batch; skipped++)
            check_packed(all[i], c, &want, skipped);
        if (kind == CONV)
            check_channels_first(all[i], c, &want, r);
        check_16_bits(all[i], c, &want, r);
    }
    result_free(&want);
    recurrence_case_free(c);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "recurrence", NULL);
    case_contexts contexts = contexts_make();
    rng r = rng_stream(test_seed(), "recurrence");
    for (int64_t i = test_scaled(CASES); i > 0; i--)
        for (int kind = 0; kind < RECURRENCES; kind++) {
            test_case(&contexts, (recurrence)kind, 0, &r);
            test_nan(&contexts, (recurrence)kind, &r);
        }
    for (int kind = 0; kind < RECURRENCES; kind++)
        test_case(&contexts, (recurrence)kind, 512, &r);
    contexts_free(&contexts);
    return test_end();
}
