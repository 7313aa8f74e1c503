/* Files that are written whole or not at all (inspect.h): in memory first, then by the library's own file.c, beside
 * what is there, synced, renamed. */
#include "inspect.h"

#include "core/core.h"

#include <stdlib.h>
#include <string.h>

static bool is_standard(const char *path) { return strcmp(path, "-") == 0; }

/* A file of the library, with its folder locked: replaced by text, or only tried where text is NULL. */
static int replace(const char *path, const char *text, size_t length, complaint to) {
    char error[FV_FILE_ERROR];
    int lock;
    bool good = fv_file_lock(path, 1, &lock, error) == FOVEA_OK;
    if (good) {
        good = text != NULL ? fv_file_replace(path, text, length, error) == FOVEA_OK : fv_file_may_replace(path, error);
        fv_file_unlock(lock);
    }
    return good ? 0 : complain(to, "output", "%s", error);
}

int output_check(const char *path, complaint to) { return is_standard(path) ? 0 : replace(path, NULL, 0, to); }

int output_begin(output *out, const char *path, complaint to) {
    *out = (output){.path = path};
    out->to = open_memstream(&out->text, &out->length);
    return out->to != NULL ? 0 : complain(to, path, "out of memory");
}

int output_end(output *out, complaint to) {
    const bool whole = !ferror(out->to);
    int status = fclose(out->to) == 0 && whole ? 0 : complain(to, out->path, "out of memory");
    if (status == 0 && is_standard(out->path))
        fwrite(out->text, 1, out->length, stdout); /* main() looks whether all of that got through */
    else if (status == 0)
        status = replace(out->path, out->text, out->length, to);
    free(out->text);
    return status;
}
