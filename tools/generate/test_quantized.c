/* Weights that run as a GGUF file stores them: tiny models of each type of blocks and floats, and of several types
 * in one layer, against the same models widened to float32 by the formulas of gguf_blocks.c. `exact` gives their
 * bits; q16 and q8 are near, with the same bits on each tier. Files whose scales stand for no numbers are refused. */
#include "make_gguf.h"
#include "model.h"

#include "folder.h"
#include "test.h"

#include <math.h>
#include <stdio.h>

enum {
    WORDS = 12,
    WIDTH = 256,
    INNER = 512,
    KV = 128,
    ARRAYS = 13,
    GATE = 8,  /* the first of three that are stacks where there are experts */
    HEAD = 11, /* of its own, or the words are the head */
    ROUTER = 12,
    EXPERTS = 3,
    TOKENS = 6,
    PATH_MOST = 128,
    BLOCK_MOST = 210
};

static char sentence[1024];
static const complaint to = {sentence, sizeof sentence};

static const struct {
    const char *name;
    uint64_t columns, rows; /* rows 0: a vector, of ones */
} arrays[ARRAYS] = {{"token_embd.weight", WIDTH, WORDS},          {"output_norm.weight", WIDTH, 0},
                    {"blk.0.attn_norm.weight", WIDTH, 0},         {"blk.0.ffn_norm.weight", WIDTH, 0},
                    {"blk.0.attn_q.weight", WIDTH, WIDTH},        {"blk.0.attn_k.weight", WIDTH, KV},
                    {"blk.0.attn_v.weight", WIDTH, KV},           {"blk.0.attn_output.weight", WIDTH, WIDTH},
                    {"blk.0.ffn_gate.weight", WIDTH, INNER},      {"blk.0.ffn_up.weight", WIDTH, INNER},
                    {"blk.0.ffn_down.weight", INNER, WIDTH},      {"output.weight", WIDTH, WORDS},
                    {"blk.0.ffn_gate_inp.weight", WIDTH, EXPERTS}};

/* Types of the arrays; of a bad file, the array whose first scale is NaN. */
typedef struct layout {
    const char *name;
    gguf_type type[ARRAYS];
    bool own_head, experts; /* experts: with own_head */
    int bad;                /* 0: none */
} layout;

