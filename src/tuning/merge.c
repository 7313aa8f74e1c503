/* Merging of tunings: the rows of both (fovea.h). */
#include "core/core.h"
#include "tuning/line.h"

#include <string.h>

/* Is a row of another build replaced by one of from? Its machine would refuse a file that holds both. */
static bool replaced(const fv_tuning_row *row, const char *section, const fovea_tuning *from) {
    for (int i = 0; i < from->rows && !row->known; i++)
        if (strcmp(from->section[from->row[i].section].text, section) == 0 &&
            fv_tuning_overlap_text(row->text, from->row[i].text))
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
    if (status == FOVEA_OK)
        all->version = into->version > from->version ? into->version : from->version;
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
