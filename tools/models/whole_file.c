/* whole_file.h. */
#include "whole_file.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { OPEN_MOST = 2 };
static whole_file *volatile opened[OPEN_MOST]; /* for the handler */
static volatile sig_atomic_t renaming;         /* all files are whole: it is too late to end without them */

static void stop(int number) {
    if (renaming)
        return;
    for (int i = 0; i < OPEN_MOST; i++)
        if (opened[i] != NULL)
            unlink(opened[i]->unfinished);
    signal(number, SIG_DFL);
    raise(number); /* once this returns */
}

static void remember(whole_file *o, bool is_open) {
    for (int i = 0; i < OPEN_MOST; i++)
        if (opened[i] == (is_open ? NULL : o)) {
            opened[i] = is_open ? o : NULL;
            break;
        }
}

/* From here on no signal ends the program with a file left over, unless the caller has it ignored. */
static void catch_signals(void) {
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction before, ours = {.sa_handler = stop};
        sigfillset(&ours.sa_mask);
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(numbers[i], &ours, NULL);
    }
    signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is an error of the write; */
    signal(SIGPIPE, SIG_IGN); /* lines that nobody reads any more are no reason to lose the file */
}

/* Makes the file, and has the handler know it, or neither. */
static int make(whole_file *o) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int descriptor = mkstemp(o->unfinished);
    if (descriptor >= 0)
        remember(o, true);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return descriptor;
}

static int check_room(const whole_file *o, int64_t bytes, complaint to) {
    char folder[WHOLE_FILE_PATH];
    struct statvfs disk;
    strcpy(folder, o->path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        strcpy(folder, ".");
    else
        slash[slash == folder] = '\0';
    if (statvfs(folder, &disk) != 0)
        return errno == ENOENT ? complain(to, o->path, "its folder does not exist")
                               : complain(to, o->path, "cannot be written: %s", strerror(errno));
    const double room = (double)disk.f_bavail * (double)disk.f_frsize;
    return room >= (double)bytes ? 0
                                 : complain(to, o->path, "needs %.1f MB, but its folder has room for %.1f MB",
                                            (double)bytes * 1e-6, room * 1e-6);
}

int whole_file_begin(whole_file *o, const char *path, int64_t bytes, bool force, complaint to) {
    struct stat there;
    *o = (whole_file){0};
    if (strlen(path) >= WHOLE_FILE_PATH)
        return complain(to, "--output", "has too long a name");
    strcpy(o->path, path);
    if (lstat(path, &there) == 0 && (!force || !S_ISREG(there.st_mode)))
        return complain(to, path,
                        S_ISREG(there.st_mode)   ? "exists; --force replaces it"
                        : S_ISLNK(there.st_mode) ? "is a link: name its file"
                                                 : "exists, and is not a regular file");
    if (check_room(o, bytes, to) != 0)
        return -1;
    snprintf(o->unfinished, sizeof o->unfinished, "%s.XXXXXX", path);
    catch_signals();
    const int descriptor = make(o);
    if (descriptor < 0)
        return complain(to, path, "cannot be written: %s", strerror(errno));
    const mode_t mask = umask(0);
    umask(mask);
    o->file = fchmod(descriptor, 0666 & ~mask) == 0 ? fdopen(descriptor, "wb") : NULL;
    if (o->file != NULL)
        return 0;
    complain(to, path, "cannot be written: %s", strerror(errno));
    close(descriptor);
    unlink(o->unfinished);
    remember(o, false);
    return -1;
}

int whole_file_write(whole_file *o, const void *bytes, int64_t count, complaint to) {
    o->at += count;
    return fwrite(bytes, 1, (size_t)count, o->file) == (size_t)count
               ? 0
               : complain(to, o->path, "cannot be written: %s", strerror(errno));
}

int whole_file_pad(whole_file *o, int64_t alignment, complaint to) {
    static const char zeros[64];
    return whole_file_write(o, zeros, (alignment - o->at % alignment) % alignment, to);
}

int whole_file_finish(whole_file *o, complaint to) {
    return fflush(o->file) == 0 && fsync(fileno(o->file)) == 0
               ? 0
               : complain(to, o->path, "cannot be written: %s", strerror(errno));
}

int whole_file_rename(whole_file *o, complaint to) {
    renaming = 1;
    if (rename(o->unfinished, o->path) != 0)
        return complain(to, o->path, "cannot be written: %s", strerror(errno));
    remember(o, false);
    fclose(o->file);
    o->file = NULL;
    return 0;
}

void whole_file_drop(whole_file *o) {
    if (o->file == NULL)
        return;
    unlink(o->unfinished);
    remember(o, false);
    fclose(o->file);
    o->file = NULL;
}
