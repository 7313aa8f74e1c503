/* Declarations of types.h: names of statuses, tiers and constants, the version, views of memory. */
#include "attention_case.h"
#include "core/names.h"

#include <limits.h>
#include <stdio.h>

static void test_names(void) {
    static const char *const names[] = {"FOVEA_OK",
                                        "FOVEA_ERROR_NULL",
                                        "FOVEA_ERROR_SHAPE",
                                        "FOVEA_ERROR_OVERFLOW",
                                        "FOVEA_ERROR_STRIDE",
                                        "FOVEA_ERROR_DTYPE",
                                        "FOVEA_ERROR_ALIAS",
                                        "FOVEA_ERROR_WORKSPACE",
                                        "FOVEA_ERROR_VERSION",
                                        "FOVEA_ERROR_ARGUMENT",
                                        "FOVEA_ERROR_ENVIRONMENT",
                                        "FOVEA_ERROR_UNSUPPORTED",
                                        "FOVEA_ERROR_OUT_OF_MEMORY",
                                        "FOVEA_ERROR_FILE",
                                        "FOVEA_ERROR_TUNING",
                                        "FOVEA_ERROR_INCOMPATIBLE",
                                        "FOVEA_ERROR_BUSY",
                                        "FOVEA_ERROR_FULL"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        test_check(strcmp(fovea_status_name((fovea_status)i), names[i]) == 0, "status %d is called %s", i,
                   fovea_status_name((fovea_status)i));
    static const int unknown[] = {-1, 18, 1000, INT_MIN, INT_MAX};
    for (int i = 0; i < 5; i++) {
        test_check(strcmp(fovea_status_name((fovea_status)unknown[i]), "unknown status") == 0, "status %d is called %s",
                   unknown[i], fovea_status_name((fovea_status)unknown[i]));
        test_check(strcmp(fovea_isa_name((fovea_isa)unknown[i]), "unknown") == 0, "isa %d is called %s", unknown[i],
                   fovea_isa_name((fovea_isa)unknown[i]));
        test_check(strcmp(fovea_arithmetic_name((fovea_arithmetic)unknown[i]), "unknown") == 0,
                   "arithmetic %d is called %s", unknown[i], fovea_arithmetic_name((fovea_arithmetic)unknown[i]));
    }
    static const char *const arithmetics[] = {"exact", "bf16", "bf16_tile", "fastest"};
    for (int i = 0; i < 4; i++)
        test_check(strcmp(fovea_arithmetic_name((fovea_arithmetic)i), arithmetics[i]) == 0,
                   "arithmetic %d is called %s", i, fovea_arithmetic_name((fovea_arithmetic)i));
    static const char *const tiers[] = {"scalar", "avx2", "avx512", "neon"};
    for (int i = 0; i < 4; i++)
        test_check(strcmp(fovea_isa_name((fovea_isa)(i + 1)), tiers[i]) == 0, "tier %d is called %s", i + 1,
                   fovea_isa_name((fovea_isa)(i + 1)));
    test_check(strcmp(fovea_version(), FOVEA_VERSION_STRING) == 0, "the library's version is %s", fovea_version());
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", FOVEA_VERSION_MAJOR, FOVEA_VERSION_MINOR, FOVEA_VERSION_PATCH);
    test_check(strcmp(version, FOVEA_VERSION_STRING) == 0, "FOVEA_VERSION_STRING is not %s", version);
}

/* Constants by their names, as sentences tell them. */
static void test_enums(void) {
#define CONSTANT(type, value)                                                                                          \
    { FV_ENUM_##type, (int)(value), #value }
    static const struct {
        fv_enum type;
        int value;
        const char *name;
    } all[] = {
        CONSTANT(dtype, FOVEA_DTYPE_F32),
        CONSTANT(dtype, FOVEA_DTYPE_BOOL),
        CONSTANT(dtype, FOVEA_DTYPE_BITS),
        CONSTANT(dtype, FOVEA_DTYPE_I64),
        CONSTANT(dtype, FOVEA_DTYPE_BF16),
        CONSTANT(dtype, FOVEA_DTYPE_F16),
        CONSTANT(dtype, FOVEA_DTYPE_I8),
        CONSTANT(dtype, FOVEA_DTYPE_U4),
        CONSTANT(dtype, FOVEA_DTYPE_U8),
        CONSTANT(dtype, FOVEA_DTYPE_Q8_0),
        CONSTANT(dtype, FOVEA_DTYPE_Q4_0),
        CONSTANT(dtype, FOVEA_DTYPE_Q4_1),
        CONSTANT(dtype, FOVEA_DTYPE_Q4_K),
        CONSTANT(dtype, FOVEA_DTYPE_Q5_K),
        CONSTANT(dtype, FOVEA_DTYPE_Q6_K),
        CONSTANT(dtype, FOVEA_DTYPE_I4),
        CONSTANT(dtype, FOVEA_DTYPE_Q5_0),
        CONSTANT(dtype, FOVEA_DTYPE_Q5_1),
        CONSTANT(dtype, FOVEA_DTYPE_MXFP4),
        CONSTANT(dtype, FOVEA_DTYPE_IQ4_NL),
        CONSTANT(dtype, FOVEA_DTYPE_F8_E4M3),
        CONSTANT(isa, FOVEA_ISA_BEST),
        CONSTANT(isa, FOVEA_ISA_SCALAR),
        CONSTANT(isa, FOVEA_ISA_AVX2),
        CONSTANT(isa, FOVEA_ISA_AVX512),
        CONSTANT(isa, FOVEA_ISA_NEON),
        CONSTANT(causal, FOVEA_CAUSAL_NONE),
        CONSTANT(causal, FOVEA_CAUSAL_TOP_LEFT),
        CONSTANT(causal, FOVEA_CAUSAL_BOTTOM_RIGHT),
        CONSTANT(causal, FOVEA_CAUSAL_OFFSET),
        CONSTANT(mask_kind, FOVEA_MASK_NONE),
        CONSTANT(mask_kind, FOVEA_MASK_BOOLEAN),
        CONSTANT(mask_kind, FOVEA_MASK_ADDITIVE),
        CONSTANT(mask_kind, FOVEA_MASK_BITS),
        CONSTANT(mask_kind, FOVEA_MASK_KEY_PADDING),
        CONSTANT(mask_kind, FOVEA_MASK_RANGES),
        CONSTANT(mask_kind, FOVEA_MASK_BLOCKS),
        CONSTANT(mask_kind, FOVEA_MASK_PREPARED),
        CONSTANT(relative, FOVEA_RELATIVE_NONE),
        CONSTANT(relative, FOVEA_RELATIVE_ALIBI),
        CONSTANT(relative, FOVEA_RELATIVE_TOEPLITZ),
        CONSTANT(relative, FOVEA_RELATIVE_T5),
        CONSTANT(relative, FOVEA_RELATIVE_WINDOW_2D),
        CONSTANT(activation, FOVEA_ACTIVATION_NONE),
        CONSTANT(activation, FOVEA_ACTIVATION_RELU),
        CONSTANT(activation, FOVEA_ACTIVATION_GELU),
        CONSTANT(activation, FOVEA_ACTIVATION_GELU_TANH),
        CONSTANT(activation, FOVEA_ACTIVATION_SILU),
        CONSTANT(activation, FOVEA_ACTIVATION_SILU_GATED),
        CONSTANT(activation, FOVEA_ACTIVATION_TANH),
        CONSTANT(activation, FOVEA_ACTIVATION_SIGMOID),
        CONSTANT(activation, FOVEA_ACTIVATION_GELU_GATED),
        CONSTANT(activation, FOVEA_ACTIVATION_GELU_TANH_GATED),
        CONSTANT(activation, FOVEA_ACTIVATION_SOFTPLUS),
        CONSTANT(pooling, FOVEA_POOLING_FIRST),
        CONSTANT(pooling, FOVEA_POOLING_LAST),
        CONSTANT(pooling, FOVEA_POOLING_MEAN),
        CONSTANT(pooling, FOVEA_POOLING_MEAN_SQRT_LEN),
        CONSTANT(pooling, FOVEA_POOLING_WEIGHTED_MEAN),
        CONSTANT(pooling, FOVEA_POOLING_MAX),
        CONSTANT(mha_form, FOVEA_MHA_FACTORED),
        CONSTANT(mha_form, FOVEA_MHA_MERGED),
        CONSTANT(mha_form, FOVEA_MHA_FOLDED),
        CONSTANT(mha_form, FOVEA_MHA_PROJECTED),
        CONSTANT(mha_form, FOVEA_MHA_TIED),
        CONSTANT(mha_form, FOVEA_MHA_FUSED),
        CONSTANT(mha_inputs, FOVEA_MHA_SELF),
        CONSTANT(mha_inputs, FOVEA_MHA_CROSS),
        CONSTANT(mha_inputs, FOVEA_MHA_SEPARATE),
        CONSTANT(mha_merge, FOVEA_MHA_MERGE_QUERIES),
        CONSTANT(score_kind, FOVEA_SCORES_RAW),
        CONSTANT(score_kind, FOVEA_SCORES_CAPPED),
        CONSTANT(score_kind, FOVEA_SCORES_BIASED),
        CONSTANT(score_kind, FOVEA_SCORES_WEIGHTS),
        CONSTANT(mha_merge, FOVEA_MHA_MERGE_KEYS),
        CONSTANT(mha_fold, FOVEA_MHA_FOLD_NEVER),
        CONSTANT(mha_fold, FOVEA_MHA_FOLD_CHEAPER),
        CONSTANT(mha_fold, FOVEA_MHA_FOLD_ALWAYS),
        CONSTANT(mha_order, FOVEA_MHA_ORDER_QKV),
        CONSTANT(mha_order, FOVEA_MHA_ORDER_GROUPED),
        CONSTANT(packing, FOVEA_PACKING_PLAIN),
        CONSTANT(packing, FOVEA_PACKING_GPTQ),
        CONSTANT(packing, FOVEA_PACKING_AWQ),
        CONSTANT(rope_pairing, FOVEA_ROPE_HALVES),
        CONSTANT(rope_pairing, FOVEA_ROPE_ADJACENT),
        CONSTANT(rope_scaling, FOVEA_ROPE_UNSCALED),
        CONSTANT(rope_scaling, FOVEA_ROPE_LINEAR),
        CONSTANT(rope_scaling, FOVEA_ROPE_NTK),
        CONSTANT(rope_scaling, FOVEA_ROPE_YARN),
        CONSTANT(rope_scaling, FOVEA_ROPE_LLAMA3),
        CONSTANT(threads_backend, FOVEA_THREADS_DEFAULT),
        CONSTANT(threads_backend, FOVEA_THREADS_OPENMP),
        CONSTANT(threads_backend, FOVEA_THREADS_POOL),
        CONSTANT(placement, FOVEA_PLACEMENT_DEFAULT),
        CONSTANT(placement, FOVEA_PLACEMENT_NODE),
        CONSTANT(placement, FOVEA_PLACEMENT_SPREAD),
        CONSTANT(placement, FOVEA_PLACEMENT_COPIES),
        CONSTANT(arithmetic, FOVEA_ARITHMETIC_EXACT),
        CONSTANT(arithmetic, FOVEA_ARITHMETIC_BF16),
        CONSTANT(arithmetic, FOVEA_ARITHMETIC_BF16_TILE),
        CONSTANT(arithmetic, FOVEA_ARITHMETIC_FASTEST),
        CONSTANT(arithmetic, FOVEA_ARITHMETIC_DEFAULT),
        CONSTANT(arithmetic, FOVEA_ARITHMETIC_Q16),
        CONSTANT(arithmetic, FOVEA_ARITHMETIC_Q8),
    };
#undef CONSTANT
    int named = 0;
    for (int type = 0; type < FV_ENUMS; type++)
        for (int value = -2; value < 100; value++)
            named += fv_enum_name((fv_enum)type, value) != NULL;
    test_check(named == (int)(sizeof all / sizeof all[0]), "%d constants have names", named);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const char *name = fv_enum_name(all[i].type, all[i].value);
        test_check(name && strcmp(name, all[i].name) == 0, "%s is called %s", all[i].name, name ? name : "nothing");
    }
}

/* fovea_dtype_info(), written a second time. */
static void test_dtypes(void) {
    static const struct {
        fovea_dtype dtype;
        const char *name;
        int bits, elements, bytes;
        const char *uses; /* c: computed, s: stored, k: cached, b: separate scales */
    } rows[] = {{FOVEA_DTYPE_F32, "f32", 32, 1, 4, "csk"},      {FOVEA_DTYPE_BOOL, "bool", 8, 1, 1, ""},
                {FOVEA_DTYPE_BITS, "bits", 8, 1, 1, ""},        {FOVEA_DTYPE_I64, "i64", 64, 1, 8, ""},
                {FOVEA_DTYPE_BF16, "bf16", 16, 1, 2, "csk"},    {FOVEA_DTYPE_F16, "f16", 16, 1, 2, "csk"},
                {FOVEA_DTYPE_I8, "i8", 8, 1, 1, "skb"},         {FOVEA_DTYPE_U4, "u4", 4, 2, 1, "sb"},
                {FOVEA_DTYPE_U8, "u8", 8, 1, 1, "sb"},          {FOVEA_DTYPE_Q8_0, "q8_0", 8, 32, 34, "s"},
                {FOVEA_DTYPE_Q4_0, "q4_0", 4, 32, 18, "s"},     {FOVEA_DTYPE_Q4_1, "q4_1", 4, 32, 20, "s"},
                {FOVEA_DTYPE_Q4_K, "q4_k", 4, 256, 144, "s"},   {FOVEA_DTYPE_Q5_K, "q5_k", 5, 256, 176, "s"},
                {FOVEA_DTYPE_Q6_K, "q6_k", 6, 256, 210, "s"},   {FOVEA_DTYPE_I4, "i4", 4, 2, 1, "kb"},
                {FOVEA_DTYPE_Q5_0, "q5_0", 5, 32, 22, "s"},     {FOVEA_DTYPE_Q5_1, "q5_1", 5, 32, 24, "s"},
                {FOVEA_DTYPE_MXFP4, "mxfp4", 4, 32, 17, "s"},   {FOVEA_DTYPE_IQ4_NL, "iq4_nl", 4, 32, 18, "s"},
                {FOVEA_DTYPE_F8_E4M3, "f8_e4m3", 8, 1, 1, "sb"}};
    enum { ROWS = sizeof rows / sizeof rows[0] };
    for (int i = 0; i < ROWS; i++) {
        const fovea_dtype_facts *f = fovea_dtype_info(rows[i].dtype);
        char uses[8];
        test_check(f != NULL && (int)rows[i].dtype == i + 1, "%s is not type %d, or has no facts", rows[i].name, i + 1);
        if (!f)
            continue;
        snprintf(uses, sizeof uses, "%s%s%s%s", f->computed ? "c" : "", f->stored ? "s" : "", f->cached ? "k" : "",
                 f->scaled ? "b" : "");
        test_check(strcmp(f->name, rows[i].name) == 0 && f->bits == rows[i].bits &&
                       f->block_elements == rows[i].elements && f->block_bytes == rows[i].bytes &&
                       strcmp(uses, rows[i].uses) == 0,
                   "%s: %s, %d bits, %d elements in %d bytes, uses %s", rows[i].name, f->name, f->bits,
                   f->block_elements, f->block_bytes, uses);
    }
    static const int unknown[] = {-1, 0, ROWS + 1, 1000, INT_MIN, INT_MAX};
    for (int i = 0; i < 6; i++)
        test_check(fovea_dtype_info((fovea_dtype)unknown[i]) == NULL, "type %d has facts", unknown[i]);
}

static void test_activations(void) {
    static const char *const names[] = {"none", "relu",    "gelu",       "gelu_tanh",       "silu",    "silu_gated",
                                        "tanh", "sigmoid", "gelu_gated", "gelu_tanh_gated", "softplus"};
    enum { NAMES = sizeof names / sizeof names[0] };
    for (int i = 0; i < NAMES; i++) {
        const fovea_activation_facts *f = fovea_activation_info((fovea_activation)i);
        test_check(f && strcmp(f->name, names[i]) == 0, "activation %d is called %s", i, f ? f->name : "nothing");
        const fovea_activation_facts *gate = f ? fovea_activation_info(f->gate) : NULL;
        char gated[32];
        snprintf(gated, sizeof gated, "%s%s", gate ? gate->name : "", strstr(names[i], "_gated") ? "_gated" : "");
        test_check(strcmp(gated, names[i]) == 0, "the gate of %s is %s", names[i], gate ? gate->name : "nothing");
        test_check(strcmp(fv_activation_words[i], names[i]) == 0, "word %d is %s", i, fv_activation_words[i]);
    }
    test_check(fv_activation_words[NAMES] == NULL, "the words have no end");
    static const int unknown[] = {-1, NAMES, 1000, INT_MIN, INT_MAX};
    for (int i = 0; i < 5; i++)
        test_check(fovea_activation_info((fovea_activation)unknown[i]) == NULL, "activation %d has facts", unknown[i]);
}

static void test_tensors(void) {
    float x;
    fovea_tensor t = fovea_tensor_bhtd(&x, FOVEA_DTYPE_F32, 2, 3, 5, 7);
    const int64_t bhtd[] = {105, 35, 7, 1}, bthd[] = {105, 7, 21, 1}, shape[] = {2, 3, 5, 7};
    test_check(t.data == &x && t.dtype == FOVEA_DTYPE_F32 && memcmp(t.shape, shape, sizeof shape) == 0 &&
                   memcmp(t.stride, bhtd, sizeof bhtd) == 0,
               "fovea_tensor_bhtd");
    t = fovea_tensor_bthd(&x, FOVEA_DTYPE_BOOL, 2, 3, 5, 7); /* 2 sequences of 3 tokens of 5 heads */
    const int64_t swapped[] = {2, 5, 3, 7}, strides[] = {105, 7, 35, 1};
    test_check(t.data == &x && t.dtype == FOVEA_DTYPE_BOOL && memcmp(t.shape, swapped, sizeof swapped) == 0 &&
                   memcmp(t.stride, strides, sizeof strides) == 0,
               "fovea_tensor_bthd");
    t = fovea_tensor_bthd(&x, FOVEA_DTYPE_F32, 2, 5, 3, 7);
    test_check(memcmp(t.stride, bthd, sizeof bthd) == 0, "fovea_tensor_bthd strides");
}

/* Some of a tensor's tokens: another address and another size, and nothing else. */
static void test_tensor_tokens(void) {
    static float room[2 * 3 * 5 * 7];
    static unsigned char mask[5 * 7];
    const fovea_tensor cache = fovea_tensor_bhtd(room, FOVEA_DTYPE_F32, 2, 3, 5, 7);
    fovea_tensor t = fovea_tensor_tokens(cache, 2, 3);
    const int64_t shape[] = {2, 3, 3, 7};
    test_check(t.data == room + 2 * 7 && t.dtype == cache.dtype && t.quantization == NULL &&
                   memcmp(t.shape, shape, sizeof shape) == 0 && memcmp(t.stride, cache.stride, sizeof t.stride) == 0,
               "fovea_tensor_tokens of contiguous heads");
    t = fovea_tensor_tokens(fovea_tensor_bthd(room, FOVEA_DTYPE_F32, 2, 5, 3, 7), 4, 1);
    test_check(t.data == room + 4 * 21 && t.shape[2] == 1 && t.stride[2] == 21, "fovea_tensor_tokens of tokens");
    t = fovea_tensor_tokens(fovea_tensor_bhtd(mask, FOVEA_DTYPE_BOOL, 1, 1, 5, 7), 3, 2);
    test_check(t.data == mask + 21 && t.shape[2] == 2, "fovea_tensor_tokens of bytes");
    t = fovea_tensor_tokens(cache, 5, 0);
    test_check(t.shape[2] == 0, "fovea_tensor_tokens of none");
    t = fovea_tensor_tokens((fovea_tensor){.shape = {1, 1, 9, 1}, .stride = {9, 9, 1, 1}}, 4, 5);
    test_check(t.data == NULL && t.shape[2] == 5, "fovea_tensor_tokens of an absent tensor");
    static const int64_t wrong[][2] = {{-1, 1},        {0, 6},        {6, 0}, {1, 5}, {0, -1}, {INT64_MAX, INT64_MAX},
                                       {INT64_MIN, 1}, {1, INT64_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        t = fovea_tensor_tokens(cache, wrong[i][0], wrong[i][1]);
        test_check(t.shape[2] == -1, "fovea_tensor_tokens of tokens that are not there: %zu", i);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "types", NULL);
    test_names();
    test_enums();
    test_dtypes();
    test_activations();
    test_tensors();
    test_tensor_tokens();
    return test_end();
}
