/* Without sequences, heads or queries there is nothing to do, and nothing wrong: attention, packed or not, and the one
 * call succeed, with NULL for tensors that have no elements, and write nothing. Without keys, outputs are +0. */
#include "attention_case.h"
#include "guard.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static fovea_context *ctx;

/* Runs an attention whose tensors have no memory, or, if given, the memory at an address that may not be touched. */
static void check_attention(fovea_attention_desc d, void *memory, const char *text) {
    static const int64_t zeros[8] = {0};
    fovea_attention_plan *plan;
    check_status(text, fovea_attention_plan_create(ctx, &d, &plan), FOVEA_OK, NULL);
    if (!plan)
        return;
    const int64_t batch = d.packed ? 1 : d.batch;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(memory, FOVEA_DTYPE_F32, batch, d.q_heads, d.packed ? 0 : d.q_len, d.head_dim);
    args.k = fovea_tensor_bhtd(memory, FOVEA_DTYPE_F32, batch, d.kv_heads, d.packed ? 0 : d.kv_len, d.head_dim);
    args.v = fovea_tensor_bhtd(memory, FOVEA_DTYPE_F32, batch, d.kv_heads, d.packed ? 0 : d.kv_len, d.value_dim);
    args.out = fovea_tensor_bhtd(memory, FOVEA_DTYPE_F32, batch, d.q_heads, d.packed ? 0 : d.q_len, d.value_dim);
    args.lse = fovea_tensor_bhtd(memory, FOVEA_DTYPE_F32, batch, d.q_heads, d.packed ? 0 : d.q_len, 1);
    args.weights =
        fovea_tensor_bhtd(memory, FOVEA_DTYPE_F32, batch, d.q_heads, d.packed ? 0 : d.q_len, d.packed ? 0 : d.kv_len);
    fovea_attention_scores scores;
    fovea_attention_summary summary;
    fovea_attention_scores_init(&scores);
    fovea_attention_summary_init(&summary);
    scores.out = args.weights;
    summary.entropy = summary.max_weight = summary.top_keys = summary.top_weights = args.lse;
    summary.top_keys.dtype = FOVEA_DTYPE_I64;
    args.scores = &scores;
    args.summary = &summary;
    if (d.mask == FOVEA_MASK_ADDITIVE)
        args.mask = args.weights;
    args.q_cu_seqlens = args.kv_cu_seqlens = d.packed ? zeros : NULL;
    check_status(text, fovea_attention_execute(plan, &args, NULL, 0), FOVEA_OK, NULL);
    const size_t size = fovea_attention_plan_workspace_size(plan);
    guard *workspace = guard_alloc("workspace", size, GUARD_END);
    check_status(text, fovea_attention_execute(plan, &args, workspace->data, size), FOVEA_OK, NULL);
    guard_free(workspace);
    char description[1024];
    test_check(fovea_attention_plan_describe(plan, description, sizeof description) > 0, "%s: no description", text);
    args.q.shape[3]++;
    if (memory)
        check_status(text, fovea_attention_execute(plan, &args, NULL, 0), FOVEA_ERROR_SHAPE, "q: channel");
    fovea_attention_plan_destroy(plan);
}

