/* Merging of tunings: the rows of both (fovea.h). */
#include "core/core.h"
#include "tuning/line.h"
#include "tuning/rows.h"

#include <string.h>

/* Is a row of another build replaced by one of from? Its machine would refuse a file that holds both. */
static bool replaced(const fv_tuning_row *row, const char *section, const fovea_tuning *from) {
    for (int i = 0; i < from->rows && !row->known; i++)
        if (strcmp(from->section[from->row[i].section].text, section) == 0 &&
            fv_tuning_overlap_text(row->text, from->row[i].text))
            return true;
    return false;
}

/* The cache_scale of a section, of this build or another. *any: is anything said for it at all? Rows of adapters say
 * nothing. */
static int64_t scale_of(const fovea_tuning *tuning, int section, bool *any) {
    int64_t scale = fv_tuning_cache_scale(tuning, section);
    *any = section >= 0 && tuning->machine[section].cache_scale;
    for (int i = 0; i < tuning->rows; i++)
        if (tuning->row[i].section == section && !fv_tuning_is_adapter(tuning->row[i].text)) {
            const int64_t told = fv_tuning_text_cache_scale(tuning->row[i].text);
            *any = true;
            scale = told ? told : scale;
        }
    return scale;
}

/* Rows of a machine hold for one size of its caches: where from has rows for another size, all of into's go. */
static bool outdated(const fovea_tuning *into, int section, const fovea_tuning *from) {
    bool any, any_from;
    const int other = fv_tuning_section_find(from, &into->section[section]);
    const int64_t scale = scale_of(into, section, &any), scale_from = scale_of(from, other, &any_from);
    return any && any_from && scale != scale_from;
}

/* Adds a part of a merge; from: what comes after it, or NULL. */
static fovea_status add(fovea_tuning *all, const fovea_tuning *part, const fovea_tuning *from,
                        char error[FV_FILE_ERROR]) {
    fovea_status status = FOVEA_OK;
    bool gone[FV_TUNING_SECTIONS] = {false};
    for (int i = 0; i < part->sections && status == FOVEA_OK; i++) { /* also those without rows */
        fv_tuning_section_make(all, &part->section[i]);
        gone[i] = from && outdated(part, i, from);
        if (!gone[i] && part->machine[i].cache_scale)
            status = fv_tuning_put_machine(all, &part->section[i], &part->machine[i], error);
    }
    for (int i = 0; i < part->rows && status == FOVEA_OK; i++) {
        const fv_tuning_row *row = &part->row[i];
        const fv_tuning_section *section = &part->section[row->section];
        if (!gone[row->section] && (!from || !replaced(row, section->text, from)))
            status = fv_tuning_put(all, section, row, error);
    }
    return status;
}

fovea_status fovea_tuning_merge(fovea_tuning *into, const fovea_tuning *from) {
    if (!into || !from)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", into ? "from" : "into");
    if (into == from)
        return FOVEA_OK;
    char error[FV_FILE_ERROR];
    fovea_tuning *all;
    fovea_status status = fv_tuning_create(&all, error);
    if (status == FOVEA_OK)
        all->version = into->version > from->version ? into->version : from->version;
    if (status == FOVEA_OK)
        status = add(all, into, from, error);
    if (status == FOVEA_OK)
        status = add(all, from, NULL, error);
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
