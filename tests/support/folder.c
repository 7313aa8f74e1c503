/* Folders of tests (folder.h). */
#define _GNU_SOURCE /* nftw, mkdtemp */
#include "folder.h"

#include "test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h> /* where macOS has mkdtemp */

static void fail(const char *path) {
    perror(path);
    exit(TEST_FAILED);
}

void test_folder_begin(char folder[TEST_FOLDER]) {
    snprintf(folder, TEST_FOLDER, "%s/fovea-test-XXXXXX", P_tmpdir);
    if (!mkdtemp(folder) || chmod(folder, 0755) != 0)
        fail(folder);
}

void test_folder_put(const char *folder, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0755);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        fail(path);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

void test_folder_end(const char *folder) { nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); }
