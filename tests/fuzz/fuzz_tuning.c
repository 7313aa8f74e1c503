/* The parser of tuning files, by libFuzzer. What it takes must print to a text that it takes again and that prints the
 * same, and that merges with itself to the same.
 *
 * The sum in the last line would keep a fuzzer from everything behind it, and the kernel list from the rows; so inputs
 * are tried as they are, and then as the lines of a file for this CPU and build, and for its model, whose sum is made
 * right.
 *
 *     fuzz-tuning --make-seeds FOLDER    writes a few sound files to begin with */
#include "attention/plan/knobs.h"
#include "core/core.h"
#include "dispatch/dispatch.h"
#include "tuning/tuning.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static void require(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void try_text(const char *text, size_t size) {
    static char first[FV_TUNING_BYTES], second[FV_TUNING_BYTES];
    char error[FV_FILE_ERROR] = "";
    size_t length, again;
    fovea_tuning *tuning, *same;
    if (fv_tuning_parse(text, size, &tuning, error) != FOVEA_OK) {
        require(tuning == NULL && strncmp(error, "line ", 5) == 0 && strlen(error) < sizeof error - 1,
                "an error without a sentence");
        return;
    }
    require(fv_tuning_print(tuning, first, &length, error) == FOVEA_OK, "what was read cannot be written");
    require(fv_tuning_parse(first, length, &same, error) == FOVEA_OK, "what was written cannot be read");
    require(fv_tuning_print(same, second, &again, error) == FOVEA_OK && again == length &&
                memcmp(first, second, length) == 0,
            "what was written reads as something else");
    require(fovea_tuning_merge(same, tuning) == FOVEA_OK && same->rows == tuning->rows,
            "merged with itself: not itself");
    fovea_tuning_destroy(tuning);
    fovea_tuning_destroy(same);
}

static size_t frame(char *text, size_t size, bool by_model, const char *rows, size_t length) {
    fv_cpu cpu;
    fv_tuning_section own, model;
    fv_cpu_detect(&cpu);
    fv_tuning_section_of(&cpu, &own);
    fv_tuning_model_of(&own, &model);
    size_t n =
        (size_t)snprintf(text, size, "fovea-tuning %d\n%s\n", FV_TUNING_VERSION, by_model ? model.text : own.text);
    if (length + n + 64 > size)
        length = size - n - 64;
    memcpy(text + n, rows, length);
    n += length;
    if (length > 0 && text[n - 1] != '\n')
        text[n++] = '\n';
    const uint64_t sum = fv_hash(FV_HASH_BEGIN, text, n);
    return n + (size_t)snprintf(text + n, size - n, "end sum=%016" PRIx64 "\n", sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char text[FV_TUNING_BYTES];
    try_text((const char *)data, size);
    try_text(text, frame(text, sizeof text, false, (const char *)data, size));
    try_text(text, frame(text, sizeof text, true, (const char *)data, size));
    return 0;
}

/* Rows as the tuner writes them, of each tier; some whole files. */
static void make_seeds(const char *folder) {
    int number = 0;
    for (int op = 0; op < FV_TUNING_OPERATIONS; op++)
        for (int isa = FV_ISA_scalar; isa < FV_ISA_COUNT; isa++)
            for (int whole = 0; whole < 3; whole++) {
                fv_tuning_row row = {.known = true,
                                     .operation = (fv_tuning_op)op,
                                     .isa = (fv_isa)isa,
                                     .threads = whole < 2 ? 1 + isa : 0};
                for (int i = 0; i < fv_tuning_operations[op]->keys; i++)
                    row.key[i] = fv_tuning_operations[op]->key[i].range;
                row.key[1] = (fv_interval){64, 128}; /* value_dim, or out */
                row.knob[0].kernel = fv_multiply_best(FV_KIND_f32, FV_FORMAT_f32, (fv_target){row.isa, FV_HAS_nothing});
                row.knob[3].number = 32; /* tile_rows, or chunk */
                row.evidence = (fv_tuning_evidence){1043, 1031, 1055, 40, "b1_h12_q512_kv512"};
                char path[4096], text[4096], line[FV_TUNING_LINE];
                fv_tuning_print_row(&row, line);
                size_t n = strlen(line);
                memcpy(text, line, n);
                if (whole)
                    n = frame(text, sizeof text, whole > 1, line, n);
                snprintf(path, sizeof path, "%s/seed-%d", folder, number++);
                FILE *file = fopen(path, "w");
                require(file && fwrite(text, 1, n, file) == n && fclose(file) == 0, "a seed cannot be written");
            }
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    if (*argc == 3 && strcmp((*argv)[1], "--make-seeds") == 0) {
        make_seeds((*argv)[2]);
        exit(0);
    }
    return 0;
}
