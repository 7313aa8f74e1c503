/* Masks of all kinds: the same visibility, said as each kind and prepared, gives the bits of the boolean mask on the
 * scalar tier; what no row sees is not read; tiles that are visited are those that arithmetic says. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "attention/plan/plan.h"
#include "attention_case.h"
#include "guard.h"
#include "mask_words.h"
#include "reference.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static case_contexts contexts;

/* ------------------------------------------------------------------------------------------------------ patterns -- */

typedef enum pattern {
    DOCUMENTS, /* of uneven lengths, one after another */
    PREFIX,    /* a prefix that all see, causal behind it */
    CHUNKS,    /* causal within chunks of 100 keys */
    TREE,      /* a prompt, and drafted tokens that see their ancestors */
    GLOBAL,    /* the first keys and a window */
    TILES,     /* a chessboard of 64 x 128 */
    PADDING,   /* keys at both ends and some in the middle are padding */
    SCATTERED, /* one key in three */
    GAPS,      /* every seventh row sees nothing, the others everything */
    UPSIDE,    /* the last rows see the first keys */
    EMPTY,     /* nothing */
    ALL,       /* everything */
    PATTERNS
} pattern;

static const char *const pattern_names[] = {"documents", "prefix",    "chunks", "tree",   "global", "tiles",
                                            "padding",   "scattered", "gaps",   "upside", "empty",  "all"};

static bool sees(pattern p, int64_t h, int64_t i, int64_t j, int64_t keys) {
    static const int64_t ends[] = {37, 256, 300, 555, 700, 701, 900, INT64_MAX};
    int64_t a = 0, b = 0;
    switch (p) {
    case DOCUMENTS:
        while (i >= ends[a])
            a++;
        while (j >= ends[b])
            b++;
        return a == b;
    case PREFIX: return j <= i || j < 77;
    case CHUNKS: return j <= i && j / 100 == i / 100;
    case TREE: /* the parent of drafted token t is (t - 1) / 2 */
        if (j < keys / 2)
            return true;
        for (a = i % (keys - keys / 2); a > 0 && a != j - keys / 2;)
            a = (a - 1) / 2;
        return a == j - keys / 2;
    case GLOBAL: return j < 5 || (j <= i && i - j < 40);
    case TILES: return (i / 64 + j / 128 + h) % 2 == 0;
    case PADDING: return j >= 3 && j < keys - 2 && (j < 260 || j >= 520);
    case SCATTERED: return (i * 7 + j * 5 + h) % 3 == 0;
    case GAPS: return i % 7 != 3;
    case UPSIDE: return j < keys - i;
    case EMPTY: return false;
    default: return true;
    }
}

static void write_pattern(pattern p, const inputs *in, int64_t keys) {
    const fovea_tensor *m = &in->args.mask;
    for (int64_t h = 0; h < m->shape[1]; h++)
        for (int64_t i = 0; i < m->shape[2]; i++)
            for (int64_t j = 0; j < m->shape[3]; j++)
                ((uint8_t *)m->data)[h * m->stride[1] + i * m->stride[2] + j] =
                    (uint8_t)(sees(p, h, i, j, keys) ? 1 + (i + j) % 255 : 0);
}

/* ---------------------------------------------------------------------------------------------------------- bits -- */

/* Runs a problem whose boolean mask is said as a kind. */
static bool run_as(const fovea_context *ctx, const fv_attention_choice *choice, const attention_case *c,
                   const inputs *in, fovea_mask_kind kind, fovea_mask_kind inner, const int64_t block[2], outputs *out,
                   fovea_attention_stats *stats) {
    mask_words w;
    fovea_attention_plan *plan = NULL;
    fovea_attention_args args = case_args(in, out);
    mask_words_make(&w, ctx, &c->desc, &args, kind, inner, block);
    w.args.stats = stats;
    outputs_clear(out);
    fovea_status status = fv_attention_plan_create_chosen(ctx, &w.desc, choice, &plan);
    if (status == FOVEA_OK)
        status = fovea_attention_execute(plan, &w.args, NULL, 0);
    fovea_attention_plan_destroy(plan);
    mask_words_free(&w);
    return test_check(status == FOVEA_OK, "kind %d: %s", (int)kind, fovea_error_detail());
}

