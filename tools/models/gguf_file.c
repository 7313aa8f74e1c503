/* Opening and reading GGUF files (gguf.h). Of a file, the front is read, more of it each time that the header turns
 * out to be longer. */
#include "gguf_private.h"

#include "regular_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_BYTES = 1 << 22 }; /* of the front that is read at first */

static void free_header(gguf *f) {
    free(f->values);
    free(f->values_by_key);
    free(f->tensors);
    free(f->tensors_by_name);
    f->values = NULL;
    f->values_by_key = NULL;
    f->tensors = NULL;
    f->tensors_by_name = NULL;
    f->value_count = f->tensor_count = 0;
}

/* Reads the front, and parses it; again with more of it, while that is what is missing. */
static int read_front(gguf *f, complaint to) {
    for (int64_t bytes = FIRST_BYTES;; bytes *= 2) {
        bytes = bytes < f->size ? bytes : f->size;
        free(f->owned);
        f->front = f->owned = malloc((size_t)bytes + 1);
        if (f->owned == NULL)
            return complain(to, f->path, "out of memory");
        f->front_bytes = bytes;
        if (fseeko(f->file, 0, SEEK_SET) != 0 || fread(f->owned, 1, (size_t)bytes, f->file) != (size_t)bytes)
            return complain(to, f->path, "cannot be read");
        reader r = {.file = f, .to = to};
        if (gguf_read_header(&r) == 0)
            return 0;
        if (!r.short_of || bytes == f->size)
            return -1;
        if (bytes >= GGUF_HEADER_MOST)
            return complain(to, f->path, "its header is longer than %d bytes", GGUF_HEADER_MOST);
        free_header(f);
    }
}

/* ---------------------------------------------------------------------------------------------- opening, reading -- */

static gguf *create(const char *name, complaint to) {
    gguf *f = calloc(1, sizeof *f);
    if (f != NULL && (f->path = malloc(strlen(name) + 1)) != NULL) {
        strcpy(f->path, name);
        return f;
    }
    free(f);
    complain(to, name, "out of memory");
    return NULL;
}

int gguf_open_one(const char *path, gguf **file, complaint to) {
    const char *why;
    *file = NULL;
    gguf *f = create(path, to);
    if (f == NULL)
        return -1;
    f->file = regular_file_open(path, &why);
    int status = 0;
    if (f->file == NULL)
        status = complain(to, path, "cannot be opened: %s", why);
    else if (fseeko(f->file, 0, SEEK_END) != 0 || (f->size = (int64_t)ftello(f->file)) < 0)
        status = complain(to, path, "cannot be read");
    else
        status = read_front(f, to);
    if (status == 0)
        *file = f;
    else
        gguf_close(f);
    return status;
}

int gguf_open(const char *path, gguf **file, complaint to) {
    if (gguf_open_one(path, file, to) != 0)
        return -1;
    if (gguf_open_parts(*file, to) == 0)
        return 0;
    gguf_close(*file);
    *file = NULL;
    return -1;
}

int gguf_open_memory(const void *bytes, size_t size, const char *name, gguf **file, complaint to) {
    *file = NULL;
    gguf *f = create(name, to);
    if (f == NULL)
        return -1;
    f->front = bytes;
    f->front_bytes = f->size = (int64_t)size;
    reader r = {.file = f, .to = to};
    if (gguf_read_header(&r) == 0 && gguf_open_parts(f, to) == 0)
        return *file = f, 0;
    gguf_close(f);
    return -1;
}

void gguf_close(gguf *f) {
    if (f == NULL)
        return;
    for (int i = 0; i < f->part_count; i++)
        gguf_close(f->parts[i]);
    free(f->parts);
    if (f->file != NULL)
        fclose(f->file);
    free_header(f);
    free(f->owned);
    free(f->path);
    free(f);
}

const char *gguf_path(const gguf *f) { return f->path; }

const char *gguf_part_path(const gguf *f, int i) {
    return i == 0 ? f->path : i <= f->part_count ? f->parts[i - 1]->path : NULL;
}

int64_t gguf_tensor_count(const gguf *f) { return f->tensor_count; }
const gguf_tensor *gguf_tensor_at(const gguf *f, int64_t i) { return &f->tensors[i]; }

int gguf_read_f32(const fovea_context *ctx, const gguf *f, const gguf_tensor *t, float *values, complaint to) {
    gguf_rows rows;
    if (gguf_map(f, t, &rows, to) != 0)
        return -1;
    const int64_t columns = t->shape[0];
    const fovea_status status = gguf_to_f32(ctx, t->type, rows.data, t->elements / columns, columns, values);
    gguf_unmap(&rows);
    return status == FOVEA_OK ? 0 : complain(to, f->path, "%s: %s", t->name, fovea_error_detail());
}

int gguf_map(const gguf *whole, const gguf_tensor *t, gguf_rows *rows, complaint to) {
    const gguf *f = t->part > 0 ? whole->parts[t->part - 1] : whole;
    *rows = (gguf_rows){.row_bytes = t->shape[0] / gguf_block_elements(t->type) * gguf_block_bytes(t->type)};
    if (f->file == NULL) {
        rows->data = f->front + t->begin;
        return 0;
    }
    struct stat now; /* of a file that became shorter, a page would end the program */
    if (fstat(fileno(f->file), &now) != 0 || now.st_size < t->begin + t->bytes)
        return complain(to, f->path, "%s cannot be read to its end", t->name);
    const int64_t before = t->begin % sysconf(_SC_PAGESIZE);
    rows->page_bytes = (size_t)(before + t->bytes);
    rows->pages = mmap(NULL, rows->page_bytes, PROT_READ, MAP_PRIVATE, fileno(f->file), (off_t)(t->begin - before));
    if (rows->pages == MAP_FAILED) {
        *rows = (gguf_rows){0};
        return complain(to, f->path, "%s cannot be mapped into memory", t->name);
    }
    rows->data = (const uint8_t *)rows->pages + before;
    return 0;
}

void gguf_unmap(gguf_rows *rows) {
    if (rows->pages != NULL)
        munmap(rows->pages, rows->page_bytes);
    *rows = (gguf_rows){0};
}
