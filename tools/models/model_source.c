/* model_source.h. Paths are collected first (add_path), then opened; an index is checked against what is in its
 * shards. */
#include "model_source.h"

#include "copy_text.h"
#include "path.h"
#include "text_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES_MOST = 4096, INDEX_MOST = 1 << 26 };

static const char safetensors_end[] = ".safetensors", index_end[] = ".safetensors.index.json", gguf_end[] = ".gguf";

typedef struct names {
    char **name;
    int count;
} names;

struct model_source {
    names path, index;
    safetensors **file; /* [path.count] */
    model_source_item *item;
    int64_t items;
    char partial[PATH_MOST + 256]; /* "": all is there */
};

static int add_name(names *list, const char *name, complaint to) {
    char **more = list->count < FILES_MOST ? realloc(list->name, (size_t)(list->count + 1) * sizeof *more) : NULL;
    if (more != NULL)
        list->name = more;
    if (more == NULL || (more[list->count] = copy_text(name, strlen(name))) == NULL)
        return complain(to, name, list->count < FILES_MOST ? "out of memory" : "is one file too many");
    list->count++;
    return 0;
}

static void free_names(names *list) {
    for (int i = 0; i < list->count; i++)
        free(list->name[i]);
    free(list->name);
}

/* An index names a shard many times. */
static int add_path(model_source *s, const char *path, complaint to) {
    for (int i = s->path.count; i-- > 0;)
        if (strcmp(s->path.name[i], path) == 0)
            return 0;
    return add_name(&s->path, path, to);
}

/* --------------------------------------------------------------------------------------------------------- index -- */

/* The JSON of an index; NULL after a complaint. */
static json_t *read_index(const char *path, complaint to) {
    json_t *index;
    if (text_file_json(path, INDEX_MOST, &index, to) != 0)
        return NULL;
    if (json_is_object(json_object_get(index, "weight_map")))
        return index;
    complain(to, path, index == NULL ? "does not exist" : "is not a model index: it has no weight_map");
    json_decref(index);
    return NULL;
}

/* The shards that an index names, in its folder. */
static int add_index(model_source *s, const char *path, complaint to) {
    json_t *index = read_index(path, to);
    if (index == NULL)
        return -1;
    int status = add_name(&s->index, path, to);
    const char *array;
    const json_t *item;
    json_object_foreach(json_object_get(index, "weight_map"), array, item) {
        const char *shard = json_string_value(item);
        char beside[PATH_MOST];
        if (status != 0)
            break;
        if (shard == NULL || strchr(shard, '/') != NULL || !path_ends_with(shard, safetensors_end))
            status = complain(to, path, "%.200s is not in a .safetensors file of the same folder", array);
        else if ((status = path_beside(beside, path, shard, to)) == 0) {
            if (!path_exists(beside))
                status = complain(to, path, "names the shard %.200s, which is not there", shard);
            else
                status = add_path(s, beside, to);
        }
    }
    json_decref(index);
    return status;
}

/* Every array that an index names is in the shard it names. */
static int check_index(const model_source *s, const char *path, complaint to) {
    json_t *index = read_index(path, to);
    if (index == NULL)
        return -1;
    int status = 0;
    const char *array;
    const json_t *item;
    json_object_foreach(json_object_get(index, "weight_map"), array, item) {
        for (int i = 0; i < s->path.count && status == 0; i++)
            if (strcmp(path_name(s->path.name[i]), json_string_value(item)) == 0 &&
                safetensors_find(s->file[i], array) == NULL)
                status = complain(to, path, "%.200s is not in %.200s, where it should be", array,
                                  path_name(s->path.name[i]));
        if (status != 0)
            break;
    }
    json_decref(index);
    return status;
}

/* -------------------------------------------------------------------------------------------------------- folder -- */