/* starts: of queries and keys, where there is one sequence; NULL: none. */
static void check_pattern(pattern p, const attention_case *c, rng *r, const int64_t *starts) {
    static const fovea_mask_kind kinds[] = {FOVEA_MASK_BOOLEAN, FOVEA_MASK_BITS, FOVEA_MASK_KEY_PADDING,
                                            FOVEA_MASK_RANGES, FOVEA_MASK_BLOCKS};
    static const int64_t ones[] = {1, 1}, tiles[] = {64, 128};
    const fovea_context *all[] = {contexts.scalar, contexts.one, contexts.own, contexts.three, contexts.many};
    const fv_attention_choice plain = {0};
    inputs *in = inputs_make(c, r);
    outputs *want = outputs_make(c, c->layout), *got = outputs_make(c, c->layout);
    if (p < PATTERNS)
        write_pattern(p, in, c->desc.kv_len);
    in->args.q_starts = starts;
    in->args.kv_starts = starts ? starts + 1 : NULL;
    run_as(contexts.scalar, &plain, c, in, FOVEA_MASK_BOOLEAN, 0, ones, want, NULL);
    for (int k = 0; k < 10; k++) {
        const fovea_mask_kind kind = kinds[k / 2];
        if (!mask_words_can(&in->args, kind))
            continue;
        const int64_t *block = p == TILES && kind == FOVEA_MASK_BLOCKS ? tiles : ones;
        const fv_attention_choice choice = rng_below(r, 2) ? choice_random(r) : plain;
        const fovea_context *ctx = all[choice.score ? 1 : rng_below(r, 5)];
        run_as(ctx, &choice, c, in, k % 2 ? FOVEA_MASK_PREPARED : kind, kind, block, got, NULL);
        char text[512];
        outputs_same(got, want, "%s as kind %d%s: %s", p < PATTERNS ? pattern_names[p] : "random", (int)kind,
                     k % 2 ? ", prepared" : "", case_text(c, text, sizeof text));
    }
    inputs_free(in);
    outputs_free(want);
    outputs_free(got);
}

static void test_patterns(void) {
    static const int64_t shapes[][2] = {{1, 700}, {70, 70}, {300, 300}, {129, 600}, {700, 700}},
                         starts[][2] = {{5, 13}, {0, 256}, {20, 70}};
    int64_t large = 0;
    for (int p = 0; p < PATTERNS; p++)
        for (int n = 0; n < 5; n++) {
            rng r = rng_stream(test_seed(), pattern_names[p]);
            attention_case c = case_plain(1, 2, n % 2 ? 2 : 1, shapes[n][0], shapes[n][1], 8, 5);
            c.desc.mask = FOVEA_MASK_BOOLEAN;
            c.weights = n % 2 == 0;
            c.layout = (case_layout)(n % LAYOUT_COUNT);
            c.mask_repeats[1] = p != TILES && n != 3;
            c.mask_repeats[2] = p == PADDING;
            c.desc.causal = n == 4 ? FOVEA_CAUSAL_BOTTOM_RIGHT : FOVEA_CAUSAL_NONE;
            c.kv_lens = n == 3;
            if (test_takes(large++))
                check_pattern((pattern)p, &c, &r, NULL);
            for (int i = 0; i < 3 && n > 1 && !c.kv_lens; i++)
                if (test_takes(large++))
                    check_pattern((pattern)p, &c, &r, starts[i]);
        }
}

static void test_random(void) {
    for (int64_t n = 0, count = test_scaled(60); n < count; n++) {
        char name[32];
        snprintf(name, sizeof name, "kinds %" PRId64, n);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, 200000);
        if (c.desc.kv_len == 0)
            continue;
        c.desc.mask = FOVEA_MASK_BOOLEAN;
        c.say_mask = FOVEA_MASK_NONE;
        check_pattern(PATTERNS, &c, &r, NULL);
    }
}

/* --------------------------------------------------------------------------------------------------------- tiles -- */

enum { ROWS = 32 }; /* of a tile at most; a block has at most four */

/* Tiles of some rows and a segment of 256 keys, counted pair by pair: those in which a row sees a key, in which each
 * sees all, and all. */
typedef struct tiles {
    int64_t visited, full, all;
} tiles;

/* Blocks are of equal parts of at most 4 ROWS rows, and so are tiles of a block: of all rows of a key head, its query
 * heads one after another, or, where positions limit what many queries see, of each query head. */
