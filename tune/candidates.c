/* The candidates of a search : stages, each over choices that differ in one respect from the best so far, or in
 * two sizes. Of an attention: pairs of kernels, sizes of blocks and tiles, splitting of rows. Of a linear map: kernels,
 * blocks of channels and rows, items of a thread. */
#include "candidates.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const tune_stages[TUNE_STAGES] = {
    [TUNE_kernels] = "kernels", [TUNE_sizes] = "sizes", [TUNE_pairs] = "pairs of sizes", [TUNE_threads] = "threads"};

/* A list in the making. */
typedef struct list {
    tune_problem *problem;
    const tune_plan *base;
    tune_choice *choices;
    tune_plan made[TUNE_CANDIDATES]; /* their attention is gone */
    int count;
} list;

/* Adds a choice, unless its plan is that of one before or of the default. */
static void add(list *l, const tune_choice *choice) {
    tune_plan *plan = tune_problem_plan(l->problem, choice);
    if (!plan)
        return;
    const tune_plan made = *plan;
    tune_plan_free(plan);
    bool known = tune_same_plan(&made, l->base);
    for (int i = 0; i < l->count && !known; i++)
        known = tune_same_plan(&made, &l->made[i]);
    assert(known || l->count < TUNE_CANDIDATES);
    if (known || l->count == TUNE_CANDIDATES)
        return;
    l->choices[l->count] = *choice;
    l->made[l->count++] = made;
}

/* A number times a factor, a whole multiple of unit (but for unit 1 at least that) up to most. */
static int64_t scaled(int64_t number, double factor, int64_t unit, int64_t most) {
    const int64_t size = fv_min((int64_t)((double)number * factor), most);
    return fv_max(fv_round_down(size, unit), unit);
}

/* ------------------------------------------------------------------------------------------------------ kernels -- */

typedef struct ranked {
    tune_choice choice;
    double cost;
} ranked;

static int by_cost(const void *a, const void *b) {
    const double x = ((const ranked *)a)->cost, y = ((const ranked *)b)->cost;
    return (x > y) - (x < y);
}

/* What the model says of the kernels of a choice. */
static double model_cost(const tune_shape *shape, const tune_choice *choice) {
    const int64_t most = 4096; /* rows and columns beyond make no difference */
    const fovea_attention_desc *d = &shape->attention;
    if (shape->linear)
        return fv_multiply_cost(choice->knob[FV_LINEAR_KNOB_gemm].kernel, fv_min(shape->rows, most),
                                fv_min(shape->out, most));
    const int64_t rows = d->q_heads / d->kv_heads * d->q_len, keys = fv_max(fv_min(d->kv_len, FV_SEGMENT), 1);
    return fv_multiply_cost(choice->knob[FV_ATTENTION_KNOB_score].kernel, rows, keys) * (double)d->head_dim +
           fv_multiply_cost(choice->knob[FV_ATTENTION_KNOB_value].kernel, rows, fv_min(d->value_dim, most)) *
               (double)keys;
}

/* Of an attention pairs: a kernel for scores with one for values. */
static void list_kernels(list *l, const tune_choice *best) {
    ranked all[TUNE_CANDIDATES];
    const tune_shape *shape = &l->problem->shape;
    const fv_kernel *usual = fv_multiply_best(FV_KIND_f32, FV_FORMAT_f32, l->problem->ctx->target);
    int n = 0;
    for (int i = 0; i < fv_kernel_count; i++)
        for (int j = 0; j < (shape->linear ? 1 : fv_kernel_count); j++) {
            const fv_kernel *first = &fv_kernels[i], *second = shape->linear ? first : &fv_kernels[j];
            if (!fv_kernel_alike(first, usual) || !fv_kernel_alike(second, usual))
                continue;
            assert(n < TUNE_CANDIDATES);
            ranked *k = &all[n++];
            k->choice = *best;
            k->choice.knob[FV_ATTENTION_KNOB_score].kernel = first; /* or FV_LINEAR_KNOB_gemm: each operation's first */
            if (!shape->linear)
                k->choice.knob[FV_ATTENTION_KNOB_value].kernel = second;
            k->cost = model_cost(shape, &k->choice);
        }
    qsort(all, (size_t)n, sizeof *all, by_cost);
    for (int i = 0; i < n; i++)
        add(l, &all[i].choice);
}

/* ---------------------------------------------------------------------------------------------------- attention -- */

/* Sizes around those of the best plan, so many of them changed at once: multiples of its register tile's rows, so that
 * tiles are whole. */
