/* Tunings: merge, look-up, what plans make of them, and that no bit of a result changes. Their text:
 * test_tuning_text.c, files: test_tuning_file.c, what linear maps make of them: test_tuning_linear.c. */
#include "target.h"
#include "tuning_case.h"

#include "attention/plan/schedule.h"
#include "context/context.h"
#include "dispatch/dispatch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Choices that a plan takes from a row, and how it describes them. */
static void test_plan(void) {
    fovea_tuning *tuning = tuning_sound(1);
    const char *path = files_name("sound");
    test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save: %s", fovea_error_detail());
    fovea_context *ctx = context_tuned(path, 1);
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    fovea_context_info(ctx, &info);
    test_check(info.tuning_status == FOVEA_OK && info.tuning_rows == FV_TUNING_OPERATIONS && strstr(info.tuning, path),
               "info: %s, %d rows, \"%s\"", fovea_status_name(info.tuning_status), info.tuning_rows, info.tuning);
    attention_case c = case_plain(1, 2, 2, 100, 100, 64, 64);
    fovea_attention_plan *plan;
    char words[2048];
    fovea_attention_plan_create(ctx, &c.desc, &plan);
    fovea_attention_plan_describe(plan, words, sizeof words);
    test_check(strstr(words, "tuned   yes") && strstr(words, path) && strstr(words, "line 4") && strstr(words, "1.043"),
               "describe a tuned plan: %s", words);
    test_check(strstr(words, "of 20 rows, in tiles of 7") && /* 100 rows in equal parts of 21 at most */
                   strstr(words, fv_multiply_best(FV_KIND_f32, FV_FORMAT_f32, test_target())->name),
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

/* Bytes of workspace of a plan with the tuning file of that name; text: what it says of itself. */
static int64_t workspace(const attention_case *c, const char *path, int threads, char text[2048]) {
    fovea_context *ctx = context_tuned(path, threads);
    fovea_attention_plan *plan;
    test_check(fovea_attention_plan_create(ctx, &c->desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
    fovea_attention_plan_describe(plan, text, 2048);
    const int64_t bytes = (int64_t)fovea_attention_plan_workspace_size(plan);
    fovea_attention_plan_destroy(plan);
    fovea_context_destroy(ctx);
    return bytes;
}

/* Large blocks and tiles cost memory, and so do partial results of split rows: a file may not ask for much, neither by
 * a split nor by sizes that lead to one. */
static void test_memory(void) {
    static const struct {
        int threads;
        int64_t split, rows, caches;
    } wanted[] = {{1, 1, 4096, 0}, {2, 1, 4096, 0}, {2, 0, 4096, 0}, {2, 0, 0, 6400}, {2, 1, 0, 6400}};
    const attention_case cases[] = {case_plain(4, 32, 32, 1 << 15, 1 << 20, 128, 128),
                                    case_plain(1, 1, 1, 1024, 1 << 17, 128, 128),
                                    case_plain(1, 1, 1, 1 << 15, 1 << 10, 32, 32)};
    const char *path = files_name("large");
    for (size_t w = 0; w < sizeof wanted / sizeof wanted[0]; w++) {
        fovea_context *ctx = context_tuned("", wanted[w].threads);
        fovea_context_facts info;
        fovea_context_facts_init(&info);
        fovea_context_info(ctx, &info);
        fovea_context_destroy(ctx);
        fovea_tuning *tuning = tuning_sound(info.threads);
        for (int i = 0; i < tuning->rows; i++) {
            fv_tuning_value *knob = tuning->row[i].knob;
            knob[FV_ATTENTION_KNOB_split].number = wanted[w].split;
            if (i < FV_TUNING_linear_f32)
                knob[FV_ATTENTION_KNOB_cache_scale].number = wanted[w].caches;
            knob[FV_ATTENTION_KNOB_block_rows].number = knob[FV_ATTENTION_KNOB_tile_rows].number = wanted[w].rows;
        }
        test_check(fovea_tuning_save(tuning, path) == FOVEA_OK, "save: %s", fovea_error_detail());
        fovea_tuning_destroy(tuning);
        for (int i = 0; i < 3; i++) {
            const bool large_blocks = wanted[w].rows > 0 && cases[i].desc.q_len > 1024;
            char with_text[2048], text[2048];
            const int64_t bytes = workspace(&cases[i], path, wanted[w].threads, with_text),
                          without = workspace(&cases[i], "", wanted[w].threads, text);
            test_check(strstr(with_text, "tuned   yes") != NULL, "the row is not for the case: %s", with_text);
            test_check(!(large_blocks || (wanted[w].split && cases[i].desc.kv_len > 1024)) ||
                           strstr(with_text, "but not its sizes"),
                       "no word on sizes: %s", with_text);
            test_check(bytes < without + ((int64_t)(large_blocks ? 1 : 100) << 20),
                       "case %d, split %" PRId64 ", rows %" PRId64 ", caches %" PRId64 ": a file asks for %" PRId64
                       " bytes of workspace instead of %" PRId64,
                       i, wanted[w].split, wanted[w].rows, wanted[w].caches, bytes, without);
        }
    }
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
    /* FASTEST is what a plan takes of it. */
    fovea_context narrowed = *ctx;
    narrowed.arithmetic = FOVEA_ARITHMETIC_BF16;
    c.desc.dtype = c.desc.k_dtype = c.desc.v_dtype = c.desc.out_dtype = FOVEA_DTYPE_BF16;
    c.desc.arithmetic = FOVEA_ARITHMETIC_FASTEST;
    fovea_tuning_lookup(tuning, &narrowed, &c.desc, &match);
    test_check(match.found && strncmp(match.row, "attention_few_bf16_as_bf16 ", 27) == 0, "look-up of fastest: \"%s\"",
               match.row);
    narrowed.arithmetic = FOVEA_ARITHMETIC_EXACT;
    fovea_tuning_lookup(tuning, &narrowed, &c.desc, &match);
    test_check(match.found && strncmp(match.row, "attention_few_bf16 ", 19) == 0, "look-up of fastest: \"%s\"",
               match.row);
    c.desc.dtype = c.desc.k_dtype = c.desc.v_dtype = c.desc.out_dtype = FOVEA_DTYPE_F32;
    c.desc.arithmetic = FOVEA_ARITHMETIC_BF16;
    check_status("look-up of float32 in bf16", fovea_tuning_lookup(tuning, ctx, &c.desc, &match),
                 FOVEA_ERROR_UNSUPPORTED, "arithmetic");
    c.desc.arithmetic = FOVEA_ARITHMETIC_EXACT;
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
    c.desc.q_heads = -1;
    fovea_tuning_match_init(&match);
    check_status("look-up of -1 heads", fovea_tuning_lookup(empty, ctx, &c.desc, &match), FOVEA_ERROR_SHAPE, "q_heads");
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
    newer.key[FV_ATTENTION_KEY_rows] = (fv_interval){100, 200};
    newer.knob[FV_ATTENTION_KNOB_tile_rows].number = 99;
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
        tiles +=
            a->row[i].operation == FV_TUNING_attention_f32 && a->row[i].knob[FV_ATTENTION_KNOB_tile_rows].number == 99;
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

/* Rows for another build are known by their text only; its machine refuses two for one shape, so none are merged. */
static void test_merge_unknown(void) {
    static const char *const all[] = {
        "gemm_f16 isa=sve2 threads=2 rows=17..64 : by=tile_1 size=1 : gain=1.100 shapes=x",
        "gemm_f16 isa=sve2 threads=2 keys=9 rows=65..any : by=tile_2 size=2 : gain=1.100 shapes=x",
        "gemm_f16 isa=sve2 threads=2 keys=7 rows=60..63 : by=tile_9 size=9 : gain=1.200 shapes=y", /* for the first */
        "gemm_f16 isa=sve2 threads=1 rows=60..63 keys=7 : by=tile_9 size=9 : gain=1.200 shapes=y", /* next to all */
        "gemm_f16 isa=neon threads=2 rows=60..63 keys=7 : by=tile_9 size=9 : gain=1.200 shapes=y",
        "gemm_f16 isa=sve2 threads=2 rows=70 : by=tile_9 size=9 : gain=1.200 shapes=y", /* of any keys: the second */
        "gemm_f32 isa=sve2 threads=2 rows=60..63 keys=7 : by=tile_9 size=9 : gain=1.200 shapes=y",
    };
    enum { COUNT = sizeof all / sizeof all[0], OLD = 2 };
    fovea_tuning *into, *from;
    char error[FV_FILE_ERROR];
    fv_tuning_section other = section_own();
    memcpy(strstr(other.text, "kernels=") + 8, "0123456789abcdef", 16);
    fv_tuning_create(&into, error);
    fv_tuning_create(&from, error);
    for (int i = 0; i < COUNT; i++) {
        fv_tuning_row row = {.known = false};
        snprintf(row.text, sizeof row.text, "%s", all[i]);
        test_check(fv_tuning_put(i < OLD ? into : from, &other, &row, error) == FOVEA_OK, "put: %s", error);
    }
    test_check(fovea_tuning_merge(into, from) == FOVEA_OK, "merge: %s", fovea_error_detail());
    test_check(into->rows == COUNT - OLD, "merge: %d rows", into->rows);
    for (int i = 0; i < into->rows && into->rows == COUNT - OLD; i++)
        test_check(strcmp(into->row[i].text, all[i + OLD]) == 0, "row %d: %s", i, into->row[i].text);
    fovea_tuning_destroy(into);
    fovea_tuning_destroy(from);
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
        fv_tuning_of_choice(FV_TUNING_attention_f32, &choice, knob);
        fovea_context *without = context_tuned("", i % 2 ? 2 : 1);
        fovea_context *with = context_knobs(without, path, FV_TUNING_attention_f32, FV_TUNING_attention_few_f32, knob);
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

/* Blocks are the rows of a key head one after another, as many as are chosen at most; of limited grouped heads of 192
 * rows or more each is of one head. */
static void test_blocks(void) {
    static const int64_t lengths[] = {1, 191, 192, 285, 512}, chosen[] = {0, 1, 50, 148, 256, 4096};
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    for (int causal = 0; causal < 2; causal++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
            for (size_t j = 0; j < sizeof chosen / sizeof chosen[0]; j++) {
                const int64_t length = lengths[i], most = chosen[j];
                attention_case c = case_plain(2, 6, 2, length, 600, 16, 16);
                c.desc.causal = causal ? FOVEA_CAUSAL_BOTTOM_RIGHT : FOVEA_CAUSAL_NONE;
                const fv_attention_choice choice = {.block_rows = most};
                fovea_attention_plan *plan;
                fv_attention_plan_create_chosen(ctx, &c.desc, &choice, &plan);
                fv_scheduled_sequence table[3];
                const fv_schedule schedule = fv_schedule_make(plan, NULL, NULL, table);
                int64_t done = 0, longest = 0, across = 0;
                for (int64_t item = 0; item < plan->row_blocks; item++) {
                    const fv_row_block block = fv_schedule_block(&schedule, item);
                    const int64_t head = block.batch * 2 + block.kv_head;
                    if (head * 3 * length + block.first_row != done)
                        break;
                    done += block.rows;
                    longest = block.rows > longest ? block.rows : longest;
                    across += block.first_row / length != (block.first_row + block.rows - 1) / length;
                }
                test_check(
                    done == 2 * 6 * length && longest == plan->choice.block_rows && plan->choice.tile_rows <= longest &&
                        (most == 0 || longest <= most) && (!causal || length < 192 || across == 0),
                    "%" PRId64 " rows a head, %s, blocks of %" PRId64 ": %" PRId64 " rows, up to %" PRId64
                    " at once in tiles of %" PRId64 ", %" PRId64 " blocks of two heads",
                    length, causal ? "causal" : "no limits", most, done, longest, plan->choice.tile_rows, across);
                fovea_attention_plan_destroy(plan);
            }
    fovea_context_destroy(ctx);
}

/* Row number index of an operation; "" if there is none. */
static const char *adapter_row(const fovea_context *ctx, const fovea_tuning *tuning, const char *operation, int index) {
    static fovea_tuning_match match;
    fovea_tuning_match_init(&match);
    test_check(fovea_tuning_get_adapter_row(tuning, ctx, operation, index, &match) == FOVEA_OK &&
                   (match.row[0] != 0) == match.found,
               "row of an adapter: %s", fovea_error_detail());
    return match.row;
}

static void put_adapter_row(fovea_tuning **tuning, const fovea_context *ctx, const char *words) {
    test_check(fovea_tuning_put_adapter_row(tuning, ctx, "sail.mast", words) == FOVEA_OK, "put \"%s\": %s", words,
               fovea_error_detail());
}

/* Rows of adapters are kept next to the library's own, found by contexts of their tier and threads, and replaced. */
static void test_adapter(void) {
    static const char *const bad[][2] = {{"mast", "a=1 : b=2"},         {"sail.mast #", "a=1 : b=2"},
                                         {"sail.mast", "a=1"},          {"sail.mast", "a=1 : b=2\nend"},
                                         {"sail.mast", "a=1 : b=\xc3"}, {"", ""},
                                         {"sail.mast", "mast : b=2"}};
    fovea_tuning *tuning = NULL, *sound = tuning_sound(1), *read = NULL;
    const char *path = files_name("adapter");
    fovea_context *plain = context_tuned("", 1), *two = context_tuned("", 2);
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    put_adapter_row(&tuning, plain, "type=x : b=2");
    put_adapter_row(&tuning, plain, "type=y : b=3 : gain=1.1");
    put_adapter_row(&tuning, two, "type=x : b=4");
    put_adapter_row(&tuning, plain, "type=x : b=5");
    test_check(fovea_tuning_merge(sound, tuning) == FOVEA_OK && fovea_tuning_save(sound, path) == FOVEA_OK &&
                   fovea_tuning_load(path, &read) == FOVEA_OK && read->rows == FV_TUNING_OPERATIONS + 3,
               "a file with rows of an adapter: %s", fovea_error_detail());
    fovea_context *ctx = context_tuned(path, 1);
    fovea_context_info(ctx, &info);
    test_check(info.tuning_rows == FV_TUNING_OPERATIONS && strstr(info.tuning, "of the"),
               "rows of an adapter count: %s", info.tuning);
    for (int i = 0; i < 3; i++) {
        const fovea_tuning *from = i == 0 ? tuning : i == 1 ? read : NULL;
        const fovea_context *by = from ? plain : ctx;
        test_check(strstr(adapter_row(by, from, "sail.mast", 0), " threads=1 type=y : b=3 : gain=1.1") &&
                       strstr(adapter_row(by, from, "sail.mast", 1), " threads=1 type=x : b=5") &&
                       !*adapter_row(by, from, "sail.mast", 2) && !*adapter_row(by, from, "sail", 0) &&
                       !*adapter_row(by, from, "attention_f32", 0),
                   "rows of an adapter, way %d", i);
        test_check(i == 2 || (strstr(adapter_row(two, from, "sail.mast", 0), " threads=2 type=x : b=4") &&
                              !*adapter_row(two, from, "sail.mast", 1)),
                   "rows for two threads, way %d", i);
    }
    test_check(!*adapter_row(plain, NULL, "sail.mast", 0), "a row without a file");
    test_check(!*adapter_row(plain, read, "sail.mast", INT32_MIN), "a row before the first");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_status("a row that is none", fovea_tuning_put_adapter_row(&tuning, ctx, bad[i][0], bad[i][1]),
                     FOVEA_ERROR_TUNING, "adapter");
    char *words = calloc(1, FV_TUNING_LINE + 1);
    memset(words, ':', FV_TUNING_LINE);
    words[1] = ' ';
    check_status("a long row", fovea_tuning_put_adapter_row(&tuning, ctx, "sail.mast", words), FOVEA_ERROR_TUNING,
                 "adapter");
    free(words);
    check_status("row to NULL", fovea_tuning_get_adapter_row(NULL, ctx, "sail.mast", 0, NULL), FOVEA_ERROR_NULL,
                 "match");
    check_status("row for NULL", fovea_tuning_get_adapter_row(read, NULL, "", 0, NULL), FOVEA_ERROR_NULL, "ctx");
    check_status("put NULL", fovea_tuning_put_adapter_row(&tuning, ctx, "sail.mast", NULL), FOVEA_ERROR_NULL, "words");
    fovea_tuning_destroy(tuning);
    fovea_tuning_destroy(sound);
    fovea_tuning_destroy(read);
    fovea_context_destroy(plain);
    fovea_context_destroy(two);
    fovea_context_destroy(ctx);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "tuning", NULL);
    files_begin();
    test_plan();
    test_blocks();
    test_memory();
    test_lookup();
    test_adapter();
    test_merge();
    test_merge_unknown();
    test_bits();
    files_end();
    return test_end();
}
