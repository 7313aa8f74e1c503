/* The text form of tunings: there and back, and what is wrong with it. What is made of sound ones: test_tuning.c.
 *
 * Wrong text is made from sound text by changing one thing; a context must then say why, use the defaults, and
 * compute what one without a file computes. */
#include "tuning_case.h"

#include <stdio.h>

static char text[2 * FV_TUNING_BYTES];

static fovea_status parse(const char *bytes, size_t size, fovea_tuning **tuning, char error[FV_FILE_ERROR]) {
    error[0] = '\0';
    return fv_tuning_parse(bytes, size, tuning, error);
}

static void test_round_trip(void) {
    fovea_tuning *tuning = tuning_sound(1), *again;
    char error[FV_FILE_ERROR], second[8192];
    tuning_text(tuning, NULL, NULL, NULL, text, sizeof text);
    const size_t size = strlen(text);
    if (test_check(parse(text, size, &again, error) == FOVEA_OK, "round trip: %s", error)) {
        tuning_text(again, NULL, NULL, NULL, second, sizeof second);
        test_check(strcmp(text, second) == 0, "round trip: another text:\n%s\n%s", text, second);
        test_check(again->rows == tuning->rows && again->row[0].line == 4 && again->row[1].line == 5, "rows, lines");
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
    {"no number of a version", "fovea-tuning 4", "\ncpu", "fovea-tuning two", "line 1|does not begin"},
    {"no tuning file", "fovea-tuning 4", "\ncpu", "#!/bin/sh", "line 1|does not begin"},
    {"unknown operation", "attention_few_f32", " isa=", "convolution_f32", "line 5|convolution_f32"},
    {"unknown kernel", "score=", " block", "score=multiply_f32_f32_99x99_avx512",
     "line 4|multiply_f32_f32_99x99_avx512|no kernel"},
    {"a kernel of another operation", "score=", " block", "score=exp_f32_1x1_scalar", "line 4|exp_f32|operation"},
    {"an empty tier", "attention_f32 isa=", " threads", "attention_f32 isa=", "line 4|isa="},
    {"unknown tier", "attention_f32 isa=", " threads", "attention_f32 isa=sse9", "line 4|isa=sse9"},
    {"block of no rows", "block_rows=21", " tile_rows", "block_rows=0", "line 4|block_rows"},
    {"block too large", "block_rows=21", " tile_rows", "block_rows=4097", "line 4|block_rows=4097|4096"},
    {"tile below zero", "tile_rows=7", " :", "tile_rows=-7", "line 4|tile_rows=-7"},
    {"tile too large", "tile_rows=7", " :", "tile_rows=999999999", "line 4|tile_rows"},
    {"tile beyond any number", "tile_rows=7", " :", "tile_rows=99999999999999999999", "line 4|tile_rows"},
    {"tile with zeros before", "tile_rows=7", " :", "tile_rows=007", "line 4|tile_rows"},
    {"tile in words", "tile_rows=7", " :", "tile_rows=seven", "line 4|tile_rows"},
    {"split below never", "tile_rows=7", " :", "tile_rows=7 split_segments=-2", "line 4|split_segments"},
    {"no threads", "threads=1", " head_dim", "threads=0", "line 4|threads"},
    {"empty interval", "head_dim=1..1024", " value_dim", "head_dim=9..3", "line 4|head_dim|empty"},
    {"interval out of range", "head_dim=1..1024", " value_dim", "head_dim=0..3", "line 4|head_dim|at least 1"},
    {"few rows that are many", " :", " score", " rows=3 :", "line 4|rows=3|at least 17"},
    {"a word twice", "head_dim=1..1024", " value_dim", "head_dim=1..1024 head_dim=1..1024",
     "line 4|head_dim= is there twice"},
    {"words in another order", "head_dim=1..1024 value_dim", " :", "value_dim=7 head_dim=7",
     "line 4|head_dim= is there twice or out of order"},
    {"no tier", "attention_f32 isa=", " threads", "attention_f32", "line 4|isa= is missing"},
    {"no gain", " gain=", " low", "", "line 4|gain= is missing"},
    {"no interval", " high=", " blocks", "", "line 4|high= is missing"},
    {"no choice", " : score=", " : gain", "", "line 4|\"gain\" is not a known choice"},
    {"no evidence", " : gain", "\nattention_few", "", "line 4|evidence|is missing"},
    {"any size in a word", "head_dim=1..1024", " value_dim", "head_dim=any", "line 4|head_dim=any"},
    {"the default in a word", "tile_rows=7", " :", "tile_rows=default", "line 4|tile_rows=default"},
    {"a key that is none", "head_dim=1..1024", " value_dim", "depth=3", "line 4|\"depth\" is not a known key"},
    {"a choice that is none", "tile_rows=7", " :", "tile_rows=7 depth=3", "line 4|\"depth\" is not a known choice"},
    {"two spaces", "threads=1", " head_dim", "threads=1 ", "line 4|one space"},
    {"gain without fraction", "gain=1.043", " low", "gain=1", "line 4|gain"},
    {"gain nan", "gain=1.043", " low", "gain=nan", "line 4"},
    {"shapes with a path", "shapes=b1_h2", "\n", "shapes=../../etc/passwd", "line 4|shapes"},
    {"words after the end of a row", "shapes=b1_h2", "\n", "shapes=b1_h2 more=1", "line 4|more"},
    {"carriage return", "shapes=b1_h2", "\n", "shapes=b1_h2\r", "line 4|0x0d"},
    {"not ASCII", "shapes=b1_h2", "\n", "shapes=\xc3\xa4", "line 4|0xc3"},
    {"row before cpu", "cpu vendor", "attention_f32", "", "line 3|before the first cpu"},
    {"cpu without cores", " cores=", " kernels", "", "line 3|cores="},
    {"hash too short", "kernels=", "\nattention_f32", "kernels=abc", "line 3|kernels=abc"},
};

/* A context from that text: says status and words, and computes what one without computes. */
static void check_context(const char *what, const void *bytes, size_t size, fovea_status status, const char *words) {
    const char *path = files_name("wrong");
    file_write(path, bytes, size);
    fovea_tuning *loaded = NULL;
    if (status != FOVEA_ERROR_INCOMPATIBLE) {
        check_status(what, fovea_tuning_load(path, &loaded), status, words);
        test_check(!loaded, "%s: a tuning", what);
    }
    check_defaults(what, path, status, words);
}

/* Cut after each byte: of one row, as each is written to a file and loaded. */
static void test_cut(void) {
    fovea_tuning *tuning = tuning_sound(1);
    char what[64];
    tuning->rows = 1;
    tuning_text(tuning, NULL, NULL, NULL, text, sizeof text);
    for (size_t n = 0; n < strlen(text); n++) {
        snprintf(what, sizeof what, "cut after %zu bytes", n);
        check_context(what, text, n, FOVEA_ERROR_TUNING, "line ");
    }
    fovea_tuning_destroy(tuning);
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
    char line[FV_TUNING_LINE + 32], row[FV_TUNING_LINE];
    fv_tuning_print_row(&tuning->row[0], row);
    snprintf(line, sizeof line, "\n%s\nattention_few", row);
    tuning_text(tuning, "\nattention_few", "_f32 isa", line, text, sizeof text);
    check_context("a row twice", text, strlen(text), FOVEA_ERROR_TUNING, "line 5|same as line 4");
    fv_tuning_row other = tuning->row[0];
    other.key[FV_ATTENTION_KEY_head_dim] = (fv_interval){64, INT64_MAX};
    other.knob[FV_ATTENTION_KNOB_tile_rows].number = 8;
    fv_tuning_print_row(&other, row);
    snprintf(line, sizeof line, "\n%s\nattention_few", row);
    tuning_text(tuning, "\nattention_few", "_f32 isa", line, text, sizeof text);
    check_context("a contradictory row", text, strlen(text), FOVEA_ERROR_TUNING, "line 5|contradicts line 4");
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
        check_context(words[i][2], text, strlen(text), FOVEA_ERROR_INCOMPATIBLE, words[i][2]);
    }
    /* Another build may have kernels and operations that this one does not know. */
    tuning_text(tuning, " kernels=", "\n", " kernels=0123456789abcdef", text, sizeof text);
    check_context("another build", text, strlen(text), FOVEA_ERROR_INCOMPATIBLE,
                  "another build|Fovea " FOVEA_VERSION_STRING " (kernels=0123456789abcdef)|this is Fovea");
    char *row = strstr(text, "\nattention_f32"), unknown[8192];
    snprintf(unknown, sizeof unknown, "%.*s\nlinear_f16 isa=sve2 anything=at all\n", (int)(row - text), text);
    tuning_close(unknown, sizeof unknown);
    check_context("another build's operations", unknown, strlen(unknown), FOVEA_ERROR_INCOMPATIBLE, "another build");
    fovea_tuning_destroy(tuning);

    /* A tier that the CPU of the section lacks: the row cannot be from there. */
    fv_cpu cpu;
    fv_cpu_detect(&cpu);
    cpu.target.isa = FV_ISA_scalar;
    fv_tuning_section lesser;
    fv_tuning_section_of(&cpu, &lesser);
    if (test_isa() == FOVEA_ISA_SCALAR) {
        test_skip("a row of a tier that its CPU lacks: no tier is below scalar");
        return;
    }
    char error[FV_FILE_ERROR];
    fv_tuning_row any = row_any(FV_TUNING_attention_f32, 1);
    test_check(fv_tuning_create(&tuning, error) == FOVEA_OK && fv_tuning_put(tuning, &lesser, &any, error) == FOVEA_OK,
               "put: %s", error);
    tuning_text(tuning, NULL, NULL, NULL, text, sizeof text);
    check_context("a tier that the CPU lacks", text, strlen(text), FOVEA_ERROR_TUNING, "line 4|no more than scalar");
    fovea_tuning_destroy(tuning);
    /* A row of one tier with a kernel of a higher one. One of a lower tier is as good as any. */
    tuning = tuning_sound(1);
    tuning_text(tuning, "attention_f32 isa=", " threads", "attention_f32 isa=scalar", text, sizeof text);
    check_context("a kernel of a higher tier", text, strlen(text), FOVEA_ERROR_TUNING, "line 4|needs");
    const char *path = files_name("lower");
    tuning_text(tuning, "score=", " block", "score=multiply_f32_f32_4x4_scalar", text, sizeof text);
    file_write(path, text, strlen(text));
    fovea_context *ctx = context_tuned(path, 1);
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    test_check(fovea_context_info(ctx, &info) == FOVEA_OK && info.tuning_status == FOVEA_OK,
               "a kernel of a lower tier: %s", info.tuning);
    fovea_context_destroy(ctx);
    fovea_tuning_destroy(tuning);
}

