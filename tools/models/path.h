/* Names of files. */
#ifndef MODELS_PATH_H
#define MODELS_PATH_H

#include "complain.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_MOST = 4096 };

static inline bool path_exists(const char *path) { return access(path, F_OK) == 0; }

static inline bool path_ends_with(const char *path, const char *end) {
    const size_t length = strlen(path), tail = strlen(end);
    return length >= tail && strcmp(path + length - tail, end) == 0;
}

/* The last part of a path. */
static inline const char *path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* FOLDER/NAME, of which folder is the first length bytes. 0; or -1 after a complaint. */
static inline int path_put(char to_path[PATH_MOST], const char *folder, size_t length, const char *name, complaint to) {
    const char *between = length > 0 && folder[length - 1] != '/' ? "/" : "";
    return snprintf(to_path, PATH_MOST, "%.*s%s%s", (int)length, folder, between, name) < PATH_MOST
               ? 0
               : complain(to, name, "the model's folder has too long a name");
}

static inline int path_join(char path[PATH_MOST], const char *folder, const char *name, complaint to) {
    return path_put(path, folder, strlen(folder), name, to);
}

/* A file in the folder of another. */
static inline int path_beside(char path[PATH_MOST], const char *other, const char *name, complaint to) {
    return path_put(path, other, (size_t)(path_name(other) - other), name, to);
}

#endif
