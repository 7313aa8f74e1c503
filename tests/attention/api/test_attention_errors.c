/* Bad input gives its status and a sentence that names what is wrong, and nothing is written: outputs keep their
 * canary, result pointers become NULL. Attention: descriptors, arguments, fovea_sdpa_f32(). Contexts and the rest:
 * test_context.c.
 *
 * Each check takes a problem that works, spoils one thing of it, and names the status and the words that the sentence
 * must hold; and that the problem does work is checked too. */
#include "attention_case.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static fovea_context *ctx;

/* ------------------------------------------------------------------------------------------------- descriptors -- */

static void check_desc(const char *what, fovea_attention_desc desc, fovea_status want, const char *words) {
    fovea_attention_plan *plan = (fovea_attention_plan *)&desc;
    fovea_status status = fovea_attention_plan_create(ctx, &desc, &plan);
    check_status(what, status, want, words);
    test_check((plan != NULL) == (status == FOVEA_OK), "%s: plan %p", what, (void *)plan);
    if (status == FOVEA_OK)
        fovea_attention_plan_destroy(plan);
}

static fovea_attention_desc good_desc(void) { return case_plain(2, 12, 6, 10, 20, 16, 24).desc; }

/* One size of the descriptor, by its place. */
static const struct {
    const char *name;
    size_t offset;
} sizes[] = {
    {"batch", offsetof(fovea_attention_desc, batch)},        {"q_heads", offsetof(fovea_attention_desc, q_heads)},
    {"kv_heads", offsetof(fovea_attention_desc, kv_heads)},  {"q_len", offsetof(fovea_attention_desc, q_len)},
    {"kv_len", offsetof(fovea_attention_desc, kv_len)},      {"head_dim", offsetof(fovea_attention_desc, head_dim)},
    {"value_dim", offsetof(fovea_attention_desc, value_dim)}};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void set_size(fovea_attention_desc *desc, int which, int64_t value) {
    memcpy((char *)desc + sizes[which].offset, &value, sizeof value);
}