/* Files of older and newer versions: what is missing is any size and the default, what is unknown refuses the file with
 * a status of its own if it is for this build, and is carried along if it is for another. */
static void test_older(void) {
    fovea_tuning *tuning = tuning_sound(1), *loaded = NULL;
    char error[FV_FILE_ERROR];
    tuning_text(tuning, " head_dim=1..1024", " score", " :", text, sizeof text);
    if (test_check(parse(text, strlen(text), &loaded, error) == FOVEA_OK, "fewer keys: %s", error)) {
        const fv_tuning_row *row = &loaded->row[0];
        test_check(
            row->key[FV_ATTENTION_KEY_head_dim].least == 1 && row->key[FV_ATTENTION_KEY_head_dim].most == INT64_MAX &&
                row->knob[FV_ATTENTION_KNOB_tile_rows].number == 7 && row->knob[FV_ATTENTION_KNOB_split].number == 0,
            "fewer keys: other sizes than any, or another choice");
        fovea_tuning_destroy(loaded);
    }
    tuning_text(tuning, " : score=", " : gain", " :", text, sizeof text);
    if (test_check(parse(text, strlen(text), &loaded, error) == FOVEA_OK, "no knobs: %s", error)) {
        test_check(!loaded->row[0].knob[FV_ATTENTION_KNOB_score].kernel &&
                       !loaded->row[0].knob[FV_ATTENTION_KNOB_tile_rows].number,
                   "no knobs: a choice");
        fovea_tuning_destroy(loaded);
    }
    tuning_text(tuning, "fovea-tuning 4", "\n", "fovea-tuning 3", text, sizeof text);
    if (test_check(parse(text, strlen(text), &loaded, error) == FOVEA_OK, "version 3: %s", error)) {
        test_check(loaded->version == FV_TUNING_VERSION && loaded->rows == tuning->rows,
                   "version 3: as version %d, %d rows", loaded->version, loaded->rows);
        fovea_tuning_destroy(loaded);
    }
    snprintf(text, sizeof text,
             "fovea-tuning 1\n%s\nattention_f32 isa=scalar threads=1 rows=any keys=any head_dim=64 value_dim=64 "
             "units=any limited=0 group=1 score=default value=default block_rows=default tile_rows=7 "
             "split_segments=default caches=default gain=1.043 low=1.031 high=1.055 blocks=40 shapes=b1_h2\n",
             section_own().text);
    tuning_close(text, sizeof text);
    check_context("version 1", text, strlen(text), FOVEA_ERROR_INCOMPATIBLE, "line 1|version 1|older|version 4");
    check_status("load version 1", fovea_tuning_load(files_name("wrong"), &loaded), FOVEA_ERROR_INCOMPATIBLE,
                 "version 1");
    text[strlen(text) - 3] ^= 1;
    check_context("version 1, damaged", text, strlen(text), FOVEA_ERROR_TUNING, "damaged");
    fovea_tuning_destroy(tuning);
}

