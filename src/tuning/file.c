/* Tuning files: where they are, what a context takes from one (file.h), and the public functions about files. */
#include "tuning/file.h"

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "tuning/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fovea_status fv_tuning_read(const char *path, fovea_tuning **tuning, bool *absent, char error[FV_FILE_ERROR]) {
    *tuning = NULL;
    *absent = false;
    char *text = malloc(FV_TUNING_BYTES), detail[FV_FILE_ERROR];
    if (!text) {
        snprintf(error, FV_FILE_ERROR, "no memory to read a tuning file");
        return FOVEA_ERROR_OUT_OF_MEMORY;
    }
    size_t length;
    fovea_status status = fv_file_read(path, text, FV_TUNING_BYTES, &length, absent, error);
    if (status == FOVEA_OK && (status = fv_tuning_parse(text, length, tuning, detail)) != FOVEA_OK)
        snprintf(error, FV_FILE_ERROR, "%.200s: %.300s", path, detail);
    free(text);
    return status;
}

fovea_status fv_tuning_write(const fovea_tuning *tuning, const char *path, char error[FV_FILE_ERROR]) {
    char *text = malloc(FV_TUNING_BYTES);
    if (!text) {
        snprintf(error, FV_FILE_ERROR, "no memory to write a tuning file");
        return FOVEA_ERROR_OUT_OF_MEMORY;
    }
    size_t length;
    fovea_status status = fv_tuning_print(tuning, text, &length, error);
    if (status == FOVEA_OK)
        status = fv_file_replace(path, text, length, error);
    free(text);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- search -- */

bool fv_tuning_place(int index, char *path, size_t size) {
    /* Folders that are not absolute are not to be used, says the standard of XDG_CACHE_HOME. */
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    path[0] = '\0';
    if (index == 0 && cache && cache[0] == '/')
        snprintf(path, size, "%s/fovea/tuning", cache);
    else if (index == 0 && home && home[0] == '/')
        snprintf(path, size, "%s/.cache/fovea/tuning", home);
    else if (index == 1)
        snprintf(path, size, "/etc/fovea/tuning");
    if (strlen(path) + 1 == size)
        path[0] = '\0'; /* cut: another file's name */
    return index < 2;
}

/* What is there for a context of this tier and so many threads. */
static void describe_use(fv_tuning_use *use, const fv_cpu *cpu) {
    fv_tuning_section own;
    fv_tuning_section_of(cpu, &own);
    use->section = fv_tuning_section_find(use->tuning, &own);
    if (use->section < 0) {
        char why[256];
        fv_tuning_why_foreign(use->tuning, &own, why, sizeof why);
        use->status = FOVEA_ERROR_INCOMPATIBLE;
        snprintf(use->text, sizeof use->text, "nothing of %.200s: %s", use->path, why);
        return;
    }
    int rows = 0, fitting = 0;
    for (int i = 0; i < use->tuning->rows; i++) {
        const fv_tuning_row *row = &use->tuning->row[i];
        rows += row->section == use->section && row->known;
        fitting += row->section == use->section && row->isa == use->isa && row->threads == use->threads;
    }
    snprintf(use->text, sizeof use->text,
             "%.200s: %d of the %d row%s for this CPU and build %s for tier %s and %d thread%s", use->path, fitting,
             rows, rows == 1 ? "" : "s", fitting == 1 ? "is" : "are", fv_isa_word(use->isa), use->threads,
             use->threads == 1 ? "" : "s");
    use->rows = fitting;
    use->cache_scale = fv_tuning_cache_scale(use->tuning, use->section);
    if (use->cache_scale != 100) {
        size_t used = strlen(use->text);
        fv_text_add(use->text, sizeof use->text, &used, "; cache sizes: %lld%% of those reported",
                    (long long)use->cache_scale);
    }
}

/* The file that is named, or else the first that is there; *found: there was one. */
static fovea_status find_file(const char *named, fv_tuning_use *use, bool *found, char error[FV_FILE_ERROR]) {
    bool absent;
    *found = true;
    if (named) {
        snprintf(use->path, sizeof use->path, "%s", named);
        return fv_tuning_read(named, &use->tuning, &absent, error);
    }
    for (int i = 0; fv_tuning_place(i, use->path, sizeof use->path); i++) {
        if (!use->path[0])
            continue;
        const fovea_status status = fv_tuning_read(use->path, &use->tuning, &absent, error);
        if (!absent)
            return status;
    }
    *found = false;
    return FOVEA_OK;
}

fovea_status fv_tuning_use_file(const char *named, const fv_cpu *cpu, fv_isa isa, int threads, fv_tuning_use *use) {
    memset(use, 0, sizeof *use);
    use->isa = isa;
    use->threads = threads;
    use->section = -1;
    use->cache_scale = 100;
    const char *by = "the options", *environment = getenv("FOVEA_TUNING_FILE");
    if (!named && environment) {
        named = environment;
        by = "FOVEA_TUNING_FILE";
    }
    if (named && !named[0]) {
        snprintf(use->text, sizeof use->text, "no tuning file: %s say%s none", by, named == environment ? "s" : "");
        return FOVEA_OK;
    }
    char error[FV_FILE_ERROR];
    bool found;
    use->status = find_file(named, use, &found, error);
    if (!found)
        snprintf(use->text, sizeof use->text,
                 "no tuning file in $XDG_CACHE_HOME/fovea (or ~/.cache/fovea) and "
                 "/etc/fovea");
    else if (use->status == FOVEA_OK)
        describe_use(use, cpu);
    else
        snprintf(use->text, sizeof use->text, "%s", error);
    return use->status == FOVEA_ERROR_OUT_OF_MEMORY ? fv_fail(use->status, "%s", error) : FOVEA_OK;
}

const fv_tuning_row *fv_tuning_use_find(const fv_tuning_use *use, fv_tuning_op operation,
                                        const int64_t key[FV_TUNING_KEYS], char *why, size_t size) {
    snprintf(why, size, "%s", use->text);
    if (use->section < 0)
        return NULL;
    const fv_tuning_row *row = fv_tuning_find(use->tuning, use->section, operation, use->isa, use->threads, key);
    if (!row) {
        size_t used = 0;
        fv_text_add(why, size, &used, "%.200s has ", use->path);
        fv_tuning_why_not(use->tuning, use->section, operation, use->isa, use->threads, key, why + used, size - used);
    }
    return row;
}

/* ------------------------------------------------------------------------------------------------------- public -- */

fovea_status fovea_tuning_load(const char *path, fovea_tuning **tuning) {
    FV_HOLD_CANCELLATION();
    if (!tuning)
        return fv_fail(FOVEA_ERROR_NULL, "tuning is NULL");
    *tuning = NULL;
    if (!path)
        return fv_fail(FOVEA_ERROR_NULL, "path is NULL");
    char error[FV_FILE_ERROR];
    bool absent;
    const fovea_status status = fv_tuning_read(path, tuning, &absent, error);
    return status == FOVEA_OK ? status : fv_fail(status, "%s", error);
}

fovea_status fovea_tuning_save(const fovea_tuning *tuning, const char *path) {
    FV_HOLD_CANCELLATION();
    if (!tuning || !path)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", tuning ? "path" : "tuning");
    char error[FV_FILE_ERROR];
    int lock;
    fv_file_make_folders(path);
    fovea_status status = fv_file_lock(path, 1, &lock, error);
    if (status == FOVEA_OK) {
        status = fv_tuning_write(tuning, path, error);
        fv_file_unlock(lock);
    }
    return status == FOVEA_OK ? status : fv_fail(status, "%s", error);
}