static void test_attention(void) {
    static const struct {
        int64_t batch, q_heads, kv_heads, q_len, kv_len;
        const char *text;
    } cases[] = {{0, 4, 2, 5, 6, "no sequences"},  {3, 0, 0, 5, 6, "no heads"}, {3, 0, 2, 5, 6, "no query heads"},
                 {3, 4, 2, 0, 6, "no queries"},    {0, 0, 0, 0, 0, "nothing"},  {7, 4, 4, 0, 0, "no queries, no keys"},
                 {0, 8, 1, 1, 5000, "no decoding"}};
    guard *nothing = guard_alloc("nothing", 0, GUARD_START);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int kind = 0; kind < 4; kind++) {
            attention_case c =
                case_plain(cases[i].batch, cases[i].q_heads, cases[i].kv_heads, cases[i].q_len, cases[i].kv_len, 8, 12);
            c.desc.causal = kind == 1                        ? FOVEA_CAUSAL_BOTTOM_RIGHT
                            : kind == 2 && c.desc.batch == 0 ? FOVEA_CAUSAL_OFFSET /* of no sequences */
                                                             : FOVEA_CAUSAL_NONE;
            c.desc.mask = kind == 2 ? FOVEA_MASK_ADDITIVE : FOVEA_MASK_NONE;
            c.desc.packed = kind == 3;
            check_attention(c.desc, NULL, cases[i].text);
            check_attention(c.desc, nothing->data, cases[i].text);
        }
    attention_case c = case_plain(5, 4, 2, 3, 7, 8, 12); /* sequences of which none has a token */
    c.desc.packed = 1;
    check_attention(c.desc, NULL, "packed, no tokens");
    c.desc.kv_len = 0;
    check_attention(c.desc, NULL, "packed, no tokens, no keys");
    guard_free(nothing);

    c = case_plain(1, 4, 0, 3, 7, 8, 12);
    fovea_attention_plan *plan;
    check_status("heads without keys", fovea_attention_plan_create(ctx, &c.desc, &plan), FOVEA_ERROR_SHAPE,
                 "q_heads 4|kv_heads 0");
}

/* With each feature, too: its operands have no elements either, or, a prepared mask, none to say. */
static void check_feature(attention_case c, int feature, const char *text) {
    static const int64_t zeros[8] = {0};
    static const float sinks[8] = {0};
    fovea_attention_plan *plan;
    fovea_mask *mask = NULL;
    case_feature(&c, feature);
    fovea_attention_desc d = c.desc;
    if (c.say_mask != FOVEA_MASK_NONE)
        d.mask = c.say_mask;
    d.mask_block_rows = d.mask_block_keys = 2;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q_cu_seqlens = args.kv_cu_seqlens = d.packed ? zeros : NULL;
    if (d.has_sinks && d.q_heads > 0)
        args.sinks = sinks;
    if (d.mask == FOVEA_MASK_PREPARED) {
        fovea_mask_desc m;
        fovea_mask_desc_init(&m);
        m.kind = feature % 2 ? FOVEA_MASK_BITS : FOVEA_MASK_RANGES;
        m.batch = d.packed ? 1 : d.batch;
        m.q_heads = d.q_heads;
        m.q_len = d.packed ? 0 : d.q_len;
        m.kv_len = d.packed ? 0 : d.kv_len;
        check_status(text, fovea_mask_create(ctx, &m, &mask), FOVEA_OK, NULL);
        args.prepared = mask;
    }
    fovea_attention_stats stats;
    fovea_attention_stats_init(&stats);
    args.stats = &stats;
    check_status(text, fovea_attention_plan_create(ctx, &d, &plan), FOVEA_OK, NULL);
    check_status(text, fovea_attention_execute(plan, &args, NULL, 0), FOVEA_OK, NULL);
    test_check(stats.visited_tiles == 0 && stats.full_tiles == 0, "%s: visits a tile", text);
    fovea_attention_plan_destroy(plan);
    fovea_mask_destroy(mask);
}

