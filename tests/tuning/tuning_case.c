/* Tuning files for tests (tuning_case.h). */
#include "tuning_case.h"

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "folder.h"
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

fv_tuning_row row_any(fv_tuning_op operation, int threads) {
    fv_tuning_row row = {.known = true, .operation = operation, .isa = (fv_isa)test_isa(), .threads = threads};
    for (int i = 0; i < fv_tuning_operations[operation]->keys; i++)
        row.key[i] = fv_tuning_operations[operation]->key[i].range;
    row.evidence = (fv_tuning_evidence){.gain = 1043, .low = 1031, .high = 1055, .blocks = 40, .shapes = "b1_h2"};
    return row;
}

fv_tuning_section section_own(void) {
    fv_cpu cpu;
    fv_tuning_section section;
    fv_cpu_detect(&cpu);
    fv_tuning_section_of(&cpu, &section);
    return section;
}

fovea_tuning *tuning_sound(int threads) {
    fovea_tuning *tuning;
    char error[FV_FILE_ERROR];
    const fv_tuning_section own = section_own();
    fovea_status status = fv_tuning_create(&tuning, error);
    for (int op = 0; op < FV_TUNING_OPERATIONS && status == FOVEA_OK; op++) {
        fv_tuning_row row = row_any((fv_tuning_op)op, threads);
        const bool linear = op >= FV_TUNING_linear_f32;
        if (linear) {
            row.key[FV_LINEAR_KEY_in] = row.key[FV_LINEAR_KEY_out] = (fv_interval){1, 1024};
            row.knob[FV_LINEAR_KNOB_gemm].kernel = fv_multiply_best(FV_KIND_f32, FV_FORMAT_f32, test_target());
            row.knob[FV_LINEAR_KNOB_k_block].number = 7;
            row.knob[FV_LINEAR_KNOB_row_block].number = 21;
        } else {
            row.key[FV_ATTENTION_KEY_head_dim] = row.key[FV_ATTENTION_KEY_value_dim] = (fv_interval){1, 1024};
            row.knob[FV_ATTENTION_KNOB_score].kernel = fv_multiply_best(FV_KIND_f32, FV_FORMAT_f32, test_target());
            row.knob[FV_ATTENTION_KNOB_tile_rows].number = 7;
            row.knob[FV_ATTENTION_KNOB_block_rows].number = 21;
        }
        status = fv_tuning_put(tuning, &own, &row, error);
    }
    if (status != FOVEA_OK) {
        fprintf(stderr, "%s\n", error);
        exit(TEST_FAILED);
    }
    return tuning;
}

void tuning_close(char *text, size_t size) {
    const size_t length = strlen(text);
    snprintf(text + length, size - length, "end sum=%016" PRIx64 "\n", fv_hash(FV_HASH_BEGIN, text, length));
}

char *tuning_text(const fovea_tuning *tuning, const char *from, const char *to, const char *with, char *text,
                  size_t size) {
    static char whole[FV_TUNING_BYTES];
    char error[FV_FILE_ERROR];
    size_t length;
    test_check(fv_tuning_print(tuning, whole, &length, error) == FOVEA_OK, "print: %s", error);
    if (!from) {
        snprintf(text, size, "%s", whole);
        return text;
    }
    char *begin = strstr(whole, from), *end = begin ? strstr(begin, to) : NULL;
    if (!test_check(begin && end, "no %s ... %s in the text", from, to))
        exit(TEST_FAILED);
    *strstr(end, "end sum=") = '\0';
    snprintf(text, size, "%.*s%s%s", (int)(begin - whole), whole, with, end);
    tuning_close(text, size);
    return text;
}

static char folder[TEST_FOLDER];

const char *files_name(const char *name) {
    static char names[4][256];
    static int next;
    char *path = names[next++ % 4];
    snprintf(path, sizeof names[0], "%s/%s", folder, name);
    return path;
}

void files_begin(void) { test_folder_begin(folder); }

void files_end(void) { test_folder_end(folder); }

void file_write(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "w");
    test_check(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "cannot write %s", path);
}

static void in_turn(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)pool;
    for (int64_t i = 0; i < count; i++)
        task(arg, i);
}

fovea_context *context_tuned(const char *path, int threads) {
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.threads = threads;
    options.parallel_for = threads > 1 ? in_turn : NULL; /* as many threads where there is one CPU */
    options.tuning_file = path;
    if (!test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail()))
        exit(TEST_FAILED);
    return ctx;
}

bool check_defaults(const char *what, const char *path, fovea_status status, const char *words) {
    fovea_context *with = context_tuned(path, 1), *without = context_tuned("", 1);
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    bool good = test_check(
        fovea_context_info(with, &info) == FOVEA_OK && info.tuning_status == status && info.tuning_rows == 0,
        "%s: %s, %d rows, \"%s\"", what, fovea_status_name(info.tuning_status), info.tuning_rows, info.tuning);
    char list[160];
    snprintf(list, sizeof list, "%s", words);
    for (char *word = strtok(list, "|"); word; word = strtok(NULL, "|"))
        good &= test_check(strstr(info.tuning, word) != NULL, "%s: no \"%s\" in \"%s\"", what, word, info.tuning);

    rng r = rng_stream(test_seed(), what);
    attention_case c = case_plain(1, 2, 1, 9, 300, 16, 24);
    inputs *in = inputs_make(&c, &r);
    outputs *got = outputs_make(&c, c.layout), *want = outputs_make(&c, c.layout);
    case_run(with, NULL, &c, in, got);
    case_run(without, NULL, &c, in, want);
    good &= outputs_same(got, want, "%s: output bits", what);
    fovea_attention_plan *a, *b;
    char as[2048], bs[2048];
    fovea_attention_plan_create(with, &c.desc, &a);
    fovea_attention_plan_create(without, &c.desc, &b);
    fovea_attention_plan_describe(a, as, sizeof as);
    fovea_attention_plan_describe(b, bs, sizeof bs);
    *strstr(as, "tuned") = *strstr(bs, "tuned") = '\0';
    good &= test_check(strcmp(as, bs) == 0, "%s: not the default's plan:\n%s", what, as);
    fovea_attention_plan_destroy(a);
    fovea_attention_plan_destroy(b);
    inputs_free(in);
    outputs_free(got);
    outputs_free(want);
    fovea_context_destroy(with);
    fovea_context_destroy(without);
    return good;
}

fovea_context *context_knobs(const fovea_context *other, const char *path, fv_tuning_op first, fv_tuning_op last,
                             const fv_tuning_value knob[FV_TUNING_KNOBS]) {
    char error[FV_FILE_ERROR];
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    fovea_context_info(other, &info);
    fovea_tuning *tuning;
    fv_tuning_create(&tuning, error);
    const fv_tuning_section own = section_own();
    for (fv_tuning_op op = first; op <= last; op++) {
        fv_tuning_row row = row_any(op, info.threads);
        memcpy(row.knob, knob, sizeof row.knob);
        fv_tuning_put(tuning, &own, &row, error);
    }
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    fovea_tuning_destroy(tuning);
    return context_tuned(path, info.threads);
}
