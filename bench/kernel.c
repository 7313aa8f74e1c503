/* fovea-bench: every row of the kernel list by itself, on operands that stay in the first-level cache or nearly so.
 *
 * A row is found by its name, so new rows are measured without a word here; kernel_operations.c knows how each
 * operation is called. Before it is timed, a row's results must have the bits of the scalar row of its operation. Rows
 * that change their operands in place are timed on what they left: their time does not depend on values.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "core/core.h"
#include "kernel_operations.h"

typedef struct kernel_bench {
    bench base;
    const fv_kernel *kernel;
    operands data;
} kernel_bench;

/* Runs the scalar row of the operation on operands of its own and compares; NULL if all is the same. Of that row itself
 * this says only that it gives the same twice: what holds it to the arithmetic are test-golden and test-reference. */
static const char *compare(const kernel_bench *self) {
    const operands *data = &self->data;
    operands judge = {.m = data->m, .n = data->n, .k = data->k};
    const char *error = "no memory";
    if (operands_make(&judge, self->kernel) == 0) {
        kernel_operation_of(self->kernel)->call(fv_kernel_reference(self->kernel), &judge);
        int same = judge.truth == data->truth && memcmp(&judge.bits, &data->bits, sizeof judge.bits) == 0;
        for (int i = 0; i < OUTPUTS; i++)
            same &= memcmp(judge.out[i], data->out[i], (size_t)operands_room(data) * sizeof(float)) == 0;
        error = same ? NULL : "WRONG: not the bits of the scalar row";
    }
    operands_free(&judge);
    return error;
}

static void kernel_run(bench *base) {
    kernel_bench *self = (kernel_bench *)base;
    kernel_operation_of(self->kernel)->call(self->kernel, &self->data);
}

static const char *kernel_begin(bench *base, shim_cost *cost) {
    kernel_bench *self = (kernel_bench *)base;
    const kernel_operation *op = kernel_operation_of(self->kernel);
    operands *o = &self->data;
    if (operands_make(o, self->kernel) != 0)
        return "no memory";
    kernel_run(base);
    const char *error = compare(self);
    if (error != NULL)
        return error;
    cost->elements = op->elements * (double)(o->m * o->n * o->k);
    cost->flops = op->flops * (double)(o->m * o->n * o->k);
    cost->bytes = op->bytes * (double)(o->m * o->n * o->k);
    if (self->kernel->op == FV_OP_multiply && self->kernel->format == FV_FORMAT_f32)
        cost->bytes = 4.0 * (double)(o->m * o->k + o->k * o->n + o->m * o->n);
    if (self->kernel->few) /* those of b, which is what limits it */
        cost->bytes = fv_type_bits(self->kernel->type) / 8.0 * (double)(o->n * o->k);
    if (cost->flops > 0)
        cost->peak = operands_in_groups(self->kernel)
                         ? bench_peak_integers(fv_target_capped(bench_target(NULL), self->kernel->isa))
                         : bench_peak(self->kernel->isa);
    return NULL;
}

static void kernel_end(bench *base) { operands_free(&((kernel_bench *)base)->data); }

/* name= is read by hand: its values are the rows of the list. */
static const fv_kernel *find_row(const char *words, char rest[], size_t size, char error[BENCH_ERROR_SIZE]) {
    const fv_kernel *kernel = NULL;
    size_t used = 0;
    fv_word word;
    snprintf(error, BENCH_ERROR_SIZE, "a kernel case needs name=ROW, a row of the kernel list");
    while (fv_word_next(&words, CLI_BLANKS, &word) == FV_WORD_FOUND) {
        if (strcmp(word.name, "name") != 0) {
            fv_text_add(rest, size, &used, "%s=%s ", word.name, word.value);
        } else if ((kernel = fv_kernel_named(word.value)) == NULL) {
            snprintf(error, BENCH_ERROR_SIZE, "name=%.100s: no such row in the kernel list", word.value);
            return NULL;
        }
    }
    fv_text_add(rest, size, &used, "%s", words); /* what is no word */
    const fv_target target = bench_target(NULL);
    char lacks[FV_FEATURES_TEXT];
    if (kernel != NULL && !fv_kernel_runs(kernel, target)) {
        snprintf(error, BENCH_ERROR_SIZE, "name=%s: this CPU or FOVEA_ISA does not allow %s", kernel->name,
                 fv_target_lacks(target, kernel->isa, kernel->features, lacks));
        return NULL;
    }
    return kernel;
}

static bench *kernel_make(const char *words, char error[BENCH_ERROR_SIZE]) {
    char rest[BENCH_NAME_SIZE];
    const fv_kernel *kernel = find_row(words, rest, sizeof rest, error);
    if (kernel == NULL)
        return NULL;
    const kernel_operation *op = kernel_operation_of(kernel);
    if (op->call == NULL) {
        snprintf(error, BENCH_ERROR_SIZE, "name=%s: fovea-bench does not know its operation", kernel->name);
        return NULL;
    }
    int64_t m = op->m ? op->m : (48 + kernel->mr - 1) / kernel->mr * kernel->mr; /* some whole tiles of rows */
    int64_t n = op->n ? op->n : kernel->nr, k = op->k;
    const cli_key all[] = {{"m", NULL, 1, kernel->few ? kernel->mr : 4096, &m},
                           {"n", NULL, op->n_step, op->n_most, &n},
                           {"k", NULL, 1, kernel_k_most(kernel), &k}};
    cli_key keys[3];
    size_t count = 0;
    for (int i = 0; i < 3; i++)
        if (strchr(op->sizes, all[i].name[0]) != NULL)
            keys[count++] = all[i];
    const bench functions = {.begin = kernel_begin, .run = kernel_run, .end = kernel_end};
    kernel_bench *self = bench_new(sizeof *self, &functions, rest, keys, count, BENCH_TAKES_NEITHER, error);
    if (self == NULL)
        return NULL;
    if (n % op->n_step != 0) {
        snprintf(error, BENCH_ERROR_SIZE, "n=%" PRId64 ": must be a multiple of %" PRId64, n, op->n_step);
        free(self);
        return NULL;
    }
    self->kernel = kernel;
    self->data = (operands){.m = m, .n = n, .k = k};
    bench_name(&self->base, "kernel/%s/", kernel->name);
    for (size_t i = 0; i < count; i++)
        bench_name(&self->base, "%s%s%" PRId64, i ? "_" : "", keys[i].name, *keys[i].value);
    return &self->base;
}

const bench_kind bench_kernel = {
    "kernel", kernel_make, "name=NAME, a kernel as --list names it, and those of m= n= k= that its operation has"};
