/* Keys piece by piece (fovea/state.h): the bits of one call.
 *
 * A random problem of every kind is computed by the scalar tier in one call. Then the tier under test computes it with
 * its keys cut, by plans with choices of their own:
 *     pieces    at every segment; at some; with one plan of the longest piece, and with a plan for each
 *     partials  each segment into a state of its own, in descending order; merged in ascending order, finished by a
 *               call without keys
 *     prefixes  each piece finishes, with sinks and without: what is written is the result of the keys so far
 * Further: pieces left out, copies, padding. Errors: test_state_errors.c. */
#include "attention_case.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEGMENT = 256 };

static case_contexts contexts;

/* A problem that a state can go through. */
static attention_case case_for_state(rng *r) {
    attention_case c = case_random(r, 400000);
    if (c.desc.causal == FOVEA_CAUSAL_BOTTOM_RIGHT)
        c.desc.causal = FOVEA_CAUSAL_TOP_LEFT;
    c.weights = false;
    case_random_scores(&c, r);
    return c;
}

/* Columns [first, first + n) of a mask or bias. */
static fovea_tensor columns(fovea_tensor t, int64_t first, int64_t n) {
    if (!t.data || t.shape[3] == 1)
        return t;
    const size_t size = t.dtype == FOVEA_DTYPE_BOOL ? 1 : sizeof(float);
    t.data = (char *)t.data + (size_t)(first * t.stride[3]) * size;
    t.shape[3] = n;
    return t;
}

static fovea_attention_plan *plan_of(const fovea_attention_desc *desc) {
    fovea_attention_plan *plan;
    check_status("plan", fovea_attention_plan_create(contexts.one, desc, &plan), FOVEA_OK, NULL);
    return plan;
}

static size_t state_size(const fovea_attention_desc *desc) {
    fovea_attention_plan *plan = plan_of(desc);
    const size_t size = fovea_attention_plan_state_size(plan);
    fovea_attention_plan_destroy(plan);
    return size;
}

/* A state in memory of just its size. */
static fovea_attention_state *state_of(const fovea_attention_plan *plan) {
    const size_t size = fovea_attention_plan_state_size(plan);
    void *memory = must_alloc((int64_t)size, 1);
    fovea_attention_state *state = NULL;
    memset(memory, 0xff, size);
    check_status("a state", fovea_attention_state_init(plan, memory, size, &state), FOVEA_OK, NULL);
    return state;
}

/* Keys [first, first + n) of a problem into a state; room of the plan for more of them. out NULL: does not finish. The
 * problem has a batch of at most 8. */
static bool run_piece(const fovea_context *ctx, const fv_attention_choice *choice, const attention_case *c,
                      const inputs *in, int64_t first, int64_t n, int64_t room, fovea_attention_state **state,
                      const outputs *out) {
    attention_case piece = *c;
    int64_t kv_lens[8];
    piece.desc.kv_len = room;
    static const fovea_tensor none;
    fovea_attention_args args = out ? case_args(in, out) : in->args;
    if (!out)
        args.out = args.lse = none;
    args.k = fovea_tensor_tokens(args.k, first, room);
    args.v = fovea_tensor_tokens(args.v, first, room);
    args.mask = columns(args.mask, first, room);
    args.bias = columns(args.bias, first, room);
    for (int64_t b = 0; b < c->desc.batch; b++) {
        const int64_t left = (in->kv_lens ? in->kv_lens[b] : c->desc.kv_len) - first;
        kv_lens[b] = left < 0 ? 0 : left < n ? left : n;
    }
    if (n < room || in->kv_lens)
        args.kv_lens = kv_lens;
    mask_words said = case_said(ctx, &piece, &args);
    args = said.args;
    fovea_attention_plan *plan;
    char text[512];
    if (!test_check(fv_attention_plan_create_chosen(ctx, &said.desc, choice, &plan) == FOVEA_OK, "plan: %s (%s)",
                    fovea_error_detail(), case_text(&piece, text, sizeof text)))
        return false;
    if (!*state)
        *state = state_of(plan);
    args.state = *state;
    args.first_key = first;
    const size_t size = fovea_attention_plan_workspace_size(plan);
    void *workspace = must_alloc((int64_t)size, 1);
    const fovea_status status = fovea_attention_execute(plan, &args, workspace, size);
    free(workspace);
    fovea_attention_plan_destroy(plan);
    mask_words_free(&said);
    return test_check(status == FOVEA_OK, "keys %" PRId64 " to %" PRId64 ": %s (%s)", first, first + n,
                      fovea_error_detail(), case_text(c, text, sizeof text));
}