static tiles count_tiles(const attention_case *c, const inputs *in) {
    const fovea_attention_desc *d = &c->desc;
    const bool limited = d->causal != FOVEA_CAUSAL_NONE || d->window_left >= 0 || d->window_right >= 0;
    const int64_t group = d->q_heads / d->kv_heads, heads = limited && d->q_len >= 192 ? 1 : group; /* of a part */
    const int64_t rows = heads * d->q_len, blocks = (rows + 4 * ROWS - 1) / (4 * ROWS),
                  block = (rows + blocks - 1) / blocks;
    tiles n = {0, 0, 0};
    for (int64_t at = 0; at < d->batch * d->q_heads / heads; at++)
        for (int64_t first = 0; first < rows; first += block) {
            const int64_t b = at * heads / d->q_heads, kv_len = in->args.kv_lens ? in->args.kv_lens[b] : d->kv_len;
            const int64_t count = first + block < rows ? block : rows - first, parts = (count + ROWS - 1) / ROWS;
            for (int64_t t = 0, row = first; t < parts; t++) {
                const int64_t end = row + count / parts + (t < count % parts);
                for (int64_t s = 0; s < kv_len; s += 256, n.all++) {
                    bool any = false, every = true;
                    for (int64_t i = row; i < end; i++)
                        for (int64_t j = s; j < s + 256 && j < kv_len; j++) {
                            const bool sees = reference_attends(d, &in->args, b, at * heads % d->q_heads + i / d->q_len,
                                                                i % d->q_len, j);
                            any = any || sees;
                            every = every && sees;
                        }
                    n.visited += any;
                    n.full += every;
                }
                row = end;
            }
        }
    return n;
}

/* The counts of a call of a problem whose boolean mask, if there is one, is said as a kind. */
static void check_count(const attention_case *c, const inputs *in, fovea_mask_kind kind, fovea_mask_kind inner,
                        bool split, const char *text) {
    outputs *out = outputs_make(c, LAYOUT_BHTD);
    const fv_attention_choice choice = {.block_rows = 4 * ROWS, .tile_rows = ROWS, .split_segments = split ? 1 : -1};
    fovea_attention_stats stats;
    fovea_attention_stats_init(&stats);
    stats.full_tiles = 77;
    run_as(contexts.own, &choice, c, in, kind, inner, (int64_t[]){1, 1}, out, &stats);
    const tiles want = count_tiles(c, in);
    test_check(stats.visited_tiles == want.visited && stats.visited_tiles + stats.skipped_tiles == want.all,
               "%s as kind %d: %" PRId64 " tiles visited and %" PRId64 " skipped, instead of %" PRId64 " of %" PRId64,
               text, (int)kind, stats.visited_tiles, stats.skipped_tiles, want.visited, want.all);
    test_check(stats.full_tiles == want.full, "%s as kind %d: %" PRId64 " full tiles instead of %" PRId64, text,
               (int)kind, stats.full_tiles, want.full);
    outputs_free(out);
}

static void check_stats(pattern p, fovea_mask_kind kind, fovea_mask_kind inner, bool split) {
    enum { T = 700, HEADS = 2 };
    attention_case c = case_plain(1, HEADS, HEADS, split ? 1 : T, T, 8, 8);
    c.desc.mask = FOVEA_MASK_BOOLEAN;
    c.mask_repeats[2] = p == PADDING;
    c.mask_repeats[1] = p == PADDING;
    rng r = rng_stream(test_seed(), "stats");
    inputs *in = inputs_make(&c, &r);
    write_pattern(p, in, T);
    check_count(&c, in, kind, inner, split, pattern_names[p]);
    inputs_free(in);
}

