/* fovea-tune merge, explain: several tuning files as one, and what plans programs get with the file. */
#include "commands.h"
#include "machine.h"
#include "output.h"
#include "plural.h"
#include "problem.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a shell leaves behind where the program that was to write there failed. */
static bool is_empty(const char *path) {
    char text[1], error[FV_FILE_ERROR];
    size_t length = 1;
    bool absent;
    return fv_file_read(path, text, sizeof text, &length, &absent, error) == FOVEA_OK && length == 0;
}

/* All files as one; NULL and a sentence if one is damaged, or all are empty. */
static fovea_tuning *join(const tune_options *options) {
    fovea_tuning *all = NULL;
    bool ok = true;
    for (int i = 0; i < options->file_count && ok; i++) {
        const char *path = options->files[i];
        fovea_tuning *one = NULL;
        if (is_empty(path)) {
            fprintf(stderr, "fovea-tune: %s is empty: skipped\n", path);
            continue;
        }
        ok = fovea_tuning_load(path, &one) == FOVEA_OK && (!all || fovea_tuning_merge(all, one) == FOVEA_OK);
        if (all)
            fovea_tuning_destroy(one);
        else
            all = one;
    }
    if (!ok)
        fprintf(stderr, "fovea-tune: %s\n", fovea_error_detail());
    else if (!all)
        fputs("fovea-tune: all files are empty: nothing was written\n", stderr);
    if (ok)
        return all;
    fovea_tuning_destroy(all);
    return NULL;
}

int tune_merge(const tune_options *options) {
    fovea_tuning *all = join(options);
    const char *path = options->output;
    char error[FV_FILE_ERROR];
    int lock = -1;
    if (!all)
        return TUNE_FAILED;
    bool ok = tune_is_standard_output(path) || fv_file_lock(path, 1, &lock, error) == FOVEA_OK;
    ok = ok && tune_output_tuning(path, all, error) == FOVEA_OK;
    if (lock >= 0)
        fv_file_unlock(lock);
    if (ok)
        printf("%s: %d row%s for %d CPU%s and build%s\n", path, all->rows, plural(all->rows), all->sections,
               plural(all->sections), plural(all->sections));
    else
        fprintf(stderr, "fovea-tune: %s\n", error);
    fovea_tuning_destroy(all);
    return ok ? TUNE_GOOD : TUNE_FAILED;
}

static size_t describe_plan(const fovea_context *ctx, const tune_shape *shape, char *text, size_t size) {
    if (shape->linear) {
        fovea_linear map;
        if (!tune_map_make(ctx, shape, &map))
            return 0;
        const size_t length = fv_linear_describe_rows(&map, shape->rows, text, size);
        free(map.tuned);
        return length;
    }
    fovea_attention_plan *plan;
    if (fovea_attention_plan_create(ctx, &shape->attention, &plan) != FOVEA_OK)
        return 0;
    const size_t length = fovea_attention_plan_describe(plan, text, size);
    fovea_attention_plan_destroy(plan);
    return length;
}

/* The plan of a shape as programs get it, with the tuning file; and as it is without, where that is another. The last
 * line of a description says where its choices come from. */
static void print_plan(const char *name, const char *file, const char *with, const char *without) {
    static const char origin[] = "\ntuned ";
    const char *end = strstr(without, origin);
    const int length = end ? (int)(end - without) + 1 : (int)strlen(without);
    printf("%s\nfile    %s\n%s", name, file, with);
    if (strncmp(with, without, (size_t)length) != 0)
        printf("without a file it would be\n%.*s", length, without);
    putchar('\n');
}

/* Adds to list, or prints. */
static bool explain(const tune_options *options, const fovea_context *plain, const tune_shape *shape, json_t *list) {
    const fovea_context_options wanted = tune_context_options(options);
    fovea_context *ctx;
    if (fovea_context_create(&wanted, &ctx) != FOVEA_OK)
        return false;
    char name[96], text[2048], other[2048];
    tune_shape_name(shape, name, sizeof name);
    const bool ok =
        describe_plan(ctx, shape, text, sizeof text) > 0 && describe_plan(plain, shape, other, sizeof other) > 0;
    if (ok && options->json)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "shape", name, "plan", text, "default", other,
                                              "tuning", ctx->tuning.text));
    else if (ok)
        print_plan(name, ctx->tuning.text, text, other);
    fovea_context_destroy(ctx);
    return ok;
}

int tune_explain(const tune_options *options) {
    fovea_context *ctx = tune_context(options);
    if (!ctx)
        return TUNE_FAILED;
    tune_shape *shapes;
    const int count = tune_shapes(options, &shapes);
    json_t *list = json_array();
    int status = count < 0 ? TUNE_USAGE : TUNE_GOOD;
    for (int i = 0; i < count && status == TUNE_GOOD; i++)
        if (!explain(options, ctx, &shapes[i], list)) {
            fprintf(stderr, "fovea-tune: %s\n", fovea_error_detail());
            status = TUNE_FAILED;
        }
    free(shapes);
    if (options->json) {
        json_dumpf(list, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(list);
    fovea_context_destroy(ctx);
    return status;
}