static uint64_t random_bits(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void put_u16(uint8_t *at, unsigned bits) {
    at[0] = (uint8_t)bits;
    at[1] = (uint8_t)(bits >> 8);
}

/* A block of any integers, whose numbers are below 1. */
static void random_block(gguf_type type, uint64_t *state, uint8_t block[BLOCK_MOST]) {
    for (int i = 0; i < gguf_block_bytes(type); i++)
        block[i] = (uint8_t)random_bits(state);
    const unsigned fraction = (unsigned)random_bits(state) & 0x3ff;
    switch (type) {
    case GGUF_Q4_0: put_u16(block, 0x1c00 | fraction); break;
    case GGUF_Q4_1:
        put_u16(block, 0x1c00 | fraction);
        put_u16(block + 2, 0xa800 | fraction);
        break;
    case GGUF_IQ4_NL:
    case GGUF_Q8_0: put_u16(block, 0x0c00 | fraction); break;
    case GGUF_Q6_K: put_u16(block + 208, fraction >> 2 | 1); break;
    case GGUF_Q5_0: put_u16(block, 0x1c00 | fraction); break;
    case GGUF_Q5_1: /* sixteenths of 2^-8: numbers of float16, not of bfloat16 */
        put_u16(block, 0x1c00);
        put_u16(block + 2, 0x9c00 | (fraction & 0x3c0));
        break;
    case GGUF_MXFP4: block[0] = (uint8_t)(116 + random_bits(state) % 4); break;
    case GGUF_F32S: put_u16(block + 2, 0x3b80 | (fraction & 0x7f)); break;
    case GGUF_F16S: put_u16(block, 0x1c00 | fraction); break;
    case GGUF_BF16S: put_u16(block, 0x3b80 | (fraction & 0x7f)); break;
    default: /* Q4_K, Q5_K */
        put_u16(block, 0x0200 | fraction >> 1);
        put_u16(block + 2, 0x0a00 | fraction >> 1);
        break;
    }
}

static int array_count(const layout *l) { return l->experts ? ARRAYS : l->own_head ? ROUTER : HEAD; }
static bool is_stack(const layout *l, int i) { return l->experts && i >= GATE && i < HEAD; }

static int64_t array_bytes(const layout *l, int i) {
    return arrays[i].rows == 0 ? 4 * WIDTH
                               : (int64_t)(arrays[i].columns * arrays[i].rows) / gguf_block_elements(l->type[i]) *
                                     gguf_block_bytes(l->type[i]) * (is_stack(l, i) ? EXPERTS : 1);
}

/* A stack's entry, NAME_exps.weight for NAME.weight. */
static void made_stack(made_gguf *g, const char *name, uint64_t columns, uint64_t rows, uint64_t count, gguf_type type,
                       uint64_t place) {
    char stack[64];
    snprintf(stack, sizeof stack, "%.*s_exps.weight", (int)(strlen(name) - strlen(".weight")), name);
    made_text(g, stack);
    made_bits(g, 3, 4);
    made_bits(g, columns, 8);
    made_bits(g, rows, 8);
    made_bits(g, count, 8);
    made_bits(g, type, 4);
    made_bits(g, place, 8);
}

static void make_header(const layout *l, made_gguf *g) {
    static const made_setting settings[] = {{"general.architecture", GGUF_TEXT, 0, "llama"},
                                            {"llama.block_count", GGUF_U32, 1, NULL},
                                            {"llama.embedding_length", GGUF_U32, WIDTH, NULL},
                                            {"llama.feed_forward_length", GGUF_U32, INNER, NULL},
                                            {"llama.context_length", GGUF_U32, 64, NULL},
                                            {"llama.attention.head_count", GGUF_U32, 4, NULL},
                                            {"llama.attention.head_count_kv", GGUF_U32, 2, NULL},
                                            {"llama.attention.layer_norm_rms_epsilon", GGUF_F32, 1e-5, NULL},
                                            {"llama.rope.freq_base", GGUF_F32, 10000, NULL},
                                            {"llama.expert_count", GGUF_U32, EXPERTS, NULL},
                                            {"llama.expert_used_count", GGUF_U32, 2, NULL}};
    const int count = (int)(sizeof settings / sizeof settings[0]) - (l->experts ? 0 : 2);
    made_begin(g, (uint64_t)array_count(l), (uint64_t)count);
    for (int i = 0; i < count; i++)
        made_value(g, &settings[i]);
    int64_t place = 0;
    for (int i = 0; i < array_count(l); i++) {
        const gguf_type type = arrays[i].rows > 0 ? l->type[i] : GGUF_F32S;
        if (is_stack(l, i))
            made_stack(g, arrays[i].name, arrays[i].columns, arrays[i].rows, EXPERTS, type, (uint64_t)place);
        else
            made_tensor(g, arrays[i].name, arrays[i].columns, arrays[i].rows, type, (uint64_t)place);
        place += (array_bytes(l, i) + 31) / 32 * 32;
    }
    while (g->size % 32 != 0)
        made_bits(g, 0, 1);
}

static void write_model(const layout *l, const char *path) {
    static made_gguf g;
    static const uint8_t one[] = {0, 0, 0x80, 0x3f}, zeros[32];
    uint64_t state = 7;
    make_header(l, &g);
    FILE *file = fopen(path, "wb");
    bool good = file != NULL && fwrite(g.bytes, 1, g.size, file) == g.size;
    for (int i = 0; i < array_count(l) && good; i++) {
        const size_t bytes = (size_t)array_bytes(l, i), size = (size_t)gguf_block_bytes(l->type[i]);
        for (size_t done = 0; arrays[i].rows == 0 && done < bytes; done += 4)
            good = fwrite(one, 1, 4, file) == 4 && good;
        for (size_t done = 0; arrays[i].rows > 0 && done < bytes; done += size) {
            uint8_t block[BLOCK_MOST];
            random_block(l->type[i], &state, block);
            if (i + 1 == l->bad && done == 0)
                put_u16(block + (l->type[i] == GGUF_Q6_K ? 208 : 0), 0x7e00);
            good = fwrite(block, 1, size, file) == size && good;
        }
        good = fwrite(zeros, 1, (32 - bytes % 32) % 32, file) == (32 - bytes % 32) % 32 && good;
    }
    test_check(good && fclose(file) == 0, "%s cannot be written", path);
}

/* The logits of all tokens; false: the model was refused, by the sentence. */
static bool run(const char *path, model_options types, fovea_isa isa, float logits[TOKENS * WORDS]) {
    static const int32_t ids[TOKENS] = {0, 3, 8, 1, 9, 11};
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.isa = isa;
    test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "%s", fovea_error_detail());
    model *m = NULL;
    session *s = NULL;
    sentence[0] = '\0';
    const bool loaded = model_load(ctx, path, &types, &m, to) == 0;
    if (loaded) {
        test_check(!model_quantized(m) || types.weights == 0, "weights are not widened");
        const cache_types cache = {types.dtype, types.dtype};
        test_check(session_create(m, 1, TOKENS, cache, &s, to) == 0 && session_run(s, ids, TOKENS, to) == 0 &&
                       session_logits(s, 0, TOKENS, logits, to) == 0,
                   "%s", sentence);
    }
    session_free(s);
    model_free(m);
    fovea_context_destroy(ctx);
    return loaded;
}

