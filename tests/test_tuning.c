/* Tunings: text form, merge, look-up, what plans make of them, and that no bit of a result changes. Files:
 * test_tuning_file.c; what linear maps make of them: test_tuning_linear.c.
 *
 * Wrong text is made from sound text by changing one thing; a context must then say why, use the defaults, and
 * compute what one without a file computes. */
#include "tuning_case.h"

#include "registry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static char text[2 * FV_TUNING_BYTES];

static fovea_status parse(const char *bytes, size_t size, fovea_tuning **tuning, char error[FV_FILE_ERROR]) {
    error[0] = '\0';
    return fv_tuning_parse(bytes, size, tuning, error);
}

static void test_round_trip(void) {
    fovea_tuning *tuning = tuning_sound(1), *again;
    char error[FV_FILE_ERROR], second[4096];
    tuning_text(tuning, NULL, NULL, NULL, text, sizeof text);
    const size_t size = strlen(text);
    if (test_check(parse(text, size, &again, error) == FOVEA_OK, "round trip: %s", error)) {
        tuning_text(again, NULL, NULL, NULL, second, sizeof second);
        test_check(strcmp(text, second) == 0, "round trip: another text:\n%s\n%s", text, second);
        test_check(again->rows == tuning->rows && again->row[0].line == 3 && again->row[1].line == 4, "rows, lines");
        fovea_tuning_destroy(again);
    }
    /* Every beginning of it is refused, and so is every byte that is another. */
    for (size_t n = 0; n < size; n++)
        test_check(parse(text, n, &again, error) == FOVEA_ERROR_TUNING && !again && error[0],
                   "cut to %zu of %zu bytes: taken", n, size);
    for (size_t n = 0; n < size; n++)
        for (int bit = 0; bit < 8; bit++) {
            text[n] = (char)(text[n] ^ (1 << bit));
            test_check(parse(text, size, &again, error) == FOVEA_ERROR_TUNING && !again && error[0],
                       "bit %d of byte %zu changed: taken", bit, n);
            text[n] = (char)(text[n] ^ (1 << bit));
        }
    fovea_tuning_destroy(tuning);
}

/* One thing wrong: what is between from and to is with instead. */
typedef struct wrong {
    const char *what, *from, *to, *with, *words;
} wrong;

static const wrong wrongs[] = {
    {"another version", "fovea-tuning 1", "\ncpu", "fovea-tuning 2", "line 1|version|fovea-tuning 2"},
    {"no tuning file", "fovea-tuning 1", "\ncpu", "#!/bin/sh", "line 1|does not begin"},
    {"unknown operation", "attention_few_f32", " isa=", "convolution_f32", "line 4|convolution_f32"},
    {"unknown kernel", "score=", " value=", "score=gemm_f32_99x99_avx512", "line 3|gemm_f32_99x99_avx512|no kernel"},
    {"a kernel of another operation", "score=", " value=", "score=exp_f32_1x1_scalar", "line 3|exp_f32|operation"},
    {"no tier", "attention_f32 isa=", " threads", "attention_f32 isa=", "line 3|isa="},
    {"unknown tier", "attention_f32 isa=", " threads", "attention_f32 isa=sse9", "line 3|isa=sse9"},
    {"block of no rows", "block_rows=21", " tile_rows", "block_rows=0", "line 3|block_rows"},
    {"block too large", "block_rows=21", " tile_rows", "block_rows=4097", "line 3|block_rows=4097|4096"},
    {"tile below zero", "tile_rows=7", " split", "tile_rows=-7", "line 3|tile_rows=-7"},
    {"tile too large", "tile_rows=7", " split", "tile_rows=999999999", "line 3|tile_rows"},
    {"tile beyond any number", "tile_rows=7", " split", "tile_rows=99999999999999999999", "line 3|tile_rows"},
    {"tile with zeros before", "tile_rows=7", " split", "tile_rows=007", "line 3|tile_rows"},
    {"tile in words", "tile_rows=7", " split", "tile_rows=seven", "line 3|tile_rows"},
    {"split below never", "split_segments=default", " gain", "split_segments=-2", "line 3|split_segments"},
    {"no threads", "threads=1", " rows", "threads=0", "line 3|threads"},
    {"empty interval", "head_dim=1..1024", " value_dim", "head_dim=9..3", "line 3|head_dim|empty"},
    {"interval out of range", "head_dim=1..1024", " value_dim", "head_dim=0..3", "line 3|head_dim|at least 1"},
    {"few rows that are many", "rows=any", " keys", "rows=3", "line 3|rows=3|at least 17"},
    {"a word twice", "head_dim=1..1024", " value_dim", "head_dim=1..1024 head_dim=1..1024", "line 3|value_dim="},
    {"a word less", "head_dim=1..1024", "value_dim", "", "line 3|head_dim="},
    {"two spaces", "threads=1", " rows", "threads=1 ", "line 3|rows="},
    {"gain without fraction", "gain=1.043", " low", "gain=1", "line 3|gain"},
    {"gain nan", "gain=1.043", " low", "gain=nan", "line 3"},
    {"shapes with a path", "shapes=b1_h2", "\n", "shapes=../../etc/passwd", "line 3|shapes"},
    {"words after the end of a row", "shapes=b1_h2", "\n", "shapes=b1_h2 more=1", "line 3|more"},
    {"carriage return", "shapes=b1_h2", "\n", "shapes=b1_h2\r", "line 3|0x0d"},
    {"not ASCII", "shapes=b1_h2", "\n", "shapes=\xc3\xa4", "line 3|0xc3"},
    {"row before cpu", "cpu vendor", "attention_f32", "", "line 2|before the first cpu"},
    {"cpu without cores", " cores=", " kernels", "", "line 2|cores="},
    {"hash too short", "kernels=", "\nattention_f32", "kernels=abc", "line 2|kernels=abc"},
};

