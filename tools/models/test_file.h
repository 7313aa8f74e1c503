/* Files that tests of the readers write: whole ones, and safetensors files of any header, right or wrong. */
#ifndef MODELS_TEST_FILE_H
#define MODELS_TEST_FILE_H

#include "safetensors.h"
#include "test.h"

/* The option that names the folder for files, for test_begin(); default: the current one. */
#define TEST_FILE_OPTION                                                                                               \
    { "--folder", "FOLDER", "where to write files", NULL }

/* FOLDER/name; static, until the next call. */
const char *test_file_path(const test_option *options, const char *name);

/* Writes bytes; ends the program if that cannot be. */
void test_file_write(const char *path, const void *bytes, size_t count);

/* Writes a safetensors file: the header's length (claimed, or that of the header if claimed < 0), header, data. */
void test_file_write_safetensors(const char *path, int64_t claimed, const char *header, const void *data, size_t bytes);

/* Appends an array to a header that begins with "{" and to its data. */
void test_file_add(char *header, size_t size, const char *name, const char *dtype, int dims, const int64_t *shape,
                   int64_t begin, int64_t end);

#endif
