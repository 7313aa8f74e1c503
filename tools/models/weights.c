/* weights.h. */
#include "weights.h"

#include "text_file.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_MOST = 4096, SHARDS_MOST = 512, INDEX_MOST = 1 << 26 };

struct weights {
    char path[PATH_MOST], folder[PATH_MOST];
    gguf *gguf;
    uint8_t *loaded; /* of the GGUF file's arrays */
    safetensors *shard[SHARDS_MOST];
    char *shard_name[SHARDS_MOST];
    int shards;
};

static bool join(char path[PATH_MOST], const char *folder, const char *name) {
    return snprintf(path, PATH_MOST, "%s/%s", folder, name) < PATH_MOST;
}

static bool ends_with(const char *text, const char *end) {
    const size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

/* ------------------------------------------------------------------------------------------------------- opening -- */

static int add_shard(weights *w, const char *name, const char *path, complaint to) {
    for (int i = 0; i < w->shards; i++)
        if (strcmp(w->shard_name[i], name) == 0)
            return i;
    if (w->shards == SHARDS_MOST)
        return complain(to, w->path, "lists more than %d files", SHARDS_MOST);
    if (safetensors_open(path, &w->shard[w->shards], to) != 0)
        return -1;
    w->shard_name[w->shards] = malloc(strlen(name) + 1);
    if (w->shard_name[w->shards] == NULL) {
        safetensors_close(w->shard[w->shards]);
        return complain(to, w->path, "out of memory");
    }
    strcpy(w->shard_name[w->shards], name);
    return w->shards++;
}

/* A file of the index lies beside it: no name may lead elsewhere. */
static int add_listed(weights *w, const char *tensor, const char *name, complaint to) {
    char path[PATH_MOST];
    if (name == NULL || *name == '\0' || *name == '.' || strchr(name, '/') != NULL || !join(path, w->folder, name))
        return complain(to, w->path, "names no file beside it for %.100s", tensor);
    const int shard = add_shard(w, name, path, to);
    if (shard < 0)
        return -1;
    return safetensors_find(w->shard[shard], tensor) != NULL
               ? 0
               : complain(to, path, "has no %.100s, which the index says it has", tensor);
}

static int open_index(weights *w, complaint to) {
    json_t *root, *file;
    const char *tensor;
    if (text_file_json(w->path, INDEX_MOST, &root, to) != 0)
        return -1;
    json_t *map = json_object_get(root, "weight_map");
    int status = json_is_object(map) && json_object_size(map) > 0 ? 0 : complain(to, w->path, "has no weight_map");
    json_object_foreach(map, tensor, file) if (status == 0) status = add_listed(w, tensor, json_string_value(file), to);
    json_decref(root);
    return status;
}

/* The one GGUF file of a folder, or the first of one model's. */
static int find_gguf(weights *w, const char *folder, complaint to) {
    DIR *d = opendir(folder);
    int found = 0;
    if (d == NULL)
        return complain(to, folder, "does not exist, or cannot be read");
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        if (ends_with(e->d_name, ".gguf") && !gguf_is_later_part(e->d_name) && ++found == 1 &&
            !join(w->path, folder, e->d_name))
            found = -1;
    closedir(d);
    if (found == 1)
        return 0;
    return complain(to, folder,
                    found > 1 ? "has several GGUF files: name one" : "has no model: no GGUF file, no safetensors");
}

static int open_folder(weights *w, const char *folder, complaint to) {
    if (!join(w->path, folder, "model.safetensors") || strlen(folder) >= PATH_MOST)
        return complain(to, "model", "has too long a name");
    strcpy(w->folder, folder);
    if (exists(w->path))
        return add_shard(w, "model.safetensors", w->path, to) < 0 ? -1 : 0;
    if (join(w->path, folder, "model.safetensors.index.json") && exists(w->path))
        return open_index(w, to);
    return find_gguf(w, folder, to) == 0 ? gguf_open(w->path, &w->gguf, to) : -1;
}

static int open_file(weights *w, const char *path, complaint to) {
    const char *slash = strrchr(path, '/');
    if (strlen(path) >= PATH_MOST)
        return complain(to, "model", "has too long a name");
    strcpy(w->path, path);
    snprintf(w->folder, sizeof w->folder, "%.*s", slash != NULL ? (int)(slash - path) + (slash == path) : 1,
             slash != NULL ? path : ".");
    if (ends_with(path, ".index.json"))
        return open_index(w, to);
    if (ends_with(path, ".safetensors"))
        return add_shard(w, path, path, to) < 0 ? -1 : 0;
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
    for (int i = 0; i < w->shards; i++) {
        safetensors_close(w->shard[i]);
        free(w->shard_name[i]);
    }
    free(w);
}

gguf *weights_gguf(const weights *w) { return w->gguf; }
safetensors *weights_shard(const weights *w, int i) { return i < w->shards ? w->shard[i] : NULL; }
const char *weights_path(const weights *w) { return w->path; }
const char *weights_folder(const weights *w) { return w->folder; }

/* -------------------------------------------------------------------------------------------------------- arrays -- */

static const safetensors_tensor *find_shard(const weights *w, const char *name, safetensors **file) {
    for (int i = 0; i < w->shards; i++) {
        const safetensors_tensor *t = safetensors_find(w->shard[i], name);
        if (t != NULL) {
            *file = w->shard[i];
            return t;
        }
    }
    return NULL;
}

bool weights_shape(const weights *w, const char *name, int64_t *rows, int64_t *columns) {
    *rows = *columns = 0;
    if (w->gguf != NULL) {
        const gguf_tensor *t = gguf_find_tensor(w->gguf, name);
        if (t == NULL || t->dims > 2)
            return false;
        *columns = t->shape[0];
        *rows = t->dims == 2 ? t->shape[1] : 0;
        return true;
    }
    safetensors *file;
    const safetensors_tensor *t = find_shard(w, name, &file);
    if (t == NULL || t->dims < 1 || t->dims > 2)
        return false;
    *columns = t->shape[t->dims - 1];
    *rows = t->dims == 2 ? t->shape[0] : 0;
    return true;
}

static int check_shape(const weights *w, const char *name, int64_t rows, int64_t columns, complaint to) {
    int64_t r, c;
    if (!weights_shape(w, name, &r, &c))
        return complain(to, w->path, "has no matrix or vector %s", name);
    return r == rows && c == columns ? 0
                                     : complain(to, w->path, "%s is %lld x %lld, not %lld x %lld", name, (long long)r,
                                                (long long)c, (long long)rows, (long long)columns);
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

float *weights_load(weights *w, const char *name, int64_t rows, int64_t columns, complaint to) {
    safetensors *file;
    if (check_shape(w, name, rows, columns, to) != 0)
        return NULL;
    const size_t count = (size_t)columns * (size_t)(rows > 0 ? rows : 1);
    float *values = count < SIZE_MAX / sizeof *values ? malloc(count * sizeof *values + 1) : NULL;
    if (values == NULL) {
        complain(to, w->path, "out of memory");
        return NULL;
    }
    const safetensors_tensor *t = w->gguf == NULL ? find_shard(w, name, &file) : NULL;
    int status;
    if (t != NULL)
        status = safetensors_read_f32(file, t, values, to);
    else {
        const gguf_tensor *g = load_tensor(w, name);
        status = gguf_read_f32(w->gguf, g, values, to);
        if (status == 0 && gguf_quantised(g->type))
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
