/* reopen LIBRARY: opens the shared library, computes, and closes it, twice, as a plug-in or an interpreter does.
 * Threads that the library started outlive both. Exits with 77 where it starts none. */
#define _POSIX_C_SOURCE 200809L
#include <fovea/fovea.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { HEADS = 8, TOKENS = 200, CHANNELS = 32, FLOATS = HEADS * TOKENS * CHANNELS };

static float q[FLOATS], out[2][FLOATS];

static int threads_now(void) {
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 ? (int)tasks.st_nlink - 2 : -1;
}

static void rest(void) {
    const struct timespec time = {.tv_nsec = 100000000};
    nanosleep(&time, NULL);
}

static int compute(const char *path, float *result) {
    fovea_status (*sdpa)(const float *, const float *, const float *, float *, int64_t, int64_t, int64_t, int64_t,
                         int64_t, int64_t, int64_t, fovea_causal);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "fovea_sdpa_f32") : NULL;
    if (!symbol) {
        fprintf(stderr, "%s\n", dlerror());
        return 0;
    }
    memcpy(&sdpa, &symbol, sizeof sdpa);
    const fovea_status status =
        sdpa(q, q, q, result, 1, HEADS, HEADS, TOKENS, TOKENS, CHANNELS, CHANNELS, FOVEA_CAUSAL_NONE);
    return dlclose(library) == 0 && status == FOVEA_OK;
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    for (int i = 0; i < FLOATS; i++)
        q[i] = (float)(i * 37 % 101) / 101.0F;
    for (int i = 0; i < 2; i++) {
        if (!compute(argv[1], out[i]))
            return 1;
        rest(); /* a thread that is left without its code crashes within it */
    }
    if (memcmp(out[0], out[1], sizeof out[0]) != 0 || out[0][0] == 0.0F) {
        fprintf(stderr, "the second opening computes something else\n");
        return 1;
    }
    printf("%d threads\n", threads_now());
    return threads_now() == 1 ? 77 : 0;
}
