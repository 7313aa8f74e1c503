/* Work split over keys: blocks of rows that would keep one thread busy alone are dealt to all, and no bit changes.
 *
 * Each problem is computed by the scalar tier on one thread, and by the tier under test on 1, 2, 3 and 5: padded,
 * packed, piece by piece into a state, and from pages of a caller's pool. Statistics tell that blocks were split where
 * they should be, and were not where each thread has as many as the others. Caches: test_paged_external.c. */
#include "attention/plan/plan.h"
#include "ragged.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNTS = 4, MOST = 4 };
static const int counts[COUNTS] = {1, 2, 3, 5};

static struct {
    fovea_context *ctx;
    thread_pool *threads;
} on[COUNTS];
static fovea_context *scalar;

typedef enum split { NONE, SOME } split;

typedef struct problem {
    const char *name;
    int64_t batch, q_heads, kv_heads, q_len, kv_len, dim;
    int64_t kv_lens[MOST]; /* 0: all are whole */
    int64_t window;        /* or 0 */
    int feature;           /* of case_feature(), or -1 */
    split expected[COUNTS];
} problem;

static const problem problems[] = {
    {"one sequence, one key head", 1, 8, 1, 1, 3000, 32, {0}, 0, -1, {NONE, SOME, SOME, SOME}},
    {"a few queries", 1, 3, 1, 5, 2900, 24, {0}, 0, -1, {NONE, SOME, SOME, SOME}},
    {"a few rows more", 1, 3, 1, 7, 1300, 16, {0}, 0, -1, {NONE, SOME, SOME, SOME}},
    {"three items", 3, 2, 1, 1, 1500, 16, {0}, 0, -1, {NONE, SOME, SOME, SOME}},
    {"seven items", 1, 7, 7, 1, 1700, 16, {0}, 0, -1, {NONE, SOME, SOME, SOME}},
    {"as many for each thread", 2, 15, 15, 1, 600, 16, {0}, 0, -1, {NONE, NONE, NONE, NONE}},
    {"a long one among short ones", 4, 4, 2, 1, 4000, 16, {100, 4000, 30, 700}, 0, -1, {NONE, SOME, SOME, SOME}},
    {"the same, some queries", 4, 4, 2, 3, 4000, 16, {100, 4000, 30, 700}, 0, -1, {NONE, SOME, SOME, SOME}},
    {"a window", 1, 2, 1, 2, 3000, 16, {0}, 1500, -1, {NONE, SOME, SOME, SOME}},
    {"an empty one", 3, 2, 1, 1, 2000, 16, {300, 1, 2000}, 0, -1, {NONE, SOME, SOME, SOME}},
    {"a mask", 2, 2, 1, 3, 2000, 16, {2000, 400}, 0, CASE_FEATURES - 1, {NONE, SOME, SOME, SOME}},
};

static attention_case case_of(const problem *p) {
    attention_case c = case_plain(p->batch, p->q_heads, p->kv_heads, p->q_len, p->kv_len, p->dim, p->dim + 8);
    c.desc.causal = p->q_len > 1 ? FOVEA_CAUSAL_BOTTOM_RIGHT : FOVEA_CAUSAL_NONE;
    c.kv_lens = p->kv_lens[0] > 0;
    if (p->window > 0)
        c.desc.window_left = p->window;
    if (p->feature >= 0) {
        case_feature(&c, p->feature);
        c.mask_density = 0.7f;
    }
    return c;
}

static int64_t run(const fovea_context *ctx, const fovea_attention_desc *d, fovea_attention_args *args, int i,
                   const char *what) {
    fovea_attention_stats stats;
    fovea_attention_stats_init(&stats);
    args->stats = &stats;
    fovea_status status = attention_once(ctx, d, args);
    test_check(status == FOVEA_OK, "%s, %d threads: %s", what, counts[i], fovea_error_detail());
    return stats.split_blocks;
}

static void check_split(const problem *p, int i, const char *how, int64_t blocks) {
    test_check((blocks > 0) == (p->expected[i] == SOME), "%s, %s, %d threads: %" PRId64 " blocks were split", p->name,
               how, counts[i], blocks);
}

