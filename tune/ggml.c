/* Operations that pay inside ggml: a run over the default shapes ends with fovea-tune-ggml (integrations/ggml), which
 * measures them and puts its rows into the same file. So this program needs no ggml. */
#include "commands.h"
#include "machine.h"
#include "output.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ; /* no header of macOS declares it */

static const char name[] = "fovea-tune-ggml";

/* Does a run end with it? Only what programs use by default is measured there. */
static bool applies(const tune_options *o, const char *path) {
    const char *named = getenv("FOVEA_TUNE_GGML");
    return !(named && !*named) && !o->shapes.count && !o->presets && !o->log && o->isa == FOVEA_ISA_BEST &&
           o->threads == 0 && !tune_is_standard_output(path) && !tune_stopped;
}

/* Starts it; what it prints is not for the standard output of JSON, and for nobody if all is quiet. */
static int start(const tune_options *o, const char *program, const char *path, pid_t *child) {
    char *words[] = {(char *)(uintptr_t)name, (char *)(uintptr_t) "-o", (char *)(uintptr_t)path, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (o->quiet)
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    else if (o->json)
        posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    const int error = posix_spawnp(child, program, &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

int tune_ggml(const tune_options *o, const char *path, int status) {
    const char *named = getenv("FOVEA_TUNE_GGML");
    char sibling[4096];
    pid_t child;
    int ended = 0;
    if (!applies(o, path) || (status != TUNE_GOOD && status != TUNE_NOISY))
        return status;
    tune_program_path(o->program, name, sibling, sizeof sibling);
    fflush(stdout);
    const int error = start(o, named ? named : sibling, path, &child);
    if (error && named)
        fprintf(stderr, "fovea-tune: FOVEA_TUNE_GGML: %s: %s\n", named, strerror(error));
    else if (error && !o->quiet && !o->json)
        printf("ggml was not tuned: %s is not in fovea-tune's folder (FOVEA_TUNE_GGML names its path).\n", name);
    if (error)
        return named ? TUNE_FAILED : status;
    while (waitpid(child, &ended, 0) < 0 && !tune_stopped)
        ;
    if (tune_stopped)
        return TUNE_STOPPED;
    const int its = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
    if (its == TUNE_GOOD || its == TUNE_NOISY) /* nothing was proved */
        return its == TUNE_GOOD ? TUNE_GOOD : status;
    fprintf(stderr, "fovea-tune: %s failed: %s %d\n", name, its < 0 ? "signal" : "exit status",
            its < 0 ? WTERMSIG(ended) : its);
    return TUNE_FAILED;
}