static void list_tiles(list *l, const tune_choice *best, const tune_choice *made, int changes) {
    static const double factors[] = {1, 0.5, 2, 0.25, 4, 1.5, 0.75}, blocks[] = {1, 0.5, 2, 0.25, 4, 16};
    const int64_t unit = made->knob[FV_ATTENTION_KNOB_value].kernel->mr;
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++)
        for (size_t j = 0; j < sizeof blocks / sizeof blocks[0]; j++) {
            tune_choice choice = *best;
            if (i > 0)
                choice.knob[FV_ATTENTION_KNOB_tile_rows].number =
                    scaled(made->knob[FV_ATTENTION_KNOB_tile_rows].number, factors[i], unit, 4096);
            if (j > 0)
                choice.knob[FV_ATTENTION_KNOB_block_rows].number =
                    fv_min((int64_t)ceil((double)made->knob[FV_ATTENTION_KNOB_block_rows].number * blocks[j]), 4096);
            if ((i > 0) + (j > 0) == changes)
                add(l, &choice);
        }
}

static void list_splits(list *l, const tune_choice *best) {
    static const int64_t splits[] = {-1, 1, 2, 4, 8};
    if (l->problem->ctx->threads.count == 1)
        return;
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        tune_choice choice = *best;
        choice.knob[FV_ATTENTION_KNOB_split].number = splits[i];
        if (splits[i] < l->base->attention->visible_segments)
            add(l, &choice);
    }
}

/* ------------------------------------------------------------------------------------------------------- linear -- */

/* Rows of an item and rows at once around those of the best plan; all channels, and blocks of them. So many of the
 * three changed at once. */
static void list_blocks(list *l, const tune_choice *best, const tune_choice *made, int changes) {
    static const double rows[] = {1, 0.5, 2, 0.25}, chunks[] = {1, 0.5, 0.25, 2, 1024};
    static const int64_t channels[] = {0, 64, 96, 128, 192, 256, 512, 1024, 1 << 20};
    const int64_t unit = made->knob[FV_LINEAR_KNOB_gemm].kernel->mr, in = l->problem->shape.in;
    for (size_t k = 0; k < sizeof channels / sizeof channels[0]; k++)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 5; j++) {
                tune_choice choice = *best;
                if (k > 0)
                    choice.knob[FV_LINEAR_KNOB_k_block].number = fv_min(channels[k], in);
                if (i > 0)
                    choice.knob[FV_LINEAR_KNOB_row_block].number =
                        scaled(made->knob[FV_LINEAR_KNOB_row_block].number, rows[i], unit, 4096);
                if (j > 0)
                    choice.knob[FV_LINEAR_KNOB_chunk].number =
                        scaled(made->knob[FV_LINEAR_KNOB_chunk].number, chunks[j], unit, 4096);
                if ((k > 0) + (i > 0) + (j > 0) == changes)
                    add(l, &choice);
            }
}

static void list_items(list *l, const tune_choice *best) {
    static const int64_t items[] = {1, 2, 8, 16};
    if (l->problem->ctx->threads.count == 1)
        return;
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        tune_choice choice = *best;
        choice.knob[FV_LINEAR_KNOB_items].number = items[i];
        add(l, &choice);
    }
}

/* ---------------------------------------------------------------------------------------------------------- all -- */

/* Sizes that differ in so many respects from the best plan's. */
static void list_sizes(list *l, const tune_choice *best, const tune_choice *made, int changes) {
    if (l->problem->shape.linear)
        list_blocks(l, best, made, changes);
    else
        list_tiles(l, best, made, changes);
}

/* Adds those of a stage. */
static void list_stage(list *l, tune_stage stage, const tune_choice *best) {
    tune_plan *plan = tune_problem_plan(l->problem, best);
    if (!plan)
        return;
    if (stage != TUNE_kernels)
        add(l, best);
    switch (stage) {
    case TUNE_kernels: list_kernels(l, best); break;
    case TUNE_sizes: list_sizes(l, best, &plan->made, 1); break;
    case TUNE_pairs: list_sizes(l, best, &plan->made, 2); break;
    default:
        if (l->problem->shape.linear)
            list_items(l, best);
        else
            list_splits(l, best);
        break;
    }
    tune_plan_free(plan);
}

int tune_list(tune_problem *problem, tune_stage stage, const tune_choice *best, const tune_plan *base,
              tune_choice choices[TUNE_CANDIDATES]) {
    list l = {.problem = problem, .base = base, .choices = choices};
    list_stage(&l, stage, best);
    return l.count;
}

bool tune_is_another_size(const tune_plan *a, const tune_plan *b) {
    const int knob = a->attention ? FV_ATTENTION_KNOB_tile_rows : FV_LINEAR_KNOB_k_block;
    return a->made.knob[knob].number != b->made.knob[knob].number;
}
