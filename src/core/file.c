/* Files of POSIX (file.h). */
#define _GNU_SOURCE /* O_PATH, realpath, dladdr */
#include "core/file.h"

#include "core/environment.h"
#include "core/text.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef O_PATH
#define O_PATH O_RDONLY
#endif

FV_PRINTF(2, 3)
static fovea_status fail(char error[FV_FILE_ERROR], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, FV_FILE_ERROR, format, arguments);
    va_end(arguments);
    return FOVEA_ERROR_FILE;
}

/* A path in two: its folder, opened, and the name in it. */
typedef struct place {
    char path[PATH_MAX]; /* symbolic links at its end resolved, unless the folder is shared */
    const char *name;
    int folder;
    bool shared; /* may anybody put files there? */
    int reason;  /* errno, if the folder could not be opened */
} place;

static int open_folder(char *path, int flags) {
    char *slash = strrchr(path, '/');
    if (!slash)
        return open(".", flags | O_DIRECTORY | O_CLOEXEC);
    if (slash == path)
        return open("/", flags | O_DIRECTORY | O_CLOEXEC);
    *slash = '\0';
    const int folder = open(path, flags | O_DIRECTORY | O_CLOEXEC);
    *slash = '/';
    return folder;
}

static void close_place(place *p) { close(p->folder); }

/* "folder/", "." and the like name no file, whatever is there. */
static fovea_status check_name(const char *path, char error[FV_FILE_ERROR]) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strcmp(name, "") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return fail(error, "\"%.300s\" names a folder, not a file", path);
    return FOVEA_OK;
}

/* Opens the folder of a path; of what a symbolic link names, if others cannot have put it there. */
static fovea_status open_place(const char *path, int flags, place *p, char error[FV_FILE_ERROR]) {
    p->reason = 0;
    const fovea_status named = check_name(path, error);
    if (named != FOVEA_OK)
        return named;
    for (int links = 0;; links++) {
        const size_t length = strlen(path);
        if (length == 0 || length >= sizeof p->path)
            return fail(error, "a file name of %zu bytes", length);
        if (path != p->path)
            memcpy(p->path, path, length + 1);
        p->folder = open_folder(p->path, flags);
        p->reason = errno;
        if (p->folder < 0)
            return fail(error, "%.300s: %s", p->path,
                        p->reason == ENOENT ? "its folder does not exist" : strerror(p->reason));
        const char *slash = strrchr(p->path, '/');
        p->name = slash ? slash + 1 : p->path;
        struct stat folder, file;
        p->shared = fstat(p->folder, &folder) != 0 || (folder.st_mode & S_IWOTH);
        if (links > 0 || p->shared || fstatat(p->folder, p->name, &file, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISLNK(file.st_mode))
            return FOVEA_OK;
        close_place(p);
        char *target = realpath(p->path, NULL); /* on the heap: stacks may be small */
        const size_t target_length = target ? strlen(target) : 0;
        p->reason = target ? 0 : errno;
        if (target && target_length < sizeof p->path)
            memcpy(p->path, target, target_length + 1);
        free(target);
        if (p->reason)
            return fail(error, "%.300s: a symbolic link to nowhere: %s", p->path, strerror(p->reason));
        if (target_length >= sizeof p->path)
            return fail(error, "%.300s: a symbolic link to a file name of %zu bytes", p->path, target_length);
        path = p->path;
    }
}

/* Refuses files that fv_file_read() does not read. */
static fovea_status check_opened(const place *p, int file, char error[FV_FILE_ERROR]) {
    struct stat status;
    if (fstat(file, &status) != 0)
        return fail(error, "%.300s: %s", p->path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return fail(error, "%.300s is not a regular file", p->path);
    if (status.st_mode & S_IWOTH)
        return fail(error, "%.300s is writable by everybody: not trusted", p->path);
    if (p->shared && status.st_uid != geteuid() && status.st_uid != 0)
        return fail(error, "%.300s is another user's file, in a folder that everybody may write: not trusted", p->path);
    return FOVEA_OK;
}

static fovea_status open_checked(const char *path, int flags, int *file, bool *absent, char error[FV_FILE_ERROR]) {
    place p;
    *absent = false;
    const fovea_status status = open_place(path, O_PATH, &p, error);
    if (status != FOVEA_OK) {
        *absent = p.reason == ENOENT || p.reason == ENOTDIR || p.reason == EACCES;
        return status;
    }
    *file = openat(p.folder, p.name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);
    const int reason = errno;
    fovea_status opened = FOVEA_OK;
    if (*file < 0) {
        *absent = reason == ENOENT;
        opened = reason == ELOOP ? fail(error,
                                        "%.300s is a symbolic link, in a folder that everybody may write: not "
                                        "trusted",
                                        p.path)
                                 : fail(error, "%.300s: %s", p.path, strerror(reason));
    } else if ((opened = check_opened(&p, *file, error)) != FOVEA_OK)
        close(*file);
    close_place(&p);
    return opened;
}

fovea_status fv_file_read(const char *path, char *text, size_t size, size_t *length, bool *absent,
                          char error[FV_FILE_ERROR]) {
    int file;
    fovea_status status = open_checked(path, O_RDONLY, &file, absent, error);
    if (status != FOVEA_OK)
        return status;
    size_t got = 0;
    for (;;) {
        char beyond;
        const ssize_t n = read(file, got < size ? text + got : &beyond, got < size ? size - got : 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            status = fail(error, "%.300s: %s", path, strerror(errno));
        else if (n > 0 && got == size)
            status = fail(error, "%.300s is larger than the %zu bytes that such a file may have", path, size);
        else if (n > 0) {
            got += (size_t)n;
            continue;
        }
        break;
    }
    close(file);
    *length = got;
    return status;
}

bool fv_file_of_tuning(int index, char *path, size_t size) {
    /* Folders that are not absolute are not to be used, says the standard of XDG_CACHE_HOME. */
    const char *cache = fv_environment("XDG_CACHE_HOME"), *home = fv_environment("HOME");
    path[0] = '\0';
    if (index == 0 && cache && cache[0] == '/')
        snprintf(path, size, "%s/fovea/tuning", cache);
    else if (index == 0 && home && home[0] == '/')
        snprintf(path, size, "%s/.cache/fovea/tuning", home);
    else if (index == 1)
        snprintf(path, size, "/etc/fovea/tuning");
    if (strlen(path) + 1 == size)
        path[0] = '\0'; /* cut: another file's name */
    return index < 2;
}

void fv_file_beside_library(const char *name, char *path, size_t size) {
    static const char here;
    Dl_info info;
    path[0] = '\0';
    if (!dladdr(&here, &info) || !info.dli_fname || info.dli_fname[0] != '/') /* relative to a folder of before */
        return;
    const int folder = (int)(strrchr(info.dli_fname, '/') - info.dli_fname);
    if (snprintf(path, size, "%.*s/%s", folder, info.dli_fname, name) >= (int)size)
        path[0] = '\0';
}

void fv_file_make_folders(const char *path) {
    char folder[PATH_MAX], error[FV_FILE_ERROR];
    const size_t length = strlen(path);
    if (length >= sizeof folder || check_name(path, error) != FOVEA_OK)
        return;
    memcpy(folder, path, length + 1);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(folder, 0755);
        *slash = '/';
    }
}

fovea_status fv_file_lock(const char *path, int seconds, int *lock, char error[FV_FILE_ERROR]) {
    enum { TRIES = 50 }; /* in a second */
    place p;
    const fovea_status status = open_place(path, O_RDONLY, &p, error);
    if (status != FOVEA_OK)
        return status;
    for (int i = 0; i < seconds * TRIES; i++) {
        /* A file system without locks: what is lost is the protection, not the file. */
        if (flock(p.folder, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR)) {
            *lock = p.folder;
            return FOVEA_OK;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000000 / TRIES}, NULL);
    }
    close_place(&p);
    fail(error, "%.300s: another process still holds a lock on its folder after %d s", path, seconds);
    return FOVEA_ERROR_BUSY;
}

void fv_file_unlock(int lock) { close(lock); }

static bool write_all(int file, const char *text, size_t length) {
    while (length > 0) {
        const ssize_t n = write(file, text, length);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            text += n;
            length -= (size_t)n;
        }
    }
    return true;
}

