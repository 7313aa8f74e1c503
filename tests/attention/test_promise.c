/* THE promise: a row of output has the same bits with every thread count, batch position, chunk of queries and tile, on
 * every tier.
 *
 * A scenario is a batch of sequences with one kind of masking. Its baseline is computed once, by the scalar tier,
 * whole, on one thread. Then the tier under test computes it again in the whole cross product of
 *     threads    1, 2, 3, 7, by a pool, and 1 and 2 by the library's default
 *     chunks     queries in pieces of 1 (so the last one is a decode step), 17, 512, and all at once
 *     keys       all of them there from the start, or (causal) only those up to the end of the chunk
 *     batch      all sequences; each alone; all of them in another order
 *     tiles      every product of the tier as score and as value kernel; blocks, tile rows and splits change from run
 *                to run
 * and every byte of out, lse and weights must be as in the baseline.
 *
 * The controls must differ: the same attention with the grid of segments moved by one key, or with a scale that is one
 * ulp larger. Were the comparison blind, or the results insensitive to the order of sums, the rest would prove
 * nothing. */
#include "attention_case.h"
#include "dispatch/dispatch.h"
#include "target.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct setting {
    int64_t block_rows, tile_rows, split_segments;
} setting;

static const setting settings[] = {{0, 0, 0}, {1, 1, 1}, {40, 5, -1}, {64, 64, 2}, {200, 13, 3}, {300, 144, 2}};
enum { SETTINGS = sizeof settings / sizeof settings[0], MOST_TILES = 64, CONTEXTS = 6 };

static const int64_t chunks[] = {1, 17, 512, INT64_MAX};
static const int thread_counts[] = {1, 2, 3, 7};

static fv_attention_choice tiles[MOST_TILES];
static int tile_count;

static struct {
    fovea_context *ctx;
    char text[32];
} contexts[CONTEXTS];

/* Every pair of rows of the tier. */
static void list_tiles(void) {
    const fv_kernel *best = fv_multiply_best(FV_KIND_f32, FV_FORMAT_f32, test_target());
    for (int s = 0; s < fv_kernel_count; s++)
        for (int v = 0; v < fv_kernel_count; v++) {
            const fv_kernel *score = &fv_kernels[s], *value = &fv_kernels[v];
            if (fv_kernel_alike(score, best) && fv_kernel_alike(value, best) && tile_count < MOST_TILES)
                tiles[tile_count++] = (fv_attention_choice){.score = score, .value = value};
        }
    test_check(tile_count > 0 && tile_count < MOST_TILES, "%d tiles", tile_count);
    printf("%d tiles x %d ways to run threads\n", tile_count, CONTEXTS);
}

/* Settings in a random order, all of them before one comes again. */
typedef struct deck {
    int left, card[SETTINGS];
} deck;

static int draw(deck *d, rng *r) {
    if (d->left == 0)
        for (; d->left < SETTINGS; d->left++) {
            const int other = (int)rng_below(r, d->left + 1);
            d->card[d->left] = d->card[other];
            d->card[other] = d->left;
        }
    return d->card[--d->left];
}

/* Pair number `tile` with blocks that are drawn: counted along, some would meet only some chunks and positions. */
static fv_attention_choice choose(int tile, deck *d, rng *r) {
    fv_attention_choice choice = tiles[tile];
    const setting *s = &settings[draw(d, r)];
    choice.block_rows = s->block_rows;
    choice.tile_rows = s->tile_rows;
    choice.split_segments = s->split_segments;
    return choice;
}

/* A scenario: the case, its inputs, and their baseline. */
typedef struct scenario {
    const char *name;
    attention_case c;
    inputs *in;
    outputs *want, *got;
} scenario;

/* Executes queries [first, first + n) of sequences [b, b + batch) of a scenario by one plan. growing: keys past the
 * last of these queries are not there yet. */
