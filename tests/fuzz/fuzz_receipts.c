/* Receipts (tools/receipts/receipt.h, vectors.h) by libFuzzer: one is understood wholly, or refused in a sentence.
 *
 *     fuzz-receipts --make-seeds FOLDER    writes sound ones to begin with */
#include "receipt.h"
#include "vectors.h"

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

/* Reads every element that it has. */
static void use(const receipt *r) {
    int64_t sum = 0;
    require(r->count > 0, "a receipt without answers");
    for (int64_t i = 0; i < r->count; i++) {
        const receipt_answer *a = &r->answers[i];
        require(a->rows.blocks == (a->rows.count + RECEIPT_EVERY - 1) / RECEIPT_EVERY, "another number of blocks");
        for (int64_t k = 0; a->prompt != NULL && k < a->prompt_count; k++)
            require(a->prompt[k] >= 0, "a token below 0");
        for (int64_t k = 0; k < a->rows.count; k++) {
            require(a->rows.tokens[k] >= 0, "a token below 0");
            sum += (int64_t)(a->rows.hashes[k] & 1) + a->rows.block[k / RECEIPT_EVERY].bytes[31];
        }
    }
    for (int i = 0; i < RECEIPT_SETTINGS; i++)
        sum += (int64_t)strlen(r->settings[i]);
    require(sum >= 0, "no sum");
}

static void read_vectors(const uint8_t *data, size_t size) {
    char sentence[256] = "";
    vectors_receipt r;
    if (vectors_receipt_read_memory((const char *)data, size, "fuzz", &r, (complaint){sentence, sizeof sentence}) != 0)
        require(r.entries == NULL && strncmp(sentence, "fuzz: ", 6) == 0, "an error without a sentence");
    else
        require(r.count > 0, "a receipt without vectors");
    for (int64_t i = 0; r.texts != NULL && i < r.count; i++)
        require(strlen(r.texts[i]) <= size, "a text longer than the file");
    vectors_receipt_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char sentence[256] = "";
    receipt *r;
    read_vectors(data, size);
    if (receipt_read_memory((const char *)data, size, "fuzz", &r, (complaint){sentence, sizeof sentence}) == 0)
        use(r);
    else
        require(r == NULL && strncmp(sentence, "fuzz: ", 6) == 0, "an error without a sentence");
    receipt_free(r);
    return 0;
}

static void write_seed(const char *folder, int answers, int rows) {
    char path[4096], sentence[512] = "";
    int32_t prompt[] = {1, 2, 3};
    const float logits[] = {0.5f, -0.0f, 2.0f};
    sha256_digest row;
    receipt_answer all[2] = {{.seed = 1, .prompt_count = 3, .prompt = prompt}, {.seed = 2, .prompt_count = 3}};
    receipt r = {.head = {.bits = FOVEA_BITS_VERSION, .seconds = 0.5}, .count = answers, .answers = all};
    for (int i = 0; i < RECEIPT_SETTINGS; i++)
        strcpy(r.settings[i], "1");
    for (int i = 0; i < answers; i++) {
        for (int k = 0; k < rows; k++)
            require(receipt_row_digest(logits, 3, &row) == 0 && receipt_rows_add(&all[i].rows, &row, k) == 0,
                    "no memory");
        require(receipt_rows_end(&all[i].rows) == 0, "no memory");
    }
    snprintf(path, sizeof path, "%s/%d-%d", folder, answers, rows);
    remove(path);
    require(receipt_write(&r, path, (complaint){sentence, sizeof sentence}) == 0, sentence);
    for (int i = 0; i < answers; i++)
        receipt_rows_free(&all[i].rows);
}

static void write_vectors(const char *folder, bool is_private) {
    char path[4096], sentence[512] = "";
    const complaint to = {sentence, sizeof sentence};
    vectors_receipt r = {.head = {.bits = FOVEA_BITS_VERSION, .seconds = 0.5}};
    for (int i = 0; i < VECTORS_SETTINGS; i++)
        strcpy(r.settings[i], "1");
    for (int i = 0; i < 3; i++)
        require(vectors_receipt_add(&r, &(vectors_entry){0}, is_private ? NULL : "a \"text\"", to) == 0, sentence);
    snprintf(path, sizeof path, "%s/vectors-%d", folder, is_private);
    remove(path);
    require(vectors_receipt_write(&r, path, to) == 0, sentence);
    vectors_receipt_free(&r);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    if (*argc != 3 || strcmp((*argv)[1], "--make-seeds") != 0)
        return 0;
    for (int answers = 1; answers <= 2; answers++)
        for (int rows = 0; rows <= 40; rows += 20)
            write_seed((*argv)[2], answers, rows);
    write_vectors((*argv)[2], false);
    write_vectors((*argv)[2], true);
    exit(0);
}
