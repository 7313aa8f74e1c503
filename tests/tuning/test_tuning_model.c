/* Rows for a model of CPU, on each described machine: those of the file that ships with the library
 * (FOVEA_KNOWN_CPUS names it here), and of a tuning file. Whom they serve, what of a file is dropped, and who says
 * where a row is from. */
#define _DEFAULT_SOURCE /* setenv */
#include "described.h"
#include "linear/linear.h"
#include "tuning_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[FV_TUNING_BYTES], path[256];

static fv_tuning_section model_here(void) {
    const fv_tuning_section own = section_own();
    fv_tuning_section model;
    fv_tuning_model_of(&own, &model);
    return model;
}

/* Files whose rows decide nothing but tile_rows and k_block: of a section, from the first operation to the last. */
static void write_rows(const char *to, const fv_tuning_section *section, int threads, int tile, fv_tuning_op first,
                       fv_tuning_op last) {
    char error[FV_FILE_ERROR];
    fovea_tuning *tuning;
    fv_tuning_create(&tuning, error);
    for (fv_tuning_op op = first; op <= last; op++) {
        fv_tuning_row row = row_any(op, threads);
        if (op < FV_TUNING_linear_f32)
            row.knob[FV_ATTENTION_KNOB_tile_rows].number = tile;
        else
            row.knob[FV_LINEAR_KNOB_k_block].number = tile;
        test_check(fv_tuning_put(tuning, section, &row, error) == FOVEA_OK, "put: %s", error);
    }
    tuning_text(tuning, NULL, NULL, NULL, text, sizeof text);
    file_write(to, text, strlen(text));
    fovea_tuning_destroy(tuning);
}

static void write_shipped(void) {
    const fv_tuning_section model = model_here();
    write_rows(path, &model, 0, 7, 0, FV_TUNING_OPERATIONS - 1);
}

/* With a line more, in place of the end. */
static void write_more(const char *line) {
    char *end = strstr(text, "end sum=");
    snprintf(end, (size_t)(text + sizeof text - end), "%s\n", line);
    tuning_close(text, sizeof text);
    file_write(path, text, strlen(text));
}

static void serial(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)pool;
    for (int64_t i = 0; i < count; i++)
        task(arg, i);
}

