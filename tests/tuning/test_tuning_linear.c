/* Tunings and linear maps: rows that are refused, what a map takes from a file and says about it, what a file may
 * cost, and that every choice gives the same bits. */
#include "linear_case.h"
#include "target.h"
#include "tuning_case.h"

#include "attention/plan/plan.h"
#include "dispatch/dispatch.h"
#include "linear/linear.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[2 * FV_TUNING_BYTES];

/* One thing wrong in a row of linear maps: what is between from and to is with instead. */
static const struct {
    const char *what, *from, *to, *with, *words;
} wrongs[] = {
    {"unknown kernel", " gemm=", " k_block", " gemm=multiply_f32_f32_99x99_avx512",
     "line 18|multiply_f32_f32_99x99_avx512|no kernel"},
    {"a kernel of another operation", " gemm=", " k_block", " gemm=exp_f32_1x1_scalar", "line 18|exp_f32|operation"},
    {"channels too many", "k_block=7", " row_block", "k_block=1048577", "line 18|k_block=1048577|1048576"},
    {"channels none", "k_block=7", " row_block", "k_block=0", "line 18|k_block"},
    {"channels below zero", "k_block=7", " row_block", "k_block=-7", "line 18|k_block=-7"},
    {"rows too many", "row_block=21", " :", "row_block=4097", "line 18|row_block=4097|4096"},
    {"rows at once beyond any number", "row_block=21", " :", "row_block=21 chunk=99999999999999999999",
     "line 18|chunk"},
    {"items too many", "row_block=21", " :", "row_block=21 items=65", "line 18|items=65|64"},
    {"items never", "row_block=21", " :", "row_block=21 items=-1", "line 18|items=-1"},
    {"caches too small", "row_block=21", " :", "row_block=21 cache_scale=9", "line 18|cache_scale=9|10 to 6400"},
    {"caches too large", "row_block=21", " :", "row_block=21 cache_scale=6401", "line 18|cache_scale=6401"},
    {"fetched too far ahead", "row_block=21", " :", "row_block=21 ahead=1048577", "line 18|ahead=1048577|1048576"},
    {"fetched behind", "row_block=21", " :", "row_block=21 ahead=-2", "line 18|ahead=-2|-1"},
    {"fetched nowhere", "row_block=21", " :", "row_block=21 ahead=0", "line 18|ahead=0|default"},
    {"fetched at no number", "row_block=21", " :", "row_block=21 ahead=far", "line 18|ahead=far|not a number"},
    {"a key of attention", "in=1..1024", " out", "keys=1..1024", "line 18|\"keys\" is not a known key"},
    {"a knob of attention", "k_block=7", " row_block", "tile_rows=7", "line 18|\"tile_rows\" is not a known choice"},
    {"no input", "in=1..1024", " out", "in=0..3", "line 18|in|at least 1"},
    {"many rows that are few", " out=1..1024", " : gemm", " out=1..1024 rows=8", "line 18|rows=8|at least 9"},
};

/* A map of that size in a context with that file. */
static fovea_linear *map_of(fovea_context *ctx, int64_t in, int64_t out) {
    fovea_linear_desc desc;
    fovea_linear *linear;
    float *weights = calloc((size_t)(in * out), sizeof *weights);
    fovea_linear_desc_init(&desc);
    desc.in_features = in;
    desc.part.weight = fovea_matrix_in_out(weights, FOVEA_DTYPE_F32, in, out);
    if (!weights || !test_check(fovea_linear_create(ctx, &desc, &linear) == FOVEA_OK, "pack: %s", fovea_error_detail()))
        exit(TEST_FAILED);
    free(weights);
    return linear;
}

