/* A described machine (tests/machines, described.h): what the library selects, plans and says there, against a record.
 *
 *   test-machines --machine tests/machines/NAME.txt            compares with NAME.expected
 *   test-machines --machine tests/machines/NAME.txt --write    writes it
 *
 * The record has the same bytes whatever CPU, affinity, quota and environment this process has. In it are
 *
 *   contexts    tier, features, threads and their reason, nodes; by options and environment
 *   kernels     the best row of each task, and products by rows and columns; of capped tiers a hash of these
 *   attention   plans, with all threads and with one
 *   linear      maps of each type of weights
 *   tuning      a file that is written, read and used, and that other machines refuse
 *
 * Nothing of this executes a kernel, but for packing (described.h). Running plans is left to other tests. */
#define _DEFAULT_SOURCE /* setenv */
#include "attention_case.h"
#include "described.h"
#include "dispatch/dispatch.h"
#include "linear/knobs.h"
#include "linear/linear.h"
#include "record.h"
#include "test.h"
#include "tuning_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tasks run one after another on the calling thread. */
static void serial(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)pool;
    for (int64_t i = 0; i < count; i++)
        task(arg, i);
}

/* A context of that many threads, or as many as the machine allows where the number is 0. */
static fovea_context *serial_context(int threads, const char *file) {
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.threads = threads;
    options.parallel_for = serial;
    options.tuning_file = file;
    if (!test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail()))
        exit(TEST_FAILED);
    return ctx;
}

/* ------------------------------------------------------------------------------------------------------ contexts -- */

/* Nodes and arithmetics where they are others than in the context before. */
static void say_context(const char *what, const fovea_context_options *options) {
    static char before[1024];
    char more[1024];
    fovea_context *ctx;
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    if (fovea_context_create(options, &ctx) != FOVEA_OK) {
        say("%s: %s\n", what, fovea_error_detail());
        return;
    }
    fovea_context_info(ctx, &info);
    snprintf(more, sizeof more, "  %s; fastest: attention %s, linear maps %s\n", info.nodes,
             fovea_arithmetic_name(info.fastest_attention), fovea_arithmetic_name(info.fastest_linear));
    say("%s: %s, %d threads; %s\n%s", what, fovea_isa_name(info.isa), info.threads, info.reason,
        strcmp(more, before) != 0 ? more : "");
    strcpy(before, more);
    fovea_context_destroy(ctx);
}

static void say_contexts(void) {
    static const struct {
        const char *variable, *value;
    } environments[] = {{"FOVEA_ISA", "scalar"},         {"FOVEA_ISA", "avx2"},
                        {"FOVEA_ISA", "sse9"},           {"FOVEA_THREADS_BACKEND", "pool"},
                        {"FOVEA_THREADS_BIND", "nodes"}, {"FOVEA_ARITHMETIC", "bf16_tile"}};
    fovea_context_options options;
    fovea_context_options_init(&options);
    say_context("default", &options);
    for (int isa = FV_ISA_scalar; isa < FV_ISA_COUNT; isa++) {
        char what[32];
        snprintf(what, sizeof what, "isa %s", fv_isa_word((fv_isa)isa));
        options.isa = (fovea_isa)isa;
        say_context(what, &options);
    }
    fovea_context_options_init(&options);
    options.threads = 3;
    say_context("3 threads", &options);
    options.threads_backend = FOVEA_THREADS_POOL;
    options.threads_bind = FOVEA_BIND_NODES;
    say_context("3 threads of the pool, bound", &options);
    options.threads = 0;
    say_context("threads of the pool, bound", &options);
    fovea_context_options_init(&options);
    options.parallel_for = serial;
    say_context("a caller's pool", &options);
    fovea_context_options_init(&options);
    for (size_t i = 0; i < sizeof environments / sizeof environments[0]; i++) {
        char what[64];
        snprintf(what, sizeof what, "%s=%s", environments[i].variable, environments[i].value);
        setenv(environments[i].variable, environments[i].value, 1);
        say_context(what, &options);
        unsetenv(environments[i].variable);
    }
}

/* ------------------------------------------------------------------------------------------------------- kernels -- */

