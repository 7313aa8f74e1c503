/* Texts that are written whole or not at all (inspect.h): in memory first, then in place of what is there. */
#define _XOPEN_SOURCE 700 /* realpath() */
#include "inspect.h"

#include "whole_file.h"

#include <stdlib.h>
#include <string.h>

static bool is_standard(const char *path) { return strcmp(path, "-") == 0; }

/* The file of a path, through symbolic links, replaced by text, or only tried where text is NULL. */
static int replace(const char *path, const char *text, size_t length, complaint to) {
    static whole_file file;
    char *real = realpath(path, NULL);
    int status = whole_file_begin(&file, real != NULL ? real : path, (int64_t)length, true, to);
    if (status == 0 && text != NULL)
        status = whole_file_write(&file, text, (int64_t)length, to) == 0 && whole_file_finish(&file, to) == 0
                     ? whole_file_rename(&file, to)
                     : -1;
    whole_file_drop(&file);
    free(real);
    return status;
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
