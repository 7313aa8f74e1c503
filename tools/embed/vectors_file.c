/* vectors_file.h. */
#include "vectors_file.h"

#include <string.h>

enum { HEADER = 128 }; /* bytes of a .npy file before its numbers */

_Static_assert(sizeof(float) == 4, "numbers are written as they are in memory");

static int failed(const vectors_file *v, complaint to) {
    return complain(to, v->path, "cannot be written behind %lld vectors", (long long)v->count);
}

/* The header for as many vectors as there are, in the place of the old one. */
static bool write_header(vectors_file *v) {
    char text[HEADER + 1];
    const int length = snprintf(text, sizeof text,
                                "\x93NUMPY\x01%c%c%c{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                                0, HEADER - 10, 0, (long long)v->count, (long long)v->width);
    memset(text + length, ' ', (size_t)(HEADER - 1 - length));
    text[HEADER - 1] = '\n';
    return fseek(v->file, 0, SEEK_SET) == 0 && fwrite(text, 1, HEADER, v->file) == HEADER &&
           fseek(v->file, 0, SEEK_END) == 0 && fflush(v->file) == 0;
}

int vectors_file_open(const char *path, int64_t width, vectors_file *v, complaint to) {
    const size_t length = strlen(path);
    const bool standard = strcmp(path, "-") == 0;
    *v = (vectors_file){.path = standard ? "standard output" : path,
                        .npy = length > 4 && strcmp(path + length - 4, ".npy") == 0,
                        .width = width};
    v->file = standard ? stdout : fopen(path, "wb");
    if (v->file == NULL)
        return complain(to, path, "cannot be written");
    return !v->npy || write_header(v) ? 0 : complain(to, path, "cannot be written, or is no file: .npy needs one");
}

static bool write_line(const vectors_file *v, int64_t index, const float *values) {
    bool good = fprintf(v->file, "{\"index\": %lld, \"embedding\": [", (long long)index) > 0;
    for (int64_t c = 0; good && c < v->width; c++)
        good = fprintf(v->file, "%s%.9g", c > 0 ? ", " : "", (double)values[c]) > 0;
    return good && fputs("]}\n", v->file) >= 0;
}

int vectors_file_add(vectors_file *v, const float *values, int64_t count, complaint to) {
    const size_t n = (size_t)(count * v->width);
    bool good = !v->npy || fwrite(values, sizeof *values, n, v->file) == n;
    for (int64_t i = 0; !v->npy && good && i < count; i++)
        good = write_line(v, v->count + i, values + i * v->width);
    if (!good)
        return failed(v, to);
    v->count += count;
    return (v->npy ? write_header(v) : fflush(v->file) == 0) ? 0 : failed(v, to);
}

int vectors_file_close(vectors_file *v, complaint to) {
    FILE *file = v->file;
    v->file = NULL;
    return file == NULL || file == stdout || fclose(file) == 0 ? 0 : failed(v, to);
}