static void test_desc(void) {
    fovea_attention_desc d = good_desc();
    fovea_attention_plan *plan = (fovea_attention_plan *)&d;
    char words[64];
    check_desc("a good descriptor", d, FOVEA_OK, NULL);
    check_status("no context", fovea_attention_plan_create(NULL, &d, &plan), FOVEA_ERROR_NULL, "");
    test_check(plan == NULL, "no context: a plan");
    plan = (fovea_attention_plan *)&d;
    check_status("no descriptor", fovea_attention_plan_create(ctx, NULL, &plan), FOVEA_ERROR_NULL, "desc");
    test_check(plan == NULL, "no descriptor: a plan");
    check_status("nowhere to put the plan", fovea_attention_plan_create(ctx, &d, NULL), FOVEA_ERROR_NULL, "plan");

    const size_t versions[] = {0, 1, offsetof(fovea_attention_desc, page_keys), sizeof d + 8, SIZE_MAX};
    for (int i = 0; i < 5; i++) {
        d = good_desc();
        d.struct_size = versions[i];
        check_desc("struct_size of the descriptor", d, FOVEA_ERROR_VERSION, "");
    }
    d = good_desc();
    d.has_bias = 1;
    d.mask = FOVEA_MASK_ADDITIVE;
    check_desc("a bias beside an additive mask", d, FOVEA_ERROR_ARGUMENT, "has_bias|FOVEA_MASK_ADDITIVE");
    const double caps[] = {-1, 0x1p-127, 0x1p127, (double)INFINITY, (double)NAN};
    for (int i = 0; i < 5; i++) {
        d = good_desc();
        d.softcap = caps[i];
        check_desc("a softcap", d, FOVEA_ERROR_ARGUMENT,
                   "softcap is |; it must be 0 (none) or from 1.17549e-38 to 8.50706e+37");
    }
    const int dtypes[] = {0, FOVEA_DTYPE_BOOL, 77, -1};
    for (int i = 0; i < 4; i++) {
        d = good_desc();
        d.dtype = (fovea_dtype)dtypes[i];
        check_desc(
            "dtype of the descriptor", d, FOVEA_ERROR_DTYPE,
            dtypes[i] == FOVEA_DTYPE_BOOL
                ? "dtype is FOVEA_DTYPE_BOOL; attention takes FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16 and FOVEA_DTYPE_F16"
                : "dtype is |, not a fovea_dtype");
    }

    static const int64_t bad[] = {0, -1, INT64_MIN, -7};
    static const int64_t huge[] = {INT64_MAX, INT64_MAX - 15, (int64_t)1 << 62, (int64_t)1 << 60};
    for (int which = 0; which < SIZES; which++)
        for (int i = 0; i < 4; i++) {
            d = good_desc();
            set_size(&d, which, bad[i]);
            const bool channels =
                strcmp(sizes[which].name, "head_dim") == 0 || strcmp(sizes[which].name, "value_dim") == 0;
            const bool legal =
                bad[i] == 0 && !channels && strcmp(sizes[which].name, "kv_heads") != 0; /* q_heads is not 0 */
            snprintf(words, sizeof words, "%s|%" PRId64, sizes[which].name, bad[i]);
            check_desc(sizes[which].name, d, legal ? FOVEA_OK : FOVEA_ERROR_SHAPE, words);
            d = good_desc();
            set_size(&d, which, huge[i] - huge[i] % 12);
            if (which == 2) /* kv_heads must divide q_heads, so both are huge */
                d.q_heads = d.kv_heads;
            check_desc(sizes[which].name, d, FOVEA_ERROR_OVERFLOW, "");
        }
    d = good_desc();
    d.kv_heads = 5;
    check_desc("12 heads in 5 groups", d, FOVEA_ERROR_SHAPE, "q_heads|12|kv_heads|5");
    d.kv_heads = 24;
    check_desc("more kv_heads than q_heads", d, FOVEA_ERROR_SHAPE, "12|24");

    const double scales[] = {NAN, INFINITY, -INFINITY, 1e300, -1e39};
    for (int i = 0; i < 5; i++) {
        d = good_desc();
        d.has_scale = 1;
        d.scale = scales[i];
        check_desc("scale", d, FOVEA_ERROR_ARGUMENT, "scale");
    }
    d = good_desc();
    d.has_scale = 1;
    d.scale = -0.5;
    check_desc("a negative scale", d, FOVEA_OK, NULL);
    const int enumerators[] = {-1, 4, 1000, INT_MIN};
    for (int i = 0; i < 4; i++) {
        snprintf(words, sizeof words, "causal is %d, not a fovea_causal", enumerators[i]);
        d = good_desc();
        d.causal = (fovea_causal)enumerators[i];
        check_desc("causal", d, FOVEA_ERROR_ARGUMENT, words);
        const int kind = i == 1 ? FOVEA_MASK_PREPARED + 1 : enumerators[i];
        snprintf(words, sizeof words, "mask is %d, not a fovea_mask_kind", kind);
        d = good_desc();
        d.mask = (fovea_mask_kind)kind;
        check_desc("mask", d, FOVEA_ERROR_ARGUMENT, words);
    }
    const int64_t windows[] = {-2, INT64_MIN};
    for (int i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "window_left|%" PRId64, windows[i]);
        d = good_desc();
        d.window_left = windows[i];
        check_desc("window_left", d, FOVEA_ERROR_ARGUMENT, words);
        snprintf(words, sizeof words, "window_right|%" PRId64, windows[i]);
        d = good_desc();
        d.window_right = windows[i];
        check_desc("window_right", d, FOVEA_ERROR_ARGUMENT, words);
    }
}