static fovea_status execute_piece(const fovea_attention_plan *plan, const scenario *s, int64_t b, int64_t batch,
                                  int64_t first, int64_t n, bool growing, void *workspace, size_t size) {
    const inputs *in = s->in;
    int64_t q_lens[8], kv_lens[8], q_offsets[8];
    fovea_attention_args args = case_args(in, s->got);
    fovea_tensor *by_query[] = {&args.q, &args.out, &args.lse, &args.weights, &args.mask};
    fovea_tensor *by_batch[] = {&args.q, &args.out, &args.lse, &args.weights, &args.mask, &args.k, &args.v};
    for (int i = 0; i < 5; i++)
        if (by_query[i]->data && by_query[i]->shape[2] > 1)
            *by_query[i] = tensor_tokens(*by_query[i], first, n);
    for (int i = 0; i < 7; i++)
        if (by_batch[i]->data && by_batch[i]->shape[0] > 1) {
            size_t element = by_batch[i]->dtype == FOVEA_DTYPE_BOOL ? 1 : sizeof(float);
            by_batch[i]->data = (char *)by_batch[i]->data + (size_t)(b * by_batch[i]->stride[0]) * element;
            by_batch[i]->shape[0] = batch;
        }
    for (int64_t i = 0; i < batch; i++) {
        int64_t left = (in->q_lens ? in->q_lens[b + i] : s->c.desc.q_len) - first;
        q_lens[i] = left < 0 ? 0 : left > n ? n : left;
        q_offsets[i] = first + (in->q_offsets ? in->q_offsets[b + i] : 0);
        int64_t seen = q_offsets[i] + n < 0 ? 0 : q_offsets[i] + n;
        kv_lens[i] = in->kv_lens ? in->kv_lens[b + i] : s->c.desc.kv_len;
        kv_lens[i] = growing && seen < kv_lens[i] ? seen : kv_lens[i];
    }
    args.q_lens = in->q_lens ? q_lens : NULL;
    args.kv_lens = in->kv_lens || growing ? kv_lens : NULL;
    args.q_offsets = q_offsets;
    return fovea_attention_execute(plan, &args, workspace, size);
}

/* Computes s->got in pieces of at most batch sequences and chunk queries. */
static bool run_pieces(const fovea_context *ctx, const fv_attention_choice *tile, const scenario *s, int64_t batch,
                       int64_t chunk, bool growing) {
    const fovea_attention_desc *whole = &s->c.desc;
    bool ok = true;
    outputs_clear(s->got);
    for (int64_t first = 0, n; first < whole->q_len && ok; first += n) {
        fovea_attention_desc desc = *whole;
        fovea_attention_plan *plan;
        n = whole->q_len - first;
        desc.batch = batch;
        desc.q_len = n = n > chunk ? chunk : n;
        ok = test_check(fv_attention_plan_create_chosen(ctx, &desc, tile, &plan) == FOVEA_OK, "%s: plan: %s", s->name,
                        fovea_error_detail());
        if (!ok)
            break;
        size_t size = fovea_attention_plan_workspace_size(plan);
        void *workspace = must_alloc((int64_t)size, 1);
        /* All chunks of this length at once, so that 500 chunks need one plan. */
        int64_t end = first + (whole->q_len - first) / n * n;
        for (int64_t at = first; at < end; at += n)
            for (int64_t b = 0; b < whole->batch; b += batch)
                if (execute_piece(plan, s, b, batch, at, n, growing, workspace, size) != FOVEA_OK)
                    ok = test_check(false, "%s: execute: %s", s->name, fovea_error_detail());
        free(workspace);
        fovea_attention_plan_destroy(plan);
        n = end - first;
    }
    return ok;
}

/* The same sequences in another order: inputs of a BHTD case, each sequence moved, and the baseline likewise. */
static scenario reordered(const scenario *s, const int64_t *order) {
    const fovea_attention_desc *d = &s->c.desc;
    scenario other = *s;
    rng r = rng_stream(test_seed(), s->name);
    other.in = inputs_make(&s->c, &r);
    other.want = outputs_make(&s->c, s->c.layout);
    other.got = outputs_make(&s->c, s->c.layout);
    const fovea_tensor *from[] = {&s->in->args.q, &s->in->args.k, &s->in->args.v,   &s->in->args.mask,
                                  &s->want->out,  &s->want->lse,  &s->want->weights};
    fovea_tensor *to[] = {&other.in->args.q, &other.in->args.k, &other.in->args.v,   &other.in->args.mask,
                          &other.want->out,  &other.want->lse,  &other.want->weights};
    for (int64_t b = 0; b < d->batch; b++) {
        for (int i = 0; i < 7; i++) {
            size_t element = from[i]->dtype == FOVEA_DTYPE_BOOL ? 1 : sizeof(float);
            size_t bytes = (size_t)from[i]->stride[0] * element;
            if (from[i]->data && from[i]->shape[0] > 1)
                memcpy((char *)to[i]->data + (size_t)b * bytes, (char *)from[i]->data + (size_t)order[b] * bytes,
                       bytes);
        }
        if (s->in->q_lens)
            other.in->q_lens[b] = s->in->q_lens[order[b]];
        if (s->in->kv_lens)
            other.in->kv_lens[b] = s->in->kv_lens[order[b]];
        if (s->in->q_offsets)
            other.in->q_offsets[b] = s->in->q_offsets[order[b]];
    }
    return other;
}

/* lengths: q_lens, kv_lens and q_offsets of the three sequences, where the case has them. Every thin-th combination is
 * tried; 1 is the whole cross product, and a thin that is prime to the length of every list meets all pairs of choices
 * too. */