static fovea_context *context_on(const fv_cpu *cpu, int threads, const char *named, fovea_context_facts *info) {
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.threads = threads;
    options.parallel_for = serial; /* which the machine's number of CPUs does not limit */
    options.tuning_file = named;
    fovea_context_facts_init(info);
    if (!test_check(fv_context_create_on(cpu, &options, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail()))
        exit(TEST_FAILED);
    fovea_context_info(ctx, info);
    return ctx;
}

static fovea_attention_desc some_desc(void) {
    fovea_attention_desc d;
    fovea_attention_desc_init(&d);
    d.batch = 1;
    d.q_heads = d.kv_heads = 4;
    d.q_len = d.kv_len = 300;
    d.head_dim = d.value_dim = 64;
    return d;
}

/* The origin that the plan of a context names; *tile: its tiles' rows. */
static const char *origin(const fovea_context *ctx, int64_t *tile) {
    static char words[4096];
    const fovea_attention_desc d = some_desc();
    fovea_attention_plan *plan;
    if (!test_check(fovea_attention_plan_create(ctx, &d, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail()))
        exit(TEST_FAILED);
    fovea_attention_plan_describe(plan, words, sizeof words);
    const char *blocks = strstr(words, "in tiles of ");
    *tile = blocks ? strtoll(blocks + sizeof "in tiles of", NULL, 10) : -1;
    fovea_attention_plan_destroy(plan);
    return strstr(words, "tuned") + sizeof "tuned  ";
}

/* A map's, likewise: *block: its input channels at once. */
static const char *map_origin(const fovea_context *ctx, int64_t *block) {
    static const float zeros[64];
    static char words[4096];
    fovea_linear_desc d;
    fovea_linear *map;
    fovea_linear_desc_init(&d);
    d.in_features = 64;
    d.part.weight = (fovea_matrix){.data = zeros, .dtype = FOVEA_DTYPE_F32, .in = 64, .out = 64};
    if (!test_check(fovea_linear_create(ctx, &d, &map) == FOVEA_OK, "map: %s", fovea_error_detail()))
        exit(TEST_FAILED);
    fv_linear_describe_rows(map, 40, words, sizeof words);
    *block = strtoll(strstr(words, " rows and ") + sizeof " rows and", NULL, 10);
    fovea_linear_destroy(map);
    return strstr(words, "tuned") + sizeof "tuned  ";
}

static bool begins(const char *sentence, const char *with) { return strncmp(sentence, with, strlen(with)) == 0; }

/* The machine is served by the file at path, or is not. */
static void check_served(const char *what, const fv_cpu *cpu, int threads, bool served, const char *word) {
    char yes[320];
    int64_t tile, block;
    fovea_context_facts info;
    fovea_context *ctx = context_on(cpu, threads, NULL, &info);
    const char *said = origin(ctx, &tile);
    snprintf(yes, sizeof yes, "yes: shipped rows of %s line ", path);
    test_check(begins(said, served ? yes : "no: ") && (tile == 7) == served, "%s: tiles of %lld, \"%s\"", what,
               (long long)tile, said);
    said = map_origin(ctx, &block);
    test_check(begins(said, served ? yes : "no: ") && (block == 7) == served, "%s: blocks of %lld channels, \"%s\"",
               what, (long long)block, said);
    test_check(info.tuning_status == FOVEA_OK && (info.tuning_rows > 0) == served && strstr(info.tuning, word),
               "%s: %d rows, \"%s\" (\"%s\" expected)", what, info.tuning_rows, info.tuning, word);
    fovea_context_destroy(ctx);
}

static void test_machines(void) {
    fv_cpu cpu = *machine_facts();
    write_shipped();
    check_served("here", &cpu, 1, true, "; shipped rows: ");
    check_served("with 3 threads", &cpu, 3, true, "; shipped rows: ");
    cpu.stepping++, cpu.cores = cpu.cores * 2 + 1, cpu.affinity = 3;
    cpu.l1d /= 2, cpu.l2 *= 2, cpu.l3 = 0;
    check_served("another stepping, caches and cores", &cpu, 3, true, "; shipped rows: ");
    static const char other[] = "; shipped rows: nothing of ";
    cpu = *machine_facts();
    cpu.model++;
    check_served("another model", &cpu, 1, false, other);
    cpu = *machine_facts();
    cpu.family++;
    check_served("another family", &cpu, 1, false, other);
    cpu = *machine_facts();
    snprintf(cpu.vendor, sizeof cpu.vendor, "HygonGenuine");
    check_served("another vendor", &cpu, 1, false, other);
    cpu = *machine_facts();
    cpu.target.features ^= 1u; /* whichever feature that is here */
    check_served("other features", &cpu, 1, false, other);
    const fv_tuning_section model = model_here();
    write_rows(path, &model, 2, 7, 0, FV_TUNING_OPERATIONS - 1);
    check_served("rows for 2 threads, with 2", machine_facts(), 2, true, "; shipped rows: ");
    check_served("rows for 2 threads, with 1", machine_facts(), 1, false, ": 0 of the ");
}

/* Names that this build does not have, each in a row more: that row is dropped, and all others serve. */
static void test_unknown(void) {
    static const char evidence[] = " : gain=1.043 low=1.031 high=1.055 blocks=40 shapes=b1_h2";
    const char *isa = fv_isa_word((fv_isa)test_isa());
    static const struct {
        const char *what, *operation, *keys, *choice, *word;
    } rows[] = {
        {"operation", "convolution_f32", "", " tile_rows=8", "convolution_f32"},
        {"key", "attention_f32", " pages=16", " tile_rows=8", "pages"},
        {"knob", "attention_f32", "", " stages=8", "stages"},
        {"kernel", "attention_f32", "", " score=multiply_f32_f32_99x99_sve", "score=multiply_f32_f32_99x99_sve"},
        {"name of a list", "linear_f32", "", " prefetch=everything", "prefetch=everything"},
    };
    char line[FV_TUNING_LINE], words[128];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_shipped();
        snprintf(line, sizeof line, "%s isa=%s%s :%s%s", rows[i].operation, isa, rows[i].keys, rows[i].choice,
                 evidence);
        write_more(line);
        snprintf(words, sizeof words, "; 1 dropped: line %d: ", FV_TUNING_OPERATIONS + 3);
        check_served(rows[i].what, machine_facts(), 1, true, words);
        check_served(rows[i].what, machine_facts(), 1, true, rows[i].word);
    }
    write_shipped();
    snprintf(line, sizeof line, "attention_f32 isa=sve9 : tile_rows=8%s", evidence);
    write_more(line);
    check_served("tier", machine_facts(), 1, true, "isa=sve9 is not a tier");

    /* Text that is carried along unread is written again. */
    fovea_tuning *tuning;
    static char again[FV_TUNING_BYTES];
    if (test_check(fovea_tuning_load(path, &tuning) == FOVEA_OK, "load: %s", fovea_error_detail())) {
        tuning_text(tuning, NULL, NULL, NULL, again, sizeof again);
        test_check(strcmp(text, again) == 0, "written as\n%s", again);
        fovea_tuning_destroy(tuning);
    }
}

/* Rows of adapters are found there, too, whatever the number of threads if they name none, and are not dropped. */
static void test_adapters(void) {
    static const char *const threads[] = {"", " threads=2"};
    char line[FV_TUNING_LINE];
    fovea_context_facts info;
    fovea_tuning_match match;
    fovea_tuning_match_init(&match);
    for (int named = 0; named < 2; named++)
        for (int count = 1; count < 3; count++) {
            write_shipped();
            snprintf(line, sizeof line, "some.product isa=%s%s type=q4_0 : take=1 : gain=1.1",
                     fv_isa_word((fv_isa)test_isa()), threads[named]);
            write_more(line);
            fovea_context *ctx = context_on(machine_facts(), count, NULL, &info);
            test_check(fovea_tuning_get_adapter_row(NULL, ctx, "some.product", 0, &match) == FOVEA_OK &&
                           match.found == (!named || count == 2) && (!match.found || strcmp(match.row, line) == 0),
                       "\"%s\" with %d threads: %d, \"%s\"", line, count, match.found, match.row);
            test_check(fovea_tuning_get_adapter_row(NULL, ctx, "some.product", 1, &match) == FOVEA_OK && !match.found &&
                           fovea_tuning_get_adapter_row(NULL, ctx, "some", 0, &match) == FOVEA_OK && !match.found,
                       "a row that is not there: \"%s\"", match.row);
            test_check(info.tuning_status == FOVEA_OK && !strstr(info.tuning, "dropped"), "adapters: %s", info.tuning);
            fovea_context_destroy(ctx);
        }
}

/* Whatever else is wrong with it, the shipped file is refused whole, and the defaults serve. */
static void test_damaged(void) {
    const struct {
        const char *line, *word;
    } lines[] = {{"attention_f32 isa=scalar : tile_rows=0 : gain=1.043", "tile_rows=0"},
                 {"cpu vendor=A family=1 model=2 isa=scalar features=none cores=2", "cores"}};
    int64_t tile;
    fovea_context_facts info;
    for (int i = 0; i < 3; i++) {
        write_shipped();
        if (i < 2)
            write_more(lines[i].line);
        else
            file_write(path, text, strlen(text) - 1);
        fovea_context *ctx = context_on(machine_facts(), 1, NULL, &info);
        test_check(info.tuning_status == FOVEA_ERROR_TUNING && info.tuning_rows == 0 &&
                       strstr(info.tuning, "; shipped rows: ") && (i == 2 || strstr(info.tuning, lines[i].word)),
                   "damaged %d: %s, \"%s\"", i, fovea_status_name(info.tuning_status), info.tuning);
        const char *said = origin(ctx, &tile);
        test_check(begins(said, "no: ") && tile != 7, "damaged %d: tiles of %lld, %s", i, (long long)tile, said);
        fovea_context_destroy(ctx);
    }
    setenv("FOVEA_KNOWN_CPUS", "", 1);
    fovea_context_destroy(context_on(machine_facts(), 1, NULL, &info));
    test_check(info.tuning_status == FOVEA_OK && info.tuning_rows == 0 && !strstr(info.tuning, "shipped"), "none: %s",
               info.tuning);
    setenv("FOVEA_KNOWN_CPUS", path, 1);
}

/* A user's row comes first, for this CPU and build or for its model; the shipped rows serve what it says nothing of. */
static void test_user(void) {
    char own[256], words[4096], yes[320];
    int64_t tile, block;
    fovea_context_facts info;
    const fv_tuning_section exact = section_own(), model = model_here();
    snprintf(own, sizeof own, "%s", files_name("own"));
    snprintf(yes, sizeof yes, "yes: %s line ", own);
    for (int by_model = 0; by_model < 2; by_model++) {
        write_rows(own, by_model ? &model : &exact, 1, 9, FV_TUNING_attention_f32, FV_TUNING_attention_f32);
        write_shipped();
        fovea_context *ctx = context_on(machine_facts(), 1, own, &info);
        snprintf(words, sizeof words, "%s", origin(ctx, &tile));
        test_check(begins(words, yes) && tile == 9, "a user's row: tiles of %lld, %s", (long long)tile, words);
        test_check(strstr(map_origin(ctx, &block), "shipped rows of") && block == 7, "a map: blocks of %lld",
                   (long long)block);
        test_check(info.tuning_status == FOVEA_OK && info.tuning_rows > 1 && strstr(info.tuning, "; shipped rows: "),
                   "a user's and shipped rows: %s", info.tuning);

        fovea_tuning *tuning;
        fovea_tuning_match match;
        fovea_tuning_match_init(&match);
        fovea_attention_desc d = some_desc();
        fovea_tuning_load(own, &tuning);
        test_check(fovea_tuning_lookup(tuning, ctx, &d, &match) == FOVEA_OK && match.found && !match.reason[0] &&
                       strstr(match.row, "tile_rows=9"),
                   "lookup: %d, %s, %s", match.found, match.reason, match.row);
        d.q_len = 1;
        snprintf(yes, sizeof yes, "shipped rows of %.200s", path);
        test_check(fovea_tuning_lookup(tuning, ctx, &d, &match) == FOVEA_OK && match.found &&
                       strcmp(match.reason, yes) == 0 && strstr(match.row, "tile_rows=7"),
                   "lookup of few: %d, %s, %s", match.found, match.reason, match.row);
        fovea_context_destroy(ctx);
        ctx = context_on(machine_facts(), 1, "", &info);
        test_check(begins(origin(ctx, &tile), "no: no tuning file: the options say none") && tile != 7 && tile != 9,
                   "no file: tiles of %lld", (long long)tile);
        test_check(fovea_tuning_lookup(tuning, ctx, &d, &match) == FOVEA_OK && !match.found && match.reason[0],
                   "lookup without shipped rows: %d, %s", match.found, match.reason);
        fovea_context_destroy(ctx);
        fovea_tuning_destroy(tuning);
        snprintf(yes, sizeof yes, "yes: %s line ", own);
    }

    /* A damaged file of the user's is said to be damaged, and the shipped rows serve. */
    file_write(own, "fovea-tuning 4\n", 15);
    fovea_context *ctx = context_on(machine_facts(), 1, own, &info);
    test_check(info.tuning_status == FOVEA_ERROR_TUNING && strstr(origin(ctx, &tile), "shipped rows of") && tile == 7,
               "a damaged file of the user's: %s, tiles of %lld", info.tuning, (long long)tile);
    fovea_context_destroy(ctx);
}

/* The file that ships: no row of it has a name that this build lacks. It has the machine's model, or says that it was
 * skipped. */
static void test_own_file(void) {
    fovea_context_facts info;
    setenv("FOVEA_KNOWN_CPUS", FOVEA_KNOWN_CPUS_FILE, 1);
    fovea_context_destroy(context_on(machine_facts(), 1, NULL, &info));
    test_check(info.tuning_status == FOVEA_OK && strstr(info.tuning, FOVEA_KNOWN_CPUS_FILE) &&
                   !strstr(info.tuning, "dropped"),
               "the file that ships: %s", info.tuning);
    unsetenv("FOVEA_KNOWN_CPUS");
    const fv_cpu *cpu = machine_facts();
    char words[96];
    FILE *file = fopen(FOVEA_KNOWN_CPUS_FILE, "re");
    text[file ? fread(text, 1, sizeof text - 1, file) : 0] = '\0';
    snprintf(words, sizeof words, " vendor=%s family=%lld model=%lld ", cpu->vendor, (long long)cpu->family,
             (long long)cpu->model);
    test_check(cpu->family + cpu->model == 0 || strstr(text, words), "the file that ships does not know \"%s\"", words);
    if (file)
        fclose(file);
}

int main(int argc, char **argv) {
    test_option options[] = {MACHINE_OPTION, {NULL, NULL, NULL, NULL}};
    if (!machine_test_begin(argc, argv, "tuning_model", options)) {
        fprintf(stderr, "tuning_model: --machine tests/machines/NAME.txt is missing\n");
        return TEST_USAGE;
    }
    files_begin();
    snprintf(path, sizeof path, "%s", files_name("known-cpus"));
    setenv("FOVEA_KNOWN_CPUS", path, 1);
    test_machines();
    test_unknown();
    test_adapters();
    test_damaged();
    test_user();
    test_own_file();
    files_end();
    return test_end();
}