/* The best row of each task, a line for each operation; products of floats by rows and columns. */
static void say_kernels(fv_target target) {
    const fv_op none = FV_OP_COUNT;
    for (int i = 0, last = none; i < fv_kernel_count; i++) {
        const fv_kernel *row = &fv_kernels[i];
        int first = 0;
        while (!fv_kernel_same_task(&fv_kernels[first], row))
            first++;
        if (first < i)
            continue;
        const fv_kernel *best = row->op == FV_OP_multiply
                                    ? (row->few ? fv_multiply_few : fv_multiply_best)(row->kind, row->format, target)
                                : row->op == FV_OP_pack   ? fv_pack_best(row->source, row->format, target)
                                : row->op == FV_OP_unpack ? fv_unpack_best(row->format, target)
                                                          : fv_kernel_best(row->op, row->type, target);
        say("%s%s", (int)row->op == last ? " " : "\n  ", best ? best->name : "none");
        last = (int)row->op;
    }
    static const int64_t many[] = {1, 3, 4, 6, 8, 13, 16, 64}, wide[] = {16, 40, 64, 768};
    for (int w = 0; w < 4; w++) {
        say("\n  for %" PRId64 " columns:", wide[w]);
        char before[64] = "";
        for (int m = 0; m < 8; m++) {
            const fv_kernel *found[] = {fv_multiply_for(target, many[m], wide[w]),
                                        fv_multiply_for_tile(target, many[m], wide[w]),
                                        fv_multiply_for_stream(target, many[m], wide[w])};
            char tiles[64] = "";
            for (int i = 0; i < 3; i++)
                snprintf(tiles + strlen(tiles), sizeof tiles - strlen(tiles), " %dx%d", found[i]->mr, found[i]->nr);
            if (strcmp(tiles, before) != 0)
                say(" from %" PRId64 " rows%s", many[m], tiles);
            strcpy(before, tiles);
        }
    }
    say("\n");
}

static void say_all_kernels(fv_target target) {
    say("kernels");
    say_kernels(target);
    for (fv_isa isa = fv_isa_below(target.isa); isa != FV_ISA_none; isa = fv_isa_below(isa)) {
        const size_t begin = record_length();
        say_kernels(fv_target_capped(target, isa));
        const uint64_t hash = record_cut(begin);
        say("capped at %s: %016" PRIx64 "\n", fv_isa_word(isa), hash);
    }
}

/* ----------------------------------------------------------------------------------------------------- attention -- */

static const struct {
    const char *name;
    int64_t batch, q_heads, kv_heads, q_len, kv_len, head_dim, page_keys;
    fovea_causal causal;
    fovea_dtype q, k; /* and of v */
    fovea_arithmetic arithmetic;
} plans[] = {
    {"encoder", 8, 12, 12, 32, 32, 64, 0, FOVEA_CAUSAL_NONE, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32, 0},
    {"encoder, long", 1, 12, 12, 512, 512, 64, 0, FOVEA_CAUSAL_NONE, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32, 0},
    {"narrow", 1, 4, 4, 200, 1000, 16, 0, FOVEA_CAUSAL_NONE, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32, 0},
    {"prefill", 1, 32, 8, 2048, 2048, 128, 0, FOVEA_CAUSAL_TOP_LEFT, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32, 0},
    {"wide", 1, 8, 1, 1024, 1024, 256, 0, FOVEA_CAUSAL_TOP_LEFT, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32, 0},
    {"few rows", 1, 8, 8, 5, 4096, 64, 0, FOVEA_CAUSAL_BOTTOM_RIGHT, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32, 0},
    {"17 rows", 1, 2, 2, 17, 300, 80, 0, FOVEA_CAUSAL_NONE, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32, 0},
    {"decode", 1, 32, 8, 1, 4096, 128, 0, FOVEA_CAUSAL_NONE, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32, 0},
    {"decode, one head", 1, 1, 1, 1, 100000, 64, 0, FOVEA_CAUSAL_NONE, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32, 0},
    {"decode, cache", 16, 32, 8, 1, 2048, 128, 256, FOVEA_CAUSAL_NONE, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32, 0},
    {"decode, bf16 cache", 4, 9, 3, 1, 2048, 64, 256, FOVEA_CAUSAL_NONE, FOVEA_DTYPE_BF16, FOVEA_DTYPE_BF16, 0},
    {"decode, f16 cache", 4, 9, 3, 1, 2048, 64, 256, FOVEA_CAUSAL_NONE, FOVEA_DTYPE_F32, FOVEA_DTYPE_F16, 0},
    {"decode, int8 cache", 1, 32, 8, 1, 4096, 128, 256, FOVEA_CAUSAL_NONE, FOVEA_DTYPE_F32, FOVEA_DTYPE_I8, 0},
    {"prefill, int8 cache", 1, 32, 8, 300, 4096, 128, 256, FOVEA_CAUSAL_BOTTOM_RIGHT, FOVEA_DTYPE_F32, FOVEA_DTYPE_I8,
     0},
    {"prefill, bf16", 1, 9, 3, 700, 700, 64, 0, FOVEA_CAUSAL_TOP_LEFT, FOVEA_DTYPE_BF16, FOVEA_DTYPE_BF16, 0},
    {"prefill, bf16, bf16", 1, 9, 3, 700, 700, 64, 0, FOVEA_CAUSAL_TOP_LEFT, FOVEA_DTYPE_BF16, FOVEA_DTYPE_BF16,
     FOVEA_ARITHMETIC_BF16},
    {"prefill, bf16, tile", 1, 9, 3, 700, 700, 64, 0, FOVEA_CAUSAL_TOP_LEFT, FOVEA_DTYPE_BF16, FOVEA_DTYPE_BF16,
     FOVEA_ARITHMETIC_BF16_TILE},
    {"prefill, bf16, fastest", 1, 9, 3, 700, 700, 64, 0, FOVEA_CAUSAL_TOP_LEFT, FOVEA_DTYPE_BF16, FOVEA_DTYPE_BF16,
     FOVEA_ARITHMETIC_FASTEST},
    {"prefill, f16", 1, 12, 12, 256, 256, 64, 0, FOVEA_CAUSAL_TOP_LEFT, FOVEA_DTYPE_F16, FOVEA_DTYPE_F16, 0},
};

