/* fovea-tune merge: several tuning files as one. */
#include "commands.h"
#include "output.h"
#include "plural.h"

#include <stdio.h>

/* Is a file empty, as a shell leaves it if the program that was to write it failed? */
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
    if (options->ship) {
        fovea_tuning *tuned = all;
        all = tune_ship(tuned, error);
        fovea_tuning_destroy(tuned);
        if (!all) {
            fprintf(stderr, "fovea-tune: %s\n", error);
            return TUNE_FAILED;
        }
    }
    bool ok = tune_is_standard_output(path) || fv_file_lock(path, 1, &lock, error) == FOVEA_OK;
    ok = ok && (options->ship ? tune_ship_write : tune_output_tuning)(path, all, error) == FOVEA_OK;
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
