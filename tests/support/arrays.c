/* Recorded arrays (arrays.h). */
#include "arrays.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct head {
    char magic[8];
    int64_t count;
} head;

static head *file;

static void check(bool good, const char *name, const char *why) {
    if (!good) {
        fprintf(stderr, "%s/%s: %s\n", FOVEA_TESTS_DATA, name, why);
        exit(TEST_FAILED);
    }
}

int64_t test_arrays_read(const char *name) {
    char path[1024];
    long bytes = 0;
    snprintf(path, sizeof path, "%s/%s.arrays", FOVEA_TESTS_DATA, name);
    FILE *from = fopen(path, "rb");
    check(from && fseek(from, 0, SEEK_END) == 0 && (bytes = ftell(from)) >= (long)sizeof *file, name, "cannot be read");
    rewind(from);
    file = malloc((size_t)bytes);
    check(file && fread(file, 1, (size_t)bytes, from) == (size_t)bytes, name, "cannot be read");
    fclose(from);
    check(memcmp(file->magic, "fvarrays", sizeof file->magic) == 0, name, "are no arrays");
    return file->count;
}

const test_array *test_array_at(int64_t index) { return (const test_array *)(const void *)(file + 1) + index; }

const test_array *test_array_find(const char *name) {
    for (int64_t i = 0; i < file->count; i++)
        if (strcmp(test_array_at(i)->name, name) == 0)
            return test_array_at(i);
    return NULL;
}

int64_t test_array_count(const test_array *array) {
    return array->shape[0] * array->shape[1] * array->shape[2] * array->shape[3];
}

const void *test_array_data(const test_array *array) { return (const char *)file + array->at; }

const void *test_array_named(const char *name, const char *type, int64_t n) {
    const test_array *found = test_array_find(name);
    check(found, name, "is not recorded");
    check(strcmp(found->type, type) == 0, name, "has elements of another type");
    check(test_array_count(found) == n, name, "has another number of elements");
    return test_array_data(found);
}
