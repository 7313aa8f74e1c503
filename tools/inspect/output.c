/* Texts that are written whole or not at all (inspect.h): in memory first, then in place of what is there. */
#define _XOPEN_SOURCE 700 /* realpath() */
#include "inspect.h"

#include "whole_file.h"

#include <stdlib.h>
#include <string.h>

static bool is_standard(const char *path) { return strcmp(path, "-") == 0; }

/* Is there a file with something else in it, such as a model? */
static bool holds_another(const char *path, const char *begins) {
    char begin[16];
    FILE *file = fopen(path, "rb");
    const size_t count = file != NULL ? fread(begin, 1, strlen(begins), file) : 0;
    if (file != NULL)
        fclose(file);
    return count > 0 && (count < strlen(begins) || memcmp(begin, begins, count) != 0);
}

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

int outputs_check(const output *outputs, int count, bool *standard, complaint to) {
    int to_standard = 0;
    for (int i = 0; i < count; i++)
        if (outputs[i].path != NULL && is_standard(outputs[i].path))
            to_standard++;
        else if (outputs[i].path != NULL && replace(outputs[i].path, NULL, 0, to) != 0)
            return -1;
        else if (outputs[i].path != NULL && holds_another(outputs[i].path, outputs[i].begins))
            return complain(to, outputs[i].path, "holds something else: only a file that begins with %s is replaced",
                            outputs[i].begins);
    *standard = to_standard > 0;
    return to_standard < 2 ? 0 : complain(to, "output", "only one of CSV, JSON and SVG can go to standard output");
}

static int write_one(const output *out, const void *of, complaint to) {
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);
    bool whole = memory != NULL && out->write(of, memory) == 0 && !ferror(memory);
    whole = memory != NULL && fclose(memory) == 0 && whole;
    int status = whole ? 0 : complain(to, out->path, "out of memory");
    if (status == 0 && is_standard(out->path))
        fwrite(text, 1, length, stdout); /* main() looks whether all of that got through */
    else if (status == 0)
        status = replace(out->path, text, length, to);
    free(text);
    return status;
}

int outputs_write(const output *outputs, int count, const void *of, complaint to) {
    int status = 0;
    for (int i = 0; status == 0 && i < count; i++)
        if (outputs[i].path != NULL)
            status = write_one(&outputs[i], of, to);
    return status;
}
