/* Measures where this backend is faster than ggml's CPU backend, and writes what was proved as rows of a tuning file:
 *     fovea-tune-ggml -o FILE [--type q8_0]
 * rules.c reads the rows; with FOVEA_GGML_ARITHMETIC=q8 those of quantized weights are for that arithmetic. They are
 * for this CPU, and the tier and number of threads that programs have by default. A file that is there keeps its other
 * rows. For another build of ggml, set LD_LIBRARY_PATH.
 *
 * A type is taken if that is at least 2% faster on average over shapes, with an interval of 95% above 1, and no shape
 * is 3% slower; left to ggml, if it is 2% slower likewise, or a shape is 3% slower. Otherwise, and where the interval
 * is wider than 10% to either side, there is no row, and the default stays. Products have a row for each class of
 * numbers of rows: all four, one faster and none slower, or some of which one is slower. Then weights of words, of
 * which prompts need few rows, have one of their own, by these. Exit status: 0; 2: wrong usage; 3: nothing was proved,
 * and the file is as it was; 4: something else failed. */
#define _DEFAULT_SOURCE
#include "bench.h"

#include <errno.h>
#include <fovea/fovea.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USAGE = 2, UNPROVED = 3, FAILED = 4 };

typedef struct tuner {
    bench bench;
    bool brief;
    const fovea_context *context;
    fovea_tuning *tuning;
    int threads, rows; /* rows: written */
} tuner;

/* Logarithms of ggml's time / Fovea's, over shapes. */
typedef struct tally {
    double sum, variance, worst, worst_high; /* the end of its interval */
    int shapes, rounds;
} tally;

static void add(tally *t, const bench_result *r) {
    const double x = (log(r->ratio[0]) + log(r->ratio[1])) / 2;
    t->sum += x;
    t->variance += r->error * r->error;
    if (t->shapes == 0 || x < t->worst) {
        t->worst = x;
        t->worst_high = x + 1.96 * r->error;
    }
    t->shapes++;
    t->rounds += r->rounds;
}

/* Classes of numbers of rows, as of fovea-tune. */
static const struct {
    const char *words;
    int64_t most;
} classes[] = {{" rows=1", 1}, {" rows=2..8", 8}, {" rows=9..64", 64}, {" rows=65..any", INT64_MAX}};
enum { CLASSES = sizeof classes / sizeof classes[0] };

static void add_product(void *arg, int64_t rows, const char *buffer, const bench_result *result) {
    int at = 0;
    while (rows > classes[at].most)
        at++;
    (void)buffer;
    add((tally *)arg + at, result);
}

static bool failed(void) {
    fprintf(stderr, "fovea-tune-ggml: %s\n", fovea_error_detail());
    return false;
}

typedef enum verdict { UNTOLD, SLOWER, EQUAL, FASTER } verdict;

static double mean_of(const tally *of) { return of->sum / of->shapes; }
static double half_of(const tally *of) { return 1.96 * sqrt(of->variance) / of->shapes; }

/* Judges a type, and says it. rows: " rows=9..64" or "". */
static verdict judge(const tuner *t, const char *operation, enum ggml_type type, const char *rows, const tally *of) {
    static const char *const words[] = {"too noisy to tell", "left to ggml", "as fast", "taken"};
    const double mean = mean_of(of), half = half_of(of), least = log(1.02), most_slower = log(0.97);
    verdict v = UNTOLD;
    if (t->brief)
        v = mean > 0 ? FASTER : SLOWER;
    else if (half >= log(1.1))
        v = UNTOLD;
    else if ((mean <= -least && mean + half < 0) || of->worst_high < most_slower)
        v = SLOWER;
    else if (of->worst > most_slower)
        v = mean >= least && mean - half > 0 ? FASTER : EQUAL;
    printf("%-20s %-5s%-14s %5.2f times as fast (%.2f to %.2f), at least %.2f: %s\n", operation, ggml_type_name(type),
           rows, exp(mean), exp(mean - half), exp(mean + half), exp(of->worst), words[v]);
    fflush(stdout);
    return v;
}

/* Puts a row in. rows: behind the type, and a class of shapes before them. choices: further fields of one that takes
 * the type. */
