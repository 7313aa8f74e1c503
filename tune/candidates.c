/* The candidates of a search: all values that the table of an operation's knobs has for a field (tuning/rows.h). What a
 * field means is not known here. */
#include "candidates.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

/* A list in the making. */
typedef struct list {
    tune_problem *problem;
    const tune_plan *base;
    const fv_tuning_operation *operation;
    tune_choice made; /* of the best */
    tune_choice *choices, plans[TUNE_CANDIDATES];
    int count;
} list;

/* Adds a choice, unless its plan is that of one before or of the default. */
static void add(list *l, const tune_choice *choice) {
    tune_plan *plan = tune_problem_plan(l->problem, choice);
    bool known = !plan || l->count == TUNE_CANDIDATES || tune_same_plan(plan, l->base);
    for (int i = 0; i < l->count && !known; i++)
        known = tune_same_choice(&plan->made, &l->plans[i]);
    if (!known) {
        l->choices[l->count] = *choice;
        l->plans[l->count++] = plan->made;
    }
    tune_plan_free(plan);
}

/* Rows of a tile of the last product that the best has. */
static int64_t tile_rows(const list *l) {
    int64_t rows = 1;
    for (int i = 0; i < l->operation->knobs; i++)
        if (l->made.knob[i].kernel)
            rows = l->made.knob[i].kernel->mr;
    return rows;
}

/* The value of a knob number at of those that are tried; false: there is none. One of neither a kernel nor a number is
 * skipped. */
static bool value_at(const list *l, int which, int at, fv_tuning_value *value) {
    const fv_tuning_knob *knob = &l->operation->knob[which];
    const int64_t now = l->made.knob[which].number;
    *value = (fv_tuning_value){NULL, 0};
    if (knob->kind == FV_TUNING_KERNEL) {
        const fv_kernel *usual = fv_multiply_best(FV_KIND_f32, FV_FORMAT_f32, l->problem->ctx->target);
        if (at < fv_kernel_count && fv_kernel_alike(&fv_kernels[at], usual))
            value->kernel = &fv_kernels[at];
        return at < fv_kernel_count;
    }
    if (knob->kind == FV_TUNING_NAME) {
        value->number = at + 1;
        return knob->name_of(at + 1) != NULL;
    }
    if (at == FV_TUNING_TRIED || knob->tried[at] == 0)
        return false;
    value->number = knob->tried[at];
    if (knob->how & FV_TUNING_EIGHTHS) {
        const int64_t tile = tile_rows(l), size = fv_min(now * knob->tried[at] / 8, knob->range.most);
        value->number = now > 0 ? fv_max(fv_round_down(size, tile), tile) : 0;
    }
    return true;
}

/* Adds choices that differ from one in `changes` fields, counted from a knob on. */
static void add_from(list *l, const tune_choice *from, int first, int changes, bool sizes) {
    if (changes == 0) {
        add(l, from);
        return;
    }
    for (int i = first; i < l->operation->knobs; i++) {
        const unsigned how = l->operation->knob[i].how;
        if ((sizes && !(how & FV_TUNING_SIZE)) || ((how & FV_TUNING_THREADED) && l->problem->ctx->threads.count == 1))
            continue;
        tune_choice choice = *from;
        choice.knob[i] = (fv_tuning_value){NULL, 0}; /* back to the default, before whatever comes to the same */
        if (from->knob[i].kernel || from->knob[i].number)
            add_from(l, &choice, i + 1, changes - 1, sizes);
        for (int at = 0; value_at(l, i, at, &choice.knob[i]); at++)
            if (choice.knob[i].kernel || choice.knob[i].number)
                add_from(l, &choice, i + 1, changes - 1, sizes);
    }
}

int tune_list(tune_problem *problem, const tune_choice *best, int changes, const tune_plan *base,
              tune_choice choices[TUNE_CANDIDATES]) {
    list l = {
        .problem = problem, .base = base, .operation = fv_tuning_operations[problem->operation], .choices = choices};
    tune_plan *plan = tune_problem_plan(problem, best);
    if (!plan)
        return 0;
    l.made = plan->made;
    tune_plan_free(plan);
    add(&l, best);
    add_from(&l, best, 0, changes, changes > 1);
    return l.count;
}