static void check_padded(const problem *p, const attention_case *c, const inputs *in, const outputs *want, int i) {
    outputs *got = outputs_make(c, c->layout);
    fovea_attention_args args = case_args(in, got);
    mask_words said = case_said(on[i].ctx, c, &args);
    check_split(p, i, "padded", run(on[i].ctx, &said.desc, &said.args, i, p->name));
    outputs_same(got, want, "%s, padded, %d threads", p->name, counts[i]);
    mask_words_free(&said);
    outputs_free(got);
}

static void check_packed(const problem *p, const attention_case *c, const inputs *in, const outputs *want, int i,
                         rng *r) {
    ragged x;
    ragged_make(&x, PLACE_PACKED, c, in, 0, c->desc.batch, r);
    ragged_clear(&x);
    const int64_t blocks = run(on[i].ctx, &x.desc, &x.args, i, p->name);
    if (c->kv_lens || c->desc.batch == 1)
        check_split(p, i, "packed", blocks);
    ragged_check(&x, want, p->name);
    ragged_free(&x);
}

/* Keys before and behind a place into a state. */
static void check_state(const problem *p, const attention_case *c, const inputs *in, const outputs *want, int i) {
    enum { FIRST = 1024 };
    outputs *got = outputs_make(c, c->layout);
    fovea_attention_state *state = NULL;
    void *memory = NULL;
    for (int64_t at = 0, n = FIRST; at < c->desc.kv_len; at += n, n = c->desc.kv_len - FIRST) {
        fovea_attention_desc d = c->desc;
        fovea_attention_args args = case_args(in, got);
        fovea_attention_plan *plan;
        int64_t lens[MOST];
        const int64_t offset = c->desc.kv_len - c->desc.q_len;
        d.kv_len = n;
        d.causal = FOVEA_CAUSAL_OFFSET;
        args.q_offsets = &offset;
        args.k = fovea_tensor_tokens(args.k, at, n);
        args.v = fovea_tensor_tokens(args.v, at, n);
        if (!state) {
            test_check(fovea_attention_plan_create(on[i].ctx, &d, &plan) == FOVEA_OK, "%s", fovea_error_detail());
            const size_t size = fovea_attention_plan_state_size(plan);
            memory = must_alloc((int64_t)size, 1);
            test_check(fovea_attention_state_init(plan, memory, size, &state) == FOVEA_OK, "%s", fovea_error_detail());
            fovea_attention_plan_destroy(plan);
        }
        args.state = state;
        args.first_key = at;
        if (at + n < c->desc.kv_len)
            args.out.data = args.lse.data = NULL;
        lens[0] = n;
        args.kv_lens = lens;
        check_split(p, i, "state", run(on[i].ctx, &d, &args, i, p->name));
    }
    outputs_same(got, want, "%s, into a state, %d threads", p->name, counts[i]);
    free(memory);
    outputs_free(got);
}

/* [pages][heads][page_keys][channels], page after page of each sequence. */
static fovea_tensor pool_of(const fovea_tensor *t, int64_t page_keys, int64_t each) {
    const int64_t heads = t->shape[1], channels = t->shape[3];
    float *data = must_alloc(t->shape[0] * each * heads * page_keys * channels, sizeof *data);
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t key = 0; key < t->shape[2]; key++)
                memcpy(data + (((b * each + key / page_keys) * heads + h) * page_keys + key % page_keys) * channels,
                       tensor_row(t, b, h, key), (size_t)channels * sizeof *data);
    return fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, t->shape[0] * each, heads, page_keys, channels);
}

static void check_pages(const problem *p, const attention_case *c, const inputs *in, const outputs *want, int i,
                        int64_t page_keys) {
    enum { MOST_PAGES = MOST * 64 };
    const int64_t each = (c->desc.kv_len + page_keys - 1) / page_keys;
    outputs *got = outputs_make(c, c->layout);
    fovea_attention_desc d = c->desc;
    fovea_attention_args args = case_args(in, got);
    fovea_kv_pages pages;
    int32_t table[MOST_PAGES];
    int64_t lens[MOST];
    for (int n = 0; n < MOST_PAGES; n++)
        table[n] = n;
    for (int64_t b = 0; b < d.batch; b++)
        lens[b] = in->kv_lens ? in->kv_lens[b] : d.kv_len;
    fovea_kv_pages_init(&pages);
    pages.k = pool_of(&args.k, page_keys, each);
    pages.v = pool_of(&args.v, page_keys, each);
    pages.table = table;
    pages.table_stride = each;
    d.page_keys = page_keys;
    args.k.data = args.v.data = NULL;
    args.kv_lens = lens;
    args.pages = &pages;
    const int64_t blocks = run(on[i].ctx, &d, &args, i, p->name);
    if (c->kv_lens || d.batch == 1)
        check_split(p, i, "pages", blocks);
    outputs_same(got, want, "%s, pages of %d keys, %d threads", p->name, (int)page_keys, counts[i]);
    free(pages.k.data);
    free(pages.v.data);
    outputs_free(got);
}

