/* The candidates of a search (tune.h): stages, each over choices that differ in one respect from the best so far. Of an
 * attention: pairs of kernels, sizes of blocks and tiles, splitting of rows. Of a linear map: kernels, blocks of
 * channels and rows, items of a thread. */
#include "registry.h"
#include "size.h"
#include "tune.h"

#include <stdlib.h>
#include <string.h>

const char *const tune_stages[TUNE_STAGES] = {"kernels", "blocks", "threads"};

/* A list in the making. */
typedef struct list {
    tune_problem *problem;
    const tune_plan *base;
    tune_choice *choices, made[TUNE_CANDIDATES];
    int count;
} list;

/* Adds a choice, unless its plan is that of one before or of the default. */
static void add(list *l, const tune_choice *choice) {
    tune_plan *plan = l->count < TUNE_CANDIDATES ? tune_problem_plan(l->problem, choice) : NULL;
    if (!plan)
        return;
    const tune_choice made = plan->made;
    tune_plan_free(plan);
    bool known = tune_same_choice(&made, &l->base->made);
    for (int i = 0; i < l->count && !known; i++)
        known = tune_same_choice(&made, &l->made[i]);
    if (known)
        return;
    l->choices[l->count] = *choice;
    l->made[l->count++] = made;
}

/* A number times a factor, a whole multiple of unit (but for unit 1 at least that) up to most. */
static int64_t scaled(int64_t number, double factor, int64_t unit, int64_t most) {
    const int64_t size = fv_min((int64_t)((double)number * factor), most);
    return fv_max(fv_round_down(size, unit), unit);
}

/* ---------------------------------------------------------------------------------------------------- attention -- */

static void list_pairs(list *l, const tune_choice *best) {
    for (int i = 0; i < fv_kernel_count; i++)
        for (int j = 0; j < fv_kernel_count; j++) {
            const fv_kernel *score = &fv_kernels[i], *value = &fv_kernels[j];
            if (score->op != FV_OP_gemm || score->isa != l->problem->ctx->isa || value->op != FV_OP_gemm ||
                value->isa != l->problem->ctx->isa)
                continue;
            tune_choice choice = *best;
            choice.knob[FV_KNOB_score].kernel = score;
            choice.knob[FV_KNOB_value].kernel = value;
            add(l, &choice);
        }
}

/* Sizes around those of the best plan: multiples of its register tile's rows, so that tiles are whole. */
static void list_tiles(list *l, const tune_choice *best, const tune_choice *made) {
    static const double factors[] = {1, 0.5, 2, 0.25, 4, 1.5, 0.75};
    const int64_t unit = made->knob[FV_KNOB_value].kernel->mr;
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++)
        for (int j = 0; j < 5; j++) {
            tune_choice choice = *best;
            if (i > 0)
                choice.knob[FV_KNOB_tile_rows].number =
                    scaled(made->knob[FV_KNOB_tile_rows].number, factors[i], unit, 4096);
            if (j > 0)
                choice.knob[FV_KNOB_block_rows].number =
                    scaled(made->knob[FV_KNOB_block_rows].number, factors[j], 1, 4096);
            add(l, &choice);
        }
}

static void list_splits(list *l, const tune_choice *best) {
    static const int64_t splits[] = {-1, 1, 2, 4, 8};
    for (size_t i = 0; i < sizeof splits / sizeof splits[0] && l->problem->ctx->threads > 1; i++) {
        tune_choice choice = *best;
        choice.knob[FV_KNOB_split].number = splits[i];
        if (splits[i] < l->base->attention->seen_segments)
            add(l, &choice);
    }
}

/* ------------------------------------------------------------------------------------------------------- linear -- */

static void list_gemms(list *l, const tune_choice *best) {
    for (int i = 0; i < fv_kernel_count; i++)
        if (fv_kernels[i].op == FV_OP_gemm && fv_kernels[i].isa == l->problem->ctx->isa) {
            tune_choice choice = *best;
            choice.knob[FV_KNOB_gemm].kernel = &fv_kernels[i];
            add(l, &choice);
        }
}

/* Rows of an item and rows at once around those of the best plan; all channels, and blocks of them. */
static void list_blocks(list *l, const tune_choice *best, const tune_choice *made) {
    static const double rows[] = {1, 0.5, 2, 0.25}, chunks[] = {1, 0.5, 2, 4, 1024};
    static const int64_t channels[] = {0, 64, 96, 128, 192, 256, 512, 1024, 1 << 20};
    const int64_t unit = made->knob[FV_KNOB_gemm].kernel->mr, in = l->problem->shape.in;
    for (size_t k = 0; k < sizeof channels / sizeof channels[0]; k++)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 5; j++) {
                tune_choice choice = *best;
                if (k > 0)
                    choice.knob[FV_KNOB_k_block].number = fv_min(channels[k], in);
                if (i > 0)
                    choice.knob[FV_KNOB_row_block].number =
                        scaled(made->knob[FV_KNOB_row_block].number, rows[i], unit, 4096);
                if (j > 0)
                    choice.knob[FV_KNOB_chunk].number = scaled(made->knob[FV_KNOB_chunk].number, chunks[j], unit, 4096);
                if ((i == 0) + (j == 0) + (k == 0) >= 1) /* two of them at once */
                    add(l, &choice);
            }
}

static void list_items(list *l, const tune_choice *best) {
    static const int64_t items[] = {1, 2, 8, 16};
    for (size_t i = 0; i < sizeof items / sizeof items[0] && l->problem->ctx->threads > 1; i++) {
        tune_choice choice = *best;
        choice.knob[FV_KNOB_items].number = items[i];
        add(l, &choice);
    }
}

/* ---------------------------------------------------------------------------------------------------------- all -- */

int tune_list(tune_problem *problem, int stage, const tune_choice *best, const tune_plan *base,
              tune_choice choices[TUNE_CANDIDATES]) {
    list l = {.problem = problem, .base = base, .choices = choices};
    tune_plan *plan = tune_problem_plan(problem, best);
    if (!plan)
        return 0;
    const bool linear = problem->shape.linear;
    if (stage == 0 && linear)
        list_gemms(&l, best);
    else if (stage == 0)
        list_pairs(&l, best);
    else if (stage == 1 && linear)
        list_blocks(&l, best, &plan->made);
    else if (stage == 1)
        list_tiles(&l, best, &plan->made);
    else if (linear)
        list_items(&l, best);
    else
        list_splits(&l, best);
    tune_plan_free(plan);
    return l.count;
}

int tune_all_candidates(const fovea_context *ctx, const tune_shape *shape, tune_choice **choices) {
    tune_problem problem;
    char error[256];
    int total = 0;
    *choices = NULL;
    if (!tune_problem_make(ctx, shape, &problem, error))
        return 0;
    const tune_choice none = {0};
    tune_choice kernels[TUNE_CANDIDATES];
    tune_plan *base = tune_problem_plan(&problem, &none);
    const int count = base ? tune_list(&problem, 0, &none, base, kernels) : 0;
    for (int i = -1; base && i < count; i++) {
        tune_choice *grown = realloc(*choices, (size_t)(total + 1 + 2 * TUNE_CANDIDATES) * sizeof *grown);
        if (!grown)
            break;
        *choices = grown;
        const tune_choice best = i < 0 ? none : kernels[i];
        if (i >= 0)
            grown[total++] = best;
        for (int stage = 1; stage < TUNE_STAGES; stage++)
            total += tune_list(&problem, stage, &best, base, grown + total);
    }
    tune_plan_free(base);
    tune_problem_free(&problem);
    return total;
}
