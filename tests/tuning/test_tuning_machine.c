/* Caches of a machine in a tuning file: its line, that contexts apply it to all plans and linear maps, and
 * what merging makes of it. */
#include "linear_case.h"
#include "tuning_case.h"

#include "attention/plan/plan.h"
#include "linear/linear.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const line = "machine : cache_scale=400 : isa=scalar threads=77 gain=1.043 low=1.031 high=1.055 "
                                "blocks=40 shapes=b1_h2\n";

/* A tuning of this CPU and build that reckons with such caches (0: it says nothing), and a row if that many threads. */
static fovea_tuning *tuning_scaled(int64_t percent, int threads) {
    const fv_tuning_section own = section_own();
    const fv_tuning_machine machine = {
        .cache_scale = percent, .isa = FV_ISA_scalar, .threads = 77, .evidence = row_any(0, 1).evidence};
    const fv_tuning_row row = row_any(FV_TUNING_attention_f32, threads);
    char error[FV_FILE_ERROR];
    fovea_tuning *tuning;
    fv_tuning_create(&tuning, error);
    if (percent)
        test_check(fv_tuning_put_machine(tuning, &own, &machine, error) == FOVEA_OK, "put: %s", error);
    if (threads)
        test_check(fv_tuning_put(tuning, &own, &row, error) == FOVEA_OK, "put: %s", error);
    return tuning;
}

static void test_text(void) {
    static const struct {
        const char *from, *to, *with, *words;
    } wrongs[] = {
        {"cache_scale=400", " :", "cache_scale=9", "line 4|cache_scale=9|10 to 6400"},
        {"cache_scale=400", " :", "cache_scale=6401", "line 4|6401"},
        {"cache_scale=400", " :", "", "line 4"},
        {"cache_scale=400", " :", "cache_scale=400 cores=2", "line 4|\"cores\" is not a known word about a machine"},
        {": isa=scalar", " threads", ":", "line 4|isa= is missing"},
        {" gain=", " low", "", "line 4|gain= is missing"},
        {" : isa", "\n", "", "line 4|evidence|missing"},
    };
    static char text[FV_TUNING_BYTES];
    fovea_tuning *tuning = tuning_scaled(400, 0), *loaded;
    tuning_text(tuning, NULL, NULL, NULL, text, sizeof text);
    test_check(strstr(text, line) != NULL, "no line of the machine:\n%s", text);
    char error[FV_FILE_ERROR];
    if (test_check(fv_tuning_parse(text, strlen(text), &loaded, error) == FOVEA_OK, "parse: %s", error)) {
        test_check(loaded->machine[0].cache_scale == 400 && loaded->machine[0].line == 4 &&
                       fv_tuning_cache_scale(loaded, 0) == 400 && fv_tuning_cache_scale(loaded, -1) == 100,
                   "read: %" PRId64, loaded->machine[0].cache_scale);
        fovea_tuning_destroy(loaded);
    }
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        tuning_text(tuning, wrongs[i].from, wrongs[i].to, wrongs[i].with, text, sizeof text);
        file_write(files_name("wrong"), text, strlen(text));
        check_defaults(wrongs[i].with, files_name("wrong"), FOVEA_ERROR_TUNING, wrongs[i].words);
    }
    tuning_text(tuning, NULL, NULL, NULL, text, sizeof text);
    *strstr(text, "end sum=") = '\0';
    strcat(text, line);
    tuning_close(text, sizeof text);
    file_write(files_name("twice"), text, strlen(text));
    check_defaults("twice", files_name("twice"), FOVEA_ERROR_TUNING, "line 5|the same as line 4");
    fovea_tuning_destroy(tuning);
}

/* Whatever tier and threads it was found with, a context's plans and maps are those of such caches. */
static void test_applied(void) {
    const char *path = files_name("machine");
    fovea_tuning *tuning = tuning_scaled(400, 0);
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    fovea_tuning_destroy(tuning);
    fovea_context *with = context_tuned(path, 1), *without = context_tuned("", 1);
    fovea_info info;
    fovea_info_init(&info);
    fovea_context_info(with, &info);
    test_check(info.tuning_status == FOVEA_OK && strstr(info.tuning, "cache sizes: 400% of those reported"), "info: %s",
               info.tuning);
    int others = 0;
    for (int64_t rows = 20; rows <= 4096; rows *= 4) { /* up to 72 are one tile, whatever the caches */
        attention_case c = case_plain(1, 2, 2, rows, 4096, 64, 64);
        const fv_attention_choice larger = {.cache_scale = 400};
        fovea_attention_plan *scaled, *wanted, *usual;
        fovea_attention_plan_create(with, &c.desc, &scaled);
        fovea_attention_plan_create(without, &c.desc, &usual);
        fv_attention_plan_create_chosen(without, &c.desc, &larger, &wanted);
        const fv_attention_choice *a = &scaled->choice, *b = &wanted->choice, *d = &usual->choice;
        test_check(a->block_rows == b->block_rows && a->tile_rows == b->tile_rows && a->score == b->score &&
                       a->cache_scale == 400 && scaled->fetches_next == wanted->fetches_next,
                   "%" PRId64 " rows: blocks of %" PRId64 ", not %" PRId64, rows, a->block_rows, b->block_rows);
        others += a->block_rows != d->block_rows || a->tile_rows != d->tile_rows;
        fovea_attention_plan_destroy(scaled);
        fovea_attention_plan_destroy(wanted);
        fovea_attention_plan_destroy(usual);
    }
    test_check(others > 0, "caches of four times the size change no plan");
    static float weights[1024 * 64];
    fovea_linear_desc desc;
    fovea_linear *maps[2];
    fovea_linear_desc_init(&desc);
    desc.in_features = 1024;
    desc.part.weight = fovea_matrix_in_out(weights, FOVEA_DTYPE_F32, 1024, 64);
    if (test_check(fovea_linear_pack(with, &desc, &maps[0]) == FOVEA_OK &&
                       fovea_linear_pack(without, &desc, &maps[1]) == FOVEA_OK,
                   "pack: %s", fovea_error_detail())) {
        const fv_linear_choice larger = {.cache_scale = 400};
        const fv_linear_choice a = fv_linear_heuristics(maps[0], 500, NULL),
                               b = fv_linear_heuristics(maps[1], 500, &larger),
                               d = fv_linear_heuristics(maps[1], 500, NULL);
        test_check(memcmp(&a, &b, sizeof a) == 0, "linear: chunks of %" PRId64 ", not %" PRId64, a.chunk, b.chunk);
        test_check(memcmp(&a, &d, sizeof a) != 0, "linear: the default's");
        fovea_linear_destroy(maps[0]);
        fovea_linear_destroy(maps[1]);
    }
    fovea_context_destroy(with);
    fovea_context_destroy(without);
}