static fv_attention_choice any_choice(const fovea_context *ctx, rng *r) {
    const fv_attention_choice planners = {0};
    return ctx == contexts.scalar ? planners : choice_random(r);
}

/* Cuts at every segment, or where it is drawn. */
static void check_pieces(const fovea_context *ctx, const attention_case *c, const inputs *in, const outputs *want,
                         bool all, rng *r) {
    const int64_t keys = c->desc.kv_len;
    fovea_attention_state *state = NULL;
    outputs *got = outputs_make(c, c->layout);
    char text[512];
    bool ok = true;
    for (int64_t first = 0, n; ok && (first == 0 || first < keys); first += n) {
        n = SEGMENT * (all ? 1 : rng_between(r, 1, 3));
        n = n < keys - first ? n : keys - first;
        const fv_attention_choice choice = any_choice(ctx, r);
        ok = run_piece(ctx, &choice, c, in, first, n, rng_below(r, 2) ? n : keys - first, &state,
                       first + n >= keys ? got : NULL);
        if (n == 0)
            break;
    }
    if (ok)
        outputs_same(got, want, "%s: %s", all ? "cut at every segment" : "cut at some segments",
                     case_text(c, text, sizeof text));
    outputs_free(got);
    free(state);
}

static void check_partials(const fovea_context *ctx, const attention_case *c, const inputs *in, const outputs *want,
                           rng *r) {
    enum { MOST = 8 };
    fovea_attention_state *part[MOST] = {NULL}, *state = NULL;
    const int64_t keys = c->desc.kv_len, count = (keys + SEGMENT - 1) / SEGMENT;
    outputs *got = outputs_make(c, c->layout);
    char text[512];
    bool ok = count <= MOST;
    for (int64_t i = count - 1; ok && i >= 0; i--) {
        const int64_t first = i * SEGMENT, n = keys - first < SEGMENT ? keys - first : SEGMENT;
        const fv_attention_choice choice = any_choice(ctx, r);
        ok = run_piece(ctx, &choice, c, in, first, n, n, &part[i], NULL);
    }
    for (int64_t i = 1; ok && i < count; i++)
        check_status("merge", fovea_attention_state_merge(part[0], part[i]), FOVEA_OK, NULL);
    if (ok && count) {
        const fv_attention_choice choice = any_choice(ctx, r);
        state = part[0];
        if (run_piece(ctx, &choice, c, in, 0, 0, rng_below(r, 2) ? 0 : keys, &state, got))
            outputs_same(got, want, "partials: %s", case_text(c, text, sizeof text));
    }
    for (int64_t i = 0; i < count && i < MOST; i++)
        free(part[i]);
    outputs_free(got);
}

static void test_random(void) {
    rng r = rng_stream(test_seed(), "random");
    int64_t ordinary = 0, several = 0;
    for (int64_t n = 0, cases = test_scaled(120); n < cases; n++) {
        attention_case c = case_for_state(&r);
        if (n % 4 == 0) /* a step of decoding, rows split over keys */
            c = case_plain(2, 6, 2, 1, rng_between(&r, 257, 1500), 16, 24), c.desc.causal = (fovea_causal)(n % 8 / 4);
        inputs *in = inputs_make(&c, &r);
        outputs *want = outputs_make(&c, c.layout);
        case_run(contexts.scalar, NULL, &c, in, want);
        several += c.desc.kv_len > SEGMENT;
        for (int64_t i = 0; i < c.desc.value_dim; i++)
            ordinary += isfinite(((const float *)want->out.data)[i]) && ((const float *)want->out.data)[i] != 0;
        const fovea_context *all[] = {contexts.one, contexts.three, contexts.scalar};
        check_pieces(all[n % 3], &c, in, want, true, &r);
        check_pieces(all[(n + 1) % 3], &c, in, want, false, &r);
        check_partials(all[n % 2], &c, in, want, &r);
        inputs_free(in);
        outputs_free(want);
    }
    test_check(several >= test_scaled(120) / 20 && several > 0 && ordinary > 3 * test_scaled(120) / 8,
               "%" PRId64 " cases are of several segments, %" PRId64 " outputs ordinary", several, ordinary);
}