/* A context from that text: says status and words, and computes what one without computes. */
static void check_context(const char *what, const void *bytes, size_t size, fovea_status status, const char *words) {
    const char *path = files_name("wrong");
    file_write(path, bytes, size);
    fovea_tuning *loaded = NULL;
    if (status != FOVEA_ERROR_FOREIGN) {
        check_status(what, fovea_tuning_load(path, &loaded), status, words);
        test_check(!loaded, "%s: a tuning", what);
    }
    fovea_context *with = context_tuned(path, 1), *without = context_tuned("", 1);
    fovea_info info;
    fovea_info_init(&info);
    test_check(fovea_context_info(with, &info) == FOVEA_OK && info.tuning_status == status && info.tuning_rows == 0,
               "%s: %s, %d rows, \"%s\"", what, fovea_status_name(info.tuning_status), info.tuning_rows, info.tuning);
    char list[160];
    snprintf(list, sizeof list, "%s", words);
    for (char *word = strtok(list, "|"); word; word = strtok(NULL, "|"))
        test_check(strstr(info.tuning, word) != NULL, "%s: no \"%s\" in \"%s\"", what, word, info.tuning);

    rng r = rng_stream(test_seed(), what);
    attention_case c = case_plain(1, 2, 1, 40, 300, 16, 24);
    inputs *in = inputs_make(&c, &r);
    outputs *got = outputs_make(&c, c.layout), *want = outputs_make(&c, c.layout);
    case_run(with, NULL, &c, in, got);
    case_run(without, NULL, &c, in, want);
    outputs_same(got, want, "%s: output bits", what);
    fovea_attention_plan *a, *b;
    char as[2048], bs[2048];
    fovea_attention_plan_create(with, &c.desc, &a);
    fovea_attention_plan_create(without, &c.desc, &b);
    fovea_attention_plan_describe(a, as, sizeof as);
    fovea_attention_plan_describe(b, bs, sizeof bs);
    *strstr(as, "tuned") = *strstr(bs, "tuned") = '\0';
    test_check(strcmp(as, bs) == 0, "%s: not the default's plan:\n%s", what, as);
    fovea_attention_plan_destroy(a);
    fovea_attention_plan_destroy(b);
    inputs_free(in);
    outputs_free(got);
    outputs_free(want);
    fovea_context_destroy(with);
    fovea_context_destroy(without);
}