/* Rows hold for one size of the caches: with another they go. */
static void test_rows(void) {
    const fv_tuning_section own = section_own();
    fovea_tuning *tuning = tuning_scaled(0, 1);
    fv_tuning_machine machine = {.cache_scale = 100};
    char error[FV_FILE_ERROR];
    fv_tuning_put_machine(tuning, &own, &machine, error);
    test_check(tuning->rows == 1 && tuning->machine[0].cache_scale == 100, "the same size: %d rows", tuning->rows);
    machine.cache_scale = 200;
    fv_tuning_put_machine(tuning, &own, &machine, error);
    test_check(tuning->rows == 0 && fv_tuning_cache_scale(tuning, 0) == 200, "another size: %d rows", tuning->rows);
    fovea_tuning_destroy(tuning);
    static const struct {
        int64_t into, from;
        int threads, rows; /* threads: of from's row, 0: none */
        int64_t scale;
    } merges[] = {{200, 200, 2, 2, 200}, {0, 200, 2, 1, 200}, {200, 0, 2, 1, 100}, {200, 0, 0, 1, 200},
                  {0, 200, 0, 0, 200},   {0, 100, 2, 2, 100}, {100, 0, 2, 2, 100}};
    for (size_t i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        fovea_tuning *into = tuning_scaled(merges[i].into, 1), *from = tuning_scaled(merges[i].from, merges[i].threads);
        test_check(fovea_tuning_merge(into, from) == FOVEA_OK, "merge: %s", fovea_error_detail());
        test_check(into->rows == merges[i].rows && fv_tuning_cache_scale(into, 0) == merges[i].scale,
                   "merge %zu: %d rows, %" PRId64 " %%", i, into->rows, fv_tuning_cache_scale(into, 0));
        /* The same of another build, which is known by its text alone. */
        fovea_tuning *parts[] = {tuning_scaled(merges[i].into, 1), tuning_scaled(merges[i].from, merges[i].threads)};
        fovea_tuning *read[2];
        for (int k = 0; k < 2; k++) {
            static char text[FV_TUNING_BYTES];
            if (parts[k]->sections)
                tuning_text(parts[k], " kernels=", "\n", " kernels=0123456789abcdef", text, sizeof text);
            else
                tuning_text(parts[k], NULL, NULL, NULL, text, sizeof text);
            test_check(fv_tuning_parse(text, strlen(text), &read[k], error) == FOVEA_OK, "parse: %s", error);
            fovea_tuning_destroy(parts[k]);
        }
        test_check(fovea_tuning_merge(read[0], read[1]) == FOVEA_OK, "merge: %s", fovea_error_detail());
        int rows = 0;
        int64_t scale = 100;
        for (int k = 0; k < read[0]->rows; k++) {
            const int64_t told = fv_tuning_text_cache_scale(read[0]->row[k].text);
            rows += !told;
            scale = told ? told : scale;
        }
        test_check(rows == merges[i].rows && scale == merges[i].scale, "merge %zu by text: %d rows, %" PRId64 " %%", i,
                   rows, scale);
        fovea_tuning_destroy(read[0]);
        fovea_tuning_destroy(read[1]);
        fovea_tuning_destroy(into);
        fovea_tuning_destroy(from);
    }
}

/* Rows of adapters say nothing of caches: what the file says stays. */
static void test_adapter(void) {
    fovea_context *ctx = context_tuned("", 1);
    fovea_tuning *tuning = tuning_scaled(200, 1);
    for (int i = 0; i < 2; i++)
        test_check(fovea_tuning_put_adapter_row(&tuning, ctx, "sail.mast", "type=x : b=2") == FOVEA_OK &&
                       tuning->rows == 2 && fv_tuning_cache_scale(tuning, 0) == 200,
                   "an adapter's row: %d rows, %" PRId64 " %%", tuning->rows, fv_tuning_cache_scale(tuning, 0));
    fovea_tuning_destroy(tuning);
    fovea_context_destroy(ctx);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tuning_machine", NULL);
    files_begin();
    test_text();
    test_applied();
    test_rows();
    test_adapter();
    files_end();
    return test_end();
}