/* Each thing that happens to scores and each kind of mask, alone: of these a mask, a bias and positions are the
 * piece's. */
static void test_each(void) {
    enum { RANDOM = 2 }; /* rounds with lengths */
    rng r = rng_stream(test_seed(), "each");
    for (int i = 0; i < CASE_FEATURES * RANDOM; i++) {
        attention_case c = case_plain(2, 4, 2, 70, 600, 12, 8);
        if (i >= CASE_FEATURES && !test_takes(i))
            continue;
        case_feature(&c, i % CASE_FEATURES);
        c.kv_lens = c.q_offsets = i >= CASE_FEATURES && c.desc.relative != FOVEA_RELATIVE_WINDOW_2D;
        inputs *in = inputs_make(&c, &r);
        outputs *want = outputs_make(&c, c.layout);
        case_run(contexts.scalar, NULL, &c, in, want);
        check_pieces(contexts.one, &c, in, want, true, &r);
        check_partials(contexts.three, &c, in, want, &r);
        inputs_free(in);
        outputs_free(want);
    }
}

/* Each piece writes what one call over the keys so far writes: sinks that one has merged are not in the
 * next. */
static void test_prefixes(void) {
    static const int64_t q_lens[] = {1, 40, 300};
    for (int n = 0; n < 6; n++) {
        attention_case c = case_plain(2, 4, 2, q_lens[n % 3], 900, 16, 20);
        rng r = rng_stream(test_seed(), "prefixes");
        c.desc.causal = n % 3 == 2 ? FOVEA_CAUSAL_TOP_LEFT : FOVEA_CAUSAL_NONE;
        c.desc.has_sinks = n / 3;
        inputs *in = inputs_make(&c, &r);
        outputs *want = outputs_make(&c, LAYOUT_ODD), *got = outputs_make(&c, LAYOUT_ODD);
        fovea_attention_state *state = NULL;
        for (int64_t first = 0; first < 900; first += SEGMENT) {
            const int64_t keys = first + SEGMENT < 900 ? SEGMENT : 900 - first, lens[2] = {first + keys, first + keys};
            inputs prefix = *in;
            prefix.args.kv_lens = lens;
            case_run(contexts.scalar, NULL, &c, &prefix, want);
            outputs_clear(got);
            run_piece(contexts.three, NULL, &c, in, first, keys, keys, &state, got);
            outputs_same(got, want, "%" PRId64 " queries, sinks %d, %" PRId64 " keys so far", c.desc.q_len,
                         c.desc.has_sinks, first + keys);
        }
        free(state);
        inputs_free(in);
        outputs_free(want);
        outputs_free(got);
    }
}

/* A piece that is left out is masked; a copy of a state goes on by itself. */
static void test_gap_and_copy(void) {
    attention_case c = case_plain(1, 2, 1, 30, 700, 8, 12);
    rng r = rng_stream(test_seed(), "gap");
    inputs *in = inputs_make(&c, &r);
    attention_case masked = c;
    masked.desc.mask = FOVEA_MASK_BOOLEAN;
    uint8_t mask[700];
    memset(mask, 1, sizeof mask);
    memset(mask + 250, 0, 512 - 250);
    inputs with = *in;
    with.args.mask = fovea_tensor_bhtd(mask, FOVEA_DTYPE_BOOL, 1, 1, 1, 700);
    outputs *want = outputs_make(&c, LAYOUT_BHTD), *got = outputs_make(&c, LAYOUT_BHTD);
    case_run(contexts.scalar, NULL, &masked, &with, want);
    fovea_attention_state *state = NULL;
    run_piece(contexts.one, NULL, &c, in, 0, 250, 250, &state, NULL);
    const size_t size = state_size(&c.desc);
    test_check(size >= 2 * 30 * 14 * sizeof(float) && size <= 2 * 30 * 14 * sizeof(float) + 256, "%zu bytes", size);
    fovea_attention_state *copy = must_alloc((int64_t)size, 1);
    memcpy(copy, state, size);
    for (int i = 0; i < 2; i++) {
        outputs_clear(got);
        run_piece(contexts.three, NULL, &c, in, 512, 188, 188, i ? &copy : &state, got);
        outputs_same(got, want, i ? "a copy" : "a gap");
    }
    free(copy);
    free(state);
    inputs_free(in);
    outputs_free(want);
    outputs_free(got);
}