static const struct {
    const char *what, *from, *to, *with, *word;
} newer[] = {
    {"a key", " : score", "=", " pages=16 : score", "pages"},
    {"a knob", "tile_rows=7", " :", "tile_rows=7 stages=2", "stages"},
    {"evidence", "shapes=b1_h2", "\n", "shapes=b1_h2 watts=9", "watts"},
    {"an operation", "attention_few_f32", " isa=", "attention_int8", "attention_int8"},
    {"a line", "attention_few_f32", "\nlinear", "numa", "numa"},
};

static void test_newer(void) {
    fovea_tuning *tuning = tuning_sound(1), *loaded = NULL, *again = NULL;
    char error[FV_FILE_ERROR], words[96];
    const char *path = files_name("newer");
    tuning->version = FV_TUNING_VERSION + 1;
    tuning_text(tuning, NULL, NULL, NULL, text, sizeof text);
    test_check(strncmp(text, "fovea-tuning 5\n", 15) == 0, "no version 5: %.20s", text);
    file_write(path, text, strlen(text));
    fovea_context *ctx = context_tuned(path, 1);
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    fovea_context_info(ctx, &info);
    test_check(info.tuning_status == FOVEA_OK && info.tuning_rows == FV_TUNING_OPERATIONS,
               "a newer file of known words: %s, %d rows", info.tuning, info.tuning_rows);
    fovea_context_destroy(ctx);
    for (size_t i = 0; i < sizeof newer / sizeof newer[0]; i++) {
        tuning_text(tuning, newer[i].from, newer[i].to, newer[i].with, text, sizeof text);
        snprintf(words, sizeof words, "\"%s\"|version 5|version 4", newer[i].word);
        check_context(newer[i].what, text, strlen(text), FOVEA_ERROR_VERSION, words);
    }

    /* The same words for another build: a context says so, and whoever writes the file again loses nothing. */
    snprintf(text, sizeof text,
             "fovea-tuning 5\ncpu vendor=Any numa=2 kernels=0123456789abcdef\nnuma : nodes=2\n"
             "attention_int8 isa=amx threads=2 pages=16 rows=17..any : score=any : watts=9\n");
    tuning_close(text, sizeof text);
    check_context("another build's words", text, strlen(text), FOVEA_ERROR_INCOMPATIBLE, "nothing of");
    if (test_check(parse(text, strlen(text), &loaded, error) == FOVEA_OK, "another build's words: %s", error)) {
        char written[FV_TUNING_BYTES];
        tuning_text(loaded, NULL, NULL, NULL, written, sizeof written);
        test_check(strcmp(text, written) == 0, "another build's words: written as\n%s", written);
        tuning->version = FV_TUNING_VERSION;
        test_check(fovea_tuning_merge(tuning, loaded) == FOVEA_OK && tuning->version == FV_TUNING_VERSION + 1 &&
                       tuning->rows == FV_TUNING_OPERATIONS + 2,
                   "merge: version %d, %d rows", tuning->version, tuning->rows);
        tuning_text(tuning, NULL, NULL, NULL, written, sizeof written);
        test_check(parse(written, strlen(written), &again, error) == FOVEA_OK, "after the merge: %s", error);
        fovea_tuning_destroy(again);
        fovea_tuning_destroy(loaded);
    }
    fovea_tuning_destroy(tuning);
}

