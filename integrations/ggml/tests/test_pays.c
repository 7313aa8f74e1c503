/* Which operations are left to ggml, for any tier and number of threads: pays.c and rules.c with a context of this test. */
#include "backend.h"
#include "pays.h"
#include "rules.h"
#include "weights.h"

#include <stdio.h>

static fovea_info info;
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

const fovea_info *fg_options_info(void) { return &info; }
fg_op fg_op_of(enum ggml_op op) { return op == GGML_OP_MUL_MAT ? FG_MUL_MAT : FG_FLASH_ATTN_EXT; }
enum ggml_op fg_op_none(void) { return GGML_OP_NONE; }
bool fg_is_view(enum ggml_op op) { return op == GGML_OP_NONE; }
bool fg_weights_hold(const struct ggml_tensor *tensor) { return tensor->data == NULL; }
bool fg_weights_known(const struct ggml_tensor *tensor) { return tensor->extra != NULL; }
const fg_type *fg_type_of(enum ggml_type type) {
    for (int i = 0; i < TYPES; i++)
        if (types[i].number == (int)type)
            return &types[i];
    return NULL;
}

static int failed;

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

static bool product(enum ggml_type type) {
    struct ggml_tensor weights = {.type = type};
    return fg_pays(&(struct ggml_tensor){.op = GGML_OP_MUL_MAT, .src = {&weights}});
}

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

/* The defaults, for each tier and type. */
static void test_defaults(void) {
    enum { LEAST_KEYS = 15 }; /* of 300,000 operations, with 5 rows, 8 heads and 128 channels */
    for (int i = 0; i < TIERS; i++) {
        const bool some = tiers[i] != FOVEA_ISA_SCALAR;
        info.isa = tiers[i];
        for (int t = 0; t < TYPES; t++)
            check(product(types[t].number), some && !(tiers[i] == FOVEA_ISA_AVX2 && types[t].block == 256), "weights",
                  i, t);
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

int main(void) {
    info.isa = FOVEA_ISA_AVX512;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        info.threads = cases[i].threads;
        check(attention(cases[i].keys, cases[i].values, cases[i].kv_heads, cases[i].rows, cases[i].batch,
                        cases[i].kv_len),
              cases[i].pays, "case", (int)i, 0);
    }
    test_defaults();
    printf("%s\n", failed ? "failed" : "passed");
    return failed != 0;
}