static void test_features(void) {
    static const struct {
        int64_t batch, q_heads, kv_heads, q_len, kv_len;
        const char *text;
    } cases[] = {{0, 4, 2, 5, 6, "no sequences"},
                 {3, 0, 0, 5, 6, "no heads"},
                 {3, 0, 2, 5, 6, "no query heads"},
                 {3, 4, 2, 0, 6, "no queries"},
                 {0, 0, 0, 0, 0, "nothing"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int feature = 0; feature < CASE_FEATURES; feature++)
            for (int packed = 0; packed < 2; packed++) {
                char text[80];
                snprintf(text, sizeof text, "%s%s, feature %d", cases[i].text, packed ? ", packed" : "", feature);
                attention_case c = case_plain(cases[i].batch, cases[i].q_heads, cases[i].kv_heads, cases[i].q_len,
                                              cases[i].kv_len, 8, 12);
                c.desc.packed = packed;
                check_feature(c, feature, text);
            }
}

/* A mask without elements is not read, and nobody looks at its strides. */
static void check_mask(fovea_mask_kind kind, const int64_t sizes[4], const int64_t strides[4], void *nowhere) {
    const bool lists = kind == FOVEA_MASK_BLOCKS, padding = kind == FOVEA_MASK_KEY_PADDING;
    attention_case c = case_plain(sizes[0], sizes[1], sizes[1], sizes[2], sizes[3], 8, 12);
    fovea_mask_desc m;
    fovea_mask_desc_init(&m);
    m.kind = c.desc.mask = kind;
    m.batch = sizes[0];
    m.q_heads = sizes[1];
    m.q_len = sizes[2];
    m.kv_len = sizes[3];
    m.block_rows = m.block_keys = c.desc.mask_block_rows = c.desc.mask_block_keys = 2;
    m.mask = (fovea_tensor){nowhere,
                            lists || kind == FOVEA_MASK_RANGES ? FOVEA_DTYPE_I64
                            : kind == FOVEA_MASK_BITS          ? FOVEA_DTYPE_BITS
                                                               : FOVEA_DTYPE_BOOL,
                            {sizes[0], padding ? 1 : sizes[1], padding || lists ? 1 : sizes[2],
                             lists                       ? (sizes[2] + 1) / 2 + 1
                             : kind == FOVEA_MASK_RANGES ? 4
                             : kind == FOVEA_MASK_BITS   ? (sizes[3] + 7) / 8
                                                         : sizes[3]},
                            {strides[0], strides[1], strides[2], strides[3]},
                            NULL};
    const int64_t *shape = m.mask.shape;
    if (shape[0] > 0 && shape[1] > 0 && shape[2] > 0 && shape[3] > 0)
        return;
    fovea_mask *mask;
    check_status("a mask without elements", fovea_mask_create(ctx, &m, &mask), FOVEA_OK, NULL);
    fovea_mask_destroy(mask);
    if (sizes[3] == 0) /* there are rows to write */
        return;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.mask = m.mask;
    check_status("execution with it", attention_once(ctx, &c.desc, &args), FOVEA_OK, NULL);
}

static void test_masks(void) {
    static const int64_t sizes[][4] = {{0, 4, 5, 6},
                                       {3, 0, 5, 6},
                                       {3, 4, 0, 6},
                                       {3, 4, 5, 0},
                                       {(int64_t)1 << 40, 0, 5, 6},
                                       {(int64_t)1 << 40, 4, 0, 6}};
    static const int64_t strides[][4] = {{0, 0, 0, 0}, {0, 0, 0, 1}, {INT64_MIN, -1, INT64_MAX, 7}};
    guard *nowhere = guard_alloc("mask", 0, GUARD_START);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int kind = FOVEA_MASK_BOOLEAN; kind <= FOVEA_MASK_BLOCKS; kind++)
            for (int s = 0; s < 3 && kind != FOVEA_MASK_ADDITIVE; s++)
                check_mask((fovea_mask_kind)kind, sizes[i], strides[s], nowhere->data);
    guard_free(nowhere);
}

/* No sequences have no pages. */
static void test_pages(void) {
    attention_case c = case_plain(0, 4, 2, 3, 7, 8, 12);
    fovea_attention_args args;
    fovea_kv_pages pages;
    c.desc.page_keys = 16;
    fovea_attention_args_init(&args);
    fovea_kv_pages_init(&pages);
    args.pages = &pages;
    check_status("no sequences in pages", attention_once(ctx, &c.desc, &args), FOVEA_OK, NULL);
}