/* Pieces with padding before and behind their keys. */
static void test_padded(void) {
    enum { KEYS = 600, DIM = 8, BEFORE = 7, ROOM = 300 };
    attention_case c = case_plain(1, 2, 1, 30, KEYS, DIM, DIM);
    rng r = rng_stream(test_seed(), "padded");
    c.desc.window_left = 100;
    c.q_offsets = true;
    const int64_t offset[] = {330}, starts[] = {BEFORE};
    inputs *in = inputs_make_given(&c, &r, NULL, NULL, offset);
    outputs *want = outputs_make(&c, LAYOUT_BHTD), *got = outputs_make(&c, LAYOUT_BHTD);
    case_run(contexts.scalar, NULL, &c, in, want);
    c.desc.kv_len = ROOM;
    fovea_attention_plan *plan = plan_of(&c.desc);
    fovea_attention_state *state = state_of(plan);
    for (int64_t first = 0; first < KEYS; first += SEGMENT) {
        static float k[ROOM * DIM], v[ROOM * DIM];
        const int64_t keys[] = {KEYS - first < SEGMENT ? KEYS - first : SEGMENT};
        poison_fill(k, ROOM * DIM);
        poison_fill(v, ROOM * DIM);
        memcpy(k + BEFORE * DIM, tensor_row(&in->args.k, 0, 0, first), (size_t)keys[0] * DIM * sizeof *k);
        memcpy(v + BEFORE * DIM, tensor_row(&in->args.v, 0, 0, first), (size_t)keys[0] * DIM * sizeof *v);
        fovea_attention_args args = case_args(in, got);
        args.k = fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, 1, 1, ROOM, DIM);
        args.v = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, 1, 1, ROOM, DIM);
        args.kv_starts = starts;
        args.kv_lens = keys;
        args.state = state;
        args.first_key = first;
        check_status("padded", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_OK, NULL);
    }
    outputs_same(got, want, "pieces with padding");
    fovea_attention_plan_destroy(plan);
    free(state);
    inputs_free(in);
    outputs_free(want);
    outputs_free(got);
}

/* A prefix that sequences share goes in once, for all their queries; then each goes on with keys of its own, by lengths
 * or packed. */
