/* fovea-bench: how fast the library is on this machine. See --help, and docs/benchmarks.md.
 *
 * Kinds of measurement (attention.c, decode.c, encoder.c, exp.c, experts.c, kernel.c, linear.c, mha.c,
 * recurrences.c) make a bench from key=value words, for the default set as for --case; the benches that --filter leaves
 * are handed to Google Benchmark (shim.h).
 * Filter and list work on the names here, since Google Benchmark's own would see them with its additions.
 */
#define _POSIX_C_SOURCE 200809L /* regex.h */
#include "bench.h"
#include "cli.h"

#include <inttypes.h>
#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const bench_kind *const kinds[] = {
    &bench_attention, &bench_decode, &bench_exp, &bench_experts,    &bench_kernel,
    &bench_linear,    &bench_merge,  &bench_mha, &bench_recurrence,
#ifdef FOVEA_MINILM_ENCODER
    &bench_encoder,
#endif
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const char *const default_cases[] = {
#include "default_cases.inc"
};

static const char *const two_threads[] = {
    "attention batch=1 q_heads=16 q_len=2048 head_dim=64",
    "decode q_heads=4 kv_heads=1 kv_len=32768",
};

typedef struct list {
    bench **item;
    int count;
} list;

static void fail(const char *format, const char *what, const char *why) {
    fprintf(stderr, "fovea-bench: ");
    fprintf(stderr, format, what, why);
    fprintf(stderr, "\n");
    exit(2);
}

static void list_add(list *benches, bench *one) {
    bench **grown = realloc(benches->item, ((size_t)benches->count + 1) * sizeof *grown);
    if (grown == NULL)
        fail("%s%s", "no memory", "");
    benches->item = grown;
    benches->item[benches->count++] = one;
}

/* "KIND key=value ..." to a bench; NULL and a sentence if it is not understood. */
static bench *make(const char *text, char error[BENCH_ERROR_SIZE]) {
    text += strspn(text, " \t\n");
    size_t length = strcspn(text, " \t\n");
    for (int i = 0; i < KINDS; i++) {
        if (strlen(kinds[i]->name) == length && strncmp(kinds[i]->name, text, length) == 0) {
            snprintf(error, BENCH_ERROR_SIZE, "no memory");
            return kinds[i]->make(text + length, error);
        }
    }
    snprintf(error, BENCH_ERROR_SIZE, "a case begins with one of the kinds that --help lists, not with \"%.*s\"",
             (int)length, text);
    return NULL;
}

static bench *add_case(list *benches, const char *text) {
    char error[BENCH_ERROR_SIZE];
    bench *one = make(text, error);
    if (one == NULL)
        fail("case \"%s\": %s", text, error);
    list_add(benches, one);
    return one;
}

/* A word of the case that names an element type which this build leaves out, or NULL. */
static const char *type_left_out(const char *text) {
    for (int i = 0; fv_weight_dtype_words[i] != NULL; i++) {
        char value[16];
        snprintf(value, sizeof value, "dtype=%s ", fv_weight_dtype_words[i]);
        if (!fv_dtype_built(fv_dtype_of_word[i]) && strstr(text, value) != NULL)
            return fv_weight_dtype_words[i];
    }
    return NULL;
}

static void add_default_set(list *benches, fv_target best) {
    char text[BENCH_NAME_SIZE], error[BENCH_ERROR_SIZE];
    for (fv_isa isa = best.isa; isa; isa = fv_isa_below(isa)) {
        for (size_t i = 0; i < sizeof default_cases / sizeof default_cases[0]; i++) {
            snprintf(text, sizeof text, "%s isa=%s", default_cases[i], fv_isa_word(isa));
            add_case(benches, text)->left_out = type_left_out(text);
        }
        /* Two threads, where there are two CPUs. */
        for (size_t i = 0; i < sizeof two_threads / sizeof two_threads[0]; i++) {
            snprintf(text, sizeof text, "%s threads=2 isa=%s", two_threads[i], fv_isa_word(isa));
            bench *two = make(text, error);
            if (two != NULL)
                list_add(benches, two);
        }
    }
    /* The encoder, where its model is. */
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "encoder dtype=%s sentences=%d threads=2", fv_dtype_words[i / 2], i % 2 ? 32 : 1);
        bench *encoder = make(text, error);
        if (encoder != NULL) {
            encoder->left_out = type_left_out(text);
            list_add(benches, encoder);
        }
    }
    add_case(benches, "merge parts=4 batch=8 heads=32 q_len=1 value_dim=128");
    add_case(benches, "exp n=65536");
    add_case(benches, "exp n=65536 impl=libm");
    for (int i = 0; i < fv_kernel_count; i++) {
        if (fv_kernel_runs(&fv_kernels[i], best)) {
            snprintf(text, sizeof text, "kernel name=%s", fv_kernels[i].name);
            add_case(benches, text);
        }
    }
}