static void say_plan(const fovea_context *ctx, size_t i, const char *until) {
    fovea_attention_desc d;
    fovea_attention_plan *plan;
    char text[4096];
    fovea_attention_desc_init(&d);
    d.batch = plans[i].batch;
    d.q_heads = plans[i].q_heads;
    d.kv_heads = plans[i].kv_heads;
    d.q_len = plans[i].q_len;
    d.kv_len = plans[i].kv_len;
    d.head_dim = d.value_dim = plans[i].head_dim;
    d.page_keys = plans[i].page_keys;
    d.causal = plans[i].causal;
    d.dtype = d.out_dtype = plans[i].q;
    d.k_dtype = d.v_dtype = plans[i].k;
    d.arithmetic = plans[i].arithmetic;
    say("attention, %s, %d threads\n", plans[i].name, ctx->threads.count);
    if (!test_check(fovea_attention_plan_create(ctx, &d, &plan) == FOVEA_OK, "%s: %s", plans[i].name,
                    fovea_error_detail()))
        return;
    fovea_attention_plan_describe(plan, text, sizeof text);
    say_lines(text, until);
    fovea_attention_plan_destroy(plan);
}

static void say_plans(const fovea_context *all, const fovea_context *one) {
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        say_plan(all, i, i ? "tuned" : NULL);
        if (all->threads.count > 1 && i % 3 == 1)
            say_plan(one, i, "tuned");
    }
}

/* -------------------------------------------------------------------------------------------------------- linear -- */

static const struct {
    int64_t in, out;
    fovea_dtype type;
    fovea_arithmetic arithmetic;
} maps[] = {{384, 1152, FOVEA_DTYPE_F32, 0},
            {768, 64, FOVEA_DTYPE_F32, 0},
            {4096, 1024, FOVEA_DTYPE_F32, 0},
            {576, 1536, FOVEA_DTYPE_BF16, 0},
            {576, 1536, FOVEA_DTYPE_BF16, FOVEA_ARITHMETIC_BF16},
            {576, 1536, FOVEA_DTYPE_BF16, FOVEA_ARITHMETIC_BF16_TILE},
            {576, 1536, FOVEA_DTYPE_F16, 0},
            {768, 768, FOVEA_DTYPE_I8, 0},
            {768, 768, FOVEA_DTYPE_Q8_0, FOVEA_ARITHMETIC_Q16},
            {768, 768, FOVEA_DTYPE_Q4_0, FOVEA_ARITHMETIC_Q16},
            {2048, 512, FOVEA_DTYPE_Q4_K, FOVEA_ARITHMETIC_Q16},
            {2048, 512, FOVEA_DTYPE_Q4_K, FOVEA_ARITHMETIC_Q8},
            {2048, 512, FOVEA_DTYPE_Q6_K, FOVEA_ARITHMETIC_Q16}};

/* All weights are zeros of one row. */
static fovea_linear *map_make(const fovea_context *ctx, size_t i) {
    static const float zeros[8192];
    const bool blocks = fv_dtype_quantized(maps[i].type) && maps[i].type != FOVEA_DTYPE_I8;
    fovea_quantization quantization;
    fovea_linear_desc d;
    fovea_linear *map;
    fovea_quantization_init(&quantization);
    quantization.scales = zeros;
    fovea_linear_desc_init(&d);
    d.dtype = fv_dtype_quantized(maps[i].type) ? FOVEA_DTYPE_F32 : maps[i].type;
    d.in_features = maps[i].in;
    d.arithmetic = maps[i].arithmetic;
    d.part.weight = (fovea_matrix){
        .data = zeros, .dtype = maps[i].type, .in = maps[i].in, .out = maps[i].out, .in_stride = blocks ? 1 : 0};
    if (maps[i].type == FOVEA_DTYPE_I8)
        d.part.weight.quantization = &quantization;
    if (!test_check(fovea_linear_create(ctx, &d, &map) == FOVEA_OK, "map %zu: %s", i, fovea_error_detail()))
        exit(TEST_FAILED);
    return map;
}

