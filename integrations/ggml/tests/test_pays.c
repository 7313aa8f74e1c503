/* Which operations are left to ggml, for any tier and number of threads, and by rows of a tuning file: pays.c and
 * rules.c with a context of this test. */
#define _DEFAULT_SOURCE
#include "backend_options.h"
#include "pays.h"
#include "rules.h"
#include "weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static fovea_context_facts info;
static const fg_type types[] = {
    {"f32", FOVEA_DTYPE_F32, 1, 4, GGML_TYPE_F32},        {"f16", FOVEA_DTYPE_F16, 1, 2, GGML_TYPE_F16},
    {"bf16", FOVEA_DTYPE_BF16, 1, 2, GGML_TYPE_BF16},     {"q8_0", FOVEA_DTYPE_Q8_0, 32, 34, GGML_TYPE_Q8_0},
    {"q4_0", FOVEA_DTYPE_Q4_0, 32, 18, GGML_TYPE_Q4_0},   {"q4_1", FOVEA_DTYPE_Q4_1, 32, 20, GGML_TYPE_Q4_1},
    {"q4_K", FOVEA_DTYPE_Q4_K, 256, 144, GGML_TYPE_Q4_K}, {"q5_K", FOVEA_DTYPE_Q5_K, 256, 176, GGML_TYPE_Q5_K},
    {"q6_K", FOVEA_DTYPE_Q6_K, 256, 210, GGML_TYPE_Q6_K},
};
enum { TYPES = sizeof types / sizeof types[0], KEY_TYPES = 5 };
static const fovea_isa tiers[] = {FOVEA_ISA_SCALAR, FOVEA_ISA_AVX2, FOVEA_ISA_AVX512, FOVEA_ISA_NEON};
enum { TIERS = sizeof tiers / sizeof tiers[0] };

const fovea_context_facts *fg_options_info(void) { return &info; }
fg_op fg_op_of(enum ggml_op op) {
    return op == GGML_OP_MUL_MAT ? FG_MUL_MAT : op == GGML_OP_MUL_MAT_ID ? FG_MUL_MAT_ID : FG_FLASH_ATTN_EXT;
}
enum ggml_op fg_op_none(void) { return GGML_OP_NONE; }
bool fg_is_view(enum ggml_op op) { return op == GGML_OP_NONE; }
bool fg_weights_hold(const struct ggml_tensor *tensor) { return tensor->data == NULL; }
bool fg_weights_known(const struct ggml_tensor *tensor) { return tensor->extra != NULL; }
const fg_type *fg_type_at(int index) { return index < TYPES ? &types[index] : NULL; }
const fg_type *fg_type_of(enum ggml_type type) {
    for (int i = 0; i < TYPES; i++)
        if (types[i].number == (int)type)
            return &types[i];
    return NULL;
}

static int failed, said;
static char lines[4096]; /* of fg_say() */

void fg_say(const char *format, ...) {
    const size_t length = strlen(lines);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(lines + length, sizeof lines - length, format, arguments);
    va_end(arguments);
    said++;
}

static void check(bool pays, bool expected, const char *what, int a, int b) {
    if (pays == expected)
        return;
    printf("FAILED: %s %d %d: %s\n", what, a, b, pays ? "pays" : "does not pay");
    failed++;
}

static bool attention(enum ggml_type keys, enum ggml_type values, int64_t kv_heads, int64_t rows, int64_t batch,
                      int64_t kv_len) {
    struct ggml_tensor q = {.type = GGML_TYPE_F32, .ne = {128, rows, 8, batch}};
    struct ggml_tensor k = {.type = keys, .ne = {128, kv_len, kv_heads, batch}}, v = k;
    v.type = values;
    return fg_pays(&(struct ggml_tensor){.op = GGML_OP_FLASH_ATTN_EXT, .src = {&q, &k, &v}});
}

static bool multiplied_by(enum ggml_op op, enum ggml_type type, int64_t in, int64_t out) {
    struct ggml_tensor weights = {.type = type, .ne = {in, out, 1, 1}};
    return fg_pays(&(struct ggml_tensor){.op = op, .src = {&weights}});
}
static bool multiplied(enum ggml_op op, enum ggml_type type) { return multiplied_by(op, type, 2048, 2048); }
static bool product(enum ggml_type type) { return multiplied(GGML_OP_MUL_MAT, type); }
static bool experts(enum ggml_type type) { return multiplied(GGML_OP_MUL_MAT_ID, type); }

