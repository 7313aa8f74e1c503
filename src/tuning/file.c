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

/* Likewise of the file that ships with the library: where FOVEA_KNOWN_CPUS says ("": nowhere), else beside the library,
 * else where this build is installed. */
static bool shipped_place(int index, char *path, size_t size) {
    const char *named = getenv("FOVEA_KNOWN_CPUS");
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
    fv_tuning_section_of(cpu, &own);
    fv_tuning_model_of(&own, &model);
    part[0] = (fv_tuning_part){tuning, tuning ? fv_tuning_section_find(tuning, &own) : -1};
    part[1] = (fv_tuning_part){tuning, tuning ? fv_tuning_section_find(tuning, &model) : -1};
}

const fv_tuning_row *fv_tuning_use_next(const fv_tuning_use *use, int *at) {
    for (; *at < PARTS * FV_TUNING_ROWS; ++*at) {
        const fv_tuning_part *part = &use->part[*at / FV_TUNING_ROWS];
        const int i = *at % FV_TUNING_ROWS;
        if (part->section < 0 || i >= part->tuning->rows)
            *at += FV_TUNING_ROWS - 1 - i; /* the next part comes */
        else if (part->tuning->row[i].known && part->tuning->row[i].section == part->section &&
                 fv_tuning_serves(&part->tuning->row[i], use->isa, use->threads)) {
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

/* Counts the rows of the two parts of a file, and those of them for this tier and number of threads. Adds how many were
 * dropped, if any, and why the first was, to dropped. */
static void count_rows(const fv_tuning_use *use, const fv_tuning_part part[2], fv_target target, int *rows,
                       int *fitting, char dropped[160]) {
    int others = 0;
    char why[FV_FILE_ERROR], first[FV_FILE_ERROR];
    *rows = *fitting = 0;
    for (int i = 0; i < part->tuning->rows; i++) {
        const fv_tuning_row *row = &part->tuning->row[i];
        if (row->section != part[0].section && row->section != part[1].section)
            continue;
        *rows += row->known;
        *fitting += row->known && fv_tuning_serves(row, use->isa, use->threads);
        if (fv_tuning_dropped(part->tuning, row, target, why) && others++ == 0)
            memcpy(first, why, sizeof first);
    }
    dropped[0] = '\0';
    if (others > 0)
        snprintf(dropped, 160, "; %d row%s dropped: %.120s", others, others == 1 ? "" : "s", first);
}

/* What is there for a context of this tier and so many threads. */
static void describe_use(fv_tuning_use *use, const fv_cpu *cpu) {
    int rows, fitting;
    char dropped[160], scale[64] = "";
    if (use->part[0].section < 0 && use->part[1].section < 0) {
        fv_tuning_section own;
        char why[256];
        fv_tuning_section_of(cpu, &own);
        fv_tuning_why_foreign(use->tuning, &own, why, sizeof why);
        use->status = FOVEA_ERROR_INCOMPATIBLE;
        snprintf(use->text, sizeof use->text, "nothing of %.200s: %s", use->path, why);
        return;
    }
    count_rows(use, use->part, cpu->target, &rows, &fitting, dropped);
    use->rows = fitting;
    use->cache_scale = fv_tuning_cache_scale(use->tuning, use->part[0].section);
    if (use->cache_scale != 100)
        snprintf(scale, sizeof scale, "; cache sizes: %lld%% of those reported", (long long)use->cache_scale);
    snprintf(use->text, sizeof use->text,
             "%.200s: %d of the %d row%s for this CPU and build %s for tier %s and %d thread%s%s%s", use->path, fitting,
             rows, rows == 1 ? "" : "s", fitting == 1 ? "is" : "are", fv_isa_word(use->isa), use->threads,
             use->threads == 1 ? "" : "s", scale, dropped);
}

/* Likewise of the shipped file. */
static void describe_shipped(fv_tuning_use *use, const fv_cpu *cpu) {
    int rows, fitting;
    char dropped[160];
    size_t n = strlen(use->text);
    if (use->part[2].section < 0 && use->part[3].section < 0) {
        fv_text_add(use->text, sizeof use->text, &n, "; %.200s has no rows for this CPU", use->shipped_path);
        return;
    }
    count_rows(use, use->part + 2, cpu->target, &rows, &fitting, dropped);
    use->rows += fitting;
    fv_text_add(use->text, sizeof use->text, &n, "; shipped rows: %d of the %d for this CPU of %.200s%s", fitting, rows,
                use->shipped_path, dropped);
}

/* The first file that is there of those places; *found: there was one. */
static fovea_status find_file(bool (*place)(int, char *, size_t), char path[FV_TUNING_PATH], fovea_tuning **tuning,
                              bool *found, char error[FV_FILE_ERROR]) {
    for (int i = 0; place(i, path, FV_TUNING_PATH); i++) {
        bool absent;
        if (!path[0])
            continue;
        const fovea_status status = fv_tuning_read(path, tuning, &absent, error);
        if ((*found = !absent))
            return status;
    }
    *found = false;
    return FOVEA_OK;
}

static fovea_status use_named(const char *named, const fv_cpu *cpu, fv_tuning_use *use, char error[FV_FILE_ERROR]) {
    bool found = true;
    if (named) {
        snprintf(use->path, sizeof use->path, "%s", named);
        use->status = fv_tuning_read(named, &use->tuning, &found, error);
        found = true;
    } else
        use->status = find_file(fv_tuning_place, use->path, &use->tuning, &found, error);
    fv_tuning_parts(use->tuning, cpu, use->part);
    if (!found)
        snprintf(use->text, sizeof use->text,
                 "no tuning file in $XDG_CACHE_HOME/fovea (or ~/.cache/fovea) and "
                 "/etc/fovea");
    else if (use->status == FOVEA_OK)
        describe_use(use, cpu);
    else
        snprintf(use->text, sizeof use->text, "%s", error);
    return use->status;
}

static fovea_status use_shipped(const fv_cpu *cpu, fv_tuning_use *use, char error[FV_FILE_ERROR]) {
    bool found;
    const fovea_status status = find_file(shipped_place, use->shipped_path, &use->shipped, &found, error);
    size_t n = strlen(use->text);
    fv_tuning_parts(use->shipped, cpu, use->part + 2);
    if (found && status == FOVEA_OK)
        describe_shipped(use, cpu);
    else if (found)
        fv_text_add(use->text, sizeof use->text, &n, "; no shipped rows: %s", error);
    if (use->status == FOVEA_OK)
        use->status = status;
    return status;
}

fovea_status fv_tuning_use_file(const char *named, const fv_cpu *cpu, fv_isa isa, int threads, fv_tuning_use *use) {
    memset(use, 0, sizeof *use);
    use->isa = isa;
    use->threads = threads;
    fv_tuning_parts(NULL, cpu, use->part);
    fv_tuning_parts(NULL, cpu, use->part + 2);
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
    if (use_named(named, cpu, use, error) == FOVEA_ERROR_OUT_OF_MEMORY ||
        use_shipped(cpu, use, error) == FOVEA_ERROR_OUT_OF_MEMORY)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "%s", error);
    return FOVEA_OK;
}

const fv_tuning_row *fv_tuning_use_find(const fv_tuning_use *use, fv_tuning_op operation,
                                        const int64_t key[FV_TUNING_KEYS], char *why, size_t size) {
    bool said = false;
    snprintf(why, size, "%s", use->text);
    for (const fv_tuning_part *p = use->part; p < use->part + PARTS; p++) {
        const fv_tuning_row *row =
            p->section < 0 ? NULL : fv_tuning_find(p->tuning, p->section, operation, use->isa, use->threads, key);
        if (row)
            return row;
        size_t used = 0;
        if (p->section < 0 || said)
            continue;
        fv_text_add(why, size, &used, "%.200s has ", p < use->part + 2 ? use->path : use->shipped_path);
        fv_tuning_why_not(p->tuning, p->section, operation, use->isa, use->threads, key, why + used, size - used);
        said = true;
    }
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
    fv_tuning_part part[2];
    fv_tuning_section own;
    fv_tuning_parts(tuning, cpu, part);
    for (int i = 0; i < 2; i++) {
        const fv_tuning_row *row =
            part[i].section < 0 ? NULL : fv_tuning_find(tuning, part[i].section, operation, isa, threads, key);
        if (row)
            return row;
    }
    fv_tuning_section_of(cpu, &own);
    const int section = part[part[0].section < 0].section;
    if (section < 0)
        fv_tuning_why_foreign(tuning, &own, why, size);
    else
        fv_tuning_why_not(tuning, section, operation, isa, threads, key, why, size);
    return NULL;
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