/* Refused: the sentence says why, and the map is the default's. */
static void test_wrong(void) {
    fovea_tuning *tuning = tuning_sound(1);
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        char list[160], with[512], without[512];
        fovea_context_facts info;
        tuning_text(tuning, wrongs[i].from, wrongs[i].to, wrongs[i].with, text, sizeof text);
        const char *path = files_name("wrong");
        file_write(path, text, strlen(text));
        fovea_context *ctx = context_tuned(path, 1), *plain = context_tuned("", 1);
        fovea_context_facts_init(&info);
        fovea_context_info(ctx, &info);
        test_check(info.tuning_status == FOVEA_ERROR_TUNING && info.tuning_rows == 0, "%s: %s", wrongs[i].what,
                   fovea_status_name(info.tuning_status));
        snprintf(list, sizeof list, "%s", wrongs[i].words);
        for (char *word = strtok(list, "|"); word; word = strtok(NULL, "|"))
            test_check(strstr(info.tuning, word) != NULL, "%s: no \"%s\" in \"%s\"", wrongs[i].what, word, info.tuning);
        fovea_linear *a = map_of(ctx, 64, 48), *b = map_of(plain, 64, 48);
        fv_linear_describe_rows(a, 40, with, sizeof with);
        fv_linear_describe_rows(b, 40, without, sizeof without);
        *strstr(with, "tuned") = *strstr(without, "tuned") = '\0';
        test_check(strcmp(with, without) == 0, "%s: not the default's map:\n%s", wrongs[i].what, with);
        fovea_linear_destroy(a);
        fovea_linear_destroy(b);
        fovea_context_destroy(ctx);
        fovea_context_destroy(plain);
    }
    fovea_tuning_destroy(tuning);
}

/* Choices that a map takes from a row, for which rows, and how it describes them. */
static void test_map(void) {
    fovea_tuning *tuning = tuning_sound(1);
    const char *path = files_name("sound");
    char words[2048];
    for (int i = 0; i < tuning->rows; i++)
        if (tuning->row[i].operation == FV_TUNING_linear_f32)
            tuning->row[i].key[FV_LINEAR_KEY_rows].most = 100;
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    fovea_context *ctx = context_tuned(path, 1);
    fovea_linear *linear = map_of(ctx, 200, 100);
    fv_linear_choice c = fv_linear_heuristics(linear, 1, 100, NULL);
    test_check(c.k_block == 7 && c.row_block == 21 &&
                   c.gemm == fv_multiply_best(FV_KIND_f32, FV_FORMAT_f32, test_target()),
               "100 rows: %s, %" PRId64 ", %" PRId64, c.gemm->name, c.k_block, c.row_block);
    c = fv_linear_heuristics(linear, 1, 8, NULL);
    test_check(c.k_block == 7 && c.row_block == 21, "8 rows: %" PRId64 ", %" PRId64, c.k_block, c.row_block);
    c = fv_linear_heuristics(linear, 1, 101, NULL);
    test_check(c.k_block != 7 && c.row_block != 21, "101 rows: %" PRId64 ", %" PRId64, c.k_block, c.row_block);
    fovea_linear *deep = map_of(ctx, 6000, 20); /* rows of one tile go through all channels at once */
    const fv_linear_choice none = {0};
    const int64_t tile = fv_linear_heuristics(deep, 1, 101, &none).gemm->mr;
    for (int64_t rows = tile; rows <= tile + 1; rows++) {
        c = fv_linear_heuristics(deep, 1, rows, &none);
        test_check((c.k_block == 6000) == (rows == tile), "%" PRId64 " rows, tiles of %" PRId64 ": %" PRId64, rows,
                   tile, c.k_block);
    }
    fovea_linear_destroy(deep);
    fv_linear_describe_rows(linear, 100, words, sizeof words);
    test_check(strstr(words, "tuned   yes") && strstr(words, path) && strstr(words, "line 18") &&
                   strstr(words, "1.043"),
               "describe 100 rows: %s", words);
    fv_linear_describe_rows(linear, 101, words, sizeof words);
    test_check(strstr(words, "tuned   no") && strstr(words, "rows 101") && strstr(words, "9 to 100"),
               "describe 101 rows: %s", words);
    fovea_linear_describe(linear, words, sizeof words);
    test_check(strstr(words, "tuned   for 9 to 100 rows, yes") && strstr(words, "tuned   for 1 to 8 rows, yes"),
               "describe: %s", words);
    fovea_linear_destroy(linear);
    linear = map_of(ctx, 1025, 4);
    fovea_linear_describe(linear, words, sizeof words);
    test_check(strstr(words, "tuned   no") && strstr(words, "in 1025") && strstr(words, "1 to 1024"),
               "describe a map that is not tuned: %s", words);
    fovea_linear_destroy(linear);
    fovea_context_destroy(ctx);

    /* Rows at once cost workspace: a file may not ask for much. */
    for (int i = 0; i < tuning->rows; i++)
        tuning->row[i].knob[FV_LINEAR_KNOB_row_block].number = tuning->row[i].knob[FV_LINEAR_KNOB_chunk].number = 4096;
    fovea_tuning_save(tuning, path);
    ctx = context_tuned(path, 1);
    linear = map_of(ctx, 200, 1000);
    test_check(fovea_linear_apply_workspace_size(ctx, linear) <= (size_t)8 << 20,
               "a file asks for %zu bytes of workspace", fovea_linear_apply_workspace_size(ctx, linear));
    fovea_linear_destroy(linear);
    fovea_context_destroy(ctx);
    fovea_tuning_destroy(tuning);
}