static const struct {
    int threads;
    enum ggml_type keys, values;
    int64_t kv_heads, rows, batch, kv_len;
    bool pays;
} cases[] = {
    {1, GGML_TYPE_F16, GGML_TYPE_F16, 2, 1, 1, 4096, true},
    {64, GGML_TYPE_F16, GGML_TYPE_F16, 2, 1, 1, 4096, true},
    {64, GGML_TYPE_F16, GGML_TYPE_F16, 2, 1, 1, 16, false}, /* hardly any work */
    {4, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 2, 1, 1, 4096, true},
    {5, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 2, 1, 1, 4096, false}, /* more threads than twice the key heads */
    {5, GGML_TYPE_F16, GGML_TYPE_Q8_0, 2, 1, 1, 4096, false},
    {5, GGML_TYPE_Q8_0, GGML_TYPE_F16, 2, 1, 1, 4096, false},
    {5, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 3, 1, 1, 4096, true},
    {12, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 2, 3, 1, 4096, true}, /* rows and sequences count */
    {13, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 2, 3, 1, 4096, false},
    {12, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 2, 1, 3, 4096, true},
    {13, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 2, 1, 3, 4096, false},
};

/* Types that were faster on each CPU that was measured. */
static bool proved(const fg_type *type) {
    return type->block != 256 && strcmp(type->name, "q4_0") != 0 && strcmp(type->name, "bf16") != 0;
}

/* The defaults, for each tier and type. */
static void test_defaults(void) {
    enum { LEAST_KEYS = 15 }; /* of 300,000 operations, with 5 rows, 8 heads and 128 channels */
    for (int i = 0; i < TIERS; i++) {
        const bool some = tiers[i] != FOVEA_ISA_SCALAR;
        info.isa = tiers[i];
        for (int t = 0; t < TYPES; t++)
            check(product(types[t].number), some && proved(&types[t]), "weights", i, t);
        for (int k = 0; k < KEY_TYPES; k++)
            for (int v = 0; v < KEY_TYPES; v++)
                for (info.threads = 1; info.threads < 80; info.threads++) {
                    const bool plain = types[k].block == 1 && types[v].block == 1;
                    const enum ggml_type keys = types[k].number, values = types[v].number;
                    check(attention(keys, values, 3, 2, 5, 4096), some && (plain || info.threads <= 60), "types", k, v);
                    check(attention(keys, values, 8, 1, 5, LEAST_KEYS), some, "few keys", k, v);
                    check(attention(keys, values, 8, 1, 5, LEAST_KEYS - 1), false, "too few keys", k, v);
                }
    }
}

static fovea_arithmetic arithmetic = FOVEA_ARITHMETIC_Q16;

/* Loads the rules of a file with these rows alone, and of the context's tier; "+words": of operation_q8. */
static void load_rows(const char *operation, const char *words, const char *more, bool debug) {
    char q8[80];
    snprintf(q8, sizeof q8, "%s_q8", operation);
    char path[] = "/tmp/fovea-test-XXXXXX";
    fovea_tuning *tuning = NULL;
    fovea_context *context = NULL;
    fovea_context_options options;
    fovea_context_options_init(&options);
    close(mkstemp(path));
    options.threads = 1;
    options.tuning_file = "";
    bool good = fovea_context_create(&options, &context) == FOVEA_OK &&
                fovea_tuning_put_adapter_row(&tuning, context, operation, words) == FOVEA_OK &&
                (!more || fovea_tuning_put_adapter_row(&tuning, context, *more == '+' ? q8 : operation,
                                                       more + (*more == '+')) == FOVEA_OK) &&
                fovea_tuning_save(tuning, path) == FOVEA_OK;
    fovea_context_destroy(context);
    options.tuning_file = path;
    good = good && fovea_context_create(&options, &context) == FOVEA_OK;
    check(good, true, fovea_error_detail(), 0, 0);
    said = 0;
    lines[0] = '\0';
    info.isa = FOVEA_ISA_BEST;
    fg_rules_load(context, arithmetic, debug);
    fovea_context_info(context, &info);
    info.threads = 64;
    fovea_context_destroy(context);
    fovea_tuning_destroy(tuning);
    unlink(path);
}

static void load(const char *operation, const char *words, bool debug) { load_rows(operation, words, NULL, debug); }