static void test_wrong(void) {
    fovea_tuning *tuning = tuning_sound(1);
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        const wrong *w = &wrongs[i];
        tuning_text(tuning, w->from, w->to, w->with, text, sizeof text);
        check_context(w->what, text, strlen(text), FOVEA_ERROR_TUNING, w->words);
    }
    tuning_text(tuning, NULL, NULL, NULL, text, sizeof text);
    const size_t size = strlen(text);
    text[size / 2] = '\0';
    check_context("a NUL byte", text, size, FOVEA_ERROR_TUNING, "0x00");
    memset(text, 0, 1000);
    check_context("nothing but NUL bytes", text, 1000, FOVEA_ERROR_TUNING, "line 1|0x00");
    check_context("an empty file", text, 0, FOVEA_ERROR_TUNING, "cut");
    memset(text, 'a', sizeof text);
    check_context("one long line", text, FV_TUNING_BYTES, FOVEA_ERROR_TUNING, "line 1|longer");
    check_context("too large by a byte", text, FV_TUNING_BYTES + 1, FOVEA_ERROR_FILE, "larger|65536");

    /* The same row twice; twice for one shape with another choice; after the end. */
    char line[FV_TUNING_LINE + 32];
    snprintf(line, sizeof line, "\n%s\nattention_few", tuning->row[0].text);
    tuning_text(tuning, "\nattention_few", "_f32 isa", line, text, sizeof text);
    check_context("a row twice", text, strlen(text), FOVEA_ERROR_TUNING, "line 4|same as line 3");
    fv_tuning_row other = tuning->row[0];
    other.key[FV_KEY_head_dim] = (fv_interval){64, INT64_MAX};
    other.knob[FV_KNOB_tile_rows].number = 8;
    fv_tuning_print_row(&other);
    snprintf(line, sizeof line, "\n%s\nattention_few", other.text);
    tuning_text(tuning, "\nattention_few", "_f32 isa", line, text, sizeof text);
    check_context("a contradictory row", text, strlen(text), FOVEA_ERROR_TUNING, "line 4|contradicts line 3");
    tuning_text(tuning, NULL, NULL, NULL, text, sizeof text);
    strcat(text, "# more\n");
    check_context("something after the end", text, strlen(text), FOVEA_ERROR_TUNING, "follows the end");
    fovea_tuning_destroy(tuning);
}

/* Sound files for other machines, tiers and builds. */
static void test_foreign(void) {
    fovea_tuning *tuning = tuning_sound(1);
    static const char *const words[][3] = {{" model=", " stepping", "model=9999"},
                                           {" l2=", " l3", "l2=12345"},
                                           {" cores=", " kernels", "cores=999"},
                                           {"vendor=", " family", "vendor=HygonGenuine"}};
    for (int i = 0; i < 4; i++) {
        char with[64];
        snprintf(with, sizeof with, "%s%s", words[i][0][0] == ' ' ? " " : "", words[i][2]);
        tuning_text(tuning, words[i][0], words[i][1], with, text, sizeof text);
        check_context(words[i][2], text, strlen(text), FOVEA_ERROR_FOREIGN, words[i][2]);
    }
    /* Another build may have kernels and operations that this one does not know. */
    tuning_text(tuning, " kernels=", "\n", " kernels=0123456789abcdef", text, sizeof text);
    check_context("another build", text, strlen(text), FOVEA_ERROR_FOREIGN, "another build|0123456789abcdef");
    char *row = strstr(text, "\nattention_f32"), unknown[4096];
    snprintf(unknown, sizeof unknown, "%.*s\nlinear_f16 isa=sve2 anything=at all\n", (int)(row - text), text);
    tuning_close(unknown, sizeof unknown);
    check_context("another build's operations", unknown, strlen(unknown), FOVEA_ERROR_FOREIGN, "another build");
    fovea_tuning_destroy(tuning);

    /* A tier that the CPU of the section lacks: the row cannot be from there. */
    fv_cpu cpu;
    fv_cpu_detect(&cpu);
    cpu.isa = FV_ISA_scalar;
    fv_tuning_section lesser;
    fv_tuning_section_of(&cpu, &lesser);
    if (test_isa() == FOVEA_ISA_SCALAR) {
        test_skip("a row of a tier that its CPU lacks: no tier is below scalar");
        return;
    }
    char error[FV_FILE_ERROR];
    fv_tuning_row any = row_any(FV_TUNING_attention, 1);
    test_check(fv_tuning_create(&tuning, error) == FOVEA_OK && fv_tuning_put(tuning, &lesser, &any, error) == FOVEA_OK,
               "put: %s", error);
    tuning_text(tuning, NULL, NULL, NULL, text, sizeof text);
    check_context("a tier that the CPU lacks", text, strlen(text), FOVEA_ERROR_TUNING, "line 3|no more than scalar");
    fovea_tuning_destroy(tuning);
    /* A row of one tier with a kernel of another. */
    tuning = tuning_sound(1);
    tuning_text(tuning, "score=", " value=", "score=gemm_f32_4x4_scalar", text, sizeof text);
    check_context("a kernel of another tier", text, strlen(text), FOVEA_ERROR_TUNING, "line 3|not of tier");
    fovea_tuning_destroy(tuning);
}

