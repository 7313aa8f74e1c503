/* Models that are split into files (gguf.h): NAME-00001-of-0000N.gguf has the settings, each has arrays and says which
 * part it is (split.no, from 0 on), of how many (split.count), and how many arrays all have (split.tensors.count). */
#include "gguf_private.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS_MOST = 1024, PATH_MOST = 4096, DIGITS = 5 };

static bool is_number(const char *at) {
    for (int i = 0; i < DIGITS; i++)
        if (at[i] < '0' || at[i] > '9')
            return false;
    return true;
}

/* "-0000I-of-0000N.gguf" at the end of a path; NULL: it ends otherwise. */
static const char *suffix_of(const char *path, int *i, int *count) {
    enum { LENGTH = 20 };
    const size_t length = strlen(path);
    const char *at = length > LENGTH ? path + length - LENGTH : NULL;
    if (at == NULL || *at != '-' || !is_number(at + 1) || memcmp(at + 6, "-of-", 4) != 0 || !is_number(at + 10) ||
        strcmp(at + 15, ".gguf") != 0)
        return NULL;
    *i = (int)strtol(at + 1, NULL, 10);
    *count = (int)strtol(at + 10, NULL, 10);
    return at;
}

bool gguf_is_later_part(const char *name) {
    int i, count;
    return suffix_of(name, &i, &count) != NULL && i > 1;
}

/* The path of part i of count, from 0 on, by that of the first; false: that one is not named so. */
static bool name_part(const char *path, int i, int count, char part[PATH_MOST]) {
    int first, all;
    const char *suffix = suffix_of(path, &first, &all);
    if (suffix == NULL || first != 1 || all != count)
        return false;
    return snprintf(part, PATH_MOST, "%.*s-%05d-of-%05d.gguf", (int)(suffix - path), path, i + 1, count) < PATH_MOST;
}

/* The part that a file says it is; a file alone is part 0 of 1. */
static int read_place(const gguf *f, int64_t *no, int64_t *count, complaint to) {
    *no = 0;
    *count = 1;
    return gguf_integer(f, "split.count", false, 0, PARTS_MOST, count, to) != 0 ||
                   gguf_integer(f, "split.no", *count > 1, 0, PARTS_MOST, no, to) != 0
               ? -1
               : 0;
}

static int open_part(gguf *first, int i, int64_t count, complaint to) {
    char path[PATH_MOST];
    int64_t no, others;
    name_part(first->path, i, (int)count, path);
    if (gguf_open_one(path, &first->parts[i - 1], to) != 0)
        return -1;
    first->part_count = i;
    if (read_place(first->parts[i - 1], &no, &others, to) != 0)
        return -1;
    if (no != i || others != count)
        return complain(to, path, "says that it is part %lld of %lld (split.no, split.count), not %d of %lld",
                        (long long)no + 1, (long long)others, i + 1, (long long)count);
    return 0;
}

/* All arrays in one list. */
static int merge(gguf *f, complaint to) {
    int64_t all = f->tensor_count, used = f->tensor_count, said = 0;
    for (int i = 0; i < f->part_count; i++)
        all += f->parts[i]->tensor_count;
    if (gguf_integer(f, "split.tensors.count", true, 0, INT32_MAX, &said, to) != 0)
        return -1;
    if (said != all)
        return complain(to, f->path, "split.tensors.count is %lld, but its %d files have %lld arrays", (long long)said,
                        f->part_count + 1, (long long)all);
    gguf_tensor *tensors = realloc(f->tensors, (size_t)(all + 1) * sizeof *tensors);
    if (tensors != NULL)
        f->tensors = tensors;
    gguf_tensor **by_name = realloc(f->tensors_by_name, (size_t)(all + 1) * sizeof *by_name);
    if (by_name != NULL)
        f->tensors_by_name = by_name;
    if (tensors == NULL || by_name == NULL) {
        f->tensor_count = 0;
        return complain(to, f->path, "out of memory");
    }
    for (int i = 0; i < f->part_count; i++)
        for (int64_t k = 0; k < f->parts[i]->tensor_count; k++) {
            tensors[used] = f->parts[i]->tensors[k];
            tensors[used++].part = i + 1;
        }
    for (int64_t i = 0; i < all; i++)
        by_name[i] = &tensors[i];
    f->tensor_count = all;
    return gguf_sort_tensors(f, to);
}

int gguf_open_parts(gguf *first, complaint to) {
    char path[PATH_MOST];
    int64_t no, count;
    if (read_place(first, &no, &count, to) != 0)
        return -1;
    if (count <= 1)
        return 0;
    if (no != 0)
        return complain(to, first->path, "is part %lld of %lld: name the first", (long long)no + 1, (long long)count);
    if (first->file == NULL || !name_part(first->path, 0, (int)count, path))
        return complain(to, first->path, "is the first of %lld files, but is not named -00001-of-%05lld.gguf",
                        (long long)count, (long long)count);
    first->parts = calloc((size_t)count, sizeof *first->parts);
    if (first->parts == NULL)
        return complain(to, first->path, "out of memory");
    for (int i = 1; i < count; i++)
        if (open_part(first, i, count, to) != 0)
            return -1;
    return merge(first, to);
}
