/* test_file.h. */
#include "test_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *test_file_path(const test_option *options, const char *name) {
    static char path[4096];
    const char *folder = test_option_value(options, "--folder");
    if (snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", name) >= (int)sizeof path)
        exit(TEST_USAGE);
    return path;
}

static void write_parts(const char *path, const void *const *parts, const size_t *sizes, int count) {
    FILE *file = fopen(path, "wb");
    bool good = file != NULL;
    for (int i = 0; good && i < count; i++)
        good = fwrite(parts[i], 1, sizes[i], file) == sizes[i];
    if (file == NULL || fclose(file) != 0 || !good) {
        fprintf(stderr, "%s cannot be written\n", path);
        exit(TEST_FAILED);
    }
}

void test_file_write(const char *path, const void *bytes, size_t count) { write_parts(path, &bytes, &count, 1); }

void test_file_write_safetensors(const char *path, int64_t claimed, const char *header, const void *data,
                                 size_t bytes) {
    const uint64_t length = claimed < 0 ? strlen(header) : (uint64_t)claimed;
    uint8_t prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (uint8_t)(length >> 8 * i);
    const void *const parts[] = {prefix, header, data};
    const size_t sizes[] = {sizeof prefix, strlen(header), bytes};
    write_parts(path, parts, sizes, 3);
}

void test_file_add(char *header, size_t size, const char *name, const char *dtype, int dims, const int64_t *shape,
                   int64_t begin, int64_t end) {
    size_t at = strlen(header);
    if (header[at - 1] == '}')
        header[--at] = 0;
    at += (size_t)snprintf(header + at, size - at, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", at > 1 ? "," : "", name,
                           dtype);
    for (int i = 0; i < dims; i++)
        at += (size_t)snprintf(header + at, size - at, "%s%lld", i > 0 ? "," : "", (long long)shape[i]);
    snprintf(header + at, size - at, "],\"data_offsets\":[%lld,%lld]}}", (long long)begin, (long long)end);
}