/* Rows of a file are obeyed; a row that is not understood is left out, with a message if that is requested. */
static void test_tuned(void) {
    static const char *const bad[] = {
        "type=q9_z : take=1",        "type=q8_0 : take=2",           "type=q8_0 : take=",
        "type=q8_0 : take=yes",      "type=q8_0 : give=1",           "type=q8_0 : take=1 least=-1",
        "type=q8_0take : =1",        "take=1 : type=q8_0",           "type=q8_0 : take=1000000000000000000000",
        "type=q8_0 rows=0 : take=1", "type=q8_0 rows=8..2 : take=1", "type=q8_0 rows=2..8x : take=1",
        "type=q8_0 row=5 : take=1",  "type=q8_0 : take=1x",          "type=q8_0/up : take=1",
        "type=q8_0/ : take=1",       "type=q8_0/wordsx : take=1",    "type=/words : take=1"};
    const enum ggml_type q8_0 = GGML_TYPE_Q8_0, f16 = GGML_TYPE_F16;
    load("ggml.other", "type=f16 : take=1", false);
    const bool tier = info.isa != FOVEA_ISA_SCALAR, q4_k = product(GGML_TYPE_Q4_K);
    check(product(f16), tier, "another operation's row", 0, 0);
    for (int take = 0; take < 2; take++) {
        load("ggml.mul_mat", take ? "type=q8_0 : take=1 : gain=1.1" : "type=q8_0 : take=0 : gain=1.1", take);
        check(product(q8_0), take, "weights by a file", take, 0);
        check(product(f16), tier, "weights of another type", take, 0);
        check(product(GGML_TYPE_Q4_K), q4_k, "weights of another type", take, 1);
        check(fg_rules_take(info.isa), tier || take, "anything", take, 0);
        check(attention(q8_0, q8_0, 64, 1, 1, 4096), tier, "attention beside weights", take, 0);
        check(said, take, "lines", take, 0);
        load("ggml.mul_mat", take ? "type=q4_K : take=1" : "type=q4_K : take=0", false);
        check(product(GGML_TYPE_Q4_K), take, "weights of q4_K by a file", take, 0);
        load("ggml.flash_attn_ext", take ? "type=f16 : take=1" : "type=f16 : take=0 : gain=1", false);
        check(attention(f16, f16, 2, 1, 1, 4096), take, "attention by a file", take, 0);
        check(attention(GGML_TYPE_F32, f16, 2, 1, 1, 4096), take && tier, "attention by a file, of two types", take, 0);
        check(attention(GGML_TYPE_F32, GGML_TYPE_F32, 2, 1, 1, 4096), tier, "attention of another type", take, 0);
    }
    /* Experts are taken by rows of their own, else by those of other products. */
    for (int take = 0; take < 2; take++) {
        load("ggml.mul_mat_id", take ? "type=q4_K : take=1" : "type=q4_K : take=0", false);
        check(experts(GGML_TYPE_Q4_K), take, "experts by a file", take, 0);
        check(product(GGML_TYPE_Q4_K), q4_k, "other products by rows of experts", take, 0);
        load("ggml.mul_mat", take ? "type=q4_1 : take=1" : "type=q4_1 : take=0", false);
        check(experts(GGML_TYPE_Q4_1), take, "experts by rows of other products", take, 0);
    }
    load("ggml.flash_attn_ext", "type=q8_0 : take=1 least=0 spread=0", false);
    check(attention(q8_0, q8_0, 1, 1, 1, 1), true, "any attention", 0, 0);
    load("ggml.flash_attn_ext", "type=q8_0 : take=1 least=2048000 spread=32", false);
    check(attention(q8_0, q8_0, 2, 1, 1, 500), true, "least and spread", 0, 0);
    check(attention(q8_0, q8_0, 2, 1, 1, 499), false, "least", 0, 0);
    check(attention(q8_0, q8_0, 1, 1, 1, 5000), false, "spread", 0, 0);
    /* Weights are taken where no number of rows is slower, attention by its own. */
    load("ggml.mul_mat", "type=q4_K rows=1 : take=1", false);
    check(product(GGML_TYPE_Q4_K), true, "one row faster", 0, 0);
    load("ggml.mul_mat", "type=q8_0 rows=9..64 : take=0", false);
    check(product(q8_0), false, "some rows slower", 0, 0);
    for (int i = 0; i < 2; i++) {
        load_rows("ggml.mul_mat", i ? "type=q4_K rows=1 : take=0" : "type=q4_K rows=1 : take=1",
                  i ? "type=q4_K rows=2..any : take=1" : "type=q4_K rows=2..any : take=0", false);
        check(product(GGML_TYPE_Q4_K), false, "one class slower", i, 0);
        load_rows("ggml.flash_attn_ext", i ? "type=f16 rows=1 : take=1" : "type=f16 rows=1 : take=0",
                  i ? "type=f16 rows=2..any : take=0" : "type=f16 rows=2..any : take=1", false);
        check(attention(f16, f16, 2, 1, 1, 4096), i, "attention of one row", i, 0);
        check(attention(f16, f16, 2, 2, 1, 4096), !i, "attention of two rows", i, 0);
    }
    for (int i = 0; i < 2; i++, arithmetic = FOVEA_ARITHMETIC_Q8) {
        load_rows("ggml.mul_mat", "type=q4_K : take=0", "+type=q4_K : take=1", false);
        check(product(GGML_TYPE_Q4_K), i, "a row of q8", i, 0);
    }
    load("ggml.mul_mat", "type=q4_K : take=1", false);
    check(product(GGML_TYPE_Q4_K), true, "q8 without a row of its own", 0, 0);
    arithmetic = FOVEA_ARITHMETIC_Q16;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (int debug = 0; debug < 2; debug++) {
            load("ggml.mul_mat", bad[i], debug);
            check(product(q8_0), tier, "a bad row", (int)i, debug);
            check(said == debug && !debug == !strstr(lines, bad[i]) && !debug == !strstr(lines, "left out"), true,
                  bad[i], said, debug);
        }
}

