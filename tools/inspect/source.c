/* source.h. Paths are collected first (add_path), then opened; an index is checked against what is in its shards. */
#include "source.h"

#include "regular_file.h"
#include "copy_text.h"

#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>

enum { PATH_MOST = 4096, FILES_MOST = 4096, INDEX_MOST = 1 << 24 };

static const char safetensors_end[] = ".safetensors", index_end[] = ".safetensors.index.json", gguf_end[] = ".gguf";

typedef struct names {
    char **name;
    int count;
} names;

struct source {
    names path, index;
    safetensors **file; /* [path.count] */
    source_item *item;
    int64_t items;
    char partial[PATH_MOST + 256]; /* "": all is there */
};

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

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
static int add_path(source *s, const char *path, complaint to) {
    for (int i = s->path.count; i-- > 0;)
        if (strcmp(s->path.name[i], path) == 0)
            return 0;
    return add_name(&s->path, path, to);
}

/* FOLDER/NAME; length: of folder. */
static int join(char path[PATH_MOST], const char *folder, size_t length, const char *name, complaint to) {
    const bool slash = length > 0 && folder[length - 1] != '/';
    if (snprintf(path, PATH_MOST, "%.*s%s%s", (int)length, folder, slash ? "/" : "", name) >= PATH_MOST)
        return complain(to, folder, "has too long a name");
    return 0;
}

/* --------------------------------------------------------------------------------------------------------- index -- */

/* The JSON of an index; NULL after a complaint. */
static json_t *read_index(const char *path, complaint to) {
    const char *why;
    FILE *file = regular_file_open(path, &why);
    if (file == NULL)
        return complain(to, path, "cannot be opened (%s)", why), NULL;
    char *text = malloc(INDEX_MOST + 1);
    const size_t length = text != NULL ? fread(text, 1, INDEX_MOST + 1, file) : 0;
    json_error_t error;
    json_t *index = text != NULL && length <= INDEX_MOST && !ferror(file)
                        ? json_loadb(text, length, JSON_REJECT_DUPLICATES, &error)
                        : NULL;
    fclose(file);
    if (text == NULL)
        complain(to, path, "out of memory");
    else if (!json_is_object(json_object_get(index, "weight_map")))
        complain(to, path, "is not a model index: a JSON object with weight_map, of at most 16 MiB");
    free(text);
    if (json_is_object(json_object_get(index, "weight_map")))
        return index;
    json_decref(index);
    return NULL;
}

/* The shards that an index names, which lie beside it. */
static int add_index(source *s, const char *path, complaint to) {
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
        if (shard == NULL || strchr(shard, '/') != NULL || !ends_with(shard, safetensors_end))
            status = complain(to, path, "%.200s is not in a .safetensors file of the same folder", array);
        else if ((status = join(beside, path, (size_t)(name_of(path) - path), shard, to)) == 0) {
            if (access(beside, F_OK) != 0)
                status = complain(to, path, "names the shard %.200s, which is not there", shard);
            else
                status = add_path(s, beside, to);
        }
    }
    json_decref(index);
    return status;
}