/* Drops those whose name the expression does not match. */
static void filter(list *benches, const char *expression) {
    regex_t regex;
    int status = regcomp(&regex, expression, REG_EXTENDED | REG_NOSUB);
    if (status != 0) {
        char why[BENCH_ERROR_SIZE];
        regerror(status, &regex, why, sizeof why);
        fail("--filter %s: %s", expression, why);
    }
    int kept = 0;
    for (int i = 0; i < benches->count; i++) {
        if (regexec(&regex, benches->item[i]->name, 0, NULL, 0) == 0)
            benches->item[kept++] = benches->item[i];
        else
            free(benches->item[i]);
    }
    benches->count = kept;
    regfree(&regex);
}

/* ---------------------------------------------------------------------------------------------- the command line -- */

enum { MOST_PASSED = 32 };

typedef struct settings {
    bool list;
    const char *filter;
    const char **cases;
    int case_count;
    shim_options shim;
    const char *passed[MOST_PASSED];
} settings;

static bool read_case(void *at, const char *text, const cli_option *option) {
    settings *s = (settings *)((char *)at - option->offset);
    const char **grown = realloc(s->cases, ((size_t)s->case_count + 1) * sizeof *grown);
    if (grown == NULL)
        fail("%s%s", "no memory", "");
    s->cases = grown;
    s->cases[s->case_count++] = text;
    return true;
}

static bool read_seconds(void *at, const char *text, const cli_option *option) {
    return cli_read_real(at, text, option) && *(double *)at >= 0.001;
}

#define AT(field) offsetof(settings, field)

static const cli_option options_table[] = {
    {"--list", NULL, NULL, NULL, 0, 0, AT(list), 1, "print the names of the cases, and stop"},
    {"--filter", "REGEX", "@text attention.*isa:avx2", cli_read_text, 0, 0, AT(filter), 1,
     "measure only cases whose name contains a match of this POSIX extended regular expression"},
    {"--case", "TEXT", "@text attention q_heads=12 q_len=512 head_dim=64", read_case, 0, 0, AT(cases), 1,
     "measure this case instead of the default set; may be repeated"},
    {"--min-time", "SECONDS", "0.5", read_seconds, 0, 3600, AT(shim.min_time), 1,
     "how long to measure each case (default: 0.5)"},
    {"--repetitions", "N", "9", cli_read_int, 1, 1000, AT(shim.repetitions), 1,
     "measure each case N times, in random order, and print mean, median and spread (default: 1)"},
    {"--json", "FILE", "@file bench.json", cli_read_text, 0, 0, AT(shim.json), 1, "also write the results to FILE"},
};
static const cli_command command = {"",
                                    1,
                                    0,
                                    MOST_PASSED,
                                    "[--benchmark_OPTION=VALUE]...",
                                    "--list",
                                    "measure the speed of Fovea's attention, decoding, linear maps, layers, exp and "
                                    "kernels; each result is checked before it is "
                                    "timed"};
static const cli_kind arguments[] = {
    {"REGEX", "an expression"}, {"TEXT", "a case"}, {"SECONDS", "a number of seconds from 0.001 to 3600"}};
static const char environment[] =
    "FOVEA_ISA=TIER caps the tier\n"
    "FOVEA_THREADS_BACKEND=openmp|pool chooses whose threads run (default: openmp)\n"
    "FOVEA_MODEL=PATH names the encoder's model (default: all-MiniLM-L6-v2 where fetch.py puts it)";
static const char examples[] =
    "fovea-bench --filter 'attention.*isa:avx2'\n"
    "fovea-bench --repetitions 9 --case \"attention q_heads=32 kv_heads=8 q_len=1 kv_len=4096 head_dim=128\"\n"
    "fovea-bench --benchmark_perf_counters=CYCLES,INSTRUCTIONS";

