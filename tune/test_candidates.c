/* The parts of a search: its statistic, its candidates, the outcome of a run from its verdicts. */
#include "candidates.h"
#include "described.h"
#include "dispatch/dispatch.h"
#include "machine.h"
#include "search.h"
#include "simulation.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

volatile sig_atomic_t tune_stopped;

/* ------------------------------------------------------------------------------------------------- the statistic -- */

/* How often does a candidate's interval hold the true median? Of few blocks: times are skewed, a ratio is not. */
static void test_candidate_interval(void) {
    static const int blocks[] = {6, 15};
    rng r = rng_stream(test_seed(), "candidate interval");
    for (int k = 0; k < 2; k++) {
        int inside = 0, runs = 2000;
        for (int i = 0; i < runs; i++) {
            static tune_measurement m;
            static tune_candidate c;
            for (int j = 0; j < blocks[k]; j++) {
                const double base = -log(1 - (double)rng_unit(&r));
                c.ratio[j] = -log(1 - (double)rng_unit(&r)) - base;
                m.base.ratio[j] = -log(1 - (double)rng_unit(&r)) - base;
            }
            c.blocks = m.base.blocks = blocks[k];
            const tune_interval t = tune_candidate_interval(&m, &c);
            inside += t.low <= 0 && 0 <= t.high;
        }
        test_check(inside >= runs * 94 / 100, "of %d blocks, the interval holds the median in %d of %d runs", blocks[k],
                   inside, runs);
    }
    static tune_measurement m;
    static tune_candidate c = {.blocks = 5};
    test_check(isinf(tune_candidate_interval(&m, &c).high), "an interval from 5 blocks");
}

/* ------------------------------------------------------------------------------------------------ the candidates -- */

/* Nothing is left out of a list of candidates for want of room, and what proves a choice was not in the search. */
static void test_candidates(const fovea_context *ctx) {
    const tune_options options = {.effort = EFFORT_normal};
    const tune_choice none = {0};
    tune_class *classes;
    const int count = tune_classes(&options, ctx->threads.count, ctx->target.isa, &classes);
    for (int i = 0; i < count; i++) {
        const tune_class *c = &classes[i];
        tune_problem problem;
        tune_choice list[TUNE_CANDIDATES];
        char name[96], other[96];
        sim_problem(ctx, &c->search, &problem);
        tune_plan *base = tune_problem_plan(&problem, &none);
        for (int changes = 2; changes > 0; changes--) {
            const int n = tune_list(&problem, &none, changes, base, list);
            test_check(n < TUNE_CANDIDATES, "%s: %d candidates of %d changes", c->name, n, changes);
            for (int k = 0; k < n; k++) {
                int fields = 0;
                for (int at = 0; at < FV_TUNING_KNOBS; at++)
                    fields += list[k].knob[at].kernel || list[k].knob[at].number;
                test_check(fields == changes, "%s: candidate %d has %d fields", c->name, k, fields);
            }
        }
        tune_plan_free(base);
        tune_problem_free(&problem);

        tune_shape seen[1 + TUNE_PROOFS];
        seen[0] = c->search;
        test_check(tune_class_proofs(c, ctx->threads.count, ctx->target.isa, seen + 1) == TUNE_PROOFS,
                   "%s: too few proofs", c->name);
        for (int k = 1; k <= TUNE_PROOFS; k++)
            for (int at = 0; at < k; at++)
                test_check(strcmp(tune_shape_name(&seen[at], name, sizeof name),
                                  tune_shape_name(&seen[k], other, sizeof other)) != 0,
                           "%s: %s is measured twice", c->name, name);
    }
    free(classes);
}

/* Is the row that tuning a class would store found for a shape's plan over a cache? */
static void check_found(const fovea_context *ctx, const tune_class *c, const tune_shape *shape) {
    const tune_result result = {.verdict = VERDICT_tuned, .gain = {1.05, 1.04, 1.06}, .blocks = 9, .shapes = "x"};
    const fv_tuning_row row = tune_row(ctx, c, &result);
    fovea_attention_desc d = shape->attention;
    fovea_tuning *tuning = NULL;
    fovea_tuning_match match;
    fv_tuning_section own;
    char error[FV_FILE_ERROR] = "";
    fovea_tuning_match_init(&match);
    fv_tuning_section_of(&ctx->cpu, &own);
    d.page_keys = FOVEA_KV_PAGE_KEYS;
    test_check(fv_tuning_create(&tuning, error) == FOVEA_OK && fv_tuning_put(tuning, &own, &row, error) == FOVEA_OK &&
                   fovea_tuning_lookup(tuning, ctx, &d, &match) == FOVEA_OK,
               "%s: %s", c->name, error);
    test_check(match.found, "%s: a plan over a cache does not use its row: %s", c->name, match.reason);
    fovea_tuning_destroy(tuning);
}

/* Decoding: keys and values are in a cache, a set in each layer. Of what is read as it lies only keys of float32, and
 * their values where there is no product of few rows, take a chosen product: no candidate differs in others. And plans
 * over a cache use a row of the file. */