/* Root of the mean square of differences, divided by that of what is wanted. */
static double distance(const float *got, const float *want) {
    double off = 0.0, all = 0.0;
    for (int i = 0; i < TOKENS * WORDS; i++) {
        off += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        all += (double)want[i] * want[i];
    }
    return sqrt(off / all);
}

static void test_layout(const layout *l, fovea_dtype dtype) {
    /* q16 rounds inputs to 1/32638 of the largest of their group, q8 to 1/254; five products follow each other. */
    static const struct {
        fovea_arithmetic arithmetic;
        double least, most;
    } kinds[] = {{FOVEA_ARITHMETIC_Q16, 1e-7, 5.0 / 16319}, {FOVEA_ARITHMETIC_Q8, 1e-4, 5.0 / 127}};
    static float want[TOKENS * WORDS], got[TOKENS * WORDS], scalar[TOKENS * WORDS];
    char folder[TEST_FOLDER], path[PATH_MOST];
    test_folder_begin(folder);
    snprintf(path, sizeof path, "%s/blocks.gguf", folder);
    write_model(l, path);
    model_options types = {.dtype = dtype, .weights = FOVEA_DTYPE_F32};
    if (test_check(run(path, types, FOVEA_ISA_BEST, want), "%s: %s", l->name, sentence)) {
        types = (model_options){.dtype = dtype, .has_arithmetic = true, .arithmetic = FOVEA_ARITHMETIC_EXACT};
        if (test_check(run(path, types, FOVEA_ISA_BEST, got), "%s: %s", l->name, sentence))
            test_same(got, want, TOKENS * WORDS, "%s, exact, type %d", l->name, (int)dtype);
        for (int i = 0; dtype == FOVEA_DTYPE_F32 && i < 2; i++) {
            types.arithmetic = kinds[i].arithmetic;
            if (!test_check(run(path, types, FOVEA_ISA_BEST, got), "%s: %s", l->name, sentence))
                continue;
            const double off = distance(got, want);
            test_check(off >= kinds[i].least && off <= kinds[i].most,
                       "%s, arithmetic %d: %.3g from float32, not %g to %g", l->name, (int)types.arithmetic, off,
                       kinds[i].least, kinds[i].most);
            if (test_check(run(path, types, FOVEA_ISA_SCALAR, scalar), "%s: %s", l->name, sentence))
                test_same(got, scalar, TOKENS * WORDS, "%s, arithmetic %d", l->name, (int)types.arithmetic);
        }
    }
    test_folder_end(folder);
}