static void check_scenario(const char *name, attention_case c, const int64_t lengths[3][3], int thin) {
    static const int64_t order[] = {1, 2, 0};
    rng r = rng_stream(test_seed(), name);
    scenario s = {.name = name, .c = c};
    s.in = inputs_make_given(&c, &r, lengths[0], lengths[1], lengths[2]);
    s.want = outputs_make(&c, c.layout);
    s.got = outputs_make(&c, c.layout);
    fovea_context *scalar = context_of(FOVEA_ISA_SCALAR, 1, NULL);
    case_run(scalar, NULL, &c, s.in, s.want);
    fovea_context_destroy(scalar);
    int64_t ordinary = 0, all = c.desc.batch * c.desc.q_heads * c.desc.q_len * c.desc.value_dim;
    for (int64_t i = 0; i < all; i++)
        ordinary += ((const float *)s.want->out.data)[i] != 0 && isfinite(((const float *)s.want->out.data)[i]);
    test_check(ordinary > all / 2, "%s: only %" PRId64 " of %" PRId64 " outputs are ordinary numbers", name, ordinary,
               all);
    scenario other = reordered(&s, order);

    static const char *const positions[] = {"whole", "one by one", "reordered"};
    deck decks[MOST_TILES] = {{0, {0}}};
    int64_t number = 0, runs = 0;
    if (test_scaled(1000) < 1000)
        thin *= test_scaled(1000) < 50 && thin == 1 ? 35 : 7; /* emulated: fewer */
    for (int tile = 0; tile < tile_count; tile++)
        for (int t = 0; t < CONTEXTS; t++)
            for (int k = 0; k < 4; k++)
                for (int position = 0; position < 3; position++) {
                    const bool slow = chunks[k] == 1 && c.desc.q_len > 100; /* 500 steps: "decode" has them all */
                    if (number++ % (slow ? 7 * thin : thin) != 0)
                        continue;
                    const fv_attention_choice choice = choose(tile, &decks[tile], &r);
                    const bool growing = rng_below(&r, 2) && c.desc.causal == FOVEA_CAUSAL_OFFSET;
                    runs++;
                    const scenario *now = position == 2 ? &other : &s;
                    const int64_t batch = position == 1 ? 1 : c.desc.batch;
                    if (run_pieces(contexts[t].ctx, &choice, now, batch, chunks[k], growing))
                        outputs_same(now->got, now->want,
                                     "%s: %s, %s, blocks %" PRId64 ",%" PRId64 ",%" PRId64 ", %s, chunks of %" PRId64
                                     "%s, batch %s",
                                     name, choice.score->name, choice.value->name, choice.block_rows, choice.tile_rows,
                                     choice.split_segments, contexts[t].text, chunks[k],
                                     growing ? " with growing keys" : "", positions[position]);
                }
    printf("%s: %" PRId64 " ways to compute it\n", name, runs);
    inputs_free(s.in);
    inputs_free(other.in);
    outputs_free(s.want);
    outputs_free(s.got);
    outputs_free(other.want);
    outputs_free(other.got);
}

/* Values that differ in out, and the largest difference of value. */
static int64_t differing(const attention_case *c, const outputs *a, const outputs *b, double *largest) {
    const fovea_attention_desc *d = &c->desc;
    int64_t n = 0;
    *largest = 0;
    for (int64_t i = 0; i < d->batch * d->q_heads * d->q_len * d->value_dim; i++) {
        float x = ((const float *)a->out.data)[i], y = ((const float *)b->out.data)[i];
        n += float_bits(x) != float_bits(y);
        *largest = fmax(*largest, fabs((double)x - (double)y));
    }
    return n;
}

/* The controls. A key in front of all others that nobody sees leaves the sum as it is in real numbers, but moves every
 * key to another lane and some to another segment. */