/* No queries of sequences that have pages: the workspace has room for their tables. */
static void test_no_queries(bool cached) {
    enum { BATCH = 5, KEYS = 700, HEADS = 2, DIM = 4 };
    static float keys[BATCH * HEADS * KEYS * DIM];
    static const int32_t table[BATCH * KEYS];
    static const int64_t lens[BATCH] = {KEYS, KEYS, 0, 1, KEYS};
    attention_case c = case_plain(BATCH, 4, HEADS, 0, KEYS, DIM, DIM);
    fovea_attention_plan *plan;
    fovea_attention_args args;
    fovea_kv_pages pages;
    fovea_kv_cache *cache = NULL;
    int64_t sequences[BATCH];
    c.desc.page_keys = cached ? FOVEA_KV_PAGE_KEYS : 1;
    fovea_attention_args_init(&args);
    if (cached) {
        fovea_kv_cache_desc d;
        fovea_kv_append_args append;
        fovea_kv_cache_desc_init(&d);
        d.kv_heads = HEADS;
        d.head_dim = d.value_dim = DIM;
        d.max_pages = 3 * BATCH;
        check_status("a cache", fovea_kv_cache_create(ctx, &d, &cache), FOVEA_OK, NULL);
        for (int i = 0; i < BATCH; i++)
            check_status("a sequence", fovea_kv_cache_add(cache, &sequences[i]), FOVEA_OK, NULL);
        fovea_kv_append_args_init(&append);
        append.count = BATCH;
        append.sequences = sequences;
        append.lens = lens;
        append.k = append.v = fovea_tensor_bhtd(keys, FOVEA_DTYPE_F32, BATCH, HEADS, KEYS, DIM);
        check_status("keys", fovea_kv_cache_append(cache, &append), FOVEA_OK, NULL);
        check_status("evicted", fovea_kv_cache_evict(cache, sequences[0], 3, 600), FOVEA_OK, NULL);
        args.cache = cache;
        args.cache_sequences = sequences;
    } else {
        fovea_kv_pages_init(&pages);
        pages.k = pages.v = fovea_tensor_bhtd(keys, FOVEA_DTYPE_F32, 1, HEADS, 1, DIM);
        pages.table = table;
        pages.table_stride = KEYS;
        args.pages = &pages;
        args.kv_lens = lens;
    }
    check_status("no queries", fovea_attention_plan_create(ctx, &c.desc, &plan), FOVEA_OK, NULL);
    const size_t size = fovea_attention_plan_workspace_size(plan);
    guard *workspace = guard_alloc("workspace", size, GUARD_END);
    check_status("no queries", fovea_attention_execute(plan, &args, workspace->data, size), FOVEA_OK, NULL);
    guard_free(workspace);
    fovea_attention_plan_destroy(plan);
    fovea_kv_cache_destroy(cache);
}

/* Queries without keys: the operands that have a column for each key have no elements, and rows are empty, or have
 * their sink alone. */
static void check_keyless(int feature, bool packed) {
    enum { BATCH = 2, HEADS = 4, ROWS = 3, DIM = 8, VALUES = 12, ALL = BATCH * HEADS * ROWS };
    static const float sinks[HEADS] = {0.5F, -3, 0, 7};
    static const int64_t q_ends[] = {0, ROWS, 2 * ROWS}, kv_ends[] = {0, 0, 0};
    float q[ALL * DIM], out[ALL * VALUES], lse[ALL];
    attention_case c = case_plain(BATCH, HEADS, 2, ROWS, 0, DIM, VALUES);
    case_feature(&c, feature);
    c.desc.packed = packed;
    c.desc.mask = c.say_mask;
    c.desc.mask_block_rows = c.desc.mask_block_keys = 2;
    fovea_mask *mask = NULL;
    fovea_attention_plan *plan;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    const int64_t batch = packed ? 1 : BATCH, rows = packed ? BATCH * ROWS : ROWS;
    args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, batch, HEADS, rows, DIM);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, batch, HEADS, rows, VALUES);
    args.lse = fovea_tensor_bhtd(lse, FOVEA_DTYPE_F32, batch, HEADS, rows, 1);
    args.q_cu_seqlens = packed ? q_ends : NULL;
    args.kv_cu_seqlens = packed ? kv_ends : NULL;
    args.sinks = c.desc.has_sinks ? sinks : NULL;
    if (c.desc.mask == FOVEA_MASK_PREPARED) {
        fovea_mask_desc m;
        fovea_mask_desc_init(&m);
        m.kind = FOVEA_MASK_BOOLEAN;
        m.batch = batch;
        m.q_heads = HEADS;
        m.q_len = rows;
        check_status("a mask without keys", fovea_mask_create(ctx, &m, &mask), FOVEA_OK, NULL);
        args.prepared = mask;
    }
    poison_fill(q, ALL * DIM);
    poison_fill(out, ALL * VALUES);
    poison_fill(lse, ALL);
    check_status("no keys", fovea_attention_plan_create(ctx, &c.desc, &plan), FOVEA_OK, NULL);
    check_status("no keys", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_OK, NULL);
    int64_t wrong = 0;
    for (int64_t i = 0; i < ALL * VALUES; i++)
        wrong += float_bits(out[i]) != 0;
    for (int64_t i = 0; i < ALL; i++)
        wrong += lse[i] != (c.desc.has_sinks ? sinks[i / rows % HEADS] : -INFINITY);
    test_check(wrong == 0, "no keys, feature %d%s: %" PRId64 " results are wrong", feature, packed ? ", packed" : "",
               wrong);
    fovea_attention_plan_destroy(plan);
    fovea_mask_destroy(mask);
}

