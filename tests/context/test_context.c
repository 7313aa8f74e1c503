/* Everything of the public API that is not attention itself: contexts and what chooses them, information about them and
 * about plans, sentences. What types.h declares: test_types.c. */
#define _POSIX_C_SOURCE 200809L
#define _DARWIN_C_SOURCE /* _SC_NPROCESSORS_CONF */
#include "attention_case.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static fovea_isa isa_of(const fovea_context *ctx) {
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    test_check(fovea_context_info(ctx, &info) == FOVEA_OK, "fovea_context_info: %s", fovea_error_detail());
    return info.isa;
}

typedef char isa_word[32];

/* Sets FOVEA_ISA (NULL: unsets it); what it was goes into saved, if there is one. */
static void set_isa(const char *word, isa_word saved) {
    const char *before = getenv("FOVEA_ISA");
    if (saved)
        snprintf(saved, sizeof(isa_word), "%s", before ? before : "");
    if (word)
        setenv("FOVEA_ISA", word, 1);
    else
        unsetenv("FOVEA_ISA");
}

/* Runs with FOVEA_ISA set to word (NULL: unset) and restores it. */
static fovea_status create_under(const char *word, const fovea_context_options *options, fovea_context **ctx) {
    isa_word saved;
    set_isa(word, saved);
    const fovea_status status = fovea_context_create(options, ctx);
    set_isa(*saved ? saved : NULL, NULL);
    return status;
}

/* ------------------------------------------------------------------------------------------------------ contexts -- */

static void test_bad_contexts(void) {
    fovea_context_options options;
    fovea_context *ctx;
    check_status("nowhere to put the context", fovea_context_create(NULL, NULL), FOVEA_ERROR_NULL, "ctx");
    const size_t versions[] = {0, 1, FV_STRUCT_SIZE(fovea_context_options, pool) - 8, sizeof options + 8, SIZE_MAX};
    for (int i = 0; i < 5; i++) {
        char words[32];
        snprintf(words, sizeof words, "%zu", versions[i]);
        fovea_context_options_init(&options);
        options.struct_size = versions[i];
        ctx = (fovea_context *)&options;
        check_status("struct_size of options", fovea_context_create(&options, &ctx), FOVEA_ERROR_VERSION, words);
        test_check(ctx == NULL, "struct_size of options: a context");
    }
    static const int tiers[] = {-1, 5, 99, INT_MIN};
    for (int i = 0; i < 4; i++) {
        char words[32];
        snprintf(words, sizeof words, "isa|%d", tiers[i]);
        fovea_context_options_init(&options);
        options.isa = (fovea_isa)tiers[i];
        ctx = (fovea_context *)&options;
        check_status("isa of options", fovea_context_create(&options, &ctx), FOVEA_ERROR_ARGUMENT, words);
        test_check(ctx == NULL, "isa of options: a context");
    }
    static const int threads[] = {-1, INT_MIN};
    for (int i = 0; i < 2; i++) {
        fovea_context_options_init(&options);
        options.threads = threads[i];
        check_status("threads of options", fovea_context_create(&options, &ctx), FOVEA_ERROR_ARGUMENT, "threads");
    }
    static const int backends[] = {-1, FOVEA_THREADS_POOL + 1};
    for (int i = 0; i < 2; i++) {
        fovea_context_options_init(&options);
        options.threads_backend = (fovea_threads_backend)backends[i];
        check_status("threads_backend", fovea_context_create(&options, &ctx), FOVEA_ERROR_ARGUMENT, "threads_backend");
    }
    static const int spins[] = {-1, 1000001};
    for (int i = 0; i < 2; i++) {
        fovea_context_options_init(&options);
        options.pool_spin_us = spins[i];
        check_status("pool_spin_us", fovea_context_create(&options, &ctx), FOVEA_ERROR_ARGUMENT, "pool_spin_us");
    }
    static const char *const words[] = {"sse9", "AVX2", "avx512 ", "scalar,avx2", "1"};
    for (int i = 0; i < 5; i++) {
        char named[64];
        snprintf(named, sizeof named, "FOVEA_ISA|%s|scalar", words[i]);
        ctx = (fovea_context *)&options;
        check_status("FOVEA_ISA", create_under(words[i], NULL, &ctx), FOVEA_ERROR_ENVIRONMENT, named);
        test_check(ctx == NULL, "FOVEA_ISA=%s: a context", words[i]);
    }
    fovea_context_destroy(NULL);
}