static int compare_texts(const void *a, const void *b) {
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* Files of a folder with that end of their names, sorted. */
static int list_folder(const char *folder, const char *end, names *list, complaint to) {
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return complain(to, folder, "cannot be opened (%s)", strerror(errno));
    int status = 0;
    for (struct dirent *entry; status == 0 && (entry = readdir(dir)) != NULL;)
        if (path_ends_with(entry->d_name, end) && entry->d_name[0] != '.')
            status = add_name(list, entry->d_name, to);
    closedir(dir);
    if (list->count > 0)
        qsort(list->name, (size_t)list->count, sizeof *list->name, compare_texts);
    return status;
}

/* The index of a folder if it has one alone; else model.safetensors; else all its files. */
static int add_folder(model_source *s, const char *folder, complaint to) {
    names indices = {0}, files = {0}, others = {0};
    char path[PATH_MOST];
    int status = list_folder(folder, index_end, &indices, to);
    if (status == 0)
        status = list_folder(folder, safetensors_end, &files, to);
    if (status == 0)
        status = list_folder(folder, gguf_end, &others, to);
    if (status == 0)
        status = path_join(path, folder, indices.count == 1 ? indices.name[0] : "model.safetensors", to);
    if (status == 0 && indices.count == 1)
        status = add_index(s, path, to);
    else if (status == 0 && path_exists(path))
        status = add_path(s, path, to);
    else if (status == 0 && files.count == 0)
        status = complain(to, folder, "has no .safetensors file%s", others.count > 0 ? ", only GGUF" : "");
    else
        for (int i = 0; status == 0 && i < files.count; i++)
            if ((status = path_join(path, folder, files.name[i], to)) == 0)
                status = add_path(s, path, to);
    free_names(&indices);
    free_names(&files);
    free_names(&others);
    return status;
}

/* --------------------------------------------------------------------------------------------------------- whole -- */

/* "model-00002-of-00005.safetensors": of how many files it is one; 0: its name does not say. */
static int shards_of(const char *path) {
    int number, of = 0, end = 0;
    const char *at = strstr(path_name(path), "-of-");
    while (at != NULL && strstr(at + 1, "-of-") != NULL)
        at = strstr(at + 1, "-of-");
    if (at == NULL || at - path_name(path) < 6 || sscanf(at - 6, "-%5d-of-%5d%n", &number, &of, &end) != 2)
        return 0;
    return strcmp(at - 6 + end, safetensors_end) == 0 && of > 1 ? of : 0;
}

static void find_partial(model_source *s) {
    for (int i = 0; i < s->path.count; i++)
        if (shards_of(s->path.name[i]) > s->path.count) {
            snprintf(s->partial, sizeof s->partial,
                     "%s is a shard: %d of the %d files of this model %s here. Layers in the others are missing; give "
                     "the folder, or its model.safetensors.index.json",
                     path_name(s->path.name[i]), s->path.count, shards_of(s->path.name[i]),
                     s->path.count == 1 ? "is" : "are");
            return;
        }
    /* A shard by another name: the index in its folder tells. */
    char path[PATH_MOST], said[256];
    const complaint nobody = {said, sizeof said};
    const char *first = s->path.name[0];
    if (s->path.count != 1 || path_beside(path, first, "model.safetensors.index.json", nobody) || !path_exists(path))
        return;
    json_t *index = read_index(path, nobody);
    const char *array;
    const json_t *item;
    bool named = false, others = false;
    json_object_foreach(json_object_get(index, "weight_map"), array, item) {
        const bool same = json_is_string(item) && strcmp(json_string_value(item), path_name(first)) == 0;
        named = named || same;
        others = others || !same;
    }
    json_decref(index);
    if (named && others)
        snprintf(s->partial, sizeof s->partial,
                 "%s is a shard of the model of %s. Layers in other shards are missing; give that index, or the folder",
                 path_name(first), path);
}

static int compare_names(const void *a, const void *b) {
    const model_source_item *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

static int compare_items(const void *a, const void *b) {
    const model_source_item *x = a, *y = b;
    const int order = compare_names(a, b);
    return order != 0 ? order : x->file - y->file;
}

static int open_files(model_source *s, complaint to) {
    int64_t count = 0;
    s->file = calloc((size_t)s->path.count, sizeof *s->file);
    if (s->file == NULL)
        return complain(to, s->path.name[0], "out of memory");
    for (int i = 0; i < s->path.count; i++) {
        if (safetensors_open(s->path.name[i], &s->file[i], to) != 0)
            return -1;
        count += safetensors_count(s->file[i]);
    }
    s->item = malloc((size_t)(count + 1) * sizeof *s->item);
    if (s->item == NULL)
        return complain(to, s->path.name[0], "out of memory");
    for (int i = 0; i < s->path.count; i++)
        for (int64_t n = 0; n < safetensors_count(s->file[i]); n++)
            s->item[s->items++] = (model_source_item){safetensors_at(s->file[i], n), i};
    qsort(s->item, (size_t)s->items, sizeof *s->item, compare_items);
    for (int64_t i = 1; i < s->items; i++)
        if (strcmp(s->item[i].tensor->name, s->item[i - 1].tensor->name) == 0)
            return complain(to, s->path.name[s->item[i].file], "%s is in %s, too: these are not files of one model",
                            s->item[i].tensor->name, path_name(s->path.name[s->item[i - 1].file]));
    return 0;
}

int model_source_open(const char *const *paths, int count, model_source **out, complaint to) {
    *out = NULL;
    model_source *s = calloc(1, sizeof *s);
    if (s == NULL)
        return complain(to, paths[0], "out of memory");
    int status = 0;
    for (int i = 0; status == 0 && i < count; i++) {
        struct stat info;
        if (stat(paths[i], &info) == 0 && S_ISDIR(info.st_mode))
            status = add_folder(s, paths[i], to);
        else if (path_ends_with(paths[i], ".json"))
            status = add_index(s, paths[i], to);
        else
            status = add_path(s, paths[i], to);
    }
    if (status == 0 && s->path.count == 0)
        status = complain(to, paths[0], "lists no files");
    if (status == 0)
        status = open_files(s, to);
    for (int i = 0; status == 0 && i < s->index.count; i++)
        status = check_index(s, s->index.name[i], to);
    if (status == 0)
        find_partial(s);
    if (status == 0)
        *out = s;
    else
        model_source_close(s);
    return status;
}

void model_source_close(model_source *s) {
    if (s == NULL)
        return;
    for (int i = 0; s->file != NULL && i < s->path.count; i++)
        safetensors_close(s->file[i]);
    free_names(&s->path);
    free_names(&s->index);
    free(s->file);
    free(s->item);
    free(s);
}

int64_t model_source_count(const model_source *s) { return s->items; }

const model_source_item *model_source_array(const model_source *s, int64_t index) { return &s->item[index]; }

const model_source_item *model_source_find(const model_source *s, const char *name) {
    const safetensors_tensor tensor = {.name = name};
    return bsearch(&(model_source_item){&tensor, 0}, s->item, (size_t)s->items, sizeof *s->item, compare_names);
}

int model_source_files(const model_source *s) { return s->path.count; }

safetensors *model_source_file(const model_source *s, int file) { return s->file[file]; }

const char *model_source_path(const model_source *s, int file) { return s->path.name[file]; }

const char *model_source_partial(const model_source *s) { return s->partial[0] != '\0' ? s->partial : NULL; }

int model_source_read_f32(model_source *s, const model_source_item *item, float *values, complaint to) {
    return safetensors_read_f32(s->file[item->file], item->tensor, values, to);
}