static void say_maps(const fovea_context *ctx) {
    static const int64_t rows[] = {1, 7, 40, 1000};
    char text[4096];
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        fovea_linear *map = map_make(ctx, i);
        say("linear, %s", fv_enum_name(FV_ENUM_dtype, (int)maps[i].type) + sizeof "FOVEA_DTYPE");
        fovea_linear_describe(map, text, sizeof text);
        say_lines(text, i ? "tuned" : NULL);
        char before[sizeof text] = "";
        for (int r = 0; r < 4; r++) {
            fv_linear_describe_rows(map, rows[r], text, sizeof text);
            char *product = strstr(text, "product ");
            *strstr(product, "\n") = '\0';
            if (strcmp(product, before) != 0)
                say("  from %" PRId64 " rows: %s\n", rows[r], product + sizeof "product");
            strcpy(before, product);
        }
        fovea_linear_destroy(map);
    }
}

/* -------------------------------------------------------------------------------------------------------- tuning -- */

static void say_tuning_of(const char *what, const fv_cpu *cpu, const char *path) {
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    fovea_context_options_init(&options);
    options.threads = 1;
    options.tuning_file = path;
    test_check(fv_context_create_on(cpu, &options, &ctx) == FOVEA_OK, "%s: %s", what, fovea_error_detail());
    fovea_context_info(ctx, &info);
    say_cleaned(path, what, info.tuning);
    fovea_context_destroy(ctx);
}

/* Written here, it is used here, and refused where a fact of its cpu line is another. */
static void say_tuning(fv_target target) {
    static char text[FV_TUNING_BYTES];
    char path[256];
    files_begin();
    snprintf(path, sizeof path, "%s", files_name("tuning"));
    fovea_tuning *tuning = tuning_sound(1);
    tuning->rows = FV_TUNING_linear_few_u4 + 1; /* formats of blocks come and go */
    tuning_text(tuning, NULL, NULL, NULL, text, sizeof text);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        static const char *const shown[] = {"fovea-", "# ", "cpu ", "attention_f32 ", "linear_u4 ", "end "};
        for (int i = 0; i < 6; i++)
            if (strncmp(line, shown[i], strlen(shown[i])) == 0)
                say_cleaned("", "tuning", line);
    }
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    fovea_tuning_destroy(tuning);
    fv_cpu cpu = *machine_facts();
    say_tuning_of("here", &cpu, path);
    cpu.quota = 3, cpu.affinity = 2, cpu.memory = 1 << 20, cpu.nodes.count = 0; /* what no tuning depends on */
    say_tuning_of("with another quota", &cpu, path);
    cpu.cores++;
    say_tuning_of("with another core", &cpu, path);
    cpu = *machine_facts();
    cpu.l2 *= 2;
    say_tuning_of("with a larger cache", &cpu, path);
    cpu = *machine_facts();
    cpu.model++;
    say_tuning_of("another model", &cpu, path);
    cpu = *machine_facts();
    cpu.target = fv_target_capped(target, FV_ISA_scalar);
    say_tuning_of("without its tier", &cpu, path);
    fovea_context *ctx = serial_context(1, path);
    say_plan(ctx, 1, "tuned");
    fovea_linear *map = map_make(ctx, 1);
    char words[4096];
    fv_linear_describe_rows(map, 40, words, sizeof words);
    say_cleaned(path, "linear", strstr(words, "tuned"));
    fovea_linear_destroy(map);
    fovea_context_destroy(ctx);
    files_end();
}

int main(int argc, char **argv) {
    test_option options[] = {MACHINE_OPTION,
                             {"--write", NULL, "write NAME.expected, instead of comparing with it", NULL},
                             {NULL, NULL, NULL, NULL}};
    char record_path[512];
    const char *path = machine_test_begin(argc, argv, "machines", options);
    if (!path || strlen(path) < 4 || strlen(path) > sizeof record_path - 8) {
        fprintf(stderr, "machines: --machine tests/machines/NAME.txt is missing\n");
        return TEST_USAGE;
    }
    static const fovea_dtype types[] = {FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16, FOVEA_DTYPE_I8};
    for (int i = 0; i < 3; i++)
        if (!fv_dtype_built(types[i])) {
            test_skip("%s: a type is left out of this build", path);
            return test_end();
        }
    snprintf(record_path, sizeof record_path, "%.*s.expected", (int)strlen(path) - 4, path);
    setenv("FOVEA_TUNING_FILE", "", 1);
    fovea_context *all = serial_context(0, ""), *one = serial_context(1, "");
    say_contexts();
    say_all_kernels(all->target);
    say_plans(all, one);
    say_maps(all);
    say_tuning(all->target);
    fovea_context_destroy(all);
    fovea_context_destroy(one);
    record_end(record_path, test_option_value(options, "--write") != NULL);
    return test_end();
}