/* Floats as they are stored: the bits of float32. */
static void test_floats(const fovea_context *ctx, gguf_type type) {
    static float want[TOKENS * WORDS], got[TOKENS * WORDS];
    layout l = {.name = gguf_type_name((uint32_t)type), .own_head = true};
    char folder[TEST_FOLDER], path[PATH_MOST];
    model *m;
    for (int k = 0; k < ARRAYS; k++)
        l.type[k] = type;
    test_folder_begin(folder);
    snprintf(path, sizeof path, "%s/blocks.gguf", folder);
    write_model(&l, path);
    for (int i = 0; i < 2; i++) {
        model_options options = {.dtype = i == 0 ? FOVEA_DTYPE_F32 : FOVEA_DTYPE_BF16, .weights = FOVEA_DTYPE_F32};
        if (!test_check(run(path, options, FOVEA_ISA_BEST, want), "%s: %s", l.name, sentence))
            continue;
        options.weights = 0;
        if (test_check(run(path, options, FOVEA_ISA_BEST, got), "%s: %s", l.name, sentence))
            test_same(got, want, TOKENS * WORDS, "%s, type %d", l.name, (int)options.dtype);
        if (test_check(model_load(ctx, path, &options, &m, to) == 0, "%s", sentence))
            test_check(model_stored(m), "%s is not stored", l.name);
        model_free(m);
    }
    test_folder_end(folder);
}

static void test_refused(const layout *l) {
    static float logits[TOKENS * WORDS];
    char folder[TEST_FOLDER], path[PATH_MOST];
    test_folder_begin(folder);
    snprintf(path, sizeof path, "%s/blocks.gguf", folder);
    write_model(l, path);
    const model_options types[] = {{.dtype = FOVEA_DTYPE_F32}, {.dtype = FOVEA_DTYPE_F32, .weights = FOVEA_DTYPE_F32}};
    for (int i = 0; i < 2; i++)
        test_check(!run(path, types[i], FOVEA_ISA_BEST, logits) && strstr(sentence, "NaN") != NULL,
                   "%s, array %d: \"%s\"", l->name, l->bad, sentence);
    test_folder_end(folder);
}

int main(int argc, char **argv) {
    static const struct {
        gguf_type type;
        const char *name;
    } types[] = {{GGUF_Q8_0, "Q8_0"},   {GGUF_Q4_0, "Q4_0"},     {GGUF_Q4_1, "Q4_1"}, {GGUF_Q5_0, "Q5_0"},
                 {GGUF_MXFP4, "MXFP4"}, {GGUF_IQ4_NL, "IQ4_NL"}, {GGUF_Q5_1, "Q5_1"}, {GGUF_Q4_K, "Q4_K"},
                 {GGUF_Q5_K, "Q5_K"},   {GGUF_Q6_K, "Q6_K"}};
    test_begin(argc, argv, "quantized", NULL);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        layout l = {.name = types[i].name, .own_head = i % 2 == 1};
        for (int k = 0; k < ARRAYS; k++)
            l.type[k] = types[i].type;
        test_layout(&l, FOVEA_DTYPE_F32);
        test_layout(&l, FOVEA_DTYPE_BF16);
        layout moe = l;
        moe.own_head = moe.experts = true;
        moe.type[ROUTER] = GGUF_F32S;
        test_layout(&moe, FOVEA_DTYPE_F32);
        test_layout(&moe, FOVEA_DTYPE_BF16);
        if (types[i].type == GGUF_MXFP4) /* whose scales include NaN */
            continue;
        l.bad = 5; /* Q */
        test_refused(&l);
        l.bad = 1; /* the words */
        test_refused(&l);
    }
    fovea_context *ctx = test_context_untuned();
    test_floats(ctx, GGUF_F32S);
    test_floats(ctx, GGUF_F16S);
    test_floats(ctx, GGUF_BF16S);
    fovea_context_destroy(ctx);
    layout mixed = {.name = "mixed", .own_head = true};
    for (int k = 0; k < ARRAYS; k++)
        mixed.type[k] = types[k % 10].type;
    mixed.type[6] = GGUF_Q6_K; /* V, with Q4_K elsewhere, as Q4_K_M has it */
    mixed.type[4] = mixed.type[5] = GGUF_Q4_K;
    for (int i = 0; i < 2; i++) {
        mixed.experts = i > 0;
        if (mixed.experts) { /* of each, gate and up are one product */
            mixed.type[GATE + 1] = mixed.type[GATE];
            mixed.type[ROUTER] = GGUF_F32S;
        }
        test_layout(&mixed, FOVEA_DTYPE_F32);
        test_layout(&mixed, FOVEA_DTYPE_BF16);
    }
    return test_end();
}