/* Rows for a class of shapes come before those for any, for weights of that class alone. */
static void test_shapes(void) {
    static const struct {
        int64_t in, out;
        fg_shape shape;
    } weights[] = {{576, 49152, FG_SHAPE_WORDS}, {4096, 32000, FG_SHAPE_WORDS}, {2048, 24000, FG_SHAPE_WORDS},
                   {2048, 23999, FG_SHAPE_ANY},  {8192, 28672, FG_SHAPE_ANY},   {4000, 24000, FG_SHAPE_WORDS},
                   {4001, 24000, FG_SHAPE_ANY},  {2048, 8192, FG_SHAPE_ANY},    {2048, 2048, FG_SHAPE_ANY},
                   {8192, 2048, FG_SHAPE_DOWN},  {2048, 1024, FG_SHAPE_DOWN},   {2047, 1024, FG_SHAPE_ANY},
                   {49152, 576, FG_SHAPE_DOWN}};
    static const char *const rows[FG_SHAPES] = {"type=q6_K : take=0", "type=q6_K/words rows=1..8 : take=1",
                                                "type=q6_K/down : take=1 : gain=1.1"};
    for (int with = 0; with < FG_SHAPES; with++) {
        load_rows("ggml.mul_mat", rows[FG_SHAPE_ANY], with ? rows[with] : NULL, true);
        check(said == 1 + (with > 0) && !strstr(lines, "left out"), true, lines, with, 0);
        for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
            check(multiplied_by(GGML_OP_MUL_MAT, GGML_TYPE_Q6_K, weights[i].in, weights[i].out),
                  with && weights[i].shape == (fg_shape)with, "a shape", with, (int)i);
        check(multiplied_by(GGML_OP_MUL_MAT_ID, GGML_TYPE_Q6_K, 8192, 2048), false, "experts by a row of shapes", with,
              0);
        check(fg_rules_take(FOVEA_ISA_SCALAR), with, "anything by a row of shapes", with, 0);
    }
    load_rows("ggml.mul_mat", "type=q6_K : take=1", "type=q6_K/words : take=0", false);
    check(product(GGML_TYPE_Q6_K), true, "beside words that are left", 0, 0);
    check(multiplied_by(GGML_OP_MUL_MAT, GGML_TYPE_Q6_K, 2048, 49152), false, "words that are left", 0, 0);
    /* Rows for q8 are nearer than those of a class for any arithmetic. */
    arithmetic = FOVEA_ARITHMETIC_Q8;
    for (int i = 0; i < 2; i++) {
        load_rows("ggml.mul_mat", "type=q6_K/down : take=0", i ? "+type=q6_K : take=1" : "type=q6_K : take=1", false);
        check(multiplied_by(GGML_OP_MUL_MAT, GGML_TYPE_Q6_K, 8192, 2048), i, "a row of q8 and one of a class", i, 0);
    }
    arithmetic = FOVEA_ARITHMETIC_Q16;
}

int main(void) {
    info.isa = FOVEA_ISA_AVX512;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        info.threads = cases[i].threads;
        check(attention(cases[i].keys, cases[i].values, cases[i].kv_heads, cases[i].rows, cases[i].batch,
                        cases[i].kv_len),
              cases[i].pays, "case", (int)i, 0);
    }
    test_defaults();
    test_tuned();
    test_shapes();
    printf("%s\n", failed ? "failed" : "passed");
    return failed != 0;
}