/* Every array that an index names is in the shard it names. */
static int check_index(const source *s, const char *path, complaint to) {
    json_t *index = read_index(path, to);
    if (index == NULL)
        return -1;
    int status = 0;
    const char *array;
    const json_t *item;
    json_object_foreach(json_object_get(index, "weight_map"), array, item) {
        for (int i = 0; i < s->path.count && status == 0; i++)
            if (strcmp(name_of(s->path.name[i]), json_string_value(item)) == 0 &&
                safetensors_find(s->file[i], array) == NULL)
                status =
                    complain(to, path, "%.200s is not in %.200s, where it should be", array, name_of(s->path.name[i]));
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
        if (ends_with(entry->d_name, end) && entry->d_name[0] != '.')
            status = add_name(list, entry->d_name, to);
    closedir(dir);
    if (list->count > 0)
        qsort(list->name, (size_t)list->count, sizeof *list->name, compare_texts);
    return status;
}

/* The index of a folder if it has one alone; else model.safetensors; else all its files. */
static int add_folder(source *s, const char *folder, complaint to) {
    names indices = {0}, files = {0}, others = {0};
    char path[PATH_MOST];
    int status = list_folder(folder, index_end, &indices, to);
    if (status == 0)
        status = list_folder(folder, safetensors_end, &files, to);
    if (status == 0)
        status = list_folder(folder, gguf_end, &others, to);
    if (status == 0)
        status = join(path, folder, strlen(folder), indices.count == 1 ? indices.name[0] : "model.safetensors", to);
    if (status == 0 && indices.count == 1)
        status = add_index(s, path, to);
    else if (status == 0 && access(path, F_OK) == 0)
        status = add_path(s, path, to);
    else if (status == 0 && files.count == 0)
        status = complain(to, folder, "has no .safetensors file%s", others.count > 0 ? ", only GGUF" : "");
    else
        for (int i = 0; status == 0 && i < files.count; i++)
            if ((status = join(path, folder, strlen(folder), files.name[i], to)) == 0)
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
    const char *at = strstr(name_of(path), "-of-");
    while (at != NULL && strstr(at + 1, "-of-") != NULL)
        at = strstr(at + 1, "-of-");
    if (at == NULL || at - name_of(path) < 6 || sscanf(at - 6, "-%5d-of-%5d%n", &number, &of, &end) != 2)
        return 0;
    return strcmp(at - 6 + end, safetensors_end) == 0 && of > 1 ? of : 0;
}

static void find_partial(source *s) {
    for (int i = 0; i < s->path.count; i++)
        if (shards_of(s->path.name[i]) > s->path.count) {
            snprintf(s->partial, sizeof s->partial,
                     "%s is a shard: %d of the %d files of this model %s here. Layers in the others are missing; give "
                     "the folder, or its model.safetensors.index.json",
                     name_of(s->path.name[i]), s->path.count, shards_of(s->path.name[i]),
                     s->path.count == 1 ? "is" : "are");
            return;
        }
    /* A shard by another name: the index beside it tells. */
    char path[PATH_MOST], said[256];
    const complaint nobody = {said, sizeof said};
    const char *first = s->path.name[0];
    if (s->path.count != 1 ||
        join(path, first, (size_t)(name_of(first) - first), "model.safetensors.index.json", nobody) ||
        access(path, F_OK) != 0)
        return;
    json_t *index = read_index(path, nobody);
    const char *array;
    const json_t *item;
    bool named = false, others = false;
    json_object_foreach(json_object_get(index, "weight_map"), array, item) {
        const bool same = json_is_string(item) && strcmp(json_string_value(item), name_of(first)) == 0;
        named = named || same;
        others = others || !same;
    }
    json_decref(index);
    if (named && others)
        snprintf(s->partial, sizeof s->partial,
                 "%s is a shard of the model of %s. Layers in other shards are missing; give that index, or the folder",
                 name_of(first), path);
}

static int compare_items(const void *a, const void *b) {
    const source_item *x = a, *y = b;
    const int order = strcmp(x->tensor->name, y->tensor->name);
    return order != 0 ? order : x->file - y->file;
}

static int open_files(source *s, complaint to) {
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
            s->item[s->items++] = (source_item){safetensors_at(s->file[i], n), i};
    qsort(s->item, (size_t)s->items, sizeof *s->item, compare_items);
    for (int64_t i = 1; i < s->items; i++)
        if (strcmp(s->item[i].tensor->name, s->item[i - 1].tensor->name) == 0)
            return complain(to, s->path.name[s->item[i].file], "%s is in %s, too: these are not files of one model",
                            s->item[i].tensor->name, name_of(s->path.name[s->item[i - 1].file]));
    return 0;
}

int source_open(const char *const *paths, int count, source **out, complaint to) {
    *out = NULL;
    source *s = calloc(1, sizeof *s);
    if (s == NULL)
        return complain(to, paths[0], "out of memory");
    int status = 0;
    for (int i = 0; status == 0 && i < count; i++) {
        struct stat info;
        if (stat(paths[i], &info) == 0 && S_ISDIR(info.st_mode))
            status = add_folder(s, paths[i], to);
        else if (ends_with(paths[i], ".json"))
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
        source_close(s);
    return status;
}

void source_close(source *s) {
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

int64_t source_count(const source *s) { return s->items; }

const source_item *source_array(const source *s, int64_t index) { return &s->item[index]; }

int source_files(const source *s) { return s->path.count; }

const char *source_path(const source *s, int file) { return s->path.name[file]; }

const char *source_partial(const source *s) { return s->partial[0] != '\0' ? s->partial : NULL; }

int source_read_f32(source *s, const source_item *item, float *values, complaint to) {
    return safetensors_read_f32(s->file[item->file], item->tensor, values, to);
}