/* What a plan takes from a row, and what it says about it. */
static void test_plan(void) {
    fovea_tuning *tuning = tuning_sound(1);
    const char *path = files_name("sound");
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    fovea_context *ctx = context_tuned(path, 1);
    fovea_info info;
    fovea_info_init(&info);
    fovea_context_info(ctx, &info);
    test_check(info.tuning_status == FOVEA_OK && info.tuning_rows == FV_TUNING_OPERATIONS && strstr(info.tuning, path),
               "info: %s, %d rows, \"%s\"", fovea_status_name(info.tuning_status), info.tuning_rows, info.tuning);
    attention_case c = case_plain(1, 2, 2, 100, 100, 64, 64);
    fovea_attention_plan *plan;
    char words[2048];
    fovea_attention_plan_create(ctx, &c.desc, &plan);
    fovea_attention_plan_describe(plan, words, sizeof words);
    test_check(strstr(words, "tuned   yes") && strstr(words, path) && strstr(words, "line 3") && strstr(words, "1.043"),
               "describe a tuned plan: %s", words);
    test_check(strstr(words, "of 21 rows, in tiles of 7") &&
                   strstr(words, fv_kernel_best(FV_OP_gemm, (fv_isa)test_isa())->name),
               "describe a tuned plan: %s", words);
    fovea_attention_plan_destroy(plan);
    c.desc.head_dim = c.desc.value_dim = 2000;
    fovea_attention_plan_create(ctx, &c.desc, &plan);
    fovea_attention_plan_describe(plan, words, sizeof words);
    test_check(strstr(words, "tuned   no") && strstr(words, "head_dim 2000") && strstr(words, "1 to 1024"),
               "describe a plan that is not tuned: %s", words);
    fovea_attention_plan_destroy(plan);
    const fv_attention_choice none = {.tile_rows = 3};
    fv_attention_plan_create_chosen(ctx, &c.desc, &none, &plan);
    fovea_attention_plan_describe(plan, words, sizeof words);
    test_check(strstr(words, "tuned   no: the caller chose") != NULL, "describe a chosen plan: %s", words);
    fovea_attention_plan_destroy(plan);
    fovea_context_destroy(ctx);
    fovea_tuning_destroy(tuning);
}