/* Caps: the lowest of what the CPU has, the options and the environment say; between architectures, only the portable
 * tier is common. */
static int lower(int tier, int cap) {
    if (cap == FOVEA_ISA_BEST || tier == cap)
        return tier;
    if (tier == FOVEA_ISA_NEON || cap == FOVEA_ISA_NEON)
        return FOVEA_ISA_SCALAR;
    return cap < tier ? cap : tier;
}

static void test_caps(void) {
    static const char *const words[] = {NULL, "scalar", "avx2", "avx512", "neon"};
    fovea_context *ctx;
    test_check(create_under(NULL, NULL, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail());
    const int best = (int)isa_of(ctx);
    fovea_context_destroy(ctx);
    for (int asked = 0; asked < 5; asked++)
        for (int named = 0; named < 5; named++) {
            fovea_context_options options;
            fovea_context_options_init(&options);
            options.isa = (fovea_isa)asked;
            const int want = lower(lower(best, asked), named);
            if (test_check(create_under(words[named], &options, &ctx) == FOVEA_OK, "context: %s",
                           fovea_error_detail())) {
                test_check((int)isa_of(ctx) == want, "isa %d, FOVEA_ISA=%s: tier %s", asked,
                           words[named] ? words[named] : "", fovea_isa_name(isa_of(ctx)));
                fovea_context_destroy(ctx);
            }
        }
    test_check(create_under("", NULL, &ctx) == FOVEA_OK && (int)isa_of(ctx) == best, "an empty FOVEA_ISA");
    fovea_context_destroy(ctx);
}

static void test_info(void) {
    fovea_context_facts info;
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 0, NULL);
    fovea_context_facts_init(&info);
    check_status("info of no context", fovea_context_info(NULL, &info), FOVEA_ERROR_NULL, "ctx");
    check_status("info to nowhere", fovea_context_info(ctx, NULL), FOVEA_ERROR_NULL, "info");
    const size_t versions[] = {0, FV_STRUCT_SIZE(fovea_context_facts, tuning) - 8, sizeof info + 8};
    for (int i = 0; i < 3; i++) {
        fovea_context_facts_init(&info);
        info.struct_size = versions[i];
        info.threads = -5;
        check_status("struct_size of info", fovea_context_info(ctx, &info), FOVEA_ERROR_VERSION, "");
        test_check(info.threads == -5, "struct_size of info: written");
    }
    fovea_context_facts_init(&info);
    test_check(fovea_context_info(ctx, &info) == FOVEA_OK, "info: %s", fovea_error_detail());
    test_check(info.isa == test_isa() && info.struct_size == sizeof info, "info: isa %d", (int)info.isa);
    test_check(info.threads >= 1 && info.threads <= (int)sysconf(_SC_NPROCESSORS_CONF), "info: %d threads",
               info.threads);
    test_check(info.l1d_bytes >= 4096 && info.l2_bytes >= info.l1d_bytes && info.l2_bytes < (int64_t)1 << 32,
               "info: caches of %" PRId64 " and %" PRId64, info.l1d_bytes, info.l2_bytes);
    test_check(strstr(info.reason, fovea_isa_name(info.isa)) != NULL, "info: the reason \"%s\" does not name the tier",
               info.reason);
    fovea_context_destroy(ctx);

    thread_pool *p = thread_pool_create(2); /* the pool knows better: not capped */
    ctx = context_of(FOVEA_ISA_BEST, 500, p);
    test_check(fovea_context_info(ctx, &info) == FOVEA_OK && info.threads == 500, "a pool of 500: %d threads",
               info.threads);
    fovea_context_destroy(ctx);
    thread_pool_destroy(p);
    ctx = context_of(FOVEA_ISA_BEST, 100000, NULL);
    test_check(fovea_context_info(ctx, &info) == FOVEA_OK && info.threads <= (int)sysconf(_SC_NPROCESSORS_CONF),
               "100000 threads asked for: %d", info.threads);
    fovea_context_destroy(ctx);
}

