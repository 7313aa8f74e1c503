/* test-failing: readers and encoder where memory fails: each of their allocations in turn (failing.h), alone and with
 * all after it. Each time: -1, a sentence that names the file, the result NULL, no block left over; and an encoder's
 * plan goes on as if nothing had been, and in the end takes no memory from the heap. */
#include "encoder.h"
#include "failing.h"
#include "folder_tokenizer.h"
#include "test_file.h"
#include "test_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SENTENCES = 4, MOST = 10000 };

static test_option options[] = {TEST_FILE_OPTION, {0}};
static char model_path[4096];
static char text[512];
static const complaint to = {text, sizeof text};
static const int64_t lens[SENTENCES] = {4, 2, 2, 4}; /* two threads get one of each length */
static const int32_t ids[SENTENCES * 4] = {1, 2, 3, 4, 5, 6, 0, 0, 11, 12, 0, 0, 7, 8, 9, 10};

/* The tokenizer of a folder that is made of one or two files. */
static void fail_tokenizer(bool persistent, const char *name, const char *content, const char *merges) {
    char folder[4096], path[4200], merges_path[4200];
    snprintf(folder, sizeof folder, "%s", test_file_path(options, "test_failing.folder"));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(merges_path, sizeof merges_path, "%s/merges.txt", folder);
    mkdir(folder, 0777);
    test_file_write(path, content, strlen(content));
    if (merges != NULL)
        test_file_write(merges_path, merges, strlen(merges));
    tk_tokenizer *t;
    FAIL_READING(name, folder, text, persistent, t, tk_free, folder_tokenizer(folder, FOLDER_NONE, &t, to))
    remove(path);
    remove(merges_path);
    rmdir(folder);
}

static void fail_tokenizers(bool persistent) {
    fail_tokenizer(persistent, "vocab.json", "{\"a\": 0, \"b\": 1, \"ab\": 2}", "#version: 0.2\na b\n");
    fail_tokenizer(persistent, "tokenizer.json",
                   "{\"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"vocab\": "
                   "{\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [[\"a\", \"b\"]]}}",
                   NULL);
    fail_tokenizer(persistent, "tokenizer.json",
                   "{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"[CLS]\": 0, \"[SEP]\": 1, \"[UNK]\": 2}}}",
                   NULL);
    fail_tokenizer(persistent, "tokenizer.json",
                   "{\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"BAAAAAAAAAAA\"}, "
                   "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\"}, \"model\": "
                   "{\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"<unk>\", 0.0], [\"a\", -1.0]]}}",
                   NULL);
    fail_tokenizer(persistent, "vocab.txt", "[CLS]\n[SEP]\n[UNK]\n", NULL);
}

/* A pool of the caller's that has no thread but the caller's. */
static void one_after_another(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)pool;
    for (int64_t i = 0; i < count; i++)
        task(arg, i);
}

/* A run that fails, and then the same plan again: what it must give, and at last without any allocation. */
static void fail_run(const encoder *e, bool persistent) {
    float want[SENTENCES * WIDTH], out[SENTENCES * WIDTH];
    const long long before = live;
    encoder_plan *plan;
    if (!test_check(encoder_plan_create(e, SENTENCES, 4, &plan, to) == 0 &&
                        encoder_run(plan, ids, lens, want, NULL, NULL, to) == 0,
                    "%s", text))
        return;
    encoder_plan_free(plan);
    for (int64_t skip = 0; skip < MOST; skip++) {
        if (!test_check(encoder_plan_create(e, SENTENCES, 4, &plan, to) == 0, "%s", text))
            return;
        text[0] = 0;
        arm(skip + 1, persistent);
        const int status = encoder_run(plan, ids, lens, out, NULL, NULL, to);
        fail_at = 0;
        const bool through = !failed;
        test_check(status == (through ? 0 : -1) && (through || strstr(text, "memory") != NULL),
                   "encoder_run: %d \"%s\"", status, text);
        test_check(encoder_run(plan, ids, lens, out, NULL, NULL, to) == 0, "encoder_run again: %s", text);
        test_same(out, want, SENTENCES * WIDTH, "after a failure of allocation %lld", (long long)skip + 1);
        const long long taken = calls;
        test_check(encoder_run(plan, ids, lens, out, NULL, NULL, to) == 0, "encoder_run a third time: %s", text);
        test_check(calls == taken, "encoder_run allocates %lld times", calls - taken);
        encoder_plan_free(plan);
        if (through) {
            test_check(skip > 0, "encoder_run allocates nothing at first");
            break;
        }
    }
    test_check(live == before, "encoder_run: %lld blocks left", live - before);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "failing", options);
    snprintf(model_path, sizeof model_path, "%s", test_file_path(options, "test_failing_model.tmp"));
    model *m = model_make();
    model_write(m, model_path, -1, LEFT_OUT);
    free(m);
    fovea_context_options opts;
    fovea_context *ctx;
    fovea_context_options_init(&opts);
    opts.parallel_for = one_after_another; /* the OpenMP run-time's memory is its own */
    uint16_t half;
    test_check(fovea_convert(1, &(float){1.0f}, FOVEA_DTYPE_F32, &half, FOVEA_DTYPE_BF16) == FOVEA_OK,
               "its context, once: %s", fovea_error_detail());
    for (int round = 0; round < 12; round++) {
        const bool persistent = round % 2;
        static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_Q8_0};
        const fovea_dtype dtype = types[round / 4];
        opts.threads = 1 + round / 2 % 2;
        test_check(fovea_context_create(&opts, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail());
        safetensors *file;
        encoder *e;
        encoder_plan *plan;
        FAIL_READING("safetensors_open", model_path, text, persistent, file, safetensors_close,
                     safetensors_open(model_path, &file, to))
        fail_tokenizers(persistent);
        FAIL_READING("encoder_load", model_path, text, persistent, e, encoder_free,
                     encoder_load(ctx, model_path, HEADS, dtype, &e, to))
        if (test_check(encoder_load(ctx, model_path, HEADS, dtype, &e, to) == 0, "%s", text)) {
            FAIL_READING("encoder_plan_create", model_path, text, persistent, plan, encoder_plan_free,
                         encoder_plan_create(e, SENTENCES, 4, &plan, to))
            fail_run(e, persistent);
            encoder_free(e);
        }
        fovea_context_destroy(ctx);
    }
    remove(model_path);
    return test_end();
}