static void print_kinds(void) {
    puts("\nTEXT is a kind of case, then key=value words. Shown are the defaults and all choices:");
    for (int i = 0; i < KINDS; i++)
        printf("  %s\n      %s\n", kinds[i]->name, kinds[i]->help);
    fputs("TIER is one of", stdout);
    for (int i = 1; bench_isa_words[i] != NULL; i++)
        printf(" %s", bench_isa_words[i]);
    puts("\n\ncolumns\n"
         "  GFLOPS   a multiplication with its addition is 2 flops; masked keys count nothing\n"
         "  of_peak  GFLOPS as a share of the tier's FMA peak, which is measured in this run, times threads\n"
         "  GB/s     each operand counted once; for a kernel, what it reads and writes\n"
         "  of_read  of decoding: GB/s as a share of what the threads read from memory, which is measured in this run\n"
         "  of_bound the larger of of_peak and of_read\n"
         "  Gelem/s  elements, for exp and kernels that are not sums of products\n\n"
         "Options that begin with --benchmark_ are passed to Google Benchmark; its manual describes them.");
}

static int read_settings(int argc, char **argv, settings *s) {
    const cli program = {
        .program = "fovea-bench",
        .version = fovea_version(),
        .exit_statuses =
            "0 success; 1 a result was wrong (its row says so), or output was lost; 2 wrong usage, or FOVEA_ISA "
            "is not a tier",
        .environment = environment,
        .examples = examples,
        .more = print_kinds,
        .passes = "--benchmark_",
        .commands = &command,
        .command_count = 1,
        .options = options_table,
        .option_count = sizeof options_table / sizeof options_table[0],
        .kinds = arguments,
        .kind_count = sizeof arguments / sizeof arguments[0]};
    const cli_command *only;
    *s = (settings){.shim = {.min_time = 0.5, .repetitions = 1}};
    s->shim.passed = s->passed;
    return cli_read(&program, argc, argv, s, &only, s->passed, &s->shim.passed_count);
}

/* ----------------------------------------------------------------------------------------------------- measuring -- */

static const char *begin(void *self, shim_cost *cost) { return ((bench *)self)->begin(self, cost); }
static void run(void *self) { ((bench *)self)->run(self); }
static void end(void *self) { ((bench *)self)->end(self); }

static int measure(const list *benches, const shim_options *options, fv_target best, const char *cpu) {
    char value[64], key[32], features[FV_FEATURES_TEXT];
    shim_bench *all = calloc((size_t)benches->count, sizeof *all);
    if (all == NULL)
        fail("%s%s", "no memory", "");
    int count = 0;
    for (int i = 0; i < benches->count; i++) {
        bench *one = benches->item[i];
        if (one->left_out != NULL)
            printf("SKIPPED %s: this build leaves out %s (FOVEA_TYPES)\n", one->name, one->left_out);
        else
            all[count++] = (shim_bench){one->name, begin, run, end, one};
    }
    shim_context("fovea", fovea_version());
    shim_context("cpu", cpu);
    shim_context("best tier", fv_isa_word(best.isa));
    shim_context("features", fv_features_text(best.features, ",", features));
    for (fv_isa isa = best.isa; isa; isa = fv_isa_below(isa)) {
        snprintf(key, sizeof key, "%s FMA peak, one core", fv_isa_word(isa));
        snprintf(value, sizeof value, "%.1f GFLOPS", bench_peak(isa) * 1e-9);
        shim_context(key, value);
    }
    int status = shim_run(all, count, options);
    free(all);
    return status;
}

int main(int argc, char **argv) {
    settings s;
    list benches = {NULL, 0};
    int status = read_settings(argc, argv, &s);
    if (status >= 0)
        return status;
    for (int i = 0; i < s.case_count; i++)
        add_case(&benches, s.cases[i]);
    free(s.cases);
    char cpu[64];
    fv_target best = bench_target(cpu);
    if (benches.count == 0)
        add_default_set(&benches, best);
    if (s.filter != NULL)
        filter(&benches, s.filter);
    if (benches.count == 0)
        fail("no case matches --filter %s%s", s.filter, "");
    status = 0;
    if (s.list) {
        for (int i = 0; i < benches.count; i++)
            printf("%s\n", benches.item[i]->name);
    } else {
        status = measure(&benches, &s.shim, best, cpu);
    }
    for (int i = 0; i < benches.count; i++)
        free(benches.item[i]);
    free(benches.item);
    return status;
}