/* Rows for a number of threads serve calls on as many, whatever packed the map. A row that another one precedes for
 * some sizes, here this CPU's that of its model, has its workspace for the others. */
static void test_rows(void) {
    static const struct {
        bool model;
        int threads;
        fv_interval rows;
        int64_t k_block, row_block;
    } rows[] = {{false, 1, {100, INT64_MAX}, 5, 8}, {false, 3, {9, INT64_MAX}, 7, 8}, {true, 0, {9, 200}, 6, 4096}};
    const fv_tuning_section own = section_own();
    const char *path = files_name("rows");
    char error[FV_FILE_ERROR];
    fv_tuning_section model;
    fovea_tuning *tuning;
    fv_tuning_model_of(&own, &model);
    fv_tuning_create(&tuning, error);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fv_tuning_row row = row_any(FV_TUNING_linear_f32, rows[i].threads);
        row.key[FV_LINEAR_KEY_rows] = rows[i].rows;
        row.knob[FV_LINEAR_KNOB_k_block].number = rows[i].k_block;
        row.knob[FV_LINEAR_KNOB_row_block].number = row.knob[FV_LINEAR_KNOB_chunk].number = rows[i].row_block;
        fv_tuning_put(tuning, rows[i].model ? &model : &own, &row, error);
    }
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    fovea_tuning_destroy(tuning);
    fovea_context *ctx = context_tuned(path, 1);
    fovea_linear *linear = map_of(ctx, 70, 50);
    fovea_context_destroy(ctx);
    static const struct {
        int threads;
        int64_t rows, k_block; /* 70: the default */
    } calls[] = {{1, 99, 6}, {1, 200, 5}, {3, 99, 7}, {3, 1000, 7}, {2, 99, 6}, {2, 201, 70}, {2, 5, 70}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const fv_linear_choice c = fv_linear_heuristics(linear, calls[i].threads, calls[i].rows, NULL);
        test_check(c.k_block == calls[i].k_block, "%d threads, %" PRId64 " rows: %" PRId64 " channels",
                   calls[i].threads, calls[i].rows, c.k_block);
        test_check(fv_linear_lay_out(linear, &c).bytes <= linear->thread_bytes,
                   "%d threads, %" PRId64 " rows: a workspace of %" PRId64 " bytes, not of %" PRId64, calls[i].threads,
                   calls[i].rows, linear->thread_bytes, fv_linear_lay_out(linear, &c).bytes);
    }
    fovea_linear_destroy(linear);
}

