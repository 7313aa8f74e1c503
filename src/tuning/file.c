/* Tuning files: where they are, what a context takes from one (file.h), and the public functions about files. */
#include "tuning/file.h"

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "tuning/line.h"
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

/* Where the file that ships with the library is, as fv_file_of_tuning(): where FOVEA_KNOWN_CPUS says ("": nowhere),
 * else in the library's folder, else where this build is installed. */
static bool shipped_place(int index, char *path, size_t size) {
    const char *named = fv_environment("FOVEA_KNOWN_CPUS");
    path[0] = '\0';
    if (named)
        snprintf(path, size, "%s", named);
    else if (index == 0)
        fv_file_beside_library(FV_KNOWN_CPUS_BESIDE, path, size);
    else
        snprintf(path, size, "%s", FV_KNOWN_CPUS);
    if (strlen(path) + 1 == size)
        path[0] = '\0';
    return index < (named ? 1 : 2);
}

enum { PARTS = 4 };

void fv_tuning_parts(const fovea_tuning *tuning, const fv_cpu *cpu, fv_tuning_part part[2]) {
    fv_tuning_section own, model;
    part[0] = part[1] = (fv_tuning_part){tuning, -1};
    if (!tuning)
        return;
    fv_tuning_section_of(cpu, &own);
    fv_tuning_model_of(&own, &model);
    part[0].section = fv_tuning_section_find(tuning, &own);
    part[1].section = fv_tuning_section_find(tuning, &model);
}

/* The row in the first of these parts that has one; NULL and the number of the first part that is there, or count. */
static const fv_tuning_row *find_in(const fv_tuning_part *part, int count, fv_isa isa, int threads,
                                    fv_tuning_op operation, const int64_t *key, int *first) {
    *first = count;
    for (int i = 0; i < count; i++) {
        if (part[i].section < 0)
            continue;
        const fv_tuning_row *row = fv_tuning_find(part[i].tuning, part[i].section, operation, isa, threads, key);
        if (row)
            return row;
        *first = *first == count ? i : *first;
    }
    return NULL;
}

const fv_tuning_row *fv_tuning_use_next(const fv_tuning_use *use, int *at) {
    for (; *at < PARTS * FV_TUNING_ROWS; ++*at) {
        const fv_tuning_part *part = &use->part[*at / FV_TUNING_ROWS];
        const int i = *at % FV_TUNING_ROWS;
        if (part->section < 0 || i >= part->tuning->rows)
            *at += FV_TUNING_ROWS - 1 - i; /* the next part comes */
        else if (part->tuning->row[i].known && part->tuning->row[i].section == part->section &&
                 part->tuning->row[i].isa == use->isa) {
            ++*at;
            return &part->tuning->row[i];
        }
    }
    return NULL;
}

bool fv_tuning_dropped(const fovea_tuning *tuning, const fv_tuning_row *row, fv_target target,
                       char why[FV_FILE_ERROR]) {
    if (row->known || !fv_tuning_is_model(&tuning->section[row->section]) || fv_tuning_is_adapter(row->text))
        return false;
    fv_tuning_reader r = {.at = row->text, .line = row->line, .version = tuning->version, .error = why};
    fv_tuning_row unread = {0};
    why[0] = '\0';
    fv_tuning_take_row(&r, target, true, &unread);
    return true;
}

/* Adds to use->text the rows that the two parts of a file have for a context of this tier and number of threads. */
static fovea_status describe(fv_tuning_use *use, const fv_cpu *cpu, const fv_tuning_part part[2], const char *path,
                             size_t *n) {
    int rows = 0, fitting = 0, dropped = 0;
    char why[FV_FILE_ERROR], first[FV_FILE_ERROR];
    if (part[0].section < 0 && part[1].section < 0) {
        fv_tuning_section own;
        fv_tuning_section_of(cpu, &own);
        fv_tuning_why_foreign(part->tuning, &own, why, sizeof why);
        fv_text_add(use->text, sizeof use->text, n, "nothing of %.200s: %.250s", path, why);
        return FOVEA_ERROR_INCOMPATIBLE;
    }
    for (int i = 0; i < part->tuning->rows; i++) {
        const fv_tuning_row *row = &part->tuning->row[i];
        if (row->section != part[0].section && row->section != part[1].section)
            continue;
        rows += row->known;
        fitting += row->known && fv_tuning_serves(row, use->isa, use->threads);
        if (fv_tuning_dropped(part->tuning, row, cpu->target, why) && dropped++ == 0)
            memcpy(first, why, sizeof first);
    }
    use->rows += fitting;
    fv_text_add(use->text, sizeof use->text, n,
                "%.200s: %d of the %d row%s for this CPU and build %s for tier %s and %d thread%s", path, fitting, rows,
                rows == 1 ? "" : "s", fitting == 1 ? "is" : "are", fv_isa_word(use->isa), use->threads,
                use->threads == 1 ? "" : "s");
    if (dropped > 0)
        fv_text_add(use->text, sizeof use->text, n, "; %d dropped: %.120s", dropped, first);
    return FOVEA_OK;
}

/* Reads the file that is named, or else the first that is there of those places, says what it has after before, or else
 * absent. */