/* By causality, windows and lengths, alone and with a mask. */
static void test_positions(void) {
    static const struct {
        fovea_causal causal;
        int64_t q_len, left, right, offset;
        const char *text;
    } cases[] = {{FOVEA_CAUSAL_NONE, 150, -1, -1, 0, "no limit"},
                 {FOVEA_CAUSAL_TOP_LEFT, 400, -1, -1, 0, "top left"},
                 {FOVEA_CAUSAL_BOTTOM_RIGHT, 130, -1, -1, 0, "bottom right"},
                 {FOVEA_CAUSAL_OFFSET, 130, -1, -1, 251, "an offset"},
                 {FOVEA_CAUSAL_TOP_LEFT, 400, 100, -1, 0, "a window"},
                 {FOVEA_CAUSAL_BOTTOM_RIGHT, 1, 255, -1, 0, "decoding in a window"},
                 {FOVEA_CAUSAL_NONE, 300, 20, 40, 256, "a window on both sides"},
                 {FOVEA_CAUSAL_NONE, 300, 0, 0, -100, "a window of one key"}};
    static const int64_t kv_lens[] = {900, 513};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int more = 0; more < 4; more++) { /* lengths, a mask */
            attention_case c = case_plain(2, 6, 2, cases[i].q_len, 900, 8, 8);
            const int64_t offsets[] = {cases[i].offset, cases[i].offset + 3};
            c.desc.causal = cases[i].causal;
            c.desc.window_left = cases[i].left;
            c.desc.window_right = cases[i].right;
            c.q_offsets = cases[i].offset != 0;
            c.kv_lens = more % 2;
            c.desc.mask = more / 2 ? FOVEA_MASK_BOOLEAN : FOVEA_MASK_NONE;
            rng r = rng_stream(test_seed(), "positions");
            inputs *in = inputs_make_given(&c, &r, NULL, kv_lens, offsets);
            if (c.desc.mask)
                write_pattern(TILES, in, 900);
            check_count(&c, in, c.desc.mask, 0, i % 2, cases[i].text);
            check_count(&c, in, c.desc.mask ? FOVEA_MASK_PREPARED : FOVEA_MASK_NONE, FOVEA_MASK_BITS, false,
                        cases[i].text);
            inputs_free(in);
        }
}

static void test_stats(void) {
    static const pattern patterns[] = {DOCUMENTS, PREFIX, CHUNKS, GLOBAL, TILES, PADDING, EMPTY, ALL};
    static const fovea_mask_kind kinds[] = {FOVEA_MASK_BOOLEAN, FOVEA_MASK_BITS, FOVEA_MASK_RANGES, FOVEA_MASK_BLOCKS,
                                            FOVEA_MASK_PREPARED};
    int64_t number = 0;
    for (int p = 0; p < 8; p++)
        for (int k = 0; k < 5; k++)
            for (int split = 0; split < 2; split++)
                if (test_takes(number++))
                    check_stats(patterns[p], kinds[k], FOVEA_MASK_BITS, split);
    check_stats(PADDING, FOVEA_MASK_KEY_PADDING, 0, false);
    check_stats(PADDING, FOVEA_MASK_PREPARED, FOVEA_MASK_KEY_PADDING, false);
    test_positions();
}

/* Memory of a segment that no row sees is not read: it may not be touched. */
typedef struct forbidden {
    fovea_attention_plan *plan;
    fovea_attention_args *args;
    fovea_status status;
} forbidden;

static void execute(void *arg) {
    forbidden *f = arg;
    f->status = fovea_attention_execute(f->plan, f->args, NULL, 0);
}