/* As many rows for a map as a file holds: what describes it has all of them, and says how long it is. */
static void test_describe_all(void) {
    static char whole[FV_TUNING_BYTES], part[FV_TUNING_BYTES];
    char error[FV_FILE_ERROR];
    fovea_tuning *tuning;
    const fv_tuning_section own = section_own();
    const char *path = files_name("many");
    int rows = 0;
    fv_tuning_create(&tuning, error);
    for (fv_tuning_row row = row_any(FV_TUNING_linear_f32, 1); rows < 150; rows++) {
        row.key[FV_LINEAR_KEY_rows] = (fv_interval){1000 * (rows + 1), 1000 * (rows + 1) + 999};
        fv_tuning_put(tuning, &own, &row, error);
    }
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    fovea_context *ctx = context_tuned(path, 1);
    fovea_linear *linear = map_of(ctx, 20, 10);
    const size_t length = fovea_linear_describe(linear, whole, sizeof whole);
    test_check(length == strlen(whole), "describe: %zu bytes, it says %zu", strlen(whole), length);
    for (int i = 1; i <= rows; i++) {
        char word[64];
        snprintf(word, sizeof word, "tuned   for %d000 to %d999 rows, yes: ", i, i);
        test_check(strstr(whole, word) != NULL, "describe: no \"%s\"", word);
    }
    test_check(fovea_linear_describe(linear, NULL, 0) == length, "describe to nothing");
    for (size_t size = 1; size < length + 2; size += 1 + size / 3) {
        memset(part, 'x', sizeof part);
        const size_t fits = size <= length ? size - 1 : length;
        test_check(fovea_linear_describe(linear, part, size) == length && memcmp(part, whole, fits) == 0 &&
                       part[fits] == '\0' && part[size] == 'x',
                   "describe to %zu bytes", size);
    }
    fovea_linear_destroy(linear);
    fovea_context_destroy(ctx);
    fovea_tuning_destroy(tuning);
}

/* Executes with a choice into cleared outputs, in a workspace of exactly its size. */
static void run_chosen(linear_problem *p, const fovea_context *ctx, const fovea_linear *linear,
                       const fv_linear_choice *choice) {
    const size_t size = (size_t)fv_linear_workspace(ctx->threads.count, fv_linear_lay_out(linear, choice).bytes);
    guard *workspace = guard_alloc("workspace", size, GUARD_END);
    linear_problem_clear(p);
    fv_linear_apply_chosen(ctx, linear, &p->args, choice, workspace->data);
    guard_free(workspace);
}

/* Every kernel with every size of a grid that has sizes below, at and beyond the case's: the same bits. */
static void test_every_choice(void) {
    static const int64_t channels[] = {1, 7, 64, 4096}, row_blocks[] = {1, 7, 4096}, items[] = {1, 64};
    rng r = rng_stream(test_seed(), "every choice");
    const linear_case cases[] = {linear_case_plain(1, 1, 33, 130), linear_case_plain(3, 23, 70, 101),
                                 linear_case_random(&r), linear_case_random(&r)};
    int64_t number = 0;
    for (int i = 0; i < 4; i++) {
        linear_problem *p = linear_problem_make(&cases[i], &r);
        float *want[LINEAR_PARTS] = {NULL};
        const int64_t rows = cases[i].batch * cases[i].tokens;
        fovea_context *ctx = context_tuned("", 2);
        fovea_linear *linear;
        if (!linear_problem_run(p, ctx) || fovea_linear_create(ctx, &p->desc, &linear) != FOVEA_OK)
            exit(TEST_FAILED);
        for (int part = 0; part < cases[i].parts; part++) {
            const size_t size = (size_t)tensor_floats(&p->y[part]) * sizeof(float);
            want[part] = malloc(size);
            memcpy(want[part], p->y[part].data, size);
        }
        for (int k = 0; k < fv_kernel_count; k++)
            for (int at = 0; at < 4 * 3 * 3 * 2; at++) {
                if (!fv_multiply_tuned(&fv_kernels[k], test_target()) || !test_takes(number++))
                    continue;
                const fv_linear_choice wanted = {.gemm = &fv_kernels[k],
                                                 .k_block = channels[at % 4],
                                                 .row_block = row_blocks[at / 4 % 3],
                                                 .chunk = row_blocks[at / 12 % 3],
                                                 .items = items[at / 36]};
                const fv_linear_choice choice = fv_linear_heuristics(linear, 2, rows, &wanted);
                run_chosen(p, ctx, linear, &choice);
                linear_problem_same(p, (const float *const *)want,
                                    "%s, k %" PRId64 ", rows %" PRId64 ", chunk %" PRId64 ", items %" PRId64,
                                    wanted.gemm->name, wanted.k_block, wanted.row_block, wanted.chunk, wanted.items);
            }
        for (int part = 0; part < cases[i].parts; part++)
            free(want[part]);
        fovea_linear_destroy(linear);
        fovea_context_destroy(ctx);
        linear_problem_free(p);
    }
}