static fovea_status use_one(fv_tuning_use *use, const fv_cpu *cpu, const char *named,
                            bool (*place)(int, char *, size_t), char path[FV_TUNING_PATH], fovea_tuning **tuning,
                            fv_tuning_part part[2], const char *before, const char *absent) {
    char error[FV_FILE_ERROR];
    bool gone = true;
    fovea_status status = FOVEA_OK;
    size_t n = strlen(use->text);
    if (named) {
        snprintf(path, FV_TUNING_PATH, "%s", named);
        status = fv_tuning_read(named, tuning, &gone, error);
        gone = false;
    }
    for (int i = 0; gone && place(i, path, FV_TUNING_PATH); i++)
        if (path[0])
            status = fv_tuning_read(path, tuning, &gone, error);
    fv_tuning_parts(*tuning, cpu, part);
    fv_text_add(use->text, sizeof use->text, &n, "%s", gone ? absent : before);
    if (!gone && status == FOVEA_OK)
        return describe(use, cpu, part, path, &n);
    if (!gone)
        fv_text_add(use->text, sizeof use->text, &n, "%s", error);
    return gone ? FOVEA_OK : status;
}

fv_tuning_use *fv_tuning_use_share(fv_tuning_use *use) {
    atomic_fetch_add(&use->owners, 1);
    return use;
}

void fv_tuning_use_drop(fv_tuning_use *use) {
    if (!use || atomic_fetch_sub(&use->owners, 1) > 1)
        return;
    fovea_tuning_destroy(use->tuning);
    fovea_tuning_destroy(use->shipped);
    free(use);
}

fovea_status fv_tuning_use_file(const char *named, const fv_cpu *cpu, fv_isa isa, int threads, fv_tuning_use *use) {
    memset(use, 0, sizeof *use);
    atomic_init(&use->owners, 1);
    use->isa = isa;
    use->threads = threads;
    for (int i = 0; i < PARTS; i++)
        use->part[i].section = -1;
    const char *by = "the options", *environment = fv_environment("FOVEA_TUNING_FILE");
    if (!named && environment) {
        named = environment;
        by = "FOVEA_TUNING_FILE";
    }
    if (named && !named[0]) {
        snprintf(use->text, sizeof use->text, "no tuning file: %s say%s none", by, named == environment ? "s" : "");
        return FOVEA_OK;
    }
    use->status = use_one(use, cpu, named, fv_file_of_tuning, use->path, &use->tuning, use->part, "",
                          "no tuning file in " FV_FILE_TUNING_FOLDERS);
    const fovea_status shipped =
        use_one(use, cpu, NULL, shipped_place, use->shipped_path, &use->shipped, use->part + 2, "; shipped rows: ", "");
    if (use->status == FOVEA_OK && shipped != FOVEA_ERROR_INCOMPATIBLE)
        use->status = shipped;
    return use->status == FOVEA_ERROR_OUT_OF_MEMORY ? fv_fail(use->status, "%s", use->text) : FOVEA_OK;
}

const fv_tuning_row *fv_tuning_use_find(const fv_tuning_use *use, fv_tuning_op operation,
                                        const int64_t key[FV_TUNING_KEYS], char *why, size_t size) {
    int first;
    size_t used = 0;
    const fv_tuning_row *row = find_in(use->part, PARTS, use->isa, use->threads, operation, key, &first);
    snprintf(why, size, "%s", use->text);
    if (row || first == PARTS)
        return row;
    const fv_tuning_part *p = &use->part[first];
    fv_text_add(why, size, &used, "%.200s has ", first < 2 ? use->path : use->shipped_path);
    fv_tuning_why_not(p->tuning, p->section, operation, use->isa, use->threads, key, why + used, size - used);
    return NULL;
}

void fv_tuning_use_describe(const fv_tuning_use *use, const fv_tuning_row *row, char *text, size_t size) {
    const fv_tuning_evidence *e = &row->evidence;
    bool shipped = false;
    for (int i = 0; use->shipped && i < use->shipped->rows; i++)
        shipped |= row == &use->shipped->row[i];
    snprintf(text, size, "yes: %s%.200s line %d, %.3f times as fast as the default (%.3f to %.3f)",
             shipped ? "shipped rows of " : "", shipped ? use->shipped_path : use->path, row->line,
             (double)e->gain / 1000, (double)e->low / 1000, (double)e->high / 1000);
}

const fv_tuning_row *fv_tuning_look_up(const fovea_tuning *tuning, const fv_cpu *cpu, fv_isa isa, int threads,
                                       fv_tuning_op operation, const int64_t key[FV_TUNING_KEYS], char *why,
                                       size_t size) {
    int first;
    fv_tuning_part part[2];
    fv_tuning_section own;
    fv_tuning_parts(tuning, cpu, part);
    const fv_tuning_row *row = find_in(part, 2, isa, threads, operation, key, &first);
    if (!row && first == 2) {
        fv_tuning_section_of(cpu, &own);
        fv_tuning_why_foreign(tuning, &own, why, size);
    } else if (!row)
        fv_tuning_why_not(tuning, part[first].section, operation, isa, threads, key, why, size);
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
