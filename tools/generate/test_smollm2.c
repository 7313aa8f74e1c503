/* SmolLM2-135M-Instruct in float32 against transformers on the same weights (make_reference.py): the ids of five
 * prompts in the model's chat, and the 64 tokens that follow two of them; FOVEA_TEST_SCALE=2.5 runs all, and a
 * factor below 1 fewer tokens, too. The prompt is one chunk; then come a few of the reference's tokens one at a
 * time, and the others in a chunk. The logits of each must choose the next: a chunk takes a fifth of the time of its
 * steps, and test_decoder.c shows that their bits are equal. Weights as stored choose the same tokens in q16, and in
 * exact arithmetic give the logits of float32 bit for bit. Skipped if the model is missing. */
#include "model.h"
#include "sample.h"
#include "text.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MOST = 1 << 14, IDS_MOST = 512, NEW = 64, PROMPTS = 5, ANSWERS = 2, STEPS = 3 };

static char sentence[1024];
static const complaint to = {sentence, sizeof sentence};

static int64_t read_ids(const char *line, int32_t *ids) {
    int64_t count = 0;
    for (char *end; count < IDS_MOST; line = end, count++) {
        ids[count] = (int32_t)strtol(line, &end, 10);
        if (end == line)
            break;
    }
    return count;
}

/* The first place where lists differ; -1: none. */
static int64_t differ(const int32_t *a, int64_t a_count, const int32_t *b, int64_t b_count) {
    for (int64_t i = 0; i < a_count && i < b_count; i++)
        if (a[i] != b[i])
            return i;
    return a_count == b_count ? -1 : a_count < b_count ? a_count : b_count;
}

/* Do the logits of count tokens, which come next, choose those that follow them? */
static bool check_chunk(const model *m, session *s, float *logits, const int32_t *ids, int64_t count, int64_t rows,
                        const int32_t *want) {
    const int64_t words = model_config(m)->words;
    if (!test_check(session_run(s, ids, count, to) == 0 && session_logits(s, count - rows, rows, logits, to) == 0, "%s",
                    sentence))
        return false;
    for (int64_t i = 0; i < rows; i++) {
        const int32_t got = sample_greedy(logits + i * words, words);
        if (!test_check(got == want[i], "token %d behind %d is %d, transformers' %d", (int)i,
                        (int)(session_length(s, 0) - rows), (int)got, (int)want[i]))
            return false;
    }
    return true;
}

static void check_answer(const model *m, session *s, float *logits, const int32_t *prompt, int64_t count,
                         const int32_t *want) {
    const int64_t scaled = test_scaled(NEW), rows = (scaled < NEW ? scaled : NEW) - 1 - STEPS;
    session_clear(s, 0);
    bool good = check_chunk(m, s, logits, prompt, count, 1, want);
    for (int i = 0; good && i < STEPS; i++)
        good = check_chunk(m, s, logits, want + i, 1, 1, want + i + 1);
    if (good && rows > 0)
        check_chunk(m, s, logits, want + STEPS, rows, rows, want + STEPS + 1);
}

static void check_prompts(const model *m, const text_codec *t, session *s, FILE *file) {
    static char prompt[LINE_MOST], line[LINE_MOST];
    static int32_t ids[IDS_MOST], want[IDS_MOST], answer[IDS_MOST];
    float *logits = malloc((size_t)(NEW * model_config(m)->words) * sizeof *logits);
    int64_t prompts = 0;
    const int64_t answers = test_scaled(ANSWERS);
    while (test_check(logits != NULL, "no memory") && fgets(prompt, sizeof prompt, file) != NULL) {
        prompt[strcspn(prompt, "\n")] = '\0';
        const int64_t count = text_chat(t, NULL, prompt, ids, IDS_MOST);
        const int64_t wanted = fgets(line, sizeof line, file) != NULL ? read_ids(line, want) : 0;
        const int64_t at = differ(ids, count, want, wanted);
        const bool same = test_check(at < 0, "\"%s\": %d ids instead of %d, other ones from %d on", prompt, (int)count,
                                     (int)wanted, (int)at);
        const int64_t answered = fgets(line, sizeof line, file) != NULL ? read_ids(line, answer) : 0;
        test_check(answered == NEW, "the reference has %d ids of an answer", (int)answered);
        if (same && answered == NEW && prompts < answers)
            check_answer(m, s, logits, ids, count, answer);
        prompts++;
    }
    test_check(prompts == PROMPTS, "the reference has %d prompts", (int)prompts);
    free(logits);
}

static session *open_model(const fovea_context *ctx, const char *path, bool stored, fovea_arithmetic arithmetic,
                           model **m) {
    session *s = NULL;
    test_check(model_load(ctx, path,
                          &(model_options){.dtype = FOVEA_DTYPE_F32,
                                        .weights = stored ? 0 : FOVEA_DTYPE_F32,
                                        .has_arithmetic = stored,
                                        .arithmetic = arithmetic},
                          m, to) == 0 &&
                   session_create(*m, 1, IDS_MOST, (cache_types){FOVEA_DTYPE_F32, FOVEA_DTYPE_F32}, &s, to) == 0,
               "%s", sentence);
    return s;
}

/* Logits of a chunk, of weights that became float32 and of weights as they are stored. */
static void check_exact(const fovea_context *ctx, const char *path, const model *m, session *s) {
    enum { COUNT = 12 };
    int32_t ids[COUNT];
    const int64_t words = model_config(m)->words;
    float *want = malloc((size_t)words * sizeof *want), *got = malloc((size_t)words * sizeof *got);
    model *exact = NULL;
    session *of = open_model(ctx, path, true, FOVEA_ARITHMETIC_EXACT, &exact);
    for (int i = 0; i < COUNT; i++)
        ids[i] = 1000 + 37 * i;
    session_clear(s, 0);
    if (test_check(want && got && of, "no memory") &&
        test_check(session_run(s, ids, COUNT, to) == 0 && session_logits(s, COUNT - 1, 1, want, to) == 0 &&
                       session_run(of, ids, COUNT, to) == 0 && session_logits(of, COUNT - 1, 1, got, to) == 0,
                   "%s", sentence))
        test_same(got, want, words, "logits of weights as they are stored");
    session_free(of);
    model_free(exact);
    free(want);
    free(got);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "smollm2", NULL);
    const char *path = FOVEA_GENERATE_MODEL "/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (access(path, F_OK) != 0) {
        test_skip("SmolLM2 is not in FOVEA_MODELS: make run PROMPT=\"...\" fetches it");
        return test_end();
    }
    fovea_context *ctx;
    text_codec *t = NULL;
    gguf *file = NULL;
    FILE *reference = fopen(FOVEA_GENERATE_REFERENCE, "r");
    test_check(fovea_context_create(NULL, &ctx) == FOVEA_OK, "%s", fovea_error_detail());
    const bool good = reference != NULL && gguf_open(path, &file, to) == 0 && text_from_gguf(file, &t, to) == 0;
    test_check(good, "%s", reference != NULL ? sentence : "no reference.txt");
    for (int stored = 0; good && stored < 2; stored++) {
        model *m = NULL;
        session *s = open_model(ctx, path, stored, FOVEA_ARITHMETIC_Q16, &m);
        rewind(reference);
        if (s != NULL)
            check_prompts(m, t, s, reference);
        if (s != NULL && !stored)
            check_exact(ctx, path, m, s);
        session_free(s);
        model_free(m);
    }
    if (reference != NULL)
        fclose(reference);
    text_free(t);
    gguf_close(file);
    fovea_context_destroy(ctx);
    return test_end();
}