/* Each field that the list has a range for: out of it, it is refused by name; where it is not used, it is not read. */
static void test_fields(void) {
    fovea_attention_desc all = good_desc(), one;
    const fovea_attention_desc *const d = &all;
    all.relative_buckets = 32;
    all.relative_max_distance = 128;
    all.relative_height = all.relative_width = 64;
    all.mask_block_rows = all.mask_block_keys = 8;
    for (int kind = 0; kind < FOVEA_MASK_PREPARED * FOVEA_RELATIVE_WINDOW_2D; kind++) {
        all.mask = (fovea_mask_kind)(kind / FOVEA_RELATIVE_WINDOW_2D + 1);
        all.relative = (fovea_relative)(kind % FOVEA_RELATIVE_WINDOW_2D + 1);
#define TRY(name, value, refused, status)                                                                              \
    one = all;                                                                                                         \
    one.name = value;                                                                                                  \
    check_desc(#name, one, (refused) ? FOVEA_ERROR_##status : FOVEA_OK, (refused) ? #name " is |; it must be " : "");
#define FOVEA_DESC_SIZE(name, initial, least, most, status, when, text) TRY(name, (least)-1, when, status)
#define FOVEA_DESC_NUMBER(name, least, most, text) TRY(name, 2.0 * (most), true, ARGUMENT)
#define FOVEA_DESC_NUMBER_IF(name, flag, least, most, text)                                                            \
    TRY(name, (double)NAN, d->flag, ARGUMENT)                                                                          \
    all.flag = 1;                                                                                                      \
    TRY(name, (double)NAN, true, ARGUMENT)                                                                             \
    all.flag = 0;
#define FOVEA_DESC_ENUM(name, type, initial, text)                                                                     \
    one = all;                                                                                                         \
    one.name = (fovea_##type)99;                                                                                       \
    check_desc(#name, one, FOVEA_ERROR_ARGUMENT, #name " is 99, not a fovea_" #type);
#include "fovea/fields.inc"
    }
    one = good_desc();
    one.window_left = one.window_right = INT64_MAX;
    check_desc("the widest window", one, FOVEA_OK, NULL);
    one = all; /* limits as numbers, not as the list has them */
    one.mask = FOVEA_MASK_BLOCKS;
    one.mask_block_keys = 0;
    check_desc("blocks of no key", one, FOVEA_ERROR_SHAPE, "mask_block_keys is 0; it must be at least 1");
}

/* As many channels as there may be; and one more. */
static void test_channels(void) {
    enum { MOST = 65536 };
    float *k = must_alloc(MOST, sizeof *k), *v = must_alloc(MOST, sizeof *v), *out = must_alloc(MOST, sizeof *out), lse;
    fovea_attention_desc d = case_plain(1, 1, 1, 1, 1, MOST, MOST).desc;
    check_desc("the most channels", d, FOVEA_OK, NULL);
    d.head_dim++;
    check_desc("a channel more", d, FOVEA_ERROR_OVERFLOW, "head_dim is 65537; it must be at most 65536");
    d.head_dim = 1;
    d.value_dim++;
    check_desc("a value's channel more", d, FOVEA_ERROR_OVERFLOW, "value_dim is 65537; it must be at most 65536");
    check_status("in one call", fovea_sdpa_f32(k, k, v, out, 1, 1, 1, 1, 1, MOST + 1, 1, FOVEA_CAUSAL_NONE),
                 FOVEA_ERROR_OVERFLOW, "head_dim is 65537");
    for (int i = 0; i < MOST; i++) {
        k[i] = 1.0f;
        v[i] = (float)(i + 1);
    }
    d.head_dim = d.value_dim = MOST;
    fovea_attention_plan *plan;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = args.k = fovea_tensor_bhtd(k, FOVEA_DTYPE_F32, 1, 1, 1, MOST);
    args.v = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, 1, 1, 1, MOST);
    args.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, 1, MOST);
    args.lse = fovea_tensor_bhtd(&lse, FOVEA_DTYPE_F32, 1, 1, 1, 1);
    check_status("a plan", fovea_attention_plan_create(ctx, &d, &plan), FOVEA_OK, NULL);
    check_status("its execution", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_OK, NULL);
    test_same(out, v, MOST, "one key of %d channels", MOST);
    test_check(lse == 256.0f, "the score of %d channels is %g", MOST, (double)lse); /* 65536 / sqrt(65536) */
    fovea_attention_plan_destroy(plan);
    free(k);
    free(v);
    free(out);
}

/* --------------------------------------------------------------------------------------------------------- sdpa -- */

static void test_sdpa(void) {
    float *m = must_alloc(4000, sizeof *m);
    poison_fill(m, 4000);
    float *q = m, *k = m + 1000, *v = m + 2000, *out = m + 3000;
    for (int i = 0; i < 3000; i++)
        m[i] = 0.5F;
    static const int64_t good[] = {1, 4, 2, 5, 7, 8, 9};
    static const int64_t bad[] = {0, -1, INT64_MIN, INT64_MAX, (int64_t)1 << 62};
    check_status("sdpa without q", fovea_sdpa_f32(NULL, k, v, out, 1, 4, 2, 5, 7, 8, 9, FOVEA_CAUSAL_NONE),
                 FOVEA_ERROR_NULL, "q");
    check_status("sdpa without k", fovea_sdpa_f32(q, NULL, v, out, 1, 4, 2, 5, 7, 8, 9, FOVEA_CAUSAL_NONE),
                 FOVEA_ERROR_NULL, "k");
    check_status("sdpa without v", fovea_sdpa_f32(q, k, NULL, out, 1, 4, 2, 5, 7, 8, 9, FOVEA_CAUSAL_NONE),
                 FOVEA_ERROR_NULL, "v");
    check_status("sdpa without out", fovea_sdpa_f32(q, k, v, NULL, 1, 4, 2, 5, 7, 8, 9, FOVEA_CAUSAL_NONE),
                 FOVEA_ERROR_NULL, "out");
    for (int which = 0; which < SIZES; which++)
        for (int i = 0; i < 5; i++) {
            int64_t n[SIZES];
            memcpy(n, good, sizeof n);
            n[which] = bad[i];
            if (i == 0 && which < 5 && which != 2)
                continue; /* legal: there is nothing to do; but not 4 heads without keys */
            fovea_status status =
                fovea_sdpa_f32(q, k, v, out, n[0], n[1], n[2], n[3], n[4], n[5], n[6], FOVEA_CAUSAL_NONE);
            test_check(status == FOVEA_ERROR_SHAPE || (i >= 3 && status == FOVEA_ERROR_OVERFLOW),
                       "sdpa, %s %" PRId64 ": %s", sizes[which].name, bad[i], fovea_status_name(status));
        }
    check_status("sdpa, heads", fovea_sdpa_f32(q, k, v, out, 1, 4, 3, 5, 7, 8, 9, FOVEA_CAUSAL_NONE), FOVEA_ERROR_SHAPE,
                 "4|3");
    check_status("sdpa, causal offset", fovea_sdpa_f32(q, k, v, out, 1, 4, 2, 5, 7, 8, 9, FOVEA_CAUSAL_OFFSET),
                 FOVEA_ERROR_ARGUMENT, "");
    check_status("sdpa, causal 9", fovea_sdpa_f32(q, k, v, out, 1, 4, 2, 5, 7, 8, 9, (fovea_causal)9),
                 FOVEA_ERROR_ARGUMENT, "causal is 9");
    for (int i = 3000; i < 4000; i++)
        if (float_bits(m[i]) != float_bits(poison())) {
            test_check(false, "a refused sdpa wrote out[%d]", i - 3000);
            break;
        }
    check_status("sdpa, out is q", fovea_sdpa_f32(q, k, v, q, 1, 4, 2, 5, 7, 8, 9, FOVEA_CAUSAL_NONE),
                 FOVEA_ERROR_ALIAS, "out");
    check_status("sdpa, out ends in k",
                 fovea_sdpa_f32(q, k, v, k - 4 * 5 * 9 + 1, 1, 4, 2, 5, 7, 8, 9, FOVEA_CAUSAL_NONE), FOVEA_ERROR_ALIAS,
                 "out");
    int64_t changed = 0;
    for (int i = 0; i < 3000; i++)
        changed += m[i] != 0.5F;
    test_check(changed == 0, "a refused sdpa wrote %" PRId64 " inputs", changed);
    free(m);
}

/* Any sizes at all: a status, never a crash or (under UBSan) an overflow. Execution meets a tensor that is too
 * small. */
static void test_hostile(void) {
    static const int64_t values[] = {0,
                                     1,
                                     2,
                                     -1,
                                     (int64_t)1 << 31,
                                     ((int64_t)1 << 32) + 1,
                                     INT64_MAX,
                                     INT64_MIN,
                                     (int64_t)1 << 62,
                                     (int64_t)1 << 40};
    enum { VALUES = sizeof values / sizeof values[0] };
    rng r = rng_stream(test_seed(), "hostile");
    float dummy[16] = {0};
    int64_t count[2] = {0, 0};
    for (int n = 0; n < 20000; n++) {
        fovea_attention_desc d = good_desc();
        for (int which = 0; which < SIZES; which++)
            if (rng_below(&r, 3) == 0)
                set_size(&d, which, values[rng_below(&r, VALUES)]);
        d.window_left = rng_below(&r, 4) ? -1 : values[rng_below(&r, VALUES)];
        d.window_right = rng_below(&r, 4) ? -1 : values[rng_below(&r, VALUES)];
        d.causal = (fovea_causal)rng_below(&r, 4);
        fovea_attention_plan *plan;
        fovea_status status = fovea_attention_plan_create(ctx, &d, &plan);
        count[status == FOVEA_OK]++;
        if (status != FOVEA_OK) {
            test_check(status == FOVEA_ERROR_SHAPE || status == FOVEA_ERROR_OVERFLOW || status == FOVEA_ERROR_ARGUMENT,
                       "hostile sizes: %s (%s)", fovea_status_name(status), fovea_error_detail());
            continue;
        }
        fovea_attention_args args;
        fovea_attention_args_init(&args);
        args.q = args.k = args.v = args.out = fovea_tensor_bhtd(dummy, FOVEA_DTYPE_F32, 1, 1, 3, 5);
        status = fovea_attention_execute(plan, &args, dummy, SIZE_MAX);
        test_check(status != FOVEA_OK, "hostile sizes: executed");
        fovea_tensor tensor = fovea_tensor_bhtd(dummy, FOVEA_DTYPE_F32, d.batch, d.q_heads, d.q_len, d.head_dim);
        test_check(tensor.stride[3] == 1 && tensor.shape[0] == d.batch, "fovea_tensor_bhtd");
        fovea_attention_plan_destroy(plan);
    }
    for (int n = 0; n < 2000; n++) {
        int64_t s[4];
        for (int axis = 0; axis < 4; axis++)
            s[axis] = values[rng_below(&r, VALUES)];
        fovea_tensor x = fovea_tensor_bhtd(dummy, FOVEA_DTYPE_F32, s[0], s[1], s[2], s[3]);
        fovea_tensor y = fovea_tensor_bthd(dummy, FOVEA_DTYPE_F32, s[0], s[2], s[1], s[3]);
        test_check(memcmp(x.shape, y.shape, sizeof x.shape) == 0 && x.shape[2] == s[2], "hostile tensors");
    }
    test_check(count[0] > 100 && count[1] > 100, "hostile sizes: %" PRId64 " refused, %" PRId64 " planned", count[0],
               count[1]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "attention_errors", NULL);
    ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    test_desc();
    test_fields();
    test_channels();
    test_sdpa();
    test_hostile();
    fovea_context_destroy(ctx);
    return test_end();
}
