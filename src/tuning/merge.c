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

/* Adds a part of a merge; from: what comes after it, or NULL. */
static fovea_status add(fovea_tuning *all, const fovea_tuning *part, const fovea_tuning *from,
                        char error[FV_FILE_ERROR]) {
    fovea_status status = FOVEA_OK;
    for (int i = 0; i < part->sections; i++) /* also those without rows */
        fv_tuning_section_make(all, &part->section[i]);
    for (int i = 0; i < part->rows && status == FOVEA_OK; i++) {
        const fv_tuning_row *row = &part->row[i];
        const fv_tuning_section *section = &part->section[row->section];
        if (!from || !replaced(row, section->text, from))
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
