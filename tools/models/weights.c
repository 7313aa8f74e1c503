/* weights.h. */
#include "weights.h"

#include "path.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct weights {
    char path[PATH_MOST], folder[PATH_MOST];
    gguf *gguf;
    uint8_t *loaded;      /* of the GGUF file's arrays */
    model_source *source; /* or gguf */
};

/* ------------------------------------------------------------------------------------------------------- opening -- */

static int open_source(weights *w, complaint to) {
    return model_source_open((const char *const[]){w->path}, 1, &w->source, to);
}

/* The one GGUF file of a folder, or the first of one model's. */
static int find_gguf(weights *w, const char *folder, complaint to) {
    DIR *d = opendir(folder);
    int found = 0, status = 0;
    if (d == NULL)
        return complain(to, folder, "does not exist, or cannot be read");
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        if (path_ends_with(e->d_name, ".gguf") && !gguf_is_later_part(e->d_name) && found++ == 0)
            status = path_join(w->path, folder, e->d_name, to);
    closedir(d);
    if (found == 1)
        return status;
    return complain(to, folder,
                    found > 1 ? "has several GGUF files: name one" : "has no model: no GGUF file, no safetensors");
}

static int open_folder(weights *w, const char *folder, complaint to) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    for (int i = 0; i < 2; i++) {
        if (path_join(w->path, folder, names[i], to) != 0)
            return -1;
        strcpy(w->folder, folder);
        if (path_exists(w->path))
            return open_source(w, to);
    }
    return find_gguf(w, folder, to) == 0 ? gguf_open(w->path, &w->gguf, to) : -1;
}

static int open_file(weights *w, const char *path, complaint to) {
    const char *slash = strrchr(path, '/');
    if (strlen(path) >= PATH_MOST)
        return complain(to, "model", "has too long a name");
    strcpy(w->path, path);
    snprintf(w->folder, sizeof w->folder, "%.*s", slash != NULL ? (int)(slash - path) + (slash == path) : 1,
             slash != NULL ? path : ".");
    if (path_ends_with(path, ".index.json") || path_ends_with(path, ".safetensors"))
        return open_source(w, to);
    return gguf_open(path, &w->gguf, to);
}

int weights_open(const char *path, weights **out, complaint to) {
    struct stat status;
    *out = NULL;
    weights *w = calloc(1, sizeof *w);
    if (w == NULL)
        return complain(to, path, "out of memory");
    const bool folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    int good = (folder ? open_folder : open_file)(w, path, to) == 0;
    if (good && w->gguf != NULL && (w->loaded = calloc((size_t)gguf_tensor_count(w->gguf) + 1, 1)) == NULL)
        good = complain(to, path, "out of memory") == 0;
    if (good)
        return *out = w, 0;
    weights_close(w);
    return -1;
}

void weights_close(weights *w) {
    if (w == NULL)
        return;
    gguf_close(w->gguf);
    free(w->loaded);
    model_source_close(w->source);
    free(w);
}

gguf *weights_gguf(const weights *w) { return w->gguf; }
const model_source *weights_source(const weights *w) { return w->source; }
const char *weights_path(const weights *w) { return w->path; }
const char *weights_folder(const weights *w) { return w->folder; }

/* -------------------------------------------------------------------------------------------------------- arrays -- */

bool weights_shape(const weights *w, const char *name, int64_t *rows, int64_t *columns) {
    *rows = *columns = 0;
    if (w->gguf != NULL) {
        const gguf_tensor *t = gguf_find_tensor(w->gguf, name);
        if (t == NULL || t->dims > 3)
            return false;
        *columns = t->shape[0];
        *rows = t->dims > 1 ? t->shape[1] * t->shape[2] : 0;
        return true;
    }
    const model_source_item *item = model_source_find(w->source, name);
    const safetensors_tensor *t = item != NULL ? item->tensor : NULL;
    if (t == NULL || t->dims < 1 || t->dims > 3)
        return false;
    *columns = t->shape[t->dims - 1];
    *rows = t->dims == 1 ? 0 : t->dims == 2 ? t->shape[0] : t->shape[0] * t->shape[1];
    return true;
}

int64_t weights_stack(const weights *w, const char *name) {
    const gguf_tensor *g = w->gguf != NULL ? gguf_find_tensor(w->gguf, name) : NULL;
    const model_source_item *item = w->gguf == NULL ? model_source_find(w->source, name) : NULL;
    return g != NULL ? g->shape[2] : item != NULL && item->tensor->dims == 3 ? item->tensor->shape[0] : 1;
}

static int check_shape(const weights *w, const char *name, int64_t rows, int64_t columns, complaint to) {
    int64_t r, c;
    if (!weights_shape(w, name, &r, &c))
        return complain(to, w->path, "has no matrix or vector %s", name);
    return (r == rows || (r == 0 && rows == 1)) && c == columns
               ? 0
               : complain(to, w->path, "%s is %lld x %lld, not %lld x %lld", name, (long long)r, (long long)c,
                          (long long)rows, (long long)columns);
}

bool weights_type(const weights *w, const char *name, gguf_type *type) {
    const gguf_tensor *t = w->gguf != NULL ? gguf_find_tensor(w->gguf, name) : NULL;
    if (t != NULL)
        *type = t->type;
    return t != NULL;
}

/* The array of a GGUF file, which counts as loaded. */
static const gguf_tensor *load_tensor(weights *w, const char *name) {
    const gguf_tensor *t = gguf_find_tensor(w->gguf, name);
    w->loaded[t - gguf_tensor_at(w->gguf, 0)] = 1;
    return t;
}

int weights_map(weights *w, const char *name, int64_t rows, int64_t columns, gguf_rows *blocks, complaint to) {
    return check_shape(w, name, rows, columns, to) == 0 ? gguf_map(w->gguf, load_tensor(w, name), blocks, to) : -1;
}

/* Blocks whose scale is NaN or infinite stand for no numbers. */
static int check_finite(const weights *w, const char *name, const float *values, size_t count, complaint to) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return complain(to, w->path, "%s: a scale of its blocks is NaN or infinite", name);
    return 0;
}

float *weights_load(const fovea_context *ctx, weights *w, const char *name, int64_t rows, int64_t columns,
                    complaint to) {
    if (check_shape(w, name, rows, columns, to) != 0)
        return NULL;
    const size_t count = (size_t)columns * (size_t)(rows > 0 ? rows : 1);
    float *values = count < SIZE_MAX / sizeof *values ? malloc(count * sizeof *values + 1) : NULL;
    if (values == NULL) {
        complain(to, w->path, "out of memory");
        return NULL;
    }
    int status;
    if (w->source != NULL)
        status = model_source_read_f32(w->source, model_source_find(w->source, name), values, to);
    else {
        const gguf_tensor *g = load_tensor(w, name);
        status = gguf_read_f32(ctx, w->gguf, g, values, to);
        if (status == 0 && gguf_quantized(g->type))
            status = check_finite(w, name, values, count, to);
    }
    if (status == 0)
        return values;
    free(values);
    return NULL;
}

int weights_all_loaded(const weights *w, complaint to) {
    for (int64_t i = 0; w->gguf != NULL && i < gguf_tensor_count(w->gguf); i++)
        if (!w->loaded[i])
            return complain(to, w->path, "has the array %s, which is not known here and may change results",
                            gguf_tensor_at(w->gguf, i)->name);
    return 0;
}