static void test_decoding(const fovea_context *ctx) {
    static const char *const shapes[] = {"q_heads=8 kv_heads=2 q_len=1 kv_len=900 head_dim=64 causal=bottom_right",
                                         "q_heads=8 kv_heads=2 q_len=1 kv_len=900 head_dim=64 dtype=bf16",
                                         "q_heads=8 kv_heads=2 q_len=1 kv_len=900 head_dim=64 k_dtype=i8 v_dtype=i8",
                                         "q_heads=8 kv_heads=2 q_len=1 kv_len=900 head_dim=64 k_dtype=i4 v_dtype=i4"};
    const tune_choice none = {0};
    const bool thin = fv_multiply_few(FV_KIND_f32, FV_FORMAT_f32, ctx->target)->isa != FV_ISA_scalar;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        tune_shape shape;
        tune_problem problem;
        tune_choice list[TUNE_CANDIDATES];
        char error[256];
        test_check(tune_shape_read(shapes[i], &shape, error), "%s", error);
        const tune_class c = tune_class_of(&shape, ctx->threads.count, ctx->target.isa);
        check_found(ctx, &c, &shape);
        sim_problem(ctx, &c.search, &problem);
        test_check(problem.cache && problem.sets > 1 && problem.shape.attention.page_keys == FOVEA_KV_PAGE_KEYS,
                   "%s: %d sets, not in a cache", c.name, problem.sets);
        tune_plan *base = tune_problem_plan(&problem, &none);
        const int n = tune_list(&problem, &none, 1, base, list);
        const bool scores = base->made.knob[FV_ATTENTION_KNOB_score].kernel != NULL,
                   copies = base->made.knob[FV_ATTENTION_KNOB_value].kernel != NULL;
        test_check(scores == (i == 0) && copies == (i == 0 && !thin), "%s: the plan takes other keys or values",
                   c.name);
        for (int k = 0; k < n; k++)
            test_check((scores || !list[k].knob[FV_ATTENTION_KNOB_score].kernel) &&
                           (copies || !list[k].knob[FV_ATTENTION_KNOB_value].kernel),
                       "%s: a product that has no part", c.name);
        test_check(tune_time_execution(&problem, base) > 0, "%s: %s", c.name, fovea_error_detail());
        tune_plan_free(base);
        tune_problem_free(&problem);
    }
}

/* Where the system reports a quarter of the caches, a candidate is what the default would be with the whole of them. */
static void test_caches(fovea_context *ctx) {
    const tune_options options = {.effort = EFFORT_normal};
    const tune_choice none = {0};
    const int64_t l1d = ctx->cpu.l1d, l2 = ctx->cpu.l2;
    int others = 0;
    tune_class *classes;
    const int count = tune_classes(&options, ctx->threads.count, ctx->target.isa, &classes);
    for (int i = 0; i < count; i++) {
        tune_problem problem;
        tune_choice list[TUNE_CANDIDATES];
        sim_problem(ctx, &classes[i].search, &problem);
        tune_plan *whole = tune_problem_plan(&problem, &none);
        ctx->cpu.l1d = l1d / 4;
        ctx->cpu.l2 = l2 / 4;
        tune_plan *base = tune_problem_plan(&problem, &none);
        bool found = tune_same_plan(whole, base);
        others += !found;
        const int n = tune_list(&problem, &none, 1, base, list);
        for (int k = 0; k < n && !found; k++) {
            tune_plan *plan = tune_problem_plan(&problem, &list[k]);
            found = tune_same_plan(plan, whole);
            tune_plan_free(plan);
        }
        test_check(found, "%s: no candidate is for caches of four times the size", classes[i].name);
        ctx->cpu.l1d = l1d;
        ctx->cpu.l2 = l2;
        tune_plan_free(whole);
        tune_plan_free(base);
        tune_problem_free(&problem);
    }
    test_check(others > 0, "none of %d classes has another default with smaller caches", count);
    free(classes);
}

/* --------------------------------------------------------------------------------------------------- the outcome -- */

/* Checks whether a run with these verdicts stores a row, and its status. */
static void check_outcome(const char *what, const tune_verdict *verdicts, int count, bool store, int status) {
    tune_result results[8] = {{.verdict = VERDICT_no_time}};
    for (int i = 0; i < count; i++) {
        results[i].verdict = verdicts[i];
        results[i].gain.median = i + 1;
    }
    const tune_outcome o = tune_outcome_of(results, count);
    test_check(o.store == store && o.status == status, "%s: %s, status %d", what, o.store ? "stored" : "not stored",
               o.status);
}

static void test_outcome(void) {
    static const tune_verdict some[] = {VERDICT_tuned, VERDICT_default, VERDICT_noisy, VERDICT_noisy, VERDICT_noisy};
    static const tune_verdict nothing[] = {VERDICT_no_time, VERDICT_no_time}, large[] = {VERDICT_large, VERDICT_large};
    check_outcome("two decided, two too noisy", some, 4, true, TUNE_GOOD);
    check_outcome("two decided, three too noisy", some, 5, false, TUNE_NOISY);
    check_outcome("no time", nothing, 2, false, TUNE_NOISY);
    check_outcome("no memory", large, 2, false, TUNE_FAILED);
    tune_stopped = 1;
    check_outcome("two decided, three too noisy, interrupted", some, 5, true, 130);
    check_outcome("interrupted at once", nothing, 2, false, 130);
    tune_stopped = 0;
    const tune_result gains[] = {{.verdict = VERDICT_tuned, .gain = {2, 1, 3}},
                                 {.verdict = VERDICT_default},
                                 {.verdict = VERDICT_tuned, .gain = {8, 7, 9}}};
    test_check(fabs(tune_outcome_of(gains, 3).gain - 4) < 1e-9, "gains of 2 and 8: %g", tune_outcome_of(gains, 3).gain);
}

int main(int argc, char **argv) {
    test_option options[] = {MACHINE_OPTION, {NULL, NULL, NULL, NULL}};
    machine_test_begin(argc, argv, "tune_candidates", options);
    test_candidate_interval();
    test_outcome();
    fovea_context *ctx = test_context_untuned();
    test_candidates(ctx);
    test_decoding(ctx);
    test_caches(ctx);
    fovea_context_destroy(ctx);
    tune_problem_end();
    return test_end();
}