/* Lists whose gaps hold the edges of what rows see by position. Only partial results that were written may be
 * merged. */
static void test_gaps(void) {
    enum { KEYS = 2048, ROWS = 2, DIM = 8 };
    static const fv_attention_choice splitting = {.split_segments = 1}, whole = {.split_segments = -1};
    static const int64_t blocks[] = {0, 14, 20, 0, 31}, offset = 20 * 64 - 1;
    int64_t starts[] = {0, 3, 5};
    rng r = rng_stream(test_seed(), "gaps");
    attention_case c = case_plain(1, 1, 1, ROWS, KEYS, DIM, DIM);
    inputs *in = inputs_make(&c, &r);
    c.desc.causal = FOVEA_CAUSAL_OFFSET;
    c.desc.mask = FOVEA_MASK_BLOCKS;
    c.desc.mask_block_rows = 1;
    c.desc.mask_block_keys = 64;
    for (int64_t window = -1; window < KEYS; window += 100) {
        outputs *want = outputs_make(&c, c.layout), *got = outputs_make(&c, c.layout);
        c.desc.window_left = window;
        for (int i = 0; i <= COUNTS; i++) {
            fovea_attention_args args = case_args(in, i ? got : want);
            fovea_attention_plan *plan;
            args.q_offsets = &offset;
            args.mask = fovea_tensor_bhtd(starts, FOVEA_DTYPE_I64, 1, 1, 1, ROWS + 1);
            args.mask_blocks = blocks;
            args.mask_block_count = sizeof blocks / sizeof blocks[0];
            test_check(fv_attention_plan_create_chosen(i ? on[i - 1].ctx : scalar, &c.desc, i ? &splitting : &whole,
                                                       &plan) == FOVEA_OK,
                       "%s", fovea_error_detail());
            const size_t size = fovea_attention_plan_workspace_size(plan);
            void *workspace = must_alloc((int64_t)size, 1);
            memset(workspace, 0xff, size); /* NaN */
            test_check(fovea_attention_execute(plan, &args, workspace, size) == FOVEA_OK, "%s", fovea_error_detail());
            if (i)
                outputs_same(got, want, "gaps, a window of %d, %d threads", (int)window, counts[i - 1]);
            free(workspace);
            fovea_attention_plan_destroy(plan);
        }
        outputs_free(want);
        outputs_free(got);
    }
    inputs_free(in);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "split_kv", NULL);
    scalar = context_of(FOVEA_ISA_SCALAR, 1, NULL);
    for (int i = 0; i < COUNTS; i++) {
        on[i].threads = thread_pool_create(counts[i]);
        on[i].ctx = context_of(FOVEA_ISA_BEST, counts[i], on[i].threads);
    }
    for (size_t n = 0; n < sizeof problems / sizeof problems[0]; n++) {
        const problem *p = &problems[n];
        rng r = rng_stream(test_seed(), p->name);
        const attention_case c = case_of(p);
        inputs *in = inputs_make_given(&c, &r, NULL, p->kv_lens, NULL);
        outputs *want = outputs_make(&c, c.layout);
        case_run(scalar, NULL, &c, in, want);
        for (int i = 0; i < COUNTS; i++) {
            check_padded(p, &c, in, want, i);
            if (p->feature < 0) {
                check_packed(p, &c, in, want, i, &r);
                check_pages(p, &c, in, want, i, n % 2 ? 256 : 100);
            }
            if (p->batch == 1 && p->feature < 0)
                check_state(p, &c, in, want, i);
        }
        outputs_free(want);
        inputs_free(in);
    }
    test_gaps();
    for (int i = 0; i < COUNTS; i++) {
        fovea_context_destroy(on[i].ctx);
        thread_pool_destroy(on[i].threads);
    }
    fovea_context_destroy(scalar);
    return test_end();
}