static bool put(tuner *t, const char *operation, enum ggml_type type, const char *rows, const tally *of, bool take,
                const char *choices) {
    const double gain = take ? mean_of(of) : -mean_of(of), half = half_of(of);
    char words[256];
    snprintf(words, sizeof words, "type=%s%s : take=%d%s : gain=%.3f low=%.3f high=%.3f blocks=%d shapes=%d",
             ggml_type_name(type), rows, take, choices, exp(gain), exp(gain - half), exp(gain + half), of->rounds,
             of->shapes);
    t->rows++;
    return fovea_tuning_put_adapter_row(&t->tuning, t->context, operation, words) == FOVEA_OK || failed();
}

static bool tune_products(tuner *t, enum ggml_type type) {
    const char *how = getenv("FOVEA_GGML_ARITHMETIC");
    const char *operation = ggml_is_quantized(type) && how && !strcmp(how, "q8") ? "ggml.mul_mat_q8" : "ggml.mul_mat";
    static const int64_t sizes[][2] = {{768, 256}, {2048, 2048}, {2048, 8192}}, rows[] = {1, 2, 8, 16, 64, 256};
    tally of[CLASSES] = {{0}};
    verdict verdicts[CLASSES];
    int counts[FASTER + 1] = {0};
    const int classes_run = t->brief ? 2 : CLASSES;
    for (int i = 0; i < (t->brief ? 1 : 3); i++)
        bench_product(&t->bench, type, sizes[i][0], sizes[i][1], rows, t->brief ? 2 : 6, add_product, of);
    for (int i = 0; i < classes_run; i++)
        counts[verdicts[i] = judge(t, operation, type, classes[i].words, &of[i])]++;
    const bool told = counts[SLOWER] || (counts[FASTER] && !counts[UNTOLD]);
    bool good = true;
    if (t->brief || (counts[SLOWER] && verdicts[0] == FASTER && verdicts[1] != SLOWER))
        good = put(t, operation, type, "/words", &of[0], true, "");
    for (int i = 0; good && told && i < classes_run; i++)
        good = verdicts[i] == UNTOLD || put(t, operation, type, classes[i].words, &of[i], verdicts[i] != SLOWER, "");
    return good;
}

static problem attention(enum ggml_type type, int64_t head_dim, int64_t heads, int64_t kv_heads, int64_t rows,
                         int64_t keys) {
    return (problem){.head_dim = head_dim,
                     .value_dim = head_dim,
                     .heads = heads,
                     .kv_heads = kv_heads,
                     .rows = rows,
                     .keys = keys,
                     .batch = 1,
                     .k_type = type,
                     .v_type = type,
                     .mask = MASK_CAUSAL,
                     .views = 1};
}

static bool is_faster(const bench_result *r) { return r->ratio[0] * r->ratio[1] >= 1; }

/* The fewest operations that are worth a change of backends: those of the least number of keys from which on it is
 * faster. */
static int64_t least_operations(const tuner *t, enum ggml_type type) {
    enum { CHANNELS = 64, HEADS = 9, MOST_KEYS = 1024, LEAST_KEYS = 16 };
    int64_t keys = t->brief ? 2 * LEAST_KEYS : MOST_KEYS;
    for (; keys > LEAST_KEYS; keys /= 2) {
        const problem p = attention(type, CHANNELS, HEADS, 3, 1, keys / 2);
        const bench_result r = bench_attend_between(&t->bench, &p);
        if (!is_faster(&r))
            break;
    }
    return 2 * HEADS * keys * (CHANNELS + CHANNELS);
}

/* How many threads a key head is worth: all, if one head is enough. */
static int64_t threads_of_head(const tuner *t, enum ggml_type type) {
    for (int heads = 1; heads < t->threads; heads++) {
        const problem p = attention(type, 128, 4 * heads, heads, 1, 2048);
        const bench_result r = bench_attend(&t->bench, &p);
        if (is_faster(&r))
            return heads == 1 ? 0 : (t->threads + heads - 1) / heads;
    }
    return 1;
}

/* Few rows and many apart. */
static bool tune_attention(tuner *t, enum ggml_type type) {
    static const char operation[] = "ggml.flash_attn_ext", *const classes_of[] = {" rows=1..8", " rows=9..any"};
    static const int64_t models[][3] = {{128, 32, 8}, {64, 9, 3}}, rows[] = {1, 32}, keys[] = {512, 2048};
    bool good = true;
    for (int r = 0; good && r < (t->brief ? 1 : 2); r++) {
        tally of = {0};
        for (int i = 0; i < (t->brief ? 1 : 4); i++) {
            const int64_t *m = models[i / 2];
            const problem p = attention(type, m[0], m[1], m[2], rows[r], keys[i % 2]);
            const bench_result result = bench_attend(&t->bench, &p);
            add(&of, &result);
        }
        const verdict v = judge(t, operation, type, classes_of[r], &of);
        char choices[80] = "";
        int length = 0;
        if (v == FASTER)
            length = snprintf(choices, sizeof choices, " least=%lld", (long long)least_operations(t, type));
        if (v == FASTER && ggml_is_quantized(type) && t->threads > 2)
            snprintf(choices + length, sizeof choices - (size_t)length, " spread=%lld",
                     (long long)threads_of_head(t, type));
        if (v == FASTER || v == SLOWER)
            good = put(t, operation, type, classes_of[r], &of, v == FASTER, choices);
    }
    return good;
}