/* As snprintf does: the whole length, whatever fits, always terminated. */
static void test_describe(void) {
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    attention_case c = case_plain(1, 2, 2, 100, 100, 64, 64);
    fovea_attention_plan *plan;
    test_check(fovea_attention_plan_create(ctx, &c.desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
    char text[4096], part[64];
    memset(text, 'x', sizeof text);
    size_t length = fovea_attention_plan_describe(plan, text, sizeof text);
    test_check(length > 20 && length < sizeof text && strlen(text) == length, "describe: length %zu", length);
    test_check(strstr(text, fovea_isa_name(test_isa())) != NULL && strstr(text, "multiply_f32_f32_") != NULL,
               "describe names neither tier nor kernels: %s", text);
    test_check(fovea_attention_plan_describe(plan, NULL, 0) == length, "describe to nowhere");
    for (size_t size = 1; size < sizeof part; size += 7) {
        memset(part, 'x', sizeof part);
        test_check(fovea_attention_plan_describe(plan, part, size) == length && strlen(part) == size - 1 &&
                       memcmp(part, text, size - 1) == 0 && (size == sizeof part || part[size] == 'x'),
                   "describe in %zu bytes", size);
    }
    memset(part, 'x', sizeof part);
    fovea_attention_plan_describe(NULL, part, sizeof part); /* no plan: no crash, some terminated text */
    test_check(fovea_attention_plan_describe(plan, NULL, 8) == length, "describe without text");
    test_check(fovea_attention_plan_describe(NULL, NULL, 1) == strlen(part), "describe nothing, without text");
    test_check(memchr(part, '\0', sizeof part) != NULL, "describe no plan");
    fovea_attention_plan_destroy(plan);
    fovea_attention_plan_destroy(NULL);
    fovea_context_destroy(ctx);
}

/* ----------------------------------------------------------------------------------------------------- sentences -- */

static void *other_thread(void *arg) {
    (void)arg;
    test_check(strcmp(fovea_error_detail(), "") == 0, "a fresh thread has the sentence \"%s\"", fovea_error_detail());
    fovea_context_create(NULL, NULL);
    test_check(strstr(fovea_error_detail(), "ctx") != NULL, "the other thread's sentence: %s", fovea_error_detail());
    return NULL;
}

static void test_detail(void) {
    fovea_attention_desc desc = case_plain(1, 12, 5, 1, 1, 1, 1).desc;
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    fovea_attention_plan *plan;
    test_check(fovea_attention_plan_create(ctx, &desc, &plan) == FOVEA_ERROR_SHAPE, "12 heads in 5 groups");
    char mine[256];
    snprintf(mine, sizeof mine, "%s", fovea_error_detail());
    test_check(strstr(mine, "12") && strstr(mine, "5"), "detail: %s", mine);
    pthread_t thread;
    test_check(pthread_create(&thread, NULL, other_thread, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    test_check(strcmp(mine, fovea_error_detail()) == 0, "another thread's failure changed the sentence to: %s",
               fovea_error_detail());
    desc.kv_heads = 4;
    test_check(fovea_attention_plan_create(ctx, &desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
    fovea_attention_plan_destroy(plan);
    test_check(strcmp(mine, fovea_error_detail()) == 0, "a success changed the sentence to: %s", fovea_error_detail());
    fovea_context_destroy(ctx);
}

/* The text written to stderr by creating a context, making a linear map and failing to make a plan. */
static size_t written(char *text, size_t size, const char *debug) {
    FILE *file = tmpfile();
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    if (!test_check(file && saved >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0, "cannot redirect stderr"))
        return 0;
    if (debug)
        setenv("FOVEA_DEBUG", debug, 1);
    fovea_context *ctx;
    fovea_attention_plan *plan;
    fovea_attention_desc desc = case_plain(1, 12, 5, 1, 1, 1, 1).desc;
    fovea_status status = fovea_context_create(NULL, &ctx);
    if (status == FOVEA_OK)
        fovea_attention_plan_create(ctx, &desc, &plan);
    const float weights[6] = {0};
    fovea_linear *linear = NULL;
    fovea_linear_desc map;
    fovea_linear_desc_init(&map);
    map.in_features = 2;
    map.part.weight = fovea_matrix_in_out(weights, FOVEA_DTYPE_F32, 2, 3);
    if (status == FOVEA_OK)
        status = fovea_linear_create(ctx, &map, &linear);
    fovea_linear_destroy(linear);
    fovea_context_destroy(ctx);
    unsetenv("FOVEA_DEBUG");
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    size_t n = fread(text, 1, size - 1, file);
    text[n] = '\0';
    fclose(file);
    test_check(status == FOVEA_OK, "context: %s", fovea_error_detail());
    return n;
}

static void test_debug(void) {
    char text[2048];
    test_check(written(text, sizeof text, NULL) == 0, "printed without being asked: %s", text);
    test_check(written(text, sizeof text, "0") == 0, "FOVEA_DEBUG=0 prints: %s", text);
    test_check(written(text, sizeof text, "1") > 20 && strstr(text, fovea_isa_name(test_isa())) != NULL,
               "FOVEA_DEBUG=1 does not tell the tier: %s", text);
    char versions[64];
    snprintf(versions, sizeof versions, "fovea %s, bits %d: ", fovea_version(), FOVEA_BITS_VERSION);
    test_check(strncmp(text, versions, strlen(versions)) == 0, "FOVEA_DEBUG=1 does not begin with '%s'", versions);
    test_check(strstr(text, "fovea linear: tier ") && strstr(text, "; weights 2 x 3 in panels of") &&
                   strstr(text, "; tuned no: "),
               "FOVEA_DEBUG=1 does not tell of linear maps: %s", text);
}

static void test_inits(void) {
    fovea_attention_desc desc;
    memset(&desc, 0xff, sizeof desc);
    fovea_attention_desc_init(&desc);
    test_check(desc.struct_size == sizeof desc && desc.dtype == FOVEA_DTYPE_F32 && desc.batch == 1 &&
                   desc.q_heads == 0 && !desc.has_scale && desc.scale == 0 && desc.causal == FOVEA_CAUSAL_NONE &&
                   desc.window_left == -1 && desc.window_right == -1 && desc.mask == FOVEA_MASK_NONE,
               "fovea_attention_desc_init");
    fovea_attention_args args;
    memset(&args, 0xff, sizeof args);
    fovea_attention_args_init(&args);
    test_check(args.struct_size == sizeof args && !args.q.data && !args.k.data && !args.v.data && !args.out.data &&
                   !args.mask.data && !args.q_lens && !args.kv_lens && !args.q_offsets && !args.lse.data &&
                   !args.weights.data && !args.q_starts && !args.kv_starts,
               "fovea_attention_args_init");
    fovea_context_options options;
    memset(&options, 0xff, sizeof options);
    fovea_context_options_init(&options);
    test_check(options.struct_size == sizeof options && options.isa == FOVEA_ISA_BEST && options.threads == 0 &&
                   !options.parallel_for && !options.pool && !options.tuning_file &&
                   options.threads_backend == FOVEA_THREADS_DEFAULT && options.pool_spin_us == 0,
               "fovea_context_options_init");
    struct {
        fovea_attention_args args;
        char after[8];
    } newer; /* a header whose struct is larger than this library's */
    memset(&newer, 0xff, sizeof newer);
    fovea_struct_init(FOVEA_STRUCT_ATTENTION_ARGS, &newer, sizeof newer);
    test_check(newer.args.struct_size == sizeof newer && !newer.args.q.data && !newer.after[0] && !newer.after[7],
               "init of a larger struct");
    fovea_attention_desc_init(NULL);
    fovea_attention_args_init(NULL);
    fovea_context_options_init(NULL);
    fovea_context_facts_init(NULL);
    fovea_mha_desc_init(NULL);
    fovea_mha_weights_init(NULL);
    fovea_mha_costs_init(NULL);
    fovea_tuning_match_init(NULL);
}

/* The default context is made by the first call that may have one: a wrong FOVEA_ISA is told, and forgotten when it is
 * right again. */
static void test_default_context(void) {
    const float one = 1.0F;
    float out = 7.0F;
    isa_word saved;
    set_isa("sse9", saved);
    check_status("the one call under an unknown FOVEA_ISA",
                 fovea_sdpa_f32(&one, &one, &one, &out, 1, 1, 1, 1, 1, 1, 1, FOVEA_CAUSAL_NONE),
                 FOVEA_ERROR_ENVIRONMENT, "FOVEA_ISA|sse9|scalar");
    test_check(out == 7.0F, "it wrote %g", (double)out);
    set_isa(*saved ? saved : NULL, NULL);
    test_check(fovea_sdpa_f32(&one, &one, &one, &out, 1, 1, 1, 1, 1, 1, 1, FOVEA_CAUSAL_NONE) == FOVEA_OK,
               "the one call: %s", fovea_error_detail());
    test_check(out == 1.0F, "it gives %g", (double)out);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "context", NULL);
    test_detail();          /* first: this thread has not failed yet */
    test_default_context(); /* before any other call makes it */
    test_inits();
    test_bad_contexts();
    test_caps();
    test_info();
    test_describe();
    test_debug();
    return test_end();
}