/* Opens the file that will take the place of the old one; -1 and a sentence. */
static int open_temporary(const place *p, char temporary[NAME_MAX + 16], char error[FV_FILE_ERROR]) {
    struct stat old;
    if (fstatat(p->folder, p->name, &old, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(old.st_mode)) {
        fail(error, "%.300s is not a regular file: left alone", p->path);
        return -1;
    }
    if (snprintf(temporary, NAME_MAX + 16, ".%s.new", p->name) > NAME_MAX) {
        fail(error, "%.300s: the name is too long", p->path);
        return -1;
    }
    unlinkat(p->folder, temporary, 0); /* of a process that was killed: whoever has the lock is alone */
    const int file = openat(p->folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file < 0)
        fail(error, "%.300s: no file can be written in its folder: %s", p->path, strerror(errno));
    return file;
}

static fovea_status replace_at(const place *p, const char *text, size_t length, char error[FV_FILE_ERROR]) {
    char temporary[NAME_MAX + 16];
    const int file = open_temporary(p, temporary, error);
    if (file < 0)
        return FOVEA_ERROR_FILE;
    bool ok = write_all(file, text, length) && fsync(file) == 0;
    int reason = errno;
    if (close(file) != 0 && ok) {
        ok = false;
        reason = errno;
    }
    if (ok && renameat(p->folder, temporary, p->folder, p->name) != 0) {
        ok = false;
        reason = errno;
    }
    if (!ok) {
        unlinkat(p->folder, temporary, 0);
        return fail(error, "%.300s: %s: left as it was", p->path, strerror(reason));
    }
    fsync(p->folder); /* the name, too; what cannot be synced (some file systems) is still there */
    return FOVEA_OK;
}

fovea_status fv_file_replace(const char *path, const char *text, size_t length, char error[FV_FILE_ERROR]) {
    place p;
    fovea_status status = open_place(path, O_RDONLY, &p, error);
    if (status == FOVEA_OK) {
        status = replace_at(&p, text, length, error);
        close_place(&p);
    }
    return status;
}

bool fv_file_may_replace(const char *path, char error[FV_FILE_ERROR]) {
    place p;
    if (open_place(path, O_RDONLY, &p, error) != FOVEA_OK)
        return false;
    char temporary[NAME_MAX + 16];
    const int file = open_temporary(&p, temporary, error);
    if (file >= 0) {
        close(file);
        unlinkat(p.folder, temporary, 0);
    }
    close_place(&p);
    return file >= 0;
}

int fv_file_open_log(const char *path, char error[FV_FILE_ERROR]) {
    int file;
    bool absent;
    return open_checked(path, O_WRONLY | O_APPEND | O_CREAT, &file, &absent, error) == FOVEA_OK ? file : -1;
}

void fv_file_append(int log, int64_t size, const char *line, size_t length) {
    struct stat status;
    if (fstat(log, &status) == 0 && status.st_size < size) {
        const ssize_t written = write(log, line, length);
        (void)written; /* a full disk loses the line: the caller's work goes on */
    }
}

void fv_file_close(int log) { close(log); }
