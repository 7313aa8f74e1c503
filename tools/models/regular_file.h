/* Opening files that are read from end to end: a pipe or a device is refused at once. It could block, or never end. */
#ifndef MODELS_REGULAR_FILE_H
#define MODELS_REGULAR_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* NULL, with *why a reason for a sentence and errno set (EINVAL: not a regular file). */
static inline FILE *regular_file_open(const char *path, const char **why) {
    struct stat status;
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    FILE *file = NULL;
    int reason = errno;
    if (descriptor >= 0) {
        const int failed = fstat(descriptor, &status) != 0;
        if (!failed && S_ISREG(status.st_mode))
            file = fdopen(descriptor, "rb");
        reason = failed || S_ISREG(status.st_mode) ? errno : EINVAL;
        if (file == NULL)
            close(descriptor);
    }
    *why = reason == EINVAL ? "not a regular file" : strerror(reason);
    errno = reason;
    return file;
}

#endif