static void test_one_call(void) {
    static const int64_t sizes[][5] = {{0, 4, 2, 5, 6}, {2, 0, 0, 5, 6}, {2, 4, 2, 0, 6}, {0, 0, 0, 0, 0}};
    for (int i = 0; i < 4; i++)
        for (int again = 0; again < 2; again++)
            check_status("one call",
                         fovea_sdpa_f32(NULL, NULL, NULL, NULL, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3],
                                        sizes[i][4], 8, 8, FOVEA_CAUSAL_TOP_LEFT),
                         FOVEA_OK, NULL);
    float q[16] = {1}, out[16];
    out[0] = out[15] = 7;
    check_status("no keys", fovea_sdpa_f32(q, NULL, NULL, out, 1, 2, 1, 2, 0, 4, 4, FOVEA_CAUSAL_NONE), FOVEA_OK, NULL);
    test_check(out[0] == 0 && out[15] == 0, "no keys: out is not +0");
}

/* No keys are no bytes: they may be anywhere, within an output too. */
static void test_no_keys(void) {
    float q[8] = {0}, out[12];
    attention_case c = case_plain(1, 1, 1, 2, 0, 4, 6);
    fovea_attention_plan *plan;
    test_check(fovea_attention_plan_create(ctx, &c.desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, 1, 1, 2, 4);
    args.k = fovea_tensor_bhtd(out + 5, FOVEA_DTYPE_F32, 1, 1, 0, 4);
    args.v = fovea_tensor_bhtd(out + 11, FOVEA_DTYPE_F32, 1, 1, 0, 6);
    for (int i = 0; i < 4; i++) { /* nobody looks at the strides of what has no elements */
        args.k.stride[i] = i % 2 ? INT64_MIN : INT64_MAX;
        args.v.stride[i] = -1;
    }
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, 2, 6);
    poison_fill(out, 12);
    check_status("no keys, within out", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_OK, NULL);
    for (int i = 0; i < 12; i++)
        test_check(float_bits(out[i]) == 0, "no keys, within out: out[%d] is %g", i, (double)out[i]);
    fovea_attention_plan_destroy(plan);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "empty_problems", NULL);
    for (int threads = 1; threads <= 2; threads++) {
        ctx = context_of(FOVEA_ISA_BEST, threads, NULL);
        test_attention();
        test_features();
        test_masks();
        test_pages();
        test_no_queries(false);
        test_no_queries(true);
        for (int feature = 0; feature < 2 * CASE_FEATURES; feature++)
            check_keyless(feature / 2, feature % 2);
        test_no_keys();
        fovea_context_destroy(ctx);
    }
    test_one_call();
    return test_end();
}