/* All types, or the one that is asked for. */
static bool tune(tuner *t) {
    static const enum ggml_type types[] = {GGML_TYPE_F32,   GGML_TYPE_F16,    GGML_TYPE_BF16, GGML_TYPE_Q8_0,
                                           GGML_TYPE_Q4_0,  GGML_TYPE_Q4_1,   GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
                                           GGML_TYPE_MXFP4, GGML_TYPE_IQ4_NL, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K,
                                           GGML_TYPE_Q6_K};
    enum { TYPES = sizeof types / sizeof types[0], KEY_TYPES = 5 };
    bool good = true;
    for (int i = 0; good && i < TYPES; i++)
        if (t->bench.type == GGML_TYPE_COUNT || t->bench.type == types[i])
            good = (i >= KEY_TYPES || tune_attention(t, types[i])) && tune_products(t, types[i]);
    return good;
}

/* A file that is not there has no rows. */
static bool load(const char *path, fovea_tuning **tuning) {
    *tuning = NULL;
    return (access(path, F_OK) != 0 && errno == ENOENT) || fovea_tuning_load(path, tuning) == FOVEA_OK;
}

/* Adds the rows to what is in the file now. */
static bool save(tuner *t, const char *path) {
    fovea_tuning *file;
    const bool good = load(path, &file) && (!file || fovea_tuning_merge(file, t->tuning) == FOVEA_OK) &&
                      fovea_tuning_save(file ? file : t->tuning, path) == FOVEA_OK;
    fovea_tuning_destroy(file);
    return good || failed();
}

static enum ggml_type type_named(const char *name) {
    int type = 0;
    while (type < GGML_TYPE_COUNT && !(ggml_type_name(type) && !strcmp(ggml_type_name(type), name)))
        type++;
    return (enum ggml_type)type;
}

int main(int argc, char **argv) {
    tuner t = {.bench = {.rounds = BENCH_MOST_ROUNDS,
                         .type = GGML_TYPE_COUNT,
                         .quick = true,
                         .weight_bytes = 3e8,
                         .graph_operations = 1e9}};
    const char *path = NULL;
    bool known = true;
    for (int i = 1; known && i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--brief")) { /* for tests: little work, and rows whatever the noise */
            t.brief = true;
            t.bench.weight_bytes = t.bench.graph_operations = 1e6;
            t.bench.rounds = BENCH_LEAST_ROUNDS;
        } else if (!strcmp(argv[i], "-o")) {
            known = *(path = value);
            i++;
        } else if (!strcmp(argv[i], "--type")) {
            known = (t.bench.type = type_named(value)) != GGML_TYPE_COUNT;
            i++;
        } else {
            known = false;
        }
    }
    if (!known || !path) {
        fprintf(stderr, "usage: %s -o FILE [--type q8_0]\n", argv[0]);
        return USAGE;
    }
    setenv("FOVEA_GGML", "FLASH_ATTN_EXT,MUL_MAT", 1); /* faster or not */
    fovea_context *context;
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    fovea_tuning *there;
    if (!load(path, &there) || fovea_context_create(NULL, &context) != FOVEA_OK ||
        fovea_context_info(context, &info) != FOVEA_OK)
        return failed(), FAILED;
    fovea_tuning_destroy(there);
    t.context = context;
    t.threads = info.threads;
    bench_begin(&t.bench, t.threads);
    printf("ggml %s, %d thread%s\n", ggml_version(), t.threads, t.threads == 1 ? "" : "s");
    const bool good = tune(&t) && (t.rows == 0 || save(&t, path));
    if (good)
        printf(t.rows ? "%d rows are in %s\n" : "%d rows were proved: %s is as it was\n", t.rows, path);
    bench_end(&t.bench);
    fovea_tuning_destroy(t.tuning);
    fovea_context_destroy(context);
    return !good ? FAILED : t.rows ? 0 : UNPROVED;
}