static void test_forbidden(void) {
    enum { T = 640, DIM = 16 };
    static const fovea_mask_kind kinds[] = {FOVEA_MASK_BOOLEAN, FOVEA_MASK_BITS,   FOVEA_MASK_KEY_PADDING,
                                            FOVEA_MASK_RANGES,  FOVEA_MASK_BLOCKS, FOVEA_MASK_PREPARED};
    for (int k = 0; k < 6; k++)
        for (int64_t q_len = 1; q_len <= 300; q_len += 299) {
            attention_case c = case_plain(1, 1, 1, q_len, T, DIM, DIM);
            c.desc.mask = FOVEA_MASK_BOOLEAN;
            c.mask_repeats[1] = c.mask_repeats[2] = true;
            rng r = rng_stream(test_seed(), "forbidden");
            inputs *in = inputs_make(&c, &r);
            outputs *out = outputs_make(&c, LAYOUT_BHTD), *want = outputs_make(&c, LAYOUT_BHTD);
            for (int64_t j = 0; j < T; j++)
                ((uint8_t *)in->args.mask.data)[j] = (j < 256 || j >= 512) && j % 5 != 0;
            case_run(contexts.one, NULL, &c, in, want);
            const size_t keys = (size_t)DIM * sizeof(float), size = 768 * keys; /* 256 keys are whole pages */
            char *memory[2];
            fovea_attention_args args = case_args(in, out);
            fovea_tensor *sides[] = {&args.k, &args.v};
            for (int i = 0; i < 2; i++) {
                memory[i] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                memcpy(memory[i], sides[i]->data, T * keys);
                mprotect(memory[i] + 256 * keys, 256 * keys, PROT_NONE);
                sides[i]->data = memory[i];
            }
            mask_words w;
            mask_words_make(&w, contexts.one, &c.desc, &args, kinds[k], FOVEA_MASK_BOOLEAN, (int64_t[]){1, 1});
            forbidden f = {.args = &w.args};
            guard_fault fault;
            test_check(fovea_attention_plan_create(contexts.one, &w.desc, &f.plan) == FOVEA_OK, "%s",
                       fovea_error_detail());
            const bool alive = guard_try(execute, &f, &fault);
            test_check(alive && f.status == FOVEA_OK, "kind %d reads keys that no row sees", (int)kinds[k]);
            outputs_same(out, want, "kind %d beside forbidden memory", (int)kinds[k]);
            fovea_attention_plan_destroy(f.plan);
            mask_words_free(&w);
            munmap(memory[0], size);
            munmap(memory[1], size);
            inputs_free(in);
            outputs_free(out);
            outputs_free(want);
        }
}

/* fovea_mask_bits() of prepared masks of bytes: with axes that repeat, whole tiles, holes, and keys that fill no
 * byte. */
static void test_bits(const fovea_context *ctx) {
    rng r = rng_stream(test_seed(), "bits");
    check_status("no mask", fovea_mask_bits(NULL, &r), FOVEA_ERROR_NULL, "mask is NULL");
    for (int64_t n = test_scaled(40); n > 0; n--) {
        const int64_t batch = rng_between(&r, 1, 2), heads = rng_between(&r, 1, 2), rows = rng_between(&r, 0, 150);
        const int64_t keys = rng_between(&r, 0, 600), bytes = (keys + 7) / 8, all = batch * heads * rows;
        const bool repeats = rng_below(&r, 3) == 0; /* one row for all */
        const int64_t first = rng_below(&r, keys + 1), last = rng_between(&r, first, keys), noise = rng_below(&r, 3);
        unsigned char *seen = must_alloc(all * keys + 1, 1), *bits = must_alloc(all * bytes + 1, 1);
        for (int64_t i = 0; i < (repeats ? 1 : all) * keys; i++)
            seen[i] = noise == 0 ? rng_below(&r, 2) : i % keys >= first && i % keys < last && (noise == 1 || i % 97);
        fovea_mask_desc desc;
        fovea_mask *mask;
        fovea_mask_desc_init(&desc);
        desc.kind = FOVEA_MASK_BOOLEAN;
        desc.batch = batch;
        desc.q_heads = heads;
        desc.q_len = rows;
        desc.kv_len = keys;
        desc.mask = repeats ? fovea_tensor_bhtd(seen, FOVEA_DTYPE_BOOL, 1, 1, 1, keys)
                            : fovea_tensor_bhtd(seen, FOVEA_DTYPE_BOOL, batch, heads, rows, keys);
        if (!test_check(fovea_mask_create(ctx, &desc, &mask) == FOVEA_OK, "%s", fovea_error_detail()))
            return;
        bits[all * bytes] = 0x5a;
        test_check(fovea_mask_bits(mask, bits) == FOVEA_OK, "%s", fovea_error_detail());
        int64_t wrong = bits[all * bytes] != 0x5a;
        for (int64_t row = 0; row < all; row++)
            for (int64_t j = 0; j < keys; j++)
                wrong += (bits[row * bytes + j / 8] >> j % 8 & 1) != seen[(repeats ? 0 : row * keys) + j];
        test_check(wrong == 0, "%lld bits of %lld rows and %lld keys are wrong", (long long)wrong, (long long)all,
                   (long long)keys);
        fovea_mask_destroy(mask);
        free(seen);
        free(bits);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "mask_kinds", NULL);
    contexts = contexts_make();
    test_patterns();
    test_random();
    test_stats();
    test_forbidden();
    test_bits(contexts.one);
    contexts_free(&contexts);
    return test_end();
}