/* A row that says as what caches count: maps, and plans of attentions, are those of such caches. */
static void test_caches(void) {
    fv_tuning_value knob[FV_TUNING_KNOBS] = {{NULL, 0}};
    int others = 0;
    knob[FV_LINEAR_KNOB_cache_scale].number = 400;
    const fv_linear_choice larger = {.cache_scale = 400};
    fovea_context *without = context_tuned("", 1),
                  *with =
                      context_knobs(without, files_name("caches"), FV_TUNING_linear_f32, FV_TUNING_linear_f32, knob);
    fovea_linear *maps[2] = {map_of(with, 1024, 64), map_of(without, 1024, 64)};
    const fv_linear_choice a = fv_linear_heuristics(maps[0], 1, 500, NULL),
                           b = fv_linear_heuristics(maps[1], 1, 500, &larger),
                           c = fv_linear_heuristics(maps[1], 1, 500, NULL);
    test_check(memcmp(&a, &b, sizeof a) == 0, "chunks of %" PRId64 ", not %" PRId64, a.chunk, b.chunk);
    test_check(a.row_block != c.row_block, "larger caches change no map");
    for (int i = 0; i < 2; i++)
        fovea_linear_destroy(maps[i]);
    fovea_context_destroy(with);
    knob[FV_LINEAR_KNOB_cache_scale].number = 0;
    knob[FV_ATTENTION_KNOB_cache_scale].number = 400;
    with = context_knobs(without, files_name("caches"), FV_TUNING_attention_f32, FV_TUNING_attention_f32, knob);
    for (int64_t rows = 20; rows <= 4096; rows *= 4) { /* up to 72 are one tile, whatever the caches */
        attention_case at = case_plain(1, 2, 2, rows, 4096, 64, 64);
        const fv_attention_choice choices[] = {{.cache_scale = 400}, {.cache_scale = 0}};
        fovea_attention_plan *plans[3];
        fovea_attention_plan_create(with, &at.desc, &plans[2]);
        for (int i = 0; i < 2; i++)
            fv_attention_plan_create_chosen(without, &at.desc, &choices[i], &plans[i]);
        test_check(memcmp(&plans[2]->choice, &plans[0]->choice, sizeof plans[0]->choice) == 0,
                   "%" PRId64 " rows: blocks of %" PRId64 ", not %" PRId64, rows, plans[2]->choice.block_rows,
                   plans[0]->choice.block_rows);
        others += plans[2]->choice.block_rows != plans[1]->choice.block_rows ||
                  plans[2]->choice.tile_rows != plans[1]->choice.tile_rows;
        for (int i = 0; i < 3; i++)
            fovea_attention_plan_destroy(plans[i]);
    }
    test_check(others > 0, "larger caches change no plan");
    fovea_context_destroy(with);
    fovea_context_destroy(without);
}

