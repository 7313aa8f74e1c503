/* model_place.h. */
#include "model_place.h"

#include "path.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#include <stdint.h>
#endif

static const char default_name[] = "all-MiniLM-L6-v2", file_name[] = "model.safetensors";

static bool join(char path[PATH_MOST], const char *folder, const char *name) {
    return path_join(path, folder, name, (complaint){NULL, 0}) == 0;
}

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* ------------------------------------------------------------------------------------------------ a place given -- */

static bool has_gguf(const char *folder) {
    DIR *dir = opendir(folder);
    bool has = false;
    for (struct dirent *entry; dir != NULL && !has && (entry = readdir(dir)) != NULL;)
        has = path_ends_with(entry->d_name, ".gguf");
    if (dir != NULL)
        closedir(dir);
    return has;
}

/* A folder without model.safetensors: says what is there. */
static int refuse_folder(const char *folder, complaint to) {
    static const struct {
        const char *name, *what;
    } others[] = {
        {"model.safetensors.index.json", "has its weights in several files: only one model.safetensors is read"},
        {"pytorch_model.bin", "has pytorch_model.bin, but weights must be in safetensors format: model.safetensors"},
        {"tf_model.h5", "has tf_model.h5, but weights must be in safetensors format: model.safetensors"},
    };
    char path[PATH_MOST];
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (join(path, folder, others[i].name) && path_exists(path))
            return complain(to, folder, "%s", others[i].what);
    return complain(to, folder, "has no model.safetensors%s",
                    has_gguf(folder) ? ", only GGUF: weights must be in safetensors format" : "");
}

static int use(const char *given, model_place *place, complaint to) {
    if (!is_folder(given)) { /* a file; what is none is refused when it is opened */
        const char *slash = strrchr(given, '/');
        const int length = slash == NULL ? 1 : slash == given ? 1 : (int)(slash - given);
        if (strlen(given) >= PATH_MOST)
            return complain(to, "--model", "has too long a name");
        if (path_ends_with(given, ".gguf"))
            return complain(to, given, "is a GGUF file, but a safetensors file is needed");
        snprintf(place->folder, sizeof place->folder, "%.*s", length, slash == NULL ? "." : given);
        snprintf(place->file, sizeof place->file, "%s", given);
        return path_exists(given)
                   ? 0
                   : complain(to, given, "does not exist; python3 tools/embed/fetch.py FOLDER fetches %s",
                              default_name);
    }
    if (!join(place->file, given, file_name))
        return complain(to, "--model", "has too long a name");
    snprintf(place->folder, sizeof place->folder, "%s", given);
    return path_exists(place->file) ? 0 : refuse_folder(given, to);
}

/* ------------------------------------------------------------------------------------------------- the default -- */

/* The folder of the running program. */
static bool program_folder(char folder[PATH_MOST]) {
#ifdef __APPLE__
    uint32_t size = PATH_MOST;
    if (_NSGetExecutablePath(folder, &size) != 0)
        return false;
#else
    const ssize_t length = readlink("/proc/self/exe", folder, PATH_MOST - 1);
    if (length < 1)
        return false;
    folder[length] = '\0';
#endif
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        *slash = '\0';
    return slash != NULL;
}

/* build/models, of a program in build/PRESET/FOLDER. */
static bool in_build_tree(char folder[PATH_MOST]) {
    char program[PATH_MOST], models[PATH_MOST];
    return program_folder(program) && join(models, program, "../../models") && join(folder, models, default_name);
}

/* As fetch.py has it. */
static bool in_cache(char folder[PATH_MOST]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char models[PATH_MOST];
    if (cache != NULL && cache[0] == '/')
        return join(models, cache, "fovea/models") && join(folder, models, default_name);
    return home != NULL && home[0] != '\0' && join(models, home, ".cache/fovea/models") &&
           join(folder, models, default_name);
}

int model_place_find(const char *given, model_place *place, complaint to) {
    static bool (*const places[])(char folder[PATH_MOST]) = {in_build_tree, in_cache};
    const char *named = getenv("FOVEA_MODEL");
    if (given == NULL && named != NULL && named[0] != '\0')
        given = named;
    if (given != NULL)
        return use(given, place, to);
    char folder[PATH_MOST];
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (places[i](folder) && join(place->file, folder, file_name) && path_exists(place->file))
            return use(folder, place, to);
    return complain(to, default_name,
                    "was not found; fetch it with python3 tools/embed/fetch.py, or name a model with --model or "
                    "FOVEA_MODEL");
}

const char *model_place_name(const model_place *place, char name[PATH_MOST]) {
    const char *file = path_name(place->file);
    if (strcmp(file, file_name) != 0) {
        snprintf(name, PATH_MOST, "%s", file);
        return name;
    }
    char real[PATH_MOST];
    const char *folder = strcmp(place->folder, ".") == 0 && getcwd(real, sizeof real) != NULL ? real : place->folder;
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    size_t begin = length;
    while (begin > 0 && folder[begin - 1] != '/')
        begin--;
    snprintf(name, PATH_MOST, "%.*s", (int)(length - begin), folder + begin);
    return name;
}