static void check_controls(void) {
    attention_case c = case_plain(1, 2, 2, 40, 600, 32, 32), moved = c, scaled = c;
    rng r = rng_stream(test_seed(), "controls");
    moved.desc.kv_len++;
    moved.desc.mask = FOVEA_MASK_BOOLEAN;
    scaled.desc.has_scale = 1;
    scaled.desc.scale = (double)nextafterf((float)(1 / sqrt(32.0)), 1);
    inputs *in = inputs_make(&c, &r), *in_moved = inputs_make(&moved, &r);
    memset(in_moved->args.mask.data, 1, (size_t)(2 * 40 * 601));
    for (int64_t h = 0; h < 2; h++) {
        memcpy(tensor_row(&in_moved->args.q, 0, h, 0), tensor_row(&in->args.q, 0, h, 0), sizeof(float) * 40 * 32);
        memcpy(tensor_row(&in_moved->args.k, 0, h, 1), tensor_row(&in->args.k, 0, h, 0), sizeof(float) * 600 * 32);
        memcpy(tensor_row(&in_moved->args.v, 0, h, 1), tensor_row(&in->args.v, 0, h, 0), sizeof(float) * 600 * 32);
        for (int64_t i = 0; i < 40; i++)
            ((uint8_t *)in_moved->args.mask.data)[(h * 40 + i) * 601] = 0;
    }
    outputs *want = outputs_make(&c, LAYOUT_BHTD), *again = outputs_make(&c, LAYOUT_BHTD);
    outputs *got_moved = outputs_make(&moved, LAYOUT_BHTD), *got_scaled = outputs_make(&c, LAYOUT_BHTD);
    case_run(contexts[0].ctx, NULL, &c, in, want);
    case_run(contexts[0].ctx, NULL, &c, in, again);
    case_run(contexts[0].ctx, NULL, &moved, in_moved, got_moved);
    case_run(contexts[0].ctx, NULL, &scaled, in, got_scaled);

    double largest;
    int64_t all = 2 * 40 * 32, n = differing(&c, want, again, &largest);
    test_check(n == 0, "control: the same computed twice differs in %" PRId64 " values", n);
    n = differing(&c, want, got_moved, &largest);
    test_check(n > all / 4 && largest < 1e-5,
               "control: keys moved by one: %" PRId64 " of %" PRId64 " values differ, by %g", n, all, largest);
    n = differing(&c, want, got_scaled, &largest);
    test_check(n > all / 4 && largest < 1e-5, "control: scale + 1 ulp: %" PRId64 " of %" PRId64 " values differ, by %g",
               n, all, largest);
    inputs_free(in);
    inputs_free(in_moved);
    outputs_free(want);
    outputs_free(again);
    outputs_free(got_moved);
    outputs_free(got_scaled);
}

/* Three sequences of about 530 queries and keys: two whole segments and a bit. */
static void check_all(void) {
    static const int64_t causal_lengths[3][3] = {{0}, {0}, {0, 30, -7}};
    attention_case causal = case_plain(3, 2, 1, 530, 530, 4, 6);
    causal.desc.causal = FOVEA_CAUSAL_OFFSET;
    causal.q_offsets = causal.weights = true;
    check_scenario("causal, grouped heads", causal, causal_lengths, 1);

    static const int64_t ragged_lengths[3][3] = {{530, 300, 511}, {512, 600, 431}, {0, 77, -40}};
    attention_case ragged = case_plain(3, 1, 1, 530, 600, 17, 9);
    ragged.desc.window_left = 300;
    ragged.desc.window_right = 20;
    ragged.desc.mask = FOVEA_MASK_ADDITIVE;
    ragged.q_lens = ragged.kv_lens = ragged.q_offsets = ragged.weights = true;
    check_scenario("window, additive mask, lengths", ragged, ragged_lengths, 7);

    static const int64_t scattered_lengths[3][3] = {{0}, {0}, {0}};
    attention_case scattered = case_plain(3, 1, 1, 515, 515, 8, 33);
    scattered.desc.mask = FOVEA_MASK_BOOLEAN;
    scattered.mask_repeats[1] = true;
    check_scenario("boolean mask", scattered, scattered_lengths, 7);

    /* Few queries, so that single steps are tried with everything: at the edges of segments, and after many of them. */
    static const int64_t decode_lengths[3][3] = {{0}, {2000, 2000, 531}, {240, 1960, 492}};
    attention_case decode = case_plain(3, 2, 1, 40, 2000, 8, 8);
    decode.desc.causal = FOVEA_CAUSAL_OFFSET;
    decode.kv_lens = decode.q_offsets = decode.weights = true;
    check_scenario("decode", decode, decode_lengths, 1);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "promise", NULL);
    thread_pool *pools[4];
    for (int t = 0; t < 4; t++) {
        pools[t] = thread_pool_create(thread_counts[t]);
        contexts[t].ctx = context_of(FOVEA_ISA_BEST, thread_counts[t], pools[t]);
        snprintf(contexts[t].text, sizeof contexts[t].text, "%d threads", thread_counts[t]);
    }
    for (int t = 4; t < CONTEXTS; t++) {
        contexts[t].ctx = context_of(FOVEA_ISA_BEST, t - 3, NULL);
        snprintf(contexts[t].text, sizeof contexts[t].text, "%d default threads", t - 3);
    }
    list_tiles();
    check_controls();
    check_all();
    for (int t = 0; t < CONTEXTS; t++)
        fovea_context_destroy(contexts[t].ctx);
    for (int t = 0; t < 4; t++)
        thread_pool_destroy(pools[t]);
    return test_end();
}
