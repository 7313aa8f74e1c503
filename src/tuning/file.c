/* Tuning files: where they are, what a context takes from one, and the public functions (tuning.h, fovea.h). */
#include "attention/plan.h"
#include "core/core.h"
#include "dispatch/dispatch.h"
#include "tuning/tuning.h"

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
static void describe_use(fv_tuning_use *use, const fv_cpu *cpu, fv_isa isa, int threads) {
    fv_tuning_section own;
    fv_tuning_section_of(cpu, &own);
    use->section = fv_tuning_section_index(use->tuning, &own, false);
    if (use->section < 0) {
        char why[256];
        fv_tuning_why_foreign(use->tuning, &own, why, sizeof why);
        use->status = FOVEA_ERROR_FOREIGN;
        snprintf(use->text, sizeof use->text, "nothing of %.200s: %s", use->path, why);
        return;
    }
    int rows = 0, fitting = 0;
    for (int i = 0; i < use->tuning->rows; i++) {
        const fv_tuning_row *row = &use->tuning->row[i];
        rows += row->section == use->section;
        fitting += row->section == use->section && row->isa == isa && row->threads == threads;
    }
    snprintf(use->text, sizeof use->text,
             "%.200s: %d of the %d rows for this CPU and build are for tier %s and %d thread%s", use->path, fitting,
             rows, fv_isa_word(isa), threads, threads == 1 ? "" : "s");
    use->rows = fitting;
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
    use->section = -1;
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
        describe_use(use, cpu, isa, threads);
    else
        snprintf(use->text, sizeof use->text, "%s", error);
    return use->status == FOVEA_ERROR_OUT_OF_MEMORY ? fv_fail(use->status, "%s", error) : FOVEA_OK;
}

/* ------------------------------------------------------------------------------------------------------- public -- */

fovea_status fovea_tuning_load(const char *path, fovea_tuning **tuning) {
    if (!path || !tuning)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", tuning ? "path" : "tuning");
    char error[FV_FILE_ERROR];
    bool absent;
    const fovea_status status = fv_tuning_read(path, tuning, &absent, error);
    return status == FOVEA_OK ? status : fv_fail(status, "%s", error);
}

fovea_status fovea_tuning_save(const fovea_tuning *tuning, const char *path) {
    if (!tuning || !path)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", tuning ? "path" : "tuning");
    char error[FV_FILE_ERROR];
    int lock;
    fovea_status status = fv_file_lock(path, 1, &lock, error);
    if (status == FOVEA_OK) {
        status = fv_tuning_write(tuning, path, error);
        fv_file_unlock(lock);
    }
    return status == FOVEA_OK ? status : fv_fail(status, "%s", error);
}

/* A word of a row's text. */
typedef struct word {
    char name[32], value[64];
} word;

static bool next_word(const char **text, word *w) {
    int length = 0;
    if (sscanf(*text, " %31[^ =]=%63[^ ]%n", w->name, w->value, &length) != 2)
        return false;
    *text += length;
    return true;
}

/* "any", "7", "7..9" or "7..any"; false if it is something else. */
static bool interval_of(const char *value, fv_interval *interval) {
    char *end = NULL;
    *interval = (fv_interval){0, INT64_MAX};
    if (strcmp(value, "any") == 0)
        return true;
    if (value[0] < '0' || value[0] > '9')
        return false;
    interval->least = interval->most = strtoll(value, &end, 10);
    if (strcmp(end, "..any") == 0)
        interval->most = INT64_MAX;
    else if (strncmp(end, "..", 2) == 0)
        interval->most = strtoll(end + 2, &end, 10);
    return *end == '\0' || strcmp(end, "..any") == 0;
}

/* May two rows of one other build be asked for the same shape? By their text: operation, tier and keys, which are
 * sizes, stand before what is chosen, which begins with a kernel or "default". */
static bool overlap_by_text(const char *a, const char *b) {
    const size_t operation = strcspn(a, " ");
    if (strncmp(a, b, operation) != 0 || b[operation] != a[operation])
        return false;
    word x, y;
    a += operation;
    b += operation;
    while (next_word(&a, &x) && next_word(&b, &y) && strcmp(x.name, y.name) == 0) {
        fv_interval of_x, of_y;
        const bool sizes = interval_of(x.value, &of_x) && interval_of(y.value, &of_y);
        if (!sizes && strcmp(x.name, "isa") != 0)
            break;
        if (sizes ? of_x.most < of_y.least || of_y.most < of_x.least : strcmp(x.value, y.value) != 0)
            return false;
    }
    return true;
}