/* The comment above a cpu line names the release of its build. Other comments mean nothing, and without one it is
 * unknown, until a file that says it is merged. */
static void test_release(void) {
    static const struct {
        const char *comments, *release;
    } cases[] = {{"# Fovea 9.8.7-rc1\n", "9.8.7-rc1"},      {"", ""},
                 {"# by hand\n\n# Fovea 1.2.3\n", "1.2.3"}, {"# Fovea 1.2.3\n# for the fleet\n", "1.2.3"},
                 {"# Fovea a release of 16 bytes\n", ""},   {"# Fovea 1.2 3\n", ""}};
    fovea_tuning *own = tuning_sound(1), *loaded, *without;
    char error[FV_FILE_ERROR], with[64], words[128], written[FV_TUNING_BYTES];
    tuning_text(own, "# Fovea ", "\ncpu", "#", text, sizeof text);
    if (!test_check(parse(text, strlen(text), &without, error) == FOVEA_OK, "no release: %s", error))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text, "fovea-tuning 2\n%s%s", cases[i].comments, own->section[0].text);
        memcpy(strstr(text, " kernels="), " kernels=0123456789abcdef", 25);
        strcat(text, "\ngemm_f16 isa=sve2 : size=1 : gain=1.1\n");
        tuning_close(text, sizeof text);
        snprintf(words, sizeof words, "%s%s (kernels=0123456789abcdef)|this is Fovea " FOVEA_VERSION_STRING,
                 cases[i].release[0] ? "Fovea " : "an unknown release", cases[i].release);
        check_context("a release", text, strlen(text), FOVEA_ERROR_INCOMPATIBLE, words);
        if (!test_check(parse(text, strlen(text), &loaded, error) == FOVEA_OK, "release %zu: %s", i, error))
            continue;
        test_check(strcmp(loaded->section[0].release, cases[i].release) == 0, "release %zu: %s", i,
                   loaded->section[0].release);
        test_check(fovea_tuning_merge(loaded, own) == FOVEA_OK && fovea_tuning_merge(loaded, without) == FOVEA_OK,
                   "merge: %s", fovea_error_detail());
        snprintf(with, sizeof with, "\n# Fovea %s\ncpu", cases[i].release);
        tuning_text(loaded, NULL, NULL, NULL, written, sizeof written);
        test_check(!cases[i].release[0] == !strstr(written, with), "release %zu: written as\n%s", i, written);
        test_check(strstr(written, "\n# Fovea " FOVEA_VERSION_STRING "\ncpu") != NULL, "own release: written as\n%s",
                   written);
        fovea_tuning_destroy(loaded);
    }
    test_check(!without->section[0].release[0] && fovea_tuning_merge(without, own) == FOVEA_OK &&
                   strcmp(without->section[0].release, FOVEA_VERSION_STRING) == 0,
               "a merge tells the release: %s", without->section[0].release);
    fovea_tuning_destroy(without);
    fovea_tuning_destroy(own);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tuning_text", NULL);
    files_begin();
    test_release();
    test_older();
    test_newer();
    test_round_trip();
    test_wrong();
    test_cut();
    test_foreign();
    files_end();
    return test_end();
}