static const fv_kernel *any_gemm(rng *r) {
    const fv_kernel *list[16] = {NULL};
    int n = 1; /* the first: the default */
    for (int i = 0; i < fv_kernel_count && n < 16; i++)
        if (fv_multiply_tuned(&fv_kernels[i], test_target()))
            list[n++] = &fv_kernels[i];
    return list[rng_below(r, n)];
}

/* Random choices that come from a file, for random cases and numbers of threads: the same bits as without. */
static void test_bits(void) {
    const char *path = files_name("bits");
    const int64_t cases = test_scaled(60);
    for (int64_t i = 0; i < cases; i++) {
        char name[32];
        snprintf(name, sizeof name, "bits %" PRId64, i);
        rng r = rng_stream(test_seed(), name);
        const linear_case c = linear_case_random(&r);
        fv_linear_choice choice = {0};
        choice.gemm = any_gemm(&r);
        choice.k_block = rng_below(&r, 3) ? rng_between(&r, 1, 100) : 0;
        choice.row_block = rng_below(&r, 3) ? rng_between(&r, 1, 100) : 0;
        choice.chunk = rng_below(&r, 3) ? rng_between(&r, 1, 40) : 0;
        choice.items = rng_below(&r, 3) ? rng_between(&r, 1, 9) : 0;
        choice.split_rows = rng_below(&r, 3) ? rng_between(&r, 1, 9) : 0;
        choice.prefetch = rng_below(&r, 3);
        choice.gather = rng_below(&r, 3);
        choice.cache_scale = rng_below(&r, 3) ? rng_between(&r, 10, 6400) : 0;
        fv_tuning_value knob[FV_TUNING_KNOBS] = {{NULL, 0}};
        fv_tuning_of_choice(FV_TUNING_linear_f32, &choice, knob);
        fovea_context *without = context_tuned("", i % 2 ? 2 : 1);
        fovea_context *with = context_knobs(without, path, FV_TUNING_linear_f32, FV_TUNING_linear_few_f32, knob);
        linear_problem *p = linear_problem_make(&c, &r);
        float *want[LINEAR_PARTS] = {NULL};
        linear_problem_run(p, without);
        for (int part = 0; part < c.parts; part++) {
            const size_t size = (size_t)tensor_floats(&p->y[part]) * sizeof(float);
            want[part] = malloc(size);
            memcpy(want[part], p->y[part].data, size);
        }
        linear_problem_run(p, with);
        linear_problem_same(p, (const float *const *)want, "from a file");
        fovea_linear *linear;
        if (test_check(fovea_linear_create(with, &p->desc, &linear) == FOVEA_OK, "pack: %s", fovea_error_detail())) {
            const int64_t rows = c.batch * c.tokens;
            test_check(fv_linear_tuned(linear, i % 2 ? 2 : 1, rows) != NULL, "%s: not tuned",
                       linear_case_text(&c, text, sizeof text));
            fovea_linear_destroy(linear);
        }
        for (int part = 0; part < c.parts; part++)
            free(want[part]);
        linear_problem_free(p);
        fovea_context_destroy(with);
        fovea_context_destroy(without);
    }
}

/* Each type of weights has rows of its own, but for what is packed alike. */
static void test_types(void) {
    for (int i = FV_TUNING_linear_f32; i < FV_TUNING_OPERATIONS; i++) {
        const fovea_dtype dtype = fv_tuning_dtype((fv_tuning_op)i);
        const int got = fv_tuning_of(FV_TUNING_linear_f32, dtype, FOVEA_ARITHMETIC_EXACT, i % 2);
        test_check(got == i, "weights of type %d have the rows of %s", (int)dtype, fv_tuning_names[got]);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tuning_linear", NULL);
    files_begin();
    test_wrong();
    test_map();
    test_rows();
    test_types();
    test_describe_all();
    test_every_choice();
    test_caches();
    test_bits();
    files_end();
    return test_end();
}