static void test_shared_prefix(void) {
    enum { BATCH = 3, HEADS = 4, PREFIX = 512, DIM = 12 };
    enum { LENGTHS, PACKED, ALONE, WAYS }; /* alone: packed, each with the prefix for itself */
    static const int64_t q_lens[] = {1, 5};
    for (int n = 0; n < 2 * WAYS; n++) {
        const int way = n % WAYS;
        const int64_t q_len = q_lens[n / WAYS], own = 70, keys = PREFIX + own, tokens = BATCH * q_len;
        attention_case c = case_plain(BATCH, HEADS, 2, q_len, keys, DIM, DIM);
        c.layout = LAYOUT_BTHD; /* queries of all sequences one after another */
        c.desc.causal = FOVEA_CAUSAL_OFFSET;
        c.q_offsets = c.kv_lens = true;
        const int64_t lens[] = {keys, PREFIX + 9, PREFIX + 33},
                      offsets[] = {keys - q_len, PREFIX + 9 - q_len, PREFIX + 30};
        rng r = rng_stream(test_seed(), "shared prefix");
        inputs *in = inputs_make_given(&c, &r, NULL, lens, offsets);
        for (int64_t b = 1; b < BATCH; b++)
            for (int64_t i = 0; i < 2 * PREFIX; i++) {
                const size_t row = DIM * sizeof(float);
                memcpy(tensor_row(&in->args.k, b, i % 2, i / 2), tensor_row(&in->args.k, 0, i % 2, i / 2), row);
                memcpy(tensor_row(&in->args.v, b, i % 2, i / 2), tensor_row(&in->args.v, 0, i % 2, i / 2), row);
            }
        outputs *want = outputs_make(&c, c.layout), *got = outputs_make(&c, c.layout);
        case_run(contexts.scalar, NULL, &c, in, want);

        fovea_attention_desc all = c.desc, rest = c.desc;
        all.batch = 1;
        all.q_len = tokens;
        all.kv_len = PREFIX;
        all.causal = FOVEA_CAUSAL_NONE;
        rest.packed = way != LENGTHS;
        rest.kv_len = rest.packed ? keys : own;
        fovea_attention_plan *plan = plan_of(&all), *after = plan_of(&rest);
        const int64_t left[BATCH] = {own, 9, 33}, prefixes[BATCH] = {PREFIX, PREFIX, PREFIX};
        const int64_t q_at[] = {0, q_len, 2 * q_len, 3 * q_len}, all_at[] = {0, keys, 2 * keys, 3 * keys};
        const int64_t kv_at[] = {0, keys, 2 * keys, 3 * keys - PREFIX};
        fovea_attention_args more = case_args(in, got);
        if (rest.packed) {
            more.q = fovea_tensor_bthd(more.q.data, FOVEA_DTYPE_F32, 1, tokens, HEADS, DIM);
            more.out = fovea_tensor_bthd(got->out.data, FOVEA_DTYPE_F32, 1, tokens, HEADS, DIM);
            more.lse = fovea_tensor_bthd(got->lse.data, FOVEA_DTYPE_F32, 1, tokens, HEADS, 1);
            more.k.shape[0] = more.v.shape[0] = 1;
            more.k.shape[2] = more.v.shape[2] = BATCH * keys;
            more.q_cu_seqlens = q_at;
            more.kv_cu_seqlens = all_at;
        }
        fovea_attention_args args = more;
        args.out.data = args.lse.data = NULL;
        args.kv_lens = prefixes;
        if (way != ALONE) {
            args.q = fovea_tensor_bthd(args.q.data, FOVEA_DTYPE_F32, 1, tokens, HEADS, DIM);
            args.k = fovea_tensor_tokens(args.k, 0, PREFIX);
            args.v = fovea_tensor_tokens(args.v, 0, PREFIX);
            args.k.shape[0] = args.v.shape[0] = 1;
            args.q_offsets = args.kv_lens = args.q_cu_seqlens = args.kv_cu_seqlens = NULL;
        }
        fovea_attention_stats stats;
        fovea_attention_stats_init(&stats);
        args.stats = &stats;
        args.state = more.state = state_of(way == ALONE ? after : plan);
        check_status("the prefix", fovea_attention_execute(way == ALONE ? after : plan, &args, NULL, 0), FOVEA_OK,
                     NULL);
        if (q_len == 1) /* rows of all sequences are one tile, so each segment is read once for each key head */
            test_check(stats.visited_tiles == 2 * PREFIX / SEGMENT * (way == ALONE ? BATCH : 1),
                       "a prefix, way %d: %" PRId64 " tiles", way, stats.visited_tiles);
        more.k = fovea_tensor_tokens(more.k, PREFIX, more.k.shape[2] - PREFIX);
        more.v = fovea_tensor_tokens(more.v, PREFIX, more.v.shape[2] - PREFIX);
        more.kv_lens = left;
        more.kv_cu_seqlens = rest.packed ? kv_at : NULL;
        more.first_key = PREFIX;
        check_status("the rest", fovea_attention_execute(after, &more, NULL, 0), FOVEA_OK, NULL);
        outputs_same(got, want, "a shared prefix, %" PRId64 " queries, way %d", q_len, way);
        fovea_attention_plan_destroy(plan);
        fovea_attention_plan_destroy(after);
        free(args.state);
        inputs_free(in);
        outputs_free(want);
        outputs_free(got);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "state", NULL);
    contexts = contexts_make();
    test_random();
    test_each();
    test_prefixes();
    test_gap_and_copy();
    test_padded();
    test_shared_prefix();
    contexts_free(&contexts);
    return test_end();
}
