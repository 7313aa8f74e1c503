/* Two files that belong together (whole_file.h): a signal between their renames leaves no half of them. */
#include "whole_file.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int __real_rename(const char *from, const char *to); /* NOLINT: the linker's names */
int __wrap_rename(const char *from, const char *to);

int __wrap_rename(const char *from, const char *to) {
    const int status = __real_rename(from, to);
    raise(SIGTERM);
    return status;
}

static int write_both(void) {
    static whole_file one, two;
    char sentence[256] = "";
    const complaint to = {sentence, sizeof sentence};
    if (whole_file_begin(&one, "one", 1, true, to) != 0 || whole_file_begin(&two, "two", 1, true, to) != 0 ||
        whole_file_finish(&one, to) != 0 || whole_file_finish(&two, to) != 0 || whole_file_rename(&one, to) != 0 ||
        whole_file_rename(&two, to) != 0)
        fprintf(stderr, "%s\n", sentence);
    return sentence[0] != '\0';
}

int main(void) {
    char folder[] = "/tmp/fovea-output.XXXXXX";
    int status = -1;
    if (mkdtemp(folder) == NULL || chdir(folder) != 0)
        return 1;
    const pid_t child = fork();
    if (child == 0)
        _exit(write_both());
    waitpid(child, &status, 0);
    const int missing = (unlink("one") != 0) + (unlink("two") != 0);
    if (status != 0 || missing != 0 || rmdir(folder) != 0) {
        fprintf(stderr, "status %x, %d of 2 files missing\n", (unsigned)status, missing);
        return 1;
    }
    return 0;
}
