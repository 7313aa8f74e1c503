/* The frame of every test program: see test.h. */
#define _DEFAULT_SOURCE
#include "test.h"

#include "cli.h"
#include "guard.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_SEED = 1 }; /* as --help says */

static struct {
    const char *name;
    uint64_t seed;
    fovea_isa isa;
    bool isa_asked;
    char replay[1024];
    atomic_llong passed, failed, skipped;
} run;

static const char *compiler(void) {
#ifdef __clang__
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

/* ------------------------------------------------------------------------------------------------------- options -- */

enum { MOST_OPTIONS = 16 };

/* Values by the index of their option, the seed's last. */
typedef struct values {
    const char *of[MOST_OPTIONS];
} values;

static bool read_value(void *at, const char *text, const cli_option *option) {
    (void)option;
    *(const char **)at = text;
    return true;
}

static bool read_number(void *at, const char *text, const cli_option *option) {
    int64_t number;
    const cli_option any = {.least = 0, .most = INT64_MAX};
    return cli_read_number(&number, text, &any) && read_value(at, text, option);
}

static bool read_seed(void *at, const char *text, const cli_option *option) {
    char *end;
    strtoull(text, &end, 0);
    return ((*text && !*end) || strcmp(text, "random") == 0) && read_value(at, text, option);
}

static void print_tiers(void) {
    printf("\nFOVEA_ISA=TIER: the tier to test; TIER is one of");
    for (int isa = 1; strcmp(fovea_isa_name((fovea_isa)isa), "unknown") != 0; isa++)
        printf(" %s", fovea_isa_name((fovea_isa)isa));
    printf("\n");
}

/* The seed's text, or NULL. */
static const char *read_options(int argc, char **argv, test_option *options) {
    static const cli_command command = {"", 1, 0, 0, "", "", "run tests"};
    cli_option table[MOST_OPTIONS];
    values given = {{NULL}};
    int count = 0;
    for (test_option *o = options; o && o->name; o++, count++)
        table[count] = (cli_option){.name = o->name,
                                    .argument = o->argument,
                                    .read = o->argument && strcmp(o->argument, "N") == 0 ? read_number : read_value,
                                    .offset = (size_t)count * sizeof given.of[0],
                                    .commands = 1,
                                    .help = o->help};
    table[count] = (cli_option){.name = "--seed",
                                .argument = "N",
                                .values = "1 random",
                                .read = read_seed,
                                .offset = (size_t)count * sizeof given.of[0],
                                .commands = 1,
                                .help = "seed of the data: a number, or random (default: 1, or FOVEA_TEST_SEED)"};
    static const cli_kind kinds[] = {{"N", "a number"}};
    const cli program = {.program = run.name,
                         .version = fovea_version(),
                         .exit_statuses = "0 passed; 1 something failed; 2 wrong usage; 77 everything was skipped",
                         .more = print_tiers,
                         .commands = &command,
                         .command_count = 1,
                         .options = table,
                         .option_count = count + 1,
                         .kinds = kinds,
                         .kind_count = 1};
    const cli_command *only;
    int words;
    const int status = cli_read(&program, argc, argv, &given, &only, NULL, &words);
    if (status >= 0)
        exit(status);
    for (int i = 0; i < count; i++)
        options[i].value = given.of[i];
    return given.of[count];
}

static uint64_t parse_seed(const char *text) {
    if (strcmp(text, "random") == 0) {
        rng r = {(uint64_t)time(NULL) ^ (uint64_t)getpid() << 32};
        return rng_u64(&r) >> 32;
    }
    char *end;
    const uint64_t seed = strtoull(text, &end, 0);
    if (*text && !*end)
        return seed;
    fprintf(stderr, "%s: FOVEA_TEST_SEED is not a number\n", run.name);
    exit(TEST_USAGE);
}

/* The command that runs this again with the same data, from the arguments without --seed. */
static void write_replay(int argc, char **argv) {
    const char *isa = getenv("FOVEA_ISA");
    size_t size = sizeof run.replay, n = 0;
    n += (size_t)snprintf(run.replay, size, "replay: %s%s%s%s", isa ? "FOVEA_ISA=" : "", isa ? isa : "", isa ? " " : "",
                          argv[0]);
    for (int i = 1; i < argc && n < size; i++) {
        if (strcmp(argv[i], "--seed") == 0)
            i++;
        else if (strncmp(argv[i], "--seed=", 7) != 0)
            n += (size_t)snprintf(run.replay + n, size - n, " '%s'", argv[i]);
    }
    if (n < size)
        snprintf(run.replay + n, size - n, " --seed %" PRIu64, run.seed);
}

static void no_context(void) {
    printf("FAILED: no context: %s\n", fovea_error_detail());
    test_count(0, 1, 0);
    exit(test_end());
}

fovea_context *test_context_untuned(void) {
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.threads = 1;
    options.tuning_file = "";
    if (fovea_context_create(&options, &ctx) != FOVEA_OK)
        no_context();
    return ctx;
}

/* Asks the library itself which tier a default context gets: FOVEA_ISA is a cap, so what it names need not be there. */
static void find_tier(void) {
    fovea_context *ctx;
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    if (fovea_context_create(NULL, &ctx) != FOVEA_OK || fovea_context_info(ctx, &info) != FOVEA_OK)
        no_context();
    fovea_context_destroy(ctx);
    run.isa = info.isa;
    const char *asked = getenv("FOVEA_ISA");
    run.isa_asked = asked && *asked;
    printf("%s: %s, tier %s%s%s, %s, seed %" PRIu64 "\n", run.name, info.cpu[0] ? info.cpu : "unknown CPU",
           fovea_isa_name(info.isa), info.features[0] ? " with " : "", info.features, compiler(), run.seed);
    if (run.isa_asked && strcmp(asked, fovea_isa_name(info.isa)) != 0) {
        test_skip("everything: asked for tier %s and got %s (%s)", asked, fovea_isa_name(info.isa), info.reason);
        exit(test_end());
    }
}

void test_begin(int argc, char **argv, const char *name, test_option *options) {
    const char *seed = getenv("FOVEA_TEST_SEED");
    run.name = name;
    setvbuf(stdout, NULL, _IOLBF, 0); /* so that what was printed before a crash is seen */
    const char *given = read_options(argc, argv, options);
    seed = given ? given : seed;
    run.seed = seed && *seed ? parse_seed(seed) : DEFAULT_SEED;
    write_replay(argc, argv);
    guard_install(run.replay);
    find_tier();
}

const char *test_option_value(const test_option *options, const char *name) {
    while (strcmp(options->name, name) != 0)
        options++;
    return options->value;
}

int test_end(void) {
    printf("%s: %lld passed, %lld failed, %lld skipped\n", run.name, run.passed, run.failed, run.skipped);
    return run.failed > 0 ? TEST_FAILED : run.passed > 0 ? TEST_PASSED : TEST_SKIPPED;
}

uint64_t test_seed(void) { return run.seed; }

fovea_isa test_isa(void) { return run.isa; }

bool test_isa_asked(void) { return run.isa_asked; }

void test_count(int64_t passed, int64_t failed, int64_t skipped) {
    run.passed += passed;
    run.failed += failed;
    run.skipped += skipped;
}

/* Counts one failure and prints it in one call, so that threads do not mix their lines. */
static void fail(const char *format, va_list arguments, const char *detail) {
    long long before = run.failed++;
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    if (before < TEST_SHOWN)
        printf("FAILED: %s%s\n  %s\n", text, detail, run.replay);
    else if (before == TEST_SHOWN)
        printf("... and more, which are counted but not shown\n");
}

bool test_check(bool ok, const char *format, ...) {
    if (ok) {
        run.passed++;
    } else {
        va_list arguments;
        va_start(arguments, format);
        fail(format, arguments, "");
        va_end(arguments);
    }
    return ok;
}

void test_skip(const char *format, ...) {
    va_list arguments;
    char text[1024];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    run.skipped++;
    printf("SKIPPED: %s\n", text);
}

bool test_same(const float *got, const float *want, int64_t n, const char *format, ...) {
    int64_t first = first_difference(got, want, n);
    if (first < 0) {
        run.passed++;
        return true;
    }
    int64_t count = 0;
    for (int64_t i = first; i < n; i++)
        count += float_bits(got[i]) != float_bits(want[i]);
    char detail[256];
    snprintf(detail, sizeof detail,
             ": %" PRId64 " of %" PRId64 " floats differ, the first at %" PRId64 ": %.9g (0x%08" PRIx32
             ") instead of %.9g (0x%08" PRIx32 ")",
             count, n, first, (double)got[first], float_bits(got[first]), (double)want[first], float_bits(want[first]));
    va_list arguments;
    va_start(arguments, format);
    fail(format, arguments, detail);
    va_end(arguments);
    return false;
}

/* ThreadSanitizer takes ten times as long. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLOWED 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define SLOWED 1
#endif

static double scale(void) {
#ifdef SLOWED
    double factor = 0.2;
#else
    double factor = 1;
#endif
    const char *text = getenv("FOVEA_TEST_SCALE");
    if (text && *text)
        factor = atof(text);
    return factor;
}

int64_t test_scaled(int64_t n) {
    const double scaled = (double)n * scale();
    return scaled < 1 ? 1 : (int64_t)scaled;
}

bool test_takes(int64_t n) {
    const double factor = scale();
    return factor >= 1 || n == 0 || floor((double)n * factor) > floor((double)(n - 1) * factor);
}