/* Is a row of another build replaced by one of from? Its machine would refuse a file that holds both. */
static bool replaced(const fv_tuning_row *row, const char *section, const fovea_tuning *from) {
    for (int i = 0; i < from->rows && !row->known; i++)
        if (strcmp(from->section[from->row[i].section].text, section) == 0 &&
            overlap_by_text(row->text, from->row[i].text))
            return true;
    return false;
}

fovea_status fovea_tuning_merge(fovea_tuning *into, const fovea_tuning *from) {
    if (!into || !from)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", into ? "from" : "into");
    if (into == from)
        return FOVEA_OK;
    char error[FV_FILE_ERROR];
    fovea_tuning *all;
    fovea_status status = fv_tuning_create(&all, error);
    const fovea_tuning *parts[] = {into, from};
    for (int part = 0; part < 2 && status == FOVEA_OK; part++) {
        for (int i = 0; i < parts[part]->sections; i++) /* also those without rows */
            fv_tuning_section_index(all, &parts[part]->section[i], true);
        for (int i = 0; i < parts[part]->rows && status == FOVEA_OK; i++) {
            const fv_tuning_row *row = &parts[part]->row[i];
            const fv_tuning_section *section = &parts[part]->section[row->section];
            if (part == 1 || !replaced(row, section->text, from))
                status = fv_tuning_put(all, section, row, error);
        }
    }
    if (status != FOVEA_OK) {
        fovea_tuning_destroy(all);
        return fv_fail(status, "%s", error);
    }
    const fovea_tuning old = *into;
    *into = *all;
    *all = old;
    fovea_tuning_destroy(all);
    return FOVEA_OK;
}

void fovea_tuning_match_init_size(fovea_tuning_match *match, size_t size) {
    const size_t nothing = 0;
    fv_struct_init(match, size, &nothing, sizeof nothing);
}

static void look_up(const fovea_tuning *tuning, const fovea_context *ctx, const fovea_attention_desc *desc,
                    fovea_tuning_match *match) {
    fv_tuning_section own;
    fv_tuning_section_of(&ctx->cpu, &own);
    const int section = fv_tuning_section_index((fovea_tuning *)tuning, &own, false);
    if (section < 0) {
        fv_tuning_why_foreign(tuning, &own, match->reason, sizeof match->reason);
        return;
    }
    int64_t key[FV_TUNING_KEYS];
    const fv_tuning_op op = fv_tuning_of_attention(desc, key);
    const fv_tuning_row *row = fv_tuning_find(tuning, section, op, ctx->isa, ctx->threads.count, key);
    if (!row) {
        fv_tuning_why_not(tuning, section, op, ctx->isa, ctx->threads.count, key, match->reason, sizeof match->reason);
        return;
    }
    match->found = 1;
    match->line = row->line;
    match->gain = (double)row->evidence.gain / 1000;
    match->gain_low = (double)row->evidence.low / 1000;
    match->gain_high = (double)row->evidence.high / 1000;
    snprintf(match->row, sizeof match->row, "%s", row->text);
}

fovea_status fovea_tuning_lookup(const fovea_tuning *tuning, const fovea_context *ctx, const fovea_attention_desc *desc,
                                 fovea_tuning_match *match) {
    if (!tuning || !ctx || !match)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", !tuning ? "tuning" : !ctx ? "ctx" : "match");
    const fv_struct type = FV_STRUCT(fovea_tuning_match, reason);
    fovea_attention_desc own_desc;
    fovea_status status = fv_struct_check(type, match);
    if (status == FOVEA_OK)
        status = fv_attention_read_desc(desc, &own_desc);
    if (status != FOVEA_OK)
        return status;
    fovea_tuning_match own;
    fovea_tuning_match_init(&own);
    look_up(tuning, ctx, &own_desc, &own);
    fv_struct_write(type, match, &own);
    return FOVEA_OK;
}