/* Partial results of split rows cost memory: a file may not ask for much. */
static void test_memory(void) {
    fovea_tuning *tuning = tuning_sound(1);
    for (int i = 0; i < tuning->rows; i++) {
        tuning->row[i].knob[FV_KNOB_split].number = 1;
        tuning->row[i].knob[FV_KNOB_block_rows].number = 4096;
        tuning->row[i].knob[FV_KNOB_tile_rows].number = 4096;
        fv_tuning_print_row(&tuning->row[i]);
    }
    const char *path = files_name("large");
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    fovea_context *ctx = context_tuned(path, 1);
    attention_case c = case_plain(4, 32, 32, 1 << 15, 1 << 20, 128, 128);
    fovea_attention_plan *plan;
    test_check(fovea_attention_plan_create(ctx, &c.desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
    test_check(fovea_attention_plan_workspace_size(plan) < (size_t)100 << 20, "a file asks for %zu bytes of workspace",
               fovea_attention_plan_workspace_size(plan));
    fovea_attention_plan_destroy(plan);
    fovea_context_destroy(ctx);
    fovea_tuning_destroy(tuning);
}

static void test_lookup(void) {
    fovea_tuning *tuning = tuning_sound(2), *empty;
    char error[FV_FILE_ERROR];
    fovea_context *ctx = context_tuned("", 1);
    attention_case c = case_plain(1, 2, 2, 100, 100, 64, 64);
    fovea_tuning_match match;
    fovea_tuning_match_init(&match);
    test_check(match.struct_size == sizeof match && !match.found, "match_init");
    test_check(fovea_tuning_lookup(tuning, ctx, &c.desc, &match) == FOVEA_OK && !match.found &&
                   strstr(match.reason, "no row for 1 threads"),
               "look-up on 1 thread: \"%s\"", match.reason);
    for (int i = 0; i < tuning->rows; i++)
        tuning->row[i].threads = 1;
    test_check(fovea_tuning_lookup(tuning, ctx, &c.desc, &match) == FOVEA_OK && match.found && match.gain == 1.043 &&
                   match.gain_low == 1.031 && match.gain_high == 1.055 && strncmp(match.row, "attention_f32 ", 14) == 0,
               "look-up: \"%s\" \"%s\"", match.row, match.reason);
    c.desc.q_len = 16;
    fovea_tuning_lookup(tuning, ctx, &c.desc, &match);
    test_check(match.found && strncmp(match.row, "attention_few_f32 ", 18) == 0, "look-up: \"%s\"", match.row);
    fv_tuning_create(&empty, error);
    test_check(fovea_tuning_lookup(empty, ctx, &c.desc, &match) == FOVEA_OK && !match.found &&
                   strstr(match.reason, "no rows"),
               "look-up in nothing: \"%s\"", match.reason);
    check_status("look-up in NULL", fovea_tuning_lookup(NULL, ctx, &c.desc, &match), FOVEA_ERROR_NULL, "tuning");
    check_status("look-up for NULL", fovea_tuning_lookup(empty, NULL, &c.desc, &match), FOVEA_ERROR_NULL, "ctx");
    check_status("look-up of NULL", fovea_tuning_lookup(empty, ctx, NULL, &match), FOVEA_ERROR_NULL, "desc");
    check_status("look-up to NULL", fovea_tuning_lookup(empty, ctx, &c.desc, NULL), FOVEA_ERROR_NULL, "match");
    match.struct_size--;
    check_status("look-up, old", fovea_tuning_lookup(empty, ctx, &c.desc, &match), FOVEA_ERROR_VERSION, "match");
    c.desc.q_heads = 0;
    fovea_tuning_match_init(&match);
    check_status("look-up of no heads", fovea_tuning_lookup(empty, ctx, &c.desc, &match), FOVEA_ERROR_SHAPE, "q_heads");
    fovea_tuning_destroy(empty);
    fovea_tuning_destroy(tuning);
    fovea_tuning_destroy(NULL);
    fovea_context_destroy(ctx);
}

/* Rows of several CPUs and builds; where two are for one shape, the later stays. */
static void test_merge(void) {
    enum { ROWS = FV_TUNING_OPERATIONS };
    fovea_tuning *a = tuning_sound(1), *b = tuning_sound(1), *c = tuning_sound(3);
    fv_tuning_row newer = b->row[0];
    char error[FV_FILE_ERROR];
    newer.key[FV_KEY_rows] = (fv_interval){100, 200};
    newer.knob[FV_KNOB_tile_rows].number = 99;
    const fv_tuning_section own = section_own();
    fv_tuning_section other = own;
    memcpy(other.text, "cpu vendor=X", 12);
    test_check(fv_tuning_put(b, &own, &newer, error) == FOVEA_OK && b->rows == ROWS, "put replaces: %d rows", b->rows);
    test_check(fv_tuning_put(b, &other, &newer, error) == FOVEA_OK && b->rows == ROWS + 1, "put beside: %d rows",
               b->rows);
    test_check(fovea_tuning_merge(a, b) == FOVEA_OK && a->rows == ROWS + 1 && a->sections == 2, "merge: %d rows",
               a->rows);
    int tiles = 0;
    for (int i = 0; i < a->rows; i++)
        tiles += a->row[i].operation == FV_TUNING_attention && a->row[i].knob[FV_KNOB_tile_rows].number == 99;
    test_check(tiles == 2, "merge kept the older row");
    test_check(fovea_tuning_merge(a, c) == FOVEA_OK && a->rows == 2 * ROWS + 1, "merge of other threads: %d rows",
               a->rows);
    test_check(fovea_tuning_merge(a, a) == FOVEA_OK && a->rows == 2 * ROWS + 1, "merge with itself: %d rows", a->rows);
    check_status("merge into NULL", fovea_tuning_merge(NULL, a), FOVEA_ERROR_NULL, "into");
    check_status("merge of NULL", fovea_tuning_merge(a, NULL), FOVEA_ERROR_NULL, "from");

    /* More rows than a file holds: refused, and what was there stays. */
    fv_tuning_row many = newer;
    memset(many.evidence.shapes, 'x', sizeof many.evidence.shapes - 1);
    fovea_status status = FOVEA_OK;
    for (int i = 0; i < FV_TUNING_ROWS && status == FOVEA_OK; i++) {
        many.threads = 100 + i;
        status = fv_tuning_put(c, &own, &many, error);
    }
    test_check(status == FOVEA_ERROR_TUNING && strstr(error, "too many rows"), "too many rows: %s", error);
    const int before = a->rows;
    check_status("merge of too many", fovea_tuning_merge(a, c), FOVEA_ERROR_TUNING, "too many rows");
    test_check(a->rows == before, "a merge that failed changed it");
    check_status("save too many", fovea_tuning_save(c, files_name("many")), FOVEA_ERROR_TUNING, "65536");
    fovea_tuning_destroy(a);
    fovea_tuning_destroy(b);
    fovea_tuning_destroy(c);
}

/* Any choice, for any case: the same bits with the file and without. */
static void test_bits(void) {
    const char *path = files_name("bits");
    int tuned = 0;
    const int64_t cases = test_scaled(60);
    for (int64_t i = 0; i < cases; i++) {
        char name[32], words[2048];
        snprintf(name, sizeof name, "bits %" PRId64, i);
        rng r = rng_stream(test_seed(), name);
        attention_case c = case_random(&r, 1 << 18);
        const fv_attention_choice choice = choice_random(&r);
        fv_tuning_value knob[FV_TUNING_KNOBS] = {{NULL, 0}};
        fv_tuning_knobs(&choice, knob);
        fovea_context *without = context_tuned("", i % 2 ? 2 : 1);
        fovea_context *with = context_knobs(without, path, FV_TUNING_attention, FV_TUNING_attention_few, knob);
        inputs *in = inputs_make(&c, &r);
        outputs *got = outputs_make(&c, c.layout), *want = outputs_make(&c, c.layout);
        case_run(with, NULL, &c, in, got);
        case_run(without, NULL, &c, in, want);
        outputs_same(got, want, "%s", case_text(&c, words, sizeof words));
        fovea_attention_plan *plan;
        if (fovea_attention_plan_create(with, &c.desc, &plan) == FOVEA_OK) {
            fovea_attention_plan_describe(plan, words, sizeof words);
            tuned += strstr(words, "tuned   yes") != NULL;
            fovea_attention_plan_destroy(plan);
        }
        inputs_free(in);
        outputs_free(got);
        outputs_free(want);
        fovea_context_destroy(with);
        fovea_context_destroy(without);
    }
    test_check(tuned == cases, "only %d of %" PRId64 " plans were tuned", tuned, cases);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tuning", NULL);
    files_begin();
    test_round_trip();
    test_wrong();
    test_foreign();
    test_plan();
    test_memory();
    test_lookup();
    test_merge();
    test_bits();
    files_end();
    return test_end();
}
